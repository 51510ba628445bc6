// What the extension host and the page of the view say to each other. Both sides use these types.

import type { Effort, Mode, PromptBlock, Range, RevertConflict, RevertedFile, SessionInfo } from "./protocol";
import type { ChatItem, ChatState } from "./state";

/** How it stands with the server. */
export interface Connection {
  state: "starting" | "ready" | "waiting" | "failed";
  /** It is connected and does not answer. */
  isSilent?: boolean | undefined;
  /** Why it is not ready, for people. */
  message?: string | undefined;
  /** When the next start is tried, in ms since the Unix epoch. */
  retryAt?: number | undefined;
  /** What a person can do about it. */
  remedy?: "missing" | "version" | "start" | undefined;
}

/** What the server offers; what it does not is left out of sight. */
export interface Capabilities {
  images: boolean;
  steer: boolean;
  compact: boolean;
  circuits: boolean;
  credentials: boolean;
  limits: boolean;
  questions: boolean;
  queue: boolean;
  revert: boolean;
  fork: boolean;
  exports: boolean;
  agents: boolean;
  commands: boolean;
  trust: boolean;
}

/** A revert, or a redo, that waits for the person's yes: what it would do. */
export interface RevertPreview {
  sessionId: string;
  turnId: string;
  redo: boolean;
  /** How many turns it concerns. */
  turns: number;
  /** The first ones, and how many there are in all. */
  files: RevertedFile[];
  fileCount: number;
  conflicts: RevertConflict[];
  conflictCount: number;
}

/** What the card says about the review of its call. */
export interface ReviewSummary {
  /** How the review differs from the proposal; empty if it does not. */
  difference: string;
}

/** A queued prompt that is being edited. */
export interface QueueEdit {
  promptId: string;
  text: string;
}

/** The agent of the session, or of the next one. */
export interface ShownAgent {
  name: string;
  mode: Mode;
  model?: string | undefined;
  /** Whether there are others to choose. */
  hasAlternatives: boolean;
}

/** What a person chooses for a session; `null`: the provider's own effort. */
export interface SessionChoice {
  mode?: Mode | undefined;
  model?: string | undefined;
  effort?: Effort | null | undefined;
}

export interface SessionList {
  query: string;
  sessions: SessionInfo[];
  hasMore: boolean;
  isLoading: boolean;
  error?: string | undefined;
}

/** The file or selection in the editor that a click attaches. */
export interface ActiveContext {
  label: string;
  block: PromptBlock;
}

/** What came of a key that a person has entered. */
export interface KeyCheck {
  provider: string;
  result: "asking" | "works" | "refused" | "untried";
  /** In the provider's words, or the server's. */
  message?: string | undefined;
}

/** A session that another server has: here it can only be read. */
export interface LockedSession {
  sessionId: string;
  /** Who has it, for people. */
  holder: string;
  /** The server that has it, where that is known. */
  pid?: number | undefined;
}

/** What was sent and the agent has not taken yet. */
export interface PendingPrompt {
  id: number;
  text: string;
  /** The labels of what is attached. */
  attached: string[];
  /** It goes to the turn that runs. */
  steer: boolean;
}

/** All that the view draws. */
export interface ViewState {
  connection: Connection;
  capabilities: Capabilities;
  /** The session that is shown; without one, the place to begin. */
  chat?: ChatState | undefined;
  /** A session is being loaded. */
  isLoading: boolean;
  /** What the next session begins with. */
  nextSession: SessionChoice & { agent?: string | undefined };
  /** What the person chose last, which the server takes where nothing is chosen for the next session. */
  lastChoice: SessionChoice;
  agent?: ShownAgent | undefined;
  locked?: LockedSession | undefined;
  pendingRevert?: RevertPreview | undefined;
  queueEdit?: QueueEdit | undefined;
  /** The model that is taken when none is chosen. */
  defaultModel?: string | undefined;
  /** The list of sessions, while it is shown. */
  sessionList?: SessionList | undefined;
  activeContext?: ActiveContext | undefined;
  /** How many questions wait in sessions that are not shown. */
  pendingElsewhere: number;
  /** How reviews differ from their proposals, by the ids of the approvals. */
  reviews: Readonly<Record<string, ReviewSummary>>;
  /** What the last answer to an approval did, for people; until the next prompt. */
  lastAnswer?: string | undefined;
  /** Warnings of the server as a whole. */
  warnings: string[];
  /** A request that was refused, for people. */
  error?: string | undefined;
  /** The key that was entered last, until the next prompt. */
  keyCheck?: KeyCheck | undefined;
  /** What was sent and is not in the session yet. */
  pendingPrompts?: readonly PendingPrompt[] | undefined;
  /** A prompt was sent and its turn has not begun. */
  isSending: boolean;
  /** Stop was pressed and the turn has not ended. */
  isStopping: boolean;
}

/** What can be attached to a prompt. */
export interface Attachment {
  label: string;
  detail?: string | undefined;
  kind: "file" | "symbol" | "selection" | "diagnostic" | "image";
  block: PromptBlock;
}

/** A slash command that begins with what was typed. */
export interface CommandSuggestion {
  label: string;
  detail?: string | undefined;
  kind: "command";
}

export type Suggestion = Attachment | CommandSuggestion;

/** One change of what the view has. */
export type ViewOp =
  /** A field of the view's state, but `chat`. */
  | { op: "set"; key: Exclude<keyof ViewState, "chat">; value: unknown }
  /** Another session, or none. */
  | { op: "chat"; chat: ChatState | undefined }
  /** A field of the session, but `items`; without `value` it is not set any more. */
  | { op: "field"; key: Exclude<keyof ChatState, "items">; value?: unknown }
  /** An item that is new or changed; a new one stands at the end. */
  | { op: "item"; item: ChatItem }
  /** A text of an item grew; `drop` characters at its beginning go. */
  | { op: "grow"; key: string; field: "text" | "reasoning" | "live"; text: string; drop: number }
  | { op: "remove"; key: string };

export type HostMessage =
  | { type: "snapshot"; view: ViewState }
  /** What comes before the items of the snapshot. */
  | { type: "before"; items: readonly ChatItem[] }
  /** One a frame; answered by `drawn` before the next is sent. */
  | { type: "patch"; ops: ViewOp[] }
  | { type: "suggestions"; id: number; items: Suggestion[] }
  /** Puts text and attachments into the input and the focus there. */
  | { type: "compose"; text?: string | undefined; attach?: Attachment[] | undefined; replace: boolean }
  /** What was attached in the sessions before the page went, by their ids. */
  | { type: "attached"; bySession: Readonly<Record<string, Attachment[]>> }
  /** Puts the focus on the first open question. */
  | { type: "showAsked" }
  /** An answer was not taken: the question can be answered again. */
  | { type: "stillOpen"; approvalId: string }
  /**
   * A key of the editor answers, or reviews, the question that the page shows; if none is in sight, the page shows the
   * first one. `reviewed`: the approval whose review is in the active editor.
   */
  | { type: "answerShown"; action: "allow" | "deny" | "diff"; reviewed?: string | undefined };

export type ViewMessage =
  | { type: "ready" }
  | { type: "drawn" }
  /** `later`: waits in the queue for the turn's end. */
  | { type: "send"; text: string; attach: Attachment[]; later: boolean }
  /** What is attached and not sent; the page may go at any time. */
  | { type: "attached"; session: string; attach: Attachment[] }
  /** Files of the editor were dropped on the chat. */
  | { type: "dropped"; uris: string[] }
  | { type: "cancel" }
  | { type: "resume" }
  /** `sign`: what stands before the query and says what is looked for. */
  | { type: "suggest"; id: number; sign: "@" | "/"; query: string }
  | {
      type: "approve";
      approvalId: string;
      decision: "allow" | "allowSession" | "allowAlways" | "deny";
      feedback?: string | undefined;
      /** Edited arguments, as JSON. */
      input?: string | undefined;
      rule?: string | undefined;
    }
  | { type: "limit"; limitId: string; raiseBy?: number | undefined; stop: boolean }
  | { type: "question"; questionId: string; answers?: Record<string, string[]> | undefined }
  /** Shows the session that asks while another is shown. */
  | { type: "showElsewhere" }
  /** Takes the session that is shown from the server that has it. */
  | { type: "takeOver" }
  | { type: "review"; approvalId: string }
  /** Drops the changes that were made in the review. */
  | { type: "discardReview"; approvalId: string }
  /** Shows the whole of a field that was cut, or a text, in an editor. */
  | { type: "openText"; title: string; text: string; ref?: string | undefined }
  | { type: "openDiff"; toolCallId: string }
  /** Without a path: of all files of the turn. */
  | { type: "openChanges"; turnId: string; path?: string | undefined }
  /** Asks what a revert would do; `doRevert` does it. */
  | { type: "askRevert"; turnId: string; redo: boolean }
  | { type: "doRevert" }
  | { type: "dropRevert" }
  | { type: "fork"; turnId: string }
  | { type: "queue"; action: "edit" | "save" | "remove" | "sendNow"; promptId: string; text?: string | undefined }
  | { type: "stopEditing" }
  | { type: "openFile"; uri: string; line?: number | undefined }
  | { type: "openPath"; path: string; line?: number | undefined }
  | { type: "openLink"; href: string }
  | { type: "copy"; text: string }
  | { type: "insert"; text: string }
  | { type: "sessions"; show: boolean; query?: string | undefined }
  | { type: "moreSessions" }
  | { type: "openSession"; sessionId: string }
  | { type: "renameSession"; sessionId: string; title: string }
  | { type: "deleteSession"; sessionId: string; title: string }
  | { type: "earlier" }
  | { type: "dismissTrouble" }
  /** One of the extension's commands, by the end of its name. */
  | { type: "command"; name: ViewCommand };

/** Commands that the page may ask for. */
export type ViewCommand =
  | "newSession"
  | "selectMode"
  | "selectModel"
  | "selectEffort"
  | "selectAgent"
  | "restart"
  | "showLog"
  | "enterKey"
  | "openServerPath"
  | "openOllama"
  | "openConfig"
  | "resetCircuit"
  | "walkthrough"
  | "retry";

/** Why nothing is put back now, where a turn runs. */
export const TURN_RUNNING_MESSAGE = "A turn is running. Revert or redo after it ends.";

/** A range of lines as people write it. */
export function formatLineRange(range: Range): string {
  const first = range.start.line + 1;
  const last = range.end.character === 0 && range.end.line > range.start.line ? range.end.line : range.end.line + 1;
  return last > first ? `:${first}-${last}` : `:${first}`;
}

/** What came of a key, for people. */
export function describeKeyCheck({ provider, result, message }: KeyCheck): string {
  switch (result) {
    case "asking":
      return `Checking the key with ${provider}…`;
    case "works":
      return `The key works: ${provider} accepted it.`;
    case "refused":
      return `Rejected by ${provider}: ${message ?? "no reason given"}`;
    case "untried":
      return `The key for ${provider} is saved. ${message ?? "It was not checked."}`;
  }
}
