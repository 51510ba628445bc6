---@meta agentls.protocol

-- Generated from the server's wire types by `UPDATE_PROTOCOL=1 cargo test --test generated`.
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
  ---Starts a session. Waits for no network.
  newSession = "agent/newSession",
  ---Starts a turn. Answered when the turn has ended.
  prompt = "agent/prompt",
  ---Talks to the running turn: joins the history before the next model call, and keeps the turn going.
  steer = "agent/steer",
  ---Prompts that wait for the turn's end: told, added, edited, taken out, sent now. At most 100 wait;
  ---they outlive the server.
  queue = "agent/queue",
  ---Starts a new turn that goes on where an interrupted or cancelled one stopped. Open approvals, limits
  ---and questions are asked again under their ids. Answered like `agent/prompt`.
  resumeTurn = "agent/resumeTurn",
  ---Starts a turn that does nothing but make smaller what the model is sent: a summary takes the place
  ---of old messages. Answered like `agent/prompt`.
  compact = "agent/compact",
  ---Decides an approval. The first answer wins; an unknown or settled id is an error.
  approvalRespond = "agent/approvalRespond",
  ---Says what becomes of a limit. The first answer wins; an unknown or settled id is an error.
  limitRespond = "agent/limitRespond",
  ---Answers a question of the agent. The first answer wins; an unknown or settled id is an error.
  questionRespond = "agent/questionRespond",
  ---Lists what waits for a person: approvals, limits, questions.
  listApprovals = "agent/listApprovals",
  ---Lists what was allowed beyond one call.
  listGrants = "agent/listGrants",
  ---Takes back what was allowed.
  revokeGrant = "agent/revokeGrant",
  ---Lists or searches sessions, those used last first.
  listSessions = "agent/listSessions",
  ---Opens a session: a page of its events, and what is open in it. Its notifications follow from then
  ---on.
  loadSession = "agent/loadSession",
  ---Gives a session another title.
  renameSession = "agent/renameSession",
  ---Makes a new session of what a session has up to the end of a turn. What was allowed for the session
  ---alone is not taken along.
  forkSession = "agent/forkSession",
  ---Tells all of a session as one text.
  exportSession = "agent/exportSession",
  ---Deletes a session for good.
  deleteSession = "agent/deleteSession",
  ---Puts the files of a turn and of all later ones back as they were before it, but none that people
  ---changed since; or takes such a revert back. An error while a turn runs.
  revert = "agent/revert",
  ---Sets how freely the agent may act.
  setMode = "agent/setMode",
  ---Sets the model and how hard it thinks. A name that cannot be a model is an error that names the
  ---nearest ones.
  setModel = "agent/setModel",
  ---Lists what a folder's own files would activate, and where they would send keys of the person's.
  ---Reads only: it starts and changes nothing.
  describeTrust = "agent/describeTrust",
  ---Says whether a workspace folder is trusted, and which redirects of its are accepted.
  setTrust = "agent/setTrust",
  ---Lists the models that can be chosen, and the providers with their health.
  listModels = "agent/listModels",
  ---Lists the named agents of the configuration.
  listAgents = "agent/listAgents",
  ---Lists the slash commands: prompts from the person's and the workspace's files.
  listCommands = "agent/listCommands",
  ---Lists the tools.
  listTools = "agent/listTools",
  ---Reads on where a field was cut.
  readContent = "agent/readContent",
  ---Tells what the server has counted since it started.
  metrics = "agent/metrics",
  ---Closes a circuit by hand: the provider or the tool is called again at once.
  resetCircuit = "agent/resetCircuit",
  ---Reads the configuration files again.
  reloadConfig = "agent/reloadConfig",
}

---Notifications, client to server.
M.client_notifications = {
  ---Cancels the running turn. Without one, or with another `turnId`, it does nothing.
  cancel = "agent/cancel",
}

---Requests, server to client.
M.server_requests = {
  ---Asks for documents to be saved, after an edit of one that had no unsaved change, so that commands
  ---see it. Only where the client announced `saveDocuments`. Unanswered after 10 s it counts as failed.
  saveDocuments = "agent/saveDocuments",
  ---Asks for the API key of a provider that has none in the configuration and the environment. Only
  ---where the client announced `getCredential`. Unanswered after 10 s there is none. The key is kept in
  ---memory alone and is asked for again after `agent/reloadConfig`, or when the provider refused it;
  ---that there is none is remembered until `agent/reloadConfig`.
  getCredential = "agent/getCredential",
  ---Asks what the client's compilers and linters say, of one document or of all. Only where the client
  ---announced `getDiagnostics`. Unanswered after 10 s the call of the tool has failed.
  getDiagnostics = "agent/getDiagnostics",
}

---Notifications, server to client.
M.server_notifications = {
  ---A turn began.
  turnStarted = "agent/turnStarted",
  ---A turn ended: exactly one per turn, and the last of its turn.
  turnEnded = "agent/turnEnded",
  ---Text of a message in progress.
  textDelta = "agent/textDelta",
  ---Reasoning of a message in progress.
  reasoningDelta = "agent/reasoningDelta",
  ---A message of the history, completed or cut.
  message = "agent/message",
  ---What was shown of a broken attempt is void: clients take it off the screen. The next attempt has a
  ---new `messageId`. Unknown ids are ignored.
  messageRetracted = "agent/messageRetracted",
  ---A tool call's input as the model writes it.
  toolInputDelta = "agent/toolInputDelta",
  ---Live output of a running tool.
  toolOutputDelta = "agent/toolOutputDelta",
  ---A tool call changed.
  toolCall = "agent/toolCall",
  ---A person is asked about an effect.
  approvalRequested = "agent/approvalRequested",
  ---The question is settled.
  approvalResolved = "agent/approvalResolved",
  ---A limit was reached, or a limit in money meets an unknown price: it may be raised. Only where the
  ---client announced `questions`.
  limitRequested = "agent/limitRequested",
  ---What became of it.
  limitResolved = "agent/limitResolved",
  ---A question of the agent. Only where the client announced `questions`.
  questionRequested = "agent/questionRequested",
  ---The question is settled.
  questionResolved = "agent/questionResolved",
  ---The plan, whole.
  plan = "agent/plan",
  ---What a turn has changed, file by file: at its end, and when that was taken back or made again.
  turnDiff = "agent/turnDiff",
  ---A decision of the loop.
  transition = "agent/transition",
  ---A provider call failed and will be made again.
  retry = "agent/retry",
  ---The turn waits for something that is not an error.
  wait = "agent/wait",
  ---What the model is sent became smaller; what is kept did not.
  compacted = "agent/compacted",
  ---Another model answers from now on: the next of the route took over, or the first is asked again.
  modelSwitched = "agent/modelSwitched",
  ---The turn met a circuit that is open, on trial, or closed again.
  circuit = "agent/circuit",
  ---Tokens and cost after a step.
  usage = "agent/usage",
  ---Something that a person should know. One that concerns the server as a whole has no session, is not
  ---numbered, and stands in `agent/status` too.
  warning = "agent/warning",
  ---The session's own data changed; only what changed is set.
  sessionUpdated = "agent/sessionUpdated",
  ---Which files of instructions (`SOUL.md`, `AGENTS.md`, `TOOLS.md`, skills) the agent was given: at a
  ---session's first turn that has any, and whenever one of them has changed.
  instructions = "agent/instructions",
  ---The server as a whole, for a status bar.
  status = "agent/status",
}

---Params of `agent/newSession`.
---@class (exact) agentls.NewSessionParams
---@field agent? string An agent of the configuration; absent: `default`.
---@field cwd? string The folder to work in: a URI or an absolute path; absent: the first workspace folder.
---@field effort? agentls.Effort How hard the model thinks; absent: the provider's default.
---@field mode? agentls.Mode How freely the agent may act; absent: as configured.
---@field model? string A model, as `provider/model`; absent: the agent's.
---@field remembered? boolean Where model, effort or mode is absent, takes what the person chose last in this workspace. The mode `full` is not remembered.

---How hard a model shall think.
---@alias agentls.Effort
---| "low" # A little.
---| "medium" # As needed.
---| "high" # Long.

---How freely the agent may act.
---@alias agentls.Mode
---| "plan" # Read only.
---| "ask" # Reads are free; commands, writes and the network ask.
---| "autoEdit" # Edits inside the workspace are free too.
---| "full" # All is free.

---Result of `agent/newSession`.
---@class (exact) agentls.NewSessionResult
---@field sessionId string The session.
---@field mode agentls.Mode How freely the agent may act.
---@field seq integer The number of the session's last event; 0 when there is none. Notifications go on from there.
---@field effort? agentls.Effort How hard the model thinks; absent: the provider's default.
---@field model? string The model; absent until it is known, then `agent/sessionUpdated` tells it.

---Params of `agent/prompt`.
---@class (exact) agentls.PromptParams
---@field sessionId string The session.
---@field prompt agentls.PromptContent What the person says.

---What a person says: plain text, or a list of blocks.
---@alias agentls.PromptContent string|agentls.PromptBlock[]

---Text.
---@class (exact) agentls.PromptBlock.text
---@field type "text"
---@field text string The text.

---A file or a part of it; the server reads it, with the editor's unsaved text.
---@class (exact) agentls.PromptBlock.reference
---@field type "reference"
---@field uri string The file's URI.
---@field range? agentls.Range The part; absent: the whole file. It is widened to whole lines.

---What the person has selected in the editor.
---@class (exact) agentls.PromptBlock.selection
---@field type "selection"
---@field uri string The file's URI.
---@field range agentls.Range The selected part.
---@field text? string The selected text; absent: the server reads the lines of `range`.

---A diagnostic that the editor shows.
---@class (exact) agentls.PromptBlock.diagnostic
---@field type "diagnostic"
---@field uri string The file's URI.
---@field range agentls.Range The part that it is about.
---@field message string Its message.
---@field severity? agentls.Severity How grave it is.
---@field source? string Who found it: a compiler, a linter.

---A picture.
---@class (exact) agentls.PromptBlock.image
---@field type "image"
---@field mediaType string `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
---@field data string The bytes in Base64, with padding, without line breaks.

---A part of what a person says.
---@alias agentls.PromptBlock
---| agentls.PromptBlock.text
---| agentls.PromptBlock.reference
---| agentls.PromptBlock.selection
---| agentls.PromptBlock.diagnostic
---| agentls.PromptBlock.image

---A part of a document, as in LSP: the end is not in it.
---@class (exact) agentls.Range
---@field start agentls.Position Where it begins.
---@field ["end"] agentls.Position The place after its last character.

---A place in a document, as in LSP.
---@class (exact) agentls.Position
---@field line integer The line, from 0.
---@field character integer The character in the line, from 0, in the units of the negotiated position encoding.

---How grave a diagnostic or a problem is.
---@alias agentls.Severity
---| "error" # It is wrong.
---| "warning" # It is doubtful.
---| "information" # It is worth knowing.
---| "hint" # It could be better.

---How a turn ended; the answer to `agent/prompt`, `agent/resumeTurn` and `agent/compact`, and the
---`data` of the error that answers them after `$/cancelRequest`.
---@class (exact) agentls.PromptResult
---@field turnId string The turn.
---@field reason agentls.TerminalReason Why it ended.
---@field state agentls.TurnState How it ended, in one word.
---@field text string The text of the final answer, whole; empty when there is none.
---@field usage agentls.TokenUsage The turn's tokens.
---@field costUsd? number What the turn cost, in US dollars; absent when the model's price is not known.
---@field error? agentls.ErrorData What went wrong.
---@field tokensAfter? integer And after.
---@field tokensBefore? integer Only of `agent/compact`: tokens of the conversation before, as estimated; absent when nothing was left out.

---An error with all that a client needs to show it and to say what to do. It is the `data` of a
---JSON-RPC error and the `error` of a turn's end.
---@class (exact) agentls.ErrorData
---@field code agentls.ErrorCode What went wrong, as a stable word.
---@field message string What went wrong, for people.
---@field class agentls.ErrorClass What can be done about it.
---@field attempts? integer How many tries were made.
---@field cause? string What lies behind it.
---@field field? string The parameter that is wrong, with `badParams`.
---@field holder? string Who holds the session, with `sessionLocked`.
---@field model? string The model's name.
---@field provider? string The provider's name in the configuration.
---@field refusal? agentls.Refusal Why the request was not accepted; only in the `data` of a JSON-RPC error.
---@field requestId? string The provider's id of the request, for its support.
---@field resetAt? integer When a used-up quota is filled again, in ms since the Unix epoch.
---@field retryAfterMs? integer How long the provider asks to wait, in ms.
---@field status? integer The HTTP status that the provider answered with.
---@field userAction? string What the person can do; several ways stand on separate lines.

---What can be done about an error.
---@alias agentls.ErrorClass
---| "retryable" # The same again may succeed.
---| "terminal" # It will not mend by itself.
---| "non_fatal" # The turn went on.

---What went wrong, as a stable word.
---@alias agentls.ErrorCode
---| "max_iterations" # The limit of steps was reached.
---| "provider_error" # The provider's API failed.
---| "tool_execution" # A tool failed, and the policy ends the turn then.
---| "context_limit" # The prompt does not fit the model's window.
---| "budget_exceeded" # A money limit was reached.
---| "cancelled" # The person cancelled.
---| "circuit_open" # The provider's circuit breaker is open.
---| "quota_exhausted" # The provider's quota or credit is used up.
---| "empty_response" # The model said nothing.
---| "tool_calls_exceeded" # The limit of tool calls was reached.
---| "wall_time_exceeded" # The time limit was reached.
---| "config" # The configuration lacks something or is wrong.
---| "session" # The session's state does not allow it.
---| "protocol" # The request is not what the protocol asks for.
---| "store" # The store could not be read or written.
---| "internal" # A bug of the server.

---Why a request was not accepted, as a stable word that programs may test.
---@alias agentls.Refusal
---| "notInitialized" # `initialize` and `initialized` come first.
---| "shuttingDown" # The server is ending.
---| "badParams" # A parameter is missing or wrong; `field` names it.
---| "unknownSession" # There is no such session.
---| "sessionLocked" # The session is live in another server; `holder` says which.
---| "sessionReadOnly" # The session was loaded with `readOnly`.
---| "turnRunning" # A turn is running; `agent/steer` talks to it.
---| "noTurn" # No turn is running.
---| "staleTurn" # Another turn is running than the request expects.
---| "nothingToResume" # The last turn has nothing to go on with.
---| "unknownApproval" # There is no such open approval: it is unknown or settled.
---| "unknownQuestion" # There is no such open limit or question: it is unknown or settled.
---| "unknownGrant" # There is no such grant.
---| "unknownModel" # There is no such model.
---| "unknownAgent" # There is no such agent in the configuration.
---| "unknownCircuit" # There is no circuit of that name.
---| "unknownContent" # There is no content of that name.
---| "unknownTurn" # The session has no such turn.
---| "nothingToRedo" # The turn was not reverted.
---| "nothingToFork" # No turn of the session has ended yet.
---| "unknownPrompt" # No prompt of that id waits: it was sent or taken out.
---| "queueFull" # As many prompts wait as may.

---Why a turn has ended.
---@alias agentls.TerminalReason
---| "completed" # Nothing more to do.
---| "prompt_too_long" # The prompt does not fit the window.
---| "max_output_tokens" # The answer was cut at the output limit; what came is kept.
---| "model_error" # The provider failed for good.
---| "empty_response" # The model said nothing.
---| "image_error" # The image is still refused.
---| "refused" # The model or a filter declined.
---| "aborted_streaming" # The person cancelled while the model streamed, or before.
---| "aborted_tools" # The person cancelled while tools ran.
---| "stop_hook_prevented" # A stop hook ended the turn.
---| "hook_stopped" # A hook ended the turn.
---| "tool_failed" # A tool failed, and the policy ends the turn then.
---| "subagent_failed" # A sub-agent failed, and the policy ends the turn then.
---| "join_violated" # Too few sub-agents succeeded.
---| "blocking_limit" # The window is full, and nothing may be summarised.
---| "max_turns" # The limit of steps.
---| "budget_exceeded" # A money limit.
---| "max_tool_calls" # The limit of tool calls.
---| "wall_time" # The time limit.
---| "stopped_by_user" # The person chose to stop at a question.
---| "not_configured" # There is no provider to ask.
---| "store_failed" # The store is gone.
---| "server_stopped" # The server ended or crashed.
---| "internal_error" # A bug of the server.

---How a turn has ended, in one word.
---@alias agentls.TurnState
---| "completed" # As asked.
---| "failed" # It could not.
---| "degraded" # There is an answer, but less than was asked for.
---| "interrupted" # Stopped by a limit, by a person's choice at a question, or by the server's end.
---| "cancelled" # Stopped by the person.

---Tokens of one or several model calls.
---@class (exact) agentls.TokenUsage
---@field inputTokens integer Input tokens that were neither read from nor written to a prompt cache.
---@field outputTokens integer Output tokens, reasoning included.
---@field cacheReadTokens integer Input tokens read from the provider's prompt cache.
---@field cacheWriteTokens integer Input tokens written to the provider's prompt cache.

---Params of `agent/steer`.
---@class (exact) agentls.SteerParams
---@field sessionId string The session.
---@field prompt agentls.PromptContent What the person adds.
---@field expectedTurnId? string The turn that it is meant for; when another or none is running, it is refused. Absent: whichever is running.

---Result of `agent/steer`.
---@class (exact) agentls.SteerResult
---@field turnId string The turn that it joins.

---Params of `agent/queue`.
---@class (exact) agentls.QueueParams
---@field sessionId string The session.
---@field action agentls.QueueAction What to do.
---@field prompt? agentls.PromptContent What the person says: needed by `add` and `edit`.
---@field promptId? string Which prompt: needed by `edit` and `remove`.

---What is done with the queue.
---@alias agentls.QueueAction
---| "list" # Nothing: it is only told.
---| "add" # `prompt` is put at its end. Where no turn is running and nothing waits or is paused, it starts at once.
---| "edit" # `prompt` takes the place of the one named by `promptId`.
---| "remove" # The one named by `promptId` is taken out.
---| "sendNow" # The one named by `promptId`, else the next one, is sent now, and the queue goes on from there: while a turn is running as a steer of it, else as a turn of its own. A turn that is being cancelled is waited for.

---Result of `agent/queue`: what waits after it.
---@class (exact) agentls.QueueResult
---@field paused boolean Whether nothing of it starts by itself: the last turn was cancelled, failed or was interrupted. `sendNow`, or a later turn that completes, sets it going again.
---@field prompts agentls.QueuedContent[] What waits, the next one first.
---@field promptId? string The prompt that was added.
---@field turnId? string The turn that took the prompt: one that it started, or the running one.

---A prompt that waits, whole.
---@class (exact) agentls.QueuedContent
---@field promptId string What it is edited, removed and sent by.
---@field content agentls.MessageBlock[] What the person said.

---Text: Markdown when the model speaks.
---@class (exact) agentls.MessageBlock.text
---@field type "text"
---@field text string The text.
---@field more? table<string, agentls.More> Where the whole of a cut field is.

---The model's reasoning, as far as its provider shows it.
---@class (exact) agentls.MessageBlock.reasoning
---@field type "reasoning"
---@field text string The text; empty when the provider hides it.
---@field more? table<string, agentls.More> Where the whole of a cut field is.

---The model asks for a tool. How that goes is told by `agent/toolCall`.
---@class (exact) agentls.MessageBlock.toolUse
---@field type "toolUse"
---@field toolCallId string The call.
---@field name string The tool's name.
---@field input any Its arguments; long strings in it may be cut.
---@field more? table<string, agentls.More> Where the whole of a cut field is.

---A tool call has its result; what it is stands in that call's `agent/toolCall`.
---@class (exact) agentls.MessageBlock.toolResult
---@field type "toolResult"
---@field toolCallId string The call.
---@field isError boolean Whether the result is an error to the model.

---A picture.
---@class (exact) agentls.MessageBlock.image: agentls.Image
---@field type "image"

---Something in a file that the person points at, with the text it had then.
---@class (exact) agentls.MessageBlock.reference
---@field type "reference"
---@field kind agentls.ReferenceKind What it is.
---@field path string The file's path from the session's folder, `rootName/path` in another root, absolute outside of all.
---@field text string The text, or the diagnostic's message.
---@field endLine? integer The last line, from 1.
---@field more? table<string, agentls.More> Where the whole of a cut field is.
---@field startLine? integer The first line, from 1; absent: the whole file.

---A part of a message in the history.
---@alias agentls.MessageBlock
---| agentls.MessageBlock.text
---| agentls.MessageBlock.reasoning
---| agentls.MessageBlock.toolUse
---| agentls.MessageBlock.toolResult
---| agentls.MessageBlock.image
---| agentls.MessageBlock.reference

---Where the whole of a field is that was cut.
---@class (exact) agentls.More
---@field ref string What `agent/readContent` takes as its `ref`.
---@field bytes integer The length of the whole, in UTF-8 bytes.
---@field tail? string The end of the whole, at most 64 KiB; only of output. It never overlaps with the beginning.

---A picture.
---@class (exact) agentls.Image
---@field mediaType string `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
---@field data? string The bytes in Base64; absent when they are too long, then `more.data` says where they are.
---@field more? table<string, agentls.More> Where the whole of a cut field is.

---What a reference points at.
---@alias agentls.ReferenceKind
---| "file" # A file or a range of it.
---| "selection" # What the person had selected.
---| "diagnostic" # A diagnostic of the editor.

---Params of `agent/resumeTurn`.
---@class (exact) agentls.ResumeTurnParams
---@field sessionId string The session whose last turn was interrupted or cancelled.

---Params of `agent/compact`.
---@class (exact) agentls.CompactParams
---@field sessionId string The session.
---@field instructions? string What the summary shall keep, for the model that writes it.

---Params of `agent/approvalRespond`.
---@class (exact) agentls.ApprovalRespondParams
---@field approvalId string The question.
---@field decision agentls.Decision What the person decides.
---@field feedback? string What the model is told; only with `deny`.
---@field input? any Edited arguments, whole; not with `deny`.
---@field rule? string The rule to keep instead of the offered one; only with `allowSession` and `allowAlways`.

---What a person decides.
---@alias agentls.Decision
---| "allow" # This once.
---| "allowSession" # For the rest of the session.
---| "allowAlways" # From now on in this workspace.
---| "deny" # No.

---The answer to a request that has nothing to tell but that it was done.
---@class (exact) agentls.EmptyResult

---Params of `agent/limitRespond`: one of `raiseBy` and `stop`. For `unknown_price` neither means to go
---on.
---@class (exact) agentls.LimitRespondParams
---@field limitId string The question.
---@field raiseBy? number By how much the limit is raised: US dollars, steps, calls or seconds. It holds for the turn, the session or the day that the limit is of.
---@field stop? boolean The limit holds: the turn ends.

---Params of `agent/questionRespond`: one of `answers` and `dismissed`.
---@class (exact) agentls.QuestionRespondParams
---@field questionId string The question.
---@field answers? table<string, string[]> The answers by the names of the fields; each is a list, of one unless several may be chosen.
---@field dismissed? boolean The person will not answer.

---Params of `agent/listApprovals`.
---@class (exact) agentls.ListApprovalsParams
---@field sessionId? string Only those of this session; absent: of every session that no other server has open.

---Result of `agent/listApprovals`.
---@class (exact) agentls.ListApprovalsResult
---@field approvals agentls.ApprovalRequestedNotification[] The open approvals, oldest first, as they were asked.
---@field limits? agentls.LimitRequestedNotification[] The limits that wait for an answer.
---@field questions? agentls.QuestionRequestedNotification[] The questions that wait for an answer.

---Params of `agent/approvalRequested`.
---@class (exact) agentls.ApprovalRequestedNotification
---@field sessionId string The session it belongs to.
---@field seq integer Its number in the session: from 1, no gap, no repeat.
---@field at integer When it happened, in ms since the Unix epoch.
---@field approvalId string Its id; the same when it is asked again after a restart.
---@field toolCallId string The call that waits.
---@field name string The tool's name.
---@field input any The call's arguments; long strings in it may be cut.
---@field title string A line for people.
---@field cwd string The folder in which it would run.
---@field risk agentls.Risk How much harm it could do.
---@field why string Why it is asked, for people.
---@field diff? string What it would change, as a unified diff.
---@field more? table<string, agentls.More> Where the whole of a cut field is.
---@field options? string[] Options of the call that change what it does, as short phrases: `keeps running in the background`.
---@field rule? string The rule that `allowSession` and `allowAlways` would keep; absent when none can be, and then those two are not offered.
---@field shown? string The command line or address as a person should read it, in full: characters that are invisible or change the reading order are written out (`<U+202E>`). Show this, not `input`. Absent for tools that have neither.
---@field turnId? string The turn that caused it; absent when none did.

---How much harm an effect could do, by what it touches.
---@alias agentls.Risk
---| "low" # Only reads, inside the workspace.
---| "medium" # Changes files inside the workspace, or runs a program that shows no sign of more.
---| "high" # Network, secrets, files outside the workspace or that make programs run, recursive deletion, privileges, or a command that cannot be fully read.

---Params of `agent/limitRequested`.
---@class (exact) agentls.LimitRequestedNotification
---@field sessionId string The session it belongs to.
---@field seq integer Its number in the session: from 1, no gap, no repeat.
---@field at integer When it happened, in ms since the Unix epoch.
---@field limitId string Its id; the same when it is asked again after a restart.
---@field limit agentls.LimitName Which limit.
---@field used number What is used, with the estimate of a call that was not made: US dollars, steps, calls or seconds.
---@field max number What may be used; 0 for `unknown_price`.
---@field message string A line for people.
---@field model? string The model that it concerns, as `provider/model`.
---@field parentToolCallId? string The call that delegated to the sub-agent which asks; absent: the turn itself asks.
---@field provider? string The provider that it concerns.
---@field turnId? string The turn that caused it; absent when none did.

---Which limit was reached.
---@alias agentls.LimitName
---| "max_steps" # Steps of the turn.
---| "max_tool_calls" # Tool calls of the turn.
---| "max_turn_cost" # US dollars of the turn.
---| "max_session_cost" # US dollars of the session.
---| "max_day_cost" # US dollars of the day (UTC), over all sessions.
---| "max_provider_day_cost" # US dollars of the day (UTC) at one provider.
---| "max_wall_time_s" # Seconds of the turn.
---| "unknown_price" # A limit in money is set, and nobody knows what the model costs.

---Params of `agent/questionRequested`.
---@class (exact) agentls.QuestionRequestedNotification
---@field sessionId string The session it belongs to.
---@field seq integer Its number in the session: from 1, no gap, no repeat.
---@field at integer When it happened, in ms since the Unix epoch.
---@field questionId string Its id; the same when it is asked again after a restart.
---@field text string The question.
---@field fields agentls.QuestionField[] What is to be answered.
---@field detail? string More about it.
---@field more? table<string, agentls.More> Where the whole of a cut field is.
---@field parentToolCallId? string The call that delegated to the sub-agent which asks; absent: the turn itself asks.
---@field toolCallId? string The call that waits for the answer.
---@field turnId? string The turn that caused it; absent when none did.

---One field of a question.
---@class (exact) agentls.QuestionField
---@field name string The key of its answer.
---@field choices? agentls.QuestionChoice[] What can be chosen; empty: any text.
---@field free? boolean Any text may be given instead of a choice.
---@field label? string For people; empty where the question says it all.
---@field required? boolean It must be answered.
---@field several? boolean Several may be chosen.

---One thing that can be chosen.
---@class (exact) agentls.QuestionChoice
---@field value string What the answer says.
---@field label string For people.

---Params of `agent/listGrants`.
---@class (exact) agentls.ListGrantsParams
---@field sessionId? string What holds in this session; absent: all that is kept for workspace folders.

---Result of `agent/listGrants`.
---@class (exact) agentls.ListGrantsResult
---@field grants agentls.Grant[] The grants, newest first.

---Something that a person has allowed beyond one call.
---@class (exact) agentls.Grant
---@field grantId string Its id, to revoke it.
---@field rule string The rule, as in the configuration: `bash(git status *)`.
---@field scope agentls.GrantScope How far it reaches.
---@field folder string The workspace folder it was given for.
---@field grantedAt integer When it was given, in ms since the Unix epoch.

---How far a grant reaches.
---@alias agentls.GrantScope
---| "session" # One session.
---| "workspace" # Every session in the workspace folder.

---Params of `agent/revokeGrant`.
---@class (exact) agentls.RevokeGrantParams
---@field grantId string The grant.

---Params of `agent/listSessions`.
---@class (exact) agentls.ListSessionsParams
---@field cursor? string `nextCursor` of the answer before; absent: from the newest.
---@field cwd? string Only those that work in this folder: a URI or an absolute path.
---@field limit? integer How many at most; 50 when absent, at most 200.
---@field query? string Words to look for in titles, prompts and final answers.

---Result of `agent/listSessions`.
---@class (exact) agentls.ListSessionsResult
---@field sessions agentls.SessionInfo[] The sessions, those used last first.
---@field nextCursor? string The `cursor` of the next page; absent on the last.

---A session in a list.
---@class (exact) agentls.SessionInfo
---@field sessionId string The session.
---@field cwd string The folder it works in.
---@field createdAt integer When it was made, in ms since the Unix epoch.
---@field updatedAt integer When something last happened in it, in ms since the Unix epoch.
---@field running? boolean Whether a turn is running, in this server.
---@field snippet? string The place where `query` was found, for people.
---@field title? string Its title; absent before the first prompt.

---Params of `agent/loadSession`. The page is the last `tail` of the events after `afterSeq` and before
---`beforeSeq`.
---@class (exact) agentls.LoadSessionParams
---@field sessionId string The session.
---@field afterSeq? integer Only events after this number: what the client has already. When more than `tail` came since, the page does not join on, and the client starts over with it.
---@field beforeSeq? integer Only events before this number: an earlier page.
---@field readOnly? boolean Only look: needs no lock, so it works while another server has the session; nothing is sent later.
---@field tail? integer How many events at most: 200 when absent (1,000 with `afterSeq`), at most 1,000; 0 for none.

---Result of `agent/loadSession`.
---@class (exact) agentls.LoadSessionResult
---@field events agentls.EventRecord[] A page of the durable events, oldest first; they are not sent again as notifications.
---@field hasEarlier boolean Whether there are earlier events than the page's.
---@field openApprovals agentls.ApprovalRequestedNotification[] Approvals that wait for a person, as they were asked; also those asked before the page.
---@field seq integer The number of the session's last event. Notifications go on from there.
---@field state agentls.SessionState The session as it is now.
---@field instructions? agentls.InstructionFile[] The files that the last turn's instructions were made of, as `agent/instructions` told, which may be before the page. Absent also while nobody has gone on with the session in this server: then all its events are not read yet.
---@field openLimits? agentls.LimitRequestedNotification[] Limits that wait for an answer.
---@field openQuestions? agentls.QuestionRequestedNotification[] Questions that wait for an answer.
---@field partial? agentls.PartialMessage The message in progress.

---A durable event: the notification that it was.
---@class (exact) agentls.EventRecord
---@field method string The notification's method.
---@field params any The notification's params.

---A file of instructions, as it was read.
---@class (exact) agentls.InstructionFile
---@field path string Its absolute path.
---@field kind agentls.InstructionKind What it is for.
---@field bytes integer Bytes of it that were taken; 0 where it was left out.
---@field trusted boolean Whether it is the person's own, or lies in a folder that the person trusts.
---@field name? string The name of a skill.
---@field problem? string Why it was cut or left out.

---What a file of instructions is for.
---@alias agentls.InstructionKind
---| "prompt" # The `prompt_file` of a named agent, which stands in the place of the built-in instructions.
---| "soul" # `SOUL.md`: who the agent is.
---| "agents" # `AGENTS.md`: how to work here.
---| "tools" # `TOOLS.md`: how to use the tools.
---| "skill" # The `SKILL.md` of a skill.

---A message in progress. Deltas that follow go on where it ends.
---@class (exact) agentls.PartialMessage
---@field messageId string The message.
---@field text string Its text from `offset` on.
---@field offset integer UTF-8 bytes of the message's text before `text`; 0 when it is all there.
---@field reasoning? string Its reasoning so far.

---A session as it is now.
---@class (exact) agentls.SessionState
---@field cwd string The folder it works in.
---@field mode agentls.Mode How freely the agent may act.
---@field usage agentls.TokenUsage Tokens used in all.
---@field costUsd? number What they cost, in US dollars; absent when the cost of one of the calls is not known.
---@field effort? agentls.Effort How hard the model shall think; absent: as the provider has it by default.
---@field model? string The model, as `provider/model`; absent until it is known.
---@field queue? agentls.QueueState The prompts that wait for the turn's end; absent when there are none.
---@field resumableTurnId? string The last turn, when `agent/resumeTurn` can go on with it.
---@field runningTurnId? string The turn that is running.
---@field title? string Its title; absent before the first prompt.

---The queue as it is shown.
---@class (exact) agentls.QueueState
---@field paused boolean Whether nothing of it starts by itself: the last turn was cancelled, failed or was interrupted.
---@field prompts agentls.QueuedPrompt[] What waits, the next one first.

---A prompt that waits, as it is shown. `agent/queue` tells the whole of it.
---@class (exact) agentls.QueuedPrompt
---@field promptId string What it is edited, removed and sent by.
---@field text string The start of its text, on one line.

---Params of `agent/renameSession`.
---@class (exact) agentls.RenameSessionParams
---@field sessionId string The session.
---@field title string The new title: one line, at most 200 characters.

---Params of `agent/forkSession`.
---@class (exact) agentls.ForkSessionParams
---@field sessionId string The session.
---@field turnId? string The last turn that the new session has; absent: the last one that has ended.

---Result of `agent/forkSession`.
---@class (exact) agentls.ForkSessionResult
---@field sessionId string The new session: load it with `agent/loadSession`.
---@field title? string Its title.

---Params of `agent/exportSession`.
---@class (exact) agentls.ExportSessionParams
---@field sessionId string The session.
---@field format? agentls.ExportFormat As what; Markdown when absent.

---What a session is exported as.
---@alias agentls.ExportFormat
---| "markdown" # For people: what was said and done.
---| "json" # For programs: the session and all its events, as notifications, uncut.

---Result of `agent/exportSession`.
---@class (exact) agentls.ExportSessionResult
---@field text string The session, whole.

---Params of `agent/deleteSession`.
---@class (exact) agentls.DeleteSessionParams
---@field sessionId string The session; a running turn is cancelled first.

---Params of `agent/revert`.
---@class (exact) agentls.RevertParams
---@field sessionId string The session.
---@field turnId string The turn; all later ones are taken back with it.
---@field dryRun? boolean Only say what would be done.
---@field redo? boolean Make again what the last revert of that turn took back.

---Result of `agent/revert`.
---@class (exact) agentls.RevertResult
---@field turnIds string[] The turns whose changes it concerned, the first one first.
---@field files agentls.RevertedFile[] The files that were put back (with `dryRun`: would be). Those that are so already are not among them.
---@field conflicts agentls.RevertConflict[] The files that were left as they are.

---A file that was left as it is.
---@class (exact) agentls.RevertConflict
---@field path string The file's path, as in `agent/turnDiff`.
---@field uri string The file.
---@field why string Why, for people.

---A file that was put back.
---@class (exact) agentls.RevertedFile
---@field path string The file's path, as in `agent/turnDiff`.
---@field uri string The file.
---@field kind agentls.ChangeKind What was done to it now.

---What became of a file.
---@alias agentls.ChangeKind
---| "created" # It is new.
---| "modified" # Its content or its mode is another.
---| "deleted" # It is gone.

---Params of `agent/setMode`.
---@class (exact) agentls.SetModeParams
---@field sessionId string The session.
---@field mode agentls.Mode The mode; it holds from the next tool call on.

---Params of `agent/setModel`.
---@class (exact) agentls.SetModelParams
---@field sessionId string The session.
---@field model string The model, as `provider/model`; it holds from the next model call on.
---@field effort? agentls.Effort How hard it shall think; absent: as the provider has it by default.

---Params of `agent/describeTrust`.
---@class (exact) agentls.DescribeTrustParams
---@field folder string The workspace folder: its URI or absolute path.

---Result of `agent/describeTrust`. Control characters and invisible characters are written out in all
---texts.
---@class (exact) agentls.DescribeTrustResult
---@field folder string The folder's path.
---@field trusted boolean Whether it is trusted now.
---@field activates agentls.TrustItem[] What its own files activate where it is trusted.
---@field redirects agentls.ProviderRedirect[] Where its own files send keys of the person's. Each needs a question of its own.

---Something that a folder's own files activate where the folder is trusted.
---@class (exact) agentls.TrustItem
---@field kind agentls.TrustItemKind What it is.
---@field name string The hook's or tool's name, or the setting's key.
---@field detail string When it runs, or what is set; and the file and line.
---@field command? string The command that it runs.

---What a folder's files activate. Later versions add kinds: show an unknown one by its `name` and
---`detail`.
---@alias agentls.TrustItemKind
---| "hook" # A command that runs at a moment of every turn.
---| "tool" # A tool whose call runs a command.
---| "setting" # Any other setting that an untrusted folder may not set.

---A folder's wish to send a key of the person's to another address.
---@class (exact) agentls.ProviderRedirect
---@field provider string The provider; `*` where a proxy or certificates concern all of them.
---@field to string Where the folder sends them. Show it whole; send it back exactly to accept it.
---@field sends string[] What of the person's would go there, each as a short phrase.
---@field accepted boolean Whether the person accepted it. Until then it is ignored, with a warning.
---@field from? string Where the person's own configuration sends requests; absent where only the folder names this provider.

---Params of `agent/setTrust`.
---@class (exact) agentls.SetTrustParams
---@field folder string The workspace folder: its URI or absolute path.
---@field trusted boolean Whether the folder's own settings may loosen approvals, start anything, or change addresses and keys.
---@field acceptRedirects? agentls.AcceptedRedirect[] Redirects that the person accepted, each after a question of its own. Trusting alone accepts none; one that was accepted stays so until the folder names another address or is trusted no more.

---A redirect that the person accepts.
---@class (exact) agentls.AcceptedRedirect
---@field provider string The provider, as `agent/describeTrust` named it.
---@field to string The target, exactly as `agent/describeTrust` named it.

---Params of `agent/listModels`.
---@class (exact) agentls.ListModelsParams
---@field check? string Tries the address and the key of this provider before answering, by one request that costs nothing; its `health` and `message` tell what came of it. Takes at most 15 s.
---@field live? boolean Asks every provider that has a key for its own list first. Takes at most 5 s; a provider that does not answer is listed as without it.
---@field sessionId? string With this session's configuration, and its model marked; absent: the user's configuration.

---Result of `agent/listModels`.
---@class (exact) agentls.ListModelsResult
---@field models agentls.ModelInfo[] The models that can be chosen.
---@field providers agentls.ProviderInfo[] The providers that are configured.

---A model that can be chosen.
---@class (exact) agentls.ModelInfo
---@field model string What `agent/setModel` takes: `provider/model`.
---@field provider string The provider's name in the configuration.
---@field contextWindow? integer Its window, in tokens.
---@field current? boolean Whether it is the session's (or the default) model.
---@field listed? boolean Whether the provider's own list contains it; absent while that list is unknown.
---@field maxOutputTokens? integer Its output limit, in tokens.
---@field price? agentls.Price What its tokens cost; absent when it is not known.
---@field pricing? agentls.Pricing Where its price comes from; absent from older servers.

---What a model's tokens cost, in US dollars per million.
---@class (exact) agentls.Price
---@field input number Plain input.
---@field output number Output.
---@field cacheRead number Input read from the prompt cache.
---@field cacheWrite number Input written to the prompt cache.

---Where a model's price comes from.
---@alias agentls.Pricing
---| "list" # The vendor's list price, wherever it is served.
---| "configured" # The configuration.
---| "free" # It is free: a local engine runs it.
---| "unknown" # Nobody knows it.

---A provider that is configured.
---@class (exact) agentls.ProviderInfo
---@field provider string Its name in the configuration.
---@field kind string Its kind: which API it speaks.
---@field health agentls.ProviderHealth How it fares.
---@field circuit? agentls.CircuitInfo How the circuit of its account stands, while it is not closed.
---@field message? string More, for people: what fails, or what is missing.

---A circuit.
---@class (exact) agentls.CircuitInfo
---@field subject agentls.CircuitSubject What it guards.
---@field name string The name of the provider or the tool.
---@field state agentls.CircuitState How it stands.
---@field ["until"]? integer When an open one lets a trial through, in ms since the Unix epoch.

---How a circuit stands.
---@alias agentls.CircuitState
---| "closed" # Calls pass.
---| "open" # No call passes; the provider or the tool failed too often in a row.
---| "halfOpen" # One call passes as a trial: its outcome closes the circuit or opens it again.

---What a circuit guards.
---@alias agentls.CircuitSubject
---| "provider" # The account of a provider.
---| "tool" # A tool.

---How a provider fares.
---@alias agentls.ProviderHealth
---| "unknown" # It was not called yet.
---| "ok" # Its last call succeeded.
---| "failing" # Its last call failed.
---| "notConfigured" # It cannot be called: a key is missing.

---Params of `agent/listAgents`.
---@class (exact) agentls.ListAgentsParams
---@field sessionId? string The agents of this session's folder, with its own marked; the first workspace folder's when absent.

---Result of `agent/listAgents`.
---@class (exact) agentls.ListAgentsResult
---@field agents agentls.AgentInfo[] The agents of the configuration, `default` first.

---An agent of the configuration.
---@class (exact) agentls.AgentInfo
---@field name string Its name, as `agent/newSession` takes it.
---@field mode agentls.Mode The mode in which its sessions begin.
---@field tools string[] The tools that it has.
---@field current? boolean Whether it is the session's agent.
---@field description? string What it is for.
---@field model? string The model that it names.
---@field provider? string The provider that it names.

---Params of `agent/listCommands`.
---@class (exact) agentls.ListCommandsParams
---@field sessionId? string The commands of this session; the first workspace folder's when absent.

---Result of `agent/listCommands`.
---@class (exact) agentls.ListCommandsResult
---@field commands agentls.CommandInfo[] The commands, by name.

---A prompt that a person has written down: a prompt that begins with `/` and its name stands for it.
---@class (exact) agentls.CommandInfo
---@field name string Its name, without the `/`.
---@field path string The absolute path of its file.
---@field trusted boolean Whether it is the person's own, or lies in a folder that the person trusts.
---@field argumentHint? string What its arguments are.
---@field description? string What it does.
---@field problem? string Why it cannot be used.

---Params of `agent/listTools`.
---@class (exact) agentls.ListToolsParams
---@field sessionId? string The tools that this session's agent has; absent: all.

---Result of `agent/listTools`.
---@class (exact) agentls.ListToolsResult
---@field tools agentls.ToolInfo[] The tools, by name.

---A tool as the model is told of it.
---@class (exact) agentls.ToolInfo
---@field name string Its name.
---@field description string What it does and when it is used.
---@field inputSchema any JSON Schema of its arguments.

---Params of `agent/readContent`.
---@class (exact) agentls.ReadContentParams
---@field sessionId string The session.
---@field ref string The `ref` of a cut field.
---@field limit? integer How many bytes at most; 65,536 when absent, at most 1,048,576.
---@field offset? integer Where to begin, in bytes; 0 when absent.

---Result of `agent/readContent`.
---@class (exact) agentls.ReadContentResult
---@field text string The piece. It begins and ends on whole characters, so it may be a few bytes shorter than `limit`.
---@field bytes integer The length of the whole, in bytes.
---@field nextOffset? integer Where to read on; absent at the end.

---Params of `agent/metrics`.
---@class (exact) agentls.MetricsParams
---@field sessionId? string A session whose counts are wanted too.

---Result of `agent/metrics`.
---@class (exact) agentls.MetricsResult
---@field totals agentls.Counts Counts of the server as a whole.
---@field latencies agentls.Latencies How long things took.
---@field circuits? agentls.CircuitInfo[] The circuits of all providers that were in use, and those of the session's tools that are not closed.
---@field session? agentls.SessionMetrics Counts of the session that was asked for.

---How long things took.
---@class (exact) agentls.Latencies
---@field firstToken agentls.Histogram From a provider call to its first content.
---@field step agentls.Histogram One step of the loop.
---@field tool agentls.Histogram One tool call, without the wait for a person.
---@field cancel agentls.Histogram From a cancel to the turn's end.

---Latencies in buckets.
---@class (exact) agentls.Histogram
---@field boundsUs integer[] Upper bounds of the buckets, in microseconds.
---@field counts integer[] Observations per bucket; one more than `boundsUs`, for what lies above the last.
---@field sumUs integer The sum of all observations, in microseconds.
---@field count integer How many observations there are.

---Counts of one session since it was made; `queuedPrompts` and `reverts` since it was loaded.
---@class (exact) agentls.SessionMetrics
---@field sessionId string The session.
---@field startedAt integer When the session was made, in ms since the Unix epoch.
---@field inputTokens integer Tokens sent to models.
---@field outputTokens integer Tokens received from models.
---@field requests integer Provider calls made.
---@field errors integer Errors of any kind that reached a turn.
---@field toolCalls integer Tool calls run.
---@field retries integer Provider calls made again.
---@field compactions integer Summaries made of a history that grew too long.
---@field cancels integer Turns cancelled.
---@field toolCallsByName table<string, integer> Tool calls run, by the tool's name.
---@field errorsByCode table<string, integer> Errors by code, those that ended no turn included.
---@field queuedPrompts? integer Prompts that were to wait for a turn's end.
---@field reverts? integer Times that files of turns were taken back, or made again.

---Counts.
---@class (exact) agentls.Counts
---@field inputTokens integer Tokens sent to models.
---@field outputTokens integer Tokens received from models.
---@field requests integer Provider calls made.
---@field errors integer Errors of any kind that reached a turn.
---@field toolCalls integer Tool calls run.
---@field retries integer Provider calls made again.
---@field compactions integer Summaries made of a history that grew too long.
---@field cancels integer Turns cancelled.
---@field queuedPrompts? integer Prompts that were to wait for a turn's end.
---@field reverts? integer Times that files of turns were taken back, or made again.

---Params of `agent/resetCircuit`.
---@class (exact) agentls.ResetCircuitParams
---@field subject agentls.CircuitSubject What the circuit guards.
---@field name string The name of the provider or the tool.
---@field sessionId? string For a tool: the session whose circuit is meant; absent: that of every loaded session.

---Result of `agent/resetCircuit`.
---@class (exact) agentls.ResetCircuitResult
---@field wasOpen boolean Whether it was not closed before.

---Params of `agent/reloadConfig`.
---@class (exact) agentls.ReloadConfigParams

---Result of `agent/reloadConfig`.
---@class (exact) agentls.ReloadConfigResult
---@field problems agentls.ConfigProblem[] What is wrong in the files; the rest is in force.

---Something wrong in a configuration file.
---@class (exact) agentls.ConfigProblem
---@field file string The file, or what else the setting came from: a variable, `initializationOptions`.
---@field severity agentls.Severity How grave it is.
---@field message string What is wrong and what would be right, for people.
---@field line? integer The line, from 1; absent when it is not known.

---Params of the client's notification `agent/cancel`.
---@class (exact) agentls.CancelNotification
---@field sessionId string The session.
---@field turnId? string The turn that is meant; when another is running, nothing happens. Absent: whichever is running.

---Params of `agent/saveDocuments`.
---@class (exact) agentls.SaveDocumentsParams
---@field uris string[] The documents, by the URIs that the client opened them with.

---Result of `agent/saveDocuments`.
---@class (exact) agentls.SaveDocumentsResult
---@field failed? agentls.NotSaved[] Those that are not.
---@field saved? string[] Those that are on the disk now as the editor shows them.

---A document that could not be saved.
---@class (exact) agentls.NotSaved
---@field uri string The document.
---@field reason string Why, for the model: `it is read-only in the editor`.

---Params of `agent/getCredential`.
---@class (exact) agentls.GetCredentialParams
---@field provider string The provider, by its name in the configuration.

---Result of `agent/getCredential`.
---@class (exact) agentls.GetCredentialResult
---@field apiKey? string The key; absent when the client has none for that provider.

---Params of `agent/getDiagnostics`.
---@class (exact) agentls.GetDiagnosticsParams
---@field uri? string The document, by the URI that the client opened it with where it is open; absent: all that the client knows of.

---Result of `agent/getDiagnostics`.
---@class (exact) agentls.GetDiagnosticsResult
---@field diagnostics? agentls.Diagnostic[] What the client's compilers and linters say now, in any order.

---A diagnostic of the client.
---@class (exact) agentls.Diagnostic
---@field uri string The document's URI.
---@field range agentls.Range The part that it is about.
---@field message string What it says.
---@field severity? agentls.Severity How grave it is; absent: it is an error.
---@field source? string Who says it: a compiler, a linter.

---Params of `agent/turnStarted`.
---@class (exact) agentls.TurnStartedNotification
---@field sessionId string The session it belongs to.
---@field seq integer Its number in the session: from 1, no gap, no repeat.
---@field at integer When it happened, in ms since the Unix epoch.
---@field by? agentls.TurnAsker By what it was asked for; absent from servers that do not tell.
---@field resumes? string The turn that it goes on with, after `agent/resumeTurn`.
---@field turnId? string The turn that caused it; absent when none did.

---By what a turn was asked for. Later versions may know more words.
---@alias agentls.TurnAsker
---| "prompt" # `agent/prompt`.
---| "resume" # `agent/resumeTurn`.
---| "compact" # `agent/compact`.
---| "queue" # A prompt of `agent/queue`, whose turn had come.

---Params of `agent/turnEnded`.
---@class (exact) agentls.TurnEndedNotification
---@field sessionId string The session it belongs to.
---@field seq integer Its number in the session: from 1, no gap, no repeat.
---@field at integer When it happened, in ms since the Unix epoch.
---@field reason agentls.TerminalReason Why it ended.
---@field state agentls.TurnState How it ended, in one word.
---@field usage agentls.TokenUsage The turn's tokens.
---@field costUsd? number What the turn cost, in US dollars; absent when the model's price is not known.
---@field error? agentls.ErrorData What went wrong.
---@field more? table<string, agentls.More> Where the whole of `unusedSteers` is, when it had to be cut.
---@field turnId? string The turn that caused it; absent when none did.
---@field unusedSteers? agentls.MessageBlock[][] What was said and no model has seen, to be given back to the person: steers of a turn that was cut, failed or compacted, and prompts and steers that a hook held back.

---Params of `agent/textDelta`.
---@class (exact) agentls.TextDeltaNotification
---@field sessionId string The session.
---@field turnId string The turn.
---@field messageId string The message.
---@field offset integer UTF-8 bytes of this message's text before this piece.
---@field text string The piece.

---Params of `agent/reasoningDelta`.
---@class (exact) agentls.ReasoningDeltaNotification
---@field sessionId string The session.
---@field turnId string The turn.
---@field messageId string The message.
---@field offset integer UTF-8 bytes of this message's reasoning before this piece; counted apart from its text.
---@field text string The piece.

---Params of `agent/message`.
---@class (exact) agentls.MessageNotification
---@field sessionId string The session it belongs to.
---@field seq integer Its number in the session: from 1, no gap, no repeat.
---@field at integer When it happened, in ms since the Unix epoch.
---@field messageId string The message.
---@field role agentls.Role Who speaks.
---@field content agentls.MessageBlock[] What is said, in order.
---@field hidden? boolean Meant for the model only (continuation prompts, nudges): not shown in the chat.
---@field incomplete? boolean Cut by a cancel, a crash or an error.
---@field more? table<string, agentls.More> Where the whole of `content` is, as a JSON array, when there were too many blocks.
---@field turnId? string The turn that caused it; absent when none did.

---Who speaks.
---@alias agentls.Role
---| "user" # The person.
---| "assistant" # The model.
---| "tool" # Results of the tool calls that the message before asked for.

---Params of `agent/messageRetracted`.
---@class (exact) agentls.MessageRetractedNotification
---@field sessionId string The session it belongs to.
---@field seq integer Its number in the session: from 1, no gap, no repeat.
---@field at integer When it happened, in ms since the Unix epoch.
---@field messageId string The message that is void.
---@field toolCallIds string[] The tool calls that it had begun to ask for.
---@field turnId? string The turn that caused it; absent when none did.

---Params of `agent/toolInputDelta`.
---@class (exact) agentls.ToolInputDeltaNotification
---@field sessionId string The session.
---@field turnId string The turn.
---@field messageId string The message that asks. Once it has come, a call that it does not hold is void.
---@field toolCallId string The call.
---@field name string The tool's name.
---@field text string A piece of the JSON of its arguments.

---Params of `agent/toolOutputDelta`.
---@class (exact) agentls.ToolOutputDeltaNotification
---@field sessionId string The session.
---@field turnId string The turn.
---@field toolCallId string The call.
---@field text string A piece of its output, safe to show.

---Params of `agent/toolCall`: the status, and what changed since the last one.
---@class (exact) agentls.ToolCallNotification
---@field sessionId string The session it belongs to.
---@field seq integer Its number in the session: from 1, no gap, no repeat.
---@field at integer When it happened, in ms since the Unix epoch.
---@field toolCallId string The call.
---@field name string The tool's name.
---@field title string A line for people.
---@field status agentls.ToolCallStatus Where it stands now.
---@field diff? string What it would change or has changed, as a unified diff.
---@field durationMs? integer How long it ran, in ms, without the wait for a person.
---@field exitCode? integer How a command ended: its exit code, or 128 plus the number of the signal that killed it. Anything but 0 makes the status `failed`.
---@field images? agentls.Image[] Pictures it gave.
---@field input? any Its arguments, when they are new or were edited by the person; long strings in it may be cut.
---@field locations? agentls.Location[] Files it concerns; at most 100 are told.
---@field more? table<string, agentls.More> Where the whole of a cut field is.
---@field output? string What it gave, safe to show; present exactly when the status is final.
---@field parentToolCallId? string The call that delegated to the sub-agent which made this one.
---@field turnId? string The turn that caused it; absent when none did.

---A place in a file.
---@class (exact) agentls.Location
---@field uri string The file's URI.
---@field line? integer The line, from 1; absent: the whole file.

---Where a tool call stands. The last four are final.
---@alias agentls.ToolCallStatus
---| "pending" # Its input is complete.
---| "awaitingApproval" # A person is asked.
---| "running" # It runs.
---| "completed" # It gave a result.
---| "failed" # It gave an error result.
---| "denied" # A person or a policy said no.
---| "cancelled" # A cancel, a crash or the end of the server came first.

---Params of `agent/approvalResolved`.
---@class (exact) agentls.ApprovalResolvedNotification
---@field sessionId string The session it belongs to.
---@field seq integer Its number in the session: from 1, no gap, no repeat.
---@field at integer When it happened, in ms since the Unix epoch.
---@field approvalId string The question.
---@field toolCallId string The call it was about.
---@field decision agentls.Decision What was decided.
---@field by agentls.SettledBy By what.
---@field feedback? string What the model is told about a denial.
---@field input? any The arguments as the person edited them; long strings in it may be cut.
---@field more? table<string, agentls.More> Where the whole of a cut field is.
---@field rule? string The rule that is kept.
---@field turnId? string The turn that caused it; absent when none did.

---By what an approval was settled.
---@alias agentls.SettledBy
---| "person" # The person answered.
---| "rule" # A rule or a grant that came meanwhile.
---| "cancel" # A cancel denied it.
---| "timeout" # Its time ran out.
---| "newPrompt" # A new prompt was sent instead.

---Params of `agent/limitResolved`.
---@class (exact) agentls.LimitResolvedNotification
---@field sessionId string The session it belongs to.
---@field seq integer Its number in the session: from 1, no gap, no repeat.
---@field at integer When it happened, in ms since the Unix epoch.
---@field limitId string The question.
---@field limit agentls.LimitName Which limit.
---@field outcome agentls.LimitOutcome What became of it.
---@field by agentls.SettledBy By what.
---@field raisedBy? number By how much it was raised: US dollars, steps, calls or seconds.
---@field turnId? string The turn that caused it; absent when none did.

---What became of a limit.
---@alias agentls.LimitOutcome
---| "raised" # It was raised; `raisedBy` says by how much.
---| "accepted" # The turn goes on although the price is not known.
---| "stopped" # It holds, and the turn ends.

---Params of `agent/questionResolved`.
---@class (exact) agentls.QuestionResolvedNotification
---@field sessionId string The session it belongs to.
---@field seq integer Its number in the session: from 1, no gap, no repeat.
---@field at integer When it happened, in ms since the Unix epoch.
---@field questionId string The question.
---@field by agentls.SettledBy By what.
---@field answers? table<string, string[]> The answers by the names of the fields; absent when it was not answered.
---@field more? table<string, agentls.More> Where the whole of a cut field is.
---@field turnId? string The turn that caused it; absent when none did.

---Params of `agent/plan`.
---@class (exact) agentls.PlanNotification
---@field sessionId string The session it belongs to.
---@field seq integer Its number in the session: from 1, no gap, no repeat.
---@field at integer When it happened, in ms since the Unix epoch.
---@field items agentls.PlanItem[] The plan, whole.
---@field more? table<string, agentls.More> Where the whole of `items` is, when there were too many.
---@field turnId? string The turn that caused it; absent when none did.

---One line of the plan.
---@class (exact) agentls.PlanItem
---@field text string What is to be done.
---@field status agentls.PlanStatus How far it is.

---How far a line of the plan is.
---@alias agentls.PlanStatus
---| "pending" # Not begun.
---| "inProgress" # Being done.
---| "completed" # Done.

---Params of `agent/turnDiff`.
---@class (exact) agentls.TurnDiffNotification
---@field sessionId string The session it belongs to.
---@field seq integer Its number in the session: from 1, no gap, no repeat.
---@field at integer When it happened, in ms since the Unix epoch.
---@field ofTurnId string The turn whose changes they are; taken back are also those of later turns.
---@field standing agentls.Standing How they stand.
---@field files agentls.FileDiff[] The files: with `reverted` and `redone` what was done to them now.
---@field partial? boolean Commands may have changed more: the workspace has more files than are looked at.
---@field turnId? string The turn that caused it; absent when none did.
---@field unlisted? integer So many more files are not listed.

---A change of one file.
---@class (exact) agentls.FileDiff
---@field path string The file's path from the session's folder, `rootName/path` in another root, absolute outside of all.
---@field kind agentls.ChangeKind What became of it.
---@field added integer Lines that came.
---@field removed integer Lines that went.
---@field diff? string A unified diff; absent of what is no text, and where the diffs together grew too long.
---@field unrestorable? boolean It cannot be taken back: a command changed it, and its content before is not known.

---How a turn's changes stand.
---@alias agentls.Standing
---| "made" # The turn made them.
---| "reverted" # `agent/revert` took them back.
---| "redone" # `agent/revert` with `redo` made them again.

---Params of `agent/transition`.
---@class (exact) agentls.TransitionNotification
---@field sessionId string The session it belongs to.
---@field seq integer Its number in the session: from 1, no gap, no repeat.
---@field at integer When it happened, in ms since the Unix epoch.
---@field kind agentls.TransitionKind Whether the turn goes on.
---@field reason agentls.TransitionReason Why.
---@field detail? string More, for people.
---@field parentToolCallId? string The call that delegated to the sub-agent of which this tells; absent: the turn's own.
---@field turnId? string The turn that caused it; absent when none did.

---What a step's outcome does to the turn.
---@alias agentls.TransitionKind
---| "continue" # The model is called again.
---| "terminal" # The turn ends.

---The reason of a transition; the two lists have no word in common.
---@alias agentls.TransitionReason agentls.ContinueReason|agentls.TerminalReason

---Why the loop calls the model again.
---@alias agentls.ContinueReason
---| "next_turn" # Tool calls were run, or a steer waits.
---| "max_output_tokens_escalate" # The output was cut for the first time: the same request with a larger limit.
---| "max_output_tokens_recovery" # The output was cut again: what came is kept, and the model is asked to go on.
---| "collapse_drain_retry" # The prompt was too long: old tool results became stubs.
---| "reactive_compact_retry" # The prompt was still too long: the history was summarised.
---| "image_retry" # The API refused an image: it was shrunk or taken out.
---| "empty_response_retry" # Nothing came: asked again.
---| "pause_turn" # The provider paused a long turn.
---| "model_fallback" # The provider or the model was switched.
---| "stop_hook_blocking" # A stop hook objected.
---| "token_budget_continuation" # The token target is not reached.
---| "planning" # The session's first prompt: the model is asked for a plan before it acts.
---| "reflection" # Tool calls were run, and the model is asked to judge its progress.

---Params of `agent/retry`.
---@class (exact) agentls.RetryNotification
---@field sessionId string The session it belongs to.
---@field seq integer Its number in the session: from 1, no gap, no repeat.
---@field at integer When it happened, in ms since the Unix epoch.
---@field provider string The provider's name in the configuration.
---@field model string The model.
---@field attempt integer The attempt that failed, from 1.
---@field maxRetries integer How many retries there are in all, of failures like this one.
---@field delayMs integer The wait before the next attempt, in ms.
---@field resumeAt integer When the wait ends, in ms since the Unix epoch.
---@field error agentls.ErrorData What failed.
---@field next string What happens if the next attempt fails too, for people.
---@field parentToolCallId? string The call that delegated to the sub-agent of which this tells; absent: the turn's own.
---@field turnId? string The turn that caused it; absent when none did.

---Params of `agent/wait`.
---@class (exact) agentls.WaitNotification
---@field sessionId string The session it belongs to.
---@field seq integer Its number in the session: from 1, no gap, no repeat.
---@field at integer When it happened, in ms since the Unix epoch.
---@field why string What is waited for, for people.
---@field parentToolCallId? string The call that delegated to the sub-agent of which this tells; absent: the turn's own.
---@field turnId? string The turn that caused it; absent when none did.
---@field ["until"]? integer Until when, in ms since the Unix epoch; absent when it is not known.

---Params of `agent/compacted`.
---@class (exact) agentls.CompactedNotification
---@field sessionId string The session it belongs to.
---@field seq integer Its number in the session: from 1, no gap, no repeat.
---@field at integer When it happened, in ms since the Unix epoch.
---@field trigger agentls.CompactTrigger Why.
---@field tokensBefore integer Estimated tokens of the whole request before.
---@field tokensAfter integer The same after.
---@field messagesBefore integer Messages before.
---@field messagesAfter integer Messages after.
---@field digest? boolean No model wrote the summary: its call failed, and a digest made by rules stands in.
---@field more? table<string, agentls.More> Where the whole of `summary` is, when it had to be cut.
---@field parentToolCallId? string The call that delegated to the sub-agent of which this tells; absent: the turn's own.
---@field summary? string What the model is told of the messages that it is no longer sent; absent when only large results or pictures became stubs.
---@field turnId? string The turn that caused it; absent when none did.

---Why a history was made smaller for the model.
---@alias agentls.CompactTrigger
---| "threshold" # The estimate passed the threshold.
---| "overflow" # The provider said that the prompt is too long.
---| "picture" # The provider refused a picture.
---| "manual" # A person asked for it.

---Params of `agent/modelSwitched`.
---@class (exact) agentls.ModelSwitchedNotification
---@field sessionId string The session it belongs to.
---@field seq integer Its number in the session: from 1, no gap, no repeat.
---@field at integer When it happened, in ms since the Unix epoch.
---@field from string The model that was asked until now, as `provider/model`.
---@field to string The model that is asked from now on, as `provider/model`.
---@field why string Why, for people.
---@field parentToolCallId? string The call that delegated to the sub-agent of which this tells; absent: the turn's own.
---@field turnId? string The turn that caused it; absent when none did.

---Params of `agent/circuit`.
---@class (exact) agentls.CircuitNotification
---@field sessionId string The session it belongs to.
---@field seq integer Its number in the session: from 1, no gap, no repeat.
---@field at integer When it happened, in ms since the Unix epoch.
---@field subject agentls.CircuitSubject What the circuit guards.
---@field name string The name of the provider or the tool.
---@field state agentls.CircuitState How it stands.
---@field parentToolCallId? string The call that delegated to the sub-agent of which this tells; absent: the turn's own.
---@field turnId? string The turn that caused it; absent when none did.
---@field ["until"]? integer When an open one lets a trial through, in ms since the Unix epoch.

---Params of `agent/usage`.
---@class (exact) agentls.UsageNotification
---@field sessionId string The session it belongs to.
---@field seq integer Its number in the session: from 1, no gap, no repeat.
---@field at integer When it happened, in ms since the Unix epoch.
---@field step agentls.Spent The step's tokens and cost.
---@field turn agentls.Spent The turn's so far.
---@field session agentls.Spent The session's so far.
---@field contextUsed integer Tokens of context used.
---@field contextWindow integer The model's window, in tokens.
---@field provider? string The provider that was asked; absent in sessions of the first days.
---@field turnId? string The turn that caused it; absent when none did.

---Tokens, and what they cost.
---@class (exact) agentls.Spent
---@field inputTokens integer Input tokens that were neither read from nor written to a prompt cache.
---@field outputTokens integer Output tokens, reasoning included.
---@field cacheReadTokens integer Input tokens read from the provider's prompt cache.
---@field cacheWriteTokens integer Input tokens written to the provider's prompt cache.
---@field costUsd? number What they cost, in US dollars; absent when the cost of one of the calls is not known.

---Params of `agent/warning`.
---@class (exact) agentls.WarningNotification
---@field code string What it is about, as a stable word.
---@field message string What a person should know.
---@field at? integer When it happened, in ms since the Unix epoch; absent without a session.
---@field parentToolCallId? string The call that delegated to the sub-agent of which this tells; absent: the turn's own.
---@field seq? integer Its number in the session; absent without a session.
---@field sessionId? string The session; absent when it concerns the server as a whole.
---@field turnId? string The turn that caused it; absent when none did.

---Params of `agent/sessionUpdated`: what changed, and only that.
---@class (exact) agentls.SessionUpdatedNotification
---@field sessionId string The session it belongs to.
---@field seq integer Its number in the session: from 1, no gap, no repeat.
---@field at integer When it happened, in ms since the Unix epoch.
---@field effort? agentls.Effort How hard the model shall think.
---@field mode? agentls.Mode The mode.
---@field model? string The model, as `provider/model`.
---@field queue? agentls.QueueState The prompts that wait for the turn's end, all of them.
---@field title? string The title.
---@field turnId? string The turn that caused it; absent when none did.

---Params of `agent/instructions`: all files that the agent's instructions are made of from now on.
---@class (exact) agentls.InstructionsNotification
---@field sessionId string The session it belongs to.
---@field seq integer Its number in the session: from 1, no gap, no repeat.
---@field at integer When it happened, in ms since the Unix epoch.
---@field files agentls.InstructionFile[] The files, in the order in which the agent reads them: of each kind the nearest last.
---@field leftOut? integer How many more there are that this list has no room for.
---@field turnId? string The turn that caused it; absent when none did.

---Params of `agent/status`: the server as a whole, for a status bar.
---@class (exact) agentls.StatusNotification
---@field state agentls.ServerState Whether the server works.
---@field runningTurns integer How many turns are running.
---@field openApprovals integer How many approvals, limits and questions wait for a person.
---@field circuits? agentls.CircuitInfo[] Circuits that are not closed.
---@field line? string A line for people.
---@field warnings? agentls.ServerWarning[] Warnings that concern the server as a whole and still hold.

---Whether the server works.
---@alias agentls.ServerState
---| "idle" # No turn is running.
---| "busy" # A turn is running.

---A warning that concerns the server as a whole.
---@class (exact) agentls.ServerWarning
---@field code string What it is about, as a stable word.
---@field message string What a person should know.

---What the server announces in `capabilities.experimental.agent` of its answer to `initialize`.
---@class (exact) agentls.ServerCapability
---@field protocolVersion agentls.ProtocolVersion The version of the protocol.
---@field methods string[] The requests and notifications that the server takes.
---@field notifications string[] The notifications that the server sends.
---@field features agentls.Feature[] What else the server can do.

---Something that the lists of methods do not tell. Clients ignore words that they do not know.
---@alias agentls.Feature
---| "images" # Prompts may contain images.
---| "unsavedText" # Unsaved text of open documents is what the agent reads.
---| "applyEdit" # Files open in the editor are changed through `workspace/applyEdit`, where the client can.
---| "queue" # Prompts may wait for the turn's end (`agent/queue`).
---| "checkpoints" # What turns change of files is told (`agent/turnDiff`) and can be taken back (`agent/revert`).
---| "subAgents" # The agent may delegate to sub-agents, whose calls and retries carry `parentToolCallId`.
---| "credentials" # API keys are asked for by `agent/getCredential`, where the client can.
---| "diagnostics" # What compilers and linters of the editor say is asked for by `agent/getDiagnostics`, where the client can.

---The version of the protocol. Another `major` cannot be talked to; another `minor` can.
---@class (exact) agentls.ProtocolVersion
---@field major integer Grows when something that clients rely on goes or changes.
---@field minor integer Grows when something is added.

---What a client may announce in `capabilities.experimental.agent` of `initialize`.
---@class (exact) agentls.ClientCapability
---@field client? agentls.ClientFlags What the client does for the server.

---What the client does for the server beyond what LSP has words for. Unknown flags are ignored.
---@class (exact) agentls.ClientFlags
---@field getCredential? boolean The client answers `agent/getCredential`, from a store that keeps secrets.
---@field getDiagnostics? boolean The client answers `agent/getDiagnostics`. Without it the agent has no tool `diagnostics`.
---@field questions? boolean The client shows `agent/limitRequested` and `agent/questionRequested` to a person and answers them. Without it nothing is asked but approvals: a limit that is reached ends the turn.
---@field saveDocuments? boolean The client answers `agent/saveDocuments`. With it, and with LSP's `workspace.applyEdit` and `workspace.workspaceEdit.documentChanges`, files that are open in the editor are changed there; without, on the disk where the editor holds no unsaved change, else not at all.

---`initializationOptions` of `initialize`: settings as in the configuration file, over the files'
---ones, and what only the editor knows.
---@class (exact) agentls.InitializationOptions
---@field trusted? boolean Whether the editor trusts its workspace folders. What was said of a folder with `agent/setTrust` goes before this; of other folders than the workspace's it says nothing.
---@field [string] any

return M
