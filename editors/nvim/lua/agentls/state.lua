-- The state of a session as a function of its events: `reduce(state, event)` returns the next state.
--
-- Pure: it must not use the editor (not even `vim`), a clock, or randomness. It never changes a state: it copies what
-- an event affects and shares the rest. So a view compares identities to find what to redraw. It ignores unknown events
-- but counts them. A durable event replaces the deltas that it completes. state/model.lua declares the types.

local changes = require('agentls.state.changes')
local list = require('agentls.state.items')
local messages = require('agentls.state.messages')
local notices = require('agentls.state.notices')
local pages = require('agentls.state.pages')
local tools = require('agentls.state.tools')
local turns = require('agentls.state.turns')

local NONE, copy_with, upsert_item = list.NONE, list.copy_with, list.upsert_item

local M = {}

---How many bytes of live output a tool call keeps.
M.LIVE_BYTES = tools.LIVE_BYTES

---@param sessionId string
---@return agentls.State
function M.new(sessionId)
  return {
    sessionId = sessionId,
    items = {},
    approvals = {},
    inquiries = {},
    notices = {},
    hasEarlier = false,
  }
end

local handlers = {}
for _, part in ipairs({ turns, messages, tools, notices, changes }) do
  for method, handler in pairs(part.handlers) do
    handlers[method] = handler
  end
end

handlers['agent/plan'] = function(state, p)
  local id = p.turnId or 'plan'
  return upsert_item(state, 'plan', id, { items = p.items }, { turnId = p.turnId })
end

handlers['agent/usage'] = function(state, p)
  if p.parentToolCallId then
    -- A sub-agent adds to the session's cost, but has its own context.
    return copy_with(state, { costUsd = p.session and p.session.costUsd or state.costUsd })
  end
  return copy_with(state, {
    costUsd = p.session and p.session.costUsd or NONE,
    contextUsed = p.contextUsed,
    contextWindow = p.contextWindow,
  })
end

handlers['agent/warning'] = function(state, p)
  if not p.seq then
    return state
  end
  return upsert_item(state, 'warning', tostring(p.seq), {
    code = p.code,
    message = p.message,
    turnId = p.turnId,
    parentToolCallId = p.parentToolCallId,
  })
end

handlers['agent/sessionUpdated'] = function(state, p)
  local updated = list.pick_fields(p, { 'title', 'mode', 'model', 'effort' })
  if p.model then
    updated.switchedFrom = NONE
  end
  if p.queue then
    updated.queue = #p.queue.prompts > 0 and p.queue or NONE
  end
  return copy_with(state, updated)
end

handlers['agent/instructions'] = function(state, p)
  state = upsert_item(
    state,
    'instructions',
    tostring(p.seq),
    { files = p.files, leftOut = p.leftOut, turnId = p.turnId }
  )
  return copy_with(state, { instructions = p.files })
end

---A client event: the server is down or does not answer, for `reason`. Without `reason`, it answers again.
handlers['client/offline'] = function(state, p)
  return copy_with(state, { offline = p.reason or NONE })
end

---A client event: the prompts that were sent but are not in the chat yet.
handlers['client/unconfirmedPrompts'] = function(state, p)
  return copy_with(state, { unconfirmedPrompts = #p.text > 0 and p.text or NONE })
end

---Returns the state after `event`. An event that was already applied changes nothing. An event after a gap is skipped,
---and sets `missed`: the session must be loaded from `seq`.
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
      return state.missed == 'events' and state or copy_with(state, { missed = 'events' })
    end
  end
  local handler = handlers[event.method]
  local next_state = handler and handler(state, params) or state
  return seq and copy_with(next_state, { seq = seq }) or next_state
end

---Applies the result of `agent/loadSession` to `state`, which is new or the source of `afterSeq`. If the page does not
---continue `state`, the result starts from an empty state.
---@param state agentls.State
---@param result agentls.LoadSessionResult
---@return agentls.State
function M.load_page(state, result)
  return pages.load_page(M.reduce, M.new(state.sessionId), state, result)
end

---Inserts the items of an earlier page before those of `state`.
---@param state agentls.State
---@param result agentls.LoadSessionResult The page that ends where `state` begins.
---@return agentls.State
function M.prepend_page(state, result)
  return pages.prepend_page(M.reduce, M.new(state.sessionId), state, result)
end

return M
