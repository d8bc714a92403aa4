/** What the verifier takes and answers: plain data, structured-clonable and JSON-safe. */

/** PROVEN by mathematics; TRUSTED in somebody whom `text` names; UNKNOWN for want of something; FAILED by `findings`. */
export type State = "PROVEN" | "TRUSTED" | "UNKNOWN" | "FAILED";

/** The claims in the order in which a verdict lists them (PROTOCOL.md, section 8). */
export const CLAIMS = [
  "log",
  "round",
  "unpredictable",
  "seed",
  "outcomes",
  "complete",
  "sole",
  "contributions",
  "custody",
  "attachments",
  "witnessed",
] as const;
export type ClaimName = (typeof CLAIMS)[number];

/** One rule that does not hold. `rule` is a number of PROTOCOL.md; `index` the log index concerned. */
export interface Finding {
  readonly rule: string;
  readonly text: string;
  readonly index: number | null;
}

export interface Claim {
  readonly claim: ClaimName;
  readonly state: State;
  /** One sentence: why this state. */
  readonly text: string;
  /** Not empty exactly when FAILED. */
  readonly findings: readonly Finding[];
}

/** A named value of a step: bytes as lower-case hex, or text. */
export type Value = { readonly name: string; readonly hex: string } | { readonly name: string; readonly text: string };

/** One operation of the check with its bytes, so that a person can redo it with other tools. */
export interface Step {
  /** Unique in the verdict and stable for the same document, such as "leaf-7" or "draw-turn-2". */
  readonly id: string;
  /** The claim that rests on it. */
  readonly claim: ClaimName;
  readonly title: string;
  /** The rule of PROTOCOL.md that asks for it. */
  readonly rule: string;
  /** Log index of the entry concerned, if it is about one. */
  readonly entryIndex: number | null;
  readonly inputs: readonly Value[];
  /** What is done with the inputs, such as "SHA-256(0x00 ‖ entry)". */
  readonly operation: string;
  readonly result: Value;
  /** Whether the result is what it has to be; null when there is nothing to compare it with. */
  readonly ok: boolean | null;
}

/** An outcome of 5.3: an array of integers; for the recipe kind `bytes` a hex string. */
export type Outcome = readonly number[] | string;

export interface DrawnOutcome {
  readonly recipe: string;
  readonly n: number;
  readonly purpose: string;
  readonly outcome: Outcome;
  /** Live: k. */
  readonly draw?: number;
  /** Live: s_k in hex, as the draw states it. */
  readonly seed?: string;
  /** Live: B in hex, or null where the call or its round is not shown. */
  readonly binding?: string | null;
}

/** What the session is, from its seal and from what could be computed. Texts in it are the host's: never markup. */
export interface SessionFacts {
  readonly session: string;
  readonly host: string;
  readonly host_seq: number;
  readonly label: string;
  readonly profile: "match" | "live";
  readonly custody: "beacon" | "host";
  readonly sandbox: boolean;
  readonly replaces: string | null;
  /** Listed participants who did not contribute, once nobody can any more. */
  readonly absent: readonly string[];
  /** S of 4.1 in hex, or null while contributions are not closed. */
  readonly session_digest: string | null;
  /** What was revealed (match: s_1; live: s_K), whether it opens the commitment or not. */
  readonly seed: string | null;
  /** B of 4.1 in hex; matches only. */
  readonly binding: string | null;
  /** How many draws the document shows of each recipe. */
  readonly draws: Readonly<Record<string, number>>;
  /** The draws as the log states them, at most 10,000. */
  readonly outcomes: readonly DrawnOutcome[];
  /** Void for `no-round`: what the round would have given (6.12). */
  readonly would_have_been: readonly DrawnOutcome[];
}

/** The verdict on a document; its first six fields are those of `verifier check --json`. */
export interface Verdict {
  readonly headline: string;
  readonly exit: 0 | 1 | 2;
  readonly claims: readonly Claim[];
  /** What fails nothing but should be known. */
  readonly remarks: readonly string[];
  /** The line that every verdict carries: what no file can show. */
  readonly unknowable: string;
  /** null for a receipt, and wherever the document shows no seal. */
  readonly session: SessionFacts | null;
  /** What it takes to open the seal's timelock; null where there is none to open, or its chain was not given. */
  readonly opening: Opening | null;
  /** What the check relied on. */
  readonly trusted: Trusted;
  /** Every operation in the order in which it is done; empty unless asked for by `CheckOptions.steps`. */
  readonly steps: readonly Step[];
}

/** A seed that is sealed to a round, and what opening it takes beside the document. */
export interface Opening {
  readonly chain: { readonly name: string; readonly hash: string };
  readonly round: number;
  /** When the round falls due, in ms since the epoch. */
  readonly due_at: number;
  /** Whether the document shows the round already. */
  readonly shown: boolean;
  /** Rounds of the seal's chain that the draws rest on and the document does not show. */
  readonly rounds: readonly number[];
  /** A match without plan, where nobody says how many draws there were: how many are shown of each recipe. */
  readonly recipes: Readonly<Record<string, number>> | null;
}

/** What a timelock is opened with. */
export interface OpenOptions extends Pick<CheckOptions, "logKeys" | "chains"> {
  /** Of the timelock's round, in hex; not needed where the document shows it. */
  readonly signature?: string;
  /** Of rounds that the draws rest on, in hex, by their numbers. */
  readonly signatures?: Readonly<Record<string, string>>;
  /** How many draws to make of a match's recipe, also such as were never published. */
  readonly draws?: Readonly<Record<string, number>>;
}

/** One draw of a session that was opened. */
export interface OpenedDraw {
  readonly recipe: string;
  readonly n: number;
  /** Live: k. */
  readonly draw: number | null;
  readonly purpose: string;
  readonly outcome: Outcome | null;
  /** What the document says, or null. */
  readonly transcript: unknown;
  readonly same: boolean | null;
  /** Why it cannot be computed; empty if it was. */
  readonly why: string;
}

/** What came out of a timelock, as `verifier open --json` gives it; without the last four where it did not open. */
export interface OpenAnswer {
  readonly headline: string;
  /** 1: it does not open, or a draw differs. 2: something is missing. */
  readonly exit: 0 | 1 | 2;
  readonly session?: string;
  readonly seed?: string;
  readonly draws?: readonly OpenedDraw[];
  readonly log_verified?: boolean;
}

export interface Trusted {
  /** The vkey under which the log's signature was checked, or null. */
  readonly log_key: string | null;
  /** Chain hash → name of every chain that was trusted. */
  readonly chains: Readonly<Record<string, string>>;
  /** The policy's text, or null. */
  readonly policy: string | null;
}

/** Input that cannot be judged: exit 3. */
export interface Unusable {
  readonly exit: 3;
  /** Stable, and the same as that of the Python verifier: document, entry, json, hex, chain-info, policy, vkey … */
  readonly code: string;
  readonly message: string;
}

/** What the verifier is given beside the document. It takes no key from a document (7.4). */
export interface CheckOptions {
  /** The log's verifier keys (`name+id+base64`), each with the sizes that it signs if it changed (`… 1-4711`, `… 4711-`). */
  readonly logKeys?: readonly string[];
  /** A C2SP tlog-policy: the witnesses to trust and their quorum. */
  readonly policy?: string;
  /** drand chains to trust: names of pinned chains ("quicknet") or JSON infos. Default: drand's main networks. */
  readonly chains?: readonly string[];
  /** Accept a test session as such. */
  readonly sandbox?: boolean;
  /** Exit 2 unless it is proven fair, with nobody trusted. */
  readonly requireProven?: boolean;
  /** Files that the seal names by their SHA-256. */
  readonly attachments?: Readonly<Record<string, Uint8Array>>;
  /** Collect `Verdict.steps`. */
  readonly steps?: boolean;
  /** Called now and then with the part done, from 0 to 1; the check yields to the event loop around it. */
  readonly progress?: (done: number, what: string) => void;
}

/**
 * What a file is by its first look, without checking it. `answer` is the service's answer to a write, with receipts in
 * its fields; `receipt` a document of one event; `tlog-proof` a C2SP proof with the entry in `extra`.
 */
export type DocumentKind = "transcript" | "receipt" | "answer" | "tlog-proof" | "unknown";

/** Where a receipt's entry is in a transcript. */
export type Found = "present" | "absent" | "replaced" | "not covered" | "not counted";

/** The answer to "is my own entry, with my own bytes, in that transcript?", as `verifier receipt --json` gives it. */
export interface ReceiptAnswer {
  readonly headline: string;
  /** Where in the service's answer the receipt stood, if such an answer was given. */
  readonly field: string | null;
  readonly found: Found;
  readonly text: string;
  readonly exit: 0 | 1 | 2;
  readonly entry: { readonly index: number; readonly type: string };
  readonly receipt_log: Claim;
  readonly transcript_log: Claim;
}

/** A chain that is built into the verifier. */
export interface PinnedChain {
  readonly name: string;
  readonly hash: string;
  readonly scheme: string;
  /** Seconds. */
  readonly period: number;
  /** Trusted without being asked for: drand's main networks, not its test networks. */
  readonly main: boolean;
}
