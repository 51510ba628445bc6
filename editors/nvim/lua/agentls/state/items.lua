-- The items of a session as a list: found by kind and id, replaced, added, left out. A list is never changed in place.
-- What belongs to a sub-agent stands under the call that delegated to it.

local M = {}

---A value that takes a field away.
M.NONE = {}
local NONE = M.NONE

---A copy of `t` with `changes`; `NONE` takes a field away.
---@generic T: table
---@param t T
---@param changes table
---@return T
function M.copy_with(t, changes)
  local copy = {}
  for key, value in pairs(t) do
    copy[key] = value
  end
  for key, value in pairs(changes) do
    if value == NONE then
      copy[key] = nil
    else
      copy[key] = value
    end
  end
  return copy
end
local copy_with = M.copy_with

---What of `params` is set among `names`.
function M.pick_fields(params, names)
  local picked = {}
  for _, name in ipairs(names) do
    picked[name] = params[name]
  end
  return picked
end

---The item of a kind and id, and where it stands.
---@return integer? at
---@return agentls.Item? item
function M.find_item(items, kind, id)
  -- From the end: what changes is nearly always the last.
  for i = #items, 1, -1 do
    if items[i].id == id and items[i].kind == kind then
      return i, items[i]
    end
  end
end
local find_item = M.find_item

---The elements that are kept; the same list when all are.
function M.filter_list(list, keep)
  local kept = {}
  for _, element in ipairs(list) do
    if keep(element) then
      kept[#kept + 1] = element
    end
  end
  return #kept == #list and list or kept
end

---A copy of a list with `element`, if there is one, at its end.
function M.append_copy(list, element)
  local copy = {}
  for i, old in ipairs(list) do
    copy[i] = old
  end
  copy[#copy + 1] = element
  return copy
end

---Where what a sub-agent of the call `parent` did is put: after all that it did before.
local function find_insert_position(items, parent)
  local last = find_item(items, 'tool', parent)
  if not last then
    return #items + 1
  end
  local below = { [parent] = true }
  while items[last + 1] and below[items[last + 1].parentToolCallId or ''] do
    last = last + 1
    if items[last].kind == 'tool' then
      below[items[last].id] = true
    end
  end
  return last + 1
end

---A copy of a list with `item` in it: at its end, or under the call that its sub-agent was made by.
function M.insert_item(items, item)
  local at = item.parentToolCallId and find_insert_position(items, item.parentToolCallId) or #items + 1
  local copy = {}
  for i = 1, at - 1 do
    copy[i] = items[i]
  end
  copy[at] = item
  for i = at, #items do
    copy[i + 1] = items[i]
  end
  return copy
end

---The state with the item `kind`/`id` changed; it is made from `fresh` and put in its place when there is none.
function M.upsert_item(state, kind, id, changes, fresh)
  local at, item = find_item(state.items, kind, id)
  if at then
    local items = {}
    for i = 1, #state.items do
      items[i] = state.items[i]
    end
    items[at] = copy_with(item, changes)
    return copy_with(state, { items = items })
  end
  local new = copy_with(fresh or {}, changes)
  new.kind, new.id = kind, id
  return copy_with(state, { items = M.insert_item(state.items, new) })
end

return M
