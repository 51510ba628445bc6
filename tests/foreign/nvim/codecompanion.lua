-- Drives codecompanion.nvim, configured as docs/editors/codecompanion.md says, with `agentls acp`. The model is a cassette:
-- `nvim --headless -u NONE -i NONE -n -l tests/foreign/nvim/codecompanion.lua`.
--
-- AGENTLS_CODECOMPANION, AGENTLS_PLENARY: the folders of the plugin and of plenary.nvim, which it needs.
-- AGENTLS: the binary, if it is not target/debug/agentls.

local support = dofile(vim.fs.dirname(debug.getinfo(1, 'S').source:sub(2)) .. '/support.lua')
local wait = support.wait

local home = support.make_world()
local workspace = home .. '/work'
vim.fn.mkdir(workspace)
vim.fn.chdir(workspace)
local mark = ('foreign-%s.'):format(vim.fs.basename(home))
vim.env.AGENTLS_TEST_MARK = mark
for _, variable in ipairs({ 'AGENTLS_PLENARY', 'AGENTLS_CODECOMPANION' }) do
  vim.opt.runtimepath:prepend(assert(os.getenv(variable), variable .. ' is not set'))
end
-- The documentation expects the server in the path.
vim.fn.mkdir(home .. '/bin')
assert(vim.uv.fs_symlink(support.binary, home .. '/bin/agentls'))
vim.env.PATH = home .. '/bin:' .. vim.env.PATH

local warnings = {}
vim.notify = function(text, level)
  if (level or 0) >= vim.log.levels.WARN then
    table.insert(warnings, text)
  end
end
vim.cmd.runtime('plugin/codecompanion.lua')
local guide = assert(support.read(support.repository .. '/docs/editors/codecompanion.md'))
assert(load(assert(guide:match('```lua\n(.-)\n```'), 'the guide has no code')))()

vim.cmd('CodeCompanionChat')
local chat = assert(require('codecompanion').last_chat())

local function screen()
  return table.concat(vim.api.nvim_buf_get_lines(chat.bufnr, 0, -1, false), '\n')
end

local function wait_for_text(text)
  wait(text, function()
    return screen():find(text, 1, true)
  end)
end

local function press(keys)
  vim.api.nvim_feedkeys(vim.keycode(keys), 'x', false)
end

local function prompt(text)
  wait('the end of the last answer', function()
    return not chat.current_request and vim.bo[chat.bufnr].modifiable
  end)
  vim.api.nvim_set_current_buf(chat.bufnr)
  vim.api.nvim_buf_set_lines(chat.bufnr, -1, -1, false, { text })
  press('<CR>')
end

-- Counts the frames of the server that contain a text.
local function count_frames(text)
  local connection, found = chat.acp_connection, { count = 0 }
  local handle = connection.handle_rpc_message
  connection.handle_rpc_message = function(self, line)
    found.count = found.count + (line:find(text, 1, true) and 1 or 0)
    return handle(self, line)
  end
  return found
end

local function run()
  -- A prompt before that starts the server twice.
  wait('the connection', function()
    return chat.acp_connection and chat.acp_connection:is_ready()
  end)
  prompt('stream')
  wait_for_text('Grüße: one two three four five six seven eight nine ten.')

  prompt('write')
  wait_for_text('Proposed edits for `made.txt`')
  wait_for_text('+made by the agent')
  assert(not support.read(workspace .. '/made.txt'), 'the file was written without a permission')
  press(require('codecompanion.config').interactions.shared.keymaps.accept_change.modes.n)
  wait_for_text('Written.')
  assert(support.read(workspace .. '/made.txt') == 'made by the agent\n', support.read(workspace .. '/made.txt'))

  -- The plugin adds an empty line to the text of a file that is open.
  vim.fn.writefile({ 'hello', 'you' }, workspace .. '/open.txt')
  vim.cmd.split(workspace .. '/open.txt')
  local failures = count_frames('"status":"failed"')
  prompt('change')
  wait_for_text('Proposed edits for `open.txt`')
  press(require('codecompanion.config').interactions.shared.keymaps.accept_change.modes.n)
  wait_for_text('Changed.')
  assert(failures.count == 0, 'the edit counts as failed')
  assert(vim.startswith(support.read(workspace .. '/open.txt'), 'bye\nyou\n'), support.read(workspace .. '/open.txt'))

  -- The answer never ends, so its text is seen before its end.
  prompt('forever')
  wait_for_text('Once upon a time')
  assert(chat.current_request, 'the answer has ended')
  local cancels = count_frames('"stopReason":"cancelled"')
  press('q')
  wait('the cancel', function()
    return cancels.count > 0
  end)
  prompt('stream')
  wait('the second answer', function()
    return select(2, screen():gsub('nine ten%.', '')) == 2
  end)
  assert(#warnings == 0, vim.inspect(warnings))
  chat:close()
end

local ok, message = xpcall(run, debug.traceback)
if not ok then
  message = message .. '\n' .. screen() .. '\n' .. vim.inspect(warnings)
end
-- Leaving Neovim ends the server.
vim.api.nvim_exec_autocmds('VimLeavePre', {})
if ok then
  ok, message = pcall(support.nothing_left, mark)
end
for _, process in ipairs(ok and {} or support.marked(mark)) do
  vim.uv.kill(process.pid, 'sigkill')
end
vim.fn.chdir('/')
vim.fn.delete(home, 'rf')
io.stdout:write((ok and 'codecompanion.nvim works' or message) .. '\n')
os.exit(ok and 0 or 1)
