"""drand's own tlock-js, as published and unmodified, opens what we seal, and we open what it seals.

On networks of ours, so that their rounds can be signed here; nothing is asked of anybody. It needs Node.js and npm: where
they are missing this says so and is skipped; in CI it fails instead.
"""

import base64
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import node_support
from tests.outside_tools import need_node
from tests.test_timelock import BACKENDS, CARRYING, NETWORKS, sealed, verified
from tests.web_verifier import Bulk, encoded
from verifier.age import parse_age
from verifier.errors import FormatError
from verifier.timelock import open_timelock, parse_timelock

SOURCE = Path(__file__).parent / "tlock_client"
FILES = ("package.json", "package-lock.json", "check.mjs")
ROUND = 7
PLAINTEXTS = [b"", b"the seed", bytes(range(32)), bytes(65_536), b"x" * 70_000]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A folder with tlock-js installed, exactly as its lock file says."""
    need_node()
    folder = tmp_path_factory.mktemp("tlock-js")
    for name in FILES:
        shutil.copy(SOURCE / name, folder / name)
    node_support.install(folder)
    return folder


def altered(name):
    """Files that must not open: a byte changed in each part, and one that is sealed to another round."""
    good = sealed(name, bytes(range(32)), ROUND)
    body = parse_age(good).stanza.body
    for place in (1, len(body) - 20, len(body) - 1):
        changed = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
        yield good.replace(lines(body), lines(changed))
    payload = good.index(b"\n", good.index(b"--- ")) + 1
    for place in (payload - 3, payload, payload + 16, len(good) - 1):
        yield good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :]
    yield sealed(name, bytes(32), ROUND + 1)


def lines(body):
    text = base64.b64encode(body).rstrip(b"=")
    return b"\n".join(text[start : start + 64] for start in range(0, len(text), 64))


def asked(name):
    chain, signature = NETWORKS[name].chain, verified(name, ROUND).signature
    files = [sealed(name, plaintext, ROUND, backend) for plaintext in PLAINTEXTS for backend in BACKENDS]
    return {
        "info": {
            "public_key": chain.public_key.hex(), "period": chain.period, "genesis_time": chain.genesis_time,
            "hash": chain.hash.hex(), "groupHash": chain.genesis_seed.hex(), "schemeID": name,
            "metadata": {"beaconID": chain.beacon_id},
        },
        "beacon": {
            "round": ROUND, "signature": signature.hex(), "randomness": hashlib.sha256(signature).hexdigest(),
        },
        "seal": [encoded(plaintext) for plaintext in PLAINTEXTS],
        "open": [encoded(file) for file in [*files, *altered(name)]],
    }  # fmt: skip


@pytest.fixture(scope="module")
def answers(client):
    """What tlock-js makes of each network's files."""
    given = json.dumps([asked(name) for name in CARRYING])
    command = [need_node(), "check.mjs"]
    done = subprocess.run(command, cwd=client, input=given, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return dict(zip(CARRYING, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("name", CARRYING)
def test_tlock_js_opens_what_we_seal_and_nothing_that_was_altered(answers, name):
    twice = [encoded(plaintext) for plaintext in PLAINTEXTS for _ in BACKENDS]
    assert answers[name]["opened"] == [*twice, *[None] * len(list(altered(name)))]


@pytest.mark.parametrize("name", CARRYING)
def test_we_open_what_tlock_js_seals(answers, name):
    files, by = [base64.b64decode(file) for file in answers[name]["sealed"]], verified(name, ROUND)
    assert len(set(files)) == len(PLAINTEXTS)
    without_chunk, *whole = files
    for backend in BACKENDS:
        opened = [open_timelock(parse_timelock(file, by.chain), by, backend) for file in whole]
        assert opened == PLAINTEXTS[1:]
    # of nothing it makes a file without the one empty chunk that age asks for
    with pytest.raises(FormatError, match="cut off"):
        parse_timelock(without_chunk, by.chain)
    chain, signature = json.dumps(by.chain.as_dict()), encoded(by.signature)
    bulk = Bulk({"timelock": encoded(file), "to": chain, "signature": signature} for file in files)
    assert bulk.answers() == [None, *([str(ROUND), encoded(plaintext)] for plaintext in PLAINTEXTS[1:])]


def test_no_part_of_the_lock_file_names_a_registry():
    assert "resolved" not in (SOURCE / "package-lock.json").read_text(encoding="utf-8")
