"""Text of somebody else's, so that no terminal and no reader of a log obeys it."""

from __future__ import annotations

import re
from typing import Final

_UNPRINTABLE: Final = re.compile(
    "[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: str) -> str:
    """Text that no terminal obeys: control, direction and surrogate characters as JSON escapes them, line ends too."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def printable_lines(text: str) -> str:
    """The same, with the line ends that it has."""
    return "\n".join(printable(line) for line in text.split("\n"))
