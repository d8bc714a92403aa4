/** Boardgammon: a commitment, a nonce and the client's entropy for each roll, put into a message template. */
import { sha256 } from "@noble/hashes/sha2.js";
import { hex, utf8 } from "../bytes.ts";
import { FormatError } from "../errors.ts";
import { dice, hmacOf } from "./hashing.ts";
import { type Reading, type Fields, type Roll, type Row, row, system } from "./record.ts";

const PLACEHOLDERS = ["client_entropy", "nonce", "commitment", "game"];
const PLACEHOLDER = /\{([^{}]*)\}/g;

interface Stated {
  readonly nonce: number;
  readonly seed: Uint8Array;
  readonly commitment: string;
  readonly entropy: string;
  readonly dice: Roll;
}

function message(template: string, values: ReadonlyMap<string, string>): Uint8Array {
  const names = [...template.matchAll(PLACEHOLDER)].map((found) => found[1] ?? "");
  if (names.some((name) => !PLACEHOLDERS.includes(name)) || /[{}]/.test(template.replaceAll(PLACEHOLDER, ""))) {
    throw new FormatError("option", `template: its placeholders are {${PLACEHOLDERS.join("}, {")}}`);
  }
  return utf8(template.replaceAll(PLACEHOLDER, (_, name: string) => values.get(name) ?? ""));
}

function stated(item: Fields): Stated {
  return {
    nonce: item.integer("nonce"),
    seed: item.hex("server_seed"),
    commitment: hex(item.hex("commitment", 32)),
    entropy: item.text("client_entropy"),
    dice: item.roll("dice"),
  };
}

function rollRows(roll: Stated, game: string, reading: Reading): readonly Row[] {
  const key = reading("key") === "text" ? utf8(hex(roll.seed)) : roll.seed;
  const values = new Map([
    ["client_entropy", roll.entropy],
    ["nonce", String(roll.nonce)],
    ["commitment", roll.commitment],
    ["game", game],
  ]);
  const mac = hmacOf(reading("hash"), key, message(reading("template"), values));
  return [
    row(`commitment of nonce ${roll.nonce}`, hex(sha256(key)), roll.commitment),
    row(`dice of nonce ${roll.nonce}`, dice(mac, 2, reading("dice")), roll.dice),
  ];
}

function receiptRows(receipts: readonly Fields[], rolls: ReadonlyMap<number, Stated>): readonly Row[] {
  return receipts.flatMap((receipt) => {
    const nonce = receipt.integer("nonce");
    const roll = rolls.get(nonce);
    const entropy = receipt.text("client_entropy");
    const rows = [row(`entropy of nonce ${nonce} against your receipt`, entropy, roll?.entropy ?? null)];
    if (receipt.has("commitment")) {
      const kept = hex(receipt.hex("commitment", 32));
      rows.push(row(`commitment of nonce ${nonce} against your receipt`, kept, roll?.commitment ?? null));
    }
    return rows;
  });
}

export const boardgammon = system("boardgammon", (record, reading) => {
  const game = record.has("game") ? record.text("game") : "";
  const first = record.has("first") ? record.integer("first") : 1;
  const rolls = record.records("rolls").map(stated);
  const rows: Row[] = [];
  rolls.forEach((roll, i) => {
    const before = rolls[i - 1];
    rows.push(row(`nonce of roll ${i + 1}`, before === undefined ? first : before.nonce + 1, roll.nonce));
    rows.push(...rollRows(roll, game, reading));
  });
  const seen = new Map<string, number>();
  rolls.forEach(({ commitment }, i) => {
    const earlier = seen.get(commitment);
    if (earlier === undefined) {
      seen.set(commitment, i + 1);
    } else {
      rows.push(row(`commitment of roll ${i + 1}`, "one of its own", `that of roll ${earlier}`));
    }
  });
  const byNonce = new Map(rolls.map((roll) => [roll.nonce, roll]));
  return record.has("receipts") ? [...rows, ...receiptRows(record.records("receipts"), byNonce)] : rows;
});
