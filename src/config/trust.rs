//! What the files of an untrusted folder may not do (R-CONF). They must not loosen approvals, redirect requests or
//! keys, send code to another provider, pass secrets on, or write elsewhere.
//!
//! They may choose models of the user's own provider, and be stricter. Each setting states its rule at its field; see
//! [`Untrusted`]. Pure: it filters trees; `layers` decides which folders are trusted, and `redirect` handles the
//! trusted ones.

use std::path::Path;

use serde_json::json;

use crate::approval::Rule;
use crate::domain::{Mode, SandboxNetwork, SandboxPolicy};

use super::diagnostics::{Diagnostic, trust_hint};
use super::expand::names_variable;
use super::schema::{TrustRule, find_trust_rule};
use super::settings::{RetryPolicy, RetryProfile, SandboxSettings};
use super::tree::{Node, SpannedValue, join, join_keys, split_keys};
use super::untrusted::Untrusted;

/// Why a setting that loosens the sandbox is ignored.
const LOOSENS_SANDBOX: &str =
    "ignored: a project's file can only restrict the sandbox, even if its folder is trusted";
/// Why the mode `full` is ignored.
const CHOOSES_FULL: &str =
    "ignored: a project's file cannot choose this mode, which has no sandbox, even if its folder is trusted";

/// Returns whether a path is, or is below, something that an untrusted folder must not set.
pub(super) fn is_forbidden(path: &str) -> bool {
    find_trust_rule(path).untrusted == Untrusted::Never
}

/// Removes values with variables before their expansion: an untrusted file could send any variable to a model.
pub(super) fn hold_back_variables(tree: &mut SpannedValue, folder: &Path) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    retain_values(tree, "", &mut |path, value| {
        let named = value.text().is_some_and(names_variable);
        // A table that is ignored as a whole has a warning of its own.
        if named && !is_in_forbidden_table(path) {
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

/// Returns whether a table around a setting is something that an untrusted folder must not set.
fn is_in_forbidden_table(path: &str) -> bool {
    let keys = split_keys(path);
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    (1..keys.len()).any(|length| is_forbidden(&join_keys(&keys[..length])))
}

/// Removes everything that would loosen a restriction. `user` is the user's own file.
pub(super) fn drop_refused_settings(
    tree: &mut SpannedValue,
    user: &SpannedValue,
    folder: &Path,
) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    retain_values(tree, "", &mut |path, value| {
        let Some(reason) = refusal_reason(path, value, user) else {
            return true;
        };
        // Where trust would not help, the reason must not name it.
        let loosening = find_loosening(path, value, user);
        problems.push(loosening.unwrap_or_else(|| build_refusal(value, path, reason, folder)));
        false
    });
    problems
}

/// Keeps the user's questions where an untrusted folder confines commands that the user does not: in `autoEdit`,
/// confined commands would run without any.
pub(super) fn keep_questions(tree: &mut SpannedValue, user: &SpannedValue) {
    let read = |tree: &SpannedValue| -> SandboxSettings {
        let stated = tree.find(&["sandbox"]).map(SpannedValue::to_json);
        stated
            .and_then(|stated| serde_json::from_value(stated).ok())
            .unwrap_or_default()
    };
    let (theirs, own) = (read(tree), read(user));
    let states = |key| tree.find(&["sandbox", key]).is_some();
    let confines_more = states("enabled") && theirs.enabled && !own.enabled
        || states("network") && own.network == SandboxNetwork::Open && theirs.network < own.network;
    if confines_more && user.find(&["approvals", "sandboxed"]).is_none() {
        let ask = SpannedValue::new(tree.at.clone(), Node::Text("ask".to_owned()));
        tree.insert_at(&["approvals", "sandboxed"], ask);
    }
}

/// Removes and returns what only a trusted folder may set, as paths and values.
pub(super) fn take_refused(tree: &mut SpannedValue, user: &SpannedValue) -> Vec<(String, SpannedValue)> {
    let mut refused = Vec::new();
    retain_values(tree, "", &mut |path, value| {
        // An untrusted folder gets no variables, whatever setting names them.
        let is_allowed = value.raw.is_none() && refusal_reason(path, value, user).is_none();
        if !is_allowed {
            refused.push((path.to_owned(), value.clone()));
        }
        is_allowed
    });
    refused
}

/// Returns why an untrusted folder must not set this; `None` if it may.
fn refusal_reason(path: &str, value: &SpannedValue, user: &SpannedValue) -> Option<&'static str> {
    const ABOVE: &str = "ignored, because it is above your own";
    let TrustRule { untrusted, default } = find_trust_rule(path);
    let keys = split_keys(path);
    let own = find_own(user, &keys);
    let is_above = |usual: Option<f64>| {
        let own = own.and_then(SpannedValue::as_f64).or(usual);
        own.is_some_and(|own| value.as_f64().is_some_and(|given| given > own))
    };
    match untrusted {
        Untrusted::Never => Some("ignored"),
        Untrusted::Any => None,
        Untrusted::Lower => is_above(default).then_some(ABOVE),
        Untrusted::LowerOrZero => is_above(Some(0.0)).then_some(ABOVE),
        Untrusted::FewerRetries => raises_retries(&keys, value, user).then_some(ABOVE),
        Untrusted::StricterMode => {
            let own = own.and_then(to_mode).unwrap_or_default();
            let is_looser = to_mode(value).is_some_and(|given| is_looser(given, own));
            is_looser.then_some("ignored, because it is less strict than your own")
        }
        Untrusted::StricterSandbox => loosens_sandbox(&keys, value, own).then_some("ignored"),
        Untrusted::Ask => {
            let repeats = own.map(SpannedValue::to_json) == Some(value.to_json());
            (value.text() != Some("ask") && !repeats).then_some("ignored")
        }
        Untrusted::IfUnset => own.map(|_| "ignored, because you chose the tools yourself"),
        Untrusted::Repeat => (own.map(SpannedValue::to_json) != Some(value.to_json()))
            .then_some("ignored, because it would send your code to a provider you did not choose"),
    }
}

/// Returns the user's own value of a setting. An agent without one inherits that of `default`.
fn find_own<'a>(user: &'a SpannedValue, keys: &[String]) -> Option<&'a SpannedValue> {
    let mut keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let own = user.find(&keys);
    if own.is_none() && keys.first() == Some(&"agent") && keys.len() > 2 {
        keys[1] = "default";
        return user.find(&keys);
    }
    own
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

/// Removes what would loosen the user's sandbox: settings of a trusted folder that would allow more than the user's
/// own, policies that would, or that are `off`, rules for commands outside of the sandbox, and the mode `full`.
pub(super) fn drop_weaker_sandboxes(tree: &mut SpannedValue, user: &SpannedValue) -> Vec<Diagnostic> {
    let to_policy = |value: &SpannedValue| serde_json::from_value::<SandboxPolicy>(value.to_json()).ok();
    let mut problems = Vec::new();
    retain_values(tree, "", &mut |path, value| {
        let keys = split_keys(path);
        if let Some(problem) = find_loosening(path, value, user) {
            problems.push(problem);
            return false;
        }
        let [table, _, key] = keys.as_slice() else {
            return true;
        };
        if !["hook", "tool", "mcp"].contains(&table.as_str()) || key != "sandbox" {
            return true;
        }
        let own = find_own(user, &keys).and_then(to_policy).unwrap_or_default();
        let most = own.min(SandboxPolicy::Workspace);
        let is_weaker = to_policy(value).is_some_and(|given| given > most);
        if is_weaker {
            let message = format!("ignored: a project's file can only restrict, and `{most}` holds already");
            let problem = Diagnostic::new_error(&value.at, path, message);
            problems.push(problem.with_hint("state it in your own config file, with the command"));
        }
        !is_weaker
    });
    problems
}

/// Returns what to report about a setting that would loosen the user's sandbox, which not even trust allows.
fn find_loosening(path: &str, value: &SpannedValue, user: &SpannedValue) -> Option<Diagnostic> {
    let keys = split_keys(path);
    let own = find_own(user, &keys);
    let message = match find_trust_rule(path).untrusted {
        Untrusted::StricterSandbox if loosens_sandbox(&keys, value, own) => LOOSENS_SANDBOX,
        Untrusted::StricterMode if leaves_sandbox(value, own) => CHOOSES_FULL,
        _ if path == "approvals.allow" && is_rule_for_outside(value) => LOOSENS_SANDBOX,
        _ => return None,
    };
    Some(
        Diagnostic::new_warning(&value.at, path, message)
            .with_hint("to allow it, set it in your own config file"),
    )
}

/// Returns whether a mode confines no commands, unless the user's own confines none either.
fn leaves_sandbox(value: &SpannedValue, own: Option<&SpannedValue>) -> bool {
    let is_full = |mode: Mode| mode.sandbox_policy() == SandboxPolicy::Off;
    // Fails closed for a mode that is unknown.
    to_mode(value).is_none_or(is_full) && !own.and_then(to_mode).is_some_and(is_full)
}

/// Returns whether a setting of `[sandbox]` allows commands something that the user's own value does not.
fn loosens_sandbox(keys: &[String], value: &SpannedValue, own: Option<&SpannedValue>) -> bool {
    let [_, key] = keys else { return false };
    let read = |value: Option<&SpannedValue>| -> SandboxSettings {
        let stated = value.map(|value| json!({key: value.to_json()}));
        stated
            .and_then(|stated| serde_json::from_value(stated).ok())
            .unwrap_or_default()
    };
    read(Some(value)).allows_more_than(&read(own))
}

/// Returns whether this is a rule for a command outside of the sandbox.
fn is_rule_for_outside(value: &SpannedValue) -> bool {
    let rule = value.text().map(Rule::parse);
    matches!(rule, Some(Ok(rule)) if rule.is_for_outside())
}

fn build_refusal(value: &SpannedValue, path: &str, reason: &str, folder: &Path) -> Diagnostic {
    Diagnostic::new_warning(
        &value.at,
        path,
        format!("{reason}: the folder {} is not trusted", folder.display()),
    )
    .with_hint(trust_hint())
}

/// Returns whether `mode` allows more than `than`.
pub(super) fn is_looser(mode: Mode, than: Mode) -> bool {
    let rank = |mode: Mode| Mode::ALL.iter().position(|each| *each == mode);
    rank(mode) > rank(than)
}

/// Returns an agent's mode in this tree, or the default mode.
pub(super) fn read_mode(tree: &SpannedValue, agent: &str) -> Mode {
    let keys = ["agent", agent, "mode"].map(str::to_owned);
    find_own(tree, &keys).and_then(to_mode).unwrap_or_default()
}

fn to_mode(value: &SpannedValue) -> Option<Mode> {
    value.text().and_then(Mode::from_name)
}

/// Returns whether a provider's `retry` or `max_retries` causes more retries, or longer waits, than the user wants.
fn raises_retries(keys: &[String], value: &SpannedValue, user: &SpannedValue) -> bool {
    let [_, provider, key] = keys else { return true };
    let policy_of = |profile| RetryPolicy::from_profile(to_retry_profile(profile));
    let own = policy_of(user.find(&["provider", provider, "retry"]));
    if key == "retry" {
        let given = policy_of(Some(value));
        return given.patient && !own.patient || given.max_retries > own.max_retries;
    }
    let own_retries = user.find(&["provider", provider, "max_retries"]);
    let most = own_retries
        .and_then(SpannedValue::as_f64)
        .unwrap_or(f64::from(own.max_retries));
    value.as_f64().is_some_and(|given| given > most)
}

fn to_retry_profile(value: Option<&SpannedValue>) -> RetryProfile {
    value
        .and_then(|value| serde_json::from_value(value.to_json()).ok())
        .unwrap_or_default()
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

    fn parse_tree(text: &str) -> SpannedValue {
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
            ("", "[agent.'a.b']\nmode = 'autoEdit'", Some("agent.\"a.b\".mode")),
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
            ("[sandbox]\nnetwork = true", "[sandbox]\nread_deny = ['x']", None),
            ("", "[tool.deploy]\ncommand = 'x'", Some("tool.deploy.command")),
            (
                "[tool.deploy]\ncommand = 'x'\ndescription = 'y'",
                "[tool.deploy]\neffect = 'read'",
                Some("tool.deploy.effect"),
            ),
            ("", "[tool.deploy]\ntimeout_s = 3", None),
            ("", "[model.m]\ninput = 0.0\noutput = 0.0", Some("model")),
            ("", "trusted = ['/w']", Some("trusted")),
            (
                "",
                "[agent.default]\nmode = 'autoEdit'",
                Some("agent.default.mode"),
            ),
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
                "[agent.default]\nmode = 'autoEdit'",
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
            let mut folder_settings = parse_tree(theirs);
            let problems = drop_refused_settings(&mut folder_settings, &parse_tree(user), Path::new("/w"));
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
                assert!(folder_settings.find(&keys).is_none(), "{problem}");
            }
        }
    }

    #[test]
    fn variables_of_an_ignored_table_are_not_reported_twice() {
        let mut tree = parse_tree("[mcp.x]\ncommand = 'c'\nargs = ['${X}']\nenv = { K = '${X}' }");
        assert!(hold_back_variables(&mut tree, Path::new("/w")).is_empty());
        let problems = drop_refused_settings(&mut tree, &parse_tree(""), Path::new("/w"));
        let keys: Vec<_> = problems.iter().map(|problem| problem.key.as_str()).collect();
        assert_eq!(keys, ["mcp"]);
        assert!(!tree.to_json().to_string().contains('$'));
    }

    #[test]
    fn untrusted_folder_reads_no_variables() {
        let mut folder_settings = parse_tree(
            "[agent.default]\nsystem_prompt = '${AWS_SECRET}'\nmodel = 'm'\n[approvals]\ndeny = ['${X}', '${X:-z}', 'y']",
        );
        let problems = hold_back_variables(&mut folder_settings, Path::new("/w"));
        assert_eq!(
            problems.iter().map(|problem| problem.line).collect::<Vec<_>>(),
            [2, 5, 5]
        );
        assert_eq!(
            folder_settings.to_json(),
            serde_json::json!({"agent": {"default": {"model": "m"}}, "approvals": {"deny": ["y"]}})
        );
    }
}
