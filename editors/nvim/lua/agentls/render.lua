-- What each item of a session looks like as lines of Markdown, with highlights and folds. Touches no buffer.

local draw = require('agentls.render.block')
local text = require('agentls.text')
local tool = require('agentls.render.tool')
local turn = require('agentls.render.turn')

local add, add_plain, open_fence, folded = draw.add, draw.add_plain, draw.open_fence, draw.folded
local key_chunks = draw.key_chunks

local M = {}

local renderers = {
  tool = tool.tool,
  turnEnd = turn.turnEnd,
  changes = turn.changes,
  note = turn.note,
  instructions = turn.instructions,
}

---@param item agentls.Item.user
function renderers.user(block, item, options)
  local lines = text.lines(item.text)
  for i, line in ipairs(lines) do
    local lead = item.steer and i == 1 and '> ↪ ' or '> '
    add(block, (lead .. line):gsub('%s+$', ''), 'AgentlsUser')
  end
  local root = options.cwd and options.cwd .. '/'
  for _, reference in ipairs(item.references) do
    if root and reference:sub(1, #root) == root then
      reference = reference:sub(#root + 1)
    end
    add_plain(block, '> @', text.visible(reference), 'AgentlsUser')
  end
  if item.images > 0 then
    add(block, ('> [%d image%s]'):format(item.images, item.images > 1 and 's' or ''), 'AgentlsUser')
  end
end

---@param item agentls.Item.assistant
function renderers.assistant(block, item)
  if item.reasoning:match('%S') then
    local lines = text.lines(item.reasoning)
    add(block, '✻ thoughts', 'AgentlsDim')
    local first = #block.lines - 1
    for _, line in ipairs(lines) do
      add(block, line, 'AgentlsDim')
    end
    local open = open_fence(lines)
    if open then
      add(block, open)
    end
    block.folds[#block.folds + 1] = { first, #block.lines - 1 }
    -- While it is written the number would change with each line.
    if not item.open then
      block.lines[first + 1] = block.lines[first + 1] .. folded(#block.lines - 1 - first)
    end
    if item.text ~= '' then
      add(block, '')
    end
  end
  local lines = text.lines(item.text)
  for _, line in ipairs(lines) do
    add(block, line)
  end
  if not item.open then
    local open = open_fence(lines)
    if open then
      add(block, open)
    end
    if item.incomplete then
      add(block, '— the answer was cut off here', 'AgentlsDim')
    end
  end
end

local BOXES = { completed = '- [x] ', inProgress = '- [ ] ▸ ', pending = '- [ ] ' }

---@param item agentls.Item.plan
function renderers.plan(block, item)
  add(block, '**Plan**')
  for _, line in ipairs(item.items) do
    local group = line.status == 'completed' and 'AgentlsDim' or nil
    add_plain(block, BOXES[line.status] or '- ', text.one_line(line.text, 400), group)
  end
end

---@param item agentls.Item.warning
function renderers.warning(block, item)
  for i, line in ipairs(text.lines(text.reveal(item.message))) do
    add_plain(block, i == 1 and '! ' or '  ', line, 'AgentlsWarn')
  end
end

---What a limit or a question says, for people.
---@param item agentls.Item.limit
---@return string
function M.asked(item)
  return item.asked.message
    or item.asked.text
    or (item.kind == 'limit' and 'a limit is reached' or 'the agent asks')
end

local OUTCOMES = { raised = 'raised', accepted = 'accepted', stopped = 'stopped' }

---What became of it.
local function outcome(item)
  local done = item.resolved
  if item.kind == 'limit' then
    local by = done.raisedBy and (' by %g'):format(done.raisedBy) or ''
    return (OUTCOMES[done.outcome] or tostring(done.outcome)) .. by
  elseif not done.answers then
    return 'not answered'
  end
  local words = {}
  for _, field in ipairs(item.asked.fields or {}) do
    words[#words + 1] = table.concat(done.answers[field.name] or {}, ', ')
  end
  return table.concat(words, ' · ')
end

---@param item agentls.Item.limit
local function ask(block, item, options)
  local done = item.resolved
  local words = text.lines(text.reveal(M.asked(item)))
  if item.asked.detail then
    vim.list_extend(words, text.lines(text.reveal(item.asked.detail)))
  end
  for i, line in ipairs(words) do
    local lead = i == 1 and (done and '✓ ' or '? ') or '  '
    add_plain(block, lead, line, not done and 'AgentlsAsk' or 'AgentlsDim')
  end
  if done then
    add_plain(block, '  → ', text.one_line(outcome(item), 400), 'AgentlsDim')
  else
    local chunks = {}
    key_chunks(chunks, options.keys and options.keys.answer or ':AgentAnswer', 'answer')
    add(block, '')
    block.hint = { chunks }
  end
end
renderers.limit, renderers.question = ask, ask

---Whether an item stands close to the one above it, without room between.
local function close(before, item)
  if item.parentToolCallId then
    -- What is of a sub-agent belongs to its call.
    return not before.approval
  end
  local call = before.kind == 'tool' or before.parentToolCallId ~= nil
  return (call and item.kind == 'tool' and not before.approval)
    or (before.kind == 'changes' and item.kind == 'turnEnd')
end

---The block of an item. `before` is the item above it.
---@param item agentls.Item
---@param before agentls.Item?
---@param options agentls.RenderOptions
---@param nest? agentls.Nest How it lies under calls, if it does or has some under it.
---@param latest? boolean It is the last of its kind.
---@return agentls.Block
function M.block(item, before, options, nest, latest)
  local block = draw.new()
  if nest then
    block.depth, block.level = nest.depth, nest.level
  end
  if before and not close(before, item) then
    add(block, '')
  end
  local room = #block.lines
  block.room = room
  local renderer = renderers[item.kind]
  if renderer then
    renderer(block, item, options, nest, latest)
  end
  if #block.lines == room then
    block.lines = {}
  end
  return block
end

return M
