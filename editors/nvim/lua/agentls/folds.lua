-- Makes the folds of a chat: manual ones, since Neovim does not evaluate 'foldexpr' in Insert mode.
--
-- Owns the folds of each chat window. Knows nothing about items: a fold is what a block asks for, and lies within the
-- folds of the calls above it. Neovim moves the folds when lines change above them; only those of entries that were
-- drawn again are made again, and those that a person had opened stay open.

local api = vim.api
local M = {}

---@class agentls.Fold
---@field first integer From 0.
---@field last integer
---@field level integer
---@field key string The same for the same fold of the same entry, wherever it lies.

---What is known of the folds of a chat's windows.
---@class agentls.Folds
---@field buffer integer
---@field made table<integer, boolean> The windows that have folds for all rows.

---@param buffer integer
---@return agentls.Folds
function M.new(buffer)
  return { buffer = buffer, made = {} }
end

---The windows that have folds and still show the chat.
---@param folds agentls.Folds
---@return integer[]
local function windows_of(folds)
  for window in pairs(folds.made) do
    if not api.nvim_win_is_valid(window) or api.nvim_win_get_buf(window) ~= folds.buffer then
      folds.made[window] = nil
    end
  end
  return vim.tbl_keys(folds.made)
end

---The folds of some entries. The first must not lie under a call.
---@param entries agentls.Entry[]
---@param rows integer[]
---@param from integer
---@param to integer
---@return agentls.Fold[]
local function folds_of(entries, rows, from, to)
  local found, open = {}, {} ---@type agentls.Fold[], table<integer, agentls.Fold>
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
      local own = block.level + 1
      for number, lines in ipairs(block.folds) do
        local fold = {
          first = row + lines[1],
          last = row + lines[2],
          level = own,
          key = ('%s %d'):format(entry.key, number),
        }
        -- What its sub-agents did follows, and belongs to it.
        open[own] = fold.last == last and fold or nil
        table.insert(found, fold)
      end
    end
  end
  return found
end

---Widens a range of entries until nothing in it belongs to a call outside.
---@param entries agentls.Entry[]
---@param from integer
---@param to integer
---@return integer from
---@return integer to
function M.widened(entries, from, to)
  while from > 1 and (not entries[from] or entries[from].block.level > 0) do
    from = from - 1
  end
  while entries[to + 1] and entries[to + 1].block.level > 0 do
    to = to + 1
  end
  return from, to
end

---Which of the folds a person opened, in each window that has them: to be asked before lines change.
---@param folds agentls.Folds
---@param entries agentls.Entry[]
---@param rows integer[]
---@param from integer
---@param to integer
---@return table<integer, table<string, boolean>>? opened nil without any fold.
function M.opened(folds, entries, rows, from, to)
  local list, opened = folds_of(entries, rows, from, to), {}
  if #list == 0 then
    return nil
  end
  for _, window in ipairs(windows_of(folds)) do
    local keys = {}
    api.nvim_win_call(window, function()
      for _, fold in ipairs(list) do
        keys[fold.key] = vim.fn.foldclosed(fold.first + 1) == -1 or nil
      end
    end)
    opened[window] = keys
  end
  return opened
end

local function run(command)
  pcall(vim.cmd --[[@as fun(command: string)]], 'keepjumps ' .. command)
end

---Makes the folds of a window: those in `list`, in the place of all, or of those in some rows.
---@param window integer
---@param list agentls.Fold[] The outer ones before those in them.
---@param opened table<string, boolean>
---@param stale? [integer, integer] The rows; absent: all.
local function make(window, list, opened, stale)
  if vim.wo[window].foldmethod ~= 'manual' then
    return
  end
  api.nvim_win_call(window, function()
    local saved = vim.fn.winsaveview()
    if not stale then
      run('normal! zE')
    else
      for row = stale[1], stale[2] do
        for _ = 1, vim.fn.foldlevel(row + 1) do
          run(('%dnormal! zD'):format(row + 1))
        end
      end
    end
    local inner_first = vim.list_slice(list)
    table.sort(inner_first, function(a, b)
      return a.level > b.level
    end)
    for _, fold in ipairs(inner_first) do
      run(('%d,%dfold'):format(fold.first + 1, fold.last + 1))
    end
    for _, fold in ipairs(list) do
      if opened[fold.key] then
        run(('%dfoldopen'):format(fold.first + 1))
      end
    end
    vim.fn.winrestview(saved)
  end)
end

---Makes the folds of the entries that were drawn again, in the windows that had folds before.
---@param folds agentls.Folds
---@param opened? table<integer, table<string, boolean>>
---@param entries agentls.Entry[]
---@param rows integer[]
---@param from integer
---@param to integer
function M.renew(folds, opened, entries, rows, from, to)
  local list = folds_of(entries, rows, from, to)
  if #list == 0 and not opened then
    return
  end
  local first = rows[from] or 0
  local last = entries[to] and rows[to] + #entries[to].block.lines - 1 or first
  for _, window in ipairs(windows_of(folds)) do
    make(window, list, opened and opened[window] or {}, { first, last })
  end
end

---Makes all folds in the windows that have none yet.
---@param folds agentls.Folds
---@param windows integer[]
---@param entries agentls.Entry[]
---@param rows integer[]
function M.complete(folds, windows, entries, rows)
  local list
  for _, window in ipairs(windows) do
    if not folds.made[window] then
      list = list or folds_of(entries, rows, 1, #entries)
      folds.made[window] = true
      make(window, list, {})
    end
  end
end

return M
