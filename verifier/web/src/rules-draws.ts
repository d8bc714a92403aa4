/** Calls, draws and the reveal: numbers, order, counts (PROTOCOL.md, 3.6, 6.3, 6.6, 6.7). */
import { type Case, dueAt, grace, openCalls, roundEntry } from "./case.ts";
import { firstRoundAt } from "./chains.ts";
import type { Logged } from "./document.ts";
import type { Call, Draw, Reveal, Seal } from "./entries.ts";
import { MAX_INTEGER } from "./json.ts";
import { requireNotRetired } from "./rules-seal.ts";
import { drawCounts, revealOf, voidOf } from "./session.ts";

export function checkCalls(given: Case): void {
  const { session, findings } = given;
  const { entry: seal } = session.seal;
  for (const [i, { entry: call, index }] of session.calls.entries()) {
    if (call.draw !== i + 1) {
      const text = `call ${call.draw} stands where call ${i + 1} should`;
      findings.add("unpredictable", "6.6", text, index);
      findings.add("complete", "6.6", text, index);
    }
    findings.require(
      call.draw <= seal.links,
      "unpredictable",
      "6.6",
      `call ${call.draw} is beyond the last link`,
      index,
    );
    if (seal.profile === "live") {
      checkCallRound(given, call, index, seal.lead);
    }
  }
}

function checkCallRound(given: Case, call: Call, index: number, lead: number): void {
  const { session, chain, findings } = given;
  const due = dueAt(given, call.round);
  if (chain === null || due === null) {
    return;
  }
  const first = firstRoundAt(chain, call.time + lead);
  findings.require(
    call.round === first,
    "unpredictable",
    "6.6",
    `call ${call.draw} names round ${call.round}, not ${first}`,
    index,
  );
  const early = due < session.seal.entry.revealBy && due <= MAX_INTEGER;
  findings.require(
    early,
    "unpredictable",
    "6.3",
    `round ${call.round} of call ${call.draw} falls due at reveal_by or later`,
    index,
  );
  requireNotRetired(given, chain, call.round, index);
}

export function checkDraws(given: Case): void {
  const { session } = given;
  const { entry: seal } = session.seal;
  checkNumbers(given);
  if (seal.profile === "match") {
    checkMatchDraws(given, seal);
  } else {
    checkLiveDraws(given);
  }
}

/** n = 1, 2, 3 … for each recipe, by the calls where there are any: their draws repeat them (6.7). */
function checkNumbers({ session, findings }: Case): void {
  const numbers = new Map<string, number>();
  const drawn = session.draws.map(({ entry, index }) => ({ ...entry, index, count: entry.outcomes.length }));
  const called = session.calls.map(({ entry, index }) => ({ ...entry, index, count: 1 }));
  for (const { recipe, n, count, index } of called.length > 0 ? called : drawn) {
    const last = numbers.get(recipe) ?? 0;
    findings.require(n === last + 1, "complete", "6.7", `number ${n} of ${recipe} follows number ${last}`, index);
    numbers.set(recipe, n + count - 1);
  }
}

function checkMatchDraws(given: Case, seal: Extract<Seal, { profile: "match" }>): void {
  const { session, findings } = given;
  const round = roundEntry(given, seal.round);
  for (const { entry: draw, index } of session.draws) {
    const after = round === null || index > round.index;
    findings.require(after, "complete", "6.7", `drawn before round ${seal.round} was in the log`, index);
    if (seal.plan === null) {
      findings.require(draw.time < seal.revealBy, "unpredictable", "6.3", "drawn at reveal_by or later", index);
    } else {
      findings.require(draw.purpose === "", "complete", "3.6", "a planned draw has a purpose", index);
    }
  }
}

function checkLiveDraws(given: Case): void {
  const { session, findings } = given;
  const calls = new Map(session.calls.map((call) => [call.entry.draw, call]));
  let last = 0;
  for (const { entry: draw, index } of session.draws) {
    const k = draw.live?.draw ?? 0;
    const require = (condition: boolean, text: string): void =>
      findings.require(condition, "unpredictable", "6.6", `draw ${k} ${text}`, index);
    require(k > last, `follows draw ${last}`);
    last = k;
    const call = calls.get(k);
    require(call !== undefined && call.index < index, "answers no call in front of it");
    if (call === undefined) {
      continue;
    }
    require(answers(draw, call.entry), "does not repeat its call's recipe, number and purpose");
    const round = roundEntry(given, call.entry.round);
    const after = round === null || index > round.index;
    findings.require(after, "complete", "6.7", `draw ${k} stands before round ${call.entry.round}`, index);
  }
}

function answers(draw: Draw, call: Call): boolean {
  return draw.recipe === call.recipe && draw.n === call.n && draw.purpose === call.purpose;
}

export function checkEnd(given: Case): void {
  const { session, findings } = given;
  const { entry: seal } = session.seal;
  const reveal = revealOf(session);
  if (seal.plan !== null) {
    checkPlan(given, seal.plan, reveal !== null);
  }
  if (reveal !== null) {
    checkReveal(given, reveal, seal);
  }
  const end = voidOf(session);
  if (end?.entry.reason === "missed-reveal" && seal.profile === "live" && openCalls(given).length === 0) {
    findings.add("complete", "6.7", "void for a missed reveal, though every call was drawn", end.index);
  }
}

/** Only the plan's draws exist, and once the seed is revealed all of them (6.7). */
function checkPlan({ session, findings }: Case, plan: ReadonlyMap<string, number>, revealed: boolean): void {
  for (const { entry, index } of session.draws) {
    findings.require(plan.has(entry.recipe), "complete", "6.7", `${entry.recipe} is not planned`, index);
  }
  const counts = drawCounts(session.draws);
  for (const [name, planned] of plan) {
    const drawn = counts.get(name) ?? 0;
    const kept = revealed ? drawn === planned : drawn <= planned;
    findings.require(kept, "complete", "6.7", `${drawn} draws of ${name}, ${planned} planned`, session.seal.index);
  }
}

function checkReveal(given: Case, reveal: Logged<Reveal>, seal: Seal): void {
  const { session, findings } = given;
  const { index, entry } = reveal;
  const require = (condition: boolean, rule: string, text: string): void =>
    findings.require(condition, "complete", rule, text, index);
  const counts = drawCounts(session.draws);
  const stated = [...entry.draws];
  const right =
    stated.length === seal.recipes.size &&
    stated.every(([name, n]) => seal.recipes.has(name) && (counts.get(name) ?? 0) === n);
  require(right && [...counts.keys()].every((name) => seal.recipes.has(name)), "3.6", "the reveal counts other draws");
  if (seal.profile === "match") {
    const round = roundEntry(given, seal.round);
    require(round === null || index > round.index, "6.7", `revealed before round ${seal.round} was in the log`);
    return;
  }
  const left = openCalls(given);
  for (const call of left) {
    findings.add("complete", "6.7", `call ${call.entry.draw} was never drawn`, call.index);
  }
  require(entry.by === "service", "6.7", `a live session is revealed by the service, not by '${entry.by}'`);
}

/** What was late, which fails nothing (6.3), and who revealed (section 8). */
export function drawRemarks({ session, chain }: Case): readonly string[] {
  const { entry: seal } = session.seal;
  const reveal = revealOf(session);
  const remarks: string[] = [];
  if (chain !== null) {
    const late = seal.revealBy + grace(chain);
    for (const { entry } of session.draws.filter((draw) => draw.entry.time >= late)) {
      remarks.push(`Late: draw ${entry.recipe} ${entry.n} was logged long after reveal_by.`);
    }
    if (reveal !== null && reveal.entry.time >= late) {
      remarks.push("Late: the seed was revealed long after reveal_by.");
    }
  }
  if (reveal !== null && !mayReveal(seal, reveal.entry.by)) {
    remarks.push(`Revealed by '${reveal.entry.by}', which the seal does not provide for.`);
  }
  return remarks;
}

function mayReveal(seal: Seal, by: Reveal["by"]): boolean {
  switch (by) {
    case "service":
      return true;
    case "host":
      return seal.custody === "host";
    case "timelock":
      return seal.timelock !== null;
  }
}
