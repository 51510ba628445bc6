-- Questions and their answers: approvals, limits, questions of the agent.

local render = require('agentls.render')
local scratch = require('agentls.scratch')
local sessions = require('agentls.sessions')
local text = require('agentls.text')
local view = require('agentls.view')

local M = {}

---The approval that is meant: that of the tool call under the cursor, else the oldest open one of the session,
---else of any session.
---@return agentls.ApprovalRequestedNotification? approval
---@return agentls.Session? session
function M.open()
  local item, here = view.tool_at_cursor()
  if item and item.approval then
    return item.approval, here
  end
  local session = sessions.current()
  if session and session.state.approvals[1] then
    return session.state.approvals[1], session
  end
  for _, other in pairs(sessions.all) do
    if other.state.approvals[1] then
      return other.state.approvals[1], other
    end
  end
end

local function nothing()
  vim.notify('agentls: nothing waits for an approval', vim.log.levels.INFO)
end

---Sends an answer. That of a turn that does not run is kept for the one that goes on with it.
---@param session agentls.Session
---@param method string
---@param answer table
local function send(session, method, answer)
  if not sessions.is_ours(session) then
    return
  end
  sessions.ask(method, answer, function()
    if not session.state.running and session.state.resumable then
      vim.notify('agentls: the answer is kept; :AgentResume goes on with it', vim.log.levels.INFO)
    end
  end)
end

---@param approval agentls.ApprovalRequestedNotification
---@param session agentls.Session
---@param answer table
local function respond(approval, session, answer)
  answer.approvalId = approval.approvalId
  send(session, 'agent/approvalRespond', answer)
end

---@param decision 'allow'|'allowSession'|'allowAlways'
function M.approve(decision)
  local approval, session = M.open()
  if not approval or not session then
    return nothing()
  end
  if decision ~= 'allow' and not approval.rule then
    vim.notify('agentls: this can only be allowed once', vim.log.levels.WARN)
    return
  end
  respond(approval, session, { decision = decision })
end

---Denies. `feedback` is told to the model; absent: the person is asked for it, and may leave the question open.
---@param feedback? string
function M.deny(feedback)
  local approval, session = M.open()
  if not approval or not session then
    return nothing()
  end
  local function deny(words)
    respond(approval, session, { decision = 'deny', feedback = words ~= '' and words or nil })
  end
  if feedback then
    return deny(feedback)
  end
  local prompt = ('Deny "%s". What shall the model know? (empty: nothing, Esc: back) '):format(
    text.one_line(approval.title, 60)
  )
  vim.ui.input({ prompt = prompt }, function(words)
    if words then
      deny(words)
    end
  end)
end

---Edits the arguments of what is asked, as JSON in a buffer; writing it allows the call with them.
function M.edit()
  local approval, session = M.open()
  if not approval or not session then
    return nothing()
  end
  local function edit(json)
    local told = (' arguments of %s · :w allows the call with them · :q leaves it open'):format(
      approval.name
    )
    scratch.write('arguments/' .. approval.approvalId, 'json', vim.split(json, '\n'), told, function(words)
      local right, input = pcall(vim.json.decode, words)
      if not right then
        vim.notify('agentls: this is no JSON: ' .. tostring(input), vim.log.levels.ERROR)
        return false
      end
      respond(approval, session, { decision = 'allow', input = input })
      return true
    end)
  end
  local more = approval.more and approval.more.input
  if more then
    return sessions.read_content(session, more.ref, function(whole)
      edit(M.pretty(vim.json.decode(whole)))
    end)
  end
  edit(M.pretty(approval.input))
end

---JSON on several lines, names in order.
---@param value any
---@param indent? string
---@return string
function M.pretty(value, indent)
  indent = indent or ''
  if type(value) ~= 'table' or next(value) == nil then
    return vim.json.encode(value)
  end
  local inner, parts = indent .. '  ', {}
  if vim.islist(value) then
    for _, element in ipairs(value) do
      table.insert(parts, inner .. M.pretty(element, inner))
    end
    return '[\n' .. table.concat(parts, ',\n') .. '\n' .. indent .. ']'
  end
  local names = vim.tbl_keys(value)
  table.sort(names)
  for _, name in ipairs(names) do
    table.insert(parts, ('%s%s: %s'):format(inner, vim.json.encode(name), M.pretty(value[name], inner)))
  end
  return '{\n' .. table.concat(parts, ',\n') .. '\n' .. indent .. '}'
end

---The tool call that is meant: under the cursor, else the last one that `fits`.
local function meant(fits)
  local item, session = view.tool_at_cursor()
  if item and session and fits(item) then
    return item, session
  end
  session = session or sessions.current()
  if not session then
    return
  end
  local items = session.state.items
  for i = #items, 1, -1 do
    local other = items[i]
    if other.kind == 'tool' and fits(other) then
      return other, session
    end
  end
end

---Shows the diff of the tool call under the cursor, else of the last one that has one.
---@param turn? string Only of this turn.
function M.diff(turn)
  local item, session = meant(function(item)
    return item.diff ~= nil and item.diff ~= '' and (not turn or item.turnId == turn)
  end)
  if not item or not session then
    vim.notify('agentls: there is no diff to show', vim.log.levels.INFO)
    return
  end
  local function show(diff)
    scratch.show('diff/' .. item.id, 'diff', text.lines(diff))
  end
  local more = item.more and item.more.diff
    or (item.approval and item.approval.more and item.approval.more.diff)
  if more then
    return sessions.read_content(session, more.ref, show)
  end
  show(item.diff)
end

---Shows the whole output of the tool call under the cursor, else of the last one.
function M.output()
  local item, session = meant(function(item)
    return item.output ~= nil
  end)
  if not item or not session then
    vim.notify('agentls: there is no output to show', vim.log.levels.INFO)
    return
  end
  local function show(output)
    scratch.show('output/' .. item.id, 'agentls_output', text.lines(output))
  end
  local more = item.more and item.more.output
  if more then
    return sessions.read_content(session, more.ref, show)
  end
  show(item.output)
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

---@param item agentls.Item.limit
---@param session agentls.Session
local function answer_limit(item, session)
  local unknown = item.asked.limit == 'unknown_price'
  local choices = { unknown and 'Go on all the same' or 'Raise it …', 'Stop here' }
  vim.ui.select(choices, { prompt = render.asked(item) }, function(choice)
    if choice == choices[2] then
      return send(session, 'agent/limitRespond', { limitId = item.id, stop = true })
    elseif choice ~= choices[1] then
      return
    elseif unknown then
      return send(session, 'agent/limitRespond', { limitId = item.id })
    end
    local unit = UNITS[item.asked.limit]
    vim.ui.input(
      { prompt = ('Raise it by how much%s? '):format(unit and ' (' .. unit .. ')' or '') },
      function(words)
        local amount = words and tonumber((words:gsub('^%s*%$', '')))
        if amount and amount > 0 then
          send(session, 'agent/limitRespond', { limitId = item.id, raiseBy = amount })
        elseif words and words ~= '' then
          vim.notify('agentls: `' .. words .. '` is no amount', vim.log.levels.WARN)
        end
      end
    )
  end)
end

---Asks for one field after the other; leaving one leaves the question open.
---@param item agentls.Item.limit
---@param session agentls.Session
local function answer_question(item, session)
  local fields, answers = item.asked.fields or {}, {}
  local ask_field

  local function answered(i, name, values)
    answers[name] = values
    ask_field(i + 1)
  end

  ---One choice, or several: then each pick is added until "done".
  local function choose(i, field, prompt, picked)
    local list = vim.tbl_filter(function(choice)
      return not vim.list_contains(picked, choice.value)
    end, field.choices)
    if field.free then
      table.insert(list, { label = 'Something else …', free = true })
    end
    if field.several and #picked > 0 then
      table.insert(list, 1, { label = ('Done: %s'):format(table.concat(picked, ', ')), done = true })
    end
    vim.ui.select(list, {
      prompt = prompt,
      format_item = function(choice)
        return choice.label ~= '' and choice.label or choice.value
      end,
    }, function(choice)
      if not choice then
        return
      elseif choice.done then
        return answered(i, field.name, picked)
      elseif choice.free then
        vim.ui.input({ prompt = prompt .. ' ' }, function(words)
          if words then
            answered(i, field.name, vim.list_extend(picked, { words }))
          end
        end)
      elseif field.several then
        choose(i, field, prompt, vim.list_extend(picked, { choice.value }))
      else
        answered(i, field.name, { choice.value })
      end
    end)
  end

  ask_field = function(i)
    local field = fields[i]
    if not field then
      return send(session, 'agent/questionRespond', { questionId = item.id, answers = answers })
    end
    local label = field.label ~= '' and field.label or nil
    local prompt = (i == 1 and render.asked(item) or '')
      .. (label and (i == 1 and ' — ' or '') .. label or '')
    if #(field.choices or {}) > 0 then
      return choose(i, field, prompt, {})
    end
    vim.ui.input({ prompt = prompt .. ' ' }, function(words)
      if words and (words ~= '' or not field.required) then
        answered(i, field.name, words ~= '' and { words } or {})
      end
    end)
  end
  if #fields == 0 then
    return send(session, 'agent/questionRespond', { questionId = item.id, dismissed = true })
  end
  ask_field(1)
end

---The limit or question that is meant: under the cursor, else the oldest open one of the session, else of any.
---@return agentls.Item.limit? item
---@return agentls.Session? session
local function open_question()
  local here, session = view.item_at_cursor()
  session = session or sessions.current()
  local list = session and session.state.asked or {}
  for _, item in ipairs(list) do
    if here and here.kind == item.kind and here.id == item.id then
      return item, session
    end
  end
  if list[1] then
    return list[1], session
  end
  for _, other in pairs(sessions.all) do
    if other.state.asked[1] then
      return other.state.asked[1], other
    end
  end
end

---Answers a limit or a question; false when none is open.
---@param refuse? boolean Asks nobody: the limit holds, the question is not answered.
---@return boolean
function M.answer(refuse)
  local item, session = open_question()
  if not item or not session then
    return false
  end
  if refuse and item.kind == 'limit' then
    send(session, 'agent/limitRespond', { limitId = item.id, stop = true })
  elseif refuse then
    send(session, 'agent/questionRespond', { questionId = item.id, dismissed = true })
  elseif item.kind == 'limit' then
    answer_limit(item, session)
  else
    answer_question(item, session)
  end
  return true
end

return M
