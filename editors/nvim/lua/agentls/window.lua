-- The windows of a chat: where they open, their options, and what replaces them when they close. It must not know what
-- a chat contains (view.lua).

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
  -- `:edit` and pickers must use another window.
  winfixbuf = true,
}

---The least width that `restore_width` accepts, if the options ask for at least as many columns.
local MIN_COLUMNS = 40

---By window: the buffer that a chat replaced. Only for chats without a window of their own.
---@type table<integer, integer>
local replaced_buffers = {}

---Sets the options of a chat window. `options` overrides them.
---@param window integer
---@param options table<string, any>
function M.apply_options(window, options)
  for name, value in pairs(vim.tbl_extend('force', WINDOW_OPTIONS, options)) do
    api.nvim_set_option_value(name, value, { win = window, scope = 'local' })
  end
end

local SPLITS = {
  right = 'botright vsplit',
  left = 'topleft vsplit',
  bottom = 'botright split',
  top = 'topleft split',
  tab = 'tab split',
  current = '',
}

---Shows a buffer in a chat window, in spite of 'winfixbuf'.
---@param window integer
---@param buffer integer
function M.show_buffer(window, buffer)
  vim.wo[window].winfixbuf = false
  api.nvim_win_set_buf(window, buffer)
  vim.wo[window].winfixbuf = true
end

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
    -- The split inherited the option.
    vim.wo.winfixbuf = false
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
  vim.wo[window].winfixbuf = false
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
