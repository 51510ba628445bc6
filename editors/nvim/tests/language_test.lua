-- Questions about symbols, with the real server and real language servers: TypeScript's and pyright.
--
-- AGENTLS_MCP_PEERS: the folder with the npm packages of `tests/peers/npm`; without it, the test is skipped.

local support = require('tests.support')
local eq = support.eq

local FILES = {
  ['tsconfig.json'] = '{ "compilerOptions": { "strict": true } }\n',
  ['cart.ts'] = '// total: ä𝔘\nexport class Cart {\n  /* ä𝔘 */ total(): number {\n    return 1;\n  }\n}\n',
  ['print.ts'] = 'import { Cart } from "./cart";\n\nexport function print(cart: Cart) {\n  return cart.total();\n}\n',
  ['use.ts'] = 'import { Cart } from "./cart";\n/* ä𝔘 */ export const one = [  new Cart().totl()];\n'
    .. 'export const two = new Cart().totl();\n',
  ['notes.txt'] = 'total\n',
}

local PYTHON_FILES = {
  ['cart.py'] = 'class Cart:\n    def total(self) -> int:\n        return 1\n',
  ['report.py'] = 'from cart import Cart\n\n\ndef report(cart: Cart) -> str:\n    """Shows the total."""\n'
    .. '    return str(cart.total())\n',
}

---A busy machine may need longer than a user would wait, for an answer and to find the errors after an edit.
local PATIENCE =
  "require('agentls.language').limits_ms = { attach = 60000, answer = 60000, report = 10000 }\n"
local FULL_MODE_SETUP = ([[{
  cmd = { %q },
  settings = { agent = { default = { mode = 'full', diagnostics_after_edit = 30 } } },
}]]):format(support.server)

---Returns Lua code that starts a language server for a file type, and waits long for it.
local function start_server(filetype, options)
  return PATIENCE
    .. ([[
vim.api.nvim_create_autocmd('FileType', {
  pattern = %q,
  callback = function(event)
    vim.lsp.start(vim.tbl_extend('error', { root_dir = vim.fn.getcwd() }, %s), { bufnr = event.buf })
  end,
})
vim.cmd('filetype on')
]]):format(filetype, vim.inspect(options))
end

return function(_, drive)
  local peers = os.getenv('AGENTLS_MCP_PEERS')
  if not peers then
    print('NOT TESTED: language servers. AGENTLS_MCP_PEERS is not set.')
    return
  end
  local modules = peers .. '/node_modules/'
  local init = start_server('typescript', {
    name = 'typescript',
    cmd = { 'node', modules .. 'typescript-language-server/lib/cli.mjs', '--stdio' },
    init_options = { tsserver = { path = modules .. 'typescript/lib/tsserver.js' } },
  })

  ---Asks as the server does, and returns the result and the reason.
  local function ask(nvim, params, encoding)
    return unpack(nvim.lua(
      [[
        local params, encoding = ...
        local result, reason, is_done
        coroutine.wrap(function()
          result, reason = require('agentls.language').answer_query(params, encoding)
          is_done = true
        end)()
        vim.wait(60000, function() return is_done end, 10)
        return { result or false, reason or false }
      ]],
      params,
      encoding or 'utf-8'
    ))
  end

  ---Waits until the language server has loaded the project, so that it finds both uses.
  local function wait_for_references(nvim)
    support.wait('the language server', function()
      local use = { kind = 'references', uri = vim.uri_from_fname(nvim.workspace .. '/print.ts'), limit = 9 }
      use.position = { line = 3, character = 14 }
      local result = ask(nvim, use)
      return result and #result.locations == 2
    end)
  end

  ---Waits until it has reported an error, so that it knows the types of the standard library too.
  local function wait_for_errors(nvim)
    local line = { line = 1, character = 0 }
    local uri = vim.uri_from_fname(nvim.workspace .. '/use.ts')
    support.wait('an error', function()
      local result = ask(nvim, { kind = 'quickFixes', uri = uri, position = line, limit = 50 })
      return result and #result.fixes > 0
    end)
    nvim.cmd('bwipeout use.ts')
  end

  ---Returns the output of the last tool call.
  local function get_last_output(state)
    local output
    for _, item in ipairs(state.items) do
      output = item.kind == 'tool' and item.output or output
    end
    return output
  end

  ---Lists locations as `name:line:character`, in order.
  local function list(result)
    local all = vim.tbl_map(function(location)
      local start = location.range.start
      return ('%s:%d:%d'):format(vim.fs.basename(location.uri), start.line, start.character)
    end, result.locations)
    table.sort(all)
    return all
  end

  drive(
    'language: a real language server answers for buffers and files',
    { init = init, files = FILES },
    function(nvim)
      local function uri(name)
        return vim.uri_from_fname(nvim.workspace .. '/' .. name)
      end
      -- A busy machine may need longer to start the language server than a question waits.
      support.wait('the language server', function()
        return ask(nvim, { kind = 'documentSymbols', uri = uri('cart.ts'), limit = 100 })
      end)
      -- The file is in no window. The columns count bytes, and the language server counts UTF-16 units.
      local symbols, why = ask(nvim, { kind = 'documentSymbols', uri = uri('cart.ts'), limit = 100 })
      assert(symbols, why)
      local found = vim.tbl_map(function(symbol)
        return { symbol.name, symbol.containerName or false, symbol.selectionRange.start }
      end, symbols.symbols)
      eq(found, {
        { 'Cart', false, { line = 1, character = 13 } },
        { 'total', 'Cart', { line = 2, character = 15 } },
      })
      eq(nvim.lua('return vim.bo[vim.fn.bufnr("cart.ts")].buflisted'), false)
      local at_total = { uri = uri('cart.ts'), position = { line = 2, character = 15 }, limit = 100 }
      nvim.cmd('edit print.ts')
      local references = ask(nvim, vim.tbl_extend('error', { kind = 'references' }, at_total))
      eq(list(references), { 'cart.ts:2:15', 'print.ts:3:14' })
      local calls = ask(nvim, vim.tbl_extend('error', { kind = 'incomingCalls' }, at_total))
      eq(list(calls), { 'print.ts:3:14' })
      local in_print =
        { kind = 'outgoingCalls', uri = uri('print.ts'), position = { line = 2, character = 16 }, limit = 10 }
      eq(list(ask(nvim, in_print)), { 'cart.ts:2:15' })
      local utf16 =
        { kind = 'references', uri = uri('cart.ts'), position = { line = 2, character = 12 }, limit = 1 }
      eq(#list(ask(nvim, utf16, 'utf-16')), 1, 'the limit')
      local use =
        { kind = 'definition', uri = uri('print.ts'), position = { line = 3, character = 16 }, limit = 10 }
      eq(list(ask(nvim, use)), { 'cart.ts:2:15' })
      local hover = ask(nvim, vim.tbl_extend('force', use, { kind = 'hover' }))
      assert(hover.text:find('Cart.total(): number', 1, true), hover.text)
      eq(list(ask(nvim, use, 'utf-16')), { 'cart.ts:2:12' })
      local rename = ask(nvim, vim.tbl_extend('error', { kind = 'rename', query = 'sum' }, at_total))
      local renamed = {}
      for _, document in ipairs(rename.edits) do
        local edit = document.edits[1]
        renamed[vim.fs.basename(document.uri)] = { #document.edits, edit.newText, edit.range.start }
      end
      eq(renamed, {
        ['cart.ts'] = { 1, 'sum', { line = 2, character = 15 } },
        ['print.ts'] = { 1, 'sum', { line = 3, character = 14 } },
      })
      local in_use = { uri = uri('use.ts'), position = { line = 1, character = 0 }, limit = 50 }
      local fixes = ask(nvim, vim.tbl_extend('error', { kind = 'quickFixes' }, in_use)).fixes
      local by_title = {}
      for _, fix in ipairs(fixes) do
        by_title[fix.title] = fix.edits
      end
      local spelling = by_title["Change spelling to 'total'"]
      assert(spelling, vim.inspect(fixes))
      eq({ #spelling, spelling[1].uri, #spelling[1].edits }, { 1, uri('use.ts'), 1 })
      eq(spelling[1].edits[1].range.start, { line = 1, character = 46 })
      -- Its edits are computed only on demand.
      local all = by_title['Fix all detected spelling errors']
      eq(#(all or fixes)[1].edits, 2)
      in_use.position.line = 0
      eq(ask(nvim, vim.tbl_extend('error', { kind = 'quickFixes' }, in_use)).fixes, {})
      local format = ask(nvim, { kind = 'format', uri = uri('use.ts'), limit = 1 }).edits
      eq({ #format, format[1].uri }, { 1, uri('use.ts') })
      eq(format[1].edits[1].range.start, { line = 1, character = 33 })
      local format_print = { kind = 'format', uri = uri('print.ts'), limit = 1 }
      eq(ask(nvim, format_print).edits[1].edits[1].newText, '\t')
      nvim.cmd('setlocal expandtab shiftwidth=2')
      eq(ask(nvim, format_print).edits, {})
      eq(nvim.lua('return vim.fn.getbufline("use.ts", 1, "$")'), vim.split(vim.trim(FILES['use.ts']), '\n'))
      local workspace = ask(nvim, { kind = 'workspaceSymbols', query = 'Cart', limit = 10 })
      eq(workspace.symbols[1].name, 'Cart')
      local _, reason = ask(nvim, { kind = 'documentSymbols', uri = uri('notes.txt'), limit = 10 })
      assert(reason:find('no language server', 1, true), reason)
      _, reason = ask(nvim, { kind = 'unheardOf', uri = uri('notes.txt'), limit = 10 })
      assert(reason:find('does not answer `unheardOf`', 1, true), reason)
      eq(nvim.notices(), {})
    end
  )

  drive('language: an edit that breaks another open file is reported with its errors', {
    init = init,
    files = FILES,
    setup = FULL_MODE_SETUP,
    frozen = true,
  }, function(nvim)
    nvim.cmd('edit cart.ts')
    nvim.cmd('split print.ts')
    wait_for_references(nvim)
    wait_for_errors(nvim)
    nvim.cmd('AgentPrompt rename total')
    eq(
      get_last_output(nvim.wait_for_turn_end()),
      'edited cart.ts (+1 −1 lines)\nThe editor reports 1 new error:\n'
        .. "print.ts:4:15: error: Property 'total' does not exist on type 'Cart'. (typescript)"
    )
  end)

  drive('language: an edit of a file that is not open is reported with its new errors', {
    init = init,
    files = vim.tbl_extend('force', FILES, {
      ['print.ts'] = FILES['print.ts'] .. '\nexport const old: string = 1;\n',
    }),
    setup = FULL_MODE_SETUP,
    frozen = true,
  }, function(nvim)
    nvim.cmd('edit cart.ts')
    wait_for_references(nvim)
    wait_for_errors(nvim)
    -- The question has loaded the file.
    nvim.cmd('bwipeout print.ts')
    nvim.cmd('AgentPrompt break print')
    local output = get_last_output(nvim.wait_for_turn_end())
    assert(
      vim.startswith(
        output,
        'edited print.ts (+1 −1 lines)\nThe editor reports 1 new error:\nprint.ts:4:15: error: '
      ),
      output
    )
    assert(output:find("'totals'", 1, true), output)
    eq(nvim.lua('return vim.fn.bufexists("print.ts")'), 0)
    -- Without a language server, nobody waits. The file of the user stays loaded.
    local answer = nvim.lua([[
        local params = { waitFor = vim.uri_from_fname(vim.fn.fnamemodify('notes.txt', ':p')), waitMs = 600000 }
        local own_id = vim.lsp.get_clients({ name = 'agentls' })[1].id
        local answer = require('agentls.editor').build_handlers()['agent/getDiagnostics']
        local result
        coroutine.wrap(function()
          result = answer(nil, params, { client_id = own_id })
        end)()
        return result or false
      ]])
    eq(answer.unreported, {})
    eq(nvim.lua('return { vim.fn.bufloaded("cart.ts"), vim.fn.bufexists("notes.txt") }'), { 1, 0 })
  end)

  drive('language: a language server that never reports is not waited for again and again', {
    init = [[
      vim.filetype.add({ extension = { quiet = 'quiet' } })
      local function answer(_, _, callback)
        vim.schedule(function() callback(nil, { capabilities = { textDocumentSync = 1 } }) end)
        return true, 1
      end
      local yes, no = function() return true end, function() return false end
      local rpc = { request = answer, notify = yes, is_closing = no, terminate = no }
      vim.api.nvim_create_autocmd('FileType', {
        pattern = 'quiet',
        callback = function(event)
          vim.lsp.start({ name = 'quiet', cmd = function() return rpc end }, { bufnr = event.buf })
        end,
      })
    ]],
    files = { ['a.quiet'] = 'one\n' },
  }, function(nvim)
    ---Returns how many documents were awaited in vain, or false if the wait takes longer than some seconds.
    local function count_unreported(ms)
      return nvim.lua(
        [[
          local params = { waitFor = vim.uri_from_fname(vim.fn.fnamemodify('a.quiet', ':p')), waitMs = ... }
          local result
          coroutine.wrap(function()
            local answer = require('agentls.editor').build_handlers()['agent/getDiagnostics']
            result = answer(nil, params, { client_id = -1 })
          end)()
          vim.wait(60000, function() return result ~= nil end, 10)
          return result and #result.unreported or false
        ]],
        ms
      )
    end
    for _ = 1, 4 do
      eq(count_unreported(50), 1)
    end
    eq(count_unreported(600000), 0)
    nvim.cmd('edit a.quiet')
    nvim.lua([[
      vim.diagnostic.set(vim.api.nvim_create_namespace('quiet'), 0, { { lnum = 0, col = 0, message = 'wrong' } })
      vim.cmd('enew | bwipeout! a.quiet')
    ]])
    eq(count_unreported(50), 1, 'after a report')
  end)

  drive('language: the agent finds references through the editor', {
    init = init,
    files = FILES,
    setup = ('{ cmd = { %q }, settings = { agent = { default = { mode = "plan" } } } }'):format(
      support.server
    ),
    frozen = true,
  }, function(nvim)
    nvim.cmd('edit print.ts')
    wait_for_references(nvim)
    nvim.cmd('AgentPrompt who uses total')
    eq(
      get_last_output(nvim.wait_for_turn_end()),
      'cart.ts:3: /* ä𝔘 */ total(): number {  (in Cart)\nprint.ts:4: return cart.total();  (in print)\n'
        .. '[2 references in 2 files]\n'
    )
  end)

  drive('language: the agent fixes and formats a file that is in no buffer', {
    init = init,
    files = FILES,
    setup = FULL_MODE_SETUP,
    frozen = true,
  }, function(nvim)
    nvim.cmd('edit print.ts')
    wait_for_references(nvim)
    nvim.cmd('AgentPrompt fix the name')
    local output = get_last_output(nvim.wait_for_turn_end())
    assert(vim.startswith(output, 'applied `format`:\nuse.ts (+1 −1 lines)\n--- a/use.ts'), output)
    local fixed = FILES['use.ts']:gsub('%[  new Cart%(%)%.totl', '[new Cart().total')
    eq(table.concat(vim.fn.readfile(nvim.workspace .. '/use.ts'), '\n') .. '\n', fixed)
    eq(nvim.notices(), {})
  end)

  local pyright = start_server('python', {
    name = 'pyright',
    cmd = { 'node', modules .. 'pyright/langserver.index.js', '--stdio' },
  })

  ---Waits until pyright has loaded the project, so that it finds both uses.
  local function wait_for_pyright(nvim)
    local at_total =
      { kind = 'references', uri = vim.uri_from_fname(nvim.workspace .. '/cart.py'), limit = 9 }
    at_total.position = { line = 1, character = 9 }
    support.wait('pyright', function()
      local result = ask(nvim, at_total)
      return result and vim.deep_equal(list(result), { 'cart.py:1:8', 'report.py:5:20' })
    end)
  end

  drive('language: a patch of closed files is reported with the errors of all, from pyright', {
    init = pyright,
    files = PYTHON_FILES,
    setup = FULL_MODE_SETUP,
    frozen = true,
  }, function(nvim)
    nvim.cmd('edit cart.py')
    wait_for_pyright(nvim)
    nvim.cmd('AgentPrompt break both')
    local output = get_last_output(nvim.wait_for_turn_end())
    assert(output:find('The editor reports 2 new errors:', 1, true), output)
    assert(output:find('report.py:6:21: error: Cannot access attribute "totals"', 1, true), output)
    assert(output:find('extra.py:1:18: error: "Basket" is unknown import symbol', 1, true), output)
    eq(nvim.lua('return { vim.fn.bufexists("report.py"), vim.fn.bufexists("extra.py") }'), { 0, 0 })
  end)

  drive('language: the agent renames a symbol in open and closed files through pyright', {
    init = pyright,
    files = PYTHON_FILES,
    setup = FULL_MODE_SETUP,
    frozen = true,
  }, function(nvim)
    nvim.cmd('edit cart.py')
    wait_for_pyright(nvim)
    nvim.cmd('AgentPrompt call it amount')
    nvim.wait_for_turn_end()
    local function read(name)
      return table.concat(vim.fn.readfile(nvim.workspace .. '/' .. name), '\n') .. '\n'
    end
    eq(read('cart.py'), (PYTHON_FILES['cart.py']:gsub('total', 'amount')))
    eq(read('report.py'), (PYTHON_FILES['report.py']:gsub('cart%.total', 'cart.amount')))
    eq(nvim.lua('return vim.fn.getline(2)'), '    def amount(self) -> int:')
    eq(nvim.notices(), {})
  end)
end
