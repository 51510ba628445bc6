// What is done with whole turns: reverts, forks, the queue, agents; and how changes and sub-agents are shown.

import assert from "node:assert/strict";
import { test } from "node:test";
import { laterOf, sides } from "../hunks";
import { edit, enqueue, remove, resent, save, sendNow } from "../promptQueue";
import type { FileDiff, LoadSessionResult, MessageBlock } from "../protocol";
import { type ChangesItem, changesLine, type Event, empty, type Item, type Notice, reduce } from "../state";
import { load, prepend } from "../state/pages";
import { askRevert, changed, doRevert, ended, fork } from "../turnActions";
import { nest } from "../view/subagents";
import { Fake, STATE } from "./fakeServer";

const METHODS = ["agent/queue", "agent/revert", "agent/forkSession", "agent/listAgents"];
const AGENTS = [
  { name: "default", mode: "ask", tools: [] },
  { name: "reviewer", mode: "plan", tools: ["read_file"], model: "tape/two" },
];

/** A chat in which a turn runs. */
async function running(): Promise<Fake> {
  const fake = new Fake();
  fake.answers["agent/listAgents"] = { agents: AGENTS };
  await fake.connect(...METHODS);
  await fake.chat.send("hello", []);
  fake.event("turnStarted", { seq: 1 });
  return fake;
}

const PATH = { path: "a.ts", uri: "file:///w/a.ts" };

test("a revert asks first what it would do, and does what was shown, once", async () => {
  const fake = await running();
  fake.event("turnEnded", { seq: 2, state: "completed", reason: "completed" });
  const conflicts = [{ path: "b.ts", uri: "file:///w/b.ts", why: "it has changed since" }];
  const would = { turnIds: ["t1", "t2"], files: [{ ...PATH, kind: "modified" }], conflicts };
  fake.answers["agent/revert"] = would;
  await askRevert(fake.chat, "t1", false);
  assert.equal(fake.last("agent/revert").params["dryRun"], true);
  const { revert } = fake.chat.view;
  assert.deepEqual([revert?.turns, revert?.fileCount, revert?.conflictCount], [2, 1, 1]);
  await doRevert(fake.chat);
  assert.deepEqual(fake.last("agent/revert").params, { sessionId: "s1", turnId: "t1", redo: false });
  assert.equal(fake.chat.view.revert, undefined);
  assert.equal(fake.chat.view.trouble, undefined, "what was shown before is not told again");
  const asked = fake.asked.length;
  await doRevert(fake.chat);
  assert.equal(fake.asked.length, asked, "a second yes has nothing to say yes to");
});

test("while a turn runs no revert is asked for, and why is told", async () => {
  const fake = await running();
  await askRevert(fake.chat, "t0", false);
  assert.ok(!fake.asked.some(({ method }) => method === "agent/revert"));
  assert.match(fake.chat.view.trouble ?? "", /^A turn runs/);
});

test("what a revert left beyond what was shown is told", async () => {
  const fake = await running();
  fake.event("turnEnded", { seq: 2, state: "completed", reason: "completed" });
  fake.answers["agent/revert"] = { turnIds: ["t1"], files: [{ ...PATH, kind: "modified" }], conflicts: [] };
  await askRevert(fake.chat, "t1", true);
  fake.answers["agent/revert"] = {
    turnIds: ["t1"],
    files: [],
    conflicts: [{ ...PATH, why: "it has changed since" }],
  };
  await doRevert(fake.chat);
  assert.equal(fake.last("agent/revert").params["redo"], true);
  assert.match(fake.chat.view.trouble ?? "", /a\.ts: it has changed since/);
});

test("10,000 files are counted and some named", async () => {
  const fake = await running();
  fake.event("turnEnded", { seq: 2, state: "completed", reason: "completed" });
  const files = Array.from({ length: 10_000 }, (_, at) => ({ ...PATH, path: `f${at}`, kind: "created" }));
  fake.answers["agent/revert"] = { turnIds: ["t1"], files, conflicts: [] };
  await askRevert(fake.chat, "t1", false);
  assert.equal(fake.chat.view.revert?.fileCount, 10_000);
  assert.equal(fake.chat.view.revert?.files.length, 100);
});

test("a question about a revert is void when a turn begins, or another session is shown", async () => {
  const fake = await running();
  fake.event("turnEnded", { seq: 2, state: "completed", reason: "completed" });
  fake.answers["agent/revert"] = { turnIds: ["t1"], files: [{ ...PATH, kind: "modified" }], conflicts: [] };
  await askRevert(fake.chat, "t1", false);
  fake.event("turnStarted", { seq: 3, turnId: "t2" });
  assert.equal(fake.chat.view.revert, undefined);
  await askRevert(fake.chat, "t1", false);
  fake.chat.begin();
  assert.equal(fake.chat.view.revert, undefined);
});

test("a fork is shown at once", async () => {
  const fake = await running();
  fake.answers["agent/forkSession"] = { sessionId: "s2", title: "hello" };
  assert.match((await fork(fake.chat, "t1")) ?? "", /^This is “hello” now\./);
  assert.deepEqual(fake.last("agent/forkSession").params, { sessionId: "s1", turnId: "t1" });
  assert.equal(fake.last("agent/loadSession").params["sessionId"], "s2");
  assert.equal(fake.chat.shown?.sessionId, "s2");
});

test("a prompt waits while a turn runs, and one that cannot goes back", async () => {
  const fake = await running();
  const attach = [
    { kind: "file" as const, label: "a.ts", block: { type: "reference" as const, uri: "file:///w/a.ts" } },
  ];
  const sent = enqueue(fake.chat, "then this", attach);
  assert.deepEqual(fake.last("agent/queue").params, {
    sessionId: "s1",
    action: "add",
    prompt: [
      { type: "text", text: "then this" },
      { type: "reference", uri: "file:///w/a.ts" },
    ],
  });
  fake.last("agent/queue").refuse({ code: -32803, data: { refusal: "queueFull", message: "100 prompts wait" } });
  await sent;
  assert.deepEqual(fake.given, ["then this + a.ts"]);
  assert.equal(fake.chat.view.trouble, "100 prompts wait");
});

test("where nothing runs and nothing waits a prompt is a prompt", async () => {
  const fake = await running();
  fake.event("turnEnded", { seq: 2, state: "completed", reason: "completed" });
  await enqueue(fake.chat, "now", []);
  assert.equal(fake.last("agent/prompt").params["prompt"], "now");
  fake.event("sessionUpdated", { seq: 3, queue: { paused: true, prompts: [{ promptId: "q1", text: "held" }] } });
  void enqueue(fake.chat, "after it", []);
  assert.equal(fake.last("agent/queue").params["action"], "add");
});

test("a queued prompt is edited whole, and what it points at stays", async () => {
  const fake = await running();
  const content: MessageBlock[] = [
    { type: "text", text: "look\nclosely" },
    { type: "reference", kind: "file", path: "src/a.ts", text: "…" },
  ];
  fake.answers["agent/queue"] = { paused: false, prompts: [{ promptId: "q1", content }] };
  await edit(fake.chat, "q1");
  assert.deepEqual(fake.chat.view.editing, { promptId: "q1", text: "look\nclosely" });
  await save(fake.chat, "q1", "look again", (path) => `file:///w/${path}`);
  assert.deepEqual(fake.last("agent/queue").params, {
    sessionId: "s1",
    action: "edit",
    promptId: "q1",
    prompt: [
      { type: "text", text: "look again" },
      { type: "reference", uri: "file:///w/src/a.ts" },
    ],
  });
  assert.equal(fake.chat.view.editing, undefined);
  // It was sent meanwhile.
  fake.answers["agent/queue"] = { paused: false, prompts: [] };
  await save(fake.chat, "q1", "too late", String);
  assert.deepEqual(fake.given, ["too late"]);
  await remove(fake.chat, "q1");
  assert.deepEqual(fake.last("agent/queue").params, { sessionId: "s1", action: "remove", promptId: "q1" });
  await sendNow(fake.chat);
  assert.deepEqual(fake.last("agent/queue").params, { sessionId: "s1", action: "sendNow" });
});

test("what a queued prompt points at is sent again as it was", () => {
  const at = { kind: "selection", path: "a.ts", text: "x", startLine: 3, endLine: 4 } as const;
  const range = { start: { line: 2, character: 0 }, end: { line: 4, character: 0 } };
  const uri = "file:///w/a.ts";
  const again = (block: MessageBlock) => resent(block, () => uri);
  assert.deepEqual(again({ type: "reference", ...at }), [{ type: "selection", uri, range, text: "x" }]);
  assert.deepEqual(again({ type: "reference", ...at, kind: "file" }), [{ type: "reference", uri, range }]);
  assert.deepEqual(again({ type: "reference", ...at, kind: "diagnostic" }), [
    { type: "diagnostic", uri, range, message: "x" },
  ]);
  const image = { type: "image", mediaType: "image/png", data: "AAAA" } as const;
  assert.deepEqual(again(image), [image]);
  assert.deepEqual(again({ type: "text", text: "x" }), []);
});

test("an agent is chosen for the next session, and the session's is shown", async () => {
  const fake = await running();
  fake.chat.begin("reviewer");
  await new Promise(setImmediate);
  assert.deepEqual(fake.chat.view.agent, { name: "reviewer", mode: "plan", model: "tape/two", several: true });
  await fake.chat.send("look", []);
  assert.deepEqual(fake.last("agent/newSession").params, { remembered: true, agent: "reviewer" });
  fake.answers["agent/listAgents"] = { agents: AGENTS.map((one) => ({ ...one, current: one.name === "reviewer" })) };
  await fake.chat.open("s1");
  assert.equal(fake.chat.view.agent?.name, "reviewer");
  fake.answers["agent/listAgents"] = { agents: AGENTS };
  fake.chat.begin();
  await new Promise(setImmediate);
  assert.equal(fake.chat.view.agent?.name, "default");
});

function changesOf(id: string, files: Partial<FileDiff>[], more: Partial<ChangesItem> = {}): ChangesItem {
  const whole = files.map((file) => ({ path: "a.ts", kind: "modified" as const, added: 1, removed: 1, ...file }));
  return { kind: "changes", id, turnId: id, seq: 1, files: whole, standing: "made", ...more };
}

const diffOf = (from: string, to: string) => `--- a/a.ts\n+++ b/a.ts\n@@ -1 +1 @@\n-${from}\n+${to}\n`;

test("a change is shown as the turn made it, also when later turns went on", () => {
  const first = changesOf("t1", [{ diff: diffOf("one", "two") }]);
  const second = changesOf("t2", [{ diff: diffOf("two", "three") }, { path: "b.ts" }]);
  const state = { ...empty("s1"), items: [first, second] };
  const [file] = first.files as [FileDiff];
  assert.deepEqual(sides(file, "made", [], "two\n"), { before: "one\n", after: "two\n", file: "after" });
  const later = laterOf(state, first, "a.ts");
  assert.deepEqual(sides(file, "made", later, "three\n"), { before: "one\n", after: "two\n" });
  const reverted = { ...second, standing: "reverted" as const };
  assert.deepEqual(laterOf({ ...state, items: [first, reverted] }, first, "a.ts"), []);
  // What was reverted: the file is as before, and what it had become is made of the diff.
  assert.deepEqual(sides(file, "reverted", [], "one\n"), { before: "one\n", after: "two\n", file: "before" });
  // A person changed it since: there is no such text any more.
  assert.equal(sides(file, "made", [], "a person's\n").before, undefined);
  assert.equal(sides({ ...file, diff: undefined } as never, "made", [], "two\n").after, undefined);
});

test("a file that came, and one that went", () => {
  const created = {
    path: "n",
    kind: "created" as const,
    added: 1,
    removed: 0,
    diff: "--- a/n\n+++ b/n\n@@ -0,0 +1 @@\n+x\n",
  };
  assert.deepEqual(sides(created, "made", [], "x\n"), { before: "", after: "x\n", file: "after" });
  const deleted = { ...created, kind: "deleted" as const, diff: "--- a/n\n+++ b/n\n@@ -1 +0,0 @@\n-x\n" };
  assert.deepEqual(sides(deleted, "made", [], ""), { before: "x\n", after: "", file: "after" });
});

test("the line of a turn's changes", () => {
  assert.equal(changesLine(changesOf("t", [{}])), "1 file changed +1 −1");
  assert.equal(changesLine(changesOf("t", [{}, { added: 11, removed: 0 }])), "2 files changed +12 −1");
  assert.equal(changesLine(changesOf("t", [{}, {}], { unlisted: 3 })), "5 files changed");
});

function page(events: Event[]): LoadSessionResult {
  const seq = (events.at(-1)?.params as { seq: number } | undefined)?.seq ?? 0;
  return { events, hasEarlier: false, openApprovals: [], seq, state: STATE as never };
}

test("a revert that is known before its turn marks the turn when it comes with an earlier page", () => {
  const diff = (seq: number, ofTurnId: string, standing: string): Event => ({
    method: "agent/turnDiff",
    params: {
      sessionId: "s1",
      seq,
      at: seq,
      turnId: standing === "made" ? ofTurnId : undefined,
      ofTurnId,
      standing,
      files: [],
    },
  });
  const later = load(empty("s1"), page([diff(5, "t2", "made"), diff(6, "t1", "reverted")]));
  const standing = (items: readonly Item[]) =>
    items.flatMap((item) => (item.kind === "changes" ? [[item.id, item.standing, item.revertedWith]] : []));
  assert.deepEqual(standing(later.items), [["t2", "reverted", "t1"]]);
  const whole = prepend(later, page([diff(3, "t0", "made"), diff(4, "t1", "made")]));
  assert.deepEqual(standing(whole.items), [
    ["t0", "made", undefined],
    ["t1", "reverted", "t1"],
    ["t2", "reverted", "t1"],
  ]);
  const after = [diff(7, "t3", "made"), diff(8, "t1", "redone")].reduce(reduce, whole);
  assert.deepEqual(standing(after.items).at(-1), ["t3", "made", undefined], "a turn after the revert is none of it");
  const redone = reduce(whole, diff(7, "t1", "redone"));
  assert.deepEqual(
    standing(redone.items).map(([, now]) => now),
    ["made", "redone", "redone"],
  );
});

test("instructions that were told before the page stand on its top, until their own place is shown", () => {
  const files = [{ path: "/w/AGENTS.md", kind: "agents", bytes: 1, trusted: true }];
  const said = (seq: number): Event => ({
    method: "agent/message",
    params: {
      sessionId: "s1",
      seq,
      at: seq,
      messageId: `m${seq}`,
      role: "user",
      content: [{ type: "text", text: "x" }],
    },
  });
  const told: Event = { method: "agent/instructions", params: { sessionId: "s1", seq: 2, at: 2, files } };
  const ids = (items: readonly Item[]) => items.map(({ kind, id }) => (kind === "instructions" ? id : kind));
  const late = load(empty("s1"), { ...page([said(5)]), instructions: files as never });
  assert.deepEqual(ids(late.items), ["before the page", "user"]);
  const more = prepend(late, page([said(3), said(4)]));
  assert.deepEqual(ids(more.items), ["before the page", "user", "user", "user"]);
  assert.deepEqual(ids(prepend(more, page([said(1), told])).items), ["user", "2", "user", "user", "user"]);
  assert.deepEqual(ids(load(empty("s1"), { ...page([said(1), told]), instructions: files as never }).items), [
    "user",
    "2",
  ]);
});

test("what a revert left as it was is marked", () => {
  const files = [{ path: "a" }, { path: "b" }];
  const told = (seq: number, standing: string, of: object[], more: object = {}): Event => ({
    method: "agent/turnDiff",
    params: { sessionId: "s1", seq, at: seq, ofTurnId: "t1", standing, files: of, ...more },
  });
  const left = (...events: Event[]) => {
    const [item] = events.reduce(reduce, empty("s1")).items;
    return item?.kind === "changes" ? item.left : "nothing";
  };
  const made = told(1, "made", files);
  assert.deepEqual(left(made, told(2, "reverted", [{ path: "a" }])), ["b"]);
  assert.deepEqual(left(made, told(2, "reverted", files)), []);
  assert.equal(left(made, told(2, "reverted", [], { unlisted: 2 })), undefined);
  assert.equal(left(made, told(2, "reverted", []), told(3, "redone", [])), undefined);
});

test("turns are named by what was said, the last one first", () => {
  const user = (turnId: string, text: string): Item => ({
    kind: "user",
    id: text,
    turnId,
    text,
    references: [],
    images: 0,
    steer: false,
  });
  const end = (turnId: string): Item => ({
    kind: "turnEnd",
    id: turnId,
    turnId,
    state: "completed",
    reason: "completed",
  });
  const items = [
    user("t1", "first\nline"),
    changesOf("t1", [{}]),
    end("t1"),
    user("t2", "second"),
    user("t2", "steer"),
    end("t2"),
  ];
  assert.deepEqual(ended(items), [
    { turnId: "t2", said: "second" },
    { turnId: "t1", said: "first" },
  ]);
  assert.deepEqual(
    changed(items).map(({ said }) => said),
    ["first"],
  );
});

test("what is of sub-agents stands under their calls", () => {
  const tool = (id: string, parentToolCallId?: string, approval?: object): Item =>
    ({ kind: "tool", id, name: "x", title: "x", status: "running", parentToolCallId, approval }) as Item;
  const notice: Notice = { key: "retry of c1", kind: "retry", text: "again", parent: "c1" };
  const [one, two, three, lost] = [tool("c1"), tool("c2", "c1"), tool("c3", "c2", {}), tool("c4", "gone")];
  const items = [one, two, three, lost] as Item[];
  const { top, inner } = nest(items, [notice]);
  assert.deepEqual(
    top.map(({ id }) => id),
    ["c1", "c4"],
  );
  assert.deepEqual(inner?.items(one as Item), [two]);
  assert.equal(inner?.calls(one as Item), 2);
  assert.equal(inner?.asks(one as Item), true, "a question deep down");
  assert.deepEqual(inner?.notices(one as Item), [notice]);
  const plain = [one as Item];
  assert.equal(nest(plain, []).top, plain, "without sub-agents nothing is made anew");
});

test("what else a sub-agent tells is not the session's", () => {
  const told = (seq: number, method: string, more: object): Event => ({
    method: `agent/${method}`,
    params: { sessionId: "s1", seq, at: seq, turnId: "t1", parentToolCallId: "c1", ...more },
  });
  const state = [
    told(1, "toolCall", {
      parentToolCallId: undefined,
      toolCallId: "c1",
      name: "delegate",
      title: "x",
      status: "running",
    }),
    told(2, "transition", { kind: "continue", reason: "planning", step: 1 }),
    told(3, "compacted", { trigger: "threshold", tokensBefore: 9000, tokensAfter: 100 }),
    told(4, "limitRequested", { limitId: "l1", limit: "max_steps", used: 1, max: 1, message: "reached" }),
    told(5, "questionRequested", { questionId: "q1", text: "Which?", fields: [] }),
  ].reduce(reduce, empty("s1"));
  assert.deepEqual(
    state.notices.map(({ kind, parent }) => [kind, parent]),
    [["transition", "c1"]],
  );
  const { top, inner } = nest(state.items, state.notices);
  const [call] = top as [Item];
  assert.equal(top.length, 1);
  assert.deepEqual(
    inner?.items(call).map(({ kind }) => kind),
    ["note", "limit", "question"],
  );
  assert.equal(inner?.asks(call), true);
  const answered = [
    told(6, "limitResolved", { limitId: "l1", limit: "max_steps", outcome: "raised", by: "person" }),
    told(7, "questionResolved", { questionId: "q1", by: "person" }),
  ].reduce(reduce, state);
  assert.equal(nest(answered.items, []).inner?.asks(call), false);
});

test("one of several sub-agents goes on while another waits", () => {
  const call = (seq: number, at: number, toolCallId: string, more: object): Event => ({
    method: "agent/toolCall",
    params: { sessionId: "s1", seq, at, toolCallId, name: "x", title: "x", status: "running", ...more },
  });
  const error = { code: "provider_error", message: "overloaded", class: "retryable" };
  const retry: Event = {
    method: "agent/retry",
    params: { sessionId: "s1", seq: 2, at: 2, parentToolCallId: "c1", error, attempt: 1, maxRetries: 3, resumeAt: 100 },
  };
  const notices = (count: number, at: number) => {
    const tasks = Array.from({ length: count }, () => ({ prompt: "x" }));
    const events = [call(1, 1, "c1", { input: { tasks } }), retry, call(3, at, "c2", { parentToolCallId: "c1" })];
    return events.reduce(reduce, empty("s1")).notices.length;
  };
  assert.equal(notices(1, 50), 0);
  assert.equal(notices(2, 50), 1);
  assert.equal(notices(2, 100), 0);
  const done = [call(1, 1, "c1", {}), retry, call(3, 3, "c1", { status: "completed" })];
  assert.equal(done.reduce(reduce, empty("s1")).notices.length, 0, "the call's end ends all of it");
});
