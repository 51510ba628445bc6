-- Lists the user's grants, which allow more than one call, and revokes the chosen one. The server owns the grants.

local attention = require('agentls.attention')
local dialog = require('agentls.dialog')
local notifications = require('agentls.notifications')
local rules = require('agentls.rules')
local sessions = require('agentls.sessions')
local format = require('agentls.format')

local M = {}

local SCOPES = { session = 'this session', workspace = 'every session here' }

---Formats a grant on one line, with everything that it allows.
---@param grant agentls.Grant
---@return string
local function format_grant(grant)
  local folder = format.display_text(vim.fn.fnamemodify(grant.folder, ':~'))
  local at = os.date('%Y-%m-%d %H:%M', math.floor(grant.grantedAt / 1000))
  return table.concat(
    { rules.summarize_rules(grant.rule), SCOPES[grant.scope] or grant.scope, folder, at },
    ' · '
  )
end

---Lists the grants and revokes the chosen one.
function M.choose_grant()
  local session = sessions.get_current()
  local choose = attention.guard(
    'the list of permissions is ready; open it with :AgentGrants',
    function(result)
      if #result.grants == 0 then
        return notifications.notify_line('no saved permissions; `session` and `always` save one')
      end
      dialog.select(result.grants, {
        prompt = 'Choose a permission to revoke it',
        kind = 'agentls.grant',
        format_item = format_grant,
      }, function(grant)
        if grant then
          sessions.request('agent/revokeGrant', { grantId = grant.grantId }, function()
            notifications.notify_line(
              'revoked: ',
              rules.summarize_rules(grant.rule),
              '; such calls need approval again'
            )
          end)
        end
      end)
    end
  )
  sessions.request('agent/listGrants', { sessionId = session and session.id }, choose)
end

return M
