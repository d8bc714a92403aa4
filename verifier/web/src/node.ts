/** The verifier as a command of Node.js: `node verifier.mjs check FILE|-`. */
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { check, checkReceipt, type CheckOptions, open, type OpenOptions, type Unusable, type Verdict } from "./api.ts";
import { base64 } from "./bytes.ts";
import { verifyRound } from "./drand.ts";
import { verifySignature } from "./ed25519.ts";
import { accepted } from "./errors.ts";
import { openTimelock, parseTimelock } from "./timelock.ts";
import { readTrust } from "./trust.ts";
import { runVectors } from "./vectors.ts";

const USAGE = `node verifier.mjs check FILE|- [--log-key VKEY]… [--chain FILE|NAME]… [--policy PATH] [--sandbox]
                             [--require proven] [--attachment NAME=FILE]… [--json] [--steps]
node verifier.mjs receipt FILE --transcript FILE|- [--log-key VKEY]… [--json]
node verifier.mjs bulk          one question as JSON a line in, one answer a line out
node verifier.mjs vectors FILE…

Exit codes: 0 it holds, 1 it does not, 2 not decided, 3 unusable input or command line.
`;

/** A line that `bulk` takes. Byte strings are base64. */
type Asked =
  | { readonly document: string; readonly options: CheckOptions }
  | { readonly open: string; readonly options: OpenOptions }
  | { readonly receipt: string; readonly transcript: string; readonly options: CheckOptions }
  | { readonly key: string; readonly message: string; readonly signature: string }
  | { readonly chain: string; readonly round: number; readonly signature: string; readonly previous: string | null }
  | { readonly timelock: string; readonly to: string; readonly signature: string }
  | { readonly trust: CheckOptions };

/** Many questions to one process: one JSON object a line in, one a line out. */
async function bulk(): Promise<number> {
  for await (const line of createInterface({ input: process.stdin })) {
    process.stdout.write(`${JSON.stringify(await answer(JSON.parse(line) as Asked))}\n`);
  }
  return 0;
}

async function answer(asked: Asked): Promise<unknown> {
  const bytes = (text: string): Buffer => Buffer.from(text, "base64");
  if ("document" in asked) {
    return check(bytes(asked.document), asked.options);
  }
  if ("open" in asked) {
    return open(bytes(asked.open), asked.options);
  }
  if ("receipt" in asked) {
    return checkReceipt(bytes(asked.receipt), bytes(asked.transcript), asked.options);
  }
  if ("trust" in asked) {
    return accepted(() => readTrust(asked.trust)) !== null;
  }
  if ("timelock" in asked) {
    const [chain] = readTrust({ chains: [asked.to] }).chains.values();
    const ciphertext = chain && accepted(() => parseTimelock(bytes(asked.timelock), chain));
    const opened = ciphertext && openTimelock(ciphertext, bytes(asked.signature));
    return opened?.opens === true ? [`${ciphertext?.round}`, base64(opened.plaintext)] : null;
  }
  if ("chain" in asked) {
    const [chain] = readTrust({ chains: [asked.chain] }).chains.values();
    const previous = asked.previous === null ? null : bytes(asked.previous);
    return chain && verifyRound(chain, { round: asked.round, signature: bytes(asked.signature), previous });
  }
  return verifySignature(bytes(asked.key), bytes(asked.message), bytes(asked.signature));
}

function textOrFile(value: string): string {
  try {
    return readFileSync(value, "utf8").trim();
  } catch {
    return value;
  }
}

async function checkCommand(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      "log-key": { type: "string", multiple: true },
      chain: { type: "string", multiple: true },
      policy: { type: "string" },
      sandbox: { type: "boolean" },
      require: { type: "string" },
      attachment: { type: "string", multiple: true },
      json: { type: "boolean" },
      steps: { type: "boolean" },
    },
  });
  const { chain, policy, require } = values;
  if (require !== undefined && require !== "proven") {
    throw new Error("--require takes 'proven'");
  }
  const attachments = (values.attachment ?? []).map((named) => {
    const split = named.indexOf("=");
    return [named.slice(0, split), readFileSync(named.slice(split + 1))] as const;
  });
  const verdict = await check(readInput(only(positionals)), {
    ...keys(values["log-key"]),
    ...(chain === undefined ? {} : { chains: chain.map(textOrFile) }),
    ...(policy === undefined ? {} : { policy: readFileSync(policy, "utf8") }),
    sandbox: values.sandbox ?? false,
    requireProven: require === "proven",
    attachments: Object.fromEntries(attachments),
    steps: values.steps ?? false,
  });
  say(verdict, values.json ?? false, plain);
  return verdict.exit;
}

async function receiptCommand(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { transcript: { type: "string" }, "log-key": { type: "string", multiple: true }, json: { type: "boolean" } },
  });
  const receipt = readInput(only(positionals));
  const transcript = readInput(only(values.transcript === undefined ? [] : [values.transcript]));
  const found = await checkReceipt(receipt, transcript, keys(values["log-key"]));
  say(found, values.json ?? false, ({ headline }) => `${headline}\n`);
  return found.exit;
}

function only(files: readonly string[]): string {
  const [file, ...others] = files;
  if (file === undefined || others.length > 0) {
    throw new Error("one file is asked for");
  }
  return file;
}

function readInput(file: string): Uint8Array {
  return readFileSync(file === "-" ? 0 : file);
}

/** Each is a key, or a file with a key a line. */
function keys(given: readonly string[] = []): Pick<CheckOptions, "logKeys"> {
  const lines = given.flatMap((key) => textOrFile(key).split("\n"));
  return { logKeys: lines.map((line) => line.trim()).filter((line) => line !== "") };
}

function say<T extends { readonly exit: number }>(
  answer: T | Unusable,
  json: boolean,
  inWords: (answer: T) => string,
): void {
  if ("code" in answer) {
    process.stderr.write(`unusable input: ${answer.code}: ${answer.message}\n`);
  } else {
    process.stdout.write(json ? `${JSON.stringify(answer)}\n` : inWords(answer));
  }
}

function plain({ headline, claims, remarks, unknowable }: Verdict): string {
  const lines = claims.map(({ claim, state, text }) => `  ${state.padEnd(8)} ${claim.padEnd(14)} ${text}`);
  return `${[headline, "", ...lines, "", ...remarks, unknowable].join("\n")}\n`;
}

async function vectors(files: readonly string[]): Promise<number> {
  let exit = files.length > 0 ? 0 : 3;
  for (const file of files) {
    for (const result of await runVectors(JSON.parse(readFileSync(file, "utf8")), check)) {
      process.stdout.write(`${JSON.stringify({ file: basename(file), ...result })}\n`);
      exit = Math.max(exit, result.status === "failed" ? 1 : 0);
    }
  }
  return exit;
}

const COMMANDS: Readonly<Record<string, (args: readonly string[]) => Promise<number>>> = {
  check: checkCommand,
  receipt: receiptCommand,
  bulk,
  vectors,
};

async function main([name = "", ...args]: readonly string[]): Promise<number> {
  const command = COMMANDS[name];
  if (command === undefined) {
    process.stderr.write(USAGE);
    return 3;
  }
  try {
    return await command(args);
  } catch (error) {
    process.stderr.write(`error: ${error instanceof Error ? error.message : String(error)}\n`);
    return 3;
  }
}

process.exitCode = await main(process.argv.slice(2));
