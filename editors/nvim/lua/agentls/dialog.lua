-- A list to choose from, or a line of text, in a floating window. Used instead of Neovim's own `vim.ui.select` and
-- `vim.ui.input`, which print into the message area: a list longer than the screen ends in the pager there, and takes
-- the answer for a key of the pager.
--
-- The window has the question, then the line to type in, then the list as virtual lines. It must not know what is
-- asked.

local attention = require('agentls.attention')
local buffers = require('agentls.buffers')
local draw = require('agentls.render.block')
local format = require('agentls.format')
local notifications = require('agentls.notifications')

local api = vim.api
local M = {}

local PREFIX = '› '
local MAX_COLUMNS, MIN_COLUMNS, MIN_TEXT_COLUMNS = 100, 40, 60
---The entries of a list that is not longer have numbers.
local MAX_NUMBERED = 9
---Above the notifications.
local ZINDEX = 60
---How long after it opens a list that is not used yet takes no <CR>, in ms: the key was meant for something else.
M.SETTLE_MS = 300
local namespace = api.nvim_create_namespace('agentls.dialog')

---@class agentls.Dialog
---@field buffer integer
---@field window integer
---@field question string[]
---@field items { label: string, lines: string[] }[] All items, with their wrapped labels.
---@field shown integer[] The indexes of the items that match the filter.
---@field selected integer An index of `shown`.
---@field top integer The first visible item, an index of `shown`.
---@field width integer
---@field opened_at number
---@field is_used? boolean Whether the user has moved or typed in it.
---@field finish fun(result?: integer|string)

---Whether nothing has replaced Neovim's own `vim.ui.select` or `vim.ui.input`.
---@param name 'select'|'input'
function M.is_stock(name)
  local source = debug.getinfo(vim.ui[name], 'S').source
  return source:find('^@vim/ui%.lua$') ~= nil or source:find('/lua/vim/ui%.lua$') ~= nil
end

---@param dialog agentls.Dialog
---@return string
local function get_text(dialog)
  local line = api.nvim_buf_get_lines(dialog.buffer, -2, -1, false)[1] or ''
  return vim.startswith(line, PREFIX) and line:sub(#PREFIX + 1) or line
end

---How many lines the list may have.
---@param dialog agentls.Dialog
local function get_room(dialog)
  return math.max(3, vim.o.lines - 6 - #dialog.question)
end

---Moves `top` so that the selected item is visible, and returns the index of the last visible item.
---@param dialog agentls.Dialog
---@return integer last
local function scroll_list(dialog)
  local room = get_room(dialog)
  local function count_lines(from, to)
    local count = 0
    for i = from, to do
      count = count + #dialog.items[dialog.shown[i]].lines
    end
    return count
  end
  dialog.top = math.min(dialog.top, dialog.selected)
  while dialog.top < dialog.selected and count_lines(dialog.top, dialog.selected) > room do
    dialog.top = dialog.top + 1
  end
  local last = dialog.selected
  while last < #dialog.shown and count_lines(dialog.top, last + 1) <= room do
    last = last + 1
  end
  return math.min(last, #dialog.shown)
end

---@param dialog agentls.Dialog
---@return [string, string][][]
local function build_list(dialog)
  local lines = {}
  if #dialog.items == 0 then
    return lines
  elseif #dialog.shown == 0 then
    return { { { '  no match', 'AgentlsDim' } } }
  end
  local last = scroll_list(dialog)
  for i = dialog.top, last do
    local is_selected = i == dialog.selected
    for j, line in ipairs(dialog.items[dialog.shown[i]].lines) do
      local text = (is_selected and j == 1 and '▸ ' or '  ') .. line
      local padding = (' '):rep(dialog.width - vim.fn.strdisplaywidth(text))
      table.insert(lines, { { text .. padding, is_selected and 'PmenuSel' or 'NormalFloat' } })
    end
  end
  if dialog.top > 1 or last < #dialog.shown then
    local count = ('  %d of %d · <Down> <Up> · type to filter'):format(dialog.selected, #dialog.shown)
    table.insert(lines, { { draw.fit_columns(count, dialog.width), 'AgentlsDim' } })
  end
  return lines
end

---@param dialog agentls.Dialog
local function redraw(dialog)
  if not api.nvim_win_is_valid(dialog.window) then
    return
  end
  local lines = build_list(dialog)
  local last = api.nvim_buf_line_count(dialog.buffer) - 1
  api.nvim_buf_clear_namespace(dialog.buffer, namespace, last, -1)
  api.nvim_buf_set_extmark(dialog.buffer, namespace, last, 0, { virt_lines = lines })
  local input_columns = vim.fn.strdisplaywidth(PREFIX .. get_text(dialog)) + 1
  local input_lines = #dialog.items > 0 and 1 or math.max(1, math.ceil(input_columns / dialog.width))
  local height = math.min(#dialog.question + input_lines + #lines, math.max(2, vim.o.lines - 4))
  api.nvim_win_set_config(dialog.window, {
    -- At the bottom: what the question is about may be above.
    relative = 'editor',
    row = math.max(0, vim.o.lines - vim.o.cmdheight - 1 - height - 2),
    col = math.max(0, math.floor((vim.o.columns - dialog.width) / 2) - 1),
    height = height,
    width = dialog.width,
  })
  api.nvim_win_call(dialog.window, function()
    vim.fn.winrestview({ topline = 1 })
  end)
end

---Shows the items that contain every word of the filter, or the one with this number in a short list.
---@param dialog agentls.Dialog
local function apply_filter(dialog)
  local words = vim.split(get_text(dialog):lower(), '%s+', { trimempty = true })
  local number = #dialog.items <= MAX_NUMBERED and #words == 1 and tonumber(words[1])
  local selected_item = dialog.shown[dialog.selected]
  dialog.is_used = dialog.is_used or #words > 0
  dialog.shown, dialog.selected, dialog.top = {}, 1, 1
  for i, item in ipairs(dialog.items) do
    local label = item.label:lower()
    local is_match = number == i
      or not number
        and vim.iter(words):all(function(word)
          return label:find(word, 1, true) ~= nil
        end)
    if is_match then
      table.insert(dialog.shown, i)
      if #words == 0 and i == selected_item then
        dialog.selected = #dialog.shown
      end
    end
  end
  redraw(dialog)
end

---@param dialog agentls.Dialog
---@param step integer
local function move_selection(dialog, step)
  local count = #dialog.shown
  if count > 0 then
    local target = dialog.selected + step
    if math.abs(step) == 1 then
      target = (target - 1) % count + 1
    end
    dialog.selected = math.max(1, math.min(count, target))
    dialog.is_used = true
    redraw(dialog)
  end
end

---@param dialog agentls.Dialog
local function accept(dialog)
  if #dialog.items == 0 then
    return dialog.finish(get_text(dialog))
  end
  local is_settled = vim.uv.hrtime() / 1e6 - dialog.opened_at >= M.SETTLE_MS
  if dialog.shown[dialog.selected] and (is_settled or dialog.is_used) then
    dialog.finish(dialog.shown[dialog.selected])
  end
end

---@param dialog agentls.Dialog
local function map_keys(dialog)
  local function map(modes, keys, action)
    for _, key in ipairs(keys) do
      vim.keymap.set(modes, key, action, { buffer = dialog.buffer, nowait = true, silent = true })
    end
  end
  map({ 'i', 'n' }, { '<CR>' }, function()
    accept(dialog)
  end)
  map({ 'i', 'n' }, { '<Esc>', '<C-c>' }, function()
    dialog.finish(nil)
  end)
  -- In such a buffer, Neovim would take it for a command for windows.
  map({ 'i' }, { '<C-w>' }, '<C-S-w>')
  if #dialog.items == 0 then
    return
  end
  map({ 'i', 'n' }, { '<Down>', '<C-n>', '<Tab>', '<ScrollWheelDown>' }, function()
    move_selection(dialog, 1)
  end)
  map({ 'i', 'n' }, { '<Up>', '<C-p>', '<S-Tab>', '<ScrollWheelUp>' }, function()
    move_selection(dialog, -1)
  end)
  map({ 'i', 'n' }, { '<PageDown>', '<C-f>', '<C-d>' }, function()
    move_selection(dialog, math.floor(get_room(dialog) / 2))
  end)
  map({ 'i', 'n' }, { '<PageUp>', '<C-b>' }, function()
    move_selection(dialog, -math.floor(get_room(dialog) / 2))
  end)
end

---@param question string
---@param width integer
---@return string[]
local function wrap_question(question, width)
  local lines = {}
  for _, line in ipairs(format.split_lines(question)) do
    vim.list_extend(lines, format.split_columns(vim.trim(line), width, api.nvim_strwidth))
  end
  local room = math.max(1, math.floor(vim.o.lines / 3))
  if #lines > room then
    lines = vim.list_slice(lines, 1, room)
    lines[room] = draw.fit_columns(lines[room] .. ' ', width - 1) .. '…'
  end
  return lines
end

---@param question string
---@param labels string[]
---@param text string
---@return integer
local function choose_width(question, labels, text)
  local width = #labels > 0 and MIN_COLUMNS or math.max(MIN_TEXT_COLUMNS, vim.fn.strdisplaywidth(text) + 4)
  for _, label in ipairs(vim.list_extend(format.split_lines(question), labels)) do
    width = math.max(width, vim.fn.strdisplaywidth(label) + 7)
  end
  return math.max(10, math.min(width, MAX_COLUMNS, vim.o.columns - 4))
end

---Goes on in Insert mode where the user was. Leaving the window of the dialog ends that mode.
---@param window integer
---@param cursor [integer, integer]
local function resume_insert(window, cursor)
  if api.nvim_get_current_win() == window and vim.bo.modifiable then
    pcall(api.nvim_win_set_cursor, window, cursor)
    vim.cmd(cursor[2] >= #api.nvim_get_current_line() and 'startinsert!' or 'startinsert')
  end
end

---@param question string
---@param labels string[]
---@param text string The text to begin with.
---@param selected integer
---@param on_done fun(result?: integer|string, text: string)
local function open(question, labels, text, selected, on_done)
  buffers.define_highlights()
  local origin, was_inserting = api.nvim_get_current_win(), api.nvim_get_mode().mode:sub(1, 1) == 'i'
  local cursor, width = api.nvim_win_get_cursor(origin), choose_width(question, labels, text)
  local buffer = api.nvim_create_buf(false, true)
  vim.bo[buffer].bufhidden = 'wipe'
  vim.bo[buffer].buftype = 'prompt'
  vim.bo[buffer].filetype = 'agentls_dialog'
  vim.fn.prompt_setprompt(buffer, PREFIX)
  local lines = wrap_question(question, width)
  api.nvim_buf_set_lines(buffer, 0, -1, false, vim.list_extend(vim.list_slice(lines), { PREFIX .. text }))
  for row, line in ipairs(lines) do
    api.nvim_buf_set_extmark(buffer, namespace, row - 1, 0, { end_col = #line, hl_group = 'Title' })
  end
  local window = api.nvim_open_win(buffer, true, {
    relative = 'editor',
    row = 0,
    col = 0,
    width = width,
    height = #lines + 1,
    style = 'minimal',
    border = 'rounded',
    title = ' agentls ',
    zindex = ZINDEX,
  })
  vim.wo[window].wrap, vim.wo[window].linebreak = true, true
  vim.bo[buffer].modified = false
  local items, shown = {}, {}
  for i, label in ipairs(labels) do
    local shown_label = #labels <= MAX_NUMBERED and ('%d: %s'):format(i, label) or label
    items[i] = { label = label, lines = format.split_columns(shown_label, width - 2, api.nvim_strwidth) }
    shown[i] = i
  end
  local is_over = false
  ---@type agentls.Dialog
  local dialog = {
    buffer = buffer,
    window = window,
    question = lines,
    items = items,
    shown = shown,
    selected = selected,
    top = 1,
    width = width,
    opened_at = vim.uv.hrtime() / 1e6,
    finish = function() end,
  }
  function dialog.finish(result)
    if is_over then
      return
    end
    is_over = true
    -- An answer key that follows is not part of what was typed here.
    attention.end_text()
    local typed = get_text(dialog)
    vim.cmd('stopinsert')
    pcall(api.nvim_win_close, window, true)
    if api.nvim_win_is_valid(origin) then
      api.nvim_set_current_win(origin)
    end
    -- Once Insert mode has ended: another dialog may follow.
    vim.schedule(function()
      on_done(result, typed)
      if was_inserting then
        resume_insert(origin, cursor)
      end
    end)
  end
  map_keys(dialog)
  api.nvim_create_autocmd({ 'TextChangedI', 'TextChanged' }, {
    buffer = buffer,
    callback = function()
      if #items > 0 then
        apply_filter(dialog)
      else
        redraw(dialog)
      end
    end,
  })
  api.nvim_create_autocmd('WinLeave', {
    buffer = buffer,
    callback = function()
      vim.schedule(function()
        dialog.finish(nil)
      end)
    end,
  })
  redraw(dialog)
  api.nvim_win_set_cursor(window, { #lines + 1, #PREFIX + #text })
  vim.cmd('startinsert!')
end

---Asks for a line of text.
---@param question string
---@param text string The text to begin with.
---@param on_done fun(text?: string, left_text: string) Without `text`: the user left, and typed `left_text`.
function M.ask_text(question, text, on_done)
  open(question, {}, text, 1, function(result, left_text)
    on_done(result --[[@as string?]], left_text)
  end)
end

---@class agentls.Choice
---@field prompt string
---@field kind? string For what replaced `vim.ui.select`.
---@field format_item? fun(item: any): string
---@field current? fun(item: any): boolean Whether an item is what applies now. It is selected.

---Asks the user to choose an item. Calls back with nil if the user chooses none.
---@generic T
---@param items T[]
---@param choice agentls.Choice
---@param on_choice fun(item?: T, index?: integer)
function M.select(items, choice, on_choice)
  notifications.dismiss_all()
  local current = 1
  for i, item in ipairs(items) do
    current = choice.current and choice.current(item) and i or current
  end
  if not M.is_stock('select') then
    -- Most lists begin at their first item.
    local ordered = vim.list_slice(items)
    table.insert(ordered, 1, table.remove(ordered, current))
    return vim.ui.select(ordered, {
      prompt = choice.prompt,
      kind = choice.kind,
      format_item = choice.format_item,
    }, on_choice)
  end
  local resume = notifications.hold()
  local labels = vim.tbl_map(function(item)
    return format.display_text((choice.format_item or tostring)(item))
  end, items)
  open(format.reveal_hidden(choice.prompt), labels, '', current, function(index)
    resume()
    on_choice(index and items[index], index --[[@as integer?]])
  end)
end

return M
