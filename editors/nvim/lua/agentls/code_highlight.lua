-- Highlights fenced code in languages that have a syntax file but no tree-sitter parser: Neovim bundles few parsers and
-- many syntax files. It must not know what else a buffer contains.

local M = {}

---Common names of languages after a fence that differ from the name of the syntax.
local ALIASES = {
  bash = 'sh',
  shell = 'sh',
  zsh = 'sh',
  console = 'sh',
  js = 'javascript',
  jsx = 'javascriptreact',
  ts = 'typescript',
  tsx = 'typescriptreact',
  py = 'python',
  rs = 'rust',
  rb = 'ruby',
  ['c++'] = 'cpp',
  ['c#'] = 'cs',
  csharp = 'cs',
  golang = 'go',
  yml = 'yaml',
  md = 'markdown',
  kt = 'kotlin',
  dockerfile = 'dockerfile',
}

---Returns the syntax for a language, or nil if tree-sitter highlights it or no syntax exists.
---@param language string
---@return string?
local function find_syntax(language)
  local name = ALIASES[language] or language
  local parser = vim.treesitter.language.get_lang(name) or name
  -- Without a parser, `add` raises an error before Neovim 0.11, and returns nil since.
  local added, has_parser = pcall(vim.treesitter.language.add, parser)
  if name == 'markdown' or (added and (has_parser == nil and vim.fn.has('nvim-0.11') == 0 or has_parser)) then
    return nil
  end
  return #vim.api.nvim_get_runtime_file('syntax/' .. name .. '.vim', false) > 0 and name or nil
end

---@type table<integer, table<string, boolean>> The known languages, by buffer.
local known_languages = {}

---Adds highlighting to `buffer` for the languages of the fences in `lines`.
---@param buffer integer
---@param lines string[]
function M.add_languages(buffer, lines)
  for _, line in ipairs(lines) do
    local language = line:match('^%s*```+%s*([%w+#]+)')
    language = language and language:lower()
    local of_buffer = known_languages[buffer] or {}
    if language and not of_buffer[language] then
      of_buffer[language] = true
      known_languages[buffer] = of_buffer
      local syntax = language ~= 'diff' and find_syntax(language)
      if syntax then
        vim.api.nvim_buf_call(buffer, function()
          -- tree-sitter turned the syntax off; both can highlight the same buffer.
          if vim.bo.syntax ~= 'ON' then
            vim.bo.syntax = 'ON'
          end
          local cluster = '@agentls_' .. syntax
          local fence = vim.fn.escape(language, '*.\\/')
          vim.b.current_syntax = nil
          pcall(vim.cmd --[[@as fun(c: string)]], ('syntax include %s syntax/%s.vim'):format(cluster, syntax))
          local region = {
            ('syntax region agentlsFence_%s'):format(syntax),
            ([[start=/^\s*```\+\s*\c%s\%%(\s.*\)\=$/]]):format(fence),
            [[end=/^\s*```\+\s*$/]],
            ('contains=%s keepend'):format(cluster),
          }
          vim.cmd(table.concat(region, ' '))
        end)
      end
    end
  end
end

---@param buffer integer
function M.forget_buffer(buffer)
  known_languages[buffer] = nil
end

return M
