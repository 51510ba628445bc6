-- Other input than prompts, with the real server: queued prompts, answers to questions, named agents, slash commands,
-- instruction files.

local support = require('tests.support')
local eq, wait = support.eq, support.wait

local FREE = ('{ cmd = { %q }, settings = { agent = { default = { mode = "full" } } } }'):format(
  support.server
)

---Starts a turn that runs until the file `gate` exists.
local function start_gated_turn(nvim)
  nvim.cmd('AgentPrompt until the gate')
  wait('the command', function()
    local state = nvim.state()
    local call = state and state.items[#state.items]
    return call and call.kind == 'tool' and call.status == 'running'
  end)
end

---Waits until exactly these prompts are queued.
local function wait_for_queue(nvim, ...)
  local texts = { ... }
  wait(function()
    return ('%s waiting: %s'):format(vim.inspect(texts), vim.inspect((nvim.state() or {}).queue))
  end, function()
    local queue = nvim.state().queue
    return vim.deep_equal(
      vim.tbl_map(function(prompt)
        return prompt.text
      end, queue and queue.prompts or {}),
      texts
    )
  end)
end

---Waits for a question from the agent.
local function wait_for_question(nvim)
  return wait(function()
    return 'the question in:\n' .. nvim.chat()
  end, function()
    local state = nvim.state()
    return state and state.inquiries[1]
  end)
end

return function(_, drive)
  drive('queued prompts can be edited and removed, and run in order', {
    setup = FREE,
  }, function(nvim)
    start_gated_turn(nvim)
    nvim.cmd('AgentQueue stream the first')
    wait_for_queue(nvim, 'stream the first')
    nvim.wait_for_virtual_text('⧗ queued: stream the first · Q')
    -- From the prompt window, by key.
    nvim.keys('<C-w>l<C-w>jistream the second<C-q>')
    wait_for_queue(nvim, 'stream the first', 'stream the second')
    eq(nvim.lines(), { '' })
    nvim.keys('<Esc>')
    nvim.cmd('AgentQueue out with this')
    wait_for_queue(nvim, 'stream the first', 'stream the second', 'out with this')
    assert(nvim.lua("return require('agentls').statusline()"):find('3 queued', 1, true))
    nvim.stub_select('out with this', 'Remove')
    nvim.keys('<C-w>kQ')
    wait_for_queue(nvim, 'stream the first', 'stream the second')
    eq(nvim.wait_for_select(2)[2].labels, { 'Send to the running turn', 'Edit', 'Remove' })
    nvim.stub_select('the second', 'Edit')
    nvim.cmd('AgentQueue')
    wait('the prompt to edit', function()
      return nvim.lines()[1] == 'stream the second'
    end)
    nvim.keys(':s/second/third/<CR>:w<CR>')
    wait_for_queue(nvim, 'stream the first', 'stream the third')
    -- The edit of a prompt that was sent meanwhile comes back to the user.
    nvim.cmd('AgentQueue stream what goes')
    wait_for_queue(nvim, 'stream the first', 'stream the third', 'stream what goes')
    nvim.stub_select('what goes', 'Edit')
    nvim.cmd('AgentQueue')
    wait('the prompt to edit', function()
      return nvim.lines()[1] == 'stream what goes'
    end)
    nvim.lua([[
      local session = require('agentls.sessions').get_current()
      require('agentls.sessions').request('agent/queue', {
        sessionId = session.id,
        action = 'remove',
        promptId = session.state.queue.prompts[3].promptId,
      })
    ]])
    wait_for_queue(nvim, 'stream the first', 'stream the third')
    nvim.keys('cckept words<Esc>:w<CR>')
    wait('the words in the prompt', function()
      return vim.deep_equal(
        nvim.lua([[
          local session = require('agentls.sessions').get_current()
          return vim.api.nvim_buf_get_lines(require('agentls.view').get_prompt_buffer(session), 0, -1, false)
        ]]),
        { 'kept words' }
      )
    end)
    support.write(nvim.workspace .. '/gate', '')
    local state = nvim.wait_for_turn_end(3)
    eq(state.queue, nil)
    local prompts = {}
    for _, item in ipairs(state.items) do
      table.insert(prompts, item.kind == 'user' and item.text or nil)
    end
    eq(prompts, { 'until the gate', 'stream the first', 'stream the third' })
    eq(nvim.virtual():find('queued', 1, true), nil)
    nvim.cmd('AgentQueue')
    nvim.wait_for_notification('the queue is empty')
  end)

  drive('a cancel pauses the queue until a prompt is sent from it', {
    setup = FREE,
  }, function(nvim)
    start_gated_turn(nvim)
    nvim.cmd('AgentQueue stream later')
    nvim.cmd('AgentQueue stream last')
    wait_for_queue(nvim, 'stream later', 'stream last')
    nvim.cmd('AgentCancel')
    nvim.wait_for_turn_end()
    nvim.wait_for_virtual_text('⧗ queued (paused): stream later')
    assert(nvim.lua("return require('agentls').statusline()"):find('2 paused', 1, true))
    -- A crash also pauses the queue.
    vim.uv.kill(nvim.server().pid, 'sigkill')
    nvim.wait_for_notification('restarting it')
    wait('the session again', function()
      return nvim.state() and not nvim.state().offline
    end)
    wait_for_queue(nvim, 'stream later', 'stream last')
    nvim.wait_for_virtual_text('⧗ queued (paused): stream later')
    nvim.stub_select('resume the queue')
    nvim.cmd('AgentQueue')
    eq(nvim.wait_for_select()[1].prompt, 'Queued prompts (paused)')
    local state = nvim.wait_for_turn_end(3)
    eq(state.queue, nil)
    start_gated_turn(nvim)
    nvim.cmd('AgentQueue mind the gap')
    wait_for_queue(nvim, 'mind the gap')
    nvim.stub_select('mind the gap', 'Send to the running turn')
    nvim.cmd('AgentQueue')
    wait_for_queue(nvim)
    support.write(nvim.workspace .. '/gate', '')
    nvim.wait_for_turn_end(4)
    nvim.see('> ↪ mind the gap')
  end)

  drive('after a crash an unaccepted prompt comes back and an accepted one stays queued', {
    setup = FREE,
  }, function(nvim)
    start_gated_turn(nvim)
    nvim.cmd('AgentQueue it has\tarrived')
    wait_for_queue(nvim, 'it has arrived')
    local server = nvim.server().pid
    vim.uv.kill(server, 'sigstop')
    nvim.lua([[
      local session = require('agentls.sessions').get_current()
      -- The response to this prompt is lost with the server, but not the prompt.
      table.insert(session.unsent, { prompt = 'it has\tarrived', is_queued = true })
    ]])
    nvim.cmd('AgentQueue it never arrives')
    vim.uv.kill(server, 'sigkill')
    nvim.wait_for_notification('restarting it')
    wait('the words in the prompt', function()
      return vim.deep_equal(
        nvim.lua([[
          local session = require('agentls.sessions').get_current()
          return vim.api.nvim_buf_get_lines(require('agentls.view').get_prompt_buffer(session), 0, -1, false)
        ]]),
        { 'it never arrives' }
      )
    end)
    wait_for_queue(nvim, 'it has arrived')
  end)

  drive('a prompt that cannot be queued comes back', { setup = FREE }, function(nvim)
    start_gated_turn(nvim)
    for number = 1, 100 do
      nvim.cmd('AgentQueue number ' .. number)
    end
    nvim.cmd('AgentQueue one too many')
    nvim.wait_for_notification('the queue is full')
    wait('the words in the prompt', function()
      return vim.deep_equal(
        nvim.lua([[
          local session = require('agentls.sessions').get_current()
          return vim.api.nvim_buf_get_lines(require('agentls.view').get_prompt_buffer(session), 0, -1, false)
        ]]),
        { 'one too many' }
      )
    end)
    nvim.wait_for_virtual_text('and 97 more')
    nvim.cmd('AgentCancel')
    nvim.wait_for_turn_end()
  end)

  drive('a question takes one choice, several choices, another value, and free text', {
    setup = FREE,
  }, function(nvim)
    nvim.cmd('AgentPrompt choose one')
    wait_for_question(nvim)
    nvim.see('? Which way?\n  Both are good.')
    nvim.wait_for_virtual_text('<CR> answer')
    nvim.type_keys('<C-w>l<C-w>k')
    nvim.press_twice('<CR>')
    nvim.answer('2<CR>')
    nvim.wait_for_turn_end()
    nvim.see('✓ Which way?\n  Both are good.\n  → right')
    nvim.see('Chosen.')
    nvim.cmd('AgentPrompt choose some')
    wait_for_question(nvim)
    nvim.stub_select('ants', 'cats', 'Done: ants, cats')
    nvim.run_twice('AgentAnswer')
    nvim.wait_for_turn_end(2)
    nvim.see('  → ants, cats')
    eq(nvim.wait_for_select(3)[1].labels, { 'ants', 'bees', 'cats', 'Something else …' })
    nvim.cmd('AgentPrompt choose one')
    wait_for_question(nvim)
    nvim.stub_select('Something else')
    nvim.lua("vim.ui.input = function(_, on_confirm) on_confirm('straight on') end")
    nvim.run_twice('AgentAnswer')
    nvim.wait_for_turn_end(3)
    nvim.see('  → straight on')
    nvim.cmd('AgentPrompt ask for a name')
    wait_for_question(nvim)
    nvim.lua("vim.ui.input = function(options, on_confirm) prompt = options.prompt on_confirm('Ada') end")
    nvim.run_twice('AgentAnswer')
    nvim.wait_for_turn_end(4)
    eq(nvim.lua('return prompt'), 'What is its name? ')
    nvim.see('  → Ada')
    nvim.see('It is named.')
    nvim.cmd('AgentPrompt ask for a name')
    wait_for_question(nvim)
    nvim.run_twice('AgentAnswer!')
    nvim.wait_for_turn_end(5)
    nvim.see('  → not answered')
  end)

  drive('an open question blocks nothing, and a cancel resolves it', { setup = FREE }, function(nvim)
    nvim.cmd('AgentPrompt choose one')
    wait_for_question(nvim)
    nvim.stub_select()
    nvim.run_twice('AgentAnswer')
    nvim.wait_for_select()
    eq(#nvim.state().inquiries, 1)
    nvim.cmd('AgentCancel')
    nvim.wait_for_turn_end()
    eq(nvim.state().inquiries, {})
    nvim.see('  → not answered')
  end)

  drive("the agent can read the editor's diagnostics", { setup = FREE }, function(nvim)
    nvim.cmd('edit cart.py')
    nvim.lua([[
      local found = { lnum = 3, col = 11, end_col = 17, message = 'it may be below zero', source = 'a linter' }
      vim.diagnostic.set(vim.api.nvim_create_namespace('of a test'), 0, { found })
    ]])
    nvim.cmd('AgentPrompt what is wrong')
    local state = nvim.wait_for_turn_end()
    nvim.see('That is wrong.')
    local call = vim.iter(state.items):find(function(item)
      return item.kind == 'tool'
    end)
    assert(
      call.output:find('cart.py:4', 1, true) and call.output:find('it may be below zero', 1, true),
      call.output
    )
  end)

  drive('a session starts with a named agent, which the bar shows', nil, function(nvim)
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    local first = nvim.state().sessionId
    nvim.stub_select('reader')
    nvim.cmd('AgentAgent')
    wait('another session', function()
      return nvim.state().sessionId ~= first
    end)
    local labels = nvim.wait_for_select()[1].labels
    assert(labels[1]:find('● default', 1, true), vim.inspect(labels))
    assert(
      labels[3]:find('reader · plan · tape · Looks, and changes nothing', 1, true),
      vim.inspect(labels)
    )
    eq(nvim.state().mode, 'plan')
    local function get_bar()
      return nvim.lua([[
        local view = require('agentls.view')
        vim.g.statusline_winid = view.find_windows()
        local bar = view.render_winbar()
        vim.g.statusline_winid = nil
        return bar
      ]])
    end
    assert(get_bar():find('reader', 1, true), get_bar())
    nvim.cmd('AgentPrompt stream again')
    nvim.wait_for_turn_end()
    nvim.cmd('AgentAgent readr')
    nvim.wait_for_notification('readr')
    eq(nvim.lua("return vim.fn.getcompletion('AgentAgent r', 'cmdline')"), { 'reader' })
    -- It is also known after a load.
    local second = nvim.state().sessionId
    local reopened = support.neovim({ workspace = nvim.workspace, data = nvim.data })
    nvim.quit()
    reopened.stub_select('stream again')
    reopened.cmd('AgentSessions')
    wait('the session', function()
      return reopened.state() and reopened.state().sessionId == second
    end)
    wait('its agent', function()
      return reopened.lua("return require('agentls.sessions').get_current().agent") == 'reader'
    end)
    reopened.quit()
  end)

  drive('slash commands complete while typing, and are sent', {
    files = {
      ['.agentls/commands/look.md'] = '---\ndescription: Looks\nargument-hint: [file]\n---\nLook at the file $1.\n',
      ['.agentls/commands/lock.md'] = '---\ndescription: Locks\n---\nLock it.\n',
      ['.agentls/commands/void.md'] = '---\ndescription: x\n---\n',
    },
  }, function(nvim)
    nvim.keys(':Agent<CR>')
    wait('the prompt', function()
      return nvim.lua('return vim.bo.filetype') == 'agentls_prompt'
    end)
    ---Returns the entries of the menu.
    local function wait_for_menu(expected)
      wait(function()
        return 'the menu: ' .. vim.inspect(nvim.lua("return vim.fn.complete_info({ 'items', 'mode' })"))
      end, function()
        local items =
          nvim.lua("return vim.fn.pumvisible() == 1 and vim.fn.complete_info({ 'items' }).items or {}")
        return vim.deep_equal(
          vim.tbl_map(function(item)
            return ('%s %s'):format(item.abbr, item.menu)
          end, items),
          expected
        )
      end)
    end
    nvim.keys('i/')
    wait_for_menu({ '/lock Locks', '/look [file] Looks', '/void not usable: it is empty' })
    nvim.keys('loo')
    wait('the name alone', function()
      return nvim.lines()[1] == '/loo'
    end)
    nvim.keys('<C-y>')
    wait('the whole name', function()
      return nvim.lines()[1] == '/look'
    end)
    nvim.keys(' cart.py<C-s>')
    nvim.see('> Look at the file cart.py.')
    nvim.wait_for_turn_end()
    nvim.see('I looked at it.')
    -- A path is not a slash command. An unusable command is reported and comes back.
    nvim.keys('<Esc>isee /')
    nvim.type_keys('')
    eq(nvim.lua('return vim.fn.pumvisible()'), 0)
    nvim.keys('<Esc>cca line<CR>/lo')
    nvim.type_keys('')
    eq({ nvim.lines()[2], nvim.lua('return vim.fn.pumvisible()') }, { '/lo', 0 })
    nvim.keys('<Esc>ggdGi/void now<C-s>')
    nvim.wait_for_notification('the command /void cannot be used')
    wait('the words again', function()
      return nvim.lines()[1] == '/void now'
    end)
    nvim.keys('<Esc>')
    eq(nvim.lua("return vim.fn.getcompletion('AgentPrompt /loo', 'cmdline')"), { '/look' })
  end)

  drive(':checkhealth lists agents, commands and instructions', {
    files = {
      ['AGENTS.md'] = 'Be brief.\n',
      ['.agentls/commands/look.md'] = 'Look.\n',
      ['.agentls/commands/void.md'] = '---\ndescription: x\n---\n',
    },
  }, function(nvim)
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    nvim.cmd('checkhealth agentls')
    local report = table.concat(nvim.lines(), '\n')
    for _, expected in ipairs({
      'agents: default (in this session), explore, reader',
      'slash commands: /look',
      'void.md: it is empty',
      'instructions: AGENTS.md loaded',
    }) do
      assert(report:find(expected, 1, true), ('"%s" is not in:\n%s'):format(expected, report))
    end
  end)

  drive('the chat shows the loaded instructions and their changes', {
    files = {
      ['AGENTS.md'] = 'Be brief.\n',
      ['.agentls/skills/ship/SKILL.md'] = '---\nname: ship\ndescription: Ships it\n---\nShip.\n',
    },
  }, function(nvim)
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    nvim.see('· AGENTS.md, 1 skill loaded ⋯ 2 lines')
    nvim.see('/AGENTS.md')
    nvim.keys('<C-w>l<C-w>kgg/SKILL<CR>zoo')
    wait('the file', function()
      return nvim.lines()[1] == '---'
    end)
    eq(nvim.lua('return vim.fn.expand("%:t")'), 'SKILL.md')
    support.write(nvim.workspace .. '/AGENTS.md', 'Be long.\n')
    nvim.cmd('AgentPrompt stream again')
    nvim.wait_for_turn_end(2)
    nvim.see('! ')
    local warning = vim.iter(nvim.state().items):find(function(item)
      return item.kind == 'warning' and item.code == 'instructions_changed'
    end)
    assert(warning and warning.message:find('AGENTS.md', 1, true), vim.inspect(warning))
    vim.uv.fs_unlink(nvim.workspace .. '/AGENTS.md')
    vim.fn.delete(nvim.workspace .. '/.agentls', 'rf')
    nvim.cmd('AgentPrompt stream once more')
    nvim.wait_for_turn_end(3)
    nvim.see('· all instructions removed')
  end)
end
