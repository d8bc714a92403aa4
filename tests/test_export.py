"""The log as static files: each of them is what the service answers at that address, byte for byte."""

import errno
import fcntl
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from sqlite_utils import Database

from beacon.cli import main
from beacon.log import cosignatures
from beacon.log import export as exporting
from beacon.log.cosignatures import Cosigned
from beacon.log.export import ExportRefused, export, export_database, export_full, full_tiles
from tests.log_support import SIGNER, append, contributions, make_log, open_log
from tests.web_support import serving_log
from verifier import whole_log
from verifier.note import Checkpoint, Cosigner, Note, SigningKey, parse_cosignature

W1, W2 = Cosigner(b"\x31" * 32, "w1.example"), Cosigner(b"\x32" * 32, "w2.example")


def files_of(directory):
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("count", [1, 200, 256, 512, 700])
async def test_each_file_is_what_the_service_answers(tmp_path, count):
    async with serving_log(tmp_path / "log.db") as (log, client):
        if count > 1:
            await log.append(contributions(*(str(number) for number in range(count - 1))))
        done = export(log.path, tmp_path / "static", SIGNER.vkey)
        files = files_of(tmp_path / "static")
        assert (done.size, done.files, done.written) == (count, len(files), len(files))
        for path, data in files.items():
            answer = await client.get(f"/log/{path}")
            assert (answer.status, await answer.read()) == (200, data), path


def test_the_tree_is_read_by_any_client_of_tiles(tmp_path):
    make_log(tmp_path / "log.db", (300, 411))
    seen = []
    export(tmp_path / "log.db", tmp_path / "static", SIGNER.vkey, progress=lambda *done: seen.append(done))
    log = whole_log.of_tiles(str(tmp_path / "static"), lambda url, _: Path(url).read_bytes())
    assert len(list(log.entries())) == 712
    log.check(SIGNER.vkey)
    assert seen[-1] == (len(seen) + 2, len(seen) + 2)


def test_again_it_writes_what_is_new_and_what_is_not_right(tmp_path):
    path, static = tmp_path / "log.db", tmp_path / "static"
    make_log(path, (300,))
    first = export(path, static, SIGNER.vkey)
    before = files_of(static)
    assert export(path, static, SIGNER.vkey).written == 0
    (static / "tile/0/000").write_bytes(b"half")
    (static / "tile/entries/000").unlink()
    assert export(path, static, SIGNER.vkey).written == 2
    assert files_of(static) == before
    log = open_log(path)
    append(log, "one more")
    log.close()
    grown = export(path, static, SIGNER.vkey)
    assert grown.size == first.size + 1
    assert before.keys() - {"checkpoint"} < files_of(static).keys()
    assert grown.written == 3


def test_another_log_or_a_later_one_is_not_overwritten(tmp_path):
    path, other, static = tmp_path / "log.db", tmp_path / "other" / "log.db", tmp_path / "static"
    other.parent.mkdir()
    make_log(path, (20,))
    make_log(other, (5, 25))
    export(path, static, SIGNER.vkey)
    before = files_of(static)
    for refused, key in ((other, SIGNER.vkey), (path, SigningKey(b"\x09" * 32, "another.example").vkey)):
        with pytest.raises(ExportRefused):
            export(refused, static, key)
    text = Checkpoint(SIGNER.name, 1_000, b"\x01" * 32).encode()
    for there in (f"{text}\n{SIGNER.sign(text)}", "poem"):
        (static / "checkpoint").write_text(there)
        with pytest.raises(ExportRefused):
            export(path, static, SIGNER.vkey)
    assert files_of(static).keys() == before.keys()


def test_the_checkpoint_has_the_witnesses_lines_in_the_policys_order(tmp_path):
    path = tmp_path / "log.db"
    make_log(path, (3,))
    with closing(sqlite3.connect(path)) as conn:
        db = Database(conn, execute_plugins=False)
        size, note = conn.execute("SELECT size, note FROM checkpoints ORDER BY size DESC LIMIT 1").fetchone()
        lines = {}
        for key in (W1, W2):
            lines[key.vkey] = key.cosign(Note.parse(note).text, 1_800_000_000)
            signature = Note.parse(f"{Note.parse(note).text}\n{lines[key.vkey]}").signatures[0].signature
            assert parse_cosignature(signature)
            cosignatures.add(db, Cosigned(size, key.vkey, signature))
        conn.commit()
    export(path, tmp_path / "static", SIGNER.vkey, [W2.vkey, W1.vkey])
    assert (tmp_path / "static" / "checkpoint").read_text() == note + lines[W2.vkey] + lines[W1.vkey]


@given(st.integers(0, 2**20), st.integers(0, 2**20))
def test_full_tiles_in_two_steps_are_those_of_one(one, other):
    done, size = sorted((one, other))
    steps = [*full_tiles(done, 0), *full_tiles(size, done)]
    assert len(set(steps)) == len(steps)
    assert set(steps) == set(full_tiles(size, 0))


@pytest.mark.parametrize("sizes", [(1,), (255,), (256,), (700,), (200, 300), (300, 300), (256, 512, 513)])
async def test_full_tiles_are_those_of_the_service_and_no_more(tmp_path, sizes):
    static = tmp_path / "static"
    async with serving_log(tmp_path / "log.db") as (log, client):
        before = {}
        for size in sizes:
            if grown := size - log.latest().size:
                await log.append(contributions(*(str(number) for number in range(grown))))
            done = export_full(log.path, static, SIGNER.vkey)
            files = files_of(static)
            marked = files.get("full-tiles") != before.get("full-tiles")
            assert (done.size, done.files, done.written) == (
                size,
                len(files),
                len(files.keys() - before.keys() - {"full-tiles"}) + marked,
            )
            before = files
        mark = before.pop("full-tiles").decode()
        assert Checkpoint.parse(Note.parse(mark).text).size // 256 == sizes[-1] // 256
        assert before.keys() == {tile.path for tile in full_tiles(sizes[-1], 0)}
        for path, data in before.items():
            answer = await client.get(f"/log/{path}")
            assert (answer.status, await answer.read()) == (200, data), path


def test_full_tiles_are_not_looked_at_again(tmp_path):
    path, static = tmp_path / "log.db", tmp_path / "static"
    make_log(path, (300,))
    assert export_full(path, static, SIGNER.vkey).written == 3
    (static / "tile/0/000").unlink()
    assert export_full(path, static, SIGNER.vkey).written == 0
    (static / "full-tiles").unlink()
    assert export_full(path, static, SIGNER.vkey).written == 3
    assert (static / "tile/0/000").exists()


def test_a_tile_is_durable_before_the_mark_counts_it(tmp_path, monkeypatch):
    path, static = tmp_path / "log.db", tmp_path / "static"
    make_log(path, (600,))
    synced = []
    monkeypatch.setattr(
        "beacon.log.export.os.fsync", lambda number: synced.append(Path(f"/proc/self/fd/{number}").readlink())
    )
    export_full(path, static, SIGNER.vkey)
    assert [name.name.removesuffix(".new") for name in synced] == ["000", "001", "000", "001", "full-tiles"]


@pytest.mark.parametrize("exporter", [export_full, export_database])
def test_full_tiles_and_files_of_another_log_or_a_later_one_stay(tmp_path, exporter):
    path, other, static = tmp_path / "log.db", tmp_path / "other" / "log.db", tmp_path / "static"
    other.parent.mkdir()
    make_log(path, (20, 300))
    make_log(other, (5, 25))
    exporter(path, static, SIGNER.vkey)
    before = files_of(static)
    for refused, key in ((other, SIGNER.vkey), (path, SigningKey(b"\x09" * 32, "another.example").vkey)):
        with pytest.raises(ExportRefused):
            exporter(refused, static, key)
    assert files_of(static) == before


def test_the_file_is_a_copy_and_is_made_once_a_size(tmp_path):
    path, static = tmp_path / "log.db", tmp_path / "static"
    make_log(path, (300,))
    sizes = [export_database(path, static, SIGNER.vkey) for _ in range(2)]
    assert [(done.size, done.written) for done in sizes] == [(301, 1), (301, 0)]
    log = open_log(path)
    append(log, "one more")
    assert export_database(path, static, SIGNER.vkey).size == 302
    log.close()
    assert files_of(static).keys() == {"log.db"}
    with whole_log.of_database(static / "log.db") as copied:
        assert len(list(copied.entries())) == 302
        copied.check(SIGNER.vkey)


def test_the_log_itself_and_other_files_are_not_replaced(tmp_path):
    path, static = tmp_path / "log.db", tmp_path / "static"
    make_log(path, (3,))
    with pytest.raises(ExportRefused, match="the log itself"):
        export_database(path, tmp_path, SIGNER.vkey)
    static.mkdir()
    (static / "log.db").write_text("a poem")
    with pytest.raises(ExportRefused, match="no copy of this log"):
        export_database(path, static, SIGNER.vkey)
    assert (static / "log.db").read_text() == "a poem"


@pytest.mark.parametrize("one", [export, export_full])
@pytest.mark.parametrize("other", [export, export_full])
def test_two_exports_do_not_write_into_one_anothers_files(tmp_path, one, other):
    path, static = tmp_path / "log.db", tmp_path / "static"
    make_log(path, (300,))
    refused = []

    def meanwhile(*_):
        with pytest.raises(ExportRefused, match="another export") as error:
            other(path, static, SIGNER.vkey)
        refused.append(error)
        if len(refused) == 1:
            export_database(path, static, SIGNER.vkey)

    one(path, static, SIGNER.vkey, progress=meanwhile)
    assert refused
    other(path, static, SIGNER.vkey)
    assert [path for path in static.rglob("*") if path.suffix in {".new", ".lock"}] == []


def test_two_exports_of_the_file_do_not_write_into_one_another(tmp_path, monkeypatch):
    path, static = tmp_path / "log.db", tmp_path / "static"
    make_log(path, (300,))
    copy = exporting.copy

    def meanwhile(*arguments):
        with pytest.raises(ExportRefused, match="another export"):
            export_database(path, static, SIGNER.vkey)
        export_full(path, static, SIGNER.vkey)
        copy(*arguments)

    monkeypatch.setattr(exporting, "copy", meanwhile)
    assert export_database(path, static, SIGNER.vkey).written == 1


@pytest.mark.parametrize("number", [errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP])
def test_where_there_are_no_locks_it_is_done_without(tmp_path, monkeypatch, number):
    def none(*_):
        raise OSError(number, "no locks")

    make_log(tmp_path / "log.db", (3,))
    monkeypatch.setattr(fcntl, "flock", none)
    done = export(tmp_path / "log.db", tmp_path / "static", SIGNER.vkey)
    assert done.written == done.files


def test_the_command(tmp_path):
    run = lambda *words: CliRunner().invoke(main, [str(word) for word in words])  # noqa: E731
    assert run("init", tmp_path / "data", "--origin", "log.example/x").exit_code == 0
    done = run("log", "export", tmp_path / "static", "--dir", tmp_path / "data", "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"size": 1, "files": 5, "written": 5})
    assert run("init", tmp_path / "other", "--origin", "log.example/y").exit_code == 0
    done = run("log", "export", tmp_path / "static", "--dir", tmp_path / "other")
    assert (done.exit_code, "another log" in done.output) == (2, True)
    for option, files in (("--full-tiles", 1), ("--database", 1)):
        done = run("log", "export", tmp_path / "more", "--dir", tmp_path / "data", option, "--json")
        assert (done.exit_code, json.loads(done.stdout)) == (0, {"size": 1, "files": files, "written": files})
    assert run("log", "export", tmp_path / "data", "--dir", tmp_path / "data", "--database").exit_code == 2
    assert run("log", "export", tmp_path, "--dir", tmp_path / "data", "--database", "--full-tiles").exit_code == 2
    assert "1 entries in 5 files" in run("log", "export", tmp_path / "static", "--dir", tmp_path / "data").stdout
