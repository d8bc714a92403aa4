/**
 * BN254 as drand's evmnet uses it: keys on G2, signatures on G1, uncompressed and big-endian (PROTOCOL.md, 2.5, 2.6).
 *
 * @noble/curves has the curve and its pairing. Hashing to it is the Shallue-van de Woestijne map of RFC 9380 (6.6.1)
 * with Keccak-256 under expand_message_xmd (5.3.1), which is written out here.
 */
import { pippenger } from "@noble/curves/abstract/curve.js";
import { hash_to_field } from "@noble/curves/abstract/hash-to-curve.js";
import { bn254 } from "@noble/curves/bn254.js";
import { keccak_256 } from "@noble/hashes/sha3.js";
import { toBigInt } from "./bytes.ts";

const { G1, G2 } = bn254;
const { Fp, Fp2, Fp12 } = bn254.fields;
export type BnPoint = InstanceType<typeof G1.Point>;
export type BnTwistPoint = InstanceType<typeof G2.Point>;

const COORDINATE = 32;
const CURVE_B = 3n;

/** The constants of the map for Z = 1 on y² = x³ + 3 (RFC 9380, 6.6.1). */
const Z = 1n;
const C1 = curve(Z);
const C2 = Fp.neg(Fp.div(Z, 2n));
const C3 = even(Fp.sqrt(Fp.neg(Fp.mul(C1, 3n))));
const C4 = Fp.neg(Fp.div(Fp.mul(4n, C1), 3n));

/** x³ + 3 */
function curve(x: bigint): bigint {
  return Fp.add(Fp.mul(Fp.sqr(x), x), CURVE_B);
}

function even(x: bigint): bigint {
  return x % 2n === 0n ? x : Fp.neg(x);
}

function isSquare(x: bigint): boolean {
  return Fp.is0(x) || Fp.eql(Fp.pow(x, (Fp.ORDER - 1n) / 2n), Fp.ONE);
}

/** inverse, with 0 for 0 */
function inverse0(x: bigint): bigint {
  return Fp.is0(x) ? 0n : Fp.inv(x);
}

/** map_to_curve_svdw (RFC 9380, appendix F.1) */
function mapToCurve(u: bigint): BnPoint {
  const square = Fp.mul(Fp.sqr(u), C1);
  const [plus, minus] = [Fp.add(Fp.ONE, square), Fp.sub(Fp.ONE, square)];
  const inverse = inverse0(Fp.mul(minus, plus));
  const shift = Fp.mul(Fp.mul(Fp.mul(u, minus), inverse), C3);
  const x1 = Fp.sub(C2, shift);
  const x2 = Fp.add(C2, shift);
  const x3 = Fp.add(Fp.mul(Fp.sqr(Fp.mul(Fp.sqr(plus), inverse)), C4), Z);
  const x = isSquare(curve(x1)) ? x1 : isSquare(curve(x2)) ? x2 : x3;
  const y = Fp.sqrt(curve(x));
  return G1.Point.fromAffine({ x, y: u % 2n === y % 2n ? y : Fp.neg(y) });
}

/** hash_to_curve (RFC 9380, 3); G1 has cofactor 1. */
export function hashToG1(message: Uint8Array, tag: Uint8Array): BnPoint {
  const options = { DST: tag, expand: "xmd", hash: keccak_256, p: Fp.ORDER, m: 1, k: 128 } as const;
  const [[u0 = 0n] = [], [u1 = 0n] = []] = hash_to_field(message, 2, options);
  return mapToCurve(u0).add(mapToCurve(u1));
}

function coordinates(bytes: Uint8Array, count: number): readonly bigint[] | null {
  if (bytes.length !== count * COORDINATE) {
    return null;
  }
  const numbers = Array.from({ length: count }, (_, i) =>
    toBigInt(bytes.subarray(i * COORDINATE, (i + 1) * COORDINATE)),
  );
  return numbers.every((number) => number < Fp.ORDER) ? numbers : null;
}

/** On the curve, of prime order, and not the identity; else null. */
function valid<P extends { is0(): boolean; assertValidity(): void }>(make: () => P): P | null {
  try {
    const point = make();
    point.assertValidity();
    return point.is0() ? null : point;
  } catch {
    return null;
  }
}

/** 64 bytes, x ‖ y */
export function decodeG1(bytes: Uint8Array): BnPoint | null {
  const [x, y] = coordinates(bytes, 2) ?? [];
  return x === undefined || y === undefined ? null : valid(() => G1.Point.fromAffine({ x, y }));
}

/** 128 bytes, x ‖ y, the imaginary part of each first */
export function decodeG2(bytes: Uint8Array): BnTwistPoint | null {
  const [xi, xr, yi, yr] = coordinates(bytes, 4) ?? [];
  if (xi === undefined || xr === undefined || yi === undefined || yr === undefined) {
    return null;
  }
  return valid(() => G2.Point.fromAffine({ x: Fp2.fromBigTuple([xr, xi]), y: Fp2.fromBigTuple([yr, yi]) }));
}

/** The sum of the points, each times its factor. */
export function sumOnG1(points: BnPoint[], factors: bigint[]): BnPoint {
  return pippenger(G1.Point, points, factors);
}

/** Whether e(signature, generator) = e(hashed, key). */
export function verifyBn254(key: BnTwistPoint, hashed: BnPoint, signature: BnPoint): boolean {
  const pairs = [
    { g1: signature, g2: G2.Point.BASE },
    { g1: hashed.negate(), g2: key },
  ];
  return Fp12.eql(bn254.pairingBatch(pairs), Fp12.ONE);
}
