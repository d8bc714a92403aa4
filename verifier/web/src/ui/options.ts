/** What the person trusts: the log's key, witnesses, networks, and what counts as good enough. */
import type { CheckOptions, PinnedChain } from "../api.ts";
import { add, button, type Child, el, foreign } from "./dom.ts";
import { TEXT } from "./text.ts";

export class Options {
  readonly element = el("details", { class: "card options" }, el("summary", {}, TEXT.options));
  private readonly keys = area("log-key", 2);
  private readonly policy = area("policy", 4);
  private readonly own = area("own-chain", 3);
  private readonly sandbox = el("input", { type: "checkbox", id: "sandbox" });
  private readonly proven = el("input", { type: "checkbox", id: "proven" });
  private readonly chains = el("fieldset", {}, el("legend", {}, TEXT.chains));
  private readonly files = el("div", { class: "files" });
  private readonly attached = new Map<string, Uint8Array>();

  constructor(private readonly changed: () => void) {
    add(
      this.element,
      el(
        "div",
        { class: "folded" },
        el("p", {}, TEXT.optionsLead),
        field(this.keys, TEXT.logKey, TEXT.logKeyHint),
        field(this.policy, TEXT.policy, TEXT.policyHint),
        this.chains,
        field(this.own, TEXT.chainOwn),
        el("label", { class: "check" }, this.sandbox, TEXT.sandbox),
        el("label", { class: "check" }, this.proven, TEXT.proven),
        this.files,
        button(TEXT.apply, () => this.changed(), { id: "apply" }),
      ),
    );
    for (const input of [this.keys, this.policy, this.own, this.sandbox, this.proven]) {
      input.addEventListener("change", () => this.changed());
    }
  }

  /** Show the networks that are built in, the main ones chosen. */
  pinned(chains: readonly PinnedChain[]): void {
    for (const { name, hash, scheme, period, main } of chains) {
      const box = el("input", { type: "checkbox", value: name, checked: main, on: { change: () => this.changed() } });
      const about = `${main ? TEXT.chainMain : TEXT.chainTest}; ${TEXT.chainPeriod(period)}; ${scheme}`;
      add(
        this.chains,
        el("label", { class: "check" }, box, el("span", {}, el("strong", {}, name), ` ${about} `, el("span", { class: "code small" }, hash))),
      );
    }
  }

  /** Offer a file field for each attachment that the seal names. */
  named(names: readonly string[]): void {
    this.attached.clear();
    this.files.replaceChildren();
    if (names.length > 0) {
      add(this.files, el("p", {}, el("strong", {}, TEXT.attachments), " ", el("span", { class: "hint" }, TEXT.attachmentsHint)));
    }
    for (const name of names) {
      const input = el("input", { type: "file" });
      input.addEventListener("change", () => void this.attach(name, input.files?.[0]));
      add(this.files, el("label", { class: "field" }, foreign(name), input));
    }
  }

  private async attach(name: string, file: File | undefined): Promise<void> {
    if (file === undefined) {
      this.attached.delete(name);
    } else {
      this.attached.set(name, new Uint8Array(await file.arrayBuffer()));
    }
    this.changed();
  }

  get logKeys(): string[] {
    return this.keys.value.split("\n").map((line) => line.trim()).filter((line) => line !== "");
  }

  /** Take a key that the person has compared. */
  trustKey(key: string): void {
    this.keys.value = [...this.logKeys, key].join("\n");
    this.changed();
  }

  /** Take the network of a test session for this test. */
  trustChain(info: string): void {
    this.own.value = info;
    this.sandbox.checked = true;
    this.changed();
  }

  value(): CheckOptions {
    const boxes = [...this.chains.querySelectorAll<HTMLInputElement>("input:checked")];
    const own = this.own.value.trim();
    return {
      logKeys: this.logKeys,
      chains: [...boxes.map((box) => box.value), ...(own === "" ? [] : [own])],
      ...(this.policy.value.trim() === "" ? {} : { policy: this.policy.value.replace(/\n*$/, "\n") }),
      sandbox: this.sandbox.checked,
      requireProven: this.proven.checked,
      attachments: Object.fromEntries(this.attached),
    };
  }
}

function area(id: string, rows: number): HTMLTextAreaElement {
  return el("textarea", { id, rows, spellcheck: "false", autocapitalize: "off", autocomplete: "off", class: "code" });
}

function field(input: HTMLElement, title: string, hint?: string): Child {
  return el(
    "div",
    { class: "field" },
    el("label", { for: input.id }, title),
    hint !== undefined && el("span", { class: "hint" }, hint),
    input,
  );
}
