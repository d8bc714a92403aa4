"""The browser verifier as a file: how it is built, what its policy allows, how it is handed out."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests import builder, web_verifier
from tests.outside_tools import need_node
from tests.page_support import build_page
from verifier import web
from verifier.cli import main
from verifier.errors import FormatError
from verifier.web import build

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    return build_page(tmp_path_factory.mktemp("page"))


@pytest.fixture
def built(file, monkeypatch) -> Path:
    """The file in the place of the package's own, which may not be there."""
    monkeypatch.setattr(web, "page", file.read_bytes)
    return file


def test_the_policy_of_the_file_names_its_script_and_its_style_and_nothing_else(file) -> None:
    html = file.read_text(encoding="utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert policy
    rules = dict(rule.split(" ", 1) for rule in policy[1].split("; "))
    assert rules["default-src"] == "'none'"
    for tag, kind in (('<script id="program">', "script"), ("<style>", "style")):
        start = html.index(tag) + len(tag)
        content = html[start : html.index(f"</{kind}>", start)]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[f"{kind}-src"] == f"'sha256-{digest}'"
    assert rules.keys() - {"default-src", "script-src", "style-src"} == {
        "worker-src", "img-src", "base-uri", "form-action", "require-trusted-types-for", "trusted-types",
    }  # fmt: skip
    assert not re.search(r"""(?:src|href|action)=["']?(?!data:)[^"' >]*//""", html[: html.index("<style>")])


def test_the_types_of_the_page_hold() -> None:
    folder = web_verifier.workspace()
    tsc = folder / "node_modules" / "typescript" / "bin" / "tsc"
    done = subprocess.run(
        [need_node(), tsc, "--noEmit", "--project", "src/ui"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_same_sources_give_the_same_bytes(file, tmp_path) -> None:
    assert build_page(tmp_path).read_bytes() == file.read_bytes()


def test_the_script_names_whose_code_is_in_it_and_under_what_licence(file) -> None:
    html = file.read_text(encoding="utf-8")
    needed = json.loads((ROOT / "verifier" / "web" / "package.json").read_text(encoding="utf-8"))["dependencies"]
    for name, version in needed.items():
        assert (f"\n{name} {version}\nCopyright (c) " in html) == (name != "esbuild")
    assert html.count("Permission is hereby granted, free of charge") == 1


def test_a_document_is_put_into_one_line_of_the_page(built) -> None:
    document = builder.data(builder.match(label="</script><!-- <b>").reveal(90).document())
    spread = document.replace(b'"origin"', b'\r\n "origin"', 1)
    plain, given = web.page().splitlines(), web.page_with(spread).splitlines()
    (place,) = (number for number, line in enumerate(plain) if line == web.SLOT)
    assert plain[:place] + plain[place + 1 :] == given[:place] + given[place + 1 :]
    line = given[place]
    assert line.count(b"<") == 2
    assert line.startswith(b'<script type="application/json" id="document">{"format"')


@pytest.mark.parametrize("document", [b"", b"</script>", b"<!doctype html>", b"{", b"\xff"])
def test_what_is_no_document_is_not_put_into_the_page(built, document) -> None:
    with pytest.raises(FormatError):
        web.page_with(document)


def test_the_command_writes_the_page(built, tmp_path) -> None:
    target = tmp_path / "out.html"
    result = CliRunner().invoke(main, ["page", "--output", str(target)])
    assert target.read_bytes() == built.read_bytes()
    assert result.stdout == f"{hashlib.sha256(built.read_bytes()).hexdigest()}  {target}\n"
    assert CliRunner().invoke(main, ["page"]).stdout_bytes == built.read_bytes()
    document = tmp_path / "transcript.json"
    document.write_bytes(builder.data(builder.match().reveal(90).document()))
    assert CliRunner().invoke(main, ["page", "--document", str(document)]).stdout_bytes == web.page_with(
        document.read_bytes()
    )
    nowhere = CliRunner().invoke(main, ["page", "--output", str(tmp_path / "none" / "x")])
    assert (nowhere.exit_code, "cannot write" in nowhere.stderr) == (3, True)


def test_a_package_without_the_page_says_so(monkeypatch) -> None:
    monkeypatch.setattr(web, "FILE_NAME", "not-built.html")
    with pytest.raises(web.PageNotBuiltError, match=web.LEFT_OUT):
        web.page()
    result = CliRunner().invoke(main, ["page"])
    assert (result.exit_code, result.stdout) == (3, "")
    assert web.LEFT_OUT in result.stderr


# --- the build hook ------------------------------------------------------------------------------------------------------

HOOK = f"""
import sys
from hatchling.builders.wheel import WheelBuilder
builder = WheelBuilder({str(ROOT)!r})
(hook,) = builder.get_build_hooks("").values()
print(hook.dependencies())
if sys.argv[1:]:
    hook.initialize("standard", {{}})
"""


def hook(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in os.environ.items() if name != web.LEFT_OUT}
    return subprocess.run(
        [sys.executable, "-c", HOOK, *arguments],
        env={**known, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_build_brings_its_own_node_where_there_is_none(tmp_path) -> None:
    assert hook(PATH=str(tmp_path)).stdout == f"[{build.NODE_PACKAGE!r}]\n"
    assert hook(PATH=str(tmp_path), FAIR_BEACON_NO_PAGE="1").stdout == "[]\n"


def test_an_old_node_is_none(tmp_path, monkeypatch) -> None:
    for version, good in (("v16.20.0", False), ("v18.0.0", True), ("v24.1.0", True), ("nonsense", False)):
        for name in ("node", "npm"):
            (tmp_path / name).write_text(f"#!/bin/sh\necho {version}\n", encoding="utf-8")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
        assert (build.system_node() is not None) == good, version


def test_a_build_that_cannot_be_says_what_is_missing_and_what_to_do(tmp_path) -> None:
    failed = hook("build", PATH=str(tmp_path))
    assert failed.returncode != 0
    assert web.LEFT_OUT in failed.stderr
    assert "Node.js" in failed.stderr


def test_what_the_bundler_says_is_passed_on(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(build, "system_node", lambda: (["sh", "-c", "echo no such file >&2; exit 1"], ["true"]))
    monkeypatch.setattr(build, "_installed", lambda: True)
    with pytest.raises(build.BuildError, match="no such file"):
        build.build(tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_no_part_of_the_lock_file_names_a_host() -> None:
    lock = (ROOT / "verifier" / "web" / "package-lock.json").read_text(encoding="utf-8")
    assert "resolved" not in lock
    assert "://" not in re.sub(r'"(?:url|funding)": "[^"]*"', "", lock)
