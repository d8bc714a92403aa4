/** JSON as the protocol takes it: canonical for entries (3.1 to 3.4), lax in white space and escapes for documents (7.2). */
import { fromUtf8 } from "./bytes.ts";
import { FormatError } from "./errors.ts";

/** Objects are maps: no key of the input ever meets a prototype. Numbers are safe integers. */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export type JsonObject = ReadonlyMap<string, Json>;

const MAX_ENTRY_BYTES = 65_535;
const MAX_DOCUMENT_BYTES = 64 * 1024 * 1024;
export const MAX_INTEGER = Number.MAX_SAFE_INTEGER;
const MAX_DEPTH = 32;

const FORBIDDEN = "\\u0000-\\u001f\\u007f-\\u009f\\u2028-\\u202e\\u2066-\\u2069\\ufeff\\p{Cs}";
const FORBIDDEN_ANYWHERE = new RegExp(`[${FORBIDDEN}]`, "u");
const PLAIN = new RegExp(`[^"\\\\${FORBIDDEN}]*`, "uy");
const WHITE_SPACE = /[ \t\n\r]*/y;
const NUMBER = /(?:0|-?[1-9][0-9]*)(?![0-9.eE])/y;
const FOUR_HEX = /[0-9a-fA-F]{4}/y;
const LITERALS: readonly (readonly [string, null | boolean])[] = [
  ["null", null],
  ["true", true],
  ["false", false],
];
const ESCAPES: Readonly<Record<string, string>> = {
  '"': '"',
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};

/** An entry: UTF-8 of at most 65,535 bytes, such that writing it again compactly gives the same bytes. */
export function parseEntryJson(bytes: Uint8Array): JsonObject {
  return parseObject(bytes, MAX_ENTRY_BYTES, true);
}

/** A document: at most 64 MiB. U+000A may stand, escaped, in its string values; whoever reads a field decides. */
export function parseDocumentJson(bytes: Uint8Array): JsonObject {
  return parseObject(bytes, MAX_DOCUMENT_BYTES, false);
}

/** No unpaired surrogate and no control, line or direction character (3.4). */
export function isPlainText(text: string): boolean {
  return !FORBIDDEN_ANYWHERE.test(text);
}

export function isObject(value: Json | undefined): value is JsonObject {
  return value instanceof Map;
}

/** Compact JSON, as `JSON.stringify` writes it. */
export function writeJson(value: Json): string {
  if (value instanceof Map) {
    const fields = [...(value as JsonObject)].map(([key, item]) => `${JSON.stringify(key)}:${writeJson(item)}`);
    return `{${fields.join(",")}}`;
  }
  return Array.isArray(value) ? `[${(value as readonly Json[]).map(writeJson).join(",")}]` : JSON.stringify(value);
}

function parseObject(bytes: Uint8Array, limit: number, canonical: boolean): JsonObject {
  if (bytes.length > limit) {
    throw new FormatError("json", `longer than ${limit} bytes`);
  }
  const text = fromUtf8(bytes);
  if (text === null) {
    throw new FormatError("json", "not UTF-8");
  }
  const value = new Parser(text, canonical).whole();
  if (!isObject(value)) {
    throw new FormatError("json", "not an object");
  }
  return value;
}

class Parser {
  #at = 0;

  constructor(
    private readonly text: string,
    private readonly canonical: boolean,
  ) {}

  whole(): Json {
    const value = this.#value(0);
    this.#space();
    if (this.#at !== this.text.length) {
      throw this.#refusal("something follows the value");
    }
    return value;
  }

  #refusal(what: string): FormatError {
    return new FormatError("json", `${what}, at character ${this.#at}`);
  }

  #match(pattern: RegExp): string | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.text);
    if (found === null) {
      return null;
    }
    this.#at = pattern.lastIndex;
    return found[0];
  }

  #space(): void {
    if (!this.canonical) {
      this.#match(WHITE_SPACE);
    }
  }

  #take(character: string): boolean {
    this.#space();
    if (this.text[this.#at] !== character) {
      return false;
    }
    this.#at += 1;
    return true;
  }

  #expect(character: string): void {
    if (!this.#take(character)) {
      throw this.#refusal(`${character} is missing`);
    }
  }

  #value(depth: number): Json {
    if (this.#take("{")) {
      return this.#object(this.#within(depth));
    }
    if (this.#take("[")) {
      return this.#list(this.#within(depth));
    }
    if (this.#take('"')) {
      return this.#string(true);
    }
    for (const [name, value] of LITERALS) {
      if (this.text.startsWith(name, this.#at)) {
        this.#at += name.length;
        return value;
      }
    }
    return this.#number();
  }

  /** The outermost object is at depth 0. */
  #within(depth: number): number {
    if (depth > MAX_DEPTH) {
      throw this.#refusal(`nested deeper than ${MAX_DEPTH}`);
    }
    return depth;
  }

  #object(depth: number): JsonObject {
    const fields = new Map<string, Json>();
    if (this.#take("}")) {
      return fields;
    }
    do {
      this.#expect('"');
      const key = this.#string(false);
      if (fields.has(key)) {
        throw this.#refusal("a key stands twice");
      }
      this.#expect(":");
      fields.set(key, this.#value(depth + 1));
    } while (this.#take(","));
    this.#expect("}");
    return fields;
  }

  #list(depth: number): readonly Json[] {
    const items: Json[] = [];
    if (this.#take("]")) {
      return items;
    }
    do {
      items.push(this.#value(depth + 1));
    } while (this.#take(","));
    this.#expect("]");
    return items;
  }

  #number(): number {
    const found = this.#match(NUMBER);
    const value = Number(found ?? Number.NaN);
    if (!Number.isSafeInteger(value)) {
      throw this.#refusal("neither a value nor an integer up to 2^53 - 1");
    }
    return value;
  }

  #string(lineFeed: boolean): string {
    let text = "";
    let escaped = false;
    for (;;) {
      text += this.#match(PLAIN) ?? "";
      const next = this.text[this.#at];
      if (next === '"') {
        break;
      }
      if (next !== "\\") {
        throw this.#refusal("a character that no string holds, or no end of it");
      }
      this.#at += 1;
      escaped = true;
      text += this.#escape();
    }
    this.#at += 1;
    if (escaped && !isPlainText(lineFeed && !this.canonical ? text.replaceAll("\n", "") : text)) {
      throw new FormatError("string", `a forbidden character in the string before character ${this.#at}`);
    }
    return text;
  }

  #escape(): string {
    const letter = this.text[this.#at] ?? "";
    this.#at += 1;
    if (this.canonical ? letter === '"' || letter === "\\" : Object.hasOwn(ESCAPES, letter)) {
      return ESCAPES[letter] ?? "";
    }
    const code = this.canonical || letter !== "u" ? null : this.#match(FOUR_HEX);
    if (code === null) {
      throw this.#refusal("an escape that is not allowed");
    }
    return String.fromCharCode(Number.parseInt(code, 16));
  }
}
