-- Knows whether language servers have reported about the current text of a buffer, and loads documents that are in no
-- buffer until they have. It must not know the agent.

local async = require('agentls.async')
local language = require('agentls.language')

local M = {}

---Which part of the longest wait must pass without another report until the reports count as complete. Some language
---servers report in parts, and about other documents after the one that changed.
local QUIET_PART = 0.15

---The version of each buffer's text when something was last reported about it.
---@type table<integer, integer>
local reported_versions = {}
local last_report = 0

---How often in a row reports about buffers of a file type did not come. Some language servers never report.
---@type table<string, integer>
local vain_waits = {}
---After the edits of two files, each waited for before and after it.
local MAX_VAIN_WAITS = 4

---Returns the version of a buffer's text that language servers have. Saving does not change it.
local function get_version(buffer)
  return vim.lsp.util.buf_versions[buffer]
end

---Follows the reports from now on.
function M.setup()
  vim.api.nvim_create_autocmd('DiagnosticChanged', {
    group = vim.api.nvim_create_augroup('agentls_diagnostics', {}),
    callback = function(event)
      reported_versions[event.buf] = get_version(event.buf)
      last_report = vim.uv.now()
      if #event.data.diagnostics > 0 then
        vain_waits[vim.bo[event.buf].filetype] = nil
      end
    end,
  })
end

local function is_reported(buffer)
  return reported_versions[buffer] ~= nil and reported_versions[buffer] == get_version(buffer)
end

---Whether a language server covers the buffer, or one that starts will, and may report about it.
local function expects_report(buffer, own_id)
  local is_silent = (vain_waits[vim.bo[buffer].filetype] or 0) >= MAX_VAIN_WAITS
  return not is_silent
    and vim.iter(vim.lsp.get_clients({ bufnr = buffer, _uninitialized = true })):any(function(client)
      return client.id ~= own_id
    end)
end

---Remembers of which file types no buffer was reported about. A language server that loads a project may report later.
local function count_vain_waits(awaited)
  local is_answered = {}
  for _, document in ipairs(awaited) do
    local filetype = vim.bo[document.buffer].filetype
    local is_loading = language.is_loading(vim.lsp.get_clients({ bufnr = document.buffer }))
    is_answered[filetype] = is_answered[filetype] or is_loading or is_reported(document.buffer)
  end
  for filetype, yes in pairs(is_answered) do
    vain_waits[filetype] = not yes and (vain_waits[filetype] or 0) + 1 or nil
  end
end

---Unloads a buffer that was loaded for the reports, unless the user has opened it meanwhile.
---@param buffer integer
---@param is_known boolean Whether Neovim had a buffer of this name before.
local function unload_buffer(buffer, is_known)
  local is_used = not vim.api.nvim_buf_is_loaded(buffer)
    or vim.bo[buffer].modified
    or #vim.fn.win_findbuf(buffer) > 0
    or (vim.bo[buffer].buflisted and not is_known)
  if not is_used then
    vim.api.nvim_buf_delete(buffer, { force = true, unload = is_known })
    reported_versions[buffer] = nil
  end
end

---Waits in a coroutine until the reports about the current text of documents are complete, at most `ms` for all
---together. Loads those that are in no buffer, and unloads them after `collect`.
---@generic T
---@param uris string[]
---@param ms integer
---@param own_id integer The client of the agent, which does not report.
---@param collect fun(): T
---@return T
---@return string[] unreported The documents about which nothing was reported in time.
function M.with_reports(uris, ms, own_id, collect)
  local awaited, loaded = {}, {}
  for _, uri in ipairs(uris) do
    local is_known = vim.fn.bufexists(vim.uri_to_fname(uri)) == 1
    local buffer, is_new = language.load_buffer(uri)
    if buffer and is_new then
      table.insert(loaded, { buffer = buffer, is_known = is_known })
    end
    if buffer and expects_report(buffer, own_id) then
      table.insert(awaited, { uri = uri, buffer = buffer })
    end
  end
  local function is_missing(document)
    return not is_reported(document.buffer)
  end
  local started_at, quiet_ms = vim.uv.now(), nil
  async.wait_until(started_at + (#awaited > 0 and ms or 0), function()
    if vim.iter(awaited):any(is_missing) then
      return false
    end
    -- A slow language server gets as much time as it took.
    quiet_ms = quiet_ms or math.max(ms * QUIET_PART, vim.uv.now() - started_at)
    return vim.uv.now() - last_report >= quiet_ms
  end)
  count_vain_waits(awaited)
  local ok, result = pcall(collect)
  local unreported = vim.iter(awaited):filter(is_missing):map(function(document)
    return document.uri
  end)
  unreported = unreported:totable()
  for _, one in ipairs(loaded) do
    unload_buffer(one.buffer, one.is_known)
  end
  if not ok then
    error(result, 0)
  end
  return result, unreported
end

return M
