//! Exports a session as one text: Markdown for people, JSON for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::full_record;
use super::sanitize::{readable_diff, to_json, to_value};
use crate::base::text::{cut_middle, one_line, strip_control_characters};
use crate::domain::{Block, Envelope, Event, Message, Role, SessionId, ToolCallUpdate, TurnEnd, TurnState};
use crate::protocol::{ExportFormat, SessionState};
use crate::store::StoredEvent;

/// Characters of a tool's output that the Markdown shows.
const OUTPUT: usize = 2_000;

/// An export that grows event by event.
pub enum Export {
    /// Text for people.
    Markdown(String),
    /// For programs: the session's state and its events.
    Json(Value, Vec<Value>),
}

impl Export {
    /// Starts the export of a session with this state.
    pub fn new(format: ExportFormat, session: &SessionId, state: &SessionState) -> Self {
        match format {
            ExportFormat::Json => {
                let mut document = to_value(state);
                document["sessionId"] = json!(session.to_string());
                Self::Json(document, Vec::new())
            }
            ExportFormat::Markdown => {
                // Results of `write!` are ignored below: writing into a `String` cannot fail.
                let title = state.title.as_deref().unwrap_or("(no prompt yet)");
                let mut out = format!("# {}\n\n", one_line(title, 200));
                let _ = writeln!(out, "- session: `{session}`\n- folder: `{}`", state.cwd);
                if let Some(model) = &state.model {
                    let _ = writeln!(out, "- model: `{model}`");
                }
                if let Some(cost) = state.cost_usd {
                    let _ = writeln!(out, "- cost: ${cost:.2}");
                }
                Self::Markdown(out)
            }
        }
    }

    /// Appends the next event.
    pub fn add_event(&mut self, session: &SessionId, stored: &StoredEvent) {
        match self {
            Self::Json(_, events) => events.push(to_value(&full_record(&Envelope {
                session: session.clone(),
                turn: stored.turn.clone(),
                seq: stored.seq,
                at_ms: stored.at_ms,
                event: stored.event.clone(),
                permit: None,
                in_page: false,
            }))),
            Self::Markdown(out) => match &stored.event {
                // Hidden messages are for the model only.
                Event::Message(message) if !message.hidden => write_message(out, message),
                // Earlier updates of the call have no output.
                Event::ToolCall(update) if update.status.is_final() => tool_call(out, update),
                Event::TurnEnded(end) => turn_ended(out, end),
                _ => {}
            },
        }
    }

    /// Finishes the export.
    pub fn into_text(self) -> String {
        match self {
            Self::Markdown(out) => out,
            Self::Json(session, events) => to_json(&json!({"session": session, "events": events})),
        }
    }
}

fn write_message(out: &mut String, message: &Message) {
    let speaker = match message.role {
        Role::User => "You",
        Role::Assistant => "Agent",
        // The output of a tool appears with its call.
        Role::Tool => return,
    };
    let mut body = String::new();
    for block in &message.content {
        match block {
            Block::Text(text) => {
                let _ = write!(body, "\n{}\n", strip_control_characters(text).trim_end());
            }
            Block::Reference(reference) => {
                let _ = write!(
                    body,
                    "\n(about `{}`)\n",
                    strip_control_characters(&reference.path)
                );
            }
            Block::Image(image) if !image.is_document() => body.push_str("\n(a picture)\n"),
            Block::Image(_) | Block::Reasoning { .. } | Block::ToolUse { .. } | Block::ToolResult { .. } => {}
        }
    }
    if body.is_empty() {
        return;
    }
    let _ = write!(out, "\n## {speaker}\n{body}");
    if message.incomplete {
        out.push_str("\n*(cut here)*\n");
    }
}

fn tool_call(out: &mut String, update: &ToolCallUpdate) {
    let title = one_line(&strip_control_characters(&update.title), 200);
    let _ = writeln!(
        out,
        "\n**{title}** ({})",
        to_value(&crate::protocol::ToolCallStatus::from(update.status))
            .as_str()
            .unwrap_or_default()
    );
    if let Some(diff) = &update.diff {
        write_fenced_block(out, "diff", &readable_diff(diff));
    } else if let Some(result) = &update.result {
        let output = cut_middle(&result.text, OUTPUT).unwrap_or_else(|| result.text.clone());
        write_fenced_block(out, "", &strip_control_characters(&output));
    }
}

fn turn_ended(out: &mut String, end: &TurnEnd) {
    if end.state != TurnState::Completed {
        let _ = writeln!(
            out,
            "\n*The turn ended: {} ({})*",
            end.state.name(),
            end.reason.name()
        );
    }
}

/// Writes a code block. Its fence is longer than any run of backticks in the text, so the text cannot close it.
fn write_fenced_block(out: &mut String, language: &str, text: &str) {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(3.max(longest + 1));
    let _ = writeln!(
        out,
        "\n{fence}{language}\n{}\n{fence}",
        text.trim_end_matches('\n')
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_any_in_its_text() {
        let mut out = String::new();
        write_fenced_block(&mut out, "md", "a ```` b");
        assert_eq!(out, "\n`````md\na ```` b\n`````\n");
    }
}
