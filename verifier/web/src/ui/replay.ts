/** Records of other systems: what they look like, what comes out, and what that does not prove. */
import { type Option, type Replay, type Row, type System, systems, type Value } from "../systems/index.ts";
import { add, button, type Child, el, foreign, some } from "./dom.ts";
import type { Engine } from "./engine.ts";
import { TEXT } from "./text.ts";

export class Systems {
  readonly element = el("details", { class: "card systems", id: "systems" }, el("summary", {}, TEXT.systems));
  private readonly choice = el("select", { id: "system" }, ...systems.map(({ name, title }) => el("option", { value: name }, title)));
  private readonly record = el("textarea", { id: "record", rows: 8, spellcheck: "false", autocapitalize: "off", class: "code" });
  private readonly about = el("div", { class: "about-system" });
  private readonly options = el("div", { class: "replay-options" });
  private readonly answer = el("div", { id: "replayed", "aria-live": "polite" });

  constructor(private readonly engine: Engine) {
    this.choice.addEventListener("change", () => this.show());
    add(
      this.element,
      el(
        "div",
        { class: "folded" },
        el("p", {}, TEXT.systemsLead),
        el("div", { class: "field" }, el("label", { for: "system" }, TEXT.system), this.choice),
        this.about,
        this.options,
        el("div", { class: "field" }, el("label", { for: "record" }, TEXT.record), this.record),
        el(
          "p",
          { class: "row" },
          button(TEXT.replay, () => void this.replay(), { id: "replay", class: "primary" }),
          button(TEXT.example, () => {
            this.record.value = this.system.example;
            this.answer.replaceChildren();
          }, { id: "example" }),
        ),
        this.answer,
      ),
    );
    this.show();
  }

  /** Take a record that names its system, if it does, and replay it. */
  take(bytes: Uint8Array): boolean {
    const text = new TextDecoder().decode(bytes);
    let named: unknown;
    try {
      named = (JSON.parse(text) as { system?: unknown } | null)?.system;
    } catch {
      return false;
    }
    const found = systems.find(({ name }) => name === named);
    if (found === undefined) {
      return false;
    }
    this.choice.value = found.name;
    this.show();
    this.record.value = text;
    this.element.open = true;
    this.element.scrollIntoView();
    void this.replay();
    return true;
  }

  private get system(): System {
    return systems[this.choice.selectedIndex] as System;
  }

  private show(): void {
    const { about, record, proves, doesNotProve, options } = this.system;
    this.answer.replaceChildren();
    this.about.replaceChildren(
      el("p", {}, about),
      el("p", { class: "hint" }, TEXT.recordFields),
      el("pre", { class: "code format" }, record.join("\n")),
      el("p", {}, el("strong", {}, `${TEXT.proves}: `), `${proves}.`),
      el("p", {}, el("strong", {}, `${TEXT.provesNot}:`)),
      el("ul", { class: "bullets" }, ...doesNotProve.map((one) => el("li", {}, `${one}.`))),
    );
    this.options.replaceChildren(...options.map(option));
  }

  private async replay(): Promise<void> {
    const given = [...this.options.querySelectorAll<HTMLInputElement | HTMLSelectElement>("[name]")];
    const options = Object.fromEntries(given.map(({ name, value }) => [name, value]));
    try {
      const found = await this.engine.call("replay", [this.system.name, this.record.value, options]);
      this.answer.replaceChildren(replayed(found));
    } catch (error) {
      this.answer.replaceChildren(el("p", { class: "trouble" }, TEXT.broke(String(error))));
    }
  }
}

function option({ name, about, values, default: preset }: Option): HTMLElement {
  const id = `option-${name}`;
  const input =
    values.length > 0
      ? el("select", { id, name }, ...values.map((value) => el("option", { value, selected: value === preset }, value)))
      : el("input", { id, name, type: "text", spellcheck: "false", value: preset });
  return el("div", { class: "field" }, el("label", { for: id }, name), el("span", { class: "hint" }, about), input);
}

function replayed({ ok, code, message, reading, rows }: Replay): HTMLElement {
  const tone = ok === null ? "unusable" : ok ? "fair" : "failed";
  const used = Object.entries(reading);
  return el(
    "div",
    { class: "replayed", "data-ok": String(ok) },
    el(
      "div",
      { class: `headline ${tone}` },
      el("p", { class: "tone" }, ok === null ? TEXT.noRecord(code ?? "") : ok ? TEXT.agrees : TEXT.differs),
      el("p", {}, foreign(message)),
    ),
    used.length > 0 && el("p", { class: "hint" }, `${TEXT.reading}: `, foreign(used.map(([name, value]) => `${name} ${value}`).join(", "))),
    rows.length > 0 && table(rows),
  );
}

function table(rows: readonly Row[]): HTMLElement {
  const body = el("tbody");
  const first = rows.findIndex((row) => !row.ok);
  some(body, first > 50 ? [rows[first] as Row, ...rows] : rows, line, 50);
  return el(
    "table",
    { class: "rows" },
    el("thead", {}, el("tr", {}, ...TEXT.rowTitles.map((title) => el("th", { scope: "col" }, title)))),
    body,
  );
}

function line({ what, expected, found, ok }: Row): HTMLElement {
  const cell = (value: Value): Child => foreign(typeof value === "string" ? value : JSON.stringify(value), { class: "code" });
  return el(
    "tr",
    { class: ok ? "agrees" : "differs" },
    el("th", { scope: "row" }, el("span", { class: `sign ok-${ok}`, role: "img", "aria-label": ok ? TEXT.agrees : TEXT.differs }, ok ? "✓" : "✕"), foreign(what)),
    el("td", { "data-title": TEXT.rowTitles[1] }, cell(expected)),
    el("td", { "data-title": TEXT.rowTitles[2] }, ok ? TEXT.same : cell(found)),
  );
}
