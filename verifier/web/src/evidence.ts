/** What the log and its witnesses vouch for: signatures, inclusion, consistency, cosignatures (PROTOCOL.md, section 7). */
import { type Anchor, type Case, SECOND, type Sight } from "./case.ts";
import { type Chains, timeOf } from "./chains.ts";
import { type Document, type Event, isOfType } from "./document.ts";
import type { Findings } from "./findings.ts";
import { always, type LogKey, type Signed, signedBy } from "./log-keys.ts";
import { isConsistent, isIncluded } from "./merkle.ts";
import { isLineOf, KeyType, type SignedCheckpoint, type VerifierKey, verifyLine } from "./note.ts";
import { asksForWitnesses, type Policy, satisfied } from "./policy.ts";
import type { Trust } from "./trust.ts";

/** A witness's line on a checkpoint that counts. */
export interface Sighting {
  readonly size: bigint;
  /** The policy's name of the witness. */
  readonly witness: string;
  /** Seconds. */
  readonly timestamp: bigint;
  readonly keyType: number;
  /** Which checkpoint: two of one size may have different quorums. */
  readonly checkpoint: SignedCheckpoint;
}

/** What the log's claim stands on. */
export interface LogFound {
  /** Those that were given for this log, in order; none if none was. */
  readonly keys: readonly LogKey[];
  /** The document's checkpoints that hold, under a key that was given. */
  readonly checkpoints: readonly SignedCheckpoint[];
  /** Whether a checkpoint of the evidence is signed in the log's name by a key that was not given. */
  readonly unvouched: boolean;
}

/** The log's keys: those that were given, or those of the policy, for this origin (7.4). If all are of other logs, these. */
function logKeysOf({ origin }: Document, { logKeys, policy }: Pick<Trust, "logKeys" | "policy">): readonly LogKey[] {
  if (logKeys.length > 0) {
    const own = logKeys.filter(({ key }) => key.name === origin);
    return own.length > 0 ? own : logKeys;
  }
  return (policy?.logs ?? []).filter(({ name, type }) => name === origin && type === KeyType.ED25519).map(always);
}

/** The one of the log's keys that the document names, else the first; null for none. */
export function namedKey({ logKey }: Document, keys: readonly LogKey[]): VerifierKey | null {
  return (keys.find(({ key }) => key.text === logKey.text) ?? keys[0])?.key ?? null;
}

export function isEventIncluded(event: Event, checkpoint: SignedCheckpoint, proof: readonly Uint8Array[]): boolean {
  return isIncluded(event.leaf, BigInt(event.index), checkpoint.size, proof, checkpoint.root);
}

/** Check the log's own claim, and say which of the document's checkpoints witnesses may vouch by. */
export function checkLog(
  document: Document,
  trust: Pick<Trust, "logKeys" | "policy">,
  findings: Findings,
): LogFound {
  const fail = (rule: string, text: string, index: number | null = null): void =>
    findings.add("log", rule, text, index);
  const keys = logKeysOf(document, trust);
  if (keys.length > 0 && keys.every(({ key }) => key.text !== document.logKey.text)) {
    fail("7.4", "the document names another key of the log than the verifier was given");
  }
  if (keys.length > 0 && keys[0]?.key.name !== document.origin) {
    fail("7.4", "the document's origin is not the name of the log's key");
  }
  checkTimes(document, fail);
  const seal = document.events.find((event) => isOfType(event, "seal"));
  if (seal?.entry.type === "seal" && seal.entry.log !== document.origin) {
    fail("3.6", `sealed for the log ${seal.entry.log}`, seal.index);
  }
  const good: SignedCheckpoint[] = [];
  let unvouched = false;
  const own = isOwnCheckpoint(document, document.checkpoint, keys, fail);
  if (own === "yes") {
    good.push(document.checkpoint);
  } else if (own === "other") {
    fail("7.2", "the log's key did not sign the checkpoint");
  }
  for (const event of document.events) {
    if (!isEventIncluded(event, document.checkpoint, event.proof)) {
      fail("2.3", "not in the log under the checkpoint", event.index);
    }
  }
  for (const evidence of document.evidence) {
    const { checkpoint } = evidence;
    const signed = isOwnCheckpoint(document, checkpoint, keys, fail);
    let holds = signed === "yes";
    unvouched ||= signed === "other";
    if (!hangsTogether(document.checkpoint, checkpoint, evidence.consistency)) {
      fail("7.2", "a checkpoint of the evidence is not consistent with the document's");
      holds = false;
    }
    for (const event of document.events) {
      const proof = evidence.proofs.get(event.index);
      if (proof !== undefined && !isEventIncluded(event, checkpoint, proof)) {
        fail("2.3", "not in the log under a checkpoint of the evidence", event.index);
        holds = false;
      }
    }
    if (holds) {
      good.push(checkpoint);
    }
  }
  return { keys, checkpoints: keys.length > 0 ? good : [], unvouched };
}

/** Times never decrease along the log (6.2). */
function checkTimes({ events }: Document, fail: (rule: string, text: string, index: number) => void): void {
  let last = 0;
  for (const { entry, index } of events) {
    if (entry.time < last) {
      fail("6.2", "its time is before that of an earlier entry", index);
    }
    last = Math.max(last, entry.time);
  }
}

/** Whether it is of the document's origin and, if keys are known, signed by one; a finding unless it is by another key. */
function isOwnCheckpoint(
  { origin }: Document,
  checkpoint: SignedCheckpoint,
  keys: readonly LogKey[],
  fail: (rule: string, text: string) => void,
): Signed {
  const signed = keys.length > 0 ? signedBy(checkpoint.note, checkpoint.size, keys) : "yes";
  if (signed === "beyond") {
    fail("7.4", `a checkpoint of ${checkpoint.size} entries is signed by a key whose sizes do not include it`);
  } else if (signed === "no" || signed === "false") {
    fail("7.2", "the log's key did not sign a checkpoint");
  }
  if (checkpoint.origin !== origin) {
    fail("7.2", "a checkpoint is of another origin");
    return "no";
  }
  return signed;
}

/** Whether two checkpoints are of one log, whichever is larger. */
function hangsTogether(one: SignedCheckpoint, other: SignedCheckpoint, proof: readonly Uint8Array[]): boolean {
  const [small, large] = one.size <= other.size ? [one, other] : [other, one];
  return isConsistent(small.size, large.size, small.root, large.root, proof);
}

/** The lines of the policy's witnesses; one that does not verify fails `witnessed`, and its witness does not count there. */
export function sightings(
  checkpoints: readonly SignedCheckpoint[],
  policy: Policy,
  findings: Findings,
): readonly Sighting[] {
  const seen: Sighting[] = [];
  for (const checkpoint of checkpoints) {
    for (const [witness, key] of policy.witnesses) {
      const lines = checkpoint.note.signatures.filter((line) => isLineOf(line, key));
      const verdicts = lines.map((line) => verifyLine(key, checkpoint.note.text, line.signature));
      if (verdicts.some((verdict) => verdict?.valid !== true)) {
        findings.add("witnessed", "7.1", `a line of the witness ${witness} does not verify`);
        continue;
      }
      for (const verdict of verdicts) {
        const timestamp = verdict?.valid === true ? (verdict.timestamp ?? 0n) : 0n;
        seen.push({ size: checkpoint.size, witness, timestamp, keyType: key.type, checkpoint });
      }
    }
  }
  return seen;
}

/** The sightings that can say when: cosignature/v1, not at time 0, not before a round that the checkpoint covers (7.1). */
export function usableSightings(seen: readonly Sighting[], { chains, sights }: Case): readonly Sighting[] {
  return seen.filter(
    ({ size, timestamp, keyType }) =>
      keyType === KeyType.COSIGNATURE &&
      timestamp !== 0n &&
      timestamp * BigInt(SECOND) >= newestBelow(size, sights.all, chains),
  );
}

/** The witnesses that saw the anchor before its round fell due (7.1). */
export function earlyWitnesses(usable: readonly Sighting[], { index }: Anchor, due: number): ReadonlySet<string> {
  const early = usable.filter(
    ({ size, timestamp }) => size > BigInt(index) && timestamp * BigInt(SECOND) < BigInt(due),
  );
  return new Set(early.map(({ witness }) => witness));
}

/** The latest time(r) of the rounds whose signature is in an event below this size. */
function newestBelow(size: bigint, known: readonly Sight[], chains: Chains): bigint {
  let newest = 0;
  for (const { index, chain, round } of known) {
    const trusted = chains.get(chain);
    if (trusted !== undefined && BigInt(index) < size) {
      newest = Math.max(newest, timeOf(trusted, round));
    }
  }
  return BigInt(newest);
}

/** Whether somebody is asked for, and these make the quorum; without a quorum one witness of the policy is one (7.1). */
export function isQuorum(policy: Policy, witnesses: ReadonlySet<string>): boolean {
  return satisfied(policy, witnesses) && (asksForWitnesses(policy) || witnesses.size > 0);
}

/** The witnesses on one checkpoint that covers `index`, if they make the quorum; else null. */
export function quorumOver(seen: readonly Sighting[], policy: Policy, index: number): readonly string[] | null {
  for (const checkpoint of new Set(seen.map((sighting) => sighting.checkpoint))) {
    const names = new Set(seen.filter((sighting) => sighting.checkpoint === checkpoint).map(({ witness }) => witness));
    if (checkpoint.size > BigInt(index) && isQuorum(policy, names)) {
      return [...names];
    }
  }
  return null;
}
