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
  const known = findItem(state, "tool", p.toolCallId);
  if (known && known.status !== "writing") return state;
  const next = putItem(removeNotices(state, ENDED_BY_DELTA), {
    kind: "tool",
    id: p.toolCallId,
    turnId: p.turnId,
    name: p.name,
    title: p.name,
    status: "writing",
    messageId: p.messageId,
    written: (known?.written ?? 0) + p.text.length,
  });
  return { ...next, activity: "calling" };
}

export function applyToolOutputDelta(state: ChatState, p: ToolOutputDeltaNotification): ChatState {
  const known = findItem(state, "tool", p.toolCallId);
  if (known?.status !== "running") return state;
  const whole = (known.live ?? "") + p.text;
  const live = trimHead(whole, MAX_LIVE_CHARS);
  const liveDropped = (known.liveDropped ?? 0) + whole.length - live.length;
  return putItem(state, { ...known, live, liveDropped });
}

export function applyToolCall(state: ChatState, p: ToolCallNotification): ChatState {
  const known = findItem(state, "tool", p.toolCallId);
  const final = FINAL_STATUSES.has(p.status);
  const item: ToolItem = {
    ...known,
    kind: "tool",
    id: p.toolCallId,
    turnId: p.turnId ?? known?.turnId,
    name: p.name,
    title: p.title,
    status: p.status,
    messageId: undefined,
    written: undefined,
    input: p.input ?? known?.input,
    output: p.output ?? known?.output,
    diff: p.diff ?? known?.diff,
    locations: p.locations ?? known?.locations,
    durationMs: p.durationMs ?? known?.durationMs,
    ...(p.exitCode === undefined ? {} : { exitCode: p.exitCode }),
    runningSince: p.status === "running" ? p.at : undefined,
    parentToolCallId: p.parentToolCallId ?? known?.parentToolCallId,
    more: p.more === undefined ? known?.more : { ...known?.more, ...p.more },
    live: final ? undefined : known?.live,
    liveDropped: final ? undefined : known?.liveDropped,
  };
  const activity = p.status === "running" ? "tool" : final ? "thinking" : state.activity;
  const parent = item.parentToolCallId;
  // With several sub-agents, one can continue while another waits, so its notice stays until it ends.
  const alone = parent === undefined || countTasks(findItem(state, "tool", parent)) < 2;
  const next = removeSubagentNotices(
    removeSubagentNotices(state, parent, alone ? undefined : p.at),
    final ? item.id : undefined,
  );
  return { ...putItem(next, item), activity: state.running === undefined ? undefined : activity };
}

function countTasks(call: ToolItem | undefined): number {
  const list = (call?.input as { tasks?: unknown } | undefined)?.tasks;
  return Array.isArray(list) ? list.length : 1;
}

export function applyApprovalRequested(state: ChatState, p: ApprovalRequestedNotification): ChatState {
  const known = findItem(state, "tool", p.toolCallId);
  const item: ToolItem = {
    ...(known ?? { kind: "tool", id: p.toolCallId, turnId: p.turnId, name: p.name, title: p.title, input: p.input }),
    status: "awaitingApproval",
    approval: p,
    decision: undefined,
    diff: p.diff ?? known?.diff,
  };
  return {
    ...putItem(state, item),
    approvals: [...state.approvals.filter((open) => open.approvalId !== p.approvalId), p],
  };
}

export function applyApprovalResolved(state: ChatState, p: ApprovalResolvedNotification): ChatState {
  const approvals = state.approvals.filter((open) => open.approvalId !== p.approvalId);
  return updateItem<ToolItem>({ ...state, approvals }, "tool", p.toolCallId, { approval: undefined, decision: p });
}
