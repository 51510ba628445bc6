-- What the user typed is never lost, and always goes to the session that the user sees. With a real Neovim and the real
-- server.

local support = require('tests.support')
local eq, wait = support.eq, support.wait

---Counts the sessions that the plugin has open.
local function count_sessions(nvim)
  return nvim.lua("return vim.tbl_count(require('agentls.sessions').all)")
end

---Returns the session that the chat window shows.
local function get_visible_session(nvim)
  return nvim.lua([[
    local view = require('agentls.view')
    local chat = view.find_windows()
    return chat and view.get_session_in(chat).id or ''
  ]])
end

return function(_, drive)
  for _, commands in ipairs({
    { 'AgentPrompt stream first', 'Agent' },
    { 'Agent', 'AgentPrompt stream first' },
    { 'AgentNew', 'AgentPrompt stream first' },
    { 'Agent', 'AgentNew', 'AgentPrompt stream first' },
    { 'AgentPrompt', 'AgentMode full', 'AgentPrompt stream first' },
    { 'AgentQueue stream first', 'Agent' },
    { '1AgentAsk stream first', 'AgentPrompt', 'Agent' },
  }) do
    drive(('one session for: %s'):format(table.concat(commands, ' | ')), nil, function(nvim)
      nvim.cmd('edit cart.py')
      for _, command in ipairs(commands) do
        nvim.cmd(command)
      end
      nvim.see('> stream first')
      nvim.wait_for_turn_end()
      eq(count_sessions(nvim), 1)
      eq(get_visible_session(nvim), nvim.state().sessionId)
    end)
  end

  drive('a new session does not take over one that a prompt waits for', nil, function(nvim)
    nvim.cmd('AgentPrompt stream first')
    nvim.cmd('AgentNew')
    wait('two sessions', function()
      return count_sessions(nvim) == 2
    end)
    eq(#nvim.state().items, 0)
  end)

  drive('a session that cannot be created blocks no later command', nil, function(nvim)
    nvim.lua([[
      local client = require('agentls.client')
      local request = client.request
      client.request = function(method, params, callback)
        if method == 'agent/newSession' then
          client.request = request
          return callback({ code = 1, message = 'refused' })
        end
        return request(method, params, callback)
      end
    ]])
    nvim.cmd('AgentPrompt stream first')
    nvim.wait_for_notification('refused')
    nvim.cmd('AgentPrompt')
    wait('the prompt that was not used', function()
      return nvim.lua('return vim.bo.filetype') == 'agentls_prompt' and nvim.lines()[1] == 'stream first'
    end)
    eq(count_sessions(nvim), 1)
  end)

  for _, has_crashed in ipairs({ true, false }) do
    local label = has_crashed and 'crash' or 'restart'
    drive(('a %s while a session is created loses no prompt'):format(label), nil, function(nvim)
      nvim.lua("require('agentls.client').ensure_ready(function() end)")
      wait('the server', function()
        return nvim.lua("return require('agentls.client').is_ready()")
      end)
      -- A stopped server answers nothing.
      vim.uv.kill(nvim.server().pid, 'sigstop')
      nvim.cmd('AgentPrompt stream first')
      nvim.cmd('AgentPrompt')
      if not has_crashed then
        nvim.lua("require('agentls.client').STOP_MS = 100")
        nvim.cmd('AgentRestart')
      else
        vim.uv.kill(nvim.server().pid, 'sigkill')
      end
      nvim.see('> stream first')
      nvim.wait_for_turn_end()
      eq(count_sessions(nvim), 1)
    end)
  end

  ---Waits until the prompt window shows a text.
  local function wait_for_prompt(nvim, text)
    wait(function()
      return ('the prompt "%s" in %s'):format(text, vim.inspect({ nvim.lines(), nvim.notices() }))
    end, function()
      return nvim.lua('return vim.bo.filetype') == 'agentls_prompt'
        and table.concat(nvim.lines(), '\n') == text
    end)
  end

  ---Opens the chat, and waits for the prompt window.
  local function open_prompt(nvim)
    nvim.cmd('AgentPrompt')
    wait('the prompt window', function()
      return nvim.lua('return vim.bo.filetype') == 'agentls_prompt'
    end)
  end

  ---Runs a second Neovim with the folders of the first one.
  local function restart_neovim(nvim, body)
    nvim.quit()
    local other = support.neovim({ workspace = nvim.workspace, data = nvim.data, files = {} })
    local ok, error_message = xpcall(body, debug.traceback, other)
    if ok then
      return other.quit()
    end
    other.kill()
    error(error_message, 0)
  end

  drive('a draft survives :qa! and is offered once in the next Neovim', nil, function(nvim)
    open_prompt(nvim)
    nvim.type_keys('a long and<CR>important prompt')
    restart_neovim(nvim, function(other)
      open_prompt(other)
      wait_for_prompt(other, 'a long and\nimportant prompt')
      other.wait_for_notification('your unsent prompt is back')
      other.keys('<Esc>')
      other.cmd('AgentNew')
      wait('another session', function()
        return count_sessions(other) == 2
      end)
      wait_for_prompt(other, '')
    end)
  end)

  drive('a draft returns to its session', nil, function(nvim)
    nvim.cmd('AgentPrompt stream first')
    nvim.wait_for_turn_end()
    local id = nvim.state().sessionId
    open_prompt(nvim)
    nvim.type_keys('not sent yet')
    nvim.cmd('stopinsert')
    restart_neovim(nvim, function(other)
      other.lua(
        [[
        local id = ...
        require('agentls.client').ensure_ready(function()
          require('agentls.sessions').load_session(id, function(session)
            require('agentls.view').open_chat(session, { focus = 'prompt' })
          end)
        end)
      ]],
        id
      )
      wait_for_prompt(other, 'not sent yet')
      other.cmd('AgentSend')
      other.see('> not sent yet')
      other.wait_for_turn_end(2)
      restart_neovim(other, function(third)
        open_prompt(third)
        wait_for_prompt(third, '')
      end)
    end)
  end)

  drive('the draft of a running Neovim stays there', nil, function(nvim)
    open_prompt(nvim)
    nvim.type_keys('mine<Esc>')
    -- A draft is on disk while its Neovim runs.
    wait('the file of the draft', function()
      return #vim.fn.glob(support.home .. '/state/nvim/agentls/drafts/*.json', false, true) > 0
    end)
    local other = support.neovim({ workspace = nvim.workspace, data = nvim.data, files = {} })
    open_prompt(other)
    wait_for_prompt(other, '')
    other.quit()
    wait_for_prompt(nvim, 'mine')
  end)

  local deaf = { setup = "{ cmd = { 'sleep', '60' } }" }
  drive('a prompt that waits for the server survives :qa!', deaf, function(nvim)
    nvim.cmd('AgentPrompt stream first')
    restart_neovim(nvim, function(other)
      open_prompt(other)
      wait_for_prompt(other, 'stream first')
    end)
  end)

  drive('a prompt that the server did not accept survives :qa! with the draft', nil, function(nvim)
    nvim.cmd('AgentPrompt stream first')
    nvim.wait_for_turn_end()
    open_prompt(nvim)
    nvim.type_keys('still a draft<Esc>')
    -- A stopped server answers nothing.
    vim.uv.kill(nvim.server().pid, 'sigstop')
    nvim.cmd('AgentPrompt not accepted')
    restart_neovim(nvim, function(other)
      open_prompt(other)
      wait_for_prompt(other, 'not accepted\n\nstill a draft')
    end)
  end)

  drive('closing, deleting, and leaving the prompt window keep the draft', nil, function(nvim)
    open_prompt(nvim)
    nvim.type_keys('keep me<Esc>')
    for _, command in ipairs({ 'quit', 'bdelete', 'bwipeout!', 'AgentNew', 'Agent' }) do
      local id = nvim.state().sessionId
      nvim.cmd(command)
      if command == 'AgentNew' then
        wait('another session', function()
          return count_sessions(nvim) == 2
        end)
        wait_for_prompt(nvim, '')
        nvim.lua(
          [[
          local session = require('agentls.sessions').all[...]
          require('agentls.view').open_chat(session, { focus = 'prompt' })
        ]],
          id
        )
      else
        open_prompt(nvim)
      end
      nvim.type_keys('<Esc>')
      wait_for_prompt(nvim, 'keep me')
    end
  end)

  for _, has_prompt in ipairs({ false, true }) do
    local label = has_prompt and 'a session with a prompt' or 'a session without a prompt'
    drive(('a draft of %s survives a crash of the server'):format(label), nil, function(nvim)
      if has_prompt then
        nvim.cmd('AgentPrompt stream first')
        nvim.wait_for_turn_end()
      end
      open_prompt(nvim)
      nvim.type_keys('stream the rest')
      vim.uv.kill(nvim.server().pid, 'sigkill')
      nvim.wait_for_notification('the server ended unexpectedly')
      wait('another server', function()
        return nvim.lua("return require('agentls.client').is_ready()")
      end)
      nvim.type_keys(' of it')
      wait_for_prompt(nvim, 'stream the rest of it')
      nvim.keys('<C-s>')
      nvim.see('> stream the rest of it')
      nvim.wait_for_turn_end(has_prompt and 2 or 1)
    end)
  end
end
