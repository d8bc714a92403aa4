"""Check one session of a fair-beacon log with nothing but Python's standard library. Read it, then run it:

    python verify.py --log-key KEY        KEY: the log's key (name+id+base64), or a file with it, from somewhere else
    python verify.py --log-key KEY --chain chain.json --sandbox        --chain: a drand network that is not built in

It redoes the log's Ed25519 signature, every inclusion proof, the commitment and its chain of links, the session digest,
each binding, each draw, the participants' signatures, the counts, the order and the times. Exit 0: fair. 1: something
failed. 2: not decided. 3: unusable.

It does NOT do the pairing, which shows that a round's signature is drand's, unless py-ecc is installed (pip install
py-ecc): without it the answer is never better than "not decided". It never does that for evmnet's curve. It does not
read witnesses' cosignatures, attachments or timelocks. `verifier check` of fair-beacon does all of that.

Numbers such as 6.7 are rules of PROTOCOL.md. This code is the same for every session; the session stands at the end.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from verifier.standalone_session import CLAIMS, Session
from verifier.standalone_tools import Key, chain_hash, parse_json

FAIR, FAILED, UNDECIDED, UNUSABLE = 0, 1, 2, 3
NEEDED = ("log", "round", "seed", "outcomes", "complete")
DAY = 86_400_000


# --- order and time (section 6); what needs the chain's clock is left out without the chain ----------------------


def time(session: Session, number: int) -> int:
    """When a round falls due, ms (2.4)."""
    assert session.chain is not None
    return int(1000 * (session.chain["genesis_time"] + (number - 1) * session.chain["period"]))


def check_times(session: Session) -> None:
    seal, close = session.seal, session.close
    if seal["close_at"] is not None and seal["time"] >= seal["close_at"]:
        session.fail("unpredictable", "6.3", "sealed at or after its own close_at")
    if not session.live and seal["round"] < seal["after"]["round"] + 2:
        session.fail("unpredictable", "6.3", "the round is not two rounds after the newest one known at the seal")
    if seal["reveal_by"] > seal["time"] + 400 * DAY:
        session.fail("unpredictable", "6.3", "reveal_by comes more than 400 days after the seal")
    if (
        not session.live
        and seal["plan"] is None
        and any(entry["time"] >= seal["reveal_by"] for _, entry in session.draws)
    ):
        session.fail("unpredictable", "6.3", "drawn at or after reveal_by")
    if close and seal["close_at"] is not None:
        contributed = {entry["participant"] for _, entry in session.contributions}
        everyone = not seal["open"] and {participant["id"] for participant in seal["participants"]} <= contributed
        if close[1]["time"] <= seal["close_at"] and not everyone:
            session.fail("unpredictable", "6.5", "closed early, though not every listed participant had contributed")
        if close[1]["contributions"] < seal["min_contributions"]:
            session.fail("unpredictable", "6.5", "closed with fewer contributions than the minimum")
        if any(index < close[0] for index, _ in session.calls):
            session.fail("unpredictable", "6.5", "closed after the first call")
    check_live_order(session)
    check_anchors(session)
    if session.chain is not None:
        check_clock(session, 1000 * session.chain["period"])


def check_live_order(session: Session) -> None:
    calls, before = {call["draw"]: (index, call) for index, call in session.calls}, 0
    for k, (_, call) in enumerate(session.calls, 1):
        if call["draw"] != k:
            session.fail("complete", "6.6", f"call {call['draw']} where call {k} is due")
        if call["draw"] != k or k > session.seal["links"]:
            session.fail("unpredictable", "6.6", "a call out of order, or beyond the last link")
    for index, entry in session.draws if session.live else []:
        at, call = calls.get(entry["draw"], (index + 1, entry))
        if (
            at > index
            or any(entry[name] != call[name] for name in ("recipe", "n", "purpose"))
            or entry["draw"] < before
        ):
            session.fail(
                "unpredictable", "6.6", f"draw {entry['draw']} is not what a call before it asked for, in order"
            )
        before = entry["draw"]


def signatures(session: Session) -> list[tuple[int, int]]:
    """(index, round) of every signature of the session's chain in the document."""
    mine = [(index, entry) for index, _, entry in session.events if entry.get("chain") == session.seal["chain"]]
    return [(i, entry["after"]["round"] if entry["type"] == "seal" else entry["round"]) for i, entry in mine]


def anchors(session: Session) -> list[tuple[int, int]]:
    """(index, round) of what pins each round (7.1)."""
    if session.live:
        return [(index, call["round"]) for index, call in session.calls]
    pinned = [session.index] if session.seal["close_at"] is None else [session.close[0]] if session.close else []
    if session.end is not None and session.end[1].get("reason") in {"host", "below-minimum"}:
        pinned.append(session.end[0])
    return [(index, session.seal["round"]) for index in pinned]


def check_anchors(session: Session) -> None:
    for anchor, number in anchors(session):
        if any(index <= anchor and known >= number for index, known in signatures(session)):
            session.fail("unpredictable", "6.7", f"round {number} was in the log when what rests on it was pinned")


def check_clock(session: Session, period: int) -> None:
    seal, newest = session.seal, 0
    known = dict(signatures(session))
    for index, _, entry in session.events:
        newest = max(newest, time(session, known[index]) if index in known else 0)
        if entry["time"] < newest - 1000:
            session.fail("unpredictable", "6.10", f"entry {index} is earlier than a round at or below it")
    if session.live:
        due = max(seal["time"], seal["close_at"] or 0) + seal["lead"]
    else:
        due = time(session, seal["round"])
        if due < seal["time"] + 2 * period or (seal["close_at"] or 0) > due - period:
            session.fail("unpredictable", "6.3", "sealed or closed too shortly before the round")
        if session.close and session.close[1]["time"] >= due:
            session.fail("unpredictable", "6.5", "closed at or after the round's time")
    if seal["reveal_by"] < due + max(10 * period, 600_000):
        session.fail("unpredictable", "6.3", "reveal_by comes too early")
    for _, call in session.calls:
        at, before = time(session, call["round"]), time(session, call["round"] - 1)
        if not before < call["time"] + seal["lead"] <= at or at >= seal["reveal_by"]:
            session.fail("unpredictable", "6.6", f"call {call['draw']} does not name the first round after its lead")


def check_void(session: Session) -> None:
    """6.12."""
    if session.end is None or session.end[1]["type"] != "void":
        return
    (index, void), seal, number = session.end, session.seal, session.seal.get("round")
    due = time(session, number) if session.chain is not None and number is not None else None
    drawn = {entry.get("draw") for _, entry in session.draws}
    waiting: list[Any] = [number]
    if session.live:
        waiting = [call["round"] for _, call in session.calls if call["draw"] not in drawn]
    seen = max([known for at, known in signatures(session) if at < index], default=0)
    needed = [number] if number is not None else [call["round"] for _, call in session.calls]
    logged = [
        session.rounds[one][1]["time"] for one in needed if one in session.rounds and session.rounds[one][0] < index
    ]
    patience = max(10_000 * session.chain["period"], 600_000) if session.chain is not None else 0
    taken = seal["close_at"] is not None and not session.close
    reasons = {
        "host": number is None or (seen < number and (due is None or void["time"] < due)),
        "below-minimum": taken
        and len(session.contributions) < seal["min_contributions"]
        and void["time"] > (seal["close_at"] or 0)
        and (due is None or void["time"] < due),
        "missed-close": taken and number is not None and (due is None or void["time"] >= due),
        "no-round": void["time"] >= seal["reveal_by"] and bool(waiting) and seen < max(waiting, default=0),
        "missed-reveal": void["time"] >= seal["reveal_by"]
        and len(logged) == len(needed)
        and void["time"] >= max(logged, default=0) + patience,
    }
    late = session.live and session.calls and void["reason"] not in {"no-round", "missed-reveal"}
    if not reasons.get(void["reason"], False) or late:
        session.fail("custody", "6.12", f"void for {void['reason']!r}, which is not allowed here")
    if session.live and void["reason"] == "missed-reveal" and not waiting:
        session.fail("complete", "6.7", "a live session with every call drawn is revealed by the service")


def check(document: str, keys: list[Key], chains: dict[str, Any], sandbox: bool) -> tuple[int, list[str]]:
    """The exit code, and the lines that say why."""
    session = Session(document, chains)
    session.check_log(keys)
    session.check_rounds()
    session.check_seed()
    outcomes = session.check_outcomes()
    session.check_complete()
    session.check_contributions()
    check_times(session)
    check_void(session)
    seal, end = session.seal, session.end[1] if session.end else None
    failed = [claim for claim in CLAIMS if session.findings[claim]]
    open_ = [claim for claim in NEEDED if claim in session.unknown]
    lines = [f"session {session.leaf.hex()} of the host {seal['host']}, {seal['label']!r}", *outcomes]
    for claim in CLAIMS:
        state = "FAILED" if claim in failed else "UNKNOWN" if claim in session.unknown else "holds"
        lines.append(f"{state:8}{claim:15}{'; '.join(session.findings[claim]) or session.unknown.get(claim, '')}")
    if failed or (end is not None and end.get("reason") == "missed-reveal"):
        return FAILED, [*lines, f"Not fair as it stands: {', '.join(failed) or 'the seed was never revealed'}."]
    if end is None or end["type"] == "void":
        return UNDECIDED, [*lines, f"No result: {'the session is still open' if end is None else 'it is void'}."]
    if open_:
        return UNDECIDED, [*lines, f"Not decided: {'; '.join(session.unknown[claim] for claim in open_)}."]
    if seal["sandbox"] and not sandbox:
        return UNDECIDED, [*lines, "A test, not a game (--sandbox)."]
    trust = f"Fair if the operator of {seal['log']} is honest about its clock and its log"
    relayed = any("signature" not in item for item in everything(session))
    return FAIR, [*lines, f"{trust}{' and the host about what players contributed' if relayed else ''}."]


def everything(session: Session) -> list[dict[str, Any]]:
    """Every contribution, of the session and of its calls."""
    called = [item for _, call in session.calls for item in call["contributions"]]
    return [entry for _, entry in session.contributions] + called


def keys_of(text: str) -> list[Key]:
    """The keys that a text is, or that the file of that name holds, one a line."""
    if "+" not in text:
        with open(text, encoding="utf-8") as file:  # noqa: PTH123
            text = file.read()
    return [Key(line.strip()) for line in text.splitlines() if line.strip()]


def main(document: bytes, infos: bytes) -> int:
    """document: the transcript; infos: the drand chains that are trusted, JSON."""
    parser = argparse.ArgumentParser(
        description="Check the session in this file. Exit 0 fair, 1 failed, 2 not decided, 3 unusable."
    )
    parser.add_argument(
        "--log-key",
        metavar="KEY",
        action="append",
        default=[],
        help="the log's key (name+id+base64) or a file with it, from somewhere else; repeated if the log changed it",
    )
    parser.add_argument(
        "--chain", metavar="FILE", help="trust this drand chain's info (JSON) in place of those built in"
    )
    parser.add_argument("--sandbox", action="store_true", help="accept a test session as such")
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        options = parser.parse_args()
    except SystemExit as stop:
        return UNUSABLE if stop.code else FAIR
    try:
        listed = parse_json(infos.decode("utf-8"))
        if options.chain is not None:
            with open(options.chain, encoding="utf-8") as file:  # noqa: PTH123
                listed = [parse_json(file.read())]
        chains = {info["hash"]: info for info in listed if chain_hash(info) == info["hash"]}
        keys = [key for text in options.log_key for key in keys_of(text)]
        code, lines = check(document.decode("utf-8"), keys, chains, options.sandbox)
    except Exception as error:  # noqa: BLE001 - whatever a document does, it is no verdict
        sys.stderr.write(f"unusable: {type(error).__name__}: {ascii(str(error))[1:-1]}\n")
        return UNUSABLE
    for line in lines:
        sys.stdout.write("".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in line) + "\n")
    sys.stdout.write(
        "Not read: witnesses, attachments, timelocks. No file can show who stands behind a key, or what was left out.\n"
    )
    return code
