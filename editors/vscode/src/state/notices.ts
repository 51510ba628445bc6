// What passes: retries, waits, switches, circuits. Each notice is there until what it tells of is over.

import { tokens } from "../format";
import type {
  CircuitNotification,
  CompactedNotification,
  ModelSwitchedNotification,
  RetryNotification,
  TransitionNotification,
  WaitNotification,
} from "../protocol";
import { put } from "./items";
import type { NoteItem, Notice, State } from "./model";

/** What is over once the model speaks. */
export const BY_WORDS = new Set<Notice["kind"]>(["retry", "wait", "retracted", "transition"]);
/** What is over once a message is whole. */
export const BY_MESSAGE = new Set<Notice["kind"]>([...BY_WORDS, "compacted"]);
/** What is over with the turn; an open circuit is not. */
export const BY_END = new Set<Notice["kind"]>([...BY_MESSAGE, "switched"]);
/** A new turn is a new try. */
export const ALL = new Set<Notice["kind"]>([...BY_END, "circuit"]);

/** What a sub-agent's events have beside their own fields. */
export interface Nested {
  parentToolCallId?: string;
}

/** One key for the session, and one for the sub-agents of each call. */
function keyFor(name: string, parent: string | undefined): string {
  return parent === undefined ? name : `${name} of ${parent}`;
}

export function notice(state: State, fresh: Notice): State {
  return { ...state, notices: [...state.notices.filter((old) => old.key !== fresh.key), fresh] };
}

/** Without the notices of these kinds; those of sub-agents only if `all` go. */
export function resolved(state: State, kinds: ReadonlySet<Notice["kind"]>, all = false): State {
  return dropped(state, (old) => kinds.has(old.kind) && (all || old.parent === undefined));
}

/** Without the notices of the sub-agents of a call: they went on, or have ended. `at`: only those whose time is over. */
export function resolvedOf(state: State, call: string | undefined, at = Number.POSITIVE_INFINITY): State {
  if (call === undefined) return state;
  return dropped(state, (old) => old.parent === call && (old.till ?? 0) <= at);
}

function dropped(state: State, gone: (notice: Notice) => boolean): State {
  return state.notices.some(gone) ? { ...state, notices: state.notices.filter((old) => !gone(old)) } : state;
}

/** What a person is told of a decision of the loop; of others nothing. */
const TOLD: Record<string, string> = {
  max_output_tokens_escalate: "The answer was cut: asked again with more room",
  max_output_tokens_recovery: "The answer was cut: asked to go on",
  collapse_drain_retry: "The prompt was too long: old tool results are left out",
  reactive_compact_retry: "The prompt was too long: the history is summarised",
  image_retry: "The image was refused: tried again without it",
  empty_response_retry: "Nothing came: asked again",
  pause_turn: "The provider paused: asked to go on",
  model_fallback: "The model was switched",
  stop_hook_blocking: "A stop hook objected: asked to go on",
  token_budget_continuation: "The token target is not reached: asked to go on",
  planning: "Plans before it acts",
  reflection: "Looks at how far it has come",
};

export function transition(state: State, p: TransitionNotification & Nested): State {
  const text = p.kind === "continue" ? TOLD[p.reason] : undefined;
  const parent = p.parentToolCallId;
  if (text === undefined) return state;
  return notice(state, { key: keyFor("transition", parent), kind: "transition", text, parent });
}

export function retry(state: State, p: RetryNotification & Nested): State {
  const why = p.error.cause ?? p.error.message;
  const status = p.error.status === undefined ? "" : ` (${p.error.status})`;
  const parent = p.parentToolCallId;
  const before = parent === undefined ? resolved(state, new Set(["wait", "retry"])) : resolvedOf(state, parent);
  return notice(before, {
    key: keyFor("retry", parent),
    kind: "retry",
    text: `${p.provider}: ${firstLine(why)}${status} — attempt ${p.attempt + 1} of ${p.maxRetries + 1}`,
    next: p.next,
    till: p.resumeAt,
    parent,
  });
}

export function wait(state: State, { why, until, parentToolCallId: parent }: WaitNotification & Nested): State {
  return notice(state, { key: keyFor("wait", parent), kind: "wait", text: `Waiting: ${why}`, till: until, parent });
}

function firstLine(text: string): string {
  const line = text.split("\n", 1)[0] ?? "";
  return line.length > 160 ? `${line.slice(0, 160)}…` : line;
}

export function modelSwitched(state: State, p: ModelSwitchedNotification & Nested): State {
  const note: NoteItem = {
    kind: "note",
    id: `switched ${p.seq}`,
    turnId: p.turnId,
    parentToolCallId: p.parentToolCallId,
    text: `${p.why} → ${p.to} answers`,
  };
  // A sub-agent's model is not the session's.
  if (p.parentToolCallId !== undefined) return put(resolvedOf(state, p.parentToolCallId), note);
  const meant = state.switchedFrom ?? p.from;
  if (p.to === meant) {
    return { ...resolved(state, new Set(["switched"])), model: p.to, switchedFrom: undefined };
  }
  const next = notice(resolved(state, new Set(["retry"])), { key: "switched", kind: "switched", text: p.why });
  return { ...put(next, note), model: p.to, switchedFrom: meant };
}

export function circuit(state: State, p: CircuitNotification): State {
  const key = `circuit ${p.subject} ${p.name}`;
  if (p.state === "closed") {
    return { ...state, notices: state.notices.filter((old) => old.key !== key) };
  }
  const text =
    p.state === "halfOpen"
      ? `${p.name}: one call tries whether it works again`
      : `${p.name} failed too often: not asked for a while`;
  return notice(state, { key, kind: "circuit", text, till: p.until, circuit: { subject: p.subject, name: p.name } });
}

export function compacted(state: State, p: CompactedNotification & Nested): State {
  const text = `Compacted: ${tokens(p.tokensBefore)} → ${tokens(p.tokensAfter)} tokens`;
  const { turnId, parentToolCallId } = p;
  const note: NoteItem = { kind: "note", id: `compacted ${p.seq}`, turnId, parentToolCallId, text };
  if (parentToolCallId !== undefined) return put(state, note);
  return put(notice(state, { key: "compacted", kind: "compacted", text }), note);
}
