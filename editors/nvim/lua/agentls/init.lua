-- The public Lua API: what a user's configuration calls.
--
-- Loading this module starts no server. It loads the other modules only when a function needs them.

local M = {}

---Sets options. You need this only to change a default. Reports each invalid option and keeps its default.
---@param options? agentls.Options
function M.setup(options)
  require('agentls.config').set_options(options)
  -- A plugin manager may add this plugin to 'runtimepath' after Neovim loaded the plugins.
  if not vim.g.loaded_agentls then
    vim.cmd.runtime('plugin/agentls.lua')
  end
end

---Returns the activity, open questions, context, and cost of the current session for a statusline. Empty without a
---session.
---@return string
function M.statusline()
  -- A statusline must not load or start anything.
  local sessions = package.loaded['agentls.sessions']
  local session = sessions and sessions.get_current()
  if not session then
    return ''
  end
  return require('agentls.statusline').format_session(session)
end

---Sends a prompt to the agent. It starts a turn, or steers the running one.
---@param prompt agentls.PromptContent
function M.prompt(prompt)
  local sessions = require('agentls.sessions')
  require('agentls.view')
  sessions.ensure_session(function(session)
    sessions.send_prompt(session, prompt)
  end, sessions.get_prompt_text(prompt))
end

---Returns the state of the current session, or nil without a session. Do not change it.
---@return agentls.State?
function M.state()
  local sessions = package.loaded['agentls.sessions']
  local session = sessions and sessions.get_current()
  return session and session.state
end

return M
