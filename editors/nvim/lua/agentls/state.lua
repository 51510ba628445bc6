-- A session as its events tell it: `reduce(state, event)` gives the next state.
--
-- Pure: no editor (not even `vim`), no clock, no randomness. A state is never changed: what an event touches is
-- copied, all else is shared, so a view finds what to draw again by comparing identities. Events that are not
-- known are ignored (but counted), and what came as deltas is replaced by the durable event that completes it.

local words = require('agentls.text')

local M = {}

---@class agentls.Event
---@field method string
---@field params table

---What stands in the chat, from top to bottom. `id` is unique among items of one kind.
---@class agentls.Item
---@field kind 'user'|'assistant'|'tool'|'plan'|'warning'|'limit'|'question'|'turnEnd'
---@field id string
---@field turnId? string

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
---@field parentToolCallId? string
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

---How many bytes of live output are kept.
M.LIVE_BYTES = 8192

---@param sessionId string
---@return agentls.State
function M.new(sessionId)
  return { sessionId = sessionId, items = {}, approvals = {}, asked = {}, notices = {}, hasEarlier = false }
end

local NONE = {}

---A copy of `t` with `changes`; `NONE` takes a field away.
---@generic T: table
---@param t T
---@param changes table
---@return T
local function with(t, changes)
  local copy = {}
  for key, value in pairs(t) do
    copy[key] = value
  end
  for key, value in pairs(changes) do
    if value == NONE then
      copy[key] = nil
    else
      copy[key] = value
    end
  end
  return copy
end

---What of `params` is set among `names`.
local function pick(params, names)
  local picked = {}
  for _, name in ipairs(names) do
    picked[name] = params[name]
  end
  return picked
end

local function find(items, kind, id)
  -- From the end: what changes is nearly always the last.
  for i = #items, 1, -1 do
    if items[i].id == id and items[i].kind == kind then
      return i, items[i]
    end
  end
end

local function filter(list, keep)
  local kept = {}
  for _, element in ipairs(list) do
    if keep(element) then
      kept[#kept + 1] = element
    end
  end
  return #kept == #list and list or kept
end

---The state with the item `kind`/`id` changed; it is made from `fresh` and put at the end when there is none.
local function put(state, kind, id, changes, fresh)
  local at, item = find(state.items, kind, id)
  local items = {}
  for i = 1, #state.items do
    items[i] = state.items[i]
  end
  if at then
    items[at] = with(item, changes)
  else
    local new = with(fresh or {}, changes)
    new.kind, new.id = kind, id
    items[#items + 1] = new
  end
  return with(state, { items = items })
end

local function notice(state, new)
  local notices = filter(state.notices, function(old)
    return old.key ~= new.key
  end)
  local copy = {}
  for i, old in ipairs(notices) do
    copy[i] = old
  end
  copy[#copy + 1] = new
  return with(state, { notices = copy })
end

---Takes away the notices of these kinds.
local function resolved(state, kinds)
  local notices = filter(state.notices, function(old)
    return not kinds[old.kind]
  end)
  return notices == state.notices and state or with(state, { notices = notices })
end

---What is over once the model speaks.
local BY_WORDS = { retry = true, wait = true, retracted = true, transition = true }
---What is over once a message is whole.
local BY_MESSAGE = { retry = true, wait = true, retracted = true, transition = true, compacted = true }
---What is over with the turn. An open circuit is not.
local BY_END =
  { retry = true, wait = true, retracted = true, transition = true, compacted = true, switched = true }
local ALL = {
  retry = true,
  wait = true,
  retracted = true,
  transition = true,
  compacted = true,
  switched = true,
  circuit = true,
}

---Joins a delta on: the text, and whether something is missing between.
local function joined(text, offset, piece)
  local have = #text
  if offset > have then
    return text, true
  elseif offset + #piece <= have then
    return text, false
  end
  return text .. piece:sub(have - offset + 1), false
end

local FRESH_ASSISTANT = { text = '', reasoning = '', open = true }

local on = {}

on['agent/turnStarted'] = function(state, p)
  state = resolved(state, ALL)
  if state.resumable and find(state.items, 'turnEnd', state.resumable) then
    state = put(state, 'turnEnd', state.resumable, { over = true })
  end
  return with(state, {
    running = p.turnId,
    startedAt = p.at,
    activity = 'thinking',
    compacting = p.by == 'compact' or nil,
    resumable = NONE,
    switchedFrom = NONE,
  })
end

on['agent/turnEnded'] = function(state, p)
  local compacted
  for _, old in ipairs(state.notices) do
    compacted = old.kind == 'compacted' and old.manual and old or compacted
  end
  state = resolved(state, BY_END)
  -- What no durable event completed is void.
  local items = {}
  for _, item in ipairs(state.items) do
    local void = (item.kind == 'assistant' and item.open)
      or (item.kind == 'tool' and item.status == 'writing')
    if not void then
      items[#items + 1] = item.kind == 'tool' and item.live and with(item, { live = NONE }) or item
    end
  end
  items[#items + 1] = {
    kind = 'turnEnd',
    id = p.turnId or ('turn at ' .. tostring(p.seq)),
    turnId = p.turnId,
    state = p.state,
    reason = p.reason,
    usage = p.usage,
    costUsd = p.costUsd,
    error = p.error,
    tookMs = state.running == p.turnId and state.startedAt and p.at and p.at - state.startedAt or nil,
    compacted = compacted and compacted.text or (state.compacting and not p.error and state.detail or nil),
  }
  local stays = p.state == 'interrupted' or p.state == 'cancelled'
  return with(state, {
    items = items,
    running = NONE,
    startedAt = NONE,
    activity = NONE,
    compacting = NONE,
    detail = NONE,
    resumable = stays and p.turnId or NONE,
    switchedFrom = NONE,
    model = state.switchedFrom or state.model,
  })
end

local function delta(field)
  return function(state, p)
    state = resolved(state, BY_WORDS)
    local _, item = find(state.items, 'assistant', p.messageId)
    if item and not item.open then
      return state
    end
    local text, gap = joined(item and item[field] or '', p.offset, p.text)
    local changes = { [field] = text, stale = gap or (item and item.stale) or nil }
    state = put(state, 'assistant', p.messageId, changes, with(FRESH_ASSISTANT, { turnId = p.turnId }))
    local activity = field == 'text' and 'answering' or 'thinking'
    return with(state, { activity = activity, missed = gap and (state.missed or 'text') or state.missed })
  end
end

on['agent/textDelta'] = delta('text')
on['agent/reasoningDelta'] = delta('reasoning')

local function spoken(content)
  local said = { text = {}, reasoning = {}, references = {}, calls = {}, images = 0 }
  for _, block in ipairs(content or {}) do
    if block.type == 'text' then
      said.text[#said.text + 1] = block.text
    elseif block.type == 'reasoning' then
      said.reasoning[#said.reasoning + 1] = block.text
    elseif block.type == 'toolUse' then
      said.calls[block.toolCallId] = block
    elseif block.type == 'image' then
      said.images = said.images + 1
    elseif block.type == 'reference' then
      local lines = ''
      if block.startLine then
        local last = block.endLine or block.startLine
        lines = last > block.startLine and (':%d-%d'):format(block.startLine, last)
          or (':%d'):format(block.startLine)
      end
      said.references[#said.references + 1] = block.path .. lines
    end
  end
  return said
end

on['agent/message'] = function(state, p)
  if p.hidden then
    return state
  end
  local said = spoken(p.content)
  if p.role == 'user' then
    local steer = false
    for i = #state.items, 1, -1 do
      local item = state.items[i]
      if item.kind == 'turnEnd' then
        break
      elseif item.kind == 'user' and item.turnId == p.turnId and item.id ~= p.messageId then
        steer = true
        break
      end
    end
    return put(state, 'user', p.messageId, {
      text = table.concat(said.text, '\n'),
      references = said.references,
      images = said.images,
      steer = steer,
      turnId = p.turnId,
    })
  elseif p.role ~= 'assistant' then
    return state
  end
  state = resolved(state, BY_MESSAGE)
  -- A call that the message does not hold is void.
  local items = filter(state.items, function(item)
    return not (
      item.kind == 'tool'
      and item.status == 'writing'
      and item.messageId == p.messageId
      and not said.calls[item.id]
    )
  end)
  if items ~= state.items then
    state = with(state, { items = items })
  end
  local text, reasoning = table.concat(said.text, ''), table.concat(said.reasoning, '\n\n')
  local at, item = find(state.items, 'assistant', p.messageId)
  if text == '' and reasoning == '' then
    if at then
      return with(state, {
        items = filter(state.items, function(other)
          return other ~= item
        end),
      })
    end
    return with(state, { activity = 'thinking' })
  end
  local more = p.more
  for _, block in ipairs(p.content) do
    more = more or block.more
  end
  -- A text that was cut for the wire is not better than what was streamed whole.
  if more and item and #item.text > #text then
    text = item.text
  end
  state = put(
    state,
    'assistant',
    p.messageId,
    { text = text, reasoning = reasoning, open = false, stale = NONE, incomplete = p.incomplete or NONE },
    { turnId = p.turnId }
  )
  return with(state, { activity = 'thinking' })
end

on['agent/messageRetracted'] = function(state, p)
  local void, had = {}, false
  for _, id in ipairs(p.toolCallIds or {}) do
    void[id] = true
  end
  local items = filter(state.items, function(item)
    local gone = (item.kind == 'assistant' and item.id == p.messageId)
      or (
        item.kind == 'tool'
        and (void[item.id] or (item.status == 'writing' and item.messageId == p.messageId))
      )
    had = had or gone
    return not gone
  end)
  if not had then
    return state
  end
  return notice(with(state, { items = items, activity = 'thinking' }), {
    key = 'retracted',
    kind = 'retracted',
    text = 'a broken answer was taken back',
  })
end

on['agent/toolInputDelta'] = function(state, p)
  state = resolved(state, BY_WORDS)
  local _, item = find(state.items, 'tool', p.toolCallId)
  if item and item.status ~= 'writing' then
    return state
  end
  state = put(state, 'tool', p.toolCallId, {
    name = p.name,
    title = p.name,
    status = 'writing',
    messageId = p.messageId,
    turnId = p.turnId,
    written = (item and item.written or 0) + #p.text,
  })
  return with(state, { activity = 'calling' })
end

on['agent/toolOutputDelta'] = function(state, p)
  local _, item = find(state.items, 'tool', p.toolCallId)
  if not item or item.status ~= 'running' then
    return state
  end
  local live = (item.live or '') .. p.text
  if #live > M.LIVE_BYTES then
    live = live:sub(-M.LIVE_BYTES)
    live = live:sub((live:find('\n', 1, true) or 0) + 1)
  end
  return put(state, 'tool', p.toolCallId, { live = live })
end

local FINAL = { completed = true, failed = true, denied = true, cancelled = true }
local TOOL_FIELDS = {
  'name',
  'title',
  'status',
  'input',
  'output',
  'diff',
  'locations',
  'durationMs',
  'parentToolCallId',
  'turnId',
}

on['agent/toolCall'] = function(state, p)
  local _, item = find(state.items, 'tool', p.toolCallId)
  local changes = pick(p, TOOL_FIELDS)
  changes.messageId, changes.written = NONE, NONE
  if p.more then
    changes.more = with(item and item.more or {}, p.more)
  end
  if FINAL[p.status] then
    changes.live = NONE
  end
  state = put(state, 'tool', p.toolCallId, changes)
  local ended = FINAL[p.status] and 'thinking' or nil
  return with(state, { activity = p.status == 'running' and 'tool' or ended or state.activity })
end

on['agent/approvalRequested'] = function(state, p)
  local approvals = filter(state.approvals, function(open)
    return open.approvalId ~= p.approvalId
  end)
  local copy = {}
  for i, open in ipairs(approvals) do
    copy[i] = open
  end
  copy[#copy + 1] = p
  state = put(
    state,
    'tool',
    p.toolCallId,
    { approval = p, decision = NONE, diff = p.diff },
    { name = p.name, title = p.title, status = 'awaitingApproval', input = p.input, turnId = p.turnId }
  )
  return with(state, { approvals = copy })
end

on['agent/approvalResolved'] = function(state, p)
  state = with(state, {
    approvals = filter(state.approvals, function(open)
      return open.approvalId ~= p.approvalId
    end),
  })
  if not find(state.items, 'tool', p.toolCallId) then
    return state
  end
  return put(state, 'tool', p.toolCallId, { approval = NONE, decision = p })
end

local function requested(kind, key)
  return function(state, p)
    state = put(state, kind, p[key], { asked = p, turnId = p.turnId, resolved = NONE })
    local _, item = find(state.items, kind, p[key])
    local asked = filter(state.asked, function(open)
      return open.id ~= item.id
    end)
    local copy = {}
    for i, open in ipairs(asked) do
      copy[i] = open
    end
    copy[#copy + 1] = item
    return with(state, { asked = copy })
  end
end

local function answered(kind, key)
  return function(state, p)
    state = with(state, {
      asked = filter(state.asked, function(open)
        return open.kind ~= kind or open.id ~= p[key]
      end),
    })
    if not find(state.items, kind, p[key]) then
      return state
    end
    return put(state, kind, p[key], { resolved = p })
  end
end

on['agent/limitRequested'] = requested('limit', 'limitId')
on['agent/limitResolved'] = answered('limit', 'limitId')
on['agent/questionRequested'] = requested('question', 'questionId')
on['agent/questionResolved'] = answered('question', 'questionId')

on['agent/plan'] = function(state, p)
  local id = p.turnId or 'plan'
  return put(state, 'plan', id, { items = p.items }, { turnId = p.turnId })
end

on['agent/transition'] = function(state, p)
  if p.kind == 'terminal' then
    return with(state, { detail = p.detail })
  end
  local text = p.kind == 'continue' and words.REASONS[p.reason]
  if not text then
    return state
  end
  return notice(state, { key = 'transition', kind = 'transition', text = text })
end

on['agent/retry'] = function(state, p)
  local failed = p.error or {}
  local why = failed.cause or failed.message or 'the call failed'
  local status = failed.status and (' (%d)'):format(failed.status) or ''
  -- The first line, of bearable length.
  why = why:match('[^\n]*'):sub(1, 160)
  return notice(resolved(state, { wait = true, retry = true }), {
    key = 'retry',
    kind = 'retry',
    text = ('%s: %s%s — try %d of %d'):format(p.provider, why, status, p.attempt + 1, p.maxRetries + 1),
    till = p.resumeAt,
  })
end

on['agent/wait'] = function(state, p)
  return notice(state, { key = 'wait', kind = 'wait', text = 'waiting: ' .. p.why, till = p['until'] })
end

on['agent/modelSwitched'] = function(state, p)
  local meant = state.switchedFrom or p.from or state.model
  if p.to == meant then
    return with(resolved(state, { switched = true }), { model = p.to, switchedFrom = NONE })
  end
  local to, why = tostring(p.to), p.why
  -- Some of the server's lines name the model, others tell only what became of the one before.
  local name = to:gsub('^.*/', '')
  if not why then
    why = 'switched to ' .. to
  elseif not why:find(name, 1, true) then
    why = ('%s — %s answers'):format(why, to)
  end
  state = notice(resolved(state, { retry = true }), { key = 'switched', kind = 'switched', text = why })
  return with(state, { model = p.to, switchedFrom = meant })
end

on['agent/circuit'] = function(state, p)
  local key = ('circuit %s %s'):format(p.subject, p.name)
  local notices = filter(state.notices, function(old)
    return old.key ~= key
  end)
  if p.state == 'closed' then
    return with(state, { notices = notices })
  end
  return notice(with(state, { notices = notices }), {
    key = key,
    kind = 'circuit',
    text = p.state == 'halfOpen' and p.name .. ': one call tries whether it works again'
      or p.name .. ' failed too often and is left alone for a while',
    till = p['until'],
    subject = p.subject,
    name = p.name,
  })
end

on['agent/compacted'] = function(state, p)
  local text = ('compacted: %s → %s tokens'):format(
    words.tokens(p.tokensBefore or 0),
    words.tokens(p.tokensAfter or 0)
  )
  return notice(state, { key = 'compacted', kind = 'compacted', text = text, manual = p.trigger == 'manual' })
end

on['agent/usage'] = function(state, p)
  return with(state, {
    costUsd = p.session and p.session.costUsd or NONE,
    contextUsed = p.contextUsed,
    contextWindow = p.contextWindow,
  })
end

on['agent/warning'] = function(state, p)
  if not p.seq then
    return state
  end
  return put(state, 'warning', tostring(p.seq), { code = p.code, message = p.message, turnId = p.turnId })
end

on['agent/sessionUpdated'] = function(state, p)
  local changes = pick(p, { 'title', 'mode', 'model', 'effort' })
  if p.model then
    changes.switchedFrom = NONE
  end
  return with(state, changes)
end

---The client's own: the server is gone, `why`.
on['client/offline'] = function(state, p)
  return with(state, { offline = p.why })
end

---The state after `event`. One that was seen before changes nothing; one after a gap is left out, and
---`missed` says that the session must be loaded from `seq` on.
---@param state agentls.State
---@param event agentls.Event
---@return agentls.State
function M.reduce(state, event)
  local params = event.params
  local seq = params.seq
  if seq and state.seq then
    if seq <= state.seq then
      return state
    elseif seq > state.seq + 1 then
      return state.missed == 'events' and state or with(state, { missed = 'events' })
    end
  end
  local handler = on[event.method]
  local next_state = handler and handler(state, params) or state
  return seq and with(next_state, { seq = seq }) or next_state
end

---The message in progress, as `agent/loadSession` tells it.
local function with_partial(state, partial)
  local _, item = find(state.items, 'assistant', partial.messageId)
  local text = item and item.text or ''
  if item and not item.open then
    return state
  elseif partial.offset <= #text then
    text = text:sub(1, partial.offset) .. partial.text
  elseif partial.offset > 0 then
    return state
  end
  return put(state, 'assistant', partial.messageId, {
    text = text,
    reasoning = partial.reasoning or (item and item.reasoning) or '',
    open = true,
    stale = NONE,
  }, { turnId = state.running })
end

---Puts the answer of `agent/loadSession` on top of what is known: `state` is what `afterSeq` was taken from, or
---a new one. When the page does not join on, it is begun anew with it.
---@param state agentls.State
---@param result agentls.LoadSessionResult
---@return agentls.State
function M.load(state, result)
  local first = result.events[1]
  local joins = state.seq and (not first or first.params.seq <= state.seq + 1)
  local loaded = joins and with(state, { missed = NONE, offline = NONE })
    or with(
      M.new(state.sessionId),
      { hasEarlier = result.hasEarlier or false, firstSeq = first and first.params.seq }
    )
  for _, event in ipairs(result.events) do
    loaded = M.reduce(loaded, event)
  end
  for _, approval in ipairs(result.openApprovals or {}) do
    -- It may have been asked before the page.
    local question = with(approval, {})
    question.seq = nil
    loaded = M.reduce(loaded, { method = 'agent/approvalRequested', params = question })
  end
  for method, open in pairs({
    ['agent/limitRequested'] = result.openLimits or {},
    ['agent/questionRequested'] = result.openQuestions or {},
  }) do
    for _, params in ipairs(open) do
      local question = with(params, {})
      question.seq = nil
      loaded = M.reduce(loaded, { method = method, params = question })
    end
  end
  local now = result.state or {}
  if result.partial then
    loaded = with_partial(loaded, result.partial)
  end
  return with(loaded, {
    seq = result.seq,
    title = now.title,
    cwd = now.cwd,
    mode = now.mode,
    model = loaded.switchedFrom and loaded.model or now.model,
    effort = now.effort,
    costUsd = now.costUsd,
    running = now.runningTurnId or NONE,
    resumable = now.resumableTurnId or NONE,
  })
end

---Puts the items of an earlier page before those of `state`.
---@param state agentls.State
---@param result agentls.LoadSessionResult The page that ends where `state` begins.
---@return agentls.State
function M.prepend(state, result)
  local earlier = M.new(state.sessionId)
  for _, event in ipairs(result.events) do
    earlier = M.reduce(earlier, event)
  end
  local known = {}
  for i, item in ipairs(state.items) do
    known[item.kind .. ' ' .. item.id] = i
  end
  local items, later = {}, {}
  for i, item in ipairs(state.items) do
    later[i] = item
  end
  for _, item in ipairs(earlier.items) do
    local at = known[item.kind .. ' ' .. item.id]
    if not at then
      items[#items + 1] = item
    else
      -- It begins in the earlier page and ends here: each knows a part.
      later[at] = with(item, later[at])
    end
  end
  for _, item in ipairs(later) do
    items[#items + 1] = item
  end
  local first = result.events[1]
  return with(state, {
    items = items,
    hasEarlier = result.hasEarlier or false,
    firstSeq = first and first.params.seq or state.firstSeq,
  })
end

return M
