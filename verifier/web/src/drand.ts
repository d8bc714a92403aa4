/** Verifying drand rounds (PROTOCOL.md, 2.4 to 2.6). */
import { equal, hex, sha256 } from "./bytes.ts";
import type { Chain } from "./chains.ts";
import { Memo } from "./memo.ts";
import type { Scheme } from "./schemes.ts";

/** A round as somebody states it. */
export interface StatedRound {
  readonly round: number;
  readonly signature: Uint8Array;
  readonly previous: Uint8Array | null;
}

/** Whether it holds, else the rule that it breaks. */
export type RoundVerdict =
  { readonly holds: true } | { readonly holds: false; readonly rule: "2.5" | "2.6"; readonly why: string };

const HOLDS: RoundVerdict = { holds: true };

/** A page checks a document again at every change of a value: the rounds are mostly those of before. */
const KNOWN = new Memo<RoundVerdict>(10_000);

export function verifyRound(chain: Chain, stated: StatedRound): RoundVerdict {
  const { round, signature, previous } = stated;
  const before = previous === null ? "-" : hex(previous);
  const names = [chain.rules.name, hex(chain.publicKey), hex(chain.genesisSeed), round, hex(signature), before];
  return KNOWN.get(names.join(" "), () => verifyAnew(chain, stated));
}

function verifyAnew(chain: Chain, stated: StatedRound): RoundVerdict {
  const wrong = (why: string): RoundVerdict => ({ holds: false, rule: "2.5", why });
  if (stated.round < 1) {
    return wrong("rounds start at 1");
  }
  if (chain.rules.chained && stated.round === 1 && !(stated.previous && equal(stated.previous, chain.genesisSeed))) {
    return wrong("round 1 follows the genesis seed");
  }
  return verifyUnderKey(chain.rules, chain.publicKey, stated);
}

/** The same where only a public key is known. */
export function verifyUnderKey(scheme: Scheme, key: Uint8Array, stated: StatedRound): RoundVerdict {
  if (scheme.chained !== (stated.previous !== null)) {
    return { holds: false, rule: "2.5", why: "previous_signature is there on chained schemes, and only there" };
  }
  switch (scheme.verify(key, scheme.message(stated.round, stated.previous), stated.signature)) {
    case "true":
      return HOLDS;
    case "false":
      return { holds: false, rule: "2.5", why: "the chain did not sign this" };
    case "malformed":
      return { holds: false, rule: "2.6", why: "the signature is not the one encoding of a point of prime order" };
  }
}

/** H(signature), always computed, never read (2.4). */
export function randomness(signature: Uint8Array): Uint8Array {
  return sha256(signature);
}
