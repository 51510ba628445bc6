//! What a run has met: why turns went on or ended, in which phase, after which fault (quality §4).
//!
//! Pure: it counts and draws a table. An empty cell is a question for the reader, never a failure: many cannot be
//! filled. What is right or wrong is decided in `check`.

use std::collections::BTreeMap;
use std::fmt;

use agentls::domain::{ContinueReason, TerminalReason, Transition};

/// What a turn was doing when the decision fell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum TurnPhase {
    /// Nothing was done yet since the turn's start or its last continue.
    #[default]
    Starting,
    /// A provider was asked and has not said anything.
    Asking,
    /// An answer was coming.
    Streaming,
    /// A wait between two calls was shown.
    Waiting,
    /// The history was being summarised.
    Compacting,
    /// A user was asked.
    Question,
    /// Tools ran, or had run.
    Tools,
    /// A hook ran, or had run.
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

/// What went wrong, or came in between, since the turn's last decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SimFault {
    /// Nothing.
    None,
    /// A call was refused before it said anything.
    Refused,
    /// An answer broke off.
    Broken,
    /// A tool call failed.
    Tool,
    /// A hook objected, or failed.
    Hook,
    /// The user denied a call.
    Denied,
    /// The user said something meanwhile.
    Steered,
    /// The user canceled.
    Cancelled,
    /// The disk failed.
    Disk,
    /// The server was told to end.
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

/// What a turn has met since its last decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SeenConditions {
    pub(super) phase: TurnPhase,
    faults: u16,
    /// Its end is decided, and what was met until then: what comes after is too late.
    closing: Option<(TerminalReason, TurnPhase, u16)>,
}

impl SeenConditions {
    pub(super) fn add_fault(&mut self, fault: SimFault) {
        self.faults |= 1 << fault as u16;
    }

    /// The loop has decided to end the turn.
    pub(super) fn note_closing(&mut self, reason: TerminalReason) {
        self.closing = Some((reason, self.phase, self.faults));
    }

    /// The turn has ended: what it had met when that was decided.
    pub(super) fn note_end(&mut self, reason: TerminalReason) {
        if let Some((decided, phase, faults)) = self.closing
            && decided == reason
        {
            (self.phase, self.faults) = (phase, faults);
        }
    }

    /// The faults, or that there was none.
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

/// How often which decision fell in which phase after which fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Coverage(BTreeMap<(&'static str, TurnPhase, SimFault), u64>);

impl Coverage {
    /// A decision fell; what was met begins anew.
    pub(super) fn record_decision(&mut self, decision: Transition, met: &mut SeenConditions) {
        let met = std::mem::take(met);
        for fault in met.faults_or_none() {
            *self
                .0
                .entry((decision.reason_name(), met.phase, fault))
                .or_default() += 1;
        }
    }

    /// Adds another run's.
    pub(crate) fn merge_run(&mut self, other: &Self) {
        for (cell, count) in &other.0 {
            *self.0.entry(*cell).or_default() += count;
        }
    }
}

/// All reasons, in the order of R-LOOP-1's table.
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
    /// One line for each reason and each phase in which it was met, one column for each fault.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<26} {:<11}", "reason", "phase")?;
        for fault in SimFault::ALL {
            write!(f, "{:>8}", fault.name())?;
        }
        for reason in all_reasons() {
            let name = reason.reason_name();
            let mut is_met = false;
            for phase in TurnPhase::ALL {
                let counts = SimFault::ALL.map(|fault| self.0.get(&(name, phase, fault)));
                if counts.iter().all(Option::is_none) {
                    continue;
                }
                is_met = true;
                write!(f, "\n{name:<26} {:<11}", phase.name())?;
                for count in counts {
                    let cell = count.map_or_else(|| "-".to_owned(), u64::to_string);
                    write!(f, "{cell:>8}")?;
                }
            }
            if !is_met {
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
    fn decisions_are_counted_under_all_that_was_met() {
        let mut coverage = Coverage::default();
        let mut met = SeenConditions {
            phase: TurnPhase::Streaming,
            ..SeenConditions::default()
        };
        coverage.record_decision(Transition::Continue(ContinueReason::NextTurn), &mut met);
        met.add_fault(SimFault::Broken);
        met.add_fault(SimFault::Cancelled);
        coverage.record_decision(Transition::Terminal(TerminalReason::AbortedStreaming), &mut met);
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
    fn what_is_met_after_the_decision_to_end_does_not_count() {
        let mut coverage = Coverage::default();
        let (mut met, end) = (SeenConditions::default(), TerminalReason::Completed);
        met.phase = TurnPhase::Streaming;
        met.note_closing(end);
        met.add_fault(SimFault::Crashed);
        let mut stopped = met;
        met.note_end(end);
        coverage.record_decision(Transition::Terminal(end), &mut met);
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
