-- Knows what the user types, to tell an answer from text, and to keep a window that opens late from taking the focus.
--
-- It records when keys were typed, and never which text. It must not know what a key means.

local M = {}

---How long no other letter may have been typed before an answer key, in ms. Somebody who types text pauses less.
M.QUIET_MS = 700

---How many keys were typed. A key that a mapping produced does not count.
M.typed_count = 0

---The key that was typed last, and when the last letter before a run of it was typed, in ms.
local run_key, before_run_at = nil, -math.huge
local last_letter_at = -math.huge
local is_window_command = false

---Returns a monotonic time. Tests replace it.
---@return number ms
function M.now_ms()
  return vim.uv.hrtime() / 1e6
end

---Whether a key is part of a text. `G` is not: it is how one goes to the end, and few words begin with it. Nor are the
---brackets and digits of other motions.
---@param key string
local function is_letter(key)
  return key ~= 'G'
    and (key:find('^[%a ,.;:!\'"]$') ~= nil or (key:byte() > 194 and vim.fn.strchars(key) == 1))
end

local CTRL_W, ESCAPE = '\23', '\27'

---@param _ string The key after mappings.
---@param typed? string The key before mappings; empty if a mapping produced it.
local function record_key(_, typed)
  if not typed or typed == '' then
    return
  end
  local name = vim.fn.keytrans(typed)
  if name:find('^<MouseMove>') or name:find('^<ScrollWheel') then
    return
  end
  M.typed_count = M.typed_count + 1
  if typed ~= run_key then
    run_key, before_run_at = typed, last_letter_at
  end
  if vim.api.nvim_get_mode().mode:sub(1, 1) == 'c' or typed == ESCAPE or typed == CTRL_W then
    -- A search, a command, or another window is a choice, and `<Esc>` ends a text.
    last_letter_at = -math.huge
  elseif is_letter(typed) and not is_window_command then
    -- In `<C-w>k`, `k` is not text.
    last_letter_at = M.now_ms()
  end
  is_window_command = typed == CTRL_W
end

vim.on_key(record_key, vim.api.nvim_create_namespace('agentls.attention'))

---Ends a text that was being typed: the user has chosen to do something else.
function M.end_text()
  last_letter_at = -math.huge
end

---Whether the last key was typed on its own, not within text.
---@return boolean
function M.is_quiet()
  return M.now_ms() - before_run_at >= M.QUIET_MS
end

---Returns a function that opens something, or reports that it is ready if the user has typed in the meantime: what
---opened then would take the keys that are meant for something else.
---@generic F: fun(...)
---@param report string What to report instead.
---@param open F
---@return F
function M.guard(report, open)
  local count = M.typed_count
  return function(...)
    if M.typed_count ~= count then
      return require('agentls.notifications').notify(report)
    end
    return open(...)
  end
end

---Returns a function that tells whether the user has typed since.
---@return fun(): boolean
function M.watch()
  local count = M.typed_count
  return function()
    return M.typed_count ~= count
  end
end

return M
