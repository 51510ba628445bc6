-- Maps the keys of the plugin's own buffers, and shows them. It maps nothing anywhere else.

local config = require('agentls.config')
local protocol = require('agentls.protocol')

local M = {}

local function run_command(command)
  return function()
    vim.cmd(command)
  end
end

---What each key at an approval does.
local ANSWERS = {
  allow = 'allow the call under the cursor once',
  deny = 'deny it, with feedback',
  allowSession = 'allow it for this session, with the rule it shows',
  allowAlways = 'allow it from now on, with the rule it shows',
  edit = 'edit its arguments, then allow it',
  diff = 'show the diff of the tool call, or of the turn',
}

---Each other key of the chat: its option, its description, its function.
local CHAT = {
  { 'prompt', 'write a prompt', run_command('AgentPrompt') },
  {
    'open',
    'open the full output of the tool call, or the file in the line',
    function()
      if not require('agentls.turn_actions').open_file_at_cursor() then
        require('agentls.approval').show_output()
      end
    end,
  },
  {
    'file',
    'open the file of the tool call, or the one named under the cursor',
    function()
      require('agentls.turn_actions').open_file_of_card()
    end,
  },
  {
    'answer',
    'answer a limit or a question, else open or close the fold',
    function()
      require('agentls.approval').answer_or_toggle_fold(config.current.keys.answer)
    end,
  },
  { 'revert', 'revert the changes of this and later turns', run_command('AgentRevert') },
  { 'redo', 'reapply reverted changes', run_command('AgentRedo') },
  { 'fork', 'fork the session at this turn', run_command('AgentFork') },
  { 'queue', 'list the queued prompts', run_command('AgentQueue') },
  { 'cancel', 'cancel the turn', run_command('AgentCancel') },
  { 'resume', 'resume an interrupted turn', run_command('AgentResume') },
  {
    'next',
    'go to the next prompt',
    function()
      require('agentls.view').jump_to_prompt(1)
    end,
  },
  {
    'previous',
    'go to the previous prompt',
    function()
      require('agentls.view').jump_to_prompt(-1)
    end,
  },
  {
    'earlier',
    'load earlier events',
    function()
      local sessions = require('agentls.sessions')
      local session = sessions.get_current()
      if session then
        sessions.load_earlier_page(session)
      end
    end,
  },
  { 'close', 'close the chat', run_command('Agent') },
  {
    'help',
    'show these keys',
    function()
      M.show_help()
    end,
  },
}

local function map_key(buffer, mode, key, text, action)
  if key then
    vim.keymap.set(
      mode,
      key,
      action,
      { buffer = buffer, nowait = true, silent = true, desc = 'agentls: ' .. text }
    )
  end
end

---Maps a key that answers while a question is open. Otherwise it stays Vim's own key.
local function map_answer_key(buffer, key, action)
  if key then
    vim.keymap.set('n', key, function()
      return require('agentls.approval').resolve_key(action, key)
    end, {
      buffer = buffer,
      nowait = true,
      silent = true,
      expr = true,
      desc = 'agentls: ' .. ANSWERS[action],
    })
  end
end

---@param buffer integer
function M.map_chat_keys(buffer)
  local keys = config.current.keys
  if not keys then
    return
  end
  for _, entry in ipairs(CHAT) do
    map_key(buffer, 'n', keys[entry[1]], entry[2], entry[3])
  end
  for _, entry in ipairs(protocol.approval_keys) do
    local key = keys[config.APPROVAL_KEY_OPTIONS[entry.action]]
    if entry.action == 'diff' then
      map_key(buffer, 'n', key, ANSWERS.diff, function()
        require('agentls.approval').run_key_action('diff')
      end)
    else
      map_answer_key(buffer, key, entry.action)
    end
  end
end

---Maps a chord of the prompt that concerns the open question. Otherwise it stays Vim's own key.
---@param buffer integer
---@param key string|false
---@param text string
---@param call string What to run.
local function map_question_chord(buffer, key, text, call)
  if key then
    vim.keymap.set({ 'n', 'i' }, key, function()
      local is_vims = vim.fn.pumvisible() == 1 or not require('agentls.questions').has_open_question()
      return is_vims and key or ('<Cmd>lua %s<CR>'):format(call)
    end, { buffer = buffer, expr = true, nowait = true, silent = true, desc = 'agentls: ' .. text })
  end
end

local CHORDS = {
  prompt_approve = 'allow the open call once, or answer the open question',
  prompt_question = 'go to the card of the open question',
  prompt_previous = 'in the first line: the previous prompt',
  prompt_next = 'in the last line: the next prompt',
}

---Maps a key that goes through the history of prompts at the edge of the text. Elsewhere it stays Vim's own key.
---@param buffer integer
---@param key string|false
---@param text string
---@param step -1|1
local function map_history_key(buffer, key, text, step)
  if key then
    vim.keymap.set({ 'n', 'i' }, key, function()
      local edge = step < 0 and 1 or vim.api.nvim_buf_line_count(buffer)
      if vim.fn.pumvisible() == 1 or vim.fn.line('.') ~= edge then
        return key
      end
      return ('<Cmd>lua require("agentls.prompt").go_through_history(%d, %d)<CR>'):format(buffer, step)
    end, { buffer = buffer, expr = true, silent = true, desc = 'agentls: ' .. text })
  end
end

---Each key of the prompt: its option, its modes, its description.
local PROMPT = {
  { 'prompt_send', 'n', 'send', run_command('AgentSend') },
  { 'prompt_send_insert', 'i', 'send, in Insert mode', run_command('AgentSend') },
  { 'prompt_queue', { 'n', 'i' }, 'queue until the turn ends', run_command('AgentSend!') },
}

---@param buffer integer
function M.map_prompt_keys(buffer)
  local keys = config.current.keys
  if not keys then
    return
  end
  for _, entry in ipairs(PROMPT) do
    map_key(buffer, entry[2], keys[entry[1]], entry[3], entry[4])
  end
  local answer = ('require("agentls.approval").answer_from_prompt(%q)'):format(
    (tostring(keys.prompt_approve):gsub('<', '<lt>'))
  )
  map_question_chord(buffer, keys.prompt_approve, CHORDS.prompt_approve, answer)
  local go = 'require("agentls.questions").go_to_card()'
  map_question_chord(buffer, keys.prompt_question, CHORDS.prompt_question, go)
  map_history_key(buffer, keys.prompt_previous, CHORDS.prompt_previous, -1)
  map_history_key(buffer, keys.prompt_next, CHORDS.prompt_next, 1)
  map_key(buffer, 'n', keys.cancel, 'cancel the turn', run_command('AgentCancel'))
  map_key(buffer, 'n', keys.close, 'close the chat', run_command('Agent'))
end

---Shows the keys in a floating window.
function M.show_help()
  require('agentls.notifications').dismiss_all()
  local keys = config.current.keys
  local lines = {}
  local function add_row(key, text)
    if key then
      table.insert(lines, ('  %-8s %s'):format(key, text))
    end
  end
  for _, entry in ipairs(protocol.approval_keys) do
    add_row(keys and keys[config.APPROVAL_KEY_OPTIONS[entry.action]], ANSWERS[entry.action])
  end
  table.insert(lines, '           Off a card, all but the last first show the oldest open question.')
  table.insert(lines, "           While no question is open, they are Vim's own keys.")
  for _, entry in ipairs(CHAT) do
    add_row(keys and keys[entry[1]], entry[2])
  end
  vim.list_extend(lines, { '', '  In the prompt window:' })
  for _, entry in ipairs(PROMPT) do
    add_row(keys and keys[entry[1]], entry[3])
  end
  for _, name in ipairs({ 'prompt_approve', 'prompt_question', 'prompt_previous', 'prompt_next' }) do
    add_row(keys and keys[name], CHORDS[name])
  end
  local width = 0
  for _, line in ipairs(lines) do
    width = math.max(width, vim.fn.strdisplaywidth(line) + 2)
  end
  local buffer = vim.api.nvim_create_buf(false, true)
  vim.bo[buffer].bufhidden = 'wipe'
  vim.api.nvim_buf_set_lines(buffer, 0, -1, false, lines)
  vim.bo[buffer].modifiable = false
  local window = vim.api.nvim_open_win(buffer, true, {
    relative = 'editor',
    row = math.max(0, math.floor((vim.o.lines - #lines) / 2) - 1),
    col = math.max(0, math.floor((vim.o.columns - width) / 2)),
    width = math.min(width, vim.o.columns),
    height = math.min(#lines, vim.o.lines - 4),
    style = 'minimal',
    border = 'rounded',
    title = ' agentls ',
  })
  vim.wo[window].cursorline = true
  for _, key in ipairs({ 'q', '<Esc>', keys and keys.help or 'g?' }) do
    vim.keymap.set('n', key, '<Cmd>close<CR>', { buffer = buffer, nowait = true })
  end
end

return M
