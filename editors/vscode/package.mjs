// Packs the extension and prints the size of the package.
// Without arguments, it packs the extension only, as agentls-<version>.vsix. To include the server:
// node package.mjs --target linux-x64 --binary path/to/agentls

import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const here = fileURLToPath(new URL(".", import.meta.url));
const { values } = parseArgs({
  options: { target: { type: "string" }, binary: { type: "string" }, out: { type: "string" } },
});
const { version } = JSON.parse(readFileSync(`${here}package.json`, "utf8"));
if ((values.target === undefined) !== (values.binary === undefined)) {
  console.error("use --target and --binary together: each platform needs its own program");
  process.exit(1);
}
const out = values.out ?? `${here}agentls-${values.target ? `${values.target}-` : ""}${version}.vsix`;

rmSync(`${here}server`, { recursive: true, force: true });
rmSync(`${here}out`, { recursive: true, force: true });
for (const license of ["LICENSE-MIT", "LICENSE-APACHE"]) copyFileSync(`${here}../../${license}`, `${here}${license}`);
if (values.binary !== undefined) {
  const name = values.target?.startsWith("win32") ? "agentls.exe" : "agentls";
  mkdirSync(`${here}server`);
  copyFileSync(values.binary, `${here}server/${name}`);
  chmodSync(`${here}server/${name}`, 0o755);
}
const target = values.target === undefined ? [] : ["--target", values.target];
try {
  execFileSync(
    process.execPath,
    [
      `${here}node_modules/@vscode/vsce/vsce`,
      "package",
      "--no-dependencies",
      "--allow-missing-repository",
      "--no-rewrite-relative-links",
      "--skip-license",
      "-o",
      out,
      ...target,
    ],
    { cwd: here, stdio: ["ignore", "inherit", "inherit"] },
  );
} finally {
  rmSync(`${here}server`, { recursive: true, force: true });
}
console.log(`${out}: ${(statSync(out).size / 1_000_000).toFixed(2)} MB`);
