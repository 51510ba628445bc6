-- Decides what goes out when the user types: the changed range if the server has the text before it, else the full
-- text.
--
-- The server announces full sync but accepts ranges, too. It does not keep the text of a document that matches the
-- disk, because the disk may change. So the full text goes out after a document was opened, saved, or reloaded. It also
-- goes out if the server would count lines or columns differently. A wrong number of lines reveals all other
-- differences.

local format = require('agentls.format')

local api = vim.api
local M = {}

---@class agentls.SentDocument
---@field needs_full_text boolean Whether the server would count lines or columns differently.
---@field line_count integer The number of lines that the server has.
---@field format string
---@field eol boolean
---@field is_settled boolean Whether the main loop ran since the last change, so that the server has the buffer's text.

---@type table<string, agentls.SentDocument>
local sent_documents = {}

---Later, forgets the document if the buffer has no unsaved changes; else lets ranges follow.
---@param uri string
---@param buffer integer
local function settle_later(uri, buffer)
  vim.schedule(function()
    local document = sent_documents[uri]
    if document and (not api.nvim_buf_is_loaded(buffer) or not vim.bo[buffer].modified) then
      sent_documents[uri] = nil
    elseif document then
      document.is_settled = true
    end
  end)
end

---Builds a change with the full text.
---@param uri string
---@param buffer integer
---@return table
local function build_full_change(uri, buffer)
  local lines = api.nvim_buf_get_lines(buffer, 0, -1, true)
  local text = table.concat(lines)
  sent_documents[uri] = {
    -- In Neovim's changes the last line always has an end. A line feed inside a buffer line is a NUL.
    needs_full_text = not vim.bo[buffer].endofline or vim.bo[buffer].fileformat == 'mac' or text:find(
      '\r',
      1,
      true
    ) ~= nil or text:find('\n', 1, true) ~= nil or not format.is_valid_utf8(text),
    line_count = #lines,
    format = vim.bo[buffer].fileformat,
    eol = vim.bo[buffer].endofline,
    is_settled = false,
  }
  settle_later(uri, buffer)
  local ending = ({ dos = '\r\n', mac = '\r' })[vim.bo[buffer].fileformat] or '\n'
  return { text = table.concat(lines, ending) .. (vim.bo[buffer].endofline and ending or '') }
end

---Whether the changes turn the server's text into the text of the buffer.
---@param document agentls.SentDocument
---@param buffer integer
---@param changes table[]
local function is_incremental(document, buffer, changes)
  local ending = document.format == 'dos' and '\r\n' or '\n'
  for _, change in ipairs(changes) do
    if not change.range then
      return false
    end
    local text, line_count = change.text:gsub(ending, '')
    if text:find('[\r\n]') or not format.is_valid_utf8(text) then
      return false
    end
    document.line_count = document.line_count
      + line_count
      - (change.range['end'].line - change.range.start.line)
  end
  return document.line_count == api.nvim_buf_line_count(buffer)
end

---Returns the params to send for a notification.
---@param method string
---@param params table
---@return table
function M.rewrite_notification(method, params)
  local uri = vim.tbl_get(params or {}, 'textDocument', 'uri')
  if not uri or not vim.startswith(method, 'textDocument/did') then
    return params
  elseif method ~= 'textDocument/didChange' then
    sent_documents[uri] = nil
    return params
  end
  local buffer = vim.uri_to_bufnr(uri)
  if not api.nvim_buf_is_loaded(buffer) then
    return params
  end
  local document = sent_documents[uri]
  local can_send_ranges = document
    and document.is_settled
    and not document.needs_full_text
    and document.format == vim.bo[buffer].fileformat
    and document.eol == vim.bo[buffer].endofline
  if can_send_ranges and is_incremental(document, buffer, params.contentChanges) then
    settle_later(uri, buffer)
    return params
  end
  return vim.tbl_extend('force', params, { contentChanges = { build_full_change(uri, buffer) } })
end

---Builds full changes for the documents that were sent as ranges. The server must have them before the model reads
---them.
---@return table[] params Of `textDocument/didChange`.
function M.build_full_changes()
  local list = {}
  for uri in pairs(sent_documents) do
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

---Forgets all documents, because a new server has none.
function M.reset_all()
  sent_documents = {}
end

return M
