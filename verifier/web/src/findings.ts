/** What a check found wrong, by the claim that fails for it (PROTOCOL.md, section 8). */
import type { ClaimName, Finding } from "./types.ts";

export class Findings {
  readonly #found = new Map<ClaimName, Finding[]>();

  /** `index`: of the entry concerned. */
  add(claim: ClaimName, rule: string, text: string, index: number | null = null): void {
    const list = this.#found.get(claim) ?? [];
    list.push({ rule, text, index });
    this.#found.set(claim, list);
  }

  /** `add` unless the condition holds. */
  require(condition: boolean, claim: ClaimName, rule: string, text: string, index: number | null = null): void {
    if (!condition) {
      this.add(claim, rule, text, index);
    }
  }

  of(claim: ClaimName): readonly Finding[] {
    return this.#found.get(claim) ?? [];
  }

  get any(): boolean {
    return this.#found.size > 0;
  }
}
