-- Shared by all tests: an isolated home folder, a Neovim that a test drives like a user,
-- and a search for processes.

local M = {}

---How long a test waits for an event, in ms. A busy machine is slow.
M.timeout_ms = tonumber(os.getenv('TIMEOUT_MS') or 60000)

local tests_dir = vim.fs.dirname(vim.fs.normalize(vim.uv.fs_realpath(debug.getinfo(1, 'S').source:sub(2))))
M.tests_dir = tests_dir
M.plugin = vim.fs.dirname(tests_dir)
M.editors = vim.fs.dirname(M.plugin)
M.repository = vim.fs.dirname(M.editors)
M.server = os.getenv('AGENTLS') or (M.repository .. '/target/debug/agentls')

function M.write(path, text)
  vim.fn.mkdir(vim.fs.dirname(path), 'p')
  local file = assert(io.open(path, 'wb'))
  file:write(text)
  file:close()
end

---Returns the content of a file, or nil if it does not exist.
function M.read(path)
  local file = io.open(path, 'rb')
  local text = file and file:read('*a')
  if file then
    file:close()
  end
  return text
end

function M.eq(actual, expected, label)
  if not vim.deep_equal(actual, expected) then
    error(
      ('%s%s, but it should be %s'):format(
        label and label .. ': ' or '',
        vim.inspect(actual),
        vim.inspect(expected)
      ),
      2
    )
  end
end

---Waits until `find` returns a value, and returns it.
function M.wait(description, find, ms)
  local result
  local function has_found()
    result = find()
    return result ~= nil and result ~= false
  end
  if not vim.wait(ms or M.timeout_ms, has_found, 10) then
    error('timed out waiting for: ' .. (type(description) == 'function' and description() or description), 2)
  end
  return result
end

M.CART = [[
def total(prices, discount=0):
    """The sum of the prices, less a discount in percent."""
    result = sum(prices)
    return result - discount
]]

---Creates the home folder of a test run.
function M.make_world()
  local base = vim.uv.fs_realpath(vim.uv.os_tmpdir())
  M.home = assert(vim.uv.fs_mkdtemp(base .. '/agentls-nvim-XXXXXX'))
  M.write(M.home .. '/config/agentls/cassette.json', assert(M.read(tests_dir .. '/cassette.json')))
  M.write(
    M.home .. '/config/agentls/spare.json',
    vim.json.encode({
      cassette = 1,
      exchanges = {
        -- Enough text to summarize, and the summary.
        {
          when = { prompt = 'Write the notes now.' },
          ['repeat'] = true,
          events = { { delay_ms = 1500 }, { text = 'Numbers were counted.' } },
        },
        {
          when = { prompt = 'at length', step = 0 },
          ['repeat'] = true,
          events = { { tool = { name = 'bash', input = { command = 'seq 1 4000' } } } },
        },
        {
          when = { prompt = 'at length', step = 1 },
          ['repeat'] = true,
          events = { { text = 'That was it.' } },
        },
        {
          ['repeat'] = true,
          events = { { text = 'Another answers.' }, { delay_ms = 1500 }, { text = ' Well.' } },
        },
      },
    })
  )
  M.write(
    M.home .. '/config/agentls/config.toml',
    table.concat({
      '[provider.tape]',
      'kind = "script"',
      'cassette = "cassette.json"',
      'model = "tape"',
      'initial_backoff_ms = 1500',
      '',
      '[provider.weak]',
      'kind = "script"',
      'cassette = "cassette.json"',
      'model = "weak"',
      'max_retries = 1',
      'initial_backoff_ms = 1500',
      'fallback = "spare"',
      '',
      '[provider.spare]',
      'kind = "script"',
      'cassette = "spare.json"',
      'model = "spare"',
      '',
      '[agent.default]',
      'provider = "tape"',
      '',
      '[agent.reader]',
      'description = "Looks, and changes nothing"',
      'provider = "tape"',
      'mode = "plan"',
      '',
    }, '\n')
  )
  return M.home
end

local features

---Whether the server announces a feature.
function M.has_feature(name)
  if not features then
    local result
    local rpc = assert(
      vim.lsp.rpc.start({ M.server }, {}, { env = { HOME = M.home, XDG_DATA_HOME = M.home .. '/features' } })
    )
    rpc.request('initialize', { capabilities = vim.empty_dict() }, function(_, answer)
      result = answer
    end)
    M.wait('the answer to initialize', function()
      return result
    end)
    rpc.terminate()
    features = result.capabilities.experimental.agent.features
  end
  return vim.list_contains(features, name)
end

---Finds processes whose environment contains `mark`. Empty on a system without /proc.
function M.find_processes(mark)
  local processes = {}
  for name in vim.fs.dir('/proc') do
    local environ = name:match('^%d+$') and M.read('/proc/' .. name .. '/environ')
    if environ and environ:find(mark, 1, true) then
      local command = (M.read('/proc/' .. name .. '/cmdline') or ''):gsub('%z', ' ')
      table.insert(processes, { pid = tonumber(name), command = vim.trim(command) })
    end
  end
  return processes
end

local serial = 0

---Opens the chat of a session without a server. Its events go directly to sessions.lua.
function M.open_chat()
  local sessions, states, view =
    require('agentls.sessions'), require('agentls.state'), require('agentls.view')
  serial = serial + 1
  local id = 'ses_view_' .. serial
  local session = { id = id, state = states.new(id), unsent = {} }
  sessions.all[id] = session
  vim.cmd('silent! only')
  view.open_chat(session, { focus = 'chat' })
  local self = { session = session, seq = 0, buffer = view.get_buffer(id), window = (view.find_windows()) }
  function self.transient(method, params)
    params.sessionId = id
    sessions.handle_notification('agent/' .. method, params)
  end
  function self.event(method, params)
    self.seq = self.seq + 1
    params.seq, params.at = self.seq, self.seq * 100
    params.turnId = params.turnId or 't1'
    self.transient(method, params)
  end
  function self.lines()
    view.flush_drawing()
    return vim.api.nvim_buf_get_lines(self.buffer, 0, -1, false)
  end
  ---Returns the virtual text of the chat.
  function self.virtual()
    local parts = {}
    for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(self.buffer, -1, 0, -1, { details = true })) do
      for _, chunks in ipairs(vim.list_extend({ mark[4].virt_text or {} }, mark[4].virt_lines or {})) do
        for _, chunk in ipairs(chunks) do
          table.insert(parts, chunk[1])
        end
        table.insert(parts, '\n')
      end
    end
    return table.concat(parts)
  end
  function self.say(message, text)
    self.event(
      'message',
      { messageId = message, role = 'assistant', content = { { type = 'text', text = text } } }
    )
  end
  function self.tool(call, status, fields)
    self.event(
      'toolCall',
      vim.tbl_extend(
        'force',
        { toolCallId = call, name = 'bash', title = 'make', status = status },
        fields or {}
      )
    )
  end
  function self.fold(row)
    return vim.api.nvim_win_call(self.window, function()
      vim.cmd('redraw')
      return { vim.fn.foldclosed(row), vim.fn.foldclosedend(row) }
    end)
  end
  self.event('turnStarted', {})
  return self
end

local number = 0

---@class agentls.TestOptions
---@field setup? string
---@field init? string
---@field files? table<string, string>
---@field workspace? string
---@field data? string
---@field frozen? boolean Stops the server's clock, so that its time limits do not expire on a slow machine.

---Starts a Neovim with the plugin in a new workspace.
---@param options? agentls.TestOptions
function M.neovim(options)
  options = options or {}
  number = number + 1
  local self = { workspace = options.workspace or ('%s/work-%d'):format(M.home, number) }
  self.mark = ('agentls-nvim-%s-%d.'):format(vim.fs.basename(M.home), number)
  vim.fn.mkdir(self.workspace .. '/.git', 'p')
  for name, text in pairs(options.files or { ['cart.py'] = M.CART }) do
    M.write(self.workspace .. '/' .. name, text)
  end
  local init = ('%s/init-%d.lua'):format(M.home, number)
  M.write(
    init,
    ([[
vim.opt.runtimepath:prepend(%q)
vim.o.columns, vim.o.lines = 120, 40
-- The Python filetype plugin would search for a provider for seconds.
vim.g.loaded_python3_provider = 0
notices = {}
vim.notify = function(text, level) table.insert(notices, { text = text, level = level }) end
-- Each prompt of the editor creates a file before it takes keys, so that a test knows when to type.
local asks = 0
for _, name in ipairs({ 'select', 'input' }) do
  local ask = vim.ui[name]
  vim.ui[name] = function(...)
    asks = asks + 1
    vim.fn.writefile({}, vim.env.AGENTLS_TEST_ASKS .. asks)
    return ask(...)
  end
end
%s
require('agentls').setup(%s)
]]):format(M.plugin, options.init or '', options.setup or ('{ cmd = { %q } }'):format(M.server))
  )
  local environment = {
    HOME = M.home,
    XDG_CONFIG_HOME = M.home .. '/config',
    XDG_DATA_HOME = options.data or (M.home .. '/data-' .. number),
    XDG_STATE_HOME = M.home .. '/state',
    XDG_CACHE_HOME = M.home .. '/cache',
    AGENTLS_TEST_CLOCK = options.frozen and 'frozen' or '',
    AGENTLS_TEST_MARK = self.mark,
    AGENTLS_TEST_ASKS = ('%s/asks-%d-'):format(M.home, number),
    NVIM = '',
  }
  self.data = environment.XDG_DATA_HOME
  local command = { vim.v.progpath, '--embed', '--headless', '-u', init, '-i', 'NONE', '-n' }
  local errors = {}
  self.channel = vim.fn.jobstart(command, {
    rpc = true,
    cwd = self.workspace,
    env = environment,
    on_stderr = function(_, lines)
      vim.list_extend(errors, lines)
    end,
    on_exit = function(_, code)
      self.code = code
    end,
  })
  assert(self.channel > 0, 'Neovim did not start')

  ---Runs Lua in it: `return …`; further arguments are `...` there.
  function self.lua(code, ...)
    return vim.rpcrequest(self.channel, 'nvim_exec_lua', code, { ... })
  end
  function self.cmd(command_line)
    return vim.rpcrequest(self.channel, 'nvim_command', command_line)
  end
  ---Types keys.
  function self.keys(keys)
    vim.rpcrequest(self.channel, 'nvim_input', keys)
  end
  ---Waits until the question under the chat's cursor can be answered.
  function self.wait_until_answerable()
    M.wait(function()
      return 'a question that can be answered in:\n' .. self.chat() .. vim.inspect(self.notices())
    end, function()
      return self.lua("return require('agentls.questions').is_answerable()")
    end)
  end
  ---Runs an answering command twice: first it shows the question, then it answers.
  function self.run_twice(command_line)
    self.cmd(command_line)
    self.wait_until_answerable()
    self.cmd(command_line)
  end
  ---Types an answer key twice, in the same way.
  function self.press_twice(keys)
    self.type_keys(keys)
    self.wait_until_answerable()
    self.keys(keys)
  end
  local answered = 0
  ---Types keys, and waits until the editor has processed them.
  function self.type_keys(keys)
    self.keys(keys)
    M.wait('the keys taken', function()
      return self.lua('return vim.fn.getchar(1)') == 0
    end)
  end
  ---Types the answer to the editor's next prompt, once it takes keys.
  function self.answer(keys)
    answered = answered + 1
    M.wait('a question of the editor', function()
      return vim.uv.fs_stat(environment.AGENTLS_TEST_ASKS .. answered)
    end)
    self.keys(keys)
  end
  ---Returns the title and the lines of the floating window, or nil.
  function self.read_float()
    local lines = self.lua([[
      for _, window in ipairs(vim.api.nvim_list_wins()) do
        local config = vim.api.nvim_win_get_config(window)
        if config.relative ~= '' then
          local lines = vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, false)
          return vim.list_extend({ config.title[1][1] }, lines)
        end
      end
      return false
    ]])
    return lines or nil
  end
  ---Returns the lines of the current buffer.
  function self.lines()
    return self.lua('return vim.api.nvim_buf_get_lines(0, 0, -1, false)')
  end
  ---Makes `vim.ui.select` choose the entry that contains the next of `choices`, and records what it showed.
  function self.stub_select(...)
    self.lua(
      [[
      choices, prompts = { ... }, {}
      vim.ui.select = function(items, options, choose)
        local labels = vim.tbl_map(options.format_item or tostring, items)
        local float = vim.iter(vim.api.nvim_list_wins()):find(function(window)
          return vim.api.nvim_win_get_config(window).relative ~= ''
        end)
        table.insert(prompts, {
          prompt = options.prompt,
          labels = labels,
          float = float and vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(float), 0, -1, false) or nil,
        })
        local choice = table.remove(choices, 1)
        for i, line in ipairs(labels) do
          if choice and line:find(choice, 1, true) then return choose(items[i], i) end
        end
        choose(nil)
      end
    ]],
      ...
    )
  end
  ---Waits for lists of `vim.ui.select`, and returns what they showed.
  function self.wait_for_select(count)
    return M.wait('a list of vim.ui.select', function()
      local prompts = self.lua('return prompts')
      return #prompts >= (count or 1) and prompts
    end)
  end
  ---Returns the number of open approvals. The server has then processed all earlier messages.
  function self.open_approvals()
    return self.lua([[
      local session = require('agentls.sessions').get_current()
      local open = require('agentls.client').request_sync('agent/listApprovals', { sessionId = session.id }, 10000)
      return #open.approvals
    ]])
  end
  ---Returns the stored session as another process reads it.
  function self.read_stored_session()
    local id = self.lua("return require('agentls.sessions').get_current().id")
    local env = vim.tbl_extend('force', environment, { NVIM = '' })
    return vim.system({ M.server, 'sessions', 'show', id }, { cwd = self.workspace, env = env }):wait().stdout
  end
  ---Waits until the server has accepted all prompts.
  function self.wait_until_accepted()
    M.wait('the prompts to be accepted', function()
      return self.lua("return #require('agentls.sessions').get_current().unsent") == 0
    end)
  end
  ---Returns the state of the current session.
  function self.state()
    local state = self.lua([[
      local state = require('agentls').state()
      return state and vim.json.encode(state) or ''
    ]])
    return state ~= '' and vim.json.decode(state, { luanil = { object = true, array = true } }) or nil
  end
  ---Returns the text of the chat.
  function self.chat()
    return table.concat(
      self.lua([[
        local sessions, view = require('agentls.sessions'), require('agentls.view')
        view.flush_drawing()
        local session = sessions.get_current()
        local buffer = session and view.get_buffer(session.id)
        return buffer and vim.api.nvim_buf_get_lines(buffer, 0, -1, false) or {}
      ]]),
      '\n'
    )
  end
  ---Returns the virtual text of the chat.
  function self.virtual()
    return self.lua([[
      local sessions, view = require('agentls.sessions'), require('agentls.view')
      local buffer = view.get_buffer(sessions.get_current().id)
      local parts = {}
      for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(buffer, -1, 0, -1, { details = true })) do
        for _, chunks in ipairs(vim.list_extend({ mark[4].virt_text or {} }, mark[4].virt_lines or {})) do
          for _, chunk in ipairs(chunks) do table.insert(parts, chunk[1]) end
          table.insert(parts, '\n')
        end
      end
      return table.concat(parts)
    ]])
  end
  function self.notices()
    return self.lua('return notices')
  end
  function self.wait_for_notification(text)
    M.wait(function()
      return ('the notice "%s" in %s'):format(text, vim.inspect(self.notices()))
    end, function()
      for _, notice in ipairs(self.notices()) do
        if notice.text:find(text, 1, true) then
          return true
        end
      end
    end)
  end
  ---Waits for a text in the chat.
  function self.see(text)
    M.wait(function()
      return ('"%s" in:\n%s\nnotices: %s'):format(text, self.chat(), vim.inspect(self.notices()))
    end, function()
      return self.chat():find(text, 1, true)
    end)
  end
  function self.wait_for_virtual_text(text)
    M.wait(function()
      return ('"%s" beside the lines: %s'):format(text, self.virtual())
    end, function()
      return self.virtual():find(text, 1, true)
    end)
  end
  ---Waits until no turn is running and at least `turns` have ended.
  function self.wait_for_turn_end(turns)
    return M.wait(function()
      return 'the end of the turn in:\n' .. self.chat() .. vim.inspect(self.notices())
    end, function()
      local state = self.state()
      local count = 0
      for _, item in ipairs(state and state.items or {}) do
        count = count + (item.kind == 'turnEnd' and 1 or 0)
      end
      return state and not state.running and count >= (turns or 1) and state
    end)
  end
  ---Waits for an approval.
  function self.wait_for_approval()
    return M.wait(function()
      return 'a question in:\n' .. self.chat() .. vim.inspect(self.notices())
    end, function()
      local state = self.state()
      return state and state.approvals[1]
    end)
  end
  ---Waits for the server process, and returns it.
  function self.server()
    return M.wait('the process of the server', function()
      return vim.iter(M.find_processes(self.mark)):find(function(process)
        return process.command == M.server
      end)
    end)
  end
  ---Quits with `:qa!`. Fails if it leaves a process behind.
  function self.quit()
    if not self.code then
      local messages = self.lua("return vim.fn.execute('messages')")
      assert(not messages:find('stack traceback', 1, true), messages)
      if options.frozen then
        -- It gives its processes some time to end.
        self.lua("require('agentls.client').request_sync('$/test/clock', { thaw = true }, 60000)")
      end
      pcall(vim.rpcnotify, self.channel, 'nvim_command', 'qa!')
    end
    M.wait('the end of Neovim', function()
      return self.code
    end)
    local remaining
    local is_clean = vim.wait(M.timeout_ms, function()
      remaining = M.find_processes(self.mark)
      return #remaining == 0
    end, 50)
    assert(is_clean, 'processes were left: ' .. vim.inspect(remaining))
    local output = vim.trim(table.concat(errors, '\n'))
    assert(not output:find('E%d+:') and not output:find('stack traceback'), output)
  end
  function self.kill()
    vim.fn.jobstop(self.channel)
    for _, process in ipairs(M.find_processes(self.mark)) do
      vim.uv.kill(process.pid, 'sigkill')
    end
  end
  return self
end

return M
