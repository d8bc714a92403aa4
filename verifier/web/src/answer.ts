/** The service's answer to a write, which has receipts in its fields. */
import { readDocument, type Document } from "./document.ts";
import { FormatError } from "./errors.ts";
import { isObject, type Json, type JsonObject } from "./json.ts";

/** A document in the service's answer to a write, and the field where it stands. */
export interface Answered {
  readonly field: string;
  readonly document: JsonObject;
}

/** The documents in the service's answer to a write; none in anything else. */
export function receiptsIn(answer: JsonObject): readonly Answered[] {
  if (answer.has("format")) {
    return [];
  }
  const found: (readonly [string, Json | undefined])[] = ["receipt", "close_receipt"].map((name) => [
    name,
    answer.get(name),
  ]);
  const listed = answer.get("receipts");
  if (Array.isArray(listed)) {
    found.push(...(listed as readonly Json[]).map((item, i) => [`receipts[${i}]`, item] as const));
  }
  return found.flatMap(([field, item]) => (isObject(item) && item.has("format") ? [{ field, document: item }] : []));
}

/** `readDocument` that tells the service's whole answer from a document that is damaged. */
export function readAlone(value: JsonObject): Document {
  const [first, ...others] = receiptsIn(value).map(({ field }) => field);
  if (first !== undefined) {
    const more = others.length > 0 ? ` (or in ${others.join(", ")})` : "";
    throw new FormatError("document", `this is the service's answer; give the object in its \`${first}\` field${more}`);
  }
  return readDocument(value);
}
