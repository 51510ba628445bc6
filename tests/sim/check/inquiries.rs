//! Inquiries: the server opens and resolves each one once and reports the correct resolver. An inquiry stays
//! open past its turn's end only if the server stopped.

use super::Checker;
use super::memory::{ShownInquiry, ShownSession};
use agentls::domain::{Inquiry, InquiryId, InquiryReply, ResolvedBy, SessionId};
use agentls::session::CommandError;

impl ShownSession {
    pub(super) fn check_inquiry(&mut self, inquiry: &Inquiry) -> Result<(), String> {
        match self.inquiries.get(&inquiry.id) {
            Some(known) if !known.open => Err(format!(
                "the server requested {} again after it was resolved",
                inquiry.id
            )),
            Some(_) => Ok(()),
            None => {
                let open = ShownInquiry {
                    open: true,
                    ..ShownInquiry::default()
                };
                self.inquiries.insert(inquiry.id.clone(), open);
                Ok(())
            }
        }
    }

    pub(super) fn check_reply(
        &mut self,
        inquiry: &Inquiry,
        reply: &InquiryReply,
        by: ResolvedBy,
    ) -> Result<(), String> {
        let id = &inquiry.id;
        let known = self.inquiries.get_mut(id);
        let known = known.ok_or_else(|| format!("the server resolved {id}, which it never requested"))?;
        if !std::mem::take(&mut known.open) {
            return Err(format!("the server resolved {id} twice"));
        }
        let is_consistent = match by {
            ResolvedBy::Person => {
                known.sent.contains(reply) && known.accepted.as_ref().is_none_or(|first| first == reply)
            }
            ResolvedBy::Rule | ResolvedBy::Cancel | ResolvedBy::NewPrompt => {
                *reply == inquiry.default_reply()
            }
            ResolvedBy::Timeout => false,
        };
        if is_consistent {
            Ok(())
        } else {
            Err(format!(
                "the server resolved {id} with {reply:?} by {by:?}; the user sent {:?}",
                known.sent
            ))
        }
    }
}

impl Checker {
    /// The user answers an inquiry.
    pub(crate) fn note_reply_sent(&mut self, session: &SessionId, id: &InquiryId, reply: &InquiryReply) {
        self.log_line(format!("answers {id} {reply:?}"));
        let Some(shown_session) = self.sessions.get_mut(session) else {
            return;
        };
        if let Some(inquiry) = shown_session.fold.open_inquiry(id) {
            self.money.record_raise(session, inquiry, reply);
        }
        if let Some(known) = shown_session.inquiries.get_mut(id) {
            known.sent.push(reply.clone());
        }
    }

    /// The server acknowledges a reply: the first one that it accepts is final.
    pub(crate) fn reply_answered(
        &mut self,
        session: &SessionId,
        id: &InquiryId,
        reply: InquiryReply,
        answer: &Result<(), CommandError>,
    ) {
        self.log_line(format!("{id} is answered {answer:?}"));
        let (ending, deleting) = (self.ending, self.deleting.contains(session));
        let degraded = self.degraded || agentls::base::clock::wall_ms() < self.failed_until;
        let has_prompt = self.has_prompt_in_flight(session);
        let Some(shown_session) = self.sessions.get_mut(session) else {
            return;
        };
        let is_idle = shown_session.fold.turns.open_turn.is_none() && !has_prompt;
        let Some(known) = shown_session.inquiries.get_mut(id) else {
            return;
        };
        let is_violation = match answer {
            Ok(()) => known.accepted.is_some(),
            Err(CommandError::UnknownInquiry(_)) => known.open && known.sent.len() < 2 && is_idle,
            Err(CommandError::Ending) => !ending,
            Err(CommandError::UnknownSession(_)) => !deleting,
            Err(CommandError::Store(_)) => !degraded,
            Err(_) => true,
        };
        if is_violation {
            return self.record_violation(format!(
                "I1: the server cannot acknowledge a reply to {id} with {answer:?}"
            ));
        }
        if answer.is_ok() {
            known.accepted = Some(reply);
        }
    }

    /// All open inquiries, and whether the turn of each is running.
    pub(crate) fn open_inquiries(&self) -> Vec<(SessionId, Inquiry, bool)> {
        let open = self.sessions.iter().flat_map(|(id, shown_session)| {
            let running = shown_session.fold.turns.open_turn.is_some();
            let open = shown_session.fold.open.inquiries.clone();
            open.into_iter()
                .map(move |open| (id.clone(), open.inquiry.as_ref().clone(), running))
        });
        open.collect()
    }
}
