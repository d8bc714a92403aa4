"""`beacon rounds`: drand rounds without the service, or beside it: fetch, verify, carry in and out."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import click

from beacon import logs
from beacon.cli_common import Refused, directory_option, errors, json_option, print_json, until_told
from beacon.clock import SystemClock
from beacon.datadir import followed_chains, require_databases
from beacon.printing import say
from beacon.rounds.collect import Collected
from beacon.rounds.desk import PAGE, Checked, Desk, Imported
from beacon.rounds.lines import encode_line, known, read_lines
from beacon.rounds.rounds import Followed
from beacon.settings import load_settings
from verifier.drand import ChainInfo
from verifier.encoding import MAX_INTEGER

T = TypeVar("T")

MAX_RANGE: Final = 1_000_000
MAX_SHOWN: Final = 100
INCOMPLETE: Final = 3
_RANGE: Final = re.compile(r"([1-9][0-9]{0,15})-([1-9][0-9]{0,15})", re.ASCII)

ROUNDS_EPILOG: Final = """\b
Exit codes:
  0  every round that was asked for is there, or the command was told to stop
  1  a round does not verify, was signed twice, or could not be stored; the reason is on standard error
  2  wrong usage, settings or key files; nothing was done
  3  some rounds are not there, or not yet, or it was interrupted before its end; nothing is wrong, ask again later
"""


def parse_range(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """The two ends of a `--range`."""
    if value is None:
        return None
    match = _RANGE.fullmatch(value)
    if match is None or int(match[1]) > int(match[2]) or int(match[2]) > MAX_INTEGER:
        raise click.BadParameter("a range is A-B, with 1 <= A <= B")
    return int(match[1]), int(match[2])


def chain_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--chain`, the same for every command here."""
    return click.option(
        "--chain",
        "chain_name",
        metavar="NAME",
        show_default="all of them",
        help="A chain of the settings, by its name.",
    )(command)


def range_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--range`, the same for every command here."""
    return click.option("--range", "range_", metavar="A-B", callback=parse_range, help="Rounds A to B, both included.")(
        command
    )


@click.group(epilog=ROUNDS_EPILOG)
def main() -> None:
    """Fetch, verify and carry drand rounds, without the service or beside it.

    These commands may run while the service does: log.db has one writer, so what they bring is left in the folder
    rounds-in of the data directory, from where the service takes it in at its next wake and verifies it again. When no
    service runs, they take it in themselves.
    """
    logs.configure("warning", "console")


@main.command(epilog=ROUNDS_EPILOG)
@directory_option
@chain_option
@click.option("--due", is_flag=True, help="The rounds that open sessions need and whose time has come. The default.")
@click.option("--round", "round_", metavar="N", type=click.IntRange(1, MAX_INTEGER), help="One round.")
@range_option
@click.option("--once/--follow", default=True, show_default="--once", help="One pass, or until all of it is there.")
@json_option
def fetch(
    directory: Path,
    chain_name: str | None,
    due: bool,
    round_: int | None,
    range_: tuple[int, int] | None,
    once: bool,
    as_json: bool,
) -> None:
    """Fetch rounds from the relays of the settings, verify and store them.

    For cron and systemd timers: a round that is stored is not asked for again, and none before its time. A round that
    is late is asked for again for about a period of the chain. With --follow, --round and --range wait for rounds to
    come and end when all are there; --due goes on until it is told to stop.
    """
    if due + (round_ is not None) + (range_ is not None) > 1:
        raise click.UsageError("--due, --round and --range exclude each other")
    numbers = range(round_, round_ + 1) if round_ is not None else None
    if range_ is not None:
        numbers = range(range_[0], range_[1] + 1)
        if len(numbers) > MAX_RANGE:
            raise click.UsageError(f"a range has at most {MAX_RANGE} rounds")

    async def work(desk: Desk, names: list[str]) -> _Fetched:
        if numbers is not None and len(names) != 1:
            raise click.UsageError(f"name a --chain: {', '.join(names)}")
        if numbers is not None and numbers[-1] > (final := desk.chains[names[0]].chain.final_round):
            raise click.UsageError(f"{names[0]} has rounds 1 to {final}")
        pursuit = _Pursuit(desk, names, numbers)
        if once:
            await pursuit.one_pass()
            pursuit.absorbed = await desk.absorb()
        else:
            await until_told(pursuit.follow())
        return _Fetched(pursuit.last, pursuit.absorbed, sorted(desk.twice))

    fetched = _at_desk(directory, chain_name, work)
    _report_fetch(fetched, as_json=as_json)
    if fetched.twice:
        raise click.exceptions.Exit(1)
    if once and not fetched.complete:
        raise click.exceptions.Exit(INCOMPLETE)


@main.command(epilog=ROUNDS_EPILOG)
@directory_option
@chain_option
@range_option
@json_option
def verify(directory: Path, chain_name: str | None, range_: tuple[int, int] | None, as_json: bool) -> None:
    """Verify the stored rounds again, many at a time. It changes nothing."""
    first, last = range_ or (1, MAX_INTEGER)

    async def work(desk: Desk, names: list[str]) -> list[tuple[str, Checked]]:
        checked = []
        for name in names:
            chain = desk.chains[name].chain
            held = await desk.archive.held(chain.hash)
            checked.append((name, await desk.verify(chain, first, last, progress_of(name, held.count))))
        return checked

    checked = _at_desk(directory, chain_name, work)
    ok = not any(found.bad or found.twice for _, found in checked)
    if as_json:
        print_json({"chains": [_checked(name, found) for name, found in checked], "ok": ok})
    else:
        for name, found in checked:
            say(f"{name}: {found.rounds} rounds, {len(found.bad)} do not verify")
            for number, why in list(found.bad.items())[:MAX_SHOWN]:
                say(f"DAMAGED {name} round {number}: {why}")
            for number in found.twice:
                say(f"BROKEN {name} round {number} was signed twice, differently")
    if not ok:
        raise click.exceptions.Exit(1)


@main.command(name="import", epilog=ROUNDS_EPILOG)
@click.argument("file", type=click.File("rb"))
@directory_option
@chain_option
@json_option
def import_(file: IO[bytes], directory: Path, chain_name: str | None, as_json: bool) -> None:
    """Verify the rounds of FILE (JSON lines; - is standard input) and store them.

    A line is {"chain": "<hash>", "round": 1, "signature": "<hex>"}, with "previous_signature" on chained schemes. What
    drand's API answers is taken too: with --chain, "chain" may be missing. It ends at the first line that is no round.
    """

    async def work(desk: Desk, names: list[str]) -> tuple[Imported, bool, list[tuple[str, int]]]:
        chains = [desk.chains[name].chain for name in names]
        default = chains[0] if chain_name is not None else None
        found = await desk.take(read_lines(file, known(chains), default), progress_of("import", None))
        return found, await desk.absorb(), sorted(desk.twice)

    found, absorbed, twice = _at_desk(directory, chain_name, work)
    ok = not found.bad and found.stopped is None and not twice
    if as_json:
        bad = [{"chain": chain, "round": number, "reason": why} for chain, number, why in found.bad[:MAX_SHOWN]]
        counts = {"new": found.new, "known": found.known, "refused": len(found.bad)}
        result = {"bad": bad, "stopped": found.stopped, "twice": _twice(twice), "handed_over": not absorbed, "ok": ok}
        print_json(counts | result)
    else:
        say(f"{found.new} new, {found.known} there already, {len(found.bad)} refused{_handed_over(absorbed)}")
        for _, number, why in found.bad[:MAX_SHOWN]:
            say(f"refused round {number}: {why}", err=True)
        if found.stopped is not None:
            say(f"stopped at {found.stopped}", err=True)
        _say_twice(twice)
    if not ok:
        raise click.exceptions.Exit(1)


@main.command(epilog=ROUNDS_EPILOG)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@directory_option
@chain_option
@range_option
def export(file: Path, directory: Path, chain_name: str | None, range_: tuple[int, int] | None) -> None:
    """Write the stored rounds to FILE as JSON lines (- is standard output), for `beacon rounds import` elsewhere.

    An existing file is not overwritten, and one that could not be finished is removed.
    """
    first, last = range_ or (1, MAX_INTEGER)
    if file.exists():
        raise Refused(f"{file} exists, and is not overwritten")

    async def work(desk: Desk, names: list[str]) -> int:
        chains = [desk.chains[name].chain for name in names]
        with _output(file) as out:
            return await _write(desk, chains, first, last, out)

    count = _at_desk(directory, chain_name, work)
    say(f"{count} rounds", err=True)


@contextmanager
def _output(file: Path) -> Iterator[IO[Any]]:
    """Standard output for "-", else a new file that is removed again if it cannot be finished."""
    if str(file) == "-":
        with click.open_file("-", "wb") as out:
            yield out
        return
    with file.open("xb") as out:
        try:
            yield out
            out.flush()
        except BaseException:
            file.unlink(missing_ok=True)
            raise


async def _write(desk: Desk, chains: Sequence[ChainInfo], first: int, last: int, out: IO[Any]) -> int:
    count = 0
    for chain in chains:
        start = first
        while page := await desk.archive.page(chain.hash, start, last, PAGE):
            out.write(b"".join(encode_line(chain, stated) for stated in page))
            count, start = count + len(page), page[-1].round + 1
    return count


@dataclass(frozen=True)
class _Fetched:
    """What `fetch` did, by the names of the chains. twice: chain hash and round of what was signed twice."""

    chains: dict[str, Collected]
    absorbed: bool
    twice: list[tuple[str, int]]

    @property
    def complete(self) -> bool:
        return all(found.complete for found in self.chains.values())


class _Pursuit:
    """Rounds of one or more chains, until they are there."""

    def __init__(self, desk: Desk, names: list[str], numbers: Sequence[int] | None) -> None:
        """numbers: of the one chain; None: what open sessions need."""
        self.last: dict[str, Collected] = {}
        self.absorbed = True
        self._desk = desk
        self._names = names
        self._numbers = numbers

    async def one_pass(self) -> None:
        """Ask for all of it; what sessions need later is no part of it."""
        for name in self._names:
            chain = self._desk.chains[name].chain
            numbers = self._numbers
            if numbers is None:
                current = chain.current(self._desk.clock.now())
                numbers = [number for number in await self._desk.archive.needed(chain.hash) if number <= current]
            self.last[name] = await self._desk.fetch(chain, numbers, progress_of(name, len(numbers)))

    async def follow(self) -> None:
        """Pass after pass: until all is there, or for what sessions need, for good."""
        while True:
            await self.one_pass()
            self.absorbed = await self._desk.absorb()
            if self._numbers is not None and all(found.complete for found in self.last.values()):
                return
            await asyncio.sleep(self._pause() / 1000)

    def _pause(self) -> int:
        """Ms to when the next round of any of the chains is asked for."""
        now, policy = self._desk.clock.now(), self._desk.policy
        chains = [self._desk.chains[name].chain for name in self._names]
        coming = (chain.time(chain.current(now) + 1) + policy.lead_of(chain) - now for chain in chains)
        return max(200, min(coming))


def _at_desk(directory: Path, chain_name: str | None, work: Callable[[Desk, list[str]], Coroutine[Any, Any, T]]) -> T:
    """Run `work` with the rounds of a data directory and the names of the chains that it is about."""

    async def run() -> T:
        async with _desk(directory) as desk:
            if chain_name is not None and chain_name not in desk.chains:
                raise Refused(f"there is no chain {chain_name!r}; there are {', '.join(desk.chains)}")
            return await work(desk, list(desk.chains) if chain_name is None else [chain_name])

    with errors():
        try:
            return asyncio.run(run())
        except KeyboardInterrupt:
            say("interrupted before its end; what was done stays", err=True)
            raise click.exceptions.Exit(INCOMPLETE) from None


@asynccontextmanager
async def _desk(directory: Path) -> AsyncIterator[Desk]:
    settings = load_settings(directory)
    require_databases(settings)
    infos = followed_chains(settings)
    chains = {chain.name: Followed(infos[chain.name], tuple(chain.relays)) for chain in settings.chains}
    async with Desk.open(chains, settings.log_db, settings.spool, SystemClock()) as desk:
        yield desk


def _report_fetch(fetched: _Fetched, *, as_json: bool) -> None:
    if as_json:
        chains = [_collected(name, found) for name, found in fetched.chains.items()]
        result = {"complete": fetched.complete, "twice": _twice(fetched.twice), "handed_over": not fetched.absorbed}
        print_json({"chains": chains} | result)
        return
    for name, found in fetched.chains.items():
        say(
            f"{name}: {found.fetched} fetched, {found.known} there already, {len(found.not_due)} not due,"
            f" {len(found.missing)} missing{_handed_over(fetched.absorbed)}"
        )
        for number, why in list(found.missing.items())[:MAX_SHOWN]:
            say(f"{name} round {number}: {why}", err=True)
    _say_twice(fetched.twice)


def _twice(twice: list[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"chain": chain, "round": number} for chain, number in twice]


def _say_twice(twice: list[tuple[str, int]]) -> None:
    for chain, number in twice:
        say(f"BROKEN round {number} of chain {chain} was signed twice, differently", err=True)


def _collected(name: str, found: Collected) -> dict[str, Any]:
    return {
        "name": name,
        "chain": found.chain.hash.hex(),
        "fetched": found.fetched,
        "known": found.known,
        "not_due": len(found.not_due),
        "missing": len(found.missing),
        "reasons": {str(number): why for number, why in list(found.missing.items())[:MAX_SHOWN]},
    }


def _checked(name: str, found: Checked) -> dict[str, Any]:
    return {
        "name": name,
        "chain": found.chain.hash.hex(),
        "rounds": found.rounds,
        "bad": {str(number): why for number, why in list(found.bad.items())[:MAX_SHOWN]},
        "damaged": len(found.bad),
        "twice": found.twice,
    }


def _handed_over(absorbed: bool) -> str:
    return "" if absorbed else "; handed over to the running service"


def progress_of(name: str, total: int | None) -> Callable[[Collected], None]:
    """Shows how far it is, on standard error: each second on a terminal, else each ten; nothing where it is short."""
    terminal = sys.stderr.isatty()
    interval = 1.0 if terminal else 10.0
    shown = time.monotonic()

    def show(found: Collected) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown < interval:
            return
        shown = now
        of = "" if total is None else f" of {total}"
        say(f"{name}: {found.done}{of} rounds, {len(found.missing)} missing", err=True)

    return show
