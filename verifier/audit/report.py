"""What an audit says at its end: the log's size, its sessions, its hosts, and the conclusion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from verifier.audit import dice
from verifier.audit.state import State
from verifier.audit.witnessing import Witnessing
from verifier.check import Trust
from verifier.encoding import Json
from verifier.statistics import figures
from verifier.statistics.counts import Counts
from verifier.transcript import SignedCheckpoint

_TOLD = (
    "origin",
    "size",
    "ended",
    "fair",
    "proven",
    "open",
    "overdue",
    "findings",
    "notes",
    "undecided",
    "quorum",
    "locked",
    "failed",
)
_COUNTED = {
    "late": "late",
    "replaced": "re-run of earlier ones",
    "labels_used_twice": "labels used twice",
    "contributions_used_twice": "contributions used twice",
    "gaps": "gaps in its numbers",
    "duplicates": "numbers used twice",
}


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts over all audits of the state. overdue: open sessions past reveal_by and its grace, by the log's time.

    ended: revealed and void; fair: of those; proven: of those, without the operator's word.
    witnesses: of the policy, that cosigned the newest checkpoint audited.
    locked: ended ones whose timelock's round has not come.
    gossip: what came of each witness, as of gossip.Result. failed: why the log does not stand by its own checkpoint.
    dice: of each host, of ended sessions; test_dice: of test sessions. dice_from: the index from which on they are
    counted, where an older version audited what is below it.
    """

    origin: str | None
    size: int
    ended: int
    fair: int
    proven: int
    open: int
    overdue: int
    findings: int
    notes: int
    undecided: int
    why: str | None
    witnesses: tuple[str, ...]
    quorum: bool
    key_given: bool
    locked: int
    failed: str | None
    gossip: dict[str, str] = field(default_factory=dict)
    accounts: dict[str, dict[str, Any]] = field(default_factory=dict)
    dice: dict[str, Counts] = field(default_factory=dict)
    test_dice: dict[str, Counts] = field(default_factory=dict)
    dice_from: int = 0

    def as_dict(self) -> dict[str, Json]:
        return {
            "kind": "summary",
            **{name: getattr(self, name) for name in _TOLD},
            "witnesses": list(self.witnesses),
            "gossip": dict(self.gossip),
            "dice": dice.as_dict(self.all_dice()),
            "dice_from": self.dice_from,
            "caveat": figures.CAVEAT,
        }

    def all_dice(self) -> Counts:
        """What the dice of all hosts showed, but for test sessions."""
        return reduce(Counts.merged, self.dice.values(), Counts())

    def hosts(self) -> Iterator[dict[str, Json]]:
        for host, account in self.accounts.items():
            told: dict[str, Json] = {"kind": "host", "host": host, **account}
            for name, counts in (("dice", self.dice.get(host)), ("test_dice", self.test_dice.get(host))):
                if counts is not None:
                    told[name] = dice.as_dict(counts)
            yield told

    def lines(self) -> Iterator[str]:
        signed = "signed by the given key" if self.key_given else "whose signature was not checked (--log-key)"
        yield f"{self.origin}: {self.size:,} entries audited, under a checkpoint {signed}."
        if self.witnesses:
            yield f"Cosigned by {', '.join(self.witnesses)}: {'a' if self.quorum else 'not a'} quorum of the policy."
        open_ = f"{self.open:,} open, {self.overdue:,} of them overdue"
        if self.gossip:
            yield f"Witnesses asked: {', '.join(f'{name} {result}' for name, result in self.gossip.items())}."
        proven = f", {self.proven:,} of these without the operator's word" * bool(self.proven)
        yield f"Sessions: {self.ended:,} ended, {self.fair:,} of them fair{proven}; {open_}."
        for host, account in self.accounts.items():
            yield f"Host {host}{' (test sessions)' * account['sandbox']}: {_account(account)}."
        if self.locked:
            yield f"Ended before the round of their timelock was in the log: {self.locked:,}; it is opened once it is."
        yield from self._dice_lines()
        if self.undecided:
            yield f"{self.undecided:,} sessions could not be decided; the last one: {self.why}"
        if self.failed is not None:
            yield f"FAILED: the log does not stand by its checkpoint: {self.failed}."
        elif self.findings:
            yield f"FAILED: {self.findings:,} finding{'s' * (self.findings != 1)}, {self.notes:,} notes."
        elif not self.key_given:
            yield "Nothing grave was found, but without the log's key nothing is proven."
        else:
            yield f"Nothing grave was found; {self.notes:,} notes on hosts."

    def _dice_lines(self) -> Iterator[str]:
        counts = self.all_dice()
        if not counts.rolls:
            return
        yield f"Dice: {counts.rolls:,} rolls in {counts.sessions:,} ended sessions (of each host: --json)."
        if self.dice_from:
            yield f"  Counted from entry {self.dice_from:,} on: an older version audited what is below."
        yield from dice.lines(counts)
        yield f"  {figures.CAVEAT}"


def _account(account: dict[str, Any]) -> str:
    parts = [f"{account['sealed']:,} sealed", f"{account['revealed']:,} revealed"]
    parts += [f"{count:,} void ({reason})" for reason, count in sorted(account["void"].items())]
    parts += [f"{account[name]:,} {what}" for name, what in _COUNTED.items() if account[name]]
    return ", ".join(parts)


def summary(state: State, trust: Trust, failed: str | None) -> Summary:
    """Of everything that the state holds."""
    db = state.db
    open_ = db.execute("SELECT count(*) FROM sessions WHERE ended IS NULL").fetchone()[0]
    overdue = "SELECT count(*) FROM sessions WHERE ended IS NULL AND overdue <= ?"
    notes = db.execute("SELECT count(*) FROM findings WHERE NOT grave").fetchone()[0]
    totals = state.get("totals") or {"ended": 0, "fair": 0, "proven": 0}
    names, quorum = _witnesses(state, trust)
    rolled = list(dice.of_hosts(state))
    accounts = {host: json.loads(text) for host, text in db.execute("SELECT host, account FROM hosts ORDER BY host")}
    return Summary(
        origin=state.get("origin"),
        size=state.get("size") or 0,
        ended=totals["ended"],
        fair=totals["fair"],
        proven=totals["proven"],
        open=open_,
        overdue=db.execute(overdue, [state.get("time") or 0]).fetchone()[0],
        findings=state.grave(),
        notes=notes,
        undecided=state.get("undecided") or 0,
        why=state.get("why"),
        witnesses=names,
        quorum=quorum,
        key_given=trust.log_key is not None,
        locked=db.execute("SELECT count(*) FROM locks").fetchone()[0],
        failed=failed,
        gossip=state.get("gossip") or {},
        accounts=accounts,
        dice={host: counts for host, sandbox, counts in rolled if not sandbox},
        test_dice={host: counts for host, sandbox, counts in rolled if sandbox},
        dice_from=state.get("dice_from") or 0,
    )


def _witnesses(state: State, trust: Trust) -> tuple[tuple[str, ...], bool]:
    kept, policy = state.get("checkpoint"), trust.policy
    if kept is None or policy is None:
        return (), False
    size = SignedCheckpoint.parse(kept).checkpoint.size
    names = {seen.witness for seen in Witnessing(state, policy).at(size)}
    return tuple(sorted(names)), bool(names) and policy.satisfied(names)
