/**
 * What every replay shares: strict reading of a record, options, rows, the answer. Written from the record formats; it gives
 * the same answers as the Python verifier's `verifier replay`, text for text.
 */
import { parseHex, utf8 } from "../bytes.ts";
import { type Code, FormatError } from "../errors.ts";
import formats from "./formats.json" with { type: "json" };
import { type Json, parseJson } from "./json.ts";

/** How a record is to be read where its system leaves that open. `values`: all there are; none for free text. */
export interface Option {
  readonly name: string;
  readonly default: string;
  readonly about: string;
  readonly values: readonly string[];
}

export type Value = null | number | string | readonly Value[];

/** One value of a record: `expected` is recomputed, `found` is what the record says. */
export interface Row {
  readonly what: string;
  readonly expected: Value;
  readonly found: Value;
  readonly ok: boolean;
}

/** `ok` is null, with a code, for what is no such record or option; `reading` holds every option that was used. */
export interface Replay {
  readonly ok: boolean | null;
  readonly code: Code | null;
  readonly message: string;
  readonly reading: Readonly<Record<string, string>>;
  readonly rows: readonly Row[];
}

export interface System {
  readonly name: string;
  readonly title: string;
  readonly about: string;
  /** The record's format, a line a field. */
  readonly record: readonly string[];
  readonly proves: string;
  readonly doesNotProve: readonly string[];
  readonly options: readonly Option[];
  /** A record that agrees, as JSON text. */
  readonly example: string;
  readonly replay: (text: string, options?: Readonly<Record<string, string>>) => Replay;
}

export type Reading = (name: string) => string;
export type Run = (record: Fields, reading: Reading) => readonly Row[];

const MAX_BYTES = 64 * 1024 * 1024;
const DECIMAL = /^(0|[1-9][0-9]{0,17})\.([0-9]{2})$/;

export function row(what: string, expected: Value, found: Value): Row {
  return { what, expected, found, ok: same(expected, found) };
}

/** A row a roll; `expected` gives the roll of a number, which counts from `first`. */
export function rollRows(rolls: readonly Roll[], expected: (number: number) => Roll, first = 1): readonly Row[] {
  return rolls.map((roll, i) => row(`roll ${first + i}`, expected(first + i), roll));
}

export type Roll = readonly number[];

/** A number of hundredths as a decimal string: 9308 is "93.08". */
export function hundredths(value: bigint): string {
  return `${value / 100n}.${(value % 100n).toString().padStart(2, "0")}`;
}

/** An object of a record. Each getter takes one field; `done` refuses what no getter took. */
export class Fields {
  readonly #fields: ReadonlyMap<string, Json>;
  readonly #known = new Set<string>();
  readonly #inner: Fields[] = [];

  constructor(
    value: Json,
    private readonly where = "the record",
  ) {
    if (!(value instanceof Map)) {
      throw new FormatError("record", `${where} is a JSON object`);
    }
    this.#fields = value as ReadonlyMap<string, Json>;
  }

  has(name: string): boolean {
    this.#known.add(name);
    return this.#fields.has(name);
  }

  get(name: string): Json {
    if (!this.has(name)) {
      throw new FormatError("record", `${this.where} has no ${name}`);
    }
    return this.#fields.get(name) as Json;
  }

  refuse(name: string, what: string): FormatError {
    return new FormatError("record", `${this.#path(name)} is ${what}`);
  }

  /** `minimum` to `maximum` UTF-8 bytes, never normalised. */
  text(name: string, minimum = 0, maximum = 4096): string {
    return text(this.get(name), this.#path(name), minimum, maximum);
  }

  hex(name: string, length?: number): Uint8Array {
    return hexBytes(this.get(name), this.#path(name), length);
  }

  integer(name: string, low = 0, high = Number.MAX_SAFE_INTEGER): number {
    return integer(this.get(name), this.#path(name), low, high);
  }

  /** "93.08" as 9308. */
  hundredths(name: string): bigint {
    const value = this.get(name);
    const match = typeof value === "string" ? DECIMAL.exec(value) : null;
    if (match === null) {
      throw this.refuse(name, 'a decimal string with two digits after the point, such as "1.46"');
    }
    return BigInt(match[1] ?? 0) * 100n + BigInt(match[2] ?? 0);
  }

  items(name: string, maximum = 10_000): readonly Json[] {
    const value = this.get(name);
    if (!Array.isArray(value) || value.length < 1 || value.length > maximum) {
      throw this.refuse(name, `a list of 1 to ${maximum} items`);
    }
    return value as readonly Json[];
  }

  records(name: string, maximum = 10_000): readonly Fields[] {
    const found = this.items(name, maximum).map((item, i) => new Fields(item, `${this.#path(name)}[${i}]`));
    this.#inner.push(...found);
    return found;
  }

  texts(name: string, minimum = 0, maximum = 10_000): readonly string[] {
    return this.items(name, maximum).map((item, i) => text(item, `${this.#path(name)}[${i}]`, minimum, 4096));
  }

  integers(name: string, low: number, high: number, maximum = 10_000): readonly number[] {
    return this.items(name, maximum).map((item, i) => integer(item, `${this.#path(name)}[${i}]`, low, high));
  }

  hexes(name: string, length: number): readonly Uint8Array[] {
    return this.items(name).map((item, i) => hexBytes(item, `${this.#path(name)}[${i}]`, length));
  }

  /** Each of `dice` faces 1 to 6, or of 1 to 100 where that is null. */
  rolls(name: string, dice: number | null = 2, maximum = 4096): readonly Roll[] {
    return this.items(name, maximum).map((item, i) => faces(item, `${this.#path(name)}[${i}]`, dice));
  }

  roll(name: string): Roll {
    return faces(this.get(name), this.#path(name), 2);
  }

  done(): void {
    for (const name of this.#fields.keys()) {
      if (!this.#known.has(name)) {
        throw new FormatError("record", `${this.where} has an unknown field ${JSON.stringify(name)}`);
      }
    }
    this.#inner.forEach((inner) => inner.done());
  }

  #path(name: string): string {
    return this.where === "the record" ? name : `${this.where}.${name}`;
  }
}

/** The system of a name, with its texts from formats.json. */
export function system(name: string, run: Run): System {
  const format = formats.find((one) => one.name === name);
  if (format === undefined) {
    throw new RangeError(`no format ${name}`);
  }
  const { title, about, record, proves, does_not_prove: doesNotProve, options, example } = format;
  const replay = (input: string, given: Readonly<Record<string, string>> = {}): Replay => {
    try {
      return agreed(replayed(name, options, run, input, given));
    } catch (error) {
      if (!(error instanceof FormatError)) {
        throw error;
      }
      return { ok: null, code: error.code, message: error.message, reading: {}, rows: [] };
    }
  };
  return { name, title, about, record, proves, doesNotProve, options, example, replay };
}

interface Done {
  readonly reading: Readonly<Record<string, string>>;
  readonly rows: readonly Row[];
}

function replayed(
  name: string,
  options: readonly Option[],
  run: Run,
  input: string,
  given: Readonly<Record<string, string>>,
): Done {
  const reading = readingOf(name, options, given);
  if (utf8(input).length > MAX_BYTES) {
    throw new FormatError("document", `a record has at most ${MAX_BYTES} bytes`);
  }
  const record = new Fields(parseJson(input));
  if (record.has("system") && record.get("system") !== name) {
    throw record.refuse("system", `${JSON.stringify(name)}, if it is there`);
  }
  const rows = run(record, (option) => reading[option] ?? "");
  record.done();
  return { reading, rows };
}

function readingOf(
  name: string,
  options: readonly Option[],
  given: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const unknown = Object.keys(given).find((key) => !options.some((option) => option.name === key));
  if (unknown !== undefined) {
    throw new FormatError("option", `${name} has no option ${JSON.stringify(unknown)}`);
  }
  const reading: Record<string, string> = {};
  for (const option of options) {
    const value = Object.hasOwn(given, option.name) ? given[option.name] : undefined;
    reading[option.name] = value ?? option.default;
    if (option.values.length > 0 && !option.values.includes(value ?? option.default)) {
      throw new FormatError("option", `${option.name} is one of ${option.values.join(", ")}`);
    }
  }
  return reading;
}

function agreed({ reading, rows }: Done): Replay {
  const wrong = rows.filter((one) => !one.ok);
  const [first] = wrong;
  if (first === undefined) {
    const message = `Agrees: all ${rows.length} stated values are what the record's inputs give.`;
    return { ok: true, code: null, message, reading, rows };
  }
  const more = wrong.length > 1 ? ` (and ${wrong.length - 1} more)` : "";
  const values = `expected ${JSON.stringify(first.expected)}, found ${JSON.stringify(first.found)}`;
  return { ok: false, code: null, message: `Differs: ${first.what}: ${values}${more}`, reading, rows };
}

function same(a: Value, b: Value): boolean {
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((item, i) => same(item as Value, b[i] as Value));
  }
  return a === b;
}

function text(value: Json, path: string, minimum: number, maximum: number): string {
  const length = typeof value === "string" ? utf8(value).length : -1;
  if (length < minimum || length > maximum) {
    throw new FormatError("record", `${path} is a string of ${minimum} to ${maximum} bytes`);
  }
  return value as string;
}

function integer(value: Json, path: string, low: number, high: number): number {
  if (typeof value !== "number" || value < low || value > high) {
    throw new FormatError("record", `${path} is an integer from ${low} to ${high}`);
  }
  return value;
}

function hexBytes(value: Json, path: string, length?: number): Uint8Array {
  try {
    const bytes = parseHex(typeof value === "string" ? value : "?", length);
    if (bytes.length >= 1 && bytes.length <= 4096) {
      return bytes;
    }
  } catch (error) {
    throw error instanceof FormatError ? new FormatError("hex", `${path}: ${error.message}`) : error;
  }
  throw new FormatError("hex", `${path}: 1 to 4096 bytes are due`);
}

function faces(value: Json, path: string, dice: number | null): Roll {
  const [low, high] = dice === null ? [1, 100] : [dice, dice];
  if (!Array.isArray(value) || value.length < low || value.length > high) {
    throw new FormatError("record", `${path} is a list of ${low === high ? low : `${low} to ${high}`} faces`);
  }
  return (value as readonly Json[]).map((face, i) => integer(face, `${path}[${i}]`, 1, 6));
}
