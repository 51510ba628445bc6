-- The windows of the plugin: where they open, which buffers they accept, and what they leave when they close.

local support = require('tests.support')
local eq, wait = support.eq, support.wait
local FILES = { ['cart.py'] = support.CART, ['old.txt'] = 'old\n' }
local show_with = dofile(support.tests_dir .. '/screen.lua')

---Returns the names of the buffers in each tab page.
local function list_tabs(nvim)
  return nvim.lua([[
    return vim.tbl_map(function(tab)
      return vim.tbl_map(function(window)
        local buffer = vim.api.nvim_win_get_buf(window)
        return vim.b[buffer].agentls_chat and 'chat' or vim.bo[buffer].filetype == 'agentls_prompt' and 'prompt'
          or vim.fs.basename(vim.api.nvim_buf_get_name(buffer))
      end, vim.api.nvim_tabpage_list_wins(tab))
    end, vim.api.nvim_list_tabpages())
  ]])
end

local function setup(options)
  return ('{ cmd = { %q }, %s }'):format(support.server, options)
end

return function(test, drive)
  drive(
    "with position = 'tab' the chat uses one tab page",
    { setup = setup("window = { position = 'tab' }") },
    function(nvim)
      nvim.cmd('edit cart.py')
      nvim.cmd('AgentPrompt stream')
      nvim.wait_for_turn_end()
      nvim.cmd('tabfirst')
      nvim.cmd('AgentPrompt stream more')
      nvim.wait_for_turn_end(2)
      eq(list_tabs(nvim), { { 'cart.py' }, { 'chat', 'prompt' } })
      eq(nvim.lua('return vim.api.nvim_get_current_tabpage() == vim.api.nvim_list_tabpages()[2]'), true)
      nvim.cmd('tabfirst')
      nvim.cmd('Agent')
      nvim.cmd('Agent')
      eq(list_tabs(nvim), { { 'cart.py' } })
      nvim.cmd('Agent')
      eq(list_tabs(nvim), { { 'cart.py' }, { 'chat', 'prompt' } })
    end
  )

  drive(
    "with position = 'current' closing the chat restores the file",
    { setup = setup("window = { position = 'current' }") },
    function(nvim)
      nvim.cmd('edit cart.py')
      nvim.cmd('setlocal number')
      nvim.cmd('AgentPrompt stream')
      nvim.wait_for_turn_end()
      eq(list_tabs(nvim), { { 'chat', 'prompt' } })
      nvim.cmd('Agent')
      eq(list_tabs(nvim), { { 'cart.py' } })
      eq(nvim.lua('return { vim.wo.winfixwidth, vim.wo.winbar, vim.wo.number }'), { false, '', true })
      nvim.cmd('Agent')
      eq(list_tabs(nvim), { { 'chat', 'prompt' } })
    end
  )

  drive('the last window of a chat shows the file that was used last', nil, function(nvim)
    nvim.cmd('edit cart.py')
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    nvim.lua("vim.api.nvim_set_current_win((require('agentls.view').find_windows()))")
    nvim.cmd('only')
    nvim.cmd('Agent')
    eq(list_tabs(nvim), { { 'cart.py' } })
    eq(nvim.lua('return vim.wo.winbar'), '')
  end)

  local full = {
    files = FILES,
    setup = setup("settings = { agent = { default = { mode = 'full' } } }"),
  }
  drive('what closes gives the focus back to where it was opened', full, function(nvim)
    nvim.cmd('edit cart.py')
    nvim.cmd('split old.txt')
    nvim.cmd('tabnew old.txt')
    nvim.cmd('tabfirst')
    nvim.cmd('AgentPrompt change several files')
    nvim.wait_for_turn_end()
    for _, name in ipairs({ 'chat', 'prompt', 'file' }) do
      local origin = nvim.lua(
        [[
        local chat, prompt = require('agentls.view').find_windows()
        local file = vim.iter(vim.api.nvim_tabpage_list_wins(0)):find(function(window)
          return vim.api.nvim_win_get_buf(window) == vim.fn.bufnr('cart.py')
        end)
        vim.api.nvim_set_current_win(({ chat = chat, prompt = prompt, file = file })[...])
        return vim.api.nvim_get_current_win()
      ]],
        name
      )
      for _, closing in ipairs({
        { "vim.cmd('AgentDiff')", 'tabclose' },
        { "vim.cmd('AgentDiff')", 'quit' },
        { "vim.cmd('AgentDiff!')", 'close' },
        { "vim.cmd('AgentNotices')", 'close' },
        {
          "require('agentls.scratch').open_editor('x', 'json', { 'x' }, '', function() return true end)",
          'write',
        },
      }) do
        nvim.stub_select('cart.py')
        nvim.lua(closing[1])
        wait('the window of ' .. closing[1], function()
          return nvim.lua('return vim.api.nvim_get_current_win()') ~= origin
        end)
        nvim.cmd(closing[2])
        wait(('the focus in the %s after %s, %s'):format(name, closing[1], closing[2]), function()
          return nvim.lua('return vim.api.nvim_get_current_win()') == origin
        end)
      end
    end
  end)

  drive('what opens in a chat window moves to a window for files', nil, function(nvim)
    nvim.cmd('set number | cd ' .. nvim.workspace)
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    local function go_to(number)
      nvim.lua("vim.api.nvim_set_current_win(({ require('agentls.view').find_windows() })[...])", number)
    end
    local function wait_for_file()
      wait('the file beside the chat', function()
        return vim.deep_equal(list_tabs(nvim)[1], { 'cart.py', 'chat', 'prompt' })
          and nvim.lua("return vim.fn.expand('%:t')") == 'cart.py'
      end)
    end
    for _, number in ipairs({ 1, 2 }) do
      for _, command in ipairs({ 'edit +3 cart.py', 'buffer cart.py', 'cc' }) do
        nvim.lua("vim.fn.setqflist({ { filename = 'cart.py', lnum = 3 } })")
        go_to(number)
        nvim.cmd(command)
        wait_for_file()
        eq(nvim.lua('return { vim.wo.number, vim.wo.winbar, vim.wo.winfixwidth }'), { true, '', false })
        eq(nvim.lua('return vim.fn.line(".")'), 3)
        nvim.cmd('enew')
      end
    end
    -- A window that has nothing but the chat keeps it.
    go_to(1)
    nvim.cmd('only')
    nvim.cmd('edit cart.py')
    wait('the file beside the chat', function()
      return vim.deep_equal(list_tabs(nvim)[1], { 'cart.py', 'chat' })
    end)
    eq(nvim.lua('return { vim.wo.number, vim.wo.winbar }'), { true, '' })
    -- Another session takes the place of the first.
    nvim.cmd('AgentNew')
    wait('the new session', function()
      return #nvim.state().items == 0
    end)
    eq({ list_tabs(nvim)[1][2], list_tabs(nvim)[1][3] }, { 'chat', 'prompt' })
    eq(nvim.lua('return vim.bo.filetype'), 'agentls_prompt')
  end)

  drive("the user's statusline is kept", { init = "vim.o.statusline = 'mine'" }, function(nvim)
    nvim.cmd('Agent')
    wait('the chat', function()
      return #list_tabs(nvim)[1] == 3
    end)
    for _, number in ipairs({ 1, 2, 3 }) do
      eq(nvim.lua('return vim.wo[vim.api.nvim_tabpage_list_wins(0)[...]].statusline', number), 'mine')
    end
  end)

  drive("q closes a diff from both sides, and is Vim's own key elsewhere", {
    setup = setup("settings = { agent = { default = { mode = 'full' } } }"),
  }, function(nvim)
    nvim.cmd('edit cart.py')
    nvim.cmd('AgentPrompt fix it')
    nvim.wait_for_turn_end()
    for _, side in ipairs({ 'wincmd h', 'wincmd l' }) do
      nvim.cmd('AgentDiff')
      eq(#list_tabs(nvim), 2)
      nvim.cmd(side)
      nvim.type_keys('q')
      eq({ #list_tabs(nvim), nvim.lua('return vim.fn.reg_recording()') }, { 1, '' })
    end
    nvim.cmd('wincmd t')
    eq(
      nvim.lua("return { vim.api.nvim_buf_get_name(0):match('[^/]*$'), vim.fn.maparg('q', 'n') }"),
      { 'cart.py', '' }
    )
  end)

  drive('a swap file of another editor causes no error', {
    setup = setup("settings = { agent = { default = { mode = 'full' } } }"),
    init = "vim.o.directory = vim.env.HOME .. '//'; vim.o.swapfile = true",
  }, function(nvim)
    nvim.cmd('AgentPrompt fix it')
    nvim.wait_for_turn_end()
    -- A crashed editor leaves such a file behind.
    nvim.lua([[
      local child = vim.fn.jobstart({ vim.v.progpath, '--embed', '--headless', '-u', 'NONE', '-i', 'NONE', '--cmd',
        "set directory=" .. vim.env.HOME .. "//" }, { rpc = true, cwd = vim.fn.getcwd() })
      vim.rpcrequest(child, 'nvim_command', 'set updatecount=1 | edit cart.py | call setline(1, "lost") | preserve')
      vim.uv.kill(vim.fn.jobpid(child), 'sigkill')
      vim.wait(5000, function() return vim.fn.jobwait({ child }, 0)[1] ~= -1 end)
    ]])
    nvim.cmd('set updatecount=200')
    nvim.cmd('AgentDiff')
    nvim.wait_for_notification('cart.py has a swap file: it is read-only here')
    eq(#list_tabs(nvim), 2)
    eq(nvim.lua("return vim.fn.execute('messages')"):find('E325'), nil)
  end)

  if vim.fn.executable('tmux') == 1 then
    local show = show_with(test)
    show('the chat stays readable after the terminal shrinks and grows', 'cart.py', function(tui)
      tui.command('AgentPrompt stream')
      tui.see('— 1.0k in')
      local width = 'luaeval("vim.api.nvim_win_get_width((require(\'agentls.view\').find_windows()))")'
      for _, size in ipairs({ { 60, 27 }, { 50, 22 }, { 200, 40 } }) do
        tui.resize(size[1], 30)
        wait(function()
          return ('%d columns of the chat: %s'):format(size[2], tui.eval(width))
        end, function()
          local columns = tonumber(tui.eval(width))
          return tui.eval('&columns') == tostring(size[1]) and columns >= size[2] and columns <= size[1] - 10
        end, 10000)
        tui.see('— 1.0k in')
      end
    end)

    show('the bars are truncated at the right by display width', nil, function(tui)
      tui.command('AgentPrompt stream')
      tui.see('— 1.0k in')
      tui.lua([[require('agentls.sessions').handle_notification('agent/sessionUpdated', {
        sessionId = require('agentls.sessions').current_id,
        title = ('漢字'):rep(30), model = 'a/' .. ('long-name-'):rep(3) })]])
      tui.see('字…  long-name-long-name-long-name- · ask')
      tui.see('› <CR> or <C-s> sends')
      tui.resize(40, 30)
      wait('a narrow chat', function()
        return tui.eval('&columns') == '40'
      end)
      tui.see('› <CR> or <C-s> s…')
    end, { columns = 150 })
  end
end
