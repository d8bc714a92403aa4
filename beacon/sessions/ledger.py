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
    sealed, lowest, highest, first, last = db.conn.execute(
        "SELECT count(*), min(host_seq), max(host_seq), min(time), max(time) FROM sessions WHERE host = ?", (host,)
    ).fetchone()
    if not sealed:
        return None
    ends = dict(db.conn.execute("SELECT ended, count(*) FROM sessions WHERE host = ? GROUP BY ended", (host,)))
    sandbox = db.conn.execute("SELECT sandbox FROM sessions WHERE host = ? LIMIT 1", (host,)).fetchone()[0]
    distinct = db.conn.execute("SELECT count(DISTINCT host_seq) FROM sessions WHERE host = ?", (host,)).fetchone()[0]
    revealed, still_open = ends.pop("revealed", 0), ends.pop(None, 0)
    labels = db.conn.execute(
        """SELECT label, count(*), count(*) OVER () FROM sessions WHERE host = ? AND label != ''
        GROUP BY label HAVING count(*) > 1 ORDER BY max(seal_index) DESC LIMIT ?""",
        (host, MAX_LISTED),
    ).fetchall()
    replaced = db.conn.execute(
        """SELECT session, replaces, count(*) OVER () FROM sessions WHERE host = ? AND replaces IS NOT NULL
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
        "numbers_gapless": (lowest, highest, distinct) == (1, sealed, sealed),
        "last_host_seq": highest,
        "first_time": first,
        "last_time": last,
        "labels_used_twice": {
            "count": labels[0][2] if labels else 0,
            "newest": [{"label": label, "sessions": count} for label, count, _ in labels],
        },
        "replaced": {
            "count": replaced[0][2] if replaced else 0,
            "newest": [{"session": session.hex(), "replaces": earlier.hex()} for session, earlier, _ in replaced],
        },
    }
