-- Handles the server's requests to the editor: edits, saving, diagnostics, showing a document. It must not know
-- sessions.
--
-- An edit is all or nothing, and applies only to the version of the text that it was made for. It joins the undo step
-- of the agent's previous edit if the user typed nothing in between. Neovim's own handler would answer `applied: true`
-- to an edit of an older version without applying it.

local config = require('agentls.config')
local fresh_diagnostics = require('agentls.fresh_diagnostics')
local chat_window = require('agentls.window')
local notifications = require('agentls.notifications')
local format = require('agentls.format')

local M = {}

---The agent's last edit of each buffer: the changedtick after it, and its turn.
---@type table<integer, { tick: integer, turn: integer }>
local last_edit = {}
local turn = 0

---Starts a new undo step for the agent's edits.
function M.begin_turn()
  turn = turn + 1
end

---Returns the loaded buffer of `uri`, or nil. Creates none.
---@param uri string
---@return integer?
local function find_loaded_buffer(uri)
  local path = vim.uri_to_fname(uri)
  local real_path = vim.uv.fs_realpath(path)
  for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
    if vim.api.nvim_buf_is_loaded(buffer) and vim.bo[buffer].buftype == '' then
      local name = vim.api.nvim_buf_get_name(buffer)
      if name == path or (real_path and name ~= '' and vim.uv.fs_realpath(name) == real_path) then
        return buffer
      end
    end
  end
end

---Returns the version of a buffer's text that the server has.
---@param buffer integer
---@return integer
local function get_synced_version(buffer)
  -- 0 until the first change after the buffer was opened. Without a debounce, the server has every change.
  return vim.lsp.util.buf_versions[buffer]
end

---Returns why an edit of a document cannot be applied, or nil and its buffer.
---@return string? reason
---@return integer? buffer
local function check_change(change)
  if change.kind then
    return ('`%s` of files is not supported'):format(change.kind)
  end
  local document = change.textDocument
  local name = vim.fn.fnamemodify(vim.uri_to_fname(document.uri), ':~:.')
  local buffer = find_loaded_buffer(document.uri)
  if not buffer then
    return name .. ' is not open in the editor'
  end
  if not vim.bo[buffer].modifiable then
    return name .. ' is not modifiable in the editor'
  end
  local lines = table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n')
  if not format.is_valid_utf8(lines) then
    return name .. ' contains bytes that are not valid UTF-8'
  end
  if
    document.version ~= nil
    and document.version ~= vim.NIL
    and document.version ~= get_synced_version(buffer)
  then
    return ('%s has changed: the edit is for version %s, the text is at %s'):format(
      name,
      tostring(document.version),
      tostring(get_synced_version(buffer))
    )
  end
  return nil, buffer
end

---Ends the undo step in progress.
local function end_undo_step(buffer)
  vim.bo[buffer].undolevels = vim.bo[buffer].undolevels
end

local function apply_changes(buffer, edits, encoding)
  local previous = last_edit[buffer]
  local tick = vim.api.nvim_buf_get_changedtick(buffer)
  vim.api.nvim_buf_call(buffer, function()
    local can_join = previous and previous.turn == turn and previous.tick == tick
    end_undo_step(buffer)
    if can_join then
      -- Fails after an undo. Then the edit is a separate step.
      pcall(vim.cmd --[[@as fun(c: string)]], 'undojoin')
    end
    vim.lsp.util.apply_text_edits(edits, buffer, encoding)
    -- The edit added a final line end. Neovim stores that in an option, not in the text.
    local count = vim.api.nvim_buf_line_count(buffer)
    if
      not vim.bo[buffer].endofline
      and count > 1
      and vim.api.nvim_buf_get_lines(buffer, -2, -1, true)[1] == ''
    then
      vim.bo[buffer].endofline = true
      vim.api.nvim_buf_set_lines(buffer, -2, -1, true, {})
    end
    -- What the user types next is a separate step.
    end_undo_step(buffer)
  end)
  last_edit[buffer] = { tick = vim.api.nvim_buf_get_changedtick(buffer), turn = turn }
end

---Handles `workspace/applyEdit`.
---@param params lsp.ApplyWorkspaceEditParams
---@param encoding 'utf-8'|'utf-16'|'utf-32'
---@return { applied: boolean, failureReason?: string, failedChange?: integer }
function M.apply_edit(params, encoding)
  local edit = params.edit or {}
  local changes = edit.documentChanges
  if not changes then
    changes = {}
    for uri, edits in pairs(edit.changes or {}) do
      table.insert(changes, { textDocument = { uri = uri }, edits = edits })
    end
  end
  local buffers = {}
  for i, change in ipairs(changes) do
    local reason, buffer = check_change(change)
    if reason then
      return { applied = false, failureReason = reason, failedChange = i - 1 }
    end
    buffers[i] = buffer
  end
  for i, change in ipairs(changes) do
    local is_ok, error_message = pcall(apply_changes, buffers[i], change.edits, encoding)
    if not is_ok then
      return { applied = false, failureReason = tostring(error_message), failedChange = i - 1 }
    end
    vim.api.nvim_exec_autocmds('User', {
      pattern = 'AgentEdit',
      modeline = false,
      data = { buffer = buffers[i], uri = change.textDocument.uri, label = params.label },
    })
  end
  return { applied = true }
end

---Whether a buffer's file changed since it was read or written. Never prompts.
local function is_changed_on_disk(buffer)
  local is_changed = false
  local autocmd = vim.api.nvim_create_autocmd('FileChangedShell', {
    buffer = buffer,
    callback = function()
      is_changed = true
      vim.v.fcs_choice = ''
    end,
  })
  pcall(vim.cmd --[[@as fun(c: string)]], ('silent! checktime %d'):format(buffer))
  pcall(vim.api.nvim_del_autocmd, autocmd)
  return is_changed
end

---@return string? reason Why the document was not saved.
local function save_document(uri)
  local buffer = find_loaded_buffer(uri)
  if not buffer then
    return 'it is not open in the editor'
  elseif not vim.bo[buffer].modified then
    return nil
  elseif vim.bo[buffer].readonly then
    return 'it is read-only in the editor'
  elseif is_changed_on_disk(buffer) then
    return 'it has changed on disk since it was read'
  end
  local modifier = config.current.save_autocmds and '' or 'noautocmd '
  -- Do not add a missing final line end.
  local fixendofline = vim.bo[buffer].fixendofline
  vim.bo[buffer].fixendofline = fixendofline and vim.bo[buffer].endofline
  local is_ok, error_message = pcall(vim.api.nvim_buf_call, buffer, function()
    vim.cmd('silent lockmarks keepjumps ' .. modifier .. 'write')
  end)
  vim.bo[buffer].fixendofline = fixendofline
  if not is_ok then
    return (tostring(error_message):gsub('^.-(E%d+:)', '%1'))
  elseif vim.bo[buffer].modified then
    return 'it is still modified after :write'
  end
  -- Saving does not end the undo step.
  local previous = last_edit[buffer]
  if previous and previous.turn == turn then
    previous.tick = vim.api.nvim_buf_get_changedtick(buffer)
  end
end

---Handles `agent/saveDocuments`. A document without unsaved changes counts as saved.
---@param params { uris: string[] }
---@return { saved: string[], failed: { uri: string, reason: string }[] }
function M.save_documents(params)
  local saved, failed = {}, {}
  for _, uri in ipairs(params.uris or {}) do
    local reason = save_document(uri)
    if reason then
      table.insert(failed, { uri = uri, reason = reason })
    else
      table.insert(saved, uri)
    end
  end
  return { saved = saved, failed = failed }
end

local SEVERITIES = { 'error', 'warning', 'information', 'hint' }

---Handles `agent/getDiagnostics`: the diagnostics of one file, or of all.
---@param params { uri?: string }
---@param encoding 'utf-8'|'utf-16'|'utf-32'
---@return { diagnostics: agentls.Diagnostic[] }
function M.get_diagnostics(params, encoding)
  local buffer
  if params and type(params.uri) == 'string' then
    buffer = find_loaded_buffer(params.uri)
    if not buffer then
      return { diagnostics = {} }
    end
  end
  ---Converts to a protocol position: lines from 0, characters in units of the encoding.
  local function to_position(target, row, column)
    local line = vim.api.nvim_buf_is_loaded(target)
        and vim.api.nvim_buf_get_lines(target, row, row + 1, false)[1]
      or ''
    local bytes = math.min(math.max(column, 0), #line)
    if encoding == 'utf-8' or line == '' then
      return { line = row, character = line == '' and math.max(column, 0) or bytes }
    end
    if vim.fn.has('nvim-0.11') == 1 then
      return { line = row, character = vim.str_utfindex(line, encoding, bytes, false) }
    end
    local utf32, utf16 = vim.str_utfindex(line, bytes)
    return { line = row, character = encoding == 'utf-16' and utf16 or utf32 }
  end
  local diagnostics = {}
  for _, diagnostic in ipairs(vim.diagnostic.get(buffer)) do
    local name = vim.api.nvim_buf_is_valid(diagnostic.bufnr) and vim.api.nvim_buf_get_name(diagnostic.bufnr)
      or ''
    if name ~= '' and vim.bo[diagnostic.bufnr].buftype == '' then
      table.insert(diagnostics, {
        uri = vim.uri_from_bufnr(diagnostic.bufnr),
        range = {
          start = to_position(diagnostic.bufnr, diagnostic.lnum, diagnostic.col),
          ['end'] = to_position(
            diagnostic.bufnr,
            diagnostic.end_lnum or diagnostic.lnum,
            diagnostic.end_col or diagnostic.col
          ),
        },
        severity = SEVERITIES[diagnostic.severity],
        message = diagnostic.message,
        source = diagnostic.source,
      })
    end
  end
  return { diagnostics = diagnostics }
end

---Returns a window in this tab page that shows files, or nil. Prefers the current and the previous window.
---@return integer?
function M.find_file_window()
  local function is_file_window(window)
    local buffer = vim.api.nvim_win_get_buf(window)
    return vim.api.nvim_win_get_config(window).relative == ''
      and vim.bo[buffer].buftype == ''
      and not vim.wo[window].winfixbuf
      and not chat_window.is_session_window(window)
  end
  local previous_window = vim.fn.win_getid(vim.fn.winnr('#'))
  local candidates =
    vim.list_extend({ vim.api.nvim_get_current_win(), previous_window }, vim.api.nvim_tabpage_list_wins(0))
  for _, window in ipairs(candidates) do
    if window ~= 0 and vim.api.nvim_win_is_valid(window) and is_file_window(window) then
      return window
    end
  end
end

---Loads a file into a buffer. If the file has a swap file, the buffer is read-only.
---@param path string
---@return integer
function M.load_buffer(path)
  local buffer = vim.fn.bufadd(path)
  if vim.api.nvim_buf_is_loaded(buffer) then
    return buffer
  end
  -- `bufload` triggers no SwapExists autocommand, and fails where it would prompt.
  local saved_shortmess = vim.o.shortmess
  vim.opt.shortmess:append('A')
  local is_loaded, error_message = pcall(vim.fn.bufload, buffer)
  vim.o.shortmess = saved_shortmess
  if not is_loaded then
    notifications.notify_truncated(tostring(error_message), vim.log.levels.ERROR)
  end
  local swap_file = vim.fn.swapname(buffer)
  -- `.swp` is the first swap file; another extension means that the file already has one.
  if swap_file ~= '' and not swap_file:find('%.swp$') then
    vim.bo[buffer].readonly = true
    notifications.notify_line(
      '',
      vim.fn.fnamemodify(path, ':~:.'),
      ' has a swap file: it is read-only here',
      vim.log.levels.WARN
    )
  end
  return buffer
end

---Handles `window/showDocument`. Never uses a chat window. Moves the focus only if requested.
---@param params { uri: string, external?: boolean, takeFocus?: boolean, selection?: lsp.Range }
---@param encoding 'utf-8'|'utf-16'|'utf-32'
---@return { success: boolean }
function M.show_document(params, encoding)
  if params.external or not vim.startswith(params.uri, 'file:') then
    local _, error_message = vim.ui.open(params.uri)
    return { success = error_message == nil }
  end
  local buffer = find_loaded_buffer(params.uri) or M.load_buffer(vim.uri_to_fname(params.uri))
  vim.bo[buffer].buflisted = true
  local window = M.find_file_window()
  if not window then
    window = vim.api.nvim_open_win(buffer, false, { split = 'left', win = -1 })
  elseif vim.api.nvim_win_get_buf(window) ~= buffer then
    local is_shown = pcall(vim.api.nvim_win_set_buf, window, buffer)
    if not is_shown then
      return { success = false }
    end
  end
  if params.selection then
    local from = params.selection.start
    local row = math.min(from.line, vim.api.nvim_buf_line_count(buffer) - 1)
    local line = vim.api.nvim_buf_get_lines(buffer, row, row + 1, false)[1] or ''
    local column
    if vim.fn.has('nvim-0.11') == 1 then
      column = vim.str_byteindex(line, encoding, from.character, false)
    else
      column = vim.lsp.util._str_byteindex_enc(line, from.character, encoding)
    end
    vim.api.nvim_win_set_cursor(window, { row + 1, math.min(column, #line) })
    vim.api.nvim_win_call(window, function()
      vim.cmd('normal! zvzz')
    end)
  end
  if params.takeFocus then
    vim.api.nvim_set_current_win(window)
  end
  return { success = true }
end

---Reloads buffers whose files changed on disk. Skips buffers with unsaved changes.
---@param buffers? integer[] Default: all.
function M.reload_buffers(buffers)
  for _, buffer in ipairs(buffers or vim.api.nvim_list_bufs()) do
    local is_clean_file = vim.api.nvim_buf_is_loaded(buffer)
      and vim.bo[buffer].buftype == ''
      and not vim.bo[buffer].modified
    if is_clean_file and vim.api.nvim_buf_get_name(buffer) ~= '' then
      pcall(vim.cmd --[[@as fun(c: string)]], ('silent! checktime %d'):format(buffer))
    end
  end
end

---Reloads the buffers of `locations`.
---@param locations agentls.Location[]
function M.reload_locations(locations)
  local buffers = {}
  for _, location in ipairs(locations) do
    -- The parentheses keep nil from adding an element.
    table.insert(buffers, (find_loaded_buffer(location.uri)))
  end
  M.reload_buffers(buffers)
end

---Builds the handlers for `vim.lsp`.
---@return table<string, function>
function M.build_handlers()
  fresh_diagnostics.setup()
  ---@return 'utf-8'|'utf-16'|'utf-32'
  local function encoding(context)
    local client = vim.lsp.get_client_by_id(context.client_id)
    return client and client.offset_encoding or 'utf-16'
  end
  return {
    ['workspace/applyEdit'] = function(_, params, context)
      return M.apply_edit(params, encoding(context))
    end,
    ['agent/saveDocuments'] = function(_, params)
      return M.save_documents(params)
    end,
    ['agent/getDiagnostics'] = function(_, params, context)
      if not params or type(params.waitFor) ~= 'string' then
        return M.get_diagnostics(params, encoding(context))
      end
      local uris = vim.list_extend({ params.waitFor }, params.alsoWaitFor or {})
      local function collect()
        return M.get_diagnostics(params, encoding(context))
      end
      local result, unreported =
        fresh_diagnostics.with_reports(uris, params.waitMs or 0, context.client_id, collect)
      result.unreported = unreported
      return result
    end,
    ['agent/languageQuery'] = function(_, params, context)
      local result, reason =
        require('agentls.language').answer_query(params, encoding(context), context.client_id)
      if not result then
        return nil, vim.lsp.rpc.rpc_response_error(vim.lsp.protocol.ErrorCodes.InternalError, reason)
      end
      return result
    end,
    ['window/showDocument'] = function(_, params, context)
      return M.show_document(params, encoding(context))
    end,
  }
end

return M
