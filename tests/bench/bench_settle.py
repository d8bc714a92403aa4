"""Ten thousand live sessions wait for one round: how long from its arrival until every draw is in the log.

    python -m tests.bench.bench_settle [--sessions 10000]

The service's own code on real databases in one process, with recorded quicknet rounds; the goal is 2 seconds, on cores
that nothing else keeps busy: much more time than CPU time says that something does. Beside it, in the same run, the time
that as many entries take when they are appended with nothing to decide.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import structlog

from beacon.log.log import Log
from beacon.sessions.requests import DrawRequest, SealRequest
from beacon.sessions.settling import CHUNK
from beacon.store.private import PrivateStore
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.reader import Reader
from beacon.store.writer import Writer
from tests.round_support import QUICKNET, FakeClock
from tests.session_support import ALICE, FIRST, ReplayedRounds, Service
from verifier.encoding import encode_json
from verifier.note import SigningKey

BATCH = 100
SEAL = {"profile": "live", "links": 64, "recipes": {"turn": {"kind": "dice", "count": 2, "sides": 6}}}


async def main(sessions: int) -> int:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        with closing(Writer(path / "private.db", PRIVATE_SCHEMA)) as private:
            clock = FakeClock(QUICKNET.time(FIRST) + 500)
            store = PrivateStore(private, Reader(path / "private.db"), clock)
            made = Service(path, clock, ReplayedRounds(clock), store)
            await made.rounds.arrive(FIRST)
            try:
                return await measure(made, sessions)
            finally:
                made.log.close()


async def measure(made: Service, sessions: int) -> int:
    seal, turn = SealRequest.model_validate(SEAL), DrawRequest(recipe="turn")
    names = []
    for start in range(0, sessions, BATCH):
        written = await made.sessions.seals(ALICE, [seal] * min(BATCH, sessions - start))
        names += [item.session for item in written]
    rounds = set()
    for start in range(0, sessions, BATCH):
        called = await made.sessions.draws(ALICE, [(name, turn) for name in names[start : start + BATCH]])
        rounds |= {item.call.round for item in called}
    (number,) = rounds
    while made.rounds.newest(QUICKNET.hash).round < number - 1:
        await made.reach(made.rounds.newest(QUICKNET.hash).round + 1)
    started, used = time.perf_counter(), time.process_time()
    await made.reach(number)
    settled, used = time.perf_counter() - started, time.process_time() - used
    assert all(made.book.get(name).drawn == {"turn": 1} for name in names)
    bare = await appended(made, sessions)
    print(f"{sessions} live sessions settled in {settled:.2f} s, with {used:.2f} s of CPU time   (goal: 2 s)")
    print(f"as many entries appended, with nothing to decide: {bare:.2f} s   (ratio {settled / bare:.1f})")
    return 0 if settled <= 2 else 1


async def appended(made: Service, count: int) -> float:
    """Seconds to append as many draws, in the same chunks, to a log of their own."""
    log = Log.open(made.log.path.with_name("bare.db"), SigningKey(bytes(32), "bench.example/bare"), made.clock)
    fields = {"v": 1, "type": "draw", "session": "00" * 32, "recipe": "turn", "purpose": "", "outcomes": [[6, 6]]}
    fields |= {"draw": 1, "seed": "00" * 32}

    def build(time_ms: int) -> list[bytes]:
        return [encode_json(fields | {"time": time_ms, "n": n}) for n in range(1, CHUNK + 1)]

    started = time.perf_counter()
    await asyncio.gather(*(log.append(build) for _ in range(count // CHUNK)))
    took = time.perf_counter() - started
    log.close()
    return took


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=10_000)
    sys.exit(asyncio.run(main(parser.parse_args().sessions)))
