//! A session's state as a fold over its events: the same live, on load and in tests.
//!
//! Pure: [`SessionState::apply`] must give the same result for a live and a replayed event. The actor decides what to
//! record.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::command::SessionChoice;
use super::counts::EventCounts;
use crate::context::History;
use crate::domain::{
    Approval, ApprovalId, Block, ChangeState, CircuitState, CircuitSubject, Cost, Event, ForeignContent,
    Inquiry, InquiryId, InquiryReply, InstructionFile, LimitName, Message, OpenApproval, OpenInquiry,
    PlanItem, RequestSubject, Role, TerminalReason, ToolCallId, ToolCallStatus, ToolCallUpdate, TurnId,
    TurnState, TurnTrigger, Usage,
};
use crate::mcp::server_of_tool;
use crate::provider::Effort;
use crate::store::{SessionRow, StoredEvent};
use crate::tool;
use crate::turn::{COMPACTION_FAILED, MODEL_CHOSEN, UNKNOWN_PRICE};

/// Everything that follows from a session's events.
#[derive(Debug, Default)]
pub struct SessionState {
    /// What the model sees.
    pub history: History,
    pub open: OpenWork,
    pub turns: TurnRecord,
    pub choice: SessionChoice,
    pub route: RouteRecord,
    pub spending: SessionSpending,
    pub plan: Vec<PlanItem>,
    pub counts: EventCounts,
    /// Files restored since the model last spoke, and how.
    pub restored_files: Vec<(ChangeState, String)>,
    /// The queue is paused, because the last turn did not complete.
    pub queue_paused: bool,
    /// Where content from outside that has reached the model came from.
    pub foreign_content: ForeignContent,
    /// The instruction files of the last turn; `None` before the first turn that had any.
    pub instructions: Option<Arc<[InstructionFile]>>,
}

/// Questions and calls that have no answer or result yet.
#[derive(Debug, Default)]
pub struct OpenWork {
    /// In the order in which they were first asked.
    pub approvals: Vec<OpenApproval>,
    /// In the order in which they were first asked.
    pub inquiries: Vec<OpenInquiry>,
    /// Tool calls without a final status.
    pub calls: BTreeMap<ToolCallId, ToolCallUpdate>,
}

/// The open turn, and how earlier ones ended.
#[derive(Debug, Default)]
pub struct TurnRecord {
    pub open_turn: Option<TurnId>,
    /// Usage and cost of the open turn.
    pub turn_spent: (Usage, Option<Cost>),
    /// The open turn, or the last one, is a compaction, which cannot be resumed.
    pub is_compaction: bool,
    /// The last turn that ended, and why. Compactions do not count.
    pub last_end: Option<(TurnId, TerminalReason)>,
    /// Compactions that failed in a row.
    pub failed_compactions: u32,
}

/// Which models and providers answered.
#[derive(Debug, Default)]
pub struct RouteRecord {
    /// The model that answered last, as `provider/model`, if there was a switch.
    pub answering: Option<String>,
    /// Providers whose circuits were last announced as not closed.
    pub open_circuits: BTreeSet<String>,
}

/// The tokens and the money of a session.
#[derive(Debug, Default)]
pub struct SessionSpending {
    pub usage: Usage,
    /// `None` before the first call, and once a call's cost was unknown.
    pub cost: Option<Cost>,
    /// The sum over all calls whose price is known.
    pub known_cost: Cost,
    /// By how much the user has raised the session's limit.
    pub raised: Cost,
    /// Models that the user allowed although their price is unknown.
    pub accepted_unpriced: BTreeSet<String>,
    /// The unknown price was announced.
    pub warned_unpriced: bool,
    /// Tokens in use and size of the model's window, as last announced.
    pub context: (u64, u64),
}

impl SessionState {
    /// Starts with what a session's row says.
    pub(super) fn from_row(row: &SessionRow) -> Self {
        let mut state = Self::default();
        state.take_row(row);
        state
    }

    /// Takes over what a session's row says.
    pub(super) fn take_row(&mut self, row: &SessionRow) {
        self.choice.title.clone_from(&row.title);
        self.choice.mode = row.mode;
        self.choice.model.clone_from(&row.model);
        self.choice.bare_model.clone_from(&row.bare_model);
        self.choice.effort = row.effort.as_deref().and_then(Effort::from_name);
        self.spending.usage = row.usage;
        self.spending.cost = row.cost;
        self.turns.open_turn.clone_from(&row.open_turn);
    }

    /// Takes over how the last turn ended, without the events before it.
    pub(super) fn take_last_end(&mut self, stored: Option<StoredEvent>) {
        self.turns.last_end = stored.and_then(|stored| match (stored.turn, stored.event) {
            (Some(turn), Event::TurnEnded(end)) => {
                self.queue_paused = !matches!(end.state, TurnState::Completed | TurnState::Degraded);
                Some((turn, end.reason))
            }
            _ => None,
        });
    }

    /// Folds an event into the state.
    pub fn apply(&mut self, stored: &StoredEvent) {
        let StoredEvent {
            seq,
            turn,
            at_ms,
            event,
        } = stored;
        self.counts.apply(*seq, event);
        self.history.apply(event);
        match event {
            Event::TurnStarted { by, .. } => {
                self.turns.open_turn.clone_from(turn);
                self.turns.is_compaction = *by == TurnTrigger::Compact;
                self.turns.turn_spent = Default::default();
            }
            Event::TurnEnded(end) => {
                // R-CANCEL: a turn that did not complete pauses the queue.
                self.queue_paused = !matches!(end.state, TurnState::Completed | TurnState::Degraded);
                if let Some(turn) = self.turns.open_turn.take().or_else(|| turn.clone())
                    && !self.turns.is_compaction
                {
                    self.turns.last_end = Some((turn, end.reason));
                }
            }
            Event::ToolCall(update) => self.tool_call(update),
            Event::ApprovalRequested(approval) => {
                let opened = OpenApproval {
                    approval: approval.clone(),
                    seq: *seq,
                    turn: turn.clone(),
                    at_ms: *at_ms,
                };
                // An approval that is asked again keeps its position, as in the store.
                let known = |open: &&mut OpenApproval| open.approval.id == approval.id;
                match self.open.approvals.iter_mut().find(known) {
                    Some(open) => *open = opened,
                    None => self.open.approvals.push(opened),
                }
            }
            Event::ApprovalResolved { approval, .. } => {
                self.open.approvals.retain(|open| open.approval.id != *approval);
            }
            Event::InquiryRequested(inquiry) => {
                let opened = OpenInquiry {
                    inquiry: inquiry.clone(),
                    seq: *seq,
                    turn: turn.clone(),
                    at_ms: *at_ms,
                };
                let known = |open: &&mut OpenInquiry| open.inquiry.id == inquiry.id;
                match self.open.inquiries.iter_mut().find(known) {
                    Some(open) => *open = opened,
                    None => self.open.inquiries.push(opened),
                }
            }
            Event::InquiryResolved { inquiry, reply, .. } => {
                self.apply_limit_reply(inquiry, reply);
                self.open.inquiries.retain(|open| open.inquiry.id != inquiry.id);
            }
            Event::TurnDiff(diff) if diff.state != ChangeState::Made => {
                let files = diff.files.iter().map(|file| (diff.state, file.path.clone()));
                self.restored_files.extend(files);
            }
            Event::Message(message) if has_server_content(message) => self.add_server_content(message),
            // When the model speaks, it has read the note about restored files.
            Event::Message(message) if message.role == Role::Assistant => self.restored_files.clear(),
            Event::TurnDiff(_) => {}
            Event::QueueChanged(queue) => self.queue_paused = queue.paused,
            Event::Plan { items } => self.plan.clone_from(items),
            Event::Usage {
                step,
                turn,
                session,
                turn_cost,
                session_cost,
                step_cost,
                context_used,
                window,
                ..
            } => {
                self.spending.context = (*context_used, *window);
                self.spending.known_cost += step_cost.unwrap_or_default();
                self.turns.turn_spent = (*turn, *turn_cost);
                self.spending.usage = if *session == Usage::default() {
                    self.spending.usage + *step
                } else {
                    *session
                };
                self.spending.cost = *session_cost;
            }
            Event::SessionUpdated {
                title,
                mode,
                model,
                effort,
            } => {
                if title.is_some() {
                    self.choice.title.clone_from(title);
                }
                if let Some(mode) = mode {
                    self.choice.mode = *mode;
                }
                if model.is_some() {
                    self.choice.model.clone_from(model);
                    // The user chose again, so there is no previous model to return to.
                    self.route.answering = None;
                }
                if let Some(effort) = effort {
                    self.choice.effort = Effort::from_name(effort);
                }
            }
            Event::ModelSwitched { to, .. } => self.route.answering = Some(to.clone()),
            Event::Circuit {
                subject: CircuitSubject::Provider,
                name,
                state,
                ..
            } => {
                match state {
                    CircuitState::Closed => self.route.open_circuits.remove(name),
                    CircuitState::Open | CircuitState::HalfOpen => {
                        self.route.open_circuits.insert(name.clone())
                    }
                };
            }
            Event::Compacted(compaction) => {
                // A digest stands for a failed summary, so it does not end the row of failures (R-CTX-2).
                if compaction.summary.as_ref().is_some_and(|summary| !summary.digest) {
                    self.turns.failed_compactions = 0;
                }
            }
            Event::Warning { code, message } => match code.as_str() {
                UNKNOWN_PRICE => self.spending.warned_unpriced = true,
                MODEL_CHOSEN => self.choice.model_reason = Some(message.clone()),
                COMPACTION_FAILED => self.turns.failed_compactions += 1,
                _ => {}
            },
            Event::Instructions { files } => self.instructions = Some(files.clone()),
            Event::Circuit {
                subject: CircuitSubject::Tool,
                ..
            }
            | Event::Message(_)
            | Event::MessageRetracted { .. }
            | Event::Transition { .. }
            | Event::Retry { .. }
            | Event::Wait { .. }
            | Event::Nested(_) => {}
        }
    }

    /// Returns the open approval with this id.
    pub fn open_approval(&self, id: &ApprovalId) -> Option<&Approval> {
        let mut open = self.open.approvals.iter().map(|open| &open.approval);
        open.find(|approval| approval.id == *id)
    }

    /// Returns the open approval of a call.
    pub fn question_about(&self, call: &ToolCallId) -> Option<&Approval> {
        let mut open = self.open.approvals.iter().map(|open| &open.approval);
        open.find(|approval| approval.tool_call == *call)
    }

    /// Applies what the user answered to a limit, which holds for the session.
    fn apply_limit_reply(&mut self, inquiry: &Inquiry, reply: &InquiryReply) {
        let RequestSubject::Limit(reached) = &inquiry.subject else {
            return;
        };
        match (reached.limit, reply) {
            (LimitName::SessionCost, InquiryReply::Raise(by)) => self.spending.raised += Cost(*by),
            (LimitName::UnknownPrice, InquiryReply::Accept) => {
                self.spending.accepted_unpriced.extend(reached.model.clone())
            }
            _ => {}
        }
    }

    /// Returns the open inquiry with this id.
    pub fn open_inquiry(&self, id: &InquiryId) -> Option<&Arc<Inquiry>> {
        let mut open = self.open.inquiries.iter().map(|open| &open.inquiry);
        open.find(|inquiry| inquiry.id == *id)
    }

    /// Returns the open inquiry that a call itself has asked.
    pub fn find_inquiry_of_call(&self, call: &ToolCallId) -> Option<&Arc<Inquiry>> {
        let mut open = self.open.inquiries.iter().map(|open| &open.inquiry);
        open.find(|inquiry| inquiry.tool_call() == Some(call))
    }

    fn tool_call(&mut self, update: &ToolCallUpdate) {
        let earlier = self.open.calls.remove(&update.id);
        if update.status.is_final() {
            // A call that did not run has no duration, and brought no content.
            if update.duration_ms.is_some() && tool::is_untrusted(&update.name) {
                self.foreign_content.add(server_of_tool(&update.name));
            }
        } else {
            let call = earlier.iter().fold(update.clone(), ToolCallUpdate::merge_earlier);
            self.open.calls.insert(update.id.clone(), call);
        }
    }

    /// Notes what MCP servers have sent into a message.
    fn add_server_content(&mut self, message: &Message) {
        for block in &message.content {
            if let Block::Reference(reference) = block
                && reference.kind.is_from_server()
            {
                // `server:uri` or `server/name`; names of servers contain neither.
                let server = reference.path.split([':', '/']).next();
                self.foreign_content.add(server);
            }
        }
    }

    /// Returns whether tools run or wait, rather than the model.
    pub fn in_tools(&self) -> bool {
        self.open.calls.values().any(|call| match call.status {
            ToolCallStatus::Pending | ToolCallStatus::AwaitingApproval | ToolCallStatus::Running => true,
            ToolCallStatus::Completed
            | ToolCallStatus::Failed
            | ToolCallStatus::Denied
            | ToolCallStatus::Cancelled => false,
        })
    }
}

/// Returns whether a message contains what an MCP server has sent.
fn has_server_content(message: &Message) -> bool {
    let mut blocks = message.content.iter();
    blocks.any(|block| matches!(block, Block::Reference(reference) if reference.kind.is_from_server()))
}
