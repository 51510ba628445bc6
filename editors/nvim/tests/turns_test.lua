-- What is done with whole turns, with the real server: their changes shown, taken back and made again, forks, exports.

local support = require('tests.support')
local eq, wait = support.eq, support.wait

local FREE = ('{ cmd = { %q }, settings = { agent = { default = { mode = "full" } } } }'):format(
  support.server
)
local FILES = { ['cart.py'] = support.CART, ['old.txt'] = 'old\n' }
local FIXED = support.CART:gsub('result %- discount', 'result * (1 - discount / 100)')
local RENAMED = support.CART:gsub('def total', 'def sum_of')

local function work(nvim, name)
  return support.read(nvim.workspace .. '/' .. name)
end

---Goes to the chat's window, and there to the line that holds `words`.
local function at(nvim, words)
  nvim.see(words)
  nvim.lua(
    [[
    local words = ...
    local view = require('agentls.view')
    vim.api.nvim_set_current_win((view.find_windows()))
    for row, line in ipairs(vim.api.nvim_buf_get_lines(0, 0, -1, false)) do
      if line:find(words, 1, true) then return vim.api.nvim_win_set_cursor(0, { row, 0 }) end
    end
  ]],
    words
  )
end

---The words that the tab page's windows show, from left to right.
local function sides(nvim)
  return nvim.lua([[
    local sides = {}
    for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
      local buffer = vim.api.nvim_win_get_buf(window)
      table.insert(sides, {
        words = table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n') .. '\n',
        name = vim.fn.fnamemodify(vim.api.nvim_buf_get_name(buffer), ':t'),
        diff = vim.wo[window].diff,
        file = vim.bo[buffer].buftype == '',
      })
    end
    return sides
  ]])
end

return function(_, drive)
  drive('a change is told, shown side by side, taken back and made again by keys', {
    setup = FREE,
  }, function(nvim)
    nvim.cmd('AgentPrompt alter the cart')
    nvim.ended()
    nvim.see('± cart.py changed +1 -1')
    nvim.see_virtual('u revert')
    at(nvim, '± cart.py')
    nvim.keys('d')
    wait('the two sides', function()
      return #sides(nvim) == 2 and nvim.lua('return vim.wo.diff')
    end)
    local left, right = unpack(sides(nvim))
    eq({ left.words, left.diff, left.file }, { support.CART, true, false })
    eq({ right.words, right.diff, right.file, right.name }, { FIXED, true, true, 'cart.py' })
    -- Closed from either side.
    nvim.keys('<C-w>hq')
    wait('the chat again', function()
      return nvim.lua('return #vim.api.nvim_list_tabpages()') == 1
    end)
    at(nvim, '± cart.py')
    nvim.keys('d')
    wait('the two sides', function()
      return #sides(nvim) == 2 and nvim.lua('return vim.wo.diff')
    end)
    nvim.keys('<C-w>l:q<CR>')
    wait('the chat again', function()
      return nvim.lua('return #vim.api.nvim_list_tabpages()') == 1
    end)
    -- It is shown first, and leaving it changes nothing.
    nvim.chooses()
    at(nvim, '± cart.py')
    nvim.keys('u')
    local asked = nvim.shown()[1]
    eq(asked.words, { 'Revert 1 file', 'Cancel' })
    eq(asked.float, { ' change cart.py' })
    eq({ work(nvim, 'cart.py'), nvim.float() }, { FIXED })
    nvim.chooses('Revert')
    nvim.keys('u')
    nvim.see('± cart.py changed +1 -1 · reverted')
    nvim.noticed('1 file reverted')
    eq(work(nvim, 'cart.py'), support.CART)
    nvim.see('↶ reverted: the changes of one file')
    nvim.see_virtual('<C-r> redo')
    -- What is taken back can still be looked at.
    at(nvim, '± cart.py')
    nvim.cmd('AgentDiff')
    left, right = unpack(sides(nvim))
    eq({ left.words, left.file, right.words, right.file }, { support.CART, true, FIXED, false })
    nvim.cmd('tabclose')
    at(nvim, '± cart.py')
    nvim.chooses('Reapply')
    nvim.keys('<C-r>')
    nvim.see('· reapplied')
    eq(nvim.shown()[1].float, { ' change cart.py' })
    eq(work(nvim, 'cart.py'), FIXED)
    nvim.cmd('AgentRedo')
    nvim.noticed('there is nothing to redo')
  end)

  drive('many changes: listed, chosen, reverted but for what was changed since', {
    setup = FREE,
    files = FILES,
  }, function(nvim)
    nvim.cmd('AgentPrompt alter many')
    nvim.ended()
    nvim.see('± 3 files changed +3 -2 ⋯ 3 lines')
    nvim.see('M `cart.py` +1 -1\nA `new/b.txt` +2\nD `old.txt` -1')
    eq(work(nvim, 'old.txt'), nil)
    nvim.chooses('new/b.txt')
    nvim.cmd('AgentDiff')
    eq(nvim.shown()[1].words, {
      'M cart.py +1 -1',
      'A new/b.txt +2',
      'D old.txt -1',
      '≡ all files as one text',
    })
    local left, right = unpack(sides(nvim))
    eq({ left.words, right.words, right.name }, { '\n', 'b\nc\n', 'b.txt' })
    nvim.cmd('tabclose')
    nvim.chooses('old.txt')
    nvim.cmd('AgentDiff')
    left, right = unpack(sides(nvim))
    eq({ left.words, right.words, right.file }, { 'old\n', '\n', false })
    nvim.cmd('tabclose')
    nvim.cmd('AgentDiff!')
    wait('all as one text', function()
      return nvim.lua('return vim.bo.filetype') == 'diff'
    end)
    local all = table.concat(nvim.lines(), '\n')
    assert(all:find('+def sum_of', 1, true) and all:find('-old', 1, true), all)
    at(nvim, 'A `new/b.txt`')
    nvim.keys('zRo')
    wait('the file', function()
      return vim.deep_equal(nvim.lines(), { 'b', 'c' })
    end)
    at(nvim, 'D `old.txt`')
    nvim.keys('o')
    nvim.noticed('old.txt does not exist')
    -- A person's change stands.
    support.write(nvim.workspace .. '/new/b.txt', 'a person was here\n')
    nvim.chooses('Revert')
    nvim.cmd('AgentRevert')
    eq(nvim.shown()[1].float, {
      ' change cart.py',
      ' create old.txt',
      '',
      ' Not changed:',
      ' new/b.txt: it has changed since',
    })
    nvim.noticed('2 files reverted; not changed:\n  new/b.txt: it has changed since')
    eq({ work(nvim, 'cart.py'), work(nvim, 'old.txt') }, { support.CART, 'old\n' })
    eq(work(nvim, 'new/b.txt'), 'a person was here\n')
    nvim.cmd('AgentRevert!')
    nvim.noticed('nothing reverted; not')
    -- A file that is not what the diff says is shown as text.
    nvim.chooses('new/b.txt')
    nvim.cmd('AgentDiff')
    nvim.noticed('new/b.txt has changed since the turn; showing the diff as text')
  end)

  drive('a revert takes later turns along, in open buffers as one undo step', {
    setup = FREE,
    files = FILES,
  }, function(nvim)
    nvim.cmd('edit cart.py')
    nvim.cmd('AgentPrompt alter the cart')
    nvim.ended()
    nvim.cmd('AgentPrompt alter many')
    nvim.ended(2)
    local both = RENAMED:gsub('result %- discount', 'result * (1 - discount / 100)')
    eq(work(nvim, 'cart.py'), both)
    at(nvim, '> alter the cart')
    nvim.chooses('Revert')
    nvim.keys('u')
    nvim.noticed('3 files reverted')
    eq({ work(nvim, 'cart.py'), work(nvim, 'new/b.txt') }, { support.CART, nil })
    local function buffer()
      return table.concat(nvim.lua("return vim.fn.getbufline('cart.py', 1, '$')"), '\n') .. '\n'
    end
    eq(buffer(), support.CART)
    eq(nvim.lua("return vim.bo[vim.fn.bufnr('cart.py')].modified"), false)
    nvim.see('± cart.py changed +1 -1 · reverted')
    nvim.see('± 3 files changed +3 -2 · reverted')
    nvim.lua("vim.api.nvim_buf_call(vim.fn.bufnr('cart.py'), function() vim.cmd('silent undo') end)")
    eq(buffer(), both)
    nvim.lua(
      "vim.api.nvim_buf_call(vim.fn.bufnr('cart.py'), function() vim.cmd('silent redo | silent write') end)"
    )
    -- The later turn was taken back with the earlier one, and is made again with it.
    at(nvim, '± 3 files')
    nvim.keys(':AgentRedo!<CR>')
    nvim.noticed('3 files reapplied')
    eq({ work(nvim, 'cart.py'), work(nvim, 'new/b.txt') }, { both, 'b\nc\n' })
    nvim.see('± 3 files changed +3 -2 · reapplied')
  end)

  drive('two thousand files are told, and taken back', { setup = FREE }, function(nvim)
    nvim.cmd('AgentPrompt two thousand')
    nvim.ended()
    nvim.see('± 2,000 files changed')
    nvim.see('and 1,700 more')
    nvim.chooses('Revert')
    nvim.cmd('AgentRevert')
    local asked = nvim.shown()[1]
    eq(asked.words[1], 'Revert 2000 files')
    assert(#asked.float <= 28 and asked.float[#asked.float]:find('and %d+ more'), vim.inspect(asked.float))
    nvim.noticed('2000 files reverted')
    eq(vim.uv.fs_stat(nvim.workspace .. '/many/f1'), nil)
    nvim.see('↶ reverted: the changes of 2000 files')
  end)

  drive('the diff of a turn that changed nothing is none, of a file that is no text neither', {
    setup = FREE,
    files = FILES,
  }, function(nvim)
    nvim.cmd('AgentPrompt alter the cart')
    nvim.ended()
    nvim.cmd('AgentPrompt stream')
    nvim.ended(2)
    at(nvim, '> stream')
    nvim.keys('d')
    nvim.noticed('there is no diff to show')
    nvim.cmd('AgentPrompt make bytes')
    nvim.ended(3)
    at(nvim, '± bytes created')
    nvim.cmd('AgentDiff')
    nvim.noticed('no diff available for bytes')
    nvim.cmd('AgentRevert!')
    nvim.noticed('1 file reverted')
    eq(work(nvim, 'bytes'), nil)
    nvim.cmd('AgentRedo!')
    nvim.noticed('1 file reapplied')
    eq(work(nvim, 'bytes'), 'a\0b')
    -- A file that is open goes away, and comes again.
    nvim.lua('require("agentls.view").close_chat()')
    nvim.cmd('AgentPrompt alter many')
    nvim.ended(4)
    nvim.lua('require("agentls.view").close_chat()')
    nvim.cmd('edit new/b.txt')
    nvim.cmd('AgentRevert!')
    nvim.noticed('3 files reverted')
    eq(work(nvim, 'new/b.txt'), nil)
    nvim.cmd('AgentRedo!')
    nvim.noticed('3 files reapplied')
    eq(work(nvim, 'new/b.txt'), 'b\nc\n')
    eq(nvim.lines(), { 'b', 'c' })
  end)

  drive('files of odd names are listed, shown and taken back', { setup = FREE }, function(nvim)
    nvim.cmd('AgentPrompt odd names')
    nvim.ended()
    nvim.see('± 3 files changed +3')
    nvim.see('A `` tick`_*.txt `` +1')
    nvim.chooses('tick`')
    nvim.cmd('AgentDiff')
    eq(sides(nvim)[2].name, 'tick`_*.txt')
    nvim.cmd('tabclose')
    nvim.chooses('#1.txt')
    nvim.cmd('AgentDiff')
    eq({ sides(nvim)[2].name, sides(nvim)[2].words }, { '#1.txt', 'z\n' })
    nvim.cmd('tabclose')
    nvim.cmd('AgentDiff!')
    nvim.chooses('Revert')
    nvim.cmd('AgentRevert')
    eq(#nvim.shown()[1].float, 3)
    nvim.noticed('3 files reverted')
    eq({ work(nvim, 'a\nb c'), work(nvim, 'tick`_*.txt'), work(nvim, 'ü [x]/#1.txt') }, {})
  end)

  drive('typed and not saved: it is left as it is and told', { setup = FREE }, function(nvim)
    nvim.cmd('edit cart.py')
    nvim.cmd('AgentPrompt alter the cart')
    nvim.ended()
    nvim.lua("vim.api.nvim_buf_set_lines(vim.fn.bufnr('cart.py'), 0, 0, false, { '# mine' })")
    nvim.chooses('Revert')
    nvim.cmd('AgentRevert')
    nvim.noticed('there is nothing left to revert; not changed:\n  cart.py: it has changed since')
    eq(work(nvim, 'cart.py'), FIXED)
    eq(nvim.lua("return vim.fn.getbufline('cart.py', 1)"), { '# mine' })
  end)

  local RAW = {
    ['raw.bin'] = 'a\0\128\nb\r\n',
    ['latin1.txt'] = 'T\246ne\n',
    ['was.bin'] = 'a\0\n',
    ['was.txt'] = 'text\n',
  }
  local REWRITTEN = {
    ['raw.bin'] = 'x\0\255\ny',
    ['latin1.txt'] = 'T\252r\n',
    ['was.bin'] = 'now\n',
    ['was.txt'] = 'b\0\n',
  }
  for name, command in pairs({ text = 'edit', binary = 'edit ++bin' }) do
    drive(('what is no text, and open as %s, is judged by the disk while nobody typed'):format(name), {
      setup = FREE,
    }, function(nvim)
      local function all()
        local found = {}
        for file in pairs(RAW) do
          found[file] = work(nvim, file)
        end
        return found
      end
      nvim.cmd('AgentPrompt write what is no text')
      nvim.ended()
      eq(all(), RAW)
      nvim.lua("require('agentls.view').close_chat()")
      for file in pairs(RAW) do
        nvim.cmd(command .. ' ' .. file)
      end
      nvim.cmd('AgentPrompt alter what is no text')
      nvim.ended(2)
      eq(all(), REWRITTEN)
      nvim.chooses('Revert')
      nvim.cmd('AgentRevert')
      eq(
        nvim.shown()[1].float,
        { ' change latin1.txt', ' change raw.bin', ' change was.bin', ' change was.txt' }
      )
      nvim.noticed('4 files reverted')
      eq(all(), RAW)
      nvim.cmd('AgentRedo!')
      nvim.noticed('4 files reapplied')
      eq(all(), REWRITTEN)
      -- The editor shows what is there, and what a person types is theirs.
      wait('the file read again', function()
        return nvim.lua("return vim.fn.getbufline('was.bin', 1)")[1] == 'now'
      end)
      nvim.lua("vim.api.nvim_buf_set_lines(vim.fn.bufnr('raw.bin'), 0, 0, false, { 'mine' })")
      nvim.chooses('Revert')
      nvim.cmd('AgentRevert')
      nvim.noticed('3 files reverted; not changed:\n  raw.bin: it has changed since')
      eq(work(nvim, 'raw.bin'), REWRITTEN['raw.bin'])
      eq(nvim.lua("return vim.fn.execute('messages')"), '')
    end)
  end

  drive('a file of another code page: changed in the editor, saved, and taken back there', {
    setup = FREE,
    files = { ['latin1.txt'] = RAW['latin1.txt'] },
  }, function(nvim)
    nvim.cmd('edit latin1.txt')
    nvim.cmd('AgentPrompt tune it')
    nvim.ended()
    nvim.cmd('silent wall')
    eq(work(nvim, 'latin1.txt'), 'T\246nt\n')
    nvim.cmd('AgentRevert!')
    nvim.noticed('1 file reverted')
    nvim.cmd('silent wall')
    eq(work(nvim, 'latin1.txt'), RAW['latin1.txt'])
  end)

  drive('bytes that are no text are not edited in the editor', {
    setup = FREE,
    files = { ['latin1.txt'] = RAW['latin1.txt'] },
  }, function(nvim)
    nvim.cmd('edit ++bin latin1.txt')
    nvim.cmd('AgentPrompt tune it')
    nvim.ended()
    nvim.see('latin1.txt contains bytes that are not valid UTF-8')
    eq(nvim.lua("return vim.bo[vim.fn.bufnr('latin1.txt')].modified"), false)
    eq(work(nvim, 'latin1.txt'), RAW['latin1.txt'])
  end)

  drive('while a turn runs nothing is reverted, and its calls have diffs', { setup = FREE }, function(nvim)
    nvim.cmd('AgentPrompt alter the cart')
    nvim.ended()
    nvim.cmd('AgentPrompt go on forever')
    nvim.see('Once upon a time')
    nvim.cmd('AgentRevert')
    nvim.noticed('a turn is running')
    nvim.cmd('AgentDiff')
    wait('the diff of the call', function()
      return nvim.lua('return vim.bo.filetype') == 'diff'
    end)
    eq(work(nvim, 'cart.py'), FIXED)
    nvim.cmd('AgentCancel')
    nvim.ended(2)
  end)

  drive('a crash in the midst: what was taken back is so in the session that is loaded', {
    setup = FREE,
  }, function(nvim)
    nvim.cmd('AgentPrompt alter the cart')
    nvim.ended()
    nvim.cmd('AgentRevert!')
    nvim.see('· reverted')
    vim.uv.kill(nvim.server().pid, 'sigkill')
    nvim.noticed('restarting it')
    wait('the session again', function()
      return nvim.state() and not nvim.state().offline
    end)
    nvim.cmd('AgentRedo!')
    nvim.see('· reapplied')
    eq(work(nvim, 'cart.py'), FIXED)
  end)

  drive('a session is forked at the turn under the cursor', { setup = FREE }, function(nvim)
    nvim.cmd('AgentPrompt alter the cart')
    nvim.ended()
    nvim.cmd('AgentPrompt stream the second')
    nvim.ended(2)
    local first = nvim.state().sessionId
    at(nvim, '> alter the cart')
    nvim.keys('F')
    wait('the fork', function()
      return nvim.state().sessionId ~= first
    end)
    nvim.noticed('you are now in the fork "alter the cart (fork)"')
    local chat = nvim.chat()
    assert(chat:find('> alter the cart', 1, true) and not chat:find('stream the second', 1, true), chat)
    -- What was changed before the fork can be taken back in it.
    nvim.cmd('AgentRevert!')
    nvim.see('· reverted')
    eq(work(nvim, 'cart.py'), support.CART)
    nvim.cmd('AgentPrompt stream in the fork')
    nvim.ended(2)
    -- Of the whole, from a session in which a turn runs.
    nvim.cmd('AgentPrompt go on forever')
    nvim.see('Once upon a time')
    local second = nvim.state().sessionId
    nvim.cmd('AgentFork')
    wait('another fork', function()
      return nvim.state().sessionId ~= second
    end)
    eq(nvim.ended(2).running, nil)
    eq(nvim.chat():find('Once upon a time', 1, true), nil)
  end)

  drive('a session is exported', nil, function(nvim)
    nvim.cmd('AgentExport')
    nvim.noticed('no session is open')
    nvim.cmd('AgentPrompt stream it')
    nvim.ended()
    nvim.cmd('AgentExport')
    wait('the text', function()
      return nvim.lua('return vim.bo.filetype') == 'markdown'
    end)
    assert(table.concat(nvim.lines(), '\n'):find('Grüße: one two', 1, true))
    nvim.cmd('AgentExport told.md')
    nvim.noticed('session exported to told.md')
    assert(work(nvim, 'told.md'):find('stream it', 1, true))
    support.write(nvim.workspace .. '/told.json', 'mine')
    nvim.cmd('AgentExport told.json')
    nvim.noticed('told.json exists; overwrite it with :AgentExport!')
    eq(work(nvim, 'told.json'), 'mine')
    nvim.cmd('AgentExport! told.json')
    wait('the JSON', function()
      return work(nvim, 'told.json') ~= 'mine'
    end)
    nvim.noticed('session exported to told.json')
    eq(type(vim.json.decode(work(nvim, 'told.json')).events), 'table')
    nvim.cmd('AgentExport nowhere/told.md')
    nvim.noticed('cannot write the session')
  end)
end
