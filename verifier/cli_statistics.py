"""`verifier statistics`: counts of a session's or a whole log's dice, and the exact odds of a game."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from verifier import fetch, whole_log
from verifier.audit.sources import log_prefix
from verifier.cli_common import JSON, LOG_KEY, leave, print_json, progress, read, say
from verifier.encoding import Json
from verifier.errors import Code, FormatError, VerificationError
from verifier.evidence import LogClaim
from verifier.log_keys import LogTrust
from verifier.statistics import charts, figures, odds
from verifier.statistics.counts import Counter
from verifier.statistics.page import html_page
from verifier.tiles import TILE_WIDTH
from verifier.transcript import parse_transcript
from verifier.verdict import Exit, State

DEFAULT_ROLLS: Final = 25
MOST_GAMES: Final = 1_000_000
_SESSION: Final = re.compile(
    r"(?P<base>https?://[^?#]*?)/(?:v1/sessions|s)/(?P<session>[0-9a-f]{64})(?:/transcript)?/?"
)


@dataclass(frozen=True, slots=True)
class Source:
    """What was read. covers: a sentence on what vouches for the entries; session: whether it is one session alone."""

    name: str
    covers: str
    session: bool
    failed: str | None = None


@click.command()
@click.argument("source", metavar="[FILE|URL|LOG.db]", required=False)
@LOG_KEY
@click.option("--host", metavar="NAME", help="Count the sessions of this host alone.")
@click.option("--recipe", metavar="NAME", help="Count the draws of recipes of this name alone.")
@click.option("--sandbox", is_flag=True, help="Count test sessions, and no others.")
@click.option(
    "--rolls", type=click.IntRange(1, odds.MAX_ROLLS), metavar="N",
    help=f"Rolls a player has in a game, 1 to {odds.MAX_ROLLS:,}. Default: half of a session's, else {DEFAULT_ROLLS}.",
)  # fmt: skip
@click.option(
    "--games", type=click.IntRange(1, MOST_GAMES), default=20, show_default=True, metavar="N",
    help="How many games of that length to give odds for.",
)  # fmt: skip
@click.option("--svg", type=click.Path(file_okay=False), metavar="DIR", help="Write each drawing there as an SVG file.")
@click.option("--html", type=click.Path(dir_okay=False), metavar="FILE", help="Write all of it as one HTML page.")
@JSON
def statistics(
    source: str | None,
    log_key: LogTrust | None,
    host: str | None,
    recipe: str | None,
    sandbox: bool,
    rolls: int | None,
    games: int,
    svg: str | None,
    html: str | None,
    as_json: bool,
) -> None:
    """Count what dice showed, and say what chance does in a game of that length.

    The source is a transcript (or - for standard input), the address of a session, a log's database, or the address of
    a service or of its log, which is then read whole, tile by tile. Without one there are only the odds.

    Faces, ordered pairs and doubles are counted; p-values are of Pearson's chi-square and of exact binomial tails, that
    of the largest deviation corrected by Bonferroni; odds of streaks are exact. Entries are compared with the log's
    checkpoint, and its signature with --log-key. Whether each draw is right, `verifier check` says; and no count can
    exclude chosen seeds. Exit 0: counted. 1: the entries are not those of the signed log. 2: no dice. 3: unusable.

    \b
    Examples:
      verifier statistics transcript.json
      verifier statistics log.db --log-key log.vkey --host club --html club.html
      verifier statistics https://beacon.example --log-key log.vkey --svg drawings
      verifier statistics --rolls 25 --games 20
    """
    counter = Counter(
        lambda seal: "" if seal.sandbox == sandbox and host in {None, seal.host} else None,
        recipe,
    )
    told = _read(source, log_key, counter) if source is not None else None
    counts = counter.total()
    rolled = max((dice.rolls for dice in counts.dice.values() if dice.kind.has_pairs), default=0)
    length = rolls or (min(-(-rolled // 2), odds.MAX_ROLLS) if told is not None and told.session else 0)
    found = [*figures.of_counts(counts), *figures.of_game(odds.expect(length or DEFAULT_ROLLS, games))]
    lines = [*_lines(told, counter, sandbox=sandbox)] if told is not None else []
    if svg is not None:
        _write_drawings(Path(svg), found)
    if html is not None:
        _write(Path(html), html_page("What the dice showed" if told is not None else "What dice do", lines, found))
    if as_json:
        print_json({"source": _as_dict(told, counter), "figures": [figure.as_dict() for figure in found]})
    else:
        say(*_text(lines, found))
    if told is not None:
        leave(Exit.FAILED if told.failed else Exit.FAIR if counts.rolls else Exit.UNDECIDED)


def _read(source: str, log_key: LogTrust | None, counter: Counter) -> Source:
    session = _SESSION.fullmatch(source)
    if session is not None:
        address = f"{session['base']}/v1/sessions/{session['session']}/transcript"
        return _of_transcript(source, fetch.download(address), log_key, counter)
    if fetch.is_url(source):
        return _of_log(source, nullcontext(whole_log.of_tiles(log_prefix(source), fetch.download)), log_key, counter)
    if whole_log.is_database(source):
        return _of_log(source, whole_log.of_database(source), log_key, counter)
    return _of_transcript(source, read(source), log_key, counter)


def _of_transcript(name: str, data: bytes, log_key: LogTrust | None, counter: Counter) -> Source:
    transcript = parse_transcript(data)
    for event in transcript.events:
        counter.take(event.data)
    claim = LogClaim(transcript, None, log_key, None).claim()
    failed = claim.text if claim.state == State.FAILED else None
    return Source(name, f"The log: {claim.text}.", session=True, failed=failed)


def _of_log(
    name: str, opened: AbstractContextManager[whole_log.WholeLog], log_key: LogTrust | None, counter: Counter
) -> Source:
    show = progress(name)
    with opened as log:
        for entry in log.entries():
            counter.take(entry)
            if counter.entries % TILE_WIDTH == 0 or counter.entries == log.size:
                show(counter.entries, log.size)
        try:
            log.check(log_key)
        except VerificationError as error:
            return Source(name, f"The log: {error.message}.", session=False, failed=error.message)
    signed = "signed by the given key" if log_key is not None else "whose signature was not checked (--log-key)"
    return Source(name, f"The {log.size:,} entries are all that the log's checkpoint covers, {signed}.", session=False)


def _lines(source: Source, counter: Counter, *, sandbox: bool) -> Iterator[str]:
    counts = counter.total()
    yield (
        f"{source.name}: {counter.entries:,} entries, {counts.sessions:,} {'test ' * sandbox}sessions counted, "
        f"{counts.rolls:,} rolls of dice, {counts.others:,} draws of other kinds."
    )
    yield ("FAILED. " if source.failed else "") + source.covers
    left = {
        "sessions left out (another host, or tests; see --host and --sandbox)": counter.left_out,
        "draws not counted, for they fit no number or recipe of their seal": counts.irregular,
        "draws not counted, for their session's seal was not read before them, or it had ended": counter.strays,
        "entries that are none of the protocol": counter.unread,
    }
    yield from (f"{number:,} {what}." for what, number in left.items() if number)


def _as_dict(source: Source | None, counter: Counter) -> Json:
    if source is None:
        return None
    counts = counter.total()
    return {
        "name": source.name,
        "log": source.covers,
        "failed": source.failed,
        "entries": counter.entries,
        "sessions": counts.sessions,
        "rolls": counts.rolls,
        "other_draws": counts.others,
        "left_out": counter.left_out,
        "irregular": counts.irregular,
        "strays": counter.strays,
        "unread": counter.unread,
        "caveat": figures.CAVEAT,
    }


def _text(lines: Iterable[str], found: Iterable[figures.Figure]) -> Iterator[str]:
    yield from lines
    yield figures.CAVEAT
    for figure in found:
        yield from ("", figure.title, f"  {figure.result}", f"  {figure.shows}", "")
        yield from (f"    {line}" for line in figures.table_lines(figure))


def _write_drawings(directory: Path, found: Iterable[figures.Figure]) -> None:
    with _writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
    for figure in found:
        if figure.svg is not None:
            _write(directory / f"{figure.name}.svg", charts.alone(figure.svg))


def _write(path: Path, text: str) -> None:
    with _writing(path):
        path.write_text(text, encoding="utf-8")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FormatError(Code.USAGE, f"cannot write {path}: {error.strerror}") from error
