// The messages and the view state that the extension host and the webview exchange.

import type { Effort, Mode, PromptBlock, Range, RevertConflict, RevertedFile, SessionInfo } from "./protocol";
import type { ChatItem, ChatState } from "./state";

export interface Connection {
  state: "starting" | "ready" | "waiting" | "failed";
  /** Process id of the connected server. */
  serverPid?: number | undefined;
  /** Connected, but not responding. */
  isSilent?: boolean | undefined;
  message?: string | undefined;
  /** Time of the next start attempt, in ms since the Unix epoch. */
  retryAt?: number | undefined;
  /** What the user can do. */
  remedy?: "missing" | "version" | "start" | undefined;
}

/** Server capabilities. The UI hides what is missing. */
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
  mcp: boolean;
}

/** The preview of a revert or redo that needs confirmation. */
export interface RevertPreview {
  sessionId: string;
  turnId: string;
  redo: boolean;
  turns: number;
  /** The first files. `fileCount` is the total. */
  files: RevertedFile[];
  fileCount: number;
  conflicts: RevertConflict[];
  conflictCount: number;
}

export interface ReviewSummary {
  /** Empty if the review equals the proposal. */
  difference: string;
}

export interface QueueEdit {
  promptId: string;
  text: string;
}

export interface ShownAgent {
  name: string;
  mode: Mode;
  model?: string | undefined;
  /** Whether other agents can be selected. */
  hasAlternatives: boolean;
}

/** The user's settings for a session. An effort of `null` selects the provider's default. */
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

/** The file or selection that one click attaches. */
export interface ActiveContext {
  label: string;
  block: PromptBlock;
}

/** The result of checking an API key. */
export interface KeyCheck {
  provider: string;
  result: "asking" | "works" | "refused" | "untried";
  /** From the provider or the server. */
  message?: string | undefined;
}

/** A session that another server holds, so it is read-only here. */
export interface LockedSession {
  sessionId: string;
  /** Name of the holder. */
  holder: string;
  /** Process id of the holder's server, if known. */
  pid?: number | undefined;
}

/** A prompt that the agent has not taken yet. */
export interface PendingPrompt {
  id: number;
  text: string;
  /** Labels of the attachments. */
  attached: string[];
  /** Sent to the running turn. */
  steer: boolean;
}

/** A problem that concerns the whole server. */
export interface ServerProblem {
  message: string;
  /** In the configuration: the file, as a path, and the line and column from 1, 0 if unknown. */
  place?: { file: string; line: number; column: number } | undefined;
  severity: "error" | "warning";
}

export interface ProblemList {
  problems: readonly ServerProblem[];
  /** Number of problems that the server did not list. */
  unlisted: number;
}

export const NO_PROBLEMS: ProblemList = { problems: [], unlisted: 0 };

/** Everything that the webview draws. */
export interface ViewState {
  connection: Connection;
  capabilities: Capabilities;
  /** The shown session. Undefined on the start page. */
  chat?: ChatState | undefined;
  isLoading: boolean;
  /** The session that is shown or being loaded. Its input is shown already. */
  openingSession?: string | undefined;
  nextSession: SessionChoice & { agent?: string | undefined };
  /** The user's last choices. The server uses them where `nextSession` is not set. */
  lastChoice: SessionChoice;
  agent?: ShownAgent | undefined;
  locked?: LockedSession | undefined;
  pendingRevert?: RevertPreview | undefined;
  queueEdit?: QueueEdit | undefined;
  defaultModel?: string | undefined;
  /** Set while the list is shown. */
  sessionList?: SessionList | undefined;
  activeContext?: ActiveContext | undefined;
  /** Number of open questions in other sessions. */
  pendingElsewhere: number;
  /** Number of open questions in all sessions of this window. */
  openRequestCount: number;
  /** Sessions with an open question, also those of earlier windows. */
  waitingSessions: readonly string[];
  /** Review differences by approval id. */
  reviews: Readonly<Record<string, ReviewSummary>>;
  /** Describes the last answer to an approval, until the next prompt. */
  lastAnswer?: string | undefined;
  /** What is wrong in the configuration and on the server, until it is fixed. */
  warnings: ProblemList;
  /** The user closed the line about these warnings. */
  areWarningsDismissed: boolean;
  /** Describes the last failed request. */
  error?: string | undefined;
  /** Kept until the next prompt. */
  keyCheck?: KeyCheck | undefined;
  /** Sent, but not in the session yet. */
  pendingPrompts?: readonly PendingPrompt[] | undefined;
  /** A prompt was sent, but its turn has not started. */
  isSending: boolean;
  /** Stop was pressed, but the turn has not ended. */
  isStopping: boolean;
}

export interface Attachment {
  label: string;
  detail?: string | undefined;
  kind: "file" | "symbol" | "selection" | "diagnostic" | "image";
  block: PromptBlock;
}

export interface CommandSuggestion {
  label: string;
  detail?: string | undefined;
  kind: "command";
  /** A command of the editor, which runs at once. Without it, the label is the start of a prompt. */
  run?: ViewCommand | undefined;
}

export type Suggestion = Attachment | CommandSuggestion;

/** One change of the view state. */
export type ViewOp =
  /** Sets a field of the view state other than `chat`. */
  | { op: "set"; key: Exclude<keyof ViewState, "chat">; value: unknown }
  | { op: "chat"; chat: ChatState | undefined }
  /** Sets a field of the session other than `items`. Without `value`, clears it. */
  | { op: "field"; key: Exclude<keyof ChatState, "items">; value?: unknown }
  /** Replaces an item, or appends a new one. */
  | { op: "item"; item: ChatItem }
  /** Appends text to an item's field, after dropping `drop` characters at its start. */
  | { op: "grow"; key: string; field: "text" | "reasoning" | "live"; text: string; drop: number }
  | { op: "remove"; key: string };

export type HostMessage =
  | { type: "snapshot"; view: ViewState }
  /** Items before those of the snapshot. */
  | { type: "before"; items: readonly ChatItem[] }
  /** At most one per frame. The webview answers with `drawn`. */
  | { type: "patch"; ops: ViewOp[] }
  /** `problem`: why the search failed. */
  | { type: "suggestions"; id: number; items: Suggestion[]; problem?: string }
  /**
   * Fills the input of a session; without an id, of the shown one. `isWanted`: the user asked for it, so it also gets
   * the focus.
   */
  | {
      type: "compose";
      session?: string | undefined;
      text?: string | undefined;
      attach?: Attachment[] | undefined;
      replace: boolean;
      isWanted: boolean;
    }
  /** Attachments by session id, after the webview reloads. */
  | { type: "attached"; bySession: Readonly<Record<string, Attachment[]>> }
  /** Scrolls to the first open question. */
  | { type: "showOpenQuestion" }
  /** The review of an approval closed, and the focus goes back to where it was opened from. */
  | { type: "returnFocus"; approvalId: string; isDecided: boolean }
  /** An answer was not accepted, so the question is still open. */
  | { type: "reopenQuestion"; approvalId: string }
  /** An editor key for the first or the focused question. `reviewedId` is the approval whose review is active. */
  | { type: "answerVisible"; action: "allow" | "deny" | "diff"; reviewedId?: string | undefined };

export type ViewMessage =
  | { type: "ready" }
  | { type: "drawn" }
  /** With `isQueued`, the prompt waits in the queue. */
  | { type: "send"; text: string; attach: Attachment[]; isQueued: boolean }
  /** Attachments that are not sent yet. The webview can disappear at any time. */
  | { type: "attached"; session: string; attach: Attachment[] }
  /** Files were dragged from VS Code. */
  | { type: "dropped"; uris: string[] }
  | { type: "cancel" }
  | { type: "resume" }
  /** `sign` selects attachments or commands. */
  | { type: "suggest"; id: number; sign: "@" | "/"; query: string }
  | {
      type: "approve";
      approvalId: string;
      decision: "allow" | "allowSession" | "allowAlways" | "deny";
      feedback?: string | undefined;
      /** As JSON. */
      input?: string | undefined;
      rule?: string | undefined;
    }
  | { type: "limit"; limitId: string; raiseBy?: number | undefined; stop: boolean }
  | { type: "question"; questionId: string; answers?: Record<string, string[]> | undefined }
  | { type: "showPendingSession" }
  | { type: "takeOver" }
  /** `isFromChat`: the webview has the focus, and gets it back when the review closes. */
  | { type: "review"; approvalId: string; isFromChat: boolean }
  | { type: "discardReview"; approvalId: string }
  /** Opens a text in an editor. With `ref`, reads the full text first. */
  | { type: "openText"; title: string; text: string; ref?: string | undefined }
  | { type: "openDiff"; toolCallId: string }
  /** Without a path, opens all files of the turn. */
  | { type: "openChanges"; turnId: string; path?: string | undefined }
  /** Previews a revert. `confirmRevert` applies it. */
  | { type: "previewRevert"; turnId: string; redo: boolean }
  | { type: "confirmRevert" }
  | { type: "cancelRevert" }
  | { type: "fork"; turnId: string }
  | { type: "queue"; action: "edit" | "save" | "remove" | "sendNow"; promptId: string; text?: string | undefined }
  | { type: "stopEditing" }
  | { type: "openFile"; uri: string; line?: number | undefined }
  | { type: "openPath"; path: string; line?: number | undefined }
  | { type: "openLink"; href: string }
  | { type: "copy"; text: string }
  | { type: "insert"; text: string }
  | { type: "sessions"; show: boolean; query?: string | undefined }
  | { type: "loadMoreSessions" }
  | { type: "openSession"; sessionId: string }
  | { type: "renameSession"; sessionId: string; title: string }
  | { type: "deleteSession"; sessionId: string; title: string }
  | { type: "loadEarlier" }
  | { type: "dismissError" }
  | { type: "dismissWarnings" }
  /** Shows the problems of the configuration in the editor's own list. */
  | { type: "showProblems" }
  /** Runs a command by its id without the prefix. */
  | { type: "command"; name: ViewCommand };

/** Commands that the webview can run. */
export type ViewCommand =
  | "newSession"
  | "sessions"
  | "renameSession"
  | "compact"
  | "changes"
  | "revert"
  | "fork"
  | "exportSession"
  | "mcpServers"
  | "grants"
  | "trust"
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

/** Returns what the shown session uses, or the next one will use. */
export function getCurrentChoice({ chat, nextSession, lastChoice, agent, defaultModel }: ViewState): SessionChoice {
  return {
    mode: chat?.mode ?? nextSession.mode ?? lastChoice.mode ?? agent?.mode,
    model: chat?.model ?? nextSession.model ?? lastChoice.model ?? agent?.model ?? defaultModel,
    effort: chat ? chat.effort : nextSession.effort === undefined ? lastChoice.effort : nextSession.effort,
  };
}

export const TURN_RUNNING_MESSAGE = "A turn is running. Revert or redo after it ends.";

export function formatLineRange(range: Range): string {
  const first = range.start.line + 1;
  const last = range.end.character === 0 && range.end.line > range.start.line ? range.end.line : range.end.line + 1;
  return last > first ? `:${first}-${last}` : `:${first}`;
}

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
