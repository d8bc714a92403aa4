"""What a host has done, for itself and for everybody: its sessions in pages, and the public ledger of their ends.

Queries over the derived tables of log.db; blocking, for a reader's thread. The ends of sessions are `revealed`, or the
reason of their void; a session without one is open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from sqlite_utils import Database

from beacon.sessions.state import SessionState
from verifier.encoding import MAX_INTEGER

MAX_PAGE: Final = 200
SCANNED: Final = 2_000
"""Rows that one page may look at: a filter that fits few sessions gives short pages, and says where to go on."""
MAX_LISTED: Final = 50
OPEN: Final = ("sealed", "closed", "anchored", "called", "drawing")
STATES: Final = (*OPEN, "open", "revealed", "void")

_COLUMNS: Final = """session, seal_index, host, host_seq, label, chain, time, profile, custody, sandbox, replaces,
    end_index, end_time, ended"""

_TOTALS: Final = "sandbox, sealed, gapless, last_seq, first_time, last_time, replaced, labels_twice"


@dataclass(frozen=True, slots=True)
class Asked:
    """A page of a host's sessions, newest first. state: of STATES; before: a host_seq, the cursor."""

    host: str
    state: str | None = None
    label: str | None = None
    before: int | None = None
    limit: int = 50


def page(db: Database, asked: Asked, current: Callable[[bytes], SessionState | None]) -> dict[str, Any]:
    """`sessions`, `has_more`, and the `cursor` of the next page, or null. current: the state of an open session."""
    where: list[str] = ["host = ?"]
    values: list[str] = [asked.host]
    if asked.label is not None:
        where.append("label = ?")
        values.append(asked.label)
    if asked.state in {"open", *OPEN}:
        where.append("ended IS NULL")
    elif asked.state == "revealed":
        where.append("ended = 'revealed'")
    query = f"SELECT {_COLUMNS} FROM sessions WHERE {' AND '.join(where)} AND host_seq < ? ORDER BY host_seq DESC"  # noqa: S608 - names of ours
    start = MAX_INTEGER if asked.before is None else asked.before
    rows = db.conn.execute(f"{query} LIMIT {SCANNED + 1}", (*values, start))
    shown: list[dict[str, Any]] = []
    cursor: int | None = None
    for number, row in enumerate(rows):
        if len(shown) == asked.limit or number == SCANNED:
            break
        cursor = row[3]
        item = _item(row, current)
        if asked.state in {None, "open", item["state"]}:
            shown.append(item)
    else:
        return {"sessions": shown, "has_more": False, "cursor": None}
    return {"sessions": shown, "has_more": True, "cursor": str(cursor)}


def _item(row: tuple[Any, ...], current: Callable[[bytes], SessionState | None]) -> dict[str, Any]:
    name, index, host, host_seq, label, chain, time, profile, custody, sandbox, replaces, end_index, end_time, ended = (
        row
    )
    state = None if ended is not None else current(name)
    if ended is not None:
        shown = "revealed" if ended == "revealed" else "void"
    else:
        shown = "open" if state is None else state.name
    return {
        "session": name.hex(),
        "state": shown,
        "reason": ended if shown == "void" else None,
        "index": index,
        "time": time,
        "host": host,
        "host_seq": host_seq,
        "label": label,
        "profile": profile,
        "custody": custody,
        "sandbox": bool(sandbox),
        "chain": chain.hex(),
        "replaces": None if replaces is None else replaces.hex(),
        "end_index": end_index,
        "end_time": end_time,
    }


def ledger(db: Database, host: str) -> dict[str, Any] | None:
    """The public account of a host; None when it has sealed nothing.

    `numbers_gapless` says that its seals are numbered 1, 2, 3 ... without a gap, as the log's order has them;
    `labels_used_twice` and `replaced` list the newest, and count all.
    """
    row = db.conn.execute(f"SELECT {_TOTALS} FROM ledger WHERE host = ?", (host,)).fetchone()  # noqa: S608 - names of ours
    if row is None:
        return None
    sandbox, sealed, gapless, last_seq, first, last, replaced, labels_twice = row
    ends = dict(db.conn.execute("SELECT ended, sessions FROM ledger_ends WHERE host = ?", (host,)))
    still_open, revealed = sealed - sum(ends.values()), ends.pop("revealed", 0)
    labels = db.conn.execute(
        "SELECT label, sessions FROM labels_twice WHERE host = ? ORDER BY seal_index DESC LIMIT ?", (host, MAX_LISTED)
    ).fetchall()
    replacing = db.conn.execute(
        """SELECT session, replaces FROM sessions WHERE host = ? AND replaces IS NOT NULL
        ORDER BY host_seq DESC LIMIT ?""",
        (host, MAX_LISTED),
    ).fetchall()
    return {
        "host": host,
        "sandbox": bool(sandbox),
        "sealed": sealed,
        "open": still_open,
        "revealed": revealed,
        "void": sum(ends.values()),
        "void_by_reason": dict(sorted(ends.items())),
        "numbers_gapless": bool(gapless),
        "last_host_seq": last_seq,
        "first_time": first,
        "last_time": last,
        "labels_used_twice": {
            "count": labels_twice,
            "newest": [{"label": label, "sessions": count} for label, count in labels],
        },
        "replaced": {
            "count": replaced,
            "newest": [{"session": session.hex(), "replaces": earlier.hex()} for session, earlier in replacing],
        },
    }
