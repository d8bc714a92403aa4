"""What a Beacon and its Sessions share: requests, and what is checked of each answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from beacon.client_checks import Dishonest, Receipts
from beacon.client_http import Transport
from verifier import entries
from verifier.bls.verify import best_backend
from verifier.drand import ChainInfo, Round, VerifiedRound, verify_rounds
from verifier.transcript import Event, document_bytes


class Connection:
    """One service, its pinned log and chains, and the folder where receipts are kept."""

    def __init__(
        self,
        transport: Transport,
        checks: Receipts,
        chains: Mapping[bytes, ChainInfo],
        folder: Path | None,
        clock: Callable[[], int],
    ) -> None:
        """chains: by hash (32 bytes); clock: ms since the epoch."""
        self.transport: Final = transport
        self.checks: Final = checks
        self.chains: Final = chains
        self.clock: Final = clock
        self._folder: Final = folder

    def chain(self, chain_hash: bytes) -> ChainInfo:
        """A pinned chain. Raises Dishonest for another: nothing could be verified of it."""
        chain = self.chains.get(chain_hash)
        if chain is None:
            raise Dishonest(f"the session is bound to a chain that is not pinned here: {chain_hash.hex()}")
        return chain

    async def fetched(self, session: str, index: int) -> dict[str, Any]:
        """The receipt of one of a session's entries, unchecked."""
        return await self.transport.get(f"/v1/sessions/{session}/receipts/{index}")

    async def receipt(self, document: Mapping[str, Any], kind: type[entries.Entry], **says: Any) -> Event:
        """The event of a receipt that holds, which is kept. Raises Dishonest."""
        event = self.checks.check(document, kind, **says)
        if self._folder is not None:
            name = f"{event.index:012}-{event.entry.type}.json"
            await asyncio.to_thread(_write, self._folder / name, document_bytes(document))
        return event

    async def round(self, chain_hash: bytes, number: int) -> VerifiedRound:
        """A round, asked of the service and verified under the pinned chain."""
        said = await self.transport.get(f"/v1/chains/{chain_hash.hex()}/rounds/{number}")
        previous = said.get("previous_signature")
        stated = Round(number, bytes.fromhex(said["signature"]), None if previous is None else bytes.fromhex(previous))
        return (await self.verified(chain_hash, [stated]))[0]

    async def verified(self, chain_hash: bytes, stated: Sequence[Round]) -> list[VerifiedRound]:
        """Rounds, verified together under the pinned chain on the best backend, in a thread. Raises Dishonest."""
        found = []
        checked = await asyncio.to_thread(verify_rounds, self.chain(chain_hash), stated, best_backend())
        for one, outcome in zip(stated, checked, strict=True):
            if not isinstance(outcome, VerifiedRound):
                raise Dishonest(f"round {one.round} does not verify: {outcome.message}") from outcome
            found.append(outcome)
        return found


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(".part")
    half.write_bytes(data)
    half.replace(path)
