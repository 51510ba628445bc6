-- Rendering of changes, the queue, instructions, and sub-agents.

local support = require('tests.support')
local eq = support.eq
local open_chat = support.open_chat

return function(test)
  test('statusline: the level of the sandbox, by the mode', function()
    local statusline, sessions = require('agentls.statusline'), require('agentls.sessions')
    local sandbox = {
      method = 'namespaces',
      level = 'full',
      network = 'offline',
      policies = {
        { mode = 'plan', policy = 'readOnly' },
        { mode = 'ask', policy = 'workspace' },
        { mode = 'full', policy = 'off' },
      },
    }
    eq(statusline.format_sandbox(nil, 'ask'), nil)
    eq(statusline.format_sandbox({}, 'ask'), nil)
    eq(statusline.format_sandbox({ sandbox = sandbox }, 'ask'), 'sandbox full')
    eq(statusline.format_sandbox({ sandbox = sandbox }, 'plan'), 'sandbox full, read-only')
    eq(statusline.format_sandbox({ sandbox = sandbox }, 'full'), 'no sandbox')
    local function with(fields)
      return { sandbox = vim.tbl_extend('force', sandbox, fields) }
    end
    eq(statusline.format_sandbox(with({ network = 'open' }), 'ask'), 'sandbox full, network open')
    eq(
      statusline.format_sandbox(with({ network = 'proxy' }), 'plan'),
      'sandbox full, read-only, network by proxy'
    )
    eq(statusline.format_sandbox(with({ method = 'none', level = 'none' }), 'plan'), 'sandbox none')
    eq(statusline.format_sandbox(with({ method = 'off', level = 'none' }), 'ask'), 'sandbox off')
    local chat, status = open_chat(), sessions.status
    sessions.status = { sandbox = sandbox }
    local line = statusline.format_session(sessions.get_current())
    sessions.status = status
    assert(line:find(' · sandbox full$'), line)
    assert(chat)
  end)

  test('render: the changes of a turn, and their revert', function()
    local chat = open_chat()
    local files = {
      { path = 'src/b_c.ts', kind = 'modified', added = 12, removed = 1 },
      { path = 'a.bin', kind = 'modified', added = 0, removed = 0, unrestorable = true },
      { path = 'z.txt', kind = 'deleted', added = 0, removed = 2 },
    }
    local diff = { ofTurnId = 't1', standing = 'made', files = files, partial = true, unlisted = 1200 }
    chat.say('m1', 'Done.')
    chat.event('turnDiff', diff)
    chat.event('turnEnded', { reason = 'completed', state = 'completed' })
    eq(chat.lines(), {
      'Done.',
      '',
      '± 1,203 files changed +12 -3 ⋯ 5 lines',
      'M `a.bin` · cannot be reverted',
      'M `src/b_c.ts` +12 -1',
      'D `z.txt` -2',
      'and 1,200 more',
      'Commands may have changed more: the folder has too many files to check all.',
      '— 300 ms',
      '',
      '',
    })
    eq(chat.fold(3), { 3, 8 })
    assert(chat.virtual():find('d diff  u revert', 1, true), chat.virtual())
    chat.event('turnDiff', { ofTurnId = 't1', standing = 'reverted', files = { files[1] } })
    local lines = chat.lines()
    eq(lines[3], '± 1,203 files changed +12 -3 · reverted ⋯ 5 lines')
    eq(
      vim.list_slice(lines, 10, 13),
      { '', '↶ reverted: the changes of one file ⋯ 1 line', 'M `src/b_c.ts` +12 -1', '' }
    )
    assert(chat.virtual():find('  <C-r> redo', 1, true), chat.virtual())
    chat.event('turnDiff', { ofTurnId = 't1', standing = 'redone', files = { files[1] } })
    eq(chat.lines()[3], '± 1,203 files changed +12 -3 · reapplied ⋯ 5 lines')
    -- A single file needs no list.
    chat.event('turnStarted', { turnId = 't2' })
    local created_files = { { path = 'a.txt', kind = 'created', added = 3, removed = 0 } }
    chat.event('turnDiff', { turnId = 't2', ofTurnId = 't2', standing = 'made', files = created_files })
    assert(vim.list_contains(chat.lines(), '± a.txt created +3'), vim.inspect(chat.lines()))
    chat.event('turnDiff', { turnId = 't4', ofTurnId = 't4', standing = 'made', files = {}, unlisted = 1 })
    assert(vim.list_contains(chat.lines(), '± 1 file changed ⋯ 1 line'), vim.inspect(chat.lines()))
    chat.event('turnDiff', { turnId = 't3', ofTurnId = 't3', standing = 'made', files = {}, partial = true })
    assert(vim.list_contains(chat.lines(), '± commands may have changed files ⋯ 1 line'))
  end)

  test('render: a revert on an earlier page marks the changes as reverted', function()
    local states = require('agentls.state')
    local file = { path = 'a', kind = 'modified', added = 1, removed = 1 }
    local function make_diff_event(seq, turn, standing)
      return {
        method = 'agent/turnDiff',
        params = {
          seq = seq,
          turnId = standing == 'made' and turn or nil,
          ofTurnId = turn,
          standing = standing,
          files = { file },
        },
      }
    end
    local function load_page(events, first)
      return { events = events, seq = events[#events].params.seq, hasEarlier = first > 1, state = {} }
    end
    local events = {
      make_diff_event(1, 't1', 'made'),
      make_diff_event(2, 't2', 'made'),
      make_diff_event(3, 't2', 'reverted'),
      make_diff_event(4, 't1', 'reverted'),
      make_diff_event(5, 't1', 'redone'),
      make_diff_event(6, 't3', 'made'),
    }
    local function get_standings(state)
      local standings = {}
      for _, item in ipairs(state.items) do
        if item.kind == 'changes' then
          table.insert(standings, item.id .. ' ' .. item.standing)
        end
      end
      return standings
    end
    local expected = { 't1 redone', 't2 reverted', 't3 made' }
    eq(get_standings(states.load_page(states.new('s'), load_page(events, 1))), expected)
    -- The same wherever the page boundary is.
    for boundary = 1, #events - 1 do
      local later_events, earlier_events =
        vim.list_slice(events, boundary + 1), vim.list_slice(events, 1, boundary)
      local state = states.prepend_page(
        states.load_page(states.new('s'), load_page(later_events, boundary + 1)),
        load_page(earlier_events, 1)
      )
      eq(get_standings(state), expected, 'cut after ' .. boundary)
    end
  end)

  test("a sub-agent's notices do not clear those of the session", function()
    local states = require('agentls.state')
    local state = states.new('s')
    local function apply_event(method, params)
      state = states.reduce(state, { method = 'agent/' .. method, params = params })
      return vim.tbl_map(function(notice)
        return notice.kind .. (notice.parent and ' of ' .. notice.parent or '')
      end, state.notices)
    end
    local retry = { provider = 'p', attempt = 1, maxRetries = 3, resumeAt = 1, error = { message = 'm' } }
    local function with_parent(parent, params)
      return vim.tbl_extend('force', params, { parentToolCallId = parent })
    end
    apply_event('toolCall', { toolCallId = 'd', name = 'delegate', title = 'd', status = 'running' })
    apply_event('wait', { why = 'pacing', ['until'] = 1 })
    eq(apply_event('wait', with_parent('d', { why = 'a slot', ['until'] = 1 })), { 'wait', 'wait of d' })
    eq(apply_event('retry', with_parent('d', retry)), { 'wait', 'retry of d' })
    eq(apply_event('retry', retry), { 'retry of d', 'retry' })
    eq(apply_event('transition', with_parent('d', { kind = 'continue', reason = 'pause_turn' })), {
      'retry of d',
      'retry',
      'transition of d',
    })
    apply_event(
      'transition',
      with_parent('d', { kind = 'terminal', reason = 'completed', detail = 'not mine' })
    )
    eq(state.detail, nil)
    apply_event('usage', { step = {}, session = { costUsd = 1 }, contextUsed = 10, contextWindow = 100 })
    apply_event(
      'usage',
      with_parent('d', { step = {}, session = { costUsd = 2 }, contextUsed = 99, contextWindow = 100 })
    )
    eq({ state.costUsd, state.contextUsed }, { 2, 10 })
    -- Another sub-agent continues, so this one may still wait until its time is over.
    local call = { toolCallId = 'c', name = 'n', title = 'c', status = 'running', at = 400 }
    eq(#apply_event('retry', with_parent('d', vim.tbl_extend('force', retry, { resumeAt = 500 }))), 2)
    eq(apply_event('toolCall', with_parent('d', call)), { 'retry', 'retry of d' })
    eq(
      apply_event(
        'toolCall',
        with_parent('d', vim.tbl_extend('force', call, { status = 'completed', at = 500 }))
      ),
      { 'retry' }
    )
    apply_event('retry', with_parent('d', retry))
    apply_event('transition', with_parent('d', { kind = 'continue', reason = 'pause_turn' }))
    -- Text from the model clears the session's notices, not those of the sub-agent.
    eq(
      apply_event('textDelta', { messageId = 'm', offset = 0, text = 'x' }),
      { 'retry of d', 'transition of d' }
    )
    eq(apply_event('toolCall', { toolCallId = 'd', name = 'delegate', title = 'd', status = 'failed' }), {})
  end)

  test('a queued prompt does not count as an unsent one', function()
    local chat = open_chat()
    local unsent = { prompt = 'not yet shown' }
    chat.session.unsent = { unsent }
    local function receive_message(text)
      chat.event('message', { messageId = text, role = 'user', content = { { type = 'text', text = text } } })
      return #chat.session.unsent
    end
    chat.event('turnEnded', { reason = 'completed', state = 'completed' })
    chat.event('turnStarted', { turnId = 't2', by = 'queue' })
    eq(receive_message('waited'), 1)
    eq(receive_message('not yet shown'), 0)
  end)

  test('render: queued prompts', function()
    local chat = open_chat()
    local function show_queue(paused, ...)
      local prompts = {}
      for i, text in ipairs({ ... }) do
        prompts[i] = { promptId = 'q' .. i, text = text }
      end
      chat.event('sessionUpdated', { queue = { paused = paused, prompts = prompts } })
      chat.lines()
      return chat.virtual()
    end
    local virtual_text = show_queue(false, 'then this', 'and that')
    assert(virtual_text:find('⧗ queued: then this · Q', 1, true), virtual_text)
    assert(virtual_text:find('⧗ queued: and that', 1, true), virtual_text)
    assert(require('agentls').statusline():find('2 queued', 1, true))
    virtual_text = show_queue(true, 'a', 'b', 'c', 'd')
    assert(virtual_text:find('⧗ queued (paused): a · Q', 1, true), virtual_text)
    assert(virtual_text:find('⧗ and 1 more', 1, true), virtual_text)
    assert(not virtual_text:find('paused): d', 1, true), virtual_text)
    virtual_text = show_queue(false)
    assert(not virtual_text:find('queued', 1, true), virtual_text)
  end)

  test('render: the loaded instructions', function()
    local chat = open_chat()
    local home = vim.uv.os_homedir()
    chat.event('instructions', {
      leftOut = 2,
      files = {
        { path = home .. '/.config/agentls/AGENTS.md', kind = 'agents', bytes = 10, trusted = true },
        { path = '/w/AGENTS.md', kind = 'agents', bytes = 10, trusted = false },
        { path = '/w/prompts/own.md', kind = 'prompt', bytes = 10, trusted = true },
        {
          path = '/w/s/SKILL.md',
          kind = 'skill',
          name = 's',
          bytes = 0,
          trusted = true,
          problem = 'no text',
        },
      },
    })
    eq(vim.list_slice(chat.lines(), 1, 5), {
      '· 2 × AGENTS.md, own.md, 1 skill, 2 more loaded ⋯ 4 lines',
      '  `~/.config/agentls/AGENTS.md`',
      '  `/w/AGENTS.md` · not trusted',
      '  `/w/prompts/own.md`',
      '  `/w/s/SKILL.md` · no text',
    })
    eq(chat.fold(1), { 1, 5 })
  end)

  test('the instructions come from the load result if the page has no event', function()
    local states = require('agentls.state')
    local files = { { path = '/w/AGENTS.md', kind = 'agents', bytes = 1, trusted = true } }
    local page = { events = {}, seq = 9, hasEarlier = true, state = {}, instructions = files }
    local state = states.load_page(states.new('s'), page)
    eq(state.instructions, files)
    page.instructions = nil
    eq(states.load_page(state, page).instructions, files)
  end)

  ---Adds a call of a sub-agent.
  local function add_call(chat, id, parent, status, fields)
    fields = vim.tbl_extend('force', { parentToolCallId = parent, title = id, name = 'bash' }, fields or {})
    chat.tool(id, status, fields)
  end

  ---Returns the indent of a line.
  local function get_indent(chat, row)
    local blocks = vim.api.nvim_get_namespaces()['agentls.blocks']
    local marks = vim.api.nvim_buf_get_extmarks(
      chat.buffer,
      blocks,
      { row - 1, 0 },
      { row - 1, 0 },
      { details = true }
    )
    for _, mark in ipairs(marks) do
      if mark[4].virt_text_pos == 'inline' then
        return mark[4].virt_text[1][1]
      end
    end
  end

  test('render: sub-agents are indented under their call and fold with it', function()
    local chat = open_chat()
    chat.tool('d1', 'running', { name = 'delegate', title = 'look' })
    chat.tool('other', 'running', { title = 'beside' })
    add_call(chat, 'c1', 'd1', 'completed', { output = 'one\n' })
    add_call(chat, 'd2', 'd1', 'running', { name = 'delegate', title = 'deep' })
    add_call(chat, 'c2', 'd2', 'completed', { output = 'two\n' })
    chat.event('warning', { code = 'x', message = 'hm', parentToolCallId = 'd2' })
    chat.event('retry', {
      parentToolCallId = 'd2',
      provider = 'p',
      model = 'm',
      attempt = 1,
      maxRetries = 3,
      delayMs = 1,
      resumeAt = 1,
      error = { message = 'Overloaded', status = 529 },
    })
    eq(chat.lines(), {
      '▶ `look` · 3 calls',
      '✓ `c1` ⋯ 3 lines',
      '```',
      'one',
      '```',
      '▶ `deep` · 1 call',
      '⟳ p: Overloaded (529) — try 2 of 4',
      '✓ `c2` ⋯ 3 lines',
      '```',
      'two',
      '```',
      '! hm',
      '▶ `beside`',
      '',
      '',
    })
    local depths = {}
    for row = 1, 13 do
      depths[row] = get_indent(chat, row) or ''
    end
    local single, double = '│ ', '│ │ '
    eq(
      depths,
      { '', single, single, single, single, single, single, double, double, double, double, double, '' }
    )
    -- The notice is at the call, not in the status of the turn.
    assert(not chat.virtual():find('Overloaded', 1, true), chat.virtual())
    eq({ chat.fold(1), chat.fold(2), chat.fold(8) }, { { -1, -1 }, { 2, 5 }, { 8, 11 } })
    add_call(chat, 'd2', 'd1', 'completed', { title = 'deep', name = 'delegate', output = 'deep\n' })
    eq(chat.lines()[7], '```')
    eq({ chat.fold(1), chat.fold(6), chat.fold(8) }, { { -1, -1 }, { 6, 14 }, { 6, 14 } })
    chat.tool('d1', 'completed', { name = 'delegate', title = 'look', durationMs = 1500 })
    eq(chat.lines()[1], '✓ `look` · 3 calls · 1.5 s')
    eq({ chat.fold(1), chat.fold(15) }, { { 1, 14 }, { -1, -1 } })
    -- Each fold opens separately.
    vim.api.nvim_win_call(chat.window, function()
      vim.cmd('1foldopen')
    end)
    eq(
      { chat.fold(1), chat.fold(2), chat.fold(6), chat.fold(10) },
      { { -1, -1 }, { 2, 5 }, { 6, 14 }, { 6, 14 } }
    )
    chat.event('turnEnded', { reason = 'completed', state = 'completed' })
    eq(chat.fold(2), { 2, 5 })
  end)

  test("render: a sub-agent's call asks under its parent", function()
    local chat = open_chat()
    chat.tool('d1', 'running', { name = 'delegate', title = 'look' })
    add_call(chat, 'c1', 'd1', 'awaitingApproval', { input = { command = 'make' } })
    chat.event('approvalRequested', {
      approvalId = 'a1',
      toolCallId = 'c1',
      name = 'bash',
      title = 'c1',
      input = { command = 'make' },
      risk = 'high',
      why = 'runs',
    })
    add_call(chat, 'c2', 'd1', 'running')
    eq(chat.lines(), {
      '▶ `look` · 2 calls',
      '? `c1`',
      '  high risk · runs',
      '```sh',
      'make',
      '```',
      '',
      '',
      '▶ `c2`',
      '',
      '',
    })
    vim.fn.search('c1')
    eq(require('agentls.view').find_card_at_cursor(chat.window).approval.approvalId, 'a1')
    chat.event(
      'approvalResolved',
      { approvalId = 'a1', toolCallId = 'c1', decision = 'allow', by = 'person' }
    )
    -- It may have to wait for other calls.
    eq(chat.lines()[2], '○ `c1` ⋯ 3 lines')
    add_call(chat, 'c1', 'd1', 'completed', { output = 'made\n' })
    eq(chat.lines()[2], '✓ `c1` ⋯ 6 lines')
  end)

  test('render: a page that starts inside a sub-agent, and the page before it', function()
    local states = require('agentls.state')
    local function event(seq, id, status, parent)
      return {
        method = 'agent/toolCall',
        params = {
          seq = seq,
          turnId = 't',
          toolCallId = id,
          name = 'n',
          title = id,
          status = status,
          parentToolCallId = parent,
        },
      }
    end
    local events = {
      event(1, 'd', 'running'),
      event(2, 'e', 'running'),
      event(3, 'a', 'completed', 'd'),
      event(4, 'f', 'running', 'd'),
      event(5, 'g', 'completed', 'f'),
      event(6, 'b', 'completed', 'd'),
      event(7, 'd', 'completed'),
    }
    local function get_ids(state)
      return vim.tbl_map(function(item)
        return item.id
      end, state.items)
    end
    local expected = { 'd', 'a', 'f', 'g', 'b', 'e' }
    local state = states.new('s')
    for _, next_event in ipairs(events) do
      state = states.reduce(state, next_event)
    end
    eq(get_ids(state), expected)
    for boundary = 1, #events - 1 do
      local later_events, earlier_events =
        vim.list_slice(events, boundary + 1), vim.list_slice(events, 1, boundary)
      local loaded =
        states.load_page(states.new('s'), { events = later_events, seq = 7, hasEarlier = true, state = {} })
      loaded = states.prepend_page(
        loaded,
        { events = earlier_events, seq = boundary, hasEarlier = false, state = {} }
      )
      eq(get_ids(loaded), expected, 'cut after ' .. boundary)
      eq(loaded.items[1].status, 'completed')
    end
    -- Without the call, its entries are still indented.
    local placements =
      require('agentls.subagents').compute_placements(states.reduce(states.new('s'), events[6]).items, {})
    eq({ placements[1].depth, placements[1].level }, { 1, 0 })
  end)

  test('render: the head of a call keeps its name, then its counts, then its time', function()
    local draw = require('agentls.render')
    local function head(width, fields)
      local item = vim.tbl_extend('force', {
        kind = 'tool',
        id = 'c',
        name = 'edit_file',
        title = 'Edit src/shop/cart.py',
        status = 'completed',
        durationMs = 10,
        output = 'edited',
      }, fields or {})
      return draw.render_item(item, nil, { output_lines = 100, keys = false, width = width }).lines[1]
    end
    local diff = '--- a\n+++ b\n@@ -1,2 +1,2 @@\n-- old\n-x\n+++ new\n'
    eq(head(60, { diff = diff }), '✓ `Edit src/shop/cart.py` +1 -2 · 10 ms ⋯')
    eq(head(36, { diff = diff }), '✓ `Edit src/shop/cart.py` +1 -2 ⋯')
    eq(head(28, { diff = diff }), '✓ `Edit src/shop/cart.py` ⋯')
    eq(head(20, { diff = diff }), '✓ `Edit src/shop/c…` ⋯')
    eq(head(36), '✓ `Edit src/shop/cart.py` ⋯ 3 lines')
    eq(head(60), '✓ `Edit src/shop/cart.py` · 10 ms ⋯ 3 lines')
    eq(
      head(44, { diff = diff, output = 'edited\nThe editor reports 1 new error:\na.py:1:1: error: x' }),
      '✓ `Edit src/shop/cart.py` · 1 new error ⋯'
    )
    eq(head(36, { status = 'failed', exitCode = 3 }), '✗ `Edit src/shop/cart.py` · exit 3')
  end)

  test('render: a new error of an edit is in its fold', function()
    local block = require('agentls.render').render_item({
      kind = 'tool',
      id = 'c',
      name = 'edit_file',
      title = 'Edit a.py',
      status = 'completed',
      diff = '@@ -1 +1 @@\n-a\n+b\n',
      output = 'edited a.py\nThe editor reports 2 new errors:\na.py:1:1: error: b is not defined\n[1 more]',
    }, nil, { output_lines = 100, keys = false, width = 80 })
    eq(block.lines[1], '✓ `Edit a.py` +1 -1 · 2 new errors ⋯')
    assert(vim.list_contains(block.lines, 'a.py:1:1: error: b is not defined'), vim.inspect(block.lines))
    eq(block.folds, { { 0, #block.lines - 1 } })
  end)

  test('render: a question shows its choices at once, and stands only once', function()
    local draw = require('agentls.render')
    local options = { output_lines = 100, keys = { answer = '<CR>' }, width = 40 }
    local call = { kind = 'tool', id = 'c', name = 'ask_user', title = 'Ask: Which way?', status = 'running' }
    eq(draw.render_item(call, nil, options).lines, {})
    call.status = 'failed'
    eq(draw.render_item(call, nil, options).lines[1], '✗ `Ask: Which way?` · failed')
    local question = {
      kind = 'question',
      id = 'q',
      request = {
        text = 'Which way?',
        fields = {
          {
            name = 'a',
            label = '',
            choices = { { value = 'left', label = '' }, { value = 'r', label = 'right_*' } },
          },
        },
      },
    }
    eq(
      draw.render_item(question, nil, options).lines,
      { '? Which way?', '    • left', '    • right\\_\\*', '' }
    )
  end)

  test('render: text from right to left stays as it is', function()
    local draw = require('agentls.render')
    local text = 'הקובץ cart.py תוקן, می\226\128\140خواهم'
    local item = { kind = 'assistant', id = 'm', text = text, reasoning = '' }
    eq(draw.render_item(item, nil, { output_lines = 100, keys = false, width = 20 }).lines, { text })
  end)

  test('render: a hint that would wrap is left out', function()
    local draw = require('agentls.render')
    local item = {
      kind = 'changes',
      id = 't',
      standing = 'made',
      added = 12,
      removed = 3,
      files = { { path = 'src/shop/cart.py', kind = 'modified', added = 12, removed = 3 } },
    }
    local options = { output_lines = 100, keys = require('agentls.config').defaults.keys }
    for width, has_hint in pairs({ [36] = false, [80] = true }) do
      options.width = width
      eq(draw.render_item(item, nil, options, nil, true).suffix ~= nil, has_hint, tostring(width))
    end
  end)
end
