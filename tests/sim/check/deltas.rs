//! I5: the deltas of a message add up to the message.

use super::Checker;
use super::memory::{CallEnd, ShownMessage, ShownSession};
use agentls::base::clock;
use agentls::domain::{Block, Delta, Message, MessageId, SessionId, ToolCallStatus, TurnId};

/// R-SESS-1: text older than 250 ms survives a crash; the rest allows for the duration of the write.
const LOSS_WINDOW_MS: i64 = 260;

impl Checker {
    pub(super) fn check_delta(
        &mut self,
        session: &SessionId,
        turn: Option<&TurnId>,
        delta: &Delta,
    ) -> Result<(), String> {
        let degraded = self.degraded;
        let turn = turn.ok_or("a delta has no turn")?;
        self.note_delta(session, turn, delta);
        let shown_session = self
            .sessions
            .get_mut(session)
            .ok_or_else(|| format!("a delta belongs to the unknown session {session}"))?;
        shown_session.is_running(turn)?;
        match delta {
            Delta::Text {
                message,
                offset,
                text,
            } => {
                let shown_message = shown_session.open_message(message, turn)?;
                shown_message.degraded |= degraded;
                append_piece(&mut shown_message.text, *offset, text, message)?;
                shown_message
                    .trail
                    .push((clock::wall_ms(), shown_message.text.len()));
            }
            Delta::Reasoning {
                message,
                offset,
                text,
            } => {
                let shown_message = shown_session.open_message(message, turn)?;
                append_piece(&mut shown_message.reasoning, *offset, text, message)?;
            }
            Delta::ToolInput {
                message, tool_call, ..
            } => {
                let shown_message = shown_session.open_message(message, turn)?;
                if !shown_message.tools.contains(tool_call) {
                    shown_message.tools.push(tool_call.clone());
                }
            }
            Delta::ToolOutput { tool_call, .. } => {
                let call = shown_session.calls.get(tool_call);
                let runs = call.is_some_and(|c| c.status == Some(ToolCallStatus::Running) && c.turn == *turn);
                if !runs {
                    return Err(format!("I8: output of {tool_call}, which is not running"));
                }
            }
        }
        Ok(())
    }
}

fn append_piece(so_far: &mut String, offset: u64, piece: &str, message: &MessageId) -> Result<(), String> {
    if offset != so_far.len() as u64 {
        return Err(format!(
            "I5: a delta of {message} starts at {offset}; expected {}",
            so_far.len()
        ));
    }
    so_far.push_str(piece);
    Ok(())
}

impl ShownSession {
    fn open_message(&mut self, id: &MessageId, turn: &TurnId) -> Result<&mut ShownMessage, String> {
        let shown_message = self.messages.entry(id.clone()).or_default();
        if let Some(end) = shown_message.end {
            return Err(format!("I5: a delta of {id}, which has ended as {end:?}"));
        }
        shown_message.turn.get_or_insert_with(|| turn.clone());
        Ok(shown_message)
    }

    /// Compares a complete message with its deltas. A message that a crash cut may lack its last moments.
    pub(super) fn check_completed_message(
        &mut self,
        turn: &TurnId,
        message: &Message,
        cut: bool,
    ) -> Result<(), String> {
        let cut_at = self.cut_at;
        let shown_message = self.messages.entry(message.id.clone()).or_default();
        if shown_message.end.replace(CallEnd::Done).is_some() {
            return Err(format!("I5: message {} ended twice", message.id));
        }
        shown_message.turn.get_or_insert_with(|| turn.clone());
        let (text, reasoning) = (message.text(), reasoning_of(message));
        let same = |a: &str, b: &str| {
            if cut {
                a.starts_with(b) || b.starts_with(a)
            } else {
                a == b
            }
        };
        if !same(&text, &shown_message.text) || !same(&reasoning, &shown_message.reasoning) {
            return Err(format!(
                "I5: message {} contains {:?} / {:?}; its deltas add up to {:?} / {:?}",
                message.id, text, reasoning, shown_message.text, shown_message.reasoning
            ));
        }
        let old = |(at, _): &&(i64, usize)| *at < cut_at - LOSS_WINDOW_MS;
        let durable_len = shown_message
            .trail
            .iter()
            .take_while(old)
            .last()
            .map_or(0, |(_, length)| *length);
        if cut && message.incomplete && !shown_message.degraded && text.len() < durable_len {
            return Err(format!(
                "R-SESS-1: message {} lost text older than 250 ms",
                message.id
            ));
        }
        Ok(())
    }
}

fn reasoning_of(message: &Message) -> String {
    message
        .content
        .iter()
        .filter_map(|block| match block {
            Block::Reasoning { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect()
}
