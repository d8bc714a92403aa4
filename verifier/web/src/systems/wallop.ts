/** fair_pick and wallop: weighted raffles from a seed, and where the seed comes from. */
import { sha256 } from "@noble/hashes/sha2.js";
import { compare, concat, hex, toBigInt, u32, utf8 } from "../bytes.ts";
import { FormatError } from "../errors.ts";
import { textHash } from "./hashing.ts";
import { type Fields, type Row, row, system } from "./record.ts";

const MAX_SLOTS = 1_000_000;

interface Entry {
  readonly id: string;
  readonly weight: number;
}

function pick(entries: readonly Entry[], seed: Uint8Array, count: number): readonly string[] {
  const pool = entries.flatMap(({ id, weight }) => Array.from({ length: weight }, () => id));
  let counter = 0;
  for (let i = pool.length - 1; i > 0; i--) {
    const n = BigInt(i + 1);
    const limit = (1n << 256n) - ((1n << 256n) % n);
    let x: bigint;
    do {
      x = toBigInt(sha256(concat(seed, u32(counter))));
      counter += 1;
    } while (x >= limit);
    const j = Number(x % n);
    [pool[i], pool[j]] = [pool[j] as string, pool[i] as string];
  }
  return [...new Set(pool)].slice(0, count);
}

/** The entries sorted by the bytes of their ids, and what an id is called. */
function entriesOf(record: Fields): readonly [readonly Entry[], string] {
  const items = record.records("entries");
  const name = items[0]?.has("uuid") === true ? "uuid" : "id";
  const entries = items.map((item) => ({ id: item.text(name, 1), weight: item.integer("weight", 1) }));
  if (new Set(entries.map(({ id }) => id)).size !== entries.length) {
    throw new FormatError("record", "an id stands twice in the entries");
  }
  if (entries.reduce((total, { weight }) => total + BigInt(weight), 0n) > BigInt(MAX_SLOTS)) {
    throw new FormatError("record", `the weights come to more than ${MAX_SLOTS}`);
  }
  return [entries.sort((a, b) => compare(utf8(a.id), utf8(b.id))), name];
}

export const wallop = system("wallop", (record) => {
  const [entries, name] = entriesOf(record);
  const rows: Row[] = [];
  if (record.has("entry_hash")) {
    const listed = entries.map(({ id, weight }) => `{"${name}":${JSON.stringify(id)},"weight":${weight}}`);
    const draw = record.has("draw_id") ? `"draw_id":${JSON.stringify(record.text("draw_id"))},` : "";
    const expected = textHash(`{${draw}"entries":[${listed.join(",")}]}`);
    rows.push(row("entry_hash", expected, hex(record.hex("entry_hash", 32))));
  }
  const seed = record.hex("seed", 32);
  if (record.has("drand_randomness")) {
    const weather = record.has("weather_value") ? `,"weather_value":${JSON.stringify(record.text("weather_value"))}` : "";
    const hash = hex(record.hex("entry_hash", 32));
    const expected = textHash(`{"drand_randomness":"${hex(record.hex("drand_randomness", 32))}","entry_hash":"${hash}"${weather}}`);
    rows.push(row("seed", expected, hex(seed)));
  }
  const winners = record.texts("winners", 1);
  const count = record.has("count") ? record.integer("count", 1) : winners.length;
  return [...rows, row("winners", pick(entries, seed, count), winners)];
});
