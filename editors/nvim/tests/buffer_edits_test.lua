-- Edits in buffers, with the real server. Unsaved text is read, edited with undo, and never lost. A saved buffer is
-- saved again, so that commands see the edit. Encoding, line ends, and file modes are preserved.

local support = require('tests.support')
local eq, wait = support.eq, support.wait

local FULL = ('{ cmd = { %q }, settings = { agent = { default = { mode = "full" } } } }'):format(
  support.server
)
local FIXED = (support.CART:gsub('result %- discount', 'result * (1 - discount / 100)'))

---Returns the text of a buffer.
local function get_text(nvim, name)
  return table.concat(nvim.lua('return vim.fn.getbufline(..., 1, "$")', name), '\n') .. '\n'
end

local function modified(nvim, name)
  return nvim.lua('return vim.bo[vim.fn.bufnr(...)].modified', name)
end

---Returns the result of the last tool call for the model.
local function get_output(state)
  local last
  for _, item in ipairs(state.items) do
    last = item.kind == 'tool' and item or last
  end
  return assert(last, 'no tool was called').output or '', last.status
end

return function(_, drive)
  drive(
    'an edit in a buffer with unsaved changes can be undone and is not saved',
    { setup = FULL },
    function(nvim)
      nvim.cmd('edit cart.py')
      nvim.keys('Go# mine<Esc>gg')
      nvim.lua('vim.api.nvim_buf_set_mark(0, "m", 5, 0, {}) vim.api.nvim_win_set_cursor(0, { 5, 2 })')
      nvim.cmd('AgentPrompt fix it')
      local state = nvim.wait_for_turn_end()
      eq(get_text(nvim, 'cart.py'), FIXED .. '# mine\n')
      eq({ modified(nvim, 'cart.py'), support.read(nvim.workspace .. '/cart.py') }, { true, support.CART })
      local output = get_output(state)
      assert(output:find('the file on disk and commands do not have this edit yet', 1, true), output)
      eq(
        nvim.lua([[return vim.api.nvim_win_call(vim.fn.bufwinid('cart.py'), function()
        local place = { vim.fn.line("'m"), vim.fn.line('.'), vim.fn.col('.') }
        vim.cmd('silent undo')
        return place
      end)]]),
        { 5, 5, 3 }
      )
      eq(get_text(nvim, 'cart.py'), support.CART .. '# mine\n', 'one undo takes the edit back')
      nvim.lua([[vim.api.nvim_win_call(vim.fn.bufwinid('cart.py'), function() vim.cmd('silent undo') end)]])
      eq(get_text(nvim, 'cart.py'), support.CART, 'and the next the typing')
      eq(nvim.notices(), {})
    end
  )

  drive('an edit in a saved buffer is saved, so that a command sees it', { setup = FULL }, function(nvim)
    nvim.cmd('edit cart.py')
    nvim.cmd('AgentPrompt edit and see it')
    local output, status = get_output(nvim.wait_for_turn_end())
    eq(status, 'completed')
    assert(output:find('1 - discount / 100', 1, true), output)
    eq({ get_text(nvim, 'cart.py'), support.read(nvim.workspace .. '/cart.py') }, { FIXED, FIXED })
    eq(modified(nvim, 'cart.py'), false)
    nvim.lua([[vim.api.nvim_win_call(vim.fn.bufwinid('cart.py'), function() vim.cmd('silent undo') end)]])
    eq(get_text(nvim, 'cart.py'), support.CART)
  end)

  for _, unsaved in ipairs({ false, true }) do
    local label = unsaved and 'unsaved' or 'saved'
    drive(('the edits of one turn are one undo step: %s'):format(label), { setup = FULL }, function(nvim)
      nvim.cmd('edit cart.py')
      local original = support.CART
      if unsaved then
        nvim.keys('Go# mine<Esc>')
        original = original .. '# mine\n'
      end
      nvim.cmd('AgentPrompt change twice')
      nvim.wait_for_turn_end()
      local changed =
        original:gsub('result %- discount', 'result * (1 - discount / 100)'):gsub('def total', 'def sum_of')
      eq(get_text(nvim, 'cart.py'), changed)
      nvim.lua([[vim.api.nvim_win_call(vim.fn.bufwinid('cart.py'), function() vim.cmd('silent undo') end)]])
      eq(get_text(nvim, 'cart.py'), original)
    end)
  end

  drive('text typed while an approval is open stays', nil, function(nvim)
    nvim.cmd('edit cart.py')
    nvim.cmd('AgentPrompt fix it')
    nvim.wait_for_approval()
    nvim.lua('vim.api.nvim_set_current_win(vim.fn.bufwinid("cart.py"))')
    nvim.keys('Go# typed<Esc>')
    wait('the typing', function()
      return get_text(nvim, 'cart.py') == support.CART .. '# typed\n'
    end)
    nvim.run_twice('AgentApprove')
    nvim.wait_for_turn_end()
    eq(get_text(nvim, 'cart.py'), FIXED .. '# typed\n')
    eq({ modified(nvim, 'cart.py'), support.read(nvim.workspace .. '/cart.py') }, { true, support.CART })
  end)

  drive('an edit of text that the user changed since keeps the change', { setup = FULL }, function(nvim)
    nvim.cmd('edit cart.py')
    nvim.cmd('AgentPrompt read it')
    nvim.wait_for_turn_end()
    nvim.lua('vim.api.nvim_set_current_win(vim.fn.bufwinid("cart.py"))')
    nvim.keys('Go# typed<Esc>')
    wait('the typing', function()
      return get_text(nvim, 'cart.py') == support.CART .. '# typed\n'
    end)
    nvim.cmd('AgentPrompt fix it')
    local output, status = get_output(nvim.wait_for_turn_end(2))
    eq(status, 'completed')
    assert(output:find('had changed since you read it', 1, true) and output:find('+# typed', 1, true), output)
    eq(get_text(nvim, 'cart.py'), FIXED .. '# typed\n')
  end)

  drive('continuous typing loses nothing while the agent edits', { setup = FULL }, function(nvim)
    nvim.cmd('edit cart.py')
    nvim.lua([[
      typed = 0
      timer = vim.uv.new_timer()
      timer:start(0, 3, vim.schedule_wrap(function()
        if typed < 400 then
          typed = typed + 1
          vim.api.nvim_buf_set_lines(vim.fn.bufnr('cart.py'), -1, -1, false, { '# ' .. typed })
        end
      end))
    ]])
    for turn = 1, 3 do
      nvim.cmd('AgentPrompt change twice')
      nvim.wait_for_turn_end(turn)
    end
    wait('the typing', function()
      return nvim.lua('return typed') == 400
    end)
    local lines = vim.split(get_text(nvim, 'cart.py'), '\n')
    local code, typed = {}, 0
    for _, line in ipairs(lines) do
      if line:match('^# %d+$') then
        typed = typed + 1
        eq(line, '# ' .. typed)
      elseif line ~= '' then
        table.insert(code, line)
      end
    end
    eq(typed, 400)
    local final_text = table.concat(code, '\n') .. '\n'
    local renamed = support.CART:gsub('def total', 'def sum_of')
    local fully_changed = FIXED:gsub('def total', 'def sum_of')
    assert(vim.list_contains({ support.CART, FIXED, renamed, fully_changed }, final_text), final_text)
  end)

  local roots = support.home .. '/roots'
  drive('the same path in two folders is distinguished', {
    workspace = roots .. '/first',
    files = { ['cart.py'] = support.CART, ['../second/cart.py'] = support.CART },
    setup = FULL:gsub(
      'settings',
      ('workspace_folders = { %q, %q }, %%0'):format(roots .. '/first', roots .. '/second'),
      1
    ),
  }, function(nvim)
    nvim.cmd('edit ' .. roots .. '/first/cart.py')
    nvim.cmd('edit ' .. roots .. '/second/cart.py')
    nvim.cmd('AgentPrompt change the other')
    local output, status = get_output(nvim.wait_for_turn_end())
    eq(status, 'completed', output)
    eq(get_text(nvim, roots .. '/first/cart.py'), support.CART)
    eq(get_text(nvim, roots .. '/second/cart.py'), FIXED)
    eq(support.read(roots .. '/first/cart.py'), support.CART)
    eq(support.read(roots .. '/second/cart.py'), FIXED)
  end)

  local function utf16(text)
    return '\255\254' .. text:gsub('.', '%0\0')
  end
  local golden = {
    ['plain.txt'] = 'one\nrest\n',
    ['last.txt'] = 'rest\none\n',
    ['crlf.txt'] = 'one\r\nrest\r\n',
    ['mixed.txt'] = 'one\r\nrest\n',
    ['bom.txt'] = '\239\187\191one\n',
    ['noeol.txt'] = 'rest\none',
    ['utf16.txt'] = utf16('one\nrest\n'),
    ['real.txt'] = 'one\n',
  }
  local files = vim.tbl_extend('error', { ['latin1.txt'] = '\252ber one\n' }, golden)
  drive(
    'encoding, line ends, BOM, final line end, mode and link are preserved',
    { setup = FULL, files = files },
    function(nvim)
      local real, link = nvim.workspace .. '/real.txt', nvim.workspace .. '/link.txt'
      assert(vim.uv.fs_chmod(real, tonumber('750', 8)))
      assert(vim.uv.fs_symlink('real.txt', link))
      for name in pairs(files) do
        nvim.cmd('edit ' .. (name == 'real.txt' and 'link.txt' or name))
      end
      nvim.cmd('AgentPrompt golden')
      nvim.wait_for_turn_end()
      for name, original in pairs(golden) do
        local expected = name == 'utf16.txt' and utf16('two\nrest\n') or original:gsub('one', 'two')
        eq(support.read(nvim.workspace .. '/' .. name), expected, name)
      end
      eq(vim.uv.fs_stat(real).mode % 512, tonumber('750', 8))
      eq(vim.uv.fs_lstat(link).type, 'link')
      -- Only the editor knows the encoding. So the buffer is edited, and the user saves it.
      eq(get_text(nvim, 'latin1.txt'), 'über two\n')
      nvim.cmd('silent wall')
      eq(support.read(nvim.workspace .. '/latin1.txt'), '\252ber two\n')
      eq(support.read(nvim.workspace .. '/noeol.txt'):gsub('\n$', ''), 'rest\ntwo')
    end
  )

  drive(
    'a file without a final line end gets one if the edit adds it',
    { setup = FULL, files = { ['a.txt'] = 'one' } },
    function(nvim)
      nvim.cmd('edit a.txt')
      nvim.cmd('AgentPrompt end the line')
      nvim.wait_for_turn_end()
      eq(support.read(nvim.workspace .. '/a.txt'), 'one\ntwo\n')
      eq(nvim.lua('return vim.api.nvim_buf_get_lines(vim.fn.bufnr("a.txt"), 0, -1, false)'), { 'one', 'two' })
    end
  )
end
