/** The verifier as a command of Node.js: `node verifier.mjs check FILE|-`. */
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { check, type CheckOptions, type Unusable, type Verdict } from "./api.ts";
import { runVectors } from "./vectors.ts";

const USAGE = `node verifier.mjs check FILE|- [--log-key VKEY] [--chain FILE|NAME]… [--policy PATH] [--sandbox]
                             [--require proven] [--attachment NAME=FILE]… [--json] [--steps]
node verifier.mjs receipt FILE --transcript FILE|- [--log-key VKEY] [--json]
node verifier.mjs bulk          one {"document", "options"} a line in, one verdict a line out
node verifier.mjs vectors FILE…

Exit codes: 0 it holds, 1 it does not, 2 not decided, 3 unusable input or command line.
`;

async function bulk(): Promise<number> {
  for await (const line of createInterface({ input: process.stdin })) {
    const { document, options } = JSON.parse(line) as { document: string; options: CheckOptions };
    const verdict = await check(Buffer.from(document, "utf8"), options);
    process.stdout.write(`${JSON.stringify(verdict)}\n`);
  }
  return 0;
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
      "log-key": { type: "string" },
      chain: { type: "string", multiple: true },
      policy: { type: "string" },
      sandbox: { type: "boolean" },
      require: { type: "string" },
      attachment: { type: "string", multiple: true },
      json: { type: "boolean" },
      steps: { type: "boolean" },
    },
  });
  const [file, ...rest] = positionals;
  if (file === undefined || rest.length > 0) {
    throw new Error("check takes one file");
  }
  const options: CheckOptions = {
    ...(values["log-key"] === undefined ? {} : { logKeys: [textOrFile(values["log-key"])] }),
    ...(values.chain === undefined ? {} : { chains: values.chain.map(textOrFile) }),
    ...(values.policy === undefined ? {} : { policy: readFileSync(values.policy, "utf8") }),
    sandbox: values.sandbox ?? false,
    requireProven: values.require === "proven",
    steps: values.steps ?? false,
  };
  const answer = await check(readFileSync(file === "-" ? 0 : file), options);
  process.stdout.write(values.json === true ? `${JSON.stringify(answer)}\n` : plain(answer));
  return answer.exit;
}

function plain(answer: Verdict | Unusable): string {
  if (answer.exit === 3) {
    return `unusable input: ${answer.code}: ${answer.message}\n`;
  }
  const claims = answer.claims.map(({ claim, state, text }) => `  ${state.padEnd(8)} ${claim.padEnd(14)} ${text}\n`);
  return `${answer.headline}\n\n${claims.join("")}\n${answer.remarks.map((remark) => `${remark}\n`).join("")}${answer.unknowable}\n`;
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

const [command, ...args] = process.argv.slice(2);
switch (command) {
  case "check":
    process.exitCode = await checkCommand(args);
    break;
  case "vectors":
    process.exitCode = await vectors(args);
    break;
  case "bulk":
    process.exitCode = await bulk();
    break;
  default:
    process.stderr.write(USAGE);
    process.exitCode = 3;
}
