-- Short notifications in a floating window at the bottom right, next to the chat where there is room. They never wait
-- for a key, and never cover an input. `:AgentNotices` lists them all.
--
-- A replaced `vim.notify` shows them instead. Neovim's own `vim.notify` prints into the message area, where a long
-- message waits for Enter, and which Insert mode hides. This module must not know what a notification is about.

local format = require('agentls.format')

local api = vim.api
local M = {}

local PREFIX = 'agentls: '

---How long a notification is visible, in ms. Warnings and errors are visible twice as long.
M.VISIBLE_MS = 5000

---@class agentls.Notification
---@field text string
---@field level integer
---@field expires_at number
---@field key? string It replaces an older one with the same key.

---The lines of all notifications, each with its time.
---@type string[]
M.history = {}
local MAX_HISTORY_LINES = 2000

---@type agentls.Notification[]
local visible = {}
---@type integer?
local buffer
---@type integer?
local window
local MAX_COLUMNS = 100
local GROUPS = { [vim.log.levels.ERROR] = 'DiagnosticError', [vim.log.levels.WARN] = 'DiagnosticWarn' }
local namespace = api.nvim_create_namespace('agentls.notice')

local function close_window()
  if window and api.nvim_win_is_valid(window) then
    pcall(api.nvim_win_close, window, true)
  end
  window = nil
end

---Builds the lines of the visible notifications, each with its highlight group.
---@param width integer
---@param max integer
---@return [string, string][]
local function build_lines(width, max)
  local lines = {}
  for i = #visible, 1, -1 do
    local notice, mark = visible[i], #visible > 1 and '• ' or ''
    for _, line in ipairs(vim.split(notice.text, '\n')) do
      for _, segment in ipairs(format.split_columns(format.display_text(line), width - 2, api.nvim_strwidth)) do
        table.insert(lines, { mark .. segment, GROUPS[notice.level] or 'NormalFloat' })
        mark = #visible > 1 and '  ' or ''
      end
    end
  end
  if #lines > max then
    lines = vim.list_slice(lines, 1, max - 1)
    table.insert(lines, { '… :AgentNotices shows all', 'Comment' })
  end
  return lines
end

---Below other floating windows: one of them may be an input.
local ZINDEX = 40
---The least room next to a chat that is worth using.
local MIN_COLUMNS, MIN_LINES = 30, 10

---Whether the notifications wait until an input is closed.
local is_held = false

---Finds the part of the screen that no chat and no prompt needs. Rows and columns count from 0.
---@return { top: integer, bottom: integer, left: integer, right: integer }
---@return boolean is_free Whether no chat is there.
local function find_free_area()
  local has_tabline = vim.o.showtabline == 2 or (vim.o.showtabline == 1 and #api.nvim_list_tabpages() > 1)
  -- Below the winbar of a window at the top, and above the statusline.
  local area = {
    top = has_tabline and 2 or 1,
    bottom = vim.o.lines - vim.o.cmdheight - (vim.o.laststatus > 0 and 1 or 0),
    left = 0,
    right = vim.o.columns,
  }
  local top, bottom, left, right = area.bottom, area.top, area.right, area.left
  for _, other in ipairs(api.nvim_tabpage_list_wins(0)) do
    local other_buffer = api.nvim_win_get_buf(other)
    if vim.b[other_buffer].agentls_session and api.nvim_win_get_config(other).relative == '' then
      local row, column = unpack(api.nvim_win_get_position(other))
      top, left = math.min(top, row), math.min(left, column)
      bottom = math.max(bottom, row + api.nvim_win_get_height(other) + 1)
      right = math.max(right, column + api.nvim_win_get_width(other) + 1)
    end
  end
  if right <= area.left then
    return area, true
  elseif left - area.left >= MIN_COLUMNS then
    area.right = left - 1
  elseif area.right - right >= MIN_COLUMNS then
    area.left = right
  elseif top - area.top >= MIN_LINES then
    area.bottom = top - 1
  elseif area.bottom - bottom >= MIN_LINES then
    area.top = bottom
  else
    return area, false
  end
  return area, true
end

---Draws the visible notifications, newest first.
local function draw_window()
  if #visible == 0 or is_held then
    return close_window()
  end
  local area, is_free = find_free_area()
  local lines = build_lines(
    math.max(10, math.min(MAX_COLUMNS, area.right - area.left - 4)),
    math.max(2, area.bottom - area.top - 8)
  )
  local width = 1
  for _, line in ipairs(lines) do
    width = math.max(width, vim.fn.strdisplaywidth(line[1]))
  end
  if not buffer or not api.nvim_buf_is_valid(buffer) then
    buffer = api.nvim_create_buf(false, true)
  end
  api.nvim_buf_set_lines(
    buffer,
    0,
    -1,
    false,
    vim.tbl_map(function(line)
      return line[1]
    end, lines)
  )
  api.nvim_buf_clear_namespace(buffer, namespace, 0, -1)
  for i, line in ipairs(lines) do
    api.nvim_buf_set_extmark(buffer, namespace, i - 1, 0, { end_col = #line[1], hl_group = line[2] })
  end
  local geometry = {
    relative = 'editor',
    -- Where the chat fills the screen, its end and its prompt matter more than its beginning.
    anchor = is_free and 'SE' or 'NE',
    row = is_free and area.bottom or area.top,
    col = area.right,
    width = width,
    height = #lines,
  }
  local is_in_tabpage = window
    and api.nvim_win_is_valid(window)
    and api.nvim_win_get_tabpage(window) == api.nvim_get_current_tabpage()
  if is_in_tabpage then
    api.nvim_win_set_config(assert(window), geometry)
  else
    close_window()
    geometry.style, geometry.border, geometry.focusable, geometry.zindex = 'minimal', 'rounded', false, ZINDEX
    geometry.title, geometry.noautocmd = ' agentls ', true
    window = api.nvim_open_win(buffer, false, geometry)
  end
  -- A prompt that follows may not redraw the screen.
  vim.cmd('redraw')
end

local function remove_expired()
  local now = vim.uv.now()
  visible = vim.tbl_filter(function(notice)
    return notice.expires_at > now
  end, visible)
  pcall(draw_window)
end

---@param text string
---@param level integer
---@param key? string
local function add_notification(text, level, key)
  -- An information replaces older ones. A warning stays until it expires.
  visible = vim.tbl_filter(function(notice)
    return notice.text ~= text
      and (not key or notice.key ~= key)
      and (GROUPS[level] ~= nil or GROUPS[notice.level] ~= nil)
  end, visible)
  local ms = GROUPS[level] and 2 * M.VISIBLE_MS or M.VISIBLE_MS
  vim.uv.update_time()
  table.insert(visible, { text = text, level = level, expires_at = vim.uv.now() + ms, key = key })
  vim.defer_fn(remove_expired, ms + 20)
  if not pcall(draw_window) then
    -- Neovim opens no window while the text is locked.
    vim.schedule(function()
      pcall(draw_window)
    end)
  end
end

---@param text string
local function record_history(text)
  for i, line in ipairs(vim.split(text, '\n')) do
    table.insert(M.history, (i == 1 and os.date('%H:%M:%S  ') or '          ') .. format.display_text(line))
  end
  if #M.history > MAX_HISTORY_LINES then
    M.history = vim.list_slice(M.history, #M.history - MAX_HISTORY_LINES / 2)
  end
end

---Lists a text in the history without showing it.
---@param text string
function M.record(text)
  record_history(text)
end

---Whether nothing has replaced Neovim's own `vim.notify`.
local function is_default_notify()
  return debug.getinfo(vim.notify, 'S').source:find('^@vim/') ~= nil
end

---Shows a notification, on as many lines as it needs.
---@param text string
---@param level? integer
---@param key? string It replaces an older one with the same key.
function M.notify(text, level, key)
  level = level or vim.log.levels.INFO
  text = text:gsub('^' .. PREFIX, '')
  record_history(text)
  if not is_default_notify() then
    vim.notify(PREFIX .. text, level)
  elseif vim.v.vim_did_enter == 0 then
    api.nvim_create_autocmd('VimEnter', {
      once = true,
      callback = function()
        add_notification(text, level, key)
      end,
    })
  elseif vim.in_fast_event() then
    vim.schedule(function()
      add_notification(text, level, key)
    end)
  else
    add_notification(text, level, key)
  end
end

---How many columns a short notification may have in the float.
local MAX_LINE_COLUMNS = 150

---Shows a short notification. Truncates `subject` if necessary.
---@param prefix string
---@param subject? string Text from the model or the repository.
---@param suffix? string
---@param level? integer
function M.notify_line(prefix, subject, suffix, level)
  suffix = suffix or ''
  local columns = vim.fn.strdisplaywidth
  -- The float wraps. What replaced `vim.notify` may print into one line.
  local total = is_default_notify() and math.max(vim.v.echospace, MAX_LINE_COLUMNS) or vim.v.echospace
  local available = total - columns(PREFIX .. prefix) - columns(suffix)
  local text = format.display_text(format.single_line(subject or '', 4000))
  if columns(text) > available then
    text = format.split_columns(text, math.max(available - 1, 12), vim.api.nvim_strwidth)[1] .. '…'
  end
  M.notify(prefix .. text .. suffix, level)
end

---How many bytes of a long text `notify_truncated` shows.
local MAX_BYTES = 400

---Shows the start of a text that may be long. The history contains all of it.
---@param text string
---@param level? integer
function M.notify_truncated(text, level)
  text = format.reveal_hidden(text)
  if #text > MAX_BYTES then
    record_history(text)
    text = format.truncate(text, MAX_BYTES)
  end
  M.notify(text, level)
end

---Hides the notifications until the returned function is called, because the user types where they would be.
---@return fun() resume
function M.hold()
  is_held = true
  pcall(draw_window)
  return function()
    is_held = false
    local now = vim.uv.now()
    for _, notice in ipairs(visible) do
      -- One that came in the meantime was not visible yet.
      notice.expires_at = math.max(notice.expires_at, now + M.VISIBLE_MS)
    end
    vim.defer_fn(remove_expired, M.VISIBLE_MS + 20)
    pcall(draw_window)
  end
end

---Whether the notifications wait until an input is closed. For tests.
function M.is_holding()
  return is_held
end

---Hides all notifications, because something else needs the space.
function M.dismiss_all()
  visible = {}
  pcall(draw_window)
end

return M
