-- Tool calls: their streamed input, their live output, and their approval requests. Also limits and questions. Pure.

local list = require('agentls.state.items')
local notices = require('agentls.state.notices')

local NONE, copy_with, pick_fields, find_item, filter_list, upsert_item =
  list.NONE, list.copy_with, list.pick_fields, list.find_item, list.filter_list, list.upsert_item

---How many bytes of live output a call keeps.
local LIVE_BYTES = 8192

local M = { on = {}, LIVE_BYTES = LIVE_BYTES }
local on = M.on

on['agent/toolInputDelta'] = function(state, p)
  state = notices.clear_kinds(state, notices.ENDED_BY_DELTA)
  local _, item = find_item(state.items, 'tool', p.toolCallId)
  if item and item.status ~= 'writing' then
    return state
  end
  state = upsert_item(state, 'tool', p.toolCallId, {
    name = p.name,
    title = p.name,
    status = 'writing',
    messageId = p.messageId,
    turnId = p.turnId,
    written = (item and item.written or 0) + #p.text,
  })
  return copy_with(state, { activity = 'calling' })
end

on['agent/toolOutputDelta'] = function(state, p)
  local _, item = find_item(state.items, 'tool', p.toolCallId)
  if not item or item.status ~= 'running' then
    return state
  end
  local live = (item.live or '') .. p.text
  if #live > LIVE_BYTES then
    live = live:sub(-LIVE_BYTES)
    live = live:sub((live:find('\n', 1, true) or 0) + 1)
  end
  return upsert_item(state, 'tool', p.toolCallId, { live = live })
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
  local _, item = find_item(state.items, 'tool', p.toolCallId)
  local changes = pick_fields(p, TOOL_FIELDS)
  changes.messageId, changes.written = NONE, NONE
  if p.more then
    changes.more = copy_with(item and item.more or {}, p.more)
  end
  if FINAL[p.status] then
    changes.live = NONE
    state = notices.clear_subagent_notices(state, p.toolCallId)
  end
  if p.parentToolCallId then
    state = notices.clear_subagent_notices(state, p.parentToolCallId, p.at or math.huge)
  end
  state = upsert_item(state, 'tool', p.toolCallId, changes)
  -- The calls of a sub-agent do not change the activity of the session.
  local ended = FINAL[p.status] and not p.parentToolCallId and 'thinking' or nil
  return copy_with(state, { activity = p.status == 'running' and 'tool' or ended or state.activity })
end

on['agent/approvalRequested'] = function(state, p)
  local approvals = filter_list(state.approvals, function(open)
    return open.approvalId ~= p.approvalId
  end)
  state = upsert_item(state, 'tool', p.toolCallId, { approval = p, decision = NONE, diff = p.diff }, {
    name = p.name,
    title = p.title,
    status = 'awaitingApproval',
    input = p.input,
    turnId = p.turnId,
    parentToolCallId = p.parentToolCallId,
  })
  return copy_with(state, { approvals = list.append_copy(approvals, p) })
end

on['agent/approvalResolved'] = function(state, p)
  state = copy_with(state, {
    approvals = filter_list(state.approvals, function(open)
      return open.approvalId ~= p.approvalId
    end),
  })
  if not find_item(state.items, 'tool', p.toolCallId) then
    return state
  end
  return upsert_item(state, 'tool', p.toolCallId, { approval = NONE, decision = p })
end

local function make_request_handler(kind, key)
  return function(state, p)
    state = upsert_item(state, kind, p[key], {
      asked = p,
      turnId = p.turnId,
      parentToolCallId = p.parentToolCallId,
      resolved = NONE,
    })
    local _, item = find_item(state.items, kind, p[key])
    local asked = filter_list(state.asked, function(open)
      return open.id ~= item.id
    end)
    return copy_with(state, { asked = list.append_copy(asked, item) })
  end
end

local function make_resolution_handler(kind, key)
  return function(state, p)
    state = copy_with(state, {
      asked = filter_list(state.asked, function(open)
        return open.kind ~= kind or open.id ~= p[key]
      end),
    })
    if not find_item(state.items, kind, p[key]) then
      return state
    end
    return upsert_item(state, kind, p[key], { resolved = p })
  end
end

on['agent/limitRequested'] = make_request_handler('limit', 'limitId')
on['agent/limitResolved'] = make_resolution_handler('limit', 'limitId')
on['agent/questionRequested'] = make_request_handler('question', 'questionId')
on['agent/questionResolved'] = make_resolution_handler('question', 'questionId')

return M
