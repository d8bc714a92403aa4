"""The log changes its key under the real service, with two witnesses and players who know one key or both."""

import json
import subprocess
import sys

import pytest

from beacon.client import Beacon, Dishonest
from tests.process_support import run
from tests.test_witnesses_processes import beacon, checkpoint, cosigned, relay, seal, size_of
from verifier.note import Note, VerifierKey

__all__ = ["beacon", "relay"]

SEALED = {"recipes": {"turn": {"kind": "dice", "count": 2, "sides": 6}}, "participants": [{"id": "white"}]}


async def done(*command):
    code, output, errors = await run("beacon", *command)
    assert code == 0, errors
    return output


async def exits(beacon, document, tmp_path, *keys):
    """What `verifier check` says of a document with these keys: exit code, the state of each claim."""
    path = tmp_path / "transcript.json"
    path.write_bytes(document)
    policy = tmp_path / "players.policy"
    lines = [f"witness {name} {key}\n" for name, key in beacon.keys.items()]
    policy.write_text("".join([*lines, "group any any east west\n", "quorum any\n"]))
    options = [item for key in keys for item in ("--log-key", key)]
    code, output, errors = await run(
        "verifier", "check", path, *options, "--policy", policy, "--chain", "quicknet", "--json"
    )
    assert output, errors
    return code, {claim["claim"]: claim["state"] for claim in json.loads(output)["claims"]}


def standalone(tmp_path, program, key):
    (tmp_path / "verify.py").write_bytes(program)
    command = [sys.executable, str(tmp_path / "verify.py"), "--log-key", str(key)]
    return subprocess.run(command, capture_output=True, timeout=120, check=False).returncode


async def play(host):
    """A match that is sealed, whose player contributes."""
    sealed = await host.post("/v1/sessions", SEALED | {"label": "spans"})
    path = f"/v1/sessions/{sealed['session']}"
    receipt = (await host.post(f"{path}/contributions", {"participant": "white", "entropy": "77"}))["receipt"]
    await host.reach(sealed["session"], "closed")
    return sealed, json.dumps(receipt).encode()


async def test_a_session_that_spans_two_changes(beacon, tmp_path):
    old = beacon.vkey
    receipts = {}
    async with beacon.witnesses() as running:
        async with beacon.serving() as host:
            session, receipts["before"] = await play(host)
            await cosigned(host, beacon.keys["west"])
            code, _, errors = await run("beacon", "keys", "rotate-log", "--dir", beacon.data)
            assert (code, "is the service running" in errors) == (2, True)
        new = json.loads(await done("keys", "rotate-log", "--dir", beacon.data, "--json"))["vkey"]

        await running["east"].kill()  # a witness that is down during all of the overlap's first half
        async with beacon.serving() as host:
            assert (await checkpoint(host, "vkey")).strip() == old
            listed = (await checkpoint(host, "vkeys")).splitlines()
            assert [line.split()[0] for line in listed] == [old, new]
            shown = await seal(host, 2)
            ids = {line.key_id for line in Note.parse(await checkpoint(host)).signatures}
            assert {VerifierKey.parse(key).key_id for key in (old, new)} <= ids
            await cosigned(host, beacon.keys["west"])  # it knows the old key only
            for keys in ((old,), (old, new), tuple(listed)):
                assert (await exits(beacon, await host.get(f"/v1/sessions/{shown}/transcript"), tmp_path, *keys))[1][
                    "log"
                ] == "PROVEN"
            async with beacon.witness("east"):
                await cosigned(host, beacon.keys["east"])

        for name in beacon.keys:
            await done("witness", "add-log", beacon.data / "log.vkey", "--dir", beacon.folder / name)
        await done("keys", "retire-log", "--dir", beacon.data)
        for name in beacon.keys:
            line = (beacon.data / "log.vkey").read_text().splitlines()[0]
            await done("witness", "drop-key", line, "--dir", beacon.folder / name)
        code, _, errors = await run("beacon", "witness", "drop-key", new, "--dir", beacon.folder / "west")
        assert (code, "beside another" in errors) == (2, True)

        async with beacon.serving() as host, beacon.witness("east"):
            path = f"/v1/sessions/{session['session']}"
            await host.reach(session["session"], "anchored")
            await host.post(f"{path}/draws", {"recipe": "turn"})
            receipts["after"] = json.dumps((await host.post(f"{path}/reveal"))["receipt"]).encode()
            for key in beacon.keys.values():
                await cosigned(host, key)
            assert {line.key_id for line in Note.parse(await checkpoint(host)).signatures} == {
                VerifierKey.parse(new).key_id, *(key.key_id for key in beacon.keys.values()),
            }  # fmt: skip
            assert size_of(await checkpoint(host, "witnessed")) == size_of(await checkpoint(host))
            document = await host.get(f"{path}/transcript?wait=20")
            listed = (await checkpoint(host, "vkeys")).splitlines()
            assert listed == (beacon.data / "log.vkey").read_text().splitlines()
            for page in ("/log", f"/s/{session['session']}"):
                assert old.rpartition("+")[2] in (await host.get(page)).decode().replace("&#43;", "+")
            proof = await host.get(f"{path}/receipts/{session['index']}/tlog-proof")
            alone = await host.get(f"{path}/verify.py")
            (tmp_path / "log.db").write_bytes(await host.get("/log/log.db"))
            audit = ("verifier", "audit", host.url, "--state", tmp_path / "audit", "--chain", "quicknet")
            assert (await run(*audit, *(item for key in listed for item in ("--log-key", key))))[0] == 0
            code, output, _ = await run(*audit[:3], "--state", tmp_path / "other", "--log-key", old)
            assert (code, "no signature of a key that was given" in output) == (1, True)

    keys = tmp_path / "log.vkey"
    keys.write_text("\n".join(listed))
    code, states = await exits(beacon, document, tmp_path, keys)
    assert (code, states["log"], states["witnessed"]) == (0, "PROVEN", "PROVEN")
    assert (await exits(beacon, document, tmp_path, new))[1]["log"] != "FAILED"
    assert (await exits(beacon, document, tmp_path, old))[0] == 1
    for name, receipt in receipts.items():
        path = tmp_path / f"{name}.json"
        path.write_bytes(receipt)
        code, output, errors = await run(
            "verifier", "receipt", path, "--transcript", tmp_path / "transcript.json", "--log-key", keys
        )
        assert code == 0, (name, output, errors)
    (tmp_path / "1.tlog-proof").write_bytes(proof)
    for key in (keys, new):
        assert (await run("verifier", "proof", tmp_path / "1.tlog-proof", "--log-key", key))[0] == 0
    assert standalone(tmp_path, alone, keys) in {0, 2}  # 2 where py-ecc is missing
    assert standalone(tmp_path, alone, old) == 1
    code, output, errors = await run(
        "verifier", "check-db", tmp_path / "log.db", "--log-key", keys, "--chain", "quicknet"
    )
    assert code == 0, (output, errors)
    await done("log", "check", "--dir", beacon.data)
    await done("log", "check", "--file", tmp_path / "log.db", "--log-key", keys)
    told = json.loads(await done("keys", "list", "--dir", beacon.data, "--json"))
    assert [(one["vkey"], one["signs"]) for one in told["log"]] == [(old, False), (new, True)]


@pytest.mark.parametrize("keys", ["old", "both"])
async def test_the_sdk_over_a_change(beacon, tmp_path, keys):
    async def sealed(log_key):
        async with Beacon(server.url, beacon.token, log_key=log_key, receipts=tmp_path / "receipts") as sdk:
            one = await sdk.seal(recipes=SEALED["recipes"], participants=[], close_at=None)
            return (await one.verify()).claims

    async with beacon.serving() as host:
        server = host
        await sealed(beacon.vkey)
    await done("keys", "rotate-log", "--dir", beacon.data)
    log_keys = (beacon.data / "log.vkey").read_text() if keys == "both" else beacon.vkey
    async with beacon.serving() as host:
        server = host
        await sealed(log_keys)
    await done("keys", "retire-log", "--dir", beacon.data)
    async with beacon.serving() as host:
        server = host
        if keys == "both":
            await sealed(log_keys)
            await sealed((beacon.data / "log.vkey").read_text())
        else:
            with pytest.raises(Dishonest, match="another log key"):
                await sealed(log_keys)
