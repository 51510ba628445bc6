//! The simulated user at limits and questions: raises, goes on, stops, answers, now and then twice.

use std::sync::Arc;
use std::time::Duration;

use super::user::ClientWindow;
use super::world::World;
use agentls::domain::{Answers, Inquiry, InquiryReply, LimitName, RequestSubject, SessionId};
use agentls::session::{InquiryAnswer, SessionCommand};

use super::server_run::ServerRun;

/// Answers inquiries, sooner or later.
pub(super) async fn answer_inquiries(window: Arc<ClientWindow>) {
    let (life, rng) = (&window.life, &window.life.world.rng);
    loop {
        tokio::time::sleep(Duration::from_millis(1) + rng.draw_pause(life.world.knobs.answer_ms)).await;
        let open = life.world.lock_checker().open_inquiries();
        let Some((session, inquiry, running)) = open.get(rng.next_below(open.len() as u64) as usize).cloned()
        else {
            tokio::time::sleep(rng.draw_pause(3_000)).await;
            continue;
        };
        if !running && rng.chance(900) {
            continue;
        }
        let taken = answer_inquiry(life, &session, &inquiry).await;
        if !taken && !running {
            // It is answered, and waits for the turn to be resumed: who asks all the time hears the same.
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        if rng.chance(100) {
            answer_inquiry(life, &session, &inquiry).await;
        }
    }
}

/// Whether the answer was taken.
async fn answer_inquiry(life: &ServerRun, session: &SessionId, inquiry: &Inquiry) -> bool {
    let said = choose_reply(&life.world, inquiry);
    life.world
        .lock_checker()
        .note_reply_sent(session, &inquiry.id, &said);
    let found = matches!(life.sessions.inquired_by(&inquiry.id).await, Ok(Some(_)));
    let (id, sent) = (inquiry.id.clone(), InquiryAnswer::Reply(said.clone()));
    let answer = life
        .sessions
        .send_request(session, |reply| SessionCommand::Answer {
            inquiry: id,
            said: sent,
            reply,
        })
        .await;
    if answer.is_ok() && !found {
        life.world
            .lock_checker()
            .record_violation(format!("{} cannot be found by its id", inquiry.id));
    }
    let taken = answer.is_ok();
    life.world
        .lock_checker()
        .reply_answered(session, &inquiry.id, said, &answer);
    taken
}

fn choose_reply(world: &World, inquiry: &Inquiry) -> InquiryReply {
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
