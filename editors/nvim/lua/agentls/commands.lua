-- The commands: one table, from which they are made, completed and documented.

local M = {}

local function lazy(name)
  return setmetatable({}, {
    __index = function(_, key)
      return require('agentls.' .. name)[key]
    end,
  })
end

local approval, client, picker, sessions, view =
  lazy('approval'), lazy('client'), lazy('picker'), lazy('sessions'), lazy('view')
local prompts, queue, turns = lazy('prompt'), lazy('queue'), lazy('turns')
local grants, notice, trust = lazy('grants'), lazy('notice'), lazy('trust')

local function words_of(command)
  return vim.trim(command.args)
end

---The words, if there are any.
local function given_words(command)
  local words = words_of(command)
  return words ~= '' and words or nil
end

local function starting_with(lead, names)
  return vim.tbl_filter(function(name)
    return vim.startswith(name, lead)
  end, names)
end

---The part of a buffer that a command was given for, as a block of a prompt.
local function selection(command)
  local buffer = vim.api.nvim_get_current_buf()
  local first, last = command.line1, command.line2
  local lines = vim.api.nvim_buf_get_lines(buffer, first - 1, last, false)
  local from, to = 0, #(lines[#lines] or '')
  local mark_from, mark_to = vim.api.nvim_buf_get_mark(buffer, '<'), vim.api.nvim_buf_get_mark(buffer, '>')
  -- The command's range is whole lines; the marks know the characters.
  if vim.fn.visualmode() == 'v' and mark_from[1] == first and mark_to[1] == last then
    from = mark_from[2]
    local character = vim.fn.strpart((lines[#lines] or ''):sub(mark_to[2] + 1), 0, 1, 1)
    to = math.min(to, mark_to[2] + #character)
  end
  local picked = vim.list_slice(lines)
  picked[#picked] = (picked[#picked] or ''):sub(1, to)
  picked[1] = (picked[1] or ''):sub(from + 1)
  local text = table.concat(picked, '\n')
  local name = vim.api.nvim_buf_get_name(buffer)
  if name == '' or vim.bo[buffer].buftype ~= '' then
    return { type = 'text', text = '```\n' .. text .. '\n```' }
  end
  local lsp = client.lsp()
  local encoding = lsp and lsp.offset_encoding or 'utf-16'
  local function units(line, column)
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
      start = { line = first - 1, character = units(lines[1] or '', from) },
      ['end'] = { line = last - 1, character = units(lines[#lines] or '', to) },
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
---@field needs? string The command exists only with a server that takes this request.

---@type table<string, agentls.Command>
M.table = {
  Agent = {
    desc = 'Open or close the chat',
    run = function()
      local chat, prompt = view.windows()
      if chat or prompt then
        return view.close()
      end
      sessions.ensure(function(session)
        view.open(session, { focus = 'prompt' })
      end)
    end,
  },
  AgentNew = {
    desc = 'Start a new session',
    run = function()
      sessions.create({}, function(session)
        view.open(session, { focus = 'prompt' })
      end)
    end,
  },
  AgentAgent = {
    desc = 'Start a session with a named agent',
    nargs = '?',
    complete = function(lead)
      return starting_with(lead, picker.agent_names())
    end,
    run = function(command)
      picker.agent(given_words(command))
    end,
  },
  AgentPrompt = {
    desc = 'Say something to the agent, also while a turn runs; without words: write it in the prompt window',
    nargs = '*',
    complete = function(lead, line)
      -- A slash command is the first word.
      return line:match('^%S+%s+%S*$') and prompts.complete(lead) or {}
    end,
    run = function(command)
      local words = words_of(command)
      sessions.ensure(function(session)
        if words ~= '' then
          prompts.check(session, words, function()
            sessions.prompt(session, words)
          end)
          return view.open(session)
        end
        view.open(session, { focus = 'prompt' })
        vim.cmd('startinsert!')
      end)
    end,
  },
  AgentSend = {
    desc = 'Send what stands in the prompt window; with !: let it wait for the end of the turn',
    bang = true,
    run = function(command)
      local session = sessions.current()
      if not session then
        notice.tell('there is no session yet; :Agent starts one')
        return
      end
      local buffer = view.prompt_buffer(session)
      local words = vim.trim(table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), '\n'))
      if words ~= '' then
        vim.api.nvim_buf_set_lines(buffer, 0, -1, false, {})
        prompts.check(session, words, function()
          if command.bang then
            return queue.add(session, words)
          end
          sessions.prompt(session, words)
        end)
      end
    end,
  },
  AgentAsk = {
    desc = 'Ask about the range',
    nargs = '*',
    range = true,
    run = function(command)
      local words = words_of(command)
      local block
      local function ask(asked)
        sessions.ensure(function(session)
          sessions.prompt(session, { { type = 'text', text = asked }, block })
          view.open(session)
        end)
      end
      -- The server says in which units columns are counted.
      local buffer = vim.api.nvim_get_current_buf()
      client.ensure(function(failed)
        if failed then
          return sessions.complain({ code = 0, message = failed })
        end
        vim.api.nvim_buf_call(buffer, function()
          block = selection(command)
        end)
        if words ~= '' then
          return ask(words)
        end
        vim.ui.input({ prompt = 'Ask about the selection: ' }, function(asked)
          if asked and vim.trim(asked) ~= '' then
            ask(asked)
          end
        end)
      end)
    end,
  },
  AgentCancel = {
    desc = 'Cancel the running turn; a second time kills what takes its time',
    run = function()
      local session = sessions.current()
      if session then
        sessions.cancel(session)
      end
      -- A prompt that is on its way is cancelled too, though nothing is known to run.
      if not session or not session.readOnly and not session.state.running and #session.unsent == 0 then
        notice.tell('nothing runs')
      end
    end,
  },
  AgentApprove = {
    desc = 'Show the open question, then allow it: once, session or always',
    nargs = '?',
    complete = function(lead)
      return starting_with(lead, { 'once', 'session', 'always' })
    end,
    run = function(command)
      local decisions = { [''] = 'allow', once = 'allow', session = 'allowSession', always = 'allowAlways' }
      local decision = decisions[words_of(command)]
      if not decision then
        notice.tell('`:AgentApprove` takes once, session or always', vim.log.levels.ERROR)
        return
      end
      approval.approve(decision)
    end,
  },
  AgentDeny = {
    desc = 'Show the open question, then deny it; the words go to the model; with ! nothing is asked for',
    nargs = '*',
    bang = true,
    run = function(command)
      local words = words_of(command)
      approval.deny((words ~= '' or command.bang) and words or nil)
    end,
  },
  AgentAnswer = {
    desc = 'Show the open limit or question, then answer it; with !: stop, or give no answer',
    bang = true,
    run = function(command)
      approval.answer(command.bang)
    end,
  },
  AgentGrants = {
    desc = 'List what was allowed beyond one call, and revoke the chosen one',
    run = function()
      grants.choose()
    end,
  },
  AgentTrust = {
    desc = 'Show what trusting the folder activates, then ask',
    run = function()
      trust.review()
    end,
  },
  AgentDiff = {
    desc = 'Show the diff of the tool call under the cursor, or of what the turn changed; with !: as one text',
    bang = true,
    run = function(command)
      turns.diff(command.bang)
    end,
  },
  AgentRevert = {
    desc = 'Take back what a turn and all later ones changed; with !: without asking',
    nargs = '?',
    bang = true,
    complete = function(lead)
      return turns.complete(lead)
    end,
    run = function(command)
      turns.revert(given_words(command), { sure = command.bang })
    end,
  },
  AgentRedo = {
    desc = 'Make again what was taken back; with !: without asking',
    nargs = '?',
    bang = true,
    complete = function(lead)
      return turns.complete(lead)
    end,
    run = function(command)
      turns.revert(given_words(command), { redo = true, sure = command.bang })
    end,
  },
  AgentFork = {
    desc = 'Make a session of what there is up to the end of a turn',
    nargs = '?',
    complete = function(lead)
      return turns.complete_ended(lead)
    end,
    run = function(command)
      turns.fork(given_words(command))
    end,
  },
  AgentQueue = {
    desc = 'Let a prompt wait for the end of the turn; without words: list those that wait',
    nargs = '*',
    complete = function(lead, line)
      return line:match('^%S+%s+%S*$') and prompts.complete(lead) or {}
    end,
    run = function(command)
      sessions.ensure(function(session)
        local words = given_words(command)
        if not words then
          return queue.list(session)
        end
        prompts.check(session, words, function()
          queue.add(session, words)
        end)
        view.open(session)
      end)
    end,
  },
  AgentExport = {
    desc = 'Show the session as Markdown, or write it to a file (JSON: *.json); with !: over one that is there',
    nargs = '?',
    bang = true,
    complete = function(lead)
      return vim.fn.getcompletion(lead, 'file')
    end,
    run = function(command)
      turns.export(given_words(command), command.bang)
    end,
  },
  AgentSessions = {
    desc = 'Choose a session; with words: search; with !: of all folders',
    nargs = '*',
    bang = true,
    run = function(command)
      local words = words_of(command)
      picker.sessions(words ~= '' and words or nil, command.bang)
    end,
  },
  AgentModel = {
    desc = 'Choose the model, and how hard it thinks',
    nargs = '*',
    complete = function(lead, line)
      local given = #vim.split(vim.trim(line:sub(1, #line - #lead)), '%s+')
      return starting_with(lead, given > 1 and { 'low', 'medium', 'high' } or picker.model_names())
    end,
    run = function(command)
      picker.model(command.fargs[1], command.fargs[2])
    end,
  },
  AgentMode = {
    desc = 'Choose how freely the agent may act',
    nargs = '?',
    complete = function(lead)
      return starting_with(lead, picker.mode_names())
    end,
    run = function(command)
      local words = words_of(command)
      picker.mode(words ~= '' and words or nil)
    end,
  },
  AgentResume = {
    desc = 'Go on with an interrupted or cancelled turn',
    run = function()
      local session = sessions.current()
      if not session then
        notice.tell('no session is open; :AgentSessions lists them')
        return
      end
      sessions.ensure(function()
        if not session.readOnly and (session.state.running or not session.state.resumable) then
          local words = session.state.running and 'a turn runs already'
            or 'the last turn is over: there is nothing to go on with'
          notice.tell(words)
        else
          sessions.resume(session)
        end
        view.open(session)
      end)
    end,
  },
  AgentLog = {
    desc = "Open the server's log",
    run = function()
      local file = M.log_file()
      if vim.fn.filereadable(file) == 0 then
        notice.tell('there is no log at ' .. file, vim.log.levels.WARN)
        return
      end
      vim.cmd.split(vim.fn.fnameescape(file))
      vim.bo.autoread = true
      vim.cmd('normal! G')
    end,
  },
  AgentNotices = {
    desc = 'Show the notices so far',
    run = function()
      require('agentls.scratch').show('notices', 'agentls_notices', notice.history)
      vim.cmd('normal! G')
    end,
  },
  AgentRestart = {
    desc = 'End the server and start it again',
    run = function()
      M.restart()
    end,
  },
  AgentCompact = {
    desc = 'Summarise the history; the words tell the model what matters',
    nargs = '*',
    needs = 'agent/compact',
    run = function(command)
      local words = words_of(command)
      sessions.ensure(function(session)
        local params = { sessionId = session.id, instructions = words ~= '' and words or nil }
        if sessions.is_ours(session) then
          sessions.ask('agent/compact', params)
          view.open(session)
        end
      end)
    end,
  },
  AgentResetCircuit = {
    desc = 'Ask a provider or a tool again that failed too often',
    needs = 'agent/resetCircuit',
    run = function()
      picker.circuit()
    end,
  },
}

---Where the server's log is.
---@return string
function M.log_file()
  local given = require('agentls.config').current.log_file
  if given then
    return vim.fs.normalize(given)
  end
  local state = vim.env.XDG_STATE_HOME
  if not state or state == '' then
    state = vim.fs.normalize('~/.local/state')
  end
  return state .. '/agentls/agentls.log'
end

---Ends the server, starts it again, and loads the sessions that are open.
function M.restart()
  client.stop(function()
    client.ensure(function(failed)
      if failed then
        return sessions.complain({ code = 0, message = failed })
      end
      client.on_restart()
    end)
  end)
end

---@param name string
local function create(name)
  local command = M.table[name]
  vim.api.nvim_create_user_command(name, function(given)
    command.run(given)
  end, {
    desc = command.desc,
    nargs = command.nargs or 0,
    range = command.range,
    bang = command.bang,
    complete = command.complete,
  })
end

---Makes the commands that every server serves.
function M.create()
  for name, command in pairs(M.table) do
    if not command.needs then
      create(name)
    end
  end
end

---Makes those that this server serves beyond that, and takes away those that it does not.
function M.adapt()
  for name, command in pairs(M.table) do
    if command.needs and client.offers(command.needs) then
      create(name)
    elseif command.needs then
      pcall(vim.api.nvim_del_user_command, name)
    end
  end
end

return M
