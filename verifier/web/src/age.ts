/** Binary age v1 files with exactly one recipient stanza (C2SP age). Parse means canonical. */
import { hkdf } from "@noble/hashes/hkdf.js";
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { concat, equal, parseBase64, utf8 } from "./bytes.ts";
import { openChaCha20Poly1305 } from "./chacha.ts";
import { accepted, FormatError } from "./errors.ts";

export interface AgeFile {
  /** The type first. */
  readonly arguments: readonly string[];
  readonly body: Uint8Array;
  /** All that the MAC covers: up to and with the three hyphens. */
  readonly header: Uint8Array;
  readonly mac: Uint8Array;
  readonly nonce: Uint8Array;
  readonly chunks: Uint8Array;
}

const NONCE_BYTES = 16;
const TAG_BYTES = 16;
const CHUNK_BYTES = 64 * 1024 + TAG_BYTES;
const HEADER =
  /^(age-encryption\.org\/v1\n-> ([!-~]+(?: [!-~]+)*)\n((?:[A-Za-z0-9+/]{64}\n)*[A-Za-z0-9+/]{0,63}\n)---) ([A-Za-z0-9+/]{43})\n/;

export function parseAge(bytes: Uint8Array): AgeFile {
  const text = String.fromCharCode(...bytes.subarray(0, 16_384));
  const found = HEADER.exec(text);
  const [whole = "", header = "", words = "", encoded = "", mac = ""] = found ?? [];
  const rest = bytes.subarray(whole.length);
  const body = accepted(() => unpadded(encoded.replaceAll("\n", "")));
  const code = accepted(() => unpadded(mac));
  if (found === null || body === null || code === null || rest.length < NONCE_BYTES + TAG_BYTES) {
    throw new FormatError("age", "not a binary age v1 file with one stanza in its one canonical form");
  }
  return {
    arguments: words.split(" "),
    body,
    header: utf8(header),
    mac: code,
    nonce: rest.subarray(0, NONCE_BYTES),
    chunks: rest.subarray(NONCE_BYTES),
  };
}

function unpadded(text: string): Uint8Array {
  return parseBase64(text + "=".repeat(-text.length & 3));
}

/** The plaintext under the file key, or null if anything was altered. */
export function openAge(file: AgeFile, fileKey: Uint8Array): Uint8Array | null {
  const none = new Uint8Array();
  if (!equal(hmac(sha256, hkdf(sha256, fileKey, none, utf8("header"), 32), file.header), file.mac)) {
    return null;
  }
  const key = hkdf(sha256, fileKey, file.nonce, utf8("payload"), 32);
  const count = Math.ceil(file.chunks.length / CHUNK_BYTES);
  const opened: Uint8Array[] = [];
  for (let i = 0; i < count; i++) {
    const nonce = new Uint8Array(12);
    new DataView(nonce.buffer).setUint32(7, i);
    nonce[11] = i === count - 1 ? 1 : 0;
    const plaintext = openChaCha20Poly1305(key, nonce, file.chunks.subarray(i * CHUNK_BYTES, (i + 1) * CHUNK_BYTES));
    if (plaintext === null || (i > 0 && plaintext.length === 0)) {
      return null;
    }
    opened.push(plaintext);
  }
  return concat(...opened);
}
