/** Nard: HMAC(seed, length-prefixed binding and number); what its page leaves open is an option. */
import { sha256 } from "@noble/hashes/sha2.js";
import { concat, hex, utf8 } from "../bytes.ts";
import { FormatError } from "../errors.ts";
import { dice, hmacOf } from "./hashing.ts";
import { type Reading, rollRows, row, system } from "./record.ts";

function encoded(value: number, width: string, order: string, what: string): Uint8Array {
  if (width === "decimal") {
    return utf8(String(value));
  }
  const bytes = new Uint8Array(Number(width));
  let rest = BigInt(value);
  for (let i = 0; i < bytes.length; i++) {
    bytes[order === "little" ? i : bytes.length - 1 - i] = Number(rest & 255n);
    rest >>= 8n;
  }
  if (rest > 0n) {
    throw new FormatError("record", `${what} of ${value} does not fit into ${width} bytes`);
  }
  return bytes;
}

function message(binding: readonly string[], number: number, reading: Reading): Uint8Array {
  const order = reading("byte-order");
  const parts = binding.map(utf8).flatMap((part) => [encoded(part.length, reading("length-bytes"), order, "a length"), part]);
  const counted = encoded(number, reading("number-bytes"), order, "a number");
  return reading("order") === "number-first" ? concat(counted, ...parts) : concat(...parts, counted);
}

export const nard = system("nard", (record, reading) => {
  const seed = record.hex("seed");
  const key = reading("key") === "text" ? utf8(hex(seed)) : seed;
  const binding = record.texts("binding", 0, 100);
  const first = record.has("first") ? record.integer("first") : 1;
  const rows = record.has("commitment") ? [row("commitment", hex(sha256(key)), hex(record.hex("commitment", 32)))] : [];
  const roll = (number: number) => dice(hmacOf(reading("hash"), key, message(binding, number, reading)), 2, reading("dice"));
  return [...rows, ...rollRows(record.rolls("rolls"), roll, first)];
});
