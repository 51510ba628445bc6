-- The size of the prompt window, and the history of prompts. It must not send a prompt.

local buffers = require('agentls.buffers')
local config = require('agentls.config')
local format = require('agentls.format')
local sessions = require('agentls.sessions')

local api = vim.api
local M = {}

---The height that each window was last given. A window with another height was resized by the user.
---@type table<integer, integer>
local given_heights = {}

---Fits the windows of a prompt to its text, up to `prompt.max_height`.
---@param buffer integer
function M.fit_height(buffer)
  local options = config.current.prompt
  for _, window in ipairs(buffers.find_windows(buffer)) do
    local is_split = api.nvim_win_get_config(window).relative == ''
    local height = api.nvim_win_get_height(window)
    if is_split and height == (given_heights[window] or options.height) then
      -- The bar takes a line.
      local wanted = api.nvim_win_text_height(window, {}).all + 1
      local max = math.max(options.height, math.min(options.max_height, math.floor(vim.o.lines / 2)))
      wanted = math.max(options.height, math.min(wanted, max))
      if wanted ~= height then
        pcall(api.nvim_win_set_height, window, wanted)
        given_heights[window] = api.nvim_win_get_height(window)
        -- The beginning is visible again.
        api.nvim_win_call(window, function()
          vim.cmd('normal! zb')
        end)
      end
    end
  end
end

---@class agentls.HistoryPlace
---@field index integer Which prompt the buffer contains; one more than there are: the draft.
---@field draft string What the user had typed.

---@type table<integer, agentls.HistoryPlace>
local places = {}

---Drafts that a prompt of the history replaced, by buffer.
---@type table<integer, string[]>
local replaced_drafts = {}

---Lists the prompts of all loaded sessions, those of this one last, each once.
---@param session agentls.Session
---@return string[]
local function list_prompts(session)
  local texts = {}
  local function add_prompts(of)
    for _, item in ipairs(of.state.items) do
      if item.kind == 'user' and vim.trim(item.text) ~= '' then
        table.insert(texts, item.text)
      end
    end
  end
  for _, other in pairs(sessions.all) do
    if other ~= session and other.state.cwd == session.state.cwd then
      add_prompts(other)
    end
  end
  add_prompts(session)
  local unique, is_known = {}, {}
  for i = #texts, 1, -1 do
    if not is_known[texts[i]] then
      is_known[texts[i]] = true
      table.insert(unique, 1, texts[i])
    end
  end
  return unique
end

---Puts an earlier or a later prompt into the buffer. What the user has typed comes back after the last one.
---@param buffer integer
---@param session agentls.Session
---@param step -1|1
function M.go_through_history(buffer, session, step)
  local texts = vim.list_extend(list_prompts(session), replaced_drafts[buffer] or {})
  local text = table.concat(api.nvim_buf_get_lines(buffer, 0, -1, false), '\n')
  local place = places[buffer]
  if not place or texts[place.index] ~= text then
    local old_draft = place and place.draft or ''
    if old_draft ~= '' and old_draft ~= text then
      replaced_drafts[buffer] = vim.list_extend(replaced_drafts[buffer] or {}, { old_draft })
      table.insert(texts, old_draft)
    end
    place = { index = #texts + 1, draft = text }
  end
  local index = place.index + step
  if index < 1 or index > #texts + 1 then
    return
  end
  places[buffer] = { index = index, draft = place.draft }
  local lines = format.split_lines(texts[index] or place.draft)
  api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  local row = step < 0 and 1 or math.max(1, #lines)
  api.nvim_win_set_cursor(0, { row, #(lines[row] or '') })
end

return M
