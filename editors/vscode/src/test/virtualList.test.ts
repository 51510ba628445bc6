// Which entries of a long list are in the page, and whether it follows its end.

import assert from "node:assert/strict";
import { test } from "node:test";
import { entryInGap, followsAfter, Heights, partsOf, spanAt } from "../view/virtualList";

const tall = () => 100;
const never = () => false;

test("at the end stands what fills the view and some more, however long the list is", () => {
  for (const count of [10_000, 20_000]) {
    assert.deepEqual(spanAt(count, tall, undefined, 500, 300), { from: count - 8, to: count });
  }
  assert.deepEqual(spanAt(3, tall, undefined, 500, 300), { from: 0, to: 3 });
});

test("around an anchor stands what fills the view, and some more above and below", () => {
  assert.deepEqual(spanAt(1000, tall, { at: 500, offset: -20 }, 500, 300), { from: 497, to: 509 });
  assert.deepEqual(spanAt(1000, tall, { at: 0, offset: 30 }, 500, 300), { from: 0, to: 8 });
  assert.deepEqual(spanAt(1000, tall, { at: 999, offset: 400 }, 500, 300), { from: 992, to: 1000 });
});

test("the room of what is left out adds up, and what must stay in the page stays", () => {
  const parts = partsOf(
    10,
    { from: 6, to: 8 },
    (at) => at === 3,
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
  assert.deepEqual(partsOf(0, { from: 0, to: 0 }, never, tall), []);
});

test("a place in a gap is an entry's", () => {
  assert.deepEqual(entryInGap({ from: 4, to: 9 }, tall, 250), { at: 6, top: 200 });
  assert.deepEqual(entryInGap({ from: 4, to: 9 }, tall, 9000), { at: 8, top: 400 });
  assert.deepEqual(entryInGap({ from: 4, to: 9 }, tall, -5), { at: 4, top: 0 });
});

test("what was not measured is as high as others of its kind", () => {
  const heights = new Heights();
  const guess = heights.of("assistant a");
  assert.ok(heights.set("assistant a", 300));
  assert.ok(!heights.set("assistant a", 300));
  heights.set("assistant b", 100);
  assert.notEqual(heights.of("assistant c"), guess);
  assert.equal(heights.of("assistant c"), 200);
  heights.set("assistant b", 500);
  assert.equal(heights.of("assistant c"), 400);
  heights.set("assistant b", 90_000);
  assert.equal(heights.of("assistant c"), 650, "a huge answer says nothing about the others");
  heights.set("assistant b", 500);
  assert.equal(heights.of("assistant c"), 400);
});

test("only a person leaves the end: what a height moves does not", () => {
  const at = (top: number, height = 1000, view = 300) => ({ top, height, view });
  assert.equal(followsAfter(true, at(700), at(500), false), false, "scrolled up");
  assert.equal(followsAfter(true, at(700), at(700, 1400), false), true, "it grew");
  assert.equal(followsAfter(true, at(700), at(500, 1400), false), true, "it grew above, and was moved");
  assert.equal(followsAfter(true, at(700), at(500, 1400), true), false, "scrolled up by hand while it grew");
  assert.equal(followsAfter(true, at(700), at(700, 1400), true), true, "it grew after a key that did not scroll");
  assert.equal(followsAfter(true, at(700), at(700, 1000, 200), false), true, "the view shrank");
  assert.equal(followsAfter(false, at(200), at(400), false), false, "on the way down");
  assert.equal(followsAfter(false, at(200), at(690), false), true, "at the end again");
});
