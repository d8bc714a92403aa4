/**
 * The browser verifier's interface: bytes in, verdict out. No DOM, no network, no clock, no storage.
 *
 * Everything returned is plain data (structured-clonable, JSON-safe), so the functions can run in a Worker.
 * They never throw on bad input: what cannot be judged comes back as `Unusable` (exit 3).
 */
import { hex } from "./bytes.ts";
import { builtInChains } from "./chains.ts";
import { checkDocument } from "./check.ts";
import { FormatError } from "./errors.ts";
import { openDocument } from "./opening.ts";
import { compareReceipt, kindOf } from "./receipt.ts";
import { readTrust } from "./trust.ts";
import type {
  CheckOptions,
  DocumentKind,
  OpenAnswer,
  OpenOptions,
  PinnedChain,
  ReceiptAnswer,
  Unusable,
  Verdict,
} from "./types.ts";

export * from "./types.ts";

/** Judge a transcript or a receipt (JSON document of 7.2), claim by claim. */
export function check(document: Uint8Array, options: CheckOptions = {}): Promise<Verdict | Unusable> {
  return orUnusable(() => checkDocument(document, options));
}

/** Is the entry of my receipt, with my own bytes, in that transcript? `receipt`: any kind but "transcript". */
export function checkReceipt(
  receipt: Uint8Array,
  transcript: Uint8Array,
  options: Pick<CheckOptions, "logKeys"> = {},
): Promise<ReceiptAnswer | Unusable> {
  return orUnusable(async () => compareReceipt(receipt, transcript, readTrust(options).logKeys));
}

/** Open the seed that a document's seal holds in a timelock, and make every draw that follows. */
export function open(document: Uint8Array, options: OpenOptions = {}): Promise<OpenAnswer | Unusable> {
  return orUnusable(async () => openDocument(document, options));
}

/** What a file is, by its first look. */
export function documentKind(document: Uint8Array): DocumentKind {
  return kindOf(document);
}

/** The chains of `config/chains`, as they were when this verifier was built. */
export function pinnedChains(): readonly PinnedChain[] {
  return builtInChains().map(({ chain, main }) => ({
    name: chain.name,
    hash: hex(chain.hash),
    scheme: chain.scheme,
    period: chain.period,
    main,
  }));
}

async function orUnusable<T>(judge: () => Promise<T>): Promise<T | Unusable> {
  try {
    return await judge();
  } catch (error) {
    if (error instanceof FormatError) {
      return { exit: 3, code: error.code, message: error.message };
    }
    throw error;
  }
}
