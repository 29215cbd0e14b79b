// Builds the page into ../dist, which is committed and embedded in the command. The names of files have hashes of what is
// in them, so that a browser keeps them for ever. What only one view needs is a file of its own, which that view loads.
import { build } from "esbuild";
import { minify } from "terser";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { brotliCompressSync, constants } from "node:zlib";

const out = new URL("../dist/", import.meta.url).pathname;
rmSync(out, { recursive: true, force: true });
mkdirSync(out);
const built = await build({
  entryPoints: { app: "src/main.tsx", style: "src/style.css" },
  bundle: true, minify: true, splitting: true, format: "esm", target: "es2022", outdir: out, legalComments: "none", charset: "utf8",
  entryNames: "[name]-[hash]", chunkNames: "part-[hash]", jsx: "automatic", jsxImportSource: "preact", logLevel: "warning",
  metafile: true,
});
const of = (entry) => basename(Object.entries(built.metafile.outputs).find(([, o]) => o.entryPoint === entry)[0]);
const page = readFileSync(new URL("src/index.html", import.meta.url), "utf8");
writeFileSync(out + "index.html", page.replace("STYLE", of("src/style.css")).replace("APP", of("src/main.tsx")));
// A second pass finds what the first leaves: a twentieth of what is sent.
for (const name of readdirSync(out).filter((n) => n.endsWith(".js"))) {
  const { code } = await minify(readFileSync(out + name, "utf8"), { module: true, compress: { passes: 3, unsafe_arrows: true, ecma: 2020 } });
  writeFileSync(out + name, code);
}
// Each script and style is there compressed as well, as small as it can be.
for (const name of readdirSync(out).filter((n) => n !== "index.html")) {
  const params = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY, [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT };
  writeFileSync(`${out}${name}.br`, brotliCompressSync(readFileSync(out + name), { params }));
}
