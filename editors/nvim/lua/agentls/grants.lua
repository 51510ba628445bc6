-- Lists what the person allowed beyond one call, and revokes the grant that is chosen.

local notice = require('agentls.notice')
local sessions = require('agentls.sessions')
local text = require('agentls.text')

local M = {}

local SCOPES = { session = 'this session', workspace = 'every session here' }

---A grant on one line; the rule is whole.
---@param grant agentls.Grant
---@return string
local function words_of(grant)
  local folder = text.visible(vim.fn.fnamemodify(grant.folder, ':~'))
  local at = os.date('%Y-%m-%d %H:%M', math.floor(grant.grantedAt / 1000))
  return table.concat({ text.visible(grant.rule), SCOPES[grant.scope] or grant.scope, folder, at }, ' · ')
end

---Lists what was allowed, and revokes what is chosen.
function M.choose()
  local session = sessions.current()
  sessions.ask('agent/listGrants', { sessionId = session and session.id }, function(result)
    if #result.grants == 0 then
      return notice.say('nothing was allowed beyond one call')
    end
    vim.ui.select(result.grants, {
      prompt = 'Allowed beyond one call; choose one to revoke it',
      kind = 'agentls.grant',
      format_item = words_of,
    }, function(grant)
      if grant then
        sessions.ask('agent/revokeGrant', { grantId = grant.grantId }, function()
          notice.say('revoked: ', grant.rule, '; it is asked about again')
        end)
      end
    end)
  end)
end

return M
