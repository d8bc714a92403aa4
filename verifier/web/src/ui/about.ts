/** What the file is trusted for, and how to check the file itself. */
import type { Engine } from "./engine.ts";
import { add, copyable, el, folded } from "./dom.ts";
import { TEXT } from "./text.ts";

declare const VERSION: string;

const SLOT = '<script type="application/json" id="document">';
const SCRIPT = /<script id="program">([\s\S]*?)<\/script>/;

export function about(engine: Engine, program: string): HTMLElement {
  return el(
    "section",
    { class: "card about" },
    folded([TEXT.about], (body) => {
      const hash = el("div", {});
      add(
        body,
        ...TEXT.aboutText.map((text) => el("p", {}, text)),
        el("h3", {}, TEXT.self),
        ...TEXT.selfText.map((text) => el("p", {}, text)),
        el("p", { class: "hint" }, `${TEXT.program}:`),
        hash,
        el("p", { class: "hint" }, TEXT.version(VERSION)),
      );
      void engine.call("digest", [new TextEncoder().encode(program)]).then((digest) => {
        hash.replaceChildren(copyable(digest, TEXT.program));
      });
    }),
  );
}

export function isPage(bytes: Uint8Array): boolean {
  return new TextDecoder().decode(bytes.subarray(0, 15)).toLowerCase() === "<!doctype html>";
}

/** What a saved copy of this page is: its hash, that of the plain file, and whether its script is ours. */
export async function savedPage(engine: Engine, bytes: Uint8Array, program: string): Promise<HTMLElement> {
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  const at = text.indexOf(`\n${SLOT}`) + 1;
  const end = text.indexOf("</script>", at);
  const plain = at > 0 && end > at ? text.slice(0, at + SLOT.length) + text.slice(end) : text;
  const same = SCRIPT.exec(text)?.[1] === program;
  const whole = await engine.call("digest", [bytes]);
  const emptied = await engine.call("digest", [new TextEncoder().encode(plain)]);
  return el(
    "section",
    { class: "card" },
    el("h2", { id: "headline", tabindex: -1 }, TEXT.selfFile),
    el(
      "dl",
      { class: "facts" },
      el("dt", {}, TEXT.selfHash),
      el("dd", { id: "file-hash" }, copyable(whole, TEXT.selfHash)),
      el("dt", {}, TEXT.selfPlain),
      el("dd", { id: "plain-hash" }, copyable(emptied, TEXT.selfPlain)),
    ),
    el("p", {}, same ? TEXT.selfSame : TEXT.selfOther),
    el("p", { class: "hint" }, ...TEXT.selfText.slice(0, 1)),
  );
}
