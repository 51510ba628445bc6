// Nothing that a user typed is lost: what no turn took goes back to the input of its session.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Attachment } from "../webviewProtocol";
import { FakeServer, STATE } from "./fakeServer";

const FILE: Attachment = { kind: "file", label: "a.ts", block: { type: "reference", uri: "file:///w/a.ts" } };
const LOST = { code: -32097, message: "connection got disposed" };

function emitUserMessage(fake: FakeServer, seq: number, text: string): void {
  fake.emitEvent("message", { seq, messageId: `m${seq}`, role: "user", content: [{ type: "text", text }] });
}

test("an unused steer of a hidden session goes back to its input, with its attachments", async () => {
  const fake = await new FakeServer().connectChat();
  await fake.chat.sendPrompt("hello", []);
  fake.emitEvent("turnStarted", { seq: 1 });
  fake.answers["agent/steer"] = { turnId: "t1" };
  await fake.chat.sendPrompt("and docs", [FILE]);
  fake.chat.startNewSession();
  const unusedSteers = [[{ type: "text", text: "and docs" }]];
  fake.emitEvent("turnEnded", { seq: 2, state: "cancelled", reason: "cancelled", unusedSteers });
  assert.deepEqual(fake.restoredDrafts, ["and docs + a.ts"]);
  assert.deepEqual(fake.restoredSessions, ["s1"]);
});

test("a second prompt with the text of the first is restored when the server dies", async () => {
  const fake = await new FakeServer().connectChat();
  await fake.chat.sendPrompt("continue", []);
  fake.emitEvent("turnStarted", { seq: 1 });
  emitUserMessage(fake, 2, "continue");
  fake.emitEvent("turnEnded", { seq: 3, state: "completed", reason: "completed" });
  await fake.chat.sendPrompt("continue", []);
  fake.lastRequest("agent/prompt").reject(LOST);
  await new Promise(setImmediate);
  assert.deepEqual(fake.restoredDrafts, ["continue"]);
});

test("two prompts in quick succession share one session, and the second steers the first", async () => {
  const fake = await new FakeServer().connectChat();
  delete fake.answers["agent/newSession"];
  fake.answers["agent/steer"] = { turnId: "t1" };
  const first = fake.chat.sendPrompt("fix this", []);
  const second = fake.chat.sendPrompt("and that", []);
  await new Promise(setImmediate);
  assert.equal(fake.requests.filter(({ method }) => method === "agent/newSession").length, 1);
  fake.lastRequest("agent/newSession").resolve({ sessionId: "s1", mode: "ask", seq: 0 });
  await first;
  fake.emitEvent("turnStarted", { seq: 1 });
  await second;
  assert.deepEqual(fake.lastRequest("agent/prompt").params["prompt"], "fix this");
  assert.deepEqual(fake.lastRequest("agent/steer").params["prompt"], "and that");
});

test("a prompt that waits for another one is restored if the server dies", async () => {
  const fake = await new FakeServer().connectChat();
  delete fake.answers["agent/newSession"];
  const first = fake.chat.sendPrompt("fix this", []);
  const second = fake.chat.sendPrompt("and that", []);
  fake.lastRequest("agent/newSession").reject(LOST);
  fake.chat.onDisconnected({ state: "waiting" });
  await Promise.all([first, second]);
  assert.deepEqual([...fake.restoredDrafts].sort(), ["and that", "fix this"]);
});

test("a prompt during the opening of a session belongs to that session", async () => {
  const fake = await new FakeServer().connectChat();
  delete fake.answers["agent/loadSession"];
  const opening = fake.chat.openSession("s7");
  const sending = fake.chat.sendPrompt("hello", []);
  await new Promise(setImmediate);
  assert.ok(!fake.requests.some(({ method }) => method === "agent/newSession"));
  fake
    .lastRequest("agent/loadSession")
    .resolve({ events: [], hasEarlier: false, openApprovals: [], seq: 0, state: STATE });
  await opening;
  await sending;
  assert.equal(fake.lastRequest("agent/prompt").params["sessionId"], "s7");
});

/** Starts a window with the storage of another one. */
async function reloadWindow(old: FakeServer, events: readonly object[]): Promise<FakeServer> {
  const fake = new FakeServer();
  for (const [key, value] of old.storage) fake.storage.set(key, value);
  fake.answers["agent/loadSession"] = {
    events,
    hasEarlier: false,
    openApprovals: [],
    seq: events.length,
    state: STATE,
  };
  await fake.connectChat();
  return fake;
}

const toMessage = (seq: number, text: string) => ({
  method: "agent/message",
  params: {
    ...{ sessionId: "s1", seq, at: 1, turnId: "t1", messageId: `m${seq}`, role: "user" },
    content: [{ type: "text", text }],
  },
});

test("what no turn took before the window was reloaded goes back to the input", async () => {
  const old = await new FakeServer().connectChat();
  await old.chat.sendPrompt("yes", []);
  old.emitEvent("turnStarted", { seq: 1 });
  emitUserMessage(old, 2, "yes");
  old.answers["agent/steer"] = { turnId: "t1" };
  await old.chat.sendPrompt("yes", []);
  await old.chat.sendPrompt("and docs", [FILE]);
  const started = { method: "agent/turnStarted", params: { sessionId: "s1", seq: 1, at: 1, turnId: "t1" } };
  const reloaded = await reloadWindow(old, [started, toMessage(2, "yes"), toMessage(3, "yes")]);
  assert.deepEqual(reloaded.restoredDrafts, ["and docs + a.ts"]);
  const again = await reloadWindow(reloaded, [started, toMessage(2, "yes"), toMessage(3, "yes")]);
  assert.deepEqual(again.restoredDrafts, [], "once");
});

test("a first prompt without a session goes back to the input after a reload", async () => {
  const old = await new FakeServer().connectChat();
  delete old.answers["agent/newSession"];
  void old.chat.sendPrompt("hello", [FILE]);
  const reloaded = await reloadWindow(old, []);
  assert.deepEqual(reloaded.restoredDrafts, ["hello + a.ts"]);
});
