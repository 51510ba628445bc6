-- Draws sessions into chat buffers. Owns the buffers and which window shows which chat.
--
-- It changes only lines that differ, draws at most once per frame, and moves a cursor only if it is at the end. It must
-- not know what an item looks like (render.lua), nor how a question is answered (questions.lua).

local bars = require('agentls.bars')
local winbar = require('agentls.winbar')
local buffers = require('agentls.buffers')
local changes_state = require('agentls.state.changes')
local code_highlight = require('agentls.code_highlight')
local config = require('agentls.config')
local folds = require('agentls.folds')
local chat_window = require('agentls.window')
local subagents = require('agentls.subagents')
local prompts = require('agentls.prompt')
local render = require('agentls.render')
local sessions = require('agentls.sessions')
local chat_status = require('agentls.chat_status')

local api = vim.api
local M = {}

M.get_prompt_buffer = prompts.get_buffer

---@class agentls.ChatView
---@field session agentls.Session
---@field buffer integer
---@field entries agentls.ChatEntry[]
---@field rows integer[] The first row of each entry, from 0.
---@field is_dirty boolean
---@field width? integer The columns of the last drawing.
---@field folds agentls.Folds
---@field subagent_cache agentls.SubagentCache For `subagents.update_placements`.
---@field title? string The title that the names of the buffers contain.
---@field status_key? string Identifies the drawn status, to skip a redraw without changes.

---@class agentls.ChatEntry
---@field key string
---@field item agentls.Item
---@field context_key string Identifies what the block depends on besides its item.
---@field block agentls.Block

---@type table<string, agentls.ChatView>
local views = {}

---Called when another card may be under the cursor of a chat window, or more of it is visible.
---@type fun(window: integer, is_motion?: boolean)
M.on_cursor_change = function() end

local blocks_ns = api.nvim_create_namespace('agentls.blocks')
local status_ns = api.nvim_create_namespace('agentls.status')

---Empty lines at the end: a margin, and the line of the status.
local TAIL_LINES = 2
local FRAME_MS = 16

---The duration of the slowest drawing, in ms. For tests and `:checkhealth`.
---@type number
M.max_draw_ms = 0

---@param view agentls.ChatView
---@return agentls.RenderOptions
local function build_render_options(view)
  local current = config.current
  return {
    output_lines = current.output_lines,
    keys = current.keys,
    cwd = view.session.state.cwd,
    width = view.width,
  }
end

-- Blocks into lines -----------------------------------------------------------------------------------------

local function build_context_key(previous)
  return previous and previous.kind .. (previous.kind == 'tool' and previous.approval and '?' or '') or ''
end

---Builds the entries of a view's state. Reuses each entry that has not changed.
---@param view agentls.ChatView
local function build_entries(view)
  local state, known_entries, width = view.session.state, {}, nil
  for _, window in ipairs(buffers.find_windows(view.buffer)) do
    width = math.min(width or math.huge, api.nvim_win_get_width(window))
  end
  if width and width ~= view.width then
    view.width = width
  else
    for _, entry in ipairs(view.entries) do
      known_entries[entry.key] = entry
    end
  end
  local entries, options, placements =
    {},
    build_render_options(view),
    subagents.update_placements(view.subagent_cache, state.items, state.notices)
  local latest = changes_state.find_changes(state)
  for i, item in ipairs(state.items) do
    local key, placement = item.kind .. ' ' .. item.id, placements[i]
    local context_key = build_context_key(state.items[i - 1])
    if placement then
      context_key = context_key .. placement.key
    elseif item == latest then
      context_key = context_key .. ' latest'
    end
    local entry = known_entries[key]
    if not entry or entry.item ~= item or entry.context_key ~= context_key then
      local block = render.render_item(item, state.items[i - 1], options, placement, item == latest)
      entry = { key = key, item = item, context_key = context_key, block = block }
    end
    entries[i] = entry
  end
  return entries
end

local function set_marks(buffer, row, block)
  for _, mark in ipairs(block.marks) do
    if mark.is_continuation then
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
        -- End on the same line. Otherwise clearing the next line's marks would remove this one.
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
  if block.suffix then
    -- A closed fold shows inline text only.
    local column = #block.lines[block.suffix.row + 1]
    api.nvim_buf_set_extmark(buffer, blocks_ns, row + block.suffix.row, column, {
      virt_text = block.suffix.chunks,
      virt_text_pos = 'inline',
      right_gravity = false,
    })
  end
  if block.footer then
    local lines = {}
    for i, chunks in ipairs(block.footer) do
      -- The first one overlays a line that already has the indent.
      local prefix = i > 1 and ('│ '):rep(block.depth) or ''
      lines[i] = vim.list_extend({ { prefix .. '  ', 'AgentlsDim' } }, chunks)
    end
    local first = table.remove(lines, 1)
    api.nvim_buf_set_extmark(buffer, blocks_ns, row + #block.lines - 1, 0, {
      virt_text = first,
      virt_text_pos = 'overlay',
      virt_lines = #lines > 0 and lines or nil,
    })
  end
end

---Replaces the `old` lines at `row` by the `new` ones. Changes only the lines that differ.
local function replace_lines(buffer, row, old, new)
  local prefix_count = 0
  while prefix_count < #old and prefix_count < #new and old[prefix_count + 1] == new[prefix_count + 1] do
    prefix_count = prefix_count + 1
  end
  if
    prefix_count == #old - 1
    and #new > prefix_count
    and vim.startswith(new[prefix_count + 1], old[prefix_count + 1])
  then
    -- The usual case: a stream extends the last line and adds others.
    local added_lines = vim.list_slice(new, prefix_count + 1)
    local column = #old[prefix_count + 1]
    added_lines[1] = added_lines[1]:sub(column + 1)
    api.nvim_buf_set_text(buffer, row + prefix_count, column, row + prefix_count, column, added_lines)
    return
  end
  local suffix_count = 0
  while
    suffix_count < #old - prefix_count
    and suffix_count < #new - prefix_count
    and old[#old - suffix_count] == new[#new - suffix_count]
  do
    suffix_count = suffix_count + 1
  end
  if prefix_count + suffix_count == #old and #old == #new then
    return
  end
  api.nvim_buf_set_lines(
    buffer,
    row + prefix_count,
    row + #old - suffix_count,
    false,
    vim.list_slice(new, prefix_count + 1, #new - suffix_count)
  )
end

local function collect_lines(entries, from, to)
  local lines = {}
  for i = from, to do
    vim.list_extend(lines, entries[i].block.lines)
  end
  return lines
end

---@param view agentls.ChatView
local function draw_entries(view)
  local old, new = view.entries, build_entries(view)
  local first = 1
  while old[first] and old[first] == new[first] do
    first = first + 1
  end
  if first > #old and first > #new then
    return
  end
  local suffix_count = 0
  while
    #old - suffix_count >= first
    and #new - suffix_count >= first
    and old[#old - suffix_count] == new[#new - suffix_count]
  do
    suffix_count = suffix_count + 1
  end
  local old_last, new_last = #old - suffix_count, #new - suffix_count
  local rows, row = {}, first > 1 and view.rows[first - 1] + #old[first - 1].block.lines or 0
  for i = 1, first - 1 do
    rows[i] = view.rows[i]
  end
  local first_row = row
  for i = first, #new do
    rows[i] = row
    row = row + #new[i].block.lines
  end
  local old_rows = view.rows
  view.entries, view.rows = new, rows
  local old_from, old_to = folds.widen_range(old, first, old_last)
  local opened_keys = folds.find_opened(view.folds, old, old_rows, old_from, math.min(old_to, #old))
  local pairwise = old_last == new_last
  for i = first, pairwise and old_last or 0 do
    pairwise = pairwise and old[i].key == new[i].key
  end
  local buffer = view.buffer
  if pairwise then
    for i = first, new_last do
      if old[i] ~= new[i] then
        local lines = old[i].block.lines
        -- Deleting a line would leave its marks behind.
        api.nvim_buf_clear_namespace(buffer, blocks_ns, rows[i], rows[i] + #lines)
        replace_lines(buffer, rows[i], lines, new[i].block.lines)
      end
    end
  else
    local lines = collect_lines(old, first, old_last)
    api.nvim_buf_clear_namespace(buffer, blocks_ns, first_row, first_row + #lines)
    replace_lines(buffer, first_row, lines, collect_lines(new, first, new_last))
  end
  for i = first, new_last do
    if not pairwise or old[i] ~= new[i] then
      set_marks(buffer, rows[i], new[i].block)
      if new[i].item.kind == 'assistant' or new[i].item.kind == 'tool' then
        code_highlight.add_languages(buffer, new[i].block.lines)
      end
    end
  end
  local from, to = folds.widen_range(new, first, new_last)
  folds.rebuild_range(view.folds, opened_keys, new, rows, from, math.min(to, #new))
end

-- The status ------------------------------------------------------------------------------------------------

---@param view agentls.ChatView
---@return boolean is_animated
local function draw_status(view)
  local lines, is_animated = chat_status.format_lines(view.session.state, view.width or 80)
  local last = api.nvim_buf_line_count(view.buffer) - 1
  local main = table.remove(lines)
  local key = vim.inspect({ lines, main, last })
  if key == view.status_key then
    return is_animated
  end
  view.status_key = key
  api.nvim_buf_clear_namespace(view.buffer, status_ns, 0, -1)
  if main then
    api.nvim_buf_set_extmark(view.buffer, status_ns, last, 0, {
      virt_text = main,
      virt_text_pos = 'overlay',
      virt_lines = #lines > 0 and lines or nil,
      -- Below the last line, the window would not show them.
      virt_lines_above = true,
    })
  end
  return is_animated
end

-- Frames ----------------------------------------------------------------------------------------------------

---@param view agentls.ChatView
---@return boolean is_animated
local function draw_view(view)
  local buffer = view.buffer
  if not api.nvim_buf_is_loaded(buffer) then
    views[view.session.id] = nil
    return false
  end
  local started_at = vim.uv.hrtime()
  view.is_dirty = false
  if view.title ~= view.session.state.title then
    view.title = view.session.state.title
    buffers.set_session(buffer, view.session)
    prompts.update_name(view.session)
  end
  local follow = vim.tbl_filter(M.is_following, buffers.find_windows(buffer))
  vim.bo[buffer].modifiable = true
  draw_entries(view)
  vim.bo[buffer].modifiable = false
  vim.bo[buffer].modified = false
  local is_animated = draw_status(view)
  folds.initialize_windows(view.folds, buffers.find_windows(buffer), view.entries, view.rows)
  vim.iter(follow):each(M.scroll_to_end)
  for _, window in ipairs(buffers.find_windows(buffer)) do
    M.on_cursor_change(window)
  end
  M.max_draw_ms = math.max(M.max_draw_ms, (vim.uv.hrtime() - started_at) / 1e6)
  return is_animated
end

local frame_timer, animation_timer = nil, nil
local animate_status

local function draw_frame()
  frame_timer = nil
  local is_animated, was_drawn = false, false
  for _, view in pairs(views) do
    if
      view.is_dirty and (not api.nvim_buf_is_loaded(view.buffer) or #buffers.find_windows(view.buffer) > 0)
    then
      is_animated = draw_view(view) or is_animated
      was_drawn = true
    end
  end
  if was_drawn then
    bars.redraw_if_changed()
  end
  if is_animated then
    animate_status()
  end
end

local function request_frame()
  if frame_timer then
    return
  end
  frame_timer = vim.defer_fn(draw_frame, FRAME_MS)
end

---Redraws the status at intervals while it has a spinner or a countdown.
animate_status = function()
  if animation_timer then
    return
  end
  animation_timer = vim.defer_fn(function()
    animation_timer = nil
    local is_animated = false
    for _, view in pairs(views) do
      if api.nvim_buf_is_loaded(view.buffer) and #buffers.find_windows(view.buffer) > 0 then
        is_animated = draw_status(view) or is_animated
      end
    end
    if is_animated then
      animate_status()
    end
  end, chat_status.SPIN_MS)
end

---Draws all changed views immediately.
function M.flush_drawing()
  for _, view in pairs(views) do
    if view.is_dirty then
      draw_view(view)
    end
  end
end

-- Entries and bars ------------------------------------------------------------------------------------------

local function find_view(buffer)
  local id = vim.b[buffer].agentls_session
  local view = id and views[id]
  return view and view.buffer == buffer and view or nil
end

---Returns the entry at a row, and the entry's first row.
---@return agentls.ChatEntry?
---@return integer row
local function find_entry(view, row)
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
function M.render_winbar()
  local window = vim.g.statusline_winid or 0
  local view = find_view(api.nvim_win_get_buf(window))
  return view and winbar.format_chat_bar(view.session, api.nvim_win_get_width(window)) or ''
end

-- Buffers and windows ---------------------------------------------------------------------------------------

---@param session agentls.Session
---@return agentls.ChatView
local function ensure_view(session)
  local view = views[session.id]
  if view and buffers.is_intact(view.buffer) then
    view.session = session
    return view
  end
  buffers.define_highlights()
  local buffer = buffers.create_session_buffer(session, 'agentls')
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
    subagent_cache = {},
    is_dirty = true,
  }
  views[session.id] = view
  local group = api.nvim_create_augroup('agentls.view.' .. buffer, {})
  api.nvim_create_autocmd('BufWinEnter', {
    group = group,
    buffer = buffer,
    callback = function()
      for _, window in ipairs(buffers.find_windows(buffer)) do
        chat_window.apply_options(window, { winbar = "%{%v:lua.require'agentls.view'.render_winbar()%}" })
      end
      -- A window that showed another buffer meanwhile has lost its folds.
      view.folds.initialized[api.nvim_get_current_win()] = nil
      M.redraw_session(session)
    end,
  })
  api.nvim_create_autocmd('WinResized', {
    group = group,
    callback = function()
      M.redraw_session(session)
    end,
  })
  api.nvim_create_autocmd('VimResized', { group = group, callback = chat_window.restore_width })
  api.nvim_create_autocmd('BufEnter', {
    group = group,
    buffer = buffer,
    callback = function()
      sessions.set_current(session)
    end,
  })
  api.nvim_create_autocmd({ 'CursorMoved', 'WinEnter' }, {
    group = group,
    buffer = buffer,
    callback = function(event)
      M.on_cursor_change(api.nvim_get_current_win(), event.event == 'CursorMoved')
    end,
  })
  api.nvim_create_autocmd('WinScrolled', {
    group = group,
    callback = function()
      vim.iter(buffers.find_windows(buffer)):each(M.on_cursor_change)
    end,
  })
  api.nvim_create_autocmd({ 'BufUnload', 'BufWipeout' }, {
    group = group,
    buffer = buffer,
    callback = function()
      if views[session.id] == view then
        views[session.id] = nil
      end
      code_highlight.forget_buffer(buffer)
      pcall(api.nvim_del_augroup_by_id, group)
    end,
  })
  require('agentls.questions').track_cursor()
  require('agentls.keymaps').map_chat_keys(buffer)
  draw_view(view)
  return view
end

M.find_windows, M.close_chat = chat_window.find_windows, chat_window.close_windows

---Shows a session's chat in this tab page.
---@param session agentls.Session
---@param options? { focus?: 'chat'|'prompt' } Which window gets the focus. Default: the current one keeps it.
function M.open_chat(session, options)
  local previous_window = api.nvim_get_current_win()
  local view = ensure_view(session)
  sessions.set_current(session)
  chat_window.go_to_chat_tab()
  local chat, prompt = M.find_windows()
  if not chat then
    chat = chat_window.open_window()
  end
  if api.nvim_win_get_tabpage(previous_window) ~= api.nvim_get_current_tabpage() then
    previous_window = chat
  end
  if api.nvim_win_get_buf(chat) ~= view.buffer then
    api.nvim_win_set_buf(chat, view.buffer)
    api.nvim_win_set_cursor(chat, { api.nvim_buf_line_count(view.buffer), 0 })
  end
  local prompt_buffer = prompts.get_buffer(session)
  if not prompt then
    prompt = api.nvim_open_win(
      prompt_buffer,
      false,
      { split = 'below', win = chat, height = config.current.prompt.height }
    )
  elseif api.nvim_win_get_buf(prompt) ~= prompt_buffer then
    api.nvim_win_set_buf(prompt, prompt_buffer)
  end
  local focus = options and options.focus
  local target = focus == 'chat' and chat or focus == 'prompt' and prompt or previous_window
  if api.nvim_win_is_valid(target) then
    api.nvim_set_current_win(target)
  end
  M.redraw_session(session)
end

---Marks a session's chat as changed and requests a frame.
---@param session agentls.Session
function M.redraw_session(session)
  local view = views[session.id]
  if view then
    view.session = session
    view.is_dirty = true
  end
  request_frame()
end

---Whether a window in this tab page shows the session's chat.
---@param session agentls.Session
function M.is_visible(session)
  local view = views[session.id]
  for _, window in ipairs(view and buffers.find_windows(view.buffer) or {}) do
    if api.nvim_win_get_tabpage(window) == api.nvim_get_current_tabpage() then
      return true
    end
  end
  return false
end

---Returns the session whose chat a window shows.
---@param window integer
---@return agentls.Session?
function M.get_session_in(window)
  local view = find_view(api.nvim_win_get_buf(window))
  return view and view.session
end

---Returns a window in this tab page that shows a session's chat. Prefers the current window.
---@param session agentls.Session
---@return integer?
function M.find_window(session)
  local view = views[session.id]
  local fallback
  for _, window in ipairs(view and buffers.find_windows(view.buffer) or {}) do
    if window == api.nvim_get_current_win() then
      return window
    elseif api.nvim_win_get_tabpage(window) == api.nvim_get_current_tabpage() then
      fallback = fallback or window
    end
  end
  return fallback
end

---Returns the item whose card is under the cursor of a window. The margin above a card is not part of it, and a folded
---card does not count.
---@param window integer
---@return agentls.Item?
function M.find_card_at_cursor(window)
  local view = find_view(api.nvim_win_get_buf(window))
  local line = view and api.nvim_win_get_cursor(window)[1]
  if not view or not line then
    return nil
  end
  local entry, first = find_entry(view, line - 1)
  if not entry or line - 1 < first + entry.block.top_margin then
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

---Moves the cursor of a window to an item's card. Centers the card, or shows it from its top if it is too tall.
---@param window integer
---@param item agentls.Item
---@return boolean found
function M.scroll_to_card(window, item)
  local view = find_view(api.nvim_win_get_buf(window))
  for i, entry in ipairs(view and view.entries or {}) do
    if entry.item.kind == item.kind and entry.item.id == item.id and #entry.block.lines > 0 then
      local first, last = view.rows[i] + entry.block.top_margin, view.rows[i] + #entry.block.lines - 1
      api.nvim_win_call(window, function()
        -- So that `<C-o>` returns.
        vim.cmd("normal! m'")
      end)
      api.nvim_win_set_cursor(window, { first + 1, 0 })
      api.nvim_win_call(window, function()
        vim.cmd('normal! zvzt')
        local card_height = api.nvim_win_text_height(window, { start_row = first, end_row = last }).all
        local lines_above = math.floor((api.nvim_win_get_height(window) - card_height) / 2)
        if lines_above > 0 then
          vim.cmd(('exe "normal! %d\\<C-y>"'):format(lines_above))
          api.nvim_win_set_cursor(window, { first + 1, 0 })
        end
      end)
      return true
    end
  end
  return false
end

---Returns the first and the last row of an item's card, from 1.
---@param window integer
---@param item agentls.Item
---@return integer? first
---@return integer? last
function M.find_rows(window, item)
  local view = find_view(api.nvim_win_get_buf(window))
  for i, entry in ipairs(view and view.entries or {}) do
    if entry.item.kind == item.kind and entry.item.id == item.id then
      local first = view.rows[i] + entry.block.top_margin + 1
      return first, view.rows[i] + #entry.block.lines
    end
  end
end

---Whether the cursor of a window is at the end, so that the window scrolls with new lines.
---@param window integer
function M.is_following(window)
  return api.nvim_win_get_cursor(window)[1]
    > api.nvim_buf_line_count(api.nvim_win_get_buf(window)) - TAIL_LINES
end

---Moves the cursor of a window to the end, and scrolls the end to its bottom. The window then follows new lines.
---@param window integer
function M.scroll_to_end(window)
  local last = api.nvim_buf_line_count(api.nvim_win_get_buf(window))
  if api.nvim_win_get_cursor(window)[1] ~= last then
    api.nvim_win_set_cursor(window, { last, 0 })
  end
  -- Neovim scrolls only the current window, and never for virtual lines.
  api.nvim_win_call(window, function()
    vim.cmd('keepjumps normal! zb')
  end)
end

---Scrolls each window that shows a session's chat to its end.
---@param session agentls.Session
local function scroll_all_to_end(session)
  local view = views[session.id]
  for _, window in ipairs(view and buffers.find_windows(view.buffer) or {}) do
    M.scroll_to_end(window)
  end
end

---Returns the item under the cursor, if the current window shows a chat.
---@return agentls.Item?
---@return agentls.Session?
function M.get_item_at_cursor()
  local view = find_view(api.nvim_get_current_buf())
  if not view then
    return nil, nil
  end
  local entry = find_entry(view, api.nvim_win_get_cursor(0)[1] - 1)
  return entry and entry.item, view.session
end

---Returns the turn of the item under the cursor.
---@return string? turn
---@return agentls.Session?
function M.get_turn_at_cursor()
  local item, session = M.get_item_at_cursor()
  return item and (
      item.turnId or item --[[@as agentls.Item.note]].ofTurnId
    ),
    session
end

---Returns the tool call under the cursor.
---@return agentls.Item.tool?
---@return agentls.Session?
function M.get_tool_at_cursor()
  local item, session = M.get_item_at_cursor()
  return item and item.kind == 'tool' and item --[[@as agentls.Item.tool]] or nil, session
end

---Moves the cursor to the next or the previous prompt.
---@param direction 1|-1
function M.jump_to_prompt(direction)
  local view = find_view(api.nvim_get_current_buf())
  if not view then
    return
  end
  local row, target_row = api.nvim_win_get_cursor(0)[1] - 1, nil
  for i, entry in ipairs(view.entries) do
    if entry.item.kind == 'user' then
      -- The first line of a block is its top margin.
      local at = view.rows[i] + (i > 1 and 1 or 0)
      if direction == 1 and at > row then
        target_row = target_row or at
      elseif direction == -1 and at < row then
        target_row = at
      end
    end
  end
  if target_row then
    api.nvim_win_set_cursor(0, { target_row + 1, 0 })
  elseif direction == 1 then
    api.nvim_win_set_cursor(0, { api.nvim_buf_line_count(0), 0 })
  end
end

---Returns the chat buffer of a session, or nil.
---@param id string
---@return integer?
function M.get_buffer(id)
  return views[id] and views[id].buffer
end

---Keeps the chat of a session whose id has changed.
---@param session agentls.Session
---@param old_id string
local function update_session_id(session, old_id)
  local view = views[old_id]
  views[old_id] = nil
  if view and buffers.is_intact(view.buffer) then
    views[session.id] = view
    buffers.set_session(view.buffer, session)
  end
  prompts.update_session_id(session, old_id)
end

sessions.observer = {
  on_change = M.redraw_session,
  is_visible = M.is_visible,
  on_send = scroll_all_to_end,
  restore_prompt = prompts.restore_text,
  on_id_change = update_session_id,
}

return M
