// Builds the extension (one Node file), the webview (one script and one style sheet), and the unit tests.
// Flags: --production minifies and omits source maps; --watch rebuilds after each change; --test adds the unit tests.

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { build, context } from "esbuild";

const flags = new Set(process.argv.slice(2));
const production = flags.has("--production");

/** @type {import("esbuild").BuildOptions} */
const common = {
  bundle: true,
  minify: production,
  sourcemap: production ? false : "linked",
  logLevel: "warning",
  outdir: "out",
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
};

/** @type {import("esbuild").BuildOptions[]} */
const builds = [
  {
    ...common,
    entryPoints: { extension: "src/extension.ts" },
    platform: "node",
    target: "node20",
    format: "cjs",
    external: ["vscode"],
    mainFields: ["module", "main"],
  },
  {
    ...common,
    entryPoints: { view: "src/view/main.tsx", style: "src/view/style.css" },
    platform: "browser",
    target: "es2022",
    format: "iife",
  },
];
if (flags.has("--test")) {
  const names = readdirSync("src/test").filter((name) => name.endsWith(".test.ts"));
  builds.push({
    ...common,
    entryPoints: names.map((name) => `src/test/${name}`),
    outdir: "out/test",
    outExtension: { ".js": ".mjs" },
    platform: "node",
    target: "node20",
    format: "esm",
    sourcemap: "inline",
    // Unit tests run without an editor.
    alias: { vscode: "./src/test/vscode.mock.ts", "vscode-languageclient/node": "./src/test/languageClient.mock.ts" },
  });
}

if (flags.has("--watch")) {
  for (const options of builds) await (await context(options)).watch();
} else {
  const results = await Promise.all(builds.map((options) => build({ ...options, metafile: true })));
  if (production)
    writeFileSync("out/THIRD-PARTY.txt", licenses(results.flatMap(({ metafile }) => Object.keys(metafile.inputs))));
}

/** Collects the licenses of the packages that the bundles contain. */
function licenses(files) {
  const found = files.map((file) => /(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1]);
  const folders = [...new Set(found.filter((folder) => folder !== undefined))].sort();
  return folders
    .map((folder) => {
      const { name, version, license } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
      const file = readdirSync(folder).find((entry) => /^licen[sc]e/i.test(entry));
      if (file === undefined) throw new Error(`${name} has no license file`);
      return `${name} ${version} (${license})\n\n${readFileSync(`${folder}/${file}`, "utf8").trim()}\n`;
    })
    .join(`\n${"-".repeat(80)}\n\n`);
}
