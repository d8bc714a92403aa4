/**
 * ML-DSA-44 (FIPS 204), verification alone, with an empty context: what witnesses with keys of type 0x06 sign with.
 *
 * A polynomial is an array of 256 numbers from 0 to q − 1; their products stay below 2^46, so that numbers are exact.
 */
import { shake128, shake256 } from "@noble/hashes/sha3.js";
import { concat, equal } from "./bytes.ts";

type Polynomial = Int32Array;

const N = 256;
const Q = 8_380_417;
const D = 13;
const TAU = 39;
const GAMMA1 = 2 ** 17;
const GAMMA2 = (Q - 1) / 88;
const BETA = 78;
const OMEGA = 80;
/** Rows and columns of A. */
const SIZE = 4;
const ROOT = 1753;
const INVERSE_OF_N = 8_347_681;

const SEED_BYTES = 32;
const CHALLENGE_BYTES = 32;
const T1_BYTES = 320;
const Z_BYTES = 576;
const KEY_BYTES = SEED_BYTES + SIZE * T1_BYTES;
const SIGNATURE_BYTES = CHALLENGE_BYTES + SIZE * Z_BYTES + OMEGA + SIZE;

/** ML-DSA.Verify (algorithms 3 and 8) */
export function verifyMlDsa44(key: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  if (key.length !== KEY_BYTES || signature.length !== SIGNATURE_BYTES) {
    return false;
  }
  const challenge = signature.subarray(0, CHALLENGE_BYTES);
  const z = rows(signature.subarray(CHALLENGE_BYTES), Z_BYTES).map((bytes) =>
    unpack(bytes, 18).map((x) => mod(GAMMA1 - x)),
  );
  const hints = unpackHints(signature.subarray(CHALLENGE_BYTES + SIZE * Z_BYTES));
  if (hints === null || z.some((polynomial) => polynomial.some((x) => norm(x) >= GAMMA1 - BETA))) {
    return false;
  }
  const t1 = rows(key.subarray(SEED_BYTES), T1_BYTES).map((bytes) => unpack(bytes, 10));
  const c = ntt(sampleInBall(challenge));
  const zHat = z.map(ntt);
  const packed = t1.map((t, row) => {
    const sum = new Int32Array(N);
    zHat.forEach((column, s) => addProduct(sum, expandA(key.subarray(0, SEED_BYTES), row, s), column));
    addProduct(sum, c, ntt(t.map((x) => mod(-x * 2 ** D))));
    const w = inverseNtt(sum);
    return pack6(w.map((r, i) => useHint(hints[row]?.has(i) === true, r)));
  });
  const digest = shake256(key, { dkLen: 64 });
  const mu = shake256(concat(digest, Uint8Array.of(0, 0), message), { dkLen: 64 });
  return equal(challenge, shake256(concat(mu, ...packed), { dkLen: CHALLENGE_BYTES }));
}

function mod(x: number): number {
  const rest = x % Q;
  return rest < 0 ? rest + Q : rest;
}

/** The absolute value of the representative between −q/2 and q/2. */
function norm(x: number): number {
  return Math.min(x, Q - x);
}

function rows(bytes: Uint8Array, length: number): readonly Uint8Array[] {
  return Array.from({ length: SIZE }, (_, i) => bytes.subarray(i * length, (i + 1) * length));
}

/** 256 numbers of so many bits, the lowest bits first (algorithm 18). */
function unpack(bytes: Uint8Array, bits: number): Polynomial {
  const polynomial = new Int32Array(N);
  for (let bit = 0; bit < N * bits; bit++) {
    const value = ((bytes[bit >> 3] as number) >> (bit & 7)) & 1;
    const at = Math.floor(bit / bits);
    polynomial[at] = (polynomial[at] as number) | (value << (bit % bits));
  }
  return polynomial;
}

/** w1Encode for γ2 = (q − 1)/88: 6 bits each (algorithm 28). */
function pack6(polynomial: Polynomial): Uint8Array {
  const bytes = new Uint8Array((N * 6) / 8);
  polynomial.forEach((value, i) => {
    for (let j = 0; j < 6; j++) {
      const bit = 6 * i + j;
      bytes[bit >> 3] = (bytes[bit >> 3] as number) | (((value >> j) & 1) << (bit & 7));
    }
  });
  return bytes;
}

/** HintBitUnpack (algorithm 21); null for what is not its one encoding. */
function unpackHints(bytes: Uint8Array): readonly ReadonlySet<number>[] | null {
  const hints: Set<number>[] = [];
  let at = 0;
  for (const end of bytes.subarray(OMEGA)) {
    const positions = [...bytes.subarray(at, end)];
    if (end < at || end > OMEGA || positions.some((position, i) => i > 0 && position <= (positions[i - 1] as number))) {
      return null;
    }
    hints.push(new Set(positions));
    at = end;
  }
  return bytes.subarray(at, OMEGA).every((byte) => byte === 0) ? hints : null;
}

/** Numbers of a XOF, byte by byte. */
function* squeeze(xof: ReturnType<typeof shake128.create>): Generator<number, never> {
  for (;;) {
    yield* xof.xof(168);
  }
}

/** SampleInBall (algorithm 29) */
function sampleInBall(seed: Uint8Array): Polynomial {
  const bytes = squeeze(shake256.create({}).update(seed));
  const signs = Array.from({ length: 8 }, () => bytes.next().value);
  const c = new Int32Array(N);
  for (let i = N - TAU; i < N; i++) {
    let j = bytes.next().value;
    while (j > i) {
      j = bytes.next().value;
    }
    const bit = i + TAU - N;
    c[i] = c[j] as number;
    c[j] = ((signs[bit >> 3] as number) >> (bit & 7)) & 1 ? Q - 1 : 1;
  }
  return c;
}

/** One polynomial of Â (RejNTTPoly, algorithm 30). */
function expandA(seed: Uint8Array, row: number, column: number): Polynomial {
  const bytes = squeeze(shake128.create({}).update(concat(seed, Uint8Array.of(column, row))));
  const polynomial = new Int32Array(N);
  for (let i = 0; i < N;) {
    const [b0, b1, b2] = [bytes.next().value, bytes.next().value, bytes.next().value];
    const value = b0 | (b1 << 8) | ((b2 & 0x7f) << 16);
    if (value < Q) {
      polynomial[i++] = value;
    }
  }
  return polynomial;
}

/** ROOT to the power of the bit-reversed index. */
const ZETAS: readonly number[] = Array.from({ length: N }, (_, k) => {
  let exponent = 0;
  for (let bit = 0; bit < 8; bit++) {
    exponent |= ((k >> bit) & 1) << (7 - bit);
  }
  let power = 1;
  for (let i = 0; i < exponent; i++) {
    power = (power * ROOT) % Q;
  }
  return power;
});

/** NTT (algorithm 41) */
function ntt(polynomial: Polynomial): Polynomial {
  const w = polynomial.slice();
  let k = 0;
  for (let length = N / 2; length >= 1; length /= 2) {
    for (let start = 0; start < N; start += 2 * length) {
      const zeta = ZETAS[++k] as number;
      for (let j = start; j < start + length; j++) {
        const t = (zeta * (w[j + length] as number)) % Q;
        w[j + length] = mod((w[j] as number) - t);
        w[j] = ((w[j] as number) + t) % Q;
      }
    }
  }
  return w;
}

/** NTT⁻¹ (algorithm 42) */
function inverseNtt(polynomial: Polynomial): Polynomial {
  const w = polynomial.slice();
  let k = N;
  for (let length = 1; length < N; length *= 2) {
    for (let start = 0; start < N; start += 2 * length) {
      const zeta = Q - (ZETAS[--k] as number);
      for (let j = start; j < start + length; j++) {
        const t = w[j] as number;
        w[j] = (t + (w[j + length] as number)) % Q;
        w[j + length] = (zeta * mod(t - (w[j + length] as number))) % Q;
      }
    }
  }
  return w.map((x) => (x * INVERSE_OF_N) % Q);
}

function addProduct(sum: Polynomial, a: Polynomial, b: Polynomial): void {
  for (let i = 0; i < N; i++) {
    sum[i] = ((sum[i] as number) + (((a[i] as number) * (b[i] as number)) % Q)) % Q;
  }
}

/** UseHint (algorithm 40), with Decompose (algorithm 36) */
function useHint(hint: boolean, r: number): number {
  const m = (Q - 1) / (2 * GAMMA2);
  const low = r % (2 * GAMMA2);
  let r0 = low > GAMMA2 ? low - 2 * GAMMA2 : low;
  let r1 = (r - r0) / (2 * GAMMA2);
  if (r - r0 === Q - 1) {
    r1 = 0;
    r0 -= 1;
  }
  return hint ? (r0 > 0 ? (r1 + 1) % m : (r1 + m - 1) % m) : r1;
}
