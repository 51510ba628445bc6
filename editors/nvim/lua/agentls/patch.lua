-- Parses unified diffs of one file, and applies them to its lines in either direction. Pure: it must not use the
-- editor.

local M = {}

---@class agentls.Hunk
---@field from integer Its first line before the change, from 1. Without lines: the line that precedes it.
---@field to integer The same after the change.
---@field before string[] Its lines before the change.
---@field after string[] Its lines after the change.

---@param diff string
---@return agentls.Hunk[]
function M.parse_hunks(diff)
  local hunks, hunk = {}, nil
  for line in (diff:gsub('\n$', '') .. '\n'):gmatch('(.-)\r?\n') do
    local from, to = line:match('^@@ %-(%d+),?%d* %+(%d+),?%d* @@')
    local mark, text = line:sub(1, 1), line:sub(2)
    if from then
      hunk = { from = tonumber(from), to = tonumber(to), before = {}, after = {} }
      hunks[#hunks + 1] = hunk
    elseif hunk then
      if mark ~= '+' and mark ~= '\\' then
        hunk.before[#hunk.before + 1] = text
      end
      if mark ~= '-' and mark ~= '\\' then
        hunk.after[#hunk.after + 1] = text
      end
    end
  end
  return hunks
end

---Returns the lines on the other side of a diff, or nil if the diff does not match `lines`.
---@param lines string[]
---@param diff string
---@param is_reverse? boolean From after the change to before it.
---@return string[]?
function M.apply_diff(lines, diff, is_reverse)
  local result, at = {}, 1
  for _, hunk in ipairs(M.parse_hunks(diff)) do
    local expected = is_reverse and hunk.after or hunk.before
    local replacement = is_reverse and hunk.before or hunk.after
    local first = is_reverse and hunk.to or hunk.from
    if first == 0 and #lines > 0 then
      -- Line 0 is valid only in an empty file.
      return nil
    end
    -- A hunk without lines follows the line that it names.
    first = #expected > 0 and first or first + 1
    if first < at or first - 1 > #lines then
      return nil
    end
    for i = at, first - 1 do
      result[#result + 1] = lines[i]
    end
    for i, line in ipairs(expected) do
      local actual = lines[first + i - 1]
      if not actual or actual:gsub('\r$', '') ~= line then
        return nil
      end
    end
    for _, line in ipairs(replacement) do
      result[#result + 1] = line
    end
    at = first + #expected
  end
  for i = at, #lines do
    result[#result + 1] = lines[i]
  end
  return result
end

return M
