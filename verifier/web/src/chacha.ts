/** ChaCha20-Poly1305 (RFC 8439), opening alone and without associated data: what age encrypts its payload with. */
import { concat, equal } from "./bytes.ts";

const TAG_BYTES = 16;
const BLOCK_BYTES = 64;
/** "expand 32-byte k" */
const CONSTANTS = [0x61707865, 0x3320646e, 0x79622d32, 0x6b206574] as const;
const PRIME = (1n << 130n) - 5n;
const CLAMP = 0x0ffffffc0ffffffc0ffffffc0fffffffn;

/** The plaintext, or null where the tag is not that of the ciphertext. `key`: 32 bytes; `nonce`: 12 bytes. */
export function openChaCha20Poly1305(key: Uint8Array, nonce: Uint8Array, sealed: Uint8Array): Uint8Array | null {
  const split = sealed.length - TAG_BYTES;
  if (split < 0) {
    return null;
  }
  const ciphertext = sealed.subarray(0, split);
  const oneTime = block(key, nonce, 0).subarray(0, 32);
  if (!equal(poly1305(oneTime, macInput(ciphertext)), sealed.subarray(split))) {
    return null;
  }
  const plaintext = ciphertext.slice();
  for (let start = 0; start < plaintext.length; start += BLOCK_BYTES) {
    const stream = block(key, nonce, 1 + start / BLOCK_BYTES);
    for (let i = start; i < Math.min(start + BLOCK_BYTES, plaintext.length); i++) {
      plaintext[i] = (plaintext[i] as number) ^ (stream[i - start] as number);
    }
  }
  return plaintext;
}

/** The ciphertext, padded, and both lengths (2.8). */
function macInput(ciphertext: Uint8Array): Uint8Array {
  const lengths = new Uint8Array(16);
  new DataView(lengths.buffer).setBigUint64(8, BigInt(ciphertext.length), true);
  return concat(ciphertext, new Uint8Array(-ciphertext.length & 15), lengths);
}

/** One block of the key stream (2.3). */
function block(key: Uint8Array, nonce: Uint8Array, counter: number): Uint8Array {
  const words = (bytes: Uint8Array): readonly number[] => {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    return Array.from({ length: bytes.length / 4 }, (_, i) => view.getUint32(4 * i, true));
  };
  const initial = Uint32Array.of(...CONSTANTS, ...words(key), counter, ...words(nonce));
  const state = initial.slice();
  for (let round = 0; round < 10; round++) {
    for (let i = 0; i < 4; i++) {
      quarter(state, i, 4 + i, 8 + i, 12 + i);
    }
    for (let i = 0; i < 4; i++) {
      quarter(state, i, 4 + ((i + 1) & 3), 8 + ((i + 2) & 3), 12 + ((i + 3) & 3));
    }
  }
  const bytes = new Uint8Array(BLOCK_BYTES);
  const view = new DataView(bytes.buffer);
  state.forEach((word, i) => view.setUint32(4 * i, word + (initial[i] as number), true));
  return bytes;
}

/** The quarter round (2.1) */
function quarter(state: Uint32Array, a: number, b: number, c: number, d: number): void {
  const step = (into: number, from: number, turned: number, bits: number): void => {
    state[into] = (state[into] as number) + (state[from] as number);
    const mixed = (state[turned] as number) ^ (state[into] as number);
    state[turned] = (mixed << bits) | (mixed >>> (32 - bits));
  };
  step(a, b, d, 16);
  step(c, d, b, 12);
  step(a, b, d, 8);
  step(c, d, b, 7);
}

/** The one-time authenticator (2.5) */
function poly1305(key: Uint8Array, message: Uint8Array): Uint8Array {
  const r = littleEndian(key.subarray(0, 16)) & CLAMP;
  let sum = 0n;
  for (let start = 0; start < message.length; start += 16) {
    const part = message.subarray(start, start + 16);
    sum = ((sum + littleEndian(part) + (1n << BigInt(8 * part.length))) * r) % PRIME;
  }
  let tag = sum + littleEndian(key.subarray(16));
  return Uint8Array.from({ length: TAG_BYTES }, () => {
    const byte = Number(tag & 255n);
    tag >>= 8n;
    return byte;
  });
}

function littleEndian(bytes: Uint8Array): bigint {
  return bytes.reduceRight((value, byte) => (value << 8n) | BigInt(byte), 0n);
}
