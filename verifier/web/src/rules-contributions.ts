/** Contributions, calls' contributions and the close (PROTOCOL.md, 4.1, 4.4, 6.4, 6.5). */
import { equal } from "./bytes.ts";
import { type Case, dueAt } from "./case.ts";
import type { Logged } from "./document.ts";
import { verifySignature } from "./ed25519.ts";
import type { Close, Contributed, Seal } from "./entries.ts";
import { contributionMessage, sessionDigest } from "./seeds.ts";
import { revealOf, type Session } from "./session.ts";

const MAX_CONTRIBUTIONS = 10_000;

/** `pace`: called after each, to yield. */
export async function checkContributions(given: Case, pace: () => Promise<void>): Promise<void> {
  const { session, findings } = given;
  const { entry: seal } = session.seal;
  for (const { entry, index } of session.contributions) {
    const inTime = seal.closeAt !== null && entry.time <= seal.closeAt;
    const text = seal.closeAt === null ? "a contribution, though none are taken" : "a contribution after close_at";
    findings.require(inTime, "contributions", "6.4", text, index);
    checkContributor(given, entry, index);
    await pace();
  }
  for (const { entry, index } of session.late) {
    findings.add("unpredictable", "6.5", `the contribution of '${entry.participant}' stands after the close`, index);
  }
  for (const { entry, index } of session.calls) {
    for (const contributed of entry.contributions) {
      checkContributor(given, contributed, index, entry);
      await pace();
    }
  }
  const few = session.contributions.length + session.late.length <= MAX_CONTRIBUTIONS;
  findings.require(few, "contributions", "6.4", `more than ${MAX_CONTRIBUTIONS} contributions`);
}

/** Whether this participant may contribute, and whether the signature is there and true exactly when it has a key. */
function checkContributor(
  { session, findings }: Case,
  contributed: Contributed,
  index: number,
  call?: Parameters<typeof contributionMessage>[2],
): void {
  const { entry: seal, leaf } = session.seal;
  const { participant, signature } = contributed;
  const listed = seal.participants.find(({ id }) => id === participant);
  const key = listed?.key ?? null;
  const refuse = (rule: string, text: string): void =>
    findings.add("contributions", rule, `'${participant}' ${text}`, index);
  if (listed === undefined && !seal.open) {
    refuse("6.4", "is not on the list of participants");
  }
  if (key === null) {
    if (signature !== null) {
      refuse("6.4", "signed without a key in the seal");
    }
  } else if (signature === null) {
    refuse("6.4", "has a key in the seal and did not sign");
  } else if (!verifySignature(key, contributionMessage(leaf, contributed, call), signature)) {
    refuse("4.4", "did not sign this");
  }
}

export function checkClose(given: Case): void {
  const { session, findings } = given;
  const { entry: seal } = session.seal;
  const { close } = session;
  if (close === null) {
    const needing = firstThatNeedsClose(session);
    const text = "contributions are taken, and there is no close in front of it";
    findings.require(seal.closeAt === null || needing === null, "contributions", "6.4", text, needing);
    return;
  }
  const { entry, index } = close;
  const count = session.contributions.length;
  findings.require(
    entry.contributions === count,
    "complete",
    "3.6",
    `the close counts ${entry.contributions}, not ${count}`,
    index,
  );
  const digest = sessionDigest(
    session.seal.leaf,
    session.contributions.map((logged) => logged.entry),
  );
  findings.require(
    equal(digest, entry.digest),
    "complete",
    "4.1",
    "the close's digest is of other contributions",
    index,
  );
  if (seal.closeAt === null) {
    findings.add("contributions", "6.4", "a close, though no contributions are taken", index);
  } else {
    checkCloseTime(given, close, seal, seal.closeAt);
  }
}

function checkCloseTime(given: Case, { entry, index }: Logged<Close>, seal: Seal, closeAt: number): void {
  const { session, findings } = given;
  const timed = (condition: boolean, text: string): void =>
    findings.require(condition, "unpredictable", "6.5", text, index);
  const contributed = new Set(session.contributions.map((logged) => logged.entry.participant));
  const everybody = !seal.open && seal.participants.every(({ id }) => contributed.has(id));
  timed(entry.time > closeAt || everybody, "closed early, though somebody was missing");
  timed(entry.contributions >= seal.minContributions, "closed below the minimum");
  if (seal.profile === "match") {
    const due = dueAt(given, seal.round);
    timed(due === null || entry.time < due, "closed when its round was due");
  } else {
    const [first] = session.calls;
    timed(first === undefined || index < first.index, "closed after the first call");
  }
}

/** The index of the first call, draw or reveal. */
function firstThatNeedsClose(session: Session): number | null {
  const [call] = session.calls;
  const [draw] = session.draws;
  const indices = [call, draw, revealOf(session)].flatMap((logged) => (logged ? [logged.index] : []));
  return indices.length === 0 ? null : Math.min(...indices);
}
