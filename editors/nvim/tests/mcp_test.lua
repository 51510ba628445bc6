-- The list of MCP servers: states, live changes, and actions.

local support = require('tests.support')
local eq, wait = support.eq, support.wait

---Answers requests about MCP servers from `servers`, and records all requests.
local FAKE_SERVERS = [[
requests, opened = {}, {}
local client = require('agentls.client')
servers = {
  { name = 'docs', folder = '/w', state = 'ready', target = 'docs-mcp --all', source = '.mcp.json',
    title = 'Docs 1.2', toolCount = 2, tools = { 'search', 'read\u{202e}_page' } },
  { name = 'old', folder = '/w', state = 'disabled', target = 'old-mcp', toolCount = 0 },
  { name = 'tickets', folder = '/w', state = 'failed', target = 'tickets-mcp', toolCount = 0,
    source = '/etc/agentls.toml', reason = 'it ended with exit code 1', stderr = { 'error: no database' } },
  { name = 'wiki', folder = '/w', state = 'needsLogin', target = 'https://wiki.example/mcp', toolCount = 0 },
}
answers = {
  ['agent/listMcpServers'] = function() return { servers = vim.deepcopy(servers) } end,
  ['agent/restartMcpServer'] = function() return {} end,
  ['agent/loginMcpServer'] = function() return { url = login_url } end,
  ['agent/cancelMcpLogin'] = function() return {} end,
}
client.request = function(method, params, callback)
  table.insert(requests, { method = method, params = params })
  callback(nil, assert(answers[method], method)())
end
client.is_ready = function() return true end
client.supports_method = function() return true end
vim.ui.open = function(url) table.insert(opened, url) end
]]

---Returns the parameters of all requests of a method so far.
local function get_requests(nvim, method)
  return nvim.lua(
    [[
      local method, all = ..., {}
      for _, request in ipairs(requests) do
        if request.method == method then table.insert(all, request.params) end
      end
      return all
    ]],
    method
  )
end

---Changes a server, and notifies the plugin as the server does.
local function update_server(nvim, index, fields)
  nvim.lua(
    [[
      local index, fields = ...
      servers[index] = vim.tbl_extend('force', servers[index], fields)
      require('agentls.sessions').handle_notification('agent/mcpServerUpdated', { server = servers[index] })
    ]],
    index,
    fields
  )
end

local function move_to(nvim, text)
  nvim.lua('vim.fn.search(..., "w")', text)
end

return function(_, drive)
  drive('mcp: the list shows states, sources, and reasons, and follows changes', nil, function(nvim)
    nvim.lua(FAKE_SERVERS)
    nvim.cmd('AgentMcp')
    eq(nvim.lines(), {
      'MCP servers of /w',
      '',
      '✓ docs · ready · 2 tools · Docs 1.2',
      '    docs-mcp --all',
      '    from .mcp.json',
      '– old · disabled in the configuration',
      '    old-mcp',
      '✗ tickets · failed',
      '    it ended with exit code 1',
      '    tickets-mcp',
      '    from /etc/agentls.toml',
      '? wiki · needs a login',
      '    https://wiki.example/mcp',
      '',
      '<CR> choose an action · r restart · o log and tools · i log in · q close',
    })
    eq(nvim.lua('return vim.api.nvim_win_get_cursor(0)[1]'), 3)
    -- The cursor stays on its server, and another window shows the change too.
    move_to(nvim, 'tickets-mcp')
    nvim.cmd('wincmd p')
    update_server(nvim, 1, { state = 'failed', reason = 'signal 9 ended it', toolCount = 0 })
    nvim.cmd('wincmd p')
    eq(vim.list_slice(nvim.lines(), 3, 5), {
      '✗ docs · failed · Docs 1.2',
      '    signal 9 ended it',
      '    docs-mcp --all',
    })
    eq(nvim.lua('return vim.api.nvim_get_current_line()'), '    tickets-mcp')
    -- A state of a newer server is shown as it is.
    update_server(nvim, 1, { state = 'sleeping' })
    eq(nvim.lines()[3], '· docs · sleeping · Docs 1.2')
    update_server(nvim, 1, { state = 'invalid', target = '', reason = 'env.KEY: KEY is not set' })
    eq(vim.list_slice(nvim.lines(), 3, 6), {
      '! docs · its settings cannot be used · Docs 1.2',
      '    env.KEY: KEY is not set',
      '    from .mcp.json',
      '– old · disabled in the configuration',
    })
    -- A closed list asks for nothing.
    nvim.type_keys('q')
    local count = #get_requests(nvim, 'agent/listMcpServers')
    update_server(nvim, 1, { state = 'ready' })
    eq(#get_requests(nvim, 'agent/listMcpServers'), count)
  end)

  drive('mcp: a change during a fetch leads to another fetch', nil, function(nvim)
    nvim.lua(FAKE_SERVERS)
    nvim.cmd('AgentMcp')
    nvim.lua([[
      pending = {}
      require('agentls.client').request = function(method, params, callback)
        table.insert(pending, function() callback(nil, { servers = vim.deepcopy(servers) }) end)
      end
    ]])
    update_server(nvim, 1, { state = 'starting' })
    update_server(nvim, 1, { state = 'starting', title = 'Docs 1.3' })
    eq(nvim.lua('return #pending'), 1)
    nvim.lua('table.remove(pending, 1)()')
    eq(nvim.lua('return #pending'), 1)
    update_server(nvim, 1, { state = 'ready' })
    nvim.lua('table.remove(pending, 1)()')
    nvim.lua('table.remove(pending, 1)()')
    eq(nvim.lua('return #pending'), 0)
    eq(nvim.lines()[3], '✓ docs · ready · 2 tools · Docs 1.3')
  end)

  drive('mcp: restart, log, and actions that do not apply', nil, function(nvim)
    nvim.lua(FAKE_SERVERS)
    nvim.cmd('AgentMcp')
    move_to(nvim, 'tickets')
    nvim.type_keys('r')
    eq(get_requests(nvim, 'agent/restartMcpServer'), { { name = 'tickets' } })
    nvim.wait_for_notification('restarting tickets')
    nvim.type_keys('i')
    nvim.wait_for_notification('not possible now: tickets is failed')
    move_to(nvim, 'old')
    nvim.type_keys('r')
    nvim.wait_for_notification('not possible now: old is disabled in the configuration')
    eq(#get_requests(nvim, 'agent/restartMcpServer'), 1)
    move_to(nvim, 'docs')
    nvim.type_keys('o')
    eq(nvim.lines(), {
      '# docs',
      '',
      'ready',
      '',
      '## Its last lines on standard error',
      '',
      '(none)',
      '',
      '## Tools that the agent may use',
      '',
      'search',
      'read<U+202E>_page',
    })
    nvim.type_keys('q')
    move_to(nvim, 'tickets')
    nvim.stub_select('log and tools')
    nvim.type_keys('<CR>')
    eq(nvim.lua('return prompts[1].labels'), { 'Restart', 'Show its log and tools' })
    eq(vim.list_slice(nvim.lines(), 3, 8), {
      'failed',
      'it ended with exit code 1',
      '',
      '## Its last lines on standard error',
      '',
      'error: no database',
    })
  end)

  drive('mcp: a login shows its address and opens it only after a yes', nil, function(nvim)
    nvim.lua(FAKE_SERVERS)
    nvim.lua("login_url = 'https://me@login.example/authorize?state=' .. ('x'):rep(150)")
    nvim.cmd('AgentMcp')
    move_to(nvim, 'wiki')
    nvim.stub_select('No, do not open it', 'Yes, open it')
    nvim.type_keys('i')
    local shown = nvim.lua('return prompts[1]')
    eq(shown.prompt, 'Open this address at login.example?')
    eq(shown.float[1], 'at login.example')
    eq(table.concat(shown.float, '', 3), nvim.lua('return login_url'))
    eq(nvim.lua('return opened'), {})
    eq(get_requests(nvim, 'agent/cancelMcpLogin'), { { name = 'wiki' } })
    eq(nvim.read_float(), nil)
    nvim.type_keys('i')
    eq(nvim.lua('return opened'), { nvim.lua('return login_url') })
    eq(#get_requests(nvim, 'agent/cancelMcpLogin'), 1)
    update_server(nvim, 4, { loginUrl = nvim.lua('return login_url') })
    eq(nvim.lines()[12], '? wiki · waits for the login in your browser')
    nvim.stub_select('Stop waiting')
    nvim.type_keys('<CR>')
    eq(#get_requests(nvim, 'agent/cancelMcpLogin'), 2)
    -- Only a web address is opened.
    nvim.lua("login_url = 'file:///etc/passwd'")
    nvim.type_keys('i')
    nvim.wait_for_notification('not a web address: file:///etc/passwd')
    eq(nvim.lua('return #opened'), 1)
  end)

  local peer = support.repository .. '/tests/peers/mcp_server.py'
  local options = {
    setup = ([[{ cmd = { %q }, settings = { mcp = {
      peer = { command = 'python3', args = { %q } },
      broken = { command = 'sh', args = { '-c', 'printf "no %%s\\n" database >&2; exit 3' } },
    } } }]]):format(support.server, peer),
    files = {
      ['.mcp.json'] = vim.json.encode({ mcpServers = { theirs = { command = 'python3', args = { peer } } } }),
    },
  }
  drive('mcp: the servers of the real agent', options, function(nvim)
    ---Waits for a line of the list.
    local function see_line(text)
      wait(function()
        local lines = table.concat(nvim.lines(), '\n')
        return ('"%s" in:\n%s\nnotices: %s'):format(text, lines, vim.inspect(nvim.notices()))
      end, function()
        return table.concat(nvim.lines(), '\n'):find(text, 1, true)
      end)
    end
    nvim.cmd('AgentMcp')
    see_line('○ peer · starts with the next turn')
    see_line('    from initializationOptions')
    see_line('⊘ theirs · off, because the folder is not trusted')
    see_line('    from .mcp.json')
    -- The turn starts the servers, and the open list follows.
    nvim.cmd('AgentPrompt stream')
    see_line('✓ peer · ready · ')
    see_line('Scripted peer 1.0.0')
    see_line('✗ broken · failed')
    see_line('    it ended with exit code 3')
    move_to(nvim, 'broken')
    nvim.type_keys('o')
    see_line('no database')
    nvim.type_keys('q')
    see_line('MCP servers of ')
    local function find_peer()
      return vim.iter(support.find_processes(nvim.mark)):find(function(process)
        return process.command:find('^%S*python3%S* ' .. vim.pesc(peer)) ~= nil
      end)
    end
    local first = assert(find_peer())
    move_to(nvim, 'peer ')
    nvim.type_keys('r')
    wait('another process', function()
      local now = find_peer()
      return now and now.pid ~= first.pid
    end)
    see_line('✓ peer · ready · ')
    nvim.wait_for_turn_end()
  end)

  drive('mcp: a login at a real server', nil, function(nvim)
    local address, server
    server = vim.system({ 'python3', peer, '--http', '--oauth' }, {
      stdout = function(_, text)
        address = address or text
      end,
    })
    wait('the address of the server', function()
      return address
    end)
    nvim.lua(
      [[
        local address = ...
        local config = require('agentls.config')
        config.current.settings = { mcp = { wiki = { url = address } } }
        -- The browser, whose user agrees.
        local visit = 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1])'
        vim.ui.open = function(url) vim.system({ 'python3', '-c', visit, url }) end
      ]],
      vim.trim(address)
    )
    local function see_line(text)
      wait(function()
        return ('"%s" in:\n%s'):format(text, table.concat(nvim.lines(), '\n'))
      end, function()
        return table.concat(nvim.lines(), '\n'):find(text, 1, true)
      end)
    end
    nvim.cmd('AgentMcp')
    see_line('○ wiki')
    nvim.cmd('AgentPrompt stream')
    see_line('? wiki · needs a login')
    move_to(nvim, 'wiki')
    nvim.stub_select('No, do not open it', 'Yes, open it', 'Log out')
    nvim.type_keys('i')
    see_line('    the login was canceled')
    nvim.type_keys('i')
    see_line('✓ wiki · ready · ')
    nvim.type_keys('<CR>')
    see_line('? wiki · needs a login')
    nvim.wait_for_notification('logged out of wiki')
    nvim.wait_for_turn_end()
    server:kill('sigterm')
    server:wait()
  end)

  local asking = {
    setup = ([[{ cmd = { %q }, settings = {
      mcp = { peer = { command = 'python3', args = { %q } } },
      approvals = { allow = { 'mcp:peer/*' } },
    } }]]):format(support.server, peer),
  }
  drive('mcp: a server asks with a form and with an address', asking, function(nvim)
    nvim.cmd('AgentPrompt let it ask')
    nvim.see('? The MCP server peer asks: Who are you?')
    nvim.see('Your answers go to the server.')
    nvim.lua([[
      vim.ui.input = function(options, enter)
        enter(options.prompt:find('Your name', 1, true) and 'Ada' or '')
      end
    ]])
    nvim.stub_select('Yes', 'Green', 'Skip this', 'b', 'Done: b')
    nvim.run_twice('AgentAnswer')
    nvim.see('It has asked.')
    for _, answer in ipairs({ '"action": "accept"', '"name": "Ada"', '"agree": true', '"color": "green"' }) do
      nvim.see(answer)
    end
    eq(nvim.chat():find('"size"', 1, true), nil)
    nvim.cmd('AgentPrompt let it lead')
    nvim.see('`https://peer.example/sign-in?id=1`')
    nvim.lua('opened = {}; vim.ui.open = function(url) table.insert(opened, url) end')
    nvim.stub_select('Show the address', 'Yes, open it', 'Decline')
    nvim.run_twice('AgentAnswer')
    nvim.see('It has led.')
    nvim.see('"action": "decline"')
    eq(nvim.lua('return opened'), { 'https://peer.example/sign-in?id=1' })
  end)
end
