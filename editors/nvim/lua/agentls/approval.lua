-- Answers approvals, limits, and questions from the agent, and shows the details of tool calls. It must not decide
-- which question the user means; questions.lua does.

local attention = require('agentls.attention')
local client = require('agentls.client')
local config = require('agentls.config')
local dialog = require('agentls.dialog')
local losses = require('agentls.losses')
local notifications = require('agentls.notifications')
local questions = require('agentls.questions')
local render = require('agentls.render')
local rules = require('agentls.rules')
local scratch = require('agentls.scratch')
local sessions = require('agentls.sessions')
local format = require('agentls.format')
local text_input = require('agentls.text_input')
local view = require('agentls.view')
local web_address = require('agentls.web_address')

local M = {}

---Sends an answer. If the turn is not running, the server keeps the answer until the turn is resumed.
---@param question agentls.Question
---@param method string
---@param answer table
---@param report string What to report before the subject.
---@param subject? string Default: what the question asks.
---@param key? string The key that answers. Repeated, it also answers the next question.
local function send_answer(question, method, answer, report, subject, key)
  local session = question.session
  if not sessions.ensure_writable(session) then
    return
  elseif not questions.is_open(question) then
    return notifications.notify_line('this question has already been answered')
  end
  questions.begin_answer(question)
  -- Do this before the response arrives. After it, the card may be folded and the cursor elsewhere.
  local next = questions.focus_next(question, key)
  questions.return_to_prompt(session)
  client.request(method, answer, function(err)
    if err then
      questions.fail_answer(question)
      return sessions.report_error(err)
    end
    if not session.state.running and session.state.resumable then
      report = 'answer saved; continue with :AgentResume: ' .. report
    end
    subject = subject or questions.summarize_question(question)
    local next_hint = next
        and ' · next: ' .. format.display_text(format.single_line(questions.summarize_question(next), 40))
      or ''
    notifications.notify_line(report .. ': ', subject, next_hint)
  end)
end

---@param question agentls.Question
---@param answer table
---@param report string
---@param subject? string
---@param key? string
local function send_decision(question, answer, report, subject, key)
  answer.approvalId = question.request.approvalId
  send_answer(question, 'agent/approvalRespond', answer, report, subject, key)
end

---The requests of which the user has opened what their cards do not contain.
---@type table<table, boolean>
local viewed = setmetatable({}, { __mode = 'k' })

---@param item agentls.Item.tool
local function mark_viewed(item)
  if item.approval then
    viewed[item.approval] = true
  end
end

---@type fun(question: agentls.Question): boolean
local show_hidden_part
---@type fun(question: agentls.Question), fun(question: agentls.Question)
local answer_limit, answer_question

---What to report for a decision that keeps a rule.
local RULE_REPORTS = {
  allowSession = 'allowed for this session',
  allowAlways = 'allowed from now on',
}

---The effect of each decision, for hints.
local EFFECTS = {
  allow = 'allows it once',
  allowSession = 'allows it for this session',
  allowAlways = 'allows it from now on',
}
local COMMAND_ARGUMENTS = { allow = '', allowSession = ' session', allowAlways = ' always' }

---Allows the call whose card is under the cursor; otherwise shows the oldest open question.
---@param decision 'allow'|'allowSession'|'allowAlways'
---@param key? string The key that was typed. Default: a command.
function M.approve_call(decision, key)
  local question = questions.take_question({
    key = key,
    is_allowing = true,
    needs_rule = decision ~= 'allow',
    repeat_hint = key and ('%s again %s'):format(key, EFFECTS[decision])
      or (':AgentApprove%s again allows it'):format(COMMAND_ARGUMENTS[decision]),
  })
  if not question or show_hidden_part(question) then
    return
  elseif decision == 'allow' then
    return send_decision(question, { decision = decision }, 'allowed once', nil, key)
  elseif not question.request.rule then
    return notifications.notify_line('this can only be allowed once', nil, nil, vim.log.levels.WARN)
  end
  local subject = rules.summarize_rules(question.request.rule)
  local answer = key or (':AgentApprove%s'):format(COMMAND_ARGUMENTS[decision])
  if rules.is_wide(question.request.rule) and not questions.confirm(question, decision, key) then
    return notifications.notify_line(
      answer .. ' again allows more than this call: ',
      subject,
      nil,
      vim.log.levels.WARN
    )
  end
  -- Another key must not keep the rule of the next question.
  send_decision(question, { decision = decision }, RULE_REPORTS[decision], subject)
end

---Answers the oldest open question from the prompt: allows a call once, or asks for the answer to a question.
---@param key string
function M.answer_from_prompt(key)
  local question = questions.take_from_prompt(key .. ' again answers it')
  if not question then
    return
  elseif question.kind == 'approval' then
    if not show_hidden_part(question) then
      send_decision(question, { decision = 'allow' }, 'allowed once')
    end
  elseif question.kind == 'limit' then
    answer_limit(question)
  else
    answer_question(question)
  end
end

---Denies the call whose card is under the cursor; otherwise shows the oldest open question.
---@param feedback? string For the model. Default: prompts for it; the user can still leave the question open.
---@param key? string
function M.deny_call(feedback, key)
  local question = questions.take_question({
    key = key,
    repeat_hint = key and key .. ' again denies it' or ':AgentDeny again denies it',
  })
  if not question then
    return
  end
  local function send_denial(text)
    send_decision(question, { decision = 'deny', feedback = text ~= '' and text or nil }, 'denied')
  end
  if feedback then
    return send_denial(feedback)
  end
  local prompt = ('Deny "%s". Feedback for the model (empty: none, Esc: cancel) '):format(
    format.display_text(format.single_line(questions.summarize_question(question), 60))
  )
  text_input.ask(
    { prompt = prompt, key = 'deny ' .. question.request.approvalId, is_retryable = true },
    send_denial
  )
end

---Opens the arguments of a call as JSON in a buffer. Writing the buffer allows the call with them.
---@param key string
function M.edit_call(key)
  local question = questions.take_question({ key = key, repeat_hint = key .. ' again edits it' })
  if not question then
    return
  end
  local approval = question.request
  local function edit_arguments(json)
    local bar = (' arguments of %s · :w allows the call with them · :q leaves it open'):format(
      format.display_text(approval.name)
    )
    local lines = vim.split(format.reveal_hidden_json(json), '\n')
    scratch.open_editor('arguments/' .. approval.approvalId, 'json', lines, bar, function(text)
      local is_valid, input = pcall(vim.json.decode, text)
      if not is_valid then
        notifications.notify('not valid JSON: ' .. tostring(input), vim.log.levels.ERROR)
        return false
      end
      send_decision(question, { decision = 'allow', input = input }, 'allowed once, as edited')
      return true
    end)
  end
  local truncated = approval.more and approval.more.input
  if truncated then
    local edit_full_text = attention.guard('the arguments are ready; press the key again', function(full_text)
      edit_arguments(M.format_json(vim.json.decode(full_text)))
    end)
    return sessions.read_content(question.session, truncated.ref, edit_full_text)
  end
  edit_arguments(M.format_json(approval.input))
end

---Shows the diff of the card under the cursor. If the card has none, shows an open question first.
---@param key string
function M.show_diff_by_key(key)
  local item, session = view.get_tool_at_cursor()
  local has_diff = item and item.diff and item.diff ~= ''
  if session and not has_diff and #questions.list_open(session) > 0 then
    local question = questions.take_question({ key = key, repeat_hint = key .. ' again shows its diff' })
    if question then
      notifications.notify('this call has no diff')
    end
    return
  end
  vim.cmd('AgentDiff')
end

local BY_KEY = {
  allow = function(key)
    M.approve_call('allow', key)
  end,
  allowSession = function(key)
    M.approve_call('allowSession', key)
  end,
  allowAlways = function(key)
    M.approve_call('allowAlways', key)
  end,
  deny = function(key)
    M.deny_call(nil, key)
  end,
  edit = M.edit_call,
  diff = M.show_diff_by_key,
}

---Runs the action of an approval key.
---@param action string An action of `protocol.approval_keys`.
function M.run_key_action(action)
  local keys = config.current.keys
  BY_KEY[action](keys and keys[config.APPROVAL_KEY_OPTIONS[action]] or '')
end

---Resolves an approval key: to its action while a question is open, else to Vim's own key. With a count or a register
---it is always Vim's key.
---@param action string
---@param key string
---@return string keys
function M.resolve_key(action, key)
  local clipboard = vim.o.clipboard
  local unnamed = clipboard:find('unnamedplus', 1, true) and '+'
    or clipboard:find('unnamed', 1, true) and '*'
    or '"'
  if vim.v.count > 0 or vim.v.register ~= unnamed or not questions.has_question_for_keys() then
    return key
  end
  return ('<Cmd>lua require("agentls.approval").run_key_action("%s")<CR>'):format(action)
end

---Formats JSON on several lines with sorted names.
---@param value any
---@param indent? string
---@return string
function M.format_json(value, indent)
  indent = indent or ''
  if type(value) ~= 'table' or next(value) == nil then
    return vim.json.encode(value)
  end
  local inner_indent, parts = indent .. '  ', {}
  if vim.islist(value) then
    for _, element in ipairs(value) do
      table.insert(parts, inner_indent .. M.format_json(element, inner_indent))
    end
    return '[\n' .. table.concat(parts, ',\n') .. '\n' .. indent .. ']'
  end
  local names = vim.tbl_keys(value)
  table.sort(names)
  for _, name in ipairs(names) do
    table.insert(
      parts,
      ('%s%s: %s'):format(inner_indent, vim.json.encode(name), M.format_json(value[name], inner_indent))
    )
  end
  return '{\n' .. table.concat(parts, ',\n') .. '\n' .. indent .. '}'
end

---Returns the tool call under the cursor if it `matches`, else the last one that does.
local function find_tool_call(matches)
  local item, session = view.get_tool_at_cursor()
  if item and session and matches(item) then
    return item, session
  end
  session = session or sessions.get_current()
  if not session then
    return
  end
  local items = session.state.items
  for i = #items, 1, -1 do
    local other = items[i]
    if other.kind == 'tool' and matches(other) then
      return other, session
    end
  end
end

---@param item agentls.Item.tool
---@param session agentls.Session
local function show_diff_of(item, session)
  local function show_text(diff)
    scratch.show_lines('diff/' .. item.id, 'diff', format.split_lines(format.reveal_hidden(diff)))
    mark_viewed(item)
  end
  local truncated = item.more and item.more.diff
    or (item.approval and item.approval.more and item.approval.more.diff)
  if truncated then
    local show_full_text = attention.guard('the diff is ready; open it with :AgentDiff', show_text)
    return sessions.read_content(session, truncated.ref, show_full_text)
  end
  show_text(item.diff)
end

---Shows the output of a call. For an approval, shows what it asks to run, and what would be lost if the card lists only
---a part of it.
---@param item agentls.Item.tool
---@param session agentls.Session
local function show_output_of(item, session)
  local function show_text(output)
    local lines = format.split_lines(format.reveal_hidden(output))
    local summary = item.approval and losses.summarize_losses(item.approval)
    if summary and summary.full_lines then
      vim.list_extend(lines, { '', 'This would be lost for good:' })
      vim.list_extend(lines, summary.full_lines)
    end
    scratch.show_lines('output/' .. item.id, 'agentls_output', lines)
    mark_viewed(item)
  end
  local source = item.approval or item
  local truncated = source.more and source.more[item.approval and 'shown' or 'output']
  if truncated then
    local show_full_text = attention.guard('the output is ready; press the key again', show_text)
    return sessions.read_content(session, truncated.ref, show_full_text)
  end
  show_text(item.approval and item.approval.shown or item.output)
end

---Shows the arguments of a call that asks, in full.
---@param item agentls.Item.tool
---@param session agentls.Session
local function show_input_of(item, session)
  local show_text = attention.guard('the arguments are ready; press the key again', function(text)
    scratch.show_lines('input/' .. item.id, 'json', vim.split(format.reveal_hidden_json(text), '\n'))
    mark_viewed(item)
  end)
  sessions.read_content(session, item.approval.more.input.ref, function(text)
    show_text(M.format_json(vim.json.decode(text)))
  end)
end

---Opens what the card of a question does not contain, unless the user has opened it already.
---@param question agentls.Question
---@return boolean is_opened
show_hidden_part = function(question)
  local item = question.item --[[@as agentls.Item.tool]]
  local approval, more = question.request, question.request.more or {}
  local has_diff = item.diff and item.diff ~= ''
  local show
  if approval.shown then
    show = more.shown and show_output_of
  elseif not has_diff then
    show = more.input and show_input_of
  end
  if has_diff and (more.diff or #format.split_lines(item.diff) > config.current.output_lines) then
    show = show_diff_of
  end
  if not show or viewed[approval] then
    return false
  end
  show(item, question.session)
  notifications.notify_line('the card does not contain all of this call; read it, then allow it')
  return true
end

---Shows the diff of the tool call under the cursor, else the last diff of a tool call.
---@param turn? string Only calls of this turn.
function M.show_diff(turn)
  local item, session = find_tool_call(function(item)
    return item.diff ~= nil and item.diff ~= '' and (not turn or item.turnId == turn)
  end)
  if not item or not session then
    notifications.notify('there is no diff to show')
    return
  end
  show_diff_of(item, session)
end

---Shows the full output of the tool call under the cursor, else of the last one. For an approval, shows its request.
function M.show_output()
  local item, session = find_tool_call(function(item)
    return item.output ~= nil or (item.approval ~= nil and item.approval.shown ~= nil)
  end)
  if not item or not session then
    notifications.notify('there is no output to show')
    return
  end
  show_output_of(item, session)
end

local UNITS = {
  max_steps = 'steps',
  max_tool_calls = 'tool calls',
  max_turn_cost = 'US dollars',
  max_session_cost = 'US dollars',
  max_day_cost = 'US dollars',
  max_provider_day_cost = 'US dollars',
  max_wall_time_s = 'seconds',
}

---@param question agentls.Question
answer_limit = function(question)
  local item = question.item --[[@as agentls.Item.limit]]
  local is_unknown_price = item.request.limit == 'unknown_price'
  local choices = { is_unknown_price and 'Continue anyway' or 'Raise the limit …', 'Stop the turn' }
  dialog.select(choices, { prompt = format.reveal_hidden(render.get_inquiry_text(item)) }, function(choice)
    if choice == choices[2] then
      return send_answer(question, 'agent/limitRespond', { limitId = item.id, stop = true }, 'stopped')
    elseif choice ~= choices[1] then
      return
    elseif is_unknown_price then
      return send_answer(question, 'agent/limitRespond', { limitId = item.id }, 'accepted')
    end
    local unit = UNITS[item.request.limit]
    text_input.ask({
      key = 'limit ' .. item.id,
      prompt = ('Raise it by how much%s? '):format(unit and ' (' .. unit .. ')' or ''),
    }, function(text)
      local amount = tonumber((text:gsub('^%s*%$', '')))
      if amount and amount > 0 then
        send_answer(question, 'agent/limitRespond', { limitId = item.id, raiseBy = amount }, 'raised')
      elseif text ~= '' then
        notifications.notify('`' .. text .. '` is not a positive number', vim.log.levels.WARN)
      end
    end)
  end)
end

---Asks for each field in turn. If the user leaves a field, the question stays open.
---@param question agentls.Question
answer_question = function(question)
  local item = question.item --[[@as agentls.Item.limit]]
  local fields, answers = item.request.fields or {}, {}
  local url = format.find_web_address(item.request.detail or '')
  local ask_field

  ---Returns what the text of a field is for.
  local function get_key(field)
    return ('field %s of %s'):format(field.name, item.id)
  end

  local function store_answer(i, name, values)
    answers[name] = values
    ask_field(i + 1)
  end

  ---Asks for one choice; or for several, one after another, until the user picks "Done".
  local function choose_value(i, field, prompt, selected)
    local list = vim.tbl_filter(function(choice)
      return not vim.list_contains(selected, choice.value)
    end, field.choices)
    if field.free then
      table.insert(list, { label = 'Something else …', free = true })
    end
    if not field.required and #selected == 0 then
      table.insert(list, { label = 'Skip this', done = true })
    end
    if url then
      table.insert(list, { label = 'Show the address, to open it …', shows_address = true })
    end
    if field.several and #selected > 0 then
      table.insert(list, 1, { label = ('Done: %s'):format(table.concat(selected, ', ')), done = true })
    end
    dialog.select(list, {
      prompt = prompt,
      format_item = function(choice)
        return format.reveal_hidden(choice.label ~= '' and choice.label or choice.value)
      end,
    }, function(choice)
      if not choice then
        return
      elseif choice.done then
        return store_answer(i, field.name, selected)
      elseif choice.shows_address then
        web_address.ask_to_open('Address', url --[[@as string]], function()
          choose_value(i, field, prompt, selected)
        end)
      elseif choice.free then
        text_input.ask({ prompt = prompt .. ' ', key = get_key(field), is_retryable = true }, function(text)
          store_answer(i, field.name, vim.list_extend(selected, { text }))
        end)
      elseif field.several then
        choose_value(i, field, prompt, vim.list_extend(selected, { choice.value }))
      else
        store_answer(i, field.name, { choice.value })
      end
    end)
  end

  ask_field = function(i)
    local field = fields[i]
    if not field then
      return send_answer(
        question,
        'agent/questionRespond',
        { questionId = item.id, answers = answers },
        'answered'
      )
    end
    local label = field.label ~= '' and field.label or nil
    local prompt = format.reveal_hidden(
      (i == 1 and render.get_inquiry_text(item) or '')
        .. (label and (i == 1 and ' — ' or '') .. label or '')
    )
    if #(field.choices or {}) > 0 then
      return choose_value(i, field, prompt, {})
    end
    text_input.ask({ prompt = prompt .. ' ', key = get_key(field), is_retryable = true }, function(text)
      if text ~= '' or not field.required then
        store_answer(i, field.name, text ~= '' and { text } or {})
      end
    end)
  end
  if #fields == 0 then
    return send_answer(
      question,
      'agent/questionRespond',
      { questionId = item.id, dismissed = true },
      'not answered'
    )
  end
  ask_field(1)
end

---Answers the limit or question under the cursor; otherwise shows the oldest open one.
---@param refuse? boolean Without a prompt: stops at the limit, or dismisses the question.
---@param key? string
function M.answer_inquiry(refuse, key)
  local question = questions.take_question({
    key = key,
    is_inquiry = true,
    repeat_hint = key and key .. ' again answers it' or ':AgentAnswer again answers it',
  })
  if not question then
    return
  end
  local id = question.item.id
  if refuse and question.kind == 'limit' then
    send_answer(question, 'agent/limitRespond', { limitId = id, stop = true }, 'stopped')
  elseif refuse then
    send_answer(question, 'agent/questionRespond', { questionId = id, dismissed = true }, 'not answered')
  elseif question.kind == 'limit' then
    answer_limit(question)
  else
    answer_question(question)
  end
end

---Handles the answer key of the chat: answers a limit or a question, else opens or closes the fold.
---@param key string
function M.answer_or_toggle_fold(key)
  local item, session = view.get_item_at_cursor()
  local has_inquiry = session
    and vim.iter(questions.list_open(session)):any(function(question)
      return question.kind ~= 'approval'
    end)
  local is_on_approval = item and item.kind == 'tool' and item.approval
  if not has_inquiry or is_on_approval or vim.fn.foldlevel('.') > 0 then
    return pcall(vim.cmd --[[@as fun(c: string)]], 'normal! za')
  end
  M.answer_inquiry(nil, key)
end

return M
