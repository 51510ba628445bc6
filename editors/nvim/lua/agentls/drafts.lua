-- Keeps unsent prompts in files, so that they survive `:qa!`, a crash of Neovim, and `:bwipeout` of the prompt buffer.
--
-- Each file belongs to one session, and names the process that writes it. A draft returns to its session. A session
-- without messages takes over the newest draft of its folder whose Neovim has ended. This module must not know what a
-- prompt buffer looks like (prompt.lua).

local M = {}

---@class agentls.Draft
---@field session string
---@field cwd? string The folder of the session.
---@field text string
---@field pid integer The Neovim that wrote it.
---@field at integer When, in seconds since the Unix epoch.
---@field has_no_session? boolean Whether the session of the text could not be created.

---Drafts that are older are removed, in seconds.
local MAX_AGE_S = 90 * 24 * 3600

---Distinguishes texts without a session from each other.
local serial = 0

---The drafts that this Neovim wrote, by session, to skip a write without a change.
---@type table<string, string>
local written = {}

local function get_folder()
  return vim.fn.stdpath('state') .. '/agentls/drafts'
end

---@param session_id string
local function get_path(session_id)
  return ('%s/%s.json'):format(get_folder(), session_id:gsub('[^%w_-]', '_'))
end

---@param path string
---@return agentls.Draft?
local function read_draft(path)
  local file = io.open(path, 'rb')
  local content = file and file:read('*a')
  if file then
    file:close()
  end
  local is_valid, draft = pcall(vim.json.decode, content or '')
  return is_valid and type(draft) == 'table' and type(draft.text) == 'string' and draft or nil
end

---@param path string
---@param draft agentls.Draft
local function write_draft(path, draft)
  -- 448 is 0700 and 384 is 0600: a prompt is private.
  vim.fn.mkdir(get_folder(), 'p', 448)
  local temporary_path = ('%s.%d'):format(path, draft.pid)
  local handle = vim.uv.fs_open(temporary_path, 'w', 384)
  if handle then
    vim.uv.fs_write(handle, vim.json.encode(draft))
    vim.uv.fs_close(handle)
    vim.uv.fs_rename(temporary_path, path)
  end
end

---@param draft agentls.Draft
local function keep_draft(draft)
  draft.pid, draft.at = vim.fn.getpid(), os.time()
  pcall(write_draft, get_path(draft.session), draft)
end

---Keeps the unsent text of a session. An empty text removes what was kept.
---@param session_id string
---@param cwd? string
---@param text string
function M.keep(session_id, cwd, text)
  if written[session_id] == text then
    return
  end
  written[session_id] = text
  if vim.trim(text) == '' then
    vim.uv.fs_unlink(get_path(session_id))
  else
    keep_draft({ session = session_id, cwd = cwd, text = text })
  end
end

---Keeps a text whose session could not be created. The next session of the folder gets it.
---@param cwd string
---@param text string
function M.keep_without_session(cwd, text)
  serial = serial + 1
  local id = ('none-%d-%d'):format(vim.fn.getpid(), serial)
  keep_draft({ session = id, cwd = cwd, text = text, has_no_session = true })
end

---Whether another running Neovim owns a draft.
---@param draft agentls.Draft
local function is_owned(draft)
  return not draft.has_no_session and (draft.pid == vim.fn.getpid() or vim.uv.kill(draft.pid, 0) == 0)
end

---Lists the drafts of a folder that no Neovim owns, the newest first. Removes old ones.
---@param cwd? string
---@return agentls.Draft[]
local function list_orphaned(cwd)
  local found = {}
  for name in vim.fs.dir(get_folder()) do
    local path = get_folder() .. '/' .. name
    local draft = vim.endswith(name, '.json') and read_draft(path)
    if draft and os.time() - draft.at > MAX_AGE_S then
      vim.uv.fs_unlink(path)
    elseif draft and draft.cwd == cwd and not is_owned(draft) then
      table.insert(found, draft)
    end
  end
  table.sort(found, function(a, b)
    return a.at > b.at
  end)
  return found
end

---Takes the draft of a session: its own, or for a session without messages the newest one of its folder, with each text
---whose session could not be created.
---@param session_id string
---@param cwd? string
---@param is_blank boolean Whether the session has no messages.
---@return string? text
function M.take(session_id, cwd, is_blank)
  local own = read_draft(get_path(session_id))
  local texts = { own and own.text }
  local has_newest = own ~= nil
  for _, draft in ipairs(is_blank and list_orphaned(cwd) or {}) do
    if draft.has_no_session or not has_newest then
      has_newest = has_newest or not draft.has_no_session
      table.insert(texts, draft.text)
      vim.uv.fs_unlink(get_path(draft.session))
    end
  end
  return #texts > 0 and table.concat(texts, '\n\n') or nil
end

return M
