-- Actions on a whole turn: shows, reverts, and redoes its changes, forks the session at it, exports the session. A
-- revert shows its effect before it asks. The server owns the changes.

local approval = require('agentls.approval')
local attention = require('agentls.attention')
local block = require('agentls.render.block')
local changes_state = require('agentls.state.changes')
local dialog = require('agentls.dialog')
local diffs = require('agentls.diffs')
local editor = require('agentls.editor')
local notifications = require('agentls.notifications')
local scratch = require('agentls.scratch')
local sessions = require('agentls.sessions')
local format = require('agentls.format')
local view = require('agentls.view')

local M = {}

---What a revert does to a file.
local ACTIONS = { created = 'create', modified = 'change', deleted = 'delete' }
---How many files a notification names.
local MAX_NAMED = 5

local function notify(text, level)
  notifications.notify(format.reveal_hidden(text), level or vim.log.levels.INFO)
end

---Returns the session that the user means, and the turn under the cursor.
---@return agentls.Session?
---@return string? turn
local function get_target()
  local turn, session = view.get_turn_at_cursor()
  session = session or sessions.get_current()
  if not session then
    notify('no session is open; open one with :AgentSessions')
  end
  return session, turn
end

---Quotes the start of a turn's prompt.
---@param state agentls.State
---@param turn string
---@return string
function M.describe_turn(state, turn)
  for _, item in ipairs(state.items) do
    if item.kind == 'user' and item.turnId == turn then
      return ('"%s"'):format(format.single_line(item --[[@as agentls.Item.user]].text, 60))
    end
  end
  return 'an earlier turn'
end

---Completes the ids of turns with file changes, the latest first.
---@param arg_lead string
---@return string[]
function M.complete_changed(arg_lead)
  local session, ids = sessions.get_current(), {}
  for _, item in ipairs(session and session.state.items or {}) do
    if item.kind == 'changes' and vim.startswith(item.id, arg_lead) then
      table.insert(ids, 1, item.id)
    end
  end
  return ids
end

local function format_file_count(count)
  return count == 1 and '1 file' or ('%d files'):format(count)
end

---@param conflicts agentls.RevertConflict[]
local function format_conflicts(conflicts)
  conflicts = format.sort_by_path(conflicts)
  local lines = {}
  for i = 1, math.min(MAX_NAMED, #conflicts) do
    table.insert(lines, ('%s: %s'):format(format.display_text(conflicts[i].path), conflicts[i].why))
  end
  if #conflicts > MAX_NAMED then
    table.insert(lines, ('and %d more'):format(#conflicts - MAX_NAMED))
  end
  return 'not changed:\n  ' .. table.concat(lines, '\n  ')
end

---@param result agentls.RevertResult
---@param redo boolean
local function report_result(result, redo)
  local action = redo and 'reapplied' or 'reverted'
  local text = ('%s %s'):format(#result.files > 0 and format_file_count(#result.files) or 'nothing', action)
  if #result.conflicts > 0 then
    return notify(text .. '; ' .. format_conflicts(result.conflicts), vim.log.levels.WARN)
  end
  notify(text)
end

---Formats what a revert would do.
---@param result agentls.RevertResult
---@return string[]
local function format_preview(result)
  local lines = {}
  for _, file in ipairs(format.sort_by_path(result.files)) do
    table.insert(lines, (' %s %s'):format(ACTIONS[file.kind] or '?', format.display_text(file.path)))
  end
  if #result.conflicts > 0 then
    if #lines > 0 then
      table.insert(lines, '')
    end
    table.insert(lines, ' Not changed:')
    for _, conflict in ipairs(format.sort_by_path(result.conflicts)) do
      table.insert(lines, (' %s: %s'):format(format.display_text(conflict.path), conflict.why))
    end
  end
  return lines
end

---Reverts the file changes of a turn and of all later turns, or reapplies them (`redo`). Shows the effect first.
---@param turn? string Default: the one under the cursor, else the last one with changes.
---@param options { redo?: boolean, force?: boolean } `force`: do not ask.
function M.revert_turn(turn, options)
  local session, turn_at_cursor = get_target()
  if not session or not sessions.ensure_writable(session) then
    return
  end
  if session.state.running then
    return notify('a turn is running; revert or redo after it has ended', vim.log.levels.WARN)
  end
  local redo = options.redo or false
  if redo then
    turn = turn
      or (turn_at_cursor and changes_state.find_redoable_turn(session.state, turn_at_cursor))
      or changes_state.find_redoable_turn(session.state)
  else
    -- If everything is reverted, try the last turn again: an earlier conflict may be gone.
    turn = turn
      or turn_at_cursor
      or changes_state.find_revertible_turn(session.state)
      or (changes_state.find_changes(session.state) or {}).id
  end
  if not turn then
    return notify(redo and 'there is nothing to redo' or 'there are no changes to revert')
  end
  local params = { sessionId = session.id, turnId = turn, redo = redo or nil }
  local function apply_revert()
    -- In open buffers, the revert is a separate undo step.
    editor.begin_turn()
    sessions.request('agent/revert', params, function(result)
      report_result(result, redo)
    end)
  end
  if options.force then
    return apply_revert()
  end
  local preview_params = vim.tbl_extend('force', params, { dryRun = true })
  local ask = attention.guard(
    ('the preview is ready; open it with %s'):format(redo and ':AgentRedo' or ':AgentRevert'),
    function(preview)
      if #preview.files == 0 then
        local text = redo and 'there is nothing left to redo' or 'there is nothing left to revert'
        local conflicts = #preview.conflicts > 0 and '; ' .. format_conflicts(preview.conflicts) or ''
        return notify(text .. conflicts, conflicts ~= '' and vim.log.levels.WARN or nil)
      end
      local later_turns = #preview.turnIds > 1 and (' and %d more'):format(#preview.turnIds - 1) or ''
      local verb = redo and 'Reapply' or 'Revert'
      local close = scratch.open_float(
        ('%s: %s%s'):format(verb, M.describe_turn(session.state, turn), later_turns),
        format_preview(preview)
      )
      local choices = { ('%s %s'):format(verb, format_file_count(#preview.files)), 'Cancel' }
      dialog.select(choices, { prompt = verb .. '?', kind = 'agentls.revert' }, function(choice)
        close()
        if choice == choices[1] then
          apply_revert()
        end
      end)
    end
  )
  sessions.request('agent/revert', preview_params, ask)
end

---Shows a diff: of the tool call under the cursor, else of the turn under the cursor, else of the last turn with
---changes. While a turn runs, of its last tool call.
---@param as_text? boolean Shows all files of a turn as one text.
function M.show_diff(as_text)
  local item, session = view.get_item_at_cursor()
  session = session or sessions.get_current()
  local call = item and item.kind == 'tool' and item --[[@as agentls.Item.tool]] or nil
  if not session or (call and call.diff and call.diff ~= '') then
    return approval.show_diff()
  end
  local turn = item and (
      item.turnId or item --[[@as agentls.Item.note]].ofTurnId
    )
  local changes
  if turn or not session.state.running then
    changes = changes_state.find_changes(session.state, turn)
  end
  if not changes then
    -- The turn has not ended, or only its calls are known.
    return approval.show_diff(turn)
  end
  diffs.show_changes(session, changes, as_text)
end

---Opens the file in the line under the cursor, in a list of changes or instructions.
---@return boolean has_file Whether the line contains a file.
function M.open_file_at_cursor()
  local item, session = view.get_item_at_cursor()
  local files = item and session and item --[[@as agentls.Item.changes]].files
  local line = vim.api.nvim_get_current_line()
  for _, file in ipairs(session and files or {}) do
    local displayed_path =
      format.display_text(item.kind == 'instructions' and vim.fn.fnamemodify(file.path, ':~') or file.path)
    if line:find(block.inline_code(displayed_path), 1, true) then
      local path = diffs.resolve_path(session, file.path)
      if not vim.uv.fs_stat(path) then
        notify(format.display_text(file.path) .. ' does not exist', vim.log.levels.WARN)
      else
        editor.show_document({ uri = vim.uri_from_fname(path), takeFocus = true }, 'utf-8')
      end
      return true
    end
  end
  return false
end

---Opens the file that is named under the cursor, else the first one that the tool call there affects.
function M.open_file_of_card()
  local item, session = view.get_item_at_cursor()
  if not session or M.open_file_at_cursor() then
    return
  end
  local name = vim.fn.expand('<cfile>')
  local path = name ~= '' and diffs.resolve_path(session, vim.fs.normalize(name)) or nil
  ---@type integer?
  local line
  if path and vim.fn.filereadable(path) == 1 then
    line = tonumber(vim.api.nvim_get_current_line():match(vim.pesc(name) .. ':(%d+)'))
  else
    local location = item and item.kind == 'tool' and (item --[[@as agentls.Item.tool]].locations or {})[1]
    path, line = location and vim.uri_to_fname(location.uri) or nil, location and location.line or nil
  end
  if not path or not vim.uv.fs_stat(path) then
    return notify('there is no file here', vim.log.levels.WARN)
  end
  local position = { line = (line or 1) - 1, character = 0 }
  editor.show_document({
    uri = vim.uri_from_fname(path),
    takeFocus = true,
    selection = line and { start = position, ['end'] = position } or nil,
  }, 'utf-8')
end

---Forks the session at the end of a turn, and opens the fork.
---@param turn? string Default: the one under the cursor if it has ended, else the last ended turn.
function M.fork_session(turn)
  local session, turn_at_cursor = get_target()
  if not session then
    return
  end
  turn = turn or (turn_at_cursor ~= session.state.running and turn_at_cursor or nil)
  local has_typed = attention.watch()
  sessions.request('agent/forkSession', { sessionId = session.id, turnId = turn }, function(result)
    sessions.load_session(result.sessionId, function(fork)
      view.open_chat(fork, { focus = not has_typed() and 'prompt' or nil })
      notify(('you are now in the fork "%s"; your files have not changed'):format(result.title or 'the fork'))
    end)
  end)
end

---Completes the ids of ended turns, the latest first.
---@param arg_lead string
---@return string[]
function M.complete_ended(arg_lead)
  local session, ids = sessions.get_current(), {}
  for _, item in ipairs(session and session.state.items or {}) do
    if item.kind == 'turnEnd' and item.turnId and vim.startswith(item.turnId, arg_lead) then
      table.insert(ids, 1, item.turnId)
    end
  end
  return ids
end

---Exports the session to a buffer, or to `file`. Writes JSON if the name ends with `.json`, else Markdown.
---@param file? string
---@param overwrite? boolean
function M.export_session(file, overwrite)
  local session = sessions.get_current()
  if not session then
    return notify('no session is open; open one with :AgentSessions')
  end
  local path = file and vim.fs.normalize(vim.fn.fnamemodify(file, ':p'))
  if path and vim.uv.fs_stat(path) and not overwrite then
    return notify(('%s exists; overwrite it with :AgentExport!'):format(file), vim.log.levels.ERROR)
  end
  local export_format = file and file:lower():match('%.json$') and 'json' or 'markdown'
  local show_text = attention.guard('the export is ready; open it with :AgentExport', function(text)
    scratch.show_lines('export/' .. session.id .. '.md', 'markdown', format.split_lines(text))
  end)
  sessions.request('agent/exportSession', { sessionId = session.id, format = export_format }, function(result)
    if not path then
      return show_text(result.text)
    end
    local handle, failure = io.open(path, 'wb')
    if handle then
      local is_written
      is_written, failure = handle:write(result.text)
      local is_closed, close_error = handle:close()
      failure = not is_written and failure or not is_closed and close_error or nil
    end
    if failure then
      return notify(('cannot write the session: %s'):format(failure), vim.log.levels.ERROR)
    end
    notify(('session exported to %s'):format(vim.fn.fnamemodify(path, ':~:.')))
  end)
end

return M
