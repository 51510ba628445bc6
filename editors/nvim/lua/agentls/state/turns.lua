-- The start and the end of turns. Pure.

local list = require('agentls.state.items')
local notices = require('agentls.state.notices')

local NONE, copy_with, find_item, upsert_item = list.NONE, list.copy_with, list.find_item, list.upsert_item
local clear_kinds = notices.clear_kinds

local M = { handlers = {} }
local handlers = M.handlers

handlers['agent/turnStarted'] = function(state, p)
  state = clear_kinds(state, notices.ALL_KINDS, true)
  if state.resumable and find_item(state.items, 'turnEnd', state.resumable) then
    state = upsert_item(state, 'turnEnd', state.resumable, { superseded = true })
  end
  return copy_with(state, {
    running = p.turnId,
    startedAt = p.at,
    activity = 'thinking',
    compacting = p.by == 'compact' or nil,
    resumable = NONE,
    switchedFrom = NONE,
  })
end

handlers['agent/turnEnded'] = function(state, p)
  local compaction
  for _, old in ipairs(state.notices) do
    compaction = old.kind == 'compacted' and old.manual and old or compaction
  end
  state = clear_kinds(state, notices.ENDED_BY_TURN_END, true)
  -- An item that no durable event completed is void.
  local items = {}
  for _, item in ipairs(state.items) do
    local is_void = (item.kind == 'assistant' and item.open)
      or (item.kind == 'tool' and item.status == 'writing')
    if not is_void then
      items[#items + 1] = item.kind == 'tool' and item.live and copy_with(item, { live = NONE }) or item
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
    compacted = compaction and compaction.text or (state.compacting and not p.error and state.detail or nil),
  }
  local is_resumable = p.state == 'interrupted' or p.state == 'cancelled'
  return copy_with(state, {
    items = items,
    running = NONE,
    startedAt = NONE,
    activity = NONE,
    compacting = NONE,
    detail = NONE,
    resumable = is_resumable and p.turnId or NONE,
    switchedFrom = NONE,
    model = state.switchedFrom or state.model,
  })
end

return M
