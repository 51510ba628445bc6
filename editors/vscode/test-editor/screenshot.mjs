// Creates media/screenshot.png in a real VS Code with the real server: a turn with a plan, a sub-agent, and an edit. It
// needs what run.mjs needs, and VSIX. Check the picture before you commit it.

import path from "node:path";
import { fileURLToPath } from "node:url";
import { CASSETTE_CONFIG, openWorkbench } from "./workbench.mjs";

const PICTURE = path.join(path.dirname(fileURLToPath(import.meta.url)), "../media/screenshot.png");
const CONFIG = `${CASSETTE_CONFIG}mode = "autoEdit"
`;
const FILES = {
  "src/total.ts": `import type { Item } from "./item";

/** The price of a basket, minus a discount in percent. */
export function total(items: Item[], discount = 0): number {
  const sum = items.reduce((all, item) => all + item.price, 0);
  return sum - discount;
}
`,
  "src/item.ts": "export interface Item {\n  name: string;\n  price: number;\n}\n",
  "src/shop.ts": 'import { total } from "./total";\n\nexport const sale = total([{ name: "tea", price: 9.99 }], 10);\n',
  "AGENTS.md": "Round prices to cents.\n",
};
const tool = (name, input) => ({ tool: { name, input } });
const plan = (...states) => {
  const steps = ["Find the callers of total", "Fix the discount", "Round to cents"];
  return tool("update_plan", { items: steps.map((text, at) => ({ text, status: states[at] })) });
};
const PROMPT = "The discount should be a percentage. Fix it.";
const buildMatcher = (step) => ({ when: { prompt: PROMPT, step }, repeat: true });
const CHILD = "Find all callers of total";
const EXCHANGES = [
  { ...buildMatcher(0), events: [plan("in_progress", "pending", "pending"), tool("delegate", { prompt: CHILD })] },
  {
    when: { prompt: CHILD, step: 0 },
    events: [
      tool("grep", { pattern: "total" }),
      tool("read_file", { path: "src/shop.ts" }),
      { usage: { input: 5100, output: 90, cost: 0.006 } },
    ],
  },
  {
    when: { prompt: CHILD, step: 1 },
    events: [
      { text: "One caller: src/shop.ts passes 10 (percent)." },
      { usage: { input: 5600, output: 30, cost: 0.006 } },
    ],
  },
  {
    ...buildMatcher(1),
    events: [
      { text: "The only caller passes a **percentage**, as the comment says." },
      tool("edit_file", {
        path: "src/total.ts",
        edits: [
          {
            old_text: "  return sum - discount;\n}\n",
            new_text:
              "  return cents(sum * (1 - discount / 100));\n}\n\nfunction cents(price: number): number {\n  return Math.round(price * 100) / 100;\n}\n",
          },
        ],
      }),
      plan("completed", "completed", "completed"),
      { usage: { input: 18200, output: 640, cost: 0.0312 } },
    ],
  },
  { ...buildMatcher(2), events: [{ text: "Tea at ten percent off now costs `8.99`." }] },
];

const s = await openWorkbench({ config: CONFIG, files: FILES, exchanges: EXCHANGES, ownHost: true });
try {
  const { page } = s;
  await s.showChat();
  // Widen the side bar.
  const sash = await page.locator(".part.sidebar").boundingBox();
  await page.mouse.move(sash.x + sash.width, 400);
  await page.mouse.down();
  await page.mouse.move(sash.x + sash.width + 270, 400, { steps: 10 });
  await page.mouse.up();
  await s.sendPrompt(PROMPT);
  await s.waitForTurnEnd(1, "completed");
  const delegate = s.view.locator('[data-testid="tool"]', { hasText: "Delegate" }).first();
  await delegate.locator(".head").first().click();
  // Show the edit in the diff editor.
  await s.view.locator('[data-testid="tool"]', { hasText: "Edit src/total.ts" }).last().locator(".head").click();
  await s.at("changes").getByTestId("changed-file").click();
  await page.locator(".monaco-diff-editor .modified .view-line", { hasText: "cents" }).first().waitFor();
  await s.at("input").focus();
  await page.mouse.move(900, 700);
  await page.screenshot({ path: PICTURE });
} finally {
  await s.close();
}
