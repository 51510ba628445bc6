// Whole turns with the real server: changes in the diff editor, reverts and redos next to user edits, forks, the queue,
// and exports. Also questions, commands, agents, and instructions.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { CASSETTE_CONFIG, createStepRunner, openWorkbench, TIMEOUT_MS, waitUntil } from "./workbench.mjs";

const CONFIG = `${CASSETTE_CONFIG}mode = "full"

[agent.reviewer]
description = "Reads, and says what it thinks"
mode = "plan"
`;
const FILES = {
  "a.ts": "export const one = 1;\nexport const two = 2;\n",
  "old.ts": "export const old = true;\n",
  "c.ts": "export const c = 3;\n",
  "AGENTS.md": "Prefer small functions.\n",
  ".agentls/skills/ship/SKILL.md": "---\nname: ship\ndescription: How a version is made\n---\nTag it.\n",
  ".agentls/commands/review.md":
    '---\ndescription: Reviews a file\nargument-hint: "[file]"\n---\nReview $1 with care.\n',
  ".agentls/commands/ship.md": "Ship it.\n",
};

const tool = (name, input) => ({ tool: { name, input } });
const edit = (path, old_text, new_text) => tool("edit_file", { path, edits: [{ old_text, new_text }] });
/** The exchanges of a prompt: one per step, then the final text. */
const buildExchanges = (prompt, steps, reply) => [
  ...steps.map((events, step) => ({ when: { prompt, step }, repeat: true, events })),
  { when: { prompt, step: steps.length }, repeat: true, events: [{ text: reply }] },
];
const ask = tool("ask_user", {
  question: "Which languages shall it speak?",
  detail: "Each takes a day.",
  choices: ["German", "French", "Basque"],
  several: true,
});
const EXCHANGES = [
  ...buildExchanges(
    "the first change",
    [
      [tool("read_file", { path: "old.ts" })],
      [
        edit("a.ts", "one = 1", "one = 11"),
        tool("write_file", { path: "new/b.ts", content: "export const b = 2;\nexport const bb = 22;\n" }),
      ],
      [tool("bash", { command: "rm old.ts; printf 'a\\0b' > picture.bin" })],
    ],
    "Changed.",
  ),
  ...buildExchanges(
    "the second change",
    [[edit("a.ts", "one = 11", "one = 111"), edit("c.ts", "c = 3", "c = 33")]],
    "Once more.",
  ),
  ...buildExchanges(
    "write raw bytes",
    [[tool("bash", { command: "printf 'first\\0\\200\\342\\202\\r\\n' > raw.bin" })]],
    "Written.",
  ),
  ...buildExchanges("alter raw bytes", [[tool("bash", { command: "printf 'second\\377\\0' > raw.bin" })]], "Altered."),
  ...buildExchanges(
    "many files",
    [[tool("bash", { command: "mkdir many; cd many; seq 10000 | while read n; do echo $n > f$n; done" })]],
    "Many.",
  ),
  ...buildExchanges(
    "delegate it",
    [[tool("delegate", { prompt: "", tasks: [{ prompt: "find the bug" }, { prompt: "shaky child" }] })]],
    "Both have answered.",
  ),
  ...buildExchanges(
    "find the bug",
    [
      [tool("read_file", { path: "a.ts" })],
      [tool("bash", { command: "echo searching; until [ -e found ]; do sleep 0.05; done" })],
    ],
    "It is in line 2.",
  ),
  {
    when: { prompt: "shaky child" },
    events: [{ error: { status: 529, message: "Overloaded", retry_after_ms: 4000 } }],
  },
  { when: { prompt: "shaky child" }, repeat: true, events: [{ text: "It came at the second attempt." }] },
  ...buildExchanges("ask me", [[ask]], "As you say."),
  // It continues when the test creates the file.
  ...buildExchanges(
    "slowly",
    [[tool("bash", { command: "touch started; until [ -e go ]; do sleep 0.05; done" })]],
    "Slowly done.",
  ),
  { when: { prompt: "Review src/total.ts with care." }, repeat: true, events: [{ text: "It is fine." }] },
];

test("whole turns", { timeout: 12 * TIMEOUT_MS }, async (t) => {
  const s = await openWorkbench({ config: CONFIG, files: FILES, exchanges: EXCHANGES });
  const { page } = s;
  let turns = 0;
  const step = createStepRunner(t, s);
  const fileExists = (name) => fs.existsSync(path.join(s.workspace, name));
  const changes = (at) => s.at("changes").nth(at);
  const card = s.view.locator('[data-testid="revert-card"][data-armed="true"]');
  const diff = (side) => page.locator(`.monaco-diff-editor .${side} .view-line`);
  try {
    await step("the chat opens", () => s.showChat());

    await step("instructions are shown in one expandable line", async () => {
      await s.sendPrompt("make the first change");
      await s.waitForTurnEnd(++turns, "completed");
      const line = s.at("instructions");
      await line.locator("summary", { hasText: "Instructions: AGENTS.md, 1 skill" }).click();
      await line.getByText("project instructions").waitFor();
      await s.takeScreenshot("instructions");
      await line.getByRole("button", { name: "AGENTS.md" }).click();
      await page.locator('.monaco-editor[data-uri$="AGENTS.md"]').first().waitFor();
      await line.locator("summary").click();
    });

    await step("a turn's changes are listed and open in the diff editor", async () => {
      await changes(0)
        .filter({ hasText: /4 files changed\s*\+3 −2/ })
        .waitFor();
      const names = await changes(0).getByTestId("changed-file").locator(".path").allInnerTexts();
      assert.deepEqual(
        names.map((name) => name.replace(/\s.*/s, "")),
        ["a.ts", "b.ts", "old.ts", "picture.bin"],
      );
      await s.takeScreenshot("changes");
      await changes(0).getByRole("button", { name: /a\.ts/ }).click();
      await diff("original").filter({ hasText: "one = 1;" }).first().waitFor();
      await diff("modified").filter({ hasText: "one = 11;" }).first().waitFor();
      await page.locator(".tab.active", { hasText: "a.ts (agent's changes)" }).waitFor();
      await s.takeScreenshot("changes-diff");
      await changes(0)
        .getByRole("button", { name: /old\.ts/ })
        .click();
      await page.locator(".tab.active", { hasText: "old.ts (agent's changes)" }).waitFor();
      await diff("original").filter({ hasText: "old = true" }).first().waitFor();
      await changes(0).getByTestId("review-changes").click();
      await page.locator(".tab.active", { hasText: "3 files (agent's changes)" }).waitFor();
      await diff("modified").filter({ hasText: "bb = 22" }).first().waitFor();
      await s.takeScreenshot("changes-all");
    });

    await step("a revert shows a preview, and cancel changes nothing", async () => {
      await changes(0).getByTestId("revert").click();
      await card.filter({ hasText: "Revert the changes of this turn?" }).waitFor();
      assert.equal(await card.locator("ul").first().locator("li").count(), 4);
      await s.takeScreenshot("revert");
      await card.press("Enter");
      await card.press("n");
      await card.waitFor({ state: "detached" });
      assert.match(s.readFile("a.ts"), /one = 11;/);
      assert.ok(fileExists("new/b.ts") && !fileExists("old.ts"));
    });

    await step("a revert restores the files, also in the editor, and a redo reapplies them", async () => {
      await s.openFile("a.ts");
      await changes(0).getByTestId("revert").click();
      await card.press("y");
      await s.view.locator('[data-testid="changes"][data-standing="reverted"]').waitFor();
      assert.equal(s.readFile("a.ts"), FILES["a.ts"]);
      assert.equal(s.readFile("old.ts"), FILES["old.ts"]);
      assert.ok(!fileExists("new/b.ts") && !fileExists("picture.bin"));
      const line = page.locator('.monaco-editor[data-uri$="a.ts"] .view-line');
      await line.filter({ hasText: "one = 1;" }).first().waitFor();
      await s.view.locator(".note", { hasText: "Reverted changes to 4 files" }).waitFor();
      await s.takeScreenshot("reverted");
      await changes(0).getByRole("button", { name: /a\.ts/ }).click();
      await page.locator(".tab.active", { hasText: "a.ts (reverted changes)" }).waitFor();
      await diff("modified").filter({ hasText: "one = 11;" }).first().waitFor();
      await changes(0).getByTestId("redo").click();
      await card.getByTestId("confirm-revert").click();
      await s.view.locator('[data-testid="changes"][data-standing="redone"]').waitFor();
      assert.match(s.readFile("a.ts"), /one = 11;/);
      assert.ok(fileExists("new/b.ts") && !fileExists("old.ts") && fileExists("picture.bin"));
    });

    await step("a revert keeps and reports user edits, saved or not", async () => {
      await s.sendPrompt("make the second change");
      await s.waitForTurnEnd(++turns, "completed");
      await s.openFile("c.ts");
      await page.locator('.monaco-editor[data-uri$="c.ts"] .view-line', { hasText: "c = 33" }).first().click();
      await page.keyboard.press("End");
      await page.keyboard.type(" // mine");
      await page.locator(".tab.dirty", { hasText: "c.ts" }).waitFor();
      // Use the palette and the keyboard only.
      await s.runCommand("Agent: Revert or Redo Turn");
      await page.locator(".quick-input-list .monaco-list-row", { hasText: "make the first change" }).waitFor();
      await page.locator(".quick-input-widget input.input").fill("first");
      await page.keyboard.press("Enter");
      await card.filter({ hasText: "this turn and the later turn" }).waitFor();
      const conflicts = s.at("conflicts");
      await conflicts.filter({ hasText: "c.ts" }).waitFor();
      await s.takeScreenshot("revert-conflict");
      await card.press("y");
      await s.view.locator('[data-testid="changes"][data-standing="reverted"]').nth(1).waitFor();
      assert.equal(s.readFile("a.ts"), FILES["a.ts"]);
      assert.match(s.readFile("c.ts"), /c = 33;\n/);
      const typedLine = page.locator('.monaco-editor[data-uri$="c.ts"] .view-line', { hasText: "// mine" });
      await typedLine.first().waitFor();
      await page.locator(".tab.dirty", { hasText: "c.ts" }).waitFor();
      await changes(1).locator("li.unreverted", { hasText: "c.ts" }).filter({ hasText: "not reverted" }).waitFor();
      await s.takeScreenshot("reverted-both");
      // Redoing the first turn redoes both.
      await changes(1).getByTestId("redo").click();
      await card.filter({ hasText: "Redo the reverted changes?" }).waitFor();
      await card.press("y");
      await s.view.locator('[data-testid="changes"][data-standing="redone"]').nth(1).waitFor();
      assert.match(s.readFile("a.ts"), /one = 111;/);
      // Shows only the first turn's part of the change.
      await changes(0).getByRole("button", { name: /a\.ts/ }).click();
      await page.locator(".tab.active", { hasText: "a.ts (agent's changes)" }).waitFor();
      await diff("modified").filter({ hasText: "one = 11;" }).first().waitFor();
      await s.openFile("c.ts");
      await page.keyboard.press("Control+S");
      await page.locator(".tab.dirty").waitFor({ state: "detached" });
    });

    await step("10,000 files can be reverted and redone", async () => {
      await s.sendPrompt("make many files");
      await s.waitForTurnEnd(++turns, "completed");
      await changes(2)
        .filter({ hasText: /10000 files/ })
        .waitFor();
      await changes(2).getByTestId("revert").click();
      await card.filter({ hasText: "Revert 10000 files" }).waitFor();
      // The list scrolls, but the buttons stay in place.
      assert.ok((await card.getByTestId("confirm-revert").boundingBox()).y < 860);
      await s.takeScreenshot("revert-many");
      await card.press("y");
      await s.view.locator(".note", { hasText: "Reverted changes to 10000 files" }).waitFor();
      assert.ok(!fileExists("many/f777"));
      await changes(2).getByTestId("redo").click();
      await card.press("y");
      await s.view.locator(".note", { hasText: "Redone changes to 10000 files" }).waitFor();
      assert.equal(s.readFile("many/f777"), "777\n");
    });

    await step("a session can be forked at a turn", async () => {
      await s.at("log").evaluate((log) => log.scrollTo(0, 0));
      await s.at("changes").first().waitFor();
      await s.at("turn-end").first().hover();
      await s.at("turn-end").first().getByTestId("fork").click();
      await waitUntil(async () => (await s.countEndedTurns()) === 1, "the fork");
      // No third session appears in between.
      await s.at("turn-end").first().waitFor();
      assert.equal(await s.countEndedTurns(), 1);
      assert.equal(await s.at("changes").count(), 1);
      await page.locator(".notification-toast", { hasText: "Switched to “make the first change (fork)”" }).waitFor();
      await page.locator(".sidebar .composite.title", { hasText: "make the first change (fork)" }).waitFor();
      await s.takeScreenshot("forked");
      await s.sendPrompt("hello from the fork");
      await s.waitForTurnEnd(2, "completed");
      await s.runCommand("Agent: Show Sessions");
      await s.at("session").nth(1).waitFor();
      await s.at("session").last().click();
      await s.at("user").filter({ hasText: "make many files" }).waitFor();
    });

    await step("a session can be exported", async () => {
      await s.runCommand("Agent: Export Session");
      await page.locator(".quick-input-list .monaco-list-row", { hasText: "Markdown" }).first().click();
      const name = page.locator(".quick-input-widget input.input");
      await waitUntil(async () => (await name.inputValue()).endsWith(".md"));
      const file = path.join(s.workspace, "all.md");
      await name.fill(file);
      await page.keyboard.press("Enter");
      await page.locator(".tab.active", { hasText: "all.md" }).waitFor();
      await s.takeScreenshot("exported");
      const text = fs.readFileSync(file, "utf8");
      assert.match(text, /make the first change/);
      assert.match(text, /Once more\./);
    });

    await step("an open binary file is compared with the disk unless it has unsaved edits", async () => {
      await s.sendPrompt("write raw bytes");
      await s.waitForTurnEnd(++turns, "completed");
      const raw = () => fs.readFileSync(path.join(s.workspace, "raw.bin"), "latin1");
      assert.equal(raw(), "first\0\x80\xe2\x82\r\n");
      await changes(-1).getByTestId("changed-file").click();
      await page.locator(".monaco-editor-pane-placeholder").getByText("Open Anyway").click();
      await page.locator(".quick-input-list .monaco-list-row", { hasText: "Text Editor" }).first().click();
      const line = page.locator('.monaco-editor[data-uri$="raw.bin"] .view-line').first();
      await line.filter({ hasText: "first" }).waitFor();
      await s.sendPrompt("alter raw bytes");
      await s.waitForTurnEnd(++turns, "completed");
      await line.filter({ hasText: "second" }).waitFor();
      await changes(-1).getByTestId("revert").click();
      await card.filter({ hasText: "Revert the changes of this turn?" }).waitFor();
      await s.takeScreenshot("revert-raw");
      assert.equal(await s.at("conflicts").count(), 0);
      await card.press("y");
      await line.filter({ hasText: "first" }).waitFor();
      assert.equal(raw(), "first\0\x80\xe2\x82\r\n");
      // Unsaved text belongs to the user.
      await line.click();
      await page.keyboard.type("mine");
      await page.locator(".tab.dirty", { hasText: "raw.bin" }).waitFor();
      await changes(-1).getByTestId("redo").click();
      await s.at("conflicts").filter({ hasText: "raw.bin" }).waitFor();
      await card.press("n");
      assert.equal(raw(), "first\0\x80\xe2\x82\r\n");
      await page.locator(".tab.dirty", { hasText: "raw.bin" }).click();
      await s.runCommand("File: Revert File");
      await page.locator(".tab.dirty").waitFor({ state: "detached" });
    });

    await step("queued prompts are sent one by one after the turn", async () => {
      await s.sendPrompt("slowly now");
      await s.view.locator('[data-testid="tool"][data-status="running"]').waitFor();
      await s.at("input").fill("first in the queue");
      await s.at("input").press("Alt+Enter");
      await s.at("queued").filter({ hasText: "first in the queue" }).waitFor();
      await s.at("input").fill("second in the queue");
      await s.at("enqueue").click();
      await s.at("queued").nth(1).waitFor();
      // While a turn runs, reverts are disabled and the tooltip says why.
      const revert = s.view.locator('[data-testid="revert"], [data-testid="redo"]');
      assert.deepEqual(
        await revert.evaluateAll((all) => [
          ...new Set(all.map((button) => [button.disabled, button.title].join(": "))),
        ]),
        ["true: A turn is running. Revert or redo after it ends."],
      );
      await page.keyboard.press("F1");
      await page.locator(".quick-input-widget input.input").fill(">Turn");
      await page.locator(".quick-input-list .monaco-list-row", { hasText: "Fork Session at Turn" }).waitFor();
      assert.equal(await page.locator(".quick-input-list .monaco-list-row", { hasText: "Redo Turn" }).count(), 0);
      await page.keyboard.press("Escape");
      await s.takeScreenshot("queue");
      fs.writeFileSync(path.join(s.workspace, "go"), "");
      turns += 3;
      await s.waitForTurnEnd(turns, "completed");
      await s.at("queue").waitFor({ state: "detached" });
      const prompts = await s.at("user").allTextContents();
      assert.deepEqual(prompts.slice(-3), ["slowly now", "first in the queue", "second in the queue"]);
    });

    await step("a stop pauses the queue, and its prompts can be edited, removed, and sent", async () => {
      await s.sendPrompt("forever");
      await s.at("assistant").filter({ hasText: "Once upon a time" }).last().waitFor();
      for (const text of ["one", "two", "three"]) {
        await s.at("input").fill(`queued ${text}`);
        await s.at("input").press("Alt+Enter");
        await s
          .at("queued")
          .filter({ hasText: `queued ${text}` })
          .waitFor();
      }
      await s.at("input").press("Escape");
      await s.waitForTurnEnd(++turns, "cancelled");
      await s.view.locator('[data-testid="queue"][data-paused="true"]').waitFor();
      await s.at("queue").filter({ hasText: "Paused: 3 prompts" }).waitFor();
      await s.takeScreenshot("queue-held");
      await s
        .at("queued")
        .filter({ hasText: "queued one" })
        .getByRole("button", { name: /^Remove/ })
        .click();
      await s.at("queued").nth(2).waitFor({ state: "detached" });
      await s.at("queued").filter({ hasText: "queued three" }).getByRole("button", { name: /^Edit/ }).click();
      const field = s.at("queue-edit").locator("textarea");
      assert.equal(await field.inputValue(), "queued three");
      await field.fill("queued three, edited");
      await s.takeScreenshot("queue-edit");
      await field.press("Enter");
      const three = s.at("queued").filter({ hasText: "queued three, edited" });
      await three.waitFor();
      // The queue stays paused after a reload of the window and the server.
      await s.reloadWindow();
      await s.waitUntilReady();
      await three.waitFor();
      turns = await s.countEndedTurns();
      await three.getByRole("button", { name: /^Send now/ }).click();
      // The prompt is sent, and the next one follows.
      turns += 2;
      await s.waitForTurnEnd(turns, "completed");
      await s.at("queue").waitFor({ state: "detached" });
      const prompts = await s.at("user").allTextContents();
      assert.deepEqual(prompts.slice(-2), ["queued three, edited", "queued two"]);
    });

    await step("a question accepts digit keys, several choices, and free text", async () => {
      await s.sendPrompt("ask me");
      const question = s.at("question");
      await question.filter({ hasText: "Which languages shall it speak?" }).waitFor();
      await question.filter({ hasText: "Each takes a day." }).waitFor();
      assert.equal(
        await s.view.locator('[data-testid="tool"]', { hasText: "Ask:" }).count(),
        0,
        "asked once, not twice",
      );
      await question.press("1");
      await question.press("3");
      await question.press("3");
      await question.press("2");
      assert.deepEqual(
        await question.locator("input[type=checkbox]").evaluateAll((all) => all.map((checkbox) => checkbox.checked)),
        [true, true, false],
      );
      await question.locator("input[type=text]").fill("Frisian");
      await s.takeScreenshot("question-real");
      await question.locator("input[type=text]").press("Enter");
      await s.waitForTurnEnd(++turns, "completed");
      await s.view.locator(".note", { hasText: "→ German, French, Frisian" }).waitFor();
      await s.sendPrompt("ask me again");
      await s.at("question").getByRole("button", { name: "Dismiss" }).click();
      await s.waitForTurnEnd(++turns, "completed");
      await s.view.locator(".note", { hasText: "(not answered)" }).waitFor();
    });

    await step("/ completes commands, and the expanded prompt is shown", async () => {
      await s.at("input").fill("");
      await s.at("input").pressSequentially("/rev");
      const row = s.at("suggestions").locator("[role=option]", { hasText: "/review" });
      await row.filter({ hasText: "[file] · Reviews a file" }).waitFor();
      // The editor's command comes after the user's own one.
      assert.deepEqual(await s.at("suggestions").locator(".label").allTextContents(), ["/review", "/revert"]);
      await s.takeScreenshot("commands");
      await s.at("input").press("Enter");
      await waitUntil(async () => (await s.at("input").inputValue()) === "/review ");
      await s.at("input").pressSequentially("src/total.ts");
      await s.at("input").press("Enter");
      await s.waitForTurnEnd(++turns, "completed");
      await s.at("user").filter({ hasText: "Review src/total.ts with care." }).waitFor();
      await s.at("assistant").filter({ hasText: "It is fine." }).waitFor();
    });

    await step("changed instructions are reported", async () => {
      fs.writeFileSync(path.join(s.workspace, "AGENTS.md"), "Prefer large functions.\n");
      fs.writeFileSync(path.join(s.workspace, "TOOLS.md"), "Use make.\n");
      await s.sendPrompt("hello again");
      await s.waitForTurnEnd(++turns, "completed");
      await s.at("warning").filter({ hasText: "AGENTS.md changed" }).waitFor();
      await s.at("warning").filter({ hasText: "TOOLS.md is new" }).waitFor();
      await s.at("instructions").last().filter({ hasText: "Instructions: AGENTS.md, TOOLS.md, 1 skill" }).waitFor();
      await s.takeScreenshot("instructions-changed");
    });

    await step("sub-agents' work is shown under their call and collapses when done", async () => {
      await s.sendPrompt("delegate it");
      const call = s.view.locator('[data-testid="tool"]', { hasText: "Delegate 2 tasks" }).first();
      await call.getByTestId("subagent").getByText("[1] Read a.ts").waitFor();
      await call.getByTestId("notice").filter({ hasText: "attempt 2 of" }).waitFor();
      assert.equal(
        await s.at("turn-status").getByTestId("notice").count(),
        0,
        "the retry of a sub-agent is not shown as the session's",
      );
      await call.getByTestId("subagent").getByText("until [ -e found ]").first().waitFor();
      await s.takeScreenshot("delegate");
      fs.writeFileSync(path.join(s.workspace, "found"), "");
      await s.waitForTurnEnd(++turns, "completed");
      await call.getByTestId("subagent").waitFor({ state: "detached" });
      await call.getByText("2 calls").waitFor();
      await s.takeScreenshot("delegate-done");
      await call.locator(".head").first().click();
      await call.locator(".markdown p", { hasText: "It is in line 2." }).waitFor();
    });

    await step("selecting another agent starts a new session", async () => {
      await s.at("agent").click();
      await page.locator(".quick-input-list .monaco-list-row", { hasText: "reviewer" }).waitFor();
      await s.takeScreenshot("agents");
      await page.locator(".quick-input-list .monaco-list-row", { hasText: "reviewer" }).click();
      await s.at("welcome").waitFor();
      await s.at("agent").filter({ hasText: "reviewer" }).waitFor();
      await s.at("mode").filter({ hasText: "Plan" }).waitFor();
      await s.sendPrompt("hello reviewer");
      await s.waitForTurnEnd(1, "completed");
      await s.at("agent").filter({ hasText: "reviewer" }).waitFor();
      await s.reloadWindow();
      await s.waitUntilReady();
      await s.at("agent").filter({ hasText: "reviewer" }).waitFor();
    });
  } finally {
    await s.close();
  }
});
