-- What is done with a whole turn: its changes shown, taken back and made again, the session forked at it. What a
-- revert would do is shown before it is asked about.

local approval = require('agentls.approval')
local block = require('agentls.render.block')
local changes_of = require('agentls.state.changes')
local diffs = require('agentls.diffs')
local editor = require('agentls.editor')
local notice = require('agentls.notice')
local scratch = require('agentls.scratch')
local sessions = require('agentls.sessions')
local text = require('agentls.text')
local view = require('agentls.view')

local M = {}

---What a revert does to a file.
local DEEDS = { created = 'create', modified = 'change', deleted = 'delete' }
---So many files are told by name in a notification.
local NAMED = 5

local function say(words, level)
  notice.tell(text.reveal(words), level or vim.log.levels.INFO)
end

---The session that is meant, and the turn under the cursor.
---@return agentls.Session?
---@return string? turn
local function here()
  local turn, session = view.turn_at_cursor()
  session = session or sessions.current()
  if not session then
    say('no session is open; :AgentSessions lists them')
  end
  return session, turn
end

---What the person said in a turn, in a few words.
---@param state agentls.State
---@param turn string
---@return string
function M.said(state, turn)
  for _, item in ipairs(state.items) do
    if item.kind == 'user' and item.turnId == turn then
      return ('"%s"'):format(text.one_line(item --[[@as agentls.Item.user]].text, 60))
    end
  end
  return 'an earlier turn'
end

---The turns that changed files, the last one first: their ids.
---@param lead string
---@return string[]
function M.complete(lead)
  local session, ids = sessions.current(), {}
  for _, item in ipairs(session and session.state.items or {}) do
    if item.kind == 'changes' and vim.startswith(item.id, lead) then
      table.insert(ids, 1, item.id)
    end
  end
  return ids
end

local function files_word(count)
  return count == 1 and '1 file' or ('%d files'):format(count)
end

---@param conflicts agentls.RevertConflict[]
local function left_as_they_are(conflicts)
  conflicts = text.by_path(conflicts)
  local lines = {}
  for i = 1, math.min(NAMED, #conflicts) do
    table.insert(lines, ('%s: %s'):format(text.visible(conflicts[i].path), conflicts[i].why))
  end
  if #conflicts > NAMED then
    table.insert(lines, ('and %d more'):format(#conflicts - NAMED))
  end
  return 'left as they are:\n  ' .. table.concat(lines, '\n  ')
end

---@param result agentls.RevertResult
---@param redo boolean
local function done(result, redo)
  local what = redo and 'made again' or 'put back'
  local words = ('%s %s'):format(#result.files > 0 and files_word(#result.files) or 'nothing was', what)
  if #result.conflicts > 0 then
    return say(words .. '; ' .. left_as_they_are(result.conflicts), vim.log.levels.WARN)
  end
  say(words)
end

---What would be done, as lines.
---@param result agentls.RevertResult
---@return string[]
local function preview(result)
  local lines = {}
  for _, file in ipairs(text.by_path(result.files)) do
    table.insert(lines, (' %s %s'):format(DEEDS[file.kind] or '?', text.visible(file.path)))
  end
  if #result.conflicts > 0 then
    if #lines > 0 then
      table.insert(lines, '')
    end
    table.insert(lines, ' Left as they are:')
    for _, conflict in ipairs(text.by_path(result.conflicts)) do
      table.insert(lines, (' %s: %s'):format(text.visible(conflict.path), conflict.why))
    end
  end
  return lines
end

---Takes back what a turn and all later ones changed, or (`redo`) makes it again: first it is shown what that would do.
---@param turn? string Absent: the one under the cursor, else the last that changed something.
---@param how { redo?: boolean, sure?: boolean } `sure`: nothing is asked.
function M.revert(turn, how)
  local session, under = here()
  if not session or not sessions.is_ours(session) then
    return
  end
  if session.state.running then
    return say('a turn is running: nothing is put back before it has ended', vim.log.levels.WARN)
  end
  local redo = how.redo or false
  if redo then
    turn = turn or (under and changes_of.redoable(session.state, under)) or changes_of.redoable(session.state)
  else
    -- Where all is taken back, what was left as it is then may be put back by now.
    turn = turn or under or changes_of.revertible(session.state) or (changes_of.of(session.state) or {}).id
  end
  if not turn then
    return say(redo and 'nothing was taken back' or 'nothing that was changed is known')
  end
  local params = { sessionId = session.id, turnId = turn, redo = redo or nil }
  local function go()
    -- What it changes in buffers is an undo step of its own.
    editor.turn_began()
    sessions.ask('agent/revert', params, function(result)
      done(result, redo)
    end)
  end
  if how.sure then
    return go()
  end
  local dry = vim.tbl_extend('force', params, { dryRun = true })
  sessions.ask('agent/revert', dry, function(would)
    if #would.files == 0 then
      local words = redo and 'nothing is left to make again' or 'nothing is left to take back'
      local left = #would.conflicts > 0 and '; ' .. left_as_they_are(would.conflicts) or ''
      return say(words .. left, left ~= '' and vim.log.levels.WARN or nil)
    end
    local later = #would.turnIds > 1 and (' and %d more'):format(#would.turnIds - 1) or ''
    local verb = redo and 'Make again' or 'Take back'
    local close = scratch.float(('%s: %s%s'):format(verb, M.said(session.state, turn), later), preview(would))
    local choices = { ('%s what changed in %s'):format(verb, files_word(#would.files)), 'Leave it' }
    vim.ui.select(choices, { prompt = verb .. '?', kind = 'agentls.revert' }, function(choice)
      close()
      if choice == choices[1] then
        go()
      end
    end)
  end)
end

---Shows a diff: of the tool call under the cursor, of what the turn under the cursor changed, else of the last turn
---that changed something. While a turn runs, of its last tool call.
---@param whole? boolean All files of a turn as one text.
function M.diff(whole)
  local item, session = view.item_at_cursor()
  session = session or sessions.current()
  local call = item and item.kind == 'tool' and item --[[@as agentls.Item.tool]] or nil
  if not session or (call and call.diff and call.diff ~= '') then
    return approval.diff()
  end
  local turn = item and (
      item.turnId or item --[[@as agentls.Item.note]].ofTurnId
    )
  local changes
  if turn or not session.state.running then
    changes = changes_of.of(session.state, turn)
  end
  if not changes then
    -- It has not ended, or nothing is known of it but its calls.
    return approval.diff(turn)
  end
  diffs.show(session, changes, whole)
end

---Opens the file that stands in the line under the cursor: of changes, or of what the agent was given to go by.
---@return boolean
function M.open_file()
  local item, session = view.item_at_cursor()
  local files = item and session and item --[[@as agentls.Item.changes]].files
  local line = vim.api.nvim_get_current_line()
  for _, file in ipairs(session and files or {}) do
    local shown =
      text.visible(item.kind == 'instructions' and vim.fn.fnamemodify(file.path, ':~') or file.path)
    if line:find(block.code(shown), 1, true) then
      local path = diffs.absolute(session, file.path)
      if not vim.uv.fs_stat(path) then
        say(text.visible(file.path) .. ' is not there', vim.log.levels.WARN)
      else
        editor.show_document({ uri = vim.uri_from_fname(path), takeFocus = true }, 'utf-8')
      end
      return true
    end
  end
  return false
end

---Makes a session of what this one has up to the end of a turn, and opens it.
---@param turn? string Absent: the one under the cursor if it has ended, else the last that has.
function M.fork(turn)
  local session, under = here()
  if not session then
    return
  end
  turn = turn or (under ~= session.state.running and under or nil)
  sessions.ask('agent/forkSession', { sessionId = session.id, turnId = turn }, function(result)
    sessions.load(result.sessionId, function(fork)
      view.open(fork, { focus = 'prompt' })
      say(('this is "%s" now; the files on the disk are as they were'):format(result.title or 'the fork'))
    end)
  end)
end

---The turns that have ended, the last one first: their ids.
---@param lead string
---@return string[]
function M.complete_ended(lead)
  local session, ids = sessions.current(), {}
  for _, item in ipairs(session and session.state.items or {}) do
    if item.kind == 'turnEnd' and item.turnId and vim.startswith(item.turnId, lead) then
      table.insert(ids, 1, item.turnId)
    end
  end
  return ids
end

---Tells the whole session as a text: in a buffer, or in `file`; as JSON where that ends with `.json`.
---@param file? string
---@param over? boolean A file that is there is written over.
function M.export(file, over)
  local session = sessions.current()
  if not session then
    return say('no session is open; :AgentSessions lists them')
  end
  local path = file and vim.fs.normalize(vim.fn.fnamemodify(file, ':p'))
  if path and vim.uv.fs_stat(path) and not over then
    return say(('%s is there already; :AgentExport! writes over it'):format(file), vim.log.levels.ERROR)
  end
  local format = file and file:lower():match('%.json$') and 'json' or 'markdown'
  sessions.ask('agent/exportSession', { sessionId = session.id, format = format }, function(result)
    if not path then
      return scratch.show('export/' .. session.id .. '.md', 'markdown', text.lines(result.text))
    end
    local handle, failed = io.open(path, 'wb')
    if handle then
      local written
      written, failed = handle:write(result.text)
      local closed, why = handle:close()
      failed = not written and failed or not closed and why or nil
    end
    if failed then
      return say(('the session was not written: %s'):format(failed), vim.log.levels.ERROR)
    end
    say(('the session stands in %s'):format(vim.fn.fnamemodify(path, ':~:.')))
  end)
end

return M
