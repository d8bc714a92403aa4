/**
 * age v1 files in binary with one recipient stanza (C2SP, https://c2sp.org/age): reading and opening them.
 *
 *     age-encryption.org/v1
 *     -> TYPE ARGUMENT …
 *     BODY                base64 without padding in lines of 64; the last one is shorter, if only by being empty
 *     --- MAC             HMAC-SHA-256 under HKDF(file key, "header") of all in front of the space
 *     NONCE CHUNK …       ChaCha20-Poly1305 under HKDF(file key, salt = nonce, "payload"), 64 KiB a chunk
 */
import { chacha20poly1305 } from "@noble/ciphers/chacha.js";
import { hkdf } from "@noble/hashes/hkdf.js";
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 as SHA256 } from "@noble/hashes/sha2.js";
import { concat, equal, parseBase64, utf8 } from "./bytes.ts";
import { FormatError } from "./errors.ts";

export const FILE_KEY_BYTES = 16;
const VERSION = "age-encryption.org/v1";
const COLUMNS = 64;
const MAC_BYTES = 32;
const NONCE_BYTES = 16;
const TAG_BYTES = 16;
const CHUNK_BYTES = 64 * 1024 + TAG_BYTES;
const NEWLINE = 10;

const STANZA = /^-> [!-~]+(?: [!-~]+)*$/;
const MAC = "--- ";

export interface AgeFile {
  /** Of its stanza: the type, then the others. */
  readonly arguments: readonly string[];
  readonly body: Uint8Array;
  /** What the MAC is of. */
  readonly header: Uint8Array;
  readonly mac: Uint8Array;
  readonly nonce: Uint8Array;
  readonly chunks: Uint8Array;
}

function refusal(what: string): FormatError {
  return new FormatError("age", what);
}

/** The lines of the header, one after the other. */
class Lines {
  at = 0;

  constructor(private readonly data: Uint8Array) {}

  next(): string {
    const end = this.data.indexOf(NEWLINE, this.at);
    if (end === -1) {
      throw refusal("the header of the age file is cut off");
    }
    const line = String.fromCharCode(...this.data.subarray(this.at, Math.min(end, this.at + 1024)));
    this.at = end + 1;
    return line;
  }
}

/** Throws FormatError for what is no such file, or not in its one canonical form. */
export function parseAge(data: Uint8Array): AgeFile {
  const lines = new Lines(data);
  if (lines.next() !== VERSION) {
    throw refusal("no binary age v1 file");
  }
  const stanza = lines.next();
  if (!STANZA.test(stanza)) {
    throw refusal("its first stanza is none");
  }
  const body = readBody(lines);
  const start = lines.at;
  const last = lines.next();
  if (!last.startsWith(MAC)) {
    throw refusal("not exactly one stanza");
  }
  const mac = unpadded(last.slice(MAC.length));
  const payload = data.subarray(lines.at);
  if (mac.length !== MAC_BYTES || payload.length < NONCE_BYTES + TAG_BYTES) {
    throw refusal("its MAC or its payload is cut off");
  }
  return {
    arguments: stanza.split(" ").slice(1),
    body,
    header: data.subarray(0, start + MAC.trimEnd().length),
    mac,
    nonce: payload.subarray(0, NONCE_BYTES),
    chunks: payload.subarray(NONCE_BYTES),
  };
}

function readBody(lines: Lines): Uint8Array {
  let text = "";
  for (;;) {
    const line = lines.next();
    if (line.length > COLUMNS) {
      throw refusal("a line of its stanza is too long");
    }
    text += line;
    if (line.length < COLUMNS) {
      return unpadded(text);
    }
  }
}

function unpadded(text: string): Uint8Array {
  if (text.includes("=")) {
    throw refusal("base64 with padding in its header");
  }
  return parseBase64(text + "=".repeat((4 - (text.length % 4)) % 4));
}

/** The plaintext under the file key, or null if anything was altered. */
export function openAge(file: AgeFile, fileKey: Uint8Array): Uint8Array | null {
  const mac = hmac(SHA256, derived(fileKey, undefined, "header"), file.header);
  if (!equal(mac, file.mac)) {
    return null;
  }
  const key = derived(fileKey, file.nonce, "payload");
  const count = Math.ceil(file.chunks.length / CHUNK_BYTES);
  const opened: Uint8Array[] = [];
  for (let i = 0; i < count; i++) {
    const chunk = file.chunks.subarray(i * CHUNK_BYTES, (i + 1) * CHUNK_BYTES);
    const plain = decrypted(key, i, i === count - 1, chunk);
    if (plain === null || (plain.length === 0 && i > 0)) {
      return null;
    }
    opened.push(plain);
  }
  return concat(...opened);
}

function derived(fileKey: Uint8Array, salt: Uint8Array | undefined, info: string): Uint8Array {
  return hkdf(SHA256, fileKey, salt, utf8(info), 32);
}

/** Chunks are numbered in their nonces: 11 bytes, and one that says whether it is the last. */
function decrypted(key: Uint8Array, number: number, last: boolean, chunk: Uint8Array): Uint8Array | null {
  const nonce = new Uint8Array(12);
  new DataView(nonce.buffer).setUint32(7, number);
  nonce[11] = last ? 1 : 0;
  try {
    return chacha20poly1305(key, nonce).decrypt(chunk);
  } catch {
    return null;
  }
}
