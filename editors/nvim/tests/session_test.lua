-- A person at the keyboard: the real server, a scripted model, a Neovim that is typed into.

local support = require('tests.support')
local eq, wait = support.eq, support.wait

return function(_, drive)
  drive('a prompt streams into the chat, the bar tells the cost', nil, function(nvim)
    nvim.cmd('AgentPrompt stream, please')
    nvim.see('> stream, please')
    local state = nvim.ended()
    eq(state.items[2].text:match('^Grüße: one two .* ten%.') ~= nil, true)
    nvim.see('Grüße: one two three four five six seven eight nine ten.')
    nvim.see('— 1.0k in, 12 out · $0.01')
    eq(nvim.notices(), {})
    assert(nvim.lua("return require('agentls').statusline()"):find('agent: idle', 1, true))
  end)

  drive('the chat opens, takes a prompt, and closes by keys', nil, function(nvim)
    nvim.keys(':Agent<CR>')
    wait('the windows', function()
      return #nvim.lua('return vim.api.nvim_tabpage_list_wins(0)') == 3
    end)
    eq(nvim.lua('return vim.bo.filetype'), 'agentls_prompt')
    nvim.keys('istream it<C-s>')
    nvim.see('> stream it')
    nvim.ended()
    nvim.keys('<Esc>')
    nvim.keys('ostream again<Esc><CR>')
    nvim.ended(2)
    eq(nvim.lua('return vim.api.nvim_buf_get_lines(0, 0, -1, false)'), { '' })
    nvim.keys('q')
    wait('the windows to close', function()
      return #nvim.lua('return vim.api.nvim_tabpage_list_wins(0)') == 1
    end)
    nvim.keys(':Agent<CR>')
    nvim.see('> stream again')
  end)

  drive(
    'an edit is asked about with its diff, allowed by key, and the file is read again',
    nil,
    function(nvim)
      nvim.cmd('edit cart.py')
      nvim.cmd('AgentPrompt fix it')
      eq(nvim.asked().title, 'Edit cart.py')
      nvim.see('+    return result * (1 - discount / 100)')
      nvim.see_virtual('y allow')
      eq(support.read(nvim.workspace .. '/cart.py'), support.CART)
      -- Enter alone never approves.
      nvim.typed('<C-w>l<C-w>k<CR><CR>')
      eq(nvim.open_approvals(), 1)
      nvim.press('y')
      nvim.ended()
      local fixed = support.CART:gsub('result %- discount', 'result * (1 - discount / 100)')
      eq(support.read(nvim.workspace .. '/cart.py'), fixed)
      wait('the buffer to show it', function()
        return table.concat(nvim.lua("return vim.fn.getbufline('cart.py', 1, '$')"), '\n') .. '\n' == fixed
      end)
      nvim.see('✓ `Edit cart.py`')
      -- Its diff, from the command.
      nvim.keys('gg/Edit cart<CR>:AgentDiff<CR>')
      wait('the diff', function()
        return nvim.lua('return vim.bo.filetype') == 'diff'
      end)
      assert(
        table
          .concat(nvim.lua('return vim.api.nvim_buf_get_lines(0, 0, -1, false)'), '\n')
          :find('--- a/cart.py', 1, true)
      )
      nvim.noticed('allowed once: Edit cart.py')
    end
  )

  drive('a denial by key takes feedback; Esc leaves the question open', nil, function(nvim)
    nvim.cmd('AgentPrompt fix it')
    nvim.asked()
    nvim.typed('<C-w>l<C-w>k')
    nvim.press('n')
    nvim.answer('<Esc>')
    nvim.typed('')
    eq(nvim.open_approvals(), 1)
    nvim.keys('n')
    nvim.answer('not like this<CR>')
    nvim.ended()
    nvim.see('feedback: not like this')
    nvim.see('⊘ `Edit cart.py` · denied')
    eq(support.read(nvim.workspace .. '/cart.py'), support.CART)
  end)

  drive('approve and deny by command; for the session, so that nothing is asked again', nil, function(nvim)
    nvim.cmd('AgentPrompt fix it')
    nvim.asked()
    nvim.twice('AgentDeny too early')
    nvim.ended()
    nvim.see('feedback: too early')
    nvim.cmd('AgentPrompt fix it')
    nvim.asked()
    nvim.twice('AgentApprove session')
    nvim.ended(2)
    nvim.see('allowed for this session')
    nvim.cmd('AgentApprove')
    nvim.noticed('no open approval')
  end)

  drive('arguments are edited before they are allowed', nil, function(nvim)
    nvim.cmd('AgentPrompt fix it')
    nvim.asked()
    nvim.typed('<C-w>l<C-w>k')
    nvim.press('e')
    wait('the arguments', function()
      return nvim.lua('return vim.bo.filetype') == 'json'
    end)
    nvim.keys(':%s/100/1000/<CR>:w<CR>')
    nvim.ended()
    assert(support.read(nvim.workspace .. '/cart.py'):find('discount / 1000', 1, true))
  end)

  drive('unsaved text is what the agent reads', nil, function(nvim)
    nvim.cmd('edit cart.py')
    nvim.cmd('AgentPrompt stream')
    nvim.ended()
    nvim.keys('<C-w>tggOonly in the buffer: äöü<Esc>')
    nvim.cmd('AgentPrompt read it')
    nvim.ended(2)
    nvim.see('only in the buffer: äöü')
    eq(support.read(nvim.workspace .. '/cart.py'), support.CART)
  end)

  drive('asking about a selection sends the words and their place', nil, function(nvim)
    nvim.cmd('edit cart.py')
    nvim.keys('3GwvE')
    nvim.keys(':AgentAsk why stream<CR>')
    local said = nvim.ended().items[1]
    eq({ said.text, said.references }, { 'why stream', { 'cart.py:3' } })
    nvim.see('> why stream\n> @cart.py:3')
    nvim.cmd('1,2AgentAsk and stream this')
    nvim.ended(2)
    nvim.see('> and stream this\n> @cart.py:1-2')
  end)

  drive('a streaming turn is cancelled', nil, function(nvim)
    nvim.cmd('AgentPrompt go on forever')
    nvim.see('Once upon a time')
    nvim.cmd('AgentCancel')
    local state = nvim.ended()
    eq({ state.items[3].state, state.items[2].incomplete }, { 'cancelled', true })
    nvim.see('■ cancelled')
    nvim.cmd('AgentCancel')
    nvim.cmd('AgentPrompt stream')
    nvim.ended(2)
  end)

  drive('a sleeping command is cancelled by key, and gone', nil, function(nvim)
    nvim.cmd('AgentPrompt run it')
    nvim.asked()
    nvim.twice('AgentApprove')
    nvim.see('begun42')
    nvim.keys('<C-w>l<C-w>k')
    wait('the cursor in the chat', function()
      return nvim.lua('return vim.b.agentls_chat')
    end)
    nvim.keys('<C-c>')
    local begun = vim.uv.hrtime()
    local state = nvim.ended()
    eq(state.items[#state.items].state, 'cancelled')
    assert((vim.uv.hrtime() - begun) / 1e9 < 10, 'it took long')
    wait('the command to be gone', function()
      return not vim.iter(support.marked(nvim.mark)):any(function(process)
        return process.command:find('sleep 30', 1, true) ~= nil
      end)
    end, 10000)
  end)

  drive('a prompt while a turn runs steers it', nil, function(nvim)
    nvim.cmd('AgentPrompt steer me')
    nvim.asked()
    nvim.twice('AgentApprove')
    wait('the command', function()
      return nvim.state().items[2] and nvim.state().items[2].status == 'running'
    end)
    nvim.cmd('AgentPrompt shorter, please')
    nvim.accepted()
    support.write(nvim.workspace .. '/go', '')
    nvim.ended()
    nvim.see('> ↪ shorter, please')
    nvim.see('Heard.')
  end)

  drive('a steer that was not used comes back into the prompt', nil, function(nvim)
    nvim.cmd('AgentPrompt go on forever')
    nvim.see('Once upon a time')
    nvim.cmd('AgentPrompt shorter, please')
    nvim.accepted()
    nvim.cmd('AgentCancel')
    nvim.ended()
    wait('the words in the prompt', function()
      local lines = nvim.lua([[
        local sessions = require('agentls.sessions')
        return vim.api.nvim_buf_get_lines(require('agentls.view').get_prompt_buffer(sessions.get_current()), 0, -1, false)
      ]])
      return vim.deep_equal(lines, { 'shorter, please' })
    end)
  end)

  drive('a broken attempt is taken back, the retry is seen, and both are gone in the end', nil, function(nvim)
    nvim.cmd('AgentPrompt break it')
    nvim.see('This attempt is void')
    nvim.see_virtual('try 2 of')
    nvim.see_virtual('Overloaded')
    local state = nvim.ended()
    nvim.see('This attempt holds.')
    eq(#state.notices, 0)
    assert(not nvim.chat():find('void', 1, true))
    assert(not nvim.virtual():find('Overloaded', 1, true), nvim.virtual())
  end)

  local LIMITED = ('{ cmd = { %q }, settings = { agent = { default = { max_steps = 1, mode = "full" } } } }'):format(
    support.server
  )

  ---Waits for a limit.
  local function limit(nvim)
    wait(function()
      return 'the limit in:\n' .. nvim.chat() .. vim.inspect(nvim.notices())
    end, function()
      local state = nvim.state()
      return state and state.asked[1]
    end)
  end

  drive('a limit that is reached is raised by key, and stops the turn by command', {
    setup = LIMITED,
  }, function(nvim)
    nvim.cmd('AgentPrompt read it')
    limit(nvim)
    nvim.see('? ')
    nvim.see_virtual('<CR> answer')
    nvim.typed('<C-w>l<C-w>k')
    nvim.press('<CR>')
    nvim.answer('1<CR>')
    nvim.answer('5<CR>')
    nvim.ended()
    nvim.see('→ raised by 5')
    nvim.see('Read.')
    nvim.cmd('AgentPrompt read it')
    limit(nvim)
    nvim.cmd('AgentApprove')
    nvim.noticed(' · :AgentAnswer answers')
    nvim.settled()
    nvim.keys(':AgentAnswer<CR>')
    nvim.answer('2<CR>')
    nvim.ended(2)
    nvim.see('→ stopped')
    nvim.see('■ interrupted')
    nvim.cmd('AgentPrompt read it')
    limit(nvim)
    nvim.twice('AgentAnswer!')
    nvim.ended(3)
    nvim.cmd('AgentAnswer')
    nvim.noticed('no open question')
  end)

  drive('a limit of a chat that is not seen is told, and answered from elsewhere', {
    setup = LIMITED,
  }, function(nvim)
    nvim.lua("require('agentls').prompt('read it')")
    limit(nvim)
    nvim.noticed(':AgentAnswer raises it or stops')
    local first = nvim.state().sessionId
    nvim.cmd('AgentNew')
    wait('another session', function()
      return nvim.state().sessionId ~= first
    end)
    nvim.cmd('AgentAnswer!')
    nvim.noticed('another session asks: ')
    eq(nvim.lua('return #require("agentls.sessions").all[...].state.asked', first), 1)
    nvim.lua("local all = ... require('agentls.view').open_chat(require('agentls.sessions').all[all])", first)
    nvim.twice('AgentAnswer!')
    wait('the end', function()
      return nvim.lua('return require("agentls.sessions").all[...].state.running == nil', first)
    end)
  end)

  drive('a limit is asked again after a crash, and its answer is kept for the resume', {
    setup = LIMITED,
  }, function(nvim)
    nvim.cmd('AgentPrompt read it')
    limit(nvim)
    vim.uv.kill(nvim.server().pid, 'sigkill')
    nvim.ended()
    limit(nvim)
    nvim.see_virtual(':AgentResume continues')
    nvim.typed('<C-w>l<C-w>k')
    nvim.press('<CR>')
    nvim.answer('1<CR>')
    nvim.answer('5<CR>')
    nvim.noticed('answer saved; continue with :AgentResume')
    nvim.keys('R')
    nvim.ended(2)
    nvim.see('Read.')
  end)

  drive('a limit that was left open is there in the next Neovim', { setup = LIMITED }, function(nvim)
    nvim.cmd('AgentPrompt read it')
    limit(nvim)
    nvim.quit()
    local again = support.neovim({ workspace = nvim.workspace, data = nvim.data, setup = LIMITED })
    again.lua([[vim.ui.select = function(items, options, choose)
      for i, item in ipairs(items) do
        if options.format_item(item):find('read it', 1, true) then return choose(item, i) end
      end
    end]])
    again.cmd('AgentSessions')
    limit(again)
    again.see_virtual('a question needs your answer')
    again.twice('AgentAnswer!')
    again.noticed('answer saved')
    again.cmd('AgentResume')
    again.ended(2)
    again.see('→ stopped')
    again.quit()
  end)

  drive('what this server offers beyond the rest has its command', nil, function(nvim)
    nvim.cmd('AgentPrompt stream')
    nvim.ended()
    local offers = nvim.lua("return require('agentls.client').supports_method('agent/compact')")
    eq(nvim.lua("return vim.fn.exists(':AgentCompact')"), offers and 2 or 0)
    if offers then
      nvim.cmd('AgentCompact keep the numbers')
      nvim.ended(2)
    end
  end)

  drive('a turn that fails says why', nil, function(nvim)
    nvim.cmd('AgentPrompt fail')
    nvim.ended()
    nvim.see('✗ \\[provider\\_error\\]')
    nvim.see('invalid key')
  end)

  drive('mode and model: by name, from the list, and a wrong one', nil, function(nvim)
    nvim.cmd('AgentMode autoEdit')
    wait('the mode', function()
      local state = nvim.state()
      return state and state.mode == 'autoEdit'
    end)
    nvim.cmd('AgentMode fulll')
    nvim.noticed('there is no mode `fulll`: is `full` meant?')
    nvim.keys(':AgentMode<CR>')
    nvim.answer('1<CR>')
    wait('the mode', function()
      return nvim.state().mode == 'plan'
    end)
    nvim.keys(':AgentModel<CR>')
    nvim.answer('1<CR>')
    nvim.cmd('AgentModel tape/other high')
    wait('the model', function()
      local state = nvim.state()
      return state.model == 'tape/other' and state.effort == 'high'
    end)
  end)

  drive('sessions are listed, searched and loaded; two run at once', nil, function(nvim)
    nvim.cmd('AgentPrompt go on forever')
    nvim.see('Once upon a time')
    local first = nvim.state().sessionId
    nvim.cmd('AgentNew')
    wait('another session', function()
      return nvim.state().sessionId ~= first
    end)
    nvim.cmd('AgentPrompt stream the second')
    nvim.ended()
    local second = nvim.state().sessionId
    nvim.lua([[
      lists = {}
      vim.ui.select = function(items, options, choose)
        local words = vim.tbl_map(options.format_item, items)
        table.insert(lists, { prompt = options.prompt, words = words })
        for i, line in ipairs(words) do
          if line:find(wanted, 1, true) then return choose(items[i], i) end
        end
        choose(nil)
      end
    ]])
    nvim.lua("wanted = 'go on forever'")
    nvim.cmd('AgentSessions')
    wait('the first session', function()
      return nvim.state().sessionId == first
    end)
    local words = nvim.lua('return lists[1].words')
    eq(words[1], '+ new session')
    assert(words[3]:find('go on forever', 1, true) and words[3]:find('running', 1, true), vim.inspect(words))
    nvim.see('Once upon a time')
    nvim.lua("wanted = 'stream the second'")
    nvim.cmd('AgentSessions second')
    wait('the second session', function()
      return nvim.state().sessionId == second
    end)
    nvim.see('Grüße')
    eq(nvim.lua('return lists[2].prompt'), 'Sessions with "second"')
    nvim.lua("wanted = 'go on forever'")
    nvim.cmd('AgentSessions')
    wait('the first session', function()
      return nvim.state().sessionId == first
    end)
    nvim.cmd('AgentCancel')
    nvim.ended()
  end)

  drive('autocommands tell what happens', {
    init = [[
      told = {}
      vim.api.nvim_create_autocmd('User', { pattern = 'Agent*', callback = function(event)
        table.insert(told, event.match)
      end })
    ]],
  }, function(nvim)
    nvim.cmd('AgentPrompt fix it')
    nvim.asked()
    nvim.twice('AgentApprove')
    nvim.ended()
    local told = {}
    for _, name in ipairs(nvim.lua('return told')) do
      told[name] = true
    end
    for _, name in ipairs({
      'AgentServerReady',
      'AgentSessionChanged',
      'AgentTurnStarted',
      'AgentApprovalRequested',
      'AgentApprovalResolved',
      'AgentTurnEnded',
      'AgentStatus',
    }) do
      assert(told[name], name .. ' was not told: ' .. vim.inspect(told))
    end
  end)

  drive('a question is notified while its chat is not seen', nil, function(nvim)
    nvim.lua("require('agentls').prompt('fix it')")
    nvim.asked()
    nvim.noticed('asks: Edit cart.py · :AgentApprove shows it')
    nvim.twice('AgentDeny!')
    nvim.ended()
  end)

  drive(
    'nothing is mapped outside, and without keys not inside either',
    { setup = ('{ cmd = { %q }, keys = false }'):format(support.server) },
    function(nvim)
      nvim.cmd('AgentPrompt fix it')
      nvim.asked()
      nvim.see_virtual(':AgentApprove')
      eq(
        nvim.lua([[
        local count = 0
        for _, mode in ipairs({ 'n', 'i', 'v', 'x', 'o', 'c' }) do
          for _, map in ipairs(vim.api.nvim_get_keymap(mode)) do
            if (map.desc or ''):find('agentls') then count = count + 1 end
          end
          for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
            for _, map in ipairs(vim.api.nvim_buf_get_keymap(buffer, mode)) do
              if (map.desc or ''):find('agentls') then count = count + 1 end
            end
          end
        end
        return count
      ]]),
        0
      )
      nvim.twice('AgentDeny!')
      nvim.ended()
    end
  )

  drive('10 MB of output: Neovim stays responsive, and its buffer small', nil, function(nvim)
    nvim.cmd('AgentPrompt stream')
    nvim.ended()
    nvim.lua([[
      longest, last, busiest, spent = 0, vim.uv.hrtime(), 0, os.clock()
      ticker = vim.uv.new_timer()
      ticker:start(0, 1, function()
        local now, used = vim.uv.hrtime(), os.clock()
        longest, last = math.max(longest, (now - last) / 1e6), now
        -- What a busy machine takes from us is no pause of ours.
        busiest, spent = math.max(busiest, (used - spent) * 1e3), used
      end)
      deltas = 0
      local dispatch = require('agentls.client').on_notification
      require('agentls.client').on_notification = function(method, params)
        if method == 'agent/toolOutputDelta' then deltas = deltas + #params.text end
        dispatch(method, params)
      end
    ]])
    nvim.cmd('AgentPrompt flood me')
    nvim.asked()
    nvim.twice('AgentApprove')
    -- Nothing is asked of it meanwhile: that would be measured too.
    vim.wait(3000)
    nvim.ended(2)
    nvim.see('That was much.')
    local longest, busiest, drawing, deltas = unpack(nvim.lua([[
      ticker:stop()
      return { longest, busiest, require('agentls.view').max_draw_ms, deltas }
    ]]))
    local measured = 'the longest pause of the main loop: %.1f ms (%.1f ms of them our own work); '
      .. 'the longest drawing: %.1f ms; live output: %d bytes'
    io.stdout:write('     ' .. measured:format(longest, busiest, drawing, deltas) .. '\n')
    assert(busiest < 100, 'the main loop stood still')
    local lines = select(2, nvim.chat():gsub('\n', '\n'))
    assert(lines < 2100, ('%d lines are in the buffer'):format(lines))
    -- The whole is opened by a key.
    nvim.keys('<C-w>l<C-w>kgg/flood<CR>jjjo')
    wait('the whole output', function()
      return nvim.lua("return vim.bo.filetype == 'agentls_output' and vim.api.nvim_buf_line_count(0)")
        == 1480000
    end)
  end)
end
