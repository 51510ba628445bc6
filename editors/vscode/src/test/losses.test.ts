// What an approval lists as lost for good, and that its reason does not say it again.

import assert from "node:assert/strict";
import { test } from "node:test";
import { summarizeLosses } from "../losses";

const files = (count: number) => Array.from({ length: count }, (_, at) => ({ what: `f${at}`, bytes: 1 }));

test("a call without losses has no list", () => {
  assert.equal(summarizeLosses({}), undefined);
  assert.equal(summarizeLosses({ loses: [], losesMore: { count: 0, isPartial: true } }), undefined);
});

test("what the list shows is not repeated in the reason", () => {
  assert.deepEqual(
    summarizeLosses({
      loses: [
        { what: "data/a.bin", bytes: 70_000_000 },
        { what: "b", bytes: 12 },
        { what: "all entries of the stash" },
      ],
      otherWhy: "runs a command in the sandbox",
    }),
    {
      rows: [
        { what: "data/a.bin", size: "70 MB" },
        { what: "b", size: "12 bytes" },
        { what: "all entries of the stash", size: "" },
      ],
      more: undefined,
      fullText: undefined,
      reason: "runs a command in the sandbox",
    },
  );
  assert.equal(summarizeLosses({ loses: files(1) })?.reason, "");
});

test("a long list shows its first rows and how many more there are", () => {
  const six = summarizeLosses({ loses: files(6) });
  assert.deepEqual([six?.rows.length, six?.more, six?.fullText], [6, undefined, undefined]);
  const seven = summarizeLosses({ loses: files(7) });
  assert.deepEqual([seven?.rows.length, seven?.more], [5, "and 2 more"]);
  assert.equal(
    seven?.fullText,
    "f0 (1 byte)\nf1 (1 byte)\nf2 (1 byte)\nf3 (1 byte)\nf4 (1 byte)\nf5 (1 byte)\nf6 (1 byte)\n",
  );
  const many = summarizeLosses({ loses: files(20), losesMore: { count: 480, isPartial: true } });
  assert.equal(many?.more, "and at least 495 more");
  assert.ok(many?.fullText?.endsWith("f19 (1 byte)\nand at least 480 more\n"));
  const open = summarizeLosses({ loses: files(3), losesMore: { count: 0, isPartial: true } });
  assert.equal(open?.more, "and perhaps more");
});

test("a long path keeps its start and its file name, and hidden characters are revealed", () => {
  const what = `${"deep/".repeat(40)}results.csv`;
  const summary = summarizeLosses({ loses: [{ what, bytes: 20_000 }] });
  assert.match(summary?.rows[0]?.what ?? "", /^deep\/.*….*\/results\.csv$/);
  assert.ok((summary?.rows[0]?.what.length ?? 0) <= 80);
  assert.equal(summary?.fullText, `${what} (20 KB)\n`);
  const hiding = summarizeLosses({ loses: [{ what: "a\u202eb" }] });
  assert.equal(hiding?.rows[0]?.what, "a<U+202E>b");
});
