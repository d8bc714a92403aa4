"""Timelocks: drand's own files open, what must not open does not, and two backends write and read the same."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given
from hypothesis import strategies as st

from beacon.rounds.network import Network
from tests.bls_support import malformed, names_of_malformed, on_curve
from verifier import age
from verifier.age import AgeFile, Stanza, open_age, parse_age, seal_age
from verifier.bls import fast, reference
from verifier.bls.errors import PointError
from verifier.bls.groups import Group
from verifier.drand import SCHEMES, Round, VerifiedRound, verify_round
from verifier.errors import Code, FormatError, VerificationError, VerifierError
from verifier.fetch import pinned_chains
from verifier.timelock import can_carry, file_key_of, open_timelock, parse_timelock, seal_timelock
from verifier.vectors_tlock import run_other_format, run_tlock

VECTORS = json.loads((Path(__file__).parent / "vectors" / "drand-tlock.json").read_text())
PINNED = pinned_chains()
BY_HASH = {chain.hash.hex(): chain for chain in PINNED.values()}
CARRYING = [name for name, scheme in SCHEMES.items() if can_carry(scheme)]
NETWORKS = {name: Network.fresh(2, 1_000, name) for name in SCHEMES}
BACKENDS = [reference, fast]
KEY, NONCE, STANZA = bytes(range(16)), bytes(range(16, 32)), Stanza(("test", "a", "b"), b"body")


def verified(name, number):
    network = NETWORKS[name]
    return verify_round(network.chain, Round(number, network.sign(number)), fast)


def sealed(name, plaintext=b"the seed", number=7, backend=fast):
    return seal_timelock(NETWORKS[name].chain, number, plaintext, now=0, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda one: one.NAME)
@pytest.mark.parametrize("number", range(len(VECTORS["tlock"])))
def test_the_files_of_drands_own_tools(number, backend):
    assert run_tlock(VECTORS["tlock"][number], BY_HASH, backend) is None


def test_the_known_answers_tell_right_from_wrong():
    case = VECTORS["tlock"][0]
    for name, value in [("plaintext_base64", "AAAA"), ("file_key", "00" * 16), ("expect", "rejected"), ("round", 3)]:
        assert run_tlock({**case, name: value}, BY_HASH, fast)
    assert run_tlock({**VECTORS["tlock"][5], "expect": "decrypts"}, BY_HASH, fast)
    [other] = VECTORS["other_formats"]
    assert run_other_format(other) is None
    assert run_other_format({"ciphertext_hex": sealed(CARRYING[0]).hex()})


@pytest.mark.parametrize("name", CARRYING)
@pytest.mark.parametrize("write", BACKENDS, ids=lambda one: f"{one.NAME} writes")
@pytest.mark.parametrize("read", BACKENDS, ids=lambda one: f"{one.NAME} reads")
def test_each_backend_opens_what_the_other_sealed(name, write, read):
    chain = NETWORKS[name].chain
    ciphertext = parse_timelock(sealed(name, backend=write), chain)
    assert (ciphertext.round, ciphertext.chain) == (7, chain.hash)
    assert open_timelock(ciphertext, verified(name, 7), read) == b"the seed"


@given(st.integers(1, reference.order(Group.BLS12_381_G1) - 1))
def test_both_backends_have_the_same_pairing(factor):
    found = set()
    for backend in BACKENDS:
        first, second = (backend.generator(group) for group in (Group.BLS12_381_G1, Group.BLS12_381_G2))
        multiple = backend.sum_products(Group.BLS12_381_G1, [first], [factor])
        found.add(backend.pairing(Group.BLS12_381_G1, multiple, second))
        found.add(backend.pairing(Group.BLS12_381_G2, second, multiple))
        assert len(found) == 1
    assert len(found.pop()) == 576


def test_what_is_sealed_twice_looks_different():
    assert sealed(CARRYING[0]) != sealed(CARRYING[0])


@pytest.mark.parametrize("name", CARRYING)
def test_another_round_opens_nothing(name):
    ciphertext = parse_timelock(sealed(name), NETWORKS[name].chain)
    with pytest.raises(FormatError, match="another round or chain"):
        open_timelock(ciphertext, verified(name, 8), fast)
    disguised = VerifiedRound(NETWORKS[name].chain, 7, verified(name, 8).signature)
    with pytest.raises(VerificationError, match="does not open"):
        open_timelock(ciphertext, disguised, fast)


@pytest.mark.parametrize("name", sorted(SCHEMES.keys() - set(CARRYING)))
def test_chains_that_cannot_carry_a_timelock(name):
    chain = NETWORKS[name].chain
    for attempt in (lambda: sealed(name), lambda: parse_timelock(sealed(CARRYING[0]), chain)):
        with pytest.raises(FormatError, match="cannot carry") as caught:
            attempt()
        assert caught.value.code == Code.TIMELOCK


def test_only_a_future_round_of_the_chain_is_sealed_to():
    chain = replace(NETWORKS[CARRYING[0]].chain, last_round=50)
    now = chain.time(10)
    for number in (-1, 0, 9, 10, 51):
        with pytest.raises(FormatError, match="future"):
            seal_timelock(chain, number, b"", now=now, backend=fast)
    for number in (11, 50):
        assert parse_timelock(seal_timelock(chain, number, b"", now=now, backend=fast), chain).round == number


def with_stanza(data, *arguments, body=None):
    file = parse_age(data)
    stanza = Stanza(arguments or file.stanza.arguments, file.stanza.body if body is None else body)
    return replace(file, stanza=stanza).encode()


@pytest.mark.parametrize(
    "arguments",
    [
        ("tlock",), ("tlock", "7"), ("tlock", "7", "00" * 32), ("tlock", "7", "{hash}", "x"), ("TLOCK", "7", "{hash}"),
        ("X25519", "7", "{hash}"), ("tlock", "0", "{hash}"), ("tlock", "07", "{hash}"), ("tlock", "-7", "{hash}"),
        ("tlock", "7", "{HASH}"), ("tlock", "9" * 30, "{hash}"), ("tlock", str(2**63), "{hash}"),
    ],
)  # fmt: skip
def test_stanzas_that_are_no_timelock_of_the_chain(arguments):
    chain = NETWORKS[CARRYING[0]].chain
    filled = [one.format(hash=chain.hash.hex(), HASH=chain.hash.hex().upper()) for one in arguments]
    with pytest.raises(FormatError):
        parse_timelock(with_stanza(sealed(CARRYING[0]), *filled), chain)


@pytest.mark.parametrize("name", CARRYING)
@pytest.mark.parametrize("backend", BACKENDS, ids=lambda one: one.NAME)
def test_points_that_are_refused(name, backend):
    chain = NETWORKS[name].chain
    group, data = chain.scheme.group.partner, sealed(name)
    body = parse_age(data).stanza.body
    size = group.point_bytes
    for fault in names_of_malformed(group):
        bad = malformed(group, body[:size])[fault]
        with pytest.raises((PointError, FormatError)):
            open_timelock(parse_timelock(with_stanza(data, body=bad + body[size:]), chain), verified(name, 7), backend)
    outside = reference.encode_point(group, on_curve(group, 5))
    with pytest.raises(PointError, match="not in the group"):
        open_timelock(parse_timelock(with_stanza(data, body=outside + body[size:]), chain), verified(name, 7), backend)
    for length in (0, size + 31, size + 33):
        with pytest.raises(FormatError, match=f"has {size + 32} bytes"):
            parse_timelock(with_stanza(data, body=(body + b"x")[:length]), chain)


@pytest.mark.parametrize("name", CARRYING)
def test_no_byte_can_be_changed(name):
    chain, data, by = NETWORKS[name].chain, sealed(name), verified(name, 7)
    for position in range(len(data)):
        for bit in (1, 0x20, 0x80):
            changed = data[:position] + bytes([data[position] ^ bit]) + data[position + 1 :]
            with pytest.raises(VerifierError):
                open_timelock(parse_timelock(changed, chain), by, fast)


@pytest.mark.parametrize("size", [0, 1, 32, 65_535, 65_536, 65_537, 131_072, 200_000])
def test_payloads_of_any_length(size):
    plaintext = bytes(size)
    file = parse_age(seal_age(STANZA, KEY, NONCE, plaintext))
    assert open_age(file, KEY) == plaintext
    assert len(file.chunks) == size + 16 * max(1, -(-size // 65_536))
    for chunks in (file.chunks[:-1], file.chunks + b"x", file.chunks[16:], file.chunks[: 65_536 + 16]):
        if chunks != file.chunks and len(chunks) >= 16:
            with pytest.raises(VerificationError):
                open_age(replace(file, chunks=chunks), KEY)


def test_an_empty_last_chunk_is_refused():
    """The payload key's own holder could write one; the format has one form for each plaintext."""
    file = parse_age(seal_age(STANZA, KEY, NONCE, bytes(65_536)))
    cipher = ChaCha20Poly1305(age._derive(KEY, NONCE, b"payload"))
    counters = list(age._counters(2))
    chunks = cipher.encrypt(counters[0], bytes(65_536), None) + cipher.encrypt(counters[1], b"", None)
    with pytest.raises(VerificationError, match="empty chunk"):
        open_age(replace(file, chunks=chunks), KEY)


@given(
    st.lists(st.from_regex("[!-~]{1,20}", fullmatch=True), min_size=1, max_size=4), st.binary(max_size=200), st.binary()
)
def test_parse_is_canonical(arguments, body, plaintext):
    data = seal_age(Stanza(tuple(arguments), body), KEY, NONCE, plaintext)
    file = parse_age(data)
    assert (file.stanza, file.encode()) == (Stanza(tuple(arguments), body), data)
    assert open_age(file, KEY) == plaintext


@given(st.binary() | st.binary().map(lambda tail: seal_age(STANZA, KEY, NONCE, b"x")[:60] + tail))
def test_any_bytes_are_an_age_file_or_refused(data):
    with contextlib.suppress(FormatError):
        assert parse_age(data).encode() == data


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"age-encryption.org/v1", b"age-encryption.org/v2"),
        (b"-> test", b"-> other x\n\n-> test"),  # two stanzas
        (b"-> test a", b"-> test  a"),
        (b"Ym9keQ", b"Ym9keQ=="),
        (b"Ym9keQ", b"Ym9keR"),  # bits that stand for nothing
        (b"Ym9keQ", b"Ym9k\neQ"),
        (b"\n---", b"\n\n---"),
        (b"--- ", b"---  "),
        (b"\n", b"\r\n"),
    ],
)
def test_other_spellings_are_refused(old, new):
    data = seal_age(STANZA, KEY, NONCE, b"x")
    assert old in data
    with pytest.raises(FormatError):
        parse_age(data.replace(old, new, 1))


def test_a_body_that_fills_its_line_is_followed_by_an_empty_one():
    data = seal_age(Stanza(("t",), bytes(48)), KEY, NONCE, b"")
    assert b"\n" + b"A" * 64 + b"\n\n---" in data
    with pytest.raises(FormatError):
        parse_age(data.replace(b"\n\n---", b"\n---"))


def test_another_file_key_opens_nothing():
    file = parse_age(seal_age(STANZA, KEY, NONCE, b"x"))
    with pytest.raises(VerificationError, match="header"):
        open_age(file, bytes(16))
    assert isinstance(file, AgeFile)


def test_the_file_key_is_what_the_file_was_sealed_with():
    name = CARRYING[0]
    ciphertext = parse_timelock(sealed(name), NETWORKS[name].chain)
    file_key = file_key_of(ciphertext, verified(name, 7), fast)
    assert open_age(parse_age(ciphertext.data), file_key) == b"the seed"
    assert len(file_key) == 16


def test_a_round_as_somebody_states_it_opens_nothing():
    assert not isinstance(Round(7, b""), VerifiedRound)
