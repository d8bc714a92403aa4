"""Known answers of other systems in shapes and sizes that the file of vectors does not have."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from verifier.vectors import Result, Status, read, run_all

SEED = hashlib.sha256


def result(algorithm: str, given: dict[str, Any], expected: dict[str, Any]) -> Result:
    case = {"id": "x", "algorithm": algorithm, "source": "", "published": True, "input": given, "expected": expected}
    _, cases = read(json.dumps({"vectors": [case]}).encode())
    (found,) = run_all(cases)
    return found


def passes(algorithm: str, given: dict[str, Any], expected: dict[str, Any]) -> None:
    found = result(algorithm, given, expected)
    assert found.status == Status.PASSED, found.why


def status(algorithm: str, given: dict[str, Any], expected: dict[str, Any]) -> Status:
    return result(algorithm, given, expected).status


FAIR_PICK = "fair_pick (Durstenfeld over SHA-256 counter, 256-bit rejection)"
JCS = "SHA-256 of RFC 8785 JSON"
TICKETS = [{"id": f"ticket-{i}", "weight": 1} for i in (47, 48, 49)]


@pytest.mark.parametrize(
    ("entries", "seed", "count", "winners"),
    [
        ([{"id": "only", "weight": 1}], "22" * 32, 1, ["only"]),
        (TICKETS, "ced93f50d73a619701e9e865eb03fb4540a7232a588c707f85754aa41e3fb037", 2, ["ticket-48", "ticket-47"]),
        (TICKETS[::-1], SEED(b"frozen-equal-weight-vector").hexdigest(), 2, ["ticket-49", "ticket-47"]),
        ([{"id": name, "weight": 1} for name in "abcde"], SEED(b"frozen-full-ordering").hexdigest(), 5, list("abced")),
    ],
)
def test_published_raffles(entries: list[Any], seed: str, count: int, winners: list[str]) -> None:
    """Frozen vectors of fair_pick's README and of wallop's specification."""
    passes(FAIR_PICK, {"entries": entries, "seed_hex": seed, "count": count}, {"winners": winners})


def test_published_entry_hashes_and_seeds() -> None:
    """Vectors of wallop's specification, entry-hash.json and compute-seed.json."""
    passes(
        JCS, {"entries": TICKETS}, {"entry_hash": "6056fbb6c98a0f04404adb013192d284bfec98975e2a7975395c3bcd4ad59577"}
    )
    weighted = [{"id": "charlie", "weight": 5}, {"id": "alpha", "weight": 10}, {"id": "bravo", "weight": 1}]
    passes(
        JCS, {"entries": weighted}, {"entry_hash": "5616386cc36c680fed74464bc2e6eb940b07ba1353dd8aa971e16fb7463013c6"}
    )
    given = {"drand_randomness": "abcdef0123456789" * 4, "entry_hash": SEED(b"").hexdigest(), "weather_value": None}
    passes(JCS, given, {"seed_hex": "54f79b8158769d6aba6fa762bb33dce5d9bd1d8986b6285beb12b1c30f020b17"})


def test_an_integer_beyond_2_53_is_refused() -> None:
    entries = [{"uuid": "a", "weight": 2**53}]
    passes(JCS, {"entries": entries}, {"refused": True})
    assert status(JCS, {"entries": entries}, {"entry_hash": "00" * 32}) == Status.FAILED
    assert status(JCS, {"entries": [{"uuid": "a", "weight": 1}]}, {"refused": True}) == Status.FAILED


def test_a_published_battle_roll() -> None:
    """tests/run-tests.php of skinclub-tech/provably-fair-validator."""
    given = {"beacon": "Tt5qAdTwoTeygDdghVlfEWtNJQkGYg5q", "client_seed": "12354,abgd", "nonce": "9"}
    passes("skin.club roll", given, {"roll": 5415})


def test_the_text_key_of_the_monograph_is_the_hex() -> None:
    given = {"server_seed_hex": "00" * 32, "client_seed": "c", "match_id": "m", "k": 1}
    raw = result("hmac-u32-d6 (monograph, key=raw)", given | {"key_encoding": "raw"}, {"entropy_hex": "?"}).why
    text = result("hmac-u32-d6 (monograph, key=hex)", given | {"key_encoding": "hex"}, {"entropy_hex": "?"}).why
    assert raw != text
    assert (
        status("hmac-u32-d6 (monograph, key=x)", given | {"key_encoding": "x"}, {"dice": [1, 1]})
        == Status.NOT_UNDERSTOOD
    )


CUBE = {"seed": "cube-dice-example"}
ROLLS = [[1, 4], [4, 4], [4, 3], [3, 3], [3, 2], [6, 6], [5, 5], [1, 1]]


def test_a_cube_record_is_good_as_a_prefix_and_bad_in_its_fingerprint() -> None:
    verify = "sha256-rejection-v1 verify"
    passes(verify, CUBE | {"claimed_rolls": ROLLS[:3]}, {"valid": True, "first_bad_roll_1_based": None})
    given = CUBE | {"claimed_rolls": ROLLS, "fingerprint": "00" * 32}
    passes(verify, given, {"valid": False, "fingerprint_ok": False, "first_bad_roll_1_based": None})
    passes(verify, CUBE | {"claimed_rolls": [*ROLLS[:7], [1]]}, {"valid": False, "first_bad_roll_1_based": 8})
    assert status("sha256-rejection-v1", CUBE | {"rolls": 4097}, {"rolls": []}) == Status.FAILED
    passes("sha256-rejection-v1", CUBE | {"rolls": 4097}, {"refused": True})


def test_a_seed_that_is_not_its_hex_is_no_vector() -> None:
    given = CUBE | {"seed_utf8_hex": "00", "rolls": 1}
    assert status("sha256-rejection-v1", given, {"rolls": [[1, 4]]}) == Status.NOT_UNDERSTOOD


def test_odds_of_other_games() -> None:
    expected = {
        "mean_doubles": {"fraction": "1/3", "decimal": "0.3333"},
        "p_at_least_one_double": {"fraction": "11/36", "decimal": "0.30556"},
        "p_run_of_2": "0.027778",
        "p_opponent_one_or_more_ahead": {"fraction": "95/432", "decimal": "0.2199074"},
        "p_run_of_2_in_2_games": "0.05478",
        "published_percent": [30.6, 2.78, 22.0, 5.478],
    }
    passes("exact dice probabilities", {"rolls_per_player": 2}, expected)
    assert status("exact dice probabilities", {"rolls_per_player": 3}, expected) == Status.FAILED
    passes("upper tail of chi-square", {"cases": [["3.841", 1]]}, {"p": ["0.0500"]})
    passes(
        "largest of 6 cells, one sided", {"rolls": 1, "top_count": 1}, {"p_exact": 1, "published": "about one in one"}
    )


def test_other_weights_of_rounding() -> None:
    given = {"formula": "round(u32/1000.5), u32 in 0..2^32-1"}
    passes(
        "freebitco.in roll",
        given,
        {"values_mapping_to_0": 501, "values_mapping_to_1": 1000, "values_mapping_to_4292822": 0},
    )
    assert status("freebitco.in roll", {"formula": "floor(u32)"}, {"values_mapping_to_0": 1}) == Status.NOT_UNDERSTOOD


def test_chains_of_text_and_other_limits() -> None:
    game = "4488d92d89d0ed7fbb2ea23b219d569f63207e32fc44b957858838835c1719f1"
    given = {"salt": "s", "first_hash": game, "games": 2}
    found = result("bustabit (v2 chain, hex text hashing)", given, {"games": []})
    assert SEED(game.encode()).hexdigest() in found.why
    passes("uniform-limit", {"cases": [[2**32, 52], [100, 7]]}, {"limits": [2**32 - 2**32 % 52, 98]})


def test_rounds_and_times_around_the_genesis() -> None:
    given = {"genesis": 1595431050, "period": 30}
    expected = {
        "round_at_genesis_minus_1": 0,
        "round_at_genesis_plus_60": 3,
        "round_at_1595431109": 2,
        "time_of_round_3": 1595431110,
    }
    passes("round <-> time", given, expected)
    assert status("round <-> time", given, {"round_of_applause": 1}) == Status.NOT_UNDERSTOOD


def test_what_is_not_read_or_not_known_is_not_passed() -> None:
    good = {"seed": "cube-dice-example", "rolls": 1}
    assert status("sha256-rejection-v1", good, {"rolls": [[1, 4]]}) == Status.PASSED
    assert status("sha256-rejection-v1", good | {"salt": "x"}, {"rolls": [[1, 4]]}) == Status.NOT_UNDERSTOOD
    assert status("sha256-rejection-v1", good, {"rolls": [[1, 4]], "luck": 1}) == Status.NOT_UNDERSTOOD
    assert status("sha256-rejection-v1", good, {}) == Status.NOT_UNDERSTOOD
    assert status("sha256-rejection-v2", good, {"rolls": [[1, 4]]}) == Status.NOT_UNDERSTOOD
    assert status("sha256-rejection-v1", good, {"rolls": [[True, 4]]}) == Status.FAILED
