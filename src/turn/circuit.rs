//! The circuit breakers of a session's tools (R-TOOL-4): pure, no I/O, no clock of its own.
//!
//! Three failures of a tool in a row with the same pattern open its circuit, and calls are then answered immediately.
//! After a cool-down, one call is admitted as a trial; a success closes the circuit.
//!
//! A call that did not run (a denial, invalid arguments, a cancel, a hook's objection), or that asked for what is not
//! there, says nothing about the tool. It neither counts nor interrupts the row.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use crate::base::clock::Instant;
use crate::base::text::one_line;
use crate::domain::CircuitState;
use crate::domain::circuit::{Admission, Caller, Circuit, CircuitPolicy};
use crate::provider::CircuitView;

/// Failures of the same pattern in a row that open a circuit (R-TOOL-4).
const FAILURES: u32 = 3;
/// The characters to which a failure pattern is cut.
const PATTERN_CHARS: usize = 200;

/// The circuits of a session's tools. A tool without recent failures has no entry.
#[derive(Debug, Default)]
pub struct ToolCircuits {
    tools: BTreeMap<String, ToolCircuit>,
}

#[derive(Debug)]
struct ToolCircuit {
    /// The normalized message of the last failures.
    pattern: String,
    /// The message of the last failure, for the model.
    failure: String,
    circuit: Circuit,
}

/// Whether a call may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ToolAdmission {
    Go,
    /// It may, as the trial with this number, which decides about the circuit.
    Trial(u64),
    /// It may not for this long, because of failures like this one.
    Open {
        remaining: Duration,
        failure: String,
    },
}

/// How an admitted call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallReport<'a> {
    Succeeded,
    /// The tool failed with this message for this input.
    Failed {
        message: &'a str,
        input: &'a Value,
    },
    /// The call did not run, or its input was wrong, so it says nothing about the tool.
    Nothing,
}

/// A change of a circuit's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CircuitChange {
    Opened,
    Closed,
}

impl ToolCircuits {
    /// Returns whether a call of `tool` may run now.
    pub(super) fn admit_call(&mut self, tool: &str, now: Instant) -> ToolAdmission {
        let Some(known) = self.tools.get_mut(tool) else {
            return ToolAdmission::Go;
        };
        match known.circuit.admit_call(Caller::Machine, now) {
            Admission::Pass => ToolAdmission::Go,
            Admission::Trial(number) => ToolAdmission::Trial(number),
            Admission::Refused { until } => ToolAdmission::Open {
                // While another call is the trial, nobody knows how long it takes.
                remaining: until.map_or(Duration::ZERO, |until| until - now),
                failure: known.failure.clone(),
            },
        }
    }

    /// Records the end of an admitted call. `trial` is its number, if it was the trial.
    pub(super) fn record_call_end(
        &mut self,
        tool: &str,
        trial: Option<u64>,
        report: CallReport<'_>,
        now: Instant,
        cooldown: Duration,
    ) -> Option<CircuitChange> {
        match report {
            CallReport::Succeeded => {
                // Any success proves that the tool works, even of a call that began before the circuit opened.
                let was = self.tools.remove(tool)?;
                was.is_open().then_some(CircuitChange::Closed)
            }
            CallReport::Failed { message, input } => {
                let known = self.tools.entry(tool.to_owned()).or_insert_with(|| ToolCircuit {
                    pattern: String::new(),
                    failure: String::new(),
                    circuit: Circuit::new(CircuitPolicy::default()),
                });
                known.record_failure(message, normalize_failure(message, input), trial, now, cooldown)
            }
            CallReport::Nothing => {
                if let (Some(trial), Some(known)) = (trial, self.tools.get_mut(tool)) {
                    // The next call becomes the trial.
                    known.circuit.abandon_trial(trial, now);
                }
                None
            }
        }
    }

    /// Returns the circuits that are not closed, by tool name. `wall_ms` is the wall time of `now`, in Unix
    /// milliseconds.
    pub fn open_circuit_views(&self, now: Instant, wall_ms: i64) -> BTreeMap<String, CircuitView> {
        let view = |(name, known): (&String, &ToolCircuit)| {
            let (state, until) = known.circuit.state();
            let until = until.map(|until| {
                let remaining = until.saturating_duration_since(now).as_millis() as u64;
                wall_ms.saturating_add_unsigned(remaining)
            });
            (name.clone(), CircuitView { state, until })
        };
        let open = self.tools.iter().filter(|(_, known)| known.is_open());
        open.map(view).collect()
    }

    /// Closes the circuit of one tool, or of all. Returns the names of those that were open.
    pub fn reset(&mut self, tool: Option<&str>) -> Vec<String> {
        let mut open = Vec::new();
        self.tools.retain(|name, known| {
            let is_selected = tool.is_none_or(|tool| tool == name);
            if is_selected && known.is_open() {
                open.push(name.clone());
            }
            !is_selected
        });
        open
    }
}

impl ToolCircuit {
    fn is_open(&self) -> bool {
        self.circuit.state().0 != CircuitState::Closed
    }

    fn record_failure(
        &mut self,
        message: &str,
        pattern: String,
        trial: Option<u64>,
        now: Instant,
        cooldown: Duration,
    ) -> Option<CircuitChange> {
        // Calls that were running when the circuit opened, or that run during a trial, change nothing.
        if trial.is_none() && self.is_open() {
            return None;
        }
        if self.pattern != pattern && !self.is_open() {
            // Another failure begins a new row.
            self.circuit.reset();
        }
        self.pattern = pattern;
        self.failure = one_line(message, PATTERN_CHARS);
        let policy = CircuitPolicy {
            failures: FAILURES,
            rest: cooldown,
        };
        self.circuit.set_policy(policy, now);
        let before = self.circuit.state();
        self.circuit.record_failure(now);
        (self.circuit.state() != before).then_some(CircuitChange::Opened)
    }
}

/// Returns the pattern of a failure: case and white space do not matter, nor do numbers that the input does not have. Names
/// and paths do: three missing files are three different failures, not a broken tool, and so are three missing rows and
/// three unreachable hosts.
fn normalize_failure(message: &str, input: &Value) -> String {
    let input_text = input.to_string();
    let is_digit = |c: char| c.is_ascii_digit();
    let known: BTreeSet<&str> = input_text.split(|c| !is_digit(c)).collect();
    let mut pattern = find_host(input).unwrap_or_default().to_lowercase();
    for word in message.split_whitespace() {
        if !pattern.is_empty() {
            pattern.push(' ');
        }
        let mut rest = word;
        while let Some(at) = rest.find(is_digit) {
            pattern.extend(rest[..at].chars().flat_map(char::to_lowercase));
            rest = &rest[at..];
            let (number, after) = rest.split_at(rest.find(|c| !is_digit(c)).unwrap_or(rest.len()));
            pattern.push_str(if known.contains(number) { number } else { "#" });
            rest = after;
        }
        pattern.extend(rest.chars().flat_map(char::to_lowercase));
        // Long enough for the final cut, since a character has at most four bytes.
        if pattern.len() > PATTERN_CHARS * 4 {
            break;
        }
    }
    pattern.chars().take(PATTERN_CHARS).collect()
}

/// Returns the host of the address that a call asks for.
fn find_host(input: &Value) -> Option<&str> {
    let (_, rest) = input["url"].as_str()?.split_once("://")?;
    rest.split(['/', '?', '#']).next()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::base::clock;

    const COOLDOWN: Duration = Duration::from_secs(60);

    const fn failed(message: &str) -> CallReport<'_> {
        CallReport::Failed {
            message,
            input: &Value::Null,
        }
    }

    fn fail(circuits: &mut ToolCircuits, message: &str, now: Instant) -> Option<CircuitChange> {
        assert_eq!(circuits.admit_call("t", now), ToolAdmission::Go, "{message}");
        circuits.record_call_end("t", None, failed(message), now, COOLDOWN)
    }

    fn opened(now: Instant) -> ToolCircuits {
        let mut circuits = ToolCircuits::default();
        assert_eq!(fail(&mut circuits, "timed out after 3 s", now), None);
        assert_eq!(fail(&mut circuits, "Timed out  after 12.5 s", now), None);
        assert_eq!(fail(&mut circuits, "timed out after 400 s", now), None);
        circuits.reset(None);
        for n in 0..2 {
            assert_eq!(fail(&mut circuits, &format!("no answer from {n}"), now), None);
        }
        assert_eq!(
            fail(&mut circuits, "no answer from 7", now),
            Some(CircuitChange::Opened)
        );
        circuits
    }

    #[test]
    fn three_failures_with_one_pattern_open_the_circuit() {
        let now = clock::now();
        let mut circuits = opened(now);
        let refused = circuits.admit_call("t", now + COOLDOWN / 2);
        let failure = "no answer from 7".to_owned();
        assert_eq!(
            refused,
            ToolAdmission::Open {
                remaining: COOLDOWN / 2,
                failure
            }
        );
        assert_eq!(circuits.admit_call("other", now), ToolAdmission::Go);
        let mut circuits = ToolCircuits::default();
        for name in ["a", "b", "c", "a", "a", "b"] {
            assert_eq!(fail(&mut circuits, &format!("no such file: {name}"), now), None);
        }
        // A success begins a new row; a call that did not run does not.
        assert_eq!(fail(&mut circuits, "no such file: b", now), None);
        assert_eq!(
            circuits.record_call_end("t", None, CallReport::Succeeded, now, COOLDOWN),
            None
        );
        assert_eq!(fail(&mut circuits, "x", now), None);
        assert_eq!(
            circuits.record_call_end("t", None, CallReport::Nothing, now, COOLDOWN),
            None
        );
        assert_eq!(fail(&mut circuits, "x", now), None);
        assert_eq!(fail(&mut circuits, "x", now), Some(CircuitChange::Opened));
    }

    #[test]
    fn failures_that_repeat_their_input_differ() {
        let now = clock::now();
        let fetch = |n: u32| json!({"url": format!("https://api{n}.example/x")});
        let row = |n: u32| json!({"table": "t", "row": n});
        let opens = |message: fn(u32) -> String, input: &dyn Fn(u32) -> Value| {
            let mut circuits = ToolCircuits::default();
            (1..=3).any(|n| {
                let (message, input) = (message(n), input(n));
                let report = CallReport::Failed {
                    message: &message,
                    input: &input,
                };
                circuits
                    .record_call_end("t", None, report, now, COOLDOWN)
                    .is_some()
            })
        };
        assert!(!opens(|n| format!("cannot resolve api{n}.example"), &fetch));
        assert!(!opens(|_| "timed out".to_owned(), &fetch));
        assert!(!opens(|n| format!("row {n} not found"), &row));
        // The tool itself fails.
        assert!(opens(|_| "timed out".to_owned(), &|_| fetch(1)));
        assert!(opens(|n| format!("timed out after {} ms", 100 * n), &row));
        assert!(opens(|_| "no connection to the database".to_owned(), &row));
        assert!(opens(|_| "row 5 not found".to_owned(), &|_| row(5)));
    }

    #[test]
    fn the_trial_decides_about_the_circuit() {
        let now = clock::now();
        let later = now + COOLDOWN;
        for (report, change, then) in [
            (
                CallReport::Succeeded,
                Some(CircuitChange::Closed),
                ToolAdmission::Go,
            ),
            (
                failed("cannot read /Users/X"),
                Some(CircuitChange::Opened),
                ToolAdmission::Open {
                    remaining: COOLDOWN,
                    failure: "cannot read /Users/X".to_owned(),
                },
            ),
            (CallReport::Nothing, None, ToolAdmission::Trial(2)),
        ] {
            let mut circuits = opened(now);
            assert_eq!(circuits.admit_call("t", later), ToolAdmission::Trial(1));
            // Meanwhile no other call is admitted, and earlier calls decide nothing unless they succeed.
            assert!(matches!(
                circuits.admit_call("t", later),
                ToolAdmission::Open { .. }
            ));
            assert_eq!(
                circuits.record_call_end("t", None, failed("x"), later, COOLDOWN),
                None
            );
            assert_eq!(
                circuits.record_call_end("t", None, CallReport::Nothing, later, COOLDOWN),
                None
            );
            assert_eq!(
                circuits.record_call_end("t", Some(1), report, later, COOLDOWN),
                change
            );
            assert_eq!(circuits.admit_call("t", later), then, "{report:?}");
        }
    }

    #[test]
    fn a_reset_closes_open_circuits() {
        let now = clock::now();
        let mut circuits = opened(now);
        assert!(circuits.reset(Some("other")).is_empty());
        assert_eq!(circuits.reset(Some("t")), ["t"]);
        assert_eq!(circuits.admit_call("t", now), ToolAdmission::Go);
        assert_eq!(opened(now).reset(None), ["t"]);
    }

    proptest! {
        /// An open circuit admits no call before its time, and never two trials at once.
        #[test]
        fn the_circuit_is_never_stuck_and_has_one_trial(acts in prop::collection::vec((0u8..4, 0u64..90), 1..200)) {
            let mut circuits = ToolCircuits::default();
            let mut now = clock::now();
            let mut trial = None;
            for (act, seconds) in acts {
                now += Duration::from_secs(seconds);
                let admitted = circuits.admit_call("t", now);
                if let ToolAdmission::Trial(number) = admitted {
                    prop_assert_eq!(trial, None);
                    trial = Some(number);
                }
                let report = match act {
                    0 => CallReport::Succeeded,
                    1 => CallReport::Nothing,
                    _ => failed("x"),
                };
                if act < 3 && (trial.is_some() || admitted == ToolAdmission::Go) {
                    circuits.record_call_end("t", trial, report, now, COOLDOWN);
                    trial = None;
                }
            }
            circuits.record_call_end("t", trial, CallReport::Nothing, now, COOLDOWN);
            let stuck = matches!(circuits.admit_call("t", now + COOLDOWN), ToolAdmission::Open { .. });
            prop_assert!(!stuck);
        }
    }
}
