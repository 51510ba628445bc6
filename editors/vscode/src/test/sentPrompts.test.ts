// What was sent and no session holds yet.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SentPrompts } from "../sentPrompts";
import { empty, type UserItem } from "../state";

const user = (id: string, text: string): UserItem => ({
  kind: "user",
  id,
  text,
  references: [],
  images: 0,
  steer: false,
});
const holding = (...items: UserItem[]) => ({ ...empty("s1"), items });

test("a prompt from before its session was made goes along with it", () => {
  const sent = new SentPrompts();
  sent.add(undefined, "hello", [], false);
  sent.made("s1");
  assert.equal(sent.of(undefined), undefined);
  assert.deepEqual(
    sent.of("s1")?.map(({ text }) => text),
    ["hello"],
  );
});

test("a command that the server expands is taken all the same", () => {
  const sent = new SentPrompts();
  sent.add("s1", "/fix it", [], false);
  sent.taken(holding(), holding(user("m1", "Please fix this: it")));
  assert.equal(sent.of("s1"), undefined);
});

test("what the session held before takes nothing", () => {
  const sent = new SentPrompts();
  sent.add("s1", "again", [], true);
  const before = holding(user("m1", "again"));
  sent.taken(before, before);
  assert.equal(sent.of("s1")?.length, 1);
  assert.deepEqual(sent.ended("s1"), ["again"]);
  assert.equal(sent.of("s1"), undefined);
});
