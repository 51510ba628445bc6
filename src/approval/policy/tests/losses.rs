//! Commands that would make something disappear for good ask, whatever allows them.

use super::super::ask_for_losses;
use super::*;
use crate::domain::{Loss, LossList, Losses, NamedLosses};

fn losses(files: &[(&str, Option<u64>)], count: u64, is_partial: bool) -> Losses {
    let listed = files.iter().map(|(what, bytes)| Loss {
        what: (*what).to_owned(),
        bytes: *bytes,
    });
    Losses {
        inside: LossList {
            listed: listed.collect(),
            count,
        },
        outside: LossList::default(),
        is_partial,
        has_restorable: true,
    }
}

fn describe(losses: &Losses) -> String {
    losses
        .in_reach(true)
        .as_ref()
        .map(NamedLosses::describe)
        .unwrap_or_default()
}

#[test]
fn what_would_be_lost_asks_at_high_risk_whatever_allows_it() {
    let allowed = Verdict::Allow {
        by: "mode full".to_owned(),
    };
    let lost = losses(&[("data/a.bin", Some(70_000_000)), ("b", Some(12))], 2, false);
    assert_eq!(
        ask_for_losses(allowed.clone(), &lost, true),
        Verdict::Ask {
            reason: String::new(),
            risk: Risk::High,
            rule: None,
            losses: lost.in_reach(true),
        }
    );
    assert_eq!(
        describe(&lost),
        "deletes or overwrites for good: data/a.bin (70.0 MB), b (12 bytes)"
    );
    assert_eq!(
        ask_for_losses(allowed.clone(), &losses(&[], 0, false), true),
        allowed
    );
    let denied = Verdict::Deny {
        reason: "no".to_owned(),
    };
    assert_eq!(ask_for_losses(denied.clone(), &lost, true), denied);
}

#[test]
fn files_outside_the_workspace_are_safe_in_the_sandbox() {
    let allowed = Verdict::Allow {
        by: "sandbox".to_owned(),
    };
    let inside = losses(&[("/home/a/thesis.txt", Some(1))], 1, false);
    let outside = Losses {
        outside: inside.inside,
        ..Losses::default()
    };
    assert_eq!(ask_for_losses(allowed.clone(), &outside, true), allowed);
    assert!(matches!(
        ask_for_losses(allowed, &outside, false),
        Verdict::Ask { .. }
    ));
}

#[test]
fn a_rule_for_exactly_the_line_answers_for_files_outside_the_workspace() {
    let line = "echo x > /home/a/notes.txt";
    let lost = losses(&[("/home/a/notes.txt", Some(1))], 1, false).inside;
    let judge = |grants: &[&str], losses: Losses| {
        let policy = Policy {
            grants: super::grants(grants),
            ..Policy::default()
        };
        let effect = Effect {
            confinement: crate::domain::Confinement::Declined,
            losses: Some(losses),
            ..Effect::from_command(line)
        };
        judge_tool_call(&policy, "bash", &effect)
    };
    let outside = Losses {
        outside: lost.clone(),
        ..Losses::default()
    };
    let inside = Losses {
        inside: lost,
        ..Losses::default()
    };
    let exact = ["bash_outside(echo x > /home/a/notes.txt)"];
    assert!(matches!(judge(&exact, outside.clone()), Verdict::Allow { .. }));
    assert!(matches!(judge(&exact, inside), Verdict::Ask { .. }));
    assert!(matches!(judge(&["bash"], outside), Verdict::Ask { .. }));
}

#[test]
fn an_open_question_says_what_is_lost_or_comes_back() {
    let asks = Verdict::Ask {
        reason: "runs a command in the sandbox".to_owned(),
        risk: Risk::Low,
        rule: Some("bash_sandboxed".to_owned()),
        losses: None,
    };
    let Verdict::Ask {
        reason, risk, rule, ..
    } = ask_for_losses(asks.clone(), &losses(&[], 0, false), true)
    else {
        panic!("it asks");
    };
    assert!(
        reason.ends_with("a revert brings back what it deletes or overwrites"),
        "{reason}"
    );
    assert_eq!((risk, rule.as_deref()), (Risk::Medium, Some("bash_sandboxed")));
    let stash = losses(&[("all entries of the stash", None)], 9, true);
    assert_eq!(
        ask_for_losses(asks, &stash, true),
        Verdict::Ask {
            reason: "runs a command in the sandbox".to_owned(),
            risk: Risk::High,
            rule: None,
            losses: stash.in_reach(true),
        }
    );
    assert_eq!(
        describe(&stash),
        "deletes or overwrites for good: all entries of the stash, and at least 8 more"
    );
}
