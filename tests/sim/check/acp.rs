//! What a client of the Agent Client Protocol sees: its updates tell the same story as the events (R-ACP).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Checker;
use agentls::base::sim_schedule;
use agentls::base::text::strip_control_characters;
use agentls::domain::{Event, Message, MessageId, Role, SessionId, TurnId};

/// What the client was shown.
#[derive(Default)]
pub(super) struct AcpScreen {
    sessions: BTreeMap<SessionId, AcpSession>,
}

#[derive(Default)]
struct AcpSession {
    /// The text of each message as it was shown.
    texts: BTreeMap<String, String>,
    /// The same, since a load began.
    replayed: Option<BTreeMap<String, String>>,
    /// Messages in progress during a load, which shows them again from their beginning.
    restarted: BTreeSet<String>,
    /// A turn ran during the load.
    is_busy: bool,
    /// What became of each message: its text, or nothing if it was retracted.
    ends: BTreeMap<String, Option<String>>,
    /// The turn of each message that has ended.
    turns: BTreeMap<String, TurnId>,
    answered: Option<TurnId>,
    /// The last status of each call.
    calls: BTreeMap<String, String>,
}

impl Checker {
    /// A server run begins, with a new client.
    pub(crate) fn forget_acp_client(&mut self) {
        self.acp = AcpScreen::default();
    }

    /// The server publishes an event, before the client sees what follows from it.
    pub(crate) fn note_acp_event(&mut self, session: &SessionId, turn: Option<&TurnId>, event: &Event) {
        let shown = self.acp.sessions.entry(session.clone()).or_default();
        let mut end = |message: &MessageId, text: Option<String>| {
            shown.ends.insert(message.to_string(), text);
            if let Some(turn) = turn {
                shown.turns.insert(message.to_string(), turn.clone());
            }
        };
        match event {
            Event::Message(message) if message.role == Role::Assistant => {
                end(&message.id, Some(visible_text(message)))
            }
            Event::MessageRetracted { message, .. } => end(message, None),
            Event::TurnStarted { .. } => {
                shown.is_busy = true;
                shown.answered = None;
            }
            _ => {}
        }
    }

    /// The client receives an update.
    pub(crate) fn check_acp_update(&mut self, params: &Value) {
        if sim_schedule::is_frozen() {
            return;
        }
        self.log_line(format!("ACP {params}"));
        let session = SessionId::from(params["sessionId"].as_str().unwrap_or_default());
        let shown = self.acp.sessions.entry(session).or_default();
        if let Err(violation) = shown.take_update(&params["update"]) {
            self.record_violation(violation);
        }
    }

    /// The client learns that its prompt's turn has ended.
    pub(crate) fn acp_turn_answered(&mut self, turn: &TurnId) {
        let is_cut_off = self.is_degraded() || self.lossy;
        let mut violation = None;
        for shown in self.acp.sessions.values_mut() {
            if shown.turns.values().any(|of| of == turn) {
                shown.answered = Some(turn.clone());
                violation = violation.or(shown.check_texts(Some(turn)).err());
            }
        }
        if let Some(violation) = violation.filter(|_| !is_cut_off) {
            self.record_violation(violation);
        }
    }

    /// The client wants to load a session. Returns whether everything before is on its screen.
    pub(crate) fn acp_load_begins(&mut self, session: &SessionId) -> bool {
        let is_busy = self.open_turn(session).is_some();
        let shown = self.acp.sessions.entry(session.clone()).or_default();
        if shown.check_texts(None).is_err() || shown.replayed.is_some() {
            return false;
        }
        let in_progress = shown.texts.keys().filter(|id| !shown.ends.contains_key(*id));
        shown.restarted.extend(in_progress.cloned());
        (shown.replayed, shown.is_busy) = (Some(BTreeMap::new()), is_busy);
        true
    }

    /// The replay shows what was shown live.
    pub(crate) fn acp_load_ended(&mut self, session: &SessionId, is_loaded: bool) {
        let is_cut_off = self.is_degraded() || self.lossy;
        let shown = self.acp.sessions.entry(session.clone()).or_default();
        let Some(replayed) = shown.replayed.take() else {
            return;
        };
        if !is_loaded || shown.is_busy || is_cut_off {
            return;
        }
        let differs = replayed.iter().find(|(id, text)| {
            let end = shown.ends.get(*id);
            end.is_some_and(|end| end.as_ref() != Some(*text))
        });
        if let Some((id, text)) = differs {
            let violation = format!(
                "ACP: the replay shows {text:?} as {id}, which was {:?}",
                shown.ends.get(id)
            );
            return self.record_violation(violation);
        }
        self.count_case("ACP replay compared");
    }

    /// Compares all texts, at a quiet moment.
    pub(crate) fn check_acp_texts(&mut self) {
        if self.is_degraded() || self.lossy {
            return;
        }
        let checked = self
            .acp
            .sessions
            .values()
            .try_for_each(|shown| shown.check_texts(None));
        if let Err(violation) = checked {
            self.record_violation(violation);
        }
    }
}

fn visible_text(message: &Message) -> String {
    if message.hidden {
        return String::new();
    }
    strip_control_characters(&message.text()).into_owned()
}

impl AcpSession {
    fn take_update(&mut self, update: &Value) -> Result<(), String> {
        let id = |key: &str| update[key].as_str().unwrap_or_default().to_owned();
        match update["sessionUpdate"].as_str() {
            Some("agent_message_chunk") => {
                let own = &update["_meta"]["agentls"];
                if own["event"] == "messageRetracted" {
                    let message = own["messageId"].as_str().unwrap_or_default();
                    self.texts.remove(message);
                    return Ok(());
                }
                let (message, text) = (
                    id("messageId"),
                    update["content"]["text"].as_str().unwrap_or_default(),
                );
                if self.replayed.is_some() && !self.ends.contains_key(&message) {
                    self.restarted.insert(message.clone());
                }
                if let Some(replayed) = &mut self.replayed
                    && !self.restarted.contains(&message)
                    && self.ends.contains_key(&message)
                    && self.texts.contains_key(&message)
                {
                    replayed.entry(message).or_default().push_str(text);
                    return Ok(());
                }
                if self.answered.is_some()
                    && self.turns.get(&message) == self.answered.as_ref()
                    && self.replayed.is_none()
                {
                    return Err(format!("I3: text of {message} comes after the end of its turn"));
                }
                self.texts.entry(message).or_default().push_str(text);
                Ok(())
            }
            Some("tool_call") => {
                self.calls.insert(id("toolCallId"), id("status"));
                Ok(())
            }
            Some("tool_call_update") => {
                let call = id("toolCallId");
                let Some(status) = self.calls.get_mut(&call) else {
                    return Err(format!("ACP: an update of the unknown call {call}"));
                };
                let is_final = matches!(status.as_str(), "completed" | "failed");
                match update["status"].as_str() {
                    Some(next) if !is_final => next.clone_into(status),
                    None if !is_final => {}
                    next => return Err(format!("ACP: {call} was {status} and gets {next:?}")),
                }
                Ok(())
            }
            Some(_) => Ok(()),
            None => Err("ACP: an update without a kind".to_owned()),
        }
    }

    /// The shown texts are those of the messages; nothing of a retracted one is left.
    fn check_texts(&self, turn: Option<&TurnId>) -> Result<(), String> {
        for (message, end) in &self.ends {
            if turn.is_some_and(|turn| self.turns.get(message) != Some(turn)) {
                continue;
            }
            let shown = self.texts.get(message);
            let is_same = match end {
                // What was shown before the load comes first.
                Some(text) if self.restarted.contains(message) => {
                    shown.map_or("", String::as_str).ends_with(text)
                }
                Some(text) => shown.map_or("", String::as_str) == text,
                None => shown.is_none(),
            };
            if !is_same {
                return Err(format!(
                    "ACP: {message} ended as {end:?} and is shown as {shown:?}"
                ));
            }
        }
        Ok(())
    }
}
