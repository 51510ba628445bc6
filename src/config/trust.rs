//! What the files of an untrusted folder may not do (R-CONF). They must not loosen approvals, redirect requests or
//! keys, send code to another provider, pass secrets on, or write elsewhere.
//!
//! They may choose models of the user's own provider, and be stricter. Pure: it filters trees; `layers` decides which
//! folders are trusted, and `redirect` handles the trusted ones.

use std::path::Path;

use crate::domain::Mode;

use super::diagnostics::Diagnostic;
use super::expand::names_variable;
use super::settings::{AgentSettings, RetryProfile, RetrySettings};
use super::tree::{Node, SpannedValue, join, split_keys};

/// Settings that an untrusted folder's files must not contain; `*` matches any one name.
const FORBIDDEN: &[&str] = &[
    "provider.*.kind",
    "provider.*.base_url",
    "provider.*.api_key",
    "provider.*.headers",
    "provider.*.cassette",
    // Would write to any of the user's files.
    "provider.*.record",
    "approvals.allow",
    // Would send any of the user's files to a model.
    "agent.*.prompt_file",
    "tool.bash.pass_env",
    // Would open what only this machine or its network can reach.
    "tool.web_fetch.private_hosts",
    // Would start commands, or change the user's own tools and what they may do.
    "tool.*.command",
    "tool.*.description",
    "tool.*.schema",
    "tool.*.effect",
    // Would start commands, or disable the user's own hooks.
    "hook",
    // Would cause model calls that the user did not ask for.
    "agent.*.reflection",
    // A price of zero would disable a cost limit.
    "model",
    "network",
    // Would append to any of the user's files.
    "logging",
    "trusted",
];

/// Returns whether a path is, or is below, something that an untrusted folder must not set.
pub(super) fn is_forbidden(path: &str) -> bool {
    let have = split_keys(path);
    FORBIDDEN.iter().any(|pattern| {
        let want: Vec<&str> = pattern.split('.').collect();
        have.len() >= want.len()
            && want
                .iter()
                .zip(&have)
                .all(|(want, have)| *want == "*" || want == have)
    })
}

/// Removes values with variables before their expansion: an untrusted file could send any variable to a model.
pub(super) fn hold_back_variables(tree: &mut SpannedValue, folder: &Path) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    retain_values(tree, "", &mut |path, value| {
        let named = value.text().is_some_and(names_variable);
        if named {
            problems.push(build_refusal(
                value,
                path,
                "environment variables are not expanded",
                folder,
            ));
        }
        !named
    });
    problems
}

/// Removes everything that would loosen a restriction. `user` is the user's own file.
pub(super) fn drop_refused_settings(
    tree: &mut SpannedValue,
    user: &SpannedValue,
    folder: &Path,
) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    retain_values(tree, "", &mut |path, value| {
        let Some(why) = why_refused(path, value, user) else {
            return true;
        };
        problems.push(build_refusal(value, path, why, folder));
        false
    });
    problems
}

/// Removes and returns what only a trusted folder may set, as paths and values.
pub(super) fn take_refused(tree: &mut SpannedValue, user: &SpannedValue) -> Vec<(String, SpannedValue)> {
    let mut refused = Vec::new();
    retain_values(tree, "", &mut |path, value| {
        // An untrusted folder gets no variables, whatever setting names them.
        let kept = value.raw.is_none() && why_refused(path, value, user).is_none();
        if !kept {
            refused.push((path.to_owned(), value.clone()));
        }
        kept
    });
    refused
}

/// Returns why an untrusted folder must not set this; `None` if it may.
fn why_refused(path: &str, value: &SpannedValue, user: &SpannedValue) -> Option<&'static str> {
    if is_forbidden(path) {
        Some("ignored")
    } else if loosens_mode(path, value, user) {
        Some("ignored, because it is less strict than your own")
    } else if raises_limit(path, value, user) || raises_retries(path, value, user) {
        Some("ignored, because it is above your own")
    } else if replaces_tools(path, user) {
        Some("ignored, because you chose the tools yourself")
    } else if chooses_provider(path, value, user) {
        Some("ignored, because it would send your code to a provider you did not choose")
    } else {
        None
    }
}

/// Removes `trusted` from a workspace's file, trusted or not: a folder cannot trust itself.
pub(super) fn drop_own_trust(tree: &mut SpannedValue) -> Option<Diagnostic> {
    let Node::Table(entries) = &mut tree.node else {
        return None;
    };
    let value = entries.remove("trusted")?;
    Some(Diagnostic::new_warning(
        &value.at,
        "trusted",
        "has no effect in a workspace's own file",
    ))
}

fn build_refusal(value: &SpannedValue, path: &str, what: &str, folder: &Path) -> Diagnostic {
    Diagnostic::new_warning(&value.at, path, format!("{what}: the folder {} is not trusted", folder.display()))
        .with_hint("to use it, trust the folder (`/trust` in a chat, or `agent/setTrust`), or list it under `trusted` in your own config file")
}

fn loosens_mode(path: &str, value: &SpannedValue, user: &SpannedValue) -> bool {
    let Some(agent) = agent_key(path, "mode") else {
        return false;
    };
    let Some(mode) = value.text().and_then(Mode::from_name) else {
        return false;
    };
    is_looser(mode, read_mode(user, &agent))
}

/// Returns whether `mode` allows more than `than`.
pub(super) fn is_looser(mode: Mode, than: Mode) -> bool {
    let rank = |mode: Mode| Mode::ALL.iter().position(|each| *each == mode);
    rank(mode) > rank(than)
}

/// Returns an agent's mode in this tree, or the default mode.
pub(super) fn read_mode(tree: &SpannedValue, agent: &str) -> Mode {
    of_agent(tree, agent, "mode")
        .and_then(SpannedValue::text)
        .and_then(Mode::from_name)
        .unwrap_or_default()
}

/// Limits of R-BUDGET. A folder may set those that the user has not set, and lower the others.
const LIMITS: [&str; 8] = [
    "token_target",
    "max_subagents",
    "max_steps",
    "max_tool_calls",
    "max_turn_cost",
    "max_session_cost",
    "max_day_cost",
    "max_wall_time_s",
];

fn raises_limit(path: &str, value: &SpannedValue, user: &SpannedValue) -> bool {
    let of_agents = LIMITS.iter().find_map(|limit| {
        let agent = agent_key(path, limit)?;
        let usual = match *limit {
            "max_steps" => Some(f64::from(AgentSettings::default().max_steps)),
            // Without a target the agent ends on its own, so any target makes turns longer.
            "token_target" => Some(0.0),
            "max_subagents" => Some(f64::from(AgentSettings::default().max_subagents)),
            _ => None,
        };
        of_agent(user, &agent, limit)
            .and_then(SpannedValue::as_f64)
            .or(usual)
    });
    let own = of_agents.or_else(|| match <[String; 3]>::try_from(split_keys(path)) {
        Ok([table, provider, last]) if table == "provider" && last == "max_day_cost" => {
            user.find(&["provider", &provider, "max_day_cost"])?.as_f64()
        }
        _ => None,
    });
    own.is_some_and(|own| value.as_f64().is_some_and(|given| given > own))
}

/// Returns whether a value causes more retries, or longer waits, than the user wants.
fn raises_retries(path: &str, value: &SpannedValue, user: &SpannedValue) -> bool {
    let Ok([table, provider, key]) = <[String; 3]>::try_from(split_keys(path)) else {
        return false;
    };
    if table != "provider" {
        return false;
    }
    let of_user = |key: &str| user.find(&["provider", &provider, key]);
    let own = retry_profile(of_user("retry"));
    let own_retries = of_user("max_retries").and_then(SpannedValue::as_f64);
    match key.as_str() {
        "max_retries" => {
            let own = own_retries.unwrap_or_else(|| f64::from(RetrySettings::from_profile(own).max_retries));
            value.as_f64().is_some_and(|given| given > own)
        }
        "max_timeout_retries" => {
            let own = of_user("max_timeout_retries")
                .and_then(SpannedValue::as_f64)
                .unwrap_or(1.0);
            value.as_f64().is_some_and(|given| given > own)
        }
        "retry" => {
            let given = retry_profile(Some(value));
            let waits_longer = given == RetryProfile::Patient && own != RetryProfile::Patient;
            waits_longer
                || RetrySettings::from_profile(given).max_retries
                    > RetrySettings::from_profile(own).max_retries
        }
        _ => false,
    }
}

fn retry_profile(value: Option<&SpannedValue>) -> RetryProfile {
    match value.and_then(SpannedValue::text) {
        Some("persistent") => RetryProfile::Persistent,
        Some("patient") => RetryProfile::Patient,
        _ => RetryProfile::Interactive,
    }
}

/// Returns whether a value sends code to a provider that the user did not choose for this agent or provider.
fn chooses_provider(path: &str, value: &SpannedValue, user: &SpannedValue) -> bool {
    let of_agents = ["provider", "route", "compaction_model"].iter().find_map(|key| {
        let agent = agent_key(path, key)?;
        Some(of_agent(user, &agent, key))
    });
    let own = match <[String; 3]>::try_from(split_keys(path)) {
        Ok([table, provider, last]) if table == "provider" && last == "fallback" => {
            Some(user.find(&["provider", &provider, "fallback"]))
        }
        _ => of_agents,
    };
    // A folder may repeat the user's own choice.
    own.is_some_and(|own| own.map(SpannedValue::to_json) != Some(value.to_json()))
}

/// Returns whether a value replaces the user's own choice of an agent's tools.
fn replaces_tools(path: &str, user: &SpannedValue) -> bool {
    ["tools", "deny_tools"].iter().any(|key| {
        let agent = agent_key(path, key);
        agent.is_some_and(|agent| of_agent(user, &agent, key).is_some())
    })
}

/// Returns an agent's own value, or the one of `default`.
fn of_agent<'a>(tree: &'a SpannedValue, agent: &str, key: &str) -> Option<&'a SpannedValue> {
    tree.find(&["agent", agent, key])
        .or_else(|| tree.find(&["agent", "default", key]))
}

/// Extracts `NAME` from `agent.NAME.KEY`.
pub(super) fn agent_key(path: &str, key: &str) -> Option<String> {
    match <[String; 3]>::try_from(split_keys(path)) {
        Ok([table, agent, last]) if table == "agent" && last == key => Some(agent),
        _ => None,
    }
}

/// Removes the values that `keep` rejects; descends into the tables and lists that it accepts.
fn retain_values(tree: &mut SpannedValue, path: &str, keep: &mut dyn FnMut(&str, &SpannedValue) -> bool) {
    match &mut tree.node {
        Node::Table(entries) => entries.retain(|key, value| {
            let path = join(path, key);
            let kept = keep(&path, value);
            if kept {
                retain_values(value, &path, keep);
            }
            kept
        }),
        Node::List(items) => items.retain(|item| keep(path, item)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::parse_toml;
    use super::*;

    fn tree(text: &str) -> SpannedValue {
        parse_toml(text.as_bytes(), Path::new("/w/.agentls/config.toml")).tree
    }

    #[test]
    fn untrusted_folder_loosens_nothing() {
        for (user, theirs, ignored) in [
            ("", "[provider.x]\nbase_url = 'u'", Some("provider.x.base_url")),
            (
                "",
                "[provider.anthropic]\napi_key = 'k'",
                Some("provider.anthropic.api_key"),
            ),
            (
                "",
                "[provider.anthropic.headers]\nx = 'y'",
                Some("provider.anthropic.headers"),
            ),
            ("", "[provider.anthropic]\nmax_retries = 3", None),
            (
                "",
                "[provider.'a.b']\nbase_url = 'u'",
                Some("provider.\"a.b\".base_url"),
            ),
            ("", "[agent.'a.b']\nmode = 'full'", Some("agent.\"a.b\".mode")),
            ("", "[approvals]\nallow = ['bash']", Some("approvals.allow")),
            (
                "",
                "[approvals]\ndeny = ['bash']\nrequire_approval = ['grep']",
                None,
            ),
            ("", "[network]\nproxy = 'p'", Some("network")),
            ("", "[hook.x]\non = 'stop'\ncommand = 'x'", Some("hook")),
            (
                "[hook.x]\non = 'stop'\ncommand = 'x'",
                "[hook.x]\nenabled = false",
                Some("hook"),
            ),
            ("", "[logging]\nfile = '/x'", Some("logging")),
            (
                "",
                "[tool.bash]\npass_env = ['OPENAI_API_KEY']",
                Some("tool.bash.pass_env"),
            ),
            (
                "",
                "[tool.web_fetch]\nprivate_hosts = ['localhost']",
                Some("tool.web_fetch.private_hosts"),
            ),
            ("", "[tool.deploy]\ncommand = 'x'", Some("tool.deploy.command")),
            (
                "[tool.deploy]\ncommand = 'x'\ndescription = 'y'",
                "[tool.deploy]\neffect = 'read'",
                Some("tool.deploy.effect"),
            ),
            ("", "[tool.deploy]\ntimeout_s = 3", None),
            ("", "[model.m]\ninput = 0.0\noutput = 0.0", Some("model")),
            ("", "trusted = ['/w']", Some("trusted")),
            ("", "[agent.default]\nmode = 'full'", Some("agent.default.mode")),
            ("", "[agent.default]\nmode = 'ask'", None),
            ("", "[agent.default]\nmode = 'plan'", None),
            (
                "[agent.default]\nmode = 'full'",
                "[agent.default]\nmode = 'autoEdit'",
                None,
            ),
            (
                "[agent.default]\nmode = 'plan'",
                "[agent.new]\nmode = 'ask'",
                Some("agent.new.mode"),
            ),
            (
                "[agent.a]\nmode = 'full'",
                "[agent.default]\nmode = 'full'",
                Some("agent.default.mode"),
            ),
            (
                "[agent.default]\nmax_session_cost = 5",
                "[agent.default]\nmax_session_cost = 6",
                Some("agent.default.max_session_cost"),
            ),
            (
                "[agent.default]\nmax_session_cost = 5",
                "[agent.default]\nmax_session_cost = 4.5",
                None,
            ),
            ("", "[agent.default]\nmax_session_cost = 6", None),
            (
                "",
                "[agent.x]\nprompt_file = '~/.netrc'",
                Some("agent.x.prompt_file"),
            ),
            ("", "[agent.x]\ntools = ['grep']\ndeny_tools = 'bash'", None),
            (
                "[agent.default]\ntools = ['grep']",
                "[agent.x]\ntools = ['*']",
                Some("agent.x.tools"),
            ),
            (
                "[agent.x]\ndeny_tools = ['bash']",
                "[agent.x]\ndeny_tools = []",
                Some("agent.x.deny_tools"),
            ),
            (
                "[agent.default]\nmax_day_cost = 5",
                "[agent.new]\nmax_day_cost = 6",
                Some("agent.new.max_day_cost"),
            ),
            (
                "[provider.anthropic]\nmax_day_cost = 5",
                "[provider.anthropic]\nmax_day_cost = 6",
                Some("provider.anthropic.max_day_cost"),
            ),
            (
                "[provider.anthropic]\nmax_day_cost = 5",
                "[provider.anthropic]\nmax_day_cost = 4",
                None,
            ),
            (
                "",
                "[agent.default]\nmax_steps = 51",
                Some("agent.default.max_steps"),
            ),
            (
                "",
                "[agent.default]\nmax_subagents = 101",
                Some("agent.default.max_subagents"),
            ),
            ("", "[agent.default]\nmax_steps = 50", None),
            (
                "[agent.default]\nmax_steps = 90",
                "[agent.default]\nmax_steps = 80",
                None,
            ),
        ] {
            let mut given = tree(theirs);
            let problems = drop_refused_settings(&mut given, &tree(user), Path::new("/w"));
            let got: Vec<_> = problems.iter().map(|problem| problem.key.as_str()).collect();
            assert_eq!(got, ignored.into_iter().collect::<Vec<_>>(), "{theirs}");
            for problem in &problems {
                assert!(
                    problem.line > 0 && problem.file == "/w/.agentls/config.toml",
                    "{problem}"
                );
                assert!(
                    problem.message.contains("/w is not trusted") && problem.hint.is_some(),
                    "{problem}"
                );
                let keys = split_keys(&problem.key);
                let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                assert!(given.find(&keys).is_none(), "{problem}");
            }
        }
    }

    #[test]
    fn untrusted_folder_reads_no_variables() {
        let mut given = tree(
            "[agent.default]\nsystem_prompt = '${AWS_SECRET}'\nmodel = 'm'\n[approvals]\ndeny = ['${X}', 'y']",
        );
        let problems = hold_back_variables(&mut given, Path::new("/w"));
        assert_eq!(
            problems.iter().map(|problem| problem.line).collect::<Vec<_>>(),
            [2, 5]
        );
        assert_eq!(
            given.to_json(),
            serde_json::json!({"agent": {"default": {"model": "m"}}, "approvals": {"deny": ["y"]}})
        );
    }
}
