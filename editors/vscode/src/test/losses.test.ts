// What an approval lists as lost for good, and that its reason does not say it again.

import assert from "node:assert/strict";
import { test } from "node:test";
import { summarizeLosses } from "../losses";

const files = (count: number) => Array.from({ length: count }, (_, at) => ({ what: `f${at}`, bytes: 1 }));
const START = "deletes or overwrites for good: ";

test("a call without losses has no list", () => {
  assert.equal(summarizeLosses({ why: "runs a command" }), undefined);
  assert.equal(summarizeLosses({ why: `${START}a`, loses: [] }), undefined);
});

test("what the list shows is not repeated in the reason", () => {
  assert.deepEqual(
    summarizeLosses({
      why: `${START}data/a.bin (70.0 MB), b (12 bytes) · runs a command in the sandbox`,
      loses: [
        { what: "data/a.bin", bytes: 70_000_000 },
        { what: "b", bytes: 12 },
      ],
    }),
    {
      rows: [
        { what: "data/a.bin", size: "70 MB" },
        { what: "b", size: "12 bytes" },
      ],
      more: undefined,
      fullText: undefined,
      reason: "runs a command in the sandbox",
    },
  );
  const stash = summarizeLosses({
    why: `${START}all entries of the stash`,
    loses: [{ what: "all entries of the stash" }],
  });
  assert.deepEqual([stash?.rows, stash?.reason], [[{ what: "all entries of the stash", size: "" }], ""]);
});

test("a long list shows its first rows and how many more there are", () => {
  const why = (rest: string) => `${START}f0 (1 bytes), f1 (1 bytes), f2 (1 bytes)${rest}`;
  const more = (rest: string, count: number) => summarizeLosses({ why: why(rest), loses: files(count) })?.more;
  const six = summarizeLosses({ why: why(", and 3 more"), loses: files(6) });
  assert.deepEqual([six?.rows.length, six?.more, six?.fullText], [6, undefined, undefined]);
  const seven = summarizeLosses({ why: why(", and 4 more"), loses: files(7) });
  assert.deepEqual([seven?.rows.length, seven?.more, seven?.reason], [5, "and 2 more", ""]);
  assert.equal(
    seven?.fullText,
    "f0 (1 byte)\nf1 (1 byte)\nf2 (1 byte)\nf3 (1 byte)\nf4 (1 byte)\nf5 (1 byte)\nf6 (1 byte)\n",
  );
  assert.equal(more(", and at least 497 more", 20), "and at least 495 more");
  assert.equal(more(", perhaps more", 3), "and perhaps more");
  const many = summarizeLosses({ why: why(", and at least 497 more"), loses: files(20) });
  assert.ok(many?.fullText?.endsWith("f19 (1 byte)\nand at least 480 more\n"));
});

test("a reason in other words is shown whole", () => {
  for (const why of [
    "would delete f0",
    `${START}other (1 bytes)`,
    `${START}f0 (1 bytes), f1`,
    `${START}f0 and so on`,
  ]) {
    assert.equal(summarizeLosses({ why, loses: files(1) })?.reason, why);
  }
  const unknown = summarizeLosses({ why: "would delete much", loses: files(20) });
  assert.deepEqual([unknown?.rows.length, unknown?.more], [5, "and at least 15 more"]);
});

test("no name of a file can end the list early or hide the rest of the reason", () => {
  const what = "a, and 9 more · harmless";
  const summary = summarizeLosses({ why: `${START}${what} (5 bytes) · uses the network`, loses: [{ what, bytes: 5 }] });
  assert.deepEqual([summary?.rows[0]?.what, summary?.more, summary?.reason], [what, undefined, "uses the network"]);
});

test("a long path keeps its start and its file name, and hidden characters are revealed", () => {
  const what = `${"deep/".repeat(40)}results.csv`;
  const why = `${START}${what.slice(0, 59)}… (20.0 KB) · runs a command`;
  const summary = summarizeLosses({ why, loses: [{ what, bytes: 20_000 }] });
  assert.match(summary?.rows[0]?.what ?? "", /^deep\/.*….*\/results\.csv$/);
  assert.ok((summary?.rows[0]?.what.length ?? 0) <= 80);
  assert.deepEqual([summary?.fullText, summary?.reason], [`${what} (20 KB)\n`, "runs a command"]);
  const hiding = summarizeLosses({ why: `${START}a<U+202E>b`, loses: [{ what: "a\u202eb" }] });
  assert.deepEqual([hiding?.rows[0]?.what, hiding?.reason], ["a<U+202E>b", ""]);
});
