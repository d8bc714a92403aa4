/** The steps of a session: rounds, contributions, seeds, bindings, draws (PROTOCOL.md, sections 2, 4 and 5). */
import { concat, equal, hex, sha256, u32, u64 } from "./bytes.ts";
import type { Case } from "./case.ts";
import { chainHash } from "./chains.ts";
import { openSeed, readLock } from "./custody.ts";
import { roundName } from "./document.ts";
import { randomness, verifyRound } from "./drand.ts";
import { isOutcome } from "./draws.ts";
import { verifySignature } from "./ed25519.ts";
import type { Call, Contributed, Draw } from "./entries.ts";
import { accepted } from "./errors.ts";
import type { Json } from "./json.ts";
import { Draws } from "./outcomes.ts";
import { explain } from "./recipes.ts";
import { type Rounds, statedRounds } from "./rounds.ts";
import { type Bound, bindingPreimage, contributionMessage, sessionPreimage, type Stream } from "./seeds.ts";
import { bytes, joined, json, type Steps, text, yesOrNo } from "./steps.ts";

const MAX_BLOCKS = 64;
const MAX_TAKEN = 512;

/** The steps of one session, with what was found of its rounds. */
export async function sessionSteps(
  given: Case,
  { checked, verified }: Rounds,
  steps: Steps,
  pace: () => Promise<void>,
): Promise<void> {
  chainStep(given, steps);
  for (const stated of statedRounds(given).slice(0, checked)) {
    await pace();
    roundStep(stated, steps);
  }
  contributionSteps(given, steps);
  digestStep(given, steps);
  seedSteps(given, steps);
  timelockStep(given, verified, steps);
  await drawSteps(given, steps, pace);
}

function chainStep({ chain, session }: Case, steps: Steps): void {
  if (chain === null) {
    return;
  }
  const name = chain.beaconId === "default" ? "" : chain.beaconId;
  steps.add({
    id: "chain",
    claim: "round",
    title: `The drand chain ${chain.name} is the one that the seal names`,
    rule: "2.5",
    inputs: [
      bytes("u32(period)", u32(chain.period)),
      bytes("u64(genesis_time)", u64(chain.genesisTime)),
      bytes("public_key", chain.publicKey),
      bytes("genesis_seed", chain.genesisSeed),
      text("beacon_id, unless it is default", name),
    ],
    operation: "SHA-256(u32(period) ‖ u64(genesis_time) ‖ public_key ‖ genesis_seed ‖ beacon_id)",
    result: bytes("chain hash", chainHash(chain)),
    ok: hex(chainHash(chain)) === session.seal.entry.chain,
  });
}

function roundStep(stated: ReturnType<typeof statedRounds>[number], steps: Steps): void {
  const { chain, round, signature, previous, index, title } = stated;
  const { rules } = chain;
  const verdict = verifyRound(chain, stated);
  steps.add({
    id: `round-${round}`,
    claim: "round",
    title: `drand's ${chain.name} signed ${title}`,
    rule: "2.5",
    entryIndex: index,
    inputs: [
      bytes("u64(round)", u64(round)),
      ...(previous === null ? [] : [bytes("previous signature", previous)]),
      bytes(`message, ${rules.messageFormula}`, rules.message(round, previous)),
      text("hash-to-curve tag", rules.tag),
      bytes("public key", chain.publicKey),
      bytes("signature", signature),
    ],
    operation: `a BLS signature of the scheme ${rules.name}: one pairing equation`,
    result: verdict.holds ? yesOrNo("signature", true) : text("signature", verdict.why),
    ok: verdict.holds,
  });
  steps.add({
    id: `randomness-${round}`,
    claim: "round",
    title: `The randomness of round ${round}`,
    rule: "2.4",
    entryIndex: index,
    inputs: [bytes("signature", signature)],
    operation: "SHA-256(signature)",
    result: bytes("randomness", randomness(signature)),
    ok: null,
  });
}

function contributionSteps(given: Case, steps: Steps): void {
  const { contributions, calls } = given.session;
  for (const { entry, index } of contributions) {
    contributionStep(given, entry, index, undefined, steps);
  }
  for (const { entry, index } of calls) {
    for (const contributed of entry.contributions) {
      contributionStep(given, contributed, index, entry, steps);
    }
  }
}

function contributionStep(
  { session }: Case,
  contributed: Contributed,
  index: number,
  call: Call | undefined,
  steps: Steps,
): void {
  const { entry: seal, leaf } = session.seal;
  const key = seal.participants.find(({ id }) => id === contributed.participant)?.key ?? null;
  if (key === null || contributed.signature === null) {
    return;
  }
  const message = contributionMessage(leaf, contributed, call);
  const holds = verifySignature(key, message, contributed.signature);
  steps.add({
    id: `contribution-${index}`,
    claim: "contributions",
    title: `'${contributed.participant}' signed the contribution`,
    rule: "4.4",
    entryIndex: index,
    inputs: [bytes("message", message), bytes("public key", key), bytes("signature R ‖ S", contributed.signature)],
    operation:
      'Ed25519 over LP("fair-beacon/v1/contribution") ‖ leaf(seal) ‖ u32(k) ‖ LP(recipe) ‖ u32(n) ‖ LP(purpose) ' +
      "‖ LP(participant) ‖ LP(entropy)",
    result: yesOrNo("signature", holds),
    ok: holds,
  });
}

function digestStep({ session }: Case, steps: Steps): void {
  const contributions = session.contributions.map(({ entry }) => entry);
  const preimage = sessionPreimage(session.seal.leaf, contributions);
  const digest = sha256(preimage);
  steps.add({
    id: "session-digest",
    claim: "complete",
    title: "S, the digest of the session's seal and contributions",
    rule: "4.1",
    ...(session.close === null ? {} : { entryIndex: session.close.index }),
    inputs: [
      bytes("leaf(seal)", session.seal.leaf),
      ...contributions.map(({ participant, entropy }) => bytes(`entropy of '${participant}'`, entropy)),
      bytes("all of it", preimage),
    ],
    operation: 'SHA-256(LP("fair-beacon/v1/session") ‖ leaf(seal) ‖ list(contributions, sorted by participant))',
    result: bytes("S", digest),
    ok: session.close === null ? null : equal(digest, session.close.entry.digest),
  });
}

function seedSteps({ session }: Case, steps: Steps): void {
  const { entry: seal } = session.seal;
  const links = session.draws.flatMap(({ entry, index }) =>
    entry.live === null ? [] : [{ k: entry.live.draw, seed: entry.live.seed, index }],
  );
  const { end } = session;
  if (end !== null && end.entry.seed !== null) {
    links.push({ k: seal.profile === "match" ? 1 : session.calls.length, seed: end.entry.seed, index: end.index });
  }
  const known = new Map<number, Uint8Array>([[0, seal.commitment]]);
  for (const { k, seed, index } of links) {
    const below = known.get(k - 1);
    const result = sha256(seed);
    known.set(k, seed);
    steps.add({
      id: `seed-${k}`,
      claim: "seed",
      title: k === 1 ? "The seed s_1 opens the commitment" : `The seed s_${k} leads to s_${k - 1}`,
      rule: "4.1",
      entryIndex: index,
      inputs: [
        bytes(`s_${k}`, seed),
        ...(below === undefined ? [] : [bytes(k === 1 ? "commitment s_0" : `s_${k - 1}`, below)]),
      ],
      operation: `SHA-256(s_${k})`,
      result: bytes(k === 1 ? "s_0" : `s_${k - 1}`, result),
      ok: below === undefined ? null : equal(result, below),
    });
  }
}

function timelockStep({ session, chains }: Case, verified: Rounds["verified"], steps: Steps): void {
  const { entry: seal, index } = session.seal;
  const { timelock } = seal;
  const chain = timelock && chains.get(timelock.chain);
  const signature = timelock && verified.get(roundName(timelock.chain, timelock.round));
  const ciphertext = chain && accepted(() => readLock(timelock, chain));
  if (!ciphertext || !signature) {
    return;
  }
  const seed = openSeed(seal, ciphertext, signature);
  const { point, maskedSigma, maskedKey, file } = ciphertext;
  steps.add({
    id: "timelock",
    claim: "custody",
    title: `Round ${timelock.round} of ${chain.name} opens the timelock`,
    rule: "7.3",
    entryIndex: index,
    inputs: [
      bytes("signature of the round", signature),
      bytes("U", point),
      bytes("V", maskedSigma),
      bytes("W", maskedKey),
      bytes("age header", file.header),
      bytes("age MAC", file.mac),
      bytes("age nonce", file.nonce),
      bytes("age payload", file.chunks),
      bytes("commitment s_0", seal.commitment),
    ],
    operation:
      "σ = V ⊕ H2(e(signature, U)); file key M = W ⊕ H4(σ); H3(σ, M) times the generator must be U; then age v1; " +
      `SHA-256 of it, ${seal.links} times over, must be s_0`,
    result: typeof seed === "string" ? text("it does not open", seed) : bytes(`s_${seal.links}`, seed),
    ok: typeof seed !== "string",
  });
}

function bindingStep(id: string, bound: Bound, index: number | undefined, steps: Steps): void {
  const preimage = bindingPreimage(bound);
  steps.add({
    id,
    claim: "outcomes",
    title: bound.k === 0 ? "B, what binds the draws to the round" : `B of call ${bound.k}`,
    rule: "4.1",
    ...(index === undefined ? {} : { entryIndex: index }),
    inputs: [
      bytes("S", bound.digest),
      text("k", bound.k),
      ...bound.called.map(({ participant, entropy }) => bytes(`entropy of '${participant}'`, entropy)),
      text("round", bound.round),
      bytes("randomness", bound.random),
      bytes("all of it", preimage),
    ],
    operation:
      'SHA-256(LP("fair-beacon/v1/binding") ‖ S ‖ u32(k) ‖ list(call\'s contributions) ‖ u64(R) ‖ randomness(R))',
    result: bytes("B", sha256(preimage)),
    ok: null,
  });
}

async function drawSteps(given: Case, steps: Steps, pace: () => Promise<void>): Promise<void> {
  const { session } = given;
  const { entry: seal } = session.seal;
  const draws = new Draws(given);
  const match = seal.profile === "match" ? draws.boundBy(0, [], seal.round) : null;
  if (match !== null) {
    bindingStep("binding", match, undefined, steps);
  }
  const calls = new Map(session.calls.map((call) => [call.entry.draw, call]));
  for (const { entry: draw, index } of session.draws) {
    const call = draw.live && calls.get(draw.live.draw);
    const bound = call && draws.boundBy(call.entry.draw, call.entry.contributions, call.entry.round);
    if (bound) {
      bindingStep(`binding-${bound.k}`, bound, call.index, steps);
    }
    const rest = draws.restOf(draw);
    if (rest === "seed" || rest === "round") {
      draws.lose(draw.recipe);
      continue;
    }
    for (const [i, stated] of draw.outcomes.entries()) {
      drawStep(given, draws, draws.streamOf(rest, draw.recipe, draw.n + i), draw, stated, index, steps);
      await pace();
    }
  }
}

function drawStep(
  { session }: Case,
  draws: Draws,
  stream: Stream,
  draw: Draw,
  stated: Json,
  index: number,
  steps: Steps,
): void {
  const recipe = session.seal.entry.recipes.get(draw.recipe);
  if (recipe === undefined) {
    return;
  }
  stream.trace = [];
  const computed = draws.compute(draw.recipe, recipe, stream);
  const known = computed !== null && computed !== "lost";
  const taken = stream.trace.slice(0, MAX_TAKEN).map(hex).join(" ");
  steps.add({
    id: `draw-${draw.recipe}-${stream.n}`,
    claim: "outcomes",
    title: `Draw ${stream.n} of ${draw.recipe}`,
    rule: "5.2",
    entryIndex: index,
    inputs: [
      bytes("key", stream.key),
      bytes("B", stream.binding),
      text("recipe", draw.recipe),
      text("n", stream.n),
      bytes("message of block 0", concat(stream.prefix, u32(0))),
      joined("the stream's blocks", stream.blocks.slice(0, MAX_BLOCKS)),
      text("taken from it, in order", stream.trace.length > MAX_TAKEN ? `${taken} …` : taken),
      json("the log says", stated),
    ],
    operation: `block_j = HMAC-SHA256(key, B ‖ LP(recipe) ‖ u32(n) ‖ u32(j)); then ${explain(recipe)}`,
    result: known
      ? json("outcome", computed)
      : text("outcome", computed === null ? "past the end of the deck" : "cannot be computed"),
    ok: known ? isOutcome(stated, computed) : null,
  });
}
