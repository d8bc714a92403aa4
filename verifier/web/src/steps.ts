/** The check once more, step by step with its bytes, so that a person can redo it with other tools. */
import { concat, hex } from "./bytes.ts";
import { type Json, writeJson } from "./json.ts";
import type { Step, Value } from "./types.ts";

/** Longer texts and lists are cut: nobody redoes them by hand. */
const MAX_BYTES = 4096;

export const bytes = (name: string, value: Uint8Array): Value => ({
  name: value.length > MAX_BYTES ? `${name} (the first ${MAX_BYTES} of ${value.length} bytes)` : name,
  hex: hex(value.subarray(0, MAX_BYTES)),
});

export const text = (name: string, value: string | number | bigint): Value => ({ name, text: String(value) });

export const json = (name: string, value: Json): Value => text(name, writeJson(value));

/** A list of byte strings as one value: their bytes in a row, or the first of them. */
export const joined = (name: string, values: readonly Uint8Array[]): Value => bytes(name, concat(...values));

export type Draft = Omit<Step, "entryIndex"> & { readonly entryIndex?: number };

export class Steps {
  readonly #all: Step[] = [];
  readonly #ids = new Map<string, number>();

  /** Every id is unique: a second one gets a number. */
  add(draft: Draft): void {
    const count = (this.#ids.get(draft.id) ?? 0) + 1;
    this.#ids.set(draft.id, count);
    const id = count === 1 ? draft.id : `${draft.id}-${count}`;
    this.#all.push({ ...draft, id, entryIndex: draft.entryIndex ?? null });
  }

  get all(): readonly Step[] {
    return this.#all;
  }
}

export const yesOrNo = (name: string, holds: boolean): Value => text(name, holds ? "it holds" : "it does not hold");
