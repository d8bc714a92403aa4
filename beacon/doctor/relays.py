"""The clock and the relays: each relay is asked for the current round, for one that should not be there yet,
and the time.

What a relay answers is verified here. The service's own state is not touched.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

import aiohttp

from beacon.clock import Clock
from beacon.doctor.finding import Finding, fine, found
from beacon.relay_urls import public_name
from beacon.rounds.fetcher import Policy
from beacon.rounds.refusals import LIES, WAITING, Reason, Refusal
from beacon.rounds.relays import Relay, open_session
from beacon.rounds.verify import check, outcome_of
from beacon.settings import CONFIG_NAME, Settings
from verifier.drand import ChainInfo, Round, VerifiedRound

TIMEOUT_MS: Final = 4_000
AHEAD_TIMEOUT_MS: Final = 1_000
BEHIND_MS: Final = 3_000
AHEAD_MS: Final = 10_000
OFF_MS: Final = 2_000
DATE_MS: Final = 1_000
"""`Date` has whole seconds."""
AGE_DIGITS: Final = 10
"""An `Age` of so many is none (RFC 9111, 1.2.2)."""
CLOCK_FIX: Final = "chronyc makestep, or timedatectl set-ntp true; the service seals nothing with a wrong clock"


@dataclass(frozen=True, slots=True)
class Seen:
    """What one relay did. newest: of the rounds that it gave, verified; refusal: why it gave none, or no newer one.

    early: whether it has a round of the future, which verified. offset: its `Date` less this machine's time, ms.
    """

    url: str
    newest: VerifiedRound | None
    refusal: Refusal | None
    early: bool
    offset: int | None


async def examine(settings: Settings, chains: dict[str, ChainInfo], clock: Clock) -> list[Finding]:
    """Every relay of every chain whose info is known, and what they say of the clock."""
    findings: list[Finding] = []
    seen: list[Seen] = []
    async with open_session() as session:
        for chain in settings.chains:
            if (info := chains.get(chain.name)) is None:
                continue
            if info.current(clock.now()) > info.final_round:
                says = f"its last round was {info.final_round}"
                findings.append(found("chain-retired", chain.name, says, f"take the chain out of {CONFIG_NAME}"))
            looked = await asyncio.gather(*(_look(url, info, session, clock) for url in chain.relays))
            findings += _chain(chain.name, info, looked, clock)
            seen += looked
    return [*_clock(seen), *findings]


async def _look(url: str, chain: ChainInfo, session: aiohttp.ClientSession, clock: Clock) -> Seen:
    relay = Relay(url, session, clock, TIMEOUT_MS)
    current = min(chain.current(clock.now()), chain.final_round)
    newest, refusal = None, Refusal(Reason.NOT_YET, "the chain has not begun")
    back = Policy().fallback(chain)
    for number in dict.fromkeys(n for n in (current, current - 1, current - back) if n >= 1):
        try:
            newest = await _round(relay, chain, number)
            break
        except Refusal as error:
            refusal = error
            if error.reason not in {*WAITING, Reason.TIMEOUT}:
                break
    early = newest is not None and await _has_early(Relay(url, session, clock, AHEAD_TIMEOUT_MS), chain, clock)
    offset = await _offset(relay.url, session, clock)
    return Seen(url, newest, None if newest is not None and newest.round >= current - 1 else refusal, early, offset)


async def _has_early(relay: Relay, chain: ChainInfo, clock: Clock) -> bool:
    """Whether the relay has a round, which verifies, that is not due when its answer is there."""
    number = chain.current(clock.now()) + Policy().ahead(chain)
    if number > chain.final_round:
        return False
    try:
        stated = await relay.fetch(chain, number, ahead=True)
    except Refusal:
        return False
    early = chain.time(number) > clock.now()
    return early and isinstance(await _verified(chain, stated), VerifiedRound)


async def _round(relay: Relay, chain: ChainInfo, number: int) -> VerifiedRound:
    """Raises Refusal."""
    outcome = await _verified(chain, await relay.fetch(chain, number))
    if isinstance(outcome, Refusal):
        raise outcome
    return outcome


async def _verified(chain: ChainInfo, stated: Round) -> VerifiedRound | Refusal:
    return outcome_of(await asyncio.to_thread(check, chain, stated))


async def _offset(url: str, session: aiohttp.ClientSession, clock: Clock) -> int | None:
    """How far a server's `Date`, plus a cache's `Age`, is ahead of the clock, ms, at least; None if there is none."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_MS / 1000)
    begun = clock.now()
    try:
        async with session.get(url, allow_redirects=False, timeout=timeout) as response:
            ended, headers = clock.now(), response.headers
        age = headers.get("Age", "0").strip()
        seconds = int(age) if age.isascii() and age.isdecimal() and len(age) < AGE_DIGITS else 0
        date = 1000 * (int(parsedate_to_datetime(headers["Date"]).timestamp()) + seconds)
    except (aiohttp.ClientError, TimeoutError, OSError, LookupError, TypeError, ValueError, OverflowError):
        return None
    return max(0, date - ended) + min(0, date + DATE_MS - begun)


def _clock(seen: Sequence[Seen]) -> Iterator[Finding]:
    about = "this machine's clock"
    offsets = [one.offset for one in seen if one.offset is not None]
    offset = statistics.median_low(offsets) if offsets else 0
    early = sorted({public_name(one.url) for one in seen if one.early})
    if early or offset > BEHIND_MS:
        says = (
            f"{offset / 1000:.0f} s behind the relays' time" if offset > BEHIND_MS else "rounds of the future are there"
        )
        yield found("clock-behind", about, says + (f" ({', '.join(early)})" if early else ""), CLOCK_FIX)
    elif offset < -AHEAD_MS:
        yield found("clock-ahead", about, f"{-offset / 1000:.0f} s ahead of the relays' time", CLOCK_FIX)
    elif abs(offset) > OFF_MS:
        yield found("clock-off", about, f"{offset / 1000:+.1f} s to the relays' time", CLOCK_FIX)
    elif offsets:
        yield fine("clock", about, f"agrees with {len(offsets)} relays and with the rounds that they have")
    else:
        yield fine("clock", about, "no relay says what time it is")


def _chain(name: str, chain: ChainInfo, looked: Sequence[Seen], clock: Clock) -> Iterator[Finding]:
    yield from (_relay(name, one) for one in looked)
    if any(one.newest is not None for one in looked):
        return
    if chain.current(clock.now()) == 0:
        says = "its first round has not come"
    elif any(one.refusal is not None and one.refusal.reason in WAITING for one in looked):
        says = "the relays have only older ones: either this machine's clock is fast, or drand stands still"
    else:
        says = "no relay gives one"
    fix = f"curl -sS {public_name(looked[0].url)}/v2/chains/{chain.hash.hex()}/rounds/latest; look at DNS and firewall"
    yield found("chain-without-rounds", name, says, fix)


def _relay(name: str, one: Seen) -> Finding:
    about, change = public_name(one.url), f"put another relay of {name} into {CONFIG_NAME}"
    if one.refusal is None:
        assert one.newest is not None
        return fine("relay", about, f"round {one.newest.round} of {name}, verified")
    reason, says = one.refusal.reason, f"{name}: {one.refusal}"
    if one.newest is not None or reason in WAITING:
        return found("relay-late", about, says, f"curl -sSi {about}; if it stays so, {change}")
    if reason is Reason.WRONG_CHAIN:
        return found("relay-other-chain", about, says, change)
    if reason in LIES:
        return found("relay-lies", about, says, change)
    return found("relay-unusable", about, says, f"curl -sSi {about}; if it stays so, {change}")
