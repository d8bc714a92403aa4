import type { DocumentKind, ReceiptAnswer } from "./types.ts";
import { FormatError } from "./errors.ts";

export function compareReceipt(_receipt: Uint8Array, _transcript: Uint8Array, _logKeys: readonly string[]): ReceiptAnswer {
  throw new FormatError("document", "not written yet");
}

export function kindOf(document: Uint8Array): DocumentKind {
  return document.length === 0 ? "unknown" : "transcript";
}
