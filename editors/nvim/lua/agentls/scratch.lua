-- Buffers for a while: lines to look at, and lines to write that mean something when they are written.

local notifications = require('agentls.notifications')
local format = require('agentls.format')

local M = {}

---Shows lines in a buffer of their own.
---@param name string
---@param filetype string
---@param lines string[]
---@param on_top? boolean At the top of the screen, where a question does not cover them.
function M.show_lines(name, filetype, lines, on_top)
  notifications.dismiss_all()
  local full = 'agentls://' .. format.display_text(name)
  local buffer = vim.fn.bufnr('^' .. vim.fn.escape(full, '[]*?\\') .. '$')
  if buffer == -1 then
    buffer = vim.api.nvim_create_buf(false, true)
    vim.api.nvim_buf_set_name(buffer, full)
    vim.bo[buffer].bufhidden = 'wipe'
    vim.keymap.set('n', 'q', '<Cmd>close<CR>', { buffer = buffer, nowait = true, desc = 'close' })
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
  local target = not on_top and require('agentls.editor').find_file_window()
  if target then
    vim.api.nvim_set_current_win(target)
    vim.cmd('belowright split')
  else
    vim.cmd('topleft split')
  end
  vim.api.nvim_win_set_buf(0, buffer)
end

---Opens a buffer below, to be written in: `:w` hands its words on, and closes it unless they were not right.
---@param name string
---@param filetype string
---@param lines string[]
---@param bar string What the bar above it says.
---@param written fun(words: string): boolean Whether they were right.
function M.open_editor(name, filetype, lines, bar, written)
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
      if written(table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n')) then
        vim.bo[buffer].modified = false
        vim.schedule(function()
          pcall(vim.api.nvim_buf_delete, buffer, { force = true })
        end)
      end
    end,
  })
  vim.cmd('belowright split')
  vim.api.nvim_win_set_buf(0, buffer)
  vim.wo.winbar = bar
end

---Lines that float above all else, and take no key; until they are closed by what is given back.
---@param title string
---@param lines string[]
---@return fun() close
function M.open_float(title, lines)
  notifications.dismiss_all()
  -- Room for a question below.
  local most = math.max(3, vim.o.lines - 12)
  if #lines > most then
    local left = #lines - most + 1
    lines = vim.list_slice(lines, 1, most - 1)
    table.insert(lines, ('  … and %d more'):format(left))
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
  -- A question that follows may keep the screen as it is.
  vim.cmd('redraw')
  return function()
    pcall(vim.api.nvim_win_close, window, true)
  end
end

return M
