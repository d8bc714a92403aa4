"""The bytes of entries on their way into the log: encoded once, and parsed again once, before anybody sees them.

`encode` proves that what it returns parses to the entry that was meant; the parsed entry is kept for the book, which is
handed the same bytes a moment later.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from beacon.errors import ApiError
from verifier import entries
from verifier.errors import FormatError

KEPT: Final = 512


@lru_cache(maxsize=KEPT)
def parse(data: bytes) -> entries.Entry:
    """The entry of these exact bytes. Raises FormatError."""
    return entries.parse_entry(data)


def encode(entry: entries.Entry) -> bytes:
    """The bytes of an entry, proven to parse to it again. Raises ApiError(entry-too-long)."""
    try:
        data = entries.encode_entry(entry)
    except FormatError as error:
        raise ApiError("entry-too-long", error.message) from error
    if parse(data) != entry:
        raise ValueError("an entry does not survive its own encoding")
    return data
