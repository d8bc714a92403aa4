/** Long work that lets others run: it yields to the event loop now and then. */

const UNITS = 256;

export class Pace {
  #units = 0;

  constructor(private readonly progress: ((done: number, what: string) => void) | undefined) {}

  /** One small unit of work is done. */
  async tick(): Promise<void> {
    this.#units += 1;
    if (this.#units % UNITS === 0) {
      await breathe();
    }
  }

  /** Much is done: say so, and yield. */
  async report(done: number, what: string): Promise<void> {
    if (this.progress !== undefined) {
      this.progress(done, what);
      await breathe();
    }
  }
}

function breathe(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}
