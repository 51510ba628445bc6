-- Drives the real server with Neovim's own LSP client. The model is a cassette, so nothing is needed but the
-- binary and Neovim: `nvim --headless -u NONE -i NONE -n -l tests/foreign/nvim/run.lua`.
--
-- AGENTLS: the binary, if it is not target/debug/agentls.

local support = dofile(vim.fs.dirname(debug.getinfo(1, 'S').source:sub(2)) .. '/support.lua')
local wait = support.wait

local TEXT = 'Grüße: one two three four five six seven eight nine ten.'
local linux = vim.uv.os_uname().sysname == 'Linux'
local home = support.make_world()
local passed, failed, number = 0, 0, 0

--- The notifications that Neovim showed.
local notices = {}
vim.notify = function(text)
  table.insert(notices, text)
end

local function print_line(text)
  io.stdout:write(text .. '\n')
  io.stdout:flush()
end

local function eq(actual, expected)
  assert(vim.deep_equal(actual, expected), ('got %s, expected %s'):format(vim.inspect(actual), vim.inspect(expected)))
end

--- Runs `body` in a new workspace, and checks that no process that it started survives.
local function test(name, body)
  number = number + 1
  local workspace = home .. '/work-' .. number
  vim.fn.mkdir(workspace)
  local mark = ('foreign-%s-%d.'):format(vim.fs.basename(home), number)
  vim.env.AGENTLS_TEST_MARK = mark
  notices = {}
  local start = vim.uv.hrtime()
  local ok, message = xpcall(function()
    body(workspace, mark)
    support.nothing_left(mark)
    eq(notices, {})
  end, debug.traceback)
  for _, process in ipairs(ok and {} or support.marked(mark)) do
    vim.uv.kill(process.pid, 'sigkill')
  end
  vim.cmd('silent! %bwipeout!')
  if ok then
    passed = passed + 1
    print_line(('ok   %s (%.1f s)'):format(name, (vim.uv.hrtime() - start) / 1e9))
  else
    failed = failed + 1
    print_line(('FAIL %s\n%s'):format(name, message))
  end
end

test('the generated Lua file loads and lists everything that the server announces', function(workspace)
  vim.cmd.luafile(support.repository .. '/editors/nvim/lua/agentls/protocol.lua')
  local protocol = support.protocol()
  local client = support.client(workspace)
  local agent = client.lsp.server_capabilities.experimental.agent
  eq(protocol.version.major, agent.protocolVersion.major)
  local known = vim.list_extend(vim.tbl_values(protocol.requests), vim.tbl_values(protocol.client_notifications))
  for _, method in ipairs(agent.methods) do
    assert(vim.list_contains(known, method), 'the file lacks ' .. method)
  end
  for _, method in ipairs(agent.notifications) do
    assert(vim.list_contains(vim.tbl_values(protocol.server_notifications), method), 'the file lacks ' .. method)
  end
  eq(client.stop(), { code = 0, signal = 0 })
end)

test('vim.lsp.rpc: initialize, a streamed prompt, and a clean shutdown', function(workspace)
  local got, deltas, ended, answers = '', 0, nil, {}
  local rpc = vim.lsp.rpc.start({ support.binary }, {
    notification = function(method, params)
      if method == 'agent/textDelta' then
        got, deltas = got .. params.text, deltas + 1
      end
    end,
    on_exit = function(code, signal)
      ended = { code, signal }
    end,
  }, { cwd = workspace })
  local function call(method, params)
    rpc.request(method, params, function(err, result)
      answers[method] = { err = err, result = result }
    end)
    local answer = wait(method, function()
      return answers[method]
    end)
    assert(not answer.err, vim.inspect(answer.err))
    return answer.result
  end
  local capabilities = call('initialize', { processId = vim.fn.getpid(), capabilities = vim.empty_dict() }).capabilities
  eq(capabilities.experimental.agent.protocolVersion.major, 1)
  rpc.notify('initialized', vim.empty_dict())
  local session = call('agent/newSession', { cwd = workspace }).sessionId
  local answer = call('agent/prompt', { sessionId = session, prompt = 'stream, please' })
  eq({ answer.state, answer.text, got }, { 'completed', TEXT, TEXT })
  assert(deltas > 2, ('only %d deltas arrived'):format(deltas))
  call('shutdown')
  rpc.notify('exit')
  eq(
    wait('the exit', function()
      return ended
    end),
    { 0, 0 }
  )
end)

test('vim.lsp.start: the answer streams and its end is reported', function(workspace)
  local client = support.client(workspace)
  local session = client.session()
  local answer = client.answer(client.prompt(session, 'stream, please'))
  eq({ answer.state, answer.reason, answer.text }, { 'completed', 'completed', TEXT })
  local text, deltas = client.text('agent/textDelta')
  eq(text, TEXT)
  assert(deltas > 2, ('only %d deltas arrived'):format(deltas))
  eq(client.note('agent/turnEnded').state, 'completed')
  eq(client.stop(), { code = 0, signal = 0 })
end)

test('the agent reads an unsaved buffer', function(workspace)
  support.write(workspace .. '/notes.txt', 'what is on disk\n')
  vim.cmd.edit(workspace .. '/notes.txt')
  local client = support.client(workspace, true)
  vim.api.nvim_buf_set_lines(0, 0, -1, true, { 'only in the buffer: äöü' })
  client.answer(client.prompt(client.session(), 'read the notes'))
  local call = client.note('agent/toolCall', function(call)
    return call.status == 'completed'
  end)
  assert(call.output:find('only in the buffer: äöü', 1, true), call.output)
  eq(support.read(workspace .. '/notes.txt'), 'what is on disk\n')
  eq(client.stop(), { code = 0, signal = 0 })
end)

test('a write needs approval, shows its diff, and happens once allowed', function(workspace)
  local client = support.client(workspace)
  local turn = client.prompt(client.session(), 'write the file')
  local approval = client.note('agent/approvalRequested')
  eq(approval.name, 'write_file')
  assert(approval.diff:find('\n+made by the agent', 1, true), approval.diff)
  eq(support.read(workspace .. '/made.txt'), nil)
  client.decide('allow')
  eq(client.answer(turn).text, 'Written.')
  eq(support.read(workspace .. '/made.txt'), 'made by the agent\n')
  eq(client.stop(), { code = 0, signal = 0 })
end)

test('a denied write does not happen', function(workspace)
  local client = support.client(workspace)
  local turn = client.prompt(client.session(), 'write the file')
  client.decide('deny')
  eq(client.answer(turn).state, 'completed')
  eq(support.read(workspace .. '/made.txt'), nil)
  eq(client.stop(), { code = 0, signal = 0 })
end)

test('agent/cancel ends the turn with a result', function(workspace)
  local client = support.client(workspace)
  local session = client.session()
  local turn = client.prompt(session, 'go on forever')
  client.note('agent/textDelta')
  client.lsp:notify('agent/cancel', { sessionId = session })
  local answer = client.answer(turn)
  eq({ answer.state, answer.reason, answer.text }, { 'cancelled', 'aborted_streaming', 'Once upon a time' })
  eq(client.stop(), { code = 0, signal = 0 })
end)

test('client:cancel_request ends the turn: the callback is dropped, and turnEnded arrives', function(workspace)
  local client = support.client(workspace)
  local session = client.session()
  local turn = client.prompt(session, 'go on forever')
  client.note('agent/textDelta')
  client.lsp:cancel_request(turn.id)
  eq(client.note('agent/turnEnded').state, 'cancelled')
  -- The session still works. This answer arrives after the canceled one would have.
  eq(client.answer(client.prompt(session, 'stream, please')).text, TEXT)
  assert(not turn.done, 'Neovim now keeps the callback of a canceled request: update protocol.md')
  eq(client.stop(), { code = 0, signal = 0 })
end)

test('two clients work side by side, and each session belongs to one of them', function(workspace)
  local first, second = support.client(workspace), support.client(workspace)
  local one, two = first.session(), second.session()
  local turns = { first.prompt(one, 'stream, please'), second.prompt(two, 'stream, please') }
  eq({ first.answer(turns[1]).text, second.answer(turns[2]).text }, { TEXT, TEXT })
  eq({ (first.text('agent/textDelta')), (second.text('agent/textDelta')) }, { TEXT, TEXT })
  local err = second.ask('agent/loadSession', { sessionId = one })
  eq({ err.code, err.data.refusal }, { -32803, 'sessionLocked' })
  assert(#second.call('agent/loadSession', { sessionId = one, readOnly = true }).events > 0)
  eq(first.stop(), { code = 0, signal = 0 })
  local loaded = second.call('agent/loadSession', { sessionId = one })
  eq(loaded.events[#loaded.events].method, 'agent/turnEnded')
  eq(second.answer(second.prompt(one, 'stream once more')).text, TEXT)
  eq(second.stop(), { code = 0, signal = 0 })
end)

if linux then
  test('a crash is noticed, leaves no command behind, and loses nothing of the session', function(workspace, mark)
    local client = support.client(workspace)
    local session = client.session()
    client.run_command(session)
    local processes = support.marked(mark)
    local server = vim.iter(processes):find(function(process)
      return process.command == support.binary
    end)
    assert(server and #processes > 1, 'the server and its command run: ' .. vim.inspect(processes))
    vim.uv.kill(server.pid, 'sigkill')
    eq(client.exited().signal, 9)
    wait("Neovim's notification", function()
      return #notices > 0
    end)
    assert(notices[1]:find('signal 9', 1, true), notices[1])
    notices = {}
    support.nothing_left(mark)
    client = support.client(workspace)
    local loaded = client.call('agent/loadSession', { sessionId = session })
    local is_stored = vim.iter(loaded.events):any(function(event)
      return event.method == 'agent/toolCall' and event.params.status == 'running'
    end)
    assert(is_stored, 'earlier events are stored: ' .. vim.inspect(loaded.events))
    local ended = loaded.events[#loaded.events]
    eq({ ended.method, ended.params.state }, { 'agent/turnEnded', 'interrupted' })
    eq(client.answer(client.prompt(session, 'stream, please')).text, TEXT)
    eq(client.stop(), { code = 0, signal = 0 })
  end)

  for _, leave in ipairs({ 'qa', 'kill' }) do
    local name = leave == 'qa' and ':qa during a command' or 'killing Neovim during a command'
    test(name .. ' leaves no process', function(workspace, mark)
      local output, ended = '', nil
      local script = support.here .. '/quit.lua'
      local editor = vim.system(
        { vim.v.progpath, '--headless', '-u', 'NONE', '-i', 'NONE', '-n', '-c', 'luafile ' .. vim.fn.fnameescape(script) },
        {
          env = { WORKSPACE = workspace, LEAVE = leave },
          stdout = function(_, data)
            output = output .. (data or '')
          end,
        },
        function(result)
          ended = result
        end
      )
      wait('the command', function()
        return output:find('\n', 1, true) or ended
      end)
      eq(output, 'running\n')
      if leave == 'kill' then
        assert(#support.marked(mark) > 2, 'the editor, the server, and its command run')
        editor:kill('sigkill')
      end
      wait('the exit of Neovim', function()
        return ended
      end)
      eq({ ended.code, ended.signal }, leave == 'qa' and { 0, 0 } or { 0, 9 })
      support.nothing_left(mark)
    end)
  end
end

vim.fn.delete(home, 'rf')
print_line(('%d passed, %d failed'):format(passed, failed))
os.exit(failed == 0 and 0 or 1)
