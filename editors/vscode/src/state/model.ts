// Types of the session state: items from top to bottom, transient notices, and session data. Only types; see
// ../state.ts for the changes.

import type {
  ApprovalRequestedNotification,
  ApprovalResolvedNotification,
  ChangeState,
  CircuitSubject,
  Effort,
  ErrorData,
  FileDiff,
  InstructionFile,
  LimitRequestedNotification,
  LimitResolvedNotification,
  Location,
  Mode,
  PlanItem,
  QuestionRequestedNotification,
  QuestionResolvedNotification,
  QueueState,
  TerminalReason,
  TokenUsage,
  ToolCallStatus,
  TruncatedField,
  TurnState,
} from "../protocol";

/** A server notification. */
export interface AgentEvent {
  method: string;
  params: unknown;
}

interface BaseItem {
  /** Unique among items of one kind. */
  id: string;
  turnId?: string | undefined;
  /** The call that delegated to this item's sub-agent. */
  parentToolCallId?: string | undefined;
}

export interface UserItem extends BaseItem {
  kind: "user";
  text: string;
  /** File paths with ranges, as users write them. */
  references: string[];
  images: number;
  /** Sent while the turn was running. */
  steer: boolean;
}

export interface AssistantItem extends BaseItem {
  kind: "assistant";
  text: string;
  /** UTF-8 byte length of `text` while it is streamed, for delta offsets. */
  bytes: number;
  reasoning: string;
  reasoningBytes: number;
  /** Still being streamed. */
  open: boolean;
  incomplete: boolean;
  /** Where to read the full text if it is truncated. */
  more?: TruncatedField | undefined;
}

export interface ToolItem extends BaseItem {
  kind: "tool";
  name: string;
  title: string;
  status: ToolCallStatus | "writing";
  /** The message that contains the call, while its input is streamed. */
  messageId?: string | undefined;
  /** Number of input characters received while the input is streamed. */
  written?: number | undefined;
  input?: unknown;
  output?: string | undefined;
  /** The end of the live output, and the number of dropped characters before it. */
  live?: string | undefined;
  liveDropped?: number | undefined;
  diff?: string | undefined;
  /** The user's version of `diff`, which runs if they allow it. */
  reviewedDiff?: string | undefined;
  locations?: Location[] | undefined;
  durationMs?: number | undefined;
  exitCode?: number | undefined;
  /** In ms since the Unix epoch. */
  runningSince?: number | undefined;
  more?: Record<string, TruncatedField> | undefined;
  approval?: ApprovalRequestedNotification | undefined;
  decision?: ApprovalResolvedNotification | undefined;
}

export interface PlanListItem extends BaseItem {
  kind: "plan";
  items: PlanItem[];
}

export interface WarningItem extends BaseItem {
  kind: "warning";
  code: string;
  message: string;
}

export interface NoteItem extends BaseItem {
  kind: "note";
  text: string;
}

export interface LimitItem extends BaseItem {
  kind: "limit";
  request: LimitRequestedNotification;
  resolved?: LimitResolvedNotification | undefined;
}

export interface QuestionItem extends BaseItem {
  kind: "question";
  request: QuestionRequestedNotification;
  resolved?: QuestionResolvedNotification | undefined;
}

export interface TurnEndItem extends BaseItem {
  kind: "turnEnd";
  state: TurnState;
  reason: TerminalReason;
  usage?: TokenUsage | undefined;
  costUsd?: number | undefined;
  error?: ErrorData | undefined;
  durationMs?: number | undefined;
}

/** The id is the turn's id. */
export interface ChangesItem extends BaseItem {
  kind: "changes";
  /** Sequence number of the event that reported the change. */
  seq: number;
  files: FileDiff[];
  /** Number of files that `files` does not contain. */
  unlisted?: number | undefined;
  /** Commands may have changed more files. */
  partial?: boolean | undefined;
  standing: ChangeState;
  /** If reverted: the turn whose revert included this one. */
  revertedWith?: string | undefined;
  /** If reverted: the files that the revert did not change. */
  unrevertedPaths?: readonly string[] | undefined;
}

export interface InstructionsItem extends BaseItem {
  kind: "instructions";
  files: InstructionFile[];
  leftOut?: number | undefined;
}

export type ChatItem =
  | UserItem
  | AssistantItem
  | ToolItem
  | PlanListItem
  | WarningItem
  | NoteItem
  | LimitItem
  | QuestionItem
  | ChangesItem
  | InstructionsItem
  | TurnEndItem;

/** A transient message that disappears when it is resolved. */
export interface Notice {
  /** At most one notice exists for each key. */
  key: string;
  kind: "retry" | "wait" | "switched" | "compacted" | "circuit" | "retracted" | "transition";
  text: string;
  /** The next action if the current one fails. */
  next?: string | undefined;
  /** In ms since the Unix epoch. */
  endsAt?: number | undefined;
  /** The call that delegated to this notice's sub-agent. */
  parent?: string | undefined;
  circuit?: { subject: CircuitSubject; name: string } | undefined;
}

export interface RevertRecord {
  turnId: string;
  /** Sequence number of the event that reported the revert. */
  seq: number;
  standing: ChangeState;
  /** The affected files. Undefined if the event did not list all of them. */
  paths?: readonly string[] | undefined;
}

export type TurnActivity = "thinking" | "answering" | "calling" | "tool";

export interface ChatState {
  sessionId: string;
  /** Sequence number of the last applied event; 0 before the first. */
  seq: number;
  items: readonly ChatItem[];
  /** Open approvals, oldest first. */
  approvals: readonly ApprovalRequestedNotification[];
  notices: readonly Notice[];
  /** Reverts and redos, oldest first. */
  reverts: readonly RevertRecord[];
  /** Undefined if the queue is empty. */
  queue?: QueueState | undefined;
  /** Id of the running turn. */
  running?: string | undefined;
  startedAt?: number | undefined;
  activity?: TurnActivity | undefined;
  /** Id of the last turn, if it can be resumed. */
  resumable?: string | undefined;
  title?: string | undefined;
  cwd?: string | undefined;
  mode?: Mode | undefined;
  model?: string | undefined;
  effort?: Effort | undefined;
  /** The intended model while a fallback answers. */
  switchedFrom?: string | undefined;
  /** Session cost in US dollars. */
  costUsd?: number | undefined;
  contextUsed?: number | undefined;
  contextWindow?: number | undefined;
  /** Sequence number of the first loaded event. */
  firstSeq?: number | undefined;
  /** Whether there are events before the first item. */
  hasEarlier: boolean;
  /** Set if events or text are missing and the session must be reloaded. */
  missed?: "events" | "text" | undefined;
  /** Steers that an interrupted turn did not use. They return to the input. */
  unusedSteerText?: string | undefined;
}

export function createChatState(sessionId: string): ChatState {
  return { sessionId, seq: 0, items: [], approvals: [], notices: [], reverts: [], hasEarlier: false };
}
