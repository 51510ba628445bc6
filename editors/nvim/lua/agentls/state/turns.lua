-- Turns: where they begin and end, and what they leave behind.

local list = require('agentls.state.items')
local notices = require('agentls.state.notices')

local NONE, with, find, put = list.NONE, list.with, list.find, list.put
local resolved = notices.resolved

local M = { on = {} }
local on = M.on

on['agent/turnStarted'] = function(state, p)
  state = resolved(state, notices.ALL, true)
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
  state = resolved(state, notices.BY_END, true)
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

return M
