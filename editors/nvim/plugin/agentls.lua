-- Creates the commands. The first use of one loads everything else.

if vim.g.loaded_agentls then
  return
end
vim.g.loaded_agentls = true

if vim.fn.has('nvim-0.10') == 0 then
  vim.api.nvim_create_user_command('Agent', function()
    vim.notify('agentls requires Neovim 0.10 or newer', vim.log.levels.ERROR)
  end, {})
  return
end

require('agentls.commands').create_commands()
