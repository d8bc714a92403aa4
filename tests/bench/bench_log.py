"""How many durable entries a second the log takes: `python -m tests.bench.bench_log [--seconds N] [--writers N]`.

One process on one core. Every writer is an asyncio task that appends one entry of about 300 bytes and waits until it is
durable and proven before it appends the next. In the same run: a bare group commit of one insert (what the log's tree,
proofs, checkpoints, checks and signatures cost beside it), and proofs of older entries alone. At the end the whole log
is checked. Beside other busy programs, read the rate per second of processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

from sqlite_utils import Database

from beacon.clock import SystemClock
from beacon.log.fsck import check
from beacon.log.log import Log
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.writer import Writer
from verifier.encoding import encode_json
from verifier.note import SigningKey

Operation = Callable[[int, int], Awaitable[object]]

TARGET = 10_000


def entry(time_ms: int, writer: int, number: int) -> bytes:
    return encode_json(
        {
            "v": 1,
            "type": "contribution",
            "time": time_ms,
            "session": "5e" * 32,
            "participant": f"player-{writer}-{number}",
            "entropy": f"{writer:08x}{number:08x}" + "c0" * 40,
        }
    )


async def run(operation: Operation, writers: int, seconds: float) -> tuple[float, list[float]]:
    """Give operations per second, and each one's latency in seconds, sorted."""
    latencies: list[float] = []
    end = time.perf_counter() + seconds

    async def writer(name: int) -> None:
        number = 0
        while (begin := time.perf_counter()) < end:
            await operation(name, number)
            latencies.append(time.perf_counter() - begin)
            number += 1

    begin = time.perf_counter()
    await asyncio.gather(*(writer(name) for name in range(writers)))
    return len(latencies) / (time.perf_counter() - begin), sorted(latencies)


async def measure(name: str, operation: Operation, writers: int, seconds: float) -> float:
    processor = time.process_time()
    rate, latencies = await run(operation, writers, seconds)
    busy = len(latencies) / (time.process_time() - processor)
    p50, p99 = (1000 * latencies[int(len(latencies) * quantile)] for quantile in (0.5, 0.99))
    print(f"{name:<40} {rate:>9,.0f}/s   p50 {p50:6.2f} ms   p99 {p99:6.2f} ms   {busy:>9,.0f} per CPU second")
    return rate


async def bare(directory: Path, writers: int, seconds: float) -> float:
    """One insert of the same bytes per job, group commit, nothing else."""
    writer = Writer(directory / "bare.db", PRIVATE_SCHEMA)
    await writer.run(lambda db: db.execute("CREATE TABLE bare (i INTEGER PRIMARY KEY, entry BLOB NOT NULL) STRICT"))

    def insert(data: bytes) -> Callable[[Database], object]:
        return lambda db: db.conn.execute("INSERT INTO bare (entry) VALUES (?)", (data,))

    rate = await measure(
        "bare group commit of one insert",
        lambda name, number: writer.run_plain(insert(entry(1_764_000_000_000, name, number))),
        writers,
        seconds,
    )
    writer.close()
    return rate


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--writers", type=int, default=100)
    parser.add_argument("--directory", type=Path, help="where the databases go (default: a temporary directory)")
    options = parser.parse_args()
    writers, seconds = options.writers, options.seconds
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(f"one core, {writers} writers, {len(entry(1_764_000_000_000, 10, 1000))} bytes an entry")

    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        directory = Path(name)
        base = await bare(directory, writers, seconds)
        signer = SigningKey(bytes(32), "bench.example/log")
        log = Log.open(directory / "log.db", signer, SystemClock(), mark=directory / "log.mark")

        def append(name: int, number: int) -> Awaitable[object]:
            return log.append(lambda time_ms: [entry(time_ms, name, number)])

        async def proof(_name: int, _number: int) -> None:
            await log.receipt_proof(random.randrange(log.latest().size))

        rate = await measure("log: durable entries", append, writers, seconds)
        await measure("log: durable entries, one writer", append, 1, seconds / 4)
        await measure("log: inclusion proofs of any entry", proof, writers, seconds / 4)
        size = log.latest().size
        log.close()

        begin = time.perf_counter()
        log = Log.open(directory / "log.db", signer, SystemClock(), mark=directory / "log.mark")
        print(f"{'log: opened again':<40} {1000 * (time.perf_counter() - begin):9.1f} ms   {size:,} entries")
        log.close()
        begin = time.perf_counter()
        report = check(directory / "log.db", signer.vkey)
        print(f"{'log: whole check':<40} {report.size / (time.perf_counter() - begin):>9,.0f}/s")
        with closing(sqlite3.connect(directory / "log.db")) as db:
            pages = db.execute("PRAGMA page_count").fetchone()[0] * db.execute("PRAGMA page_size").fetchone()[0]
        print(f"{'log: bytes of file an entry':<40} {pages / size:9.0f}")

    print(f"log / bare group commit: {rate / base:.2f}")
    print(f"durable entries / target of {TARGET:,}: {rate / TARGET:.2f}")
    if not report.ok:
        raise SystemExit("the log is damaged: " + "; ".join(map(str, report.findings[:5])))
    raise SystemExit(0 if rate >= TARGET else 1)


if __name__ == "__main__":
    asyncio.run(main())
