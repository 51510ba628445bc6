-- A server that hangs, that never answers, or that has what another wants: noticed, ended, and nothing typed is lost.

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

---Waits until no server of `mute_server`'s kind is left of this Neovim.
local function mute_ends(nvim)
  wait('the end of the mute server', function()
    return not vim.iter(support.marked(nvim.mark)):any(function(process)
      return process.command:find('sleep 1000', 1, true) ~= nil
    end)
  end, 10000)
end

---A server that reads and never answers.
local function mute_server()
  local path = support.home .. '/mute'
  support.write(path, '#!/bin/sh\nexec sleep 1000\n')
  vim.uv.fs_chmod(path, 493)
  return path
end

return function(test, drive)
  drive('a server that hangs is noticed, and so is that it goes on', nil, function(nvim)
    nvim.lua(IMPATIENT)
    nvim.cmd('AgentPrompt run it')
    nvim.asked()
    local server = nvim.server()
    vim.uv.kill(server.pid, 'sigstop')
    nvim.noticed('the server does not answer; :AgentRestart ends it and starts it again')
    nvim.see_virtual('■ the server does not answer')
    vim.uv.kill(server.pid, 'sigcont')
    nvim.noticed('the server answers again')
    eq(nvim.state().offline, nil)
    nvim.see_virtual('a question waits for your answer')
    nvim.twice('AgentDeny no')
    nvim.ended()
  end)

  drive('a server that works in silence is not taken for one that hangs', nil, function(nvim)
    nvim.lua(IMPATIENT)
    nvim.cmd('AgentPrompt go on forever')
    nvim.see('Once upon a time')
    vim.wait(2000)
    eq(nvim.notices(), {})
    nvim.cmd('AgentCancel')
    nvim.ended()
    eq(nvim.notices(), {})
  end)

  drive('a restart of a server that hangs keeps what was typed and what was sent', nil, function(nvim)
    nvim.lua(IMPATIENT)
    nvim.cmd('AgentPrompt stream')
    nvim.ended()
    local server = nvim.server()
    vim.uv.kill(server.pid, 'sigstop')
    nvim.lua("require('agentls').prompt('stream what was sent')")
    nvim.see_virtual('↪ sending: stream what was sent')
    nvim.lua("local v = require('agentls.view'); vim.api.nvim_set_current_win(select(2, v.find_windows()))")
    nvim.typed('ihalf a prompt<Esc>')
    nvim.noticed('the server does not answer')
    nvim.cmd('AgentRestart')
    wait('another server', function()
      return not is_alive(server.pid) and nvim.lua("return require('agentls.client').is_ready()")
    end)
    wait('the words again', function()
      return vim.deep_equal(nvim.lines(), { 'half a prompt', '', 'stream what was sent' })
    end)
    nvim.cmd('AgentSend')
    nvim.ended(2)
  end)

  drive('stop ends a server that does not answer, and the turn can go on', nil, function(nvim)
    nvim.lua(IMPATIENT)
    nvim.cmd('AgentPrompt run it')
    nvim.asked()
    nvim.twice('AgentApprove')
    nvim.see('begun42')
    local server = nvim.server()
    vim.uv.kill(server.pid, 'sigstop')
    nvim.cmd('AgentCancel')
    nvim.noticed(
      'the server ended unexpectedly (it did not answer when the turn was to stop); it is started again'
    )
    nvim.ended()
    assert(not is_alive(server.pid))
    nvim.cmd('AgentResume')
    nvim.ended(2)
  end)

  drive('stop does not end a server that answers', nil, function(nvim)
    nvim.lua(IMPATIENT)
    nvim.cmd('AgentPrompt go on forever')
    nvim.see('Once upon a time')
    local server = nvim.server()
    nvim.cmd('AgentCancel')
    nvim.ended()
    vim.wait(1200)
    assert(is_alive(server.pid))
    eq(nvim.server().pid, server.pid)
  end)

  drive(':qa leaves no server that hangs', nil, function(nvim)
    nvim.cmd('AgentPrompt run it')
    nvim.asked()
    nvim.twice('AgentApprove')
    nvim.see('begun42')
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

  test('a server that never answers is reported, and killed', function()
    local path = mute_server()
    local nvim = support.neovim({ setup = ('{ cmd = { %q } }'):format(path) })
    nvim.lua("local c = require('agentls.client'); c.START_NOTICE_MS, c.START_MS = 200, 1500")
    nvim.cmd('AgentPrompt hello')
    nvim.noticed('the server was started and has not answered yet')
    nvim.noticed('was started and does not answer: is it the server?')
    mute_ends(nvim)
    nvim.quit()
  end)

  test('a restart ends a server that never answered, and the prompt goes to the next one', function()
    local path, switch = support.home .. '/mute-first', support.home .. '/mute-first.done'
    -- Asking it politely does not end it either.
    local script = "#!/bin/sh\n[ -e %s ] && exec %s\ntouch %s\ntrap '' TERM\nexec sleep 1000\n"
    support.write(path, script:format(switch, support.server, switch))
    vim.uv.fs_chmod(path, 493)
    local nvim = support.neovim({ setup = ('{ cmd = { %q } }'):format(path) })
    nvim.lua(IMPATIENT)
    nvim.lua("require('agentls.client').START_NOTICE_MS = 200")
    nvim.cmd('AgentPrompt stream')
    nvim.noticed('the server was started and has not answered yet; :AgentRestart starts it again')
    nvim.cmd('AgentRestart')
    nvim.ended()
    nvim.see('> stream')
    mute_ends(nvim)
    nvim.quit()
  end)

  test('a session that another server has can be taken over, if it hangs too', function()
    local first = support.neovim()
    first.cmd('AgentPrompt stream this one')
    first.ended()
    local server = first.server()
    vim.uv.kill(server.pid, 'sigstop')
    local other = support.neovim({ workspace = first.workspace, data = first.data })
    other.lua("require('agentls.session_lock').TERM_TIMEOUT_MS = 300")
    other.chooses('stream this one', 'Take it over')
    other.cmd('AgentSessions')
    local shown = other.shown(2)
    assert(shown[2].prompt:find('The session is open in another server', 1, true), vim.inspect(shown))
    eq(shown[2].words[2], ('Take it over: end process %d and what it does'):format(server.pid))
    other.see('Grüße: one two three')
    assert(not is_alive(server.pid))
    other.cmd('AgentPrompt stream more')
    other.ended(2)
    other.quit()
    first.quit()
  end)
end
