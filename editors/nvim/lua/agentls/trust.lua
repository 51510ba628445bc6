-- Trust in workspace folders: shows what trusting a folder would activate, and asks.
--
-- Trust always needs an explicit yes; the first choice of each question is no. Each redirect of the user's requests is
-- a separate question. The server decides what trust means.

local attention = require('agentls.attention')
local client = require('agentls.client')
local dialog = require('agentls.dialog')
local notifications = require('agentls.notifications')
local problems = require('agentls.problems')
local protocol = require('agentls.protocol')
local scratch = require('agentls.scratch')
local sessions = require('agentls.sessions')
local format = require('agentls.format')

local M = {}

local HEADINGS = {
  hook = 'Hooks: these commands run in every turn',
  tool = 'Tools: the agent may call these commands',
  mcpServer = 'MCP servers: these programs start, or these addresses are contacted',
  setting = 'Settings',
  gitSetting = 'Git: it follows these settings and hooks of its repositories',
}
local ORDER = { 'hook', 'tool', 'mcpServer', 'setting', 'gitSetting' }

---@param folder string
local function format_folder(folder)
  return format.display_text(vim.fn.fnamemodify(folder, ':~'))
end

---Adds each line of `text` after `prefix`, with hidden characters revealed.
local function add_indented(lines, prefix, text)
  for _, line in ipairs(format.split_lines(text)) do
    table.insert(lines, prefix .. format.reveal_hidden(line))
  end
end

---@param lines string[]
---@param items agentls.TrustItem[]
local function add_items(lines, heading, items)
  if #items == 0 then
    return
  end
  vim.list_extend(lines, { '', '## ' .. heading, '' })
  for _, item in ipairs(items) do
    table.insert(lines, ('- %s: %s'):format(format.display_text(item.name), format.display_text(item.detail)))
    if item.command then
      add_indented(lines, '      $ ', item.command)
    end
  end
end

---@param redirect agentls.ProviderRedirect
---@return string
local function format_redirect(redirect)
  local provider = redirect.provider == '*' and 'all providers' or format.display_text(redirect.provider)
  local from = redirect.from and (' instead of to %s'):format(format.display_text(redirect.from)) or ''
  return ('%s: requests go to %s%s'):format(provider, format.display_text(redirect.to), from)
end

---Formats what the files of a folder would activate.
---@param description agentls.DescribeTrustResult
---@return string[]
function M.format_trust(description)
  local lines = { '# ' .. format_folder(description.folder), '' }
  local text = description.trusted and 'This folder is trusted. The items below are active.'
    or 'This folder is not trusted. Trust it to activate the items below.'
  table.insert(lines, text)
  local known_kinds = {}
  for _, kind in ipairs(ORDER) do
    known_kinds[kind] = true
    add_items(
      lines,
      HEADINGS[kind],
      vim.tbl_filter(function(item)
        return item.kind == kind
      end, description.activates)
    )
  end
  -- A newer server may send other kinds.
  add_items(
    lines,
    'More',
    vim.tbl_filter(function(item)
      return not known_kinds[item.kind]
    end, description.activates)
  )
  if #description.redirects > 0 then
    vim.list_extend(lines, { '', '## Redirects: each one needs your consent', '' })
  end
  for _, redirect in ipairs(description.redirects) do
    local state = redirect.accepted and 'accepted' or 'not accepted'
    table.insert(lines, ('- %s (%s)'):format(format_redirect(redirect), state))
    for _, name in ipairs(redirect.sends or {}) do
      table.insert(lines, '      sends ' .. format.display_text(name))
    end
  end
  if #description.activates == 0 and #description.redirects == 0 then
    vim.list_extend(lines, { '', 'Trust would activate nothing in this folder.' })
  end
  return lines
end

---Asks a question whose first choice is no. Leaving it means no.
---@param prompt string
---@param no_label string
---@param yes_label string
---@param on_answer fun(yes: boolean)
local function ask_yes_no(prompt, no_label, yes_label, on_answer)
  dialog.select({ no_label, yes_label }, { prompt = prompt, kind = 'agentls.trust' }, function(choice)
    on_answer(choice == yes_label)
  end)
end

---@param description agentls.DescribeTrustResult
---@param trusted boolean
---@param accepted? agentls.AcceptedRedirect[]
local function set_trust(description, trusted, accepted)
  local params =
    { folder = vim.uri_from_fname(description.folder), trusted = trusted, acceptRedirects = accepted }
  sessions.request('agent/setTrust', params, function()
    local count = #(accepted or {})
    local redirects = count > 0 and ('; redirects accepted: %d'):format(count) or ''
    notifications.notify_line(
      trusted and 'trusted: ' or 'not trusted: ',
      format_folder(description.folder),
      redirects
    )
  end)
end

---Asks about each redirect that is not accepted yet.
---@param description agentls.DescribeTrustResult
---@param on_done fun(accepted: agentls.AcceptedRedirect[])
local function ask_redirects(description, on_done)
  local accepted = {}
  local function ask_next(i)
    local redirect = description.redirects[i]
    if not redirect then
      return on_done(accepted)
    elseif redirect.accepted then
      return ask_next(i + 1)
    end
    local details = #(redirect.sends or {}) > 0 and (', with ' .. table.concat(redirect.sends, ', ')) or ''
    local prompt = ('Redirect %s%s?'):format(format_redirect(redirect), format.display_text(details))
    ask_yes_no(prompt, 'No, leave it off', 'Yes, accept this redirect', function(is_accepted)
      if is_accepted then
        table.insert(accepted, { provider = redirect.provider, to = redirect.to })
      end
      ask_next(i + 1)
    end)
  end
  ask_next(1)
end

---@param description agentls.DescribeTrustResult
local function ask_decision(description)
  local name = format_folder(description.folder)
  if description.trusted then
    return ask_yes_no(
      ('%s is trusted.'):format(name),
      'Keep trusting it; ask about redirects that are not accepted',
      'Stop trusting it',
      function(should_withdraw)
        if should_withdraw then
          return set_trust(description, false)
        end
        ask_redirects(description, function(accepted)
          if #accepted > 0 then
            set_trust(description, true, accepted)
          end
        end)
      end
    )
  end
  ask_yes_no(
    ('Trust %s?'):format(name),
    'No, leave it untrusted',
    'Yes, activate everything listed',
    function(is_confirmed)
      if is_confirmed then
        ask_redirects(description, function(accepted)
          set_trust(description, true, #accepted > 0 and accepted or nil)
        end)
      end
    end
  )
end

---Lines to leave free for the question below the list.
local QUESTION_LINES = 8

---Shows the list. Returns whether all of it is visible, or the same list was shown before.
---@param description agentls.DescribeTrustResult
---@return boolean
local function show_list(description)
  local lines = M.format_trust(description)
  local list = table.concat(lines, '\n')
  local previous_list = vim.b.agentls_trust_list
  scratch.show_lines('trust' .. description.folder, 'agentls_trust', lines, true)
  vim.b.agentls_trust_list = list
  vim.wo.wrap = true
  local text_height = vim.api.nvim_win_text_height(0, {}).all
  pcall(vim.api.nvim_win_set_height, 0, math.min(text_height, vim.o.lines - QUESTION_LINES))
  vim.cmd('redraw')
  return text_height <= vim.api.nvim_win_get_height(0) or previous_list == list
end

---@param folder string
local function review_folder(folder)
  sessions.request(
    protocol.requests.describeTrust,
    { folder = vim.uri_from_fname(folder) },
    attention.guard(
      'the list for the trust in the folder is ready; open it with :AgentTrust',
      function(description)
        if not show_list(description) then
          return notifications.notify_line('read the whole list, then repeat :AgentTrust here')
        end
        ask_decision(description)
      end
    )
  )
end

---Shows what trusting a folder would activate, then asks. With several folders, the user chooses one first.
function M.review_trust()
  local session = sessions.get_current()
  local folders = client.get_workspace_folders()
  local cwd = session and session.state.cwd
  if cwd and not vim.list_contains(folders, cwd) then
    table.insert(folders, 1, cwd)
  end
  if #folders == 1 then
    return review_folder(folders[1])
  end
  dialog.select(
    folders,
    { prompt = 'Review trust for which folder?', kind = 'agentls.folder', format_item = format_folder },
    function(folder)
      if folder then
        review_folder(folder)
      end
    end
  )
end

---Reports that some settings of a folder are off because the folder is not trusted.
---@param folder string
function M.notify_untrusted(folder)
  if not client.supports_method(protocol.requests.describeTrust) then
    return
  end
  client.request(
    protocol.requests.describeTrust,
    { folder = vim.uri_from_fname(folder) },
    function(err, description)
      if not err and not description.trusted and #description.activates + #description.redirects > 0 then
        problems.add_untrusted_folder(folder)
      end
    end
  )
end

return M
