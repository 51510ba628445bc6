-- Runs the plugin's tests in this Neovim, and drives others with the real server:
--
--   nvim --headless -u NONE -i NONE -n -l editors/nvim/tests/run.lua [words]
--
-- words: run only tests whose name contains them. AGENTLS: the server; default: target/debug/agentls.
-- AGENTLS_TEST_PART: run only a part of the files, such as `2/3`.

local support = dofile(vim.fs.dirname(debug.getinfo(1, 'S').source:sub(2)) .. '/support.lua')
package.loaded['tests.support'] = support
vim.opt.runtimepath:prepend(support.plugin)
-- Otherwise Neovim's own messages appear between ours.
vim.o.showmode, vim.o.report = false, 9999

local only = _G.arg[1]
local passed, failed = 0, 0

local function print_line(line)
  io.stdout:write(line .. '\n')
  io.stdout:flush()
end

---@param name string
---@param body fun()
local function test(name, body)
  if only and not name:find(only, 1, true) then
    return
  end
  local started_at = vim.uv.hrtime()
  local ok, error_message = xpcall(body, debug.traceback)
  if ok then
    passed = passed + 1
    print_line(('ok   %s (%.1f s)'):format(name, (vim.uv.hrtime() - started_at) / 1e9))
  else
    failed = failed + 1
    print_line(('FAIL %s\n%s'):format(name, error_message))
  end
end

---Runs a test with a separate Neovim, which must leave no process behind.
---@param options? table
local function drive(name, options, body)
  test(name, function()
    local nvim = support.neovim(options)
    local ok, error_message = xpcall(body, debug.traceback, nvim)
    if ok then
      return nvim.quit()
    end
    nvim.kill()
    error(error_message, 0)
  end)
end

local home = support.make_world()
local FILES = {
  {
    'state',
    'patch',
    'config',
    'help',
    'view',
    'approval_card',
    'render',
    'document_sync',
    'editor',
    'buffer_edits',
  },
  {
    'session',
    'unsent_text',
    'approval',
    'typing',
    'turn_actions',
    'queue',
    'subagents',
    'edge_cases',
    'server_lifecycle',
    'picker',
    'mcp',
    'language',
    'hanging_server',
    'window',
    'screen',
    'scroll',
    'notifications',
    'notices_and_inputs',
    'dialog',
    'prompt_window',
  },
}
local part, parts = (vim.env.AGENTLS_TEST_PART or '1/1'):match('^(%d+)/(%d+)$')
for index, name in ipairs(vim.iter(FILES):flatten():totable()) do
  if index % tonumber(parts) == part % parts then
    dofile(support.tests_dir .. '/' .. name .. '_test.lua')(test, drive)
  end
end
vim.fn.delete(home, 'rf')
print_line(('%d passed, %d failed'):format(passed, failed))
os.exit(failed == 0 and passed > 0 and 0 or 1)
