/** C2SP tlog-policy: the logs and witnesses that a verifier trusts, and the quorum it asks for. */
import { fromUtf8 } from "./bytes.ts";
import { accepted, FormatError } from "./errors.ts";
import { KeyType, parseVerifierKey, type VerifierKey } from "./note.ts";

interface Group {
  readonly threshold: number;
  readonly members: readonly string[];
}

export interface Policy {
  readonly logs: readonly VerifierKey[];
  /** By the policy's own name of the witness. */
  readonly witnesses: ReadonlyMap<string, VerifierKey>;
  readonly groups: ReadonlyMap<string, Group>;
  /** A witness, a group, or "none". */
  readonly quorum: string;
}

const MAX_BYTES = 1_000_000;
const MAX_OF_A_KIND = 256;
const NONE = "none";
const THRESHOLD = /^[1-9][0-9]{0,8}$/;
const FORBIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f\p{Cs}]/u;
const WITNESS_TYPES: ReadonlySet<number> = new Set([KeyType.COSIGNATURE, KeyType.ML_DSA_44]);
const LOG_TYPES: ReadonlySet<number> = new Set([KeyType.ED25519, KeyType.ECDSA, KeyType.TREE_HEAD, KeyType.ML_DSA_44]);

export function parsePolicy(bytes: Uint8Array): Policy {
  const text = fromUtf8(bytes);
  if (text === null || bytes.length > MAX_BYTES || FORBIDDEN.test(text) || !text.endsWith("\n")) {
    throw new FormatError("policy", "not UTF-8, too long, with a control character, or without its last line feed");
  }
  const reader = new Reader();
  text
    .slice(0, -1)
    .split("\n")
    .forEach((line, number) => {
      const words = line.split(/[ \t]+/).filter((word) => word !== "");
      if (words.length > 0 && !words[0]?.startsWith("#")) {
        reader.line(words, number + 1);
      }
    });
  return reader.policy();
}

/** Whether these witnesses, by the policy's names, make the quorum. */
export function satisfied(policy: Policy, cosigned: ReadonlySet<string>): boolean {
  const counts = (name: string): boolean => {
    const group = policy.groups.get(name);
    return group === undefined
      ? policy.witnesses.has(name) && cosigned.has(name)
      : group.members.filter(counts).length >= group.threshold;
  };
  return policy.quorum === NONE || counts(policy.quorum);
}

/** Whether it asks for anybody. */
export function asksForWitnesses(policy: Policy): boolean {
  return policy.quorum !== NONE;
}

/** The quorum in words, such as "2 of (w1, w2, w3)". */
export function describeQuorum(policy: Policy): string {
  const describe = (name: string): string => {
    const group = policy.groups.get(name);
    return group === undefined ? name : `${group.threshold} of (${group.members.map(describe).join(", ")})`;
  };
  return policy.quorum === NONE ? "no witness is asked for" : describe(policy.quorum);
}

class Reader {
  readonly #logs = new Map<string, VerifierKey>();
  readonly #witnesses = new Map<string, VerifierKey>();
  readonly #groups = new Map<string, Group>();
  readonly #members = new Set<string>();
  #quorum: string | null = null;
  #number = 0;

  line([keyword = "", ...words]: readonly string[], number: number): void {
    this.#number = number;
    switch (keyword) {
      case "log":
        return this.#log(words);
      case "witness":
        return this.#witness(words);
      case "group":
        return this.#group(words);
      case "quorum":
        return this.#readQuorum(words);
      default:
        throw this.#refusal("an unknown keyword");
    }
  }

  policy(): Policy {
    if (this.#quorum === null) {
      throw new FormatError("policy", "no quorum");
    }
    return {
      logs: [...this.#logs.values()],
      witnesses: this.#witnesses,
      groups: this.#groups,
      quorum: this.#quorum,
    };
  }

  #refusal(what: string): FormatError {
    return new FormatError("policy", `line ${this.#number}: ${what}`);
  }

  #require(condition: boolean, what: string): void {
    if (!condition) {
      throw this.#refusal(what);
    }
  }

  #key(text: string | undefined, types: ReadonlySet<number>): VerifierKey {
    const key = accepted(() => parseVerifierKey(text ?? ""));
    if (key === null || !types.has(key.type)) {
      throw this.#refusal("no verifier key of a type that may stand here");
    }
    return key;
  }

  #log([text, , ...rest]: readonly string[]): void {
    const key = this.#key(text, LOG_TYPES);
    this.#require(rest.length === 0, "more than a key and a URL");
    this.#require(!this.#logs.has(bytesOf(key)), "a log's key stands twice");
    this.#require(this.#logs.size < MAX_OF_A_KIND, "too many logs");
    this.#logs.set(bytesOf(key), key);
  }

  #witness([name = "", text, , ...rest]: readonly string[]): void {
    this.#newName(name);
    const key = this.#key(text, WITNESS_TYPES);
    this.#require(rest.length === 0, "more than a name, a key and a URL");
    this.#require(
      ![...this.#witnesses.values()].some((other) => bytesOf(other) === bytesOf(key)),
      "a key stands twice",
    );
    this.#require(this.#witnesses.size < MAX_OF_A_KIND, "too many witnesses");
    this.#witnesses.set(name, key);
  }

  #group([name = "", threshold = "", ...members]: readonly string[]): void {
    this.#newName(name);
    const needed = threshold === "any" ? 1 : threshold === "all" ? members.length : Number(threshold);
    this.#require(["any", "all"].includes(threshold) || THRESHOLD.test(threshold), "no threshold");
    this.#require(needed >= 1 && needed <= members.length, "a threshold that its members cannot reach");
    for (const member of members) {
      this.#require(this.#isDefined(member), `${member} is not defined above`);
      this.#require(!this.#members.has(member), `${member} is in a group already`);
      this.#members.add(member);
    }
    this.#require(this.#groups.size < MAX_OF_A_KIND, "too many groups");
    this.#groups.set(name, { threshold: needed, members });
  }

  #readQuorum([name = "", ...rest]: readonly string[]): void {
    this.#require(this.#quorum === null && rest.length === 0, "more than one quorum");
    this.#require(name === NONE || this.#isDefined(name), `${name} is not defined above`);
    this.#quorum = name;
  }

  #newName(name: string): void {
    this.#require(name !== "" && name !== NONE && !this.#isDefined(name), "a name that is missing, reserved or taken");
  }

  #isDefined(name: string): boolean {
    return this.#witnesses.has(name) || this.#groups.has(name);
  }
}

/** Two keys are one key if type and bytes are the same, whatever they are called. */
function bytesOf(key: VerifierKey): string {
  return `${key.type}:${key.key.join(",")}`;
}
