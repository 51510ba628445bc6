// The reducer and the patches beyond the shared transcripts: pages, partial messages, growth, and lengths.

import assert from "node:assert/strict";
import { test } from "node:test";
import { countLines, takeLastLines, trimHead, utf8Length, utf8Tail } from "../format";
import type { LoadSessionResult, SessionState } from "../protocol";
import {
  type AgentEvent,
  type AssistantItem,
  type ChatState,
  createChatState,
  MAX_LIVE_CHARS,
  reduceEvent,
  type ToolItem,
} from "../state";
import { loadPage, prependPage } from "../state/pages";
import { applyOps, diffViews } from "../viewPatch";
import type { ViewState } from "../webviewProtocol";

const SESSION = "ses_1";
const NOW: SessionState = {
  cwd: "/w",
  mode: "ask",
  usage: { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 },
};

function durableEvent(seq: number, method: string, params: object): AgentEvent {
  return {
    method: `agent/${method}`,
    params: { sessionId: SESSION, seq, at: seq * 1000, turnId: "turn_1", ...params },
  };
}

function messageEvent(seq: number, messageId: string, text: string, role = "assistant"): AgentEvent {
  return durableEvent(seq, "message", { messageId, role, content: [{ type: "text", text }] });
}

function deltaEvent(messageId: string, offset: number, text: string): AgentEvent {
  return { method: "agent/textDelta", params: { sessionId: SESSION, turnId: "turn_1", messageId, offset, text } };
}

function reduceAll(events: AgentEvent[], from: ChatState = createChatState(SESSION)): ChatState {
  return events.reduce(reduceEvent, from);
}

function buildPage(events: AgentEvent[], fields: Partial<LoadSessionResult> = {}): LoadSessionResult {
  const last = events.at(-1)?.params as { seq?: number } | undefined;
  return { events, hasEarlier: false, openApprovals: [], seq: last?.seq ?? 0, state: NOW, ...fields };
}

test("a page that continues the known events is appended", () => {
  const loaded = reduceAll([durableEvent(1, "turnStarted", {}), messageEvent(2, "m1", "hello", "user")]);
  const state = loadPage(
    loaded,
    buildPage([messageEvent(3, "m2", "hi")], { state: { ...NOW, runningTurnId: "turn_1" } }),
  );
  assert.deepEqual(
    state.items.map((item) => item.kind),
    ["user", "assistant"],
  );
  assert.equal(state.seq, 3);
  assert.equal(state.running, "turn_1");
});

test("a page with a gap replaces the known events", () => {
  const loaded = reduceAll([durableEvent(1, "turnStarted", {}), messageEvent(2, "m1", "hello", "user")]);
  const state = loadPage(loaded, buildPage([messageEvent(9, "m7", "later")], { hasEarlier: true }));
  assert.deepEqual(
    state.items.map((item) => item.id),
    ["m7"],
  );
  assert.equal(state.firstSeq, 9);
  assert.equal(state.hasEarlier, true);
});

test("an earlier page is prepended, and a call in both pages is merged", () => {
  const callEvent = (seq: number, fields: object) =>
    durableEvent(seq, "toolCall", { toolCallId: "c1", name: "bash", title: "make", ...fields });
  const lastPage = loadPage(
    createChatState(SESSION),
    buildPage([callEvent(5, { status: "completed", output: "ok" })], { hasEarlier: true }),
  );
  const state = prependPage(
    lastPage,
    buildPage([messageEvent(3, "m1", "go", "user"), callEvent(4, { status: "running", input: { command: "make" } })]),
  );
  assert.deepEqual(
    state.items.map((item) => item.kind),
    ["user", "tool"],
  );
  const tool = state.items[1] as ToolItem;
  assert.deepEqual(tool.input, { command: "make" });
  assert.equal(tool.output, "ok");
  assert.equal(tool.status, "completed");
  assert.equal(state.firstSeq, 3);
  assert.equal(state.hasEarlier, false);
});

test("deltas continue a partial message", () => {
  const state = loadPage(
    createChatState(SESSION),
    buildPage([durableEvent(1, "turnStarted", {})], {
      partial: { messageId: "m1", text: "Grü", offset: 0 },
      state: { ...NOW, runningTurnId: "turn_1" },
    }),
  );
  const extended = reduceAll([deltaEvent("m1", 4, "ße"), deltaEvent("m1", 2, "üß")], state);
  assert.equal((extended.items[0] as AssistantItem).text, "Grüße");
  assert.equal(extended.missed, undefined);
});

test("a gap in the deltas sets missed, and the complete message fills it", () => {
  const incomplete = reduceAll([deltaEvent("m1", 0, "ab"), deltaEvent("m1", 5, "fg")]);
  assert.equal(incomplete.missed, "text");
  const complete = reduceEvent(incomplete, messageEvent(1, "m1", "abcdefg"));
  assert.equal((complete.items[0] as AssistantItem).text, "abcdefg");
});

test("an approval from before a reload is shown again", () => {
  const approval = {
    sessionId: SESSION,
    seq: 4,
    at: 1,
    approvalId: "a1",
    toolCallId: "c1",
    name: "bash",
    input: { command: "make" },
    title: "make",
    cwd: "/w",
    risk: "high" as const,
    why: "runs a command",
  };
  const state = loadPage(
    createChatState(SESSION),
    buildPage([durableEvent(9, "turnEnded", { state: "interrupted", reason: "server_stopped" })], {
      openApprovals: [approval],
      state: { ...NOW, resumableTurnId: "turn_1" },
    }),
  );
  assert.equal(state.approvals[0]?.approvalId, "a1");
  const tool = state.items.find((item): item is ToolItem => item.kind === "tool");
  assert.equal(tool?.approval?.approvalId, "a1");
  assert.equal(state.resumable, "turn_1");
});

test("an allowed call that waits for others needs no approval any more", () => {
  const call = { toolCallId: "c1", name: "bash", title: "make", cwd: "/w", input: { command: "make" } };
  const question = { ...call, approvalId: "a1", risk: "high", why: "runs a command" };
  const answer = { approvalId: "a1", toolCallId: "c1", decision: "allow", by: "person" };
  const asked = reduceAll([
    durableEvent(1, "toolCall", { ...call, status: "awaitingApproval" }),
    durableEvent(2, "approvalRequested", question),
  ]);
  const allowed = reduceEvent(asked, durableEvent(3, "approvalResolved", answer));
  const getStatus = (state: ChatState) => (state.items[0] as ToolItem).status;
  assert.deepEqual([getStatus(asked), getStatus(allowed)], ["awaitingApproval", "pending"]);
});

test("a compaction adds a note with token counts", () => {
  const sizes = {
    trigger: "threshold",
    tokensBefore: 150_000,
    tokensAfter: 20_000,
    messagesBefore: 40,
    messagesAfter: 8,
  };
  const state = reduceAll([durableEvent(1, "turnStarted", {}), durableEvent(2, "compacted", sizes)]);
  const noteItem = state.items.find((item) => item.kind === "note");
  assert.equal(noteItem?.text, "Compacted: 150k → 20.0k tokens");
});

test("unused steers of a canceled turn return to the input", () => {
  const state = reduceAll([
    durableEvent(1, "turnStarted", {}),
    durableEvent(2, "turnEnded", {
      state: "cancelled",
      reason: "aborted_streaming",
      unusedSteers: [[{ type: "text", text: "and tests" }]],
    }),
  ]);
  assert.equal(state.unusedSteerText, "and tests");
});

test("live output keeps only its end", () => {
  let state = reduceAll([
    durableEvent(1, "turnStarted", {}),
    durableEvent(2, "toolCall", { toolCallId: "c1", name: "bash", title: "x", status: "running" }),
  ]);
  const chunk = `${"x".repeat(99)}\n`.repeat(10);
  let sentLength = 0;
  for (let round = 0; round < 10_000; round++) {
    state = reduceEvent(state, {
      method: "agent/toolOutputDelta",
      params: { sessionId: SESSION, turnId: "turn_1", toolCallId: "c1", text: chunk },
    });
    sentLength += chunk.length;
  }
  const tool = state.items[0] as ToolItem;
  assert.ok((tool.live?.length ?? 0) <= MAX_LIVE_CHARS);
  assert.equal((tool.liveDropped ?? 0) + (tool.live?.length ?? 0), sentLength);
  assert.ok(tool.live?.startsWith("x".repeat(99)), "it starts with a complete line");
});

test("a patch of growing output contains only the added text, even when its start is dropped", () => {
  const buildView = (chat: ChatState): ViewState => ({ chat }) as ViewState;
  const outputEvent = (text: string): AgentEvent => ({
    method: "agent/toolOutputDelta",
    params: { sessionId: SESSION, turnId: "turn_1", toolCallId: "c1", text },
  });
  let state = reduceAll([
    durableEvent(1, "turnStarted", {}),
    durableEvent(2, "toolCall", { toolCallId: "c1", name: "bash", title: "x", status: "running" }),
    outputEvent("begun\n"),
  ]);
  let page = buildView(state);
  let growOpCount = 0;
  for (let round = 0; round < 1000; round++) {
    const next = reduceEvent(state, outputEvent(`line ${round} ${"x".repeat(100)}\n`));
    const ops = diffViews(buildView(state), buildView(next));
    growOpCount += ops.filter((op) => op.op === "grow").length;
    assert.ok(JSON.stringify(ops).length < 500, "patches stay small");
    page = applyOps(page, ops);
    state = next;
    assert.deepEqual(page.chat?.items[0], state.items[0]);
  }
  assert.equal(growOpCount, 1000);
  assert.ok(((state.items[0] as ToolItem).liveDropped ?? 0) > 50_000);
});

test("lengths and truncation respect characters and lines", () => {
  for (const text of ["", "abc", "Grüße", "漢字", "a👍b", "\ud800"]) {
    assert.equal(utf8Length(text), Buffer.byteLength(text), JSON.stringify(text));
  }
  assert.equal(utf8Tail("Grüße", 4), "ße");
  assert.equal(utf8Tail("a👍b", 5), "b");
  assert.equal(countLines("a\nb\n"), 2);
  assert.equal(countLines("a\nb"), 2);
  assert.deepEqual(takeLastLines("a\nb\nc\n", 2), { text: "b\nc\n", omitted: 1 });
  assert.deepEqual(takeLastLines("a\nb\nc", 1), { text: "c", omitted: 2 });
  assert.equal(trimHead("aaaa\nbbbb\ncccc\n", 12), "cccc\n");
  assert.equal(trimHead("short", 12), "short");
});

test("a failed command keeps its exit code and output", () => {
  const call = { toolCallId: "c1", name: "bash", title: "make" };
  const state = reduceAll([
    durableEvent(1, "toolCall", { ...call, status: "running", input: { command: "make" } }),
    durableEvent(2, "toolCall", { ...call, status: "failed", exitCode: 2, output: "a\nb\n" }),
  ]);
  const [tool] = state.items as ToolItem[];
  assert.deepEqual([tool?.status, tool?.exitCode, tool?.output], ["failed", 2, "a\nb\n"]);
});
