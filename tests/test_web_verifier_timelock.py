"""Two verifiers open the same timelocks and refuse the same: the Python and the TypeScript on the same bytes."""

import base64
import json
import random
from dataclasses import replace

import pytest

from tests import builder, web_verifier
from tests.bls_support import malformed, on_curve
from tests.builder import Story, data
from tests.test_custody import BOTH, LOCKS, NUMBER, SEED, opening, story
from tests.test_timelock import CARRYING, KEY, NETWORKS, NONCE, sealed, verified, with_stanza
from tests.web_verifier import Bulk, checked, differences, encoded, python
from verifier.age import Stanza, parse_age, seal_age
from verifier.bls import fast, reference
from verifier.errors import VerifierError
from verifier.fetch import pinned_chains
from verifier.timelock import open_timelock, parse_timelock

INFO = json.dumps(LOCKS.chain.as_dict())


def to_host(seed=SEED):
    return builder.match(custody="host", timelock=builder.sealed(seed, NUMBER, LOCKS.chain))


def changed(file):
    """What `file` makes of a good ciphertext, in the place of it."""
    good = base64.b64decode(builder.sealed(SEED, NUMBER, LOCKS.chain)["ciphertext"])
    return opening(story(ciphertext=base64.b64encode(file(good)).decode()))


DOCUMENTS = {
    "not yet": story,
    "opens": lambda: opening(story()),
    "opens, revealed": lambda: opening(story()).reveal(640),
    "opens, revealed by timelock": lambda: opening(story()).reveal(640, by="timelock"),
    "another seed": lambda: opening(story(seed=bytes(32))).reveal(640),
    "no seed": lambda: opening(story(seed=b"")),
    "a short seed": lambda: opening(story(seed=SEED[:31])),
    "the seed's hash": lambda: opening(story(seed=Story().links[0])),
    "live": lambda: opening(story(Story(links=8).links[8], live=True)),
    "live, an early link": lambda: opening(story(Story(links=8).links[3], live=True)),
    "another round": lambda: story(ciphertext=builder.sealed(SEED, NUMBER + 1, LOCKS.chain)["ciphertext"]),
    "another chain": lambda: story(ciphertext=builder.sealed(SEED, NUMBER)["ciphertext"]),
    "no ciphertext": lambda: story(ciphertext=""),
    "no base64": lambda: story(ciphertext="not base64"),
    "no age": lambda: story(ciphertext="YWdl"),
    "a false round": lambda: opening(story(), signed=1),
    "altered": lambda: changed(lambda good: good[:-1] + bytes([good[-1] ^ 1])),
    "cut off": lambda: changed(lambda good: good[:-1]),
    "a chain that carries none": lambda: story(
        chain=pinned_chains()["default"].hash.hex(), round=pinned_chains()["default"].first_at(builder.at(620))
    ),
    "on BN254": lambda: story(
        chain=pinned_chains()["evmnet"].hash.hex(), round=pinned_chains()["evmnet"].first_at(builder.at(620))
    ),
    "missed, not opened": lambda: to_host().void("missed-reveal", 1000),
    "missed, opens": lambda: opening(to_host()).void("missed-reveal", 1000),
    "missed, does not open": lambda: opening(to_host(bytes(32))).void("missed-reveal", 1000),
    "missed too soon": lambda: opening(to_host(), seconds=700).void("missed-reveal", 614),
    "given up after it opened": lambda: opening(to_host()).void("host", 640),
}
MAIN = ["default", "evmnet", "quicknet"]
TRUSTS = {
    "every chain": ([*MAIN, INFO], {"TRUSTED", "FAILED"}),
    "without the timelock's chain": (["quicknet"], {"UNKNOWN", "FAILED"}),
    "without the seal's chain": ([INFO], {"TRUSTED", "UNKNOWN", "FAILED"}),
}


@pytest.mark.parametrize("name", TRUSTS)
def test_both_say_the_same_of_custody(name):
    chains, states = TRUSTS[name]
    given = [LOCKS.chain if chain == INFO else pinned_chains()[chain] for chain in chains]
    trust = replace(BOTH, policy=None, chains={chain.hash: chain for chain in given})
    documents = {title: data(make().document()) for title, make in DOCUMENTS.items()}
    bulk = checked(documents.values(), {"logKeys": [web_verifier.VKEY], "chains": chains})
    said = set()
    for title, other, document in zip(documents, bulk.answers(), documents.values(), strict=True):
        mine = python(document, trust)
        assert list(differences(mine, other)) == [], title
        one, two = (
            next(claim for claim in verdict["claims"] if claim["claim"] == "custody") for verdict in (mine, other)
        )
        if one["state"] != "FAILED":
            assert one["text"].removesuffix(" (--chain)") == two["text"], title
        said.add(one["state"])
    assert said == states


def test_other_rounds_and_chains():
    seal = json.loads(opening(story()).document()["events"][0]["entry"])
    cases = [data(opening(story(), signed=2**53).document())]
    for name, value in [
        ("round", NUMBER - 1), ("round", 1), ("round", 2**53 - 1), ("chain", "00" * 32), ("chain", seal["chain"]),
        ("ciphertext", seal["timelock"]["ciphertext"][:-4]), ("ciphertext", "\u00e9"),
    ]:  # fmt: skip
        made = opening(story(**{name: value}), number=value if name == "round" else NUMBER)
        cases.append(data(made.document()))
    bulk = checked(cases, {"logKeys": [web_verifier.VKEY], "chains": ["quicknet", INFO]})
    trust = replace(BOTH, policy=None)
    found = [list(differences(python(case, trust), other)) for case, other in zip(cases, bulk.answers(), strict=True)]
    assert found == [[]] * len(cases)


# --- files ---------------------------------------------------------------------------------------------------------------


def files(name):
    """Files that are sealed to round 7, or nearly."""
    chance, good, chain = random.Random(name), sealed(name), NETWORKS[name].chain
    file, size = parse_age(good), chain.scheme.key_bytes
    yield from (sealed(name, bytes(count)) for count in (0, 1, 32, 65_535, 65_536, 65_537, 131_072))
    yield from (good, good + b"x", good[:-1], good + good, b"\n" + good, sealed(name, number=8), b"")
    for position in range(len(good)):
        flipped = good[position] ^ chance.choice([1, 0x20, 0x80])
        yield good[:position] + bytes([flipped]) + good[position + 1 :]
        yield good[:position]
    for position in range(len(good)):
        yield good[:position] + chance.choice([b"\n", b" ", b"=", b"A"]) + good[position:]
    body = file.stanza.body
    for point in [*malformed(chain.scheme.group.partner, body[:size]).values(), outside(chain)]:
        yield with_stanza(good, body=point + body[size:])
    for arguments in (
        ("tlock",), ("tlock", "7"), ("tlock", "07", "{}"), ("tlock", "+7", "{}"), ("tlock", "7", "{}", "x"),
        ("tlock", "0", "{}"), ("TLOCK", "7", "{}"), ("tlock", "9" * 20, "{}"), ("tlock", str(2**63 - 1), "{}"),
        ("tlock", "x" * 2000, "{}"), ("tlock", "7", "00" * 32),
    ):  # fmt: skip
        yield with_stanza(good, *(one.format(chain.hash.hex()) for one in arguments))
    for length in (0, 1, 47, 48, 49, 63, 64, 65, size + 31, size + 33):
        yield seal_age(Stanza(file.stanza.arguments, bytes(length)), KEY, NONCE, b"")
    yield good.replace(b"-> tlock", b"-> other x\n\n-> tlock", 1)
    yield good.replace(b"\n", b"\r\n", 4)


def outside(chain):
    group = chain.scheme.group.partner
    return reference.encode_point(group, on_curve(group, 5))


def opened(name, file):
    """The round and the plaintext as the Python has them, or None."""
    try:
        ciphertext = parse_timelock(file, NETWORKS[name].chain)
        return [str(ciphertext.round), encoded(open_timelock(replace(ciphertext, round=7), verified(name, 7), fast))]
    except VerifierError:
        return None


@pytest.mark.parametrize("name", CARRYING)
def test_both_open_the_same_files(name):
    given = list(files(name))
    signature, chain = encoded(verified(name, 7).signature), json.dumps(NETWORKS[name].chain.as_dict())
    bulk = Bulk({"timelock": encoded(file), "to": chain, "signature": signature} for file in given)
    ours = [opened(name, file) for file in given]
    assert [number for number, both in enumerate(zip(ours, bulk.answers(), strict=True)) if both[0] != both[1]] == []
    assert sum(answer is not None for answer in ours) == 8
