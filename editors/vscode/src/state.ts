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
  CircuitSubject,
  CompactedNotification,
  Effort,
  ErrorData,
  LimitRequestedNotification,
  LimitResolvedNotification,
  LoadSessionResult,
  Location,
  MessageBlock,
  MessageNotification,
  MessageRetractedNotification,
  Mode,
  ModelSwitchedNotification,
  More,
  PartialMessage,
  PlanItem,
  PlanNotification,
  QuestionRequestedNotification,
  QuestionResolvedNotification,
  RetryNotification,
  SessionUpdatedNotification,
  TerminalReason,
  TextDeltaNotification,
  TokenUsage,
  ToolCallNotification,
  ToolCallStatus,
  ToolInputDeltaNotification,
  ToolOutputDeltaNotification,
  TransitionNotification,
  TurnEndedNotification,
  TurnStartedNotification,
  TurnState,
  UsageNotification,
  WaitNotification,
  WarningNotification,
} from "./protocol";
import { cutHead, seconds, tokens, utf8Length, utf8Tail } from "./text";

/** A notification of the server, as it came. */
export interface Event {
  method: string;
  params: unknown;
}

interface Base {
  /** Unique among items of one kind. */
  id: string;
  turnId?: string | undefined;
}

export interface UserItem extends Base {
  kind: "user";
  text: string;
  /** Files and ranges, as people write them. */
  references: string[];
  images: number;
  /** Said while the turn was running. */
  steer: boolean;
}

export interface AssistantItem extends Base {
  kind: "assistant";
  text: string;
  /** UTF-8 bytes of `text` while it is open: what offsets count. */
  bytes: number;
  reasoning: string;
  reasoningBytes: number;
  /** Still being written. */
  open: boolean;
  incomplete: boolean;
  /** Where the whole of a cut text is. */
  more?: More | undefined;
}

export interface ToolItem extends Base {
  kind: "tool";
  name: string;
  title: string;
  status: ToolCallStatus | "writing";
  /** The message that asks, while its input is being written. */
  messageId?: string | undefined;
  /** Characters of input that have come, while it is being written. */
  written?: number | undefined;
  input?: unknown;
  output?: string | undefined;
  /** The end of its live output, and how many characters came before it. */
  live?: string | undefined;
  liveDropped?: number | undefined;
  diff?: string | undefined;
  locations?: Location[] | undefined;
  durationMs?: number | undefined;
  /** When it began to run, in ms since the Unix epoch. */
  runningSince?: number | undefined;
  parentToolCallId?: string | undefined;
  more?: Record<string, More> | undefined;
  /** The question that is open about it. */
  approval?: ApprovalRequestedNotification | undefined;
  decision?: ApprovalResolvedNotification | undefined;
}

export interface PlanListItem extends Base {
  kind: "plan";
  items: PlanItem[];
}

export interface WarningItem extends Base {
  kind: "warning";
  code: string;
  message: string;
}

export interface NoteItem extends Base {
  kind: "note";
  text: string;
}

export interface LimitItem extends Base {
  kind: "limit";
  asked: LimitRequestedNotification;
  resolved?: LimitResolvedNotification | undefined;
}

export interface QuestionItem extends Base {
  kind: "question";
  asked: QuestionRequestedNotification;
  resolved?: QuestionResolvedNotification | undefined;
}

export interface TurnEndItem extends Base {
  kind: "turnEnd";
  state: TurnState;
  reason: TerminalReason;
  usage?: TokenUsage | undefined;
  costUsd?: number | undefined;
  error?: ErrorData | undefined;
  tookMs?: number | undefined;
}

/** What stands in the chat, from top to bottom. */
export type Item =
  | UserItem
  | AssistantItem
  | ToolItem
  | PlanListItem
  | WarningItem
  | NoteItem
  | LimitItem
  | QuestionItem
  | TurnEndItem;

/** Something that passes: shown beside the text, and gone when it is resolved. */
export interface Notice {
  /** One notice a key. */
  key: string;
  kind: "retry" | "wait" | "switched" | "compacted" | "circuit" | "retracted" | "transition";
  text: string;
  /** What follows if it does not help. */
  next?: string | undefined;
  /** When it ends, in ms since the Unix epoch. */
  till?: number | undefined;
  /** The circuit that it is about. */
  circuit?: { subject: CircuitSubject; name: string } | undefined;
}

export type Activity = "thinking" | "answering" | "calling" | "tool";

export interface State {
  sessionId: string;
  /** The number of the last event that was applied; 0 before the first. */
  seq: number;
  items: readonly Item[];
  /** Open ones, oldest first. */
  approvals: readonly ApprovalRequestedNotification[];
  notices: readonly Notice[];
  /** The turn that is running. */
  running?: string | undefined;
  startedAt?: number | undefined;
  activity?: Activity | undefined;
  /** The last turn, when it can be gone on with. */
  resumable?: string | undefined;
  title?: string | undefined;
  cwd?: string | undefined;
  mode?: Mode | undefined;
  model?: string | undefined;
  effort?: Effort | undefined;
  /** The model that was meant, while another stands in. */
  switchedFrom?: string | undefined;
  /** What the session cost so far, in US dollars. */
  costUsd?: number | undefined;
  contextUsed?: number | undefined;
  contextWindow?: number | undefined;
  /** The number of the first event that is shown. */
  firstSeq?: number | undefined;
  /** Whether there are events before the first item. */
  hasEarlier: boolean;
  /** What did not join on and must be loaded. */
  missed?: "events" | "text" | undefined;
  /** What the person said and a cut turn did not use: it goes back to them. */
  unused?: string | undefined;
}

/** How many characters of live output are kept: some hundred lines; the whole is there at the end. */
export const LIVE_CHARS = 32_768;

export function empty(sessionId: string): State {
  return { sessionId, seq: 0, items: [], approvals: [], notices: [], hasEarlier: false };
}

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

function apply(state: State, method: string, params: unknown): State {
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

/** What is over once the model speaks. */
const BY_WORDS = new Set<Notice["kind"]>(["retry", "wait", "retracted", "transition"]);
/** What is over once a message is whole. */
const BY_MESSAGE = new Set<Notice["kind"]>([...BY_WORDS, "compacted"]);
/** What is over with the turn; an open circuit is not. */
const BY_END = new Set<Notice["kind"]>([...BY_MESSAGE, "switched"]);
/** A new turn is a new try. */
const ALL = new Set<Notice["kind"]>([...BY_END, "circuit"]);

const FINAL = new Set<string>(["completed", "failed", "denied", "cancelled"]);

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

function settledTool(item: ToolItem): ToolItem {
  return { ...item, live: undefined, liveDropped: undefined };
}

/** Joins a piece of text on; a gap is told, what is known already is left out. */
function delta(
  state: State,
  p: TextDeltaNotification,
  field: "text" | "reasoning",
  count: "bytes" | "reasoningBytes",
): State {
  const known = find(state, "assistant", p.messageId);
  if (known && !known.open) return state;
  const item: AssistantItem = known ?? {
    kind: "assistant",
    id: p.messageId,
    turnId: p.turnId,
    text: "",
    bytes: 0,
    reasoning: "",
    reasoningBytes: 0,
    open: true,
    incomplete: false,
  };
  const base = resolved(state, BY_WORDS);
  const have = item[count];
  if (p.offset > have) return { ...base, missed: state.missed ?? "text" };
  const length = utf8Length(p.text);
  if (p.offset + length <= have && known) return base;
  const piece = p.offset === have ? p.text : utf8Tail(p.text, have - p.offset);
  const next = { ...item, [field]: item[field] + piece, [count]: p.offset + length };
  return { ...put(base, next), activity: field === "text" ? "answering" : "thinking" };
}

interface Spoken {
  text: string;
  reasoning: string;
  references: string[];
  images: number;
  calls: Set<string>;
  more: More | undefined;
}

function spoken(content: readonly MessageBlock[]): Spoken {
  const said: Spoken = { text: "", reasoning: "", references: [], images: 0, calls: new Set(), more: undefined };
  for (const block of content) {
    switch (block.type) {
      case "text":
        said.text += block.text;
        said.more ??= block.more?.["text"];
        break;
      case "reasoning":
        said.reasoning += (said.reasoning === "" ? "" : "\n\n") + block.text;
        break;
      case "toolUse":
        said.calls.add(block.toolCallId);
        break;
      case "image":
        said.images += 1;
        break;
      case "reference":
        said.references.push(block.path + lines(block.startLine, block.endLine));
        break;
      case "toolResult":
        break;
    }
  }
  return said;
}

function lines(first: number | undefined, last: number | undefined): string {
  if (first === undefined) return "";
  return last !== undefined && last > first ? `:${first}-${last}` : `:${first}`;
}

function message(state: State, p: MessageNotification): State {
  if (p.hidden) return state;
  const said = spoken(p.content);
  if (p.role === "user") {
    return put(state, {
      kind: "user",
      id: p.messageId,
      turnId: p.turnId,
      text: said.text,
      references: said.references,
      images: said.images,
      steer: state.items.some((item) => item.kind === "user" && item.turnId === p.turnId && item.id !== p.messageId),
    });
  }
  if (p.role !== "assistant") return state;
  // A call that the message does not hold is void.
  const next = without(
    resolved(state, BY_MESSAGE),
    (item) =>
      item.kind === "tool" && item.status === "writing" && item.messageId === p.messageId && !said.calls.has(item.id),
  );
  const activity = next.running === undefined ? undefined : ("thinking" as const);
  if (said.text === "" && said.reasoning === "") {
    return { ...without(next, (item) => item.kind === "assistant" && item.id === p.messageId), activity };
  }
  const known = find(next, "assistant", p.messageId);
  // A text that was cut for the wire is no better than what was streamed whole.
  const streamed = said.more !== undefined && known !== undefined && known.bytes >= said.more.bytes;
  const text = streamed ? known.text : said.text;
  const item: AssistantItem = {
    kind: "assistant",
    id: p.messageId,
    turnId: p.turnId,
    text,
    bytes: 0,
    reasoning: said.reasoning,
    reasoningBytes: 0,
    open: false,
    incomplete: p.incomplete ?? false,
    more: streamed ? undefined : said.more,
  };
  return { ...put(next, item), activity };
}

function messageRetracted(state: State, p: MessageRetractedNotification): State {
  const calls = new Set(p.toolCallIds);
  const next = without(
    state,
    (item) =>
      (item.kind === "assistant" && item.id === p.messageId) ||
      (item.kind === "tool" && (calls.has(item.id) || (item.status === "writing" && item.messageId === p.messageId))),
  );
  if (next === state) return state;
  return notice(
    { ...next, activity: "thinking" },
    { key: "retracted", kind: "retracted", text: "A broken answer was taken back" },
  );
}

function toolInputDelta(state: State, p: ToolInputDeltaNotification): State {
  const known = find(state, "tool", p.toolCallId);
  if (known && known.status !== "writing") return state;
  const next = put(resolved(state, BY_WORDS), {
    kind: "tool",
    id: p.toolCallId,
    turnId: p.turnId,
    name: p.name,
    title: p.name,
    status: "writing",
    messageId: p.messageId,
    written: (known?.written ?? 0) + p.text.length,
  });
  return { ...next, activity: "calling" };
}

function toolOutputDelta(state: State, p: ToolOutputDeltaNotification): State {
  const known = find(state, "tool", p.toolCallId);
  if (known?.status !== "running") return state;
  const whole = (known.live ?? "") + p.text;
  const live = cutHead(whole, LIVE_CHARS);
  const liveDropped = (known.liveDropped ?? 0) + whole.length - live.length;
  return put(state, { ...known, live, liveDropped });
}

function toolCall(state: State, p: ToolCallNotification): State {
  const known = find(state, "tool", p.toolCallId);
  const final = FINAL.has(p.status);
  const item: ToolItem = {
    ...known,
    kind: "tool",
    id: p.toolCallId,
    turnId: p.turnId ?? known?.turnId,
    name: p.name,
    title: p.title,
    status: p.status,
    messageId: undefined,
    written: undefined,
    input: p.input ?? known?.input,
    output: p.output ?? known?.output,
    diff: p.diff ?? known?.diff,
    locations: p.locations ?? known?.locations,
    durationMs: p.durationMs ?? known?.durationMs,
    runningSince: p.status === "running" ? p.at : undefined,
    parentToolCallId: p.parentToolCallId ?? known?.parentToolCallId,
    more: p.more === undefined ? known?.more : { ...known?.more, ...p.more },
    live: final ? undefined : known?.live,
    liveDropped: final ? undefined : known?.liveDropped,
  };
  const activity = p.status === "running" ? "tool" : final ? "thinking" : state.activity;
  return { ...put(state, item), activity: state.running === undefined ? undefined : activity };
}

function approvalRequested(state: State, p: ApprovalRequestedNotification): State {
  const known = find(state, "tool", p.toolCallId);
  const item: ToolItem = {
    ...(known ?? { kind: "tool", id: p.toolCallId, turnId: p.turnId, name: p.name, title: p.title, input: p.input }),
    status: "awaitingApproval",
    approval: p,
    decision: undefined,
    diff: p.diff ?? known?.diff,
  };
  return {
    ...put(state, item),
    approvals: [...state.approvals.filter((open) => open.approvalId !== p.approvalId), p],
  };
}

function approvalResolved(state: State, p: ApprovalResolvedNotification): State {
  const approvals = state.approvals.filter((open) => open.approvalId !== p.approvalId);
  return change<ToolItem>({ ...state, approvals }, "tool", p.toolCallId, { approval: undefined, decision: p });
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

function transition(state: State, p: TransitionNotification): State {
  const text = p.kind === "continue" ? TOLD[p.reason] : undefined;
  return text === undefined ? state : notice(state, { key: "transition", kind: "transition", text });
}

function retry(state: State, p: RetryNotification): State {
  const why = p.error.cause ?? p.error.message;
  const status = p.error.status === undefined ? "" : ` (${p.error.status})`;
  return notice(resolved(state, new Set(["wait", "retry"])), {
    key: "retry",
    kind: "retry",
    text: `${p.provider}: ${firstLine(why)}${status} — attempt ${p.attempt + 1} of ${p.maxRetries + 1}`,
    next: p.next,
    till: p.resumeAt,
  });
}

function firstLine(text: string): string {
  const line = text.split("\n", 1)[0] ?? "";
  return line.length > 160 ? `${line.slice(0, 160)}…` : line;
}

function modelSwitched(state: State, p: ModelSwitchedNotification): State {
  const meant = state.switchedFrom ?? p.from;
  if (p.to === meant) {
    return { ...resolved(state, new Set(["switched"])), model: p.to, switchedFrom: undefined };
  }
  const next = notice(resolved(state, new Set(["retry"])), { key: "switched", kind: "switched", text: p.why });
  const note: NoteItem = { kind: "note", id: `switched ${p.seq}`, turnId: p.turnId, text: `${p.why} (${p.to})` };
  return { ...put(next, note), model: p.to, switchedFrom: meant };
}

function circuit(state: State, p: CircuitNotification): State {
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

function compacted(state: State, p: CompactedNotification): State {
  const text = `Compacted: ${tokens(p.tokensBefore)} → ${tokens(p.tokensAfter)} tokens`;
  const next = notice(state, { key: "compacted", kind: "compacted", text });
  return put(next, { kind: "note", id: `compacted ${p.seq}`, turnId: p.turnId, text });
}

function usage(state: State, p: UsageNotification): State {
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
    approvals: result.openApprovals,
  };
}

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
  items.push(...later.values());
  return { ...state, items, hasEarlier: result.hasEarlier, firstSeq: first ?? state.firstSeq };
}

function merged(before: Item, after: Item): Item {
  if (before.kind !== "tool" || after.kind !== "tool") return after;
  const set = Object.fromEntries(Object.entries(after).filter(([, value]) => value !== undefined));
  return { ...before, ...set, live: after.live, approval: after.approval } as ToolItem;
}

/** One key an item, for lists and patches. */
export function keyOf(item: Item): string {
  return `${item.kind} ${item.id}`;
}

function seqOf(event: Event | undefined): number | undefined {
  return event === undefined ? undefined : (event.params as { seq?: number }).seq;
}

function indexOf(state: State, kind: Item["kind"], id: string): number {
  // From the end: what changes is nearly always near it.
  return state.items.findLastIndex((item) => item.id === id && item.kind === kind);
}

function find<K extends Item["kind"]>(state: State, kind: K, id: string): Extract<Item, { kind: K }> | undefined {
  return state.items[indexOf(state, kind, id)] as Extract<Item, { kind: K }> | undefined;
}

/** With `item` in the place of the one of its kind and id, or at the end. */
function put(state: State, item: Item): State {
  const at = indexOf(state, item.kind, item.id);
  return { ...state, items: at < 0 ? [...state.items, item] : state.items.with(at, item) };
}

function change<I extends Item>(state: State, kind: I["kind"], id: string, changes: Partial<I>): State {
  const at = indexOf(state, kind, id);
  const known = state.items[at];
  return known === undefined ? state : { ...state, items: state.items.with(at, { ...known, ...changes } as Item) };
}

function without(state: State, gone: (item: Item) => boolean): State {
  return state.items.some(gone) ? { ...state, items: state.items.filter((item) => !gone(item)) } : state;
}

function notice(state: State, fresh: Notice): State {
  return { ...state, notices: [...state.notices.filter((old) => old.key !== fresh.key), fresh] };
}

/** Without the notices of these kinds. */
function resolved(state: State, kinds: ReadonlySet<Notice["kind"]>): State {
  if (!state.notices.some((old) => kinds.has(old.kind))) return state;
  return { ...state, notices: state.notices.filter((old) => !kinds.has(old.kind)) };
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

const STATES: Record<TurnState, string> = {
  completed: "Done",
  failed: "Failed",
  degraded: "Done in part",
  interrupted: "Interrupted",
  cancelled: "Stopped",
};
