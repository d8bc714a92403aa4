/** The answer: one sentence, the claims, what was drawn, what the session was. */
import type { Claim, DrawnOutcome, ReceiptAnswer, SessionFacts, State, Trusted, Unusable, Verdict } from "../api.ts";
import { add, type Child, copyable, die, el, folded, foreign, some, button } from "./dom.ts";
import { TEXT } from "./text.ts";

export type Tone = keyof typeof TEXT.tones;
const TONES: readonly Tone[] = ["fair", "failed", "undecided", "unusable"];
const PROOF: readonly string[] = ["unpredictable", "sole"];
const SIGNS: Record<State, string> = { PROVEN: "✓", TRUSTED: "≈", UNKNOWN: "?", FAILED: "✕" };

export interface Context {
  /** The claims of the document as it was opened, where a changed copy is judged. */
  readonly before: readonly Claim[] | null;
  /** Whether a recipe is dice of six sides, so that pictures can be shown. */
  readonly dice: (recipe: string) => boolean;
  readonly openEntry: (index: number) => void;
}

/** The one sentence of a verdict. */
export function headline(answer: Verdict, changed: boolean): HTMLElement {
  const believed = answer.exit === 0 && answer.claims.some(({ claim, state }) => PROOF.includes(claim) && state !== "PROVEN");
  return banner(answer.headline, believed ? "believed" : (TONES[answer.exit] ?? "undecided"), changed);
}

function banner(sentence: string, tone: Tone, changed: boolean): HTMLElement {
  return el(
    "div",
    { class: `headline ${tone}` },
    el("p", { class: "tone" }, TEXT.tones[tone], changed && ` · ${TEXT.changedCopy}`),
    el("h2", { id: "headline", tabindex: -1 }, foreign(sentence)),
  );
}

/** What a change did, in short: the sentence, and the claims that are no longer what they were. */
export function consequence(answer: Verdict | Unusable, before: readonly Claim[] | null): HTMLElement {
  const tone = TONES[answer.exit] ?? "undecided";
  if ("code" in answer) {
    return el("p", { class: `echo ${tone}` }, el("strong", {}, `${TEXT.unusable}: `), foreign(answer.message));
  }
  const moved = answer.claims.filter(({ claim, state }) => before?.some((was) => was.claim === claim && was.state !== state));
  return el(
    "div",
    { class: `echo ${tone}` },
    el("p", {}, el("strong", {}, moved.length === 0 ? TEXT.sameClaims : `${TEXT.tones[tone]}.`), " "),
    el("ul", {}, ...moved.map(({ claim, state, text }) => el("li", {}, badge(state), " ", el("code", { class: "name" }, claim), " ", foreign(text)))),
  );
}

export function unusable(answer: Unusable, changed: boolean): HTMLElement {
  const box = banner(TEXT.unusable, "unusable", changed);
  box.dataset["code"] = answer.code;
  add(box, el("p", {}, foreign(answer.message)), el("p", { class: "hint" }, TEXT.unusableWhy(answer.code)));
  return box;
}

export function verdict(answer: Verdict, context: Context): HTMLElement {
  const box = el("div", { class: "verdict" });
  add(
    box,
    drawn(TEXT.drawn, answer.session?.outcomes ?? [], total(answer.session), context),
    drawn(TEXT.wouldHave, answer.session?.would_have_been ?? [], null, context),
    claims(answer, context),
    answer.remarks.length > 0 &&
      el(
        "section",
        { class: "remarks" },
        el("h3", {}, TEXT.remarks),
        el("ul", {}, ...answer.remarks.map((remark) => el("li", {}, foreign(remark)))),
      ),
    el("p", { class: "unknowable" }, el("strong", {}, `${TEXT.unknowable}: `), answer.unknowable.replace(/^No file can show: /, "")),
    answer.session !== null && folded([TEXT.session], (body) => add(body, facts(answer.session as SessionFacts))),
    folded([TEXT.trusted], (body) => add(body, trusted(answer.trusted))),
  );
  return box;
}

function claims(answer: Verdict, context: Context): HTMLElement {
  const list = el("ol", { class: "claims" });
  for (const claim of answer.claims) {
    const before = context.before?.find(({ claim: name }) => name === claim.claim)?.state;
    add(
      list,
      el(
        "li",
        { class: `claim ${claim.state}`, "data-claim": claim.claim, "data-state": claim.state },
        badge(claim.state),
        el(
          "div",
          { class: "said" },
          el(
            "h4",
            {},
            TEXT.questions[claim.claim],
            " ",
            el("code", { class: "name" }, claim.claim),
            before !== undefined && before !== claim.state && el("span", { class: "was" }, TEXT.was(TEXT.states[before])),
          ),
          el("p", {}, foreign(claim.text)),
          findings(claim, context),
        ),
      ),
    );
  }
  const legend = el(
    "ul",
    { class: "legend" },
    ...TEXT.legend.map(([state, meaning]) => el("li", {}, badge(state), ` ${meaning}`)),
  );
  return el("section", {}, el("h3", {}, TEXT.claims), legend, list);
}

function badge(state: State): HTMLElement {
  return el("span", { class: `badge ${state}` }, el("span", { "aria-hidden": "true" }, SIGNS[state]), TEXT.states[state]);
}

function findings(claim: Claim, context: Context): Child {
  if (claim.findings.length === 0) {
    return null;
  }
  const list = el("ul", { class: "findings" });
  some(
    list,
    claim.findings,
    ({ rule, text, index }) =>
      el(
        "li",
        { "data-rule": rule, "data-index": String(index) },
        el("span", { class: "rule" }, TEXT.rule(rule)),
        index !== null && button(TEXT.entry(index), () => context.openEntry(index), { class: "quiet" }),
        " ",
        foreign(text),
      ),
    20,
  );
  return list;
}

function total(session: SessionFacts | null): number | null {
  return session === null ? null : Object.values(session.draws).reduce((sum, count) => sum + count, 0);
}

function drawn(title: string, rows: readonly DrawnOutcome[], count: number | null, context: Context): Child {
  if (rows.length === 0) {
    return null;
  }
  const purposes = rows.some(({ purpose }) => purpose !== "");
  const body = el("tbody");
  some(
    body,
    rows,
    (row) =>
      el(
        "tr",
        {},
        el("th", { scope: "row" }, foreign(row.recipe), ` ${row.n}`),
        el("td", { class: "outcome" }, ...outcome(row, context)),
        purposes && el("td", {}, foreign(row.purpose)),
      ),
    12,
  );
  return el(
    "section",
    { class: "drawn" },
    el("h3", {}, title, el("span", { class: "count" }, String(count ?? rows.length))),
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, TEXT.draw), el("th", { scope: "col" }, TEXT.outcome), purposes && el("th", { scope: "col" }, TEXT.purpose))),
      body,
    ),
  );
}

/** Pictures of dice where they are some, else the values. */
export function outcome({ recipe, outcome: value }: Pick<DrawnOutcome, "recipe" | "outcome">, context: Pick<Context, "dice">): Child[] {
  if (typeof value === "string") {
    return [foreign(value, { class: "code" })];
  }
  const pictured = context.dice(recipe) && value.length <= 12 && value.every((face) => face >= 1 && face <= 6);
  return pictured ? value.map(die) : [foreign(value.join(", "))];
}

function facts(session: SessionFacts): HTMLElement {
  const list = el("dl", { class: "facts" });
  const row = (name: keyof typeof TEXT.facts, value: Child): void => {
    if (value !== null) {
      add(list, el("dt", {}, TEXT.facts[name]), el("dd", {}, value));
    }
  };
  const bytes = (name: "session" | "replaces" | "session_digest" | "seed" | "binding"): void => {
    const value = session[name];
    row(name, value === null ? null : copyable(value, TEXT.facts[name]));
  };
  row("host", foreign(session.host));
  row("host_seq", String(session.host_seq));
  row("label", session.label === "" ? null : foreign(session.label));
  row("profile", session.profile);
  row("custody", session.custody);
  row("sandbox", session.sandbox ? TEXT.yes : null);
  if (session.absent.length > 0) {
    const absent = el("ul", {});
    some(absent, session.absent, (participant) => el("li", {}, foreign(participant)), 20);
    row("absent", absent);
  }
  bytes("replaces");
  bytes("session");
  bytes("session_digest");
  bytes("seed");
  bytes("binding");
  return list;
}

function trusted(given: Trusted): HTMLElement {
  const names = Object.values(given.chains);
  return el(
    "dl",
    { class: "facts" },
    el("dt", {}, TEXT.trustedKey),
    el("dd", {}, given.log_key === null ? TEXT.none : foreign(given.log_key, { class: "code" })),
    el("dt", {}, TEXT.trustedChains),
    el("dd", {}, foreign(names.join(", "))),
    el("dt", {}, TEXT.trustedPolicy),
    el("dd", {}, given.policy === null ? TEXT.none : foreign(given.policy, { class: "code" })),
  );
}

/** Whether the entry of a receipt is in the transcript. */
export function receiptAnswer(answer: ReceiptAnswer): HTMLElement {
  const log = (title: string, claim: Claim): Child[] => [
    el("dt", {}, title),
    el("dd", {}, badge(claim.state), " ", foreign(claim.text)),
  ];
  return el(
    "section",
    { class: `receipt headline ${TONES[answer.exit]}`, "data-found": answer.found, "data-exit": answer.exit },
    el("p", { class: "tone" }, `${TEXT.receipt}: ${TEXT.found[answer.found]}`),
    el("h3", {}, foreign(answer.headline)),
    answer.field !== null && el("p", { class: "hint" }, foreign(TEXT.receiptField(answer.field))),
    el("dl", { class: "facts" }, ...log(TEXT.receiptLog, answer.receipt_log), ...log(TEXT.transcriptLog, answer.transcript_log)),
  );
}
