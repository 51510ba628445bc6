//! Renders a session at a terminal: notifications in, text on the screen out.
//!
//! Knows the protocol and the [`Screen`]; it reads no keys and sends nothing. It shows each event once, by its `seq`.
//! Deltas are provisional: the completed message alone counts, and replaces a different text on the screen.

mod recovery;

use std::collections::HashMap;

use super::blocks;
use super::changes::Changes;
use super::inquiry::{self, InquiryLines};
use super::live_area::{Activity, LiveArea};
use super::markdown::Markdown;
use super::notification::{extract_message_text, is_cut, join_text_blocks, read_seq};
use super::recent_calls::RecentCalls;
use super::screen::{Screen, StatusMark};
use super::style::{Color, clean_line, cost_of_use, format_duration, format_tokens, hang_lines, wrap_text};
use crate::base::clock::{self, Instant};
use crate::base::text;
use crate::protocol::{
    ApprovalRequestedNotification, ApprovalResolvedNotification, ChangeState, Decision, MessageNotification,
    MessageRetractedNotification, Role, ServerNotification, SessionUpdatedNotification, SettledBy,
    TerminalReason, ToolCallNotification, ToolCallStatus, TransitionNotification, TransitionReason,
    TurnAsker, TurnDiffNotification, TurnEndedNotification, TurnState, UsageNotification,
};

/// Reasoning that took less is not worth a line.
const NOTABLE_THOUGHT_MS: u64 = 100;

/// A message whose deltas are still arriving.
struct OpenEntry {
    id: String,
    from: StatusMark,
    markdown: Markdown,
    text: String,
}

/// The rendered state of one session.
pub(super) struct View {
    pub(super) screen: Screen,
    open: Option<OpenEntry>,
    /// Reasoning in progress: its start and the end of its text.
    reasoning: Option<(Instant, String)>,
    /// Diffs that an approval showed, by call id, so that the result does not repeat them.
    shown_diffs: HashMap<String, String>,
    /// The subjects of open approvals, by approval id.
    subjects: HashMap<String, String>,
    pub(super) live: LiveArea,
    /// The row where the block of the last question begins.
    block_row: u64,
    usage: Option<UsageNotification>,
    /// Old events are being shown: no activity, no live hints.
    replay: bool,
    /// Progress only: the agent's text is printed elsewhere.
    progress_only: bool,
    /// The `seq` of the last event shown.
    seq: u64,
    /// The model that was last reported.
    model: Option<String>,
    /// The id and text of the last message shown in full.
    last: Option<(String, String)>,
    /// Nesting depth of sub-agents' calls, by call id.
    depths: HashMap<String, usize>,
    /// The titles of the calls that started sub-agents, by the ids of the sub-agents' calls.
    askers: HashMap<String, String>,
    /// The titles of the calls that start sub-agents, by id.
    delegations: HashMap<String, String>,
    /// Notes that arrived in the middle of a message.
    pending_notes: Vec<(Color, String)>,
    changes: Changes,
    pub(super) calls: RecentCalls,
    /// How many prompts are queued; 0 while the queue is paused.
    pub(super) waiting: usize,
    /// The queue as last reported: its length, and whether it is paused.
    last_queue_state: (usize, bool),
    /// The running turn came from the queue.
    pub(super) queued: bool,
    /// The next user message is the prompt of a queued turn.
    begins_queued: bool,
}

impl View {
    pub(super) fn new(screen: Screen) -> Self {
        Self {
            screen,
            open: None,
            reasoning: None,
            shown_diffs: HashMap::new(),
            subjects: HashMap::new(),
            live: LiveArea::new(),
            block_row: 0,
            usage: None,
            replay: false,
            progress_only: false,
            seq: 0,
            model: None,
            last: None,
            depths: HashMap::new(),
            askers: HashMap::new(),
            delegations: HashMap::new(),
            pending_notes: Vec::new(),
            changes: Changes::default(),
            calls: RecentCalls::default(),
            waiting: 0,
            last_queue_state: (0, false),
            queued: false,
            begins_queued: false,
        }
    }

    /// Returns the file changes of the session's turns.
    pub(super) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Omits the agent's text, and reports everything else in single lines.
    pub(super) fn only_progress(&mut self) {
        self.progress_only = true;
        self.screen.disable_gaps();
    }

    /// Returns the last `agent/usage`.
    pub(super) fn usage(&self) -> Option<&UsageNotification> {
        self.usage.as_ref()
    }

    /// Returns the `seq` of the last event shown.
    pub(super) fn last_seq(&self) -> u64 {
        self.seq
    }

    /// Switches to another session, and skips its events up to `seq`.
    pub(super) fn begin_session(&mut self, seq: u64) {
        self.set_idle();
        self.seq = seq;
        self.usage = None;
        (self.changes, self.queued) = (Changes::default(), false);
        self.calls.clear();
        (self.waiting, self.last_queue_state) = (0, (0, false));
    }

    /// Records a model that was reported elsewhere, so that the next event does not repeat it.
    pub(super) fn set_known_model(&mut self, model: Option<&str>) {
        self.model = model.map(str::to_owned);
    }

    /// Shows stored events.
    pub(super) fn replay_events(&mut self, events: impl IntoIterator<Item = ServerNotification>) {
        self.replay = true;
        for event in events {
            self.handle_event(&event);
        }
        self.replay = false;
        self.set_idle();
    }

    /// Shows a prompt of the user.
    pub(super) fn show_prompt(&mut self, prompt: &str) {
        let styler = self.screen.styler;
        self.screen.write_gap();
        let width = self.screen.width() - 2;
        for (mark, line) in hang_lines(&text::strip_control_characters(prompt), width, "›") {
            let mark = styler.paint_text(Color::BoldCyan, mark);
            let line = format!("{mark} {}", styler.paint_text(Color::Bold, &line));
            self.screen.write_line(line.trim_end());
        }
        self.screen.write_gap();
    }

    /// Shows a side note. While a message is being written, the note waits for its end.
    pub(super) fn show_note(&mut self, ink: Color, text: &str) {
        if self.open.is_some() {
            return self.pending_notes.push((ink, text.to_owned()));
        }
        let rendered = blocks::render_note(self.screen.styler, self.screen.width(), ink, text);
        self.screen.fresh_line();
        self.screen.write(&rendered);
    }

    /// Shows in the status line what the user has just sent, until [`Self::show_sent`] has a place for it.
    pub(super) fn begin_sending(&mut self, text: &str) {
        self.live.sent_lines.push(text);
        self.set_draft("");
    }

    /// Shows that the server has what the user sent.
    pub(super) fn show_sent(&mut self, text: &str) {
        self.show_note(Color::Cyan, &format!("› {text}"));
        self.live.sent_lines.accept(text, self.open.is_none());
        self.refresh_status();
    }

    /// Removes from the status line what the user sent.
    pub(super) fn forget_sent(&mut self, text: &str) {
        self.live.sent_lines.remove(text);
        self.refresh_status();
    }

    /// Shows a problem as a side note.
    pub(super) fn show_warning(&mut self, text: impl AsRef<str>) {
        self.show_note(Color::Yellow, text.as_ref());
    }

    /// Shows a fact or a hint as a side note.
    pub(super) fn show_hint(&mut self, text: impl AsRef<str>) {
        self.show_note(Color::Dim, text.as_ref());
    }

    /// Shows a note; one of a sub-agent is indented under the call that started it.
    fn show_note_under(&mut self, parent: Option<&String>, ink: Color, text: &str) {
        match parent {
            Some(parent) => {
                let indent = self.format_indent(parent);
                self.show_note(ink, &format!("{indent}{text}"));
            }
            None => self.show_note(ink, text),
        }
    }

    /// Returns the prefix for lines of the sub-agent that the call `parent` started.
    fn format_indent(&self, parent: &str) -> String {
        let depth = self.depths.get(parent).copied().unwrap_or_default();
        format!("{}↳ ", "  ".repeat(depth + 1))
    }

    /// Writes a rendered block with a blank line before and after it.
    pub(super) fn show_block(&mut self, block: &str) {
        self.screen.write_gap();
        self.screen.write(block);
        self.screen.write_gap();
    }

    /// Shows the line being typed.
    pub(super) fn set_draft(&mut self, draft: &str) {
        self.live.set_draft(draft, false);
        self.refresh_status();
    }

    /// Shows what is typed into a field of the open question.
    pub(super) fn set_field(&mut self, typed: &str) {
        self.live.set_draft(typed, true);
        self.refresh_status();
    }

    /// Asks what was just shown: its keys stay below the log. A dumb terminal gets them in the log.
    pub(super) fn ask(&mut self, head: Vec<String>, keys: String) {
        self.screen.fresh_line();
        if !self.screen.has_status() {
            self.screen.write_line(&keys);
        }
        let height = self.screen.row().saturating_sub(self.block_row) as usize + keys.lines().count() + 2;
        let needs_head = height > self.screen.height();
        self.live.open_question(head, keys, self.screen.row(), needs_head);
        self.refresh_status();
    }

    /// Returns the lines of an approval for below the log, with `waiting` more behind it.
    pub(super) fn question_head(
        &self,
        approval: &ApprovalRequestedNotification,
        waiting: usize,
    ) -> Vec<String> {
        let asker = self.find_asker(&approval.tool_call_id);
        let (styler, width) = (self.screen.styler, self.screen.width());
        blocks::question_head(styler, width, approval, asker.as_deref(), waiting)
    }

    /// Returns whether only the progress is shown.
    pub(super) fn is_progress_only(&self) -> bool {
        self.progress_only
    }

    /// Ends the question that keys answer.
    pub(super) fn close_question(&mut self) {
        self.live.close_question();
        self.refresh_status();
    }

    /// Returns who asks for a call, unless it is the agent of the session.
    pub(super) fn find_asker(&self, call: &str) -> Option<String> {
        let title = self.askers.get(call)?;
        let title = title.strip_prefix("Delegate").unwrap_or(title);
        Some(format!("a sub-agent ({})", title.trim_start_matches([':', ' '])))
    }

    /// Shows what the model does in the status line.
    pub(super) fn wait_for_model(&mut self, activity: &str) {
        self.set_activity(Activity::Model(activity.to_owned()));
    }

    /// Shows an activity in the status line.
    pub(super) fn wait_for(&mut self, activity: &str) {
        self.set_activity(Activity::Waiting(activity.to_owned()));
    }

    /// Ends the open message and clears the status line.
    pub(super) fn set_idle(&mut self) {
        self.close_open();
        self.live.sent_lines.clear();
        self.live.close_question();
        self.live.set_draft("", false);
        self.set_activity(Activity::Nothing);
        self.screen.set_status("");
    }

    /// Redraws the status lines.
    pub(super) fn refresh_status(&mut self) {
        if self.screen.is_terminal() {
            let (styler, width) = (self.screen.styler, self.screen.width());
            let status = self.live.render(styler, width, self.screen.row());
            self.screen.set_status(&status);
        }
    }

    fn set_activity(&mut self, doing: Activity) {
        if !self.replay {
            self.live.set_activity(doing);
            self.refresh_status();
        }
    }

    /// Shows an event. Returns false if it was shown before.
    pub(super) fn handle_event(&mut self, event: &ServerNotification) -> bool {
        if let Some(seq) = read_seq(event) {
            if seq <= self.seq {
                return false;
            }
            self.seq = seq;
        }
        self.live.note_message();
        self.show_event(event);
        // The question's own block is no longer the end of the log.
        self.refresh_status();
        true
    }

    fn show_event(&mut self, event: &ServerNotification) {
        use ServerNotification as N;
        match event {
            N::TurnStarted(started) => {
                self.queued = started.by == Some(TurnAsker::Queue) && !self.replay;
                self.begins_queued = self.queued;
                self.wait_for_model("thinking");
            }
            N::TurnEnded(ended) => self.turn_ended(ended),
            N::TextDelta(delta) => self.text(&delta.message_id, delta.offset, &delta.text),
            N::ReasoningDelta(delta) => self.show_reasoning(&delta.text),
            N::Message(message) => self.show_message(message),
            N::MessageRetracted(retracted) => self.show_retraction(retracted),
            N::ToolInputDelta(delta) => self.wait_for_model(&format!("writing a call of {}", delta.name)),
            N::ToolOutputDelta(delta) => {
                if let Some(line) = delta.text.trim_end().lines().next_back() {
                    let line = text::strip_control_characters(line).into_owned();
                    self.live.describe_activity(Activity::Waiting(line));
                    self.refresh_status();
                }
            }
            N::ToolCall(call) => self.tool_call(call),
            N::ApprovalRequested(_) | N::LimitRequested(_) | N::QuestionRequested(_) => {}
            N::LimitResolved(resolved) => self.show_settlement(inquiry::limit_settled(resolved)),
            N::QuestionResolved(resolved) => self.show_settlement(inquiry::question_settled(resolved)),
            N::ApprovalResolved(resolved) => self.show_resolution(resolved),
            N::Plan(plan) => {
                let plan = blocks::render_plan(self.screen.styler, self.screen.width(), &plan.items);
                self.show_block(&plan);
            }
            N::Transition(transition) => self.show_transition(transition),
            // In a replay, these waits are long over.
            N::Retry(_) | N::Wait(_) if self.replay => {}
            N::Retry(retry) => self.show_retry(retry),
            N::Wait(wait) => self.show_wait(wait),
            N::Compacted(compacted) => {
                let before = format_tokens(compacted.tokens_before);
                let after = format_tokens(compacted.tokens_after);
                let line = format!("⊟ compacted the context: {before} → {after} tokens");
                self.show_note_under(compacted.parent_tool_call_id.as_ref(), Color::Dim, &line);
            }
            N::ModelSwitched(switched) => self.show_model_switch(switched),
            N::Circuit(circuit) => self.show_circuit(circuit),
            N::Usage(usage) => self.usage = Some(usage.clone()),
            N::Warning(warning) => {
                let parent = warning.parent_tool_call_id.as_ref();
                self.show_note_under(parent, Color::Yellow, &format!("! {}", warning.message));
            }
            N::SessionUpdated(updated) => self.show_session_update(updated),
            N::TurnDiff(diff) => self.turn_diff(diff),
            N::Instructions(instructions) => self.show_hint(blocks::describe_instructions(instructions)),
            N::McpServerUpdated(_) | N::Status(_) => {}
        }
    }

    fn show_session_update(&mut self, updated: &SessionUpdatedNotification) {
        if let Some(queue) = &updated.queue {
            self.show_queue(queue.prompts.len(), queue.paused);
        }
        if updated.model.is_none() || updated.model == self.model {
            return;
        }
        self.model.clone_from(&updated.model);
        if let (Some(model), false) = (&updated.model, self.replay) {
            self.show_hint(format!("model: {model}"));
        }
    }

    /// Reports the queue in one line, if it changed.
    pub(super) fn show_queue(&mut self, count: usize, is_paused: bool) {
        let before = std::mem::replace(&mut self.last_queue_state, (count, is_paused));
        self.waiting = if is_paused { 0 } else { count };
        if self.replay || count == 0 || before == (count, is_paused) {
            return;
        }
        let label = match count {
            1 => "1 queued prompt".to_owned(),
            count => format!("{count} queued prompts"),
        };
        if is_paused {
            self.show_warning(format!("{label} paused; /queue send runs the next"))
        } else {
            self.show_hint(format!("{label} until the turn ends"))
        }
    }

    /// Summarizes a turn's changed files in one line.
    fn turn_diff(&mut self, diff: &TurnDiffNotification) {
        self.changes.record_diff(diff);
        let count = diff.files.len() as u64 + diff.unlisted.unwrap_or_default();
        let files = match count {
            1 => "1 file".to_owned(),
            count => format!("{count} files"),
        };
        let action = match diff.standing {
            ChangeState::Made => {
                let added: u64 = diff.files.iter().map(|file| file.added).sum();
                let removed: u64 = diff.files.iter().map(|file| file.removed).sum();
                format!("changed (+{added} −{removed} lines)")
            }
            ChangeState::Reverted => "reverted".to_owned(),
            ChangeState::Redone => "redone".to_owned(),
        };
        self.show_hint(format!("{files} {action}"));
    }

    /// Shows an approval without its keys. Returns whether the text was shortened.
    pub(super) fn show_approval(&mut self, approval: &ApprovalRequestedNotification, show_all: bool) -> bool {
        // The keys of the question before are void.
        self.close_question();
        self.end_reasoning();
        self.set_activity(Activity::Nothing);
        if let Some(diff) = &approval.diff {
            self.shown_diffs
                .insert(approval.tool_call_id.clone(), diff.clone());
        }
        let subject = blocks::question_subject(approval);
        self.subjects.insert(approval.approval_id.clone(), subject);
        let (question, cut) =
            blocks::render_approval(self.screen.styler, self.screen.full_width(), approval, show_all);
        self.screen.write_gap();
        self.block_row = self.screen.row();
        if let Some(asker) = self.find_asker(&approval.tool_call_id) {
            self.show_note(Color::Yellow, &format!("↳ {asker} asks:"));
        }
        self.screen.write(&question);
        cut
    }

    fn text(&mut self, id: &str, offset: u64, piece: &str) {
        if self.progress_only {
            return self.wait_for_model("answering");
        }
        self.end_reasoning();
        if self.open.as_ref().is_none_or(|open| open.id != id) {
            self.close_open();
            self.screen.write_gap();
            let from = self.screen.mark_line();
            self.open = Some(OpenEntry {
                id: id.to_owned(),
                from,
                markdown: Markdown::new(self.screen.styler, self.screen.width(), self.screen.full_width()),
                text: String::new(),
            });
        }
        // Text may stall: then something must move, and say how to stop.
        self.set_activity(Activity::Answering);
        self.refresh_status();
        let Some(open) = &mut self.open else { return };
        // A delta that does not continue the text is dropped; the completed message repairs the gap.
        if open.text.len() as u64 == offset {
            open.text.push_str(piece);
            let rendered = open.markdown.push(piece);
            self.screen.write(&rendered);
        }
    }

    fn show_reasoning(&mut self, piece: &str) {
        let (_, tail) = self
            .reasoning
            .get_or_insert_with(|| (clock::now(), String::new()));
        tail.push_str(piece);
        let keep = tail.ceil_char_boundary(tail.len().saturating_sub(400));
        tail.drain(..keep);
        let line = clean_line(tail, 400);
        let available = self.screen.width().saturating_sub(36);
        let skip = line.chars().count().saturating_sub(available);
        let line: String = line.chars().skip(skip).collect();
        self.live
            .describe_activity(Activity::Model(format!("thinking … {line}")));
        self.refresh_status();
    }

    fn end_reasoning(&mut self) {
        if let Some((since, _)) = self.reasoning.take() {
            let took = clock::now().saturating_duration_since(since).as_millis() as u64;
            if took >= NOTABLE_THOUGHT_MS {
                self.screen.write_gap();
                self.show_hint(format!("✻ thought for {}", format_duration(took)));
            }
        }
    }

    fn close_open(&mut self) {
        if let Some(mut open) = self.open.take() {
            let rest = open.markdown.finish();
            self.screen.write(&rest);
            // The completed message follows; without this it would be shown again.
            self.last = Some((open.id, open.text));
        }
        for (ink, text) in std::mem::take(&mut self.pending_notes) {
            self.show_note(ink, &text);
            self.live
                .sent_lines
                .accept(text.strip_prefix("› ").unwrap_or(&text), true);
        }
    }

    fn show_message(&mut self, message: &MessageNotification) {
        if message.hidden {
            return;
        }
        let message_text = extract_message_text(message);
        match message.role {
            // The user typed a live prompt on this screen; replayed and queued ones must be shown.
            Role::User if self.replay || std::mem::take(&mut self.begins_queued) => {
                self.show_prompt(&message_text)
            }
            Role::User => self
                .live
                .sent_lines
                .note_read(&join_text_blocks(&message.content)),
            Role::Tool => {}
            Role::Assistant if self.progress_only => self.wait_for_model("thinking"),
            Role::Assistant => {
                if !self.has_shown(message, &message_text) {
                    match self.open.take_if(|open| open.id == message.message_id) {
                        Some(open) => {
                            self.screen.erase_to(open.from);
                        }
                        None => self.close_open(),
                    }
                    self.text(&message.message_id, 0, &message_text);
                }
                self.close_open();
                self.end_reasoning();
                self.wait_for_model("thinking");
            }
        }
    }

    /// Returns whether the screen already shows the message, except for parts that were held back.
    fn has_shown(&self, message: &MessageNotification, message_text: &str) -> bool {
        let open = self.open.as_ref().map(|open| (&open.id, &open.text));
        let last = self.last.as_ref().map(|(id, text)| (id, text));
        let of_this = |entry: &(&String, &String)| *entry.0 == message.message_id;
        match open.filter(of_this).or(last.filter(of_this)) {
            None => message_text.is_empty(),
            // After a crash, less of the message may be stored than was shown.
            Some((_, text)) => {
                text == message_text
                    || is_cut(message)
                    || message.incomplete && text.starts_with(message_text)
            }
        }
    }

    fn show_retraction(&mut self, retracted: &MessageRetractedNotification) {
        self.reasoning = None;
        let open = self.open.take_if(|open| open.id == retracted.message_id);
        if self.progress_only {
            return self.show_warning("↺ discarded a broken answer: the connection dropped; retrying");
        }
        let Some(mut open) = open else { return };
        // Lines that scrolled away cannot be erased; then only the note below retracts the text.
        let words = if self.screen.erase_to(open.from) {
            blocks::render_note(self.screen.styler, self.screen.width(), Color::Struck, &open.text)
        } else {
            open.markdown.finish()
        };
        self.screen.write(&words);
        self.show_warning("↺ discarded: the connection dropped; retrying");
    }

    fn tool_call(&mut self, call: &ToolCallNotification) {
        if let Some(parent) = &call.parent_tool_call_id {
            let depth = self.depths.get(parent).copied().unwrap_or_default() + 1;
            self.depths.insert(call.tool_call_id.clone(), depth);
            if let Some(title) = self.delegations.get(parent) {
                self.askers.insert(call.tool_call_id.clone(), title.clone());
            }
        }
        if call.name == "delegate" {
            self.delegations
                .insert(call.tool_call_id.clone(), call.title.clone());
        }
        match call.status {
            // The log is append-only, so a call gets its lines when it ends.
            ToolCallStatus::Pending | ToolCallStatus::AwaitingApproval => return,
            // The notifications of its sub-agents follow, so the call gets a line of its own.
            ToolCallStatus::Running if call.name == "delegate" => {
                let line = format!("⑂ {}", call.title);
                self.show_note_under(call.parent_tool_call_id.as_ref(), Color::Dim, &line);
                return self.wait_for(&call.title);
            }
            ToolCallStatus::Running => return self.wait_for(&call.title),
            ToolCallStatus::Completed
            | ToolCallStatus::Failed
            | ToolCallStatus::Denied
            | ToolCallStatus::Cancelled => {}
        }
        self.calls.record_output(call);
        // The plan itself is already on the screen.
        if call.name == "update_plan" && call.status == ToolCallStatus::Completed {
            return;
        }
        let shown_diff = self.shown_diffs.remove(&call.tool_call_id);
        if self.progress_only || call.parent_tool_call_id.is_some() {
            self.show_call_line(call);
        } else {
            // Only the same diff is left out: the user may have edited the input after the approval showed it.
            let diff_was_shown = shown_diff.is_some() && shown_diff == call.diff;
            let (styler, width, hint) = (self.screen.styler, self.screen.full_width(), self.calls.hint);
            let block = blocks::tool_call(styler, width, call, diff_was_shown, hint);
            if diff_was_shown {
                self.screen.fresh_line();
            } else {
                self.screen.write_gap();
            }
            self.screen.write(&block);
            self.screen.write_gap();
        }
        self.wait_for_model("thinking");
    }

    /// Shows an ended call in one line, and why it failed below it.
    fn show_call_line(&mut self, call: &ToolCallNotification) {
        let parent = call.parent_tool_call_id.as_deref();
        let indent = parent.map_or_else(String::new, |parent| self.format_indent(parent));
        let available = self.screen.full_width().saturating_sub(indent.chars().count());
        let line = blocks::tool_line(self.screen.styler, available, call);
        self.screen.fresh_line();
        self.screen.write(&format!("{indent}{line}"));
        if call.status == ToolCallStatus::Failed {
            for line in blocks::last_lines(self.screen.styler, available.saturating_sub(2), call) {
                self.screen.write_line(&format!("{indent}  {line}"));
            }
        }
    }

    /// Shows a limit or a question. `is_new` if its text is not in the log yet.
    pub(super) fn show_inquiry(&mut self, lines: &InquiryLines, is_new: bool) {
        self.close_question();
        self.end_reasoning();
        self.set_activity(Activity::Nothing);
        let width = self.screen.width();
        if is_new {
            self.screen.write_gap();
            self.block_row = self.screen.row();
            for line in &lines.head {
                self.screen.write_entry("", 0, line);
            }
        }
        let is_long = lines.body.lines().count() + lines.head.len() + 4 > self.screen.height();
        let body = if is_long && self.screen.has_status() {
            self.screen.write_line(&lines.body);
            lines.body.lines().next_back().unwrap_or_default().to_owned()
        } else {
            lines.body.clone()
        };
        let ink = |line: &String| self.screen.styler.paint_text(Color::BoldYellow, line);
        let head: Vec<String> = lines
            .head
            .iter()
            .flat_map(|line| wrap_text(line, width))
            .collect();
        self.ask(head.iter().map(ink).collect(), body);
    }

    fn show_settlement(&mut self, (ink, line): (Color, String)) {
        if self.replay {
            return;
        }
        self.screen.write_gap();
        self.show_note(ink, &line);
        self.wait_for_model("thinking");
    }

    fn show_resolution(&mut self, resolved: &ApprovalResolvedNotification) {
        let subject = self.subjects.remove(&resolved.approval_id);
        if self.replay {
            return;
        }
        let (ink, line) = blocks::approval_settled(resolved, subject.as_deref());
        // A call that the user denied says so in its own line.
        if resolved.decision != Decision::Deny || resolved.by != SettledBy::Person {
            self.screen.write_gap();
            self.show_note(ink, &line);
        }
    }

    fn show_transition(&mut self, transition: &TransitionNotification) {
        if self.replay {
            return;
        }
        let reason = match transition.reason {
            TransitionReason::Continue(reason) => reason,
            // A compaction says why it changes nothing.
            TransitionReason::Terminal(TerminalReason::Completed) => {
                if let Some(detail) = &transition.detail {
                    self.show_note(Color::Dim, detail);
                }
                return;
            }
            TransitionReason::Terminal(_) => return,
        };
        let Some(label) = blocks::continue_reason(reason) else {
            return;
        };
        let parent = transition.parent_tool_call_id.as_ref();
        self.show_note_under(parent, Color::Dim, &format!("⟳ {label}"));
    }

    fn turn_ended(&mut self, ended: &TurnEndedNotification) {
        self.queued = false;
        self.close_open();
        self.end_reasoning();
        self.set_idle();
        self.screen.write_gap();
        match ended.state {
            TurnState::Completed | TurnState::Failed | TurnState::Degraded => {}
            TurnState::Cancelled => self.show_warning("■ canceled"),
            TurnState::Interrupted => self.show_warning("■ interrupted (/resume continues)"),
        }
        let is_reported = !matches!(ended.state, TurnState::Completed | TurnState::Cancelled);
        if let Some(error) = ended.error.as_ref().filter(|_| is_reported) {
            let mut error = error.clone();
            // Only `agentls run` has these options.
            if let Some(action) = error.user_action.as_mut().filter(|_| self.progress_only) {
                *action = action
                    .replace("raise max_steps", "raise --max-steps, or max_steps")
                    .replace("raise max_turn_cost", "raise --max-cost, or max_turn_cost");
            }
            let card = blocks::error_card(self.screen.styler, self.screen.width(), &error);
            self.screen.write(&card);
        }
        let usage = &ended.usage;
        let read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
        // A turn that called no model has nothing to count.
        if read + usage.output_tokens > 0 && !self.replay {
            let (read, written) = (format_tokens(read), format_tokens(usage.output_tokens));
            let cost = cost_of_use(ended.cost_usd);
            let context = self.usage.as_ref().filter(|usage| usage.context_window > 0);
            let percent = context.map(|usage| usage.context_used * 100 / usage.context_window);
            let context = match percent {
                None => String::new(),
                Some(0) => " · context under 1%".to_owned(),
                Some(percent) => format!(" · context {percent}%"),
            };
            self.show_hint(format!("{read} tokens in, {written} out · {cost}{context}"));
        }
        self.screen.write_gap();
    }
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
