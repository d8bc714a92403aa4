"""What is drawn by the service itself once rounds are in: the calls of live sessions, and the plans of matches.

Everything here is decided again on the log's writer thread: a draw that has been made meanwhile, or a session that has
ended, leaves nothing to append. Where thousands of sessions wait for one round, their draws go into the log together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from beacon.errors import ApiError
from beacon.log import wire
from beacon.log.sequencer import Appended
from beacon.sessions import calls, commands, draws, rules
from beacon.sessions.context import Context
from beacon.sessions.links import Links
from beacon.sessions.state import Pending, SessionState
from beacon.sessions.worker import LIGHT
from verifier import entries

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)
CHUNK: Final = 250
"""Draws that are made and appended at a step: the steps that wait share one transaction."""


@dataclass(frozen=True, slots=True)
class Made:
    """One call's draw, made and not yet logged."""

    session: bytes
    pending: Pending
    link: bytes
    outcome: Any


async def draw_calls(context: Context, states: Iterable[SessionState]) -> set[bytes]:
    """Draw the calls of these sessions whose rounds are in the log. The names of those where it did not go well.

    One session's trouble is logged and leaves the others alone. Raises ApiError(clock-unsure) and the store's errors.
    """
    failed: set[bytes] = set()
    made: list[Made] = []
    for number, state in enumerate(states):
        try:
            made.extend(await _make(context, state))
        except ApiError as error:
            _log.error("a call cannot be drawn", session=state.session.hex(), reason=error.detail)
            failed.add(state.session)
        if number % CHUNK == CHUNK - 1:
            await asyncio.sleep(0)
    chunks = [made[start : start + CHUNK] for start in range(0, len(made), CHUNK)]
    appended = await asyncio.gather(*(_append(context, chunk) for chunk in chunks))
    drawn = sum(len(entries_of) for entries_of in appended)
    if drawn:
        context.settled.observe(drawn)
        _log.info("calls drawn", count=drawn)
    return failed


async def draw_one_by_one(context: Context, state: SessionState) -> None:
    """As `draw_calls`, for one session whose draws are much work: each is logged once it is made."""
    chain = await context.custody.chain(state.seal.commitment, state.seal.links)
    for pending, drawing in calls.drawings(state):
        link = chain.link(pending.call.draw)
        made = Made(state.session, pending, link, (await outcomes(context, drawing, link))[0])
        context.settled.observe(len(await _append(context, [made])))
        await asyncio.sleep(0)


async def _make(context: Context, state: SessionState, chain: Links | None = None) -> list[Made]:
    """The draws of a session's due calls. chain: of its seed, where the service does not hold it."""
    if chain is None:
        chain = await context.custody.chain(state.seal.commitment, state.seal.links)
    return [
        Made(state.session, pending, link, (await outcomes(context, drawing, link))[0])
        for pending, drawing in calls.drawings(state)
        for link in (chain.link(pending.call.draw),)
    ]


async def outcomes(context: Context, drawing: draws.Drawing, seed: bytes) -> list[Any]:
    """The outcomes of a drawing: heavy ones are made in another process."""
    return await context.worker.run(drawing.outcomes, seed) if drawing.work > LIGHT else drawing.outcomes(seed)


async def _append(context: Context, made: Sequence[Made]) -> list[Appended]:
    def build(time: int) -> list[bytes]:
        following: dict[bytes, int] = {}
        built = []
        for item in made:
            state = context.book.staged(item.session)
            if state is None or state.end is not None:
                continue
            place = following.get(item.session, 0)
            if place >= len(state.pending) or state.pending[place].index != item.pending.index:
                continue
            context.no_doubt(context.chain_of(state))
            built.append(wire.encode(calls.draw(state, item.pending, item.link, item.outcome, time)))
            following[item.session] = place + 1
        return built

    return await context.log.append(build)


async def draw_plan(context: Context, state: SessionState, seed: bytes) -> None:
    """Draw what is left of a match's plan under its seed (32 bytes). A session that has ended meanwhile is left."""
    current: SessionState | None = state
    while current is not None and (drawing := draws.planned(current)) is not None:
        await _append_planned(context, current, drawing, seed)
        current = context.book.get(state.session)


async def finish_plan(context: Context, state: SessionState, seed: bytes, by: commands.Revealer = "service") -> None:
    """Draw what is left of an anchored match's plan, if it has one, and reveal its seed (32 bytes)."""
    await draw_plan(context, state, seed)
    chain = context.chain_of(state)

    def build(time: int) -> list[bytes]:
        staged = context.book.staged(state.session)
        if staged is None or staged.end is not None or draws.planned(staged) is not None:
            return []
        context.no_doubt(chain)
        return [wire.encode(commands.reveal(staged, chain, by, seed, time))]

    await context.log.append(build)


async def finish_opened(context: Context, state: SessionState, last: bytes) -> None:
    """End a session whose seed s_N (32 bytes) its timelock gave: draw what was called or planned, and reveal.

    A live session's draws show its links, so that its reveal is the service's in any case (6.7).
    """
    if not state.live:
        await finish_plan(context, state, last, "timelock")
        return
    chain = context.chain_of(state)
    made = await _make(context, state, await asyncio.to_thread(Links, last, state.seal.links))
    await _append(context, made)

    def build(time: int) -> list[bytes]:
        staged = context.book.staged(state.session)
        if staged is None or staged.end is not None or staged.pending:
            return []
        context.no_doubt(chain)
        return [wire.encode(commands.reveal(staged, chain, "service", staged.last_link, time))]

    await context.log.append(build)


async def _append_planned(context: Context, state: SessionState, drawing: draws.Drawing, seed: bytes) -> None:
    """Make the next draws of a plan, and append them if they still are the next."""
    made = await outcomes(context, drawing, seed)
    chain = context.chain_of(state)

    def build(time: int) -> list[bytes]:
        context.no_doubt(chain)
        if draws.planned(rules.open_session(context.book.staged(state.session))) != drawing:
            return []
        return [wire.encode(entries.Draw(time, state.session, drawing.name, drawing.first, "", tuple(made)))]

    await context.log.append(build)
