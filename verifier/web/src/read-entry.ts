/** Reading the log's entries, strictly (PROTOCOL.md, section 3). */
import { compare, hex, utf8 } from "./bytes.ts";
import { parseChainInfo } from "./chains.ts";
import { isKey, KEY_BYTES, SIGNATURE_BYTES } from "./ed25519.ts";
import type {
  After,
  Contributed,
  Draw,
  Entry,
  Participant,
  Seal,
  SealFields,
  SessionEntry,
  Timelock,
} from "./entries.ts";
import { FormatError } from "./errors.ts";
import { Fields, requireUnique } from "./fields.ts";
import { isObject, type Json, type JsonObject, parseEntryJson } from "./json.ts";
import { parseRecipe, type Recipe } from "./recipes.ts";

/** Of every entry: its field `v` (3.6). */
const VERSION = 1;
const NAME = /^[A-Za-z][A-Za-z0-9._-]{0,63}$/;
const MAX_U32 = 2 ** 32 - 1;
const MAX_PLANNED = 1000;
const COUNT = { min: 1, max: MAX_U32 } as const;
const ID = { min: 1, max: 128 } as const;
const REMARK = { max: 256 } as const;
const ENTROPY = { min: 1, max: 256 } as const;

/** Read the exact bytes of a leaf. */
export function parseEntry(bytes: Uint8Array): Entry {
  const fields = new Fields(parseEntryJson(bytes), "entry");
  const entry = read(fields);
  fields.done();
  return entry;
}

function read(fields: Fields): Entry {
  const version = fields.integer("v");
  if (version !== VERSION) {
    throw new FormatError("entry", `an entry of version ${version}; this program knows version ${VERSION} alone`);
  }
  const type = fields.oneOf(
    "type",
    "log",
    "chain",
    "seal",
    "contribution",
    "close",
    "round",
    "call",
    "draw",
    "reveal",
    "void",
  );
  const time = fields.integer("time");
  switch (type) {
    case "log":
      return { type, time, origin: fields.text("origin") };
    case "chain":
      return { type, time, info: parseChainInfo(fields.object("info"), "entry") };
    case "seal":
      return readSeal(fields, time);
    case "round":
      return {
        type,
        time,
        chain: readHash(fields, "chain"),
        round: fields.integer("round", { min: 1 }),
        signature: fields.hex("signature"),
        previous: readPrevious(fields),
      };
    default:
      return readSessionEntry(fields, type, time, readHash(fields, "session"));
  }
}

function readSessionEntry(fields: Fields, type: SessionEntry["type"], time: number, session: string): SessionEntry {
  switch (type) {
    case "contribution":
      return { type, time, session, ...readContributed(fields) };
    case "close":
      return { type, time, session, contributions: fields.integer("contributions"), digest: fields.hex("digest", 32) };
    case "call":
      return {
        type,
        time,
        session,
        draw: fields.integer("draw", COUNT),
        ...readDrawn(fields),
        round: fields.integer("round", { min: 1 }),
        contributions: readCallContributions(fields),
      };
    case "draw":
      return readDraw(fields, time, session);
    case "reveal":
      return {
        type,
        time,
        session,
        by: fields.oneOf("by", "service", "host", "timelock"),
        seed: readSeed(fields),
        draws: readCounts(fields, "draws", { min: 0, max: Number.MAX_SAFE_INTEGER }),
      };
    case "void":
      return { type, time, session, reason: fields.text("reason"), seed: readSeed(fields) };
  }
}

/** 32 bytes in hex, kept as text: it only names something. */
function readHash(fields: Fields, name: string): string {
  return hex(fields.hex(name, 32));
}

function readSeed(fields: Fields): Uint8Array | null {
  return fields.orNull("seed", () => fields.hex("seed", 32));
}

function readPrevious(fields: Fields): Uint8Array | null {
  return fields.optional("previous_signature", () => fields.hex("previous_signature"));
}

function readDrawn(fields: Fields): { readonly recipe: string; readonly n: number; readonly purpose: string } {
  return {
    recipe: fields.matching("recipe", NAME),
    n: fields.integer("n", COUNT),
    purpose: fields.text("purpose", REMARK),
  };
}

function readContributed(fields: Fields): Contributed {
  const participant = fields.text("participant", ID);
  const entropy = fields.hex("entropy");
  if (entropy.length < ENTROPY.min || entropy.length > ENTROPY.max) {
    throw fields.refusal("entropy", `has ${entropy.length} bytes`);
  }
  return {
    participant,
    entropy,
    signature: fields.optional("signature", () => fields.hex("signature", SIGNATURE_BYTES)),
  };
}

function readCallContributions(fields: Fields): readonly Contributed[] {
  const items = readObjects(fields, "contributions", 64, readContributed);
  const ids = items.map((item) => utf8(item.participant));
  if (ids.some((id, i) => i > 0 && compare(ids[i - 1] ?? id, id) > 0)) {
    throw fields.refusal("contributions", "are not sorted by participant");
  }
  return items;
}

function readObjects<T>(fields: Fields, name: string, max: number, readItem: (fields: Fields) => T): readonly T[] {
  return fields.list(name, { max }).map((value) => {
    const inner = new Fields(value, name);
    const item = readItem(inner);
    inner.done();
    return item;
  });
}

function readDraw(fields: Fields, time: number, session: string): Draw {
  const live = fields.has("draw") || fields.has("seed");
  const drawn = readDrawn(fields);
  const outcomes = fields.list("outcomes", { min: 1, max: live ? 1 : 1000 });
  if (drawn.n + outcomes.length - 1 > MAX_U32 || !outcomes.every(isOutcomeLike)) {
    throw fields.refusal("outcomes", "go past 2^32 - 1, or hold null or an object");
  }
  const link = live ? { draw: fields.integer("draw", COUNT), seed: fields.hex("seed", 32) } : null;
  return { type: "draw", time, session, ...drawn, outcomes, live: link };
}

/** Without null and objects at any depth (3.3). */
function isOutcomeLike(value: Json): boolean {
  return Array.isArray(value) ? (value as readonly Json[]).every(isOutcomeLike) : value !== null && !isObject(value);
}

function readCounts(
  fields: Fields,
  name: string,
  range: { readonly min: number; readonly max: number },
): ReadonlyMap<string, number> {
  const counts = new Fields(fields.object(name, { min: 1 }), name);
  const names = [...counts.names()];
  return new Map(names.map((recipe) => [requireName(recipe), counts.integer(recipe, range)]));
}

function requireName(name: string): string {
  if (!NAME.test(name)) {
    throw new FormatError("entry", "a recipe's name is no name");
  }
  return name;
}

function readSeal(fields: Fields, time: number): Seal {
  const profile = fields.oneOf("profile", "match", "live");
  const common = readSealFields(fields, time, profile);
  checkSeal(fields, common);
  if (profile === "live" && common.plan !== null) {
    throw fields.refusal("plan", "stands in matches alone");
  }
  return profile === "match"
    ? { ...common, profile, round: fields.integer("round", { min: 1 }) }
    : { ...common, profile, lead: fields.integer("lead", { min: 2000, max: 600_000 }) };
}

function readSealFields(fields: Fields, time: number, profile: Seal["profile"]): SealFields {
  const recipes = fields.object("recipes", { min: 1, max: 64 });
  return {
    type: "seal",
    time,
    log: fields.text("log"),
    host: fields.matching("host", NAME),
    hostSeq: fields.integer("host_seq", { min: 1 }),
    label: fields.text("label", REMARK),
    replaces: fields.orNull("replaces", () => readHash(fields, "replaces")),
    custody: fields.oneOf("custody", "beacon", "host"),
    commitment: fields.hex("commitment", 32),
    links: fields.integer("links", { min: 1, max: profile === "match" ? 1 : 65_536 }),
    chain: readHash(fields, "chain"),
    closeAt: fields.orNull("close_at", () => fields.integer("close_at")),
    revealBy: fields.integer("reveal_by"),
    participants: readObjects(fields, "participants", 200, readParticipant),
    open: fields.boolean("open"),
    minContributions: fields.integer("min_contributions"),
    recipes: new Map([...recipes].map(([name, recipe]) => [requireName(name), parseRecipe(recipe)])),
    plan: fields.orNull("plan", () => readCounts(fields, "plan", { min: 1, max: MAX_PLANNED })),
    attachments: readObjects(fields, "attachments", 16, (item) => ({
      name: item.text("name", ID),
      sha256: item.hex("sha256", 32),
    })),
    after: readAfter(fields.object("after")),
    timelock: fields.optional("timelock", () => readTimelock(fields.object("timelock"))),
    sandbox: fields.boolean("sandbox"),
  };
}

function readParticipant(fields: Fields): Participant {
  const id = fields.text("id", ID);
  const key = fields.optional("key", () => fields.hex("key", KEY_BYTES));
  if (key !== null && !isKey(key)) {
    throw new FormatError("signature", "participants: 'key' is no canonical Ed25519 key of prime order (2.7)");
  }
  return { id, key };
}

function readAfter(value: JsonObject): After {
  const fields = new Fields(value, "after");
  const after = {
    round: fields.integer("round", { min: 1 }),
    signature: fields.hex("signature"),
    previous: readPrevious(fields),
  };
  fields.done();
  return after;
}

function readTimelock(value: JsonObject): Timelock {
  const fields = new Fields(value, "timelock");
  const timelock = {
    chain: readHash(fields, "chain"),
    round: fields.integer("round", { min: 1 }),
    ciphertext: fields.text("ciphertext"),
  };
  fields.done();
  return timelock;
}

/** What of a seal only several fields together tell. */
function checkSeal(fields: Fields, seal: SealFields): void {
  requireUnique(
    seal.participants.map(({ id }) => id),
    "a participant",
  );
  requireUnique(
    seal.participants.flatMap(({ key }) => (key === null ? [] : [key.join()])),
    "a participant's key",
  );
  requireUnique(
    seal.attachments.map(({ name }) => name),
    "an attachment's name",
  );
  if (!seal.open && seal.minContributions > seal.participants.length) {
    throw fields.refusal("min_contributions", "is above the number of participants");
  }
  if (seal.plan !== null) {
    checkPlan(fields, seal.plan, seal.recipes);
  }
}

function checkPlan(fields: Fields, plan: ReadonlyMap<string, number>, recipes: ReadonlyMap<string, Recipe>): void {
  let total = 0;
  for (const [name, count] of plan) {
    const recipe = recipes.get(name);
    total += count;
    const beyond = recipe?.kind === "deal" && recipe.count * count > recipe.size;
    if (recipe === undefined || beyond || total > MAX_PLANNED) {
      throw fields.refusal("plan", "names another recipe, or deals past the deck, or asks for too many draws");
    }
  }
}
