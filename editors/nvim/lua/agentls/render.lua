-- What each item of a session looks like as lines of Markdown, with highlights and folds. Touches no buffer.

local text = require('agentls.text')

local M = {}

---A piece of the chat. Rows count from 0 within it.
---@class agentls.Block
---@field lines string[]
---@field marks agentls.Mark[]
---@field folds [integer, integer][] First and last row of what folds to its first line.
---@field hint? [string, string][][] Virtual lines: the first on the block's last line, which is empty, the rest below.

---@class agentls.Mark
---@field row integer
---@field from? integer Byte column; absent: the whole line, to the window's edge.
---@field to? integer
---@field conceal? boolean It is not seen.
---@field group string

---@class agentls.RenderOptions
---@field output_lines integer
---@field keys agentls.Config.keys|false
---@field width? integer The window's columns.
---@field cwd? string The session's folder: paths in it are shown from there.

local LINE_BYTES = 2000
local RULE_WIDTH = 44

---@return agentls.Block
local function new_block()
  return { lines = {}, marks = {}, folds = {} }
end

local function add(block, line, group)
  block.lines[#block.lines + 1] = line
  if group then
    block.marks[#block.marks + 1] = { row = #block.lines - 1, group = group }
  end
end

local function mark(block, from, to, group)
  block.marks[#block.marks + 1] = { row = #block.lines - 1, from = from, to = to, group = group }
end

---Adds words that Markdown shall leave alone: what escapes them is not seen.
local function add_plain(block, lead, words, group)
  add(block, lead .. (words:gsub('[\\`*_%[%]<>~]', '\\%0')), group)
  local line = block.lines[#block.lines]
  local at = line:find('\\', #lead + 1, true)
  while at do
    block.marks[#block.marks + 1] = { row = #block.lines - 1, from = at - 1, to = at, conceal = true }
    at = line:find('\\', at + 2, true)
  end
end

---As code, whatever is in it.
local function code(words)
  local longest = 0
  for ticks in words:gmatch('`+') do
    longest = math.max(longest, #ticks)
  end
  local fence = ('`'):rep(longest + 1)
  return longest > 0 and ('%s %s %s'):format(fence, words, fence) or fence .. words .. fence
end

---At most `room` columns of a line.
local function fitting(line, room)
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
local function fence_for(lines)
  local longest = 2
  for _, line in ipairs(lines) do
    local ticks = line:match('^%s*(```+)')
    longest = math.max(longest, ticks and #ticks or 0)
  end
  return ('`'):rep(longest + 1)
end

---The fence that is still open at the end of `lines`; nil when all are closed.
local function open_fence(lines)
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

local function thousands(n)
  local digits = tostring(n)
  return (digits:reverse():gsub('(%d%d%d)', '%1,'):reverse():gsub('^,', ''))
end

---At most `most` lines of bearable length: the first and the last ones, and what was left out between.
local function capped(lines, most, note)
  local shown = lines
  if #lines > most then
    shown = {}
    local head = math.ceil(most / 2)
    for i = 1, head do
      shown[i] = lines[i]
    end
    shown[head + 1] = ('⋯ %s lines are not shown here%s'):format(thousands(#lines - most), note)
    for i = #lines - (most - head) + 1, #lines do
      shown[#shown + 1] = lines[i]
    end
  end
  for i, line in ipairs(shown) do
    if #line > LINE_BYTES then
      if shown == lines then
        shown = vim.list_slice(lines)
      end
      shown[i] = text.cut(line, LINE_BYTES)
    end
  end
  return shown
end

---How many lines a fold hides, for its first line.
local function folded(count)
  return (' ⋯ %s line%s'):format(thousands(count), count > 1 and 's' or '')
end

local function fenced(block, lines, language)
  local fence = fence_for(lines)
  add(block, fence .. (language or ''))
  for _, line in ipairs(lines) do
    add(block, line)
  end
  add(block, fence)
end

local DIFF_GROUPS = { ['+'] = 'AgentlsAdded', ['-'] = 'AgentlsRemoved', ['@'] = 'AgentlsHunk' }

---A unified diff; the names of a single file are left out, as the head names it.
local function diff_block(block, diff, options, note)
  local all, files = text.lines(diff), 0
  for _, line in ipairs(all) do
    files = files + (line:sub(1, 4) == '+++ ' and 1 or 0)
  end
  local lines = {}
  for i, line in ipairs(all) do
    local names = line:sub(1, 4) == '--- ' or line:sub(1, 4) == '+++ '
    if not (files == 1 and i <= 2 and names) then
      lines[#lines + 1] = line
    end
  end
  lines = capped(lines, options.output_lines, note)
  local fence = fence_for(lines)
  add(block, fence .. 'diff')
  for _, line in ipairs(lines) do
    local names = files > 1 and (line:sub(1, 4) == '--- ' or line:sub(1, 4) == '+++ ')
    add(block, line, names and 'AgentlsHunk' or DIFF_GROUPS[line:sub(1, 1)])
  end
  add(block, fence)
end

---What is asked or was given, as lines: a command as it is, other arguments by name.
local function input_lines(input)
  if type(input) ~= 'table' then
    return text.lines(tostring(input)), nil
  end
  local names = {}
  for name in pairs(input) do
    names[#names + 1] = tostring(name)
  end
  table.sort(names)
  if input.command and type(input.command) == 'string' then
    local lines = text.lines(input.command)
    for _, name in ipairs(names) do
      if name ~= 'command' and name ~= 'description' then
        lines[#lines + 1] = ('# %s: %s'):format(name, tostring(input[name]))
      end
    end
    return lines, 'sh'
  end
  local lines = {}
  for _, name in ipairs(names) do
    local value = input[name]
    if type(value) == 'string' and value:find('\n', 1, true) then
      lines[#lines + 1] = name .. ':'
      for _, line in ipairs(text.lines(value)) do
        lines[#lines + 1] = '  ' .. line
      end
    elseif type(value) == 'table' then
      lines[#lines + 1] = name .. ': ' .. text.one_line(vim.json.encode(value), 400)
    else
      lines[#lines + 1] = name .. ': ' .. tostring(value)
    end
  end
  return lines, nil
end

local ICONS = {
  writing = { '…', 'AgentlsDim' },
  pending = { '○', 'AgentlsDim' },
  awaitingApproval = { '?', 'AgentlsAsk' },
  running = { '▶', 'AgentlsBusy' },
  completed = { '✓', 'AgentlsOk' },
  failed = { '✗', 'AgentlsError' },
  denied = { '⊘', 'AgentlsWarn' },
  cancelled = { '■', 'AgentlsWarn' },
}

local function key_chunks(chunks, key, words)
  if key then
    if #chunks > 0 then
      chunks[#chunks + 1] = { '  ', 'AgentlsDim' }
    end
    chunks[#chunks + 1] = { key, 'AgentlsKey' }
    chunks[#chunks + 1] = { ' ' .. words, 'AgentlsDim' }
  end
end

---@param approval agentls.ApprovalRequestedNotification
local function approval_hint(block, approval, options)
  local keys, chunks, always = options.keys, {}, {}
  if not keys then
    chunks = { { ':AgentApprove  :AgentDeny  :AgentDiff', 'AgentlsKey' } }
  else
    key_chunks(chunks, keys.approve, 'allow')
    key_chunks(chunks, keys.deny, 'deny')
    key_chunks(chunks, keys.edit, 'edit')
    if approval.diff then
      key_chunks(chunks, keys.diff, 'diff')
    end
    if approval.rule then
      key_chunks(always, keys.approve_session, 'this session')
      key_chunks(always, keys.approve_always, 'always, by the rule')
    end
  end
  -- A line of its own: a fence above it may be concealed, and with it all that hangs on it.
  add(block, '')
  block.hint = { chunks }
  if #always > 0 then
    block.hint[2] = always
    -- What is kept is seen whole: virtual lines do not wrap.
    local rule = approval.rule or ''
    repeat
      local piece = vim.fn.strcharpart(rule, 0, RULE_WIDTH)
      rule = rule:sub(#piece + 1)
      block.hint[#block.hint + 1] = { { '  ' .. piece, 'AgentlsCode' } }
    until rule == ''
  end
end

local DECISIONS = {
  allowSession = 'allowed for this session',
  allowAlways = 'allowed from now on',
}
local SETTLED = {
  rule = 'by a rule',
  cancel = 'by the cancel',
  timeout = 'its time ran out',
  newPrompt = 'by a new prompt',
}

local renderers = {}

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
    add_plain(block, '> @', reference, 'AgentlsUser')
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

---@param item agentls.Item.tool
---@param options agentls.RenderOptions
function renderers.tool(block, item, options)
  local icon = ICONS[item.status] or { '·', 'AgentlsDim' }
  local tail = {}
  if item.status == 'writing' then
    tail[#tail + 1] = 'being written, ' .. text.bytes(item.written or 0)
  elseif item.status == 'denied' or item.status == 'cancelled' or item.status == 'failed' then
    tail[#tail + 1] = item.status
  end
  if item.durationMs then
    tail[#tail + 1] = text.seconds(item.durationMs)
  end
  local decision = item.decision
  if decision and (DECISIONS[decision.decision] or SETTLED[decision.by]) then
    tail[#tail + 1] = DECISIONS[decision.decision] or SETTLED[decision.by]
  end
  local words = #tail > 0 and ' · ' .. table.concat(tail, ' · ') or ''
  local title = item.status == 'writing' and item.name or item.title
  -- What folds has one line; what is asked about is seen whole.
  if options.width and not item.approval then
    -- Mark and fences, and how many lines are folded away.
    local room = math.max(12, options.width - vim.fn.strdisplaywidth(words) - 18)
    title = fitting(title, room)
  end
  local head = icon[1] .. ' ' .. (item.parentToolCallId and '↳ ' or '')
  local before = #head
  head = head .. code(title)
  local tail_from = #head
  head = head .. words
  add(block, head)
  mark(block, 0, before, icon[2])
  if #tail > 0 then
    mark(block, tail_from, #head, 'AgentlsDim')
  end
  if item.approval then
    local risk = item.approval.risk .. ' risk'
    add_plain(block, ('  %s · '):format(risk), item.approval.why, 'AgentlsDim')
    if item.approval.risk == 'high' then
      mark(block, 2, 2 + #risk, 'AgentlsWarn')
    end
  end
  local first = #block.lines - 1
  local note = options.keys and options.keys.open and (': %s opens all'):format(options.keys.open) or ''
  if decision and decision.decision == 'deny' and decision.feedback and decision.feedback ~= '' then
    add_plain(block, 'feedback: ', text.one_line(decision.feedback, 400), 'AgentlsDim')
  end
  -- A command is always seen whole where it is asked about, and where its title says less.
  local told = type(item.input) == 'table' and item.input.command == title
  if
    not item.diff
    and item.input ~= nil
    and not told
    and (item.approval or type(item.input) == 'table' and item.input.command)
  then
    local lines, language = input_lines(item.input)
    fenced(block, capped(lines, options.output_lines, note), language)
  end
  if item.diff and item.diff ~= '' then
    diff_block(block, item.diff, options, note)
  end
  local fails = item.status == 'failed' or item.status == 'cancelled'
  if item.output and item.output ~= '' and (not item.diff or fails) then
    local lines = text.lines(item.output)
    local more = item.more and item.more.output
    if more then
      local hidden = more.bytes - #item.output - #(more.tail or '')
      lines[#lines + 1] = ('⋯ %s are not shown here%s'):format(text.bytes(math.max(hidden, 0)), note)
      vim.list_extend(lines, text.lines(more.tail or ''))
    end
    fenced(block, capped(lines, options.output_lines, note))
  elseif item.live and item.live ~= '' then
    local lines, last = text.lines(item.live), {}
    for i = math.max(1, #lines - 9), #lines do
      last[#last + 1] = lines[i]
    end
    fenced(block, capped(last, options.output_lines, note))
  end
  local last = #block.lines - 1
  -- What is asked about, and what is going on, stays in view.
  if last > first and not item.approval and item.status ~= 'running' then
    block.folds[#block.folds + 1] = { first, last }
    local count = folded(last - first)
    block.lines[first + 1] = head .. count
    block.marks[#block.marks + 1] = { row = first, from = #head, to = #head + #count, group = 'AgentlsDim' }
  end
  if item.approval then
    approval_hint(block, item.approval, options)
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
  for i, line in ipairs(text.lines(item.message)) do
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
  local words = text.lines(M.asked(item))
  if item.asked.detail then
    vim.list_extend(words, text.lines(item.asked.detail))
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

local STATES = {
  failed = { '✗ failed', 'AgentlsError' },
  degraded = { '◐ degraded', 'AgentlsWarn' },
  interrupted = { '■ interrupted', 'AgentlsWarn' },
  cancelled = { '■ cancelled', 'AgentlsWarn' },
}

---@param item agentls.Item.turnEnd
function renderers.turnEnd(block, item)
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
      parts[#parts + 1] = ('%s in, %s out'):format(text.tokens(read), text.tokens(usage.outputTokens))
    end
  end
  if item.costUsd and item.costUsd > 0 then
    parts[#parts + 1] = text.dollars(item.costUsd)
  end
  if item.tookMs then
    parts[#parts + 1] = text.seconds(item.tookMs)
  end
  local failed = item.error
  if item.state == 'cancelled' then
    failed = nil
  end
  if failed then
    local cause = failed.cause and ': ' .. failed.cause or ''
    for i, line in ipairs(text.lines(('[%s] %s%s'):format(failed.code, failed.message, cause))) do
      add_plain(block, i == 1 and '✗ ' or '  ', line, 'AgentlsError')
    end
    for _, line in ipairs(text.lines(failed.userAction or '')) do
      add_plain(block, '  → ', line)
    end
    parts[1] = nil
    parts = vim.tbl_values(parts)
  end
  if (item.state == 'interrupted' or item.state == 'cancelled') and not item.over then
    parts[#parts + 1] = ':AgentResume goes on'
  end
  if #parts > 0 then
    local line = (state and not failed and '' or '— ') .. table.concat(parts, ' · ')
    add(block, line, not state and 'AgentlsDim' or nil)
    if state then
      mark(block, 0, #line, failed and 'AgentlsDim' or state[2])
    end
  end
end

---The block of an item. `before` is the item above it.
---@param item agentls.Item
---@param before agentls.Item?
---@param options agentls.RenderOptions
---@return agentls.Block
function M.block(item, before, options)
  local block = new_block()
  -- Tool calls stand close together, all else has room.
  if before and not (before.kind == 'tool' and item.kind == 'tool' and not before.approval) then
    add(block, '')
  end
  local room = #block.lines
  local renderer = renderers[item.kind]
  if renderer then
    renderer(block, item, options)
  end
  if #block.lines == room then
    block.lines = {}
  end
  return block
end

return M
