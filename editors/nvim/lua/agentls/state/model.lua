---@meta

-- What a session is made of, as the chat shows it: items from top to bottom, notices that pass, and what is known of
-- the whole. Types only; how they change is said in ../state.lua.

---@class agentls.Event
---@field method string
---@field params table

---What stands in the chat, from top to bottom. `id` is unique among items of one kind.
---@class agentls.Item
---@field kind 'user'|'assistant'|'tool'|'plan'|'warning'|'limit'|'question'|'changes'|'note'|'instructions'|'turnEnd'
---@field id string
---@field turnId? string
---@field parentToolCallId? string The call whose sub-agent it belongs to: it stands under that.

---@class agentls.Item.user: agentls.Item
---@field text string
---@field references string[] Files and ranges, as people write them.
---@field images integer
---@field steer boolean Said while the turn was running.

---@class agentls.Item.assistant: agentls.Item
---@field text string
---@field reasoning string
---@field open boolean Still being written.
---@field incomplete? boolean
---@field stale? boolean A delta did not join on: what is shown lacks something.

---@class agentls.Item.tool: agentls.Item
---@field name string
---@field title string
---@field status agentls.ToolCallStatus|'writing'
---@field messageId? string The message that asks, while its input is being written.
---@field written? integer Bytes of input that have come, while it is being written.
---@field input? any
---@field output? string
---@field live? string The end of its live output.
---@field diff? string
---@field locations? agentls.Location[]
---@field durationMs? integer
---@field exitCode? integer Of a command that ended.
---@field more? table<string, agentls.More>
---@field approval? agentls.ApprovalRequestedNotification The question that is open about it.
---@field decision? agentls.ApprovalResolvedNotification

---@class agentls.Item.plan: agentls.Item
---@field items agentls.PlanItem[]

---@class agentls.Item.warning: agentls.Item
---@field code string
---@field message string

---A question that is no approval: a limit, or one that the agent asks.
---@class agentls.Item.limit: agentls.Item
---@field asked table The params of `agent/limitRequested` or `agent/questionRequested`.
---@field resolved? table Those of `…Resolved`.

---What a turn changed of files. `id` is the turn.
---@class agentls.Item.changes: agentls.Item
---@field files agentls.FileDiff[]
---@field unlisted? integer
---@field partial? boolean
---@field added integer Lines, of all files.
---@field removed integer
---@field standing agentls.Standing How they stand now.
---@field revertedWith? string While they are taken back: the turn whose revert took them along.

---Something that was done, in a line.
---@class agentls.Item.note: agentls.Item
---@field text string
---@field ofTurnId? string The turn that was taken back, or made again, with all later ones.
---@field standing? agentls.Standing
---@field files? agentls.FileDiff[] What was done to them.
---@field unlisted? integer

---What the agent was given to go by.
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
---@field over? boolean Another turn came after it: it cannot be gone on with any more.
---@field compacted? string What came of the compaction that the turn was for.

---Something that passes: shown beside the text, and gone when it is resolved.
---@class agentls.Notice
---@field key string One notice a key.
---@field parent? string The call whose sub-agents it is of.
---@field kind 'retry'|'wait'|'switched'|'compacted'|'circuit'|'retracted'|'transition'
---@field text string
---@field till? integer When it ends, in ms since the Unix epoch.
---@field subject? string What a circuit guards: `provider` or `tool`.
---@field name? string Which one.
---@field manual? boolean A person asked for the compaction.

---@class agentls.State
---@field sessionId string
---@field seq? integer The number of the last event that was applied; nil before the first.
---@field items agentls.Item[]
---@field approvals agentls.ApprovalRequestedNotification[] Open ones, oldest first.
---@field asked agentls.Item.limit[] Open limits and questions, oldest first.
---@field notices agentls.Notice[]
---@field running? string The turn that is running.
---@field startedAt? integer When it began, in ms since the Unix epoch.
---@field activity? 'thinking'|'answering'|'calling'|'tool' What the running turn does.
---@field compacting? boolean The running turn makes the history smaller, because a person asked.
---@field detail? string What the end of the running turn will be told with.
---@field resumable? string The last turn, when it can be gone on with.
---@field queue? agentls.QueueState The prompts that wait for the turn's end; nil when there are none.
---@field said? string[] What was sent from here and waits until the model takes it.
---@field instructions? agentls.InstructionFile[] What the agent was given to go by, as told last.
---@field title? string
---@field cwd? string
---@field mode? agentls.Mode
---@field model? string
---@field effort? agentls.Effort
---@field switchedFrom? string The model that was meant, while another stands in.
---@field costUsd? number What the session cost so far.
---@field contextUsed? integer
---@field contextWindow? integer
---@field firstSeq? integer The number of the first event that is shown, when there are earlier ones.
---@field hasEarlier boolean Whether there are events before the first item.
---@field missed? 'events'|'text' What did not join on and must be loaded.
---@field offline? string Why there is no server, while there is none.
