//! What a user sees of a session, as lines of text, for snapshots and to compare two runs.
//!
//! Ids, sequence numbers, times and random parts of waits are left out; consecutive deltas are joined.

use std::collections::BTreeMap;

use serde_json::Value;

use super::client::Client;
use super::inbox::Notification;

/// Returns the events of a session so far, one line each.
pub fn event_log(client: &Client, session: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    // The preceding deltas: what they belong to, and their joined text.
    let mut piece: Option<(String, String)> = None;
    for note in client.notes() {
        if note.text("sessionId") != session {
            continue;
        }
        if note.method.ends_with("Delta") {
            let of = format!(
                "{}{}{}",
                note.method,
                note.text("messageId"),
                note.text("toolCallId")
            );
            match &mut piece {
                Some((known, text)) if *known == of => text.push_str(note.text("text")),
                _ => {
                    flush(&mut piece, &mut lines);
                    piece = Some((of, note.text("text").to_owned()));
                }
            }
            continue;
        }
        let Some(line) = line(&note) else { continue };
        flush(&mut piece, &mut lines);
        lines.push(line);
    }
    flush(&mut piece, &mut lines);
    lines
}

/// Returns the model's text on a client's screen: deltas extend a message, a retraction removes it, and the complete
/// message replaces it.
pub fn screen(client: &Client, session: &str) -> Vec<String> {
    let mut order: Vec<String> = Vec::new();
    let mut shown: BTreeMap<String, String> = BTreeMap::new();
    for note in client.notes() {
        let id = note.text("messageId").to_owned();
        if note.text("sessionId") != session || id.is_empty() {
            continue;
        }
        if !order.contains(&id) {
            order.push(id.clone());
        }
        match note.method.as_str() {
            "agent/textDelta" => shown.entry(id).or_default().push_str(note.text("text")),
            "agent/messageRetracted" => _ = shown.remove(&id),
            "agent/message" if note.text("role") == "assistant" => {
                _ = shown.insert(id, message_text(&note.params))
            }
            _ => {}
        }
    }
    let shown = order.into_iter().filter_map(|id| shown.remove(&id));
    shown.filter(|text| !text.is_empty()).collect()
}

fn flush(piece: &mut Option<(String, String)>, lines: &mut Vec<String>) {
    if let Some((of, text)) = piece.take() {
        let kind = of
            .trim_start_matches("agent/")
            .split("Delta")
            .next()
            .unwrap_or_default();
        lines.push(format!("{kind}Delta {}", short(&text)));
    }
}

/// Quotes a text; shortens it after 120 characters.
pub fn short(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((at, _)) => format!("{:?} … {} bytes", &text[..at], text.len()),
        None => format!("{text:?}"),
    }
}

fn message_text(params: &Value) -> String {
    let blocks = params["content"].as_array().into_iter().flatten();
    blocks.filter_map(|block| block["text"].as_str()).collect()
}

fn line(note: &Notification) -> Option<String> {
    let params = &note.params;
    Some(match note.method.trim_start_matches("agent/") {
        "turnStarted" => "turnStarted".to_owned(),
        "message" => {
            let flag = |name: &str| {
                if params[name] == true {
                    format!(" ({name})")
                } else {
                    String::new()
                }
            };
            let blocks = params["content"].as_array().into_iter().flatten();
            let kinds: Vec<&str> = blocks
                .map(|block| block["type"].as_str().unwrap_or("?"))
                .collect();
            let text = short(&message_text(params));
            let role = note.text("role");
            format!(
                "message {role}{}{} [{}] {text}",
                flag("incomplete"),
                flag("hidden"),
                kinds.join(", ")
            )
        }
        "messageRetracted" => {
            let calls = params["toolCallIds"].as_array().map_or(0, Vec::len);
            match calls {
                0 => "messageRetracted".to_owned(),
                _ => format!("messageRetracted, with {calls} tool call"),
            }
        }
        "toolCall" => format!("toolCall {} {}", note.text("name"), note.text("status")),
        "transition" => {
            let detail = note.text("detail");
            let colon = if detail.is_empty() { "" } else { ": " };
            format!(
                "transition {} {}{colon}{detail}",
                note.text("kind"),
                note.text("reason")
            )
        }
        "retry" => {
            let (attempt, of) = (&params["attempt"], &params["maxRetries"]);
            let error = error(&params["error"]);
            format!(
                "retry {attempt} of {of} after {error}; then: {}",
                note.text("next")
            )
        }
        "compacted" => {
            let by = match (params["digest"] == true, params["summary"].is_string()) {
                (true, _) => ", by a digest",
                (false, true) => ", by a summary",
                (false, false) => "",
            };
            let [before, after] = ["messagesBefore", "messagesAfter"].map(|name| &params[name]);
            format!(
                "compacted {}{by}: {before} to {after} messages",
                note.text("trigger")
            )
        }
        "wait" => format!("wait: {}", note.text("why")),
        "modelSwitched" => format!(
            "modelSwitched from {} to {}: {}",
            note.text("from"),
            note.text("to"),
            note.text("why")
        ),
        "circuit" => format!("circuit {} {}", note.text("name"), note.text("state")),
        "warning" => format!("warning {}: {}", note.text("code"), note.text("message")),
        "turnEnded" => {
            let end = format!("turnEnded {} / {}", note.text("reason"), note.text("state"));
            if params["error"].is_null() {
                end
            } else {
                format!("{end} / {}", error(&params["error"]))
            }
        }
        _ => return None,
    })
}

/// Formats an error: code, class, status, message, cause and user action.
fn error(error: &Value) -> String {
    let text = |name: &str| error[name].as_str().unwrap_or_default();
    let mut line = format!("{} ({}", text("code"), text("class"));
    if let Some(status) = error["status"].as_u64() {
        line.push_str(&format!(", {status}"));
    }
    line.push_str(&format!(") {:?}", text("message")));
    if !text("cause").is_empty() {
        line.push_str(&format!(": {:?}", text("cause")));
    }
    for name in ["retryAfterMs", "resetAt", "attempts"] {
        if !error[name].is_null() {
            line.push_str(&format!(", {name} {}", error[name]));
        }
    }
    if !text("userAction").is_empty() {
        line.push_str(&format!("; do: {}", text("userAction")));
    }
    line
}
