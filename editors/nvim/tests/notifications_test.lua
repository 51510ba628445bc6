-- Notifications are visible in every mode, and never wait for a key. On a real screen, with Neovim's own `vim.notify`.

local support = require('tests.support')
local wait = support.wait
local show_with = dofile(support.tests_dir .. '/screen.lua')

return function(test)
  if vim.fn.executable('tmux') == 0 then
    io.stdout:write('NOT TESTED: notices on a real screen. There is no tmux.\n')
    return
  end
  local show = show_with(test)

  for _, columns in ipairs({ 80, 100, 160 }) do
    show(('notifications wait for no key at %d columns'):format(columns), 'cart.py', function(tui)
      tui.command('AgentPrompt stream')
      tui.see('— 1.0k in')
      tui.wait_for_turn_end(1)
      tui.keys('C-w', 'l', 'C-w', 'j')
      tui.type('i')
      tui.see('-- INSERT --')
      tui.type('half a')
      tui.lua([[require('agentls.sessions').report_error({ code = 1,
        message = 'the request failed for ' .. ('many long reasons '):rep(12),
        data = { cause = 'unknown', userAction = 'Look at the log.\nThen try again.' } })]])
      tui.see('the request failed for')
      tui.see('reasons : unknown')
      tui.see('Then try again.')
      tui.see('-- INSERT --')
      tui.save_screen('notice-' .. columns)
      tui.type(' prompt')
      tui.see('half a prompt')
      tui.keys('Escape')
      tui.command('AgentApprove')
      tui.see('no open approval')
      tui.command('AgentMode nonsense')
      tui.see('unknown mode `nonsense`')
      local screen_text = tui.read_screen()
      assert(
        not screen_text:find('Press ENTER', 1, true) and not screen_text:find('-- More --', 1, true),
        screen_text
      )
      support.eq(tui.eval('mode()'), 'n')
      -- They disappear by themselves, and stay in the history.
      tui.lua(
        "require('agentls.notifications').VISIBLE_MS = 50; require('agentls.notifications').notify('a last word')"
      )
      tui.wait_until_gone('no open approval')
      tui.command('AgentNotices')
      tui.see('  a last word')
      tui.see('Look at the log.')
      tui.type('q')
      tui.wait_until_gone('  a last word')
    end, { columns = columns, rows = 24 })
  end

  show('invalid options are reported after startup', nil, function(tui)
    tui.see('unknown option `keyz`; did you mean `keys`?')
    tui.see('`output_lines` must be')
    assert(not tui.read_screen():find('Press ENTER', 1, true), tui.read_screen())
    tui.type('ihere')
    tui.see('-- INSERT --')
  end, { setup = '{ keyz = 1, output_lines = "many" }', columns = 80, rows = 24 })

  show('a replaced vim.notify shows the notifications', nil, function(tui)
    tui.command('AgentApprove')
    tui.see('mine: agentls: no open approval')
  end, { init = 'vim.notify = function(text) vim.api.nvim_echo({ { "mine: " .. text } }, false, {}) end' })

  show('the message about a missing server fits the screen', nil, function(tui)
    tui.command('Agent')
    tui.see('the server was not found')
    tui.see(':checkhealth agentls')
    assert(not tui.read_screen():find('Press ENTER', 1, true), tui.read_screen())
    wait('Normal mode', function()
      return tui.eval('mode()') == 'n'
    end)
  end, { server = '/nowhere/agentls', columns = 80, rows = 24 })

  show('notices are at the bottom right', 'cart.py', function(tui)
    tui.command('Agent')
    tui.see('write a prompt')
    tui.lua("require('agentls.notifications').notify('something happened')")
    tui.see('something happened')
    local lines = vim.split(tui.read_screen(), '\n')
    local chat_column = lines[1]:find('│', 1, true)
    for row, line in ipairs(lines) do
      local column = line:find('something happened', 1, true)
      assert(not column or (row > 20 and column < chat_column), tui.read_screen())
    end
    assert(tui.read_screen():find('<CR> or <C-s> sends', 1, true), tui.read_screen())
  end, { rows = 30 })
end
