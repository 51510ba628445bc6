-- Defines the user commands in one table, from which they are created, completed, and documented. A command only parses
-- its arguments; other modules, loaded on demand, do the work.

local M = {}

local function lazy_require(name)
  return setmetatable({}, {
    __index = function(_, key)
      return require('agentls.' .. name)[key]
    end,
  })
end

local approval, client, picker, sessions, view =
  lazy_require('approval'),
  lazy_require('client'),
  lazy_require('picker'),
  lazy_require('sessions'),
  lazy_require('view')
local prompts, queue, turn_actions =
  lazy_require('prompt'), lazy_require('queue'), lazy_require('turn_actions')
local attention, text_input = lazy_require('attention'), lazy_require('text_input')
local grants, mcp, notifications, trust =
  lazy_require('grants'), lazy_require('mcp'), lazy_require('notifications'), lazy_require('trust')

local EFFORTS = { 'none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max' }

local function trim_args(command)
  return vim.trim(command.args)
end

---Returns the arguments, or nil without any.
local function get_args(command)
  local text = trim_args(command)
  return text ~= '' and text or nil
end

local function filter_by_prefix(arg_lead, names)
  return vim.tbl_filter(function(name)
    return vim.startswith(name, arg_lead)
  end, names)
end

---Opens the chat of a session, and goes to its prompt unless the user has typed in the meantime.
---@param session agentls.Session
---@param has_typed boolean
---@return boolean has_focus
local function open_prompt(session, has_typed)
  view.open_chat(session, { focus = not has_typed and 'prompt' or nil })
  return not has_typed
end

---Builds a prompt block from the range of a command.
local function build_selection(command)
  local buffer = vim.api.nvim_get_current_buf()
  local first, last = command.line1, command.line2
  local lines = vim.api.nvim_buf_get_lines(buffer, first - 1, last, false)
  local from, to = 0, #(lines[#lines] or '')
  local mark_from, mark_to = vim.api.nvim_buf_get_mark(buffer, '<'), vim.api.nvim_buf_get_mark(buffer, '>')
  -- A command's range has whole lines. The marks have the columns.
  if vim.fn.visualmode() == 'v' and mark_from[1] == first and mark_to[1] == last then
    from = mark_from[2]
    local character = vim.fn.strpart((lines[#lines] or ''):sub(mark_to[2] + 1), 0, 1, 1)
    to = math.min(to, mark_to[2] + #character)
  end
  local selected_lines = vim.list_slice(lines)
  selected_lines[#selected_lines] = (selected_lines[#selected_lines] or ''):sub(1, to)
  selected_lines[1] = (selected_lines[1] or ''):sub(from + 1)
  local text = table.concat(selected_lines, '\n')
  local name = vim.api.nvim_buf_get_name(buffer)
  if name == '' or vim.bo[buffer].buftype ~= '' then
    return { type = 'text', text = '```\n' .. text .. '\n```' }
  end
  local lsp = client.get_lsp_client()
  local encoding = lsp and lsp.offset_encoding or 'utf-16'
  local function to_units(line, column)
    if encoding == 'utf-8' then
      return column
    end
    local utf32, utf16 = vim.str_utfindex(line, math.min(column, #line))
    return encoding == 'utf-16' and utf16 or utf32
  end
  return {
    type = 'selection',
    uri = vim.uri_from_bufnr(buffer),
    range = {
      start = { line = first - 1, character = to_units(lines[1] or '', from) },
      ['end'] = { line = last - 1, character = to_units(lines[#lines] or '', to) },
    },
    text = text,
  }
end

---@class agentls.Command
---@field desc string
---@field run fun(command: table)
---@field nargs? string
---@field range? boolean
---@field bang? boolean
---@field complete? fun(lead: string, line: string): string[]
---@field needs? string The command exists only if the server supports this request.

---@type table<string, agentls.Command>
M.definitions = {
  Agent = {
    desc = 'Open or close the chat',
    run = function()
      local chat, prompt = view.find_windows()
      if chat or prompt then
        return view.close_chat()
      end
      local has_typed = attention.watch()
      sessions.ensure_session(function(session)
        open_prompt(session, has_typed())
      end)
    end,
  },
  AgentNew = {
    desc = 'Start a new session',
    run = function()
      local has_typed = attention.watch()
      sessions.create_session({}, function(session)
        open_prompt(session, has_typed())
      end)
    end,
  },
  AgentAgent = {
    desc = 'Start a session with a named agent',
    nargs = '?',
    complete = function(arg_lead)
      return filter_by_prefix(arg_lead, picker.list_agent_names())
    end,
    run = function(command)
      picker.pick_agent(get_args(command))
    end,
  },
  AgentPrompt = {
    desc = 'Send a prompt, also to a running turn; without text: go to the prompt window',
    nargs = '*',
    complete = function(arg_lead, line)
      -- A slash command is the first word.
      return line:match('^%S+%s+%S*$') and prompts.complete_command(arg_lead) or {}
    end,
    run = function(command)
      local text = trim_args(command)
      local has_typed = attention.watch()
      sessions.ensure_session(function(session)
        if text ~= '' then
          prompts.check_command(session, text, function()
            sessions.send_prompt(session, text)
          end)
          return view.open_chat(session)
        end
        if open_prompt(session, has_typed()) then
          vim.cmd('startinsert!')
        end
      end, text ~= '' and text or nil)
    end,
  },
  AgentSend = {
    desc = 'Send the text of the prompt window; with !: queue it until the turn ends',
    bang = true,
    run = function(command)
      local session = sessions.get_current()
      if not session then
        notifications.notify('no session is open; start one with :Agent')
        return
      end
      local buffer = view.get_prompt_buffer(session)
      local text = vim.trim(table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n'))
      if text ~= '' then
        vim.api.nvim_buf_set_lines(buffer, 0, -1, false, {})
        prompts.check_command(session, text, function()
          if command.bang then
            return queue.add(session, text)
          end
          sessions.send_prompt(session, text)
        end)
      end
    end,
  },
  AgentAsk = {
    desc = 'Ask about the range',
    nargs = '*',
    range = true,
    run = function(command)
      local text = trim_args(command)
      local block
      local function send_question(question)
        sessions.ensure_session(function(session)
          sessions.send_prompt(session, { { type = 'text', text = question }, block })
          view.open_chat(session)
        end, question)
      end
      local ask_question = attention.guard('the server is ready; ask with :AgentAsk', function()
        text_input.ask({ prompt = 'Ask about the selection: ', key = 'ask' }, function(question)
          if vim.trim(question) ~= '' then
            send_question(question)
          end
        end)
      end)
      -- The server decides in which units columns count, so it must run first.
      local buffer = vim.api.nvim_get_current_buf()
      client.ensure_ready(function(failure)
        if failure then
          return sessions.report_error({ code = 0, message = failure })
        end
        vim.api.nvim_buf_call(buffer, function()
          block = build_selection(command)
        end)
        if text ~= '' then
          return send_question(text)
        end
        ask_question()
      end)
    end,
  },
  AgentCancel = {
    desc = 'Cancel the running turn; a second time: do not wait for its commands',
    run = function()
      local session = sessions.get_current()
      if session then
        sessions.cancel_turn(session)
      end
      -- The cancel also affects a prompt that the server has not accepted yet.
      if not session or not session.is_read_only and not session.state.running and #session.unsent == 0 then
        notifications.notify('no turn is running')
      end
    end,
  },
  AgentApprove = {
    desc = 'Show the open approval, then allow it: once, session, or always',
    nargs = '?',
    complete = function(arg_lead)
      return filter_by_prefix(arg_lead, { 'once', 'session', 'always' })
    end,
    run = function(command)
      local decisions = { [''] = 'allow', once = 'allow', session = 'allowSession', always = 'allowAlways' }
      local decision = decisions[trim_args(command)]
      if not decision then
        notifications.notify('use `:AgentApprove` with once, session, or always', vim.log.levels.ERROR)
        return
      end
      approval.approve_call(decision)
    end,
  },
  AgentDeny = {
    desc = 'Show the open approval, then deny it with feedback for the model; with !: without a prompt',
    nargs = '*',
    bang = true,
    run = function(command)
      local text = trim_args(command)
      approval.deny_call((text ~= '' or command.bang) and text or nil)
    end,
  },
  AgentAnswer = {
    desc = 'Show the open limit or question, then answer it; with !: stop the turn, or dismiss the question',
    bang = true,
    run = function(command)
      approval.answer_inquiry(command.bang)
    end,
  },
  AgentGrants = {
    desc = 'List saved permissions, and revoke the chosen one',
    run = function()
      grants.choose_grant()
    end,
  },
  AgentTrust = {
    desc = 'Show what trusting the folder would activate, then ask',
    run = function()
      trust.review_trust()
    end,
  },
  AgentMcp = {
    desc = 'List the MCP servers: restart one, show its log, log in',
    run = function()
      mcp.show_servers()
    end,
  },
  AgentReload = {
    desc = 'Read the configuration files again',
    run = function()
      local problems = require('agentls.problems')
      problems.begin_reload()
      sessions.request('agent/reloadConfig', vim.empty_dict(), function(result)
        problems.finish_reload(result.problems)
        local count = #result.problems
        local outcome = count == 0 and 'no problems'
          or ('problems: %d · :AgentProblems lists them'):format(count)
        notifications.notify('reloaded the configuration; ' .. outcome)
      end)
    end,
  },
  AgentDiff = {
    desc = 'Show the diff of the tool call under the cursor, or of the turn; with !: as one text',
    bang = true,
    run = function(command)
      turn_actions.show_diff(command.bang)
    end,
  },
  AgentRevert = {
    desc = 'Revert the file changes of a turn and all later turns; with !: without asking',
    nargs = '?',
    bang = true,
    complete = function(arg_lead)
      return turn_actions.complete_changed(arg_lead)
    end,
    run = function(command)
      turn_actions.revert_turn(get_args(command), { force = command.bang })
    end,
  },
  AgentRedo = {
    desc = 'Reapply reverted changes; with !: without asking',
    nargs = '?',
    bang = true,
    complete = function(arg_lead)
      return turn_actions.complete_changed(arg_lead)
    end,
    run = function(command)
      turn_actions.revert_turn(get_args(command), { redo = true, force = command.bang })
    end,
  },
  AgentFork = {
    desc = 'Fork the session at the end of a turn',
    nargs = '?',
    complete = function(arg_lead)
      return turn_actions.complete_ended(arg_lead)
    end,
    run = function(command)
      turn_actions.fork_session(get_args(command))
    end,
  },
  AgentQueue = {
    desc = 'Queue a prompt until the turn ends; without text: list the queued prompts',
    nargs = '*',
    complete = function(arg_lead, line)
      return line:match('^%S+%s+%S*$') and prompts.complete_command(arg_lead) or {}
    end,
    run = function(command)
      sessions.ensure_session(function(session)
        local text = get_args(command)
        if not text then
          return queue.list_prompts(session)
        end
        prompts.check_command(session, text, function()
          queue.add(session, text)
        end)
        view.open_chat(session)
      end, get_args(command))
    end,
  },
  AgentExport = {
    desc = 'Show the session as Markdown, or write it to a file (*.json: as JSON); with !: overwrite the file',
    nargs = '?',
    bang = true,
    complete = function(arg_lead)
      return vim.fn.getcompletion(arg_lead, 'file')
    end,
    run = function(command)
      turn_actions.export_session(get_args(command), command.bang)
    end,
  },
  AgentSessions = {
    desc = 'Choose a session; with text: search; with !: in all folders',
    nargs = '*',
    bang = true,
    run = function(command)
      local text = trim_args(command)
      picker.pick_session(text ~= '' and text or nil, command.bang)
    end,
  },
  AgentModel = {
    desc = 'Choose the model and its effort',
    nargs = '*',
    complete = function(arg_lead, line)
      local count = #vim.split(vim.trim(line:sub(1, #line - #arg_lead)), '%s+')
      return filter_by_prefix(arg_lead, count > 1 and EFFORTS or picker.list_model_names())
    end,
    run = function(command)
      picker.pick_model(command.fargs[1], command.fargs[2])
    end,
  },
  AgentMode = {
    desc = 'Choose what needs approval',
    nargs = '?',
    complete = function(arg_lead)
      return filter_by_prefix(arg_lead, picker.list_mode_names())
    end,
    run = function(command)
      local text = trim_args(command)
      picker.pick_mode(text ~= '' and text or nil)
    end,
  },
  AgentResume = {
    desc = 'Resume an interrupted or canceled turn',
    run = function()
      local session = sessions.get_current()
      if not session then
        notifications.notify('no session is open; open one with :AgentSessions')
        return
      end
      sessions.ensure_session(function()
        if not session.is_read_only and (session.state.running or not session.state.resumable) then
          local text = session.state.running and 'a turn is already running'
            or 'there is no turn to resume: the last one is complete'
          notifications.notify(text)
        else
          sessions.resume_turn(session)
        end
        view.open_chat(session)
      end)
    end,
  },
  AgentLog = {
    desc = "Open the server's log",
    run = function()
      local file = M.find_log_file()
      if vim.fn.filereadable(file) == 0 then
        notifications.notify('no log at ' .. file, vim.log.levels.WARN)
        return
      end
      vim.cmd.split(vim.fn.fnameescape(file))
      vim.bo.autoread = true
      vim.cmd('normal! G')
    end,
  },
  AgentNotices = {
    desc = 'Show all notifications so far',
    run = function()
      require('agentls.scratch').show_lines('notices', 'agentls_notices', notifications.history)
      vim.cmd('normal! G')
    end,
  },
  AgentProblems = {
    desc = 'List the warnings of the server, for example about configuration files',
    run = function()
      require('agentls.problems').open_list()
    end,
  },
  AgentRestart = {
    desc = 'Restart the server',
    run = function()
      M.restart_server()
    end,
  },
  AgentCompact = {
    desc = 'Summarize the history; the text tells the model what matters',
    nargs = '*',
    needs = 'agent/compact',
    run = function(command)
      local text = trim_args(command)
      sessions.ensure_session(function(session)
        local params = { sessionId = session.id, instructions = text ~= '' and text or nil }
        if sessions.ensure_writable(session) then
          sessions.request('agent/compact', params)
          view.open_chat(session)
        end
      end)
    end,
  },
  AgentResetCircuit = {
    desc = 'Reset the circuit breaker of a provider or a tool',
    needs = 'agent/resetCircuit',
    run = function()
      picker.pick_circuit()
    end,
  },
}

---Returns the path of the server's log.
---@return string
function M.find_log_file()
  local path = require('agentls.config').current.log_file
  if path then
    return vim.fs.normalize(path)
  end
  local state = vim.env.XDG_STATE_HOME
  if not state or state == '' then
    state = vim.fs.normalize('~/.local/state')
  end
  return state .. '/agentls/agentls.log'
end

---Restarts the server and reloads the open sessions.
function M.restart_server()
  client.stop_server(function()
    client.ensure_ready(function(failure)
      if failure then
        return sessions.report_error({ code = 0, message = failure })
      end
      client.on_restart()
    end)
  end)
end

---@param name string
local function create_command(name)
  local command = M.definitions[name]
  vim.api.nvim_create_user_command(name, function(arguments)
    command.run(arguments)
  end, {
    desc = command.desc,
    nargs = command.nargs or 0,
    range = command.range,
    bang = command.bang,
    complete = command.complete,
  })
end

---Creates the commands that every server supports.
function M.create_commands()
  for name, command in pairs(M.definitions) do
    if not command.needs then
      create_command(name)
    end
  end
end

---Creates the commands that this server supports in addition, and deletes the others.
function M.update_optional_commands()
  for name, command in pairs(M.definitions) do
    if command.needs and client.supports_method(command.needs) then
      create_command(name)
    elseif command.needs then
      pcall(vim.api.nvim_del_user_command, name)
    end
  end
end

return M
