/** drand's signature schemes (PROTOCOL.md, 2.5 and 2.6), on the curves of @noble/curves. */
import { pippenger } from "@noble/curves/abstract/curve.js";
import { bls12_381 } from "@noble/curves/bls12-381.js";
import { keccak_256 } from "@noble/hashes/sha3.js";
import { type BnPoint, type BnTwistPoint, decodeG1, decodeG2, hashToG1, sumOnG1, verifyBn254 } from "./bn254.ts";
import { concat, equal, lp, sha256, toBigInt, u32, u64, utf8 } from "./bytes.ts";

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
  readonly verify: (key: Uint8Array, signed: Signed) => SignatureVerdict;
  /** What timelocks are made of; null for schemes that cannot carry any. */
  readonly identityBased: IdentityBased | null;
  /** Whether all of them are true, with two pairings in all. */
  readonly verifyAll: (key: Uint8Array, all: readonly Signed[]) => boolean;
}

/** Encryption to a round: its signature is the private key of its message (7.3). */
export interface IdentityBased {
  /** e(signature, point) as bytes, of a point in the keys' group; null if one of the two is no point. */
  readonly shared: (signature: Uint8Array, point: Uint8Array) => Uint8Array | null;
  /** The generator of the keys' group times the factor, compressed. */
  readonly multiple: (factor: bigint) => Uint8Array;
  readonly order: bigint;
}

export interface Signed {
  readonly message: Uint8Array;
  readonly signature: Uint8Array;
}

const { G1, G2 } = bls12_381;
type G1Point = InstanceType<typeof G1.Point>;
type G2Point = InstanceType<typeof G2.Point>;

/** Of the random factors of `verifyAll`: what a false signature among them has to guess. */
const FACTOR_BYTES = 16;

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

/** Signatures in one group under keys in the other. */
interface Groups<S, K> {
  readonly signatureBytes: number;
  readonly keyBytes: number;
  /** null for what is not the one encoding of a point of prime order (2.6). */
  readonly decodeSignature: (bytes: Uint8Array) => S | null;
  readonly decodeKey: (bytes: Uint8Array) => K | null;
  readonly hash: (message: Uint8Array, tag: Uint8Array) => S;
  /** The sum of the points, each times its factor. */
  readonly sum: (points: S[], factors: bigint[]) => S;
  /** Whether e(signature, generator) = e(hashed, key), in the order of the groups. */
  readonly agree: (signature: S, hashed: S, key: K) => boolean;
}

/** The bytes of a pairing as drand's tools hash them: the highest coefficient first, in every tower. */
function pairingBytes(a1: G1Point, a2: G2Point): Uint8Array {
  const { c0, c1 } = bls12_381.pairing(a1, a2);
  const { Fp } = bls12_381.fields;
  const sixes = [c1, c0].flatMap((six) => [six.c2, six.c1, six.c0]);
  return concat(...sixes.flatMap((two) => [Fp.toBytes(two.c1), Fp.toBytes(two.c0)]));
}

/** Whether e(a1, a2) = e(b1, b2). */
function pairingsAgree(a1: G1Point, a2: G2Point, b1: G1Point, b2: G2Point): boolean {
  const { Fp12 } = bls12_381.fields;
  const pairs = [
    { g1: a1, g2: a2 },
    { g1: b1.negate(), g2: b2 },
  ];
  return Fp12.eql(bls12_381.pairingBatch(pairs), Fp12.ONE);
}

const ON_G1: Groups<G1Point, G2Point> = {
  signatureBytes: 48,
  keyBytes: 96,
  decodeSignature: onG1,
  decodeKey: onG2,
  hash: (message, tag) => G1.hashToCurve(message, { DST: tag }) as G1Point,
  sum: (points, factors) => pippenger(G1.Point, points, factors),
  agree: (signature, hashed, key) => pairingsAgree(signature, G2.Point.BASE, hashed, key),
};

const ON_G2: Groups<G2Point, G1Point> = {
  signatureBytes: 96,
  keyBytes: 48,
  decodeSignature: onG2,
  decodeKey: onG1,
  hash: (message, tag) => G2.hashToCurve(message, { DST: tag }) as G2Point,
  sum: (points, factors) => pippenger(G2.Point, points, factors),
  agree: (signature, hashed, key) => pairingsAgree(G1.Point.BASE, signature, key, hashed),
};

const ON_BN254: Groups<BnPoint, BnTwistPoint> = {
  signatureBytes: 64,
  keyBytes: 128,
  decodeSignature: decodeG1,
  decodeKey: decodeG2,
  hash: hashToG1,
  sum: sumOnG1,
  agree: (signature, hashed, key) => verifyBn254(key, hashed, signature),
};

const TO_G1: IdentityBased = {
  shared(signature, point) {
    const [signed, u] = [onG1(signature), onG2(point)];
    return signed === null || u === null ? null : pairingBytes(signed, u);
  },
  multiple: (factor) => G2.Point.BASE.multiply(factor).toBytes(true),
  order: G1.Point.Fn.ORDER,
};

const TO_G2: IdentityBased = {
  shared(signature, point) {
    const [signed, u] = [onG2(signature), onG1(point)];
    return signed === null || u === null ? null : pairingBytes(u, signed);
  },
  multiple: (factor) => G1.Point.BASE.multiply(factor).toBytes(true),
  order: G1.Point.Fn.ORDER,
};

type Words = Pick<Scheme, "name" | "tag" | "chained" | "messageFormula" | "message" | "identityBased">;

function scheme<S, K>(words: Words, groups: Groups<S, K>): Scheme {
  const { signatureBytes, keyBytes, decodeSignature, hash, sum, agree } = groups;
  const keyOf = memoised(groups.decodeKey);
  const tag = utf8(words.tag);
  return {
    ...words,
    signatureBytes,
    keyBytes,
    isKey: (bytes) => keyOf(bytes) !== null,
    verify(publicKey, { message, signature }) {
      const [key, point] = [keyOf(publicKey), decodeSignature(signature)];
      if (key === null || point === null) {
        return "malformed";
      }
      return agree(point, hash(message, tag), key) ? "true" : "false";
    },
    verifyAll(publicKey, all) {
      const key = keyOf(publicKey);
      const points = all.map(({ signature }) => decodeSignature(signature)).filter((point) => point !== null);
      if (key === null || points.length < all.length) {
        return false;
      }
      const factors = randomFactors(publicKey, all);
      const hashed = all.map(({ message }) => hash(message, tag));
      return agree(sum(points, factors), sum(hashed, factors), key);
    },
  };
}

/** Numbers that nobody can foresee who has yet to choose a signature: they come from all of them. */
function randomFactors(key: Uint8Array, all: readonly Signed[]): bigint[] {
  const seed = sha256(lp(key), ...all.flatMap(({ message, signature }) => [lp(message), lp(signature)]));
  return all.map((_, i) => 1n + toBigInt(sha256(seed, u32(i)).subarray(0, FACTOR_BYTES)));
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

const UNCHAINED = {
  chained: false,
  messageFormula: "SHA-256(u64(round))",
  message: (round: number) => sha256(u64(round)),
};

const CHAINED = {
  chained: true,
  messageFormula: "SHA-256(previous signature ‖ u64(round))",
  message: (round: number, previous: Uint8Array | null) => sha256(concat(previous ?? new Uint8Array(), u64(round))),
};

const KECCAK = {
  chained: false,
  messageFormula: "Keccak-256(u64(round))",
  message: (round: number) => keccak_256(u64(round)),
};

export const SCHEMES: ReadonlyMap<string, Scheme> = new Map(
  [
    scheme({ name: "bls-unchained-g1-rfc9380", tag: G1_TAG, identityBased: TO_G1, ...UNCHAINED }, ON_G1),
    // Signatures on G1 under the tag of G2: a historical slip that must be repeated.
    scheme({ name: "bls-unchained-on-g1", tag: G2_TAG, identityBased: TO_G1, ...UNCHAINED }, ON_G1),
    scheme({ name: "pedersen-bls-unchained", tag: G2_TAG, identityBased: TO_G2, ...UNCHAINED }, ON_G2),
    scheme({ name: "pedersen-bls-chained", tag: G2_TAG, identityBased: null, ...CHAINED }, ON_G2),
    scheme({ name: "bls-bn254-unchained-on-g1", tag: BN254_TAG, identityBased: null, ...KECCAK }, ON_BN254),
  ].map((known) => [known.name, known]),
);
