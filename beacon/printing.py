"""What every command prints."""

from __future__ import annotations

import click

from verifier.terminal import printable_lines


def say(text: str, *, err: bool = False) -> None:
    """Print text that may hold what others wrote: its lines, and nothing that a terminal obeys."""
    click.echo(printable_lines(text), err=err)
