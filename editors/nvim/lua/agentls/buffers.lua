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

---Creates a buffer of a session. Replaces a buffer that has the same name.
---@param name string
---@param filetype string
---@param id string The session.
---@return integer
function M.create_session_buffer(name, filetype, id)
  -- A buffer that the user `:bdelete`d still has its name.
  local old_buffer = vim.fn.bufnr('^' .. name .. '$')
  if old_buffer ~= -1 then
    api.nvim_buf_delete(old_buffer, { force = true })
  end
  local buffer = api.nvim_create_buf(false, true)
  api.nvim_buf_set_name(buffer, name)
  vim.b[buffer].agentls_session = id
  vim.bo[buffer].bufhidden = 'hide'
  vim.bo[buffer].swapfile = false
  vim.bo[buffer].filetype = filetype
  vim.bo[buffer].formatlistpat = [[^\s*\%(\d\+[.)]\|[-*+]\)\s\+]]
  highlight_markdown(buffer)
  return buffer
end

---Assigns a buffer to the new id of its session.
---@param buffer integer
---@param name string
---@param id string
function M.set_session_id(buffer, name, id)
  vim.b[buffer].agentls_session = id
  api.nvim_buf_set_name(buffer, name)
  -- The old name stays behind as another buffer.
  for _, other in ipairs(api.nvim_list_bufs()) do
    if other ~= buffer and not api.nvim_buf_is_loaded(other) and vim.b[other].agentls_session == nil then
      local old_name = api.nvim_buf_get_name(other)
      if vim.startswith(old_name, 'agentls://ses') then
        pcall(api.nvim_buf_delete, other, { force = true })
      end
    end
  end
end

---Escapes text for a statusline or a winbar.
---@param text string
function M.escape_statusline(text)
  return (format.display_text(text):gsub('%%', '%%%%'))
end

return M
