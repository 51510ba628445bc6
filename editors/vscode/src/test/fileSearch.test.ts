// What a search for files leaves out, and what it looks for first.

import assert from "node:assert/strict";
import { test } from "node:test";
import { excludeGlob, excludePatterns, ignorePatterns, searchGlobs } from "../fileSearch";

test("the lines of a .gitignore are globs below its folder", () => {
  const text = "# built\ndist/\n/target\n*.log\nsub/gen\na{b},c\n\n  \n";
  assert.deepEqual(ignorePatterns(text, ""), ["**/dist", "target", "**/*.log", "sub/gen", "**/a[{]b[}][,]c"]);
  assert.deepEqual(ignorePatterns("/out\ntmp", "web/"), ["web/out", "web/**/tmp"]);
});

test("what is taken in again is not left out", () => {
  assert.deepEqual(ignorePatterns("*.log\n!keep.log\n/data/*\n!/data/own.json\ntmp\n", ""), ["**/tmp"]);
});

test("the editor's own patterns count where they are on, and what tools fetch always", () => {
  assert.deepEqual(excludePatterns({ "**/a": true, "**/b": false, "**/*.js": { when: "$(basename).ts" } }), ["**/a"]);
  const glob = excludeGlob(["**/dist"]);
  for (const part of ["**/node_modules", "**/node_modules/**", "**/dist", "**/dist/**", "**/.git/**"]) {
    assert.ok(glob.slice(1, -1).split(",").includes(part), part);
  }
});

test("near the top and at the beginning of a name is looked first", () => {
  const globs = searchGlobs("ix");
  assert.equal(globs[0], "{[iI][xX]*,*/[iI][xX]*,*/*/[iI][xX]*}");
  assert.equal(globs.at(-1), "**/*[iI]*[xX]*");
  assert.equal(searchGlobs("{*}")[0], "{*,*/*}", "signs of globs are not looked for");
  assert.equal(searchGlobs("src/ix")[0], "**/*[sS][rR][cC]/*[iI][xX]*");
});
