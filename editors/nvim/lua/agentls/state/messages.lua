-- Messages of the user and of the model: while they stream, and when they are complete. Pure.

local list = require('agentls.state.items')
local notices = require('agentls.state.notices')

local NONE, copy_with, find_item, filter_list, upsert_item =
  list.NONE, list.copy_with, list.find_item, list.filter_list, list.upsert_item
local clear_kinds = notices.clear_kinds

local M = { handlers = {} }
local handlers = M.handlers

---@return string text
---@return boolean has_gap Whether text before `offset` is missing.
local function append_at_offset(text, offset, delta)
  local length = #text
  if offset > length then
    return text, true
  elseif offset + #delta <= length then
    return text, false
  end
  return text .. delta:sub(length - offset + 1), false
end

local NEW_ASSISTANT = { text = '', reasoning = '', open = true }

local function make_delta_handler(field)
  return function(state, p)
    state = clear_kinds(state, notices.ENDED_BY_DELTA)
    local _, item = find_item(state.items, 'assistant', p.messageId)
    if item and not item.open then
      return state
    end
    local text, gap = append_at_offset(item and item[field] or '', p.offset, p.text)
    local changes = { [field] = text, stale = gap or (item and item.stale) or nil }
    state =
      upsert_item(state, 'assistant', p.messageId, changes, copy_with(NEW_ASSISTANT, { turnId = p.turnId }))
    local activity = field == 'text' and 'answering' or 'thinking'
    return copy_with(
      state,
      { activity = activity, missed = gap and (state.missed or 'text') or state.missed }
    )
  end
end

handlers['agent/textDelta'] = make_delta_handler('text')
handlers['agent/reasoningDelta'] = make_delta_handler('reasoning')

local function collect_content(blocks)
  local content = { text = {}, reasoning = {}, references = {}, calls = {}, images = 0 }
  for _, block in ipairs(blocks or {}) do
    if block.type == 'text' then
      content.text[#content.text + 1] = block.text
    elseif block.type == 'reasoning' then
      content.reasoning[#content.reasoning + 1] = block.text
    elseif block.type == 'toolUse' then
      content.calls[block.toolCallId] = block
    elseif block.type == 'image' then
      content.images = content.images + 1
    elseif block.type == 'reference' then
      local lines = ''
      if block.startLine then
        local last = block.endLine or block.startLine
        lines = last > block.startLine and (':%d-%d'):format(block.startLine, last)
          or (':%d'):format(block.startLine)
      end
      content.references[#content.references + 1] = block.path .. lines
    end
  end
  return content
end

handlers['agent/message'] = function(state, p)
  if p.hidden then
    return state
  end
  local content = collect_content(p.content)
  if p.role == 'user' then
    local steer = false
    for i = #state.items, 1, -1 do
      local item = state.items[i]
      if item.kind == 'turnEnd' then
        break
      elseif item.kind == 'user' and item.turnId == p.turnId and item.id ~= p.messageId then
        steer = true
        break
      end
    end
    return upsert_item(state, 'user', p.messageId, {
      text = table.concat(content.text, '\n'),
      references = content.references,
      images = content.images,
      steer = steer,
      turnId = p.turnId,
    })
  elseif p.role ~= 'assistant' then
    return state
  end
  state = clear_kinds(state, notices.ENDED_BY_MESSAGE)
  -- A call that the complete message does not contain is void.
  local items = filter_list(state.items, function(item)
    return not (
      item.kind == 'tool'
      and item.status == 'writing'
      and item.messageId == p.messageId
      and not content.calls[item.id]
    )
  end)
  if items ~= state.items then
    state = copy_with(state, { items = items })
  end
  local text, reasoning = table.concat(content.text, ''), table.concat(content.reasoning, '\n\n')
  local at, item = find_item(state.items, 'assistant', p.messageId)
  if text == '' and reasoning == '' then
    if at then
      return copy_with(state, {
        items = filter_list(state.items, function(other)
          return other ~= item
        end),
      })
    end
    return copy_with(state, { activity = 'thinking' })
  end
  local truncated = p.more
  for _, block in ipairs(p.content) do
    truncated = truncated or block.more
  end
  -- The streamed text may be complete where the message is cut for the wire.
  if truncated and item and #item.text > #text then
    text = item.text
  end
  state = upsert_item(
    state,
    'assistant',
    p.messageId,
    { text = text, reasoning = reasoning, open = false, stale = NONE, incomplete = p.incomplete or NONE },
    { turnId = p.turnId }
  )
  return copy_with(state, { activity = 'thinking' })
end

handlers['agent/messageRetracted'] = function(state, p)
  local retracted_calls, has_removed = {}, false
  for _, id in ipairs(p.toolCallIds or {}) do
    retracted_calls[id] = true
  end
  local items = filter_list(state.items, function(item)
    local is_retracted = (item.kind == 'assistant' and item.id == p.messageId)
      or (
        item.kind == 'tool'
        and (retracted_calls[item.id] or (item.status == 'writing' and item.messageId == p.messageId))
      )
    has_removed = has_removed or is_retracted
    return not is_retracted
  end)
  if not has_removed then
    return state
  end
  return notices.add_notice(copy_with(state, { items = items, activity = 'thinking' }), {
    key = 'retracted',
    kind = 'retracted',
    text = 'a broken answer was discarded',
  })
end

return M
