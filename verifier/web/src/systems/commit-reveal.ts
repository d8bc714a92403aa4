/** The commit-reveal scheme of the monograph: SHA-256(seed, match, nonce) and HMAC u32 dice. */
import { sha256 } from "@noble/hashes/sha2.js";
import { concat, hex, utf8 } from "../bytes.ts";
import { dice, hmacOf } from "./hashing.ts";
import { rollRows, row, system } from "./record.ts";

export const commitReveal = system("commit-reveal", (record, reading) => {
  const seed = record.hex("server_seed");
  const client = record.text("client_seed");
  const match = record.text("match_id");
  const lowest = Number(reading("count-from"));
  const first = record.has("first") ? record.integer("first", lowest) : lowest;
  const rows = [];
  if (record.has("commitment")) {
    const expected = sha256(concat(seed, utf8(match), utf8(record.text("nonce"))));
    rows.push(row("commitment", hex(expected), hex(record.hex("commitment", 32))));
  }
  const key = reading("key") === "raw" ? seed : utf8(hex(seed));
  const roll = (k: number) => dice(hmacOf("sha256", key, utf8(`${client}:${match}:${k}`)), 2, "u32");
  return [...rows, ...rollRows(record.rolls("rolls"), roll, first)];
});
