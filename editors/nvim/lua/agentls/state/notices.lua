-- What passes: retries, waits, switches, circuits. Each notice is there until what it tells of is over. Those of a
-- sub-agent have the call that delegated to it for a parent.

local list = require('agentls.state.items')
local format = require('agentls.format')

local NONE, copy_with, filter_list, upsert_item =
  list.NONE, list.copy_with, list.filter_list, list.upsert_item

local M = {}

---What is over once the model speaks.
M.ENDED_BY_DELTA = { retry = true, wait = true, retracted = true, transition = true }
---What is over once a message is whole.
M.ENDED_BY_MESSAGE = { retry = true, wait = true, retracted = true, transition = true, compacted = true }
---What is over with the turn. An open circuit is not.
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

---The state with a notice, in the place of an older one of its key.
function M.add_notice(state, new)
  local notices = filter_list(state.notices, function(old)
    return old.key ~= new.key
  end)
  return copy_with(state, { notices = list.append_copy(notices, new) })
end
local add_notice = M.add_notice

local function remove_notices(state, gone)
  local notices = filter_list(state.notices, function(old)
    return not gone(old)
  end)
  return notices == state.notices and state or copy_with(state, { notices = notices })
end

---The state without the notices of these kinds; those of sub-agents go only with `all`.
function M.clear_kinds(state, kinds, all)
  return remove_notices(state, function(old)
    return kinds[old.kind] and (all or not old.parent)
  end)
end
local clear_kinds = M.clear_kinds

---The state without what the sub-agents of a call wait for: they have ended, or one went on at `at` (ms since the Unix
---epoch). Which one is not told, so what ends later than that stays: another may wait for it.
---@param at? integer Absent: all have ended.
function M.clear_subagent_notices(state, call, at)
  return remove_notices(state, function(old)
    return old.parent == call and (not at or (old.till or 0) <= at)
  end)
end

---One key for the session, and one for the sub-agents of each call.
local function build_key(name, parent)
  return parent and name .. ' of ' .. parent or name
end

---What a call failed of, in one line of bearable length.
local function describe_error(failed)
  local why = failed.cause or failed.message or 'the call failed'
  local status = failed.status and (' (%d)'):format(failed.status) or ''
  return why:match('[^\n]*'):sub(1, 160) .. status
end

---Who answers from now on, and why.
local function describe_switch(p)
  local to, why = tostring(p.to), p.why
  -- Some of the server's lines name the model, others tell only what became of the one before.
  local name = to:gsub('^.*/', '')
  if not why then
    return 'switched to ' .. to
  end
  return why:find(name, 1, true) and why or ('%s — %s answers'):format(why, to)
end

M.on = {}
local on = M.on

on['agent/transition'] = function(state, p)
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

on['agent/retry'] = function(state, p)
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
    till = p.resumeAt,
    parent = parent,
  })
end

on['agent/wait'] = function(state, p)
  return add_notice(state, {
    key = build_key('wait', p.parentToolCallId),
    kind = 'wait',
    text = 'waiting: ' .. p.why,
    till = p['until'],
    parent = p.parentToolCallId,
  })
end

on['agent/modelSwitched'] = function(state, p)
  local parent = p.parentToolCallId
  if parent then
    -- A sub-agent's model is not the session's.
    local note = { text = describe_switch(p), turnId = p.turnId, parentToolCallId = parent }
    return upsert_item(M.clear_subagent_notices(state, parent), 'note', 'switched ' .. tostring(p.seq), note)
  end
  local meant = state.switchedFrom or p.from or state.model
  if p.to == meant then
    return copy_with(clear_kinds(state, { switched = true }), { model = p.to, switchedFrom = NONE })
  end
  state = add_notice(
    clear_kinds(state, { retry = true }),
    { key = 'switched', kind = 'switched', text = describe_switch(p) }
  )
  return copy_with(state, { model = p.to, switchedFrom = meant })
end

on['agent/circuit'] = function(state, p)
  local key = ('circuit %s %s'):format(p.subject, p.name)
  if p.state == 'closed' then
    return remove_notices(state, function(old)
      return old.key == key
    end)
  end
  return add_notice(state, {
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
    format.token_count(p.tokensBefore or 0),
    format.token_count(p.tokensAfter or 0)
  )
  -- That of a sub-agent is not the session's history.
  if p.parentToolCallId then
    return state
  end
  return add_notice(
    state,
    { key = 'compacted', kind = 'compacted', text = text, manual = p.trigger == 'manual' }
  )
end

return M
