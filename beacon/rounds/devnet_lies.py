"""How a devnet lies when it is told to: every answer is wrong in one way, and a client shows what it makes of it."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, TypeAlias

from aiohttp import web

from beacon.rounds.network import Source
from verifier.drand import Round

Answer: TypeAlias = "dict[str, Any] | web.StreamResponse"
Render: TypeAlias = Callable[[Round], "dict[str, Any]"]
_TRICKLE_SECONDS: Final = 0.5


async def _other_signature(source: Source, stated: Round, render: Render, _: web.Request) -> Answer:
    return render(replace(stated, signature=(await _neighbour(source, stated)).signature))


async def _wrong_round(source: Source, stated: Round, render: Render, _: web.Request) -> Answer:
    return render(await _neighbour(source, stated))


async def _randomness(_: Source, stated: Round, render: Render, __: web.Request) -> Answer:
    return render(stated) | {"randomness": hashlib.sha256(b"forged" + stated.signature).hexdigest()}


async def _second_signature(source: Source, stated: Round, render: Render, _: web.Request) -> Answer:
    return render(await source.second(stated.round))


async def _twice(_: Source, stated: Round, render: Render, __: web.Request) -> Answer:
    return render(replace(stated, signature=stated.signature * 2))


async def _html(_: Source, __: Round, ___: Render, ____: web.Request) -> Answer:
    return web.Response(text="<!doctype html><title>Sign in</title>", content_type="text/html")


async def _redirect(_: Source, __: Round, ___: Render, request: web.Request) -> Answer:
    return web.Response(status=302, headers={"Location": f"http://localhost:{request.url.port}{request.path}?again"})


async def _cached_404(_: Source, __: Round, ___: Render, ____: web.Request) -> Answer:
    return web.Response(
        status=404, text="not found\n", headers={"Age": "3600", "Cache-Control": "public, max-age=7200"}
    )


async def _slow(_: Source, stated: Round, render: Render, request: web.Request) -> Answer:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    for byte in json.dumps(render(stated)).encode():
        await response.write(bytes([byte]))
        await asyncio.sleep(_TRICKLE_SECONDS)
    return response


async def _neighbour(source: Source, stated: Round) -> Round:
    return await source.round(stated.round - 1 if stated.round > 1 else 2)


_Lie: TypeAlias = Callable[[Source, Round, Render, web.Request], Awaitable[Answer]]

ROUND_LIES: Final[dict[str, _Lie]] = {
    "other-signature": _other_signature,
    "wrong-round": _wrong_round,
    "randomness": _randomness,
    "second-signature": _second_signature,
    "twice": _twice,
    "html": _html,
    "redirect": _redirect,
    "cached-404": _cached_404,
    "slow": _slow,
}
LIES: Final = (*ROUND_LIES, "other-chain")
"""What a devnet can be told to do to its answers. second-signature: on chained schemes only."""


def other_chain(info: dict[str, Any]) -> dict[str, Any]:
    """The info of a chain with another genesis."""
    return info | {"genesis_time": info["genesis_time"] + 1}


def cannot(lie: str, source: Source) -> str | None:
    """Why the lie cannot be told of this source, or None."""
    if lie == "second-signature" and not source.chain.scheme.chained:
        return f"a round of {source.chain.scheme.name} has one valid signature"
    return None


async def told(lie: str, source: Source, stated: Round, render: Render, request: web.Request) -> Answer:
    """The answer with the lie in it. Raises NotDue when the lie needs a round that is not there."""
    return await ROUND_LIES[lie](source, stated, render, request)
