"""Who signs the log's checkpoints: one key, or for a while, while one follows the other, both (C2SP signed-note)."""

from __future__ import annotations

from typing import Final, Self, TypeAlias

from verifier.note import SigningKey, VerifierKey

MOST: Final = 2


class Signers:
    """One or two keys of one log, the older first. Documents name that one. Seeds are in no repr."""

    def __init__(self, *keys: SigningKey) -> None:
        if not 1 <= len(keys) <= MOST or len({key.name for key in keys}) != 1 or len(set(keys)) != len(keys):
            raise ValueError("one or two keys of one log")
        self.keys: Final = keys

    @classmethod
    def of(cls, signer: Signer) -> Self:
        """Those, or the one key alone."""
        return cls(signer) if isinstance(signer, SigningKey) else cls(*signer.keys)

    @property
    def name(self) -> str:
        """The log's origin."""
        return self.keys[0].name

    @property
    def vkey(self) -> VerifierKey:
        """The key that documents name: the older one, which everybody knows already."""
        return self.keys[0].vkey

    @property
    def vkeys(self) -> tuple[VerifierKey, ...]:
        """The public halves, the older first."""
        return tuple(key.vkey for key in self.keys)

    def sign(self, text: str) -> str:
        """The signature lines of all, newlines included, over a text that ends in one."""
        return "".join(key.sign(text) for key in self.keys)


Signer: TypeAlias = SigningKey | Signers
