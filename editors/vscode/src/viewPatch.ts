// Computes and applies patches between view states. Pure. The host finds changes by identity, and the webview applies
// them.

import { type ChatItem, type ChatState, getItemKey } from "./state";
import type { ViewOp, ViewState } from "./webviewProtocol";

export function diffViews(before: ViewState, after: ViewState): ViewOp[] {
  const ops: ViewOp[] = [];
  for (const key of unionKeys(before, after)) {
    if (key !== "chat" && before[key] !== after[key]) ops.push({ op: "set", key, value: after[key] });
  }
  if (before.chat === after.chat) return ops;
  if (before.chat === undefined || after.chat === undefined || !canPatch(before.chat, after.chat)) {
    ops.push({ op: "chat", chat: after.chat });
    return ops;
  }
  for (const key of unionKeys(before.chat, after.chat)) {
    if (key !== "items" && before.chat[key] !== after.chat[key]) ops.push({ op: "field", key, value: after.chat[key] });
  }
  diffItems(before.chat.items, after.chat.items, ops);
  return ops;
}

/** Whether a patch can express the change: same session, and no items added at the start. */
function canPatch(before: ChatState, after: ChatState): boolean {
  return before.sessionId === after.sessionId && before.firstSeq === after.firstSeq;
}

function unionKeys<T extends object>(a: T, b: T): (keyof T)[] {
  return [...new Set([...Object.keys(a), ...Object.keys(b)])] as (keyof T)[];
}

function diffItems(before: readonly ChatItem[], after: readonly ChatItem[], ops: ViewOp[]): void {
  if (before === after) return;
  // Usually only the end differs.
  let prefixLength = 0;
  while (prefixLength < before.length && before[prefixLength] === after[prefixLength]) prefixLength++;
  const oldItems = new Map(before.slice(prefixLength).map((item) => [getItemKey(item), item]));
  const fresh = after.slice(prefixLength);
  const newKeys = new Set(fresh.map(getItemKey));
  for (const key of oldItems.keys()) if (!newKeys.has(key)) ops.push({ op: "remove", key });
  for (const item of fresh) {
    const old = oldItems.get(getItemKey(item));
    if (old !== item) ops.push(old === undefined ? { op: "item", item } : diffItem(old, item));
  }
}

/** Sends only the added part of a growing text, and other items in full. */
function diffItem(old: ChatItem, item: ChatItem): ViewOp {
  if (old.kind === "assistant" && item.kind === "assistant" && old.open && item.open) {
    const text = getAddedText(old.text, item.text);
    if (text !== undefined && old.reasoning === item.reasoning) {
      return { op: "grow", key: getItemKey(item), field: "text", text, drop: 0 };
    }
    const reasoning = getAddedText(old.reasoning, item.reasoning);
    if (reasoning !== undefined && old.text === item.text) {
      return { op: "grow", key: getItemKey(item), field: "reasoning", text: reasoning, drop: 0 };
    }
  }
  if (old.kind === "tool" && item.kind === "tool" && old.live !== undefined && item.live !== undefined) {
    if (item.status === old.status && item.runningSince === old.runningSince) {
      const drop = (item.liveDropped ?? 0) - (old.liveDropped ?? 0);
      const keptLength = old.live.length - drop;
      if (keptLength > 0)
        return { op: "grow", key: getItemKey(item), field: "live", text: item.live.slice(keptLength), drop };
    }
  }
  return { op: "item", item };
}

/** Between deltas, texts only grow, so comparing lengths is enough. */
function getAddedText(old: string, text: string): string | undefined {
  return text.length > old.length ? text.slice(old.length) : undefined;
}

/** Applies `ops`. Unchanged parts keep their identity, so they are not drawn again. */
export function applyOps(view: ViewState, ops: readonly ViewOp[]): ViewState {
  let next = view;
  let list: ChatItem[] | undefined;
  for (const op of ops) {
    switch (op.op) {
      case "set":
        next = { ...next, [op.key]: op.value };
        break;
      case "chat":
        next = { ...next, chat: op.chat };
        list = undefined;
        break;
      case "field":
        if (next.chat) next = { ...next, chat: { ...next.chat, [op.key]: op.value } };
        break;
      default:
        if (!next.chat) break;
        list ??= [...next.chat.items];
        applyItemOp(list, op);
        next = { ...next, chat: { ...next.chat, items: list } };
    }
  }
  return next;
}

function applyItemOp(list: ChatItem[], op: Extract<ViewOp, { op: "item" | "grow" | "remove" }>): void {
  const key = op.op === "item" ? getItemKey(op.item) : op.key;
  const at = list.findLastIndex((item) => getItemKey(item) === key);
  if (op.op === "item") {
    if (at < 0) list.push(op.item);
    else list[at] = op.item;
    return;
  }
  const old = list[at];
  if (old === undefined) return;
  if (op.op === "remove") {
    list.splice(at, 1);
  } else if (old.kind === "assistant" && op.field !== "live") {
    list[at] = { ...old, [op.field]: old[op.field] + op.text };
  } else if (old.kind === "tool" && op.field === "live") {
    const liveDropped = (old.liveDropped ?? 0) + op.drop;
    list[at] = { ...old, live: (old.live ?? "").slice(op.drop) + op.text, liveDropped };
  }
}
