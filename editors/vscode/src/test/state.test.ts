// The reducer and the patches beyond the shared transcripts: pages, partial messages, growth, lengths.

import assert from "node:assert/strict";
import { test } from "node:test";
import { cutHead, lastLines, lineCount, utf8Length, utf8Tail } from "../format";
import type { LoadSessionResult, SessionState } from "../protocol";
import { type AssistantItem, type Event, empty, LIVE_CHARS, reduce, type State, type ToolItem } from "../state";
import { load, prepend } from "../state/pages";
import { diff, patch } from "../viewPatch";
import type { ViewState } from "../webviewProtocol";

const SESSION = "ses_1";
const NOW: SessionState = {
  cwd: "/w",
  mode: "ask",
  usage: { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 },
};

function durable(seq: number, method: string, params: object): Event {
  return {
    method: `agent/${method}`,
    params: { sessionId: SESSION, seq, at: seq * 1000, turnId: "turn_1", ...params },
  };
}

function said(seq: number, messageId: string, text: string, role = "assistant"): Event {
  return durable(seq, "message", { messageId, role, content: [{ type: "text", text }] });
}

function delta(messageId: string, offset: number, text: string): Event {
  return { method: "agent/textDelta", params: { sessionId: SESSION, turnId: "turn_1", messageId, offset, text } };
}

function all(events: Event[], from: State = empty(SESSION)): State {
  return events.reduce(reduce, from);
}

function page(events: Event[], more: Partial<LoadSessionResult> = {}): LoadSessionResult {
  const last = events.at(-1)?.params as { seq?: number } | undefined;
  return { events, hasEarlier: false, openApprovals: [], seq: last?.seq ?? 0, state: NOW, ...more };
}

test("a page joins on to what is known", () => {
  const known = all([durable(1, "turnStarted", {}), said(2, "m1", "hello", "user")]);
  const state = load(known, page([said(3, "m2", "hi")], { state: { ...NOW, runningTurnId: "turn_1" } }));
  assert.deepEqual(
    state.items.map((item) => item.kind),
    ["user", "assistant"],
  );
  assert.equal(state.seq, 3);
  assert.equal(state.running, "turn_1");
});

test("a page that does not join on begins anew", () => {
  const known = all([durable(1, "turnStarted", {}), said(2, "m1", "hello", "user")]);
  const state = load(known, page([said(9, "m7", "later")], { hasEarlier: true }));
  assert.deepEqual(
    state.items.map((item) => item.id),
    ["m7"],
  );
  assert.equal(state.firstSeq, 9);
  assert.equal(state.hasEarlier, true);
});

test("an earlier page is put before, and a call that is in both is one", () => {
  const call = (seq: number, more: object) =>
    durable(seq, "toolCall", { toolCallId: "c1", name: "bash", title: "make", ...more });
  const later = load(empty(SESSION), page([call(5, { status: "completed", output: "ok" })], { hasEarlier: true }));
  const state = prepend(
    later,
    page([said(3, "m1", "go", "user"), call(4, { status: "running", input: { command: "make" } })]),
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

test("a partial message goes on where its deltas do", () => {
  const state = load(
    empty(SESSION),
    page([durable(1, "turnStarted", {})], {
      partial: { messageId: "m1", text: "Grü", offset: 0 },
      state: { ...NOW, runningTurnId: "turn_1" },
    }),
  );
  const more = all([delta("m1", 4, "ße"), delta("m1", 2, "üß")], state);
  assert.equal((more.items[0] as AssistantItem).text, "Grüße");
  assert.equal(more.missed, undefined);
});

test("a gap in the deltas is told, and the completed message mends it", () => {
  const gap = all([delta("m1", 0, "ab"), delta("m1", 5, "fg")]);
  assert.equal(gap.missed, "text");
  const mended = reduce(gap, said(1, "m1", "abcdefg"));
  assert.equal((mended.items[0] as AssistantItem).text, "abcdefg");
});

test("an approval that was open before the window was loaded is asked again", () => {
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
  const state = load(
    empty(SESSION),
    page([durable(9, "turnEnded", { state: "interrupted", reason: "server_stopped" })], {
      openApprovals: [approval],
      state: { ...NOW, resumableTurnId: "turn_1" },
    }),
  );
  assert.equal(state.approvals[0]?.approvalId, "a1");
  const tool = state.items.find((item): item is ToolItem => item.kind === "tool");
  assert.equal(tool?.approval?.approvalId, "a1");
  assert.equal(state.resumable, "turn_1");
});

test("a compaction is told in words", () => {
  const sizes = {
    trigger: "threshold",
    tokensBefore: 150_000,
    tokensAfter: 20_000,
    messagesBefore: 40,
    messagesAfter: 8,
  };
  const state = all([durable(1, "turnStarted", {}), durable(2, "compacted", sizes)]);
  const note = state.items.find((item) => item.kind === "note");
  assert.equal(note?.text, "Compacted: 150k → 20.0k tokens");
});

test("steers that a cut turn did not use go back to the person", () => {
  const state = all([
    durable(1, "turnStarted", {}),
    durable(2, "turnEnded", {
      state: "cancelled",
      reason: "aborted_streaming",
      unusedSteers: [[{ type: "text", text: "and tests" }]],
    }),
  ]);
  assert.equal(state.unused, "and tests");
});

test("10 MB of live output keep their end only", () => {
  let state = all([
    durable(1, "turnStarted", {}),
    durable(2, "toolCall", { toolCallId: "c1", name: "bash", title: "x", status: "running" }),
  ]);
  const piece = `${"x".repeat(99)}\n`.repeat(10);
  let sent = 0;
  for (let round = 0; round < 10_000; round++) {
    state = reduce(state, {
      method: "agent/toolOutputDelta",
      params: { sessionId: SESSION, turnId: "turn_1", toolCallId: "c1", text: piece },
    });
    sent += piece.length;
  }
  const tool = state.items[0] as ToolItem;
  assert.ok((tool.live?.length ?? 0) <= LIVE_CHARS);
  assert.equal((tool.liveDropped ?? 0) + (tool.live?.length ?? 0), sent);
  assert.ok(tool.live?.startsWith("x".repeat(99)), "it begins with a whole line");
});

test("live output and text that grow are told by what was added, also when the beginning goes", () => {
  const view = (chat: State): ViewState => ({ chat }) as ViewState;
  const output = (text: string): Event => ({
    method: "agent/toolOutputDelta",
    params: { sessionId: SESSION, turnId: "turn_1", toolCallId: "c1", text },
  });
  let state = all([
    durable(1, "turnStarted", {}),
    durable(2, "toolCall", { toolCallId: "c1", name: "bash", title: "x", status: "running" }),
    output("begun\n"),
  ]);
  let page = view(state);
  let grew = 0;
  for (let round = 0; round < 1000; round++) {
    const next = reduce(state, output(`line ${round} ${"x".repeat(100)}\n`));
    const ops = diff(view(state), view(next));
    grew += ops.filter((op) => op.op === "grow").length;
    assert.ok(JSON.stringify(ops).length < 500, "what is sent is small");
    page = patch(page, ops);
    state = next;
    assert.deepEqual(page.chat?.items[0], state.items[0]);
  }
  assert.equal(grew, 1000);
  assert.ok(((state.items[0] as ToolItem).liveDropped ?? 0) > 50_000);
});

test("lengths and cuts", () => {
  for (const text of ["", "abc", "Grüße", "漢字", "a👍b", "\ud800"]) {
    assert.equal(utf8Length(text), Buffer.byteLength(text), JSON.stringify(text));
  }
  assert.equal(utf8Tail("Grüße", 4), "ße");
  assert.equal(utf8Tail("a👍b", 5), "b");
  assert.equal(lineCount("a\nb\n"), 2);
  assert.equal(lineCount("a\nb"), 2);
  assert.deepEqual(lastLines("a\nb\nc\n", 2), { text: "b\nc\n", left: 1 });
  assert.deepEqual(lastLines("a\nb\nc", 1), { text: "c", left: 2 });
  assert.equal(cutHead("aaaa\nbbbb\ncccc\n", 12), "cccc\n");
  assert.equal(cutHead("short", 12), "short");
});

test("a command that failed keeps its exit code and the end of its output", () => {
  const call = { toolCallId: "c1", name: "bash", title: "make" };
  const state = all([
    durable(1, "toolCall", { ...call, status: "running", input: { command: "make" } }),
    durable(2, "toolCall", { ...call, status: "failed", exitCode: 2, output: "a\nb\n" }),
  ]);
  const [tool] = state.items as ToolItem[];
  assert.deepEqual([tool?.status, tool?.exitCode, tool?.output], ["failed", 2, "a\nb\n"]);
});
