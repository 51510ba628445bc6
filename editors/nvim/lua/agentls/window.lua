-- The windows of a chat: where they open, their options, and what replaces them when they close. It must not know what
-- a chat contains (view.lua).
--
-- What is opened in one of them (`:edit`, `gf`, `<C-o>`, a picker) moves to a window for files. 'winfixbuf' would
-- refuse it with an error instead.

local config = require('agentls.config')

local api = vim.api
local M = {}

local WINDOW_OPTIONS = {
  -- folds.lua creates the folds.
  foldmethod = 'manual',
  foldexpr = '0',
  foldtext = '',
  foldlevel = 0,
  foldminlines = 0,
  foldenable = true,
  fillchars = 'fold: ,eob: ',
  wrap = true,
  linebreak = true,
  breakindent = true,
  -- Align with the text of a list item, not with its bullet.
  breakindentopt = 'list:-1',
  number = false,
  relativenumber = false,
  signcolumn = 'no',
  foldcolumn = '0',
  statuscolumn = '',
  list = false,
  spell = false,
  conceallevel = 2,
  concealcursor = 'nc',
  winfixwidth = true,
}

---The least width that `restore_width` accepts, if the options ask for at least as many columns.
local MIN_COLUMNS = 40

---By window: the buffer that a chat replaced. Only for chats without a window of their own.
---@type table<integer, integer>
local replaced_buffers = {}

---By window: the session's buffer that belongs there, and the options that are not the same for all of them.
---@type table<integer, { buffer: integer, options: table<string, any> }>
local owned = {}

---Sets the options of a chat window. `options` overrides them. From now on, the window belongs to its buffer.
---@param window integer
---@param options table<string, any>
function M.apply_options(window, options)
  owned[window] = { buffer = api.nvim_win_get_buf(window), options = options }
  for name, value in pairs(vim.tbl_extend('force', WINDOW_OPTIONS, options)) do
    api.nvim_set_option_value(name, value, { win = window, scope = 'local' })
  end
end

---Whether a window belongs to a chat or a prompt, whatever it shows at the moment.
---@param window integer
function M.is_session_window(window)
  return owned[window] ~= nil
end

---Gives a window the options that new windows have.
---@param window integer
local function reset_options(window)
  local options = vim.tbl_extend('force', WINDOW_OPTIONS, { winbar = '', winfixheight = false })
  for name in pairs(options) do
    local value = api.nvim_get_option_value(name, { scope = 'global' })
    api.nvim_set_option_value(name, value, { win = window, scope = 'local' })
  end
end

---Moves what was opened in a window of a session to a window for files, and shows the session again.
---@param window integer
local function move_to_file_window(window)
  local owner = owned[window]
  if not owner or not api.nvim_win_is_valid(window) or not api.nvim_buf_is_loaded(owner.buffer) then
    return
  end
  local buffer, cursor = api.nvim_win_get_buf(window), api.nvim_win_get_cursor(window)
  if vim.b[buffer].agentls_session then
    return
  end
  local had_focus = api.nvim_get_current_win() == window
  -- The buffer remembers the options of the window that it leaves.
  reset_options(window)
  api.nvim_win_set_buf(window, owner.buffer)
  M.apply_options(window, owner.options)
  local target = require('agentls.editor').find_file_window()
  if target then
    -- A modified buffer that would be lost stays.
    local is_shown = pcall(api.nvim_win_set_buf, target, buffer)
    target = is_shown and target or nil
  end
  if not target then
    target = api.nvim_open_win(buffer, false, { split = 'left', win = -1 })
    reset_options(target)
  end
  pcall(api.nvim_win_set_cursor, target, cursor)
  if had_focus then
    api.nvim_set_current_win(target)
  end
end

local group = api.nvim_create_augroup('agentls.window', {})
api.nvim_create_autocmd('BufWinEnter', {
  group = group,
  callback = function(event)
    local window = api.nvim_get_current_win()
    if owned[window] and not vim.b[event.buf].agentls_session then
      -- The command that opened it may still move the cursor.
      vim.schedule(function()
        move_to_file_window(window)
      end)
    end
  end,
})
api.nvim_create_autocmd('WinClosed', {
  group = group,
  callback = function(event)
    owned[tonumber(event.match)] = nil
  end,
})

local SPLITS = {
  right = 'botright vsplit',
  left = 'topleft vsplit',
  bottom = 'botright split',
  top = 'topleft split',
  tab = 'tab split',
  current = '',
}

---Finds the windows of a tab page that show a chat and a prompt.
---@param tab? integer Default: the current one.
---@return integer? chat
---@return integer? prompt
function M.find_windows(tab)
  local chat, prompt
  for _, window in ipairs(api.nvim_tabpage_list_wins(tab or 0)) do
    local buffer = api.nvim_win_get_buf(window)
    if vim.b[buffer].agentls_chat then
      chat = chat or window
    elseif vim.bo[buffer].filetype == 'agentls_prompt' then
      prompt = prompt or window
    end
  end
  return chat, prompt
end

---Goes to the tab page that contains the chat, if the options ask for a separate one.
function M.go_to_chat_tab()
  if config.current.window.position ~= 'tab' then
    return
  end
  for _, tab in ipairs(api.nvim_list_tabpages()) do
    if M.find_windows(tab) then
      return api.nvim_set_current_tabpage(tab)
    end
  end
end

---Returns the size that the options ask for.
---@param total integer
---@param min integer
local function compute_size(total, min)
  local size = config.current.window.size
  return math.max(min, math.floor(size < 1 and total * size or size))
end

---Restores the width of a chat at a side if a resize of the terminal left it too narrow.
function M.restore_width()
  local position = config.current.window.position
  if position ~= 'right' and position ~= 'left' then
    return
  end
  local target_width = compute_size(vim.o.columns, 20)
  for _, tab in ipairs(api.nvim_list_tabpages()) do
    local chat = M.find_windows(tab)
    local width = chat and api.nvim_win_get_width(chat)
    local is_full_width = width == vim.o.columns
    if
      chat
      and not is_full_width
      and (width < math.min(target_width, MIN_COLUMNS) or vim.o.columns - width < 10)
    then
      api.nvim_win_set_width(chat, target_width)
    end
  end
end

---Opens the window for a chat at the configured position, and goes there.
---@return integer window
function M.open_window()
  local position = config.current.window.position
  if SPLITS[position] ~= '' then
    vim.cmd(SPLITS[position])
  else
    replaced_buffers[api.nvim_get_current_win()] = api.nvim_get_current_buf()
  end
  if position == 'right' or position == 'left' then
    api.nvim_win_set_width(0, compute_size(vim.o.columns, 20))
  elseif position == 'bottom' or position == 'top' then
    api.nvim_win_set_height(0, compute_size(vim.o.lines, 5))
  end
  return api.nvim_get_current_win()
end

---Finds the buffer to show instead of a chat.
---@param window integer
---@return integer?
local function find_replacement_buffer(window)
  local function is_usable(buffer)
    return buffer and api.nvim_buf_is_valid(buffer) and vim.bo[buffer].buflisted and buffer or nil
  end
  local best = is_usable(replaced_buffers[window])
  for _, info in ipairs(best and {} or vim.fn.getbufinfo({ buflisted = 1 })) do
    local is_candidate = is_usable(info.bufnr) and vim.bo[info.bufnr].buftype == '' and info.name ~= ''
    if is_candidate and (not best or info.lastused > vim.fn.getbufinfo(best)[1].lastused) then
      best = info.bufnr
    end
  end
  return best
end

---Closes a chat window. If it belonged to a file before, or is the last window, it shows a file instead.
---@param window integer
local function close_window(window)
  if not replaced_buffers[window] and pcall(api.nvim_win_close, window, false) then
    return
  end
  owned[window] = nil
  local file = find_replacement_buffer(window)
  replaced_buffers[window] = nil
  api.nvim_win_call(window, function()
    if file then
      vim.cmd.buffer(file)
    else
      vim.cmd('enew')
    end
  end)
  for _, name in ipairs({ 'winfixwidth', 'winfixheight' }) do
    vim.wo[window][name] = false
  end
end

---Closes the chat windows of this tab page.
function M.close_windows()
  local chat, prompt = M.find_windows()
  for _, window in ipairs({ prompt or 0, chat or 0 }) do
    if window ~= 0 and api.nvim_win_is_valid(window) then
      close_window(window)
    end
  end
end

return M
