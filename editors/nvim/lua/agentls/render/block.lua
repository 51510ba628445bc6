-- Builds a block: lines of Markdown with highlights and folds. It must not touch a buffer, nor know any item.

local format = require('agentls.format')

local M = {}

---A piece of the chat. Its rows count from 0.
---@class agentls.Block
---@field lines string[]
---@field marks agentls.Mark[]
---@field folds [integer, integer][] The first and the last row of each fold.
---@field level integer How many folds of calls contain the block.
---@field depth integer How many calls the block is nested under. Determines its indent.
---@field suffix? { row: integer, chunks: [string, string][] } Virtual text at the end of a line.
---@field top_margin integer How many empty lines it starts with.
---@field footer? [string, string][][] Virtual lines. The first overlays the last, empty line.

---@class agentls.Mark
---@field row integer
---@field from? integer Byte column. Default: the whole line, to the edge of the window.
---@field to? integer
---@field conceal? boolean
---@field is_continuation? boolean The line continues the one above it, which a virtual `↳` shows.
---@field group string

---@class agentls.RenderOptions
---@field output_lines integer
---@field keys agentls.Config.keys|false
---@field width? integer The columns of the window.
---@field cwd? string The folder of the session. Paths inside it are shown relative to it.

local LINE_BYTES = 2000

---@return agentls.Block
function M.new()
  return { lines = {}, marks = {}, folds = {}, level = 0, depth = 0, top_margin = 0 }
end

---@param group? string
function M.add_line(block, line, group)
  if line:find('\n', 1, true) then
    line = format.display_text(line)
  end
  block.lines[#block.lines + 1] = format.reveal_hidden(line, true)
  if group then
    block.marks[#block.marks + 1] = { row = #block.lines - 1, group = group }
  end
end

---Adds a line, wrapped to as many lines as it needs. A virtual mark precedes each continuation. The mark is not part of
---the text, so no text can imitate a continuation.
---@param prefix string
---@param width integer
---@param escape? fun(piece: string): string Outside a fence: keeps Markdown from changing a piece.
function M.add_wrapped(block, prefix, line, width, escape)
  local columns = math.max(12, width - #prefix - 2 - 2 * block.depth)
  for i, segment in ipairs(format.split_columns(format.reveal_hidden(line), columns, vim.api.nvim_strwidth)) do
    M.add_line(block, prefix .. (escape and escape(segment) or segment))
    if i > 1 then
      block.marks[#block.marks + 1] =
        { row = #block.lines - 1, from = #prefix, is_continuation = true, group = 'AgentlsDim' }
    end
  end
end

function M.add_mark(block, from, to, group)
  block.marks[#block.marks + 1] = { row = #block.lines - 1, from = from, to = to, group = group }
end

---Escapes what Markdown would interpret.
---@param text string
---@return string
function M.escape_markdown(text)
  return (text:gsub('[\\`*_%[%]<>~]', '\\%0'))
end

---Adds text that Markdown must not interpret. The backslashes that escape it are concealed.
function M.add_escaped(block, prefix, text, group)
  M.add_line(block, prefix .. M.escape_markdown(text), group)
  local line = block.lines[#block.lines]
  local at = line:find('\\', #prefix + 1, true)
  while at do
    block.marks[#block.marks + 1] = { row = #block.lines - 1, from = at - 1, to = at, conceal = true }
    at = line:find('\\', at + 2, true)
  end
end

---Returns the text as inline code, whatever it contains.
function M.inline_code(text)
  local longest = 0
  for ticks in text:gmatch('`+') do
    longest = math.max(longest, #ticks)
  end
  local fence = ('`'):rep(longest + 1)
  return longest > 0 and ('%s %s %s'):format(fence, text, fence) or fence .. text .. fence
end

---Truncates a line to `columns` columns.
function M.fit_columns(line, columns)
  if vim.fn.strdisplaywidth(line) <= columns then
    return line
  end
  local truncated = vim.fn.strcharpart(line, 0, columns - 1)
  while vim.fn.strdisplaywidth(truncated) > columns - 1 do
    truncated = vim.fn.strcharpart(truncated, 0, vim.fn.strchars(truncated) - 1)
  end
  return truncated .. '…'
end

---Fits a line into columns: leaves out the parts that matter least, then truncates the first one.
---@param parts { text: string, priority?: integer, min?: integer }[] Those with the highest number go first. One
---without a number stays. `min`: below how many columns the first part is not truncated.
---@param columns number
---@return string line
---@return table<integer, boolean> is_left_out By the index of the part.
---@return string first The first part, truncated if necessary.
function M.fit_parts(parts, columns)
  local order, left_out, total = {}, {}, 0
  for i, part in ipairs(parts) do
    total = total + vim.fn.strdisplaywidth(part.text)
    if part.priority then
      table.insert(order, i)
    end
  end
  table.sort(order, function(a, b)
    return parts[a].priority > parts[b].priority
  end)
  local last_priority
  for _, i in ipairs(order) do
    -- `+1` without `-2` would be wrong, so parts of one priority go together.
    if total > columns or parts[i].priority == last_priority then
      left_out[i], last_priority = true, parts[i].priority
      total = total - vim.fn.strdisplaywidth(parts[i].text)
    end
  end
  local first = parts[1].text
  if total > columns then
    local available = columns - (total - vim.fn.strdisplaywidth(first))
    first = M.fit_columns(first, math.max(parts[1].min or 1, available))
  end
  local line = { first }
  for i = 2, #parts do
    table.insert(line, left_out[i] and '' or parts[i].text)
  end
  return table.concat(line), left_out, first
end

---Returns a fence that is longer than any fence in `lines`.
function M.build_fence(lines)
  local longest = 2
  for _, line in ipairs(lines) do
    local ticks = line:match('^%s*(```+)')
    longest = math.max(longest, ticks and #ticks or 0)
  end
  return ('`'):rep(longest + 1)
end

---Returns a fence that is longer than any run of backticks in the text.
function M.build_text_fence(text)
  local longest = 2
  for ticks in text:gmatch('`+') do
    longest = math.max(longest, #ticks)
  end
  return ('`'):rep(longest + 1)
end

---Returns the fence that is still open at the end of `lines`, or nil.
function M.find_open_fence(lines)
  local open
  for _, line in ipairs(lines) do
    local ticks, info = line:match('^ ? ? ?(```+)(.*)$')
    if not ticks then
      ticks, info = line:match('^ ? ? ?(~~~+)(.*)$')
    end
    if ticks and not open and not (ticks:byte() == 96 and info:find('`', 1, true)) then
      open = ticks
    elseif ticks and open and ticks:byte() == open:byte() and #ticks >= #open and info:match('^%s*$') then
      open = nil
    end
  end
  return open
end

function M.format_thousands(n)
  local digits = tostring(n)
  return (digits:reverse():gsub('(%d%d%d)', '%1,'):reverse():gsub('^,', ''))
end

---Limits text to the first and the last lines, `max` in total, and truncates long lines. Says what it left out.
function M.limit_lines(lines, max, hint)
  local visible_lines = lines
  if #lines > max then
    visible_lines = {}
    local head = math.ceil(max / 2)
    for i = 1, head do
      visible_lines[i] = lines[i]
    end
    visible_lines[head + 1] = ('⋯ %s lines are not shown here%s'):format(
      M.format_thousands(#lines - max),
      hint
    )
    for i = #lines - (max - head) + 1, #lines do
      visible_lines[#visible_lines + 1] = lines[i]
    end
  end
  for i, line in ipairs(visible_lines) do
    if #line > LINE_BYTES then
      if visible_lines == lines then
        visible_lines = vim.list_slice(lines)
      end
      local truncated = format.truncate(line, LINE_BYTES)
      visible_lines[i] = ('%s ⋯ %s of this line are not shown here%s'):format(
        truncated,
        format.byte_size(#line - #truncated + 3),
        hint
      )
    end
  end
  return visible_lines
end

---Formats how many lines a fold hides.
function M.format_fold_count(count)
  return (' ⋯ %s line%s'):format(M.format_thousands(count), count > 1 and 's' or '')
end

function M.add_code_block(block, lines, language)
  local fence = M.build_fence(lines)
  M.add_line(block, fence .. (language or ''))
  for _, line in ipairs(lines) do
    M.add_line(block, line)
  end
  M.add_line(block, fence)
end

function M.append_key_hint(chunks, key, text)
  if key then
    if #chunks > 0 then
      chunks[#chunks + 1] = { '  ', 'AgentlsDim' }
    end
    chunks[#chunks + 1] = { key, 'AgentlsKey' }
    chunks[#chunks + 1] = { ' ' .. text, 'AgentlsDim' }
  end
end

return M
