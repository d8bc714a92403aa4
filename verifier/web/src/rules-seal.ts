/** What a seal has to keep to (PROTOCOL.md, 2.5, 6.3, 6.4, 7.3). */
import { type Case, DAY, dueAt, grace, SECOND } from "./case.ts";
import { type Chain, timeOf } from "./chains.ts";
import { MAX_INTEGER } from "./json.ts";

export function checkSeal(given: Case): void {
  const { session, chain, findings } = given;
  const { entry: seal, index } = session.seal;
  const timed = (condition: boolean, text: string): void =>
    findings.require(condition, "unpredictable", "6.3", text, index);
  timed(seal.closeAt === null || seal.time < seal.closeAt, "sealed at or after its close_at");
  timed(seal.revealBy <= seal.time + 400 * DAY, "reveal_by is more than 400 days after the seal");
  if (seal.profile === "match") {
    timed(seal.round >= seal.after.round + 2, "its round is not two above the newest one known");
  }
  if (chain !== null) {
    checkTimes(given, chain, timed);
    if (seal.profile === "match") {
      requireNotRetired(given, chain, seal.round, index);
    }
  }
  checkTimelock(given, timed);
  checkWhoContributes(given);
}

function checkTimes(given: Case, chain: Chain, timed: (condition: boolean, text: string) => void): void {
  const { entry: seal } = given.session.seal;
  const period = chain.period * SECOND;
  timed(timeOf(chain, seal.after.round) <= MAX_INTEGER, "the time of `after` is beyond 2^53 - 1");
  if (seal.profile === "live") {
    const start = Math.max(seal.time, seal.closeAt ?? 0) + seal.lead;
    timed(seal.revealBy >= start + grace(chain), "reveal_by is too soon");
    return;
  }
  const due = timeOf(chain, seal.round);
  timed(due <= MAX_INTEGER, "the time of its round is beyond 2^53 - 1");
  timed(due >= seal.time + 2 * period, "its round falls due within two periods");
  timed(seal.closeAt === null || seal.closeAt <= due - period, "close_at is within a period of the round");
  timed(seal.revealBy >= due + grace(chain), "reveal_by is too soon after the round");
}

function checkTimelock(given: Case, timed: (condition: boolean, text: string) => void): void {
  const { session, chains } = given;
  const { entry: seal, index } = session.seal;
  const chain = seal.timelock === null ? undefined : chains.get(seal.timelock.chain);
  if (seal.timelock === null || chain === undefined) {
    return;
  }
  const due = timeOf(chain, seal.timelock.round);
  timed(due <= MAX_INTEGER, "the time of the timelock's round is beyond 2^53 - 1");
  timed(
    due >= seal.revealBy && due <= seal.revealBy + 31 * DAY,
    "the timelock's round is not within 31 days of reveal_by",
  );
  requireNotRetired(given, chain, seal.timelock.round, index);
}

function checkWhoContributes({ session, findings }: Case): void {
  const { entry: seal, index } = session.seal;
  const who = seal.closeAt === null ? seal.minContributions === 0 : seal.open || seal.participants.length > 0;
  const text =
    seal.closeAt === null ? "a minimum though no contributions are taken" : "contributions are taken of nobody";
  findings.require(who, "contributions", "6.4", text, index);
}

/** A retired chain has a last round; a later one that an entry names fails `round` (2.5). */
export function requireNotRetired({ findings }: Case, chain: Chain, round: number, index: number): void {
  const exists = chain.lastRound === null || round <= chain.lastRound;
  findings.require(exists, "round", "2.5", `round ${round} is beyond the last one of ${chain.name}`, index);
}

/** Remarks of 6.10 and section 8 that concern the seal. */
export function sealRemarks(given: Case): readonly string[] {
  const { session, chain } = given;
  const { entry: seal } = session.seal;
  const known = dueAt(given, seal.after.round);
  if (chain === null || known === null || seal.time <= known + 3 * chain.period * SECOND + 11 * SECOND) {
    return [];
  }
  return ["The seal's `after` was stale: newer rounds were due when it was sealed (rule 6.10)."];
}
