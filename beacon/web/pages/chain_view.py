"""Which random network a session rests on, and how it is to be called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from beacon.web.services import Services
from verifier.drand import ChainInfo
from verifier.fetch import main_chains, pinned_chains


@dataclass(frozen=True, slots=True)
class ChainView:
    """A chain as pages show it.

    name: the settings' or drand's, else empty. info: None where it is neither followed nor pinned. kind: `main` for
    drand's main network, `test` for its test networks, `own` for any other: whoever runs it may know its rounds.
    """

    hash: str
    name: str
    kind: Literal["main", "test", "own"]
    info: ChainInfo | None

    def time(self, number: int) -> int | None:
        """When a round falls due, in ms, where the chain is known."""
        return None if self.info is None else self.info.time(number)


def chain_view(services: Services, chain: bytes) -> ChainView:
    """A chain by its hash (32 bytes), followed by the service or not."""
    pinned = {info.hash: (name, info) for name, info in pinned_chains().items()}
    followed = {one.info.hash: (one.name, one.info) for one in services.chains}
    name, info = followed.get(chain) or pinned.get(chain) or ("", None)
    known = pinned.get(chain)
    if known is None or info != known[1]:
        return ChainView(chain.hex(), name, "own", info)
    return ChainView(chain.hex(), name, "main" if known[0] in main_chains() else "test", info)
