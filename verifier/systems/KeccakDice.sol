// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.20;

/// Dice and uniform numbers from one bytes32 word, as keccak-dice.ts and `verifier replay casino-sdk` give them.
///
///     KeccakDice.State memory state = KeccakDice.State(word, 0);
///     uint8 die = KeccakDice.roll(state);                          // 1 to 6
///     uint256 card = KeccakDice.uniform(state, 52, 1);             // 0 to 51, from one byte a try
///
/// Bytes are taken in order; what would make some results likelier than others is rejected; when too few bytes are left
/// the word becomes its own keccak256. Word and index carry over from number to number.
library KeccakDice {
    struct State {
        bytes32 word;
        uint256 index; // bytes of the word that are used up, 0 to 32
    }

    error Range(uint256 n, uint256 width);

    /// A six-sided die: bytes 252 to 255 are rejected.
    function roll(State memory state) internal pure returns (uint8) {
        return uint8(uniform(state, 6, 1)) + 1;
    }

    function roll(State memory state, uint256 count) internal pure returns (uint8[] memory faces) {
        faces = new uint8[](count);
        for (uint256 i = 0; i < count; i++) {
            faces[i] = roll(state);
        }
    }

    /// A number of 0 to n-1, from `width` bytes a try, 1 to 32. Reverts unless 1 <= n <= 256**width.
    function uniform(State memory state, uint256 n, uint256 width) internal pure returns (uint256) {
        if (width == 0 || width > 32 || n == 0 || (width < 32 && n > 1 << (8 * width))) {
            revert Range(n, width);
        }
        // The largest number of `width` bytes, and how many of them from there on are one result too many.
        uint256 largest = type(uint256).max >> (256 - 8 * width);
        uint256 excess = (largest % n + 1) % n;
        while (true) {
            uint256 x = take(state, width);
            if (x <= largest - excess) {
                return x % n;
            }
        }
        revert(); // not reached
    }

    /// The fewest bytes that hold numbers of 0 to n-1: what `uniform` is asked for where a system says no other width.
    function fewest(uint256 n) internal pure returns (uint256 width) {
        width = 1;
        while (width < 32 && n > 1 << (8 * width)) {
            width++;
        }
    }

    function take(State memory state, uint256 width) private pure returns (uint256 x) {
        if (state.index + width > 32) {
            state.word = keccak256(abi.encodePacked(state.word));
            state.index = 0;
        }
        x = uint256(state.word << (8 * state.index)) >> (256 - 8 * width);
        state.index += width;
    }
}
