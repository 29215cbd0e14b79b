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
  entryNames: "[name]-[hash]", chunkNames: "part-[hash]", logLevel: "warning", metafile: true,
  // Calls of a function are shorter than those of the runtime that the compiler checks the types with.
  inject: ["src/h.ts"], tsconfigRaw: { compilerOptions: { jsx: "react", jsxFactory: "$h", jsxFragmentFactory: "$Fragment" } },
});
const [style] = fileOf("src/style.css"), [entry, of] = fileOf("src/main.tsx");
// The other views need the first one, so it is a part as they are, and its entry does nothing but load that.
const first = of.imports.filter((i) => i.kind === "import-statement");
if (first.length !== 1) throw new Error(`${entry} loads ${first.length} parts`);
rmSync(out + entry);
const page = readFileSync(new URL("src/index.html", import.meta.url), "utf8");
writeFileSync(out + "index.html", page.replace("STYLE", style).replace("APP", basename(first[0].path)));
// A second pass finds what the first leaves: a twentieth of what is sent.
for (const name of readdirSync(out).filter((n) => n.endsWith(".js"))) {
  const compress = { passes: 3, unsafe_arrows: true, ecma: 2020, pure_getters: true, sequences: false, collapse_vars: false };
  const { code } = await minify(readFileSync(out + name, "utf8"), { module: true, compress });
  writeFileSync(out + name, code);
}
// Each script and style is there compressed as well, as small as it can be.
for (const name of readdirSync(out).filter((n) => n !== "index.html")) {
  const text = readFileSync(out + name), params = {
    [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY, [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
    [constants.BROTLI_PARAM_SIZE_HINT]: text.length, [constants.BROTLI_PARAM_LGWIN]: Math.max(Math.ceil(Math.log2(text.length)), 16),
  };
  writeFileSync(`${out}${name}.br`, brotliCompressSync(text, { params }));
}

// fileOf returns the name of the file that was made of an entry, and what is known of it.
function fileOf(entry) {
  const [path, known] = Object.entries(built.metafile.outputs).find(([, o]) => o.entryPoint === entry);
  return [basename(path), known];
}
