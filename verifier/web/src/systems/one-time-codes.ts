/** One-time codes of draft-thomson-elegy-vrs: a hash chain published from its end. */
import { sha256 } from "@noble/hashes/sha2.js";
import { hex, utf8 } from "../bytes.ts";
import { type Row, row, system } from "./record.ts";

const MAX_POWER = 1_000_000;

export const oneTimeCodes = system("one-time-codes", (record) => {
  const codes = record.hexes("codes", 32);
  const rows: Row[] = [];
  codes.forEach((code, i) => {
    const before = codes[i - 1];
    if (before !== undefined) {
      rows.push(row(`code ${i + 1} hashed`, hex(before), hex(sha256(code))));
    }
  });
  if (record.has("secret")) {
    let value = utf8(record.text("secret", 1));
    const power = record.integer("power", 1, MAX_POWER);
    for (let i = 0; i < power; i++) {
      value = sha256(value);
    }
    rows.push(row(`code ${codes.length}`, hex(value), hex(codes.at(-1) as Uint8Array)));
  }
  if (rows.length === 0) {
    throw record.refuse("codes", "at least two codes, or one and the secret");
  }
  return rows;
});
