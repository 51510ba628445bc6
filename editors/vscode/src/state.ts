// Reduces events to a session's state: `reduceEvent(state, event)` returns the next state.
//
// Pure: no editor, clock, or randomness. States are immutable and share unchanged parts, so viewPatch.ts finds changes
// by identity. Unknown events are ignored. Durable events replace the deltas that they complete. The Neovim client has
// the same reducer in Lua. Both replay editors/transcripts.

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
import { applyTurnDiff } from "./state/changes";
import { findItem, getProposedPlan, putItem, updateItem } from "./state/items";
import { applyDelta, applyMessage, applyMessageRetracted, parseMessageContent } from "./state/messages";
import type { AgentEvent, ChatItem, ChatState, LimitItem, QuestionItem } from "./state/model";
import {
  applyCircuit,
  applyCompacted,
  applyModelSwitched,
  applyRetry,
  applyTransition,
  applyWait,
  ENDED_BY_TURN_END,
  ENDED_BY_TURN_START,
  removeNotices,
  type SubagentFields,
} from "./state/notices";
import {
  applyApprovalRequested,
  applyApprovalResolved,
  applyToolCall,
  applyToolInputDelta,
  applyToolOutputDelta,
  dropLiveOutput,
  FINAL_STATUSES,
} from "./state/tools";

export {
  describeChanges,
  describeTurnEnd,
  getItemKey,
  getProposedPlan,
  listOpenInquiries,
  sumLines,
  updateItem,
} from "./state/items";
export * from "./state/model";
export { MAX_LIVE_CHARS } from "./state/tools";

/**
 * Returns the state after `event`. Ignores events that were applied before. After a gap, sets `missed`, and the caller
 * must load the session from `seq`.
 */
export function reduceEvent(state: ChatState, event: AgentEvent): ChatState {
  const { seq } = event.params as { seq?: number };
  if (seq !== undefined) {
    if (seq <= state.seq) return state;
    if (seq > state.seq + 1) return state.missed === "events" ? state : { ...state, missed: "events" };
  }
  const next = applyEvent(state, event.method, event.params);
  return seq === undefined ? next : { ...next, seq };
}

export function applyEvent(state: ChatState, method: string, params: unknown): ChatState {
  switch (method) {
    case "agent/turnStarted":
      return applyTurnStarted(state, params as TurnStartedNotification);
    case "agent/turnEnded":
      return applyTurnEnded(state, params as TurnEndedNotification);
    case "agent/textDelta":
      return applyDelta(state, params as TextDeltaNotification, "text", "bytes");
    case "agent/reasoningDelta":
      return applyDelta(state, params as TextDeltaNotification, "reasoning", "reasoningBytes");
    case "agent/message":
      return applyMessage(state, params as MessageNotification);
    case "agent/messageRetracted":
      return applyMessageRetracted(state, params as MessageRetractedNotification);
    case "agent/toolInputDelta":
      return applyToolInputDelta(state, params as ToolInputDeltaNotification);
    case "agent/toolOutputDelta":
      return applyToolOutputDelta(state, params as ToolOutputDeltaNotification);
    case "agent/toolCall":
      return applyToolCall(state, params as ToolCallNotification);
    case "agent/approvalRequested":
      return applyApprovalRequested(state, params as ApprovalRequestedNotification);
    case "agent/approvalResolved":
      return applyApprovalResolved(state, params as ApprovalResolvedNotification);
    case "agent/limitRequested":
      return addInquiry<LimitItem>(state, "limit", (params as LimitRequestedNotification).limitId, params);
    case "agent/limitResolved":
      return resolveInquiry<LimitItem>(state, "limit", (params as LimitResolvedNotification).limitId, params);
    case "agent/questionRequested":
      return addQuestion(state, params as QuestionRequestedNotification);
    case "agent/questionResolved":
      return resolveInquiry<QuestionItem>(
        state,
        "question",
        (params as QuestionResolvedNotification).questionId,
        params,
      );
    case "agent/plan": {
      const { turnId, items } = params as PlanNotification;
      return putItem(state, { kind: "plan", id: turnId ?? "plan", turnId, items });
    }
    case "agent/transition":
      return applyTransition(state, params as TransitionNotification & SubagentFields);
    case "agent/retry":
      return applyRetry(state, params as RetryNotification & SubagentFields);
    case "agent/wait":
      return applyWait(state, params as WaitNotification & SubagentFields);
    case "agent/modelSwitched":
      return applyModelSwitched(state, params as ModelSwitchedNotification & SubagentFields);
    case "agent/circuit":
      return applyCircuit(state, params as CircuitNotification);
    case "agent/compacted":
      return applyCompacted(state, params as CompactedNotification & SubagentFields);
    case "agent/usage":
      return applyUsage(state, params as UsageNotification);
    case "agent/warning": {
      const { seq, code, message: text, turnId, parentToolCallId } = params as WarningNotification & SubagentFields;
      if (seq === undefined) return state;
      return putItem(state, { kind: "warning", id: String(seq), turnId, parentToolCallId, code, message: text });
    }
    case "agent/turnDiff":
      return applyTurnDiff(state, params as TurnDiffNotification);
    case "agent/instructions": {
      const { seq, turnId, files, leftOut } = params as InstructionsNotification;
      return putItem(state, { kind: "instructions", id: String(seq), turnId, files, leftOut });
    }
    case "agent/sessionUpdated":
      return applySessionUpdated(state, params as SessionUpdatedNotification);
    default:
      return state;
  }
}

/** Adds a question. The detail of one about a plan is left out, because the call shows the plan. */
function addQuestion(state: ChatState, request: QuestionRequestedNotification): ChatState {
  const { detail: _, ...withoutDetail } = request;
  const call = request.toolCallId === undefined ? undefined : findItem(state, "tool", request.toolCallId);
  const showsPlan = call !== undefined && getProposedPlan(call) !== undefined;
  return addInquiry<QuestionItem>(state, "question", request.questionId, showsPlan ? withoutDetail : request);
}

function addInquiry<I extends LimitItem | QuestionItem>(
  state: ChatState,
  kind: I["kind"],
  id: string,
  request: unknown,
): ChatState {
  const { turnId, parentToolCallId } = request as I["request"] & SubagentFields;
  return putItem(state, { kind, id, turnId, parentToolCallId, request } as I);
}

function resolveInquiry<I extends LimitItem | QuestionItem>(
  state: ChatState,
  kind: I["kind"],
  id: string,
  resolution: unknown,
): ChatState {
  return updateItem<I>(state, kind, id, { resolved: resolution } as Partial<I>);
}

function applyTurnStarted(state: ChatState, p: TurnStartedNotification): ChatState {
  return {
    ...removeNotices(state, ENDED_BY_TURN_START, true),
    running: p.turnId,
    startedAt: p.at,
    activity: "thinking",
    resumable: undefined,
    switchedFrom: undefined,
    unusedSteerText: undefined,
  };
}

function applyTurnEnded(state: ChatState, p: TurnEndedNotification): ChatState {
  const items: ChatItem[] = [];
  for (const item of state.items) {
    // Drop items that no durable event completed.
    const isVoid =
      (item.kind === "assistant" && item.open) || (item.kind === "tool" && item.status === "writing" && !item.approval);
    if (isVoid) continue;
    items.push(
      item.kind === "tool" && item.live !== undefined && FINAL_STATUSES.has(item.status) ? dropLiveOutput(item) : item,
    );
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
    durationMs: state.running === p.turnId && state.startedAt !== undefined ? p.at - state.startedAt : undefined,
  });
  const unusedSteers = (p.unusedSteers ?? [])
    .map((blocks) => parseMessageContent(blocks).text)
    .filter((text) => text !== "");
  return {
    ...removeNotices(state, ENDED_BY_TURN_END, true),
    items,
    running: undefined,
    startedAt: undefined,
    activity: undefined,
    resumable: p.state === "interrupted" || p.state === "cancelled" ? p.turnId : undefined,
    model: state.switchedFrom ?? state.model,
    switchedFrom: undefined,
    unusedSteerText: unusedSteers.length > 0 ? unusedSteers.join("\n\n") : undefined,
  };
}

export function applyUsage(state: ChatState, p: UsageNotification): ChatState {
  return {
    ...state,
    costUsd: p.session.costUsd,
    contextUsed: p.contextUsed,
    contextWindow: p.contextWindow,
  };
}

function applySessionUpdated(state: ChatState, p: SessionUpdatedNotification): ChatState {
  return {
    ...state,
    title: p.title ?? state.title,
    mode: p.mode ?? state.mode,
    model: p.model ?? state.model,
    effort: p.model === undefined ? (p.effort ?? state.effort) : p.effort,
    switchedFrom: p.model === undefined ? state.switchedFrom : undefined,
    queue: p.queue === undefined ? state.queue : omitEmptyQueue(p.queue),
  };
}

export function omitEmptyQueue(queue: QueueState | undefined): QueueState | undefined {
  return queue !== undefined && queue.prompts.length > 0 ? queue : undefined;
}
