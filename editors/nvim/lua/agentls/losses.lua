-- Summarizes what a call would delete or overwrite for good. Pure: it must not use the editor.

local format = require('agentls.format')

local M = {}

---The most rows of a list. One more row is shown instead of "and 1 more".
local MAX_ROWS = 5

---@class agentls.LossRow
---@field what string
---@field size string Empty if it is unknown.

---@class agentls.LossSummary
---@field rows agentls.LossRow[]
---@field more? string How many more there are, such as "and 12 more". Nil if the rows are all.
---@field full_lines? string[] The list in full, if the rows leave out something that is known.
---@field reason string The reason of the question without what the rows say; may be empty.

---@param count integer
---@param is_open_ended boolean
---@return string?
local function describe_rest(count, is_open_ended)
  if count > 0 then
    return (is_open_ended and 'and at least %d more' or 'and %d more'):format(count)
  end
  return is_open_ended and 'and perhaps more' or nil
end

---Summarizes what the call would delete or overwrite for good. Returns nil if it lists nothing.
---@param approval agentls.ApprovalRequestedNotification
---@return agentls.LossSummary?
function M.summarize_losses(approval)
  local loses = approval.loses or {}
  if #loses == 0 then
    return nil
  end
  local more = approval.losesMore or { count = 0, isPartial = false }
  local count, is_open_ended = #loses + more.count, more.isPartial == true
  local shown_count = math.min(#loses, count > MAX_ROWS + 1 and MAX_ROWS or MAX_ROWS + 1)
  local rows, full_lines = {}, {}
  for i, loss in ipairs(loses) do
    local row = {
      what = format.display_text(loss.what),
      size = loss.bytes and format.byte_size(loss.bytes) or '',
    }
    rows[i] = i <= shown_count and row or nil
    full_lines[i] = row.size == '' and row.what or ('%s (%s)'):format(row.what, row.size)
  end
  full_lines[#full_lines + 1] = describe_rest(count - #loses, is_open_ended)
  return {
    rows = rows,
    more = describe_rest(count - shown_count, is_open_ended),
    full_lines = shown_count < #loses and full_lines or nil,
    reason = approval.otherWhy or '',
  }
end

return M
