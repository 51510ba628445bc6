-- Formats a session for a statusline. Neovim calls it at every redraw, so it must be cheap and send no request.

local chat_status = require('agentls.chat_status')
local format = require('agentls.format')

local M = {}

local NETWORKS = { open = ', network open', proxy = ', network by proxy' }

---Describes how the commands of a session are confined; nil before the server has said it.
---@param status? agentls.StatusNotification
---@param mode? agentls.Mode
---@return string?
function M.format_sandbox(status, mode)
  local sandbox = status and status.sandbox
  if not sandbox then
    return nil
  end
  if sandbox.method == 'off' then
    return 'sandbox off'
  end
  local policy
  for _, entry in ipairs(sandbox.policies) do
    policy = entry.mode == mode and entry.policy or policy
  end
  if policy == 'off' then
    return 'no sandbox'
  end
  local level = 'sandbox ' .. format.display_text(sandbox.level)
  if sandbox.level == 'none' then
    return level
  end
  return level .. (policy == 'readOnly' and ', read-only' or '') .. (NETWORKS[sandbox.network] or '')
end

---@param session agentls.Session
---@return string
function M.format_session(session)
  local state, parts = session.state, {}
  local questions = #state.approvals + #state.inquiries
  if state.offline then
    table.insert(parts, 'no server')
  elseif questions > 0 then
    table.insert(parts, questions == 1 and '? asks' or ('? asks %d'):format(questions))
  elseif #state.notices > 0 and state.running then
    table.insert(
      parts,
      state.notices[#state.notices].kind == 'retry' and 'retrying' or state.notices[#state.notices].kind
    )
  elseif state.running then
    table.insert(parts, state.compacting and 'compacting' or state.activity or 'working')
  else
    table.insert(parts, 'idle')
  end
  if state.queue then
    table.insert(parts, ('%d %s'):format(#state.queue.prompts, state.queue.paused and 'paused' or 'queued'))
  end
  local meter = chat_status.format_usage(state)
  if meter ~= '' then
    table.insert(parts, meter)
  end
  local sandbox = M.format_sandbox(require('agentls.sessions').status, state.mode)
  if sandbox then
    table.insert(parts, sandbox)
  end
  return ('agent: ' .. table.concat(parts, ' · ')):gsub('%%', '%%%%')
end

return M
