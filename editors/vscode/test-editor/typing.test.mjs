// Typing is never consent: whoever goes on writing while a question appears decides nothing, and loses nothing. Only
// chords decide from the input, and letters decide only on a card that the user focused.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { CASSETTE_CONFIG, createStepRunner, TIMEOUT_MS, waitUntil, withWorkbench } from "./workbench.mjs";

const tool = (name, input) => ({ tool: { name, input } });
const bash = (command) => tool("bash", { command });
const buildExchanges = (prompt, ...steps) =>
  [...steps, [{ text: "That is done." }]].map((events, step) => ({ when: { prompt, step }, repeat: true, events }));

/** Sentences that begin with each key of a question. */
const SENTENCES = [
  "you should run it with -v instead",
  "no, wait",
  "so what does it do?",
  "and the tests?",
  "explain it first",
  "does it write files?",
  "1 file or more?",
  "2 files then",
  "\nyes but carefully",
];
/** A human's pause before the next sentence, in ms. */
const PAUSES = [300, 1000, 5000];

/** Whether the view has reported an answer since the last prompt. */
const hasDecided = async (s) => (await s.at("last-answer").textContent()) !== "";

const OPTIONS = {
  config: CASSETTE_CONFIG,
  files: { "one.txt": "one\n", "two.txt": "two\n" },
  exchanges: [
    ...buildExchanges("run it", [bash("touch ran.txt")]),
    ...buildExchanges("run both", [bash("touch first.txt"), bash("touch second.txt")]),
    ...buildExchanges("run three", [bash("touch 1.txt"), bash("touch 2.txt"), bash("touch 3.txt")]),
    ...buildExchanges("ask me", [tool("ask_user", { question: "Which color?", choices: ["red", "blue"] })]),
    ...buildExchanges("edit it", [
      tool("edit_file", { path: "one.txt", edits: [{ old_text: "one", new_text: "ONE" }] }),
    ]),
    ...buildExchanges("edit again", [
      tool("edit_file", { path: "two.txt", edits: [{ old_text: "two", new_text: "TWO" }] }),
    ]),
  ],
};

/** Runs steps in a workbench whose chat is shown. */
function testTyping(name, body) {
  test(name, { timeout: 12 * TIMEOUT_MS }, (t) =>
    withWorkbench(name, OPTIONS, async (s, page) => {
      const chat = {
        step: createStepRunner(t, s),
        exists: (file) => fs.existsSync(path.join(s.workspace, file)),
        input: () => s.at("input").inputValue(),
        focusedField: () => s.at("app").evaluate(() => document.activeElement?.getAttribute("data-testid")),
      };
      await s.showChat();
      await body(s, page, chat);
    }),
  );
}

testTyping("typing decides nothing", async (s, page, { step, exists, input }) => {
  let turns = 0;
  const typeSentence = async (sentence) => {
    for (const letter of sentence) {
      if (letter === "\n") await page.keyboard.press("Enter");
      else await page.keyboard.type(letter);
    }
  };

  for (const pause of PAUSES) {
    await step(`sentences typed ${pause} ms after a question stay text`, async () => {
      const sentences = pause === 5000 ? SENTENCES.slice(0, 3) : SENTENCES;
      for (const sentence of sentences) {
        await s.sendPrompt("run it");
        await s.at("approval").waitFor();
        await sleep(pause);
        await typeSentence(sentence);
        assert.equal(await input(), sentence.trim());
        assert.equal(await s.at("approval").count(), 1, `"${sentence}" leaves the question open`);
        assert.equal(await hasDecided(s), false);
        assert.ok(!exists("ran.txt"));
        assert.equal(await page.locator(".tab").count(), 0, "no review opens");
        // The text stays while a chord decides.
        await s.card.waitFor();
        await page.keyboard.press(sentence === SENTENCES[0] ? "Control+Enter" : "Control+Alt+n");
        await s.waitForTurnEnd(++turns, "completed");
        assert.equal(await input(), sentence.trim());
        assert.equal(exists("ran.txt"), sentence === SENTENCES[0]);
        fs.rmSync(path.join(s.workspace, "ran.txt"), { force: true });
        await s.at("input").fill("");
      }
    });
  }

  await step("Enter sends the text to the running turn and does not answer", async () => {
    await s.sendPrompt("run it");
    await s.card.waitFor();
    await page.keyboard.type("yes, but only once");
    await page.keyboard.press("Enter");
    await s.at("waiting").filter({ hasText: "yes, but only once" }).waitFor();
    assert.equal(await s.at("approval").count(), 1);
    await page.keyboard.press("Control+Alt+n");
    await s.waitForTurnEnd(++turns, "completed");
    assert.ok(!exists("ran.txt"));
  });

  await step(
    "Ctrl+Backspace deletes a word of a draft, and denies only from an input that was empty before",
    async () => {
      await s.sendPrompt("run it");
      await s.card.waitFor();
      await page.keyboard.type("two words");
      await s.at("action-n").locator("kbd.draft", { hasText: "Ctrl Alt N" }).waitFor();
      for (const left of ["two ", ""]) {
        await page.keyboard.press("Control+Backspace");
        assert.equal(await input(), left);
      }
      // One press too many, as of someone who deletes a text.
      await page.keyboard.press("Control+Backspace");
      assert.equal(await hasDecided(s), false);
      await sleep(1100);
      await page.keyboard.press("Control+Backspace");
      await s.waitForTurnEnd(++turns, "completed");
      assert.ok(!exists("ran.txt"));
    },
  );
});

testTyping("letters and chords decide on purpose", async (s, page, { step, exists, input, focusedField }) => {
  let turns = 0;

  await step("an arrow key from the empty input focuses the question, and then its letters decide", async () => {
    await s.sendPrompt("run it");
    await s.card.waitFor();
    assert.equal(await s.at("action-y").locator("kbd.letter").isVisible(), false);
    await page.keyboard.press("ArrowUp");
    await s.view.locator('[data-testid="approval"][data-armed="true"]:focus').waitFor();
    await s.at("action-y").locator("kbd.letter").filter({ visible: true }).waitFor();
    await page.keyboard.press("ArrowDown");
    await waitUntil(async () => (await focusedField()) === "input", "the focus in the input");
    await page.keyboard.press("ArrowUp");
    await s.view.locator('[data-testid="approval"][data-armed="true"]:focus').waitFor();
    await page.keyboard.press("y");
    await s.waitForTurnEnd(++turns, "completed");
    assert.ok(exists("ran.txt"));
  });

  await step("after an answer, what is typed is text, not an answer to the next question", async () => {
    await s.sendPrompt("run both");
    await s.at("approval").nth(1).waitFor();
    await s.card.waitFor();
    await page.keyboard.press("ArrowUp");
    await s.view.locator('[data-testid="approval"][data-armed="true"]:focus').waitFor();
    await page.keyboard.press("y");
    await waitUntil(async () => (await s.at("approval").count()) === 1, "one question left");
    await sleep(1000);
    await page.keyboard.type("yes and no");
    assert.equal(await input(), "yes and no");
    assert.equal(await s.at("approval").count(), 1);
    assert.ok(exists("first.txt") && !exists("second.txt"));
    await s.card.waitFor();
    await page.keyboard.press("Control+Enter");
    await s.waitForTurnEnd(++turns, "completed");
    assert.ok(exists("second.txt"));
    await s.at("input").fill("");
  });

  await step("the chord answers one question at a time, the one that shows it", async () => {
    await s.sendPrompt("run three");
    await s.at("approval").nth(2).waitFor();
    for (const left of [2, 1, 0]) {
      const shown = s.view.locator('[data-testid="approval"][data-keys="near"]');
      await shown.filter({ hasText: `touch ${3 - left}.txt` }).waitFor();
      assert.equal(await shown.count(), 1);
      // The first press may only show the question.
      await waitUntil(async () => {
        await s.card.waitFor({ timeout: 1000 }).catch(() => {});
        if ((await s.at("approval").count()) > left) await page.keyboard.press("Control+Enter");
        return (await s.at("approval").count()) === left;
      }, `${left} left`);
      await s
        .at("last-answer")
        .filter({ hasText: `touch ${3 - left}.txt` })
        .waitFor();
    }
    await s.waitForTurnEnd(++turns, "completed");
  });

  await step("digits answer the agent's question only on its focused card", async () => {
    await s.sendPrompt("ask me");
    await s.at("question").waitFor();
    await sleep(1000);
    await page.keyboard.type("1 or 2?");
    assert.equal(await input(), "1 or 2?");
    assert.equal(await s.at("question").locator("input:checked").count(), 0);
    await s.at("input").fill("");
    await page.keyboard.press("ArrowUp");
    await s.view.locator('[data-testid="question"][data-armed="true"]:focus').waitFor();
    // The only field is answered at once.
    await page.keyboard.press("2");
    await s.view.locator(".note", { hasText: "Which color? → blue" }).waitFor();
    await s.waitForTurnEnd(++turns, "completed");
    await page.keyboard.type("x");
    assert.equal(await input(), "x");
    await s.at("input").fill("");
  });

  await step("a review that closes gives the focus back to the chat", async () => {
    await s.openFile("two.txt");
    await s.runCommand("View: Keep Editor");
    await s.at("input").click();
    await s.sendPrompt("edit it");
    await s.card.press("d");
    const right = page.locator('.monaco-diff-editor .modified .monaco-editor[data-uri$="one.txt"] .view-line');
    await right.filter({ hasText: "ONE" }).first().click();
    await page.keyboard.press("Control+Alt+y");
    await s.waitForTurnEnd(++turns, "completed");
    await page.locator(".tab", { hasText: "(proposed edit)" }).waitFor({ state: "detached" });
    await waitUntil(async () => (await focusedField()) === "input", "the focus in the input");
    await page.keyboard.type("yes, next");
    await waitUntil(async () => (await input()) === "yes, next", "the text in the input");
    assert.equal(await page.locator(".tab.dirty").count(), 0, "no file has changed");
    await s.at("input").fill("");
  });

  await step("a review that the user closes gives the focus back to its card", async () => {
    await s.sendPrompt("edit again");
    await s.card.press("d");
    const right = page.locator('.monaco-diff-editor .modified .monaco-editor[data-uri$="two.txt"] .view-line');
    await right.filter({ hasText: "TWO" }).first().click();
    await s.runCommand("View: Close Editor");
    await s.view.locator('[data-testid="approval"][data-armed="true"]:focus').waitFor();
    await page.keyboard.press("n");
    await s.waitForTurnEnd(++turns, "completed");
    assert.equal(s.readFile("two.txt"), "two\n");
  });
});

test("what is not visible cannot be allowed", { timeout: 6 * TIMEOUT_MS }, (t) =>
  withWorkbench(
    "not visible",
    {
      config: CASSETTE_CONFIG,
      exchanges: buildExchanges("far one", [
        { text: Array.from({ length: 80 }, (_, at) => `Line ${at} of a story.`).join("\n\n") },
        bash("touch far.txt"),
      ]),
    },
    async (s, page) => {
      const step = createStepRunner(t, s);
      const exists = () => fs.existsSync(path.join(s.workspace, "far.txt"));
      const hide = () => s.at("log").evaluate((log) => log.scrollTo(0, 0));
      /** Dispatches a key to an element without scrolling to it. */
      const pressUnseen = (selector, key) =>
        s.at("app").evaluate(
          (_app, [name, pressed]) => {
            const element = document.querySelector(name);
            element.focus({ preventScroll: true });
            element.dispatchEvent(new KeyboardEvent("keydown", { key: pressed, bubbles: true, cancelable: true }));
            if (pressed === " ") element.click();
          },
          [selector, key],
        );
      await s.showChat();
      await s.sendPrompt("far one");
      await s.card.waitFor();
      const attempts = {
        "a letter": () => pressUnseen('[data-testid="approval"]', "y"),
        "a letter for the session": () => pressUnseen('[data-testid="approval"]', "s"),
        "a button by keyboard": () => pressUnseen('[data-testid="action-y"]', " "),
        "a chord from the input": async () => {
          await s.at("input").focus();
          await page.keyboard.press("Control+Enter");
        },
        "an editor key": async () => {
          await s.at("input").focus();
          await page.keyboard.press("Control+Alt+y");
        },
        "a command": async () => {
          await s.at("input").focus();
          await s.runCommand("Allow Pending Request");
        },
      };
      for (const [name, attempt] of Object.entries(attempts)) {
        await step(`${name} shows the question first`, async () => {
          await s.card.waitFor();
          await hide();
          await attempt();
          await waitUntil(
            () =>
              s.at("approval").evaluate((card) => {
                const { top, bottom } = card.getBoundingClientRect();
                return top >= -1 && bottom <= window.innerHeight;
              }),
            "the question in sight",
          );
          assert.equal(await s.at("approval").count(), 1);
          assert.equal(await hasDecided(s), false);
          assert.ok(!exists());
        });
      }

      await step("then the next press answers it", async () => {
        await s.card.waitFor();
        await s.at("input").focus();
        await page.keyboard.press("Control+Enter");
        await s.waitForTurnEnd(1, "completed");
        assert.ok(exists());
      });
    },
  ),
);
