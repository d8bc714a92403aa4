"""The SDK's transport: each acknowledged write goes into the ledger, and some writes are sent more than once, or given up."""

import asyncio
import contextlib

from beacon.client.transport import BeaconError, Transport, Unreachable, new_key
from tests.soak.ledger import essence

AT_ONCE = 0.05
GIVEN_UP = 0.05
LATER = 0.15
SOON = 0.03
LONGEST = 20.0
ATTEMPTS = 14
SECONDS = 15


class Recorder(Transport):
    """As Transport. random: of its host. Requests that are sent again later are tasks of `tasks`, a set."""

    def __init__(self, url, token, ledger, random, tasks):
        super().__init__(url, token, seconds=SECONDS, attempts=ATTEMPTS)
        self._ledger, self._random, self._tasks = ledger, random, tasks

    async def post(self, path, body, *, key=None, token=None, wait=0):
        key = key or new_key()
        repeat = not path.endswith("/joins")
        try:
            if repeat and self._random.random() < GIVEN_UP:
                await self._give_up(super().post(path, body, key=key, token=token, wait=wait))
            if repeat and self._random.random() < AT_ONCE:
                answers = await asyncio.gather(
                    *(super(Recorder, self).post(path, body, key=key, token=token, wait=wait) for _ in range(3))
                )
                answer = answers[0]
                for other in answers[1:]:
                    self._compare(path, answer, other)
            else:
                answer = await super().post(path, body, key=key, token=token, wait=wait)
        except BeaconError as error:
            self._ledger.refuse(error)
            raise
        self._ledger.counts["writes acknowledged"] += 1
        self._ledger.answer(answer)
        if repeat and self._random.random() < LATER:
            task = asyncio.create_task(self._again(path, body, key, token, essence(answer)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return answer

    async def _give_up(self, request):
        """Send a request, and close its connection soon, whether it was answered or not."""
        self._ledger.counts["requests given up"] += 1
        with contextlib.suppress(BeaconError, TimeoutError):
            await asyncio.wait_for(request, self._random.uniform(0, SOON))

    async def _again(self, path, body, key, token, first):
        await asyncio.sleep(self._random.uniform(0, LONGEST))
        try:
            answer = await super().post(path, body, key=key, token=token)
        except Unreachable:
            self._ledger.counts["retries without an answer"] += 1
        except BeaconError as error:
            self._ledger.fail(f"POST {path}, acknowledged before, was refused when it was sent again: {error}")
        else:
            self._ledger.answer(answer)
            self._compare(path, first, answer, done=True)

    def _compare(self, path, first, second, *, done=False):
        self._ledger.counts["retries answered"] += 1
        if (first if done else essence(first)) != essence(second):
            self._ledger.fail(f"POST {path} was answered differently when it was sent again")
