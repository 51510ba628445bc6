-- Choices: models, remembered settings, and unknown slash commands.

local support = require('tests.support')
local eq, wait = support.eq, support.wait

---Records requests to the server, and answers those that a test stubs.
local SPY = [[
requests, answers = {}, {}
local client = require('agentls.client')
local request = client.request
client.request = function(method, params, callback)
  table.insert(requests, { method = method, params = params })
  if answers[method] then
    return answers[method](params, callback)
  end
  return request(method, params, callback)
end
]]

local function get_requests(nvim, method)
  return nvim.lua(
    [[
      local method = ...
      local matches = vim.tbl_filter(function(request) return request.method == method end, requests)
      return vim.tbl_map(function(request) return request.params end, matches)
    ]],
    method
  )
end

return function(_, drive)
  drive('models: the list does not block, and accepts any name', nil, function(nvim)
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    nvim.lua(SPY)
    nvim.lua([[answers['agent/listModels'] = function(_, callback)
      pending = function()
        callback(nil, { models = {
          { model = 'tape/tape', provider = 'tape' },
          { model = 'tape/old', provider = 'tape', listed = false },
          { model = 'tape/new', provider = 'tape', listed = true },
        }, providers = {} })
      end
    end]])
    nvim.stub_select('enter a name')
    nvim.cmd('AgentModel')
    nvim.wait_for_notification('asking the providers for their models…')
    eq(get_requests(nvim, 'agent/listModels')[1].live, true)
    eq(nvim.lua('return #prompts'), 0)
    nvim.lua("vim.ui.input = function(_, enter) enter(' tape/made-up ') end")
    nvim.lua('pending()')
    eq(nvim.wait_for_select()[1].labels, {
      '● tape/tape',
      "  tape/old · not in the provider's list",
      '  tape/new',
      '… enter a name',
    })
    eq(get_requests(nvim, 'agent/setModel')[1].model, 'tape/made-up')
    -- A list that arrives while the user types is not opened.
    nvim.lua("require('agentls.picker').clear_model_cache(); prompts, notices = {}, {}")
    nvim.cmd('AgentModel')
    nvim.lua("vim.api.nvim_set_current_win(select(2, require('agentls.view').find_windows()))")
    nvim.type_keys('iwords')
    -- This notification appears when a list counts as late.
    nvim.wait_for_notification('asking the providers for their models…')
    local noticed_at = nvim.lua('return vim.uv.now()')
    wait('the next millisecond', function()
      return nvim.lua('return vim.uv.now()') > noticed_at
    end)
    nvim.lua('pending()')
    nvim.wait_for_notification('the list of models is ready; open it with :AgentModel')
    eq(nvim.lua('return #prompts'), 0)
    nvim.type_keys('<Esc>')
    nvim.cmd('AgentModel')
    eq(#nvim.wait_for_select()[1].labels, 4)
  end)

  drive("an unknown model is reported with the server's suggestion", nil, function(nvim)
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    nvim.lua(SPY)
    nvim.lua([[answers['agent/setModel'] = function(_, callback)
      local message = 'unknown model tape/tope; the nearest: tape/tape'
      callback({ code = -32602, message = message, data = { message = message } })
    end]])
    nvim.cmd('AgentModel tape/tope')
    nvim.wait_for_notification('unknown model tape/tope; the nearest: tape/tape')
  end)

  drive('a new session uses the last choices and sends nothing else', nil, function(nvim)
    nvim.lua(SPY)
    nvim.lua([[answers['agent/newSession'] = function(params, callback)
      callback(nil, { sessionId = 'ses_x', seq = 0, mode = 'plan', model = 'tape/tape', effort = 'high' })
    end]])
    nvim.cmd('Agent')
    wait('the session', function()
      return #get_requests(nvim, 'agent/newSession') == 1
    end)
    local params = get_requests(nvim, 'agent/newSession')[1]
    params.cwd = nil
    eq(params, { remembered = true })
    local bar = nvim.lua([[
      local chat = require('agentls.view').find_windows()
      return vim.api.nvim_eval_statusline(vim.wo[chat].winbar, { winid = chat, use_winbar = true }).str
    ]])
    assert(bar:find('tape · high · plan', 1, true), bar)
  end)

  drive('an unknown slash command is not sent', nil, function(nvim)
    support.write(nvim.workspace .. '/.agentls/commands/look.md', 'Look at the file $1.\n')
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    nvim.cmd('AgentPrompt /lok cart.py')
    nvim.wait_for_notification(
      'unknown slash command /lok; did you mean /look? Send it again to send it unchanged.'
    )
    eq(nvim.state().running, nil)
    nvim.lua("vim.api.nvim_set_current_win(select(2, require('agentls.view').find_windows()))")
    eq(nvim.lines(), { '/lok cart.py' })
    nvim.cmd('AgentSend')
    nvim.wait_for_turn_end(2)
    nvim.see('> /lok cart.py')
    nvim.cmd('AgentPrompt /look cart.py')
    nvim.wait_for_turn_end(3)
    nvim.see('> Look at the file cart.py.')
    nvim.cmd('AgentPrompt /tmp is full')
    nvim.wait_for_turn_end(4)
    nvim.cmd('AgentQueue /zzzzzzzz')
    nvim.wait_for_notification('unknown slash command /zzzzzzzz. Send it again to send it unchanged.')
  end)

  drive('a file outside the workspace is synced once it has unsaved changes', nil, function(nvim)
    local outside_path = support.home .. '/outside.txt'
    support.write(outside_path, 'outside\n')
    nvim.lua([[
      attached = {}
      vim.api.nvim_create_autocmd('LspAttach', { callback = function(event)
        table.insert(attached, vim.fs.basename(vim.api.nvim_buf_get_name(event.buf)))
      end })
    ]])
    nvim.cmd('edit ' .. outside_path)
    nvim.cmd('edit cart.py')
    nvim.cmd('AgentPrompt stream')
    nvim.wait_for_turn_end()
    nvim.cmd('wincmd t')
    nvim.cmd('edit ' .. outside_path)
    nvim.cmd('help')
    eq(nvim.lua('return attached'), { 'cart.py' })
    nvim.cmd('wincmd p')
    nvim.cmd('edit ' .. outside_path)
    nvim.type_keys('ix<Esc>')
    wait('the unsaved file', function()
      return vim.deep_equal(nvim.lua('return attached'), { 'cart.py', 'outside.txt' })
    end)
  end)
end
