-- Typing is never consent: text that the user types anywhere answers no question. With a real Neovim, the real server,
-- and keys at the speed of a person.

local support = require('tests.support')
local eq, wait = support.eq, support.wait

local FILES = { ['cart.py'] = support.CART, ['old.txt'] = 'old\n' }

---Each begins with a key that answers something, and contains others.
local SENTENCES = {
  'yes, and say it again',
  'no, not like this',
  'so many names',
  'a new one, and always',
  'easy: see any of these',
  'do all of it, yes',
  '1 2 3 yes',
  '2<CR>1<CR>',
  '<CR>and yes<CR>',
  'nn ss aa yyes',
}

---How long a person takes for a key, in ms. With the slow speed, each key comes after a question could be answered.
local FAST_MS, SLOW_MS = 40, 480

---Types keys one by one.
local function type_slowly(nvim, text, ms)
  local position = 1
  while position <= #text do
    local key = text:match('^<%w+>', position) or text:sub(position, position)
    position = position + #key
    nvim.keys(key)
    -- The pause of a person: the only fixed time in these tests.
    vim.wait(ms)
  end
end

---Each place: how to get there, and whether text is typed into a buffer.
local PLACES = {
  ['the prompt in Insert mode'] = { go = "view.find_prompt(); vim.cmd('startinsert!')", is_insert = true },
  ['the prompt in Normal mode'] = { go = 'view.find_prompt()' },
  ['a file in Insert mode'] = { go = "view.find_file(); vim.cmd('startinsert')", is_insert = true },
  ['a file in Normal mode'] = { go = 'view.find_file()' },
  ['the chat at its top'] = { go = 'view.find_chat(); vim.api.nvim_win_set_cursor(0, { 1, 0 })' },
  ['the chat at its end'] = {
    go = "view.find_chat(); vim.api.nvim_win_set_cursor(0, { vim.fn.line('$'), 0 })",
  },
}

---Goes to a place, whatever was opened in the meantime.
local function go_to_place(nvim, place)
  nvim.keys('<C-\\><C-n><Esc>')
  wait('Normal mode', function()
    return nvim.lua('return vim.fn.getchar(1) == 0 and vim.api.nvim_get_mode().mode') == 'n'
  end)
  nvim.lua(([[
    local sessions, chat_view = require('agentls.sessions'), require('agentls.view')
    vim.cmd('tabonly | silent! only!')
    local window = vim.api.nvim_get_current_win()
    if require('agentls.window').is_session_window(window) then
      vim.cmd('vnew')
      vim.cmd('only!')
    end
    vim.cmd('edit! cart.py')
    local file = vim.api.nvim_get_current_win()
    chat_view.open_chat(sessions.all[SESSION])
    local chat, prompt = chat_view.find_windows()
    local view = {}
    for name, target in pairs({ file = file, chat = chat, prompt = prompt }) do
      view['find_' .. name] = function()
        vim.api.nvim_set_current_win(target)
      end
    end
    chat_view.flush_drawing()
    %s
  ]]):format(place.go))
end

---Returns what was decided: the open questions, and the prompts of the editor that opened.
local function read_decisions(nvim)
  return nvim.lua([[
    local client = require('agentls.client')
    local open = client.request_sync('agent/listApprovals', { sessionId = SESSION }, 10000)
    return { #open.approvals, #(open.questions or {}), #(open.limits or {}), opened }
  ]])
end

---Sends a prompt, and waits for its questions.
local function start(nvim, prompt, count)
  nvim.lua("require('agentls').prompt(...)", prompt)
  wait('the questions', function()
    local state = nvim.state()
    return state and #state.approvals + #state.inquiries == count
  end)
  nvim.lua([[
    SESSION = require('agentls.sessions').get_current().id
    opened = 0
    for _, name in ipairs({ 'select', 'input' }) do
      local ask = vim.ui[name]
      vim.ui[name] = function(...)
        opened = opened + 1
        return ask(...)
      end
    end
  ]])
end

return function(_, drive)
  for name, place in vim.spairs(PLACES) do
    for _, delay_ms in ipairs({ 300, 1000, 5000 }) do
      local label = ('typing in %s %g s after a question decides nothing'):format(name, delay_ms / 1000)
      drive(label, { files = FILES }, function(nvim)
        -- The questions appear while the user is there.
        nvim.cmd('edit cart.py')
        nvim.cmd('AgentPrompt stream')
        nvim.wait_for_turn_end()
        nvim.lua("SESSION = require('agentls.sessions').get_current().id; opened = 0")
        go_to_place(nvim, place)
        start(nvim, 'three at once', 3)
        local expected = read_decisions(nvim)
        eq(expected, { 3, 0, 0, 0 })
        vim.wait(delay_ms)
        -- The first test types them all; the others show that a later start changes nothing.
        for _, sentence in ipairs(vim.list_slice(SENTENCES, 1, delay_ms == 300 and #SENTENCES or 3)) do
          go_to_place(nvim, place)
          if place.is_insert then
            nvim.lua("vim.cmd('startinsert')")
          end
          type_slowly(nvim, sentence, FAST_MS)
          eq(read_decisions(nvim), expected, sentence)
        end
        eq(vim.uv.fs_stat(nvim.workspace .. '/b.txt'), nil)
        eq(support.read(nvim.workspace .. '/old.txt'), 'old\n')
      end)
    end
  end

  for _, name in ipairs({ 'the chat at its top', 'the chat at its end' }) do
    drive(('slow typing in %s decides nothing'):format(name), { files = FILES }, function(nvim)
      start(nvim, 'three at once', 3)
      for _, sentence in ipairs({ 'yes, say', 'know', 'pass', 'back a', 'less' }) do
        go_to_place(nvim, PLACES[name])
        type_slowly(nvim, sentence, SLOW_MS)
        eq(read_decisions(nvim), { 3, 0, 0, 0 }, sentence)
      end
    end)
  end

  drive('typing answers no question of the agent and no limit', nil, function(nvim)
    start(nvim, 'choose one', 1)
    for name, place in vim.spairs(PLACES) do
      for _, sentence in ipairs({ 'yes, and so on', '1<CR>2<CR>', '<CR>2 right<CR>' }) do
        go_to_place(nvim, place)
        type_slowly(nvim, sentence, FAST_MS)
        eq(read_decisions(nvim), { 0, 1, 0, 0 }, name .. ': ' .. sentence)
      end
    end
  end)

  drive('a question moves neither the focus nor the cursor, and leaves Insert mode alone', nil, function(nvim)
    nvim.cmd('edit cart.py')
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    nvim.lua("SESSION = require('agentls.sessions').get_current().id")
    for _, name in ipairs({ 'a file in Insert mode', 'the prompt in Insert mode' }) do
      go_to_place(nvim, PLACES[name])
      nvim.keys('ihere')
      local function read_place()
        return nvim.lua([[
          return { vim.api.nvim_get_current_win(), vim.api.nvim_get_mode().mode, vim.api.nvim_win_get_cursor(0) }
        ]])
      end
      local before = read_place()
      eq(before[2], 'i')
      nvim.lua("require('agentls').prompt('fix it')")
      nvim.wait_for_approval()
      eq(read_place(), before)
      nvim.lua("require('agentls.sessions').cancel_turn(require('agentls.sessions').all[SESSION])")
      wait('the end of the turn', function()
        return not nvim.state().running
      end)
      eq(read_place(), before)
    end
  end)

  drive('what opens late does not take the keys of a user who types', nil, function(nvim)
    nvim.cmd('edit cart.py')
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    nvim.lua([[
      opened = 0
      for _, name in ipairs({ 'select', 'input' }) do
        vim.ui[name] = function() opened = opened + 1 end
      end
      -- The server is slow: each answer waits until the user has typed.
      local client = require('agentls.client')
      local request = client.request
      late = {}
      client.request = function(method, params, callback)
        return request(method, params, function(...)
          local results = { ... }
          table.insert(late, function() callback(unpack(results, 1, 2)) end)
        end)
      end
    ]])
    for _, command in ipairs({
      'AgentModel',
      'AgentTrust',
      'AgentGrants',
      'AgentSessions',
      'AgentAgent',
      'AgentQueue',
      'AgentMcp',
      'AgentExport',
    }) do
      nvim.lua("late = {}; vim.cmd('stopinsert')")
      nvim.cmd(command)
      wait('the answer to ' .. command, function()
        return nvim.lua('return #late') > 0
      end)
      nvim.keys('ix')
      wait('the text', function()
        return nvim.lua('return vim.api.nvim_get_mode().mode') == 'i'
      end)
      local before = nvim.lua('return vim.api.nvim_get_current_win()')
      nvim.lua('for _, answer in ipairs(late) do answer() end')
      eq(nvim.lua('return { vim.api.nvim_get_current_win(), opened }'), { before, 0 }, command)
      nvim.keys('<Esc>')
      wait('Normal mode', function()
        return nvim.lua('return vim.api.nvim_get_mode().mode') == 'n'
      end)
    end
  end)

  for _, command in ipairs({ 'Agent', 'AgentPrompt', 'AgentNew' }) do
    drive((':%s does not take the keys of a user who types on'):format(command), nil, function(nvim)
      nvim.cmd('edit cart.py')
      nvim.cmd(command)
      nvim.keys('ix')
      wait('the chat', function()
        return nvim.lua("return require('agentls.view').find_windows() ~= nil")
      end)
      nvim.keys('y')
      wait('the text', function()
        return nvim.lua("return vim.fn.getbufline('cart.py', 1)[1]"):find('^xydef') ~= nil
      end)
      eq(nvim.lua("return { vim.fn.expand('%:t'), vim.api.nvim_get_mode().mode }"), { 'cart.py', 'i' })
    end)
  end

  drive('a card that appears under the cursor is not answered by one key', { files = FILES }, function(nvim)
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    nvim.cmd('AgentPrompt run it')
    nvim.wait_for_approval()
    nvim.lua("vim.api.nvim_set_current_win((require('agentls.view').find_windows()))")
    -- The user reads the card when the call asks again with other arguments.
    nvim.chat()
    nvim.type_keys('gg/medium risk<CR>')
    nvim.lua([[
      local sessions = require('agentls.sessions')
      local session = sessions.get_current()
      local approval = vim.deepcopy(session.state.approvals[1])
      approval.seq, approval.input, approval.shown = session.state.seq + 1, { command = 'rm -rf .' }, 'rm -rf .'
      approval.sessionId = session.id
      sent = 0
      local client = require('agentls.client')
      local request = client.request
      client.request = function(method, ...)
        sent = sent + (method == 'agent/approvalRespond' and 1 or 0)
        return request(method, ...)
      end
      sessions.handle_notification('agent/approvalRequested', approval)
    ]])
    nvim.wait_until_answerable()
    nvim.type_keys('y')
    nvim.wait_for_notification('y again allows it once')
    eq(nvim.lua('return sent'), 0)
    nvim.wait_until_answerable()
    nvim.type_keys('y')
    wait('the answer', function()
      return nvim.lua('return sent') == 1
    end)
  end)
end
