/** The document: a transcript or a receipt, read strictly (PROTOCOL.md, 7.2). */
import { hex, parseBase64, parseDecimal, utf8 } from "./bytes.ts";
import { type ChainInfo, parseChainInfo } from "./chains.ts";
import type { Entry, Seal } from "./entries.ts";
import { FormatError } from "./errors.ts";
import { Fields } from "./fields.ts";
import { type Json, type JsonObject, MAX_INTEGER } from "./json.ts";
import { HASH_BYTES, leafHash } from "./merkle.ts";
import { parseSignedCheckpoint, parseVerifierKey, type SignedCheckpoint, type VerifierKey } from "./note.ts";
import { parseEntry } from "./read-entry.ts";

const FORMAT = "fair-beacon/transcript/v1";

export interface Logged<E extends Entry = Entry> {
  readonly index: number;
  readonly entry: E;
  /** The exact bytes. */
  readonly bytes: Uint8Array;
  /** leaf(e) of 2.3. */
  readonly leaf: Uint8Array;
}

export interface Event extends Logged {
  readonly proof: readonly Uint8Array[];
}

export interface Evidence {
  readonly checkpoint: SignedCheckpoint;
  readonly consistency: readonly Uint8Array[];
  /** Index → inclusion proof in this checkpoint. */
  readonly proofs: ReadonlyMap<number, readonly Uint8Array[]>;
}

export interface Document {
  readonly origin: string;
  /** The key that the document names; it is never trusted (7.4). */
  readonly logKey: VerifierKey;
  readonly chain: ChainInfo;
  readonly events: readonly Event[];
  readonly checkpoint: SignedCheckpoint;
  readonly evidence: readonly Evidence[];
}

export function isOfType<T extends Entry["type"]>(
  logged: Logged,
  type: T,
): logged is Logged<Extract<Entry, { type: T }>> {
  return logged.entry.type === type;
}

export function readDocument(value: JsonObject): Document {
  const fields = new Fields(value, "the document", "document");
  fields.oneOf("format", FORMAT);
  const document = {
    origin: fields.text("origin"),
    logKey: parseVerifierKey(fields.text("log_key")),
    chain: parseChainInfo(fields.take("chain"), "entry"),
    events: fields.list("events", { min: 1 }).map(readEvent),
    checkpoint: readCheckpoint(fields),
    evidence: fields.list("evidence").map(readEvidence),
  };
  fields.done();
  checkForm(document);
  return document;
}

function readEvent(value: Json): Event {
  const fields = new Fields(value, "an event", "document");
  const index = fields.integer("index");
  const bytes = utf8(fields.text("entry"));
  const event = {
    index,
    bytes,
    entry: parseEntry(bytes),
    leaf: leafHash(bytes),
    proof: fields.list("proof").map(readHash),
  };
  fields.done();
  return event;
}

function readHash(value: Json): Uint8Array {
  if (typeof value !== "string") {
    throw new FormatError("base64", "a hash of a proof is no string");
  }
  return parseBase64(value, HASH_BYTES);
}

function readCheckpoint(fields: Fields): SignedCheckpoint {
  const text = fields.take("checkpoint");
  if (typeof text !== "string") {
    throw fields.refusal("checkpoint", "is no string");
  }
  return parseSignedCheckpoint(text);
}

function readEvidence(value: Json): Evidence {
  const fields = new Fields(value, "an item of evidence", "document");
  const evidence = {
    checkpoint: readCheckpoint(fields),
    consistency: fields.list("consistency").map(readHash),
    proofs: readProofs(new Fields(fields.object("proofs"), "proofs", "document")),
  };
  fields.done();
  return evidence;
}

function readProofs(fields: Fields): ReadonlyMap<number, readonly Uint8Array[]> {
  return new Map(
    fields.names().map((name) => {
      const index = parseDecimal(name, BigInt(MAX_INTEGER));
      return [Number(index), fields.list(name).map(readHash)];
    }),
  );
}

/** What of the form only several events together tell (3.6, 7.2). */
function checkForm({ events, evidence }: Document): void {
  const refusal = (what: string): FormatError => new FormatError("document", what);
  if (events.some((event, i) => i > 0 && event.index <= (events[i - 1] as Event).index)) {
    throw refusal("the indices do not increase");
  }
  const shown = new Set(events.map(({ index }) => index));
  if (evidence.some(({ proofs }) => [...proofs.keys()].some((index) => !shown.has(index)))) {
    throw refusal("evidence of an entry that is not among the events");
  }
  const seal = events.find((event) => isOfType(event, "seal")) as Logged<Seal> | undefined;
  if (seal === undefined) {
    if (events.length > 1) {
      throw refusal("several events and no seal");
    }
    return;
  }
  checkProfile(events, seal);
  if (isConsecutive(events)) {
    if (events[0]?.index !== seal.index) {
      throw refusal("the seal is not the first of consecutive events");
    }
  } else if (!allBelong(events, seal)) {
    throw refusal("a leaf that is not of the session, though the events are not consecutive");
  }
}

export function isConsecutive(events: readonly Logged[]): boolean {
  const [first] = events;
  return first === undefined || events.every((event, i) => event.index === first.index + i);
}

/** An entry of the other profile is a matter of form (3.6). */
function checkProfile(events: readonly Logged[], { entry: seal, leaf }: Logged<Seal>): void {
  const session = hex(leaf);
  for (const { entry } of events) {
    if ((entry.type === "call" || entry.type === "draw") && entry.session === session) {
      const live = entry.type === "call" || entry.live !== null;
      if (live !== (seal.profile === "live")) {
        throw new FormatError("entry", `a ${entry.type} of the other profile`);
      }
    }
  }
}

/** Whether there are only entries of the session, and rounds that it uses. */
function allBelong(events: readonly Logged[], seal: Logged<Seal>): boolean {
  const session = hex(seal.leaf);
  const used = usedRounds(seal.entry, callRounds(events, session));
  return events.every(({ entry, leaf }) => {
    switch (entry.type) {
      case "log":
      case "chain":
        return false;
      case "seal":
        return hex(leaf) === session;
      case "round":
        return used.has(roundName(entry.chain, entry.round));
      default:
        return entry.session === session;
    }
  });
}

export function callRounds(events: readonly Logged[], session: string): readonly number[] {
  return events.flatMap(({ entry }) => (entry.type === "call" && entry.session === session ? [entry.round] : []));
}

/** The rounds that a session uses: R, each R_k, the timelock's (6.8). */
export function usedRounds(seal: Seal, called: readonly number[]): ReadonlySet<string> {
  const rounds = seal.profile === "match" ? [seal.round] : called;
  const names = rounds.map((round) => roundName(seal.chain, round));
  return new Set(seal.timelock === null ? names : [...names, roundName(seal.timelock.chain, seal.timelock.round)]);
}

export function roundName(chain: string, round: number): string {
  return `${chain}/${round}`;
}
