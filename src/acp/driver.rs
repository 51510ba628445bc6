//! What happens by itself: timers of the feeds, questions to the client, and what follows an answer.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, Fuse, FusedFuture};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use tower_lsp::jsonrpc::Id;

use super::context::{AcpContext, Introduction};
use super::sink::FeedSignal;
use super::{options, prompt, questions, updates};
use crate::base::CancellationToken;
use crate::domain::SessionId;
use crate::session::SessionInfo;

/// Works off signals and answered requests until both senders are gone.
pub(super) async fn drive(
    state: Arc<AcpContext>,
    mut signals: mpsc::UnboundedReceiver<FeedSignal>,
    mut answered: mpsc::UnboundedReceiver<Id>,
) {
    let mut running: FuturesUnordered<BoxFuture<'static, Option<Answered>>> = FuturesUnordered::new();
    let mut questions = Questions::default();
    let mut servers = state.configured.mcp().subscribe_changes();
    let mut updating: Fuse<BoxFuture<'static, ()>> = Fuse::terminated();
    loop {
        tokio::select! { biased;
            signal = signals.recv() => match signal {
                None => return,
                Some(signal) => {
                    if let Some(work) = start_work(&state, signal, &mut questions) {
                        running.push(work);
                    }
                }
            },
            Some(done) = running.next(), if !running.is_empty() => {
                if let Some(resume) = done.and_then(|answered| questions.close(answered)) {
                    let state = state.clone();
                    running.push(async move { prompt::resume_answered_turn(&state, &resume).await; None }.boxed());
                }
            }
            Some(id) = answered.recv() => {
                if let Some(session) = state.take_introduction(&id) {
                    let state = state.clone();
                    running.push(async move { introduce(&state, session).await; None }.boxed());
                }
            }
            // The manager of the servers lives as long as this task.
            Ok(()) = servers.changed(), if updating.is_terminated() => {
                let state = state.clone();
                updating = async move { update_commands(&state).await }.boxed().fuse();
            }
            () = &mut updating, if !updating.is_terminated() => {}
        }
    }
}

/// A question that has its answer.
struct Answered {
    /// The id of the approval or the inquiry.
    question: String,
    /// A person has chosen. Without one, the answer is a denial or the default.
    by_person: bool,
    /// The session, if an earlier turn had left the question open.
    left_open_in: Option<SessionId>,
}

/// Questions to the client, by the id of the approval or the inquiry.
#[derive(Default)]
struct Questions {
    /// Canceled when the question is settled.
    open: HashMap<String, CancellationToken>,
    /// The turn that left these open asks them once more when it goes on, and has their answers.
    answered: HashSet<String>,
}

impl Questions {
    /// Registers a question. One that is asked again replaces the earlier one. Returns `None` if it has its answer.
    fn open(&mut self, id: &str) -> Option<CancellationToken> {
        if self.answered.remove(id) {
            return None;
        }
        let token = CancellationToken::new();
        if let Some(earlier) = self.open.insert(id.to_owned(), token.clone()) {
            earlier.cancel();
        }
        Some(token)
    }

    /// Takes note of an answer. Returns the session whose turn may go on now.
    fn close(&mut self, answered: Answered) -> Option<SessionId> {
        self.open.remove(&answered.question);
        let session = answered.left_open_in?;
        self.answered.insert(answered.question);
        answered.by_person.then_some(session)
    }

    fn settle(&mut self, id: &str) {
        self.answered.remove(id);
        if let Some(token) = self.open.remove(id) {
            token.cancel();
        }
    }
}

/// Starts what a signal asks for.
///
/// It returns the question that the client has answered, but none that was settled or asked again: its id may stand for
/// another question.
fn start_work(
    state: &Arc<AcpContext>,
    signal: FeedSignal,
    questions: &mut Questions,
) -> Option<BoxFuture<'static, Option<Answered>>> {
    let state = state.clone();
    Some(match signal {
        FeedSignal::Due(session, due) => async move {
            tokio::time::sleep_until(due).await;
            state.feeds.handle_timer(&session);
            None
        }
        .boxed(),
        FeedSignal::Approval(session, approval, places) => {
            let question = approval.id.to_string();
            let settled = questions.open(&question)?;
            async move {
                let ask = questions::ask_permission(&state, &session, &approval, &places);
                let by_person = ask_until(ask, &settled).await?;
                Some(Answered {
                    question,
                    by_person,
                    left_open_in: None,
                })
            }
            .boxed()
        }
        FeedSignal::Inquiry(session, inquiry) => {
            let question = inquiry.id.to_string();
            let settled = questions.open(&question)?;
            async move {
                let ask = questions::ask_inquiry(&state, &session, &inquiry);
                let by_person = ask_until(ask, &settled).await?;
                Some(Answered {
                    question,
                    by_person,
                    left_open_in: None,
                })
            }
            .boxed()
        }
        FeedSignal::LeftOpen(session, question) => {
            let ask = start_work(&state, *question, questions)?;
            ask.map(|answered| {
                Some(Answered {
                    left_open_in: Some(session),
                    ..answered?
                })
            })
            .boxed()
        }
        FeedSignal::ApprovalSettled(id) => {
            questions.settle(id.as_str());
            return None;
        }
        FeedSignal::InquirySettled(id) => {
            questions.settle(id.as_str());
            return None;
        }
        FeedSignal::OptionsChanged(session) => async move {
            if let Some(snapshot) = state.sessions.inspect_live(&session).await {
                let list = options::describe_options(&state, &snapshot).await;
                let update = serde_json::json!({
                    "sessionUpdate": "config_option_update", "configOptions": list,
                });
                state.feeds.send(&session, update);
            }
            None
        }
        .boxed(),
    })
}

/// Asks, and returns whether a person has answered. `None` if the question was settled before.
async fn ask_until(ask: impl Future<Output = bool>, settled: &CancellationToken) -> Option<bool> {
    // If both hold, the id may stand for a later question by now.
    tokio::select! { biased;
        () = settled.cancelled() => None,
        by_person = ask => Some(by_person),
    }
}

/// Sends what a client may only learn after the session's id: notes, its commands, and what is not active in its folder.
async fn introduce(state: &AcpContext, (session, notes): Introduction) {
    state.feeds.begin_notes(&session, &notes);
    for note in notes.into_iter().flatten() {
        state.feeds.add_note(&session, note);
    }
    let Some(info) = send_commands(state, &session, true).await else {
        return;
    };
    // The folder was explained at its first session, unless something is new.
    state.explain_folder(&session, &info.folder).await;
}

/// Sends the commands of sessions whose client knows others: prompts of MCP servers come and go (R-MCP).
async fn update_commands(state: &AcpContext) {
    for session in state.feeds.list_sessions_with_commands() {
        send_commands(state, &session, false).await;
    }
}

/// Sends a session's commands, unless the client has the same list since it opened the session. Returns `None` if the
/// session is not live.
async fn send_commands(state: &AcpContext, session: &SessionId, is_opened: bool) -> Option<SessionInfo> {
    let snapshot = state.sessions.inspect_live(session).await?;
    let change = *state.configured.mcp().subscribe_changes().borrow();
    let commands = state.configured.list_commands(&snapshot.info).await;
    let update = updates::commands(commands.iter());
    state.feeds.show_commands(session, change, update, is_opened);
    Some(snapshot.info)
}
