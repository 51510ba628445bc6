-- A missing, incompatible, or crashed server, its restart and shutdown; and the installation.

local support = require('tests.support')
local eq, wait = support.eq, support.wait

---Writes a server that answers `initialize` with another version.
local function fake_server(name, agent)
  local path = support.home .. '/' .. name
  support.write(
    path,
    ([[#!/usr/bin/env python3
import json, sys
while True:
    length = 0
    while (line := sys.stdin.readline().strip()):
        length = int(line.split(':')[1])
    if not length: break
    request = json.loads(sys.stdin.read(length))
    if request.get('method') == 'exit': break
    if 'id' in request:
        result = {'capabilities': {'experimental': %s}} if request['method'] == 'initialize' else None
        body = json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'result': result})
        sys.stdout.write('Content-Length: %%d\r\n\r\n%%s' %% (len(body), body)); sys.stdout.flush()
]]):format(agent)
  )
  vim.uv.fs_chmod(path, 493)
  return path
end

return function(test, drive)
  drive('after a crash the server restarts, the session reloads and the turn resumes', nil, function(nvim)
    nvim.cmd('AgentPrompt run it')
    nvim.wait_for_approval()
    nvim.run_twice('AgentApprove')
    nvim.see('started42')
    local server = nvim.server()
    vim.uv.kill(server.pid, 'sigkill')
    nvim.wait_for_notification('the server ended unexpectedly (signal 9); restarting it')
    local state = nvim.wait_for_turn_end()
    eq({ state.items[#state.items].state, state.offline }, { 'interrupted', nil })
    assert(nvim.server().pid ~= server.pid)
    nvim.see('■ interrupted')
    nvim.cmd('AgentResume')
    nvim.wait_for_turn_end(2)
    nvim.see('Ran.')
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end(3)
  end)

  drive('a crash keeps streamed text and asks an open question again', nil, function(nvim)
    nvim.cmd('AgentPrompt go on forever')
    nvim.see('Once upon a time')
    wait('the words in the store', function()
      return nvim.read_stored_session():find('Once upon a time', 1, true)
    end)
    vim.uv.kill(nvim.server().pid, 'sigkill')
    local state = nvim.wait_for_turn_end()
    eq({ state.items[2].text, state.items[2].incomplete }, { 'Once upon a time', true })
    nvim.cmd('AgentNew')
    wait('the new session', function()
      return #nvim.state().items == 0
    end)
    nvim.cmd('AgentPrompt fix it')
    local approval = nvim.wait_for_approval()
    vim.uv.kill(nvim.server().pid, 'sigkill')
    nvim.wait_for_turn_end()
    eq(nvim.wait_for_approval().approvalId, approval.approvalId)
    nvim.run_twice('AgentApprove')
    nvim.cmd('AgentResume')
    nvim.wait_for_turn_end(2)
    assert(support.read(nvim.workspace .. '/cart.py'):find('discount / 100', 1, true))
  end)

  drive(':AgentReload reads changed files, and shows problems', nil, function(nvim)
    nvim.cmd('AgentReload')
    nvim.wait_for_notification('reloaded the configuration; no problems')
    support.write(nvim.workspace .. '/.agentls/config.toml', 'no toml')
    nvim.cmd('AgentReload')
    -- A second reload repeats nothing, and loses nothing.
    for _ = 1, 2 do
      nvim.wait_for_notification('reloaded the configuration; problems: 1 · :AgentProblems')
      nvim.cmd('AgentProblems')
      local entries = nvim.lua('return vim.fn.getqflist()')
      eq(#entries, 1)
      eq(nvim.lua('return vim.fs.basename(vim.fn.bufname(...))', entries[1].bufnr), 'config.toml')
      nvim.lua('notices = {}')
      nvim.cmd('cclose')
      nvim.cmd('AgentReload')
    end
    nvim.wait_for_notification('reloaded the configuration; problems: 1')
    support.write(nvim.workspace .. '/.agentls/config.toml', '')
    nvim.cmd('AgentReload')
    nvim.wait_for_notification('reloaded the configuration; no problems')
    nvim.cmd('AgentProblems')
    nvim.wait_for_notification('there are no warnings')
  end)

  drive('a restart reloads the sessions', nil, function(nvim)
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    local old_pid = nvim.server().pid
    nvim.cmd('AgentRestart')
    wait('another server', function()
      local new_server = vim.iter(support.find_processes(nvim.mark)):find(function(process)
        return process.command == support.server and process.pid ~= old_pid
      end)
      return new_server and nvim.lua("return require('agentls.client').is_ready()")
    end)
    nvim.cmd('AgentPrompt stream again')
    nvim.wait_for_turn_end(2)
    eq(nvim.notices(), {})
  end)

  drive('a server that exits at startup is not restarted', {
    setup = [[{ cmd = { 'sh', '-c', 'exit 3' } }]],
  }, function(nvim)
    nvim.cmd('AgentPrompt hello')
    nvim.wait_for_notification('the server did not start (exit code 3)')
  end)

  drive('the next Neovim can load the session', nil, function(nvim)
    nvim.cmd('AgentPrompt stream this')
    nvim.wait_for_turn_end()
    nvim.quit()
    local reopened = support.neovim({ workspace = nvim.workspace, data = nvim.data })
    reopened.lua([[vim.ui.select = function(items, options, choose)
      for i, item in ipairs(items) do
        if options.format_item(item):find('stream this', 1, true) then return choose(item, i) end
      end
    end]])
    reopened.cmd('AgentSessions')
    reopened.see('Grüße: one two three')
    reopened.cmd('AgentPrompt stream more')
    reopened.wait_for_turn_end(2)
    reopened.quit()
  end)

  drive(':qa during a command leaves no process', nil, function(nvim)
    nvim.cmd('AgentPrompt run it')
    nvim.wait_for_approval()
    nvim.run_twice('AgentApprove')
    nvim.see('started42')
    assert(#support.find_processes(nvim.mark) > 2, 'Neovim, the server and its command are seen')
    -- `drive` quits with :qa and checks for processes.
  end)

  drive('a missing server is explained', { setup = '{ cmd = { "/nowhere/agentls" } }' }, function(nvim)
    nvim.cmd('Agent')
    nvim.wait_for_notification(
      'the server was not found: `/nowhere/agentls` (the option `cmd`) is not executable. Install it with'
    )
    eq(#nvim.notices(), 1)
  end)

  test('an incompatible server is refused in one sentence and stopped', function()
    local future_agent = '{"agent": {"protocolVersion": {"major": 7, "minor": 1}}}'
    for agent, expected in pairs({
      [future_agent] = 'the server uses protocol 7.1, but this plugin uses 1.0; update the plugin.',
      ['{}'] = '`cmd` does not start an agentls server',
    }) do
      local path = fake_server('fake-' .. #agent, agent)
      local nvim = support.neovim({ setup = ('{ cmd = { %q } }'):format(path) })
      nvim.cmd('AgentPrompt hello')
      nvim.wait_for_notification(expected)
      eq(#nvim.notices(), 1)
      wait('the end of that server', function()
        return not vim.iter(support.find_processes(nvim.mark)):any(function(process)
          return process.command:find(path, 1, true) ~= nil
        end)
      end, 10000)
      nvim.quit()
    end
  end)

  drive(
    ':checkhealth reports on Neovim, options and server',
    { setup = ('{ cmd = { %q }, keyz = 1 }'):format(support.server) },
    function(nvim)
      nvim.cmd('checkhealth agentls')
      local report = table.concat(nvim.lua('return vim.api.nvim_buf_get_lines(0, 0, -1, false)'), '\n')
      for _, expected in ipairs({
        'agentls',
        'Markdown parser',
        'unknown option `keyz`; did you mean `keys`?',
        'agentls 0.',
      }) do
        assert(report:find(expected, 1, true), ('"%s" is not in:\n%s'):format(expected, report))
      end
      assert(not report:find('ERROR', 1, true), report)
      assert(report:find('OK provider +tape'), report)
    end
  )

  drive('nothing is loaded or started before the first command', nil, function(nvim)
    eq(nvim.lua("return require('agentls').statusline()"), '')
    eq(
      nvim.lua("return package.loaded['agentls.client'] == nil and package.loaded['agentls.view'] == nil"),
      true
    )
    eq(nvim.lua('return #vim.lsp.get_clients()'), 0)
    eq(nvim.lua("return vim.fn.exists(':AgentCompact')"), 0)
  end)

  drive("setup creates the commands if 'runtimepath' was set late", {
    init = "vim.g.loaded_agentls = nil; vim.cmd('set noloadplugins')",
  }, function(nvim)
    eq(nvim.lua("return vim.fn.exists(':AgentPrompt')"), 2)
  end)

  drive('a key loads earlier events', nil, function(nvim)
    for i = 1, 30 do
      nvim.lua("require('agentls').prompt(...)", 'number ' .. i)
      nvim.wait_for_turn_end(i)
    end
    nvim.lua([[
      local sessions = require('agentls.sessions')
      local id = sessions.get_current().id
      sessions.all[id] = nil
      local request = require('agentls.client').request
      require('agentls.client').request = function(method, params, callback)
        if method == 'agent/loadSession' then params.tail = 40 end
        return request(method, params, callback)
      end
      sessions.load_session(id, function(session) require('agentls.view').open_chat(session, { focus = 'chat' }) end)
    ]])
    nvim.see('> number 30')
    assert(not nvim.chat():find('> number 20\n', 1, true), 'all is there already')
    local item_count = #nvim.state().items
    nvim.keys('gk')
    wait('the earlier page', function()
      return #nvim.state().items > item_count
    end)
    while not nvim.chat():find('> number 1\n', 1, true) do
      item_count = #nvim.state().items
      nvim.keys('gk')
      wait('the page before', function()
        return #nvim.state().items > item_count
      end)
    end
    local count = 0
    for _ in nvim.chat():gmatch('> number') do
      count = count + 1
    end
    eq(count, 30)
  end)

  drive(':AgentLog opens the log', nil, function(nvim)
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    nvim.cmd('AgentLog')
    assert(
      nvim.lua('return vim.api.nvim_buf_get_name(0)'):find('agentls.log', 1, true),
      vim.inspect(nvim.notices())
    )
  end)

  drive('every file buffer is synced without delay', nil, function(nvim)
    nvim.cmd('edit cart.py')
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    support.write(nvim.workspace .. '/later.txt', 'later\n')
    nvim.cmd('tabedit later.txt')
    eq(
      nvim.lua([[
        local client = vim.lsp.get_clients({ name = 'agentls' })[1]
        local names = {}
        for buffer in pairs(client.attached_buffers) do
          table.insert(names, vim.fs.basename(vim.api.nvim_buf_get_name(buffer)))
        end
        table.sort(names)
        return { names, client.flags.debounce_text_changes }
      ]]),
      { { 'cart.py', 'later.txt' }, 0 }
    )
  end)
end
