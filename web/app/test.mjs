// Tests what the page decides. The tests are built as the page is, since they are written in its language.
import { build } from "esbuild";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawnSync } from "node:child_process";

const src = new URL("src/", import.meta.url).pathname;
const tests = readdirSync(src).filter((name) => name.endsWith(".test.ts"));
const out = mkdtempSync(join(tmpdir(), "page-"));
try {
  await build({
    entryPoints: tests.map((name) => src + name), bundle: true, format: "esm", platform: "node", outdir: out,
    outExtension: { ".js": ".mjs" }, logLevel: "warning",
  });
  const files = readdirSync(out).map((name) => join(out, name));
  process.exitCode = spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit" }).status ?? 1;
} finally {
  rmSync(out, { recursive: true, force: true });
}
