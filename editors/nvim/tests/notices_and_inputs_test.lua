-- Warnings hide neither the conversation nor an input, and a text that the user leaves is kept. With the real server,
-- and on a real screen where windows may overlap.

local support = require('tests.support')
local eq, wait = support.eq, support.wait
local show_with = dofile(support.tests_dir .. '/screen.lua')

---A `vim.ui.input` that opens a float at the top, as snacks.nvim and dressing.nvim do.
local FLOATING_INPUT = [[
  vim.ui.input = function(options, done)
    local buffer = vim.api.nvim_create_buf(false, true)
    vim.bo[buffer].buftype = 'nofile'
    vim.api.nvim_buf_set_lines(buffer, 0, -1, false, { options.default or '' })
    local window = vim.api.nvim_open_win(buffer, true, {
      relative = 'editor', row = 1, col = 10, width = vim.o.columns - 14, height = 1,
      border = 'rounded', title = options.prompt:sub(1, 30),
    })
    INPUT = window
    local function close(text)
      vim.cmd('stopinsert')
      vim.api.nvim_win_close(window, true)
      done(text)
    end
    vim.keymap.set('i', '<CR>', function() close(vim.api.nvim_get_current_line()) end, { buffer = buffer })
    vim.keymap.set({ 'i', 'n' }, '<Esc>', function() close(nil) end, { buffer = buffer })
    vim.cmd('startinsert!')
  end
]]

---The configuration of a folder that somebody else wrote, with many settings that need trust.
local CONFIG =
  '[agent.default]\nmode = "full"\n\n[hook.greet]\non = "stop"\ncommand = "echo hi"\n\n[mcp.x]\ncommand = "x"\n'

return function(test, drive)
  local files = { ['cart.py'] = support.CART, ['.agentls/config.toml'] = CONFIG }

  drive('warnings about the configuration are one line and open as a list', { files = files }, function(nvim)
    nvim.cmd('AgentPrompt fix it')
    nvim.wait_for_approval()
    nvim.wait_for_notification('warnings: :AgentProblems · untrusted folder: :AgentTrust')
    local count = 0
    for _, notice in ipairs(nvim.notices()) do
      count = count + (notice.text:find('warning', 1, true) and 1 or 0)
      assert(not notice.text:find('\n', 1, true) and #notice.text < 90, notice.text)
    end
    assert(count <= 2, vim.inspect(nvim.notices()))
    nvim.cmd('AgentProblems')
    local entries = nvim.lua([[
      return vim.tbl_map(function(entry)
        return { vim.fs.basename(vim.fn.bufname(entry.bufnr)), entry.lnum, entry.type, entry.text }
      end, vim.fn.getqflist())
    ]])
    local places = {}
    for _, entry in ipairs(entries) do
      places[('%s:%d %s'):format(entry[1], entry[2], entry[3])] = entry[4]
    end
    assert(
      places['config.toml:4 W'] and places['config.toml:4 W']:find('^hook: ignored'),
      vim.inspect(entries)
    )
    eq(nvim.lua('return vim.bo.buftype'), 'quickfix')
    -- The history has them in full.
    assert(
      table
        .concat(nvim.lua("return require('agentls.notifications').history"), '\n')
        :find('hook: ignored', 1, true)
    )
  end)

  ---Types a text into the input that a key opened, and leaves it.
  local function check_kept_text(nvim)
    local function type_into_input(keys)
      wait('the input', function()
        local mode = nvim.lua('return vim.api.nvim_get_mode().mode')
        return mode == 'c' or mode == 'i'
      end)
      nvim.keys(keys)
    end
    nvim.cmd('AgentPrompt fix it')
    nvim.wait_for_approval()
    nvim.type_keys('<C-w>l<C-w>k')
    nvim.press_twice('n')
    type_into_input('because of the tests<Esc>')
    nvim.wait_for_notification('your text is kept')
    eq(nvim.lua("return require('agentls.notifications').is_holding()"), false)
    eq(nvim.open_approvals(), 1)
    nvim.wait_until_answerable()
    nvim.keys('n')
    type_into_input(' and more<CR>')
    nvim.wait_for_turn_end()
    nvim.see('feedback: because of the tests and more')
  end

  drive('a reason that the user leaves is kept', nil, check_kept_text)
  drive(
    'a reason that the user leaves in a floating input is kept',
    { init = FLOATING_INPUT },
    check_kept_text
  )

  local silent = FLOATING_INPUT:gsub('done%(text%)', 'if text then done(text) end')
  drive(
    'an input that reports nothing when the user leaves it holds no notice',
    { init = silent },
    check_kept_text
  )

  drive('a reason that does not arrive is offered again', nil, function(nvim)
    nvim.cmd('AgentPrompt fix it')
    nvim.wait_for_approval()
    nvim.lua([[
      local client = require('agentls.client')
      local request = client.request
      client.request = function(method, params, callback)
        if method == 'agent/approvalRespond' then
          client.request = request
          return callback({ code = 1, message = 'refused' })
        end
        return request(method, params, callback)
      end
    ]])
    nvim.type_keys('<C-w>l<C-w>k')
    nvim.press_twice('n')
    nvim.answer('a long reason<CR>')
    nvim.wait_for_notification('refused')
    nvim.press_twice('n')
    nvim.answer('<CR>')
    nvim.see('feedback: a long reason')
    nvim.wait_for_turn_end()
  end)

  drive('a steer that the server refuses comes back', nil, function(nvim)
    nvim.cmd('AgentPrompt fix it')
    nvim.wait_for_approval()
    nvim.lua([[
      local client = require('agentls.client')
      local request = client.request
      client.request = function(method, params, callback)
        if method == 'agent/steer' then
          return callback({ code = 1, message = 'refused' })
        end
        return request(method, params, callback)
      end
    ]])
    nvim.cmd('AgentPrompt')
    nvim.type_keys('and shorter<C-s>')
    nvim.wait_for_notification('refused')
    eq(nvim.lines(), { 'and shorter' })
  end)

  if vim.fn.executable('tmux') == 0 then
    io.stdout:write('NOT TESTED: overlapping windows on a real screen; tmux is not installed\n')
    return
  end
  local show = show_with(test)

  for _, size in ipairs({ { 80, 24 }, { 120, 40 } }) do
    show(('no notice covers a floating input at %d columns'):format(size[1]), 'cart.py', function(tui)
      tui.command('AgentPrompt fix it')
      tui.see('a question needs your answer')
      tui.keys('C-w', 'l', 'C-w', 'k')
      tui.keys('n')
      -- It may wrap before or after any word.
      tui.see('asks (medium risk)')
      tui.wait_until_answerable()
      tui.keys('n')
      tui.see('Deny "Edit')
      tui.type('the reason is visible')
      tui.see('the reason is visible')
      for i = 1, 3 do
        tui.lua(([[
          require('agentls.notifications').notify(('warning %d '):rep(20), vim.log.levels.WARN)
        ]]):format(i))
      end
      tui.type(' still')
      tui.see('the reason is visible still')
      eq(tui.read_screen():find('warning 1', 1, true), nil)
      tui.save_screen('floating-input-' .. size[1])
      tui.keys('Enter')
      -- They were only held.
      tui.see('warning 3')
      tui.see('⊘ Edit cart.py')
    end, { columns = size[1], rows = size[2], init = FLOATING_INPUT })

    for _, position in ipairs({ 'right', 'left', 'bottom', 'top' }) do
      if size[1] == 120 or position == 'right' then
        show(
          ('no notice covers the chat %s at %d columns'):format(position, size[1]),
          'cart.py',
          function(tui)
            tui.command('AgentPrompt fix it')
            tui.see('a question needs your answer')
            tui.lua("require('agentls.notifications').notify('one notice', vim.log.levels.WARN)")
            tui.see('one notice')
            tui.save_screen(('notice-%s-%d'):format(position, size[1]))
            eq(
              tui.eval(
                [[luaeval("(function() local covered = 0; for _, float in ipairs(vim.api.nvim_list_wins()) do
              local config = vim.api.nvim_win_get_config(float); if config.relative ~= '' then
              local row, left = unpack(vim.api.nvim_win_get_position(float))
              local bottom = row + config.height + 2; local right = left + config.width + 2
              for _, window in ipairs(vim.api.nvim_list_wins()) do
              if vim.b[vim.api.nvim_win_get_buf(window)].agentls_session then
              local top, column = unpack(vim.api.nvim_win_get_position(window))
              local is_apart = bottom <= top or row >= top + vim.api.nvim_win_get_height(window) + 1
              or right <= column or left >= column + vim.api.nvim_win_get_width(window)
              covered = covered + (is_apart and 0 or 1) end end end end return covered end)()")]]
              ),
              '0'
            )
          end,
          {
            columns = size[1],
            rows = size[2],
            setup = ("{ window = { position = '%s' } }"):format(position),
          }
        )
      end
    end
  end

  show('many warnings leave the conversation visible', 'cart.py', function(tui)
    tui.command('AgentPrompt fix it')
    tui.see(':AgentProblems')
    tui.see('? Edit cart.py')
    tui.see('y allow  n deny')
    tui.save_screen('warnings')
  end, {
    columns = 100,
    rows = 30,
    init = ([[
      vim.fn.mkdir('.agentls', 'p')
      vim.fn.writefile(vim.split(%q, '\n'), '.agentls/config.toml')
    ]]):format(CONFIG),
  })
end
