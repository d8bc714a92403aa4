"""/s/{session}: a session for people."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from beacon.web import waits
from beacon.web.pages.chain_view import chain_view
from beacon.web.pages.keeping import MADE
from beacon.web.pages.rendering import html_response, render
from beacon.web.pages.session_view import facts, session_view
from beacon.web.requests import session_id
from beacon.web.services import SERVICES

routes: Final = web.RouteTableDef()


@routes.get("/s/{session}")
async def session_page(request: web.Request) -> web.Response:
    """A session as a time line, live while it runs, with how to check it and redo a draw by hand; takes join links."""
    services, session = request.app[SERVICES], session_id(request)
    waits.only(request, "before")
    before = waits.index(request, "before")
    state = await services.sessions.state(session)

    async def make() -> bytes:
        story = await services.waiting.story(session, before)
        seal, lock = state.seal, state.seal.timelock
        lock_chain = None if lock is None else chain_view(services, lock.chain)
        view = await asyncio.to_thread(session_view, state, story, chain_view(services, seal.chain), lock_chain)
        return await render(request, "session.html", vkeys=tuple(map(str, services.log.keys.keys)), **facts(view))

    key = (session, state.last_index, state.name, before)
    return html_response(request, await request.app[MADE].get(key, make))
