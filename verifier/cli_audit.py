"""`verifier audit`, `check-db` and `fork`: whole logs, followed and judged, and the evidence against them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from verifier import fetch
from verifier.audit import held, sources
from verifier.audit.forks import Fork
from verifier.audit.gossip import Gossip
from verifier.audit.keeping import check as check_state
from verifier.audit.keeping import opened
from verifier.audit.report import Summary, summary
from verifier.audit.run import Audit
from verifier.audit.state import Found, State
from verifier.check import Trust
from verifier.cli_common import (
    JSON,
    LOG_KEY,
    PROGRESS_SECONDS,
    by_hash,
    leave,
    named,
    print_json,
    read,
    say,
    stopped_by_sigterm,
)
from verifier.errors import FormatError, VerificationError
from verifier.log_keys import LogKey, LogKeys, LogTrust
from verifier.note import ED25519
from verifier.policy import MAX_POLICY_BYTES, Policy
from verifier.terminal import printable
from verifier.verdict import Exit

DEFAULT_INTERVAL: Final = 30
MAX_SHOWN: Final = 100

_CHAINS = click.option(
    "--chain", "chains", multiple=True, metavar="FILE|NAME", help="A drand chain to trust, again for more."
)
_POLICY = click.option(
    "--policy", type=click.Path(), help="The witnesses to trust, and their quorum (C2SP tlog-policy)."
)
_RECEIPTS = click.option(
    "--receipt", "receipts", multiple=True, metavar="FILE", help="A receipt to hold against the log, again for more."
)
_JOBS = click.option(
    "--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, show_default="one a core",
    help="Processes that judge sessions of long logs.",
)  # fmt: skip
_LINES = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line, instead of text.")


@dataclass(slots=True)
class Shower:
    """Prints what is found as it comes, in lines of text or JSON."""

    as_json: bool
    shown: int = 0
    grave: int = 0

    def tell(self, found: Found) -> None:
        self.grave += found.grave
        self.shown += 1
        if self.as_json:
            print_json(found.as_dict())
        elif self.shown <= MAX_SHOWN:
            say(_line(found))

    def conclude(self, told: Summary) -> None:
        if self.as_json:
            for host in told.hosts():
                print_json(host)
            print_json(told.as_dict())
            return
        if self.shown > MAX_SHOWN:
            say(f"and {self.shown - MAX_SHOWN} more (--json has all)")
        say(*told.lines())


def _line(found: Found) -> str:
    where = "" if found.index is None else f", entry {found.index}"
    whose = "" if found.session is None else f" (session {found.session[:16]}{f' of {found.host}' * bool(found.host)})"
    return f"{'FINDING' if found.grave else 'note'} {found.claim}, rule {found.rule}{where}: {found.text}{whose}"


def _trust(log_key: LogTrust | None, chains: Sequence[str], policy: str | None) -> Trust:
    with named("--chain"):
        trusted = {name: fetch.load_chain(name) for name in chains} if chains else fetch.main_chains()
    with named("--policy"):
        witnesses = Policy.parse(fetch.read_file(policy, MAX_POLICY_BYTES)) if policy is not None else None
    logs = witnesses.logs if witnesses is not None else ()
    if log_key is None and len({key.name for key in logs if key.type == ED25519}) == 1:
        log_key = LogKeys(tuple(LogKey(key) for key in logs if key.type == ED25519))
    return Trust(log_key=log_key, chains=by_hash(trusted), policy=witnesses, sandbox=True)


@click.command()
@click.argument("url")
@click.option(
    "--state", "directory", required=True, type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="Where to keep what was seen, and evidence. Made if it is not there.",
)  # fmt: skip
@LOG_KEY
@_CHAINS
@_POLICY
@_RECEIPTS
@click.option("--compare", "others", multiple=True, metavar="URL", help="Another vantage point of the same log.")
@click.option("--alone", is_flag=True, help="Do not ask the policy's witnesses, nor tell them.")
@click.option("--follow", is_flag=True, help="Go on for ever; end with 1 as soon as something grave is new.")
@click.option(
    "--interval", type=click.FloatRange(0.1), default=DEFAULT_INTERVAL, show_default=True, metavar="SECONDS",
    help="How long --follow rests between two looks.",
)  # fmt: skip
@_JOBS
@_LINES
def audit(
    url: str,
    directory: Path,
    log_key: LogTrust | None,
    chains: tuple[str, ...],
    policy: str | None,
    receipts: tuple[str, ...],
    others: tuple[str, ...],
    alone: bool,
    follow: bool,
    interval: float,
    jobs: int,
    as_json: bool,
) -> None:
    """Follow a whole log: every leaf, every session, every host's account.

    URL is a service or its log. Tiles are authenticated before they are used; the log must be the one seen before,
    grown; each session is verified as `check` does. Beyond that an auditor sees what one transcript cannot show: a
    second close or call, a round's signature below an anchor, seeds, commitments and contributions used twice, gaps in
    a host's numbers. It goes on where it stopped. A fork is kept as a file, for `verifier fork`. With --policy, the
    witnesses that have an address there are asked what they have seen of the log and handed its newest checkpoint.

    Exit 0: nothing grave. 1: something grave, now or before. 2: no log key, or a session of a chain that was not given.
    3: unusable.

    \b
    Examples:
      verifier audit https://beacon.example --state audit --log-key log.vkey
      verifier audit https://beacon.example --state audit --log-key log.vkey --follow --json
      verifier audit https://beacon.example --state audit --log-key log.vkey --compare https://mirror.example/log
    """
    trust, shower = _trust(log_key, chains, policy), Shower(as_json)
    beside = _Beside(_held(receipts), others, alone)
    with opened(directory) as state, stopped_by_sigterm():
        _show_kept(shower, state)
        known = shower.grave
        auditor = Audit(state, trust, directory, jobs, _progress(url), shower.tell)
        failed = _look(auditor, url, beside)
        while follow and failed is None and shower.grave == known:
            time.sleep(interval)
            try:
                failed = _look(auditor, url, beside)
            except FormatError as error:
                say(f"not now: {error.message}", err=True)
        _conclude(shower, state, trust, failed, directory)
        leave(Exit.FAILED if failed is not None else auditor.exit())


@click.command(name="check-db")
@click.argument("file", type=click.Path(), metavar="LOG.db")
@LOG_KEY
@_CHAINS
@_POLICY
@_RECEIPTS
@click.option(
    "--state", "directory", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
    help="Keep what was seen there, to compare with later files, or with the log at its address.",
)  # fmt: skip
@_JOBS
@_LINES
def check_db(
    file: str,
    log_key: LogTrust | None,
    chains: tuple[str, ...],
    policy: str | None,
    receipts: tuple[str, ...],
    directory: Path | None,
    jobs: int,
    as_json: bool,
) -> None:
    """Audit a log's database file, such as /log/log.db of a service.

    As `audit`, from the file alone: of its tables only entries, checkpoints and, with --policy, what witnesses say of
    these are read, and every entry is compared with the newest checkpoint before it is used. With --state it must be
    the log that was seen before, grown.
    Exit codes are those of `audit`.

    \b
    Examples:
      verifier check-db log.db --log-key log.vkey
      verifier check-db log.db --log-key log.vkey --state audit --json
    """
    trust, shower, mine = _trust(log_key, chains, policy), Shower(as_json), _held(receipts)
    with sources.of_database(file) as source, opened(directory) as state, stopped_by_sigterm():
        _show_kept(shower, state)
        auditor = Audit(state, trust, directory, jobs, _progress(file), shower.tell)
        failed = _failing(lambda: _audited(auditor, source, mine))
        _conclude(shower, state, trust, failed, directory)
        leave(Exit.FAILED if failed is not None else auditor.exit())


@click.command()
@click.argument("file")
@LOG_KEY
@JSON
def fork(file: str, log_key: LogTrust | None, as_json: bool) -> None:
    """Check the evidence that a log has shown two histories, as `audit` keeps it.

    FILE holds two checkpoints and the proof that the later one's tree does not begin with the earlier one's. Exit 0: it
    is proven, the log's key signed both. 1: it is not. 2: without the key nothing is proven. 3: unusable.

    \b
    Examples:
      verifier fork audit/fork-120-130-6ff0e9c1a2b3.json --log-key log.vkey
    """
    evidence = Fork.parse(read(file))
    older, newer = evidence.older.checkpoint, evidence.newer.checkpoint
    failed = _failing(lambda: evidence.check(log_key))
    told: dict[str, Any] = {"origin": older.origin, "older": older.size, "newer": newer.size}
    if failed is not None:
        code, text = Exit.FAILED, f"Not proven: {failed}."
    elif log_key is None:
        code, text = Exit.UNDECIDED, "The two checkpoints do not agree; whether the log signed them was not checked."
    else:
        code = Exit.FAIR
        text = f"PROVEN: the log {older.origin} signed two histories, of {older.size} and of {newer.size} entries."
    if as_json:
        print_json({**told, "proven": code == Exit.FAIR, "text": text})
    else:
        say(text)
    leave(code)


def _conclude(shower: Shower, state: State, trust: Trust, failed: str | None, directory: Path | None) -> None:
    """Say what came of it; but a damaged state accuses nobody."""
    if shower.grave or failed is not None or state.get("undecided"):
        check_state(state, directory)
    shower.conclude(summary(state, trust, failed))


def _show_kept(shower: Shower, state: State) -> None:
    """Print what earlier audits found."""
    for found in state.found():
        shower.tell(found)


@dataclass(frozen=True, slots=True)
class _Beside:
    """What a log is compared with: receipts (file, bytes), other vantage points, and, unless alone, the witnesses."""

    receipts: tuple[tuple[str, bytes], ...]
    others: tuple[str, ...] = ()
    alone: bool = True


def _held(files: Sequence[str]) -> tuple[tuple[str, bytes], ...]:
    with named("--receipt"):
        return tuple((Path(file).name, fetch.read_file(file)) for file in files)


def _audited(auditor: Audit, source: sources.Source, receipts: Sequence[tuple[str, bytes]]) -> bool:
    goes_on = auditor.run(source)
    for name, data in receipts if goes_on else ():
        held.compare(auditor, source, name, data)
    return goes_on


def _look(auditor: Audit, url: str, beside: _Beside) -> str | None:
    def look() -> None:
        source = sources.of_address(url, fetch.download)
        goes_on = _audited(auditor, source, beside.receipts)
        for other in beside.others:
            auditor.compare(sources.of_address(other, fetch.download))
        if goes_on and not beside.alone:
            Gossip(auditor, source, lambda: sources.of_address(url, fetch.download)).run()

    return _failing(look)


def _failing(act: Callable[[], object]) -> str | None:
    """Why the log does not stand by what it signed; None if it does."""
    try:
        act()
    except VerificationError as error:
        return error.message
    return None


def _progress(name: str, clock: Callable[[], float] = time.monotonic) -> Callable[[int, int], None]:
    """Says on standard error how far it is, how fast and how long it may take: on a terminal often, else seldom."""
    name, every = printable(name), 1 if sys.stderr.isatty() else PROGRESS_SECONDS
    begun = last = clock()
    first: int | None = None

    def show(done: int, of: int) -> None:
        nonlocal begun, last, first
        now = clock()
        if first is None or done < first:
            begun, first = now, done
        if now - last < every or done == first:
            return
        last = now
        rate = (done - first) / max(now - begun, 1e-6)
        left = (of - done) / max(rate, 1e-6)
        click.echo(f"{name}: {done:,} of {of:,} entries, {rate:,.0f} a second, about {left:,.0f} s left", err=True)

    return show
