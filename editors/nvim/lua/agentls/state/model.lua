---@meta

-- The types of a session's state: the items of the chat, the notices, and the session itself. Types only; ../state.lua
-- changes them.

---@class agentls.Event
---@field method string
---@field params table

---An entry of the chat. `id` is unique among items of one kind.
---@class agentls.Item
---@field kind 'user'|'assistant'|'tool'|'plan'|'warning'|'limit'|'question'|'changes'|'note'|'instructions'|'turnEnd'
---@field id string
---@field turnId? string
---@field parentToolCallId? string The call whose sub-agent the item belongs to.

---@class agentls.Item.user: agentls.Item
---@field text string
---@field references string[] Files and ranges, such as `a.lua:3-5`.
---@field images integer
---@field steer boolean Whether it was sent while the turn was running.

---@class agentls.Item.assistant: agentls.Item
---@field text string
---@field reasoning string
---@field open boolean Whether it is still streaming.
---@field incomplete? boolean
---@field stale? boolean Whether a delta is missing, so that the text has a gap.

---@class agentls.Item.tool: agentls.Item
---@field name string
---@field title string
---@field status agentls.ToolCallStatus|'writing'
---@field messageId? string The message that contains the call, while its input streams.
---@field written? integer Bytes of input received, while its input streams.
---@field input? any
---@field output? string
---@field live? string The end of the live output.
---@field diff? string
---@field locations? agentls.Location[]
---@field durationMs? integer
---@field exitCode? integer
---@field more? table<string, agentls.TruncatedField>
---@field approval? agentls.ApprovalRequestedNotification Its open approval request.
---@field decision? agentls.ApprovalResolvedNotification

---@class agentls.Item.plan: agentls.Item
---@field items agentls.PlanItem[]

---@class agentls.Item.warning: agentls.Item
---@field code string
---@field message string

---A limit or a question from the agent; not an approval.
---@class agentls.Item.limit: agentls.Item
---@field request table The params of `agent/limitRequested` or `agent/questionRequested`.
---@field resolved? table The params of `agent/limitResolved` or `agent/questionResolved`.

---The file changes of a turn. `id` is the turn.
---@class agentls.Item.changes: agentls.Item
---@field files agentls.FileDiff[]
---@field unlisted? integer
---@field partial? boolean
---@field added integer Lines in all files.
---@field removed integer
---@field standing agentls.ChangeState Whether they are in effect now.
---@field revertedWith? string While they are reverted: the turn whose revert included them.

---One line about an action.
---@class agentls.Item.note: agentls.Item
---@field text string
---@field ofTurnId? string The turn that was reverted or redone, with all later ones.
---@field standing? agentls.ChangeState
---@field files? agentls.FileDiff[]
---@field unlisted? integer

---The instruction files of the agent.
---@class agentls.Item.instructions: agentls.Item
---@field files agentls.InstructionFile[]
---@field leftOut? integer

---@class agentls.Item.turnEnd: agentls.Item
---@field state agentls.TurnState
---@field reason agentls.TerminalReason
---@field usage? agentls.TokenUsage
---@field costUsd? number
---@field error? agentls.ErrorData
---@field tookMs? integer
---@field superseded? boolean Whether a later turn started, so that this one cannot be resumed.
---@field compacted? string The result of the compaction that this turn made.

---A temporary notice below the items. It disappears when its cause is resolved.
---@class agentls.Notice
---@field key string Unique: a newer notice replaces one with the same key.
---@field parent? string The call whose sub-agents it is about.
---@field kind 'retry'|'wait'|'switched'|'compacted'|'circuit'|'retracted'|'transition'
---@field text string
---@field endsAt? integer When it ends, in ms since the Unix epoch.
---@field subject? string What a circuit breaker guards: `provider` or `tool`.
---@field name? string The name of that provider or tool.
---@field manual? boolean Whether the user requested the compaction.

---@class agentls.State
---@field sessionId string
---@field seq? integer The number of the last applied event; nil before the first.
---@field items agentls.Item[]
---@field approvals agentls.ApprovalRequestedNotification[] Open approval requests, oldest first.
---@field inquiries agentls.Item.limit[] Open limits and questions, oldest first.
---@field notices agentls.Notice[]
---@field running? string The running turn.
---@field startedAt? integer When the running turn started, in ms since the Unix epoch.
---@field activity? 'thinking'|'answering'|'calling'|'tool' What the running turn does.
---@field compacting? boolean Whether the running turn is a compaction that the user requested.
---@field detail? string The text for the end of the running turn.
---@field resumable? string The last turn, if it can be resumed.
---@field queue? agentls.QueueState The queued prompts; nil without any.
---@field unconfirmedPrompts? string[] Prompts sent from here that the model has not received yet.
---@field instructions? agentls.InstructionFile[] The latest instruction files of the agent.
---@field title? string
---@field cwd? string
---@field mode? agentls.Mode
---@field model? string
---@field effort? agentls.Effort
---@field switchedFrom? string The requested model, while a fallback replaces it.
---@field costUsd? number The cost of the session so far.
---@field contextUsed? integer
---@field contextWindow? integer
---@field firstSeq? integer The number of the first loaded event, if there are earlier ones.
---@field hasEarlier boolean Whether there are events before the first item.
---@field missed? 'events'|'text' What is missing and must be loaded.
---@field offline? string Why the server is not available.
