/**
 * tlock: what a drand round opens (PROTOCOL.md, 7.3; N. Gailly, K. Melissaris, Y. Romailler, ePrint 2023/189).
 *
 * The stanza's body is U ‖ V ‖ W. With the round's signature S: σ = V ⊕ H2(e(S, U)), the file key is M = W ⊕ H4(σ), and
 * H3(σ, M) times the generator has to be U.
 */
import { type AgeFile, openAge, parseAge } from "./age.ts";
import { concat, equal, hex, parseBase64, parseDecimal, sha256, toBigInt, utf8 } from "./bytes.ts";
import type { Chain } from "./chains.ts";
import type { Timelock } from "./entries.ts";
import { FormatError } from "./errors.ts";
import { MAX_SIZE } from "./note.ts";
import type { IdentityBased } from "./schemes.ts";

const KEY_BYTES = 16;

/** A ciphertext that is well formed for its chain. */
export interface Ciphertext {
  readonly file: AgeFile;
  readonly round: bigint;
  readonly point: Uint8Array;
  readonly maskedSigma: Uint8Array;
  readonly maskedKey: Uint8Array;
  readonly curves: IdentityBased;
}

/** The ciphertext of a seal's timelock, for the round and chain that the seal names. */
export function parseTimelock({ ciphertext, round }: Timelock, chain: Chain): Ciphertext {
  const parsed = parseCiphertext(parseBase64(ciphertext), chain);
  if (parsed.round !== BigInt(round)) {
    throw new FormatError("timelock", `the ciphertext is to round ${parsed.round}, the seal says ${round}`);
  }
  return parsed;
}

export function parseCiphertext(bytes: Uint8Array, chain: Chain): Ciphertext {
  const { identityBased: curves, keyBytes, name } = chain.rules;
  const refusal = (what: string): FormatError => new FormatError("timelock", what);
  if (curves === null) {
    throw refusal(`a chain of ${name} cannot carry a timelock`);
  }
  const file = parseAge(bytes);
  const [kind, number = "", hash, ...others] = file.arguments;
  if (kind !== "tlock" || others.length > 0 || hash !== hex(chain.hash)) {
    throw refusal("the stanza is not `tlock`, a round and this chain's hash");
  }
  const round = parseDecimal(number, MAX_SIZE);
  if (round < 1n || file.body.length !== keyBytes + 2 * KEY_BYTES) {
    throw refusal("its round or its length is none of this chain");
  }
  return {
    file,
    round,
    curves,
    point: file.body.subarray(0, keyBytes),
    maskedSigma: file.body.subarray(keyBytes, keyBytes + KEY_BYTES),
    maskedKey: file.body.subarray(keyBytes + KEY_BYTES),
  };
}

/** The plaintext, by the verified signature of the ciphertext's round; null if it does not open or was altered. */
export function openTimelock(ciphertext: Ciphertext, signature: Uint8Array): Uint8Array | null {
  const { file, point, maskedSigma, maskedKey, curves } = ciphertext;
  const shared = curves.shared(signature, point);
  if (shared === null) {
    return null;
  }
  const sigma = xor(maskedSigma, sha256(utf8("IBE-H2"), shared));
  const fileKey = xor(maskedKey, sha256(utf8("IBE-H4"), sigma));
  const factor = factorOf(sigma, fileKey, curves.order);
  return factor !== null && equal(curves.multiple(factor), point) ? openAge(file, fileKey) : null;
}

/** H3: a number below the order of the group. */
function factorOf(sigma: Uint8Array, fileKey: Uint8Array, order: bigint): bigint | null {
  const seed = sha256(utf8("IBE-H3"), sigma, fileKey);
  for (let i = 1; i < 65_536; i++) {
    const digest = sha256(concat(Uint8Array.of(i & 255, i >> 8), seed));
    digest[0] = (digest[0] as number) >> 1;
    const factor = toBigInt(digest);
    if (factor > 0n && factor < order) {
      return factor;
    }
  }
  return null;
}

function xor(one: Uint8Array, other: Uint8Array): Uint8Array {
  return one.map((byte, i) => byte ^ (other[i] as number));
}
