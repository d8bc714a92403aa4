/** Who could know or refuse what, and whether a timelock opens (PROTOCOL.md, 6.12, 7.3, 8). */
import { parseBase64 } from "./bytes.ts";
import type { Case } from "./case.ts";
import type { Chain } from "./chains.ts";
import { roundName } from "./document.ts";
import type { Seal, Timelock } from "./entries.ts";
import { FormatError } from "./errors.ts";
import { opens } from "./seeds.ts";
import { voidOf } from "./session.ts";
import { type Ciphertext, openTimelock, parseTimelock } from "./timelock.ts";
import type { State } from "./types.ts";

const SEED_BYTES = 32;

/** What is known of a seal's timelock; null where it carries none. */
export type Lock = "its chain was not given" | "broken" | "not yet" | "opens" | null;

/** The ciphertext of a seal, to the round and chain that the seal names. Throws FormatError. */
export function readLock(lock: Timelock, chain: Chain): Ciphertext {
  const ciphertext = parseTimelock(parseBase64(lock.ciphertext), chain);
  if (ciphertext.round !== BigInt(lock.round)) {
    throw new FormatError("timelock", `the ciphertext is to round ${ciphertext.round}, the seal says ${lock.round}`);
  }
  return ciphertext;
}

/** The last link s_N, or why a verified signature of the round does not open the seal's commitment. */
export function openSeed(seal: Seal, ciphertext: Ciphertext, signature: Uint8Array): Uint8Array | string {
  const opened = openTimelock(ciphertext, signature);
  if (!opened.opens) {
    return opened.why;
  }
  const { plaintext } = opened;
  const right = plaintext.length === SEED_BYTES && opens(plaintext, seal.links, seal.commitment);
  return right ? plaintext : "what the timelock holds does not open the commitment";
}

/** Check a seal's timelock (7.3), and a void that it forbids (6.12). `verified`: signatures by `roundName`. */
export function checkLock({ session, chains, findings }: Case, verified: ReadonlyMap<string, Uint8Array>): Lock {
  const { entry: seal, index } = session.seal;
  if (seal.timelock === null) {
    return null;
  }
  const chain = chains.get(seal.timelock.chain);
  if (chain === undefined) {
    return "its chain was not given";
  }
  const signature = verified.get(roundName(seal.timelock.chain, seal.timelock.round)) ?? null;
  const problem = problemOf(seal, seal.timelock, chain, signature);
  if (problem !== null) {
    findings.add("custody", "7.3", `${sealedTo(seal.timelock)}, and does not open: ${problem}`, index);
    return "broken";
  }
  if (signature === null) {
    return "not yet";
  }
  const end = voidOf(session);
  if (end?.entry.reason === "missed-reveal") {
    const text = "void for 'missed-reveal' though the timelock opens to the commitment";
    findings.add("custody", "6.12", text, end.index);
  }
  return "opens";
}

function problemOf(seal: Seal, lock: Timelock, chain: Chain, signature: Uint8Array | null): string | null {
  try {
    const ciphertext = readLock(lock, chain);
    const seed = signature === null ? null : openSeed(seal, ciphertext, signature);
    return typeof seed === "string" ? seed : null;
  } catch (error) {
    if (error instanceof FormatError) {
      return error.message;
    }
    throw error;
  }
}

function sealedTo({ round }: Timelock): string {
  return `the seed is sealed to round ${round}`;
}

/** State and sentence of a claim of which nothing was found wrong. */
export function custody(given: Case, lock: Lock): readonly [State, string] {
  const { timelock } = given.session.seal.entry;
  const held = holderText(given, lock === "opens" ? "" : ", and refuse to reveal");
  if (timelock === null) {
    return ["TRUSTED", held];
  }
  const sealed = `${held}; ${sealedTo(timelock)}`;
  if (lock === "its chain was not given") {
    return ["UNKNOWN", `${sealed} of a drand chain that was not given`];
  }
  return lock === "opens"
    ? [
        "TRUSTED",
        `${sealed}: opens, so nobody can keep the result back; that nobody opened it before rests on drand's ` +
          "threshold not colluding early",
      ]
    : ["TRUSTED", `${sealed}: not yet; whoever has the round's signature can open it`];
}

/** Who held the seed, and what that allowed. `refuse`: how the sentence on a match ends. */
function holderText(given: Case, refuse: string): string {
  const { entry: seal } = given.session.seal;
  const holder = seal.custody === "beacon" ? "the operator" : `the host ${seal.host}`;
  const end = voidOf(given.session);
  if (end !== null) {
    return `void (${end.entry.reason}): ${voidText(given, end.entry.reason, holder)}`;
  }
  return seal.profile === "live"
    ? `${holder} could refuse a draw, but know none before its round`
    : `${holder} held the seed: it could know every draw from the round on${refuse}`;
}

function voidText({ session }: Case, reason: string, holder: string): string {
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
    default:
      return `${holder} held the seed and did not reveal it, though what it needed had come`;
  }
}
