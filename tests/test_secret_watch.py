"""The search for secrets in what the service writes sees what it is for: leaks that are planted, each alone."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PLANTED = """
import base64, json, secrets, sqlite3, subprocess, sys

import pytest
from aiohttp import web

from beacon import logs
from beacon.errors import ApiError
from beacon.sessions.custody import MasterCipher
from beacon.sessions.joining import Joining
from beacon.settings import write_key
from beacon.store.hosts import SCOPES, HostStore
from beacon.web import problems
from beacon.web.services import REQUEST_ID
from beacon.webhooks.signing import Vault, make_secret, show_secret
from tests import secret_watch
from tests.secret_watch import install, pytest_runtest_teardown
from tests.process_support import run
from verifier.note import SigningKey

log = logs.get("planted")


def seed():
    made = secrets.token_bytes(32)
    MasterCipher(secrets.token_bytes(32)).encrypt(secrets.token_bytes(32), made)
    return made


def test_leak_hex():
    log.info("it", value=seed().hex())


def test_leak_base64():
    log.info("it", value=base64.b64encode(seed()).decode())


def test_leak_base64url_within_more():
    log.warning("it " + base64.urlsafe_b64encode(b"x" + seed() + b"y").decode())


def test_leak_base64_after_two_bytes():
    log.info("it", value=base64.b64encode(b"xx" + seed()).decode())


def test_leak_bytes():
    log.info("it", value=repr(seed()))


def test_leak_upper_hex():
    log.info("it", value=seed().hex().upper())


def test_leak_hex_apart():
    log.info("it", value=seed().hex(":"))


def test_leak_number():
    log.info("it", value=int.from_bytes(seed(), "big"))


def test_leak_number_backwards():
    log.info("it", value=str(int.from_bytes(seed(), "little")))


def test_leak_list():
    log.info("it", value=list(seed()))


def test_leak_list_as_json():
    log.info("it " + json.dumps(list(seed()), separators=(",", ":")))


def test_leak_traceback():
    made = seed()
    try:
        raise ValueError(made.hex())
    except ValueError:
        log.exception("failed")


def test_leak_half():
    log.info("it", value=seed().hex()[:30])


def test_leak_webhook():
    made = make_secret()
    Vault(secrets.token_bytes(32)).encrypt("wh_x", made)
    log.info("it", text=show_secret(made))


def test_leak_master():
    made = secrets.token_bytes(32)
    MasterCipher(made)
    log.info("it", text=made.hex())


def test_leak_join():
    log.info("it", text=Joining(secrets.token_bytes(32)).token(bytes(32), "white"))


def test_leak_log_key():
    key = SigningKey(secrets.token_bytes(32), "o.example")
    log.info("it", text=key.encode())


def test_leak_problem():
    request = {REQUEST_ID: "0" * 16}
    problems.problem(ApiError("invalid-request", f"not {seed().hex()}"), request)


def test_leak_configured(capsys):
    logs.configure("info", "console")
    log.info("it", value=seed().hex())


def test_leak_database(tmp_path):
    made = seed()
    db = sqlite3.connect(tmp_path / "log.db")
    db.execute("CREATE TABLE t (x BLOB)")
    db.execute("INSERT INTO t VALUES (?)", [made])
    db.commit()
    db.close()


def test_leak_database_text(tmp_path):
    (tmp_path / "log.db").write_bytes(b"junk " + seed().hex().encode() + b" junk")


def test_leak_key_file(tmp_path):
    key = secrets.token_bytes(32)
    write_key(tmp_path / "log.key", key)
    (tmp_path / "log.db").write_bytes(b"junk " + base64.b64encode(key) + b" junk")


async def test_leak_process(monkeypatch, tmp_path):
    made = seed()
    (tmp_path / "leaking.py").write_text(f"import sys; sys.stderr.write('it {made.hex()}')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert (await run("leaking"))[0] == 0


async def test_leak_token(tmp_path):
    made = "fb_" + secrets.token_urlsafe(32)
    secret_watch.WATCH.secret("a host's token", made)
    log.info("it", text=made)


def test_fine(tmp_path):
    made = seed()
    log.info("it", value=secrets.token_hex(32))
    (tmp_path / "private.db").write_bytes(made)
    (tmp_path / "log.db").write_bytes(b'{"v":1,"type":"reveal","seed":"' + made.hex().encode() + b'"}')


def test_fine_where_keys_belong(tmp_path):
    write_key(tmp_path / "master.dbc285f11b0e9fd5.key", secrets.token_bytes(32))
    (tmp_path / "private.db").touch()


def test_fine_of_another_test():
    log.info("it", value=secrets.token_hex(32))


install()
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """What pytest says of the planted leaks."""
    folder = tmp_path_factory.mktemp("planted")
    (folder / "test_planted.py").write_text(PLANTED)
    (folder / "conftest.py").write_text("from tests.secret_watch import pytest_runtest_teardown\n")
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-o", "asyncio_mode=auto", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--rootdir", folder, "-c", "/dev/null", folder / "test_planted.py"],
        capture_output=True, text=True, cwd=folder, env={"PYTHONPATH": str(ROOT), "PATH": ""}, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


NAMES = re.findall(r"def (test_leak_\w+)", PLANTED)
FINE = re.findall(r"def (test_fine\w*)", PLANTED)


@pytest.mark.parametrize("name", NAMES)
def test_a_leak_is_found(outcome, name):
    assert re.search(rf"^ERROR .*::{name}( |$)", outcome, re.MULTILINE), outcome[-3_000:]


def test_what_is_no_leak_passes(outcome):
    assert f"{len(NAMES) + len(FINE)} passed, {len(NAMES)} errors" in outcome, outcome[-3_000:]
    assert not re.search(r"^ERROR .*::test_fine", outcome, re.MULTILINE)


def test_the_report_names_what_leaked_and_where(outcome):
    for line in ("a seed is in a line of a log", "a join token is in a line of a log", "a host's token is in"):
        assert line in outcome
    assert "the key of log.key is in the public database log.db" in outcome
    assert "a seed is in what leaking wrote to standard error" in outcome
    assert "a seed is in a problem document" in outcome
