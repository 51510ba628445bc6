-- Summarizes what a call would delete or overwrite for good. Pure: it must not use the editor.

local format = require('agentls.format')

local M = {}

---The most rows of a list. One more row is shown instead of "and 1 more".
local MAX_ROWS = 5
---The most losses that the server lists. There may be more.
local MAX_LISTED = 20
---How many losses the reason names.
local NAMED_IN_REASON = 3
local REASON_START = 'deletes or overwrites for good: '

---@class agentls.LossRow
---@field what string
---@field size string Empty if it is unknown.

---@class agentls.LossSummary
---@field rows agentls.LossRow[]
---@field more? string How many more there are, such as "and 12 more". Nil if the rows are all.
---@field full_lines? string[] The list in full, if the rows leave out something that is known.
---@field reason string The reason of the question without what the rows say; may be empty.

---Returns where a name at `from` ends, or nil. The reason may contain its start and an ellipsis instead.
local function find_name_end(why, from, name)
  if why:sub(from, from + #name - 1) == name then
    return from + #name
  end
  local length = 0
  while length < #name and why:byte(from + length) == name:byte(length + 1) do
    length = length + 1
  end
  -- The ellipsis may begin with the bytes of the name's next character.
  for at = from + length, math.max(from + 1, from + length - 2), -1 do
    if why:sub(at, at + 2) == '…' then
      return at + 3
    end
  end
end

---Returns where what the reason says about the first losses ends, and how many these are; or nil.
---@param why string
---@param loses agentls.Loss[]
local function find_names_end(why, loses)
  local at, named = #REASON_START + 1, math.min(#loses, NAMED_IN_REASON)
  for i = 1, named do
    if i > 1 then
      if why:sub(at, at + 1) ~= ', ' then
        return nil
      end
      at = at + 2
    end
    local name = format.reveal_hidden((vim.trim(loses[i].what):gsub('%s+', ' ')))
    local name_end = find_name_end(why, at, name)
    if not name_end then
      return nil
    end
    local _, size_end = why:find('^ %([%d.]+ %a+%)', name_end)
    at = loses[i].bytes and size_end and size_end + 1 or name_end
  end
  return at, named
end

---Splits a reason into what it says about losses and the rest. Returns nil if it does not name the first losses in the
---server's words; then all of it is shown.
---@param why string
---@param loses agentls.Loss[]
---@return { count: integer, is_partial: boolean, rest: string }?
local function parse_reason(why, loses)
  if why:sub(1, #REASON_START) ~= REASON_START then
    return nil
  end
  local at, named = find_names_end(why, loses)
  if not at then
    return nil
  end
  local text, count, is_partial = why:sub(at), named, false
  for _, pattern in ipairs({ '^, and at least (%d+) more', '^, and (%d+) more', '^, perhaps more()' }) do
    local _, last, more = text:find(pattern)
    if last then
      is_partial = pattern:find('least', 1, true) ~= nil or type(more) == 'number'
      count = type(more) == 'string' and count + tonumber(more) or count
      text = text:sub(last + 1)
      break
    end
  end
  local rest = text:match('^ · (.*)$')
  if text ~= '' and not rest then
    return nil
  end
  return { count = count, is_partial = is_partial, rest = rest or '' }
end

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
  local parsed = parse_reason(approval.why, loses)
  local count = math.max(parsed and parsed.count or 0, #loses)
  local is_open_ended = #loses >= MAX_LISTED
  if parsed then
    is_open_ended = parsed.is_partial
  end
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
    reason = parsed and parsed.rest or approval.why,
  }
end

return M
