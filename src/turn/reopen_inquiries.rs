//! Asks the requests that an interrupted turn left open again, under their ids, before anything else (R-APPR-4).
//!
//! It returns what the user said; `run` applies it. It must not change limits itself.

use super::context::TurnContext;
use super::session_link::{InquiryRequest, TurnStopped};
use crate::domain::user_request::{CHOICE_FIELD, STOP};
use crate::domain::{InquiryReply, LimitName, RequestSubject};

/// What the user answered.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ReopenOutcome {
    /// What the user chose to stop at, if they did.
    pub(super) stop: Option<String>,
    /// The limits of the turn that were raised, and by how much.
    pub(super) raised: Vec<(LimitName, u64)>,
}

/// Asks the open requests one after the other, until the user chooses to stop.
pub(super) async fn reopen_inquiries(cx: &TurnContext) -> Result<ReopenOutcome, TurnStopped> {
    let mut outcome = ReopenOutcome::default();
    for inquiry in &cx.resumption.inquiries {
        let reply = cx
            .link
            .send_inquiry(InquiryRequest::Again(inquiry.clone()))
            .await?;
        match (&inquiry.subject, reply) {
            (RequestSubject::Limit(reached), Some(InquiryReply::Raise(by))) => {
                outcome.raised.push((reached.limit, by))
            }
            (RequestSubject::Limit(reached), Some(InquiryReply::Stop)) => {
                outcome.stop = Some(reached.limit.name().to_owned());
            }
            (RequestSubject::Question(question), Some(InquiryReply::Answers(answers)))
                if answers
                    .get(CHOICE_FIELD)
                    .is_some_and(|values| values.iter().any(|value| value == STOP)) =>
            {
                outcome.stop = Some(question.text.clone());
            }
            // If the client takes no questions, or the answer changes nothing, the turn continues and meets the limit
            // itself.
            (RequestSubject::Limit(_) | RequestSubject::Question(_), _) => {}
        }
        if outcome.stop.is_some() {
            break;
        }
    }
    Ok(outcome)
}
