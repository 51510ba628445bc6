//! The question about a command that would make something disappear for good. No mode and no rule answers it in advance.

use super::Verdict;
use crate::base::text::one_line;
use crate::domain::{LossList, Losses, Risk};

/// How many losses the question names.
const NAMED: usize = 3;

/// Turns a verdict into a question if something would be lost, and says what. Otherwise it says that a revert helps.
/// `is_confined` says that the command would run in the sandbox.
pub(super) fn ask_for_losses(verdict: Verdict, losses: &Losses, is_confined: bool) -> Verdict {
    let list = losses.in_reach(is_confined);
    let is_lost = list.count > 0 || losses.is_partial;
    match verdict {
        Verdict::Allow { .. } if is_lost => Verdict::Ask {
            reason: describe(&list, losses.is_partial),
            risk: Risk::High,
            rule: None,
        },
        Verdict::Ask { reason, .. } if is_lost => Verdict::Ask {
            reason: format!("{} · {reason}", describe(&list, losses.is_partial)),
            risk: Risk::High,
            // The next one would ask again.
            rule: None,
        },
        Verdict::Ask { reason, risk, rule } if losses.has_restorable => Verdict::Ask {
            reason: format!("{reason} · a revert brings back what it deletes or overwrites"),
            risk: risk.max(Risk::Medium),
            rule,
        },
        verdict => verdict,
    }
}

fn describe(list: &LossList, is_partial: bool) -> String {
    let named = list.listed.iter().take(NAMED).map(|loss| {
        let what = one_line(&loss.what, 60);
        match loss.bytes {
            Some(bytes) => format!("{what} ({})", format_bytes(bytes)),
            None => what,
        }
    });
    let named: Vec<String> = named.collect();
    let more = list.count.saturating_sub(named.len() as u64);
    let mut text = match named.is_empty() {
        true => "may delete or overwrite files for good that could not be checked".to_owned(),
        false => format!("deletes or overwrites for good: {}", named.join(", ")),
    };
    match (more, is_partial) {
        (0, false) => {}
        (0, true) if named.is_empty() => {}
        (0, true) => text.push_str(", perhaps more"),
        (more, false) => text.push_str(&format!(", and {more} more")),
        (more, true) => text.push_str(&format!(", and at least {more} more")),
    }
    text
}

fn format_bytes(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} KB", bytes / 1_000),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Loss;

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

    #[test]
    fn what_would_be_lost_asks_at_high_risk_whatever_allows_it() {
        let allowed = Verdict::Allow {
            by: "mode full".to_owned(),
        };
        let lost = losses(&[("data/a.bin", Some(70_000_000)), ("b", Some(12))], 2, false);
        let Verdict::Ask { reason, risk, rule } = ask_for_losses(allowed.clone(), &lost, true) else {
            panic!("it asks");
        };
        assert_eq!(
            reason,
            "deletes or overwrites for good: data/a.bin (70.0 MB), b (12 bytes)"
        );
        assert_eq!((risk, rule), (Risk::High, None));
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
    fn an_open_question_says_what_is_lost_or_comes_back() {
        let asks = Verdict::Ask {
            reason: "runs a command in the sandbox".to_owned(),
            risk: Risk::Low,
            rule: Some("bash_sandboxed".to_owned()),
        };
        let Verdict::Ask { reason, risk, rule } = ask_for_losses(asks.clone(), &losses(&[], 0, false), true)
        else {
            panic!("it asks");
        };
        assert!(
            reason.ends_with("a revert brings back what it deletes or overwrites"),
            "{reason}"
        );
        assert_eq!((risk, rule.as_deref()), (Risk::Medium, Some("bash_sandboxed")));
        let stash = losses(&[("all entries of the stash", None)], 9, true);
        let Verdict::Ask { reason, risk, rule } = ask_for_losses(asks, &stash, true) else {
            panic!("it asks");
        };
        assert_eq!(
            reason,
            "deletes or overwrites for good: all entries of the stash, and at least 8 more · runs a command in the sandbox"
        );
        assert_eq!((risk, rule), (Risk::High, None));
    }
}
