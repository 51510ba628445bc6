-- The window that prompts are written in: its buffer, its bar, and the slash commands that it completes.

local buffers = require('agentls.buffers')
local client = require('agentls.client')
local config = require('agentls.config')
local draw = require('agentls.render.block')
local chat_window = require('agentls.window')
local notifications = require('agentls.notifications')
local sessions = require('agentls.sessions')
local format = require('agentls.format')

local api = vim.api
local M = {}

---The slash commands of each session, as they were told last.
---@type table<string, agentls.CommandInfo[]>
local commands = {}

---Options of the completion: nothing is put in before it is chosen.
local COMPLETION = 'menuone,noinsert'

---Prompt buffers by session.
---@type table<string, integer>
local prompts = {}

---@return string
function M.render_winbar()
  local window = vim.g.statusline_winid or 0
  local id = vim.b[api.nvim_win_get_buf(window)].agentls_session
  local session = id and sessions.all[id]
  if not session then
    return ''
  end
  local keys = config.current.keys
  local send = { ':AgentSend' }
  if keys then
    send = vim.tbl_filter(function(key)
      return key ~= false
    end, { keys.prompt_send, keys.prompt_send_insert })
  end
  local text = session.state.running and 'says it to the running turn' or 'sends'
  if session.state.running and keys and keys.prompt_queue then
    text = ('says it now, %s after the turn'):format(keys.prompt_queue)
  end
  text = format.display_text(('%s %s'):format(table.concat(send, ' or '), text))
  local room = math.max(1, api.nvim_win_get_width(window) - 4)
  return (' › %%#AgentlsDim#%s'):format(buffers.escape_statusline(draw.fit_columns(text, room)))
end

---What a slash command is, in a few words.
---@param command agentls.CommandInfo
local function describe_command(command)
  if command.problem then
    return 'cannot be used: ' .. command.problem
  end
  local text = { command.argumentHint, command.description }
  return table.concat(vim.tbl_values(text), '  ')
end

---The slash commands that begin with `lead`, for a command line.
---@param lead string
---@return string[]
function M.complete_command(lead)
  local session = sessions.get_current()
  if not session or lead:sub(1, 1) ~= '/' then
    return {}
  end
  local result = client.request_sync('agent/listCommands', { sessionId = session.id }, 500)
  local names = {}
  for _, command in ipairs(result and result.commands or commands[session.id] or {}) do
    if vim.startswith('/' .. command.name, lead) then
      table.insert(names, '/' .. command.name)
    end
  end
  return names
end

---The slash command that a prompt names; nil for other words, among them paths.
---@param text string
---@return string?
local function find_command_name(text)
  local name = text:match('^/([^%s/]+)%s') or text:match('^/([^%s/]+)$')
  return name and not vim.uv.fs_stat('/' .. name) and name or nil
end

---How long a prompt waits until the slash commands are known, in ms.
local CHECK_MS = 1000

---Words that a person was asked about: sent again, they go as they are.
---@type table<string, string>
local questioned = {}

---Calls `send`, unless the words name a slash command that does not exist: then they go back to the person.
---@param session agentls.Session
---@param text string
---@param send fun()
function M.check_command(session, text, send)
  local name = find_command_name(text)
  if not name or questioned[session.id] == text or not client.supports_method('agent/listCommands') then
    questioned[session.id] = nil
    return send()
  end
  local settled = false
  local function finish_check(result)
    if settled then
      return
    end
    settled = true
    local names = vim.tbl_map(function(command)
      return command.name
    end, result and result.commands or {})
    if not result or vim.list_contains(names, name) then
      return send()
    end
    questioned[session.id] = text
    local near = format.find_nearest(name, names)
    local hint = near and ('; did you mean /%s?'):format(format.display_text(near)) or '.'
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
  -- A server that does not answer must not swallow the words.
  vim.defer_fn(finish_check, CHECK_MS)
end

---Offers the slash commands, where one is being written: it is the first word.
---@param id string The session.
local function offer_commands(id)
  local row, column = unpack(api.nvim_win_get_cursor(0))
  local before = api.nvim_get_current_line():sub(1, column)
  local space, lead = before:match('^(%s*)/([^%s/]*)$')
  if row > 1 or not lead or api.nvim_get_mode().mode ~= 'i' then
    return
  end
  local items = {}
  for _, command in ipairs(commands[id] or {}) do
    if vim.startswith(command.name, lead) and command.name ~= lead then
      table.insert(items, {
        word = command.name,
        abbr = '/' .. format.display_text(command.name),
        menu = format.single_line(describe_command(command), 60),
        info = format.display_text(command.path),
      })
    end
  end
  if #items > 0 then
    vim.fn.complete(#space + 2, items)
  end
end

---Asks for the slash commands, and offers them as soon as they are known.
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

---Makes a prompt's buffer complete slash commands as they are written.
---@param buffer integer
---@param id string
local function enable_completion(buffer, id)
  local own, before = pcall(api.nvim_get_option_value, 'completeopt', { buf = buffer })
  own = own and api.nvim_get_option_info2('completeopt', {}).global_local
  if own then
    vim.bo[buffer].completeopt = COMPLETION
  end
  api.nvim_create_autocmd('InsertEnter', {
    buffer = buffer,
    callback = function()
      if not own then
        before = vim.o.completeopt
        vim.o.completeopt = COMPLETION
      end
      fetch_commands(buffer, id)
    end,
  })
  api.nvim_create_autocmd('InsertLeave', {
    buffer = buffer,
    callback = function()
      if not own then
        vim.o.completeopt = before
      end
    end,
  })
  api.nvim_create_autocmd('TextChangedI', {
    buffer = buffer,
    callback = function()
      offer_commands(id)
    end,
  })
end

---The prompt's buffer of a session.
---@param session agentls.Session
---@return integer
function M.get_buffer(session)
  local buffer = prompts[session.id]
  if buffer and buffers.is_intact(buffer) then
    return buffer
  end
  buffers.define_highlights()
  buffer =
    buffers.create_session_buffer(('agentls://%s/prompt'):format(session.id), 'agentls_prompt', session.id)
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
  enable_completion(buffer, session.id)
  return buffer
end

---Puts words that were not used back where prompts are written.
---@param session agentls.Session
---@param text string
function M.restore_text(session, text)
  if text == '' then
    return
  end
  local buffer = M.get_buffer(session)
  local lines = api.nvim_buf_get_lines(buffer, 0, -1, false)
  local had = #lines > 1 or lines[1] ~= ''
  local new = format.split_lines(text)
  if had then
    table.insert(new, 1, '')
  end
  api.nvim_buf_set_lines(buffer, had and -1 or 0, -1, false, new)
  if not sessions.observer.is_visible(session) then
    notifications.notify(
      'what you said was not used; it stands in the prompt again (:Agent)',
      vim.log.levels.WARN
    )
  end
end

return M
