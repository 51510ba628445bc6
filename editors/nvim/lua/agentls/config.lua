-- The options of `setup()`: defaults, types, and validation. It must not know what the options control.

local notifications = require('agentls.notifications')
local protocol = require('agentls.protocol')
local format = require('agentls.format')

local M = {}

---Maps an approval action of the protocol to its option in `keys`.
---@type table<string, string>
M.APPROVAL_KEY_OPTIONS = {
  allow = 'approve',
  allowSession = 'approve_session',
  allowAlways = 'approve_always',
  deny = 'deny',
  edit = 'edit',
  diff = 'diff',
}

---@class (exact) agentls.Config
---Default: `agentls` from PATH, from this repository's `target/`, or from `~/.cargo/bin`.
---@field cmd? string[] The command that starts the server.
---@field env? table<string, string> Environment variables for the server, in addition to Neovim's own.
---@field settings table Server settings, named as in its configuration file. They override the files.
---@field trusted? boolean Whether settings in workspace folders may loosen approvals or start commands.
---Default: the root of the current directory's repository, else the current directory.
---@field workspace_folders? string[]|fun(): string[] The folders that the agent may work in.
---@field window agentls.Config.window
---@field prompt agentls.Config.prompt
---@field keys agentls.Config.keys|false Keys in the plugin's own buffers. false: map none.
---@field output_lines integer How many lines of a tool's output the chat contains. A key opens the rest.
---@field save_autocmds boolean Whether autocommands (formatters, linters) run when the server saves a buffer.
---@field log_file? string The server's log, if it is not at the default path.
---@field notify_approvals boolean Whether to show a notification for a question while its chat is not visible.
---@field notify_turn_ms integer A longer turn shows a notification at its end if its chat is not visible.

---@class (exact) agentls.Config.window
---@field position 'right'|'left'|'bottom'|'top'|'tab'|'current' Where the chat opens.
---@field size number Columns (lines for top and bottom). Below 1: a share of the editor.

---@class (exact) agentls.Config.prompt
---@field height integer Lines of the prompt window.
---@field max_height integer Up to how many lines it grows with its text.

---Normal mode in the chat; `prompt_…` in the prompt window. false: not mapped.
---@class (exact) agentls.Config.keys
---@field approve string|false
---@field approve_session string|false
---@field approve_always string|false
---@field deny string|false
---@field edit string|false Edits the arguments, then allows the call.
---@field diff string|false
---@field open string|false Opens the full output of the tool call under the cursor.
---@field file string|false Opens the file of the tool call under the cursor, or the file named there.
---@field cancel string|false
---@field resume string|false
---@field answer string|false Answers a limit or a question from the agent.
---@field revert string|false Undoes the file changes of the turn under the cursor and of all later turns.
---@field redo string|false Reapplies reverted changes.
---@field fork string|false Forks the session at the turn under the cursor.
---@field queue string|false Lists the queued prompts.
---@field prompt string|false
---@field earlier string|false
---@field next string|false
---@field previous string|false
---@field close string|false
---@field help string|false
---@field prompt_send string|false Normal mode.
---@field prompt_send_insert string|false Insert mode.
---@field prompt_queue string|false Both modes: queues the prompt until the turn ends.
---@field prompt_approve string|false Both modes: allows the open call once. Without a question it is Vim's own key.
---@field prompt_previous string|false Both modes, in the first line: the previous prompt of the history.
---@field prompt_next string|false Both modes, in the last line: the next prompt of the history.
---@field prompt_question string|false Both modes: goes to the card of the open question, where one key answers.

---@type agentls.Config
M.defaults = {
  settings = {},
  window = { position = 'right', size = 0.45 },
  prompt = { height = 4, max_height = 12 },
  keys = {
    open = 'o',
    file = 'gf',
    cancel = '<C-c>',
    resume = 'R',
    answer = '<CR>',
    revert = 'u',
    redo = '<C-r>',
    fork = 'F',
    queue = 'Q',
    prompt = 'i',
    earlier = 'gk',
    next = ']]',
    previous = '[[',
    close = 'q',
    help = 'g?',
    prompt_send = '<CR>',
    prompt_send_insert = '<C-s>',
    prompt_queue = '<C-q>',
    prompt_approve = '<C-y>',
    prompt_question = '<C-g>',
    prompt_previous = '<Up>',
    prompt_next = '<Down>',
  },
  output_lines = 2000,
  save_autocmds = true,
  notify_approvals = true,
  notify_turn_ms = 10000,
}

-- All editor clients share the default keys for approvals.
for _, entry in ipairs(protocol.approval_keys) do
  local name = M.APPROVAL_KEY_OPTIONS[entry.action]
  if name then
    M.defaults.keys[name] = entry.key
  end
end

local POSITIONS = { 'right', 'left', 'bottom', 'top', 'tab', 'current' }

local function check_key(value)
  return value == false or (type(value) == 'string' and value ~= ''), 'a key or false'
end
local function make_type_check(...)
  local types = { ... }
  return function(value)
    for _, name in ipairs(types) do
      if type(value) == name then
        return true
      end
    end
    return false, 'a ' .. table.concat(types, ' or a ')
  end
end
local function check_string_list(value)
  local is_valid = type(value) == 'table' and #value > 0
  for _, element in ipairs(is_valid and value or {}) do
    is_valid = is_valid and type(element) == 'string'
  end
  return is_valid, 'a list of strings'
end
local function make_integer_check(min)
  return function(value)
    return type(value) == 'number' and value >= min and value % 1 == 0, 'a whole number from ' .. min
  end
end

---For each option a check of its value, or a table of nested rules.
local RULES = {
  cmd = check_string_list,
  env = make_type_check('table'),
  settings = make_type_check('table'),
  trusted = make_type_check('boolean'),
  workspace_folders = function(value)
    local is_valid, expected = check_string_list(value)
    return is_valid or type(value) == 'function', expected .. ' or a function that returns one'
  end,
  window = {
    position = function(value)
      for _, position in ipairs(POSITIONS) do
        if position == value then
          return true
        end
      end
      local suggestion = type(value) == 'string' and format.find_nearest(value, POSITIONS)
      return false,
        'one of ' .. table.concat(POSITIONS, ', ') .. (suggestion and (' (%s?)'):format(suggestion) or '')
    end,
    size = function(value)
      return type(value) == 'number' and value > 0, 'a number above 0'
    end,
  },
  prompt = { height = make_integer_check(1), max_height = make_integer_check(1) },
  keys = {},
  output_lines = make_integer_check(1),
  save_autocmds = make_type_check('boolean'),
  log_file = make_type_check('string'),
  notify_approvals = make_type_check('boolean'),
  notify_turn_ms = make_integer_check(0),
}
for name in pairs(M.defaults.keys) do
  RULES.keys[name] = check_key
end

local function format_value(value)
  local text = vim.inspect(value, { newline = ' ', indent = '' })
  return format.truncate(text, 60)
end

---Copies valid options from `options` to `config`, and adds a message for each invalid one to `problems`.
local function merge_options(config, options, rules, path, problems)
  local names = vim.tbl_keys(rules)
  table.sort(names)
  local order = vim.tbl_keys(options)
  table.sort(order, function(a, b)
    return tostring(a) < tostring(b)
  end)
  for _, name in ipairs(order) do
    local value, rule = options[name], rules[name]
    local full_name = path .. tostring(name)
    if rule == nil then
      local suggestion = format.find_nearest(tostring(name), names)
      table.insert(
        problems,
        ('unknown option `%s`%s'):format(
          full_name,
          suggestion and ('; did you mean `%s%s`?'):format(path, suggestion) or ''
        )
      )
    elseif type(rule) == 'table' and type(value) == 'table' then
      config[name] = type(config[name]) == 'table' and config[name] or {}
      merge_options(config[name], value, rule, full_name .. '.', problems)
    elseif full_name == 'keys' and value == false then
      config.keys = false
    elseif type(rule) == 'table' then
      table.insert(problems, ('`%s` must be a table, not %s'):format(full_name, format_value(value)))
    else
      local is_valid, expected = rule(value)
      if is_valid then
        config[name] = value
      else
        table.insert(problems, ('`%s` must be %s, not %s'):format(full_name, expected, format_value(value)))
      end
    end
  end
end

---The keys of the chat. If two have the same key, the earlier one keeps it; so those that allow less come first.
local CHAT_ORDER = { 'deny', 'approve', 'approve_session', 'approve_always', 'edit', 'diff' }
for _, name in ipairs(vim.fn.sort(vim.tbl_keys(M.defaults.keys))) do
  if not vim.startswith(name, 'prompt_') and not vim.list_contains(CHAT_ORDER, name) then
    table.insert(CHAT_ORDER, name)
  end
end

---Unmaps an action whose key another action has. If a user gives `a` to one action, `a` must not also trigger the
---default action of that key.
local function resolve_key_conflicts(config, options, problems)
  if not config.keys then
    return
  end
  local user_keys = type(options.keys) == 'table' and options.keys or {}
  local action_by_key = {}
  for _, is_user_mapping in ipairs({ true, false }) do
    for _, name in ipairs(CHAT_ORDER) do
      local value = config.keys[name]
      if value and (user_keys[name] == value) == is_user_mapping then
        local code = vim.keycode(value)
        if action_by_key[code] then
          config.keys[name] = false
          local text = '`keys.%s` and `keys.%s` are both `%s`; `%s` is not mapped'
          table.insert(problems, text:format(action_by_key[code], name, value, name))
        else
          action_by_key[code] = name
        end
      end
    end
  end
end

---Merges `options` into the defaults. An invalid option keeps its default.
---@param options? table
---@return agentls.Config config
---@return string[] problems
function M.resolve_options(options)
  local config, problems = vim.deepcopy(M.defaults), {}
  if options ~= nil and type(options) ~= 'table' then
    return config, { ('the options must be a table, not %s'):format(format_value(options)) }
  end
  merge_options(config, options or {}, RULES, '', problems)
  resolve_key_conflicts(config, options or {}, problems)
  return config, problems
end

---The options in effect.
---@type agentls.Config
M.current = M.resolve_options()
---The problems of the last `setup()`.
---@type string[]
M.problems = {}

---@param options? table
function M.set_options(options)
  M.current, M.problems = M.resolve_options(options)
  if #M.problems > 0 then
    local lines = vim.list_extend({ 'setup():' }, M.problems)
    notifications.notify(table.concat(lines, '\n  '), vim.log.levels.WARN)
  end
end

return M
