-- Finds the open question that a key or a command may answer: the one under the cursor of the session's chat.
--
-- Owns which question is under the cursor of each chat window, and since when. Knows nothing about how a question is
-- answered (approval.lua). Two rules hold: a question is answered only after it was under the cursor for SETTLE_MS
-- without a key meant for it, and a chat never leads to a question of another session.

local notice = require('agentls.notice')
local sessions = require('agentls.sessions')
local view = require('agentls.view')

local M = {}

---A key that comes sooner after a question appeared under the cursor was meant for something else.
M.SETTLE_MS = 400

---The clock, in ms.
function M.now()
  return vim.uv.hrtime() / 1e6
end

---@class agentls.Question
---@field kind 'approval'|'limit'|'question'
---@field asked table The notification that asked; asked again, it is another one.
---@field item agentls.Item
---@field session agentls.Session

---What a key or a command wants to answer, and how the person can press again.
---@class agentls.Wish
---@field inquiry? boolean A limit or a question of the agent, not an approval.
---@field again string

---What lies under the cursor of a window.
---@class agentls.Focus
---@field asked? table
---@field since number
---@field announced? boolean The person was told what it asks.
---@field gone? boolean It was there, and was settled elsewhere.
---@field followed? boolean The end was followed before the cursor was put on it.

---@type table<integer, agentls.Focus>
local focused = {}

---Requests that were answered here, and are not settled by the server yet.
---@type table<table, boolean>
local answering = setmetatable({}, { __mode = 'k' })

---The question of another session that the keys named last: it is named once.
local named_elsewhere = nil

---@param item agentls.Item?
---@param session agentls.Session
---@return agentls.Question?
local function question_of(item, session)
  if not item then
    return nil
  end
  local kind, asked
  if item.kind == 'tool' then
    kind, asked = 'approval', item.approval
  elseif (item.kind == 'limit' or item.kind == 'question') and not item.resolved then
    kind, asked = item.kind, item.asked
  end
  if asked and not answering[asked] then
    return { kind = kind, asked = asked, item = item, session = session }
  end
end

---The open questions of a session in the chat's order: the oldest call first. In which order the calls of one
---message ask is chance.
---@param session agentls.Session
---@return agentls.Question[]
function M.open(session)
  local found = {}
  for _, item in ipairs(session.state.items) do
    local question = question_of(item, session)
    if question then
      table.insert(found, question)
    end
  end
  return found
end

---Whether a question still waits for this answer.
---@param question { asked: table, session: agentls.Session }
---@return boolean
function M.is_open(question)
  for _, open in ipairs(M.open(question.session)) do
    if open.asked == question.asked then
      return true
    end
  end
  return false
end

---What a question asks, in words for one line.
---@param question agentls.Question
---@return string
function M.subject(question)
  local asked = question.asked
  if question.kind == 'approval' then
    return asked.shown or asked.title
  end
  return asked.message
    or asked.text
    or (question.kind == 'limit' and 'a limit is reached' or 'the agent asks')
end

---@param window integer
---@return agentls.Question?
local function under_cursor(window)
  local session = view.session_of(window)
  return session and question_of(view.card_at(window), session)
end

---Notes what lies under the cursor of a window now.
---@param window integer
local function look(window)
  local question, was = under_cursor(window), focused[window]
  if question then
    if not was or was.asked ~= question.asked then
      focused[window] = { asked = question.asked, since = M.now() }
    end
  elseif was and was.asked and not answering[was.asked] then
    local session = view.session_of(window)
    local gone = session and not M.is_open({ asked = was.asked, session = session })
    focused[window] = gone and { since = M.now(), gone = true } or nil
  end
end

---Begins to note what lies under the cursor of the chats.
function M.attach()
  view.on_look = look
end

---Puts the cursor of a window on a question; it can be answered from then on.
---@param window integer
---@param question agentls.Question
local function show(window, question)
  local was = focused[window]
  local followed = view.follows(window) or (was and was.followed)
  if view.show_card(window, question.item) then
    focused[window] = { asked = question.asked, since = M.now(), announced = true, followed = followed }
    vim.cmd('redraw')
  end
end

---The chat that is meant: that of the current window, else that of this tab page, else that of the current session.
---@return agentls.Session?
local function shown_session()
  local here = view.session_of(vim.api.nvim_get_current_win()) or sessions.all[vim.b.agentls_session or '']
  local chat = not here and view.windows()
  return here or (chat and view.session_of(chat)) or sessions.current()
end

---The oldest open question of the sessions but this one.
---@param session? agentls.Session
---@return agentls.Question?
local function question_elsewhere(session)
  local oldest
  for _, other in pairs(sessions.all) do
    local question = other ~= session and M.open(other)[1]
    if question and (not oldest or (question.asked.at or 0) < (oldest.asked.at or 0)) then
      oldest = question
    end
  end
  return oldest
end

---Says that this session asks nothing, and which other one does.
---@param session? agentls.Session
---@param nothing string
local function say_nothing_open(session, nothing)
  local other = question_elsewhere(session)
  if not other then
    return notice.say(nothing)
  end
  named_elsewhere = other.asked
  notice.say('another session asks: ', M.subject(other), ' · :AgentSessions shows it')
end

---@param question agentls.Question
---@param wish agentls.Wish
local function announce(question, wish)
  local fits = (question.kind ~= 'approval') == (wish.inquiry or false)
  local how = fits and wish.again
    or (question.kind == 'approval' and ':AgentApprove or :AgentDeny answers' or ':AgentAnswer answers')
  local lead = question.kind == 'approval' and ('asks (%s risk): '):format(question.asked.risk) or 'asks: '
  notice.say(lead, M.subject(question), ' · ' .. how)
end

---The question that may be answered now: the one under the cursor of the chat, when the person has had time to see it.
---Else the oldest open one of the session is shown, what it asks is said, and nil is returned.
---@param wish agentls.Wish
---@return agentls.Question?
function M.take(wish)
  view.flush()
  local session = shown_session()
  local open = session and M.open(session) or {}
  if not session or #open == 0 then
    local gone = focused[vim.api.nvim_get_current_win()]
    if gone and gone.gone and M.now() - gone.since < M.SETTLE_MS then
      return notice.say('this question was settled meanwhile; nothing was answered')
    end
    return say_nothing_open(
      session,
      wish.inquiry and 'nothing waits for an answer' or 'nothing waits for an approval'
    )
  end
  local window = view.window_of(session)
  if not window then
    view.open(session)
    view.flush()
    window = assert(view.window_of(session))
  end
  look(window)
  local question, focus = under_cursor(window), focused[window]
  if question and focus then
    local here = window == vim.api.nvim_get_current_win()
    local settled = M.now() - focus.since >= M.SETTLE_MS and (here or focus.announced)
    local fits = (question.kind ~= 'approval') == (wish.inquiry or false)
    if settled and fits then
      return question
    end
    -- A key that is held down answers nothing either.
    focus.since, focus.announced = M.now(), true
    return announce(question, wish)
  end
  local target = open[1]
  for _, candidate in ipairs(open) do
    if (candidate.kind ~= 'approval') == (wish.inquiry or false) then
      target = candidate
      break
    end
  end
  show(window, target)
  announce(target, wish)
end

---Whether a key of the chat is meant for a question: one is open here, or one must be named first.
---@return boolean
function M.concern_keys()
  local window = vim.api.nvim_get_current_win()
  local session, focus = view.session_of(window), focused[window]
  if not session then
    return false
  elseif #M.open(session) > 0 or (focus and focus.gone and M.now() - focus.since < M.SETTLE_MS) then
    return true
  end
  local other = question_elsewhere(session)
  return other ~= nil and other.asked ~= named_elsewhere
end

---Whether the question under the cursor of the session's chat can be answered; for tests.
---@return boolean
function M.is_settled()
  local session = shown_session()
  local window = session and view.window_of(session)
  local focus = window and focused[window]
  return focus ~= nil and focus.asked ~= nil and M.now() - focus.since >= M.SETTLE_MS
end

---Notes that an answer is on its way: nothing answers this question a second time.
---@param question agentls.Question
function M.begin_answer(question)
  answering[question.asked] = true
end

---Notes that the answer did not arrive.
---@param question agentls.Question
function M.fail_answer(question)
  answering[question.asked] = nil
end

---Goes on to the next open question of the session, if the cursor is still on the one that was answered; after the last
---one, back to where the end is followed.
---@param question agentls.Question
---@return agentls.Question? next
function M.go_on(question)
  view.flush()
  local window = view.window_of(question.session)
  local item = window and view.card_at(window)
  if not window or not item or item.kind ~= question.item.kind or item.id ~= question.item.id then
    return nil
  end
  local next = M.open(question.session)[1]
  if next then
    show(window, next)
    return next
  end
  local focus = focused[window]
  if focus and focus.followed then
    view.follow(window)
  end
  focused[window] = nil
end

return M
