-- Approval cards, notifications, and pickers hide nothing: hidden characters, long commands, rules, keys.

local support = require('tests.support')
local eq = support.eq

---Characters that are invisible, reorder text, or control a terminal: U+202E, U+200B, U+E0041, ESC, U+2028,
---U+FEFF, U+061C, U+3164, a C1 control.
local HIDING = {
  '\226\128\174',
  '\226\128\139',
  '\243\160\129\129',
  '\27',
  '\226\128\168',
  '\239\187\191',
  '\216\156',
  '\227\133\164',
  '\194\155',
}
local ALL = 'a' .. table.concat(HIDING, 'b') .. 'c'

local function hides_nothing(text, label)
  for _, hiding in ipairs(HIDING) do
    assert(not text:find(hiding, 1, true), ('%s hides %s: %s'):format(label, vim.inspect(hiding), text))
  end
end

---Returns the lines of a chat with one approval.
local function render_card(overrides)
  local chat = support.open_chat()
  local approval = vim.tbl_extend('force', {
    approvalId = 'a1',
    toolCallId = 'c1',
    name = 'bash',
    title = 'make',
    risk = 'high',
    why = 'runs a command',
    input = { command = 'make' },
  }, overrides)
  chat.tool(
    'c1',
    'awaitingApproval',
    { title = approval.title, name = approval.name, input = approval.input }
  )
  chat.event('approvalRequested', approval)
  return chat, table.concat(chat.lines(), '\n')
end

return function(test)
  ---Makes lists choose the entry that contains the next of `choices`. Returns what was shown and what was sent.
  local function answer_with(choices, results, body)
    local client, select, notify = require('agentls.client'), vim.ui.select, vim.notify
    local request, requests, messages = client.request, {}, {}
    client.request = function(method, params, callback)
      table.insert(requests, { method, params })
      callback(nil, results[method] or {})
    end
    vim.notify = function(message)
      table.insert(messages, message)
    end
    vim.ui.select = function(items, options, choose)
      table.insert(messages, options.prompt)
      local choice = table.remove(choices, 1)
      for i, item in ipairs(items) do
        local label = (options.format_item or tostring)(item)
        table.insert(messages, label)
        if choice and label:find(choice, 1, true) then
          return choose(item, i)
        end
      end
      choose(nil)
    end
    local ok, error_message = pcall(body)
    client.request, vim.ui.select, vim.notify = request, select, notify
    assert(ok, error_message)
    return requests, table.concat(messages, '\n')
  end

  test('reveal: writes out hidden characters and keeps normal text', function()
    local format = require('agentls.format')
    eq(
      format.reveal_hidden('rm \226\128\174txt\226\128\139 x\243\160\129\129'),
      'rm <U+202E>txt<U+200B> x<U+E0041>'
    )
    eq(format.reveal_hidden('a\27[31m\0\127\r\194\155'), 'a␛[31m␀␡␍<U+009B>')
    eq(format.reveal_hidden('a\tb\nc'), 'a\tb\nc')
    local plain = 'Grüße, 日本語 — “quotes” … ✓ 👍 é Ω ½ €'
    eq(format.reveal_hidden(plain), plain)
    -- Prose keeps a composed emoji. Text to decide on does not.
    eq(format.reveal_hidden('👩\226\128\141💻', true), '👩\226\128\141💻')
    eq(format.reveal_hidden('👩\226\128\141💻'), '👩<U+200D>💻')
    eq(format.reveal_hidden('x\226\128\174', true), 'x<U+202E>')
    eq(
      { format.reveal_hidden('a\194\160!', true), format.reveal_hidden('a\194\160!') },
      { 'a\194\160!', 'a<U+00A0>!' }
    )
    for code in
      vim.iter({
        0xad,
        0x34f,
        0x115f,
        0x180e,
        0x200b,
        0x200f,
        0x202a,
        0x2060,
        0x2066,
        0x2800,
        0xa0,
        0x202f,
        0x16fe4,
        0xfe00,
        0xe0100,
      })
    do
      eq(format.reveal_hidden(vim.fn.nr2char(code, true)), ('<U+%04X>'):format(code))
    end
    local json = vim.json.encode({ command = ALL })
    hides_nothing(format.reveal_hidden_json(json), 'JSON')
    eq(vim.json.decode(format.reveal_hidden_json(json)).command, ALL)
    hides_nothing(format.single_line(ALL, 400), 'a line')
    hides_nothing(format.display_text(ALL), 'a name')
  end)

  test('split_columns: the pieces make up the line', function()
    local format = require('agentls.format')
    local line = 'one two three four five ' .. ('x'):rep(50) .. ' ünïcödé 日本語日本語日本語 end'
    for width = 4, 40 do
      local segments = format.split_columns(line, width, vim.api.nvim_strwidth)
      eq(table.concat(segments), line)
      for _, segment in ipairs(segments) do
        assert(vim.api.nvim_strwidth(segment) <= width, ('%d: %s'):format(width, segment))
      end
    end
    eq(format.split_columns('', 10, vim.api.nvim_strwidth), { '' })
  end)

  test('card: hidden characters are revealed in every field', function()
    local approval = {
      title = 'run ' .. ALL,
      why = 'because ' .. ALL,
      shown = 'echo ' .. ALL,
      options = { 'keeps running ' .. ALL },
      rule = 'bash(' .. ALL .. ')',
      input = { command = ALL },
    }
    local chat, lines = render_card(approval)
    hides_nothing(lines, 'the card')
    hides_nothing(chat.virtual(), 'beside the card')
    for _, overrides in ipairs({
      {
        name = 'write_file',
        title = 'Write',
        input = { path = ALL, content = 'x\n' .. ALL, list = { ALL } },
      },
      {
        name = 'edit_file',
        title = 'Edit',
        diff = ('--- a/%s\n+++ b/%s\n@@ -1 +1 @@\n-a\n+%s\n'):format(ALL, ALL, ALL),
      },
    }) do
      hides_nothing(select(2, render_card(overrides)), overrides.name)
    end
  end)

  test('card: a long command is complete, and its text cannot imitate the frame', function()
    local command = 'echo '
      .. ('0123456789 '):rep(400)
      .. '\n```\n↳ rm -rf /\n'
      .. ('y'):rep(5000)
      .. ' END'
    local chat, lines = render_card({ shown = command, input = { command = 'cut…' }, title = 'echo' })
    local joined = lines:gsub('\n', '')
    assert(joined:find('echo ' .. ('0123456789 '):rep(400), 1, true), 'its first line is cut')
    assert(joined:find(('y'):rep(5000) .. ' END', 1, true), 'its last line is cut')
    assert(lines:find('````sh\n', 1, true), lines:sub(1, 200))
    -- A continuation has a virtual mark. The forged one has none.
    local marks = {}
    local blocks = vim.api.nvim_get_namespaces()['agentls.blocks']
    for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(chat.buffer, blocks, 0, -1, { details = true })) do
      if mark[4].virt_text and mark[4].virt_text[1][1] == '↳ ' then
        marks[mark[2] + 1] = true
      end
    end
    for i, line in ipairs(chat.lines()) do
      if vim.startswith(line, 'yyy') and i > 1 then
        eq(marks[i] or false, vim.startswith(chat.lines()[i - 1], 'yyy'), line)
      elseif vim.startswith(line, '↳ rm') then
        eq(marks[i], nil, line)
      end
    end
  end)

  test('card: a truncated field says so and can be opened', function()
    local long = { shown = { ref = 'r1', bytes = 300000 }, input = { ref = 'r2', bytes = 400000 } }
    local _, lines = render_card({ shown = 'echo long', title = 'echo', more = long })
    assert(lines:find('⋯ 300 KB are not shown here: o opens all', 1, true), lines)
    vim.fn.search('echo long')
    local requests = answer_with(
      {},
      { ['agent/readContent'] = { text = 'echo long \226\128\174END' } },
      function()
        require('agentls.approval').show_output()
      end
    )
    eq(requests[1][2].ref, 'r1')
    eq(vim.api.nvim_buf_get_lines(0, 0, -1, false), { 'echo long <U+202E>END' })
    vim.cmd('close')
    _, lines = render_card({ name = 'other', input = { long = 'cut…' }, more = long })
    assert(lines:find('⋯ cut: 400 KB in all: e opens all', 1, true), lines)
    local diff = '--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n'
    _, lines =
      render_card({ name = 'edit_file', diff = diff, more = { diff = { ref = 'r3', bytes = 500000 } } })
    assert(lines:find('⋯ 500 KB are not shown here: d opens all', 1, true), lines)
  end)

  test('card: shows the risk, the reason, the options, the full rule and the keys', function()
    local rule = 'bash(' .. ('git *log* '):rep(30) .. 'END)'
    local chat, lines =
      render_card({ shown = 'git log', options = { 'keeps running in the background' }, rule = rule })
    assert(lines:find('  high risk · runs a command\n  ! keeps running in the background\n', 1, true), lines)
    local full_rule = lines
      :match('s and a allow more than this call %(press twice%):\n(.*)')
      :gsub('\n    ', '')
      :gsub('[`\n]', '')
    assert(full_rule:find(rule:match('%((.*)%)'), 1, true), lines)
    local keys = chat.virtual()
    local order = {}
    for _, entry in ipairs(require('agentls.protocol').approval_keys) do
      table.insert(order, keys:find('%f[%w]' .. entry.key .. '\n? %a') or keys:find(entry.key, 1, true))
    end
    assert(keys:find('y allow', 1, true) and keys:find('a always', 1, true), keys)
    eq(keys:find('d diff', 1, true), nil, 'there is no diff')
    for _, risk in ipairs({ 'low', 'medium' }) do
      assert(select(2, render_card({ risk = risk })):find(risk .. ' risk', 1, true))
    end
    -- Without a rule, the keys that save one are not offered.
    assert(not render_card({}).virtual():find('always', 1, true))
  end)

  test('card: lists what would be lost above the keys, and says it once', function()
    local chat, lines = render_card({
      shown = 'rm -rf data b',
      why = 'deletes or overwrites for good: data/a.bin (70.0 MB), b (1 byte) · runs a command in the sandbox',
      otherWhy = 'runs a command in the sandbox',
      loses = { { what = 'data/a.bin', bytes = 70000000 }, { what = 'b', bytes = 1 } },
    })
    assert(lines:find('  high risk · runs a command in the sandbox\n', 1, true), lines)
    local list = '  ! This would be lost for good:\n    `data/a.bin` · 70 MB\n    `b` · 1 byte\n'
    assert(lines:find('```\n' .. list, 1, true), lines)
    assert(chat.virtual():find('y allow', 1, true), chat.virtual())
    -- In a narrow window, a long path wraps. Its size moves to a line of its own if it does not fit.
    local what, short = ('deep/'):rep(30) .. 'results.csv', ('x'):rep(26)
    local loses = { { what = what, bytes = 20000 }, { what = short, bytes = 3 } }
    chat = render_card({ why = 'deletes or overwrites for good: ' .. short, loses = loses })
    vim.cmd('leftabove vnew')
    vim.api.nvim_win_set_width(chat.window, 36)
    -- Another event draws the card again.
    chat.say('m1', 'text')
    lines = table.concat(chat.lines(), '\n')
    assert(lines:gsub('`\n    `', ''):find('    `' .. what .. '` · 20 KB\n', 1, true), lines)
    assert(lines:find('    `' .. short .. '`\n      · 3 bytes\n', 1, true), lines)
    for _, line in ipairs(chat.lines()) do
      assert(vim.api.nvim_strwidth(line) <= 36, line)
    end
    assert(lines:find('  high risk\n', 1, true), lines)
  end)

  test('card: a high risk stands out from the reason', function()
    local chat = render_card({ shown = 'make' })
    local row = vim.iter(ipairs(chat.lines())):find(function(_, line)
      return vim.startswith(line, '  high risk · ')
    end)
    local blocks = vim.api.nvim_get_namespaces()['agentls.blocks']
    local range = { row - 1, 0 }
    local marks = vim.api.nvim_buf_get_extmarks(
      chat.buffer,
      blocks,
      range,
      { row - 1, -1 },
      { details = true }
    )
    local groups = {}
    for _, mark in ipairs(marks) do
      eq(mark[4].line_hl_group, nil, 'a group of the whole line covers the others')
      groups[mark[4].hl_group or ''] = { mark[3], mark[4].end_col }
    end
    eq(groups.AgentlsWarn, { 2, 11 })
    eq(groups.AgentlsDim[1], 11)
  end)

  test('card: a long list of losses shows its first rows, and a key opens all', function()
    local loses = {}
    for i = 1, 20 do
      loses[i] = { what = 'f' .. i, bytes = 1 }
    end
    local more = { count = 480, isPartial = true }
    local card = { shown = 'rm -rf many', why = 'deletes', loses = loses, losesMore = more }
    local _, lines = render_card(card)
    assert(lines:find('`f5` · 1 byte\n    and at least 495 more: o opens all\n', 1, true), lines)
    assert(not lines:find('`f6`', 1, true), lines)
    vim.fn.search('rm -rf')
    require('agentls.approval').show_output()
    local text = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n')
    local expected =
      '^rm %-rf many\n\nThis would be lost for good:\nf1 %(1 byte%)\n.*\nf20 %(1 byte%)\nand at least 480 more$'
    assert(text:find(expected), text)
    vim.cmd('close')
    -- Hidden characters are revealed.
    local chat
    chat, lines = render_card({ why = 'deletes', loses = { { what = ALL } } })
    hides_nothing(lines, 'the list')
    hides_nothing(chat.virtual(), 'beside the list')
  end)

  test('keys: have the shared defaults, and no two actions share a key', function()
    local config = require('agentls.config')
    for _, entry in ipairs(require('agentls.protocol').approval_keys) do
      eq(config.defaults.keys[config.APPROVAL_KEY_OPTIONS[entry.action]], entry.key)
    end
    -- A user who allows with `a` must not trigger "always".
    local options, problems = config.resolve_options({ keys = { approve = 'a' } })
    eq({ options.keys.approve, options.keys.approve_always }, { 'a', false })
    eq(problems, { '`keys.approve` and `keys.approve_always` are both `a`; `approve_always` is not mapped' })
    options, problems = config.resolve_options({ keys = { approve_always = '<cr>', close = 'y' } })
    eq({ options.keys.approve_always, options.keys.answer, options.keys.approve }, { '<cr>', false, false })
    eq(#problems, 2)
  end)

  test('notifications: fit on one line with hidden characters revealed', function()
    local notify, messages = vim.notify, {}
    vim.notify = function(message)
      table.insert(messages, message)
    end
    require('agentls.notifications').notify_line('allowed once: ', ALL .. (' long'):rep(200), ' · next')
    require('agentls.sessions').report_error({ code = 0, message = ALL })
    vim.notify = notify
    assert(vim.fn.strdisplaywidth(messages[1]) <= vim.v.echospace, messages[1])
    assert(vim.endswith(messages[1], '… · next'), messages[1])
    for _, message in ipairs(messages) do
      hides_nothing(message, 'a notice')
    end
  end)

  test('keys: a repeated press answers, a held key never does', function()
    local questions, approval = require('agentls.questions'), require('agentls.approval')
    local now, clock = questions.now_ms, 0
    questions.now_ms = function()
      return clock
    end
    render_card({})
    local function press_after(ms)
      clock = clock + ms
      return (answer_with({}, {}, function()
        approval.run_key_action('allow')
      end))
    end
    eq(press_after(0), {}, 'it is shown first')
    for _ = 1, 50 do
      eq(press_after(33), {}, 'held down')
    end
    eq(press_after(399), {})
    eq(press_after(400), { { 'agent/approvalRespond', { approvalId = 'a1', decision = 'allow' } } })
    eq(press_after(400), {}, 'twice')
    -- The same call with other arguments is another question, so it is shown first.
    local chat = render_card({})
    eq(press_after(0), {})
    local repeated_approval =
      { approvalId = 'a1', toolCallId = 'c1', name = 'bash', title = 'make', risk = 'high', why = 'runs' }
    chat.event(
      'approvalRequested',
      vim.tbl_extend('force', repeated_approval, { input = { command = 'rm -rf .' } })
    )
    eq(press_after(500), {}, 'asked again')
    eq(#press_after(400), 1)
    questions.now_ms = now
  end)

  test('rules: are described in words, the narrowest first', function()
    local rules = require('agentls.rules')
    for rule, expected in pairs({
      ['bash_sandboxed'] = { 'every command that stays in the sandbox', true },
      ['bash_sandboxed(cat .env)'] = { 'in the sandbox, the command cat .env', false },
      ['bash'] = { 'every command, also outside the sandbox', true },
      ['bash(make)'] = { 'the command make', false },
      ['bash(cargo test *)'] = { 'the command cargo test, with anything after it', true },
      ['bash(git *log* END)'] = { 'the command git *log* END', true },
      ['bash(echo \\*)'] = { 'the command echo \\*', false },
      ['bash_outside(make install *)'] = { 'outside the sandbox, exactly make install *', false },
      ['edit_file(a.py)'] = { 'edits of a.py', false },
      ['write_file(src/**)'] = { 'writing src/**', true },
      ['web_search'] = { 'every web search', true },
      ['web_fetch(https://docs.rs/%41*)'] = { 'reading the address https://docs.rs/%41*', true },
      ['mcp:tickets/search'] = { 'the tool search of the MCP server tickets', true },
      ['mcp:tickets/*'] = { 'every tool of the MCP server tickets', true },
      ['newer_tool(x)'] = { 'calls of newer_tool with x', false },
      ['newer_tool'] = { 'every call of newer_tool', true },
    }) do
      local description = rules.describe_rule(rule)
      eq({ description.text, description.is_wide }, expected, rule)
    end
    eq(
      rules.summarize_rules('bash(cargo build *), bash(npm run a\\(b, c\\), d)'),
      'the command npm run a\\(b, c\\), d; the command cargo build, with anything after it'
    )
    local _, lines = render_card({ rule = 'bash_sandboxed' })
    local shown = lines:gsub('\n    ', ''):gsub('[`\n]', '')
    assert(
      shown:find('allow more than this call (press twice):every command that stays in the sandbox', 1, true),
      lines
    )
    assert(not lines:find('bash_sandboxed', 1, true), lines)
  end)

  ---Presses an approval key `ms` after the last one. Returns the requests, and what was reported.
  local function make_presser(results)
    local questions, approval = require('agentls.questions'), require('agentls.approval')
    local now, clock = questions.now_ms, 0
    questions.now_ms = function()
      return clock
    end
    local function press(action)
      clock = clock + 500
      return answer_with({}, results or {}, function()
        approval.run_key_action(action)
      end)
    end
    return press, function()
      questions.now_ms = now
    end
  end

  test('keys: a call that can only be allowed once says so at the first press', function()
    local press, restore = make_presser()
    render_card({})
    local _, messages = press('allowAlways')
    assert(messages:find('it can only be allowed once', 1, true), messages)
    assert(not messages:find('again', 1, true), messages)
    restore()
  end)

  test('keys: what the card does not contain must be opened before it can be allowed', function()
    local truncated = { ref = 'r1', bytes = 300000 }
    local diff = '--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n'
    for _, overrides in ipairs({
      { shown = 'echo long', more = { shown = truncated } },
      { name = 'other', input = { long = 'cut…' }, more = { input = truncated } },
      { name = 'edit_file', diff = diff, more = { diff = truncated } },
    }) do
      local press, restore = make_presser({ ['agent/readContent'] = { text = '{"long":"all of it"}' } })
      local chat = render_card(overrides)
      if overrides.diff then
        chat.tool('c1', 'awaitingApproval', { title = 'make', name = 'edit_file', diff = diff })
      end
      press('allow')
      local requests, messages = press('allow')
      eq(requests[1][1], 'agent/readContent')
      assert(messages:find('does not contain all of this call', 1, true), messages)
      assert(table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n'):find('all of it', 1, true))
      vim.cmd('close')
      vim.api.nvim_set_current_win(chat.window)
      requests = press('allow')
      eq(requests[1] and requests[1][1], 'agent/approvalRespond')
      restore()
    end
    -- A denial needs nothing.
    local press, restore = make_presser()
    render_card({ shown = 'echo long', more = { shown = truncated } })
    local input = vim.ui.input
    vim.ui.input = function(_, enter)
      enter('')
    end
    press('deny')
    eq(press('deny')[1][2].decision, 'deny')
    vim.ui.input = input
    restore()
  end)

  test('keys: a card that is taller than the window is shown to its end before it can be allowed', function()
    local press, restore = make_presser()
    local lines = {}
    for i = 1, 3 * vim.o.lines do
      lines[i] = 'echo line ' .. i
    end
    local chat = render_card({ shown = table.concat(lines, '\n') })
    press('allow')
    local presses, requests = 0, {}
    while #requests == 0 and presses < 20 do
      local last_seen_row = vim.fn.line('w$', chat.window)
      requests = press('allow')
      presses = presses + 1
      local is_at_end = last_seen_row >= vim.api.nvim_buf_line_count(chat.buffer) - 2
      eq(#requests > 0, is_at_end, 'press ' .. presses)
    end
    assert(presses > 3, presses)
    restore()
  end)

  test('keys: a rule that is wider than the call needs a second press', function()
    local questions, approval = require('agentls.questions'), require('agentls.approval')
    local now, clock = questions.now_ms, 0
    questions.now_ms = function()
      return clock
    end
    local function press_after(ms, action)
      clock = clock + ms
      local requests, messages = answer_with({}, {}, function()
        approval.run_key_action(action)
      end)
      return #requests > 0 and requests[1][2].decision or messages
    end
    local wide_notice = ' again allows more than this call: every'
    for _, action in ipairs({ 'allowAlways', 'allowSession' }) do
      local key = action == 'allowAlways' and 'a' or 's'
      render_card({ rule = 'bash_sandboxed' })
      assert(press_after(500, action):find(key .. ' again allows it', 1, true), 'it is shown first')
      assert(press_after(500, action):find(key .. wide_notice, 1, true), 'it asks for a confirmation')
      assert(press_after(399, action):find(key .. ' again', 1, true), 'a held key confirms nothing')
      eq(press_after(500, action), action)
    end
    -- Another decision does not confirm it, and a narrow rule needs no confirmation.
    render_card({ rule = 'bash_sandboxed' })
    press_after(500, 'allowAlways')
    assert(press_after(500, 'allowAlways'):find(wide_notice, 1, true))
    assert(press_after(500, 'allowSession'):find('s again', 1, true))
    render_card({ rule = 'edit_file(a.py)' })
    press_after(500, 'allowAlways')
    eq(press_after(500, 'allowAlways'), 'allowAlways')
    questions.now_ms = now
  end)

  test('trust: asks about each redirect, and only after the whole list was visible', function()
    local trust = require('agentls.trust')
    local description = {
      folder = '/tmp/' .. ALL,
      trusted = false,
      activates = {
        {
          kind = 'hook',
          name = 'greet' .. ALL,
          detail = 'on session_start',
          command = 'echo ' .. ALL .. '\nls',
        },
        { kind = 'tool', name = 'deploy', detail = 'a tool', command = 'make deploy' },
        { kind = 'setting', name = 'agent.default.mode', detail = '"full"' },
        { kind = 'gitSetting', name = 'alias.st', detail = 'from .git/config', command = '!./st.sh' },
        { kind = 'other', name = 'newer', detail = 'than this plugin' },
      },
      redirects = {
        {
          provider = 'one',
          from = 'https://a',
          to = 'https://evil/' .. ALL,
          sends = { '$KEY' },
          accepted = false,
        },
        { provider = 'two', to = 'https://b', sends = {}, accepted = false },
        { provider = 'three', to = 'https://c', sends = {}, accepted = true },
      },
    }
    local lines = table.concat(trust.format_trust(description), '\n')
    hides_nothing(lines, 'the list')
    for _, expected in ipairs({
      '$ ls',
      '$ make deploy',
      'agent.default.mode: "full"',
      '## Git: it follows these settings and hooks of its repositories',
      'alias.st: from .git/config\n      $ !./st.sh',
      'newer',
      'sends $KEY',
      '(accepted)',
    }) do
      assert(lines:find(expected, 1, true), expected .. ' in:\n' .. lines)
    end
    local function review_trust(...)
      local requests, messages = answer_with({ ... }, { ['agent/describeTrust'] = description }, function()
        -- The list does not fit, so the user must read it first.
        trust.review_trust()
        trust.review_trust()
      end)
      vim.cmd('silent! only | enew')
      hides_nothing(messages, 'the questions')
      return vim.list_slice(requests, 3), messages
    end
    eq(review_trust(), {})
    eq(review_trust('No'), {})
    local folder = vim.uri_from_fname(description.folder)
    eq(review_trust('Yes', 'No', 'Yes'), {
      {
        'agent/setTrust',
        { folder = folder, trusted = true, acceptRedirects = { { provider = 'two', to = 'https://b' } } },
      },
    })
    -- Leaving a question means no.
    local requests, messages = review_trust('Yes')
    eq(requests, { { 'agent/setTrust', { folder = folder, trusted = true } } })
    local _, count = messages:gsub('Redirect ', '')
    eq(count, 2, 'the accepted one is not asked about again')
    requests, messages = answer_with({ 'Yes' }, { ['agent/describeTrust'] = description }, trust.review_trust)
    eq(#requests, 1)
    assert(messages:find('read the whole list', 1, true), messages)
    description.activates[1].command = 'echo another'
    requests = answer_with({ 'Yes' }, { ['agent/describeTrust'] = description }, trust.review_trust)
    eq(#requests, 1, 'another list was not read')
    vim.cmd('silent! only | enew')
    description.trusted = true
    eq(review_trust('Stop trusting it'), { { 'agent/setTrust', { folder = folder, trusted = false } } })
  end)

  test('grants: show the full rule with hidden characters, and report the revocation', function()
    local rule = 'bash(' .. ('git log '):rep(40) .. ALL .. ' END)'
    local grant =
      { grantId = 'g1', rule = rule, scope = 'workspace', folder = '/tmp/' .. ALL, grantedAt = 1767225600000 }
    local results = { ['agent/listGrants'] = { grants = { grant } } }
    local requests, messages = answer_with({ 'git log' }, results, require('agentls.grants').choose_grant)
    eq(requests[2], { 'agent/revokeGrant', { grantId = 'g1' } })
    hides_nothing(messages, 'the list')
    assert(messages:find(' END · every session here', 1, true), messages)
    assert(messages:find('revoked: the command git ', 1, true), messages)
  end)

  test('pickers: reveal hidden characters in titles and names', function()
    local picker, sessions = require('agentls.picker'), require('agentls.sessions')
    local client = require('agentls.client')
    local ensure = client.ensure_ready
    client.ensure_ready = function(callback)
      callback()
    end
    local results = {
      ['agent/listSessions'] = {
        sessions = { { sessionId = 's', title = ALL, snippet = ALL, updatedAt = 0 } },
      },
      ['agent/listAgents'] = { agents = { { name = ALL, mode = 'ask', model = ALL, description = ALL } } },
    }
    for _, list in ipairs({ picker.pick_session, picker.pick_agent }) do
      local _, messages = answer_with({}, results, function()
        list()
      end)
      hides_nothing(messages, 'a list')
    end
    client.ensure_ready = ensure
    local chat = support.open_chat()
    chat.event('questionRequested', {
      questionId = 'q1',
      text = 'Which ' .. ALL,
      detail = ALL,
      fields = { { name = 'x', label = ALL, choices = { { value = ALL, label = ALL } } } },
    })
    hides_nothing(table.concat(chat.lines(), '\n'), 'a question')
    local questions = require('agentls.questions')
    local saved_settle_ms = questions.SETTLE_MS
    questions.SETTLE_MS = 0
    local _, messages = answer_with({}, {}, function()
      require('agentls.approval').answer_inquiry()
      require('agentls.approval').answer_inquiry()
    end)
    questions.SETTLE_MS = saved_settle_ms
    hides_nothing(messages, 'its choices')
    assert(sessions.all[chat.session.id])
  end)

  ---Opens a chat with a question, and answers it.
  local function answer_question(request, choices, inputs)
    local questions = require('agentls.questions')
    local chat = support.open_chat()
    request.questionId = 'q1'
    chat.event('questionRequested', request)
    local lines = chat.lines()
    local saved_settle_ms, input = questions.SETTLE_MS, vim.ui.input
    questions.SETTLE_MS = 0
    vim.ui.input = function(_, enter)
      enter(table.remove(inputs, 1))
    end
    local requests, messages = answer_with(choices, {}, function()
      require('agentls.approval').answer_inquiry()
      require('agentls.approval').answer_inquiry()
    end)
    questions.SETTLE_MS, vim.ui.input = saved_settle_ms, input
    return requests, messages, lines
  end

  local FORM = {
    text = 'The MCP server peer asks: Who are you?',
    detail = 'It asks during a call of peer/echo.',
    fields = {
      { name = 'name', label = 'Your name [name]', required = true },
      {
        name = 'agree',
        label = 'agree (default: false)',
        choices = { { value = 'true', label = 'Yes' }, { value = 'false', label = 'No' } },
      },
      {
        name = 'tags',
        label = 'tags (optional)',
        several = true,
        choices = { { value = 'a', label = 'A' }, { value = 'b', label = 'B' } },
      },
      { name = 'age', label = 'age (optional)' },
    },
  }

  test('a form asks for each field, and optional ones can be skipped', function()
    local requests, messages = answer_question(
      vim.deepcopy(FORM),
      { 'Skip this', 'B', 'A', 'Done: b, a' },
      { 'Ada', '' }
    )
    eq(requests, {
      {
        'agent/questionRespond',
        { questionId = 'q1', answers = { name = { 'Ada' }, agree = {}, tags = { 'b', 'a' }, age = {} } },
      },
    })
    -- What was chosen is not offered again, and cannot be skipped.
    assert(messages:find('A\nSkip this\n', 1, true) == nil, messages)
    -- A required field has no default answer, so the question stays open.
    eq(answer_question(vim.deepcopy(FORM), {}, { '' }), {})
  end)

  test('the address of a question is shown and opened on request', function()
    local url = 'https://login.example/a_b?c=1&d=*x*'
    local visit = {
      text = 'The MCP server peer asks you to open an address: Sign in.',
      detail = url .. '\nOpen it only if you know it.',
      fields = {
        {
          name = 'choice',
          label = '',
          required = true,
          choices = {
            { value = 'accept', label = 'I have opened it' },
            { value = 'decline', label = 'Decline' },
          },
        },
      },
    }
    local opened, open = {}, vim.ui.open
    vim.ui.open = function(address)
      table.insert(opened, address)
    end
    local requests, messages, lines = answer_question(
      visit,
      { 'Show the address', 'Yes, open it', 'I have opened it' },
      {}
    )
    vim.ui.open = open
    eq(opened, { url })
    eq(requests[1][2].answers, { choice = { 'accept' } })
    assert(messages:find('Open this address at login.example?', 1, true), messages)
    assert(table.concat(lines, '\n'):find('`' .. url .. '`', 1, true), table.concat(lines, '\n'))
  end)
end
