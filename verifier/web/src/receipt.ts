/** Is my own entry, with my own bytes, in that transcript? (PROTOCOL.md, 7.2; section 1: what no transcript shows.) */
import { readAlone, receiptsIn } from "./answer.ts";
import { equal, hex, utf8 } from "./bytes.ts";
import { logClaim } from "./claims.ts";
import { type Document, type Event, isOfType, type Logged, readDocument } from "./document.ts";
import { accepted, FormatError } from "./errors.ts";
import { checkLog } from "./evidence.ts";
import { Findings } from "./findings.ts";
import { type JsonObject, MAX_INTEGER, parseDocumentJson } from "./json.ts";
import { leafHash } from "./merkle.ts";
import type { LogKey } from "./log-keys.ts";
import { parseSignedCheckpoint } from "./note.ts";
import { parseEntry } from "./read-entry.ts";
import { collect, onlyOnce } from "./session.ts";
import { parseTlogProof, TLOG_PROOF_PREFIX } from "./tlogproof.ts";
import type { Claim, DocumentKind, Found, ReceiptAnswer } from "./types.ts";

export function kindOf(bytes: Uint8Array): DocumentKind {
  if (isTlogProof(bytes)) {
    return "tlog-proof";
  }
  const value = accepted(() => parseDocumentJson(bytes));
  if (value === null) {
    return "unknown";
  }
  if (value.has("format")) {
    const events = value.get("events");
    return Array.isArray(events) && events.length === 1 ? "receipt" : "transcript";
  }
  return receiptsIn(value).length > 0 ? "answer" : "unknown";
}

function isTlogProof(bytes: Uint8Array): boolean {
  const prefix = utf8(TLOG_PROOF_PREFIX);
  return equal(bytes.subarray(0, prefix.length), prefix);
}

/** Look up the receipt's entry in the transcript. Throws FormatError for unusable input. */
export function compareReceipt(
  receipt: Uint8Array,
  transcript: Uint8Array,
  logKeys: readonly LogKey[],
): ReceiptAnswer {
  const whole = naming("the transcript", () => readAlone(parseDocumentJson(transcript)));
  const { field, document: mine } = naming("the receipt", () => readReceipt(receipt, whole));
  const event = mine.events[0] as Event;
  const [mineLog, wholeLog] = [judgeLog(mine, logKeys), judgeLog(whole, logKeys)];
  const looked = look(event, mine, whole);
  const split = whole.events.some((other) => other.index === event.index && !equal(other.bytes, event.bytes));
  const twoHistories = split && mineLog.state === "PROVEN" && wholeLog.state === "PROVEN";
  const text = twoHistories
    ? `${looked.text}; the log signed both: it has shown two histories, and the two files prove it`
    : looked.text;
  const logs = { receipt_log: mineLog, transcript_log: wholeLog };
  return {
    headline: headlineOf(looked.found, text, logs),
    field,
    found: looked.found,
    text,
    exit: exitOf(looked.found, logs),
    entry: { index: event.index, type: event.entry.type },
    ...logs,
  };
}

function naming<T>(what: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw error instanceof FormatError ? new FormatError(error.code, `${what}: ${error.message}`) : error;
  }
}

/** A receipt, or of the service's answer its one document or the first contribution. */
function readReceipt(
  bytes: Uint8Array,
  whole: Document,
): { readonly field: string | null; readonly document: Document } {
  if (isTlogProof(bytes)) {
    return { field: null, document: fromTlogProof(bytes, whole) };
  }
  const value = parseDocumentJson(bytes);
  const answered = receiptsIn(value);
  const [first] = answered;
  if (first === undefined) {
    return { field: null, document: readSingle(value) };
  }
  if (answered.length === 1) {
    return { field: first.field, document: readSingle(first.document) };
  }
  for (const { field, document } of answered) {
    const read = accepted(() => readSingle(document));
    if (read?.events[0]?.entry.type === "contribution") {
      return { field, document: read };
    }
  }
  const fields = answered.map(({ field }) => field).join(", ");
  throw new FormatError(
    "document",
    `this is the service's answer with several receipts, none of a contribution; give one of them alone (${fields})`,
  );
}

function readSingle(value: JsonObject): Document {
  const document = readDocument(value);
  if (document.events.length !== 1) {
    throw new FormatError("document", "a receipt has exactly one event");
  }
  return document;
}

/** A tlog-proof names neither chain nor log key, and nothing is asked of them: the transcript's stand in. */
function fromTlogProof(bytes: Uint8Array, whole: Document): Document {
  const { extra, index, hashes, checkpoint: text } = parseTlogProof(bytes);
  if (extra === null || index > BigInt(MAX_INTEGER)) {
    throw new FormatError("tlog-proof", "no extra line with the entry, or an index that no log reaches");
  }
  const checkpoint = parseSignedCheckpoint(text);
  const event = { index: Number(index), bytes: extra, entry: parseEntry(extra), leaf: leafHash(extra), proof: hashes };
  return { ...whole, origin: checkpoint.origin, events: [event], checkpoint, evidence: [] };
}

function judgeLog(
  document: Document,
  logKeys: readonly LogKey[],
): Claim {
  const findings = new Findings();
  const found = checkLog(document, { logKeys, policy: null }, findings);
  collect(document, findings);
  return logClaim(document, found, findings);
}

function look(event: Event, mine: Document, whole: Document): { readonly found: Found; readonly text: string } {
  const what = `the ${event.entry.type} of entry ${event.index}`;
  const [own, shown] = [
    sessionOf(event),
    sessionOf(whole.events.find((other) => isOfType(other, "seal")) ?? whole.events[0]),
  ];
  if (mine.origin !== whole.origin) {
    return { found: "absent", text: `${what} is of the log ${mine.origin}, the transcript of ${whole.origin}` };
  }
  if (own !== null && shown !== null && own !== shown) {
    const text = `${what} belongs to another session: it is of session ${own}, the transcript of ${shown}`;
    return { found: "absent", text };
  }
  const same = whole.events.find((other) => other.index === event.index);
  if (same !== undefined && equal(same.bytes, event.bytes)) {
    const reason = collect(whole, new Findings())?.uncounted.get(event.index);
    return reason === undefined
      ? { found: "present", text: `${what} is in the transcript, byte for byte` }
      : { found: "not counted", text: `${what} is in the log, but does not count: ${reason}` };
  }
  if (same !== undefined) {
    const text = `${what} is not there: the transcript has another entry at that index, a ${same.entry.type}`;
    return { found: "replaced", text };
  }
  const place = placeOf(event);
  const other = place === null ? undefined : whole.events.find((candidate) => placeOf(candidate) === place);
  if (other !== undefined) {
    const change = equal(other.bytes, event.bytes) ? "the same bytes" : "other bytes";
    return {
      found: "replaced",
      text: `${what} is not there: in its place stands entry ${other.index}, with ${change}`,
    };
  }
  return BigInt(event.index) >= whole.checkpoint.size
    ? { found: "not covered", text: `${what} is newer than the transcript, whose checkpoint covers fewer entries` }
    : { found: "absent", text: `${what} is not in the transcript` };
}

function sessionOf(logged: Logged | undefined): string | null {
  if (logged === undefined) {
    return null;
  }
  return isOfType(logged, "seal") ? hex(logged.leaf) : "session" in logged.entry ? logged.entry.session : null;
}

/** What an entry is the only one of (6.1, 6.8), or null. */
function placeOf({ entry, leaf }: Logged): string | null {
  switch (entry.type) {
    case "log":
    case "chain":
      return null;
    case "seal":
      return `seal ${hex(leaf)}`;
    case "round":
      return `round ${entry.chain} ${entry.round}`;
    default:
      return `${entry.session} ${onlyOnce(entry)[0] ?? "end"}`;
  }
}

type Logs = Pick<ReceiptAnswer, "receipt_log" | "transcript_log">;

/** The answer in one line, which never says more than the log's signature carries. */
function headlineOf(found: Found, text: string, { receipt_log: mine, transcript_log: whole }: Logs): string {
  const failed = [
    ...(mine.state === "FAILED" ? [`the receipt is false: ${mine.text}`] : []),
    ...(whole.state === "FAILED" ? [`the transcript is false: ${whole.text}`] : []),
  ];
  if (failed.length > 0) {
    return `FAILED: ${failed.join("; ")}. As it stands, ${found}: ${text}.`;
  }
  if (mine.state === "UNKNOWN" || whole.state === "UNKNOWN") {
    return `NOT VERIFIED: the log's signature was not checked, since its key was not given. As it stands, ${found}: ${text}.`;
  }
  return `${found.toUpperCase()}: ${text}.`;
}

function exitOf(found: Found, { receipt_log: mine, transcript_log: whole }: Logs): 0 | 1 | 2 {
  if (mine.state === "FAILED" || whole.state === "FAILED") {
    return 1;
  }
  if (mine.state === "UNKNOWN" || whole.state === "UNKNOWN" || found === "not covered") {
    return 2;
  }
  return found === "present" ? 0 : 1;
}
