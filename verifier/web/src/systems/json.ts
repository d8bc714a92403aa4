/**
 * JSON as other systems' records have it: no duplicate keys, no fractions, integers up to 2^53 - 1 in one spelling; strings
 * hold any character but an unpaired surrogate.
 */
import { FormatError } from "../errors.ts";

/** Objects are maps: no key of a record ever meets a prototype. */
export type Json = null | boolean | number | string | readonly Json[] | ReadonlyMap<string, Json>;

const MAX_DEPTH = 32;
const SPACE = /[ \t\n\r]*/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?![0-9.eE])/y;
const LITERAL = /null|true|false/y;
const LITERALS: Readonly<Record<string, boolean | null>> = { null: null, true: true, false: false };
const UNPAIRED = /\p{Cs}/u;

/** The value of a text. Throws FormatError json, or string for an unpaired surrogate. */
export function parseJson(text: string): Json {
  let at = 0;

  function match(pattern: RegExp): string | null {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    at = found === null ? at : pattern.lastIndex;
    return found === null ? null : found[0];
  }

  function refusal(what: string): FormatError {
    return new FormatError("json", `${what}, at character ${at}`);
  }

  function take(character: string): boolean {
    match(SPACE);
    const there = text[at] === character;
    at += there ? 1 : 0;
    return there;
  }

  function expect(character: string): void {
    if (!take(character)) {
      throw refusal(`${character} is missing`);
    }
  }

  function string(): string | null {
    match(SPACE);
    const found = match(STRING);
    return found === null ? null : (JSON.parse(found) as string);
  }

  function object(depth: number): ReadonlyMap<string, Json> {
    const fields = new Map<string, Json>();
    if (take("}")) {
      return fields;
    }
    do {
      const key = string();
      if (key === null || fields.has(key)) {
        throw refusal(key === null ? "a key is missing" : "the same key twice in one object");
      }
      expect(":");
      fields.set(key, value(depth + 1));
    } while (take(","));
    expect("}");
    return fields;
  }

  function list(depth: number): readonly Json[] {
    const items: Json[] = [];
    if (take("]")) {
      return items;
    }
    do {
      items.push(value(depth + 1));
    } while (take(","));
    expect("]");
    return items;
  }

  function value(depth: number): Json {
    const nested = take("{") ? object : take("[") ? list : null;
    if (nested !== null) {
      if (depth > MAX_DEPTH) {
        throw refusal("nested too deeply");
      }
      return nested(depth);
    }
    const found = string();
    if (found !== null) {
      return found;
    }
    const literal = match(LITERAL);
    return literal === null ? number() : LITERALS[literal] ?? null;
  }

  function number(): number {
    const found = match(NUMBER);
    if (found === null || found === "-0" || !Number.isSafeInteger(Number(found))) {
      throw refusal("neither a value nor an integer up to 2^53 - 1");
    }
    return Number(found);
  }

  const whole = value(0);
  match(SPACE);
  if (at !== text.length) {
    throw refusal("something follows the value");
  }
  refuseUnpaired(whole);
  return whole;
}

function refuseUnpaired(value: Json): void {
  if (typeof value === "string") {
    if (UNPAIRED.test(value)) {
      throw new FormatError("string", "unpaired surrogate in a string");
    }
  } else if (value instanceof Map) {
    for (const [key, item] of value as ReadonlyMap<string, Json>) {
      refuseUnpaired(key);
      refuseUnpaired(item);
    }
  } else if (Array.isArray(value)) {
    (value as readonly Json[]).forEach(refuseUnpaired);
  }
}
