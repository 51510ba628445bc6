// Generated from the server's wire types by `UPDATE_PROTOCOL=1 cargo test --test repository`.
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
  /** Starts a session. Does not wait for the network. */
  newSession: "agent/newSession",
  /** Starts a turn. The answer comes when the turn has ended. */
  prompt: "agent/prompt",
  /**
   * Sends a message to the running turn. It joins the history before the next model call and keeps
   * the turn going.
   */
  steer: "agent/steer",
  /**
   * Manages the prompts that wait for the end of the turn: list, add, edit, remove, send now. At
   * most 100 wait; they survive a restart of the server.
   */
  queue: "agent/queue",
  /**
   * Starts a new turn that continues an interrupted or canceled one. Open approvals, limits and
   * questions are requested again under the same ids. Answered like `agent/prompt`.
   */
  resumeTurn: "agent/resumeTurn",
  /**
   * Starts a turn that only compacts what the model receives: a summary replaces old messages.
   * Answered like `agent/prompt`.
   */
  compact: "agent/compact",
  /** Decides an approval. The first answer wins; an unknown or settled id is an error. */
  approvalRespond: "agent/approvalRespond",
  /** Answers a limit request. The first answer wins; an unknown or settled id is an error. */
  limitRespond: "agent/limitRespond",
  /**
   * Answers a question of the agent. The first answer wins; an unknown or settled id is an error.
   */
  questionRespond: "agent/questionRespond",
  /** Lists the approvals, limits and questions that wait for the user. */
  listApprovals: "agent/listApprovals",
  /** Lists the grants: permissions beyond one call. */
  listGrants: "agent/listGrants",
  /** Revokes a grant. */
  revokeGrant: "agent/revokeGrant",
  /** Lists or searches sessions, the most recently used first. */
  listSessions: "agent/listSessions",
  /**
   * Opens a session: returns a page of its events and its open requests. Its notifications follow
   * from then on.
   */
  loadSession: "agent/loadSession",
  /** Changes the title of a session. */
  renameSession: "agent/renameSession",
  /**
   * Creates a new session from the events of another one, up to the end of a turn. Grants for that
   * session alone are not copied.
   */
  forkSession: "agent/forkSession",
  /** Exports a whole session as one text. */
  exportSession: "agent/exportSession",
  /** Deletes a session permanently. */
  deleteSession: "agent/deleteSession",
  /**
   * Restores the files of a turn and of all later ones to their state before it, except files that
   * the user changed since. Can also undo such a revert. Fails while a turn runs.
   */
  revert: "agent/revert",
  /** Sets how freely the agent may act. */
  setMode: "agent/setMode",
  /**
   * Sets the model and its reasoning effort. A name that cannot be a model is an error that
   * suggests the nearest names.
   */
  setModel: "agent/setModel",
  /**
   * Lists what a folder's own files would activate, and where they would send the user's keys. It
   * only reads: it starts and changes nothing.
   */
  describeTrust: "agent/describeTrust",
  /** Sets whether a workspace folder is trusted, and which of its redirects are accepted. */
  setTrust: "agent/setTrust",
  /** Lists the models to choose from, and the providers with their health. */
  listModels: "agent/listModels",
  /** Lists the configured agents. */
  listAgents: "agent/listAgents",
  /**
   * Lists the slash commands: prompts from the user's and the workspace's files, and of the MCP
   * servers that run.
   */
  listCommands: "agent/listCommands",
  /** Lists the tools. */
  listTools: "agent/listTools",
  /**
   * Lists the MCP servers that the configuration names, also those that it cannot use, with their
   * state. It starts none.
   */
  listMcpServers: "agent/listMcpServers",
  /**
   * Stops an MCP server and starts it again, also one that has failed. One that no session uses
   * starts with the next turn.
   */
  restartMcpServer: "agent/restartMcpServer",
  /**
   * Begins a login at an MCP server. The server then waits for the browser's redirect, and sends
   * `agent/mcpServerUpdated` when the login ends: `ready`, or `needsLogin` with the reason. A login
   * of the same server that already waits ends.
   */
  loginMcpServer: "agent/loginMcpServer",
  /** Ends a login that waits. Has no effect if none does. */
  cancelMcpLogin: "agent/cancelMcpLogin",
  /**
   * Removes the tokens of the login at an MCP server, restarts the server if it runs, and revokes
   * the tokens if the authorization server has a revocation endpoint.
   */
  logoutMcpServer: "agent/logoutMcpServer",
  /** Reads the rest of a cut field. */
  readContent: "agent/readContent",
  /** Returns the server's counters since its start. */
  metrics: "agent/metrics",
  /**
   * Closes a circuit breaker by hand, so that the provider or the tool is called again immediately.
   */
  resetCircuit: "agent/resetCircuit",
  /** Reads the configuration files again. */
  reloadConfig: "agent/reloadConfig",
} as const;

/** Notifications, client to server. */
export const clientNotifications = {
  /**
   * Cancels the running turn. Has no effect if no turn is running, or another one than `turnId`.
   */
  cancel: "agent/cancel",
} as const;

/** Requests, server to client. */
export const serverRequests = {
  /**
   * Requests to save documents after an edit of one without unsaved changes, so that commands see
   * the edit. Only sent if the client announced `saveDocuments`. Counts as failed after 10 s
   * without an answer.
   */
  saveDocuments: "agent/saveDocuments",
  /**
   * Requests the API key of a provider that has none in the configuration or the environment. Only
   * sent if the client announced `getCredential`. After 10 s without an answer, there is no key.
   * The key stays in memory. It is requested again after `agent/reloadConfig`, or if the provider
   * refused it. A missing key is remembered until `agent/reloadConfig`.
   */
  getCredential: "agent/getCredential",
  /**
   * Requests the reports of the client's compilers and linters, for one document or for all. Only
   * sent if the client announced `getDiagnostics`. The tool call fails after 10 s without an
   * answer.
   */
  getDiagnostics: "agent/getDiagnostics",
  /**
   * Asks the language servers of the editor. Only sent if the client announced `languageQueries`.
   * Counts as failed after 5 s without an answer. Then, and when the turn is canceled, the server
   * sends `$/cancelRequest`.
   */
  languageQuery: "agent/languageQuery",
} as const;

/** Notifications, server to client. */
export const serverNotifications = {
  /** A turn started. */
  turnStarted: "agent/turnStarted",
  /** A turn ended. There is exactly one per turn, and nothing of the turn follows it. */
  turnEnded: "agent/turnEnded",
  /** Text of a message in progress. */
  textDelta: "agent/textDelta",
  /** Reasoning of a message in progress. */
  reasoningDelta: "agent/reasoningDelta",
  /** A message of the history, complete or cut. */
  message: "agent/message",
  /**
   * The shown part of a failed attempt was discarded; remove it from the screen. The next attempt
   * has a new `messageId`. Ignore unknown ids.
   */
  messageRetracted: "agent/messageRetracted",
  /** A tool call's input as the model writes it. */
  toolInputDelta: "agent/toolInputDelta",
  /** Live output of a running tool. */
  toolOutputDelta: "agent/toolOutputDelta",
  /** A tool call changed. */
  toolCall: "agent/toolCall",
  /** An effect needs the user's approval. */
  approvalRequested: "agent/approvalRequested",
  /** An approval was settled. */
  approvalResolved: "agent/approvalResolved",
  /**
   * A limit was reached, or a money limit meets an unknown price; the user may raise it. Only sent
   * if the client announced `questions`.
   */
  limitRequested: "agent/limitRequested",
  /** A limit request was settled. */
  limitResolved: "agent/limitResolved",
  /** A question of the agent. Only sent if the client announced `questions`. */
  questionRequested: "agent/questionRequested",
  /** A question was settled. */
  questionResolved: "agent/questionResolved",
  /** The whole plan. */
  plan: "agent/plan",
  /** The file changes of a turn: at its end, and after a revert or a redo. */
  turnDiff: "agent/turnDiff",
  /** A decision of the loop. */
  transition: "agent/transition",
  /** A provider call failed and will be repeated. */
  retry: "agent/retry",
  /** The turn waits for something that is not an error. */
  wait: "agent/wait",
  /** The part of the history that the model receives became smaller; the stored history did not. */
  compacted: "agent/compacted",
  /**
   * Another model answers from now on: the next one of the route took over, or the first one is
   * used again.
   */
  modelSwitched: "agent/modelSwitched",
  /** The turn met a circuit breaker that is open, on trial, or closed again. */
  circuit: "agent/circuit",
  /** Tokens and cost after a step. */
  usage: "agent/usage",
  /**
   * A warning for the user. A warning about the whole server has no session and no number, and also
   * appears in `agent/status`.
   */
  warning: "agent/warning",
  /** The session's own data changed; only what changed is set. */
  sessionUpdated: "agent/sessionUpdated",
  /**
   * The instruction files (`SOUL.md`, `AGENTS.md`, `TOOLS.md`, skills) that the agent received: at
   * the first turn of a session that has any, and whenever one of them has changed.
   */
  instructions: "agent/instructions",
  /** The state of an MCP server changed. States in between may be left out. */
  mcpServerUpdated: "agent/mcpServerUpdated",
  /** The state of the whole server, for a status bar. */
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
  "agent/listMcpServers": { params: ListMcpServersParams; result: ListMcpServersResult };
  "agent/restartMcpServer": { params: RestartMcpServerParams; result: EmptyResult };
  "agent/loginMcpServer": { params: LoginMcpServerParams; result: LoginMcpServerResult };
  "agent/cancelMcpLogin": { params: CancelMcpLoginParams; result: EmptyResult };
  "agent/logoutMcpServer": { params: LogoutMcpServerParams; result: LogoutMcpServerResult };
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
  "agent/languageQuery": { params: LanguageQueryParams; result: LanguageQueryResult };
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
  "agent/mcpServerUpdated": McpServerUpdatedNotification;
  "agent/status": StatusNotification;
}

/** Any notification of the server: a union that `method` tells apart. */
export type ServerNotification = {
  [M in keyof ServerNotificationTypes]: { method: M; params: ServerNotificationTypes[M] };
}[keyof ServerNotificationTypes];

/** Params of `agent/newSession`. */
export interface NewSessionParams {
  /** A configured agent; absent for `default`. */
  agent?: string;
  /** The folder to work in: a URI or an absolute path; absent for the first workspace folder. */
  cwd?: string;
  /** The reasoning effort; absent for the provider's default. */
  effort?: Effort;
  /** How freely the agent may act; absent for the configured mode. */
  mode?: Mode;
  /** A model, as `provider/model`; absent for the agent's. */
  model?: string;
  /**
   * Whether absent values of model, effort and mode come from the user's last choice in this
   * workspace. The mode `full` is not remembered.
   */
  remembered?: boolean;
}

/**
 * The reasoning effort of a model. A model that lacks an effort gets the nearest one that it has,
 * with a warning.
 */
export type Effort =
  /** No reasoning. */
  | "none"
  /** Hardly any reasoning. */
  | "minimal"
  /** Little reasoning. */
  | "low"
  /** As much reasoning as needed. */
  | "medium"
  /** Long reasoning. */
  | "high"
  /** Longer reasoning. */
  | "xhigh"
  /** As much reasoning as the model can do. */
  | "max";

/** How freely the agent may act. */
export type Mode =
  /** The agent only reads. */
  | "plan"
  /** Reading is free; commands, writes and network access need approval. */
  | "ask"
  /** Edits inside the workspace are free too, and commands that the sandbox confines in full. */
  | "autoEdit"
  /** Everything is free. */
  | "full";

/** Result of `agent/newSession`. */
export interface NewSessionResult {
  /** The session. */
  sessionId: string;
  /** How freely the agent may act. */
  mode: Mode;
  /** Number of the session's last event; 0 if there is none. Notifications continue from there. */
  seq: number;
  /** The reasoning effort; absent for the provider's default. */
  effort?: Effort;
  /** The model; absent until it is known, when `agent/sessionUpdated` reports it. */
  model?: string;
}

/** Params of `agent/prompt`. */
export interface PromptParams {
  /** The session. */
  sessionId: string;
  /** The user's input. */
  prompt: PromptContent;
}

/** The user's input: plain text, or a list of blocks. */
export type PromptContent = string | PromptBlock[];

/** A part of the user's input. */
export type PromptBlock =
  /** Text. */
  | {
      type: "text";
      /** The text. */
      text: string;
    }
  /** A file or a part of it. The server reads it, including the editor's unsaved text. */
  | {
      type: "reference";
      /** The file's URI. */
      uri: string;
      /** The part, extended to whole lines; absent for the whole file. */
      range?: Range;
    }
  /** The user's selection in the editor. */
  | {
      type: "selection";
      /** The file's URI. */
      uri: string;
      /** The selected range. */
      range: Range;
      /** The selected text; if absent, the server reads the lines of `range`. */
      text?: string;
    }
  /** A diagnostic that the editor shows. */
  | {
      type: "diagnostic";
      /** The file's URI. */
      uri: string;
      /** The range that it is about. */
      range: Range;
      /** Its message. */
      message: string;
      /** Its severity. */
      severity?: Severity;
      /** Its source: a compiler or a linter. */
      source?: string;
    }
  /** An image. */
  | {
      type: "image";
      /** `image/png`, `image/jpeg`, `image/gif` or `image/webp`. */
      mediaType: string;
      /** The bytes in Base64, with padding, without line breaks. */
      data: string;
    };

/** A range in a document, as in LSP: the end is exclusive. */
export interface Range {
  /** The start of the range. */
  start: Position;
  /** The position after its last character. */
  end: Position;
}

/** A position in a document, as in LSP. */
export interface Position {
  /** The line, from 0. */
  line: number;
  /** The character in the line, from 0, in the units of the negotiated position encoding. */
  character: number;
}

/** The severity of a diagnostic or a problem. */
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
 * The end of a turn. It answers `agent/prompt`, `agent/resumeTurn` and `agent/compact`, and is the
 * `data` of the error that answers them after `$/cancelRequest`.
 */
export interface PromptResult {
  /** The turn. */
  turnId: string;
  /** The reason why it ended. */
  reason: TerminalReason;
  /** The outcome in one word. */
  state: TurnState;
  /** The full text of the final answer; empty if there is none. */
  text: string;
  /** Tokens of the turn. */
  usage: TokenUsage;
  /** Cost of the turn in US dollars; absent if the model's price is unknown. */
  costUsd?: number;
  /** The error, if there was one. */
  error?: ErrorData;
  /** Only for `agent/compact`: estimated tokens of the conversation after. */
  tokensAfter?: number;
  /**
   * Only for `agent/compact`: estimated tokens of the conversation before; absent if nothing was
   * left out.
   */
  tokensBefore?: number;
}

/**
 * An error with everything that a client needs to show it and to suggest a remedy. It is the `data`
 * of a JSON-RPC error and the `error` of a turn's end.
 */
export interface ErrorData {
  /** The error as a stable code. */
  code: ErrorCode;
  /** The error, for the user. */
  message: string;
  /** The possible reaction. */
  class: ErrorClass;
  /** The number of attempts made. */
  attempts?: number;
  /** The underlying cause. */
  cause?: string;
  /** The wrong parameter, with `badParams`. */
  field?: string;
  /** The holder of the session, with `sessionLocked`. */
  holder?: string;
  /** The model's name. */
  model?: string;
  /** The provider's name in the configuration. */
  provider?: string;
  /** The reason why the request was not accepted; only in the `data` of a JSON-RPC error. */
  refusal?: Refusal;
  /** The provider's id of the request, for its support. */
  requestId?: string;
  /** When a used-up quota resets, in ms since the Unix epoch. */
  resetAt?: number;
  /** The wait that the provider requests, in ms. */
  retryAfterMs?: number;
  /** HTTP status of the provider's response. */
  status?: number;
  /** What the user can do; alternatives are on separate lines. */
  userAction?: string;
}

/** The possible reaction to an error. */
export type ErrorClass =
  /** The same request may succeed later. */
  | "retryable"
  /** It does not resolve by itself. */
  | "terminal"
  /** The turn continued. */
  | "non_fatal";

/** A stable error code. */
export type ErrorCode =
  /** The limit of steps was reached. */
  | "max_iterations"
  /** The provider's API failed. */
  | "provider_error"
  /** A tool failed, and the policy ends the turn in that case. */
  | "tool_execution"
  /** The prompt does not fit the model's window. */
  | "context_limit"
  /** A money limit was reached. */
  | "budget_exceeded"
  /** The user canceled. */
  | "cancelled"
  /** The provider's circuit breaker is open. */
  | "circuit_open"
  /** The provider's quota or credit is used up. */
  | "quota_exhausted"
  /** The model's answer was empty. */
  | "empty_response"
  /** The limit of tool calls was reached. */
  | "tool_calls_exceeded"
  /** The time limit was reached. */
  | "wall_time_exceeded"
  /** The configuration is incomplete or wrong. */
  | "config"
  /** The session's state does not allow it. */
  | "session"
  /** The request violates the protocol. */
  | "protocol"
  /** The store could not be read or written. */
  | "store"
  /** The server has a bug. */
  | "internal";

/** The reason why a request was not accepted, as a stable value for programs. */
export type Refusal =
  /** `initialize` and `initialized` must come first. */
  | "notInitialized"
  /** The server is shutting down. */
  | "shuttingDown"
  /** A parameter is missing or wrong; `field` names it. */
  | "badParams"
  /** There is no such session. */
  | "unknownSession"
  /** The session is open in another server; `holder` names it. */
  | "sessionLocked"
  /** The session was loaded with `readOnly`. */
  | "sessionReadOnly"
  /** A turn is running; use `agent/steer` to talk to it. */
  | "turnRunning"
  /** No turn is running. */
  | "noTurn"
  /** The request expects another turn than the running one. */
  | "staleTurn"
  /** The last turn cannot be continued. */
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
  /** No circuit has this name. */
  | "unknownCircuit"
  /** No content has this name. */
  | "unknownContent"
  /** The session has no such turn. */
  | "unknownTurn"
  /** The turn was not reverted. */
  | "nothingToRedo"
  /** No turn of the session has ended. */
  | "nothingToFork"
  /** No prompt with that id is waiting: it was sent or removed. */
  | "unknownPrompt"
  /** The queue is full. */
  | "queueFull";

/** The reason why a turn ended. */
export type TerminalReason =
  /** There was nothing more to do. */
  | "completed"
  /** The prompt does not fit the window. */
  | "prompt_too_long"
  /** The answer was cut at the output limit; the partial text is kept. */
  | "max_output_tokens"
  /** The provider failed permanently. */
  | "model_error"
  /** The answer was empty. */
  | "empty_response"
  /** The API still refuses the image. */
  | "image_error"
  /** The model or a filter declined to answer. */
  | "refused"
  /** The user canceled while the model streamed, or before. */
  | "aborted_streaming"
  /** The user canceled while tools ran. */
  | "aborted_tools"
  /** A stop hook ended the turn. */
  | "stop_hook_prevented"
  /** A hook ended the turn. */
  | "hook_stopped"
  /** A tool failed, and the policy ends the turn in that case. */
  | "tool_failed"
  /** A sub-agent failed, and the policy ends the turn in that case. */
  | "subagent_failed"
  /** Too few sub-agents succeeded. */
  | "join_violated"
  /** The window is full, and automatic compaction is off. */
  | "blocking_limit"
  /** The limit of steps was reached. */
  | "max_turns"
  /** A money limit was reached. */
  | "budget_exceeded"
  /** The limit of tool calls was reached. */
  | "max_tool_calls"
  /** The time limit was reached. */
  | "wall_time"
  /** The user chose to stop at a question. */
  | "stopped_by_user"
  /** No provider is configured. */
  | "not_configured"
  /** The store is gone and keeps no more events. */
  | "store_failed"
  /** The server ended or crashed. */
  | "server_stopped"
  /** The server has a bug. */
  | "internal_error";

/** The outcome of a turn, in one word. */
export type TurnState =
  /** It did what was requested. */
  | "completed"
  /** It failed. */
  | "failed"
  /** There is an answer, but it does less than requested. */
  | "degraded"
  /** A limit, the user's choice at a question, or the end of the server stopped it. */
  | "interrupted"
  /** The user canceled it. */
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
  /** The user's addition. */
  prompt: PromptContent;
  /**
   * The turn that it is meant for; the request fails if that turn is not running. Absent for any
   * running turn.
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
  /** The action. */
  action: QueueAction;
  /** The user's prompt; required by `add` and `edit`. */
  prompt?: PromptContent;
  /** The prompt; required by `edit` and `remove`. */
  promptId?: string;
}

/** An action on the queue. */
export type QueueAction =
  /** Changes nothing and returns the queue. */
  | "list"
  /**
   * Appends `prompt`. It starts immediately if no turn is running, nothing else waits and the queue
   * is not paused.
   */
  | "add"
  /** Replaces the prompt named by `promptId` with `prompt`. */
  | "edit"
  /** Removes the prompt named by `promptId`. */
  | "remove"
  /**
   * Sends the prompt named by `promptId`, or the next one, now, and resumes the queue. A running
   * turn gets it as a steer; otherwise it starts a turn of its own. If a turn is being canceled,
   * the prompt waits for its end.
   */
  | "sendNow";

/** Result of `agent/queue`: the queue after the action. */
export interface QueueResult {
  /**
   * Whether the queue waits for `sendNow`, because the last turn was canceled, failed or was
   * interrupted. A later turn that completes also resumes it.
   */
  paused: boolean;
  /** The waiting prompts, the next one first. */
  prompts: QueuedContent[];
  /** The prompt that was added. */
  promptId?: string;
  /** The turn that took the prompt: one that it started, or the running one. */
  turnId?: string;
}

/** A waiting prompt with its full content. */
export interface QueuedContent {
  /** The id to edit, remove or send it by. */
  promptId: string;
  /** The user's prompt. */
  content: MessageBlock[];
}

/** A part of a message in the history. */
export type MessageBlock =
  /** Text; the model writes Markdown. */
  | {
      type: "text";
      /** The text. */
      text: string;
      /** References to the full text of cut fields. */
      more?: Record<string, TruncatedField>;
    }
  /** The model's reasoning, as far as its provider reveals it. */
  | {
      type: "reasoning";
      /** The text; empty if the provider hides it. */
      text: string;
      /** References to the full text of cut fields. */
      more?: Record<string, TruncatedField>;
    }
  /** The model requests a tool. `agent/toolCall` reports the progress. */
  | {
      type: "toolUse";
      /** The call. */
      toolCallId: string;
      /** The tool's name. */
      name: string;
      /** The arguments; long strings in them may be cut. */
      input: unknown;
      /** References to the full text of cut fields. */
      more?: Record<string, TruncatedField>;
    }
  /** A tool call has its result, which is in that call's `agent/toolCall`. */
  | {
      type: "toolResult";
      /** The tool call. */
      toolCallId: string;
      /** Whether the result is an error to the model. */
      isError: boolean;
    }
  /** An image. */
  | ({ type: "image" } & Image)
  /**
   * A place in a file that the user points at, or content of an MCP server, with its text at that
   * time.
   */
  | {
      type: "reference";
      /** The kind of the target. */
      kind: ReferenceKind;
      /**
       * The file's path: relative to the session's folder, `rootName/path` in another root,
       * absolute elsewhere. Not a path for content of an MCP server: `server:uri` of a resource,
       * `server/name` of a prompt.
       */
      path: string;
      /** The text, or the message of a diagnostic. */
      text: string;
      /** The last line, from 1. */
      endLine?: number;
      /** References to the full text of cut fields. */
      more?: Record<string, TruncatedField>;
      /** The first line, from 1; absent for the whole file. */
      startLine?: number;
    };

/** A reference to the full text of a cut field. */
export interface TruncatedField {
  /** The `ref` for `agent/readContent`. */
  ref: string;
  /** Length of the full text, in UTF-8 bytes. */
  bytes: number;
  /**
   * The end of the full text, at most 64 KiB; only for output. It never overlaps with the
   * beginning.
   */
  tail?: string;
}

/** An image. */
export interface Image {
  /** `image/png`, `image/jpeg`, `image/gif` or `image/webp`. */
  mediaType: string;
  /** The bytes in Base64. Absent if they are too long; then `more.data` refers to them. */
  data?: string;
  /** References to the full text of cut fields. */
  more?: Record<string, TruncatedField>;
}

/** The kind of a reference's target. */
export type ReferenceKind =
  /** A file or a range of it. */
  | "file"
  /** The user's selection. */
  | "selection"
  /** A diagnostic from the editor. */
  | "diagnostic"
  /** A resource of an MCP server. */
  | "resource"
  /** A prompt of an MCP server, which the user has called as a slash command. */
  | "prompt";

/** Params of `agent/resumeTurn`. */
export interface ResumeTurnParams {
  /** The session whose last turn was interrupted or canceled. */
  sessionId: string;
}

/** Params of `agent/compact`. */
export interface CompactParams {
  /** The session. */
  sessionId: string;
  /** What the summary should keep, for the model that writes it. */
  instructions?: string;
}

/** Params of `agent/approvalRespond`. */
export interface ApprovalRespondParams {
  /** The approval. */
  approvalId: string;
  /** The user's decision. */
  decision: Decision;
  /** What the model reads; only with `deny`. */
  feedback?: string;
  /** The full edited arguments; not with `deny`. */
  input?: unknown;
  /** The rule to add instead of the offered one; only with `allowSession` and `allowAlways`. */
  rule?: string;
}

/** The user's decision. */
export type Decision =
  /** Allows this call. */
  | "allow"
  /** Allows it for the rest of the session. */
  | "allowSession"
  /** Allows it from now on in this workspace. */
  | "allowAlways"
  /** Denies this call. */
  | "deny";

/** The answer to a request that returns no data. */
export interface EmptyResult {
}

/**
 * Params of `agent/limitRespond`: one of `raiseBy` and `stop`. For `unknown_price`, neither means
 * to continue.
 */
export interface LimitRespondParams {
  /** The limit request. */
  limitId: string;
  /**
   * The increase: US dollars, steps, calls or seconds. It lasts for the turn, session or day that
   * the limit covers.
   */
  raiseBy?: number;
  /** Whether the limit stays and the turn ends. */
  stop?: boolean;
}

/** Params of `agent/questionRespond`: one of `answers` and `dismissed`. */
export interface QuestionRespondParams {
  /** The question. */
  questionId: string;
  /**
   * The answers by field name. Each is a list, with one entry unless several choices are allowed.
   */
  answers?: Record<string, string[]>;
  /** Whether the user declines to answer. */
  dismissed?: boolean;
}

/** Params of `agent/listApprovals`. */
export interface ListApprovalsParams {
  /** Only those of this session; absent for all sessions that no other server has open. */
  sessionId?: string;
}

/** Result of `agent/listApprovals`. */
export interface ListApprovalsResult {
  /** The open approvals, oldest first, as they were requested. */
  approvals: ApprovalRequestedNotification[];
  /** The limits that wait for an answer. */
  limits?: LimitRequestedNotification[];
  /** The questions that wait for an answer. */
  questions?: QuestionRequestedNotification[];
}

/** Params of `agent/approvalRequested`. */
export interface ApprovalRequestedNotification {
  /** The session that it belongs to. */
  sessionId: string;
  /** Its number in the session. Numbers start at 1, without gaps or repeats. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** Its id; it stays the same if the request is repeated after a restart. */
  approvalId: string;
  /** The waiting call. */
  toolCallId: string;
  /** The tool's name. */
  name: string;
  /** The arguments of the call; long strings in them may be cut. */
  input: unknown;
  /** One line for the user. */
  title: string;
  /** The folder in which it would run. */
  cwd: string;
  /** The possible harm. */
  risk: Risk;
  /** The reason for the request, for the user. */
  why: string;
  /** The planned changes, as a unified diff. */
  diff?: string;
  /**
   * What the command would delete or overwrite for good, largest first; at most 20 entries. What a
   * revert brings back is not listed. `why` names the first three.
   */
  loses?: Loss[];
  /** What `loses` leaves out. Absent if it lists all. */
  losesMore?: MoreLosses;
  /** References to the full text of cut fields. */
  more?: Record<string, TruncatedField>;
  /**
   * Options of the call that change its effect, and how its command or its MCP server is confined,
   * as short phrases: `keeps running in the background`, `runs in the sandbox (full, writes in the
   * workspace)`.
   */
  options?: string[];
  /**
   * The reasons in `why` that are not losses, for clients that show `loses`. Absent if there are
   * none.
   */
  otherWhy?: string;
  /**
   * The rule that `allowSession` and `allowAlways` would add. Absent if there is none; then do not
   * offer those two.
   */
  rule?: string;
  /**
   * The full command line or URL as the user should read it. Characters that are invisible or
   * change the reading order are written out (`<U+202E>`). Show this instead of `input`. Absent for
   * tools that have neither.
   */
  shown?: string;
  /** The turn that caused it; absent if no turn did. */
  turnId?: string;
}

/** Something that a command would delete or overwrite for good. */
export interface Loss {
  /** A path, or what it is in words: `an entry of the stash`. */
  what: string;
  /** The size of the file in bytes. Absent if it is not a file, or if the size is unknown. */
  bytes?: number;
}

/** Losses that a list leaves out. */
export interface MoreLosses {
  /** How many are known. */
  count: number;
  /** Whether there may be more than `count`: not everything was looked at. */
  isPartial: boolean;
}

/** The possible harm of an effect, judged by what it touches. */
export type Risk =
  /** It only reads, inside the workspace. */
  | "low"
  /** It changes files inside the workspace, or runs a program without signs of more. */
  | "medium"
  /**
   * It uses the network, secrets, privileges, files outside the workspace or files that make
   * programs run. Also a recursive deletion, or a command that cannot be fully parsed.
   */
  | "high";

/** Params of `agent/limitRequested`. */
export interface LimitRequestedNotification {
  /** The session that it belongs to. */
  sessionId: string;
  /** Its number in the session. Numbers start at 1, without gaps or repeats. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** Its id; it stays the same if the request is repeated after a restart. */
  limitId: string;
  /** The limit. */
  limit: LimitName;
  /**
   * The amount used, with the estimate of a call that was not made: US dollars, steps, calls or
   * seconds.
   */
  used: number;
  /** The allowed amount; 0 for `unknown_price`. */
  max: number;
  /** One line for the user. */
  message: string;
  /** The model that is affected, as `provider/model`. */
  model?: string;
  /** The call that delegated to the sub-agent that asks; absent if the turn itself asks. */
  parentToolCallId?: string;
  /** The provider that is affected. */
  provider?: string;
  /** The turn that caused it; absent if no turn did. */
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
  /** A money limit is set, and the model's price is unknown. */
  | "unknown_price";

/** Params of `agent/questionRequested`. */
export interface QuestionRequestedNotification {
  /** The session that it belongs to. */
  sessionId: string;
  /** Its number in the session. Numbers start at 1, without gaps or repeats. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** Its id; it stays the same if the request is repeated after a restart. */
  questionId: string;
  /** The question. */
  text: string;
  /** The fields to answer. */
  fields: QuestionField[];
  /** More detail. */
  detail?: string;
  /** References to the full text of cut fields. */
  more?: Record<string, TruncatedField>;
  /** The call that delegated to the sub-agent that asks; absent if the turn itself asks. */
  parentToolCallId?: string;
  /** The call that waits for the answer. */
  toolCallId?: string;
  /** The turn that caused it; absent if no turn did. */
  turnId?: string;
}

/** One field of a question. */
export interface QuestionField {
  /** The key of its answer. */
  name: string;
  /** The choices; empty for free text. */
  choices?: QuestionChoice[];
  /** The answer that an empty one stands for; empty if there is none. */
  default?: string[];
  /** Whether free text is allowed instead of a choice. */
  free?: boolean;
  /** The label for the user; empty if the question needs none. */
  label?: string;
  /** Whether an answer is required. */
  required?: boolean;
  /**
   * What a JSON Schema says about a field of a form: `title`, `description`, `type`, `format`,
   * `minimum`, and so on. The label says the same in words.
   */
  schema?: unknown;
  /** Whether several choices are allowed. */
  several?: boolean;
}

/** A choice of a question's field. */
export interface QuestionChoice {
  /** The value for the answer. */
  value: string;
  /** The label for the user. */
  label: string;
}

/** Params of `agent/listGrants`. */
export interface ListGrantsParams {
  /** The session whose grants are listed; absent for all grants of workspace folders. */
  sessionId?: string;
}

/** Result of `agent/listGrants`. */
export interface ListGrantsResult {
  /** The grants, newest first. */
  grants: Grant[];
}

/** A permission of the user beyond one call. */
export interface Grant {
  /** Its id, for `agent/revokeGrant`. */
  grantId: string;
  /** The rule, as in the configuration: `bash(git status *)`. */
  rule: string;
  /** Its reach. */
  scope: GrantScope;
  /** The workspace folder that it was given for. */
  folder: string;
  /** When it was given, in ms since the Unix epoch. */
  grantedAt: number;
}

/** The reach of a grant. */
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
  /** `nextCursor` of the previous page; absent for the first page. */
  cursor?: string;
  /** Only sessions that work in this folder: a URI or an absolute path. */
  cwd?: string;
  /** Largest number of sessions: 50 by default, at most 200. */
  limit?: number;
  /** Words to search for in titles, prompts and final answers. */
  query?: string;
}

/** Result of `agent/listSessions`. */
export interface ListSessionsResult {
  /** The sessions, the most recently used first. */
  sessions: SessionInfo[];
  /** The `cursor` of the next page; absent on the last page. */
  nextCursor?: string;
}

/** A session in a list. */
export interface SessionInfo {
  /** The session. */
  sessionId: string;
  /** The folder that it works in. */
  cwd: string;
  /** When it was created, in ms since the Unix epoch. */
  createdAt: number;
  /** The time of its last event, in ms since the Unix epoch. */
  updatedAt: number;
  /** Whether a turn is running in this server. */
  running?: boolean;
  /** The text around the match of `query`, for the user. */
  snippet?: string;
  /** Its title; absent before the first prompt. */
  title?: string;
}

/**
 * Params of `agent/loadSession`. The page consists of the last `tail` events after `afterSeq` and
 * before `beforeSeq`.
 */
export interface LoadSessionParams {
  /** The session. */
  sessionId: string;
  /**
   * Only events after this number, which the client already has. If more than `tail` followed, the
   * page leaves a gap, and the client starts over with it.
   */
  afterSeq?: number;
  /** Only events before this number, for an earlier page. */
  beforeSeq?: number;
  /**
   * Whether to only look. This needs no lock, so it works while another server has the session. No
   * notifications follow.
   */
  readOnly?: boolean;
  /**
   * Largest number of events: 200 by default (1,000 with `afterSeq`), at most 1,000; 0 for none.
   */
  tail?: number;
}

/** Result of `agent/loadSession`. */
export interface LoadSessionResult {
  /** A page of the durable events, oldest first. They are not sent again as notifications. */
  events: EventRecord[];
  /** Whether there are events before the page. */
  hasEarlier: boolean;
  /**
   * Approvals that wait for the user, as they were requested, including those from before the page.
   */
  openApprovals: ApprovalRequestedNotification[];
  /** Number of the session's last event. Notifications continue from there. */
  seq: number;
  /** The session as it is now. */
  state: SessionState;
  /**
   * The files behind the last turn's instructions, as in `agent/instructions`, which may precede
   * the page. Also absent until a turn runs in this server, because until then the server has not
   * read all events of the session.
   */
  instructions?: InstructionFile[];
  /** Limits that wait for an answer. */
  openLimits?: LimitRequestedNotification[];
  /** Questions that wait for an answer. */
  openQuestions?: QuestionRequestedNotification[];
  /** The message in progress. */
  partial?: PartialMessage;
}

/** A durable event, as its notification. */
export interface EventRecord {
  /** The notification's method. */
  method: string;
  /** The notification's params. */
  params: unknown;
}

/** An instruction file, as it was read. */
export interface InstructionFile {
  /** Its absolute path. */
  path: string;
  /** Its purpose. */
  kind: InstructionKind;
  /** Bytes of it that are used; 0 if it was left out. */
  bytes: number;
  /** Whether it belongs to the user, or lies in a folder that the user trusts. */
  trusted: boolean;
  /** The name of a skill. */
  name?: string;
  /** The reason why it was cut or left out. */
  problem?: string;
}

/** The purpose of an instruction file. */
export type InstructionKind =
  /** The `prompt_file` of a named agent, which replaces the built-in instructions. */
  | "prompt"
  /** `SOUL.md`: who the agent is. */
  | "soul"
  /** `AGENTS.md`: how to work here. */
  | "agents"
  /** `TOOLS.md`: how to use the tools. */
  | "tools"
  /** The `SKILL.md` of a skill. */
  | "skill";

/** A message in progress. The following deltas continue where it ends. */
export interface PartialMessage {
  /** The message. */
  messageId: string;
  /** Its text, from `offset`. */
  text: string;
  /** UTF-8 bytes of the message's text before `text`; 0 if `text` is complete. */
  offset: number;
  /** Its reasoning so far. */
  reasoning?: string;
}

/** The current state of a session. */
export interface SessionState {
  /** The folder that it works in. */
  cwd: string;
  /** How freely the agent may act. */
  mode: Mode;
  /** Tokens used in total. */
  usage: TokenUsage;
  /** Their cost in US dollars; absent if the cost of any call is unknown. */
  costUsd?: number;
  /** The reasoning effort; absent for the provider's default. */
  effort?: Effort;
  /** The model, as `provider/model`; absent until it is known. */
  model?: string;
  /** The prompts that wait for the end of the turn; absent if there are none. */
  queue?: QueueState;
  /** The last turn, if `agent/resumeTurn` can continue it. */
  resumableTurnId?: string;
  /** The turn that is running. */
  runningTurnId?: string;
  /** Its title; absent before the first prompt. */
  title?: string;
}

/** The queue as clients show it. */
export interface QueueState {
  /**
   * Whether it starts nothing by itself, because the last turn was canceled, failed or was
   * interrupted.
   */
  paused: boolean;
  /** The waiting prompts, the next one first. */
  prompts: QueuedPrompt[];
}

/** A waiting prompt as clients show it. `agent/queue` returns its full content. */
export interface QueuedPrompt {
  /** The id to edit, remove or send it by. */
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
  /** The last turn of the new session; absent for the last turn that has ended. */
  turnId?: string;
}

/** Result of `agent/forkSession`. */
export interface ForkSessionResult {
  /** The new session; load it with `agent/loadSession`. */
  sessionId: string;
  /** Its title. */
  title?: string;
}

/** Params of `agent/exportSession`. */
export interface ExportSessionParams {
  /** The session. */
  sessionId: string;
  /** The format; Markdown by default. */
  format?: ExportFormat;
}

/** The format of an exported session. */
export type ExportFormat =
  /** For people: the conversation and the tool calls. */
  | "markdown"
  /** For programs: the session and all its events, as uncut notifications. */
  | "json";

/** Result of `agent/exportSession`. */
export interface ExportSessionResult {
  /** The exported session. */
  text: string;
}

/** Params of `agent/deleteSession`. */
export interface DeleteSessionParams {
  /** The session; a running turn is canceled first. */
  sessionId: string;
}

/** Params of `agent/revert`. */
export interface RevertParams {
  /** The session. */
  sessionId: string;
  /** The turn. All later turns are reverted with it. */
  turnId: string;
  /** Whether to only report what would be done. */
  dryRun?: boolean;
  /** Whether to redo the changes that the last revert of this turn undid. */
  redo?: boolean;
}

/** Result of `agent/revert`. */
export interface RevertResult {
  /** The turns whose changes are affected, the first one first. */
  turnIds: string[];
  /**
   * The files that were restored, or would be with `dryRun`. Files that already match are not
   * listed.
   */
  files: RevertedFile[];
  /** The files that were left unchanged. */
  conflicts: RevertConflict[];
}

/** A file that was left unchanged. */
export interface RevertConflict {
  /** The file's path, as in `agent/turnDiff`. */
  path: string;
  /** The file's URI. */
  uri: string;
  /** The reason, for the user. */
  why: string;
}

/** A file that was restored. */
export interface RevertedFile {
  /** The file's path, as in `agent/turnDiff`. */
  path: string;
  /** The file's URI. */
  uri: string;
  /** What was done to it. */
  kind: ChangeKind;
}

/** The kind of a file's change. */
export type ChangeKind =
  /** The file is new. */
  | "created"
  /** Its content or its mode changed. */
  | "modified"
  /** The file was deleted. */
  | "deleted";

/** Params of `agent/setMode`. */
export interface SetModeParams {
  /** The session. */
  sessionId: string;
  /** The mode; it applies from the next tool call. */
  mode: Mode;
}

/** Params of `agent/setModel`. */
export interface SetModelParams {
  /** The session. */
  sessionId: string;
  /** The model, as `provider/model`; it applies from the next model call. */
  model: string;
  /** The reasoning effort; absent for the provider's default. */
  effort?: Effort;
}

/** Params of `agent/describeTrust`. */
export interface DescribeTrustParams {
  /** The workspace folder: its URI or absolute path. */
  folder: string;
}

/**
 * Result of `agent/describeTrust`. All texts show control and invisible characters as visible
 * escapes.
 */
export interface DescribeTrustResult {
  /** The folder's path. */
  folder: string;
  /** Whether it is trusted now. */
  trusted: boolean;
  /** What its own files activate once it is trusted. */
  activates: TrustItem[];
  /** Where its own files send the user's keys. Each redirect needs a separate question. */
  redirects: ProviderRedirect[];
}

/** Something that a folder's own files activate once the folder is trusted. */
export interface TrustItem {
  /** Its kind. */
  kind: TrustItemKind;
  /**
   * The name of the hook or tool, or the key of the setting; for git also `hooks/NAME`, or
   * `repository` for one whose settings cannot be examined.
   */
  name: string;
  /** When it runs, or the value that it sets; and the file and line. */
  detail: string;
  /** The command that it runs. */
  command?: string;
}

/**
 * The kind of a thing that a folder's files activate. Later versions add kinds: show an unknown one
 * by `name` and `detail`.
 */
export type TrustItemKind =
  /** A command that runs at a fixed point of every turn. */
  | "hook"
  /** A tool whose call runs a command. */
  | "tool"
  /**
   * An MCP server: a program that starts (`command`), or an address that is contacted (in
   * `detail`).
   */
  | "mcpServer"
  /** Another setting that an untrusted folder may not set. */
  | "setting"
  /**
   * A setting or hook of a git repository in the folder, which git follows only if the folder is
   * trusted.
   */
  | "gitSetting";

/** A folder's attempt to send one of the user's keys to another address. */
export interface ProviderRedirect {
  /** The provider; `*` if a proxy or certificates affect all of them. */
  provider: string;
  /** Where the folder sends them. Show it in full, and send it back exactly to accept it. */
  to: string;
  /** The user's data that would go there, each as a short phrase. */
  sends: string[];
  /** Whether the user accepted it. Until then it is ignored, with a warning. */
  accepted: boolean;
  /**
   * Where the user's own configuration sends requests; absent if only the folder names this
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
   * Redirects that the user accepted, each after a separate question. Trust alone accepts none. An
   * accepted redirect stays so until the folder names another address or loses its trust.
   */
  acceptRedirects?: AcceptedRedirect[];
}

/** A redirect that the user accepts. */
export interface AcceptedRedirect {
  /** The provider, as `agent/describeTrust` named it. */
  provider: string;
  /** The target, exactly as `agent/describeTrust` named it. */
  to: string;
}

/** Params of `agent/listModels`. */
export interface ListModelsParams {
  /**
   * The provider whose address and key are tested first, by one request that costs nothing. Its
   * `health` and `message` report the result. Takes at most 15 s.
   */
  check?: string;
  /**
   * Whether to first request the list of every provider that has a key. Takes at most 5 s. A
   * provider that does not answer counts as having no list.
   */
  live?: boolean;
  /**
   * The session whose configuration applies, with its model marked; absent for the user's
   * configuration.
   */
  sessionId?: string;
}

/** Result of `agent/listModels`. */
export interface ListModelsResult {
  /** The models to choose from. */
  models: ModelInfo[];
  /** The configured providers. */
  providers: ProviderInfo[];
}

/** A model to choose from. */
export interface ModelInfo {
  /** The name for `agent/setModel`: `provider/model`. */
  model: string;
  /** The provider's name in the configuration. */
  provider: string;
  /** Size of its context window, in tokens. */
  contextWindow?: number;
  /** Whether it is the session's model, or the default one. */
  current?: boolean;
  /** Whether the provider's own list contains it; absent while that list is unknown. */
  listed?: boolean;
  /** Its output limit, in tokens. */
  maxOutputTokens?: number;
  /** The price of its tokens; absent if unknown. */
  price?: Price;
  /** The source of its price; absent from older servers. */
  pricing?: Pricing;
}

/** Prices of a model's tokens, in US dollars per million. */
export interface Price {
  /** Input without a cache. */
  input: number;
  /** Output. */
  output: number;
  /** Input read from the prompt cache. */
  cacheRead: number;
  /** Input written to the prompt cache. */
  cacheWrite: number;
}

/** The source of a model's price. */
export type Pricing =
  /** The vendor's list price, regardless of who serves the model. */
  | "list"
  /** The configuration. */
  | "configured"
  /** The model is free: a local engine runs it. */
  | "free"
  /** The price is unknown. */
  | "unknown";

/** A configured provider. */
export interface ProviderInfo {
  /** Its name in the configuration. */
  provider: string;
  /** The kind of its API. */
  kind: string;
  /** Its health. */
  health: ProviderHealth;
  /** The state of its account's circuit breaker, while it is not closed. */
  circuit?: CircuitInfo;
  /** More detail for the user: what fails, or what is missing. */
  message?: string;
}

/** The state of a circuit breaker. */
export interface CircuitInfo {
  /** The kind of the guarded thing. */
  subject: CircuitSubject;
  /** The name of the provider or the tool. */
  name: string;
  /** Its state. */
  state: CircuitState;
  /** When an open circuit lets a trial call through, in ms since the Unix epoch. */
  until?: number;
}

/** The state of a circuit breaker. */
export type CircuitState =
  /** Calls pass. */
  | "closed"
  /** No call passes, because the provider or the tool failed too often in a row. */
  | "open"
  /** One call passes as a trial. Its outcome closes the circuit or opens it again. */
  | "halfOpen";

/** The kind of thing that a circuit breaker guards. */
export type CircuitSubject =
  /** The account of a provider. */
  | "provider"
  /** A tool. */
  | "tool";

/** The health of a provider. */
export type ProviderHealth =
  /** It has not been called. */
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
   * The session whose folder's agents are listed, with its own marked; absent for the first
   * workspace folder.
   */
  sessionId?: string;
}

/** Result of `agent/listAgents`. */
export interface ListAgentsResult {
  /** The agents of the configuration, `default` first. */
  agents: AgentInfo[];
}

/** A configured agent. */
export interface AgentInfo {
  /** Its name, for `agent/newSession`. */
  name: string;
  /** The initial mode of its sessions. */
  mode: Mode;
  /** Its tools. */
  tools: string[];
  /** Whether it is the session's agent. */
  current?: boolean;
  /** Its purpose. */
  description?: string;
  /** The model that it sets. */
  model?: string;
  /** The provider that it sets. */
  provider?: string;
}

/** Params of `agent/listCommands`. */
export interface ListCommandsParams {
  /** The session whose commands are listed; absent for the first workspace folder. */
  sessionId?: string;
}

/** Result of `agent/listCommands`. */
export interface ListCommandsResult {
  /** The commands, by name. */
  commands: CommandInfo[];
}

/**
 * A prompt stored as a slash command: a file, or a prompt of an MCP server that runs. A prompt that
 * starts with `/` and its name expands to it.
 */
export interface CommandInfo {
  /** Its name, without the `/`. */
  name: string;
  /** Whether it belongs to the user, or lies in a folder that the user trusts. */
  trusted: boolean;
  /** A hint at its arguments. */
  argumentHint?: string;
  /**
   * Its arguments, in order, if a server defines them. The last one takes the rest of the words.
   */
  arguments?: CommandArgument[];
  /** Its purpose. */
  description?: string;
  /** The absolute path of its file. */
  path?: string;
  /** The reason why it cannot be used. */
  problem?: string;
  /** The MCP server that offers it, instead of a file. */
  server?: string;
}

/** An argument of a slash command. */
export interface CommandArgument {
  /** Its name. */
  name: string;
  /** Its purpose. */
  description?: string;
  /** Whether the command needs it. */
  required?: boolean;
}

/** Params of `agent/listTools`. */
export interface ListToolsParams {
  /** The session whose agent's tools are listed; absent for all tools. */
  sessionId?: string;
}

/** Result of `agent/listTools`. */
export interface ListToolsResult {
  /** The tools, by name. */
  tools: ToolInfo[];
}

/** A tool as the model sees it. */
export interface ToolInfo {
  /** Its name. */
  name: string;
  /** What it does and when to use it. */
  description: string;
  /** JSON Schema of its arguments. */
  inputSchema: unknown;
}

/** Params of `agent/listMcpServers`. */
export interface ListMcpServersParams {
  /** The session whose folder's servers are listed; absent for the first workspace folder. */
  sessionId?: string;
}

/** Result of `agent/listMcpServers`. */
export interface ListMcpServersResult {
  /** The servers, by name. */
  servers: McpServerInfo[];
}

/** An MCP server and its state. */
export interface McpServerInfo {
  /** The NAME of `[mcp.NAME]`. */
  name: string;
  /** The workspace folder whose sessions use it, as an absolute path. */
  folder: string;
  /** What it is doing. */
  state: McpServerState;
  /** The program that runs, or the address; empty in the state `invalid`. */
  target: string;
  /** Number of tools that the agent may use. */
  toolCount: number;
  /**
   * Whether there are tokens of a login that are still valid as far as known, which
   * `agent/logoutMcpServer` removes; only in `agent/listMcpServers`.
   */
  loggedIn?: boolean;
  /** The address at which a user logs in, while a login waits for that. */
  loginUrl?: string;
  /**
   * Why it failed or is invalid, or why the last login failed or does not suffice, for the user.
   */
  reason?: string;
  /**
   * Where it is configured: a file, relative to the folder if it is in it, or an editor's setting.
   */
  source?: string;
  /**
   * The last lines that it wrote to its standard error, if it failed; always in
   * `agent/listMcpServers`.
   */
  stderr?: string[];
  /** What it calls itself, with its version; absent before it was ready. */
  title?: string;
  /** Their names, as the server gives them; only in `agent/listMcpServers`. */
  tools?: string[];
}

/** What an MCP server is doing. */
export type McpServerState =
  /** The configuration disables it. */
  | "disabled"
  /** A file of the folder names it, and the folder is not trusted; see `agent/describeTrust`. */
  | "untrusted"
  /** Its configuration cannot be used; see `reason`. */
  | "invalid"
  /** No session has needed it yet. */
  | "idle"
  /** It was started, and has not listed its tools yet. */
  | "starting"
  /** The agent can use its tools. */
  | "ready"
  /** It did not start, or it ended; see `reason`. */
  | "failed"
  /** It refuses requests until the user has logged in. */
  | "needsLogin";

/** Params of `agent/restartMcpServer`. */
export interface RestartMcpServerParams {
  /** The server's name. */
  name: string;
  /** The session whose folder's server is meant; absent for the first workspace folder. */
  sessionId?: string;
}

/** Params of `agent/loginMcpServer`. */
export interface LoginMcpServerParams {
  /** The server's name. */
  name: string;
  /** The session whose folder's server is meant; absent for the first workspace folder. */
  sessionId?: string;
}

/** Result of `agent/loginMcpServer`. */
export interface LoginMcpServerResult {
  /**
   * The address to open in a browser, after the user agrees. It works once, and for ten minutes.
   */
  url: string;
}

/** Params of `agent/cancelMcpLogin`. */
export interface CancelMcpLoginParams {
  /** The server's name. */
  name: string;
  /** The session whose folder's server is meant; absent for the first workspace folder. */
  sessionId?: string;
}

/** Params of `agent/logoutMcpServer`. */
export interface LogoutMcpServerParams {
  /** The server's name. */
  name: string;
  /** The session whose folder's server is meant; absent for the first workspace folder. */
  sessionId?: string;
}

/** Result of `agent/logoutMcpServer`. */
export interface LogoutMcpServerResult {
  /**
   * Why the authorization server did not revoke the tokens, for the user. They are removed from
   * this machine all the same.
   */
  revocationProblem?: string;
  /** There were tokens of a login, which are removed now. */
  wasLoggedIn?: boolean;
}

/** Params of `agent/readContent`. */
export interface ReadContentParams {
  /** The session. */
  sessionId: string;
  /** The `ref` of a cut field. */
  ref: string;
  /** Largest number of bytes: 65,536 by default, at most 1,048,576. */
  limit?: number;
  /** First byte to read; 0 by default. */
  offset?: number;
}

/** Result of `agent/readContent`. */
export interface ReadContentResult {
  /** The piece. It consists of whole characters, so it may be a few bytes shorter than `limit`. */
  text: string;
  /** Length of the full content, in bytes. */
  bytes: number;
  /** The `offset` of the next piece; absent at the end. */
  nextOffset?: number;
}

/** Params of `agent/metrics`. */
export interface MetricsParams {
  /** A session whose counts are included. */
  sessionId?: string;
}

/** Result of `agent/metrics`. */
export interface MetricsResult {
  /** Counts of the whole server. */
  totals: Counts;
  /** Durations. */
  latencies: Latencies;
  /** The circuits of all providers in use, and those of the session's tools that are not closed. */
  circuits?: CircuitInfo[];
  /** Counts of the requested session. */
  session?: SessionMetrics;
}

/** Durations of calls, steps and cancels. */
export interface Latencies {
  /** From a provider call to its first content. */
  firstToken: Histogram;
  /** One step of the loop. */
  step: Histogram;
  /** One tool call, without the wait for the user. */
  tool: Histogram;
  /** From a cancel to the turn's end. */
  cancel: Histogram;
}

/** Durations in buckets. */
export interface Histogram {
  /** Upper bounds of the buckets, in microseconds. */
  boundsUs: number[];
  /** Observations per bucket; one entry more than `boundsUs`, for values above the last bound. */
  counts: number[];
  /** The sum of all observations, in microseconds. */
  sumUs: number;
  /** Number of observations. */
  count: number;
}

/**
 * Counts of one session since it was created; `queuedPrompts` and `reverts` since it was loaded.
 */
export interface SessionMetrics {
  /** The session. */
  sessionId: string;
  /** When the session was created, in ms since the Unix epoch. */
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
  /** Provider calls that were repeated. */
  retries: number;
  /** Summaries made of a history that grew too long. */
  compactions: number;
  /** Turns canceled. */
  cancels: number;
  /** Tool calls run, by the tool's name. */
  toolCallsByName: Record<string, number>;
  /** Errors by code, including those that ended no turn. */
  errorsByCode: Record<string, number>;
  /** Prompts that were queued for the end of a turn. */
  queuedPrompts?: number;
  /** Reverts and redos of file changes. */
  reverts?: number;
}

/** Counters of activity. */
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
  /** Provider calls that were repeated. */
  retries: number;
  /** Summaries made of a history that grew too long. */
  compactions: number;
  /** Turns canceled. */
  cancels: number;
  /** Prompts that were queued for the end of a turn. */
  queuedPrompts?: number;
  /** Reverts and redos of file changes. */
  reverts?: number;
}

/** Params of `agent/resetCircuit`. */
export interface ResetCircuitParams {
  /** The kind of the guarded thing. */
  subject: CircuitSubject;
  /** The name of the provider or the tool. */
  name: string;
  /** For a tool: the session with the circuit; absent for that of every loaded session. */
  sessionId?: string;
}

/** Result of `agent/resetCircuit`. */
export interface ResetCircuitResult {
  /** Whether it was open or on trial before. */
  wasOpen: boolean;
}

/** Params of `agent/reloadConfig`. */
export interface ReloadConfigParams {
}

/** Result of `agent/reloadConfig`. */
export interface ReloadConfigResult {
  /** Problems in the files; everything else applies. */
  problems: ConfigProblem[];
}

/** A problem in a configuration file. */
export interface ConfigProblem {
  /**
   * The file, or another source of the setting: an environment variable, `initializationOptions`.
   */
  file: string;
  /** Its severity. */
  severity: Severity;
  /** The problem and the remedy, for the user. */
  message: string;
  /** The line, from 1; absent if unknown. */
  line?: number;
}

/** Params of the client's notification `agent/cancel`. */
export interface CancelNotification {
  /** The session. */
  sessionId: string;
  /** The turn to cancel; nothing happens if another one is running. Absent for any running turn. */
  turnId?: string;
}

/** Params of `agent/saveDocuments`. */
export interface SaveDocumentsParams {
  /** The documents, by the URIs with which the client opened them. */
  uris: string[];
}

/** Result of `agent/saveDocuments`. */
export interface SaveDocumentsResult {
  /** The documents that are not. */
  failed?: NotSaved[];
  /** The documents that are now on disk as the editor shows them. */
  saved?: string[];
}

/** A document that could not be saved. */
export interface NotSaved {
  /** The document. */
  uri: string;
  /** The reason, for the model: `it is read-only in the editor`. */
  reason: string;
}

/** Params of `agent/getCredential`. */
export interface GetCredentialParams {
  /** The provider's name in the configuration. */
  provider: string;
}

/** Result of `agent/getCredential`. */
export interface GetCredentialResult {
  /** The key; absent if the client has none for that provider. */
  apiKey?: string;
}

/** Params of `agent/getDiagnostics`. */
export interface GetDiagnosticsParams {
  /** Further documents to wait for in the same way, at the same time. */
  alsoWaitFor?: string[];
  /**
   * The document, by the URI with which the client opened it if it is open; absent for all that the
   * client knows.
   */
  uri?: string;
  /**
   * The URI of a document. Answer when its compilers have reported about its current text. If it is
   * not open, load it without showing it.
   */
  waitFor?: string;
  /**
   * The longest wait for all documents together, in milliseconds. After it, answer with what is
   * known.
   */
  waitMs?: number;
}

/** Result of `agent/getDiagnostics`. */
export interface GetDiagnosticsResult {
  /** The current reports of the client's compilers and linters, in any order. */
  diagnostics?: Diagnostic[];
  /**
   * The documents of `waitFor` and `alsoWaitFor` about which a compiler had not reported in time.
   */
  unreported?: string[];
}

/** A diagnostic from the client. */
export interface Diagnostic {
  /** The document's URI. */
  uri: string;
  /** The part of the document that it is about. */
  range: Range;
  /** The text of the diagnostic. */
  message: string;
  /** Its severity; absent means an error. */
  severity?: Severity;
  /** Its source: a compiler or a linter. */
  source?: string;
}

/** Params of `agent/languageQuery`. */
export interface LanguageQueryParams {
  /** What is asked. */
  kind: LanguageQueryKind;
  /** The most entries that the server can use; the client may leave out the rest. */
  limit: number;
  /**
   * A position in the symbol; for `quickFixes`, in the line with the problems. Absent for
   * `documentSymbols`, `workspaceSymbols`, and `format`.
   */
  position?: Position;
  /** For `workspaceSymbols`: the text to search for. For `rename`: the new name. */
  query?: string;
  /**
   * The document, by the URI with which the client opened it if it is open; absent for
   * `workspaceSymbols`.
   */
  uri?: string;
}

/**
 * What an `agent/languageQuery` asks for. The LSP request of the same name defines the result. A
 * client answers a kind that it does not know with an error.
 */
export type LanguageQueryKind =
  /** The `locations` where the symbol is defined. */
  | "definition"
  /** The `locations` that implement the symbol. */
  | "implementation"
  /** The `locations` where the symbol's type is defined. */
  | "typeDefinition"
  /** The `locations` that use the symbol, its declaration included. */
  | "references"
  /** The `locations` of the calls of the function. */
  | "incomingCalls"
  /** The `locations` where the functions are defined that the function calls. */
  | "outgoingCalls"
  /** The signature and documentation of the symbol, as `text`. */
  | "hover"
  /** The `symbols` of the document. */
  | "documentSymbols"
  /** The `symbols` of the workspace whose names match `query`. */
  | "workspaceSymbols"
  /** The `edits` that give the symbol the name `query`. The client must not make them. */
  | "rename"
  /**
   * The `fixes` for the problems in the line: LSP's code actions of the kind `quickfix` that have
   * an edit. The client must not make them.
   */
  | "quickFixes"
  /** The `edits` that format the document as the editor would. The client must not make them. */
  | "format";

/**
 * Result of `agent/languageQuery`. A client that cannot answer returns an error, whose message the
 * model reads.
 */
export interface LanguageQueryResult {
  /** The edits, one entry for each document. */
  edits?: DocumentEdits[];
  /** The quick fixes, each with its edits. */
  fixes?: QuickFix[];
  /** The locations found. */
  locations?: DocumentLocation[];
  /** The symbols found, in any order; nested ones are entries of their own. */
  symbols?: LanguageSymbol[];
  /** What is known about the symbol, as Markdown. */
  text?: string;
}

/** Edits of a document. All ranges refer to the text before the first. */
export interface DocumentEdits {
  /** The document's URI. */
  uri: string;
  /** The edits, which do not overlap. */
  edits: DocumentTextEdit[];
}

/** A replacement in a document, as LSP's `TextEdit`. */
export interface DocumentTextEdit {
  /** The replaced range. */
  range: Range;
  /** The text to put there. */
  newText: string;
}

/**
 * A repair that a language server offers for a problem: LSP's code action of the kind `quickfix`,
 * with its edits.
 */
export interface QuickFix {
  /** Its title, by which the model chooses it. */
  title: string;
  /** The edits, one entry for each document. */
  edits: DocumentEdits[];
  /** Whether the language server prefers it. */
  isPreferred?: boolean;
}

/** A range of a document. */
export interface DocumentLocation {
  /** The document's URI. */
  uri: string;
  /** The range in it. */
  range: Range;
}

/** A symbol that a language server knows. */
export interface LanguageSymbol {
  /** Its name. */
  name: string;
  /** Its kind, as LSP's `SymbolKind`: 5 is a class, 12 a function. */
  kind: number;
  /** The URI of its document. */
  uri: string;
  /** All of it, with its body if known. */
  range: Range;
  /** The name of the symbol that contains it, if any. */
  containerName?: string;
  /** Its name in the document, if known. */
  selectionRange?: Range;
}

/** Params of `agent/turnStarted`. */
export interface TurnStartedNotification {
  /** The session that it belongs to. */
  sessionId: string;
  /** Its number in the session. Numbers start at 1, without gaps or repeats. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The request that started it; absent from servers that do not report it. */
  by?: TurnAsker;
  /** The turn that it continues, after `agent/resumeTurn`. */
  resumes?: string;
  /** The turn that caused it; absent if no turn did. */
  turnId?: string;
}

/** The request that started a turn. Later versions may add values. */
export type TurnAsker =
  /** `agent/prompt`. */
  | "prompt"
  /** `agent/resumeTurn`. */
  | "resume"
  /** `agent/compact`. */
  | "compact"
  /** A prompt of `agent/queue` that was next. */
  | "queue";

/** Params of `agent/turnEnded`. */
export interface TurnEndedNotification {
  /** The session that it belongs to. */
  sessionId: string;
  /** Its number in the session. Numbers start at 1, without gaps or repeats. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The reason why it ended. */
  reason: TerminalReason;
  /** The outcome in one word. */
  state: TurnState;
  /** Tokens of the turn. */
  usage: TokenUsage;
  /** Cost of the turn in US dollars; absent if the model's price is unknown. */
  costUsd?: number;
  /** The error, if there was one. */
  error?: ErrorData;
  /** Reference to the whole `unusedSteers`, if it had to be cut. */
  more?: Record<string, TruncatedField>;
  /** The turn that caused it; absent if no turn did. */
  turnId?: string;
  /**
   * Prompts and steers that no model has seen, to be returned to the user's input. They come from a
   * turn that was cut, failed or compacted, or from a hook that held them back.
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
  /** Length of this message's text before this piece, in UTF-8 bytes. */
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
  /**
   * Length of this message's reasoning before this piece, in UTF-8 bytes. The text is counted
   * separately.
   */
  offset: number;
  /** The piece. */
  text: string;
}

/** Params of `agent/message`. */
export interface MessageNotification {
  /** The session that it belongs to. */
  sessionId: string;
  /** Its number in the session. Numbers start at 1, without gaps or repeats. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The message. */
  messageId: string;
  /** The author. */
  role: Role;
  /** The content, in order. */
  content: MessageBlock[];
  /**
   * Whether it is for the model only (continuation prompts, nudges). Do not show it in the chat.
   */
  hidden?: boolean;
  /** Whether a cancel, a crash or an error cut the message. */
  incomplete?: boolean;
  /** Reference to the whole `content` as a JSON array, if there were too many blocks. */
  more?: Record<string, TruncatedField>;
  /** The turn that caused it; absent if no turn did. */
  turnId?: string;
}

/** The author of a message. */
export type Role =
  /** The user. */
  | "user"
  /** The model. */
  | "assistant"
  /** The results of the tool calls that the previous message requested. */
  | "tool";

/** Params of `agent/messageRetracted`. */
export interface MessageRetractedNotification {
  /** The session that it belongs to. */
  sessionId: string;
  /** Its number in the session. Numbers start at 1, without gaps or repeats. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The retracted message. */
  messageId: string;
  /** The tool calls that it had started to request. */
  toolCallIds: string[];
  /** The turn that caused it; absent if no turn did. */
  turnId?: string;
}

/** Params of `agent/toolInputDelta`. */
export interface ToolInputDeltaNotification {
  /** The session. */
  sessionId: string;
  /** The turn. */
  turnId: string;
  /** The message that requests it. Once it is complete, a call that it does not contain is void. */
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

/** Params of `agent/toolCall`: the status, and what changed since the previous one. */
export interface ToolCallNotification {
  /** The session that it belongs to. */
  sessionId: string;
  /** Its number in the session. Numbers start at 1, without gaps or repeats. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The call. */
  toolCallId: string;
  /** The tool's name. */
  name: string;
  /** One line for the user. */
  title: string;
  /** Its state now. */
  status: ToolCallStatus;
  /** Its planned or finished changes, as a unified diff. */
  diff?: string;
  /** Its duration in ms, without the wait for the user. */
  durationMs?: number;
  /**
   * Exit code of a command, or 128 plus the number of the signal that killed it. Any value but 0
   * makes the status `failed`.
   */
  exitCode?: number;
  /** Images in its result. */
  images?: Image[];
  /** Its arguments, if they are new or the user edited them; long strings in them may be cut. */
  input?: unknown;
  /** The files it affects; at most 100. */
  locations?: Location[];
  /** References to the full text of cut fields. */
  more?: Record<string, TruncatedField>;
  /** Its output, safe to show; present exactly if the status is final. */
  output?: string;
  /** The call that delegated to the sub-agent which made this one. */
  parentToolCallId?: string;
  /** The turn that caused it; absent if no turn did. */
  turnId?: string;
}

/** A place in a file. */
export interface Location {
  /** The file's URI. */
  uri: string;
  /** The line, from 1; absent for the whole file. */
  line?: number;
}

/** The state of a tool call. The last four are final. */
export type ToolCallStatus =
  /** Its input is complete. */
  | "pending"
  /** It waits for the user's approval, or was allowed and waits for the end of earlier calls. */
  | "awaitingApproval"
  /** It is running. */
  | "running"
  /** It returned a result. */
  | "completed"
  /** It returned an error. */
  | "failed"
  /** The user or a policy denied it. */
  | "denied"
  /** A cancel, a crash or the end of the server came first. */
  | "cancelled";

/** Params of `agent/approvalResolved`. */
export interface ApprovalResolvedNotification {
  /** The session that it belongs to. */
  sessionId: string;
  /** Its number in the session. Numbers start at 1, without gaps or repeats. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The approval. */
  approvalId: string;
  /** The call that it was about. */
  toolCallId: string;
  /** The decision. */
  decision: Decision;
  /** What settled it. */
  by: SettledBy;
  /** What the model reads about a denial. */
  feedback?: string;
  /** The arguments as the user edited them; long strings in them may be cut. */
  input?: unknown;
  /** References to the full text of cut fields. */
  more?: Record<string, TruncatedField>;
  /** The rule that was added. */
  rule?: string;
  /** The turn that caused it; absent if no turn did. */
  turnId?: string;
}

/** What settled an approval. */
export type SettledBy =
  /** The user answered. */
  | "person"
  /** A rule or a grant was added in the meantime. */
  | "rule"
  /** A cancel denied it. */
  | "cancel"
  /** It timed out. */
  | "timeout"
  /** The user sent a new prompt instead. */
  | "newPrompt";

/** Params of `agent/limitResolved`. */
export interface LimitResolvedNotification {
  /** The session that it belongs to. */
  sessionId: string;
  /** Its number in the session. Numbers start at 1, without gaps or repeats. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The limit request. */
  limitId: string;
  /** The limit. */
  limit: LimitName;
  /** The outcome. */
  outcome: LimitOutcome;
  /** What settled it. */
  by: SettledBy;
  /** The increase: US dollars, steps, calls or seconds. */
  raisedBy?: number;
  /** The turn that caused it; absent if no turn did. */
  turnId?: string;
}

/** The outcome of a limit request. */
export type LimitOutcome =
  /** The limit was raised by `raisedBy`. */
  | "raised"
  /** The turn continues although the price is unknown. */
  | "accepted"
  /** The limit stays, and the turn ends. */
  | "stopped";

/** Params of `agent/questionResolved`. */
export interface QuestionResolvedNotification {
  /** The session that it belongs to. */
  sessionId: string;
  /** Its number in the session. Numbers start at 1, without gaps or repeats. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The question. */
  questionId: string;
  /** What settled it. */
  by: SettledBy;
  /** The answers by field name; absent if the question was not answered. */
  answers?: Record<string, string[]>;
  /** References to the full text of cut fields. */
  more?: Record<string, TruncatedField>;
  /** The turn that caused it; absent if no turn did. */
  turnId?: string;
}

/** Params of `agent/plan`. */
export interface PlanNotification {
  /** The session that it belongs to. */
  sessionId: string;
  /** Its number in the session. Numbers start at 1, without gaps or repeats. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The whole plan. */
  items: PlanItem[];
  /** Reference to the whole `items`, if there were too many. */
  more?: Record<string, TruncatedField>;
  /** The turn that caused it; absent if no turn did. */
  turnId?: string;
}

/** One line of the plan. */
export interface PlanItem {
  /** The task. */
  text: string;
  /** Its progress. */
  status: PlanStatus;
}

/** The progress of a line of the plan. */
export type PlanStatus =
  /** Not started. */
  | "pending"
  /** In progress. */
  | "inProgress"
  /** Done. */
  | "completed";

/** Params of `agent/turnDiff`. */
export interface TurnDiffNotification {
  /** The session that it belongs to. */
  sessionId: string;
  /** Its number in the session. Numbers start at 1, without gaps or repeats. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The turn whose changes these are. A revert includes the changes of later turns. */
  ofTurnId: string;
  /** The state of the changes. */
  standing: ChangeState;
  /** The files. With `reverted` and `redone`: what has just been done to them. */
  files: FileDiff[];
  /** Whether commands may have changed more: the workspace has more files than the server scans. */
  partial?: boolean;
  /** The turn that caused it; absent if no turn did. */
  turnId?: string;
  /** Number of further files that are not listed. */
  unlisted?: number;
}

/** A change of one file. */
export interface FileDiff {
  /**
   * The file's path: relative to the session's folder, `rootName/path` in another root, absolute
   * elsewhere.
   */
  path: string;
  /** The kind of the change. */
  kind: ChangeKind;
  /** Number of added lines. */
  added: number;
  /** Number of removed lines. */
  removed: number;
  /**
   * A unified diff; absent for files that are not text, and if all diffs together grew too long.
   */
  diff?: string;
  /**
   * Whether it cannot be reverted: a command changed the file, and its previous content is unknown.
   */
  unrestorable?: boolean;
}

/** The state of a turn's changes. */
export type ChangeState =
  /** The turn made them. */
  | "made"
  /** `agent/revert` reverted them. */
  | "reverted"
  /** `agent/revert` with `redo` made them again. */
  | "redone";

/** Params of `agent/transition`. */
export interface TransitionNotification {
  /** The session that it belongs to. */
  sessionId: string;
  /** Its number in the session. Numbers start at 1, without gaps or repeats. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** Whether the turn continues. */
  kind: TransitionKind;
  /** The reason. */
  reason: TransitionReason;
  /** More detail, for the user. */
  detail?: string;
  /** The call that delegated to the sub-agent this is about; absent for the turn itself. */
  parentToolCallId?: string;
  /** The turn that caused it; absent if no turn did. */
  turnId?: string;
}

/** The effect of a step's outcome on the turn. */
export type TransitionKind =
  /** The model is called again. */
  | "continue"
  /** The turn ends. */
  | "terminal";

/** The reason of a transition. The two lists share no value. */
export type TransitionReason = ContinueReason | TerminalReason;

/** The reason why the loop calls the model again. */
export type ContinueReason =
  /** Tool calls ran, or a steer is waiting. */
  | "next_turn"
  /** The output was cut for the first time: the same request follows with a larger limit. */
  | "max_output_tokens_escalate"
  /** The output was cut again: the partial text stays, and the model is asked to continue. */
  | "max_output_tokens_recovery"
  /**
   * The prompt was too long: stubs replaced old tool results, or the newest ones were shortened.
   */
  | "collapse_drain_retry"
  /** The prompt was still too long: the history was summarized. */
  | "reactive_compact_retry"
  /** The API refused an image: it was shrunk or removed. */
  | "image_retry"
  /** The answer was empty: the same request follows. */
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
  /** Tool calls ran, and the model is asked to judge its progress. */
  | "reflection";

/** Params of `agent/retry`. */
export interface RetryNotification {
  /** The session that it belongs to. */
  sessionId: string;
  /** Its number in the session. Numbers start at 1, without gaps or repeats. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The provider's name in the configuration. */
  provider: string;
  /** The model. */
  model: string;
  /** The attempt that failed, from 1. */
  attempt: number;
  /** Total number of retries for failures of this kind. */
  maxRetries: number;
  /** Wait before the next attempt, in ms. */
  delayMs: number;
  /** End of the wait, in ms since the Unix epoch. */
  resumeAt: number;
  /** The error of the failed attempt. */
  error: ErrorData;
  /** What happens if the next attempt also fails, for the user. */
  next: string;
  /** The call that delegated to the sub-agent this is about; absent for the turn itself. */
  parentToolCallId?: string;
  /** The turn that caused it; absent if no turn did. */
  turnId?: string;
}

/** Params of `agent/wait`. */
export interface WaitNotification {
  /** The session that it belongs to. */
  sessionId: string;
  /** Its number in the session. Numbers start at 1, without gaps or repeats. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** What the turn waits for, for the user. */
  why: string;
  /** The call that delegated to the sub-agent this is about; absent for the turn itself. */
  parentToolCallId?: string;
  /** The turn that caused it; absent if no turn did. */
  turnId?: string;
  /** End of the wait, in ms since the Unix epoch; absent if unknown. */
  until?: number;
}

/** Params of `agent/compacted`. */
export interface CompactedNotification {
  /** The session that it belongs to. */
  sessionId: string;
  /** Its number in the session. Numbers start at 1, without gaps or repeats. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The reason. */
  trigger: CompactTrigger;
  /** Estimated tokens of the whole request before. */
  tokensBefore: number;
  /** Estimated tokens of the whole request after. */
  tokensAfter: number;
  /** Number of messages before. */
  messagesBefore: number;
  /** Number of messages after. */
  messagesAfter: number;
  /** Whether the summary is a digest made by rules, because the model's call failed. */
  digest?: boolean;
  /** Reference to the whole `summary`, if it had to be cut. */
  more?: Record<string, TruncatedField>;
  /** The call that delegated to the sub-agent this is about; absent for the turn itself. */
  parentToolCallId?: string;
  /**
   * The text that replaces the removed messages for the model; absent if stubs only replaced large
   * results or images.
   */
  summary?: string;
  /** The turn that caused it; absent if no turn did. */
  turnId?: string;
}

/** The reason why the history was reduced for the model. */
export type CompactTrigger =
  /** The estimate passed the threshold. */
  | "threshold"
  /** The provider reported that the prompt is too long. */
  | "overflow"
  /** The provider refused an image. */
  | "picture"
  /** The user requested it. */
  | "manual";

/** Params of `agent/modelSwitched`. */
export interface ModelSwitchedNotification {
  /** The session that it belongs to. */
  sessionId: string;
  /** Its number in the session. Numbers start at 1, without gaps or repeats. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The previous model, as `provider/model`. */
  from: string;
  /** The model from now on, as `provider/model`. */
  to: string;
  /** The reason, for the user. */
  why: string;
  /** The call that delegated to the sub-agent this is about; absent for the turn itself. */
  parentToolCallId?: string;
  /** The turn that caused it; absent if no turn did. */
  turnId?: string;
}

/** Params of `agent/circuit`. */
export interface CircuitNotification {
  /** The session that it belongs to. */
  sessionId: string;
  /** Its number in the session. Numbers start at 1, without gaps or repeats. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The kind of the guarded thing. */
  subject: CircuitSubject;
  /** The name of the provider or the tool. */
  name: string;
  /** Its state. */
  state: CircuitState;
  /** The call that delegated to the sub-agent this is about; absent for the turn itself. */
  parentToolCallId?: string;
  /** The turn that caused it; absent if no turn did. */
  turnId?: string;
  /** When an open circuit lets a trial call through, in ms since the Unix epoch. */
  until?: number;
}

/** Params of `agent/usage`. */
export interface UsageNotification {
  /** The session that it belongs to. */
  sessionId: string;
  /** Its number in the session. Numbers start at 1, without gaps or repeats. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** Tokens and cost of the step. */
  step: UsageTotals;
  /** Tokens and cost of the turn so far. */
  turn: UsageTotals;
  /** Tokens and cost of the session so far. */
  session: UsageTotals;
  /** Tokens of the context in use. */
  contextUsed: number;
  /** The model's window, in tokens. */
  contextWindow: number;
  /** The provider that was called; absent in sessions from early versions. */
  provider?: string;
  /** The turn that caused it; absent if no turn did. */
  turnId?: string;
}

/** Tokens and their cost. */
export interface UsageTotals {
  /** Input tokens that were neither read from nor written to a prompt cache. */
  inputTokens: number;
  /** Output tokens, reasoning included. */
  outputTokens: number;
  /** Input tokens read from the provider's prompt cache. */
  cacheReadTokens: number;
  /** Input tokens written to the provider's prompt cache. */
  cacheWriteTokens: number;
  /** Their cost in US dollars; absent if the cost of any call is unknown. */
  costUsd?: number;
}

/** Params of `agent/warning`. */
export interface WarningNotification {
  /** Its subject, as a stable code. */
  code: string;
  /** The text for the user. */
  message: string;
  /** When it happened, in ms since the Unix epoch; absent without a session. */
  at?: number;
  /** The call that delegated to the sub-agent this is about; absent for the turn itself. */
  parentToolCallId?: string;
  /** Its number in the session; absent without a session. */
  seq?: number;
  /** The session; absent if it concerns the whole server. */
  sessionId?: string;
  /** The turn that caused it; absent if no turn did. */
  turnId?: string;
}

/** Params of `agent/sessionUpdated`: only what changed. */
export interface SessionUpdatedNotification {
  /** The session that it belongs to. */
  sessionId: string;
  /** Its number in the session. Numbers start at 1, without gaps or repeats. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /** The reasoning effort. */
  effort?: Effort;
  /** The mode. */
  mode?: Mode;
  /** The model, as `provider/model`. */
  model?: string;
  /** All prompts that wait for the end of the turn. */
  queue?: QueueState;
  /** The title. */
  title?: string;
  /** The turn that caused it; absent if no turn did. */
  turnId?: string;
}

/** Params of `agent/instructions`: all files behind the agent's instructions from now on. */
export interface InstructionsNotification {
  /** The session that it belongs to. */
  sessionId: string;
  /** Its number in the session. Numbers start at 1, without gaps or repeats. */
  seq: number;
  /** When it happened, in ms since the Unix epoch. */
  at: number;
  /**
   * The files, in the order that the agent reads them. Of each kind, the nearest file comes last.
   */
  files: InstructionFile[];
  /** Number of further files that did not fit into this list. */
  leftOut?: number;
  /** The turn that caused it; absent if no turn did. */
  turnId?: string;
}

/** Params of `agent/mcpServerUpdated`. */
export interface McpServerUpdatedNotification {
  /** The server as it is now. */
  server: McpServerInfo;
}

/** Params of `agent/status`: the state of the whole server, for a status bar. */
export interface StatusNotification {
  /** Whether the server is working. */
  state: ServerState;
  /** Number of running turns. */
  runningTurns: number;
  /** Number of approvals, limits and questions that wait for the user. */
  openApprovals: number;
  /** Circuits that are not closed. */
  circuits?: CircuitInfo[];
  /** One line for the user. */
  line?: string;
  /** The MCP servers that sessions use. */
  mcpServers?: McpServerHealth[];
  /**
   * How commands are confined. Absent before the first session. If the settings of open folders
   * differ, those that confine the least.
   */
  sandbox?: SandboxStatus;
  /** Warnings that concern the whole server and still apply. */
  warnings?: ServerWarning[];
}

/** The state of an MCP server, for a status bar. */
export interface McpServerHealth {
  /** The server's name. */
  name: string;
  /** What it is doing. */
  state: McpServerState;
}

/** How commands are confined on this machine. */
export interface SandboxStatus {
  /**
   * How the operating system enforces it, such as `namespaces`; `none` if it does not, and `off` if
   * the settings disable the sandbox.
   */
  method: string;
  /** How much of it holds. */
  level: SandboxLevel;
  /** What commands may do, one entry for each mode. A hook or a tool may have its own policy. */
  policies: ModePolicy[];
  /** What of the network commands may use. Absent if nothing confines them. */
  network?: SandboxNetwork;
}

/** How much of the sandbox a method enforces. */
export type SandboxLevel =
  /** Nothing: commands need approval as without a sandbox. */
  | "none"
  /** A part: commands need approval as without a sandbox. */
  | "partial"
  /** All of it. */
  | "full";

/** What of the network a command may use in the sandbox. */
export type SandboxNetwork =
  /** Nothing but servers that it starts itself. */
  | "offline"
  /** Hosts that the user allows, through a proxy. */
  | "proxy"
  /** Everything. */
  | "open";

/** What commands may do in a mode. */
export interface ModePolicy {
  /** The mode of the session. */
  mode: Mode;
  /** What its commands may do. */
  policy: SandboxPolicy;
}

/** What a command may do in the sandbox. */
export type SandboxPolicy =
  /** It writes nothing but its temporary folder. */
  | "readOnly"
  /** It writes in the workspace folders, its temporary folder, and the caches of build tools. */
  | "workspace"
  /** It is not confined. */
  | "off";

/** Whether the server is working. */
export type ServerState =
  /** No turn is running. */
  | "idle"
  /** A turn is running. */
  | "busy";

/** A warning that concerns the whole server. */
export interface ServerWarning {
  /** Its subject, as a stable code. */
  code: string;
  /** The text for the user. */
  message: string;
}

/**
 * The server's announcement, in `capabilities.experimental.agent` of its answer to `initialize`.
 */
export interface ServerCapability {
  /** The version of the protocol. */
  protocolVersion: ProtocolVersion;
  /** The requests and notifications that the server accepts. */
  methods: string[];
  /** The notifications that the server sends. */
  notifications: string[];
  /** Further abilities of the server. */
  features: Feature[];
}

/** An ability that the lists of methods do not show. Clients ignore unknown values. */
export type Feature =
  /** Prompts may contain images. */
  | "images"
  /** The agent reads the unsaved text of open documents. */
  | "unsavedText"
  /**
   * Files open in the editor are changed through `workspace/applyEdit`, if the client supports it.
   */
  | "applyEdit"
  /** Prompts may wait for the end of a turn (`agent/queue`). */
  | "queue"
  /** File changes of turns are reported (`agent/turnDiff`) and can be reverted (`agent/revert`). */
  | "checkpoints"
  /** The agent may delegate to sub-agents, whose calls and retries carry `parentToolCallId`. */
  | "subAgents"
  /** The server requests API keys by `agent/getCredential`, if the client supports it. */
  | "credentials"
  /**
   * The server requests the editor's diagnostics by `agent/getDiagnostics`, if the client supports
   * it.
   */
  | "diagnostics"
  /**
   * The server asks the editor's language servers by `agent/languageQuery`, if the client supports
   * it.
   */
  | "languageQueries";

/**
 * The version of the protocol. Versions with different `major` are incompatible; a different
 * `minor` is compatible.
 */
export interface ProtocolVersion {
  /** Increases when something that clients rely on is removed or changed. */
  major: number;
  /** Increases when something is added. */
  minor: number;
}

/** A client's announcement, in `capabilities.experimental.agent` of `initialize`. */
export interface ClientCapability {
  /** What the client does for the server. */
  client?: ClientFlags;
}

/** What the client does for the server beyond LSP. Unknown flags are ignored. */
export interface ClientFlags {
  /**
   * The client allows every call that needs approval without asking anybody, as `agentls run --yes`
   * does. The environment note of the model says so. Questions are not asked then.
   */
  approves?: boolean;
  /**
   * The client also answers for the kinds `quickFixes` and `format`. Without it, the agent has no
   * `fix_code` tool.
   */
  codeFixes?: boolean;
  /** The client answers `agent/getCredential` from a secret store. */
  getCredential?: boolean;
  /** The client answers `agent/getDiagnostics`. Without it, the agent has no `diagnostics` tool. */
  getDiagnostics?: boolean;
  /**
   * The client answers `agent/languageQuery`. Without it, the agent has no `find_symbol`,
   * `find_references`, `go_to_definition`, and `rename_symbol` tools.
   */
  languageQueries?: boolean;
  /**
   * The client shows `agent/limitRequested` and `agent/questionRequested` to the user and answers
   * them. Without it, the server requests approvals only: reaching a limit ends the turn.
   */
  questions?: boolean;
  /**
   * The client answers `agent/saveDocuments`. With it, and with LSP's `workspace.applyEdit` and
   * `workspace.workspaceEdit.documentChanges`, the editor changes the files that it has open.
   * Without it, they are changed on disk, unless the editor holds unsaved changes.
   */
  saveDocuments?: boolean;
}

/**
 * `initializationOptions` of `initialize`: settings as in the configuration files, which they
 * override, and facts that only the editor knows.
 */
export interface InitializationOptions {
  /**
   * Whether the editor trusts its workspace folders. A decision made with `agent/setTrust` takes
   * precedence. Other folders are not affected.
   */
  trusted?: boolean;
  [name: string]: unknown;
}
