-- Tool calls: their streamed input, their live output, and their approval requests. Also limits and questions. Pure.

local list = require('agentls.state.items')
local notices = require('agentls.state.notices')

local NONE, copy_with, pick_fields, find_item, filter_list, upsert_item =
  list.NONE, list.copy_with, list.pick_fields, list.find_item, list.filter_list, list.upsert_item

---How many bytes of live output a call keeps.
local LIVE_BYTES = 8192

local M = { handlers = {}, LIVE_BYTES = LIVE_BYTES }
local handlers = M.handlers

handlers['agent/toolInputDelta'] = function(state, p)
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

handlers['agent/toolOutputDelta'] = function(state, p)
  local _, item = find_item(state.items, 'tool', p.toolCallId)
  if not item or item.status ~= 'running' then
    return state
  end
  local output = (item.live or '') .. p.text
  if #output > LIVE_BYTES then
    output = output:sub(-LIVE_BYTES)
    output = output:sub((output:find('\n', 1, true) or 0) + 1)
  end
  return upsert_item(state, 'tool', p.toolCallId, { live = output })
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

handlers['agent/toolCall'] = function(state, p)
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

handlers['agent/approvalRequested'] = function(state, p)
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

handlers['agent/approvalResolved'] = function(state, p)
  state = copy_with(state, {
    approvals = filter_list(state.approvals, function(open)
      return open.approvalId ~= p.approvalId
    end),
  })
  local _, item = find_item(state.items, 'tool', p.toolCallId)
  if not item then
    return state
  end
  -- An allowed call may have to wait for earlier ones, and then needs no approval any more.
  local status = item.status == 'awaitingApproval' and 'pending' or item.status
  return upsert_item(state, 'tool', p.toolCallId, { approval = NONE, decision = p, status = status })
end

local function make_request_handler(kind, key)
  return function(state, p)
    state = upsert_item(state, kind, p[key], {
      request = p,
      turnId = p.turnId,
      parentToolCallId = p.parentToolCallId,
      resolved = NONE,
    })
    local _, item = find_item(state.items, kind, p[key])
    local inquiries = filter_list(state.inquiries, function(open)
      return open.id ~= item.id
    end)
    return copy_with(state, { inquiries = list.append_copy(inquiries, item) })
  end
end

local function make_resolution_handler(kind, key)
  return function(state, p)
    state = copy_with(state, {
      inquiries = filter_list(state.inquiries, function(open)
        return open.kind ~= kind or open.id ~= p[key]
      end),
    })
    if not find_item(state.items, kind, p[key]) then
      return state
    end
    return upsert_item(state, kind, p[key], { resolved = p })
  end
end

handlers['agent/limitRequested'] = make_request_handler('limit', 'limitId')
handlers['agent/limitResolved'] = make_resolution_handler('limit', 'limitId')
handlers['agent/questionRequested'] = make_request_handler('question', 'questionId')
handlers['agent/questionResolved'] = make_resolution_handler('question', 'questionId')

return M
