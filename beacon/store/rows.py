"""Many rows at a step: each step of SQLite gives the interpreter lock away, and has to win it back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlite_utils import Database

CHUNK: Final = 32


def insert_rows(db: Database, target: str, rows: Sequence[Sequence[Any]], *, verb: str = "INSERT") -> None:
    """Insert rows of one width. target: the table, and its columns where not all are given. Raises sqlite3.Error."""
    for start in range(0, len(rows), CHUNK):
        chunk = rows[start : start + CHUNK]
        row = f"({','.join('?' * len(chunk[0]))})"
        sql = f"{verb} INTO {target} VALUES {','.join([row] * len(chunk))}"
        db.conn.execute(sql, [value for values in chunk for value in values])
