/** The recipes of a seal and their limits (PROTOCOL.md, 5.2). */
import { FormatError } from "./errors.ts";
import { Fields, type Range } from "./fields.ts";
import { type Json, MAX_INTEGER } from "./json.ts";

export type Recipe =
  | { readonly kind: "dice"; readonly count: number; readonly sides: number; readonly variant: DiceVariant }
  | { readonly kind: "integers"; readonly min: number; readonly max: number; readonly count: number }
  | { readonly kind: "shuffle"; readonly size: number }
  | { readonly kind: "sample"; readonly size: number; readonly count: number }
  | { readonly kind: "deal"; readonly size: number; readonly count: number }
  | { readonly kind: "weighted"; readonly weights: readonly number[]; readonly count: number }
  | { readonly kind: "bytes"; readonly count: number };

/** `plain`: each die alone; `reroll_ties`: the whole roll again until all differ; `keccak`: the on-chain mapping. */
export type DiceVariant = "plain" | "reroll_ties" | "keccak";

export function parseRecipe(value: Json): Recipe {
  const fields = new Fields(value, "recipe", "recipe");
  const kind = fields.oneOf("kind", "dice", "integers", "shuffle", "sample", "deal", "weighted", "bytes");
  const count = (max: number): number => fields.integer("count", { min: 1, max });
  const size = (max: number): number => fields.integer("size", { min: 1, max });
  const recipe = ((): Recipe => {
    switch (kind) {
      case "dice":
        return {
          kind,
          count: count(1000),
          sides: fields.integer("sides", { min: 2, max: 2 ** 32 }),
          variant: variant(fields),
        };
      case "integers":
        return { kind, min: fields.integer("min", EVERY), max: fields.integer("max", EVERY), count: count(1000) };
      case "shuffle":
        return { kind, size: size(10_000) };
      case "sample":
        return { kind, size: size(2 ** 32), count: count(5000) };
      case "deal":
        return { kind, size: size(10_000), count: count(10_000) };
      case "weighted":
        return { kind, weights: weights(fields), count: count(1000) };
      case "bytes":
        return { kind, count: count(1024) };
    }
  })();
  fields.done();
  check(recipe);
  return recipe;
}

const EVERY: Range = { min: -MAX_INTEGER, max: MAX_INTEGER };

function variant(fields: Fields): DiceVariant {
  const rerolled = fields.optional("reroll_ties", () => fields.boolean("reroll_ties"));
  const mapping = fields.optional("mapping", () => fields.oneOf("mapping", "keccak"));
  if (rerolled === false || (rerolled !== null && mapping !== null)) {
    throw new FormatError("recipe", "reroll_ties is true or absent, and not with a mapping");
  }
  return rerolled !== null ? "reroll_ties" : (mapping ?? "plain");
}

function weights(fields: Fields): readonly number[] {
  return fields.list("weights", { min: 1, max: 10_000 }).map((weight) => {
    if (typeof weight !== "number" || weight < 0) {
      throw new FormatError("recipe", "a weight is no integer from 0");
    }
    return weight;
  });
}

function check(recipe: Recipe): void {
  if (!holds(recipe)) {
    throw new FormatError("recipe", `the limits of ${recipe.kind} are not kept`);
  }
}

function holds(recipe: Recipe): boolean {
  switch (recipe.kind) {
    case "dice": {
      const { count, sides } = recipe;
      const distinct = count <= sides && count * (count - 1) <= 10 * sides;
      return recipe.variant === "plain" || (recipe.variant === "keccak" ? sides === 6 : distinct);
    }
    case "integers":
      return recipe.min <= recipe.max;
    case "sample":
    case "deal":
      return recipe.count <= recipe.size;
    case "weighted": {
      const total = totalWeight(recipe.weights);
      return total >= 1n && total <= BigInt(MAX_INTEGER);
    }
    default:
      return true;
  }
}

/** The sum, exact whatever the weights are. */
export function totalWeight(all: readonly number[]): bigint {
  return all.reduce((sum, weight) => sum + BigInt(weight), 0n);
}

/**
 * What single draws of a recipe are distributed as: two recipes with the same text differ in nothing but their stream
 * (section 8, remarks).
 */
export function distribution(recipe: Recipe): string {
  switch (recipe.kind) {
    case "dice":
      return numbers(recipe.count, 1, recipe.sides, recipe.variant === "reroll_ties");
    case "integers":
      return numbers(recipe.count, recipe.min, recipe.max, false);
    case "shuffle":
      return numbers(recipe.size, 0, recipe.size - 1, true);
    case "sample":
    case "deal":
      return numbers(recipe.count, 0, recipe.size - 1, true);
    case "weighted":
      return weighted(recipe.weights, recipe.count);
    case "bytes":
      return `${recipe.count} bytes`;
  }
}

function numbers(count: number, low: number, high: number, distinct: boolean): string {
  return `${count} of ${low}..${high}${distinct && count > 1 ? ", distinct" : ""}`;
}

function weighted(all: readonly number[], count: number): string {
  const shares = all.flatMap((weight, value) => (weight > 0 ? [{ value, weight }] : []));
  const divisor = shares.reduce((found, { weight }) => greatestCommonDivisor(found, weight), 0);
  const low = shares[0]?.value ?? 0;
  const high = shares.at(-1)?.value ?? 0;
  if (shares.every(({ weight }) => weight === divisor) && high - low + 1 === shares.length) {
    return numbers(count, low, high, false);
  }
  return `${count} by ${shares.map(({ value, weight }) => `${value}:${weight / divisor}`).join(",")}`;
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}

/** How a recipe makes its outcome from the stream, in words (5.1, 5.2). */
export function explain(recipe: Recipe): string {
  switch (recipe.kind) {
    case "dice":
      return explainDice(recipe.count, recipe.sides, recipe.variant);
    case "integers":
      return `${recipe.count} times ${recipe.min} + ${explainUniform(BigInt(recipe.max) - BigInt(recipe.min) + 1n)}`;
    case "shuffle":
      return `a = [0 … ${recipe.size - 1}]; for i from ${recipe.size - 1} down to 1 swap a[i] and a[uniform(i + 1)]`;
    case "sample":
      return (
        `a = [0 … ${recipe.size - 1}]; ` +
        `for i from 0 to ${recipe.count - 1} swap a[i] and a[i + uniform(${recipe.size} − i)]`
      );
    case "deal":
      return (
        `${recipe.count} cards from what the draws before left of [0 … ${recipe.size - 1}]: ` +
        `with i gone swap a[i] and a[i + uniform(${recipe.size} − i)]`
      );
    case "weighted":
      return (
        `${recipe.count} times x = ${explainUniform(totalWeight(recipe.weights))}, ` +
        "and the first index whose cumulative weight exceeds x"
      );
    case "bytes":
      return `its first ${recipe.count} bytes`;
  }
}

function explainDice(count: number, sides: number, variant: DiceVariant): string {
  if (variant === "keccak") {
    return `${count} dice from the bytes of block_0, then of its Keccak-256, and so on: a byte b below 252 gives (b mod 6) + 1`;
  }
  const again = variant === "reroll_ties" ? ", the whole roll again until all differ" : "";
  return `${count} times ${explainUniform(BigInt(sides))} + 1${again}`;
}

function explainUniform(n: bigint): string {
  let width = 1n;
  while (256n ** width < n) {
    width += 1n;
  }
  const limit = 256n ** width - (256n ** width % n);
  return n === 1n ? "0" : `(the next ${width} bytes as x, again while x ≥ ${limit}; x mod ${n})`;
}
