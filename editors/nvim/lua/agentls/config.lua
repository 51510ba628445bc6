-- What `setup()` takes: defaults, types, and a check that names what is wrong.

local notice = require('agentls.notice')
local protocol = require('agentls.protocol')
local text = require('agentls.text')

local M = {}

---The names, among the options of `keys`, of what answers an approval.
---@type table<string, string>
M.APPROVAL_NAMES = {
  allow = 'approve',
  allowSession = 'approve_session',
  allowAlways = 'approve_always',
  deny = 'deny',
  edit = 'edit',
  diff = 'diff',
}

---@class (exact) agentls.Config
---Absent: `agentls`, looked for in PATH, in this repository's `target/`, and in `~/.cargo/bin`.
---@field cmd? string[] The command that starts the server.
---@field env? table<string, string> Variables that the server gets beside Neovim's own.
---@field settings table Settings of the server, by the names of its configuration file; they lie over the files.
---@field trusted? boolean Whether the settings that workspace folders bring may loosen approvals or start anything.
---Absent: the root of the current directory's repository, or that directory.
---@field workspace_folders? string[]|fun(): string[] The folders that the agent may work in.
---@field window agentls.Config.window
---@field prompt agentls.Config.prompt
---@field keys agentls.Config.keys|false Keys in the plugin's own buffers; false: none.
---@field output_lines integer How many lines of a tool's output are put into the chat; the rest is opened by a key.
---@field save_autocmds boolean Whether autocommands (formatters, linters) run when the server has a buffer saved.
---@field log_file? string The server's log. Absent: where it is by default.
---@field notify_approvals boolean Whether a question is notified while its chat is not seen.
---@field notify_turn_ms integer A turn that took longer is notified at its end while its chat is not seen.

---@class (exact) agentls.Config.window
---@field position 'right'|'left'|'bottom'|'top'|'tab'|'current' Where the chat opens.
---@field size number Columns (or lines, for top and bottom); under 1: a share of the editor.

---@class (exact) agentls.Config.prompt
---@field height integer Lines of the window that prompts are written in.

---Normal mode, in the chat; `prompt_…` in the prompt's window. false: not mapped.
---@class (exact) agentls.Config.keys
---@field approve string|false
---@field approve_session string|false
---@field approve_always string|false
---@field deny string|false
---@field edit string|false Edits the arguments of what is asked, then allows it.
---@field diff string|false
---@field open string|false The whole output of the tool call under the cursor.
---@field cancel string|false
---@field resume string|false
---@field answer string|false Answers a limit or a question of the agent.
---@field revert string|false Takes back what the turn under the cursor and all later ones changed.
---@field redo string|false Makes again what was taken back.
---@field fork string|false Makes a session of what there is up to the turn under the cursor.
---@field queue string|false The prompts that wait.
---@field prompt string|false
---@field earlier string|false
---@field next string|false
---@field previous string|false
---@field close string|false
---@field help string|false
---@field prompt_send string|false Normal mode.
---@field prompt_send_insert string|false Insert mode.
---@field prompt_queue string|false Both modes: it waits for the end of the turn.

---@type agentls.Config
M.defaults = {
  settings = {},
  window = { position = 'right', size = 0.45 },
  prompt = { height = 4 },
  keys = {
    open = 'o',
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
  },
  output_lines = 2000,
  save_autocmds = true,
  notify_approvals = true,
  notify_turn_ms = 10000,
}

-- All clients have the same keys at approvals.
for _, entry in ipairs(protocol.approval_keys) do
  local name = M.APPROVAL_NAMES[entry.action]
  if name then
    M.defaults.keys[name] = entry.key
  end
end

local POSITIONS = { 'right', 'left', 'bottom', 'top', 'tab', 'current' }

local function key(value)
  return value == false or (type(value) == 'string' and value ~= ''), 'a key or false'
end
local function of_type(...)
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
local function list_of_strings(value)
  local right = type(value) == 'table' and #value > 0
  for _, element in ipairs(right and value or {}) do
    right = right and type(element) == 'string'
  end
  return right, 'a list of strings'
end
local function whole(least)
  return function(value)
    return type(value) == 'number' and value >= least and value % 1 == 0, 'a whole number from ' .. least
  end
end

---What each option may be: a function of its value, or a table of options.
local RULES = {
  cmd = list_of_strings,
  env = of_type('table'),
  settings = of_type('table'),
  trusted = of_type('boolean'),
  workspace_folders = function(value)
    local right, what = list_of_strings(value)
    return right or type(value) == 'function', what .. ' or a function that gives one'
  end,
  window = {
    position = function(value)
      for _, position in ipairs(POSITIONS) do
        if position == value then
          return true
        end
      end
      local near = type(value) == 'string' and text.nearest(value, POSITIONS)
      return false, 'one of ' .. table.concat(POSITIONS, ', ') .. (near and (' (%s?)'):format(near) or '')
    end,
    size = function(value)
      return type(value) == 'number' and value > 0, 'a number above 0'
    end,
  },
  prompt = { height = whole(1) },
  keys = {},
  output_lines = whole(1),
  save_autocmds = of_type('boolean'),
  log_file = of_type('string'),
  notify_approvals = of_type('boolean'),
  notify_turn_ms = whole(0),
}
for name in pairs(M.defaults.keys) do
  RULES.keys[name] = key
end

local function shown(value)
  local text_of = vim.inspect(value, { newline = ' ', indent = '' })
  return text.cut(text_of, 60)
end

---Puts what is right of `given` into `config`, and what is wrong into `problems`.
local function take(config, given, rules, path, problems)
  local names = vim.tbl_keys(rules)
  table.sort(names)
  local order = vim.tbl_keys(given)
  table.sort(order, function(a, b)
    return tostring(a) < tostring(b)
  end)
  for _, name in ipairs(order) do
    local value, rule = given[name], rules[name]
    local full = path .. tostring(name)
    if rule == nil then
      local near = text.nearest(tostring(name), names)
      table.insert(
        problems,
        ('there is no option `%s`%s'):format(full, near and (': is `%s%s` meant?'):format(path, near) or '')
      )
    elseif type(rule) == 'table' and type(value) == 'table' then
      config[name] = type(config[name]) == 'table' and config[name] or {}
      take(config[name], value, rule, full .. '.', problems)
    elseif full == 'keys' and value == false then
      config.keys = false
    elseif type(rule) == 'table' then
      table.insert(problems, ('`%s` must be a table, it is %s'):format(full, shown(value)))
    else
      local right, what = rule(value)
      if right then
        config[name] = value
      else
        table.insert(problems, ('`%s` must be %s, it is %s'):format(full, what, shown(value)))
      end
    end
  end
end

---The keys of the chat, those first that keep a key which two of them have: what allows least comes first.
local CHAT_ORDER = { 'deny', 'approve', 'approve_session', 'approve_always', 'edit', 'diff' }
for _, name in ipairs(vim.fn.sort(vim.tbl_keys(M.defaults.keys))) do
  if not vim.startswith(name, 'prompt_') and not vim.list_contains(CHAT_ORDER, name) then
    table.insert(CHAT_ORDER, name)
  end
end

---One key does one thing: a person who gave `a` to one action must not find another's default behind it.
local function part_keys(config, given, problems)
  if not config.keys then
    return
  end
  local named = type(given.keys) == 'table' and given.keys or {}
  local owner = {}
  for _, by_person in ipairs({ true, false }) do
    for _, name in ipairs(CHAT_ORDER) do
      local value = config.keys[name]
      if value and (named[name] == value) == by_person then
        local code = vim.keycode(value)
        if owner[code] then
          config.keys[name] = false
          local words = '`keys.%s` and `keys.%s` are both `%s`: `%s` has no key now'
          table.insert(problems, words:format(owner[code], name, value, name))
        else
          owner[code] = name
        end
      end
    end
  end
end

---The configuration that `given` asks for, and what is wrong in it; what is wrong keeps its default.
---@param given? table
---@return agentls.Config config
---@return string[] problems
function M.resolve(given)
  local config, problems = vim.deepcopy(M.defaults), {}
  if given ~= nil and type(given) ~= 'table' then
    return config, { ('the options must be a table, they are %s'):format(shown(given)) }
  end
  take(config, given or {}, RULES, '', problems)
  part_keys(config, given or {}, problems)
  return config, problems
end

---What is in force.
---@type agentls.Config
M.current = M.resolve()
---What was wrong in the last `setup()`.
---@type string[]
M.problems = {}

---@param given? table
function M.set(given)
  M.current, M.problems = M.resolve(given)
  if #M.problems > 0 then
    local lines = vim.list_extend({ 'setup():' }, M.problems)
    notice.tell(table.concat(lines, '\n  '), vim.log.levels.WARN)
  end
end

return M
