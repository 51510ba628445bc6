-- Lists the MCP servers of a folder with their states, and acts on the one under the cursor: restart, log, login.
--
-- Owns the buffer of the list, which follows the server's notifications while it is open. The server owns the states.

local attention = require('agentls.attention')
local client = require('agentls.client')
local dialog = require('agentls.dialog')
local format = require('agentls.format')
local notifications = require('agentls.notifications')
local protocol = require('agentls.protocol')
local scratch = require('agentls.scratch')
local sessions = require('agentls.sessions')
local web_address = require('agentls.web_address')

local api = vim.api
local requests = protocol.requests
local M = {}

local namespace = api.nvim_create_namespace('agentls.mcp')

---How each state looks: mark, highlight group, text. A newer server may have other states.
local STATES = {
  disabled = { '–', 'AgentlsDim', 'disabled in the configuration' },
  untrusted = { '⊘', 'AgentlsWarn', 'off, because the folder is not trusted' },
  invalid = { '!', 'AgentlsWarn', 'its settings cannot be used' },
  idle = { '○', 'AgentlsDim', 'starts with the next turn' },
  starting = { '▶', 'AgentlsBusy', 'starting' },
  ready = { '✓', 'AgentlsOk', 'ready' },
  failed = { '✗', 'AgentlsError', 'failed' },
  needsLogin = { '?', 'AgentlsAsk', 'needs a login' },
}

---States in which a server does not run whatever the user does here.
local OFF = { disabled = true, untrusted = true, invalid = true }

---@class agentls.McpList
---@field buffer integer
---@field session_id? string The session whose folder's servers are listed; nil: the first workspace folder.
---@field servers agentls.McpServerInfo[]
---@field first_rows integer[] The first line of each server.
---@field is_fetching? boolean
---@field is_stale? boolean Whether something changed during the fetch.

---@type agentls.McpList?
local list

---Shortens an absolute path. Returns any other source unchanged.
---@param path string
local function format_path(path)
  return format.display_text(vim.startswith(path, '/') and vim.fn.fnamemodify(path, ':~') or path)
end

---@param server agentls.McpServerInfo
---@return string[] state As in STATES.
local function get_state(server)
  if server.loginUrl then
    return { '?', 'AgentlsBusy', 'waits for the login in your browser' }
  end
  return STATES[server.state] or { '·', 'AgentlsDim', server.state }
end

---Formats a server: its lines, and the highlight group of each. The mark of the first line has its own group.
---@param server agentls.McpServerInfo
---@return { [1]: string, [2]?: string }[] lines
function M.format_server(server)
  local mark, _, text = unpack(get_state(server))
  local parts = { ('%s %s'):format(mark, format.display_text(server.name)), format.display_text(text) }
  if server.state == 'ready' then
    table.insert(parts, server.toolCount == 1 and '1 tool' or ('%d tools'):format(server.toolCount))
  end
  if server.title then
    table.insert(parts, format.display_text(server.title))
  end
  local lines = { { table.concat(parts, ' · ') } }
  if server.reason then
    local group = server.state == 'failed' and 'AgentlsError' or 'AgentlsWarn'
    table.insert(lines, { '    ' .. format.display_text(server.reason), group })
  end
  if server.target ~= '' then
    table.insert(lines, { '    ' .. format.display_text(server.target), 'AgentlsDim' })
  end
  if server.source then
    table.insert(lines, { '    from ' .. format_path(server.source), 'AgentlsDim' })
  end
  return lines
end

local KEYS_LINE = '<CR> choose an action · r restart · o log and tools · i log in · q close'

---Draws the list again, and keeps the cursor of each window on its server.
local function draw_list()
  local shown = assert(list)
  local lines, first_rows = {}, {}
  if #shown.servers == 0 then
    lines = {
      { 'No MCP server is configured.', 'AgentlsDim' },
      {
        'Add [mcp.NAME] to your config.toml, or .mcp.json to the workspace. Then run :AgentReload.',
        'AgentlsDim',
      },
    }
  end
  for i, server in ipairs(shown.servers) do
    if i == 1 or server.folder ~= shown.servers[i - 1].folder then
      table.insert(lines, { 'MCP servers of ' .. format_path(server.folder), 'Title' })
      table.insert(lines, { '' })
    end
    table.insert(first_rows, #lines + 1)
    vim.list_extend(lines, M.format_server(server))
  end
  vim.list_extend(lines, { { '' }, { KEYS_LINE, 'AgentlsDim' } })

  local cursors = {}
  for _, window in ipairs(vim.fn.win_findbuf(shown.buffer)) do
    local row = api.nvim_win_get_cursor(window)[1]
    for i, first_row in ipairs(shown.first_rows) do
      if row >= first_row then
        cursors[window] = { server = i, offset = row - first_row }
      end
    end
  end
  vim.bo[shown.buffer].modifiable = true
  api.nvim_buf_set_lines(
    shown.buffer,
    0,
    -1,
    false,
    vim.tbl_map(function(line)
      return line[1]
    end, lines)
  )
  vim.bo[shown.buffer].modifiable = false
  vim.bo[shown.buffer].modified = false
  api.nvim_buf_clear_namespace(shown.buffer, namespace, 0, -1)
  for row, line in ipairs(lines) do
    if line[2] then
      api.nvim_buf_set_extmark(
        shown.buffer,
        namespace,
        row - 1,
        0,
        { end_col = #line[1], hl_group = line[2] }
      )
    end
  end
  for i, row in ipairs(first_rows) do
    local mark, group = unpack(get_state(shown.servers[i]))
    api.nvim_buf_set_extmark(shown.buffer, namespace, row - 1, 0, { end_col = #mark, hl_group = group })
  end
  for window, cursor in pairs(cursors) do
    local row = first_rows[cursor.server]
    if row then
      api.nvim_win_set_cursor(window, { math.min(row + cursor.offset, #lines), 0 })
    end
  end
  shown.first_rows = first_rows
end

---Fetches the servers again. Starts no server, and reports no error: nobody asked.
local function refresh_list()
  local shown = list
  if not shown or not client.is_ready() then
    return
  end
  if shown.is_fetching then
    shown.is_stale = true
    return
  end
  shown.is_fetching, shown.is_stale = true, false
  client.request(requests.listMcpServers, { sessionId = shown.session_id }, function(_, result)
    shown.is_fetching = false
    if list ~= shown then
      return
    end
    if result then
      shown.servers = result.servers
      draw_list()
    end
    if shown.is_stale then
      refresh_list()
    end
  end)
end

---@param server agentls.McpServerInfo
---@return { name: string, sessionId?: string }
local function build_params(server)
  return { name = server.name, sessionId = list and list.session_id }
end

---@param server agentls.McpServerInfo
local function restart_server(server)
  sessions.request(requests.restartMcpServer, build_params(server), function()
    notifications.notify_line(
      'restarting ',
      server.name,
      server.state == 'idle' and '; no session uses it, so it starts with the next turn' or ''
    )
  end)
end

---Shows what is known of a server: its log and its tools.
---@param server agentls.McpServerInfo
local function show_details(server)
  local _, _, state = unpack(get_state(server))
  local lines = { '# ' .. format.display_text(server.name), '', format.display_text(state) }
  if server.reason then
    table.insert(lines, format.display_text(server.reason))
  end
  ---@param heading string
  ---@param entries? string[]
  ---@param none string
  local function add_section(heading, entries, none)
    vim.list_extend(lines, { '', '## ' .. heading, '' })
    vim.list_extend(lines, #(entries or {}) > 0 and vim.tbl_map(format.display_text, entries) or { none })
  end
  add_section('Its last lines on standard error', server.stderr, '(none)')
  add_section('Tools that the agent may use', server.tools, '(none)')
  scratch.show_lines('mcp/' .. server.name, 'agentls_output', lines)
end

---@param server agentls.McpServerInfo
local function log_in(server)
  local params = build_params(server)
  local function cancel_login()
    sessions.request(requests.cancelMcpLogin, params)
  end
  local has_typed = attention.watch()
  sessions.request(requests.loginMcpServer, params, function(result)
    if has_typed() then
      notifications.notify_line('the login of ', server.name, ' is ready; start it again with :AgentMcp')
      return cancel_login()
    end
    web_address.ask_to_open(('Log in to %s'):format(server.name), result.url, function(is_used)
      if not is_used then
        cancel_login()
      end
    end)
  end)
end

---@class agentls.McpAction
---@field key? string Its key in the list.
---@field label string
---@field run fun(server: agentls.McpServerInfo)
---@field applies fun(server: agentls.McpServerInfo): boolean

---@type agentls.McpAction[]
local ACTIONS = {
  {
    label = 'Review what trusting the folder activates',
    applies = function(server)
      return server.state == 'untrusted'
    end,
    run = function()
      require('agentls.trust').review_trust()
    end,
  },
  {
    key = 'i',
    label = 'Log in',
    applies = function(server)
      return server.state == 'needsLogin' and client.supports_method(requests.loginMcpServer)
    end,
    run = log_in,
  },
  {
    label = 'Stop waiting for the login',
    applies = function(server)
      return server.loginUrl ~= nil
    end,
    run = function(server)
      sessions.request(requests.cancelMcpLogin, build_params(server))
    end,
  },
  {
    key = 'r',
    label = 'Restart',
    applies = function(server)
      return not OFF[server.state]
    end,
    run = restart_server,
  },
  {
    key = 'o',
    label = 'Show its log and tools',
    applies = function()
      return true
    end,
    run = show_details,
  },
  {
    label = 'Log out',
    applies = function(server)
      return server.loggedIn == true
    end,
    run = function(server)
      sessions.request(requests.logoutMcpServer, build_params(server), function(result)
        local problem = result.revocationProblem
        notifications.notify_line(
          'logged out of ',
          server.name,
          problem and '; the authorization server did not revoke the tokens: ' .. format.display_text(problem)
            or ''
        )
      end)
    end,
  },
}

---Returns the server under the cursor of the current window, or nil above the first one.
---@return agentls.McpServerInfo?
local function get_server_at_cursor()
  local row, server = api.nvim_win_get_cursor(0)[1], nil
  for i, first_row in ipairs(list and list.first_rows or {}) do
    if row >= first_row then
      server = list.servers[i]
    end
  end
  return server
end

---Runs an action on the server under the cursor; without one, asks which.
---@param action? agentls.McpAction
local function act_on_server(action)
  local server = get_server_at_cursor()
  if not server then
    return notifications.notify('put the cursor on a server')
  elseif not action then
    local applicable = vim.tbl_filter(function(candidate)
      return candidate.applies(server)
    end, ACTIONS)
    dialog.select(applicable, {
      prompt = format.display_text(server.name),
      kind = 'agentls.mcp',
      format_item = function(candidate)
        return candidate.label
      end,
    }, function(choice)
      if choice then
        choice.run(server)
      end
    end)
  elseif action.applies(server) then
    action.run(server)
  else
    local _, _, state = unpack(get_state(server))
    notifications.notify_line('not possible now: ', server.name, ' is ' .. format.display_text(state))
  end
end

---@param buffer integer
local function map_keys(buffer)
  local function map(key, text, action)
    vim.keymap.set('n', key, function()
      act_on_server(action)
    end, { buffer = buffer, nowait = true, silent = true, desc = 'agentls: ' .. text })
  end
  map('<CR>', 'choose an action')
  for _, action in ipairs(ACTIONS) do
    if action.key then
      map(action.key, action.label, action)
    end
  end
end

---Keeps the list current while its buffer exists.
---@param buffer integer
local function follow_changes(buffer)
  local group = api.nvim_create_augroup('agentls.mcp', {})
  api.nvim_create_autocmd('User', {
    group = group,
    pattern = { 'AgentMcpServerUpdated', 'AgentServerReady' },
    callback = refresh_list,
  })
  -- What the user did elsewhere, such as trusting the folder, may have changed the list.
  api.nvim_create_autocmd('BufEnter', { group = group, buffer = buffer, callback = refresh_list })
  api.nvim_create_autocmd('BufWipeout', {
    group = group,
    buffer = buffer,
    callback = function()
      list = nil
      api.nvim_del_augroup_by_id(group)
    end,
  })
end

---Lists the MCP servers of the current session's folder.
function M.show_servers()
  local session = sessions.get_current()
  local session_id = session and session.id
  local show = attention.guard('the list of MCP servers is ready; open it with :AgentMcp', function(result)
    scratch.show_lines('mcp', 'agentls_mcp', {})
    local buffer = api.nvim_get_current_buf()
    list = { buffer = buffer, session_id = session_id, servers = result.servers, first_rows = {} }
    map_keys(buffer)
    follow_changes(buffer)
    draw_list()
    if list.first_rows[1] then
      api.nvim_win_set_cursor(0, { list.first_rows[1], 0 })
    end
  end)
  sessions.request(requests.listMcpServers, { sessionId = session_id }, show)
end

return M
