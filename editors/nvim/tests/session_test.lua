-- A user's session: a real Neovim with typed keys, the real server, and a scripted model.

local support = require('tests.support')
local eq, wait = support.eq, support.wait

return function(_, drive)
  drive('an answer streams into the chat, and the bar shows the cost', nil, function(nvim)
    nvim.cmd('AgentPrompt stream, please')
    nvim.see('> stream, please')
    local state = nvim.wait_for_turn_end()
    eq(state.items[2].text:match('^Grüße: one two .* ten%.') ~= nil, true)
    nvim.see('Grüße: one two three four five six seven eight nine ten.')
    nvim.see('— 1.0k in, 12 out · $0.01')
    eq(nvim.notices(), {})
    assert(nvim.lua("return require('agentls').statusline()"):find('agent: idle', 1, true))
  end)

  drive('keys open the chat, send a prompt and close the chat', nil, function(nvim)
    nvim.keys(':Agent<CR>')
    wait('the windows', function()
      return #nvim.lua('return vim.api.nvim_tabpage_list_wins(0)') == 3
    end)
    eq(nvim.lua('return vim.bo.filetype'), 'agentls_prompt')
    nvim.keys('istream it<C-s>')
    nvim.see('> stream it')
    nvim.wait_for_turn_end()
    nvim.keys('<Esc>')
    nvim.keys('ostream again<Esc><CR>')
    nvim.wait_for_turn_end(2)
    eq(nvim.lua('return vim.api.nvim_buf_get_lines(0, 0, -1, false)'), { '' })
    nvim.keys('q')
    wait('the windows to close', function()
      return #nvim.lua('return vim.api.nvim_tabpage_list_wins(0)') == 1
    end)
    nvim.keys(':Agent<CR>')
    nvim.see('> stream again')
  end)

  drive('an edit shows its diff, is allowed by key, and reloads the buffer', nil, function(nvim)
    nvim.cmd('edit cart.py')
    nvim.cmd('AgentPrompt fix it')
    eq(nvim.wait_for_approval().title, 'Edit cart.py')
    nvim.see('+    return result * (1 - discount / 100)')
    nvim.wait_for_virtual_text('y allow')
    eq(support.read(nvim.workspace .. '/cart.py'), support.CART)
    -- Enter alone never approves.
    nvim.type_keys('<C-w>l<C-w>k<CR><CR>')
    eq(nvim.open_approvals(), 1)
    nvim.press_twice('y')
    nvim.wait_for_turn_end()
    local fixed = support.CART:gsub('result %- discount', 'result * (1 - discount / 100)')
    eq(support.read(nvim.workspace .. '/cart.py'), fixed)
    wait('the buffer to show it', function()
      return table.concat(nvim.lua("return vim.fn.getbufline('cart.py', 1, '$')"), '\n') .. '\n' == fixed
    end)
    nvim.see('✓ `Edit cart.py`')
    -- The command shows its diff.
    nvim.keys('gg/Edit cart<CR>:AgentDiff<CR>')
    wait('the diff', function()
      return nvim.lua('return vim.bo.filetype') == 'diff'
    end)
    assert(
      table
        .concat(nvim.lua('return vim.api.nvim_buf_get_lines(0, 0, -1, false)'), '\n')
        :find('--- a/cart.py', 1, true)
    )
    nvim.wait_for_notification('allowed once: Edit cart.py')
  end)

  drive('a denial by key takes feedback, and Esc leaves the question open', nil, function(nvim)
    nvim.cmd('AgentPrompt fix it')
    nvim.wait_for_approval()
    nvim.type_keys('<C-w>l<C-w>k')
    nvim.press_twice('n')
    nvim.answer('<Esc>')
    nvim.type_keys('')
    eq(nvim.open_approvals(), 1)
    nvim.keys('n')
    nvim.answer('not like this<CR>')
    nvim.wait_for_turn_end()
    nvim.see('feedback: not like this')
    nvim.see('⊘ `Edit cart.py` · denied')
    eq(support.read(nvim.workspace .. '/cart.py'), support.CART)
  end)

  drive('commands approve and deny; `session` suppresses later questions', nil, function(nvim)
    nvim.cmd('AgentPrompt fix it')
    nvim.wait_for_approval()
    nvim.run_twice('AgentDeny too early')
    nvim.wait_for_turn_end()
    nvim.see('feedback: too early')
    nvim.cmd('AgentPrompt fix it')
    nvim.wait_for_approval()
    nvim.run_twice('AgentApprove session')
    nvim.wait_for_turn_end(2)
    nvim.see('allowed for this session')
    nvim.cmd('AgentApprove')
    nvim.wait_for_notification('no open approval')
  end)

  drive('arguments can be edited before the call is allowed', nil, function(nvim)
    nvim.cmd('AgentPrompt fix it')
    nvim.wait_for_approval()
    nvim.type_keys('<C-w>l<C-w>k')
    nvim.press_twice('e')
    wait('the arguments', function()
      return nvim.lua('return vim.bo.filetype') == 'json'
    end)
    nvim.keys(':%s/100/1000/<CR>:w<CR>')
    nvim.wait_for_turn_end()
    assert(support.read(nvim.workspace .. '/cart.py'):find('discount / 1000', 1, true))
  end)

  drive('the agent reads unsaved text', nil, function(nvim)
    nvim.cmd('edit cart.py')
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    nvim.keys('<C-w>tggOonly in the buffer: äöü<Esc>')
    nvim.cmd('AgentPrompt read it')
    nvim.wait_for_turn_end(2)
    nvim.see('only in the buffer: äöü')
    eq(support.read(nvim.workspace .. '/cart.py'), support.CART)
  end)

  drive(':AgentAsk sends the question and the selection', nil, function(nvim)
    nvim.cmd('edit cart.py')
    nvim.keys('3GwvE')
    nvim.keys(':AgentAsk why stream<CR>')
    local prompt = nvim.wait_for_turn_end().items[1]
    eq({ prompt.text, prompt.references }, { 'why stream', { 'cart.py:3' } })
    nvim.see('> why stream\n> @cart.py:3')
    nvim.cmd('1,2AgentAsk and stream this')
    nvim.wait_for_turn_end(2)
    nvim.see('> and stream this\n> @cart.py:1-2')
  end)

  drive('a streaming turn is cancelled', nil, function(nvim)
    nvim.cmd('AgentPrompt go on forever')
    nvim.see('Once upon a time')
    nvim.cmd('AgentCancel')
    local state = nvim.wait_for_turn_end()
    eq({ state.items[3].state, state.items[2].incomplete }, { 'cancelled', true })
    nvim.see('■ canceled')
    nvim.cmd('AgentCancel')
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end(2)
  end)

  drive('a key cancels a sleeping command and kills its process', nil, function(nvim)
    nvim.cmd('AgentPrompt run it')
    nvim.wait_for_approval()
    nvim.run_twice('AgentApprove')
    nvim.see('started42')
    nvim.keys('<C-w>l<C-w>k')
    wait('the cursor in the chat', function()
      return nvim.lua('return vim.b.agentls_chat')
    end)
    nvim.keys('<C-c>')
    local started_at = vim.uv.hrtime()
    local state = nvim.wait_for_turn_end()
    eq(state.items[#state.items].state, 'cancelled')
    assert((vim.uv.hrtime() - started_at) / 1e9 < 10, 'it took long')
    wait('the command to be gone', function()
      return not vim.iter(support.find_processes(nvim.mark)):any(function(process)
        return process.command:find('sleep 30', 1, true) ~= nil
      end)
    end, 10000)
  end)

  drive('a prompt while a turn runs steers it', nil, function(nvim)
    nvim.cmd('AgentPrompt steer me')
    nvim.wait_for_approval()
    nvim.run_twice('AgentApprove')
    wait('the command', function()
      return nvim.state().items[2] and nvim.state().items[2].status == 'running'
    end)
    nvim.cmd('AgentPrompt shorter, please')
    nvim.wait_until_accepted()
    support.write(nvim.workspace .. '/go', '')
    nvim.wait_for_turn_end()
    nvim.see('> ↪ shorter, please')
    nvim.see('Understood.')
  end)

  drive('an unused steer comes back into the prompt', nil, function(nvim)
    nvim.cmd('AgentPrompt go on forever')
    nvim.see('Once upon a time')
    nvim.cmd('AgentPrompt shorter, please')
    nvim.wait_until_accepted()
    nvim.cmd('AgentCancel')
    nvim.wait_for_turn_end()
    wait('the words in the prompt', function()
      local lines = nvim.lua([[
        local sessions, view = require('agentls.sessions'), require('agentls.view')
        return vim.api.nvim_buf_get_lines(view.get_prompt_buffer(sessions.get_current()), 0, -1, false)
      ]])
      return vim.deep_equal(lines, { 'shorter, please' })
    end)
  end)

  drive('the text of a broken attempt and its retry notice disappear', nil, function(nvim)
    nvim.cmd('AgentPrompt break it')
    nvim.see('This attempt fails')
    nvim.wait_for_virtual_text('try 2 of')
    nvim.wait_for_virtual_text('Overloaded')
    local state = nvim.wait_for_turn_end()
    nvim.see('This attempt succeeds.')
    eq(#state.notices, 0)
    assert(not nvim.chat():find('void', 1, true))
    assert(not nvim.virtual():find('Overloaded', 1, true), nvim.virtual())
  end)

  local LIMITED = ('{ cmd = { %q }, settings = { agent = { default = { max_steps = 1, mode = "full" } } } }'):format(
    support.server
  )

  ---Waits for a limit.
  local function wait_for_limit(nvim)
    wait(function()
      return 'the limit in:\n' .. nvim.chat() .. vim.inspect(nvim.notices())
    end, function()
      local state = nvim.state()
      return state and state.inquiries[1]
    end)
  end

  drive('a limit can be raised by key, and can stop the turn by command', {
    setup = LIMITED,
  }, function(nvim)
    nvim.cmd('AgentPrompt read it')
    wait_for_limit(nvim)
    nvim.see('? ')
    nvim.wait_for_virtual_text('<CR> answer')
    nvim.type_keys('<C-w>l<C-w>k')
    nvim.press_twice('<CR>')
    nvim.answer('1<CR>')
    nvim.answer('5<CR>')
    nvim.wait_for_turn_end()
    nvim.see('→ raised by 5')
    nvim.see('Read.')
    nvim.cmd('AgentPrompt read it')
    wait_for_limit(nvim)
    nvim.cmd('AgentApprove')
    nvim.wait_for_notification(' · :AgentAnswer answers')
    nvim.wait_until_answerable()
    nvim.keys(':AgentAnswer<CR>')
    nvim.answer('2<CR>')
    nvim.wait_for_turn_end(2)
    nvim.see('→ stopped')
    nvim.see('■ interrupted')
    nvim.cmd('AgentPrompt read it')
    wait_for_limit(nvim)
    nvim.run_twice('AgentAnswer!')
    nvim.wait_for_turn_end(3)
    nvim.cmd('AgentAnswer')
    nvim.wait_for_notification('no open question')
  end)

  drive('a limit of a hidden chat is reported and can be answered', {
    setup = LIMITED,
  }, function(nvim)
    nvim.lua("require('agentls').prompt('read it')")
    wait_for_limit(nvim)
    nvim.wait_for_notification(':AgentAnswer raises it or stops')
    local first = nvim.state().sessionId
    nvim.cmd('AgentNew')
    wait('another session', function()
      return nvim.state().sessionId ~= first
    end)
    nvim.cmd('AgentAnswer!')
    nvim.wait_for_notification('another session asks: ')
    eq(nvim.lua('return #require("agentls.sessions").all[...].state.inquiries', first), 1)
    nvim.lua("local all = ... require('agentls.view').open_chat(require('agentls.sessions').all[all])", first)
    nvim.run_twice('AgentAnswer!')
    wait('the end', function()
      return nvim.lua('return require("agentls.sessions").all[...].state.running == nil', first)
    end)
  end)

  drive('a limit is asked again after a crash, and its answer is kept until the resume', {
    setup = LIMITED,
  }, function(nvim)
    nvim.cmd('AgentPrompt read it')
    wait_for_limit(nvim)
    vim.uv.kill(nvim.server().pid, 'sigkill')
    nvim.wait_for_turn_end()
    wait_for_limit(nvim)
    nvim.wait_for_virtual_text(':AgentResume continues')
    nvim.type_keys('<C-w>l<C-w>k')
    nvim.press_twice('<CR>')
    nvim.answer('1<CR>')
    nvim.answer('5<CR>')
    nvim.wait_for_notification('answer saved; continue with :AgentResume')
    nvim.keys('R')
    nvim.wait_for_turn_end(2)
    nvim.see('Read.')
  end)

  drive('an open limit is asked again in the next Neovim', { setup = LIMITED }, function(nvim)
    nvim.cmd('AgentPrompt read it')
    wait_for_limit(nvim)
    nvim.quit()
    local reopened = support.neovim({ workspace = nvim.workspace, data = nvim.data, setup = LIMITED })
    reopened.lua([[vim.ui.select = function(items, options, choose)
      for i, item in ipairs(items) do
        if options.format_item(item):find('read it', 1, true) then return choose(item, i) end
      end
    end]])
    reopened.cmd('AgentSessions')
    wait_for_limit(reopened)
    reopened.wait_for_virtual_text('a question needs your answer')
    reopened.run_twice('AgentAnswer!')
    reopened.wait_for_notification('answer saved')
    reopened.cmd('AgentResume')
    reopened.wait_for_turn_end(2)
    reopened.see('→ stopped')
    reopened.quit()
  end)

  drive('a request that only this server supports has its command', nil, function(nvim)
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    local supports_compact = nvim.lua("return require('agentls.client').supports_method('agent/compact')")
    eq(nvim.lua("return vim.fn.exists(':AgentCompact')"), supports_compact and 2 or 0)
    if supports_compact then
      nvim.cmd('AgentCompact keep the numbers')
      nvim.wait_for_turn_end(2)
    end
  end)

  drive('a failed turn shows its error', nil, function(nvim)
    nvim.cmd('AgentPrompt fail')
    nvim.wait_for_turn_end()
    nvim.see('✗ \\[provider\\_error\\]')
    nvim.see('invalid key')
  end)

  drive('mode and model can be set by name or from a list; an unknown name is refused', nil, function(nvim)
    nvim.cmd('AgentMode autoEdit')
    wait('the mode', function()
      local state = nvim.state()
      return state and state.mode == 'autoEdit'
    end)
    nvim.cmd('AgentMode fulll')
    nvim.wait_for_notification('unknown mode `fulll`; did you mean `full`?')
    -- The current mode comes first.
    nvim.keys(':AgentMode<CR>')
    nvim.answer('2<CR>')
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

  drive('sessions can be listed, searched and loaded, and two run at once', nil, function(nvim)
    nvim.cmd('AgentPrompt go on forever')
    nvim.see('Once upon a time')
    local first = nvim.state().sessionId
    nvim.cmd('AgentNew')
    wait('another session', function()
      return nvim.state().sessionId ~= first
    end)
    nvim.cmd('AgentPrompt stream the second')
    nvim.wait_for_turn_end()
    local second = nvim.state().sessionId
    nvim.lua([[
      lists = {}
      vim.ui.select = function(items, options, choose)
        local labels = vim.tbl_map(options.format_item, items)
        table.insert(lists, { prompt = options.prompt, labels = labels })
        for i, line in ipairs(labels) do
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
    local labels = nvim.lua('return lists[1].labels')
    eq(labels[1], '+ new session')
    assert(
      labels[3]:find('go on forever', 1, true) and labels[3]:find('running', 1, true),
      vim.inspect(labels)
    )
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
    nvim.wait_for_turn_end()
  end)

  drive('autocommands report events', {
    init = [[
      triggered = {}
      vim.api.nvim_create_autocmd('User', { pattern = 'Agent*', callback = function(event)
        table.insert(triggered, event.match)
      end })
    ]],
  }, function(nvim)
    nvim.cmd('AgentPrompt fix it')
    nvim.wait_for_approval()
    nvim.run_twice('AgentApprove')
    nvim.wait_for_turn_end()
    local triggered = {}
    for _, name in ipairs(nvim.lua('return triggered')) do
      triggered[name] = true
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
      assert(triggered[name], name .. ' was not triggered: ' .. vim.inspect(triggered))
    end
  end)

  drive('a question of a hidden chat shows a notification', nil, function(nvim)
    nvim.lua("require('agentls').prompt('fix it')")
    nvim.wait_for_approval()
    nvim.wait_for_notification('asks: Edit cart.py · :AgentApprove shows it')
    nvim.run_twice('AgentDeny!')
    nvim.wait_for_turn_end()
  end)

  drive(
    "nothing is mapped outside the plugin's buffers, and nothing at all with keys = false",
    { setup = ('{ cmd = { %q }, keys = false }'):format(support.server) },
    function(nvim)
      nvim.cmd('AgentPrompt fix it')
      nvim.wait_for_approval()
      nvim.wait_for_virtual_text(':AgentApprove')
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
      nvim.run_twice('AgentDeny!')
      nvim.wait_for_turn_end()
    end
  )

  drive('with 10 MB of output Neovim stays responsive and the buffer small', nil, function(nvim)
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    nvim.lua([[
      longest, last, longest_work, last_cpu_time = 0, vim.uv.hrtime(), 0, os.clock()
      ticker = vim.uv.new_timer()
      ticker:start(0, 1, function()
        local now, cpu_time = vim.uv.hrtime(), os.clock()
        longest, last = math.max(longest, (now - last) / 1e6), now
        -- Do not count time that the machine gave to other processes.
        longest_work, last_cpu_time = math.max(longest_work, (cpu_time - last_cpu_time) * 1e3), cpu_time
      end)
      deltas = 0
      local dispatch = require('agentls.client').on_notification
      require('agentls.client').on_notification = function(method, params)
        if method == 'agent/toolOutputDelta' then deltas = deltas + #params.text end
        dispatch(method, params)
        if method == 'agent/turnEnded' then vim.fn.writefile({}, 'ended') end
      end
    ]])
    nvim.cmd('AgentPrompt flood me')
    nvim.wait_for_approval()
    nvim.run_twice('AgentApprove')
    -- Send no request meanwhile; it would be measured, too.
    wait('the end of the turn', function()
      return vim.uv.fs_stat(nvim.workspace .. '/ended') ~= nil
    end)
    nvim.wait_for_turn_end(2)
    nvim.see('That was a lot.')
    local longest, longest_work, drawing, deltas = unpack(nvim.lua([[
      ticker:stop()
      return { longest, longest_work, require('agentls.view').max_draw_ms, deltas }
    ]]))
    local report = 'the longest pause of the main loop: %.1f ms (%.1f ms of them our own work); '
      .. 'the longest drawing: %.1f ms; live output: %d bytes'
    io.stdout:write('     ' .. report:format(longest, longest_work, drawing, deltas) .. '\n')
    assert(longest_work < 100, 'the main loop stood still')
    local lines = select(2, nvim.chat():gsub('\n', '\n'))
    assert(lines < 2100, ('%d lines are in the buffer'):format(lines))
    -- A key opens the full output.
    nvim.keys('<C-w>l<C-w>kgg/flood<CR>jjjo')
    wait('the whole output', function()
      return nvim.lua("return vim.bo.filetype == 'agentls_output' and vim.api.nvim_buf_line_count(0)")
        == 1480000
    end)
  end)
end
