/** The keys of a log, and the sizes whose checkpoints each signs: a log may change its key (PROTOCOL.md, 7.4). */
import { parseDecimal } from "./bytes.ts";
import { accepted, FormatError } from "./errors.ts";
import { isLineOf, KeyType, MAX_SIZE, type Note, parseVerifierKey, type VerifierKey, verifyLine } from "./note.ts";

export interface LogKey {
  readonly key: VerifierKey;
  readonly first: bigint;
  /** null: it goes on. */
  readonly last: bigint | null;
}

/** What a checkpoint's lines say of a log's keys. `beyond`: only a key signed it whose sizes do not include it. */
export type Signed = "yes" | "no" | "false" | "beyond" | "other";

/** A key for all sizes. */
export function always(key: VerifierKey): LogKey {
  return { key, first: 0n, last: null };
}

/** `<vkey>`, `<vkey> 1-4711` or `<vkey> 4000-`; of type Ed25519, even if it is also that of a witness. */
export function parseLogKey(text: string): LogKey {
  const space = text.indexOf(" ");
  const key = parseVerifierKey(space < 0 ? text : text.slice(0, space));
  if (key.type !== KeyType.ED25519) {
    throw new FormatError("vkey", `a log signs with Ed25519 (type 1); ${key.name} is of another type`);
  }
  const [, low, high] = (space < 0 ? null : /^ *([0-9]+)-([0-9]*) *$/.exec(text.slice(space))) ?? [];
  if (space < 0 || low === undefined || high === undefined) {
    if (space < 0 || /^ *$/.test(text.slice(space))) {
      return always(key);
    }
    throw new FormatError("vkey", "behind a log's key stand the sizes that it signs, as 1-4711 and 4711- are");
  }
  const sizes = accepted(() => ({
    first: parseDecimal(low, MAX_SIZE),
    last: high === "" ? null : parseDecimal(high, MAX_SIZE),
  }));
  if (sizes === null || (sizes.last !== null && sizes.last < sizes.first)) {
    throw new FormatError("vkey", "not sizes");
  }
  return { key, ...sizes };
}

/** Whether one of the keys signed a checkpoint of this size, and no line of one whose size it is is false. */
export function signedBy(note: Note, size: bigint, keys: readonly LogKey[]): Signed {
  const due = keys.filter(({ first, last }) => first <= size && (last === null || size <= last));
  const verdicts = due.flatMap(({ key }) => verdictsOf(note, key));
  if (verdicts.length > 0) {
    return verdicts.every(Boolean) ? "yes" : "false";
  }
  const others = keys.filter((key) => !due.includes(key)).map(({ key }) => verdictsOf(note, key));
  if (others.some((found) => found.length > 0 && found.every(Boolean))) {
    return "beyond";
  }
  return note.signatures.some(({ name }) => keys.some(({ key }) => key.name === name)) ? "other" : "no";
}

function verdictsOf(note: Note, key: VerifierKey): readonly boolean[] {
  return note.signatures
    .filter((line) => isLineOf(line, key))
    .map((line) => verifyLine(key, note.text, line.signature)?.valid === true);
}
