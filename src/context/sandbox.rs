//! Describes the sandbox of commands for the model, so that it does not learn by refusals what is possible. Pure.

use crate::config::{HomeAccess, SandboxSettings};
use crate::domain::{SandboxLevel, SandboxMethod, SandboxNetwork, SandboxPolicy};

/// Most bytes of each list of hosts or folders.
const MAX_LIST: usize = 60;

/// Returns a line about what commands may do, of at most about 600 bytes; `None` if they are not confined.
pub fn describe_sandbox(
    settings: &SandboxSettings,
    policy: SandboxPolicy,
    method: SandboxMethod,
) -> Option<String> {
    if !settings.enabled || policy == SandboxPolicy::Off {
        return None;
    }
    let level = method.level();
    if settings.required && level != SandboxLevel::Full {
        return Some(
            "commands are refused: the user requires a sandbox, and none holds in full here".to_owned(),
        );
    }
    if level == SandboxLevel::None {
        return None;
    }
    let mut text = format!("commands run in a sandbox ({level}). They write only in ");
    text.push_str(if method.has_namespaces() {
        "/tmp (private to them, removed with the session)"
    } else {
        "$TMPDIR (removed with the session)"
    });
    if policy == SandboxPolicy::Workspace {
        text.push_str(", the workspace folders, and caches of build tools");
        if let Some(more) = join_within(&settings.write, MAX_LIST) {
            text.push_str(&format!(", and {more}"));
        }
    }
    if level == SandboxLevel::Full {
        text.push_str("; not in files that make programs run, such as .git/config and .vscode. Keys and tokens cannot be read");
        if settings.read == HomeAccess::Allowlist {
            text.push_str(", nor anything in the home folder but the workspace, tool chains, and caches");
        }
    }
    text.push_str(". ");
    text.push_str(&describe_network(settings, method));
    if policy == SandboxPolicy::Workspace {
        text.push_str(if settings.required {
            " Nothing runs outside of it, as the user's settings require."
        } else {
            " If a task needs more, call bash with \"outside_sandbox\": true and say why: the user is asked."
        });
    }
    Some(text)
}

fn describe_network(settings: &SandboxSettings, method: SandboxMethod) -> String {
    match method.limit_network(settings.network) {
        SandboxNetwork::Open => "The network is open.".to_owned(),
        SandboxNetwork::Offline if method.has_namespaces() => {
            "No network, except servers of the same command on 127.0.0.1.".to_owned()
        }
        SandboxNetwork::Offline => "No network, not even 127.0.0.1.".to_owned(),
        SandboxNetwork::Proxy => {
            let hosts = join_within(&settings.allow_hosts, MAX_LIST);
            let allowed = hosts.map_or_else(String::new, |hosts| format!(" reaches {hosts};"));
            format!(
                "Network only through the HTTP proxy in HTTPS_PROXY, which{allowed} asks the user about other hosts."
            )
        }
    }
}

/// Joins the first entries, with the number of those that do not fit. `None` if there are none.
fn join_within(entries: &[String], limit: usize) -> Option<String> {
    let mut text = String::new();
    let mut rest = entries.len();
    for entry in entries {
        if text.len() + entry.len() > limit {
            break;
        }
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(entry);
        rest -= 1;
    }
    match (text.is_empty(), rest) {
        (true, 0) => None,
        (true, rest) => Some(format!("{rest} of the user's settings")),
        (false, 0) => Some(text),
        (false, rest) => Some(format!("{text}, {rest} more")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::StringList;

    fn settings(network: SandboxNetwork, hosts: &[&str]) -> SandboxSettings {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        SandboxSettings {
            network,
            allow_hosts: StringList(hosts.clone()),
            write: StringList(hosts),
            ..SandboxSettings::default()
        }
    }

    #[test]
    fn the_text_follows_the_settings_the_policy_and_the_method() {
        let text = |policy, method, network, hosts: &[&str]| {
            describe_sandbox(&settings(network, hosts), policy, method).unwrap_or_default()
        };
        let workspace = text(
            SandboxPolicy::Workspace,
            SandboxMethod::Namespaces,
            SandboxNetwork::Offline,
            &[],
        );
        for part in [
            "(full)",
            "/tmp (private to them, removed with the session), the workspace folders, and caches",
            ".git/config",
            "Keys",
            "No network, except",
            "outside_sandbox",
        ] {
            assert!(workspace.contains(part), "{part}: {workspace}");
        }
        let plan = text(
            SandboxPolicy::ReadOnly,
            SandboxMethod::Bubblewrap,
            SandboxNetwork::Open,
            &[],
        );
        assert!(
            plan.contains("only in /tmp (private to them, removed with the session); not")
                && plan.contains("network is open"),
            "{plan}"
        );
        assert!(!plan.contains("outside_sandbox"), "{plan}");
        let partial = text(
            SandboxPolicy::Workspace,
            SandboxMethod::Landlock,
            SandboxNetwork::Proxy,
            &["a.example"],
        );
        assert!(
            partial.contains("(partial)") && partial.contains("$TMPDIR"),
            "{partial}"
        );
        assert!(
            partial.contains("not even 127.0.0.1") && !partial.contains("Keys"),
            "{partial}"
        );
        let proxy = text(
            SandboxPolicy::Workspace,
            SandboxMethod::Namespaces,
            SandboxNetwork::Proxy,
            &["a.example", "b.example"],
        );
        assert!(proxy.contains("reaches a.example, b.example; asks"), "{proxy}");
        assert!(proxy.contains("caches of build tools, and a.example"), "{proxy}");
        let many = vec!["some-long-host-name.registry.example.com"; 100];
        let long = text(
            SandboxPolicy::Workspace,
            SandboxMethod::Namespaces,
            SandboxNetwork::Proxy,
            &many,
        );
        assert!(
            long.len() <= 600 && long.contains("99 more"),
            "{}: {long}",
            long.len()
        );
        for method in [SandboxMethod::None, SandboxMethod::Namespaces] {
            assert_eq!(text(SandboxPolicy::Off, method, SandboxNetwork::Offline, &[]), "");
        }
        let required = SandboxSettings {
            required: true,
            ..SandboxSettings::default()
        };
        let refused = describe_sandbox(&required, SandboxPolicy::Workspace, SandboxMethod::Landlock);
        assert!(refused.unwrap().contains("refused"));
        let confined = describe_sandbox(&required, SandboxPolicy::Workspace, SandboxMethod::Namespaces);
        let confined = confined.unwrap();
        assert!(
            confined.contains("Nothing runs outside") && !confined.contains("outside_sandbox"),
            "{confined}"
        );
    }
}
