-- What a tool call looks like: its head, what is asked about it, its diff and its output.

local config = require('agentls.config')
local draw = require('agentls.render.block')
local protocol = require('agentls.protocol')
local text = require('agentls.text')

local add, mark, add_plain, code, fitting = draw.add, draw.mark, draw.add_plain, draw.code, draw.fitting
local fence_for, capped, folded, fenced = draw.fence_for, draw.capped, draw.folded, draw.fenced
local key_chunks = draw.key_chunks

local M = {}

---The columns of a chat that no window shows.
local WIDTH = 80

---The last lines of a failed call's output, which are seen without opening it.
local FAILED_LINES = 5

local DIFF_GROUPS = { ['+'] = 'AgentlsAdded', ['-'] = 'AgentlsRemoved', ['@'] = 'AgentlsHunk' }

---How many bytes the server left out of a cut field, as a line; nil where it is whole.
---@param more? agentls.More
---@param there string What is there of it.
---@param note string
---@return string?
local function cut_line(more, there, note)
  local hidden = more and more.bytes - #there - #(more.tail or '')
  return hidden and ('⋯ %s are not shown here%s'):format(text.bytes(math.max(hidden, 0)), note)
end

---A unified diff; the names of a single file are left out, as the head names it.
---@param more? agentls.More
local function diff_block(block, diff, options, more)
  local note = options.keys and options.keys.diff and (': %s opens all'):format(options.keys.diff) or ''
  local all, files = text.lines(text.reveal(diff)), 0
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
  local cut = cut_line(more, diff, note)
  if cut then
    add(block, cut, 'AgentlsWarn')
  end
end

---What is asked or was given, as lines: a command as it is, other arguments by name.
---@param whole? boolean Nothing is cut.
local function input_lines(input, whole)
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
      lines[#lines + 1] = name
        .. ': '
        .. (whole and vim.json.encode(value) or text.one_line(vim.json.encode(value), 400))
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

---What the keys at an approval do, in a word each.
local ACTIONS = {
  allow = 'allow',
  deny = 'deny',
  allowSession = 'this session',
  allowAlways = 'always',
  edit = 'edit',
  diff = 'diff',
}

---The keys that answer an approval, as lines of chunks that fit the window.
---@param approval agentls.ApprovalRequestedNotification
---@return [string, string][][]
local function answer_keys(approval, options, room)
  if not options.keys then
    return { { { ':AgentApprove  :AgentDeny  :AgentDiff', 'AgentlsKey' } } }
  end
  local lines, used = { {} }, 0
  for _, entry in ipairs(protocol.approval_keys) do
    local key = options.keys[config.APPROVAL_NAMES[entry.action]]
    local keeps = entry.action == 'allowSession' or entry.action == 'allowAlways'
    local offered = not (keeps and not approval.rule) and not (entry.action == 'diff' and not approval.diff)
    if key and offered then
      local words = ACTIONS[entry.action]
      local wide = vim.fn.strdisplaywidth(key .. words) + 3
      if used > 0 and used + wide > room then
        lines[#lines + 1], used = {}, 0
      end
      key_chunks(lines[#lines], key, words)
      used = used + wide
    end
  end
  return lines
end

---The rule that allowing for longer would keep, whole; and the keys.
---@param approval agentls.ApprovalRequestedNotification
local function approval_hint(block, approval, options, width)
  local keys = options.keys
  if approval.rule then
    local names = keys
        and vim.tbl_filter(function(key)
          return key ~= false
        end, { keys.approve_session, keys.approve_always })
      or {}
    local who = #names > 0 and table.concat(names, ' and ') or 'session and always'
    add(block, ('  %s keep the rule:'):format(who), 'AgentlsDim')
    for _, line in ipairs(text.lines(approval.rule)) do
      draw.add_whole(block, '    ', line, width, code)
    end
  end
  -- A line of its own: a fence above it may be concealed, and with it all that hangs on it.
  add(block, '')
  block.hint = answer_keys(approval, options, width - 4 - 2 * block.depth)
end

---What is asked, whole: the command or the address as the server reveals it, else the arguments.
---@param item agentls.Item.tool
local function asked(block, item, options, width, note)
  local approval = item.approval
  local lines, language, cut
  if approval.shown then
    lines = text.lines(approval.shown)
    language = type(item.input) == 'table' and item.input.command and 'sh' or nil
    cut = cut_line(approval.more and approval.more.shown, approval.shown, note)
  else
    lines, language = input_lines(item.input, true)
    local more = approval.more and approval.more.input
    local key = options.keys and options.keys.edit
    cut = more
      and ('⋯ cut: %s in all%s'):format(
        text.bytes(more.bytes),
        key and (': %s opens all'):format(key) or ''
      )
  end
  local fence = draw.ticks_for(table.concat(lines, '\n'))
  add(block, fence .. (language or ''))
  for _, line in ipairs(lines) do
    draw.add_whole(block, '', line, width)
  end
  add(block, fence)
  if cut then
    add(block, cut, 'AgentlsWarn')
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

---What its sub-agents wait for.
local function waits(block, nest)
  for _, notice in ipairs(nest and nest.notices or {}) do
    local retries = notice.kind == 'retry'
    add_plain(block, retries and '⟳ ' or '⧗ ', notice.text, retries and 'AgentlsWarn' or 'AgentlsDim')
  end
end

---@param item agentls.Item.tool
---@param options agentls.RenderOptions
---@param nest? agentls.Nest
function M.tool(block, item, options, nest)
  local icon = ICONS[item.status] or { '·', 'AgentlsDim' }
  local tail = {}
  if item.status == 'writing' then
    tail[#tail + 1] = 'being written, ' .. text.bytes(item.written or 0)
  elseif item.status == 'denied' or item.status == 'cancelled' or item.status == 'failed' then
    tail[#tail + 1] = item.status == 'failed' and item.exitCode and 'exit ' .. item.exitCode or item.status
  end
  if nest and nest.calls > 0 then
    tail[#tail + 1] = nest.calls == 1 and '1 call' or nest.calls .. ' calls'
  end
  if item.durationMs then
    tail[#tail + 1] = text.seconds(item.durationMs)
  end
  local decision = item.decision
  if decision and (DECISIONS[decision.decision] or SETTLED[decision.by]) then
    tail[#tail + 1] = DECISIONS[decision.decision] or SETTLED[decision.by]
  end
  local words = #tail > 0 and ' · ' .. table.concat(tail, ' · ') or ''
  local title = text.visible(item.status == 'writing' and item.name or item.title)
  local width = options.width or WIDTH
  -- What folds has one line; what is asked about is seen whole.
  if options.width and not item.approval then
    -- Mark and fences, and how many lines are folded away.
    local room =
      math.max(12, options.width - vim.fn.strdisplaywidth(words) - 18 - 2 * (nest and nest.depth or 0))
    title = fitting(title, room)
  end
  local head = icon[1] .. ' '
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
    add_plain(block, ('  %s · '):format(risk), text.visible(item.approval.why), 'AgentlsDim')
    if item.approval.risk ~= 'low' then
      mark(block, 2, 2 + #risk, item.approval.risk == 'high' and 'AgentlsWarn' or 'AgentlsAsk')
    end
    for _, option in ipairs(item.approval.options or {}) do
      add_plain(block, '  ! ', text.visible(option), 'AgentlsWarn')
    end
  end
  local first = #block.lines - 1
  local note = options.keys and options.keys.open and (': %s opens all'):format(options.keys.open) or ''
  if decision and decision.decision == 'deny' and decision.feedback and decision.feedback ~= '' then
    add_plain(block, 'feedback: ', text.one_line(decision.feedback, 400), 'AgentlsDim')
  end
  -- A command is always seen whole where it is asked about, and where its title says less.
  local command = type(item.input) == 'table' and item.input.command
  if item.approval then
    local told = item.approval.shown == title and vim.fn.strdisplaywidth(title) < width - 4 - 2 * block.depth
    if not told and (item.approval.shown or not item.diff) then
      asked(block, item, options, width, note)
    end
  elseif not item.diff and command and command ~= item.title then
    local lines, language = input_lines(item.input)
    fenced(block, capped(lines, options.output_lines, note), language)
  end
  if item.diff and item.diff ~= '' then
    local held = item.approval and item.approval.more or item.more
    diff_block(block, item.diff, options, held and held.diff)
  end
  -- The lines at the end that are not folded: how a call failed.
  local seen = 0
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
    seen = item.status == 'failed' and math.min(#lines, FAILED_LINES) + 1 or 0
  elseif item.live and item.live ~= '' then
    local lines, last = text.lines(item.live), {}
    for i = math.max(1, #lines - 9), #lines do
      last[#last + 1] = lines[i]
    end
    fenced(block, capped(last, options.output_lines, note))
  end
  waits(block, nest)
  local inner = nest and nest.calls > 0
  local last = #block.lines - 1 - (inner and 0 or seen)
  if seen > 0 and last - first < 2 then
    -- Only the fence would be folded.
    last = first
  end
  -- What is asked about, and what is going on, stays in view; what sub-agents did is folded with their call.
  if (last > first or inner) and not item.approval and item.status ~= 'running' then
    block.folds[#block.folds + 1] = { first, last }
  end
  if last > first and not item.approval and item.status ~= 'running' then
    local count = folded(last - first)
    block.lines[first + 1] = head .. count
    block.marks[#block.marks + 1] = { row = first, from = #head, to = #head + #count, group = 'AgentlsDim' }
  end
  if item.approval then
    approval_hint(block, item.approval, options, width)
  end
end

return M
