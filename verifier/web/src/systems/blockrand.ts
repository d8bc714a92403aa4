/** blockrand seeds: two committed secrets and a drand signature. */
import { sha256 } from "@noble/hashes/sha2.js";
import { hex } from "../bytes.ts";
import { textHash } from "./hashing.ts";
import { row, system } from "./record.ts";

export const blockrand = system("blockrand", (record) => {
  const player = record.text("player_secret", 1);
  const server = record.text("server_secret", 1);
  const signature = record.hex("drand_signature");
  const expected: readonly (readonly [string, string])[] = [
    ["player_hash", textHash(player)],
    ["server_hash", textHash(server)],
    ["drand_randomness", hex(sha256(signature))],
    ["final_seed", textHash(`${player}:${server}:${hex(signature)}`)],
  ];
  return expected
    .filter(([name]) => record.has(name) || name === "final_seed")
    .map(([name, value]) => row(name, value, hex(record.hex(name, 32))));
});
