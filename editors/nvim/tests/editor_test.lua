-- The server's requests to the editor, called directly; buffer_edits_test.lua uses the server.

local support = require('tests.support')
local eq = support.eq

---A file in a buffer that a language client follows, as the plugin's does: versions are counted.
local function open_file(text, name)
  local path = ('%s/editor/%s-%d.txt'):format(support.home, name or 'file', math.random(1e9))
  support.write(path, text)
  -- The last window may belong to the chat of another test.
  vim.cmd('new | silent! only!')
  vim.cmd.edit(vim.fn.fnameescape(path))
  local buffer = vim.api.nvim_get_current_buf()
  local changes = {}
  local id = vim.lsp.start({
    name = 'fake',
    flags = { debounce_text_changes = 0 },
    cmd = function()
      return {
        request = function(method, _, callback)
          if method == 'initialize' then
            callback(nil, { capabilities = { textDocumentSync = { openClose = true, change = 2 } } })
          end
          return true, 1
        end,
        notify = function(method, params)
          if method == 'textDocument/didChange' then
            table.insert(changes, params.textDocument.version)
          end
          return true
        end,
        is_closing = function()
          return false
        end,
        terminate = function() end,
      }
    end,
  }, {
    bufnr = buffer,
    reuse_client = function()
      return false
    end,
  })
  support.wait('the client', function()
    return vim.lsp.buf_is_attached(buffer, id) and vim.lsp.get_client_by_id(id).initialized
  end)
  return { buffer = buffer, path = path, uri = vim.uri_from_bufnr(buffer), changes = changes }
end

local function lines(file)
  return vim.api.nvim_buf_get_lines(file.buffer, 0, -1, false)
end

---Replaces a part of a line, in an edit of `version`.
local function build_edit(file, version, line, from, to, new_text)
  local range = { start = { line = line, character = from }, ['end'] = { line = line, character = to } }
  return require('agentls.editor').apply_edit({
    edit = {
      documentChanges = {
        {
          textDocument = { uri = file.uri, version = version },
          edits = { { range = range, newText = new_text } },
        },
      },
    },
  }, 'utf-16')
end

local function version(file)
  return vim.lsp.util.buf_versions[file.buffer]
end

local function type_keys(file, keys)
  vim.api.nvim_set_current_buf(file.buffer)
  vim.api.nvim_feedkeys(vim.api.nvim_replace_termcodes(keys, true, false, true), 'xt', false)
end

return function(test)
  test('editor: an edit of the current version is applied and synced before the response', function()
    local file = open_file('one\ntwo\n')
    eq(build_edit(file, version(file), 0, 0, 3, 'ONE'), { applied = true })
    eq(lines(file), { 'ONE', 'two' })
    eq(#file.changes, 1)
    eq(file.changes[1], version(file))
  end)

  test('editor: an edit of an older version is refused, and typed text stays', function()
    local file = open_file('one\ntwo\n')
    local old_version = version(file)
    type_keys(file, 'ggAtyped<Esc>')
    local answer = build_edit(file, old_version, 0, 0, 3, 'ONE')
    eq({ answer.applied, answer.failedChange }, { false, 0 })
    assert(answer.failureReason:find('has changed', 1, true), answer.failureReason)
    eq(lines(file), { 'onetyped', 'two' })
  end)

  test('editor: an edit of several documents is all or nothing', function()
    local first, second = open_file('one\n', 'a'), open_file('two\n', 'b')
    local stale_version = version(second)
    type_keys(second, 'ggAx<Esc>')
    local range = { start = { line = 0, character = 0 }, ['end'] = { line = 0, character = 3 } }
    local answer = require('agentls.editor').apply_edit({
      edit = {
        documentChanges = {
          {
            textDocument = { uri = first.uri, version = version(first) },
            edits = { { range = range, newText = 'ONE' } },
          },
          {
            textDocument = { uri = second.uri, version = stale_version },
            edits = { { range = range, newText = 'TWO' } },
          },
        },
      },
    }, 'utf-16')
    eq({ answer.applied, answer.failedChange }, { false, 1 })
    eq({ lines(first), lines(second) }, { { 'one' }, { 'twox' } })
  end)

  test('editor: refuses buffers that are closed or not modifiable, and file operations', function()
    local file = open_file('one\n')
    vim.bo[file.buffer].modifiable = false
    assert(build_edit(file, version(file), 0, 0, 1, 'x').failureReason:find('not modifiable', 1, true))
    file.uri = vim.uri_from_fname(support.home .. '/nowhere.txt')
    assert(build_edit(file, 0, 0, 0, 1, 'x').failureReason:find('not open', 1, true))
    local create = { edit = { documentChanges = { { kind = 'create', uri = file.uri } } } }
    eq(require('agentls.editor').apply_edit(create, 'utf-16').applied, false)
  end)

  test('editor: the edits of a turn are one undo step, and typing is another', function()
    local editor = require('agentls.editor')
    local file = open_file('one\ntwo\nthree\n')
    type_keys(file, 'ggAa<Esc>')
    editor.begin_turn()
    eq(build_edit(file, version(file), 1, 0, 3, 'TWO').applied, true)
    eq(build_edit(file, version(file), 2, 0, 5, 'THREE').applied, true)
    type_keys(file, 'GAb<Esc>')
    eq(lines(file), { 'onea', 'TWO', 'THREEb' })
    type_keys(file, 'u')
    eq(lines(file), { 'onea', 'TWO', 'THREE' })
    type_keys(file, 'u')
    eq(lines(file), { 'onea', 'two', 'three' })
    type_keys(file, 'u')
    eq(lines(file), { 'one', 'two', 'three' })
  end)

  test('editor: typing between two edits, or a new turn, starts another undo step', function()
    local editor = require('agentls.editor')
    local file = open_file('one\ntwo\nthree\n')
    editor.begin_turn()
    build_edit(file, version(file), 0, 0, 3, 'ONE')
    type_keys(file, 'GAb<Esc>')
    build_edit(file, version(file), 1, 0, 3, 'TWO')
    type_keys(file, 'u')
    eq(lines(file), { 'ONE', 'two', 'threeb' })
    type_keys(file, '<C-r>')
    editor.begin_turn()
    build_edit(file, version(file), 2, 0, 5, 'THREE')
    type_keys(file, 'u')
    eq(lines(file), { 'ONE', 'TWO', 'threeb' })
  end)

  test('editor: saving keeps the undo step', function()
    local editor = require('agentls.editor')
    local file = open_file('one\r\ntwo\r\n')
    editor.begin_turn()
    build_edit(file, version(file), 0, 0, 3, 'ONE')
    eq(editor.save_documents({ uris = { file.uri } }), { saved = { file.uri }, failed = {} })
    eq(support.read(file.path), 'ONE\r\ntwo\r\n')
    build_edit(file, version(file), 1, 0, 3, 'TWO')
    type_keys(file, 'u')
    eq(lines(file), { 'one', 'two' })
    eq(editor.save_documents({ uris = { file.uri } }).saved, { file.uri })
  end)

  test('editor: a file that changed on disk is not overwritten, and nothing prompts', function()
    local editor = require('agentls.editor')
    local file = open_file('one\n')
    build_edit(file, version(file), 0, 0, 3, 'ONE')
    support.write(file.path, 'someone else was here\n')
    vim.uv.fs_utime(file.path, os.time() + 10, os.time() + 10)
    local answer = editor.save_documents({ uris = { file.uri, vim.uri_from_fname('/nowhere') } })
    eq(#answer.failed, 2)
    assert(answer.failed[1].reason:find('changed on disk', 1, true), answer.failed[1].reason)
    eq(support.read(file.path), 'someone else was here\n')
    eq(lines(file), { 'ONE' })
  end)

  test('editor: autocommands run on save unless disabled', function()
    local editor, config = require('agentls.editor'), require('agentls.config')
    local file = open_file('one\n')
    local group = vim.api.nvim_create_augroup('test.save', {})
    vim.api.nvim_create_autocmd('BufWritePre', {
      group = group,
      buffer = file.buffer,
      callback = function()
        vim.api.nvim_buf_set_lines(file.buffer, -1, -1, false, { 'formatted' })
      end,
    })
    build_edit(file, version(file), 0, 0, 3, 'ONE')
    editor.save_documents({ uris = { file.uri } })
    eq(support.read(file.path), 'ONE\nformatted\n')
    config.current.save_autocmds = false
    build_edit(file, version(file), 0, 0, 3, 'TWO')
    editor.save_documents({ uris = { file.uri } })
    config.current.save_autocmds = true
    eq(support.read(file.path), 'TWO\nformatted\n')
    vim.api.nvim_del_augroup_by_id(group)
  end)

  test('editor: diagnostics use protocol positions', function()
    local editor = require('agentls.editor')
    local file = open_file('eins\nzwei äöü𝄞 x\n')
    local namespace = vim.api.nvim_create_namespace('test.diagnostics')
    local column = #'zwei äöü𝄞 '
    vim.diagnostic.set(namespace, file.buffer, {
      {
        lnum = 1,
        col = column,
        end_lnum = 1,
        end_col = column + 1,
        severity = vim.diagnostic.severity.WARN,
        message = 'never used',
        source = 'lint',
      },
    })
    local function get_diagnostics(params, encoding)
      return vim.tbl_filter(function(diagnostic)
        return diagnostic.uri == file.uri
      end, editor.get_diagnostics(params, encoding).diagnostics)
    end
    eq(get_diagnostics({ uri = file.uri }, 'utf-16'), {
      {
        uri = file.uri,
        range = { start = { line = 1, character = 11 }, ['end'] = { line = 1, character = 12 } },
        severity = 'warning',
        message = 'never used',
        source = 'lint',
      },
    })
    eq(get_diagnostics({}, 'utf-8')[1].range.start, { line = 1, character = column })
    eq(editor.get_diagnostics({ uri = vim.uri_from_fname('/nowhere') }, 'utf-16'), { diagnostics = {} })
    vim.diagnostic.set(namespace, file.buffer, {})
    eq(get_diagnostics({}, 'utf-16'), {})
  end)

  test('editor: a document never opens in a chat window', function()
    local editor = require('agentls.editor')
    local file = open_file('eins\nzwei äöü x\n')
    vim.cmd('vsplit')
    local chat = vim.api.nvim_get_current_win()
    vim.api.nvim_win_set_buf(chat, vim.api.nvim_create_buf(false, true))
    local other = support.home .. '/editor/other.txt'
    support.write(other, 'a\nb\n')
    local selection = { start = { line = 1, character = 9 }, ['end'] = { line = 1, character = 9 } }
    eq(editor.show_document({ uri = file.uri, selection = selection }, 'utf-16'), { success = true })
    eq(vim.api.nvim_get_current_win(), chat)
    eq(
      editor.show_document({ uri = vim.uri_from_fname(other), takeFocus = true }, 'utf-16'),
      { success = true }
    )
    assert(vim.api.nvim_get_current_win() ~= chat)
    eq(vim.api.nvim_buf_get_name(0), other)
    vim.api.nvim_set_current_buf(file.buffer)
    eq(vim.api.nvim_win_get_cursor(0), { 2, 12 })
  end)

  test("editor: Neovim's own handler accepts a stale edit", function()
    local file = open_file('one\n')
    type_keys(file, 'ggAx<Esc>')
    local stale_version = version(file)
    type_keys(file, 'ggAy<Esc>')
    local range = { start = { line = 0, character = 0 }, ['end'] = { line = 0, character = 3 } }
    local client = vim.lsp.get_clients({ bufnr = file.buffer })[1]
    local params = {
      edit = {
        documentChanges = {
          {
            textDocument = { uri = file.uri, version = stale_version },
            edits = { { range = range, newText = 'ONE' } },
          },
        },
      },
    }
    local answer = vim.lsp.handlers['workspace/applyEdit'](nil, params, { client_id = client.id })
    eq(answer.applied, true, 'if this fails, our own check may be needed no more')
    eq(lines(file), { 'onexy' })
  end)
end
