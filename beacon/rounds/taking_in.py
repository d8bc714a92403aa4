"""A running service takes in what other processes left in the spool: each round is verified again, then accepted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, Protocol

import structlog

from beacon.rounds.lines import LineRefused
from beacon.rounds.relays import timer
from beacon.rounds.spool import Spool
from beacon.rounds.verify import RoundVerifier
from verifier.drand import ChainInfo, VerifiedRound

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


class Acceptor(Protocol):
    """Stores a verified round and tells of it; whether it agrees with the store and every listener took it."""

    async def accept(self, verified: VerifiedRound) -> bool: ...


async def take_in(spool: Spool, chain: ChainInfo, verifier: RoundVerifier, acceptor: Acceptor, budget: int) -> int:
    """Take in the files that wait for a chain, for about `budget` ms at the most; how many rounds are in.

    A file is removed when all of it is in, and put aside when a line of it is no round of the chain or does not verify.
    What fails otherwise is left, and looked at again at the next wake. A file that cannot be read, moved or removed
    keeps no other waiting.
    """
    until = timer() + budget / 1000
    count = 0
    for path in await asyncio.to_thread(spool.files, chain):
        try:
            taken, refused = await _take(spool, path, chain, verifier, acceptor)
        except FileNotFoundError:
            continue
        except _Unreadable as error:
            _log.error("a file of rounds cannot be read", chain=chain.beacon_id, file=path.name, reason=str(error))
            continue
        except Exception:  # noqa: BLE001 - looked at again at the next wake
            _log.exception("a file of rounds was not taken in", chain=chain.beacon_id, file=path.name)
            break
        count += taken
        try:
            await asyncio.to_thread(spool.refuse if refused else spool.done, path)
        except OSError as error:
            _log.error("a file of rounds stays", chain=chain.beacon_id, file=path.name, reason=error.strerror)
        if refused:
            _log.error("a file of rounds was put aside", chain=chain.beacon_id, file=path.name, reason=str(refused))
        if timer() >= until:
            break
    return count


class _Unreadable(Exception):  # noqa: N818 - named by what happened
    """A file that is there and cannot be read."""


async def _take(
    spool: Spool, path: Path, chain: ChainInfo, verifier: RoundVerifier, acceptor: Acceptor
) -> tuple[int, LineRefused | None]:
    """Store the rounds of a file that verify: how many, and the line of it that is no round, if there is one."""
    try:
        stated = await asyncio.to_thread(spool.read, path, chain)
    except LineRefused as refused:
        return 0, refused
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _Unreadable(error.strerror) from error
    outcomes = await verifier.verify_many(chain, stated)
    valid = [outcome for outcome in outcomes if isinstance(outcome, VerifiedRound)]
    await asyncio.gather(*(acceptor.accept(verified) for verified in valid))
    if len(valid) == len(outcomes):
        return len(valid), None
    bad = next(number for number, outcome in enumerate(outcomes, 1) if outcome not in valid)
    return len(valid), LineRefused(bad, f"round {stated[bad - 1].round} does not verify")
