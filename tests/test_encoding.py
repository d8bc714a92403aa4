"""The byte rules, and the one property of every parser: it raises FormatError or what it returns encodes to its input."""

import base64
import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifier import merkle, tiles
from verifier.encoding import (
    MAX_DOCUMENT_BYTES,
    MAX_ENTRY_BYTES,
    MAX_INTEGER,
    check_string,
    encode_base64,
    encode_json,
    lp,
    parse_base64,
    parse_canonical_json,
    parse_decimal,
    parse_document_json,
    parse_hex,
    u32,
    u64,
)
from verifier.errors import Code, FormatError, VerificationError, VerifierError
from verifier.note import Checkpoint, Cosigner, Note, Signature, SigningKey, VerifierKey
from verifier.policy import Policy
from verifier.tlog_proof import TlogProof

ENTRIES = json.loads((Path(__file__).parent / "vectors" / "protocol.json").read_text())["entries"]
SCENARIOS = json.loads((Path(__file__).parent / "vectors" / "scenarios.json").read_text())["scenarios"]

FORBIDDEN = [
    *range(0x20),
    *range(0x7F, 0xA0),
    0x2028,
    0x2029,
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
    0xFEFF,
    0xD800,
    0xDBFF,
    0xDC00,
    0xDFFF,
]
ALLOWED_NEIGHBOURS = [
    0x20,
    0x7E,
    0xA0,
    0x2027,
    0x202F,
    0x2065,
    0x206A,
    0xFEFE,
    0xFF00,
    0xD7FF,
    0xE000,
    0x1F3B2,
    0x10FFFF,
]


def refusal(parse, *arguments):
    with pytest.raises(FormatError) as caught:
        parse(*arguments)
    return caught.value.code


# integers and lengths


def test_integers_are_big_endian_and_of_their_length():
    assert u32(0x01020304) == bytes([1, 2, 3, 4])
    assert u64(0x0102030405060708) == bytes(range(1, 9))
    assert u32(2**32 - 1) == b"\xff" * 4
    assert u64(2**64 - 1) == b"\xff" * 8
    for function, number in ((u32, 2**32), (u32, -1), (u64, 2**64), (u64, -1)):
        with pytest.raises(OverflowError):
            function(number)


@given(st.lists(st.binary(max_size=20), max_size=6), st.lists(st.binary(max_size=20), max_size=6))
def test_lists_of_lp_never_read_as_others(one, other):
    assert (b"".join(map(lp, one)) == b"".join(map(lp, other))) is (one == other)


def test_lp():
    assert lp(b"") == bytes(4)
    assert lp(b"abc") == b"\0\0\0\x03abc"


# hex, base64, decimal


@pytest.mark.parametrize(
    "text", ["0", "AB", "aB", "0x00", "a b", " ab", "ab ", "ab\n", "g0", "\u0661\u0662", "a\0", None, 12, b"ab", ["ab"]]
)
def test_what_is_no_hex(text):
    assert refusal(parse_hex, text) is Code.HEX


@given(st.binary(max_size=40))
def test_hex_of_a_given_length(data):
    assert parse_hex(data.hex()) == data
    assert parse_hex(data.hex(), len(data)) == data
    assert refusal(parse_hex, data.hex(), len(data) + 1) is Code.HEX


@pytest.mark.parametrize(
    "text",
    [
        "QUJ=",
        "QQ",
        "QQ=",
        "QQ===",
        "QR==",
        "Q Q=",
        " QQ==",
        "QQ==\n",
        "QQ==QQ==",
        "-_8=",
        "====",
        "=",
        "A",
        "\uff21\uff21==",
        "\ud800",
        None,
        1,
        b"QQ==",
    ],
)
def test_what_is_no_base64(text):
    assert refusal(parse_base64, text) is Code.BASE64


@given(st.binary(max_size=40))
def test_base64_of_a_given_length(data):
    text = base64.b64encode(data).decode()
    assert encode_base64(data) == text
    assert parse_base64(text) == data
    assert parse_base64(text, len(data)) == data
    assert refusal(parse_base64, text, len(data) + 1) is Code.BASE64


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        "01",
        "-1",
        "-0",
        "+1",
        " 1",
        "1 ",
        "1\n",
        "1_0",
        "1.0",
        "1e3",
        "0x1",
        "\u0661",
        "\uff11",
        "\u00b2",
        "9" * 21,
        "9" * 5000,
    ],
)
def test_what_is_no_decimal(text):
    assert refusal(parse_decimal, text) is Code.DECIMAL


def test_decimals_have_a_maximum():
    assert parse_decimal(str(2**63 - 1)) == 2**63 - 1
    assert refusal(parse_decimal, str(2**63)) is Code.DECIMAL
    assert parse_decimal("7", 7) == 7
    assert refusal(parse_decimal, "8", 7) is Code.DECIMAL
    assert parse_decimal(str(2**64 - 1), 2**64 - 1) == 2**64 - 1


# strings


@pytest.mark.parametrize("number", FORBIDDEN)
def test_forbidden_characters(number):
    text = f"a{chr(number)}b"
    assert refusal(check_string, text) is Code.STRING
    assert refusal(parse_canonical_json, b'{"a":' + json.dumps(text).encode() + b"}") in {Code.STRING, Code.JSON}
    if not 0xD800 <= number <= 0xDFFF and number >= 0x20:
        assert refusal(parse_canonical_json, f'{{"a":"{text}"}}'.encode()) is Code.STRING
        assert refusal(parse_canonical_json, f'{{"{text}":1}}'.encode()) is Code.STRING
        assert refusal(parse_document_json, f'{{"a":["{text}"]}}'.encode()) is Code.STRING
    assert (number == 0x0A) is (document_reads(json.dumps({"a": text})))
    assert not document_reads(json.dumps({text: 1}))


def document_reads(text):
    try:
        return bool(parse_document_json(text.encode()))
    except FormatError:
        return False


@pytest.mark.parametrize("number", ALLOWED_NEIGHBOURS)
def test_their_neighbours_are_allowed(number):
    text = f"a{chr(number)}b"
    assert check_string(text) == text
    assert parse_canonical_json(encode_json({text: text})) == {text: text}


# entries


@pytest.mark.parametrize("text", ENTRIES["accepted"])
def test_accepted_entries_are_canonical_json(text):
    assert encode_json(parse_canonical_json(text.encode())) == text.encode()


def test_entries_that_json_would_take_and_the_log_does_not():
    good = ENTRIES["accepted"][0]
    assert good.startswith('{"v":1,')
    changed = {
        " " + good,
        good + "\n",
        "\ufeff" + good,
        good.replace('{"v":1,', '{ "v":1,'),
        good.replace('{"v":1,', '{"v": 1,'),
        good.replace('{"v":1,', '{"v":1, '),
        good.replace('{"v":1,', '{"v":1.0,'),
        good.replace('{"v":1,', '{"v":1e0,'),
        good.replace('{"v":1,', '{"v":-0,'),
        good.replace('{"v":1,', '{"v":01,'),
        good.replace('{"v":1,', '{"v":NaN,'),
        good.replace('{"v":1,', '{"v":Infinity,'),
        good.replace('{"v":1,', '{"v":1,"v":1,'),
        good.replace('{"v":1,', '{"\\u0076":1,'),
        good.replace('"type"', '"t\\u0079pe"'),
        good.replace("beacon.example/", "beacon.example\\/"),
        f"[{good}]",
        good[:-1],
        good + good,
        good + ",",
    }
    assert good not in changed
    assert len(changed) == 20
    for text in changed:
        assert refusal(parse_canonical_json, text.encode()) is Code.JSON
    refused = [text for text in ENTRIES["refused"] if not reads(text)]
    assert len(refused) >= 18


def reads(text):
    try:
        return encode_json(parse_canonical_json(text.encode("utf-8", "surrogatepass"))) == text.encode()
    except FormatError:
        return False


@pytest.mark.parametrize(
    "text",
    ["", "null", "1", '"a"', "[]", "{", "{}}", "{'a':1}", '{"a":1,}', "//", '{"a":tru}', '{"a"}', '{"a":"\x7f\n"}'],
)
def test_what_is_no_json_object(text):
    assert refusal(parse_canonical_json, text.encode()) is Code.JSON
    assert refusal(parse_document_json, text.encode()) is Code.JSON


@pytest.mark.parametrize(
    "data", [b"\xff", b'{"a":"\xc0\x80"}', b'{"a":"\xed\xa0\x80"}', b"\xfe\xff\x00{\x00}", '{"a":1}'.encode("utf-16")]
)
def test_what_is_no_utf_8(data):
    assert refusal(parse_canonical_json, data) is Code.JSON
    assert refusal(parse_document_json, data) is Code.JSON


def test_escapes():
    assert parse_canonical_json(rb'{"a":"\"\\"}') == {"a": '"\\'}
    for escape in (
        rb"\n",
        rb"\t",
        rb"\/",
        rb"\b",
        rb"\u0041",
        rb"\u00e9",
        rb"\ud83c\udfb2",
        rb"\ud800",
        rb"\x41",
        b"\\",
    ):
        assert refusal(parse_canonical_json, b'{"a":"' + escape + b'"}') in {Code.JSON, Code.STRING}
    assert parse_document_json(rb'{"a" : "\u0041\n\/\ud83c\udfb2" }') == {"a": "A\n/\U0001f3b2"}


@pytest.mark.parametrize("number", [0, 1, -1, MAX_INTEGER, -MAX_INTEGER])
def test_integers_within_the_range(number):
    assert parse_canonical_json(b'{"a":%d}' % number) == {"a": number}


@pytest.mark.parametrize(
    "spelling",
    [
        str(MAX_INTEGER + 1),
        str(-MAX_INTEGER - 1),
        "-0",
        "01",
        "-01",
        "1.0",
        "1e2",
        "1E2",
        "+1",
        "9" * 5000,
        "NaN",
        "-Infinity",
        ".5",
    ],
)
def test_other_numbers_are_refused_in_entries_and_documents(spelling):
    for text in (f'{{"a":{spelling}}}', f'{{"a":[[{spelling}]]}}'):
        assert refusal(parse_canonical_json, text.encode()) is Code.JSON
        assert refusal(parse_document_json, text.encode()) is Code.JSON


@pytest.mark.parametrize(
    "text", ['{"a":1,"a":1}', '{"a":{"b":1,"b":2}}', '{"a":[{"b":1,"b":2}]}', '{"a":1,"\\u0061":2}']
)
def test_the_same_key_twice_at_any_depth(text):
    assert refusal(parse_canonical_json, text.encode()) is Code.JSON
    assert refusal(parse_document_json, text.encode()) is Code.JSON


def test_key_order_means_nothing_and_stays():
    assert parse_canonical_json(b'{"b":1,"a":2}') == {"a": 2, "b": 1}
    assert encode_json(parse_canonical_json(b'{"b":1,"a":2}')) == b'{"b":1,"a":2}'


def test_an_entry_has_at_most_65535_bytes():
    longest = b'{"a":"%s"}' % (b"x" * (MAX_ENTRY_BYTES - 8))
    assert len(longest) == 65_535
    assert parse_canonical_json(longest)
    assert refusal(parse_canonical_json, longest.replace(b"x", b"xx", 1)) is Code.ENTRY


def test_a_document_has_at_most_64_mib():
    assert MAX_DOCUMENT_BYTES == 64 * 1024 * 1024
    assert refusal(parse_document_json, bytes(MAX_DOCUMENT_BYTES + 1)) is Code.DOCUMENT
    assert refusal(parse_document_json, bytes(MAX_DOCUMENT_BYTES)) is Code.JSON


@pytest.mark.parametrize("depth", [40, 1_000, 30_000])
def test_deep_nesting_is_refused(depth):
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        nested = '{"a":' + opening * depth + "1" + closing * depth + "}"
        for parse in (parse_canonical_json, parse_document_json):
            assert refusal(parse, nested.encode()) in {Code.JSON, Code.ENTRY}


def test_documents_of_the_scenarios_read():
    documents = [scenario["document"] for scenario in SCENARIOS if "document" in scenario]
    assert len(documents) > 10
    for document in documents:
        for text in (
            json.dumps(document),
            json.dumps(document, indent=2, ensure_ascii=False),
            json.dumps(document, sort_keys=True),
        ):
            assert parse_document_json(text.encode()) == document


@pytest.mark.parametrize("value", [{"a": "\ud800"}, {"\udfff": 1}, ["\ud83c"]])
def test_a_surrogate_is_not_encoded(value):
    assert refusal(encode_json, value) is Code.STRING


STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(
    lambda text: not any(ord(c) in FORBIDDEN for c in text)
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER) | STRINGS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STRINGS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(STRINGS, VALUES, max_size=5))
def test_values_survive_encoding(value):
    assert parse_canonical_json(encode_json(value)) == value
    assert parse_document_json(json.dumps(value, indent=1).encode()) == value


def test_errors_have_stable_codes():
    error = FormatError(Code.HEX, "why")
    assert (str(error), error.code, error.message) == ("hex: why", Code.HEX, "why")
    assert issubclass(FormatError, VerifierError)
    assert issubclass(VerificationError, VerifierError)
    assert not issubclass(FormatError, VerificationError)


# every parser


def seed(name):
    return hashlib.sha256(name).digest()


LOG, WITNESS = SigningKey(seed(b"log"), "log.example/é"), Cosigner(seed(b"witness"), "w.example")
CHECKPOINT = Checkpoint("log.example/é", 300, seed(b"root"), ("an extension",)).encode()
NOTE = CHECKPOINT + "\n" + LOG.sign(CHECKPOINT) + WITNESS.cosign(CHECKPOINT, 1)
PROOF = TlogProof(12, (merkle.EMPTY_ROOT,) * 2, NOTE, b"extra").encode()
POLICY = f"# policy\nlog {LOG.vkey} url\nwitness W\t{WITNESS.vkey}\n group G any W\nquorum G\n"

TEXT_PARSERS = {
    "hex": (parse_hex, bytes.hex, [b"\x00\xab".hex(), seed(b"").hex()]),
    "base64": (parse_base64, encode_base64, ["", "QUI=", "QQ==", encode_base64(seed(b""))]),
    "decimal": (parse_decimal, str, ["0", "10", str(2**63 - 1)]),
    "vkey": (VerifierKey.parse, str, [str(LOG.vkey), str(WITNESS.vkey)]),
    "private key": (SigningKey.parse, SigningKey.encode, [LOG.encode()]),
    "signature line": (Signature.parse, lambda line: line.encode()[:-1], [LOG.sign("a\n")[:-1]]),
    "note": (Note.parse, Note.encode, [NOTE, "\n\n" + LOG.sign("\n")]),
    "checkpoint": (Checkpoint.parse, Checkpoint.encode, [CHECKPOINT]),
    "tlog proof": (TlogProof.parse, TlogProof.encode, [PROOF]),
    "tile path": (tiles.parse_tile_path, lambda tile: tile.path, ["tile/0/x001/234", "tile/entries/000.p/9"]),
    "string": (check_string, str, ["a b", "é"]),
}
BYTE_PARSERS = {
    "entry": (parse_canonical_json, encode_json, [ENTRIES["accepted"][0].encode(), b'{"a":[1,null,true,"\\""]}']),
    "note": (Note.parse, lambda note: note.encode().encode(), [NOTE.encode()]),
    "tlog proof": (TlogProof.parse, lambda proof: proof.encode().encode(), [PROOF.encode()]),
    "bundle": (tiles.parse_bundle, tiles.encode_bundle, [tiles.encode_bundle([b"one", b"", b"three"])]),
}
INTERESTING = '\0\n\r\t 0129+-=_./"\\aAxé\u2014\u00a0\u0661\ufeff\ud800'


def mutate(data, examples, pieces):
    """Cut, repeat and insert pieces in one of the examples, a few times."""
    value = data.draw(st.sampled_from(examples))
    for _ in range(data.draw(st.integers(0, 3))):
        start = data.draw(st.integers(0, len(value)))
        end = data.draw(st.integers(start, min(len(value), start + 3)))
        value = (
            value[:start]
            + data.draw(st.sampled_from([value[start:start], value[start:end] * 2, *pieces]))
            + value[end:]
        )
    return value


def canonical_or_refused(parse, encode, value):
    try:
        parsed = parse(value)
    except FormatError:
        return True
    return encode(parsed) == value


@pytest.mark.parametrize("name", TEXT_PARSERS)
@given(data=st.data())
def test_every_text_parser_is_canonical(name, data):
    parse, encode, examples = TEXT_PARSERS[name]
    assert all(encode(parse(example)) == example for example in examples)
    value = data.draw(st.text(max_size=60)) if data.draw(st.booleans()) else mutate(data, examples, list(INTERESTING))
    assert canonical_or_refused(parse, encode, value)


@pytest.mark.parametrize("name", BYTE_PARSERS)
@given(data=st.data())
def test_every_byte_parser_is_canonical(name, data):
    parse, encode, examples = BYTE_PARSERS[name]
    assert all(encode(parse(example)) == example for example in examples)
    pieces = [bytes([byte]) for byte in range(256)]
    value = data.draw(st.binary(max_size=60)) if data.draw(st.booleans()) else mutate(data, examples, pieces)
    assert canonical_or_refused(parse, encode, value)


@given(st.data())
def test_a_policy_is_refused_or_reads_the_same_when_written(data):
    value = data.draw(st.text(max_size=60)) if data.draw(st.booleans()) else mutate(data, [POLICY], list(INTERESTING))
    try:
        policy = Policy.parse(value)
    except FormatError:
        return
    assert Policy.parse(policy.encode()) == policy


@given(st.data())
def test_a_document_is_refused_or_an_object(data):
    value = (
        data.draw(st.binary(max_size=60))
        if data.draw(st.booleans())
        else mutate(data, [b'{"a" : [1, "\\n", {}]}'], [b"\\", b'"', b"\xff", b"{", b"]", b"1e9"])
    )
    try:
        parsed = parse_document_json(value)
    except FormatError:
        return
    assert parse_document_json(encode_json(parsed)) == parsed
