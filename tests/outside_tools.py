"""Programs that are no Python packages: a test that needs one skips without it, but fails where CI is set.

NOT_HERE names, separated by spaces, those that .ci/run could not install and says so of.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from typing import NoReturn

import pytest

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
SBIN = ("/usr/sbin/nginx", "/sbin/nginx")
"""Where Debian has nginx, which is not on everybody's path."""


def need_node() -> str:
    """The path of Node.js."""
    return _need("Node.js", "node")


def need_npm() -> str:
    """The path of npm."""
    return _need("npm", "npm")


def need_chromium() -> str:
    """The path of a Chromium: as Playwright's `executable_path`, with --no-sandbox where the user is root."""
    return _need("Chromium", *CHROMIUM)


def need_nginx() -> str:
    """The path of nginx."""
    return _need("nginx", "nginx", *SBIN)


def need_curl() -> str:
    """The path of curl, which speaks HTTP/2."""
    return _need("curl", "curl")


def need_openssl() -> str:
    """The path of the command line of OpenSSL."""
    return _need("openssl", "openssl")


def need_promtool() -> str:
    """The path of Prometheus's promtool."""
    return _need("promtool", "promtool")


def need_systemd_analyze() -> str:
    """The path of systemd-analyze, which needs no running systemd."""
    return _need("systemd-analyze", "systemd-analyze")


def need_libseccomp() -> None:
    """The library by which systemd, and tests/jailed.py, take system calls from a program."""
    try:
        ctypes.CDLL("libseccomp.so.2")
    except OSError:
        _missing("libseccomp", "libseccomp")


def need_hadolint() -> str:
    """The path of hadolint."""
    return _need("hadolint", "hadolint")


def need_check_jsonschema() -> str:
    """The path of check-jsonschema, which carries the schema of compose files."""
    return _need("check-jsonschema", "check-jsonschema")


def need_litestream() -> str:
    """The path of Litestream."""
    return _need("litestream", "litestream")


def _missing(title: str, *names: str) -> NoReturn:
    message = f"{title} is not installed"
    if os.environ.get("CI") and not {*names} & {*os.environ.get("NOT_HERE", "").split()}:
        pytest.fail(f"{message}, and CI is set")
    pytest.skip(message)


def _need(title: str, *names: str) -> str:
    for name in names:
        if path := shutil.which(name):
            return path
    _missing(title, *names)
