-- Owns the open sessions and their states, and sends the requests that act on a session.
--
-- Each event from the server passes `handle_notification` once. Whether a turn runs follows only from `turnStarted` and
-- `turnEnded`, never from the response to a request. This module must not know how a session is drawn (view.lua).

local attention = require('agentls.attention')
local client = require('agentls.client')
local config = require('agentls.config')
local creation = require('agentls.session_creation')
local editor = require('agentls.editor')
local notifications = require('agentls.notifications')
local problems = require('agentls.problems')
local states = require('agentls.state')
local format = require('agentls.format')

local M = {}

---@class agentls.Session
---@field id string
---@field state agentls.State
---@field unsent agentls.UnsentPrompt[] Prompts that the server has not accepted yet.
---@field unconfirmed? agentls.UnconfirmedPrompt[] Sent prompts that are not in the chat yet, oldest first.
---@field is_read_only? boolean
---@field agent? string The named agent, if known.
---@field default_model? string The model that it uses as long as none is chosen, if known.
---@field is_from_queue? boolean Whether a queued prompt started the running turn.
---@field is_loading? boolean
---@field is_loading_earlier? boolean

---@class agentls.UnsentPrompt
---@field prompt agentls.PromptContent
---@field is_queued? boolean
---@field server_id? integer The client of the server that it was sent to; nil if the server was starting.

---A sent prompt that the model has not received yet.
---@class agentls.UnconfirmedPrompt
---@field text string
---@field is_steer boolean

---@type table<string, agentls.Session>
M.all = {}

---The session that a command uses if the current buffer belongs to none.
---@type string?
M.current_id = nil

---The latest `agent/status` of the server.
---@type agentls.StatusNotification?
M.status = nil

---@class agentls.SessionObserver Callbacks that view.lua sets.
M.observer = {
  ---@param _session agentls.Session
  on_change = function(_session) end,
  ---Whether the user sees the session.
  ---@param _session agentls.Session
  ---@return boolean
  is_visible = function(_session)
    return false
  end,
  ---The user sent a prompt.
  ---@param _session agentls.Session
  on_send = function(_session) end,
  ---Puts an unused prompt back into the prompt window.
  ---@param _session agentls.Session
  ---@param _words string
  restore_prompt = function(_session, _words) end,
  ---The session has another id now.
  ---@param _session agentls.Session
  ---@param _old_id string
  on_id_change = function(_session, _old_id) end,
}

---@param level? integer
local function notify(text, level)
  notifications.notify(format.reveal_hidden(text), level or vim.log.levels.INFO)
end

---The names of methods in the server's messages, and what a user of this plugin does instead.
local COMMAND_NAMES = {
  { 'agent/listSessions', ':AgentSessions' },
  { 'agent/loadSession', ':AgentSessions' },
  { 'agent/newSession', ':AgentNew' },
  { 'agent/listModels', ':AgentModel' },
  { 'agent/setModel', ':AgentModel' },
  { 'agent/listAgents', ':AgentAgent' },
  { 'agent/listGrants', ':AgentGrants' },
  { 'agent/listMcpServers', ':AgentMcp' },
  { 'agent/resumeTurn', ':AgentResume' },
  { 'agent/compact', ':AgentCompact' },
  { 'agent/prompt', ':AgentPrompt' },
  { 'agent/steer', ':AgentPrompt' },
  { 'agent/queue', ':AgentQueue' },
  { 'agent/cancel', ':AgentCancel' },
}

---Replaces the names of methods by commands: a user of the plugin does not know the protocol.
---@param text string
---@return string
local function name_commands(text)
  for _, names in ipairs(COMMAND_NAMES) do
    text = text:gsub(vim.pesc(names[1]) .. '%f[%W]', (names[2]:gsub('%%', '%%%%')))
  end
  return text
end

---Shows the error of a request.
---@param err lsp.ResponseError
function M.report_error(err)
  local data = type(err.data) == 'table' and err.data or {}
  local text = data.message or err.message or 'the request failed'
  if data.cause then
    text = text .. ': ' .. data.cause
  end
  if data.userAction then
    text = text .. '\n' .. data.userAction
  end
  notify((name_commands(text):gsub('^agentls: ', '')), vim.log.levels.ERROR)
end

---@param session? agentls.Session
---@param params? table
local function emit_event(name, session, params)
  vim.api.nvim_exec_autocmds('User', {
    pattern = name,
    modeline = false,
    data = { session_id = session and session.id, params = params },
  })
end

---@param session agentls.Session
---@param state agentls.State
local function set_state(session, state)
  if state ~= session.state then
    session.state = state
    M.observer.on_change(session)
  end
end

---@param id string
---@param state agentls.State
---@return agentls.Session
function M.upsert(id, state)
  local session = M.all[id]
  if session then
    set_state(session, state)
  else
    session = { id = id, state = state, unsent = {} }
    M.all[id] = session
    M.observer.on_change(session)
  end
  return session
end

---Sets the sent prompts that are not in the chat yet.
---@param session agentls.Session
---@param unconfirmed agentls.UnconfirmedPrompt[]
local function set_unconfirmed(session, unconfirmed)
  session.unconfirmed = unconfirmed
  local text = vim.tbl_map(function(prompt)
    return prompt.text
  end, unconfirmed)
  set_state(
    session,
    states.reduce(session.state, { method = 'client/unconfirmedPrompts', params = { text = text } })
  )
end

---Removes prompts that reached the chat or went back to the user.
---@param session agentls.Session
---@param matches fun(sent: agentls.UnconfirmedPrompt): boolean
---@param only_first? boolean
local function remove_unconfirmed(session, matches, only_first)
  local has_removed = false
  local remaining = vim.tbl_filter(function(prompt)
    local is_match = not (only_first and has_removed) and matches(prompt)
    has_removed = has_removed or is_match
    return not is_match
  end, session.unconfirmed or {})
  if has_removed then
    set_unconfirmed(session, remaining)
  end
end

---Returns the text of a prompt.
---@param prompt agentls.PromptContent|agentls.MessageBlock[]
---@return string
function M.get_prompt_text(prompt)
  if type(prompt) == 'string' then
    return prompt
  end
  local text = {}
  for _, block in ipairs(prompt) do
    if block.type == 'text' then
      table.insert(text, block.text)
    end
  end
  return table.concat(text, '\n')
end

---Loads the events that this client missed.
---@param session agentls.Session
local function load_missed(session)
  if session.is_loading then
    return
  end
  session.is_loading = true
  local params = { sessionId = session.id, afterSeq = session.state.seq, readOnly = session.is_read_only }
  client.request('agent/loadSession', params, function(err, result)
    session.is_loading = false
    if err then
      return M.report_error(err)
    end
    set_state(session, states.load_page(session.state, result))
    if session.state.missed then
      load_missed(session)
    end
  end)
end

---Whether a text is among the queued prompts. The state contains only the start of each.
local function is_queued(state, text)
  text = format.single_line(text, #text)
  for _, prompt in ipairs(state.queue and state.queue.prompts or {}) do
    if vim.startswith(text, (prompt.text:gsub('…$', ''))) then
      return true
    end
  end
  return false
end

---Returns the id of the current server's client. Nil while it starts: what is sent then reaches the new server.
---@return integer?
local function get_server_id()
  local lsp = client.is_ready() and client.get_lsp_client() or nil
  return lsp and lsp.id
end

---Gives prompts that an earlier server did not accept back to the user.
---@param session agentls.Session
local function restore_unsent(session)
  local unsent, server_id = session.unsent, get_server_id()
  session.unsent = vim.tbl_filter(function(entry)
    return not entry.server_id or entry.server_id == server_id
  end, unsent)
  if #session.unsent == 0 then
    set_unconfirmed(session, {})
  end
  for _, entry in ipairs(unsent) do
    local text = M.get_prompt_text(entry.prompt)
    local has_arrived = vim.list_contains(session.unsent, entry)
      or (entry.is_queued and is_queued(session.state, text))
    for i = #session.state.items, math.max(1, #session.state.items - 20), -1 do
      local item = session.state.items[i]
      has_arrived = has_arrived or (item.kind == 'user' and item.text == text)
    end
    if not has_arrived then
      M.observer.restore_prompt(session, text)
    end
  end
end

---What a live event does in the editor besides a redraw.
local effects = {}

effects['agent/turnStarted'] = function(session, params)
  editor.begin_turn()
  session.is_from_queue = params.by == 'queue'
  emit_event('AgentTurnStarted', session, params)
end

effects['agent/turnEnded'] = function(session, params, old_state)
  for _, steer in ipairs(params.unusedSteers or {}) do
    M.observer.restore_prompt(session, M.get_prompt_text(steer))
  end
  remove_unconfirmed(session, function(prompt)
    return prompt.is_steer
  end)
  editor.reload_buffers()
  local duration_ms = old_state.startedAt and params.at and params.at - old_state.startedAt or 0
  if duration_ms >= config.current.notify_turn_ms and not M.observer.is_visible(session) then
    notify(('%s: %s'):format(session.state.title or 'the turn', params.state))
  end
  emit_event('AgentTurnEnded', session, params)
end

effects['agent/message'] = function(session, params)
  if params.role ~= 'user' or params.hidden then
    return
  end
  local text = M.get_prompt_text(params.content or {})
  remove_unconfirmed(session, function(prompt)
    -- The server expands a slash command.
    return prompt.text == text or prompt.text:match('^%s*/') ~= nil
  end, true)
  if session.is_from_queue then
    -- The server accepted the prompt of this turn earlier. Any later user message is a steer.
    session.is_from_queue = false
  else
    for i, entry in ipairs(session.unsent) do
      if not entry.is_queued then
        return table.remove(session.unsent, i)
      end
    end
  end
end

effects['agent/toolCall'] = function(_, params)
  if params.status == 'completed' and params.locations and params.diff then
    editor.reload_locations(params.locations)
  end
end

effects['agent/turnDiff'] = function(_, params)
  -- Another client may have reverted the files.
  if params.standing ~= 'made' then
    editor.reload_buffers()
  end
end

local function make_question_effect(name, describe)
  return function(session, params)
    if config.current.notify_approvals and not M.observer.is_visible(session) then
      local is_current = M.get_current() == session
      local subject, hint = describe(params)
      notifications.notify_line(
        'asks: ',
        subject,
        ' · ' .. (is_current and hint or ':AgentSessions shows it'),
        vim.log.levels.WARN
      )
    end
    emit_event(name, session, params)
  end
end

effects['agent/approvalRequested'] = make_question_effect('AgentApprovalRequested', function(params)
  return params.shown or params.title, ':AgentApprove shows it'
end)
effects['agent/limitRequested'] = make_question_effect('AgentLimitRequested', function(params)
  return params.message, ':AgentAnswer raises it or stops'
end)
effects['agent/questionRequested'] = make_question_effect('AgentQuestionRequested', function(params)
  return params.text, ':AgentAnswer'
end)
effects['agent/approvalResolved'] = function(session, params)
  emit_event('AgentApprovalResolved', session, params)
end

---Handles a notification from the server.
---@param method string
---@param params table
function M.handle_notification(method, params)
  if method == 'agent/status' then
    M.status = params
    emit_event('AgentStatus', nil, params)
    return
  elseif method == 'agent/mcpServerUpdated' then
    emit_event('AgentMcpServerUpdated', nil, params)
    return
  end
  local session = params.sessionId and M.all[params.sessionId]
  if not session then
    if method == 'agent/warning' and not params.sessionId then
      problems.add_warning(params.message)
    end
    return
  end
  local old_state = session.state
  local state = states.reduce(old_state, { method = method, params = params })
  if state == old_state then
    return
  end
  set_state(session, state)
  if state.missed then
    return load_missed(session)
  end
  local effect = effects[method]
  if effect then
    effect(session, params, old_state)
  end
end

client.on_notification = M.handle_notification

client.on_ready = function()
  problems.clear()
  require('agentls.commands').update_optional_commands()
  emit_event('AgentServerReady')
end

---Shows in each session why the server is not available; nil: it is.
---@param reason? string
local function set_offline(reason)
  for _, session in pairs(M.all) do
    set_state(
      session,
      states.reduce(session.state, { method = 'client/offline', params = { reason = reason } })
    )
  end
end

client.on_hang = function(is_hanging)
  set_offline(is_hanging and 'the server does not answer · run :AgentRestart' or nil)
  if is_hanging then
    notifications.notify(
      'the server does not answer; :AgentRestart ends it and starts it again',
      vim.log.levels.WARN
    )
  else
    notifications.notify('the server answers again')
  end
end

client.on_crash = function(reason, will_restart)
  M.status = nil
  set_offline(('the server ended (%s)%s'):format(reason, will_restart and '; restarting it' or ''))
  emit_event('AgentServerCrashed', nil, { why = reason, again = will_restart })
  creation.handle_server_end(will_restart)
end

---Gives a session the id of the one that replaces it on the server.
---@param session agentls.Session
---@param id string
---@param state agentls.State
function M.change_id(session, id, state)
  local old_id = session.id
  session.id, session.is_loading, session.is_read_only = id, false, nil
  M.all[old_id], M.all[id] = nil, session
  M.current_id = M.current_id == old_id and id or M.current_id
  M.observer.on_id_change(session, old_id)
  set_state(session, state)
end

---Whether an error says that the server does not know the session.
---@param err? lsp.ResponseError
local function is_unknown_session(err)
  return err ~= nil and vim.tbl_get(err, 'data', 'refusal') == 'unknownSession'
end

---Reloads a session from a new server.
---@param session agentls.Session
---@param on_loaded? fun()
function M.reload(session, on_loaded)
  local function finish_loading()
    restore_unsent(session)
    emit_event('AgentSessionChanged', session)
    if on_loaded then
      on_loaded()
    end
  end
  local params = { sessionId = session.id, afterSeq = session.state.seq, readOnly = session.is_read_only }
  client.request('agent/loadSession', params, function(err, result)
    if is_unknown_session(err) then
      -- The server does not store a session without a prompt.
      if #session.state.items > 0 then
        M.report_error(err)
      end
      return creation.replace_session(session, params.sessionId, finish_loading)
    elseif err then
      return M.report_error(err)
    end
    session.is_loading = false
    set_state(session, states.load_page(session.state, result))
    finish_loading()
  end)
end

client.on_restart = function()
  creation.handle_restart()
  for _, session in pairs(M.all) do
    M.reload(session)
  end
end

---Returns the session that a command uses: the session of the current buffer, else the last one used.
---@return agentls.Session?
function M.get_current()
  local buffer_session_id = vim.b.agentls_session
  return M.all[buffer_session_id or ''] or M.all[M.current_id or '']
end

---@param session agentls.Session
function M.set_current(session)
  if M.current_id ~= session.id then
    M.current_id = session.id
    emit_event('AgentSessionChanged', session)
  end
end

---Fetches the named agent of a session.
---@param session agentls.Session
local function fetch_agent_name(session)
  if not client.supports_method('agent/listAgents') then
    return
  end
  client.request('agent/listAgents', { sessionId = session.id }, function(_, result)
    for _, agent in ipairs(result and result.agents or {}) do
      if agent.current then
        session.agent = agent.name
        M.observer.on_change(session)
      end
    end
  end)
end

---Fetches the model that a session without a choice of its own uses, for its bar.
---@param session agentls.Session
function M.fetch_default_model(session)
  if session.state.model then
    return
  end
  client.request('agent/listModels', { sessionId = session.id }, function(_, result)
    for _, entry in ipairs(result and result.models or {}) do
      if entry.current and not session.state.model then
        session.default_model = entry.model
        M.observer.on_change(session)
      end
    end
  end)
end

---Loads a stored session.
---@param id string
---@param callback fun(session: agentls.Session)
---@param read_only? boolean
function M.load_session(id, callback, read_only)
  local has_typed = attention.watch()
  local loaded_session = M.all[id]
  if
    loaded_session
    and client.is_ready()
    and not loaded_session.state.offline
    and not loaded_session.is_read_only
  then
    M.set_current(loaded_session)
    return callback(loaded_session)
  end
  client.request('agent/loadSession', { sessionId = id, readOnly = read_only }, function(err, result)
    local refusal = err and vim.tbl_get(err, 'data', 'refusal')
    if refusal == 'sessionLocked' and not read_only and has_typed() then
      return M.report_error(err)
    elseif refusal == 'sessionLocked' and not read_only then
      return require('agentls.session_lock').ask_action(err.data.holder, function(choice)
        if choice == 'open_read_only' then
          M.load_session(id, callback, true)
        elseif choice == 'take_over' then
          M.load_session(id, callback)
        end
      end)
    elseif err then
      return M.report_error(err)
    end
    local session = M.upsert(id, states.load_page(states.new(id), result))
    session.is_read_only = read_only
    fetch_agent_name(session)
    M.set_current(session)
    callback(session)
  end)
end

---Loads the page of events before the first loaded one.
---@param session agentls.Session
function M.load_earlier_page(session)
  local first = session.state.firstSeq
  if not session.state.hasEarlier or not first or session.is_loading_earlier then
    return
  end
  session.is_loading_earlier = true
  local params = { sessionId = session.id, beforeSeq = first, readOnly = session.is_read_only }
  client.request('agent/loadSession', params, function(err, result)
    session.is_loading_earlier = false
    if err then
      return M.report_error(err)
    end
    set_state(session, states.prepend_page(session.state, result))
  end)
end

---Tracks a prompt until the server accepts it.
---@param session agentls.Session
---@param entry agentls.UnsentPrompt
---@return fun(): boolean forget Stops the tracking. Returns false if it had stopped before.
local function track_unsent(session, entry)
  entry.server_id = get_server_id()
  table.insert(session.unsent, entry)
  return function()
    for i, other in ipairs(session.unsent) do
      if other == entry then
        table.remove(session.unsent, i)
        return true
      end
    end
    return false
  end
end

---Adds or edits a queued prompt. If the server refuses, the prompt goes back to the user.
---@param session agentls.Session
---@param params table The params of `agent/queue`, with a prompt.
function M.update_queue(session, params)
  local forget = track_unsent(session, { prompt = params.prompt, is_queued = true })
  M.observer.on_send(session)
  params.sessionId = session.id
  client.request('agent/queue', params, function(err)
    if forget() and err then
      M.report_error(err)
      M.observer.restore_prompt(session, M.get_prompt_text(params.prompt))
    end
  end)
end

---@param session agentls.Session
---@param prompt agentls.PromptContent
---@param method 'prompt'|'steer'
---@param retries integer How often to try the other method if the turn has ended or started meanwhile.
local function post_prompt(session, prompt, method, retries)
  local forget = track_unsent(session, { prompt = prompt })
  local params = { sessionId = session.id, prompt = prompt }
  local unconfirmed = { text = M.get_prompt_text(prompt), is_steer = method == 'steer' }
  set_unconfirmed(session, vim.list_extend(vim.list_slice(session.unconfirmed or {}), { unconfirmed }))
  client.request('agent/' .. method, params, function(err)
    if err or method == 'prompt' then
      remove_unconfirmed(session, function(other)
        return other == unconfirmed
      end)
    end
    if not err then
      if method == 'steer' then
        -- `unusedSteers` returns it if the turn does not use it.
        forget()
      end
      return
    end
    if not forget() then
      -- The server accepted the prompt. The end of the turn reports the error.
      return
    end
    local refusal = type(err.data) == 'table' and err.data.refusal
    if retries > 0 and is_unknown_session(err) then
      return creation.replace_session(session, params.sessionId, function()
        post_prompt(session, prompt, 'prompt', retries - 1)
      end)
    elseif retries > 0 and refusal == 'turnRunning' then
      return post_prompt(session, prompt, 'steer', retries - 1)
    elseif retries > 0 and (refusal == 'noTurn' or refusal == 'staleTurn') then
      return post_prompt(session, prompt, 'prompt', retries - 1)
    end
    M.report_error(err)
    M.observer.restore_prompt(session, M.get_prompt_text(prompt))
  end)
end

---Whether a session is writable. If it is not, shows a warning.
---@param session agentls.Session
---@return boolean
function M.ensure_writable(session)
  if session.is_read_only then
    notify(
      'this session is read-only here, because another server had it open; load it again with :AgentSessions',
      vim.log.levels.WARN
    )
  end
  return not session.is_read_only
end

---Sends a prompt. It starts a turn, or steers the running one.
---@param session agentls.Session
---@param prompt agentls.PromptContent
function M.send_prompt(session, prompt)
  if not M.ensure_writable(session) then
    return M.observer.restore_prompt(session, M.get_prompt_text(prompt))
  end
  M.set_current(session)
  M.observer.on_send(session)
  post_prompt(session, prompt, session.state.running and 'steer' or 'prompt', 2)
end

---@param session agentls.Session
function M.cancel_turn(session)
  if M.ensure_writable(session) then
    client.notify('agent/cancel', { sessionId = session.id })
    client.kill_if_unresponsive('it did not answer a cancel request')
  end
end

---@param session agentls.Session
function M.resume_turn(session)
  if not M.ensure_writable(session) then
    return
  end
  client.request('agent/resumeTurn', { sessionId = session.id }, function(err)
    if err and err.code ~= -32800 then
      M.report_error(err)
    end
  end)
end

---@param session agentls.Session
---@param mode agentls.Mode
function M.set_mode(session, mode)
  if not M.ensure_writable(session) then
    return
  end
  client.request('agent/setMode', { sessionId = session.id, mode = mode }, function(err)
    if err then
      M.report_error(err)
    end
  end)
end

---@param session agentls.Session
---@param model string
---@param effort? agentls.Effort
function M.set_model(session, model, effort)
  if not M.ensure_writable(session) then
    return
  end
  local params = { sessionId = session.id, model = model, effort = effort }
  client.request('agent/setModel', params, function(err)
    if err then
      M.report_error(err)
    end
  end)
end

---Sends a request and shows its error.
---@param method string
---@param params table
---@param callback? fun(result: any)
function M.request(method, params, callback)
  client.request(method, params, function(err, result)
    if err then
      return M.report_error(err)
    elseif callback then
      callback(result)
    end
  end)
end

---Reads the full content of a truncated field.
---@param session agentls.Session
---@param ref string
---@param callback fun(text: string)
function M.read_content(session, ref, callback)
  local chunks = {}
  local function read_page(offset)
    local params = { sessionId = session.id, ref = ref, offset = offset, limit = 1048576 }
    M.request('agent/readContent', params, function(result)
      table.insert(chunks, result.text)
      if result.nextOffset then
        read_page(result.nextOffset)
      else
        callback(table.concat(chunks))
      end
    end)
  end
  read_page(0)
end

M.create_session, M.ensure_session = creation.create_session, creation.ensure_session

return M
