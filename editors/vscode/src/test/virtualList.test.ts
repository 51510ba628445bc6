// Which rows of a long list are rendered, and whether the list follows its end.

import assert from "node:assert/strict";
import { test } from "node:test";
import { buildRows, computeVisibleRange, findEntryInGap, HeightCache, shouldFollowEnd } from "../view/virtualList";

const fixedHeight = () => 100;
const keepNoEntry = () => false;

test("the end of a list renders a view plus overscan, regardless of the list's length", () => {
  for (const count of [10_000, 20_000]) {
    assert.deepEqual(computeVisibleRange(count, fixedHeight, undefined, 500, 300), { from: count - 8, to: count });
  }
  assert.deepEqual(computeVisibleRange(3, fixedHeight, undefined, 500, 300), { from: 0, to: 3 });
});

test("an anchor renders a view around it plus overscan on both sides", () => {
  assert.deepEqual(computeVisibleRange(1000, fixedHeight, { at: 500, offset: -20 }, 500, 300), { from: 497, to: 509 });
  assert.deepEqual(computeVisibleRange(1000, fixedHeight, { at: 0, offset: 30 }, 500, 300), { from: 0, to: 8 });
  assert.deepEqual(computeVisibleRange(1000, fixedHeight, { at: 999, offset: 400 }, 500, 300), { from: 992, to: 1000 });
});

test("gaps add up the heights of omitted entries, and required entries stay rendered", () => {
  const parts = buildRows(
    10,
    { from: 6, to: 8 },
    (scrollState) => scrollState === 3,
    (at) => at + 1,
  );
  assert.deepEqual(parts, [
    { kind: "gap", from: 0, to: 3, height: 6 },
    { kind: "entry", at: 3 },
    { kind: "gap", from: 4, to: 6, height: 11 },
    { kind: "entry", at: 6 },
    { kind: "entry", at: 7 },
    { kind: "gap", from: 8, to: 10, height: 19 },
  ]);
  assert.deepEqual(buildRows(0, { from: 0, to: 0 }, keepNoEntry, fixedHeight), []);
});

test("a position in a gap maps to an entry", () => {
  assert.deepEqual(findEntryInGap({ from: 4, to: 9 }, fixedHeight, 250), { at: 6, top: 200 });
  assert.deepEqual(findEntryInGap({ from: 4, to: 9 }, fixedHeight, 9000), { at: 8, top: 400 });
  assert.deepEqual(findEntryInGap({ from: 4, to: 9 }, fixedHeight, -5), { at: 4, top: 0 });
});

test("an unmeasured entry gets the mean height of its kind", () => {
  const heights = new HeightCache();
  const estimate = heights.getHeight("assistant a");
  assert.ok(heights.setHeight("assistant a", 300));
  assert.ok(!heights.setHeight("assistant a", 300));
  heights.setHeight("assistant b", 100);
  assert.notEqual(heights.getHeight("assistant c"), estimate);
  assert.equal(heights.getHeight("assistant c"), 200);
  heights.setHeight("assistant b", 500);
  assert.equal(heights.getHeight("assistant c"), 400);
  heights.setHeight("assistant b", 90_000);
  assert.equal(heights.getHeight("assistant c"), 650, "a huge answer says nothing about the others");
  heights.setHeight("assistant b", 500);
  assert.equal(heights.getHeight("assistant c"), 400);
});

test("only a user scroll stops following the end; a height change does not", () => {
  const at = (top: number, height = 1000, view = 300) => ({ top, height, view });
  assert.equal(shouldFollowEnd(true, at(700), at(500), false), false, "scrolled up");
  assert.equal(shouldFollowEnd(true, at(700), at(700, 1400), false), true, "it grew");
  assert.equal(shouldFollowEnd(true, at(700), at(500, 1400), false), true, "it grew above, and was moved");
  assert.equal(shouldFollowEnd(true, at(700), at(500, 1400), true), false, "scrolled up by hand while it grew");
  assert.equal(shouldFollowEnd(true, at(700), at(700, 1400), true), true, "it grew after a key that did not scroll");
  assert.equal(shouldFollowEnd(true, at(700), at(700, 1000, 200), false), true, "the view shrank");
  assert.equal(shouldFollowEnd(false, at(200), at(400), false), false, "on the way down");
  assert.equal(shouldFollowEnd(false, at(200), at(690), false), true, "at the end again");
});
