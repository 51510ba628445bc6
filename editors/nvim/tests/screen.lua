-- A Neovim on a screen of its own: in tmux, typed into, its screen read. AGENTLS_CAPTURES: a folder for the screens.

local support = require('tests.support')
local wait = support.wait

local captures = os.getenv('AGENTLS_CAPTURES')

---@class tests.Look How the screen and the plugin are set up.
---@field settings? string The server's settings, as Lua.
---@field setup? string More options of the plugin, as Lua.
---@field init? string Lua that runs before all else.
---@field columns? integer
---@field rows? integer
---@field server? string The server's command.

---@param name string
---@param file? string
---@param look? tests.Look
local function screen(name, file, look)
  look = look or {}
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
      look.init or '',
      look.server or support.server,
      look.settings or '{}',
      look.setup or '{}'
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
  local words = { 'env' }
  for key, value in pairs(environment) do
    table.insert(words, ('%s=%s'):format(key, vim.fn.shellescape(value)))
  end
  vim.list_extend(words, { vim.fn.shellescape(vim.v.progpath), '-u', init, '-i', 'NONE', '-n' })
  vim.list_extend(words, { '--listen', workspace .. '/.git/socket', file or '' })
  local columns, rows = tostring(look.columns or 120), tostring(look.rows or 34)
  tmux('new-session', '-d', '-x', columns, '-y', rows, '-c', workspace, '-s', 'e', table.concat(words, ' '))

  ---Makes the terminal another size.
  function self.resize(wide, high)
    tmux('resize-window', '-t', 'e', '-x', tostring(wide), '-y', tostring(high))
  end

  ---The screen's text; with `colours` as the terminal got it.
  function self.shot(colours)
    return tmux('capture-pane', '-p', '-t', 'e', colours and '-eN' or '-p')
  end
  function self.see(what)
    wait(function()
      return ('"%s" on the screen:\n%s'):format(what, self.shot())
    end, function()
      return self.shot():find(what, 1, true)
    end)
  end
  function self.gone(what)
    wait(function()
      return ('"%s" off the screen:\n%s'):format(what, self.shot())
    end, function()
      return not self.shot():find(what, 1, true)
    end)
  end
  function self.type(text)
    tmux('send-keys', '-t', 'e', '-l', '--', text)
  end
  function self.keys(...)
    tmux('send-keys', '-t', 'e', ...)
  end
  ---What an expression gives in the editor, which shows nothing of it.
  function self.eval(expression)
    local result = vim
      .system(
        { vim.v.progpath, '--server', workspace .. '/.git/socket', '--remote-expr', expression },
        { text = true }
      )
      :wait()
    assert(result.code == 0, result.stderr)
    return vim.trim(result.stdout)
  end
  ---Runs Lua in the editor; no key is typed for it.
  function self.lua(code)
    local path = workspace .. '/.git/run.lua'
    support.write(path, code)
    self.eval(('luaeval("dofile(_A)", %s)'):format(vim.fn.string(path)))
  end
  function self.command(line)
    self.type(':' .. line)
    self.keys('Enter')
  end
  ---Types a key that answers, as a person does: it shows the question first; then, when it was read, it answers.
  function self.press(...)
    self.keys(...)
    self.see(' again ')
    -- A key that comes at once would be taken for one that was meant for something else.
    vim.wait(600)
    self.keys(...)
  end
  ---Gives a command that answers, likewise.
  function self.twice(line)
    self.command(line)
    self.see(' again ')
    vim.wait(600)
    self.command(line)
  end
  ---Waits for the end of the session's last turn, wherever the view is: the editor itself says so.
  function self.ended(turns)
    local items = "require('agentls.sessions').get_current().state.items"
    local count = ("#vim.tbl_filter(function(i) return i.kind == 'turnEnd' end, %s)"):format(items)
    self.command(
      ('lua vim.wait(20000, function() return %s == %d end); print(%s, "ended")'):format(count, turns, count)
    )
    self.see(turns .. ' ended')
  end
  function self.keep(shot)
    if captures then
      support.write(('%s/%s.txt'):format(captures, shot), self.shot())
      support.write(('%s/%s.ansi'):format(captures, shot), self.shot(true))
    end
  end
  function self.quit()
    pcall(tmux, 'send-keys', '-t', 'e', 'C-\\', 'C-n')
    pcall(self.command, 'qa!')
    local left
    local none = vim.wait(15000, function()
      left = support.marked(self.mark)
      return #left == 0
    end, 50)
    pcall(tmux, 'kill-server')
    assert(none, 'processes were left: ' .. vim.inspect(left))
  end
  return self
end

---What runs a test on a screen of its own: name, file, body, and the settings or the look.
---@param test fun(name: string, body: fun())
return function(test)
  return function(name, file, body, look)
    look = type(look) == 'string' and { settings = look } or look
    test('screen: ' .. name, function()
      local seen = screen(name:gsub('%W', '-'), file, look)
      local ok, why = xpcall(body, debug.traceback, seen)
      local left, still = pcall(seen.quit)
      assert(ok, why)
      assert(left, still)
    end)
  end
end
