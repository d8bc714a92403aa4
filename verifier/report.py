"""A verdict for people: the headline first, then claim by claim, in plain text (colour where a terminal is)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from verifier.encoding import Json, encode_json
from verifier.verdict import UNKNOWABLE, State, Verdict

Paint: Final = {State.PROVEN: "green", State.TRUSTED: "yellow", State.UNKNOWN: "cyan", State.FAILED: "red"}
MAX_FINDINGS: Final = 20
MAX_OUTCOMES: Final = 40
MAX_WIDTH: Final = 100

Style = Callable[[str, str], str]


def plain(text: str, _: str) -> str:
    return text


def lines(verdict: Verdict, trusted: Iterable[str], style: Style = plain) -> Iterator[str]:
    """The lines of a verdict. trusted: what the verifier was given, one line each; style(text, colour)."""
    colour = {0: "green", 1: "red"}.get(int(verdict.exit), "yellow")
    yield style(verdict.headline, colour)
    yield ""
    for claim in verdict.claims:
        yield f"  {style(f'{claim.state:<8}', Paint[claim.state])} {claim.name:<14} {claim.text}"
    yield from _findings(verdict)
    if verdict.remarks:
        yield from ("", "Remarks", *(f"  {remark}" for remark in verdict.remarks))
    if verdict.session:
        draws: Any = verdict.session["draws"]
        yield from _outcomes("Drawn", verdict.session["outcomes"], sum(draws.values()))
        yield from _outcomes("What the round would have given", verdict.session["would_have_been"])
    if verdict.session:
        yield ""
        yield f"Session {verdict.session['session']}"
        kept = ("host", "host_seq", "label", "profile", "custody")
        yield "  " + ", ".join(f"{name} {encode_json([verdict.session[name]]).decode()[1:-1]}" for name in kept)
    yield ""
    yield from trusted
    yield UNKNOWABLE


def _findings(verdict: Verdict) -> Iterator[str]:
    found = [finding for claim in verdict.claims for finding in claim.findings]
    if not found:
        return
    yield from ("", "Findings")
    for finding in found[:MAX_FINDINGS]:
        where = f", entry {finding.index}" if finding.index is not None else ""
        yield f"  {finding.claim}, rule {finding.rule}{where}: {finding.text}"
    if len(found) > MAX_FINDINGS:
        yield f"  and {len(found) - MAX_FINDINGS} more (--json has all)"


def _outcomes(title: str, rows: Json, total: int | None = None) -> Iterator[str]:
    if not isinstance(rows, list) or not rows:
        return
    count = len(rows) if total is None else total
    yield from ("", f"{title} ({count})")
    yield from (f"  {outcome_row(row)}" for row in rows[:MAX_OUTCOMES])
    if count > MAX_OUTCOMES:
        yield f"  and {count - MAX_OUTCOMES} more (--json shows up to 10,000)"


def outcome_row(row: Any) -> str:
    """One draw: recipe, number, outcome, purpose."""
    text = encode_json([row["outcome"]]).decode()[1:-1]
    shown = text if len(text) <= MAX_WIDTH else text[: MAX_WIDTH - 3] + "..."
    purpose = f"  {encode_json([row['purpose']]).decode()[1:-1]}" if row["purpose"] else ""
    return f"{row['recipe']} {row['n']}: {shown}{purpose}"
