-- The sessions that are open here: what is known of each, and the requests that act on one.
--
-- Each event of the server passes `dispatch` once. Whether a turn runs follows `turnStarted` and `turnEnded`
-- only, never the answer of a request.

local client = require('agentls.client')
local config = require('agentls.config')
local editor = require('agentls.editor')
local notice = require('agentls.notice')
local states = require('agentls.state')
local text = require('agentls.text')

local M = {}

---@class agentls.Session
---@field id string
---@field state agentls.State
---@field unsent { prompt: agentls.PromptContent, queued?: boolean }[] What was sent and is not known to be accepted.
---@field said? agentls.SentWords[] What was sent and is not in the chat yet, oldest first.
---@field readOnly? boolean
---@field agent? string The named agent that it has, as far as it is known.
---@field byQueue? boolean The running turn took a prompt that had waited.
---@field loading? boolean
---@field loading_earlier? boolean

---Words that were sent, until the model takes them.
---@class agentls.SentWords
---@field words string
---@field steer boolean

---@type table<string, agentls.Session>
M.all = {}

---The session that commands act on, when none is in view.
---@type string?
M.current_id = nil

---The server as a whole, as `agent/status` told last.
---@type agentls.StatusNotification?
M.status = nil

---@class agentls.Watcher What is told of sessions; the view sets it.
M.watcher = {
  ---@param _session agentls.Session
  changed = function(_session) end,
  ---Whether a person sees the session now.
  ---@param _session agentls.Session
  ---@return boolean
  seen = function(_session)
    return false
  end,
  ---The person sent something.
  ---@param _session agentls.Session
  sent = function(_session) end,
  ---Words that were not used go back to the person.
  ---@param _session agentls.Session
  ---@param _words string
  give_back = function(_session, _words) end,
}

---@param level? integer
local function say(words, level)
  notice.tell(text.reveal(words), level or vim.log.levels.INFO)
end

---Tells an error of a request.
---@param err lsp.ResponseError
function M.complain(err)
  local data = type(err.data) == 'table' and err.data or {}
  local words = data.message or err.message or 'the request failed'
  if data.cause then
    words = words .. ': ' .. data.cause
  end
  if data.userAction then
    words = words .. '\n' .. data.userAction
  end
  say((words:gsub('^agentls: ', '')), vim.log.levels.ERROR)
end

---@param session? agentls.Session
---@param params? table
local function announce(name, session, params)
  vim.api.nvim_exec_autocmds('User', {
    pattern = name,
    modeline = false,
    data = { session_id = session and session.id, params = params },
  })
end

---@param session agentls.Session
---@param state agentls.State
local function set(session, state)
  if state ~= session.state then
    session.state = state
    M.watcher.changed(session)
  end
end

---@param id string
---@param state agentls.State
---@return agentls.Session
local function keep(id, state)
  local session = M.all[id]
  if session then
    set(session, state)
  else
    session = { id = id, state = state, unsent = {} }
    M.all[id] = session
    M.watcher.changed(session)
  end
  return session
end

---Shows what was sent and is not in the chat yet.
---@param session agentls.Session
---@param said agentls.SentWords[]
local function show_said(session, said)
  session.said = said
  local words = vim.tbl_map(function(sent)
    return sent.words
  end, said)
  set(session, states.reduce(session.state, { method = 'client/said', params = { words = words } }))
end

---Notes that sent words are in the chat, or went back to the person.
---@param session agentls.Session
---@param is fun(sent: agentls.SentWords): boolean Which; only the first of them with `one`.
---@param one? boolean
local function take_said(session, is, one)
  local taken = false
  local left = vim.tbl_filter(function(sent)
    local this = not (one and taken) and is(sent)
    taken = taken or this
    return not this
  end, session.said or {})
  if taken then
    show_said(session, left)
  end
end

---The words in a prompt.
---@param prompt agentls.PromptContent|agentls.MessageBlock[]
---@return string
function M.words_of(prompt)
  if type(prompt) == 'string' then
    return prompt
  end
  local words = {}
  for _, block in ipairs(prompt) do
    if block.type == 'text' then
      table.insert(words, block.text)
    end
  end
  return table.concat(words, '\n')
end

---Loads what was missed.
---@param session agentls.Session
local function catch_up(session)
  if session.loading then
    return
  end
  session.loading = true
  local params = { sessionId = session.id, afterSeq = session.state.seq, readOnly = session.readOnly }
  client.request('agent/loadSession', params, function(err, result)
    session.loading = false
    if err then
      return M.complain(err)
    end
    set(session, states.load(session.state, result))
    if session.state.missed then
      catch_up(session)
    end
  end)
end

---Whether words are among the prompts that wait: these are known by how they begin.
local function waits(state, words)
  words = text.one_line(words, #words)
  for _, prompt in ipairs(state.queue and state.queue.prompts or {}) do
    if vim.startswith(words, (prompt.text:gsub('…$', ''))) then
      return true
    end
  end
  return false
end

---Words of prompts that never arrived go back to the person.
---@param session agentls.Session
local function return_unsent(session)
  local unsent = session.unsent
  session.unsent = {}
  show_said(session, {})
  for _, sent in ipairs(unsent) do
    local words = M.words_of(sent.prompt)
    local arrived = sent.queued and waits(session.state, words)
    for i = #session.state.items, math.max(1, #session.state.items - 20), -1 do
      local item = session.state.items[i]
      arrived = arrived or (item.kind == 'user' and item.text == words)
    end
    if not arrived then
      M.watcher.give_back(session, words)
    end
  end
end

---What a live event means for the editor, beyond what is drawn.
local effects = {}

effects['agent/turnStarted'] = function(session, params)
  editor.turn_began()
  session.byQueue = params.by == 'queue'
  announce('AgentTurnStarted', session, params)
end

effects['agent/turnEnded'] = function(session, params, before)
  for _, steer in ipairs(params.unusedSteers or {}) do
    M.watcher.give_back(session, M.words_of(steer))
  end
  take_said(session, function(sent)
    return sent.steer
  end)
  editor.reread()
  local took = before.startedAt and params.at and params.at - before.startedAt or 0
  if took >= config.current.notify_turn_ms and not M.watcher.seen(session) then
    say(('%s: %s'):format(session.state.title or 'the turn', params.state))
  end
  announce('AgentTurnEnded', session, params)
end

effects['agent/message'] = function(session, params)
  if params.role ~= 'user' or params.hidden then
    return
  end
  local words = M.words_of(params.content or {})
  take_said(session, function(sent)
    -- The server writes out a slash command.
    return sent.words == words or sent.words:match('^%s*/') ~= nil
  end, true)
  if session.byQueue then
    -- The prompt of this turn had arrived long before; what follows was said into it.
    session.byQueue = false
  else
    for i, sent in ipairs(session.unsent) do
      if not sent.queued then
        return table.remove(session.unsent, i)
      end
    end
  end
end

effects['agent/toolCall'] = function(_, params)
  if params.status == 'completed' and params.locations and params.diff then
    editor.reread_locations(params.locations)
  end
end

effects['agent/turnDiff'] = function(_, params)
  -- Also where it was another view of the session that put them back.
  if params.standing ~= 'made' then
    editor.reread()
  end
end

local function asks(name, what)
  return function(session, params)
    if config.current.notify_approvals and not M.watcher.seen(session) then
      local here = M.current() == session
      local subject, how = what(params)
      notice.say(
        'asks: ',
        subject,
        ' · ' .. (here and how or ':AgentSessions shows it'),
        vim.log.levels.WARN
      )
    end
    announce(name, session, params)
  end
end

effects['agent/approvalRequested'] = asks('AgentApprovalRequested', function(params)
  return params.shown or params.title, ':AgentApprove shows it'
end)
effects['agent/limitRequested'] = asks('AgentLimitRequested', function(params)
  return params.message, ':AgentAnswer raises it or stops'
end)
effects['agent/questionRequested'] = asks('AgentQuestionRequested', function(params)
  return params.text, ':AgentAnswer'
end)
effects['agent/approvalResolved'] = function(session, params)
  announce('AgentApprovalResolved', session, params)
end

---Takes a notification of the server.
---@param method string
---@param params table
function M.dispatch(method, params)
  if method == 'agent/status' then
    M.status = params
    announce('AgentStatus', nil, params)
    return
  end
  local session = params.sessionId and M.all[params.sessionId]
  if not session then
    if method == 'agent/warning' and not params.sessionId then
      notice.say_start(params.message, vim.log.levels.WARN)
    end
    return
  end
  local before = session.state
  local state = states.reduce(before, { method = method, params = params })
  if state == before then
    return
  end
  set(session, state)
  if state.missed then
    return catch_up(session)
  end
  local effect = effects[method]
  if effect then
    effect(session, params, before)
  end
end

client.on_notification = M.dispatch

client.on_ready = function()
  require('agentls.commands').adapt()
  announce('AgentServerReady')
end

---Says in each session why there is no server; nil: there is one.
---@param why? string
local function set_offline(why)
  for _, session in pairs(M.all) do
    set(session, states.reduce(session.state, { method = 'client/offline', params = { why = why } }))
  end
end

client.on_hang = function(hangs)
  set_offline(hangs and 'the server does not answer · :AgentRestart ends it and starts it again' or nil)
  if hangs then
    notice.tell('the server does not answer; :AgentRestart ends it and starts it again', vim.log.levels.WARN)
  else
    notice.tell('the server answers again')
  end
end

client.on_crash = function(why, again)
  M.status = nil
  set_offline(('the server ended (%s)%s'):format(why, again and '; it is started again' or ''))
  announce('AgentServerCrashed', nil, { why = why, again = again })
end

---Loads what happened in a session that a server before this one had.
---@param session agentls.Session
---@param after? fun() Called when it is loaded.
local function reload(session, after)
  local params = { sessionId = session.id, afterSeq = session.state.seq, readOnly = session.readOnly }
  client.request('agent/loadSession', params, function(err, result)
    if err then
      if vim.tbl_get(err, 'data', 'refusal') == 'unknownSession' then
        -- One without a prompt may not have been stored.
        M.all[session.id] = nil
        M.current_id = M.current_id ~= session.id and M.current_id or nil
      end
      return M.complain(err)
    end
    session.loading = false
    set(session, states.load(session.state, result))
    return_unsent(session)
    announce('AgentSessionChanged', session)
    if after then
      after()
    end
  end)
end

client.on_restart = function()
  for _, session in pairs(M.all) do
    reload(session)
  end
end

---The session that a command means: that of the buffer it is given in, else the one used last.
---@return agentls.Session?
function M.current()
  local here = vim.b.agentls_session
  return M.all[here or ''] or M.all[M.current_id or '']
end

---@param session agentls.Session
function M.use(session)
  if M.current_id ~= session.id then
    M.current_id = session.id
    announce('AgentSessionChanged', session)
  end
end

---Starts a session.
---@param options { agent?: string, model?: string, mode?: agentls.Mode, cwd?: string }
---@param callback fun(session: agentls.Session)
function M.create(options, callback)
  client.ensure(function(failed)
    if failed then
      return M.complain({ code = 0, message = failed })
    end
    local cwd = options.cwd or client.folders()[1]
    client.add_folder(cwd)
    -- What is absent is as the person chose it last in this workspace.
    local params =
      { cwd = cwd, agent = options.agent, model = options.model, mode = options.mode, remembered = true }
    client.request('agent/newSession', params, function(err, result)
      if err then
        return M.complain(err)
      end
      local state = states.new(result.sessionId)
      state.seq, state.cwd = result.seq, cwd
      state.mode, state.model, state.effort = result.mode, result.model, result.effort
      local session = keep(result.sessionId, state)
      session.agent = options.agent
      M.use(session)
      callback(session)
      require('agentls.trust').mention(cwd)
    end)
  end)
end

---Calls back with the current session, or with a new one.
---@param callback fun(session: agentls.Session)
function M.ensure(callback)
  local session = M.current()
  if not session then
    return M.create({}, callback)
  end
  if client.is_ready() then
    return callback(session)
  end
  client.ensure(function(failed)
    if failed then
      return M.complain({ code = 0, message = failed })
    end
    if session.state.offline then
      return reload(session, function()
        callback(session)
      end)
    end
    callback(session)
  end)
end

---Asks which named agent a session has.
---@param session agentls.Session
local function learn_agent(session)
  if not client.offers('agent/listAgents') then
    return
  end
  client.request('agent/listAgents', { sessionId = session.id }, function(_, result)
    for _, agent in ipairs(result and result.agents or {}) do
      if agent.current then
        session.agent = agent.name
        M.watcher.changed(session)
      end
    end
  end)
end

---Opens a session that is in the store.
---@param id string
---@param callback fun(session: agentls.Session)
---@param read_only? boolean
function M.load(id, callback, read_only)
  local known = M.all[id]
  if known and client.is_ready() and not known.state.offline and not known.readOnly then
    M.use(known)
    return callback(known)
  end
  client.request('agent/loadSession', { sessionId = id, readOnly = read_only }, function(err, result)
    local refusal = err and vim.tbl_get(err, 'data', 'refusal')
    if refusal == 'sessionLocked' and not read_only then
      return require('agentls.lock').ask(err.data.holder, function(choice)
        if choice == 'look' then
          M.load(id, callback, true)
        elseif choice == 'take' then
          M.load(id, callback)
        end
      end)
    elseif err then
      return M.complain(err)
    end
    local session = keep(id, states.load(states.new(id), result))
    session.readOnly = read_only
    learn_agent(session)
    M.use(session)
    callback(session)
  end)
end

---Puts an earlier page of the session's events before what is shown.
---@param session agentls.Session
function M.load_earlier(session)
  local first = session.state.firstSeq
  if not session.state.hasEarlier or not first or session.loading_earlier then
    return
  end
  session.loading_earlier = true
  local params = { sessionId = session.id, beforeSeq = first, readOnly = session.readOnly }
  client.request('agent/loadSession', params, function(err, result)
    session.loading_earlier = false
    if err then
      return M.complain(err)
    end
    set(session, states.prepend(session.state, result))
  end)
end

---Keeps what is sent until it is known to be accepted: then `forget` is called, which says whether it was kept still.
---@param session agentls.Session
---@param sent { prompt: agentls.PromptContent, queued?: boolean }
---@return fun(): boolean forget
local function remember(session, sent)
  table.insert(session.unsent, sent)
  return function()
    for i, other in ipairs(session.unsent) do
      if other == sent then
        table.remove(session.unsent, i)
        return true
      end
    end
    return false
  end
end

---Hands words in for the queue; where they are not taken they go back to the person.
---@param session agentls.Session
---@param params table Those of `agent/queue`, with a prompt.
function M.queue(session, params)
  local forget = remember(session, { prompt = params.prompt, queued = true })
  M.watcher.sent(session)
  params.sessionId = session.id
  client.request('agent/queue', params, function(err)
    if forget() and err then
      M.complain(err)
      M.watcher.give_back(session, M.words_of(params.prompt))
    end
  end)
end

---@param session agentls.Session
---@param prompt agentls.PromptContent
---@param how 'prompt'|'steer'
---@param tries integer
local function send(session, prompt, how, tries)
  local forget = remember(session, { prompt = prompt })
  local params = { sessionId = session.id, prompt = prompt }
  local said = { words = M.words_of(prompt), steer = how == 'steer' }
  show_said(session, vim.list_extend(vim.list_slice(session.said or {}), { said }))
  client.request('agent/' .. how, params, function(err)
    if err or how == 'prompt' then
      take_said(session, function(sent)
        return sent == said
      end)
    end
    if not err then
      if how == 'steer' then
        -- It comes back in `unusedSteers` if it is not used.
        forget()
      end
      return
    end
    if not forget() then
      -- It was accepted; its turn's end tells the rest.
      return
    end
    local refusal = type(err.data) == 'table' and err.data.refusal
    if tries > 0 and refusal == 'turnRunning' then
      return send(session, prompt, 'steer', tries - 1)
    elseif tries > 0 and (refusal == 'noTurn' or refusal == 'staleTurn') then
      return send(session, prompt, 'prompt', tries - 1)
    end
    M.complain(err)
    M.watcher.give_back(session, M.words_of(prompt))
  end)
end

---Whether a person can act on a session; says so when not.
---@param session agentls.Session
---@return boolean
function M.is_ours(session)
  if session.readOnly then
    say(
      'this session is only looked at: another server had it open; :AgentSessions tries again',
      vim.log.levels.WARN
    )
  end
  return not session.readOnly
end

---Says something to the agent: a new turn, or into the one that runs.
---@param session agentls.Session
---@param prompt agentls.PromptContent
function M.prompt(session, prompt)
  if not M.is_ours(session) then
    return M.watcher.give_back(session, M.words_of(prompt))
  end
  M.use(session)
  M.watcher.sent(session)
  send(session, prompt, session.state.running and 'steer' or 'prompt', 2)
end

---@param session agentls.Session
function M.cancel(session)
  if M.is_ours(session) then
    client.notify('agent/cancel', { sessionId = session.id })
    client.must_answer('it did not answer when the turn was to stop')
  end
end

---@param session agentls.Session
function M.resume(session)
  if not M.is_ours(session) then
    return
  end
  client.request('agent/resumeTurn', { sessionId = session.id }, function(err)
    if err and err.code ~= -32800 then
      M.complain(err)
    end
  end)
end

---@param session agentls.Session
---@param mode agentls.Mode
function M.set_mode(session, mode)
  if not M.is_ours(session) then
    return
  end
  client.request('agent/setMode', { sessionId = session.id, mode = mode }, function(err)
    if err then
      M.complain(err)
    end
  end)
end

---@param session agentls.Session
---@param model string
---@param effort? agentls.Effort
function M.set_model(session, model, effort)
  if not M.is_ours(session) then
    return
  end
  local params = { sessionId = session.id, model = model, effort = effort }
  client.request('agent/setModel', params, function(err)
    if err then
      M.complain(err)
    end
  end)
end

---Sends a request about a session, and tells its error.
---@param method string
---@param params table
---@param callback? fun(result: any)
function M.ask(method, params, callback)
  client.request(method, params, function(err, result)
    if err then
      return M.complain(err)
    elseif callback then
      callback(result)
    end
  end)
end

---The whole of a cut field.
---@param session agentls.Session
---@param ref string
---@param callback fun(text: string)
function M.read_content(session, ref, callback)
  local pieces = {}
  local function read(offset)
    local params = { sessionId = session.id, ref = ref, offset = offset, limit = 1048576 }
    M.ask('agent/readContent', params, function(result)
      table.insert(pieces, result.text)
      if result.nextOffset then
        read(result.nextOffset)
      else
        callback(table.concat(pieces))
      end
    end)
  end
  read(0)
end

return M
