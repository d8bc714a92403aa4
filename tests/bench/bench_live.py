"""From the call of a live draw to its outcome over HTTP, `?wait=30`, on recorded quicknet rounds (period 3 s).

    python -m tests.bench.bench_live [--calls N]

Calls come at moments spread evenly over the period. The bound is one period + 1.5 s for the median. A call waits for
the first round at or after its time + lead: that is lead + half a period on average, and the rest is the service's.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from beacon.clock import ShiftedClock, SystemClock
from tests.lying_relay import LyingRelay
from tests.process_support import add_host, api, make_data, serving
from tests.round_support import QUICKNET

SEAL = {"profile": "live", "participants": [], "recipes": {"turn": {"kind": "dice", "count": 2, "sides": 6}}}


async def measure(calls):
    offset = QUICKNET.time(72_752) - SystemClock().now()
    clock = ShiftedClock(offset)
    took, behind = [], []
    with tempfile.TemporaryDirectory() as folder:
        async with LyingRelay([QUICKNET], clock=clock) as relay:
            data = Path(folder) / "data"
            make_data(data, "beacon.example/bench", relay.url, clock)
            token = await add_host(data, "alice")
            async with serving("tests.serve_shifted", data, offset) as server, api(server, token) as host:
                await host.ready()
                sessions = [(await host.post("/v1/sessions", SEAL))["session"] for _ in range(calls)]

                async def call(number, session):
                    await asyncio.sleep(number * 6 / calls)
                    started = time.monotonic()
                    answer = await host.post(f"/v1/sessions/{session}/draws?wait=30", {"recipe": "turn"})
                    took.append(time.monotonic() - started)
                    behind.append((clock.now() - QUICKNET.time(answer["call"]["round"])) / 1000)
                    assert answer["outcomes"]

                await asyncio.gather(*(call(number, session) for number, session in enumerate(sessions)))
    bound = QUICKNET.period + 1.5
    for what, values in (("call to outcome", took), ("round's time to outcome", behind)):
        print(f"{what}: median {statistics.median(values):.2f} s, max {max(values):.2f} s")
    print(f"the median is {'under' if statistics.median(took) < bound else 'NOT UNDER'} one period + 1.5 s = {bound} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=60)
    asyncio.run(measure(parser.parse_args().calls))


if __name__ == "__main__":
    main()
