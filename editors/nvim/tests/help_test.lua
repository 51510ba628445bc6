-- The help matches the code: commands, options with defaults, keys, autocommands, highlights, links.

local support = require('tests.support')
local eq = support.eq

local help = assert(support.read(support.plugin .. '/doc/agentls.txt'))

---Returns the section of the help with a tag.
local function get_section(tag)
  local from = assert(help:find('%*' .. vim.pesc(tag) .. '%*'), tag)
  return help:sub(from, (help:find('\n====', from, true)))
end

---Returns the sorted captures of `pattern` in all Lua files except the generated one.
local function find_in_code(pattern)
  local captures = {}
  for name in vim.fs.dir(support.plugin .. '/lua/agentls', { depth = 3 }) do
    if vim.endswith(name, '.lua') and name ~= 'protocol.lua' then
      for capture in assert(support.read(support.plugin .. '/lua/agentls/' .. name)):gmatch(pattern) do
        captures[capture] = true
      end
    end
  end
  captures = vim.tbl_keys(captures)
  table.sort(captures)
  return captures
end

local function find_all(text, pattern)
  local matches = {}
  for word in text:gmatch(pattern) do
    matches[word] = true
  end
  matches = vim.tbl_keys(matches)
  table.sort(matches)
  return matches
end

return function(test)
  test('help: tags are valid and links have targets', function()
    local folder = support.home .. '/doc'
    support.write(folder .. '/agentls.txt', help)
    vim.cmd.helptags(folder)
    local tags = {}
    for line in io.lines(folder .. '/tags') do
      tags[line:match('^[^\t]+')] = true
    end
    assert(tags[':Agent'] and tags['agentls.setup()'])
    for line in io.lines(vim.env.VIMRUNTIME .. '/doc/tags') do
      tags[line:match('^[^\t]+')] = true
    end
    for link in help:gsub('%b[]', ''):gmatch('|([^|%s]+)|') do
      assert(tags[link], ('|%s| leads nowhere'):format(link))
    end
  end)

  test('help: lists exactly the existing commands', function()
    local commands = vim.tbl_keys(require('agentls.commands').definitions)
    table.sort(commands)
    eq(find_all(get_section('agentls-commands'), '%*:(%w+)%*'), commands)
    for name, command in pairs(require('agentls.commands').definitions) do
      local head = assert(help:match('\n(:[^\n]*' .. name .. '[^%w\n][^\n]*)%*:' .. name .. '%*'), name)
      eq(head:find('!', 1, true) ~= nil, command.bang == true, name .. ' with !')
      eq(head:find('[range]', 1, true) ~= nil, command.range == true, name .. ' with a range')
      eq(head:find('{', 1, true) ~= nil or head:find('|', 1, true) ~= nil, command.nargs ~= nil, name)
    end
  end)

  test('help: lists exactly the existing options with their defaults', function()
    local defaults, options = require('agentls.config').defaults, {}
    -- Options without a default are only in the types.
    local types = assert(support.read(support.plugin .. '/lua/agentls/config.lua'))
    local class_body = assert(types:match('class %(exact%) agentls%.Config\n(.-)\n\n'))
    for field in class_body:gmatch('@field ([%w_]+)') do
      table.insert(options, field)
    end
    table.sort(options)
    local section = get_section('agentls-options')
    local documented = vim.tbl_filter(function(name)
      return name ~= 'setup()'
    end, find_all(section, '%*agentls%.([%w_()]+)%*'))
    eq(documented, options)
    local function get_option_help(name)
      local from = assert(section:find(('*agentls.%s*'):format(name), 1, true))
      return section:sub(from, (section:find('\n[%w_]+ +%*', from)))
    end
    for name, value in pairs(defaults) do
      if type(value) ~= 'table' then
        assert(
          get_option_help(name):find(('(%s)'):format(tostring(value)), 1, true),
          name .. ': another default'
        )
      elseif name ~= 'keys' then
        for key, key_default in pairs(value) do
          assert(get_option_help(name):find(('`%s`'):format(key), 1, true), name .. '.' .. key)
          assert(
            get_option_help(name):find(('(%s)'):format(tostring(key_default)), 1, true),
            key .. ': another default'
          )
        end
      end
    end
  end)

  test('help: lists every key', function()
    local section, keys = get_section('agentls-keys'), require('agentls.config').defaults.keys
    assert(type(keys) == 'table')
    local documented = {}
    for line in section:gmatch('\n  (%S[^\n]+)') do
      local name = line:match('%s([%l_]+)$')
      if name and keys[name] then
        documented[name] = line:match('^%S+')
      end
    end
    documented.next, documented.previous = section:match('\n  (%S+) (%S+) +go to the next or previous prompt')
    eq(documented, keys)
  end)

  test('help: lists every autocommand and highlight', function()
    local autocommands = find_all(get_section('agentls-autocommands'), '\n  (Agent%u%w+)')
    local emitted = find_in_code("emit_event%('(%w+)'")
    vim.list_extend(emitted, find_in_code("make_question_effect%('(%w+)'"))
    vim.list_extend(emitted, find_in_code("pattern = '(Agent%w+)'"))
    table.sort(emitted)
    eq(autocommands, emitted)
    local documented, defined = {}, {}
    for group, link in get_section('agentls-highlights'):gmatch('\n  (Agentls%w+)[^\n]- (%w+)%f[\n]') do
      documented[group] = link ~= 'none' and link or nil
    end
    for group, link in
      assert(support.read(support.plugin .. '/lua/agentls/buffers.lua')):gmatch("\n  (Agentls%w+) = '(%w+)'")
    do
      defined[group] = link
    end
    eq(documented, defined)
  end)
end
