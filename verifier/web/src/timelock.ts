/**
 * tlock: what a drand round opens (PROTOCOL.md, 7.3), in the format of drand's own tools.
 *
 * The one stanza of an age file is `tlock ROUND CHAIN_HASH`, its body U ‖ V ‖ W. With the round's signature as the
 * private key of the identity that the round is, and P the generator of the group of the chain's key:
 *
 *     σ = V ⊕ H2(e(signature, U))      M = W ⊕ H4(σ)      and r·P must be U, for r = H3(σ, M)
 *
 * M is the age file key.
 */
import { type AgeFile, FILE_KEY_BYTES, openAge, parseAge } from "./age.ts";
import { equal, hex, parseDecimal, sha256, toBigInt, utf8 } from "./bytes.ts";
import type { Chain } from "./chains.ts";
import { FormatError } from "./errors.ts";
import type { TimelockGroup } from "./schemes.ts";

const SIGMA_BYTES = 16;
const MAX_ROUND = 2n ** 63n - 1n;
const ORDER = 0x73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001n;

/** A ciphertext of the right form for its chain. */
export interface Ciphertext {
  readonly chain: Chain;
  readonly round: bigint;
  /** U, not decoded yet. */
  readonly point: Uint8Array;
  /** V */
  readonly maskedSigma: Uint8Array;
  /** W */
  readonly maskedKey: Uint8Array;
  readonly file: AgeFile;
}

export type Opened =
  | { readonly opens: true; readonly fileKey: Uint8Array; readonly plaintext: Uint8Array }
  | { readonly opens: false; readonly why: string };

function refusal(what: string): FormatError {
  return new FormatError("timelock", what);
}

function groupOf(chain: Chain): TimelockGroup {
  if (chain.rules.timelock === null) {
    throw refusal(`chains of ${chain.scheme} cannot carry a timelock`);
  }
  return chain.rules.timelock;
}

/** Throws FormatError for a file of another form, or to another chain. */
export function parseTimelock(data: Uint8Array, chain: Chain): Ciphertext {
  groupOf(chain);
  const file = parseAge(data);
  const [kind, round = "", hash, ...others] = file.arguments;
  if (kind !== "tlock" || hash === undefined || others.length > 0) {
    throw refusal("its stanza is not `tlock`, a round and a chain hash");
  }
  if (hash !== hex(chain.hash)) {
    throw refusal("it is to another chain");
  }
  const number = parseDecimal(round, MAX_ROUND);
  if (number < 1n) {
    throw refusal("rounds start at 1");
  }
  const { body } = file;
  const size = chain.rules.keyBytes;
  if (body.length !== size + SIGMA_BYTES + FILE_KEY_BYTES) {
    throw refusal(`its stanza has ${body.length} bytes, not ${size + SIGMA_BYTES + FILE_KEY_BYTES}`);
  }
  return {
    chain,
    round: number,
    point: body.subarray(0, size),
    maskedSigma: body.subarray(size, size + SIGMA_BYTES),
    maskedKey: body.subarray(size + SIGMA_BYTES),
    file,
  };
}

/** Open it with the signature of its round, which must have been verified. */
export function openTimelock(ciphertext: Ciphertext, signature: Uint8Array): Opened {
  const failed = (why: string): Opened => ({ opens: false, why });
  const group = groupOf(ciphertext.chain);
  const shared = group.pairing(signature, ciphertext.point);
  if (shared === null) {
    return failed("U is not the one encoding of a point of prime order");
  }
  const sigma = xor(ciphertext.maskedSigma, h2(shared));
  const fileKey = xor(ciphertext.maskedKey, h4(sigma));
  if (!equal(group.multiple(h3(sigma, fileKey)), ciphertext.point)) {
    return failed("r·P is not U");
  }
  const plaintext = openAge(ciphertext.file, fileKey);
  return plaintext === null ? failed("the age file was altered") : { opens: true, fileKey, plaintext };
}

function h2(shared: Uint8Array): Uint8Array {
  return sha256(utf8("IBE-H2"), shared).subarray(0, SIGMA_BYTES);
}

/** The first of H(u16le(i) ‖ b), i = 1, 2, …, that is below the order when halved in its first byte. */
function h3(sigma: Uint8Array, fileKey: Uint8Array): bigint {
  const seed = sha256(utf8("IBE-H3"), sigma, fileKey);
  for (let i = 1; ; i++) {
    const digest = sha256(Uint8Array.of(i & 255, i >> 8), seed);
    digest[0] = (digest[0] as number) >> 1;
    const factor = toBigInt(digest);
    if (factor > 0n && factor < ORDER) {
      return factor;
    }
  }
}

function h4(sigma: Uint8Array): Uint8Array {
  return sha256(utf8("IBE-H4"), sigma).subarray(0, FILE_KEY_BYTES);
}

function xor(one: Uint8Array, other: Uint8Array): Uint8Array {
  return one.map((byte, i) => byte ^ (other[i] as number));
}
