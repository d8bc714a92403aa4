/** The verifier as a command of Node.js: `node verifier.mjs check FILE|-`. */
import { readFileSync } from "node:fs";
import { check } from "./api.ts";

const verdict = await check(readFileSync(process.argv[3] === "-" ? 0 : (process.argv[3] ?? "")));
process.stdout.write(`${JSON.stringify(verdict)}\n`);
process.exitCode = verdict.exit;
