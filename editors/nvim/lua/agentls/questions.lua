-- Finds the open question that a key or a command may answer: the one under the cursor of the session's chat.
--
-- Owns which question is under the cursor of each chat window, and since when. It must not know how a question is
-- answered (approval.lua). It keeps two invariants. Before a question can be answered, it must be under the cursor for
-- SETTLE_MS without an answer key. A chat never answers a question of another session.

local notifications = require('agentls.notifications')
local sessions = require('agentls.sessions')
local view = require('agentls.view')

local M = {}

---How long a question must be under the cursor before it can be answered, in ms. An earlier key was meant for something
---else.
M.SETTLE_MS = 400

---Returns a monotonic time. Tests replace it.
---@return number ms
function M.now_ms()
  return vim.uv.hrtime() / 1e6
end

---@class agentls.Question
---@field kind 'approval'|'limit'|'question'
---@field request table The params of the request. A repeated request has other params.
---@field item agentls.Item
---@field session agentls.Session

---What a key or a command answers.
---@class agentls.AnswerRequest
---@field is_inquiry? boolean Whether it answers limits and questions from the agent, not approvals.
---@field repeat_hint string How to repeat the answer.

---The question under the cursor of a window.
---@class agentls.QuestionFocus
---@field request? table
---@field focused_at number
---@field is_announced? boolean Whether a notification showed it.
---@field is_resolved_elsewhere? boolean Whether it was resolved elsewhere.
---@field was_following? boolean Whether the window followed the end before the cursor moved to the question.

---@type table<integer, agentls.QuestionFocus>
local focus_by_window = {}

---Requests with an answer that the server has not confirmed yet.
---@type table<table, boolean>
local answering = setmetatable({}, { __mode = 'k' })

---The question of another session that an answer key last reported. Keys report it only once.
local last_reported = nil

---@param item agentls.Item?
---@param session agentls.Session
---@return agentls.Question?
local function get_open_question(item, session)
  if not item then
    return nil
  end
  local kind, request
  if item.kind == 'tool' then
    kind, request = 'approval', item.approval
  elseif (item.kind == 'limit' or item.kind == 'question') and not item.resolved then
    kind, request = item.kind, item.request
  end
  if request and not answering[request] then
    return { kind = kind, request = request, item = item, session = session }
  end
end

---Lists the open questions of a session in the order of the chat, oldest first. The calls of one message ask in random
---order, but their cards do not.
---@param session agentls.Session
---@return agentls.Question[]
function M.list_open(session)
  local open_questions = {}
  for _, item in ipairs(session.state.items) do
    local question = get_open_question(item, session)
    if question then
      table.insert(open_questions, question)
    end
  end
  return open_questions
end

---Whether a question is still open.
---@param question { request: table, session: agentls.Session }
---@return boolean
function M.is_open(question)
  for _, open in ipairs(M.list_open(question.session)) do
    if open.request == question.request then
      return true
    end
  end
  return false
end

---Returns what a question asks, as text for one line.
---@param question agentls.Question
---@return string
function M.summarize_question(question)
  local request = question.request
  if question.kind == 'approval' then
    return request.shown or request.title
  end
  return request.message
    or request.text
    or (question.kind == 'limit' and 'a limit is reached' or 'the agent asks')
end

---@param window integer
---@return agentls.Question?
local function get_question_at_cursor(window)
  local session = view.get_session_in(window)
  return session and get_open_question(view.find_card_at_cursor(window), session)
end

---Updates which question is under the cursor of a window.
---@param window integer
local function update_focus(window)
  local question, old_focus = get_question_at_cursor(window), focus_by_window[window]
  if question then
    if not old_focus or old_focus.request ~= question.request then
      focus_by_window[window] = { request = question.request, focused_at = M.now_ms() }
    end
  elseif old_focus and old_focus.request and not answering[old_focus.request] then
    local session = view.get_session_in(window)
    local is_resolved_elsewhere = session
      and not M.is_open({ request = old_focus.request, session = session })
    focus_by_window[window] = is_resolved_elsewhere
        and { focused_at = M.now_ms(), is_resolved_elsewhere = true }
      or nil
  end
end

---Starts to track the question under the cursor of each chat.
function M.track_cursor()
  view.on_cursor_change = update_focus
end

---Moves the cursor of a window to a question, which can then be answered.
---@param window integer
---@param question agentls.Question
local function focus_question(window, question)
  local old_focus = focus_by_window[window]
  local was_following = view.is_following(window) or (old_focus and old_focus.was_following)
  if view.scroll_to_card(window, question.item) then
    focus_by_window[window] = {
      request = question.request,
      focused_at = M.now_ms(),
      is_announced = true,
      was_following = was_following,
    }
    vim.cmd('redraw')
  end
end

---Returns the session that the user means: of the current window, else of this tab page, else the current session.
---@return agentls.Session?
local function find_target_session()
  local visible_session = view.get_session_in(vim.api.nvim_get_current_win())
    or sessions.all[vim.b.agentls_session or '']
  local chat = not visible_session and view.find_windows()
  return visible_session or (chat and view.get_session_in(chat)) or sessions.get_current()
end

---Returns the oldest open question of all other sessions.
---@param session? agentls.Session
---@return agentls.Question?
local function find_other_question(session)
  local oldest
  for _, other in pairs(sessions.all) do
    local question = other ~= session and M.list_open(other)[1]
    if question and (not oldest or (question.request.at or 0) < (oldest.request.at or 0)) then
      oldest = question
    end
  end
  return oldest
end

---Reports that this session has no open question, and what another session asks.
---@param session? agentls.Session
---@param message string
local function notify_none_open(session, message)
  local other = find_other_question(session)
  if not other then
    return notifications.notify_line(message)
  end
  last_reported = other.request
  notifications.notify_line(
    'another session asks: ',
    M.summarize_question(other),
    ' · :AgentSessions shows it'
  )
end

---@param question agentls.Question
---@param request agentls.AnswerRequest
local function notify_question(question, request)
  local is_match = (question.kind ~= 'approval') == (request.is_inquiry or false)
  local hint = is_match and request.repeat_hint
    or (question.kind == 'approval' and ':AgentApprove or :AgentDeny answers' or ':AgentAnswer answers')
  local prefix = question.kind == 'approval' and ('asks (%s risk): '):format(question.request.risk)
    or 'asks: '
  notifications.notify_line(prefix, M.summarize_question(question), ' · ' .. hint)
end

---Returns the question under the cursor of the chat if the user has had time to see it. Otherwise shows the oldest open
---question of the session, reports what it asks, and returns nil.
---@param request agentls.AnswerRequest
---@return agentls.Question?
function M.take_question(request)
  view.flush_drawing()
  local session = find_target_session()
  local open = session and M.list_open(session) or {}
  if not session or #open == 0 then
    local focus = focus_by_window[vim.api.nvim_get_current_win()]
    if focus and focus.is_resolved_elsewhere and M.now_ms() - focus.focused_at < M.SETTLE_MS then
      return notifications.notify_line('this question has already been answered')
    end
    return notify_none_open(session, request.is_inquiry and 'no open question' or 'no open approval')
  end
  local window = view.find_window(session)
  if not window then
    view.open_chat(session)
    view.flush_drawing()
    window = assert(view.find_window(session))
  end
  update_focus(window)
  local question, focus = get_question_at_cursor(window), focus_by_window[window]
  if question and focus then
    local is_current_window = window == vim.api.nvim_get_current_win()
    local is_settled = M.now_ms() - focus.focused_at >= M.SETTLE_MS
      and (is_current_window or focus.is_announced)
    local is_match = (question.kind ~= 'approval') == (request.is_inquiry or false)
    if is_settled and is_match then
      return question
    end
    -- A key that is held down must not answer.
    focus.focused_at, focus.is_announced = M.now_ms(), true
    return notify_question(question, request)
  end
  local target = open[1]
  for _, candidate in ipairs(open) do
    if (candidate.kind ~= 'approval') == (request.is_inquiry or false) then
      target = candidate
      break
    end
  end
  focus_question(window, target)
  notify_question(target, request)
end

---Whether an answer key concerns a question: of this session, or one of another session that was not reported yet.
---@return boolean
function M.has_question_for_keys()
  local window = vim.api.nvim_get_current_win()
  local session, focus = view.get_session_in(window), focus_by_window[window]
  if not session then
    return false
  elseif
    #M.list_open(session) > 0
    or (focus and focus.is_resolved_elsewhere and M.now_ms() - focus.focused_at < M.SETTLE_MS)
  then
    return true
  end
  local other = find_other_question(session)
  return other ~= nil and other.request ~= last_reported
end

---Whether the question under the cursor of the session's chat can be answered. For tests.
---@return boolean
function M.is_answerable()
  local session = find_target_session()
  local window = session and view.find_window(session)
  local focus = window and focus_by_window[window]
  return focus ~= nil and focus.request ~= nil and M.now_ms() - focus.focused_at >= M.SETTLE_MS
end

---Marks a question as answered, so that it cannot be answered twice.
---@param question agentls.Question
function M.begin_answer(question)
  answering[question.request] = true
end

---Reopens a question whose answer did not arrive.
---@param question agentls.Question
function M.fail_answer(question)
  answering[question.request] = nil
end

---Moves to the next open question of the session, if the cursor is still on the answered one. After the last question,
---returns to the end if the window followed it before.
---@param question agentls.Question
---@return agentls.Question? next
function M.focus_next(question)
  view.flush_drawing()
  local window = view.find_window(question.session)
  local item = window and view.find_card_at_cursor(window)
  if not window or not item or item.kind ~= question.item.kind or item.id ~= question.item.id then
    return nil
  end
  local next = M.list_open(question.session)[1]
  if next then
    focus_question(window, next)
    return next
  end
  local focus = focus_by_window[window]
  if focus and focus.was_following then
    view.scroll_to_end(window)
  end
  focus_by_window[window] = nil
end

return M
