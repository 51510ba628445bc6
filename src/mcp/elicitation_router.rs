//! Leads what a server asks to the call during which it asks.
//!
//! The protocol does not say to which call an elicitation belongs, so it is the newest one that runs. A server has at
//! most one open elicitation, and a bounded number in each call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::elicitation::{Elicitation, ElicitationAnswer, ElicitationRequest};
use crate::base::{CancellationToken, clock};

/// The most elicitations of a call.
const MAX_PER_CALL: u32 = 10;

/// The running calls of a server, and whether it asks something.
#[derive(Default)]
pub(super) struct ElicitationRouter {
    state: Mutex<RouterState>,
}

#[derive(Default)]
struct RouterState {
    calls: Vec<RunningCall>,
    is_asking: bool,
    next_call: u64,
}

struct RunningCall {
    number: u64,
    elicitations: mpsc::Sender<ElicitationRequest>,
    asked: u32,
    is_asking: watch::Sender<bool>,
    ended: CancellationToken,
}

/// A running call. Dropping it ends what the server asks during the call.
pub(super) struct CallRegistration {
    router: Arc<ElicitationRouter>,
    number: u64,
    is_asking: watch::Receiver<bool>,
    ended: CancellationToken,
}

impl ElicitationRouter {
    /// Adds a call that starts.
    pub(super) fn begin_call(
        self: &Arc<Self>,
        elicitations: mpsc::Sender<ElicitationRequest>,
    ) -> CallRegistration {
        let (is_asking, receiver) = watch::channel(false);
        let ended = CancellationToken::new();
        let mut state = self.lock();
        let number = state.next_call;
        state.next_call += 1;
        state.calls.push(RunningCall {
            number,
            elicitations,
            asked: 0,
            is_asking,
            ended: ended.clone(),
        });
        CallRegistration {
            router: self.clone(),
            number,
            is_asking: receiver,
            ended,
        }
    }

    /// Asks the user. Dropping the future withdraws the question.
    ///
    /// # Errors
    /// The reason for the server if nobody is asked.
    pub(super) async fn ask(&self, elicitation: Elicitation) -> Result<ElicitationAnswer, &'static str> {
        let open = self.open_question()?;
        let (reply, answer) = oneshot::channel();
        let request = ElicitationRequest { elicitation, reply };
        // The queue has room, because the last question is answered or withdrawn.
        if open.elicitations.try_send(request).is_err() {
            return Ok(ElicitationAnswer::Decline);
        }
        Ok(tokio::select! { biased;
            () = open.ended.cancelled() => ElicitationAnswer::Cancel,
            // Nobody answers when the call is being dropped.
            answer = answer => answer.unwrap_or(ElicitationAnswer::Cancel),
        })
    }

    fn open_question(&self) -> Result<OpenElicitation<'_>, &'static str> {
        let mut state = self.lock();
        if state.is_asking {
            return Err("another elicitation of this server is open; ask again when it is answered");
        }
        let Some(call) = state.calls.last_mut() else {
            return Err("elicitation is possible only during a call of a tool");
        };
        if call.asked >= MAX_PER_CALL {
            return Err("this call has asked too often");
        }
        call.asked += 1;
        call.is_asking.send_replace(true);
        let open = OpenElicitation {
            router: self,
            elicitations: call.elicitations.clone(),
            is_asking: call.is_asking.clone(),
            ended: call.ended.clone(),
        };
        state.is_asking = true;
        Ok(open)
    }

    fn lock(&self) -> MutexGuard<'_, RouterState> {
        // The state is consistent after every statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An elicitation without an answer.
struct OpenElicitation<'a> {
    router: &'a ElicitationRouter,
    elicitations: mpsc::Sender<ElicitationRequest>,
    is_asking: watch::Sender<bool>,
    ended: CancellationToken,
}

impl Drop for OpenElicitation<'_> {
    fn drop(&mut self) {
        self.router.lock().is_asking = false;
        self.is_asking.send_replace(false);
    }
}

impl CallRegistration {
    /// Waits until the call has run for `limit`. Time in which the user is asked does not count.
    pub(super) async fn wait_for_limit(&self, limit: Duration) {
        let (mut left, mut is_asking) = (limit, self.is_asking.clone());
        loop {
            let started = clock::now();
            tokio::select! { biased;
                () = wait_for(&mut is_asking, true) => {}
                () = tokio::time::sleep(left) => return,
            }
            left = left.saturating_sub(started.elapsed());
            wait_for(&mut is_asking, false).await;
        }
    }
}

/// Waits for a state; for ever if it cannot change any more.
async fn wait_for(state: &mut watch::Receiver<bool>, wanted: bool) {
    let has_ended = state.wait_for(|is_asking| *is_asking == wanted).await.is_err();
    if has_ended {
        std::future::pending::<()>().await;
    }
}

impl Drop for CallRegistration {
    fn drop(&mut self) {
        self.ended.cancel();
        self.router.lock().calls.retain(|call| call.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::task::yield_now;

    use super::*;

    fn elicitation() -> Elicitation {
        let params = json!({"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}});
        Elicitation::read(&params).unwrap()
    }

    #[tokio::test]
    async fn the_newest_call_is_asked_and_only_one_question_is_open() {
        let router = Arc::<ElicitationRouter>::default();
        assert!(router.ask(elicitation()).await.is_err(), "no call runs");
        let (first, mut first_asked) = mpsc::channel(1);
        let (second, mut second_asked) = mpsc::channel(1);
        let _first = router.begin_call(first);
        let second_call = router.begin_call(second);
        let asking = router.ask(elicitation());
        tokio::pin!(asking);
        tokio::select! { biased;
            _ = &mut asking => panic!("nobody has answered"),
            () = yield_now() => {}
        }
        let request = second_asked.try_recv().unwrap();
        assert!(router.ask(elicitation()).await.unwrap_err().contains("another"));
        drop(second_call);
        assert_eq!(asking.await, Ok(ElicitationAnswer::Cancel), "the call has ended");
        assert!(request.reply.is_closed());
        let answered = async {
            let request = first_asked.recv().await.unwrap();
            request.reply.send(ElicitationAnswer::Decline).unwrap();
        };
        let (answer, ()) = tokio::join!(router.ask(elicitation()), answered);
        assert_eq!(answer, Ok(ElicitationAnswer::Decline));
    }

    #[tokio::test]
    async fn a_call_asks_a_bounded_number_of_times() {
        let router = Arc::<ElicitationRouter>::default();
        let (sender, mut asked) = mpsc::channel(1);
        let _call = router.begin_call(sender);
        for _ in 0..MAX_PER_CALL {
            let answered = async {
                let request = asked.recv().await.unwrap();
                request.reply.send(ElicitationAnswer::Accept(None)).unwrap();
            };
            let (answer, ()) = tokio::join!(router.ask(elicitation()), answered);
            assert_eq!(answer, Ok(ElicitationAnswer::Accept(None)));
        }
        assert!(router.ask(elicitation()).await.unwrap_err().contains("too often"));
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_the_user_is_asked_does_not_count() {
        let router = Arc::<ElicitationRouter>::default();
        let (sender, mut asked) = mpsc::channel(1);
        let call = router.begin_call(sender);
        let started = clock::now();
        let person = async {
            let request = asked.recv().await.unwrap();
            tokio::time::sleep(Duration::from_secs(100)).await;
            request.reply.send(ElicitationAnswer::Decline).unwrap();
        };
        let server = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            router.ask(elicitation()).await.unwrap();
        };
        tokio::join!(call.wait_for_limit(Duration::from_secs(3)), server, person);
        assert_eq!(started.elapsed().as_secs(), 103);
    }
}
