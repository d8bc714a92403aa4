/**
 * JSON as a tree whose values can be changed in place: order, repeated keys and the spelling of numbers are kept.
 *
 * The text of a log entry is a tree inside a string, as long as the tree gives that very text: its bytes are hashed.
 */

export interface Text {
  readonly kind: "string";
  value: string;
  /** What the string itself holds, where that is an object in its one canonical spelling. */
  inner: Member | null;
}
/** A number, true, false or null as it is spelt; after a change whatever was typed. */
export interface Raw {
  readonly kind: "raw";
  value: string;
}
export interface List {
  readonly kind: "array";
  readonly items: Tree[];
}
export interface Member {
  readonly kind: "object";
  readonly members: { readonly key: string; readonly value: Tree }[];
}
export type Tree = Text | Raw | List | Member;

const MAX_DEPTH = 64;
const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null/y;
const STRING = /"[^"\\\u0000-\u001f]*(?:\\.[^"\\\u0000-\u001f]*)*"/y;
const SPACE = /[ \t\n\r]*/y;

/** The tree of a JSON text. Throws SyntaxError. */
export function parse(text: string): Tree {
  let at = 0;
  const take = (pattern: RegExp): string | null => {
    pattern.lastIndex = at;
    const found = pattern.exec(text)?.[0] ?? null;
    at += found?.length ?? 0;
    return found;
  };
  const fail = (): never => {
    throw new SyntaxError(`no JSON at character ${at}`);
  };
  const symbol = (wanted: string): boolean => {
    take(SPACE);
    if (text[at] !== wanted) {
      return false;
    }
    at += 1;
    return true;
  };
  const string = (): string => JSON.parse(take(STRING) ?? fail()) as string;
  const list = (end: string, item: () => void): void => {
    if (symbol(end)) {
      return;
    }
    do {
      item();
    } while (symbol(","));
    if (!symbol(end)) {
      fail();
    }
  };
  const value = (depth: number): Tree => {
    if (depth > MAX_DEPTH) {
      fail();
    }
    if (symbol("{")) {
      const members: Member["members"] = [];
      list("}", () => {
        take(SPACE);
        const key = string();
        members.push(symbol(":") ? { key, value: value(depth + 1) } : fail());
      });
      return { kind: "object", members };
    }
    if (symbol("[")) {
      const items: Tree[] = [];
      list("]", () => items.push(value(depth + 1)));
      return { kind: "array", items };
    }
    if (text[at] === '"') {
      return { kind: "string", value: string(), inner: null };
    }
    return { kind: "raw", value: take(SCALAR) ?? fail() };
  };
  const tree = value(0);
  take(SPACE);
  return at === text.length ? tree : fail();
}

/** The text of a tree, without white space outside strings. */
export function spell(tree: Tree): string {
  const parts: string[] = [];
  const put = (node: Tree): void => {
    if (node.kind === "string") {
      parts.push(JSON.stringify(node.inner === null ? node.value : spell(node.inner)));
    } else if (node.kind === "raw") {
      parts.push(node.value);
    } else if (node.kind === "array") {
      node.items.forEach((item, place) => {
        parts.push(place === 0 ? "[" : ",");
        put(item);
      });
      parts.push(node.items.length === 0 ? "[]" : "]");
    } else {
      node.members.forEach(({ key, value }, place) => {
        parts.push(place === 0 ? "{" : ",", JSON.stringify(key), ":");
        put(value);
      });
      parts.push(node.members.length === 0 ? "{}" : "}");
    }
  };
  put(tree);
  return parts.join("");
}

/** Look into a string: its inner tree, once, if it has one. */
export function lookInto(text: Text): Member | null {
  if (text.inner === null && text.value.startsWith("{")) {
    try {
      const tree = parse(text.value);
      text.inner = tree.kind === "object" && spell(tree) === text.value ? tree : null;
    } catch {
      // a string like any other
    }
  }
  return text.inner;
}

export function member(tree: Tree | undefined, key: string): Tree | undefined {
  return tree?.kind === "object" ? tree.members.find((found) => found.key === key)?.value : undefined;
}

/** The text of a string; undefined for everything else. */
export function stringOf(tree: Tree | undefined): string | undefined {
  return tree?.kind === "string" ? tree.value : undefined;
}
