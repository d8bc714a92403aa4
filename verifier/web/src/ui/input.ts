/** How a document comes in: dropped anywhere, chosen, pasted, or with the page. */
import { add, button, el } from "./dom.ts";
import { TEXT } from "./text.ts";

export const MAX_BYTES = 64 * 1024 * 1024;

export interface Given {
  readonly name: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export class Input {
  readonly element = el("section", { class: "card input", id: "input" });
  private readonly trouble = el("p", { class: "trouble", role: "alert" });

  private readonly paste: HTMLElement;

  constructor(private readonly take: (given: readonly Given[]) => void) {
    const chooser = el("input", { type: "file", id: "file", multiple: true, class: "hidden", tabindex: -1, "aria-hidden": "true" });
    chooser.addEventListener("change", () => {
      void this.files([...(chooser.files ?? [])]).then(() => {
        chooser.value = "";
      });
    });
    const text = el("textarea", { id: "pasted", rows: 6, spellcheck: "false", class: "code" });
    const paste = el(
      "div",
      { class: "field", hidden: true },
      el("label", { for: "pasted" }, TEXT.pasteLabel),
      text,
      button(TEXT.pasteCheck, () => this.text(text.value), { id: "check-pasted" }),
    );
    this.paste = paste;
    add(
      this.element,
      el(
        "div",
        { class: "drop" },
        el("p", { class: "big" }, TEXT.drop),
        el("p", { class: "hint" }, TEXT.dropHint),
        el(
          "p",
          { class: "row" },
          button(TEXT.choose, () => chooser.click(), { id: "choose", class: "primary" }),
          button(
            TEXT.paste,
            () => {
              paste.hidden = false;
              text.focus();
            },
            { id: "paste" },
          ),
        ),
        chooser,
        paste,
        this.trouble,
      ),
    );
    this.listen();
  }

  shrink(): void {
    this.element.classList.add("small");
  }

  /** Back to how it was before anything came in. */
  open(): void {
    this.element.classList.remove("small");
    this.trouble.textContent = "";
  }

  private listen(): void {
    const over = (event: DragEvent, inside: boolean): void => {
      event.preventDefault();
      this.element.classList.toggle("over", inside);
    };
    document.addEventListener("dragover", (event) => over(event, true));
    document.addEventListener("dragleave", (event) => over(event, event.relatedTarget !== null));
    document.addEventListener("drop", (event) => {
      over(event, false);
      const files = [...(event.dataTransfer?.files ?? [])];
      if (files.length > 0) {
        void this.files(files);
      } else {
        this.text(event.dataTransfer?.getData("text") ?? "");
      }
    });
    document.addEventListener("paste", (event) => {
      if (event.target instanceof HTMLInputElement || event.target instanceof HTMLTextAreaElement) {
        return;
      }
      const files = [...(event.clipboardData?.files ?? [])];
      if (files.length > 0) {
        void this.files(files);
      } else {
        this.text(event.clipboardData?.getData("text") ?? "");
      }
    });
  }

  private text(text: string): void {
    if (text.trim() !== "") {
      this.give([{ name: TEXT.pasted, bytes: new TextEncoder().encode(text) }]);
    }
  }

  private async files(files: readonly File[]): Promise<void> {
    if (files.some(({ size }) => size > MAX_BYTES)) {
      this.trouble.textContent = TEXT.tooLarge;
      return;
    }
    try {
      const read = async (file: File): Promise<Given> => ({ name: file.name, bytes: new Uint8Array(await file.arrayBuffer()) });
      this.give(await Promise.all(files.map(read)));
    } catch {
      this.trouble.textContent = TEXT.unreadable;
    }
  }

  private give(given: readonly Given[]): void {
    this.trouble.textContent = "";
    if (given.length > 0) {
      this.paste.hidden = true;
      this.shrink();
      this.take(given);
    }
  }
}
