-- Short notices for the person: on one line, with nothing in them that hides.

local text = require('agentls.text')

local M = {}

---Notifies in one line that fits the message area, so that no Enter is needed. `subject` gives way first.
---@param before string
---@param subject? string Words of the model or of the repository.
---@param after? string
---@param level? integer
function M.say(before, subject, after, level)
  before, after = 'agentls: ' .. before, after or ''
  local columns = vim.fn.strdisplaywidth
  local room = vim.v.echospace - columns(before) - columns(after)
  local words = text.visible(text.one_line(subject or '', 4000))
  if columns(words) > room then
    words = text.pieces(words, math.max(room - 1, 12), vim.api.nvim_strwidth)[1] .. '…'
  end
  vim.notify(before .. words .. after, level or vim.log.levels.INFO)
end

---Notifies with the start of words that may be long; `:messages` has all of them.
---@param words string
---@param level? integer
function M.say_start(words, level)
  M.say('', words, nil, level)
  if vim.fn.strdisplaywidth(words) > vim.v.echospace - #'agentls: ' then
    vim.cmd.echomsg({ vim.fn.string('agentls: ' .. text.reveal(words)), mods = { silent = true } })
  end
end

return M
