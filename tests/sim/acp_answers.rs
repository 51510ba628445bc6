//! How the simulated client of the Agent Client Protocol serves its files and fills in forms: late, wrongly or never.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::acp_client::AcpClient;
use super::replies::choose_reply;
use agentls::acp::TYPED;
use agentls::domain::{Inquiry, InquiryReply, RequestSubject, SessionId};

/// The client's unsaved buffers. They never reach the disk, so the checker of files knows nothing of them.
#[derive(Default)]
pub(super) struct ClientFiles {
    /// Texts by path.
    buffers: BTreeMap<String, String>,
    /// Texts that the client has confirmed to have written, with the lines of the user that they replaced.
    written: BTreeMap<String, Vec<String>>,
    /// How often the user has typed something.
    typed: u64,
}

/// Answers requests for files.
pub(super) async fn serve_files(client: Arc<AcpClient>) {
    let rng = &client.server_run.world.rng;
    loop {
        agentls::base::clock::sleep(Duration::from_millis(1) + rng.draw_pause(1_000)).await;
        let is_file = |asked: &Value| {
            asked["method"]
                .as_str()
                .is_some_and(|name| name.starts_with("fs/"))
        };
        let Some(asked) = client.find_asked(is_file) else {
            continue;
        };
        if rng.chance(20) {
            // Longer than the edge waits.
            agentls::base::clock::sleep(Duration::from_secs(15)).await;
        }
        let answer = serve_file(&client, &asked);
        client.respond(&asked, answer);
    }
}

fn serve_file(client: &AcpClient, asked: &Value) -> Option<Value> {
    let rng = &client.server_run.world.rng;
    let params = &asked["params"];
    let path = params["path"].as_str().unwrap_or_default().to_owned();
    let mut files = client.lock_files();
    if asked["method"] == "fs/read_text_file" {
        let text = files.buffers.get(&path).cloned();
        let mut text = text.or_else(|| std::fs::read_to_string(&path).ok())?;
        let is_write =
            |asked: &Value| asked["method"] == "fs/write_text_file" && asked["params"]["path"] == path;
        // A text that is already on its way replaces what the user types now: the protocol cannot prevent this.
        if rng.chance(300) && client.find_asked(is_write).is_none() {
            files.typed += 1;
            let line = format!("{TYPED}{}", files.typed);
            // Above, the line that is edited has another number then.
            text = if rng.chance(500) {
                format!("{line}\n{text}")
            } else {
                format!("{text}\n{line}")
            };
            files.buffers.insert(path, text.clone());
        }
        return match rng.next_below(12) {
            0 => None,
            1 => Some(json!({"content": 7})),
            _ => Some(json!({"content": text})),
        };
    }
    let text = params["content"].as_str().unwrap_or_default().to_owned();
    let is_refused = rng.chance(100);
    let mut lost = Vec::new();
    if !is_refused || rng.chance(300) {
        let replaced = files.buffers.insert(path, text.clone()).unwrap_or_default();
        let is_lost = |line: &&str| line.starts_with(TYPED) && !text.lines().any(|kept| kept == *line);
        lost.extend(replaced.lines().filter(is_lost).map(str::to_owned));
    }
    if is_refused {
        return None;
    }
    files.written.insert(text, lost);
    Some(json!({}))
}

/// Edits a line of a file as a tool does. An edit that succeeds was written by the client, and nothing that the user
/// has typed is lost.
pub(super) async fn edit_document(client: &AcpClient, session: &SessionId) {
    let world = &client.server_run.world;
    let path = world.files.pick_path(world);
    let text = format!("edited {}", world.rng.next_u64());
    if world.rng.chance(700) {
        // The user has opened it, or started it there.
        let opened = std::fs::read_to_string(&path).unwrap_or_default();
        let mut files = client.lock_files();
        files.buffers.entry(path.display().to_string()).or_insert(opened);
    }
    let edited = client.edge.edit_document(session, path, &text).await;
    let mut check = world.lock_checker();
    let files = client.lock_files();
    let has_edit = |written: &&String| written.lines().any(|line| line == text);
    let lost = files
        .written
        .keys()
        .find(has_edit)
        .map(|written| &files.written[written]);
    if edited == Some(true) && lost.is_none_or(|lost| !lost.is_empty()) {
        check.record_violation(format!(
            "ACP: the edit {text:?} was never written, or has lost {lost:?}"
        ));
    }
    check.count_case(format!("ACP edit: {edited:?}"));
}

/// Fills in a form, or declines it.
pub(super) fn answer_form(client: &AcpClient, asked: &Value) {
    let world = &client.server_run.world;
    let session = SessionId::from(asked["params"]["sessionId"].as_str().unwrap_or_default());
    let message = asked["params"]["message"].as_str().unwrap_or_default();
    let open = world.lock_checker().open_inquiries();
    let is_asked = |(of, inquiry, _): &&(SessionId, Inquiry, bool)| {
        let text = match &inquiry.subject {
            RequestSubject::Limit(limit) => &limit.message,
            RequestSubject::Question(question) => &question.text,
        };
        *of == session && message.contains(text)
    };
    let mut answer = json!({"action": "decline"});
    // All that fit: texts repeat, and the form does not name the question.
    for (_, inquiry, _) in open.iter().filter(is_asked) {
        let (chosen, reply) = match world.rng.next_below(8) {
            0 => (answer.clone(), inquiry.default_reply()),
            1 => (json!("nonsense"), inquiry.default_reply()),
            2 => (json!({"action": "accept"}), accept_nothing(inquiry)),
            _ => accept(world, inquiry),
        };
        answer = chosen;
        let mut check = world.lock_checker();
        check.note_reply_sent(&session, &inquiry.id, &reply);
        // Whatever does not fit counts as the default.
        check.note_reply_sent(&session, &inquiry.id, &inquiry.default_reply());
        check.count_case("ACP form answered".to_owned());
    }
    client.respond(asked, Some(answer));
}

fn accept_nothing(inquiry: &Inquiry) -> InquiryReply {
    match &inquiry.subject {
        RequestSubject::Limit(_) => InquiryReply::Stop,
        RequestSubject::Question(_) => InquiryReply::Answers(BTreeMap::new()),
    }
}

fn accept(world: &super::world::World, inquiry: &Inquiry) -> (Value, InquiryReply) {
    let accepted = |content: Value| json!({"action": "accept", "content": content});
    match (choose_reply(world, inquiry), &inquiry.subject) {
        (InquiryReply::Answers(answers), _) => {
            let content = answers
                .iter()
                .map(|(name, values)| (name.clone(), json!(values[0])));
            let content = Value::Object(content.collect());
            (accepted(content), InquiryReply::Answers(answers))
        }
        (InquiryReply::Raise(_), RequestSubject::Limit(reached)) => {
            // Often too little for the limit's unit.
            let by = world.rng.next_below(3_000) as f64 / 1_000.0;
            let reply = InquiryReply::Raise(reached.limit.convert_to_amount(by));
            (accepted(json!({"raise_by": by})), reply)
        }
        (InquiryReply::Accept, _) => (accepted(json!({"raise_by": "continue"})), InquiryReply::Accept),
        (reply, _) => (json!({"action": "cancel"}), reply),
    }
}
