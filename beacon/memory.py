"""What is remembered only to spare work is remembered within a limit."""

from __future__ import annotations

from typing import Any


def forget_oldest(remembered: dict[Any, Any], limit: int) -> None:
    """Drop what was put in first, until no more than `limit` is left."""
    while len(remembered) > limit:
        del remembered[next(iter(remembered))]
