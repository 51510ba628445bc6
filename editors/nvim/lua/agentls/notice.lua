-- Short notices for the person, which wait for no key: in a small window of their own at the top right.
--
-- Where `vim.notify` was replaced, that shows them. Neovim's own prints into the message area: what does not fit there
-- waits for Enter, and nobody sees it in Insert mode. `:AgentNotices` shows all of them.

local text = require('agentls.text')

local api = vim.api
local M = {}

local PREFIX = 'agentls: '

---How long a notice is seen, in ms; one that warns is seen twice as long.
M.SEEN_MS = 5000

---@class agentls.ShownNotice
---@field words string
---@field level integer
---@field till number

---The lines of all notices, each notice with its time.
---@type string[]
M.history = {}
---The most lines that are kept.
local KEPT = 2000

---@type agentls.ShownNotice[]
local shown = {}
---@type integer?
local buffer
---@type integer?
local window
local MOST_COLUMNS = 100
local GROUPS = { [vim.log.levels.ERROR] = 'DiagnosticError', [vim.log.levels.WARN] = 'DiagnosticWarn' }
local namespace = api.nvim_create_namespace('agentls.notice')

local function close()
  if window and api.nvim_win_is_valid(window) then
    pcall(api.nvim_win_close, window, true)
  end
  window = nil
end

---The lines of what is shown, each with its highlight group.
---@param width integer
---@param most integer
---@return [string, string][]
local function lines_of(width, most)
  local lines = {}
  for i = #shown, 1, -1 do
    local notice, mark = shown[i], #shown > 1 and '• ' or ''
    for _, line in ipairs(vim.split(notice.words, '\n')) do
      for _, piece in ipairs(text.pieces(text.visible(line), width - 2, api.nvim_strwidth)) do
        table.insert(lines, { mark .. piece, GROUPS[notice.level] or 'NormalFloat' })
        mark = #shown > 1 and '  ' or ''
      end
    end
  end
  if #lines > most then
    lines = vim.list_slice(lines, 1, most - 1)
    table.insert(lines, { '… :AgentNotices shows all', 'Comment' })
  end
  return lines
end

---Draws what is shown; the newest is on top.
local function draw()
  if #shown == 0 then
    return close()
  end
  local lines =
    lines_of(math.max(10, math.min(MOST_COLUMNS, vim.o.columns - 4)), math.max(2, vim.o.lines - 8))
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
  local tabline = vim.o.showtabline == 2 or (vim.o.showtabline == 1 and #api.nvim_list_tabpages() > 1)
  local place = {
    relative = 'editor',
    anchor = 'NE',
    -- Below the bar of a window at the top.
    row = tabline and 2 or 1,
    col = vim.o.columns,
    width = width,
    height = #lines,
  }
  local here = window
    and api.nvim_win_is_valid(window)
    and api.nvim_win_get_tabpage(window) == api.nvim_get_current_tabpage()
  if here then
    api.nvim_win_set_config(assert(window), place)
  else
    close()
    place.style, place.border, place.focusable, place.zindex = 'minimal', 'rounded', false, 200
    place.title, place.noautocmd = ' agentls ', true
    window = api.nvim_open_win(buffer, false, place)
  end
  -- A question that follows may keep the screen as it is.
  vim.cmd('redraw')
end

local function expire()
  local now = vim.uv.now()
  shown = vim.tbl_filter(function(notice)
    return notice.till > now
  end, shown)
  pcall(draw)
end

---@param words string
---@param level integer
local function show(words, level)
  -- News replaces older news; a warning stays until its time is over.
  shown = vim.tbl_filter(function(notice)
    return notice.words ~= words and (GROUPS[level] ~= nil or GROUPS[notice.level] ~= nil)
  end, shown)
  local ms = GROUPS[level] and 2 * M.SEEN_MS or M.SEEN_MS
  vim.uv.update_time()
  table.insert(shown, { words = words, level = level, till = vim.uv.now() + ms })
  vim.defer_fn(expire, ms + 20)
  if not pcall(draw) then
    -- No window can be opened while the text is locked.
    vim.schedule(function()
      pcall(draw)
    end)
  end
end

---@param words string
local function keep(words)
  for i, line in ipairs(vim.split(words, '\n')) do
    table.insert(M.history, (i == 1 and os.date('%H:%M:%S  ') or '          ') .. text.visible(line))
  end
  if #M.history > KEPT then
    M.history = vim.list_slice(M.history, #M.history - KEPT / 2)
  end
end

---Whether Neovim's own `vim.notify` is there still.
local function is_stock()
  return debug.getinfo(vim.notify, 'S').source:find('^@vim/') ~= nil
end

---Notifies, on as many lines as it takes.
---@param words string
---@param level? integer
function M.tell(words, level)
  level = level or vim.log.levels.INFO
  words = words:gsub('^' .. PREFIX, '')
  keep(words)
  if not is_stock() then
    vim.notify(PREFIX .. words, level)
  elseif vim.v.vim_did_enter == 0 then
    api.nvim_create_autocmd('VimEnter', {
      once = true,
      callback = function()
        show(words, level)
      end,
    })
  elseif vim.in_fast_event() then
    vim.schedule(function()
      show(words, level)
    end)
  else
    show(words, level)
  end
end

---Notifies in one line. `subject` gives way first.
---@param before string
---@param subject? string Words of the model or of the repository.
---@param after? string
---@param level? integer
function M.say(before, subject, after, level)
  after = after or ''
  local columns = vim.fn.strdisplaywidth
  local room = vim.v.echospace - columns(PREFIX .. before) - columns(after)
  local words = text.visible(text.one_line(subject or '', 4000))
  if columns(words) > room then
    words = text.pieces(words, math.max(room - 1, 12), vim.api.nvim_strwidth)[1] .. '…'
  end
  M.tell(before .. words .. after, level)
end

---The most characters of words that come from elsewhere.
local MOST = 400

---Notifies with words that may be long: with their start. All of them are kept.
---@param words string
---@param level? integer
function M.say_start(words, level)
  words = text.reveal(words)
  if #words > MOST then
    keep(words)
    words = text.cut(words, MOST)
  end
  M.tell(words, level)
end

---Takes the notices off the screen: something else is to be read there.
function M.dismiss()
  shown = {}
  pcall(draw)
end

return M
