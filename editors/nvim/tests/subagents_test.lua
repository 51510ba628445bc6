-- Sub-agents, with the real server: their calls under the delegating call, their questions, retries, and cancellation.

local support = require('tests.support')
local eq, wait = support.eq, support.wait

local FREE = ('{ cmd = { %q }, settings = { agent = { default = { mode = "full" } } } }'):format(
  support.server
)

---Returns the depth, the title, and the status of each call.
local function get_call_tree(nvim)
  local state, depths, lines = nvim.state(), {}, {}
  for _, item in ipairs(state.items) do
    if item.kind == 'tool' then
      depths[item.id] = item.parentToolCallId and (depths[item.parentToolCallId] or 0) + 1 or 0
      table.insert(lines, ('%s%s: %s'):format(('  '):rep(depths[item.id]), item.title, item.status))
    end
  end
  return lines
end

return function(_, drive)
  if not support.has_feature('subAgents') then
    io.stdout:write('NOT TESTED: sub-agents. This server has none.\n')
    return
  end

  drive('a sub-agent asks for approval under its call, and folds with it at the end', nil, function(nvim)
    nvim.cmd('AgentPrompt delegate it')
    eq(nvim.wait_for_approval().title, 'awk 1 cart.py')
    nvim.see('▶ `')
    local lines = get_call_tree(nvim)
    eq({ #lines, lines[2] }, { 2, '  awk 1 cart.py: awaitingApproval' })
    nvim.see('? `awk 1 cart.py`')
    nvim.wait_for_virtual_text('│ ')
    nvim.run_twice('AgentApprove')
    nvim.wait_for_turn_end()
    nvim.see('The report arrived.')
    eq(get_call_tree(nvim)[2], '  awk 1 cart.py: completed')
    nvim.see(' · 1 call · ')
    nvim.see('It has a total.')
    -- All of it folds to one line.
    eq(
      nvim.lua([[
        local view = require('agentls.view')
        view.flush_drawing()
        return vim.api.nvim_win_call((view.find_windows()), function()
          vim.cmd('redraw')
          local seen = {}
          for row, line in ipairs(vim.api.nvim_buf_get_lines(0, 0, -1, false)) do
            local first = vim.fn.foldclosed(row)
            if (first == -1 or first == row) and (line:find('✓', 1, true) or line:find('cat cart', 1, true)) then
              table.insert(seen, (line:gsub(' · .*', '')))
            end
          end
          return #seen
        end)
      ]]),
      1
    )
  end)

  drive('sub-agents run in parallel and nested, and show retries at their calls', {
    setup = FREE,
  }, function(nvim)
    nvim.cmd('AgentPrompt delegate two tasks')
    nvim.see('⟳ tape: Overloaded (529) — try 2 of 4')
    eq(nvim.virtual():find('Overloaded', 1, true), nil)
    eq(nvim.state().notices[1].parent ~= nil, true)
    nvim.wait_for_turn_end()
    nvim.see('Both reports arrived.')
    local lines = get_call_tree(nvim)
    eq(#lines, 5)
    local child_lines = vim.list_slice(lines, 2)
    table.sort(child_lines)
    eq(child_lines[1], '    List .: completed', vim.inspect(lines))
    nvim.see(' · 4 calls')
    eq(nvim.state().notices, {})
    assert(not nvim.chat():find('⟳', 1, true), nvim.chat())
    -- The same after a load.
    local id = nvim.state().sessionId
    nvim.lua("require('agentls.sessions').all[...] = nil", id)
    nvim.lua("require('agentls.sessions').load_session(..., function() end)", id)
    wait('the session', function()
      return nvim.state()
    end)
    eq(get_call_tree(nvim), lines)
  end)

  drive("a crash during a sub-agent's approval ends the call and removes the question", nil, function(nvim)
    nvim.cmd('AgentPrompt delegate it')
    nvim.wait_for_approval()
    vim.uv.kill(nvim.server().pid, 'sigkill')
    nvim.wait_for_notification('restarting it')
    local state = nvim.wait_for_turn_end()
    eq({ state.approvals, state.items[#state.items].state }, { {}, 'interrupted' })
    for _, line in ipairs(get_call_tree(nvim)) do
      assert(not line:find('awaitingApproval', 1, true) and not line:find('running', 1, true), line)
    end
    nvim.cmd('AgentApprove')
    nvim.wait_for_notification('no open approval')
    nvim.cmd('AgentResume')
    nvim.wait_for_turn_end(2)
    nvim.see('The report arrived.')
  end)

  drive('a cancel also stops the sub-agent', { setup = FREE }, function(nvim)
    nvim.cmd('AgentPrompt delegate forever')
    nvim.see('Peeking on')
    nvim.cmd('AgentCancel')
    local state = nvim.wait_for_turn_end()
    eq(state.items[#state.items].state, 'cancelled')
    for _, line in ipairs(get_call_tree(nvim)) do
      assert(line:find(': cancelled', 1, true), line)
    end
  end)
end
