"""Keccak-256 and the dice of the on-chain mapping (PROTOCOL.md, 5.2).

word = 32 bytes, index = 0
a die: take word[index]; below 252 it gives (byte mod 6) + 1, else the next byte is taken
after the last byte: word = Keccak-256(word), index = 0; both carry over from die to die
"""

from __future__ import annotations

from typing import Final

from Crypto.Hash import keccak

from verifier.errors import Code, FormatError

WORD_BYTES: Final = 32


class KeccakDice:
    """Six-sided dice of the on-chain mapping. `word` (32 bytes) and `index` carry over from die to die.

    Raises FormatError(RECIPE) for a word of another length.
    """

    def __init__(self, word: bytes, index: int = 0) -> None:
        """index: 0 to 32, how many bytes of the word are used up."""
        if len(word) != WORD_BYTES:
            raise FormatError(Code.RECIPE, f"a word has {WORD_BYTES} bytes")
        self.word = word
        self.index = index
        self.rehashes = 0

    def take(self, width: int) -> int:
        """The next `width` bytes (1 to 32) as a big-endian number; too few that are left are thrown away."""
        if self.index + width > len(self.word):
            self.word, self.index = keccak256(self.word), 0
            self.rehashes += 1
        taken = self.word[self.index : self.index + width]
        self.index += width
        return int.from_bytes(taken, "big")

    def roll(self) -> int:
        """The next die, 1 to 6."""
        while True:
            byte = self.take(1)
            if byte < 252:
                return byte % 6 + 1


def keccak_dice(word: bytes, count: int) -> list[int]:
    """`count` six-sided dice of the on-chain mapping, from a 32-byte word."""
    dice = KeccakDice(word)
    return [dice.roll() for _ in range(count)]


def keccak256(data: bytes) -> bytes:
    """Keccak-256 with the original padding, not SHA3-256; 32 bytes."""
    return keccak.new(digest_bits=256, data=data).digest()
