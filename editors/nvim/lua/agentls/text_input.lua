-- Asks for a line of text, with `vim.ui.input` if a plugin has replaced it. A text that the user leaves with <Esc> is
-- kept, and offered again when the same is asked again. Notifications make room: they must not cover the text.

local dialog = require('agentls.dialog')
local notifications = require('agentls.notifications')

local M = {}

---Texts that were not submitted, by what they are for.
---@type table<string, string>
local kept = {}

---The history of Neovim's own `vim.ui.input`, which contains a text that was left, too.
local HISTORY = '@'

---When the text of an input may have changed. Neovim reports no change while more keys wait, so look at the end, too.
local EVENTS = { 'BufEnter', 'TextChanged', 'TextChangedI', 'TextChangedP', 'InsertLeave', 'BufLeave' }

---Follows the text of an input that a plugin shows in a buffer: the first one that becomes current.
---@param on_change fun(text: string)
---@return fun() stop
local function follow_window(on_change)
  local previous, input = vim.api.nvim_get_current_buf(), nil
  local id = vim.api.nvim_create_autocmd(EVENTS, {
    callback = function(event)
      if event.buf == previous or vim.bo[event.buf].buftype == '' or (input and event.buf ~= input) then
        return
      end
      input = event.buf
      local text = table.concat(vim.api.nvim_buf_get_lines(input, 0, -1, false), ' ')
      local prefix = vim.bo[input].buftype == 'prompt' and vim.fn.prompt_getprompt(input) or ''
      on_change(vim.startswith(text, prefix) and text:sub(#prefix + 1) or text)
    end,
  })
  return function()
    pcall(vim.api.nvim_del_autocmd, id)
  end
end

---Calls back once the floating window of an input is gone: some plugins report nothing when the user leaves it.
---@param on_gone fun()
---@return fun() stop
local function watch_window(on_gone)
  local id = vim.api.nvim_create_autocmd('WinClosed', {
    callback = function()
      -- What the input reports comes first.
      vim.defer_fn(function()
        if vim.api.nvim_win_get_config(0).relative == '' then
          on_gone()
        end
      end, 100)
    end,
  })
  return function()
    pcall(vim.api.nvim_del_autocmd, id)
  end
end

---@class agentls.TextInput
---@field prompt string
---@field key string What the text is for.
---@field is_retryable? boolean Whether a text that was submitted is offered again: it may not have arrived.

---@param options agentls.TextInput
---@param on_text fun(text: string) Not called if the user leaves the input.
function M.ask(options, on_text)
  notifications.dismiss_all()
  local resume = notifications.hold()
  local history_count, typed, is_over = vim.fn.histnr(HISTORY), nil, false
  local is_stock = dialog.is_stock('input')
  local stop_following, stop_watching = function() end, function() end
  if not is_stock then
    stop_following = follow_window(function(text)
      typed = text
    end)
  end
  ---@param text? string
  local function finish(text)
    if is_over then
      return
    end
    is_over = true
    stop_following()
    stop_watching()
    resume()
    if text then
      kept[options.key] = options.is_retryable and text or nil
      return on_text(text)
    end
    if vim.fn.histnr(HISTORY) > history_count then
      typed = vim.fn.histget(HISTORY, -1)
    end
    if typed and vim.trim(typed) ~= '' then
      kept[options.key] = typed
      notifications.notify('your text is kept, and comes back when you answer again')
    end
  end
  if is_stock then
    return dialog.ask_text(options.prompt, kept[options.key] or '', function(text, left_text)
      typed = left_text
      finish(text)
    end)
  end
  vim.ui.input({ prompt = options.prompt, default = kept[options.key] }, function(text)
    finish(text)
  end)
  if not is_over then
    stop_watching = watch_window(finish)
  end
end

return M
