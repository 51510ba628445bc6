-- The file changes of turns, and which of them are reverted. Pure.

local list = require('agentls.state.items')

local NONE, copy_with, upsert_item = list.NONE, list.copy_with, list.upsert_item

local M = { handlers = {} }
local handlers = M.handlers

---Returns the items after `revert`, a revert or redo at index `at`. Reverting a turn also reverts all later turns that
---are not reverted yet. Its redo reapplies exactly those, not what another revert affected.
local function apply_revert(items, at, revert)
  local first = 1
  for i = at - 1, 1, -1 do
    if items[i].turnId == revert.ofTurnId then
      first = i
    end
  end
  local copy = items
  for i = first, at - 1 do
    local item = items[i]
    local changes
    if item.kind == 'changes' and revert.standing == 'reverted' and item.standing ~= 'reverted' then
      changes = { standing = 'reverted', revertedWith = revert.ofTurnId }
    elseif
      item.kind == 'changes'
      and revert.standing == 'redone'
      and item.revertedWith == revert.ofTurnId
    then
      changes = { standing = 'redone', revertedWith = NONE }
    end
    if changes then
      copy = copy == items and list.append_copy(items) or copy
      copy[i] = copy_with(item, changes)
    end
  end
  return copy
end

---Returns the items with all reverts and redos among them applied to the changes.
---@param items agentls.Item[]
---@return agentls.Item[]
function M.apply_all_reverts(items)
  for i, item in ipairs(items) do
    if item.kind == 'note' and item.ofTurnId then
      items = apply_revert(items, i, item)
    end
  end
  return items
end

handlers['agent/turnDiff'] = function(state, p)
  local changes = { files = p.files, unlisted = p.unlisted, partial = p.partial, standing = p.standing }
  if p.standing == 'made' then
    changes.added, changes.removed, changes.turnId = 0, 0, p.ofTurnId
    for _, file in ipairs(p.files) do
      changes.added, changes.removed = changes.added + file.added, changes.removed + file.removed
    end
    return upsert_item(state, 'changes', p.ofTurnId, changes)
  end
  local count = #p.files + (p.unlisted or 0)
  local action = p.standing == 'reverted' and 'reverted' or 'reapplied'
  changes.text = ('%s: the changes of %s'):format(action, count == 1 and 'one file' or count .. ' files')
  changes.ofTurnId = p.ofTurnId
  local items = upsert_item(state, 'note', 'reverted ' .. tostring(p.seq), changes).items
  return copy_with(state, { items = apply_revert(items, #items, items[#items]) })
end

---Returns the turn that a revert affects by default: the last one with changes that are not reverted.
---@param state agentls.State
---@return string?
function M.find_revertible_turn(state)
  for i = #state.items, 1, -1 do
    local item = state.items[i]
    if item.kind == 'changes' and item.standing ~= 'reverted' then
      return item.id
    end
  end
end

---Returns the turn whose revert can be redone: the last one, or the one whose revert affected `turn`.
---@param state agentls.State
---@param turn? string
---@return string?
function M.find_redoable_turn(state, turn)
  for i = #state.items, 1, -1 do
    local item = state.items[i]
    if
      item.kind == 'changes'
      and item.revertedWith
      and (not turn or item.id == turn or item.revertedWith == turn)
    then
      return item.revertedWith
    end
  end
end

---Returns the file changes of a turn, or nil.
---@param state agentls.State
---@param turn? string Default: the last turn with changes.
---@return agentls.Item.changes?
function M.find_changes(state, turn)
  for i = #state.items, 1, -1 do
    local item = state.items[i]
    if item.kind == 'changes' and (not turn or item.id == turn) then
      return item --[[@as agentls.Item.changes]]
    end
  end
end

return M
