"""A drand network of one: a key, a chain, and every round of it signed on demand. For tests, and for nothing else."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from beacon.clock import Clock
from verifier.bls import reference
from verifier.drand import SCHEMES, ChainInfo, Round, Scheme
from verifier.encoding import parse_document_json, parse_hex, u32, u64
from verifier.errors import VerifierError

BEACON_ID: Final = "devnet"
DEFAULT_SCHEME: Final = "bls-unchained-g1-rfc9380"
_SECRET_BYTES: Final = 32
_KEPT_ROUNDS: Final = 4_096
_STATE_FIELDS: Final = frozenset({"secret", "genesis_seed", "genesis_time", "period", "scheme"})


class DevnetError(Exception):
    """The devnet cannot run: a file of its is not what it should be, or is of another network."""


class NotDue(Exception):  # noqa: N818 - named by what happened
    """A round that does not exist yet, or is not in the recording, is shown to nobody."""


class Source(Protocol):
    """Where a devnet has its rounds from."""

    @property
    def chain(self) -> ChainInfo: ...
    @property
    def last(self) -> int | None:
        """The last round that there will ever be; None: no end."""
        ...

    async def round(self, round_number: int) -> Round:
        """The round, whether it is due or not. Raises NotDue when there is none."""
        ...

    async def second(self, round_number: int) -> Round:
        """The round with another valid signature, as a broken network signs it. Raises NotDue when it cannot."""
        ...


@dataclass(frozen=True)
class Network:
    """The key and the chain. `fresh` makes one; the state file keeps one."""

    chain: ChainInfo
    secret: int = field(repr=False)

    @classmethod
    def make(
        cls, secret: int, genesis_seed: bytes, genesis_time: int, period: int, scheme: str = DEFAULT_SCHEME
    ) -> Network:
        """genesis_seed: 32 bytes; genesis_time and period: seconds. Raises DevnetError for a scheme of no name."""
        row = _scheme(scheme)
        key = reference.public_key(row.group, secret)
        head = u32(period) + u64(genesis_time)
        chain_hash = hashlib.sha256(head + key + genesis_seed + BEACON_ID.encode()).digest()
        return cls(ChainInfo(chain_hash, key, period, genesis_time, genesis_seed, row, BEACON_ID), secret)

    @classmethod
    def fresh(cls, period: int, genesis_time: int, scheme: str = DEFAULT_SCHEME) -> Network:
        """A network with a new random key and genesis seed."""
        secret = 1 + secrets.randbelow(reference.order(_scheme(scheme).group) - 1)
        return cls.make(secret, secrets.token_bytes(32), genesis_time, period, scheme)

    @classmethod
    def load(cls, path: Path) -> Network:
        """The network of a state file. Raises DevnetError."""
        try:
            state = {"scheme": DEFAULT_SCHEME} | parse_document_json(path.read_bytes())
            if set(state) != _STATE_FIELDS:
                raise DevnetError(f"{path} is no devnet state file")
            secret = int.from_bytes(parse_hex(state["secret"], _SECRET_BYTES), "big")
            seed = parse_hex(state["genesis_seed"], 32)
            times = _integer(state["genesis_time"]), _integer(state["period"])
            return cls.make(secret, seed, *times, str(state["scheme"]))
        except (OSError, OverflowError, VerifierError) as error:
            raise DevnetError(f"{path} is no devnet state file: {error}") from error

    def save(self, path: Path) -> None:
        """Write a new state file that only its owner may read. Raises DevnetError when there is one."""
        state = {
            "secret": self.secret.to_bytes(_SECRET_BYTES, "big").hex(),
            "genesis_seed": self.chain.genesis_seed.hex(),
            "genesis_time": self.chain.genesis_time,
            "period": self.chain.period,
            "scheme": self.chain.scheme.name,
        }
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(json.dumps(state, indent=1) + "\n")
        except OSError as error:
            raise DevnetError(f"cannot write {path}: {error.strerror}") from error

    def sign(self, round_number: int, previous_signature: bytes | None = None) -> bytes:
        """The signature of a round: some 10 ms of pure Python. previous_signature: on chained schemes."""
        scheme = self.chain.scheme
        message = scheme.message(round_number, previous_signature)
        return reference.sign(scheme.group, scheme.dst, self.secret, message)


class Signer:
    """The rounds of a network, each signed once. A chained one has to sign all before the one that is asked for."""

    def __init__(self, network: Network) -> None:
        self.network: Final = network
        self.chain: Final = network.chain
        self.last: Final = None
        self._signatures: dict[int, bytes] = {}
        self._signing = asyncio.Lock()

    async def round(self, round_number: int) -> Round:
        if not 1 <= round_number <= self.chain.final_round:
            raise NotDue(f"there is no round {round_number}")
        async with self._signing:
            if not self.chain.scheme.chained:
                return Round(round_number, await self._signature(round_number, None))
            known = round_number
            while known > 1 and known - 1 not in self._signatures:
                known -= 1
            previous = self.chain.genesis_seed if known == 1 else self._signatures[known - 1]
            for number in range(known, round_number):
                previous = await self._signature(number, previous)
            return Round(round_number, await self._signature(round_number, previous), previous)

    async def second(self, round_number: int) -> Round:
        if not self.chain.scheme.chained or round_number == 1:
            raise NotDue("a round of this scheme has one valid signature")
        previous = await asyncio.to_thread(self.network.sign, round_number, bytes(self.chain.scheme.signature_bytes))
        return Round(round_number, await asyncio.to_thread(self.network.sign, round_number, previous), previous)

    async def _signature(self, round_number: int, previous: bytes | None) -> bytes:
        if round_number not in self._signatures:
            signature = await asyncio.to_thread(self.network.sign, round_number, previous)
            if len(self._signatures) >= _KEPT_ROUNDS and not self.chain.scheme.chained:
                del self._signatures[next(iter(self._signatures))]
            self._signatures[round_number] = signature
        return self._signatures[round_number]


class Recording:
    """Rounds that were recorded, of one chain. What they say is served as it is, true or not."""

    def __init__(self, chain: ChainInfo, rounds: Iterable[Round]) -> None:
        """Raises DevnetError for no rounds at all."""
        self.chain: Final = chain
        self._rounds: Final = {stated.round: stated for stated in rounds}
        if not self._rounds:
            raise DevnetError("a recording without rounds")
        self.first: Final = min(self._rounds)
        self.last: Final = max(self._rounds)

    async def round(self, round_number: int) -> Round:
        if round_number not in self._rounds:
            raise NotDue(f"round {round_number} is not in the recording")
        return self._rounds[round_number]

    async def second(self, round_number: int) -> Round:
        raise NotDue(f"the recording has one round {round_number}")


class ReplayClock:
    """The time as it was when a recording began, running on from now, `speed` times as fast."""

    def __init__(self, begin_ms: int, speed: float, base: Clock) -> None:
        self.speed: Final = speed
        self._begin = begin_ms
        self._base = base
        self._since = base.now()

    def now(self) -> int:
        return self._begin + int((self._base.now() - self._since) * self.speed)


def open_network(period: int, state_file: Path | None, clock: Clock, scheme: str = DEFAULT_SCHEME) -> Network:
    """The network of the state file, or a fresh one whose first round is due now. Raises DevnetError."""
    if state_file is not None and state_file.exists():
        network = Network.load(state_file)
        chain = network.chain
        if chain.period != period:
            raise DevnetError(f"{state_file} is of a network with a period of {chain.period} s, not {period}")
        if chain.scheme.name != scheme:
            raise DevnetError(f"{state_file} is of a network with the scheme {chain.scheme.name}, not {scheme}")
        return network
    network = Network.fresh(period, clock.now() // 1000, scheme)
    if state_file is not None:
        network.save(state_file)
    return network


def _scheme(name: str) -> Scheme:
    if name not in SCHEMES:
        raise DevnetError(f"there is no scheme {name}; there are {', '.join(SCHEMES)}")
    return SCHEMES[name]


def _integer(value: object) -> int:
    if type(value) is not int:
        raise DevnetError("a devnet state file holds integers for its times")
    return value
