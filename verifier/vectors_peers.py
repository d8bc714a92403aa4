"""Known answers of other systems that are also answers of this protocol's own functions.

Every other algorithm in such a file is not understood here: KeyError.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from verifier import vectors_statistics
from verifier.drand import SCHEMES, ChainInfo
from verifier.draws import KeccakDice
from verifier.encoding import parse_hex, u32, u64
from verifier.errors import FormatError
from verifier.merkle import leaf_hash, tree_root
from verifier.seeds import SEED_BYTES, rejection_limit, seed_chain

Case = Mapping[str, Any]

_FIELDS: Final = frozenset({"id", "algorithm", "source", "published", "input", "expected", "note"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def run_peer(case: Case) -> str | None:
    """None when it passed, else what was wrong; KeyError when the algorithm or a field is not understood."""
    unknown = sorted(case.keys() - _FIELDS)
    if unknown:
        raise KeyError(unknown[0])
    got = _ALGORITHMS[case["algorithm"]](case["input"], case["expected"])
    return None if got == case["expected"] else f"expected {case['expected']}, got {got}"


def _keccak(given: Case, expected: Case) -> Case:
    """The dice and the state that carries over. A word of another length than 32 bytes must be refused."""
    word = parse_hex(given["word_hex"])
    try:
        dice = KeccakDice(word)
    except FormatError:
        return expected if len(word) != SEED_BYTES else {"refused": True}
    faces = [dice.roll() for _ in range(given["dice"])]
    state = {"next_idx": dice.index, "seed_out_hex": dice.word.hex(), "rehashes": dice.rehashes}
    return {"faces": faces} | state


def _limits(given: Case, _: Case) -> Case:
    widths = [((values - 1).bit_length() + 7) // 8 for values, _ in given["cases"]]
    if any(values != 256**width for width, (values, _) in zip(widths, given["cases"], strict=True)):
        raise KeyError("cases")
    return {"limits": [rejection_limit(width, n) for width, (_, n) in zip(widths, given["cases"], strict=True)]}


def _tree(given: Case, _: Case) -> Case:
    return {"root": tree_root([leaf_hash(leaf.encode("utf-8")) for leaf in given["leaves"]]).hex()}


def _chain(given: Case) -> ChainInfo:
    """A chain with that genesis and period, and a key that nobody has."""
    key, seed = bytes(96), bytes(32)
    name = hashlib.sha256(u32(given["period"]) + u64(given["genesis"]) + key + seed).digest()
    scheme = SCHEMES["bls-unchained-g1-rfc9380"]
    return ChainInfo(name, key, given["period"], given["genesis"], seed, scheme, "default")


def _round_times(given: Case, expected: Case) -> Case:
    chain, got = _chain(given), {}
    for name in expected:
        what, _, rest = name.partition("_round_") if name.startswith("time_of") else name.partition("_at_genesis")
        if what == "time_of":
            got[name] = chain.time(int(rest)) // 1000
        elif what == "round":
            after = int(rest.removeprefix("_plus_") or "0")
            got[name] = chain.current(1000 * (given["genesis"] + after))
        else:
            raise KeyError(name)
    return got


def _timing(given: Case, expected: Case) -> Case:
    chain = _chain(given)
    committed = datetime.fromisoformat(given["committed_at"]) - _EPOCH
    latest = chain.current(committed // timedelta(milliseconds=1))
    due = timedelta(milliseconds=chain.time(expected["target_round"]))
    margin = (due - committed) // timedelta(microseconds=1)
    return {
        "latest_round_at_commit": latest,
        "target_round": latest + 2,
        "target_round_time": (_EPOCH + due).isoformat().replace("+00:00", "Z"),
        "margin_seconds": f"{margin // 1_000_000}.{margin % 1_000_000:06}",
    }


def _hash_chain(given: Case, expected: Case) -> Case:
    """H applied again and again is a seed chain read backwards."""
    powers = {name: int(name.removeprefix("H^")) for name in expected}
    chain = seed_chain(given["secret_utf8"].encode("utf-8"), max(powers.values()))
    return {name: chain[-1 - power].hex() for name, power in powers.items()}


_ALGORITHMS: Final[Mapping[str, Callable[[Case, Case], Case]]] = {
    "keccak-d6": _keccak,
    "uniform-limit": _limits,
    "RFC 6962 tree hash": _tree,
    "round <-> time": _round_times,
    "commit before round": _timing,
    "draft-thomson-elegy-vrs one-time codes": _hash_chain,
    **vectors_statistics.ALGORITHMS,
}
