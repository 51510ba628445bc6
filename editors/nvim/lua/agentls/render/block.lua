-- A piece of the chat in the making: lines of Markdown, with highlights and folds. Touches no buffer.

local text = require('agentls.text')

local M = {}

---A piece of the chat. Rows count from 0 within it.
---@class agentls.Block
---@field lines string[]
---@field marks agentls.Mark[]
---@field folds [integer, integer][] First and last row of what folds to its first line.
---@field level integer How many folds of calls above it the whole lies in.
---@field depth integer How deep it lies under calls: so far it is set in.
---@field tail? { row: integer, chunks: [string, string][] } Words beside the end of a line.
---@field room integer How many empty lines lie above what it shows.
---@field hint? [string, string][][] Virtual lines: the first on the block's last line, which is empty, the rest below.

---@class agentls.Mark
---@field row integer
---@field from? integer Byte column; absent: the whole line, to the window's edge.
---@field to? integer
---@field conceal? boolean It is not seen.
---@field goes_on? boolean The line goes on with the one above it: a mark before it says so.
---@field group string

---@class agentls.RenderOptions
---@field output_lines integer
---@field keys agentls.Config.keys|false
---@field width? integer The window's columns.
---@field cwd? string The session's folder: paths in it are shown from there.

local LINE_BYTES = 2000

---@return agentls.Block
function M.new()
  return { lines = {}, marks = {}, folds = {}, level = 0, depth = 0, room = 0 }
end

---@param group? string
function M.add(block, line, group)
  if line:find('\n', 1, true) then
    line = text.visible(line)
  end
  block.lines[#block.lines + 1] = text.reveal(line, true)
  if group then
    block.marks[#block.marks + 1] = { row = #block.lines - 1, group = group }
  end
end

---Adds a line that is seen whole: on as many lines as it takes, with a mark before those that go on. The mark is not a
---character of the text, so no text can pretend to go on.
---@param lead string
---@param width integer
---@param dress? fun(piece: string): string What keeps Markdown from changing it, outside of a fence.
function M.add_whole(block, lead, line, width, dress)
  local room = math.max(12, width - #lead - 2 - 2 * block.depth)
  for i, piece in ipairs(text.pieces(text.reveal(line), room, vim.api.nvim_strwidth)) do
    M.add(block, lead .. (dress and dress(piece) or piece))
    if i > 1 then
      block.marks[#block.marks + 1] =
        { row = #block.lines - 1, from = #lead, goes_on = true, group = 'AgentlsDim' }
    end
  end
end

function M.mark(block, from, to, group)
  block.marks[#block.marks + 1] = { row = #block.lines - 1, from = from, to = to, group = group }
end

---Adds words that Markdown shall leave alone: what escapes them is not seen.
function M.add_plain(block, lead, words, group)
  M.add(block, lead .. (words:gsub('[\\`*_%[%]<>~]', '\\%0')), group)
  local line = block.lines[#block.lines]
  local at = line:find('\\', #lead + 1, true)
  while at do
    block.marks[#block.marks + 1] = { row = #block.lines - 1, from = at - 1, to = at, conceal = true }
    at = line:find('\\', at + 2, true)
  end
end

---As code, whatever is in it.
function M.code(words)
  local longest = 0
  for ticks in words:gmatch('`+') do
    longest = math.max(longest, #ticks)
  end
  local fence = ('`'):rep(longest + 1)
  return longest > 0 and ('%s %s %s'):format(fence, words, fence) or fence .. words .. fence
end

---At most `room` columns of a line.
function M.fitting(line, room)
  if vim.fn.strdisplaywidth(line) <= room then
    return line
  end
  local cut = vim.fn.strcharpart(line, 0, room - 1)
  while vim.fn.strdisplaywidth(cut) > room - 1 do
    cut = vim.fn.strcharpart(cut, 0, vim.fn.strchars(cut) - 1)
  end
  return cut .. '…'
end

---A fence longer than any in `lines`.
function M.fence_for(lines)
  local longest = 2
  for _, line in ipairs(lines) do
    local ticks = line:match('^%s*(```+)')
    longest = math.max(longest, ticks and #ticks or 0)
  end
  return ('`'):rep(longest + 1)
end

---A fence longer than any run of backticks in the text.
function M.ticks_for(words)
  local longest = 2
  for ticks in words:gmatch('`+') do
    longest = math.max(longest, #ticks)
  end
  return ('`'):rep(longest + 1)
end

---The fence that is still open at the end of `lines`; nil when all are closed.
function M.open_fence(lines)
  local open
  for _, line in ipairs(lines) do
    local ticks, rest = line:match('^ ? ? ?(```+)(.*)$')
    if not ticks then
      ticks, rest = line:match('^ ? ? ?(~~~+)(.*)$')
    end
    if ticks and not open and not (ticks:byte() == 96 and rest:find('`', 1, true)) then
      open = ticks
    elseif ticks and open and ticks:byte() == open:byte() and #ticks >= #open and rest:match('^%s*$') then
      open = nil
    end
  end
  return open
end

function M.thousands(n)
  local digits = tostring(n)
  return (digits:reverse():gsub('(%d%d%d)', '%1,'):reverse():gsub('^,', ''))
end

---At most `most` lines of bearable length: the first and the last ones, and what was left out between.
function M.capped(lines, most, note)
  local shown = lines
  if #lines > most then
    shown = {}
    local head = math.ceil(most / 2)
    for i = 1, head do
      shown[i] = lines[i]
    end
    shown[head + 1] = ('⋯ %s lines are not shown here%s'):format(M.thousands(#lines - most), note)
    for i = #lines - (most - head) + 1, #lines do
      shown[#shown + 1] = lines[i]
    end
  end
  for i, line in ipairs(shown) do
    if #line > LINE_BYTES then
      if shown == lines then
        shown = vim.list_slice(lines)
      end
      local cut = text.cut(line, LINE_BYTES)
      shown[i] = ('%s ⋯ %s of this line are not shown here%s'):format(
        cut,
        text.bytes(#line - #cut + 3),
        note
      )
    end
  end
  return shown
end

---How many lines a fold hides, for its first line.
function M.folded(count)
  return (' ⋯ %s line%s'):format(M.thousands(count), count > 1 and 's' or '')
end

function M.fenced(block, lines, language)
  local fence = M.fence_for(lines)
  M.add(block, fence .. (language or ''))
  for _, line in ipairs(lines) do
    M.add(block, line)
  end
  M.add(block, fence)
end

function M.key_chunks(chunks, key, words)
  if key then
    if #chunks > 0 then
      chunks[#chunks + 1] = { '  ', 'AgentlsDim' }
    end
    chunks[#chunks + 1] = { key, 'AgentlsKey' }
    chunks[#chunks + 1] = { ' ' .. words, 'AgentlsDim' }
  end
end

return M
