/** CUBE Backgammon's sha256-rejection-v1: block_j = SHA-256(seed ":" j); bytes below 252 give (byte mod 6) + 1, two a roll. */
import { sha256 } from "@noble/hashes/sha2.js";
import { hex, utf8 } from "../bytes.ts";
import { FormatError } from "../errors.ts";
import { textHash } from "./hashing.ts";
import { type Roll, row, system } from "./record.ts";

const MAX_ROLLS = 4096;

function* faces(seed: string): Generator<number, never> {
  for (let block = 0; ; block++) {
    for (const byte of sha256(utf8(`${seed}:${block}`))) {
      if (byte < 252) {
        yield (byte % 6) + 1;
      }
    }
  }
}

export const cube = system("cube", (record) => {
  const seed = record.text("seed", 1);
  if (record.has("games") === record.has("rolls")) {
    throw new FormatError("record", "a record has either rolls or games");
  }
  const stated: (readonly [string, Roll])[] = [];
  if (record.has("games")) {
    record.records("games", MAX_ROLLS).forEach((game, g) => {
      const before = stated.length;
      game.rolls("rolls", 2, MAX_ROLLS).forEach((roll, i) => {
        stated.push([`game ${g + 1} roll ${i + 1} (roll ${before + i + 1})`, roll]);
      });
    });
  } else {
    record.rolls("rolls", 2, MAX_ROLLS).forEach((roll, i) => stated.push([`roll ${i + 1}`, roll]));
  }
  if (stated.length > MAX_ROLLS) {
    throw new FormatError("record", `a seed gives at most ${MAX_ROLLS} rolls`);
  }
  const source = faces(seed);
  const rows = record.has("fingerprint") ? [fingerprint(seed, record.hex("fingerprint", 32))] : [];
  return [...rows, ...stated.map(([what, roll]) => row(what, [source.next().value, source.next().value], roll))];
});

function fingerprint(seed: string, stated: Uint8Array): ReturnType<typeof row> {
  return row("fingerprint", textHash(seed), hex(stated));
}
