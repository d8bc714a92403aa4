/** Records that other provably fair systems publish, and how each is replayed. A replay never says that a game was fair. */
import { blockrand } from "./blockrand.ts";
import { boardgammon } from "./boardgammon.ts";
import { bustabit } from "./bustabit.ts";
import { casinoSdk } from "./casino-sdk.ts";
import { commitReveal } from "./commit-reveal.ts";
import { cube } from "./cube.ts";
import { freebitco } from "./freebitco.ts";
import { hubx } from "./hubx.ts";
import { nard } from "./nard.ts";
import { oneTimeCodes } from "./one-time-codes.ts";
import { raffair } from "./raffair.ts";
import type { System } from "./record.ts";
import { rfc3797 } from "./rfc3797.ts";
import { skinclub } from "./skinclub.ts";
import { stake } from "./stake.ts";
import { wallop } from "./wallop.ts";

export type { Option, Replay, Row, System, Value } from "./record.ts";

export const systems: readonly System[] = [
  cube,
  casinoSdk,
  nard,
  boardgammon,
  commitReveal,
  bustabit,
  stake,
  rfc3797,
  freebitco,
  skinclub,
  wallop,
  raffair,
  blockrand,
  hubx,
  oneTimeCodes,
];
