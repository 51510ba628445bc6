// Less common use: edited arguments, rules, limits, compaction, two folders, notebooks, pictures, circuit breakers, and
// long sessions.

import assert from "node:assert/strict";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { test } from "node:test";
import { TIMEOUT_MS, waitUntil, withWorkbench } from "./workbench.mjs";

const CONFIG = `[provider.tape]
kind = "script"
cassette = "cassette.json"
model = "tape"
max_retries = 5
initial_backoff_ms = 1
max_backoff_ms = 2

[provider.weak]
kind = "script"
cassette = "weak.json"
model = "weak"
max_retries = 0
fallback = "tape"

[agent.default]
provider = "tape"
max_turn_cost = 0.05
`;
const NOTEBOOK = JSON.stringify({
  cells: [{ cell_type: "markdown", metadata: {}, source: ["# Sales of one year"] }],
  metadata: {},
  nbformat: 4,
  nbformat_minor: 5,
});

const tool = (name, input) => ({ tool: { name, input } });
const edit = (path, old_text, new_text) => tool("edit_file", { path, edits: [{ old_text, new_text }] });
/** The exchanges of a prompt: its events, then the final text. */
const buildExchanges = (prompt, events, reply) => [
  { when: { prompt, step: 0 }, repeat: true, events },
  { when: { prompt, step: 1 }, repeat: true, events: [{ text: reply }] },
];
const plan = (at) => tool("update_plan", { items: [{ text: `Step ${at}`, status: "in_progress" }] });
const EXCHANGES = [
  // Must come first, because the history contains the other prompts.
  { when: { prompt: "Write the notes now" }, repeat: true, events: [{ text: "The person tried things out." }] },
  ...buildExchanges("touch it", [tool("bash", { command: "touch stamp.txt" })], "Touched."),
  ...buildExchanges("both folders", [edit("same.ts", "1", "2"), edit("second/same.ts", "1", "3")], "Both are changed."),
  ...buildExchanges("notebook", [edit("sales.ipynb", "one year", "two years")], "The notebook waits."),
  ...buildExchanges("spend", [plan(1), { usage: { input: 9000, output: 900, cost: 0.06 } }], "It was worth it."),
  ...buildExchanges(
    "many things",
    Array.from({ length: 40 }, (_, at) => plan(at)),
    "Many things are done.",
  ),
  { when: { prompt: "broken" }, repeat: true, events: [{ error: { status: 500, message: "out of order" } }] },
];

/** A model that always fails. */
const FAILING_EXCHANGES = [
  { when: { prompt: "" }, repeat: true, events: [{ error: { status: 500, message: "out of order" } }] },
];

test("approvals, limits, folders, and notebooks", { timeout: 12 * TIMEOUT_MS }, async (t) => {
  const files = { "only.ts": "export function basket() {}\n", "same.ts": "let a = 1;\n", "sales.ipynb": NOTEBOOK };
  const options = {
    config: CONFIG,
    files,
    second: { "same.ts": "let b = 1;\n" },
    exchanges: EXCHANGES,
    weak: FAILING_EXCHANGES,
  };
  await withWorkbench("work", options, async (s, page) => {
    let turns = 0;
    /** Takes a screenshot on failure. */
    const step = (name, body) =>
      t.test(name, async () => {
        try {
          await body();
        } catch (error) {
          await s.takeScreenshot(`failed ${name.replaceAll(/\W+/g, "-").slice(0, 40)}`).catch(() => {});
          throw error;
        }
      });
    await s.showChat();
    await s.openFile("only.ts");

    await step("edited arguments are run", async () => {
      await s.sendPrompt("run the tests");
      await s.card.press("e");
      const field = s.at("approval").locator("textarea");
      await field.fill('{ "command": "echo edited > ran.txt"');
      await s.at("approval").locator(".problem").waitFor();
      await field.press("Control+Enter");
      await field.fill('{ "command": "echo edited > ran.txt" }');
      await s.takeScreenshot("edit-arguments");
      await field.press("Enter");
      // If Enter had allowed the call, this denial would be too late.
      await field.press("Escape");
      await s.card.press("n");
      await s.waitForTurnEnd(++turns, "completed");
      assert.equal(await s.view.locator('[data-testid="tool"][data-status="denied"]').count(), 1);
      assert.ok(!fs.existsSync(path.join(s.workspace, "ran.txt")), "nothing ran");
      await s.sendPrompt("run the tests again");
      await s.card.press("e");
      await field.fill('{ "command": "echo edited > ran.txt" }');
      await field.press("Control+Enter");
      await s.waitForTurnEnd(++turns, "completed");
      assert.equal(s.readFile("ran.txt"), "edited\n");
    });

    await step('"always" shows the rule first, applies it, and it can be revoked', async () => {
      await s.sendPrompt("touch it");
      await s.card.press("a");
      const rule = s.at("approval").locator("textarea");
      assert.match(await rule.inputValue(), /^bash\(touch.*\)$/);
      await s.takeScreenshot("always");
      await rule.press("Control+Enter");
      await s.waitForTurnEnd(++turns, "completed");
      fs.rmSync(path.join(s.workspace, "stamp.txt"));
      await s.sendPrompt("touch it again");
      await s.waitForTurnEnd(++turns, "completed");
      assert.equal(s.readFile("stamp.txt"), "");
      await s.runCommand("Agent: Manage Grants");
      await page.locator(".quick-input-list .monaco-list-row", { hasText: "bash(touch" }).waitFor();
      await page.keyboard.press("Enter");
      await page.locator(".monaco-dialog-box").getByRole("button", { name: "Revoke" }).click();
      await page.locator(".notification-toast", { hasText: "There are no grants" }).first().waitFor();
      await s.sendPrompt("touch it once more");
      await s.card.press("n");
      await s.waitForTurnEnd(++turns, "completed");
    });

    await step("the same path in two folders means two files", async () => {
      await s.at("input").fill("");
      await s.at("input").pressSequentially("look @same");
      await s.at("suggestions").locator("[role=option]", { hasText: "shop/same.ts" }).waitFor();
      await s.at("suggestions").locator("[role=option]", { hasText: "second/same.ts" }).waitFor();
      await s.at("input").press("Escape");
      await s.at("input").fill("");
      await s.sendPrompt("both folders");
      await s.at("approval").nth(1).waitFor();
      await s.takeScreenshot("two-folders");
      await s.allowRequest();
      await s.at("approval").nth(1).waitFor({ state: "detached" });
      await s.allowRequest();
      await s.waitForTurnEnd(++turns, "completed");
      assert.equal(s.readFile("same.ts"), "let a = 2;\n");
      assert.equal(s.readFile("../second/same.ts"), "let b = 3;\n");
    });

    await step("an unsaved notebook is not changed", async () => {
      await page.keyboard.press("Control+P");
      await page.locator(".quick-input-widget input.input").fill("sales.ipynb");
      await page.locator(".quick-input-list .monaco-list-row", { hasText: "sales.ipynb" }).first().click();
      await page
        .locator(".notebookOverlay .cell-list-container .monaco-list-row")
        .first()
        .waitFor({ state: "attached" });
      await page
        .locator(".notebookOverlay .notebook-toolbar-container, .notebook-toolbar-container")
        .getByText("Code", { exact: true })
        .first()
        .click();
      await page.locator(".tab.dirty").waitFor();
      await s.sendPrompt("fix the notebook");
      await s.allowRequest();
      await s.waitForTurnEnd(++turns, "completed");
      assert.equal(await s.view.locator('[data-testid="tool"][data-status="failed"]').count(), 1);
      await s.at("output").filter({ hasText: "unsaved changes; save it first" }).waitFor();
      assert.equal(s.readFile("sales.ipynb"), NOTEBOOK);
      await s.takeScreenshot("notebook");
      await page.locator(".tab.dirty").click();
      await page.keyboard.press("Control+S");
      await page.locator(".tab.dirty").waitFor({ state: "detached" });
      await s.sendPrompt("fix the notebook now");
      await s.allowRequest();
      await s.waitForTurnEnd(++turns, "completed");
      assert.match(s.readFile("sales.ipynb"), /two years/);
    });

    await step("a limit can be raised or enforced", async () => {
      await s.sendPrompt("spend it");
      await s.at("limit").waitFor();
      await s.takeScreenshot("limit-real");
      await s.at("limit").locator("input").fill("0.5");
      await s.at("limit").getByRole("button", { name: "Raise and continue" }).press("Enter");
      assert.equal(await s.at("limit").count(), 1, "Enter alone raises nothing");
      await s.at("limit").getByRole("button", { name: "Raise and continue" }).click();
      await s.waitForTurnEnd(++turns, "completed");
      await s.view.locator(".note", { hasText: "raised by $0.50" }).waitFor();
      await s.sendPrompt("spend it again");
      await s.at("limit").getByRole("button", { name: "Stop" }).click();
      await s.waitForTurnEnd(++turns, "interrupted");
    });

    await step("unsupported files are reported when pasted or dropped", async () => {
      const dispatchFile = (event, name, type, bytes) =>
        s.at("input").evaluate(
          (input, [event, name, type, bytes]) => {
            const data = new DataTransfer();
            data.items.add(new File([new Uint8Array(bytes)], name, { type }));
            const eventInit = event === "drop" ? { dataTransfer: data } : { clipboardData: data };
            const Kind = event === "drop" ? DragEvent : ClipboardEvent;
            input.dispatchEvent(new Kind(event, { ...eventInit, bubbles: true, cancelable: true }));
          },
          [event, name, type, bytes],
        );
      const rejection = s.at("not-attached");
      await dispatchFile("paste", "large.png", "image/png", 11_000_000);
      await rejection
        .filter({ hasText: "large.png was not attached. It is 11.0 MB, and the limit is 10 MB" })
        .waitFor();
      await dispatchFile("paste", "large.gif", "image/gif", 11_000_000);
      await rejection.filter({ hasText: "large.gif was not attached. It is 11.0 MB" }).waitFor();
      await dispatchFile("paste", "spec.pdf", "application/pdf", 10);
      await rejection.filter({ hasText: "spec.pdf was not attached. Only PNG" }).waitFor();
      await dispatchFile("drop", "notes.docx", "application/msword", 10);
      await rejection.filter({ hasText: "notes.docx was not attached" }).waitFor();
      await s.takeScreenshot("not-attached");
      await rejection.getByRole("button").click();
      await rejection.waitFor({ state: "detached" });
      const remove = (name) => s.view.getByRole("button", { name: new RegExp(`^Remove ${name}`) });
      for (const name of ["one.png", "two.png"]) {
        await dispatchFile("paste", name, "image/png", 9_500_000);
        await remove(name).waitFor();
      }
      await dispatchFile("paste", "three.png", "image/png", 2_000_000);
      await rejection
        .filter({ hasText: "three.png was not attached. The pictures of a prompt may have 20 MB" })
        .waitFor();
      for (const name of ["one.png", "two.png"]) await remove(name).click();
      await rejection.getByRole("button").click();
    });

    await step("a picture can be pasted", async () => {
      await s.at("input").evaluate((input) => {
        const png = Uint8Array.from(
          atob("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="),
          (c) => c.charCodeAt(0),
        );
        const data = new DataTransfer();
        data.items.add(new File([png], "shot.png", { type: "image/png" }));
        input.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
      });
      await s.view.locator(".chip").first().waitFor();
      await s.sendPrompt("what is this?");
      await s.waitForTurnEnd(++turns, "completed");
      await s.at("user").last().filter({ hasText: "1 picture" }).waitFor();
    });

    await step("a command compacts the session", async () => {
      await s.runCommand("Agent: Compact Session");
      await s.view.locator(".note", { hasText: /^Compacted: .* → .* tokens$/ }).waitFor();
      await s.waitForTurnEnd(++turns, "completed");
      await s.sendPrompt("still there?");
      await s.waitForTurnEnd(++turns, "completed");
    });

    await step("model and effort can be selected, and a fallback is shown", async () => {
      await s.at("model").click();
      await page.locator(".quick-input-list .monaco-list-row", { hasText: "weak/weak" }).click();
      await s.at("model").filter({ hasText: "weak" }).waitFor();
      await s.view.getByRole("button", { name: "Effort" }).click();
      await page.locator(".quick-input-list .monaco-list-row", { hasText: "Thinks longer." }).click();
      await s.view.getByRole("button", { name: "Effort: high" }).waitFor();
      await s.sendPrompt("hello to the weak");
      await s.waitForTurnEnd(++turns, "completed");
      await s.view.locator(".note", { hasText: "switched to tape/tape" }).waitFor();
      await s.takeScreenshot("taken-over");
      await s.at("model").click();
      await page.locator(".quick-input-list .monaco-list-row", { hasText: "tape/tape" }).click();
      await s
        .at("model")
        .filter({ hasText: /^tape$/ })
        .waitFor();
    });

    await step("@ finds symbols", async () => {
      const symbol = s.at("suggestions").locator("[role=option]", { hasText: "basket" });
      // The language server needs time, and each letter searches again.
      await waitUntil(async () => {
        await s.at("input").fill("");
        await s.at("input").pressSequentially("see @basket");
        return symbol
          .first()
          .waitFor({ timeout: 1000 })
          .then(
            () => true,
            () => false,
          );
      }, "the symbol");
      await s.at("input").fill("");
    });

    await step("a command shows the log, and the status bar has an entry", async () => {
      await s.runCommand("Agent: Show Log");
      await page.locator('.panel .monaco-editor[data-uri*="agentls"], .panel .output-view-container').first().waitFor();
      await page.locator(".statusbar-item", { hasText: "agentls" }).first().waitFor();
      await s.runCommand("View: Toggle Panel Visibility");
    });

    await step("an open circuit breaker is shown and can be reset", async () => {
      await s.sendPrompt("broken");
      await s.waitForTurnEnd(++turns, "failed");
      const notice = s.at("notice").filter({ hasText: "tape failed too often" });
      await notice.waitFor();
      await s.takeScreenshot("circuit");
      await notice.getByRole("button", { name: "Reset circuit breaker" }).click();
      await page.locator(".quick-input-list .monaco-list-row", { hasText: "tape" }).click();
      await s.sendPrompt("hello again");
      await s.waitForTurnEnd(++turns, "completed");
      await notice.waitFor({ state: "detached" });
    });

    await step("a long session shows its end, and loads earlier turns on demand", async () => {
      await s.runCommand("Agent: New Session");
      await s.at("welcome").waitFor();
      for (let turn = 1; turn <= 2; turn++) {
        await s.sendPrompt(`many things, part ${turn}`);
        await s.waitForTurnEnd(turn, "completed");
      }
      await s.reloadWindow();
      await s.waitUntilReady();
      await s.at("user").filter({ hasText: "part 2" }).waitFor();
      const first = s.at("user").filter({ hasText: "part 1" });
      assert.equal(await first.count(), 0);
      for (let page = 0; page < 4 && (await first.count()) === 0; page++) {
        const readFirstIndex = () => s.at("log").getAttribute("data-first");
        const before = await readFirstIndex();
        await s.view.getByRole("button", { name: "Show earlier" }).click();
        await waitUntil(async () => (await readFirstIndex()) !== before, "the earlier page");
      }
      await s.at("log").evaluate((log) => log.scrollTo(0, 0));
      await first.waitFor();
    });
  });
});

/** Starts a provider that accepts one key. */
async function startProvider(key) {
  const server = http.createServer((request, response) => {
    if (request.headers["x-api-key"] !== key) {
      const error = { type: "authentication_error", message: "invalid x-api-key" };
      response.writeHead(401, { "content-type": "application/json" });
      response.end(JSON.stringify({ type: "error", error }));
    } else if (request.method === "GET") {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ data: [{ id: "one" }] }));
    } else {
      response.writeHead(200, { "content-type": "text/event-stream" });
      const usage = { input_tokens: 5, output_tokens: 2 };
      for (const event of [
        {
          type: "message_start",
          message: { id: "m", type: "message", role: "assistant", content: [], model: "one", usage },
        },
        { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
        { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "The key is right." } },
        { type: "content_block_stop", index: 0 },
        { type: "message_delta", delta: { stop_reason: "end_turn" }, usage },
        { type: "message_stop" },
      ]) {
        response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
      }
      response.end();
    }
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return server;
}

test("an API key is entered, checked, stored, and used", { timeout: 6 * TIMEOUT_MS }, async () => {
  const key = "sk-right-0123456789";
  const server = await startProvider(key);
  const config = `[provider.anthropic]
base_url = "http://127.0.0.1:${server.address().port}"
model = "one"

[logging]
filter = "trace"
`;
  const options = { config, ownHost: true };
  try {
    await withWorkbench("work", options, async (s, page) => {
      const enter = async (text) => {
        await s.view.getByRole("button", { name: "Enter API key…" }).click();
        await page.locator(".quick-input-list .monaco-list-row", { hasText: "Anthropic" }).click();
        const input = page.locator('.quick-input-widget input[type="password"]');
        await input.fill(text);
        await input.press("Enter");
      };
      await s.showChat();
      await s.sendPrompt("hello");
      await s.at("first-contact").waitFor();
      await enter("sk-wrong-0123456789");
      await s.at("key-check").filter({ hasText: "Rejected by anthropic: " }).waitFor();
      await s.takeScreenshot("key-refused");
      await enter(key);
      await s.at("key-check").filter({ hasText: "The key works: anthropic accepted it." }).waitFor();
      await s.takeScreenshot("key-works");
      await s.at("first-contact").getByRole("button", { name: "Try again" }).click();
      await s.at("assistant").filter({ hasText: "The key is right." }).waitFor();
      // The key survives a reload, and no file contains it in plain text except the editor's secret store.
      await s.reloadWindow();
      await s.waitUntilReady();
      await s.sendPrompt("hello again");
      await s.at("assistant").nth(1).waitFor();
      assert.deepEqual(listFilesContaining(s.home, key), []);
      // (Output channels are empty here, because that part of VS Code is not compiled. src/test/trace.test.ts checks
      // that the trace contains no key.)
    });
  } finally {
    server.close();
  }
});

/** Lists the files below `folder` that contain `text`. The editor stores secrets in the browser. */
function listFilesContaining(folder, text) {
  return fs
    .readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .filter((file) => fs.readFileSync(file).includes(text));
}
