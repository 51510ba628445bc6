-- Whatever happens to a buffer, the changes that go out reproduce its text.

local support = require('tests.support')
local eq = support.eq

---Returns where the lines of a text start. In the protocol, lines end with \n, \r\n, or \r.
local function find_line_starts(text)
  local starts, at = { 1 }, 1
  while true do
    local line_end = text:find('[\r\n]', at)
    if not line_end then
      return starts
    end
    at = line_end + (text:sub(line_end, line_end + 1) == '\r\n' and 2 or 1)
    table.insert(starts, at)
  end
end

---Returns the byte at a UTF-16 position, clamped as the protocol specifies.
local function to_byte_offset(text, position)
  local start = find_line_starts(text)[position.line + 1]
  if not start then
    return #text + 1
  end
  local line = text:match('^[^\r\n]*', start)
  local units, at = 0, 1
  while at <= #line do
    local byte = line:byte(at)
    local length = byte >= 0xf0 and 4 or byte >= 0xe0 and 3 or byte >= 0xc0 and 2 or 1
    units = units + (length == 4 and 2 or 1)
    if units > position.character then
      break
    end
    at = at + length
  end
  return start + at - 1
end

local function apply_changes(text, changes)
  for _, change in ipairs(changes) do
    if change.range then
      local from, to = to_byte_offset(text, change.range.start), to_byte_offset(text, change.range['end'])
      text = text:sub(1, from - 1) .. change.text .. text:sub(to)
    else
      text = change.text
    end
  end
  return text
end

---Simulates a server that applies what goes out. It drops documents that match the disk.
local function simulate_server()
  local document_sync = require('agentls.document_sync')
  document_sync.reset_all()
  local self = { ranges = 0, full_changes = 0, bytes = 0 }
  self.id = vim.lsp.start({
    name = 'follower',
    flags = { debounce_text_changes = 0 },
    cmd = function()
      return {
        request = function(method, _, callback)
          local sync_options = { openClose = true, change = 2, save = true }
          callback(
            nil,
            method == 'initialize' and { capabilities = { textDocumentSync = sync_options } } or nil
          )
          return true, 1
        end,
        notify = function(method, params)
          params = document_sync.rewrite_notification(method, params)
          if method == 'textDocument/didOpen' then
            self.text, self.dropped = params.textDocument.text, true
          elseif method == 'textDocument/didSave' then
            self.dropped = true
          elseif method == 'textDocument/didChange' then
            local ranged = params.contentChanges[1].range ~= nil
            self.ranges, self.full_changes =
              self.ranges + (ranged and 1 or 0), self.full_changes + (ranged and 0 or 1)
            self.bytes = self.bytes + #vim.json.encode(params.contentChanges)
            assert(
              not (ranged and self.dropped),
              'a range went out for a text that the server may have dropped'
            )
            self.text, self.dropped = apply_changes(self.text, params.contentChanges), false
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
    reuse_client = function()
      return false
    end,
  })
  support.wait('the document to be open', function()
    return self.text
  end)
  return self
end

local FRAGMENTS = { 'a', 'word', 'ü', '漢字', '😀', '🏳️‍🌈', ' ', '\t', 'é', 'x😀y' }

return function(test)
  local function open_buffer(text)
    local path = ('%s/documents/%d.txt'):format(support.home, math.random(1e9))
    support.write(path, text)
    vim.cmd('new | silent! only!')
    vim.cmd('edit! ' .. vim.fn.fnameescape(path))
    return vim.api.nvim_get_current_buf()
  end

  local function run_main_loop()
    local has_run = false
    vim.schedule(function()
      has_run = true
    end)
    vim.wait(1000, function()
      return has_run
    end, 1)
  end

  for name, text in pairs({
    plain = ('one two\nthree 😀 four\nüß\n\n'):rep(5),
    dos = ('one two\r\nthree 😀 four\r\nüß\r\n'):rep(5),
    ['without a line end'] = 'one\ntwo',
    ['mixed line ends'] = 'one\r\ntwo\nthree\rfour\r\n',
    empty = '',
    ['bytes that are no text'] = 'a\n\255\254b\nc\n',
  }) do
    test('document sync: random edits reproduce the text: ' .. name, function()
      local sanitize_utf8, ranges = require('agentls.format').sanitize_utf8, 0
      for seed = 1, 15 do
        math.randomseed(seed)
        local buffer, server = open_buffer(text), simulate_server()
        local function random_text()
          local parts = {}
          for _ = 1, math.random(0, 4) do
            table.insert(parts, FRAGMENTS[math.random(#FRAGMENTS)])
          end
          return table.concat(parts)
        end
        local history = {}
        local function run(command)
          table.insert(history, command)
          pcall(vim.cmd --[[@as fun(c: string)]], 'silent! ' .. command)
          -- As when the plugin reloads a file.
          if not vim.lsp.buf_is_attached(buffer, server.id) then
            vim.lsp.buf_attach_client(buffer, server.id)
          end
        end
        local actions = {
          function()
            local row = math.random(vim.api.nvim_buf_line_count(0))
            local line = vim.fn.getline(row)
            local column = vim.fn.byteidx(line, math.random(0, vim.fn.strchars(line)))
            table.insert(history, ('insert at %d %d'):format(row, column))
            pcall(
              vim.api.nvim_buf_set_text,
              0,
              row - 1,
              column,
              row - 1,
              column,
              { random_text(), random_text() }
            )
          end,
          function()
            run(('%dnormal! A%s'):format(math.random(vim.api.nvim_buf_line_count(0)), random_text()))
          end,
          function()
            run(
              ('%dnormal! %s'):format(
                math.random(vim.api.nvim_buf_line_count(0)),
                ({ 'dd', 'x', 'yyp', 'J', 'D', 'xp', 'o', '~' })[math.random(8)]
              )
            )
          end,
          function()
            run(({
              'undo',
              'redo',
              'earlier 3',
              'later 2',
              '%s/o/öö/ge',
              'g/e/s/e/E/e',
              '$move 0',
              '1copy $',
              '%delete',
              '2,3join',
            })[math.random(10)])
          end,
          function()
            run(
              ({ 'write', 'edit!', 'set ff=dos', 'set ff=unix', 'set noeol nofixeol', 'set eol' })[math.random(
                6
              )]
            )
          end,
        }
        for _ = 1, 60 do
          actions[math.random(10) == 1 and #actions or math.random(#actions - 1)]()
          if math.random(4) > 1 then
            run_main_loop()
          end
          -- A changed option goes out with the next change, as in Neovim's own full sync.
          local last = history[#history]
          if
            not last:find('^set')
            and sanitize_utf8(vim.lsp._buf_get_full_text(buffer)) ~= sanitize_utf8(server.text)
          then
            vim.api.nvim_buf_set_lines(buffer, -1, -1, false, { 'on' })
            run_main_loop()
            eq(
              { sanitize_utf8(server.text) },
              { sanitize_utf8(vim.lsp._buf_get_full_text(buffer)) },
              ('seed %d: %s'):format(seed, table.concat(history, ' | '))
            )
          end
        end
        ranges = ranges + server.ranges
        vim.cmd('bwipeout!')
        vim.lsp.get_client_by_id(server.id):stop(true)
      end
      assert(ranges > 50 or name:find('bytes') or name:find('mixed'), ranges)
    end)
  end

  test('document sync: a keystroke in a long text sends only its change', function()
    open_buffer(('a line of some words\n'):rep(60000))
    local server = simulate_server()
    vim.cmd('normal! ix')
    run_main_loop()
    eq(server.full_changes, 1)
    server.bytes = 0
    for _ = 1, 20 do
      vim.cmd('normal! ay')
      run_main_loop()
    end
    eq({ server.ranges, server.full_changes }, { 20, 1 })
    assert(server.bytes < 5000, server.bytes)
    eq(server.text, vim.lsp._buf_get_full_text(0))
    -- After a save, the server may drop the document.
    vim.cmd('silent write')
    vim.cmd('normal! ay')
    eq(server.full_changes, 2)
    vim.cmd('bwipeout!')
  end)
end
