"""The TypeScript verifier for tests: its dependencies installed as the lock file says, its sources bundled, run by Node.js."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.outside_tools import need_node, need_npm

ROOT = Path(__file__).parent.parent
_NOT_COPIED = shutil.ignore_patterns("node_modules", "build")


def unavailable(why: str) -> None:
    """A machine that cannot install from npm skips; in CI that is a failure."""
    if os.environ.get("CI"):
        pytest.fail(f"{why}, and CI is set")
    pytest.skip(why)


def install(folder: Path) -> None:
    """`npm ci` there, without install scripts."""
    command = [need_npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        unavailable("npm did not install within five minutes")
        raise
    if done.returncode:
        unavailable(f"npm could not install: {done.stderr.strip().splitlines()[:1]}")


def workspace(folder: Path) -> Path:
    """A copy of verifier/web in `folder`, with its dependencies; what lies beside it is where it expects it."""
    web = folder / "verifier" / "web"
    shutil.copytree(ROOT / "verifier" / "web", web, ignore=_NOT_COPIED)
    shutil.copytree(ROOT / "config" / "chains", folder / "config" / "chains")
    install(web)
    return web


def bundle(web: Path, entry: str) -> Path:
    """One module of src/, with all that it imports, as a file that Node.js runs."""
    out = web / "build" / f"{Path(entry).parent.name}-{Path(entry).stem}.mjs"
    esbuild = web / "node_modules" / "esbuild" / "bin" / "esbuild"
    command = [
        need_node(), str(esbuild), entry, "--bundle", "--platform=node", "--format=esm", "--target=node20",
        "--log-level=warning", f"--outfile={out}",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=web, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return out


def run(program: Path, data: str, timeout: int = 240) -> str:
    """What the program answers to its standard input."""
    done = subprocess.run(
        [need_node(), str(program)], input=data, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
