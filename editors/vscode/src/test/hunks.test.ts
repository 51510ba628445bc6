// Edits built from a reviewed text produce that text under the server's own rules.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  applyDiff,
  applyEdits,
  buildEdits,
  buildPatch,
  compareReview,
  computeHunks,
  describeDifference,
  findHunkAtLine,
  reverseDiff,
  splitDiff,
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

/** Applies a patch of one file like `apply_patch`: each hunk must fit at one place of the text. */
function applyServerPatch(text: string, patch: string): string {
  const lines = text === "" ? [] : text.replace(/\n$/, "").split("\n");
  const hunks: string[][] = [];
  for (const line of patch.split("\n").slice(2, -2)) {
    if (line === "@@") hunks.push([]);
    else hunks.at(-1)?.push(line);
  }
  const changes = hunks.map((hunk) => {
    const old = hunk.filter((line) => !line.startsWith("+")).map((line) => line.slice(1));
    const places = lines.flatMap((_, at) => (old.every((line, offset) => lines[at + offset] === line) ? [at] : []));
    assert.equal(old.length === 0 ? lines.length : places.length, old.length === 0 ? 0 : 1, patch);
    return { at: places[0] ?? 0, hunk };
  });
  const applied: string[] = [];
  const kept = lines.map(() => true);
  const added = new Map<number, string[]>();
  for (const { at, hunk } of changes) {
    let next = at;
    for (const line of hunk) {
      if (line.startsWith("+")) added.set(next, [...(added.get(next) ?? []), line.slice(1)]);
      else kept[next++] &&= line.startsWith(" ");
    }
  }
  for (let at = 0; at <= lines.length; at++) {
    applied.push(...(added.get(at) ?? []));
    if (kept[at]) applied.push(lines[at] ?? "");
  }
  return applied.join("\n") + (text === "" || text.endsWith("\n") ? "\n" : "");
}

const UPDATE = "*** Begin Patch\n*** Update File: a.txt\n@@\n-a\n+b\n*** End Patch";

for (const [name, before, after] of CASES) {
  test(`patch: ${name}`, () => {
    const patch = buildPatch(UPDATE, before, after) ?? "";
    assert.ok(patch.startsWith("*** Begin Patch\n*** Update File: a.txt\n@@\n"), patch);
    assert.equal(applyServerPatch(before, patch), after);
  });
}

test("a patch can only be edited if it writes one file", () => {
  const add = "*** Begin Patch\n*** Add File: new.txt\n+one\n*** End Patch\n";
  assert.equal(buildPatch(add, "", "one\n\ntwo\n"), add.replace("+one\n", "+one\n+\n+two\n"));
  for (const patch of [
    "*** Delete File: a.txt\n",
    UPDATE.replace("@@", "*** Move to: b.txt\n@@"),
    UPDATE.replace("*** End", "*** Add File: b.txt\n+b\n*** End"),
    "nothing",
  ]) {
    assert.equal(buildPatch(patch, "a\n", "b\n"), undefined, patch);
  }
  // The tool keeps how a file ends, so the result would differ from what was reviewed.
  assert.equal(buildPatch(UPDATE, "a\nb", "a\nb\n"), undefined);
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
  assert.equal(applyDiff("a\n", first), "b\n");
  const paths = splitDiff(diff).map(({ from, to }) => [from, to]);
  assert.deepEqual(paths, [
    ["x", "x"],
    ["y", "z"],
    ["old", "old"],
  ]);
  const [changed, moved, gone] = splitDiff(diff);
  assert.deepEqual([changed?.apply("a\n"), changed?.apply("other\n")], ["b\n", undefined]);
  assert.deepEqual([moved?.apply("same\n"), gone?.apply("gone\n")], ["same\n", ""]);
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
