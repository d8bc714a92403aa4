/** From claims to one sentence and one exit code (PROTOCOL.md, section 8). */
import type { CheckOptions, Claim, ClaimName, DrawnOutcome, SessionFacts, State, Verdict } from "./types.ts";
import { hex } from "./bytes.ts";
import type { Case } from "./case.ts";
import type { Document } from "./document.ts";
import type { Outcome } from "./draws.ts";
import type { Draw } from "./entries.ts";
import type { Draws, WouldBe } from "./outcomes.ts";
import { drawCounts, type Session, voidOf } from "./session.ts";

export const UNKNOWABLE =
  "No file can show: whether a contribution that was sent was left out (only its sender's receipt or signature can), " +
  "whether this was the session agreed on before the round, whether the game used every draw in order, who stands " +
  "behind a key.";

const NEEDED: readonly ClaimName[] = ["log", "round", "seed", "outcomes", "complete"];
const MAX_OUTCOMES = 10_000;

type Judgement = Pick<Verdict, "headline" | "exit">;

/** The verdict on a session. */
export function judge(
  given: Case,
  document: Document,
  claims: readonly Claim[],
  asked: Pick<CheckOptions, "sandbox" | "requireProven">,
): Judgement {
  const { entry: seal } = given.session.seal;
  const { headline, exit } = judgeSession(given, document, claims);
  const test = seal.sandbox ? `A test, not a game: ${headline}` : headline;
  const rerun = seal.replaces === null ? test : `Re-run of ${seal.replaces}: ${test}`;
  const less = (seal.sandbox && asked.sandbox !== true) || (asked.requireProven === true && headline !== PROVEN_FAIR);
  return { headline: rerun, exit: exit === 0 && less ? 2 : exit };
}

const PROVEN_FAIR = "Proven fair.";

function judgeSession(given: Case, document: Document, claims: readonly Claim[]): Judgement {
  const failed = claims.filter(({ state }) => state === "FAILED");
  const [first, ...others] = failed;
  if (first !== undefined) {
    const too = others.length > 0 ? ` (${others.map(({ claim }) => claim).join(", ")} failed too)` : "";
    return { headline: `Not fair as it stands: ${first.claim} failed: ${first.text}${too}.`, exit: 1 };
  }
  const end = voidOf(given.session);
  if (end?.entry.reason === "missed-reveal") {
    const headline = "Not fair as it stands: the seed was never revealed, and the session was given up.";
    return { headline, exit: 1 };
  }
  if (end !== null) {
    return { headline: `No result: the session is void (${end.entry.reason}).`, exit: 2 };
  }
  if (given.session.end === null) {
    return { headline: "Not decided: the session is still open.", exit: 2 };
  }
  const lacking = claims.find(({ claim, state }) => NEEDED.includes(claim) && state !== "PROVEN");
  if (lacking !== undefined) {
    return { headline: `Not decided: ${lacking.claim}: ${lacking.text}.`, exit: 2 };
  }
  return { headline: fairIf(given, document, claims), exit: 0 };
}

function fairIf({ session }: Case, { origin }: Document, claims: readonly Claim[]): string {
  const state = (name: ClaimName): State | undefined => claims.find(({ claim }) => claim === name)?.state;
  const about = [
    state("unpredictable") === "PROVEN" ? "" : "its clock (that everything was fixed before the round)",
    state("sole") === "PROVEN" ? "" : "its log (that it holds nothing else of this session)",
  ].filter((part) => part !== "");
  if (about.length === 0) {
    return PROVEN_FAIR;
  }
  const relayed =
    state("contributions") === "PROVEN"
      ? ""
      : ` and the host ${session.seal.entry.host} about what the players contributed`;
  return `Fair if the operator of ${origin} is honest about ${about.join(" and ")}${relayed}.`;
}

/** The verdict on a receipt, which shows no session. */
export function judgeReceipt({ events, origin }: Document, log: Claim): Judgement {
  const [event] = events;
  if (log.state === "FAILED") {
    return { headline: `Not fair as it stands: log failed: ${log.text}.`, exit: 1 };
  }
  const where = `the ${event?.entry.type} is entry ${event?.index} of the log ${origin}`;
  const unknown = log.state === "UNKNOWN" ? ", if its signature holds, which was not checked" : "";
  return { headline: `A receipt: ${where}${unknown}.`, exit: 2 };
}

export function sessionFacts(given: Case, draws: Draws, wouldBe: readonly WouldBe[]): SessionFacts {
  const { session } = given;
  const { entry: seal } = session.seal;
  const seed = session.end?.entry.seed ?? null;
  return {
    session: session.id,
    host: seal.host,
    host_seq: seal.hostSeq,
    label: seal.label,
    profile: seal.profile,
    custody: seal.custody,
    sandbox: seal.sandbox,
    replaces: seal.replaces,
    absent: absentees(session),
    session_digest: seal.closeAt !== null && session.close === null ? null : hex(draws.digest),
    seed: seed === null ? null : hex(seed),
    binding: draws.binding === null ? null : hex(draws.binding),
    draws: Object.fromEntries(drawCounts(session.draws)),
    outcomes: session.draws.flatMap(({ entry }) => outcomeRows(entry, draws)).slice(0, MAX_OUTCOMES),
    would_have_been: wouldBe,
  };
}

function outcomeRows(draw: Draw, draws: Draws): readonly DrawnOutcome[] {
  const { recipe, purpose, live } = draw;
  const binding = live === null ? null : draws.bindingOfDraw(live.draw);
  const rest =
    live === null ? {} : { draw: live.draw, seed: hex(live.seed), binding: binding === null ? null : hex(binding) };
  return draw.outcomes.map((outcome, i) => ({ recipe, n: draw.n + i, purpose, outcome: outcome as Outcome, ...rest }));
}

/** Who was listed and did not contribute, to the session or to a call, once nobody can any more. */
function absentees(session: Session): readonly string[] {
  const { entry: seal } = session.seal;
  const open = session.close === null && session.end === null;
  if (open || (seal.closeAt === null && seal.profile === "match")) {
    return [];
  }
  const present = contributors(session);
  return seal.participants.map(({ id }) => id).filter((id) => !present.has(id));
}

/** Whoever contributed, to the session or to a call. */
function contributors({ contributions, calls }: Session): ReadonlySet<string> {
  const called = calls.flatMap(({ entry }) => entry.contributions);
  return new Set([...contributions.map(({ entry }) => entry), ...called].map(({ participant }) => participant));
}

/** Nobody can tell an absent participant from one whose contribution was withheld. */
export function absenceRemarks(session: Session): readonly string[] {
  const { entry: seal } = session.seal;
  const closed = session.close !== null || session.end !== null;
  const nobody = seal.closeAt !== null && closed && contributors(session).size === 0;
  return absentees(session).length > 0 || nobody
    ? [
        "Who is absent may have sent a contribution: a host that withholds contributions looks the same. " +
          `min_contributions of the seal was ${seal.minContributions}.`,
      ]
    : [];
}
