//! Inquiries: limits and questions that the user is asked about, from the turn's request to the answer.
//!
//! They are durable like approvals. The server's end leaves them open, and a resumed turn asks them again under their
//! ids.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::active_turn::ActiveTurn;
use super::actor::Actor;
use super::command::{CommandError, InquiryAnswer, Reply};
use crate::domain::{Cost, Event, Inquiry, InquiryId, InquiryReply, RequestSubject, ResolvedBy, ToolCallId};
use crate::store::{PendingEvent, PendingKey};
use crate::tool::Tool;
use crate::tool::present_plan::{PresentPlan, chosen_mode};
use crate::turn::InquiryRequest;

fn new(subject: RequestSubject, parent: Option<ToolCallId>) -> Arc<Inquiry> {
    let id = InquiryId::new_random();
    Arc::new(Inquiry { id, subject, parent })
}

impl Actor {
    /// Opens an inquiry for the turn. If the client takes no questions, the turn is answered immediately.
    pub(super) fn open_inquiry(
        &mut self,
        request: InquiryRequest,
        reply: oneshot::Sender<Option<InquiryReply>>,
    ) {
        let (inquiry, is_reopened) = match request {
            InquiryRequest::Again(inquiry) => (inquiry, true),
            InquiryRequest::New(subject) => match self.find_left_open(&subject) {
                Some(open) => (open, true),
                None => (new(subject, None), false),
            },
            InquiryRequest::Nested { parent, subject } => (new(subject, Some(parent)), false),
        };
        let decided = self.questions.take_reply(&inquiry.id);
        if !self.services.takes_questions() && decided.is_none() {
            if is_reopened {
                self.settle_inquiry(inquiry.clone(), inquiry.default_reply(), ResolvedBy::Rule, None);
            }
            let _ = reply.send(None);
            return;
        }
        if self.turn.is_none() {
            return;
        }
        self.questions.open_inquiry(inquiry.id.clone(), reply);
        self.pause_clock();
        self.record_event(Event::InquiryRequested(inquiry.clone()));
        // The answer came while the turn was interrupted; apply it now.
        if let Some(decided) = decided {
            self.settle_inquiry(inquiry, decided, ResolvedBy::Person, None);
        }
    }

    /// Returns the open inquiry of a call that was interrupted while it waited for the answer.
    fn find_left_open(&self, subject: &RequestSubject) -> Option<Arc<Inquiry>> {
        match subject {
            RequestSubject::Question(question) => {
                let call = question.tool_call.as_ref()?;
                self.state.find_inquiry_of_call(call).cloned()
            }
            RequestSubject::Limit(_) => None,
        }
    }

    /// Handles the user's answer.
    pub(super) fn reply_inquiry(&mut self, id: InquiryId, user_answer: InquiryAnswer, reply: Reply<()>) {
        let (inquiry, inquiry_reply) = match self.check_answer(&id, user_answer) {
            Ok(answer) => answer,
            Err(refused) => {
                let _ = reply.send(Err(refused));
                return;
            }
        };
        let done = self.journal.answer_stored(reply, ());
        self.set_mode_of_plan(&inquiry, &inquiry_reply);
        let is_asker = |turn: &ActiveTurn| turn.clock.is_asked_through(&id);
        if self.questions.awaits_inquiry(&id) || self.turn.as_ref().is_some_and(is_asker) {
            self.settle_inquiry(inquiry, inquiry_reply, ResolvedBy::Person, Some(done));
            return;
        }
        // The turn that asked is interrupted; keep the answer until the turn is resumed.
        self.questions.keep_reply(id.clone(), inquiry_reply.clone());
        let pending = PendingEvent::Reply {
            inquiry: id,
            reply: inquiry_reply,
        };
        self.journal.put_pending(pending, Some(done));
    }

    /// Returns the inquiry and the answer, if the inquiry is open and unanswered, and the answer fits.
    fn check_answer(
        &self,
        id: &InquiryId,
        answer: InquiryAnswer,
    ) -> Result<(Arc<Inquiry>, InquiryReply), CommandError> {
        let unknown = || CommandError::UnknownInquiry(id.clone());
        let inquiry = self.state.open_inquiry(id).cloned().ok_or_else(unknown)?;
        if self.questions.is_replied(id) {
            return Err(unknown());
        }
        let reply = answer.into_inquiry_reply(&inquiry);
        match inquiry.find_reply_problem(&reply) {
            Some(problem) => Err(CommandError::BadReply(problem)),
            None => Ok((inquiry, reply)),
        }
    }

    /// Records the result of an inquiry, and answers the turn that waits for it.
    pub(super) fn settle_inquiry(
        &mut self,
        inquiry: Arc<Inquiry>,
        inquiry_reply: InquiryReply,
        by: ResolvedBy,
        done: Option<oneshot::Sender<()>>,
    ) {
        let id = inquiry.id.clone();
        self.questions.take_reply(&id);
        // Limits of the day belong to the server, not to the turn that asked.
        if let (RequestSubject::Limit(reached), InquiryReply::Raise(by)) = (&inquiry.subject, &inquiry_reply)
        {
            let ledger = &self.services.ledger;
            ledger.raise_day(reached.limit, reached.provider.as_deref(), Cost(*by));
        }
        let event = Event::InquiryResolved {
            inquiry: inquiry.clone(),
            reply: inquiry_reply.clone(),
            by,
        };
        self.record_with(event, None, vec![PendingKey::for_reply(&id)], Vec::new(), done);
        self.questions.answer_inquiry(&id, &inquiry_reply);
        self.clock_answered(&inquiry, &inquiry_reply);
        self.run_clock();
    }

    /// Sets the mode that the user chose when the agent presented its plan, whatever the mode is: the latest decision
    /// counts. At the answer and before the tool hears of it, so that what the model does next is judged by that mode.
    fn set_mode_of_plan(&mut self, inquiry: &Inquiry, reply: &InquiryReply) {
        let call = inquiry
            .tool_call()
            .and_then(|call| self.state.open.calls.get(call));
        // Only our own tool: a question of another one, or of an MCP server, must not loosen the mode.
        let is_plan = inquiry.parent.is_none() && call.is_some_and(|call| call.name == PresentPlan::NAME);
        let InquiryReply::Answers(answers) = reply else {
            return;
        };
        let Some(mode) = chosen_mode(answers).filter(|mode| is_plan && self.state.choice.mode != *mode)
        else {
            return;
        };
        self.record_event(Event::SessionUpdated {
            title: None,
            mode: Some(mode),
            model: None,
            effort: None,
        });
        self.rejudge_open_approvals();
    }

    /// Settles all open inquiries, because the turn has ended or a new prompt was sent. Those that the user has answered
    /// meanwhile keep the answer.
    pub(super) fn drop_inquiries(&mut self, by: ResolvedBy) {
        let open: Vec<_> = (self.state.open.inquiries.iter())
            .map(|open| open.inquiry.clone())
            .collect();
        for inquiry in open {
            let (reply, by) = match self.questions.take_reply(&inquiry.id) {
                Some(kept) => (kept, ResolvedBy::Person),
                None => (inquiry.default_reply(), by),
            };
            self.settle_inquiry(inquiry, reply, by, None);
        }
    }

    /// Settles the open inquiries of commands that have ended with the server: an answer would change nothing.
    pub(super) fn drop_lapsed_inquiries(&mut self) {
        let open = self.state.open.inquiries.iter();
        let lapsed = open.filter(|open| !open.inquiry.can_be_repeated());
        let lapsed: Vec<_> = lapsed.map(|open| open.inquiry.clone()).collect();
        for inquiry in lapsed {
            let unanswered = inquiry.default_reply();
            self.settle_inquiry(inquiry, unanswered, ResolvedBy::Cancel, None);
        }
    }

    /// Returns what the user has answered meanwhile to the question of an interrupted call.
    pub(super) fn kept_answer(&self, call: &ToolCallId) -> Option<String> {
        let inquiry = self.state.find_inquiry_of_call(call)?;
        match self.questions.kept_reply(&inquiry.id)? {
            InquiryReply::Answers(answers) => {
                let values: Vec<&str> = answers.values().flatten().map(String::as_str).collect();
                Some(values.join("\n"))
            }
            _ => None,
        }
    }

    /// Returns the inquiries that a resumed turn asks again first. A call's own question is not among them: the call
    /// asks it again itself.
    pub(super) fn carried_inquiries(&self) -> Vec<Arc<Inquiry>> {
        (self.state.open.inquiries.iter())
            .map(|open| open.inquiry.clone())
            .filter(|inquiry| inquiry.tool_call().is_none())
            .collect()
    }
}
