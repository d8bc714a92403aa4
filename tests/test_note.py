import base64
import hashlib
import json
import pickle
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from verifier import note as notes
from verifier.errors import Code, FormatError, VerificationError
from verifier.note import (
    COSIGNATURE_V1,
    ECDSA,
    ED25519,
    ML_DSA_44,
    TREE_HEAD,
    Checkpoint,
    Cosigner,
    Note,
    Signature,
    SigningKey,
    Verified,
    VerifierKey,
    cosignature_message,
    open_note,
    parse_cosignature,
    subtree_message,
)
from verifier.vectors_tlog import run_section

VECTORS = json.loads((Path(__file__).parent / "vectors" / "tlog.json").read_text())
SECTIONS = [
    "vkey_parse",
    "key_id",
    "note_sign_ed25519",
    "note_open",
    "cosignature_verify",
    "cosignature_encode",
    "checkpoint_parse",
    "origin_hash",
]
CASES = [pytest.param(section, case, id=case["id"]) for section in SECTIONS for case in VECTORS[section]]

SEED = hashlib.sha256(b"a seed for tests").digest()
LOG = SigningKey(SEED, "log.example/one")
OTHER = SigningKey(hashlib.sha256(b"another").digest(), "other.example")
WITNESS = Cosigner(hashlib.sha256(b"a witness").digest(), "witness.example/w1")
CHECKPOINT = Checkpoint("log.example/one", 7, hashlib.sha256(b"root").digest())
TEXT = CHECKPOINT.encode()
SIGNED = TEXT + "\n" + LOG.sign(TEXT)
COSIGNED = SIGNED + WITNESS.cosign(TEXT, 1_700_000_000)


def line_of(key, signature):
    return Signature(key.name, key.key_id, signature).encode()


def malformed(note):
    with pytest.raises(FormatError) as caught:
        Note.parse(note)
    return caught.value.code is Code.NOTE


def refused(note, *keys):
    with pytest.raises(VerificationError) as caught:
        open_note(note, keys)
    return caught.value.code is Code.SIGNATURE


def bad_key(vkey):
    with pytest.raises(FormatError) as caught:
        VerifierKey.parse(vkey)
    return caught.value.code is Code.VKEY


def vkey_of(name, key_type, public_key, identifier=None):
    """A vkey with the id that fits, whatever its parts are."""
    identifier = identifier or notes.key_id(name, key_type, public_key).hex()
    return f"{name}+{identifier}+{base64.b64encode(bytes([key_type]) + public_key).decode()}"


@pytest.mark.parametrize(("section", "case"), CASES)
def test_known_answers(section, case):
    assert run_section(section, case) is None


def test_every_section_of_the_known_answers_is_run():
    for section in VECTORS.keys() - {"meta"}:
        assert [run_section(section, case) for case in VECTORS[section]] == [None] * len(VECTORS[section])


def test_a_case_with_another_answer_does_not_pass():
    for section in VECTORS.keys() - {"meta", "witness_add_checkpoint", "witness_status"}:
        case = VECTORS[section][0]
        turned = {"ok": False} if case["expect"].get("ok", True) else {"ok": True}
        assert run_section(section, {**case, "expect": turned}) is not None
    for case in VECTORS["witness_status"]:
        assert run_section("witness_status", {**case, "expect": {"status": 200}}) is not None
    with pytest.raises(KeyError):
        run_section("witness_status", {"input": {"case": "tea-leaves"}, "expect": {"status": 400}})
    with pytest.raises(KeyError):
        run_section("key_id", {**VECTORS["key_id"][0], "expect": {"colour": "red"}})


@pytest.mark.parametrize(
    ("field", "value"), [("status", 418), ("response_body", "4\n"), ("content_type", "text/x.tlog.tea")]
)
def test_each_step_of_a_witness_is_held_to_its_answer(field, value):
    (case,) = VECTORS["witness_add_checkpoint"]
    steps = case["expect"]["steps"]
    for number, step in enumerate(steps):
        changed = [*steps[:number], step | {field: value, "also_acceptable": []}, *steps[number + 1 :]]
        failed = run_section("witness_add_checkpoint", {**case, "expect": {"steps": changed}})
        assert failed is not None
        assert failed.startswith(f"{step['name']}: ")


def test_a_witness_judges_equal_sizes_and_empty_trees():
    statuses = {"equal-size-equal-root": 200, "equal-size-different-root": 422, "size0-empty-root": 200}
    for name, status in statuses.items():
        assert run_section("witness_status", {"input": {"case": name}, "expect": {"status": status}}) is None


# verifier keys


@pytest.mark.parametrize("key", [LOG.vkey, OTHER.vkey, WITNESS.vkey])
def test_vkey_round_trip(key):
    assert VerifierKey.parse(str(key)) == key


def test_every_part_of_a_vkey_alone_and_every_changed_character_is_refused():
    vkey = str(LOG.vkey)
    for start in range(len(vkey)):
        for end in range(start, len(vkey) + 1):
            assert vkey[start:end] == vkey or bad_key(vkey[start:end])
    for at, character in enumerate(vkey):
        assert bad_key(vkey[:at] + chr(ord(character) + 1) + vkey[at + 1 :])


def test_the_key_id_is_lower_case_hex_of_eight_digits():
    name, identifier, key = str(LOG.vkey).split("+", 2)
    assert identifier != identifier.upper()
    for other in (identifier.upper(), identifier[:-1], "0" + identifier, " " + identifier[1:], "0x" + identifier[2:]):
        assert bad_key(f"{name}+{other}+{key}")


@pytest.mark.parametrize("name", ["", " ", "a b", "a\u00a0b", "a\u3000", "a\tb", "a\nb", "a\x01b", "\ud800"])
def test_names_that_no_key_may_have(name):
    with pytest.raises(FormatError, match="vkey: "):
        SigningKey(SEED, name)
    with pytest.raises(FormatError, match="vkey: "):
        VerifierKey.of(name, ED25519, LOG.vkey.public_key)


def test_a_name_with_a_plus_is_refused():
    with pytest.raises(FormatError, match="vkey: "):
        SigningKey(SEED, "a+b")


def test_names_are_any_other_text():
    for name in ("é/日本", "a\u200bb", "\u2014", "a=b,c"):
        key = SigningKey(SEED, name)
        assert VerifierKey.parse(str(key.vkey)) == key.vkey
        assert open_note("t\n\n" + key.sign("t\n"), [key.vkey]).verified == (Verified(key.vkey, None),)


@pytest.mark.parametrize(
    ("key_type", "length"),
    [
        (ED25519, 31),
        (ED25519, 33),
        (ED25519, 0),
        (COSIGNATURE_V1, 31),
        (COSIGNATURE_V1, 64),
        (ML_DSA_44, 32),
        (ML_DSA_44, 1313),
    ],
)
def test_keys_of_a_wrong_length_are_refused_though_the_id_fits(key_type, length):
    assert bad_key(vkey_of("n", key_type, bytes(length)))


@pytest.mark.parametrize("key_type", [0x00, 0x03, 0x07, 0x65, 0xFA, 0xFF])
def test_unknown_key_types_are_refused_though_the_id_fits(key_type):
    assert bad_key(vkey_of("n", key_type, LOG.vkey.public_key))


def test_non_canonical_base64_of_a_vkey_is_refused():
    vkey = str(LOG.vkey)
    assert vkey[-1] != "="
    assert bad_key(vkey.replace("+", "-"))
    assert bad_key(vkey + "=")
    assert bad_key(vkey + "\n")
    assert bad_key(vkey[:-4] + "\n" + vkey[-4:])


def spki(key):
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


P256 = ec.derive_private_key(7, ec.SECP256R1()).public_key()
COMPRESSED = bytes.fromhex("3039301306072a8648ce3d020106082a8648ce3d030107032200") + P256.public_bytes(
    Encoding.X962, PublicFormat.CompressedPoint
)


def test_der_keys_are_of_the_curves_their_type_allows():
    for curve in (ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()):
        der = spki(ec.derive_private_key(7, curve).public_key())
        for key_type in (ECDSA, TREE_HEAD):
            key = VerifierKey.parse(vkey_of("n", key_type, der))
            assert str(key) == vkey_of("n", key_type, der)
    modern = spki(rsa.generate_private_key(65537, 2048).public_key())
    assert VerifierKey.parse(vkey_of("n", TREE_HEAD, modern)).public_key == modern
    for key_type, der in (
        (ECDSA, modern),
        (ECDSA, spki(ec.derive_private_key(7, ec.SECP256K1()).public_key())),
        (ECDSA, spki(ed448.Ed448PrivateKey.generate().public_key())),
        (ECDSA, spki(P256) + b"\0"),
        (ECDSA, spki(P256)[:-1]),
        (TREE_HEAD, b""),
        (TREE_HEAD, LOG.vkey.public_key),
        (ECDSA, P256.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)),
        (ECDSA, COMPRESSED),
    ):
        assert bad_key(vkey_of("n", key_type, der))


def test_the_key_id_depends_on_name_and_type():
    ids = {
        notes.key_id(name, key_type, LOG.vkey.public_key)
        for name in ("a", "b")
        for key_type in (ED25519, COSIGNATURE_V1)
    }
    assert len(ids) == 4


# private keys


def test_secrets_do_not_show():
    for key in (LOG, WITNESS):
        shown = repr(key) + str(key) + format(key)
        assert SEED.hex() not in shown
        assert base64.b64encode(SEED).decode() not in shown
        assert not hasattr(key, "__dict__")
        with pytest.raises(TypeError):
            pickle.dumps(key)
    assert repr(LOG) == f"SigningKey(log.example/one+{LOG.vkey.key_id.hex()})"


def test_private_key_round_trip_and_faults():
    skey = LOG.encode()
    assert SigningKey.parse(skey).encode() == skey
    assert SigningKey.parse(skey).vkey == LOG.vkey
    seed_of_type_4 = base64.b64encode(bytes([COSIGNATURE_V1]) + SEED).decode()
    faults = [skey[:end] for end in range(len(skey))] + [skey[start:] for start in range(1, len(skey))]
    faults += [skey[:at] + chr(ord(c) + 1) + skey[at + 1 :] for at, c in enumerate(skey)]
    faults += [
        str(LOG.vkey),
        "PRIVATE+KEY+" + str(LOG.vkey),
        f"PRIVATE+KEY+{LOG.name}+{LOG.vkey.key_id.hex()}+{seed_of_type_4}",
    ]
    for fault in faults:
        with pytest.raises(FormatError) as caught:
            SigningKey.parse(fault)
        assert caught.value.code is Code.VKEY
        assert base64.b64encode(SEED).decode() not in str(caught.value)


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_seed_has_32_bytes(length):
    with pytest.raises(FormatError, match="vkey: "):
        SigningKey(bytes(length), "n")


@pytest.mark.parametrize("text", ["", "no newline", "a\r\n", "a\x00\n", "\ud800\n", "a\n\tb\n"])
def test_a_text_that_no_note_can_hold_is_not_signed(text):
    with pytest.raises(FormatError, match="note: "):
        LOG.sign(text)


# notes


def test_a_note_is_its_text_and_its_lines():
    note = Note.parse(COSIGNED)
    assert note.text == TEXT
    assert [(s.name, s.key_id) for s in note.signatures] == [(k.name, k.vkey.key_id) for k in (LOG, WITNESS)]
    assert note.encode() == COSIGNED
    assert Note.parse(COSIGNED.encode()) == note


def test_the_last_empty_line_ends_the_text():
    for text in ("a\n\nb\n", "\n", "\n\n", "a\n\n", "a\n\n" + LOG.sign("x\n")):
        opened = open_note(text + "\n" + LOG.sign(text), [LOG.vkey])
        assert opened.text == text


@pytest.mark.parametrize(
    "note",
    [
        "",
        "\n",
        TEXT,
        TEXT + "\n",
        LOG.sign(TEXT),
        "\n" + LOG.sign(TEXT),
        SIGNED[:-1],
        "t\n\n\u2014 n AAAAAAA=X",
        SIGNED + "\n",
        SIGNED + "Unexpected line.\n",
        SIGNED.replace("\n", "\r\n"),
        SIGNED.replace("\u2014 ", "- "),
        SIGNED.replace("\u2014 ", "\u2014"),
        SIGNED.replace("\u2014 ", "\u2014  "),
        SIGNED.replace("\u2014 ", "\u2014\u00a0"),
        SIGNED.replace("\u2014 ", " \u2014 "),
        SIGNED.replace("\u2014 log.example/one ", "\u2014 log.example/one  "),
        SIGNED.replace("\u2014 log.example/one ", "\u2014 log example/one "),
        SIGNED.replace("\u2014 log.example/one ", "\u2014 log+example "),
        SIGNED.replace("\u2014 log.example/one ", "\u2014 "),
        SIGNED.replace("\u2014 log.example/one ", "\u2014 log.example/one\u2003"),
        SIGNED.replace("\n\u2014", "\x0b\u2014"),
        "\ufeff\x00" + SIGNED,
        "\ud800" + SIGNED,
        SIGNED.encode() + b"\xff",
        b"\xc0\x80" + SIGNED.encode(),
        b"\xed\xa0\x80" + SIGNED.encode(),
    ],
)
def test_malformed_notes(note):
    assert malformed(note)


@pytest.mark.parametrize(
    "encoded",
    [
        "",
        "AAAA",
        "AAAAAA==",
        "AAAAAAA",
        "AAAAAAB=",
        "AAAA-_A=",
        "AAAAAAA= ",
        "AAAAAAA==",
        "AAAAAAA=AAAA",
        "====",
        "\uff21AAAAAA=",
    ],
)
def test_signatures_that_are_no_canonical_base64_of_five_bytes(encoded):
    assert malformed(f"t\n\n\u2014 n {encoded}\n")


def test_a_signature_of_one_byte_is_well_formed():
    assert Note.parse("t\n\n\u2014 n AAAAAAA=\n").signatures == (Signature("n", bytes(4), b"\0"),)


@pytest.mark.parametrize("count", [1, 2, 16, 100])
def test_up_to_100_signatures(count):
    strangers = "".join(line_of(SigningKey(SEED, f"n{i}").vkey, b"?" * 64) for i in range(count - 1))
    assert open_note(TEXT + "\n" + strangers + LOG.sign(TEXT), [LOG.vkey]).verified == (Verified(LOG.vkey, None),)


def test_more_than_100_signatures_are_refused_before_any_is_checked():
    assert malformed(TEXT + "\n" + LOG.sign(TEXT) * 101)


def test_a_note_has_at_most_a_million_bytes():
    long = "a" * (notes.MAX_NOTE_BYTES - len(LOG.sign("a\n").encode()) - 2) + "\n"
    note = long + "\n" + LOG.sign(long)
    assert len(note.encode()) == notes.MAX_NOTE_BYTES
    assert open_note(note, [LOG.vkey]).text == long
    assert malformed("a" + note)
    assert malformed("é" * (notes.MAX_NOTE_BYTES // 2) + note[-100:])


def test_verified_keys_in_the_order_of_their_lines():
    note = SIGNED + OTHER.sign(TEXT) + WITNESS.cosign(TEXT, 5)
    opened = open_note(note, [WITNESS.vkey, OTHER.vkey, LOG.vkey])
    assert opened.text == TEXT
    assert opened.verified == (Verified(LOG.vkey, None), Verified(OTHER.vkey, None), Verified(WITNESS.vkey, 5))


def test_lines_of_unknown_keys_are_ignored_whatever_they_hold():
    junk = line_of(OTHER.vkey, b"junk")
    assert open_note(TEXT + "\n" + junk + LOG.sign(TEXT), [LOG.vkey]).verified == (Verified(LOG.vkey, None),)
    assert refused(TEXT + "\n" + junk, LOG.vkey)
    assert refused(SIGNED)


def test_a_line_that_shares_only_name_or_only_id_with_a_known_key_is_ignored():
    good = LOG.sign(TEXT)
    other_id = Signature(LOG.name, b"\1\2\3\4", b"junk").encode()
    other_name = Signature("someone", LOG.vkey.key_id, b"junk").encode()
    assert len(open_note(TEXT + "\n" + other_id + other_name + good, [LOG.vkey]).verified) == 1
    assert refused(TEXT + "\n" + other_id + other_name, LOG.vkey)


def test_a_bad_line_of_a_known_key_refuses_the_note_whatever_else_is_good():
    bad = line_of(OTHER.vkey, bytes(64))
    for note in (SIGNED + bad, TEXT + "\n" + bad + LOG.sign(TEXT)):
        assert refused(note, LOG.vkey, OTHER.vkey)
        assert open_note(note, [LOG.vkey]).verified == (Verified(LOG.vkey, None),)


def test_a_line_that_stands_twice_counts_once_and_a_second_bad_one_refuses():
    assert open_note(SIGNED + LOG.sign(TEXT), [LOG.vkey]).verified == (Verified(LOG.vkey, None),)
    assert refused(SIGNED + line_of(LOG.vkey, bytes(64)), LOG.vkey)


def test_two_cosignatures_of_one_witness_are_both_told():
    note = COSIGNED + WITNESS.cosign(TEXT, 1_700_000_001)
    assert [v.timestamp for v in open_note(note, [WITNESS.vkey]).verified] == [1_700_000_000, 1_700_000_001]


def test_two_known_keys_of_one_name_and_id_are_ambiguous_when_used():
    assert refused(SIGNED, LOG.vkey, LOG.vkey)
    assert open_note(SIGNED, [LOG.vkey, OTHER.vkey, OTHER.vkey]).verified == (Verified(LOG.vkey, None),)


def test_signatures_of_types_that_are_not_checked_are_ignored():
    for key_type in (ECDSA, TREE_HEAD):
        key = VerifierKey.of("der.example", key_type, spki(P256))
        assert refused(TEXT + "\n" + line_of(key, b"?" * 70), key)
        assert open_note(SIGNED + line_of(key, b"?" * 70), [LOG.vkey, key]).verified == (Verified(LOG.vkey, None),)


def test_a_key_of_small_order_verifies_nothing():
    key = VerifierKey.of("weak.example", ED25519, bytes(32))
    assert refused("t\n\n" + line_of(key, bytes(64)), key)


@given(st.integers(0, 8 * len(COSIGNED.encode()) - 1))
def test_any_flipped_bit_of_a_cosigned_checkpoint_is_refused(bit):
    flipped = bytearray(COSIGNED.encode())
    flipped[bit // 8] ^= 1 << bit % 8
    assert both_signed(COSIGNED.encode())
    assert not both_signed(bytes(flipped))


def both_signed(note):
    """A changed name or id turns a line into a stranger's, so the other one alone still opens the note."""
    try:
        return len(open_note(note, [LOG.vkey, WITNESS.vkey]).verified) == 2
    except (FormatError, VerificationError):
        return False


# checkpoints


def test_checkpoint_fields():
    assert Checkpoint.parse(TEXT) == CHECKPOINT
    extended = TEXT + "first extension\nsecond +\n"
    assert Checkpoint.parse(extended).extensions == ("first extension", "second +")
    assert Checkpoint.parse(extended).encode() == extended
    assert Checkpoint.parse(f"o\n{2**63 - 1}\n{base64.b64encode(bytes(32)).decode()}\n").size == 2**63 - 1


ROOT = TEXT.split("\n")[2]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "o\n",
        "o\n1\n",
        f"o\n1\n{ROOT}",
        f"\n1\n{ROOT}\n",
        f"o\n\n{ROOT}\n",
        f"o\n1\n{ROOT}\n\n",
        f"o\n1\n{ROOT}\n\nextension\n",
        f"o\n1\n{ROOT}\nextension\n\n",
        f"o\n1\n{ROOT}\nextension",
        f"o\n1\n{ROOT} \n",
        f"o\n1\n {ROOT}\n",
        f"o\n1\n{ROOT[:-1]}\n",
        f"o\n1\n{base64.b64encode(bytes(31)).decode()}\n",
        f"o\n1\n{base64.b64encode(bytes(33)).decode()}\n",
        f"o\r\n1\r\n{ROOT}\r\n",
        f"o\t\n1\n{ROOT}\n",
        f"o\n1\n{ROOT}\next\x1b\n",
        f"\ud800\n1\n{ROOT}\n",
        *(
            f"o\n{size}\n{ROOT}\n"
            for size in (
                "00",
                "01",
                "-1",
                "+1",
                " 1",
                "1 ",
                "1_0",
                "0x1",
                "1e3",
                "\uff11",
                "\u0661",
                "one",
                str(2**63),
                "9" * 5000,
            )
        ),
    ],
)
def test_malformed_checkpoints(text):
    with pytest.raises(FormatError) as caught:
        Checkpoint.parse(text)
    assert caught.value.code is Code.CHECKPOINT


# cosignatures


def test_a_cosignature_covers_time_and_extension_lines():
    text = TEXT + "extension\n"
    line = WITNESS.cosign(text, 12)
    assert cosignature_message(12, text) == f"cosignature/v1\ntime 12\n{text}".encode()
    assert open_note(text + "\n" + line, [WITNESS.vkey]).verified == (Verified(WITNESS.vkey, 12),)
    assert refused(TEXT + "\n" + line, WITNESS.vkey)
    data = Signature.parse(line[:-1]).signature
    for changed in (
        bytes([data[0] ^ 1]) + data[1:],
        data[:7] + bytes([data[7] ^ 1]) + data[8:],
        data[8:],
        data + b"\0",
    ):
        assert refused(text + "\n" + line_of(WITNESS.vkey, changed), WITNESS.vkey)


@pytest.mark.parametrize("text", ["not a checkpoint\n", "o\n01\n" + ROOT + "\n"])
def test_only_checkpoints_are_cosigned(text):
    with pytest.raises(FormatError, match="checkpoint: "):
        WITNESS.cosign(text, 1)
    signature = WITNESS._private.sign(cosignature_message(1, text))
    assert refused(text + "\n" + line_of(WITNESS.vkey, (1).to_bytes(8, "big") + signature), WITNESS.vkey)


@pytest.mark.parametrize("timestamp", [-1, 2**63])
def test_timestamps_stay_below_two_to_the_63(timestamp):
    with pytest.raises(FormatError, match="cosignature: "):
        WITNESS.cosign(TEXT, timestamp)
    with pytest.raises(FormatError, match="cosignature: "):
        subtree_message("c", timestamp, "o", 0, 1, bytes(32))


def test_a_timestamp_above_two_to_the_63_is_refused_though_it_is_signed():
    time = 2**63
    signature = WITNESS._private.sign(f"cosignature/v1\ntime {time}\n{TEXT}".encode())
    assert refused(TEXT + "\n" + line_of(WITNESS.vkey, time.to_bytes(8, "big") + signature), WITNESS.vkey)
    last = WITNESS.cosign(TEXT, time - 1)
    assert open_note(TEXT + "\n" + last, [WITNESS.vkey]).verified == (Verified(WITNESS.vkey, time - 1),)


def test_a_plain_signature_is_no_cosignature_and_the_other_way_round():
    same = SigningKey(hashlib.sha256(b"a witness").digest(), WITNESS.name)
    assert same.vkey.public_key == WITNESS.vkey.public_key
    assert same.vkey.key_id != WITNESS.vkey.key_id
    plain = Signature.parse(same.sign(TEXT)[:-1]).signature
    timed = Signature.parse(WITNESS.cosign(TEXT, 1)[:-1]).signature
    assert refused(TEXT + "\n" + line_of(WITNESS.vkey, plain), WITNESS.vkey)
    assert refused(TEXT + "\n" + line_of(same.vkey, timed), same.vkey)
    assert refused(TEXT + "\n" + line_of(same.vkey, timed[8:]), same.vkey)


@pytest.mark.parametrize("length", [0, 8, 64, 71, 73, 2427, 2428])
def test_a_timestamped_signature_has_72_bytes(length):
    with pytest.raises(FormatError, match="cosignature: "):
        parse_cosignature(bytes(length))


ML_DSA = MLDSA44PrivateKey.from_seed_bytes(hashlib.sha256(b"ml-dsa").digest())
ML_DSA_KEY = VerifierKey.of("pq.example", ML_DSA_44, ML_DSA.public_key().public_bytes_raw())


def ml_dsa_line(timestamp, *, name="pq.example", origin=CHECKPOINT.origin, size=CHECKPOINT.size, root=CHECKPOINT.root):
    message = subtree_message(name, timestamp, origin, 0, size, root)
    return line_of(ML_DSA_KEY, timestamp.to_bytes(8, "big") + ML_DSA.sign(message))


def test_an_ml_dsa_cosignature_covers_name_time_origin_size_and_root():
    assert VerifierKey.parse(str(ML_DSA_KEY)) == ML_DSA_KEY
    assert open_note(TEXT + "\n" + ml_dsa_line(9), [ML_DSA_KEY]).verified == (Verified(ML_DSA_KEY, 9),)
    for line in (
        ml_dsa_line(9, name="other.example"),
        ml_dsa_line(9, origin="another.example"),
        ml_dsa_line(9, size=8),
        ml_dsa_line(9, root=bytes(32)),
        line_of(ML_DSA_KEY, (8).to_bytes(8, "big") + Signature.parse(ml_dsa_line(9)[:-1]).signature[8:]),
        line_of(ML_DSA_KEY, bytes(2428)),
        line_of(ML_DSA_KEY, bytes(72)),
    ):
        assert refused(TEXT + "\n" + line, ML_DSA_KEY)


def test_without_ml_dsa_its_lines_are_a_strangers(monkeypatch):
    monkeypatch.setattr(notes, "mldsa", None)
    assert refused(TEXT + "\n" + ml_dsa_line(9), ML_DSA_KEY)
    note = SIGNED + ml_dsa_line(9)
    assert open_note(note, [LOG.vkey, ML_DSA_KEY]).verified == (Verified(LOG.vkey, None),)


def test_ml_dsa_needs_an_origin_of_at_most_255_bytes():
    text = Checkpoint("o" * 256, 1, bytes(32)).encode()
    assert refused(text + "\n" + line_of(ML_DSA_KEY, bytes(2428)), ML_DSA_KEY)


@pytest.mark.parametrize(
    ("cosigner", "origin", "start", "end", "root"),
    [
        ("", "o", 0, 1, bytes(32)),
        ("c", "", 0, 1, bytes(32)),
        ("c" * 256, "o", 0, 1, bytes(32)),
        ("c", "é" * 128, 0, 1, bytes(32)),
        ("c", "o", 2, 1, bytes(32)),
        ("c", "o", -1, 1, bytes(32)),
        ("c", "o", 0, 2**64, bytes(32)),
        ("c", "o", 0, 1, bytes(31)),
    ],
)
def test_what_no_subtree_message_can_hold(cosigner, origin, start, end, root):
    with pytest.raises(FormatError, match="cosignature: "):
        subtree_message(cosigner, 0, origin, start, end, root)
