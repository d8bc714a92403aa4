/** From a stream to an outcome (PROTOCOL.md, section 5). */
import { keccak_256 } from "@noble/hashes/sha3.js";
import { hex } from "./bytes.ts";
import type { Json } from "./json.ts";
import { type Recipe, totalWeight } from "./recipes.ts";
import { type ByteSource, BLOCK_BYTES, Stream, uniform, uniformNumber } from "./seeds.ts";

/** An array of integers; for `bytes` a hex string (5.3). */
export type Outcome = readonly number[] | string;

/** Bytes from here on would favour the low faces of a die. */
const DIE_LIMIT = 252;

/** A deck from which cards leave: a = [0 … n−1], of which only what was swapped is written down. */
export class Deck {
  readonly #swapped = new Map<number, number>();
  #gone = 0;

  constructor(private readonly size: number) {}

  /** `count` cards, or null if there are not so many left. */
  deal(source: ByteSource, count: number): readonly number[] | null {
    if (this.#gone + count > this.size) {
      return null;
    }
    const cards: number[] = [];
    for (const end = this.#gone + count; this.#gone < end; this.#gone++) {
      const j = this.#gone + uniformNumber(source, this.size - this.#gone);
      cards.push(this.#at(j));
      this.#swapped.set(j, this.#at(this.#gone));
      this.#swapped.delete(this.#gone);
    }
    return cards;
  }

  #at(i: number): number {
    return this.#swapped.get(i) ?? i;
  }
}

/** The outcome of one draw. `deck`: of a recipe of the kind deal, as the draws before have left it; null: past its end. */
export function outcomeOf(recipe: Recipe, stream: Stream, deck: Deck | null): Outcome | null {
  switch (recipe.kind) {
    case "dice":
      return dice(recipe, stream);
    case "integers":
      return integers(stream, recipe);
    case "shuffle":
      return shuffle(stream, recipe.size);
    case "sample":
      return new Deck(recipe.size).deal(stream, recipe.count);
    case "deal":
      return (deck ?? new Deck(recipe.size)).deal(stream, recipe.count);
    case "weighted":
      return weighted(stream, recipe.weights, recipe.count);
    case "bytes":
      return hex(stream.take(recipe.count));
  }
}

function times<T>(count: number, make: () => T): readonly T[] {
  return Array.from({ length: count }, make);
}

function dice(recipe: Extract<Recipe, { kind: "dice" }>, stream: Stream): readonly number[] {
  const { count, sides, variant } = recipe;
  if (variant === "keccak") {
    return keccakDice(stream.word, count);
  }
  for (;;) {
    const roll = times(count, () => uniformNumber(stream, sides) + 1);
    if (variant === "plain" || new Set(roll).size === count) {
      return roll;
    }
  }
}

/** The on-chain mapping: the bytes of word, Keccak-256(word), Keccak-256 of that … */
function keccakDice(first: Uint8Array, count: number): readonly number[] {
  const roll: number[] = [];
  let word = first;
  let index = 0;
  while (roll.length < count) {
    if (index === BLOCK_BYTES) {
      word = keccak_256(word);
      index = 0;
    }
    const byte = word[index++] as number;
    if (byte < DIE_LIMIT) {
      roll.push((byte % 6) + 1);
    }
  }
  return roll;
}

function integers(stream: Stream, { min, max, count }: { min: number; max: number; count: number }): readonly number[] {
  const range = BigInt(max) - BigInt(min) + 1n;
  return times(count, () => Number(BigInt(min) + uniform(stream, range)));
}

function shuffle(stream: Stream, size: number): readonly number[] {
  const a = times(size, () => 0).map((_, i) => i);
  for (let i = size - 1; i >= 1; i--) {
    const j = uniformNumber(stream, i + 1);
    [a[i], a[j]] = [a[j] as number, a[i] as number];
  }
  return a;
}

function weighted(stream: Stream, weights: readonly number[], count: number): readonly number[] {
  const total = totalWeight(weights);
  const cumulative: bigint[] = [];
  let sum = 0n;
  for (const weight of weights) {
    sum += BigInt(weight);
    cumulative.push(sum);
  }
  return times(count, () => {
    const x = uniform(stream, total);
    return cumulative.findIndex((bound) => bound > x);
  });
}

/** Whether a stated outcome has the shape that the recipe's have (5.3), whatever it says. */
export function hasShape(recipe: Recipe, stated: Json): boolean {
  if (recipe.kind === "bytes") {
    return typeof stated === "string" && stated.length === 2 * recipe.count && /^[0-9a-f]*$/.test(stated);
  }
  return Array.isArray(stated) && stated.length === lengthOf(recipe);
}

function lengthOf(recipe: Exclude<Recipe, { kind: "bytes" }>): number {
  return recipe.kind === "shuffle" ? recipe.size : recipe.count;
}

/** Whether a stated outcome is the computed one. */
export function isOutcome(stated: Json, computed: Outcome): boolean {
  if (typeof computed === "string" || !Array.isArray(stated)) {
    return stated === computed;
  }
  return stated.length === computed.length && stated.every((item, i) => item === computed[i]);
}
