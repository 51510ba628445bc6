// Actions on turns: reverts, forks, the queue, and agents; and how changes and sub-agents are grouped.

import assert from "node:assert/strict";
import { test } from "node:test";
import { computeSides, listLaterDiffs } from "../hunks";
import {
  editQueuedPrompt,
  enqueuePrompt,
  removeQueuedPrompt,
  saveQueuedPrompt,
  sendQueuedPrompt,
  toPromptBlocks,
} from "../promptQueue";
import type { FileDiff, LoadSessionResult, MessageBlock } from "../protocol";
import {
  type AgentEvent,
  type ChangesItem,
  type ChatItem,
  createChatState,
  describeChanges,
  type Notice,
  reduceEvent,
} from "../state";
import { loadPage, prependPage } from "../state/pages";
import { applyRevert, forkSession, listChangedTurns, listEndedTurns, previewRevert } from "../turnActions";
import { groupSubagents } from "../view/subagents";
import { FakeServer, STATE } from "./fakeServer";

const METHODS = ["agent/queue", "agent/revert", "agent/forkSession", "agent/listAgents"];
const AGENTS = [
  { name: "default", mode: "ask", tools: [] },
  { name: "reviewer", mode: "plan", tools: ["read_file"], model: "tape/two" },
];

/** Returns a chat with a running turn. */
async function connectRunning(): Promise<FakeServer> {
  const fake = new FakeServer();
  fake.answers["agent/listAgents"] = { agents: AGENTS };
  await fake.connectChat(...METHODS);
  await fake.chat.sendPrompt("hello", []);
  fake.emitEvent("turnStarted", { seq: 1 });
  return fake;
}

const PATH = { path: "a.ts", uri: "file:///w/a.ts" };

test("a revert shows a preview and applies it once", async () => {
  const fake = await connectRunning();
  fake.emitEvent("turnEnded", { seq: 2, state: "completed", reason: "completed" });
  const conflicts = [{ path: "b.ts", uri: "file:///w/b.ts", why: "it has changed since" }];
  const preview = { turnIds: ["t1", "t2"], files: [{ ...PATH, kind: "modified" }], conflicts };
  fake.answers["agent/revert"] = preview;
  await previewRevert(fake.chat, "t1", false);
  assert.equal(fake.lastRequest("agent/revert").params["dryRun"], true);
  const { pendingRevert: revert } = fake.chat.view;
  assert.deepEqual([revert?.turns, revert?.fileCount, revert?.conflictCount], [2, 1, 1]);
  await applyRevert(fake.chat);
  assert.deepEqual(fake.lastRequest("agent/revert").params, { sessionId: "s1", turnId: "t1", redo: false });
  assert.equal(fake.chat.view.pendingRevert, undefined);
  assert.equal(fake.chat.view.error, undefined, "known conflicts are not reported again");
  const requestCount = fake.requests.length;
  await applyRevert(fake.chat);
  assert.equal(fake.requests.length, requestCount, "a second confirmation sends nothing");
});

test("a revert during a turn is refused with a reason", async () => {
  const fake = await connectRunning();
  await previewRevert(fake.chat, "t0", false);
  assert.ok(!fake.requests.some(({ method }) => method === "agent/revert"));
  assert.match(fake.chat.view.error ?? "", /^A turn is running/);
});

test("unexpected conflicts of a revert are reported", async () => {
  const fake = await connectRunning();
  fake.emitEvent("turnEnded", { seq: 2, state: "completed", reason: "completed" });
  fake.answers["agent/revert"] = { turnIds: ["t1"], files: [{ ...PATH, kind: "modified" }], conflicts: [] };
  await previewRevert(fake.chat, "t1", true);
  fake.answers["agent/revert"] = {
    turnIds: ["t1"],
    files: [],
    conflicts: [{ ...PATH, why: "it has changed since" }],
  };
  await applyRevert(fake.chat);
  assert.equal(fake.lastRequest("agent/revert").params["redo"], true);
  assert.match(fake.chat.view.error ?? "", /a\.ts: it has changed since/);
});

test("a preview of 10,000 files lists only the first ones", async () => {
  const fake = await connectRunning();
  fake.emitEvent("turnEnded", { seq: 2, state: "completed", reason: "completed" });
  const files = Array.from({ length: 10_000 }, (_, at) => ({ ...PATH, path: `f${at}`, kind: "created" }));
  fake.answers["agent/revert"] = { turnIds: ["t1"], files, conflicts: [] };
  await previewRevert(fake.chat, "t1", false);
  assert.equal(fake.chat.view.pendingRevert?.fileCount, 10_000);
  assert.equal(fake.chat.view.pendingRevert?.files.length, 100);
});

test("a preview is dropped when a turn starts or another session is shown", async () => {
  const fake = await connectRunning();
  fake.emitEvent("turnEnded", { seq: 2, state: "completed", reason: "completed" });
  fake.answers["agent/revert"] = { turnIds: ["t1"], files: [{ ...PATH, kind: "modified" }], conflicts: [] };
  await previewRevert(fake.chat, "t1", false);
  fake.emitEvent("turnStarted", { seq: 3, turnId: "t2" });
  assert.equal(fake.chat.view.pendingRevert, undefined);
  await previewRevert(fake.chat, "t1", false);
  fake.chat.startNewSession();
  assert.equal(fake.chat.view.pendingRevert, undefined);
});

test("a fork is opened immediately", async () => {
  const fake = await connectRunning();
  fake.answers["agent/forkSession"] = { sessionId: "s2", title: "hello" };
  assert.match((await forkSession(fake.chat, "t1")) ?? "", /^Switched to “hello”\./);
  assert.deepEqual(fake.lastRequest("agent/forkSession").params, { sessionId: "s1", turnId: "t1" });
  assert.equal(fake.lastRequest("agent/loadSession").params["sessionId"], "s2");
  assert.equal(fake.chat.activeSession?.sessionId, "s2");
});

test("a prompt is queued during a turn and restored if the queue rejects it", async () => {
  const fake = await connectRunning();
  const attach = [
    { kind: "file" as const, label: "a.ts", block: { type: "reference" as const, uri: "file:///w/a.ts" } },
  ];
  const sending = enqueuePrompt(fake.chat, "then this", attach);
  assert.deepEqual(fake.lastRequest("agent/queue").params, {
    sessionId: "s1",
    action: "add",
    prompt: [
      { type: "text", text: "then this" },
      { type: "reference", uri: "file:///w/a.ts" },
    ],
  });
  fake.lastRequest("agent/queue").reject({ code: -32803, data: { refusal: "queueFull", message: "100 prompts wait" } });
  await sending;
  assert.deepEqual(fake.restoredDrafts, ["then this + a.ts"]);
  assert.equal(fake.chat.view.error, "100 prompts wait");
});

test("a prompt is sent directly if nothing runs and the queue is empty", async () => {
  const fake = await connectRunning();
  fake.emitEvent("turnEnded", { seq: 2, state: "completed", reason: "completed" });
  await enqueuePrompt(fake.chat, "now", []);
  assert.equal(fake.lastRequest("agent/prompt").params["prompt"], "now");
  fake.emitEvent("sessionUpdated", { seq: 3, queue: { paused: true, prompts: [{ promptId: "q1", text: "held" }] } });
  void enqueuePrompt(fake.chat, "after it", []);
  assert.equal(fake.lastRequest("agent/queue").params["action"], "add");
});

test("editing a queued prompt shows its full text and keeps its references", async () => {
  const fake = await connectRunning();
  const content: MessageBlock[] = [
    { type: "text", text: "look\nclosely" },
    { type: "reference", kind: "file", path: "src/a.ts", text: "…" },
  ];
  fake.answers["agent/queue"] = { paused: false, prompts: [{ promptId: "q1", content }] };
  await editQueuedPrompt(fake.chat, "q1");
  assert.deepEqual(fake.chat.view.queueEdit, { promptId: "q1", text: "look\nclosely" });
  await saveQueuedPrompt(fake.chat, "q1", "look again", (path) => `file:///w/${path}`);
  assert.deepEqual(fake.lastRequest("agent/queue").params, {
    sessionId: "s1",
    action: "edit",
    promptId: "q1",
    prompt: [
      { type: "text", text: "look again" },
      { type: "reference", uri: "file:///w/src/a.ts" },
    ],
  });
  assert.equal(fake.chat.view.queueEdit, undefined);
  // The prompt was sent in the meantime.
  fake.answers["agent/queue"] = { paused: false, prompts: [] };
  await saveQueuedPrompt(fake.chat, "q1", "too late", String);
  assert.deepEqual(fake.restoredDrafts, ["too late"]);
  await removeQueuedPrompt(fake.chat, "q1");
  assert.deepEqual(fake.lastRequest("agent/queue").params, { sessionId: "s1", action: "remove", promptId: "q1" });
  await sendQueuedPrompt(fake.chat);
  assert.deepEqual(fake.lastRequest("agent/queue").params, { sessionId: "s1", action: "sendNow" });
});

test("references of a queued prompt are resent unchanged", () => {
  const at = { kind: "selection", path: "a.ts", text: "x", startLine: 3, endLine: 4 } as const;
  const range = { start: { line: 2, character: 0 }, end: { line: 4, character: 0 } };
  const uri = "file:///w/a.ts";
  const toBlocks = (block: MessageBlock) => toPromptBlocks(block, () => uri);
  assert.deepEqual(toBlocks({ type: "reference", ...at }), [{ type: "selection", uri, range, text: "x" }]);
  assert.deepEqual(toBlocks({ type: "reference", ...at, kind: "file" }), [{ type: "reference", uri, range }]);
  assert.deepEqual(toBlocks({ type: "reference", ...at, kind: "diagnostic" }), [
    { type: "diagnostic", uri, range, message: "x" },
  ]);
  const image = { type: "image", mediaType: "image/png", data: "AAAA" } as const;
  assert.deepEqual(toBlocks(image), [image]);
  assert.deepEqual(toBlocks({ type: "text", text: "x" }), []);
});

test("the selected agent applies to the next session, and the bar shows the session's agent", async () => {
  const fake = await connectRunning();
  fake.chat.startNewSession("reviewer");
  await new Promise(setImmediate);
  assert.deepEqual(fake.chat.view.agent, { name: "reviewer", mode: "plan", model: "tape/two", hasAlternatives: true });
  await fake.chat.sendPrompt("look", []);
  assert.deepEqual(fake.lastRequest("agent/newSession").params, { remembered: true, agent: "reviewer" });
  fake.answers["agent/listAgents"] = { agents: AGENTS.map((info) => ({ ...info, current: info.name === "reviewer" })) };
  await fake.chat.openSession("s1");
  assert.equal(fake.chat.view.agent?.name, "reviewer");
  fake.answers["agent/listAgents"] = { agents: AGENTS };
  fake.chat.startNewSession();
  await new Promise(setImmediate);
  assert.equal(fake.chat.view.agent?.name, "default");
});

function changesItem(id: string, files: Partial<FileDiff>[], fields: Partial<ChangesItem> = {}): ChangesItem {
  const completeFiles = files.map((file) => ({
    path: "a.ts",
    kind: "modified" as const,
    added: 1,
    removed: 1,
    ...file,
  }));
  return { kind: "changes", id, turnId: id, seq: 1, files: completeFiles, standing: "made", ...fields };
}

const diffText = (from: string, to: string) => `--- a/a.ts\n+++ b/a.ts\n@@ -1 +1 @@\n-${from}\n+${to}\n`;

test("a diff shows the turn's own change, even after later turns", () => {
  const first = changesItem("t1", [{ diff: diffText("one", "two") }]);
  const second = changesItem("t2", [{ diff: diffText("two", "three") }, { path: "b.ts" }]);
  const state = { ...createChatState("s1"), items: [first, second] };
  const [file] = first.files as [FileDiff];
  assert.deepEqual(computeSides(file, "made", [], "two\n"), { before: "one\n", after: "two\n", file: "after" });
  const laterDiffs = listLaterDiffs(state, first, "a.ts");
  assert.deepEqual(computeSides(file, "made", laterDiffs, "three\n"), { before: "one\n", after: "two\n" });
  const reverted = { ...second, standing: "reverted" as const };
  assert.deepEqual(listLaterDiffs({ ...state, items: [first, reverted] }, first, "a.ts"), []);
  // After a revert, the file has its old content, and the diff produces the new one.
  assert.deepEqual(computeSides(file, "reverted", [], "one\n"), { before: "one\n", after: "two\n", file: "before" });
  // The user changed the file, so the diff no longer applies.
  assert.equal(computeSides(file, "made", [], "a person's\n").before, undefined);
  assert.equal(computeSides({ ...file, diff: undefined } as never, "made", [], "two\n").after, undefined);
});

test("created and deleted files have an empty side", () => {
  const created = {
    path: "n",
    kind: "created" as const,
    added: 1,
    removed: 0,
    diff: "--- a/n\n+++ b/n\n@@ -0,0 +1 @@\n+x\n",
  };
  assert.deepEqual(computeSides(created, "made", [], "x\n"), { before: "", after: "x\n", file: "after" });
  const deleted = { ...created, kind: "deleted" as const, diff: "--- a/n\n+++ b/n\n@@ -1 +0,0 @@\n-x\n" };
  assert.deepEqual(computeSides(deleted, "made", [], ""), { before: "x\n", after: "", file: "after" });
});

test("a turn's changes are summarized in one line", () => {
  assert.equal(describeChanges(changesItem("t", [{}])), "1 file changed +1 −1");
  assert.equal(describeChanges(changesItem("t", [{}, { added: 11, removed: 0 }])), "2 files changed +12 −1");
  assert.equal(describeChanges(changesItem("t", [{}, {}], { unlisted: 3 })), "5 files changed");
});

function buildPage(events: AgentEvent[]): LoadSessionResult {
  const seq = (events.at(-1)?.params as { seq: number } | undefined)?.seq ?? 0;
  return { events, hasEarlier: false, openApprovals: [], seq, state: STATE as never };
}

test("a revert marks its turn when an earlier page loads it", () => {
  const diffEvent = (seq: number, ofTurnId: string, standing: string): AgentEvent => ({
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
  const lastPage = loadPage(
    createChatState("s1"),
    buildPage([diffEvent(5, "t2", "made"), diffEvent(6, "t1", "reverted")]),
  );
  const listStandings = (items: readonly ChatItem[]) =>
    items.flatMap((item) => (item.kind === "changes" ? [[item.id, item.standing, item.revertedWith]] : []));
  assert.deepEqual(listStandings(lastPage.items), [["t2", "reverted", "t1"]]);
  const bothPages = prependPage(lastPage, buildPage([diffEvent(3, "t0", "made"), diffEvent(4, "t1", "made")]));
  assert.deepEqual(listStandings(bothPages.items), [
    ["t0", "made", undefined],
    ["t1", "reverted", "t1"],
    ["t2", "reverted", "t1"],
  ]);
  const after = [diffEvent(7, "t3", "made"), diffEvent(8, "t1", "redone")].reduce(reduceEvent, bothPages);
  assert.deepEqual(
    listStandings(after.items).at(-1),
    ["t3", "made", undefined],
    "a later turn is not part of the revert",
  );
  const redoneState = reduceEvent(bothPages, diffEvent(7, "t1", "redone"));
  assert.deepEqual(
    listStandings(redoneState.items).map(([, now]) => now),
    ["made", "redone", "redone"],
  );
});

test("instructions from before the page stay at the top until their event is loaded", () => {
  const files = [{ path: "/w/AGENTS.md", kind: "agents", bytes: 1, trusted: true }];
  const userMessage = (seq: number): AgentEvent => ({
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
  const instructionsEvent: AgentEvent = {
    method: "agent/instructions",
    params: { sessionId: "s1", seq: 2, at: 2, files },
  };
  const listIds = (items: readonly ChatItem[]) => items.map(({ kind, id }) => (kind === "instructions" ? id : kind));
  const lastPage = loadPage(createChatState("s1"), { ...buildPage([userMessage(5)]), instructions: files as never });
  assert.deepEqual(listIds(lastPage.items), ["before the page", "user"]);
  const bothPages = prependPage(lastPage, buildPage([userMessage(3), userMessage(4)]));
  assert.deepEqual(listIds(bothPages.items), ["before the page", "user", "user", "user"]);
  assert.deepEqual(listIds(prependPage(bothPages, buildPage([userMessage(1), instructionsEvent])).items), [
    "user",
    "2",
    "user",
    "user",
    "user",
  ]);
  assert.deepEqual(
    listIds(
      loadPage(createChatState("s1"), {
        ...buildPage([userMessage(1), instructionsEvent]),
        instructions: files as never,
      }).items,
    ),
    ["user", "2"],
  );
});

test("files that a revert left unchanged are marked", () => {
  const files = [{ path: "a" }, { path: "b" }];
  const buildEvent = (seq: number, standing: string, changedFiles: object[], fields: object = {}): AgentEvent => ({
    method: "agent/turnDiff",
    params: { sessionId: "s1", seq, at: seq, ofTurnId: "t1", standing, files: changedFiles, ...fields },
  });
  const listUnreverted = (...events: AgentEvent[]) => {
    const [item] = events.reduce(reduceEvent, createChatState("s1")).items;
    return item?.kind === "changes" ? item.unrevertedPaths : "nothing";
  };
  const madeEvent = buildEvent(1, "made", files);
  assert.deepEqual(listUnreverted(madeEvent, buildEvent(2, "reverted", [{ path: "a" }])), ["b"]);
  assert.deepEqual(listUnreverted(madeEvent, buildEvent(2, "reverted", files)), []);
  assert.equal(listUnreverted(madeEvent, buildEvent(2, "reverted", [], { unlisted: 2 })), undefined);
  assert.equal(listUnreverted(madeEvent, buildEvent(2, "reverted", []), buildEvent(3, "redone", [])), undefined);
});

test("turns are listed by prompt, latest first", () => {
  const userItem = (turnId: string, text: string): ChatItem => ({
    kind: "user",
    id: text,
    turnId,
    text,
    references: [],
    images: 0,
    steer: false,
  });
  const endItem = (turnId: string): ChatItem => ({
    kind: "turnEnd",
    id: turnId,
    turnId,
    state: "completed",
    reason: "completed",
  });
  const items = [
    userItem("t1", "first\nline"),
    changesItem("t1", [{}]),
    endItem("t1"),
    userItem("t2", "second"),
    userItem("t2", "steer"),
    endItem("t2"),
  ];
  assert.deepEqual(listEndedTurns(items), [
    { turnId: "t2", prompt: "second" },
    { turnId: "t1", prompt: "first" },
  ]);
  assert.deepEqual(
    listChangedTurns(items).map(({ prompt }) => prompt),
    ["first"],
  );
});

test("sub-agents' entries are grouped under their calls", () => {
  const toolItem = (id: string, parentToolCallId?: string, approval?: object): ChatItem =>
    ({ kind: "tool", id, name: "x", title: "x", status: "running", parentToolCallId, approval }) as ChatItem;
  const notice: Notice = { key: "retry of c1", kind: "retry", text: "again", parent: "c1" };
  const [first, second, third, orphan] = [
    toolItem("c1"),
    toolItem("c2", "c1"),
    toolItem("c3", "c2", {}),
    toolItem("c4", "gone"),
  ];
  const items = [first, second, third, orphan] as ChatItem[];
  const { top, subagents } = groupSubagents(items, [notice]);
  assert.deepEqual(
    top.map(({ id }) => id),
    ["c1", "c4"],
  );
  assert.deepEqual(subagents?.getItems(first as ChatItem), [second]);
  assert.equal(subagents?.countCalls(first as ChatItem), 2);
  assert.equal(subagents?.hasOpenQuestion(first as ChatItem), true, "nested questions count");
  assert.deepEqual(subagents?.getNotices(first as ChatItem), [notice]);
  const withoutSubagents = [first as ChatItem];
  assert.equal(groupSubagents(withoutSubagents, []).top, withoutSubagents, "without sub-agents, the list is reused");
});

test("a sub-agent's notices and questions do not belong to the session", () => {
  const buildEvent = (seq: number, method: string, fields: object): AgentEvent => ({
    method: `agent/${method}`,
    params: { sessionId: "s1", seq, at: seq, turnId: "t1", parentToolCallId: "c1", ...fields },
  });
  const state = [
    buildEvent(1, "toolCall", {
      parentToolCallId: undefined,
      toolCallId: "c1",
      name: "delegate",
      title: "x",
      status: "running",
    }),
    buildEvent(2, "transition", { kind: "continue", reason: "planning", step: 1 }),
    buildEvent(3, "compacted", { trigger: "threshold", tokensBefore: 9000, tokensAfter: 100 }),
    buildEvent(4, "limitRequested", { limitId: "l1", limit: "max_steps", used: 1, max: 1, message: "reached" }),
    buildEvent(5, "questionRequested", { questionId: "q1", text: "Which?", fields: [] }),
  ].reduce(reduceEvent, createChatState("s1"));
  assert.deepEqual(
    state.notices.map(({ kind, parent }) => [kind, parent]),
    [["transition", "c1"]],
  );
  const { top, subagents } = groupSubagents(state.items, state.notices);
  const [call] = top as [ChatItem];
  assert.equal(top.length, 1);
  assert.deepEqual(
    subagents?.getItems(call).map(({ kind }) => kind),
    ["note", "limit", "question"],
  );
  assert.equal(subagents?.hasOpenQuestion(call), true);
  const answered = [
    buildEvent(6, "limitResolved", { limitId: "l1", limit: "max_steps", outcome: "raised", by: "person" }),
    buildEvent(7, "questionResolved", { questionId: "q1", by: "person" }),
  ].reduce(reduceEvent, state);
  assert.equal(groupSubagents(answered.items, []).subagents?.hasOpenQuestion(call), false);
});

test("a waiting sub-agent keeps its notice while another continues", () => {
  const call = (seq: number, at: number, toolCallId: string, fields: object): AgentEvent => ({
    method: "agent/toolCall",
    params: { sessionId: "s1", seq, at, toolCallId, name: "x", title: "x", status: "running", ...fields },
  });
  const error = { code: "provider_error", message: "overloaded", class: "retryable" };
  const retry: AgentEvent = {
    method: "agent/retry",
    params: { sessionId: "s1", seq: 2, at: 2, parentToolCallId: "c1", error, attempt: 1, maxRetries: 3, resumeAt: 100 },
  };
  const countNotices = (count: number, at: number) => {
    const tasks = Array.from({ length: count }, () => ({ prompt: "x" }));
    const events = [call(1, 1, "c1", { input: { tasks } }), retry, call(3, at, "c2", { parentToolCallId: "c1" })];
    return events.reduce(reduceEvent, createChatState("s1")).notices.length;
  };
  assert.equal(countNotices(1, 50), 0);
  assert.equal(countNotices(2, 50), 1);
  assert.equal(countNotices(2, 100), 0);
  const callEvents = [call(1, 1, "c1", {}), retry, call(3, 3, "c1", { status: "completed" })];
  assert.equal(
    callEvents.reduce(reduceEvent, createChatState("s1")).notices.length,
    0,
    "the end of the call removes all notices",
  );
});
