//! Compares two lists of lines. Every comparison goes through here: the algorithm is large, and generic over what it
//! compares.
//!
//! Must not know what the lines belong to, or what the difference is for.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use similar::DiffOp;
use similar::algorithms::{Capture, Compact, Replace, myers};

/// Returns the changes that turn `old` into `new`. After the time limit, they are correct but not the fewest.
pub(super) fn compare_lines(old: &[&str], new: &[&str], limit: Option<Duration>) -> Vec<DiffOp> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the library compares it with the real clock"
    )]
    let deadline = limit.map(|limit| Instant::now() + limit);
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut number = |line| {
        let next = numbers.len();
        *numbers.entry(line).or_insert(next)
    };
    let old: Vec<usize> = old.iter().copied().map(&mut number).collect();
    let new: Vec<usize> = new.iter().copied().map(&mut number).collect();
    let mut changes = Compact::new(Replace::new(Capture::new()), &old[..], &new[..]);
    let Ok(()) = myers::diff_deadline(
        &mut changes,
        &old[..],
        0..old.len(),
        &new[..],
        0..new.len(),
        deadline,
    );
    changes.into_inner().into_inner().into_ops()
}
