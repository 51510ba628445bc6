// Replays the transcripts that all clients share (editors/transcripts/README.md) through the reducer, and with each
// event through the patches too: what the page has must equal what the host has.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { type Event, empty, reduce, type State } from "../state";
import { diff, patch } from "../viewPatch";
import type { ViewState } from "../webviewProtocol";

const FOLDER = new URL("../../../transcripts/", import.meta.url);
const names = readdirSync(FOLDER).filter((name) => name.endsWith(".jsonl"));

test("there are transcripts", () => assert.ok(names.length >= 10));

for (const name of names) {
  const [about, ...lines] = readFileSync(new URL(name, FOLDER), "utf8")
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => JSON.parse(line) as { about?: string; expect?: Record<string, unknown> } & Event);
  test(`${name}: ${about?.about}`, () => {
    let state: State = empty("ses_4f1k");
    let page = onPage(state);
    for (const line of lines) {
      if (line.expect) {
        assert.ok(
          fits(shown(state), line.expect),
          `${JSON.stringify(line.expect)}\n  is not\n${JSON.stringify(shown(state))}`,
        );
        continue;
      }
      const next = reduce(state, line);
      const ops = JSON.parse(JSON.stringify(diff(onPage(state), onPage(next)))) as ReturnType<typeof diff>;
      page = patch(page, ops);
      state = next;
      assert.deepEqual(visible(page.chat), visible(state), `the page after ${JSON.stringify(line)}`);
    }
  });
}

/** The fields that the transcripts name. */
function shown(state: State): Record<string, unknown> {
  const open = state.items.filter((item) => (item.kind === "limit" || item.kind === "question") && !item.resolved);
  return {
    ...state,
    // Our chat also keeps a line of what passed; the transcripts do not ask for it.
    items: state.items.filter((item) => item.kind !== "note"),
    approvals: state.approvals.map((approval) => approval.approvalId),
    asked: open.map((item) => item.id),
    notices: state.notices.map((notice) => notice.kind),
  };
}

/** Whether what is named is so; `null` is not set, and lists are as long. */
function fits(value: unknown, expected: unknown): boolean {
  if (expected === null) return value === undefined || value === null;
  if (Array.isArray(expected)) {
    if (!Array.isArray(value) || value.length !== expected.length) return false;
    return expected.every((one, at) => fits(value[at], one));
  }
  if (typeof expected === "object") {
    const fields = (value ?? {}) as Record<string, unknown>;
    return Object.entries(expected).every(([key, one]) => fits(fields[key], one));
  }
  return value === expected;
}

function onPage(chat: State): ViewState {
  return {
    connection: { state: "ready" },
    offers: {
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
    },
    loading: false,
    next: {},
    last: {},
    elsewhere: 0,
    reviews: {},
    warnings: [],
    sending: false,
    stopping: false,
    chat,
  };
}

/** Without what only the host counts. */
function visible(state: State | undefined): unknown {
  return JSON.parse(
    JSON.stringify(state, (key, value: unknown) => (/^(bytes|reasoningBytes)$/.test(key) ? undefined : value)),
  );
}
