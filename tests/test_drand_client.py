"""drand's own JavaScript client, as published and unmodified, takes the devnet's info and rounds, and refuses its lies.

It needs Node.js and npm. Where they are missing this says so and is skipped; in CI it fails instead.
"""

import asyncio
import hashlib
import json
import shutil
from pathlib import Path

import pytest

from beacon.clock import SystemClock
from beacon.rounds.devnet import Devnet
from beacon.rounds.network import Network
from tests import node_support
from tests.outside_tools import need_node
from verifier.drand import SCHEMES

SOURCE = Path(__file__).parent / "drand_client"
FILES = ("package.json", "package-lock.json", "check.mjs")
PERIOD = 2
LIES = ("other-signature", "wrong-round", "randomness", "twice", "html", "other-chain")


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A folder with drand-client installed, exactly as its lock file says."""
    need_node()
    folder = tmp_path_factory.mktemp("drand-client")
    for name in FILES:
        shutil.copy(SOURCE / name, folder / name)
    node_support.install(folder)
    return folder


async def answers(client, devnets):
    """What drand-client makes of each devnet."""
    asked = [
        {"url": devnet.url, "hash": devnet.chain.hash.hex(), "publicKey": devnet.chain.public_key.hex(), "round": 3}
        for devnet in devnets
    ]
    process = await asyncio.create_subprocess_exec(
        "node", "check.mjs", cwd=client,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(240):
        output, errors = await process.communicate(json.dumps(asked).encode())
    assert process.returncode == 0, errors.decode()
    return json.loads(output)


async def started(scheme):
    clock = SystemClock()
    genesis = clock.now() // 1000 - 10 * PERIOD
    devnet = Devnet(Network.fresh(PERIOD, genesis, scheme), clock)
    await devnet.start()
    return devnet


async def test_drand_client_takes_the_rounds_of_every_scheme(client):
    devnets = [await started(scheme) for scheme in SCHEMES]
    try:
        found = await answers(client, devnets)
        for devnet, answer in zip(devnets, found, strict=True):
            assert "refused" not in answer, (devnet.chain.scheme.name, answer)
            chain = devnet.chain
            assert answer["chains"] == [f"{devnet.url}/{chain.hash.hex()}"]
            assert answer["info"]["hash"] == chain.hash.hex()
            assert answer["info"]["schemeID"] == chain.scheme.name
            assert answer["info"]["metadata"] == {"beaconID": "devnet"}
            stated = await devnet.round(3)
            assert answer["asked"]["signature"] == stated.signature.hex()
            assert answer["asked"]["randomness"] == hashlib.sha256(stated.signature).hexdigest()
            assert answer["asked"].get("previous_signature") == (
                None if stated.previous_signature is None else stated.previous_signature.hex()
            )
            assert (answer["first"]["round"], answer["byTime"]) == (1, 3)
            assert 10 < answer["current"] <= answer["latest"] <= answer["next"]
            assert answer["next"] > answer["current"]
    finally:
        for devnet in devnets:
            await devnet.stop()


async def test_drand_client_refuses_what_a_devnet_says_when_it_lies(client):
    devnets = [await started("bls-unchained-g1-rfc9380") for _ in LIES]
    try:
        for devnet, lie in zip(devnets, LIES, strict=True):
            devnet.behaviour.apply({"lie": lie})
        found = await answers(client, devnets)
        # drand-client does not compute the chain hash, so it takes another genesis for granted. We do not.
        assert {lie for lie, answer in zip(LIES, found, strict=True) if "refused" not in answer} == {"other-chain"}
    finally:
        for devnet in devnets:
            await devnet.stop()
