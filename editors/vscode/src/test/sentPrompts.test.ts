// Prompts that were sent but are not in a session yet.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SentPrompts } from "../sentPrompts";
import { createChatState, type UserItem } from "../state";

const userItem = (id: string, text: string): UserItem => ({
  kind: "user",
  id,
  text,
  references: [],
  images: 0,
  steer: false,
});
const stateWith = (...items: UserItem[]) => ({ ...createChatState("s1"), items });

test("a prompt from before session creation moves to the session", () => {
  const sent = new SentPrompts();
  sent.addPrompt(undefined, "hello", [], false);
  sent.onSessionCreated("s1");
  assert.equal(sent.getPending(undefined), undefined);
  assert.deepEqual(
    sent.getPending("s1")?.map(({ text }) => text),
    ["hello"],
  );
});

test("a command that the server expands is matched", () => {
  const sent = new SentPrompts();
  sent.addPrompt("s1", "/fix it", [], false);
  sent.onItemsAdded(stateWith(), stateWith(userItem("m1", "Please fix this: it")));
  assert.equal(sent.getPending("s1"), undefined);
});

test("items that were known before match no prompt", () => {
  const sent = new SentPrompts();
  sent.addPrompt("s1", "again", [], true);
  const before = stateWith(userItem("m1", "again"));
  sent.onItemsAdded(before, before);
  assert.equal(sent.getPending("s1")?.length, 1);
  assert.deepEqual(sent.takeUnusedSteers("s1"), ["again"]);
  assert.equal(sent.getPending("s1"), undefined);
});
