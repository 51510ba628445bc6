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
    for notification in client.notes() {
        if notification.text("sessionId") != session || is_environment_note(&notification) {
            continue;
        }
        if notification.method.ends_with("Delta") {
            let of = format!(
                "{}{}{}",
                notification.method,
                notification.text("messageId"),
                notification.text("toolCallId")
            );
            match &mut piece {
                Some((known, text)) if *known == of => text.push_str(notification.text("text")),
                _ => {
                    flush(&mut piece, &mut lines);
                    piece = Some((of, notification.text("text").to_owned()));
                }
            }
            continue;
        }
        let Some(line) = line(&notification) else { continue };
        flush(&mut piece, &mut lines);
        lines.push(line);
    }
    flush(&mut piece, &mut lines);
    lines
}

/// Returns whether a message tells the model about its environment, which differs between machines.
fn is_environment_note(notification: &Notification) -> bool {
    let is_hidden = notification.params["hidden"] == true;
    is_hidden
        && notification.params["content"]
            .to_string()
            .contains("<environment>")
}

/// Returns the model's text on a client's screen: deltas extend a message, a retraction removes it, and the complete
/// message replaces it.
pub fn screen(client: &Client, session: &str) -> Vec<String> {
    let mut order: Vec<String> = Vec::new();
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for notification in client.notes() {
        let id = notification.text("messageId").to_owned();
        if notification.text("sessionId") != session || id.is_empty() {
            continue;
        }
        if !order.contains(&id) {
            order.push(id.clone());
        }
        match notification.method.as_str() {
            "agent/textDelta" => texts.entry(id).or_default().push_str(notification.text("text")),
            "agent/messageRetracted" => _ = texts.remove(&id),
            "agent/message" if notification.text("role") == "assistant" => {
                _ = texts.insert(id, message_text(&notification.params))
            }
            _ => {}
        }
    }
    let texts = order.into_iter().filter_map(|id| texts.remove(&id));
    texts.filter(|text| !text.is_empty()).collect()
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

fn line(notification: &Notification) -> Option<String> {
    let params = &notification.params;
    Some(match notification.method.trim_start_matches("agent/") {
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
            let role = notification.text("role");
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
        "toolCall" => format!(
            "toolCall {} {}",
            notification.text("name"),
            notification.text("status")
        ),
        "transition" => {
            let detail = notification.text("detail");
            let colon = if detail.is_empty() { "" } else { ": " };
            format!(
                "transition {} {}{colon}{detail}",
                notification.text("kind"),
                notification.text("reason")
            )
        }
        "retry" => {
            let (attempt, of) = (&params["attempt"], &params["maxRetries"]);
            let error = error(&params["error"]);
            format!(
                "retry {attempt} of {of} after {error}; then: {}",
                notification.text("next")
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
                notification.text("trigger")
            )
        }
        "wait" => format!("wait: {}", notification.text("why")),
        "modelSwitched" => format!(
            "modelSwitched from {} to {}: {}",
            notification.text("from"),
            notification.text("to"),
            notification.text("why")
        ),
        "circuit" => format!(
            "circuit {} {}",
            notification.text("name"),
            notification.text("state")
        ),
        "warning" => format!(
            "warning {}: {}",
            notification.text("code"),
            notification.text("message")
        ),
        "turnEnded" => {
            let end = format!(
                "turnEnded {} / {}",
                notification.text("reason"),
                notification.text("state")
            );
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
