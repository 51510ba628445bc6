-- Temporary notices: retries, waits, model switches, circuit breakers. A notice stays until its cause is resolved. The
-- parent of a sub-agent's notice is the call that delegated to it. Pure.

local list = require('agentls.state.items')
local format = require('agentls.format')

local NONE, copy_with, filter_list, upsert_item =
  list.NONE, list.copy_with, list.filter_list, list.upsert_item

local M = {}

---The kinds that end with the first delta from the model.
M.ENDED_BY_DELTA = { retry = true, wait = true, retracted = true, transition = true }
---The kinds that end with a complete message.
M.ENDED_BY_MESSAGE = { retry = true, wait = true, retracted = true, transition = true, compacted = true }
---The kinds that end with the turn. An open circuit breaker outlives it.
M.ENDED_BY_TURN_END =
  { retry = true, wait = true, retracted = true, transition = true, compacted = true, switched = true }
M.ALL_KINDS = {
  retry = true,
  wait = true,
  retracted = true,
  transition = true,
  compacted = true,
  switched = true,
  circuit = true,
}

---Returns the state with a notice. It replaces an older one with the same key.
function M.add_notice(state, new)
  local notices = filter_list(state.notices, function(old)
    return old.key ~= new.key
  end)
  return copy_with(state, { notices = list.append_copy(notices, new) })
end
local add_notice = M.add_notice

local function remove_notices(state, matches)
  local notices = filter_list(state.notices, function(old)
    return not matches(old)
  end)
  return notices == state.notices and state or copy_with(state, { notices = notices })
end

---Returns the state without notices of these kinds. Keeps those of sub-agents unless `include_subagents` is set.
function M.clear_kinds(state, kinds, include_subagents)
  return remove_notices(state, function(old)
    return kinds[old.kind] and (include_subagents or not old.parent)
  end)
end
local clear_kinds = M.clear_kinds

---Returns the state without the notices of a call's sub-agents that were resolved by `at`, in ms since the Unix epoch.
---The event does not say which sub-agent continued. So a notice that ends later stays; it may be about another one.
---@param at? integer Default: remove all, because all sub-agents have ended.
function M.clear_subagent_notices(state, call, at)
  return remove_notices(state, function(old)
    return old.parent == call and (not at or (old.endsAt or 0) <= at)
  end)
end

---Returns the same key for all notices of the session, and one key for the sub-agents of each call.
local function build_key(name, parent)
  return parent and name .. ' of ' .. parent or name
end

---Describes an error in one short line.
local function describe_error(error_data)
  local reason = error_data.cause or error_data.message or 'the call failed'
  local status = error_data.status and (' (%d)'):format(error_data.status) or ''
  return reason:match('[^\n]*'):sub(1, 160) .. status
end

---Describes a switch of the model.
local function describe_switch(p)
  local model, reason = tostring(p.to), p.why
  -- Not every reason from the server names the new model.
  local name = model:gsub('^.*/', '')
  if not reason then
    return 'switched to ' .. model
  end
  return reason:find(name, 1, true) and reason or ('%s — %s answers'):format(reason, model)
end

M.handlers = {}
local handlers = M.handlers

handlers['agent/transition'] = function(state, p)
  local parent = p.parentToolCallId
  if p.kind == 'terminal' then
    return parent and state or copy_with(state, { detail = p.detail })
  end
  local text = p.kind == 'continue' and format.TRANSITION_TEXTS[p.reason]
  if not text then
    return state
  end
  local key = build_key('transition', parent)
  return add_notice(state, { key = key, kind = 'transition', text = text, parent = parent })
end

handlers['agent/retry'] = function(state, p)
  local parent = p.parentToolCallId
  state = parent and M.clear_subagent_notices(state, parent)
    or clear_kinds(state, { wait = true, retry = true })
  return add_notice(state, {
    key = build_key('retry', parent),
    kind = 'retry',
    text = ('%s: %s — try %d of %d'):format(
      p.provider,
      describe_error(p.error or {}),
      p.attempt + 1,
      p.maxRetries + 1
    ),
    endsAt = p.resumeAt,
    parent = parent,
  })
end

handlers['agent/wait'] = function(state, p)
  return add_notice(state, {
    key = build_key('wait', p.parentToolCallId),
    kind = 'wait',
    text = 'waiting: ' .. p.why,
    endsAt = p['until'],
    parent = p.parentToolCallId,
  })
end

handlers['agent/modelSwitched'] = function(state, p)
  local parent = p.parentToolCallId
  if parent then
    -- A sub-agent has its own model.
    local item = { text = describe_switch(p), turnId = p.turnId, parentToolCallId = parent }
    return upsert_item(M.clear_subagent_notices(state, parent), 'note', 'switched ' .. tostring(p.seq), item)
  end
  local requested_model = state.switchedFrom or p.from or state.model
  if p.to == requested_model then
    return copy_with(clear_kinds(state, { switched = true }), { model = p.to, switchedFrom = NONE })
  end
  state = add_notice(
    clear_kinds(state, { retry = true }),
    { key = 'switched', kind = 'switched', text = describe_switch(p) }
  )
  return copy_with(state, { model = p.to, switchedFrom = requested_model })
end

handlers['agent/circuit'] = function(state, p)
  local key = ('circuit %s %s'):format(p.subject, p.name)
  if p.state == 'closed' then
    return remove_notices(state, function(old)
      return old.key == key
    end)
  end
  return add_notice(state, {
    key = key,
    kind = 'circuit',
    text = p.state == 'halfOpen' and p.name .. ': testing with one call'
      or p.name .. ' failed too often and is paused for a while',
    endsAt = p['until'],
    subject = p.subject,
    name = p.name,
  })
end

handlers['agent/compacted'] = function(state, p)
  local text = ('compacted: %s → %s tokens'):format(
    format.token_count(p.tokensBefore or 0),
    format.token_count(p.tokensAfter or 0)
  )
  -- A sub-agent has its own history.
  if p.parentToolCallId then
    return state
  end
  return add_notice(
    state,
    { key = 'compacted', kind = 'compacted', text = text, manual = p.trigger == 'manual' }
  )
end

return M
