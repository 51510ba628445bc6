-- Unified diffs of one file: taken apart, and applied to its lines in either direction. Pure: no editor.

local M = {}

---@class agentls.Hunk
---@field from integer The first line that it is about, from 1; where it has none, the line after which it stands.
---@field to integer The same in the text after the change.
---@field before string[] What stood there.
---@field after string[] What stands there then.

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

---The lines as they are on the other side of a diff; nil where they are not what the diff says they are.
---@param lines string[]
---@param diff string
---@param back? boolean From after the change to before it.
---@return string[]?
function M.apply_diff(lines, diff, back)
  local result, at = {}, 1
  for _, hunk in ipairs(M.parse_hunks(diff)) do
    local here = back and hunk.after or hunk.before
    local there = back and hunk.before or hunk.after
    local first = back and hunk.to or hunk.from
    if first == 0 and #lines > 0 then
      -- Line 0: there is none.
      return nil
    end
    -- One without lines stands after the line that it names.
    first = #here > 0 and first or first + 1
    if first < at or first - 1 > #lines then
      return nil
    end
    for i = at, first - 1 do
      result[#result + 1] = lines[i]
    end
    for i, line in ipairs(here) do
      local found = lines[first + i - 1]
      if not found or found:gsub('\r$', '') ~= line then
        return nil
      end
    end
    for _, line in ipairs(there) do
      result[#result + 1] = line
    end
    at = first + #here
  end
  for i = at, #lines do
    result[#result + 1] = lines[i]
  end
  return result
end

return M
