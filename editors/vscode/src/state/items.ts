// Immutable operations on the list of items: find, replace, add, and remove.

import { formatDuration } from "../format";
import type { TurnState } from "../protocol";
import type { ChangesItem, ChatItem, ChatState, ToolItem, TurnEndItem } from "./model";

/** Returns a key that is unique in the list. */
export function getItemKey(item: ChatItem): string {
  return `${item.kind} ${item.id}`;
}

function findItemIndex(state: ChatState, kind: ChatItem["kind"], id: string): number {
  // Search from the end, because recent items change most often.
  return state.items.findLastIndex((item) => item.id === id && item.kind === kind);
}

export function findItem<K extends ChatItem["kind"]>(
  state: ChatState,
  kind: K,
  id: string,
): Extract<ChatItem, { kind: K }> | undefined {
  return state.items[findItemIndex(state, kind, id)] as Extract<ChatItem, { kind: K }> | undefined;
}

/** Replaces the item with the same kind and id, or appends it. */
export function putItem(state: ChatState, item: ChatItem): ChatState {
  const at = findItemIndex(state, item.kind, item.id);
  return { ...state, items: at < 0 ? [...state.items, item] : state.items.with(at, item) };
}

export function updateItem<I extends ChatItem>(
  state: ChatState,
  kind: I["kind"],
  id: string,
  changes: Partial<I>,
): ChatState {
  const at = findItemIndex(state, kind, id);
  const existing = state.items[at];
  return existing === undefined
    ? state
    : { ...state, items: state.items.with(at, { ...existing, ...changes } as ChatItem) };
}

export function removeItems(state: ChatState, matches: (item: ChatItem) => boolean): ChatState {
  return state.items.some(matches) ? { ...state, items: state.items.filter((item) => !matches(item)) } : state;
}

/** The tool that presents a plan. */
const PRESENT_PLAN = "present_plan";

/** Returns the plan that a call presents, in Markdown. */
export function getProposedPlan(item: ToolItem): string | undefined {
  if (item.name !== PRESENT_PLAN || item.status === "failed") return undefined;
  const { plan } = (item.input ?? {}) as { plan?: unknown };
  return typeof plan === "string" ? plan : undefined;
}

/** Returns the ids of open approvals, limits, and questions. */
export function listOpenInquiries(state: ChatState): string[] {
  const inquiries = state.items.filter((item) => (item.kind === "limit" || item.kind === "question") && !item.resolved);
  return [...state.approvals.map(({ approvalId }) => approvalId), ...inquiries.map(({ id }) => id)];
}

export function describeTurnEnd(item: TurnEndItem): string {
  const parts = [item.state === "completed" ? "Done" : TURN_STATE_LABELS[item.state]];
  if (item.durationMs !== undefined) parts.push(formatDuration(item.durationMs));
  return parts.join(" · ");
}

export function sumLines(files: readonly { added: number; removed: number }[]): { added: number; removed: number } {
  let added = 0;
  let removed = 0;
  for (const file of files) {
    added += file.added;
    removed += file.removed;
  }
  return { added, removed };
}

export function describeChanges({ files, unlisted }: ChangesItem): string {
  const count = files.length + (unlisted ?? 0);
  const summary = `${count === 1 ? "1 file" : `${count} files`} changed`;
  const { added, removed } = sumLines(files);
  // Line counts of unlisted files are unknown.
  return unlisted === undefined ? `${summary} +${added} −${removed}` : summary;
}

const TURN_STATE_LABELS: Record<TurnState, string> = {
  completed: "Done",
  failed: "Failed",
  degraded: "Partly done",
  interrupted: "Interrupted",
  cancelled: "Stopped",
};
