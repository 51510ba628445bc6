// Extension features that need a fake server: editor edits, saving, keys, limits, questions, and other protocol
// versions.

import assert from "node:assert/strict";
import { testWithFakeServer, waitForAnswer } from "./fakeWorkbench.mjs";

testWithFakeServer(
  "edits and questions",
  { files: { "a.ts": "export {};\n", "b.ts": "export {};\n" } },
  async (s, t) => {
    const { page } = s;
    await s.showChat();

    await t.test("the client announces its capabilities", () => {
      const { capabilities, initializationOptions } = JSON.parse(s.readFile("initialize.json"));
      assert.deepEqual(capabilities.experimental.agent.client, {
        saveDocuments: true,
        getDiagnostics: true,
        languageQueries: true,
        codeFixes: true,
        getCredential: true,
        questions: true,
      });
      assert.equal(capabilities.workspace.applyEdit, true);
      assert.equal(capabilities.workspace.workspaceEdit.documentChanges, true);
      assert.equal(initializationOptions.trusted, false, "VS Code's trust alone activates nothing");
    });

    await t.test("two edits of an open file are saved and form one undo step", async () => {
      await s.openFile("a.ts");
      await s.sendPrompt("edit a.ts");
      await waitForAnswer(s, 'edited: [{"applied":true},{"applied":true},1,[]]');
      assert.equal(s.readFile("a.ts"), "// two\n// one\nexport {};\n");
      const lines = page.locator('.monaco-editor[data-uri$="a.ts"] .view-line');
      await lines.filter({ hasText: "// two" }).click();
      await page.keyboard.press("Control+Z");
      await lines.filter({ hasText: "// one" }).waitFor({ state: "detached" });
      await lines.filter({ hasText: "// two" }).waitFor({ state: "detached" });
      await lines.filter({ hasText: "export {};" }).waitFor();
      assert.deepEqual(
        (await lines.allTextContents())
          .map((line) => line.replaceAll("\u00a0", " ").trim())
          .filter((line) => line !== ""),
        ["export {};"],
      );
    });

    await t.test("an edit of an old version is rejected with a reason", async () => {
      await s.sendPrompt("stale a.ts");
      await waitForAnswer(s, "changed before the edit was applied");
    });

    await t.test("diagnostics are returned, and a missing key is not", async () => {
      await s.sendPrompt("problems now");
      await waitForAnswer(s, "problems: ");
      await s.sendPrompt("key anthropic");
      await waitForAnswer(s, "key: none");
    });

    await t.test("an entered key is sent to the server", async () => {
      await s.runCommand("Agent: Enter API Key");
      await page.locator(".quick-input-list .monaco-list-row", { hasText: "Anthropic" }).click();
      const input = page.locator('.quick-input-widget input[type="password"]');
      await input.fill("sk-test-1234567890");
      await input.press("Enter");
      await page.locator(".notification-toast", { hasText: "The key for anthropic is saved" }).first().waitFor();
      await s.sendPrompt("key anthropic");
      await waitForAnswer(s, "key: of 18 characters");
    });

    await t.test("a limit can be raised and a question answered", async () => {
      await s.sendPrompt("limit");
      await s.at("limit").waitFor();
      await s.takeScreenshot("limit");
      await s.at("limit").getByRole("button", { name: "Raise and continue" }).click();
      await s.view.locator(".note", { hasText: "raised by $5.00" }).waitFor();
      await s.sendPrompt("question");
      await s.at("question").waitFor();
      await s.takeScreenshot("question");
      await s.at("question").getByLabel("SQLite").check();
      await s.at("question").getByRole("button", { name: "Answer" }).click();
      await s.view.locator(".note", { hasText: "→ lite" }).waitFor();
    });

    await t.test("Enter in a form ends a field and not the form", async () => {
      await s.sendPrompt("form");
      const question = s.at("question");
      await question.filter({ hasText: "Your answers go to the server." }).waitFor();
      await question.getByLabel("Your name").fill("Ada");
      await question.getByLabel("Your name").press("Enter");
      await question.getByLabel("mail").fill("ada@example.org");
      await s.takeScreenshot("question-form");
      await question.getByLabel("mail").press("Control+Enter");
      await s.view.locator(".note", { hasText: "→ Ada, ada@example.org" }).waitFor();
    });

    await t.test("an address in a question is a link that only a click opens", async () => {
      await s.sendPrompt("visit");
      const link = s.at("question").getByRole("link");
      await link.waitFor();
      assert.equal(await link.getAttribute("href"), "https://login.example/authorize?client=a_b&state=%2B1");
      assert.equal(await link.textContent(), await link.getAttribute("href"));
      await s.takeScreenshot("question-address");
      await link.click();
      const dialog = page.locator(".monaco-dialog-box", { hasText: "login.example" });
      await dialog.waitFor();
      await s.takeScreenshot("question-address-opened");
      const request = page.context().waitForEvent("request", (sent) => sent.url().startsWith("https://login.example"));
      await dialog.getByRole("button", { name: "Open", exact: true }).click();
      assert.equal((await request).url(), "https://login.example/authorize?client=a_b&state=%2B1");
      await s.at("question").press("2");
      await s.at("question").press("Control+Enter");
      await s.view.locator(".note", { hasText: "→ decline" }).waitFor();
    });

    await t.test("a sub-agent's work is shown under its call and collapses when done", async () => {
      const call = (title) => s.view.locator('[data-testid="tool"]', { hasText: title });
      await s.sendPrompt("delegate it");
      const outer = call("Delegate: find the bug").first();
      await outer.getByTestId("subagent").getByText("Read src/total.ts").waitFor();
      await outer.getByTestId("notice").filter({ hasText: "attempt 2 of 4" }).waitFor();
      assert.equal(await s.at("turn-status").getByTestId("notice").count(), 0, "its retry is not the session's");
      await s.takeScreenshot("sub-agent");
      // The call is collapsed, and an open question expands it.
      await outer.locator(".head").first().click();
      await outer.getByTestId("subagent").waitFor({ state: "detached" });
      await s.sendPrompt("go on");
      await s.card.waitFor();
      await outer.getByTestId("notice").waitFor({ state: "detached" });
      await outer.getByText("one failed; switched to fake/two").waitFor();
      await s.at("model").filter({ hasText: "one" }).waitFor();
      await s.takeScreenshot("sub-agent-asks");
      await s.card.press("y");
      await outer.and(s.view.locator('[data-status="completed"]')).waitFor();
      await outer.getByTestId("subagent").first().waitFor({ state: "detached" });
      await outer.getByText("3 calls").waitFor();
      await s.takeScreenshot("sub-agent-done");
      await outer.locator(".head").first().click();
      await outer.getByTestId("subagent").getByText("Delegate: deeper").click();
      await outer.getByTestId("subagent").getByText("make test").waitFor();
    });
  },
);

testWithFakeServer("another protocol version is refused with a message", { env: { FAKE_MAJOR: "2" } }, async (s) => {
  await s.page.locator('.activitybar a[aria-label^="agentls"]').click();
  await s
    .at("banner")
    .filter({
      hasText: "The server uses protocol version 2, but this extension uses version 1. Update this extension.",
    })
    .waitFor();
  await s.takeScreenshot("other-protocol");
});

testWithFakeServer("a missing program is reported", { program: "/nowhere/agentls" }, async (s) => {
  await s.page.locator('.activitybar a[aria-label^="agentls"]').click();
  await s.at("banner").filter({ hasText: "No program found at /nowhere/agentls" }).waitFor();
  await s.view.getByRole("button", { name: "Set server path…" }).waitFor();
  await s.takeScreenshot("missing");
});
