/** Reading an object field by field: every field of the table and no other, each in its own form (PROTOCOL.md, 3.3). */
import { parseHex, utf8 } from "./bytes.ts";
import { type Code, FormatError } from "./errors.ts";
import { isObject, isPlainText, type Json, type JsonObject, MAX_INTEGER } from "./json.ts";

export interface Range {
  readonly min?: number;
  readonly max?: number;
}

/** Takes fields out of an object; `done` refuses whatever is left. */
export class Fields {
  readonly #left: Map<string, Json>;

  /** `where` names the object in refusals. */
  constructor(
    value: Json | undefined,
    private readonly where: string,
    private readonly code: Code = "entry",
  ) {
    if (!isObject(value)) {
      throw new FormatError(code, `${where} is no object`);
    }
    this.#left = new Map(value);
  }

  /** What was not taken yet. */
  names(): readonly string[] {
    return [...this.#left.keys()];
  }

  has(name: string): boolean {
    return this.#left.has(name);
  }

  refusal(name: string, what: string): FormatError {
    return new FormatError(this.code, `${this.where}: '${name}' ${what}`);
  }

  take(name: string): Json {
    const value = this.#left.get(name);
    if (value === undefined) {
      throw this.refusal(name, "is missing");
    }
    this.#left.delete(name);
    return value;
  }

  integer(name: string, { min = 0, max = MAX_INTEGER }: Range = {}): number {
    const value = this.take(name);
    if (typeof value !== "number" || value < min || value > max) {
      throw this.refusal(name, `is no integer from ${min} to ${max}`);
    }
    return value;
  }

  /** Lengths count UTF-8 bytes (3.4). */
  text(name: string, { min = 0, max = Number.POSITIVE_INFINITY }: Range = {}): string {
    const value = this.take(name);
    if (typeof value !== "string" || !isPlainText(value)) {
      throw this.refusal(name, "is no string, or holds a character that no string holds");
    }
    const length = utf8(value).length;
    if (length < min || length > max) {
      throw this.refusal(name, `has ${length} bytes`);
    }
    return value;
  }

  matching(name: string, pattern: RegExp): string {
    const value = this.text(name);
    if (!pattern.test(value)) {
      throw this.refusal(name, "is not a name");
    }
    return value;
  }

  oneOf<T extends string>(name: string, ...values: readonly T[]): T {
    const value = this.take(name);
    const found = values.find((candidate) => candidate === value);
    if (found === undefined) {
      throw this.refusal(name, `is none of ${values.join(", ")}`);
    }
    return found;
  }

  boolean(name: string): boolean {
    const value = this.take(name);
    if (typeof value !== "boolean") {
      throw this.refusal(name, "is neither true nor false");
    }
    return value;
  }

  hex(name: string, length?: number): Uint8Array {
    const value = this.take(name);
    if (typeof value !== "string") {
      throw new FormatError("hex", `${this.where}: '${name}' is no string`);
    }
    return parseHex(value, length);
  }

  list(name: string, { min = 0, max = Number.POSITIVE_INFINITY }: Range = {}): readonly Json[] {
    const value = this.take(name);
    if (!Array.isArray(value) || value.length < min || value.length > max) {
      throw this.refusal(name, `is no list of ${min} to ${max} items`);
    }
    return value as readonly Json[];
  }

  object(name: string, { min = 0, max = Number.POSITIVE_INFINITY }: Range = {}): JsonObject {
    const value = this.take(name);
    if (!isObject(value) || value.size < min || value.size > max) {
      throw this.refusal(name, `is no object of ${min} to ${max} fields`);
    }
    return value;
  }

  /** What `read` makes of the field, or null where it is null. */
  orNull<T>(name: string, read: () => T): T | null {
    if (this.#left.get(name) === null) {
      this.#left.delete(name);
      return null;
    }
    return read();
  }

  /** What `read` makes of the field, or null where it is absent. */
  optional<T>(name: string, read: () => T): T | null {
    return this.has(name) ? read() : null;
  }

  done(): void {
    for (const name of this.names()) {
      throw this.refusal(name, "is unknown");
    }
  }
}

/** Refuses a list in which two items have one key. */
export function requireUnique(keys: readonly string[], what: string): void {
  if (new Set(keys).size !== keys.length) {
    throw new FormatError("entry", `${what} stands twice`);
  }
}
