/** The document as values that can be changed in place, beside a list of what was changed. */
import { add, button, type Child, el, folded, foreign, some, unseen } from "./dom.ts";
import { type List, lookInto, member, type Member, parse, type Raw, spell, stringOf, type Text, type Tree } from "./json.ts";
import { TEXT } from "./text.ts";

interface Change {
  readonly path: string;
  readonly from: string;
  /** What is there now; null where an entry was removed. */
  to: string | null;
  readonly undo: () => void;
}

const SHORT = 48;
const SHOWN = 120;

export class Editor {
  readonly element = el("div", { class: "editor" });
  private tree: Tree | null = null;
  private readonly changes = new Map<object, Change>();
  private readonly list = el("div", { class: "list" });
  private readonly echo = el("div", { role: "status" });
  private readonly box = el("div", { class: "changes" }, this.list, this.echo);
  private readonly entries = new Map<number, () => HTMLElement | null>();
  private showMore: () => boolean = () => false;

  /** changed(bytes): a copy of the document that differs, or null when it is the one that was opened again. */
  constructor(
    private readonly text: string,
    private readonly changed: (document: Uint8Array<ArrayBuffer> | null) => void,
  ) {
    this.reset();
  }

  /** Open the entry of a log index and go there. */
  open(index: number): void {
    while (!this.entries.has(index) && this.showMore()) {
      // the next events
    }
    const field = this.entries.get(index)?.();
    field?.scrollIntoView({ block: "center" });
    field?.focus();
  }

  /** Say here too what became of a changed copy; null for the document as it was opened. */
  judged(answer: HTMLElement | null): void {
    this.echo.replaceChildren(...(answer === null ? [] : [answer]));
  }

  private reset(): void {
    this.changes.clear();
    this.entries.clear();
    try {
      this.tree = parse(this.text);
    } catch {
      this.tree = null;
      this.element.replaceChildren(el("p", {}, TEXT.documentWhole));
      return;
    }
    const body = el("div", { class: "tree" });
    this.element.replaceChildren(this.box, body);
    this.fill(body, this.tree, "");
    this.say();
  }

  private tell(): void {
    this.say();
    const tree = this.tree;
    this.changed(this.changes.size === 0 || tree === null ? null : new TextEncoder().encode(spell(tree)));
  }

  private say(): void {
    const count = this.changes.size;
    this.list.replaceChildren();
    if (count === 0) {
      add(this.list, el("p", { class: "hint" }, TEXT.noChanges));
      return;
    }
    const rows = el("ul", {});
    some(rows, [...this.changes.values()], ({ path, from, to, undo }) => {
      const values: Child[] =
        to === null
          ? [` ${TEXT.removed} `]
          : [` ${TEXT.from} `, foreign(clipped(from), { class: "code" }), ` ${TEXT.to} `, foreign(clipped(to), { class: "code" }), " "];
      return el("li", {}, foreign(path, { class: "path" }), ...values, button(TEXT.undo, undo, { class: "quiet", "aria-label": `${TEXT.undo}: ${path}` }));
    });
    add(
      this.list,
      el(
        "p",
        { class: "row" },
        el("strong", {}, TEXT.changes(count)),
        button(TEXT.reset, () => {
          this.reset();
          this.tell();
        }),
        button(TEXT.save, () => this.save(), { class: "quiet" }),
      ),
      rows,
    );
  }

  private save(): void {
    if (this.tree !== null) {
      const url = URL.createObjectURL(new Blob([spell(this.tree)], { type: "application/json" }));
      el("a", { href: url, download: TEXT.saved }).click();
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
    }
  }

  private fill(body: HTMLElement, tree: Tree, path: string): void {
    if (tree.kind === "object") {
      some(body, tree.members, ({ key, value }) => this.row(key, value, path === "" ? key : `${path}.${key}`));
    } else if (tree.kind === "array") {
      const events = path === "events";
      const showMore = some(body, tree.items, (item, place) =>
        events ? this.event(tree, item, place) : this.row(String(place), item, `${path}[${place}]`),
      );
      this.showMore = events ? showMore : this.showMore;
    }
  }

  private row(name: string, value: Tree, path: string): HTMLElement {
    if (value.kind === "string" || value.kind === "raw") {
      return this.leaf(name, value, path);
    }
    const count = value.kind === "array" ? TEXT.items(value.items.length) : TEXT.fields(value.members.length);
    const summary = [foreign(name, { class: "key" }), el("span", { class: "count" }, count)];
    return folded(summary, (body) => this.fill(body, value, path), { open: path === "events", class: "branch" });
  }

  /** An event: its entry field by field, then its proof and exact text. */
  private event(events: List, event: Tree, place: number): HTMLElement {
    const entry = member(event, "entry");
    const inner = entry?.kind === "string" ? lookInto(entry) : null;
    const index = member(event, "index");
    const number = index?.kind === "raw" ? index.value : String(place);
    const type = stringOf(member(inner ?? undefined, "type"));
    if (entry?.kind !== "string" || inner === null || type === undefined) {
      return this.row(String(place), event, `events[${place}]`);
    }
    const path = `entry ${number}`;
    let first: HTMLElement | null = null;
    const details = folded(
      [el("span", { class: "key" }, TEXT.entryTitle(number, "")), foreign(type, { class: "key" }), ...digest(inner)],
      (body) => {
        this.fill(body, inner, path);
        first = body.querySelector("input, textarea, summary");
        add(body, this.rest(event, entry, place));
        add(body, button(TEXT.remove, () => this.remove(events, event, details, path), { class: "quiet" }));
      },
      { class: "branch event" },
    );
    if (index?.kind === "raw") {
      this.entries.set(Number(index.value), () => {
        details.open = true;
        details.dispatchEvent(new Event("toggle"));
        return first;
      });
    }
    return details;
  }

  private rest(event: Tree, entry: Text, place: number): HTMLElement {
    return folded([TEXT.exact], (body) => {
      const others = event.kind === "object" ? event.members.filter(({ value }) => value !== entry) : [];
      add(body, el("p", { class: "code exact" }, foreign(entry.inner === null ? entry.value : spell(entry.inner))));
      add(body, ...others.map(({ key, value }) => this.row(key, value, `events[${place}].${key}`)));
    }, { class: "branch" });
  }

  private remove(events: List, event: Tree, details: HTMLElement, path: string): void {
    const place = events.items.indexOf(event);
    events.items.splice(place, 1);
    details.hidden = true;
    this.changes.set(event, {
      path,
      from: "",
      to: null,
      undo: () => {
        events.items.splice(Math.min(place, events.items.length), 0, event);
        details.hidden = false;
        this.changes.delete(event);
        this.tell();
      },
    });
    this.tell();
    this.list.querySelector("button")?.focus();
  }

  private leaf(name: string, leaf: Text | Raw, path: string): HTMLElement {
    const quoted = leaf.kind === "string" && unseen(leaf.value.replaceAll("\n", ""));
    const show = (): string => (quoted ? ascii(leaf.value) : leaf.value);
    const started = leaf.value;
    const long = show().length > SHORT || show().includes("\n");
    const field = long
      ? el("textarea", { rows: Math.min(6, Math.ceil(show().length / 60)), spellcheck: "false" })
      : el("input", { type: "text", spellcheck: "false", autocomplete: "off", autocapitalize: "off" });
    field.dir = "ltr";
    field.value = show();
    field.classList.add("value", leaf.kind);
    const trouble = el("span", { class: "trouble", role: "alert" });
    const row = el("label", { class: "leaf", "data-path": path }, foreign(name, { class: "key" }), field, trouble);
    const set = (value: string): void => {
      leaf.value = value;
      const same = value === started;
      row.classList.toggle("changed", !same);
      if (same) {
        this.changes.delete(leaf);
      } else {
        this.changes.set(leaf, { path, from: started, to: value, undo });
      }
      this.tell();
    };
    const undo = (): void => {
      field.value = quoted ? ascii(started) : started;
      set(started);
    };
    field.addEventListener("change", () => {
      const value = quoted ? fromAscii(field.value) : field.value;
      trouble.textContent = value === null ? TEXT.notJson : "";
      field.setAttribute("aria-invalid", String(value === null));
      if (value !== null && value !== leaf.value) {
        set(value);
      }
    });
    return row;
  }
}

/** What a folded entry is about, in a few words of its own. */
function digest(entry: Member): Child[] {
  const words = ["participant", "recipe", "n", "purpose", "outcomes", "round", "by", "reason", "label"]
    .map((key) => member(entry, key))
    .filter((value) => value !== undefined)
    .map((value) => (value.kind === "string" ? value.value : spell(value)))
    .filter((word) => word !== "")
    .join(" · ");
  return words === "" ? [] : [foreign(clipped(words), { class: "hint" })];
}

function clipped(text: string): string {
  return text.length <= SHOWN ? text : `${text.slice(0, SHOWN)}…`;
}

/** A string as JSON with nothing but visible ASCII. */
function ascii(text: string): string {
  const escape = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(text).replace(/[^ -~]/g, escape);
}

function fromAscii(text: string): string | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "string" ? value : null;
  } catch {
    return null;
  }
}
