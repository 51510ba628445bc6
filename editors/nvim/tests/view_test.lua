-- How a state becomes lines. Drawing changes only lines that differ.

local support = require('tests.support')
local eq, wait = support.eq, support.wait

local open_chat = support.open_chat

return function(test)
  test('view: a stream only appends', function()
    local chat = open_chat()
    chat.event(
      'message',
      { messageId = 'm1', role = 'user', content = { { type = 'text', text = 'hello\nyou' } } }
    )
    chat.transient('textDelta', { messageId = 'm2', offset = 0, text = 'one' })
    eq(chat.lines(), { '> hello', '> you', '', 'one', '', '' })
    local changes = {}
    vim.api.nvim_buf_attach(chat.buffer, false, {
      on_bytes = function(_, _, _, row, column, _, _, _, old_bytes, _, _, new_bytes)
        table.insert(changes, { row, column, old_bytes, new_bytes })
      end,
    })
    chat.transient('textDelta', { messageId = 'm2', offset = 3, text = ' two\nthree' })
    eq(chat.lines(), { '> hello', '> you', '', 'one two', 'three', '', '' })
    eq(changes, { { 3, 3, 0, 10 } })
    chat.say('m2', 'one two\nthree')
    chat.lines()
    eq(#changes, 1, 'a completed message that says the same draws nothing')
  end)

  test('view: draws at most once per frame', function()
    local chat = open_chat()
    chat.lines()
    local draw_count = 0
    vim.api.nvim_buf_attach(chat.buffer, false, {
      on_lines = function()
        draw_count = draw_count + 1
      end,
    })
    for i = 0, 999 do
      chat.transient('textDelta', { messageId = 'm', offset = i * 2, text = 'x ' })
    end
    eq(draw_count, 0)
    wait('the frame', function()
      return draw_count > 0
    end)
    eq(draw_count, 1)
    eq(#chat.session.state.items[1].text, 2000)
  end)

  test('view: follows the end only if the cursor is there', function()
    local chat = open_chat()
    chat.say('m1', ('line\n'):rep(60))
    local count = #chat.lines()
    eq(vim.api.nvim_win_get_cursor(chat.window)[1], count)
    vim.api.nvim_win_set_cursor(chat.window, { 10, 2 })
    local top = vim.fn.getwininfo(chat.window)[1].topline
    chat.say('m2', ('more\n'):rep(60))
    chat.lines()
    vim.cmd('redraw')
    eq(vim.api.nvim_win_get_cursor(chat.window), { 10, 2 })
    eq(vim.fn.getwininfo(chat.window)[1].topline, top)
    vim.api.nvim_win_set_cursor(chat.window, { #chat.lines(), 0 })
    chat.say('m3', 'the end')
    local last = #chat.lines()
    eq(vim.api.nvim_win_get_cursor(chat.window)[1], last)
  end)

  test('view: finished calls fold to one line, and approvals stay open', function()
    local chat = open_chat()
    chat.say('m1', 'Running it.')
    chat.tool('c1', 'running')
    chat.transient('toolOutputDelta', { toolCallId = 'c1', text = 'live 1\nlive 2\n' })
    eq(chat.lines(), { 'Running it.', '', '▶ `make`', '```', 'live 1', 'live 2', '```', '', '' })
    eq(chat.fold(3), { -1, -1 })
    chat.tool('c1', 'completed', { output = 'a\nb\nc\n', durationMs = 1200 })
    eq(
      chat.lines(),
      { 'Running it.', '', '✓ `make` · 1.2 s ⋯ 5 lines', '```', 'a', 'b', 'c', '```', '', '' }
    )
    eq(chat.fold(3), { 3, 8 })
    local diff = '--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n'
    local approval = {
      approvalId = 'a1',
      toolCallId = 'c2',
      name = 'edit_file',
      title = 'Edit x',
      risk = 'medium',
      why = 'writes x',
      diff = diff,
      rule = 'edit_file(x)',
      input = {},
    }
    chat.tool('c2', 'awaitingApproval', { title = 'Edit x', name = 'edit_file' })
    chat.event('approvalRequested', approval)
    local lines = chat.lines()
    eq(vim.list_slice(lines, 9, 16), {
      '? `Edit x`',
      '  medium risk · writes x',
      '```diff',
      '@@ -1 +1 @@',
      '-old',
      '+new',
      '```',
      '  s and a also allow:',
    })
    eq(lines[17], '    `edits of x`')
    eq(chat.fold(9), { -1, -1 })
    chat.event(
      'approvalResolved',
      { approvalId = 'a1', toolCallId = 'c2', decision = 'allow', by = 'person' }
    )
    chat.tool('c2', 'completed', { title = 'Edit x', name = 'edit_file', output = 'edited', diff = diff })
    eq(chat.lines()[9], '✓ `Edit x` +1 -1 ⋯')
    eq(chat.fold(9), { 9, 14 })
    eq(chat.fold(3), { 3, 8 }, 'the other fold stays')
  end)

  test('view: an opened fold stays open when others are added', function()
    local chat = open_chat()
    chat.tool('c1', 'completed', { output = 'a\nb\n' })
    chat.lines()
    vim.api.nvim_win_call(chat.window, function()
      vim.cmd('redraw')
      vim.cmd('1foldopen')
    end)
    chat.say('m1', 'words')
    chat.tool('c2', 'completed', { output = 'c\n' })
    chat.lines()
    eq(chat.fold(1), { -1, -1 })
  end)

  test('view: retracted text and expired notices disappear', function()
    local chat = open_chat()
    chat.transient('textDelta', { messageId = 'm1', offset = 0, text = 'void words' })
    chat.transient('toolInputDelta', { messageId = 'm1', toolCallId = 'c1', name = 'bash', text = '{' })
    assert(table.concat(chat.lines(), '\n'):find('void words', 1, true))
    chat.event('messageRetracted', { messageId = 'm1', toolCallIds = { 'c1' } })
    eq(chat.lines(), { '', '' })
    local error = { code = 'provider_error', message = 'm', cause = 'Overloaded', status = 529 }
    local seconds = vim.uv.gettimeofday()
    chat.event('retry', {
      provider = 'p',
      model = 'm',
      attempt = 1,
      maxRetries = 3,
      delayMs = 1,
      resumeAt = (seconds + 9) * 1000,
      error = error,
    })
    local function virtual()
      chat.lines()
      return chat.virtual()
    end
    assert(virtual():find('p: Overloaded (529) — try 2 of 4', 1, true), virtual())
    assert(virtual():find('discarded', 1, true), virtual())
    chat.transient('textDelta', { messageId = 'm2', offset = 0, text = 'holds' })
    assert(not virtual():find('Overloaded', 1, true), virtual())
    assert(virtual():find('answering', 1, true), virtual())
    chat.event('turnEnded', { reason = 'completed', state = 'completed' })
    assert(not virtual():find('answering', 1, true), virtual())
  end)

  test('view: prompts keep their highlights while the answer streams', function()
    local chat = open_chat()
    chat.event(
      'message',
      { messageId = 'm1', role = 'user', content = { { type = 'text', text = 'hello' } } }
    )
    for i = 0, 5 do
      chat.transient('textDelta', { messageId = 'm2', offset = i * 2, text = 'x\n' })
      chat.lines()
    end
    local blocks = vim.api.nvim_get_namespaces()['agentls.blocks']
    local marks = vim.api.nvim_buf_get_extmarks(chat.buffer, blocks, { 0, 0 }, { 0, -1 }, { details = true })
    eq({ #marks, marks[1] and marks[1][4].line_hl_group }, { 1, 'AgentlsUser' })
  end)

  test('view: backslashes that escape Markdown are concealed', function()
    local chat = open_chat()
    chat.event('warning', { code = 'x', message = 'a_b *c* \\d' })
    local blocks, hidden = vim.api.nvim_get_namespaces()['agentls.blocks'], {}
    eq(chat.lines()[1], '! a\\_b \\*c\\* \\\\d')
    for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(chat.buffer, blocks, 0, -1, { details = true })) do
      hidden[mark[3]] = mark[4].conceal
    end
    eq(hidden, { [3] = '', [7] = '', [10] = '', [13] = '' })
  end)

  test('view: changed blocks leave no extmarks behind', function()
    local chat = open_chat()
    local approval = {
      approvalId = 'a1',
      toolCallId = 'c1',
      name = 'bash',
      title = 'make',
      risk = 'high',
      why = 'runs',
      rule = 'bash(make)',
      input = { command = 'make' },
    }
    chat.tool('c1', 'awaitingApproval', { input = { command = 'make' } })
    chat.event('approvalRequested', approval)
    chat.lines()
    chat.event(
      'approvalResolved',
      { approvalId = 'a1', toolCallId = 'c1', decision = 'allow', by = 'person' }
    )
    chat.tool('c1', 'completed', { output = 'x\n' })
    chat.lines()
    local blocks = vim.api.nvim_get_namespaces()['agentls.blocks']
    for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(chat.buffer, blocks, 0, -1, { details = true })) do
      assert(not mark[4].virt_text and not mark[4].virt_lines, vim.inspect(mark))
    end
  end)

  test('view: the buffer omits output beyond the limit', function()
    local chat = open_chat()
    local numbers = {}
    for i = 1, 5000 do
      numbers[i] = tostring(i)
    end
    local truncated = { output = { ref = 'r', bytes = 10100000, tail = 'the end\n' } }
    chat.tool('c1', 'completed', { output = table.concat(numbers, '\n'), more = truncated })
    local lines = chat.lines()
    assert(#lines < 2010, #lines)
    local text = table.concat(lines, '\n')
    assert(
      text:find('3,002 lines are not shown here: o opens all', 1, true),
      'the count of hidden lines is shown'
    )
    assert(text:find('10 MB are not shown here', 1, true), 'so is the one of the wire')
    eq(lines[#lines - 3], 'the end')
  end)

  test('view: an unclosed fence does not affect later items', function()
    local chat = open_chat()
    chat.say('m1', '```lua\nlocal open = 1')
    chat.tool('c1', 'completed', { title = 'echo `x` __init__', output = 'has ```\n````\nfences' })
    local lines = chat.lines()
    eq(lines[3], '```')
    eq(lines[5], '✓ `` echo `x` __init__ `` ⋯ 5 lines')
    eq({ lines[6], lines[10] }, { '`````', '`````' })
  end)

  test('view: a very long answer is complete, whether sent at once or streamed', function()
    local chat = open_chat()
    chat.say('m1', ('line\n'):rep(30000))
    eq(#chat.lines(), 30002)
    chat.transient('textDelta', { messageId = 'm2', offset = 0, text = 'x' })
    eq(#chat.lines(), 30004)
    chat.transient('textDelta', { messageId = 'm2', offset = 1, text = ('\nline'):rep(30000) })
    eq(#chat.lines(), 60004)
  end)

  test('view: Markdown, its code and diffs are highlighted', function()
    local chat = open_chat()
    chat.say('m1', '# Title\n\nsome `code` here\n\n```lua\nlocal x = 1\n```\n\n```python\ndef f(): pass\n```')
    local lines = chat.lines()
    local parser = vim.treesitter.get_parser(chat.buffer, 'agentls_markdown')
    parser:parse(true)
    local function captures(row, column)
      return vim.tbl_map(function(capture)
        return capture.capture
      end, vim.treesitter.get_captures_at_pos(chat.buffer, row, column))
    end
    eq(lines[1], '# Title')
    assert(vim.list_contains(captures(0, 3), 'markup.heading'), vim.inspect(captures(0, 3)))
    assert(vim.list_contains(captures(2, 7), 'markup.raw'), vim.inspect(captures(2, 7)))
    assert(vim.list_contains(captures(5, 0), 'keyword'), vim.inspect(captures(5, 0)))
    -- This language has a syntax file but no parser.
    local group_name = vim.api.nvim_win_call(chat.window, function()
      return vim.fn.synIDattr(vim.fn.synID(10, 1, 1), 'name')
    end)
    eq(group_name, 'pythonStatement')
  end)

  test('view: the bar shows model, mode, context and cost', function()
    local chat = open_chat()
    chat.event(
      'sessionUpdated',
      { title = '50% of it', model = 'anthropic/claude-sonnet-4-20250514', mode = 'ask' }
    )
    chat.event(
      'usage',
      { step = {}, turn = {}, session = { costUsd = 0.1234 }, contextUsed = 24000, contextWindow = 200000 }
    )
    vim.api.nvim_win_set_width(chat.window, 60)
    vim.g.statusline_winid = chat.window
    local bar = vim.api.nvim_eval_statusline(
      require('agentls.view').render_winbar(),
      { winid = chat.window, maxwidth = 80 }
    ).str
    vim.g.statusline_winid = nil
    assert(bar:find('50% of it', 1, true), bar)
    assert(bar:find('claude-sonnet-4 · ask · ctx 12% · $0.12', 1, true), bar)
    local line = require('agentls').statusline()
    eq(vim.api.nvim_eval_statusline(line, {}).str, 'agent: thinking · ctx 12% · $0.12')
  end)

  test('view: renders every kind of item', function()
    local chat = open_chat()
    chat.event('message', {
      messageId = 'm1',
      role = 'user',
      content = {
        { type = 'text', text = 'why' },
        {
          type = 'reference',
          kind = 'selection',
          path = 'src/a.lua',
          startLine = 3,
          endLine = 9,
          text = 'x',
        },
        { type = 'image', mediaType = 'image/png' },
      },
    })
    chat.event('message', {
      messageId = 'm2',
      role = 'assistant',
      incomplete = true,
      content = {
        { type = 'reasoning', text = 'hm' },
        { type = 'text', text = 'so' },
      },
    })
    chat.event('plan', {
      items = {
        { text = 'a_b', status = 'completed' },
        { text = 'c', status = 'inProgress' },
        { text = 'd', status = 'pending' },
      },
    })
    chat.event('warning', { code = 'x', message = 'watch out' })
    chat.event(
      'limitRequested',
      { limitId = 'l1', limit = 'max_session_cost', message = 'cost $5.12 exceeds $5.00' }
    )
    chat.event('limitResolved', { limitId = 'l1', outcome = 'raised', raisedBy = 5, by = 'person' })
    chat.tool('c1', 'denied', { output = 'Denied' })
    chat.event('turnEnded', {
      reason = 'model_error',
      state = 'failed',
      error = {
        code = 'quota_exhausted',
        message = 'no credit',
        cause = 'used up',
        class = 'terminal',
        userAction = 'add some\nor wait',
      },
    })
    eq(chat.lines(), {
      '> why',
      '> @src/a.lua:3-9',
      '> [1 image]',
      '',
      '✻ thoughts ⋯ 1 line',
      'hm',
      '',
      'so',
      '— the answer was cut off here',
      '',
      '**Plan**',
      '- [x] a\\_b',
      '- [ ] ▸ c',
      '- [ ] d',
      '',
      '! watch out',
      '',
      '✓ cost $5.12 exceeds $5.00',
      '  → raised by 5',
      '',
      '⊘ `make` · denied ⋯ 3 lines',
      '```',
      'Denied',
      '```',
      '',
      '✗ \\[quota\\_exhausted\\] no credit: used up',
      '  → add some',
      '  → or wait',
      '— 800 ms',
      '',
      '',
    })
  end)

  ---Answers the open question with `choices`: parts of list entries, and typed text. Returns what was sent.
  local function answer_with(choices, body)
    local client, questions = require('agentls.client'), require('agentls.questions')
    local select, input, notify = vim.ui.select, vim.ui.input, vim.notify
    local requests = {}
    local request, now = client.request, questions.now_ms
    client.request = function(method, params, callback)
      table.insert(requests, { method, params })
      -- The question stays open.
      callback({ code = 0, message = 'not this time' })
    end
    vim.notify = function() end
    vim.ui.select = function(items, options, choose)
      local choice = table.remove(choices, 1)
      for i, item in ipairs(items) do
        local label = options.format_item and options.format_item(item) or item
        if choice and label:find(choice, 1, true) then
          return choose(item, i)
        end
      end
      choose(nil)
    end
    vim.ui.input = function(_, on_confirm)
      on_confirm(table.remove(choices, 1))
    end
    -- The question is shown first, and answered only after the user could see it.
    body()
    eq(requests, {})
    questions.now_ms = function()
      return now() + 1000
    end
    local ok, error_message = pcall(body)
    client.request, vim.ui.select, vim.ui.input, vim.notify = request, select, input, notify
    questions.now_ms = now
    -- The question under the cursor counts as new again.
    vim.cmd('normal! G')
    require('agentls.view').on_cursor_change(vim.api.nvim_get_current_win())
    assert(ok, error_message)
    return requests
  end

  test('view: a limit can be raised, accepted as a stop, or left open', function()
    local chat, approval = open_chat(), require('agentls.approval')
    local limit = { limitId = 'l1', limit = 'max_session_cost', used = 5.1, max = 5, message = 'too dear' }
    chat.event('limitRequested', limit)
    assert(table.concat(chat.lines(), '\n'):find('? too dear', 1, true))
    eq(
      answer_with({ 'Raise', '$2.5' }, approval.answer_inquiry),
      { { 'agent/limitRespond', { limitId = 'l1', raiseBy = 2.5 } } }
    )
    eq(
      answer_with({ 'Stop' }, approval.answer_inquiry),
      { { 'agent/limitRespond', { limitId = 'l1', stop = true } } }
    )
    eq(answer_with({}, approval.answer_inquiry), {})
    eq(answer_with({ 'Raise' }, approval.answer_inquiry), {})
    chat.event('limitResolved', { limitId = 'l1', limit = limit.limit, outcome = 'stopped', by = 'person' })
    chat.event(
      'limitRequested',
      { limitId = 'l2', limit = 'unknown_price', used = 0, max = 0, message = 'price?' }
    )
    eq(answer_with({ 'Continue' }, approval.answer_inquiry), { { 'agent/limitRespond', { limitId = 'l2' } } })
    local stop = { { 'agent/limitRespond', { limitId = 'l2', stop = true } } }
    local function refuse()
      approval.answer_inquiry(true)
    end
    eq(answer_with({}, refuse), stop)
    -- Answers the question under the cursor, else the oldest.
    chat.event('limitRequested', vim.tbl_extend('force', limit, { limitId = 'l3', message = 'the third' }))
    eq(answer_with({}, refuse), stop)
    assert(table.concat(chat.lines(), '\n'):find('the third', 1, true))
    local function refuse_third()
      vim.fn.search('the third')
      refuse()
    end
    eq(answer_with({}, refuse_third), { { 'agent/limitRespond', { limitId = 'l3', stop = true } } })
  end)

  test('view: a question is answered field by field', function()
    local chat, approval = open_chat(), require('agentls.approval')
    local choices = { { value = 'a', label = 'First' }, { value = 'b', label = 'Second' } }
    local function make_field(name, fields)
      local defaults =
        { name = name, label = '', choices = {}, several = false, free = false, required = true }
      return vim.tbl_extend('force', defaults, fields)
    end
    chat.event('questionRequested', {
      questionId = 'q1',
      text = 'Which?',
      fields = {
        make_field('one', { choices = choices }),
        make_field('many', { choices = choices, several = true, free = true }),
        make_field('text', { label = 'Name' }),
      },
    })
    local answers = { one = { 'b' }, many = { 'a', 'b' }, text = { 'me' } }
    eq(answer_with({ 'Second', 'First', 'Second', 'Done: a, b', 'me' }, approval.answer_inquiry), {
      { 'agent/questionRespond', { questionId = 'q1', answers = answers } },
    })
    eq(answer_with({ 'Second' }, approval.answer_inquiry), {}, 'left in the middle')
    eq(
      answer_with({}, function()
        approval.answer_inquiry(true)
      end),
      { { 'agent/questionRespond', { questionId = 'q1', dismissed = true } } }
    )
  end)

  test('view: the bars are redrawn when their texts change, and not with every frame', function()
    local chat, count, original = support.open_chat(), 0, vim.cmd
    local function write_word(number)
      chat.transient('textDelta', { turnId = 't1', messageId = 'm', offset = 5 * number, text = 'word ' })
      support.wait('the word in the buffer', function()
        local text = table.concat(vim.api.nvim_buf_get_lines(chat.buffer, 0, -1, false), '\n')
        return #text:match('[word ]*%s*$') >= 5 * number
      end)
    end
    -- These change what the statusline says of the turn. What they schedule runs before what is scheduled now.
    write_word(0)
    write_word(1)
    local is_drawn = false
    vim.schedule(function()
      is_drawn = true
    end)
    support.wait('the first redraws', function()
      return is_drawn
    end)
    vim.cmd = setmetatable({}, {
      __index = original,
      __call = function(_, command)
        count = count + (command == 'redrawstatus!' and 1 or 0)
        return original(command)
      end,
    })
    local ok, failure = pcall(function()
      for number = 2, 20 do
        write_word(number)
      end
      assert(count <= 1, count .. ' redraws of the bars')
      local before = count
      chat.event('sessionUpdated', { title = 'another title' })
      support.wait('a redraw of the bars', function()
        return count == before + 1
      end)
    end)
    vim.cmd = original
    assert(ok, failure)
  end)
end
