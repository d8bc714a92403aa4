/** What a check is given beside the document, read once (PROTOCOL.md, 7.4). */
import { utf8 } from "./bytes.ts";
import { builtInChains, byHash, type Chain, type Chains, parseTrustedChain } from "./chains.ts";
import { parseDocumentJson } from "./json.ts";
import { type LogKey, parseLogKey } from "./log-keys.ts";
import type { VerifierKey } from "./note.ts";
import { parsePolicy, type Policy } from "./policy.ts";
import type { CheckOptions, Trusted } from "./types.ts";

export interface Trust {
  readonly logKeys: readonly LogKey[];
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
