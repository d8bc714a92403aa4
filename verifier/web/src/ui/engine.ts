/**
 * Runs the check beside the page: in a Worker made of the file's own script, so that both are the bytes that the policy
 * of the file names. Where there is no Worker it runs here, and yields.
 */
import * as api from "../api.ts";
import { type Replay, systems } from "../systems/index.ts";
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";

type Progress = (done: number, what: string) => void;

const METHODS = {
  check: (document: Uint8Array, options: api.CheckOptions, progress: Progress) =>
    api.check(document, { ...options, progress }),
  checkReceipt: (receipt: Uint8Array, transcript: Uint8Array, options: api.CheckOptions) =>
    api.checkReceipt(receipt, transcript, options),
  open: (document: Uint8Array, options: api.OpenOptions) => api.open(document, options),
  documentKind: (document: Uint8Array) => api.documentKind(document),
  pinnedChains: () => api.pinnedChains(),
  replay: (system: string, text: string, options: Readonly<Record<string, string>>): Replay => {
    const found = systems.find(({ name }) => name === system);
    if (found === undefined) {
      throw new RangeError(system);
    }
    return found.replay(text, options);
  },
  digest: (bytes: Uint8Array) => bytesToHex(sha256(bytes)),
};
type Methods = typeof METHODS;
type Answer<M extends keyof Methods> = Awaited<ReturnType<Methods[M]>>;
type Arguments<M extends keyof Methods> = Parameters<Methods[M]> extends [...infer Rest, Progress]
  ? Rest
  : Parameters<Methods[M]>;

/** What takes long, and is given up for what is newer. */
const LONG: ReadonlySet<keyof Methods> = new Set<keyof Methods>(["check", "checkReceipt", "open"]);

interface Request {
  readonly id: number;
  readonly method: keyof Methods;
  readonly args: readonly unknown[];
}
type Reply =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: string }
  | { readonly id: number; readonly done: number; readonly what: string };

/** The call was given up for a newer one. */
export class Cancelled extends Error {}

function run(request: Request, progress: Progress): unknown {
  const method = METHODS[request.method] as (...args: unknown[]) => unknown;
  return method(...request.args, ...(request.method === "check" ? [progress] : []));
}

/** Answer the page's calls; this is all that the Worker does. */
export function serve(): void {
  const post = (reply: Reply | "ready"): void => self.postMessage(reply);
  self.onmessage = async ({ data }: MessageEvent<Request>): Promise<void> => {
    const { id } = data;
    try {
      post({ id, value: await run(data, (done, what) => post({ id, done, what })) });
    } catch (error) {
      post({ id, error: String(error) });
    }
  };
  post("ready");
}

interface Pending {
  readonly request: Request;
  readonly progress: Progress;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

export class Engine {
  private worker: Worker | null = null;
  private ready = false;
  private readonly waiting = new Map<number, Pending>();
  private last = 0;

  constructor(private readonly program: string) {}

  /** Call one of the check's functions; `progress` hears how far it is. Rejects with Cancelled after cancel(). */
  call<M extends keyof Methods>(
    method: M,
    args: Arguments<M>,
    progress: Progress = () => {},
  ): Promise<Answer<M>> {
    const request: Request = { id: ++this.last, method, args };
    return new Promise((resolve, reject) => {
      const pending: Pending = { request, progress, resolve: resolve as (value: unknown) => void, reject };
      this.waiting.set(request.id, pending);
      const worker = this.start();
      if (worker === null) {
        void this.runHere(pending);
      } else {
        worker.postMessage(request);
      }
    });
  }

  /** Give up the check that runs. The Worker goes with it; what else waits is asked again of the next one. */
  cancel(): void {
    const given = [...this.waiting.values()].filter(({ request }) => LONG.has(request.method));
    if (given.length === 0) {
      return;
    }
    for (const { request, reject } of given) {
      this.waiting.delete(request.id);
      reject(new Cancelled());
    }
    if (this.worker !== null) {
      this.worker.terminate();
      this.worker = this.make();
      for (const { request } of this.waiting.values()) {
        this.worker?.postMessage(request);
      }
    }
  }

  private start(): Worker | null {
    this.worker ??= this.ready || this.last === 1 ? this.make() : null;
    return this.worker;
  }

  private make(): Worker | null {
    let worker: Worker;
    try {
      worker = new Worker(trusted(URL.createObjectURL(new Blob([this.program], { type: "text/javascript" }))));
    } catch {
      return null;
    }
    worker.onmessage = ({ data }: MessageEvent<Reply | "ready">) => {
      if (data === "ready") {
        this.ready = true;
      } else {
        this.settle(data);
      }
    };
    worker.onerror = (event) => {
      event.preventDefault();
      if (worker !== this.worker) {
        return;
      }
      worker.terminate();
      this.worker = null;
      for (const pending of this.waiting.values()) {
        if (this.ready) {
          this.settle({ id: pending.request.id, error: event.message || "the check ended" });
        } else {
          void this.runHere(pending);
        }
      }
    };
    return worker;
  }

  private async runHere({ request, progress }: Pending): Promise<void> {
    const { id } = request;
    try {
      await new Promise((resolve) => setTimeout(resolve));
      this.settle({ id, value: await run(request, progress) });
    } catch (error) {
      this.settle({ id, error: String(error) });
    }
  }

  private settle(reply: Reply): void {
    const pending = this.waiting.get(reply.id);
    if (pending === undefined) {
      return;
    }
    if ("done" in reply) {
      pending.progress(reply.done, reply.what);
      return;
    }
    this.waiting.delete(reply.id);
    if ("error" in reply) {
      pending.reject(new Error(reply.error));
    } else {
      pending.resolve(reply.value);
    }
  }
}

interface TrustedTypes {
  createPolicy(name: string, rules: { createScriptURL: (url: string) => string }): {
    createScriptURL(url: string): string;
  };
}

let policy: { createScriptURL(url: string): string } | undefined;

/** The policy of the file lets no string become a script, but for the address of its own Worker. */
function trusted(url: string): string {
  const types = (globalThis as { trustedTypes?: TrustedTypes }).trustedTypes;
  policy ??= types?.createPolicy("worker", { createScriptURL: (own) => own });
  return policy === undefined ? url : policy.createScriptURL(url);
}
