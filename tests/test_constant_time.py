"""Secrets, tokens and authentication tags are compared by hmac.compare_digest alone: read off the source.

A comparison with == or != is suspect when a name in it says that it holds a secret. Each suspect is compared in constant
time, or stands in REVIEWED with the reason why nobody learns anything from how long it takes.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SECRETS = re.compile(r"(^|_)(authorization|fingerprint|hmac|mac|nonce|password|secret|seed|tag|token)s?($|_)")
KEYS = re.compile(r"(^|_)(keys?|master)($|_)")
HOLD_KEYS = ("beacon/keys/", "beacon/sessions/", "beacon/settings/", "beacon/store/", "beacon/webhooks/")
"""Where a name that says `key` may be one that is secret; elsewhere such keys are public."""

REVIEWED = {
    ("beacon/client/session.py", "set(tokens) != set(participants)"): "names of players, the keys of the mapping",
    ("beacon/keys/log.py", "key != leaving"): "public keys",
    ("beacon/keys/log.py", "key.key_id.hex() == identifier"): "ids of public keys",
    ("beacon/keys/log.py", "row.key == signers.keys[1].vkey"): "public keys",
    ("beacon/sessions/state.py", "key == state.lock"): "a round's place in a dictionary",
    ("beacon/settings/loading.py", "name.upper() == _variable(keys)"): "names of settings",
    ("beacon/settings/loading.py", "path[-1] == key"): "names of settings",
    ("verifier/cli.py", "(seed, binding, definition) != (None, None, None)"): "which options are given",
    ("verifier/drand.py", "previous != chain.genesis_seed"): "public, of the chain's info",
    ("verifier/entries.py", "(draw.draw is None) != (draw.seed is None)"): "which members are there",
    ("verifier/standalone_tools.py", "previous.hex() != info['genesis_seed']"): "public, of the chain's info",
    ("verifier/systems/skinclub.py", "record.has('server_seed') == record.has('beacon')"): "which members are there",
    ("verifier/vectors_systems.py", "seed.encode('utf-8') != parse_hex(given['seed_utf8_hex'])"): "known answers",
    ("verifier/vectors_systems.py", "given['fingerprint'] == cube.fingerprint(seed).hex()"): "known answers",
}


def names_in(node):
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def is_length(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"


def suspects(path, source):
    """(path, text) of each comparison by value in which a name says that it holds a secret."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Compare) or not any(isinstance(one, ast.Eq | ast.NotEq) for one in node.ops):
            continue
        sides = [node.left, *node.comparators]
        if any(isinstance(side, ast.Constant) or is_length(side) for side in sides):
            continue
        named = {name.lower() for side in sides for name in names_in(side)}
        if any(SECRETS.search(name) or (path.startswith(HOLD_KEYS) and KEYS.search(name)) for name in named):
            yield path, ast.unparse(node)


def found():
    for folder in ("beacon", "verifier"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield from suspects(file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "source",
    [
        "token == given",
        "row.token_hash != digest",
        "if body['secret'] == secret: pass",
        "file.mac == made",
        "hmac.digest(k, m, 'sha256') == tag",
        "ok = own_fingerprint == kept",
    ],
)
def test_a_comparison_by_value_is_seen(source):
    assert list(suspects("verifier/x.py", source))


@pytest.mark.parametrize("source", ["len(token) == 3", "token == ''", "hmac.compare_digest(token, given)", "a == b"])
def test_what_tells_nothing_is_not_seen(source):
    assert not list(suspects("verifier/x.py", source))


def test_keys_are_secret_where_secret_keys_are():
    assert list(suspects("beacon/keys/master.py", "key == old"))
    assert not list(suspects("verifier/note.py", "key == own"))


def test_secrets_are_compared_in_constant_time_alone():
    assert set(found()) - set(REVIEWED) == set()


def test_nothing_stays_listed_that_is_gone():
    assert set(REVIEWED) - set(found()) == set()


@pytest.mark.parametrize(
    ("path", "count"),
    [
        ("beacon/store/hosts.py", 1),
        ("beacon/sessions/joining.py", 1),
        ("beacon/webhooks/webhooks.py", 1),
        ("beacon/sessions/answers.py", 1),
        ("verifier/age.py", 1),
        ("verifier/seeds.py", 1),
    ],
)
def test_the_places_that_authenticate_do_so_in_constant_time(path, count):
    assert (ROOT / path).read_text(encoding="utf-8").count("hmac.compare_digest(") >= count
