/** Verifying drand rounds (PROTOCOL.md, 2.4 to 2.6). */
import { equal, hex, sha256 } from "./bytes.ts";
import { type Chain, finalRound } from "./chains.ts";
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
  return formFault(chain, stated) ?? KNOWN.get(nameOf(chain, stated), () => verifyUnderKey(chain.rules, chain.publicKey, stated));
}

/** Whether all of these rounds hold, which is found out for all of them at once; each is known then. */
export function verifyRounds(chain: Chain, all: readonly StatedRound[]): boolean {
  if (all.some((stated) => formFault(chain, stated) !== null)) {
    return false;
  }
  const { message } = chain.rules;
  const signed = all.map(({ round, signature, previous }) => ({ message: message(round, previous), signature }));
  const holds = chain.rules.verifyAll(chain.publicKey, signed);
  if (holds) {
    all.forEach((stated) => KNOWN.get(nameOf(chain, stated), () => HOLDS));
  }
  return holds;
}

export function isKnown(chain: Chain, stated: StatedRound): boolean {
  return KNOWN.has(nameOf(chain, stated));
}

function nameOf({ rules, publicKey, genesisSeed }: Chain, { round, signature, previous }: StatedRound): string {
  const before = previous === null ? "-" : hex(previous);
  return [rules.name, hex(publicKey), hex(genesisSeed), round, hex(signature), before].join(" ");
}

/** What is wrong with a round before its signature is looked at, or null. */
function formFault(chain: Chain, { round, signature, previous }: StatedRound): RoundVerdict | null {
  const wrong = (rule: "2.5" | "2.6", why: string): RoundVerdict => ({ holds: false, rule, why });
  const { rules } = chain;
  const final = finalRound(chain);
  if (round < 1 || round > final) {
    return wrong("2.5", `rounds of this chain are 1 to ${final}`);
  }
  if (signature.length !== rules.signatureBytes) {
    return wrong("2.6", `a signature of ${rules.name} has ${rules.signatureBytes} bytes`);
  }
  if (rules.chained !== (previous !== null)) {
    return wrong("2.5", "previous_signature is there on chained schemes, and only there");
  }
  const linked = previous === null || round > 1 || equal(previous, chain.genesisSeed);
  return linked ? null : wrong("2.5", "round 1 follows the genesis seed");
}

/** The same where only a public key is known. */
export function verifyUnderKey(scheme: Scheme, key: Uint8Array, stated: StatedRound): RoundVerdict {
  const message = scheme.message(stated.round, stated.previous);
  switch (scheme.verify(key, { message, signature: stated.signature })) {
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
