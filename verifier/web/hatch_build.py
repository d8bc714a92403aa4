"""The build hook of the distribution: wheels, and source trees installed as editable, get the browser verifier.

FAIR_BEACON_NO_PAGE=1 leaves it out: the service then answers its page with an error, and the rest works.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LEFT_OUT = "FAIR_BEACON_NO_PAGE"


class PageHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds the page before a wheel is packed. A Node.js comes with the build's own packages where none is found."""

    def dependencies(self) -> list[str]:
        build = _build()
        return [] if _left_out() or build.system_node() is not None else [build.NODE_PACKAGE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        build = _build()
        if _left_out():
            build.PAGE.unlink(missing_ok=True)
            return
        try:
            build.build()
        except build.BuildError as error:
            sys.exit(f"The browser verifier cannot be built ({LEFT_OUT}=1 leaves it out): {error}")


def _left_out() -> bool:
    return os.environ.get(LEFT_OUT, "") not in {"", "0"}


def _build() -> ModuleType:
    """build.py beside this file; the package itself may need what a build does not install."""
    spec = importlib.util.spec_from_file_location("_fair_beacon_page", Path(__file__).parent / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
