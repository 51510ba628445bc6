// Tool calls: their input as it is written, their output as it comes, and the questions about them.

import { cutHead } from "../format";
import type {
  ApprovalRequestedNotification,
  ApprovalResolvedNotification,
  ToolCallNotification,
  ToolInputDeltaNotification,
  ToolOutputDeltaNotification,
} from "../protocol";
import { change, find, put } from "./items";
import type { State, ToolItem } from "./model";
import { BY_WORDS, resolved, resolvedOf } from "./notices";

/** How many characters of live output are kept: some hundred lines; the whole is there at the end. */
export const LIVE_CHARS = 32_768;

export const FINAL = new Set<string>(["completed", "failed", "denied", "cancelled"]);

export function settledTool(item: ToolItem): ToolItem {
  return { ...item, live: undefined, liveDropped: undefined };
}

export function toolInputDelta(state: State, p: ToolInputDeltaNotification): State {
  const known = find(state, "tool", p.toolCallId);
  if (known && known.status !== "writing") return state;
  const next = put(resolved(state, BY_WORDS), {
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

export function toolOutputDelta(state: State, p: ToolOutputDeltaNotification): State {
  const known = find(state, "tool", p.toolCallId);
  if (known?.status !== "running") return state;
  const whole = (known.live ?? "") + p.text;
  const live = cutHead(whole, LIVE_CHARS);
  const liveDropped = (known.liveDropped ?? 0) + whole.length - live.length;
  return put(state, { ...known, live, liveDropped });
}

export function toolCall(state: State, p: ToolCallNotification): State {
  const known = find(state, "tool", p.toolCallId);
  const final = FINAL.has(p.status);
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
  // Of several sub-agents one goes on while another waits: its notice stands until its time is over.
  const alone = parent === undefined || tasks(find(state, "tool", parent)) < 2;
  const next = resolvedOf(resolvedOf(state, parent, alone ? undefined : p.at), final ? item.id : undefined);
  return { ...put(next, item), activity: state.running === undefined ? undefined : activity };
}

/** How many sub-agents a call has. */
function tasks(call: ToolItem | undefined): number {
  const list = (call?.input as { tasks?: unknown } | undefined)?.tasks;
  return Array.isArray(list) ? list.length : 1;
}

export function approvalRequested(state: State, p: ApprovalRequestedNotification): State {
  const known = find(state, "tool", p.toolCallId);
  const item: ToolItem = {
    ...(known ?? { kind: "tool", id: p.toolCallId, turnId: p.turnId, name: p.name, title: p.title, input: p.input }),
    status: "awaitingApproval",
    approval: p,
    decision: undefined,
    diff: p.diff ?? known?.diff,
  };
  return {
    ...put(state, item),
    approvals: [...state.approvals.filter((open) => open.approvalId !== p.approvalId), p],
  };
}

export function approvalResolved(state: State, p: ApprovalResolvedNotification): State {
  const approvals = state.approvals.filter((open) => open.approvalId !== p.approvalId);
  return change<ToolItem>({ ...state, approvals }, "tool", p.toolCallId, { approval: undefined, decision: p });
}
