//! The doom-loop guard (R-LOOP-6): pure, no I/O.
//!
//! It looks at whole steps, as sets of calls. The same set with the same results makes no progress. The third such step is
//! answered with a nudge instead of being run, and the next ones ask the user. At most three steps in a row are held
//! back; then the step may show once more whether something has changed. If nothing has, the next one ends the turn,
//! except if it polls tools of MCP servers.
//! Other steps in between do not matter if they make no progress either: two steps that alternate are a loop, too.
//!
//! The same calls with changing results are progress, such as a test between edits, but only for five steps in a row.
//! Polling a tool of an MCP server with changing results is progress always: nobody knows what it waits for.
//! Calls of wait tools ([`Tool::WAITS`](crate::tool::Tool::WAITS)) are not counted.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

/// Steps with the same calls and the same results that run without progress in between. The next one does not
/// (R-LOOP-6).
const SAME: u32 = 2;
/// Steps in a row with the same calls, whatever their results, that run, if tools of our own are among them.
const CHANGING: u32 = 5;
/// Steps in a row that are held back.
const HELD_BACK: u32 = 3;

/// What to do with a step's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopAction {
    Run,
    /// Answer them with a nudge instead.
    Nudge,
    /// Ask the user; if the client takes no questions, nudge again.
    Ask,
    /// End the turn.
    End,
}

/// Counts the repetitions of a turn's steps.
#[derive(Debug, Default)]
pub(super) struct LoopDetector {
    /// The calls and the results of all steps of the turn.
    known: HashSet<(u64, u64)>,
    /// The steps since the last one that made progress, by their calls.
    stale: HashMap<u64, Repetition>,
    /// The calls of the last step.
    calls: Option<u64>,
    /// Steps in a row with these calls, without those that poll.
    in_row: u32,
    held_back: u32,
}

/// What came of the same calls, again and again.
#[derive(Debug)]
struct Repetition {
    results: u64,
    /// How often these results came in a row.
    times: u32,
    /// All of the calls were calls of MCP servers.
    polls: bool,
}

impl LoopDetector {
    /// Decides about a step with these calls; `None` if all of them are wait calls.
    pub(super) fn next(&mut self, calls: Option<u64>) -> LoopAction {
        let Some(calls) = calls else {
            self.allow_continuation();
            self.calls = None;
            return LoopAction::Run;
        };
        if self.calls.replace(calls) != Some(calls) {
            self.in_row = 0;
        }
        let same = self.stale.get(&calls).map_or(0, |repetition| repetition.times);
        if same < SAME && self.in_row < CHANGING {
            return LoopAction::Run;
        }
        // The user has been asked often enough. Changing results may lead somewhere, up to the step limit (I13).
        if self.held_back >= HELD_BACK {
            let polls = self.stale.get(&calls).is_some_and(|repetition| repetition.polls);
            return if same > SAME && !polls {
                LoopAction::End
            } else {
                LoopAction::Run
            };
        }
        self.held_back += 1;
        match self.held_back {
            1 => LoopAction::Nudge,
            _ => LoopAction::Ask,
        }
    }

    /// Records the results of calls that ran. `polls` is set if all of them were calls of MCP servers.
    pub(super) fn record_results(&mut self, results: u64, polls: bool) {
        let Some(calls) = self.calls else { return };
        if self.known.insert((calls, results)) {
            self.stale.clear();
            if self.in_row == 0 {
                self.held_back = 0;
            }
        }
        let repetition = self.stale.entry(calls).or_insert(Repetition {
            results,
            times: 0,
            polls,
        });
        repetition.times = if repetition.results == results {
            repetition.times + 1
        } else {
            1
        };
        repetition.results = results;
        self.in_row += u32::from(!polls);
    }

    /// Starts counting again after the user allowed the repetition.
    pub(super) fn allow_continuation(&mut self) {
        self.stale.clear();
        self.in_row = 0;
        self.held_back = 0;
    }
}

/// Returns a fingerprint of a step's calls. Order and duplicates do not matter. `None` without calls.
pub(super) fn fingerprint_calls<'a>(
    calls: impl Iterator<Item = (&'a str, Result<&'a Value, &'a str>)>,
) -> Option<u64> {
    let mut each: Vec<u64> = calls
        .map(|(name, input)| {
            let mut hasher = DefaultHasher::new();
            name.hash(&mut hasher);
            match input {
                Ok(value) => hash(value, &mut hasher),
                Err(text) => text.hash(&mut hasher),
            }
            hasher.finish()
        })
        .collect();
    each.sort_unstable();
    each.dedup();
    (!each.is_empty()).then(|| fingerprint_results(each.iter()))
}

/// Returns a fingerprint of a step's results.
pub(super) fn fingerprint_results(results: impl Iterator<Item = impl Hash>) -> u64 {
    let mut hasher = DefaultHasher::new();
    results.for_each(|result| result.hash(&mut hasher));
    hasher.finish()
}

/// Hashes a JSON value. The order of an object's fields does not matter.
fn hash(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            fields.len().hash(hasher);
            for (name, value) in fields {
                name.hash(hasher);
                hash(value, hasher);
            }
        }
        Value::Array(items) => {
            // The lengths tell nested values apart: `[[1], 2]` is not `[[1, 2]]`.
            items.len().hash(hasher);
            items.iter().for_each(|item| hash(item, hasher));
        }
        plain => {
            std::mem::discriminant(plain).hash(hasher);
            plain.to_string().hash(hasher);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::LoopAction::{Ask, End, Nudge, Run};
    use super::*;

    /// Returns what is done with steps of these (calls, results).
    fn state(steps: &[(u64, u64)]) -> Vec<LoopAction> {
        state_of(steps, false)
    }

    fn state_of(steps: &[(u64, u64)], polls: bool) -> Vec<LoopAction> {
        let mut repeats = LoopDetector::default();
        steps
            .iter()
            .map(|(calls, results)| {
                let guard = repeats.next((*calls > 0).then_some(*calls));
                if guard == Run {
                    repeats.record_results(*results, polls);
                }
                guard
            })
            .collect()
    }

    #[test]
    fn the_third_identical_step_is_held_back() {
        assert_eq!(state(&[(1, 1); 7]), [Run, Run, Nudge, Ask, Ask, Run, End]);
        // What has changed meanwhile is progress.
        let waiting = [(1, 1), (1, 1), (1, 1), (1, 1), (1, 1), (1, 2), (1, 2), (1, 2)];
        assert_eq!(state(&waiting), [Run, Run, Nudge, Ask, Ask, Run, Run, Run]);
        assert_eq!(
            state(&[(1, 1), (1, 1), (2, 1), (1, 1), (1, 1), (1, 1)])[..5],
            [Run; 5]
        );
        // Changing results are progress, for a while.
        let changing: Vec<_> = (0..7).map(|n| (1, n)).collect();
        assert_eq!(state(&changing), [Run, Run, Run, Run, Run, Nudge, Ask]);
        assert_eq!(state(&[(1, 1), (1, 2), (1, 2), (1, 2)]), [Run, Run, Run, Nudge]);
        // Of an MCP server, always.
        assert_eq!(state_of(&changing, true), [Run; 7]);
        assert_eq!(state_of(&[(1, 1); 3], true), [Run, Run, Nudge]);
        // Waiting is not a loop.
        assert_eq!(state(&[(0, 1); 20]), [Run; 20]);
    }

    #[test]
    fn steps_that_alternate_without_progress_are_held_back() {
        let alternate = |steps: usize, period: u64| -> Vec<(u64, u64)> {
            let calls = (1..=period).cycle().take(steps);
            calls.map(|calls| (calls, calls)).collect()
        };
        assert_eq!(
            state(&alternate(11, 2)),
            [Run, Run, Run, Run, Run, Nudge, Ask, Ask, Run, Run, End]
        );
        let of_three = state(&alternate(9, 3));
        assert_eq!(of_three[..8], [Run; 8]);
        assert_eq!(of_three[8], Nudge);
        // A test between edits is progress, even if it fails in the same way.
        let edits: Vec<_> = (0..30)
            .map(|n| if n % 2 == 0 { (1, 1) } else { (100 + n, n) })
            .collect();
        assert_eq!(state(&edits), [Run; 30]);
        // So is anything new after a loop.
        let mut steps = alternate(8, 2);
        steps.extend([(7, 7), (1, 1), (2, 2)]);
        assert_eq!(state(&steps)[8..], [Run; 3]);
    }

    #[test]
    fn the_user_may_allow_the_repetition() {
        let mut repeats = LoopDetector::default();
        for wanted in [Run, Run, Nudge, Ask] {
            assert_eq!(repeats.next(Some(1)), wanted);
            repeats.record_results(1, false);
        }
        repeats.allow_continuation();
        repeats.record_results(1, false);
        for wanted in [Run, Nudge, Ask] {
            assert_eq!(repeats.next(Some(1)), wanted);
            if wanted == Run {
                repeats.record_results(1, false);
            }
        }
    }

    #[test]
    fn fingerprints_ignore_the_order_of_calls_and_fields() {
        let (a, b) = (json!({"x": 1, "y": [1, {"p": 1, "q": 2}]}), json!({"x": 2}));
        let same: Value = serde_json::from_str(r#"{"y": [1, {"q": 2, "p": 1}], "x": 1}"#).unwrap();
        let of = |list: &[&Value]| fingerprint_calls(list.iter().map(|input| ("t", Ok(*input))));
        assert_eq!(of(&[&a, &b]), of(&[&b, &same, &a]));
        assert_ne!(of(&[&a]), of(&[&b]));
        assert_ne!(of(&[&a]), fingerprint_calls([("u", Ok(&a))].into_iter()));
        assert_ne!(of(&[&json!("1")]), of(&[&json!(1)]));
        assert_ne!(of(&[&json!([[1], 2])]), of(&[&json!([[1, 2]])]));
        assert_eq!(fingerprint_calls(std::iter::empty()), None);
    }
}
