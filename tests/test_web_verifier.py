"""Two verifiers come to the same states (PROTOCOL.md, section 8): the Python and the TypeScript on the same documents."""

import base64
import json
import random
from dataclasses import replace

import pytest
from click.testing import CliRunner

from tests import builder, random_sessions, test_check_rules, test_custody, web_verifier
from tests.builder import VECTORS, Story, at, data, live, match, raffle
from tests.test_check_hostile import long_session, not_included, unsigned
from tests.test_check_mutations import entry_mutations, mutations, named, resigned
from tests.test_check_witnesses import POST_QUANTUM, WITH_POST_QUANTUM, post_quantum_line
from tests.web_verifier import Bulk, checked, differences, disagreements, encoded, node, python, python_receipt
from verifier import merkle
from verifier.check import MAX_FALSE_ROUNDS, Trust
from verifier.cli import main
from verifier.encoding import encode_json
from verifier.fetch import pinned_chains
from verifier.note import VerifierKey
from verifier.policy import Policy
from verifier.tlog_proof import TlogProof

SCENARIOS = [
    scenario
    for path in (VECTORS / "scenarios.json", VECTORS.parent / "scenarios" / "faults.json")
    for scenario in json.loads(path.read_text())["scenarios"]
]


# --- the two commands ----------------------------------------------------------------------------------------------------


def given(scenario, folder):
    """The arguments of `check` for a scenario."""
    trust = scenario["given"]
    text = scenario.get("document_text") or json.dumps(scenario["document"])
    (folder / "document.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    arguments = ["check", str(folder / "document.json"), "--json", "--chain", trust["chain"]]
    if trust["log_key"] is not None:
        arguments += ["--log-key", trust["log_key"]]
    if trust["policy"] is not None:
        (folder / "policy").write_text(trust["policy"])
        arguments += ["--policy", str(folder / "policy")]
    return arguments + ["--sandbox"] * trust["sandbox"]


def said_by_python(scenario):
    trust = scenario["given"]
    text = scenario.get("document_text") or json.dumps(scenario["document"])
    chain = pinned_chains()[trust["chain"]]
    return python(
        text.encode("utf-8", "surrogatepass"),
        Trust(
            log_key=VerifierKey.parse(trust["log_key"]) if trust["log_key"] else None,
            chains={chain.hash: chain},
            policy=Policy.parse(trust["policy"]) if trust["policy"] else None,
            sandbox=trust["sandbox"],
        ),
    )


def question(scenario):
    trust = scenario["given"]
    text = scenario.get("document_text") or json.dumps(scenario["document"])
    options = {
        "logKeys": [trust["log_key"]] if trust["log_key"] else [],
        "chains": [trust["chain"]],
        "sandbox": trust["sandbox"],
    }
    options |= {"policy": trust["policy"]} if trust["policy"] else {}
    return {"document": encoded(text.encode("utf-8", "surrogatepass")), "options": options}


def test_both_say_the_same_of_every_scenario():
    bulk = Bulk(map(question, SCENARIOS))
    ours = [said_by_python(scenario) for scenario in SCENARIOS]
    theirs = bulk.answers()
    assert [verdict["exit"] for verdict in theirs] == [scenario["expect"]["exit"] for scenario in SCENARIOS]
    assert [list(differences(*both)) for both in zip(ours, theirs, strict=True)] == [[]] * len(SCENARIOS)


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_the_two_commands_end_alike(code, tmp_path):
    scenario = next(scenario for scenario in SCENARIOS if scenario["expect"]["exit"] == code)
    arguments = given(scenario, tmp_path)
    ours, theirs = CliRunner().invoke(main, arguments), node(*arguments)
    assert ours.exit_code == theirs.returncode == code
    if code != 3:
        assert list(differences(json.loads(ours.stdout), json.loads(theirs.stdout))) == []
        assert json.loads(ours.stdout).keys() <= json.loads(theirs.stdout).keys()


def test_the_command_reads_its_input_and_names_what_is_unusable(tmp_path):
    (tmp_path / "rules").write_bytes(b"rules")
    sealed = [{"name": "rules", "sha256": builder.hashlib.sha256(b"rules").hexdigest()}]
    document = data(match(attachments=sealed).reveal(135).document())
    arguments = ("check", "-", "--log-key", web_verifier.VKEY)
    done = node(*arguments, "--attachment", f"rules={tmp_path / 'rules'}", "--json", data=document)
    claims = {claim["claim"]: claim["state"] for claim in json.loads(done.stdout)["claims"]}
    assert (done.returncode, claims["attachments"]) == (0, "PROVEN")
    assert node(*arguments, data=document).stdout.decode().splitlines()[0].startswith("Fair if ")
    assert node(*arguments, "--require", "proven", data=document).returncode == 2
    for wrong in (
        (),
        ("check",),
        ("check", tmp_path / "none"),
        ("check", "-", "--require", "x"),
        ("check", "-", "--bad"),
    ):
        assert node(*wrong, data=document).returncode == 3
    refused = node(*arguments, data=b"{}")
    assert (refused.returncode, refused.stdout) == (3, b"")
    assert refused.stderr.startswith(b"unusable input: document: ")


# --- every rule, and every change to a good session ----------------------------------------------------------------------


def test_every_rule():
    made = test_check_rules.RULES | test_check_rules.ALLOWED
    stories = {name: make() for name, (make, _) in made.items()}
    documents = {name: story if isinstance(story, dict) else story.document() for name, story in stories.items()}
    assert disagreements({name: data(document) for name, document in documents.items()}) == {}


RECIPES = {
    "turn": builder.TURN, "hand": builder.HAND, "w": {"kind": "weighted", "weights": [1, 0, 2], "count": 2},
    "b": {"kind": "bytes", "count": 3}, "i": {"kind": "integers", "min": -5, "max": 70_000, "count": 2},
    "k": builder.TURN | {"mapping": "keccak"}, "s": {"kind": "shuffle", "size": 5}, "p": {"kind": "sample", "size": 9, "count": 2},
}  # fmt: skip


def every_recipe():
    story = test_check_rules.closed(
        recipes=RECIPES,
        attachments=[{"name": "rules", "sha256": "ab" * 32}],
        timelock=test_check_rules.timelock(at(620)),
        min_contributions=1,
    ).round(1005, 15.9)
    for name in RECIPES:
        story.draw(name, 16)
    return story.draw("hand", 17).reveal(20)


GOOD = {
    "match": lambda: match().reveal(135),
    "live": lambda: live().reveal(20),
    "host": lambda: match(custody="host").reveal(135, by="host"),
    "open": test_check_rules.closed,
    "open calls": lambda: test_check_rules.called().round(1002, 6.8).answer(1, 6.9).call("turn", 7.5),
    "void": lambda: test_check_rules.sealed().void("host", 14.9),
    "void for want of a round": lambda: (
        test_check_rules.called().round(1002, 6.8).answer(1, 6.9).call("turn", 7.5).void("no-round", 615)
    ),
    "never revealed": lambda: test_check_rules.closed(custody="host").round(1005, 15.9).void("missed-reveal", 615.9),
    "below the minimum": lambda: Story().seal(min_contributions=1).void("below-minimum", 9.001),
    "signed": lambda: (
        test_check_rules.signed().contribute("black", 6.51).close(6.6).round(1005, 15.9).draw("turn", 16).reveal(20)
    ),
    "signed calls": lambda: test_check_rules.live_signed().reveal(20),
    "sandbox": lambda: raffle(sandbox=True, replaces="ab" * 32).reveal(20),
    "chained": test_check_rules.chained,
    "every recipe": every_recipe,
}


def witnessed(story):
    """With evidence: a smaller checkpoint that a quorum saw early, a later one that one witness saw too early."""
    anchor = story.shown[len(story.shown) // 3]
    early = story.evidence(anchor + 1, {"w1": 7, "w2": 7}, anchor)
    later = story.evidence(len(story.leaves) - 1, {"w3": 8}, story.shown[0])
    return story.document(evidence=[early, later], seen={"w1": 200, "w2": 200})


def reordered(story):
    """The log with a leaf left out, doubled or moved, from the seal on."""
    leaves, first = story.leaves, story.shown[0]
    for i in range(first, len(leaves)):
        yield f"without leaf {i}", [*leaves[:i], *leaves[i + 1 :]]
        yield f"leaf {i} twice", [*leaves[: i + 1], leaves[i], *leaves[i + 1 :]]
        yield f"leaf {i} later", [*leaves[:i], *leaves[i + 1 : i + 2], leaves[i], *leaves[i + 2 :]]


def changes_of(story):
    document = witnessed(story)
    yield "as it is", data(document)
    for path, what, mutated in mutations(document):
        yield named(path, what), encode_json(mutated)
    for index in story.shown:
        for path, what, mutated in entry_mutations(json.loads(story.leaves[index])):
            yield f"entry {index}, {named(path, what)}", data(resigned(story, index, mutated).document())
    for what, leaves in reordered(story):
        other = Story()
        other.leaves, other.shown = leaves, range(story.shown[0], len(leaves))
        yield what, data(other.document())
    for index in story.shown[1:]:
        yield f"{index} not shown", data(story.document([shown for shown in story.shown if shown != index]))
        yield f"up to {index}", data(story.document([shown for shown in story.shown if shown < index]))


@pytest.mark.parametrize("name", GOOD)
def test_every_single_change(name):
    cases = dict(changes_of(GOOD[name]()))
    assert len(cases) > 250
    assert disagreements(cases) == {}


def damaged(text, chance):
    """A few bytes of it set, left out, or copied to elsewhere."""
    text = bytearray(text)
    for _ in range(chance.randrange(1, 4)):
        position = chance.randrange(len(text))
        match chance.randrange(4):
            case 0:
                text[position] = chance.randrange(256)
            case 1:
                del text[position : position + chance.randrange(1, 20)]
            case 2:
                text[position:position] = text[chance.randrange(len(text)) :][: chance.randrange(30)]
            case _:
                text[position] = ord(chance.choice('"\\,:{}[]0123456789abcdef \n-.eE+'))
    return bytes(text)


@pytest.mark.parametrize("name", ["match", "live", "signed calls", "sandbox"])
def test_damaged_bytes(name):
    chance = random.Random(name)
    story = GOOD[name]()
    document = data(witnessed(story))
    cases = {f"document {number}": damaged(document, chance) for number in range(150)}
    for number in range(350):
        index = chance.choice(story.shown)
        other = Story()
        other.leaves, other.shown = [*story.leaves], story.shown
        other.leaves[index] = damaged(story.leaves[index], chance)
        try:
            other.leaves[index].decode()
        except UnicodeDecodeError:
            continue
        cases[f"entry {number}"] = data(other.document())
    assert disagreements(cases, codes=False) == {}


def test_random_sessions():
    cases = {name: data(document) for name, document in random_sessions.documents(0, 500)}
    assert disagreements(cases) == {}


def four_rounds(**wrong):
    """A live session whose calls wait for the rounds 1002 to 1005; `wrong`: changes to one `round` entry, by number."""
    story = Story(links=8).seal(profile="live", close_at=None, participants=[])
    moments = [(3 * k - 1.2, "call", k) for k in range(1, 5)] + [(3 * k + 3.8, "round", k) for k in range(1, 5)]
    for seconds, what, k in sorted(moments):
        if what == "call":
            story.call("turn", seconds)
        else:
            story.round(1001 + k, seconds, **wrong.get(f"round_{1001 + k}", {})).answer(k, seconds)
    return story.reveal(20)


def test_rounds_that_are_verified_at_once():
    signatures = {
        number: builder.ROUNDS[builder.QUICKNET.hash.hex(), number]["signature"] for number in range(1002, 1006)
    }
    cases = {"true": data(four_rounds().document())}
    for number, signature in signatures.items():
        for name, other in (
            ("another's", signatures[1002 if number == 1005 else number + 1]),
            (
                "turned",
                signature[:1].translate({ord("8"): "a", ord("9"): "b", ord("a"): "8", ord("b"): "9"}) + signature[1:],
            ),
            ("short", signature[:-2]),
        ):
            cases[f"{number} {name}"] = data(four_rounds(**{f"round_{number}": {"signature": other}}).document())
    first, second = signatures[1002], signatures[1003]
    both = {"round_1002": {"signature": second}, "round_1003": {"signature": first}}
    cases["two exchanged"] = data(four_rounds(**both).document())
    assert disagreements(cases) == {}
    assert [answer["exit"] for answer in checked(cases.values()).answers()] == [0] + [1] * (len(cases) - 1)


@pytest.mark.parametrize("calls", [19, 20, 60])
def test_rounds_made_up_to_cost_time(calls):
    document = long_session(calls)
    cases = {"signed": document, "unsigned": unsigned(document), "not included": not_included(document)}
    assert disagreements({name: data(case) for name, case in cases.items()}) == {}
    verdict = checked([data(document)], {"logKeys": [web_verifier.VKEY]}).answers()[0]
    claim = next(claim for claim in verdict["claims"] if claim["claim"] == "round")
    assert len(claim["findings"]) == min(calls, MAX_FALSE_ROUNDS)
    assert claim["text"].endswith(f", and {calls - MAX_FALSE_ROUNDS} more not checked") == (calls > MAX_FALSE_ROUNDS)


# --- timelocks -----------------------------------------------------------------------------------------------------------

LOCKS = test_custody.LOCKS.chain


def locked(custody, **lock):
    sealed = builder.sealed(lock.pop("seed", test_custody.SEED), test_custody.NUMBER, LOCKS) | lock
    return match(custody=custody, timelock=sealed)


def timelocked():
    opening, seed = test_custody.opening, test_custody.SEED
    for name, secret in {
        "opens": seed,
        "another": bytes(32),
        "none": b"",
        "short": seed[:31],
        "long": seed + b"x",
    }.items():
        yield f"not yet: {name}", locked("host", seed=secret)
        yield f"shown: {name}", opening(locked("beacon", seed=secret)).reveal(640)
        yield f"a false round: {name}", opening(locked("beacon", seed=secret), signed=1)
        yield f"never revealed: {name}", opening(locked("host", seed=secret)).void("missed-reveal", 1000)
        yield f"never shown: {name}", locked("host", seed=secret).void("missed-reveal", 1000)
        yield (
            f"void before: {name}",
            opening(Story().seal(timelock=builder.sealed(secret, test_custody.NUMBER, LOCKS)).void("host", 7)),
        )
        yield f"live: {name}", opening(live(timelock=builder.sealed(secret, test_custody.NUMBER, LOCKS)))
    yield (
        "live, its last link",
        opening(live(timelock=builder.sealed(Story(links=8).links[8], test_custody.NUMBER, LOCKS))),
    )
    good = builder.sealed(seed, test_custody.NUMBER, LOCKS)["ciphertext"]
    others = ["", "YWdl", "not base64", builder.sealed(seed, test_custody.NUMBER)["ciphertext"], good[:-4]]
    others.append(builder.sealed(seed, test_custody.NUMBER + 1, LOCKS)["ciphertext"])
    data_of, chance = base64.b64decode(good), random.Random(5)
    for _ in range(60):
        flipped = bytearray(data_of)
        flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
        others.append(encoded(bytes(flipped)))
    for number, other in enumerate(others):
        yield f"ciphertext {number}", opening(locked("beacon", ciphertext=other))
        yield f"ciphertext {number}, not yet", locked("beacon", ciphertext=other)
    for name in ("default", "evmnet"):
        chain = pinned_chains()[name]
        yield f"on {name}", locked("beacon", chain=chain.hash.hex(), round=chain.first_at(at(620)))


@pytest.mark.parametrize("given_too", [True, False])
def test_timelocks(given_too):
    cases = {name: data(story.document()) for name, story in timelocked()}
    info = json.dumps(LOCKS.as_dict())
    options = web_verifier.OPTIONS | {"chains": [*web_verifier.OPTIONS["chains"], *[info] * given_too]}
    chains = web_verifier.CHAINS | ({LOCKS.hash: LOCKS} if given_too else {})
    assert disagreements(cases, options, replace(web_verifier.TRUST, chains=chains)) == {}


# --- spelling ------------------------------------------------------------------------------------------------------------

SPELLINGS = {
    "a tab": ('{"format"', '{\t"format"'), "a form feed": ('{"format"', '{\x0c"format"'),
    "a no-break space": ('{"format"', '{\u00a0"format"'), "a comment": ('{"format"', '/**/{"format"'),
    "a byte order mark": ('{"format"', '\ufeff{"format"'), "an escaped solidus": ("beacon/transcript", "beacon\\/transcript"),
    "an escape": ('"format"', '"f\\u006Frmat"'), "no escape": ('"format"', '"f\\x6frmat"'),
    "2.0": ('"index": 2', '"index": 2.0'), "2e0": ('"index": 2', '"index": 2e0'), "02": ('"index": 2', '"index": 02'),
    "+2": ('"index": 2', '"index": +2'), "-0": ('"index": 2', '"index": -0'), "NaN": ('"index": 2', '"index": NaN'),
    "2^53": ('"index": 2', '"index": 9007199254740992'), "a comma too many": ('"evidence": []', '"evidence": [],'),
    "a key twice": ('"evidence": []', '"evidence": [],"\\u0065vidence": []'), "__proto__": ('"evidence": []', '"evidence": [],"__proto__": []'),
    "half a pair": ('"log.example/test"', '"\\ud800"'), "a pair": ('"log.example/test"', '"\\ud83d\\ude00"'),
    "a raw half": ('"log.example/test"', '"\ud800"'), "a line feed": ('"log.example/test"', '"a\\nb"'), "a delete": ('"log.example/test"', '"a\\u007fb"'),
    "an escaped line feed in an entry": ('"entry": "', '"entry": "\\n'), "a line feed in a proof": ('"proof": ["', '"proof": ["\\n'),
    "two": ("{", "{}{"), "nothing": ("{", "["), "something behind": ('"evidence": []}', '"evidence": []} x'),
}  # fmt: skip


def deep(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


def test_spelling():
    story = match().reveal(135)
    document = story.document()
    text = json.dumps(document)
    cases = {"as it is": text.encode(), "in UTF-16": text.encode("utf-16"), "empty": b"", "deep": b"[" * 100_000}
    for name, (old, new) in SPELLINGS.items():
        assert old in text
        cases[name] = text.replace(old, new, 1).encode("utf-8", "surrogatepass")
    for levels in range(28, 36):
        nested = match().draw("turn", 90, outcomes=[deep(levels)]).reveal(135)
        cases[f"an outcome {levels} deep"] = data(nested.document())
        cases[f"evidence {levels} deep"] = data(document | {"evidence": deep(levels)})
    checkpoint = document["checkpoint"]
    lines = checkpoint.split("\n\n")[1]
    for name, other in {
        "a tab": checkpoint.replace("\n11", "\n\t11"), "carriage returns": checkpoint.replace("\n", "\r\n"),
        "another space": checkpoint.replace("\u2014 ", "\u2014\u00a0"), "a next line": checkpoint.replace("log.", "log\u0085.", 1),
        "100 lines": checkpoint + lines * 99, "101 lines": checkpoint + lines * 100,
        "a size of 2^63": checkpoint.replace("\n11\n", f"\n{2**63}\n"), "a size of 0": checkpoint.replace("\n11\n", "\n0\n"),
        "a size of 2^63 - 1": checkpoint.replace("\n11\n", f"\n{2**63 - 1}\n"),
    }.items():  # fmt: skip
        cases[f"a checkpoint with {name}"] = data(document | {"checkpoint": other})
    assert disagreements(cases, codes=False) == {}


# --- witnesses -----------------------------------------------------------------------------------------------------------


def test_witnesses():
    chance = random.Random(7)
    story = match(after=Story().round_fields(1002), time=at(6)).reveal(135)
    size, times = len(story.leaves), (None, -at(0) / 1000, 5, 6, 7, 14, 15, 200)
    assert disagreements({f"case {i}": data(cosigned(story, size, times, chance)) for i in range(300)}) == {}


def cosigned(story, size, times, chance):
    def seen():
        chosen = {name: chance.choice(times) for name in builder.WITNESSES}
        return {name: time for name, time in chosen.items() if time is not None}

    evidence = [story.evidence(chance.choice([5, 6, 7, size - 1, size]), seen()) for _ in range(chance.randrange(4))]
    for item in evidence:
        lines = item["checkpoint"].splitlines(keepends=True)
        if len(lines) > 5 and chance.random() < 0.2:
            foreign = story.checkpoint(4, {"w1": 7, "w2": 7, "w3": 7}).splitlines(keepends=True)
            item["checkpoint"] = "".join([*lines[:-1], chance.choice(foreign[5:])])
        elif chance.random() < 0.1:
            item["checkpoint"] += lines[-1]
    indices = chance.choice([None, story.all_from_seal(), [index for index in story.shown if index != story.shown[-2]]])
    return story.document(indices, evidence=evidence, seen=seen())


def test_witnesses_of_ml_dsa():
    story = match().reveal(135)
    size, cases = len(story.leaves), {}
    for number, damage in enumerate((0, 30, 2000, 2400)):
        evidence = [story.evidence(6, {"w1": 7}, 5), story.evidence(size, {"w1": 200})]
        evidence[0]["checkpoint"] += post_quantum_line(story, 6, 7)
        line = post_quantum_line(story, size, 200)
        at_character = len(line) - damage - 3
        if damage:
            line = line[:at_character] + ("A" if line[at_character] != "A" else "B") + line[at_character + 1 :]
        evidence[1]["checkpoint"] += line
        cases[f"case {number}"] = data(story.document(evidence=evidence))
    policy = builder.POLICY.replace("group two 2 w1 w2 w3", f"witness pq {POST_QUANTUM}\ngroup two 2 w1 w2 w3 pq")
    theirs = checked(cases.values(), web_verifier.OPTIONS | {"policy": policy}).answers()
    trust = replace(web_verifier.TRUST, policy=WITH_POST_QUANTUM.policy)
    ours = [python(document, trust) for document in cases.values()]
    assert [list(differences(*both)) for both in zip(ours, theirs, strict=True)] == [[]] * len(cases)
    states = [{claim["claim"]: claim["state"] for claim in verdict["claims"]}["witnessed"] for verdict in theirs]
    assert states == ["PROVEN", "FAILED", "FAILED", "FAILED"]


# --- what is given beside the document -----------------------------------------------------------------------------------

STRANGER = str(builder.SigningKey(b"\x77" * 32, builder.ORIGIN).vkey)
ELSEWHERE = str(builder.SigningKey(b"\x01" * 32, "log.example/other").vkey)
TRUSTS = {
    "nothing": ({"chains": []}, replace(web_verifier.TRUST, log_key=None, chains={}, policy=None)),
    "no key": ({"policy": builder.POLICY.split("\n", 1)[1]}, None),
    "another key": ({"logKeys": [STRANGER]}, None),
    "another log": ({"logKeys": [ELSEWHERE]}, None),
    "a quorum of nobody": ({"policy": builder.POLICY.replace("quorum two", "quorum none")}, None),
    "another log in the policy": (
        {"logKeys": [], "policy": builder.POLICY.replace(web_verifier.VKEY, ELSEWHERE)},
        None,
    ),
    "two logs in the policy": ({"logKeys": [], "policy": f"log {STRANGER}\n{builder.POLICY}"}, None),
    "a sandbox": ({"sandbox": True}, None),
    "proof": ({"requireProven": True}, None),
}


@pytest.mark.parametrize("name", TRUSTS)
def test_what_is_trusted(name):
    changed, trust = TRUSTS[name]
    options = {
        "logKeys": [] if name in {"nothing", "no key"} else [web_verifier.VKEY],
        "chains": web_verifier.OPTIONS["chains"],
    }
    options |= changed
    trust = trust or replace(
        web_verifier.TRUST,
        log_key=VerifierKey.parse(options["logKeys"][0]) if options["logKeys"] else None,
        policy=Policy.parse(options["policy"]) if "policy" in options else None,
        sandbox=options.get("sandbox", False),
        require_proven=options.get("requireProven", False),
    )
    documents = [data(witnessed(make())) for make in GOOD.values()]
    bulk = checked(documents, options)
    ours = [python(document, trust) for document in documents]
    assert [list(differences(*both)) for both in zip(ours, bulk.answers(), strict=True)] == [[]] * len(GOOD)


# --- receipts ------------------------------------------------------------------------------------------------------------


def receipt_stories():
    noisy = Story().seal().contribute("white", 6.5).contribute("white", 6.51, b"again", counted=False).close(6.6)
    noisy.contribute("black", 6.7, counted=False).close(6.75)
    noisy.round(1004, 15.8, signature="00" * 48).round(1005, 15.9).round(1005, 15.91)
    noisy.draw("turn", 16).reveal(20).contribute("black", 21, counted=False)
    noisy.shown = list(noisy.all_from_seal())
    other = Story().seal().contribute("white", 6.5, b"other").contribute("black", 6.501).close(6.6)
    moved = Story().seal()
    moved.add(Story().round(1001, 6).leaves[-1], shown=False)
    moved.contribute("white", 6.5, b"other")
    missing = match().reveal(135)
    missing.shown.remove(3)
    short = Story().seal().contribute("white", 6.5)
    another = match(label="another table").reveal(135)
    return [match().reveal(135), live().reveal(20), noisy, other, moved, missing, short, another]


def receipt_cases():
    stories = receipt_stories()
    transcripts = [data(story.document()) for story in stories]
    documents = [story.document([index]) for story in stories for index in story.shown]
    receipts = [data(document) for document in documents]
    receipts += [
        data({"receipt": documents[1]}),
        data({"receipts": documents[2:6]}),
        data({"receipts": documents[4:6]}),
        b"{}",
    ]
    receipts += [data(document | {"checkpoint": documents[20]["checkpoint"]}) for document in documents[:5]]
    story = stories[0]
    for index, extra in ((3, story.leaves[3]), (3, story.leaves[4]), (4, story.leaves[3]), (3, None), (3, b"x")):
        proof = TlogProof(index, tuple(merkle.prove_inclusion(story.hashes(), 3)), story.checkpoint(), extra)
        receipts.append(proof.encode().encode())
    return [(receipt, transcript) for receipt in receipts for transcript in transcripts]


def test_receipts():
    cases = receipt_cases()
    options = {"logKeys": [web_verifier.VKEY]}
    bulk = Bulk(
        {"receipt": encoded(receipt), "transcript": encoded(transcript), "options": options}
        for receipt, transcript in cases
    )
    ours, kept = [python_receipt(*case) for case in cases], ("exit", "found", "field", "entry")
    wrong = [
        ([mine.get(name) for name in kept], [other.get(name) for name in kept], mine.get("text"), other.get("message"))
        for mine, other in zip(ours, bulk.answers(), strict=True)
        if any(mine.get(name) != (None if mine["exit"] == 3 and name != "exit" else other.get(name)) for name in kept)
    ]
    assert wrong == []
    assert {answer.get("found") for answer in ours} == {
        "present", "absent", "replaced", "not covered", "not counted", None,
    }  # fmt: skip


def test_the_receipt_command(tmp_path):
    story = match().reveal(135)
    (tmp_path / "whole.json").write_bytes(data(story.document()))
    (tmp_path / "mine.json").write_bytes(data(story.document([3])))
    arguments = ("receipt", tmp_path / "mine.json", "--transcript", tmp_path / "whole.json")
    found = node(*arguments, "--log-key", web_verifier.VKEY)
    assert (found.returncode, found.stdout.startswith(b"PRESENT: ")) == (0, True)
    assert node(*arguments).returncode == 2
    assert node(*arguments[:2]).returncode == 3
