-- The real screen: Neovim in tmux, typed into, its screen read. AGENTLS_CAPTURES: a folder for the screens.

local support = require('tests.support')
local wait = support.wait

local captures = os.getenv('AGENTLS_CAPTURES')

---A Neovim on a screen of its own.
local function screen(name, file, settings)
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
require('agentls').setup({ cmd = { %q }, settings = %s })
]]):format(support.plugin, support.server, settings or '{}')
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
  vim.list_extend(words, { vim.fn.shellescape(vim.v.progpath), '-u', init, '-i', 'NONE', '-n', file or '' })
  tmux('new-session', '-d', '-x', '120', '-y', '34', '-c', workspace, '-s', 'e', table.concat(words, ' '))

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
    local items = "require('agentls.sessions').current().state.items"
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

return function(test)
  if vim.fn.executable('tmux') == 0 then
    io.stdout:write('NOT TESTED: the plugin on a real screen. There is no tmux.\n')
    return
  end
  local function show(name, file, body, settings)
    test('screen: ' .. name, function()
      local seen = screen(name:gsub('%W', '-'), file, settings)
      local ok, why = xpcall(body, debug.traceback, seen)
      local left, still = pcall(seen.quit)
      assert(ok, why)
      assert(left, still)
    end)
  end

  show('an edit is asked about, and allowed', 'cart.py', function(tui)
    tui.see('return result - discount')
    tui.command('AgentPrompt fix it')
    tui.see('+    return result * (1 - discount / 100)')
    tui.see('y allow  n deny  s this session  a always')
    tui.see('s and a keep the rule:')
    tui.see('edit_file(cart.py)')
    tui.see('? a question waits for your answer')
    tui.keep('approval')
    tui.keys('C-w', 'l', 'C-w', 'k')
    tui.press('y')
    tui.see('✓ Edit cart.py')
    tui.see('The turn is over.')
    tui.gone('a question waits')
    tui.gone('+    return')
    -- The file's window shows what is on disk now.
    tui.see('return result * (1 - discount / 100)')
    tui.keep('done')
    tui.type('gg/Edit cart')
    tui.keys('Enter')
    tui.type('zo')
    tui.see('+    return result * (1 - discount / 100)')
  end)

  show('three questions: the one that is seen is the one that is answered', 'cart.py', function(tui)
    support.write(tui.workspace .. '/old.txt', 'old\n')
    tui.command('AgentPrompt three at once')
    tui.see('? rm -f old.txt')
    tui.keys('C-w', 'l', 'C-w', 'k')
    tui.type('y')
    tui.see('asks (medium risk): Edit cart.py · y again allows it once')
    tui.keep('shown-first')
    tui.type('/rm -f')
    tui.keys('Enter')
    tui.press('n')
    tui.see('Deny "rm -f old.txt"')
    tui.keys('Enter')
    tui.see('denied: rm -f old.txt · next: Edit cart.py')
    tui.keep('denied')
    vim.wait(600)
    tui.type('y')
    tui.see('allowed once: Edit cart.py · next: Write b.txt')
    tui.see('result * (1 - discount / 100)')
    vim.wait(600)
    tui.type('y')
    tui.see('allowed once: Write b.txt')
    tui.see('Three were answered.')
    tui.keep('three-answered')
    assert(vim.uv.fs_stat(tui.workspace .. '/old.txt'), 'the denied command ran')
    -- No question: the keys are those of Vim.
    tui.type('gg/answered')
    tui.keys('Enter')
    tui.type('ggn:echo expand("<cword>") line(".")')
    tui.keys('Enter')
    tui.see('answered ')
  end)

  show('a command that hides something is shown as it is', nil, function(tui)
    tui.command('AgentPrompt hide it')
    tui.see('high risk')
    tui.see('<U+202E>')
    tui.see('<U+E0041>')
    tui.see('thirteen END')
    tui.see('y allow  n deny')
    tui.keep('revealed')
  end)

  show('trust and grants are read, given and revoked', 'cart.py', function(tui)
    support.write(
      tui.workspace .. '/.agentls/config.toml',
      '[agent.default]\nmode = "full"\n\n[hook.greet]\non = "stop"\ncommand = "echo greetings"\n'
    )
    tui.command('AgentPrompt fix it')
    tui.see('y allow  n deny')
    tui.command('AgentTrust')
    tui.see('This folder is not trusted')
    tui.see('$ echo greetings')
    tui.see('agent.default.mode')
    tui.see('1: No: leave it untrusted')
    tui.keep('trust')
    tui.keys('Enter')
    tui.gone('1: No: leave it untrusted')
    tui.type('q')
    tui.keys('C-w', 'b', 'C-w', 'k')
    tui.press('s')
    tui.see('allowed for this session: edit_file(cart.py)')
    tui.see('The turn is over.')
    tui.command('AgentGrants')
    tui.see('1: edit_file(cart.py) · this session')
    tui.keep('grants')
    tui.type('1')
    tui.keys('Enter')
    tui.see('revoked: edit_file(cart.py); it is asked about again')
    tui.keep('revoked')
  end)

  show('many files change, are looked at, taken back and made again', 'cart.py', function(tui)
    support.write(tui.workspace .. '/old.txt', 'old\n')
    tui.command('AgentPrompt alter many')
    tui.see('± 3 files changed +3 -2 ⋯ 3 lines')
    tui.see('d diff  u revert')
    tui.keep('changes')
    tui.keys('C-w', 'l', 'C-w', 'k')
    tui.type('G?± 3')
    tui.keys('Enter')
    tui.type('zo')
    tui.see('A new/b.txt +2')
    tui.see('D old.txt -1')
    tui.keep('changes-open')
    tui.type('d')
    tui.see('4: ≡ all of them as one text')
    tui.type('1')
    tui.keys('Enter')
    tui.see('def sum_of')
    tui.see('def total')
    tui.keep('side-by-side')
    tui.keys('C-w', 'h')
    tui.type('q')
    tui.see('± 3 files')
    tui.type('u')
    tui.see('Take back: "alter many"')
    tui.see('delete new/b.txt')
    tui.see('1: Take back what changed in 3 files')
    tui.keep('revert-asked')
    tui.type('1')
    tui.keys('Enter')
    tui.see('taken back: the changes of 3 files')
    tui.gone('Take back: "alter many"')
    tui.gone('def sum_of(prices, discount=0):')
    tui.keep('reverted')
    tui.keys('C-r')
    tui.see('1: Make again what changed in 3 files')
    tui.keys('Escape')
    tui.gone('Make again: "alter many"')
  end, '{ agent = { default = { mode = "full" } } }')

  show('prompts wait, are held after a cancel; the agent asks with choices', nil, function(tui)
    tui.command('AgentPrompt until the gate')
    tui.see('running a tool')
    tui.command('AgentQueue stream when it is over')
    tui.see('⧗ queued: stream when it is over · Q')
    tui.command('AgentQueue and then choose one')
    tui.see('⧗ queued: and then choose one')
    tui.keep('queued')
    tui.command('AgentCancel')
    tui.see('⧗ queued (held): stream when it is over · Q')
    tui.keep('held')
    tui.command('AgentQueue')
    tui.see('1: ▶ go on with them')
    tui.type('1')
    tui.keys('Enter')
    tui.see('six seven eight nine')
    tui.see('? Which way?')
    tui.see('<CR> answer')
    tui.keep('question')
    tui.twice('AgentAnswer')
    tui.see('2: right')
    tui.type('2')
    tui.keys('Enter')
    tui.see('→ right')
    tui.see('Chosen.')
  end, '{ agent = { default = { mode = "full" } } }')

  if support.has_feature('subAgents') then
    show('sub-agents are set in under their call, and folded when it is over', 'cart.py', function(tui)
      tui.command('AgentPrompt hand it on')
      tui.see('▶ Delegate: peek inside')
      tui.see('│ ? awk 1 cart.py')
      tui.see('│   medium risk')
      tui.keep('nested')
      tui.twice('AgentApprove')
      tui.see('✓ Delegate: peek in')
      tui.see('… · 1 call · ')
      tui.see('I was told.')
      tui.gone('? awk 1 cart.py')
      tui.gone('✓ awk 1 cart.py')
      tui.keys('C-w', 'l', 'C-w', 'k')
      tui.type('ggjj')
      tui.type('zo')
      tui.see('│ ✓ awk 1 cart.py')
      tui.see('It has a total.')
      tui.keep('nested-open')
    end)
  end

  show('slash commands are offered while one is written', nil, function(tui)
    local folder = tui.workspace .. '/.agentls/commands/'
    support.write(
      folder .. 'look.md',
      '---\ndescription: Looks\nargument-hint: [file]\n---\nLook at the file $1.\n'
    )
    support.write(folder .. 'lock.md', '---\ndescription: Locks\n---\nLock it.\n')
    support.write(tui.workspace .. '/AGENTS.md', 'Be brief.\n')
    tui.command('Agent')
    tui.see('i writes a prompt')
    tui.type('i/lo')
    tui.see('/look')
    tui.see('[file] Looks')
    tui.keep('slash')
    tui.keys('Down', 'C-y')
    tui.type(' cart.py')
    tui.keys('C-s')
    tui.see('> Look at the file cart.py.')
    tui.see('· AGENTS.md loaded')
    tui.keep('slash-sent')
  end)

  show('a retry counts down, and what was void is gone', nil, function(tui)
    tui.command('AgentPrompt break it')
    tui.see('This attempt is void')
    tui.gone('This attempt is void')
    tui.see('↺ a broken answer was taken back')
    tui.see('⟳ tape: ')
    tui.keep('retry')
    tui.see('This attempt holds.')
    tui.gone('⟳')
    tui.gone('↺')
  end)

  show('a command shows its output, and is stopped', nil, function(tui)
    tui.command('AgentPrompt run it')
    tui.see('medium risk')
    tui.keys('C-w', 'l', 'C-w', 'k')
    tui.press('y')
    tui.see('begun42')
    tui.see('running a tool')
    tui.keep('running')
    tui.keys('C-c')
    tui.see('■ cancelled')
    tui.see(':AgentResume goes on')
    tui.type('g?')
    tui.see('go on with an interrupted turn')
    tui.keep('help')
    tui.type('q')
    tui.gone('go on with an interrupted turn')
  end)

  show('a prompt is typed; a person reading above is not moved', nil, function(tui)
    tui.command('Agent')
    tui.see('i writes a prompt')
    tui.type('istream first')
    tui.keys('C-s')
    tui.see('six seven eight nine')
    tui.gone('<C-c> stops')
    tui.keys('Escape')
    for i = 2, 5 do
      tui.type('istream number ' .. i)
      tui.keys('C-s', 'Escape')
      tui.see('> stream number ' .. i)
      tui.gone('<C-c> stops')
    end
    tui.keys('C-w', 'k')
    tui.type('gg')
    tui.see('> stream first')
    tui.command('AgentPrompt stream more')
    tui.ended(6)
    tui.see('> stream first')
    tui.type('G')
    tui.see('> stream more')
    tui.keep('chat')
  end)

  show('an answer streams as Markdown, and folds what was thought', 'cart.py', function(tui)
    tui.command('AgentPrompt slow')
    tui.see('answering')
    tui.see('It has one function')
    tui.keep('streaming')
    tui.see('print(total')
    tui.see('  discount is taken as an amount')
    tui.gone('<C-c> stops')
    tui.see('✻ thoughts ⋯ 1 line')
    tui.see('42.0k in, 180 out · $0.13')
    tui.keep('markdown')
  end)

  show('another provider takes over, and that is told while it does', nil, function(tui)
    tui.command('AgentPrompt weak')
    tui.see('⟳ weak: ')
    tui.keep('weak')
    tui.see('Another answers.')
    tui.see('↷ weak failed 2 times: Overloaded — spare/spare')
    tui.keep('fallback')
    tui.see('Another answers. Well.')
    tui.gone('↷ ')
    tui.keep('fallback-over')
  end, '{ agent = { default = { provider = "weak" } } }')

  show('a turn that fails says why, and what to do', nil, function(tui)
    tui.command('AgentPrompt fail')
    tui.see('invalid key')
    tui.gone('<C-c> stops')
    tui.keep('failed')
  end)

  show('a limit is raised', nil, function(tui)
    tui.command('AgentPrompt read it')
    tui.see('<CR> answer')
    tui.keep('limit')
    tui.keys('C-w', 'l', 'C-w', 'k')
    tui.press('Enter')
    tui.see('Stop here')
    tui.keep('limit-choice')
    tui.type('1')
    tui.keys('Enter')
    tui.see('by how much')
    tui.type('3')
    tui.keys('Enter')
    tui.see('→ raised by 3')
    tui.see('Read.')
    tui.keep('limit-raised')
  end, '{ agent = { default = { max_steps = 1 } } }')

  show('a crash, and the turn that goes on', nil, function(tui)
    tui.command('AgentPrompt run it')
    tui.see('medium risk')
    tui.twice('AgentApprove')
    tui.see('begun42')
    for _, process in ipairs(support.marked(tui.mark)) do
      if process.command == support.server then
        vim.uv.kill(process.pid, 'sigkill')
      end
    end
    -- In one line: nothing waits for an Enter.
    tui.see('the server ended unexpectedly (signal 9); it is started again')
    tui.see('■ interrupted')
    tui.keep('interrupted')
    tui.command('AgentResume')
    tui.see('Ran.')
    tui.gone(':AgentResume goes on')
    tui.keep('resumed')
  end)

  show('the history is summarised by hand', nil, function(tui)
    tui.command('AgentPrompt hello')
    tui.see('Another answers. Well.')
    tui.gone('<C-c> stops')
    tui.command('AgentCompact')
    tui.see('the conversation is short: nothing is left out')
    for i = 1, 6 do
      tui.command(('AgentPrompt tell me at length, part %d'):format(i))
      tui.see('> tell me at length, part ' .. i)
      tui.gone('<C-c> stops')
    end
    tui.command('AgentCompact')
    tui.see('summarising the history')
    tui.keep('compacting')
    tui.see('compacted: ')
    tui.gone('<C-c> stops')
    tui.keep('compacted')
  end, '{ agent = { default = { provider = "spare", mode = "full" } } }')
end
