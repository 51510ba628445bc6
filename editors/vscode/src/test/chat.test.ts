// The chat against a fake server: which requests user actions send, and that no input is lost.

import assert from "node:assert/strict";
import { test } from "node:test";
import { RestartPolicy } from "../restartPolicy";
import { CAPABILITY, FakeServer, STATE } from "./fakeServer";

test("the first prompt creates a session with the selected settings", async () => {
  const fake = await new FakeServer().connectChat();
  await fake.chat.setMode("autoEdit");
  await fake.chat.setModel("tape/one", undefined);
  await fake.chat.sendPrompt("hello", []);
  assert.deepEqual(fake.lastRequest("agent/newSession").params, {
    remembered: true,
    mode: "autoEdit",
    model: "tape/one",
  });
  assert.deepEqual(fake.lastRequest("agent/prompt").params, { sessionId: "s1", prompt: "hello" });
  assert.equal(fake.storage.get("session"), "s1");
});

test("a prompt during a turn is a steer, or a new prompt if the turn just ended", async () => {
  const fake = await new FakeServer().connectChat();
  await fake.chat.sendPrompt("hello", []);
  fake.emitEvent("turnStarted", { seq: 1 });
  const sending = fake.chat.sendPrompt("and tests", []);
  assert.deepEqual(fake.lastRequest("agent/steer").params, {
    sessionId: "s1",
    prompt: "and tests",
    expectedTurnId: "t1",
  });
  fake.lastRequest("agent/steer").reject({ code: -32803, data: { refusal: "noTurn", message: "no turn runs" } });
  await sending;
  assert.deepEqual(fake.lastRequest("agent/prompt").params, { sessionId: "s1", prompt: "and tests" });
});

test("the first stop cancels the request, and the second cancels the turn", async () => {
  const fake = await new FakeServer().connectChat();
  await fake.chat.sendPrompt("hello", []);
  fake.emitEvent("turnStarted", { seq: 1 });
  fake.chat.cancelTurn();
  assert.equal(fake.lastRequest("agent/prompt").signal?.aborted, true);
  assert.deepEqual(fake.notifications, []);
  fake.chat.cancelTurn();
  assert.deepEqual(fake.notifications, [{ method: "agent/cancel", params: { sessionId: "s1" } }]);
});

test("a turn that another client started is stopped by agent/cancel", async () => {
  const fake = new FakeServer();
  fake.storage.set("session", "s1");
  fake.answers["agent/loadSession"] = {
    events: [],
    hasEarlier: false,
    openApprovals: [],
    seq: 3,
    state: { ...STATE, runningTurnId: "t9" },
  };
  await fake.connectChat();
  fake.chat.cancelTurn();
  assert.equal(fake.notifications[0]?.method, "agent/cancel");
});

test("the next prompt can be sent after the turn's end, before its response", async () => {
  const fake = await new FakeServer().connectChat();
  await fake.chat.sendPrompt("hello", []);
  const first = fake.lastRequest("agent/prompt");
  assert.equal(fake.chat.view.isSending, true);
  fake.emitEvent("turnStarted", { seq: 1 });
  fake.emitEvent("turnEnded", { seq: 2, state: "completed", reason: "completed" });
  assert.equal(fake.chat.view.isSending, false);
  await fake.chat.sendPrompt("again", []);
  assert.equal(fake.lastRequest("agent/prompt").params["prompt"], "again");
  first.resolve({});
  await new Promise(setImmediate);
  assert.equal(fake.chat.view.isSending, true, "the second prompt is still being sent");
  fake.emitEvent("turnStarted", { seq: 3, turnId: "t2" });
  fake.chat.cancelTurn();
  assert.equal(fake.lastRequest("agent/prompt").signal?.aborted, true);
});

test("stop without a turn has no effect", async () => {
  const fake = await new FakeServer().connectChat();
  fake.chat.cancelTurn();
  assert.deepEqual(fake.notifications, []);
});

test("a rejected prompt is restored with its attachments", async () => {
  const fake = await new FakeServer().connectChat();
  await fake.chat.sendPrompt("hello", [
    { kind: "file", label: "a.ts", block: { type: "reference", uri: "file:///w/a.ts" } },
  ]);
  fake.lastRequest("agent/prompt").reject({ code: -32803, data: { message: "a turn is running", userAction: "wait" } });
  await new Promise(setImmediate);
  assert.deepEqual(fake.restoredDrafts, ["hello + a.ts"]);
  assert.equal(fake.chat.view.error, "a turn is running\nwait");
});

test("a prompt whose turn had started is not restored when the server dies", async () => {
  const fake = await new FakeServer().connectChat();
  await fake.chat.sendPrompt("hello", []);
  fake.emitEvent("turnStarted", { seq: 1 });
  fake.emitEvent("message", { seq: 2, messageId: "m1", role: "user", content: [{ type: "text", text: "hello" }] });
  fake.lastRequest("agent/prompt").reject({ code: -32097, message: "connection got disposed" });
  await new Promise(setImmediate);
  assert.deepEqual(fake.restoredDrafts, []);
  assert.equal(fake.chat.view.error, undefined);
});

test("the view names the process of the connected server, also while it does not respond", async () => {
  const fake = await new FakeServer().connectChat();
  assert.deepEqual(fake.chat.view.connection, { state: "ready", serverPid: 1234 });
  fake.chat.onSilenceChanged("no response");
  const silent = { state: "ready", serverPid: 1234, isSilent: true, message: "no response" };
  assert.deepEqual(fake.chat.view.connection, silent);
  fake.chat.onDisconnected({ state: "waiting" });
  assert.deepEqual(fake.chat.view.connection, { state: "waiting" });
});

test("a prompt without a server is restored", async () => {
  const fake = new FakeServer();
  await fake.chat.sendPrompt("hello", []);
  assert.deepEqual(fake.restoredDrafts, ["hello"]);
});

test("a reconnect continues the session from the last event", async () => {
  const fake = await new FakeServer().connectChat();
  await fake.chat.sendPrompt("hello", []);
  fake.emitEvent("turnStarted", { seq: 1 });
  fake.emitEvent("message", { seq: 2, messageId: "m1", role: "user", content: [{ type: "text", text: "hello" }] });
  fake.chat.onDisconnected({ state: "waiting", message: "ended" });
  assert.equal(fake.chat.activeSession?.running, undefined);
  assert.equal(fake.chat.activeSession?.items.length, 1, "the content stays");
  fake.answers["agent/loadSession"] = {
    events: [
      {
        method: "agent/turnEnded",
        params: {
          sessionId: "s1",
          seq: 3,
          at: 1,
          turnId: "t1",
          state: "interrupted",
          reason: "server_stopped",
          usage: {},
        },
      },
    ],
    hasEarlier: false,
    openApprovals: [],
    seq: 3,
    state: { ...STATE, resumableTurnId: "t1" },
  };
  await fake.connectChat();
  assert.deepEqual(fake.lastRequest("agent/loadSession").params, { sessionId: "s1", afterSeq: 2 });
  assert.equal(fake.chat.activeSession?.resumable, "t1");
});

test("a decision on an interrupted turn resumes the turn", async () => {
  const fake = new FakeServer();
  fake.storage.set("session", "s1");
  const approval = {
    sessionId: "s1",
    seq: 2,
    at: 1,
    approvalId: "a1",
    toolCallId: "c1",
    name: "bash",
    input: {},
    title: "x",
    cwd: "/w",
    risk: "high",
    why: "y",
  };
  fake.answers["agent/loadSession"] = {
    events: [],
    hasEarlier: false,
    openApprovals: [approval],
    seq: 3,
    state: { ...STATE, resumableTurnId: "t1" },
  };
  await fake.connectChat();
  await fake.chat.respondToApproval("a1", "allow", {});
  assert.equal(fake.lastRequest("agent/approvalRespond").params["decision"], "allow");
  assert.deepEqual(fake.lastRequest("agent/resumeTurn").params, { sessionId: "s1" });
});

test("a deleted session is left", async () => {
  const fake = new FakeServer();
  fake.storage.set("session", "s9");
  delete fake.answers["agent/loadSession"];
  const connecting = fake.chat.onConnected(fake.api, CAPABILITY);
  await new Promise(setImmediate);
  fake
    .lastRequest("agent/loadSession")
    .reject({ data: { refusal: "unknownSession", message: "there is no such session" } });
  await connecting;
  assert.equal(fake.chat.activeSession, undefined);
  assert.equal(fake.storage.has("session"), false);
});

test("a locked session opens read-only with its holder", async () => {
  const fake = new FakeServer();
  fake.storage.set("session", "s1");
  delete fake.answers["agent/loadSession"];
  const connecting = fake.chat.onConnected(fake.api, CAPABILITY);
  await new Promise(setImmediate);
  fake
    .lastRequest("agent/loadSession")
    .reject({ data: { refusal: "sessionLocked", message: "it is open", holder: "an editor (process 7)" } });
  await new Promise(setImmediate);
  assert.equal(fake.lastRequest("agent/loadSession").params["readOnly"], true);
  fake
    .lastRequest("agent/loadSession")
    .resolve({ events: [], hasEarlier: false, openApprovals: [], seq: 4, state: STATE });
  await connecting;
  assert.equal(fake.chat.activeSession?.seq, 4);
  assert.deepEqual(fake.chat.view.locked, { sessionId: "s1", holder: "an editor (process 7)", pid: 7 });
  fake.chat.startNewSession();
  assert.equal(fake.chat.view.locked, undefined);
});

const ASKED = { name: "bash", input: {}, title: "x", cwd: "/w", risk: "high", why: "y", toolCallId: "c1" };

/** Opens two sessions, each with an open approval: `a1` in `s1`, and `a2` in `s2`, which is shown. */
async function askInTwoSessions(): Promise<FakeServer> {
  const fake = await new FakeServer().connectChat();
  for (const [sessionId, approvalId] of [
    ["s1", "a1"],
    ["s2", "a2"],
  ]) {
    fake.chat.startNewSession();
    fake.answers["agent/newSession"] = { sessionId, mode: "ask", seq: 0 };
    await fake.chat.sendPrompt("hello", []);
    fake.emitEvent("turnStarted", { sessionId, seq: 1 });
    fake.emitEvent("approvalRequested", { sessionId, seq: 2, approvalId, ...ASKED });
  }
  return fake;
}

function emitStatus(fake: FakeServer, openApprovals: number): void {
  fake.chat.onNotification({ method: "agent/status", params: { state: "busy", runningTurns: 2, openApprovals } });
}

test("a question in another session is counted and can be shown", async () => {
  const fake = await askInTwoSessions();
  assert.equal(fake.chat.view.pendingElsewhere, 1);
  await fake.chat.showPendingSession();
  assert.equal(fake.chat.activeSession?.sessionId, "s1");
  assert.equal(fake.chat.view.pendingElsewhere, 1, "the other one waits now");
});

test("an answer in the shown session leaves the note about the other one", async () => {
  const fake = await askInTwoSessions();
  fake.answers["agent/listApprovals"] = { approvals: [{ sessionId: "s1" }, { sessionId: "s2" }] };
  emitStatus(fake, 2);
  await new Promise(setImmediate);
  assert.equal(fake.chat.view.pendingElsewhere, 1);
  // The server counts the answer before the event reaches the view.
  fake.answers["agent/listApprovals"] = { approvals: [{ sessionId: "s1" }] };
  emitStatus(fake, 1);
  fake.emitEvent("approvalResolved", {
    sessionId: "s2",
    seq: 3,
    approvalId: "a2",
    toolCallId: "c1",
    decision: "allow",
  });
  await new Promise(setImmediate);
  assert.equal(fake.chat.view.pendingElsewhere, 1);
  await fake.chat.showPendingSession();
  assert.equal(fake.storage.get("session"), "s1");
});

test("an interrupted turn's open question does not count as another session's", async () => {
  const fake = new FakeServer();
  fake.storage.set("session", "s1");
  const approval = {
    ...{ sessionId: "s1", seq: 2, at: 1, approvalId: "a1", toolCallId: "c1", name: "bash", input: {} },
  };
  fake.answers["agent/loadSession"] = {
    events: [],
    hasEarlier: false,
    openApprovals: [{ ...approval, title: "x", cwd: "/w", risk: "high", why: "y" }],
    seq: 3,
    state: { ...STATE, resumableTurnId: "t1" },
  };
  await fake.connectChat();
  fake.chat.onNotification({ method: "agent/status", params: { state: "ready", runningTurns: 0, openApprovals: 1 } });
  assert.equal(fake.chat.view.pendingElsewhere, 0);
});

test("the shown session's limit does not count as another session's", async () => {
  const fake = new FakeServer();
  // It waited before the window was reloaded. Sessions of earlier windows wait without a note.
  fake.storage.set("waiting", '["s2"]');
  await fake.connectChat();
  await fake.chat.sendPrompt("hello", []);
  fake.emitEvent("turnStarted", { seq: 1 });
  fake.emitEvent("limitRequested", {
    seq: 2,
    limitId: "l1",
    limit: "max_turn_cost",
    used: 1,
    max: 1,
    message: "reached",
  });
  fake.chat.onNotification({ method: "agent/status", params: { state: "busy", runningTurns: 1, openApprovals: 1 } });
  assert.equal(fake.chat.view.pendingElsewhere, 0);
  fake.answers["agent/listApprovals"] = {
    approvals: [],
    limits: ["s1", "s2", "old"].map((sessionId) => ({ sessionId })),
  };
  fake.chat.onNotification({ method: "agent/status", params: { state: "busy", runningTurns: 2, openApprovals: 2 } });
  await new Promise(setImmediate);
  assert.equal(fake.chat.view.pendingElsewhere, 1);
  assert.equal(fake.chat.view.openRequestCount, 2);
  assert.deepEqual(fake.chat.view.waitingSessions, ["s1", "s2", "old"]);
  await fake.chat.showPendingSession();
  assert.equal(fake.storage.get("session"), "s2");
});

test("missing server features are disabled", async () => {
  const { chat } = await new FakeServer().connectChat();
  assert.deepEqual(chat.view.capabilities, {
    images: false,
    steer: true,
    compact: false,
    circuits: false,
    credentials: false,
    limits: false,
    questions: false,
    queue: false,
    revert: false,
    fork: false,
    exports: false,
    agents: false,
    commands: false,
    trust: false,
    mcp: false,
  });
});

test("restart delays double up to a limit and reset after a stable run", () => {
  const policy = new RestartPolicy();
  const delays = Array.from({ length: 12 }, () => {
    policy.recordStart(0);
    return policy.recordExit(100);
  });
  assert.deepEqual(delays.slice(0, 4), [300, 600, 1200, 2400]);
  assert.equal(delays.at(-1), 30_000);
  policy.recordStart(0);
  assert.equal(policy.recordExit(70_000), 300);
});

test("only selected settings are sent; the server remembers the rest", async () => {
  const fake = await new FakeServer().connectChat();
  fake.answers["agent/newSession"] = { sessionId: "s1", mode: "autoEdit", seq: 0, model: "tape/one", effort: "high" };
  await fake.chat.sendPrompt("hello", []);
  assert.deepEqual(fake.lastRequest("agent/newSession").params, { remembered: true });
  const { mode, model, effort } = fake.chat.activeSession ?? {};
  assert.deepEqual({ mode, model, effort }, { mode: "autoEdit", model: "tape/one", effort: "high" });
});

test("an effort selected without a model applies to the new session", async () => {
  const fake = await new FakeServer().connectChat();
  await fake.chat.setModel(undefined, "low");
  await fake.chat.sendPrompt("hello", []);
  assert.deepEqual(fake.lastRequest("agent/newSession").params, { remembered: true, effort: "low" });
  assert.ok(!fake.requests.some(({ method }) => method === "agent/setModel"));
});

test("the provider default overrides a remembered effort", async () => {
  const fake = await new FakeServer().connectChat();
  fake.answers["agent/newSession"] = { sessionId: "s1", mode: "ask", seq: 0, model: "tape/one", effort: "high" };
  fake.answers["agent/setModel"] = {};
  await fake.chat.setModel(undefined, undefined);
  await fake.chat.sendPrompt("hello", []);
  assert.deepEqual(fake.lastRequest("agent/setModel").params, { sessionId: "s1", model: "tape/one" });
  assert.equal(fake.chat.activeSession?.effort, undefined);
});

test("an unsent selection survives a reload and ends with its session", async () => {
  const fake = await new FakeServer().connectChat();
  await fake.chat.setMode("plan");
  await fake.chat.setModel("tape/two", undefined);
  const reloaded = new FakeServer();
  for (const [key, value] of fake.storage) reloaded.storage.set(key, value);
  await reloaded.connectChat();
  await reloaded.chat.sendPrompt("hello", []);
  assert.deepEqual(reloaded.lastRequest("agent/newSession").params, {
    remembered: true,
    mode: "plan",
    model: "tape/two",
  });
  reloaded.chat.startNewSession();
  await reloaded.chat.sendPrompt("and another", []);
  assert.deepEqual(reloaded.lastRequest("agent/newSession").params, { remembered: true });
  assert.deepEqual(
    reloaded.chat.view.lastChoice,
    { mode: "plan", model: "tape/two" },
    "the view shows what the server uses",
  );
});

test("full mode is not remembered", async () => {
  const fake = await new FakeServer().connectChat();
  await fake.chat.setMode("full");
  assert.deepEqual(fake.chat.view.lastChoice, {});
});

test("a sent prompt is shown immediately, until the session contains it", async () => {
  const fake = await new FakeServer().connectChat();
  const listPending = () =>
    (fake.chat.view.pendingPrompts ?? []).map(({ text, steer }) => `${steer ? "steer" : "prompt"} ${text}`);
  const emitMessage = (seq: number, id: string, text: string) =>
    fake.emitEvent("message", { seq, messageId: id, role: "user", content: [{ type: "text", text }] });
  const sending = fake.chat.sendPrompt("hello", []);
  assert.deepEqual(listPending(), ["prompt hello"]);
  await sending;
  fake.emitEvent("turnStarted", { seq: 1 });
  assert.deepEqual(listPending(), ["prompt hello"]);
  emitMessage(2, "m1", "hello");
  assert.deepEqual(listPending(), []);
  fake.answers["agent/steer"] = { turnId: "t1" };
  await fake.chat.sendPrompt("and tests", []);
  await fake.chat.sendPrompt("and docs", []);
  assert.deepEqual(listPending(), ["steer and tests", "steer and docs"]);
  emitMessage(3, "m2", "and tests");
  assert.deepEqual(listPending(), ["steer and docs"]);
  fake.emitEvent("turnEnded", {
    seq: 4,
    state: "cancelled",
    reason: "cancelled",
    unusedSteers: [[{ type: "text", text: "and docs" }]],
  });
  assert.deepEqual(listPending(), []);
  assert.deepEqual(fake.restoredDrafts, ["and docs"], "once");
});

test("a rejected steer is not pending", async () => {
  const fake = await new FakeServer().connectChat();
  await fake.chat.sendPrompt("hello", []);
  fake.emitEvent("turnStarted", { seq: 1 });
  const sending = fake.chat.sendPrompt("no", []);
  fake.lastRequest("agent/steer").reject({ data: { message: "not now" } });
  await sending;
  assert.deepEqual(
    (fake.chat.view.pendingPrompts ?? []).filter(({ steer }) => steer),
    [],
  );
  assert.deepEqual(fake.restoredDrafts, ["no"]);
});

test("stop during session creation restores the prompt", async () => {
  const fake = await new FakeServer().connectChat();
  delete fake.answers["agent/newSession"];
  const sending = fake.chat.sendPrompt("hello", [
    { kind: "file", label: "a.ts", block: { type: "reference", uri: "file:///w/a.ts" } },
  ]);
  fake.chat.cancelTurn();
  await sending;
  assert.deepEqual(fake.restoredDrafts, ["hello + a.ts"]);
  assert.equal(fake.chat.view.isSending, false);
  assert.equal(fake.stopCount, 1);
});

test("an outdated count does not report another session", async () => {
  const fake = new FakeServer();
  fake.storage.set("session", "s1");
  fake.answers["agent/listApprovals"] = { approvals: [{ sessionId: "s1" }] };
  delete fake.answers["agent/loadSession"];
  const connecting = fake.chat.onConnected(fake.api, CAPABILITY);
  await new Promise(setImmediate);
  fake.chat.onNotification({ method: "agent/status", params: { state: "ready", runningTurns: 0, openApprovals: 1 } });
  await new Promise(setImmediate);
  assert.equal(fake.chat.view.pendingElsewhere, 0, "the session is being loaded");
  fake
    .lastRequest("agent/loadSession")
    .resolve({ events: [], hasEarlier: false, openApprovals: [], seq: 0, state: STATE });
  await connecting;
  await new Promise(setImmediate);
  assert.equal(fake.chat.view.pendingElsewhere, 0, "the request was answered, and the count is outdated");
});

test("a new session clears the error, the last answer, the revert preview, and the queue edit", async () => {
  const fake = await new FakeServer().connectChat();
  const pendingRevert = { sessionId: "s1", turnId: "t1", redo: false, turns: 1 };
  fake.chat.updateView({
    error: "it failed",
    lastAnswer: "Denied: x",
    queueEdit: { promptId: "q1", text: "x" },
    pendingRevert: { ...pendingRevert, files: [], fileCount: 0, conflicts: [], conflictCount: 0 },
  });
  fake.chat.startNewSession();
  const { error, lastAnswer, queueEdit, pendingRevert: preview } = fake.chat.view;
  assert.deepEqual([error, lastAnswer, queueEdit, preview], [undefined, undefined, undefined, undefined]);
});
