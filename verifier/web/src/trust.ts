/** What a check is given beside the document, read once (PROTOCOL.md, 7.4). */
import { utf8 } from "./bytes.ts";
import { builtInChains, byHash, type Chain, type Chains, parseTrustedChain } from "./chains.ts";
import { FormatError } from "./errors.ts";
import { parseDocumentJson } from "./json.ts";
import { KeyType, parseVerifierKey, type VerifierKey } from "./note.ts";
import { parsePolicy, type Policy } from "./policy.ts";
import type { CheckOptions, Trusted } from "./types.ts";

export interface Trust {
  readonly logKeys: readonly VerifierKey[];
  readonly policy: Policy | null;
  readonly chains: Chains;
}

/** Throws FormatError for keys, policies and chains that are none. */
export function readTrust({ logKeys = [], policy, chains }: CheckOptions): Trust {
  return {
    logKeys: logKeys.map(parseLogKey),
    policy: policy === undefined ? null : parsePolicy(utf8(policy)),
    chains: byHash(readChains(chains)),
  };
}

/** A log is checked with an Ed25519 key; one of another type is refused even if it is that of a witness. */
function parseLogKey(text: string): VerifierKey {
  const key = parseVerifierKey(text);
  if (key.type !== KeyType.ED25519) {
    throw new FormatError("vkey", `a log signs with Ed25519 (type 1); ${key.name} is of another type`);
  }
  return key;
}

/** Chains by name or as JSON; drand's main networks if none are named. */
function readChains(named: readonly string[] | undefined): readonly Chain[] {
  if (named === undefined) {
    return builtInChains()
      .filter(({ main }) => main)
      .map(({ chain }) => chain);
  }
  return named.map((text) => {
    const known = builtInChains().find(({ chain }) => chain.name === text);
    return known?.chain ?? parseTrustedChain(parseDocumentJson(utf8(text)));
  });
}

/** The same for people: under which key, chains and policy it was checked. */
export function describeTrust({ chains }: Trust, key: VerifierKey | null, { policy }: CheckOptions): Trusted {
  return {
    log_key: key?.text ?? null,
    chains: Object.fromEntries([...chains].map(([hash, { name }]) => [hash, name])),
    policy: policy ?? null,
  };
}
