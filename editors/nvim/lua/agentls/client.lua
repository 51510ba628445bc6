-- Starts the server, keeps it up, and moves messages. Knows nothing of what they say.
--
-- One server for the whole Neovim. It is started by the first command that needs it, gets every file buffer, and
-- is started again when it crashed. Framing, document sync and the end are `vim.lsp`'s.

local config = require('agentls.config')
local documents = require('agentls.documents')
local notice = require('agentls.notice')
local protocol = require('agentls.protocol')
local text = require('agentls.text')

local M = {}

---@class agentls.Client
---@field lsp? vim.lsp.Client
---@field agent? agentls.ServerCapability What the server announced.
---@field state 'off'|'starting'|'ready'
---@field pid? integer The server's process, which leads a group of its own.
---@field ended? string Why it was killed from here.
local self = { state = 'off' }

---Called with each notification of the server.
---@type fun(method: string, params: table)
M.on_notification = function() end
---Called when the server has gone without being asked: why, and whether it will be started again.
---@type fun(why: string, again: boolean)
M.on_crash = function() end
---Called when a server is ready that replaces one that crashed.
M.on_restart = function() end
---Called each time a server is ready.
M.on_ready = function() end

---Called when the server does not answer, or answers again.
---@type fun(hangs: boolean)
M.on_hang = function() end

local waiting = {} ---@type fun(err?: string)[]
local crashes = {} ---@type integer[] When, in ms.
local leaving = false
local stopping = {} ---@type table<integer, fun()> Clients that were asked to stop: what follows their end.

---A server that crashes more often than this in two minutes is not started again by itself.
local CRASHES, CRASHES_MS = 3, 120000

---A server that has not answered `initialize` after this time, in ms, is killed. A notice comes earlier.
M.START_MS, M.START_TOLD_MS = 30000, 5000

---How often a server is asked whether it is there, in ms, while something waits for it.
M.PING_MS = 5000
---What a server that does not answer has for ending a turn or itself, in ms, before it is killed.
M.STOP_MS = 5000
---What it has for an answer when Neovim ends, in ms.
M.LEAVE_MS = 1500

---Any server answers this, and at once.
local PING = 'agent/listApprovals'

---Requests after which the model works with the documents.
local READS_DOCUMENTS =
  { ['agent/prompt'] = true, ['agent/steer'] = true, ['agent/resumeTurn'] = true, ['agent/queue'] = true }

local pending = 0
local hangs = false

local NEW_API = vim.fn.has('nvim-0.11') == 1

---Calls a method of the client: they take it as their first argument since 0.11 only.
local function lsp(name, ...)
  local client = assert(self.lsp)
  if NEW_API then
    return client[name](client, ...)
  end
  return client[name](...)
end

---Kills the server and the processes of its group, also where it is stopped and takes no signal but this.
local function kill()
  for _, target in ipairs(self.pid and { -self.pid, self.pid } or {}) do
    pcall(vim.uv.kill, target, 'sigkill')
  end
end

---Asks the server whether it is there. An error is an answer, too.
---@param answered fun()
---@return boolean sent
local function ping(answered)
  return self.lsp ~= nil and (lsp('request', PING, { sessionId = '' }, answered)) or false
end

---Kills the server of now after some time, unless it has answered by then.
---@param ms integer
---@param why string
---@param answered? fun(): boolean
local function kill_after(ms, why, answered)
  local client = self.lsp
  vim.defer_fn(function()
    if client and self.lsp == client and not (answered and answered()) then
      self.ended = why
      kill()
    end
  end, ms)
end

---Notices a server that hangs, as long as something waits for it. Two rounds without an answer are a hang: a round ends
---only when Neovim itself had time.
---@param client vim.lsp.Client
local function watch(client)
  local asked, rounds = false, 0
  local function round()
    if self.lsp ~= client then
      return
    elseif asked then
      rounds = rounds + 1
      if rounds == 2 and not hangs then
        hangs = true
        M.on_hang(true)
      end
    elseif pending > 0 then
      asked = ping(function()
        asked, rounds = false, 0
        if hangs and self.lsp == client then
          hangs = false
          M.on_hang(false)
        end
      end)
    end
    vim.defer_fn(round, M.PING_MS)
  end
  vim.defer_fn(round, M.PING_MS)
end

local function repository()
  local file = vim.uv.fs_realpath(debug.getinfo(1, 'S').source:sub(2)) or ''
  -- editors/nvim/lua/agentls/client.lua
  return vim.fs.dirname(vim.fs.dirname(vim.fs.dirname(vim.fs.dirname(vim.fs.dirname(file)))))
end

---The command that starts the server; or nil, and the places where it was looked for.
---@return string[]? cmd
---@return string[] places
function M.command()
  local cmd = config.current.cmd
  if cmd then
    return vim.fn.executable(cmd[1]) == 1 and cmd or nil, { cmd[1] }
  end
  local root = repository()
  local places = {
    'agentls',
    root .. '/target/release/agentls',
    root .. '/target/debug/agentls',
    vim.fn.expand('~/.cargo/bin/agentls'),
  }
  for _, place in ipairs(places) do
    if vim.fn.executable(place) == 1 then
      return { place }, places
    end
  end
  places[1] = 'agentls in PATH'
  return nil, places
end

---What to tell a person who has no server.
function M.missing()
  local _, places = M.command()
  local looked = config.current.cmd and ('`%s` (the option `cmd`) cannot be run'):format(places[1])
    or 'it is not there: ' .. table.concat(places, ', ')
  return table.concat({
    ('agentls: the server was not found; %s.'):format(looked),
    'Install it with `cargo install --path .` in its repository,',
    'or name it: require("agentls").setup({ cmd = { "/path/to/agentls" } }).',
    ':checkhealth agentls says more.',
  }, ' ')
end

---The folders that the agent may work in.
---@return string[]
function M.folders()
  local given = config.current.workspace_folders
  if type(given) == 'function' then
    given = given()
  end
  if given and #given > 0 then
    return vim.tbl_map(function(folder)
      return vim.fs.normalize(vim.fn.fnamemodify(folder, ':p')):gsub('(.)/$', '%1')
    end, given)
  end
  local here = vim.uv.cwd() or '.'
  return { vim.fs.root(here, { '.agentls', '.git' }) or here }
end

local function as_folder(path)
  return { uri = vim.uri_from_fname(path), name = vim.fs.basename(path) }
end

---Why this server cannot be talked to; nil when it can.
---@param capabilities table
---@return string?
function M.refusal(capabilities)
  local agent = vim.tbl_get(capabilities or {}, 'experimental', 'agent')
  local version = type(agent) == 'table' and agent.protocolVersion
  if type(version) ~= 'table' or type(version.major) ~= 'number' then
    return 'agentls: what `cmd` starts is no agentls server: it does not announce the agent protocol.'
  end
  local ours = protocol.version
  if version.major ~= ours.major then
    return ('agentls: the server speaks protocol %d.%d and this plugin %d.%d: update %s.'):format(
      version.major,
      version.minor or 0,
      ours.major,
      ours.minor,
      version.major > ours.major and 'the plugin' or 'the server (`cargo install --path .` in its repository)'
    )
  end
end

local function flush(err)
  local callbacks = waiting
  waiting = {}
  for _, callback in ipairs(callbacks) do
    callback(err)
  end
end

local MAX_BYTES = 16 * 1024 * 1024

---Whether the server shall know this buffer: a file's, of a bearable size.
local function is_file(buffer)
  if not vim.api.nvim_buf_is_loaded(buffer) or vim.bo[buffer].buftype ~= '' then
    return false
  end
  local name = vim.api.nvim_buf_get_name(buffer)
  if name == '' or name:match('^%a[%w+.-]+://') then
    return false
  end
  return vim.api.nvim_buf_get_offset(buffer, vim.api.nvim_buf_line_count(buffer)) <= MAX_BYTES
end

---Whether a path lies in a folder that the server knows.
---@param path string
local function is_inside(path)
  for _, folder in ipairs(self.lsp and self.lsp.workspace_folders or {}) do
    local root = vim.uri_to_fname(folder.uri)
    for _, start in ipairs({ root, vim.uv.fs_realpath(root) }) do
      if path == start or vim.startswith(path, start == '/' and start or start .. '/') then
        return true
      end
    end
  end
  return false
end

---Whether the server must follow a buffer: in its folders all, elsewhere what the disk does not have.
local function is_needed(buffer)
  local name = vim.api.nvim_buf_get_name(buffer)
  return vim.bo[buffer].modified or is_inside(name) or is_inside(vim.uv.fs_realpath(name) or name)
end

local function attach(buffer)
  if
    self.state == 'ready'
    and self.lsp
    and is_file(buffer)
    and is_needed(buffer)
    and not vim.lsp.buf_is_attached(buffer, self.lsp.id)
  then
    vim.lsp.buf_attach_client(buffer, self.lsp.id)
  end
end

local function capabilities()
  local announced = vim.lsp.protocol.make_client_capabilities()
  return vim.tbl_deep_extend('force', announced, {
    workspace = {
      applyEdit = true,
      workspaceEdit = {
        documentChanges = true,
        resourceOperations = {},
        -- All versions are checked before anything is changed.
        failureHandling = 'textOnlyTransactional',
      },
    },
    window = { showDocument = { support = true } },
    experimental = { agent = { client = { saveDocuments = true, getDiagnostics = true, questions = true } } },
  })
end

local start

local function crashed(code, signal)
  local now = vim.uv.now()
  crashes = vim.tbl_filter(function(at)
    return now - at < CRASHES_MS
  end, crashes)
  table.insert(crashes, now)
  local why = signal ~= 0 and ('signal %d'):format(signal) or ('exit code %d'):format(code)
  local again = #crashes <= CRASHES
  if self.ended then
    why, self.ended = self.ended, nil
  end
  M.on_crash(why, again)
  if again then
    notice.tell(('the server ended unexpectedly (%s); it is started again.'):format(why), vim.log.levels.WARN)
    start(function(err)
      if not err then
        M.on_restart()
      end
    end)
  else
    notice.tell(
      ('the server ended unexpectedly (%s), %d times in a short while; it is not started again. '):format(
        why,
        #crashes
      ) .. ':AgentLog may tell why; the next command tries anew.',
      vim.log.levels.ERROR
    )
  end
end

---What is sent, in UTF-8 throughout. A buffer may hold other bytes: a binary file's. JSON that has them is refused as a
---whole; so they are told as marks, and edits of such a buffer are not taken (editor.lua).
local function legible(value)
  if type(value) == 'string' then
    return text.legible(value)
  elseif type(value) ~= 'table' then
    return value
  end
  local copy
  for key, part in pairs(value) do
    local told = legible(part)
    if told ~= part then
      copy = copy or setmetatable(vim.tbl_extend('force', {}, value), getmetatable(value))
      copy[key] = told
    end
  end
  return copy or value
end

---The command as `vim.lsp` takes it: how it ended is for us to tell, in a line; its own words, with the path of a log,
---would make the person press Enter before anything is drawn.
---@param cmd string[]
---@param how { cwd: string, env?: table<string, string>, code: integer, signal: integer } Gets how it ended.
local function runner(cmd, how)
  return function(dispatchers)
    local told = dispatchers.on_exit
    dispatchers.on_exit = function(code, signal)
      how.code, how.signal = code, signal
      told(0, 0)
    end
    local before = vim.api.nvim_get_proc_children(vim.fn.getpid())
    local rpc = vim.lsp.rpc.start(cmd, dispatchers, { cwd = how.cwd, env = how.env })
    self.pid = nil
    for _, pid in ipairs(vim.api.nvim_get_proc_children(vim.fn.getpid())) do
      self.pid = not vim.list_contains(before, pid) and pid or self.pid
    end
    local notify, request = rpc.notify, rpc.request
    rpc.notify = function(method, params)
      return notify(method, legible(documents.outgoing(method, params)))
    end
    rpc.request = function(method, params, ...)
      return request(method, legible(params), ...)
    end
    return rpc
  end
end

local function exited(code, signal, id)
  vim.schedule(function()
    if self.lsp and self.lsp.id ~= id then
      -- Of an older one; another is there already.
      stopping[id] = nil
      return
    end
    local was = self.state
    self.lsp, self.agent, self.state, self.pid = nil, nil, 'off', nil
    pending, hangs = 0, false
    if leaving or stopping[id] then
      local after = stopping[id] or function() end
      stopping[id] = nil
      return after()
    end
    if was == 'starting' then
      local why = signal ~= 0 and ('signal %d'):format(signal) or ('exit code %d'):format(code)
      return flush(('agentls: the server did not start (%s); :AgentLog may tell why.'):format(why))
    end
    crashed(code, signal)
  end)
end

local function ready(client, result)
  local refused = M.refusal(result.capabilities)
  if refused then
    stopping[client.id] = function() end
    if NEW_API then
      client:stop()
    else
      client.stop()
    end
    self.lsp, self.agent, self.state = nil, nil, 'off'
    return vim.schedule(function()
      flush(refused)
    end)
  end
  self.agent = result.capabilities.experimental.agent
  -- It asks for whole texts, and takes changes too: documents.lua says which goes out.
  documents.forget()
  vim.tbl_get(client, 'server_capabilities', 'textDocumentSync').change =
    vim.lsp.protocol.TextDocumentSyncKind.Incremental
  -- `initialized` is sent after this callback.
  vim.schedule(function()
    if self.lsp ~= client then
      return
    end
    self.state = 'ready'
    vim.iter(vim.api.nvim_list_bufs()):each(attach)
    watch(client)
    M.on_ready()
    flush()
  end)
end

---@param callback fun(err?: string)
start = function(callback)
  table.insert(waiting, callback)
  if self.state == 'starting' then
    return
  end
  local cmd = M.command()
  if not cmd then
    return flush(M.missing())
  end
  self.state = 'starting'
  local handlers = require('agentls.editor').handlers()
  for _, method in pairs(protocol.server_notifications) do
    handlers[method] = function(_, params)
      M.on_notification(method, params)
    end
  end
  -- What newer servers tell and the generated list does not know yet.
  for _, method in ipairs(M.also) do
    handlers[method] = handlers[method] or function(_, params)
      M.on_notification(method, params)
    end
  end
  local settings = vim.deepcopy(config.current.settings)
  settings.trusted = config.current.trusted
  local folders = M.folders()
  local how = { cwd = folders[1], env = config.current.env, code = 0, signal = 0 }
  local lsp_config = {
    name = 'agentls',
    cmd = runner(cmd, how),
    root_dir = folders[1],
    workspace_folders = vim.tbl_map(as_folder, folders),
    capabilities = capabilities(),
    init_options = next(settings) and settings or vim.empty_dict(),
    handlers = handlers,
    -- What a person types must be with the server before its next edit is.
    flags = { debounce_text_changes = 0 },
    on_init = ready,
    on_exit = function(_, _, id)
      exited(how.code, how.signal, id)
    end,
  }
  local id
  if NEW_API then
    id = vim.lsp.start(lsp_config, {
      attach = false,
      reuse_client = function()
        return false
      end,
    })
  else
    id = vim.lsp.start_client(lsp_config)
  end
  if not id then
    self.state = 'off'
    return flush(('agentls: `%s` could not be started; :LspLog may tell why.'):format(table.concat(cmd, ' ')))
  end
  -- It may have come and gone already.
  self.lsp = vim.lsp.get_client_by_id(id)
  vim.defer_fn(function()
    if self.state == 'starting' and self.lsp and self.lsp.id == id then
      notice.tell(
        'the server was started and has not answered yet; :AgentRestart starts it again',
        vim.log.levels.WARN
      )
    end
  end, M.START_TOLD_MS)
  vim.defer_fn(function()
    if self.state ~= 'starting' or not self.lsp or self.lsp.id ~= id then
      return
    end
    stopping[id] = function() end
    lsp('stop', true)
    kill()
    self.lsp, self.state = nil, 'off'
    flush(('agentls: `%s` was started and does not answer: is it the server?'):format(table.concat(cmd, ' ')))
  end, M.START_MS)
end

---Notifications of this protocol that servers newer than the generated list send.
M.also = {
  'agent/modelSwitched',
  'agent/circuit',
  'agent/compacted',
  'agent/limitRequested',
  'agent/limitResolved',
  'agent/questionRequested',
  'agent/questionResolved',
  'agent/turnDiff',
}

---Lets nothing outlive Neovim: a server that answers ends by itself, one that does not is killed.
local function leave()
  leaving = true
  if not self.lsp or not self.pid then
    return
  end
  local answered = false
  if self.state == 'ready' and not hangs then
    ping(function()
      answered = true
    end)
    vim.wait(M.LEAVE_MS, function()
      return answered or not self.lsp
    end, 5)
  end
  if not answered and self.lsp then
    kill()
  end
end

---Calls back when the server can be asked, or with the reason why there is none.
---@param callback fun(err?: string)
function M.ensure(callback)
  if self.state == 'ready' then
    return callback()
  end
  if not M.watching then
    M.watching = true
    local group = vim.api.nvim_create_augroup('agentls.client', {})
    vim.api.nvim_create_autocmd(
      { 'BufReadPost', 'BufNewFile', 'BufWinEnter', 'BufFilePost', 'BufWritePost', 'BufModifiedSet' },
      {
        group = group,
        callback = function(event)
          attach(event.buf)
        end,
      }
    )
    vim.api.nvim_create_autocmd('VimLeavePre', {
      group = group,
      callback = leave,
    })
  end
  start(callback)
end

---Sends a request when the server can be asked. An error is a table as JSON-RPC has it.
---@param method string
---@param params table
---@param callback? fun(err?: lsp.ResponseError, result?: any)
function M.request(method, params, callback)
  callback = callback or function() end
  M.ensure(function(failed)
    if failed then
      return callback({ code = 0, message = failed })
    end
    local asked = self.lsp
    if READS_DOCUMENTS[method] then
      for _, change in ipairs(documents.all()) do
        lsp('notify', 'textDocument/didChange', change)
      end
    end
    pending = pending + 1
    local sent = lsp('request', method, params, function(err, result)
      if self.lsp == asked then
        pending = math.max(0, pending - 1)
      end
      callback(err, result)
    end)
    if not sent then
      pending = math.max(0, pending - 1)
      callback({ code = 0, message = 'agentls: the server is gone' })
    end
  end)
end

---Asks and waits, at most `ms`; nil when there is no server or no answer. For completion, which cannot wait otherwise.
---@param method string
---@param params table
---@param ms integer
---@return any?
function M.request_sync(method, params, ms)
  local answer = self.state == 'ready' and lsp('request_sync', method, params, ms, 0) or nil
  return answer and answer.result
end

---@param method string
---@param params table
function M.notify(method, params)
  if self.state == 'ready' then
    lsp('notify', method, params)
  end
end

---Whether the server takes this request.
---@param method string
function M.offers(method)
  return self.agent ~= nil and vim.list_contains(self.agent.methods or {}, method)
end

---@param feature string
function M.has_feature(feature)
  return self.agent ~= nil and vim.list_contains(self.agent.features or {}, feature)
end

---Kills the server if it does not answer for a while: for what must end whatever the server does.
---@param why string
function M.must_answer(why)
  if self.state ~= 'ready' then
    return
  end
  local answered = false
  ping(function()
    answered = true
  end)
  kill_after(M.STOP_MS, why, function()
    return answered
  end)
end

---Whether the server hangs.
function M.hangs()
  return hangs
end

function M.is_ready()
  return self.state == 'ready'
end

---The client of `vim.lsp`, when there is one.
---@return vim.lsp.Client?
function M.lsp()
  return self.lsp
end

---What the server announced, when there is one.
function M.agent()
  return self.agent
end

---Makes sure that `path` lies in a folder that the server knows.
---@param path string
function M.add_folder(path)
  local client = self.lsp
  if not client or self.state ~= 'ready' then
    return
  end
  if is_inside(path) then
    return
  end
  local folder = as_folder(path)
  client.workspace_folders = client.workspace_folders or {}
  table.insert(client.workspace_folders, folder)
  M.notify('workspace/didChangeWorkspaceFolders', { event = { added = { folder }, removed = {} } })
  vim.iter(vim.api.nvim_list_bufs()):each(attach)
end

---Ends the server, by force if need be, and calls back when it is gone; the next command starts it again.
---@param callback? fun()
function M.stop(callback)
  callback = callback or function() end
  if not self.lsp then
    return callback()
  end
  stopping[self.lsp.id] = callback
  lsp('stop')
  kill_after(hangs and 0 or M.STOP_MS, 'it did not end when asked to')
end

return M
