---@meta agentls.protocol

-- Generated from the server's wire types by `UPDATE_PROTOCOL=1 cargo test --test repository`.
-- Change those, not this file.

local M = {}

---The protocol's version. A server with another `major` cannot be talked to.
M.version = { major = 1, minor = 0 }

---The keys that answer an approval, in every client.
---@type { key: string, action: string, label: string }[]
M.approval_keys = {
  { key = "y", action = "allow", label = "Allow" },
  { key = "n", action = "deny", label = "Deny" },
  { key = "s", action = "allowSession", label = "Allow for this session" },
  { key = "a", action = "allowAlways", label = "Always allow" },
  { key = "e", action = "edit", label = "Edit" },
  { key = "d", action = "diff", label = "Show diff" },
}

---Requests, client to server.
M.requests = {
  ---Starts a session. Does not wait for the network.
  newSession = "agent/newSession",
  ---Starts a turn. The answer comes when the turn has ended.
  prompt = "agent/prompt",
  ---Sends a message to the running turn. It joins the history before the next model call and keeps the
  ---turn going.
  steer = "agent/steer",
  ---Manages the prompts that wait for the end of the turn: list, add, edit, remove, send now. At most
  ---100 wait; they survive a restart of the server.
  queue = "agent/queue",
  ---Starts a new turn that continues an interrupted or canceled one. Open approvals, limits and
  ---questions are requested again under the same ids. Answered like `agent/prompt`.
  resumeTurn = "agent/resumeTurn",
  ---Starts a turn that only compacts what the model receives: a summary replaces old messages. Answered
  ---like `agent/prompt`.
  compact = "agent/compact",
  ---Decides an approval. The first answer wins; an unknown or settled id is an error.
  approvalRespond = "agent/approvalRespond",
  ---Answers a limit request. The first answer wins; an unknown or settled id is an error.
  limitRespond = "agent/limitRespond",
  ---Answers a question of the agent. The first answer wins; an unknown or settled id is an error.
  questionRespond = "agent/questionRespond",
  ---Lists the approvals, limits and questions that wait for the user.
  listApprovals = "agent/listApprovals",
  ---Lists the grants: permissions beyond one call.
  listGrants = "agent/listGrants",
  ---Revokes a grant.
  revokeGrant = "agent/revokeGrant",
  ---Lists or searches sessions, the most recently used first.
  listSessions = "agent/listSessions",
  ---Opens a session: returns a page of its events and its open requests. Its notifications follow from
  ---then on.
  loadSession = "agent/loadSession",
  ---Changes the title of a session.
  renameSession = "agent/renameSession",
  ---Creates a new session from the events of another one, up to the end of a turn. Grants for that
  ---session alone are not copied.
  forkSession = "agent/forkSession",
  ---Exports a whole session as one text.
  exportSession = "agent/exportSession",
  ---Deletes a session permanently.
  deleteSession = "agent/deleteSession",
  ---Restores the files of a turn and of all later ones to their state before it, except files that the
  ---user changed since. Can also undo such a revert. Fails while a turn runs.
  revert = "agent/revert",
  ---Sets how freely the agent may act.
  setMode = "agent/setMode",
  ---Sets the model and its reasoning effort. A name that cannot be a model is an error that suggests the
  ---nearest names.
  setModel = "agent/setModel",
  ---Lists what a folder's own files would activate, and where they would send the user's keys. It only
  ---reads: it starts and changes nothing.
  describeTrust = "agent/describeTrust",
  ---Sets whether a workspace folder is trusted, and which of its redirects are accepted.
  setTrust = "agent/setTrust",
  ---Lists the models to choose from, and the providers with their health.
  listModels = "agent/listModels",
  ---Lists the configured agents.
  listAgents = "agent/listAgents",
  ---Lists the slash commands: prompts from the user's and the workspace's files, and of the MCP servers
  ---that run.
  listCommands = "agent/listCommands",
  ---Lists the tools.
  listTools = "agent/listTools",
  ---Lists the MCP servers that the configuration names, also those that it cannot use, with their state.
  ---It starts none.
  listMcpServers = "agent/listMcpServers",
  ---Stops an MCP server and starts it again, also one that has failed. One that no session uses starts
  ---with the next turn.
  restartMcpServer = "agent/restartMcpServer",
  ---Begins a login at an MCP server. The server then waits for the browser's redirect, and sends
  ---`agent/mcpServerUpdated` when the login ends: `ready`, or `needsLogin` with the reason. A login of
  ---the same server that already waits ends.
  loginMcpServer = "agent/loginMcpServer",
  ---Ends a login that waits. Has no effect if none does.
  cancelMcpLogin = "agent/cancelMcpLogin",
  ---Removes the tokens of the login at an MCP server, restarts the server if it runs, and revokes the
  ---tokens if the authorization server has a revocation endpoint.
  logoutMcpServer = "agent/logoutMcpServer",
  ---Reads the rest of a cut field.
  readContent = "agent/readContent",
  ---Returns the server's counters since its start.
  metrics = "agent/metrics",
  ---Closes a circuit breaker by hand, so that the provider or the tool is called again immediately.
  resetCircuit = "agent/resetCircuit",
  ---Reads the configuration files again.
  reloadConfig = "agent/reloadConfig",
}

---Notifications, client to server.
M.client_notifications = {
  ---Cancels the running turn. Has no effect if no turn is running, or another one than `turnId`.
  cancel = "agent/cancel",
}

---Requests, server to client.
M.server_requests = {
  ---Requests to save documents after an edit of one without unsaved changes, so that commands see the
  ---edit. Only sent if the client announced `saveDocuments`. Counts as failed after 10 s without an
  ---answer.
  saveDocuments = "agent/saveDocuments",
  ---Requests the API key of a provider that has none in the configuration or the environment. Only sent
  ---if the client announced `getCredential`. After 10 s without an answer, there is no key. The key
  ---stays in memory. It is requested again after `agent/reloadConfig`, or if the provider refused it. A
  ---missing key is remembered until `agent/reloadConfig`.
  getCredential = "agent/getCredential",
  ---Requests the reports of the client's compilers and linters, for one document or for all. Only sent
  ---if the client announced `getDiagnostics`. The tool call fails after 10 s without an answer.
  getDiagnostics = "agent/getDiagnostics",
  ---Asks the language servers of the editor. Only sent if the client announced `languageQueries`. Counts
  ---as failed after 5 s without an answer. Then, and when the turn is canceled, the server sends
  ---`$/cancelRequest`.
  languageQuery = "agent/languageQuery",
}

---Notifications, server to client.
M.server_notifications = {
  ---A turn started.
  turnStarted = "agent/turnStarted",
  ---A turn ended. There is exactly one per turn, and nothing of the turn follows it.
  turnEnded = "agent/turnEnded",
  ---Text of a message in progress.
  textDelta = "agent/textDelta",
  ---Reasoning of a message in progress.
  reasoningDelta = "agent/reasoningDelta",
  ---A message of the history, complete or cut.
  message = "agent/message",
  ---The shown part of a failed attempt was discarded; remove it from the screen. The next attempt has a
  ---new `messageId`. Ignore unknown ids.
  messageRetracted = "agent/messageRetracted",
  ---A tool call's input as the model writes it.
  toolInputDelta = "agent/toolInputDelta",
  ---Live output of a running tool.
  toolOutputDelta = "agent/toolOutputDelta",
  ---A tool call changed.
  toolCall = "agent/toolCall",
  ---An effect needs the user's approval.
  approvalRequested = "agent/approvalRequested",
  ---An approval was settled.
  approvalResolved = "agent/approvalResolved",
  ---A limit was reached, or a money limit meets an unknown price; the user may raise it. Only sent if
  ---the client announced `questions`.
  limitRequested = "agent/limitRequested",
  ---A limit request was settled.
  limitResolved = "agent/limitResolved",
  ---A question of the agent. Only sent if the client announced `questions`.
  questionRequested = "agent/questionRequested",
  ---A question was settled.
  questionResolved = "agent/questionResolved",
  ---The whole plan.
  plan = "agent/plan",
  ---The file changes of a turn: at its end, and after a revert or a redo.
  turnDiff = "agent/turnDiff",
  ---A decision of the loop.
  transition = "agent/transition",
  ---A provider call failed and will be repeated.
  retry = "agent/retry",
  ---The turn waits for something that is not an error.
  wait = "agent/wait",
  ---The part of the history that the model receives became smaller; the stored history did not.
  compacted = "agent/compacted",
  ---Another model answers from now on: the next one of the route took over, or the first one is used
  ---again.
  modelSwitched = "agent/modelSwitched",
  ---The turn met a circuit breaker that is open, on trial, or closed again.
  circuit = "agent/circuit",
  ---Tokens and cost after a step.
  usage = "agent/usage",
  ---A warning for the user. A warning about the whole server has no session and no number, and also
  ---appears in `agent/status`.
  warning = "agent/warning",
  ---The session's own data changed; only what changed is set.
  sessionUpdated = "agent/sessionUpdated",
  ---The instruction files (`SOUL.md`, `AGENTS.md`, `TOOLS.md`, skills) that the agent received: at the
  ---first turn of a session that has any, and whenever one of them has changed.
  instructions = "agent/instructions",
  ---The state of an MCP server changed. States in between may be left out.
  mcpServerUpdated = "agent/mcpServerUpdated",
  ---The state of the whole server, for a status bar.
  status = "agent/status",
}

---Params of `agent/newSession`.
---@class (exact) agentls.NewSessionParams
---@field agent? string A configured agent; absent for `default`.
---@field cwd? string The folder to work in: a URI or an absolute path; absent for the first workspace folder.
---@field effort? agentls.Effort The reasoning effort; absent for the provider's default.
---@field mode? agentls.Mode How freely the agent may act; absent for the configured mode.
---@field model? string A model, as `provider/model`; absent for the agent's.
---@field remembered? boolean Whether absent values of model, effort and mode come from the user's last choice in this workspace. The mode `full` is not remembered.

---The reasoning effort of a model. A model that lacks an effort gets the nearest one that it has, with
---a warning.
---@alias agentls.Effort
---| "none" # No reasoning.
---| "minimal" # Hardly any reasoning.
---| "low" # Little reasoning.
---| "medium" # As much reasoning as needed.
---| "high" # Long reasoning.
---| "xhigh" # Longer reasoning.
---| "max" # As much reasoning as the model can do.

---How freely the agent may act.
---@alias agentls.Mode
---| "plan" # The agent only reads.
---| "ask" # Reading is free; commands, writes and network access need approval.
---| "autoEdit" # Edits inside the workspace are free too, and commands that the sandbox confines in full.
---| "full" # Everything is free.

---Result of `agent/newSession`.
---@class (exact) agentls.NewSessionResult
---@field sessionId string The session.
---@field mode agentls.Mode How freely the agent may act.
---@field seq integer Number of the session's last event; 0 if there is none. Notifications continue from there.
---@field effort? agentls.Effort The reasoning effort; absent for the provider's default.
---@field model? string The model; absent until it is known, when `agent/sessionUpdated` reports it.

---Params of `agent/prompt`.
---@class (exact) agentls.PromptParams
---@field sessionId string The session.
---@field prompt agentls.PromptContent The user's input.

---The user's input: plain text, or a list of blocks.
---@alias agentls.PromptContent string|agentls.PromptBlock[]

---Text.
---@class (exact) agentls.PromptBlock.text
---@field type "text"
---@field text string The text.

---A file or a part of it. The server reads it, including the editor's unsaved text.
---@class (exact) agentls.PromptBlock.reference
---@field type "reference"
---@field uri string The file's URI.
---@field range? agentls.Range The part, extended to whole lines; absent for the whole file.

---The user's selection in the editor.
---@class (exact) agentls.PromptBlock.selection
---@field type "selection"
---@field uri string The file's URI.
---@field range agentls.Range The selected range.
---@field text? string The selected text; if absent, the server reads the lines of `range`.

---A diagnostic that the editor shows.
---@class (exact) agentls.PromptBlock.diagnostic
---@field type "diagnostic"
---@field uri string The file's URI.
---@field range agentls.Range The range that it is about.
---@field message string Its message.
---@field severity? agentls.Severity Its severity.
---@field source? string Its source: a compiler or a linter.

---An image.
---@class (exact) agentls.PromptBlock.image
---@field type "image"
---@field mediaType string `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
---@field data string The bytes in Base64, with padding, without line breaks.

---A part of the user's input.
---@alias agentls.PromptBlock
---| agentls.PromptBlock.text
---| agentls.PromptBlock.reference
---| agentls.PromptBlock.selection
---| agentls.PromptBlock.diagnostic
---| agentls.PromptBlock.image

---A range in a document, as in LSP: the end is exclusive.
---@class (exact) agentls.Range
---@field start agentls.Position The start of the range.
---@field ["end"] agentls.Position The position after its last character.

---A position in a document, as in LSP.
---@class (exact) agentls.Position
---@field line integer The line, from 0.
---@field character integer The character in the line, from 0, in the units of the negotiated position encoding.

---The severity of a diagnostic or a problem.
---@alias agentls.Severity
---| "error" # It is wrong.
---| "warning" # It is doubtful.
---| "information" # It is worth knowing.
---| "hint" # It could be better.

---The end of a turn. It answers `agent/prompt`, `agent/resumeTurn` and `agent/compact`, and is the
---`data` of the error that answers them after `$/cancelRequest`.
---@class (exact) agentls.PromptResult
---@field turnId string The turn.
---@field reason agentls.TerminalReason The reason why it ended.
---@field state agentls.TurnState The outcome in one word.
---@field text string The full text of the final answer; empty if there is none.
---@field usage agentls.TokenUsage Tokens of the turn.
---@field costUsd? number Cost of the turn in US dollars; absent if the model's price is unknown.
---@field error? agentls.ErrorData The error, if there was one.
---@field tokensAfter? integer Only for `agent/compact`: estimated tokens of the conversation after.
---@field tokensBefore? integer Only for `agent/compact`: estimated tokens of the conversation before; absent if nothing was left out.

---An error with everything that a client needs to show it and to suggest a remedy. It is the `data` of
---a JSON-RPC error and the `error` of a turn's end.
---@class (exact) agentls.ErrorData
---@field code agentls.ErrorCode The error as a stable code.
---@field message string The error, for the user.
---@field class agentls.ErrorClass The possible reaction.
---@field attempts? integer The number of attempts made.
---@field cause? string The underlying cause.
---@field field? string The wrong parameter, with `badParams`.
---@field holder? string The holder of the session, with `sessionLocked`.
---@field model? string The model's name.
---@field provider? string The provider's name in the configuration.
---@field refusal? agentls.Refusal The reason why the request was not accepted; only in the `data` of a JSON-RPC error.
---@field requestId? string The provider's id of the request, for its support.
---@field resetAt? integer When a used-up quota resets, in ms since the Unix epoch.
---@field retryAfterMs? integer The wait that the provider requests, in ms.
---@field status? integer HTTP status of the provider's response.
---@field userAction? string What the user can do; alternatives are on separate lines.

---The possible reaction to an error.
---@alias agentls.ErrorClass
---| "retryable" # The same request may succeed later.
---| "terminal" # It does not resolve by itself.
---| "non_fatal" # The turn continued.

---A stable error code.
---@alias agentls.ErrorCode
---| "max_iterations" # The limit of steps was reached.
---| "provider_error" # The provider's API failed.
---| "tool_execution" # A tool failed, and the policy ends the turn in that case.
---| "context_limit" # The prompt does not fit the model's window.
---| "budget_exceeded" # A money limit was reached.
---| "cancelled" # The user canceled.
---| "circuit_open" # The provider's circuit breaker is open.
---| "quota_exhausted" # The provider's quota or credit is used up.
---| "empty_response" # The model's answer was empty.
---| "tool_calls_exceeded" # The limit of tool calls was reached.
---| "wall_time_exceeded" # The time limit was reached.
---| "config" # The configuration is incomplete or wrong.
---| "session" # The session's state does not allow it.
---| "protocol" # The request violates the protocol.
---| "store" # The store could not be read or written.
---| "internal" # The server has a bug.

---The reason why a request was not accepted, as a stable value for programs.
---@alias agentls.Refusal
---| "notInitialized" # `initialize` and `initialized` must come first.
---| "shuttingDown" # The server is shutting down.
---| "badParams" # A parameter is missing or wrong; `field` names it.
---| "unknownSession" # There is no such session.
---| "sessionLocked" # The session is open in another server; `holder` names it.
---| "sessionReadOnly" # The session was loaded with `readOnly`.
---| "turnRunning" # A turn is running; use `agent/steer` to talk to it.
---| "noTurn" # No turn is running.
---| "staleTurn" # The request expects another turn than the running one.
---| "nothingToResume" # The last turn cannot be continued.
---| "unknownApproval" # There is no such open approval: it is unknown or settled.
---| "unknownQuestion" # There is no such open limit or question: it is unknown or settled.
---| "unknownGrant" # There is no such grant.
---| "unknownModel" # There is no such model.
---| "unknownAgent" # There is no such agent in the configuration.
---| "unknownCircuit" # No circuit has this name.
---| "unknownContent" # No content has this name.
---| "unknownTurn" # The session has no such turn.
---| "nothingToRedo" # The turn was not reverted.
---| "nothingToFork" # No turn of the session has ended.
---| "unknownPrompt" # No prompt with that id is waiting: it was sent or removed.
---| "queueFull" # The queue is full.

---The reason why a turn ended.
---@alias agentls.TerminalReason
---| "completed" # There was nothing more to do.
---| "prompt_too_long" # The prompt does not fit the window.
---| "max_output_tokens" # The answer was cut at the output limit; the partial text is kept.
---| "model_error" # The provider failed permanently.
---| "empty_response" # The answer was empty.
---| "image_error" # The API still refuses the image.
---| "refused" # The model or a filter declined to answer.
---| "aborted_streaming" # The user canceled while the model streamed, or before.
---| "aborted_tools" # The user canceled while tools ran.
---| "stop_hook_prevented" # A stop hook ended the turn.
---| "hook_stopped" # A hook ended the turn.
---| "tool_failed" # A tool failed, and the policy ends the turn in that case.
---| "subagent_failed" # A sub-agent failed, and the policy ends the turn in that case.
---| "join_violated" # Too few sub-agents succeeded.
---| "blocking_limit" # The window is full, and automatic compaction is off.
---| "max_turns" # The limit of steps was reached.
---| "budget_exceeded" # A money limit was reached.
---| "max_tool_calls" # The limit of tool calls was reached.
---| "wall_time" # The time limit was reached.
---| "stopped_by_user" # The user chose to stop at a question.
---| "not_configured" # No provider is configured.
---| "store_failed" # The store is gone and keeps no more events.
---| "server_stopped" # The server ended or crashed.
---| "internal_error" # The server has a bug.

---The outcome of a turn, in one word.
---@alias agentls.TurnState
---| "completed" # It did what was requested.
---| "failed" # It failed.
---| "degraded" # There is an answer, but it does less than requested.
---| "interrupted" # A limit, the user's choice at a question, or the end of the server stopped it.
---| "cancelled" # The user canceled it.

---Tokens of one or several model calls.
---@class (exact) agentls.TokenUsage
---@field inputTokens integer Input tokens that were neither read from nor written to a prompt cache.
---@field outputTokens integer Output tokens, reasoning included.
---@field cacheReadTokens integer Input tokens read from the provider's prompt cache.
---@field cacheWriteTokens integer Input tokens written to the provider's prompt cache.

---Params of `agent/steer`.
---@class (exact) agentls.SteerParams
---@field sessionId string The session.
---@field prompt agentls.PromptContent The user's addition.
---@field expectedTurnId? string The turn that it is meant for; the request fails if that turn is not running. Absent for any running turn.

---Result of `agent/steer`.
---@class (exact) agentls.SteerResult
---@field turnId string The turn that it joins.

---Params of `agent/queue`.
---@class (exact) agentls.QueueParams
---@field sessionId string The session.
---@field action agentls.QueueAction The action.
---@field prompt? agentls.PromptContent The user's prompt; required by `add` and `edit`.
---@field promptId? string The prompt; required by `edit` and `remove`.

---An action on the queue.
---@alias agentls.QueueAction
---| "list" # Changes nothing and returns the queue.
---| "add" # Appends `prompt`. It starts immediately if no turn is running, nothing else waits and the queue is not paused.
---| "edit" # Replaces the prompt named by `promptId` with `prompt`.
---| "remove" # Removes the prompt named by `promptId`.
---| "sendNow" # Sends the prompt named by `promptId`, or the next one, now, and resumes the queue. A running turn gets it as a steer; otherwise it starts a turn of its own. If a turn is being canceled, the prompt waits for its end.

---Result of `agent/queue`: the queue after the action.
---@class (exact) agentls.QueueResult
---@field paused boolean Whether the queue waits for `sendNow`, because the last turn was canceled, failed or was interrupted. A later turn that completes also resumes it.
---@field prompts agentls.QueuedContent[] The waiting prompts, the next one first.
---@field promptId? string The prompt that was added.
---@field turnId? string The turn that took the prompt: one that it started, or the running one.

---A waiting prompt with its full content.
---@class (exact) agentls.QueuedContent
---@field promptId string The id to edit, remove or send it by.
---@field content agentls.MessageBlock[] The user's prompt.

---Text; the model writes Markdown.
---@class (exact) agentls.MessageBlock.text
---@field type "text"
---@field text string The text.
---@field more? table<string, agentls.TruncatedField> References to the full text of cut fields.

---The model's reasoning, as far as its provider reveals it.
---@class (exact) agentls.MessageBlock.reasoning
---@field type "reasoning"
---@field text string The text; empty if the provider hides it.
---@field more? table<string, agentls.TruncatedField> References to the full text of cut fields.

---The model requests a tool. `agent/toolCall` reports the progress.
---@class (exact) agentls.MessageBlock.toolUse
---@field type "toolUse"
---@field toolCallId string The call.
---@field name string The tool's name.
---@field input any The arguments; long strings in them may be cut.
---@field more? table<string, agentls.TruncatedField> References to the full text of cut fields.

---A tool call has its result, which is in that call's `agent/toolCall`.
---@class (exact) agentls.MessageBlock.toolResult
---@field type "toolResult"
---@field toolCallId string The tool call.
---@field isError boolean Whether the result is an error to the model.

---An image.
---@class (exact) agentls.MessageBlock.image: agentls.Image
---@field type "image"

---A place in a file that the user points at, or content of an MCP server, with its text at that time.
---@class (exact) agentls.MessageBlock.reference
---@field type "reference"
---@field kind agentls.ReferenceKind The kind of the target.
---@field path string The file's path: relative to the session's folder, `rootName/path` in another root, absolute elsewhere. Not a path for content of an MCP server: `server:uri` of a resource, `server/name` of a prompt.
---@field text string The text, or the message of a diagnostic.
---@field endLine? integer The last line, from 1.
---@field more? table<string, agentls.TruncatedField> References to the full text of cut fields.
---@field startLine? integer The first line, from 1; absent for the whole file.

---A part of a message in the history.
---@alias agentls.MessageBlock
---| agentls.MessageBlock.text
---| agentls.MessageBlock.reasoning
---| agentls.MessageBlock.toolUse
---| agentls.MessageBlock.toolResult
---| agentls.MessageBlock.image
---| agentls.MessageBlock.reference

---A reference to the full text of a cut field.
---@class (exact) agentls.TruncatedField
---@field ref string The `ref` for `agent/readContent`.
---@field bytes integer Length of the full text, in UTF-8 bytes.
---@field tail? string The end of the full text, at most 64 KiB; only for output. It never overlaps with the beginning.

---An image.
---@class (exact) agentls.Image
---@field mediaType string `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
---@field data? string The bytes in Base64. Absent if they are too long; then `more.data` refers to them.
---@field more? table<string, agentls.TruncatedField> References to the full text of cut fields.

---The kind of a reference's target.
---@alias agentls.ReferenceKind
---| "file" # A file or a range of it.
---| "selection" # The user's selection.
---| "diagnostic" # A diagnostic from the editor.
---| "resource" # A resource of an MCP server.
---| "prompt" # A prompt of an MCP server, which the user has called as a slash command.

---Params of `agent/resumeTurn`.
---@class (exact) agentls.ResumeTurnParams
---@field sessionId string The session whose last turn was interrupted or canceled.

---Params of `agent/compact`.
---@class (exact) agentls.CompactParams
---@field sessionId string The session.
---@field instructions? string What the summary should keep, for the model that writes it.

---Params of `agent/approvalRespond`.
---@class (exact) agentls.ApprovalRespondParams
---@field approvalId string The approval.
---@field decision agentls.Decision The user's decision.
---@field feedback? string What the model reads; only with `deny`.
---@field input? any The full edited arguments; not with `deny`.
---@field rule? string The rule to add instead of the offered one; only with `allowSession` and `allowAlways`.

---The user's decision.
---@alias agentls.Decision
---| "allow" # Allows this call.
---| "allowSession" # Allows it for the rest of the session.
---| "allowAlways" # Allows it from now on in this workspace.
---| "deny" # Denies this call.

---The answer to a request that returns no data.
---@class (exact) agentls.EmptyResult

---Params of `agent/limitRespond`: one of `raiseBy` and `stop`. For `unknown_price`, neither means to
---continue.
---@class (exact) agentls.LimitRespondParams
---@field limitId string The limit request.
---@field raiseBy? number The increase: US dollars, steps, calls or seconds. It lasts for the turn, session or day that the limit covers.
---@field stop? boolean Whether the limit stays and the turn ends.

---Params of `agent/questionRespond`: one of `answers` and `dismissed`.
---@class (exact) agentls.QuestionRespondParams
---@field questionId string The question.
---@field answers? table<string, string[]> The answers by field name. Each is a list, with one entry unless several choices are allowed.
---@field dismissed? boolean Whether the user declines to answer.

---Params of `agent/listApprovals`.
---@class (exact) agentls.ListApprovalsParams
---@field sessionId? string Only those of this session; absent for all sessions that no other server has open.

---Result of `agent/listApprovals`.
---@class (exact) agentls.ListApprovalsResult
---@field approvals agentls.ApprovalRequestedNotification[] The open approvals, oldest first, as they were requested.
---@field limits? agentls.LimitRequestedNotification[] The limits that wait for an answer.
---@field questions? agentls.QuestionRequestedNotification[] The questions that wait for an answer.

---Params of `agent/approvalRequested`.
---@class (exact) agentls.ApprovalRequestedNotification
---@field sessionId string The session that it belongs to.
---@field seq integer Its number in the session. Numbers start at 1, without gaps or repeats.
---@field at integer When it happened, in ms since the Unix epoch.
---@field approvalId string Its id; it stays the same if the request is repeated after a restart.
---@field toolCallId string The waiting call.
---@field name string The tool's name.
---@field input any The arguments of the call; long strings in them may be cut.
---@field title string One line for the user.
---@field cwd string The folder in which it would run.
---@field risk agentls.Risk The possible harm.
---@field why string The reason for the request, for the user.
---@field diff? string The planned changes, as a unified diff.
---@field loses? agentls.Loss[] What the command would delete or overwrite for good, largest first; at most 20 entries. What a revert brings back is not listed. `why` names the first three.
---@field losesMore? agentls.MoreLosses What `loses` leaves out. Absent if it lists all.
---@field more? table<string, agentls.TruncatedField> References to the full text of cut fields.
---@field options? string[] Options of the call that change its effect, and how its command or its MCP server is confined, as short phrases: `keeps running in the background`, `runs in the sandbox (full, writes in the workspace)`.
---@field otherWhy? string The reasons in `why` that are not losses, for clients that show `loses`. Absent if there are none.
---@field rule? string The rule that `allowSession` and `allowAlways` would add. Absent if there is none; then do not offer those two.
---@field shown? string The full command line or URL as the user should read it. Characters that are invisible or change the reading order are written out (`<U+202E>`). Show this instead of `input`. Absent for tools that have neither.
---@field turnId? string The turn that caused it; absent if no turn did.

---Something that a command would delete or overwrite for good.
---@class (exact) agentls.Loss
---@field what string A path, or what it is in words: `an entry of the stash`.
---@field bytes? integer The size of the file in bytes. Absent if it is not a file, or if the size is unknown.

---Losses that a list leaves out.
---@class (exact) agentls.MoreLosses
---@field count integer How many are known.
---@field isPartial boolean Whether there may be more than `count`: not everything was looked at.

---The possible harm of an effect, judged by what it touches.
---@alias agentls.Risk
---| "low" # It only reads, inside the workspace.
---| "medium" # It changes files inside the workspace, or runs a program without signs of more.
---| "high" # It uses the network, secrets, privileges, files outside the workspace or files that make programs run. Also a recursive deletion, or a command that cannot be fully parsed.

---Params of `agent/limitRequested`.
---@class (exact) agentls.LimitRequestedNotification
---@field sessionId string The session that it belongs to.
---@field seq integer Its number in the session. Numbers start at 1, without gaps or repeats.
---@field at integer When it happened, in ms since the Unix epoch.
---@field limitId string Its id; it stays the same if the request is repeated after a restart.
---@field limit agentls.LimitName The limit.
---@field used number The amount used, with the estimate of a call that was not made: US dollars, steps, calls or seconds.
---@field max number The allowed amount; 0 for `unknown_price`.
---@field message string One line for the user.
---@field model? string The model that is affected, as `provider/model`.
---@field parentToolCallId? string The call that delegated to the sub-agent that asks; absent if the turn itself asks.
---@field provider? string The provider that is affected.
---@field turnId? string The turn that caused it; absent if no turn did.

---Which limit was reached.
---@alias agentls.LimitName
---| "max_steps" # Steps of the turn.
---| "max_tool_calls" # Tool calls of the turn.
---| "max_turn_cost" # US dollars of the turn.
---| "max_session_cost" # US dollars of the session.
---| "max_day_cost" # US dollars of the day (UTC), over all sessions.
---| "max_provider_day_cost" # US dollars of the day (UTC) at one provider.
---| "max_wall_time_s" # Seconds of the turn.
---| "unknown_price" # A money limit is set, and the model's price is unknown.

---Params of `agent/questionRequested`.
---@class (exact) agentls.QuestionRequestedNotification
---@field sessionId string The session that it belongs to.
---@field seq integer Its number in the session. Numbers start at 1, without gaps or repeats.
---@field at integer When it happened, in ms since the Unix epoch.
---@field questionId string Its id; it stays the same if the request is repeated after a restart.
---@field text string The question.
---@field fields agentls.QuestionField[] The fields to answer.
---@field detail? string More detail.
---@field more? table<string, agentls.TruncatedField> References to the full text of cut fields.
---@field parentToolCallId? string The call that delegated to the sub-agent that asks; absent if the turn itself asks.
---@field toolCallId? string The call that waits for the answer.
---@field turnId? string The turn that caused it; absent if no turn did.

---One field of a question.
---@class (exact) agentls.QuestionField
---@field name string The key of its answer.
---@field choices? agentls.QuestionChoice[] The choices; empty for free text.
---@field default? string[] The answer that an empty one stands for; empty if there is none.
---@field free? boolean Whether free text is allowed instead of a choice.
---@field label? string The label for the user; empty if the question needs none.
---@field required? boolean Whether an answer is required.
---@field schema? any What a JSON Schema says about a field of a form: `title`, `description`, `type`, `format`, `minimum`, and so on. The label says the same in words.
---@field several? boolean Whether several choices are allowed.

---A choice of a question's field.
---@class (exact) agentls.QuestionChoice
---@field value string The value for the answer.
---@field label string The label for the user.

---Params of `agent/listGrants`.
---@class (exact) agentls.ListGrantsParams
---@field sessionId? string The session whose grants are listed; absent for all grants of workspace folders.

---Result of `agent/listGrants`.
---@class (exact) agentls.ListGrantsResult
---@field grants agentls.Grant[] The grants, newest first.

---A permission of the user beyond one call.
---@class (exact) agentls.Grant
---@field grantId string Its id, for `agent/revokeGrant`.
---@field rule string The rule, as in the configuration: `bash(git status *)`.
---@field scope agentls.GrantScope Its reach.
---@field folder string The workspace folder that it was given for.
---@field grantedAt integer When it was given, in ms since the Unix epoch.

---The reach of a grant.
---@alias agentls.GrantScope
---| "session" # One session.
---| "workspace" # Every session in the workspace folder.

---Params of `agent/revokeGrant`.
---@class (exact) agentls.RevokeGrantParams
---@field grantId string The grant.

---Params of `agent/listSessions`.
---@class (exact) agentls.ListSessionsParams
---@field cursor? string `nextCursor` of the previous page; absent for the first page.
---@field cwd? string Only sessions that work in this folder: a URI or an absolute path.
---@field limit? integer Largest number of sessions: 50 by default, at most 200.
---@field query? string Words to search for in titles, prompts and final answers.

---Result of `agent/listSessions`.
---@class (exact) agentls.ListSessionsResult
---@field sessions agentls.SessionInfo[] The sessions, the most recently used first.
---@field nextCursor? string The `cursor` of the next page; absent on the last page.

---A session in a list.
---@class (exact) agentls.SessionInfo
---@field sessionId string The session.
---@field cwd string The folder that it works in.
---@field createdAt integer When it was created, in ms since the Unix epoch.
---@field updatedAt integer The time of its last event, in ms since the Unix epoch.
---@field running? boolean Whether a turn is running in this server.
---@field snippet? string The text around the match of `query`, for the user.
---@field title? string Its title; absent before the first prompt.

---Params of `agent/loadSession`. The page consists of the last `tail` events after `afterSeq` and
---before `beforeSeq`.
---@class (exact) agentls.LoadSessionParams
---@field sessionId string The session.
---@field afterSeq? integer Only events after this number, which the client already has. If more than `tail` followed, the page leaves a gap, and the client starts over with it.
---@field beforeSeq? integer Only events before this number, for an earlier page.
---@field readOnly? boolean Whether to only look. This needs no lock, so it works while another server has the session. No notifications follow.
---@field tail? integer Largest number of events: 200 by default (1,000 with `afterSeq`), at most 1,000; 0 for none.

---Result of `agent/loadSession`.
---@class (exact) agentls.LoadSessionResult
---@field events agentls.EventRecord[] A page of the durable events, oldest first. They are not sent again as notifications.
---@field hasEarlier boolean Whether there are events before the page.
---@field openApprovals agentls.ApprovalRequestedNotification[] Approvals that wait for the user, as they were requested, including those from before the page.
---@field seq integer Number of the session's last event. Notifications continue from there.
---@field state agentls.SessionState The session as it is now.
---@field instructions? agentls.InstructionFile[] The files behind the last turn's instructions, as in `agent/instructions`, which may precede the page. Also absent until a turn runs in this server, because until then the server has not read all events of the session.
---@field openLimits? agentls.LimitRequestedNotification[] Limits that wait for an answer.
---@field openQuestions? agentls.QuestionRequestedNotification[] Questions that wait for an answer.
---@field partial? agentls.PartialMessage The message in progress.

---A durable event, as its notification.
---@class (exact) agentls.EventRecord
---@field method string The notification's method.
---@field params any The notification's params.

---An instruction file, as it was read.
---@class (exact) agentls.InstructionFile
---@field path string Its absolute path.
---@field kind agentls.InstructionKind Its purpose.
---@field bytes integer Bytes of it that are used; 0 if it was left out.
---@field trusted boolean Whether it belongs to the user, or lies in a folder that the user trusts.
---@field name? string The name of a skill.
---@field problem? string The reason why it was cut or left out.

---The purpose of an instruction file.
---@alias agentls.InstructionKind
---| "prompt" # The `prompt_file` of a named agent, which replaces the built-in instructions.
---| "soul" # `SOUL.md`: who the agent is.
---| "agents" # `AGENTS.md`: how to work here.
---| "tools" # `TOOLS.md`: how to use the tools.
---| "skill" # The `SKILL.md` of a skill.

---A message in progress. The following deltas continue where it ends.
---@class (exact) agentls.PartialMessage
---@field messageId string The message.
---@field text string Its text, from `offset`.
---@field offset integer UTF-8 bytes of the message's text before `text`; 0 if `text` is complete.
---@field reasoning? string Its reasoning so far.

---The current state of a session.
---@class (exact) agentls.SessionState
---@field cwd string The folder that it works in.
---@field mode agentls.Mode How freely the agent may act.
---@field usage agentls.TokenUsage Tokens used in total.
---@field costUsd? number Their cost in US dollars; absent if the cost of any call is unknown.
---@field effort? agentls.Effort The reasoning effort; absent for the provider's default.
---@field model? string The model, as `provider/model`; absent until it is known.
---@field queue? agentls.QueueState The prompts that wait for the end of the turn; absent if there are none.
---@field resumableTurnId? string The last turn, if `agent/resumeTurn` can continue it.
---@field runningTurnId? string The turn that is running.
---@field title? string Its title; absent before the first prompt.

---The queue as clients show it.
---@class (exact) agentls.QueueState
---@field paused boolean Whether it starts nothing by itself, because the last turn was canceled, failed or was interrupted.
---@field prompts agentls.QueuedPrompt[] The waiting prompts, the next one first.

---A waiting prompt as clients show it. `agent/queue` returns its full content.
---@class (exact) agentls.QueuedPrompt
---@field promptId string The id to edit, remove or send it by.
---@field text string The start of its text, on one line.

---Params of `agent/renameSession`.
---@class (exact) agentls.RenameSessionParams
---@field sessionId string The session.
---@field title string The new title: one line, at most 200 characters.

---Params of `agent/forkSession`.
---@class (exact) agentls.ForkSessionParams
---@field sessionId string The session.
---@field turnId? string The last turn of the new session; absent for the last turn that has ended.

---Result of `agent/forkSession`.
---@class (exact) agentls.ForkSessionResult
---@field sessionId string The new session; load it with `agent/loadSession`.
---@field title? string Its title.

---Params of `agent/exportSession`.
---@class (exact) agentls.ExportSessionParams
---@field sessionId string The session.
---@field format? agentls.ExportFormat The format; Markdown by default.

---The format of an exported session.
---@alias agentls.ExportFormat
---| "markdown" # For people: the conversation and the tool calls.
---| "json" # For programs: the session and all its events, as uncut notifications.

---Result of `agent/exportSession`.
---@class (exact) agentls.ExportSessionResult
---@field text string The exported session.

---Params of `agent/deleteSession`.
---@class (exact) agentls.DeleteSessionParams
---@field sessionId string The session; a running turn is canceled first.

---Params of `agent/revert`.
---@class (exact) agentls.RevertParams
---@field sessionId string The session.
---@field turnId string The turn. All later turns are reverted with it.
---@field dryRun? boolean Whether to only report what would be done.
---@field redo? boolean Whether to redo the changes that the last revert of this turn undid.

---Result of `agent/revert`.
---@class (exact) agentls.RevertResult
---@field turnIds string[] The turns whose changes are affected, the first one first.
---@field files agentls.RevertedFile[] The files that were restored, or would be with `dryRun`. Files that already match are not listed.
---@field conflicts agentls.RevertConflict[] The files that were left unchanged.

---A file that was left unchanged.
---@class (exact) agentls.RevertConflict
---@field path string The file's path, as in `agent/turnDiff`.
---@field uri string The file's URI.
---@field why string The reason, for the user.

---A file that was restored.
---@class (exact) agentls.RevertedFile
---@field path string The file's path, as in `agent/turnDiff`.
---@field uri string The file's URI.
---@field kind agentls.ChangeKind What was done to it.

---The kind of a file's change.
---@alias agentls.ChangeKind
---| "created" # The file is new.
---| "modified" # Its content or its mode changed.
---| "deleted" # The file was deleted.

---Params of `agent/setMode`.
---@class (exact) agentls.SetModeParams
---@field sessionId string The session.
---@field mode agentls.Mode The mode; it applies from the next tool call.

---Params of `agent/setModel`.
---@class (exact) agentls.SetModelParams
---@field sessionId string The session.
---@field model string The model, as `provider/model`; it applies from the next model call.
---@field effort? agentls.Effort The reasoning effort; absent for the provider's default.

---Params of `agent/describeTrust`.
---@class (exact) agentls.DescribeTrustParams
---@field folder string The workspace folder: its URI or absolute path.

---Result of `agent/describeTrust`. All texts show control and invisible characters as visible escapes.
---@class (exact) agentls.DescribeTrustResult
---@field folder string The folder's path.
---@field trusted boolean Whether it is trusted now.
---@field activates agentls.TrustItem[] What its own files activate once it is trusted.
---@field redirects agentls.ProviderRedirect[] Where its own files send the user's keys. Each redirect needs a separate question.

---Something that a folder's own files activate once the folder is trusted.
---@class (exact) agentls.TrustItem
---@field kind agentls.TrustItemKind Its kind.
---@field name string The name of the hook or tool, or the key of the setting; for git also `hooks/NAME`, or `repository` for one whose settings cannot be examined.
---@field detail string When it runs, or the value that it sets; and the file and line.
---@field command? string The command that it runs.

---The kind of a thing that a folder's files activate. Later versions add kinds: show an unknown one by
---`name` and `detail`.
---@alias agentls.TrustItemKind
---| "hook" # A command that runs at a fixed point of every turn.
---| "tool" # A tool whose call runs a command.
---| "mcpServer" # An MCP server: a program that starts (`command`), or an address that is contacted (in `detail`).
---| "setting" # Another setting that an untrusted folder may not set.
---| "gitSetting" # A setting or hook of a git repository in the folder, which git follows only if the folder is trusted.

---A folder's attempt to send one of the user's keys to another address.
---@class (exact) agentls.ProviderRedirect
---@field provider string The provider; `*` if a proxy or certificates affect all of them.
---@field to string Where the folder sends them. Show it in full, and send it back exactly to accept it.
---@field sends string[] The user's data that would go there, each as a short phrase.
---@field accepted boolean Whether the user accepted it. Until then it is ignored, with a warning.
---@field from? string Where the user's own configuration sends requests; absent if only the folder names this provider.

---Params of `agent/setTrust`.
---@class (exact) agentls.SetTrustParams
---@field folder string The workspace folder: its URI or absolute path.
---@field trusted boolean Whether the folder's own settings may loosen approvals, start anything, or change addresses and keys.
---@field acceptRedirects? agentls.AcceptedRedirect[] Redirects that the user accepted, each after a separate question. Trust alone accepts none. An accepted redirect stays so until the folder names another address or loses its trust.

---A redirect that the user accepts.
---@class (exact) agentls.AcceptedRedirect
---@field provider string The provider, as `agent/describeTrust` named it.
---@field to string The target, exactly as `agent/describeTrust` named it.

---Params of `agent/listModels`.
---@class (exact) agentls.ListModelsParams
---@field check? string The provider whose address and key are tested first, by one request that costs nothing. Its `health` and `message` report the result. Takes at most 15 s.
---@field live? boolean Whether to first request the list of every provider that has a key. Takes at most 5 s. A provider that does not answer counts as having no list.
---@field sessionId? string The session whose configuration applies, with its model marked; absent for the user's configuration.

---Result of `agent/listModels`.
---@class (exact) agentls.ListModelsResult
---@field models agentls.ModelInfo[] The models to choose from.
---@field providers agentls.ProviderInfo[] The configured providers.

---A model to choose from.
---@class (exact) agentls.ModelInfo
---@field model string The name for `agent/setModel`: `provider/model`.
---@field provider string The provider's name in the configuration.
---@field contextWindow? integer Size of its context window, in tokens.
---@field current? boolean Whether it is the session's model, or the default one.
---@field listed? boolean Whether the provider's own list contains it; absent while that list is unknown.
---@field maxOutputTokens? integer Its output limit, in tokens.
---@field price? agentls.Price The price of its tokens; absent if unknown.
---@field pricing? agentls.Pricing The source of its price; absent from older servers.

---Prices of a model's tokens, in US dollars per million.
---@class (exact) agentls.Price
---@field input number Input without a cache.
---@field output number Output.
---@field cacheRead number Input read from the prompt cache.
---@field cacheWrite number Input written to the prompt cache.

---The source of a model's price.
---@alias agentls.Pricing
---| "list" # The vendor's list price, regardless of who serves the model.
---| "configured" # The configuration.
---| "free" # The model is free: a local engine runs it.
---| "unknown" # The price is unknown.

---A configured provider.
---@class (exact) agentls.ProviderInfo
---@field provider string Its name in the configuration.
---@field kind string The kind of its API.
---@field health agentls.ProviderHealth Its health.
---@field circuit? agentls.CircuitInfo The state of its account's circuit breaker, while it is not closed.
---@field message? string More detail for the user: what fails, or what is missing.

---The state of a circuit breaker.
---@class (exact) agentls.CircuitInfo
---@field subject agentls.CircuitSubject The kind of the guarded thing.
---@field name string The name of the provider or the tool.
---@field state agentls.CircuitState Its state.
---@field ["until"]? integer When an open circuit lets a trial call through, in ms since the Unix epoch.

---The state of a circuit breaker.
---@alias agentls.CircuitState
---| "closed" # Calls pass.
---| "open" # No call passes, because the provider or the tool failed too often in a row.
---| "halfOpen" # One call passes as a trial. Its outcome closes the circuit or opens it again.

---The kind of thing that a circuit breaker guards.
---@alias agentls.CircuitSubject
---| "provider" # The account of a provider.
---| "tool" # A tool.

---The health of a provider.
---@alias agentls.ProviderHealth
---| "unknown" # It has not been called.
---| "ok" # Its last call succeeded.
---| "failing" # Its last call failed.
---| "notConfigured" # It cannot be called: a key is missing.

---Params of `agent/listAgents`.
---@class (exact) agentls.ListAgentsParams
---@field sessionId? string The session whose folder's agents are listed, with its own marked; absent for the first workspace folder.

---Result of `agent/listAgents`.
---@class (exact) agentls.ListAgentsResult
---@field agents agentls.AgentInfo[] The agents of the configuration, `default` first.

---A configured agent.
---@class (exact) agentls.AgentInfo
---@field name string Its name, for `agent/newSession`.
---@field mode agentls.Mode The initial mode of its sessions.
---@field tools string[] Its tools.
---@field current? boolean Whether it is the session's agent.
---@field description? string Its purpose.
---@field model? string The model that it sets.
---@field provider? string The provider that it sets.

---Params of `agent/listCommands`.
---@class (exact) agentls.ListCommandsParams
---@field sessionId? string The session whose commands are listed; absent for the first workspace folder.

---Result of `agent/listCommands`.
---@class (exact) agentls.ListCommandsResult
---@field commands agentls.CommandInfo[] The commands, by name.

---A prompt stored as a slash command: a file, or a prompt of an MCP server that runs. A prompt that
---starts with `/` and its name expands to it.
---@class (exact) agentls.CommandInfo
---@field name string Its name, without the `/`.
---@field trusted boolean Whether it belongs to the user, or lies in a folder that the user trusts.
---@field argumentHint? string A hint at its arguments.
---@field arguments? agentls.CommandArgument[] Its arguments, in order, if a server defines them. The last one takes the rest of the words.
---@field description? string Its purpose.
---@field path? string The absolute path of its file.
---@field problem? string The reason why it cannot be used.
---@field server? string The MCP server that offers it, instead of a file.

---An argument of a slash command.
---@class (exact) agentls.CommandArgument
---@field name string Its name.
---@field description? string Its purpose.
---@field required? boolean Whether the command needs it.

---Params of `agent/listTools`.
---@class (exact) agentls.ListToolsParams
---@field sessionId? string The session whose agent's tools are listed; absent for all tools.

---Result of `agent/listTools`.
---@class (exact) agentls.ListToolsResult
---@field tools agentls.ToolInfo[] The tools, by name.

---A tool as the model sees it.
---@class (exact) agentls.ToolInfo
---@field name string Its name.
---@field description string What it does and when to use it.
---@field inputSchema any JSON Schema of its arguments.

---Params of `agent/listMcpServers`.
---@class (exact) agentls.ListMcpServersParams
---@field sessionId? string The session whose folder's servers are listed; absent for the first workspace folder.

---Result of `agent/listMcpServers`.
---@class (exact) agentls.ListMcpServersResult
---@field servers agentls.McpServerInfo[] The servers, by name.

---An MCP server and its state.
---@class (exact) agentls.McpServerInfo
---@field name string The NAME of `[mcp.NAME]`.
---@field folder string The workspace folder whose sessions use it, as an absolute path.
---@field state agentls.McpServerState What it is doing.
---@field target string The program that runs, or the address; empty in the state `invalid`.
---@field toolCount integer Number of tools that the agent may use.
---@field loggedIn? boolean Whether there are tokens of a login that are still valid as far as known, which `agent/logoutMcpServer` removes; only in `agent/listMcpServers`.
---@field loginUrl? string The address at which a user logs in, while a login waits for that.
---@field reason? string Why it failed or is invalid, or why the last login failed or does not suffice, for the user.
---@field source? string Where it is configured: a file, relative to the folder if it is in it, or an editor's setting.
---@field stderr? string[] The last lines that it wrote to its standard error, if it failed; always in `agent/listMcpServers`.
---@field title? string What it calls itself, with its version; absent before it was ready.
---@field tools? string[] Their names, as the server gives them; only in `agent/listMcpServers`.

---What an MCP server is doing.
---@alias agentls.McpServerState
---| "disabled" # The configuration disables it.
---| "untrusted" # A file of the folder names it, and the folder is not trusted; see `agent/describeTrust`.
---| "invalid" # Its configuration cannot be used; see `reason`.
---| "idle" # No session has needed it yet.
---| "starting" # It was started, and has not listed its tools yet.
---| "ready" # The agent can use its tools.
---| "failed" # It did not start, or it ended; see `reason`.
---| "needsLogin" # It refuses requests until the user has logged in.

---Params of `agent/restartMcpServer`.
---@class (exact) agentls.RestartMcpServerParams
---@field name string The server's name.
---@field sessionId? string The session whose folder's server is meant; absent for the first workspace folder.

---Params of `agent/loginMcpServer`.
---@class (exact) agentls.LoginMcpServerParams
---@field name string The server's name.
---@field sessionId? string The session whose folder's server is meant; absent for the first workspace folder.

---Result of `agent/loginMcpServer`.
---@class (exact) agentls.LoginMcpServerResult
---@field url string The address to open in a browser, after the user agrees. It works once, and for ten minutes.

---Params of `agent/cancelMcpLogin`.
---@class (exact) agentls.CancelMcpLoginParams
---@field name string The server's name.
---@field sessionId? string The session whose folder's server is meant; absent for the first workspace folder.

---Params of `agent/logoutMcpServer`.
---@class (exact) agentls.LogoutMcpServerParams
---@field name string The server's name.
---@field sessionId? string The session whose folder's server is meant; absent for the first workspace folder.

---Result of `agent/logoutMcpServer`.
---@class (exact) agentls.LogoutMcpServerResult
---@field revocationProblem? string Why the authorization server did not revoke the tokens, for the user. They are removed from this machine all the same.
---@field wasLoggedIn? boolean There were tokens of a login, which are removed now.

---Params of `agent/readContent`.
---@class (exact) agentls.ReadContentParams
---@field sessionId string The session.
---@field ref string The `ref` of a cut field.
---@field limit? integer Largest number of bytes: 65,536 by default, at most 1,048,576.
---@field offset? integer First byte to read; 0 by default.

---Result of `agent/readContent`.
---@class (exact) agentls.ReadContentResult
---@field text string The piece. It consists of whole characters, so it may be a few bytes shorter than `limit`.
---@field bytes integer Length of the full content, in bytes.
---@field nextOffset? integer The `offset` of the next piece; absent at the end.

---Params of `agent/metrics`.
---@class (exact) agentls.MetricsParams
---@field sessionId? string A session whose counts are included.

---Result of `agent/metrics`.
---@class (exact) agentls.MetricsResult
---@field totals agentls.Counts Counts of the whole server.
---@field latencies agentls.Latencies Durations.
---@field circuits? agentls.CircuitInfo[] The circuits of all providers in use, and those of the session's tools that are not closed.
---@field session? agentls.SessionMetrics Counts of the requested session.

---Durations of calls, steps and cancels.
---@class (exact) agentls.Latencies
---@field firstToken agentls.Histogram From a provider call to its first content.
---@field step agentls.Histogram One step of the loop.
---@field tool agentls.Histogram One tool call, without the wait for the user.
---@field cancel agentls.Histogram From a cancel to the turn's end.

---Durations in buckets.
---@class (exact) agentls.Histogram
---@field boundsUs integer[] Upper bounds of the buckets, in microseconds.
---@field counts integer[] Observations per bucket; one entry more than `boundsUs`, for values above the last bound.
---@field sumUs integer The sum of all observations, in microseconds.
---@field count integer Number of observations.

---Counts of one session since it was created; `queuedPrompts` and `reverts` since it was loaded.
---@class (exact) agentls.SessionMetrics
---@field sessionId string The session.
---@field startedAt integer When the session was created, in ms since the Unix epoch.
---@field inputTokens integer Tokens sent to models.
---@field outputTokens integer Tokens received from models.
---@field requests integer Provider calls made.
---@field errors integer Errors of any kind that reached a turn.
---@field toolCalls integer Tool calls run.
---@field retries integer Provider calls that were repeated.
---@field compactions integer Summaries made of a history that grew too long.
---@field cancels integer Turns canceled.
---@field toolCallsByName table<string, integer> Tool calls run, by the tool's name.
---@field errorsByCode table<string, integer> Errors by code, including those that ended no turn.
---@field queuedPrompts? integer Prompts that were queued for the end of a turn.
---@field reverts? integer Reverts and redos of file changes.

---Counters of activity.
---@class (exact) agentls.Counts
---@field inputTokens integer Tokens sent to models.
---@field outputTokens integer Tokens received from models.
---@field requests integer Provider calls made.
---@field errors integer Errors of any kind that reached a turn.
---@field toolCalls integer Tool calls run.
---@field retries integer Provider calls that were repeated.
---@field compactions integer Summaries made of a history that grew too long.
---@field cancels integer Turns canceled.
---@field queuedPrompts? integer Prompts that were queued for the end of a turn.
---@field reverts? integer Reverts and redos of file changes.

---Params of `agent/resetCircuit`.
---@class (exact) agentls.ResetCircuitParams
---@field subject agentls.CircuitSubject The kind of the guarded thing.
---@field name string The name of the provider or the tool.
---@field sessionId? string For a tool: the session with the circuit; absent for that of every loaded session.

---Result of `agent/resetCircuit`.
---@class (exact) agentls.ResetCircuitResult
---@field wasOpen boolean Whether it was open or on trial before.

---Params of `agent/reloadConfig`.
---@class (exact) agentls.ReloadConfigParams

---Result of `agent/reloadConfig`.
---@class (exact) agentls.ReloadConfigResult
---@field problems agentls.ConfigProblem[] Problems in the files; everything else applies.

---A problem in a configuration file.
---@class (exact) agentls.ConfigProblem
---@field file string The file, or another source of the setting: an environment variable, `initializationOptions`.
---@field severity agentls.Severity Its severity.
---@field message string The problem and the remedy, for the user.
---@field line? integer The line, from 1; absent if unknown.

---Params of the client's notification `agent/cancel`.
---@class (exact) agentls.CancelNotification
---@field sessionId string The session.
---@field turnId? string The turn to cancel; nothing happens if another one is running. Absent for any running turn.

---Params of `agent/saveDocuments`.
---@class (exact) agentls.SaveDocumentsParams
---@field uris string[] The documents, by the URIs with which the client opened them.

---Result of `agent/saveDocuments`.
---@class (exact) agentls.SaveDocumentsResult
---@field failed? agentls.NotSaved[] The documents that are not.
---@field saved? string[] The documents that are now on disk as the editor shows them.

---A document that could not be saved.
---@class (exact) agentls.NotSaved
---@field uri string The document.
---@field reason string The reason, for the model: `it is read-only in the editor`.

---Params of `agent/getCredential`.
---@class (exact) agentls.GetCredentialParams
---@field provider string The provider's name in the configuration.

---Result of `agent/getCredential`.
---@class (exact) agentls.GetCredentialResult
---@field apiKey? string The key; absent if the client has none for that provider.

---Params of `agent/getDiagnostics`.
---@class (exact) agentls.GetDiagnosticsParams
---@field alsoWaitFor? string[] Further documents to wait for in the same way, at the same time.
---@field uri? string The document, by the URI with which the client opened it if it is open; absent for all that the client knows.
---@field waitFor? string The URI of a document. Answer when its compilers have reported about its current text. If it is not open, load it without showing it.
---@field waitMs? integer The longest wait for all documents together, in milliseconds. After it, answer with what is known.

---Result of `agent/getDiagnostics`.
---@class (exact) agentls.GetDiagnosticsResult
---@field diagnostics? agentls.Diagnostic[] The current reports of the client's compilers and linters, in any order.
---@field unreported? string[] The documents of `waitFor` and `alsoWaitFor` about which a compiler had not reported in time.

---A diagnostic from the client.
---@class (exact) agentls.Diagnostic
---@field uri string The document's URI.
---@field range agentls.Range The part of the document that it is about.
---@field message string The text of the diagnostic.
---@field severity? agentls.Severity Its severity; absent means an error.
---@field source? string Its source: a compiler or a linter.

---Params of `agent/languageQuery`.
---@class (exact) agentls.LanguageQueryParams
---@field kind agentls.LanguageQueryKind What is asked.
---@field limit integer The most entries that the server can use; the client may leave out the rest.
---@field position? agentls.Position A position in the symbol; for `quickFixes`, in the line with the problems. Absent for `documentSymbols`, `workspaceSymbols`, and `format`.
---@field query? string For `workspaceSymbols`: the text to search for. For `rename`: the new name.
---@field uri? string The document, by the URI with which the client opened it if it is open; absent for `workspaceSymbols`.

---What an `agent/languageQuery` asks for. The LSP request of the same name defines the result. A
---client answers a kind that it does not know with an error.
---@alias agentls.LanguageQueryKind
---| "definition" # The `locations` where the symbol is defined.
---| "implementation" # The `locations` that implement the symbol.
---| "typeDefinition" # The `locations` where the symbol's type is defined.
---| "references" # The `locations` that use the symbol, its declaration included.
---| "incomingCalls" # The `locations` of the calls of the function.
---| "outgoingCalls" # The `locations` where the functions are defined that the function calls.
---| "hover" # The signature and documentation of the symbol, as `text`.
---| "documentSymbols" # The `symbols` of the document.
---| "workspaceSymbols" # The `symbols` of the workspace whose names match `query`.
---| "rename" # The `edits` that give the symbol the name `query`. The client must not make them.
---| "quickFixes" # The `fixes` for the problems in the line: LSP's code actions of the kind `quickfix` that have an edit. The client must not make them.
---| "format" # The `edits` that format the document as the editor would. The client must not make them.

---Result of `agent/languageQuery`. A client that cannot answer returns an error, whose message the
---model reads.
---@class (exact) agentls.LanguageQueryResult
---@field edits? agentls.DocumentEdits[] The edits, one entry for each document.
---@field fixes? agentls.QuickFix[] The quick fixes, each with its edits.
---@field locations? agentls.DocumentLocation[] The locations found.
---@field symbols? agentls.LanguageSymbol[] The symbols found, in any order; nested ones are entries of their own.
---@field text? string What is known about the symbol, as Markdown.

---Edits of a document. All ranges refer to the text before the first.
---@class (exact) agentls.DocumentEdits
---@field uri string The document's URI.
---@field edits agentls.DocumentTextEdit[] The edits, which do not overlap.

---A replacement in a document, as LSP's `TextEdit`.
---@class (exact) agentls.DocumentTextEdit
---@field range agentls.Range The replaced range.
---@field newText string The text to put there.

---A repair that a language server offers for a problem: LSP's code action of the kind `quickfix`, with
---its edits.
---@class (exact) agentls.QuickFix
---@field title string Its title, by which the model chooses it.
---@field edits agentls.DocumentEdits[] The edits, one entry for each document.
---@field isPreferred? boolean Whether the language server prefers it.

---A range of a document.
---@class (exact) agentls.DocumentLocation
---@field uri string The document's URI.
---@field range agentls.Range The range in it.

---A symbol that a language server knows.
---@class (exact) agentls.LanguageSymbol
---@field name string Its name.
---@field kind integer Its kind, as LSP's `SymbolKind`: 5 is a class, 12 a function.
---@field uri string The URI of its document.
---@field range agentls.Range All of it, with its body if known.
---@field containerName? string The name of the symbol that contains it, if any.
---@field selectionRange? agentls.Range Its name in the document, if known.

---Params of `agent/turnStarted`.
---@class (exact) agentls.TurnStartedNotification
---@field sessionId string The session that it belongs to.
---@field seq integer Its number in the session. Numbers start at 1, without gaps or repeats.
---@field at integer When it happened, in ms since the Unix epoch.
---@field by? agentls.TurnAsker The request that started it; absent from servers that do not report it.
---@field resumes? string The turn that it continues, after `agent/resumeTurn`.
---@field turnId? string The turn that caused it; absent if no turn did.

---The request that started a turn. Later versions may add values.
---@alias agentls.TurnAsker
---| "prompt" # `agent/prompt`.
---| "resume" # `agent/resumeTurn`.
---| "compact" # `agent/compact`.
---| "queue" # A prompt of `agent/queue` that was next.

---Params of `agent/turnEnded`.
---@class (exact) agentls.TurnEndedNotification
---@field sessionId string The session that it belongs to.
---@field seq integer Its number in the session. Numbers start at 1, without gaps or repeats.
---@field at integer When it happened, in ms since the Unix epoch.
---@field reason agentls.TerminalReason The reason why it ended.
---@field state agentls.TurnState The outcome in one word.
---@field usage agentls.TokenUsage Tokens of the turn.
---@field costUsd? number Cost of the turn in US dollars; absent if the model's price is unknown.
---@field error? agentls.ErrorData The error, if there was one.
---@field more? table<string, agentls.TruncatedField> Reference to the whole `unusedSteers`, if it had to be cut.
---@field turnId? string The turn that caused it; absent if no turn did.
---@field unusedSteers? agentls.MessageBlock[][] Prompts and steers that no model has seen, to be returned to the user's input. They come from a turn that was cut, failed or compacted, or from a hook that held them back.

---Params of `agent/textDelta`.
---@class (exact) agentls.TextDeltaNotification
---@field sessionId string The session.
---@field turnId string The turn.
---@field messageId string The message.
---@field offset integer Length of this message's text before this piece, in UTF-8 bytes.
---@field text string The piece.

---Params of `agent/reasoningDelta`.
---@class (exact) agentls.ReasoningDeltaNotification
---@field sessionId string The session.
---@field turnId string The turn.
---@field messageId string The message.
---@field offset integer Length of this message's reasoning before this piece, in UTF-8 bytes. The text is counted separately.
---@field text string The piece.

---Params of `agent/message`.
---@class (exact) agentls.MessageNotification
---@field sessionId string The session that it belongs to.
---@field seq integer Its number in the session. Numbers start at 1, without gaps or repeats.
---@field at integer When it happened, in ms since the Unix epoch.
---@field messageId string The message.
---@field role agentls.Role The author.
---@field content agentls.MessageBlock[] The content, in order.
---@field hidden? boolean Whether it is for the model only (continuation prompts, nudges). Do not show it in the chat.
---@field incomplete? boolean Whether a cancel, a crash or an error cut the message.
---@field more? table<string, agentls.TruncatedField> Reference to the whole `content` as a JSON array, if there were too many blocks.
---@field turnId? string The turn that caused it; absent if no turn did.

---The author of a message.
---@alias agentls.Role
---| "user" # The user.
---| "assistant" # The model.
---| "tool" # The results of the tool calls that the previous message requested.

---Params of `agent/messageRetracted`.
---@class (exact) agentls.MessageRetractedNotification
---@field sessionId string The session that it belongs to.
---@field seq integer Its number in the session. Numbers start at 1, without gaps or repeats.
---@field at integer When it happened, in ms since the Unix epoch.
---@field messageId string The retracted message.
---@field toolCallIds string[] The tool calls that it had started to request.
---@field turnId? string The turn that caused it; absent if no turn did.

---Params of `agent/toolInputDelta`.
---@class (exact) agentls.ToolInputDeltaNotification
---@field sessionId string The session.
---@field turnId string The turn.
---@field messageId string The message that requests it. Once it is complete, a call that it does not contain is void.
---@field toolCallId string The call.
---@field name string The tool's name.
---@field text string A piece of the JSON of its arguments.

---Params of `agent/toolOutputDelta`.
---@class (exact) agentls.ToolOutputDeltaNotification
---@field sessionId string The session.
---@field turnId string The turn.
---@field toolCallId string The call.
---@field text string A piece of its output, safe to show.

---Params of `agent/toolCall`: the status, and what changed since the previous one.
---@class (exact) agentls.ToolCallNotification
---@field sessionId string The session that it belongs to.
---@field seq integer Its number in the session. Numbers start at 1, without gaps or repeats.
---@field at integer When it happened, in ms since the Unix epoch.
---@field toolCallId string The call.
---@field name string The tool's name.
---@field title string One line for the user.
---@field status agentls.ToolCallStatus Its state now.
---@field diff? string Its planned or finished changes, as a unified diff.
---@field durationMs? integer Its duration in ms, without the wait for the user.
---@field exitCode? integer Exit code of a command, or 128 plus the number of the signal that killed it. Any value but 0 makes the status `failed`.
---@field images? agentls.Image[] Images in its result.
---@field input? any Its arguments, if they are new or the user edited them; long strings in them may be cut.
---@field locations? agentls.Location[] The files it affects; at most 100.
---@field more? table<string, agentls.TruncatedField> References to the full text of cut fields.
---@field output? string Its output, safe to show; present exactly if the status is final.
---@field parentToolCallId? string The call that delegated to the sub-agent which made this one.
---@field turnId? string The turn that caused it; absent if no turn did.

---A place in a file.
---@class (exact) agentls.Location
---@field uri string The file's URI.
---@field line? integer The line, from 1; absent for the whole file.

---The state of a tool call. The last four are final.
---@alias agentls.ToolCallStatus
---| "pending" # Its input is complete.
---| "awaitingApproval" # It waits for the user's approval, or was allowed and waits for the end of earlier calls.
---| "running" # It is running.
---| "completed" # It returned a result.
---| "failed" # It returned an error.
---| "denied" # The user or a policy denied it.
---| "cancelled" # A cancel, a crash or the end of the server came first.

---Params of `agent/approvalResolved`.
---@class (exact) agentls.ApprovalResolvedNotification
---@field sessionId string The session that it belongs to.
---@field seq integer Its number in the session. Numbers start at 1, without gaps or repeats.
---@field at integer When it happened, in ms since the Unix epoch.
---@field approvalId string The approval.
---@field toolCallId string The call that it was about.
---@field decision agentls.Decision The decision.
---@field by agentls.SettledBy What settled it.
---@field feedback? string What the model reads about a denial.
---@field input? any The arguments as the user edited them; long strings in them may be cut.
---@field more? table<string, agentls.TruncatedField> References to the full text of cut fields.
---@field rule? string The rule that was added.
---@field turnId? string The turn that caused it; absent if no turn did.

---What settled an approval.
---@alias agentls.SettledBy
---| "person" # The user answered.
---| "rule" # A rule or a grant was added in the meantime.
---| "cancel" # A cancel denied it.
---| "timeout" # It timed out.
---| "newPrompt" # The user sent a new prompt instead.

---Params of `agent/limitResolved`.
---@class (exact) agentls.LimitResolvedNotification
---@field sessionId string The session that it belongs to.
---@field seq integer Its number in the session. Numbers start at 1, without gaps or repeats.
---@field at integer When it happened, in ms since the Unix epoch.
---@field limitId string The limit request.
---@field limit agentls.LimitName The limit.
---@field outcome agentls.LimitOutcome The outcome.
---@field by agentls.SettledBy What settled it.
---@field raisedBy? number The increase: US dollars, steps, calls or seconds.
---@field turnId? string The turn that caused it; absent if no turn did.

---The outcome of a limit request.
---@alias agentls.LimitOutcome
---| "raised" # The limit was raised by `raisedBy`.
---| "accepted" # The turn continues although the price is unknown.
---| "stopped" # The limit stays, and the turn ends.

---Params of `agent/questionResolved`.
---@class (exact) agentls.QuestionResolvedNotification
---@field sessionId string The session that it belongs to.
---@field seq integer Its number in the session. Numbers start at 1, without gaps or repeats.
---@field at integer When it happened, in ms since the Unix epoch.
---@field questionId string The question.
---@field by agentls.SettledBy What settled it.
---@field answers? table<string, string[]> The answers by field name; absent if the question was not answered.
---@field more? table<string, agentls.TruncatedField> References to the full text of cut fields.
---@field turnId? string The turn that caused it; absent if no turn did.

---Params of `agent/plan`.
---@class (exact) agentls.PlanNotification
---@field sessionId string The session that it belongs to.
---@field seq integer Its number in the session. Numbers start at 1, without gaps or repeats.
---@field at integer When it happened, in ms since the Unix epoch.
---@field items agentls.PlanItem[] The whole plan.
---@field more? table<string, agentls.TruncatedField> Reference to the whole `items`, if there were too many.
---@field turnId? string The turn that caused it; absent if no turn did.

---One line of the plan.
---@class (exact) agentls.PlanItem
---@field text string The task.
---@field status agentls.PlanStatus Its progress.

---The progress of a line of the plan.
---@alias agentls.PlanStatus
---| "pending" # Not started.
---| "inProgress" # In progress.
---| "completed" # Done.

---Params of `agent/turnDiff`.
---@class (exact) agentls.TurnDiffNotification
---@field sessionId string The session that it belongs to.
---@field seq integer Its number in the session. Numbers start at 1, without gaps or repeats.
---@field at integer When it happened, in ms since the Unix epoch.
---@field ofTurnId string The turn whose changes these are. A revert includes the changes of later turns.
---@field standing agentls.ChangeState The state of the changes.
---@field files agentls.FileDiff[] The files. With `reverted` and `redone`: what has just been done to them.
---@field partial? boolean Whether commands may have changed more: the workspace has more files than the server scans.
---@field turnId? string The turn that caused it; absent if no turn did.
---@field unlisted? integer Number of further files that are not listed.

---A change of one file.
---@class (exact) agentls.FileDiff
---@field path string The file's path: relative to the session's folder, `rootName/path` in another root, absolute elsewhere.
---@field kind agentls.ChangeKind The kind of the change.
---@field added integer Number of added lines.
---@field removed integer Number of removed lines.
---@field diff? string A unified diff; absent for files that are not text, and if all diffs together grew too long.
---@field unrestorable? boolean Whether it cannot be reverted: a command changed the file, and its previous content is unknown.

---The state of a turn's changes.
---@alias agentls.ChangeState
---| "made" # The turn made them.
---| "reverted" # `agent/revert` reverted them.
---| "redone" # `agent/revert` with `redo` made them again.

---Params of `agent/transition`.
---@class (exact) agentls.TransitionNotification
---@field sessionId string The session that it belongs to.
---@field seq integer Its number in the session. Numbers start at 1, without gaps or repeats.
---@field at integer When it happened, in ms since the Unix epoch.
---@field kind agentls.TransitionKind Whether the turn continues.
---@field reason agentls.TransitionReason The reason.
---@field detail? string More detail, for the user.
---@field parentToolCallId? string The call that delegated to the sub-agent this is about; absent for the turn itself.
---@field turnId? string The turn that caused it; absent if no turn did.

---The effect of a step's outcome on the turn.
---@alias agentls.TransitionKind
---| "continue" # The model is called again.
---| "terminal" # The turn ends.

---The reason of a transition. The two lists share no value.
---@alias agentls.TransitionReason agentls.ContinueReason|agentls.TerminalReason

---The reason why the loop calls the model again.
---@alias agentls.ContinueReason
---| "next_turn" # Tool calls ran, or a steer is waiting.
---| "max_output_tokens_escalate" # The output was cut for the first time: the same request follows with a larger limit.
---| "max_output_tokens_recovery" # The output was cut again: the partial text stays, and the model is asked to continue.
---| "collapse_drain_retry" # The prompt was too long: stubs replaced old tool results, or the newest ones were shortened.
---| "reactive_compact_retry" # The prompt was still too long: the history was summarized.
---| "image_retry" # The API refused an image: it was shrunk or removed.
---| "empty_response_retry" # The answer was empty: the same request follows.
---| "pause_turn" # The provider paused a long turn.
---| "model_fallback" # The provider or the model was switched.
---| "stop_hook_blocking" # A stop hook objected.
---| "token_budget_continuation" # The token target is not reached.
---| "planning" # The session's first prompt: the model is asked for a plan before it acts.
---| "reflection" # Tool calls ran, and the model is asked to judge its progress.

---Params of `agent/retry`.
---@class (exact) agentls.RetryNotification
---@field sessionId string The session that it belongs to.
---@field seq integer Its number in the session. Numbers start at 1, without gaps or repeats.
---@field at integer When it happened, in ms since the Unix epoch.
---@field provider string The provider's name in the configuration.
---@field model string The model.
---@field attempt integer The attempt that failed, from 1.
---@field maxRetries integer Total number of retries for failures of this kind.
---@field delayMs integer Wait before the next attempt, in ms.
---@field resumeAt integer End of the wait, in ms since the Unix epoch.
---@field error agentls.ErrorData The error of the failed attempt.
---@field next string What happens if the next attempt also fails, for the user.
---@field parentToolCallId? string The call that delegated to the sub-agent this is about; absent for the turn itself.
---@field turnId? string The turn that caused it; absent if no turn did.

---Params of `agent/wait`.
---@class (exact) agentls.WaitNotification
---@field sessionId string The session that it belongs to.
---@field seq integer Its number in the session. Numbers start at 1, without gaps or repeats.
---@field at integer When it happened, in ms since the Unix epoch.
---@field why string What the turn waits for, for the user.
---@field parentToolCallId? string The call that delegated to the sub-agent this is about; absent for the turn itself.
---@field turnId? string The turn that caused it; absent if no turn did.
---@field ["until"]? integer End of the wait, in ms since the Unix epoch; absent if unknown.

---Params of `agent/compacted`.
---@class (exact) agentls.CompactedNotification
---@field sessionId string The session that it belongs to.
---@field seq integer Its number in the session. Numbers start at 1, without gaps or repeats.
---@field at integer When it happened, in ms since the Unix epoch.
---@field trigger agentls.CompactTrigger The reason.
---@field tokensBefore integer Estimated tokens of the whole request before.
---@field tokensAfter integer Estimated tokens of the whole request after.
---@field messagesBefore integer Number of messages before.
---@field messagesAfter integer Number of messages after.
---@field digest? boolean Whether the summary is a digest made by rules, because the model's call failed.
---@field more? table<string, agentls.TruncatedField> Reference to the whole `summary`, if it had to be cut.
---@field parentToolCallId? string The call that delegated to the sub-agent this is about; absent for the turn itself.
---@field summary? string The text that replaces the removed messages for the model; absent if stubs only replaced large results or images.
---@field turnId? string The turn that caused it; absent if no turn did.

---The reason why the history was reduced for the model.
---@alias agentls.CompactTrigger
---| "threshold" # The estimate passed the threshold.
---| "overflow" # The provider reported that the prompt is too long.
---| "picture" # The provider refused an image.
---| "manual" # The user requested it.

---Params of `agent/modelSwitched`.
---@class (exact) agentls.ModelSwitchedNotification
---@field sessionId string The session that it belongs to.
---@field seq integer Its number in the session. Numbers start at 1, without gaps or repeats.
---@field at integer When it happened, in ms since the Unix epoch.
---@field from string The previous model, as `provider/model`.
---@field to string The model from now on, as `provider/model`.
---@field why string The reason, for the user.
---@field parentToolCallId? string The call that delegated to the sub-agent this is about; absent for the turn itself.
---@field turnId? string The turn that caused it; absent if no turn did.

---Params of `agent/circuit`.
---@class (exact) agentls.CircuitNotification
---@field sessionId string The session that it belongs to.
---@field seq integer Its number in the session. Numbers start at 1, without gaps or repeats.
---@field at integer When it happened, in ms since the Unix epoch.
---@field subject agentls.CircuitSubject The kind of the guarded thing.
---@field name string The name of the provider or the tool.
---@field state agentls.CircuitState Its state.
---@field parentToolCallId? string The call that delegated to the sub-agent this is about; absent for the turn itself.
---@field turnId? string The turn that caused it; absent if no turn did.
---@field ["until"]? integer When an open circuit lets a trial call through, in ms since the Unix epoch.

---Params of `agent/usage`.
---@class (exact) agentls.UsageNotification
---@field sessionId string The session that it belongs to.
---@field seq integer Its number in the session. Numbers start at 1, without gaps or repeats.
---@field at integer When it happened, in ms since the Unix epoch.
---@field step agentls.UsageTotals Tokens and cost of the step.
---@field turn agentls.UsageTotals Tokens and cost of the turn so far.
---@field session agentls.UsageTotals Tokens and cost of the session so far.
---@field contextUsed integer Tokens of the context in use.
---@field contextWindow integer The model's window, in tokens.
---@field provider? string The provider that was called; absent in sessions from early versions.
---@field turnId? string The turn that caused it; absent if no turn did.

---Tokens and their cost.
---@class (exact) agentls.UsageTotals
---@field inputTokens integer Input tokens that were neither read from nor written to a prompt cache.
---@field outputTokens integer Output tokens, reasoning included.
---@field cacheReadTokens integer Input tokens read from the provider's prompt cache.
---@field cacheWriteTokens integer Input tokens written to the provider's prompt cache.
---@field costUsd? number Their cost in US dollars; absent if the cost of any call is unknown.

---Params of `agent/warning`.
---@class (exact) agentls.WarningNotification
---@field code string Its subject, as a stable code.
---@field message string The text for the user.
---@field at? integer When it happened, in ms since the Unix epoch; absent without a session.
---@field parentToolCallId? string The call that delegated to the sub-agent this is about; absent for the turn itself.
---@field seq? integer Its number in the session; absent without a session.
---@field sessionId? string The session; absent if it concerns the whole server.
---@field turnId? string The turn that caused it; absent if no turn did.

---Params of `agent/sessionUpdated`: only what changed.
---@class (exact) agentls.SessionUpdatedNotification
---@field sessionId string The session that it belongs to.
---@field seq integer Its number in the session. Numbers start at 1, without gaps or repeats.
---@field at integer When it happened, in ms since the Unix epoch.
---@field effort? agentls.Effort The reasoning effort.
---@field mode? agentls.Mode The mode.
---@field model? string The model, as `provider/model`.
---@field queue? agentls.QueueState All prompts that wait for the end of the turn.
---@field title? string The title.
---@field turnId? string The turn that caused it; absent if no turn did.

---Params of `agent/instructions`: all files behind the agent's instructions from now on.
---@class (exact) agentls.InstructionsNotification
---@field sessionId string The session that it belongs to.
---@field seq integer Its number in the session. Numbers start at 1, without gaps or repeats.
---@field at integer When it happened, in ms since the Unix epoch.
---@field files agentls.InstructionFile[] The files, in the order that the agent reads them. Of each kind, the nearest file comes last.
---@field leftOut? integer Number of further files that did not fit into this list.
---@field turnId? string The turn that caused it; absent if no turn did.

---Params of `agent/mcpServerUpdated`.
---@class (exact) agentls.McpServerUpdatedNotification
---@field server agentls.McpServerInfo The server as it is now.

---Params of `agent/status`: the state of the whole server, for a status bar.
---@class (exact) agentls.StatusNotification
---@field state agentls.ServerState Whether the server is working.
---@field runningTurns integer Number of running turns.
---@field openApprovals integer Number of approvals, limits and questions that wait for the user.
---@field circuits? agentls.CircuitInfo[] Circuits that are not closed.
---@field line? string One line for the user.
---@field mcpServers? agentls.McpServerHealth[] The MCP servers that sessions use.
---@field sandbox? agentls.SandboxStatus How commands are confined. Absent before the first session. If the settings of open folders differ, those that confine the least.
---@field warnings? agentls.ServerWarning[] Warnings that concern the whole server and still apply.

---The state of an MCP server, for a status bar.
---@class (exact) agentls.McpServerHealth
---@field name string The server's name.
---@field state agentls.McpServerState What it is doing.

---How commands are confined on this machine.
---@class (exact) agentls.SandboxStatus
---@field method string How the operating system enforces it, such as `namespaces`; `none` if it does not, and `off` if the settings disable the sandbox.
---@field level agentls.SandboxLevel How much of it holds.
---@field policies agentls.ModePolicy[] What commands may do, one entry for each mode. A hook or a tool may have its own policy.
---@field network? agentls.SandboxNetwork What of the network commands may use. Absent if nothing confines them.

---How much of the sandbox a method enforces.
---@alias agentls.SandboxLevel
---| "none" # Nothing: commands need approval as without a sandbox.
---| "partial" # A part: commands need approval as without a sandbox.
---| "full" # All of it.

---What of the network a command may use in the sandbox.
---@alias agentls.SandboxNetwork
---| "offline" # Nothing but servers that it starts itself.
---| "proxy" # Hosts that the user allows, through a proxy.
---| "open" # Everything.

---What commands may do in a mode.
---@class (exact) agentls.ModePolicy
---@field mode agentls.Mode The mode of the session.
---@field policy agentls.SandboxPolicy What its commands may do.

---What a command may do in the sandbox.
---@alias agentls.SandboxPolicy
---| "readOnly" # It writes nothing but its temporary folder.
---| "workspace" # It writes in the workspace folders, its temporary folder, and the caches of build tools.
---| "off" # It is not confined.

---Whether the server is working.
---@alias agentls.ServerState
---| "idle" # No turn is running.
---| "busy" # A turn is running.

---A warning that concerns the whole server.
---@class (exact) agentls.ServerWarning
---@field code string Its subject, as a stable code.
---@field message string The text for the user.

---The server's announcement, in `capabilities.experimental.agent` of its answer to `initialize`.
---@class (exact) agentls.ServerCapability
---@field protocolVersion agentls.ProtocolVersion The version of the protocol.
---@field methods string[] The requests and notifications that the server accepts.
---@field notifications string[] The notifications that the server sends.
---@field features agentls.Feature[] Further abilities of the server.

---An ability that the lists of methods do not show. Clients ignore unknown values.
---@alias agentls.Feature
---| "images" # Prompts may contain images.
---| "unsavedText" # The agent reads the unsaved text of open documents.
---| "applyEdit" # Files open in the editor are changed through `workspace/applyEdit`, if the client supports it.
---| "queue" # Prompts may wait for the end of a turn (`agent/queue`).
---| "checkpoints" # File changes of turns are reported (`agent/turnDiff`) and can be reverted (`agent/revert`).
---| "subAgents" # The agent may delegate to sub-agents, whose calls and retries carry `parentToolCallId`.
---| "credentials" # The server requests API keys by `agent/getCredential`, if the client supports it.
---| "diagnostics" # The server requests the editor's diagnostics by `agent/getDiagnostics`, if the client supports it.
---| "languageQueries" # The server asks the editor's language servers by `agent/languageQuery`, if the client supports it.

---The version of the protocol. Versions with different `major` are incompatible; a different `minor`
---is compatible.
---@class (exact) agentls.ProtocolVersion
---@field major integer Increases when something that clients rely on is removed or changed.
---@field minor integer Increases when something is added.

---A client's announcement, in `capabilities.experimental.agent` of `initialize`.
---@class (exact) agentls.ClientCapability
---@field client? agentls.ClientFlags What the client does for the server.

---What the client does for the server beyond LSP. Unknown flags are ignored.
---@class (exact) agentls.ClientFlags
---@field approves? boolean The client allows every call that needs approval without asking anybody, as `agentls run --yes` does. The environment note of the model says so. Questions are not asked then.
---@field codeFixes? boolean The client also answers for the kinds `quickFixes` and `format`. Without it, the agent has no `fix_code` tool.
---@field getCredential? boolean The client answers `agent/getCredential` from a secret store.
---@field getDiagnostics? boolean The client answers `agent/getDiagnostics`. Without it, the agent has no `diagnostics` tool.
---@field languageQueries? boolean The client answers `agent/languageQuery`. Without it, the agent has no `find_symbol`, `find_references`, `go_to_definition`, and `rename_symbol` tools.
---@field questions? boolean The client shows `agent/limitRequested` and `agent/questionRequested` to the user and answers them. Without it, the server requests approvals only: reaching a limit ends the turn.
---@field saveDocuments? boolean The client answers `agent/saveDocuments`. With it, and with LSP's `workspace.applyEdit` and `workspace.workspaceEdit.documentChanges`, the editor changes the files that it has open. Without it, they are changed on disk, unless the editor holds unsaved changes.

---`initializationOptions` of `initialize`: settings as in the configuration files, which they
---override, and facts that only the editor knows.
---@class (exact) agentls.InitializationOptions
---@field trusted? boolean Whether the editor trusts its workspace folders. A decision made with `agent/setTrust` takes precedence. Other folders are not affected.
---@field [string] any

return M
