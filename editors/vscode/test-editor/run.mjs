// Runs the tests in a real VS Code. It installs the editor, and packs the extension if VSIX is not set.
// Arguments: test files; by default all. TEST_NAME: a pattern for test names.
// AGENTLS: the server's binary. AGENTLS_EDITOR_CACHE: the editor's folder; by default .cache in the repository.

import { execFileSync, spawnSync } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";

const testFolder = path.dirname(fileURLToPath(import.meta.url));
const cache = path.resolve(process.env.AGENTLS_EDITOR_CACHE ?? path.join(testFolder, "../../../.cache/vscode"));
const env = { ...process.env, AGENTLS_EDITOR_CACHE: cache };
execFileSync(path.join(testFolder, "install.sh"), { env, stdio: "inherit" });
if (env.VSIX === undefined) {
  env.VSIX = path.join(testFolder, "../out/test.vsix");
  execFileSync(process.execPath, [path.join(testFolder, "../package.mjs"), "--out", env.VSIX], {
    env,
    stdio: "inherit",
  });
}
const MEASUREMENT_TESTS = ["flood.test.mjs", "longSession.test.mjs"];
const ALL = [
  ...MEASUREMENT_TESTS,
  "chat.test.mjs",
  "scrolling.test.mjs",
  "hangingServer.test.mjs",
  "workflows.test.mjs",
  "turns.test.mjs",
  "approvals.test.mjs",
  "typing.test.mjs",
  "warnings.test.mjs",
  "drafts.test.mjs",
  "mcp.test.mjs",
  "editor.test.mjs",
  "language.test.mjs",
  "languageTools.test.mjs",
  "pyright.test.mjs",
  "firstRun.test.mjs",
];
const selectedTests = process.argv.length > 2 ? process.argv.slice(2) : ALL;
const nameFilter = env.TEST_NAME === undefined ? [] : [`--test-name-pattern=${env.TEST_NAME}`];
// Measuring tests run alone. The others run in pairs, because they mostly wait.
const groups = [
  ...MEASUREMENT_TESTS.filter((name) => selectedTests.includes(name)).map((name) => [name]),
  selectedTests.filter((name) => !MEASUREMENT_TESTS.includes(name)),
];
const failed = groups.filter((names) => {
  const tests = names.map((name) => path.join(testFolder, name));
  const args = ["--test", "--test-concurrency=2", "--test-reporter=spec", ...nameFilter, ...tests];
  return names.length > 0 && spawnSync(process.execPath, args, { env, stdio: "inherit" }).status !== 0;
});
process.exit(failed.length > 0 ? 1 : 0);
