-- Formats the status of a chat: notices, queued prompts, activity, and usage. It must not touch a buffer.

local config = require('agentls.config')
local draw = require('agentls.render.block')
local format = require('agentls.format')

local M = {}

local SPINNER = { '⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏' }
---Truncates a line of chunks to the width of the window.
---@param line [string, string][]
---@param width integer
local function fit_chunks(line, width)
  local fitted_chunks = {}
  for _, chunk in ipairs(line) do
    local chunk_width = vim.fn.strdisplaywidth(chunk[1])
    if chunk_width > width then
      if width > 0 then
        table.insert(fitted_chunks, { draw.fit_columns(chunk[1], width), chunk[2] })
      end
      break
    end
    width = width - chunk_width
    table.insert(fitted_chunks, chunk)
  end
  return fitted_chunks
end

---The interval between two frames of the animation, in ms.
M.SPIN_MS = 120

local function get_now_ms()
  local seconds, micros = vim.uv.gettimeofday()
  return seconds * 1000 + math.floor(micros / 1000)
end

local MARKS = {
  retry = '⟳',
  wait = '⧗',
  switched = '↷',
  compacted = '⊟',
  circuit = '⊘',
  retracted = '↺',
  transition = '⟳',
}
local NOTICE_GROUPS =
  { retry = 'AgentlsWarn', circuit = 'AgentlsWarn', switched = 'AgentlsWarn', retracted = 'AgentlsWarn' }
local ACTIVITIES =
  { thinking = 'thinking', answering = 'answering', calling = 'writing a tool call', tool = 'running a tool' }

---How many of the queued or sent prompts are shown.
local MAX_PROMPTS = 3

---Formats the queued prompts, each on one line.
---@param state agentls.State
---@param width integer
---@return [string, string][][]
function M.format_queue(state, width)
  local lines, queue, keys = {}, state.queue, config.current.keys
  for i, prompt in ipairs(queue and queue.prompts or {}) do
    if i > MAX_PROMPTS then
      table.insert(lines, { { ('⧗ and %d more'):format(#queue.prompts - MAX_PROMPTS), 'AgentlsDim' } })
      break
    end
    local mark = queue.paused and '⧗ queued (paused): ' or '⧗ queued: '
    local hint = i == 1 and (' · %s'):format(keys and keys.queue or ':AgentQueue') or ''
    local columns = math.max(12, width - vim.fn.strdisplaywidth(mark .. hint) - 4)
    local text = draw.fit_columns(format.single_line(prompt.text, 4 * columns), columns)
    table.insert(lines, {
      { mark, queue.paused and 'AgentlsWarn' or 'AgentlsDim' },
      { text, 'AgentlsUser' },
      { hint, 'AgentlsDim' },
    })
  end
  return lines
end

---Formats the sent prompts that are not in the chat yet.
---@param state agentls.State
---@return [string, string][][]
local function format_unconfirmed(state)
  local lines, prompts = {}, state.unconfirmedPrompts or {}
  for i = 1, math.min(MAX_PROMPTS, #prompts) do
    local mark = state.running and '↪ waiting: ' or '↪ sending: '
    table.insert(lines, { { mark, 'AgentlsDim' }, { format.single_line(prompts[i], 400), 'AgentlsUser' } })
  end
  if #prompts > MAX_PROMPTS then
    table.insert(lines, { { ('↪ and %d more'):format(#prompts - MAX_PROMPTS), 'AgentlsDim' } })
  end
  return lines
end

---Formats the status, each line as a list of chunks. The last line belongs on the buffer's last line.
---@param state agentls.State
---@param width integer
---@return [string, string][][] lines
---@return boolean is_animated Whether the lines change with time.
function M.format_lines(state, width)
  local lines, is_animated, now = {}, false, get_now_ms()
  -- Virtual lines do not wrap.
  local function add_wrapped(mark, text, group)
    for i, line in ipairs(format.wrap_words(format.reveal_hidden(text), math.max(20, width - 2))) do
      table.insert(lines, { { (i == 1 and mark or '  ') .. line, group } })
    end
  end
  -- The notices of sub-agents are shown at their calls.
  local notices = vim.tbl_filter(function(notice)
    return not notice.parent
  end, state.notices)
  for _, notice in ipairs(notices) do
    local remaining_ms = notice.endsAt and notice.endsAt - now
    if not (notice.kind == 'circuit' and remaining_ms and remaining_ms <= 0) then
      local group = NOTICE_GROUPS[notice.kind] or 'AgentlsDim'
      local text = notice.text
      if remaining_ms and remaining_ms > 0 then
        is_animated = true
        text = text
          .. (notice.kind == 'retry' and ' in ' or ' · ')
          .. format.duration(math.max(100, math.floor(remaining_ms / 100) * 100))
      end
      add_wrapped((MARKS[notice.kind] or '·') .. ' ', text, group)
    end
  end
  local keys = config.current.keys
  vim.list_extend(lines, format_unconfirmed(state))
  vim.list_extend(lines, M.format_queue(state, width))
  if state.offline then
    add_wrapped('■ ', state.offline, 'AgentlsError')
  elseif #state.approvals + #state.inquiries > 0 then
    local count = #state.approvals + #state.inquiries
    local text = count == 1 and 'a question needs your answer'
      or ('%d questions need your answers'):format(count)
    add_wrapped('? ', text, 'AgentlsAsk')
    if not state.running then
      add_wrapped('  ', ':AgentResume continues the turn', 'AgentlsAsk')
    end
  elseif state.running then
    is_animated = true
    local frame = SPINNER[math.floor(now / M.SPIN_MS) % #SPINNER + 1]
    local line = {
      {
        frame
          .. ' '
          .. (state.compacting and 'summarizing the history' or ACTIVITIES[state.activity] or 'working'),
        'AgentlsBusy',
      },
    }
    local elapsed_ms = state.startedAt and now - state.startedAt or 0
    if elapsed_ms >= 1000 then
      table.insert(
        line,
        { ' · ' .. format.duration(math.floor(elapsed_ms / 1000) * 1000):gsub('%.0', ''), 'AgentlsDim' }
      )
    end
    local stop = keys and keys.cancel or ':AgentCancel'
    table.insert(line, { (' · %s stops'):format(stop), 'AgentlsDim' })
    table.insert(lines, line)
  elseif #state.items == 0 then
    local text = keys
        and keys.prompt
        and ('%s: write a prompt · %s: show the keys'):format(keys.prompt, keys.help or ':h agentls')
      or 'write a prompt with :AgentPrompt'
    table.insert(lines, { { text, 'AgentlsDim' } })
  end
  for i, line in ipairs(lines) do
    lines[i] = fit_chunks(line, width)
  end
  return lines, is_animated
end

---Returns the name of a model without its provider and date.
---@param model string
---@return string
function M.shorten_model_name(model)
  return (model:gsub('^.*/', ''):gsub('%-%d%d%d%d%d%d%d%d$', ''))
end

---Formats the used context and the cost.
---@param state agentls.State
---@return string
function M.format_usage(state)
  local parts = {}
  if state.contextUsed and (state.contextWindow or 0) > 0 then
    local percent = state.contextUsed * 100 / state.contextWindow
    table.insert(
      parts,
      ('ctx %s%%'):format(percent > 0 and percent < 1 and '<1' or tostring(math.floor(percent + 0.5)))
    )
  end
  if (state.contextUsed or 0) > 0 then
    table.insert(parts, format.cost(state.costUsd))
  end
  return table.concat(parts, ' · ')
end

return M
