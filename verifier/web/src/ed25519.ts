/** Ed25519 as the protocol means it: one function, with no room for two answers (PROTOCOL.md, 2.7). */
import { ed25519 } from "@noble/curves/ed25519.js";
import { sha512 } from "@noble/hashes/sha2.js";
import { concat, equal, hex, lp, sha256 } from "./bytes.ts";
import { Memo } from "./memo.ts";

const { Point } = ed25519;
type Point = InstanceType<typeof Point>;

const ORDER = Point.Fn.ORDER;
export const KEY_BYTES = 32;
export const SIGNATURE_BYTES = 64;

/** Deciding the order of a point costs as much as a signature; a session's keys are used again and again. */
const KEYS = new Memo<Point | null>(4096);
/** A page checks a document again at every change of a value: the signatures are mostly those of before. */
const VERDICTS = new Memo<boolean>(16_384);

/** Canonical, on the curve, and of prime order. */
export function isKey(key: Uint8Array): boolean {
  return keyPoint(key) !== null;
}

/** S < L, canonical A and R, A of prime order, and encode([S]B - [k]A) = R byte for byte. */
export function verifySignature(key: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  const name = hex(sha256(lp(key), lp(signature), message));
  return VERDICTS.get(name, () => verifyAnew(key, message, signature));
}

function verifyAnew(key: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  const A = keyPoint(key);
  if (A === null || signature.length !== SIGNATURE_BYTES) {
    return false;
  }
  const R = signature.subarray(0, 32);
  const S = littleEndian(signature.subarray(32));
  if (S >= ORDER) {
    return false;
  }
  const k = littleEndian(sha512(concat(R, key, message))) % ORDER;
  const expected = Point.BASE.multiplyUnsafe(S).subtract(A.multiplyUnsafe(k));
  return equal(expected.toBytes(), R);
}

function keyPoint(key: Uint8Array): Point | null {
  if (key.length !== KEY_BYTES) {
    return null;
  }
  return KEYS.get(hex(key), () => decodeKey(key));
}

function decodeKey(key: Uint8Array): Point | null {
  let point: Point;
  try {
    point = Point.fromBytes(key, false);
  } catch {
    return null;
  }
  return !point.is0() && point.isTorsionFree() && equal(point.toBytes(), key) ? point : null;
}

function littleEndian(bytes: Uint8Array): bigint {
  return bytes.reduceRight((value, byte) => (value << 8n) | BigInt(byte), 0n);
}
