"""deploy/RUNBOOK.md: it has an entry for whatever the service may say instead of starting, and its commands are real."""

import ast
import inspect
import re
import shlex

import click
import pytest

import beacon.cli
import verifier.cli
from beacon import permissions, settings
from beacon.errors import PROBLEMS
from beacon.rounds.rounds import TROUBLES
from beacon.settings import ConfigurationError
from beacon.store import errors
from tests.deploy_support import DEPLOY, ROOT, RUNBOOK, anchors
from tests.process_support import add_host, api, run, serving

TEXT = RUNBOOK.read_text(encoding="utf-8")
FLAT = " ".join(TEXT.split())
START = "## The service does not start"
REFUSALS = " ".join(TEXT.partition(START)[2].partition("\n## ")[0].split())

# What refuses, but never a start: whole modules, and functions of others. All else of the service counts.
NO_START = {
    "backup/", "cli", "demo", "doctor/", "keys/master.py", "log/export.py", "log/fsck", "log/sequencer.py", "log/snapshot.py",
    "log/tiles.py", "rounds/desk.py", "sessions/", "store/hosts.py", "store/private.py", "store/webhooks.py",
    "store/writer.py", "web/", "webhooks/", "witness/directory.py",
}  # fmt: skip
NO_START_FUNCTIONS = {
    "_chain", "_load_made", "checkpoint_covering", "initialise", "latest", "make", "own_chain", "pinned_chain",
    "_cut_off", "_leaving", "_registered", "_require_settled", "put_in_force", "receipt_proof", "require_current", "require_empty",
    "signed_note",
}  # fmt: skip
FAMILIES = {"ConfigurationError"} | {
    name for name, cls in vars(errors).items() if inspect.isclass(cls) and issubclass(cls, errors.StoreError)
}
# Messages that are made elsewhere, by what is told of them.
ELSEWHERE = {
    "run": ["are under another master key", "If a rotation was cut off"],
    "refuse_exposed": ["lets others at this", "lets its group write here", "lets others write here", "and the service's user is"],
    "load_settings": ["unknown key", "unknown variable of the environment", "not JSON; a list of chains is due", "is due", "the same name twice", "the default chain"],
    "refusal": ["file is not a database", "database disk image is malformed", "unable to open database file", "database is locked"],
    "_writer": [],
    "_next": ["Nothing was signed with it"],
    "read": ["log.mark: Permission denied"],
    "write": ["No space left on device"],
    "followed_chains": ["chain NAME:"],
    "load_policy": ["POLICY:"],
    "_configured": [],
}  # fmt: skip
LEAST = 8


def functions(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def pieces(message):
    """The constant parts of a message, without what is put in."""
    if isinstance(message, ast.Constant):
        return [str(message.value)]
    if isinstance(message, ast.JoinedStr):
        return [value.value for value in message.values if isinstance(value, ast.Constant)]
    return []


def modules():
    for file in sorted((ROOT / "beacon").rglob("*.py")):
        module = file.relative_to(ROOT / "beacon").as_posix()
        if not any(module.startswith(start) for start in NO_START):
            yield module, ast.parse(file.read_text(encoding="utf-8"))


def refusals():
    """(module, function, sentences that are constant in the message) of each refusal that a start may end with."""
    for module, tree in modules():
        for call in ast.walk(tree):
            name = getattr(call.func, "id", None) if isinstance(call, ast.Call) else None
            if name not in FAMILIES or not call.args:
                continue
            inside = [one.name for one in functions(tree) if one.lineno <= call.lineno <= one.end_lineno]
            if not NO_START_FUNCTIONS & set(inside):
                found = (one.strip(" .,:;()") for piece in pieces(call.args[0]) for one in re.split(r"[.;:] |`", piece))
                yield module, inside[-1], tuple(one for one in found if len(one) >= LEAST)


FOUND = list(refusals())
"""Each is in the runbook by a sentence of what it says, or by what stands for it in ELSEWHERE."""


def test_the_refusals_are_found():
    assert len(FOUND) > 40
    names = {one.name for _, tree in modules() for one in functions(tree)}
    assert names >= NO_START_FUNCTIONS
    assert ELSEWHERE.keys() == {function for _, function, says in FOUND if not says} | {
        "followed_chains",
        "_configured",
    }
    files = [file.relative_to(ROOT / "beacon").as_posix() for file in (ROOT / "beacon").rglob("*.py")]
    assert all(any(file.startswith(start) for file in files) for start in NO_START)


@pytest.mark.parametrize(("module", "function", "says"), FOUND)
def test_every_refusal_of_a_start_has_its_entry(module, function, says):
    if says:
        assert any(one in REFUSALS for one in says), f"{module}, {function}: {says}"
    else:
        assert function in ELSEWHERE, f"{module}, {function}"


@pytest.mark.parametrize("says", sorted({says for several in ELSEWHERE.values() for says in several}))
def test_what_is_made_elsewhere_has_its_entry_too(says):
    assert f"{says}" in REFUSALS


def test_every_class_of_refusal_is_named_with_its_code():
    stops = {"AlreadyOpen", "SchemaRefused", "SchemaNewer", "CannotOpen", "DatabaseDamaged", "LogDamaged", "LogBehind"}
    for name in stops:
        assert f"`{getattr(errors, name).code}`" in REFUSALS, name
    assert ConfigurationError.__name__ in vars(settings)
    for fault in permissions.Fault:
        assert fault is permissions.Fault.SHARED or f"`{fault}`" in REFUSALS


def test_what_keeps_it_from_sealing_and_why_it_stops_are_there():
    for code in (*TROUBLES, "write-failed", "outcome-unknown", "unavailable"):
        assert code in PROBLEMS
        assert f"`{code}`" in TEXT, code


# --- its commands -----------------------------------------------------------------------------------------------------

PROGRAMS = {"beacon": beacon.cli.main, "verifier": verifier.cli.main}
BLOCKS = re.findall(r"(?ms)^ *```sh\n(.*?)^ *```$", TEXT)
COMMANDS = [
    line.strip()
    for block in BLOCKS
    for line in re.sub(r"\\\n *", "", block).splitlines()
    if re.match(r" *(?:sudo -u beacon )?(?:beacon|verifier) ", line)
]


@pytest.mark.parametrize("line", sorted(set(COMMANDS)))
def test_a_command_is_one_that_the_program_has(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = shlex.split(re.sub(r"^sudo -u beacon ", "", line), comments=True)
    command = PROGRAMS[words[0]]
    rest = words[1:]
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(command), rest.pop(0))
        assert command is not None, line
    options = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in rest if word.startswith("-")} <= options, line
    assert not [word for word in rest if word in {"|", ">", "&&"}], line


def test_there_are_commands_to_be_held_to_it():
    assert len(set(COMMANDS)) > 15


# --- for whom they are ------------------------------------------------------------------------------------------------

LINES = [line for block in BLOCKS for line in re.sub(r"\\\n *", "", block).splitlines()]
(SETUP,) = re.findall(r"(?ms)^## Put it in place$(.*?)^## ", TEXT)
STEPS = [" ".join(one.split()) for one in re.findall(r"`([^`]+)`", SETUP)]
OF_BEACON = re.compile(r"install -d -o beacon -g beacon -m 07\d\d (.*?)(?: +#.*)?$")
MEDIA = "/media/"
"""Where the operator's own media are: who reads them is for whoever mounts them."""


def given_to_beacon():
    """The directories that the user beacon owns: those made for it, the units' own, and these copied or moved."""
    made = {path for line in [*LINES, *STEPS] if (found := OF_BEACON.match(line)) for path in found[1].split()}
    units = "".join(unit.read_text() for unit in (DEPLOY / "systemd").glob("*.service"))
    states = {f"/var/lib/{name}" for name in re.findall(r"(?m)^StateDirectory=(\S+)$", units)}
    copies = {
        found[2] for line in LINES if (found := re.match(r"(?:cp -aT|mv -T) (\S+) (\S+)", line)) and found[1] in made
    }
    return made | states | copies


@pytest.mark.parametrize("line", sorted({line for line in [*LINES, *STEPS] if line.startswith("sudo -u beacon ")}))
def test_what_the_user_beacon_reads_or_writes_is_where_it_can(line):
    """Nobody but root reads /root or makes a directory in /var/lib."""
    for path in (word for word in shlex.split(line, comments=True) if word.startswith("/")):
        assert path.startswith(MEDIA) or any(f"{path}/".startswith(f"{place}/") for place in given_to_beacon()), path


def test_the_places_of_the_user_beacon_are_found():
    assert given_to_beacon() >= {
        "/var/lib/beacon",
        "/var/backups/beacon",
        "/var/lib/beacon-aside",
        "/var/lib/beacon-ended",
    }
    assert not [place for place in given_to_beacon() if not place.startswith(("/var/", "/run/"))]


def test_every_program_that_is_asked_for_is_on_the_path():
    (linked,) = [step.split()[2:-1] for step in STEPS if step.startswith("ln -s ")]
    asked = {re.sub(r"^sudo -u beacon ", "", line).split()[0] for line in LINES if line.strip()}
    there = {path.rpartition("/")[2] for path in linked}
    assert {"beacon", "verifier", "litestream"} <= asked
    assert there == {"beacon", "verifier", "litestream"}


def test_the_replicas_place_is_known_wherever_it_is_asked():
    asking = [block for block in BLOCKS if "litestream restore" in block]
    assert len(asking) == 2
    for block in asking:
        assert "set -a; . /etc/beacon/litestream.env; set +a" in block.partition("litestream restore")[0]


def test_what_a_unit_reads_as_its_own_user_is_readable_and_what_holds_secrets_is_not():
    unit = (DEPLOY / "systemd" / "beacon-litestream.service").read_text()
    (config,) = re.findall(r"-config (\S+)$", unit, re.MULTILINE)
    (secrets,) = re.findall(r"^EnvironmentFile=(\S+)$", unit, re.MULTILINE)
    modes = {step.split()[-1]: step.split()[3] for step in STEPS if step.startswith("install -D ")}
    assert (modes[config], modes[secrets]) == ("0644", "0600")
    for path in modes:
        if path.startswith("/etc/beacon/"):
            assert (DEPLOY / path.rpartition("/")[2]).is_file()


def test_comments_name_headings_of_the_runbook():
    headings = set(re.findall(r"(?m)^#+ (.+?) *$", TEXT))
    files = [*DEPLOY.glob("*.yml"), *DEPLOY.rglob("*.service"), *DEPLOY.rglob("*.conf")]
    texts = [" ".join(re.sub(r"(?m)^ *#", "", file.read_text()).split()) for file in files]
    found = [
        a or b for text in texts for a, b in re.findall(r'"([^"]+)" in RUNBOOK\.md|RUNBOOK\.md, "([^"]+?)[.]?"', text)
    ]
    assert len(found) >= 2
    assert set(found) <= headings


# --- links and drills -------------------------------------------------------------------------------------------------


def test_every_link_leads_somewhere():
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        file, _, anchor = target.partition("#")
        place = RUNBOOK if not file else DEPLOY / file
        assert place.exists(), target
        assert not anchor or anchor in anchors(place.read_text(encoding="utf-8")), target


async def test_the_drill_of_the_lost_master_key_leads_to_a_service_that_seals(tmp_path):
    """The commands of the drill, with a session open: its log goes on, its host's token too, and it can seal."""
    chain, data = tmp_path / "chain.json", tmp_path / "data"
    async with serving("beacon", "devnet", "--port", 0, "--period", 1, "--out", chain) as devnet:
        words = ("--origin", "localhost/x", "--chain-file", chain, "--relay", devnet.url)
        code, _, said = await run("beacon", "init", data, *words)
        assert code == 0, said
        config = data / "beacon.toml"
        config.write_text(re.sub(r"(?m)^port = \d+$", "port = 0", config.read_text()))
        token = await add_host(data, "alice", "--sandbox")
        async with serving("beacon", "serve", "--dir", data) as server, api(server, token) as host:
            await host.ready()
            sealed = await host.post("/v1/sessions", ONE)
        (data / "master.key").unlink()
        code, _, said = await run("beacon", "serve", "--dir", data)
        assert (code, "Without this key file the service does not start" in said) == (2, True)
        for words in (("backup", tmp_path / "backups"), ("lost", "master-key")):
            code, _, said = await run("beacon", *words, "--dir", data)
            assert code == 0, said
        async with serving("beacon", "serve", "--dir", data) as server, api(server, token) as host:
            await host.ready()
            assert (await host.view(sealed["session"]))["session"] == sealed["session"]
            await host.post("/v1/sessions", ONE)
    code, _, said = await run("beacon", "log", "check", "--dir", data)
    assert code == 0, said


ONE = {"recipes": {"d": {"kind": "dice", "count": 1, "sides": 6}}, "profile": "live", "participants": []}
DRILLS = (
    "A rolled-back database", "log.db is lost", "private.db is lost", "The master key is lost", "A token is stolen",
    "The log key is lost", "The log key is stolen", "A witness disagrees", "The disk is full", "The clock is wrong", "drand is away",
    "A relay lies",
)  # fmt: skip


@pytest.mark.parametrize("drill", DRILLS)
def test_each_disaster_has_its_symptoms_a_check_what_to_do_and_what_never(drill):
    (body,) = re.findall(rf"(?ms)^### {re.escape(drill)}$(.*?)(?=^##)", TEXT + "\n##")
    for part in ("**Symptoms.**", "**Check.**", "**Do.**", "**Never.**"):
        assert part in body, part
    assert "```sh" in body
