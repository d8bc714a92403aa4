"""Known answers of other provably fair systems: from a vector's input to every fact that it may state.

A function takes the input and the answer expected (for the names that it asks for) and gives facts; it raises KeyError
for what it does not understand, and FormatError for an input that must be refused.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from verifier.encoding import parse_hex
from verifier.errors import Code, FormatError
from verifier.systems import (
    blockrand,
    bustabit,
    commit_reveal,
    cube,
    freebitco,
    hubx,
    mapping,
    raffair,
    rfc3797,
    skinclub,
    stake,
    wallop,
)

Facts = Mapping[str, Any]

_KEY: Final = re.compile(r"key(?:_([a-z]))?_(utf8|hex)")
_MAPS_TO: Final = re.compile(r"values_mapping_to_(\d+)")
_FORMULA: Final = re.compile(r"round\(u32/(\d+)\.(\d+)\), u32 in 0\.\.2\^32-1")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def cube_rolls(given: Facts, _: Facts) -> Facts:
    seed = _cube_seed(given)
    if not 1 <= given["rolls"] <= cube.MAX_ROLLS:
        raise FormatError(Code.RECORD, f"a seed gives 1 to {cube.MAX_ROLLS} rolls")
    rolls, rejected = cube.rolls(seed, given["rolls"])
    return {"fingerprint": cube.fingerprint(seed).hex(), "rolls": rolls, "rejected_[block,offset,byte]": rejected}


def _cube_seed(given: Facts) -> str:
    seed: str = given["seed"]
    if not seed:
        raise FormatError(Code.RECORD, "an empty seed")
    if "seed_utf8_hex" in given and seed.encode("utf-8") != parse_hex(given["seed_utf8_hex"]):
        raise ValueError("seed_utf8_hex is not the seed's")
    return seed


def cube_verify(given: Facts, _: Facts) -> Facts:
    """The first claimed roll that is not the seed's; the faces of a roll are in order."""
    seed, claimed = _cube_seed(given), given["claimed_rolls"]
    rolls: list[list[int] | None] = [*cube.rolls(seed, min(len(claimed), cube.MAX_ROLLS))[0]]
    rolls += [None] * (len(claimed) - len(rolls))
    bad = next((i for i, (roll, claim) in enumerate(zip(rolls, claimed, strict=True)) if roll != claim), None)
    facts: dict[str, Any] = {"first_bad_roll_1_based": None if bad is None else bad + 1}
    if bad is not None:
        facts |= {"expected_roll": rolls[bad], "claimed_roll": claimed[bad]}
    if "fingerprint" in given:
        facts["fingerprint_ok"] = given["fingerprint"] == cube.fingerprint(seed).hex()
    return facts | {"valid": bad is None and facts.get("fingerprint_ok", True)}


def commit_reveal_dice(given: Facts, _: Facts) -> Facts:
    key = "raw" if given["key_encoding"] in {"raw", "bytes"} else "text"
    if key == "text" and not re.search("hex|text|utf|ascii", given["key_encoding"]):
        raise KeyError(given["key_encoding"])
    text = commit_reveal.message(given["client_seed"], given["match_id"], given["k"])
    entropy = commit_reveal.entropy(parse_hex(given["server_seed_hex"]), key, text)
    return {
        "message": text,
        "entropy_hex": entropy.hex(),
        **{f"val{i + 1}": int.from_bytes(entropy[4 * i : 4 * i + 4], "big") for i in range(8)},
        "dice": mapping.faces(entropy, 2, "u32"),
    }


def commitment(given: Facts, _: Facts) -> Facts:
    found = commit_reveal.commitment(parse_hex(given["server_seed_hex"]), given["match_id"], given["nonce"])
    return {"commitment": found.hex()}


def ambiguous_commitments(given: Facts, _: Facts) -> Facts:
    """Commitments to (match, nonce) `a` and `b`, and whether they are one."""
    seed = parse_hex(given["server_seed_hex"])
    a, b = (commit_reveal.commitment(seed, *given[name]).hex() for name in ("a", "b"))
    return {"commitment_a": a, "commitment_b": b, "equal": a == b}


def hmac_sha256(given: Facts, _: Facts) -> Facts:
    """HMACs of one message under each of the keys."""
    message = given["message"].encode("utf-8")
    facts: dict[str, Any] = {}
    for field in given:
        if found := _KEY.fullmatch(field):
            value, suffix = given[field], f"_{found[1]}" if found[1] else ""
            key = value.encode("utf-8") if found[2] == "utf8" else parse_hex(value)
            mac = hmac.digest(key, message, "sha256").hex()
            facts |= {f"mac{suffix}": mac, f"mac{suffix}_with_key{suffix}_bytes": mac}
    return facts | {"equal": len(set(facts.values())) == 1}


def freebitco_roll(given: Facts, expected: Facts) -> Facts:
    if "formula" in given:
        return _freebitco_weights(given["formula"], expected)
    server, client, nonce = given["server_seed"], given["client_seed"], given["nonce"]
    return {
        "hmac_sha512_first8": freebitco.mac(server, client, nonce)[:4].hex(),
        "roll": freebitco.roll(server, client, nonce),
        "server_seed_hash": _sha256(server),
    }


def _freebitco_weights(formula: str, expected: Facts) -> Facts:
    """How many of all u32 give a roll; no u32 lies halfway between two."""
    found = _FORMULA.fullmatch(formula)
    if found is None:
        raise KeyError(formula)
    numerator, denominator = int(found[1] + found[2]), int("1" + "0" * len(found[2]))

    def first(roll: int) -> int:
        """The smallest u with round(u / divisor) >= roll."""
        return min(2**32, max(0, -(-(2 * roll - 1) * numerator // (2 * denominator))))

    rolls = {name: int(found[1]) for name in expected if (found := _MAPS_TO.fullmatch(name))}
    return {name: first(roll + 1) - first(roll) for name, roll in rolls.items()}


def skinclub_roll(given: Facts, _: Facts) -> Facts:
    seed = given["server_seed"] if "server_seed" in given else given["beacon"]
    number = skinclub.number(seed, given["client_seed"], int(given["nonce"]))
    facts: dict[str, Any] = {
        "first_15_hex_as_integer": str(number),
        "roll": number % skinclub.SIDES + 1,
        "wrong_roll_if_read_as_double": int(float(number)) % skinclub.SIDES + 1,
    }
    if "secret_salt" in given:
        facts["public_hash"] = skinclub.public_hash(seed, given["secret_salt"]).hex()
    return facts


def stake_dice(given: Facts, _: Facts) -> Facts:
    (u,) = stake.numbers(given["server_seed"], given["client_seed"], int(given["nonce"]), 1)
    return {"roll": mapping.hundredths(stake.scaled(u, 10_001)), "server_seed_hash": _sha256(given["server_seed"])}


def bustabit_binary(given: Facts, _: Facts) -> Facts:
    return _bustabit(given, "bytes")


def bustabit_text(given: Facts, _: Facts) -> Facts:
    return _bustabit(given, "text")


def _bustabit(given: Facts, hashing: str) -> Facts:
    games, game = [], parse_hex(given["first_hash"], 32)
    for _ in range(given["games"]):
        games.append({"hash": game.hex(), "bust": bustabit.bust(given["salt"], game) / 100})
        game = bustabit.earlier(game, hashing)
    return {"games": games}


def rfc3797_selection(given: Facts, _: Facts) -> Facts:
    key = rfc3797.key_of(given["sources"]) if "sources" in given else given["key"]
    pool: Sequence[str] = given["pool"]
    picked = rfc3797.select(key, len(pool), given["select"])
    return {
        "key": key,
        "digests": [rfc3797.digest(key, i).hex().upper() for i in range(given["select"])],
        "selected_numbers": [place + 1 for place in picked],
        "selected": [pool[place] for place in picked],
    }


def fair_pick(given: Facts, _: Facts) -> Facts:
    entries = [(entry["id"], entry["weight"]) for entry in given["entries"]]
    return {"winners": wallop.pick(entries, parse_hex(given["seed_hex"], 32), given["count"])}


def jcs_hash(given: Facts, _: Facts) -> Facts:
    """The entry hash of a raffle, or the seed of one."""
    if "entries" not in given:
        weather = given.get("weather_value")
        text = wallop.seed_jcs(given["entry_hash"], given["drand_randomness"], weather)
        return {"jcs": text, "seed_hex": _sha256(text)}
    id_name = "uuid" if all("uuid" in entry for entry in given["entries"]) else "id"
    entries = [(entry[id_name], entry["weight"]) for entry in given["entries"]]
    text = wallop.entries_jcs(entries, given.get("draw_id"), id_name)
    return {"jcs": text, "entry_hash": _sha256(text)}


def raffair_draw(given: Facts, _: Facts) -> Facts:
    seed, tickets = parse_hex(given["seed_hex"]), given["tickets"]
    prize = given.get("prize", 0)
    given["drand_round"]
    listed = raffair.list_hash(tickets)
    mixed = raffair.mixed(seed, parse_hex(given["drand_randomness"], 32), prize, listed)
    index = raffair.index(mixed, len(tickets))
    return {
        "commitment": hashlib.sha256(seed).hexdigest(),
        "ticket_list_hash": listed.hex(),
        "mixed": mixed.hex(),
        "index": index,
        "winner": tickets[index],
    }


def blockrand_seed(given: Facts) -> Facts:
    """All of a blockrand round but what its drand chain says."""
    signature = parse_hex(given["drand_signature"])
    return {
        "player_hash": blockrand.text_hash(given["player_secret"]),
        "server_hash": blockrand.text_hash(given["server_secret"]),
        "final_seed": blockrand.final_seed(given["player_secret"], given["server_secret"], signature),
        "drand_randomness": hashlib.sha256(signature).hexdigest(),
    }


def hubx_draw(given: Facts, _: Facts) -> Facts:
    value = hubx.value(given["block_hash"], given["nonce"])
    integer = int.from_bytes(value, "big")
    return {"value_hex": value.hex(), "integer": str(integer), "index": integer % given["participants"]}
