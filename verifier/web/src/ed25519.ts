/** Ed25519 as the protocol means it: one function, with no room for two answers (PROTOCOL.md, 2.7). */
import { ed25519 } from "@noble/curves/ed25519.js";
import { sha512 } from "@noble/hashes/sha2.js";
import { concat, equal } from "./bytes.ts";

const { Point } = ed25519;
type Point = InstanceType<typeof Point>;

const ORDER = Point.Fn.ORDER;
export const KEY_BYTES = 32;
export const SIGNATURE_BYTES = 64;

/** Deciding the order of a point costs as much as a signature; a session's keys are used again and again. */
const KNOWN = new Map<string, Point | null>();
const MAX_KNOWN = 4096;

/** Canonical, on the curve, and of prime order. */
export function isKey(key: Uint8Array): boolean {
  return keyPoint(key) !== null;
}

/** S < L, canonical A and R, A of prime order, and encode([S]B - [k]A) = R byte for byte. */
export function verifySignature(key: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
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
  const name = String.fromCharCode(...key);
  let point = KNOWN.get(name);
  if (point === undefined) {
    point = decodeKey(key);
    if (KNOWN.size >= MAX_KNOWN) {
      KNOWN.clear();
    }
    KNOWN.set(name, point);
  }
  return point;
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
