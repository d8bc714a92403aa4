/** skin.club rolls: the first 60 bits of an HMAC-SHA512, mod 100,000, plus 1. */
import { hex, toBigInt, utf8 } from "../bytes.ts";
import { FormatError } from "../errors.ts";
import { hmacOf } from "./hashing.ts";
import { type Row, row, system } from "./record.ts";

const SIDES = 100_000;

function roll(seed: string, client: string, nonce: number): number {
  const mac = hmacOf("sha512", utf8(`${client}-${nonce}`), utf8(seed));
  return Number((toBigInt(mac.subarray(0, 8)) >> 4n) % BigInt(SIDES)) + 1;
}

export const skinclub = system("skinclub", (record) => {
  if (record.has("server_seed") === record.has("beacon")) {
    throw new FormatError("record", "a record has either server_seed or beacon");
  }
  const seed = record.text(record.has("server_seed") ? "server_seed" : "beacon", 1);
  const client = record.text("client_seed", 1);
  const rows: Row[] = [];
  if (record.has("public_hash")) {
    const expected = hmacOf("sha256", utf8(record.text("secret_salt", 1)), utf8(seed));
    rows.push(row("public_hash", hex(expected), hex(record.hex("public_hash", 32))));
  }
  for (const item of record.records("rolls")) {
    const nonce = item.integer("nonce");
    rows.push(row(`nonce ${nonce}`, roll(seed, client, nonce), item.integer("roll", 1, SIDES)));
  }
  return rows;
});
