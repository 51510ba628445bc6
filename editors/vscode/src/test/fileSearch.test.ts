// Exclusions and search order of file searches.

import assert from "node:assert/strict";
import { test } from "node:test";
import { buildExcludeGlob, buildSearchGlobs, listExcludePatterns, parseGitignore } from "../fileSearch";

test(".gitignore lines become globs below their folder", () => {
  const text = "# built\ndist/\n/target\n*.log\nsub/gen\na{b},c\n\n  \n";
  assert.deepEqual(parseGitignore(text, ""), ["**/dist", "target", "**/*.log", "sub/gen", "**/a[{]b[}][,]c"]);
  assert.deepEqual(parseGitignore("/out\ntmp", "web/"), ["web/out", "web/**/tmp"]);
});

test("rules narrowed by a ! line are dropped", () => {
  assert.deepEqual(parseGitignore("*.log\n!keep.log\n/data/*\n!/data/own.json\ntmp\n", ""), ["**/tmp"]);
});

test("enabled settings and tool folders are excluded", () => {
  assert.deepEqual(listExcludePatterns({ "**/a": true, "**/b": false, "**/*.js": { when: "$(basename).ts" } }), [
    "**/a",
  ]);
  const glob = buildExcludeGlob(["**/dist"]);
  for (const pattern of ["**/node_modules", "**/node_modules/**", "**/dist", "**/dist/**", "**/.git/**"]) {
    assert.ok(glob.slice(1, -1).split(",").includes(pattern), pattern);
  }
});

test("files near the root and name prefixes are searched first", () => {
  const globs = buildSearchGlobs("ix");
  assert.equal(globs[0], "{[iI][xX]*,*/[iI][xX]*,*/*/[iI][xX]*}");
  assert.deepEqual(globs.slice(-2), ["**/*[iI]*[xX]*", "**/*[iI][xX]*/**"], "then the files of folders");
  assert.equal(buildSearchGlobs("{*}")[0], "{*,*/*}", "signs of globs are not looked for");
  assert.equal(buildSearchGlobs("src/ix")[0], "**/*[sS][rR][cC]/*[iI][xX]*");
});
