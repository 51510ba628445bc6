-- Operations on the list of a session's items, and on immutable tables. Pure: no function changes its arguments.
-- The items of a sub-agent are below the call that delegated to it.

local M = {}

---A value that removes a field in `copy_with`.
M.NONE = {}
local NONE = M.NONE

---Returns a copy of `t` with `changes`. `NONE` removes a field.
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

---Returns the fields `names` of `params`.
function M.pick_fields(params, names)
  local fields = {}
  for _, name in ipairs(names) do
    fields[name] = params[name]
  end
  return fields
end

---Finds an item by kind and id.
---@return integer? at
---@return agentls.Item? item
function M.find_item(items, kind, id)
  -- From the end, because nearly always the last item changes.
  for i = #items, 1, -1 do
    if items[i].id == id and items[i].kind == kind then
      return i, items[i]
    end
  end
end
local find_item = M.find_item

---Returns the elements that `predicate` accepts, or the same list if it accepts all.
function M.filter_list(list, predicate)
  local result = {}
  for _, element in ipairs(list) do
    if predicate(element) then
      result[#result + 1] = element
    end
  end
  return #result == #list and list or result
end

---Returns a copy of a list with `element`, if not nil, at its end.
function M.append_copy(list, element)
  local copy = {}
  for i, old in ipairs(list) do
    copy[i] = old
  end
  copy[#copy + 1] = element
  return copy
end

---Returns the index for the next item of a sub-agent of the call `parent`: after all its items.
local function find_insert_position(items, parent)
  local last = find_item(items, 'tool', parent)
  if not last then
    return #items + 1
  end
  local descendants = { [parent] = true }
  while items[last + 1] and descendants[items[last + 1].parentToolCallId or ''] do
    last = last + 1
    if items[last].kind == 'tool' then
      descendants[items[last].id] = true
    end
  end
  return last + 1
end

---Returns a copy of a list with `item` at its end, or below the call of its sub-agent.
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

---Returns the state with `changes` applied to the item `kind`/`id`. Creates a missing item from `initial`.
function M.upsert_item(state, kind, id, changes, initial)
  local at, item = find_item(state.items, kind, id)
  if at then
    local items = {}
    for i = 1, #state.items do
      items[i] = state.items[i]
    end
    items[at] = copy_with(item, changes)
    return copy_with(state, { items = items })
  end
  local new = copy_with(initial or {}, changes)
  new.kind, new.id = kind, id
  return copy_with(state, { items = M.insert_item(state.items, new) })
end

return M
