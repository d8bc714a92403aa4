/** Who could know or refuse what, and since when; whether a timelock opens (PROTOCOL.md, 6.12, 7.3, section 8). */
import type { Case } from "./case.ts";
import type { Chain } from "./chains.ts";
import { verifyRound } from "./drand.ts";
import type { Timelock } from "./entries.ts";
import { FormatError } from "./errors.ts";
import { type Rounds, statedRounds } from "./rounds.ts";
import { opens } from "./seeds.ts";
import { type Session, voidOf } from "./session.ts";
import { openTimelock, parseTimelock } from "./timelock.ts";
import type { State } from "./types.ts";

/** A claim's state and the sentence that says why. */
export type Said = readonly [State, string];

const SEED_BYTES = 32;
const REFUSE = ", and refuse to reveal";
const THRESHOLD = "that nobody opened it before rests on drand's threshold not colluding early";

/** `rounds`: how far the rounds were verified. A timelock that is none, or does not open, is found here. */
export function custody(given: Case, rounds: Rounds): Said {
  const { timelock } = given.session.seal.entry;
  return timelock === null ? ["TRUSTED", held(given, REFUSE)] : locked(given, rounds, timelock);
}

function locked(given: Case, rounds: Rounds, timelock: Timelock): Said {
  const { session, chains, findings } = given;
  const sealed = `the seed is sealed to round ${timelock.round}`;
  const chain = chains.get(timelock.chain);
  if (chain === undefined) {
    return ["UNKNOWN", `${held(given, REFUSE)}; ${sealed} of a drand chain that was not given`];
  }
  const opened = open(given, rounds, timelock, chain);
  if (opened === "not yet") {
    const who = "not yet; whoever has the round's signature can open it";
    return ["TRUSTED", `${held(given, REFUSE)}; ${sealed}: ${who}`];
  }
  if (opened !== "opens") {
    findings.add("custody", "7.3", `${sealed}, and does not open: ${opened}`, session.seal.index);
    return ["UNKNOWN", sealed];
  }
  const end = voidOf(session);
  if (end?.entry.reason === "missed-reveal") {
    findings.add("custody", "6.12", "void (missed-reveal) though the timelock opens to the commitment", end.index);
  }
  return ["TRUSTED", `${held(given, "")}; ${sealed}: opens, so nobody can keep the result back; ${THRESHOLD}`];
}

/** "opens", "not yet", or why it does not open to the commitment. */
function open(given: Case, rounds: Rounds, timelock: Timelock, chain: Chain): string {
  const { entry: seal } = given.session.seal;
  try {
    const ciphertext = parseTimelock(timelock, chain);
    const signature = verifiedSignature(given, rounds, timelock.round, chain);
    if (signature === null) {
      return "not yet";
    }
    const seed = openTimelock(ciphertext, signature);
    if (seed === null) {
      return "it was altered, or made for another round";
    }
    const right = seed.length === SEED_BYTES && opens(seed, seal.links, seal.commitment);
    return right ? "opens" : "what it holds does not open the commitment";
  } catch (error) {
    if (error instanceof FormatError) {
      return error.message;
    }
    throw error;
  }
}

function verifiedSignature(given: Case, { checked }: Rounds, round: number, chain: Chain): Uint8Array | null {
  const shown = statedRounds(given)
    .slice(0, checked)
    .find((stated) => stated.chain === chain && stated.round === round);
  return shown !== undefined && verifyRound(chain, shown).holds ? shown.signature : null;
}

/** Who held the seed, and what that allowed. `refuse`: how the sentence on a match ends. */
function held({ session }: Case, refuse: string): string {
  const { entry: seal } = session.seal;
  const holder = seal.custody === "beacon" ? "the operator" : `the host ${seal.host}`;
  const end = voidOf(session);
  if (end !== null) {
    return `void (${end.entry.reason}): ${voidText(session, end.entry.reason, holder)}`;
  }
  return seal.profile === "live"
    ? `${holder} could refuse a draw, but know none before its round`
    : `${holder} held the seed: it could know every draw from the round on${refuse}`;
}

/** Whose decision or failure a void was, and what that party is trusted about (6.12). */
function voidText(session: Session, reason: string, holder: string): string {
  const { entry: seal } = session.seal;
  switch (reason) {
    case "host": {
      const until = seal.profile === "live" ? "the first call" : "the round";
      return `the host ${seal.host} gave the session up by its own decision, before ${until}`;
    }
    case "below-minimum":
      return (
        `${session.contributions.length} of at least ${seal.minContributions} contributions came; ` +
        `the operator and the host ${seal.host} are trusted that they kept none back`
      );
    case "missed-close":
      return "the operator is trusted that it could not close the contributions before the round";
    case "no-round":
      return "the operator is trusted that it could not have the round at the time";
    case "missed-reveal":
      return `${holder} held the seed and did not reveal it, though what it needed had come`;
    default:
      return `${holder} ended the session without a result`;
  }
}
