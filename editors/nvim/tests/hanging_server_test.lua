-- A server that hangs, never answers, or locks a session is detected and stopped, and typed text is never lost.

local support = require('tests.support')
local eq, wait = support.eq, support.wait

local IMPATIENT = [[
local client = require('agentls.client')
client.PING_MS, client.STOP_MS, client.EXIT_MS = 150, 600, 300
]]

local function is_alive(pid)
  return vim.uv.kill(pid, 0) == 0
    and not (support.read(('/proc/%d/stat'):format(pid)) or ''):find(') Z', 1, true)
end

---Waits until no mute server of this Neovim is left.
local function wait_for_mute_server_end(nvim)
  wait('the end of the mute server', function()
    return not vim.iter(support.find_processes(nvim.mark)):any(function(process)
      return process.command:find('sleep 1000', 1, true) ~= nil
    end)
  end, 10000)
end

---Counts the replies of the server to pings, in the global `ping_reply_count`.
local function count_ping_replies(nvim)
  nvim.lua([[
    ping_reply_count = 0
    local rpc = require('agentls.client').get_lsp_client().rpc
    local request = rpc.request
    rpc.request = function(method, params, callback, ...)
      -- Pings ask for the approvals of no session.
      if method ~= 'agent/listApprovals' or params.sessionId ~= '' then
        return request(method, params, callback, ...)
      end
      return request(method, params, function(...)
        ping_reply_count = ping_reply_count + 1
        return callback(...)
      end, ...)
    end
  ]])
end

---Writes a server that reads and never answers.
local function write_mute_server()
  local path = support.home .. '/mute'
  support.write(path, '#!/bin/sh\nexec sleep 1000\n')
  vim.uv.fs_chmod(path, 493)
  return path
end

return function(test, drive)
  drive('a hanging server is reported, and so is its recovery', nil, function(nvim)
    nvim.lua(IMPATIENT)
    nvim.cmd('AgentPrompt run it')
    nvim.wait_for_approval()
    local server = nvim.server()
    vim.uv.kill(server.pid, 'sigstop')
    nvim.wait_for_notification('the server does not answer; :AgentRestart ends it and starts it again')
    nvim.wait_for_virtual_text('■ the server does not answer')
    vim.uv.kill(server.pid, 'sigcont')
    nvim.wait_for_notification('the server answers again')
    eq(nvim.state().offline, nil)
    nvim.wait_for_virtual_text('a question needs your answer')
    nvim.run_twice('AgentDeny no')
    nvim.wait_for_turn_end()
  end)

  drive('a silent but working server is not reported as hanging', nil, function(nvim)
    nvim.lua(IMPATIENT)
    nvim.cmd('AgentPrompt go on forever')
    nvim.see('Once upon a time')
    count_ping_replies(nvim)
    wait('several checks', function()
      return nvim.lua('return ping_reply_count') >= 10
    end)
    eq(nvim.notices(), {})
    nvim.cmd('AgentCancel')
    nvim.wait_for_turn_end()
    eq(nvim.notices(), {})
  end)

  drive('restarting a hanging server keeps typed and sent prompts', nil, function(nvim)
    nvim.lua(IMPATIENT)
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    local server = nvim.server()
    vim.uv.kill(server.pid, 'sigstop')
    nvim.lua("require('agentls').prompt('stream what was sent')")
    nvim.wait_for_virtual_text('↪ sending: stream what was sent')
    nvim.lua("local v = require('agentls.view'); vim.api.nvim_set_current_win(select(2, v.find_windows()))")
    nvim.type_keys('ihalf a prompt<Esc>')
    nvim.wait_for_notification('the server does not answer')
    nvim.cmd('AgentRestart')
    wait('another server', function()
      return not is_alive(server.pid) and nvim.lua("return require('agentls.client').is_ready()")
    end)
    wait('the words again', function()
      return vim.deep_equal(nvim.lines(), { 'half a prompt', '', 'stream what was sent' })
    end)
    nvim.cmd('AgentSend')
    nvim.wait_for_turn_end(2)
  end)

  drive('a cancel kills a hanging server, and the turn can be resumed', nil, function(nvim)
    nvim.lua(IMPATIENT)
    nvim.cmd('AgentPrompt run it')
    nvim.wait_for_approval()
    nvim.run_twice('AgentApprove')
    nvim.see('started42')
    local server = nvim.server()
    vim.uv.kill(server.pid, 'sigstop')
    nvim.cmd('AgentCancel')
    nvim.wait_for_notification(
      'the server ended unexpectedly (it did not answer a cancel request); restarting it'
    )
    nvim.wait_for_turn_end()
    assert(not is_alive(server.pid))
    nvim.cmd('AgentResume')
    nvim.wait_for_turn_end(2)
  end)

  drive('a cancel does not kill a server that answers', nil, function(nvim)
    nvim.lua(IMPATIENT)
    nvim.cmd('AgentPrompt go on forever')
    nvim.see('Once upon a time')
    local server = nvim.server()
    nvim.cmd('AgentCancel')
    -- A timer that starts later with the same timeout fires after the one that would kill the server.
    nvim.lua("vim.defer_fn(function() has_timed_out = true end, require('agentls.client').STOP_MS)")
    nvim.wait_for_turn_end()
    wait('the timeout of the cancel', function()
      return nvim.lua('return has_timed_out == true')
    end)
    eq(nvim.open_approvals(), 0, 'the server still answers')
    assert(is_alive(server.pid))
    eq(nvim.server().pid, server.pid)
  end)

  drive(':qa leaves no hanging server behind', nil, function(nvim)
    nvim.cmd('AgentPrompt run it')
    nvim.wait_for_approval()
    nvim.run_twice('AgentApprove')
    nvim.see('started42')
    local server = nvim.server()
    vim.uv.kill(server.pid, 'sigstop')
    pcall(vim.rpcnotify, nvim.channel, 'nvim_command', 'qa!')
    wait('the end of Neovim', function()
      return nvim.code
    end, 10000)
    wait('the end of the server', function()
      return not is_alive(server.pid)
    end, 5000)
  end)

  test('a server that never answers is reported and killed', function()
    local path = write_mute_server()
    local nvim = support.neovim({ setup = ('{ cmd = { %q } }'):format(path) })
    nvim.lua("local c = require('agentls.client'); c.START_NOTICE_MS, c.START_MS = 200, 1500")
    nvim.cmd('AgentPrompt hello')
    nvim.wait_for_notification('the server has not answered since it was started')
    nvim.wait_for_notification('does not answer; check that it is the server')
    wait_for_mute_server_end(nvim)
    nvim.quit()
  end)

  test('a restart replaces a server that never answered, and keeps the prompt', function()
    local path, marker = support.home .. '/mute-first', support.home .. '/mute-first.done'
    -- A shutdown request does not stop it either.
    local script = "#!/bin/sh\n[ -e %s ] && exec %s\ntouch %s\ntrap '' TERM\nexec sleep 1000\n"
    support.write(path, script:format(marker, support.server, marker))
    vim.uv.fs_chmod(path, 493)
    local nvim = support.neovim({ setup = ('{ cmd = { %q } }'):format(path) })
    nvim.lua(IMPATIENT)
    nvim.lua("require('agentls.client').START_NOTICE_MS = 200")
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_notification('the server has not answered since it was started; :AgentRestart restarts it')
    nvim.cmd('AgentRestart')
    nvim.wait_for_turn_end()
    nvim.see('> stream')
    wait_for_mute_server_end(nvim)
    nvim.quit()
  end)

  test('a session can be taken over from another server, even a hanging one', function()
    local first = support.neovim()
    first.cmd('AgentPrompt stream this one')
    first.wait_for_turn_end()
    local server = first.server()
    vim.uv.kill(server.pid, 'sigstop')
    local other = support.neovim({ workspace = first.workspace, data = first.data })
    other.lua("require('agentls.session_lock').TERM_TIMEOUT_MS = 300")
    other.stub_select('stream this one', 'Take it over')
    other.cmd('AgentSessions')
    local prompts = other.wait_for_select(2)
    assert(prompts[2].prompt:find('The session is open in another server', 1, true), vim.inspect(prompts))
    eq(prompts[2].labels[2], ('Take it over: stop process %d and its work'):format(server.pid))
    other.see('Grüße: one two three')
    assert(not is_alive(server.pid))
    other.cmd('AgentPrompt stream more')
    other.wait_for_turn_end(2)
    other.quit()
    first.quit()
  end)
end
