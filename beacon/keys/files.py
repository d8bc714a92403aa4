"""Key files during a rotation: `X.key` is in force, `X.next.key` comes after it, `X.<id>.key` was before.

A key is never overwritten: what was in force gets its second name before the next one takes the first.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from beacon.settings import ConfigurationError, sync_directory

Step = Callable[[str], None]
"""Told the name of each step of a rotation, so that a test can end the process there."""


def no_step(_name: str) -> None:
    """Nobody wants to know."""


def next_of(path: Path) -> Path:
    """The file of the key that comes after the one in `path`, during a rotation."""
    return path.with_name(f"{path.stem}.next{path.suffix}")


def retired_of(path: Path, identifier: str) -> Path:
    """The file of a key that was in `path`. identifier: of the key, hex."""
    return path.with_name(f"{path.stem}.{identifier}{path.suffix}")


def put_in_force(path: Path, identifier: str, step: Step) -> Path:
    """Make the next key the one in force, durably; gives the file that the one before has now.

    identifier: of the key that is in force. Again after a crash it goes on. Raises ConfigurationError, OSError.
    """
    retired = retired_of(path, identifier)
    try:
        os.link(path, retired)
    except FileExistsError:
        if retired.read_bytes() != path.read_bytes():
            raise ConfigurationError(f"{retired} is there, and holds another key than {path}.") from None
    sync_directory(path.parent)
    step("kept-old")
    next_of(path).replace(path)
    sync_directory(path.parent)
    step("in-force")
    return retired
