-- Actions on turns, with the real server: diffs, reverts, redos, forks, exports.

local support = require('tests.support')
local eq, wait = support.eq, support.wait

local FREE = ('{ cmd = { %q }, settings = { agent = { default = { mode = "full" } } } }'):format(
  support.server
)
local FILES = { ['cart.py'] = support.CART, ['old.txt'] = 'old\n' }
local FIXED = support.CART:gsub('result %- discount', 'result * (1 - discount / 100)')
local RENAMED = support.CART:gsub('def total', 'def sum_of')

local function read_work_file(nvim, name)
  return support.read(nvim.workspace .. '/' .. name)
end

---Goes to the line of the chat that contains `text`.
local function go_to_line(nvim, text)
  nvim.see(text)
  nvim.lua(
    [[
    local text = ...
    local view = require('agentls.view')
    vim.api.nvim_set_current_win((view.find_windows()))
    for row, line in ipairs(vim.api.nvim_buf_get_lines(0, 0, -1, false)) do
      if line:find(text, 1, true) then return vim.api.nvim_win_set_cursor(0, { row, 0 }) end
    end
  ]],
    text
  )
end

---Returns what the windows of the tab page show, from left to right.
local function read_sides(nvim)
  return nvim.lua([[
    local sides = {}
    for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
      local buffer = vim.api.nvim_win_get_buf(window)
      table.insert(sides, {
        text = table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n') .. '\n',
        name = vim.fn.fnamemodify(vim.api.nvim_buf_get_name(buffer), ':t'),
        diff = vim.wo[window].diff,
        file = vim.bo[buffer].buftype == '',
      })
    end
    return sides
  ]])
end

return function(_, drive)
  drive("keys show a turn's change side by side, revert it and reapply it", {
    setup = FREE,
  }, function(nvim)
    nvim.cmd('AgentPrompt change the cart')
    nvim.wait_for_turn_end()
    nvim.see('± cart.py changed +1 -1')
    nvim.wait_for_virtual_text('u revert')
    go_to_line(nvim, '± cart.py')
    nvim.keys('d')
    wait('the two sides', function()
      return #read_sides(nvim) == 2 and nvim.lua('return vim.wo.diff')
    end)
    local left, right = unpack(read_sides(nvim))
    eq({ left.text, left.diff, left.file }, { support.CART, true, false })
    eq({ right.text, right.diff, right.file, right.name }, { FIXED, true, true, 'cart.py' })
    -- Either side closes it.
    nvim.keys('<C-w>hq')
    wait('the chat again', function()
      return nvim.lua('return #vim.api.nvim_list_tabpages()') == 1
    end)
    go_to_line(nvim, '± cart.py')
    nvim.keys('d')
    wait('the two sides', function()
      return #read_sides(nvim) == 2 and nvim.lua('return vim.wo.diff')
    end)
    nvim.keys('<C-w>l:q<CR>')
    wait('the chat again', function()
      return nvim.lua('return #vim.api.nvim_list_tabpages()') == 1
    end)
    -- The preview comes first, and leaving it changes nothing.
    nvim.stub_select()
    go_to_line(nvim, '± cart.py')
    nvim.keys('u')
    local prompt = nvim.wait_for_select()[1]
    eq(prompt.labels, { 'Revert 1 file', 'Cancel' })
    eq(prompt.float, { ' change cart.py' })
    eq({ read_work_file(nvim, 'cart.py'), nvim.read_float() }, { FIXED })
    nvim.stub_select('Revert')
    nvim.keys('u')
    nvim.see('± cart.py changed +1 -1 · reverted')
    nvim.wait_for_notification('1 file reverted')
    eq(read_work_file(nvim, 'cart.py'), support.CART)
    nvim.see('↶ reverted: the changes of one file')
    nvim.wait_for_virtual_text('<C-r> redo')
    -- Reverted changes can still be shown.
    go_to_line(nvim, '± cart.py')
    nvim.cmd('AgentDiff')
    left, right = unpack(read_sides(nvim))
    eq({ left.text, left.file, right.text, right.file }, { support.CART, true, FIXED, false })
    nvim.cmd('tabclose')
    go_to_line(nvim, '± cart.py')
    nvim.stub_select('Reapply')
    nvim.keys('<C-r>')
    nvim.see('· reapplied')
    eq(nvim.wait_for_select()[1].float, { ' change cart.py' })
    eq(read_work_file(nvim, 'cart.py'), FIXED)
    nvim.cmd('AgentRedo')
    nvim.wait_for_notification('there is nothing to redo')
  end)

  drive('a revert of many files skips one that changed since', {
    setup = FREE,
    files = FILES,
  }, function(nvim)
    nvim.cmd('AgentPrompt change several files')
    nvim.wait_for_turn_end()
    nvim.see('± 3 files changed +3 -2 ⋯ 3 lines')
    nvim.see('M `cart.py` +1 -1\nA `new/b.txt` +2\nD `old.txt` -1')
    eq(read_work_file(nvim, 'old.txt'), nil)
    nvim.stub_select('new/b.txt')
    nvim.cmd('AgentDiff')
    eq(nvim.wait_for_select()[1].labels, {
      'M cart.py +1 -1',
      'A new/b.txt +2',
      'D old.txt -1',
      '≡ all files as one text',
    })
    local left, right = unpack(read_sides(nvim))
    eq({ left.text, right.text, right.name }, { '\n', 'b\nc\n', 'b.txt' })
    nvim.cmd('tabclose')
    nvim.stub_select('old.txt')
    nvim.cmd('AgentDiff')
    left, right = unpack(read_sides(nvim))
    eq({ left.text, right.text, right.file }, { 'old\n', '\n', false })
    nvim.cmd('tabclose')
    nvim.cmd('AgentDiff!')
    wait('all as one text', function()
      return nvim.lua('return vim.bo.filetype') == 'diff'
    end)
    local text = table.concat(nvim.lines(), '\n')
    assert(text:find('+def sum_of', 1, true) and text:find('-old', 1, true), text)
    go_to_line(nvim, 'A `new/b.txt`')
    nvim.keys('zRo')
    wait('the file', function()
      return vim.deep_equal(nvim.lines(), { 'b', 'c' })
    end)
    go_to_line(nvim, 'D `old.txt`')
    nvim.keys('o')
    nvim.wait_for_notification('old.txt does not exist')
    -- The user's change stays.
    support.write(nvim.workspace .. '/new/b.txt', 'a person was here\n')
    nvim.stub_select('Revert')
    nvim.cmd('AgentRevert')
    eq(nvim.wait_for_select()[1].float, {
      ' change cart.py',
      ' create old.txt',
      '',
      ' Not changed:',
      ' new/b.txt: it has changed since',
    })
    nvim.wait_for_notification('2 files reverted; not changed:\n  new/b.txt: it has changed since')
    eq({ read_work_file(nvim, 'cart.py'), read_work_file(nvim, 'old.txt') }, { support.CART, 'old\n' })
    eq(read_work_file(nvim, 'new/b.txt'), 'a person was here\n')
    nvim.cmd('AgentRevert!')
    nvim.wait_for_notification('nothing reverted; not')
    -- If the file does not match the diff, the diff is shown as text.
    nvim.stub_select('new/b.txt')
    nvim.cmd('AgentDiff')
    nvim.wait_for_notification('new/b.txt has changed since the turn; showing the diff as text')
  end)

  drive('a revert includes later turns, as one undo step in open buffers', {
    setup = FREE,
    files = FILES,
  }, function(nvim)
    nvim.cmd('edit cart.py')
    nvim.cmd('AgentPrompt change the cart')
    nvim.wait_for_turn_end()
    nvim.cmd('AgentPrompt change several files')
    nvim.wait_for_turn_end(2)
    local fully_changed = RENAMED:gsub('result %- discount', 'result * (1 - discount / 100)')
    eq(read_work_file(nvim, 'cart.py'), fully_changed)
    go_to_line(nvim, '> change the cart')
    nvim.stub_select('Revert')
    nvim.keys('u')
    nvim.wait_for_notification('3 files reverted')
    eq({ read_work_file(nvim, 'cart.py'), read_work_file(nvim, 'new/b.txt') }, { support.CART, nil })
    local function get_buffer()
      return table.concat(nvim.lua("return vim.fn.getbufline('cart.py', 1, '$')"), '\n') .. '\n'
    end
    eq(get_buffer(), support.CART)
    eq(nvim.lua("return vim.bo[vim.fn.bufnr('cart.py')].modified"), false)
    nvim.see('± cart.py changed +1 -1 · reverted')
    nvim.see('± 3 files changed +3 -2 · reverted')
    nvim.lua("vim.api.nvim_buf_call(vim.fn.bufnr('cart.py'), function() vim.cmd('silent undo') end)")
    eq(get_buffer(), fully_changed)
    nvim.lua(
      "vim.api.nvim_buf_call(vim.fn.bufnr('cart.py'), function() vim.cmd('silent redo | silent write') end)"
    )
    -- The later turn was reverted with the earlier one, and is reapplied with it.
    go_to_line(nvim, '± 3 files')
    nvim.keys(':AgentRedo!<CR>')
    nvim.wait_for_notification('3 files reapplied')
    eq({ read_work_file(nvim, 'cart.py'), read_work_file(nvim, 'new/b.txt') }, { fully_changed, 'b\nc\n' })
    nvim.see('± 3 files changed +3 -2 · reapplied')
  end)

  drive('two thousand changed files are listed and reverted', { setup = FREE }, function(nvim)
    nvim.cmd('AgentPrompt two thousand')
    nvim.wait_for_turn_end()
    nvim.see('± 2,000 files changed')
    nvim.see('and 1,700 more')
    nvim.stub_select('Revert')
    nvim.cmd('AgentRevert')
    local prompt = nvim.wait_for_select()[1]
    eq(prompt.labels[1], 'Revert 2000 files')
    assert(
      #prompt.float <= 28 and prompt.float[#prompt.float]:find('and %d+ more'),
      vim.inspect(prompt.float)
    )
    nvim.wait_for_notification('2000 files reverted')
    eq(vim.uv.fs_stat(nvim.workspace .. '/many/f1'), nil)
    nvim.see('↶ reverted: the changes of 2000 files')
  end)

  drive('no diff for a turn without changes, nor for a binary file', {
    setup = FREE,
    files = FILES,
  }, function(nvim)
    nvim.cmd('AgentPrompt change the cart')
    nvim.wait_for_turn_end()
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end(2)
    go_to_line(nvim, '> stream')
    nvim.keys('d')
    nvim.wait_for_notification('there is no diff to show')
    nvim.cmd('AgentPrompt make bytes')
    nvim.wait_for_turn_end(3)
    go_to_line(nvim, '± bytes created')
    nvim.cmd('AgentDiff')
    nvim.wait_for_notification('no diff available for bytes')
    nvim.cmd('AgentRevert!')
    nvim.wait_for_notification('1 file reverted')
    eq(read_work_file(nvim, 'bytes'), nil)
    nvim.cmd('AgentRedo!')
    nvim.wait_for_notification('1 file reapplied')
    eq(read_work_file(nvim, 'bytes'), 'a\0b')
    -- An open file disappears and comes back.
    nvim.lua('require("agentls.view").close_chat()')
    nvim.cmd('AgentPrompt change several files')
    nvim.wait_for_turn_end(4)
    nvim.lua('require("agentls.view").close_chat()')
    nvim.cmd('edit new/b.txt')
    nvim.cmd('AgentRevert!')
    nvim.wait_for_notification('3 files reverted')
    eq(read_work_file(nvim, 'new/b.txt'), nil)
    nvim.cmd('AgentRedo!')
    nvim.wait_for_notification('3 files reapplied')
    eq(read_work_file(nvim, 'new/b.txt'), 'b\nc\n')
    eq(nvim.lines(), { 'b', 'c' })
  end)

  drive('files with unusual names are listed, shown and reverted', { setup = FREE }, function(nvim)
    nvim.cmd('AgentPrompt odd names')
    nvim.wait_for_turn_end()
    nvim.see('± 3 files changed +3')
    nvim.see('A `` tick`_*.txt `` +1')
    nvim.stub_select('tick`')
    nvim.cmd('AgentDiff')
    eq(read_sides(nvim)[2].name, 'tick`_*.txt')
    nvim.cmd('tabclose')
    nvim.stub_select('#1.txt')
    nvim.cmd('AgentDiff')
    eq({ read_sides(nvim)[2].name, read_sides(nvim)[2].text }, { '#1.txt', 'z\n' })
    nvim.cmd('tabclose')
    nvim.cmd('AgentDiff!')
    nvim.stub_select('Revert')
    nvim.cmd('AgentRevert')
    eq(#nvim.wait_for_select()[1].float, 3)
    nvim.wait_for_notification('3 files reverted')
    eq({
      read_work_file(nvim, 'a\nb c'),
      read_work_file(nvim, 'tick`_*.txt'),
      read_work_file(nvim, 'ü [x]/#1.txt'),
    }, {})
  end)

  drive('a revert skips and names a file with unsaved changes', { setup = FREE }, function(nvim)
    nvim.cmd('edit cart.py')
    nvim.cmd('AgentPrompt change the cart')
    nvim.wait_for_turn_end()
    nvim.lua("vim.api.nvim_buf_set_lines(vim.fn.bufnr('cart.py'), 0, 0, false, { '# mine' })")
    nvim.stub_select('Revert')
    nvim.cmd('AgentRevert')
    nvim.wait_for_notification(
      'there is nothing left to revert; not changed:\n  cart.py: it has changed since'
    )
    eq(read_work_file(nvim, 'cart.py'), FIXED)
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
    drive(('a binary file open as %s is compared with the disk unless it has unsaved changes'):format(name), {
      setup = FREE,
    }, function(nvim)
      local function read_all()
        local contents = {}
        for file in pairs(RAW) do
          contents[file] = read_work_file(nvim, file)
        end
        return contents
      end
      nvim.cmd('AgentPrompt write what is no text')
      nvim.wait_for_turn_end()
      eq(read_all(), RAW)
      nvim.lua("require('agentls.view').close_chat()")
      for file in pairs(RAW) do
        nvim.cmd(command .. ' ' .. file)
      end
      nvim.cmd('AgentPrompt change a binary file')
      nvim.wait_for_turn_end(2)
      eq(read_all(), REWRITTEN)
      nvim.stub_select('Revert')
      nvim.cmd('AgentRevert')
      eq(
        nvim.wait_for_select()[1].float,
        { ' change latin1.txt', ' change raw.bin', ' change was.bin', ' change was.txt' }
      )
      nvim.wait_for_notification('4 files reverted')
      eq(read_all(), RAW)
      nvim.cmd('AgentRedo!')
      nvim.wait_for_notification('4 files reapplied')
      eq(read_all(), REWRITTEN)
      -- The editor shows the file on disk, and keeps what the user types.
      wait('the file read again', function()
        return nvim.lua("return vim.fn.getbufline('was.bin', 1)")[1] == 'now'
      end)
      nvim.lua("vim.api.nvim_buf_set_lines(vim.fn.bufnr('raw.bin'), 0, 0, false, { 'mine' })")
      nvim.stub_select('Revert')
      nvim.cmd('AgentRevert')
      nvim.wait_for_notification('3 files reverted; not changed:\n  raw.bin: it has changed since')
      eq(read_work_file(nvim, 'raw.bin'), REWRITTEN['raw.bin'])
      eq(nvim.lua("return vim.fn.execute('messages')"), '')
    end)
  end

  drive('a file in another encoding is edited, saved and reverted in its buffer', {
    setup = FREE,
    files = { ['latin1.txt'] = RAW['latin1.txt'] },
  }, function(nvim)
    nvim.cmd('edit latin1.txt')
    nvim.cmd('AgentPrompt tune it')
    nvim.wait_for_turn_end()
    nvim.cmd('silent wall')
    eq(read_work_file(nvim, 'latin1.txt'), 'T\246nt\n')
    nvim.cmd('AgentRevert!')
    nvim.wait_for_notification('1 file reverted')
    nvim.cmd('silent wall')
    eq(read_work_file(nvim, 'latin1.txt'), RAW['latin1.txt'])
  end)

  drive('a file whose buffer has invalid UTF-8 is edited on the disk and read again', {
    setup = FREE,
    files = { ['latin1.txt'] = RAW['latin1.txt'] },
  }, function(nvim)
    nvim.cmd('edit ++bin latin1.txt')
    nvim.cmd('AgentPrompt tune it')
    nvim.wait_for_turn_end()
    eq(read_work_file(nvim, 'latin1.txt'), 'T\246nt\n')
    wait('the file read again', function()
      return nvim.lua("return vim.fn.getbufline('latin1.txt', 1)")[1] == 'T\246nt'
    end)
    eq(nvim.lua("return vim.bo[vim.fn.bufnr('latin1.txt')].modified"), false)
  end)

  drive('during a turn a revert is refused, and its calls show diffs', { setup = FREE }, function(nvim)
    nvim.cmd('AgentPrompt change the cart')
    nvim.wait_for_turn_end()
    nvim.cmd('AgentPrompt go on forever')
    nvim.see('Once upon a time')
    nvim.cmd('AgentRevert')
    nvim.wait_for_notification('a turn is running')
    nvim.cmd('AgentDiff')
    wait('the diff of the call', function()
      return nvim.lua('return vim.bo.filetype') == 'diff'
    end)
    eq(read_work_file(nvim, 'cart.py'), FIXED)
    nvim.cmd('AgentCancel')
    nvim.wait_for_turn_end(2)
  end)

  drive('a revert survives a crash of the server', {
    setup = FREE,
  }, function(nvim)
    nvim.cmd('AgentPrompt change the cart')
    nvim.wait_for_turn_end()
    nvim.cmd('AgentRevert!')
    nvim.see('· reverted')
    vim.uv.kill(nvim.server().pid, 'sigkill')
    nvim.wait_for_notification('restarting it')
    wait('the session again', function()
      return nvim.state() and not nvim.state().offline
    end)
    nvim.cmd('AgentRedo!')
    nvim.see('· reapplied')
    eq(read_work_file(nvim, 'cart.py'), FIXED)
  end)

  drive('a session is forked at the turn under the cursor', { setup = FREE }, function(nvim)
    nvim.cmd('AgentPrompt change the cart')
    nvim.wait_for_turn_end()
    nvim.cmd('AgentPrompt stream the second')
    nvim.wait_for_turn_end(2)
    local first = nvim.state().sessionId
    go_to_line(nvim, '> change the cart')
    nvim.keys('F')
    wait('the fork', function()
      return nvim.state().sessionId ~= first
    end)
    nvim.wait_for_notification('you are now in the fork "change the cart (fork)"')
    local chat = nvim.chat()
    assert(chat:find('> change the cart', 1, true) and not chat:find('stream the second', 1, true), chat)
    -- Changes from before the fork can be reverted in it.
    nvim.cmd('AgentRevert!')
    nvim.see('· reverted')
    eq(read_work_file(nvim, 'cart.py'), support.CART)
    nvim.cmd('AgentPrompt stream in the fork')
    nvim.wait_for_turn_end(2)
    -- The whole session, from one with a running turn.
    nvim.cmd('AgentPrompt go on forever')
    nvim.see('Once upon a time')
    local second = nvim.state().sessionId
    nvim.cmd('AgentFork')
    wait('another fork', function()
      return nvim.state().sessionId ~= second
    end)
    eq(nvim.wait_for_turn_end(2).running, nil)
    eq(nvim.chat():find('Once upon a time', 1, true), nil)
  end)

  drive('a session is exported', nil, function(nvim)
    nvim.cmd('AgentExport')
    nvim.wait_for_notification('no session is open')
    nvim.cmd('AgentPrompt stream it')
    nvim.wait_for_turn_end()
    nvim.cmd('AgentExport')
    wait('the text', function()
      return nvim.lua('return vim.bo.filetype') == 'markdown'
    end)
    assert(table.concat(nvim.lines(), '\n'):find('Grüße: one two', 1, true))
    nvim.cmd('AgentExport export.md')
    nvim.wait_for_notification('session exported to export.md')
    assert(read_work_file(nvim, 'export.md'):find('stream it', 1, true))
    support.write(nvim.workspace .. '/export.json', 'mine')
    nvim.cmd('AgentExport export.json')
    nvim.wait_for_notification('export.json exists; overwrite it with :AgentExport!')
    eq(read_work_file(nvim, 'export.json'), 'mine')
    nvim.cmd('AgentExport! export.json')
    wait('the JSON', function()
      return read_work_file(nvim, 'export.json') ~= 'mine'
    end)
    nvim.wait_for_notification('session exported to export.json')
    eq(type(vim.json.decode(read_work_file(nvim, 'export.json')).events), 'table')
    nvim.cmd('AgentExport nowhere/export.md')
    nvim.wait_for_notification('cannot write the session')
  end)
end
