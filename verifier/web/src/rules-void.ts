/** When a session may be given up (PROTOCOL.md, 6.12). */
import { type Case, dueAt, grace, openCalls, roundEntry } from "./case.ts";
import { type Logged, roundName } from "./document.ts";
import type { Void } from "./entries.ts";
import { voidOf } from "./session.ts";

export function checkVoid(given: Case): void {
  const end = voidOf(given.session);
  const refusal = end === null ? null : refusalOf(given, end);
  if (end !== null && refusal !== null) {
    given.findings.add("custody", "6.12", `void (${end.entry.reason}) ${refusal}`, end.index);
  }
}

/** Why the void is not allowed, or null. What needs a chain that the verifier was not given is not held against it. */
function refusalOf(given: Case, end: Logged<Void>): string | null {
  switch (end.entry.reason) {
    case "host":
      return hostRefusal(given, end);
    case "below-minimum":
      return belowMinimumRefusal(given, end);
    case "missed-close":
      return missedCloseRefusal(given, end);
    case "no-round":
      return noRoundRefusal(given, end);
    case "missed-reveal":
      return missedRevealRefusal(given, end);
    default:
      return "is no reason that the protocol knows";
  }
}

/** Whether the void comes before time(R), or before the first call. */
function isBeforeRound(given: Case, { entry, index }: Logged<Void>): boolean {
  const { entry: seal } = given.session.seal;
  if (seal.profile === "live") {
    return given.session.calls.every((call) => call.index > index);
  }
  const due = dueAt(given, seal.round);
  return due === null || entry.time < due;
}

function hostRefusal(given: Case, end: Logged<Void>): string | null {
  const { entry: seal } = given.session.seal;
  if (!isBeforeRound(given, end)) {
    return seal.profile === "live" ? "after the first call" : "when its round was due";
  }
  const known = seal.profile === "match" && given.sights.newestUpTo(end.index) >= seal.round;
  return known ? "though its round was in the log" : null;
}

function belowMinimumRefusal(given: Case, end: Logged<Void>): string | null {
  const { session } = given;
  const { entry: seal } = session.seal;
  if (seal.closeAt === null || session.close !== null) {
    return "not in place of a close";
  }
  if (session.contributions.length >= seal.minContributions) {
    return "though the minimum was reached";
  }
  if (end.entry.time <= seal.closeAt) {
    return "before close_at was over";
  }
  return isBeforeRound(given, end) ? null : "too late";
}

function missedCloseRefusal(given: Case, { entry }: Logged<Void>): string | null {
  const { session } = given;
  const { entry: seal } = session.seal;
  if (seal.profile === "live" || seal.closeAt === null || session.close !== null) {
    return "though no close was missed";
  }
  const due = dueAt(given, seal.round);
  return due !== null && entry.time < due ? "before its round was due" : null;
}

function noRoundRefusal(given: Case, { entry, index }: Logged<Void>): string | null {
  const { entry: seal } = given.session.seal;
  if (entry.time < seal.revealBy) {
    return "before reveal_by";
  }
  const open = seal.profile === "match" ? [seal.round] : openCalls(given).map((call) => call.entry.round);
  if (open.length === 0) {
    return "though no call is open";
  }
  const newest = given.sights.newestUpTo(index);
  return open.every((round) => newest >= round) ? "though its round was in the log" : null;
}

function missedRevealRefusal(given: Case, { entry, index }: Logged<Void>): string | null {
  const { session, chain } = given;
  const { entry: seal } = session.seal;
  if (entry.time < seal.revealBy) {
    return "before reveal_by";
  }
  const needed = seal.profile === "match" ? [seal.round] : session.calls.map((call) => call.entry.round);
  for (const round of needed) {
    const shown = roundEntry(given, round);
    if (shown === null || shown.index > index) {
      return "before its round was in the log";
    }
    if (chain !== null && entry.time < shown.entry.time + grace(chain)) {
      return "too soon after its round";
    }
  }
  return isBeforeTimelock(given, index) ? "before the timelock's round was in the log" : null;
}

function isBeforeTimelock({ session }: Case, index: number): boolean {
  const { timelock } = session.seal.entry;
  if (timelock === null) {
    return false;
  }
  const shown = session.rounds.get(roundName(timelock.chain, timelock.round));
  return shown === undefined || shown.index > index;
}
