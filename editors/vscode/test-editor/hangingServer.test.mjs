// A server that hangs, never starts, or exits at once. The UI reports it, and Stop and Restart work. No input is lost,
// and no process outlives the window.

import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { CASSETTE_CONFIG, createStepRunner, TIMEOUT_MS, waitUntil, withWorkbench } from "./workbench.mjs";

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "agentls-programs-"));
after(() => fs.rmSync(folder, { recursive: true }));
function program(name, lines) {
  const file = path.join(folder, name);
  fs.writeFileSync(file, lines, { mode: 0o755 });
  return file;
}

function testInWorkbench(name, options, body) {
  test(name, { timeout: 6 * TIMEOUT_MS }, (t) => withWorkbench(name, options, (s, page) => body(s, page, t)));
}

testInWorkbench(
  "a server that hangs",
  { config: CASSETTE_CONFIG, files: { "a.txt": "one\n" } },
  async (s, _page, t) => {
    const banner = s.at("banner").filter({ hasText: "The server is not responding" });
    const hangServer = async () => {
      const pid = await s.readServerPid();
      process.kill(pid, "SIGSTOP");
      return pid;
    };
    // The text returns when the old connection closes, shortly after the process exits.
    const waitForRestoredDraft = () =>
      waitUntil(async () => (await s.at("input").inputValue()) === "the first thing", "the prompt back");
    const step = createStepRunner(t, s);
    await s.showChat();
    await s.openFile("a.txt");

    await step("the banner reports silence and recovery", async () => {
      const hangingPid = await hangServer();
      await banner.waitFor();
      await s.takeScreenshot("hangs");
      process.kill(hangingPid, "SIGCONT");
      await banner.waitFor({ state: "detached" });
    });

    await step("a stopped first prompt is restored with its attachments", async () => {
      const hangingPid = await hangServer();
      await s.at("active-file").click();
      await s.sendPrompt("the first thing");
      await s.at("waiting").filter({ hasText: "the first thing" }).waitFor();
      await s.at("stop").click();
      await s.waitForNewServer(hangingPid);
      await waitForRestoredDraft();
      await s.view.getByRole("button", { name: "Remove a.txt" }).waitFor();
    });

    await step("a restart before the silence is noticed restores the prompt", async () => {
      const hangingPid = await hangServer();
      await s.at("input").press("Enter");
      await s.at("waiting").filter({ hasText: "the first thing" }).waitFor();
      await s.runCommand("Agent: Restart Server");
      await s.waitForNewServer(hangingPid);
      await waitForRestoredDraft();
    });

    await step("a restart restores a prompt that no turn took", async () => {
      const hangingPid = await hangServer();
      await s.at("input").press("Enter");
      await s.at("waiting").filter({ hasText: "the first thing" }).waitFor();
      await banner.getByRole("button", { name: "Restart server" }).click();
      await s.waitForNewServer(hangingPid);
      await waitForRestoredDraft();
      await s.view.getByRole("button", { name: "Remove a.txt" }).waitFor();
      await s.at("input").press("Enter");
      await s.waitForTurnEnd(1, "completed");
    });

    await step("a running turn stops with its server and can be resumed", async () => {
      await s.sendPrompt("forever");
      await s.at("assistant").filter({ hasText: "Once upon a time" }).waitFor();
      const hangingPid = await hangServer();
      await s.at("stop").click();
      await s.waitForNewServer(hangingPid);
      await s.at("resume").waitFor();
    });
  },
);

testInWorkbench(
  "a program that never responds is stopped and does not outlive the window",
  { program: program("agentls-silent", "#!/usr/bin/env node\nsetInterval(() => {}, 1000);\n") },
  async (s) => {
    await s.page.locator('.activitybar a[aria-label^="agentls"]').click();
    const banner = s.at("banner").filter({ hasText: "did not respond within 20 s" });
    await banner.waitFor();
    await s.takeScreenshot("never-answers");
    assert.deepEqual(s.listPrograms("agentls-silent"), []);
    await banner.getByRole("button", { name: "Restart server" }).click();
    await waitUntil(() => s.listPrograms("agentls-silent").length === 1, "another try");
    // `withWorkbench` closes the window and checks that no process is left.
  },
);

testInWorkbench(
  "a program that exits at once is reported with its stderr",
  { program: program("agentls-dies", '#!/bin/sh\necho "libmissing.so: cannot open" >&2\nexit 3\n') },
  async (s, page) => {
    await page.locator('.activitybar a[aria-label^="agentls"]').click();
    const banner = s.at("banner").filter({ hasText: "exit code 3" });
    await banner.filter({ hasText: "libmissing.so: cannot open" }).waitFor();
    await s.takeScreenshot("dies");
    // Further exits must not cause notifications.
    await banner.filter({ hasText: /\d s/ }).waitFor();
    assert.ok(!(await banner.textContent()).includes("EPIPE"));
    assert.equal(await page.locator(".notification-toast").count(), 0);
  },
);

testInWorkbench("another window's session can be taken over", { config: CASSETTE_CONFIG }, async (s, page) => {
  await s.showChat();
  await s.sendPrompt("hello");
  await s.waitForTurnEnd(1, "completed");
  const [{ pid: holder }] = s.listServers();
  const isHolderRunning = () => s.listServers().some(({ pid }) => pid === holder);
  const second = await page.context().newPage();
  second.setDefaultTimeout(TIMEOUT_MS);
  await second.goto(page.url());
  const other = Object.assign(Object.create(Object.getPrototypeOf(s)), s, { page: second });
  await other.showChat();
  await other.runCommand("Agent: Show Sessions");
  await other.at("session").first().click();
  await other.at("locked").filter({ hasText: "It is read-only here" }).waitFor();
  await other.at("input").fill("hello again");
  await other.view.locator('[data-testid="send"][title^="Read-only"]:disabled').waitFor();
  await other.at("input").fill("");
  await other.takeScreenshot("locked");
  const takeOver = other.at("locked").getByRole("button", { name: "Take over" });
  const dialog = second.locator(".monaco-dialog-box");
  // Nothing ends without confirmation.
  await takeOver.click();
  await dialog.filter({ hasText: `(process ${holder})` }).waitFor();
  assert.ok(isHolderRunning(), "the server runs while the question is open");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await dialog.waitFor({ state: "detached" });
  await takeOver.click();
  await dialog.waitFor();
  assert.ok(isHolderRunning(), "the server runs after Cancel");
  await dialog.getByRole("button", { name: "Take Over" }).click();
  await waitUntil(() => !isHolderRunning(), "the end of the server that held the session");
  await other.at("locked").waitFor({ state: "detached" });
  await other.sendPrompt("hello again");
  await other.waitForTurnEnd(2, "completed");
  // The first window starts another server and becomes read-only.
  await s.at("locked").waitFor();
});
