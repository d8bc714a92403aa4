"""Who waits for a session's next entry: one event each on the loop, woken after the commit that brought it.

The book tells of each commit on the writer's thread; only if somebody watches a session that it touched, one call goes
into the loop, however many watch. Level-triggered: a woken watcher reads what is durable and judges for itself, so that
a wake too many costs a look, and what was logged between a look and the next wait is never missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from beacon.errors import ApiError
from beacon.sessions.state import SessionState

MAX_WATCHES: Final = 10_000
LOOK_SECONDS: Final = 1.0


def _never() -> bool:
    return False


class Watch:
    """One who waits. `gone`: whether nobody is there any more to hear of it."""

    def __init__(self, gone: Callable[[], bool]) -> None:
        self.gone: Final = gone
        self._event: Final = asyncio.Event()
        self._over = False

    async def changed(self, seconds: float) -> bool:
        """Wait until the session may have changed since the last call, or since the watch began.

        False when time ran out, or when nothing is to be waited for any more: `over` tells which.
        """
        if not self._over:
            try:
                async with asyncio.timeout(seconds):
                    await self._event.wait()
            except TimeoutError:
                return False
        self._event.clear()
        return not self._over

    @property
    def over(self) -> bool:
        """Whether the service is about to stop, or nobody is there to be told."""
        return self._over

    def wake(self) -> None:
        self._event.set()

    def end(self) -> None:
        self._over = True
        self._event.set()


class Changes:
    """Watches by session (32 bytes). All but `told` is for the event loop that the watches wait on."""

    def __init__(self, limit: int = MAX_WATCHES) -> None:
        """limit: how many may watch at once."""
        self._limit: Final = limit
        self._watches: Final[dict[bytes, set[Watch]]] = {}
        self._count = 0
        self._released = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._look: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return self._count

    def told(self, states: Sequence[SessionState]) -> None:
        """The book's listener: these sessions have new durable entries. Any thread."""
        loop = self._loop
        touched = [state.session for state in states if state.session in self._watches]
        if not touched or loop is None:
            return
        try:
            loop.call_soon_threadsafe(self._wake, touched)
        except RuntimeError:  # the loop was closed: nobody waits any more
            return

    @contextmanager
    def watch(self, session: bytes, gone: Callable[[], bool] = _never) -> Iterator[Watch]:
        """Watch a session while the block runs; look at it inside the block, before the first wait.

        gone: asked about every second; the watch is over once it says so. Raises ApiError(too-many-waiting).
        """
        if self._count >= self._limit:
            raise ApiError("too-many-waiting", "as many wait already as may wait at once", retry_after=1)
        watch = Watch(gone)
        if self._released:
            watch.end()
        self._loop = asyncio.get_running_loop()
        self._watches.setdefault(session, set()).add(watch)
        self._count += 1
        self._look_later()
        try:
            yield watch
        finally:
            self._count -= 1
            watching = self._watches[session]
            watching.discard(watch)
            if not watching:
                del self._watches[session]
            if not self._count and self._look is not None:
                self._look.cancel()
                self._look = None

    def release(self) -> None:
        """Let go everybody, now and from now on: the service is about to stop."""
        self._released = True
        for watch in self._all():
            watch.end()

    def _wake(self, sessions: Sequence[bytes]) -> None:
        for session in sessions:
            for watch in self._watches.get(session, ()):
                watch.wake()

    def _look_later(self) -> None:
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look_round)

    def _look_round(self) -> None:
        self._look = None
        for watch in self._all():
            if not watch.over and watch.gone():
                watch.end()
        if self._count:
            self._look_later()

    def _all(self) -> list[Watch]:
        return [watch for watching in self._watches.values() for watch in watching]
