/** A session as its document shows it: what counts, what stands twice, what stands where it must not (PROTOCOL.md, 6.1). */
import { hex } from "./bytes.ts";
import { callRounds, type Document, type Event, isOfType, type Logged, roundName, usedRounds } from "./document.ts";
import type { Call, Close, Contribution, Draw, Reveal, Round, Seal, SessionEntry, Void } from "./entries.ts";
import type { Findings } from "./findings.ts";

export interface Session {
  /** hex(leaf(seal)) */
  readonly id: string;
  readonly seal: Logged<Seal>;
  /** The first of each participant, before the close. */
  readonly contributions: readonly Logged<Contribution>[];
  /** Those after the close (6.5). */
  readonly late: readonly Logged<Contribution>[];
  readonly close: Logged<Close> | null;
  /** The first of each k, in the log's order. */
  readonly calls: readonly Logged<Call>[];
  /** The first of each k, or of each recipe and n, in the log's order. */
  readonly draws: readonly Logged<Draw>[];
  readonly end: Logged<Reveal | Void> | null;
  /** The first entry of every round that the session uses, by `roundName`. */
  readonly rounds: ReadonlyMap<string, Logged<Round>>;
  /** Every event, also those of others. */
  readonly events: readonly Event[];
  /** Why an event of the session does not count, by its index. */
  readonly uncounted: ReadonlyMap<number, string>;
}

/** What is found wrong while the session is put together: 6.1, 6.8, and entries in front of the seal. */
export function collect(document: Document, findings: Findings): Session | null {
  const seal = document.events.find((event) => isOfType(event, "seal")) as Logged<Seal> | undefined;
  return seal === undefined ? null : new Collector(seal, document.events, findings).collect();
}

/** How many draws are shown of each recipe, also of those that the seal does not name. */
export function drawCounts(draws: readonly Logged<Draw>[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { entry } of draws) {
    counts.set(entry.recipe, (counts.get(entry.recipe) ?? 0) + entry.outcomes.length);
  }
  return counts;
}

export function revealOf(session: Session): Logged<Reveal> | null {
  return session.end !== null && isOfType(session.end, "reveal") ? session.end : null;
}

export function voidOf(session: Session): Logged<Void> | null {
  return session.end !== null && isOfType(session.end, "void") ? session.end : null;
}

class Collector {
  readonly #contributions: Logged<Contribution>[] = [];
  readonly #late: Logged<Contribution>[] = [];
  #close: Logged<Close> | null = null;
  readonly #calls: Logged<Call>[] = [];
  readonly #draws: Logged<Draw>[] = [];
  #end: Logged<Reveal | Void> | null = null;
  /** What there may be only once, and the index of the first. */
  readonly #first = new Map<string, number>();
  readonly #rounds = new Map<string, Logged<Round>>();
  readonly #uncounted = new Map<number, string>();
  readonly #id: string;

  constructor(
    private readonly seal: Logged<Seal>,
    private readonly events: readonly Event[],
    private readonly findings: Findings,
  ) {
    this.#id = hex(seal.leaf);
  }

  collect(): Session {
    const used = usedRounds(this.seal.entry, callRounds(this.events, this.#id));
    for (const event of this.events) {
      if (isOfType(event, "round")) {
        this.#round(event, used);
      } else if (isOfType(event, "seal")) {
        this.#otherSeal(event);
      } else if ("session" in event.entry && event.entry.session === this.#id) {
        this.#own(event as Logged<SessionEntry>);
      } else {
        this.#uncounted.set(event.index, "the session does not use it");
      }
    }
    return {
      id: this.#id,
      seal: this.seal,
      contributions: this.#contributions,
      late: this.#late,
      close: this.#close,
      calls: this.#calls,
      draws: this.#draws,
      end: this.#end,
      rounds: this.#rounds,
      events: this.events,
      uncounted: this.#uncounted,
    };
  }

  #round(event: Logged<Round>, used: ReadonlySet<string>): void {
    const { entry, index } = event;
    const name = roundName(entry.chain, entry.round);
    if (!used.has(name)) {
      this.#uncounted.set(index, "the session does not use it");
      return;
    }
    const first = this.#rounds.get(name);
    if (first === undefined) {
      this.#rounds.set(name, event);
      return;
    }
    this.#uncounted.set(index, `it is a second one, after entry ${first.index}`);
    const same = hex(first.entry.signature) === hex(entry.signature);
    const what = same ? "logged twice" : "has two signatures: the chain is broken, or one of them is false";
    this.findings.add("round", "6.8", `round ${entry.round} ${what}`, index);
    this.findings.add("sole", "6.8", `a second entry of round ${entry.round}`, index);
  }

  #otherSeal(event: Logged<Seal>): void {
    if (event.index !== this.seal.index && hex(event.leaf) === this.#id) {
      this.#repeated(event, this.seal.index, "the very same seal");
    }
  }

  #own(event: Logged<SessionEntry>): void {
    const { index, entry } = event;
    if (index < this.seal.index) {
      this.findings.add("log", "6.1", `a ${entry.type} stands in front of its seal`, index);
    }
    if (this.#end !== null) {
      const text = `a ${entry.type} after the end of the session`;
      this.findings.add("sole", "6.1", text, index);
      this.findings.add("complete", "6.1", text, index);
      this.#uncounted.set(index, "it was logged after the session's end");
      return;
    }
    const names = onlyOnce(entry);
    const first = names.map((name) => this.#first.get(name)).find((found) => found !== undefined);
    if (first !== undefined) {
      this.#repeated(event, first, `a second ${names[0]}`);
      return;
    }
    for (const name of names) {
      this.#first.set(name, index);
    }
    this.#count(event);
  }

  #repeated({ index, entry }: Logged, first: number, what: string): void {
    this.findings.add("sole", "6.1", what, index);
    const kind = entry.type === "contribution" ? " of the same participant" : "";
    this.#uncounted.set(index, `it is a second one${kind}, after entry ${first}`);
  }

  #count(event: Logged<SessionEntry>): void {
    if (isOfType(event, "contribution")) {
      const late = this.#close !== null;
      (late ? this.#late : this.#contributions).push(event);
      if (late) {
        this.#uncounted.set(event.index, "it was logged after the close");
      }
    } else if (isOfType(event, "close")) {
      this.#close = event;
    } else if (isOfType(event, "call")) {
      this.#calls.push(event);
      this.#callContributions(event);
    } else if (isOfType(event, "draw")) {
      this.#draws.push(event);
    } else {
      this.#end = event as Logged<Reveal | Void>;
    }
  }

  /** A participant that contributes twice to one call. */
  #callContributions({ index, entry }: Logged<Call>): void {
    const ids = entry.contributions.map(({ participant }) => participant);
    const unique = new Set(ids).size === ids.length;
    this.findings.require(unique, "sole", "6.1", "two contributions of one participant to one call", index);
  }
}

/** What of an entry may stand only once in a session; a match's draw of several outcomes has several. */
export function onlyOnce(entry: SessionEntry): readonly string[] {
  switch (entry.type) {
    case "contribution":
      return [`contribution of ${JSON.stringify(entry.participant)}`];
    case "close":
      return ["close"];
    case "call":
      return [`call ${entry.draw}`];
    case "draw":
      return entry.live !== null
        ? [`draw ${entry.live.draw}`]
        : entry.outcomes.map((_, i) => `draw ${entry.n + i} of ${entry.recipe}`);
    default:
      return [];
  }
}
