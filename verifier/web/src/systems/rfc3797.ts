/** RFC 3797: publicly verifiable random selection, by MD5. */
import { md5 } from "@noble/hashes/legacy.js";
import { concat, toBigInt, utf8 } from "../bytes.ts";
import { FormatError } from "../errors.ts";
import { Fields, row, system } from "./record.ts";

const MAX_POOL = 65_535;

function keyOf(sources: readonly (readonly number[])[]): string {
  return sources.map((source) => `${[...source].sort((a, b) => a - b).map((n) => `${n}.`).join("")}/`).join("");
}

function select(key: string, size: number, count: number): readonly number[] {
  const remaining = Array.from({ length: size }, (_, i) => i);
  return Array.from({ length: count }, (_, i) => {
    const number = Uint8Array.of(i >> 8, i & 255);
    const place = toBigInt(md5(concat(number, utf8(key), number))) % BigInt(remaining.length);
    return remaining.splice(Number(place), 1)[0] as number;
  });
}

export const rfc3797 = system("rfc3797", (record) => {
  const pool = record.texts("pool", 1, MAX_POOL);
  if (new Set(pool).size !== pool.length) {
    throw new FormatError("record", "a name stands twice in the pool");
  }
  const selected = record.texts("selected", 1, pool.length);
  const rows = [];
  let key: string;
  if (record.has("sources")) {
    const sources = record.items("sources", 100).map((source, i) => {
      const inner = new Fields(new Map([["source", source]]), `sources[${i}]`);
      return inner.integers("source", 0, Number.MAX_SAFE_INTEGER, 100);
    });
    key = keyOf(sources);
    if (record.has("key")) {
      rows.push(row("key", key, record.text("key", 1)));
    }
  } else {
    key = record.text("key", 1);
  }
  const picked = select(key, pool.length, selected.length);
  return [...rows, ...selected.map((name, i) => row(`selection ${i + 1}`, pool[picked[i] as number] as string, name))];
});
