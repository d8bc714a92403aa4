/** drand's signature schemes (PROTOCOL.md, 2.5 and 2.6), on the curves of @noble/curves. */
import { bls12_381 } from "@noble/curves/bls12-381.js";
import { keccak_256 } from "@noble/hashes/sha3.js";
import { decodeG1, decodeG2, hashToG1, verifyBn254 } from "./bn254.ts";
import { concat, equal, sha256, u64, utf8 } from "./bytes.ts";

/** `malformed`: not the one encoding of a point of prime order (2.6). `false`: the pairing does not hold. */
export type SignatureVerdict = "true" | "false" | "malformed";

export interface Scheme {
  readonly name: string;
  readonly signatureBytes: number;
  readonly keyBytes: number;
  readonly chained: boolean;
  /** The hash-to-curve tag. */
  readonly tag: string;
  /** What a round signs, in words. */
  readonly messageFormula: string;
  /** `previous`: of chained schemes alone. */
  readonly message: (round: number, previous: Uint8Array | null) => Uint8Array;
  readonly isKey: (key: Uint8Array) => boolean;
  readonly verify: (key: Uint8Array, message: Uint8Array, signature: Uint8Array) => SignatureVerdict;
}

const { G1, G2 } = bls12_381;
type G1Point = InstanceType<typeof G1.Point>;
type G2Point = InstanceType<typeof G2.Point>;

const G1_TAG = "BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_";
const G2_TAG = "BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_NUL_";
const BN254_TAG = "BLS_SIG_BN254G1_XMD:KECCAK-256_SVDW_RO_NUL_";

interface Decodable<P> {
  fromBytes(bytes: Uint8Array): P;
}
interface Point {
  toBytes(compressed?: boolean): Uint8Array;
  is0(): boolean;
  isTorsionFree(): boolean;
}

/** The point of its one compressed encoding, in the prime-order subgroup and not the identity; else null (2.6). */
function decode<P extends Point>(group: Decodable<P>, length: number, bytes: Uint8Array): P | null {
  if (bytes.length !== length) {
    return null;
  }
  try {
    const point = group.fromBytes(bytes);
    return !point.is0() && equal(point.toBytes(true), bytes) && point.isTorsionFree() ? point : null;
  } catch {
    return null;
  }
}

const onG1 = (bytes: Uint8Array): G1Point | null => decode<G1Point>(G1.Point, 48, bytes);
const onG2 = (bytes: Uint8Array): G2Point | null => decode<G2Point>(G2.Point, 96, bytes);

/** Whether e(a1, a2) = e(b1, b2). */
function pairingsAgree(a1: G1Point, a2: G2Point, b1: G1Point, b2: G2Point): boolean {
  const { Fp12 } = bls12_381.fields;
  return Fp12.eql(
    bls12_381.pairingBatch([
      { g1: a1, g2: a2 },
      { g1: b1.negate(), g2: b2 },
    ]),
    Fp12.ONE,
  );
}

/** A key is decoded once, however many rounds it signed. */
function memoised<P>(decodeKey: (key: Uint8Array) => P | null): (key: Uint8Array) => P | null {
  let last: { readonly key: Uint8Array; readonly point: P | null } | undefined;
  return (key) => {
    if (last === undefined || !equal(last.key, key)) {
      last = { key: key.slice(), point: decodeKey(key) };
    }
    return last.point;
  };
}

const unchained = (round: number): Uint8Array => sha256(u64(round));
const chained = (round: number, previous: Uint8Array | null): Uint8Array =>
  sha256(concat(previous ?? new Uint8Array(), u64(round)));

function signsOnG1(name: string, tag: string): Scheme {
  const key = memoised(onG2);
  return {
    name,
    tag,
    signatureBytes: 48,
    keyBytes: 96,
    chained: false,
    messageFormula: "SHA-256(u64(round))",
    message: unchained,
    isKey: (bytes) => key(bytes) !== null,
    verify(publicKey, message, signature) {
      const [point, signed] = [key(publicKey), onG1(signature)];
      if (point === null || signed === null) {
        return "malformed";
      }
      const hashed = G1.hashToCurve(message, { DST: utf8(tag) }) as G1Point;
      return pairingsAgree(signed, G2.Point.BASE, hashed, point) ? "true" : "false";
    },
  };
}

function signsOnG2(name: string, isChained: boolean): Scheme {
  const key = memoised(onG1);
  return {
    name,
    tag: G2_TAG,
    signatureBytes: 96,
    keyBytes: 48,
    chained: isChained,
    messageFormula: isChained ? "SHA-256(previous signature ‖ u64(round))" : "SHA-256(u64(round))",
    message: isChained ? chained : unchained,
    isKey: (bytes) => key(bytes) !== null,
    verify(publicKey, message, signature) {
      const [point, signed] = [key(publicKey), onG2(signature)];
      if (point === null || signed === null) {
        return "malformed";
      }
      const hashed = G2.hashToCurve(message, { DST: utf8(G2_TAG) }) as G2Point;
      return pairingsAgree(G1.Point.BASE, signed, point, hashed) ? "true" : "false";
    },
  };
}

function signsOnBn254(name: string): Scheme {
  const key = memoised(decodeG2);
  return {
    name,
    tag: BN254_TAG,
    signatureBytes: 64,
    keyBytes: 128,
    chained: false,
    messageFormula: "Keccak-256(u64(round))",
    message: (round) => keccak_256(u64(round)),
    isKey: (bytes) => key(bytes) !== null,
    verify(publicKey, message, signature) {
      const [point, signed] = [key(publicKey), decodeG1(signature)];
      if (point === null || signed === null) {
        return "malformed";
      }
      return verifyBn254(point, hashToG1(message, utf8(BN254_TAG)), signed) ? "true" : "false";
    },
  };
}

export const SCHEMES: ReadonlyMap<string, Scheme> = new Map(
  [
    signsOnG1("bls-unchained-g1-rfc9380", G1_TAG),
    // Signatures on G1 under the tag of G2: a historical slip that must be repeated.
    signsOnG1("bls-unchained-on-g1", G2_TAG),
    signsOnG2("pedersen-bls-unchained", false),
    signsOnG2("pedersen-bls-chained", true),
    signsOnBn254("bls-bn254-unchained-on-g1"),
  ].map((scheme) => [scheme.name, scheme]),
);
