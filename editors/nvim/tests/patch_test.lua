-- Diffs apply in both directions, and only to matching text.

local support = require('tests.support')
local eq = support.eq

return function(test)
  local patch = require('agentls.patch')

  test('patch: applies in both directions, at the edges and in the middle', function()
    for _, case in ipairs({
      { { 'a', 'b' }, { 'a', 'B' }, '--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n' },
      { {}, { 'n', 'm' }, '--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+n\n+m\n' },
      { { 'o' }, {}, '--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-o\n' },
      { { 'a' }, { 'a', 'z' }, '@@ -1 +1,2 @@\n a\n+z\n\\ No newline at end of file\n' },
      { { '-- x', '++ y' }, { '-- z', '++ y' }, '@@ -1,2 +1,2 @@\n--- x\n+-- z\n ++ y\n' },
      {
        { '1', '2', '3', '4', '5' },
        { '0', '1', '2', '4', 'v' },
        '@@ -1,2 +1,3 @@\n+0\n 1\n 2\n@@ -3,3 +4,2 @@\n-3\n 4\n-5\n+v\n',
      },
      { { 'a', '', 'b' }, { 'a', '', 'c' }, '@@ -1,3 +1,3 @@\n a\n \n-b\n+c\n' },
    }) do
      local before, after, diff = unpack(case)
      eq(patch.apply_diff(before, diff), after, diff)
      eq(patch.apply_diff(after, diff, true), before, diff .. ' back')
    end
  end)

  test('patch: a text that does not match is not changed', function()
    local diff = '@@ -2 +2 @@\n-b\n+B\n'
    eq(patch.apply_diff({ 'a', 'x' }, diff), nil)
    eq(patch.apply_diff({ 'a' }, diff), nil)
    eq(patch.apply_diff({ 'a', 'b' }, diff, true), nil)
    eq(patch.apply_diff({ 'a', 'b\r' }, diff), { 'a', 'B' })
    eq(patch.apply_diff({ 'mine' }, '@@ -0,0 +1 @@\n+new\n'), nil)
    eq(patch.apply_diff({ 'mine' }, '@@ -1 +0,0 @@\n-old\n', true), nil)
    eq(patch.apply_diff({ 'a' }, 'Binary files differ\n'), { 'a' })
  end)

  test("patch: applies Neovim's own diffs of random texts", function()
    math.randomseed(7)
    for _ = 1, 300 do
      local function join_lines(lines)
        return #lines > 0 and table.concat(lines, '\n') .. '\n' or ''
      end
      local before, after = {}, {}
      for i = 1, math.random(0, 30) do
        before[i] = 'line ' .. math.random(4)
      end
      for _, line in ipairs(before) do
        local roll = math.random(10)
        if roll > 2 then
          table.insert(after, line)
        end
        if roll > 8 then
          table.insert(after, 'new ' .. math.random(3))
        end
      end
      local diff = vim.diff(join_lines(before), join_lines(after), { ctxlen = math.random(1, 3) })
      eq(patch.apply_diff(before, diff), after, diff)
      eq(patch.apply_diff(after, diff, true), before, diff)
    end
  end)
end
