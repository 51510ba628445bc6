-- The prompt buffer: its bar, its content, and the completion and the check of slash commands. It must not send a
-- prompt; sessions.lua does.

local buffers = require('agentls.buffers')
local client = require('agentls.client')
local config = require('agentls.config')
local drafts = require('agentls.drafts')
local draw = require('agentls.render.block')
local chat_window = require('agentls.window')
local notifications = require('agentls.notifications')
local creation = require('agentls.session_creation')
local sessions = require('agentls.sessions')
local format = require('agentls.format')

local api = vim.api
local M = {}

---The latest slash commands, by session.
---@type table<string, agentls.CommandInfo[]>
local commands = {}

---'completeopt' of the prompt: insert nothing before the user chooses.
local COMPLETION = 'menuone,noinsert'

---Prompt buffers by session.
---@type table<string, integer>
local prompts = {}

---Formats the bar of a prompt for the oldest open question of its session: what it asks, and the chords that answer.
---@param question agentls.Question
---@param count integer How many are open.
---@param columns number
---@return string
local function format_question_bar(question, count, columns)
  local keys, chords = config.current.keys or {}, {}
  if keys.prompt_approve then
    local is_approval = question.kind == 'approval'
    table.insert(chords, ('%s %s'):format(keys.prompt_approve, is_approval and 'allows once' or 'answers'))
  end
  if keys.prompt_question then
    table.insert(chords, keys.prompt_question .. ' more')
  end
  local summary = require('agentls.questions').summarize_question(question)
  return draw.fit_parts({
    {
      text = (count > 1 and ('1 of %d: '):format(count) or '')
        .. format.display_text(format.single_line(summary, 400)),
      min = 12,
    },
    { text = #chords > 0 and ' · ' .. chords[1] or '', priority = 1 },
    { text = #chords > 1 and ' · ' .. chords[2] or '', priority = 2 },
  }, columns)
end

---Formats the bar of a prompt.
---@param session agentls.Session
---@param columns number
---@return string
function M.format_bar(session, columns)
  local open = require('agentls.questions').list_open(session)
  if open[1] then
    return ' %#AgentlsAsk#? ' .. buffers.escape_statusline(format_question_bar(open[1], #open, columns))
  end
  local keys = config.current.keys
  local send = { ':AgentSend' }
  if keys then
    send = vim.tbl_filter(function(key)
      return key ~= false
    end, { keys.prompt_send, keys.prompt_send_insert })
  end
  local text = session.state.running and 'sends to the running turn' or 'sends'
  if session.state.running and keys and keys.prompt_queue then
    text = ('sends now, %s after the turn'):format(keys.prompt_queue)
  end
  text = format.display_text(('%s %s'):format(table.concat(send, ' or '), text))
  return (' › %%#AgentlsDim#%s'):format(buffers.escape_statusline(draw.fit_columns(text, columns)))
end

---@return string
function M.render_winbar()
  local window = vim.g.statusline_winid or 0
  local id = vim.b[api.nvim_win_get_buf(window)].agentls_session
  local session = id and sessions.all[id]
  return session and M.format_bar(session, math.max(1, api.nvim_win_get_width(window) - 4)) or ''
end

---Describes a slash command in a few words.
---@param command agentls.CommandInfo
local function describe_command(command)
  if command.problem then
    return 'not usable: ' .. command.problem
  end
  local text = { command.argumentHint, command.description }
  return table.concat(vim.tbl_values(text), '  ')
end

---Completes slash commands on the command line.
---@param arg_lead string
---@return string[]
function M.complete_command(arg_lead)
  local session = sessions.get_current()
  if not session or arg_lead:sub(1, 1) ~= '/' then
    return {}
  end
  local result = client.request_sync('agent/listCommands', { sessionId = session.id }, 500)
  local names = {}
  for _, command in ipairs(result and result.commands or commands[session.id] or {}) do
    if vim.startswith('/' .. command.name, arg_lead) then
      table.insert(names, '/' .. command.name)
    end
  end
  return names
end

---Returns the slash command that a prompt starts with, or nil. A path is not a slash command.
---@param text string
---@return string?
local function find_command_name(text)
  local name = text:match('^/([^%s/]+)%s') or text:match('^/([^%s/]+)$')
  return name and not vim.uv.fs_stat('/' .. name) and name or nil
end

---How long a prompt waits for the list of slash commands, in ms.
local CHECK_MS = 1000

---By session: a prompt with an unknown slash command. If the user sends it again, it goes out unchanged.
---@type table<string, string>
local warned_prompts = {}

---Calls `send`, unless the prompt starts with an unknown slash command. Then the prompt goes back to the user.
---@param session agentls.Session
---@param text string
---@param send fun()
function M.check_command(session, text, send)
  local name = find_command_name(text)
  -- The server starts the MCP server whose prompt it may be.
  if name and vim.startswith(name, 'mcp__') then
    return send()
  end
  if not name or warned_prompts[session.id] == text or not client.supports_method('agent/listCommands') then
    warned_prompts[session.id] = nil
    return send()
  end
  local is_finished = false
  local function finish_check(result)
    if is_finished then
      return
    end
    is_finished = true
    local names = vim.tbl_map(function(command)
      return command.name
    end, result and result.commands or {})
    if not result or vim.list_contains(names, name) then
      return send()
    end
    warned_prompts[session.id] = text
    local suggestion = format.find_nearest(name, names)
    local hint = suggestion and ('; did you mean /%s?'):format(format.display_text(suggestion)) or '.'
    notifications.notify(
      ('unknown slash command /%s%s Send it again to send it unchanged.'):format(
        format.display_text(name),
        hint
      ),
      vim.log.levels.WARN
    )
    M.restore_text(session, text)
  end
  client.request('agent/listCommands', { sessionId = session.id }, function(_, result)
    finish_check(result)
  end)
  -- A server that does not answer must not swallow the prompt.
  vim.defer_fn(finish_check, CHECK_MS)
end

---Offers slash commands if the cursor is in the first word of the prompt and that word starts with `/`.
---@param id string The session.
local function offer_commands(id)
  local row, column = unpack(api.nvim_win_get_cursor(0))
  local text_before_cursor = api.nvim_get_current_line():sub(1, column)
  local indent, typed_name = text_before_cursor:match('^(%s*)/([^%s/]*)$')
  if row > 1 or not typed_name or api.nvim_get_mode().mode ~= 'i' then
    return
  end
  local items = {}
  for _, command in ipairs(commands[id] or {}) do
    if vim.startswith(command.name, typed_name) and command.name ~= typed_name then
      table.insert(items, {
        word = command.name,
        abbr = '/' .. format.display_text(command.name),
        menu = format.single_line(describe_command(command), 60),
        info = format.display_text(command.path),
      })
    end
  end
  if #items > 0 then
    vim.fn.complete(#indent + 2, items)
  end
end

---Fetches the slash commands, then offers them.
---@param buffer integer
---@param id string
local function fetch_commands(buffer, id)
  if not client.is_ready() or not client.supports_method('agent/listCommands') then
    return
  end
  client.request('agent/listCommands', { sessionId = id }, function(_, result)
    commands[id] = result and result.commands or commands[id]
    if api.nvim_get_current_buf() == buffer then
      offer_commands(id)
    end
  end)
end

---Completes slash commands in a prompt buffer while the user types.
---@param buffer integer
---@param session agentls.Session
local function enable_completion(buffer, session)
  -- Before Neovim 0.11, 'completeopt' is global only.
  local is_local, saved_completeopt = pcall(api.nvim_get_option_value, 'completeopt', { buf = buffer })
  is_local = is_local and api.nvim_get_option_info2('completeopt', {}).global_local
  if is_local then
    vim.bo[buffer].completeopt = COMPLETION
  end
  api.nvim_create_autocmd('InsertEnter', {
    buffer = buffer,
    callback = function()
      if not is_local then
        saved_completeopt = vim.o.completeopt
        vim.o.completeopt = COMPLETION
      end
      fetch_commands(buffer, session.id)
    end,
  })
  api.nvim_create_autocmd('InsertLeave', {
    buffer = buffer,
    callback = function()
      if not is_local then
        vim.o.completeopt = saved_completeopt
      end
    end,
  })
  api.nvim_create_autocmd('TextChangedI', {
    buffer = buffer,
    callback = function()
      offer_commands(session.id)
    end,
  })
end

---@param buffer integer
---@return string
local function get_text(buffer)
  return table.concat(api.nvim_buf_get_lines(buffer, 0, -1, false), '\n')
end

---How long after a change the draft is written, in ms.
local DRAFT_DELAY_MS = 500

---Whether Neovim exits, and `keep_all_texts` has kept more than the buffers contain.
local is_leaving = false

---Keeps the text of a prompt buffer as a draft, and puts the kept one into it.
---@param buffer integer
---@param session agentls.Session
local function enable_draft(buffer, session)
  local cwd = session.state.cwd
  local draft = drafts.take(session.id, cwd, creation.is_blank(session))
  if draft then
    api.nvim_buf_set_lines(buffer, 0, -1, false, format.split_lines(draft))
    notifications.notify('your unsent prompt is back in the prompt window')
  end
  local is_waiting = false
  local function keep_text()
    is_waiting = false
    if api.nvim_buf_is_loaded(buffer) and not is_leaving then
      drafts.keep(session.id, cwd, get_text(buffer))
    end
  end
  keep_text()
  api.nvim_buf_attach(buffer, false, {
    on_lines = function()
      if not is_waiting then
        is_waiting = true
        vim.defer_fn(keep_text, DRAFT_DELAY_MS)
      end
    end,
  })
  api.nvim_create_autocmd('BufUnload', { buffer = buffer, callback = keep_text })
end

---Keeps everything that the server has not accepted. Called when Neovim exits.
local function keep_all_texts()
  is_leaving = true
  for id, session in pairs(sessions.all) do
    local buffer, texts = prompts[id], {}
    for _, entry in ipairs(session.unsent) do
      table.insert(texts, sessions.get_prompt_text(entry.prompt))
    end
    if buffer and api.nvim_buf_is_loaded(buffer) then
      table.insert(texts, get_text(buffer))
    end
    if #texts > 0 then
      drafts.keep(id, session.state.cwd, vim.trim(table.concat(texts, '\n\n')))
    end
  end
  for _, text in ipairs(creation.list_waiting_texts()) do
    drafts.keep_without_session(client.get_workspace_folders()[1], text)
  end
end

api.nvim_create_autocmd('VimLeavePre', {
  group = api.nvim_create_augroup('agentls.drafts', {}),
  callback = keep_all_texts,
})

---Returns the prompt buffer of a session. Creates it if needed.
---@param session agentls.Session
---@return integer
function M.get_buffer(session)
  local buffer = prompts[session.id]
  if buffer and buffers.is_intact(buffer) then
    return buffer
  end
  buffers.define_highlights()
  buffer = buffers.create_session_buffer(session, 'agentls_prompt')
  prompts[session.id] = buffer
  api.nvim_create_autocmd('BufWinEnter', {
    buffer = buffer,
    callback = function()
      for _, window in ipairs(buffers.find_windows(buffer)) do
        chat_window.apply_options(window, {
          winbar = "%{%v:lua.require'agentls.prompt'.render_winbar()%}",
          winfixheight = true,
        })
      end
    end,
  })
  require('agentls.keymaps').map_prompt_keys(buffer)
  enable_completion(buffer, session)
  enable_draft(buffer, session)
  local function fit_height()
    require('agentls.prompt_window').fit_height(buffer)
  end
  api.nvim_buf_attach(buffer, false, {
    on_lines = function()
      vim.schedule(fit_height)
    end,
  })
  return buffer
end

---Gives the prompt buffer of a session its name.
---@param session agentls.Session
function M.update_name(session)
  local buffer = prompts[session.id]
  if buffer and buffers.is_intact(buffer) then
    buffers.set_session(buffer, session)
  end
end

---Puts an earlier or a later prompt of the history into a prompt buffer.
---@param buffer integer
---@param step -1|1
function M.go_through_history(buffer, step)
  local session = sessions.all[vim.b[buffer].agentls_session or '']
  if session then
    require('agentls.prompt_window').go_through_history(buffer, session, step)
  end
end

---Keeps the prompt buffer of a session whose id has changed.
---@param session agentls.Session
---@param old_id string
function M.update_session_id(session, old_id)
  local buffer = prompts[old_id]
  prompts[old_id], commands[old_id], warned_prompts[old_id] = nil, nil, nil
  drafts.keep(old_id, session.state.cwd, '')
  if buffer and buffers.is_intact(buffer) then
    prompts[session.id] = buffer
    buffers.set_session(buffer, session)
    drafts.keep(session.id, session.state.cwd, get_text(buffer))
  end
end

---Puts an unused prompt back into the prompt window.
---@param session agentls.Session
---@param text string
function M.restore_text(session, text)
  if text == '' then
    return
  end
  local buffer = M.get_buffer(session)
  local lines = api.nvim_buf_get_lines(buffer, 0, -1, false)
  local has_text = #lines > 1 or lines[1] ~= ''
  local new_lines = format.split_lines(text)
  if has_text then
    table.insert(new_lines, 1, '')
  end
  api.nvim_buf_set_lines(buffer, has_text and -1 or 0, -1, false, new_lines)
  if not sessions.observer.is_visible(session) then
    notifications.notify(
      'your prompt was not used; it is back in the prompt window (:Agent)',
      vim.log.levels.WARN
    )
  end
end

return M
