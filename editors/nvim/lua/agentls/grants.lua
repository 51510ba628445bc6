-- Lists what the person allowed beyond one call, and revokes the grant that is chosen.

local notifications = require('agentls.notifications')
local sessions = require('agentls.sessions')
local format = require('agentls.format')

local M = {}

local SCOPES = { session = 'this session', workspace = 'every session here' }

---A grant on one line; the rule is whole.
---@param grant agentls.Grant
---@return string
local function format_grant(grant)
  local folder = format.display_text(vim.fn.fnamemodify(grant.folder, ':~'))
  local at = os.date('%Y-%m-%d %H:%M', math.floor(grant.grantedAt / 1000))
  return table.concat(
    { format.display_text(grant.rule), SCOPES[grant.scope] or grant.scope, folder, at },
    ' · '
  )
end

---Lists what was allowed, and revokes what is chosen.
function M.choose_grant()
  local session = sessions.get_current()
  sessions.request('agent/listGrants', { sessionId = session and session.id }, function(result)
    if #result.grants == 0 then
      return notifications.notify_line('nothing was allowed beyond one call')
    end
    vim.ui.select(result.grants, {
      prompt = 'Allowed beyond one call; choose one to revoke it',
      kind = 'agentls.grant',
      format_item = format_grant,
    }, function(grant)
      if grant then
        sessions.request('agent/revokeGrant', { grantId = grant.grantId }, function()
          notifications.notify_line('revoked: ', grant.rule, '; it is asked about again')
        end)
      end
    end)
  end)
end

return M
