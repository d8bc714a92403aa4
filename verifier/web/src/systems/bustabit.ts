/** The chain of bustabit: a hash chain played backwards. */
import { sha256 } from "@noble/hashes/sha2.js";
import { hex, toBigInt, utf8 } from "../bytes.ts";
import { hmacOf } from "./hashing.ts";
import { hundredths, type Row, row, system } from "./record.ts";

function earlier(game: Uint8Array, hashing: string): Uint8Array {
  return sha256(hashing === "text" ? utf8(hex(game)) : game);
}

function bust(salt: string, game: Uint8Array): bigint {
  const r = toBigInt(hmacOf("sha256", utf8(salt), game).subarray(0, 7)) >> 4n;
  const span = 1n << 52n;
  const value = (99n * span) / (span - r);
  return value < 100n ? 100n : value;
}

export const bustabit = system("bustabit", (record, reading) => {
  const salt = record.text("salt");
  const rows: Row[] = [];
  let last: Uint8Array | null = null;
  for (const [i, item] of record.records("games").entries()) {
    const game = item.hex("hash", 32);
    if (last !== null) {
      rows.push(row(`hash of game ${i + 1}`, hex(earlier(last, reading("hashing"))), hex(game)));
    }
    rows.push(row(`bust of game ${i + 1}`, hundredths(bust(salt, game)), hundredths(item.hundredths("bust"))));
    last = game;
  }
  if (record.has("end") && last !== null) {
    const steps = record.integer("steps_to_end", 0, 1_000_000);
    for (let i = 0; i < steps; i++) {
      last = earlier(last, reading("hashing"));
    }
    rows.push(row("end of the chain", hex(last), hex(record.hex("end", 32))));
  }
  return rows;
});
