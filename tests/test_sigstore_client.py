"""sigstore's JavaScript verifier, as published and unmodified, takes a served log's checkpoints and proofs, and no others.

It needs Node.js and npm. Where they are missing this says so and is skipped; in CI it fails instead.
"""

import asyncio
import base64
import json
import shutil
from pathlib import Path

import pytest

from tests import node_support
from tests.outside_tools import need_node
from tests.test_tlog_clients import beacon, flipped, other_root, seal, signed_by_another
from verifier.merkle import leaf_hash
from verifier.note import SigningKey
from verifier.tlog_proof import TlogProof

__all__ = ["beacon"]

SOURCE = Path(__file__).parent / "sigstore_client"
FILES = ("package.json", "package-lock.json", "check.mjs")
SEALS = 300


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A folder with @sigstore/verify installed, exactly as its lock file says."""
    need_node()
    folder = tmp_path_factory.mktemp("sigstore")
    for name in FILES:
        shutil.copy(SOURCE / name, folder / name)
    node_support.install(folder)
    return folder


async def refusals(client, vkey, entries):
    """Why the client does not take each of the entries; None where it does."""
    process = await asyncio.create_subprocess_exec(
        need_node(), "check.mjs", cwd=client,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(240):
        output, errors = await process.communicate(json.dumps({"vkey": vkey, "entries": entries}).encode())
    assert process.returncode == 0, errors.decode()
    return json.loads(output)


def of_document(document):
    """A receipt's or a transcript's events, each as an entry to verify."""
    return [
        {
            "checkpoint": document["checkpoint"],
            "index": event["index"],
            "hashes": event["proof"],
            "entry": event["entry"],
        }
        for event in document["events"]
    ]


def of_proof(text):
    """The entry of a C2SP tlog-proof."""
    proof = TlogProof.parse(text.decode())
    hashes = [base64.b64encode(one).decode() for one in proof.hashes]
    return {"checkpoint": proof.checkpoint, "index": proof.index, "hashes": hashes, "entry": proof.extra.decode()}


async def served(host):
    """What a service hands out of some sessions: the seals' receipts, a transcript, a tlog-proof."""
    found = []
    for count in (1, 2, 5, SEALS):
        receipt = await seal(host, count)
        found += of_document(receipt)
    (event,) = receipt["events"]
    index, session = event["index"], leaf_hash(event["entry"].encode()).hex()
    found += of_document(json.loads(await host.get(f"/v1/sessions/{session}/transcript")))
    found.append(of_proof(await host.get(f"/v1/sessions/{session}/receipts/{index}/tlog-proof")))
    return found


async def test_sigstore_takes_checkpoints_and_proofs_of_a_served_log(client, beacon):
    async with beacon.serving() as host:
        entries = await served(host)
    assert len({entry["index"] for entry in entries}) >= 4
    assert await refusals(client, beacon.vkey, entries) == [None] * len(entries)


LIES = {
    "the entry": lambda e: e | {"entry": e["entry"].replace('"custody":"beacon"', '"custody":"bacon!"')},
    "the index": lambda e: e | {"index": e["index"] ^ 1},
    "beyond the tree": lambda e: e | {"index": e["index"] + 10_000},
    "a hash": lambda e: e | {"hashes": [base64.b64encode(bytes(32)).decode(), *e["hashes"][1:]]},
    "a hash too few": lambda e: e | {"hashes": e["hashes"][:-1]},
    "a hash too many": lambda e: e | {"hashes": [*e["hashes"], e["hashes"][0]]},
    "the root": lambda e: e | {"checkpoint": other_root(e["checkpoint"].encode()).decode()},
    "the size": lambda e: e | {"checkpoint": larger(e["checkpoint"])},
    "the origin": lambda e: e | {"checkpoint": e["checkpoint"].replace("beacon.example", "beacon.exampla", 1)},
    "the signature": lambda e: e | {"checkpoint": broken(e["checkpoint"])},
    "signed by another": lambda e: e | {"checkpoint": signed_by_another(e["checkpoint"].encode()).decode()},
    "no signature": lambda e: e | {"checkpoint": e["checkpoint"].split("\n\n")[0] + "\n\n"},
}


def larger(note):
    """The checkpoint of a tree with one more leaf, under the same signature."""
    origin, size, rest = note.split("\n", 2)
    return f"{origin}\n{int(size) + 1}\n{rest}"


def broken(note):
    """The signature with a byte of it changed."""
    text, line = note.rstrip("\n").rsplit(" ", 1)
    return f"{text} {base64.b64encode(flipped(base64.b64decode(line), 20)).decode()}\n"


async def test_sigstore_refuses_what_was_changed(client, beacon):
    async with beacon.serving() as host:
        (entry,) = of_document(await seal(host, SEALS))
    changed = [change(entry) for change in LIES.values()]
    assert all(one != entry for one in changed)
    honest, *found = await refusals(client, beacon.vkey, [entry, *changed])
    assert honest is None
    assert [lie for lie, why in zip(LIES, found, strict=True) if why is None] == []
    other = str(SigningKey(bytes(range(32)), beacon.vkey.split("+")[0]).vkey)
    assert await refusals(client, other, [entry]) == ["invalid checkpoint signature"]


def test_no_part_of_the_lock_file_names_a_registry():
    assert "resolved" not in (SOURCE / "package-lock.json").read_text(encoding="utf-8")
