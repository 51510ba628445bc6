-- Describes permission rules in words for people. The server owns the rules: what it offers to remember arrives as the
-- text of its configuration, such as `bash(cargo test *), edit_file(src/**)`. See docs/permissions.md.

local format = require('agentls.format')

local M = {}

---@class agentls.RuleDescription
---@field text string
---@field is_wide boolean Whether the rule covers more than the call it was offered for.

---Splits a list of rules at the commas between them. A pattern may contain commas, and `\` escapes its parentheses.
---@param rules string
---@return string[]
function M.split_rules(rules)
  local parts, start, depth, position = {}, 1, 0, 1
  while position <= #rules do
    local character = rules:sub(position, position)
    if character == '\\' then
      position = position + 1
    elseif character == '(' then
      depth = depth + 1
    elseif character == ')' then
      depth = depth - 1
    elseif character == ',' and depth == 0 then
      table.insert(parts, vim.trim(rules:sub(start, position - 1)))
      start = position + 1
    end
    position = position + 1
  end
  table.insert(parts, vim.trim(rules:sub(start)))
  return parts
end

---How a rule with a pattern, and one without a pattern, is described, by tool.
---@type table<string, { [1]: string, [2]: string }>
local TEXTS = {
  bash = { 'the command %s', 'every command, also outside the sandbox' },
  bash_sandboxed = { 'in the sandbox, the command %s', 'every command that stays in the sandbox' },
  bash_outside = { 'outside the sandbox, exactly %s', 'every command outside the sandbox' },
  edit_file = { 'edits of %s', 'edits of every file' },
  write_file = { 'writing %s', 'writing every file' },
  apply_patch = { 'patches of %s', 'patches of every file' },
  rename_symbol = { 'renames in %s', 'renames in every file' },
  fix_code = { 'quick fixes in %s', 'quick fixes in every file' },
  ['*_file'] = { 'edits and new files in %s', 'edits and new files everywhere' },
  web_fetch = { 'reading the address %s', 'reading every web address' },
  web_search = { 'the web search %s', 'every web search' },
}

---Whether a pattern matches more than one text.
---@param pattern string
local function has_wildcard(pattern)
  return pattern:gsub('\\.', ''):find('[*?]') ~= nil
end

---Describes a pattern: `cargo test *` covers the command with anything after it.
---@param tool string
---@param pattern string
---@return string
local function describe_pattern(tool, pattern)
  local prefix = vim.startswith(tool, 'bash') and tool ~= 'bash_outside' and pattern:match('^([^*?]+) %*$')
  return prefix and ('%s, with anything after it'):format(prefix) or pattern
end

---Describes one rule.
---@param rule string
---@return agentls.RuleDescription
function M.describe_rule(rule)
  local tool, pattern = rule:match('^([^()]+)%((.*)%)$')
  tool = tool or rule
  local server, name = tool:match('^mcp:([^/]+)/(.+)$')
  if server then
    local subject = name == '*' and 'every tool of the MCP server ' .. server
      or ('the tool %s of the MCP server %s'):format(name, server)
    -- A call of the same tool with other arguments is another call.
    return { text = pattern and ('%s with %s'):format(subject, pattern) or subject, is_wide = true }
  end
  local texts = TEXTS[tool]
  if pattern then
    local shown = describe_pattern(tool, pattern)
    return {
      text = texts and texts[1]:format(shown) or ('calls of %s with %s'):format(tool, shown),
      is_wide = tool ~= 'bash_outside' and has_wildcard(pattern),
    }
  end
  return { text = texts and texts[2] or ('every call of %s'):format(tool), is_wide = true }
end

---Describes a list of rules, one per line, the narrowest first.
---@param rules string
---@return agentls.RuleDescription[]
function M.describe_rules(rules)
  local narrow, wide = {}, {}
  for _, rule in ipairs(M.split_rules(rules)) do
    local description = M.describe_rule(rule)
    table.insert(description.is_wide and wide or narrow, description)
  end
  return vim.list_extend(narrow, wide)
end

---Whether a list of rules covers more than the call it was offered for.
---@param rules string
---@return boolean
function M.is_wide(rules)
  return vim.iter(M.describe_rules(rules)):any(function(description)
    return description.is_wide
  end)
end

---Describes a list of rules in one text.
---@param rules string
---@return string
function M.summarize_rules(rules)
  return format.display_text(table.concat(
    vim.tbl_map(function(description)
      return description.text
    end, M.describe_rules(rules)),
    '; '
  ))
end

return M
