//! Commands in the sandbox (R-BOX): free where nothing speaks against them, and never because a rule was for others.

use super::*;
use crate::approval::choose_sandbox_policy;
use crate::domain::{Confinement, FileFinding, FindingKind, SandboxPolicy};

fn command(line: &str, confinement: Confinement) -> Effect {
    Effect {
        confinement,
        ..Effect::from_command(line)
    }
}

fn judge(policy: &Policy, line: &str, confinement: Confinement) -> Verdict {
    judge_tool_call(policy, "bash", &command(line, confinement))
}

fn is_free(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Allow { .. })
}

#[test]
fn sandboxed_commands_are_free_by_mode_or_setting() {
    for (mode, setting, free) in [
        (Mode::AutoEdit, None, true),
        (Mode::AutoEdit, Some(true), false),
        (Mode::Ask, None, false),
        (Mode::Ask, Some(false), true),
        (Mode::Full, Some(true), true),
        (Mode::Plan, Some(false), false),
    ] {
        let policy = Policy {
            mode,
            sandboxed_needs_approval: setting,
            ..Policy::default()
        };
        let verdict = judge(&policy, "make install", Confinement::Sandboxed);
        assert_eq!(is_free(&verdict), free, "{mode:?} {setting:?}: {verdict:?}");
        // Without a sandbox nothing changes.
        let verdict = judge(&policy, "make install", Confinement::None);
        assert_eq!(
            is_free(&verdict),
            mode == Mode::Full,
            "{mode:?} {setting:?}: {verdict:?}"
        );
    }
}

#[test]
fn in_plan_a_command_that_only_reads_asks_about_files_elsewhere() {
    use FindingKind::{OptionName, Outside, Secret, Unchecked};
    let policy = Policy {
        mode: Mode::Plan,
        ..Policy::default()
    };
    let judge = |line: &str, kind, confinement| {
        let effect = Effect {
            findings: Some(vec![FileFinding {
                part: 0,
                kind,
                file: "/elsewhere".to_owned(),
                tracked_as: None,
            }]),
            ..command(line, confinement)
        };
        judge_tool_call(&policy, "bash", &effect)
    };
    for (line, kind, want) in [
        (
            "cat /elsewhere",
            Outside,
            "reads outside the workspace: /elsewhere",
        ),
        (
            "cat /elsewhere | head",
            Outside,
            "reads outside the workspace: /elsewhere",
        ),
        ("cat a.txt", Secret, "looks like a secret: /elsewhere"),
    ] {
        for confinement in [Confinement::None, Confinement::Sandboxed] {
            let verdict = judge(line, kind, confinement);
            let Verdict::Ask { reason, rule, .. } = verdict else {
                panic!("{line}: {verdict:?}");
            };
            assert!(reason.contains(want), "{reason}");
            assert_eq!(rule, None);
        }
    }
    for (line, kind, confinement, want) in [
        (
            "cat /elsewhere > out",
            Outside,
            Confinement::None,
            "(reason: writes a file: out)",
        ),
        (
            "cat /elsewhere",
            Outside,
            Confinement::Declined,
            "outside the sandbox",
        ),
        (
            "cat /elsewhere && echo > out",
            Outside,
            Confinement::None,
            "writes a file: out",
        ),
        (
            "cat /elsewhere && make",
            Outside,
            Confinement::None,
            "plan instead",
        ),
        ("make", Outside, Confinement::Sandboxed, "plan instead"),
        (
            "cat *",
            OptionName,
            Confinement::None,
            "file name as an option: /elsewhere",
        ),
        (
            "git status",
            Unchecked,
            Confinement::None,
            "cannot check what it reads: /elsewhere",
        ),
        ("f() { cat x; }; f", Outside, Confinement::None, "plan instead"),
        ("cat $(id)", Outside, Confinement::None, "plan instead"),
    ] {
        let verdict = judge(line, kind, confinement);
        let Verdict::Deny { reason } = verdict else {
            panic!("{line}: {verdict:?}");
        };
        assert!(reason.contains(want), "{line}: {reason}");
    }
}

#[test]
fn rules_that_deny_or_ask_hold_in_the_sandbox_too() {
    let policy = Policy {
        mode: Mode::AutoEdit,
        deny: rules(&["bash(rm *)"]),
        require_approval: rules(&["bash(git push*)"]),
        ..Policy::default()
    };
    let judge = |line| judge(&policy, line, Confinement::Sandboxed);
    assert!(matches!(judge("rm -r x"), Verdict::Deny { .. }));
    assert!(matches!(judge("git push"), Verdict::Ask { .. }));
    // It may be `rm`.
    assert!(matches!(judge("$x -r y"), Verdict::Ask { .. }));
    assert!(is_free(&judge("make")));
    let unreadable = Policy {
        invalid_rules: vec!["a rule is not valid".to_owned()],
        ..policy.clone()
    };
    let verdict = judge_tool_call(&unreadable, "bash", &command("make", Confinement::Sandboxed));
    assert!(matches!(verdict, Verdict::Ask { .. }));
}

#[test]
fn a_question_about_a_sandboxed_command_says_so_and_has_a_low_risk() {
    let policy = Policy::default();
    let Verdict::Ask { reason, risk, .. } = judge(&policy, "make install", Confinement::Sandboxed) else {
        panic!("it is free");
    };
    assert!(reason.starts_with("runs a command in the sandbox"), "{reason}");
    assert_eq!(risk, Risk::Low);
}

#[test]
fn outside_of_the_sandbox_no_rule_for_bash_counts_but_full_mode_does() {
    let policy = |mode| Policy {
        mode,
        allow: rules(&["*", "bash", "bash(ls *)", "bash_sandboxed", "bash_outside(mak)"]),
        grants: grants(&["bash(make)"]),
        ..Policy::default()
    };
    for line in ["make", "ls src", "pwd"] {
        for mode in [Mode::Ask, Mode::AutoEdit] {
            let verdict = judge(&policy(mode), line, Confinement::Declined);
            let Verdict::Ask { reason, rule, .. } = verdict else {
                panic!("{line} in {mode:?}: {verdict:?}");
            };
            assert!(
                reason.starts_with("runs a command outside the sandbox"),
                "{reason}"
            );
            assert_eq!(rule, Some(format!("bash_outside({line})")));
        }
        assert!(is_free(&judge(&policy(Mode::Full), line, Confinement::Declined)));
    }
}

#[test]
fn a_rule_for_one_line_outside_of_the_sandbox_allows_exactly_that_line() {
    let line = "make install > log; echo $(id) \\ 'a*b'";
    let Verdict::Ask { rule, .. } = judge(&Policy::default(), line, Confinement::Declined) else {
        panic!("it is free");
    };
    let offered = rule.expect("a rule is offered");
    let granted = Policy {
        grants: super::grants(&[&offered]),
        ..Policy::default()
    };
    assert!(
        is_free(&judge(&granted, line, Confinement::Declined)),
        "{offered}"
    );
    for other in [
        "make install > log; echo $(id) \\ 'axb'",
        "make install",
        " make install",
    ] {
        assert!(
            !is_free(&judge(&granted, other, Confinement::Declined)),
            "{other}"
        );
    }
    assert!(!is_free(&judge(&granted, line, Confinement::None)));
    let rules_of = |policy: &Policy| policy.grants.iter().map(|grant| grant.rule.clone()).collect();
    let denied = Policy {
        deny: rules(&["bash(make *)"]),
        ..granted.clone()
    };
    assert!(matches!(
        judge(&denied, line, Confinement::Declined),
        Verdict::Deny { .. }
    ));
    let asked = Policy {
        allow: rules_of(&granted),
        require_approval: rules(&["bash(make *)"]),
        ..Policy::default()
    };
    assert!(!is_free(&judge(&asked, line, Confinement::Declined)));
    let denied = Policy {
        mode: Mode::Full,
        deny: rules_of(&granted),
        ..Policy::default()
    };
    assert!(matches!(
        judge(&denied, line, Confinement::Declined),
        Verdict::Deny { .. }
    ));
    for invisible in ["make\u{200b}", "make\ninstall", &"x".repeat(2_000)] {
        let Verdict::Ask { rule, .. } = judge(&Policy::default(), invisible, Confinement::Declined) else {
            panic!("it is free");
        };
        assert_eq!(rule, None, "{invisible:?}");
    }
}

#[test]
fn an_answer_allows_this_command_in_the_sandbox_and_a_rule_may_allow_all() {
    for (line, offered) in [("touch A", Some("bash_sandboxed(touch A)")), ("make $x", None)] {
        let Verdict::Ask { rule, .. } = judge(&Policy::default(), line, Confinement::Sandboxed) else {
            panic!("{line} is free");
        };
        assert_eq!(rule.as_deref(), offered, "{line}");
    }
    let granted = Policy {
        grants: grants(&["bash_sandboxed"]),
        require_approval: rules(&["bash(rm *)"]),
        ..Policy::default()
    };
    assert!(is_free(&judge(&granted, "make install", Confinement::Sandboxed)));
    assert!(!is_free(&judge(&granted, "make install", Confinement::None)));
    let Verdict::Ask { rule, .. } = judge(&granted, "rm -r x", Confinement::Sandboxed) else {
        panic!("it is free");
    };
    assert_eq!(rule.as_deref(), Some("bash_sandboxed(rm -r x)"));
    let denied = Policy {
        deny: rules(&["bash_sandboxed"]),
        ..granted
    };
    assert!(matches!(
        judge(&denied, "make", Confinement::Sandboxed),
        Verdict::Deny { .. }
    ));
}

#[test]
fn a_command_that_names_a_secret_asks_in_the_sandbox_too() {
    let policy = Policy {
        mode: Mode::AutoEdit,
        grants: grants(&["bash_sandboxed"]),
        ..Policy::default()
    };
    let Verdict::Ask {
        reason, rule, risk, ..
    } = judge(&policy, "cat .env", Confinement::Sandboxed)
    else {
        panic!("it is free");
    };
    assert_eq!(risk, Risk::High);
    assert!(reason.contains("looks like a secret"), "{reason}");
    assert_eq!(rule.as_deref(), Some("bash_sandboxed(cat .env)"));
}

#[test]
fn an_answer_for_a_confined_command_does_not_allow_it_unconfined() {
    let policy = |grants: &str| Policy {
        require_approval: rules(&["bash(rm *)"]),
        grants: super::grants(&[grants]),
        ..Policy::default()
    };
    for line in ["cat ~/.npmrc", "rm -r x", "cat .env | rm -r x"] {
        let Verdict::Ask { rule, .. } = judge(&policy("bash_kill"), line, Confinement::Sandboxed) else {
            panic!("{line} is free");
        };
        let granted = Policy {
            grants: Rule::read_list(&rule.expect("a rule is offered"), &[""; 0])
                .unwrap()
                .into_iter()
                .map(GrantedRule::from)
                .collect(),
            ..policy("bash_kill")
        };
        assert!(is_free(&judge(&granted, line, Confinement::Sandboxed)), "{line}");
        for confinement in [Confinement::None, Confinement::Declined] {
            assert!(
                !is_free(&judge(&granted, line, confinement)),
                "{line} {confinement:?}"
            );
        }
        assert!(
            !is_free(&judge(&granted, "cat .env.old", Confinement::Sandboxed)),
            "{line}"
        );
    }
    // A pattern is about single commands, as with `bash`.
    let pattern = policy("bash_sandboxed(make *)");
    assert!(is_free(&judge(
        &pattern,
        "make a; make b",
        Confinement::Sandboxed
    )));
    for line in ["make a; touch b", "make $x", "makeup"] {
        assert!(!is_free(&judge(&pattern, line, Confinement::Sandboxed)), "{line}");
    }
    let denied = Policy {
        deny: rules(&["bash_sandboxed(make *)"]),
        ..Policy::default()
    };
    for (confinement, denies) in [(Confinement::Sandboxed, true), (Confinement::None, false)] {
        let verdict = judge(&denied, "make", confinement);
        assert_eq!(matches!(verdict, Verdict::Deny { .. }), denies, "{verdict:?}");
    }
}

#[test]
fn an_answer_about_a_confined_tool_does_not_allow_it_unconfined() {
    let effect = |kind| Effect {
        kind,
        sandbox: Some(SandboxPolicy::Workspace),
        ..Effect::from_command("./t.sh")
    };
    let confined = effect(EffectKind::Write);
    let Verdict::Ask { rule, .. } = judge_tool_call(&Policy::default(), "pt", &confined) else {
        panic!("it is free");
    };
    let granted = Policy {
        grants: grants(&[&rule.expect("a rule is offered")]),
        ..Policy::default()
    };
    assert!(is_free(&judge_tool_call(&granted, "pt", &confined)));
    // As where the sandbox does not work.
    let unconfined = effect(EffectKind::Execute);
    let Verdict::Ask { rule, .. } = judge_tool_call(&granted, "pt", &unconfined) else {
        panic!("it is free");
    };
    let granted = Policy {
        grants: grants(&[&rule.expect("a rule is offered")]),
        ..granted
    };
    assert!(is_free(&judge_tool_call(&granted, "pt", &unconfined)));
}

#[test]
fn a_question_about_a_command_outside_of_the_sandbox_warns_of_files_that_change() {
    let question = |line: &str| {
        let verdict = judge(&Policy::default(), line, Confinement::Declined);
        let Verdict::Ask {
            reason, risk, rule, ..
        } = verdict
        else {
            panic!("it is free");
        };
        assert_eq!(risk, Risk::High, "{line}");
        (reason.contains("files that commands can change"), rule.is_some())
    };
    assert_eq!(question("make install"), (true, true));
    // "Always" is not offered.
    assert_eq!(question("make\ninstall"), (false, false));
}

#[test]
fn rules_about_the_sandbox_are_exact_or_for_everything() {
    for (rule, is_valid) in [
        ("bash_outside(make install)", true),
        ("bash_outside", false),
        ("bash_outside(make *)", false),
        ("bash_sandboxed", true),
        ("bash_sandboxed(make *)", true),
        ("bash_sandboxed([ -f x ])", true),
        ("bash_sandboxed(make; ls)", false),
    ] {
        assert_eq!(Rule::read(rule, &[""; 0]).is_ok(), is_valid, "{rule}");
    }
}

#[test]
fn the_mode_chooses_what_a_command_may_write() {
    for (mode, confinement, policy) in [
        (Mode::Plan, Confinement::Sandboxed, SandboxPolicy::ReadOnly),
        (Mode::Ask, Confinement::Sandboxed, SandboxPolicy::Workspace),
        (Mode::AutoEdit, Confinement::None, SandboxPolicy::Workspace),
        (Mode::Full, Confinement::Sandboxed, SandboxPolicy::Off),
        (Mode::Ask, Confinement::Declined, SandboxPolicy::Off),
    ] {
        let effect = command("make", confinement);
        assert_eq!(
            choose_sandbox_policy(mode, &effect),
            policy,
            "{mode:?} {confinement:?}"
        );
    }
}
