/** The rounds that a session rests on (PROTOCOL.md, 2.5, 2.6, 6.8). */
import { compare, hex } from "./bytes.ts";
import { type Case, neededRounds, roundEntry } from "./case.ts";
import { type Chain, type ChainInfo, isSameChain } from "./chains.ts";
import { roundName } from "./document.ts";
import { isKnown, type StatedRound, verifyRound, verifyRounds } from "./drand.ts";
import type { Round, Seal } from "./entries.ts";

/** More false rounds than these are not looked at, and not so many where no log vouches for any. */
const MAX_FALSE_ROUNDS = 20;

/** So many rounds of one chain are verified at once; where one of them is false, each is looked at alone. */
const BATCH = 64;
const MIN_BATCH = 4;

/** What was found of the rounds. `missing`: needed and not in the document. */
export interface Rounds {
  /** How many of `statedRounds` were looked at, from the first on. */
  readonly checked: number;
  readonly missing: readonly number[];
  /** How many were not looked at. */
  readonly skipped: number;
  /** Those that hold: signatures by `roundName`. */
  readonly verified: ReadonlyMap<string, Uint8Array>;
}

/** A signature to verify, and the entry where it stands. */
export interface Stated extends StatedRound {
  readonly chain: Chain;
  readonly index: number;
  readonly title: string;
}

/** The document's chain is the pinned one (2.5). */
export function checkDocumentChain({ chain, findings }: Case, stated: ChainInfo): void {
  const same = chain === null || isSameChain(chain, stated);
  findings.require(same, "round", "2.5", "the document's chain is not the pinned one");
}

/** The seal's `after`, then the needed rounds and the timelock's, as far as they are shown and their chains were given. */
export function statedRounds(given: Case): readonly Stated[] {
  const { session, chain, chains } = given;
  const { entry: seal, index } = session.seal;
  const shown = [...session.rounds].flatMap(([name, { entry, index: at }]): readonly Stated[] => {
    const trusted = chains.get(entry.chain);
    return trusted ? [{ ...entry, chain: trusted, index: at, title: titleOf(seal, name, entry) }] : [];
  });
  shown.sort((one, other) => compare(one.chain.hash, other.chain.hash) || one.round - other.round);
  const after = chain && { ...seal.after, chain, index, title: `the seal's after, round ${seal.after.round}` };
  return after === null ? shown : [after, ...shown];
}

function titleOf({ timelock }: Seal, name: string, { round }: Round): string {
  const locked = timelock !== null && name === roundName(timelock.chain, timelock.round);
  return locked ? `round ${round} of the timelock` : `round ${round}`;
}

function verifyBatch(stated: readonly Stated[]): void {
  const unknown = stated.filter((one) => !isKnown(one.chain, one));
  for (const chain of new Set(unknown.map((one) => one.chain))) {
    const ofChain = unknown.filter((one) => one.chain === chain);
    if (ofChain.length >= MIN_BATCH) {
      verifyRounds(chain, ofChain);
    }
  }
}

/** Verify them. `untied`: nothing vouches for them, so that many of them may be made up to cost time. */
export async function checkRounds(
  given: Case,
  untied: boolean,
  pace: (done: number) => Promise<void>,
): Promise<Rounds> {
  const stated = statedRounds(given);
  const missing = neededRounds(given).filter((round) => roundEntry(given, round) === null);
  const verified = new Map<string, Uint8Array>();
  if (untied && stated.length > MAX_FALSE_ROUNDS) {
    return { checked: 0, missing, skipped: stated.length, verified };
  }
  let wrong = 0;
  for (const [i, round] of stated.entries()) {
    if (wrong === MAX_FALSE_ROUNDS) {
      return { checked: i, missing, skipped: stated.length - i, verified };
    }
    if (i % BATCH === 0) {
      verifyBatch(stated.slice(i, i + BATCH));
    }
    const verdict = verifyRound(round.chain, round);
    if (verdict.holds) {
      verified.set(roundName(hex(round.chain.hash), round.round), round.signature);
    } else {
      wrong += 1;
      given.findings.add("round", verdict.rule, `${round.title}: ${verdict.why}`, round.index);
    }
    await pace((i + 1) / stated.length);
  }
  return { checked: stated.length, missing, skipped: 0, verified };
}
