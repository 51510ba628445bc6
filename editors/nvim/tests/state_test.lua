-- The reducer replays the transcripts that all clients share, and is pure.

local support = require('tests.support')
local eq = support.eq

local function read_lines(path)
  local lines = {}
  for line in io.lines(path) do
    table.insert(lines, vim.json.decode(line))
  end
  return lines
end

---Fails if `actual` differs from a field of `expected`.
local function assert_matches(actual, expected, path)
  if expected == vim.NIL then
    assert(actual == nil, ('%s is %s, but it should not be set'):format(path, vim.inspect(actual)))
  elseif type(expected) ~= 'table' then
    assert(
      actual == expected,
      ('%s is %s, but it should be %s'):format(path, vim.inspect(actual), vim.inspect(expected))
    )
  else
    assert(
      type(actual) == 'table',
      ('%s is %s, but it should be %s'):format(path, vim.inspect(actual), vim.inspect(expected))
    )
    if vim.islist(expected) then
      local kinds = vim.inspect(vim.tbl_map(function(element)
        return type(element) == 'table' and (element.kind or '?') or element
      end, actual))
      assert(
        #actual == #expected,
        ('%s has %d elements, but it should have %d: %s'):format(path, #actual, #expected, kinds)
      )
    end
    for key, value in pairs(expected) do
      assert_matches(actual[key], value, path .. '.' .. key)
    end
  end
end

---Returns the state with the names of the transcripts.
local function project_state(state)
  local function map_field(list, field)
    return vim.tbl_map(function(element)
      return element[field]
    end, list)
  end
  return vim.tbl_extend('force', state, {
    -- Our chat also has a note for each action. The transcripts do not check it.
    items = vim.tbl_filter(function(item)
      return item.kind ~= 'note'
    end, state.items),
    approvals = map_field(state.approvals, 'approvalId'),
    inquiries = map_field(state.inquiries, 'id'),
    notices = map_field(state.notices, 'kind'),
  })
end

return function(test)
  local transcripts = support.editors .. '/transcripts'
  for name in vim.fs.dir(transcripts) do
    if name:match('%.jsonl$') then
      test('transcript ' .. name, function()
        local states = require('agentls.state')
        local state, expected = states.new('ses_4f1k'), 0
        for number, line in ipairs(read_lines(transcripts .. '/' .. name)) do
          if line.method then
            local old_state, copy = state, vim.deepcopy(state)
            local event = { method = line.method, params = line.params }
            local params = vim.deepcopy(line.params)
            state = states.reduce(state, event)
            assert(vim.deep_equal(old_state, copy), ('line %d: the state before was changed'):format(number))
            assert(vim.deep_equal(event.params, params), ('line %d: the event was changed'):format(number))
          elseif line.expect then
            expected = expected + 1
            assert_matches(project_state(state), line.expect, ('line %d: '):format(number))
          end
        end
        assert(expected > 0, 'it expects nothing')
      end)
    end
  end

  test('the reducer needs no editor', function()
    local environment =
      { pairs = pairs, ipairs = ipairs, math = math, table = table, string = string, tostring = tostring }
    local function load_module(name)
      return setfenv(
        assert(loadfile(support.plugin .. '/lua/agentls/' .. name:gsub('%.', '/') .. '.lua')),
        environment
      )()
    end
    environment.require = function(name)
      return load_module(assert(name:match('^agentls%.(.*)')))
    end
    local states = load_module('state')
    for name in vim.fs.dir(transcripts) do
      local state = states.new('ses_4f1k')
      for _, line in ipairs(name:match('%.jsonl$') and read_lines(transcripts .. '/' .. name) or {}) do
        state = line.method and states.reduce(state, line) or state
      end
    end
  end)

  test('a page that continues the state extends it, any other replaces it', function()
    local states = require('agentls.state')
    local function message(seq)
      local content = { { type = 'text', text = 'words ' .. seq } }
      return {
        method = 'agent/message',
        params = { seq = seq, messageId = 'm' .. seq, role = 'user', content = content },
      }
    end
    local function make_page(from, to, fields)
      local events = {}
      for seq = from, to do
        table.insert(events, message(seq))
      end
      return vim.tbl_extend(
        'force',
        { events = events, openApprovals = {}, seq = to, hasEarlier = from > 1, state = { title = 't' } },
        fields or {}
      )
    end
    local state = states.load_page(states.new('s'), make_page(5, 6))
    eq({ #state.items, state.seq, state.hasEarlier, state.firstSeq, state.title }, { 2, 6, true, 5, 't' })
    eq(#states.load_page(state, make_page(7, 8)).items, 4)
    eq(#states.load_page(state, make_page(9, 9)).items, 1)
    local extended = states.prepend_page(state, make_page(1, 4))
    eq(
      { #extended.items, extended.items[1].id, extended.items[6].id, extended.hasEarlier },
      { 6, 'm1', 'm6', false }
    )
    local partial = { messageId = 'p', text = 'so far', offset = 0 }
    local streaming =
      states.load_page(state, make_page(7, 7, { partial = partial, state = { runningTurnId = 't1' } }))
    local last = streaming.items[#streaming.items]
    eq({ last.text, last.open, streaming.running }, { 'so far', true, 't1' })
    local delta = { method = 'agent/textDelta', params = { messageId = 'p', offset = 6, text = ' good' } }
    streaming = states.reduce(streaming, delta)
    eq(streaming.items[#streaming.items].text, 'so far good')
  end)

  test('a load asks open questions once, and skips answered ones', function()
    local states = require('agentls.state')
    local approval =
      { approvalId = 'a', toolCallId = 'c', name = 'bash', title = 'x', input = {}, risk = 'low' }
    local limit = { limitId = 'l', limit = 'max_steps', used = 1, max = 1, message = 'enough' }
    local question = { questionId = 'q', text = 'Which?', fields = {} }
    local function event(method, params, seq)
      return { method = 'agent/' .. method, params = vim.tbl_extend('force', params, { seq = seq }) }
    end
    local function get_open_ids(state)
      local ids = {}
      for _, item in ipairs(state.inquiries) do
        table.insert(ids, item.id)
      end
      table.sort(ids)
      return { #state.approvals, ids, #state.items }
    end
    local function load_page(events, fields)
      return vim.tbl_extend('force', { events = events, seq = 9, hasEarlier = false, state = {} }, fields)
    end
    local open = { openApprovals = { approval }, openLimits = { limit }, openQuestions = { question } }
    -- Asked before the page, and again in it.
    eq(get_open_ids(states.load_page(states.new('s'), load_page({}, open))), { 1, { 'l', 'q' }, 3 })
    local requests = { event('limitRequested', limit, 8), event('questionRequested', question, 9) }
    local state = states.load_page(states.new('s'), load_page(requests, open))
    eq(get_open_ids(state), { 1, { 'l', 'q' }, 3 })
    eq(get_open_ids(states.load_page(state, load_page({}, open))), { 1, { 'l', 'q' }, 3 })
    local answered = { event('limitResolved', { limitId = 'l', outcome = 'stopped', by = 'person' }, 10) }
    state = states.load_page(state, load_page(answered, { openQuestions = { question }, seq = 10 }))
    eq(get_open_ids(state), { 1, { 'q' }, 3 })
  end)

  test('live output stays small', function()
    local states = require('agentls.state')
    local state = states.new('s')
    local call = { toolCallId = 'c', name = 'bash', title = 'x', status = 'running' }
    state = states.reduce(state, { method = 'agent/toolCall', params = call })
    for i = 1, 200 do
      local params = { toolCallId = 'c', text = ('line %d %s\n'):format(i, ('x'):rep(500)) }
      state = states.reduce(state, { method = 'agent/toolOutputDelta', params = params })
    end
    assert(#state.items[1].live <= states.LIVE_BYTES)
    assert(vim.startswith(state.items[1].live, 'line '), 'it begins with a whole line')
    assert(state.items[1].live:find('line 200 ', 1, true))
  end)
end
