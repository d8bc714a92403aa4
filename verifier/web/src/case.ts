/** One session under check: what every rule needs. */
import { type Chain, type Chains, timeOf } from "./chains.ts";
import { type Logged, roundName } from "./document.ts";
import type { Call, Round } from "./entries.ts";
import type { Findings } from "./findings.ts";
import type { Session } from "./session.ts";

export const SECOND = 1000;
const MINUTE = 60 * SECOND;
export const DAY = 24 * 60 * MINUTE;

export interface Case {
  readonly session: Session;
  /** The seal's chain, if the verifier was given it. */
  readonly chain: Chain | null;
  /** Every chain that the verifier was given. */
  readonly chains: Chains;
  readonly sights: Sights;
  readonly findings: Findings;
}

/** What pins the outcomes of one round (7.1). */
export interface Anchor {
  readonly index: number;
  readonly round: number;
}

/** max(10 periods, 10 minutes) */
export function grace(chain: Chain): number {
  return Math.max(10 * chain.period * SECOND, 10 * MINUTE);
}

/** time(R) of the seal's chain in ms, or null where the verifier was not given the chain. */
export function dueAt({ chain }: Case, round: number): number | null {
  return chain === null ? null : timeOf(chain, round);
}

/** The round that a call names, if it is shown. */
export function roundEntry({ session }: Case, round: number): Logged<Round> | null {
  return session.rounds.get(roundName(session.seal.entry.chain, round)) ?? null;
}

/** R of a match, the R_k of the calls in a live session. */
export function neededRounds({ session }: Case): readonly number[] {
  const { entry: seal } = session.seal;
  return seal.profile === "match" ? [seal.round] : [...new Set(session.calls.map(({ entry }) => entry.round))];
}

/** Match: the close, or the seal if no contributions are taken. Live: each call. */
export function anchors({ session }: Case): readonly Anchor[] {
  const { entry: seal, index } = session.seal;
  if (seal.profile === "live") {
    return session.calls.map((call) => ({ index: call.index, round: call.entry.round }));
  }
  const pinned = seal.closeAt === null ? index : (session.close?.index ?? null);
  return pinned === null ? [] : [{ index: pinned, round: seal.round }];
}

/** A void `host` or `below-minimum` of a match is an anchor of its own (7.1). */
export function voidAnchor({ session }: Case): Anchor | null {
  const { entry: seal } = session.seal;
  const end = session.end;
  if (seal.profile !== "match" || end?.entry.type !== "void") {
    return null;
  }
  return ["host", "below-minimum"].includes(end.entry.reason) ? { index: end.index, round: seal.round } : null;
}

/** The calls that no draw answers. */
export function openCalls({ session }: Case): readonly Logged<Call>[] {
  const drawn = new Set(session.draws.map(({ entry }) => entry.live?.draw));
  return session.calls.filter(({ entry }) => !drawn.has(entry.draw));
}

/** A signature of a round, as an event states it in a `round` or in the `after` of a seal. */
export interface Sight {
  readonly index: number;
  /** Hex. */
  readonly chain: string;
  readonly round: number;
}

/** What the document's events know of rounds, in the log's order. */
export class Sights {
  readonly all: readonly Sight[];
  /** Of the session's chain: the indices, and the newest round that was known from each of them on. */
  readonly #indices: number[] = [];
  readonly #newest: number[] = [];

  constructor({ events, seal }: Session) {
    this.all = events.flatMap(({ index, entry }): readonly Sight[] => {
      switch (entry.type) {
        case "round":
          return [{ index, chain: entry.chain, round: entry.round }];
        case "seal":
          return [{ index, chain: entry.chain, round: entry.after.round }];
        default:
          return [];
      }
    });
    for (const { index, chain, round } of this.all) {
      if (chain === seal.entry.chain) {
        this.#indices.push(index);
        this.#newest.push(Math.max(round, this.#newest.at(-1) ?? 0));
      }
    }
  }

  /** The newest round of the session's chain whose signature stands at or below `index`; 0 if there is none. */
  newestUpTo(index: number): number {
    let [low, high] = [0, this.#indices.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#indices[middle] as number) <= index) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return this.#newest[low - 1] ?? 0;
  }
}
