-- The window that a chat is shown in: where it opens, and its options.

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
}

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

---Opens the window that a chat is shown in, where the options say, and goes there.
---@return integer window
function M.open()
  local window = config.current.window
  if SPLITS[window.position] ~= '' then
    vim.cmd(SPLITS[window.position])
  end
  local size = window.size
  if window.position == 'right' or window.position == 'left' then
    api.nvim_win_set_width(0, math.max(20, math.floor(size < 1 and vim.o.columns * size or size)))
  elseif window.position == 'bottom' or window.position == 'top' then
    api.nvim_win_set_height(0, math.max(5, math.floor(size < 1 and vim.o.lines * size or size)))
  end
  return api.nvim_get_current_win()
end

return M
