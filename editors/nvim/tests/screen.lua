-- Runs a Neovim in tmux, types into it, and reads its screen. AGENTLS_CAPTURES: a folder to save the screens in.

local support = require('tests.support')
local wait = support.wait

local captures = os.getenv('AGENTLS_CAPTURES')

---@class tests.ScreenOptions The setup of the screen and the plugin.
---@field settings? string The server's settings, as Lua.
---@field setup? string More options of the plugin, as Lua.
---@field init? string Lua that runs before all else.
---@field columns? integer
---@field rows? integer
---@field server? string The server's command.

---@param name string
---@param file? string
---@param options? tests.ScreenOptions
local function screen(name, file, options)
  options = options or {}
  local self = {}
  local workspace = support.home .. '/tui-' .. name
  vim.fn.mkdir(workspace .. '/.git', 'p')
  support.write(workspace .. '/cart.py', support.CART)
  local init = workspace .. '/.git/init.lua'
  support.write(
    init,
    ([[
vim.opt.runtimepath:prepend(%q)
vim.g.loaded_python3_provider = 0
vim.o.termguicolors = true
%s
require('agentls').setup(vim.tbl_extend('force', { cmd = { %q }, settings = %s }, %s))
]]):format(
      support.plugin,
      options.init or '',
      options.server or support.server,
      options.settings or '{}',
      options.setup or '{}'
    )
  )
  local socket = ('agentls-%s-%s'):format(name, vim.fs.basename(support.home))
  local function tmux(...)
    local result = vim.system({ 'tmux', '-L', socket, '-f', '/dev/null', ... }, { text = true }):wait()
    assert(result.code == 0, ('tmux %s: %s'):format((...), result.stderr))
    return result.stdout
  end
  self.mark = socket .. '.'
  self.workspace = workspace
  local environment = {
    HOME = support.home,
    XDG_CONFIG_HOME = support.home .. '/config',
    XDG_DATA_HOME = workspace .. '/.git/data',
    XDG_STATE_HOME = support.home .. '/state',
    TERM = 'xterm-256color',
    COLORTERM = 'truecolor',
    AGENTLS_TEST_MARK = self.mark,
  }
  local command = { 'env' }
  for key, value in pairs(environment) do
    table.insert(command, ('%s=%s'):format(key, vim.fn.shellescape(value)))
  end
  vim.list_extend(command, { vim.fn.shellescape(vim.v.progpath), '-u', init, '-i', 'NONE', '-n' })
  vim.list_extend(command, { '--listen', workspace .. '/.git/socket', file or '' })
  local columns, rows = tostring(options.columns or 120), tostring(options.rows or 34)
  tmux('new-session', '-d', '-x', columns, '-y', rows, '-c', workspace, '-s', 'e', table.concat(command, ' '))

  ---Resizes the terminal.
  function self.resize(width, height)
    tmux('resize-window', '-t', 'e', '-x', tostring(width), '-y', tostring(height))
  end

  ---Returns the text of the screen; with `colors`, including escape sequences.
  function self.read_screen(colors)
    return tmux('capture-pane', '-p', '-t', 'e', colors and '-eN' or '-p')
  end
  function self.see(text)
    wait(function()
      return ('"%s" on the screen:\n%s'):format(text, self.read_screen())
    end, function()
      return self.read_screen():find(text, 1, true)
    end)
  end
  function self.wait_until_gone(text)
    wait(function()
      return ('"%s" off the screen:\n%s'):format(text, self.read_screen())
    end, function()
      return not self.read_screen():find(text, 1, true)
    end)
  end
  function self.type(text)
    tmux('send-keys', '-t', 'e', '-l', '--', text)
  end
  function self.keys(...)
    tmux('send-keys', '-t', 'e', ...)
  end
  local listen = workspace .. '/.git/socket'
  local function request(expression)
    local client = { vim.v.progpath, '--server', listen, '--remote-expr', expression }
    return vim.system(client, { text = true }):wait()
  end
  ---Evaluates an expression in the editor, without typing.
  function self.eval(expression)
    local result = request(expression)
    assert(result.code == 0, result.stderr)
    return vim.trim(result.stdout)
  end
  ---Runs Lua in the editor, without typing.
  function self.lua(code)
    local path = workspace .. '/.git/run.lua'
    support.write(path, code)
    self.eval(('luaeval("dofile(_A)", %s)'):format(vim.fn.string(path)))
  end
  function self.command(line)
    self.type(':' .. line)
    self.keys('Enter')
  end
  ---Waits until an answer counts: immediately after the question appears, it does not.
  function self.wait_until_answerable()
    wait(function()
      return 'a question that can be answered in:\n' .. self.read_screen()
    end, function()
      return self.eval([[luaeval("require('agentls.questions').is_answerable()")]]) == 'true'
    end)
  end
  ---Types an answer key twice: first it shows the question, then it answers.
  function self.press_twice(...)
    self.keys(...)
    self.see(' again ')
    self.wait_until_answerable()
    self.keys(...)
  end
  ---Runs an answering command twice, in the same way.
  function self.run_twice(line)
    self.command(line)
    self.see(' again ')
    self.wait_until_answerable()
    self.command(line)
  end
  ---Waits until `turns` turns have ended. Asks the editor, because the chat may be scrolled. A command that prints
  ---could wait for Enter.
  function self.wait_for_turn_end(turns)
    local items = "require('agentls.sessions').get_current().state.items"
    local count = ("#vim.tbl_filter(function(i) return i.kind == 'turnEnd' end, %s)"):format(items)
    wait(turns .. ' ended turns', function()
      return self.eval(('luaeval(%s)'):format(vim.fn.string(count))) == tostring(turns)
    end)
  end
  function self.save_screen(capture)
    if captures then
      support.write(('%s/%s.txt'):format(captures, capture), self.read_screen())
      support.write(('%s/%s.ansi'):format(captures, capture), self.read_screen(true))
    end
  end
  function self.quit()
    pcall(tmux, 'send-keys', '-t', 'e', 'C-\\', 'C-n')
    pcall(self.command, 'qa!')
    local remaining
    local none = vim.wait(15000, function()
      remaining = support.find_processes(self.mark)
      return #remaining == 0
    end, 50)
    pcall(tmux, 'kill-server')
    assert(none, 'processes were left: ' .. vim.inspect(remaining))
  end
  -- The editor has just been started. Keys that are typed now wait, but requests need an editor that listens.
  wait('an editor that listens', function()
    return vim.uv.fs_stat(listen) and request('1').code == 0
  end)
  return self
end

---Returns a function that runs a test on a separate screen: name, file, body, and the settings or the options.
---@param test fun(name: string, body: fun())
return function(test)
  return function(name, file, body, options)
    options = type(options) == 'string' and { settings = options } or options
    test('screen: ' .. name, function()
      local tui = screen(name:gsub('%W', '-'), file, options)
      local ok, error_message = xpcall(body, debug.traceback, tui)
      local has_quit, quit_error = pcall(tui.quit)
      assert(ok, error_message)
      assert(has_quit, quit_error)
    end)
  end
end
