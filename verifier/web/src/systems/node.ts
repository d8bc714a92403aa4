/** For tests: one {"system", "text", "options"} a line in, one answer a line out. */
import { createInterface } from "node:readline";
import { systems } from "./index.ts";

for await (const line of createInterface({ input: process.stdin })) {
  const { system, text, options } = JSON.parse(line) as { system: string; text: string; options: Record<string, string> };
  const found = systems.find((one) => one.name === system);
  process.stdout.write(`${JSON.stringify(found?.replay(text, options) ?? null)}\n`);
}
