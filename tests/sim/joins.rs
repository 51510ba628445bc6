//! What came of sub-agents under which join (R-SUB), for the table at a run's end. Judges nothing.

use std::collections::BTreeMap;
use std::fmt;

use agentls::tool::ChildState;

const STATES: usize = ChildState::ALL.len();

/// What a call of `delegate` may ask for.
const JOINS: [&str; 4] = ["all_required", "allow_failures", "first_success", "quorum"];

/// What its join came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum JoinOutcome {
    /// What had to come did.
    Met,
    /// One failed where all are required.
    Failed,
    /// Too few succeeded.
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

/// How often a sub-agent ended how, by the join of its call and what that came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Joins(BTreeMap<(&'static str, JoinOutcome), [u64; STATES]>);

impl Joins {
    /// A call with this join is over: so many of its sub-agents ended in each state.
    pub(super) fn came_to(&mut self, join: &str, joined: JoinOutcome, ends: [usize; STATES]) {
        let join = JOINS.into_iter().find(|known| join.trim().starts_with(known));
        let cells = self.0.entry((join.unwrap_or(JOINS[0]), joined)).or_default();
        for (cell, times) in cells.iter_mut().zip(ends) {
            *cell += times as u64;
        }
    }

    /// Adds what another run has met.
    pub(crate) fn merge_run(&mut self, other: &Self) {
        for (row, more) in &other.0 {
            let cells = self.0.entry(*row).or_default();
            for (cell, more) in cells.iter_mut().zip(more) {
                *cell += more;
            }
        }
    }
}

/// Whether a sub-agent can end so in a call whose join came to that.
fn can_be(join: &str, joined: JoinOutcome, state: ChildState) -> bool {
    let cancelled = state == ChildState::Cancelled;
    match (join, joined) {
        // A success ends such a call, unless a cancel falls into that very moment.
        ("first_success", JoinOutcome::Cancelled) => !state.is_success(),
        (_, JoinOutcome::Cancelled) => true,
        ("all_required", JoinOutcome::Met) => state.is_success(),
        // The others are let finish.
        ("all_required", JoinOutcome::Failed) | ("allow_failures", JoinOutcome::Met) => !cancelled,
        ("first_success", JoinOutcome::Violated) => !cancelled && !state.is_success(),
        ("first_success" | "quorum", JoinOutcome::Met) | ("quorum", JoinOutcome::Violated) => true,
        (_, JoinOutcome::Met | JoinOutcome::Failed | JoinOutcome::Violated) => false,
    }
}

impl fmt::Display for Joins {
    /// One line for each join and what it came to, one column for each end. A dash cannot be; `0!` is a gap.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<16} {:<10}", "join", "came to")?;
        for state in ChildState::ALL {
            write!(f, "{:>21}", state.name())?;
        }
        writeln!(f)?;
        let mut gaps = 0;
        let rows = JOINS
            .iter()
            .flat_map(|join| JoinOutcome::ALL.map(|joined| (*join, joined)));
        for (join, joined) in rows {
            let counts = self.0.get(&(join, joined)).copied().unwrap_or_default();
            let can = ChildState::ALL.map(|state| can_be(join, joined, state));
            if counts == [0; STATES] && !can.contains(&true) {
                continue;
            }
            write!(f, "{join:<16} {:<10}", joined.name())?;
            for (count, can) in counts.into_iter().zip(can) {
                let cell = match (count, can) {
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
        write!(f, "{gaps} cells of joins are empty that can be met")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_is_counted_and_what_cannot_come_is_no_gap() {
        let mut joins = Joins::default();
        joins.came_to("quorum(2)", JoinOutcome::Met, [2, 0, 1, 0, 0, 1]);
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
