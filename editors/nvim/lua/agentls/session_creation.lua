-- Starts sessions, and finds the one that a command uses. sessions.lua exports its functions.
--
-- Owns the session that is being created. While there is one, every command that needs a session waits for it: two
-- commands in quick succession must not make two sessions.

local client = require('agentls.client')
local drafts = require('agentls.drafts')
local states = require('agentls.state')

local M = {}

---sessions.lua loads this module, so this module cannot load sessions.lua first.
local sessions = setmetatable({}, {
  __index = function(_, key)
    return require('agentls.sessions')[key]
  end,
})

---@class agentls.PendingSession
---@field callbacks fun(session: agentls.Session)[]
---@field unused_texts string[] What to keep for the user if there will be no session.
---@field send fun() Requests the session.
---@field lsp_id? integer The client of the server that was asked.

---@type agentls.PendingSession?
local pending = nil

---What waits for a session to be replaced, by session.
---@type table<agentls.Session, fun()[]>
local replacements = {}

---@param result agentls.NewSessionResult
---@param cwd string
---@return agentls.State
local function new_state(result, cwd)
  local state = states.new(result.sessionId)
  state.seq, state.cwd = result.seq, cwd
  state.mode, state.model, state.effort = result.mode, result.model, result.effort
  return state
end

---Ends the wait for a session that could not be created.
---@param err lsp.ResponseError
local function fail_creation(err)
  local failed = assert(pending)
  pending = nil
  for _, text in ipairs(failed.unused_texts) do
    drafts.keep_without_session(client.get_workspace_folders()[1], text)
  end
  sessions.report_error(err)
end

---@param session agentls.Session
local function finish_creation(session)
  local finished = assert(pending)
  pending = nil
  for _, callback in ipairs(finished.callbacks) do
    if pending then
      -- An earlier command asked for another session. What came after it belongs there.
      table.insert(pending.callbacks, callback)
      pending.unused_texts = finished.unused_texts
    else
      callback(session)
    end
  end
end

---Requests the session that is pending.
---@param options { agent?: string, model?: string, mode?: agentls.Mode, cwd?: string }
local function send_request(options)
  local target = pending
  client.ensure_ready(function(failure)
    if pending ~= target or not target then
      return
    elseif failure then
      return fail_creation({ code = 0, message = failure })
    end
    local cwd = options.cwd or client.get_workspace_folders()[1]
    client.ensure_folder(cwd)
    target.lsp_id = assert(client.get_lsp_client()).id
    -- With `remembered`, each absent option is what the user last chose in this workspace.
    local params =
      { cwd = cwd, agent = options.agent, model = options.model, mode = options.mode, remembered = true }
    client.request('agent/newSession', params, function(err, result)
      if pending ~= target then
        return
      elseif err then
        return fail_creation(err)
      end
      local session = sessions.upsert(result.sessionId, new_state(result, cwd))
      session.agent = options.agent
      sessions.set_current(session)
      finish_creation(session)
      sessions.fetch_default_model(session)
      require('agentls.trust').notify_untrusted(cwd)
    end)
  end)
end

---Whether nothing was sent in a session yet.
---@param session agentls.Session
function M.is_blank(session)
  return #session.state.items == 0 and #session.unsent == 0
end

---Starts a session. If one is being created, waits for it, and uses it unless a prompt was sent there or `options` ask
---for another one.
---@param options { agent?: string, model?: string, mode?: agentls.Mode, cwd?: string }
---@param callback fun(session: agentls.Session)
---@param unused_text? string What to keep for the user if there will be no session.
function M.create_session(options, callback, unused_text)
  if pending then
    table.insert(pending.callbacks, function(session)
      if next(options) == nil and M.is_blank(session) then
        return callback(session)
      end
      M.create_session(options, callback, unused_text)
    end)
    return
  end
  pending = {
    callbacks = { callback },
    unused_texts = { unused_text },
    send = function()
      send_request(options)
    end,
  }
  -- It keeps the text if Neovim exits meanwhile.
  require('agentls.prompt')
  pending.send()
end

---Continues after the server ended: it will not answer anymore.
---@param will_restart boolean
function M.handle_server_end(will_restart)
  if not pending then
    return
  elseif will_restart then
    return pending.send()
  end
  fail_creation({ code = 0, message = 'the session was not started, because the server ended' })
end

---Asks another server if the one that was asked is gone.
function M.handle_restart()
  local lsp = client.get_lsp_client()
  if pending and lsp and pending.lsp_id ~= lsp.id then
    pending.send()
  end
end

---Returns the texts that wait for the session that is being created.
---@return string[]
function M.list_waiting_texts()
  return pending and pending.unused_texts or {}
end

---Calls back with the current session, with the one that is being created, or with a new one. Starts the server if
---needed.
---@param callback fun(session: agentls.Session)
---@param unused_text? string What to keep for the user if there will be no session.
function M.ensure_session(callback, unused_text)
  if pending then
    table.insert(pending.unused_texts, unused_text)
    table.insert(pending.callbacks, callback)
    return
  end
  local session = sessions.get_current()
  if not session then
    return M.create_session({}, callback, unused_text)
  end
  if client.is_ready() then
    return callback(session)
  end
  client.ensure_ready(function(failure)
    if failure then
      if unused_text then
        sessions.observer.restore_prompt(session, unused_text)
      end
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

---Starts a session on the server in place of one that the server does not know. What the user typed there stays.
---@param session agentls.Session
---@param unknown_id string The id that the server does not know.
---@param callback fun()
function M.replace_session(session, unknown_id, callback)
  if session.id ~= unknown_id then
    return callback()
  elseif replacements[session] then
    table.insert(replacements[session], callback)
    return
  end
  replacements[session] = { callback }
  local state = session.state
  local cwd = state.cwd or client.get_workspace_folders()[1]
  local params =
    { cwd = cwd, agent = session.agent, model = state.model, mode = state.mode, remembered = true }
  client.request('agent/newSession', params, function(err, result)
    local callbacks = replacements[session]
    replacements[session] = nil
    if err then
      return sessions.report_error(err)
    end
    sessions.change_id(session, result.sessionId, new_state(result, cwd))
    for _, waiting in ipairs(callbacks) do
      waiting()
    end
  end)
end

return M
