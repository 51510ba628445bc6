// Files that others wrote cannot take the place of the conversation: warnings are one line, and what is between the
// conversation and the input scrolls.

import assert from "node:assert/strict";
import { test } from "node:test";
import { CASSETTE_CONFIG, createStepRunner, TIMEOUT_MS, waitUntil, withWorkbench } from "./workbench.mjs";

const NONSENSE = Array.from({ length: 30 }, (_, at) => `nonsense_${at} = 1`).join("\n");
const HOOK = '\n[hook.before]\non = "post_tool"\ncommand = "true"\n';
const PROMPT = Array.from({ length: 30 }, (_, at) => `line ${at}`).join("\n");

test("warnings leave the conversation its place", { timeout: 8 * TIMEOUT_MS }, (t) =>
  withWorkbench(
    "warnings",
    {
      config: CASSETTE_CONFIG,
      files: { ".agentls/config.toml": `${NONSENSE}\n[agent.default]\nmodle = "x"\n${HOOK}` },
    },
    async (s, page) => {
      const step = createStepRunner(t, s);
      const line = s.at("server-warnings");
      /** The part of the view's height that the conversation has. */
      const share = () =>
        s.at("app").evaluate((app) => document.querySelector(".log").clientHeight / app.getBoundingClientRect().height);
      await s.showChat();

      await step("30 problems are one line, in the words of this editor", async () => {
        await line.filter({ hasText: /⚠ 3\d problems in the configuration/ }).waitFor();
        await s.sendPrompt("are you there?");
        await s.waitForTurnEnd(1, "completed");
        assert.ok((await share()) > 0.6, `the conversation has ${await share()} of the height`);
        await s.takeScreenshot("warnings-closed");
      });

      await step("the open list scrolls", async () => {
        await line.getByRole("button", { name: /problems in the configuration/ }).click();
        await line.locator("li", { hasText: "nonsense_1" }).first().waitFor();
        assert.ok((await share()) >= 0.49, `the conversation has ${await share()} of the height`);
        const text = await s.at("app").textContent();
        assert.ok(!/AgentTrust|agent\/reloadConfig|agentls chat/.test(text), text);
        await s.takeScreenshot("warnings-open");
      });

      await step("the editor lists all problems, and fixes some", async () => {
        await line.getByRole("button", { name: /in Problems/ }).click();
        const rows = page.locator(".markers-panel .monaco-list-row");
        await rows.filter({ hasText: "config.toml" }).first().waitFor();
        await waitUntil(
          async () =>
            Number((await page.locator(".markers-panel .monaco-count-badge").first().textContent()) ?? 0) > 30,
          "all problems",
        );
        await s.takeScreenshot("warnings-problems");
        await line.locator("li", { hasText: "did you mean `model`" }).getByRole("button").click();
        await page.locator(".monaco-editor .view-line", { hasText: "modle" }).first().click();
        // The actions are known when the light bulb appears.
        await page.locator(".lightBulbWidget, .gutter-lightbulb").first().waitFor();
        await page.keyboard.press("Control+Period");
        await page.locator(".action-widget .monaco-list-row", { hasText: "Change to “model”" }).waitFor();
        await page.keyboard.press("Escape");
        await s.runCommand("View: Close All Editors");
        await s.runCommand("View: Hide Panel");
      });

      await step("a click closes the line, and the same problems do not bring it back", async () => {
        await line.getByRole("button", { name: "Dismiss the warnings" }).click();
        await line.waitFor({ state: "detached" });
        await s.runCommand("Agent: Reload Configuration Files");
        await page.locator(".notification-toast", { hasText: "Configuration reloaded" }).first().waitFor();
        await s.runCommand("Notifications: Clear All Notifications");
        await s.sendPrompt("are you there?");
        await s.waitForTurnEnd(2, "completed");
        assert.equal(await line.count(), 0);
      });

      await step("a long queue and a long draft leave the conversation half of the view", async () => {
        await s.sendPrompt("forever");
        await s.at("stop").waitFor();
        for (let at = 0; at < 12; at++) {
          await s.at("input").fill(`queued ${at}`);
          await s.at("input").press("Alt+Enter");
          await s.at("queued").nth(at).waitFor();
        }
        await s.at("input").fill(PROMPT);
        await waitUntil(
          async () => (await s.at("input").evaluate((input) => input.clientHeight)) > 100,
          "a high input",
        );
        assert.ok((await share()) >= 0.49, `the conversation has ${await share()} of the height`);
        assert.ok(await s.at("send").isVisible());
        await s.takeScreenshot("queue-and-draft");
        await s.at("input").press("Escape");
        await s.waitForTurnEnd(3, "cancelled");
      });
    },
  ),
);
