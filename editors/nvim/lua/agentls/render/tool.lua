-- What a tool call looks like: its head, what is asked about it, its diff and its output.

local draw = require('agentls.render.block')
local text = require('agentls.text')

local add, mark, add_plain, code, fitting = draw.add, draw.mark, draw.add_plain, draw.code, draw.fitting
local fence_for, capped, folded, fenced = draw.fence_for, draw.capped, draw.folded, draw.fenced
local key_chunks = draw.key_chunks

local M = {}

local RULE_WIDTH = 44

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
    tail[#tail + 1] = item.status
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
  local title = item.status == 'writing' and item.name or item.title
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
  waits(block, nest)
  local last = #block.lines - 1
  local inner = nest and nest.calls > 0
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
    approval_hint(block, item.approval, options)
  end
end

return M
