/** Every operation of the check with its bytes, so that it can be redone with other tools. */
import { CLAIMS, type ClaimName, type Step, type Value } from "../api.ts";
import { add, button, type Child, copyable, el, folded, foreign, some } from "./dom.ts";
import { TEXT } from "./text.ts";

const SIGN = { true: "✓", false: "✕", null: "·" } as const;

export function steps(all: readonly Step[], openEntry: (index: number) => void): HTMLElement {
  if (all.length === 0) {
    return el("p", {}, TEXT.stepsNone);
  }
  const list = el("ol", { class: "steps" });
  const show = (claim: string): void => {
    list.replaceChildren();
    const chosen = claim === "" ? all : all.filter((step) => step.claim === claim);
    some(list, chosen, (step) => el("li", {}, one(step, openEntry)), 50);
  };
  const has = new Set<ClaimName>(all.map((step) => step.claim));
  const choice = el(
    "select",
    { on: { change: () => show(choice.value) } },
    el("option", { value: "" }, TEXT.everyClaim),
    ...CLAIMS.filter((claim) => has.has(claim)).map((claim) => el("option", { value: claim }, `${claim}: ${TEXT.questions[claim]}`)),
  );
  show("");
  return el(
    "div",
    {},
    el("p", { class: "row" }, el("label", {}, `${TEXT.filter} `, choice), el("span", { class: "hint" }, TEXT.stepsOf(all.length))),
    list,
  );
}

function one(step: Step, openEntry: (index: number) => void): HTMLElement {
  const sign = String(step.ok) as keyof typeof SIGN;
  const holds = { true: TEXT.stepHolds, false: TEXT.stepFails, null: TEXT.stepPlain }[sign];
  const summary = [
    el("span", { class: `sign ok-${sign}`, role: "img", "aria-label": holds, title: holds }, SIGN[sign]),
    foreign(step.title, { class: "title" }),
    el("span", { class: "rule" }, TEXT.rule(step.rule)),
  ];
  return folded(
    summary,
    (body) => {
      add(
        body,
        el("p", { class: "operation" }, foreign(step.operation, { class: "code" })),
        el("dl", { class: "values" }, ...step.inputs.flatMap((input) => value(input, input.name))),
        el("dl", { class: "values result" }, ...value(step.result, `${TEXT.stepResult}: ${step.result.name}`)),
        el("p", { class: `hint ok-${sign}` }, holds, " "),
        step.entryIndex !== null &&
          button(TEXT.entry(step.entryIndex), () => openEntry(step.entryIndex as number), { class: "quiet" }),
      );
    },
    { class: "step", "data-step": step.id },
  );
}

function value(given: Value, title: string): Child[] {
  const hex = "hex" in given;
  const text = hex ? given.hex : given.text;
  return [
    el("dt", {}, foreign(title), hex && el("span", { class: "hint" }, ` ${TEXT.bytes(text.length / 2)}`)),
    el("dd", {}, copyable(text, given.name)),
  ];
}
