/** Files of known answers, case by case: what this verifier makes of each (`tests/vectors`). */
import { parseAge } from "./age.ts";
import { base64, hex, parseBase64, parseHex, sha256, utf8 } from "./bytes.ts";
import { builtInChains, type Chain, chainHash } from "./chains.ts";
import { randomness, type StatedRound, verifyRound, verifyRounds, verifyUnderKey } from "./drand.ts";
import { Deck, outcomeOf } from "./draws.ts";
import { verifySignature } from "./ed25519.ts";
import type { Seal } from "./entries.ts";
import { accepted } from "./errors.ts";
import { leafHash } from "./merkle.ts";
import { parseEntry } from "./read-entry.ts";
import type { Recipe } from "./recipes.ts";
import { SCHEMES } from "./schemes.ts";
import { bindingOf, contributionMessage, opens, sessionDigest, Stream, uniform } from "./seeds.ts";
import { openTimelock, parseCiphertext } from "./timelock.ts";
import type { CheckOptions, Unusable, Verdict } from "./types.ts";
import { TLOG_SECTIONS } from "./vectors-tlog.ts";

/** null: passed. A text: what was wrong. */
export type Outcome = string | null;

export interface Result {
  readonly id: string;
  readonly status: "passed" | "failed" | "not understood";
  readonly why: string;
}

/** What a file says, as it is. Files of known answers are the project's own: a missing field may throw. */
export type Given = any;

type Check = (document: Uint8Array, options: CheckOptions) => Promise<Verdict | Unusable>;

/** The results of every case of a file. */
export async function runVectors(file: Given, check: Check): Promise<readonly Result[]> {
  if (file.scenarios !== undefined) {
    return Promise.all(file.scenarios.map(async (one: Given) => result(one.name, await scenario(one, check))));
  }
  if (file.uniform !== undefined) {
    return protocolCases(file);
  }
  if (file.rounds !== undefined) {
    return [
      ...file.rounds.map((one: Given) => attempt(`${one.beacon_id ?? one.scheme} ${one.round}`, () => round(one))),
      ...builtInChains().map(({ chain }) => attempt(`${chain.name}, all at once`, () => atOnce(chain, file.rounds))),
    ];
  }
  if (file.tlock !== undefined) {
    return [
      ...file.tlock.map((one: Given, i: number) =>
        attempt(`timelock ${i + 1}, round ${one.round}`, () => timelock(one)),
      ),
      ...file.other_formats.map((one: Given) => attempt(one.format, () => otherFormat(one))),
    ];
  }
  if (file.chains !== undefined) {
    return file.chains.map((one: Given) => attempt(one.name, () => chainInfo(one)));
  }
  if (file.vkey_parse !== undefined) {
    return tlogCases(file);
  }
  if (file.cases !== undefined && String(file.about).startsWith("Signatures")) {
    return file.cases.map((one: Given) => attempt(one.id, () => negative(one)));
  }
  return [
    { id: "the file", status: "not understood", why: "no file of known answers that this verifier has to do with" },
  ];
}

function result(id: string, outcome: Outcome): Result {
  return { id, status: outcome === null ? "passed" : "failed", why: outcome ?? "" };
}

function attempt(id: string, run: () => Outcome): Result {
  try {
    return result(id, run());
  } catch (error) {
    return result(id, String(error));
  }
}

export function differs(what: string, wanted: unknown, got: unknown): Outcome {
  const [one, other] = [JSON.stringify(wanted), JSON.stringify(got)];
  return one === other ? null : `${what}: expected ${one?.slice(0, 100)}, got ${other?.slice(0, 100)}`;
}

/** UTF-8 that lets an unpaired surrogate through, as bytes that no strict reader takes. */
function loose(text: string): Uint8Array {
  const parts = [...text].map((character) => {
    const code = character.codePointAt(0) ?? 0;
    const lone = code >= 0xd800 && code <= 0xdfff;
    return lone ? [0xed, 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f)] : [...utf8(character)];
  });
  return Uint8Array.from(parts.flat());
}

async function scenario({ given, document, document_text: text, expect }: Given, check: Check): Promise<Outcome> {
  const options: CheckOptions = {
    logKeys: given.log_key === null ? [] : [given.log_key],
    chains: [given.chain],
    ...(given.policy === null ? {} : { policy: given.policy }),
    sandbox: given.sandbox,
    requireProven: given.require === "proven",
  };
  const verdict = await check(loose(text ?? JSON.stringify(document)), options);
  if (verdict.exit !== expect.exit || verdict.exit === 3) {
    return differs("exit", expect.exit, verdict.exit);
  }
  const states = new Map<string, string>(verdict.claims.map(({ claim, state }) => [claim, state]));
  const wrong = Object.entries(expect.claims).map(([claim, state]) => differs(claim, state, states.get(claim)));
  return wrong.find((difference) => difference !== null) ?? null;
}

function protocolCases({ cases, uniform: rows, entries }: Given): readonly Result[] {
  return [
    ...cases.flatMap(protocolCase),
    ...rows.rows.map((row: Given) => attempt(`uniform ${row.n}`, () => uniformRow(rows, row))),
    ...entries.accepted.map((text: string, i: number) =>
      attempt(`accepted ${i + 1}`, () => (parseEntry(loose(text)).time >= 0 ? null : "refused")),
    ),
    ...entries.refused.map((text: string, i: number) =>
      attempt(`refused ${i + 1}`, () => (accepted(() => parseEntry(loose(text))) === null ? null : "accepted")),
    ),
  ];
}

function uniformRow({ seed, binding, recipe, n }: Given, row: Given): Outcome {
  const stream = new Stream(parseHex(seed), parseHex(binding), recipe, n);
  const got = row.first_eight.map(() => uniform(stream, BigInt(row.n)).toString());
  return differs("first_eight", row.first_eight, got);
}

function protocolCase(given: Given): readonly Result[] {
  const bytes = utf8(given.seal_entry);
  const seal = parseEntry(bytes) as Seal;
  const leaf = leafHash(bytes);
  const pairs = (items: readonly (readonly [string, string])[]): Parameters<typeof sessionDigest>[1] =>
    items.map(([participant, entropy]) => ({ participant, entropy: parseHex(entropy) }));
  const digest = sessionDigest(leaf, pairs(given.contributions));
  const signature = parseHex(given.round_signature);
  const called = pairs(given.call_contributions);
  const binding = bindingOf({ digest, k: given.k, called, round: given.round, random: randomness(signature) });
  const chain = chainOf(given.chain);
  const one = (what: string, outcome: () => Outcome): Result => attempt(`${given.name}: ${what}`, outcome);
  return [
    one("session", () => differs("session", given.session, hex(leaf))),
    one("commitment", () =>
      differs(
        "commitment",
        [given.commitment, given.links, given.chain],
        [hex(seal.commitment), seal.links, seal.chain],
      ),
    ),
    one("digest", () => differs("session_digest", given.session_digest, hex(digest))),
    one("round", () => holds(verifyRound(chain, { round: given.round, signature, previous: null }))),
    one("randomness", () => differs("randomness", given.randomness, hex(randomness(signature)))),
    one("binding", () => differs("binding", given.binding, hex(binding))),
    one("seed", () =>
      opens(parseHex(given.seed), given.k || 1, seal.commitment) ? null : "it does not open the commitment",
    ),
    ...given.outcomes.map((item: Given) =>
      one(`${item.recipe} ${item.n}`, () => outcome(item, seal, parseHex(given.seed), binding)),
    ),
    ...given.signatures.map((item: Given, i: number) => one(`signature ${i + 1}`, () => contributed(item, leaf))),
  ];
}

function outcome(item: Given, seal: Seal, seed: Uint8Array, binding: Uint8Array): Outcome {
  const recipe = seal.recipes.get(item.recipe) as Recipe;
  const stream = new Stream(seed, binding, item.recipe, item.n);
  const got = outcomeOf(recipe, stream, deckBefore(item, recipe, seed, binding));
  return (
    differs("word", item.word, hex(stream.word)) ??
    (item.outcome === undefined ? null : differs("outcome", item.outcome, got)) ??
    (item.outcome_head === undefined
      ? null
      : differs("head", item.outcome_head, got?.slice(0, item.outcome_head.length))) ??
    (item.outcome_sha256_of_json === undefined
      ? null
      : differs("sha256", item.outcome_sha256_of_json, hex(sha256(utf8(JSON.stringify(got))))))
  );
}

/** The deck that the draws before this one have left. */
function deckBefore(item: Given, recipe: Recipe, seed: Uint8Array, binding: Uint8Array): Deck | null {
  if (recipe.kind !== "deal") {
    return null;
  }
  const deck = new Deck(recipe.size);
  for (let n = 1; n < item.n; n++) {
    outcomeOf(recipe, new Stream(seed, binding, item.recipe, n), deck);
  }
  return deck;
}

function contributed(item: Given, leaf: Uint8Array): Outcome {
  const { k, recipe, n, purpose, participant } = item;
  const message = contributionMessage(
    leaf,
    { participant, entropy: parseHex(item.entropy) },
    { draw: k, recipe, n, purpose },
  );
  const signed = verifySignature(parseHex(item.public_key), message, parseHex(item.signature));
  return (
    differs("message", item.message_sha256, hex(sha256(message))) ?? (signed ? null : "the signature does not verify")
  );
}

function chainOf(hash: string): Chain {
  const found = builtInChains().find(({ chain }) => hex(chain.hash) === hash);
  if (found === undefined) {
    throw new Error(`no chain ${hash}`);
  }
  return found.chain;
}

function holds(verdict: ReturnType<typeof verifyRound>): Outcome {
  return verdict.holds ? null : `refused: ${verdict.why}`;
}

function stated({ round: number, signature, previous_signature: previous }: Given): StatedRound {
  return { round: number, signature: parseHex(signature), previous: previous ? parseHex(previous) : null };
}

function round(record: Given): Outcome {
  const scheme = SCHEMES.get(record.scheme);
  if (scheme === undefined) {
    return "an unknown scheme";
  }
  const said = stated(record);
  const chain = record.chain_hash === null ? null : chainOf(record.chain_hash);
  const key = record.public_key ? parseHex(record.public_key) : new Uint8Array();
  const verdict = chain === null ? verifyUnderKey(scheme, key, said) : verifyRound(chain, said);
  const same = chain === null || chain.rules === scheme ? null : "the chain has another scheme";
  const random =
    record.randomness === null ? null : differs("randomness", record.randomness, hex(randomness(said.signature)));
  return holds(verdict) ?? same ?? random;
}

/** All rounds of a chain at once; and not so if two of them exchange their signatures. */
function atOnce(chain: Chain, records: readonly Given[]): Outcome {
  const all = records.filter((record) => record.chain_hash === hex(chain.hash)).map(stated);
  const [first, second, ...others] = all;
  if (first === undefined || second === undefined) {
    return null;
  }
  const exchanged = [{ ...first, signature: second.signature }, { ...second, signature: first.signature }, ...others];
  return !verifyRounds(chain, all) ? "refused" : verifyRounds(chain, exchanged) ? "accepted, though exchanged" : null;
}

function timelock(given: Given): Outcome {
  const parsed = accepted(() => parseCiphertext(parseBase64(given.age_file_base64), chainOf(given.chain_hash)));
  if (parsed === null || given.signature === null) {
    return differs("round", given.round, parsed === null ? null : Number(parsed.round));
  }
  const opened = openTimelock(parsed, parseHex(given.signature));
  return differs("plaintext", given.plaintext_base64 ?? null, opened && base64(opened));
}

function otherFormat({ ciphertext_hex: bytes }: Given): Outcome {
  return accepted(() => parseAge(parseHex(bytes))) === null ? null : "taken for an age file";
}

function negative(record: Given): Outcome {
  const said = accepted(() => stated(record));
  const chain = chainOf(record.chain_hash);
  const rules = SCHEMES.get(record.scheme_override) ?? chain.rules;
  return said === null || !verifyRound({ ...chain, rules }, said).holds ? null : "accepted";
}

function chainInfo({ v2 }: Given): Outcome {
  const built = chainOf(v2.chain_hash);
  const info = {
    hash: parseHex(v2.chain_hash),
    publicKey: parseHex(v2.public_key),
    period: v2.period,
    genesisTime: v2.genesis_time,
    genesisSeed: parseHex(v2.genesis_seed),
    scheme: v2.scheme,
    beaconId: v2.beacon_id,
  };
  return (
    differs("hash", v2.chain_hash, hex(chainHash(info))) ??
    differs("key", v2.public_key, hex(built.publicKey)) ??
    differs("scheme", v2.scheme, built.scheme) ??
    (built.rules.isKey(built.publicKey) ? null : "its key is no point")
  );
}

function tlogCases(file: Given): readonly Result[] {
  return Object.entries(file).flatMap(([section, cases]): readonly Result[] => {
    const run = TLOG_SECTIONS[section];
    if (section === "meta") {
      return [];
    }
    if (run === undefined) {
      return [
        { id: section, status: "not understood", why: "only a log, a client of tiles or a witness has to do with it" },
      ];
    }
    return (cases as Given[]).map((one) => attempt(one.id, () => run(one)));
  });
}
