-- An answer goes to the question that the user sees. With a real Neovim and the real server.

local support = require('tests.support')
local eq, wait = support.eq, support.wait

local FILES = { ['cart.py'] = support.CART, ['old.txt'] = 'old\n' }

---Returns the open questions of the current session, oldest first.
local function list_open_titles(nvim)
  return nvim.lua([[
    local session = require('agentls.sessions').get_current()
    local open = session and require('agentls.questions').list_open(session) or {}
    return vim.tbl_map(function(question) return question.item.title end, open)
  ]])
end

local function wait_for_questions(nvim, count)
  return wait(function()
    return ('%d questions in:\n%s'):format(count, nvim.chat())
  end, function()
    local titles = list_open_titles(nvim)
    return #titles == count and titles
  end)
end

---Moves the cursor of the chat to the line that contains `text`, as a search does.
local function go_to(nvim, text)
  nvim.chat()
  nvim.type_keys(('gg/%s<CR>'):format(vim.fn.escape(text, '/')))
  assert(nvim.lua('return vim.api.nvim_get_current_line()'):find(text, 1, true), text)
end

---Returns the title of the card under the chat's cursor.
local function get_card_title(nvim)
  return nvim.lua([[
    local view = require('agentls.view')
    view.flush_drawing()
    local item = view.find_card_at_cursor((view.find_windows()))
    return item and item.title or ''
  ]])
end

local function enter_chat(nvim)
  nvim.lua("vim.api.nvim_set_current_win((require('agentls.view').find_windows()))")
end

local function file_exists(nvim, name)
  return vim.uv.fs_stat(nvim.workspace .. '/' .. name) ~= nil
end

---Returns the open approvals of all sessions from the server.
local function open_everywhere(nvim)
  return nvim.lua([[
    local open = require('agentls.client').request_sync('agent/listApprovals', vim.empty_dict(), 10000)
    return #open.approvals
  ]])
end

return function(_, drive)
  drive('a key answers only the question under the cursor', { files = FILES }, function(nvim)
    -- Another session has an open question throughout.
    nvim.cmd('AgentPrompt write elsewhere')
    nvim.wait_for_approval()
    local hidden = nvim.state().sessionId
    nvim.cmd('AgentNew')
    wait('another session', function()
      return nvim.state().sessionId ~= hidden
    end)
    nvim.cmd('AgentPrompt three at once')
    wait_for_questions(nvim, 3)
    enter_chat(nvim)
    -- The first press shows the oldest question, centered, and says what it asks.
    nvim.type_keys('Gy')
    nvim.wait_for_notification('y again allows it once')
    eq(open_everywhere(nvim), 4)
    eq(list_open_titles(nvim), { 'Edit cart.py', 'Write b.txt', 'rm -f old.txt' })
    eq(get_card_title(nvim), 'Edit cart.py')
    local rows = nvim.lua([[
      vim.cmd('redraw')
      return { vim.fn.line('w0'), vim.fn.line('.'), vim.fn.line('w$') }
    ]])
    assert(rows[1] < rows[2] and rows[2] < rows[3], vim.inspect(rows))
    -- The user moves to the command and denies it.
    go_to(nvim, 'rm -f old.txt')
    nvim.wait_until_answerable()
    nvim.keys('n')
    nvim.answer('keep it<CR>')
    nvim.wait_for_notification('denied: rm -f old.txt')
    wait_for_questions(nvim, 2)
    eq(vim.list_contains(list_open_titles(nvim), 'rm -f old.txt'), false)
    -- The cursor was on it, so it moves to the next question, which needs another press.
    eq(get_card_title(nvim), list_open_titles(nvim)[1])
    go_to(nvim, 'Write b.txt')
    nvim.wait_until_answerable()
    nvim.keys('y')
    nvim.wait_for_notification('allowed once: Write b.txt · next: Edit cart.py')
    eq(wait_for_questions(nvim, 1), { 'Edit cart.py' })
    eq(get_card_title(nvim), 'Edit cart.py')
    nvim.wait_until_answerable()
    nvim.keys('y')
    nvim.wait_for_notification('allowed once: Edit cart.py')
    nvim.wait_for_turn_end()
    nvim.see('Three were answered.')
    eq({ file_exists(nvim, 'b.txt'), file_exists(nvim, 'old.txt') }, { true, true })
    -- The rest of a burst of keys has no effect.
    nvim.type_keys('yaysy<Esc>')
    nvim.wait_for_notification('another session asks: Write hidden.txt')
    eq({ open_everywhere(nvim), file_exists(nvim, 'hidden.txt') }, { 1, false })
    assert(support.read(nvim.workspace .. '/cart.py'):find('1 - discount', 1, true))
  end)

  drive('a key that comes too soon or is held down does not answer', { files = FILES }, function(nvim)
    nvim.cmd('AgentPrompt three at once')
    wait_for_questions(nvim, 3)
    enter_chat(nvim)
    nvim.type_keys('Gyyyyyyyy')
    nvim.type_keys('aaaa')
    nvim.type_keys('ssss')
    eq({ open_everywhere(nvim), #list_open_titles(nvim) }, { 3, 3 })
    -- A key typed together with the motion to the card does not answer either.
    nvim.wait_until_answerable()
    nvim.type_keys('gg/Write b<CR>y')
    eq(open_everywhere(nvim), 3)
    nvim.wait_until_answerable()
    nvim.keys('y')
    nvim.wait_for_notification('allowed once: Write b.txt')
    eq(#wait_for_questions(nvim, 2), 2)
  end)

  drive('a chat without questions does not answer those of a hidden session', nil, function(nvim)
    nvim.cmd('AgentPrompt write elsewhere')
    nvim.wait_for_approval()
    local hidden = nvim.state().sessionId
    nvim.cmd('AgentNew')
    wait('another session', function()
      return nvim.state().sessionId ~= hidden
    end)
    enter_chat(nvim)
    for _, key in ipairs({ 'a', 'y', 's', 'a', 'n', 'e' }) do
      nvim.type_keys(key .. '<Esc>')
      eq(open_everywhere(nvim), 1, key)
    end
    nvim.wait_for_notification('another session asks: Write hidden.txt · :AgentSessions shows it')
    for _, command in ipairs({ 'AgentApprove', 'AgentApprove always', 'AgentDeny!', 'AgentAnswer!' }) do
      nvim.lua('notices = {}')
      nvim.cmd(command)
      nvim.wait_for_notification('another session asks: Write hidden.txt')
      nvim.cmd(command)
    end
    eq({ open_everywhere(nvim), file_exists(nvim, 'hidden.txt') }, { 1, false })
    -- The list of sessions marks that session.
    nvim.stub_select('? needs your answer')
    nvim.cmd('AgentSessions')
    wait('the session', function()
      return nvim.state().sessionId == hidden
    end)
    enter_chat(nvim)
    nvim.press_twice('y')
    nvim.wait_for_notification('allowed once: Write hidden.txt')
    nvim.wait_for_turn_end()
    eq(file_exists(nvim, 'hidden.txt'), true)
  end)

  drive(
    'a command in another window shows the question first, then answers it',
    { files = FILES },
    function(nvim)
      nvim.cmd('edit cart.py')
      nvim.lua("require('agentls').prompt('three at once')")
      wait_for_questions(nvim, 3)
      eq(nvim.lua('return #vim.api.nvim_tabpage_list_wins(0)'), 1)
      nvim.cmd('AgentApprove')
      nvim.wait_for_notification(':AgentApprove again allows it')
      eq({ open_everywhere(nvim), nvim.lua('return vim.bo.filetype') }, { 3, 'python' })
      local title = get_card_title(nvim)
      eq(title, list_open_titles(nvim)[1])
      -- An immediate repetition is too soon.
      nvim.cmd('AgentApprove')
      eq(open_everywhere(nvim), 3)
      nvim.wait_until_answerable()
      nvim.cmd('AgentApprove')
      nvim.wait_for_notification('allowed once: ' .. title)
      eq(#wait_for_questions(nvim, 2), 2)
      eq(nvim.lua('return vim.bo.filetype'), 'python')
      -- The cursor moved to this card by itself, so it was not announced yet.
      enter_chat(nvim)
      go_to(nvim, 'rm -f old.txt')
      nvim.wait_until_answerable()
      nvim.cmd('wincmd t')
      nvim.lua('notices = {}')
      nvim.cmd('AgentDeny!')
      nvim.wait_for_notification(':AgentDeny again denies it')
      eq(#list_open_titles(nvim), 2)
      nvim.wait_until_answerable()
      nvim.cmd('AgentDeny!')
      nvim.wait_for_notification('denied: rm -f old.txt')
    end
  )

  drive("without an open question the answer keys are Vim's own", nil, function(nvim)
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    enter_chat(nvim)
    nvim.chat()
    nvim.type_keys('gg/Gr<CR>yiw')
    eq(nvim.lua('return vim.fn.getreg("\\"")'), 'Grüße')
    nvim.type_keys('"ayy')
    assert(nvim.lua('return vim.fn.getreg("a")'):find('one two three', 1, true))
    nvim.type_keys('gg/two\\|four<CR>n')
    eq(nvim.lua('return vim.fn.expand("<cword>")'), 'four')
    nvim.type_keys('0e')
    local first = nvim.lua('return vim.api.nvim_win_get_cursor(0)[2]')
    nvim.type_keys('02e')
    assert(nvim.lua('return vim.api.nvim_win_get_cursor(0)[2]') > first)
    eq(nvim.notices(), {})
  end)

  drive("with an open question, counts, registers and Visual mode still use Vim's keys", nil, function(nvim)
    nvim.cmd('AgentPrompt fix it')
    nvim.wait_for_approval()
    enter_chat(nvim)
    nvim.chat()
    nvim.type_keys('gg/Edit cart<CR>')
    nvim.wait_until_answerable()
    nvim.type_keys('"ayiw')
    eq(nvim.lua('return vim.fn.getreg("a")'), 'Edit')
    nvim.type_keys('viwy')
    eq(nvim.lua('return vim.fn.getreg("\\"")'), 'Edit')
    nvim.type_keys('2e')
    eq({ open_everywhere(nvim), nvim.lua('return #vim.api.nvim_tabpage_list_wins(0)') }, { 1, 3 })
  end)

  drive('a key for a question resolved elsewhere answers no other question', { files = FILES }, function(nvim)
    nvim.cmd('AgentPrompt three at once')
    wait_for_questions(nvim, 3)
    enter_chat(nvim)
    go_to(nvim, 'rm -f old.txt')
    nvim.wait_until_answerable()
    -- While the user writes feedback, another client allows the call.
    nvim.lua('vim.ui.input = function(_, done) answer = done end')
    nvim.type_keys('n')
    nvim.lua([[
      local open = require('agentls.sessions').get_current().state.approvals
      for _, approval in ipairs(open) do
        if approval.title == 'rm -f old.txt' then
          local answer = { approvalId = approval.approvalId, decision = 'allow' }
          require('agentls.client').request('agent/approvalRespond', answer)
        end
      end
    ]])
    wait_for_questions(nvim, 2)
    nvim.lua("answer('too late')")
    nvim.wait_for_notification('this question has already been answered')
    nvim.type_keys('y')
    eq(#list_open_titles(nvim), 2)
    eq(file_exists(nvim, 'b.txt'), false)
  end)

  drive('a saved permission is reported, listed and revoked', { files = FILES }, function(nvim)
    -- Without a session, the request has no params.
    nvim.cmd('AgentGrants')
    nvim.wait_for_notification('no saved permissions')
    nvim.lua('notices = {}')
    nvim.cmd('AgentPrompt fix it')
    nvim.wait_for_approval()
    enter_chat(nvim)
    nvim.press_twice('a')
    nvim.wait_for_notification('allowed from now on: edits of cart.py')
    nvim.wait_for_turn_end()
    nvim.stub_select('edits of cart.py')
    nvim.cmd('AgentGrants')
    local labels = nvim.wait_for_select()[1].labels
    eq(#labels, 1)
    assert(labels[1]:find('^edits of cart%.py · every session here · .* · 20%d%d%-'), labels[1])
    nvim.wait_for_notification('revoked: edits of cart.py; such calls need approval again')
    nvim.cmd('AgentGrants')
    nvim.wait_for_notification('no saved permissions')
  end)

  drive('a permission for the session is reported and listed with that scope', nil, function(nvim)
    nvim.cmd('AgentPrompt fix it')
    nvim.wait_for_approval()
    enter_chat(nvim)
    nvim.press_twice('s')
    nvim.wait_for_notification('allowed for this session: edits of cart.py')
    nvim.wait_for_turn_end()
    nvim.stub_select()
    nvim.cmd('AgentGrants')
    assert(nvim.wait_for_select()[1].labels[1]:find('^edits of cart%.py · this session · '))
  end)

  drive('an approval shows the full command with hidden characters and dangerous options', nil, function(nvim)
    nvim.cmd('AgentPrompt hide it')
    nvim.wait_for_approval()
    enter_chat(nvim)
    local chat = nvim.chat()
    for _, hidden in ipairs({ '\226\128\174', '\226\128\139', '\243\160\129\129', '\226\128\168', '\27' }) do
      eq(chat:find(hidden, 1, true), nil, vim.inspect(hidden))
    end
    for _, expected in ipairs({
      '<U+202E>',
      '<U+200B>',
      '<U+E0041>',
      '<U+2028>',
      '␛',
      'thirteen END',
      'high risk',
    }) do
      assert(chat:find(expected, 1, true), expected .. ' in:\n' .. chat)
    end
    assert(chat:find('  ! ', 1, true), chat)
    -- The same holds for notifications and for the edited arguments.
    nvim.type_keys('Ge')
    nvim.wait_for_notification('e again edits it')
    for _, notice in ipairs(nvim.notices()) do
      eq(notice.text:find('\226\128\174', 1, true), nil, notice.text)
    end
    nvim.wait_until_answerable()
    nvim.keys('e')
    wait('the arguments', function()
      return nvim.lua('return vim.bo.filetype') == 'json'
    end)
    local json = table.concat(nvim.lines(), '\n')
    assert(json:find('\\u202eb\\u200bc\\udb40\\udc41d\\u2028e', 1, true), json)
    eq(json:find('\226\128\174', 1, true), nil)
    eq(nvim.lua('return vim.json.decode(...).command:sub(1, 9)', json), 'echo a\226\128\174')
  end)

  ---Files that are not kept for a revert, because they may contain secrets.
  local SECRETS = { ['.env'] = ('x'):rep(12345) }
  for i = 1, 8 do
    SECRETS[('keys/%d.pem'):format(i)] = ('k'):rep(i)
  end

  drive('a card lists what a command would throw away, and says it once', { files = SECRETS }, function(nvim)
    nvim.cmd('AgentPrompt clear somewhere')
    nvim.wait_for_approval()
    local chat = nvim.chat()
    assert(chat:find('lost for good:\n    `files whose names only the shell knows`\n', 1, true), chat)
    eq(select(2, chat:gsub('whose names only the shell knows', '')), 1, chat)
    enter_chat(nvim)
    nvim.press_twice('n')
    nvim.answer('<CR>')
    nvim.wait_for_turn_end()
    nvim.cmd('AgentPrompt throw it away')
    nvim.wait_for_approval()
    chat = nvim.chat()
    local list = '  ! This would be lost for good:\n    `.env` · 12 KB\n    `keys/8.pem` · 8 bytes\n'
    assert(chat:find(list, 1, true), chat)
    assert(chat:find('`keys/5.pem` · 5 bytes\n    and 4 more: o opens all\n', 1, true), chat)
    assert(chat:find('  high risk', 1, true) and not chat:find('deletes or overwrites', 1, true), chat)
    nvim.press_twice('y')
    nvim.wait_for_turn_end(2)
    eq({ file_exists(nvim, '.env'), file_exists(nvim, 'keys') }, { false, false })
  end)

  ---A folder whose files need trust.
  local CONFIG = table.concat({
    '[agent.default]',
    'mode = "autoEdit"',
    '',
    '[hook.greet]',
    'on = "stop"',
    'command = "echo \226\128\174greetings"',
    '',
    '[provider.openai]',
    'base_url = "https://elsewhere.example/v1"',
    '',
  }, '\n')

  drive('trust shows what it would activate, and no is the first choice', {
    files = { ['.agentls/config.toml'] = CONFIG, ['cart.py'] = support.CART },
  }, function(nvim)
    nvim.cmd('AgentPrompt fix it')
    -- In an untrusted folder, its mode does not apply.
    nvim.wait_for_approval()
    nvim.wait_for_notification('untrusted folder: :AgentTrust')
    nvim.stub_select('No, leave it untrusted')
    nvim.cmd('AgentTrust')
    local prompt = nvim.wait_for_select()[1]
    eq(prompt.labels[1], 'No, leave it untrusted')
    local lines = table.concat(nvim.lines(), '\n')
    for _, expected in ipairs({
      'not trusted',
      'greet',
      '$ echo <U+202E>greetings',
      'agent.default.mode',
      'autoEdit',
    }) do
      assert(lines:find(expected, 1, true), expected .. ' in:\n' .. lines)
    end
    local function describe_trust()
      return nvim.lua([[
        local folder = vim.uri_from_fname(require('agentls.client').get_workspace_folders()[1])
        local client = require('agentls.client')
        return client.request_sync('agent/describeTrust', { folder = folder }, 10000)
      ]])
    end
    eq(describe_trust().trusted, false)
    -- Leaving the question means no.
    nvim.stub_select()
    nvim.cmd('AgentTrust')
    nvim.wait_for_select()
    eq(describe_trust().trusted, false)
    nvim.stub_select('Yes, activate', 'No, leave it off')
    nvim.cmd('AgentTrust')
    nvim.wait_for_notification('trusted: ')
    local description = describe_trust()
    eq(description.trusted, true)
    -- Trust alone accepts no redirect.
    eq({ #description.redirects, description.redirects[1].accepted }, { 1, false })
    nvim.stub_select('Keep trusting it', 'Yes, accept this redirect')
    nvim.cmd('AgentTrust')
    nvim.wait_for_notification('; redirects accepted: 1')
    local question = nvim.wait_for_select(2)[2]
    eq(question.labels, { 'No, leave it off', 'Yes, accept this redirect' })
    for _, expected in ipairs({
      'https://elsewhere.example/v1',
      'instead of to https://api.openai.com/v1',
      'key',
    }) do
      assert(question.prompt:find(expected, 1, true), question.prompt)
    end
    eq(describe_trust().redirects[1].accepted, true)
    nvim.stub_select('Stop trusting it')
    nvim.cmd('AgentTrust')
    nvim.wait_for_notification('not trusted: ')
    eq(describe_trust().trusted, false)
    nvim.cmd('AgentCancel')
  end)

  drive('a command runs in the real sandbox, and the statusline says so', {
    -- An empty value lets the server find the strongest method.
    setup = ("{ cmd = { %q }, env = { AGENTLS_SANDBOX_METHOD = '' } }"):format(support.server),
  }, function(nvim)
    nvim.cmd('AgentPrompt write here and outside')
    nvim.wait_for_approval()
    local line = nvim.lua("return require('agentls').statusline()")
    local probe = { support.server, 'sandbox', 'run', '--', 'true' }
    local env = { AGENTLS_SANDBOX_METHOD = 'namespaces' }
    local holds = vim.system(probe, { env = env, cwd = support.home }):wait().code == 0
    if not holds and not line:find('sandbox full', 1, true) then
      io.stdout:write('NOT TESTED: commands in the sandbox. None holds in full here: ' .. line .. '\n')
      nvim.cmd('AgentCancel')
      return nvim.wait_for_turn_end()
    end
    assert(line:find('sandbox full', 1, true), line)
    nvim.see('runs in the sandbox (full, writes in the workspace)')
    nvim.type_keys('<C-w>l<C-w>k')
    nvim.press_twice('y')
    nvim.wait_for_turn_end()
    eq(support.read(nvim.workspace .. '/inside.txt'), 'here\n')
    eq(support.read(support.home .. '/outside.txt'), nil)
  end)
end
