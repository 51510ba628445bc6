//! Commands in the sandbox (R-BOX): free where nothing speaks against them, and never because a rule was for others.

use super::*;
use crate::approval::choose_sandbox_policy;
use crate::domain::{Confinement, SandboxPolicy};

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
fn outside_of_the_sandbox_no_rule_counts_but_full_mode_does() {
    let policy = |mode| Policy {
        mode,
        allow: rules(&["bash", "bash(ls *)"]),
        grants: rules(&["bash(make)"]),
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
            assert_eq!(rule, None, "{line}");
        }
        assert!(is_free(&judge(&policy(Mode::Full), line, Confinement::Declined)));
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
