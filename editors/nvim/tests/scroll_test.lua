-- On a real screen, the chat follows its end from any window, folds while the user types, and never waits for a key.

local support = require('tests.support')
local wait = support.wait
local show_with = dofile(support.tests_dir .. '/screen.lua')

---Lua that dispatches events of a session without a server. `say(n)` is an answer of n lines.
local FEED = [[
feed = {}
local seq = 0
function feed.open()
  local sessions, states = require('agentls.sessions'), require('agentls.state')
  feed.session = { id = 'ses_feed', state = states.new('ses_feed'), unsent = {} }
  sessions.all.ses_feed = feed.session
  sessions.set_current(feed.session)
  require('agentls.view').open_chat(feed.session, { focus = 'prompt' })
  feed.event('turnStarted', {})
end
function feed.transient(method, params)
  params.sessionId = 'ses_feed'
  require('agentls.sessions').handle_notification('agent/' .. method, params)
end
function feed.event(method, params)
  seq = seq + 1
  params.seq, params.at, params.turnId = seq, seq * 100, 't1'
  feed.transient(method, params)
end
function feed.say(text)
  feed.event('message', { messageId = 'm' .. seq, role = 'assistant', content = { { type = 'text', text = text } } })
end
function feed.tool(call, status, more)
  local params = { toolCallId = call, name = 'bash', title = call, status = status }
  feed.event('toolCall', vim.tbl_extend('force', params, more or {}))
end
function feed.ask(call)
  feed.tool(call, 'awaitingApproval')
  feed.event('approvalRequested', { approvalId = 'a' .. call, toolCallId = call, name = 'bash', title = call,
    shown = call, risk = 'medium', why = 'a command', input = { command = call }, rule = 'bash(make)' })
end
function feed.is_drawn(text)
  local buffer = require('agentls.view').get_buffer('ses_feed')
  return table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n'):find(text, 1, true) ~= nil
end
function feed.at(ms, f) vim.defer_fn(f, ms) end
]]

return function(test)
  if vim.fn.executable('tmux') == 0 then
    io.stdout:write('NOT TESTED: following the end on a real screen. There is no tmux.\n')
    return
  end
  local show = show_with(test)

  show('calls fold while the user types a prompt', nil, function(tui)
    tui.command('lua feed.open()')
    tui.see('› <CR>')
    tui.type('i')
    tui.see('-- INSERT --')
    tui.type('half a prompt')
    tui.lua([[
      for i = 1, 3 do
        feed.tool('call ' .. i, 'running')
        feed.tool('call ' .. i, 'completed', { output = 'hidden 1\nhidden 2\nhidden 3\n' })
      end
      feed.transient('reasoningDelta', { messageId = 'r', offset = 0, text = 'deep thought\n' })
      feed.at(100, function()
        feed.transient('reasoningDelta', { messageId = 'r', offset = 13, text = 'deeper thought\nand on' })
        feed.say('All is done.')
      end)
    ]])
    tui.see('All is done.')
    for i = 1, 3 do
      tui.see(('✓ call %d ⋯ 5 lines'):format(i))
    end
    assert(not tui.read_screen():find('hidden', 1, true), tui.read_screen())
    assert(not tui.read_screen():find('deep', 1, true), tui.read_screen())
    tui.see('half a prompt')
    tui.see('-- INSERT --')
    tui.save_screen('folds-in-insert')
    -- An opened fold stays open while others are added and changed.
    tui.keys('Escape', 'C-w', 'k')
    tui.type('gg/call 2')
    tui.keys('Enter')
    tui.type('zo')
    tui.see('hidden 2')
    tui.keys('C-w', 'j')
    tui.type('i')
    tui.lua("feed.tool('call 4', 'completed', { output = 'secret\\n' }); feed.say('And more.')")
    tui.see('And more.')
    tui.see('✓ call 4 ⋯')
    tui.see('hidden 2')
    assert(not tui.read_screen():find('secret', 1, true), tui.read_screen())
  end, { init = FEED })

  for _, case in ipairs({
    { name = 'from a file', keys = { 'C-w', 'h' }, columns = 100, rows = 30 },
    { name = 'from the prompt', keys = {}, columns = 80, rows = 24 },
    { name = 'while typing a prompt', keys = { 'i' }, columns = 120, rows = 20 },
    { name = 'while a command is typed', keys = { ':', 'echo 6' }, rest = '*7' },
    { name = 'while an operator waits', keys = { 'C-w', 'h', 'd' }, rest = 'w:echo 6*7' },
    {
      name = 'from another tab',
      keys = { 'Escape', ':', 't', 'a', 'b', 'n', 'e', 'w', 'Enter' },
      tab = true,
    },
  }) do
    show('the chat follows its end ' .. case.name, 'cart.py', function(tui)
      tui.command('lua feed.open()')
      tui.see('› <CR>')
      tui.keys(unpack(#case.keys > 0 and case.keys or { 'Escape' }))
      tui.lua([[
        for i = 1, 12 do
          feed.at(20 * i, function()
            feed.say(('a line of answer %d that is long enough to wrap in a narrow window, '):format(i):rep(3))
            feed.tool('make ' .. i, 'completed', { output = ('out\n'):rep(30) })
            if i == 12 then
              feed.say('The last words.')
              feed.ask('rm -f everything')
            end
          end)
        end
      ]])
      if case.tab then
        wait('the question', function()
          return tui.eval("len(luaeval('feed.session.state.approvals'))") == '1'
        end)
        tui.command('tabclose')
      end
      if case.rest then
        wait('the question', function()
          return tui.eval("len(luaeval('feed.session.state.approvals'))") == '1'
        end)
        -- Neovim shows the drawn question after the command line closes.
        wait('the drawing', function()
          return tui.eval([[luaeval('feed.is_drawn("rm -f everything")')]]) == 'true'
        end)
        tui.type(case.rest)
        tui.keys('Enter')
        tui.see('42')
        support.eq(tui.eval('mode()'), 'n')
        if case.rest:find('^w') then
          tui.see('total(prices, discount=0):')
          tui.wait_until_gone('def total')
        end
      end
      tui.see('a question needs your answer')
      tui.see('y allow  n deny')
      tui.see('The last words.')
      tui.save_screen('follow-' .. case.name:gsub('%W', '-'))
    end, { init = FEED, columns = case.columns, rows = case.rows })
  end

  show('the chat follows its end after a resize and after it is reopened', 'cart.py', function(tui)
    tui.command('lua feed.open()')
    tui.lua([[for i = 1, 40 do feed.say(('answer %d '):format(i):rep(12)) end feed.ask('make it')]])
    tui.see('a question needs your answer')
    for _, size in ipairs({ { 70, 18 }, { 140, 40 }, { 100, 24 } }) do
      tui.resize(size[1], size[2])
      wait('the new size', function()
        return tui.eval('&columns') == tostring(size[1])
      end)
      tui.see('a question needs your answer')
      tui.see('deny')
    end
    tui.command('Agent')
    tui.wait_until_gone('a question needs your answer')
    tui.lua("for i = 41, 60 do feed.say(('answer %d '):format(i):rep(12)) end feed.ask('test it')")
    tui.command('Agent')
    tui.see('2 questions need your answers')
    tui.see('? test it')
  end, { init = FEED })

  show('a scrolled-up chat stays in place until the user sends a prompt', 'cart.py', function(tui)
    tui.command('AgentPrompt stream first')
    tui.see('> stream first')
    tui.wait_for_turn_end(1)
    tui.lua(
      [[local sessions = require('agentls.sessions')
      sessions.handle_notification('agent/warning', { sessionId = sessions.current_id,
      seq = require('agentls').state().seq + 1, code = 'x', message = ('a warning in between\n'):rep(60) })]]
    )
    tui.see('a warning in between')
    tui.keys('C-w', 'l', 'C-w', 'k')
    tui.type('gg')
    tui.see('> stream first')
    tui.keys('C-w', 'j')
    tui.type('istream second')
    tui.see('> stream first')
    tui.keys('C-s')
    tui.see('> stream second')
    tui.wait_until_gone('> stream first')
  end)
end
