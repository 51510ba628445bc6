// The items of a session as a list: found by kind and id, replaced, added, left out. A list is never changed in place.

import { seconds } from "../format";
import type { TurnState } from "../protocol";
import type { ChangesItem, Item, State, TurnEndItem } from "./model";

/** One key an item, for lists and patches. */
export function keyOf(item: Item): string {
  return `${item.kind} ${item.id}`;
}

function indexOf(state: State, kind: Item["kind"], id: string): number {
  // From the end: what changes is nearly always near it.
  return state.items.findLastIndex((item) => item.id === id && item.kind === kind);
}

export function find<K extends Item["kind"]>(
  state: State,
  kind: K,
  id: string,
): Extract<Item, { kind: K }> | undefined {
  return state.items[indexOf(state, kind, id)] as Extract<Item, { kind: K }> | undefined;
}

/** With `item` in the place of the one of its kind and id, or at the end. */
export function put(state: State, item: Item): State {
  const at = indexOf(state, item.kind, item.id);
  return { ...state, items: at < 0 ? [...state.items, item] : state.items.with(at, item) };
}

export function change<I extends Item>(state: State, kind: I["kind"], id: string, changes: Partial<I>): State {
  const at = indexOf(state, kind, id);
  const known = state.items[at];
  return known === undefined ? state : { ...state, items: state.items.with(at, { ...known, ...changes } as Item) };
}

export function without(state: State, gone: (item: Item) => boolean): State {
  return state.items.some(gone) ? { ...state, items: state.items.filter((item) => !gone(item)) } : state;
}

/** How many questions wait for the person: approvals, limits, questions of the agent. */
export function asked(state: State): number {
  const others = state.items.filter((item) => (item.kind === "limit" || item.kind === "question") && !item.resolved);
  return state.approvals.length + others.length;
}

/** How a turn ended, in one line for people. */
export function endLine(item: TurnEndItem): string {
  const parts = [item.state === "completed" ? "Done" : STATES[item.state]];
  if (item.tookMs !== undefined) parts.push(seconds(item.tookMs));
  return parts.join(" · ");
}

/** Lines that came and went in all files. */
export function totals(files: readonly { added: number; removed: number }[]): { added: number; removed: number } {
  let added = 0;
  let removed = 0;
  for (const file of files) {
    added += file.added;
    removed += file.removed;
  }
  return { added, removed };
}

/** What a turn changed, in a few words. */
export function changesLine({ files, unlisted }: ChangesItem): string {
  const count = files.length + (unlisted ?? 0);
  const what = `${count === 1 ? "1 file" : `${count} files`} changed`;
  const { added, removed } = totals(files);
  // Of what is not listed the lines are not known.
  return unlisted === undefined ? `${what} +${added} −${removed}` : what;
}

const STATES: Record<TurnState, string> = {
  completed: "Done",
  failed: "Failed",
  degraded: "Done in part",
  interrupted: "Interrupted",
  cancelled: "Stopped",
};
