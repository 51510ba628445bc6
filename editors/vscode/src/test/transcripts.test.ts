// Replays the transcripts that all clients share (editors/transcripts/README.md) through the reducer and the patches.
// The webview's state must equal the host's.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { type AgentEvent, type ChatState, createChatState, reduceEvent } from "../state";
import { applyOps, diffViews } from "../viewPatch";
import type { ViewState } from "../webviewProtocol";

const FOLDER = new URL("../../../transcripts/", import.meta.url);
const names = readdirSync(FOLDER).filter((name) => name.endsWith(".jsonl"));

test("transcripts exist", () => assert.ok(names.length >= 10));

for (const name of names) {
  const [about, ...lines] = readFileSync(new URL(name, FOLDER), "utf8")
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => JSON.parse(line) as { about?: string; expect?: Record<string, unknown> } & AgentEvent);
  test(`${name}: ${about?.about}`, () => {
    let state: ChatState = createChatState("ses_4f1k");
    let page = viewStateOf(state);
    for (const line of lines) {
      if (line.expect) {
        assert.ok(
          matchesExpected(listShownFields(state), line.expect),
          `${JSON.stringify(line.expect)}\n  is not\n${JSON.stringify(listShownFields(state))}`,
        );
        continue;
      }
      const next = reduceEvent(state, line);
      const ops = JSON.parse(JSON.stringify(diffViews(viewStateOf(state), viewStateOf(next)))) as ReturnType<
        typeof diffViews
      >;
      page = applyOps(page, ops);
      state = next;
      assert.deepEqual(omitHostFields(page.chat), omitHostFields(state), `the page after ${JSON.stringify(line)}`);
    }
  });
}

/** Maps a state to the field names of the transcripts. */
function listShownFields(state: ChatState): Record<string, unknown> {
  const open = state.items.filter((item) => (item.kind === "limit" || item.kind === "question") && !item.resolved);
  return {
    ...state,
    // Only this client adds notes, so the transcripts do not expect them.
    items: state.items.filter((item) => item.kind !== "note"),
    approvals: state.approvals.map((approval) => approval.approvalId),
    inquiries: open.map((item) => item.id),
    notices: state.notices.map((notice) => notice.kind),
  };
}

/** Compares only the expected fields. `null` means unset, and lists must have the same length. */
function matchesExpected(value: unknown, expected: unknown): boolean {
  if (expected === null) return value === undefined || value === null;
  if (Array.isArray(expected)) {
    if (!Array.isArray(value) || value.length !== expected.length) return false;
    return expected.every((element, at) => matchesExpected(value[at], element));
  }
  if (typeof expected === "object") {
    const fields = (value ?? {}) as Record<string, unknown>;
    return Object.entries(expected).every(([key, field]) => matchesExpected(fields[key], field));
  }
  return value === expected;
}

function viewStateOf(chat: ChatState): ViewState {
  return {
    connection: { state: "ready" },
    capabilities: {
      images: false,
      steer: false,
      compact: false,
      circuits: false,
      credentials: false,
      limits: true,
      questions: true,
      queue: true,
      revert: true,
      fork: true,
      exports: true,
      agents: true,
      commands: true,
      trust: true,
      mcp: true,
    },
    isLoading: false,
    nextSession: {},
    lastChoice: {},
    pendingElsewhere: 0,
    openRequestCount: 0,
    waitingSessions: [],
    reviews: {},
    warnings: { problems: [], unlisted: 0 },
    areWarningsDismissed: false,
    isSending: false,
    isStopping: false,
    chat,
  };
}

/** Removes the fields that only the host needs. */
function omitHostFields(state: ChatState | undefined): unknown {
  return JSON.parse(
    JSON.stringify(state, (key, value: unknown) => (/^(bytes|reasoningBytes)$/.test(key) ? undefined : value)),
  );
}
