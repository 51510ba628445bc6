-- Lists to choose from, by `vim.ui.select`: sessions, models, modes.

local client = require('agentls.client')
local notice = require('agentls.notice')
local sessions = require('agentls.sessions')
local text = require('agentls.text')
local view = require('agentls.view')

local M = {}

local function open(session)
  view.open(session, { focus = 'prompt' })
end

local MODES = {
  { mode = 'plan', words = 'plan — read only' },
  { mode = 'ask', words = 'ask — reads need no approval; edits, commands and the network do' },
  { mode = 'autoEdit', words = 'autoEdit — edits in the workspace are free too' },
  { mode = 'full', words = 'full — all is free' },
}

---The names of the modes.
function M.mode_names()
  return vim.tbl_map(function(entry)
    return entry.mode
  end, MODES)
end

---@param mode? agentls.Mode|string
function M.mode(mode)
  if mode and not vim.list_contains(M.mode_names(), mode) then
    local near = text.nearest(mode, M.mode_names())
    local words = ('agentls: there is no mode `%s`%s'):format(
      mode,
      near and (': is `%s` meant?'):format(near) or ''
    )
    notice.tell(words, vim.log.levels.ERROR)
    return
  end
  sessions.ensure(function(session)
    if mode then
      return sessions.set_mode(session, mode --[[@as agentls.Mode]])
    end
    vim.ui.select(MODES, {
      prompt = 'Mode',
      kind = 'agentls.mode',
      format_item = function(entry)
        return (entry.mode == session.state.mode and '● ' or '  ') .. entry.words
      end,
    }, function(entry)
      if entry then
        sessions.set_mode(session, entry.mode)
      end
    end)
  end)
end

---The models that the server told last.
---@type string[]
local models = {}

local function learn(result)
  models = vim.tbl_map(function(entry)
    return entry.model
  end, result.models)
end

---The names of the models, for completion; none as long as no server runs.
---@return string[]
function M.model_names()
  if #models == 0 then
    local session = sessions.current()
    local result = client.request_sync('agent/listModels', { sessionId = session and session.id }, 500)
    if result then
      learn(result)
    end
  end
  return models
end

local function model_words(model)
  local parts = { (model.current and '● ' or '  ') .. text.visible(model.model) }
  if model.contextWindow then
    table.insert(parts, text.tokens(model.contextWindow) .. ' context')
  end
  if model.price then
    table.insert(parts, ('$%g in, $%g out'):format(model.price.input, model.price.output))
  end
  if model.listed == false then
    table.insert(parts, "not in the provider's list")
  end
  return table.concat(parts, ' · ')
end

---How long the providers have for their lists before a notice says what is going on, in ms.
local PATIENCE_MS = 400
---How long the providers' lists count, in ms.
local FRESH_MS = 60000

---@class agentls.KnownModels
---@field session string
---@field result table Of `agent/listModels`.
---@field at number

---@type agentls.KnownModels?
local offered

---Asks the providers for their models; nothing waits meanwhile.
---@param session agentls.Session
---@param callback fun(result: table)
local function list_models(session, callback)
  if offered and offered.session == session.id and vim.uv.now() - offered.at < FRESH_MS then
    return callback(offered.result)
  end
  local answered = false
  vim.defer_fn(function()
    if not answered and client.is_ready() then
      notice.tell('asking the providers for their models…')
    end
  end, PATIENCE_MS)
  local begun = vim.uv.now()
  client.request('agent/listModels', { sessionId = session.id, live = true }, function(err, result)
    answered = true
    if err then
      return sessions.complain(err)
    end
    offered = { session = session.id, result = result, at = vim.uv.now() }
    if vim.uv.now() - begun > PATIENCE_MS and vim.api.nvim_get_mode().mode ~= 'n' then
      -- A list that pops up would take the keys that are being typed.
      return notice.tell('the models are there now; :AgentModel lists them')
    end
    callback(result)
  end)
end

---Lets the providers be asked again.
function M.forget_models()
  offered = nil
end

---Asks for the name of a model that no list has.
---@param session agentls.Session
---@param effort? agentls.Effort
local function enter_model(session, effort)
  vim.ui.input({ prompt = 'Model (provider/model): ' }, function(words)
    words = vim.trim(words or '')
    if words ~= '' then
      sessions.set_model(session, words, effort)
    end
  end)
end

---@param model? string
---@param effort? agentls.Effort
function M.model(model, effort)
  sessions.ensure(function(session)
    if model then
      return sessions.set_model(session, model, effort)
    end
    list_models(session, function(result)
      learn(result)
      local ill = {}
      for _, provider in ipairs(result.providers) do
        if provider.health == 'failing' or provider.health == 'notConfigured' then
          local words = ('%s: %s'):format(provider.provider, provider.message or provider.health)
          table.insert(ill, text.visible(words))
        end
      end
      local list = vim.tbl_map(function(entry)
        return vim.tbl_extend('force', entry, { current = entry.model == session.state.model })
      end, result.models)
      table.insert(list, { other = true })
      vim.ui.select(list, {
        prompt = 'Model' .. (#ill > 0 and ' (' .. table.concat(ill, '; ') .. ')' or ''),
        kind = 'agentls.model',
        format_item = function(entry)
          return entry.other and '… another one, by its name' or model_words(entry)
        end,
      }, function(choice)
        if choice and choice.other then
          enter_model(session, effort)
        elseif choice then
          sessions.set_model(session, choice.model, effort)
        end
      end)
    end)
  end)
end

local function agent_words(agent)
  local parts = { (agent.current and '● ' or '  ') .. text.visible(agent.name), agent.mode }
  local model = agent.model and (agent.provider and agent.provider .. '/' or '') .. agent.model
    or agent.provider
  table.insert(parts, model and text.visible(model))
  if agent.description then
    table.insert(parts, text.one_line(agent.description, 60))
  end
  return table.concat(parts, ' · ')
end

---The named agents, for completion; none as long as no server runs.
---@return string[]
function M.agent_names()
  local session = sessions.current()
  local result = client.request_sync('agent/listAgents', { sessionId = session and session.id }, 500)
  return vim.tbl_map(function(agent)
    return agent.name
  end, result and result.agents or {})
end

---Starts a session with a named agent, or with the one that is chosen.
---@param name? string
function M.agent(name)
  local function begin(agent)
    sessions.create({ agent = agent }, open)
  end
  if name then
    return begin(name)
  end
  client.ensure(function(failed)
    if failed then
      return sessions.complain({ code = 0, message = failed })
    end
    local session = sessions.current()
    sessions.ask('agent/listAgents', { sessionId = session and session.id }, function(result)
      vim.ui.select(result.agents, {
        prompt = 'Agent of a new session',
        kind = 'agentls.agent',
        format_item = agent_words,
      }, function(agent)
        if agent then
          begin(agent.name)
        end
      end)
    end)
  end)
end

---Chooses a circuit that is open, and closes it.
function M.circuit()
  local list, known = {}, {}
  local function add(subject, name)
    if not known[subject .. ' ' .. name] then
      known[subject .. ' ' .. name] = true
      table.insert(list, { subject = subject, name = name })
    end
  end
  for _, circuit in ipairs(sessions.status and sessions.status.circuits or {}) do
    add(circuit.subject, circuit.name)
  end
  local session = sessions.current()
  for _, passing in ipairs(session and session.state.notices or {}) do
    if passing.kind == 'circuit' then
      add(passing.subject, passing.name)
    end
  end
  if #list == 0 then
    notice.tell('nothing is left alone at the moment')
    return
  end
  vim.ui.select(list, {
    prompt = 'Ask again',
    format_item = function(circuit)
      return ('%s %s'):format(circuit.subject, text.visible(circuit.name))
    end,
  }, function(circuit)
    if circuit then
      sessions.ask('agent/resetCircuit', { subject = circuit.subject, name = circuit.name })
    end
  end)
end

local function now_ms()
  return os.time() * 1000
end

local function session_words(entry)
  if entry.action then
    return entry.words
  end
  local parts = { text.one_line(entry.title or '(no prompt yet)', 70), text.ago(entry.updatedAt, now_ms()) }
  local known = sessions.all[entry.sessionId]
  if known and #known.state.approvals + #known.state.asked > 0 then
    table.insert(parts, '? waits for your answer')
  elseif entry.running then
    table.insert(parts, 'running')
  end
  if entry.snippet then
    table.insert(parts, text.one_line(entry.snippet, 80))
  end
  return table.concat(parts, ' · ')
end

---Lists sessions, or those in which `query` is found, and opens the one that is chosen.
---@param query? string
---@param everywhere? boolean Of all folders, not of this one only.
---@param cursor? string
function M.sessions(query, everywhere, cursor)
  client.ensure(function(failed)
    if failed then
      return sessions.complain({ code = 0, message = failed })
    end
    local cwd = not everywhere and client.folders()[1] or nil
    local params = { query = query, cwd = cwd, cursor = cursor, limit = 50 }
    sessions.ask('agent/listSessions', params, function(result)
      local list = {}
      if not query and not cursor then
        table.insert(list, { action = 'new', words = '+ new session' })
      end
      vim.list_extend(list, result.sessions)
      if result.nextCursor then
        table.insert(list, { action = 'more', words = '… older ones' })
      end
      table.insert(list, { action = 'search', words = '/ search for words' })
      if not everywhere then
        table.insert(list, { action = 'everywhere', words = '~ sessions of all folders' })
      end
      local prompt = query
          and ('Sessions with "%s"%s'):format(query, #result.sessions == 0 and ': none' or '')
        or 'Sessions'
      vim.ui.select(
        list,
        { prompt = prompt, kind = 'agentls.session', format_item = session_words },
        function(entry)
          if not entry then
            return
          elseif entry.action == 'new' then
            sessions.create({}, open)
          elseif entry.action == 'more' then
            M.sessions(query, everywhere, result.nextCursor)
          elseif entry.action == 'everywhere' then
            M.sessions(query, true)
          elseif entry.action == 'search' then
            vim.ui.input({ prompt = 'Search sessions for: ' }, function(words)
              if words and words ~= '' then
                M.sessions(words, everywhere)
              end
            end)
          else
            sessions.load(entry.sessionId, open)
          end
        end
      )
    end)
  end)
end

return M
