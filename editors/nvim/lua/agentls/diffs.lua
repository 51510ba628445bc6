-- What a turn changed of files, side by side in Neovim's own diff mode, or as one text.

local client = require('agentls.client')
local editor = require('agentls.editor')
local notifications = require('agentls.notifications')
local patch = require('agentls.patch')
local scratch = require('agentls.scratch')
local format = require('agentls.format')

local M = {}

local LETTERS = { created = 'A', modified = 'M', deleted = 'D' }

---A file of a list of changes, for people.
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

---Where a file is that the server names from the session's folder, or by another root's name.
---@param session agentls.Session
---@param path string
---@return string
function M.resolve_path(session, path)
  if vim.startswith(path, '/') then
    return path
  end
  local here = (session.state.cwd or client.get_workspace_folders()[1]) .. '/' .. path
  if vim.uv.fs_stat(here) then
    return here
  end
  local root, rest = path:match('^([^/]+)/(.+)$')
  local lsp = client.get_lsp_client()
  for _, folder in ipairs(lsp and lsp.workspace_folders or {}) do
    local there = vim.uri_to_fname(folder.uri)
    if vim.fs.basename(there) == root and vim.uv.fs_stat(there .. '/' .. rest) then
      return there .. '/' .. rest
    end
  end
  return here
end

---Shows the changes as one text.
---@param changes agentls.Item.changes
function M.show_as_text(changes)
  local lines = {}
  for _, file in ipairs(format.sort_by_path(changes.files)) do
    if file.diff and file.diff ~= '' then
      vim.list_extend(lines, format.split_lines(format.reveal_hidden(file.diff)))
    else
      table.insert(lines, format_file(file) .. ' (its lines are not told)')
    end
  end
  if (changes.unlisted or 0) > 0 then
    table.insert(lines, ('and %d more files'):format(changes.unlisted))
  end
  scratch.show_lines('diff/' .. changes.id, 'diff', lines)
end

---A buffer of lines that are on no disk.
local function create_side_buffer(name, lines, filetype)
  local full = 'agentls://' .. format.display_text(name)
  local left = vim.fn.bufnr('^' .. vim.fn.escape(full, '[]*?\\') .. '$')
  if left ~= -1 then
    vim.api.nvim_buf_delete(left, { force = true })
  end
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_name(buffer, full)
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].bufhidden = 'wipe'
  vim.bo[buffer].modifiable = false
  vim.bo[buffer].filetype = filetype
  vim.keymap.set('n', 'q', '<Cmd>tabclose<CR>', { buffer = buffer, nowait = true, desc = 'close' })
  return buffer
end

---Maps `q` in a file's buffer as long as one of the windows shows it beside its other text. A key of the person stays.
---@param buffer integer
---@param windows integer[]
local function map_close_key(buffer, windows)
  local own = vim.api.nvim_buf_call(buffer, function()
    return vim.fn.maparg('q', 'n', false, true).buffer == 1
  end)
  if own then
    return
  end
  local tab = vim.api.nvim_get_current_tabpage()
  vim.keymap.set('n', 'q', function()
    return vim.api.nvim_get_current_tabpage() == tab and '<Cmd>tabclose<CR>' or 'q'
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

---Shows one file before and after, in a tab page of its own: the file itself on the side on which it is now.
---@param session agentls.Session
---@param changes agentls.Item.changes
---@param file agentls.FileDiff
function M.show_file(session, changes, file)
  if not file.diff or file.diff == '' then
    notifications.notify(('the lines of %s are not told'):format(format.display_text(file.path)))
    return
  end
  local path, reverted = M.resolve_path(session, file.path), changes.standing == 'reverted'
  local there = vim.uv.fs_stat(path) ~= nil or vim.fn.bufloaded(path) == 1
  local now, lines = nil, {}
  if there then
    now = editor.load_buffer(path)
    lines = vim.api.nvim_buf_get_lines(now, 0, -1, false)
    lines = #lines == 1 and lines[1] == '' and {} or lines
  end
  local other = patch.apply_diff(lines, file.diff, not reverted)
  if not other then
    notifications.notify(
      ('%s has changed since: its diff is shown as text'):format(format.display_text(file.path)),
      vim.log.levels.INFO
    )
    return scratch.show_lines(
      ('diff/%s/%s'):format(changes.id, file.path),
      'diff',
      format.split_lines(format.reveal_hidden(file.diff))
    )
  end
  local filetype = now and vim.bo[now].filetype or vim.filetype.match({ filename = path }) or ''
  local when = reverted and 'after' or 'before'
  local beside = create_side_buffer(('%s/%s/%s'):format(when, changes.id, file.path), other, filetype)
  if now then
    vim.bo[now].buflisted = true
  else
    now = create_side_buffer(('gone/%s/%s'):format(changes.id, file.path), {}, filetype)
  end
  -- A plain window, whatever the one is that this is asked in.
  vim.cmd('tabnew')
  local left = vim.api.nvim_get_current_win()
  local empty = vim.api.nvim_get_current_buf()
  vim.bo[empty].bufhidden = 'wipe'
  vim.api.nvim_win_set_buf(0, reverted and now or beside)
  vim.cmd('diffthis')
  vim.cmd('rightbelow vsplit')
  vim.api.nvim_win_set_buf(0, reverted and beside or now)
  vim.cmd('diffthis')
  -- Who closes the file's side has seen enough: the other, which is no file, is not left behind.
  local right = vim.api.nvim_get_current_win()
  vim.api.nvim_create_autocmd('WinClosed', {
    pattern = tostring(reverted and left or right),
    once = true,
    callback = vim.schedule_wrap(function()
      for _, window in ipairs(vim.fn.win_findbuf(beside)) do
        pcall(vim.api.nvim_win_close, window, true)
      end
    end),
  })
  if there then
    map_close_key(now, { left, right })
  end
  vim.cmd('normal! gg')
  pcall(vim.cmd --[[@as fun(c: string)]], 'silent! normal! ]c')
end

---Shows what a turn changed: its one file, or the one that is chosen.
---@param session agentls.Session
---@param changes agentls.Item.changes
---@param whole? boolean As one text, without a choice.
function M.show_changes(session, changes, whole)
  if whole then
    return M.show_as_text(changes)
  elseif #changes.files == 1 and not changes.unlisted then
    return M.show_file(session, changes, changes.files[1])
  elseif #changes.files == 0 then
    notifications.notify('what changed is not known')
    return
  end
  local list = format.sort_by_path(changes.files)
  table.insert(list, { whole = true })
  vim.ui.select(list, {
    prompt = 'Changes',
    kind = 'agentls.change',
    format_item = function(entry)
      return entry.whole and '≡ all of them as one text' or format_file(entry)
    end,
  }, function(entry)
    if entry and entry.whole then
      M.show_as_text(changes)
    elseif entry then
      M.show_file(session, changes, entry)
    end
  end)
end

return M
