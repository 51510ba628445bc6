-- The words of the bar above a chat, cut where the window ends.

local buffers = require('agentls.buffers')
local draw = require('agentls.render.block')
local status = require('agentls.status')
local text = require('agentls.text')

local M = {}

---The least room of a session's title, in columns.
local TITLE = 8

---What the bar says of a session, for a window of `width` columns: the title, and what is known of it at the right.
---@param session agentls.Session
---@param width integer
---@return string
function M.chat(session, width)
  local state, right = session.state, {}
  local function add(words)
    if words and words ~= '' then
      table.insert(right, words)
    end
  end
  add(session.readOnly and 'read only')
  add(session.agent ~= 'default' and session.agent)
  add(state.model and (state.switchedFrom and '↷ ' or '') .. status.model_name(state.model))
  add(state.effort)
  add(state.mode)
  add(status.meter(state))
  local columns = vim.fn.strdisplaywidth
  local tail = table.concat(right, ' · ')
  -- What comes first matters most: who answers, and what they may do.
  while #right > 0 and columns(text.visible(tail)) + TITLE + 4 > width do
    table.remove(right)
    tail = table.concat(right, ' · ')
  end
  tail = text.visible(tail)
  local title = text.visible(text.one_line(state.title or 'new session', 4 * width))
  title = draw.fitting(title, math.max(TITLE, width - columns(tail) - 3))
  return (' %s%%=%%#AgentlsDim#%s '):format(buffers.escaped(title), buffers.escaped(tail))
end

return M
