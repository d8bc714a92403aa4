/** freebitco.in rolls: HMAC-SHA512, and a rounding to 0 to 10,000. */
import { hex, toBigInt, utf8 } from "../bytes.ts";
import { hmacOf, textHash } from "./hashing.ts";
import { type Row, row, system } from "./record.ts";

const NUMERATOR = 4_294_967_295n;
const DENOMINATOR = 10_000n;

function roll(server: string, client: string, nonce: number): number {
  const mac = hmacOf("sha512", utf8(`${nonce}:${client}:${nonce}`), utf8(`${nonce}:${server}:${nonce}`));
  const u = toBigInt(mac.subarray(0, 4));
  return Number((2n * u * DENOMINATOR + NUMERATOR) / (2n * NUMERATOR));
}

export const freebitco = system("freebitco", (record) => {
  const server = record.text("server_seed", 1);
  const client = record.text("client_seed");
  const rows: Row[] = [];
  if (record.has("server_seed_hash")) {
    rows.push(row("server_seed_hash", textHash(server), hex(record.hex("server_seed_hash", 32))));
  }
  for (const item of record.records("rolls")) {
    const nonce = item.integer("nonce");
    rows.push(row(`nonce ${nonce}`, roll(server, client, nonce), item.integer("roll", 0, 10_000)));
  }
  return rows;
});
