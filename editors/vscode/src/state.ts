// A session as its events tell it: `reduce(state, event)` gives the next state.
//
// Pure: no editor, no clock, no randomness. A state is never changed: what an event touches is copied, all else is
// shared, so that patches are found by comparing identities (patch.ts). Events that are not known are ignored, and
// what came as deltas is replaced by the durable event that completes it. The Neovim client has the same reducer in
// Lua; both replay the transcripts of editors/transcripts.

import type {
  ApprovalRequestedNotification,
  ApprovalResolvedNotification,
  CircuitNotification,
  CompactedNotification,
  InstructionsNotification,
  LimitRequestedNotification,
  LimitResolvedNotification,
  MessageNotification,
  MessageRetractedNotification,
  ModelSwitchedNotification,
  PlanNotification,
  QuestionRequestedNotification,
  QuestionResolvedNotification,
  QueueState,
  RetryNotification,
  SessionUpdatedNotification,
  TextDeltaNotification,
  ToolCallNotification,
  ToolInputDeltaNotification,
  ToolOutputDeltaNotification,
  TransitionNotification,
  TurnDiffNotification,
  TurnEndedNotification,
  TurnStartedNotification,
  UsageNotification,
  WaitNotification,
  WarningNotification,
} from "./protocol";
import { turnDiff } from "./state/changes";
import { change, put } from "./state/items";
import { delta, message, messageRetracted, spoken } from "./state/messages";
import type { Event, Item, LimitItem, QuestionItem, State } from "./state/model";
import {
  ALL,
  BY_END,
  circuit,
  compacted,
  modelSwitched,
  type Nested,
  resolved,
  retry,
  transition,
  wait,
} from "./state/notices";
import {
  approvalRequested,
  approvalResolved,
  FINAL,
  settledTool,
  toolCall,
  toolInputDelta,
  toolOutputDelta,
} from "./state/tools";

export { asked, changesLine, endLine, keyOf, totals } from "./state/items";
export * from "./state/model";
export { LIVE_CHARS } from "./state/tools";

/**
 * The state after `event`. One that was seen before changes nothing; one after a gap is left out, and `missed` says
 * that the session must be loaded from `seq` on.
 */
export function reduce(state: State, event: Event): State {
  const { seq } = event.params as { seq?: number };
  if (seq !== undefined) {
    if (seq <= state.seq) return state;
    if (seq > state.seq + 1) return state.missed === "events" ? state : { ...state, missed: "events" };
  }
  const next = apply(state, event.method, event.params);
  return seq === undefined ? next : { ...next, seq };
}

export function apply(state: State, method: string, params: unknown): State {
  switch (method) {
    case "agent/turnStarted":
      return turnStarted(state, params as TurnStartedNotification);
    case "agent/turnEnded":
      return turnEnded(state, params as TurnEndedNotification);
    case "agent/textDelta":
      return delta(state, params as TextDeltaNotification, "text", "bytes");
    case "agent/reasoningDelta":
      return delta(state, params as TextDeltaNotification, "reasoning", "reasoningBytes");
    case "agent/message":
      return message(state, params as MessageNotification);
    case "agent/messageRetracted":
      return messageRetracted(state, params as MessageRetractedNotification);
    case "agent/toolInputDelta":
      return toolInputDelta(state, params as ToolInputDeltaNotification);
    case "agent/toolOutputDelta":
      return toolOutputDelta(state, params as ToolOutputDeltaNotification);
    case "agent/toolCall":
      return toolCall(state, params as ToolCallNotification);
    case "agent/approvalRequested":
      return approvalRequested(state, params as ApprovalRequestedNotification);
    case "agent/approvalResolved":
      return approvalResolved(state, params as ApprovalResolvedNotification);
    case "agent/limitRequested":
      return inquiry<LimitItem>(state, "limit", (params as LimitRequestedNotification).limitId, params);
    case "agent/limitResolved":
      return settled<LimitItem>(state, "limit", (params as LimitResolvedNotification).limitId, params);
    case "agent/questionRequested":
      return inquiry<QuestionItem>(state, "question", (params as QuestionRequestedNotification).questionId, params);
    case "agent/questionResolved":
      return settled<QuestionItem>(state, "question", (params as QuestionResolvedNotification).questionId, params);
    case "agent/plan": {
      const { turnId, items } = params as PlanNotification;
      return put(state, { kind: "plan", id: turnId ?? "plan", turnId, items });
    }
    case "agent/transition":
      return transition(state, params as TransitionNotification & Nested);
    case "agent/retry":
      return retry(state, params as RetryNotification & Nested);
    case "agent/wait":
      return wait(state, params as WaitNotification & Nested);
    case "agent/modelSwitched":
      return modelSwitched(state, params as ModelSwitchedNotification & Nested);
    case "agent/circuit":
      return circuit(state, params as CircuitNotification);
    case "agent/compacted":
      return compacted(state, params as CompactedNotification & Nested);
    case "agent/usage":
      return usage(state, params as UsageNotification);
    case "agent/warning": {
      const { seq, code, message: text, turnId, parentToolCallId } = params as WarningNotification & Nested;
      if (seq === undefined) return state;
      return put(state, { kind: "warning", id: String(seq), turnId, parentToolCallId, code, message: text });
    }
    case "agent/turnDiff":
      return turnDiff(state, params as TurnDiffNotification);
    case "agent/instructions": {
      const { seq, turnId, files, leftOut } = params as InstructionsNotification;
      return put(state, { kind: "instructions", id: String(seq), turnId, files, leftOut });
    }
    case "agent/sessionUpdated":
      return sessionUpdated(state, params as SessionUpdatedNotification);
    default:
      return state;
  }
}

function inquiry<I extends LimitItem | QuestionItem>(state: State, kind: I["kind"], id: string, asked: unknown): State {
  const { turnId, parentToolCallId } = asked as I["asked"] & Nested;
  return put(state, { kind, id, turnId, parentToolCallId, asked } as I);
}

function settled<I extends LimitItem | QuestionItem>(state: State, kind: I["kind"], id: string, said: unknown): State {
  return change<I>(state, kind, id, { resolved: said } as Partial<I>);
}

function turnStarted(state: State, p: TurnStartedNotification): State {
  return {
    ...resolved(state, ALL, true),
    running: p.turnId,
    startedAt: p.at,
    activity: "thinking",
    resumable: undefined,
    switchedFrom: undefined,
    unused: undefined,
  };
}

function turnEnded(state: State, p: TurnEndedNotification): State {
  const items: Item[] = [];
  for (const item of state.items) {
    // What no durable event completed is void.
    const isVoid =
      (item.kind === "assistant" && item.open) || (item.kind === "tool" && item.status === "writing" && !item.approval);
    if (isVoid) continue;
    items.push(item.kind === "tool" && item.live !== undefined && FINAL.has(item.status) ? settledTool(item) : item);
  }
  items.push({
    kind: "turnEnd",
    id: p.turnId ?? `at ${p.seq}`,
    turnId: p.turnId,
    state: p.state,
    reason: p.reason,
    usage: p.usage,
    costUsd: p.costUsd,
    error: p.error,
    tookMs: state.running === p.turnId && state.startedAt !== undefined ? p.at - state.startedAt : undefined,
  });
  const unused = (p.unusedSteers ?? []).map((blocks) => spoken(blocks).text).filter((text) => text !== "");
  return {
    ...resolved(state, BY_END, true),
    items,
    running: undefined,
    startedAt: undefined,
    activity: undefined,
    resumable: p.state === "interrupted" || p.state === "cancelled" ? p.turnId : undefined,
    model: state.switchedFrom ?? state.model,
    switchedFrom: undefined,
    unused: unused.length > 0 ? unused.join("\n\n") : undefined,
  };
}

export function usage(state: State, p: UsageNotification): State {
  return {
    ...state,
    costUsd: p.session.costUsd,
    contextUsed: p.contextUsed,
    contextWindow: p.contextWindow,
  };
}

function sessionUpdated(state: State, p: SessionUpdatedNotification): State {
  return {
    ...state,
    title: p.title ?? state.title,
    mode: p.mode ?? state.mode,
    model: p.model ?? state.model,
    effort: p.model === undefined ? (p.effort ?? state.effort) : p.effort,
    switchedFrom: p.model === undefined ? state.switchedFrom : undefined,
    queue: p.queue === undefined ? state.queue : waiting(p.queue),
  };
}

/** The queue, where anything waits. */
export function waiting(queue: QueueState | undefined): QueueState | undefined {
  return queue !== undefined && queue.prompts.length > 0 ? queue : undefined;
}
