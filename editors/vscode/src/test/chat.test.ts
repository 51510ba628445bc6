// The chat with a server of a few lines: which requests a person's wishes become, and what is never lost.

import assert from "node:assert/strict";
import { test } from "node:test";
import { RestartPolicy } from "../restartPolicy";
import { CAPABILITY, Fake, STATE } from "./fakeServer";

test("the first prompt makes a session with what was chosen", async () => {
  const fake = await new Fake().connect();
  await fake.chat.setMode("autoEdit");
  await fake.chat.setModel("tape/one", undefined);
  await fake.chat.send("hello", []);
  assert.deepEqual(fake.last("agent/newSession").params, { remembered: true, mode: "autoEdit", model: "tape/one" });
  assert.deepEqual(fake.last("agent/prompt").params, { sessionId: "s1", prompt: "hello" });
  assert.equal(fake.kept.get("session"), "s1");
});

test("while a turn runs a prompt is a steer, and a prompt again when the turn has ended meanwhile", async () => {
  const fake = await new Fake().connect();
  await fake.chat.send("hello", []);
  fake.event("turnStarted", { seq: 1 });
  const sent = fake.chat.send("and tests", []);
  assert.deepEqual(fake.last("agent/steer").params, { sessionId: "s1", prompt: "and tests", expectedTurnId: "t1" });
  fake.last("agent/steer").refuse({ code: -32803, data: { refusal: "noTurn", message: "no turn runs" } });
  await sent;
  assert.deepEqual(fake.last("agent/prompt").params, { sessionId: "s1", prompt: "and tests" });
});

test("stop cancels our request, and the second stop the turn", async () => {
  const fake = await new Fake().connect();
  await fake.chat.send("hello", []);
  fake.event("turnStarted", { seq: 1 });
  fake.chat.cancel();
  assert.equal(fake.last("agent/prompt").signal?.aborted, true);
  assert.deepEqual(fake.notified, []);
  fake.chat.cancel();
  assert.deepEqual(fake.notified, [{ method: "agent/cancel", params: { sessionId: "s1" } }]);
});

test("a turn that another asked for is stopped by agent/cancel", async () => {
  const fake = new Fake();
  fake.kept.set("session", "s1");
  fake.answers["agent/loadSession"] = {
    events: [],
    hasEarlier: false,
    openApprovals: [],
    seq: 3,
    state: { ...STATE, runningTurnId: "t9" },
  };
  await fake.connect();
  fake.chat.cancel();
  assert.equal(fake.notified[0]?.method, "agent/cancel");
});

test("the next prompt waits for the turn's end, not for the answer after it", async () => {
  const fake = await new Fake().connect();
  await fake.chat.send("hello", []);
  const first = fake.last("agent/prompt");
  assert.equal(fake.chat.view.sending, true);
  fake.event("turnStarted", { seq: 1 });
  fake.event("turnEnded", { seq: 2, state: "completed", reason: "completed" });
  assert.equal(fake.chat.view.sending, false);
  await fake.chat.send("again", []);
  assert.equal(fake.last("agent/prompt").params["prompt"], "again");
  first.answer({});
  await new Promise(setImmediate);
  assert.equal(fake.chat.view.sending, true, "the second is still on its way");
  fake.event("turnStarted", { seq: 3, turnId: "t2" });
  fake.chat.cancel();
  assert.equal(fake.last("agent/prompt").signal?.aborted, true);
});

test("stop without a turn does nothing", async () => {
  const fake = await new Fake().connect();
  fake.chat.cancel();
  assert.deepEqual(fake.notified, []);
});

test("a prompt that is refused goes back to where it was typed, with what was attached", async () => {
  const fake = await new Fake().connect();
  await fake.chat.send("hello", [{ kind: "file", label: "a.ts", block: { type: "reference", uri: "file:///w/a.ts" } }]);
  fake.last("agent/prompt").refuse({ code: -32803, data: { message: "a turn is running", userAction: "wait" } });
  await new Promise(setImmediate);
  assert.deepEqual(fake.given, ["hello + a.ts"]);
  assert.equal(fake.chat.view.trouble, "a turn is running\nwait");
});

test("a prompt whose turn had begun when the server died does not go back", async () => {
  const fake = await new Fake().connect();
  await fake.chat.send("hello", []);
  fake.event("turnStarted", { seq: 1 });
  fake.event("message", { seq: 2, messageId: "m1", role: "user", content: [{ type: "text", text: "hello" }] });
  fake.last("agent/prompt").refuse({ code: -32097, message: "connection got disposed" });
  await new Promise(setImmediate);
  assert.deepEqual(fake.given, []);
  assert.equal(fake.chat.view.trouble, undefined);
});

test("a prompt without a server goes back too", async () => {
  const fake = new Fake();
  await fake.chat.send("hello", []);
  assert.deepEqual(fake.given, ["hello"]);
});

test("a server that comes back shows the session from where it was", async () => {
  const fake = await new Fake().connect();
  await fake.chat.send("hello", []);
  fake.event("turnStarted", { seq: 1 });
  fake.event("message", { seq: 2, messageId: "m1", role: "user", content: [{ type: "text", text: "hello" }] });
  fake.chat.disconnected({ state: "waiting", message: "ended" });
  assert.equal(fake.chat.shown?.running, undefined);
  assert.equal(fake.chat.shown?.items.length, 1, "what was shown stays");
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
  await fake.connect();
  assert.deepEqual(fake.last("agent/loadSession").params, { sessionId: "s1", afterSeq: 2 });
  assert.equal(fake.chat.shown?.resumable, "t1");
});

test("a decision about a turn that was cut goes on with the turn", async () => {
  const fake = new Fake();
  fake.kept.set("session", "s1");
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
  await fake.connect();
  await fake.chat.approve("a1", "allow", {});
  assert.equal(fake.last("agent/approvalRespond").params["decision"], "allow");
  assert.deepEqual(fake.last("agent/resumeTurn").params, { sessionId: "s1" });
});

test("a session that is gone is left", async () => {
  const fake = new Fake();
  fake.kept.set("session", "s9");
  delete fake.answers["agent/loadSession"];
  const connected = fake.chat.connected(fake.api, CAPABILITY);
  await new Promise(setImmediate);
  fake.last("agent/loadSession").refuse({ data: { refusal: "unknownSession", message: "there is no such session" } });
  await connected;
  assert.equal(fake.chat.shown, undefined);
  assert.equal(fake.kept.has("session"), false);
});

test("a session that another window has is shown to be read, with who has it", async () => {
  const fake = new Fake();
  fake.kept.set("session", "s1");
  delete fake.answers["agent/loadSession"];
  const connected = fake.chat.connected(fake.api, CAPABILITY);
  await new Promise(setImmediate);
  fake
    .last("agent/loadSession")
    .refuse({ data: { refusal: "sessionLocked", message: "it is open", holder: "an editor (process 7)" } });
  await new Promise(setImmediate);
  assert.equal(fake.last("agent/loadSession").params["readOnly"], true);
  fake.last("agent/loadSession").answer({ events: [], hasEarlier: false, openApprovals: [], seq: 4, state: STATE });
  await connected;
  assert.equal(fake.chat.shown?.seq, 4);
  assert.deepEqual(fake.chat.view.locked, { sessionId: "s1", holder: "an editor (process 7)", pid: 7 });
  fake.chat.begin();
  assert.equal(fake.chat.view.locked, undefined);
});

test("a session that asks while another is shown is a press away", async () => {
  const fake = await new Fake().connect();
  await fake.chat.send("hello", []);
  fake.event("turnStarted", { seq: 1 });
  fake.chat.begin();
  fake.answers["agent/listApprovals"] = { approvals: [{ sessionId: "s1" }, { sessionId: "old" }] };
  fake.chat.received({ method: "agent/status", params: { state: "busy", runningTurns: 1, openApprovals: 1 } });
  await new Promise(setImmediate);
  assert.equal(fake.chat.view.elsewhere, 2);
  await fake.chat.showElsewhere();
  assert.equal(fake.chat.shown?.sessionId, "s1");
});

test("an open question of a turn that was cut is not one of another session", async () => {
  const fake = new Fake();
  fake.kept.set("session", "s1");
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
  await fake.connect();
  fake.chat.received({ method: "agent/status", params: { state: "ready", runningTurns: 0, openApprovals: 1 } });
  assert.equal(fake.chat.view.elsewhere, 0);
});

test("a limit that is asked here is not one of another session", async () => {
  const fake = await new Fake().connect();
  await fake.chat.send("hello", []);
  fake.event("turnStarted", { seq: 1 });
  fake.event("limitRequested", { seq: 2, limitId: "l1", limit: "max_turn_cost", used: 1, max: 1, message: "reached" });
  fake.chat.received({ method: "agent/status", params: { state: "busy", runningTurns: 1, openApprovals: 1 } });
  assert.equal(fake.chat.view.elsewhere, 0);
  fake.answers["agent/listApprovals"] = { approvals: [], limits: [{ sessionId: "s1" }, { sessionId: "s2" }] };
  fake.chat.received({ method: "agent/status", params: { state: "busy", runningTurns: 2, openApprovals: 2 } });
  await new Promise(setImmediate);
  assert.equal(fake.chat.view.elsewhere, 1);
  await fake.chat.showElsewhere();
  assert.equal(fake.kept.get("session"), "s2");
});

test("what the server does not offer is not offered", async () => {
  const { chat } = await new Fake().connect();
  assert.deepEqual(chat.view.offers, {
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
  });
});

test("restarts wait longer each time, never give up, and begin anew after a good while", () => {
  const policy = new RestartPolicy();
  const delays = Array.from({ length: 12 }, () => {
    policy.started(0);
    return policy.ended(100);
  });
  assert.deepEqual(delays.slice(0, 4), [300, 600, 1200, 2400]);
  assert.equal(delays.at(-1), 30_000);
  policy.started(0);
  assert.equal(policy.ended(70_000), 300);
});

test("only what the person chose is sent; the rest is remembered by the server", async () => {
  const fake = await new Fake().connect();
  fake.answers["agent/newSession"] = { sessionId: "s1", mode: "autoEdit", seq: 0, model: "tape/one", effort: "high" };
  await fake.chat.send("hello", []);
  assert.deepEqual(fake.last("agent/newSession").params, { remembered: true });
  const { mode, model, effort } = fake.chat.shown ?? {};
  assert.deepEqual({ mode, model, effort }, { mode: "autoEdit", model: "tape/one", effort: "high" });
});

test("an effort alone is chosen without a model, and goes with the new session", async () => {
  const fake = await new Fake().connect();
  await fake.chat.setModel(undefined, "low");
  await fake.chat.send("hello", []);
  assert.deepEqual(fake.last("agent/newSession").params, { remembered: true, effort: "low" });
  assert.ok(!fake.asked.some(({ method }) => method === "agent/setModel"));
});

test("the provider's own effort is chosen over one that is remembered", async () => {
  const fake = await new Fake().connect();
  fake.answers["agent/newSession"] = { sessionId: "s1", mode: "ask", seq: 0, model: "tape/one", effort: "high" };
  fake.answers["agent/setModel"] = {};
  await fake.chat.setModel(undefined, undefined);
  await fake.chat.send("hello", []);
  assert.deepEqual(fake.last("agent/setModel").params, { sessionId: "s1", model: "tape/one" });
  assert.equal(fake.chat.shown?.effort, undefined);
});

test("a choice that was not sent outlives the window, and goes with its session", async () => {
  const fake = await new Fake().connect();
  await fake.chat.setMode("plan");
  await fake.chat.setModel("tape/two", undefined);
  const reloaded = new Fake();
  for (const [key, value] of fake.kept) reloaded.kept.set(key, value);
  await reloaded.connect();
  await reloaded.chat.send("hello", []);
  assert.deepEqual(reloaded.last("agent/newSession").params, { remembered: true, mode: "plan", model: "tape/two" });
  reloaded.chat.begin();
  await reloaded.chat.send("and another", []);
  assert.deepEqual(reloaded.last("agent/newSession").params, { remembered: true });
  assert.deepEqual(reloaded.chat.view.last, { mode: "plan", model: "tape/two" }, "shown is what the server takes");
});

test("that all is free is chosen each time", async () => {
  const fake = await new Fake().connect();
  await fake.chat.setMode("full");
  assert.deepEqual(fake.chat.view.last, {});
});

test("what was sent is shown at once, until the session shows it", async () => {
  const fake = await new Fake().connect();
  const waiting = () =>
    (fake.chat.view.waiting ?? []).map(({ text, steer }) => `${steer ? "steer" : "prompt"} ${text}`);
  const said = (seq: number, id: string, text: string) =>
    fake.event("message", { seq, messageId: id, role: "user", content: [{ type: "text", text }] });
  const sent = fake.chat.send("hello", []);
  assert.deepEqual(waiting(), ["prompt hello"]);
  await sent;
  fake.event("turnStarted", { seq: 1 });
  assert.deepEqual(waiting(), ["prompt hello"]);
  said(2, "m1", "hello");
  assert.deepEqual(waiting(), []);
  fake.answers["agent/steer"] = { turnId: "t1" };
  await fake.chat.send("and tests", []);
  await fake.chat.send("and docs", []);
  assert.deepEqual(waiting(), ["steer and tests", "steer and docs"]);
  said(3, "m2", "and tests");
  assert.deepEqual(waiting(), ["steer and docs"]);
  fake.event("turnEnded", {
    seq: 4,
    state: "cancelled",
    reason: "cancelled",
    unusedSteers: [[{ type: "text", text: "and docs" }]],
  });
  assert.deepEqual(waiting(), []);
  assert.deepEqual(fake.given, ["and docs"], "once");
});

test("a steer that is refused does not wait", async () => {
  const fake = await new Fake().connect();
  await fake.chat.send("hello", []);
  fake.event("turnStarted", { seq: 1 });
  const sent = fake.chat.send("no", []);
  fake.last("agent/steer").refuse({ data: { message: "not now" } });
  await sent;
  assert.deepEqual(
    (fake.chat.view.waiting ?? []).filter(({ steer }) => steer),
    [],
  );
  assert.deepEqual(fake.given, ["no"]);
});

test("stop works before the first session is made, and gives back what was typed", async () => {
  const fake = await new Fake().connect();
  delete fake.answers["agent/newSession"];
  const sent = fake.chat.send("hello", [
    { kind: "file", label: "a.ts", block: { type: "reference", uri: "file:///w/a.ts" } },
  ]);
  fake.chat.cancel();
  await sent;
  assert.deepEqual(fake.given, ["hello + a.ts"]);
  assert.equal(fake.chat.view.sending, false);
  assert.equal(fake.stops, 1);
});

test("a count from before the session was loaded, or from before an answer, is not another session", async () => {
  const fake = new Fake();
  fake.kept.set("session", "s1");
  fake.answers["agent/listApprovals"] = { approvals: [{ sessionId: "s1" }] };
  delete fake.answers["agent/loadSession"];
  const connected = fake.chat.connected(fake.api, CAPABILITY);
  await new Promise(setImmediate);
  fake.chat.received({ method: "agent/status", params: { state: "ready", runningTurns: 0, openApprovals: 1 } });
  await new Promise(setImmediate);
  assert.equal(fake.chat.view.elsewhere, 0, "it is being loaded");
  fake.last("agent/loadSession").answer({ events: [], hasEarlier: false, openApprovals: [], seq: 0, state: STATE });
  await connected;
  await new Promise(setImmediate);
  assert.equal(fake.chat.view.elsewhere, 0, "it was answered, and the count is old");
});
