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
  const sentPrompts = new SentPrompts({ get: () => undefined, set() {} });
  sentPrompts.addPrompt(undefined, { text: "hello", attach: [] }, false);
  sentPrompts.onSessionCreated("s1");
  assert.equal(sentPrompts.getPending(undefined), undefined);
  assert.deepEqual(
    sentPrompts.getPending("s1")?.map(({ text }) => text),
    ["hello"],
  );
});

test("a command that the server expands is matched", () => {
  const sentPrompts = new SentPrompts({ get: () => undefined, set() {} });
  sentPrompts.addPrompt(stateWith(), { text: "/fix it", attach: [] }, false);
  sentPrompts.onItemsAdded(stateWith(), stateWith(userItem("m1", "Please fix this: it")));
  assert.equal(sentPrompts.getPending("s1"), undefined);
});

test("items that were known before match no prompt", () => {
  const sentPrompts = new SentPrompts({ get: () => undefined, set() {} });
  sentPrompts.addPrompt(stateWith(), { text: "again", attach: [] }, true);
  const before = stateWith(userItem("m1", "again"));
  sentPrompts.onItemsAdded(before, before);
  assert.equal(sentPrompts.getPending("s1")?.length, 1);
  assert.deepEqual(sentPrompts.takeUnusedSteers("s1"), [{ text: "again", attach: [] }]);
  assert.equal(sentPrompts.getPending("s1"), undefined);
});
