-- Lists to choose from: sessions, models, modes, named agents, circuit breakers. It must not know
-- how a choice takes effect; sessions.lua does.

local attention = require('agentls.attention')
local client = require('agentls.client')
local dialog = require('agentls.dialog')
local notifications = require('agentls.notifications')
local sessions = require('agentls.sessions')
local format = require('agentls.format')
local text_input = require('agentls.text_input')
local view = require('agentls.view')

local M = {}

---Returns a function that opens a session, and goes to its prompt unless the user has typed in the meantime.
local function make_opener()
  local has_typed = attention.watch()
  return function(session)
    view.open_chat(session, { focus = not has_typed() and 'prompt' or nil })
  end
end

local MODES = {
  { mode = 'plan', text = 'plan — read only' },
  { mode = 'ask', text = 'ask — edits, commands, and the network need approval' },
  {
    mode = 'autoEdit',
    text = 'autoEdit — edits in the workspace and sandboxed commands need no approval either',
  },
  { mode = 'full', text = 'full — nothing needs approval' },
}

---What to report if a list is ready while the user types: it would take the keys that are meant for something else.
local READY = 'the list of %s is ready; open it with %s'

---Lists the names of the modes.
function M.list_mode_names()
  return vim.tbl_map(function(entry)
    return entry.mode
  end, MODES)
end

---@param mode? agentls.Mode|string
function M.pick_mode(mode)
  if mode and not vim.list_contains(M.list_mode_names(), mode) then
    local suggestion = format.find_nearest(mode, M.list_mode_names())
    local text = ('unknown mode `%s`%s'):format(
      mode,
      suggestion and ('; did you mean `%s`?'):format(suggestion) or ''
    )
    notifications.notify(text, vim.log.levels.ERROR)
    return
  end
  local choose = attention.guard(READY:format('modes', ':AgentMode'), function(session)
    dialog.select(MODES, {
      prompt = 'Mode',
      kind = 'agentls.mode',
      current = function(entry)
        return entry.mode == session.state.mode
      end,
      format_item = function(entry)
        return (entry.mode == session.state.mode and '● ' or '  ') .. entry.text
      end,
    }, function(entry)
      if entry then
        sessions.set_mode(session, entry.mode)
      end
    end)
  end)
  sessions.ensure_session(function(session)
    if mode then
      return sessions.set_mode(session, mode --[[@as agentls.Mode]])
    end
    choose(session)
  end)
end

---The latest models from the server.
---@type string[]
local models = {}

local function remember_models(result)
  models = vim.tbl_map(function(entry)
    return entry.model
  end, result.models)
end

---Lists the names of the models for completion. Empty while no server runs.
---@return string[]
function M.list_model_names()
  if #models == 0 then
    local session = sessions.get_current()
    local result = client.request_sync('agent/listModels', { sessionId = session and session.id }, 500)
    if result then
      remember_models(result)
    end
  end
  return models
end

---@param model table
---@param effort? agentls.Effort The session's effort.
local function format_model(model, effort)
  local parts = { (model.current and '● ' or '  ') .. format.display_text(model.model) }
  if model.current and effort then
    table.insert(parts, 'effort ' .. effort)
  end
  if model.contextWindow then
    table.insert(parts, format.token_count(model.contextWindow) .. ' context')
  end
  if model.price then
    table.insert(parts, ('$%g in, $%g out'):format(model.price.input, model.price.output))
  end
  if model.listed == false then
    table.insert(parts, "not in the provider's list")
  end
  return table.concat(parts, ' · ')
end

---After how long a notification reports that the providers have not answered yet, in ms.
local NOTICE_DELAY_MS = 400
---How long the providers' lists are cached, in ms.
local CACHE_MS = 60000

---@class agentls.ModelCache
---@field session string
---@field result table The result of `agent/listModels`.
---@field at number

---@type agentls.ModelCache?
local cached_models

---Asks the providers for their models, without blocking.
---@param session agentls.Session
---@param callback fun(result: table)
local function fetch_models(session, callback)
  if cached_models and cached_models.session == session.id and vim.uv.now() - cached_models.at < CACHE_MS then
    return callback(cached_models.result)
  end
  local has_answered = false
  vim.defer_fn(function()
    if not has_answered and client.is_ready() then
      notifications.notify('asking the providers for their models…')
    end
  end, NOTICE_DELAY_MS)
  client.request('agent/listModels', { sessionId = session.id, live = true }, function(err, result)
    has_answered = true
    if err then
      return sessions.report_error(err)
    end
    cached_models = { session = session.id, result = result, at = vim.uv.now() }
    callback(result)
  end)
end

---Clears the cached lists of the providers.
function M.clear_model_cache()
  cached_models = nil
end

---Prompts for the name of a model that is not in the list.
---@param session agentls.Session
---@param effort? agentls.Effort
local function ask_model_name(session, effort)
  text_input.ask({ prompt = 'Model (provider/model): ', key = 'model' }, function(text)
    text = vim.trim(text)
    if text ~= '' then
      sessions.set_model(session, text, effort)
    end
  end)
end

---@param model? string
---@param effort? agentls.Effort
function M.pick_model(model, effort)
  local choose = attention.guard(READY:format('models', ':AgentModel'), function(session, result)
    remember_models(result)
    local problems = {}
    for _, provider in ipairs(result.providers) do
      if provider.health == 'failing' or provider.health == 'notConfigured' then
        local text = ('%s: %s'):format(provider.provider, provider.message or provider.health)
        table.insert(problems, format.display_text(text))
      end
    end
    local list = vim.tbl_map(function(entry)
      return vim.tbl_extend('force', entry, { current = entry.model == session.state.model })
    end, result.models)
    table.insert(list, { other = true })
    dialog.select(list, {
      prompt = 'Model' .. (#problems > 0 and ' (' .. table.concat(problems, '; ') .. ')' or ''),
      kind = 'agentls.model',
      format_item = function(entry)
        return entry.other and '… enter a name' or format_model(entry, session.state.effort)
      end,
      current = function(entry)
        return entry.current
      end,
    }, function(choice)
      if choice and choice.other then
        ask_model_name(session, effort)
      elseif choice then
        sessions.set_model(session, choice.model, effort)
      end
    end)
  end)
  sessions.ensure_session(function(session)
    if model then
      return sessions.set_model(session, model, effort)
    end
    fetch_models(session, function(result)
      choose(session, result)
    end)
  end)
end

local function format_agent(agent)
  local parts = { (agent.current and '● ' or '  ') .. format.display_text(agent.name), agent.mode }
  local model = agent.model and (agent.provider and agent.provider .. '/' or '') .. agent.model
    or agent.provider
  table.insert(parts, model and format.display_text(model))
  if agent.description then
    table.insert(parts, format.single_line(agent.description, 60))
  end
  return table.concat(parts, ' · ')
end

---Lists the named agents for completion. Empty while no server runs.
---@return string[]
function M.list_agent_names()
  local session = sessions.get_current()
  local result = client.request_sync('agent/listAgents', { sessionId = session and session.id }, 500)
  return vim.tbl_map(function(agent)
    return agent.name
  end, result and result.agents or {})
end

---Starts a session with a named agent, or with the one that the user chooses.
---@param name? string
function M.pick_agent(name)
  local function start_session(agent)
    sessions.create_session({ agent = agent }, make_opener())
  end
  if name then
    return start_session(name)
  end
  local choose = attention.guard(READY:format('agents', ':AgentAgent'), function(result)
    dialog.select(result.agents, {
      prompt = 'Agent for a new session',
      kind = 'agentls.agent',
      format_item = format_agent,
      current = function(agent)
        return agent.current
      end,
    }, function(agent)
      if agent then
        start_session(agent.name)
      end
    end)
  end)
  client.ensure_ready(function(failure)
    if failure then
      return sessions.report_error({ code = 0, message = failure })
    end
    local session = sessions.get_current()
    sessions.request('agent/listAgents', { sessionId = session and session.id }, choose)
  end)
end

---Lists the open circuit breakers and closes the chosen one.
function M.pick_circuit()
  local list, listed_keys = {}, {}
  local function add_circuit(subject, name)
    if not listed_keys[subject .. ' ' .. name] then
      listed_keys[subject .. ' ' .. name] = true
      table.insert(list, { subject = subject, name = name })
    end
  end
  for _, circuit in ipairs(sessions.status and sessions.status.circuits or {}) do
    add_circuit(circuit.subject, circuit.name)
  end
  local session = sessions.get_current()
  for _, notice in ipairs(session and session.state.notices or {}) do
    if notice.kind == 'circuit' then
      add_circuit(notice.subject, notice.name)
    end
  end
  if #list == 0 then
    notifications.notify('no circuit breaker is open')
    return
  end
  dialog.select(list, {
    prompt = 'Reset circuit breaker',
    format_item = function(circuit)
      return ('%s %s'):format(circuit.subject, format.display_text(circuit.name))
    end,
  }, function(circuit)
    if circuit then
      sessions.request('agent/resetCircuit', { subject = circuit.subject, name = circuit.name })
    end
  end)
end

local function get_now_ms()
  return os.time() * 1000
end

local function format_session(entry)
  if entry.action then
    return entry.text
  end
  local mark = entry.sessionId == sessions.current_id and '● ' or '  '
  local parts = {
    mark .. format.single_line(entry.title or '(no prompt yet)', 70),
    format.relative_time(entry.updatedAt, get_now_ms()),
  }
  local loaded_session = sessions.all[entry.sessionId]
  if loaded_session and #loaded_session.state.approvals + #loaded_session.state.inquiries > 0 then
    table.insert(parts, '? needs your answer')
  elseif entry.running then
    table.insert(parts, 'running')
  end
  if entry.snippet then
    table.insert(parts, format.single_line(entry.snippet, 80))
  end
  return table.concat(parts, ' · ')
end

---Lists sessions, or those that contain `query`, and opens the chosen one.
---@param query? string
---@param all_folders? boolean Lists sessions of all folders.
---@param cursor? string
function M.pick_session(query, all_folders, cursor)
  local choose = attention.guard(READY:format('sessions', ':AgentSessions'), function(result)
    local list = {}
    if not query and not cursor then
      table.insert(list, { action = 'new', text = '+ new session' })
    end
    vim.list_extend(list, result.sessions)
    if result.nextCursor then
      table.insert(list, { action = 'more', text = '… older sessions' })
    end
    table.insert(list, { action = 'search', text = '/ search' })
    if not all_folders then
      table.insert(list, { action = 'everywhere', text = '~ sessions in all folders' })
    end
    local prompt = query and ('Sessions with "%s"%s'):format(query, #result.sessions == 0 and ': none' or '')
      or 'Sessions'
    dialog.select(
      list,
      { prompt = prompt, kind = 'agentls.session', format_item = format_session },
      function(entry)
        if not entry then
          return
        elseif entry.action == 'new' then
          sessions.create_session({}, make_opener())
        elseif entry.action == 'more' then
          M.pick_session(query, all_folders, result.nextCursor)
        elseif entry.action == 'everywhere' then
          M.pick_session(query, true)
        elseif entry.action == 'search' then
          text_input.ask({ prompt = 'Search sessions for: ', key = 'search' }, function(text)
            if text ~= '' then
              M.pick_session(text, all_folders)
            end
          end)
        else
          sessions.load_session(entry.sessionId, make_opener())
        end
      end
    )
  end)
  client.ensure_ready(function(failure)
    if failure then
      return sessions.report_error({ code = 0, message = failure })
    end
    local cwd = not all_folders and client.get_workspace_folders()[1] or nil
    local params = { query = query, cwd = cwd, cursor = cursor, limit = 50 }
    sessions.request('agent/listSessions', params, choose)
  end)
end

return M
