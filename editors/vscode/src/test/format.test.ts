// Hidden characters are revealed, except those that scripts, emoji, or prose need.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  countDiffLines,
  escapeLabel,
  escapeNotification,
  findNewErrors,
  formatCost,
  formatSandbox,
  revealHidden,
  revealInProse,
  selectDiffLines,
  wrapText,
} from "../format";
import type { SandboxStatus } from "../protocol";
import { renderHtml } from "../view/markdown";

test("hidden characters are revealed", () => {
  const hidden = [
    ...[0x00ad, 0x061c, 0x180e, 0x200b, 0x200c, 0x200d, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202e, 0x2060],
    ...[0x2064, 0x2066, 0x2069, 0x206f, 0x3164, 0xfe00, 0xfe0f, 0xfeff, 0xffa0, 0x115f, 0x034f, 0x2800, 0x0085],
    ...[0xe0001, 0xe0041, 0xe007f, 0xe0100, 0xe01ef, 0x1d173, 0x1bca0, 0xd800, 0xe000, 0x00a0, 0x2003],
  ];
  for (const code of hidden) {
    const name = code.toString(16).toUpperCase().padStart(4, "0");
    assert.equal(revealHidden(`a${String.fromCodePoint(code)}b`), `a<U+${name}>b`);
  }
  assert.equal(revealHidden("\u001b[2J\u0000\u007f\r"), "␛[2J␀<U+007F>␍");
  assert.equal(revealHidden("a\r\n\tb ü 漢 🙂"), "a\n\tb ü 漢 🙂");
});

test("prose keeps the joiners and spaces that it needs", () => {
  for (const text of ["⚠️ 👩‍🚀 1️⃣", "می‌خواهم", "क्‍ष", "10\u202f000\u00a0€"]) assert.equal(revealInProse(text), text);
  assert.equal(revealInProse("a\ufe0fb\u200dc\u200b"), "a<U+FE0F>b<U+200D>c<U+200B>");
  assert.equal(revealInProse("\u{e0041}🙂\u202e"), "<U+E0041>🙂<U+202E>");
});

test("links in notifications and icons in lists are escaped", () => {
  assert.equal(escapeNotification("[Allow](command:agentls.approve)"), "[Allow] (command:agentls.approve)");
  assert.equal(escapeLabel("bash(echo $(check))\nx"), "bash(echo \\$(check))␊x");
});

test("wrapping loses no characters", () => {
  const text = "bash(git 🙂 log)".repeat(20);
  const chunks = wrapText(text, 64);
  assert.equal(chunks.join(""), text);
  assert.ok(chunks.every((chunk) => [...chunk].length <= 64));
});

test("HTML in Markdown is shown as text", () => {
  for (const source of [
    '<button data-action="insert">Allow</button>',
    "a <span hidden>b</span> c",
    '<section class="approval high">\n\n<b>x</b>\n\n</section>',
    "<!-- hidden -->",
    "<details open><summary>x</summary></details>",
    '- <input type="password">',
    "| <svg onload=x> |\n|---|\n| <iframe srcdoc='x'> |",
    "<style>*{display:none}</style>",
    "a <img src=x onerror=y> b",
    "# <dialog open>",
    '[<button>x</button>](https://a.b "<button>")',
    "```<button>\n<button>\n```",
  ]) {
    assert.doesNotMatch(
      renderHtml(source),
      /<(button|span|section|b|details|summary|input|svg|iframe|style|img|dialog|!--)/,
      source,
    );
  }
});

test("the sandbox is described by its level and the mode", () => {
  const sandbox: SandboxStatus = {
    method: "namespaces",
    level: "full",
    network: "offline",
    policies: [
      { mode: "plan", policy: "readOnly" },
      { mode: "ask", policy: "workspace" },
      { mode: "full", policy: "off" },
    ],
  };
  assert.equal(formatSandbox(undefined, "ask"), "");
  assert.equal(formatSandbox(sandbox, undefined), "sandbox: full (namespaces)");
  assert.equal(formatSandbox(sandbox, "ask"), "sandbox: full (namespaces)");
  assert.equal(formatSandbox(sandbox, "plan"), "sandbox: full (namespaces), read-only");
  assert.equal(formatSandbox(sandbox, "full"), "no sandbox in the mode full");
  assert.equal(formatSandbox({ ...sandbox, level: "none", method: "none" }, "ask"), "no sandbox works here");
  assert.equal(formatSandbox({ ...sandbox, network: "open" }, "ask"), "sandbox: full (namespaces), network open");
  assert.equal(
    formatSandbox({ ...sandbox, network: "proxy" }, "plan"),
    "sandbox: full (namespaces), read-only, network by proxy",
  );
  assert.equal(formatSandbox({ method: "off", level: "none", policies: [] }, "ask"), "sandbox off");
});

test("the cost distinguishes an unknown price from a free model", () => {
  assert.equal(formatCost(undefined), "price unknown");
  assert.equal(formatCost(0), "free");
  assert.equal(formatCost(0.5), "$0.50");
});

test("a diff is shown with all changed lines, and with the names of several files", () => {
  const one = "--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,2 @@\n--- a note\n+++ a sum\n same\n";
  assert.deepEqual(selectDiffLines(one), ["@@ -1,2 +1,2 @@", "--- a note", "+++ a sum", " same"]);
  assert.deepEqual(countDiffLines(one), { added: 1, removed: 1 });
  const two = `${one}--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n`;
  assert.deepEqual(selectDiffLines(two), two.trimEnd().split("\n"));
  assert.deepEqual(countDiffLines(two), { added: 1, removed: 2 });
});

test("the errors that an edit caused are found at the end of its output", () => {
  const report = "Edited a.ts.\nThe editor reports 2 new errors:\na.ts:1:1 error: one\nb.ts:2:2 error: two";
  assert.deepEqual(findNewErrors(report), {
    summary: "2 new errors",
    list: "a.ts:1:1 error: one\nb.ts:2:2 error: two",
  });
  const old = "Edited a.ts.\nThe editor reports 1 error, perhaps older than this edit:\na.ts:1:1 error: one";
  assert.equal(findNewErrors(old)?.summary, "1 error, perhaps older than this edit");
  assert.equal(findNewErrors("Edited a.ts."), undefined);
});
