/** The page: what was given, what is trusted, the answer, and the copy that may be changed. */
import type { CheckOptions, Claim, OpenAnswer, Opening, OpenOptions, ReceiptAnswer, Step, Unusable, Verdict } from "../api.ts";
import { about, isPage, savedPage } from "./about.ts";
import { add, button, el, folded, foreign, die } from "./dom.ts";
import { Editor } from "./editor.ts";
import { Cancelled, Engine } from "./engine.ts";
import { type Given, Input } from "./input.ts";
import { lookInto, member, parse, spell, stringOf, type Tree } from "./json.ts";
import { opening } from "./opening.ts";
import { Options } from "./options.ts";
import { Systems } from "./replay.ts";
import { steps } from "./steps.ts";
import { TEXT } from "./text.ts";
import { consequence, headline, receiptAnswer, unusable, verdict } from "./verdict.ts";

export function start(): void {
  const program = document.getElementById("program")?.textContent ?? "";
  new App(new Engine(program), program).begin(document.getElementById("document")?.textContent ?? "");
}

class App {
  private transcript: Given | null = null;
  private receipt: Given | null = null;
  /** The copy that is judged in place of the document. */
  private copy: Uint8Array<ArrayBuffer> | null = null;
  private before: readonly Claim[] | null = null;
  private editor: Editor | null = null;
  private dice: ReadonlySet<string> = new Set();
  private claimedKey: string | null = null;
  private claimedChain: string | null = null;
  /** What was typed to open the sealed seed, by the ids of the fields. */
  private readonly typed = new Map<string, string>();
  private round = 0;
  private answers = 0;

  private readonly given = el("p", { class: "given" });
  private readonly aloud = el("p", { class: "hidden", role: "status" });
  private readonly progress = el("div", { class: "progress", hidden: true, role: "status" });
  private readonly result = el("section", { id: "result", "aria-label": TEXT.verdict });
  private readonly redo = el("section", { class: "card" });
  private readonly change = el("section", { class: "card" });
  private readonly options = new Options(() => void this.check());
  private readonly systems: Systems;
  private readonly input = new Input((given) => void this.take(given));

  constructor(
    private readonly engine: Engine,
    private readonly program: string,
  ) {
    this.systems = new Systems(engine);
  }

  begin(embedded: string): void {
    document.title = TEXT.title;
    add(
      document.getElementById("app") ?? document.body,
      button(TEXT.skip, () => this.focus(), { class: "skip" }),
      el("header", {}, die(5), el("div", {}, el("h1", {}, TEXT.title), el("p", {}, TEXT.lead))),
      el(
        "main",
        {},
        this.input.element,
        this.given,
        this.progress,
        this.aloud,
        this.result,
        this.redo,
        this.change,
        this.options.element,
        this.systems.element,
        about(this.engine, this.program),
      ),
    );
    void this.engine.call("pinnedChains", []).then((chains) => {
      this.options.pinned(chains);
      if (embedded.trim() !== "") {
        this.input.shrink();
        void this.take([{ name: TEXT.embedded, bytes: new TextEncoder().encode(embedded) }]);
      }
    });
  }

  private focus(): void {
    const target = document.getElementById("headline");
    (target ?? document.getElementById("choose"))?.focus();
  }

  private async take(given: readonly Given[]): Promise<void> {
    this.engine.cancel();
    const round = ++this.round;
    for (const one of given) {
      if (isPage(one.bytes)) {
        const page = await savedPage(this.engine, one.bytes, this.program);
        this.clear();
        this.result.replaceChildren(page);
        this.focus();
        return;
      }
      const kind = await this.engine.call("documentKind", [one.bytes]);
      if (round !== this.round || (kind === "unknown" && this.systems.take(one.bytes))) {
        return;
      }
      if (kind === "transcript" || kind === "unknown") {
        this.clear();
        this.transcript = one;
      } else {
        this.receipt = one;
      }
    }
    this.look();
    await this.check();
    this.focus();
  }

  private startOver(): void {
    this.engine.cancel();
    this.round += 1;
    this.receipt = null;
    this.clear();
    this.options.named([]);
    this.progress.hidden = true;
    this.input.open();
    document.title = TEXT.title;
    this.focus();
  }

  private clear(): void {
    this.transcript = null;
    this.copy = null;
    this.before = null;
    this.editor = null;
    this.typed.clear();
    this.result.replaceChildren();
    this.change.replaceChildren();
    this.redo.replaceChildren();
    this.given.replaceChildren();
  }

  /** What the page needs to know of the document to show it: recipes, attachments, the key that it names. */
  private look(): void {
    const subject = this.transcript ?? this.receipt;
    this.dice = new Set();
    this.claimedKey = null;
    this.claimedChain = null;
    this.given.replaceChildren();
    for (const one of [this.transcript, this.receipt]) {
      if (one !== null) {
        const [name, size] = TEXT.loaded(one.name, one.bytes.length);
        add(this.given, el("span", {}, foreign(name), size));
      }
    }
    add(this.given, button(TEXT.startOver, () => this.startOver(), { id: "start-over", class: "quiet" }));
    let tree: Tree | undefined;
    try {
      tree = parse(new TextDecoder().decode(subject?.bytes));
    } catch {
      return;
    }
    this.claimedKey = stringOf(member(tree, "log_key")) ?? null;
    const chain = member(tree, "chain");
    this.claimedChain = chain === undefined ? null : spell(chain);
    const events = member(tree, "events");
    const entries = events?.kind === "array" ? events.items.slice(0, 50).map((event) => member(event, "entry")) : [];
    const inner = entries.map((entry) => (entry?.kind === "string" ? lookInto(entry) : null));
    const seal = inner.find((entry) => entry !== null && stringOf(member(entry, "type")) === "seal") ?? undefined;
    const recipes = member(seal, "recipes");
    if (recipes?.kind === "object") {
      this.dice = new Set(
        recipes.members
          .filter(({ value }) => {
            const sides = member(value, "sides");
            return stringOf(member(value, "kind")) === "dice" && sides?.kind === "raw" && sides.value === "6";
          })
          .map(({ key }) => key),
      );
    }
    const attachments = member(seal, "attachments");
    const names = attachments?.kind === "array" ? attachments.items.map((item) => stringOf(member(item, "name"))) : [];
    this.options.named(names.filter((name) => name !== undefined));
  }

  /** Judge what was given, as it is or as it was changed. */
  private async check(): Promise<void> {
    const subject = this.transcript ?? this.receipt;
    if (subject === null) {
      return;
    }
    this.engine.cancel();
    const round = ++this.round;
    const document = this.copy ?? subject.bytes;
    const options = { ...this.options.value(), steps: this.redo.querySelector("details")?.open ?? false };
    try {
      const answer = await this.run(document, options);
      const receipt =
        this.receipt !== null && this.transcript !== null
          ? await this.engine.call("checkReceipt", [this.receipt.bytes, document, { logKeys: options.logKeys ?? [] }])
          : null;
      if (round === this.round) {
        this.show(answer, receipt);
      }
    } catch (error) {
      if (round === this.round) {
        const why = error instanceof Cancelled ? TEXT.stopped : TEXT.broke(String(error));
        this.result.replaceChildren(el("p", { class: "trouble", role: "alert" }, why));
      }
    } finally {
      if (round === this.round) {
        this.progress.hidden = true;
        this.result.removeAttribute("aria-busy");
      }
    }
  }

  private run(document: Uint8Array, options: CheckOptions): Promise<Verdict | Unusable> {
    const bar = el("progress", { max: 1 });
    const what = el("span", {}, TEXT.checking);
    this.progress.replaceChildren(
      what,
      bar,
      button(TEXT.stop, () => this.engine.cancel(), { id: "stop" }),
    );
    this.progress.hidden = false;
    this.result.setAttribute("aria-busy", "true");
    return this.engine.call("check", [document, options], (done, name) => {
      bar.value = done;
      what.textContent = TEXT.checkingWhat(name);
    });
  }

  private show(answer: Verdict | Unusable, receipt: ReceiptAnswer | Unusable | null): void {
    const changed = this.copy !== null;
    const openEntry = (index: number): void => this.openEntry(index);
    const sentence = "code" in answer ? TEXT.unusable : answer.headline;
    document.title = TEXT.titleOf(sentence);
    this.aloud.textContent = sentence;
    this.answers += 1;
    this.result.dataset["exit"] = String(answer.exit);
    this.result.dataset["answer"] = String(this.answers);
    if ("code" in answer) {
      this.result.replaceChildren(unusable(answer, changed));
    } else {
      if (!changed) {
        this.before = answer.claims;
      }
      this.result.replaceChildren(
        headline(answer, changed),
        ...(receipt === null ? [] : ["code" in receipt ? unusable(receipt, false) : receiptAnswer(receipt)]),
        ...(answer.trusted.log_key === null && this.claimedKey !== null ? [this.askForKey(this.claimedKey)] : []),
        ...(needsChain(answer) && this.claimedChain !== null ? [this.askForChain(this.claimedChain)] : []),
        ...(this.transcript === null && answer.session === null ? [el("p", { class: "card" }, TEXT.receiptAlone)] : []),
        ...(answer.opening === null ? [] : [this.offerOpening(answer.opening)]),
        verdict(answer, { before: changed ? this.before : null, dice: (recipe) => this.dice.has(recipe), openEntry }),
      );
    }
    this.editor?.judged(changed ? consequence(answer, this.before) : null);
    this.showSteps("code" in answer ? [] : answer.steps);
    this.showDocument();
  }

  private offerOpening(what: Opening): HTMLElement {
    const { logKeys = [], chains = [] } = this.options.value();
    const document = this.copy ?? (this.transcript ?? this.receipt)?.bytes ?? new Uint8Array();
    const open = (given: OpenOptions): Promise<OpenAnswer | Unusable> =>
      this.engine.call("open", [document, { logKeys, chains, ...given }]);
    return opening(what, open, (recipe) => this.dice.has(recipe), this.typed);
  }

  private askForKey(claimed: string): HTMLElement {
    return el(
      "section",
      { class: "card ask" },
      el("h3", {}, TEXT.keyNeeded),
      el("p", {}, TEXT.keyNeededLead),
      el("p", {}, foreign(claimed, { class: "code" })),
      button(TEXT.keyTrust, () => this.options.trustKey(claimed), { id: "trust-key", class: "primary" }),
    );
  }

  private askForChain(claimed: string): HTMLElement {
    return el(
      "section",
      { class: "card ask" },
      el("h3", {}, TEXT.chainNeeded),
      el("p", {}, TEXT.chainNeededLead),
      button(TEXT.chainTrust, () => this.options.trustChain(claimed), { id: "trust-chain", class: "primary" }),
    );
  }

  /** The steps are collected when they are first looked at. */
  private showSteps(known: readonly Step[]): void {
    const document = this.copy ?? (this.transcript ?? this.receipt)?.bytes;
    const openEntry = (index: number): void => this.openEntry(index);
    const fill = async (body: HTMLElement): Promise<void> => {
      const list = el("div", { role: "status" }, TEXT.checking);
      add(body, el("p", {}, TEXT.stepsLead), list);
      if (known.length > 0 || document === undefined) {
        list.replaceChildren(steps(known, openEntry));
        return;
      }
      try {
        const answer = await this.engine.call("check", [document, { ...this.options.value(), steps: true }]);
        list.replaceChildren(steps("code" in answer ? [] : answer.steps, openEntry));
      } catch (error) {
        list.replaceChildren(error instanceof Cancelled ? TEXT.stopped : TEXT.broke(String(error)));
      }
    };
    const open = this.redo.querySelector("details")?.open ?? false;
    this.redo.replaceChildren(folded([TEXT.steps], (body) => void fill(body), { id: "steps", open }));
  }

  private showDocument(): void {
    const subject = this.transcript ?? this.receipt;
    if (this.editor !== null || subject === null) {
      return;
    }
    const fill = (body: HTMLElement): void => {
      add(body, el("p", {}, TEXT.documentLead), this.edited(subject).element);
    };
    this.change.replaceChildren(folded([TEXT.document], fill, { id: "editor" }));
  }

  private edited(subject: Given): Editor {
    this.editor ??= new Editor(new TextDecoder("utf-8", { ignoreBOM: true }).decode(subject.bytes), (document) => {
      this.copy = document;
      void this.check();
    });
    return this.editor;
  }

  private openEntry(index: number): void {
    const details = this.change.querySelector("details");
    if (details !== null) {
      details.open = true;
      details.dispatchEvent(new Event("toggle"));
      this.editor?.open(index);
    }
  }
}

/** Whether a test session rests on a network that was not trusted. */
function needsChain(answer: Verdict): boolean {
  return answer.session?.sandbox === true && answer.claims.some(({ claim, state }) => claim === "round" && state === "UNKNOWN");
}
