/** The claims of a session: state and sentence (PROTOCOL.md, section 8). */
import type { Claim, ClaimName, Finding, State } from "./types.ts";
import { equal, sha256 } from "./bytes.ts";
import { type Anchor, anchors, type Case, dueAt, neededRounds, voidAnchor } from "./case.ts";
import { custody, type Lock } from "./custody.ts";
import { type Document, isConsecutive } from "./document.ts";
import { earlyWitnesses, isQuorum, type LogFound, quorumOver, type Sighting, usableSightings } from "./evidence.ts";
import type { Findings } from "./findings.ts";
import type { Recomputed } from "./outcomes.ts";
import { describeQuorum, type Policy } from "./policy.ts";
import type { Rounds } from "./rounds.ts";

const MAX_NAMES = 5;

type Said = readonly [State, string];

/** The findings' own claim, or what `otherwise` says where there are none. */
function claimOf(claim: ClaimName, findings: Findings, otherwise: () => Said): Claim {
  const found = findings.of(claim);
  const [first] = found;
  if (first === undefined) {
    const [state, text] = otherwise();
    return { claim, state, text, findings: [] };
  }
  return { claim, state: "FAILED", text: describe(first, found.length - 1), findings: found };
}

function describe({ text, rule, index }: Finding, more: number): string {
  const where = index === null ? "" : ` (entry ${index})`;
  return `${text}${where}, rule ${rule}${more > 0 ? `, and ${more} more` : ""}`;
}

function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

function quoted(names: Iterable<string>): string {
  const all = [...new Set(names)].sort();
  const shown = all
    .slice(0, MAX_NAMES)
    .map((name) => `'${name}'`)
    .join(", ");
  return all.length > MAX_NAMES ? `${shown} and ${all.length - MAX_NAMES} more` : shown;
}

/** Everything that the claims of a session are made from. */
export interface Found {
  readonly given: Case;
  readonly document: Document;
  readonly log: Claim;
  readonly policy: Policy | null;
  /** Lines of witnesses that count. */
  readonly seen: readonly Sighting[];
  readonly rounds: Rounds;
  readonly lock: Lock;
  readonly seedShown: boolean;
  readonly recomputed: Recomputed;
  readonly attachments: Readonly<Record<string, Uint8Array>>;
}

export function logClaim(document: Document, { keys, unvouched }: LogFound, findings: Findings): Claim {
  return claimOf("log", findings, () => {
    if (keys.length === 0) {
      return ["UNKNOWN", "the log's key was not given"];
    }
    if (unvouched) {
      return ["UNKNOWN", "a checkpoint of the evidence is signed by a key in the log's name that was not given"];
    }
    const count = document.events.length;
    const entries = count === 1 ? "1 entry is" : `${count} entries are`;
    return [
      "PROVEN",
      `${entries} in the log ${document.origin} under its signed checkpoint of ${document.checkpoint.size}`,
    ];
  });
}

export function sessionClaims(found: Found): readonly Claim[] {
  const { findings } = found.given;
  checkAttachments(found);
  return [
    found.log,
    roundClaim(found),
    claimOf("unpredictable", findings, () => unpredictable(found)),
    claimOf("seed", findings, () =>
      found.seedShown
        ? ["PROVEN", "what was revealed opens the commitment of the seal"]
        : ["UNKNOWN", "no seed has been shown"],
    ),
    claimOf("outcomes", findings, () => outcomes(found)),
    claimOf("complete", findings, () => complete(found)),
    claimOf("sole", findings, () => sole(found)),
    claimOf("contributions", findings, () => contributions(found)),
    claimOf("custody", findings, () => custody(found.given, found.lock)),
    claimOf("attachments", findings, () => attachments(found)),
    claimOf("witnessed", findings, () => witnessed(found)),
  ];
}

function roundClaim({ given, rounds }: Found): Claim {
  const claim = claimOf("round", given.findings, () => round(given, rounds));
  const cut = claim.state === "FAILED" && rounds.skipped > 0;
  return cut ? { ...claim, text: `${claim.text}, and ${rounds.skipped} more not checked` } : claim;
}

function round(given: Case, { missing, skipped }: Rounds): Said {
  const { chain } = given;
  const [first, ...others] = missing;
  if (chain === null) {
    const name = `${given.session.seal.entry.chain.slice(0, 16)}...`;
    return ["UNKNOWN", `the drand chain ${name} was not given`];
  }
  if (skipped > 0) {
    return ["UNKNOWN", `${skipped} rounds were not checked, since nothing vouches for the log that they stand in`];
  }
  if (first !== undefined) {
    const more = others.length > 0 ? `, nor are ${others.length} others` : "";
    return ["UNKNOWN", `round ${first} is not in the document${more}`];
  }
  const needed = neededRounds(given).length;
  if (needed === 0) {
    return ["UNKNOWN", "no round is due yet"];
  }
  return ["PROVEN", `${plural(needed, "round")} of ${chain.name} under the pinned key`];
}

function unpredictable({ given, policy, seen, log }: Found): Said {
  const own = voidAnchor(given);
  const all = own === null ? anchors(given) : [own];
  if (given.chain === null) {
    return ["UNKNOWN", "without the chain nobody can say when a round came"];
  }
  if (all.length === 0) {
    return ["UNKNOWN", "nothing is pinned yet"];
  }
  const usable = usableSightings(seen, given);
  const names = new Set<string>();
  const late = all.filter((anchor) => {
    const due = dueAt(given, anchor.round) ?? 0;
    const witnesses = earlyWitnesses(usable, anchor, due);
    witnesses.forEach((name) => names.add(name));
    return log.state !== "PROVEN" || policy === null || !isQuorum(policy, witnesses);
  });
  const what = given.session.seal.entry.profile === "live" ? "each call" : "what the outcomes rest on";
  if (late.length === 0) {
    return ["PROVEN", `${[...names].sort().join(", ")} saw ${what} before its round`];
  }
  const where = (anchor: Anchor): string => `entry ${anchor.index} before round ${anchor.round}`;
  const listed = `${late.slice(0, 20).map(where).join(", ")}${late.length > 20 ? ` and ${late.length - 20} more` : ""}`;
  return [
    "TRUSTED",
    `${what} was pinned before its round by the operator's clock alone; no quorum of witnesses saw ${listed}`,
  ];
}

function outcomes({ given, recomputed }: Found): Said {
  const { count, missing } = recomputed;
  if (given.session.draws.length === 0) {
    return ["UNKNOWN", "nothing was drawn"];
  }
  if (missing !== null) {
    const why = {
      seed: "the seed that the draws rest on has not been shown",
      round: "a round that the draws rest on has not been shown",
      deck: "a deck cannot be followed, since an earlier draw of it could not be computed",
    };
    return ["UNKNOWN", why[missing]];
  }
  return ["PROVEN", `${plural(count, "draw")} recomputed from the seed, the round and the contributions`];
}

function complete({ given, rounds }: Found): Said {
  const { session } = given;
  if (session.end === null) {
    return ["UNKNOWN", "the session is still open"];
  }
  if (rounds.missing.length > 0 && (session.draws.length > 0 || session.end.entry.type === "reveal")) {
    return ["UNKNOWN", "a round that the draws rest on is not in the document"];
  }
  return ["PROVEN", "numbers without gaps, counts and digest agree, nothing after the end"];
}

function sole({ given, document, policy, seen, log }: Found): Said {
  const { end } = given.session;
  const read = isConsecutive(document.events) && log.state === "PROVEN";
  if (end !== null && read && policy !== null && quorumOver(seen, policy, end.index) !== null) {
    return ["PROVEN", "every leaf from the seal to the end was read, under a witnessed checkpoint"];
  }
  return [
    "TRUSTED",
    "the operator says that its log holds nothing else of this session; a document proves it only with every leaf " +
      "from the seal to the end under a checkpoint that your witnesses cosigned",
  ];
}

function contributions({ given }: Found): Said {
  const { session } = given;
  const { entry: seal } = session.seal;
  const all = [
    ...session.contributions.map(({ entry }) => entry),
    ...session.calls.flatMap(({ entry }) => entry.contributions),
  ];
  const signed = quoted(all.filter(({ signature }) => signature !== null).map(({ participant }) => participant));
  const relayed = quoted(all.filter(({ signature }) => signature === null).map(({ participant }) => participant));
  if (all.length === 0) {
    const open = seal.closeAt !== null && session.close === null && session.end === null;
    return open ? ["UNKNOWN", "contributions are not closed yet"] : ["PROVEN", "no participant took part"];
  }
  const parts = [relayed && `the host ${seal.host} relayed ${relayed}`, signed && `${signed} signed`];
  return [relayed === "" ? "PROVEN" : "TRUSTED", parts.filter((part) => part !== "").join("; ")];
}

/** Files that were given and are not those of the seal (3.6). */
function checkAttachments({ given, attachments: files }: Found): void {
  const { session, findings } = given;
  const sealed = new Map(session.seal.entry.attachments.map(({ name, sha256: digest }) => [name, digest]));
  for (const [name, content] of Object.entries(files)) {
    const digest = sealed.get(name);
    const text =
      digest === undefined ? `the seal names no attachment '${name}'` : `'${name}' is another file than was sealed`;
    const same = digest !== undefined && equal(digest, sha256(content));
    findings.require(same, "attachments", "3.6", text, session.seal.index);
  }
}

function attachments({ given, attachments: files }: Found): Said {
  const sealed = given.session.seal.entry.attachments;
  const missing = sealed.filter(({ name }) => !Object.hasOwn(files, name));
  if (sealed.length === 0) {
    return ["UNKNOWN", "no attachment is sealed"];
  }
  return missing.length > 0
    ? ["UNKNOWN", `not given: ${quoted(missing.map(({ name }) => name))}`]
    : ["PROVEN", `${plural(sealed.length, "attachment is", "attachments are")} as sealed`];
}

function witnessed({ document, policy, seen, log }: Found): Said {
  if (policy === null) {
    return ["UNKNOWN", "no witness policy was given"];
  }
  const names = quorumOver(seen, policy, document.events.at(-1)?.index ?? 0);
  return names === null || log.state !== "PROVEN"
    ? [
        "TRUSTED",
        `the operator alone: no quorum of the policy's witnesses (${describeQuorum(policy)}) cosigned all that is shown`,
      ]
    : ["PROVEN", `${[...names].sort().join(", ")} cosigned a checkpoint that covers every entry shown`];
}
