"""Rounds as JSON lines: parse means canonical, or what drand's API answers; everything else is refused with its line."""

import hashlib
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon.rounds.lines import MAX_LINE, LineRefused, encode_line, known, parse_line, read_lines
from tests.round_support import DEFAULT, PINNED, QUICKNET, recorded
from verifier.drand import Round

CHAINS = known(PINNED.values())
LINE = json.loads(encode_line(QUICKNET, recorded(QUICKNET, 1000)))
CHAINED = json.loads(encode_line(DEFAULT, recorded(DEFAULT, 367)))


def parse(fields, default=None):
    return parse_line(json.dumps(fields).encode(), CHAINS, default)


def test_a_line_is_what_it_was_made_of():
    assert (
        encode_line(QUICKNET, recorded(QUICKNET, 1000))
        == (
            f'{{"chain":"{QUICKNET.hash.hex()}","round":1000,'
            f'"signature":"{recorded(QUICKNET, 1000).signature.hex()}"}}\n'
        ).encode()
    )
    for chain, number in ((QUICKNET, 1000), (DEFAULT, 367), (DEFAULT, 1)):
        assert parse_line(encode_line(chain, recorded(chain, number)), CHAINS) == (chain, recorded(chain, number))


@given(st.sampled_from([QUICKNET, DEFAULT]), st.integers(2, 10**9), st.binary(min_size=96, max_size=96))
def test_every_line_reads_back(chain, number, data):
    size = chain.scheme.signature_bytes
    stated = Round(number, data[:size], data[:size] if chain.scheme.chained else None)
    assert parse_line(encode_line(chain, stated), CHAINS) == (chain, stated)


@given(st.binary(max_size=300))
def test_whatever_stands_in_a_line_it_is_a_round_or_refused(data):
    with pytest.raises(LineRefused):
        parse_line(data, CHAINS)


def test_what_drand_answers_is_taken_with_a_chain():
    signature = recorded(DEFAULT, 367).signature
    answer = {name: value for name, value in CHAINED.items() if name != "chain"}
    answer["randomness"] = hashlib.sha256(signature).hexdigest()
    assert parse(answer, DEFAULT) == (DEFAULT, recorded(DEFAULT, 367))
    first = {"round": 1, "signature": recorded(DEFAULT, 1).signature.hex()}
    assert parse(first, DEFAULT)[1].previous_signature == DEFAULT.genesis_seed
    assert parse(first | {"previous_signature": ""}, DEFAULT)[1].previous_signature == DEFAULT.genesis_seed


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({name: value for name, value in LINE.items() if name != "chain"}, "no chain"),
        (LINE | {"chain": "00" * 32}, "not known here"),
        (LINE | {"chain": 5}, "hexadecimal"),
        (LINE | {"round": 0}, "rounds of this chain"),
        (LINE | {"round": True}, "rounds of this chain"),
        (LINE | {"round": "1000"}, "rounds of this chain"),
        (LINE | {"round": QUICKNET.final_round + 1}, "rounds of this chain"),
        (LINE | {"signature": LINE["signature"].upper()}, "hexadecimal"),
        (LINE | {"signature": LINE["signature"] * 2}, "bytes"),
        (LINE | {"signature": None}, "hexadecimal"),
        (LINE | {"previous_signature": LINE["signature"]}, "has no previous signature"),
        *((LINE | {"previous_signature": value}, "has no previous signature") for value in (False, 0, [], {})),
        (CHAINED | {"round": 1, "previous_signature": False}, "genesis seed"),
        (LINE | {"randomness": "00" * 32}, "not the hash"),
        (LINE | {"time": 5}, "unknown field 'time'"),
        ({name: value for name, value in CHAINED.items() if name != "previous_signature"}, "hexadecimal"),
        (CHAINED | {"previous_signature": "00"}, "bytes"),
        (CHAINED | {"round": 1}, "genesis seed"),
        ([LINE], "JSON"),
    ],
)
def test_what_is_no_round_is_refused(fields, says):
    with pytest.raises(LineRefused, match=says):
        parse(fields)


def test_a_file_is_read_to_its_first_bad_line():
    good = encode_line(QUICKNET, recorded(QUICKNET, 1000))
    lines = read_lines(io.BytesIO(good + b"\n  \n" + good.strip() + b"\r\nnot json\n" + good), CHAINS)
    assert [next(lines)[1].round, next(lines)[1].round] == [1000, 1000]
    with pytest.raises(LineRefused, match="line 5: ") as caught:
        next(lines)
    assert caught.value.number == 5
    assert list(read_lines(io.BytesIO(good.strip()), CHAINS)) == [(QUICKNET, recorded(QUICKNET, 1000))]
    assert list(read_lines(io.BytesIO(b""), CHAINS)) == []


def test_a_line_without_end_is_refused():
    with pytest.raises(LineRefused, match=f"more than {MAX_LINE} bytes"):
        list(read_lines(io.BytesIO(b" " * 10_000_000), CHAINS))
