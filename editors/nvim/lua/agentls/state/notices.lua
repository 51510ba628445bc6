-- What passes: retries, waits, switches, circuits. Each notice is there until what it tells of is over. Those of a
-- sub-agent stand at the call that delegated to it.

local list = require('agentls.state.items')
local words = require('agentls.text')

local NONE, with, filter, find, put = list.NONE, list.with, list.filter, list.find, list.put

local M = {}

---What is over once the model speaks.
M.BY_WORDS = { retry = true, wait = true, retracted = true, transition = true }
---What is over once a message is whole.
M.BY_MESSAGE = { retry = true, wait = true, retracted = true, transition = true, compacted = true }
---What is over with the turn. An open circuit is not.
M.BY_END =
  { retry = true, wait = true, retracted = true, transition = true, compacted = true, switched = true }
M.ALL = {
  retry = true,
  wait = true,
  retracted = true,
  transition = true,
  compacted = true,
  switched = true,
  circuit = true,
}

local function added(notices, new)
  return list.added(
    filter(notices, function(old)
      return old.key ~= new.key
    end),
    new
  )
end

---The state with a notice, in the place of an older one of its key.
function M.notice(state, new)
  return with(state, { notices = added(state.notices, new) })
end
local notice = M.notice

---Takes away the notices of these kinds.
function M.resolved(state, kinds)
  local notices = filter(state.notices, function(old)
    return not kinds[old.kind]
  end)
  return notices == state.notices and state or with(state, { notices = notices })
end
local resolved = M.resolved

---What a call failed of, in one line of bearable length.
local function why_of(failed)
  local why = failed.cause or failed.message or 'the call failed'
  local status = failed.status and (' (%d)'):format(failed.status) or ''
  return why:match('[^\n]*'):sub(1, 160) .. status
end

local function retry_notice(p)
  return {
    key = 'retry',
    kind = 'retry',
    text = ('%s: %s — try %d of %d'):format(p.provider, why_of(p.error or {}), p.attempt + 1, p.maxRetries + 1),
    till = p.resumeAt,
  }
end

local function wait_notice(p)
  return { key = 'wait', kind = 'wait', text = 'waiting: ' .. p.why, till = p['until'] }
end

---Who answers from now on, and why.
local function switched_notice(p)
  local to, why = tostring(p.to), p.why
  -- Some of the server's lines name the model, others tell only what became of the one before.
  local name = to:gsub('^.*/', '')
  if not why then
    why = 'switched to ' .. to
  elseif not why:find(name, 1, true) then
    why = ('%s — %s answers'):format(why, to)
  end
  return { key = 'switched', kind = 'switched', text = why }
end

local function circuit_notice(p)
  return {
    key = ('circuit %s %s'):format(p.subject, p.name),
    kind = 'circuit',
    text = p.state == 'halfOpen' and p.name .. ': one call tries whether it works again'
      or p.name .. ' failed too often and is left alone for a while',
    till = p['until'],
    subject = p.subject,
    name = p.name,
  }
end

M.on = {}
local on = M.on

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
  return notice(resolved(state, { wait = true, retry = true }), retry_notice(p))
end

on['agent/wait'] = function(state, p)
  return notice(state, wait_notice(p))
end

on['agent/modelSwitched'] = function(state, p)
  local meant = state.switchedFrom or p.from or state.model
  if p.to == meant then
    return with(resolved(state, { switched = true }), { model = p.to, switchedFrom = NONE })
  end
  state = notice(resolved(state, { retry = true }), switched_notice(p))
  return with(state, { model = p.to, switchedFrom = meant })
end

on['agent/circuit'] = function(state, p)
  local new = circuit_notice(p)
  if p.state == 'closed' then
    return with(state, {
      notices = filter(state.notices, function(old)
        return old.key ~= new.key
      end),
    })
  end
  return notice(state, new)
end

on['agent/compacted'] = function(state, p)
  local text = ('compacted: %s → %s tokens'):format(
    words.tokens(p.tokensBefore or 0),
    words.tokens(p.tokensAfter or 0)
  )
  return notice(state, { key = 'compacted', kind = 'compacted', text = text, manual = p.trigger == 'manual' })
end

---What these say of a sub-agent: at the call that delegated to it, and nothing of it is the session's.
M.nested = {}
local nested = M.nested

---Adds `new` to the notices of the call that `p` belongs to.
local function at_call(state, p, new)
  local _, call = find(state.items, 'tool', p.parentToolCallId)
  if not call then
    return state
  end
  return put(state, 'tool', call.id, { notices = added(call.notices or {}, new) })
end

nested['agent/retry'] = function(state, p)
  return at_call(state, p, retry_notice(p))
end

nested['agent/wait'] = function(state, p)
  return at_call(state, p, wait_notice(p))
end

nested['agent/modelSwitched'] = function(state, p)
  return at_call(state, p, switched_notice(p))
end

nested['agent/circuit'] = function(state, p)
  local new = circuit_notice(p)
  if p.state ~= 'closed' then
    return at_call(state, p, new)
  end
  local _, call = find(state.items, 'tool', p.parentToolCallId)
  if not call or not call.notices then
    return state
  end
  return put(state, 'tool', call.id, {
    notices = filter(call.notices, function(old)
      return old.key ~= new.key
    end),
  })
end

nested['agent/usage'] = function(state, p)
  return with(state, { costUsd = p.session and p.session.costUsd or state.costUsd })
end

---The state without what a sub-agent waited for, now that it does something at `at` (ms since the Unix epoch).
function M.went_on(state, parent, at)
  local _, call = find(state.items, 'tool', parent)
  if not call or not call.notices then
    return state
  end
  local left = filter(call.notices, function(old)
    return old.kind == 'circuit' or old.kind == 'switched' or (old.till or 0) > (at or math.huge)
  end)
  return left == call.notices and state or put(state, 'tool', parent, { notices = #left > 0 and left or NONE })
end

return M
