"""/rounds: the random networks that the service follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aiohttp import web
from sqlite_utils import Database

from beacon.log import reads
from beacon.relay_urls import public_name
from beacon.rounds.rounds import ChainStatus
from beacon.web import waits
from beacon.web.pages.chain_view import ChainView, chain_view
from beacon.web.pages.rendering import page
from beacon.web.services import SERVICES, Chain, Services
from verifier import entries
from verifier.entries import parse_entry
from verifier.seeds import sha256

ROUNDS: Final = 10

routes: Final = web.RouteTableDef()


@dataclass(frozen=True, slots=True)
class RelayView:
    """One relay, by what names it; times in ms."""

    name: str
    last_round: int | None
    latency: int | None
    failing: int


@dataclass(frozen=True, slots=True)
class LoggedRound:
    """A round that the log has. randomness: hex; time: when it fell due, ms."""

    index: int
    round: int
    time: int
    randomness: str


@dataclass(frozen=True, slots=True)
class FollowedChain:
    """A chain, how it does, its relays, and the newest of its rounds that sessions used."""

    view: ChainView
    status: ChainStatus
    default: bool
    sandbox_only: bool
    relays: tuple[RelayView, ...]
    rounds: tuple[LoggedRound, ...]


@routes.get("/rounds")
async def rounds_page(request: web.Request) -> web.Response:
    """The random networks that are followed, how each does, and the newest rounds that sessions used."""
    services = request.app[SERVICES]
    waits.only(request)
    return await page(request, "rounds.html", chains=[await _followed(services, chain) for chain in services.chains])


async def _followed(services: Services, chain: Chain) -> FollowedChain:
    status = services.status(chain)
    rounds = await services.log.read(lambda db: _rounds(db, chain))
    relays = tuple(
        RelayView(public_name(one.url), one.last_round, one.latency, one.failures_in_a_row) for one in status.relays
    )
    default = chain.name == services.settings.default_chain
    return FollowedChain(
        chain_view(services, chain.info.hash), status, default, chain.sandbox_only, relays, tuple(rounds)
    )


def _rounds(db: Database, chain: Chain) -> list[LoggedRound]:
    query = "SELECT i FROM round_entries WHERE chain = ? ORDER BY round DESC LIMIT ?"
    found = []
    for (index,) in db.conn.execute(query, (chain.info.hash, ROUNDS)).fetchall():
        entry = parse_entry(reads.entry(db, index))
        assert isinstance(entry, entries.Round)
        found.append(LoggedRound(index, entry.round, chain.info.time(entry.round), sha256(entry.signature).hex()))
    return found
