// Merges pages of a session's history: after the known events, or before them.

import { utf8Length } from "../format";
import type { LoadSessionResult, PartialMessage } from "../protocol";
import { applyEvent, omitEmptyQueue, reduceEvent } from "../state";
import { resolveStandings } from "./changes";
import { findItem, getItemKey, putItem } from "./items";
import { type AgentEvent, type ChatItem, type ChatState, createChatState, type ToolItem } from "./model";
import { applyApprovalRequested } from "./tools";

/**
 * Applies the result of `agent/loadSession`. `state` is the state whose `seq` was sent as `afterSeq`, or an empty one.
 * Starts over if the page does not continue it.
 */
export function loadPage(state: ChatState, result: LoadSessionResult): ChatState {
  const first = getSeq(result.events[0]);
  const isContinuation = state.seq > 0 && (first === undefined ? result.seq <= state.seq : first <= state.seq + 1);
  let loaded: ChatState = isContinuation
    ? { ...state, missed: undefined }
    : { ...createChatState(state.sessionId), seq: (first ?? 1) - 1, firstSeq: first, hasEarlier: result.hasEarlier };
  for (const event of result.events) loaded = reduceEvent(loaded, event);
  // Open requests may be older than the page.
  for (const approval of result.openApprovals) loaded = applyApprovalRequested(loaded, approval);
  for (const limit of result.openLimits ?? []) loaded = applyEvent(loaded, "agent/limitRequested", limit);
  for (const question of result.openQuestions ?? []) loaded = applyEvent(loaded, "agent/questionRequested", question);
  if (result.instructions?.length && !loaded.items.some(({ kind }) => kind === "instructions")) {
    const instructions: ChatItem = { kind: "instructions", id: UNPAGED_INSTRUCTIONS_ID, files: result.instructions };
    loaded = { ...loaded, items: [instructions, ...loaded.items] };
  }
  const current = result.state;
  if (result.partial) loaded = addPartialMessage(loaded, result.partial, current.runningTurnId);
  return {
    ...loaded,
    seq: Math.max(loaded.seq, result.seq),
    title: current.title,
    cwd: current.cwd,
    mode: current.mode,
    model: loaded.switchedFrom === undefined ? current.model : loaded.model,
    effort: current.effort,
    costUsd: current.costUsd,
    running: current.runningTurnId,
    activity: current.runningTurnId === undefined ? undefined : (loaded.activity ?? "thinking"),
    resumable: current.resumableTurnId,
    queue: omitEmptyQueue(current.queue),
    approvals: result.openApprovals,
  };
}

/** The id of instructions from before the page. They stay at the top until their own event is loaded. */
const UNPAGED_INSTRUCTIONS_ID = "before the page";

function addPartialMessage(state: ChatState, partial: PartialMessage, turnId: string | undefined): ChatState {
  const existing = findItem(state, "assistant", partial.messageId);
  if (existing && !existing.open) return state;
  const existingText = existing?.text ?? "";
  const keptText = partial.offset === 0 ? "" : partial.offset === existing?.bytes ? existingText : undefined;
  if (keptText === undefined) return state;
  const text = keptText + partial.text;
  const reasoning = partial.reasoning ?? existing?.reasoning ?? "";
  return putItem(state, {
    kind: "assistant",
    id: partial.messageId,
    turnId,
    text,
    bytes: utf8Length(text),
    reasoning,
    reasoningBytes: utf8Length(reasoning),
    open: true,
    incomplete: false,
  });
}

/** Inserts the items of the page that ends where `state` begins. */
export function prependPage(state: ChatState, result: LoadSessionResult): ChatState {
  const first = getSeq(result.events[0]);
  let earlierState: ChatState = { ...createChatState(state.sessionId), seq: (first ?? 1) - 1 };
  for (const event of result.events) earlierState = reduceEvent(earlierState, event);
  const laterItems = new Map(state.items.map((item) => [getItemKey(item), item]));
  const items: ChatItem[] = [];
  for (const item of earlierState.items) {
    // An item that spans both pages is known in part by each.
    const existing = laterItems.get(getItemKey(item));
    items.push(existing === undefined ? item : mergeItems(item, existing));
    laterItems.delete(getItemKey(item));
  }
  const hasInstructions = items.some(({ kind }) => kind === "instructions");
  const remaining = [...laterItems.values()].filter(({ id }) => id !== UNPAGED_INSTRUCTIONS_ID);
  const before = hasInstructions ? undefined : laterItems.get(`instructions ${UNPAGED_INSTRUCTIONS_ID}`);
  if (before) items.unshift(before);
  items.push(...remaining);
  const reverts = [...earlierState.reverts, ...state.reverts];
  return {
    ...state,
    items: [...resolveStandings(items, reverts)],
    reverts,
    hasEarlier: result.hasEarlier,
    firstSeq: first ?? state.firstSeq,
  };
}

function mergeItems(before: ChatItem, after: ChatItem): ChatItem {
  if (before.kind !== "tool" || after.kind !== "tool") return after;
  const definedFields = Object.fromEntries(Object.entries(after).filter(([, value]) => value !== undefined));
  return { ...before, ...definedFields, live: after.live, approval: after.approval } as ToolItem;
}

function getSeq(event: AgentEvent | undefined): number | undefined {
  return event === undefined ? undefined : (event.params as { seq?: number }).seq;
}
