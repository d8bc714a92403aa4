// Bundles the verifier: `node build.mjs [TARGET …]`, all targets by default, into the folder build/ (or $OUT).
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
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

  /** The one HTML file. Its script is both the page's and the Worker's; a policy inside it allows these bytes alone. */
  async page() {
    const { version } = JSON.parse(await readFile(join(here, "package.json"), "utf8"));
    const script = await bundled("src/ui/main.ts", { VERSION: JSON.stringify(version) });
    const style = await bundled("src/ui/style.css", {});
    if (/<\/script|<!--/i.test(script) || /<\/style/i.test(style)) {
      throw new Error("the script or the style would end its own element");
    }
    const policy = [
      "default-src 'none'",
      `script-src ${source(script)}`,
      `style-src ${source(style)}`,
      "worker-src blob:",
      "img-src data:",
      "base-uri 'none'",
      "form-action 'none'",
      "require-trusted-types-for 'script'",
      "trusted-types worker",
    ];
    const parts = { policy: policy.join("; "), style, script };
    const template = await readFile(join(here, "src/ui/page.html"), "utf8");
    const page = template.replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]);
    await mkdir(out, { recursive: true });
    await writeFile(join(out, "verifier.html"), page);
  },
};

async function bundled(entry, define) {
  const result = await build({
    absWorkingDir: here,
    entryPoints: [entry],
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    platform: "browser",
    target: "es2022",
    charset: "ascii",
    legalComments: "none",
    metafile: true,
    define,
  });
  return result.outputFiles[0].text + (await licences(Object.keys(result.metafile.inputs)));
}

/** A comment with the licences of the packages that these files are of, each text once. */
async function licences(files) {
  const folders = new Set(files.map((file) => /^node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0]).filter(Boolean));
  const texts = new Map();
  for (const folder of [...folders].sort()) {
    const { name, version } = JSON.parse(await readFile(join(here, folder, "package.json"), "utf8"));
    const whole = (await readFile(join(here, folder, "LICENSE"), "utf8")).replace(/[“”]/g, '"').replaceAll("*/", "* /");
    const own = whole.split("\n").filter((line) => line.startsWith("Copyright"));
    const text = whole.replaceAll(/^Copyright.*\n/gm, "").replaceAll(/\n{3,}/g, "\n\n").trim();
    texts.set(text, [...(texts.get(text) ?? []), `${name} ${version}`, ...own]);
  }
  return [...texts].map(([text, whose]) => `/*!\n${whose.join("\n")}\n\n${text}\n*/\n`).join("");
}

/** A hash as a source of a Content Security Policy. */
function source(text) {
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}

const wanted = process.argv.slice(2);
for (const name of wanted.length > 0 ? wanted : Object.keys(TARGETS)) {
  const target = TARGETS[name];
  if (target === undefined) {
    throw new Error(`no target ${name}; there are ${Object.keys(TARGETS).join(", ")}`);
  }
  await target();
}
