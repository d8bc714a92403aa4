/** From a seal to a stream of bytes (PROTOCOL.md, section 4). */
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 as SHA256 } from "@noble/hashes/sha2.js";
import { compare, concat, equal, lp, sha256, toBigInt, u32, u64, utf8 } from "./bytes.ts";
import type { Contributed } from "./entries.ts";

export const BLOCK_BYTES = 32;

const SESSION = lp(utf8("fair-beacon/v1/session"));
const BINDING = lp(utf8("fair-beacon/v1/binding"));
const CONTRIBUTION = lp(utf8("fair-beacon/v1/contribution"));

type Entropy = Pick<Contributed, "participant" | "entropy">;

/** u32(c) ‖ LP(p_1) ‖ LP(e_1) ‖ …, sorted by the bytes of p (2.8) */
function listBytes(contributions: readonly Entropy[]): Uint8Array {
  const items = contributions.map(({ participant, entropy }) => ({ id: utf8(participant), entropy }));
  items.sort((one, other) => compare(one.id, other.id));
  return concat(u32(items.length), ...items.flatMap(({ id, entropy }) => [lp(id), lp(entropy)]));
}

/** What S is the hash of. */
export function sessionPreimage(seal: Uint8Array, contributions: readonly Entropy[]): Uint8Array {
  return concat(SESSION, seal, listBytes(contributions));
}

/** S = H(LP("fair-beacon/v1/session") ‖ leaf(seal) ‖ list) */
export function sessionDigest(seal: Uint8Array, contributions: readonly Entropy[]): Uint8Array {
  return sha256(sessionPreimage(seal, contributions));
}

/** What a binding is made from: S, and k, contributions, number and randomness of the round (4.1, 4.2). */
export interface Bound {
  readonly digest: Uint8Array;
  readonly k: number;
  readonly called: readonly Entropy[];
  readonly round: number;
  readonly random: Uint8Array;
}

/** What B is the hash of. */
export function bindingPreimage({ digest, k, called, round, random }: Bound): Uint8Array {
  return concat(BINDING, digest, u32(k), listBytes(called), u64(round), random);
}

/** B = H(LP("fair-beacon/v1/binding") ‖ S ‖ u32(k) ‖ list ‖ u64(R) ‖ randomness(R)) */
export function bindingOf(bound: Bound): Uint8Array {
  return sha256(bindingPreimage(bound));
}

/** What a participant with a key signs (4.4). `draw`: of a call; a session's contribution has none. */
export function contributionMessage(
  seal: Uint8Array,
  { participant, entropy }: Entropy,
  call?: { readonly draw: number; readonly recipe: string; readonly n: number; readonly purpose: string },
): Uint8Array {
  const { draw = 0, recipe = "", n = 0, purpose = "" } = call ?? {};
  return concat(
    CONTRIBUTION,
    seal,
    u32(draw),
    lp(utf8(recipe)),
    u32(n),
    lp(utf8(purpose)),
    lp(utf8(participant)),
    lp(entropy),
  );
}

/** s_0 of s_k: k times H. */
export function hashDown(link: Uint8Array, steps: number): Uint8Array {
  let value = link;
  for (let i = 0; i < steps; i++) {
    value = sha256(value);
  }
  return value;
}

/** Whether a link that stands `steps` above the commitment opens it (4.1). */
export function opens(link: Uint8Array, steps: number, commitment: Uint8Array): boolean {
  return equal(hashDown(link, steps), commitment);
}

/** Where an outcome takes its bytes from. */
export interface ByteSource {
  take(count: number): Uint8Array;
}

/** block_0 ‖ block_1 ‖ …, block_j = HMAC-SHA256(s_k, B ‖ LP(recipe) ‖ u32(n) ‖ u32(j)) (4.1, 4.3) */
export class Stream implements ByteSource {
  readonly blocks: Uint8Array[] = [];
  /** How many bytes were taken. */
  taken = 0;
  /** What was taken, piece by piece, if somebody wants to see it. */
  trace: Uint8Array[] | null = null;
  /** What every block is the HMAC of, in front of u32(j). */
  readonly prefix: Uint8Array;

  constructor(
    readonly key: Uint8Array,
    readonly binding: Uint8Array,
    readonly recipe: string,
    readonly n: number,
  ) {
    this.prefix = concat(binding, lp(utf8(recipe)), u32(n));
  }

  /** block_0 */
  get word(): Uint8Array {
    return this.#block(0);
  }

  take(count: number): Uint8Array {
    const bytes = new Uint8Array(count);
    for (let i = 0; i < count; i++) {
      bytes[i] = this.#block(Math.floor(this.taken / BLOCK_BYTES))[this.taken % BLOCK_BYTES] as number;
      this.taken += 1;
    }
    this.trace?.push(bytes);
    return bytes;
  }

  #block(j: number): Uint8Array {
    for (let i = this.blocks.length; i <= j; i++) {
      this.blocks.push(hmac(SHA256, this.key, concat(this.prefix, u32(i))));
    }
    return this.blocks[j] as Uint8Array;
  }
}

/** A number below n, 1 ≤ n ≤ 2^64, by rejection (5.1). */
export function uniform(source: ByteSource, n: bigint): bigint {
  if (n === 1n) {
    return 0n;
  }
  let width = 1;
  while (256n ** BigInt(width) < n) {
    width += 1;
  }
  const all = 256n ** BigInt(width);
  const limit = all - (all % n);
  for (;;) {
    const x = toBigInt(source.take(width));
    if (x < limit) {
      return x % n;
    }
  }
}

/** The same for n ≤ 2^48, where numbers are exact and fast. */
export function uniformNumber(source: ByteSource, n: number): number {
  if (n === 1) {
    return 0;
  }
  let width = 1;
  let all = 256;
  while (all < n) {
    width += 1;
    all *= 256;
  }
  const limit = all - (all % n);
  for (;;) {
    const x = source.take(width).reduce((value, byte) => value * 256 + byte, 0);
    if (x < limit) {
      return x % n;
    }
  }
}
