// Generated from the server's wire types by `UPDATE_PROTOCOL=1 cargo test --test generated`.
// Change those, not this file.

/** The protocol's version. A server with another `major` cannot be talked to. */
export const protocolVersion = { major: 1, minor: 0 } as const;

/** The keys that answer an approval, in every client. */
export const approvalKeys = [
  { key: "y", action: "allow", label: "Allow" },
  { key: "n", action: "deny", label: "Deny" },
  { key: "s", action: "allowSession", label: "Allow for this session" },
  { key: "a", action: "allowAlways", label: "Always allow" },
  { key: "e", action: "edit", label: "Edit" },
  { key: "d", action: "diff", label: "Show diff" },
] as const;

/** Requests, client to server. */
export const requests = {
  /** Starts a session. Waits for no network. */
  newSession: "agent/newSession",
  /** Starts a turn. Answered when the turn has ended. */
  prompt: "agent/prompt",
  /**
   * Talks to the running turn: joins the history before the next model call, and keeps the turn
   * going.
   */
  steer: "agent/steer",
  /**
   * Prompts that wait for the turn's end: told, added, edited, taken out, sent now. At most 100
   * wait; they outlive the server.
   */
  queue: "agent/queue",
  /**
   * Starts a new turn that goes on where an interrupted or cancelled one stopped. Open approvals,
   * limits and questions are asked again under their ids. Answered like `agent/prompt`.
   */
  resumeTurn: "agent/resumeTurn",
  /**
   * Starts a turn that does nothing but make smaller what the model is sent: a summary takes the
   * place of old messages. Answered like `agent/prompt`.
   */
  compact: "agent/compact",
  /** Decides an approval. The first answer wins; an unknown or settled id is an error. */
  approvalRespond: "agent/approvalRespond",
  /** Says what becomes of a limit. The first answer wins; an unknown or settled id is an error. */
  limitRespond: "agent/limitRespond",
  /**
   * Answers a question of the agent. The first answer wins; an unknown or settled id is an error.
   */
  questionRespond: "agent/questionRespond",
  /** Lists what waits for a person: approvals, limits, questions. */
  listApprovals: "agent/listApprovals",
  /** Lists what was allowed beyond one call. */
  listGrants: "agent/listGrants",
  /** Takes back what was allowed. */
  revokeGrant: "agent/revokeGrant",
  /** Lists or searches sessions, those used last first. */
  listSessions: "agent/listSessions",
  /**
   * Opens a session: a page of its events, and what is open in it. Its notifications follow from
   * then on.
   */
  loadSession: "agent/loadSession",
  /** Gives a session another title. */
  renameSession: "agent/renameSession",
  /**
   * Makes a new session of what a session has up to the end of a turn. What was allowed for the
   * session alone is not taken along.
   */
  forkSession: "agent/forkSession",
  /** Tells all of a session as one text. */
  exportSession: "agent/exportSession",
  /** Deletes a session for good. */
  deleteSession: "agent/deleteSession",
  /**
   * Puts the files of a turn and of all later ones back as they were before it, but none that
   * people changed since; or takes such a revert back. An error while a turn runs.
   */
  revert: "agent/revert",
  /** Sets how freely the agent may act. */
  setMode: "agent/setMode",
  /**
   * Sets the model and how hard it thinks. A name that cannot be a model is an error that names the
   * nearest ones.
   */
  setModel: "agent/setModel",
  /**
   * Lists what a folder's own files would activate, and where they would send keys of the person's.
   * Reads only: it starts and changes nothing.
   */
  describeTrust: "agent/describeTrust",
  /** Says whether a workspace folder is trusted, and which redirects of its are accepted. */
  setTrust: "agent/setTrust",
  /** Lists the models that can be chosen, and the providers with their health. */
  listModels: "agent/listModels",
  /** Lists the named agents of the configuration. */
  listAgents: "agent/listAgents",
  /** Lists the slash commands: prompts from the person's and the workspace's files. */
  listCommands: "agent/listCommands",
  /** Lists the tools. */
  listTools: "agent/listTools",
  /** Reads on where a field was cut. */
  readContent: "agent/readContent",
  /** Tells what the server has counted since it started. */
  metrics: "agent/metrics",
  /** Closes a circuit by hand: the provider or the tool is called again at once. */
  resetCircuit: "agent/resetCircuit",
  /** Reads the configuration files again. */
  reloadConfig: "agent/reloadConfig",
} as const;

/** Notifications, client to server. */
export const clientNotifications = {
  /** Cancels the running turn. Without one, or with another `turnId`, it does nothing. */
  cancel: "agent/cancel",
} as const;

/** Requests, server to client. */
export const serverRequests = {
  /**
   * Asks for documents to be saved, after an edit of one that had no unsaved change, so that
   * commands see it. Only where the client announced `saveDocuments`. Unanswered after 10 s it
   * counts as failed.
   */
  saveDocuments: "agent/saveDocuments",
  /**
   * Asks for the API key of a provider that has none in the configuration and the environment. Only
   * where the client announced `getCredential`. Unanswered after 10 s there is none. The key is
   * kept in memory alone and is asked for again after `agent/reloadConfig`, or when the provider
   * refused it; that there is none is remembered until `agent/reloadConfig`.
   */
  getCredential: "agent/getCredential",
  /**
   * Asks what the client's compilers and linters say, of one document or of all. Only where the
   * client announced `getDiagnostics`. Unanswered after 10 s the call of the tool has failed.
   */
  getDiagnostics: "agent/getDiagnostics",
} as const;

/** Notifications, server to client. */
export const serverNotifications = {
  /** A turn began. */
  turnStarted: "agent/turnStarted",
  /** A turn ended: exactly one per turn, and the last of its turn. */
  turnEnded: "agent/turnEnded",
  /** Text of a message in progress. */
  textDelta: "agent/textDelta",
  /** Reasoning of a message in progress. */
  reasoningDelta: "agent/reasoningDelta",
  /** A message of the history, completed or cut. */
  message: "agent/message",
  /**
   * What was shown of a broken attempt is void: clients take it off the screen. The next attempt
   * has a new `messageId`. Unknown ids are ignored.
   */
  messageRetracted: "agent/messageRetracted",
  /** A tool call's input as the model writes it. */
  toolInputDelta: "agent/toolInputDelta",
  /** Live output of a running tool. */
  toolOutputDelta: "agent/toolOutputDelta",
  /** A tool call changed. */
  toolCall: "agent/toolCall",
  /** A person is asked about an effect. */
  approvalRequested: "agent/approvalRequested",
  /** The question is settled. */
  approvalResolved: "agent/approvalResolved",
  /**
   * A limit was reached, or a limit in money meets an unknown price: it may be raised. Only where
   * the client announced `questions`.
   */
  limitRequested: "agent/limitRequested",
  /** What became of it. */
  limitResolved: "agent/limitResolved",
  /** A question of the agent. Only where the client announced `questions`. */
  questionRequested: "agent/questionRequested",
  /** The question is settled. */
  questionResolved: "agent/questionResolved",
  /** The plan, whole. */
  plan: "agent/plan",
  /**
   * What a turn has changed, file by file: at its end, and when that was taken back or made again.
   */
  turnDiff: "agent/turnDiff",
  /** A decision of the loop. */
  transition: "agent/transition",
  /** A provider call failed and will be made again. */
  retry: "agent/retry",
  /** The turn waits for something that is not an error. */
  wait: "agent/wait",
  /** What the model is sent became smaller; what is kept did not. */
  compacted: "agent/compacted",
  /**
   * Another model answers from now on: the next of the route took over, or the first is asked
   * again.
   */
  modelSwitched: "agent/modelSwitched",
  /** The turn met a circuit that is open, on trial, or closed again. */
  circuit: "agent/circuit",
  /** Tokens and cost after a step. */
  usage: "agent/usage",
  /**
   * Something that a person should know. One that concerns the server as a whole has no session, is
   * not numbered, and stands in `agent/status` too.
   */
  warning: "agent/warning",
  /** The session's own data changed; only what changed is set. */
  sessionUpdated: "agent/sessionUpdated",
  /**
   * Which files of instructions (`SOUL.md`, `AGENTS.md`, `TOOLS.md`, skills) the agent was given:
   * at a session's first turn that has any, and whenever one of them has changed.
   */
  instructions: "agent/instructions",
  /** The server as a whole, for a status bar. */
  status: "agent/status",
} as const;

/** Params and result of each request. */
export interface RequestTypes {
  "agent/newSession": { params: NewSessionParams; result: NewSessionResult };
  "agent/prompt": { params: PromptParams; result: PromptResult };
  "agent/steer": { params: SteerParams; result: SteerResult };
  "agent/queue": { params: QueueParams; result: QueueResult };
  "agent/resumeTurn": { params: ResumeTurnParams; result: PromptResult };
  "agent/compact": { params: CompactParams; result: PromptResult };
  "agent/approvalRespond": { params: ApprovalRespondParams; result: EmptyResult };
  "agent/limitRespond": { params: LimitRespondParams; result: EmptyResult };
  "agent/questionRespond": { params: QuestionRespondParams; result: EmptyResult };
  "agent/listApprovals": { params: ListApprovalsParams; result: ListApprovalsResult };
  "agent/listGrants": { params: ListGrantsParams; result: ListGrantsResult };
  "agent/revokeGrant": { params: RevokeGrantParams; result: EmptyResult };
  "agent/listSessions": { params: ListSessionsParams; result: ListSessionsResult };
  "agent/loadSession": { params: LoadSessionParams; result: LoadSessionResult };
  "agent/renameSession": { params: RenameSessionParams; result: EmptyResult };
  "agent/forkSession": { params: ForkSessionParams; result: ForkSessionResult };
  "agent/exportSession": { params: ExportSessionParams; result: ExportSessionResult };
  "agent/deleteSession": { params: DeleteSessionParams; result: EmptyResult };
  "agent/revert": { params: RevertParams; result: RevertResult };
  "agent/setMode": { params: SetModeParams; result: EmptyResult };
  "agent/setModel": { params: SetModelParams; result: EmptyResult };
  "agent/describeTrust": { params: DescribeTrustParams; result: DescribeTrustResult };
  "agent/setTrust": { params: SetTrustParams; result: EmptyResult };
  "agent/listModels": { params: ListModelsParams; result: ListModelsResult };
  "agent/listAgents": { params: ListAgentsParams; result: ListAgentsResult };
  "agent/listCommands": { params: ListCommandsParams; result: ListCommandsResult };
  "agent/listTools": { params: ListToolsParams; result: ListToolsResult };
  "agent/readContent": { params: ReadContentParams; result: ReadContentResult };
  "agent/metrics": { params: MetricsParams; result: MetricsResult };
  "agent/resetCircuit": { params: ResetCircuitParams; result: ResetCircuitResult };
  "agent/reloadConfig": { params: ReloadConfigParams; result: ReloadConfigResult };
}

/** Params of each notification, client to server. */
export interface ClientNotificationTypes {
  "agent/cancel": CancelNotification;
}

/** Params and result of each request, server to client. */
export interface ServerRequestTypes {
  "agent/saveDocuments": { params: SaveDocumentsParams; result: SaveDocumentsResult };
  "agent/getCredential": { params: GetCredentialParams; result: GetCredentialResult };
  "agent/getDiagnostics": { params: GetDiagnosticsParams; result: GetDiagnosticsResult };
}

/** Params of each notification, server to client. */
export interface ServerNotificationTypes {
  "agent/turnStarted": TurnStartedNotification;
  "agent/turnEnded": TurnEndedNotification;
  "agent/textDelta": TextDeltaNotification;
  "agent/reasoningDelta": ReasoningDeltaNotification;
  "agent/message": MessageNotification;
  "agent/messageRetracted": MessageRetractedNotification;
  "agent/toolInputDelta": ToolInputDeltaNotification;
  "agent/toolOutputDelta": ToolOutputDeltaNotification;
  "agent/toolCall": ToolCallNotification;
  "agent/approvalRequested": ApprovalRequestedNotification;
  "agent/approvalResolved": ApprovalResolvedNotification;
  "agent/limitRequested": LimitRequestedNotification;
  "agent/limitResolved": LimitResolvedNotification;
  "agent/questionRequested": QuestionRequestedNotification;
  "agent/questionResolved": QuestionResolvedNotification;
  "agent/plan": PlanNotification;
  "agent/turnDiff": TurnDiffNotification;
  "agent/transition": TransitionNotification;
  "agent/retry": RetryNotification;
  "agent/wait": WaitNotification;
  "agent/compacted": CompactedNotification;
  "agent/modelSwitched": ModelSwitchedNotification;
  "agent/circuit": CircuitNotification;
  "agent/usage": UsageNotification;
  "agent/warning": WarningNotification;
  "agent/sessionUpdated": SessionUpdatedNotification;
  "agent/instructions": InstructionsNotification;
  "agent/status": StatusNotification;
}

/** Any notification of the server: a union that `method` tells apart. */
export type ServerNotification = {
  [M in keyof ServerNotificationTypes]: { method: M; params: ServerNotificationTypes[M] };
}[keyof ServerNotificationTypes];

/** Params of `agent/newSession`. */
export interface NewSessionParams {
  /** An agent of the configuration; absent: `default`. */
  agent?: string;
  /** The folder to work in: a URI or an absolute path; absent: the first workspace folder. */
  cwd?: string;
  /** How hard the model thinks; absent: the provider's default. */
  effort?: Effort;
  /** How freely the agent may act; absent: as configured. */
  mode?: Mode;
  /** A model, as `provider/model`; absent: the agent's. */
  model?: string;
  /**
   * Where model, effort or mode is absent, takes what the person chose last in this workspace. The
   * mode `full` is not remembered.
   */
  remembered?: boolean;
}

/** How hard a model shall think. */
export type Effort =
  /** A little. */
  | "low"
  /** As needed. */
  | "medium"
  /** Long. */
  | "high";

/** How freely the agent may act. */
export type Mode =
  /** Read only. */
  | "plan"
  /** Reads are free; commands, writes and the network ask. */
  | "ask"
  /** Edits inside the workspace are free too. */
  | "autoEdit"
  /** All is free. */
  | "full";

/** Result of `agent/newSession`. */
export interface NewSessionResult {
  /** The session. */
  sessionId: string;
  /** How freely the agent may act. */
  mode: Mode;
  /**
   * The number of the session's last event; 0 when there is none. Notifications go on from there.
   */
  seq: number;
  /** How hard the model thinks; absent: the provider's default. */
  effort?: Effort;
  /** The model; absent until it is known, then `agent/sessionUpdated` tells it. */
  model?: string;
}

/** Params of `agent/prompt`. */
export interface PromptParams {
  /** The session. */
  sessionId: string;
  /** What the person says. */
  prompt: PromptContent;
}

/** What a person says: plain text, or a list of blocks. */
export type PromptContent = string | PromptBlock[];

/** A part of what a person says. */
export type PromptBlock =
  /** Text. */
  | {
      type: "text";
      /** The text. */
      text: string;
    }
  /** A file or a part of it; the server reads it, with the editor's unsaved text. */
  | {
      type: "reference";
      /** The file's URI. */
      uri: string;
      /** The part; absent: the whole file. It is widened to whole lines. */
      range?: Range;
    }
  /** What the person has selected in the editor. */
  | {
      type: "selection";
      /** The file's URI. */
      uri: string;
      /** The selected part. */
      range: Range;
      /** The selected text; absent: the server reads the lines of `range`. */
      text?: string;
    }
  /** A diagnostic that the editor shows. */
  | {
      type: "diagnostic";
      /** The file's URI. */
      uri: string;
      /** The part that it is about. */
      range: Range;
      /** Its message. */
      message: string;
      /** How grave it is. */
      severity?: Severity;
      /** Who found it: a compiler, a linter. */
      source?: string;
    }
  /** A picture. */
  | {
      type: "image";
      /** `image/png`, `image/jpeg`, `image/gif` or `image/webp`. */
      mediaType: string;
      /** The bytes in Base64, with padding, without line breaks. */
      data: string;
    };

/** A part of a document, as in LSP: the end is not in it. */
export interface Range {
  /** Where it begins. */
  start: Position;
  /** The place after its last character. */
  end: Position;
}

/** A place in a document, as in LSP. */
export interface Position {
  /** The line, from 0. */
  line: number;
  /** The character in the line, from 0, in the units of the negotiated position encoding. */
  character: number;
}

/** How grave a diagnostic or a problem is. */
export type Severity =
  /** It is wrong. */
  | "error"
  /** It is doubtful. */
  | "warning"
  /** It is worth knowing. */
  | "information"
  /** It could be better. */
  | "hint";

/**
 * How a turn ended; the answer to `agent/prompt`, `agent/resumeTurn` and `agent/compact`, and the
 * `data` of the error that answers them after `$/cancelRequest`.
 */
export interface PromptResult {
  /** The turn. */
  turnId: string;
  /** Why it ended. */
  reason: TerminalReason;
  /** How it ended, in one word. */
  state: TurnState;
  /** The text of the final answer, whole; empty when there is none. */
  text: string;
  /** The turn's tokens. */
  usage: TokenUsage;
  /** What the turn cost, in US dollars; absent when the model's price is not known. */
  costUsd?: number;
  /** What went wrong. */
  error?: ErrorData;
  /** And after. */
  tokensAfter?: number;
  /**
   * Only of `agent/compact`: tokens of the conversation before, as estimated; absent when nothing
   * was left out.
   */
  tokensBefore?: number;
}

/**
 * An error with all that a client needs to show it and to say what to do. It is the `data` of a
 * JSON-RPC error and the `error` of a turn's end.
 */
export interface ErrorData {
  /** What went wrong, as a stable word. */
  code: ErrorCode;
  /** What went wrong, for people. */
  message: string;
  /** What can be done about it. */
  class: ErrorClass;
  /** How many tries were made. */
  attempts?: number;
  /** What lies behind it. */
  cause?: string;
  /** The parameter that is wrong, with `badParams`. */
  field?: string;
  /** Who holds the session, with `sessionLocked`. */
  holder?: string;
  /** The model's name. */
  model?: string;
  /** The provider's name in the configuration. */
  provider?: string;
  /** Why the request was not accepted; only in the `data` of a JSON-RPC error. */
  refusal?: Refusal;
  /** The provider's id of the request, for its support. */
  requestId?: string;
  /** When a used-up quota is filled again, in ms since the Unix epoch. */
  resetAt?: number;
  /** How long the provider asks to wait, in ms. */
  retryAfterMs?: number;
  /** The HTTP status that the provider answered with. */
  status?: number;
  /** What the person can do; several ways stand on separate lines. */
  userAction?: string;
}

/** What can be done about an error. */
export type ErrorClass =
  /** The same again may succeed. */
  | "retryable"
  /** It will not mend by itself. */
  | "terminal"
  /** The turn went on. */
  | "non_fatal";

/** What went wrong, as a stable word. */
export type ErrorCode =
  /** The limit of steps was reached. */
  | "max_iterations"
  /** The provider's API failed. */
  | "provider_error"
  /** A tool failed, and the policy ends the turn then. */
  | "tool_execution"
  /** The prompt does not fit the model's window. */
  | "context_limit"
  /** A money limit was reached. */
  | "budget_exceeded"
  /** The person cancelled. */
  | "cancelled"
  /** The provider's circuit breaker is open. */
  | "circuit_open"
  /** The provider's quota or credit is used up. */
  | "quota_exhausted"
  /** The model said nothing. */
  | "empty_response"
  /** The limit of tool calls was reached. */
  | "tool_calls_exceeded"
  /** The time limit was reached. */
  | "wall_time_exceeded"
  /** The configuration lacks something or is wrong. */
  | "config"
  /** The session's state does not allow it. */
  | "session"
  /** The request is not what the protocol asks for. */
  | "protocol"
  /** The store could not be read or written. */
  | "store"
  /** A bug of the server. */
  | "internal";

/** Why a request was not accepted, as a stable word that programs may test. */
export type Refusal =
  /** `initialize` and `initialized` come first. */
  | "notInitialized"
  /** The server is ending. */
  | "shuttingDown"
  /** A parameter is missing or wrong; `field` names it. */
  | "badParams"
  /** There is no such session. */
  | "unknownSession"
  /** The session is live in another server; `holder` says which. */
  | "sessionLocked"
  /** The session was loaded with `readOnly`. */
  | "sessionReadOnly"
  /** A turn is running; `agent/steer` talks to it. */
  | "turnRunning"
  /** No turn is running. */
  | "noTurn"
  /** Another turn is running than the request expects. */
  | "staleTurn"
  /** The last turn has nothing to go on with. */
  | "nothingToResume"
  /** There is no such open approval: it is unknown or settled. */
  | "unknownApproval"
  /** There is no such open limit or question: it is unknown or settled. */
  | "unknownQuestion"
  /** There is no such grant. */
  | "unknownGrant"
  /** There is no such model. */
  | "unknownModel"
  /** There is no such agent in the configuration. */
  | "unknownAgent"
  /** There is no circuit of that name. */
  | "unknownCircuit"
  /** There is no content of that name. */
  | "unknownContent"
  /** The session has no such turn. */
  | "unknownTurn"
  /** The turn was not reverted. */
  | "nothingToRedo"
  /** No turn of the session has ended yet. */
  | "nothingToFork"
  /** No prompt of that id waits: it was sent or taken out. */
  | "unknownPrompt"
  /** As many prompts wait as may. */
  | "queueFull";

/** Why a turn has ended. */
export type TerminalReason =
  /** Nothing more to do. */
  | "completed"
  /** The prompt does not fit the window. */
  | "prompt_too_long"
  /** The answer was cut at the output limit; what came is kept. */
  | "max_output_tokens"
  /** The provider failed for good. */
  | "model_error"
  /** The model said nothing. */
  | "empty_response"
  /** The image is still refused. */
  | "image_error"
  /** The model or a filter declined. */
  | "refused"
  /** The person cancelled while the model streamed, or before. */
  | "aborted_streaming"
  /** The person cancelled while tools ran. */
  | "aborted_tools"
  /** A stop hook ended the turn. */
  | "stop_hook_prevented"
  /** A hook ended the turn. */
  | "hook_stopped"
  /** A tool failed, and the policy ends the turn then. */
  | "tool_failed"
  /** A sub-agent failed, and the policy ends the turn then. */
  | "subagent_failed"
  /** Too few sub-agents succeeded. */
  | "join_violated"
  /** The window is full, and nothing may be summarised. */
  | "blocking_limit"
  /** The limit of steps. */
  | "max_turns"
  /** A money limit. */
  | "budget_exceeded"
  /** The limit of tool calls. */
  | "max_tool_calls"
  /** The time limit. */
  | "wall_time"
  /** The person chose to stop at a question. */
  | "stopped_by_user"
  /** There is no provider to ask. */
  | "not_configured"
  /** The store is gone. */
  | "store_failed"
  /** The server ended or crashed. */
  | "server_stopped"
  /** A bug of the server. */
  | "internal_error";

/** How a turn has ended, in one word. */
export type TurnState =
  /** As asked. */
  | "completed"
  /** It could not. */
  | "failed"
  /** There is an answer, but less than was asked for. */
  | "degraded"
  /** Stopped by a limit, by a person's choice at a question, or by the server's end. */
  | "interrupted"
  /** Stopped by the person. */
  | "cancelled";

/** Tokens of one or several model calls. */
export interface TokenUsage {
  /** Input tokens that were neither read from nor written to a prompt cache. */
  inputTokens: number;
  /** Output tokens, reasoning included. */
  outputTokens: number;
  /** Input tokens read from the provider's prompt cache. */
  cacheReadTokens: number;
  /** Input tokens written to the provider's prompt cache. */
  cacheWriteTokens: number;
}

/** Params of `agent/steer`. */
export interface SteerParams {
  /** The session. */
  sessionId: string;
  /** What the person adds. */
  prompt: PromptContent;
  /**
   * The turn that it is meant for; when another or none is running, it is refused. Absent:
   * whichever is running.
   */
  expectedTurnId?: string;
}

/** Result of `agent/steer`. */
export interface SteerResult {
  /** The turn that it joins. */
  turnId: string;
}

/** Params of `agent/queue`. */
export interface QueueParams {
  /** The session. */
  sessionId: string;
  /** What to do. */
  action: QueueAction;
  /** What the person says: needed by `add` and `edit`. */
  prompt?: PromptContent;
  /** Which prompt: needed by `edit` and `remove`. */
  promptId?: string;
}

/** What is done with the queue. */
export type QueueAction =
  /** Nothing: it is only told. */
  | "list"
  /**
   * `prompt` is put at its end. Where no turn is running and nothing waits or is paused, it starts
   * at once.
   */
  | "add"
  /** `prompt` takes the place of the one named by `promptId`. */
  | "edit"
  /** The one named by `promptId` is taken out. */
  | "remove"
  /**
   * The one named by `promptId`, else the next one, is sent now, and the queue goes on from there:
   * while a turn is running as a steer of it, else as a turn of its own. A turn that is being
   * cancelled is waited for.
   */
  | "sendNow";

/** Result of `agent/queue`: what waits after it. */
export interface QueueResult {
  /**
   * Whether nothing of it starts by itself: the last turn was cancelled, failed or was interrupted.
   * `sendNow`, or a later turn that completes, sets it going again.
   */
  paused: boolean;
  /** What waits, the next one first. */
  prompts: QueuedContent[];
  /** The prompt that was added. */
  promptId?: string;
  /** The turn that took the prompt: one that it started, or the running one. */
  turnId?: string;
}

/** A prompt that waits, whole. */
export interface QueuedContent {
  /** What it is edited, removed and sent by. */
  promptId: string;
  /** What the person said. */
  content: MessageBlock[];
}

/** A part of a message in the history. */
export type MessageBlock =
  /** Text: Markdown when the model speaks. */
  | {
      type: "text";
      /** The text. */
      text: string;
      /** Where the whole of a cut field is. */
      more?: Record<string, More>;
    }
  /** The model's reasoning, as far as its provider shows it. */
  | {
      type: "reasoning";
      /** The text; empty when the provider hides it. */
      text: string;
      /** Where the whole of a cut field is. */
      more?: Record<string, More>;
    }
  /** The model asks for a tool. How that goes is told by `agent/toolCall`. */
  | {
      type: "toolUse";
      /** The call. */
      toolCallId: string;
      /** The tool's name. */
      name: string;
      /** Its arguments; long strings in it may be cut. */
      input: unknown;
      /** Where the whole of a cut field is. */
      more?: Record<string, More>;
    }
  /** A tool call has its result; what it is stands in that call's `agent/toolCall`. */
  | {
      type: "toolResult";
      /** The call. */
      toolCallId: string;
      /** Whether the result is an error to the model. */
      isError: boolean;
    }
  /** A picture. */
  | ({ type: "image" } & Image)
  /** Something in a file that the person points at, with the text it had then. */
  | {
      type: "reference";
      /** What it is. */
      kind: ReferenceKind;
      /**
       * The file's path from the session's folder, `rootName/path` in another root, absolute
       * outside of all.
       */
      path: string;
      /** The text, or the diagnostic's message. */
      text: string;
      /** The last line, from 1. */
      endLine?: number;
      /** Where the whole of a cut field is. */
      more?: Record<string, More>;
      /** The first line, from 1; absent: the whole file. */
      startLine?: number;
    };

/** Where the whole of a field is that was cut. */
export interface More {
  /** What `agent/readContent` takes as its `ref`. */
  ref: string;
  /** The length of the whole, in UTF-8 bytes. */
  bytes: number;
  /** The end of the whole, at most 64 KiB; only of output. It never overlaps with the beginning. */
  tail?: string;
}

/** A picture. */
export interface Image {
  /** `image/png`, `image/jpeg`, `image/gif` or `image/webp`. */
  mediaType: string;
  /** The bytes in Base64; absent when they are too long, then `more.data` says where they are. */
  data?: string;
  /** Where the whole of a cut field is. */
  more?: Record<string, More>;
}

/** What a reference points at. */
export type ReferenceKind =
  /** A file or a range of it. */
  | "file"
  /** What the person had selected. */
  | "selection"
  /** A diagnostic of the editor. */
  | "diagnostic";

/** Params of `agent/resumeTurn`. */
export interface ResumeTurnParams {
  /** The session whose last turn was interrupted or cancelled. */
  sessionId: string;
}

/** Params of `agent/compact`. */
export interface CompactParams {
  /** The session. */
  sessionId: string;
  /** What the summary shall keep, for the model that writes it. */
  instructions?: string;
}

/** Params of `agent/approvalRespond`. */
export interface ApprovalRespondParams {
  /** The question. */
  approvalId: string;
  /** What the person decides. */
  decision: Decision;
  /** What the model is told; only with `deny`. */
  feedback?: string;
  /** Edited arguments, whole; not with `deny`. */
  input?: unknown;
  /** The rule to keep instead of the offered one; only with `allowSession` and `allowAlways`. */
  rule?: string;
}

/** What a person decides. */
export type Decision =
  /** This once. */
  | "allow"
  /** For the rest of the session. */
  | "allowSession"
  /** From now on in this workspace. */
  | "allowAlways"
  /** No. */
  | "deny";

/** The answer to a request that has nothing to tell but that it was done. */
export interface EmptyResult {
}

/**
 * Params of `agent/limitRespond`: one of `raiseBy` and `stop`. For `unknown_price` neither means to
 * go on.
 */
export interface LimitRespondParams {
  /** The question. */
  limitId: string;
  /**
   * By how much the limit is raised: US dollars, steps, calls or seconds. It holds for the turn,
   * the session or the day that the limit is of.
   */
  raiseBy?: number;
  /** The limit holds: the turn ends. */
  stop?: boolean;
}

/** Params of `agent/questionRespond`: one of `answers` and `dismissed`. */
export interface QuestionRespondParams {
  /** The question. */
  questionId: string;
  /**
   * The answers by the names of the fields; each is a list, of one unless several may be chosen.
   */
  answers?: Record<string, string[]>;
  /** The person will not answer. */
  dismissed?: boolean;
}

/** Params of `agent/listApprovals`. */
export interface ListApprovalsParams {
  /** Only those of this session; absent: of every session that no other server has open. */
  sessionId?: string;
}

/** Result of `agent/listApprovals`. */
export interface ListApprovalsResult {
  /** The open approvals, oldest first, as they were asked. */
  approvals: ApprovalRequestedNotification[];
  /** The limits that wait for an answer. */
  limits?: LimitRequestedNotification[];
  /** The questions that wait for an answer. */
  questions?: QuestionRequestedNotification[];
}

/** Params of `agent/approvalRequested`. */
export interface ApprovalRequestedNotification {
  /** The session it belongs to. */
  sessionId: string;
  /** Its number in the session: from 1, no gap, no repeat. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** Its id; the same when it is asked again after a restart. */
  approvalId: string;
  /** The call that waits. */
  toolCallId: string;
  /** The tool's name. */
  name: string;
  /** The call's arguments; long strings in it may be cut. */
  input: unknown;
  /** A line for people. */
  title: string;
  /** The folder in which it would run. */
  cwd: string;
  /** How much harm it could do. */
  risk: Risk;
  /** Why it is asked, for people. */
  why: string;
  /** What it would change, as a unified diff. */
  diff?: string;
  /** Where the whole of a cut field is. */
  more?: Record<string, More>;
  /**
   * Options of the call that change what it does, as short phrases: `keeps running in the
   * background`.
   */
  options?: string[];
  /**
   * The rule that `allowSession` and `allowAlways` would keep; absent when none can be, and then
   * those two are not offered.
   */
  rule?: string;
  /**
   * The command line or address as a person should read it, in full: characters that are invisible
   * or change the reading order are written out (`<U+202E>`). Show this, not `input`. Absent for
   * tools that have neither.
   */
  shown?: string;
  /** The turn that caused it; absent when none did. */
  turnId?: string;
}

/** How much harm an effect could do, by what it touches. */
export type Risk =
  /** Only reads, inside the workspace. */
  | "low"
  /** Changes files inside the workspace, or runs a program that shows no sign of more. */
  | "medium"
  /**
   * Network, secrets, files outside the workspace or that make programs run, recursive deletion,
   * privileges, or a command that cannot be fully read.
   */
  | "high";

/** Params of `agent/limitRequested`. */
export interface LimitRequestedNotification {
  /** The session it belongs to. */
  sessionId: string;
  /** Its number in the session: from 1, no gap, no repeat. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** Its id; the same when it is asked again after a restart. */
  limitId: string;
  /** Which limit. */
  limit: LimitName;
  /**
   * What is used, with the estimate of a call that was not made: US dollars, steps, calls or
   * seconds.
   */
  used: number;
  /** What may be used; 0 for `unknown_price`. */
  max: number;
  /** A line for people. */
  message: string;
  /** The model that it concerns, as `provider/model`. */
  model?: string;
  /** The call that delegated to the sub-agent which asks; absent: the turn itself asks. */
  parentToolCallId?: string;
  /** The provider that it concerns. */
  provider?: string;
  /** The turn that caused it; absent when none did. */
  turnId?: string;
}

/** Which limit was reached. */
export type LimitName =
  /** Steps of the turn. */
  | "max_steps"
  /** Tool calls of the turn. */
  | "max_tool_calls"
  /** US dollars of the turn. */
  | "max_turn_cost"
  /** US dollars of the session. */
  | "max_session_cost"
  /** US dollars of the day (UTC), over all sessions. */
  | "max_day_cost"
  /** US dollars of the day (UTC) at one provider. */
  | "max_provider_day_cost"
  /** Seconds of the turn. */
  | "max_wall_time_s"
  /** A limit in money is set, and nobody knows what the model costs. */
  | "unknown_price";

/** Params of `agent/questionRequested`. */
export interface QuestionRequestedNotification {
  /** The session it belongs to. */
  sessionId: string;
  /** Its number in the session: from 1, no gap, no repeat. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** Its id; the same when it is asked again after a restart. */
  questionId: string;
  /** The question. */
  text: string;
  /** What is to be answered. */
  fields: QuestionField[];
  /** More about it. */
  detail?: string;
  /** Where the whole of a cut field is. */
  more?: Record<string, More>;
  /** The call that delegated to the sub-agent which asks; absent: the turn itself asks. */
  parentToolCallId?: string;
  /** The call that waits for the answer. */
  toolCallId?: string;
  /** The turn that caused it; absent when none did. */
  turnId?: string;
}

/** One field of a question. */
export interface QuestionField {
  /** The key of its answer. */
  name: string;
  /** What can be chosen; empty: any text. */
  choices?: QuestionChoice[];
  /** Any text may be given instead of a choice. */
  free?: boolean;
  /** For people; empty where the question says it all. */
  label?: string;
  /** It must be answered. */
  required?: boolean;
  /** Several may be chosen. */
  several?: boolean;
}

/** One thing that can be chosen. */
export interface QuestionChoice {
  /** What the answer says. */
  value: string;
  /** For people. */
  label: string;
}

/** Params of `agent/listGrants`. */
export interface ListGrantsParams {
  /** What holds in this session; absent: all that is kept for workspace folders. */
  sessionId?: string;
}

/** Result of `agent/listGrants`. */
export interface ListGrantsResult {
  /** The grants, newest first. */
  grants: Grant[];
}

/** Something that a person has allowed beyond one call. */
export interface Grant {
  /** Its id, to revoke it. */
  grantId: string;
  /** The rule, as in the configuration: `bash(git status *)`. */
  rule: string;
  /** How far it reaches. */
  scope: GrantScope;
  /** The workspace folder it was given for. */
  folder: string;
  /** When it was given, in ms since the Unix epoch. */
  grantedAt: number;
}

/** How far a grant reaches. */
export type GrantScope =
  /** One session. */
  | "session"
  /** Every session in the workspace folder. */
  | "workspace";

/** Params of `agent/revokeGrant`. */
export interface RevokeGrantParams {
  /** The grant. */
  grantId: string;
}

/** Params of `agent/listSessions`. */
export interface ListSessionsParams {
  /** `nextCursor` of the answer before; absent: from the newest. */
  cursor?: string;
  /** Only those that work in this folder: a URI or an absolute path. */
  cwd?: string;
  /** How many at most; 50 when absent, at most 200. */
  limit?: number;
  /** Words to look for in titles, prompts and final answers. */
  query?: string;
}

/** Result of `agent/listSessions`. */
export interface ListSessionsResult {
  /** The sessions, those used last first. */
  sessions: SessionInfo[];
  /** The `cursor` of the next page; absent on the last. */
  nextCursor?: string;
}

/** A session in a list. */
export interface SessionInfo {
  /** The session. */
  sessionId: string;
  /** The folder it works in. */
  cwd: string;
  /** When it was made, in ms since the Unix epoch. */
  createdAt: number;
  /** When something last happened in it, in ms since the Unix epoch. */
  updatedAt: number;
  /** Whether a turn is running, in this server. */
  running?: boolean;
  /** The place where `query` was found, for people. */
  snippet?: string;
  /** Its title; absent before the first prompt. */
  title?: string;
}

/**
 * Params of `agent/loadSession`. The page is the last `tail` of the events after `afterSeq` and
 * before `beforeSeq`.
 */
export interface LoadSessionParams {
  /** The session. */
  sessionId: string;
  /**
   * Only events after this number: what the client has already. When more than `tail` came since,
   * the page does not join on, and the client starts over with it.
   */
  afterSeq?: number;
  /** Only events before this number: an earlier page. */
  beforeSeq?: number;
  /**
   * Only look: needs no lock, so it works while another server has the session; nothing is sent
   * later.
   */
  readOnly?: boolean;
  /**
   * How many events at most: 200 when absent (1,000 with `afterSeq`), at most 1,000; 0 for none.
   */
  tail?: number;
}

/** Result of `agent/loadSession`. */
export interface LoadSessionResult {
  /** A page of the durable events, oldest first; they are not sent again as notifications. */
  events: EventRecord[];
  /** Whether there are earlier events than the page's. */
  hasEarlier: boolean;
  /** Approvals that wait for a person, as they were asked; also those asked before the page. */
  openApprovals: ApprovalRequestedNotification[];
  /** The number of the session's last event. Notifications go on from there. */
  seq: number;
  /** The session as it is now. */
  state: SessionState;
  /**
   * The files that the last turn's instructions were made of, as `agent/instructions` told, which
   * may be before the page. Absent also while nobody has gone on with the session in this server:
   * then all its events are not read yet.
   */
  instructions?: InstructionFile[];
  /** Limits that wait for an answer. */
  openLimits?: LimitRequestedNotification[];
  /** Questions that wait for an answer. */
  openQuestions?: QuestionRequestedNotification[];
  /** The message in progress. */
  partial?: PartialMessage;
}

/** A durable event: the notification that it was. */
export interface EventRecord {
  /** The notification's method. */
  method: string;
  /** The notification's params. */
  params: unknown;
}

/** A file of instructions, as it was read. */
export interface InstructionFile {
  /** Its absolute path. */
  path: string;
  /** What it is for. */
  kind: InstructionKind;
  /** Bytes of it that were taken; 0 where it was left out. */
  bytes: number;
  /** Whether it is the person's own, or lies in a folder that the person trusts. */
  trusted: boolean;
  /** The name of a skill. */
  name?: string;
  /** Why it was cut or left out. */
  problem?: string;
}

/** What a file of instructions is for. */
export type InstructionKind =
  /** The `prompt_file` of a named agent, which stands in the place of the built-in instructions. */
  | "prompt"
  /** `SOUL.md`: who the agent is. */
  | "soul"
  /** `AGENTS.md`: how to work here. */
  | "agents"
  /** `TOOLS.md`: how to use the tools. */
  | "tools"
  /** The `SKILL.md` of a skill. */
  | "skill";

/** A message in progress. Deltas that follow go on where it ends. */
export interface PartialMessage {
  /** The message. */
  messageId: string;
  /** Its text from `offset` on. */
  text: string;
  /** UTF-8 bytes of the message's text before `text`; 0 when it is all there. */
  offset: number;
  /** Its reasoning so far. */
  reasoning?: string;
}

/** A session as it is now. */
export interface SessionState {
  /** The folder it works in. */
  cwd: string;
  /** How freely the agent may act. */
  mode: Mode;
  /** Tokens used in all. */
  usage: TokenUsage;
  /** What they cost, in US dollars; absent when the cost of one of the calls is not known. */
  costUsd?: number;
  /** How hard the model shall think; absent: as the provider has it by default. */
  effort?: Effort;
  /** The model, as `provider/model`; absent until it is known. */
  model?: string;
  /** The prompts that wait for the turn's end; absent when there are none. */
  queue?: QueueState;
  /** The last turn, when `agent/resumeTurn` can go on with it. */
  resumableTurnId?: string;
  /** The turn that is running. */
  runningTurnId?: string;
  /** Its title; absent before the first prompt. */
  title?: string;
}

/** The queue as it is shown. */
export interface QueueState {
  /**
   * Whether nothing of it starts by itself: the last turn was cancelled, failed or was interrupted.
   */
  paused: boolean;
  /** What waits, the next one first. */
  prompts: QueuedPrompt[];
}

/** A prompt that waits, as it is shown. `agent/queue` tells the whole of it. */
export interface QueuedPrompt {
  /** What it is edited, removed and sent by. */
  promptId: string;
  /** The start of its text, on one line. */
  text: string;
}

/** Params of `agent/renameSession`. */
export interface RenameSessionParams {
  /** The session. */
  sessionId: string;
  /** The new title: one line, at most 200 characters. */
  title: string;
}

/** Params of `agent/forkSession`. */
export interface ForkSessionParams {
  /** The session. */
  sessionId: string;
  /** The last turn that the new session has; absent: the last one that has ended. */
  turnId?: string;
}

/** Result of `agent/forkSession`. */
export interface ForkSessionResult {
  /** The new session: load it with `agent/loadSession`. */
  sessionId: string;
  /** Its title. */
  title?: string;
}

/** Params of `agent/exportSession`. */
export interface ExportSessionParams {
  /** The session. */
  sessionId: string;
  /** As what; Markdown when absent. */
  format?: ExportFormat;
}

/** What a session is exported as. */
export type ExportFormat =
  /** For people: what was said and done. */
  | "markdown"
  /** For programs: the session and all its events, as notifications, uncut. */
  | "json";

/** Result of `agent/exportSession`. */
export interface ExportSessionResult {
  /** The session, whole. */
  text: string;
}

/** Params of `agent/deleteSession`. */
export interface DeleteSessionParams {
  /** The session; a running turn is cancelled first. */
  sessionId: string;
}

/** Params of `agent/revert`. */
export interface RevertParams {
  /** The session. */
  sessionId: string;
  /** The turn; all later ones are taken back with it. */
  turnId: string;
  /** Only say what would be done. */
  dryRun?: boolean;
  /** Make again what the last revert of that turn took back. */
  redo?: boolean;
}

/** Result of `agent/revert`. */
export interface RevertResult {
  /** The turns whose changes it concerned, the first one first. */
  turnIds: string[];
  /**
   * The files that were put back (with `dryRun`: would be). Those that are so already are not among
   * them.
   */
  files: RevertedFile[];
  /** The files that were left as they are. */
  conflicts: RevertConflict[];
}

/** A file that was left as it is. */
export interface RevertConflict {
  /** The file's path, as in `agent/turnDiff`. */
  path: string;
  /** The file. */
  uri: string;
  /** Why, for people. */
  why: string;
}

/** A file that was put back. */
export interface RevertedFile {
  /** The file's path, as in `agent/turnDiff`. */
  path: string;
  /** The file. */
  uri: string;
  /** What was done to it now. */
  kind: ChangeKind;
}

/** What became of a file. */
export type ChangeKind =
  /** It is new. */
  | "created"
  /** Its content or its mode is another. */
  | "modified"
  /** It is gone. */
  | "deleted";

/** Params of `agent/setMode`. */
export interface SetModeParams {
  /** The session. */
  sessionId: string;
  /** The mode; it holds from the next tool call on. */
  mode: Mode;
}

/** Params of `agent/setModel`. */
export interface SetModelParams {
  /** The session. */
  sessionId: string;
  /** The model, as `provider/model`; it holds from the next model call on. */
  model: string;
  /** How hard it shall think; absent: as the provider has it by default. */
  effort?: Effort;
}

/** Params of `agent/describeTrust`. */
export interface DescribeTrustParams {
  /** The workspace folder: its URI or absolute path. */
  folder: string;
}

/**
 * Result of `agent/describeTrust`. Control characters and invisible characters are written out in
 * all texts.
 */
export interface DescribeTrustResult {
  /** The folder's path. */
  folder: string;
  /** Whether it is trusted now. */
  trusted: boolean;
  /** What its own files activate where it is trusted. */
  activates: TrustItem[];
  /** Where its own files send keys of the person's. Each needs a question of its own. */
  redirects: ProviderRedirect[];
}

/** Something that a folder's own files activate where the folder is trusted. */
export interface TrustItem {
  /** What it is. */
  kind: TrustItemKind;
  /** The hook's or tool's name, or the setting's key. */
  name: string;
  /** When it runs, or what is set; and the file and line. */
  detail: string;
  /** The command that it runs. */
  command?: string;
}

/**
 * What a folder's files activate. Later versions add kinds: show an unknown one by its `name` and
 * `detail`.
 */
export type TrustItemKind =
  /** A command that runs at a moment of every turn. */
  | "hook"
  /** A tool whose call runs a command. */
  | "tool"
  /** Any other setting that an untrusted folder may not set. */
  | "setting";

/** A folder's wish to send a key of the person's to another address. */
export interface ProviderRedirect {
  /** The provider; `*` where a proxy or certificates concern all of them. */
  provider: string;
  /** Where the folder sends them. Show it whole; send it back exactly to accept it. */
  to: string;
  /** What of the person's would go there, each as a short phrase. */
  sends: string[];
  /** Whether the person accepted it. Until then it is ignored, with a warning. */
  accepted: boolean;
  /**
   * Where the person's own configuration sends requests; absent where only the folder names this
   * provider.
   */
  from?: string;
}

/** Params of `agent/setTrust`. */
export interface SetTrustParams {
  /** The workspace folder: its URI or absolute path. */
  folder: string;
  /**
   * Whether the folder's own settings may loosen approvals, start anything, or change addresses and
   * keys.
   */
  trusted: boolean;
  /**
   * Redirects that the person accepted, each after a question of its own. Trusting alone accepts
   * none; one that was accepted stays so until the folder names another address or is trusted no
   * more.
   */
  acceptRedirects?: AcceptedRedirect[];
}

/** A redirect that the person accepts. */
export interface AcceptedRedirect {
  /** The provider, as `agent/describeTrust` named it. */
  provider: string;
  /** The target, exactly as `agent/describeTrust` named it. */
  to: string;
}

/** Params of `agent/listModels`. */
export interface ListModelsParams {
  /**
   * Tries the address and the key of this provider before answering, by one request that costs
   * nothing; its `health` and `message` tell what came of it. Takes at most 15 s.
   */
  check?: string;
  /**
   * Asks every provider that has a key for its own list first. Takes at most 5 s; a provider that
   * does not answer is listed as without it.
   */
  live?: boolean;
  /** With this session's configuration, and its model marked; absent: the user's configuration. */
  sessionId?: string;
}

/** Result of `agent/listModels`. */
export interface ListModelsResult {
  /** The models that can be chosen. */
  models: ModelInfo[];
  /** The providers that are configured. */
  providers: ProviderInfo[];
}

/** A model that can be chosen. */
export interface ModelInfo {
  /** What `agent/setModel` takes: `provider/model`. */
  model: string;
  /** The provider's name in the configuration. */
  provider: string;
  /** Its window, in tokens. */
  contextWindow?: number;
  /** Whether it is the session's (or the default) model. */
  current?: boolean;
  /** Whether the provider's own list contains it; absent while that list is unknown. */
  listed?: boolean;
  /** Its output limit, in tokens. */
  maxOutputTokens?: number;
  /** What its tokens cost; absent when it is not known. */
  price?: Price;
  /** Where its price comes from; absent from older servers. */
  pricing?: Pricing;
}

/** What a model's tokens cost, in US dollars per million. */
export interface Price {
  /** Plain input. */
  input: number;
  /** Output. */
  output: number;
  /** Input read from the prompt cache. */
  cacheRead: number;
  /** Input written to the prompt cache. */
  cacheWrite: number;
}

/** Where a model's price comes from. */
export type Pricing =
  /** The vendor's list price, wherever it is served. */
  | "list"
  /** The configuration. */
  | "configured"
  /** It is free: a local engine runs it. */
  | "free"
  /** Nobody knows it. */
  | "unknown";

/** A provider that is configured. */
export interface ProviderInfo {
  /** Its name in the configuration. */
  provider: string;
  /** Its kind: which API it speaks. */
  kind: string;
  /** How it fares. */
  health: ProviderHealth;
  /** How the circuit of its account stands, while it is not closed. */
  circuit?: CircuitInfo;
  /** More, for people: what fails, or what is missing. */
  message?: string;
}

/** A circuit. */
export interface CircuitInfo {
  /** What it guards. */
  subject: CircuitSubject;
  /** The name of the provider or the tool. */
  name: string;
  /** How it stands. */
  state: CircuitState;
  /** When an open one lets a trial through, in ms since the Unix epoch. */
  until?: number;
}

/** How a circuit stands. */
export type CircuitState =
  /** Calls pass. */
  | "closed"
  /** No call passes; the provider or the tool failed too often in a row. */
  | "open"
  /** One call passes as a trial: its outcome closes the circuit or opens it again. */
  | "halfOpen";

/** What a circuit guards. */
export type CircuitSubject =
  /** The account of a provider. */
  | "provider"
  /** A tool. */
  | "tool";

/** How a provider fares. */
export type ProviderHealth =
  /** It was not called yet. */
  | "unknown"
  /** Its last call succeeded. */
  | "ok"
  /** Its last call failed. */
  | "failing"
  /** It cannot be called: a key is missing. */
  | "notConfigured";

/** Params of `agent/listAgents`. */
export interface ListAgentsParams {
  /**
   * The agents of this session's folder, with its own marked; the first workspace folder's when
   * absent.
   */
  sessionId?: string;
}

/** Result of `agent/listAgents`. */
export interface ListAgentsResult {
  /** The agents of the configuration, `default` first. */
  agents: AgentInfo[];
}

/** An agent of the configuration. */
export interface AgentInfo {
  /** Its name, as `agent/newSession` takes it. */
  name: string;
  /** The mode in which its sessions begin. */
  mode: Mode;
  /** The tools that it has. */
  tools: string[];
  /** Whether it is the session's agent. */
  current?: boolean;
  /** What it is for. */
  description?: string;
  /** The model that it names. */
  model?: string;
  /** The provider that it names. */
  provider?: string;
}

/** Params of `agent/listCommands`. */
export interface ListCommandsParams {
  /** The commands of this session; the first workspace folder's when absent. */
  sessionId?: string;
}

/** Result of `agent/listCommands`. */
export interface ListCommandsResult {
  /** The commands, by name. */
  commands: CommandInfo[];
}

/**
 * A prompt that a person has written down: a prompt that begins with `/` and its name stands for
 * it.
 */
export interface CommandInfo {
  /** Its name, without the `/`. */
  name: string;
  /** The absolute path of its file. */
  path: string;
  /** Whether it is the person's own, or lies in a folder that the person trusts. */
  trusted: boolean;
  /** What its arguments are. */
  argumentHint?: string;
  /** What it does. */
  description?: string;
  /** Why it cannot be used. */
  problem?: string;
}

/** Params of `agent/listTools`. */
export interface ListToolsParams {
  /** The tools that this session's agent has; absent: all. */
  sessionId?: string;
}

/** Result of `agent/listTools`. */
export interface ListToolsResult {
  /** The tools, by name. */
  tools: ToolInfo[];
}

/** A tool as the model is told of it. */
export interface ToolInfo {
  /** Its name. */
  name: string;
  /** What it does and when it is used. */
  description: string;
  /** JSON Schema of its arguments. */
  inputSchema: unknown;
}

/** Params of `agent/readContent`. */
export interface ReadContentParams {
  /** The session. */
  sessionId: string;
  /** The `ref` of a cut field. */
  ref: string;
  /** How many bytes at most; 65,536 when absent, at most 1,048,576. */
  limit?: number;
  /** Where to begin, in bytes; 0 when absent. */
  offset?: number;
}

/** Result of `agent/readContent`. */
export interface ReadContentResult {
  /**
   * The piece. It begins and ends on whole characters, so it may be a few bytes shorter than
   * `limit`.
   */
  text: string;
  /** The length of the whole, in bytes. */
  bytes: number;
  /** Where to read on; absent at the end. */
  nextOffset?: number;
}

/** Params of `agent/metrics`. */
export interface MetricsParams {
  /** A session whose counts are wanted too. */
  sessionId?: string;
}

/** Result of `agent/metrics`. */
export interface MetricsResult {
  /** Counts of the server as a whole. */
  totals: Counts;
  /** How long things took. */
  latencies: Latencies;
  /**
   * The circuits of all providers that were in use, and those of the session's tools that are not
   * closed.
   */
  circuits?: CircuitInfo[];
  /** Counts of the session that was asked for. */
  session?: SessionMetrics;
}

/** How long things took. */
export interface Latencies {
  /** From a provider call to its first content. */
  firstToken: Histogram;
  /** One step of the loop. */
  step: Histogram;
  /** One tool call, without the wait for a person. */
  tool: Histogram;
  /** From a cancel to the turn's end. */
  cancel: Histogram;
}

/** Latencies in buckets. */
export interface Histogram {
  /** Upper bounds of the buckets, in microseconds. */
  boundsUs: number[];
  /** Observations per bucket; one more than `boundsUs`, for what lies above the last. */
  counts: number[];
  /** The sum of all observations, in microseconds. */
  sumUs: number;
  /** How many observations there are. */
  count: number;
}

/** Counts of one session since it was made; `queuedPrompts` and `reverts` since it was loaded. */
export interface SessionMetrics {
  /** The session. */
  sessionId: string;
  /** When the session was made, in ms since the Unix epoch. */
  startedAt: number;
  /** Tokens sent to models. */
  inputTokens: number;
  /** Tokens received from models. */
  outputTokens: number;
  /** Provider calls made. */
  requests: number;
  /** Errors of any kind that reached a turn. */
  errors: number;
  /** Tool calls run. */
  toolCalls: number;
  /** Provider calls made again. */
  retries: number;
  /** Summaries made of a history that grew too long. */
  compactions: number;
  /** Turns cancelled. */
  cancels: number;
  /** Tool calls run, by the tool's name. */
  toolCallsByName: Record<string, number>;
  /** Errors by code, those that ended no turn included. */
  errorsByCode: Record<string, number>;
  /** Prompts that were to wait for a turn's end. */
  queuedPrompts?: number;
  /** Times that files of turns were taken back, or made again. */
  reverts?: number;
}

/** Counts. */
export interface Counts {
  /** Tokens sent to models. */
  inputTokens: number;
  /** Tokens received from models. */
  outputTokens: number;
  /** Provider calls made. */
  requests: number;
  /** Errors of any kind that reached a turn. */
  errors: number;
  /** Tool calls run. */
  toolCalls: number;
  /** Provider calls made again. */
  retries: number;
  /** Summaries made of a history that grew too long. */
  compactions: number;
  /** Turns cancelled. */
  cancels: number;
  /** Prompts that were to wait for a turn's end. */
  queuedPrompts?: number;
  /** Times that files of turns were taken back, or made again. */
  reverts?: number;
}

/** Params of `agent/resetCircuit`. */
export interface ResetCircuitParams {
  /** What the circuit guards. */
  subject: CircuitSubject;
  /** The name of the provider or the tool. */
  name: string;
  /** For a tool: the session whose circuit is meant; absent: that of every loaded session. */
  sessionId?: string;
}

/** Result of `agent/resetCircuit`. */
export interface ResetCircuitResult {
  /** Whether it was not closed before. */
  wasOpen: boolean;
}

/** Params of `agent/reloadConfig`. */
export interface ReloadConfigParams {
}

/** Result of `agent/reloadConfig`. */
export interface ReloadConfigResult {
  /** What is wrong in the files; the rest is in force. */
  problems: ConfigProblem[];
}

/** Something wrong in a configuration file. */
export interface ConfigProblem {
  /** The file, or what else the setting came from: a variable, `initializationOptions`. */
  file: string;
  /** How grave it is. */
  severity: Severity;
  /** What is wrong and what would be right, for people. */
  message: string;
  /** The line, from 1; absent when it is not known. */
  line?: number;
}

/** Params of the client's notification `agent/cancel`. */
export interface CancelNotification {
  /** The session. */
  sessionId: string;
  /**
   * The turn that is meant; when another is running, nothing happens. Absent: whichever is running.
   */
  turnId?: string;
}

/** Params of `agent/saveDocuments`. */
export interface SaveDocumentsParams {
  /** The documents, by the URIs that the client opened them with. */
  uris: string[];
}

/** Result of `agent/saveDocuments`. */
export interface SaveDocumentsResult {
  /** Those that are not. */
  failed?: NotSaved[];
  /** Those that are on the disk now as the editor shows them. */
  saved?: string[];
}

/** A document that could not be saved. */
export interface NotSaved {
  /** The document. */
  uri: string;
  /** Why, for the model: `it is read-only in the editor`. */
  reason: string;
}

/** Params of `agent/getCredential`. */
export interface GetCredentialParams {
  /** The provider, by its name in the configuration. */
  provider: string;
}

/** Result of `agent/getCredential`. */
export interface GetCredentialResult {
  /** The key; absent when the client has none for that provider. */
  apiKey?: string;
}

/** Params of `agent/getDiagnostics`. */
export interface GetDiagnosticsParams {
  /**
   * The document, by the URI that the client opened it with where it is open; absent: all that the
   * client knows of.
   */
  uri?: string;
}

/** Result of `agent/getDiagnostics`. */
export interface GetDiagnosticsResult {
  /** What the client's compilers and linters say now, in any order. */
  diagnostics?: Diagnostic[];
}

/** A diagnostic of the client. */
export interface Diagnostic {
  /** The document's URI. */
  uri: string;
  /** The part that it is about. */
  range: Range;
  /** What it says. */
  message: string;
  /** How grave it is; absent: it is an error. */
  severity?: Severity;
  /** Who says it: a compiler, a linter. */
  source?: string;
}

/** Params of `agent/turnStarted`. */
export interface TurnStartedNotification {
  /** The session it belongs to. */
  sessionId: string;
  /** Its number in the session: from 1, no gap, no repeat. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** By what it was asked for; absent from servers that do not tell. */
  by?: TurnAsker;
  /** The turn that it goes on with, after `agent/resumeTurn`. */
  resumes?: string;
  /** The turn that caused it; absent when none did. */
  turnId?: string;
}

/** By what a turn was asked for. Later versions may know more words. */
export type TurnAsker =
  /** `agent/prompt`. */
  | "prompt"
  /** `agent/resumeTurn`. */
  | "resume"
  /** `agent/compact`. */
  | "compact"
  /** A prompt of `agent/queue`, whose turn had come. */
  | "queue";

/** Params of `agent/turnEnded`. */
export interface TurnEndedNotification {
  /** The session it belongs to. */
  sessionId: string;
  /** Its number in the session: from 1, no gap, no repeat. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** Why it ended. */
  reason: TerminalReason;
  /** How it ended, in one word. */
  state: TurnState;
  /** The turn's tokens. */
  usage: TokenUsage;
  /** What the turn cost, in US dollars; absent when the model's price is not known. */
  costUsd?: number;
  /** What went wrong. */
  error?: ErrorData;
  /** Where the whole of `unusedSteers` is, when it had to be cut. */
  more?: Record<string, More>;
  /** The turn that caused it; absent when none did. */
  turnId?: string;
  /**
   * What was said and no model has seen, to be given back to the person: steers of a turn that was
   * cut, failed or compacted, and prompts and steers that a hook held back.
   */
  unusedSteers?: MessageBlock[][];
}

/** Params of `agent/textDelta`. */
export interface TextDeltaNotification {
  /** The session. */
  sessionId: string;
  /** The turn. */
  turnId: string;
  /** The message. */
  messageId: string;
  /** UTF-8 bytes of this message's text before this piece. */
  offset: number;
  /** The piece. */
  text: string;
}

/** Params of `agent/reasoningDelta`. */
export interface ReasoningDeltaNotification {
  /** The session. */
  sessionId: string;
  /** The turn. */
  turnId: string;
  /** The message. */
  messageId: string;
  /** UTF-8 bytes of this message's reasoning before this piece; counted apart from its text. */
  offset: number;
  /** The piece. */
  text: string;
}

/** Params of `agent/message`. */
export interface MessageNotification {
  /** The session it belongs to. */
  sessionId: string;
  /** Its number in the session: from 1, no gap, no repeat. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The message. */
  messageId: string;
  /** Who speaks. */
  role: Role;
  /** What is said, in order. */
  content: MessageBlock[];
  /** Meant for the model only (continuation prompts, nudges): not shown in the chat. */
  hidden?: boolean;
  /** Cut by a cancel, a crash or an error. */
  incomplete?: boolean;
  /** Where the whole of `content` is, as a JSON array, when there were too many blocks. */
  more?: Record<string, More>;
  /** The turn that caused it; absent when none did. */
  turnId?: string;
}

/** Who speaks. */
export type Role =
  /** The person. */
  | "user"
  /** The model. */
  | "assistant"
  /** Results of the tool calls that the message before asked for. */
  | "tool";

/** Params of `agent/messageRetracted`. */
export interface MessageRetractedNotification {
  /** The session it belongs to. */
  sessionId: string;
  /** Its number in the session: from 1, no gap, no repeat. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The message that is void. */
  messageId: string;
  /** The tool calls that it had begun to ask for. */
  toolCallIds: string[];
  /** The turn that caused it; absent when none did. */
  turnId?: string;
}

/** Params of `agent/toolInputDelta`. */
export interface ToolInputDeltaNotification {
  /** The session. */
  sessionId: string;
  /** The turn. */
  turnId: string;
  /** The message that asks. Once it has come, a call that it does not hold is void. */
  messageId: string;
  /** The call. */
  toolCallId: string;
  /** The tool's name. */
  name: string;
  /** A piece of the JSON of its arguments. */
  text: string;
}

/** Params of `agent/toolOutputDelta`. */
export interface ToolOutputDeltaNotification {
  /** The session. */
  sessionId: string;
  /** The turn. */
  turnId: string;
  /** The call. */
  toolCallId: string;
  /** A piece of its output, safe to show. */
  text: string;
}

/** Params of `agent/toolCall`: the status, and what changed since the last one. */
export interface ToolCallNotification {
  /** The session it belongs to. */
  sessionId: string;
  /** Its number in the session: from 1, no gap, no repeat. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The call. */
  toolCallId: string;
  /** The tool's name. */
  name: string;
  /** A line for people. */
  title: string;
  /** Where it stands now. */
  status: ToolCallStatus;
  /** What it would change or has changed, as a unified diff. */
  diff?: string;
  /** How long it ran, in ms, without the wait for a person. */
  durationMs?: number;
  /**
   * How a command ended: its exit code, or 128 plus the number of the signal that killed it.
   * Anything but 0 makes the status `failed`.
   */
  exitCode?: number;
  /** Pictures it gave. */
  images?: Image[];
  /**
   * Its arguments, when they are new or were edited by the person; long strings in it may be cut.
   */
  input?: unknown;
  /** Files it concerns; at most 100 are told. */
  locations?: Location[];
  /** Where the whole of a cut field is. */
  more?: Record<string, More>;
  /** What it gave, safe to show; present exactly when the status is final. */
  output?: string;
  /** The call that delegated to the sub-agent which made this one. */
  parentToolCallId?: string;
  /** The turn that caused it; absent when none did. */
  turnId?: string;
}

/** A place in a file. */
export interface Location {
  /** The file's URI. */
  uri: string;
  /** The line, from 1; absent: the whole file. */
  line?: number;
}

/** Where a tool call stands. The last four are final. */
export type ToolCallStatus =
  /** Its input is complete. */
  | "pending"
  /** A person is asked. */
  | "awaitingApproval"
  /** It runs. */
  | "running"
  /** It gave a result. */
  | "completed"
  /** It gave an error result. */
  | "failed"
  /** A person or a policy said no. */
  | "denied"
  /** A cancel, a crash or the end of the server came first. */
  | "cancelled";

/** Params of `agent/approvalResolved`. */
export interface ApprovalResolvedNotification {
  /** The session it belongs to. */
  sessionId: string;
  /** Its number in the session: from 1, no gap, no repeat. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The question. */
  approvalId: string;
  /** The call it was about. */
  toolCallId: string;
  /** What was decided. */
  decision: Decision;
  /** By what. */
  by: SettledBy;
  /** What the model is told about a denial. */
  feedback?: string;
  /** The arguments as the person edited them; long strings in it may be cut. */
  input?: unknown;
  /** Where the whole of a cut field is. */
  more?: Record<string, More>;
  /** The rule that is kept. */
  rule?: string;
  /** The turn that caused it; absent when none did. */
  turnId?: string;
}

/** By what an approval was settled. */
export type SettledBy =
  /** The person answered. */
  | "person"
  /** A rule or a grant that came meanwhile. */
  | "rule"
  /** A cancel denied it. */
  | "cancel"
  /** Its time ran out. */
  | "timeout"
  /** A new prompt was sent instead. */
  | "newPrompt";

/** Params of `agent/limitResolved`. */
export interface LimitResolvedNotification {
  /** The session it belongs to. */
  sessionId: string;
  /** Its number in the session: from 1, no gap, no repeat. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The question. */
  limitId: string;
  /** Which limit. */
  limit: LimitName;
  /** What became of it. */
  outcome: LimitOutcome;
  /** By what. */
  by: SettledBy;
  /** By how much it was raised: US dollars, steps, calls or seconds. */
  raisedBy?: number;
  /** The turn that caused it; absent when none did. */
  turnId?: string;
}

/** What became of a limit. */
export type LimitOutcome =
  /** It was raised; `raisedBy` says by how much. */
  | "raised"
  /** The turn goes on although the price is not known. */
  | "accepted"
  /** It holds, and the turn ends. */
  | "stopped";

/** Params of `agent/questionResolved`. */
export interface QuestionResolvedNotification {
  /** The session it belongs to. */
  sessionId: string;
  /** Its number in the session: from 1, no gap, no repeat. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The question. */
  questionId: string;
  /** By what. */
  by: SettledBy;
  /** The answers by the names of the fields; absent when it was not answered. */
  answers?: Record<string, string[]>;
  /** Where the whole of a cut field is. */
  more?: Record<string, More>;
  /** The turn that caused it; absent when none did. */
  turnId?: string;
}

/** Params of `agent/plan`. */
export interface PlanNotification {
  /** The session it belongs to. */
  sessionId: string;
  /** Its number in the session: from 1, no gap, no repeat. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The plan, whole. */
  items: PlanItem[];
  /** Where the whole of `items` is, when there were too many. */
  more?: Record<string, More>;
  /** The turn that caused it; absent when none did. */
  turnId?: string;
}

/** One line of the plan. */
export interface PlanItem {
  /** What is to be done. */
  text: string;
  /** How far it is. */
  status: PlanStatus;
}

/** How far a line of the plan is. */
export type PlanStatus =
  /** Not begun. */
  | "pending"
  /** Being done. */
  | "inProgress"
  /** Done. */
  | "completed";

/** Params of `agent/turnDiff`. */
export interface TurnDiffNotification {
  /** The session it belongs to. */
  sessionId: string;
  /** Its number in the session: from 1, no gap, no repeat. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The turn whose changes they are; taken back are also those of later turns. */
  ofTurnId: string;
  /** How they stand. */
  standing: Standing;
  /** The files: with `reverted` and `redone` what was done to them now. */
  files: FileDiff[];
  /** Commands may have changed more: the workspace has more files than are looked at. */
  partial?: boolean;
  /** The turn that caused it; absent when none did. */
  turnId?: string;
  /** So many more files are not listed. */
  unlisted?: number;
}

/** A change of one file. */
export interface FileDiff {
  /**
   * The file's path from the session's folder, `rootName/path` in another root, absolute outside of
   * all.
   */
  path: string;
  /** What became of it. */
  kind: ChangeKind;
  /** Lines that came. */
  added: number;
  /** Lines that went. */
  removed: number;
  /** A unified diff; absent of what is no text, and where the diffs together grew too long. */
  diff?: string;
  /** It cannot be taken back: a command changed it, and its content before is not known. */
  unrestorable?: boolean;
}

/** How a turn's changes stand. */
export type Standing =
  /** The turn made them. */
  | "made"
  /** `agent/revert` took them back. */
  | "reverted"
  /** `agent/revert` with `redo` made them again. */
  | "redone";

/** Params of `agent/transition`. */
export interface TransitionNotification {
  /** The session it belongs to. */
  sessionId: string;
  /** Its number in the session: from 1, no gap, no repeat. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** Whether the turn goes on. */
  kind: TransitionKind;
  /** Why. */
  reason: TransitionReason;
  /** More, for people. */
  detail?: string;
  /** The call that delegated to the sub-agent of which this tells; absent: the turn's own. */
  parentToolCallId?: string;
  /** The turn that caused it; absent when none did. */
  turnId?: string;
}

/** What a step's outcome does to the turn. */
export type TransitionKind =
  /** The model is called again. */
  | "continue"
  /** The turn ends. */
  | "terminal";

/** The reason of a transition; the two lists have no word in common. */
export type TransitionReason = ContinueReason | TerminalReason;

/** Why the loop calls the model again. */
export type ContinueReason =
  /** Tool calls were run, or a steer waits. */
  | "next_turn"
  /** The output was cut for the first time: the same request with a larger limit. */
  | "max_output_tokens_escalate"
  /** The output was cut again: what came is kept, and the model is asked to go on. */
  | "max_output_tokens_recovery"
  /** The prompt was too long: old tool results became stubs. */
  | "collapse_drain_retry"
  /** The prompt was still too long: the history was summarised. */
  | "reactive_compact_retry"
  /** The API refused an image: it was shrunk or taken out. */
  | "image_retry"
  /** Nothing came: asked again. */
  | "empty_response_retry"
  /** The provider paused a long turn. */
  | "pause_turn"
  /** The provider or the model was switched. */
  | "model_fallback"
  /** A stop hook objected. */
  | "stop_hook_blocking"
  /** The token target is not reached. */
  | "token_budget_continuation"
  /** The session's first prompt: the model is asked for a plan before it acts. */
  | "planning"
  /** Tool calls were run, and the model is asked to judge its progress. */
  | "reflection";

/** Params of `agent/retry`. */
export interface RetryNotification {
  /** The session it belongs to. */
  sessionId: string;
  /** Its number in the session: from 1, no gap, no repeat. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The provider's name in the configuration. */
  provider: string;
  /** The model. */
  model: string;
  /** The attempt that failed, from 1. */
  attempt: number;
  /** How many retries there are in all, of failures like this one. */
  maxRetries: number;
  /** The wait before the next attempt, in ms. */
  delayMs: number;
  /** When the wait ends, in ms since the Unix epoch. */
  resumeAt: number;
  /** What failed. */
  error: ErrorData;
  /** What happens if the next attempt fails too, for people. */
  next: string;
  /** The call that delegated to the sub-agent of which this tells; absent: the turn's own. */
  parentToolCallId?: string;
  /** The turn that caused it; absent when none did. */
  turnId?: string;
}

/** Params of `agent/wait`. */
export interface WaitNotification {
  /** The session it belongs to. */
  sessionId: string;
  /** Its number in the session: from 1, no gap, no repeat. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** What is waited for, for people. */
  why: string;
  /** The call that delegated to the sub-agent of which this tells; absent: the turn's own. */
  parentToolCallId?: string;
  /** The turn that caused it; absent when none did. */
  turnId?: string;
  /** Until when, in ms since the Unix epoch; absent when it is not known. */
  until?: number;
}

/** Params of `agent/compacted`. */
export interface CompactedNotification {
  /** The session it belongs to. */
  sessionId: string;
  /** Its number in the session: from 1, no gap, no repeat. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** Why. */
  trigger: CompactTrigger;
  /** Estimated tokens of the whole request before. */
  tokensBefore: number;
  /** The same after. */
  tokensAfter: number;
  /** Messages before. */
  messagesBefore: number;
  /** Messages after. */
  messagesAfter: number;
  /** No model wrote the summary: its call failed, and a digest made by rules stands in. */
  digest?: boolean;
  /** Where the whole of `summary` is, when it had to be cut. */
  more?: Record<string, More>;
  /** The call that delegated to the sub-agent of which this tells; absent: the turn's own. */
  parentToolCallId?: string;
  /**
   * What the model is told of the messages that it is no longer sent; absent when only large
   * results or pictures became stubs.
   */
  summary?: string;
  /** The turn that caused it; absent when none did. */
  turnId?: string;
}

/** Why a history was made smaller for the model. */
export type CompactTrigger =
  /** The estimate passed the threshold. */
  | "threshold"
  /** The provider said that the prompt is too long. */
  | "overflow"
  /** The provider refused a picture. */
  | "picture"
  /** A person asked for it. */
  | "manual";

/** Params of `agent/modelSwitched`. */
export interface ModelSwitchedNotification {
  /** The session it belongs to. */
  sessionId: string;
  /** Its number in the session: from 1, no gap, no repeat. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The model that was asked until now, as `provider/model`. */
  from: string;
  /** The model that is asked from now on, as `provider/model`. */
  to: string;
  /** Why, for people. */
  why: string;
  /** The call that delegated to the sub-agent of which this tells; absent: the turn's own. */
  parentToolCallId?: string;
  /** The turn that caused it; absent when none did. */
  turnId?: string;
}

/** Params of `agent/circuit`. */
export interface CircuitNotification {
  /** The session it belongs to. */
  sessionId: string;
  /** Its number in the session: from 1, no gap, no repeat. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** What the circuit guards. */
  subject: CircuitSubject;
  /** The name of the provider or the tool. */
  name: string;
  /** How it stands. */
  state: CircuitState;
  /** The call that delegated to the sub-agent of which this tells; absent: the turn's own. */
  parentToolCallId?: string;
  /** The turn that caused it; absent when none did. */
  turnId?: string;
  /** When an open one lets a trial through, in ms since the Unix epoch. */
  until?: number;
}

/** Params of `agent/usage`. */
export interface UsageNotification {
  /** The session it belongs to. */
  sessionId: string;
  /** Its number in the session: from 1, no gap, no repeat. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The step's tokens and cost. */
  step: Spent;
  /** The turn's so far. */
  turn: Spent;
  /** The session's so far. */
  session: Spent;
  /** Tokens of context used. */
  contextUsed: number;
  /** The model's window, in tokens. */
  contextWindow: number;
  /** The provider that was asked; absent in sessions of the first days. */
  provider?: string;
  /** The turn that caused it; absent when none did. */
  turnId?: string;
}

/** Tokens, and what they cost. */
export interface Spent {
  /** Input tokens that were neither read from nor written to a prompt cache. */
  inputTokens: number;
  /** Output tokens, reasoning included. */
  outputTokens: number;
  /** Input tokens read from the provider's prompt cache. */
  cacheReadTokens: number;
  /** Input tokens written to the provider's prompt cache. */
  cacheWriteTokens: number;
  /** What they cost, in US dollars; absent when the cost of one of the calls is not known. */
  costUsd?: number;
}

/** Params of `agent/warning`. */
export interface WarningNotification {
  /** What it is about, as a stable word. */
  code: string;
  /** What a person should know. */
  message: string;
  /** When it happened, in ms since the Unix epoch; absent without a session. */
  at?: number;
  /** The call that delegated to the sub-agent of which this tells; absent: the turn's own. */
  parentToolCallId?: string;
  /** Its number in the session; absent without a session. */
  seq?: number;
  /** The session; absent when it concerns the server as a whole. */
  sessionId?: string;
  /** The turn that caused it; absent when none did. */
  turnId?: string;
}

/** Params of `agent/sessionUpdated`: what changed, and only that. */
export interface SessionUpdatedNotification {
  /** The session it belongs to. */
  sessionId: string;
  /** Its number in the session: from 1, no gap, no repeat. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** How hard the model shall think. */
  effort?: Effort;
  /** The mode. */
  mode?: Mode;
  /** The model, as `provider/model`. */
  model?: string;
  /** The prompts that wait for the turn's end, all of them. */
  queue?: QueueState;
  /** The title. */
  title?: string;
  /** The turn that caused it; absent when none did. */
  turnId?: string;
}

/**
 * Params of `agent/instructions`: all files that the agent's instructions are made of from now on.
 */
export interface InstructionsNotification {
  /** The session it belongs to. */
  sessionId: string;
  /** Its number in the session: from 1, no gap, no repeat. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The files, in the order in which the agent reads them: of each kind the nearest last. */
  files: InstructionFile[];
  /** How many more there are that this list has no room for. */
  leftOut?: number;
  /** The turn that caused it; absent when none did. */
  turnId?: string;
}

/** Params of `agent/status`: the server as a whole, for a status bar. */
export interface StatusNotification {
  /** Whether the server works. */
  state: ServerState;
  /** How many turns are running. */
  runningTurns: number;
  /** How many approvals, limits and questions wait for a person. */
  openApprovals: number;
  /** Circuits that are not closed. */
  circuits?: CircuitInfo[];
  /** A line for people. */
  line?: string;
  /** Warnings that concern the server as a whole and still hold. */
  warnings?: ServerWarning[];
}

/** Whether the server works. */
export type ServerState =
  /** No turn is running. */
  | "idle"
  /** A turn is running. */
  | "busy";

/** A warning that concerns the server as a whole. */
export interface ServerWarning {
  /** What it is about, as a stable word. */
  code: string;
  /** What a person should know. */
  message: string;
}

/** What the server announces in `capabilities.experimental.agent` of its answer to `initialize`. */
export interface ServerCapability {
  /** The version of the protocol. */
  protocolVersion: ProtocolVersion;
  /** The requests and notifications that the server takes. */
  methods: string[];
  /** The notifications that the server sends. */
  notifications: string[];
  /** What else the server can do. */
  features: Feature[];
}

/** Something that the lists of methods do not tell. Clients ignore words that they do not know. */
export type Feature =
  /** Prompts may contain images. */
  | "images"
  /** Unsaved text of open documents is what the agent reads. */
  | "unsavedText"
  /** Files open in the editor are changed through `workspace/applyEdit`, where the client can. */
  | "applyEdit"
  /** Prompts may wait for the turn's end (`agent/queue`). */
  | "queue"
  /**
   * What turns change of files is told (`agent/turnDiff`) and can be taken back (`agent/revert`).
   */
  | "checkpoints"
  /** The agent may delegate to sub-agents, whose calls and retries carry `parentToolCallId`. */
  | "subAgents"
  /** API keys are asked for by `agent/getCredential`, where the client can. */
  | "credentials"
  /**
   * What compilers and linters of the editor say is asked for by `agent/getDiagnostics`, where the
   * client can.
   */
  | "diagnostics";

/** The version of the protocol. Another `major` cannot be talked to; another `minor` can. */
export interface ProtocolVersion {
  /** Grows when something that clients rely on goes or changes. */
  major: number;
  /** Grows when something is added. */
  minor: number;
}

/** What a client may announce in `capabilities.experimental.agent` of `initialize`. */
export interface ClientCapability {
  /** What the client does for the server. */
  client?: ClientFlags;
}

/** What the client does for the server beyond what LSP has words for. Unknown flags are ignored. */
export interface ClientFlags {
  /** The client answers `agent/getCredential`, from a store that keeps secrets. */
  getCredential?: boolean;
  /** The client answers `agent/getDiagnostics`. Without it the agent has no tool `diagnostics`. */
  getDiagnostics?: boolean;
  /**
   * The client shows `agent/limitRequested` and `agent/questionRequested` to a person and answers
   * them. Without it nothing is asked but approvals: a limit that is reached ends the turn.
   */
  questions?: boolean;
  /**
   * The client answers `agent/saveDocuments`. With it, and with LSP's `workspace.applyEdit` and
   * `workspace.workspaceEdit.documentChanges`, files that are open in the editor are changed there;
   * without, on the disk where the editor holds no unsaved change, else not at all.
   */
  saveDocuments?: boolean;
}

/**
 * `initializationOptions` of `initialize`: settings as in the configuration file, over the files'
 * ones, and what only the editor knows.
 */
export interface InitializationOptions {
  /**
   * Whether the editor trusts its workspace folders. What was said of a folder with
   * `agent/setTrust` goes before this; of other folders than the workspace's it says nothing.
   */
  trusted?: boolean;
  [name: string]: unknown;
}
