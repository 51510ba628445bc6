-- Starts sessions, and finds the one that a command uses. sessions.lua exports its functions.

local client = require('agentls.client')
local states = require('agentls.state')

local M = {}

---sessions.lua loads this module, so this module cannot load sessions.lua first.
local sessions = setmetatable({}, {
  __index = function(_, key)
    return require('agentls.sessions')[key]
  end,
})

---Starts a session.
---@param options { agent?: string, model?: string, mode?: agentls.Mode, cwd?: string }
---@param callback fun(session: agentls.Session)
function M.create_session(options, callback)
  client.ensure_ready(function(failure)
    if failure then
      return sessions.report_error({ code = 0, message = failure })
    end
    local cwd = options.cwd or client.get_workspace_folders()[1]
    client.ensure_folder(cwd)
    -- With `remembered`, each absent option is what the user last chose in this workspace.
    local params =
      { cwd = cwd, agent = options.agent, model = options.model, mode = options.mode, remembered = true }
    client.request('agent/newSession', params, function(err, result)
      if err then
        return sessions.report_error(err)
      end
      local state = states.new(result.sessionId)
      state.seq, state.cwd = result.seq, cwd
      state.mode, state.model, state.effort = result.mode, result.model, result.effort
      local session = sessions.upsert(result.sessionId, state)
      session.agent = options.agent
      sessions.set_current(session)
      callback(session)
      require('agentls.trust').notify_untrusted(cwd)
    end)
  end)
end

---Calls back with the current session, or with a new one. Starts the server if needed.
---@param callback fun(session: agentls.Session)
function M.ensure_session(callback)
  local session = sessions.get_current()
  if not session then
    return M.create_session({}, callback)
  end
  if client.is_ready() then
    return callback(session)
  end
  client.ensure_ready(function(failure)
    if failure then
      return sessions.report_error({ code = 0, message = failure })
    end
    if session.state.offline then
      return sessions.reload(session, function()
        callback(session)
      end)
    end
    callback(session)
  end)
end

return M
