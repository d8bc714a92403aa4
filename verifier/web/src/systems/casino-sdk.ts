/** The chain casino SDK: bytes32 to dice by Keccak-256, and uniform numbers of any range. */
import { hex } from "../bytes.ts";
import { FormatError } from "../errors.ts";
import { KeccakDice } from "./keccak-dice.ts";
import { Fields, type Row, row, system } from "./record.ts";

const MAX_DRAWS = 10_000;

export const casinoSdk = system("casino-sdk", (record, reading) => {
  const source = new KeccakDice(record.hex("word", 32), record.has("index") ? record.integer("index", 0, 32) : 0);
  if (record.has("rolls") === record.has("uniform")) {
    throw new FormatError("record", "a record has either rolls or uniform");
  }
  const rows: Row[] = [];
  if (record.has("rolls")) {
    record.rolls("rolls", null, MAX_DRAWS).forEach((roll, i) => {
      rows.push(row(`roll ${i + 1}`, roll.map(() => source.roll()), roll));
    });
  } else {
    const width = reading("width") === "fewest" ? undefined : Number(reading("width"));
    record.records("uniform", MAX_DRAWS).forEach((item, i) => {
      const n = item.integer("n", 1);
      if (width !== undefined && BigInt(n) > 1n << BigInt(8 * width)) {
        throw item.refuse("n", `above 256^${width}, which --width allows`);
      }
      rows.push(row(`number ${i + 1} below ${n}`, Number(source.uniform(BigInt(n), width)), item.integer("value")));
    });
  }
  if (record.has("after")) {
    const after = new Fields(record.get("after"), "after");
    rows.push(row("word afterwards", hex(source.word), hex(after.hex("word", 32))));
    rows.push(row("index afterwards", source.index, after.integer("index", 0, 32)));
    after.done();
  }
  return rows;
});
