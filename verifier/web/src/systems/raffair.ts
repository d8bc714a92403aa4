/** raffair.co.uk draws: a committed seed mixed with a drand round and the hash of the ticket list. */
import { sha256 } from "@noble/hashes/sha2.js";
import { concat, hex, toBigInt, utf8 } from "../bytes.ts";
import { type Row, row, system } from "./record.ts";

export const raffair = system("raffair", (record) => {
  const seed = record.hex("seed");
  const randomness = record.hex("drand_randomness", 32);
  const tickets = record.integers("tickets", 0, Number.MAX_SAFE_INTEGER, 1_000_000);
  const list = sha256(utf8(tickets.join(",")));
  const rows: Row[] = [];
  if (record.has("commitment")) {
    rows.push(row("commitment", hex(sha256(seed)), hex(record.hex("commitment", 32))));
  }
  if (record.has("ticket_list_hash")) {
    rows.push(row("ticket_list_hash", hex(list), hex(record.hex("ticket_list_hash", 32))));
  }
  record.integers("winners", 0, Number.MAX_SAFE_INTEGER).forEach((winner, prize) => {
    const mixed = sha256(concat(seed, randomness, utf8(`prize-${prize}`), list));
    const place = Number(toBigInt(mixed) % BigInt(tickets.length));
    rows.push(row(`winner of prize ${prize}`, tickets[place] as number, winner));
  });
  return rows;
});
