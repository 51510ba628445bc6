-- Draws sessions into chat buffers: changes only the lines that differ, at most once a frame, and never moves a
-- cursor but the one that stands at the end.

local bars = require('agentls.bars')
local buffers = require('agentls.buffers')
local changes_of = require('agentls.state.changes')
local code = require('agentls.code')
local config = require('agentls.config')
local folds = require('agentls.folds')
local layout = require('agentls.layout')
local nesting = require('agentls.nesting')
local prompts = require('agentls.prompt')
local render = require('agentls.render')
local sessions = require('agentls.sessions')
local status = require('agentls.status')

local api = vim.api
local M = {}

M.prompt_buffer = prompts.buffer

---@class agentls.View
---@field session agentls.Session
---@field buffer integer
---@field entries agentls.Entry[]
---@field rows integer[] The first row of each entry.
---@field dirty boolean
---@field width? integer The columns that it was drawn for.
---@field folds agentls.Folds
---@field nested table How its items lay under calls, for `nesting.again`.
---@field status_key? string What stands beside the lines, to see whether it changed.

---@class agentls.Entry
---@field key string
---@field item agentls.Item
---@field before string What the block depends on of other items.
---@field block agentls.Block

---@type table<string, agentls.View>
local views = {}

---Called when what lies under the cursor of a chat's window may have changed.
---@type fun(window: integer)
M.on_look = function() end

local blocks_ns = api.nvim_create_namespace('agentls.blocks')
local status_ns = api.nvim_create_namespace('agentls.status')

---Empty lines at the end: room, and the line that the status is drawn on.
local TAIL = 2
local FRAME_MS = 16

---The longest time that one drawing took, in ms; for tests and `:checkhealth`.
---@type number
M.longest_ms = 0

---@param view agentls.View
---@return agentls.RenderOptions
local function options(view)
  local current = config.current
  return {
    output_lines = current.output_lines,
    keys = current.keys,
    cwd = view.session.state.cwd,
    width = view.width,
  }
end

-- Blocks into lines -----------------------------------------------------------------------------------------

local function before_key(before)
  return before and before.kind .. (before.kind == 'tool' and before.approval and '?' or '') or ''
end

---The entries of a view's state, those that it had used again where nothing changed.
---@param view agentls.View
local function entries_of(view)
  local state, known, width = view.session.state, {}, nil
  for _, window in ipairs(buffers.windows_of(view.buffer)) do
    width = math.min(width or math.huge, api.nvim_win_get_width(window))
  end
  if width and width ~= view.width then
    view.width = width
  else
    for _, entry in ipairs(view.entries) do
      known[entry.key] = entry
    end
  end
  local entries, how, nests = {}, options(view), nesting.again(view.nested, state.items, state.notices)
  local latest = changes_of.of(state)
  for i, item in ipairs(state.items) do
    local key, nest = item.kind .. ' ' .. item.id, nests[i]
    local before = before_key(state.items[i - 1])
    if nest then
      before = before .. nest.key
    elseif item == latest then
      before = before .. ' latest'
    end
    local entry = known[key]
    if not entry or entry.item ~= item or entry.before ~= before then
      local block = render.block(item, state.items[i - 1], how, nest, item == latest)
      entry = { key = key, item = item, before = before, block = block }
    end
    entries[i] = entry
  end
  return entries
end

local function set_marks(buffer, row, block)
  for _, mark in ipairs(block.marks) do
    if mark.goes_on then
      api.nvim_buf_set_extmark(buffer, blocks_ns, row + mark.row, mark.from, {
        virt_text = { { '↳ ', mark.group } },
        virt_text_pos = 'inline',
        right_gravity = false,
      })
    elseif mark.conceal then
      api.nvim_buf_set_extmark(
        buffer,
        blocks_ns,
        row + mark.row,
        mark.from,
        { end_col = mark.to, conceal = '' }
      )
    elseif mark.from then
      api.nvim_buf_set_extmark(buffer, blocks_ns, row + mark.row, mark.from, {
        end_col = mark.to,
        hl_group = mark.group,
        priority = 200,
        strict = false,
      })
    else
      api.nvim_buf_set_extmark(buffer, blocks_ns, row + mark.row, 0, {
        -- Within its line: marks that end in the next one would go with that one's.
        end_col = #block.lines[mark.row + 1],
        hl_group = mark.group,
        line_hl_group = mark.group,
        priority = 150,
        strict = false,
      })
    end
  end
  for at = 0, block.depth > 0 and #block.lines - 1 or -1 do
    api.nvim_buf_set_extmark(buffer, blocks_ns, row + at, 0, {
      virt_text = { { ('│ '):rep(block.depth), 'AgentlsDim' } },
      virt_text_pos = 'inline',
      right_gravity = false,
    })
  end
  if block.tail then
    -- Inline: other words at a line's end are not seen where it is folded.
    local column = #block.lines[block.tail.row + 1]
    api.nvim_buf_set_extmark(buffer, blocks_ns, row + block.tail.row, column, {
      virt_text = block.tail.chunks,
      virt_text_pos = 'inline',
      right_gravity = false,
    })
  end
  if block.hint then
    local lines = {}
    for i, chunks in ipairs(block.hint) do
      -- The first stands on a line that is set in itself.
      local lead = i > 1 and ('│ '):rep(block.depth) or ''
      lines[i] = vim.list_extend({ { lead .. '  ', 'AgentlsDim' } }, chunks)
    end
    local first = table.remove(lines, 1)
    api.nvim_buf_set_extmark(buffer, blocks_ns, row + #block.lines - 1, 0, {
      virt_text = first,
      virt_text_pos = 'overlay',
      virt_lines = #lines > 0 and lines or nil,
    })
  end
end

---Makes the `old` lines that begin at `row` the `new` ones, and changes no more than differs.
local function patch(buffer, row, old, new)
  local same = 0
  while same < #old and same < #new and old[same + 1] == new[same + 1] do
    same = same + 1
  end
  if same == #old - 1 and #new > same and vim.startswith(new[same + 1], old[same + 1]) then
    -- The usual case: words that join the last line, and lines after it.
    local rest = vim.list_slice(new, same + 1)
    local column = #old[same + 1]
    rest[1] = rest[1]:sub(column + 1)
    api.nvim_buf_set_text(buffer, row + same, column, row + same, column, rest)
    return
  end
  local tail = 0
  while tail < #old - same and tail < #new - same and old[#old - tail] == new[#new - tail] do
    tail = tail + 1
  end
  if same + tail == #old and #old == #new then
    return
  end
  api.nvim_buf_set_lines(
    buffer,
    row + same,
    row + #old - tail,
    false,
    vim.list_slice(new, same + 1, #new - tail)
  )
end

local function all_lines(entries, from, to)
  local lines = {}
  for i = from, to do
    vim.list_extend(lines, entries[i].block.lines)
  end
  return lines
end

---@param view agentls.View
local function draw_entries(view)
  local old, new = view.entries, entries_of(view)
  local first = 1
  while old[first] and old[first] == new[first] do
    first = first + 1
  end
  if first > #old and first > #new then
    return
  end
  local tail = 0
  while #old - tail >= first and #new - tail >= first and old[#old - tail] == new[#new - tail] do
    tail = tail + 1
  end
  local old_last, new_last = #old - tail, #new - tail
  local rows, row = {}, first > 1 and view.rows[first - 1] + #old[first - 1].block.lines or 0
  for i = 1, first - 1 do
    rows[i] = view.rows[i]
  end
  local begin = row
  for i = first, #new do
    rows[i] = row
    row = row + #new[i].block.lines
  end
  local old_rows = view.rows
  view.entries, view.rows = new, rows
  local old_from, old_to = folds.widened(old, first, old_last)
  local opened = folds.opened(view.folds, old, old_rows, old_from, math.min(old_to, #old))
  local pairwise = old_last == new_last
  for i = first, pairwise and old_last or 0 do
    pairwise = pairwise and old[i].key == new[i].key
  end
  local buffer = view.buffer
  if pairwise then
    for i = first, new_last do
      if old[i] ~= new[i] then
        local lines = old[i].block.lines
        -- Marks of lines that go would stay behind.
        api.nvim_buf_clear_namespace(buffer, blocks_ns, rows[i], rows[i] + #lines)
        patch(buffer, rows[i], lines, new[i].block.lines)
      end
    end
  else
    local lines = all_lines(old, first, old_last)
    api.nvim_buf_clear_namespace(buffer, blocks_ns, begin, begin + #lines)
    patch(buffer, begin, lines, all_lines(new, first, new_last))
  end
  for i = first, new_last do
    if not pairwise or old[i] ~= new[i] then
      set_marks(buffer, rows[i], new[i].block)
      if new[i].item.kind == 'assistant' or new[i].item.kind == 'tool' then
        code.learn(buffer, new[i].block.lines)
      end
    end
  end
  local from, to = folds.widened(new, first, new_last)
  folds.renew(view.folds, opened, new, rows, from, math.min(to, #new))
end

-- The status ------------------------------------------------------------------------------------------------

---@param view agentls.View
---@return boolean moving
local function draw_status(view)
  local lines, moving = status.lines(view.session.state, view.width or 80)
  local last = api.nvim_buf_line_count(view.buffer) - 1
  local main = table.remove(lines)
  local key = vim.inspect({ lines, main, last })
  if key == view.status_key then
    return moving
  end
  view.status_key = key
  api.nvim_buf_clear_namespace(view.buffer, status_ns, 0, -1)
  if main then
    api.nvim_buf_set_extmark(view.buffer, status_ns, last, 0, {
      virt_text = main,
      virt_text_pos = 'overlay',
      virt_lines = #lines > 0 and lines or nil,
      -- Below the last line they would be out of the window.
      virt_lines_above = true,
    })
  end
  return moving
end

-- Frames ----------------------------------------------------------------------------------------------------

---@param view agentls.View
---@return boolean moving
local function draw(view)
  local buffer = view.buffer
  if not api.nvim_buf_is_loaded(buffer) then
    views[view.session.id] = nil
    return false
  end
  local begun = vim.uv.hrtime()
  view.dirty = false
  local follow = vim.tbl_filter(M.follows, buffers.windows_of(buffer))
  vim.bo[buffer].modifiable = true
  draw_entries(view)
  vim.bo[buffer].modifiable = false
  vim.bo[buffer].modified = false
  local moving = draw_status(view)
  folds.complete(view.folds, buffers.windows_of(buffer), view.entries, view.rows)
  vim.iter(follow):each(M.follow)
  for _, window in ipairs(buffers.windows_of(buffer)) do
    M.on_look(window)
  end
  M.longest_ms = math.max(M.longest_ms, (vim.uv.hrtime() - begun) / 1e6)
  return moving
end

local frame_timer, spin_timer = nil, nil
local spin

local function redraw_bars()
  vim.cmd('redrawstatus!')
end

local function frame()
  frame_timer = nil
  local moving, drawn = false, false
  for _, view in pairs(views) do
    if view.dirty and (not api.nvim_buf_is_loaded(view.buffer) or #buffers.windows_of(view.buffer) > 0) then
      moving = draw(view) or moving
      drawn = true
    end
  end
  if drawn then
    redraw_bars()
  end
  if moving then
    spin()
  end
end

local function request_frame()
  if frame_timer then
    return
  end
  frame_timer = vim.defer_fn(frame, FRAME_MS)
end

---Keeps what moves by itself moving, as long as it does.
spin = function()
  if spin_timer then
    return
  end
  spin_timer = vim.defer_fn(function()
    spin_timer = nil
    local moving = false
    for _, view in pairs(views) do
      if api.nvim_buf_is_loaded(view.buffer) and #buffers.windows_of(view.buffer) > 0 then
        moving = draw_status(view) or moving
      end
    end
    if moving then
      spin()
    end
  end, status.SPIN_MS)
end

---Draws what waits to be drawn, now.
function M.flush()
  for _, view in pairs(views) do
    if view.dirty then
      draw(view)
    end
  end
end

-- Places and bars -------------------------------------------------------------------------------------------

local function view_of(buffer)
  local id = vim.b[buffer].agentls_session
  local view = id and views[id]
  return view and view.buffer == buffer and view or nil
end

---The entry that stands at a row, and its first row.
---@return agentls.Entry?
---@return integer row
local function entry_at(view, row)
  local low, high = 1, #view.rows
  while low < high do
    local middle = math.ceil((low + high) / 2)
    if view.rows[middle] <= row then
      low = middle
    else
      high = middle - 1
    end
  end
  local entry = view.entries[low]
  if entry and row >= view.rows[low] and row < view.rows[low] + #entry.block.lines then
    return entry, view.rows[low]
  end
  return nil, 0
end

---@return string
function M.winbar()
  local window = vim.g.statusline_winid or 0
  local view = view_of(api.nvim_win_get_buf(window))
  return view and bars.chat(view.session, api.nvim_win_get_width(window)) or ''
end

-- Buffers and windows ---------------------------------------------------------------------------------------

---@param session agentls.Session
---@return agentls.View
local function view_for(session)
  local view = views[session.id]
  if view and buffers.is_whole(view.buffer) then
    view.session = session
    return view
  end
  buffers.highlights()
  local buffer = buffers.scratch('agentls://' .. session.id, 'agentls', session.id)
  vim.bo[buffer].undolevels = -1
  vim.b[buffer].agentls_chat = true
  vim.bo[buffer].modifiable = true
  api.nvim_buf_set_lines(buffer, 0, -1, false, { '', '' })
  vim.bo[buffer].modifiable = false
  view = {
    session = session,
    buffer = buffer,
    entries = {},
    rows = {},
    folds = folds.new(buffer),
    nested = {},
    dirty = true,
  }
  views[session.id] = view
  local group = api.nvim_create_augroup('agentls.view.' .. buffer, {})
  api.nvim_create_autocmd('BufWinEnter', {
    group = group,
    buffer = buffer,
    callback = function()
      for _, window in ipairs(buffers.windows_of(buffer)) do
        layout.dress(window, { winbar = "%{%v:lua.require'agentls.view'.winbar()%}" })
      end
      -- A window that showed something else in between has none of its folds.
      view.folds.made[api.nvim_get_current_win()] = nil
      M.changed(session)
    end,
  })
  api.nvim_create_autocmd('WinResized', {
    group = group,
    callback = function()
      M.changed(session)
    end,
  })
  api.nvim_create_autocmd('VimResized', { group = group, callback = layout.fit })
  api.nvim_create_autocmd('BufEnter', {
    group = group,
    buffer = buffer,
    callback = function()
      sessions.use(session)
    end,
  })
  api.nvim_create_autocmd({ 'CursorMoved', 'WinEnter' }, {
    group = group,
    buffer = buffer,
    callback = function()
      M.on_look(api.nvim_get_current_win())
    end,
  })
  api.nvim_create_autocmd({ 'BufUnload', 'BufWipeout' }, {
    group = group,
    buffer = buffer,
    callback = function()
      if views[session.id] == view then
        views[session.id] = nil
      end
      code.forget(buffer)
      pcall(api.nvim_del_augroup_by_id, group)
    end,
  })
  require('agentls.questions').attach()
  require('agentls.keys').chat(buffer)
  draw(view)
  return view
end

M.windows, M.close = layout.windows, layout.close

---Shows a session's chat in this tab page.
---@param session agentls.Session
---@param how? { focus?: 'chat'|'prompt' } Where the cursor goes; absent: it stays.
function M.open(session, how)
  local before = api.nvim_get_current_win()
  local view = view_for(session)
  sessions.use(session)
  layout.find_tab()
  local chat, prompt = M.windows()
  if not chat then
    chat = layout.open()
  end
  if api.nvim_win_get_tabpage(before) ~= api.nvim_get_current_tabpage() then
    before = chat
  end
  if api.nvim_win_get_buf(chat) ~= view.buffer then
    layout.show(chat, view.buffer)
    api.nvim_win_set_cursor(chat, { api.nvim_buf_line_count(view.buffer), 0 })
  end
  local prompt_buffer = prompts.buffer(session)
  if not prompt then
    prompt = api.nvim_open_win(
      prompt_buffer,
      false,
      { split = 'below', win = chat, height = config.current.prompt.height }
    )
  elseif api.nvim_win_get_buf(prompt) ~= prompt_buffer then
    layout.show(prompt, prompt_buffer)
  end
  local focus = how and how.focus
  local target = focus == 'chat' and chat or focus == 'prompt' and prompt or before
  if api.nvim_win_is_valid(target) then
    api.nvim_set_current_win(target)
  end
  M.changed(session)
end

---@param session agentls.Session
function M.changed(session)
  local view = views[session.id]
  if view then
    view.session = session
    view.dirty = true
  end
  request_frame()
end

---Whether a window of this tab page shows the session's chat.
---@param session agentls.Session
function M.seen(session)
  local view = views[session.id]
  for _, window in ipairs(view and buffers.windows_of(view.buffer) or {}) do
    if api.nvim_win_get_tabpage(window) == api.nvim_get_current_tabpage() then
      return true
    end
  end
  return false
end

---The session that a window shows the chat of.
---@param window integer
---@return agentls.Session?
function M.session_of(window)
  local view = view_of(api.nvim_win_get_buf(window))
  return view and view.session
end

---The window of this tab page that shows a session's chat: the current one if it does.
---@param session agentls.Session
---@return integer?
function M.window_of(session)
  local view = views[session.id]
  local found
  for _, window in ipairs(view and buffers.windows_of(view.buffer) or {}) do
    if window == api.nvim_get_current_win() then
      return window
    elseif api.nvim_win_get_tabpage(window) == api.nvim_get_current_tabpage() then
      found = found or window
    end
  end
  return found
end

---The item whose card the cursor of a window is on, as it was drawn. The room above a card is not part of it, and a
---folded card is not visible.
---@param window integer
---@return agentls.Item?
function M.card_at(window)
  local view = view_of(api.nvim_win_get_buf(window))
  local line = view and api.nvim_win_get_cursor(window)[1]
  if not view or not line then
    return nil
  end
  local entry, first = entry_at(view, line - 1)
  if not entry or line - 1 < first + entry.block.room then
    return nil
  end
  if window == api.nvim_get_current_win() then
    return vim.fn.foldclosed(line) == -1 and entry.item or nil
  end
  local closed = api.nvim_win_call(window, function()
    return vim.fn.foldclosed(line)
  end)
  return closed == -1 and entry.item or nil
end

---Puts the cursor of a window on an item's card, and the card in the middle, or at the top when it is too long.
---@param window integer
---@param item agentls.Item
---@return boolean found
function M.show_card(window, item)
  local view = view_of(api.nvim_win_get_buf(window))
  for i, entry in ipairs(view and view.entries or {}) do
    if entry.item.kind == item.kind and entry.item.id == item.id and #entry.block.lines > 0 then
      local first, last = view.rows[i] + entry.block.room, view.rows[i] + #entry.block.lines - 1
      api.nvim_win_call(window, function()
        -- `<C-o>` goes back.
        vim.cmd("normal! m'")
      end)
      api.nvim_win_set_cursor(window, { first + 1, 0 })
      api.nvim_win_call(window, function()
        vim.cmd('normal! zvzt')
        local tall = api.nvim_win_text_height(window, { start_row = first, end_row = last }).all
        local above = math.floor((api.nvim_win_get_height(window) - tall) / 2)
        if above > 0 then
          vim.cmd(('exe "normal! %d\\<C-y>"'):format(above))
          api.nvim_win_set_cursor(window, { first + 1, 0 })
        end
      end)
      return true
    end
  end
  return false
end

---Whether the cursor of a window is at the end, where what comes is followed.
---@param window integer
function M.follows(window)
  return api.nvim_win_get_cursor(window)[1] > api.nvim_buf_line_count(api.nvim_win_get_buf(window)) - TAIL
end

---Puts the cursor of a window at the end, and the end at the window's bottom; what comes is followed from then on.
---@param window integer
function M.follow(window)
  local last = api.nvim_buf_line_count(api.nvim_win_get_buf(window))
  if api.nvim_win_get_cursor(window)[1] ~= last then
    api.nvim_win_set_cursor(window, { last, 0 })
  end
  -- Only the current window scrolls by itself, and none does for virtual lines.
  api.nvim_win_call(window, function()
    vim.cmd('keepjumps normal! zb')
  end)
end

---Follows the end in each window that shows a session's chat.
---@param session agentls.Session
local function follow_all(session)
  local view = views[session.id]
  for _, window in ipairs(view and buffers.windows_of(view.buffer) or {}) do
    M.follow(window)
  end
end

---What stands under the cursor: of the current window, when it shows a chat.
---@return agentls.Item?
---@return agentls.Session?
function M.item_at_cursor()
  local view = view_of(api.nvim_get_current_buf())
  if not view then
    return nil, nil
  end
  local entry = entry_at(view, api.nvim_win_get_cursor(0)[1] - 1)
  return entry and entry.item, view.session
end

---The turn that the item under the cursor is of.
---@return string? turn
---@return agentls.Session?
function M.turn_at_cursor()
  local item, session = M.item_at_cursor()
  return item and (
      item.turnId or item --[[@as agentls.Item.note]].ofTurnId
    ),
    session
end

---The tool call under the cursor.
---@return agentls.Item.tool?
---@return agentls.Session?
function M.tool_at_cursor()
  local item, session = M.item_at_cursor()
  return item and item.kind == 'tool' and item --[[@as agentls.Item.tool]] or nil, session
end

---Moves the cursor to the next (1) or previous (-1) prompt.
---@param direction 1|-1
function M.jump(direction)
  local view = view_of(api.nvim_get_current_buf())
  if not view then
    return
  end
  local row, best = api.nvim_win_get_cursor(0)[1] - 1, nil
  for i, entry in ipairs(view.entries) do
    if entry.item.kind == 'user' then
      -- The first line of a block is the room above it.
      local at = view.rows[i] + (i > 1 and 1 or 0)
      if direction == 1 and at > row then
        best = best or at
      elseif direction == -1 and at < row then
        best = at
      end
    end
  end
  if best then
    api.nvim_win_set_cursor(0, { best + 1, 0 })
  elseif direction == 1 then
    api.nvim_win_set_cursor(0, { api.nvim_buf_line_count(0), 0 })
  end
end

---The chat's buffer of a session, when there is one.
---@param id string
---@return integer?
function M.buffer(id)
  return views[id] and views[id].buffer
end

sessions.watcher = { changed = M.changed, seen = M.seen, sent = follow_all, give_back = prompts.give_back }

return M
