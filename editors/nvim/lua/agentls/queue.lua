-- Queued prompts: adds one, lists them, and edits, removes, or sends one. The server owns the queue.

local attention = require('agentls.attention')
local dialog = require('agentls.dialog')
local notifications = require('agentls.notifications')
local scratch = require('agentls.scratch')
local sessions = require('agentls.sessions')
local format = require('agentls.format')

local M = {}

local function notify(text, level)
  notifications.notify(format.reveal_hidden(text), level or vim.log.levels.INFO)
end

---@param session agentls.Session
---@param action agentls.QueueAction
---@param extra_params? table
---@param callback? fun(result: agentls.QueueResult)
local function send_action(session, action, extra_params, callback)
  local params = vim.tbl_extend('force', { sessionId = session.id, action = action }, extra_params or {})
  sessions.request('agent/queue', params, callback)
end

---Queues a prompt until the turn ends. If no turn runs and the queue is not paused, it starts a turn immediately.
---@param session agentls.Session
---@param prompt agentls.PromptContent
function M.add(session, prompt)
  if not sessions.ensure_writable(session) then
    return sessions.observer.restore_prompt(session, sessions.get_prompt_text(prompt))
  end
  sessions.set_current(session)
  sessions.update_queue(session, { action = 'add', prompt = prompt })
end

---Converts a reference of a stored prompt to a block that can be sent.
---@param session agentls.Session
---@param block table
---@return agentls.PromptBlock
local function build_reference(session, block)
  local path = vim.startswith(block.path, '/') and block.path
    or (session.state.cwd or '') .. '/' .. block.path
  if not vim.uv.fs_stat(path) then
    return { type = 'text', text = ('%s:\n%s'):format(block.path, block.text) }
  end
  local reference = { type = 'reference', uri = vim.uri_from_fname(path) }
  if block.startLine then
    reference.range = {
      start = { line = block.startLine - 1, character = 0 },
      ['end'] = { line = block.endLine or block.startLine, character = 0 },
    }
  end
  return reference
end

---Builds a prompt with new text and the attachments of a stored prompt.
---@param session agentls.Session
---@param content agentls.MessageBlock[]
---@param text string
---@return agentls.PromptContent
function M.build_edited_prompt(session, content, text)
  local blocks = { { type = 'text', text = text } }
  for _, block in ipairs(content) do
    -- The text of the prompt names what came from an MCP server.
    if block.type == 'reference' and block.kind ~= 'resource' and block.kind ~= 'prompt' then
      table.insert(blocks, build_reference(session, block))
    elseif block.type == 'image' and block.data then
      table.insert(blocks, { type = 'image', mediaType = block.mediaType, data = block.data })
    end
  end
  return #blocks == 1 and text or blocks
end

---@param session agentls.Session
---@param prompt agentls.QueuedContent
local function edit_prompt(session, prompt)
  local bar = ' queued prompt · :w saves · :q discards the edit'
  local text = sessions.get_prompt_text(prompt.content)
  local lines = vim.split(text, '\n')
  scratch.open_editor('queued/' .. prompt.promptId, 'markdown', lines, bar, function(new_text)
    if vim.trim(new_text) == '' then
      notify('the prompt is empty; remove it with :AgentQueue', vim.log.levels.WARN)
      return false
    end
    local content = M.build_edited_prompt(session, prompt.content, new_text)
    sessions.update_queue(session, { action = 'edit', promptId = prompt.promptId, prompt = content })
    return true
  end)
end

---@param session agentls.Session
---@param prompt agentls.QueuedContent
local function choose_action(session, prompt)
  local now = session.state.running and 'Send to the running turn' or 'Send now'
  local choices = { now, 'Edit', 'Remove' }
  local title = format.single_line(sessions.get_prompt_text(prompt.content), 60)
  dialog.select(choices, { prompt = title, kind = 'agentls.queue' }, function(choice)
    if choice == choices[1] then
      send_action(session, 'sendNow', { promptId = prompt.promptId })
    elseif choice == choices[2] then
      edit_prompt(session, prompt)
    elseif choice == choices[3] then
      send_action(session, 'remove', { promptId = prompt.promptId })
    end
  end)
end

---Lists the queued prompts, and asks what to do with the chosen one.
---@param session agentls.Session
function M.list_prompts(session)
  local choose = attention.guard(
    'the list of queued prompts is ready; open it with :AgentQueue',
    function(result)
      if #result.prompts == 0 then
        return notify('the queue is empty; add a prompt with :AgentQueue {text}')
      end
      local list = vim.list_slice(result.prompts)
      if result.paused then
        table.insert(list, 1, { all = true })
      end
      dialog.select(list, {
        prompt = result.paused and 'Queued prompts (paused)' or 'Queued prompts',
        kind = 'agentls.queue',
        format_item = function(prompt)
          return prompt.all and '▶ resume the queue'
            or format.single_line(sessions.get_prompt_text(prompt.content), 80)
        end,
      }, function(prompt)
        if not prompt or not sessions.ensure_writable(session) then
          return
        elseif prompt.all then
          return send_action(session, 'sendNow')
        end
        choose_action(session, prompt)
      end)
    end
  )
  send_action(session, 'list', nil, choose)
end

return M
