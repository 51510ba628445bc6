-- The prompts that wait for the turn's end: one is added, and those that wait are edited, taken out, sent now.

local notice = require('agentls.notice')
local scratch = require('agentls.scratch')
local sessions = require('agentls.sessions')
local text = require('agentls.text')

local M = {}

local function say(words, level)
  notice.tell(text.reveal(words), level or vim.log.levels.INFO)
end

---@param session agentls.Session
---@param action agentls.QueueAction
---@param more? table
---@param callback? fun(result: agentls.QueueResult)
local function act(session, action, more, callback)
  local params = vim.tbl_extend('force', { sessionId = session.id, action = action }, more or {})
  sessions.ask('agent/queue', params, callback)
end

---Lets a prompt wait for the turn's end. Where nothing runs and nothing is held, it starts a turn at once.
---@param session agentls.Session
---@param prompt agentls.PromptContent
function M.add(session, prompt)
  if not sessions.is_ours(session) then
    return sessions.watcher.give_back(session, sessions.words_of(prompt))
  end
  sessions.use(session)
  sessions.queue(session, { action = 'add', prompt = prompt })
end

---What is a reference of a stored prompt, as one that is sent.
---@param session agentls.Session
---@param block table
---@return agentls.PromptBlock
local function reference(session, block)
  local path = vim.startswith(block.path, '/') and block.path
    or (session.state.cwd or '') .. '/' .. block.path
  if not vim.uv.fs_stat(path) then
    return { type = 'text', text = ('%s:\n%s'):format(block.path, block.text) }
  end
  local sent = { type = 'reference', uri = vim.uri_from_fname(path) }
  if block.startLine then
    sent.range = {
      start = { line = block.startLine - 1, character = 0 },
      ['end'] = { line = block.endLine or block.startLine, character = 0 },
    }
  end
  return sent
end

---A stored prompt with other words, as it is sent.
---@param session agentls.Session
---@param content agentls.MessageBlock[]
---@param words string
---@return agentls.PromptContent
function M.edited(session, content, words)
  local blocks = { { type = 'text', text = words } }
  for _, block in ipairs(content) do
    if block.type == 'reference' then
      table.insert(blocks, reference(session, block))
    elseif block.type == 'image' and block.data then
      table.insert(blocks, { type = 'image', mediaType = block.mediaType, data = block.data })
    end
  end
  return #blocks == 1 and words or blocks
end

---@param session agentls.Session
---@param prompt agentls.QueuedContent
local function edit(session, prompt)
  local told = ' a prompt that waits · :w changes it · :q leaves it as it is'
  local words = sessions.words_of(prompt.content)
  local lines = vim.split(words, '\n')
  scratch.write('queued/' .. prompt.promptId, 'markdown', lines, told, function(new)
    if vim.trim(new) == '' then
      say('an empty prompt cannot wait; :AgentQueue takes it out', vim.log.levels.WARN)
      return false
    end
    local content = M.edited(session, prompt.content, new)
    sessions.queue(session, { action = 'edit', promptId = prompt.promptId, prompt = content })
    return true
  end)
end

---@param session agentls.Session
---@param prompt agentls.QueuedContent
local function choose(session, prompt)
  local now = session.state.running and 'Say it now, to the running turn' or 'Send it now'
  local choices = { now, 'Edit it', 'Take it out' }
  local title = text.one_line(sessions.words_of(prompt.content), 60)
  vim.ui.select(choices, { prompt = title, kind = 'agentls.queue' }, function(choice)
    if choice == choices[1] then
      act(session, 'sendNow', { promptId = prompt.promptId })
    elseif choice == choices[2] then
      edit(session, prompt)
    elseif choice == choices[3] then
      act(session, 'remove', { promptId = prompt.promptId })
    end
  end)
end

---Lists what waits, and asks what to do with the one that is chosen.
---@param session agentls.Session
function M.list(session)
  act(session, 'list', nil, function(result)
    if #result.prompts == 0 then
      return say('no prompt waits; :AgentQueue {words} lets one wait for the end of the turn')
    end
    local list = vim.list_slice(result.prompts)
    if result.paused then
      table.insert(list, 1, { all = true })
    end
    vim.ui.select(list, {
      prompt = result.paused and 'Prompts that wait (held)' or 'Prompts that wait',
      kind = 'agentls.queue',
      format_item = function(prompt)
        return prompt.all and '▶ go on with them' or text.one_line(sessions.words_of(prompt.content), 80)
      end,
    }, function(prompt)
      if not prompt or not sessions.is_ours(session) then
        return
      elseif prompt.all then
        return act(session, 'sendNow')
      end
      choose(session, prompt)
    end)
  end)
end

return M
