/** The procedure: a document and what is trusted in, a verdict out. */
import type { CheckOptions, Claim, ClaimName, Verdict } from "./types.ts";
import { CLAIMS } from "./types.ts";
import { readAlone } from "./answer.ts";
import { utf8 } from "./bytes.ts";
import { type Case, Sights } from "./case.ts";
import { builtInChains, byHash, type Chain, parseTrustedChain } from "./chains.ts";
import { type Found, logClaim, sessionClaims } from "./claims.ts";
import type { Document } from "./document.ts";
import { checkLog, chooseLogKey, sightings } from "./evidence.ts";
import { Findings } from "./findings.ts";
import { parseDocumentJson } from "./json.ts";
import { checkSeeds } from "./opened.ts";
import { checkOutcomes, Draws, wouldHaveBeen } from "./outcomes.ts";
import { Pace } from "./pace.ts";
import type { VerifierKey } from "./note.ts";
import { parsePolicy } from "./policy.ts";
import { distribution } from "./recipes.ts";
import { checkDocumentChain, checkRounds } from "./rounds.ts";
import { checkClose, checkContributions } from "./rules-contributions.ts";
import { checkCalls, checkDraws, checkEnd, drawRemarks } from "./rules-draws.ts";
import { checkOrder } from "./rules-order.ts";
import { checkSeal, sealRemarks } from "./rules-seal.ts";
import { checkVoid } from "./rules-void.ts";
import { collect, type Session } from "./session.ts";
import { absenceRemarks, judge, judgeReceipt, sessionFacts, UNKNOWABLE } from "./verdict.ts";

const OF_A_RECEIPT = "a receipt shows one entry; the transcript shows the session";

/** Throws FormatError for unusable input. */
export async function checkDocument(bytes: Uint8Array, options: CheckOptions): Promise<Verdict> {
  const pace = new Pace(options.progress);
  const policy = options.policy === undefined ? null : parsePolicy(utf8(options.policy));
  const chains = trustedChains(options.chains);
  const document = readAlone(parseDocumentJson(bytes));
  await pace.report(0.1, "reading");
  const findings = new Findings();
  const logKey = chooseLogKey(document, options.logKeys ?? [], policy);
  const checkpoints = checkLog(document, logKey, findings);
  await pace.report(0.3, "log");
  const trusted = {
    log_key: logKey?.text ?? null,
    chains: Object.fromEntries([...byHash(chains)].map(([hash, { name }]) => [hash, name])),
    policy: options.policy ?? null,
  };
  const session = collect(document, findings);
  if (session === null) {
    const log = logClaim(document, logKey, findings);
    const others = CLAIMS.filter((claim) => claim !== "log").map(unknown);
    return { ...judgeReceipt(document, log), claims: [log, ...others], remarks: [], unknowable: UNKNOWABLE, session: null, trusted, steps: [] };
  }
  const seen = policy === null ? [] : sightings(checkpoints, policy, findings);
  const known = byHash(chains);
  const chain = known.get(session.seal.entry.chain) ?? null;
  const given: Case = { session, chain, chains: known, sights: new Sights(session), findings };
  const body = await checkSession(given, { document, logKey, policy, seen, attachments: options.attachments ?? {} }, pace);
  const judged = judge(given, document, body.claims, {
    sandbox: options.sandbox ?? false,
    requireProven: options.requireProven ?? false,
  });
  return { ...judged, ...body, unknowable: UNKNOWABLE, trusted, steps: [] };
}

function unknown(claim: ClaimName): Claim {
  return { claim, state: "UNKNOWN", text: OF_A_RECEIPT, findings: [] };
}

async function checkSession(
  given: Case,
  rest: Pick<Found, "document" | "policy" | "seen" | "attachments"> & { readonly logKey: VerifierKey | null },
  pace: Pace,
): Promise<Pick<Verdict, "claims" | "remarks" | "session">> {
  checkRules(given, rest.document);
  const log = logClaim(rest.document, rest.logKey, given.findings);
  const rounds = await checkRounds(given, log.state === "FAILED", (done) => pace.report(0.3 + 0.4 * done, "rounds"));
  const seedShown = checkSeeds(given);
  const draws = new Draws(given);
  const recomputed = await checkOutcomes(given, draws, () => pace.tick());
  await pace.report(1, "outcomes");
  return {
    claims: sessionClaims({ given, ...rest, log, rounds, seedShown, recomputed }),
    remarks: [...sealRemarks(given), ...drawRemarks(given), ...absenceRemarks(given.session), ...recipeRemarks(given.session)],
    session: sessionFacts(given, draws, wouldHaveBeen(given, draws)),
  };
}

function checkRules(given: Case, document: Document): void {
  checkDocumentChain(given, document.chain);
  checkSeal(given);
  checkOrder(given);
  checkContributions(given);
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
    .map((names) => `Recipes ${names.join(" and ")} have the same distribution: who knows the seed may choose between them.`);
}

/** Chains by name or as JSON; drand's main networks if none are named. */
export function trustedChains(named: readonly string[] | undefined): readonly Chain[] {
  if (named === undefined) {
    return builtInChains().filter(({ main }) => main).map(({ chain }) => chain);
  }
  return named.map((text) => {
    const known = builtInChains().find(({ chain }) => chain.name === text);
    return known?.chain ?? parseTrustedChain(parseDocumentJson(utf8(text)));
  });
}

