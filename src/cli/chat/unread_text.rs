//! Chooses what goes back into the input after the server ended: each text once, and none that the session contains (I16).
//!
//! Must not call the server.

use crate::cli::notification::join_text_blocks;
use crate::cli::slash::{self, QueueCommand, Slash};
use crate::protocol::{
    MessageBlock, MessageNotification, QueuedContent, Role, ServerNotification, TurnAsker,
};

/// The line that the chat was working on when the server ended.
pub(super) struct CurrentLine {
    pub(super) text: String,
    /// The session at that time; the line may have changed it.
    pub(super) session: String,
    /// The last event before the line.
    pub(super) before: u64,
}

/// What the session contains since the current line.
pub(super) struct StoredTexts<'a> {
    pub(super) events: &'a [ServerNotification],
    /// The last event that was handled before the server ended. What it returned is in the input already.
    pub(super) handled: u64,
    pub(super) queued: &'a [QueuedContent],
}

impl StoredTexts<'_> {
    /// Returns the texts that no model saw and the session does not contain, in the order in which they were typed.
    /// `unanswered` are those whose answer did not arrive.
    pub(super) fn list_unread_texts(&self, line: Option<String>, unanswered: Vec<String>) -> Vec<String> {
        let mut known = self.list_known_texts();
        // Takes what it finds: a text that was typed twice must be there twice.
        let mut is_known = |typed: &str| {
            let text = strip_queue_command(typed);
            let found = known.iter().position(|known| known.trim() == text.trim());
            found.map(|at| known.swap_remove(at)).is_some()
        };
        let line = line.filter(|line| match slash::parse(line) {
            None => !is_known(line) && !self.has_read_prompt(),
            Some(Ok(Slash::Queue(QueueCommand::Add(_)))) => !is_known(line),
            // Its text is not that of the message.
            Some(Ok(Slash::Own(_))) => !self.has_prompt(),
            Some(_) => self.events.is_empty(),
        });
        let unanswered: Vec<String> = unanswered.into_iter().filter(|text| !is_known(text)).collect();
        let unused = self.list_unused_texts();
        line.into_iter().chain(unused).chain(unanswered).collect()
    }

    /// Returns the texts of the user that the session contains, or has returned.
    fn list_known_texts(&self) -> Vec<String> {
        let mut known = Vec::new();
        for event in self.events {
            match event {
                ServerNotification::Message(message) if is_from_user(message) => {
                    known.extend(list_texts(&message.content));
                }
                ServerNotification::TurnEnded(ended) => {
                    known.extend(ended.unused_steers.iter().map(|steer| join_text_blocks(steer)));
                }
                _ => {}
            }
        }
        known.extend(self.queued.iter().flat_map(|queued| list_texts(&queued.content)));
        known
    }

    /// Returns whether a prompt started a turn and is in it. A hook may have changed its text.
    fn has_read_prompt(&self) -> bool {
        let turn = self.events.iter().find_map(|event| match event {
            ServerNotification::TurnStarted(started) if started.by == Some(TurnAsker::Prompt) => {
                Some(&started.header.turn_id)
            }
            _ => None,
        });
        turn.is_some_and(|turn| {
            self.events.iter().any(|event| {
                matches!(event, ServerNotification::Message(message)
                    if is_from_user(message) && message.header.turn_id == *turn)
            })
        })
    }

    fn has_prompt(&self) -> bool {
        self.events.iter().any(|event| match event {
            ServerNotification::Message(message) => is_from_user(message),
            ServerNotification::TurnEnded(ended) => !ended.unused_steers.is_empty(),
            _ => false,
        })
    }

    /// Returns what the old server had accepted, but no model saw.
    fn list_unused_texts(&self) -> Vec<String> {
        let mut unused = Vec::new();
        for event in self.events {
            if let ServerNotification::TurnEnded(ended) = event
                && ended.header.seq > self.handled
            {
                unused.extend(ended.unused_steers.iter().map(|steer| join_text_blocks(steer)));
            }
        }
        unused
    }
}

fn is_from_user(message: &MessageNotification) -> bool {
    message.role == Role::User && !message.hidden
}

/// Returns the text of a prompt, without the command that queues it.
fn strip_queue_command(typed: &str) -> String {
    match slash::parse(typed) {
        Some(Ok(Slash::Queue(QueueCommand::Add(words)))) => words,
        _ => typed.to_owned(),
    }
}

/// Returns the texts of a prompt. References follow the user's own as blocks of their own.
fn list_texts(content: &[MessageBlock]) -> impl Iterator<Item = String> {
    content.iter().filter_map(|block| match block {
        MessageBlock::Text { text, .. } => Some(text.clone()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The line, the unanswered texts, the events since then, and what is unread.
    type UnreadCase = (
        &'static str,
        &'static [&'static str],
        Vec<ServerNotification>,
        &'static [&'static str],
    );

    fn parse(method: &str, seq: u64, more: &Value) -> ServerNotification {
        let mut params = json!({"sessionId": "s", "seq": seq, "at": 0});
        let fields = params.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        ServerNotification::parse(method, params).unwrap().unwrap()
    }

    fn message(seq: u64, text: &str) -> ServerNotification {
        let content = json!([{"type": "text", "text": text}]);
        let message = json!({"turnId": "t", "messageId": "m", "role": "user", "content": content});
        parse("agent/message", seq, &message)
    }

    fn turn_ended(seq: u64, unused: &[&str]) -> ServerNotification {
        let steers: Vec<Value> = unused
            .iter()
            .map(|text| json!([{"type": "text", "text": text}]))
            .collect();
        let usage = json!({"inputTokens": 0, "outputTokens": 0, "cacheReadTokens": 0, "cacheWriteTokens": 0});
        let ended = json!({"reason": "server_stopped", "state": "interrupted", "usage": usage, "unusedSteers": steers});
        parse("agent/turnEnded", seq, &ended)
    }

    #[test]
    fn each_unread_text_returns_once_in_its_order() {
        let warning = || parse("agent/sessionUpdated", 3, &json!({}));
        let started = || parse("agent/turnStarted", 4, &json!({"turnId": "t", "by": "prompt"}));
        let cases: [UnreadCase; 10] = [
            ("go", &[], vec![], &["go"]),
            // An event proves nothing about a prompt, but a command leaves no message.
            ("go", &[], vec![warning(), started()], &["go"]),
            ("/title x", &[], vec![warning()], &[]),
            ("/title x", &[], vec![], &["/title x"]),
            ("go", &["a"], vec![message(5, "go")], &["a"]),
            // A hook changed it.
            ("go", &[], vec![started(), message(5, "go on")], &[]),
            // A hook held the prompt back.
            ("go", &[], vec![turn_ended(9, &["go"])], &["go"]),
            (
                "go",
                &["b", "/queue later", "/queue lost", "c", "b"],
                vec![message(5, "go"), message(6, "c"), turn_ended(9, &["a", "b"])],
                &["a", "b", "/queue lost", "b"],
            ),
            // Its turn returned these before the server ended.
            ("go", &["a"], vec![message(5, "go"), turn_ended(6, &["a"])], &[]),
            ("/own x", &[], vec![started(), message(5, "Expanded")], &[]),
        ];
        let content = vec![MessageBlock::Text {
            text: "later".to_owned(),
            more: crate::protocol::TruncatedFields::default(),
        }];
        let queued = [QueuedContent {
            prompt_id: "p".to_owned(),
            content,
        }];
        for (line, unanswered, events, expected) in cases {
            let stored = StoredTexts {
                events: &events,
                handled: 6,
                queued: &queued,
            };
            let unanswered = unanswered.iter().map(|text| (*text).to_owned()).collect();
            let texts = stored.list_unread_texts(Some(line.to_owned()), unanswered);
            assert_eq!(texts, expected, "{line} {events:?}");
        }
    }
}
