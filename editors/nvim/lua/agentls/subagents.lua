-- Computes where the items of sub-agents belong under the calls that delegated to them. Pure: it must not use the
-- editor.

local M = {}

---The position of an item among calls and their sub-agents.
---@class agentls.SubagentPlacement
---@field depth integer How many calls the item is nested under.
---@field level integer How many of these calls are folded because they have ended.
---@field calls integer How many calls its own sub-agents made in total.
---@field notices agentls.Notice[] What its own sub-agents wait for.
---@field key string Identifies this placement, to compare it with another.

---@class agentls.SubagentCache
---@field items? agentls.Item[]
---@field notices? agentls.Notice[]
---@field placements? table<integer, agentls.SubagentPlacement>

local FINAL = { completed = true, failed = true, denied = true, cancelled = true }

---Whether two lists of items have the same placements: only assistant text differs.
local function has_same_structure(items, other_items)
  if #items ~= #other_items then
    return false
  end
  for i, item in ipairs(items) do
    local other = other_items[i]
    if item ~= other and (item.kind ~= 'assistant' or other.kind ~= 'assistant') then
      return false
    end
  end
  return true
end

---Returns `compute_placements` of a state, or the previous result if no placement changed. Each frame calls this.
---@param cache agentls.SubagentCache Empty at first; updated in place.
---@param items agentls.Item[]
---@param notices agentls.Notice[]
---@return table<integer, agentls.SubagentPlacement> placements
function M.update_placements(cache, items, notices)
  if not cache.placements or cache.notices ~= notices or not has_same_structure(cache.items, items) then
    cache.placements = M.compute_placements(items, notices)
  end
  cache.items, cache.notices = items, notices
  return cache.placements
end

---Computes the placements of all items that belong to a sub-agent or have one, by index in `items`.
---@param items agentls.Item[]
---@param notices agentls.Notice[]
---@return table<integer, agentls.SubagentPlacement> placements
function M.compute_placements(items, notices)
  local placements, index = {}, {}
  local function ensure_placement(at)
    placements[at] = placements[at] or { depth = 0, level = 0, calls = 0, notices = {} }
    return placements[at]
  end
  for at, item in ipairs(items) do
    local parent = item.parentToolCallId
    if item.kind == 'tool' then
      index[item.id] = at
    end
    if parent then
      local placement, parent_index = ensure_placement(at), index[parent]
      -- The call may be on an earlier page.
      placement.depth = 1
      if parent_index and parent_index ~= at then
        local parent_placement = ensure_placement(parent_index)
        placement.depth = parent_placement.depth + 1
        placement.level = parent_placement.level + (FINAL[items[parent_index].status] and 1 or 0)
      end
      while parent_index and parent_index ~= at and item.kind == 'tool' do
        placements[parent_index].calls = placements[parent_index].calls + 1
        parent_index = index[items[parent_index].parentToolCallId or '']
      end
    end
  end
  for _, notice in ipairs(notices) do
    local at = notice.parent and index[notice.parent]
    if at then
      table.insert(ensure_placement(at).notices, notice)
    end
  end
  for _, placement in pairs(placements) do
    local texts = {}
    for i, notice in ipairs(placement.notices) do
      texts[i] = notice.text
    end
    placement.key = ('%d %d %d %s'):format(
      placement.depth,
      placement.level,
      placement.calls,
      table.concat(texts, '\n')
    )
  end
  return placements
end

return M
