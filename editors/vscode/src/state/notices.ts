// Reduces transient notices: retries, waits, model switches, and circuit breakers.

import { formatTokens } from "../format";
import type {
  CircuitNotification,
  CompactedNotification,
  ModelSwitchedNotification,
  RetryNotification,
  TransitionNotification,
  WaitNotification,
} from "../protocol";
import { putItem } from "./items";
import type { ChatState, NoteItem, Notice } from "./model";

/** Notices that end with the first delta. */
export const ENDED_BY_DELTA = new Set<Notice["kind"]>(["retry", "wait", "retracted", "transition"]);
/** Notices that end with a complete message. */
export const ENDED_BY_MESSAGE = new Set<Notice["kind"]>([...ENDED_BY_DELTA, "compacted"]);
/** Notices that end with the turn. An open circuit breaker outlasts it. */
export const ENDED_BY_TURN_END = new Set<Notice["kind"]>([...ENDED_BY_MESSAGE, "switched"]);
/** Notices that end when a new turn starts. */
export const ENDED_BY_TURN_START = new Set<Notice["kind"]>([...ENDED_BY_TURN_END, "circuit"]);

/** The extra fields of a sub-agent's events. */
export interface SubagentFields {
  parentToolCallId?: string;
}

/** Returns one key for the session, and one for the sub-agents of each call. */
function getNoticeKey(name: string, parent: string | undefined): string {
  return parent === undefined ? name : `${name} of ${parent}`;
}

export function putNotice(state: ChatState, added: Notice): ChatState {
  return { ...state, notices: [...state.notices.filter((old) => old.key !== added.key), added] };
}

/** Removes notices of the given kinds. Sub-agents' notices stay unless `all` is set. */
export function removeNotices(state: ChatState, kinds: ReadonlySet<Notice["kind"]>, all = false): ChatState {
  return filterNotices(state, (old) => kinds.has(old.kind) && (all || old.parent === undefined));
}

/** Removes the notices of a call's sub-agents. With `at`, removes only those that have ended by then. */
export function removeSubagentNotices(
  state: ChatState,
  call: string | undefined,
  at = Number.POSITIVE_INFINITY,
): ChatState {
  if (call === undefined) return state;
  return filterNotices(state, (old) => old.parent === call && (old.endsAt ?? 0) <= at);
}

function filterNotices(state: ChatState, matches: (notice: Notice) => boolean): ChatState {
  return state.notices.some(matches) ? { ...state, notices: state.notices.filter((old) => !matches(old)) } : state;
}

/** Descriptions of loop transitions that users see. Others are not shown. */
const TRANSITION_TEXTS: Record<string, string> = {
  max_output_tokens_escalate: "The answer was cut off. Retrying with a higher limit",
  max_output_tokens_recovery: "The answer was cut off. Asking the model to continue",
  collapse_drain_retry: "The prompt was too long. Leaving out parts of tool results",
  reactive_compact_retry: "The prompt was too long. Summarizing the history",
  image_retry: "The picture or PDF was rejected. Retrying without it",
  empty_response_retry: "The answer was empty. Retrying",
  pause_turn: "The provider paused. Asking it to continue",
  model_fallback: "Switched the model",
  stop_hook_blocking: "A stop hook objected. Asking the model to continue",
  token_budget_continuation: "The token target is not reached. Asking the model to continue",
  planning: "Planning",
  reflection: "Reviewing progress",
};

export function applyTransition(state: ChatState, p: TransitionNotification & SubagentFields): ChatState {
  const text = p.kind === "continue" ? TRANSITION_TEXTS[p.reason] : undefined;
  const parent = p.parentToolCallId;
  if (text === undefined) return state;
  return putNotice(state, { key: getNoticeKey("transition", parent), kind: "transition", text, parent });
}

export function applyRetry(state: ChatState, p: RetryNotification & SubagentFields): ChatState {
  const reason = p.error.cause ?? p.error.message;
  const status = p.error.status === undefined ? "" : ` (${p.error.status})`;
  const parent = p.parentToolCallId;
  const before =
    parent === undefined ? removeNotices(state, new Set(["wait", "retry"])) : removeSubagentNotices(state, parent);
  return putNotice(before, {
    key: getNoticeKey("retry", parent),
    kind: "retry",
    text: `${p.provider}: ${getFirstLine(reason)}${status} — attempt ${p.attempt + 1} of ${p.maxRetries + 1}`,
    next: p.next,
    endsAt: p.resumeAt,
    parent,
  });
}

export function applyWait(
  state: ChatState,
  { why: reason, until, parentToolCallId: parent }: WaitNotification & SubagentFields,
): ChatState {
  return putNotice(state, {
    key: getNoticeKey("wait", parent),
    kind: "wait",
    text: `Waiting: ${reason}`,
    endsAt: until,
    parent,
  });
}

function getFirstLine(text: string): string {
  const line = text.split("\n", 1)[0] ?? "";
  return line.length > 160 ? `${line.slice(0, 160)}…` : line;
}

export function applyModelSwitched(state: ChatState, p: ModelSwitchedNotification & SubagentFields): ChatState {
  const note: NoteItem = {
    kind: "note",
    id: `switched ${p.seq}`,
    turnId: p.turnId,
    parentToolCallId: p.parentToolCallId,
    text: `${p.why}; switched to ${p.to}`,
  };
  // A sub-agent's model does not affect the session.
  if (p.parentToolCallId !== undefined) return putItem(removeSubagentNotices(state, p.parentToolCallId), note);
  const requestedModel = state.switchedFrom ?? p.from;
  if (p.to === requestedModel) {
    return { ...removeNotices(state, new Set(["switched"])), model: p.to, switchedFrom: undefined };
  }
  const next = putNotice(removeNotices(state, new Set(["retry"])), { key: "switched", kind: "switched", text: p.why });
  return { ...putItem(next, note), model: p.to, switchedFrom: requestedModel };
}

export function applyCircuit(state: ChatState, p: CircuitNotification): ChatState {
  const key = `circuit ${p.subject} ${p.name}`;
  if (p.state === "closed") {
    return { ...state, notices: state.notices.filter((old) => old.key !== key) };
  }
  const text = p.state === "halfOpen" ? `${p.name}: testing with one call` : `${p.name} failed too often and is paused`;
  return putNotice(state, {
    key,
    kind: "circuit",
    text,
    endsAt: p.until,
    circuit: { subject: p.subject, name: p.name },
  });
}

export function applyCompacted(state: ChatState, p: CompactedNotification & SubagentFields): ChatState {
  const text = `Compacted: ${formatTokens(p.tokensBefore)} → ${formatTokens(p.tokensAfter)} tokens`;
  const { turnId, parentToolCallId } = p;
  const note: NoteItem = { kind: "note", id: `compacted ${p.seq}`, turnId, parentToolCallId, text };
  if (parentToolCallId !== undefined) return putItem(state, note);
  return putItem(putNotice(state, { key: "compacted", kind: "compacted", text }), note);
}
