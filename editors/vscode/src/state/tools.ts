// Reduces tool calls: streamed input, live output, and approvals.

import { trimHead } from "../format";
import type {
  ApprovalRequestedNotification,
  ApprovalResolvedNotification,
  ToolCallNotification,
  ToolInputDeltaNotification,
  ToolOutputDeltaNotification,
} from "../protocol";
import { findItem, putItem, updateItem } from "./items";
import type { ChatState, ToolItem } from "./model";
import { ENDED_BY_DELTA, removeNotices, removeSubagentNotices } from "./notices";

/** Maximum length of live output. The complete call contains the full output. */
export const MAX_LIVE_CHARS = 32_768;

export const FINAL_STATUSES = new Set<string>(["completed", "failed", "denied", "cancelled"]);

export function dropLiveOutput(item: ToolItem): ToolItem {
  return { ...item, live: undefined, liveDropped: undefined };
}

export function applyToolInputDelta(state: ChatState, p: ToolInputDeltaNotification): ChatState {
  const existing = findItem(state, "tool", p.toolCallId);
  if (existing && existing.status !== "writing") return state;
  const next = putItem(removeNotices(state, ENDED_BY_DELTA), {
    kind: "tool",
    id: p.toolCallId,
    turnId: p.turnId,
    name: p.name,
    title: p.name,
    status: "writing",
    messageId: p.messageId,
    written: (existing?.written ?? 0) + p.text.length,
  });
  return { ...next, activity: "calling" };
}

export function applyToolOutputDelta(state: ChatState, p: ToolOutputDeltaNotification): ChatState {
  const existing = findItem(state, "tool", p.toolCallId);
  if (existing?.status !== "running") return state;
  const output = (existing.live ?? "") + p.text;
  const live = trimHead(output, MAX_LIVE_CHARS);
  const liveDropped = (existing.liveDropped ?? 0) + output.length - live.length;
  return putItem(state, { ...existing, live, liveDropped });
}

export function applyToolCall(state: ChatState, p: ToolCallNotification): ChatState {
  const existing = findItem(state, "tool", p.toolCallId);
  const final = FINAL_STATUSES.has(p.status);
  const item: ToolItem = {
    ...existing,
    kind: "tool",
    id: p.toolCallId,
    turnId: p.turnId ?? existing?.turnId,
    name: p.name,
    title: p.title,
    status: p.status,
    messageId: undefined,
    written: undefined,
    input: p.input ?? existing?.input,
    output: p.output ?? existing?.output,
    diff: p.diff ?? existing?.diff,
    locations: p.locations ?? existing?.locations,
    durationMs: p.durationMs ?? existing?.durationMs,
    ...(p.exitCode === undefined ? {} : { exitCode: p.exitCode }),
    runningSince: p.status === "running" ? p.at : undefined,
    parentToolCallId: p.parentToolCallId ?? existing?.parentToolCallId,
    more: p.more === undefined ? existing?.more : { ...existing?.more, ...p.more },
    live: final ? undefined : existing?.live,
    liveDropped: final ? undefined : existing?.liveDropped,
  };
  const activity = p.status === "running" ? "tool" : final ? "thinking" : state.activity;
  const parent = item.parentToolCallId;
  // With several sub-agents, one can continue while another waits, so its notice stays until it ends.
  const isOnlyTask = parent === undefined || countTasks(findItem(state, "tool", parent)) < 2;
  const next = removeSubagentNotices(
    removeSubagentNotices(state, parent, isOnlyTask ? undefined : p.at),
    final ? item.id : undefined,
  );
  return { ...putItem(next, item), activity: state.running === undefined ? undefined : activity };
}

function countTasks(call: ToolItem | undefined): number {
  const list = (call?.input as { tasks?: unknown } | undefined)?.tasks;
  return Array.isArray(list) ? list.length : 1;
}

export function applyApprovalRequested(state: ChatState, p: ApprovalRequestedNotification): ChatState {
  const existing = findItem(state, "tool", p.toolCallId);
  const item: ToolItem = {
    ...(existing ?? { kind: "tool", id: p.toolCallId, turnId: p.turnId, name: p.name, title: p.title, input: p.input }),
    status: "awaitingApproval",
    approval: p,
    decision: undefined,
    diff: p.diff ?? existing?.diff,
  };
  return {
    ...putItem(state, item),
    approvals: [...state.approvals.filter((open) => open.approvalId !== p.approvalId), p],
  };
}

export function applyApprovalResolved(state: ChatState, p: ApprovalResolvedNotification): ChatState {
  const approvals = state.approvals.filter((open) => open.approvalId !== p.approvalId);
  // An allowed call may have to wait for earlier ones, and then needs no approval any more.
  const call = findItem(state, "tool", p.toolCallId);
  return updateItem<ToolItem>({ ...state, approvals }, "tool", p.toolCallId, {
    approval: undefined,
    decision: p,
    reviewedDiff: undefined,
    ...(call?.status === "awaitingApproval" && { status: "pending" }),
    // The proposal is not what runs.
    ...(p.input !== undefined && { input: p.input, diff: call?.reviewedDiff }),
  });
}
