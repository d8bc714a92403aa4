"""`verifier page`: the browser verifier as a file."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import click

from verifier import web
from verifier.cli_common import read, say
from verifier.errors import Code, FormatError


@click.command()
@click.option("--output", type=click.Path(dir_okay=False), metavar="FILE", help="Write it there and print its SHA-256.")
@click.option("--document", metavar="FILE", help="Put this transcript or receipt, or - for standard input, into it.")
def page(output: str | None, document: str | None) -> None:
    """Write the browser verifier: one HTML file that checks transcripts and receipts on any device.

    It is a second implementation of `verifier check`, in TypeScript. The file loads nothing and sends nothing, so it
    works from a disk, with the network cut. With --document it opens with the answer on that document; without, it
    is the same file for everybody, and its SHA-256 can be compared.

    \b
    Examples:
      verifier page --output verifier.html
      verifier page --document transcript.json --output check.html
      verifier page | sha256sum
    """
    html = web.page() if document is None else web.page_with(read(document))
    if output is None:
        sys.stdout.buffer.write(html)
        return
    try:
        Path(output).write_bytes(html)
    except OSError as error:
        raise FormatError(Code.USAGE, f"cannot write {output}: {error.strerror}") from error
    say(f"{hashlib.sha256(html).hexdigest()}  {output}")
