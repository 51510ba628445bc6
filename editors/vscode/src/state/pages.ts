// Pages of a session's past: put on top of what is known, or before it.

import { utf8Length } from "../format";
import type { LoadSessionResult, PartialMessage } from "../protocol";
import { apply, reduce, waiting } from "../state";
import { standings } from "./changes";
import { find, keyOf, put } from "./items";
import { type Event, empty, type Item, type State, type ToolItem } from "./model";
import { approvalRequested } from "./tools";

/**
 * Puts the answer of `agent/loadSession` on top of what is known: `state` is what `afterSeq` was taken from, or an
 * empty one. When the page does not join on, all begins anew with it.
 */
export function load(state: State, result: LoadSessionResult): State {
  const first = seqOf(result.events[0]);
  const joins = state.seq > 0 && (first === undefined ? result.seq <= state.seq : first <= state.seq + 1);
  let loaded: State = joins
    ? { ...state, missed: undefined }
    : { ...empty(state.sessionId), seq: (first ?? 1) - 1, firstSeq: first, hasEarlier: result.hasEarlier };
  for (const event of result.events) loaded = reduce(loaded, event);
  // What is open may have been asked before the page.
  for (const approval of result.openApprovals) loaded = approvalRequested(loaded, approval);
  for (const limit of result.openLimits ?? []) loaded = apply(loaded, "agent/limitRequested", limit);
  for (const question of result.openQuestions ?? []) loaded = apply(loaded, "agent/questionRequested", question);
  if (result.instructions?.length && !loaded.items.some(({ kind }) => kind === "instructions")) {
    const known: Item = { kind: "instructions", id: BEFORE, files: result.instructions };
    loaded = { ...loaded, items: [known, ...loaded.items] };
  }
  const now = result.state;
  if (result.partial) loaded = withPartial(loaded, result.partial, now.runningTurnId);
  return {
    ...loaded,
    seq: Math.max(loaded.seq, result.seq),
    title: now.title,
    cwd: now.cwd,
    mode: now.mode,
    model: loaded.switchedFrom === undefined ? now.model : loaded.model,
    effort: now.effort,
    costUsd: now.costUsd,
    running: now.runningTurnId,
    activity: now.runningTurnId === undefined ? undefined : (loaded.activity ?? "thinking"),
    resumable: now.resumableTurnId,
    queue: waiting(now.queue),
    approvals: result.openApprovals,
  };
}

/** What the agent was given before the page stands on its top, until its own place is shown. */
const BEFORE = "before the page";

function withPartial(state: State, partial: PartialMessage, turnId: string | undefined): State {
  const known = find(state, "assistant", partial.messageId);
  if (known && !known.open) return state;
  const have = known?.text ?? "";
  const kept = partial.offset === 0 ? "" : partial.offset === known?.bytes ? have : undefined;
  if (kept === undefined) return state;
  const text = kept + partial.text;
  const reasoning = partial.reasoning ?? known?.reasoning ?? "";
  return put(state, {
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

/** Puts the items of an earlier page, the one that ends where `state` begins, before those of `state`. */
export function prepend(state: State, result: LoadSessionResult): State {
  const first = seqOf(result.events[0]);
  let earlier: State = { ...empty(state.sessionId), seq: (first ?? 1) - 1 };
  for (const event of result.events) earlier = reduce(earlier, event);
  const later = new Map(state.items.map((item) => [keyOf(item), item]));
  const items: Item[] = [];
  for (const item of earlier.items) {
    // What begins in the earlier page and ends here is known in part by each.
    const known = later.get(keyOf(item));
    items.push(known === undefined ? item : merged(item, known));
    later.delete(keyOf(item));
  }
  const told = items.some(({ kind }) => kind === "instructions");
  const rest = [...later.values()].filter(({ id }) => id !== BEFORE);
  const before = told ? undefined : later.get(`instructions ${BEFORE}`);
  if (before) items.unshift(before);
  items.push(...rest);
  const reverts = [...earlier.reverts, ...state.reverts];
  return {
    ...state,
    items: [...standings(items, reverts)],
    reverts,
    hasEarlier: result.hasEarlier,
    firstSeq: first ?? state.firstSeq,
  };
}

function merged(before: Item, after: Item): Item {
  if (before.kind !== "tool" || after.kind !== "tool") return after;
  const set = Object.fromEntries(Object.entries(after).filter(([, value]) => value !== undefined));
  return { ...before, ...set, live: after.live, approval: after.approval } as ToolItem;
}

function seqOf(event: Event | undefined): number | undefined {
  return event === undefined ? undefined : (event.params as { seq?: number }).seq;
}
