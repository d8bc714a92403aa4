"""Known answers of the byte rules: entries, session digest, binding, stream, outcomes, signatures (sections 2 to 5).

Each `run_` function returns None when the case passed, else what was wrong; KeyError when something in the case is not
understood. VerifierError means that the case's own bytes are refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from verifier import ed25519, entries, seeds
from verifier.drand import ChainInfo, Round, verify_round
from verifier.draws import redraw
from verifier.encoding import encode_json, parse_decimal, parse_hex
from verifier.errors import FormatError
from verifier.merkle import leaf_hash

Case = Mapping[str, Any]

_PARTS: Final = (
    "name", "seal_entry", "session", "contributions", "session_digest", "k", "call_contributions", "chain", "round",
    "round_signature", "randomness", "binding", "seed", "commitment", "links", "outcomes", "signatures",
)  # fmt: skip


def split(case: Case) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(id, part, payload) of everything that one case of `cases` states; KeyError for a field that is not known."""
    unknown = sorted(case.keys() - set(_PARTS))
    if unknown:
        raise KeyError(unknown[0])
    name, rest = case["name"], {field: case[field] for field in _PARTS if field not in {"outcomes", "signatures"}}
    for part in ("session", "digest", "round", "binding", "seed"):
        yield f"{name}: {part}", part, rest
    for item in case["outcomes"]:
        yield f"{name}: {item['recipe']} {item['n']}", "outcome", {**rest, "wanted": item}
    for number, item in enumerate(case["signatures"], 1):
        yield f"{name}: signature {number}", "signature", {**rest, "wanted": item}


def run_part(part: str, case: Case, chains: Mapping[str, ChainInfo]) -> str | None:
    """One part of a case of `cases`. chains: by chain hash in hex."""
    return _round(case, chains) if part == "round" else _RUN[part](case)


def _seal(case: Case) -> tuple[bytes, entries.Seal]:
    data = case["seal_entry"].encode("utf-8")
    seal = entries.parse_entry(data)
    if not isinstance(seal, entries.Seal):
        raise KeyError("seal_entry")
    return leaf_hash(data), seal


def _pairs(items: list[list[str]]) -> list[tuple[str, bytes]]:
    return [(participant, parse_hex(entropy)) for participant, entropy in items]


def _digest(case: Case) -> bytes:
    return seeds.session_digest(_seal(case)[0], _pairs(case["contributions"]))


def _binding(case: Case) -> bytes:
    randomness = hashlib.sha256(parse_hex(case["round_signature"])).digest()
    return seeds.binding(_digest(case), case["k"], _pairs(case["call_contributions"]), case["round"], randomness)


def _run_session(case: Case) -> str | None:
    leaf, seal = _seal(case)
    if entries.parse_entry(entries.encode_entry(seal)) != seal:
        return "the seal does not survive its own encoding"
    if (seal.commitment.hex(), seal.links, seal.chain.hex()) != (case["commitment"], case["links"], case["chain"]):
        return "the seal says another commitment, links or chain"
    return _differs("session", case["session"], leaf.hex())


def _run_digest(case: Case) -> str | None:
    return _differs("session_digest", case["session_digest"], _digest(case).hex())


def _round(case: Case, chains: Mapping[str, ChainInfo]) -> str | None:
    chain, signature = chains[case["chain"]], parse_hex(case["round_signature"])
    randomness = verify_round(chain, Round(case["round"], signature)).randomness
    return _differs("randomness", case["randomness"], randomness.hex())


def _run_binding(case: Case) -> str | None:
    return _differs("binding", case["binding"], _binding(case).hex())


def _run_seed(case: Case) -> str | None:
    steps = case["k"] or 1
    chain = seeds.seed_chain(parse_hex(case["seed"], seeds.SEED_BYTES), steps)
    if not seeds.opens(chain[-1], steps, parse_hex(case["commitment"])):
        return "the seed does not open the commitment"
    return _differs("commitment", case["commitment"], chain[0].hex())


def _run_outcome(case: Case) -> str | None:
    """A long outcome is stated by its first numbers and the SHA-256 of its compact JSON."""
    (_, seal), wanted = _seal(case), case["wanted"]
    name, n = wanted["recipe"], wanted["n"]
    outcome, stream = redraw(parse_hex(case["seed"]), _binding(case), name, seal.recipes[name], n)
    got: dict[str, object] = {"recipe": name, "n": n, "word": stream.word.hex(), "outcome": outcome}
    if isinstance(outcome, list):
        got["outcome_sha256_of_json"] = hashlib.sha256(encode_json(outcome)).hexdigest()
        got["outcome_head"] = outcome[: len(wanted.get("outcome_head", []))]
    if not wanted.keys() & {"outcome", "outcome_sha256_of_json"}:
        raise KeyError("outcome")
    return _first_difference(wanted, got)


def _run_signature(case: Case) -> str | None:
    (leaf, _), wanted = _seal(case), case["wanted"]
    names = ("k", "recipe", "n", "purpose", "participant")
    k, recipe, n, purpose, participant = (wanted[name] for name in names)
    message = seeds.contribution_message(leaf, k, recipe, n, purpose, participant, parse_hex(wanted["entropy"]))
    got = {**wanted, "message_sha256": hashlib.sha256(message).hexdigest()}
    unknown = sorted(wanted.keys() ^ {*names, "entropy", "public_key", "message_sha256", "signature"})
    if unknown:
        raise KeyError(unknown[0])
    ed25519.verify(parse_hex(wanted["public_key"]), message, parse_hex(wanted["signature"]))
    return _first_difference(wanted, got)


_RUN: Final[Mapping[str, Callable[[Case], str | None]]] = {
    "session": _run_session,
    "digest": _run_digest,
    "binding": _run_binding,
    "seed": _run_seed,
    "outcome": _run_outcome,
    "signature": _run_signature,
}


def run_uniform(row: Case) -> str | None:
    """First eight numbers below n of one stream; `row` carries seed, binding, recipe and draw number too."""
    stream = seeds.Stream(parse_hex(row["seed"]), parse_hex(row["binding"]), row["recipe"], row["draw"])
    n = parse_decimal(row["n"], 2**64)
    return _differs("first_eight", row["first_eight"], [str(stream.uniform(n)) for _ in row["first_eight"]])


def run_accepted(text: str) -> str | None:
    """An entry that must be read, and whose encoding must say the same."""
    entry = entries.parse_entry(text.encode("utf-8"))
    again = entries.parse_entry(entries.encode_entry(entry))
    return None if again == entry else "it does not survive its own encoding"


def run_refused(text: str) -> str | None:
    """An entry that must not be read."""
    try:
        entries.parse_entry(text.encode("utf-8", "surrogatepass"))
    except FormatError:
        return None
    return "accepted"


def _first_difference(wanted: Case, got: Case) -> str | None:
    """KeyError for a field that is not known."""
    differences = (_differs(name, value, got[name]) for name, value in wanted.items())
    return next((difference for difference in differences if difference), None)


def _differs(what: str, wanted: object, got: object) -> str | None:
    return None if wanted == got else f"{what}: expected {_short(wanted)}, got {_short(got)}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 100 else text[:97] + "..."
