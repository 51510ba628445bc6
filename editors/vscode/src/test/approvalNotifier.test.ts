// Notifications for unfocused windows, and editor keys that answer approvals.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { ApprovalNotifier } from "../approvalNotifier";
import type { Chat } from "../chat";
import type { ChatViewProvider } from "../chatViewProvider";
import type { ApprovalRequestedNotification } from "../protocol";
import { type AgentEvent, type ChatState, createChatState, reduceEvent } from "../state";
import { settings, shownMessages, window } from "./vscode.mock";

const postedMessages: unknown[] = [];
const openedSessions: string[] = [];
let activeReview: (typeof APPROVAL & { sessionId: string }) | undefined;
let isVisible = true;
let shownCount = 0;
let state: ChatState;
let notifier: ApprovalNotifier;

beforeEach(() => {
  shownMessages.length = 0;
  postedMessages.length = 0;
  openedSessions.length = 0;
  activeReview = undefined;
  settings.clear();
  window.state.focused = false;
  isVisible = true;
  shownCount = 0;
  state = createChatState("s1");
  const chat = {
    get activeSession() {
      return state;
    },
    openSession: (id: string) => Promise.resolve(void openedSessions.push(id)),
  };
  const panel = {
    get isVisible() {
      return isVisible;
    },
    async showPendingQuestion() {
      shownCount += 1;
    },
    postMessage: (message: unknown) => void postedMessages.push(message),
  };
  const reviews = {
    get activeApproval() {
      return activeReview as ApprovalRequestedNotification | undefined;
    },
  };
  notifier = new ApprovalNotifier(chat as unknown as Chat, panel as unknown as ChatViewProvider, reviews);
});

function emitEvent(method: string, seq: number, at: number, params: object): void {
  const event: AgentEvent = {
    method: `agent/${method}`,
    params: { sessionId: "s1", seq, at, turnId: "t1", ...params },
  };
  const before = state;
  state = reduceEvent(state, event);
  notifier.onEvent(event, before, state);
}

const APPROVAL = {
  approvalId: "a1",
  toolCallId: "c1",
  name: "bash",
  input: {},
  title: "make",
  cwd: "/w",
  risk: "high",
  why: "x",
};

test("the end of a long turn notifies; the end of a short one does not", () => {
  emitEvent("turnStarted", 1, 0, {});
  emitEvent("turnEnded", 2, 5000, { state: "completed", reason: "completed" });
  assert.deepEqual(shownMessages, []);
  emitEvent("turnStarted", 3, 10_000, {});
  emitEvent("turnEnded", 4, 40_000, { state: "failed", reason: "model_error" });
  assert.deepEqual(shownMessages, ["warning: The agent: Failed · 30 s"]);
});

test("an approval notifies immediately, unless the window is focused", () => {
  emitEvent("approvalRequested", 1, 0, APPROVAL);
  assert.deepEqual(shownMessages, ["warning: Approval needed: make"]);
  window.state.focused = true;
  emitEvent("approvalRequested", 2, 0, { ...APPROVAL, approvalId: "a2" });
  assert.equal(shownMessages.length, 1);
});

test("no notification if it is turned off or the user stopped the turn", () => {
  settings.set("notifyAfterSeconds", 0);
  emitEvent("approvalRequested", 1, 0, APPROVAL);
  settings.clear();
  emitEvent("turnStarted", 2, 0, {});
  emitEvent("turnEnded", 3, 90_000, { state: "cancelled", reason: "aborted_streaming" });
  assert.deepEqual(shownMessages, []);
});

test("an editor key goes to a visible view, and shows a hidden one", async () => {
  emitEvent("approvalRequested", 1, 0, APPROVAL);
  isVisible = false;
  await notifier.answerVisibleApproval("allow");
  assert.deepEqual([shownCount, postedMessages], [1, []]);
  isVisible = true;
  await notifier.answerVisibleApproval("deny");
  assert.deepEqual(postedMessages, [{ type: "answerVisible", action: "deny", reviewedId: undefined }]);
});

test("an editor key in a review applies to its call, but never to a hidden session", async () => {
  emitEvent("approvalRequested", 1, 0, APPROVAL);
  activeReview = { ...APPROVAL, sessionId: "s1" };
  await notifier.answerVisibleApproval("allow");
  assert.deepEqual(postedMessages, [{ type: "answerVisible", action: "allow", reviewedId: "a1" }]);
  activeReview = { ...APPROVAL, sessionId: "s2" };
  await notifier.answerVisibleApproval("allow");
  assert.equal(postedMessages.length, 1);
  assert.deepEqual([openedSessions, shownCount], [["s2"], 1]);
});

test("a notification contains no live links and reveals hidden characters", () => {
  emitEvent("approvalRequested", 1, 0, { ...APPROVAL, shown: "[x](command:agentls.approve)\u202e" });
  assert.deepEqual(shownMessages, ["warning: Approval needed: [x] (command:agentls.approve)<U+202E>"]);
});
