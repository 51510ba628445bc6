-- Answers `agent/languageQuery`: asks the language servers of a document. It must not know sessions.
--
-- A document that is not in a buffer is loaded into an unlisted one, so that its language servers start. Answers are
-- joined, and converted between the encoding of each language server and that of the agent's.

local async = require('agentls.async')

local M = {}

---How long language servers have, in ms: to attach to a buffer that was just loaded; to answer, all together (the agent
---waits for 5 s); and to report the problems that quick fixes are for. Tests give slow machines more.
M.limits_ms = { attach = 2500, answer = 4700, report = 1000 }
---Larger files are not loaded, in bytes.
local MAX_BYTES = 2 * 1024 * 1024

local METHODS = {
  definition = 'textDocument/definition',
  implementation = 'textDocument/implementation',
  typeDefinition = 'textDocument/typeDefinition',
  references = 'textDocument/references',
  incomingCalls = 'textDocument/prepareCallHierarchy',
  outgoingCalls = 'textDocument/prepareCallHierarchy',
  hover = 'textDocument/hover',
  documentSymbols = 'textDocument/documentSymbol',
  workspaceSymbols = 'workspace/symbol',
  rename = 'textDocument/rename',
  quickFixes = 'textDocument/codeAction',
  format = 'textDocument/formatting',
}

---What is then asked about each item of an answer.
local CALLS = { incomingCalls = 'callHierarchy/incomingCalls', outgoingCalls = 'callHierarchy/outgoingCalls' }

---Converts a column between two encodings.
---@param line string
---@param column integer
---@param from string
---@param to string
---@return integer
local function convert_column(line, column, from, to)
  if from == to then
    return column
  end
  if vim.fn.has('nvim-0.11') == 1 then
    local byte = from == 'utf-8' and math.min(column, #line) or vim.str_byteindex(line, from, column, false)
    return to == 'utf-8' and byte or vim.str_utfindex(line, to, byte, false)
  end
  local byte = math.min(column, #line)
  if from ~= 'utf-8' then
    local ok, index = pcall(vim.str_byteindex, line, column, from == 'utf-16')
    byte = ok and index or #line
  end
  if to == 'utf-8' then
    return byte
  end
  local utf32, utf16 = vim.str_utfindex(line, byte)
  return to == 'utf-16' and utf16 or utf32
end

---Returns a function that returns a line of a document, from its buffer or its file.
---@return fun(uri: string, row: integer): string
local function make_line_reader()
  local documents = {}
  return function(uri, row)
    local lines = documents[uri]
    if not lines then
      local name = vim.uri_to_fname(uri)
      local buffer = vim.fn.bufnr(vim.fn.fnameescape(name))
      if buffer > 0 and vim.api.nvim_buf_is_loaded(buffer) then
        lines = vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
      else
        local file = io.open(name, 'rb')
        lines = vim.split(file and file:read('*a') or '', '\r?\n')
        if file then
          file:close()
        end
      end
      documents[uri] = lines
    end
    return lines[row + 1] or ''
  end
end

---Returns the language servers of a buffer that answer `method`.
local function get_clients(buffer, method, own_id)
  return vim
    .iter(vim.lsp.get_clients({ bufnr = buffer, method = method }))
    :filter(function(client)
      return client.id ~= own_id
    end)
    :totable()
end

---Returns the buffer of a document, and whether it was loaded just now. Fails with a reason for the model.
---@param uri string
---@return integer? buffer
---@return boolean|string is_new_or_reason
function M.load_buffer(uri)
  local name = vim.uri_to_fname(uri)
  local buffer = vim.fn.bufadd(name)
  if vim.api.nvim_buf_is_loaded(buffer) then
    return buffer, false
  end
  local stat = vim.uv.fs_stat(name)
  if not stat or stat.type ~= 'file' or stat.size > MAX_BYTES then
    return nil, 'the editor cannot load ' .. vim.fn.fnamemodify(name, ':~:.')
  end
  local shortmess = vim.o.shortmess
  -- No question about a swap file.
  vim.o.shortmess = shortmess .. 'A'
  local ok, err = pcall(vim.fn.bufload, buffer)
  vim.o.shortmess = shortmess
  if not ok then
    return nil, tostring(err)
  end
  return buffer, true
end

---Whether a language server reports work in progress: until it has loaded a project, it finds nothing.
function M.is_loading(clients)
  return vim.iter(clients):any(function(client)
    return next(client.progress.pending) ~= nil
  end)
end

---Asks all clients, and returns their results by client, and whether all have answered.
---@return { client: vim.lsp.Client, result: any }[] answers
---@return boolean is_complete
local function request_all(clients, method, make_params, buffer, deadline)
  local answers, pending, requests = {}, #clients, {}
  for _, client in ipairs(clients) do
    local function on_answer(_, result)
      pending = pending - 1
      requests[client] = nil
      if result and result ~= vim.NIL and next(result) ~= nil then
        table.insert(answers, { client = client, result = result })
      end
    end
    local params = make_params(client)
    local sent, id
    if vim.fn.has('nvim-0.11') == 1 then
      sent, id = client:request(method, params, on_answer, buffer)
    else
      sent, id = client.request(method, params, on_answer, buffer)
    end
    if sent then
      requests[client] = id
    else
      pending = pending - 1
    end
  end
  async.wait_until(deadline, function()
    return pending == 0
  end)
  for client, id in pairs(requests) do
    if vim.fn.has('nvim-0.11') == 1 then
      client:cancel_request(id)
    else
      client.cancel_request(id)
    end
  end
  return answers, pending == 0
end

---Adds symbols of a language server, nested ones after what contains them.
local function add_symbols(list, symbols, uri, to_range, container)
  for _, symbol in ipairs(symbols) do
    local location = symbol.location or { uri = uri, range = symbol.range }
    -- A location without a range is resolved only on demand; its start is all that is needed.
    local range = location.range
      or { start = { line = 0, character = 0 }, ['end'] = { line = 0, character = 0 } }
    table.insert(list, {
      name = symbol.name,
      kind = symbol.kind,
      uri = location.uri,
      range = to_range(location.uri, range),
      selectionRange = symbol.selectionRange and to_range(location.uri, symbol.selectionRange) or nil,
      containerName = container or symbol.containerName,
    })
    add_symbols(list, symbol.children or {}, uri, to_range, symbol.name)
  end
end

---Adds the locations of a result: one, a list, or a list of links.
local function add_locations(list, result, to_range)
  if result.uri or result.targetUri then
    result = { result }
  end
  for _, location in ipairs(result) do
    local uri = location.uri or location.targetUri
    local range = location.range or location.targetSelectionRange or location.targetRange
    table.insert(list, { uri = uri, range = to_range(uri, range) })
  end
end

---Asks for the calls of or in the functions of an answer, and adds their locations. Returns false after the deadline.
---@return boolean
local function add_calls(list, kind, answer, buffer, deadline, to_range)
  for _, item in ipairs(answer.result) do
    local function make_params()
      return { item = item }
    end
    local answers, is_complete = request_all({ answer.client }, CALLS[kind], make_params, buffer, deadline)
    if not is_complete then
      return false
    end
    for _, call in ipairs(answers[1] and answers[1].result or {}) do
      for _, range in ipairs(call.from and call.fromRanges or { call.to.selectionRange }) do
        local uri = (call.from or call.to).uri
        table.insert(list, { uri = uri, range = to_range(uri, range) })
      end
    end
  end
  return true
end

---@return agentls.DocumentEdits
local function to_document_edits(uri, edits, to_range)
  local converted = vim.tbl_map(function(edit)
    return { range = to_range(uri, edit.range), newText = edit.newText }
  end, edits)
  return { uri = uri, edits = converted }
end

---Adds the edits of a workspace edit, by document. Returns false if it creates, renames, or deletes files.
---@return boolean
local function add_edits(list, result, to_range)
  local changes = result.documentChanges
  if not changes or changes == vim.NIL then
    changes = {}
    for uri, edits in pairs(result.changes or {}) do
      table.insert(changes, { textDocument = { uri = uri }, edits = edits })
    end
  end
  for _, change in ipairs(changes) do
    if change.kind then
      return false
    end
    table.insert(list, to_document_edits(change.textDocument.uri, change.edits, to_range))
  end
  return true
end

---Adds the quick fixes of an answer that consist of edits alone. Asks for edits that are not computed yet.
local function add_fixes(list, answer, buffer, deadline, to_range)
  for _, action in ipairs(answer.result) do
    local is_fix = vim.startswith((action.kind or '') .. '.', 'quickfix.') and not action.disabled
    local filter = { id = answer.client.id, method = 'codeAction/resolve' }
    if is_fix and not action.edit and #vim.lsp.get_clients(filter) > 0 then
      local function make_params()
        return action
      end
      local resolved = request_all({ answer.client }, 'codeAction/resolve', make_params, buffer, deadline)
      action = resolved[1] and resolved[1].result or action
    end
    local edits = {}
    if is_fix and action.edit and add_edits(edits, action.edit, to_range) and #edits > 0 then
      table.insert(list, { title = action.title, isPreferred = action.isPreferred == true, edits = edits })
    end
  end
end

---Returns what a language server has reported about a line, as it has sent it.
local function get_problems(client, buffer, line)
  local problems = {}
  for _, is_pull in ipairs({ false, true }) do
    local namespace = vim.lsp.diagnostic.get_namespace(client.id, is_pull)
    for _, problem in ipairs(vim.diagnostic.get(buffer, { namespace = namespace })) do
      local is_there = problem.lnum <= line and line <= (problem.end_lnum or problem.lnum)
      table.insert(problems, is_there and vim.tbl_get(problem, 'user_data', 'lsp') or nil)
    end
  end
  return problems
end

---Returns the clients to ask and a buffer for the request, or nil and a reason for the model.
local function find_clients(params, method, own_id, deadline)
  if params.kind == 'workspaceSymbols' then
    local clients = get_clients(nil, method, own_id)
    if #clients == 0 then
      return nil, 'no language server runs that finds symbols of the workspace'
    end
    return clients, vim.api.nvim_get_current_buf()
  end
  local buffer, is_new = M.load_buffer(params.uri)
  if not buffer then
    return nil, is_new
  end
  local clients = get_clients(buffer, method, own_id)
  if #clients == 0 then
    local is_starting = is_new or #vim.lsp.get_clients({ bufnr = buffer }) > 0
    async.wait_until(is_starting and math.min(vim.uv.now() + M.limits_ms.attach, deadline) or 0, function()
      clients = get_clients(buffer, method, own_id)
      return #clients > 0
    end)
  end
  if #clients == 0 then
    local name = vim.fn.fnamemodify(vim.uri_to_fname(params.uri), ':~:.')
    return nil, ('no language server of the editor answers %s for %s'):format(method, name)
  end
  return clients, buffer
end

---Handles `agent/languageQuery`. Runs in a coroutine, as Neovim's handlers of requests do.
---@param params agentls.LanguageQueryParams
---@param encoding 'utf-8'|'utf-16'|'utf-32'
---@param own_id integer? The client of the agent, which is not asked.
---@return agentls.LanguageQueryResult? result
---@return string? problem What prevents an answer, for the model.
function M.answer_query(params, encoding, own_id)
  local method = METHODS[params.kind]
  if not method then
    return nil, ('the editor does not answer `%s`'):format(tostring(params.kind))
  end
  local deadline = vim.uv.now() + M.limits_ms.answer
  local clients, buffer = find_clients(params, method, own_id, deadline)
  if not clients then
    return nil, buffer
  end
  local read_line = make_line_reader()
  local function convert(uri, position, from, to)
    local line = from ~= to and read_line(uri, position.line) or ''
    return { line = position.line, character = convert_column(line, position.character, from, to) }
  end
  local function make_params(client)
    local position = params.position
    if params.kind == 'quickFixes' then
      local last = #read_line(params.uri, position.line)
      local to = convert_column(read_line(params.uri, position.line), last, 'utf-8', client.offset_encoding)
      return {
        textDocument = { uri = vim.uri_from_bufnr(buffer) },
        range = { start = position, ['end'] = { line = position.line, character = to } },
        context = { diagnostics = get_problems(client, buffer, position.line), only = { 'quickfix' } },
      }
    end
    return {
      textDocument = params.uri and { uri = vim.uri_from_bufnr(buffer) } or nil,
      position = position and convert(params.uri, position, encoding, client.offset_encoding) or nil,
      context = params.kind == 'references' and { includeDeclaration = true } or nil,
      query = params.kind == 'workspaceSymbols' and params.query or nil,
      newName = params.kind == 'rename' and params.query or nil,
      options = params.kind == 'format' and {
        tabSize = vim.lsp.util.get_effective_tabstop(buffer),
        insertSpaces = vim.bo[buffer].expandtab,
      } or nil,
    }
  end
  if params.kind == 'quickFixes' then
    require('agentls.fresh_diagnostics').with_reports(
      { params.uri },
      M.limits_ms.report,
      own_id or -1,
      function() end
    )
  end
  local tick = vim.api.nvim_buf_get_changedtick(buffer)
  local answers, is_complete = request_all(clients, method, make_params, buffer, deadline)
  if #answers == 0 and is_complete and M.is_loading(clients) then
    async.wait_until(deadline, function()
      return not M.is_loading(clients)
    end)
    answers, is_complete = request_all(clients, method, make_params, buffer, deadline)
  end
  if #answers == 0 and (not is_complete or M.is_loading(clients)) then
    return nil, 'the language server is still loading the project; try again in a while'
  end
  local locations, symbols, edits, fixes, texts = {}, {}, {}, {}, {}
  for _, answer in ipairs(answers) do
    local function to_range(uri, range)
      local from = answer.client.offset_encoding
      return {
        start = convert(uri, range.start, from, encoding),
        ['end'] = convert(uri, range['end'], from, encoding),
      }
    end
    if params.kind == 'rename' then
      -- Two language servers would rename the same places twice.
      if #edits == 0 and not add_edits(edits, answer.result, to_range) then
        return nil, 'the rename would also create, rename, or delete files'
      end
    elseif params.kind == 'format' then
      -- Two formatters would replace the same text.
      if #edits == 0 then
        table.insert(edits, to_document_edits(params.uri, answer.result, to_range))
      end
    elseif params.kind == 'quickFixes' then
      add_fixes(fixes, answer, buffer, deadline, to_range)
    elseif CALLS[params.kind] then
      if not add_calls(locations, params.kind, answer, buffer, deadline, to_range) then
        return nil, 'the language server does not answer in time; try again in a while'
      end
    elseif params.kind == 'hover' then
      vim.list_extend(texts, vim.lsp.util.convert_input_to_markdown_lines(answer.result.contents))
    elseif vim.endswith(params.kind, 'Symbols') then
      add_symbols(symbols, answer.result, params.uri, to_range)
    else
      add_locations(locations, answer.result, to_range)
    end
  end
  if #edits + #fixes > 0 and vim.api.nvim_buf_get_changedtick(buffer) ~= tick then
    return nil, 'the document has changed meanwhile; try again'
  end
  return {
    locations = vim.list_slice(locations, 1, params.limit),
    symbols = vim.list_slice(symbols, 1, params.limit),
    edits = edits,
    fixes = vim.list_slice(fixes, 1, params.limit),
    text = #texts > 0 and table.concat(texts, '\n') or nil,
  }
end

return M
