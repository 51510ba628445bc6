-- On a real screen: notices are seen in every mode, and never wait for a key. `vim.notify` is Neovim's own here.

local support = require('tests.support')
local wait = support.wait
local show_with = dofile(support.here .. '/screen.lua')

return function(test)
  if vim.fn.executable('tmux') == 0 then
    io.stdout:write('NOT TESTED: notices on a real screen. There is no tmux.\n')
    return
  end
  local show = show_with(test)

  for _, columns in ipairs({ 80, 100, 160 }) do
    show(('notices wait for no key at %d columns'):format(columns), 'cart.py', function(tui)
      tui.command('AgentPrompt stream')
      tui.see('— 1.0k in')
      tui.ended(1)
      tui.keys('C-w', 'l', 'C-w', 'j')
      tui.type('i')
      tui.see('-- INSERT --')
      tui.type('half a')
      tui.lua([[require('agentls.sessions').report_error({ code = 1,
        message = 'the request failed for ' .. ('many long reasons '):rep(12),
        data = { cause = 'nobody knows', userAction = 'Look at the log.\nThen try again.' } })]])
      tui.see('the request failed for')
      tui.see('reasons : nobody knows')
      tui.see('Then try again.')
      tui.see('-- INSERT --')
      tui.keep('notice-' .. columns)
      tui.type(' prompt')
      tui.see('half a prompt')
      tui.keys('Escape')
      tui.command('AgentApprove')
      tui.see('no open approval')
      tui.command('AgentMode nonsense')
      tui.see('there is no mode `nonsense`')
      local shot = tui.shot()
      assert(not shot:find('Press ENTER', 1, true) and not shot:find('-- More --', 1, true), shot)
      support.eq(tui.eval('mode()'), 'n')
      -- They go by themselves, and are kept.
      tui.lua(
        "require('agentls.notifications').VISIBLE_MS = 50; require('agentls.notifications').notify('a last word')"
      )
      tui.gone('no open approval')
      tui.command('AgentNotices')
      tui.see('  a last word')
      tui.see('Look at the log.')
      tui.type('q')
      tui.gone('  a last word')
    end, { columns = columns, rows = 24 })
  end

  show('wrong options are named once the screen is there', nil, function(tui)
    tui.see('unknown option `keyz`; did you mean `keys`?')
    tui.see('`output_lines` must be')
    assert(not tui.shot():find('Press ENTER', 1, true), tui.shot())
    tui.type('ihere')
    tui.see('-- INSERT --')
  end, { setup = '{ keyz = 1, output_lines = "many" }', columns = 80, rows = 24 })

  show('a notification window that the person has is used', nil, function(tui)
    tui.command('AgentApprove')
    tui.see('mine: agentls: no open approval')
  end, { init = 'vim.notify = function(words) vim.api.nvim_echo({ { "mine: " .. words } }, false, {}) end' })

  show('the words of a server that cannot be found fit the screen', nil, function(tui)
    tui.command('Agent')
    tui.see('the server was not found')
    tui.see(':checkhealth agentls says more')
    assert(not tui.shot():find('Press ENTER', 1, true), tui.shot())
    wait('Normal mode', function()
      return tui.eval('mode()') == 'n'
    end)
  end, { server = '/nowhere/agentls', columns = 80, rows = 24 })
end
