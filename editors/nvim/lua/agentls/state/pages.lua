-- Applies pages of a session's history to a state: the newest page on top, earlier pages before it. Pure.

local changes = require('agentls.state.changes')
local list = require('agentls.state.items')

local NONE, copy_with, find_item, upsert_item = list.NONE, list.copy_with, list.find_item, list.upsert_item

local M = {}

---Applies the message in progress from `agent/loadSession`.
local function apply_partial(state, partial)
  local _, item = find_item(state.items, 'assistant', partial.messageId)
  local text = item and item.text or ''
  if item and not item.open then
    return state
  elseif partial.offset <= #text then
    text = text:sub(1, partial.offset) .. partial.text
  elseif partial.offset > 0 then
    return state
  end
  return upsert_item(state, 'assistant', partial.messageId, {
    text = text,
    reasoning = partial.reasoning or (item and item.reasoning) or '',
    open = true,
    stale = NONE,
  }, { turnId = state.running })
end

---See `load_page` in ../state.lua.
---@param reduce fun(state: agentls.State, event: agentls.Event): agentls.State
---@param empty_state agentls.State An empty state.
---@param state agentls.State
---@param result agentls.LoadSessionResult
---@return agentls.State
function M.load_page(reduce, empty_state, state, result)
  local first = result.events[1]
  local is_continuation = state.seq and (not first or first.params.seq <= state.seq + 1)
  local loaded = is_continuation and copy_with(state, { missed = NONE, offline = NONE })
    or copy_with(
      empty_state,
      { hasEarlier = result.hasEarlier or false, firstSeq = first and first.params.seq }
    )
  for _, event in ipairs(result.events) do
    loaded = reduce(loaded, event)
  end
  for _, approval in ipairs(result.openApprovals or {}) do
    -- The request may be older than the page.
    local question = copy_with(approval, {})
    question.seq = nil
    loaded = reduce(loaded, { method = 'agent/approvalRequested', params = question })
  end
  for method, open in pairs({
    ['agent/limitRequested'] = result.openLimits or {},
    ['agent/questionRequested'] = result.openQuestions or {},
  }) do
    for _, params in ipairs(open) do
      local question = copy_with(params, {})
      question.seq = nil
      loaded = reduce(loaded, { method = method, params = question })
    end
  end
  local current = result.state or {}
  if result.partial then
    loaded = apply_partial(loaded, result.partial)
  end
  return copy_with(loaded, {
    seq = result.seq,
    title = current.title,
    cwd = current.cwd,
    mode = current.mode,
    model = loaded.switchedFrom and loaded.model or current.model,
    effort = current.effort,
    costUsd = current.costUsd,
    running = current.runningTurnId or NONE,
    resumable = current.resumableTurnId or NONE,
    queue = current.queue or NONE,
    unconfirmedPrompts = state.unconfirmedPrompts or NONE,
    -- The event may be older than the page.
    instructions = result.instructions or loaded.instructions,
  })
end

---Inserts the items of an earlier page before those of `state`.
---@param reduce fun(state: agentls.State, event: agentls.Event): agentls.State
---@param empty_state agentls.State An empty state.
---@param state agentls.State
---@param result agentls.LoadSessionResult The page that ends where `state` begins.
---@return agentls.State
function M.prepend_page(reduce, empty_state, state, result)
  local earlier = empty_state
  for _, event in ipairs(result.events) do
    earlier = reduce(earlier, event)
  end
  local items_by_key = {}
  for _, item in ipairs(state.items) do
    items_by_key[item.kind .. ' ' .. item.id] = item
  end
  local items, placed_keys = {}, {}
  for _, item in ipairs(earlier.items) do
    local key = item.kind .. ' ' .. item.id
    -- Each page has a part of an item that starts on the earlier one and ends on the later one.
    items[#items + 1] = items_by_key[key] and copy_with(item, items_by_key[key]) or item
    placed_keys[key] = true
  end
  for _, item in ipairs(state.items) do
    local is_placed = placed_keys[item.kind .. ' ' .. item.id]
    if not is_placed and item.parentToolCallId then
      items = list.insert_item(items, item)
    elseif not is_placed then
      items[#items + 1] = item
    end
  end
  local first = result.events[1]
  return copy_with(state, {
    items = changes.apply_all_reverts(items),
    instructions = state.instructions or earlier.instructions,
    hasEarlier = result.hasEarlier or false,
    firstSeq = first and first.params.seq or state.firstSeq,
  })
end

return M
