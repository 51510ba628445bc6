-- Sub-agents: how deep what is of them lies under the calls that delegated to them. Pure: no editor.

local M = {}

---How an item lies among others.
---@class agentls.Nest
---@field depth integer How many calls it lies under.
---@field level integer How many of these are folded, because they are over.
---@field calls integer How many calls its own sub-agents made, in all.
---@field notices agentls.Notice[] What its own sub-agents wait for.
---@field key string What tells it from another.

local FINAL = { completed = true, failed = true, denied = true, cancelled = true }

---Whether two lists of items lie alike: nothing but words of the agent's changed.
local function alike(items, others)
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

---What `of` gives for a state, the same as before where nothing lies otherwise. It is asked for at every frame.
---@param known { items?: agentls.Item[], notices?: agentls.Notice[], nests?: table<integer, agentls.Nest> } Is kept.
---@param items agentls.Item[]
---@param notices agentls.Notice[]
---@return table<integer, agentls.Nest>
function M.again(known, items, notices)
  if not known.nests or known.notices ~= notices or not alike(known.items, items) then
    known.nests = M.of(items, notices)
  end
  known.items, known.notices = items, notices
  return known.nests
end

---How the items lie that are of sub-agents or have some, by their places in `items`; nil for all others.
---@param items agentls.Item[]
---@param notices agentls.Notice[]
---@return table<integer, agentls.Nest>
function M.of(items, notices)
  local nests, place = {}, {}
  local function nest(at)
    nests[at] = nests[at] or { depth = 0, level = 0, calls = 0, notices = {} }
    return nests[at]
  end
  for at, item in ipairs(items) do
    local parent = item.parentToolCallId
    if item.kind == 'tool' then
      place[item.id] = at
    end
    if parent then
      local mine, above = nest(at), place[parent]
      -- The call may stand in an earlier page.
      mine.depth = 1
      if above and above ~= at then
        local outer = nest(above)
        mine.depth = outer.depth + 1
        mine.level = outer.level + (FINAL[items[above].status] and 1 or 0)
      end
      while above and above ~= at and item.kind == 'tool' do
        nests[above].calls = nests[above].calls + 1
        above = place[items[above].parentToolCallId or '']
      end
    end
  end
  for _, notice in ipairs(notices) do
    local at = notice.parent and place[notice.parent]
    if at then
      table.insert(nest(at).notices, notice)
    end
  end
  for _, mine in pairs(nests) do
    local texts = {}
    for i, notice in ipairs(mine.notices) do
      texts[i] = notice.text
    end
    mine.key = ('%d %d %d %s'):format(mine.depth, mine.level, mine.calls, table.concat(texts, '\n'))
  end
  return nests
end

return M
