/** What input can be refused for. Codes are stable and shared with the Python verifier. */
export type Code =
  | "hex"
  | "base64"
  | "decimal"
  | "json"
  | "string"
  | "entry"
  | "recipe"
  | "document"
  | "vkey"
  | "note"
  | "checkpoint"
  | "cosignature"
  | "tlog-proof"
  | "policy"
  | "chain-info"
  | "scheme"
  | "point"
  | "age"
  | "timelock"
  | "vectors"
  | "record"
  | "option"
  | "signature"
  | "usage";

/** The input is not in the one canonical form that its format allows. Nothing else is ever thrown on purpose. */
export class FormatError extends Error {
  constructor(
    readonly code: Code,
    message: string,
  ) {
    super(message);
    this.name = "FormatError";
  }
}

/** The result of `parse`, or null where it refuses. Any other error passes. */
export function accepted<T>(parse: () => T): T | null {
  try {
    return parse();
  } catch (error) {
    if (error instanceof FormatError) {
      return null;
    }
    throw error;
  }
}
