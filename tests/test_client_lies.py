"""A service that lies to the SDK with the log's own key: each field of each receipt, of rounds, of events, of transcripts."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beacon.client import Dishonest
from beacon.client_checks import LogView, prefix_roots
from tests.round_support import QUICKNET, recorded
from tests.session_support import FIRST, ORIGIN, RECIPES
from tests.test_client import TURN, world
from tests.test_client_whole import LIVE, MATCH, ROUND, arrive, both_contribute
from verifier.encoding import encode_json
from verifier.merkle import leaf_hash, node_hash, prove_inclusion, tree_root
from verifier.note import Checkpoint, SigningKey
from verifier.transcript import SignedCheckpoint, parse_transcript

SIGNER = SigningKey(bytes(32), ORIGIN)
NEVER = "00" * 32


def signed(size, root):
    text = Checkpoint(ORIGIN, size, root).encode()
    return text + "\n" + SIGNER.sign(text)


def root_of(leaf, index, size, proof):
    """The root that an inclusion proof leads to (RFC 9162, 2.1.3.2)."""
    found, node, last = leaf, index, size - 1
    for sibling in proof:
        if node & 1 or node == last:
            found = node_hash(sibling, found)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        node, last = node >> 1, last >> 1
    return found


def again(receipt, change):
    """The receipt with its entry changed, in a tree of another root, under the log's own signature."""
    receipt = copy.deepcopy(receipt)
    event, parsed = receipt["events"][0], parse_transcript(encode_json(receipt))
    entry = json.loads(event["entry"])
    change(entry)
    event["entry"] = encode_json(entry).decode()
    index, size, proof = event["index"], parsed.signed.checkpoint.size, parsed.events[0].proof
    receipt["checkpoint"] = signed(size, root_of(leaf_hash(event["entry"].encode()), index, size, proof))
    return receipt


def lying(kind, change):
    """What becomes of an answer whose receipts of one kind are changed, its other fields being made to agree."""

    def lie(answer):
        answer = copy.deepcopy(answer)
        places = [(answer, name) for name in ("receipt", "close_receipt") if name in answer]
        places += [(answer["receipts"], place) for place in range(len(answer.get("receipts", [])))]
        for holder, name in places:
            if json.loads(holder[name]["events"][0]["entry"])["type"] != kind:
                continue
            holder[name] = again(holder[name], change)
            text = holder[name]["events"][0]["entry"]
            entry = json.loads(text)
            if kind == "seal":
                answer["session"] = leaf_hash(text.encode()).hex()
            elif kind == "draw":
                answer |= {"outcomes": entry["outcomes"], "n": entry["n"]}
            elif kind == "call":
                answer["call"] = {field: entry[field] for field in ("draw", "recipe", "n", "round")}
        return answer

    return lie


def put(**fields):
    return lambda entry: entry.update(fields)


def more(field, by=1):
    return lambda entry: entry.update({field: entry[field] + by})


SEALED = {
    "recipes": RECIPES,
    "profile": "live",
    "links": 8,
    "lead": 2_000,
    "label": "table 4",
    "participants": [{"id": "white"}, {"id": "black"}],
    "min_contributions": 1,
    "close_at": QUICKNET.time(FIRST + 9),
    "reveal_by": QUICKNET.time(FIRST + 9) + 86_400_000,
    "chain": QUICKNET.hash.hex(),
    "attachments": [{"name": "rules", "sha256": "11" * 32}],
}
SEAL_LIES = {
    "v": put(v=2),
    "type": put(type="sealed"),
    "time": put(time=0),
    "log": put(log="beacon.example/other"),
    "host": put(host="bob"),
    "host_seq": put(host_seq=1),
    "label": put(label="table 5"),
    "replaces": put(replaces=NEVER),
    "profile": put(profile="match"),
    "custody": put(custody="host"),
    "links": more("links"),
    "chain": put(chain=NEVER),
    "lead": more("lead"),
    "close_at": more("close_at"),
    "no close_at": put(close_at=None),
    "reveal_by": more("reveal_by"),
    "participants": put(participants=[{"id": "white"}]),
    "order of participants": put(participants=[{"id": "black"}, {"id": "white"}]),
    "open": put(open=True),
    "min_contributions": more("min_contributions"),
    "recipes": lambda entry: entry["recipes"]["turn"].update(sides=5),
    "one more recipe": lambda entry: entry["recipes"].update(spare={"kind": "bytes", "count": 1}),
    "plan": put(plan={"turn": 1}),
    "attachments": put(attachments=[]),
    "after": lambda entry: entry["after"].update(round=entry["after"]["round"] - 1),
    "signature of after": lambda entry: entry["after"].update(signature=recorded(QUICKNET, FIRST + 1).signature.hex()),
    "sandbox": put(sandbox=True),
    "commitment": put(commitment="11" * 31),
}


@pytest.mark.parametrize("lie", SEAL_LIES)
async def test_lies_in_a_seal(tmp_path, monkeypatch, lie):
    async with world(tmp_path, monkeypatch, host="alice", sandbox=False) as (_, between, beacon):
        await beacon.seal(**SEALED)
        between.alter = lying("seal", SEAL_LIES[lie])
        with pytest.raises(Dishonest) as caught:
            await beacon.seal(**SEALED)
        assert caught.value.document is not None


@pytest.mark.parametrize("lie", [more("round"), put(plan=None), put(plan={"turn": 3})])
async def test_lies_in_the_seal_of_a_raffle(tmp_path, monkeypatch, lie):
    async with world(tmp_path, monkeypatch) as (_, between, beacon):
        between.alter = lying("seal", lie)
        for asked in ({"round": ROUND}, {"round_at": QUICKNET.time(ROUND) - 1}):
            with pytest.raises(Dishonest):
                await beacon.seal(recipes=TURN, close_at=None, plan={"turn": 2}, **asked)


COMMON = {"v": put(v=2), "type": put(type="round"), "time": put(time=0), "session": put(session=NEVER)}
CONTRIBUTION_LIES = COMMON | {
    "participant": put(participant="white"),
    "entropy": put(entropy="00"),
    "signature": put(signature="00" * 64),
}
CLOSE_LIES = COMMON | {
    "contributions": more("contributions"),
    "fewer": more("contributions", -1),
    "digest": put(digest=NEVER),
}


@pytest.mark.parametrize(
    ("kind", "lie"),
    [*(("contribution", lie) for lie in CONTRIBUTION_LIES.values()), *(("close", lie) for lie in CLOSE_LIES.values())],
)
async def test_lies_about_contributions(tmp_path, monkeypatch, kind, lie):
    async with world(tmp_path, monkeypatch) as (_, between, beacon):
        session = await beacon.seal(**MATCH)
        await session.contribute("white", b"\x01")
        between.alter = lying(kind, lie)
        with pytest.raises(Dishonest):
            await session.contribute("black", b"\x02")


CALL_LIES = COMMON | {
    "draw again": more("draw", -1),
    "beyond the links": more("draw", 9),
    "recipe": put(recipe="opening"),
    "unknown recipe": put(recipe="unsealed"),
    "n": more("n"),
    "purpose": put(purpose="black 7"),
    "round": more("round"),
    "earlier round": more("round", -1),
    "contributions": put(contributions=[]),
    "entropy": lambda entry: entry["contributions"][0].update(entropy="00"),
    "signature": lambda entry: entry["contributions"][0].update(signature="00" * 64),
}


@pytest.mark.parametrize("lie", CALL_LIES)
async def test_lies_in_a_call(tmp_path, monkeypatch, lie):
    async with world(tmp_path, monkeypatch) as (_, between, beacon):
        session = await beacon.seal(**LIVE | {"open": True, "close_at": None})
        await session.call("turn")
        between.alter = lying("call", CALL_LIES[lie])
        with pytest.raises(Dishonest):
            await session.call("turn", purpose="white 7", contributions=[{"participant": "white", "entropy": "01"}])


DRAW_LIES = COMMON | {
    "recipe": put(recipe="opening"),
    "n": more("n"),
    "purpose": put(purpose="black 7"),
    "outcomes": lambda entry: entry["outcomes"][0].__setitem__(0, entry["outcomes"][0][0] % 6 + 1),
    "shape": lambda entry: entry["outcomes"][0].append(1),
    "draw": more("draw"),
    "seed": put(seed=NEVER),
}


@pytest.mark.parametrize("recipe", ["turn", "deck"])
@pytest.mark.parametrize("lie", DRAW_LIES)
async def test_lies_in_a_live_draw(tmp_path, monkeypatch, lie, recipe):
    async with world(tmp_path, monkeypatch) as (made, between, beacon):
        session = await beacon.seal(**LIVE)
        call = await session.call(recipe, purpose="white 7")
        await arrive(made, call.entry.round)
        between.alter = lying("draw", DRAW_LIES[lie])
        with pytest.raises(Dishonest):
            await call.drawn()


MATCH_DRAW_LIES = COMMON | {
    "recipe": put(recipe="opening"),
    "n again": more("n", -1),
    "purpose": put(purpose="black 7"),
    "fewer": lambda entry: entry["outcomes"].pop(),
    "shape": lambda entry: entry["outcomes"][0].append(1),
    "draw": put(draw=1, seed=NEVER),
}
END_LIES = COMMON | {
    "seed": put(seed=NEVER),
    "no seed": put(seed=None),
    "draws": lambda entry: entry["draws"].update(turn=2),
}


@pytest.mark.parametrize("lie", MATCH_DRAW_LIES)
async def test_lies_in_a_draw_of_a_match(tmp_path, monkeypatch, lie):
    async with world(tmp_path, monkeypatch) as (made, between, beacon):
        session = await beacon.seal(**MATCH | {"participants": []})
        await arrive(made, ROUND)
        await session.roll("turn")
        between.alter = lying("draw", MATCH_DRAW_LIES[lie])
        with pytest.raises(Dishonest):
            await session.roll("turn", purpose="white 7", count=2)


@pytest.mark.parametrize("lie", [DRAW_LIES["outcomes"], more("n")])
async def test_what_only_the_seed_and_other_draws_show_is_found_by_verify(tmp_path, monkeypatch, lie):
    async with world(tmp_path, monkeypatch) as (made, between, beacon):
        session = await beacon.seal(**MATCH | {"participants": []})
        await arrive(made, ROUND)
        between.alter = lying("draw", lie)
        await session.roll("turn")
        between.alter = None
        with pytest.raises(Dishonest):
            await session.verify()


async def test_a_call_whose_number_leaves_one_out_is_found_with_its_draw(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch) as (_, between, beacon):
        session = await beacon.seal(**LIVE)
        between.alter = lying("call", more("draw"))
        call = await session.call("turn")
        between.alter = None
        with pytest.raises(Dishonest):
            await call.drawn()


@pytest.mark.parametrize("lie", END_LIES)
async def test_lies_in_a_reveal(tmp_path, monkeypatch, lie):
    async with world(tmp_path, monkeypatch) as (made, between, beacon):
        session = await beacon.seal(**MATCH | {"participants": []})
        await arrive(made, ROUND)
        await session.roll("turn", count=3)
        between.alter = lying("reveal", END_LIES[lie])
        with pytest.raises(Dishonest):
            await session.reveal()


@pytest.mark.parametrize("lie", [*COMMON.values(), put(reason="no-round"), put(seed=NEVER)])
async def test_lies_in_a_void(tmp_path, monkeypatch, lie):
    async with world(tmp_path, monkeypatch) as (_, between, beacon):
        session = await beacon.seal(**MATCH)
        between.alter = lying("void", lie)
        with pytest.raises(Dishonest):
            await session.void()


DOCUMENT_LIES = {
    "format": lambda receipt: receipt.update(format="fair-beacon/transcript/v2"),
    "origin": lambda receipt: receipt.update(origin="beacon.example/other"),
    "log_key": lambda receipt: receipt.update(log_key=str(SigningKey(b"\x01" * 32, ORIGIN).vkey)),
    **{
        f"chain {name}": lambda receipt, name=name, value=value: receipt["chain"].update({name: value})
        for name, value in (
            ("hash", NEVER),
            ("public_key", "00" * 96),
            ("period", 30),
            ("genesis_time", 1),
            ("genesis_seed", NEVER),
            ("scheme", "bls-unchained-on-g1"),
            ("beacon_id", "default"),
        )
    },
    "index": lambda receipt: receipt["events"][0].update(index=receipt["events"][0]["index"] - 1),
    "entry": lambda receipt: receipt["events"][0].update(
        entry=receipt["events"][0]["entry"].replace('"turn"', '"tuRn"', 1)
    ),
    "proof": lambda receipt: receipt["events"][0].update(proof=[]),
    "one hash": lambda receipt: receipt["events"][0]["proof"].__setitem__(0, "A" * 43 + "="),
    "no event": lambda receipt: receipt.update(events=[]),
    "two events": lambda receipt: receipt["events"].append(receipt["events"][0]),
    "checkpoint": lambda receipt: receipt.update(checkpoint=signed(3, bytes(32))),
    "signature": lambda receipt: receipt.update(checkpoint=receipt["checkpoint"].split("\n\n")[0] + "\n\n"),
    "evidence": lambda receipt: receipt.update(
        evidence=[{"checkpoint": receipt["checkpoint"], "consistency": ["A" * 43 + "="], "proofs": {}}]
    ),
    "no chain": lambda receipt: receipt.pop("chain"),
    "one field more": lambda receipt: receipt.update(more=1),
}


@pytest.mark.parametrize("lie", DOCUMENT_LIES)
async def test_lies_in_the_document_of_a_receipt(tmp_path, monkeypatch, lie):
    def alter(answer):
        answer = copy.deepcopy(answer)
        DOCUMENT_LIES[lie](answer["receipt"])
        return answer

    async with world(tmp_path, monkeypatch) as (_, between, beacon):
        between.alter = alter
        with pytest.raises(Dishonest):
            await beacon.seal(**LIVE)


ANSWER_LIES = {
    "session": lambda answer: answer.update(session=NEVER),
    "outcomes": lambda answer: answer.update(outcomes=[[7, 7]]),
    "n": lambda answer: answer.update(n=answer["n"] + 1),
    "no receipts": lambda answer: answer.update(receipts=[]),
    "no list": lambda answer: answer.update(receipts=None),
    "no receipt of the draw": lambda answer: answer["receipts"].pop(),
    "the call's for the draw's": lambda answer: answer["receipts"].__setitem__(1, answer["receipts"][0]),
}


@pytest.mark.parametrize("lie", ANSWER_LIES)
async def test_lies_beside_the_receipts(tmp_path, monkeypatch, lie):
    def alter(answer):
        answer = copy.deepcopy(answer)
        if "outcomes" in answer:
            ANSWER_LIES[lie](answer)
        return answer

    async with world(tmp_path, monkeypatch) as (made, between, beacon):
        session = await beacon.seal(**LIVE)
        call = await session.call("turn")
        await arrive(made, call.entry.round)
        between.alter = alter
        with pytest.raises(Dishonest):
            await call.drawn()


@pytest.mark.parametrize(
    "said",
    [
        {"signature": recorded(QUICKNET, FIRST + 3).signature.hex()},
        {"signature": "00" * 48},
        {"signature": "Z"},
        {"signature": None},
        {"round": FIRST + 3},
        {"previous_signature": "00"},
    ],
)
async def test_lies_about_a_round(tmp_path, monkeypatch, said):
    async with world(tmp_path, monkeypatch) as (made, between, beacon):
        session = await beacon.seal(**LIVE)
        call = await session.call("turn")
        await arrive(made, call.entry.round)
        between.alter = lambda answer: answer | said if "randomness" in answer else answer
        with pytest.raises(Dishonest):
            await call.drawn()


async def test_a_transcript_without_what_there_is_a_receipt_of(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch) as (_, between, beacon):
        session = await beacon.seal(**MATCH)
        await session.contribute("white", b"\x01")
        between.alter = lambda answer: answer | {"events": answer["events"][:-1]}
        with pytest.raises(Dishonest, match="is not in the transcript"):
            await session.verify()


async def test_an_older_transcript_than_the_log_that_was_seen(tmp_path, monkeypatch):
    async with world(tmp_path, monkeypatch) as (_, between, beacon):
        session = await beacon.seal(**MATCH)
        old = json.loads(await session.transcript())
        await session.verify()
        await beacon.seal(**MATCH)
        between.alter = lambda answer: old
        with pytest.raises(Dishonest, match="gone back"):
            await session.verify()


async def test_a_log_that_went_back_between_two_runs(tmp_path, monkeypatch):
    kept = tmp_path / "kept"
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    async with world(tmp_path / "one", monkeypatch, receipts=kept) as (_, __, beacon):
        for _ in range(3):
            await beacon.seal(**MATCH)
    async with world(tmp_path / "two", monkeypatch, receipts=kept) as (_, __, beacon):
        with pytest.raises(Dishonest, match="no answer to a new request"):
            await beacon.seal(**MATCH)
    (kept / "checkpoint").write_text("beacon.example/test\n1\n")
    with pytest.raises(Dishonest, match="not signed"):
        async with world(tmp_path / "two", monkeypatch, receipts=kept):
            pass


EVENT_LIES = {
    "index": lambda data: data.update(index=data["index"] + 1),
    "type": lambda data: data.update(type="void"),
    "entry": lambda data: data.update(entry=data["entry"].replace('"time":1', '"time":2')),
    "no entry": lambda data: data.pop("entry"),
}


@pytest.mark.parametrize("lie", EVENT_LIES)
@pytest.mark.parametrize("kind", ["seal", "contribution", "close", "round", "draw", "reveal"])
async def test_lies_in_events(tmp_path, monkeypatch, kind, lie):
    async with world(tmp_path, monkeypatch) as (made, _, beacon):
        session = await beacon.seal(**MATCH)
        await both_contribute(session)
        await arrive(made, ROUND)
        await session.roll("turn")
        await session.reveal()
        transport, watched = beacon._connection.transport, await beacon.session(session.id)
        stream = transport._stream

        async def lying_stream(path, after):
            async for name, data in stream(path, after):
                if name == kind:
                    EVENT_LIES[lie](data)
                yield name, data

        transport._stream = lying_stream
        with pytest.raises(Dishonest):
            async for _ in watched.events():
                pass


async def test_a_round_entry_with_another_signature_than_the_chains(tmp_path, monkeypatch):
    other = recorded(QUICKNET, ROUND - 1).signature.hex()

    def alter(answer):
        if "events" not in answer or json.loads(answer["events"][0]["entry"])["type"] != "round":
            return answer
        return again(answer, put(signature=other))

    async with world(tmp_path, monkeypatch) as (made, between, beacon):
        session = await beacon.seal(**MATCH | {"participants": []})
        await arrive(made, ROUND)
        await session.reveal()
        beacon._connection.log._roots.clear()
        between.alter = alter
        with pytest.raises(Dishonest, match="another signature"):
            async for _ in session.events():
                pass


@given(st.data())
def test_a_proof_implies_the_roots_of_the_trees_before_and_behind_its_leaf(data):
    size = data.draw(st.integers(1, 80))
    index = data.draw(st.integers(0, size - 1))
    leaves = [leaf_hash(number.to_bytes(2, "big")) for number in range(size)]
    implied = prefix_roots(leaves[index], index, size, prove_inclusion(leaves, index))
    due = {index: tree_root(leaves[:index]), index + 1: tree_root(leaves[: index + 1])}
    assert implied == {length: root for length, root in due.items() if length}


@given(st.integers(2, 60), st.data())
def test_two_histories_are_noticed_where_their_receipts_meet(size, data):
    """Another entry anywhere before is found by the receipt of the entry that follows the tree that was seen."""
    changed = data.draw(st.integers(0, size - 1))
    leaves = [leaf_hash(number.to_bytes(2, "big")) for number in range(size + 1)]
    others = [*leaves[:changed], leaf_hash(b"another"), *leaves[changed + 1 :]]
    view = LogView(SIGNER.vkey)
    view.admit(SignedCheckpoint.parse(signed(size, tree_root(leaves[:size]))), 0, {}, b"")
    for tree, true in ((leaves, True), (others, False)):
        checkpoint = SignedCheckpoint.parse(signed(size + 1, tree_root(tree)))
        implied = prefix_roots(tree[size], size, size + 1, prove_inclusion(tree, size))
        if true:
            LogView(SIGNER.vkey).admit(checkpoint, 0, implied, b"")
        else:
            with pytest.raises(Dishonest, match="two histories"):
                view.admit(checkpoint, size, implied, b"")
