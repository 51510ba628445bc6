// The tools that use language servers, with the real agent and pyright, which a small extension starts.
//
// AGENTLS_MCP_PEERS: the folder with the npm packages of `tests/peers/npm`; without it, the test is skipped.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { FakeModel } from "./fakeModel.mjs";
import { fakeServer, waitForAnswer } from "./fakeWorkbench.mjs";
import { createStepRunner, TIMEOUT_MS, waitUntil, withWorkbench } from "./workbench.mjs";

const peers = process.env.AGENTLS_MCP_PEERS;
const vsce = fileURLToPath(new URL("../node_modules/@vscode/vsce/vsce", import.meta.url));
const client = fileURLToPath(import.meta.resolve("vscode-languageclient/node"));
const FILES = {
  "cart.py": "class Cart:\n    def total(self) -> int:\n        return 1\n",
  "report.py": "from cart import Cart\n\n\ndef report(cart: Cart) -> str:\n    return str(cart.total())\n",
};

/** Packs an extension that starts pyright for Python files. */
function packExtension(folder) {
  const manifest = {
    name: "pyright-test",
    publisher: "test",
    version: "1.0.0",
    engines: { vscode: "^1.100.0" },
    activationEvents: ["onLanguage:python"],
    main: "./main.js",
    files: ["main.js"],
  };
  const args = [path.join(peers, "node_modules/pyright/langserver.index.js"), "--stdio"];
  const main = `
    const { LanguageClient } = require(${JSON.stringify(client)});
    const server = { command: process.execPath, args: ${JSON.stringify(args)} };
    exports.activate = () => new LanguageClient("pyright", server, { documentSelector: ["python"] }).start();`;
  fs.writeFileSync(path.join(folder, "package.json"), JSON.stringify(manifest));
  fs.writeFileSync(path.join(folder, "main.js"), main);
  const flags = ["package", "--no-dependencies", "--allow-missing-repository", "--skip-license", "-o", "pyright.vsix"];
  execFileSync(process.execPath, [vsce, ...flags], { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
  return path.join(folder, "pyright.vsix");
}

const SKIP = peers === undefined && "no AGENTLS_MCP_PEERS";
const folder = fs.mkdtempSync(path.join(os.tmpdir(), "agentls-pyright-"));
after(() => fs.rmSync(folder, { recursive: true, force: true }));
const OPTIONS = { files: FILES, otherVsix: SKIP ? undefined : packExtension(folder) };

test("tools with pyright", { timeout: 6 * TIMEOUT_MS, skip: SKIP }, async (t) => {
  const model = new FakeModel();
  await model.start();
  t.after(() => model.stop());
  // A busy machine may need longer than usual to find the errors after an edit.
  const agent = `${model.config}mode = "full"\ndiagnostics_after_edit = 30\n`;
  const options = { ...OPTIONS, config: `${agent}\n[tool.default]\ncircuit_cooldown_s = 1\n` };
  await withWorkbench("tools with pyright", options, async (s) => {
    const step = createStepRunner(t, s);
    let turns = 0;
    /** Lets the model make a call, and returns what it reads then. */
    async function call(name, input) {
      model.plan(name, input);
      await s.sendPrompt(`call ${name}`);
      await s.waitForTurnEnd(++turns, "completed");
      return model.result;
    }
    await s.showChat();
    await s.openFile("report.py");

    await step("it finds references and documentation", async () => {
      const find = () => call("find_references", { symbol: "Cart.total", path: "cart.py" });
      // A busy machine may need longer to start pyright than a question waits.
      await waitUntil(async () => !(await find()).startsWith("Error: "), "the start of pyright");
      assert.match(model.result, /cart\.py:2: .*\nreport\.py:5: return str\(cart\.total\(\)\)/);
      const definition = await call("go_to_definition", { symbol: "total", path: "report.py" });
      assert.match(definition, /cart\.py:2: def total.*documentation\].*total\(\) -> int/s);
    });

    await step("the result of an edit of a file in a tab has the new error", async () => {
      const edits = [{ old_text: "cart.total()", new_text: "cart.totals()" }];
      const result = await call("edit_file", { path: "report.py", edits });
      assert.match(result, /1 new error:\nreport\.py:5:\d+: error: Cannot access attribute "totals"/);
    });

    await step("a rename changes all files", async () => {
      await call("edit_file", { path: "report.py", edits: [{ old_text: "totals", new_text: "total" }] });
      const result = await call("rename_symbol", { symbol: "Cart.total", path: "cart.py", new_name: "amount" });
      assert.match(result, /renamed `Cart\.total` to `amount` in 2 places of 2 files/);
      assert.equal(s.readFile("cart.py"), FILES["cart.py"].replace("total", "amount"));
      assert.equal(s.readFile("report.py"), FILES["report.py"].replace("cart.total", "cart.amount"));
    });
  });
});

// Pyright reports only what the editor asks for, and the editor asks only about files in tabs.
const SILENT = "nobody waits again for reports about files that are no longer in a tab";
test(SILENT, { timeout: 6 * TIMEOUT_MS, skip: SKIP }, () =>
  withWorkbench(SILENT, { ...OPTIONS, program: fakeServer }, async (s) => {
    const write = (text) => fs.writeFileSync(path.join(s.workspace, "report.py"), text);
    await s.showChat();
    await s.openFile("report.py");
    write("missing()\n");
    await s.sendPrompt("reported report.py");
    await waitForAnswer(s, 'reported: report.py:1 "missing" is not defined unreported: 0;');
    await s.runCommand("View: Close Editor");
    write("missing(1)\n");
    await s.sendPrompt("reported 3000 report.py");
    await waitForAnswer(s, "reported:  unreported: 1;");
    write("missing(2)\n");
    await s.sendPrompt("reported report.py");
    await waitForAnswer(s, "reported:  unreported: 0;");
  }),
);
