-- Shows the file changes of a turn side by side in diff mode, or as one text. It must not change a file.

local client = require('agentls.client')
local dialog = require('agentls.dialog')
local editor = require('agentls.editor')
local notifications = require('agentls.notifications')
local patch = require('agentls.patch')
local scratch = require('agentls.scratch')
local format = require('agentls.format')

local M = {}

local LETTERS = { created = 'A', modified = 'M', deleted = 'D' }

---Formats a changed file on one line.
---@param file agentls.FileDiff
---@return string
local function format_file(file)
  local parts = { ('%s %s'):format(LETTERS[file.kind] or '?', format.display_text(file.path)) }
  if file.added > 0 then
    table.insert(parts, '+' .. file.added)
  end
  if file.removed > 0 then
    table.insert(parts, '-' .. file.removed)
  end
  return table.concat(parts, ' ')
end

---Returns the absolute path of a file that the server names relative to the session's folder, or by workspace folder.
---@param session agentls.Session
---@param path string
---@return string
function M.resolve_path(session, path)
  if vim.startswith(path, '/') then
    return path
  end
  local session_path = (session.state.cwd or client.get_workspace_folders()[1]) .. '/' .. path
  if vim.uv.fs_stat(session_path) then
    return session_path
  end
  local root, relative_path = path:match('^([^/]+)/(.+)$')
  local lsp = client.get_lsp_client()
  for _, folder in ipairs(lsp and lsp.workspace_folders or {}) do
    local folder_path = vim.uri_to_fname(folder.uri)
    if vim.fs.basename(folder_path) == root and vim.uv.fs_stat(folder_path .. '/' .. relative_path) then
      return folder_path .. '/' .. relative_path
    end
  end
  return session_path
end

---Shows all changes as one text.
---@param changes agentls.Item.changes
function M.show_as_text(changes)
  local lines = {}
  for _, file in ipairs(format.sort_by_path(changes.files)) do
    if file.diff and file.diff ~= '' then
      vim.list_extend(lines, format.split_lines(format.reveal_hidden(file.diff)))
    else
      table.insert(lines, format_file(file) .. ' (no diff available)')
    end
  end
  if (changes.unlisted or 0) > 0 then
    table.insert(lines, ('and %d more files'):format(changes.unlisted))
  end
  scratch.show_lines('diff/' .. changes.id, 'diff', lines)
end

---What `q` runs in a diff.
local CLOSE = "<Cmd>lua require('agentls.scratch').close('tabclose')<CR>"

---Creates a buffer for the side of a diff that is not on disk.
local function create_side_buffer(name, lines, filetype)
  local buffer_name = 'agentls://' .. format.display_text(name)
  local old_buffer = vim.fn.bufnr('^' .. vim.fn.escape(buffer_name, '[]*?\\') .. '$')
  if old_buffer ~= -1 then
    vim.api.nvim_buf_delete(old_buffer, { force = true })
  end
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_name(buffer, buffer_name)
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].bufhidden = 'wipe'
  vim.bo[buffer].modifiable = false
  vim.bo[buffer].filetype = filetype
  vim.keymap.set('n', 'q', function()
    scratch.close('tabclose')
  end, { buffer = buffer, nowait = true, desc = 'close' })
  return buffer
end

---Maps `q` in a file's buffer while one of the windows shows it in the diff. Keeps a mapping of the user.
---@param buffer integer
---@param windows integer[]
local function map_close_key(buffer, windows)
  local has_mapping = vim.api.nvim_buf_call(buffer, function()
    return vim.fn.maparg('q', 'n', false, true).buffer == 1
  end)
  if has_mapping then
    return
  end
  local tab = vim.api.nvim_get_current_tabpage()
  vim.keymap.set('n', 'q', function()
    return vim.api.nvim_get_current_tabpage() == tab and CLOSE or 'q'
  end, { buffer = buffer, nowait = true, expr = true, desc = 'close the diff' })
  for _, window in ipairs(windows) do
    vim.api.nvim_create_autocmd('WinClosed', {
      pattern = tostring(window),
      once = true,
      callback = function()
        pcall(vim.keymap.del, 'n', 'q', { buffer = buffer })
      end,
    })
  end
end

---Shows a file before and after a turn, in a new tab page. One side is the file itself.
---@param session agentls.Session
---@param changes agentls.Item.changes
---@param file agentls.FileDiff
function M.show_file(session, changes, file)
  if not file.diff or file.diff == '' then
    notifications.notify(('no diff available for %s'):format(format.display_text(file.path)))
    return
  end
  local path, is_reverted = M.resolve_path(session, file.path), changes.standing == 'reverted'
  local exists = vim.uv.fs_stat(path) ~= nil or vim.fn.bufloaded(path) == 1
  local file_buffer, lines = nil, {}
  if exists then
    file_buffer = editor.load_buffer(path)
    lines = vim.api.nvim_buf_get_lines(file_buffer, 0, -1, false)
    lines = #lines == 1 and lines[1] == '' and {} or lines
  end
  local other_lines = patch.apply_diff(lines, file.diff, not is_reverted)
  if not other_lines then
    notifications.notify(
      ('%s has changed since the turn; showing the diff as text'):format(format.display_text(file.path)),
      vim.log.levels.INFO
    )
    return scratch.show_lines(
      ('diff/%s/%s'):format(changes.id, file.path),
      'diff',
      format.split_lines(format.reveal_hidden(file.diff))
    )
  end
  local filetype = file_buffer and vim.bo[file_buffer].filetype
    or vim.filetype.match({ filename = path })
    or ''
  local label = is_reverted and 'after' or 'before'
  local other_side =
    create_side_buffer(('%s/%s/%s'):format(label, changes.id, file.path), other_lines, filetype)
  if file_buffer then
    vim.bo[file_buffer].buflisted = true
  else
    file_buffer = create_side_buffer(('gone/%s/%s'):format(changes.id, file.path), {}, filetype)
  end
  local origin = vim.api.nvim_get_current_win()
  -- A new tab page has a plain window, whatever the current window is.
  vim.cmd('tabnew')
  local left = vim.api.nvim_get_current_win()
  local empty = vim.api.nvim_get_current_buf()
  vim.bo[empty].bufhidden = 'wipe'
  vim.api.nvim_win_set_buf(0, is_reverted and file_buffer or other_side)
  vim.cmd('diffthis')
  vim.cmd('rightbelow vsplit')
  vim.api.nvim_win_set_buf(0, is_reverted and other_side or file_buffer)
  vim.cmd('diffthis')
  -- When the user closes the file's window, close the other side, too.
  local right = vim.api.nvim_get_current_win()
  vim.api.nvim_create_autocmd('WinClosed', {
    pattern = tostring(is_reverted and left or right),
    once = true,
    callback = vim.schedule_wrap(function()
      for _, window in ipairs(vim.fn.win_findbuf(other_side)) do
        pcall(vim.api.nvim_win_close, window, true)
      end
    end),
  })
  scratch.return_focus({ left, right }, origin)
  if exists then
    map_close_key(file_buffer, { left, right })
  end
  vim.cmd('normal! gg')
  pcall(vim.cmd --[[@as fun(c: string)]], 'silent! normal! ]c')
end

---Shows the only changed file of a turn, or the one that the user chooses.
---@param session agentls.Session
---@param changes agentls.Item.changes
---@param as_text? boolean Shows all files as one text instead.
function M.show_changes(session, changes, as_text)
  if as_text then
    return M.show_as_text(changes)
  elseif #changes.files == 1 and not changes.unlisted then
    return M.show_file(session, changes, changes.files[1])
  elseif #changes.files == 0 then
    notifications.notify('the changed files are not known')
    return
  end
  local list = format.sort_by_path(changes.files)
  table.insert(list, { shows_all = true })
  dialog.select(list, {
    prompt = 'Changes',
    kind = 'agentls.change',
    format_item = function(entry)
      return entry.shows_all and '≡ all files as one text' or format_file(entry)
    end,
  }, function(entry)
    if entry and entry.shows_all then
      M.show_as_text(changes)
    elseif entry then
      M.show_file(session, changes, entry)
    end
  end)
end

return M
