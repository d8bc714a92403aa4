/** HMACs, and the step from the bytes of a hash to dice. */
import { hmac } from "@noble/hashes/hmac.js";
import { sha256, sha512 } from "@noble/hashes/sha2.js";
import { hex, utf8 } from "../bytes.ts";
import { FormatError } from "../errors.ts";
import type { Roll } from "./record.ts";

export function hmacOf(hash: string, key: Uint8Array, message: Uint8Array): Uint8Array {
  return hmac(hash === "sha512" ? sha512 : sha256, key, message);
}

/** SHA-256 of a text, in hex. */
export function textHash(text: string): string {
  return hex(sha256(utf8(text)));
}

/** `count` faces: bytes below 252, or 4-byte big-endian numbers, mod 6, plus 1. */
export function dice(data: Uint8Array, count: number, mapping: string): Roll {
  const numbers: number[] = [];
  if (mapping === "bytes") {
    numbers.push(...data.filter((byte) => byte < 252));
  } else {
    const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
    for (let at = 0; at < data.length; at += 4) {
      numbers.push(view.getUint32(at));
    }
  }
  if (numbers.length < count) {
    throw new FormatError("record", `a hash of ${data.length} bytes holds ${numbers.length} dice, not ${count}`);
  }
  return numbers.slice(0, count).map((number) => (number % 6) + 1);
}
