//! What an interrupted turn left open is asked again before anything else, under its id.

use super::TurnContext;
use super::session_link::{Inquire, Stopped};
use crate::domain::user_request::{CHOICE, STOP};
use crate::domain::{InquiryReply, LimitName, RequestSubject};

/// What the person said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ReopenOutcome {
    /// They chose to stop; at what.
    pub(super) stop: Option<String>,
    /// What the limits of the turn were raised by.
    pub(super) raised: Vec<(LimitName, u64)>,
}

/// Asks all of it, one after the other, until the person says stop.
pub(super) async fn ask_again(cx: &TurnContext) -> Result<ReopenOutcome, Stopped> {
    let mut said = ReopenOutcome::default();
    for inquiry in &cx.inquiries {
        let reply = cx.port.send_inquiry(Inquire::Again(inquiry.clone())).await?;
        match (&inquiry.subject, reply) {
            (RequestSubject::Limit(reached), Some(InquiryReply::Raise(by))) => {
                said.raised.push((reached.limit, by))
            }
            (RequestSubject::Limit(reached), Some(InquiryReply::Stop)) => {
                said.stop = Some(reached.limit.name().to_owned());
            }
            (RequestSubject::Question(question), Some(InquiryReply::Answers(answers)))
                if answers
                    .get(CHOICE)
                    .is_some_and(|values| values.iter().any(|value| value == STOP)) =>
            {
                said.stop = Some(question.text.clone());
            }
            // Where nobody can be asked, or the answer changes nothing, the turn goes on and meets the limit itself.
            (RequestSubject::Limit(_) | RequestSubject::Question(_), _) => {}
        }
        if said.stop.is_some() {
            break;
        }
    }
    Ok(said)
}
