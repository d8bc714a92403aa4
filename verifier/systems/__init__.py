"""Records that other provably fair systems publish, and how each is replayed: one file a system.

A replay says whether a record's results follow from its inputs. It never says that a game was fair: each system names
what stays open in `does_not_prove`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from verifier.systems import (
    blockrand,
    boardgammon,
    bustabit,
    casino_sdk,
    commit_reveal,
    cube,
    freebitco,
    hubx,
    nard,
    one_time_codes,
    raffair,
    rfc3797,
    skinclub,
    stake,
    wallop,
)
from verifier.systems.record import System

SYSTEMS: Final[Mapping[str, System]] = {
    module.SYSTEM.name: module.SYSTEM
    for module in (
        cube,
        casino_sdk,
        nard,
        boardgammon,
        commit_reveal,
        bustabit,
        stake,
        rfc3797,
        freebitco,
        skinclub,
        wallop,
        raffair,
        blockrand,
        hubx,
        one_time_codes,
    )
}
