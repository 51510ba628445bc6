//! Counts the decisions of a run: why turns continue or end, in which phase, after which fault (quality §4).
//!
//! Pure: it counts and formats a table. An empty cell is a question for the reader, never a failure, because many
//! cells are unreachable. `check` decides what is right or wrong.

use std::collections::BTreeMap;
use std::fmt;

use agentls::domain::{ContinueReason, TerminalReason, Transition};

/// What a turn is doing when it decides to continue or end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum TurnPhase {
    /// The turn has done nothing since its start or its last continue.
    #[default]
    Starting,
    /// The turn has called a provider and received nothing yet.
    Asking,
    /// An answer is streaming.
    Streaming,
    /// The turn has announced a wait between two calls.
    Waiting,
    /// The turn is summarizing the history.
    Compacting,
    /// The turn is waiting for the user's answer.
    Question,
    /// Tools are running or have run.
    Tools,
    /// A hook is running or has run.
    Hook,
}

impl TurnPhase {
    const ALL: [Self; 8] = [
        Self::Starting,
        Self::Asking,
        Self::Streaming,
        Self::Waiting,
        Self::Compacting,
        Self::Question,
        Self::Tools,
        Self::Hook,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Asking => "asking",
            Self::Streaming => "streaming",
            Self::Waiting => "waiting",
            Self::Compacting => "compacting",
            Self::Question => "question",
            Self::Tools => "tools",
            Self::Hook => "hook",
        }
    }
}

/// What failed or interfered since the turn's last decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SimFault {
    None,
    /// The provider refused a call before it answered anything.
    Refused,
    /// An answer stopped early.
    Broken,
    /// A tool call failed.
    Tool,
    /// A hook objected or failed.
    Hook,
    /// The user denied a call.
    Denied,
    /// The user steered the turn.
    Steered,
    /// The user canceled the turn.
    Cancelled,
    /// The disk failed.
    Disk,
    /// The server shut down.
    Ended,
    /// The server crashed.
    Crashed,
}

impl SimFault {
    const ALL: [Self; 11] = [
        Self::None,
        Self::Refused,
        Self::Broken,
        Self::Tool,
        Self::Hook,
        Self::Denied,
        Self::Steered,
        Self::Cancelled,
        Self::Disk,
        Self::Ended,
        Self::Crashed,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Refused => "refused",
            Self::Broken => "broken",
            Self::Tool => "tool",
            Self::Hook => "hook",
            Self::Denied => "denied",
            Self::Steered => "steered",
            Self::Cancelled => "cancel",
            Self::Disk => "disk",
            Self::Ended => "end",
            Self::Crashed => "crash",
        }
    }
}

/// The phase and the faults of a turn since its last decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SeenConditions {
    pub(super) phase: TurnPhase,
    faults: u16,
    /// The decided end, with the phase and faults at that moment, because later ones cannot have caused it.
    closing: Option<(TerminalReason, TurnPhase, u16)>,
}

impl SeenConditions {
    pub(super) fn add_fault(&mut self, fault: SimFault) {
        self.faults |= 1 << fault as u16;
    }

    /// Records that the loop has decided to end the turn.
    pub(super) fn note_closing(&mut self, reason: TerminalReason) {
        self.closing = Some((reason, self.phase, self.faults));
    }

    /// Records the end of the turn and restores the conditions at the moment of that decision.
    pub(super) fn note_end(&mut self, reason: TerminalReason) {
        if let Some((decided, phase, faults)) = self.closing
            && decided == reason
        {
            (self.phase, self.faults) = (phase, faults);
        }
    }

    /// The faults, or [`SimFault::None`] if there were none.
    fn faults_or_none(self) -> impl Iterator<Item = SimFault> {
        let faults = match self.faults {
            0 => 1 << SimFault::None as u16,
            some => some,
        };
        SimFault::ALL
            .into_iter()
            .filter(move |fault| faults & (1 << *fault as u16) != 0)
    }
}

/// How often turns made each decision, by phase and fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coverage(BTreeMap<(&'static str, TurnPhase, SimFault), u64>);

impl Coverage {
    /// Counts a decision under the conditions before it, and clears them for the next one.
    pub(super) fn record_decision(&mut self, decision: Transition, conditions: &mut SeenConditions) {
        let conditions = std::mem::take(conditions);
        for fault in conditions.faults_or_none() {
            *self
                .0
                .entry((decision.reason_name(), conditions.phase, fault))
                .or_default() += 1;
        }
    }

    /// Adds the counts of another run.
    pub(crate) fn merge_run(&mut self, other: &Self) {
        for (cell, count) in &other.0 {
            *self.0.entry(*cell).or_default() += count;
        }
    }
}

/// All reasons in the order of R-LOOP-1's table.
fn all_reasons() -> impl Iterator<Item = Transition> {
    let continues = ContinueReason::ALL
        .iter()
        .map(|reason| Transition::Continue(*reason));
    let ends = TerminalReason::ALL
        .iter()
        .map(|reason| Transition::Terminal(*reason));
    continues.chain(ends)
}

impl fmt::Display for Coverage {
    /// Prints one line per reason and phase in which it occurred, and one column per fault.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<26} {:<11}", "reason", "phase")?;
        for fault in SimFault::ALL {
            write!(f, "{:>8}", fault.name())?;
        }
        for reason in all_reasons() {
            let name = reason.reason_name();
            let mut is_covered = false;
            for phase in TurnPhase::ALL {
                let counts = SimFault::ALL.map(|fault| self.0.get(&(name, phase, fault)));
                if counts.iter().all(Option::is_none) {
                    continue;
                }
                is_covered = true;
                write!(f, "\n{name:<26} {:<11}", phase.name())?;
                for count in counts {
                    let cell = count.map_or_else(|| "-".to_owned(), u64::to_string);
                    write!(f, "{cell:>8}")?;
                }
            }
            if !is_covered {
                write!(f, "\n{name:<26} never met")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_counted_under_each_fault_before_them() {
        let mut coverage = Coverage::default();
        let mut conditions = SeenConditions {
            phase: TurnPhase::Streaming,
            ..SeenConditions::default()
        };
        coverage.record_decision(Transition::Continue(ContinueReason::NextTurn), &mut conditions);
        conditions.add_fault(SimFault::Broken);
        conditions.add_fault(SimFault::Cancelled);
        coverage.record_decision(
            Transition::Terminal(TerminalReason::AbortedStreaming),
            &mut conditions,
        );
        let mut twice = coverage.clone();
        twice.merge_run(&coverage);
        let table = twice.to_string();
        let line = |reason: &str, phase: &str| {
            let fits = |line: &&str| line.split_whitespace().take(2).eq([reason, phase]);
            let line = table.lines().find(fits).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            line("next_turn", "streaming")[2..5],
            ["2", "-", "-"].map(str::to_owned)
        );
        assert_eq!(
            line("aborted_streaming", "starting")[2..10],
            ["-", "-", "2", "-", "-", "-", "-", "2"].map(str::to_owned)
        );
        assert_eq!(line("internal_error", "never")[2..], ["met".to_owned()]);
    }

    #[test]
    fn faults_after_the_decision_to_end_are_not_counted() {
        let mut coverage = Coverage::default();
        let (mut conditions, end) = (SeenConditions::default(), TerminalReason::Completed);
        conditions.phase = TurnPhase::Streaming;
        conditions.note_closing(end);
        conditions.add_fault(SimFault::Crashed);
        let mut stopped = conditions;
        conditions.note_end(end);
        coverage.record_decision(Transition::Terminal(end), &mut conditions);
        stopped.note_end(TerminalReason::ServerStopped);
        coverage.record_decision(Transition::Terminal(TerminalReason::ServerStopped), &mut stopped);
        let cells: Vec<_> = coverage.0.into_keys().collect();
        assert_eq!(
            cells,
            [
                ("completed", TurnPhase::Streaming, SimFault::None),
                ("server_stopped", TurnPhase::Streaming, SimFault::Crashed)
            ]
        );
    }
}
