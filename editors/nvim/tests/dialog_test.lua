-- Lists and inputs of users whose `vim.ui` is Neovim's own, on a real screen.

local support = require('tests.support')
local eq = support.eq

return function(test)
  if vim.fn.executable('tmux') == 0 then
    io.stdout:write('NOT TESTED: lists and inputs on a real screen. There is no tmux.\n')
    return
  end
  local show = dofile(support.tests_dir .. '/screen.lua')(test)

  ---Opens a list of 60 entries whose choice is stored in `chosen`.
  local LONG_LIST = [[
    local items = {}
    for i = 1, 60 do items[i] = ('entry %02d'):format(i) end
    vim.schedule(function()
      require('agentls.dialog').select(items, {
        prompt = 'Which of these?',
        current = function(item) return item == 'entry 30' end,
      }, function(item) vim.g.chosen = item or 'none' end)
    end)
  ]]

  show('a list longer than the screen is chosen from without a pager', 'cart.py', function(tui)
    tui.lua(LONG_LIST)
    tui.see('Which of these?')
    tui.see('▸ entry 30')
    assert(not tui.read_screen():find('-- More --', 1, true), tui.read_screen())
    tui.keys('Down', 'Down')
    tui.see('▸ entry 32')
    tui.save_screen('long-list')
    tui.type('57')
    tui.wait_until_gone('entry 32')
    tui.see('▸ entry 57')
    support.wait('the list to take the key', function()
      tui.keys('Enter')
      return tui.eval('get(g:, "chosen", "")') == 'entry 57'
    end)
    tui.wait_until_gone('Which of these?')
    eq(tui.eval('mode()'), 'n')
    eq(tui.eval('expand("%:t")'), 'cart.py')
  end, { rows = 24, columns = 60 })

  show('a list is left with Esc, also if no entry matches', 'cart.py', function(tui)
    tui.lua(LONG_LIST)
    tui.see('▸ entry 30')
    tui.type('nothing')
    tui.see('no match')
    tui.keys('Enter')
    tui.keys('Escape')
    tui.wait_until_gone('Which of these?')
    eq(tui.eval('g:chosen'), 'none')
  end, { rows = 12, columns = 36 })

  show('a long text that is left comes back, and no notification covers it', 'cart.py', function(tui)
    local ask = [[
      vim.schedule(function()
        require('agentls.notifications').notify('something happened meanwhile')
        require('agentls.text_input').ask({ prompt = 'Why not?', key = 'x' }, function(text) vim.g.said = text end)
      end)
    ]]
    tui.lua(ask)
    tui.see('Why not?')
    tui.type('because the price is wrong, and nobody has asked for a discount of that size')
    tui.see('of that size')
    tui.see('╭ agentls')
    assert(not tui.read_screen():find('something happened', 1, true), tui.read_screen())
    tui.keys('Escape')
    tui.see('your text is kept')
    tui.lua(ask)
    tui.see('of that size')
    tui.type('!')
    tui.see('size!')
    tui.keys('Enter')
    tui.wait_until_gone('Why not?')
    assert(tui.eval('g:said'):find('^because the price .* size!$'), tui.eval('g:said'))
  end, { rows = 24, columns = 60 })
end
