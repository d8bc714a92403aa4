"""What the verifier reads from files: documents, with a size limit, and the chains pinned in the distribution."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

from verifier.drand import ChainInfo, parse_any_info, parse_pinned_chain
from verifier.encoding import MAX_DOCUMENT_BYTES, parse_document_json
from verifier.errors import Code, FormatError

MAX_CHAIN_BYTES: Final = 16 * 1024
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
    if not Path(name_or_path).exists():
        raise FormatError(Code.USAGE, f"{name_or_path} is neither a file nor a pinned chain ({', '.join(pinned)})")
    return parse_any_info(parse_document_json(read_file(name_or_path, MAX_CHAIN_BYTES)))
