-- Unusual use: buffers deleted during a turn, files changed from outside, two editors on one session, a server that
-- keeps crashing, commands without a target.

local support = require('tests.support')
local eq, wait = support.eq, support.wait

local FULL = ('{ cmd = { %q }, settings = { agent = { default = { mode = "full" } } } }'):format(
  support.server
)
local FIXED = (support.CART:gsub('result %- discount', 'result * (1 - discount / 100)'))

local function get_text(nvim, name)
  return table.concat(nvim.lua('return vim.fn.getbufline(..., 1, "$")', name), '\n') .. '\n'
end

local function count_windows(nvim)
  return #nvim.lua('return vim.api.nvim_tabpage_list_wins(0)')
end

---Returns the result of the last tool call for the model.
local function get_output(state)
  local last
  for _, item in ipairs(state.items) do
    last = item.kind == 'tool' and item or last
  end
  return assert(last, 'no tool was called').output or '', last.status
end

---Goes to a window of the chat.
local function enter_window(nvim, name)
  nvim.lua(
    [[
    local chat, prompt = require('agentls.view').find_windows()
    vim.api.nvim_set_current_win(... == 'chat' and chat or prompt)
  ]],
    name
  )
end

return function(_, drive)
  for _, command in ipairs({ 'bdelete!', 'bwipeout!', 'bunload!' }) do
    drive(('the chat survives :%s during a turn'):format(command), nil, function(nvim)
      nvim.cmd('AgentPrompt slow')
      nvim.see('It has')
      enter_window(nvim, 'chat')
      nvim.cmd(command)
      enter_window(nvim, 'prompt')
      nvim.cmd(command)
      nvim.wait_for_turn_end()
      nvim.cmd('Agent')
      nvim.see('> slow')
      nvim.see('27 |')
      enter_window(nvim, 'prompt')
      nvim.keys('istream it<C-s>')
      nvim.wait_for_turn_end(2)
      nvim.see('> stream it')
      eq(nvim.notices(), {})
    end)
  end

  drive('the chat survives closed windows and tab pages', nil, function(nvim)
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    nvim.cmd('tabnew')
    nvim.cmd('Agent')
    eq(count_windows(nvim), 3)
    nvim.cmd('AgentPrompt stream more')
    nvim.wait_for_turn_end(2)
    nvim.cmd('tabclose')
    eq(count_windows(nvim), 3)
    enter_window(nvim, 'chat')
    nvim.cmd('only')
    nvim.keys('q')
    wait('an empty window', function()
      return nvim.lua('return vim.bo.filetype') == ''
    end)
    eq(
      nvim.lua(
        'return { vim.wo.winbar, vim.wo.foldmethod, vim.wo.conceallevel, vim.wo.statusline == vim.go.statusline }'
      ),
      { '', 'manual', 0, true }
    )
    nvim.cmd('Agent')
    nvim.see('> stream more')
  end)

  drive('a command without a target says so and starts nothing', nil, function(nvim)
    for command, expected in pairs({
      AgentCancel = 'no turn is running',
      AgentApprove = 'no open approval',
      ['AgentDeny no'] = 'no open approval',
      AgentAnswer = 'no open question',
      AgentDiff = 'there is no diff to show',
      AgentSend = 'no session is open; start one with :Agent',
      AgentResume = 'no session is open',
      ['AgentApprove once more'] = 'with once, session, or always',
      ['AgentApprove ever'] = 'with once, session, or always',
      ['AgentMode everything'] = 'unknown mode `everything`',
    }) do
      nvim.lua('notices = {}')
      nvim.cmd(command)
      nvim.wait_for_notification(expected)
      eq(#nvim.notices(), 1, command)
    end
    eq(count_windows(nvim), 1)
    eq(#support.find_processes(nvim.mark), 1)
    for _, command in ipairs({ 'Agent now', 'AgentCancel now', 'AgentLog now' }) do
      eq(pcall(nvim.cmd, command), false, command)
    end
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    nvim.cmd('AgentResume')
    nvim.wait_for_notification('there is no turn to resume: the last one is complete')
    nvim.cmd('AgentCancel')
    nvim.wait_for_notification('no turn is running')
    nvim.cmd('AgentModel tape/tape hardest')
    nvim.wait_for_notification('hardest')
  end)

  drive('command arguments complete', nil, function(nvim)
    local function get_completions(line)
      return nvim.lua('return vim.fn.getcompletion(..., "cmdline")', line)
    end
    eq(get_completions('AgentMode '), { 'plan', 'ask', 'autoEdit', 'full' })
    eq(get_completions('AgentMode a'), { 'ask', 'autoEdit' })
    eq(get_completions('AgentApprove s'), { 'session' })
    eq(get_completions('AgentModel '), {}, 'no server runs')
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    assert(
      vim.list_contains(get_completions('AgentModel '), 'tape/tape'),
      vim.inspect(get_completions('AgentModel '))
    )
    eq(get_completions('AgentModel tape/tape h'), { 'high' })
  end)

  drive('an edit applies to a buffer that was reloaded', { setup = FULL }, function(nvim)
    nvim.cmd('edit cart.py')
    nvim.cmd('AgentPrompt read it')
    nvim.wait_for_turn_end()
    nvim.lua('vim.api.nvim_set_current_win(vim.fn.bufwinid("cart.py"))')
    nvim.keys('Go# mine<Esc>')
    wait('the typing', function()
      return get_text(nvim, 'cart.py') == support.CART .. '# mine\n'
    end)
    nvim.cmd('edit!')
    eq(get_text(nvim, 'cart.py'), support.CART)
    nvim.cmd('AgentPrompt change twice')
    nvim.wait_for_turn_end(2)
    local fully_changed = FIXED:gsub('def total', 'def sum_of')
    eq(
      { get_text(nvim, 'cart.py'), support.read(nvim.workspace .. '/cart.py') },
      { fully_changed, fully_changed }
    )
  end)

  drive('a non-modifiable buffer is not edited, and the agent learns why', { setup = FULL }, function(nvim)
    nvim.cmd('edit cart.py')
    nvim.cmd('setlocal nomodifiable')
    nvim.cmd('AgentPrompt fix it')
    local output, status = get_output(nvim.wait_for_turn_end())
    eq(status, 'failed')
    assert(output:find('cart.py is not modifiable in the editor', 1, true), output)
    eq(
      { get_text(nvim, 'cart.py'), support.read(nvim.workspace .. '/cart.py') },
      { support.CART, support.CART }
    )
  end)

  drive(
    'a read-only buffer is edited but not saved, and the agent learns why',
    { setup = FULL },
    function(nvim)
      nvim.cmd('edit cart.py')
      nvim.cmd('setlocal readonly')
      nvim.cmd('AgentPrompt fix it')
      local output = get_output(nvim.wait_for_turn_end())
      assert(output:find('read-only', 1, true), output)
      eq({ get_text(nvim, 'cart.py'), support.read(nvim.workspace .. '/cart.py') }, { FIXED, support.CART })
    end
  )

  for _, unsaved in ipairs({ false, true }) do
    local outcome = unsaved and 'what is unsaved here stays, and is not saved over it' or 'it is taken in'
    drive('a file changed outside Neovim: ' .. outcome, { setup = FULL }, function(nvim)
      nvim.cmd('edit cart.py')
      if unsaved then
        nvim.keys('Go# mine<Esc>')
        wait('the typing', function()
          return get_text(nvim, 'cart.py') == support.CART .. '# mine\n'
        end)
      end
      nvim.cmd('AgentPrompt stream')
      nvim.wait_for_turn_end()
      support.write(nvim.workspace .. '/cart.py', support.CART .. '# outside\n')
      nvim.cmd('AgentPrompt fix it')
      local output = get_output(nvim.wait_for_turn_end(2))
      local disk = support.read(nvim.workspace .. '/cart.py')
      if unsaved then
        eq({ get_text(nvim, 'cart.py'), disk }, { FIXED .. '# mine\n', support.CART .. '# outside\n' })
        assert(output:find('the file on disk and commands do not have this edit yet', 1, true), output)
      else
        eq({ get_text(nvim, 'cart.py'), disk }, { FIXED .. '# outside\n', FIXED .. '# outside\n' })
      end
      eq(nvim.notices(), {})
    end)
  end

  local crashing = support.home .. '/crashing'
  support.write(
    crashing,
    [[#!/usr/bin/env python3
import json, sys
while True:
    length = 0
    while (line := sys.stdin.readline().strip()):
        length = int(line.split(':')[1])
    if not length: break
    request = json.loads(sys.stdin.read(length))
    if request.get('method') == 'initialized': sys.exit(3)
    if 'id' in request:
        agent = {'protocolVersion': {'major': 1, 'minor': 0}, 'methods': [], 'notifications': [], 'features': []}
        result = {'capabilities': {'experimental': {'agent': agent}}}
        body = json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'result': result})
        sys.stdout.write('Content-Length: %d\r\n\r\n%s' % (len(body), body)); sys.stdout.flush()
]]
  )
  vim.uv.fs_chmod(crashing, 493)
  drive(
    'a server that keeps crashing is restarted three times only',
    { setup = ('{ cmd = { %q } }'):format(crashing) },
    function(nvim)
      nvim.cmd('AgentPrompt hello')
      nvim.wait_for_notification('4 times in 2 minutes; not restarting it')
      local restart_count = 0
      for _, notice in ipairs(nvim.notices()) do
        restart_count = restart_count + (notice.text:find('); restarting it', 1, true) and 1 or 0)
      end
      eq(restart_count, 3)
      wait('only Neovim', function()
        return #support.find_processes(nvim.mark) == 1
      end)
      -- A command starts the server again, but only once.
      nvim.lua('notices = {}')
      nvim.cmd('AgentPrompt hello')
      nvim.wait_for_notification('not restarting it')
      eq(#support.find_processes(nvim.mark), 1)
    end
  )

  drive(
    'a process that does not answer is reported',
    { setup = "{ cmd = { 'sleep', '1000' } }" },
    function(nvim)
      nvim.lua("require('agentls.client').START_MS = 300")
      nvim.cmd('AgentPrompt hello')
      nvim.wait_for_notification('`sleep 1000` does not answer')
      eq(#nvim.notices(), 1)
      wait('its end', function()
        return #support.find_processes(nvim.mark) == 1
      end)
    end
  )

  drive('a session open in another Neovim can be opened read-only', nil, function(nvim)
    nvim.cmd('AgentPrompt stream this')
    nvim.wait_for_turn_end()
    local other = support.neovim({ workspace = nvim.workspace, data = nvim.data })
    other.lua([[
      prompts = {}
      vim.ui.select = function(items, options, choose)
        table.insert(prompts, options.prompt)
        for i, item in ipairs(items) do
          local label = options.format_item and options.format_item(item) or item
          if label:find('stream this', 1, true) or label:find('Open it read-only', 1, true) then
            return choose(item, i)
          end
        end
      end
    ]])
    other.cmd('AgentSessions')
    other.see('Grüße: one two three')
    local prompts = other.lua('return prompts')
    assert(prompts[2]:find('The session is open in another server', 1, true), vim.inspect(prompts))
    local bar = other.lua([[
      local chat = require('agentls.view').find_windows()
      return vim.api.nvim_eval_statusline(vim.wo[chat].winbar, { winid = chat, use_winbar = true }).str
    ]])
    assert(bar:find('read-only', 1, true), bar)
    other.cmd('AgentPrompt and mine')
    other.wait_for_notification('this session is read-only here, because another server had it open')
    for _, command in ipairs({
      'AgentMode full',
      'AgentModel tape/tape',
      'AgentResume',
      'AgentCancel',
      'AgentCompact',
    }) do
      other.lua('notices = {}')
      other.cmd(command)
      other.wait_for_notification('read-only here')
    end
    -- The Neovim that has the session continues undisturbed.
    nvim.cmd('AgentPrompt stream more')
    nvim.wait_for_turn_end(2)
    nvim.quit()
    -- After its end, the other one can load the session.
    other.lua('prompts = {}')
    other.cmd('AgentSessions')
    other.see('> stream more')
    eq(other.lua('return #prompts'), 1)
    other.cmd('AgentPrompt stream on')
    other.wait_for_turn_end(3)
    other.quit()
  end)
end
