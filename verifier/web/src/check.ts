/** The procedure: a document and what is trusted in, a verdict out. */
import { readAlone } from "./answer.ts";
import { type Case, Sights } from "./case.ts";
import { logClaim, sessionClaims } from "./claims.ts";
import { checkLock } from "./custody.ts";
import type { Document } from "./document.ts";
import { checkLog, type LogFound, namedKey, type Sighting, sightings } from "./evidence.ts";
import { Findings } from "./findings.ts";
import { parseDocumentJson } from "./json.ts";
import { checkSeeds } from "./opened.ts";
import { openingOf } from "./opening.ts";
import { checkOutcomes, Draws, wouldHaveBeen } from "./outcomes.ts";
import { Pace } from "./pace.ts";
import { distribution } from "./recipes.ts";
import { checkDocumentChain, checkRounds } from "./rounds.ts";
import { checkClose, checkContributions } from "./rules-contributions.ts";
import { checkCalls, checkDraws, checkEnd, drawRemarks } from "./rules-draws.ts";
import { checkOrder } from "./rules-order.ts";
import { checkSeal, sealRemarks } from "./rules-seal.ts";
import { checkVoid } from "./rules-void.ts";
import { collect, type Session } from "./session.ts";
import { Steps } from "./steps.ts";
import { logSteps } from "./steps-log.ts";
import { sessionSteps } from "./steps-session.ts";
import { describeTrust, readTrust, type Trust } from "./trust.ts";
import { type CheckOptions, type Claim, type ClaimName, CLAIMS, type Verdict } from "./types.ts";
import { absenceRemarks, judge, judgeReceipt, sessionFacts, UNKNOWABLE } from "./verdict.ts";

const OF_A_RECEIPT = "a receipt shows one entry; the transcript shows the session";

/** What one check works with. */
interface Work {
  readonly options: CheckOptions;
  readonly trust: Trust;
  readonly document: Document;
  readonly findings: Findings;
  readonly pace: Pace;
  /** null unless they were asked for. */
  readonly steps: Steps | null;
}

type Judged = Pick<Verdict, "headline" | "exit" | "claims" | "remarks" | "session" | "opening">;

/** Throws FormatError for unusable input. */
export async function checkDocument(bytes: Uint8Array, options: CheckOptions): Promise<Verdict> {
  const pace = new Pace(options.progress);
  const trust = readTrust(options);
  const document = readAlone(parseDocumentJson(bytes));
  await pace.report(0.1, "the document was read");
  const steps = options.steps === true ? new Steps() : null;
  const work: Work = { options, trust, document, findings: new Findings(), pace, steps };
  const log = checkLog(document, trust, work.findings);
  if (steps !== null) {
    logSteps(document, log.keys, trust.policy, steps);
  }
  await pace.report(0.2, "the log was checked");
  const session = collect(document, work.findings);
  const seen = session && trust.policy ? sightings(log.checkpoints, trust.policy, work.findings) : [];
  const judged = session === null ? checkReceipt(work, log) : await checkSession(work, session, log, seen);
  return { ...judged, unknowable: UNKNOWABLE, trusted: describeTrust(trust, namedKey(document, log.keys), options), steps: steps?.all ?? [] };
}

function checkReceipt({ document, findings }: Work, found: LogFound): Judged {
  const log = logClaim(document, found, findings);
  const unknown = (claim: ClaimName): Claim => ({ claim, state: "UNKNOWN", text: OF_A_RECEIPT, findings: [] });
  const others = CLAIMS.filter((claim) => claim !== "log").map(unknown);
  return { ...judgeReceipt(document, log), claims: [log, ...others], remarks: [], session: null, opening: null };
}

async function checkSession(
  { options, trust, document, findings, pace, steps }: Work,
  session: Session,
  found: LogFound,
  seen: readonly Sighting[],
): Promise<Judged> {
  const { policy, chains } = trust;
  const chain = chains.get(session.seal.entry.chain) ?? null;
  const given: Case = { session, chain, chains, sights: new Sights(session), findings };
  await checkRules(given, document, pace);
  const log = logClaim(document, found, findings);
  const rounds = await checkRounds(given, isUntied(findings), (done) => pace.report(0.3 + 0.4 * done, "rounds"));
  const lock = checkLock(given, rounds.verified);
  const seedShown = checkSeeds(given);
  const draws = new Draws(given);
  const recomputed = await checkOutcomes(given, draws, () => pace.tick());
  if (steps !== null) {
    await sessionSteps(given, rounds, steps, () => pace.tick());
  }
  await pace.report(1, "all was checked");
  const attachments = options.attachments ?? {};
  const claims = sessionClaims({
    ...{ given, document, log, policy, seen, rounds, lock, seedShown, recomputed, attachments },
  });
  return {
    ...judge(given, document, claims, options),
    claims,
    remarks: [...sealRemarks(given), ...drawRemarks(given), ...absenceRemarks(session), ...recipeRemarks(session)],
    session: sessionFacts(given, draws, wouldHaveBeen(given)),
    opening: openingOf(given, lock),
  };
}

/** Whether neither signature nor proofs tie the entries to a log: anybody can write such a document. */
function isUntied(findings: Findings): boolean {
  return findings.of("log").some(({ rule }) => ["2.3", "7.2", "7.4"].includes(rule));
}

async function checkRules(given: Case, document: Document, pace: Pace): Promise<void> {
  checkDocumentChain(given, document.chain);
  checkSeal(given);
  checkOrder(given);
  await checkContributions(given, () => pace.tick());
  checkClose(given);
  checkCalls(given);
  checkDraws(given);
  checkEnd(given);
  checkVoid(given);
}

/** Two recipes of one distribution in a match without plan: whoever knows the seed may choose between them. */
function recipeRemarks({ seal }: Session): readonly string[] {
  if (seal.entry.profile === "live" || seal.entry.plan !== null) {
    return [];
  }
  const alike = new Map<string, string[]>();
  for (const [name, recipe] of seal.entry.recipes) {
    const key = distribution(recipe);
    alike.set(key, [...(alike.get(key) ?? []), name]);
  }
  return [...alike.values()]
    .filter((names) => names.length > 1)
    .map(
      (names) =>
        `Recipes ${names.join(" and ")} have the same distribution: who knows the seed may choose between them.`,
    );
}
