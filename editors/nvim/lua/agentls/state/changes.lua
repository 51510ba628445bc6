-- What turns changed of files, and what of it was taken back.

local list = require('agentls.state.items')

local NONE, copy_with, upsert_item = list.NONE, list.copy_with, list.upsert_item

local M = { on = {} }
local on = M.on

---The items after `done`, a revert or a redo, was made at the place `at`. A revert of a turn takes back what stands of
---it and of all later turns; its redo makes that again, and nothing that another revert took back.
local function apply_revert(items, at, done)
  local first = 1
  for i = at - 1, 1, -1 do
    if items[i].turnId == done.ofTurnId then
      first = i
    end
  end
  local copy = items
  for i = first, at - 1 do
    local item = items[i]
    local changes
    if item.kind == 'changes' and done.standing == 'reverted' and item.standing ~= 'reverted' then
      changes = { standing = 'reverted', revertedWith = done.ofTurnId }
    elseif item.kind == 'changes' and done.standing == 'redone' and item.revertedWith == done.ofTurnId then
      changes = { standing = 'redone', revertedWith = NONE }
    end
    if changes then
      copy = copy == items and list.append_copy(items) or copy
      copy[i] = copy_with(item, changes)
    end
  end
  return copy
end

---The items as the reverts and redos among them leave the changes.
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

on['agent/turnDiff'] = function(state, p)
  local told = { files = p.files, unlisted = p.unlisted, partial = p.partial, standing = p.standing }
  if p.standing == 'made' then
    told.added, told.removed, told.turnId = 0, 0, p.ofTurnId
    for _, file in ipairs(p.files) do
      told.added, told.removed = told.added + file.added, told.removed + file.removed
    end
    return upsert_item(state, 'changes', p.ofTurnId, told)
  end
  local count = #p.files + (p.unlisted or 0)
  local what = p.standing == 'reverted' and 'taken back' or 'made again'
  told.text = ('%s: the changes of %s'):format(what, count == 1 and 'one file' or count .. ' files')
  told.ofTurnId = p.ofTurnId
  local items = upsert_item(state, 'note', 'reverted ' .. tostring(p.seq), told).items
  return copy_with(state, { items = apply_revert(items, #items, items[#items]) })
end

---The turn that a revert without further words means: the last one whose changes stand.
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

---The turn whose revert can be taken back: the last one, or that which took back what the turn `of` changed.
---@param state agentls.State
---@param of? string
---@return string?
function M.find_redoable_turn(state, of)
  for i = #state.items, 1, -1 do
    local item = state.items[i]
    if
      item.kind == 'changes'
      and item.revertedWith
      and (not of or item.id == of or item.revertedWith == of)
    then
      return item.revertedWith
    end
  end
end

---What a turn changed of files, when that is known.
---@param state agentls.State
---@param turn? string Absent: the last that changed any.
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
