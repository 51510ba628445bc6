//! Tests of the rules under `[approvals]`: how layers join them, and what happens to an unreadable rule.

use super::*;

#[test]
fn rule_lists_of_layers_are_joined() {
    let loaded = TestLayers {
        user: "[approvals]\ndeny = 'bash(rm *)'\nallow = ['read_file']",
        workspace: "[approvals]\ndeny = ['bash(rm *)', 'web_fetch']\nallow = 'grep'\nrequire_approval = ['x(']",
        trusted: true,
        ..TestLayers::default()
    }
    .load();
    assert_eq!(*loaded.settings.approvals.deny, ["bash(rm *)", "web_fetch"]);
    assert_eq!(*loaded.settings.approvals.allow, ["read_file", "grep"]);
    assert_eq!(
        lines(&loaded),
        [
            "/w/.agentls/config.toml:4:21: error: approvals.require_approval: rule `x(`: parentheses do not match: \
             the pattern ends with the rule; write `\\(` and `\\)` for those that belong to it; ignored \
             (until it is fixed, everything except plain reading asks)"
        ]
    );
    assert_eq!(
        loaded.settings.approvals.unreadable,
        ["the require_approval rule `x(` (/w/.agentls/config.toml:4) is invalid"]
    );
}

#[test]
fn allow_rules_that_let_any_program_run_are_warned_of() {
    let loaded = TestLayers {
        user: "[approvals]\nallow = ['bash(python3 *)', 'bash(python3 x.py *)', 'bash(*)']\ndeny = ['bash(npx *)']",
        ..TestLayers::default()
    }
    .load();
    assert_eq!(loaded.settings.approvals.allow.len(), 3);
    assert_eq!(
        lines(&loaded),
        [
            "/h/c.toml:2:10: warning: approvals.allow: `bash(python3 *)` allows any program: `python3` runs what its \
             arguments say (name what it runs, as in `bash(python3 NAME *)`)",
            "/h/c.toml:2:53: warning: approvals.allow: `bash(*)` allows every command without a question, also outside the \
             sandbox (name the commands, as in `bash(cargo test *)`)"
        ]
    );
}

#[test]
fn allow_rules_that_leave_a_value_open_are_warned_of() {
    let loaded = TestLayers {
        user: "[approvals]\nallow = ['bash(CI=* cargo test)', 'bash(CI=1 cargo test *)']\ndeny = ['bash(CI=* npx *)']",
        ..TestLayers::default()
    }
    .load();
    assert_eq!(
        lines(&loaded),
        [
            "/h/c.toml:2:10: warning: approvals.allow: `bash(CI=* cargo test)` allows nothing: it leaves open which value \
             `CI` has before the command (write one rule for each value, as in `bash(CI=1 make)`)"
        ]
    );
}

/// A rule that denies or asks must not vanish: whatever makes it unreadable is remembered.
#[test]
fn unreadable_deny_rules_are_remembered() {
    for (text, unreadable) in [
        (
            "[approvals]\ndeny = ['bsh(touch*)']",
            "the deny rule `bsh(touch*)` (/c.toml:2) is invalid",
        ),
        (
            "[approvals]\ndeny = 'bash(a; b)'",
            "the deny rule `bash(a; b)` (/c.toml:2) is invalid",
        ),
        (
            "[approvals]\ndeny = ['Read(./x)']",
            "the deny rule `Read(./x)` (/c.toml:2) is invalid",
        ),
        (
            "[approvals]\nrequire_approval = ['web_fetch(x.org)']",
            "the require_approval rule `web_fetch(x.org)`",
        ),
        (
            "[approvals]\ndeny = [1]",
            "approvals.deny (/c.toml:2) is invalid: expected text",
        ),
        (
            "[approvals]\ndeny = 1",
            "approvals.deny (/c.toml:2) is invalid: expected text or a list",
        ),
        (
            "[approvals]\ndeny = ['${NOT_SET}']",
            "approvals.deny (/c.toml:2) is invalid: ",
        ),
        (
            "[approvals]\ndney = ['bash']",
            "approvals.dney (/c.toml:2) is invalid: unknown setting",
        ),
        (
            "[approval]\ndeny = ['bash']",
            "approval (/c.toml:1) is invalid: unknown setting",
        ),
        (
            "[permissions]\ndeny = ['bash']",
            "permissions (/c.toml:1) is invalid: unknown setting",
        ),
        ("approvals = 1", "approvals (/c.toml:1) is invalid"),
        (
            "[sandbox]\nrequired = 'yes'",
            "sandbox.required (/c.toml:2) is invalid: expected true or false",
        ),
        ("[sandbox]\nread_deny = [5]", "sandbox.read_deny (/c.toml:2)"),
        (
            "[sandbox]\nread_deny = ['${NOT_SET}']",
            "sandbox.read_deny (/c.toml:2)",
        ),
        ("[sandbox]\nred_deny = ['x']", "sandbox.red_deny (/c.toml:2)"),
        ("[sandbx]\nrequired = true", "sandbx (/c.toml:1)"),
        ("sandbox = true", "sandbox (/c.toml:1)"),
        ("[approvals]\ndeny = ['bash'", "the configuration (/c.toml:"),
    ] {
        let loaded = TestLayers {
            user: text,
            ..TestLayers::default()
        }
        .load();
        let found = loaded.settings.approvals.unreadable.clone();
        let text_of = found
            .first()
            .map_or("", String::as_str)
            .replace("/h/c.toml", "/c.toml");
        assert!(text_of.starts_with(unreadable), "{text}: {found:?}");
        assert!(loaded.settings.approvals.deny.is_empty(), "{text}");
    }
    for text in [
        "[approvals]\nallow = ['bsh(x)']",
        "[approvals]\ntimeout_s = 'x'",
        "[approvals]\ndeny = ['deploy', 'Bash(touch:*)', 'mcp__a__b']\n[tool.deploy]\ncommand = 'x'\ndescription = 'y'",
        "[agent.default]\nmodle = 'x'",
        "[sandbox]\nenbled = true",
    ] {
        let loaded = TestLayers {
            user: text,
            ..TestLayers::default()
        }
        .load();
        assert_eq!(loaded.settings.approvals.unreadable, [""; 0], "{text}");
        assert!(loaded.settings.approvals.allow.is_empty(), "{text}");
    }
    // Variables of an untrusted folder are not expanded, so its rule counts as missing.
    let loaded = TestLayers {
        workspace: "[approvals]\ndeny = ['bash(${X})']",
        env: &[("X", "rm *")],
        ..TestLayers::default()
    }
    .load();
    assert_eq!(loaded.settings.approvals.unreadable.len(), 1);
    // Settings that a folder may not loosen are ignored, and leave the sandbox as the user has set it.
    let loaded = TestLayers {
        user: "[sandbox]\nrequired = true",
        workspace: "[sandbox]\nrequired = false\nnetwork = true\nwrite = ['/x']",
        ..TestLayers::default()
    }
    .load();
    assert_eq!(loaded.settings.approvals.unreadable, [""; 0]);
}

#[test]
fn star_at_the_end_of_a_word_is_explained() {
    let loaded = TestLayers {
        user: "[approvals]\nallow = ['bash(git status*)']\ndeny = ['bash(rm*)']",
        ..TestLayers::default()
    }
    .load();
    let found = lines(&loaded);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains(":2:10: warning: approvals.allow: "),
        "{found:?}"
    );
    assert!(
        found[0].ends_with("(to say so, write `bash(git status *)`)"),
        "{found:?}"
    );
}
