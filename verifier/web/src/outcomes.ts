/** Draws made again (PROTOCOL.md, sections 4 and 5). */
import { type Case, openCalls, roundEntry } from "./case.ts";
import { randomness } from "./drand.ts";
import { Deck, hasShape, isOutcome, type Outcome, outcomeOf } from "./draws.ts";
import type { Call, Draw, Seal } from "./entries.ts";
import { type Json, writeJson } from "./json.ts";
import type { Recipe } from "./recipes.ts";
import { type Bound, bindingOf, hashDown, sessionDigest, Stream } from "./seeds.ts";

const MAX_WRONG = 20;
const MAX_SHOWN = 60;

/** What a draw rests on. */
export interface Rest {
  readonly seed: Uint8Array;
  readonly binding: Uint8Array;
}

/** What is missing for a draw. */
export type Missing = "seed" | "round";

/** Everything that draws of a session are computed from, as far as the document shows it. */
export class Draws {
  /** S over what was contributed before the close (4.1). */
  readonly digest: Uint8Array;
  /** B of a match, if its round is shown. */
  readonly binding: Uint8Array | null;
  readonly #decks = new Map<string, Deck | "lost">();
  readonly #calls: ReadonlyMap<number, Call>;
  readonly #end: Case["session"]["end"];

  /** `signatureOf`: of a round of the seal's chain; by default what the document shows. */
  constructor(
    given: Case,
    private readonly signatureOf: (round: number) => Uint8Array | null = (round) =>
      roundEntry(given, round)?.entry.signature ?? null,
  ) {
    this.#end = given.session.end;
    const { entry: seal, leaf } = given.session.seal;
    this.digest = sessionDigest(
      leaf,
      given.session.contributions.map(({ entry }) => entry),
    );
    this.binding = seal.profile === "match" ? this.#bind(0, [], seal.round) : null;
    this.#calls = new Map(given.session.calls.map(({ entry }) => [entry.draw, entry]));
  }

  /** What B is made from, if the round is shown. */
  boundBy(k: number, called: Call["contributions"], round: number): Bound | null {
    const signature = this.signatureOf(round);
    return signature && { digest: this.digest, k, called, round, random: randomness(signature) };
  }

  #bind(k: number, called: Call["contributions"], round: number): Uint8Array | null {
    const bound = this.boundBy(k, called, round);
    return bound && bindingOf(bound);
  }

  /** B of the call that a draw names, if both it and its round are shown. */
  bindingOfDraw(k: number): Uint8Array | null {
    const call = this.#calls.get(k);
    return call === undefined ? null : this.bindingOfCall(call);
  }

  /** B of a call, if its round is shown. */
  bindingOfCall(call: Call): Uint8Array | null {
    return this.#bind(call.draw, call.contributions, call.round);
  }

  /** What a draw rests on, or what is missing. */
  restOf({ live }: Draw): Rest | Missing {
    if (live === null) {
      const seed = this.#end?.entry.seed ?? null;
      return seed === null ? "seed" : this.binding === null ? "round" : { seed, binding: this.binding };
    }
    const binding = this.bindingOfDraw(live.draw);
    return binding === null ? "round" : { seed: live.seed, binding };
  }

  /** The stream of one draw. */
  streamOf({ seed, binding }: Rest, recipe: string, n: number): Stream {
    return new Stream(seed, binding, recipe, n);
  }

  /** Deal, or draw, from a stream; null past a deck's end, "lost" where the deck cannot be followed. */
  compute(name: string, recipe: Recipe, stream: Stream): Outcome | null | "lost" {
    if (recipe.kind !== "deal") {
      return outcomeOf(recipe, stream, null);
    }
    const deck = this.#decks.get(name) ?? new Deck(recipe.size);
    this.#decks.set(name, deck);
    return deck === "lost" ? deck : outcomeOf(recipe, stream, deck);
  }

  /** A draw that cannot be computed takes unknown cards out of its deck. */
  lose(name: string): void {
    this.#decks.set(name, "lost");
  }
}

/** How far the outcomes could be computed. */
export interface Recomputed {
  readonly count: number;
  readonly missing: Missing | "deck" | null;
}

/** Make every draw again and compare. `pace`: called after each, to yield. */
export async function checkOutcomes(given: Case, draws: Draws, pace: () => Promise<void>): Promise<Recomputed> {
  let count = 0;
  let wrong = 0;
  let missing: Recomputed["missing"] = null;
  for (const { entry: draw, index } of given.session.draws) {
    const rest = draws.restOf(draw);
    if (rest === "seed" || rest === "round") {
      missing ??= rest;
      draws.lose(draw.recipe);
      continue;
    }
    for (const [i, stated] of draw.outcomes.entries()) {
      const found = judge(given, draws, rest, draw.recipe, draw.n + i, stated);
      if (found === "lost") {
        missing ??= "deck";
        continue;
      }
      count += 1;
      if (found !== null) {
        given.findings.add("outcomes", found.rule, found.text, index);
        wrong += 1;
        if (wrong === MAX_WRONG) {
          return { count, missing };
        }
      }
      await pace();
    }
  }
  return { count, missing };
}

type Wrong = { readonly rule: "5.2" | "5.3"; readonly text: string };

/** What is wrong with one stated outcome, or null. */
function judge(
  { session }: Case,
  draws: Draws,
  rest: Rest,
  name: string,
  n: number,
  stated: Json,
): Wrong | "lost" | null {
  const recipe = session.seal.entry.recipes.get(name);
  if (recipe === undefined) {
    return { rule: "5.2", text: `${name} is no recipe of the seal` };
  }
  const computed = draws.compute(name, recipe, draws.streamOf(rest, name, n));
  if (computed === "lost") {
    return computed;
  }
  if (computed === null) {
    return { rule: "5.2", text: `${name} ${n} is past the end of its deck` };
  }
  if (!hasShape(recipe, stated)) {
    return { rule: "5.3", text: `${name} ${n} has not the shape of its recipe's outcomes` };
  }
  const text = `${name} ${n} is ${shorten(computed)}, the transcript says ${shorten(stated)}`;
  return isOutcome(stated, computed) ? null : { rule: "5.2", text };
}

function shorten(value: Json): string {
  const text = writeJson(value);
  return text.length <= MAX_SHOWN ? text : `${text.slice(0, MAX_SHOWN - 3)}...`;
}

export interface WouldBe {
  readonly recipe: string;
  readonly n: number;
  readonly purpose: string;
  readonly outcome: Outcome;
}

/** Void for `no-round`: what the round would have given, as far as seed and rounds are shown (6.12). */
export function wouldHaveBeen(given: Case): readonly WouldBe[] {
  const { end, seal, calls } = given.session;
  if (end?.entry.type !== "void" || end.entry.reason !== "no-round" || end.entry.seed === null) {
    return [];
  }
  const { seed } = end.entry;
  const draws = new Draws(given);
  if (seal.entry.profile === "match") {
    return matchWouldBe(draws, seal.entry, seed);
  }
  const open = new Set(openCalls(given).map(({ entry }) => entry.draw));
  const rows: WouldBe[] = [];
  for (const [i, { entry: call }] of calls.entries()) {
    const binding = draws.bindingOfCall(call);
    const recipe = seal.entry.recipes.get(call.recipe);
    if (binding === null || recipe === undefined) {
      draws.lose(call.recipe);
      continue;
    }
    const found = row(draws, { seed: hashDown(seed, calls.length - 1 - i), binding }, recipe, call);
    rows.push(...(open.has(call.draw) ? found : []));
  }
  return rows;
}

function matchWouldBe(draws: Draws, seal: Seal, seed: Uint8Array): readonly WouldBe[] {
  const { binding } = draws;
  if (binding === null) {
    return [];
  }
  const rows: WouldBe[] = [];
  for (const [name, recipe] of seal.recipes) {
    const planned = seal.plan === null ? 1 : (seal.plan.get(name) ?? 0);
    for (let n = 1; n <= planned; n++) {
      rows.push(...row(draws, { seed, binding }, recipe, { recipe: name, n, purpose: "" }));
    }
  }
  return rows;
}

function row(
  draws: Draws,
  rest: Rest,
  recipe: Recipe,
  { recipe: name, n, purpose }: Pick<Call, "recipe" | "n" | "purpose">,
): readonly WouldBe[] {
  const outcome = draws.compute(name, recipe, draws.streamOf(rest, name, n));
  return outcome === null || outcome === "lost" ? [] : [{ recipe: name, n, purpose, outcome }];
}
