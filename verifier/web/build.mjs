// Bundles the verifier: `node build.mjs [TARGET …]`, all targets by default, into the folder build/ (or $OUT).
import { build } from "esbuild";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.env.OUT ?? join(here, "build");

const TARGETS = {
  /** `node build/verifier.mjs check FILE …` */
  async node() {
    await build({
      absWorkingDir: here,
      entryPoints: ["src/node.ts"],
      outfile: join(out, "verifier.mjs"),
      bundle: true,
      platform: "node",
      format: "esm",
      target: "node20",
      legalComments: "none",
    });
  },
};

const wanted = process.argv.slice(2);
for (const name of wanted.length > 0 ? wanted : Object.keys(TARGETS)) {
  const target = TARGETS[name];
  if (target === undefined) {
    throw new Error(`no target ${name}; there are ${Object.keys(TARGETS).join(", ")}`);
  }
  await target();
}
