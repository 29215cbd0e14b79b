// Builds the page into ../dist, which is committed and embedded in the command.
import { build } from "esbuild";
import { cpSync, mkdirSync, rmSync } from "node:fs";

const out = new URL("../dist/", import.meta.url).pathname;
rmSync(out, { recursive: true, force: true });
mkdirSync(out);
cpSync(new URL("src/index.html", import.meta.url).pathname, out + "index.html");
await build({
  entryPoints: { app: "src/main.tsx", style: "src/style.css" },
  bundle: true, minify: true, format: "esm", target: "es2022", outdir: out, legalComments: "none",
  jsx: "automatic", jsxImportSource: "preact", logLevel: "warning",
});
