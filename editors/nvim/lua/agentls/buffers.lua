-- The plugin's own buffers: how they are made and what they look like.

local text = require('agentls.text')

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

---Makes the highlight groups that are not there yet.
function M.highlights()
  -- Empty: what lies beneath is seen.
  api.nvim_set_hl(0, 'AgentlsCode', { default = true })
  for group, link in pairs(GROUPS) do
    api.nvim_set_hl(0, group, { link = link, default = true })
  end
end

---The windows that show a buffer.
---@param buffer integer
---@return integer[]
function M.windows_of(buffer)
  return vim.tbl_filter(function(window)
    return api.nvim_win_is_valid(window)
  end, vim.fn.win_findbuf(buffer))
end

---Highlights Markdown by queries of our own, which are in `queries/`.
local function markdown(buffer)
  local parser = api.nvim_get_runtime_file('parser/markdown.*', false)[1]
  local started = parser
    and pcall(vim.treesitter.language.add, 'agentls_markdown', { path = parser, symbol_name = 'markdown' })
    and pcall(vim.treesitter.start, buffer, 'agentls_markdown')
  if not started then
    vim.bo[buffer].syntax = 'markdown'
  end
end

---Whether a buffer is as we made it. `:bdelete` and `:bunload` leave one without its lines and options.
---@param buffer? integer
function M.is_whole(buffer)
  return buffer ~= nil and api.nvim_buf_is_loaded(buffer) and vim.b[buffer].agentls_session ~= nil
end

---A buffer of a session, in the place of one of its name.
---@param name string
---@param filetype string
---@param id string The session.
---@return integer
function M.scratch(name, filetype, id)
  -- What a person's `:bdelete` left would keep the name.
  local left = vim.fn.bufnr('^' .. name .. '$')
  if left ~= -1 then
    api.nvim_buf_delete(left, { force = true })
  end
  local buffer = api.nvim_create_buf(false, true)
  api.nvim_buf_set_name(buffer, name)
  vim.b[buffer].agentls_session = id
  vim.bo[buffer].bufhidden = 'hide'
  vim.bo[buffer].swapfile = false
  vim.bo[buffer].filetype = filetype
  vim.bo[buffer].formatlistpat = [[^\s*\%(\d\+[.)]\|[-*+]\)\s\+]]
  markdown(buffer)
  return buffer
end

---As a bar shows it.
---@param words string
function M.escaped(words)
  return (text.visible(words):gsub('%%', '%%%%'))
end

return M
