-- What a person chooses: models with free entry, values that are remembered, slash commands that exist.

local support = require('tests.support')
local eq, wait = support.eq, support.wait

---Keeps what is asked of the server, and answers for it where a test says so.
local SPY = [[
asked, answers = {}, {}
local client = require('agentls.client')
local request = client.request
client.request = function(method, params, callback)
  table.insert(asked, { method = method, params = params })
  if answers[method] then
    return answers[method](params, callback)
  end
  return request(method, params, callback)
end
]]

local function asked(nvim, method)
  return nvim.lua(
    [[
      local method = ...
      local found = vim.tbl_filter(function(a) return a.method == method end, asked)
      return vim.tbl_map(function(a) return a.params end, found)
    ]],
    method
  )
end

return function(_, drive)
  drive('models: the providers are asked, nothing waits, and any name can be given', nil, function(nvim)
    nvim.cmd('AgentPrompt stream')
    nvim.ended()
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
    nvim.chooses('another one')
    nvim.cmd('AgentModel')
    nvim.noticed('asking the providers for their models…')
    eq(asked(nvim, 'agent/listModels')[1].live, true)
    eq(nvim.lua('return #shown'), 0)
    nvim.lua("vim.ui.input = function(_, enter) enter(' tape/made-up ') end")
    nvim.lua('pending()')
    eq(nvim.shown()[1].words, {
      '● tape/tape',
      "  tape/old · not in the provider's list",
      '  tape/new',
      '… enter a name',
    })
    eq(asked(nvim, 'agent/setModel')[1].model, 'tape/made-up')
    -- A list that comes while somebody types waits.
    nvim.lua("require('agentls.picker').clear_model_cache(); shown = {}")
    nvim.cmd('AgentModel')
    nvim.lua("vim.api.nvim_set_current_win(select(2, require('agentls.view').find_windows()))")
    nvim.typed('iwords')
    vim.wait(500)
    nvim.lua('pending()')
    nvim.noticed('the list of models is ready; open it with :AgentModel')
    eq(nvim.lua('return #shown'), 0)
    nvim.typed('<Esc>')
    nvim.cmd('AgentModel')
    eq(#nvim.shown()[1].words, 4)
  end)

  drive('a model that cannot be there is named with what the server says', nil, function(nvim)
    nvim.cmd('AgentPrompt stream')
    nvim.ended()
    nvim.lua(SPY)
    nvim.lua([[answers['agent/setModel'] = function(_, callback)
      local words = 'unknown model tape/tope; the nearest: tape/tape'
      callback({ code = -32602, message = words, data = { message = words } })
    end]])
    nvim.cmd('AgentModel tape/tope')
    nvim.noticed('unknown model tape/tope; the nearest: tape/tape')
  end)

  drive(
    'a new session takes what was chosen last, and sends no more than what was chosen',
    nil,
    function(nvim)
      nvim.lua(SPY)
      nvim.lua([[answers['agent/newSession'] = function(params, callback)
      callback(nil, { sessionId = 'ses_x', seq = 0, mode = 'plan', model = 'tape/tape', effort = 'high' })
    end]])
      nvim.cmd('Agent')
      wait('the session', function()
        return #asked(nvim, 'agent/newSession') == 1
      end)
      local params = asked(nvim, 'agent/newSession')[1]
      params.cwd = nil
      eq(params, { remembered = true })
      local bar = nvim.lua([[
      local chat = require('agentls.view').find_windows()
      return vim.api.nvim_eval_statusline(vim.wo[chat].winbar, { winid = chat, use_winbar = true }).str
    ]])
      assert(bar:find('tape · high · plan', 1, true), bar)
    end
  )

  drive('a slash command that does not exist is not sent', nil, function(nvim)
    support.write(nvim.workspace .. '/.agentls/commands/look.md', 'Look at the file $1.\n')
    nvim.cmd('AgentPrompt stream')
    nvim.ended()
    nvim.cmd('AgentPrompt /lok cart.py')
    nvim.noticed('unknown slash command /lok; did you mean /look? Send it again to send it unchanged.')
    eq(nvim.state().running, nil)
    nvim.lua("vim.api.nvim_set_current_win(select(2, require('agentls.view').find_windows()))")
    eq(nvim.lines(), { '/lok cart.py' })
    nvim.cmd('AgentSend')
    nvim.ended(2)
    nvim.see('> /lok cart.py')
    nvim.cmd('AgentPrompt /look cart.py')
    nvim.ended(3)
    nvim.see('> Look at the file cart.py.')
    nvim.cmd('AgentPrompt /tmp is full')
    nvim.ended(4)
    nvim.cmd('AgentQueue /zzzzzzzz')
    nvim.noticed('unknown slash command /zzzzzzzz. Send it again to send it unchanged.')
  end)

  drive('other files are followed when they have what the disk has not', nil, function(nvim)
    local outside = support.home .. '/outside.txt'
    support.write(outside, 'outside\n')
    nvim.lua([[
      attached = {}
      vim.api.nvim_create_autocmd('LspAttach', { callback = function(event)
        table.insert(attached, vim.fs.basename(vim.api.nvim_buf_get_name(event.buf)))
      end })
    ]])
    nvim.cmd('edit ' .. outside)
    nvim.cmd('edit cart.py')
    nvim.cmd('AgentPrompt stream')
    nvim.ended()
    nvim.cmd('wincmd t')
    nvim.cmd('edit ' .. outside)
    nvim.cmd('help')
    eq(nvim.lua('return attached'), { 'cart.py' })
    nvim.cmd('wincmd p')
    nvim.cmd('edit ' .. outside)
    nvim.typed('ix<Esc>')
    wait('the unsaved file', function()
      return vim.deep_equal(nvim.lua('return attached'), { 'cart.py', 'outside.txt' })
    end)
  end)
end
