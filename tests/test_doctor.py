"""`beacon doctor`: each finding that it knows, by breaking the thing. And nothing but good news where nothing is broken."""

import asyncio
import functools
import json
import os
import resource
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from click.testing import CliRunner

import beacon.doctor.relays as doctor_relays
from beacon.cli import main
from beacon.datadir import POLICY_NAME
from beacon.doctor import running
from beacon.doctor.finding import KNOWN, Level, found, worst
from beacon.doctor.machine import MIB, Disk, filesystem_of, this_machine
from beacon.rounds.relays import open_session
from beacon.sessions.custody import MasterCipher
from beacon.settings import ListenSettings, Settings, read_key, write_key
from beacon.store.private import PrivateStore
from beacon.store.private_schema import PRIVATE_SCHEMA
from beacon.store.reader import Reader
from beacon.store.writer import Writer
from tests.doctor_support import NOW, make_template, other_key, world
from tests.log_support import contribution
from tests.round_support import FASTNET, FakeClock
from tests.witness_support import key_of, serving, witness

OTHER = os.geteuid() + 12_345
pytestmark = pytest.mark.usefixtures("_environment")


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    folder = tmp_path_factory.mktemp("template") / "data"
    make_template(folder)
    return folder


@pytest.fixture
def _environment(monkeypatch):
    """No variables of the service's; each round is verified once for all tests, since pairings are slow."""
    for name in [name for name in os.environ if name.upper().startswith("BEACON_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(doctor_relays, "check", VERIFY)


VERIFY = functools.cache(doctor_relays.check)


async def test_nothing_is_found_where_nothing_is_wrong(template, tmp_path):
    async with world(template, tmp_path) as made:
        findings = await made.examine()
    assert [one for one in findings if one.level is not Level.OK] == []
    assert {one.code for one in findings} == {
        "settings", "permissions", "disk", "filesystem", "log-key", "log", "master-key", "sqlite", "backend", "files",
        "memory", "time", "clock", "relay", "witness", "service",
    }  # fmt: skip
    assert not {one.code for one in findings} & set(KNOWN)
    assert not any(one.fix for one in findings)


# How each thing is broken. A function of the world, perhaps a coroutine.


def on(**answers):
    """Another machine."""

    def breaks(made):
        made.machine = replace(made.machine, **{name: lambda *_, v=value: v for name, value in answers.items()})

    return breaks


def setting(key, value, section=None):
    return lambda made: made.set(key, value, section)


def both(*breakers):
    def breaks(made):
        for one in breakers:
            one(made)

    return breaks


def mode(name, bits):
    return lambda made: (made.path / name).chmod(bits)


def content(name, data):
    return lambda made: (made.path / name).write_bytes(data)


def lie(what, which=slice(1)):
    def breaks(made):
        for relay in made.relays[which]:
            relay.lie = what

    return breaks


def relays_at(milliseconds):
    def breaks(made):
        for relay in made.relays:
            relay.clock = FakeClock(made.clock.now() + milliseconds)

    return breaks


def after_the_last_round(made):
    made.add_chain("fastnet")
    made.clock.time = FASTNET.time(FASTNET.final_round + 1)


def owned_by_another(made):
    stat = Path.stat

    def elsewhere(path, **options):
        values = list(stat(path, **options))
        values[4] += 12_345 * (path.name == "log.db")
        return os.stat_result(values)

    made.monkeypatch.setattr(Path, "stat", elsewhere)


def other_log_key(made):
    (made.path / "log.key").unlink()
    write_key(made.path / "log.key", b"\x55" * 32)


async def other_master_key(made):
    path = made.settings.private_db
    writer, reader = Writer(path, PRIVATE_SCHEMA), Reader(path)
    store = PrivateStore(writer, reader, made.clock)
    store.keep([MasterCipher(read_key(made.settings.master_key)).check_text()])
    await writer.aclose()
    reader.close()
    assert "opens what is kept" in str(await made.examine())
    (made.path / "master.key").unlink()
    write_key(made.path / "master.key", b"\x66" * 32)


def damaged_log(made):
    with closing(sqlite3.connect(made.path / "log.db")) as db, db:
        db.execute("DROP TRIGGER hashes_no_update")
        db.execute("UPDATE hashes SET nodes = zeroblob(length(nodes)) WHERE i = 1")


def newer_database(made):
    with closing(sqlite3.connect(made.path / "private.db")) as db, db:
        db.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) SELECT migration_set, 'm999', '' FROM _sqlite_migrations LIMIT 1"
        )


def large_wal(made):
    (made.path / "private.db-wal").touch(mode=0o600)
    os.truncate(made.path / "private.db-wal", 65 * MIB)


def unreachable_witness(made):
    made.set_policy("http://127.0.0.1:1", made.urls[1], quorum=1)


async def strange_witness(made):
    stranger = made.stack.enter_context(witness(made.folder / "w9.db", made.clock))
    server = await made.stack.enter_async_context(serving(stranger))
    made.set_policy(str(server.make_url("")).rstrip("/"), made.urls[1], quorum=1)


def swapped_witnesses(made):
    made.set_policy(*reversed(made.urls))


async def older_copy(made):
    shutil.copytree(made.path, made.folder / "before")
    await made.append(2)
    await made.cosign()
    shutil.rmtree(made.path)
    (made.folder / "before").rename(made.path)


async def other_history(made):
    third = made.stack.enter_context(
        witness(made.folder / "w3.db", made.clock, made.signer.vkey, seed=b"\x33" * 32, name="w3.example")
    )
    server = await made.stack.enter_async_context(serving(third))
    made.witnesses.append(third)
    await made.cosign_elsewhere(2, 3)
    made.set_policy(*made.urls, str(server.make_url("")).rstrip("/"), quorum=2)


async def answering(made, vkey="the log's", health=200, **readiness):
    """A service that says so, at the address of the settings."""

    async def own(request):
        return web.Response(text=str(made.signer.vkey) if vkey == "the log's" else vkey)

    async def healthz(request):
        return web.json_response({"healthy": health == 200, "stopped": None if health == 200 else "why"}, status=health)

    async def readyz(request):
        return web.json_response({"ready": True, "chains": {}} | readiness)

    app = web.Application()
    app.add_routes([web.get("/log/vkey", own), web.get("/healthz", healthz), web.get("/readyz", readyz)])
    server = TestServer(app)
    await server.start_server()
    made.stack.push_async_callback(server.close)
    made.set("port", server.port, "listen")


def service(**options):
    return lambda made: answering(made, **options)


BREAKERS = {
    "settings-invalid": content("beacon.toml", b'orgin = "x"'),
    "chain-invalid": lambda made: made.add_chain("nothing"),
    "policy-invalid": content(POLICY_NAME, b"nonsense\n"),
    "ports-equal": both(setting("port", 1, "listen"), setting("port", 1, "metrics")),
    "witnesses-none": lambda made: made.set("room_ms", 3000, "witnesses") or _drop(made, "policy = "),
    "witnesses-no-room": setting("room_ms", 2499, "witnesses"),
    "chain-for-tests": lambda made: made.add_chain("quicknet-t"),
    "default-chain-sandbox": setting("sandbox_only", True, "[chains]"),
    "relay-single": lambda made: made.set("relays", [made.relays[0].url], "[chains]"),
    "relay-plain": lambda made: made.set(
        "relays", [r.url.replace("127.0.0.1", "127.1") for r in made.relays], "[chains]"
    ),
    "listen-open": setting("host", "0.0.0.0", "listen"),
    "metrics-open": both(setting("host", "0.0.0.0", "metrics"), setting("port", 9464, "metrics")),
    "webhooks-http": setting("allow_http", True, "webhooks"),
    "file-missing": lambda made: (made.path / "private.db").unlink(),
    "file-readable": mode("private.db", 0o640),
    "file-writable": mode(".", 0o770),
    "file-shared": mode("beacon.toml", 0o660),
    "file-owner": owned_by_another,
    "user-other": on(uid=OTHER),
    "log-key-unusable": content("log.key", b"00\n"),
    "log-key-other": other_log_key,
    "log-vkey-other": lambda made: (made.path / "log.vkey").write_text(str(other_key().vkey)),
    "master-key-unusable": mode("master.key", 0o604),
    "master-key-other": other_master_key,
    "database-unusable": newer_database,
    "log-damaged": damaged_log,
    "log-behind": lambda made: (made.path / "log.mark").unlink(),
    "log-ahead": lambda made: made.append(age=-2_000),
    "clock-behind": relays_at(60_000),
    "clock-ahead": relays_at(-60_000),
    "clock-off": relays_at(-4_000),
    "clock-unsynchronised": on(synchronised=False),
    "chain-without-rounds": lie("hang-up", slice(None)),
    "chain-retired": after_the_last_round,
    "relay-unusable": lie("html"),
    "relay-late": lambda made: made.relays[0].missing.update({NOW, NOW - 1}),
    "relay-other-chain": lie("wrong-chain"),
    "relay-lies": lie("other-round-signature"),
    "disk-full": on(disk=Disk(63 * MIB, None, read_only=False)),
    "disk-low": on(disk=Disk(5_000 * MIB, 900, read_only=False)),
    "disk-read-only": on(disk=Disk(5_000 * MIB, None, read_only=True)),
    "wal-large": large_wal,
    "filesystem-network": on(filesystem="nfs4"),
    "filesystem-volatile": on(filesystem="overlay"),
    "witness-unreachable": unreachable_witness,
    "witness-unknown-log": strange_witness,
    "witness-other-key": swapped_witnesses,
    "witness-ahead": older_copy,
    "witness-disagrees": other_history,
    "witness-behind": lambda made: made.append(age=61_000),
    "quorum-missing": lambda made: made.set_policy("http://127.0.0.1:1", made.urls[1]),
    "sqlite-old": on(sqlite=(3, 36, 9)),
    "backend-slow": on(native=False),
    "files-limit": on(files=1_024),
    "memory-low": on(memory=100 * MIB),
    "port-taken": service(vkey="other.example+00000000+AAAA"),
    "service-stopped": service(health=503),
    "service-not-ready": service(ready=False, chains={"quicknet": {"detail": "no round"}}),
}


def _drop(made, start):
    file = made.path / "beacon.toml"
    file.write_text("".join(line for line in file.read_text().splitlines(True) if not line.startswith(start)))


def test_every_finding_has_something_that_makes_it():
    assert list(BREAKERS) == list(KNOWN)


@pytest.mark.parametrize("code", BREAKERS)
async def test_what_is_broken_is_found_with_what_mends_it(template, tmp_path, monkeypatch, code):
    async with world(template, tmp_path) as made:
        made.monkeypatch = monkeypatch
        result = BREAKERS[code](made)
        if asyncio.iscoroutine(result):
            await result
        findings = await made.examine()
    said = [one for one in findings if one.code == code]
    assert said, findings
    for one in said:
        assert one.level is KNOWN[code][0]
        assert one.about
        assert one.says
        assert one.fix
    assert worst(findings) is not Level.OK
    secrets = [(tmp_path / "data" / name).read_text().strip() for name in ("log.key", "master.key")]
    assert not any(secret in str(findings) for secret in secrets if len(secret) == 64)


async def test_a_running_service_that_can_seal_is_good_news(template, tmp_path):
    async with world(template, tmp_path) as made:
        await answering(made)
        assert [one.says for one in await made.examine() if one.code == "service"] == ["runs and can seal"]
        made.set("port", 1, "listen")
        assert [one.says for one in await made.examine() if one.code == "service"] == ["does not run"]


async def test_what_answers_and_is_no_beacon_has_taken_the_port(template, tmp_path):
    async with world(template, tmp_path) as made:
        made.set("port", int(made.urls[0].rsplit(":", 1)[1]), "listen")
        assert [one.says for one in await made.examine() if one.code == "port-taken"] == ["what answers is no beacon"]


async def test_a_machine_that_verifies_slowly_is_not_taken_for_one_with_a_slow_clock(template, tmp_path, monkeypatch):
    async with world(template, tmp_path) as made:
        for relay in made.relays:
            relay.clock = made.clock

        def slowly(*arguments):
            made.clock.advance(5_000)
            return VERIFY(*arguments)

        monkeypatch.setattr(doctor_relays, "check", slowly)
        findings = await made.examine()
    assert not {"clock-behind", "chain-without-rounds", "relay-lies"} & {one.code for one in findings}


async def test_whoever_may_not_read_the_files_is_told_to_be_their_owner(template, tmp_path, monkeypatch):
    async with world(template, tmp_path) as made:
        made.machine = replace(made.machine, uid=lambda: OTHER, disk=lambda _: Disk(50_000 * MIB, None, read_only=True))
        content("master.key", b"00\n")(made)
        access = os.access
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path).suffix != ".key" and access(path, mode))
        findings = {one.code: one for one in await made.examine()}
    for code in ("user-other", "master-key-unusable"):
        assert findings[code].fix.startswith("runuser -u ")
        assert f"beacon doctor --dir {made.path}" in findings[code].fix
    assert "disk-read-only" not in findings


async def test_a_witness_is_never_brought_further_than_it_was(template, tmp_path):
    async with world(template, tmp_path) as made:
        await made.append(2)
        before = [(tmp_path / f"w{n}.db").read_bytes() for n in (1, 2)]
        findings = [one for one in await made.examine() if one.code == "witness"]
        assert [one.says for one in findings] == ["signs with its key, up to size 4 of 6"] * 2
        with closing(sqlite3.connect(tmp_path / "w1.db")) as db:
            assert db.execute("SELECT size FROM states").fetchall() == [(4,)]
    assert before


async def test_a_witness_that_went_on_meanwhile_is_asked_from_where_it_is(template, tmp_path):
    async with world(template, tmp_path) as made:
        await made.append(2)
        await made.cosign()
        with closing(sqlite3.connect(made.path / "log.db")) as db, db:
            db.execute("DROP TRIGGER cosignatures_no_delete")
            db.execute("DELETE FROM cosignatures WHERE size = 6")
        assert [one.level for one in await made.examine() if one.about in {"w1", "w2"}] == [Level.OK] * 2


async def test_nothing_is_written(template, tmp_path):
    async with world(template, tmp_path) as made:
        before = {
            file.name: file.read_bytes() for file in made.path.iterdir() if not file.name.endswith(("-shm", "-wal"))
        }
        await made.examine()
        after = {
            file.name: file.read_bytes() for file in made.path.iterdir() if not file.name.endswith(("-shm", "-wal"))
        }
    assert after == before


async def test_it_works_while_another_holds_the_log(template, tmp_path):
    async with world(template, tmp_path) as made:
        log = made.open_log()
        try:
            task = asyncio.create_task(made.examine())
            while not task.done():
                await log.append(lambda time: [contribution(time, "white")])
            bad = [one for one in await task if one.level is Level.FAIL]
        finally:
            log.close()
    assert bad == []


async def test_broken_settings_are_all_told_and_end_the_look(template, tmp_path):
    async with world(template, tmp_path) as made:
        with (made.path / "beacon.toml").open("a") as file:
            file.write('\nrelay = "https://user:hunter2@x"\norgin = 1\n')
        findings = await made.examine()
    assert [one.about for one in findings if one.code == "settings-invalid"] == [str(made.path / "beacon.toml")] * 2
    assert "hunter2" not in str(findings)


# This machine


def test_this_machine_answers(tmp_path):
    machine = this_machine()
    assert machine.uid() == os.geteuid()
    assert machine.disk(tmp_path).free > 0
    assert not machine.disk(tmp_path).read_only
    assert machine.filesystem(tmp_path)
    assert machine.synchronised() in (True, False, None)
    assert machine.memory() is None or machine.memory() > 0
    assert machine.files() > 0
    assert machine.native() in (True, False)
    assert machine.sqlite() >= (3, 37)


@pytest.mark.parametrize(
    ("limits", "files"),
    [
        ((1_024, 1_048_576), 65_536),
        ((1_024, 4_096), 4_096),
        ((1_024, resource.RLIM_INFINITY), 65_536),
        ((2**20, 2**20), 2**20),
    ],
)
def test_the_files_that_may_be_open_are_those_that_the_service_gets(monkeypatch, limits, files):
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    assert this_machine().files() == files


def test_the_deepest_mount_above_a_path_is_its_file_system():
    table = (
        b"1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:5 / /srv rw shared:1 - overlay o rw\n"
        b"3 2 0:6 / /srv/da\\040ta rw - nfs4 host:/x rw\n4 1 0:7 / /srv/other rw - tmpfs t rw\n5 2 0:8 / /srv rw - xfs /dev/b rw\n"
    )
    assert filesystem_of(Path("/srv/da ta/x"), table) == "nfs4"
    assert filesystem_of(Path("/srv/data"), table) == "xfs"
    assert filesystem_of(Path("/home"), table) == "ext4"


# The commands


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def at_port_zero(folder):
    file = folder / "beacon.toml"
    file.write_text(file.read_text().replace("port = 8080", "port = 0"))
    return folder


@pytest.fixture
def directory(template, tmp_path):
    shutil.copytree(template, tmp_path / "data")
    return at_port_zero(tmp_path / "data")


def test_the_doctor_shows_what_is_wrong_and_what_mends_it(directory):
    (directory / "private.db").chmod(0o644)
    result = run("doctor", "--dir", directory)
    assert result.exit_code == 2
    lines = result.output.splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("FAIL file-readable"))
    assert lines[place + 1] == f"     fix: chmod 600 {directory / 'private.db'}"
    assert any(line.startswith("WARN witnesses-none") for line in lines)
    assert any(line.startswith("ok   log-key") for line in lines)
    assert not result.stderr


def test_the_doctor_speaks_json(directory):
    result = run("doctor", "--dir", directory, "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 2  # no relay is there
    assert (document["ok"], document["level"]) == (False, "fail")
    by_code = {one["code"]: one for one in document["findings"]}
    assert by_code["chain-without-rounds"].keys() == {"code", "level", "about", "says", "fix"}
    assert by_code["log"]["fix"] is None


@pytest.mark.parametrize(("code", "exit_code"), [(None, 0), ("backend-slow", 1), ("disk-full", 2)])
def test_the_exit_code_is_that_of_the_worst(directory, monkeypatch, code, exit_code):
    async def examine(*_):
        return [found(code, "x", "y", "z")] if code else []

    monkeypatch.setattr("beacon.cli_doctor.examine", examine)
    assert run("doctor", "--dir", directory).exit_code == exit_code


def test_the_settings_and_where_they_come_from(directory, monkeypatch):
    monkeypatch.setenv("beacon_listen__port", "9000")
    file = directory / "beacon.toml"
    file.write_text("".join(line for line in file.read_text().splitlines(True) if not line.startswith("shutdown_ms")))
    text = run("check-config", "--config", file)
    assert text.exit_code == 1
    document = json.loads(run("check-config", "--config", directory, "--json").stdout)
    by_key = {one["key"]: (one["value"], one["source"]) for one in document["settings"]}
    assert by_key["listen.port"] == (9000, "beacon_listen__port")
    assert by_key["listen.host"] == ("127.0.0.1", "file")
    assert by_key["listen.shutdown_ms"] == (10_000, "default")
    assert by_key["chains.0.name"] == ("quicknet", "file")
    assert by_key["chains.0.file"] == (None, "default")
    assert "9000  (beacon_listen__port)" in text.output
    assert [one["code"] for one in document["findings"]] == ["settings", "relay-single", "witnesses-none"]
    assert (document["ok"], document["level"]) == (False, "warn")


def test_chains_of_the_environment_are_its(directory, monkeypatch):
    monkeypatch.setenv(
        "BEACON_CHAINS", '[{"name":"quicknet","relays":["https://r.example/secret-key","https://s.example/"]}]'
    )
    result = run("check-config", "--config", directory, "--json")
    by_key = {one["key"]: (one["value"], one["source"]) for one in json.loads(result.stdout)["settings"]}
    assert by_key["chains.0.relays"] == (["https://r.example/…", "https://s.example"], "BEACON_CHAINS")
    assert by_key["chains.0.sandbox_only"] == (False, "BEACON_CHAINS")
    assert "secret-key" not in result.output


def test_all_that_is_wrong_is_found_at_once(directory, monkeypatch):
    monkeypatch.setenv("BEACON_LISTEN_PORT", "hunter2")
    monkeypatch.setenv("BEACON_METRICS__PORT", "hunter2")
    file = directory / "beacon.toml"
    file.write_text(f'orgin = "hunter2"\n{file.read_text()}'.replace("body_ms = 10000", "body_ms = 1"))
    result = run("check-config", "--config", file, "--json")
    assert result.exit_code == 2
    document = json.loads(result.stdout)
    assert document["settings"] == []
    assert [one["about"] for one in document["findings"]] == [
        str(file),
        "BEACON_LISTEN_PORT",
        "BEACON_METRICS__PORT",
        "limits.body_ms",
    ]
    assert [one["fix"].split(",")[0] for one in document["findings"]] == [
        f"edit {file}", "unset BEACON_LISTEN_PORT", "unset BEACON_METRICS__PORT", f"edit {file}",
    ]  # fmt: skip
    assert "hunter2" not in result.output


def test_a_missing_file_is_a_finding_too(tmp_path):
    result = run("check-config", "--config", tmp_path)
    assert result.exit_code == 2
    assert "FAIL settings-invalid" in result.output
    assert f"fix: name the right directory, or make one: beacon init {tmp_path}" in result.output
    assert run("doctor", "--dir", tmp_path).exit_code == 2


def test_the_key_of_the_policy_is_compared_with_the_log(directory):
    (directory / POLICY_NAME).write_text(
        f"log {other_key().vkey}\nwitness w1 {key_of(1)} http://127.0.0.1:1\nquorum w1\n"
    )
    file = directory / "beacon.toml"
    file.write_text(file.read_text().replace('# policy = "witnesses.policy"', f'policy = "{POLICY_NAME}"'))
    assert "FAIL policy-invalid" in run("check-config", "--config", directory).output


# --- others that answer as they like ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ready",
    [
        '{"ready":false,"chains":[]}', '{"ready":false,"chains":null}', '{"ready":false,"chains":{"a":3}}',
        '{"ready":false,"writes":3}', '{"ready":false,"chains":{"a":{"detail":3}}}', '{"ready":"\\ud800"}', "[]",
        "[" * 200_000, '{"ready":' * 30_000, '{"ready":' + "9" * 5_000 + "}", " " * 300_000, "\ud7ff",
    ],
)  # fmt: skip
async def test_whatever_answers_at_the_services_address(ready):
    async def answer(request):
        return web.Response(text=ready if request.path == "/readyz" else '{"healthy":true}')

    app = web.Application()
    app.add_routes([web.get("/{any:.*}", answer)])
    async with TestServer(app) as server:
        (one,) = await running.examine(Settings.model_construct(listen=ListenSettings(port=server.port)), None)
    assert one.code in {"port-taken", "service-not-ready"}


async def test_an_answer_in_several_parts_is_read_whole():
    async def ready(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for part in (b'{"ready":', b"true,", b'"chains":{}}'):
            await response.write(part)
            await asyncio.sleep(0.01)
        return response

    async def healthy(_):
        return web.Response(text='{"healthy":true}')

    app = web.Application()
    app.add_routes([web.get("/readyz", ready), web.get("/healthz", healthy), web.get("/log/vkey", healthy)])
    async with TestServer(app) as server:
        (one,) = await running.examine(Settings.model_construct(listen=ListenSettings(port=server.port)), None)
    assert (one.code, one.level) == ("service", Level.OK)


@pytest.mark.parametrize("headers", [{"Age": "9" * 4_000}, {"Age": "٣"}, {"Date": "never"}, {"Date": ""}])
async def test_whatever_a_relay_says_of_the_time(headers):
    async def answer(_):
        return web.Response(headers={"Date": "Tue, 14 Nov 2023 22:13:20 GMT"} | headers)

    app = web.Application()
    app.add_routes([web.get("/", answer)])
    async with TestServer(app) as server, open_session() as session:
        offset = await doctor_relays._offset(str(server.make_url("/")), session, FakeClock(1_700_000_000_000))
    seen = doctor_relays.Seen("http://r.example", None, None, early=False, offset=offset)
    assert [one.code for one in doctor_relays._clock([seen])] == ["clock"]


HOSTILE = {
    "nested": "x = " + "[" * 3_000,
    "long number": "x = " + "9" * 5_000,
    "large number": "[listen]\nport = " + "9" * 400,
    "no number": "[listen]\nport = nan",
    "no directory's name": 'data_dir = "a\\u0000b"',
    "no policy's name": '[witnesses]\npolicy = "a\\u0000b"',
    "no chain's name": '[[chains]]\nname = "quicknet"\nfile = "a\\u0000b"\nrelays = ["https://a.example"]',
    "a policy's long name": f'[witnesses]\npolicy = "{"a" * 5_000}"',
    "a chain's long name": f'[[chains]]\nname = "quicknet"\nfile = "{"a" * 5_000}"\nrelays = ["https://a.example"]',
    "a policy that is a directory": '[witnesses]\npolicy = "."',
    "control characters": '"\\u001b[31m" = 1',
    "chains that are none": "chains = [3]",
    "no text": b"\xff\xfe",
}


@pytest.mark.parametrize("command", ["check-config", "doctor"])
@pytest.mark.parametrize("what", HOSTILE)
def test_whatever_the_settings_are(tmp_path, what, command):
    text = HOSTILE[what]
    (tmp_path / "beacon.toml").write_bytes(text if isinstance(text, bytes) else f'origin = "a"\n{text}'.encode())
    done = run(command, "--dir", tmp_path)
    assert (done.exit_code, isinstance(done.exception, SystemExit)) == (2, True), done.exception
    assert "\x1b" not in done.output
