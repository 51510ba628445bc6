//! The doom-loop guard (R-LOOP-6): pure, no I/O.
//!
//! What is looked at is a step: the set of its calls. The same set again, with the same results, is no progress: the
//! third such step in a row is not run but answered with a nudge, the next asks the person, and at most three in all
//! are held back. The same calls whose results change are progress (a test that is run after each edit stands in a
//! row with the edit anyway); only five of those in a row are enough. Calls that are how one waits
//! ([`Tool::WAITS`](crate::tool::Tool::WAITS)) are not looked at.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

/// So many steps in a row with the same calls and the same results are run; the next is not.
const SAME: u32 = 2;
/// So many steps in a row with the same calls and whatever results are run.
const CHANGING: u32 = 5;
/// So many steps in a row are held back; after that the step limit is the bound.
const HELD_BACK: u32 = 3;

/// What to do with a step's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopAction {
    /// Run them.
    Run,
    /// Answer them with a nudge.
    Nudge,
    /// Ask the person; where nobody can be asked, nudge again.
    Ask,
}

/// What was repeated so far.
#[derive(Debug, Default)]
pub(super) struct LoopDetector {
    calls: Option<u64>,
    results: Option<u64>,
    /// Steps in a row with these calls and these results.
    same: u32,
    /// Steps in a row with these calls.
    in_row: u32,
    held_back: u32,
}

impl LoopDetector {
    /// A step wants these calls; none where all of them are how one waits.
    pub(super) fn next(&mut self, calls: Option<u64>) -> LoopAction {
        if calls.is_none() || self.calls != calls {
            *self = Self {
                calls,
                ..Self::default()
            };
            return LoopAction::Run;
        }
        if self.same < SAME && self.in_row < CHANGING {
            return LoopAction::Run;
        }
        if self.held_back >= HELD_BACK {
            return LoopAction::Run;
        }
        self.held_back += 1;
        match self.held_back {
            1 => LoopAction::Nudge,
            _ => LoopAction::Ask,
        }
    }

    /// The step's calls were run, and gave this.
    pub(super) fn record_results(&mut self, results: u64) {
        self.same = if self.results == Some(results) {
            self.same + 1
        } else {
            1
        };
        self.results = Some(results);
        self.in_row += 1;
    }

    /// The person wants it to go on.
    pub(super) fn allow_continuation(&mut self) {
        *self = Self {
            calls: self.calls,
            ..Self::default()
        };
    }
}

/// A fingerprint of a step's calls: order and doubles do not count.
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

/// A fingerprint of a step's results.
pub(super) fn fingerprint_results(results: impl Iterator<Item = impl Hash>) -> u64 {
    let mut hasher = DefaultHasher::new();
    results.for_each(|result| result.hash(&mut hasher));
    hasher.finish()
}

/// The order of an object's fields does not count.
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

    use super::LoopAction::{Ask, Nudge, Run};
    use super::*;

    /// What is done with steps whose calls and results are these.
    fn state(steps: &[(u64, u64)]) -> Vec<LoopAction> {
        let mut repeats = LoopDetector::default();
        steps
            .iter()
            .map(|(calls, results)| {
                let guard = repeats.next((*calls > 0).then_some(*calls));
                if guard == Run {
                    repeats.record_results(*results);
                }
                guard
            })
            .collect()
    }

    #[test]
    fn the_third_of_the_same_is_held_back() {
        assert_eq!(state(&[(1, 1); 7]), [Run, Run, Nudge, Ask, Ask, Run, Run]);
        assert_eq!(
            state(&[(1, 1), (1, 1), (2, 1), (1, 1), (1, 1), (1, 1)])[..5],
            [Run; 5]
        );
        // The results differ: it gets on, for a while.
        let changing: Vec<_> = (0..7).map(|n| (1, n)).collect();
        assert_eq!(state(&changing), [Run, Run, Run, Run, Run, Nudge, Ask]);
        assert_eq!(state(&[(1, 1), (1, 2), (1, 2), (1, 2)]), [Run, Run, Run, Nudge]);
        // Waiting is no loop.
        assert_eq!(state(&[(0, 1); 20]), [Run; 20]);
    }

    #[test]
    fn a_person_may_let_it_go_on() {
        let mut repeats = LoopDetector::default();
        for wanted in [Run, Run, Nudge, Ask] {
            assert_eq!(repeats.next(Some(1)), wanted);
            repeats.record_results(1);
        }
        repeats.allow_continuation();
        repeats.record_results(1);
        for wanted in [Run, Nudge, Ask] {
            assert_eq!(repeats.next(Some(1)), wanted);
            if wanted == Run {
                repeats.record_results(1);
            }
        }
    }

    #[test]
    fn calls_are_a_set_and_fields_have_no_order() {
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
