//! What one session has shown of itself, and what follows from its next event (R-ACP).
//!
//! Turns events and deltas into outgoing notifications, in order. Text of an attempt that may be retried is held back
//! ([`super::held_text`]); text that was shown and then discarded is followed by a visible line. Pure: it owns no
//! queue and no clock. Every method returns what to send.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, Hash, RandomState};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::{Value, json};

use super::error::translate_method_names;
use super::held_text::{Chunk, ChunkKind, HeldText};
use super::updates::{self, Notice};
use crate::base::backpressure::Permit;
use crate::base::clock::Instant;
use crate::base::text::{prefix_within, strip_control_characters, suffix_within};
use crate::domain::{
    Cost, Delta, DeltaEnvelope, Envelope, Event, Message, MessageId, Role, TerminalReason, ToolCallId,
    ToolCallUpdate, Transition, TurnEnd, TurnTrigger,
};
use crate::session::PartialMessage;
use crate::transport::outbox::Outgoing;

/// The end of every chunk that may merge.
const CHUNK_TAIL: &[u8] = b"\"}}}}";
/// Bytes of text in one chunk.
const MAX_CHUNK: usize = 32 << 10;
/// Bytes of live output that a call shows. Its result carries the rest.
const MAX_OUTPUT: usize = 8 << 10;
/// Live output of a call is shown again after this time.
const OUTPUT_EVERY: Duration = Duration::from_millis(400);

/// The visible line below text that was discarded.
const DISCARDED: &str =
    "\n\n> *The answer above broke off and is discarded. It is requested again, and follows.*\n\n";

static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Returns the outbox's number for a session, or for a stream of a message.
pub(super) fn hash_key(name: impl Hash) -> u64 {
    KEYS.hash_one(name)
}

/// Wraps an update for the outbox.
pub(super) fn to_notification(session: &str, update: Value, permit: Option<Permit>) -> Outgoing {
    let body = json!({
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": session, "update": update},
    });
    Outgoing::Notification {
        body: body.to_string().into_bytes(),
        group: Some(hash_key(session)),
        permit,
    }
}

/// How a session is shown.
#[derive(Clone, Debug, Default)]
pub(super) struct FeedOptions {
    pub(super) shows_notices: bool,
    /// How long the text of an attempt is held.
    pub(super) hold: Duration,
    /// The session's working directory.
    pub(super) cwd: PathBuf,
    /// The same as the client names it, maybe through a link.
    pub(super) client_cwd: PathBuf,
}

impl FeedOptions {
    /// Names the files of a call as the client does.
    pub(super) fn name_paths(&self, call: &mut Value) {
        for part in ["locations", "content"] {
            let places = call.get_mut(part).and_then(Value::as_array_mut);
            for place in places.into_iter().flatten() {
                let path = place.get("path").and_then(Value::as_str).map(Path::new);
                if let Some(Ok(rest)) = path.map(|path| path.strip_prefix(&self.cwd)) {
                    place["path"] = json!(self.client_cwd.join(rest));
                }
            }
        }
    }
}

/// What one session has shown.
pub(super) struct SessionFeed {
    session: String,
    options: FeedOptions,
    in_progress: Option<HeldText>,
    /// Messages of the turn of which something was shown.
    shown: HashSet<MessageId>,
    /// The message and the kind of the last chunk.
    last_chunk: Option<(MessageId, ChunkKind)>,
    calls: BTreeMap<ToolCallId, CallView>,
    /// Notices for a client without notices: shown when the next turn starts.
    waiting: Vec<String>,
    /// The notices that such a client has. Each load brings them again.
    shown_notices: HashSet<String>,
    /// The list of commands that was sent last, and the change of MCP servers that it is as new as.
    commands: Option<(u64, Value)>,
    /// The window and the cost that were shown last.
    last_usage: Option<(u64, Option<Cost>)>,
    /// Whether the turn compacts the history.
    compacts: bool,
    /// How many requests replay the history now.
    replays: usize,
    /// The calls that changed during a replay, which shows them at its end, with the number of the last event.
    held_calls: BTreeMap<ToolCallId, (u64, ToolCallUpdate)>,
}

/// What a replay of the history leaves to the feed.
#[derive(Default)]
pub(super) struct ReplayTail {
    /// The number of the last event that was replayed.
    pub(super) seq: u64,
    pub(super) open_calls: Vec<ToolCallUpdate>,
    /// The message in progress.
    pub(super) partial: Option<PartialMessage>,
}

/// What was shown of a call.
#[derive(Default)]
struct CallView {
    is_announced: bool,
    diff: Vec<Value>,
    output: String,
    /// When the output was shown.
    shown_at: Option<Instant>,
    /// Bytes of output that will be shown next.
    permit: Option<Permit>,
    is_stale: bool,
}

impl SessionFeed {
    pub(super) fn new(session: &str, options: FeedOptions) -> Self {
        Self {
            session: session.to_owned(),
            options,
            in_progress: None,
            shown: HashSet::new(),
            last_chunk: None,
            calls: BTreeMap::new(),
            waiting: Vec::new(),
            shown_notices: HashSet::new(),
            commands: None,
            last_usage: None,
            compacts: false,
            replays: 0,
            held_calls: BTreeMap::new(),
        }
    }

    pub(super) fn set_options(&mut self, options: FeedOptions) {
        self.options = options;
    }

    pub(super) fn options(&self) -> &FeedOptions {
        &self.options
    }

    /// Sends the list of commands as of a change of MCP servers, unless the client has a newer one, or the same and did
    /// not open the session again.
    pub(super) fn show_commands(&mut self, change: u64, update: Value, is_opened: bool) -> Vec<Outgoing> {
        if let Some((known, shown)) = &self.commands
            && (change < *known || (!is_opened && *shown == update))
        {
            return Vec::new();
        }
        self.commands = Some((change, update.clone()));
        vec![to_notification(&self.session, update, None)]
    }

    /// Returns whether the client has a list of commands.
    pub(super) fn shows_commands(&self) -> bool {
        self.commands.is_some()
    }

    /// Returns when [`Self::handle_timer`] has something to do.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let stale = self
            .calls
            .values()
            .filter(|call| call.is_stale && self.replays == 0);
        let outputs = stale.filter_map(|call| Some(call.shown_at? + OUTPUT_EVERY));
        outputs
            .chain(self.in_progress.as_ref().and_then(HeldText::due))
            .min()
    }

    /// Releases held text and output whose time has come.
    pub(super) fn handle_timer(&mut self, now: Instant) -> Vec<Outgoing> {
        let mut out = Vec::new();
        if let Some(text) = &mut self.in_progress {
            let message = text.message().clone();
            let chunks = text.release_if_due(now);
            self.show_chunks(&message, chunks, &mut out);
        }
        let stale: Vec<ToolCallId> = self
            .calls
            .iter()
            .filter(|(_, call)| call.is_stale && call.is_due(now) && self.replays == 0)
            .map(|(id, _)| id.clone())
            .collect();
        for id in stale {
            self.show_output(&id, now, &mut out);
        }
        out
    }

    /// Takes an increment.
    pub(super) fn handle_delta(&mut self, envelope: DeltaEnvelope, now: Instant) -> Vec<Outgoing> {
        let mut out = Vec::new();
        let permit = envelope.permit;
        match envelope.delta {
            Delta::Text {
                message,
                offset,
                text,
            } => self.add_text(message, offset, (ChunkKind::Text, text), permit, now, &mut out),
            Delta::Reasoning {
                message,
                offset,
                text,
            } => self.add_text(message, offset, (ChunkKind::Thought, text), permit, now, &mut out),
            // The call is shown once its arguments are complete.
            Delta::ToolInput { .. } => {}
            Delta::ToolOutput { tool_call, text } => {
                let call = self.calls.entry(tool_call.clone()).or_default();
                call.add_output(&text, permit);
                if call.is_due(now) && self.replays == 0 {
                    self.show_output(&tool_call, now, &mut out);
                }
            }
        }
        out
    }

    fn add_text(
        &mut self,
        message: MessageId,
        offset: u64,
        (kind, text): (ChunkKind, String),
        permit: Option<Permit>,
        now: Instant,
        out: &mut Vec<Outgoing>,
    ) {
        let is_other = |held: &HeldText| *held.message() != message;
        if self.in_progress.as_ref().is_none_or(is_other) {
            let mut held = HeldText::new(message.clone(), now, self.options.hold);
            held.set_paused(self.replays > 0);
            self.in_progress = Some(held);
        }
        if let Some(held) = &mut self.in_progress {
            let chunk = Chunk { kind, text, permit };
            let chunks = held.add(chunk, offset);
            self.show_chunks(&message, chunks, out);
        }
    }

    /// Takes an event.
    pub(super) fn handle_event(&mut self, envelope: &mut Envelope) -> Vec<Outgoing> {
        let mut out = Vec::new();
        if let Some(update) = updates::usage(&envelope.event, &mut self.last_usage) {
            self.push(update, &mut out);
        }
        match &envelope.event {
            Event::TurnStarted { by, .. } => {
                self.compacts = *by == TurnTrigger::Compact;
                self.in_progress = None;
                self.shown.clear();
                for (n, note) in std::mem::take(&mut self.waiting).into_iter().enumerate() {
                    let id = format!("note_{}_{n}", envelope.seq);
                    let text = format!("> {}\n\n", translate_method_names(&note).replace('\n', "\n> "));
                    self.push(updates::text_chunk("agent_message_chunk", &id, &text), &mut out);
                }
            }
            Event::TurnEnded(end) => self.end_turn(end, envelope.seq, &mut out),
            // Nothing else says why a compaction changed nothing.
            Event::Transition {
                transition: Transition::Terminal(TerminalReason::Completed),
                detail: Some(detail),
            } if self.compacts => self.push(
                updates::text_chunk("agent_message_chunk", &format!("note_{}", envelope.seq), detail),
                &mut out,
            ),
            Event::Message(message) => self.complete_message(message, &mut out),
            Event::MessageRetracted { message, .. } => self.retract(message, &mut out),
            Event::ToolCall(update) if self.replays > 0 => self.hold_call(update, envelope.seq),
            Event::ToolCall(update) => self.show_call(update, false, &mut out),
            Event::Plan { items } => self.push(updates::plan(items), &mut out),
            Event::SessionUpdated { title, mode, .. } => {
                if let Some(title) = title {
                    self.push(updates::title(title), &mut out);
                }
                if let Some(mode) = mode {
                    self.push(updates::current_mode(*mode), &mut out);
                }
            }
            event => {
                let notice = Notice::from_event(event);
                if let Some(notice) = notice.and_then(|notice| self.leave_out_shown(notice)) {
                    let id = format!("note_{}", envelope.seq);
                    let update = notice.into_update(self.options.shows_notices, &id);
                    self.push(update, &mut out);
                }
            }
        }
        // The first frame carries the bytes of the event.
        if let Some(Outgoing::Notification { permit, .. }) = out.first_mut()
            && permit.is_none()
        {
            *permit = envelope.permit.take();
        }
        out
    }

    /// Removes what was shown at a load: a turn gives its reasons once more, perhaps with others behind them.
    fn leave_out_shown(&self, mut notice: Notice) -> Option<Notice> {
        let shown = self.shown_notices.iter();
        let mut others = shown.filter_map(|shown| notice.title.strip_prefix(shown.as_str()));
        if let Some(others) = others.find(|others| others.is_empty() || others.starts_with("; ")) {
            notice.title = others.strip_prefix("; ")?.to_owned();
        }
        Some(notice)
    }

    /// Forgets the notes of earlier loads that are not among these, so that they are shown if they are true once more.
    pub(super) fn begin_notes(&mut self, notes: &[Notice]) {
        let titles = || notes.iter().map(|notice| &notice.title);
        self.shown_notices
            .retain(|shown| titles().any(|title| title == shown));
    }

    /// Shows something outside a turn: as a notice, or else when the next turn starts.
    pub(super) fn add_note(&mut self, notice: Notice) -> Vec<Outgoing> {
        let mut out = Vec::new();
        if self.options.shows_notices {
            self.push(notice.into_update(true, ""), &mut out);
        } else if self.shown_notices.insert(notice.title.clone()) {
            let Notice {
                title, description, ..
            } = notice;
            self.waiting.push(match description {
                Some(description) => format!("{title}\n{description}"),
                None => title,
            });
        }
        out
    }

    /// Holds the text of a message in progress, and calls, until the history is replayed. To be called before its snapshot
    /// is taken.
    pub(super) fn begin_replay(&mut self) {
        self.replays += 1;
        if let Some(held) = &mut self.in_progress {
            held.set_paused(true);
        }
    }

    /// Ends a replay: shows the calls that it left open, as they are now, and the message in progress from its beginning,
    /// if the client has seen some of it.
    pub(super) fn end_replay(&mut self, tail: &ReplayTail, now: Instant) -> Vec<Outgoing> {
        let mut out = Vec::new();
        self.replays = self.replays.saturating_sub(1);
        self.show_calls_after_replay(tail, now, &mut out);
        // What completed meanwhile was shown in full, and another replay that still runs shows the rest at its end.
        let Some(held) = self.in_progress.as_mut().filter(|_| self.replays == 0) else {
            return out;
        };
        held.set_paused(false);
        let message = held.message().clone();
        let partial = tail.partial.as_ref();
        let shown = partial.filter(|partial| partial.message == message && held.is_shown());
        let chunks = match shown {
            Some(partial) => {
                let rest = held.release_after((partial.text.len(), partial.reasoning.len()));
                let chunk = |kind, text: &str| Chunk {
                    kind,
                    text: text.to_owned(),
                    permit: None,
                };
                let beginning = [
                    chunk(ChunkKind::Thought, &partial.reasoning),
                    chunk(ChunkKind::Text, &partial.text),
                ];
                beginning.into_iter().chain(rest).collect()
            }
            None => held.release_if_due(now),
        };
        // The replay came between.
        self.last_chunk = None;
        self.show_chunks(&message, chunks, &mut out);
        out
    }

    fn complete_message(&mut self, message: &Message, out: &mut Vec<Outgoing>) {
        if message.role != Role::Assistant {
            return;
        }
        let held = match self.in_progress.take() {
            Some(held) if *held.message() == message.id && self.replays == 0 => held,
            // Nothing of it was streamed, or the replay lacks its beginning. Text of another message that never ended stays hidden.
            _ => HeldText::new(message.id.clone(), crate::base::clock::now(), Duration::ZERO),
        };
        if !message.hidden {
            self.show_chunks(&message.id, held.complete(message), out);
        }
    }

    fn retract(&mut self, message: &MessageId, out: &mut Vec<Outgoing>) {
        if self
            .in_progress
            .as_ref()
            .is_some_and(|held| held.message() == message)
        {
            self.in_progress = None;
        }
        if self.shown.remove(message) {
            let mut line =
                updates::text_chunk("agent_message_chunk", &format!("{message}_discarded"), DISCARDED);
            line["_meta"] = json!({"agentls": {"event": "messageRetracted", "messageId": message.as_str()}});
            self.push(line, out);
        }
    }

    /// Says what the stop reason of the answer cannot say. Text that belongs to no message is not shown.
    fn end_turn(&mut self, end: &TurnEnd, seq: u64, out: &mut Vec<Outgoing>) {
        self.in_progress = None;
        self.calls.clear();
        let line = match end.reason {
            TerminalReason::WallTime => "The time limit of the turn was reached.",
            TerminalReason::StoppedByUser => "The turn was stopped, as you chose.",
            TerminalReason::ServerStopped => "The agent was stopped before the turn ended.",
            _ => return,
        };
        let (id, text) = (format!("note_{seq}"), format!("\n\n> {line}\n"));
        self.push(updates::text_chunk("agent_message_chunk", &id, &text), out);
    }

    fn show_chunks(&mut self, message: &MessageId, chunks: Vec<Chunk>, out: &mut Vec<Outgoing>) {
        for mut chunk in chunks {
            self.shown.insert(message.clone());
            let text = strip_control_characters(&chunk.text).into_owned();
            let mut rest = text.as_str();
            while !rest.is_empty() {
                let piece = prefix_within(rest, MAX_CHUNK);
                rest = &rest[piece.len()..];
                self.show_chunk(message, chunk.kind, piece, chunk.permit.take(), out);
            }
        }
    }

    fn show_chunk(
        &mut self,
        message: &MessageId,
        kind: ChunkKind,
        text: &str,
        permit: Option<Permit>,
        out: &mut Vec<Outgoing>,
    ) {
        let key = (message.clone(), kind);
        if self.last_chunk.as_ref() != Some(&key) {
            // Not merged and not delayed: text and thoughts keep their order.
            self.last_chunk = Some(key);
            let update = updates::text_chunk(updates::chunk_name(kind), message.as_str(), text);
            return out.push(to_notification(&self.session, update, permit));
        }
        let quoted = |text: &str| Value::from(text).to_string();
        let escaped = quoted(text).into_bytes();
        let head = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":{},\"update\":{{\
             \"sessionUpdate\":\"{}\",\"messageId\":{},\"content\":{{\"type\":\"text\",\"text\":\"",
            quoted(&self.session),
            updates::chunk_name(kind),
            quoted(message.as_str()),
        );
        out.push(Outgoing::Mergeable {
            key: (hash_key((message.as_str(), kind)), hash_key(&self.session)),
            head: head.into_bytes(),
            text: escaped[1..escaped.len() - 1].to_vec(),
            tail: CHUNK_TAIL,
            permit,
        });
    }

    /// Announces the calls that a replay left open, so that later changes are updates of them. The last of several
    /// replays shows what else has changed meanwhile.
    fn show_calls_after_replay(&mut self, tail: &ReplayTail, now: Instant, out: &mut Vec<Outgoing>) {
        let mut held = self.held_calls.clone();
        // The replay has shown the others.
        held.retain(|_, (seq, _)| *seq > tail.seq);
        let mut shown = Vec::new();
        for call in &tail.open_calls {
            let call = match held.remove(&call.id) {
                Some((_, later)) => later.merge_earlier(call),
                None => call.clone(),
            };
            shown.push((call, true));
        }
        if self.replays == 0 {
            self.held_calls.clear();
            shown.extend(held.into_values().map(|(_, call)| (call, false)));
        }
        for (call, announces) in shown {
            self.show_call(&call, announces, out);
            let has_output = |view: &CallView| !view.output.is_empty();
            if !call.status.is_final() && self.calls.get(&call.id).is_some_and(has_output) {
                self.show_output(&call.id, now, out);
            }
        }
    }

    fn hold_call(&mut self, update: &ToolCallUpdate, seq: u64) {
        let update = match self.held_calls.get(&update.id) {
            Some((_, earlier)) => update.clone().merge_earlier(earlier),
            None => update.clone(),
        };
        self.held_calls.insert(update.id.clone(), (seq, update));
    }

    fn show_call(&mut self, update: &ToolCallUpdate, announces: bool, out: &mut Vec<Outgoing>) {
        let call = self.calls.entry(update.id.clone()).or_default();
        let is_new = !std::mem::replace(&mut call.is_announced, true) || announces;
        let mut shown = build_call(update, &mut call.diff, is_new, &self.options.cwd);
        self.options.name_paths(&mut shown);
        call.is_stale = false;
        self.push(shown, out);
    }

    fn show_output(&mut self, id: &ToolCallId, now: Instant, out: &mut Vec<Outgoing>) {
        let Some(call) = self.calls.get_mut(id) else {
            return;
        };
        call.shown_at = Some(now);
        call.is_stale = false;
        let permit = call.permit.take();
        let update = json!({
            "sessionUpdate": "tool_call_update",
            "toolCallId": id.as_str(),
            "content": [updates::text_content(&call.output)],
        });
        out.push(to_notification(&self.session, update, permit));
    }

    fn push(&mut self, update: Value, out: &mut Vec<Outgoing>) {
        self.last_chunk = None;
        out.push(to_notification(&self.session, update, None));
    }
}

impl CallView {
    fn add_output(&mut self, text: &str, permit: Option<Permit>) {
        self.output.push_str(text);
        if self.output.len() > 2 * MAX_OUTPUT {
            self.output = suffix_within(&self.output, MAX_OUTPUT).to_owned();
        }
        self.is_stale = true;
        match (&mut self.permit, permit) {
            (Some(mine), Some(other)) => mine.merge(other),
            (mine @ None, other) => *mine = other,
            (Some(_), None) => {}
        }
        // Without this, the command would wait for the next display to release the text outside the view.
        if let Some(permit) = &mut self.permit {
            permit.reduce_to(MAX_OUTPUT);
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        self.shown_at.is_none_or(|at| now >= at + OUTPUT_EVERY)
    }
}

/// Converts a change of a call. `diff` holds what an earlier change has shown, because content replaces content.
pub(super) fn build_call(update: &ToolCallUpdate, diff: &mut Vec<Value>, is_new: bool, cwd: &Path) -> Value {
    let mut shown = json!({
        "sessionUpdate": if is_new { "tool_call" } else { "tool_call_update" },
        "toolCallId": update.id.as_str(),
        "status": updates::tool_status(update.status),
    });
    // A later change may bring a better title, once the arguments are known.
    shown["title"] = strip_control_characters(&update.title).into_owned().into();
    if is_new {
        shown["kind"] = updates::tool_kind(&update.name).into();
    }
    if let Some(input) = update.input.as_deref().and_then(updates::raw_input) {
        shown["rawInput"] = input;
    }
    if !update.locations.is_empty() {
        shown["locations"] = updates::locations(&update.locations).into();
    }
    if let Some(text) = &update.diff {
        *diff = updates::diff_content(text, &update.locations, cwd);
    }
    let mut content = diff.clone();
    if let Some(result) = &update.result {
        // Of a change that was made, the diff says everything.
        if content.is_empty() || result.is_error {
            content.extend(updates::result_content(result));
        }
    }
    if !content.is_empty() && (update.diff.is_some() || update.result.is_some()) {
        shown["content"] = content.into();
    }
    let mut meta = json!({"tool": update.name, "status": update.status.name()});
    if let Some(parent) = &update.parent {
        meta["parentToolCallId"] = parent.as_str().into();
    }
    if let Some(code) = update.exit_code {
        meta["exitCode"] = code.into();
    }
    shown["_meta"] = json!({"agentls": meta});
    shown
}

#[cfg(test)]
#[path = "feed_tests.rs"]
mod tests;
