//! How waits, retries, circuits and switches of the model are shown.

use super::super::live_area::Activity;
use super::super::style::{Color, format_duration};
use super::View;
use crate::base::clock;
use crate::base::text;
use crate::protocol::{
    CircuitNotification, CircuitState, ModelSwitchedNotification, RetryNotification, WaitNotification,
};

impl View {
    pub(super) fn show_wait(&mut self, wait: &WaitNotification) {
        let parent = wait.parent_tool_call_id.as_ref();
        self.show_note_under(parent, Color::Dim, &format!("⧗ waiting: {}", wait.why));
        if let Some(until) = wait.until {
            self.set_activity(Activity::Until("waiting".to_owned(), until));
        }
    }

    pub(super) fn show_model_switch(&mut self, switched: &ModelSwitchedNotification) {
        let parent = switched.parent_tool_call_id.as_ref();
        // A sub-agent's switch leaves this session's model alone.
        if parent.is_none() {
            self.model = Some(switched.to.clone());
        }
        let line = format!("⇄ {} → {}: {}", switched.from, switched.to, switched.why);
        self.show_note_under(parent, Color::Yellow, &line);
    }

    pub(super) fn show_retry(&mut self, retry: &RetryNotification) {
        let error = &retry.error;
        let cause = error.cause.as_deref().unwrap_or(&error.message);
        let status = error
            .status
            .map(|status| format!(" ({status})"))
            .unwrap_or_default();
        let line = format!(
            "⟳ {}: {}{status} — retrying in {} (attempt {} of {})",
            retry.provider,
            text::one_line(cause, 160),
            format_duration(retry.delay_ms),
            retry.attempt + 1,
            retry.max_retries + 1,
        );
        self.show_note_under(retry.parent_tool_call_id.as_ref(), Color::Yellow, &line);
        self.set_activity(Activity::Until("retrying in".to_owned(), retry.resume_at));
    }

    pub(super) fn show_circuit(&mut self, circuit: &CircuitNotification) {
        let name = &circuit.name;
        let (ink, line) = match circuit.state {
            CircuitState::Open => {
                let until = circuit.until.filter(|_| !self.replay);
                let when = until.map_or_else(String::new, |until| {
                    let remaining = (until - clock::wall_ms()).max(0) as u64;
                    format!("; retrying in {}", format_duration(remaining))
                });
                let line = format!("⊘ {name} failed too often in a row; pausing calls{when}");
                (Color::Yellow, line)
            }
            CircuitState::HalfOpen => (Color::Dim, format!("⊘ trying {name} again")),
            CircuitState::Closed => (Color::Dim, format!("⊙ {name} works again")),
        };
        self.show_note_under(circuit.parent_tool_call_id.as_ref(), ink, &line);
    }
}
