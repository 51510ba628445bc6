//! Inquiries: asked once, settled once, by whom it says, and never open after a turn's end but for the server's.

use super::Checker;
use super::seen::{ShownInquiry, ShownSession};
use agentls::domain::{Inquiry, InquiryId, InquiryReply, ResolvedBy, SessionId};
use agentls::session::CommandError;

impl ShownSession {
    pub(super) fn check_inquiry(&mut self, inquiry: &Inquiry) -> Result<(), String> {
        match self.inquiries.get(&inquiry.id) {
            Some(known) if !known.open => Err(format!("{} is asked again after its end", inquiry.id)),
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
        let known = known.ok_or_else(|| format!("{id} was never asked"))?;
        if !std::mem::take(&mut known.open) {
            return Err(format!("{id} is settled twice"));
        }
        let fits = match by {
            ResolvedBy::Person => {
                known.sent.contains(reply) && known.accepted.as_ref().is_none_or(|first| first == reply)
            }
            ResolvedBy::Rule | ResolvedBy::Cancel | ResolvedBy::NewPrompt => {
                *reply == inquiry.default_reply()
            }
            ResolvedBy::Timeout => false,
        };
        if fits {
            Ok(())
        } else {
            Err(format!(
                "{id} is settled {reply:?} by {by:?}; sent: {:?}",
                known.sent
            ))
        }
    }
}

impl Checker {
    /// The user answers an inquiry.
    pub(crate) fn note_reply_sent(&mut self, session: &SessionId, id: &InquiryId, reply: &InquiryReply) {
        self.log_line(format!("answers {id} {reply:?}"));
        let Some(seen) = self.sessions.get_mut(session) else {
            return;
        };
        if let Some(inquiry) = seen.fold.open_inquiry(id) {
            self.money.record_raise(session, inquiry, reply);
        }
        if let Some(known) = seen.inquiries.get_mut(id) {
            known.sent.push(reply.clone());
        }
    }

    /// The answer is answered: the first that is accepted stands.
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
        let begins = self.has_prompt_in_flight(session);
        let Some(seen) = self.sessions.get_mut(session) else {
            return;
        };
        let resting = seen.fold.turns.open_turn.is_none() && !begins;
        let Some(known) = seen.inquiries.get_mut(id) else {
            return;
        };
        let wrong = match answer {
            Ok(()) => known.accepted.is_some(),
            Err(CommandError::UnknownInquiry(_)) => known.open && known.sent.len() < 2 && resting,
            Err(CommandError::Ending) => !ending,
            Err(CommandError::UnknownSession(_)) => !deleting,
            Err(CommandError::Store(_)) => !degraded,
            Err(_) => true,
        };
        if wrong {
            return self.record_violation(format!("I1: the answer {answer:?} on {id}"));
        }
        if answer.is_ok() {
            known.accepted = Some(reply);
        }
    }

    /// All open inquiries, and whether their turns run.
    pub(crate) fn open_inquiries(&self) -> Vec<(SessionId, Inquiry, bool)> {
        let open = self.sessions.iter().flat_map(|(id, seen)| {
            let running = seen.fold.turns.open_turn.is_some();
            let open = seen.fold.open.inquiries.clone();
            open.into_iter()
                .map(move |open| (id.clone(), open.inquiry.as_ref().clone(), running))
        });
        open.collect()
    }
}
