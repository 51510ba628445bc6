-- Knows whether language servers have reported about the current text of a buffer. It must not know the agent.

local async = require('agentls.async')

local M = {}

---How long nothing more may be reported until the reports count as complete, in ms. Some language servers report in
---parts, and about other documents after the one that changed.
local QUIET_MS = 300

---The version of each buffer's text when something was last reported about it.
---@type table<integer, integer>
local reported_versions = {}
local last_report = 0

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
    end,
  })
end

---Waits in a coroutine until the reports about the buffer's current text are complete, at most `ms`.
---@param buffer integer
---@param ms integer
function M.wait_for_reports(buffer, ms)
  async.wait_until(vim.uv.now() + ms, function()
    return reported_versions[buffer] ~= nil
      and reported_versions[buffer] == get_version(buffer)
      and vim.uv.now() - last_report >= QUIET_MS
  end)
end

return M
