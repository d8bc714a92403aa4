"""What each released version left behind: both verifiers say of it what they said then, and the service goes on from it."""

import json
from contextlib import closing

import pytest

from beacon.log import reads
from beacon.store.schema import open_readonly
from tests.process_support import run
from tests.release_support import RELEASES
from tests.web_verifier import checked, differences, python
from tests.world_support import running
from verifier.errors import FormatError
from verifier.merkle import leaf_hash
from verifier.note import Checkpoint, Note, open_note
from verifier.policy import Policy
from verifier.receipts import Found, compare
from verifier.tlog_proof import TlogProof, verify
from verifier.transcript import parse_transcript


@pytest.fixture(params=RELEASES, ids=lambda release: release.folder.name)
def release(request):
    return request.param


def test_there_is_a_first_release():
    assert [release.folder.name for release in RELEASES][:1] == ["release-0.1.0"]
    assert len(RELEASES[0].transcripts) == 15


def said(verdict):
    outcomes = [{name: row[name] for name in ("recipe", "n", "outcome")} for row in verdict["session"]["outcomes"]]
    states = {claim["claim"]: claim["state"] for claim in verdict["claims"]}
    return {"exit": verdict["exit"], "claims": states, "outcomes": outcomes}


def test_every_transcript_is_judged_as_it_was(release):
    assert release.verdicts.keys() == release.transcripts.keys()
    for name, document in release.transcripts.items():
        assert said(python(document, release.trust)) == release.verdicts[name], name


def test_the_browser_verifier_judges_every_transcript_as_it_was(release):
    verdicts = checked(release.transcripts.values(), release.options).answers()
    for (name, document), verdict in zip(release.transcripts.items(), verdicts, strict=True):
        assert said(verdict) == release.verdicts[name], name
        assert list(differences(python(document, release.trust), verdict)) == []


def test_every_receipt_is_in_its_transcript_and_every_proof_verifies(release):
    policy = Policy.parse(f"log {release.log_key}\nquorum none\n")
    assert len(release.receipts) > 50
    for line in release.receipts:
        receipt = json.dumps(line["receipt"]).encode()
        answer = compare(receipt, release.transcripts[line["session"]], release.log_key)
        assert answer.found == Found.PRESENT, (line["session"], line["index"])
        assert answer.exit == 0
        proof = TlogProof.parse(line["tlog_proof"])
        (event,) = parse_transcript(receipt).events
        assert proof.extra == event.data
        assert verify(proof, leaf_hash(event.data), policy).size > line["index"]


def test_the_witnessed_checkpoint_satisfies_the_policy(release):
    policy = Policy.parse(release.policy)
    note = open_note((release.folder / "checkpoint").read_text(), {release.log_key, *policy.witnesses.values()})
    assert policy.satisfied(
        name for name, key in policy.witnesses.items() if key in {line.key for line in note.verified}
    )


def changed(document, **fields):
    """A transcript whose seal says something else."""
    whole = json.loads(document)
    seal = json.loads(whole["events"][0]["entry"])
    whole["events"][0]["entry"] = json.dumps(seal | fields, separators=(",", ":"), ensure_ascii=False)
    return json.dumps(whole).encode()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document: changed(document, v=2), "version 2"),
        (lambda document: document.replace(b"fair-beacon/transcript/v1", b"fair-beacon/transcript/v2"), "v1"),
    ],
    ids=["entries", "transcripts"],
)
def test_an_unknown_version_of_the_format_is_refused_clearly_by_both(release, change, message):
    document = change(release.transcripts["match-quicknet"])
    with pytest.raises(FormatError, match=message) as error:
        parse_transcript(document)
    (theirs,) = checked([document], release.options).answers()
    assert (theirs["exit"], theirs["code"]) == (3, error.value.code)
    assert message in theirs["message"]


def test_the_software_version_is_in_no_format(release):
    """A newer version that writes v 1 is read as any: nothing in an entry or a document says which software wrote it."""
    version = release.folder.name.removeprefix("release-")
    for document in release.transcripts.values():
        assert version.encode() not in document
        assert all(json.loads(event["entry"])["v"] == 1 for event in json.loads(document)["events"])


# --- going on from it ------------------------------------------------------------------------------------------------


def checkpoints(path):
    """Every checkpoint of a log file: size -> root, as its notes say."""
    with closing(open_readonly(path)) as db:
        rows = db.execute("SELECT size, note FROM checkpoints").fetchall()
    return {size: Checkpoint.parse(Note.parse(note).text).root for size, note in rows}


def entries_of(path):
    with closing(open_readonly(path)) as db:
        return [row[0] for row in db.execute("SELECT entry FROM entries ORDER BY i").fetchall()]


async def go_on(release, world):
    """End what was left open, play something new."""
    host = world.host("alice")
    anchored, live, sealed = (release.sessions[f"open-{name}"] for name in ("anchored", "live", "sealed"))
    await host.post(f"/v1/sessions/{anchored}/draws", {"recipe": "turn"})
    await host.post(f"/v1/sessions/{anchored}/reveal")
    await host.post(f"/v1/sessions/{live}/draws", {"recipe": "turn"})
    await world.reach(live, "drawing")
    await host.post(f"/v1/sessions/{live}/reveal")
    await host.post(f"/v1/sessions/{sealed}/contributions", {"participant": "black", "entropy": "99"})
    await world.leap_to((await world.view(sealed))["round_time"] + 500)
    await world.reach(sealed, "anchored")
    await host.post(f"/v1/sessions/{sealed}/reveal")
    new = await host.seal(participants=[], close_at=None, label="in the next version")
    await world.reach(new["session"], "anchored")
    await host.post(f"/v1/sessions/{new['session']}/draws", {"recipe": "turn"})
    await host.post(f"/v1/sessions/{new['session']}/reveal")
    hook = json.loads(await world.get("/v1/webhooks", headers=host.headers))["webhooks"]
    assert [one["url"] for one in hook] == ["http://127.0.0.1:1/hook"]
    return new["session"]


async def audit(world, *, trusted):
    """Exit code and findings of `verifier audit`, which goes on from the state in the folder."""
    data = world.folder / "data"
    code, output, errors = await run(
        "verifier", "audit", str(world.client.make_url("")).rstrip("/"), "--log-key", data / "log.vkey",
        "--chain", data / "chain-devnet.json", "--chain", "quicknet", "--policy", trusted,
        "--state", world.folder / "audit",
    )  # fmt: skip
    assert "audited" in output, output + errors
    return code, [line for line in output.splitlines() if line.startswith("FINDING")]


async def test_the_service_goes_on_and_the_log_stays_the_one_it_was(release, tmp_path):
    folder = release.copy(tmp_path / "world")
    log = folder / "data" / "log.db"
    before, entries = checkpoints(log), entries_of(log)
    policy = tmp_path / "policy"
    policy.write_text(release.policy)
    async with running(folder, release.clock()) as world:
        new = await go_on(release, world)
        documents = {name: await world.transcript(session) for name, session in release.sessions.items()}
        verdict = python(await world.transcript(new), release.trust)
        code, findings = await audit(world, trusted=policy)
    assert verdict["exit"] == 0, verdict
    assert entries_of(log)[: len(entries)] == entries
    with closing(open_readonly(log)) as db:
        assert {size: reads.root_at(db, size) for size in before} == before
    for line in release.receipts:
        receipt = json.dumps(line["receipt"]).encode()
        assert compare(receipt, documents[line["session"]], release.log_key).found == Found.PRESENT
    for name, document in documents.items():
        state = said(python(document, release.trust))
        if not name.startswith("open-"):
            assert (state["exit"], state["outcomes"]) == (
                release.verdicts[name]["exit"],
                release.verdicts[name]["outcomes"],
            )
    assert python(documents["open-anchored"], release.trust)["exit"] == 0
    assert python(documents["open-live"], release.trust)["exit"] == 0
    known = "the seed was never revealed"
    assert (code, [known in one for one in findings]) == (1, [True]), "only what was found before"
    code, output, errors = await run("beacon", "log", "check", "--dir", folder / "data")
    assert code == 0, output + errors
