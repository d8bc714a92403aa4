/** Byte strings and their strict text forms: hex, base64, decimals, UTF-8 (PROTOCOL.md, 2.1 and 7.2). */
import { sha256 as sha256Of } from "@noble/hashes/sha2.js";
import { FormatError } from "./errors.ts";

const ENCODER = new TextEncoder();
const DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

const HEX = /^(?:[0-9a-f]{2})*$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const DECIMAL = /^(?:0|[1-9][0-9]*)$/;
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const SEXTETS: Readonly<Record<string, number>> = Object.fromEntries([...ALPHABET].map((c, i) => [c, i]));

export function sha256(...parts: readonly Uint8Array[]): Uint8Array {
  return sha256Of(parts.length === 1 ? (parts[0] as Uint8Array) : concat(...parts));
}

export function concat(...parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

export function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && compare(a, b) === 0;
}

/** Byte order, as a comparator. */
export function compare(a: Uint8Array, b: Uint8Array): number {
  const shorter = Math.min(a.length, b.length);
  for (let i = 0; i < shorter; i++) {
    const difference = (a[i] as number) - (b[i] as number);
    if (difference !== 0) {
      return difference;
    }
  }
  return a.length - b.length;
}

function integer(value: number | bigint, bytes: number): Uint8Array {
  let rest = BigInt(value);
  if (rest < 0n || rest >> BigInt(8 * bytes) !== 0n) {
    throw new RangeError(`${value} is no unsigned integer of ${bytes} bytes`);
  }
  const encoded = new Uint8Array(bytes);
  for (let i = bytes - 1; i >= 0; i--) {
    encoded[i] = Number(rest & 255n);
    rest >>= 8n;
  }
  return encoded;
}

/** 4 bytes, big-endian (2.1). */
export function u32(value: number): Uint8Array {
  return integer(value, 4);
}

/** 8 bytes, big-endian (2.1). */
export function u64(value: number | bigint): Uint8Array {
  return integer(value, 8);
}

/** u32 length, then the bytes (2.1). */
export function lp(part: Uint8Array): Uint8Array {
  return concat(u32(part.length), part);
}

/** Big-endian. */
export function toBigInt(bytes: Uint8Array): bigint {
  return bytes.length === 0 ? 0n : BigInt(`0x${hex(bytes)}`);
}

/** The UTF-8 bytes of a string without unpaired surrogates. */
export function utf8(text: string): Uint8Array {
  return ENCODER.encode(text);
}

/** The text of strict UTF-8, or null. A byte order mark is kept as U+FEFF. */
export function fromUtf8(bytes: Uint8Array): string | null {
  try {
    return DECODER.decode(bytes);
  } catch {
    return null;
  }
}

export function hex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) {
    text += (byte < 16 ? "0" : "") + byte.toString(16);
  }
  return text;
}

/** Lower case, even length, exactly `length` bytes if it is given. */
export function parseHex(text: string, length?: number): Uint8Array {
  if (!HEX.test(text)) {
    throw new FormatError("hex", "not lower-case hex of even length");
  }
  if (length !== undefined && text.length !== 2 * length) {
    throw new FormatError("hex", `${text.length / 2} bytes, not ${length}`);
  }
  const bytes = new Uint8Array(text.length / 2);
  for (let i = 0; i < bytes.length; i++) {
    bytes[i] = Number.parseInt(text.slice(2 * i, 2 * i + 2), 16);
  }
  return bytes;
}

export function base64(bytes: Uint8Array): string {
  let text = "";
  for (let i = 0; i < bytes.length; i += 3) {
    const [a = 0, b = 0, c = 0] = bytes.subarray(i, i + 3);
    const group = (a << 16) | (b << 8) | c;
    const left = bytes.length - i;
    text += ALPHABET.charAt(group >> 18) + ALPHABET.charAt((group >> 12) & 63);
    text += (left > 1 ? ALPHABET.charAt((group >> 6) & 63) : "=") + (left > 2 ? ALPHABET.charAt(group & 63) : "=");
  }
  return text;
}

/** The standard alphabet, padded, trailing bits zero, exactly `length` bytes if it is given. */
export function parseBase64(text: string, length?: number): Uint8Array {
  if (!BASE64.test(text)) {
    throw new FormatError("base64", "not padded base64 of the standard alphabet");
  }
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  const bytes = new Uint8Array((text.length / 4) * 3 - padding);
  if (length !== undefined && bytes.length !== length) {
    throw new FormatError("base64", `${bytes.length} bytes, not ${length}`);
  }
  for (let i = 0, at = 0; i < text.length; i += 4) {
    let group = 0;
    for (let j = i; j < i + 4; j++) {
      group = (group << 6) | (SEXTETS[text.charAt(j)] ?? 0);
    }
    for (let shift = 16; shift >= 0 && at < bytes.length; shift -= 8) {
      bytes[at++] = (group >> shift) & 255;
    }
    if (i + 4 === text.length && (group & ((1 << (8 * padding)) - 1)) !== 0) {
      throw new FormatError("base64", "trailing bits that are not zero");
    }
  }
  return bytes;
}

/** `0` or digits without a leading zero, at most `max`. */
export function parseDecimal(text: string, max: bigint): bigint {
  if (!DECIMAL.test(text) || text.length > 20) {
    throw new FormatError("decimal", "not a decimal number");
  }
  const value = BigInt(text);
  if (value > max) {
    throw new FormatError("decimal", `above ${max}`);
  }
  return value;
}
