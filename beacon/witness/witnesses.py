"""The witnesses of the log: each published checkpoint goes to all of them at once, and what they sign is published.

Publication never waits for them. Every `every_ms` at the most the newest checkpoint becomes the target, the same one
for all, so that a quorum signs one tree and not each its own; a witness that is slow or away skips targets.

At the start each is asked before anything is written. One that has seen more than there is here, or another tree, stops
the start: the database is an older copy. One that does not answer does not.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

import structlog
from sqlite_utils import Database

from beacon.clock import Clock
from beacon.log import cosignatures, reads
from beacon.log.cosignatures import Cosigned
from beacon.log.log import Log
from beacon.log.reads import SignedCheckpoint
from beacon.memory import forget_oldest
from beacon.settings import WitnessSettings
from beacon.store.errors import LogBehind, StoreError
from beacon.witness.client import Client, Result
from beacon.witness.configured import Asked
from beacon.witness.courier import Courier, Standing
from verifier.log_keys import name_of
from verifier.note import VerifierKey
from verifier.policy import Policy

POLL_SECONDS: Final = 0.05
REMEMBERED: Final = 64
"""Checkpoints whose cosignatures are in memory: the newest ones that were asked for."""
LOOKED_BACK: Final = 100

_log: Final[structlog.stdlib.BoundLogger] = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Witnessed:
    """How the log stands with one witness. lag: entries that it has not cosigned; behind_ms: for how long the first
    checkpoint with one of them has been public, 0 while there is none. disagrees: it has seen more than there is, or
    another history.
    """

    name: str
    standing: Standing
    lag: int
    behind_ms: int
    disagrees: bool


class Published(Protocol):
    """What the HTTP layer asks about witnesses."""

    def note(self, checkpoint: SignedCheckpoint) -> str: ...
    def newest(self) -> str | None: ...
    def report(self) -> Sequence[Witnessed]: ...
    async def covered(self, index: int, seconds: float) -> bool: ...
    def release(self) -> None: ...


class Nobody:
    """A log without witnesses."""

    def note(self, checkpoint: SignedCheckpoint) -> str:
        """The checkpoint as the log signed it."""
        return checkpoint.note

    def newest(self) -> str | None:
        """None: no checkpoint is cosigned."""
        return None

    def report(self) -> Sequence[Witnessed]:
        """Nobody."""
        return ()

    async def covered(self, index: int, seconds: float) -> bool:
        """Never, and that is known at once."""
        _ = index, seconds
        return False

    def release(self) -> None:
        """Nobody waits."""


class Witnesses:
    """Between `start` and `stop`, on one event loop."""

    def __init__(self, asked: Asked, log: Log, clock: Clock, settings: WitnessSettings) -> None:
        self._policy: Final = asked.policy
        self._configured: Final = asked.witnesses
        self._names: Final = {witness.key: witness.name for witness in asked.witnesses}
        self._log: Final = log
        self._clock: Final = clock
        self._settings: Final = settings
        self._couriers: tuple[Courier, ...] = ()
        self._client: Client | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._target: SignedCheckpoint = log.latest()
        self._published = clock.now()
        self._moved = asyncio.Event()
        self._grown = asyncio.Event()
        self._lines: Final[dict[int, dict[str, str]]] = {}
        self._quorum: tuple[int, str] = (0, "")
        self._released = False

    async def start(self) -> None:
        """Take up what was cosigned, ask every witness for the newest checkpoint, and go on asking.

        Raises LogBehind when one of them has seen another log than ours, the store's errors.
        """
        names, policy = self._names, self._policy
        sizes, found = await self._log.read(lambda db: _stored(db, names, policy))
        for item in reversed(found):
            self._lines.setdefault(item.size, {})[names[item.witness]] = item.line
        for size in [*self._lines]:
            await self._judge(size)
        self._client = Client(self._settings.timeout_ms / 1000)
        self._couriers = tuple(
            Courier(witness, self._log, self._client, sizes.get(witness.key, 0)) for witness in self._configured
        )
        failures = await asyncio.gather(*map(self._first, self._couriers), return_exceptions=True)
        failure = next((one for one in failures if one is not None), None)
        if failure is not None:
            await self._client.close()
            raise failure
        self._tasks = [asyncio.create_task(self._choose())]
        self._tasks += [asyncio.create_task(self._serve(courier)) for courier in self._couriers]

    async def stop(self) -> None:
        """End the requests and connections. What a witness signs meanwhile is asked for again after the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.close()

    def note(self, checkpoint: SignedCheckpoint) -> str:
        """The checkpoint with the cosignatures that there are."""
        return checkpoint.note + self._in_order(checkpoint.size)

    def newest(self) -> str | None:
        """The newest checkpoint that a quorum of the service's own policy has cosigned, with those cosignatures."""
        return self._quorum[1] or None

    def report(self) -> Sequence[Witnessed]:
        """How the log stands with each witness now, in the policy's order."""
        size, now = self._log.latest().size, self._clock.now()
        return [
            Witnessed(
                courier.witness.name,
                courier.standing,
                size - courier.standing.size,
                0 if courier.standing.behind_since is None else max(0, now - courier.standing.behind_since),
                courier.standing.forked or courier.standing.seen > size,
            )
            for courier in self._couriers
        ]

    async def covered(self, index: int, seconds: float) -> bool:
        """Wait until a quorum has cosigned one checkpoint that covers the entry; whether it has, after `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._quorum[0] <= index and not self._released:
                    await self._grown.wait()
        return self._quorum[0] > index

    def release(self) -> None:
        """Before a stop: let go everybody who waits, now and from now on."""
        self._released = True
        self._grown.set()

    async def _first(self, courier: Courier) -> None:
        """Ask for the newest checkpoint at the start. Raises LogBehind."""
        size, name = self._target.size, courier.witness.name
        cosigned, standing = await courier.ask(self._target), courier.standing
        if standing.last is Result.REFUSED:
            await courier.look(self._target, name_of(self._log.keys))
        if standing.seen > size:
            raise LogBehind(
                f"the log has size {size}, and the witness {name} has seen size {standing.seen} of it: this is an "
                f"older copy. Going on from here would sign a second history. Put the newest log.db back. If you are "
                f"sure that the witness is wrong, take it out of the policy ({self._settings.policy})"
            )
        if standing.forked:
            raise LogBehind(
                f"the witness {name} has seen another history of this log, and takes no proof that this one continues "
                f"it: an older copy was continued, or somebody else signs with log.key. Put the right log.db back. If "
                f"you are sure that the witness is wrong, take it out of the policy ({self._settings.policy})"
            )
        if cosigned is None:
            _log.warning("a witness did not cosign", witness=name, result=standing.last, detail=standing.detail)
            standing.behind_since = self._published
        else:
            await self._keep(cosigned)

    async def _choose(self) -> None:
        """Make the newest checkpoint the target, again and again."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            newest = self._log.latest()
            if newest.size == self._target.size:
                continue
            self._target, self._published = newest, self._clock.now()
            for courier in self._couriers:
                if courier.standing.behind_since is None:
                    courier.standing.behind_since = self._published
            moved, self._moved = self._moved, asyncio.Event()
            moved.set()
            await asyncio.sleep(self._settings.every_ms / 1000)

    async def _serve(self, courier: Courier) -> None:
        """Ask one witness for each target, or for the next one where it was late."""
        failing = courier.standing.failures_in_a_row > 0
        while True:
            if courier.standing.failures_in_a_row:
                await asyncio.sleep(courier.pause())
            moved, target = self._moved, self._target
            if courier.standing.size >= target.size:
                await moved.wait()
                continue
            try:
                cosigned = await courier.ask(target)
                if cosigned is not None:
                    await self._keep(cosigned)
            except StoreError as error:
                _log.error("a cosignature could not be kept", witness=courier.witness.name, reason=str(error))
                courier.standing.failures_in_a_row += 1
            except Exception:  # noqa: BLE001 - one witness must not stop the others
                _log.exception("a witness could not be asked", witness=courier.witness.name)
                courier.standing.failures_in_a_row += 1
            failing = self._tell(courier, failing=failing)

    def _tell(self, courier: Courier, *, failing: bool) -> bool:
        """Say once that a witness fails, and once that it does no more."""
        standing, size = courier.standing, self._log.latest().size
        if standing.failures_in_a_row == 1 and (standing.forked or standing.seen > size):
            _log.error("a witness has seen another log than this", witness=courier.witness.name, seen=standing.seen)
        elif bool(standing.failures_in_a_row) != failing:
            say = _log.info if failing else _log.warning
            what = "a witness cosigns again" if failing else "a witness did not cosign"
            say(what, witness=courier.witness.name, result=standing.last, detail=standing.detail)
        return bool(standing.failures_in_a_row)

    async def _keep(self, cosigned: Cosigned) -> None:
        """Publish a cosignature that is stored."""
        name, size = self._names[cosigned.witness], cosigned.size
        self._lines.setdefault(size, {}).setdefault(name, cosigned.line)
        forget_oldest(self._lines, REMEMBERED)
        await self._judge(size)
        for courier in self._couriers:
            if courier.witness.name == name:
                covered = size >= self._target.size
                courier.standing.behind_since = None if covered else self._published

    async def _judge(self, size: int) -> None:
        """Take note of a checkpoint that has a quorum, unless a larger one has."""
        lines = self._lines.get(size, {})
        if size < self._quorum[0] or not lines or not self._policy.satisfied(lines):
            return
        note = await self._log.read(lambda db: reads.signed_note(db, size))
        if size >= self._quorum[0]:
            self._quorum = (size, note + self._in_order(size))
        grown, self._grown = self._grown, asyncio.Event()
        grown.set()

    def _in_order(self, size: int) -> str:
        """The cosignatures of a checkpoint, in the policy's order."""
        lines = self._lines.get(size, {})
        return "".join(lines[name] for name in self._names.values() if name in lines)


def _stored(
    db: Database, names: Mapping[VerifierKey, str], policy: Policy
) -> tuple[dict[VerifierKey, int], list[Cosigned]]:
    """Each witness's newest size, and the cosignatures of the newest checkpoints, down to one that has a quorum."""
    found: list[Cosigned] = []
    for items in islice(cosignatures.newest_first(db), LOOKED_BACK):
        known = [item for item in items if item.witness in names]
        found += known
        if known and policy.satisfied(names[item.witness] for item in known):
            break
    return cosignatures.newest_sizes(db), found
