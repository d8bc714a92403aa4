/** drand chains: their infos, hashes and clocks, and those that this verifier was built with (PROTOCOL.md, 2.4, 2.5). */
import { equal, hex, sha256, u32, u64, utf8 } from "./bytes.ts";
import { FormatError } from "./errors.ts";
import { Fields } from "./fields.ts";
import { type Json, MAX_INTEGER } from "./json.ts";
import { type Scheme, SCHEMES } from "./schemes.ts";
import defaultChain from "../../../config/chains/default.json";
import evmnet from "../../../config/chains/evmnet.json";
import fastnet from "../../../config/chains/fastnet.json";
import quicknet from "../../../config/chains/quicknet.json";
import quicknetTest from "../../../config/chains/quicknet-t.json";
import testnetDefault from "../../../config/chains/testnet-default.json";
import testnetUnchained from "../../../config/chains/testnet-unchained-3s.json";

/** The fields of 3.6, `chain`, as they stand. */
export interface ChainInfo {
  readonly hash: Uint8Array;
  readonly publicKey: Uint8Array;
  /** Seconds. */
  readonly period: number;
  /** Seconds. */
  readonly genesisTime: number;
  readonly genesisSeed: Uint8Array;
  readonly scheme: string;
  readonly beaconId: string;
}

/** A chain that the verifier trusts; its hash is right and its scheme known. */
export interface Chain extends ChainInfo {
  /** What the chain is called; drand's own beacon id unless it is built in. */
  readonly name: string;
  readonly rules: Scheme;
  /** The last round of a retired chain. */
  readonly lastRound: number | null;
}

export function parseChainInfo(value: Json | undefined, code: "entry" | "chain-info"): ChainInfo {
  const fields = new Fields(value, "chain info", code);
  const info = readInfo(fields);
  fields.done();
  const due = SCHEMES.get(info.scheme)?.keyBytes;
  if (due !== undefined && info.publicKey.length !== due) {
    throw new FormatError("entry", `public_key: ${due} bytes are due`);
  }
  return info;
}

function readInfo(fields: Fields): ChainInfo {
  return {
    hash: fields.hex("hash", 32),
    publicKey: fields.hex("public_key"),
    period: fields.integer("period", { min: 1, max: 2 ** 32 - 1 }),
    genesisTime: fields.integer("genesis_time"),
    genesisSeed: fields.hex("genesis_seed", 32),
    scheme: fields.text("scheme"),
    beaconId: fields.text("beacon_id", { min: 1 }),
  };
}

/** A chain info that is to be trusted: as in 3.6, and `last_round` if it is retired. */
export function parseTrustedChain(value: Json | undefined, name?: string): Chain {
  const fields = new Fields(value, "chain info", "chain-info");
  const info = readInfo(fields);
  const lastRound = fields.optional("last_round", () => fields.integer("last_round", { min: 1 }));
  fields.done();
  const rules = SCHEMES.get(info.scheme);
  if (rules === undefined) {
    throw new FormatError("scheme", `the scheme ${info.scheme} is unknown`);
  }
  if (!equal(chainHash(info), info.hash)) {
    throw new FormatError("chain-info", "its hash is not that of its fields");
  }
  if (!rules.isKey(info.publicKey)) {
    throw new FormatError("chain-info", "its key is no point that may stand there (2.6)");
  }
  return { ...info, name: name ?? info.beaconId, rules, lastRound };
}

/** H(u32(period) ‖ u64(genesis_time) ‖ public_key ‖ genesis_seed ‖ beacon_id unless it is "default") */
export function chainHash(info: ChainInfo): Uint8Array {
  const name = info.beaconId === "default" ? "" : info.beaconId;
  return sha256(u32(info.period), u64(info.genesisTime), info.publicKey, info.genesisSeed, utf8(name));
}

export function isSameChain(one: ChainInfo, other: ChainInfo): boolean {
  return (
    equal(one.hash, other.hash) &&
    equal(one.publicKey, other.publicKey) &&
    one.period === other.period &&
    one.genesisTime === other.genesisTime &&
    equal(one.genesisSeed, other.genesisSeed) &&
    one.scheme === other.scheme &&
    one.beaconId === other.beaconId
  );
}

/** When a round falls due, in milliseconds. Beyond 2^53 - 1 the number is not exact, and larger than any time. */
export function timeOf(chain: ChainInfo, round: number): number {
  const exact = 1000n * (BigInt(chain.genesisTime) + (BigInt(round) - 1n) * BigInt(chain.period));
  return Number(exact);
}

/** The last round that may be named: the end of a retired chain, else the last whose time is within 2^53 - 1 ms. */
export function finalRound({ lastRound, genesisTime, period }: Chain): number {
  const latest = Math.floor((Math.floor(MAX_INTEGER / 1000) - genesisTime) / period) + 1;
  return lastRound === null ? latest : Math.min(lastRound, latest);
}

/** The first round that falls due at `time` ms or later. */
export function firstRoundAt(chain: ChainInfo, time: number): number {
  const since = BigInt(time) - 1000n * BigInt(chain.genesisTime);
  const period = 1000n * BigInt(chain.period);
  return since <= 0n ? 1 : Number((since + period - 1n) / period + 1n);
}

const MAIN: Readonly<Record<string, unknown>> = { default: defaultChain, evmnet, fastnet, quicknet };
const TEST: Readonly<Record<string, unknown>> = {
  "quicknet-t": quicknetTest,
  "testnet-default": testnetDefault,
  "testnet-unchained-3s": testnetUnchained,
};

interface BuiltInChain {
  readonly chain: Chain;
  /** drand's main networks are trusted without being asked for, its test networks are not. */
  readonly main: boolean;
}

let builtIn: readonly BuiltInChain[] | undefined;

export function builtInChains(): readonly BuiltInChain[] {
  const read = (group: Readonly<Record<string, unknown>>, main: boolean): readonly BuiltInChain[] =>
    Object.entries(group).map(([name, info]) => ({ chain: parseTrustedChain(toMap(info), name), main }));
  builtIn ??= [...read(MAIN, true), ...read(TEST, false)];
  return builtIn;
}

function toMap(info: unknown): Json {
  return new Map(Object.entries(info as Record<string, Json>));
}

/** Chains by their hash in hex. */
export type Chains = ReadonlyMap<string, Chain>;

export function byHash(chains: readonly Chain[]): Chains {
  return new Map(chains.map((chain) => [hex(chain.hash), chain]));
}
