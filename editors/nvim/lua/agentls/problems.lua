-- Collects the warnings about the whole server, most of them about configuration files, and reports them in one line.
-- `:AgentProblems` opens them as a quickfix list. A folder that somebody else wrote must not fill the screen.

local format = require('agentls.format')
local notifications = require('agentls.notifications')

local M = {}

---How long to wait for more problems before they are reported, in ms.
M.DELAY_MS = 150

---@type string[]
local messages = {}
---The folders whose settings are off because they are not trusted.
---@type table<string, boolean>
local untrusted_folders = {}
---The messages about files that a reload has not confirmed yet.
---@type table<string, boolean>
local stale = {}
local is_waiting = false
---What was reported last, to report nothing twice.
local last_report = ''

---@return string
local function format_report()
  local parts = {}
  if #messages == 1 and #messages[1] <= 80 and not messages[1]:find('\n', 1, true) then
    table.insert(parts, format.display_text(messages[1]))
  elseif #messages > 0 then
    local count = #messages == 1 and '1 warning' or ('%d warnings'):format(#messages)
    table.insert(parts, count .. ': :AgentProblems')
  end
  if next(untrusted_folders) then
    table.insert(parts, 'untrusted folder: :AgentTrust')
  end
  return table.concat(parts, ' · ')
end

local function report_problems()
  is_waiting = false
  local report = format_report()
  if report ~= '' and report ~= last_report then
    last_report = report
    notifications.notify(report, vim.log.levels.WARN, 'problems')
  end
end

local function request_report()
  if not is_waiting then
    is_waiting = true
    vim.defer_fn(report_problems, M.DELAY_MS)
  end
end

---Splits the place off a message about a file: `/path/config.toml:9:1: warning: text`.
---@param message string
---@return table entry An entry of a quickfix list.
local function parse_message(message)
  local file, line, column, text = message:match('^(/[^\n]-):(%d+):(%d+): (.*)$')
  if not file then
    return { text = format.single_line(message, #message), type = 'W' }
  end
  local severity, rest = text:match('^(%a+): (.*)$')
  return {
    filename = file,
    lnum = tonumber(line),
    col = tonumber(column),
    text = format.single_line(rest or text, #text),
    type = severity == 'error' and 'E' or 'W',
  }
end

---Adds a warning of the server.
---@param message string
function M.add_warning(message)
  message = format.reveal_hidden(message)
  stale[message] = nil
  if not vim.list_contains(messages, message) then
    table.insert(messages, message)
    notifications.record(message)
    request_report()
  end
end

---Adds a folder whose settings are off because it is not trusted.
---@param folder string
function M.add_untrusted_folder(folder)
  if not untrusted_folders[folder] then
    untrusted_folders[folder] = true
    request_report()
  end
end

---Starts a reload of the configuration: it decides which messages about files still apply.
function M.begin_reload()
  stale = {}
  for _, message in ipairs(messages) do
    stale[message] = parse_message(message).filename ~= nil or nil
  end
end

---Ends a reload: keeps the messages that were repeated, or that the result contains.
---@param found agentls.ConfigProblem[]
function M.finish_reload(found)
  for _, problem in ipairs(found) do
    local place = problem.file and ('%s:%d:'):format(problem.file, problem.line or 1)
    local known = vim.iter(messages):find(function(message)
      return place and vim.startswith(message, place)
    end)
    if known then
      stale[known] = nil
    elseif place then
      M.add_warning(('%s1: %s: %s'):format(place, problem.severity, problem.message))
    else
      M.add_warning(problem.message)
    end
  end
  messages = vim.tbl_filter(function(message)
    return not stale[message]
  end, messages)
  stale = {}
end

---Forgets all problems: another server starts.
function M.clear()
  messages, untrusted_folders, stale, last_report = {}, {}, {}, ''
end

---Opens the problems as a quickfix list.
function M.open_list()
  if #messages == 0 then
    return notifications.notify('there are no warnings')
  end
  vim.fn.setqflist({}, ' ', { title = 'agentls: warnings', items = vim.tbl_map(parse_message, messages) })
  vim.cmd('botright copen')
end

return M
