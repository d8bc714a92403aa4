/** What the log's entries say (PROTOCOL.md, 3.6). */
import type { ChainInfo } from "./chains.ts";
import type { Json } from "./json.ts";
import type { Recipe } from "./recipes.ts";

interface Timed {
  /** Milliseconds since the epoch (2.2). */
  readonly time: number;
}

interface OfSession extends Timed {
  /** Hex, as everywhere in the log. */
  readonly session: string;
}

export interface LogEntry extends Timed {
  readonly type: "log";
  readonly origin: string;
}

export interface ChainEntry extends Timed {
  readonly type: "chain";
  readonly info: ChainInfo;
}

export interface Participant {
  readonly id: string;
  readonly key: Uint8Array | null;
}

export interface Attachment {
  readonly name: string;
  readonly sha256: Uint8Array;
}

export interface After {
  readonly round: number;
  readonly signature: Uint8Array;
  readonly previous: Uint8Array | null;
}

export interface Timelock {
  /** Hex. */
  readonly chain: string;
  readonly round: number;
  readonly ciphertext: string;
}

export interface SealFields extends Timed {
  readonly type: "seal";
  readonly log: string;
  readonly host: string;
  readonly hostSeq: number;
  readonly label: string;
  readonly replaces: string | null;
  readonly custody: "beacon" | "host";
  readonly commitment: Uint8Array;
  readonly links: number;
  /** Hex. */
  readonly chain: string;
  readonly closeAt: number | null;
  readonly revealBy: number;
  readonly participants: readonly Participant[];
  readonly open: boolean;
  readonly minContributions: number;
  readonly recipes: ReadonlyMap<string, Recipe>;
  readonly plan: ReadonlyMap<string, number> | null;
  readonly attachments: readonly Attachment[];
  readonly after: After;
  readonly timelock: Timelock | null;
  readonly sandbox: boolean;
}

export interface MatchSeal extends SealFields {
  readonly profile: "match";
  readonly round: number;
}

export interface LiveSeal extends SealFields {
  readonly profile: "live";
  readonly lead: number;
}

export type Seal = MatchSeal | LiveSeal;

/** What a participant contributed, to the session or to a call. */
export interface Contributed {
  readonly participant: string;
  readonly entropy: Uint8Array;
  readonly signature: Uint8Array | null;
}

export interface Contribution extends OfSession, Contributed {
  readonly type: "contribution";
}

export interface Close extends OfSession {
  readonly type: "close";
  readonly contributions: number;
  readonly digest: Uint8Array;
}

export interface Round extends Timed {
  readonly type: "round";
  /** Hex. */
  readonly chain: string;
  readonly round: number;
  readonly signature: Uint8Array;
  readonly previous: Uint8Array | null;
}

export interface Call extends OfSession {
  readonly type: "call";
  /** k */
  readonly draw: number;
  readonly recipe: string;
  readonly n: number;
  readonly purpose: string;
  readonly round: number;
  readonly contributions: readonly Contributed[];
}

export interface Draw extends OfSession {
  readonly type: "draw";
  readonly recipe: string;
  /** The number of the first outcome; each has the next one. */
  readonly n: number;
  readonly purpose: string;
  /** Free of objects and null; whether they are outcomes at all is for section 5. */
  readonly outcomes: readonly Json[];
  /** k and s_k, in live sessions alone. */
  readonly live: { readonly draw: number; readonly seed: Uint8Array } | null;
}

export interface Reveal extends OfSession {
  readonly type: "reveal";
  readonly by: "service" | "host" | "timelock";
  readonly seed: Uint8Array | null;
  readonly draws: ReadonlyMap<string, number>;
}

export interface Void extends OfSession {
  readonly type: "void";
  readonly reason: string;
  readonly seed: Uint8Array | null;
}

/** What stands in a session behind its seal. */
export type SessionEntry = Contribution | Close | Call | Draw | Reveal | Void;
export type Entry = LogEntry | ChainEntry | Seal | Round | SessionEntry;
