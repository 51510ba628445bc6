-- Handles a session that another server has open: asks whether to load it read-only, or to stop that server.

local dialog = require('agentls.dialog')
local notifications = require('agentls.notifications')
local format = require('agentls.format')

local M = {}

---How long a server may take to exit after SIGTERM, in ms. Then it is killed.
M.TERM_TIMEOUT_MS = 2000

---Returns the process that has a session open, if it is a server on this machine.
---@param holder? string The holder's description from the server.
---@return integer?
local function find_process(holder)
  local pid = tonumber((holder or ''):match('%(process (%d+)%)'))
  if not pid or vim.fn.executable('ps') == 0 then
    return nil
  end
  local ps_result = vim.system({ 'ps', '-p', tostring(pid), '-o', 'comm=' }, { text = true }):wait(1000)
  return (ps_result.stdout or ''):find('agentls', 1, true) and pid or nil
end

---Terminates a server, and kills it after a timeout.
---@param pid integer
---@param on_signaled fun()
local function end_process(pid, on_signaled)
  vim.uv.kill(pid, 'sigterm')
  vim.defer_fn(function()
    if vim.uv.kill(pid, 0) == 0 then
      vim.uv.kill(pid, 'sigkill')
    end
  end, M.TERM_TIMEOUT_MS)
  -- Do not wait for the exit: our server waits some seconds for the lock, and the other one might restart.
  on_signaled()
end

---Asks what to do with a session that another server has open.
---@param holder? string
---@param on_choice fun(choice: 'open_read_only'|'take_over'|nil)
function M.ask_action(holder, on_choice)
  local text = holder and (' (%s)'):format(format.display_text(holder)) or ''
  local pid = find_process(holder)
  local read_only_label, cancel_label = 'Open it read-only', 'Cancel'
  local take_over_label = pid and ('Take it over: stop process %d and its work'):format(pid)
  dialog.select(
    vim.tbl_filter(function(choice)
      return choice
    end, { read_only_label, take_over_label or false, cancel_label }),
    { prompt = 'The session is open in another server' .. text, kind = 'agentls.lock' },
    function(choice)
      if choice == read_only_label then
        on_choice('open_read_only')
      elseif choice and choice == take_over_label and pid then
        notifications.notify(('stopping process %d and taking over the session'):format(pid))
        end_process(pid, function()
          on_choice('take_over')
        end)
      else
        on_choice(nil)
      end
    end
  )
end

return M
