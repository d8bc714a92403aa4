/**
 * Dice and uniform numbers from one bytes32 word, as KeccakDice.sol beside the Python verifier gives them on a chain.
 *
 *     const dice = new KeccakDice(word);   // 32 bytes
 *     dice.roll();                         // 1 to 6
 *     dice.uniform(52n);                   // 0 to 51
 *
 * Bytes are taken in order; what would make some results likelier than others is rejected; when too few bytes are left the
 * word becomes its own Keccak-256. Word and index carry over from number to number.
 */
import { keccak_256 } from "@noble/hashes/sha3.js";

export class KeccakDice {
  #word: Uint8Array;
  #index: number;

  constructor(word: Uint8Array, index = 0) {
    if (word.length !== 32) {
      throw new RangeError("a word has 32 bytes");
    }
    this.#word = word;
    this.#index = index;
  }

  get word(): Uint8Array {
    return this.#word;
  }

  get index(): number {
    return this.#index;
  }

  roll(): number {
    return Number(this.uniform(6n, 1)) + 1;
  }

  /** A number of 0 to n-1, from `width` bytes a try (1 to 32), by default the fewest that hold n. */
  uniform(n: bigint, width = fewest(n)): bigint {
    const values = 1n << BigInt(8 * width);
    for (;;) {
      const x = this.#take(width);
      if (x < values - (values % n)) {
        return x % n;
      }
    }
  }

  #take(width: number): bigint {
    if (this.#index + width > 32) {
      this.#word = keccak_256(this.#word);
      this.#index = 0;
    }
    let x = 0n;
    for (const byte of this.#word.subarray(this.#index, this.#index + width)) {
      x = (x << 8n) | BigInt(byte);
    }
    this.#index += width;
    return x;
  }
}

function fewest(n: bigint): number {
  let width = 1;
  while (1n << BigInt(8 * width) < n) {
    width += 1;
  }
  return width;
}
