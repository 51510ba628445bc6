// Exclusions and search order of file searches.

import assert from "node:assert/strict";
import { test } from "node:test";
import { buildExcludeGlob, buildSearchGlobs, listExcludePatterns, parseGitignore } from "../fileSearch";

test("the lines of a .gitignore are globs below its folder", () => {
  const text = "# built\ndist/\n/target\n*.log\nsub/gen\na{b},c\n\n  \n";
  assert.deepEqual(parseGitignore(text, ""), ["**/dist", "target", "**/*.log", "sub/gen", "**/a[{]b[}][,]c"]);
  assert.deepEqual(parseGitignore("/out\ntmp", "web/"), ["web/out", "web/**/tmp"]);
});

test("what is taken in again is not left out", () => {
  assert.deepEqual(parseGitignore("*.log\n!keep.log\n/data/*\n!/data/own.json\ntmp\n", ""), ["**/tmp"]);
});

test("the editor's own patterns count where they are on, and what tools fetch always", () => {
  assert.deepEqual(listExcludePatterns({ "**/a": true, "**/b": false, "**/*.js": { when: "$(basename).ts" } }), [
    "**/a",
  ]);
  const glob = buildExcludeGlob(["**/dist"]);
  for (const part of ["**/node_modules", "**/node_modules/**", "**/dist", "**/dist/**", "**/.git/**"]) {
    assert.ok(glob.slice(1, -1).split(",").includes(part), part);
  }
});

test("near the top and at the beginning of a name is looked first", () => {
  const globs = buildSearchGlobs("ix");
  assert.equal(globs[0], "{[iI][xX]*,*/[iI][xX]*,*/*/[iI][xX]*}");
  assert.equal(globs.at(-1), "**/*[iI]*[xX]*");
  assert.equal(buildSearchGlobs("{*}")[0], "{*,*/*}", "signs of globs are not looked for");
  assert.equal(buildSearchGlobs("src/ix")[0], "**/*[sS][rR][cC]/*[iI][xX]*");
});
