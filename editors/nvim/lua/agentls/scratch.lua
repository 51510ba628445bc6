-- Temporary buffers: lines to read, text to edit and submit with `:w`, and floating previews. It must not know what a
-- text means.

local attention = require('agentls.attention')
local notifications = require('agentls.notifications')
local format = require('agentls.format')

local M = {}

---Where each window was opened.
---@type table<integer, integer>
local origins = {}

---@param origin? integer
local function focus_origin(origin)
  if origin and vim.api.nvim_win_is_valid(origin) then
    vim.api.nvim_set_current_win(origin)
  end
end

---Gives the focus back to the window where something was opened, once the last of `windows` has been closed. Neovim
---would choose any neighbor.
---@param windows integer[]
---@param origin integer
function M.return_focus(windows, origin)
  for _, window in ipairs(windows) do
    origins[window] = origin
    vim.api.nvim_create_autocmd('WinClosed', {
      pattern = tostring(window),
      once = true,
      callback = function()
        local had_focus = vim.list_contains(windows, vim.api.nvim_get_current_win())
        local has_typed = attention.watch()
        vim.schedule(function()
          origins[window] = nil
          local is_last = not vim.iter(windows):any(vim.api.nvim_win_is_valid)
          -- A user who has typed meanwhile may be elsewhere.
          if had_focus and is_last and not has_typed() then
            focus_origin(origin)
          end
        end)
      end,
    })
  end
end

---Closes the current window, or its tab page, and gives the focus back at once.
---@param command 'close'|'tabclose'
function M.close(command)
  local origin = origins[vim.api.nvim_get_current_win()]
  vim.cmd(command)
  focus_origin(origin)
end

---Shows lines in a read-only buffer.
---@param name string
---@param filetype string
---@param lines string[]
---@param on_top? boolean At the top of the screen, where a prompt does not cover them.
function M.show_lines(name, filetype, lines, on_top)
  notifications.dismiss_all()
  local buffer_name = 'agentls://' .. format.display_text(name)
  local buffer = vim.fn.bufnr('^' .. vim.fn.escape(buffer_name, '[]*?\\') .. '$')
  if buffer == -1 then
    buffer = vim.api.nvim_create_buf(false, true)
    vim.api.nvim_buf_set_name(buffer, buffer_name)
    vim.bo[buffer].bufhidden = 'wipe'
    vim.keymap.set('n', 'q', function()
      M.close('close')
    end, { buffer = buffer, nowait = true, desc = 'close' })
  end
  vim.bo[buffer].modifiable = true
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].modifiable = false
  vim.bo[buffer].modified = false
  vim.bo[buffer].filetype = filetype
  local window = vim.fn.bufwinid(buffer)
  if window ~= -1 then
    return vim.api.nvim_set_current_win(window)
  end
  local origin = vim.api.nvim_get_current_win()
  local target = not on_top and require('agentls.editor').find_file_window()
  if target then
    vim.api.nvim_set_current_win(target)
    vim.cmd('belowright split')
  else
    vim.cmd('topleft split')
  end
  vim.api.nvim_win_set_buf(0, buffer)
  M.return_focus({ vim.api.nvim_get_current_win() }, origin)
end

---Opens a buffer to edit. `:w` submits its text, and closes it if the text is accepted.
---@param name string
---@param filetype string
---@param lines string[]
---@param bar string The text of its winbar.
---@param on_submit fun(text: string): boolean Whether the text is accepted.
function M.open_editor(name, filetype, lines, bar, on_submit)
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_name(buffer, ('agentls://%s/%d'):format(name, buffer))
  vim.bo[buffer].buftype = 'acwrite'
  vim.bo[buffer].bufhidden = 'wipe'
  vim.bo[buffer].filetype = filetype
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].modified = false
  vim.api.nvim_create_autocmd('BufWriteCmd', {
    buffer = buffer,
    callback = function()
      if on_submit(table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n')) then
        vim.bo[buffer].modified = false
        vim.schedule(function()
          pcall(vim.api.nvim_buf_delete, buffer, { force = true })
        end)
      end
    end,
  })
  local origin = vim.api.nvim_get_current_win()
  vim.cmd('belowright split')
  vim.api.nvim_win_set_buf(0, buffer)
  vim.wo.winbar = bar
  M.return_focus({ vim.api.nvim_get_current_win() }, origin)
end

---Shows lines in a floating window that takes no key. The returned function closes it.
---@param title string
---@param lines string[]
---@return fun() close
function M.open_float(title, lines)
  notifications.dismiss_all()
  -- Leave room for a prompt below.
  local max = math.max(3, vim.o.lines - 12)
  if #lines > max then
    local hidden_count = #lines - max + 1
    lines = vim.list_slice(lines, 1, max - 1)
    table.insert(lines, ('  … and %d more'):format(hidden_count))
  end
  title, lines = format.display_text(title), vim.tbl_map(format.display_text, lines)
  local width = vim.fn.strdisplaywidth(title) + 2
  for _, line in ipairs(lines) do
    width = math.max(width, vim.fn.strdisplaywidth(line) + 1)
  end
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.bo[buffer].bufhidden = 'wipe'
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  local window = vim.api.nvim_open_win(buffer, false, {
    relative = 'editor',
    row = math.max(0, math.floor((vim.o.lines - 8 - #lines) / 2)),
    col = math.max(0, math.floor((vim.o.columns - width) / 2)),
    width = math.max(1, math.min(width, vim.o.columns - 2)),
    height = #lines,
    style = 'minimal',
    border = 'rounded',
    title = (' %s '):format(title),
    focusable = false,
  })
  -- A prompt that follows may not redraw the screen.
  vim.cmd('redraw')
  return function()
    pcall(vim.api.nvim_win_close, window, true)
  end
end

return M
