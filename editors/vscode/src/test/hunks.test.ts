// Edits built from a reviewed text produce that text under the server's own rules.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  applyDiff,
  applyEdits,
  buildEdits,
  compareReview,
  computeHunks,
  describeDifference,
  findHunkAtLine,
  hasSeveralFiles,
  reverseDiff,
} from "../hunks";

/** Applies edits like `edit_file`: each old text must occur once in the current text. */
function applyServerEdits(randomText: string, edits: { old_text: string; new_text: string }[]): string {
  let applied = randomText;
  for (const { old_text, new_text } of edits) {
    assert.notEqual(old_text, "", "an empty text cannot be found");
    const at = applied.indexOf(old_text);
    assert.ok(at >= 0, `${JSON.stringify(old_text)} is there`);
    assert.equal(applied.indexOf(old_text, at + 1), -1, `${JSON.stringify(old_text)} is there once`);
    applied = applied.slice(0, at) + new_text + applied.slice(at + old_text.length);
  }
  return applied;
}

const CASES: [name: string, before: string, after: string][] = [
  ["one line", "a\nb\nc\n", "a\nB\nc\n"],
  ["lines that are not unique", "x\nx\nx\nx\ny\n", "x\nx\nz\nx\ny\n"],
  ["two neighbours", "a\nb\nc\nd\ne\n", "A\nb\nC\nd\nE\n"],
  ["only added", "a\nb\n", "a\nnew\nb\n"],
  ["added at the end", "a\nb\n", "a\nb\nc\n"],
  ["only removed", "a\nb\nc\n", "a\nc\n"],
  ["no line feed at the end", "a\nb", "a\nc"],
  ["all alike", "x\nx\nx\n", "x\nx\nx\nx\n"],
];
for (const [name, before, after] of CASES) {
  test(`edits: ${name}`, () => assert.equal(applyServerEdits(before, buildEdits(before, after)), after));
}

test("edits: random texts", () => {
  let seed = 7;
  const nextRandom = (limit: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return seed % limit;
  };
  const text = () =>
    Array.from({ length: 1 + nextRandom(12) }, () => "abc"[nextRandom(3)]).join("\n") + (nextRandom(2) ? "\n" : "");
  for (let round = 0; round < 2000; round++) {
    const before = text();
    const after = text();
    assert.equal(applyServerEdits(before, buildEdits(before, after)), after);
  }
});

test("findHunkAtLine returns the hunk at a line", () => {
  const list = computeHunks("a\nb\nc\nd\n", "a\nB\nB2\nc\n");
  assert.equal(list.length, 2);
  assert.equal(findHunkAtLine(list, 2)?.oldStart, 1);
  assert.equal(findHunkAtLine(list, 0), undefined);
  assert.equal(findHunkAtLine(list, 3)?.old[0], "d\n");
});

test("a diff is applied and reversed", () => {
  const diff = "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n";
  assert.equal(applyDiff("a\nb\nc\n", diff), "a\nB\nc\n");
  assert.equal(reverseDiff("a\nB\nc\n", diff), "a\nb\nc\n");
  assert.equal(applyDiff("quite\nanother\n", diff), undefined);
});

test("a diff of several files is not taken for the first one", () => {
  const first = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";
  const diff = `${first}--- a/y\n+++ b/z\n--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n`;
  assert.equal(hasSeveralFiles(first), false);
  assert.equal(applyDiff("a\n", first), "b\n");
  assert.equal(hasSeveralFiles(diff), true);
  assert.equal(applyDiff("a\n", diff), undefined);
  assert.equal(reverseDiff("b\n", diff), undefined);
});

test("a review describes rejected and edited hunks", () => {
  const before = "a\nb\nc\nd\ne\nf\ng\n";
  const proposal = "A\nb\nc\nD\ne\nf\nG\n";
  const describeReviewed = (text: string) => describeDifference(compareReview(before, proposal, text));
  assert.equal(describeReviewed(proposal), "");
  assert.equal(describeReviewed("A\nb\nc\nd\ne\nf\nG\n"), "1 of 3 hunks rejected");
  assert.equal(describeReviewed("A\nb\nc\nDD\ne\nf\nG\n"), "1 hunk edited by you");
  assert.equal(describeReviewed("a\nb\nc\nd\ne\nx\nf\nG\n"), "2 of 3 hunks rejected, 1 hunk edited by you");
  assert.equal(describeReviewed(before), "3 of 3 hunks rejected");
});

test("edits apply only if each old text is unambiguous", () => {
  assert.equal(applyEdits("a\nb\n", [{ old_text: "b", new_text: "$&c" }]), "a\n$&c\n");
  assert.equal(applyEdits("x x", [{ old_text: "x", new_text: "y" }]), undefined);
  assert.equal(applyEdits("x x", [{ old_text: "x", new_text: "y", replace_all: true }]), "y y");
  assert.equal(applyEdits("a", [{ old_text: "b", new_text: "c" }]), undefined);
  assert.equal(applyEdits("a", [{ old_text: "", new_text: "c" }]), undefined);
});
