"""The browser verifier: a second implementation of the check, in TypeScript, built into one HTML file.

The file loads nothing and sends nothing, so it works from a disk as well as from a server. It is built with the package
(`build.py`) and is not part of the repository.
"""

from __future__ import annotations

from importlib import resources
from typing import Final

from verifier.encoding import parse_document_json
from verifier.errors import Code, FormatError

FILE_NAME: Final = "verifier.html"
LEFT_OUT: Final = "FAIR_BEACON_NO_PAGE"
SLOT: Final = b'<script type="application/json" id="document"></script>'


class PageNotBuiltError(FormatError):
    """This copy of the package has no browser verifier in it."""

    def __init__(self) -> None:
        super().__init__(
            Code.USAGE,
            f"the browser verifier was not built: `pip install .` without {LEFT_OUT} builds it, and so does "
            "`python -m verifier.web.build` in a source tree",
        )


def page() -> bytes:
    """The HTML file. Raises PageNotBuiltError."""
    try:
        return resources.files(__name__).joinpath(FILE_NAME).read_bytes()
    except FileNotFoundError:
        raise PageNotBuiltError from None


def page_with(document: bytes) -> bytes:
    """The HTML file that opens with a transcript or receipt (7.2) in it, on the one line that SLOT is in page().

    The text of the document is kept but for `<`, which JSON has only in strings, and which stands there as an escape.
    Raises PageNotBuiltError, and FormatError(JSON) for what is no JSON document: it could end the element.
    """
    parse_document_json(document)
    lines = b" ".join(document.replace(b"<", b"\\u003c").splitlines())
    before, slot, after = page().partition(SLOT)
    opening, closing = slot[: slot.index(b">") + 1], slot[slot.index(b">") + 1 :]
    return before + opening + lines + closing + after
