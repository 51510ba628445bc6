-- Formats the bar above a chat to fit its window.

local buffers = require('agentls.buffers')
local draw = require('agentls.render.block')
local chat_status = require('agentls.chat_status')
local format = require('agentls.format')

local M = {}

---The least width of a session's title, in columns.
local MIN_TITLE_COLUMNS = 8
local MAX_TITLE_BYTES = 2000

---Formats the bar of a session: the title, and at the right agent, model, mode, and usage.
---@param session agentls.Session
---@param width integer
---@return string
function M.format_chat_bar(session, width)
  local state, parts = session.state, {}
  local function add(text)
    if text and text ~= '' then
      table.insert(parts, text)
    end
  end
  add(session.is_read_only and 'read-only')
  add(session.agent ~= 'default' and session.agent)
  local model = state.model or session.default_model
  add(model and (state.switchedFrom and '↷ ' or '') .. chat_status.shorten_model_name(model))
  add(state.effort)
  add(state.mode)
  add(chat_status.format_usage(state))
  local columns = vim.fn.strdisplaywidth
  local details = table.concat(parts, ' · ')
  -- The first parts matter most: who answers, and what they may do.
  while #parts > 0 and columns(format.display_text(details)) + MIN_TITLE_COLUMNS + 4 > width do
    table.remove(parts)
    details = table.concat(parts, ' · ')
  end
  details = format.display_text(details)
  local title = format.display_text(
    format.single_line(state.title or 'new session', math.min(4 * width, MAX_TITLE_BYTES))
  )
  title = draw.fit_columns(title, math.max(MIN_TITLE_COLUMNS, width - columns(details) - 3))
  return (' %s%%=%%#AgentlsDim#%s '):format(
    buffers.escape_statusline(title),
    buffers.escape_statusline(details)
  )
end

return M
