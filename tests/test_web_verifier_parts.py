"""What the TypeScript verifier rests on, where libraries differ: signatures, points, policies, chains."""

import json
import random

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests import builder, test_ed25519
from tests.bls_support import malformed, torsion
from tests.test_check_mutations import mutations
from tests.test_drand import PINNED, RECORDS
from tests.test_ed25519 import BASE_Y, IDENTITY, R_SECRET, TORSION, A, L, P, R, add, encode, signed
from tests.test_policy import NESTED
from tests.web_verifier import Bulk, encoded
from verifier.bls import reference
from verifier.bls.groups import Group
from verifier.bls.verify import best_backend
from verifier.drand import Round, parse_pinned_chain, verify_round
from verifier.encoding import encode_json
from verifier.errors import Code, FormatError, VerifierError
from verifier.note import SigningKey
from verifier.policy import Policy


def answers(questions):
    questions = list(questions)
    found = Bulk(questions).answers()
    assert len(found) == len(questions) > 0
    return found


# --- Ed25519 (2.7) -------------------------------------------------------------------------------------------------------


def ed25519_cases():
    message = b"m"
    good = signed(R_SECRET, encode(R), encode(A), message)
    s = int.from_bytes(good[32:], "little")
    yield encode(A), message, good
    for secret, public, text, signature in test_ed25519.RFC_8032:
        assert secret
        yield bytes.fromhex(public), bytes.fromhex(text), bytes.fromhex(signature)
    for multiple in range(1, 16):
        yield encode(A), message, good[:32] + (s + multiple * L).to_bytes(32, "little")
    keys = [encode(point) for point in TORSION] + [encode(add(A, extra)) for extra in TORSION]
    keys += [
        (y | sign << 255).to_bytes(32, "little") for y in (0, 1, P - 1, BASE_Y, *range(P, 2**255)) for sign in (0, 1)
    ]
    for key in keys:
        yield key, message, signed(R_SECRET, encode(R), key, message)
        yield key, message, encode(IDENTITY) + bytes(32)
    commitments = [encode(point) for point in TORSION] + [encode(add(R, extra)) for extra in TORSION]
    commitments += [encode(IDENTITY, other_sign=True), encode(IDENTITY, y_plus_p=True), (P + 1).to_bytes(32, "little")]
    for commitment in commitments:
        for secret in (0, R_SECRET):
            yield encode(A), message, signed(secret, commitment, encode(A), message)
    mixed = encode(add(A, TORSION[1]))
    for number in range(40):
        yield mixed, b"%d" % number, signed(R_SECRET, encode(R), mixed, b"%d" % number)
    for length in (0, 31, 33, 63, 65, 128):
        yield encode(A), message, good.ljust(128, b"\0")[:length]
        yield encode(A).ljust(64, b"\0")[:length], message, good
    chance = random.Random(1)
    private = Ed25519PrivateKey.from_private_bytes(b"\x05" * 32)
    whole = private.public_key().public_bytes_raw() + private.sign(b"message") + b"message"
    for _ in range(150):
        flipped = bytearray(whole)
        flipped[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        yield bytes(flipped[:32]), bytes(flipped[96:]), bytes(flipped[32:96])


def test_signatures():
    cases = list(ed25519_cases())
    questions = [
        {"key": encoded(key), "message": encoded(message), "signature": encoded(signature)}
        for key, message, signature in cases
    ]
    ours = [test_ed25519.accepted(*case) for case in cases]
    assert ours.count(True) > 5
    assert answers(questions) == ours


# --- drand (2.5, 2.6) ----------------------------------------------------------------------------------------------------


def group_of(chain):
    return {64: Group.BN254_G1, 48: Group.BLS12_381_G1, 96: Group.BLS12_381_G2}[chain.scheme.signature_bytes]


def altered(chain, signature):
    """Signatures that are none, among them true ones under another encoding of which the pairing knows nothing."""
    group = group_of(chain)
    yield from malformed(group, signature).values()
    yield bytes([signature[0] ^ 0x20]) + signature[1:]
    yield signature[:-1] + bytes([signature[-1] ^ 1])
    if group is not Group.BN254_G1:
        point = reference.decode_point(group, signature)
        library = builder_library(group)
        yield reference.encode_point(group, library.add(point, torsion(group)))
        yield reference.encode_point(group, library.neg(point))


def builder_library(group):
    from py_ecc import optimized_bls12_381  # noqa: PLC0415

    assert group in (Group.BLS12_381_G1, Group.BLS12_381_G2)
    return optimized_bls12_381


def round_cases():
    for name in ("quicknet", "fastnet", "evmnet", "default", "testnet-unchained-3s"):
        chain = PINNED[name]
        record = next(r for r in RECORDS if r["chain_hash"] == chain.hash.hex() and r["round"] > 1)
        signature = bytes.fromhex(record["signature"])
        stated = record.get("previous_signature")
        previous = None if stated is None else bytes.fromhex(stated)
        for other in (signature, *altered(chain, signature)):
            yield name, Round(record["round"], other, previous)
        for number in (0, 1, record["round"] + 1):
            yield name, Round(number, signature, previous)
        for other in (None, b"", bytes(96), chain.genesis_seed, signature):
            if other != previous:
                yield name, Round(record["round"], signature, other)


def broken_rule(name, stated):
    try:
        verify_round(PINNED[name], stated, best_backend())
    except VerifierError as error:
        return "2.6" if error.code is Code.POINT else "2.5"
    return None


def test_rounds_of_every_scheme():
    cases = list(round_cases())
    questions = [
        {
            "chain": name, "round": stated.round, "signature": encoded(stated.signature),
            "previous": None if stated.previous_signature is None else encoded(stated.previous_signature),
        }
        for name, stated in cases
    ]  # fmt: skip
    ours = [broken_rule(*case) for case in cases]
    assert ours.count(None) == 5
    assert [answer.get("rule") for answer in answers(questions)] == ours


def test_chains_to_trust():
    info = json.loads(json.dumps(PINNED["fastnet"].as_dict())) | {"last_round": 17_750_800}
    documents = [encode_json(info)] + [encode_json(mutated) for _, _, mutated in mutations(info)]
    found = answers({"trust": {"chains": [document.decode()]}} for document in documents)
    assert found == [taken(parse_pinned_chain, json.loads(document)) for document in documents]
    assert found[0] is True


# --- policies and keys ---------------------------------------------------------------------------------------------------


def taken(parse, text):
    try:
        parse(text)
    except FormatError:
        return False
    return True


def policies():
    chance = random.Random(3)
    lines = NESTED.splitlines(keepends=True)
    yield NESTED
    for _ in range(600):
        changed = [*lines]
        for _ in range(chance.randrange(1, 3)):
            i = chance.randrange(len(changed))
            match chance.randrange(5):
                case 0:
                    changed[i : i + 1] = []
                case 1:
                    changed.insert(chance.randrange(len(changed)), changed[i])
                case 2:
                    words = changed[i].split()
                    words[chance.randrange(len(words))] = chance.choice(
                        ["none", "X1", "any", "0", "3", "02", "#", "quorum", "é"]
                    )
                    changed[i] = " ".join(words) + "\n"
                case 3:
                    at = chance.randrange(len(changed[i]))
                    changed[i] = changed[i][:at] + chance.choice("\t \n\r#+=A1\x0b\u00a0") + changed[i][at:]
                case _:
                    at = chance.randrange(len(changed[i]))
                    changed[i] = changed[i][:at] + changed[i][at + 1 :]
            if not changed:
                break
        yield "".join(changed)


def test_policies():
    texts = list(policies())
    found = answers({"trust": {"policy": text}} for text in texts)
    wrong = [text for text, answer in zip(texts, found, strict=True) if answer != taken(Policy.parse, text)]
    assert wrong == []
    assert 10 < found.count(True) < len(texts) - 100


def test_log_keys():
    chance, vkey = random.Random(4), str(builder.LOG_KEY.vkey)
    texts = [vkey, str(builder.WITNESSES["w1"].vkey), str(SigningKey(b"\1" * 32, "é/日本").vkey)]
    for _ in range(200):
        at = chance.randrange(len(vkey))
        texts.append(vkey[:at] + chance.choice("+=A1 \n/é") + vkey[at + chance.randrange(2) :])
    found = answers({"trust": {"logKeys": [text]}} for text in texts)
    assert found[:3] == [True, False, True]
    assert {text for text, answer in zip(texts, found, strict=True) if answer} == {texts[0], texts[2]}
