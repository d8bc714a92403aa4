/** The rounds that a session rests on (PROTOCOL.md, 2.5, 2.6, 6.8). */
import { type Case, neededRounds, roundEntry } from "./case.ts";
import { type Chain, type ChainInfo, isSameChain } from "./chains.ts";
import { roundName } from "./document.ts";
import { isKnown, type StatedRound, verifyRound, verifyRounds } from "./drand.ts";

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

/** The seal's `after`, the needed rounds and the timelock's, as far as they are shown and their chains were given. */
export function statedRounds(given: Case): readonly Stated[] {
  const { session, chain, chains } = given;
  const { entry: seal, index } = session.seal;
  const stated: Stated[] = [];
  if (chain !== null) {
    stated.push({ ...seal.after, chain, index, title: `the seal's after, round ${seal.after.round}` });
    for (const round of neededRounds(given)) {
      const shown = roundEntry(given, round);
      if (shown !== null) {
        stated.push({ ...shown.entry, chain, index: shown.index, title: `round ${round}` });
      }
    }
  }
  const locked = seal.timelock && chains.get(seal.timelock.chain);
  const shown = seal.timelock && session.rounds.get(roundName(seal.timelock.chain, seal.timelock.round));
  if (locked && shown && !stated.some((other) => other.index === shown.index)) {
    stated.push({
      ...shown.entry,
      chain: locked,
      index: shown.index,
      title: `round ${shown.entry.round} of the timelock`,
    });
  }
  return stated;
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
  if (untied && stated.length > MAX_FALSE_ROUNDS) {
    return { checked: 0, missing, skipped: stated.length };
  }
  let wrong = 0;
  for (const [i, round] of stated.entries()) {
    if (wrong === MAX_FALSE_ROUNDS) {
      return { checked: i, missing, skipped: stated.length - i };
    }
    if (i % BATCH === 0) {
      verifyBatch(stated.slice(i, i + BATCH));
    }
    const verdict = verifyRound(round.chain, round);
    if (!verdict.holds) {
      wrong += 1;
      given.findings.add("round", verdict.rule, `${round.title}: ${verdict.why}`, round.index);
    }
    await pace((i + 1) / stated.length);
  }
  return { checked: stated.length, missing, skipped: 0 };
}
