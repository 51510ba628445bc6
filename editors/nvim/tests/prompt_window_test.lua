-- Answers from the prompt window: only chords answer, and only what the user has had time to see.

local support = require('tests.support')
local eq, wait = support.eq, support.wait

return function(_, drive)
  local function go_to_prompt(nvim)
    nvim.lua([[
      local _, prompt = require('agentls.view').find_windows()
      vim.api.nvim_set_current_win(prompt)
      vim.cmd('startinsert!')
    ]])
    wait('Insert mode', function()
      return nvim.lua('return vim.api.nvim_get_mode().mode') == 'i'
    end)
  end
  local function get_prompt(nvim)
    return nvim.lua([[
      local _, prompt = require('agentls.view').find_windows()
      return table.concat(vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(prompt), 0, -1, false), '\n')
    ]])
  end
  ---Waits until all of the oldest question has been visible long enough.
  local function wait_until_seen(nvim)
    wait('a question that a chord can answer', function()
      return nvim.lua("return require('agentls.questions').is_answerable_from_prompt()")
    end)
  end

  drive('one chord in the prompt allows the visible call, and a letter never does', nil, function(nvim)
    nvim.cmd('edit cart.py')
    nvim.cmd('AgentPrompt fix it')
    nvim.wait_for_approval()
    go_to_prompt(nvim)
    wait_until_seen(nvim)
    for _, words in ipairs({ 'yes ', 'now ', 'some ', 'any ', 'every ', 'do ' }) do
      nvim.type_keys(words)
    end
    eq(nvim.open_approvals(), 1)
    eq(get_prompt(nvim), 'yes now some any every do ')
    assert(nvim.virtual():find('in the prompt: <C-y> allow  <C-g> to this card', 1, true), nvim.virtual())
    assert(
      nvim
        .lua("return require('agentls.prompt').format_bar(require('agentls.sessions').get_current(), 80)")
        :find('? Edit cart.py · <C-y> allows once', 1, true)
    )
    nvim.keys('<C-y>')
    nvim.see('The turn is over.')
    nvim.wait_for_notification('allowed once: Edit cart.py')
    -- The text and the mode stay.
    eq(get_prompt(nvim), 'yes now some any every do ')
    eq(nvim.lua('return vim.api.nvim_get_mode().mode'), 'i')
    -- Without a question, the key is Vim's own: it copies the character above.
    nvim.type_keys('<C-u>above<CR><C-y>')
    eq(get_prompt(nvim), 'above\na')
  end)

  drive('a chord that is held down answers one of three questions', nil, function(nvim)
    nvim.cmd('AgentPrompt three at once')
    nvim.wait_for_approval()
    wait('three questions', function()
      return nvim.open_approvals() == 3
    end)
    go_to_prompt(nvim)
    nvim.lua([[
      local questions = require('agentls.questions')
      local view = require('agentls.view')
      view.scroll_to_card(view.find_windows(), questions.list_open(require('agentls.sessions').get_current())[1].item)
    ]])
    wait_until_seen(nvim)
    nvim.lua([[
      CLOCK = require('agentls.questions').now_ms()
      require('agentls.questions').now_ms = function() return CLOCK end
    ]])
    for _ = 1, 12 do
      nvim.type_keys('<C-y>')
      nvim.lua('CLOCK = CLOCK + 100')
    end
    eq(nvim.open_approvals(), 2)
    -- The next one, which was visible before, counts from when it is the oldest.
    nvim.lua([[
      CLOCK = CLOCK + 60000
      local sessions, client = require('agentls.sessions'), require('agentls.client')
      local oldest = require('agentls.questions').list_open(sessions.get_current())[1].request
      client.request('agent/approvalRespond', { approvalId = oldest.approvalId, decision = 'deny' }, function() end)
    ]])
    wait('another question', function()
      return nvim.open_approvals() == 1
    end)
    nvim.type_keys('<C-y>')
    eq(nvim.open_approvals(), 1)
  end)

  drive('a chord shows a question that is not visible before it answers', nil, function(nvim)
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    nvim.cmd('AgentPrompt fix it')
    nvim.wait_for_approval()
    nvim.lua([[
      local chat = require('agentls.view').find_windows()
      vim.api.nvim_win_set_height(chat, 4)
      vim.api.nvim_win_set_cursor(chat, { 1, 0 })
      vim.api.nvim_win_call(chat, function() vim.cmd('normal! zt') end)
    ]])
    go_to_prompt(nvim)
    nvim.type_keys('<C-y>')
    nvim.wait_for_notification('asks (medium risk): Edit cart.py · <C-y> again answers it')
    eq(nvim.open_approvals(), 1)
  end)

  drive('a chord goes to the card, where one key answers, and back', nil, function(nvim)
    nvim.cmd('AgentPrompt fix it')
    nvim.wait_for_approval()
    go_to_prompt(nvim)
    nvim.type_keys('wait<C-g>')
    eq(nvim.lua('return vim.bo.filetype'), 'agentls')
    nvim.wait_until_answerable()
    nvim.keys('s')
    nvim.see('allowed for this session')
    wait('the prompt', function()
      return nvim.lua('return vim.bo.filetype .. vim.api.nvim_get_mode().mode') == 'agentls_prompti'
    end)
    nvim.type_keys('!')
    eq(get_prompt(nvim), 'wait!')
  end)

  drive(
    'files that a prompt, a steer, and a queued prompt mention are attached and shown',
    nil,
    function(nvim)
      nvim.cmd('AgentPrompt stream, and see @cart.py:1-2 and @plot.png')
      nvim.see('> stream, and see @cart.py:1-2 and @plot.png\n> @cart.py:1-2')
      nvim.see('! no file \\`plot.png\\` was found: only its name was sent')
      nvim.wait_for_turn_end()
      nvim.cmd('AgentPrompt fix it')
      nvim.wait_for_approval()
      nvim.cmd('AgentPrompt look at @cart.py too')
      nvim.cmd('AgentQueue stream @cart.py:3')
      nvim.run_twice('AgentApprove')
      nvim.see('look at @cart.py too\n> @cart.py')
      nvim.see('> stream @cart.py:3\n> @cart.py:3')
      nvim.wait_for_turn_end(3)
    end
  )

  drive('the prompt window grows with its text up to a limit, and shrinks again', nil, function(nvim)
    nvim.cmd('AgentPrompt')
    wait('the prompt', function()
      return nvim.lua('return vim.bo.filetype') == 'agentls_prompt'
    end)
    local function wait_for_height(height)
      wait(('%d lines'):format(height), function()
        return nvim.lua('return vim.api.nvim_win_get_height(0)') == height
      end)
    end
    wait_for_height(4)
    nvim.type_keys('i1<CR>2<CR>3<CR>4<CR>5<CR>6')
    wait_for_height(7)
    nvim.type_keys(('<CR>more'):rep(20))
    wait_for_height(12)
    nvim.type_keys('<Esc>:%delete<CR>')
    wait_for_height(4)
    -- A size that the user has chosen stays.
    nvim.cmd('resize 6')
    nvim.type_keys('i1<CR>2<CR>3<CR>4<CR>5<CR>6<CR>7<CR>8<Esc>')
    eq(nvim.lua('return vim.api.nvim_win_get_height(0)'), 6)
  end)

  drive('the history brings earlier prompts back, and the draft with them', nil, function(nvim)
    nvim.cmd('AgentPrompt stream once')
    nvim.wait_for_turn_end()
    nvim.cmd('AgentPrompt stream twice')
    nvim.wait_for_turn_end(2)
    go_to_prompt(nvim)
    nvim.type_keys('my draft<Up>')
    eq(get_prompt(nvim), 'stream twice')
    nvim.type_keys('<Up><Up><Up>')
    eq(get_prompt(nvim), 'stream once')
    nvim.type_keys('<Down><Down>')
    eq(get_prompt(nvim), 'my draft')
    -- A prompt that was changed becomes the draft; the other draft is not lost.
    nvim.type_keys('<Up>!')
    eq(get_prompt(nvim), 'stream twice!')
    nvim.type_keys('<Up>')
    eq(get_prompt(nvim), 'my draft')
    nvim.type_keys('<Down>')
    eq(get_prompt(nvim), 'stream twice!')
    -- Within the text, the key moves the cursor.
    nvim.type_keys('<CR>second<Up>')
    eq(get_prompt(nvim), 'stream twice!\nsecond')
  end)

  drive('an unknown model is reported in the words of the plugin', nil, function(nvim)
    nvim.cmd('AgentModel weak/nonsense\1')
    nvim.lua([[
      require('agentls.sessions').report_error({
        code = 1, data = { message = 'unknown model a/b; see agent/listModels, or agent/listModelsx' },
      })
    ]])
    nvim.wait_for_notification('unknown model a/b; see :AgentModel, or agent/listModelsx')
  end)

  drive('buffers have the names of their sessions', nil, function(nvim)
    nvim.cmd('Agent')
    wait('the chat', function()
      return nvim.lua("return vim.fn.bufname() == 'agentls://new session/prompt'")
    end)
    nvim.cmd('AgentPrompt stream a/b "c"')
    nvim.wait_for_turn_end()
    wait('the title', function()
      return nvim.lua("return vim.fn.bufname() == 'agentls://stream a b  c /prompt'")
    end)
    nvim.cmd('AgentNew')
    wait('another session', function()
      return nvim.lua("return vim.fn.bufname() == 'agentls://new session/prompt'")
    end)
    nvim.cmd('AgentPrompt stream a/b "c"')
    nvim.wait_for_turn_end()
    wait('a name of its own', function()
      return nvim.lua("return vim.fn.bufname() == 'agentls://stream a b  c  (2)/prompt'")
    end)
    local names = nvim.lua([[
      return vim.tbl_filter(function(name) return name:find('^agentls:') ~= nil end,
        vim.tbl_map(vim.api.nvim_buf_get_name, vim.api.nvim_list_bufs()))
    ]])
    eq(#names, 4)
  end)

  drive('a key goes from the card of a call to its file', nil, function(nvim)
    nvim.cmd('AgentPrompt read it')
    nvim.wait_for_turn_end()
    wait('the card', function()
      return nvim.lua([[
        vim.api.nvim_set_current_win((require('agentls.view').find_windows()))
        return vim.fn.search('Read cart') > 0
      ]])
    end)
    nvim.type_keys('gf')
    wait('the file', function()
      return nvim.lua("return vim.fn.expand('%:t')") == 'cart.py'
    end)
    nvim.lua([[
      vim.api.nvim_set_current_win((require('agentls.view').find_windows()))
      vim.fn.search('> read it')
    ]])
    nvim.type_keys('gf')
    nvim.wait_for_notification('there is no file here')
  end)

  drive('the bar of a new session names its model', nil, function(nvim)
    nvim.cmd('Agent')
    local bar
    wait(function()
      return 'the model in the bar: ' .. tostring(bar)
    end, function()
      bar = nvim.lua([[
        local session = require('agentls.sessions').get_current()
        return session and require('agentls.winbar').format_chat_bar(session, 80) or ''
      ]])
      return bar:find('new session', 1, true) and bar:find('tape · ask', 1, true)
    end)
  end)
end
