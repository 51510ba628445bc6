-- Renders a tool call: its title, its approval request, its diff, and its output. It must not touch a buffer.

local config = require('agentls.config')
local draw = require('agentls.render.block')
local losses = require('agentls.losses')
local protocol = require('agentls.protocol')
local rules = require('agentls.rules')
local format = require('agentls.format')

local add_line, add_mark, add_escaped, inline_code =
  draw.add_line, draw.add_mark, draw.add_escaped, draw.inline_code
local build_fence, limit_lines, format_fold_count, add_code_block =
  draw.build_fence, draw.limit_lines, draw.format_fold_count, draw.add_code_block
local append_key_hint = draw.append_key_hint

local M = {}

---Below how many columns the name of a call is not truncated.
local MIN_TITLE_COLUMNS = 12

---The columns to assume if no window shows the chat.
local DEFAULT_WIDTH = 80

---How many lines at the end of a failed call's output stay visible while its fold is closed.
local VISIBLE_FAILURE_LINES = 5

local DIFF_GROUPS = { ['+'] = 'AgentlsAdded', ['-'] = 'AgentlsRemoved', ['@'] = 'AgentlsHunk' }

---Formats how many bytes the server cut from a field. Returns nil if it cut none.
---@param truncated? agentls.TruncatedField
---@param received string The part that the server sent.
---@param hint string
---@return string?
local function format_truncation(truncated, received, hint)
  local hidden = truncated and truncated.bytes - #received - #(truncated.tail or '')
  return hidden and ('⋯ %s are not shown here%s'):format(format.byte_size(math.max(hidden, 0)), hint)
end

---Renders a unified diff. Omits the name of a single file, because the title contains it.
---@param truncated? agentls.TruncatedField
local function render_diff(block, diff, options, truncated)
  local hint = options.keys and options.keys.diff and (': %s opens all'):format(options.keys.diff) or ''
  local all_lines, file_count = format.split_lines(format.reveal_hidden(diff)), 0
  for _, line in ipairs(all_lines) do
    file_count = file_count + (line:sub(1, 4) == '+++ ' and 1 or 0)
  end
  local lines = {}
  for i, line in ipairs(all_lines) do
    local is_header = line:sub(1, 4) == '--- ' or line:sub(1, 4) == '+++ '
    if not (file_count == 1 and i <= 2 and is_header) then
      lines[#lines + 1] = line
    end
  end
  lines = limit_lines(lines, options.output_lines, hint)
  local fence = build_fence(lines)
  add_line(block, fence .. 'diff')
  for _, line in ipairs(lines) do
    local is_header = file_count > 1 and (line:sub(1, 4) == '--- ' or line:sub(1, 4) == '+++ ')
    add_line(block, line, is_header and 'AgentlsHunk' or DIFF_GROUPS[line:sub(1, 1)])
  end
  add_line(block, fence)
  local truncation = format_truncation(truncated, diff, hint)
  if truncation then
    add_line(block, truncation, 'AgentlsWarn')
  end
end

---Formats the input of a call as lines: a command verbatim, other arguments by name.
---@param is_full? boolean Truncate nothing.
local function format_input(input, is_full)
  if type(input) ~= 'table' then
    return format.split_lines(tostring(input)), nil
  end
  local names = {}
  for name in pairs(input) do
    names[#names + 1] = tostring(name)
  end
  table.sort(names)
  if input.command and type(input.command) == 'string' then
    local lines = format.split_lines(input.command)
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
      for _, line in ipairs(format.split_lines(value)) do
        lines[#lines + 1] = '  ' .. line
      end
    elseif type(value) == 'table' then
      lines[#lines + 1] = name
        .. ': '
        .. (is_full and vim.json.encode(value) or format.single_line(vim.json.encode(value), 400))
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

---The label of each key at an approval.
local ACTIONS = {
  allow = 'allow',
  deny = 'deny',
  allowSession = 'this session',
  allowAlways = 'always',
  edit = 'edit',
  diff = 'diff',
}

---Builds the chords of the prompt, as lines of chunks that fit the window. Virtual lines do not wrap.
---@param keys agentls.Config.keys
---@param columns integer
---@return [string, string][][]
local function build_chord_hints(keys, columns)
  local units = { { { 'in the prompt: ', 'AgentlsDim' } } }
  for _, hint in ipairs({ { keys.prompt_approve, 'allow  ' }, { keys.prompt_question, 'to this card' } }) do
    local unit = {}
    append_key_hint(unit, hint[1], hint[2])
    table.insert(units, #unit > 0 and unit or nil)
  end
  local lines, used_columns = { {} }, 0
  for _, unit in ipairs(#units > 1 and units or {}) do
    local unit_columns = 0
    for _, chunk in ipairs(unit) do
      unit_columns = unit_columns + vim.fn.strdisplaywidth(chunk[1])
    end
    if used_columns > 0 and used_columns + unit_columns > columns then
      lines[#lines + 1], used_columns = {}, 0
    end
    vim.list_extend(lines[#lines], unit)
    used_columns = used_columns + unit_columns
  end
  return #units > 1 and lines or {}
end

---Builds the keys that answer an approval, as lines of chunks that fit the window.
---@param approval agentls.ApprovalRequestedNotification
---@return [string, string][][]
local function build_answer_hints(approval, options, columns)
  if not options.keys then
    return { { { ':AgentApprove  :AgentDeny  :AgentDiff', 'AgentlsKey' } } }
  end
  local lines, used_columns = { {} }, 0
  for _, entry in ipairs(protocol.approval_keys) do
    local key = options.keys[config.APPROVAL_KEY_OPTIONS[entry.action]]
    local needs_rule = entry.action == 'allowSession' or entry.action == 'allowAlways'
    local is_offered = not (needs_rule and not approval.rule)
      and not (entry.action == 'diff' and not approval.diff)
    if key and is_offered then
      local text = ACTIONS[entry.action]
      local hint_columns = vim.fn.strdisplaywidth(key .. text) + 3
      if used_columns > 0 and used_columns + hint_columns > columns then
        lines[#lines + 1], used_columns = {}, 0
      end
      append_key_hint(lines[#lines], key, text)
      used_columns = used_columns + hint_columns
    end
  end
  vim.list_extend(lines, build_chord_hints(options.keys, columns))
  return lines
end

---Renders what `session` and `always` would allow, in full, and the keys.
---@param approval agentls.ApprovalRequestedNotification
local function render_approval_hint(block, approval, options, width)
  local keys = options.keys
  if approval.rule then
    local names = keys
        and vim.tbl_filter(function(key)
          return key ~= false
        end, { keys.approve_session, keys.approve_always })
      or {}
    local key_names = #names > 0 and table.concat(names, ' and ') or 'session and always'
    local is_wide = rules.is_wide(approval.rule)
    local head = is_wide and '  %s allow more than this call (press twice):' or '  %s also allow:'
    add_line(block, head:format(key_names), is_wide and 'AgentlsWarn' or 'AgentlsDim')
    for _, description in ipairs(rules.describe_rules(approval.rule)) do
      draw.add_wrapped(block, '    ', description.text, width, inline_code)
    end
  end
  -- A separate line: a fence above may be concealed, and its virtual text with it.
  add_line(block, '')
  block.footer = build_answer_hints(approval, options, width - 4 - 2 * block.depth)
end

---Renders the full request: the command or the address as the server reveals it, else the arguments.
---@param item agentls.Item.tool
local function render_request(block, item, options, width, hint)
  local approval = item.approval
  local lines, language, truncation
  if approval.shown then
    lines = format.split_lines(approval.shown)
    language = type(item.input) == 'table' and item.input.command and 'sh' or nil
    truncation = format_truncation(approval.more and approval.more.shown, approval.shown, hint)
  else
    lines, language = format_input(item.input, true)
    local truncated = approval.more and approval.more.input
    local key = options.keys and options.keys.edit
    truncation = truncated
      and ('⋯ cut: %s in all%s'):format(
        format.byte_size(truncated.bytes),
        key and (': %s opens all'):format(key) or ''
      )
  end
  local fence = draw.build_text_fence(table.concat(lines, '\n'))
  add_line(block, fence .. (language or ''))
  for _, line in ipairs(lines) do
    draw.add_wrapped(block, '', line, width)
  end
  add_line(block, fence)
  if truncation then
    add_line(block, truncation, 'AgentlsWarn')
  end
end

local RISK_GROUPS = { high = 'AgentlsWarn', medium = 'AgentlsAsk' }

---Renders the risk, the reason, and the options of a call that asks.
---@param approval agentls.ApprovalRequestedNotification
---@param summary? agentls.LossSummary
local function render_approval_reason(block, approval, summary)
  local risk, reason = approval.risk .. ' risk', summary and summary.reason or approval.why
  local separator = reason ~= '' and ' · ' or ''
  add_escaped(block, ('  %s%s'):format(risk, separator), format.display_text(reason))
  -- The group of a whole line would cover the color of the risk.
  add_mark(block, 2, 2 + #risk, RISK_GROUPS[approval.risk] or 'AgentlsDim')
  add_mark(block, 2 + #risk, #block.lines[#block.lines], 'AgentlsDim')
  for _, option in ipairs(approval.options or {}) do
    add_escaped(block, '  ! ', format.display_text(option), 'AgentlsWarn')
  end
end

---Renders something that a call would delete or overwrite: its name in full, and its size.
---@param row agentls.LossRow
local function render_loss(block, row, width)
  draw.add_wrapped(block, '    ', row.what, width, inline_code)
  if row.size == '' then
    return
  end
  local line, size = block.lines[#block.lines], ' · ' .. row.size
  if vim.fn.strdisplaywidth(line .. size) > width - 2 * block.depth then
    return add_line(block, '     ' .. size, 'AgentlsDim')
  end
  block.lines[#block.lines] = line .. size
  add_mark(block, #line, #line + #size, 'AgentlsDim')
end

---Renders what a call would delete or overwrite for good, above the keys.
---@param summary agentls.LossSummary
local function render_losses(block, summary, options, width)
  add_line(block, '  ! This would be lost for good:', 'AgentlsError')
  for _, row in ipairs(summary.rows) do
    render_loss(block, row, width)
  end
  if summary.more then
    local key = summary.full_lines and options.keys and options.keys.open
    add_line(block, '    ' .. summary.more .. (key and (': %s opens all'):format(key) or ''), 'AgentlsError')
  end
end

local DECISIONS = {
  allowSession = 'allowed for this session',
  allowAlways = 'allowed from now on',
}
local SETTLED = {
  rule = 'by a rule',
  cancel = 'by canceling the turn',
  timeout = 'timed out',
  newPrompt = 'by a new prompt',
}

---Renders what the sub-agents of a call wait for.
local function render_subagent_notices(block, placement)
  for _, notice in ipairs(placement and placement.notices or {}) do
    local is_retry = notice.kind == 'retry'
    add_escaped(block, is_retry and '⟳ ' or '⧗ ', notice.text, is_retry and 'AgentlsWarn' or 'AgentlsDim')
  end
end

---Counts the lines that a complete diff adds and removes, as ` +2 -1`; nil if it is cut.
---@param item agentls.Item.tool
---@return string?
local function format_diff_counts(item)
  if not item.diff or item.diff == '' or (item.more and item.more.diff) then
    return nil
  end
  local added, removed, is_header = 0, 0, true
  for line in item.diff:gmatch('[^\n]+') do
    is_header = line:sub(1, 2) ~= '@@' and (is_header or line:sub(1, 4) == '--- ')
    local sign = not is_header and line:sub(1, 1)
    added, removed = added + (sign == '+' and 1 or 0), removed + (sign == '-' and 1 or 0)
  end
  return (added > 0 and (' +%d'):format(added) or '') .. (removed > 0 and (' -%d'):format(removed) or '')
end

---Finds the errors that an edit brought, at the end of its result as `src/tool/new_errors.rs` writes it.
---@param item agentls.Item.tool
---@return string? summary `1 new error`
---@return string? list
local function find_new_errors(item)
  if not item.diff or not item.output then
    return nil
  end
  return item.output:match('\nThe editor reports (%d+ [^:\n]+):\n(.+)$')
end

---Lists the parts of a call's head after its name, with what to leave out first where the window is narrow.
---@param item agentls.Item.tool
---@param placement? agentls.SubagentPlacement
---@return { text: string, priority?: integer, group?: string }[]
local function build_head_details(item, placement)
  local parts = {}
  local function add(text, priority, group)
    table.insert(parts, { text = text, priority = priority, group = group or 'AgentlsDim' })
  end
  if item.status == 'writing' then
    add(' · being written, ' .. format.byte_size(item.written or 0), 1)
  elseif item.status == 'denied' or item.status == 'cancelled' or item.status == 'failed' then
    add(' · ' .. (item.status == 'failed' and item.exitCode and 'exit ' .. item.exitCode or item.status))
  elseif not item.approval then
    local counts = format_diff_counts(item) or ''
    for count in counts:gmatch(' [+-]%d+') do
      add(count, 1, count:find('+', 1, true) and 'AgentlsAdded' or 'AgentlsRemoved')
    end
  end
  local new_errors = find_new_errors(item)
  if new_errors then
    add(' · ' .. new_errors, nil, 'AgentlsError')
  end
  if placement and placement.calls > 0 then
    add(' · ' .. (placement.calls == 1 and '1 call' or placement.calls .. ' calls'), 1)
  end
  if item.durationMs then
    add(' · ' .. format.duration(item.durationMs), 3)
  end
  local decision = item.decision
  if decision and (DECISIONS[decision.decision] or SETTLED[decision.by]) then
    add(' · ' .. (DECISIONS[decision.decision] or SETTLED[decision.by]), 2)
  end
  return parts
end

---Writes the head of a call into its reserved line: the name first, then as many details as fit.
---@param block agentls.Block
---@param row integer
---@param item agentls.Item.tool
---@param details { text: string, priority?: integer, group?: string }[]
---@param options agentls.RenderOptions
local function write_head(block, row, item, details, options)
  local icon = ICONS[item.status] or { '·', 'AgentlsDim' }
  local title = format.display_text(item.status == 'writing' and item.name or item.title)
  local head, marks = icon[1] .. ' ', {}
  table.insert(marks, { row = row, from = 0, to = #head, group = icon[2] })
  local parts = vim.list_extend({ { text = title, min = MIN_TITLE_COLUMNS } }, details)
  -- A fold has one line. An approval request shows its title in full.
  local columns = options.width and not item.approval and options.width - 2 - 2 * block.depth or math.huge
  local _, left_out, fitted_title = draw.fit_parts(parts, columns)
  head = head .. inline_code(fitted_title)
  for i, part in ipairs(details) do
    if not left_out[i + 1] then
      local blanks = #part.text:match('^ *')
      table.insert(marks, { row = row, from = #head + blanks, to = #head + #part.text, group = part.group })
      head = head .. part.text
    end
  end
  block.lines[row + 1] = format.reveal_hidden(head, true)
  vim.list_extend(block.marks, marks)
end

---@param item agentls.Item.tool
---@param options agentls.RenderOptions
---@param placement? agentls.SubagentPlacement
function M.render_tool_call(block, item, options, placement)
  local width, details = options.width or DEFAULT_WIDTH, build_head_details(item, placement)
  local decision = item.decision
  local title = format.display_text(item.title or '')
  add_line(block, '')
  local head_row = #block.lines - 1
  local summary = item.approval and losses.summarize_losses(item.approval)
  if item.approval then
    render_approval_reason(block, item.approval, summary)
  end
  local first = #block.lines - 1
  local hint = options.keys and options.keys.open and (': %s opens all'):format(options.keys.open) or ''
  if decision and decision.decision == 'deny' and decision.feedback and decision.feedback ~= '' then
    add_escaped(block, 'feedback: ', format.single_line(decision.feedback, 400), 'AgentlsDim')
  end
  -- Show the full command in an approval request, and wherever the title differs from it.
  local command = type(item.input) == 'table' and item.input.command
  if item.approval then
    local is_in_title = item.approval.shown == title
      and vim.fn.strdisplaywidth(title) < width - 4 - 2 * block.depth
    if not is_in_title and (item.approval.shown or not item.diff) then
      render_request(block, item, options, width, hint)
    end
  elseif not item.diff and command and command ~= item.title then
    local lines, language = format_input(item.input)
    add_code_block(block, limit_lines(lines, options.output_lines, hint), language)
  end
  if item.diff and item.diff ~= '' then
    local truncated = item.approval and item.approval.more or item.more
    render_diff(block, item.diff, options, truncated and truncated.diff)
    local _, errors = find_new_errors(item)
    if errors then
      add_code_block(block, format.split_lines(errors))
    end
  end
  -- How many lines stay outside the fold: the end of a failed call's output.
  local visible = 0
  local has_failed = item.status == 'failed' or item.status == 'cancelled'
  if item.output and item.output ~= '' and (not item.diff or has_failed) then
    local lines = format.split_lines(item.output)
    local truncated = item.more and item.more.output
    if truncated then
      local hidden = truncated.bytes - #item.output - #(truncated.tail or '')
      lines[#lines + 1] = ('⋯ %s are not shown here%s'):format(format.byte_size(math.max(hidden, 0)), hint)
      vim.list_extend(lines, format.split_lines(truncated.tail or ''))
    end
    add_code_block(block, limit_lines(lines, options.output_lines, hint))
    visible = item.status == 'failed' and math.min(#lines, VISIBLE_FAILURE_LINES) + 1 or 0
  elseif item.live and item.live ~= '' then
    local lines, last = format.split_lines(item.live), {}
    for i = math.max(1, #lines - 9), #lines do
      last[#last + 1] = lines[i]
    end
    add_code_block(block, limit_lines(last, options.output_lines, hint))
  end
  render_subagent_notices(block, placement)
  local has_subagent_calls = placement and placement.calls > 0
  local last = #block.lines - 1 - (has_subagent_calls and 0 or visible)
  if visible > 0 and last - first < 2 then
    -- The fold would hide only the fence.
    last = first
  end
  -- Approval requests and running calls stay open. The fold of a call includes its sub-agents.
  if (last > first or has_subagent_calls) and not item.approval and item.status ~= 'running' then
    block.folds[#block.folds + 1] = { first, last }
  end
  if last > first and not item.approval and item.status ~= 'running' then
    -- The counts of an edit say more than how many lines its diff has.
    local is_counted = item.status == 'completed' and format_diff_counts(item) ~= nil
    local count = is_counted and ' ⋯' or format_fold_count(last - first)
    table.insert(details, { text = count, priority = not is_counted and 2 or nil, group = 'AgentlsDim' })
  end
  write_head(block, head_row, item, details, options)
  if item.approval then
    if summary then
      render_losses(block, summary, options, width)
    end
    render_approval_hint(block, item.approval, options, width)
  end
end

return M
