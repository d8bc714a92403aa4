"""The commands of live sessions: the call, and the link of a host that holds its own seed."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from beacon.errors import ApiError
from beacon.sessions import calls, draws, rules
from beacon.sessions.context import Ahead, Context, Key, Step
from beacon.sessions.requests import DrawRequest, LinkRequest, Written
from beacon.sessions.settling import outcomes
from beacon.sessions.state import SessionState
from verifier import entries


class Live:
    """What hosts ask of live sessions."""

    def __init__(self, context: Context) -> None:
        self._context: Final = context

    async def calling(self, state: SessionState, request: DrawRequest) -> Step:
        """The call of the next draw: it names a round that does not exist yet."""
        if request.count != 1 or request.outcomes is not None:
            raise ApiError("draw-count", "a live session is called for one draw at a time, and the service draws it")
        context, chain, session = self._context, self._context.chain_of(state), state.session
        contributions = calls.sorted_contributions(
            [entries.CallContribution(item.participant, item.entropy, item.signature) for item in request.contributions]
        )
        asked = calls.Asked(request.recipe, request.purpose, contributions, request.draw, request.n)
        now = context.clock.now()
        rules.running(chain, now)
        calls.call(state, replace(asked, draw=None, n=None), chain, context.known_time(chain, now), now)
        if contributions:
            await asyncio.to_thread(calls.check_contributors, state, asked)
        if state.seal.custody == "beacon":
            await context.custody.chain(state.seal.commitment, state.seal.links)

        def step(time: int, ahead: Ahead) -> list[bytes]:
            staged, newest = context.staged(session, ahead), context.known_time(chain, time)
            return ahead.put(calls.call(staged, asked, chain, newest, time))

        return step

    async def hand_in(self, state: SessionState, request: LinkRequest, key: Key | None) -> Written:
        """The draw of a call by its link; an outcome that the host says and that is not so is refused."""
        context, chain = self._context, self._context.chain_of(state)
        if not state.live or state.seal.custody != "host":
            raise ApiError("not-your-seed", "links are handed in for live sessions whose host holds the seed")
        k, link = request.draw, request.link
        pending = calls.host_link(state, k, link, chain, context.clock.now())
        made = (await outcomes(context, draws.called(state, pending), link))[0]
        if request.outcome is not None and request.outcome != made:
            raise ApiError("outcome-wrong", f"link {k} gives another outcome", extra={"outcome": made})

        def step(time: int, ahead: Ahead) -> list[bytes]:
            context.no_doubt(chain)
            staged = context.staged(state.session, ahead)
            return ahead.put(calls.draw(staged, calls.host_link(staged, k, link, chain, time), link, made, time))

        return (await context.write(step, key=key))[0]
