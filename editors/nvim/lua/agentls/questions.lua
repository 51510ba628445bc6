-- Finds the open question that a key or a command may answer: the one under the cursor of the session's chat.
--
-- Owns which question is under the cursor of each chat window, and since when. It must not know how a question is
-- answered (approval.lua). It keeps these invariants:
--
-- - Before a question can be answered, it must be under the cursor for SETTLE_MS without an answer key.
-- - Text that is typed by mistake answers nothing. A key answers only if it was typed on its own, on a card that the
--   user moved the cursor to. On any other card it must be repeated at once: the first press shows the card.
-- - What was not visible cannot be allowed.
-- - From the prompt, only chords answer: never a letter.
-- - A chat never answers a question of another session.

local attention = require('agentls.attention')
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
---@field is_allowing? boolean Whether it allows a call, so that all of the card must have been visible.
---@field key? string The key that was typed; nil for a command.
---@field needs_rule? boolean Whether it is possible only if the question offers to remember something.
---@field repeat_hint string How to repeat the answer.

---The question under the cursor of a window.
---@class agentls.QuestionFocus
---@field request? table
---@field focused_at number
---@field is_announced? boolean Whether a notification showed it.
---@field is_deliberate? boolean Whether the user moved the cursor there, and not a drawing or an answer key.
---@field pending_key? string The answer key that showed it. Typed again at once, it answers.
---@field pending_count? integer How many keys had been typed then.
---@field confirming? string The decision that was given and needs to be confirmed.
---@field confirming_count? integer How many keys had been typed then.
---@field last_seen_row? integer The last row of the chat that was visible since then, from 1.
---@field is_resolved_elsewhere? boolean Whether it was resolved elsewhere.
---@field was_following? boolean Whether the window followed the end before the cursor moved to the question.

---@type table<integer, agentls.QuestionFocus>
local focus_by_window = {}

---The row of each window's cursor when it was last looked at, to recognize that the user moves it.
---@type table<integer, integer>
local cursor_rows = {}

---Since when all of the card of the oldest question has been visible in a window, by request.
---@type table<table, number>
local visible_since = setmetatable({}, { __mode = 'k' })

---When a chord was last typed that answers from the prompt. A chord that is held down must not answer twice.
local last_chord_at = -math.huge

---Where to go after the last question: the prompt from which the user went to a card, and whether in Insert mode.
---@type { window: integer, is_insert: boolean }?
local return_target = nil

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

---Updates since when the oldest open question is visible in a window of its session. A question counts from when it
---becomes the oldest: before, the bar of the prompt named another one.
---@param window integer
local function update_visibility(window)
  local session = view.get_session_in(window)
  local question = session and M.list_open(session)[1]
  if not question then
    return
  end
  local first, last = view.find_rows(window, question.item)
  local is_visible = first
    and first >= vim.fn.line('w0', window)
    and last <= vim.fn.line('w$', window)
    and vim.api.nvim_win_get_tabpage(window) == vim.api.nvim_get_current_tabpage()
  visible_since[question.request] = is_visible and (visible_since[question.request] or M.now_ms()) or nil
end

---Updates which question is under the cursor of a window.
---@param window integer
---@param is_motion? boolean Whether the user may have moved the cursor.
local function update_focus(window, is_motion)
  local question, old_focus = get_question_at_cursor(window), focus_by_window[window]
  local row = vim.api.nvim_win_get_cursor(window)[1]
  local has_moved = is_motion and cursor_rows[window] ~= row
  cursor_rows[window] = row
  update_visibility(window)
  if question then
    if not old_focus or old_focus.request ~= question.request then
      focus_by_window[window] = { request = question.request, focused_at = M.now_ms() }
    end
    local focus = focus_by_window[window]
    focus.is_deliberate = focus.is_deliberate or has_moved
    focus.last_seen_row = math.max(focus.last_seen_row or 0, vim.fn.line('w$', window))
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
---@param key? string The key that answers it if it is repeated.
local function focus_question(window, question, key)
  local old_focus = focus_by_window[window]
  local was_following = view.is_following(window) or (old_focus and old_focus.was_following)
  if view.scroll_to_card(window, question.item) then
    focus_by_window[window] = {
      request = question.request,
      focused_at = M.now_ms(),
      is_announced = true,
      pending_key = key,
      pending_count = attention.typed_count,
      was_following = was_following,
    }
    update_focus(window)
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
  local is_impossible = is_match and request.needs_rule and not question.request.rule
  local hint = is_impossible and 'it can only be allowed once'
    or is_match and request.repeat_hint
    or (question.kind == 'approval' and ':AgentApprove or :AgentDeny answers' or ':AgentAnswer answers')
  local prefix = question.kind == 'approval' and ('asks (%s risk): '):format(question.request.risk)
    or 'asks: '
  notifications.notify_line(prefix, M.summarize_question(question), ' · ' .. hint)
end

---Whether the user means the question under the cursor. A key of a text that is typed by mistake does not.
---@param window integer
---@param focus agentls.QuestionFocus
---@param request agentls.AnswerRequest
---@return boolean
local function is_meant(window, focus, request)
  local is_current_window = window == vim.api.nvim_get_current_win()
  if not request.key then
    return focus.is_announced or (is_current_window and focus.is_deliberate) or false
  end
  local is_repeated = focus.pending_key == request.key and attention.typed_count - focus.pending_count <= 1
  if is_repeated then
    return true
  elseif not attention.is_quiet() then
    focus.is_deliberate = false
  end
  return is_current_window and focus.is_deliberate or false
end

---Shows a row at the top of a window, or the last row at its bottom if that is nearer. Rows count from 1.
---@param window integer
---@param row integer
---@param last_row integer
local function scroll_to_row(window, row, last_row)
  vim.api.nvim_win_call(window, function()
    vim.api.nvim_win_set_cursor(window, { row, 0 })
    vim.cmd('normal! zt')
    if vim.fn.line('w$') >= last_row then
      vim.api.nvim_win_set_cursor(window, { last_row, 0 })
      vim.cmd('normal! zb')
      vim.api.nvim_win_set_cursor(window, { row, 0 })
    end
  end)
  vim.cmd('redraw')
end

---Shows more of a card that was not fully visible yet.
---@param window integer
---@param question agentls.Question
---@param focus agentls.QuestionFocus
---@return boolean is_shown Whether more had to be shown.
local function show_rest(window, question, focus)
  local _, last_row = view.find_rows(window, question.item)
  local hidden_count = last_row and last_row - (focus.last_seen_row or 0) or 0
  if hidden_count <= 0 then
    return false
  end
  scroll_to_row(window, focus.last_seen_row + 1, last_row)
  update_focus(window)
  return true
end

---Finds the oldest open question that a request can answer, else the oldest one.
---@param open agentls.Question[]
---@param request agentls.AnswerRequest
---@return agentls.Question
local function find_target(open, request)
  for _, candidate in ipairs(open) do
    if (candidate.kind ~= 'approval') == (request.is_inquiry or false) then
      return candidate
    end
  end
  return open[1]
end

---Reports why there is nothing to answer.
---@param session? agentls.Session
---@param request agentls.AnswerRequest
local function notify_no_question(session, request)
  local focus = focus_by_window[vim.api.nvim_get_current_win()]
  if focus and focus.is_resolved_elsewhere and M.now_ms() - focus.focused_at < M.SETTLE_MS then
    return notifications.notify_line('this question has already been answered')
  end
  notify_none_open(session, request.is_inquiry and 'no open question' or 'no open approval')
end

---Returns the window of a session's chat in this tab page. Opens it if needed.
---@param session agentls.Session
---@return integer
local function ensure_window(session)
  local window = view.find_window(session)
  if not window then
    view.open_chat(session)
    view.flush_drawing()
    window = assert(view.find_window(session))
  end
  return window
end

---Returns the question under the cursor of the chat if the user means it and has had time to see it. Otherwise shows
---the oldest open question of the session, reports what it asks, and returns nil.
---@param request agentls.AnswerRequest
---@return agentls.Question?
function M.take_question(request)
  view.flush_drawing()
  local session = find_target_session()
  local open = session and M.list_open(session) or {}
  if not session or #open == 0 then
    return notify_no_question(session, request)
  end
  local window = ensure_window(session)
  update_focus(window)
  local question, focus = get_question_at_cursor(window), focus_by_window[window]
  local key = request.key and attention.is_quiet() and request.key or nil
  if not question or not focus then
    local target = find_target(open, request)
    focus_question(window, target, key)
    return notify_question(target, request)
  end
  local is_settled = M.now_ms() - focus.focused_at >= M.SETTLE_MS
  local is_match = (question.kind ~= 'approval') == (request.is_inquiry or false)
  if is_settled and is_match and is_meant(window, focus, request) then
    if not request.is_allowing or not show_rest(window, question, focus) then
      -- If the user leaves what opens now, the next key need not be repeated.
      focus.is_deliberate = true
      return question
    end
  end
  -- A key that is held down must not answer.
  focus.focused_at, focus.is_announced = M.now_ms(), true
  focus.pending_key, focus.pending_count = key, attention.typed_count
  notify_question(question, request)
end

---Returns the oldest open question of the session of the prompt, if the user has had time to see all of it. Otherwise
---shows it, reports what it asks, and returns nil.
---@param hint string How to repeat the answer.
---@return agentls.Question?
function M.take_from_prompt(hint)
  view.flush_drawing()
  local session, is_held = find_target_session(), M.now_ms() - last_chord_at < M.SETTLE_MS
  last_chord_at = M.now_ms()
  local question = session and M.list_open(session)[1]
  if not session or not question then
    return notify_none_open(session, 'no open question')
  end
  local window = ensure_window(session)
  update_focus(window)
  local shown_at, focus = visible_since[question.request], focus_by_window[window]
  local request = { repeat_hint = hint, is_inquiry = question.kind ~= 'approval' }
  if is_held then
    return notify_question(question, request)
  elseif shown_at and M.now_ms() - shown_at >= M.SETTLE_MS then
    return question
  elseif not focus or focus.request ~= question.request then
    focus_question(window, question)
  elseif M.now_ms() - focus.focused_at >= M.SETTLE_MS and not show_rest(window, question, focus) then
    return question
  end
  notify_question(question, request)
end

---Goes from the prompt to the card of the oldest open question, where one key answers.
function M.go_to_card()
  view.flush_drawing()
  local session = find_target_session()
  local question = session and M.list_open(session)[1]
  if not session or not question then
    return notify_none_open(session, 'no open question')
  end
  return_target = {
    window = vim.api.nvim_get_current_win(),
    is_insert = vim.api.nvim_get_mode().mode:sub(1, 1) == 'i',
  }
  vim.cmd('stopinsert')
  local window = ensure_window(session)
  vim.api.nvim_set_current_win(window)
  focus_question(window, question)
  focus_by_window[window].is_deliberate = true
  attention.end_text()
end

---Goes back to the prompt from which the user went to a card, if no question of the session is open anymore.
---@param session agentls.Session
function M.return_to_prompt(session)
  local target = return_target
  if not target or #M.list_open(session) > 0 then
    return
  end
  return_target = nil
  local is_in_chat = view.get_session_in(vim.api.nvim_get_current_win()) == session
  if is_in_chat and vim.api.nvim_win_is_valid(target.window) then
    vim.api.nvim_set_current_win(target.window)
    if target.is_insert then
      vim.cmd('startinsert!')
    end
  end
end

---Whether the session of the current window has an open question.
---@return boolean
function M.has_open_question()
  local session = find_target_session()
  return session ~= nil and #M.list_open(session) > 0
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

---Whether a chord in the prompt would answer the oldest question of the session. For tests.
---@return boolean
function M.is_answerable_from_prompt()
  local session = find_target_session()
  local question = session and M.list_open(session)[1]
  local shown_at = question and visible_since[question.request]
  return shown_at ~= nil and M.now_ms() - shown_at >= M.SETTLE_MS
end

---Whether an answer that needs a confirmation is the confirmation: the same answer to the same question, given at once.
---Otherwise the next one is.
---@param question agentls.Question
---@param decision string
---@param key? string
---@return boolean
function M.confirm(question, decision, key)
  local window = view.find_window(question.session)
  local focus = window and focus_by_window[window]
  if not focus or focus.request ~= question.request then
    return false
  end
  local is_confirmed = focus.confirming == decision
    and (not key or attention.typed_count - focus.confirming_count <= 1)
  focus.confirming, focus.confirming_count = decision, attention.typed_count
  focus.pending_key, focus.pending_count = key, attention.typed_count
  focus.focused_at, focus.is_announced = M.now_ms(), true
  return is_confirmed
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
---@param key? string The key that answered.
---@return agentls.Question? next
function M.focus_next(question, key)
  view.flush_drawing()
  local window = view.find_window(question.session)
  local item = window and view.find_card_at_cursor(window)
  if not window or not item or item.kind ~= question.item.kind or item.id ~= question.item.id then
    return nil
  end
  local next = M.list_open(question.session)[1]
  if next then
    focus_question(window, next, key)
    return next
  end
  local focus = focus_by_window[window]
  if focus and focus.was_following then
    view.scroll_to_end(window)
  end
  focus_by_window[window] = nil
end

return M
