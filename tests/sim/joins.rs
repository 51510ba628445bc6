//! Counts how sub-agents end under each join (R-SUB), for the table at the end of a run. `check` judges the results.

use std::collections::BTreeMap;
use std::fmt;

use agentls::tool::ChildState;

const STATES: usize = ChildState::ALL.len();

/// The joins that a call of `delegate` can request.
const JOINS: [&str; 4] = ["all_required", "allow_failures", "first_success", "quorum"];

/// The result of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum JoinOutcome {
    /// The join got the successes that it requires.
    Met,
    /// A sub-agent failed, and the join requires all.
    Failed,
    /// Too few sub-agents succeeded.
    Violated,
    /// The call was canceled.
    Cancelled,
}

impl JoinOutcome {
    const ALL: [Self; 4] = [Self::Met, Self::Failed, Self::Violated, Self::Cancelled];

    fn name(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Failed => "failed",
            Self::Violated => "violated",
            Self::Cancelled => "cancelled",
        }
    }
}

/// How often sub-agents ended in each state, by the join of their call and its result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Joins(BTreeMap<(&'static str, JoinOutcome), [u64; STATES]>);

impl Joins {
    /// Counts a finished call: `ends` has the number of its sub-agents that ended in each state.
    pub(super) fn count_join(&mut self, join: &str, outcome: JoinOutcome, ends: [usize; STATES]) {
        let join = JOINS.into_iter().find(|known| join.trim().starts_with(known));
        let cells = self.0.entry((join.unwrap_or(JOINS[0]), outcome)).or_default();
        for (cell, times) in cells.iter_mut().zip(ends) {
            *cell += times as u64;
        }
    }

    /// Adds the counts of another run.
    pub(crate) fn merge_run(&mut self, other: &Self) {
        for (row, more) in &other.0 {
            let cells = self.0.entry(*row).or_default();
            for (cell, more) in cells.iter_mut().zip(more) {
                *cell += more;
            }
        }
    }
}

/// Returns whether a sub-agent can end in `state` in a call whose join has this result.
fn is_possible(join: &str, outcome: JoinOutcome, state: ChildState) -> bool {
    let cancelled = state == ChildState::Cancelled;
    match (join, outcome) {
        // A success ends such a call before anybody can cancel it, unless the cancel arrives at that very moment.
        ("first_success", JoinOutcome::Cancelled) => !state.is_success(),
        (_, JoinOutcome::Cancelled) => true,
        ("all_required", JoinOutcome::Met) => state.is_success(),
        // The call lets the others finish.
        ("all_required", JoinOutcome::Failed) | ("allow_failures", JoinOutcome::Met) => !cancelled,
        ("first_success", JoinOutcome::Violated) => !cancelled && !state.is_success(),
        ("first_success" | "quorum", JoinOutcome::Met) | ("quorum", JoinOutcome::Violated) => true,
        (_, JoinOutcome::Met | JoinOutcome::Failed | JoinOutcome::Violated) => false,
    }
}

impl fmt::Display for Joins {
    /// Prints one line per join and result, and one column per end. A dash marks an impossible cell, `0!` a gap.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<16} {:<10}", "join", "came to")?;
        for state in ChildState::ALL {
            write!(f, "{:>21}", state.name())?;
        }
        writeln!(f)?;
        let mut gaps = 0;
        let rows = JOINS
            .iter()
            .flat_map(|join| JoinOutcome::ALL.map(|outcome| (*join, outcome)));
        for (join, outcome) in rows {
            let counts = self.0.get(&(join, outcome)).copied().unwrap_or_default();
            let possible = ChildState::ALL.map(|state| is_possible(join, outcome, state));
            if counts == [0; STATES] && !possible.contains(&true) {
                continue;
            }
            write!(f, "{join:<16} {:<10}", outcome.name())?;
            for (count, can_occur) in counts.into_iter().zip(possible) {
                let cell = match (count, can_occur) {
                    (0, false) => "-".to_owned(),
                    (0, true) => {
                        gaps += 1;
                        "0!".to_owned()
                    }
                    (count, _) => count.to_string(),
                };
                write!(f, "{cell:>21}")?;
            }
            writeln!(f)?;
        }
        write!(f, "{gaps} possible cells of the join table are empty")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_counted_and_impossible_cells_are_not_gaps() {
        let mut joins = Joins::default();
        joins.count_join("quorum(2)", JoinOutcome::Met, [2, 0, 1, 0, 0, 1]);
        let mut sum = joins.clone();
        sum.merge_run(&joins);
        let table = sum.to_string();
        let row = |start: &str| {
            let line = table.lines().find(|line| line.starts_with(start)).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            row("quorum           met")[2..],
            ["4", "0!", "2", "0!", "0!", "2"]
        );
        assert_eq!(row("all_required     met")[2..], ["0!", "0!", "-", "-", "-", "-"]);
        assert!(!table.contains("allow_failures   violated"));
    }
}
