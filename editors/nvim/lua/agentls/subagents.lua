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
local function has_same_structure(items, others)
  if #items ~= #others then
    return false
  end
  for i, item in ipairs(items) do
    local other = others[i]
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
      local own, above = ensure_placement(at), index[parent]
      -- The call may be on an earlier page.
      own.depth = 1
      if above and above ~= at then
        local outer = ensure_placement(above)
        own.depth = outer.depth + 1
        own.level = outer.level + (FINAL[items[above].status] and 1 or 0)
      end
      while above and above ~= at and item.kind == 'tool' do
        placements[above].calls = placements[above].calls + 1
        above = index[items[above].parentToolCallId or '']
      end
    end
  end
  for _, notice in ipairs(notices) do
    local at = notice.parent and index[notice.parent]
    if at then
      table.insert(ensure_placement(at).notices, notice)
    end
  end
  for _, own in pairs(placements) do
    local texts = {}
    for i, notice in ipairs(own.notices) do
      texts[i] = notice.text
    end
    own.key = ('%d %d %d %s'):format(own.depth, own.level, own.calls, table.concat(texts, '\n'))
  end
  return placements
end

return M
