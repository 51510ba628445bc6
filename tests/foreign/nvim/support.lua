-- Helpers of run.lua and quit.lua: an isolated home folder, LSP clients in it, and finding processes.

local M = {}

--- Timeout of each wait in ms. A busy machine is slow.
M.timeout = 60000

--- Timeout in ms for processes to end. The server promises 2 s; the rest allows for a busy machine.
M.exit_timeout = 10000

local here = vim.fs.dirname(vim.fs.normalize(vim.uv.fs_realpath(debug.getinfo(1, 'S').source:sub(2))))
M.repository = vim.fs.dirname(vim.fs.dirname(vim.fs.dirname(here)))
M.here = here
M.binary = vim.fs.abspath(os.getenv('AGENTLS') or (M.repository .. '/target/debug/agentls'))

function M.write(path, text)
  vim.fn.mkdir(vim.fs.dirname(path), 'p')
  local file = assert(io.open(path, 'w'))
  file:write(text)
  file:close()
end

--- Returns the file's content, or nil if the file does not exist.
function M.read(path)
  local file = io.open(path, 'rb')
  if not file then
    return nil
  end
  local text = file:read('*a')
  file:close()
  return text
end

--- Creates the home folder of the tests, and points Neovim and everything that it starts to it.
function M.make_world()
  local base = vim.uv.fs_realpath(vim.uv.os_tmpdir())
  local home = assert(vim.uv.fs_mkdtemp(base .. '/agentls-nvim-XXXXXX'))
  for _, name in ipairs({ 'config', 'data', 'state', 'cache' }) do
    vim.env['XDG_' .. name:upper() .. '_HOME'] = home .. '/' .. name
    vim.fn.mkdir(home .. '/' .. name, 'p')
  end
  vim.env.HOME = home
  M.write(home .. '/config/agentls/cassette.json', assert(M.read(here .. '/../cassette.json')))
  M.write(
    home .. '/config/agentls/config.toml',
    '[provider.tape]\nkind = "script"\ncassette = "cassette.json"\nmodel = "tape"\n\n[agent.default]\nprovider = "tape"\n'
  )
  return home
end

--- Waits until `find` returns a value, and returns it.
function M.wait(description, find, ms)
  local found
  local function has_found()
    found = find()
    return found ~= nil and found ~= false
  end
  assert(vim.wait(ms or M.timeout, has_found, 10), 'timed out waiting for ' .. description)
  return found
end

--- Lists the processes whose environment contains `mark` as { pid, command }. Empty on systems without /proc.
function M.marked(mark)
  local found = {}
  for name in vim.fs.dir('/proc') do
    local environ = name:match('^%d+$') and M.read('/proc/' .. name .. '/environ')
    if environ and environ:find(mark, 1, true) then
      local command = (M.read('/proc/' .. name .. '/cmdline') or ''):gsub('%z', ' ')
      table.insert(found, { pid = tonumber(name), command = vim.trim(command) })
    end
  end
  return found
end

--- Waits until no process carries the mark.
function M.nothing_left(mark)
  local remaining = {}
  local function none()
    remaining = M.marked(mark)
    return #remaining == 0
  end
  assert(vim.wait(M.exit_timeout, none, 50), 'processes still run: ' .. vim.inspect(remaining))
end

--- Starts a server as an LSP client of Neovim and waits until it is initialized. `notes` are the notifications it
--- received. `attach`: whether it follows the current buffer.
function M.client(workspace, attach)
  local notes, handlers = {}, {}
  local protocol = M.protocol()
  for _, method in pairs(protocol.server_notifications) do
    handlers[method] = function(_, params)
      table.insert(notes, { method = method, params = params })
    end
  end
  local self = { notes = notes }
  local config = {
    name = 'agentls',
    cmd = { M.binary },
    cmd_cwd = workspace,
    root_dir = workspace,
    handlers = handlers,
    on_exit = function(code, signal)
      self.ended = { code = code, signal = signal }
    end,
  }
  local function never()
    return false
  end
  local id = assert(vim.lsp.start(config, { attach = attach or false, reuse_client = never }))
  self.lsp = assert(vim.lsp.get_client_by_id(id))
  M.wait('initialized', function()
    return self.lsp.initialized
  end)

  --- Waits for the first `method` notification that matches.
  function self.note(method, matches)
    return M.wait(method, function()
      for _, note in ipairs(notes) do
        if note.method == method and (not matches or matches(note.params)) then
          return note.params
        end
      end
    end)
  end
  --- Returns the joined text of all `method` deltas, and their number.
  function self.text(method)
    local texts = {}
    for _, note in ipairs(notes) do
      if note.method == method then
        table.insert(texts, note.params.text)
      end
    end
    return table.concat(texts), #texts
  end
  --- Sends a request and returns its error and its result.
  function self.ask(method, params)
    local answer, message = self.lsp:request_sync(method, params, M.timeout)
    assert(answer, method .. ': ' .. tostring(message))
    return answer.err, answer.result
  end
  --- Sends a request that must succeed, and returns its result.
  function self.call(method, params)
    local err, result = self.ask(method, params)
    assert(not err, method .. ': ' .. vim.inspect(err))
    return result
  end
  function self.session()
    return self.call('agent/newSession', { cwd = workspace }).sessionId
  end
  --- Sends a prompt without waiting. The answer is stored in the returned table.
  function self.prompt(session, prompt)
    local turn = {}
    local sent
    sent, turn.id = self.lsp:request('agent/prompt', { sessionId = session, prompt = prompt }, function(err, result)
      turn.err, turn.result = err, result
      turn.done = true
    end)
    assert(sent, 'the prompt was not sent')
    return turn
  end
  --- Waits for the answer to a prompt.
  function self.answer(turn)
    M.wait('the answer to the prompt', function()
      return turn.done
    end)
    assert(not turn.err, vim.inspect(turn.err))
    return turn.result
  end
  function self.decide(decision)
    local approval = self.note('agent/approvalRequested')
    self.call('agent/approvalRespond', { approvalId = approval.approvalId, decision = decision })
    return approval
  end
  --- Starts a command that would take ten minutes, and waits until it runs.
  function self.run_command(session)
    local turn = self.prompt(session, 'run the command')
    self.decide('allow')
    self.note('agent/toolOutputDelta', function(delta)
      return delta.text:find('started', 1, true)
    end)
    return turn
  end
  function self.exited()
    return M.wait('the exit', function()
      return self.ended
    end)
  end
  --- Shuts the server down as Neovim does.
  function self.stop()
    self.lsp:stop()
    return self.exited()
  end
  return self
end

--- The generated Lua file.
function M.protocol()
  return dofile(M.repository .. '/editors/nvim/lua/agentls/protocol.lua')
end

return M
