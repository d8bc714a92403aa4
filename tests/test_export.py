"""The log as static files: each of them is what the service answers at that address, byte for byte."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlite_utils import Database

from beacon.cli import main
from beacon.log import cosignatures
from beacon.log.cosignatures import Cosigned
from beacon.log.export import ExportRefused, export
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
    assert seen[-1] == (len(seen) + 1, len(seen) + 1)


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


def test_the_command(tmp_path):
    run = lambda *words: CliRunner().invoke(main, [str(word) for word in words])  # noqa: E731
    assert run("init", tmp_path / "data", "--origin", "log.example/x").exit_code == 0
    done = run("log", "export", tmp_path / "static", "--dir", tmp_path / "data", "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"size": 1, "files": 4, "written": 4})
    assert run("init", tmp_path / "other", "--origin", "log.example/y").exit_code == 0
    done = run("log", "export", tmp_path / "static", "--dir", tmp_path / "other")
    assert (done.exit_code, "another log" in done.output) == (2, True)
    assert "1 entries in 4 files" in run("log", "export", tmp_path / "static", "--dir", tmp_path / "data").stdout
