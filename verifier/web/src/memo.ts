/** Answers that are dear and asked for again, up to a number of them. */
export class Memo<T> {
  readonly #known = new Map<string, T>();

  constructor(private readonly limit: number) {}

  has(name: string): boolean {
    return this.#known.has(name);
  }

  /** What `name` stands for; `work` finds it out once. */
  get(name: string, work: () => T): T {
    if (this.#known.has(name)) {
      return this.#known.get(name) as T;
    }
    const found = work();
    if (this.#known.size >= this.limit) {
      this.#known.clear();
    }
    this.#known.set(name, found);
    return found;
  }
}
