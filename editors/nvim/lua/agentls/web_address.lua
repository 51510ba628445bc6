-- Web addresses from servers and models. None is opened before the user has seen all of it and said yes.

local dialog = require('agentls.dialog')
local format = require('agentls.format')
local notifications = require('agentls.notifications')
local scratch = require('agentls.scratch')

local M = {}

---Returns the host of a web address, or nil for another kind of address.
---@param url string
---@return string?
function M.get_host(url)
  local authority = url:match('^https?://([^/?#]+)')
  return authority and authority:match('([^@]+)$')
end

---Shows an address, and opens or copies it if the user says so.
---@param title string
---@param url string
---@param on_answer fun(is_used: boolean) Whether the user opened or copied it.
function M.ask_to_open(title, url, on_answer)
  local host = M.get_host(url)
  if not host then
    notifications.notify_line('not a web address: ', url, '', vim.log.levels.ERROR)
    return on_answer(false)
  end
  local width = math.max(20, math.min(100, vim.o.columns - 8))
  local lines = { 'at ' .. host, '' }
  vim.list_extend(lines, format.split_columns(format.display_text(url), width, vim.api.nvim_strwidth))
  local close = scratch.open_float(title, lines)
  local no, yes, copy = 'No, do not open it', 'Yes, open it in the browser', 'Copy it, to open it elsewhere'
  dialog.select({ no, yes, copy }, {
    prompt = ('Open this address at %s?'):format(format.display_text(host)),
    kind = 'agentls.address',
  }, function(choice)
    close()
    if choice == yes then
      local _, failure = vim.ui.open(url)
      if failure then
        notifications.notify_truncated(failure, vim.log.levels.ERROR)
      end
    elseif choice == copy then
      local register = vim.fn.has('clipboard') == 1 and '+' or '"'
      vim.fn.setreg(register, url)
      notifications.notify(('the address is in the register %s'):format(register))
    end
    on_answer(choice == yes or choice == copy)
  end)
end

return M
