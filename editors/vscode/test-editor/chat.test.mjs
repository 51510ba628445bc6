// Everyday use in a real VS Code with the real server. The model is a cassette.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { after, before, test } from "node:test";
import { CASSETTE_CONFIG, openWorkbench, TIMEOUT_MS, waitUntil } from "./workbench.mjs";

const TOTAL = `type Item = { price: number };

export function total(items: Item[]) {
  return items.reduce(add).price;
}

function add(a: Item, b: Item): Item {
  return { price: a.price + b.price };
}
`;

let s;
let turns = 0;
before(
  async () => {
    s = await openWorkbench({
      config: CASSETTE_CONFIG,
      files: {
        "src/total.ts": TOTAL,
        "src/tax.ts": "export const TAX = 0.19;\n",
        ".gitignore": "built/\n",
        ...Object.fromEntries(
          Array.from({ length: 400 }, (_, at) => [`${at % 2 ? "node_modules" : "built"}/${at}/tax.ts`, "\n"]),
        ),
      },
    });
    await s.showChat();
  },
  { timeout: 2 * TIMEOUT_MS },
);
after(() => s?.close(), { timeout: TIMEOUT_MS });

/** Reports the view on failure. A turn that a failed test left out does not count in the next one. */
function testInChat(name, body) {
  test(name, { timeout: 3 * TIMEOUT_MS }, async () => {
    try {
      turns = await s.countEndedTurns();
      await body(s.page);
    } catch (error) {
      await s.reportFailure(name);
      throw error;
    }
  });
}

testInChat("the start page shows the default model", async () => {
  await s.at("welcome").waitFor();
  assert.equal(await s.at("model").textContent(), "tape");
  await s.takeScreenshot("welcome");
});

testInChat("an answer streams as Markdown that runs and fetches nothing", async (page) => {
  const fetched = [];
  page.on("request", (request) => fetched.push(request.url()));
  await s.openFile("total.ts");
  await s.sendPrompt("explain total");
  await s.waitForTurnEnd(++turns, "completed");
  const answer = s.at("assistant").first();
  assert.equal(await answer.locator("h2 code").textContent(), "total");
  assert.equal(await answer.locator("table td").count(), 4);
  assert.ok((await answer.locator("pre .hljs-keyword").count()) > 2, "code is coloured");
  assert.equal(await answer.locator("script, img").count(), 0);
  assert.deepEqual(
    fetched.filter((url) => url.includes("example.com")),
    [],
  );
  assert.match(await s.at("cost").textContent(), /\$0\.03/);
  assert.match(await s.at("context").textContent(), /24%/);
  await s.takeScreenshot("answer");
});

testInChat("Enter alone never allows a call; a key does", async () => {
  await s.sendPrompt("run the tests");
  const card = s.view.locator('[data-testid="approval"][data-armed="true"]');
  await card.waitFor();
  await s.at("plan").waitFor();
  await s.takeScreenshot("approval");
  await card.press("Enter");
  await s.at("action-y").focus();
  await s.at("action-y").press("Enter");
  // If Enter had allowed the call, it would have run before this denial.
  await card.press("n");
  await s.waitForTurnEnd(++turns, "completed");
  assert.equal(await s.view.locator('[data-testid="tool"][data-status="denied"]').count(), 1);
  assert.ok(!fs.existsSync(path.join(s.workspace, "ran.txt")), "nothing ran");
  await s.sendPrompt("run the tests again");
  await card.press("y");
  await s.waitForTurnEnd(++turns, "completed");
  assert.equal(s.readFile("ran.txt"), "ran\n");
  await s.view.locator('[data-testid="tool"][data-status="completed"] .head', { hasText: "bash" }).click();
  await s.at("output").filter({ hasText: "test 3 ok" }).waitFor();
  await s.takeScreenshot("ran");
});

testInChat("a denial with a reason reaches the model", async () => {
  await s.sendPrompt("delete it");
  const card = s.view.locator('[data-testid="approval"][data-armed="true"]');
  await card.waitFor();
  await s.at("deny-reason").click();
  const field = s.at("approval").locator("textarea");
  await field.fill("Keep the folder.");
  await field.press("Enter");
  await field.press("Control+Enter");
  await s.waitForTurnEnd(++turns, "completed");
  await s.view.locator('[data-testid="tool"][data-status="denied"]').last().waitFor();
  await s.at("assistant").filter({ hasText: "leave it as it is" }).waitFor();
});

testInChat("a proposed edit can be reviewed by hunk, applied, and undone", async (page) => {
  await s.sendPrompt("add a guard");
  const card = s.view.locator('[data-testid="approval"][data-armed="true"]');
  await card.waitFor();
  await s.takeScreenshot("edit-asked");
  await card.press("d");
  const right = page.locator(".monaco-diff-editor .modified .view-line");
  await right.filter({ hasText: "// cents" }).first().waitFor();
  await s.takeScreenshot("review");
  await right.filter({ hasText: "// cents" }).first().click();
  await s.runCommand("Reject This Hunk");
  await page.waitForFunction(
    () =>
      ![...document.querySelectorAll(".monaco-diff-editor .modified .view-line")].some((line) =>
        line.textContent.includes("cents"),
      ),
  );
  await s.takeScreenshot("review-left-out");
  await s.runCommand("Allow Reviewed Edit");
  await s.waitForTurnEnd(++turns, "completed");
  assert.equal(s.readFile("src/total.ts"), TOTAL.replace("reduce(add)", "reduce(add, { price: 0 })"));
  const line = page.locator('.monaco-editor[data-uri$="total.ts"] .view-line', { hasText: "{ price: 0 }" }).first();
  await line.waitFor();
  await s.takeScreenshot("edited");
  await line.click();
  await page.keyboard.press("Control+Z");
  await page
    .locator('.monaco-editor[data-uri$="total.ts"] .view-line', { hasText: "reduce(add).price" })
    .first()
    .waitFor();
  await page.keyboard.press("Control+Y");
});

testInChat("@ finds files, and one click attaches the selection", async (page) => {
  await s.at("input").fill("");
  await s.at("input").pressSequentially("hello @tax");
  await s.at("suggestions").locator("[role=option]", { hasText: "src/tax.ts" }).waitFor();
  const labels = await s.at("suggestions").locator("[role=option] .label").allTextContents();
  assert.deepEqual(
    labels.filter((label) => /node_modules|built/.test(label)),
    [],
    "only the project's own",
  );
  await s.takeScreenshot("mention");
  await s.at("input").press("Enter");
  await s.view.locator(".chip", { hasText: "src/tax.ts" }).first().waitFor();
  assert.match(await s.at("input").inputValue(), /^hello src\/tax\.ts $/);
  await page
    .locator('.monaco-editor[data-uri$="total.ts"] .view-line', { hasText: "function add" })
    .first()
    .click({ clickCount: 3 });
  await s.at("active-file").filter({ hasText: "src/total.ts:7" }).click();
  await s.at("input").press("Enter");
  await s.waitForTurnEnd(++turns, "completed");
  const prompt = s.at("user").last();
  await prompt.getByRole("button", { name: "src/tax.ts" }).waitFor();
  await prompt.getByRole("button", { name: "src/total.ts:7" }).waitFor();
});

testInChat("@ attaches only what was found for its own query", async () => {
  // Holds the answers back, as a slow search does.
  await s.at("app").evaluate(() => {
    window.heldAnswers = undefined;
    const hold = (event) => {
      if (event.data.type !== "suggestions" || window.heldAnswers === undefined) return;
      event.stopImmediatePropagation();
      window.heldAnswers.push(event.data);
    };
    window.addEventListener("message", hold, true);
  });
  const options = s.at("suggestions").locator("[role=option]");
  const prompts = await s.at("user").count();
  await s.at("input").pressSequentially("see @tax");
  await options.filter({ hasText: "src/tax.ts" }).waitFor();
  await s.at("app").evaluate(() => {
    window.heldAnswers = [];
  });
  await s.at("input").fill("");
  await s.at("input").pressSequentially("see @total");
  await s.at("input").press("Enter");
  assert.equal(await options.count(), 0);
  assert.equal(await s.at("input").inputValue(), "see @total");
  assert.equal(await s.view.locator(".chip", { hasText: "src/tax.ts" }).locator("[aria-label^=Remove]").count(), 0);
  await s.at("no-suggestions").filter({ hasText: "Searching" }).waitFor();
  await s.at("app").evaluate(() => {
    const answers = window.heldAnswers;
    window.heldAnswers = undefined;
    for (const data of answers) window.postMessage(data);
  });
  await options.filter({ hasText: "src/total.ts" }).first().waitFor();
  await s.at("input").press("Enter");
  await s.view.getByRole("button", { name: "Remove src/total.ts" }).click();
  await s.at("input").fill("");
  await s.at("input").pressSequentially("@src");
  await options.filter({ hasText: "src/tax.ts" }).waitFor();
  await s.at("input").fill("");
  await s.at("input").pressSequentially("@nothing-like-this");
  await s.at("no-suggestions").filter({ hasText: "No match for “nothing-like-this”" }).waitFor();
  await s.takeScreenshot("no-match");
  await s.at("input").fill("");
  assert.equal(await s.at("user").count(), prompts);
});

testInChat("Enter during input composition does not send", async (page) => {
  await s.at("input").focus();
  const client = await page.context().newCDPSession(page);
  await client.send("Input.imeSetComposition", { text: "に", selectionStart: 1, selectionEnd: 1 });
  await client.send("Input.dispatchKeyEvent", {
    type: "keyDown",
    key: "Enter",
    code: "Enter",
    windowsVirtualKeyCode: 229,
  });
  await client.send("Input.dispatchKeyEvent", {
    type: "keyUp",
    key: "Enter",
    code: "Enter",
    windowsVirtualKeyCode: 229,
  });
  await client.send("Input.insertText", { text: "日本" });
  await waitUntil(async () => (await s.at("input").inputValue()).includes("日本"));
  // Only this Enter may send the prompt.
  await s.at("input").press("Enter");
  await s.waitForTurnEnd(++turns, "completed");
  await s.at("user").last().filter({ hasText: "日本" }).waitFor();
});

testInChat("a retry is shown, and the incomplete text is discarded", async () => {
  await s.sendPrompt("flaky");
  await s.at("notice").filter({ hasText: "attempt 2 of 4" }).waitFor();
  await s.takeScreenshot("retry");
  await s.waitForTurnEnd(++turns, "completed");
  await s.at("assistant").filter({ hasText: "The second attempt came through." }).waitFor();
  assert.equal(await s.at("assistant").filter({ hasText: "This will bre" }).count(), 0);
  assert.equal(await s.at("notice").count(), 0);
});

testInChat("Escape stops the turn and keeps the text", async () => {
  await s.sendPrompt("forever");
  await s.at("assistant").filter({ hasText: "Once upon a time" }).waitFor();
  await s.at("stop").waitFor();
  await s.takeScreenshot("running");
  const startedAt = Date.now();
  await s.at("input").press("Escape");
  await s.waitForTurnEnd(++turns, "cancelled");
  console.log(`stopped in the page after ${Date.now() - startedAt} ms`);
  await s.at("assistant").filter({ hasText: "Once upon a time" }).waitFor();
  await s.at("resume").click();
  await s.at("assistant").filter({ hasText: "Once upon a time" }).nth(1).waitFor();
  await s.at("input").press("Escape");
  await s.waitForTurnEnd(++turns, "cancelled");
  await s.at("resume").waitFor();
});

testInChat("a steer reaches the running turn", async () => {
  await s.sendPrompt("forever");
  await s.at("stop").waitFor();
  await s.at("assistant").filter({ hasText: "Once upon a time" }).last().waitFor();
  await s.sendPrompt("and then?");
  await s.at("stop").click();
  await s.waitForTurnEnd(++turns, "cancelled");
  // An unused steer returns to the input.
  await s.view.locator('[data-testid="input"]').waitFor();
  await waitUntil(async () => (await s.at("input").inputValue()) === "and then?", "the steer");
  await s.at("input").fill("");
});

testInChat("a failure is shown", async () => {
  await s.sendPrompt("credit");
  await s.waitForTurnEnd(++turns, "failed");
  await s.at("failure").waitFor();
  await s.takeScreenshot("failure");
});

testInChat("a hidden view keeps its draft and attachments", async (page) => {
  await s.at("input").fill("half a thought");
  await s.at("active-file").click();
  const attached = s.view.getByRole("button", { name: /^Remove src\/total.ts/ });
  await attached.waitFor();
  await page.locator('.activitybar a[aria-label^="Explorer"]').click();
  await page.locator('.activitybar a[aria-label^="agentls"]').click();
  await s.waitUntilReady();
  assert.equal(await s.at("input").inputValue(), "half a thought");
  await attached.click();
  await s.at("input").fill("");
});

testInChat("a window reload restores the session and the open request", async () => {
  await s.sendPrompt("delete it");
  await s.at("approval").waitFor();
  await s.reloadWindow();
  await s.waitUntilReady();
  const card = s.view.locator('[data-testid="approval"][data-armed="true"]');
  await card.waitFor();
  await s.takeScreenshot("reloaded");
  turns = await s.countEndedTurns();
  await card.press("n");
  turns += 1;
  await waitUntil(async () => (await s.countEndedTurns()) === turns, "the turn's end");
  await s.at("assistant").filter({ hasText: "leave it as it is" }).last().waitFor();
});

testInChat("a killed server is reported and restarted", async () => {
  await s.sendPrompt("forever");
  await s.at("assistant").filter({ hasText: "Once upon a time" }).last().waitFor();
  await s.at("stop").waitFor();
  const killServer = async () => {
    const pid = await s.readServerPid();
    process.kill(pid, "SIGKILL");
    await s.waitForNewServer(pid);
  };
  await killServer();
  await waitUntil(async () => (await s.countEndedTurns()) > turns, "the turn's end");
  await s.at("resume").waitFor();
  await s.takeScreenshot("after-kill");
  await s.sendPrompt("are you there?");
  await s.at("assistant").filter({ hasText: "Understood." }).last().waitFor();
  for (let attempt = 0; attempt < 5; attempt++) {
    // The stock client would give up after five exits in three minutes.
    await killServer();
  }
  await s.sendPrompt("and now?");
  await s.at("assistant").filter({ hasText: "Understood." }).last().waitFor();
});

testInChat("sessions can be listed, searched, renamed, opened, and deleted", async (page) => {
  await s.runCommand("Agent: New Session");
  await s.at("welcome").waitFor();
  await s.sendPrompt("a second conversation");
  await s.waitForTurnEnd(1, "completed");
  await s.runCommand("Agent: Show Sessions");
  await s.at("session").nth(1).waitFor();
  await s.takeScreenshot("sessions");
  await s.at("search").fill("guard");
  await s.view.locator('[data-testid="session"]', { hasText: "explain total" }).waitFor();
  await s.view.locator('[data-testid="session"]', { hasText: "second conversation" }).waitFor({ state: "detached" });
  await s.takeScreenshot("sessions-search");
  await s.at("search").fill("");
  const second = s.view.locator('[data-testid="session"]', { hasText: "second conversation" });
  await second.focus();
  await second.press("F2");
  await s.at("new-title").fill("The other one");
  await s.at("new-title").press("Enter");
  await s.view.locator('[data-testid="session"]', { hasText: "The other one" }).waitFor();
  await s.view.locator('[data-testid="session"]', { hasText: "explain total" }).click();
  await s.at("user").first().waitFor();
  await s.runCommand("Agent: Show Sessions");
  const other = s.view.locator('[data-testid="session"]', { hasText: "The other one" });
  await other.focus();
  await other.press("Delete");
  await page.locator(".monaco-dialog-box").getByRole("button", { name: "Delete" }).click();
  await other.waitFor({ state: "detached" });
  await s.view.getByRole("button", { name: "Back" }).click();
});

testInChat("mode and model can be selected", async (page) => {
  await s.at("mode").click();
  await page.locator(".quick-input-list .monaco-list-row", { hasText: "Auto-edit" }).click();
  await s.at("mode").filter({ hasText: "Auto-edit" }).waitFor();
  await s.at("model").click();
  await page.locator(".quick-input-list .monaco-list-row", { hasText: "tape/tape" }).waitFor();
  await page.keyboard.press("Escape");
});
