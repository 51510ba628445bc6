local support = require('tests.support')
local eq = support.eq

return function(test)
  test('setup: merges options into the defaults', function()
    local config = require('agentls.config')
    local options, problems = config.resolve_options({
      window = { position = 'left' },
      keys = { approve = 'y', deny = false },
      output_lines = 10,
    })
    eq(problems, {})
    eq({ options.window.position, options.window.size, options.output_lines }, { 'left', 0.45, 10 })
    eq({ options.keys.approve, options.keys.deny, options.keys.diff }, { 'y', false, 'd' })
    eq(config.resolve_options({ keys = false }).keys, false)
    eq(config.defaults.window.position, 'right')
  end)

  test('setup: reports invalid options with the nearest name, and applies the rest', function()
    local config = require('agentls.config')
    local options, problems = config.resolve_options({
      windw = {},
      window = { positon = 'left', position = 'rigth', size = 30 },
      keys = { aprove = 'y' },
      output_lines = 'many',
      cmd = 'agentls',
      xyzzy = 1,
      prompt = 3,
    })
    local report = table.concat(problems, '\n')
    for _, expected in ipairs({
      'unknown option `windw`; did you mean `window`?',
      'unknown option `window.positon`; did you mean `window.position`?',
      '(right?)',
      'unknown option `keys.aprove`; did you mean `keys.approve`?',
      '`output_lines` must be a whole number from 1, not "many"',
      '`cmd` must be a list of strings, not "agentls"',
      'unknown option `xyzzy`',
      '`prompt` must be a table, not 3',
    }) do
      assert(report:find(expected, 1, true), ('"%s" is not in:\n%s'):format(expected, report))
    end
    eq(#problems, 8)
    eq({ options.window.size, options.window.position, options.output_lines }, { 30, 'right', 2000 })
    eq(select(2, config.resolve_options('x')), { 'the options must be a table, not "x"' })
  end)

  test('setup: every option has a rule', function()
    local config = require('agentls.config')
    local _, problems = config.resolve_options(config.defaults)
    eq(problems, {})
  end)

  test('setup: the option types match the configuration types', function()
    local function read_fields(name, class)
      local fields = {}
      for line in io.lines(('%s/lua/agentls/%s.lua'):format(support.plugin, name)) do
        local field, annotation = line:match('^%-%-%-@field ([%w_]+)%??(.*)$')
        if field then
          table.insert(fields, field .. annotation:gsub(class, 'X'))
        end
      end
      return fields
    end
    eq(read_fields('options', 'agentls%.Options'), read_fields('config', 'agentls%.Config'))
  end)

  test('format: text and numbers', function()
    local format = require('agentls.format')
    eq(
      { format.duration(900), format.duration(1130), format.duration(61000), format.duration(300000) },
      { '900 ms', '1.1 s', '61 s', '5 min' }
    )
    eq({
      format.token_count(999),
      format.token_count(5120),
      format.token_count(200000),
      format.token_count(2000000),
    }, { '999', '5.1k', '200k', '2.0M' })
    eq({ format.usd(0), format.usd(0.0042), format.usd(1.234) }, { '$0', '$0.0042', '$1.23' })
    eq({ format.cost(), format.cost(0), format.cost(0.5) }, { 'price unknown', 'free', '$0.50' })
    eq(format.split_lines('a\r\nb\n\nc'), { 'a', 'b', '', 'c' })
    eq(format.split_lines('\r\n'), { '' })
    eq(format.truncate('äöü', 3), 'ä…')
    local invalid =
      { 'a\195', '\195(', '\237\160\128', '\244\144\128\128', '\192\128', '\255', 'a\128', 'ä\0\246\0' }
    eq(
      vim.tbl_map(format.sanitize_utf8, invalid),
      { 'a�', '�(', '���', '����', '��', '�', 'a�', 'ä\0�\0' }
    )
    eq(
      { format.sanitize_utf8('漢\0😀\r\n\244\143\191\191'), format.sanitize_utf8('') },
      { '漢\0😀\r\n\244\143\191\191', '' }
    )
    eq(
      { format.find_nearest('modell', { 'mode', 'model' }), (format.find_nearest('zzzzz', { 'mode' })) },
      { 'model', nil }
    )
  end)

  test('a server with another protocol version, or none, is refused in one sentence', function()
    local client = require('agentls.client')
    local function announce_version(major)
      return { experimental = { agent = { protocolVersion = { major = major, minor = 3 } } } }
    end
    eq(client.find_incompatibility(announce_version(1)), nil)
    eq(
      client.find_incompatibility(announce_version(2)),
      'agentls: the server uses protocol 2.3, but this plugin uses 1.0; update the plugin.'
    )
    assert(client.find_incompatibility(announce_version(0)):find('update the server', 1, true))
    assert(client.find_incompatibility({}):find('does not start an agentls server', 1, true))
  end)
end
