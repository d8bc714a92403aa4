"""The directory of a witness: witness.key (the Ed25519 seed), witness.vkey (to publish) and witness.db."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlite_utils import Database

from beacon.clock import Clock
from beacon.settings import KEY_BYTES, ConfigurationError, read_key, write_key
from beacon.store.reader import Reader
from beacon.store.witness_schema import WITNESS_SCHEMA
from beacon.store.writer import Writer
from beacon.witness.witness import Witness
from verifier.errors import VerifierError
from verifier.note import ED25519, ML_DSA_44, Cosigner, VerifierKey

LOG_TYPES: Final = frozenset({ED25519, ML_DSA_44})


@dataclass(frozen=True, slots=True)
class WitnessedLog:
    """A log that is witnessed. vkeys: its keys; size: of the newest checkpoint that was cosigned, None for none yet;
    time: of that cosignature, POSIX seconds; forks: how many checkpoints are kept that do not fit.
    """

    origin: str
    vkeys: tuple[str, ...]
    size: int | None
    time: int | None
    forks: int


@dataclass(frozen=True, slots=True)
class Fork:
    """Two checkpoints that a log signed and that do not fit. kind, old, proof: see beacon.store.witness_schema."""

    origin: str
    kind: str
    ours: str
    theirs: str
    old: int
    proof: str
    time: int


def make(directory: Path, name: str) -> VerifierKey:
    """Make the directory of a new witness, with a fresh key. Raises ConfigurationError, OSError."""
    try:
        cosigner = Cosigner(seed := os.urandom(KEY_BYTES), name)
    except VerifierError as error:
        raise ConfigurationError(f"a witness cannot be named {name!r}: {error.message}.") from error
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError as error:
        raise ConfigurationError(f"{directory} exists already; a witness is made once and never again.") from error
    write_key(directory / "witness.key", seed)
    writer = Writer(directory / "witness.db", WITNESS_SCHEMA)
    try:
        identify = "INSERT INTO identity VALUES (1, ?)"
        writer.submit(lambda db: _done(db.execute(identify, [str(cosigner.vkey)]))).result()
    finally:
        writer.close()
    (directory / "witness.vkey").write_text(f"{cosigner.vkey}\n", encoding="utf-8")
    return cosigner.vkey


@contextmanager
def opened(directory: Path, clock: Clock, *, exclusive: bool) -> Iterator[tuple[Witness, Writer]]:
    """A witness and the writer of its database while the block runs. exclusive: it alone signs.

    Raises ConfigurationError when key and database are not both there or do not belong together; the store's errors.
    """
    path = directory / "witness.db"
    if not path.exists():
        raise ConfigurationError(
            f"{path} is missing. A witness without its memory would sign twice: put the newest one back, or make "
            "another witness, with another key."
        )
    seed = read_key(directory / "witness.key")
    with ExitStack() as stack:
        writer = Writer(path, WITNESS_SCHEMA, exclusive=exclusive)
        stack.callback(writer.close)
        reader = Reader(path)
        stack.callback(reader.close)
        row = reader.submit(lambda db: db.execute("SELECT vkey FROM identity").fetchone()).result()
        if row is None:
            raise ConfigurationError(f"{path} belongs to no key: it was not made whole. Make another witness.")
        known = VerifierKey.parse(row[0])
        cosigner = Cosigner(seed, known.name)
        if cosigner.vkey != known:
            raise ConfigurationError(f"{directory}/witness.key is not the key that signs with {path}.")
        yield Witness(cosigner, writer, reader, clock), writer


def add_log(writer: Writer, vkey: VerifierKey, origin: str, clock: Clock) -> bool:
    """Witness a log from now on, or take another key of it; whether that was new. Raises ConfigurationError."""
    if vkey.type not in LOG_TYPES:
        raise ConfigurationError(f"a log's key is of type {ED25519} or {ML_DSA_44}; this one is of type {vkey.type}.")
    row = (origin, str(vkey), clock.now())
    return writer.submit(
        lambda db: db.execute("INSERT OR IGNORE INTO logs VALUES (?, ?, ?)", row).rowcount > 0
    ).result()


def drop_key(writer: Writer, vkey: VerifierKey) -> None:
    """Take a log's key no more, unless it is the log's last. Raises ConfigurationError."""

    def job(db: Database) -> int:
        return db.execute(
            """DELETE FROM logs WHERE vkey = ?1 AND EXISTS
            (SELECT 1 FROM logs other WHERE other.origin = logs.origin AND other.vkey <> ?1)""",
            [str(vkey)],
        ).rowcount

    if not writer.submit(job).result():
        raise ConfigurationError(f"{vkey} is no key that a log here has beside another one.")


def logs(db: Database) -> list[WitnessedLog]:
    """Every log, by origin."""
    rows = db.execute(
        """SELECT origin, group_concat(vkey, ' '), size, time, (SELECT count(*) FROM forks f WHERE f.origin = l.origin)
        FROM logs l LEFT JOIN states USING (origin) GROUP BY origin ORDER BY origin"""
    ).fetchall()
    return [WitnessedLog(origin, tuple(keys.split(" ")), size, time, forks) for origin, keys, size, time, forks in rows]


def forks(db: Database) -> list[Fork]:
    """What is kept of logs that did not keep to one history, oldest first."""
    return [
        Fork(*row) for row in db.execute("SELECT origin, kind, ours, theirs, old, proof, time FROM forks ORDER BY id")
    ]


def _done(_: object) -> None:
    """A writer's job gives back nothing that belongs to its connection."""
