-- What the server is sent when a person types: the change alone, where it surely has the text before it.
--
-- The server asks for whole texts, and takes ranges too. It does not keep the text of a document that is as it is on
-- disk (the disk may change before the next key), so the whole text goes out after a document was opened, saved or
-- read again, and for texts in which the server would count lines and columns differently. Each change is decided by
-- itself; comparing the number of lines catches what was not foreseen.

local format = require('agentls.format')

local api = vim.api
local M = {}

---@class agentls.SentDocument
---@field needs_full_text boolean The server would count its lines and columns in another way.
---@field line_count integer Lines, as they were sent.
---@field format string
---@field eol boolean
---@field is_settled boolean What was sent is what the buffer had at the end of a round of the main loop.

---@type table<string, agentls.SentDocument>
local sent = {}

---Forgets a document when nothing of it is unsaved any more; else changes may follow.
---@param uri string
---@param buffer integer
local function settle_later(uri, buffer)
  vim.schedule(function()
    local document = sent[uri]
    if document and (not api.nvim_buf_is_loaded(buffer) or not vim.bo[buffer].modified) then
      sent[uri] = nil
    elseif document then
      document.is_settled = true
    end
  end)
end

---The whole text as a change.
---@param uri string
---@param buffer integer
---@return table
local function build_full_change(uri, buffer)
  local lines = api.nvim_buf_get_lines(buffer, 0, -1, true)
  local bare = table.concat(lines)
  sent[uri] = {
    -- Neovim's changes give each last line an end. A NUL is a line feed in a buffer's line.
    needs_full_text = not vim.bo[buffer].endofline or vim.bo[buffer].fileformat == 'mac' or bare:find(
      '\r',
      1,
      true
    ) ~= nil or bare:find('\n', 1, true) ~= nil or not format.is_valid_utf8(bare),
    line_count = #lines,
    format = vim.bo[buffer].fileformat,
    eol = vim.bo[buffer].endofline,
    is_settled = false,
  }
  settle_later(uri, buffer)
  local ending = ({ dos = '\r\n', mac = '\r' })[vim.bo[buffer].fileformat] or '\n'
  return { text = table.concat(lines, ending) .. (vim.bo[buffer].endofline and ending or '') }
end

---Whether changes bring a document that was sent to the text of its buffer.
---@param document agentls.SentDocument
---@param buffer integer
---@param changes table[]
local function is_incremental(document, buffer, changes)
  local ending = document.format == 'dos' and '\r\n' or '\n'
  for _, change in ipairs(changes) do
    if not change.range then
      return false
    end
    local bare, added = change.text:gsub(ending, '')
    if bare:find('[\r\n]') or not format.is_valid_utf8(bare) then
      return false
    end
    document.line_count = document.line_count + added - (change.range['end'].line - change.range.start.line)
  end
  return document.line_count == api.nvim_buf_line_count(buffer)
end

---The params of a notification as they go out.
---@param method string
---@param params table
---@return table
function M.rewrite_notification(method, params)
  local uri = vim.tbl_get(params or {}, 'textDocument', 'uri')
  if not uri or not vim.startswith(method, 'textDocument/did') then
    return params
  elseif method ~= 'textDocument/didChange' then
    sent[uri] = nil
    return params
  end
  local buffer = vim.uri_to_bufnr(uri)
  if not api.nvim_buf_is_loaded(buffer) then
    return params
  end
  local document = sent[uri]
  local known = document
    and document.is_settled
    and not document.needs_full_text
    and document.format == vim.bo[buffer].fileformat
    and document.eol == vim.bo[buffer].endofline
  if known and is_incremental(document, buffer, params.contentChanges) then
    settle_later(uri, buffer)
    return params
  end
  return vim.tbl_extend('force', params, { contentChanges = { build_full_change(uri, buffer) } })
end

---The unsaved texts that went out in changes: to be sent whole before the model works with them.
---@return table[] params Of `textDocument/didChange`.
function M.build_full_changes()
  local list = {}
  for uri in pairs(sent) do
    local buffer = vim.uri_to_bufnr(uri)
    if api.nvim_buf_is_loaded(buffer) then
      table.insert(list, {
        textDocument = { uri = uri, version = vim.lsp.util.buf_versions[buffer] },
        contentChanges = { build_full_change(uri, buffer) },
      })
    end
  end
  return list
end

---Forgets what was sent: to another server nothing was.
function M.reset_all()
  sent = {}
end

return M
