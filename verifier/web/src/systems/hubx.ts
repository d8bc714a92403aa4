/** hubx draws: SHA-256 of block hash and nonce, as text, mod the number of participants. */
import { hex } from "../bytes.ts";
import { textHash } from "./hashing.ts";
import { row, system } from "./record.ts";

export const hubx = system("hubx", (record) => {
  const value = textHash(`${record.text("block_hash", 1)}${record.text("nonce")}`);
  const rows = record.has("value") ? [row("value", value, hex(record.hex("value", 32)))] : [];
  const count = record.integer("participants", 1);
  const index = Number(BigInt(`0x${value}`) % BigInt(count));
  return [...rows, row("index", index, record.integer("index"))];
});
