-- The windows of a chat: where they open, what they look like, and what is in their place when they close.

local config = require('agentls.config')

local api = vim.api
local M = {}

local WINDOW_OPTIONS = {
  -- Those that folds.lua makes.
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
  -- Under the words of a list's line, not under its mark.
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
  -- `:edit` and pickers take another window.
  winfixbuf = true,
}

---The least columns of a chat at a side, where the options ask for as many.
local LEAST = 40

---What a window showed before a chat took it, where that has no window of its own.
---@type table<integer, integer>
local before = {}

---Gives a window the look of a chat, with `extra` options over it.
---@param window integer
---@param extra table<string, any>
function M.dress(window, extra)
  for name, value in pairs(vim.tbl_extend('force', WINDOW_OPTIONS, extra)) do
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

---Shows a buffer in a window of the chat; no other may.
---@param window integer
---@param buffer integer
function M.show(window, buffer)
  vim.wo[window].winfixbuf = false
  api.nvim_win_set_buf(window, buffer)
  vim.wo[window].winfixbuf = true
end

---The windows of a tab page that show a chat and a prompt.
---@param tab? integer Absent: the current one.
---@return integer? chat
---@return integer? prompt
function M.windows(tab)
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

---Goes to the tab page that has the chat, where the options want one for it.
function M.find_tab()
  if config.current.window.position ~= 'tab' then
    return
  end
  for _, tab in ipairs(api.nvim_list_tabpages()) do
    if M.windows(tab) then
      return api.nvim_set_current_tabpage(tab)
    end
  end
end

---The size that the options ask for.
---@param all integer
---@param least integer
local function size_of(all, least)
  local size = config.current.window.size
  return math.max(least, math.floor(size < 1 and all * size or size))
end

---Gives a chat at a side its width, if the terminal's size left it less than can be read.
function M.fit()
  local position = config.current.window.position
  if position ~= 'right' and position ~= 'left' then
    return
  end
  local wanted = size_of(vim.o.columns, 20)
  for _, tab in ipairs(api.nvim_list_tabpages()) do
    local chat = M.windows(tab)
    local width = chat and api.nvim_win_get_width(chat)
    local alone = width == vim.o.columns
    if chat and not alone and (width < math.min(wanted, LEAST) or vim.o.columns - width < 10) then
      api.nvim_win_set_width(chat, wanted)
    end
  end
end

---Opens the window that a chat is shown in, where the options say, and goes there.
---@return integer window
function M.open()
  local position = config.current.window.position
  if SPLITS[position] ~= '' then
    vim.cmd(SPLITS[position])
    -- That of the window it was split from.
    vim.wo.winfixbuf = false
  else
    before[api.nvim_get_current_win()] = api.nvim_get_current_buf()
  end
  if position == 'right' or position == 'left' then
    api.nvim_win_set_width(0, size_of(vim.o.columns, 20))
  elseif position == 'bottom' or position == 'top' then
    api.nvim_win_set_height(0, size_of(vim.o.lines, 5))
  end
  return api.nvim_get_current_win()
end

---A file's buffer to be shown in the place of a chat.
---@param window integer
---@return integer?
local function file_for(window)
  local function fits(buffer)
    return buffer and api.nvim_buf_is_valid(buffer) and vim.bo[buffer].buflisted and buffer or nil
  end
  local found = fits(before[window])
  for _, info in ipairs(found and {} or vim.fn.getbufinfo({ buflisted = 1 })) do
    local used = fits(info.bufnr) and vim.bo[info.bufnr].buftype == '' and info.name ~= ''
    if used and (not found or info.lastused > vim.fn.getbufinfo(found)[1].lastused) then
      found = info.bufnr
    end
  end
  return found
end

---Closes a window of a chat; one that a file had before shows that again, and so does the last one.
---@param window integer
local function close(window)
  if not before[window] and pcall(api.nvim_win_close, window, false) then
    return
  end
  vim.wo[window].winfixbuf = false
  local file = file_for(window)
  before[window] = nil
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

---Closes the chat's windows of this tab page.
function M.close()
  local chat, prompt = M.windows()
  for _, window in ipairs({ prompt or 0, chat or 0 }) do
    if window ~= 0 and api.nvim_win_is_valid(window) then
      close(window)
    end
  end
end

return M
