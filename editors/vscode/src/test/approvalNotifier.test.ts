// The notices for a person who is elsewhere, and the keys that decide from anywhere.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Approvals } from "../approvalNotifier";
import type { Chat } from "../chat";
import type { Panel } from "../chatViewProvider";
import type { ApprovalRequestedNotification } from "../protocol";
import { type Event, empty, reduce, type State } from "../state";
import { settings, told, window } from "./vscode.mock";

const posted: unknown[] = [];
const opened: string[] = [];
let active: (typeof ASKED & { sessionId: string }) | undefined;
let visible = true;
let looked = 0;
let state: State;
let approvals: Approvals;

beforeEach(() => {
  told.length = 0;
  posted.length = 0;
  opened.length = 0;
  active = undefined;
  settings.clear();
  window.state.focused = false;
  visible = true;
  looked = 0;
  state = empty("s1");
  const chat = {
    get shown() {
      return state;
    },
    open: (id: string) => Promise.resolve(void opened.push(id)),
  };
  const panel = {
    get visible() {
      return visible;
    },
    async showAsked() {
      looked += 1;
    },
    post: (message: unknown) => void posted.push(message),
  };
  const reviews = {
    get active() {
      return active as ApprovalRequestedNotification | undefined;
    },
  };
  approvals = new Approvals(chat as unknown as Chat, panel as unknown as Panel, reviews);
});

function happens(method: string, seq: number, at: number, params: object): void {
  const event: Event = { method: `agent/${method}`, params: { sessionId: "s1", seq, at, turnId: "t1", ...params } };
  const before = state;
  state = reduce(state, event);
  approvals.happened(event, before, state);
}

const ASKED = {
  approvalId: "a1",
  toolCallId: "c1",
  name: "bash",
  input: {},
  title: "make",
  cwd: "/w",
  risk: "high",
  why: "x",
};

test("a long turn that ends is told, a short one is not", () => {
  happens("turnStarted", 1, 0, {});
  happens("turnEnded", 2, 5000, { state: "completed", reason: "completed" });
  assert.deepEqual(told, []);
  happens("turnStarted", 3, 10_000, {});
  happens("turnEnded", 4, 40_000, { state: "failed", reason: "model_error" });
  assert.deepEqual(told, ["warning: The agent: Failed · 30 s"]);
});

test("a question is told at once, a focused window is not told anything", () => {
  happens("approvalRequested", 1, 0, ASKED);
  assert.deepEqual(told, ["warning: The agent asks: make"]);
  window.state.focused = true;
  happens("approvalRequested", 2, 0, { ...ASKED, approvalId: "a2" });
  assert.equal(told.length, 1);
});

test("nothing is told where the person does not want it, or stopped the turn", () => {
  settings.set("notifyAfterSeconds", 0);
  happens("approvalRequested", 1, 0, ASKED);
  settings.clear();
  happens("turnStarted", 2, 0, {});
  happens("turnEnded", 3, 90_000, { state: "cancelled", reason: "aborted_streaming" });
  assert.deepEqual(told, []);
});

test("a key is answered by the page that is in sight, and shows the page else", async () => {
  happens("approvalRequested", 1, 0, ASKED);
  visible = false;
  await approvals.answerShown("allow");
  assert.deepEqual([looked, posted], [1, []]);
  visible = true;
  await approvals.answerShown("deny");
  assert.deepEqual(posted, [{ type: "answerShown", action: "deny", reviewed: undefined }]);
});

test("a key in a review means the call of that review, and never one of a hidden session", async () => {
  happens("approvalRequested", 1, 0, ASKED);
  active = { ...ASKED, sessionId: "s1" };
  await approvals.answerShown("allow");
  assert.deepEqual(posted, [{ type: "answerShown", action: "allow", reviewed: "a1" }]);
  active = { ...ASKED, sessionId: "s2" };
  await approvals.answerShown("allow");
  assert.equal(posted.length, 1);
  assert.deepEqual([opened, looked], [["s2"], 1]);
});

test("a notice holds no live link and hides nothing", () => {
  happens("approvalRequested", 1, 0, { ...ASKED, shown: "[x](command:agentls.approve)\u202e" });
  assert.deepEqual(told, ["warning: The agent asks: [x] (command:agentls.approve)<U+202E>"]);
});
