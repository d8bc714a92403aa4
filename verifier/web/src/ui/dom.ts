/** Elements without markup: whatever a file says becomes text nodes, with what cannot be seen made visible. */
import { TEXT } from "./text.ts";

export type Child = Node | string | null | false | undefined;
type Listeners = { [K in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[K]) => void };
interface Properties {
  readonly class?: string;
  readonly id?: string;
  readonly on?: Listeners;
  readonly [attribute: string]: string | boolean | number | Listeners | undefined;
}

/** A new element. Attributes that are true are there, those that are false or undefined are not. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Properties = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "on") {
      for (const [type, listener] of Object.entries(value as Listeners)) {
        element.addEventListener(type, listener as EventListener);
      }
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== false && value !== undefined) {
      element.setAttribute(name, String(value));
    }
  }
  add(element, ...children);
  return element;
}

export function add(parent: Node, ...children: Child[]): void {
  for (const child of children) {
    if (child !== null && child !== false && child !== undefined) {
      parent.appendChild(typeof child === "string" ? document.createTextNode(child) : child);
    }
  }
}

export function button(label: Child, action: () => void, properties: Properties = {}): HTMLButtonElement {
  return el("button", { type: "button", ...properties, on: { click: action } }, label);
}

/** A part that is filled when it is first opened. */
export function folded(
  summary: Child[],
  fill: (body: HTMLElement) => void,
  properties: Properties & { readonly open?: boolean } = {},
): HTMLDetailsElement {
  const body = el("div", { class: "folded" });
  let filled = false;
  const open = (): void => {
    if (!filled) {
      filled = true;
      fill(body);
    }
  };
  const details = el("details", properties, el("summary", {}, ...summary), body);
  details.addEventListener("toggle", () => {
    if (details.open) {
      open();
    }
  });
  if (properties.open === true) {
    open();
  }
  return details;
}

/** Items a hundred at a time: the next ones come with a button, or with the function that is returned, while it is true. */
export function some<T>(
  parent: HTMLElement,
  items: readonly T[],
  make: (item: T, place: number) => Child,
  size = 100,
): () => boolean {
  let shown = 0;
  const more = button("", () => next(true), { class: "quiet" });
  const row = wrapped(parent, more);
  const next = (asked: boolean): void => {
    const rows = items.slice(shown, shown + size).map((item, place) => make(item, shown + place));
    shown += rows.length;
    const first = rows.find((row) => row instanceof HTMLElement);
    row.remove();
    add(parent, ...rows);
    if (shown < items.length) {
      more.textContent = TEXT.more(Math.min(size, items.length - shown), items.length - shown);
      add(parent, row);
    }
    if (asked && first instanceof HTMLElement) {
      first.tabIndex = -1;
      first.focus();
    }
  };
  next(false);
  return () => {
    const left = shown < items.length;
    if (left) {
      next(false);
    }
    return left;
  };
}

/** What may stand where the items stand. */
function wrapped(parent: HTMLElement, child: HTMLElement): HTMLElement {
  switch (parent.tagName) {
    case "TBODY":
      return el("tr", {}, el("td", { colspan: 3 }, child));
    case "UL":
    case "OL":
      return el("li", {}, child);
    default:
      return child;
  }
}

/** Controls, marks of direction, what has no width, lone surrogates: what no reader sees, and what turns a line around. */
const UNSEEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}]|\p{Cs}/gu;
const LONG = 600;

export function unseen(text: string): boolean {
  return text.search(UNSEEN) >= 0;
}

/** What somebody else wrote, kept apart from our own words: isolated, with every unseen character named. */
export function foreign(text: string, properties: Properties = {}): HTMLElement {
  const node = el("bdi", { ...properties, class: `foreign ${properties.class ?? ""}`.trim() });
  const short = text.length <= LONG * 1.5 ? text : text.slice(0, LONG);
  add(node, ...visible(short));
  if (short.length < text.length) {
    const rest = button(
      TEXT.whole(text.length),
      () => {
        node.replaceChildren(...visible(text));
      },
      { class: "quiet" },
    );
    add(node, "… ", rest);
  }
  return node;
}

function visible(text: string): Node[] {
  const nodes: Node[] = [];
  let from = 0;
  for (const found of text.matchAll(UNSEEN)) {
    nodes.push(document.createTextNode(text.slice(from, found.index)));
    const code = found[0].codePointAt(0) ?? 0;
    nodes.push(el("span", { class: "unseen" }, `U+${code.toString(16).toUpperCase().padStart(4, "0")}`));
    from = found.index + found[0].length;
  }
  nodes.push(document.createTextNode(text.slice(from)));
  return nodes;
}

/** Bytes in hex or other text to be taken elsewhere, with a button that copies it. */
export function copyable(text: string, label: string): HTMLElement {
  const code = foreign(text, { class: "code" });
  const said = el("span", { class: "said", role: "status" });
  const copy = button(
    TEXT.copy,
    () => {
      const select = (): void => {
        getSelection()?.selectAllChildren(code);
        said.textContent = TEXT.selected;
      };
      if (navigator.clipboard === undefined) {
        select();
        return;
      }
      navigator.clipboard.writeText(text).then(() => {
        said.textContent = TEXT.copied;
      }, select);
    },
    { class: "quiet", "aria-label": TEXT.copyWhat(label) },
  );
  return el("span", { class: "copyable" }, code, el("span", { class: "copy" }, copy, said));
}

const SVG = "http://www.w3.org/2000/svg";
const PIPS: readonly (readonly [number, number])[][] = [
  [[2, 2]],
  [[1, 1], [3, 3]],
  [[1, 1], [2, 2], [3, 3]],
  [[1, 1], [1, 3], [3, 1], [3, 3]],
  [[1, 1], [1, 3], [2, 2], [3, 1], [3, 3]],
  [[1, 1], [1, 2], [1, 3], [3, 1], [3, 2], [3, 3]],
];

/** The picture of a die, 1 to 6. */
export function die(value: number): SVGElement {
  const shape = (name: string, attributes: Record<string, string | number>): SVGElement => {
    const element = document.createElementNS(SVG, name) as SVGElement;
    for (const [key, given] of Object.entries(attributes)) {
      element.setAttribute(key, String(given));
    }
    return element;
  };
  const picture = shape("svg", { viewBox: "0 0 4 4", class: "die", role: "img", "aria-label": value });
  picture.append(shape("rect", { x: 0.15, y: 0.15, width: 3.7, height: 3.7, rx: 0.7 }));
  for (const [x, y] of PIPS[value - 1] ?? []) {
    picture.append(shape("circle", { cx: x, cy: y, r: 0.36 }));
  }
  return picture;
}
