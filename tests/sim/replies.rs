//! The simulated user's replies to limits and questions: raise, accept, stop, answer or dismiss, now and then twice.

use std::sync::Arc;
use std::time::Duration;

use super::user::ClientWindow;
use super::world::World;
use agentls::domain::{Answers, Inquiry, InquiryReply, LimitName, RequestSubject, SessionId};
use agentls::session::{InquiryAnswer, SessionCommand};

use super::server_run::ServerRun;

/// Answers open inquiries, each after a random pause.
pub(super) async fn answer_inquiries(window: Arc<ClientWindow>) {
    let (server, rng) = (&window.server_run, &window.server_run.world.rng);
    loop {
        agentls::base::clock::sleep(
            Duration::from_millis(1) + rng.draw_pause(server.world.settings.answer_ms),
        )
        .await;
        let open = server.world.lock_checker().open_inquiries();
        let Some((session, inquiry, running)) = open.get(rng.next_below(open.len() as u64) as usize).cloned()
        else {
            agentls::base::clock::sleep(rng.draw_pause(3_000)).await;
            continue;
        };
        if !running && rng.chance(900) {
            continue;
        }
        let is_accepted = answer_inquiry(server, &session, &inquiry).await;
        if !is_accepted && !running {
            // The inquiry already has an answer, so a retry fails until somebody resumes the turn.
            agentls::base::clock::sleep(Duration::from_secs(60)).await;
        }
        if rng.chance(100) {
            answer_inquiry(server, &session, &inquiry).await;
        }
    }
}

/// Returns whether the session accepted the answer.
async fn answer_inquiry(server: &ServerRun, session: &SessionId, inquiry: &Inquiry) -> bool {
    let chosen = choose_reply(&server.world, inquiry);
    server
        .world
        .lock_checker()
        .note_reply_sent(session, &inquiry.id, &chosen);
    let is_found = matches!(server.sessions.inquired_by(&inquiry.id).await, Ok(Some(_)));
    let (id, sent) = (inquiry.id.clone(), InquiryAnswer::Reply(chosen.clone()));
    let answer = server
        .sessions
        .send_request(session, |reply| SessionCommand::Answer {
            inquiry: id,
            answer: sent,
            reply,
        })
        .await;
    if answer.is_ok() && !is_found {
        server
            .world
            .lock_checker()
            .record_violation(format!("the session of {} cannot be found by its id", inquiry.id));
    }
    let is_accepted = answer.is_ok();
    server
        .world
        .lock_checker()
        .reply_answered(session, &inquiry.id, chosen, &answer);
    is_accepted
}

pub(super) fn choose_reply(world: &World, inquiry: &Inquiry) -> InquiryReply {
    let rng = &world.rng;
    match &inquiry.subject {
        RequestSubject::Limit(_) if rng.chance(300) => InquiryReply::Stop,
        RequestSubject::Limit(reached) if reached.limit == LimitName::UnknownPrice => InquiryReply::Accept,
        RequestSubject::Limit(reached) => InquiryReply::Raise(1 + rng.next_below(1 + reached.most)),
        RequestSubject::Question(_) if rng.chance(200) => InquiryReply::Dismissed,
        RequestSubject::Question(question) => {
            let mut answers = Answers::new();
            for field in &question.fields {
                let choice = field
                    .choices
                    .get(rng.next_below(field.choices.len() as u64) as usize);
                let value = choice.map_or_else(|| "words".to_owned(), |choice| choice.value.clone());
                answers.insert(field.name.clone(), vec![value]);
            }
            InquiryReply::Answers(answers)
        }
    }
}
