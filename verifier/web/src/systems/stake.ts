/** Stake-style floats: 4-byte numbers from HMAC-SHA256 over client seed, nonce and a cursor. */
import { concat, hex, utf8 } from "../bytes.ts";
import { FormatError } from "../errors.ts";
import { hmacOf, textHash } from "./hashing.ts";
import { hundredths, type Reading, type Fields, type Row, row, system } from "./record.ts";

const MAX_NUMBERS = 1000;
const ALL = 2 ** 32;

function numbers(server: string, client: string, nonce: number, count: number): readonly number[] {
  const blocks = [];
  for (let cursor = 0; cursor < Math.ceil(count / 8); cursor++) {
    blocks.push(hmacOf("sha256", utf8(server), utf8(`${client}:${nonce}:${cursor}`)));
  }
  const view = new DataView(concat(...blocks).buffer);
  return Array.from({ length: count }, (_, i) => view.getUint32(4 * i));
}

function scaled(u: number, n: number): number {
  return Number((BigInt(u) * BigInt(n)) >> 32n);
}

function range(text: string): number {
  if (!/^[0-9]{1,10}$/.test(text) || Number(text) < 1 || Number(text) > ALL) {
    throw new FormatError("option", "range is a number from 1 to 4294967296");
  }
  return Number(text);
}

function betRow(item: Fields, server: string, client: string, reading: Reading): Row {
  const nonce = item.integer("nonce");
  if (reading("game") === "dice") {
    const [u = 0] = numbers(server, client, nonce, 1);
    return row(`nonce ${nonce}`, hundredths(BigInt(scaled(u, 10_001))), hundredths(item.hundredths("result")));
  }
  const n = reading("game") === "integers" ? range(reading("range")) : ALL;
  const stated = item.integers("result", 0, n - 1, MAX_NUMBERS);
  return row(`nonce ${nonce}`, numbers(server, client, nonce, stated.length).map((u) => scaled(u, n)), stated);
}

export const stake = system("stake", (record, reading) => {
  const server = record.text("server_seed", 1);
  const client = record.text("client_seed");
  const rows: Row[] = [];
  if (record.has("server_seed_hash")) {
    rows.push(row("server_seed_hash", textHash(server), hex(record.hex("server_seed_hash", 32))));
  }
  return [...rows, ...record.records("bets").map((item) => betRow(item, server, client, reading))];
});
