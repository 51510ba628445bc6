//! Tests of files, the network, MCP, and the questions that users see.

use super::*;
use crate::domain::{FileFinding, FindingKind};

#[test]
fn files_by_mode_and_rule() {
    for (tool, kind, subject, expected) in [
        ("read_file", EffectKind::Read, "src/lib.rs", "AAAA"),
        ("read_file", EffectKind::Read, ".env", "???A"),
        ("read_file", EffectKind::Read, "a/server.pem", "???A"),
        ("read_file", EffectKind::Read, ".env.example", "AAAA"),
        ("read_file", EffectKind::Read, "/etc/hosts", "???A"),
        ("read_file", EffectKind::Read, "/home/u/.ssh/id_rsa", "???A"),
        ("read_file", EffectKind::Read, "private/x", "DDDD"),
        ("read_file", EffectKind::Read, "./private/x", "DDDD"),
        ("read_file", EffectKind::Read, ".git/config", "???A"),
        ("read_file", EffectKind::Read, ".git/HEAD", "AAAA"),
        ("grep", EffectKind::Read, ".", "AAAA"),
        ("edit_file", EffectKind::Write, "src/lib.rs", "DAAA"),
        ("edit_file", EffectKind::Write, "tests/x.rs", "D?AA"),
        ("edit_file", EffectKind::Write, "src/gen/x.rs", "DDDD"),
        ("edit_file", EffectKind::Write, "src/.env", "D??A"),
        ("edit_file", EffectKind::Write, "/etc/hosts", "D??A"),
        ("edit_file", EffectKind::Write, ".git/hooks/pre-commit", "D??A"),
        ("edit_file", EffectKind::Write, ".agentls/config.toml", "D??A"),
        ("edit_file", EffectKind::Write, "src/.vscode/tasks.json", "D??A"),
        ("edit_file", EffectKind::Write, ".GIT/config", "D??A"),
        ("edit_file", EffectKind::Write, "src/AGENTS.md", "D??A"),
        ("edit_file", EffectKind::Write, ".Cargo/Config.toml", "D??A"),
        ("edit_file", EffectKind::Write, ".github/workflows/ci.yml", "D??A"),
        ("edit_file", EffectKind::Write, "tests/conftest.py", "D?AA"),
        ("write_file", EffectKind::Write, "Cargo.toml", "D???"),
        ("write_file", EffectKind::Write, "src/lib.rs", "D?AA"),
        // A pattern for one of the two restricts both.
        ("write_file", EffectKind::Write, "src/gen/x.rs", "DDDD"),
        ("edit_file", EffectKind::Write, "Cargo.toml", "D???"),
        ("read_file", EffectKind::Read, "src/gen/x.rs", "AAAA"),
    ] {
        assert_eq!(
            letters(tool, &on_file(kind, subject)),
            expected,
            "{tool} {subject}"
        );
    }
}

#[test]
fn links_and_paths_that_lead_elsewhere_are_judged_by_their_target() {
    // The subject matches a rule, but its path leads elsewhere.
    let mut effect = on_file(EffectKind::Write, "src/link");
    effect.paths = vec![PathBuf::from("/ws/tests/x.rs")];
    assert_eq!(letters("edit_file", &effect), "D?AA");
    effect.paths = vec![PathBuf::from("/ws/src/gen/x.rs")];
    assert_eq!(letters("edit_file", &effect), "DDDD");
    // One of several files is not covered.
    let mut effect = on_file(EffectKind::Write, "src/a.rs");
    effect.paths.push(PathBuf::from("/ws/tests/x.rs"));
    assert_eq!(letters("edit_file", &effect), "D?AA");
    effect.paths[1] = PathBuf::from("/ws/src/b.rs");
    assert_eq!(letters("edit_file", &effect), "DAAA");
    effect.paths[1] = PathBuf::from("/ws/src/gen/b.rs");
    assert_eq!(letters("edit_file", &effect), "DDDD");
    // No pattern allows a path that climbs.
    let mut effect = on_file(EffectKind::Write, "src/../x");
    effect.paths.clear();
    assert_eq!(letters("edit_file", &effect), "D?AA");
    // The tool reports a secret although the name does not look like one.
    let mut effect = on_file(EffectKind::Read, "src/x");
    effect.secret = true;
    assert_eq!(letters("read_file", &effect), "???A");
}

#[test]
fn files_that_need_care_are_allowed_only_by_name() {
    for (grant, kind, subject, expected) in [
        ("read_file", EffectKind::Read, ".env", '?'),
        ("read_file(**)", EffectKind::Read, ".env", '?'),
        ("read_file(.env)", EffectKind::Read, ".env", 'A'),
        ("read_file(.env*)", EffectKind::Read, ".env.local", 'A'),
        ("read_file(.env.*)", EffectKind::Read, ".env.local", 'A'),
        ("read_file", EffectKind::Read, "/etc/hosts", '?'),
        ("read_file(/etc/*)", EffectKind::Read, "/etc/hosts", 'A'),
        ("read_file(/etc/*)", EffectKind::Read, "/etc/ssl/x", '?'),
        ("read_file(/**)", EffectKind::Read, "/home/u/.ssh/x", '?'),
        (
            "read_file(/home/u/.ssh/*)",
            EffectKind::Read,
            "/home/u/.ssh/x",
            'A',
        ),
        ("edit_file", EffectKind::Write, ".git/config", '?'),
        ("edit_file(**)", EffectKind::Write, ".git/config", '?'),
        ("edit_file(.git/*)", EffectKind::Write, ".git/config", '?'),
        ("edit_file(.git/config)", EffectKind::Write, ".git/config", 'A'),
        ("edit_file(.git/*)", EffectKind::Write, ".git/HEAD", 'A'),
        ("edit_file(/ws/tests/**)", EffectKind::Write, "tests/a", 'A'),
    ] {
        let tool = grant.split('(').next().unwrap();
        let policy = Policy {
            grants: grants(&[grant]),
            ..Policy::default()
        };
        let verdict = judge_tool_call(&policy, tool, &on_file(kind, subject));
        assert_eq!(letter(&verdict), expected, "{grant} {subject}: {verdict:?}");
    }
}

#[test]
fn network_and_mcp_by_mode_and_rule() {
    for (tool, kind, subject, expected) in [
        ("web_fetch", EffectKind::Network, "https://docs.rs/tokio", "DAAA"),
        (
            "web_fetch",
            EffectKind::Network,
            "https://docs.rs.evil.com/",
            "D??A",
        ),
        ("web_fetch", EffectKind::Network, "https://evil.example/x", "DDDD"),
        ("web_fetch", EffectKind::Network, "https://x.org/", "D??A"),
        ("web_search", EffectKind::Network, "rust", "D???"),
        ("mcp:docs/read", EffectKind::Network, "", "DAAA"),
        ("mcp:docs/delete", EffectKind::Network, "", "DDDD"),
        ("mcp:other/read", EffectKind::Network, "", "D??A"),
        ("mcp:other/run", EffectKind::Execute, "rm -rf /", "D??A"),
        ("mcp:other/read", EffectKind::Read, "x", "???A"),
        ("mcp:other/x", EffectKind::None, "", "???A"),
        ("update_plan", EffectKind::None, "", "AAAA"),
        // A configured command tool: its command line is judged like one of bash.
        ("deploy", EffectKind::Execute, "make deploy", "D??A"),
    ] {
        assert_eq!(
            letters(tool, &of_kind(kind, subject)),
            expected,
            "{tool} {subject}"
        );
    }
    let mut policy = sample(Mode::Full);
    policy.deny = rules(&["update_plan"]);
    assert_eq!(
        letter(&judge_tool_call(&policy, "update_plan", &Effect::none())),
        'D'
    );
}

#[test]
fn foreign_content_asks_again() {
    for (tool, effect, expected) in [
        (
            "web_fetch",
            of_kind(EffectKind::Network, "https://docs.rs/tokio"),
            "D??A",
        ),
        ("edit_file", on_file(EffectKind::Write, "/tmp/x"), "D??A"),
        ("edit_file", on_file(EffectKind::Write, "tests/x"), "DAAA"),
        ("bash", Effect::from_command("git status"), "DAAA"),
    ] {
        let found: String = Mode::ALL
            .into_iter()
            .map(|mode| {
                let mut policy = sample(mode);
                policy.grants = grants(&["web_fetch", "edit_file", "edit_file(/tmp/**)"]);
                policy.foreign_content = ForeignContent::Elsewhere;
                letter(&judge_tool_call(&policy, tool, &effect))
            })
            .collect();
        assert_eq!(found, expected, "{tool} {effect:?}");
    }
}

#[test]
fn a_command_outside_the_workspace_asks() {
    let mut effect = Effect::from_command("git status");
    effect.outside = true;
    assert_eq!(letters("bash", &effect), "D??A");
}

#[test]
fn questions_state_the_reason_the_risk_and_the_offered_rule() {
    let ask = |tool: &str, effect: &Effect| match judge_tool_call(&sample(Mode::Ask), tool, effect) {
        Verdict::Ask {
            reason, risk, rule, ..
        } => (reason, risk, rule),
        other => panic!("{other:?}"),
    };
    use Risk::{High, Medium};
    for (command, reason, risk, rule) in [
        (
            "make",
            "not in your allow rules: `make`",
            Medium,
            Some("bash(make)"),
        ),
        (
            "cargo build -q",
            "not in your allow rules: `cargo build -q`",
            Medium,
            Some("bash(cargo build *)"),
        ),
        (
            "git status; cargo build && npm run lint | cargo build x",
            "not in your allow rules: `cargo build`",
            Medium,
            Some("bash(cargo build *), bash(npm run lint)"),
        ),
        ("ls > out", "writes a file: out", Medium, None),
        (
            "ls $x",
            "has a part that is unknown in advance: a variable",
            Medium,
            None,
        ),
        ("echo 'x", "the rule `bash(rm -rf*)` may deny it", High, None),
        (
            "cat .env",
            "names a file that looks like a secret: .env",
            High,
            Some("bash(cat .env)"),
        ),
        (
            "cargo publish",
            "`bash(cargo publish*)` always asks",
            High,
            Some("bash(cargo publish)"),
        ),
        ("sudo make", "not in your allow rules: `sudo make`", High, None),
        ("f() { make; }; f", "defines a function", High, None),
    ] {
        let found = ask("bash", &Effect::from_command(command));
        let reason = format!("runs a command · {reason}");
        assert_eq!(found, (reason, risk, rule.map(str::to_owned)), "{command}");
    }
    let forced = Policy {
        require_approval: rules(&["bash"]),
        ..Policy::default()
    };
    let effect = Effect {
        findings: Some(Vec::new()),
        ..Effect::from_command("ls -la")
    };
    assert_eq!(
        judge_tool_call(&forced, "bash", &effect),
        Verdict::Ask {
            reason: "runs a command · `bash` always asks".to_owned(),
            risk: Risk::Low,
            rule: Some("bash(ls -la)".to_owned()),
            losses: None,
        }
    );
    let outside = Effect {
        findings: Some(vec![FileFinding {
            part: 0,
            kind: FindingKind::Outside,
            file: "/etc/hosts".to_owned(),
            tracked_as: None,
        }]),
        ..Effect::from_command("cat /etc/hosts")
    };
    assert_eq!(
        judge_tool_call(&Policy::default(), "bash", &outside),
        Verdict::Ask {
            reason: "runs a command · reads outside the workspace: /etc/hosts".to_owned(),
            risk: Risk::High,
            rule: Some("bash(cat /etc/hosts)".to_owned()),
            losses: None,
        }
    );
    for (tool, kind, subject, reason, risk, rule) in [
        (
            "edit_file",
            EffectKind::Write,
            "tests/a/x.rs",
            "writes tests/a/x.rs",
            Risk::Medium,
            Some("edit_file(tests/a/**)"),
        ),
        (
            "edit_file",
            EffectKind::Write,
            "x[1].rs",
            "writes x[1].rs",
            Risk::Medium,
            Some("edit_file(x\\[1\\].rs)"),
        ),
        (
            "edit_file",
            EffectKind::Write,
            "/etc/hosts",
            "writes outside the workspace: /etc/hosts",
            Risk::High,
            Some("edit_file(/etc/hosts)"),
        ),
        (
            "read_file",
            EffectKind::Read,
            "a/.env",
            "reads a file that looks like a secret: a/.env",
            Risk::High,
            Some("read_file(a/.env)"),
        ),
        (
            "edit_file",
            EffectKind::Write,
            ".git/hooks/x",
            "writes a file that steers git: .git/hooks/x",
            Risk::High,
            Some("edit_file(.git/hooks/x)"),
        ),
    ] {
        let found = ask(tool, &on_file(kind, subject));
        assert_eq!(
            found,
            (reason.to_owned(), risk, rule.map(str::to_owned)),
            "{tool} {subject}"
        );
    }
    for (tool, kind, subject, reason, rule) in [
        (
            "web_fetch",
            EffectKind::Network,
            "https://x.org/a?b",
            "talks to the network: https://x.org/a?b",
            Some("web_fetch(https://x.org/*)"),
        ),
        (
            "upload",
            EffectKind::Network,
            "./upload --all",
            "runs a command that talks to the network: ./upload --all",
            Some("upload"),
        ),
        (
            "fmt",
            EffectKind::Write,
            "make fmt",
            "runs a command that changes files: make fmt",
            Some("fmt"),
        ),
        (
            "mcp:a/b",
            EffectKind::Network,
            "{}",
            "calls a tool of an MCP server: mcp:a/b",
            Some("mcp:a/b"),
        ),
        // A rule with this name would match other tools too.
        (
            "mcp:a/get*",
            EffectKind::Execute,
            "{}",
            "calls a tool of an MCP server: mcp:a/get*",
            None,
        ),
        (
            "mcp:a/b ",
            EffectKind::Execute,
            "{}",
            "calls a tool of an MCP server: mcp:a/b ",
            None,
        ),
    ] {
        let found = ask(tool, &of_kind(kind, subject));
        let risk = match kind {
            EffectKind::Write => Risk::Medium,
            _ => Risk::High,
        };
        assert_eq!(
            found,
            (reason.to_owned(), risk, rule.map(str::to_owned)),
            "{tool} {subject}"
        );
    }
}

/// An invalid rule could have denied anything, so only plain reading continues.
#[test]
fn while_a_deny_rule_is_invalid_only_plain_reading_is_free() {
    const WHY: &str = "the deny rule `bsh(touch*)` (config.toml:12) is not valid";
    for (tool, effect, expected) in [
        ("read_file", on_file(EffectKind::Read, "src/lib.rs"), "AAAA"),
        ("update_plan", Effect::none(), "AAAA"),
        ("read_file", on_file(EffectKind::Read, ".env"), "????"),
        ("read_file", on_file(EffectKind::Read, "/etc/hosts"), "????"),
        ("read_file", on_file(EffectKind::Read, "private/x"), "DDDD"),
        ("edit_file", on_file(EffectKind::Write, "src/lib.rs"), "D???"),
        ("bash", Effect::from_command("ls"), "D???"),
        ("bash", Effect::from_command("git push"), "DDDD"),
        (
            "web_fetch",
            of_kind(EffectKind::Network, "https://docs.rs/tokio"),
            "D???",
        ),
        ("mcp:docs/read", of_kind(EffectKind::Network, ""), "D???"),
        ("fmt", of_kind(EffectKind::Read, "make fmt"), "????"),
    ] {
        let found: String = Mode::ALL
            .into_iter()
            .map(|mode| {
                let mut policy = sample(mode);
                policy.invalid_rules = vec![WHY.to_owned()];
                policy.grants = grants(&["*", "bash(ls *)"]);
                let verdict = judge_tool_call(&policy, tool, &effect);
                if let Verdict::Ask { reason, rule, .. } = &verdict {
                    assert!(reason.starts_with(WHY), "{reason}");
                    assert_eq!(*rule, None);
                }
                letter(&verdict)
            })
            .collect();
        assert_eq!(found, expected, "{tool} {effect:?}");
    }
}

#[test]
fn a_denied_url_is_denied_in_every_spelling() {
    for url in [
        "https://evil.example:8443/x",
        "http://evil.example/x",
        "https://evil.example./x",
    ] {
        assert_eq!(
            letters("web_fetch", &of_kind(EffectKind::Network, url)),
            "DDDD",
            "{url}"
        );
    }
}

#[test]
fn a_tool_may_do_less_than_the_mode_allows_or_is_never_confined() {
    use crate::domain::SandboxPolicy::{Off, ReadOnly, Workspace};
    for (mode, stated, policy) in [
        (Mode::Plan, Workspace, ReadOnly),
        (Mode::Plan, Off, Off),
        (Mode::Ask, ReadOnly, ReadOnly),
        (Mode::AutoEdit, Workspace, Workspace),
        (Mode::AutoEdit, Off, Off),
        (Mode::Full, Workspace, Workspace),
        (Mode::Full, ReadOnly, ReadOnly),
    ] {
        let effect = Effect {
            sandbox: Some(stated),
            ..Effect::from_command("make")
        };
        assert_eq!(
            crate::approval::choose_sandbox_policy(mode, &effect),
            policy,
            "{mode:?} {stated}"
        );
    }
}

/// A patch does the work of other tools, so their rules count: one for a part restricts it, one for all parts allows it.
#[test]
fn rules_for_edits_and_writes_count_for_patches() {
    let patch = |paths: &[&str], stands_for: &[&'static str]| Effect {
        paths: paths.iter().map(|path| Path::new("/ws").join(path)).collect(),
        stands_for: stands_for.to_vec(),
        ..on_file(EffectKind::Write, paths[0])
    };
    let (edit, write) = (&["edit_file"][..], &["write_file"][..]);
    let both = ["edit_file", "write_file"];
    for (allow, deny, paths, stands_for, letter) in [
        (
            &["edit_file(src/**)"][..],
            &[][..],
            &["src/a.rs", "src/b.rs"][..],
            edit,
            'A',
        ),
        (&["edit_file(src/**)"], &[], &["src/a.rs", "b.rs"], edit, '?'),
        (&["edit_file(src/**)"], &[], &["src/a.rs"], write, '?'),
        (&["edit_file(src/**)"], &[], &["src/a.rs"], &both, '?'),
        (&["write_file(src/**)"], &[], &["src/a.rs"], write, 'A'),
        (&["*_file(src/**)"], &[], &["src/a.rs", "src/b.rs"], &both, 'A'),
        (&["apply_patch(src/**)"], &[], &["src/a.rs"], &both, 'A'),
        (
            &["edit_file(src/**)"],
            &["edit_file(src/gen/**)"],
            &["src/a.rs", "src/gen/b.rs"],
            edit,
            'D',
        ),
        (
            &["apply_patch"],
            &["write_file(src/gen/**)"],
            &["src/a.rs", "src/gen/b.rs"],
            edit,
            'D',
        ),
        (&["apply_patch"], &["edit_file"], &["src/a.rs"], write, 'D'),
        (&["apply_patch"], &["write_file"], &["src/a.rs"], &both, 'D'),
        (&["apply_patch"], &["write_file"], &["src/a.rs"], edit, 'A'),
        (&["edit_file"], &["apply_patch"], &["src/a.rs"], edit, 'D'),
        // What needs care must be named, each file of it.
        (&["edit_file(**)"], &[], &["src/a.rs", ".git/hooks/x"], edit, '?'),
        (&["edit_file(.git/**)"], &[], &[".git/hooks/x"], edit, 'A'),
        (
            &["edit_file({.git/**,**})"],
            &[],
            &[".git/hooks/x", ".vscode/tasks.json"],
            edit,
            '?',
        ),
    ] {
        let policy = Policy {
            allow: rules(allow),
            deny: rules(deny),
            ..Policy::default()
        };
        let verdict = judge_tool_call(&policy, "apply_patch", &patch(paths, stands_for));
        assert_eq!(
            super::letter(&verdict),
            letter,
            "{allow:?} {deny:?} {paths:?} {stands_for:?}: {verdict:?}"
        );
    }
    let asked = |effect: &Effect| match judge_tool_call(&Policy::default(), "apply_patch", effect) {
        Verdict::Ask { reason, rule, .. } => (reason, rule),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        asked(&patch(&["src/a.rs"], edit)),
        (
            "changes src/a.rs".to_owned(),
            Some("edit_file(src/**)".to_owned())
        )
    );
    assert_eq!(
        asked(&patch(&["src/a.rs"], &both)),
        (
            "changes src/a.rs".to_owned(),
            Some("apply_patch(src/**)".to_owned())
        )
    );
    assert_eq!(
        asked(&patch(&["src/a.rs", "b.rs", "c.rs"], edit)),
        ("changes src/a.rs and 2 more files".to_owned(), None)
    );
}
