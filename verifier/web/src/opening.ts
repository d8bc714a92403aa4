/** A session finished without its operator: its seed from the timelock, and every draw that follows (PROTOCOL.md, 7.3). */
import type { OpenAnswer, OpenedDraw, Opening, OpenOptions } from "./types.ts";
import { readAlone } from "./answer.ts";
import { equal, hex, parseHex, sha256 } from "./bytes.ts";
import { type Case, neededRounds, roundEntry, Sights } from "./case.ts";
import { type Chain, timeOf } from "./chains.ts";
import { logClaim } from "./claims.ts";
import { type Lock, openSeed, readLock } from "./custody.ts";
import { type Document, roundName } from "./document.ts";
import { type StatedRound, verifyRound } from "./drand.ts";
import { isOutcome, type Outcome } from "./draws.ts";
import type { Call, Seal } from "./entries.ts";
import { FormatError } from "./errors.ts";
import { checkLog } from "./evidence.ts";
import { Findings } from "./findings.ts";
import { type Json, parseDocumentJson } from "./json.ts";
import { Draws } from "./outcomes.ts";
import { collect, drawCounts, type Session } from "./session.ts";
import { readTrust, type Trust } from "./trust.ts";

const MAX_DRAWS = 10_000;

/** What it takes to open a seal's timelock, beside the document. */
export function openingOf(given: Case, lock: Lock): Opening | null {
  const { session, chains } = given;
  const { entry: seal } = session.seal;
  const revealed = session.end !== null && session.end.entry.seed !== null;
  const chain = seal.timelock && chains.get(seal.timelock.chain);
  if (!chain || !(lock === "not yet" || (lock === "opens" && !revealed))) {
    return null;
  }
  const { round } = seal.timelock;
  const counts = drawCounts(session.draws);
  const free = seal.profile === "match" && seal.plan === null;
  return {
    chain: { name: chain.name, hash: hex(chain.hash) },
    round,
    due_at: timeOf(chain, round),
    shown: lock === "opens",
    rounds: neededRounds(given).filter((needed) => roundEntry(given, needed) === null),
    recipes: free ? Object.fromEntries([...seal.recipes.keys()].map((name) => [name, counts.get(name) ?? 0])) : null,
  };
}

/** Throws FormatError for unusable input. */
export function openDocument(bytes: Uint8Array, options: OpenOptions): OpenAnswer {
  const trust = readTrust(options);
  const document = readAlone(parseDocumentJson(bytes));
  const { log, session } = read(document, trust);
  if (session === null) {
    throw new FormatError("document", "the document has no seal: give the transcript, or the seal's receipt");
  }
  const { entry: seal } = session.seal;
  if (seal.timelock === null) {
    throw new FormatError("document", "the seal carries no timelock: only its holder can reveal the seed");
  }
  const asked = counted(session, options.draws ?? {});
  if (log.state === "FAILED") {
    return { headline: `FAILED: ${log.text}`, exit: 1 };
  }
  const chain = trust.chains.get(seal.timelock.chain);
  const { signatures, problem } = verifiedRounds(session, trust, options);
  const signature = signatures.get(roundName(seal.timelock.chain, seal.timelock.round));
  if (problem !== null) {
    return { headline: `FAILED: ${problem}`, exit: 1 };
  }
  if (chain === undefined || signature === undefined) {
    return { headline: `NOT OPENED: ${missing(chain, seal.timelock.round)}`, exit: 2 };
  }
  const seed = seedOf(seal, chain, signature);
  if (typeof seed === "string") {
    return { headline: `FAILED: ${seed}`, exit: 1 };
  }
  const draws = new Opened(session, trust, seed, signatures).all(asked);
  const verified = log.state === "PROVEN";
  const undecided = !verified || draws.some(({ why }) => why !== "");
  return {
    headline: `The timelock opens to the seed that was sealed: ${hex(seed)}`,
    exit: draws.some(({ same }) => same === false) ? 1 : undecided ? 2 : 0,
    session: session.id,
    seed: hex(seed),
    draws,
    log_verified: verified,
  };
}

function read(document: Document, trust: Trust): { log: ReturnType<typeof logClaim>; session: Session | null } {
  const findings = new Findings();
  const found = checkLog(document, trust, findings);
  const session = collect(document, findings);
  return { log: logClaim(document, found, findings), session };
}

function missing(chain: Chain | undefined, round: number): string {
  if (chain === undefined) {
    return `the timelock is to round ${round} of a drand chain that was not given`;
  }
  const due = new Date(timeOf(chain, round)).toISOString();
  return (
    `give the signature of round ${round} of ${chain.name}, due at ${due}; every relay of drand's has it then, ` +
    `at /${hex(chain.hash)}/public/${round}`
  );
}

/** The seed, or why the ciphertext holds none. */
function seedOf(seal: Seal, chain: Chain, signature: Uint8Array): Uint8Array | string {
  try {
    return seal.timelock === null ? "there is no timelock" : openSeed(seal, readLock(seal.timelock, chain), signature);
  } catch (error) {
    if (error instanceof FormatError) {
      return error.message;
    }
    throw error;
  }
}

interface Known {
  /** By `roundName`. */
  readonly signatures: ReadonlyMap<string, Uint8Array>;
  /** Why one that was given or shown is false. */
  readonly problem: string | null;
}

/** The timelock's round and those that the draws rest on, as they were given, else as they are shown. */
function verifiedRounds(session: Session, { chains }: Trust, options: OpenOptions): Known {
  const { entry: seal } = session.seal;
  const given = new Map(Object.entries(options.signatures ?? {}).map(([round, text]) => [round, parseHex(text)]));
  const own = options.signature === undefined ? undefined : parseHex(options.signature);
  const needed = seal.profile === "match" ? [seal.round] : session.calls.map(({ entry }) => entry.round);
  const asked = [...new Set(needed)].map((round) => ({ name: seal.chain, round, signature: given.get(`${round}`) }));
  if (seal.timelock !== null) {
    const { chain, round } = seal.timelock;
    asked.unshift({ name: chain, round, signature: own ?? given.get(`${round}`) });
  }
  const unused = [...given.keys()].find((round) => asked.every((one) => `${one.round}` !== round));
  if (unused !== undefined) {
    throw new FormatError("usage", `the session does not use round ${unused}`);
  }
  const signatures = new Map<string, Uint8Array>();
  for (const { name, round, signature } of asked) {
    const chain = chains.get(name);
    const shown = session.rounds.get(roundName(name, round))?.entry;
    const stated = stateOf(round, signature, shown);
    if (chain === undefined || stated === null) {
      continue;
    }
    const verdict = verifyRound(chain, stated);
    if (!verdict.holds) {
      return { signatures, problem: `round ${round}: ${verdict.why}` };
    }
    signatures.set(roundName(name, round), stated.signature);
  }
  return { signatures, problem: null };
}

function stateOf(
  round: number,
  signature: Uint8Array | undefined,
  shown: Omit<StatedRound, "round"> | undefined,
): StatedRound | null {
  const stated = signature ?? shown?.signature;
  return stated === undefined ? null : { round, signature: stated, previous: shown?.previous ?? null };
}

/** How many draws to make of each recipe of a match: those that were made, planned or are wanted. */
function counted(session: Session, wanted: Readonly<Record<string, number>>): ReadonlyMap<string, number> {
  const { entry: seal } = session.seal;
  const counts = new Map([...seal.recipes.keys()].map((name) => [name, seal.plan?.get(name) ?? 0]));
  for (const [name, count] of Object.entries(wanted)) {
    const known = counts.get(name);
    if (known === undefined || !Number.isSafeInteger(count) || count < 0) {
      throw new FormatError("usage", `no such recipe or count: ${name}`);
    }
    counts.set(name, Math.max(known, count));
  }
  for (const { entry } of session.draws) {
    counts.set(entry.recipe, Math.max(counts.get(entry.recipe) ?? 0, entry.n + entry.outcomes.length - 1));
  }
  if ([...counts.values()].reduce((sum, count) => sum + count, 0) > MAX_DRAWS) {
    throw new FormatError("usage", `at most ${MAX_DRAWS} draws at a time`);
  }
  return counts;
}

/** One pass over the draws of a session whose seed was opened; of each recipe in order of n. */
class Opened {
  readonly #draws: Draws;
  /** s_k at k, from s_1 on. */
  readonly #links: Uint8Array[] = [];
  readonly #lost = new Set<string>();
  readonly #stated = new Map<string, { readonly outcome: Json; readonly purpose: string }>();

  constructor(
    private readonly session: Session,
    { chains }: Trust,
    seed: Uint8Array,
    signatures: ReadonlyMap<string, Uint8Array>,
  ) {
    const { chain, links } = session.seal.entry;
    for (let link = seed, k = links; k > 0; k--, link = sha256(link)) {
      this.#links[k] = link;
    }
    const sights = new Sights(session);
    const given = { session, chain: chains.get(chain) ?? null, chains, sights, findings: new Findings() };
    this.#draws = new Draws(given, (round) => signatures.get(roundName(chain, round)) ?? null);
    for (const { entry } of session.draws) {
      entry.outcomes.forEach((outcome, i) => {
        this.#stated.set(`${entry.recipe} ${entry.n + i}`, { outcome, purpose: entry.purpose });
      });
    }
  }

  all(counts: ReadonlyMap<string, number>): readonly OpenedDraw[] {
    if (this.session.seal.entry.profile === "live") {
      const calls = [...this.session.calls].sort((one, other) => one.entry.draw - other.entry.draw);
      return calls.map(({ entry }) => this.#row(entry.recipe, entry.n, entry));
    }
    return [...counts].flatMap(([name, count]) => Array.from({ length: count }, (_, i) => this.#row(name, i + 1, null)));
  }

  #row(recipe: string, n: number, call: Call | null): OpenedDraw {
    const stated = this.#stated.get(`${recipe} ${n}`);
    const found = this.#outcome(recipe, n, call);
    const why = "why" in found ? found.why : "";
    if (why !== "") {
      this.#lost.add(recipe);
    }
    const outcome = "why" in found ? null : found.outcome;
    return {
      recipe,
      n,
      draw: call?.draw ?? null,
      purpose: stated?.purpose ?? call?.purpose ?? "",
      outcome,
      transcript: stated?.outcome ?? null,
      same: stated === undefined || outcome === null ? null : isOutcome(stated.outcome, outcome),
      why,
    };
  }

  #outcome(name: string, n: number, call: Call | null): { readonly outcome: Outcome } | { readonly why: string } {
    const { entry: seal } = this.session.seal;
    const recipe = seal.recipes.get(name);
    const link = this.#links[call?.draw ?? 1];
    const round = call?.round ?? (seal.profile === "match" ? seal.round : 0);
    if (recipe === undefined || link === undefined) {
      return { why: "no such recipe or link was sealed" };
    }
    if (recipe.kind === "deal" && this.#lost.has(name)) {
      return { why: "the deck cannot be followed, since a draw before this one is missing" };
    }
    const gap = contributionsMissing(this.session, this.#draws.digest);
    if (gap !== null) {
      return { why: gap };
    }
    const binding = call === null ? this.#draws.binding : this.#draws.bindingOfCall(call);
    if (binding === null) {
      return { why: `round ${round} is not known: give its signature` };
    }
    const outcome = this.#draws.compute(name, recipe, this.#draws.streamOf({ seed: link, binding }, name, n));
    return outcome === null || outcome === "lost" ? { why: "past the end of the deck" } : { outcome };
  }
}

/** Why S cannot be known, or null. */
function contributionsMissing({ seal, close }: Session, digest: Uint8Array): string | null {
  if (seal.entry.closeAt !== null && close === null) {
    return "the close of the contributions is not in the document";
  }
  return close === null || equal(close.entry.digest, digest)
    ? null
    : `contributions are not in the document: the close counts ${close.entry.contributions}`;
}
