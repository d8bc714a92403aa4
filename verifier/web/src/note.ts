/** C2SP signed notes, checkpoints, verifier keys and cosignatures (signed-note, tlog-checkpoint, tlog-cosignature). */
import { concat, equal, fromUtf8, parseBase64, parseDecimal, parseHex, sha256, toBigInt, utf8 } from "./bytes.ts";
import { verifySignature } from "./ed25519.ts";
import { accepted, FormatError } from "./errors.ts";
import { verifyMlDsa44 } from "./mldsa.ts";

/** Signature types: the first byte of a key. */
export const KeyType = { ED25519: 1, ECDSA: 2, COSIGNATURE: 4, TREE_HEAD: 5, ML_DSA_44: 6 } as const;

const KEY_LENGTHS: ReadonlyMap<number, number> = new Map([
  [KeyType.ED25519, 32],
  [KeyType.COSIGNATURE, 32],
  [KeyType.ML_DSA_44, 1312],
]);
/** Keys of these types are DER; what they sign is not looked at here. */
const DER_TYPES: ReadonlySet<number> = new Set([KeyType.ECDSA, KeyType.TREE_HEAD]);

const MAX_NOTE_BYTES = 1_000_000;
const MAX_SIGNATURES = 100;
export const MAX_SIZE = 2n ** 63n - 1n;
const NAME = /^[^\s+\u0085\p{Cs}\p{Cc}]+$/u;
const CONTROL = /[\u0000-\u0009\u000b-\u001f\u007f\p{Cs}]/u;

export interface VerifierKey {
  readonly name: string;
  readonly id: Uint8Array;
  readonly type: number;
  readonly key: Uint8Array;
  /** As it was given: `name+id+base64(type ‖ key)`. */
  readonly text: string;
}

export interface SignatureLine {
  readonly name: string;
  readonly id: Uint8Array;
  readonly signature: Uint8Array;
}

export interface Note {
  /** With its final line feed; this is what is signed. */
  readonly text: string;
  readonly signatures: readonly SignatureLine[];
}

export interface Checkpoint {
  readonly origin: string;
  readonly size: bigint;
  readonly root: Uint8Array;
  readonly extensions: readonly string[];
}

export interface SignedCheckpoint extends Checkpoint {
  readonly note: Note;
}

export function parseVerifierKey(text: string): VerifierKey {
  const refusal = (what: string): FormatError => new FormatError("vkey", what);
  const [name, identifier, ...rest] = text.split("+");
  if (name === undefined || identifier === undefined || rest.length === 0) {
    throw refusal("not name+id+key");
  }
  const bytes = accepted(() => parseBase64(rest.join("+")));
  const id = accepted(() => parseHex(identifier, 4));
  const type = bytes?.[0];
  if (!isName(name) || bytes === null || id === null || type === undefined) {
    throw refusal("its name, its id or its base64 is not well formed");
  }
  const key = bytes.subarray(1);
  if (DER_TYPES.has(type) ? key.length === 0 : KEY_LENGTHS.get(type) !== key.length) {
    throw refusal("its type is unknown, or its key has another length");
  }
  if (!equal(keyId(name, type, key), id)) {
    throw refusal("its id is not that of its name and key");
  }
  return { name, id, type, key, text };
}

/** The first 4 bytes of a hash over name, type and key; of other things for the DER types. */
export function keyId(name: string, type: number, key: Uint8Array): Uint8Array {
  const prefix = concat(utf8(name), Uint8Array.of(10, type));
  switch (type) {
    case KeyType.ECDSA:
      return sha256(key).subarray(0, 4);
    case KeyType.TREE_HEAD:
      return sha256(prefix, sha256(key)).subarray(0, 4);
    default:
      return sha256(prefix, key).subarray(0, 4);
  }
}

function isName(name: string): boolean {
  return NAME.test(name);
}

export function parseNote(bytes: Uint8Array): Note {
  const refusal = (what: string): FormatError => new FormatError("note", what);
  if (bytes.length > MAX_NOTE_BYTES) {
    throw refusal("longer than a million bytes");
  }
  const whole = fromUtf8(bytes);
  if (whole === null || CONTROL.test(whole) || !whole.endsWith("\n")) {
    throw refusal("not UTF-8, or with a control character, or without its last line feed");
  }
  const split = whole.lastIndexOf("\n\n");
  if (split < 0) {
    throw refusal("no empty line in front of the signatures");
  }
  const lines = whole.slice(split + 2, -1).split("\n");
  if (lines.length > MAX_SIGNATURES) {
    throw refusal("more than 100 signatures");
  }
  return { text: whole.slice(0, split + 1), signatures: lines.map(parseSignatureLine) };
}

function parseSignatureLine(line: string): SignatureLine {
  const [dash, name, encoded, ...rest] = line.split(" ");
  const bytes = encoded === undefined ? null : accepted(() => parseBase64(encoded));
  if (dash !== "—" || name === undefined || !isName(name) || rest.length > 0 || bytes === null || bytes.length < 5) {
    throw new FormatError("note", "a signature line is not well formed");
  }
  return { name, id: bytes.subarray(0, 4), signature: bytes.subarray(4) };
}

/** Three lines: origin, size, root; then extension lines. */
export function parseCheckpoint(text: string): Checkpoint {
  const lines = text.split("\n");
  const [origin, decimal, encoded, ...extensions] = lines.slice(0, -1);
  const size = decimal === undefined ? null : accepted(() => parseDecimal(decimal, MAX_SIZE));
  const root = encoded === undefined ? null : accepted(() => parseBase64(encoded, 32));
  const clean = lines.at(-1) === "" && !extensions.includes("") && !CONTROL.test(text);
  if (!clean || origin === undefined || origin === "" || size === null || root === null) {
    throw new FormatError("checkpoint", "not origin, size and root, each on a line of its own");
  }
  return { origin, size, root, extensions };
}

/** A signed checkpoint without extension lines (7.2). */
export function parseSignedCheckpoint(text: string): SignedCheckpoint {
  const note = parseNote(utf8(text));
  const checkpoint = parseCheckpoint(note.text);
  if (checkpoint.extensions.length > 0) {
    throw new FormatError("checkpoint", "it has extension lines");
  }
  return { ...checkpoint, note };
}

/** What a line says of a key: a true signature, with its time in seconds if its type has one, or a false one. */
export type LineVerdict = { readonly valid: true; readonly timestamp: bigint | null } | { readonly valid: false };

/** The verdict on a line of a known key, or null for types that are not checked here. */
export function verifyLine(key: VerifierKey, text: string, signature: Uint8Array): LineVerdict | null {
  const message = utf8(text);
  switch (key.type) {
    case KeyType.ED25519:
      return verifySignature(key.key, message, signature) ? { valid: true, timestamp: null } : { valid: false };
    case KeyType.COSIGNATURE:
      return timed(signature, (time, rest) => verifySignature(key.key, cosignatureMessage(time, text), rest));
    case KeyType.ML_DSA_44:
      return timed(signature, (time, rest) => {
        const checkpoint = accepted(() => parseCheckpoint(text));
        return checkpoint !== null && verifyMlDsa44(key.key, subtreeMessage(key.name, time, checkpoint), rest);
      });
    default:
      return null;
  }
}

function timed(signature: Uint8Array, verify: (time: bigint, rest: Uint8Array) => boolean): LineVerdict {
  const time = toBigInt(signature.subarray(0, 8));
  const valid = signature.length > 8 && time <= MAX_SIZE && verify(time, signature.subarray(8));
  return valid ? { valid, timestamp: time } : { valid: false };
}

export function isLineOf(line: SignatureLine, key: VerifierKey): boolean {
  return line.name === key.name && equal(line.id, key.id);
}

/** What a cosignature/v1 signs (tlog-cosignature, type 0x04). */
export function cosignatureMessage(time: bigint, text: string): Uint8Array {
  return utf8(`cosignature/v1\ntime ${time}\n${text}`);
}

/** What an ML-DSA-44 cosignature signs (type 0x06): the whole tree as a subtree from 0. */
export function subtreeMessage(
  cosigner: string,
  time: bigint,
  { origin, size, root }: Checkpoint,
  start = 0n,
): Uint8Array {
  const u64 = (value: bigint): Uint8Array => parseHex(value.toString(16).padStart(16, "0"));
  const short = (text: string): Uint8Array => concat(Uint8Array.of(utf8(text).length), utf8(text));
  return concat(utf8("subtree/v1\n\0"), short(cosigner), u64(time), short(origin), u64(start), u64(size), root);
}
