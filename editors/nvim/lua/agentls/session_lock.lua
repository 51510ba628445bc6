-- A session that another server has open: whether to look at it only, or to end that server and take the session.

local notifications = require('agentls.notifications')
local format = require('agentls.format')

local M = {}

---How long a server has to end when it is asked to, in ms, before it is killed.
M.TERM_TIMEOUT_MS = 2000

---The process that has a session, if it is a server on this machine.
---@param holder? string As the server names it.
---@return integer?
local function find_process(holder)
  local pid = tonumber((holder or ''):match('%(process (%d+)%)'))
  if not pid or vim.fn.executable('ps') == 0 then
    return nil
  end
  local found = vim.system({ 'ps', '-p', tostring(pid), '-o', 'comm=' }, { text = true }):wait(1000)
  return (found.stdout or ''):find('agentls', 1, true) and pid or nil
end

---Ends a server: it is asked first, and killed when it does not obey.
---@param pid integer
---@param ended fun()
local function end_process(pid, ended)
  vim.uv.kill(pid, 'sigterm')
  vim.defer_fn(function()
    if vim.uv.kill(pid, 0) == 0 then
      vim.uv.kill(pid, 'sigkill')
    end
  end, M.TERM_TIMEOUT_MS)
  -- The server waits some seconds for a lock; who had it may start again meanwhile.
  ended()
end

---Asks what to do with a session that another server has open.
---@param holder? string
---@param chosen fun(choice: 'look'|'take'|nil)
function M.ask_action(holder, chosen)
  local text = holder and (' (%s)'):format(format.display_text(holder)) or ''
  local pid = find_process(holder)
  local look, leave = 'Look at it only', 'Leave it'
  local take = pid and ('Take it over: end process %d and what it does'):format(pid)
  vim.ui.select(
    vim.tbl_filter(function(choice)
      return choice
    end, { look, take or false, leave }),
    { prompt = 'The session is open in another server' .. text, kind = 'agentls.lock' },
    function(choice)
      if choice == look then
        chosen('look')
      elseif choice and choice == take and pid then
        notifications.notify(('ending process %d and taking the session'):format(pid))
        end_process(pid, function()
          chosen('take')
        end)
      else
        chosen(nil)
      end
    end
  )
end

return M
