//! Leads what a server requests of us to the call during which it does.
//!
//! Up to revision 2025-11-25, the protocol does not say to which call a request belongs. So it is the newest one that
//! runs; what costs money is refused while several sessions call, and a server has at most one open request. Since then,
//! each request names its call. Each call has a bounded number of requests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use tokio::sync::{mpsc, oneshot, watch};

use super::server_request::{HostRequest, ServerRequest};
use crate::base::{CancellationToken, clock};
use crate::domain::{HostTarget, SessionId};
use crate::workspace::HostPrompt;

/// The most requests of a call.
const MAX_PER_CALL: u32 = 10;

/// The running calls of a server, and how many answers it waits for.
#[derive(Default)]
pub(super) struct RequestRouter {
    state: Mutex<RouterState>,
}

#[derive(Default)]
struct RouterState {
    calls: Vec<RunningCall>,
    /// How many requests have no answer yet.
    open_requests: usize,
    next_call: u64,
}

struct RunningCall {
    number: u64,
    session: SessionId,
    requests: mpsc::Sender<ServerRequest>,
    asked: u32,
    is_waiting: watch::Sender<bool>,
    ended: CancellationToken,
}

/// A running call. Dropping it ends what the server requests during the call.
pub(super) struct CallRegistration {
    router: Arc<RequestRouter>,
    number: u64,
    is_waiting: watch::Receiver<bool>,
    ended: CancellationToken,
}

/// Which call a request is handed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recipient {
    /// The newest one.
    NewestCall,
    /// The newest one, and none while several sessions call the server.
    OnlySession,
    /// The one with this number; `None` if it belongs to none.
    Call(Option<u64>),
}

/// Why a request of a server has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestFailure {
    /// It is not possible now, for this reason.
    Refused(&'static str),
    /// Nobody hears it.
    Unheard,
    /// The call has ended.
    CallEnded,
}

impl RequestRouter {
    /// Returns whether a call runs, to which a request could belong.
    fn has_call(&self) -> bool {
        !self.lock().calls.is_empty()
    }

    /// Adds a call that starts.
    pub(super) fn begin_call(
        self: &Arc<Self>,
        session: SessionId,
        requests: mpsc::Sender<ServerRequest>,
    ) -> CallRegistration {
        let (is_waiting, receiver) = watch::channel(false);
        let ended = CancellationToken::new();
        let mut state = self.lock();
        let number = state.next_call;
        state.next_call += 1;
        state.calls.push(RunningCall {
            number,
            session,
            requests,
            asked: 0,
            is_waiting,
            ended: ended.clone(),
        });
        CallRegistration {
            router: self.clone(),
            number,
            is_waiting: receiver,
            ended,
        }
    }

    /// Hands a request to a call, and waits for its answer. Dropping the future withdraws the request. `build` gets
    /// `true` if no other session has a running call of this server.
    ///
    /// # Errors
    /// The request gets no answer; see [`RequestFailure`].
    pub(super) async fn forward<T>(
        &self,
        recipient: Recipient,
        build: impl FnOnce(oneshot::Sender<T>, bool) -> ServerRequest,
    ) -> Result<T, RequestFailure> {
        let open = self.open_request(recipient).map_err(RequestFailure::Refused)?;
        let (reply, answer) = oneshot::channel();
        let request = build(reply, open.is_only_session);
        // The queue has room, because the last request is answered or withdrawn.
        if open.requests.try_send(request).is_err() {
            return Err(RequestFailure::Unheard);
        }
        tokio::select! { biased;
            () = open.ended.cancelled() => Err(RequestFailure::CallEnded),
            // Nobody answers when the call is being dropped.
            answer = answer => answer.map_err(|_| RequestFailure::CallEnded),
        }
    }

    fn open_request(&self, recipient: Recipient) -> Result<OpenRequest<'_>, &'static str> {
        let mut state = self.lock();
        let mut sessions = state.calls.iter().map(|call| &call.session);
        let is_only_session = matches!(recipient, Recipient::Call(_))
            || sessions
                .next()
                .is_none_or(|first| sessions.all(|other| other == first));
        if state.open_requests > 0 && !matches!(recipient, Recipient::Call(_)) {
            return Err("another request of this server is open; ask again when it is answered");
        }
        if recipient == Recipient::OnlySession && !is_only_session {
            return Err(
                "calls of several sessions run, and one of them would have to pay; ask again when only one does",
            );
        }
        let call = match recipient {
            Recipient::Call(number) => state.calls.iter_mut().find(|call| Some(call.number) == number),
            Recipient::NewestCall | Recipient::OnlySession => state.calls.last_mut(),
        };
        let Some(call) = call else {
            return Err("this is possible only during a call of a tool");
        };
        if call.asked >= MAX_PER_CALL {
            return Err("this call has asked too often");
        }
        call.asked += 1;
        call.is_waiting.send_replace(true);
        let open = OpenRequest {
            router: self,
            is_only_session,
            requests: call.requests.clone(),
            is_waiting: call.is_waiting.clone(),
            ended: call.ended.clone(),
        };
        state.open_requests += 1;
        Ok(open)
    }

    fn lock(&self) -> MutexGuard<'_, RouterState> {
        // The state is consistent after every statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks about the hosts that the program of a server wants to reach, during a call.
pub(super) struct CallHostPrompt(pub(super) Arc<RequestRouter>);

impl HostPrompt for CallHostPrompt {
    fn can_ask(&self) -> bool {
        self.0.has_call()
    }

    fn asks_again(&self) -> bool {
        true
    }

    fn ask(&self, target: &HostTarget) -> BoxFuture<'static, Option<bool>> {
        let (router, target) = (self.0.clone(), target.clone());
        async move {
            let build = |reply, _| ServerRequest::Connect(HostRequest { target, reply });
            let answer = router.forward(Recipient::NewestCall, build).await;
            answer.ok().flatten()
        }
        .boxed()
    }
}

/// A request without an answer.
struct OpenRequest<'a> {
    router: &'a RequestRouter,
    is_only_session: bool,
    requests: mpsc::Sender<ServerRequest>,
    is_waiting: watch::Sender<bool>,
    ended: CancellationToken,
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        self.router.lock().open_requests -= 1;
        self.is_waiting.send_replace(false);
    }
}

impl CallRegistration {
    /// Returns the number by which a request names this call.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Waits until the call has run for `limit`. Time in which the server waits for an answer does not count.
    pub(super) async fn wait_for_limit(&self, limit: Duration) {
        let (mut left, mut is_waiting) = (limit, self.is_waiting.clone());
        loop {
            let started = clock::now();
            tokio::select! { biased;
                () = wait_for(&mut is_waiting, true) => {}
                () = clock::sleep(left) => return,
            }
            left = left.saturating_sub(started.elapsed());
            wait_for(&mut is_waiting, false).await;
        }
    }
}

/// Waits for a state; for ever if it cannot change any more.
async fn wait_for(state: &mut watch::Receiver<bool>, wanted: bool) {
    let has_ended = state.wait_for(|is_waiting| *is_waiting == wanted).await.is_err();
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
    use crate::mcp::elicitation::{Elicitation, ElicitationAnswer, ElicitationRequest};

    fn session(id: &str) -> SessionId {
        SessionId::from(id.to_owned())
    }

    async fn ask(router: &RequestRouter) -> Result<ElicitationAnswer, RequestFailure> {
        let params = json!({"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}});
        let elicitation = Elicitation::read(&params, None).unwrap();
        let build = |reply, is_of_this_session| {
            ServerRequest::Elicit(ElicitationRequest {
                elicitation,
                is_of_this_session,
                reply,
            })
        };
        router.forward(Recipient::NewestCall, build).await
    }

    async fn receive(requests: &mut mpsc::Receiver<ServerRequest>) -> ElicitationRequest {
        match requests.recv().await.unwrap() {
            ServerRequest::Elicit(request) => request,
            other => panic!("no test requests {other:?}"),
        }
    }

    fn refusal(answer: Result<ElicitationAnswer, RequestFailure>) -> &'static str {
        match answer {
            Err(RequestFailure::Refused(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn the_newest_call_is_asked_and_only_one_question_is_open() {
        let router = Arc::<RequestRouter>::default();
        assert!(ask(&router).await.is_err(), "no call runs");
        let (first, mut first_asked) = mpsc::channel(1);
        let (second, mut second_asked) = mpsc::channel(1);
        let _first = router.begin_call(session("a"), first);
        let second_call = router.begin_call(session("a"), second);
        let asking = ask(&router);
        tokio::pin!(asking);
        tokio::select! { biased;
            _ = &mut asking => panic!("nobody has answered"),
            () = yield_now() => {}
        }
        let request = receive(&mut second_asked).await;
        assert!(refusal(ask(&router).await).contains("another"));
        drop(second_call);
        assert_eq!(asking.await, Err(RequestFailure::CallEnded));
        assert!(request.reply.is_closed());
        let answered = async {
            let request = receive(&mut first_asked).await;
            request.reply.send(ElicitationAnswer::Decline).unwrap();
        };
        let (answer, ()) = tokio::join!(ask(&router), answered);
        assert_eq!(answer, Ok(ElicitationAnswer::Decline));
    }

    #[tokio::test]
    async fn while_several_sessions_call_a_question_says_so_and_no_model_is_asked() {
        let router = Arc::<RequestRouter>::default();
        let ((first, _first_asked), (second, mut asked)) = (mpsc::channel(1), mpsc::channel(1));
        let first_call = router.begin_call(session("a"), first);
        let _second_call = router.begin_call(session("b"), second);
        let no_request = |_: oneshot::Sender<()>, _| panic!("it is refused");
        let refused = router.forward(Recipient::OnlySession, no_request).await;
        assert!(
            matches!(refused, Err(RequestFailure::Refused(reason)) if reason.contains("several sessions"))
        );
        for is_of_this_session in [false, true] {
            let answered = async {
                let request = receive(&mut asked).await;
                assert_eq!(request.is_of_this_session, is_of_this_session);
                request.reply.send(ElicitationAnswer::Decline).unwrap();
            };
            let (answer, ()) = tokio::join!(ask(&router), answered);
            assert_eq!(answer, Ok(ElicitationAnswer::Decline));
            // The other session's call ends.
            if !is_of_this_session {
                router
                    .lock()
                    .calls
                    .retain(|call| call.number != first_call.number);
            }
        }
    }

    #[tokio::test]
    async fn a_call_asks_a_bounded_number_of_times() {
        let router = Arc::<RequestRouter>::default();
        let (sender, mut asked) = mpsc::channel(1);
        let _call = router.begin_call(session("a"), sender);
        for _ in 0..MAX_PER_CALL {
            let answered = async {
                let request = receive(&mut asked).await;
                request.reply.send(ElicitationAnswer::Accept(None)).unwrap();
            };
            let (answer, ()) = tokio::join!(ask(&router), answered);
            assert_eq!(answer, Ok(ElicitationAnswer::Accept(None)));
        }
        assert!(refusal(ask(&router).await).contains("too often"));
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_the_server_waits_does_not_count() {
        let router = Arc::<RequestRouter>::default();
        let (sender, mut asked) = mpsc::channel(1);
        let call = router.begin_call(session("a"), sender);
        let started = clock::now();
        let user = async {
            let request = receive(&mut asked).await;
            clock::sleep(Duration::from_secs(100)).await;
            request.reply.send(ElicitationAnswer::Decline).unwrap();
        };
        let server = async {
            clock::sleep(Duration::from_secs(1)).await;
            ask(&router).await.unwrap();
        };
        tokio::join!(call.wait_for_limit(Duration::from_secs(3)), server, user);
        assert_eq!(started.elapsed().as_secs(), 103);
    }
}
