-- Starts the server, restarts it after a crash, and exchanges messages with it.
--
-- One Neovim has one server. The first command that needs it starts it. `vim.lsp` does the framing, the document sync,
-- and the shutdown. This module must not know what the messages mean; sessions.lua does.

local config = require('agentls.config')
local document_sync = require('agentls.document_sync')
local notifications = require('agentls.notifications')
local protocol = require('agentls.protocol')
local format = require('agentls.format')

local M = {}

---@class agentls.Client
---@field lsp? vim.lsp.Client
---@field agent? agentls.ServerCapability The capability that the server announced.
---@field state 'off'|'starting'|'ready'
---@field pid? integer The server process. It leads its own process group.
---@field kill_reason? string Why this module killed the server.
local self = { state = 'off' }

---Called with each notification from the server.
---@type fun(method: string, params: table)
M.on_notification = function() end
---Called after the server ended unexpectedly.
---@type fun(why: string, will_restart: boolean)
M.on_crash = function() end
---Called when a server is ready that replaces a crashed one.
M.on_restart = function() end
---Called whenever a server is ready.
M.on_ready = function() end

---Called when the server stops answering, and when it answers again.
---@type fun(hangs: boolean)
M.on_hang = function() end

local ready_callbacks = {} ---@type fun(err?: string)[]
local crash_times = {} ---@type integer[] In ms, as `vim.uv.now()` counts.
local is_leaving = false
local stop_callbacks = {} ---@type table<integer, fun()> By id of a client that is stopping: called after its exit.

---After more crashes than this within the window, only a command restarts the server.
local MAX_CRASHES, CRASH_WINDOW_MS = 3, 120000

---How long a server may take to answer `initialize`, in ms. Then it is killed. A notice appears earlier.
M.START_MS, M.START_NOTICE_MS = 30000, 5000

---How often a server is pinged while a request is pending, in ms.
M.PING_MS = 5000
---How long a server may take to end a turn, or to exit, in ms. Then it is killed.
M.STOP_MS = 5000
---How long a server may take to answer a ping when Neovim exits, in ms.
M.EXIT_MS = 1500

---Every server answers this request immediately.
local PING = 'agent/listApprovals'

---Requests after which the model reads the documents.
local READS_DOCUMENTS =
  { ['agent/prompt'] = true, ['agent/steer'] = true, ['agent/resumeTurn'] = true, ['agent/queue'] = true }

local pending_requests = 0
local is_hanging = false

local NEW_API = vim.fn.has('nvim-0.11') == 1

---Calls a method of the LSP client. Before Neovim 0.11, methods do not take the client as their first argument.
local function call_lsp(name, ...)
  local client = assert(self.lsp)
  if NEW_API then
    return client[name](client, ...)
  end
  return client[name](...)
end

---Kills the server and its process group. A stopped process reacts to no other signal.
local function kill_server()
  for _, target in ipairs(self.pid and { -self.pid, self.pid } or {}) do
    pcall(vim.uv.kill, target, 'sigkill')
  end
end

---Checks that the server answers. An error counts as an answer.
---@param on_answer fun()
---@return boolean sent
local function send_ping(on_answer)
  return self.lsp ~= nil and (call_lsp('request', PING, { sessionId = '' }, on_answer)) or false
end

---Kills the current server after `ms`, unless it has answered by then.
---@param ms integer
---@param reason string
---@param has_answered? fun(): boolean
local function kill_after_timeout(ms, reason, has_answered)
  local client = self.lsp
  vim.defer_fn(function()
    if client and self.lsp == client and not (has_answered and has_answered()) then
      self.kill_reason = reason
      kill_server()
    end
  end, ms)
end

---Detects a hanging server while a request is pending: two checks in a row without an answer. A busy Neovim also
---delays the checks, so it does not cause a false report.
---@param client vim.lsp.Client
local function watch_for_hang(client)
  local is_awaiting_reply, missed_checks = false, 0
  local function check_server()
    if self.lsp ~= client then
      return
    elseif is_awaiting_reply then
      missed_checks = missed_checks + 1
      if missed_checks == 2 and not is_hanging then
        is_hanging = true
        M.on_hang(true)
      end
    elseif pending_requests > 0 then
      is_awaiting_reply = send_ping(function()
        is_awaiting_reply, missed_checks = false, 0
        if is_hanging and self.lsp == client then
          is_hanging = false
          M.on_hang(false)
        end
      end)
    end
    vim.defer_fn(check_server, M.PING_MS)
  end
  vim.defer_fn(check_server, M.PING_MS)
end

local function find_repository()
  local file = vim.uv.fs_realpath(debug.getinfo(1, 'S').source:sub(2)) or ''
  -- editors/nvim/lua/agentls/client.lua
  return vim.fs.dirname(vim.fs.dirname(vim.fs.dirname(vim.fs.dirname(vim.fs.dirname(file)))))
end

---Returns the command that starts the server, or nil, and the places searched.
---@return string[]? cmd
---@return string[] places
function M.find_command()
  local cmd = config.current.cmd
  if cmd then
    return vim.fn.executable(cmd[1]) == 1 and cmd or nil, { cmd[1] }
  end
  local root = find_repository()
  local candidates = {
    'agentls',
    root .. '/target/release/agentls',
    root .. '/target/debug/agentls',
    vim.fn.expand('~/.cargo/bin/agentls'),
  }
  for _, candidate in ipairs(candidates) do
    if vim.fn.executable(candidate) == 1 then
      return { candidate }, candidates
    end
  end
  candidates[1] = 'agentls in PATH'
  return nil, candidates
end

---Returns what to tell a user who has no server.
function M.explain_missing_server()
  local _, candidates = M.find_command()
  local reason = config.current.cmd and ('`%s` (the option `cmd`) is not executable'):format(candidates[1])
    or 'searched ' .. table.concat(candidates, ', ')
  return table.concat({
    ('agentls: the server was not found: %s.'):format(reason),
    'Install it with `cargo install --path .` in its repository,',
    'or set its path: require("agentls").setup({ cmd = { "/path/to/agentls" } }).',
    'For details run :checkhealth agentls.',
  }, ' ')
end

---Returns the folders that the agent may work in.
---@return string[]
function M.get_workspace_folders()
  local folders = config.current.workspace_folders
  if type(folders) == 'function' then
    folders = folders()
  end
  if folders and #folders > 0 then
    return vim.tbl_map(function(folder)
      return vim.fs.normalize(vim.fn.fnamemodify(folder, ':p')):gsub('(.)/$', '%1')
    end, folders)
  end
  local cwd = vim.uv.cwd() or '.'
  return { vim.fs.root(cwd, { '.agentls', '.git' }) or cwd }
end

local function to_workspace_folder(path)
  return { uri = vim.uri_from_fname(path), name = vim.fs.basename(path) }
end

---Returns why this plugin cannot talk to the server, or nil.
---@param capabilities table
---@return string?
function M.find_incompatibility(capabilities)
  local agent = vim.tbl_get(capabilities or {}, 'experimental', 'agent')
  local version = type(agent) == 'table' and agent.protocolVersion
  if type(version) ~= 'table' or type(version.major) ~= 'number' then
    return 'agentls: `cmd` does not start an agentls server: it does not announce the agent protocol.'
  end
  local plugin_version = protocol.version
  if version.major ~= plugin_version.major then
    return ('agentls: the server uses protocol %d.%d, but this plugin uses %d.%d; update %s.'):format(
      version.major,
      version.minor or 0,
      plugin_version.major,
      plugin_version.minor,
      version.major > plugin_version.major and 'the plugin'
        or 'the server (`cargo install --path .` in its repository)'
    )
  end
end

local function resolve_waiting(err)
  local callbacks = ready_callbacks
  ready_callbacks = {}
  for _, callback in ipairs(callbacks) do
    callback(err)
  end
end

local MAX_BYTES = 16 * 1024 * 1024

---Whether a buffer holds a file, and is not too large to sync.
local function is_file_buffer(buffer)
  if not vim.api.nvim_buf_is_loaded(buffer) or vim.bo[buffer].buftype ~= '' then
    return false
  end
  local name = vim.api.nvim_buf_get_name(buffer)
  if name == '' or name:match('^%a[%w+.-]+://') then
    return false
  end
  return vim.api.nvim_buf_get_offset(buffer, vim.api.nvim_buf_line_count(buffer)) <= MAX_BYTES
end

---Whether a path is inside a workspace folder.
---@param path string
local function is_in_workspace(path)
  for _, folder in ipairs(self.lsp and self.lsp.workspace_folders or {}) do
    local root = vim.uri_to_fname(folder.uri)
    for _, prefix in ipairs({ root, vim.uv.fs_realpath(root) }) do
      if path == prefix or vim.startswith(path, prefix == '/' and prefix or prefix .. '/') then
        return true
      end
    end
  end
  return false
end

---Whether the server needs a buffer's text: always inside the workspace, elsewhere only if it has unsaved changes.
local function needs_sync(buffer)
  local name = vim.api.nvim_buf_get_name(buffer)
  return vim.bo[buffer].modified or is_in_workspace(name) or is_in_workspace(vim.uv.fs_realpath(name) or name)
end

local function attach_buffer(buffer)
  if
    self.state == 'ready'
    and self.lsp
    and is_file_buffer(buffer)
    and needs_sync(buffer)
    and not vim.lsp.buf_is_attached(buffer, self.lsp.id)
  then
    vim.lsp.buf_attach_client(buffer, self.lsp.id)
  end
end

local function build_capabilities()
  local defaults = vim.lsp.protocol.make_client_capabilities()
  return vim.tbl_deep_extend('force', defaults, {
    workspace = {
      applyEdit = true,
      workspaceEdit = {
        documentChanges = true,
        resourceOperations = {},
        -- editor.lua checks all versions before it changes anything.
        failureHandling = 'textOnlyTransactional',
      },
    },
    window = { showDocument = { support = true } },
    experimental = {
      agent = {
        client = {
          saveDocuments = true,
          getDiagnostics = true,
          languageQueries = true,
          codeFixes = true,
          questions = true,
        },
      },
    },
  })
end

local start_server

local function handle_crash(code, signal)
  local now = vim.uv.now()
  crash_times = vim.tbl_filter(function(at)
    return now - at < CRASH_WINDOW_MS
  end, crash_times)
  table.insert(crash_times, now)
  local reason = signal ~= 0 and ('signal %d'):format(signal) or ('exit code %d'):format(code)
  local will_restart = #crash_times <= MAX_CRASHES
  if self.kill_reason then
    reason, self.kill_reason = self.kill_reason, nil
  end
  M.on_crash(reason, will_restart)
  if will_restart then
    notifications.notify(
      ('the server ended unexpectedly (%s); restarting it'):format(reason),
      vim.log.levels.WARN
    )
    start_server(function(err)
      if not err then
        M.on_restart()
      end
    end)
  else
    notifications.notify(
      ('the server ended unexpectedly (%s), %d times in 2 minutes; not restarting it. '):format(
        reason,
        #crash_times
      ) .. 'See :AgentLog; the next command starts it again.',
      vim.log.levels.ERROR
    )
  end
end

---Replaces invalid UTF-8 in a message. A buffer with a binary file may contain such bytes, and the server rejects a
---JSON message that has any. editor.lua refuses edits of such a buffer.
local function sanitize_message(value)
  if type(value) == 'string' then
    return format.sanitize_utf8(value)
  elseif type(value) ~= 'table' then
    return value
  end
  local copy
  for key, part in pairs(value) do
    local sanitized = sanitize_message(part)
    if sanitized ~= part then
      copy = copy or setmetatable(vim.tbl_extend('force', {}, value), getmetatable(value))
      copy[key] = sanitized
    end
  end
  return copy or value
end

---Returns the function that `vim.lsp` calls to start the server. It hides the exit code from `vim.lsp`, whose own
---message about a failed exit would wait for Enter.
---@param cmd string[]
---@param process { cwd: string, env?: table<string, string>, code: integer, signal: integer } Receives the exit code.
local function make_rpc_starter(cmd, process)
  return function(dispatchers)
    local on_exit = dispatchers.on_exit
    dispatchers.on_exit = function(code, signal)
      process.code, process.signal = code, signal
      on_exit(0, 0)
    end
    local old_children = vim.api.nvim_get_proc_children(vim.fn.getpid())
    local rpc = vim.lsp.rpc.start(cmd, dispatchers, { cwd = process.cwd, env = process.env })
    self.pid = nil
    for _, pid in ipairs(vim.api.nvim_get_proc_children(vim.fn.getpid())) do
      self.pid = not vim.list_contains(old_children, pid) and pid or self.pid
    end
    local notify, request = rpc.notify, rpc.request
    rpc.notify = function(method, params)
      return notify(method, sanitize_message(document_sync.rewrite_notification(method, params)))
    end
    rpc.request = function(method, params, ...)
      -- The params of every request are an object, and Lua does not distinguish an empty object from an empty list.
      local is_empty = type(params) == 'table' and next(params) == nil
      return request(method, is_empty and vim.empty_dict() or sanitize_message(params), ...)
    end
    return rpc
  end
end

local function handle_exit(code, signal, id)
  vim.schedule(function()
    if self.lsp and self.lsp.id ~= id then
      -- An older server exited; its successor already runs.
      stop_callbacks[id] = nil
      return
    end
    local old_state = self.state
    self.lsp, self.agent, self.state, self.pid = nil, nil, 'off', nil
    pending_requests, is_hanging = 0, false
    if is_leaving or stop_callbacks[id] then
      local on_stopped = stop_callbacks[id] or function() end
      stop_callbacks[id] = nil
      return on_stopped()
    end
    if old_state == 'starting' then
      local reason = signal ~= 0 and ('signal %d'):format(signal) or ('exit code %d'):format(code)
      return resolve_waiting(('agentls: the server did not start (%s); see :AgentLog'):format(reason))
    end
    handle_crash(code, signal)
  end)
end

local function handle_initialized(client, result)
  local incompatibility = M.find_incompatibility(result.capabilities)
  if incompatibility then
    stop_callbacks[client.id] = function() end
    if NEW_API then
      client:stop()
    else
      client.stop()
    end
    self.lsp, self.agent, self.state = nil, nil, 'off'
    return vim.schedule(function()
      resolve_waiting(incompatibility)
    end)
  end
  self.agent = result.capabilities.experimental.agent
  -- The server announces full sync but accepts ranges, too. document_sync.lua decides which one goes out.
  document_sync.reset_all()
  vim.tbl_get(client, 'server_capabilities', 'textDocumentSync').change =
    vim.lsp.protocol.TextDocumentSyncKind.Incremental
  -- `vim.lsp` sends `initialized` after this callback.
  vim.schedule(function()
    if self.lsp ~= client then
      return
    end
    self.state = 'ready'
    vim.iter(vim.api.nvim_list_bufs()):each(attach_buffer)
    watch_for_hang(client)
    M.on_ready()
    resolve_waiting()
  end)
end

---@param callback fun(err?: string)
start_server = function(callback)
  table.insert(ready_callbacks, callback)
  if self.state == 'starting' then
    return
  end
  local cmd = M.find_command()
  if not cmd then
    return resolve_waiting(M.explain_missing_server())
  end
  self.state = 'starting'
  local handlers = require('agentls.editor').build_handlers()
  for _, method in pairs(protocol.server_notifications) do
    handlers[method] = function(_, params)
      M.on_notification(method, params)
    end
  end
  -- Newer servers may send these before the generated list contains them.
  for _, method in ipairs(M.EXTRA_NOTIFICATIONS) do
    handlers[method] = handlers[method] or function(_, params)
      M.on_notification(method, params)
    end
  end
  local settings = vim.deepcopy(config.current.settings)
  settings.trusted = config.current.trusted
  local folders = M.get_workspace_folders()
  local process = { cwd = folders[1], env = config.current.env, code = 0, signal = 0 }
  local lsp_config = {
    name = 'agentls',
    cmd = make_rpc_starter(cmd, process),
    root_dir = folders[1],
    workspace_folders = vim.tbl_map(to_workspace_folder, folders),
    capabilities = build_capabilities(),
    init_options = next(settings) and settings or vim.empty_dict(),
    handlers = handlers,
    -- What the user types must reach the server before it makes its next edit.
    flags = { debounce_text_changes = 0 },
    on_init = handle_initialized,
    on_exit = function(_, _, id)
      handle_exit(process.code, process.signal, id)
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
    return resolve_waiting(('agentls: cannot start `%s`; see :LspLog'):format(table.concat(cmd, ' ')))
  end
  -- The client may have exited already.
  self.lsp = vim.lsp.get_client_by_id(id)
  vim.defer_fn(function()
    if self.state == 'starting' and self.lsp and self.lsp.id == id then
      notifications.notify(
        'the server has not answered since it was started; :AgentRestart restarts it',
        vim.log.levels.WARN
      )
    end
  end, M.START_NOTICE_MS)
  vim.defer_fn(function()
    if self.state ~= 'starting' or not self.lsp or self.lsp.id ~= id then
      return
    end
    stop_callbacks[id] = function() end
    call_lsp('stop', true)
    kill_server()
    self.lsp, self.state = nil, 'off'
    resolve_waiting(
      ('agentls: `%s` does not answer; check that it is the server'):format(table.concat(cmd, ' '))
    )
  end, M.START_MS)
end

---Notifications that a newer server may send before the generated list contains them.
M.EXTRA_NOTIFICATIONS = {
  'agent/modelSwitched',
  'agent/circuit',
  'agent/compacted',
  'agent/limitRequested',
  'agent/limitResolved',
  'agent/questionRequested',
  'agent/questionResolved',
  'agent/turnDiff',
}

---Leaves no server behind when Neovim exits. A server that answers ends by itself; any other is killed.
local function stop_on_exit()
  is_leaving = true
  if not self.lsp or not self.pid then
    return
  end
  local answered = false
  if self.state == 'ready' and not is_hanging then
    send_ping(function()
      answered = true
    end)
    vim.wait(M.EXIT_MS, function()
      return answered or not self.lsp
    end, 5)
  end
  if not answered and self.lsp then
    kill_server()
  end
end

---Starts the server if needed. Calls back when it is ready, or with the reason why it is not.
---@param callback fun(err?: string)
function M.ensure_ready(callback)
  if self.state == 'ready' then
    return callback()
  end
  if not M.has_autocmds then
    M.has_autocmds = true
    local group = vim.api.nvim_create_augroup('agentls.client', {})
    vim.api.nvim_create_autocmd(
      { 'BufReadPost', 'BufNewFile', 'BufWinEnter', 'BufFilePost', 'BufWritePost', 'BufModifiedSet' },
      {
        group = group,
        callback = function(event)
          attach_buffer(event.buf)
        end,
      }
    )
    vim.api.nvim_create_autocmd('VimLeavePre', {
      group = group,
      callback = stop_on_exit,
    })
  end
  start_server(callback)
end

---Sends a request as soon as the server is ready. An error is a JSON-RPC error object.
---@param method string
---@param params table
---@param callback? fun(err?: lsp.ResponseError, result?: any)
function M.request(method, params, callback)
  callback = callback or function() end
  M.ensure_ready(function(failure)
    if failure then
      return callback({ code = 0, message = failure })
    end
    local target = self.lsp
    if READS_DOCUMENTS[method] then
      for _, change in ipairs(document_sync.build_full_changes()) do
        call_lsp('notify', 'textDocument/didChange', change)
      end
    end
    pending_requests = pending_requests + 1
    local is_sent = call_lsp('request', method, params, function(err, result)
      if self.lsp == target then
        pending_requests = math.max(0, pending_requests - 1)
      end
      callback(err, result)
    end)
    if not is_sent then
      pending_requests = math.max(0, pending_requests - 1)
      callback({ code = 0, message = 'agentls: the server has exited' })
    end
  end)
end

---Sends a request and blocks for at most `ms`. Returns nil without a server or an answer. For completion, which cannot
---be asynchronous.
---@param method string
---@param params table
---@param ms integer
---@return any?
function M.request_sync(method, params, ms)
  local answer = self.state == 'ready' and call_lsp('request_sync', method, params, ms, 0) or nil
  return answer and answer.result
end

---@param method string
---@param params table
function M.notify(method, params)
  if self.state == 'ready' then
    call_lsp('notify', method, params)
  end
end

---Whether the server supports a request.
---@param method string
function M.supports_method(method)
  return self.agent ~= nil and vim.list_contains(self.agent.methods or {}, method)
end

---@param feature string
function M.has_feature(feature)
  return self.agent ~= nil and vim.list_contains(self.agent.features or {}, feature)
end

---Kills the server if it does not answer within `STOP_MS`. For actions that must succeed even if the server hangs.
---@param reason string
function M.kill_if_unresponsive(reason)
  if self.state ~= 'ready' then
    return
  end
  local answered = false
  send_ping(function()
    answered = true
  end)
  kill_after_timeout(M.STOP_MS, reason, function()
    return answered
  end)
end

function M.is_hanging()
  return is_hanging
end

function M.is_ready()
  return self.state == 'ready'
end

---Returns the client of `vim.lsp`, or nil without a server.
---@return vim.lsp.Client?
function M.get_lsp_client()
  return self.lsp
end

---Returns what the server announced, or nil without a server.
function M.get_agent_capability()
  return self.agent
end

---Adds `path` to the workspace folders unless one of them contains it.
---@param path string
function M.ensure_folder(path)
  local client = self.lsp
  if not client or self.state ~= 'ready' then
    return
  end
  if is_in_workspace(path) then
    return
  end
  local folder = to_workspace_folder(path)
  client.workspace_folders = client.workspace_folders or {}
  table.insert(client.workspace_folders, folder)
  M.notify('workspace/didChangeWorkspaceFolders', { event = { added = { folder }, removed = {} } })
  vim.iter(vim.api.nvim_list_bufs()):each(attach_buffer)
end

---Stops the server, by force if necessary, and calls back after its exit. The next command starts another one.
---@param callback? fun()
function M.stop_server(callback)
  callback = callback or function() end
  if not self.lsp then
    return callback()
  end
  stop_callbacks[self.lsp.id] = callback
  call_lsp('stop')
  kill_after_timeout(is_hanging and 0 or M.STOP_MS, 'it did not exit when requested')
end

return M
