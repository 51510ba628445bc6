-- Redraws the bars of all windows when their texts have changed. A redraw of the bars costs as much as one of the
-- screen, and must not come directly after a change of a buffer: its highlighter may not know the new lines yet.

local statusline = require('agentls.statusline')

local M = {}

---The texts of the bars when they were last redrawn.
---@type string?
local drawn_texts = nil

---What the bars show, whatever the width of their windows.
---@return string
local function collect_texts()
  local texts = {}
  for id, session in pairs(require('agentls.sessions').all) do
    local winbar = require('agentls.winbar').format_chat_bar(session, math.huge)
    local prompt_bar = require('agentls.prompt').format_bar(session, math.huge)
    table.insert(texts, table.concat({ id, statusline.format_session(session), winbar, prompt_bar }, '\n'))
  end
  table.sort(texts)
  return table.concat(texts, '\n')
end

---Redraws the bars in the next iteration of the event loop, if their texts have changed since they were last redrawn.
function M.redraw_if_changed()
  local texts = collect_texts()
  if texts ~= drawn_texts then
    drawn_texts = texts
    vim.schedule(function()
      vim.cmd('redrawstatus!')
    end)
  end
end

return M
