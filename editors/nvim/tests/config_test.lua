local support = require('tests.support')
local eq = support.eq

return function(test)
  test('setup: options are taken, the rest are defaults', function()
    local config = require('agentls.config')
    local taken, problems = config.resolve({
      window = { position = 'left' },
      keys = { approve = 'y', deny = false },
      output_lines = 10,
    })
    eq(problems, {})
    eq({ taken.window.position, taken.window.size, taken.output_lines }, { 'left', 0.45, 10 })
    eq({ taken.keys.approve, taken.keys.deny, taken.keys.diff }, { 'y', false, 'd' })
    eq(config.resolve({ keys = false }).keys, false)
    eq(config.defaults.window.position, 'right')
  end)

  test('setup: wrong options are named, with the nearest right one, and the rest counts', function()
    local config = require('agentls.config')
    local taken, problems = config.resolve({
      windw = {},
      window = { positon = 'left', position = 'rigth', size = 30 },
      keys = { aprove = 'y' },
      output_lines = 'many',
      cmd = 'agentls',
      xyzzy = 1,
      prompt = 3,
    })
    local all = table.concat(problems, '\n')
    for _, words in ipairs({
      '`windw`: is `window` meant?',
      '`window.positon`: is `window.position` meant?',
      '(right?)',
      '`keys.aprove`: is `keys.approve` meant?',
      '`output_lines` must be a whole number from 1, it is "many"',
      '`cmd` must be a list of strings, it is "agentls"',
      'there is no option `xyzzy`',
      '`prompt` must be a table, it is 3',
    }) do
      assert(all:find(words, 1, true), ('"%s" is not in:\n%s'):format(words, all))
    end
    eq(#problems, 8)
    eq({ taken.window.size, taken.window.position, taken.output_lines }, { 30, 'right', 2000 })
    eq(select(2, config.resolve('x')), { 'the options must be a table, they are "x"' })
  end)

  test('setup: every option has a rule', function()
    local config = require('agentls.config')
    local _, problems = config.resolve(config.defaults)
    eq(problems, {})
  end)

  test(
    'setup: the types of what it takes are those of the configuration, with everything optional',
    function()
      local function fields(name, class)
        local found = {}
        for line in io.lines(('%s/lua/agentls/%s.lua'):format(support.plugin, name)) do
          local field, rest = line:match('^%-%-%-@field ([%w_]+)%??(.*)$')
          if field then
            table.insert(found, field .. rest:gsub(class, 'X'))
          end
        end
        return found
      end
      eq(fields('options', 'agentls%.Options'), fields('config', 'agentls%.Config'))
    end
  )

  test('words and numbers for people', function()
    local text = require('agentls.text')
    eq(
      { text.seconds(900), text.seconds(1130), text.seconds(61000), text.seconds(300000) },
      { '900 ms', '1.1 s', '61 s', '5 min' }
    )
    eq(
      { text.tokens(999), text.tokens(5120), text.tokens(200000), text.tokens(2000000) },
      { '999', '5.1k', '200k', '2.0M' }
    )
    eq({ text.dollars(0), text.dollars(0.0042), text.dollars(1.234) }, { '$0', '$0.0042', '$1.23' })
    eq(
      { text.cost_of_use(), text.cost_of_use(0), text.cost_of_use(0.5) },
      { 'price unknown', 'free', '$0.50' }
    )
    eq(text.lines('a\r\nb\n\nc'), { 'a', 'b', '', 'c' })
    eq(text.lines('\r\n'), { '' })
    eq(text.cut('äöü', 3), 'ä…')
    local bad =
      { 'a\195', '\195(', '\237\160\128', '\244\144\128\128', '\192\128', '\255', 'a\128', 'ä\0\246\0' }
    eq(
      vim.tbl_map(text.legible, bad),
      { 'a�', '�(', '���', '����', '��', '�', 'a�', 'ä\0�\0' }
    )
    eq(
      { text.legible('漢\0😀\r\n\244\143\191\191'), text.legible('') },
      { '漢\0😀\r\n\244\143\191\191', '' }
    )
    eq({ text.nearest('modell', { 'mode', 'model' }), (text.nearest('zzzzz', { 'mode' })) }, { 'model', nil })
  end)

  test('another protocol major, and what is no agentls, are refused in one sentence', function()
    local client = require('agentls.client')
    local function announced(major)
      return { experimental = { agent = { protocolVersion = { major = major, minor = 3 } } } }
    end
    eq(client.refusal(announced(1)), nil)
    eq(
      client.refusal(announced(2)),
      'agentls: the server speaks protocol 2.3 and this plugin 1.0: update the plugin.'
    )
    assert(client.refusal(announced(0)):find('update the server', 1, true))
    assert(client.refusal({}):find('is no agentls server', 1, true))
  end)
end
