-- `:checkhealth agentls`: reports on Neovim, the options, the server, and the provider. It must not start a server.

local M = {}

local function read_version(cmd)
  local ok, result = pcall(function()
    return vim
      .system(vim.list_extend(vim.list_slice(cmd), { '--version' }), { text = true, timeout = 5000 })
      :wait()
  end)
  if not ok or result.code ~= 0 then
    return nil, ok and vim.trim(result.stderr or '') or tostring(result)
  end
  return vim.trim(result.stdout)
end

local function check_server()
  vim.health.start('server')
  local client = require('agentls.client')
  local cmd, candidates = client.find_command()
  if not cmd then
    vim.health.error('the server was not found', {
      'searched: ' .. table.concat(candidates, ', '),
      'install it: run `cargo install --path .` in the repository of agentls',
      'or set its path: require("agentls").setup({ cmd = { "/path/to/agentls" } })',
    })
    return
  end
  local version, failure = read_version(cmd)
  if not version then
    vim.health.error(('`%s --version` failed: %s'):format(cmd[1], failure))
    return
  end
  vim.health.ok(('%s: %s'):format(cmd[1], version))
  local agent = client.get_agent_capability()
  local protocol = require('agentls.protocol').version
  if agent then
    vim.health.ok(
      ('running, protocol %d.%d (this plugin: %d.%d)'):format(
        agent.protocolVersion.major,
        agent.protocolVersion.minor,
        protocol.major,
        protocol.minor
      )
    )
    vim.health.info('features: ' .. (#agent.features > 0 and table.concat(agent.features, ', ') or 'none'))
  else
    vim.health.info('not running; the first command starts it')
  end
  for _, folder in ipairs(client.get_workspace_folders()) do
    vim.health.info('folder: ' .. folder)
  end
end

local function check_provider()
  local cmd = require('agentls.client').find_command()
  if not cmd then
    return
  end
  vim.health.start('provider')
  local ok, result = pcall(function()
    return vim.system({ cmd[1], 'doctor' }, { text = true, timeout = 20000 }):wait()
  end)
  if not ok then
    vim.health.warn('`agentls doctor` could not be run: ' .. tostring(result))
    return
  end
  -- `doctor` starts each line with a mark for its severity.
  local reports =
    { ['✓'] = vim.health.ok, ['!'] = vim.health.warn, ['✗'] = vim.health.error, ['·'] = vim.health.info }
  for line in vim.gsplit(vim.trim(result.stdout .. result.stderr), '\n') do
    -- Remove terminal colors.
    line = line:gsub('\27%[[%d;]*m', '')
    local mark, text = line:match('^(%S+) (.*)$')
    if reports[mark] then
      reports[mark](text)
    elseif line ~= '' then
      vim.health.info(line)
    end
  end
end

---Reports the named agents, slash commands, and instructions. Only while a server runs.
local function check_files()
  local client = require('agentls.client')
  if not client.is_ready() then
    return
  end
  vim.health.start('agents, commands, and instructions')
  local session = require('agentls.sessions').get_current()
  local params = { sessionId = session and session.id }
  local function fetch_list(method, field)
    local result = client.supports_method(method) and client.request_sync(method, params, 5000)
    return result and result[field] or {}
  end
  local agents = vim.tbl_map(function(agent)
    return agent.name .. (agent.current and session and ' (in this session)' or '')
  end, fetch_list('agent/listAgents', 'agents'))
  if #agents > 0 then
    vim.health.info('agents: ' .. table.concat(agents, ', '))
  end
  local usable = {}
  for _, command in ipairs(fetch_list('agent/listCommands', 'commands')) do
    if command.problem then
      vim.health.warn(('/%s is not usable: %s: %s'):format(command.name, command.path, command.problem))
    else
      table.insert(usable, '/' .. command.name)
    end
  end
  vim.health.info('slash commands: ' .. (#usable > 0 and table.concat(usable, ', ') or 'none'))
  local files = session and session.state.instructions
  for _, file in ipairs(files or {}) do
    if file.problem then
      vim.health.warn(('%s: %s'):format(file.path, file.problem))
    end
  end
  local summary = files and require('agentls.render.turn').summarize_instructions(files)
    or 'known after the first turn of a session'
  vim.health.info('instructions: ' .. summary)
end

function M.check()
  vim.health.start('Neovim')
  if vim.fn.has('nvim-0.10') == 1 then
    vim.health.ok(tostring(vim.version()))
  else
    vim.health.error('Neovim 0.10 or newer is needed')
    return
  end
  if pcall(vim.treesitter.language.inspect, 'markdown') then
    vim.health.ok('the Markdown parser is installed')
  else
    vim.health.warn('no Markdown parser: regular expressions highlight the chat')
  end
  vim.health.start('options')
  local problems = require('agentls.config').problems
  for _, problem in ipairs(problems) do
    vim.health.warn(problem)
  end
  if require('agentls.config').current.trusted then
    vim.health.warn('`trusted = true` trusts every folder that you open, without asking', {
      'remove it, and trust a folder with :AgentTrust instead',
    })
  end
  if #problems == 0 then
    vim.health.ok('the options of setup() are valid')
  end
  check_server()
  check_files()
  check_provider()
  vim.health.start('log')
  local log = require('agentls.commands').find_log_file()
  if vim.fn.filereadable(log) == 1 then
    vim.health.ok(log)
  else
    vim.health.info('none yet: ' .. log)
  end
  local view = package.loaded['agentls.view']
  if view and view.longest_ms > 0 then
    vim.health.info(('the slowest drawing of the chat took %.1f ms'):format(view.longest_ms))
  end
end

return M
