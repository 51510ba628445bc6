// What a session is made of, as the chat shows it: items from top to bottom, notices that pass, and what is known of
// the whole. Types only; how they change is said in ../state.ts.

import type {
  ApprovalRequestedNotification,
  ApprovalResolvedNotification,
  CircuitSubject,
  Effort,
  ErrorData,
  FileDiff,
  InstructionFile,
  LimitRequestedNotification,
  LimitResolvedNotification,
  Location,
  Mode,
  More,
  PlanItem,
  QuestionRequestedNotification,
  QuestionResolvedNotification,
  QueueState,
  Standing,
  TerminalReason,
  TokenUsage,
  ToolCallStatus,
  TurnState,
} from "../protocol";

/** A notification of the server, as it came. */
export interface AgentEvent {
  method: string;
  params: unknown;
}

interface BaseItem {
  /** Unique among items of one kind. */
  id: string;
  turnId?: string | undefined;
  /** The call that delegated to the sub-agent which it is of. */
  parentToolCallId?: string | undefined;
}

export interface UserItem extends BaseItem {
  kind: "user";
  text: string;
  /** Files and ranges, as people write them. */
  references: string[];
  images: number;
  /** Said while the turn was running. */
  steer: boolean;
}

export interface AssistantItem extends BaseItem {
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

export interface ToolItem extends BaseItem {
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
  /** How a command ended. */
  exitCode?: number | undefined;
  /** When it began to run, in ms since the Unix epoch. */
  runningSince?: number | undefined;
  more?: Record<string, More> | undefined;
  /** The question that is open about it. */
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
  asked: LimitRequestedNotification;
  resolved?: LimitResolvedNotification | undefined;
}

export interface QuestionItem extends BaseItem {
  kind: "question";
  asked: QuestionRequestedNotification;
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

/** What a turn has changed; its id is the turn's. */
export interface ChangesItem extends BaseItem {
  kind: "changes";
  /** The number of the event that told of it. */
  seq: number;
  files: FileDiff[];
  /** How many more there are that are not listed. */
  unlisted?: number | undefined;
  /** Commands may have changed more. */
  partial?: boolean | undefined;
  standing: Standing;
  /** While it is taken back: the turn whose revert took it along. */
  revertedWith?: string | undefined;
  /** While it is taken back: the files that the revert left as they were. */
  unrevertedPaths?: readonly string[] | undefined;
}

/** The files of instructions that the agent has from here on. */
export interface InstructionsItem extends BaseItem {
  kind: "instructions";
  files: InstructionFile[];
  leftOut?: number | undefined;
}

/** What stands in the chat, from top to bottom. */
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

/** Something that passes: shown beside the text, and gone when it is resolved. */
export interface Notice {
  /** One notice a key. */
  key: string;
  kind: "retry" | "wait" | "switched" | "compacted" | "circuit" | "retracted" | "transition";
  text: string;
  /** What follows if it does not help. */
  next?: string | undefined;
  /** When it ends, in ms since the Unix epoch. */
  endsAt?: number | undefined;
  /** The call that delegated to the sub-agent which it is of. */
  parent?: string | undefined;
  /** The circuit that it is about. */
  circuit?: { subject: CircuitSubject; name: string } | undefined;
}

/** A turn that was taken back with all later ones, or made again. */
export interface RevertRecord {
  turnId: string;
  /** The number of the event that told of it. */
  seq: number;
  standing: Standing;
  /** The files it concerned; not known when not all were listed. */
  paths?: readonly string[] | undefined;
}

export type TurnActivity = "thinking" | "answering" | "calling" | "tool";

export interface ChatState {
  sessionId: string;
  /** The number of the last event that was applied; 0 before the first. */
  seq: number;
  items: readonly ChatItem[];
  /** Open ones, oldest first. */
  approvals: readonly ApprovalRequestedNotification[];
  notices: readonly Notice[];
  /** What was taken back and made again, oldest first. */
  reverts: readonly RevertRecord[];
  /** The prompts that wait for the turn's end, when there are any. */
  queue?: QueueState | undefined;
  /** The turn that is running. */
  running?: string | undefined;
  startedAt?: number | undefined;
  activity?: TurnActivity | undefined;
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
  unusedSteerText?: string | undefined;
}

export function createChatState(sessionId: string): ChatState {
  return { sessionId, seq: 0, items: [], approvals: [], notices: [], reverts: [], hasEarlier: false };
}
