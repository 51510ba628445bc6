-- run.lua runs this in a separate Neovim. It starts a command of the agent, prints `running`, and then quits with
-- `:qa` or waits to be killed.

local support = dofile(vim.fs.dirname(debug.getinfo(1, 'S').source:sub(2)) .. '/support.lua')

vim.schedule(function()
  local ok, message = xpcall(function()
    local client = support.client(assert(os.getenv('WORKSPACE')))
    client.run_command(client.session())
  end, debug.traceback)
  io.stdout:write(ok and 'running\n' or message .. '\n')
  io.stdout:flush()
  if not ok then
    vim.cmd('cquit 1')
  elseif os.getenv('LEAVE') == 'qa' then
    vim.cmd('qa')
  end
end)
