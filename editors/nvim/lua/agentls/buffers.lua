-- Creates the plugin's session buffers and highlight groups. It must not know what a buffer shows.

local format = require('agentls.format')

local api = vim.api
local M = {}

local GROUPS = {
  AgentlsUser = 'CursorLine',
  AgentlsDim = 'Comment',
  AgentlsOk = 'DiagnosticOk',
  AgentlsError = 'DiagnosticError',
  AgentlsWarn = 'DiagnosticWarn',
  AgentlsAsk = 'DiagnosticWarn',
  AgentlsBusy = 'DiagnosticInfo',
  AgentlsAdded = 'DiffAdd',
  AgentlsRemoved = 'DiffDelete',
  AgentlsHunk = 'Comment',
  AgentlsKey = 'Special',
}

---Defines the highlight groups that the user has not defined.
function M.define_highlights()
  -- Empty, so that the background shows.
  api.nvim_set_hl(0, 'AgentlsCode', { default = true })
  for group, link in pairs(GROUPS) do
    api.nvim_set_hl(0, group, { link = link, default = true })
  end
end

---Returns the windows that show a buffer.
---@param buffer integer
---@return integer[]
function M.find_windows(buffer)
  return vim.tbl_filter(function(window)
    return api.nvim_win_is_valid(window)
  end, vim.fn.win_findbuf(buffer))
end

---Highlights Markdown with this plugin's own queries, in `queries/`.
local function highlight_markdown(buffer)
  local parser = api.nvim_get_runtime_file('parser/markdown.*', false)[1]
  local started = parser
    and pcall(vim.treesitter.language.add, 'agentls_markdown', { path = parser, symbol_name = 'markdown' })
    and pcall(vim.treesitter.start, buffer, 'agentls_markdown')
  if not started then
    vim.bo[buffer].syntax = 'markdown'
  end
end

---Whether a buffer still has its lines and options. `:bdelete` and `:bunload` take them away.
---@param buffer? integer
function M.is_intact(buffer)
  return buffer ~= nil and api.nvim_buf_is_loaded(buffer) and vim.b[buffer].agentls_session ~= nil
end

---The longest title in the name of a buffer, in bytes.
local MAX_NAME_BYTES = 40

---@param buffer integer
---@return boolean
local function is_leftover(buffer)
  -- A buffer that the user `:bdelete`d still has its name, and so has the old name of a renamed one.
  return not api.nvim_buf_is_loaded(buffer) or vim.b[buffer].agentls_session == nil
end

---Finds a buffer by its exact name.
---@param name string
---@return integer?
local function find_by_name(name)
  return vim.iter(api.nvim_list_bufs()):find(function(buffer)
    return api.nvim_buf_get_name(buffer) == name
  end)
end

---Names a buffer after its session, so that tabs and statuslines can be read: `agentls://fix it`.
---@param buffer integer
---@param session agentls.Session
local function set_name(buffer, session)
  local suffix = vim.bo[buffer].filetype == 'agentls_prompt' and '/prompt' or ''
  local title = format.single_line(session.state.title or 'new session', MAX_NAME_BYTES)
  title = format.display_text(title):gsub('[/\\%%#|"]', ' ')
  local number, name = 1, ('agentls://%s%s'):format(title, suffix)
  local old_name = api.nvim_buf_get_name(buffer)
  while true do
    local other = find_by_name(name)
    if not other or other == buffer then
      break
    elseif is_leftover(other) then
      pcall(api.nvim_buf_delete, other, { force = true })
      break
    end
    number = number + 1
    name = ('agentls://%s (%d)%s'):format(title, number, suffix)
  end
  if name == old_name then
    return
  end
  api.nvim_buf_set_name(buffer, name)
  -- The old name stays behind as another buffer.
  local other = old_name ~= '' and find_by_name(old_name)
  if other and other ~= buffer and is_leftover(other) then
    pcall(api.nvim_buf_delete, other, { force = true })
  end
end

---Creates a buffer of a session.
---@param session agentls.Session
---@param filetype string
---@return integer
function M.create_session_buffer(session, filetype)
  local buffer = api.nvim_create_buf(false, true)
  vim.b[buffer].agentls_session = session.id
  vim.bo[buffer].bufhidden = 'hide'
  vim.bo[buffer].swapfile = false
  vim.bo[buffer].filetype = filetype
  vim.bo[buffer].formatlistpat = [[^\s*\%(\d\+[.)]\|[-*+]\)\s\+]]
  set_name(buffer, session)
  highlight_markdown(buffer)
  return buffer
end

---Assigns a buffer to a session whose id or title has changed.
---@param buffer integer
---@param session agentls.Session
function M.set_session(buffer, session)
  vim.b[buffer].agentls_session = session.id
  set_name(buffer, session)
end

---Escapes text for a statusline or a winbar.
---@param text string
function M.escape_statusline(text)
  return (format.display_text(text):gsub('%%', '%%%%'))
end

return M
