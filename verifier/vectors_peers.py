"""Known answers of other systems, and of statistics: what is asked of a vector, and who answers it.

A vector passes when each fact that it states is what its input gives, and nothing in it was left unread. Numbers are
compared at the precision at which they are stated. What is not understood here raises KeyError.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import partial
from typing import Any, Final

from verifier import vectors_statistics, vectors_systems
from verifier.drand import SCHEMES, ChainInfo, Round, verify_round
from verifier.encoding import parse_hex, u32, u64
from verifier.errors import FormatError, VerifierError
from verifier.keccak import WORD_BYTES, KeccakDice, keccak256
from verifier.merkle import leaf_hash, tree_root
from verifier.seeds import seed_chain

Case = Mapping[str, Any]

_FIELDS: Final = frozenset({"id", "algorithm", "source", "published", "input", "expected", "note"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_OF: Final = re.compile(r"time_of_round_(\d+)")
_ROUND_AT: Final = re.compile(r"round_at_(?:genesis(?:_(plus|minus)_(\d+))?|(?:time_)?(\d+))")
_G2_TAG: Final = "bls-unchained-on-g1"


class _Given(Mapping[str, Any]):
    """The input of a vector, which knows what of it was read."""

    def __init__(self, value: Case) -> None:
        self._value = value
        self.unread = set(value)

    def __getitem__(self, name: str) -> Any:
        self.unread.discard(name)
        return self._value[name]

    def __contains__(self, name: object) -> bool:
        return name in self._value

    def __iter__(self) -> Iterator[str]:
        return iter(self._value)

    def __len__(self) -> int:
        return len(self._value)


def run_peer(case: Case, chains: Mapping[str, ChainInfo]) -> str | None:
    """None when it passed, else what was wrong; KeyError when something is not understood. chains: by hash in hex."""
    unknown = sorted(case.keys() - _FIELDS)
    if unknown:
        raise KeyError(unknown[0])
    given, expected = _Given(case["input"]), case["expected"]
    answer = _answerer(case["algorithm"], chains)
    try:
        facts = {**answer(given, expected), "refused": False}
    except FormatError as error:
        if "refused" not in expected:
            return f"refused: {error}"
        facts = {"refused": True}
        given.unread.clear()
    unknown = sorted(given.unread) or sorted(expected.keys() - facts.keys())
    if unknown or not expected:
        raise KeyError(unknown[0] if unknown else "expected")
    wrong = [name for name in expected if not _agrees(expected[name], facts[name])]
    return f"{wrong[0]}: expected {expected[wrong[0]]}, got {facts[wrong[0]]}" if wrong else None


def _agrees(stated: Any, computed: Any) -> bool:
    """Whether two values are the same; a Fraction or float that was computed needs only the digits that are stated."""
    if isinstance(computed, Mapping):
        same_names = isinstance(stated, Mapping) and stated.keys() == computed.keys()
        return same_names and all(_agrees(stated[name], computed[name]) for name in stated)
    if isinstance(computed, list):
        same_length = isinstance(stated, list) and len(stated) == len(computed)
        return same_length and all(map(_agrees, stated, computed))
    if isinstance(computed, Fraction | float) and isinstance(stated, str | int | float):
        digits = str(stated).partition(".")[2]
        return round(Fraction(computed), len(digits)) == Fraction(str(stated))
    return type(stated) is type(computed) and bool(stated == computed)


def _keccak(given: Case, _: Case) -> Case:
    """The dice and the state that carries over. A word that is not bytes32 must be refused, whatever it would give."""
    word, count = parse_hex(given["word_hex"]), given["dice"]
    if len(word) != WORD_BYTES:
        try:
            KeccakDice(word)
        except FormatError:
            return _any_length(word, count)
        raise ValueError("a word of another length than bytes32 was accepted")
    dice = KeccakDice(word)
    faces = [dice.roll() for _ in range(count)]
    state = {"next_idx": dice.index, "seed_out_hex": dice.word.hex(), "rehashes": dice.rehashes}
    return {"faces": faces} | state


def _any_length(word: bytes, count: int) -> Case:
    """What an implementation gives that does not ask for 32 bytes."""
    rehashes, index, faces = 0, 0, list[int]()
    while len(faces) < count:
        if index == len(word):
            word, index, rehashes = keccak256(word), 0, rehashes + 1
        faces += [word[index] % 6 + 1] if word[index] < 252 else []
        index += 1
    return {"faces": faces, "next_idx": index, "seed_out_hex": word.hex(), "rehashes": rehashes}


def _limits(given: Case, _: Case) -> Case:
    return {"limits": [values - values % n for values, n in given["cases"]]}


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
        if found := _TIME_OF.fullmatch(name):
            got[name] = chain.time(int(found[1])) // 1000
        elif found := _ROUND_AT.fullmatch(name):
            offset = int(found[2]) * (-1 if found[1] == "minus" else 1) if found[1] else 0
            moment = int(found[3]) if found[3] else given["genesis"] + offset
            got[name] = chain.current(1000 * moment)
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


def _blockrand(given: Case, expected: Case, *, chains: Mapping[str, ChainInfo]) -> Case:
    """bls_valid_NAME: under the chain of that name; with_G2_DST: with its other tag; for_round_N: as another."""
    chain, number = chains[given["chain_hash"]], given["drand_round"]
    signature = parse_hex(given["drand_signature"])
    facts: dict[str, Any] = {**vectors_systems.blockrand_seed(given), "round_time_unix": chain.time(number) // 1000}
    for name in expected:
        what = name.removeprefix("bls_valid_")
        if what == name:
            continue
        if what == chain.beacon_id:
            facts[name] = _signed(chain, number, signature)
        elif what == "with_G2_DST":
            facts[name] = _signed(replace(chain, scheme=SCHEMES[_G2_TAG], last_round=None), number, signature)
        elif what.startswith("for_round_"):
            facts[name] = _signed(chain, int(what.removeprefix("for_round_")), signature)
    return facts


def _signed(chain: ChainInfo, number: int, signature: bytes) -> bool:
    try:
        verify_round(chain, Round(number, signature, None))
    except VerifierError:
        return False
    return True


Answerer = Callable[[Case, Case], Case]

_ALGORITHMS: Final[Mapping[str, Answerer]] = {
    "sha256-rejection-v1": vectors_systems.cube_rolls,
    "sha256-rejection-v1 verify": vectors_systems.cube_verify,
    "keccak-d6": _keccak,
    "uniform-limit": _limits,
    r"hmac-u32-d6 \(monograph, key=[^)]*\)": vectors_systems.commit_reveal_dice,
    r"sha256\(server_seed \|\| match_id \|\| nonce\), raw concatenation": vectors_systems.commitment,
    "ambiguous concatenation": vectors_systems.ambiguous_commitments,
    "hmac-sha256": vectors_systems.hmac_sha256,
    "exact dice probabilities": vectors_statistics.dice_odds,
    "upper tail of chi-square": vectors_statistics.chi_square_tails,
    r"freebitco\.in roll": vectors_systems.freebitco_roll,
    r"skin\.club roll": vectors_systems.skinclub_roll,
    "stake dice": vectors_systems.stake_dice,
    r"bustabit \(.*binary hashing\)": vectors_systems.bustabit_binary,
    r"bustabit \(.*(?:text|hex) hashing\)": vectors_systems.bustabit_text,
    r"RFC 3797 selection \(MD5\)": vectors_systems.rfc3797_selection,
    "draft-thomson-elegy-vrs one-time codes": _hash_chain,
    r"fair_pick \(.*\)": vectors_systems.fair_pick,
    "SHA-256 of RFC 8785 JSON": vectors_systems.jcs_hash,
    "RFC 6962 tree hash": _tree,
    r"seed\+drand raffle": vectors_systems.raffair_draw,
    "commit before round": _timing,
    "block-hash draw": vectors_systems.hubx_draw,
    "round <-> time": _round_times,
}
_CELLS: Final = re.compile(r"largest of (\d+) cells, one sided")


def _answerer(algorithm: str, chains: Mapping[str, ChainInfo]) -> Answerer:
    if algorithm == "player+server+drand signature":
        return partial(_blockrand, chains=chains)
    if found := _CELLS.fullmatch(algorithm):
        return partial(vectors_statistics.fullest_cell, cells=int(found[1]))
    for pattern, answer in _ALGORITHMS.items():
        if re.fullmatch(pattern, algorithm):
            return answer
    raise KeyError(algorithm)
