-- Owns the folds of each chat window. They are manual, because Neovim does not evaluate 'foldexpr' in Insert mode.
--
-- It must not know items: a block lists its folds, and the fold of a call contains those of its sub-agents. Neovim
-- moves folds when lines above them change. So only the folds of redrawn entries are rebuilt, and opened ones stay
-- open.

local api = vim.api
local M = {}

---@class agentls.Fold
---@field first integer From 0.
---@field last integer
---@field level integer
---@field key string Identifies a fold of an entry, wherever it is in the buffer.

---@class agentls.Folds
---@field buffer integer
---@field initialized table<integer, boolean> The windows that have all folds.

---@param buffer integer
---@return agentls.Folds
function M.new(buffer)
  return { buffer = buffer, initialized = {} }
end

---Returns the windows that have folds and still show the chat.
---@param folds agentls.Folds
---@return integer[]
local function find_valid_windows(folds)
  for window in pairs(folds.initialized) do
    if not api.nvim_win_is_valid(window) or api.nvim_win_get_buf(window) ~= folds.buffer then
      folds.initialized[window] = nil
    end
  end
  return vim.tbl_keys(folds.initialized)
end

---Collects the folds of a range of entries. The first entry must not belong to a sub-agent.
---@param entries agentls.ChatEntry[]
---@param rows integer[]
---@param from integer
---@param to integer
---@return agentls.Fold[]
local function collect_folds(entries, rows, from, to)
  local folds, open = {}, {} ---@type agentls.Fold[], table<integer, agentls.Fold>
  for i = from, to do
    local entry, row = entries[i], rows[i]
    local block, last = entry.block, rows[i] + #entry.block.lines - 1
    if last >= row then
      for level, fold in pairs(open) do
        if level > block.level then
          open[level] = nil
        else
          fold.last = last
        end
      end
      local fold_level = block.level + 1
      for number, lines in ipairs(block.folds) do
        local fold = {
          first = row + lines[1],
          last = row + lines[2],
          level = fold_level,
          key = ('%s %d'):format(entry.key, number),
        }
        -- The entries of its sub-agents follow, and belong to this fold.
        open[fold_level] = fold.last == last and fold or nil
        table.insert(folds, fold)
      end
    end
  end
  return folds
end

---Widens a range of entries until it contains the call of each sub-agent entry in it.
---@param entries agentls.ChatEntry[]
---@param from integer
---@param to integer
---@return integer from
---@return integer to
function M.widen_range(entries, from, to)
  while from > 1 and (not entries[from] or entries[from].block.level > 0) do
    from = from - 1
  end
  while entries[to + 1] and entries[to + 1].block.level > 0 do
    to = to + 1
  end
  return from, to
end

---Finds the folds that the user opened, by window. Call this before lines change.
---@param folds agentls.Folds
---@param entries agentls.ChatEntry[]
---@param rows integer[]
---@param from integer
---@param to integer
---@return table<integer, table<string, boolean>>? opened nil if the range has no folds.
function M.find_opened(folds, entries, rows, from, to)
  local list, opened_keys = collect_folds(entries, rows, from, to), {}
  if #list == 0 then
    return nil
  end
  for _, window in ipairs(find_valid_windows(folds)) do
    local keys = {}
    api.nvim_win_call(window, function()
      for _, fold in ipairs(list) do
        keys[fold.key] = vim.fn.foldclosed(fold.first + 1) == -1 or nil
      end
    end)
    opened_keys[window] = keys
  end
  return opened_keys
end

local function run_quietly(command)
  pcall(vim.cmd --[[@as fun(command: string)]], 'keepjumps ' .. command)
end

---Replaces the folds of a window by those in `list`.
---@param window integer
---@param list agentls.Fold[] Outer folds first.
---@param opened_keys table<string, boolean>
---@param range? [integer, integer] The rows whose folds to replace. Default: all.
local function replace_folds(window, list, opened_keys, range)
  if vim.wo[window].foldmethod ~= 'manual' then
    return
  end
  api.nvim_win_call(window, function()
    local saved_view = vim.fn.winsaveview()
    if not range then
      run_quietly('normal! zE')
    else
      for row = range[1], range[2] do
        for _ = 1, vim.fn.foldlevel(row + 1) do
          run_quietly(('%dnormal! zD'):format(row + 1))
        end
      end
    end
    local inner_first = vim.list_slice(list)
    table.sort(inner_first, function(a, b)
      return a.level > b.level
    end)
    for _, fold in ipairs(inner_first) do
      run_quietly(('%d,%dfold'):format(fold.first + 1, fold.last + 1))
    end
    for _, fold in ipairs(list) do
      if opened_keys[fold.key] then
        run_quietly(('%dfoldopen'):format(fold.first + 1))
      end
    end
    vim.fn.winrestview(saved_view)
  end)
end

---Rebuilds the folds of redrawn entries in the windows that have folds.
---@param folds agentls.Folds
---@param opened_keys? table<integer, table<string, boolean>>
---@param entries agentls.ChatEntry[]
---@param rows integer[]
---@param from integer
---@param to integer
function M.rebuild_range(folds, opened_keys, entries, rows, from, to)
  local list = collect_folds(entries, rows, from, to)
  if #list == 0 and not opened_keys then
    return
  end
  local first = rows[from] or 0
  local last = entries[to] and rows[to] + #entries[to].block.lines - 1 or first
  for _, window in ipairs(find_valid_windows(folds)) do
    replace_folds(window, list, opened_keys and opened_keys[window] or {}, { first, last })
  end
end

---Creates all folds in the windows that have none yet.
---@param folds agentls.Folds
---@param windows integer[]
---@param entries agentls.ChatEntry[]
---@param rows integer[]
function M.initialize_windows(folds, windows, entries, rows)
  local list
  for _, window in ipairs(windows) do
    if not folds.initialized[window] then
      list = list or collect_folds(entries, rows, 1, #entries)
      folds.initialized[window] = true
      replace_folds(window, list, {})
    end
  end
end

return M
