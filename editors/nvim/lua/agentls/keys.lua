-- Keys of the plugin's own buffers. None is mapped anywhere else.

local config = require('agentls.config')

local M = {}

local function run(command)
  return function()
    vim.cmd(command)
  end
end

local function approval(name, ...)
  local arguments = { ... }
  return function()
    require('agentls.approval')[name](unpack(arguments))
  end
end

---What each key of the chat does: its name in the configuration, its words, its function.
local CHAT = {
  { 'prompt', 'write a prompt', run('AgentPrompt') },
  { 'approve', 'allow what is asked, once', approval('approve', 'allow') },
  { 'approve_session', 'allow it for this session', approval('approve', 'allowSession') },
  { 'approve_always', 'allow it from now on', approval('approve', 'allowAlways') },
  { 'deny', 'deny it, with feedback', approval('deny') },
  { 'edit', 'edit its arguments, then allow it', approval('edit') },
  { 'diff', 'the diff of the tool call, or of the turn', run('AgentDiff') },
  {
    'open',
    'the whole output of the tool call; the file in a list of files',
    function()
      if not require('agentls.turns').open_file() then
        require('agentls.approval').output()
      end
    end,
  },
  {
    'answer',
    'answer a limit or a question; else open or close the fold',
    function()
      if not require('agentls.approval').answer() then
        pcall(vim.cmd --[[@as fun(c: string)]], 'normal! za')
      end
    end,
  },
  { 'revert', 'take back what this turn and later ones changed', run('AgentRevert') },
  { 'redo', 'make again what was taken back', run('AgentRedo') },
  { 'fork', 'fork the session at this turn', run('AgentFork') },
  { 'queue', 'the prompts that wait', run('AgentQueue') },
  { 'cancel', 'cancel the turn', run('AgentCancel') },
  { 'resume', 'go on with an interrupted turn', run('AgentResume') },
  {
    'next',
    'the next prompt',
    function()
      require('agentls.view').jump(1)
    end,
  },
  {
    'previous',
    'the previous prompt',
    function()
      require('agentls.view').jump(-1)
    end,
  },
  {
    'earlier',
    'load earlier events',
    function()
      local sessions = require('agentls.sessions')
      local session = sessions.current()
      if session then
        sessions.load_earlier(session)
      end
    end,
  },
  { 'close', 'close the chat', run('Agent') },
  {
    'help',
    'these keys',
    function()
      M.help()
    end,
  },
}

local function map(buffer, mode, key, words, action)
  if key then
    vim.keymap.set(
      mode,
      key,
      action,
      { buffer = buffer, nowait = true, silent = true, desc = 'agentls: ' .. words }
    )
  end
end

---@param buffer integer
function M.chat(buffer)
  local keys = config.current.keys
  if not keys then
    return
  end
  for _, entry in ipairs(CHAT) do
    map(buffer, 'n', keys[entry[1]], entry[2], entry[3])
  end
end

---@param buffer integer
function M.prompt(buffer)
  local keys = config.current.keys
  if not keys then
    return
  end
  map(buffer, 'n', keys.prompt_send, 'send', run('AgentSend'))
  map(buffer, 'i', keys.prompt_send_insert, 'send', run('AgentSend'))
  map(buffer, { 'n', 'i' }, keys.prompt_queue, 'let it wait for the end of the turn', run('AgentSend!'))
  map(buffer, 'n', keys.cancel, 'cancel the turn', run('AgentCancel'))
  map(buffer, 'n', keys.close, 'close the chat', run('Agent'))
end

---Shows the keys.
function M.help()
  local keys = config.current.keys
  local lines = {}
  for _, entry in ipairs(CHAT) do
    local key = keys and keys[entry[1]]
    if key then
      table.insert(lines, ('  %-8s %s'):format(key, entry[2]))
    end
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
