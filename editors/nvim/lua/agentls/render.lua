-- Renders each item of a session as lines of Markdown with highlights and folds. It must not touch a buffer; view.lua
-- does. Tool calls are in render/tool.lua, the ends of turns in render/turn.lua.

local draw = require('agentls.render.block')
local format = require('agentls.format')
local tool = require('agentls.render.tool')
local turn = require('agentls.render.turn')

local add_line, add_escaped, find_open_fence, format_fold_count =
  draw.add_line, draw.add_escaped, draw.find_open_fence, draw.format_fold_count
local append_key_hint, inline_code = draw.append_key_hint, draw.inline_code

local M = {}

local renderers = {
  tool = tool.render_tool_call,
  turnEnd = turn.render_turn_end,
  changes = turn.render_changes,
  note = turn.render_note,
  instructions = turn.render_instructions,
}

---@param item agentls.Item.user
function renderers.user(block, item, options)
  local lines = format.split_lines(item.text)
  for i, line in ipairs(lines) do
    local prefix = item.steer and i == 1 and '> ↪ ' or '> '
    add_line(block, (prefix .. line):gsub('%s+$', ''), 'AgentlsUser')
  end
  local root = options.cwd and options.cwd .. '/'
  for _, reference in ipairs(item.references) do
    if root and reference:sub(1, #root) == root then
      reference = reference:sub(#root + 1)
    end
    add_escaped(block, '> @', format.display_text(reference), 'AgentlsUser')
  end
  if item.images > 0 then
    add_line(block, ('> [%d image%s]'):format(item.images, item.images > 1 and 's' or ''), 'AgentlsUser')
  end
end

---@param item agentls.Item.assistant
function renderers.assistant(block, item)
  if item.reasoning:match('%S') then
    local lines = format.split_lines(item.reasoning)
    add_line(block, '✻ thoughts', 'AgentlsDim')
    local first = #block.lines - 1
    for _, line in ipairs(lines) do
      add_line(block, line, 'AgentlsDim')
    end
    local open = find_open_fence(lines)
    if open then
      add_line(block, open)
    end
    block.folds[#block.folds + 1] = { first, #block.lines - 1 }
    -- During streaming the number would change with each line.
    if not item.open then
      block.lines[first + 1] = block.lines[first + 1] .. format_fold_count(#block.lines - 1 - first)
    end
    if item.text ~= '' then
      add_line(block, '')
    end
  end
  local lines = format.split_lines(item.text)
  for _, line in ipairs(lines) do
    add_line(block, line)
  end
  if not item.open then
    local open = find_open_fence(lines)
    if open then
      add_line(block, open)
    end
    if item.incomplete then
      add_line(block, '— the answer was cut off here', 'AgentlsDim')
    end
  end
end

local BOXES = { completed = '- [x] ', inProgress = '- [ ] ▸ ', pending = '- [ ] ' }

---@param item agentls.Item.plan
function renderers.plan(block, item)
  add_line(block, '**Plan**')
  for _, line in ipairs(item.items) do
    local group = line.status == 'completed' and 'AgentlsDim' or nil
    add_escaped(block, BOXES[line.status] or '- ', format.single_line(line.text, 400), group)
  end
end

---@param item agentls.Item.warning
function renderers.warning(block, item)
  for i, line in ipairs(format.split_lines(format.reveal_hidden(item.message))) do
    add_escaped(block, i == 1 and '! ' or '  ', line, 'AgentlsWarn')
  end
end

---Returns the text of a limit or a question.
---@param item agentls.Item.limit
---@return string
function M.get_inquiry_text(item)
  return item.request.message
    or item.request.text
    or (item.kind == 'limit' and 'a limit is reached' or 'the agent asks')
end

local OUTCOMES = { raised = 'raised', accepted = 'accepted', stopped = 'stopped' }

---Formats how a limit or a question was resolved.
local function format_outcome(item)
  local resolution = item.resolved
  if item.kind == 'limit' then
    local amount = resolution.raisedBy and (' by %g'):format(resolution.raisedBy) or ''
    return (OUTCOMES[resolution.outcome] or tostring(resolution.outcome)) .. amount
  elseif not resolution.answers then
    return 'not answered'
  end
  local text = {}
  for _, field in ipairs(item.request.fields or {}) do
    text[#text + 1] = table.concat(resolution.answers[field.name] or {}, ', ')
  end
  return table.concat(text, ' · ')
end

---The columns to assume if no window shows the chat.
local DEFAULT_WIDTH = 80

---Lists what one may answer, so that the question can be understood before it is answered.
---@param item agentls.Item.limit
---@param width integer
local function render_choices(block, item, width)
  local fields = item.request.fields or {}
  for _, field in ipairs(fields) do
    if #fields > 1 and field.label ~= '' then
      add_escaped(block, '  ', format.display_text(field.label), 'AgentlsDim')
    end
    for _, choice in ipairs(field.choices or {}) do
      local label = format.display_text(choice.label ~= '' and choice.label or choice.value)
      draw.add_wrapped(block, field.several and '    ☐ ' or '    • ', label, width, draw.escape_markdown)
    end
  end
end

---@param item agentls.Item.limit
local function render_inquiry(block, item, options)
  local resolution = item.resolved
  local text = format.split_lines(format.reveal_hidden(M.get_inquiry_text(item)))
  if item.request.detail then
    vim.list_extend(text, format.split_lines(format.reveal_hidden(item.request.detail)))
  end
  for i, line in ipairs(text) do
    local prefix = i == 1 and (resolution and '✓ ' or '? ') or '  '
    local group = not resolution and 'AgentlsAsk' or 'AgentlsDim'
    if format.find_web_address(line) then
      -- Without backslashes, so that it can be copied.
      add_line(block, prefix .. inline_code(line), group)
    else
      add_escaped(block, prefix, line, group)
    end
  end
  if resolution then
    add_escaped(block, '  → ', format.single_line(format_outcome(item), 400), 'AgentlsDim')
  else
    render_choices(block, item, options.width or DEFAULT_WIDTH)
    local chunks = {}
    append_key_hint(chunks, options.keys and options.keys.answer or ':AgentAnswer', 'answer')
    add_line(block, '')
    block.footer = { chunks }
  end
end
renderers.limit, renderers.question = render_inquiry, render_inquiry

---In which states a call that asks the user has nothing to add to its question.
local SHOWN_BY_QUESTION = { pending = true, running = true, completed = true }

---Whether an item needs no empty line between itself and the item above it.
local function is_adjacent(previous, item)
  if item.parentToolCallId then
    -- Items of a sub-agent belong to its call.
    return not previous.approval
  end
  local call = previous.kind == 'tool' or previous.parentToolCallId ~= nil
  return (call and item.kind == 'tool' and not previous.approval)
    or (previous.kind == 'changes' and item.kind == 'turnEnd')
end

---Renders an item. `previous` is the item above it.
---@param item agentls.Item
---@param previous agentls.Item?
---@param options agentls.RenderOptions
---@param placement? agentls.SubagentPlacement Set if the item belongs to a sub-agent or has one.
---@param latest? boolean Whether these are the latest changes.
---@return agentls.Block
function M.render_item(item, previous, options, placement, latest)
  local block = draw.new()
  if placement then
    block.depth, block.level = placement.depth, placement.level
  end
  if previous and not is_adjacent(previous, item) then
    add_line(block, '')
  end
  local margin = #block.lines
  block.top_margin = margin
  local renderer = renderers[item.kind]
  -- The card of its question says all of it.
  local is_shown_by_question = item.kind == 'tool'
    and item.name == 'ask_user'
    and SHOWN_BY_QUESTION[item.status]
  if renderer and not is_shown_by_question then
    renderer(block, item, options, placement, latest)
  end
  if #block.lines == margin then
    block.lines = {}
  end
  return block
end

return M
