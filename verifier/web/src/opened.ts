/** The seed chain: what was revealed opens the commitment (PROTOCOL.md, 4.1). */
import { equal, sha256 } from "./bytes.ts";
import type { Case } from "./case.ts";

/** The links of the seed chain that were shown to open the commitment. */
class Links {
  readonly #known = new Map<number, Uint8Array>();

  constructor(
    commitment: Uint8Array,
    private readonly length: number,
  ) {
    this.#known.set(0, commitment);
  }

  /** Whether this is s_k. Every link below one that was opened is known from then on. */
  opens(link: Uint8Array, k: number): boolean {
    if (k > this.length) {
      return false;
    }
    const path: Uint8Array[] = [];
    let value = link;
    let at = k;
    for (; !this.#known.has(at); at--) {
      path.push(value);
      value = sha256(value);
    }
    if (!equal(value, this.#known.get(at) as Uint8Array)) {
      return false;
    }
    path.forEach((passed, i) => this.#known.set(k - i, passed));
    return true;
  }
}

/** Check every seed that is shown (4.1), and say whether there is one. */
export function checkSeeds({ session, findings }: Case): boolean {
  const { entry: seal } = session.seal;
  const links = new Links(seal.commitment, seal.links);
  const fail = (text: string, index: number): void => findings.add("seed", "4.1", text, index);
  let shown = false;
  for (const { entry, index } of session.draws) {
    if (entry.live !== null) {
      shown = true;
      if (!links.opens(entry.live.seed, entry.live.draw)) {
        fail(`the seed of draw ${entry.live.draw} does not open the commitment`, index);
        return true;
      }
    }
  }
  const { end } = session;
  if (end === null) {
    return shown;
  }
  const steps = seal.profile === "match" ? 1 : session.calls.length;
  const { seed, type } = end.entry;
  if (seed === null) {
    if (type === "reveal" && steps > 0) {
      fail("revealed without a seed", end.index);
    }
    return shown;
  }
  if (steps === 0) {
    fail("a seed is shown, though there was no call", end.index);
  } else if (!links.opens(seed, steps)) {
    fail("the seed does not open the commitment", end.index);
  }
  return true;
}
