// First run, code actions, untrusted folders, and themes.

import assert from "node:assert/strict";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { FakeModel } from "./fakeModel.mjs";
import { CASSETTE_CONFIG, server, TIMEOUT_MS, waitUntil, withWorkbench } from "./workbench.mjs";

const BROKEN_CODE = 'export const count: number = "three";\n\nexport function half() {\n  return count / 2;\n}\n';

function testInWorkbench(name, options, body) {
  test(name, { timeout: 6 * TIMEOUT_MS }, () => withWorkbench(name, options, body));
}

testInWorkbench("without a model, a card shows the setup options", {}, async (s, page) => {
  await s.showChat();
  await s.sendPrompt("hello");
  await s.at("first-contact").waitFor();
  assert.ok((await s.at("first-contact").locator("li").count()) >= 3);
  await s.takeScreenshot("first-contact");
  await s.view.getByRole("button", { name: "Open configuration" }).click();
  await page.locator(".monaco-editor .view-line", { hasText: "[provider.anthropic]" }).first().waitFor();
  await s.runCommand("Agent: Get Started");
  await page.locator(".getting-started-step", { hasText: "Connect a model" }).first().waitFor();
  await s.takeScreenshot("walkthrough");
});

test("after a key works, the prompt that waited for it is sent", { timeout: 6 * TIMEOUT_MS }, async (t) => {
  const model = new FakeModel();
  await model.start();
  t.after(() => model.stop());
  // A provider that needs a key.
  const config = model.config.replace(/(provider\.|provider = ")fake/g, "$1openrouter").replace(/api_key.*\n/, "");
  await withWorkbench("key", { config }, async (s, page) => {
    await s.showChat();
    await s.sendPrompt("hello");
    await s.at("first-contact").waitFor();
    await s.view.getByRole("button", { name: "Enter API key…" }).click();
    await page.locator(".quick-input-list .monaco-list-row", { hasText: "OpenRouter" }).click();
    const input = page.locator('.quick-input-widget input[type="password"]');
    await input.fill("sk-test-1234567890");
    await input.press("Enter");
    await s.waitForTurnEnd(2, "completed");
    await s.takeScreenshot("key-works");
    assert.equal(await s.at("first-contact").count(), 0);
    assert.deepEqual(await s.view.locator(".note").allTextContents(), ["No model was connected"]);
  });
});

testInWorkbench("the missing program is selected in a dialog", { program: "/nowhere/agentls" }, async (s, page) => {
  await page.locator('.activitybar a[aria-label^="agentls"]').click();
  await s.view.getByRole("button", { name: "Set server path…" }).click();
  const input = page.locator(".quick-input-widget input.input");
  const title = page.locator(".quick-input-title", { hasText: "Select the agentls Program" });
  await title.waitFor();
  // The dialog begins with the folder of the workspace.
  await waitUntil(async () => (await input.inputValue()).includes(s.workspace), "the folder in the dialog");
  await s.takeScreenshot("select-program");
  await input.fill(server);
  // While the dialog reads the folder, it ignores the button.
  await waitUntil(async () => {
    await page
      .getByRole("button", { name: "Select", exact: true })
      .click({ timeout: 1000 })
      .catch(() => {});
    return title.isHidden();
  }, "the end of the dialog");
  await s.waitUntilReady();
});

/** Shows text from right to left and code. */
const TEXTS =
  "مرحبا `total()` بكم\n\n- عنصر أول\n\nEnglish\n\n```ts\n// Adds up.\n@once\nexport function total(items: Item[]): number {\n" +
  '  return items.length + 1 + "a";\n}\n```\n\n```json\n{ "key": true }\n```\n\n```diff\n-a\n+b\n```\n\n```css\na { color: red; }\n```';

/** Its end line is a long one. */
const USAGE = { usage: { input: 48200, output: 210, cost: 0.0312 } };

/** Returns the code colors that are hard to read. */
const listFaintColors = (app) => {
  const parse = (color) => color.match(/[\d.]+/g).map(Number);
  const luminance = (color) => {
    const [red, green, blue] = color.map((part) =>
      part <= 10 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4,
    );
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const findBackground = (element) => {
    const color = parse(getComputedStyle(element).backgroundColor);
    return (color[3] ?? 1) === 1 || !element.parentElement ? color : findBackground(element.parentElement);
  };
  return [...app.querySelectorAll('[class*="hljs-"]')].flatMap((part) => {
    const lights = [parse(getComputedStyle(part).color), findBackground(part)].map((color) => luminance(color) + 0.05);
    const contrast = Math.max(...lights) / Math.min(...lights);
    return contrast < 4.5 ? [`${part.className} ${contrast.toFixed(2)}`] : [];
  });
};

testInWorkbench(
  "text has its own direction, hovering moves nothing, and code can be read in all default themes",
  { config: CASSETTE_CONFIG, exchanges: [{ when: { prompt: "write" }, events: [{ text: TEXTS }, USAGE] }] },
  async (s, page) => {
    await s.showChat();
    await s.sendPrompt("write");
    await s.waitForTurnEnd(1, "completed");
    await s.sendPrompt("hello");
    await s.waitForTurnEnd(2, "completed");
    const end = s.at("turn-end").first();
    const { height } = await end.boundingBox();
    await end.hover();
    await end.getByTestId("fork").hover();
    assert.equal((await end.boundingBox()).height, height, "hovering moves nothing");
    const directions = (selector) =>
      s
        .at("assistant")
        .first()
        .locator(selector)
        .evaluateAll((list) => list.map((each) => getComputedStyle(each).direction));
    assert.deepEqual(await directions("p"), ["rtl", "ltr"]);
    assert.deepEqual([...(await directions("li")), ...(await directions("p code"))], ["rtl", "ltr"]);
    for (const theme of ["Dark Modern", "Light Modern", "Dark High Contrast", "Light High Contrast"]) {
      await s.runCommand("Preferences: Color Theme");
      await page.locator(".quick-input-widget input.input").fill(theme);
      await page.keyboard.press("Enter");
      const name = theme.includes("High")
        ? theme.includes("Dark")
          ? "hc-black"
          : "hc-light"
        : `vs${theme.startsWith("Dark") ? "-dark" : ""}`;
      await page.locator(`.monaco-workbench.${name}`).waitFor();
      await waitUntil(async () => (await s.at("app").evaluate(listFaintColors)).length === 0).catch(() => {});
      assert.deepEqual(await s.at("app").evaluate(listFaintColors), [], theme);
      await s.takeScreenshot(`code-${name}`);
    }
  },
);

const bin = fs.mkdtempSync(path.join(os.tmpdir(), "agentls-path-"));
fs.symlinkSync(server, path.join(bin, "agentls"));
after(() => fs.rmSync(bin, { recursive: true }));
testInWorkbench(
  "the program is found in the PATH",
  { program: "", config: CASSETTE_CONFIG, path: bin, env: { SHELL: "/bin/bash" } },
  async (s) => {
    await s.showChat();
    await s.sendPrompt("hello");
    await s.waitForTurnEnd(1, "completed");
  },
);

if (process.env.VSIX_WITH_PROGRAM !== undefined) {
  testInWorkbench(
    "the bundled program is found",
    { program: "", config: CASSETTE_CONFIG, vsix: process.env.VSIX_WITH_PROGRAM },
    async (s) => {
      await s.showChat();
      await s.sendPrompt("hello");
      await s.waitForTurnEnd(1, "completed");
    },
  );
}

testInWorkbench(
  "code actions, follow mode, and themes work",
  {
    config: CASSETTE_CONFIG,
    files: {
      "src/total.ts":
        "type Item = { price: number };\n\nexport function total(items: Item[]) {\n  return items.reduce(add).price;\n}\n\nfunction add(a: Item, b: Item): Item {\n  return { price: a.price + b.price };\n}\n",
      "wrong.ts": BROKEN_CODE,
    },
    exchanges: [
      {
        when: { prompt: "what is wrong", step: 0 },
        events: [{ tool: { name: "diagnostics", input: { path: "wrong.ts" } } }],
      },
      { when: { prompt: "what is wrong", step: 1 }, events: [{ text: "A text is no number." }] },
    ],
    settings: { "workbench.colorTheme": "Default Light Modern", "agentls.follow": true },
  },
  async (s, page) => {
    await s.showChat();
    await s.openFile("wrong.ts");
    await page.locator(".squiggly-error").first().waitFor();
    await s.sendPrompt("what is wrong here?");
    await s.waitForTurnEnd(1, "completed");
    await s.view.locator('[data-testid="tool"] .head', { hasText: "Diagnostics of wrong.ts" }).click();
    await s.at("output").filter({ hasText: "is not assignable to type 'number'" }).waitFor();
    await s.takeScreenshot("diagnostics");
    // VS Code looks for actions by itself after the cursor moves. That search replaces a pending one that was asked for,
    // so wait for its light bulb. On an empty line there is none.
    const editor = page.locator('.monaco-editor[data-uri$="wrong.ts"]');
    const lightBulb = editor.locator(".lightBulbWidget, .gutter-lightbulb");
    await editor.locator(".view-line").nth(5).click();
    await lightBulb.first().waitFor({ state: "hidden" });
    await editor.getByText("count", { exact: true }).first().click();
    await lightBulb.first().waitFor();
    await page.keyboard.press("Control+Period");
    const fix = page.locator(".action-widget .monaco-list-row", { hasText: "Fix with agent" });
    await fix.waitFor();
    await s.takeScreenshot("code-action");
    await fix.click();
    await s.at("user").filter({ hasText: "Fix this problem." }).waitFor();
    await s.waitForTurnEnd(2, "completed");
    await s.at("user").getByRole("button", { name: "wrong.ts:1" }).waitFor();

    await page
      .locator('.monaco-editor[data-uri$="wrong.ts"] .view-line', { hasText: "return count" })
      .click({ clickCount: 3 });
    await page.keyboard.press("Control+Alt+q");
    await s.view.getByRole("button", { name: "Remove wrong.ts:4" }).waitFor();
    await s.at("input").fill("explain this");
    await s.at("input").press("Enter");
    await s.waitForTurnEnd(3, "completed");
    await s.takeScreenshot("light");

    await s.sendPrompt("add a guard");
    const card = s.view.locator('[data-testid="approval"][data-armed="true"]');
    await card.waitFor();
    // Follow mode must show the file that was read.
    await page.locator('.monaco-editor[data-uri$="total.ts"]').first().waitFor();
    await s.takeScreenshot("light-approval");
    // Use the key from the editor, without focusing the card.
    await page.locator('.monaco-editor[data-uri$="total.ts"] .view-line').first().click();
    await page.keyboard.press("Control+Alt+y");
    await s.waitForTurnEnd(4, "completed");
    assert.match(s.readFile("src/total.ts"), /\/\/ cents/);
    await s.runCommand("Preferences: Color Theme");
    await page.locator(".quick-input-widget input.input").fill("Dark High Contrast");
    await page.keyboard.press("Enter");
    await page.locator(".monaco-workbench.hc-black").waitFor();
    await s.takeScreenshot("high-contrast");
    await s.sendPrompt("delete it");
    await s.card.waitFor();
    await s.takeScreenshot("high-contrast-approval");
    await s.runCommand("Preferences: Color Theme");
    await page.locator(".quick-input-widget input.input").fill("Light High Contrast");
    await page.keyboard.press("Enter");
    await page.locator(".monaco-workbench.hc-light").waitFor();
    await s.takeScreenshot("high-contrast-light");
    await s.card.press("n");
    await s.waitForTurnEnd(5, "completed");
  },
);

const PLAN = "## Plan\n\n1. Add a **guard** to `total.ts`.\n2. Run the tests.";
testInWorkbench(
  "a plan is presented, and the answer ends plan mode",
  {
    config: `${CASSETTE_CONFIG}mode = "plan"\n`,
    exchanges: [
      {
        when: { prompt: "make a plan", step: 0 },
        events: [{ tool: { name: "present_plan", input: { plan: PLAN } } }],
      },
      { when: { prompt: "make a plan", step: 1 }, events: [{ text: "I begin." }] },
    ],
  },
  async (s) => {
    await s.showChat();
    await s.at("mode").filter({ hasText: "Plan" }).waitFor();
    await s.sendPrompt("make a plan");
    const question = s.at("question");
    await question.waitFor();
    await s.at("proposed-plan").locator("strong", { hasText: "guard" }).waitFor();
    assert.doesNotMatch((await question.textContent()) ?? "", /guard/);
    await s.takeScreenshot("plan");
    await question.getByLabel("Yes, edit freely").check();
    await question.getByRole("button", { name: "Answer" }).click();
    await s.waitForTurnEnd(1, "completed");
    await s.at("mode").filter({ hasText: "Auto" }).waitFor();
  },
);

testInWorkbench(
  "an untrusted folder cannot loosen approvals",
  { config: CASSETTE_CONFIG, trust: true, files: { ".agentls/config.toml": '[agent.default]\nmode = "autoEdit"\n' } },
  async (s, page) => {
    // VS Code starts in Restricted Mode.
    await page.locator(".statusbar-item", { hasText: "Restricted Mode" }).waitFor();
    await s.showChat();
    await s.sendPrompt("delete it");
    await s.at("approval").waitFor();
    await s.takeScreenshot("untrusted");
    await s.at("stop").click();
    await s.waitForTurnEnd(1, "cancelled");
    await s.runCommand("Workspaces: Manage Workspace Trust");
    await page.getByRole("button", { name: "Trust", exact: true }).first().click();
    // The button disappears with the focus, so close the page with the mouse.
    await page.getByText("You trust this folder").waitFor();
    await page.getByRole("button", { name: "Close Modal Editor" }).click();
    // VS Code's trust alone activates nothing: the folder's settings are listed first.
    const notice = page.locator(".notification-toast", { hasText: "wants to activate 1 setting" }).first();
    await notice.getByRole("button", { name: "Review…" }).click();
    await page.locator(".quick-input-list .monaco-list-row", { hasText: "Yes, activate" }).click();
    await page.locator(".notification-toast", { hasText: "is trusted" }).first().waitFor();
    await s.runCommand("Agent: New Session");
    await s.at("welcome").waitFor();
    await s.sendPrompt("hello");
    await s.at("mode").filter({ hasText: "Auto" }).waitFor();
  },
);
