"""What the verifier reads: files and addresses, with a size limit, and the chains pinned in the distribution."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from pathlib import Path
from typing import Final

from verifier.connection import UNREACHABLE, Answer, exchange
from verifier.drand import ChainInfo, Round, parse_any_info, parse_pinned_chain
from verifier.encoding import MAX_DOCUMENT_BYTES, parse_document_json, parse_hex
from verifier.errors import Code, FormatError

MAX_CHAIN_BYTES: Final = 16 * 1024
MAX_ROUND_BYTES: Final = 16 * 1024
IDLE_SECONDS: Final = 30
"""Without a byte."""
DOWNLOAD_SECONDS: Final = 300
"""From the first connection to the last byte."""
MOST_TRIES: Final = 5
MOST_WAIT: Final = 60
_LATER: Final = frozenset({429, 503})
TEST_NETWORKS: Final = frozenset({"quicknet-t", "testnet-default", "testnet-unchained-3s"})


def read_file(path: Path | str, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
    """The bytes of a file of at most `limit` bytes; FormatError(USAGE) when it cannot be read or is larger."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise FormatError(Code.USAGE, f"cannot read {path}: {error.strerror}") from error
    if len(data) > limit:
        raise FormatError(Code.USAGE, f"{path} has more than {limit} bytes")
    return data


def is_url(text: str) -> bool:
    """Whether it is an address that `download` takes: http or https."""
    return text.startswith(("https://", "http://"))


def download(url: str, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
    """The body at an http or https address, of at most `limit` bytes. Waits and asks again after a 429 or a 503.

    FormatError(USAGE) when there is none, or it is larger, or takes longer than DOWNLOAD_SECONDS to come, or leads to
    another host.
    """
    if not is_url(url):
        raise FormatError(Code.USAGE, f"{url} is no http or https address")
    for tries in range(1, MOST_TRIES + 1):
        try:
            answer = exchange(url, limit=limit, idle=IDLE_SECONDS, total=DOWNLOAD_SECONDS)
        except UNREACHABLE as error:
            reason = getattr(error, "reason", error)
            raise FormatError(
                Code.USAGE, f"cannot read {url}: {getattr(reason, 'strerror', None) or reason}"
            ) from error
        if answer.status == 200:
            if len(answer.body) > limit:
                raise FormatError(Code.USAGE, f"{url} has more than {limit} bytes")
            return answer.body
        if answer.status not in _LATER or tries == MOST_TRIES:
            raise FormatError(Code.USAGE, f"{url} answers {answer.status}")
        time.sleep(_retry_after(answer))
    raise AssertionError("each try returns or raises")


def _retry_after(answer: Answer) -> int:
    stated = answer.headers.get("Retry-After", "")
    return min(int(stated), MOST_WAIT) if stated.isascii() and stated.isdigit() and len(stated) < 10 else 1


def relay_round(relay: str, chain: ChainInfo, number: int) -> Round:
    """A round as a drand relay states it, not verified: `/HASH/public/ROUND` of its address.

    Raises FormatError(USAGE) where the relay does not have it, and FormatError for what is no round.
    """
    address = f"{relay.rstrip('/')}/{chain.hash.hex()}/public/{number}"
    stated = parse_document_json(download(address, MAX_ROUND_BYTES))
    previous = parse_hex(stated.get("previous_signature")) if chain.scheme.chained else None
    return Round(number, parse_hex(stated.get("signature")), previous)


def chains_directory() -> Path:
    """Where the pinned chains are: beside this file in an installed wheel, else `config/chains` of the source tree."""
    installed = Path(__file__).parent / "chains"
    return installed if installed.is_dir() else Path(__file__).parent.parent / "config" / "chains"


@lru_cache(maxsize=1)
def _pinned() -> tuple[tuple[str, ChainInfo], ...]:
    files = sorted(chains_directory().glob("*.json"))
    return tuple(
        (file.stem, parse_pinned_chain(parse_document_json(read_file(file, MAX_CHAIN_BYTES)))) for file in files
    )


def pinned_chains() -> dict[str, ChainInfo]:
    """The chains that come with the distribution, by name."""
    return dict(_pinned())


def main_chains() -> dict[str, ChainInfo]:
    """The pinned chains that a verifier trusts unless it is told otherwise: drand's main network, no test network."""
    return {name: chain for name, chain in _pinned() if name not in TEST_NETWORKS}


def load_chain(name_or_path: str) -> ChainInfo:
    """A pinned chain by its name or chain hash, or the chain info in a file.

    A file holds this project's form, or a relay's v1 or v2. It is the caller's trust: its scheme is believed.
    Raises FormatError(CHAIN_INFO, SCHEME, JSON or USAGE).
    """
    pinned = pinned_chains()
    if name_or_path in pinned:
        return pinned[name_or_path]
    for chain in pinned.values():
        if chain.hash.hex() == name_or_path:
            return chain
    if not os.path.exists(name_or_path):  # noqa: PTH110 - False for what can be no name
        raise FormatError(Code.USAGE, f"{name_or_path} is neither a file nor a pinned chain ({', '.join(pinned)})")
    return parse_any_info(parse_document_json(read_file(name_or_path, MAX_CHAIN_BYTES)))
