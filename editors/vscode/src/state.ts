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
  LimitRequestedNotification,
  LimitResolvedNotification,
  MessageNotification,
  MessageRetractedNotification,
  ModelSwitchedNotification,
  PlanNotification,
  QuestionRequestedNotification,
  QuestionResolvedNotification,
  RetryNotification,
  SessionUpdatedNotification,
  TextDeltaNotification,
  ToolCallNotification,
  ToolInputDeltaNotification,
  ToolOutputDeltaNotification,
  TransitionNotification,
  TurnEndedNotification,
  TurnStartedNotification,
  UsageNotification,
  WaitNotification,
  WarningNotification,
} from "./protocol";
import { change, put } from "./state/items";
import { delta, message, messageRetracted, spoken } from "./state/messages";
import type { Event, Item, LimitItem, QuestionItem, State } from "./state/model";
import { ALL, BY_END, circuit, compacted, modelSwitched, notice, resolved, retry, transition } from "./state/notices";
import {
  approvalRequested,
  approvalResolved,
  FINAL,
  settledTool,
  toolCall,
  toolInputDelta,
  toolOutputDelta,
} from "./state/tools";

export { asked, endLine, keyOf } from "./state/items";
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
    case "agent/limitRequested": {
      const asked = params as LimitRequestedNotification;
      return put(state, { kind: "limit", id: asked.limitId, turnId: asked.turnId, asked });
    }
    case "agent/limitResolved": {
      const resolved = params as LimitResolvedNotification;
      return change<LimitItem>(state, "limit", resolved.limitId, { resolved });
    }
    case "agent/questionRequested": {
      const asked = params as QuestionRequestedNotification;
      return put(state, { kind: "question", id: asked.questionId, turnId: asked.turnId, asked });
    }
    case "agent/questionResolved": {
      const resolved = params as QuestionResolvedNotification;
      return change<QuestionItem>(state, "question", resolved.questionId, { resolved });
    }
    case "agent/plan": {
      const { turnId, items } = params as PlanNotification;
      return put(state, { kind: "plan", id: turnId ?? "plan", turnId, items });
    }
    case "agent/transition":
      return transition(state, params as TransitionNotification);
    case "agent/retry":
      return retry(state, params as RetryNotification);
    case "agent/wait": {
      const { why, until } = params as WaitNotification;
      return notice(state, { key: "wait", kind: "wait", text: `Waiting: ${why}`, till: until });
    }
    case "agent/modelSwitched":
      return modelSwitched(state, params as ModelSwitchedNotification);
    case "agent/circuit":
      return circuit(state, params as CircuitNotification);
    case "agent/compacted":
      return compacted(state, params as CompactedNotification);
    case "agent/usage":
      return usage(state, params as UsageNotification);
    case "agent/warning": {
      const { seq, code, message: text, turnId } = params as WarningNotification;
      return seq === undefined ? state : put(state, { kind: "warning", id: String(seq), turnId, code, message: text });
    }
    case "agent/sessionUpdated":
      return sessionUpdated(state, params as SessionUpdatedNotification);
    default:
      return state;
  }
}

function turnStarted(state: State, p: TurnStartedNotification): State {
  return {
    ...resolved(state, ALL),
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
    ...resolved(state, BY_END),
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
  };
}
