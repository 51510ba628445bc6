// Nothing that a user typed is lost, whatever else is shown or happens.

import assert from "node:assert/strict";
import { test } from "node:test";
import { CASSETTE_CONFIG, createStepRunner, TIMEOUT_MS, waitUntil, withWorkbench } from "./workbench.mjs";

const tool = (name, input) => ({ tool: { name, input } });
const buildExchanges = (prompt, ...steps) =>
  [...steps, [{ text: "That is done." }]].map((events, step) => ({ when: { prompt, step }, repeat: true, events }));

test("drafts are kept", { timeout: 8 * TIMEOUT_MS }, (t) =>
  withWorkbench(
    "drafts",
    {
      config: CASSETTE_CONFIG,
      files: { "a.txt": "a\n" },
      exchanges: [
        ...buildExchanges("run it", [tool("bash", { command: "touch ran.txt" })]),
        ...buildExchanges("ask me", [tool("ask_user", { question: "Which name?" })]),
      ],
    },
    async (s, page) => {
      const step = createStepRunner(t, s);
      const input = () => s.at("input").inputValue();
      const removeButton = s.view.getByRole("button", { name: "Remove a.txt" });
      await s.showChat();

      await step("the session list keeps the draft and its attachments", async () => {
        await s.openFile("a.txt");
        await s.at("input").fill("half a thought");
        await s.at("active-file").click();
        await removeButton.waitFor();
        await s.runCommand("Agent: Show Sessions");
        await s.at("sessions").waitFor();
        await s.view.getByRole("button", { name: "Back" }).click();
        await removeButton.waitFor();
        assert.equal(await input(), "half a thought");
      });

      await step("what a command attaches while the list is shown reaches the input", async () => {
        await removeButton.click();
        await s.runCommand("Agent: Show Sessions");
        await s.view.locator('[data-testid="search"]:focus').waitFor();
        await s.runCommand("Agent: Ask About Selection");
        await removeButton.waitFor();
        assert.equal(await input(), "half a thought");
        await removeButton.click();
        await s.at("input").fill("");
      });

      await step("a command after / runs, and what was typed before it stays", async () => {
        await s.at("input").pressSequentially("/mod");
        await s.view.getByRole("option", { name: "/model" }).waitFor();
        await s.at("input").press("Enter");
        const modes = page.locator(".quick-input-list .monaco-list-row");
        await modes.filter({ hasText: "Ask" }).and(page.locator(".focused")).waitFor();
        assert.equal(await input(), "");
        // Enter alone changes nothing.
        await page.keyboard.press("Enter");
        await s.at("mode").filter({ hasText: "Ask" }).waitFor();
        await s.at("input").pressSequentially("/nope");
        await s.at("no-suggestions").filter({ hasText: "No command “/nope”" }).waitFor();
        await s.at("input").fill("");
      });

      await step("the arrow keys show earlier prompts, and keep a text that was changed", async () => {
        for (const [at, prompt] of ["first prompt", "second\nprompt"].entries()) {
          await s.sendPrompt(prompt);
          await s.waitForTurnEnd(at + 1, "completed");
        }
        const press = async (key, text) => {
          await s.at("input").press(key);
          await waitUntil(async () => (await input()) === text, `${text} after ${key}`);
        };
        await press("ArrowUp", "second\nprompt");
        await press("ArrowUp", "second\nprompt");
        await press("ArrowUp", "first prompt");
        await press("ArrowDown", "second\nprompt");
        await press("ArrowDown", "");
        await press("ArrowUp", "second\nprompt");
        await s.at("input").press("End");
        await s.at("input").pressSequentially(", and more");
        await press("ArrowDown", "second\nprompt, and more");
        await s.runCommand("Agent: New Session");
        await s.at("input").fill("");
        await press("ArrowUp", "second\nprompt");
        await s.at("input").fill("");
      });

      await step("a reason survives Escape, another session, and a reload", async () => {
        await s.sendPrompt("run it");
        await s.card.waitFor();
        await s.at("deny-reason").click();
        const reason = s.at("approval").locator("textarea");
        await reason.fill("Use the other file.");
        await reason.press("Escape");
        await s.at("deny-reason").click();
        assert.equal(await reason.inputValue(), "Use the other file.");
        await s.runCommand("Agent: New Session");
        await s.at("welcome").waitFor();
        await s.at("pending-elsewhere").getByRole("button", { name: "Show it" }).click();
        await waitUntil(async () => (await reason.inputValue()) === "Use the other file.", "the reason");
        await s.reloadWindow();
        await s.waitUntilReady();
        await waitUntil(async () => (await reason.inputValue()) === "Use the other file.", "the reason");
        await s.card.waitFor();
        await reason.press("Control+Enter");
        await s.at("assistant").filter({ hasText: "That is done." }).waitFor();
        await s.view.locator('[data-testid="tool"][data-status="denied"] .head').click();
        await s.view.getByText("You said: Use the other file.").waitFor();
      });

      await step("an answer that is being written survives another session", async () => {
        await s.sendPrompt("ask me");
        const field = s.at("question").locator("input[type=text]");
        await field.fill("Ada");
        await s.runCommand("Agent: New Session");
        await s.at("welcome").waitFor();
        await s.at("pending-elsewhere").getByRole("button", { name: "Show it" }).click();
        await waitUntil(async () => (await field.inputValue()) === "Ada", "the answer");
        await field.press("Enter");
        await s.at("question").waitFor({ state: "detached" });
      });

      await step("a draft survives a reload and a killed server, also while its session is being loaded", async () => {
        await s.at("input").fill("still here");
        await s.reloadWindow();
        await waitUntil(async () => (await input()) === "still here", "the draft");
        await s.waitUntilReady();
        assert.equal(await input(), "still here");
        const pid = await s.readServerPid();
        process.kill(pid, "SIGKILL");
        await s.waitForNewServer(pid);
        assert.equal(await input(), "still here");
      });
    },
  ),
);
