// Runs the tests in a real VS Code: packs the extension if VSIX names none, installs what is needed, and goes.
// Arguments: files of tests; TEST_NAME: only those whose name fits it.
// AGENTLS: the server's binary. AGENTLS_EDITOR_CACHE: where the editor is installed; .cache of the repository if not set.

import { execFileSync, spawnSync } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const cache = path.resolve(process.env.AGENTLS_EDITOR_CACHE ?? path.join(here, "../../../.cache/vscode"));
const env = { ...process.env, AGENTLS_EDITOR_CACHE: cache };
execFileSync(path.join(here, "install.sh"), { env, stdio: "inherit" });
if (env.VSIX === undefined) {
  env.VSIX = path.join(here, "../out/test.vsix");
  execFileSync(process.execPath, [path.join(here, "../package.mjs"), "--out", env.VSIX], { env, stdio: "inherit" });
}
const MEASURES = ["flood.test.mjs", "long.test.mjs"];
const ALL = [
  ...MEASURES,
  "chat.test.mjs",
  "follow.test.mjs",
  "hang.test.mjs",
  "work.test.mjs",
  "turns.test.mjs",
  "approvals.test.mjs",
  "editor.test.mjs",
  "first.test.mjs",
];
const wanted = process.argv.length > 2 ? process.argv.slice(2) : ALL;
const only = env.TEST_NAME === undefined ? [] : [`--test-name-pattern=${env.TEST_NAME}`];
// What measures runs by itself; of the rest two files at a time: most of their time is waiting.
const groups = [
  ...MEASURES.filter((name) => wanted.includes(name)).map((name) => [name]),
  wanted.filter((name) => !MEASURES.includes(name)),
];
const failed = groups.filter((names) => {
  const tests = names.map((name) => path.join(here, name));
  const args = ["--test", "--test-concurrency=2", "--test-reporter=spec", ...only, ...tests];
  return names.length > 0 && spawnSync(process.execPath, args, { env, stdio: "inherit" }).status !== 0;
});
process.exit(failed.length > 0 ? 1 : 0);
