-- Tool calls: their input as it is written, their output as it comes, and the questions about them.

local list = require('agentls.state.items')
local notices = require('agentls.state.notices')

local NONE, with, pick, find, filter, put = list.NONE, list.with, list.pick, list.find, list.filter, list.put

---How many bytes of live output are kept.
local LIVE_BYTES = 8192

local M = { on = {}, LIVE_BYTES = LIVE_BYTES }
local on = M.on

on['agent/toolInputDelta'] = function(state, p)
  state = notices.resolved(state, notices.BY_WORDS)
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
  if #live > LIVE_BYTES then
    live = live:sub(-LIVE_BYTES)
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
  'exitCode',
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
    state = notices.resolved_of(state, p.toolCallId)
  end
  if p.parentToolCallId then
    state = notices.resolved_of(state, p.parentToolCallId, p.at or math.huge)
  end
  state = put(state, 'tool', p.toolCallId, changes)
  -- A sub-agent's calls are the work of the one that delegated.
  local ended = FINAL[p.status] and not p.parentToolCallId and 'thinking' or nil
  return with(state, { activity = p.status == 'running' and 'tool' or ended or state.activity })
end

on['agent/approvalRequested'] = function(state, p)
  local approvals = filter(state.approvals, function(open)
    return open.approvalId ~= p.approvalId
  end)
  state = put(state, 'tool', p.toolCallId, { approval = p, decision = NONE, diff = p.diff }, {
    name = p.name,
    title = p.title,
    status = 'awaitingApproval',
    input = p.input,
    turnId = p.turnId,
    parentToolCallId = p.parentToolCallId,
  })
  return with(state, { approvals = list.added(approvals, p) })
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
    state = put(state, kind, p[key], {
      asked = p,
      turnId = p.turnId,
      parentToolCallId = p.parentToolCallId,
      resolved = NONE,
    })
    local _, item = find(state.items, kind, p[key])
    local asked = filter(state.asked, function(open)
      return open.id ~= item.id
    end)
    return with(state, { asked = list.added(asked, item) })
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

return M
