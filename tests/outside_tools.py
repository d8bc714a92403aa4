"""Programs that are no Python packages: a test that needs one skips without it, but fails where CI is set."""

from __future__ import annotations

import os
import shutil

import pytest

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


def need_node() -> str:
    """The path of Node.js."""
    return _need("Node.js", "node")


def need_npm() -> str:
    """The path of npm."""
    return _need("npm", "npm")


def need_chromium() -> str:
    """The path of a Chromium: as Playwright's `executable_path`, with --no-sandbox where the user is root."""
    return _need("Chromium", *CHROMIUM)


def _need(title: str, *names: str) -> str:
    for name in names:
        if path := shutil.which(name):
            return path
    message = f"{title} is not installed"
    if os.environ.get("CI"):
        pytest.fail(f"{message}, and CI is set")
    pytest.skip(message)
