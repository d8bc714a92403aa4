"""Waiting for what the log will say of a session: its next entry, or a call's draw. Nothing polls the log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, TypeVar

from sqlite_utils import Database

from beacon.errors import ApiError
from beacon.sessions.changes import Changes
from beacon.sessions.context import Context
from beacon.sessions.requests import Written
from beacon.sessions.state import SessionState
from beacon.sessions.story import Story, story
from beacon.sessions.trail import Event, Trail, own_entries
from beacon.store.errors import StoreError
from verifier import entries
from verifier.entries import parse_entry

T = TypeVar("T")
Gone = Callable[[], bool]
"""Whether the one who waits has left."""


class Waiting:
    """Waits on one event loop, for whoever asks. A session is named by 32 bytes."""

    def __init__(self, context: Context, changes: Changes) -> None:
        self.changes: Final = changes
        self._context: Final = context

    async def entry_after(self, session: bytes, after: int | None, seconds: float, gone: Gone) -> None:
        """Wait until the session has an entry above log index `after`, has ended, or `seconds` are over.

        after: None for the newest entry that it has now. Raises ApiError(session-unknown, too-many-waiting).
        """

        async def look() -> bool | None:
            state = await self._context.find(session)
            return True if state.end is not None or state.last_index > limit else None

        limit = (await self._context.find(session)).last_index if after is None else after
        await self._until(session, look, seconds, gone)

    async def drawn(self, called: Written, seconds: float, gone: Gone) -> Written:
        """What a call gave back, and its draw if that is logged within `seconds`: outcomes, n and its receipt besides.

        When time runs out, the session ends without the draw, or too many wait, it is what it was.
        """
        call = called.call
        assert call is not None
        index = called.receipts[0]["events"][0]["index"]

        async def look() -> Written | None:
            state = await self._context.find(called.session)
            if any(pending.call.draw == call.draw for pending in state.pending):
                return None if state.end is None else called
            return await self._with_draw(called, call, index, state)

        try:
            return await self._until(called.session, look, seconds, gone) or called
        except (ApiError, StoreError):
            return called

    async def trail(self, session: bytes, after: int) -> Trail:
        """The session's entries above a log index, for `read`. Raises ApiError(session-unknown)."""
        await self._context.find(session)
        return Trail(session, after)

    async def read(self, trail: Trail) -> list[Event]:
        """The next entries of a trail that are durable."""
        return await self._context.transcripts.read(trail.read)

    async def story(self, session: bytes, before: int | None) -> Story:
        """The newest of the session's entries below a log index, or of all. Raises ApiError(session-unknown)."""
        await self._context.find(session)
        return await self._context.transcripts.read(lambda db: story(db, session, before))

    async def _with_draw(self, called: Written, call: entries.Call, index: int, state: SessionState) -> Written:
        session = called.session
        found = await self._context.log.read(lambda db: _draw(db, session, call.draw, index))
        if found is None:
            return called
        place, data, draw = found
        info = self._context.chain_of(state).as_dict()
        receipts = [*called.receipts, await self._context.transcripts.receipt(place, data, info)]
        shown = self._context.as_json(state)
        return replace(called, state=shown, receipts=receipts, outcomes=list(draw.outcomes), first_n=draw.n)

    async def _until(
        self, session: bytes, look: Callable[[], Awaitable[T | None]], seconds: float, gone: Gone
    ) -> T | None:
        until = asyncio.get_running_loop().time() + seconds
        with self.changes.watch(session, gone) as watch:
            while (found := await look()) is None:
                if not await watch.changed(until - asyncio.get_running_loop().time()):
                    return None
            return found


def _draw(db: Database, session: bytes, k: int, after: int) -> tuple[int, bytes, entries.Draw] | None:
    """Index, bytes and entry of draw k, which stands above log index `after`."""
    for index, data in own_entries(db, session, after):
        entry = parse_entry(data)
        if isinstance(entry, entries.Draw) and entry.draw == k:
            return index, data, entry
    return None
