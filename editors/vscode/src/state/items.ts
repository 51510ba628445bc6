// The items of a session as a list: found by kind and id, replaced, added, left out. A list is never changed in place.

import { formatDuration } from "../format";
import type { TurnState } from "../protocol";
import type { ChangesItem, ChatItem, ChatState, TurnEndItem } from "./model";

/** One key an item, for lists and patches. */
export function getItemKey(item: ChatItem): string {
  return `${item.kind} ${item.id}`;
}

function findItemIndex(state: ChatState, kind: ChatItem["kind"], id: string): number {
  // From the end: what changes is nearly always near it.
  return state.items.findLastIndex((item) => item.id === id && item.kind === kind);
}

export function findItem<K extends ChatItem["kind"]>(
  state: ChatState,
  kind: K,
  id: string,
): Extract<ChatItem, { kind: K }> | undefined {
  return state.items[findItemIndex(state, kind, id)] as Extract<ChatItem, { kind: K }> | undefined;
}

/** With `item` in the place of the one of its kind and id, or at the end. */
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
  const known = state.items[at];
  return known === undefined ? state : { ...state, items: state.items.with(at, { ...known, ...changes } as ChatItem) };
}

export function removeItems(state: ChatState, gone: (item: ChatItem) => boolean): ChatState {
  return state.items.some(gone) ? { ...state, items: state.items.filter((item) => !gone(item)) } : state;
}

/** How many questions wait for the person: approvals, limits, questions of the agent. */
export function countOpenInquiries(state: ChatState): number {
  const others = state.items.filter((item) => (item.kind === "limit" || item.kind === "question") && !item.resolved);
  return state.approvals.length + others.length;
}

/** How a turn ended, in one line for people. */
export function describeTurnEnd(item: TurnEndItem): string {
  const parts = [item.state === "completed" ? "Done" : TURN_STATE_LABELS[item.state]];
  if (item.durationMs !== undefined) parts.push(formatDuration(item.durationMs));
  return parts.join(" · ");
}

/** Lines that came and went in all files. */
export function sumLines(files: readonly { added: number; removed: number }[]): { added: number; removed: number } {
  let added = 0;
  let removed = 0;
  for (const file of files) {
    added += file.added;
    removed += file.removed;
  }
  return { added, removed };
}

/** What a turn changed, in a few words. */
export function describeChanges({ files, unlisted }: ChangesItem): string {
  const count = files.length + (unlisted ?? 0);
  const what = `${count === 1 ? "1 file" : `${count} files`} changed`;
  const { added, removed } = sumLines(files);
  // Of what is not listed the lines are not known.
  return unlisted === undefined ? `${what} +${added} −${removed}` : what;
}

const TURN_STATE_LABELS: Record<TurnState, string> = {
  completed: "Done",
  failed: "Failed",
  degraded: "Partly done",
  interrupted: "Interrupted",
  cancelled: "Stopped",
};
