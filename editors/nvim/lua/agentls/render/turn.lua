-- Renders the end of a turn: its outcome, its file changes; also the loaded instructions. It must not touch a buffer.

local draw = require('agentls.render.block')
local format = require('agentls.format')

local add_line, add_mark, add_escaped = draw.add_line, draw.add_mark, draw.add_escaped

local M = {}

local STATES = {
  failed = { '✗ failed', 'AgentlsError' },
  degraded = { '◐ degraded', 'AgentlsWarn' },
  interrupted = { '■ interrupted', 'AgentlsWarn' },
  cancelled = { '■ canceled', 'AgentlsWarn' },
}

---@param item agentls.Item.turnEnd
function M.render_turn_end(block, item)
  local parts, state = {}, STATES[item.state]
  if state then
    parts[1] = state[1]
  end
  if item.compacted then
    parts[#parts + 1] = item.compacted
  elseif item.state == 'completed' and item.reason ~= 'completed' then
    parts[#parts + 1] = 'ended by a hook'
  end
  local usage = item.usage
  if usage then
    local read = usage.inputTokens + usage.cacheReadTokens + usage.cacheWriteTokens
    if read + usage.outputTokens > 0 then
      parts[#parts + 1] = ('%s in, %s out'):format(
        format.token_count(read),
        format.token_count(usage.outputTokens)
      )
      parts[#parts + 1] = format.cost(item.costUsd)
    end
  end
  if item.tookMs then
    parts[#parts + 1] = format.duration(item.tookMs)
  end
  local failure = item.error
  if item.state == 'cancelled' then
    failure = nil
  end
  if failure then
    local cause = failure.cause and ': ' .. failure.cause or ''
    for i, line in ipairs(format.split_lines(('[%s] %s%s'):format(failure.code, failure.message, cause))) do
      add_escaped(block, i == 1 and '✗ ' or '  ', line, 'AgentlsError')
    end
    for _, line in ipairs(format.split_lines(failure.userAction or '')) do
      add_escaped(block, '  → ', line)
    end
    parts[1] = nil
    parts = vim.tbl_values(parts)
  end
  if (item.state == 'interrupted' or item.state == 'cancelled') and not item.superseded then
    parts[#parts + 1] = ':AgentResume continues'
  end
  if #parts > 0 then
    local line = (state and not failure and '' or '— ') .. table.concat(parts, ' · ')
    add_line(block, line, not state and 'AgentlsDim' or nil)
    if state then
      add_mark(block, 0, #line, failure and 'AgentlsDim' or state[2])
    end
  end
end

local LETTERS = { created = 'A', modified = 'M', deleted = 'D' }
local WORDS = { created = 'created', modified = 'changed', deleted = 'deleted' }

---Appends `+12 -3` to the last line of a block.
local function append_counts(block, added, removed)
  local lines = block.lines
  for _, part in ipairs({ { '+', added, 'AgentlsAdded' }, { '-', removed, 'AgentlsRemoved' } }) do
    if part[2] > 0 then
      local from = #lines[#lines] + 1
      lines[#lines] = ('%s %s%d'):format(lines[#lines], part[1], part[2])
      add_mark(block, from, #lines[#lines], part[3])
    end
  end
end

---Renders a file of a list of changes.
---@param file agentls.FileDiff
local function render_file(block, file)
  add_line(
    block,
    ('%s %s'):format(LETTERS[file.kind] or '?', draw.inline_code(format.display_text(file.path)))
  )
  append_counts(block, file.added, file.removed)
  if file.unrestorable then
    local from = #block.lines[#block.lines]
    block.lines[#block.lines] = block.lines[#block.lines] .. ' · cannot be reverted'
    add_mark(block, from, #block.lines[#block.lines], 'AgentlsWarn')
  end
end

---Lists files below the last line of a block, in a fold.
---@param item { files: agentls.FileDiff[], unlisted?: integer, partial?: boolean }
local function render_file_list(block, item)
  local first = #block.lines - 1
  for _, file in ipairs(format.sort_by_path(item.files)) do
    render_file(block, file)
  end
  if (item.unlisted or 0) > 0 then
    add_line(block, ('and %s more'):format(draw.format_thousands(item.unlisted)), 'AgentlsDim')
  end
  if item.partial then
    add_line(
      block,
      'Commands may have changed more: the folder has too many files to check all.',
      'AgentlsWarn'
    )
  end
  local last = #block.lines - 1
  if last > first then
    block.folds[#block.folds + 1] = { first, last }
    local from = #block.lines[first + 1]
    block.lines[first + 1] = block.lines[first + 1] .. draw.format_fold_count(last - first)
    block.marks[#block.marks + 1] =
      { row = first, from = from, to = #block.lines[first + 1], group = 'AgentlsDim' }
  end
end

---Formats how many files a turn changed. Names a single file.
---@param item agentls.Item.changes
---@return string
function M.summarize_changes(item)
  local count = #item.files + (item.unlisted or 0)
  if count == 1 and item.files[1] then
    return ('%s %s'):format(format.display_text(item.files[1].path), WORDS[item.files[1].kind] or 'changed')
  elseif count == 0 then
    return 'commands may have changed files'
  end
  return count == 1 and '1 file changed' or ('%s files changed'):format(draw.format_thousands(count))
end

---@param item agentls.Item.changes
---@param options agentls.RenderOptions
---@param latest? boolean
function M.render_changes(block, item, options, _, latest)
  local summary, counts = M.summarize_changes(item), (' +%d -%d'):format(item.added, item.removed)
  local columns = vim.fn.strdisplaywidth('± ' .. summary .. counts)
  if #item.files == 1 and not item.unlisted and columns > (options.width or math.huge) then
    summary = format.display_text(item.files[1].path)
  end
  add_escaped(block, '± ', summary)
  add_mark(block, 0, #'±', 'AgentlsBusy')
  append_counts(block, item.added, item.removed)
  local row, is_reverted = #block.lines - 1, item.standing == 'reverted'
  if item.standing ~= 'made' then
    local from = #block.lines[row + 1]
    block.lines[row + 1] = block.lines[row + 1] .. (is_reverted and ' · reverted' or ' · reapplied')
    add_mark(block, from, #block.lines[row + 1], is_reverted and 'AgentlsWarn' or 'AgentlsDim')
  end
  local only = #item.files == 1 and not item.unlisted and not item.partial and item.files[1]
  if not only or only.unrestorable then
    render_file_list(block, item)
  end
  local keys, chunks = options.keys, {}
  if keys and latest then
    if is_reverted then
      draw.append_key_hint(chunks, keys.redo, 'redo')
    else
      draw.append_key_hint(chunks, keys.diff, 'diff')
      draw.append_key_hint(chunks, keys.revert, 'revert')
    end
  end
  columns = vim.fn.strdisplaywidth(block.lines[row + 1]) + 2
  for _, chunk in ipairs(chunks) do
    columns = columns + vim.fn.strdisplaywidth(chunk[1])
  end
  -- A hint that wraps breaks within a word.
  if #chunks > 0 and columns <= (options.width or math.huge) then
    block.suffix = { row = row, chunks = vim.list_extend({ { '  ', 'AgentlsDim' } }, chunks) }
  end
end

---@param item agentls.Item.note
function M.render_note(block, item)
  add_escaped(
    block,
    item.standing == 'reverted' and '↶ ' or item.standing and '↷ ' or '· ',
    item.text,
    'AgentlsDim'
  )
  if item.files then
    render_file_list(block, item)
  end
end

local INSTRUCTIONS = { soul = 'SOUL.md', agents = 'AGENTS.md', tools = 'TOOLS.md' }

---Summarizes the instructions of the agent: `AGENTS.md, 2 skills loaded`.
---@param files agentls.InstructionFile[]
---@param leftOut? integer
---@return string
function M.summarize_instructions(files, leftOut)
  local parts, counts, skills = {}, {}, 0
  for _, file in ipairs(files) do
    if file.kind == 'skill' then
      skills = skills + 1
    else
      local name = INSTRUCTIONS[file.kind] or file.path:match('[^/]*$')
      if not counts[name] then
        parts[#parts + 1] = name
      end
      counts[name] = (counts[name] or 0) + 1
    end
  end
  for i, name in ipairs(parts) do
    parts[i] = counts[name] > 1 and ('%d × %s'):format(counts[name], name) or name
  end
  if skills > 0 then
    parts[#parts + 1] = skills == 1 and '1 skill' or skills .. ' skills'
  end
  if (leftOut or 0) > 0 then
    parts[#parts + 1] = leftOut .. ' more'
  end
  return #parts > 0 and table.concat(parts, ', ') .. ' loaded' or 'all instructions removed'
end

---@param item agentls.Item.instructions
function M.render_instructions(block, item)
  add_escaped(block, '· ', M.summarize_instructions(item.files, item.leftOut), 'AgentlsDim')
  local first = #block.lines - 1
  for _, file in ipairs(item.files) do
    local status = not file.trusted and ' · not trusted' or ''
    status = status .. (file.problem and ' · ' .. file.problem or '')
    local prefix = '  ' .. draw.inline_code(format.display_text(vim.fn.fnamemodify(file.path, ':~')))
    add_escaped(block, prefix, status, file.problem and 'AgentlsWarn' or 'AgentlsDim')
  end
  if #block.lines - 1 > first then
    block.folds[#block.folds + 1] = { first, #block.lines - 1 }
    block.lines[first + 1] = block.lines[first + 1] .. draw.format_fold_count(#block.lines - 1 - first)
  end
end

return M
