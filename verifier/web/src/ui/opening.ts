/** A seed that is sealed to a round: the fields that open it, and what comes out. */
import type { OpenAnswer, OpenedDraw, Opening, OpenOptions, Unusable } from "../api.ts";
import { button, type Child, copyable, el, foreign, some } from "./dom.ts";
import { Cancelled } from "./engine.ts";
import { TEXT } from "./text.ts";
import { outcome } from "./verdict.ts";

type Open = (options: OpenOptions) => Promise<OpenAnswer | Unusable>;
type IsDice = (recipe: string) => boolean;

/**
 * `dice`: whether a recipe is dice of six sides, so that pictures can be shown. `typed`: what was typed into the fields,
 * by their ids, and is there again when they are shown anew.
 */
export function opening(what: Opening, open: Open, dice: IsDice, typed: Map<string, string>): HTMLElement {
  const { round, rounds, recipes, shown, chain } = what;
  const due = new Date(what.due_at).toUTCString();
  const answer = el("div", { id: "opened", "aria-live": "polite" });
  const own = shown ? null : signatureField("round-signature", TEXT.openingRound(round));
  const needed = rounds.map((one) => ({ round: one, field: signatureField(`signature-of-${one}`, TEXT.openingNeeded(one)) }));
  const counts = Object.entries(recipes ?? {}).map(([name, count], i) => ({ name, field: countField(i, name, count) }));
  for (const field of [own, ...needed.map((one) => one.field), ...counts.map((one) => one.field)]) {
    if (field !== null) {
      field.value = typed.get(field.id) ?? field.value;
      field.addEventListener("input", () => typed.set(field.id, field.value));
    }
  }
  const asked = (): OpenOptions => ({
    ...(own === null || own.value.trim() === "" ? {} : { signature: signatureIn(own.value) }),
    signatures: Object.fromEntries(
      needed.filter(({ field }) => field.value.trim() !== "").map(({ round: one, field }) => [one, signatureIn(field.value)]),
    ),
    draws: Object.fromEntries(counts.map(({ name, field }) => [name, Number(field.value)])),
  });
  const start = async (): Promise<void> => {
    answer.replaceChildren(TEXT.checking);
    try {
      answer.replaceChildren(opened(await open(asked()), dice));
    } catch (error) {
      answer.replaceChildren(error instanceof Cancelled ? TEXT.stopped : TEXT.broke(String(error)));
    }
  };
  return el(
    "section",
    { class: "card opening", id: "opening" },
    el("h3", {}, TEXT.opening),
    el("p", {}, foreign(TEXT.openingLead(round, chain.name, due))),
    ...(own === null
      ? [el("p", {}, TEXT.openingShown(round))]
      : [
          el("p", { class: "hint" }, TEXT.openingWhere),
          el("p", {}, copyable(`/${chain.hash}/public/${round}`, TEXT.openingRound(round))),
          labelled(own, TEXT.openingRound(round)),
        ]),
    ...needed.map(({ round: one, field }) => labelled(field, TEXT.openingNeeded(one))),
    counts.length > 0 && el("p", {}, TEXT.openingDrawsLead),
    ...counts.map(({ name, field }) => labelled(field, TEXT.openingDraws(name))),
    el("p", { class: "row" }, button(TEXT.openingDo, () => void start(), { id: "open-seed", class: "primary" })),
    answer,
  );
}

function signatureField(id: string, title: string): HTMLTextAreaElement {
  return el("textarea", { id, rows: 2, spellcheck: "false", autocapitalize: "off", autocomplete: "off", class: "code", title });
}

function countField(place: number, recipe: string, count: number): HTMLInputElement {
  return el("input", { id: `count-${place}`, type: "number", min: count, max: 10_000, value: count, "data-recipe": recipe });
}

function labelled(field: HTMLElement, title: string): Child {
  return el("div", { class: "field" }, el("label", { for: field.id }, foreign(title)), field);
}

/** The signature in a relay's answer, or the text itself. */
function signatureIn(text: string): string {
  return /"signature"\s*:\s*"([^"]*)"/.exec(text)?.[1] ?? text.trim().toLowerCase();
}

function opened(answer: OpenAnswer | Unusable, dice: IsDice): HTMLElement {
  if ("code" in answer) {
    return el("div", { class: "headline unusable", "data-refused": answer.code }, el("p", {}, foreign(answer.message)));
  }
  const { headline, exit, seed, draws = [], log_verified: verified } = answer;
  const tone = (["fair", "failed", "undecided"] as const)[exit];
  return el(
    "div",
    { class: "opened", "data-exit": exit },
    el("div", { class: `headline ${tone}` }, el("p", { class: "tone" }, TEXT.opened[exit]), el("h3", {}, foreign(headline))),
    verified === false && el("p", {}, TEXT.openedAlone),
    seed !== undefined && el("p", {}, copyable(seed, TEXT.facts.seed)),
    draws.length > 0 && table(draws, dice),
  );
}

function table(draws: readonly OpenedDraw[], dice: IsDice): HTMLElement {
  const body = el("tbody");
  some(body, draws, (draw) => line(draw, dice), 100);
  const [draw, ...others] = TEXT.openedTitles;
  return el(
    "section",
    { class: "drawn" },
    el("h3", {}, TEXT.openedDraws, el("span", { class: "count" }, String(draws.length))),
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, draw), ...others.map((title) => el("th", { scope: "col" }, title)))),
      body,
    ),
  );
}

function line({ recipe, n, purpose, outcome: value, transcript, same, why }: OpenedDraw, dice: IsDice): HTMLElement {
  const published = transcript === null ? TEXT.openedNever : same === true ? TEXT.openedSame : null;
  return el(
    "tr",
    { "data-draw": `${recipe} ${n}`, "data-same": String(same) },
    el("th", { scope: "row" }, foreign(recipe), ` ${n}`, purpose !== "" && el("span", { class: "hint" }, " ", foreign(purpose))),
    value === null
      ? el("td", {}, TEXT.openedNot, ": ", foreign(why))
      : el("td", { class: "outcome" }, ...outcome({ recipe, outcome: value }, { dice })),
    el("td", {}, published ?? foreign(JSON.stringify(transcript), { class: "code" })),
  );
}
