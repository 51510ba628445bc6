//! What happens by itself: timers of the feeds, questions to the client, and what follows an answer.

use std::collections::HashMap;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, Fuse, FusedFuture};
use futures::stream::{FuturesUnordered, StreamExt};
use serde_json::json;
use tokio::sync::mpsc;
use tower_lsp::jsonrpc::Id;

use super::context::{AcpContext, Introduction};
use super::sink::{ClientQuestion, FeedSignal};
use super::{options, prompt, questions, updates};
use crate::base::clock;
use crate::base::{CancellationToken, DropGuard};
use crate::domain::SessionId;

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
                if let Some(resume) = done.and_then(|answered| questions.close(&answered)) {
                    let state = state.clone();
                    running.push(async move { prompt::resume_answered_turn(&state, &resume).await; None }.boxed());
                }
            }
            Some(id) = answered.recv() => {
                if let Some(introduction) = state.finish_request(&id) {
                    let state = state.clone();
                    running.push(async move { introduce(&state, introduction).await; None }.boxed());
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

/// An answer of the client.
struct Answered {
    /// The id of the question.
    question: String,
    /// A person has chosen. Without one, the answer is a denial or the default.
    by_person: bool,
}

/// Questions to the client, by the id of the approval or the inquiry.
#[derive(Default)]
struct Questions(HashMap<String, QuestionState>);

struct QuestionState {
    session: SessionId,
    is_left_open: bool,
    /// It has its answer, and the turn that left it open asks it once more when it goes on.
    is_answered: bool,
    dismissed: CancellationToken,
    /// Whoever asks stops when the question is forgotten.
    _settled: DropGuard,
}

impl Questions {
    /// Registers a question, and returns what ends it: its dismissal, and its end elsewhere. One that is asked again
    /// replaces the earlier one. Returns `None` if it has its answer.
    fn open(&mut self, question: &ClientQuestion) -> Option<[CancellationToken; 2]> {
        let earlier = self.0.remove(question.id());
        if earlier.is_some_and(|earlier| earlier.is_answered) {
            return None;
        }
        let [dismissed, settled] = [CancellationToken::new(), CancellationToken::new()];
        let state = QuestionState {
            session: question.session.clone(),
            is_left_open: question.is_left_open,
            is_answered: false,
            dismissed: dismissed.clone(),
            _settled: settled.clone().drop_guard(),
        };
        self.0.insert(question.id().to_owned(), state);
        Some([dismissed, settled])
    }

    /// Takes note of an answer. Returns the session whose turn may go on now.
    fn close(&mut self, answered: &Answered) -> Option<SessionId> {
        let question = self.0.get_mut(&answered.question)?;
        if !question.is_left_open {
            self.0.remove(&answered.question);
            return None;
        }
        question.is_answered = true;
        answered.by_person.then(|| question.session.clone())
    }

    /// Dismisses what an interrupted turn has left open in a session.
    fn dismiss_left_open(&self, session: &SessionId) {
        let left_open = self.0.values().filter(|question| question.is_left_open);
        let left_open = left_open.filter(|question| question.session == *session);
        left_open.for_each(|question| question.dismissed.cancel());
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
            clock::sleep_until(due).await;
            state.feeds.handle_timer(&session);
            None
        }
        .boxed(),
        FeedSignal::Question(question) => {
            let [dismissed, settled] = questions.open(&question)?;
            async move {
                // If both are ready, the id may stand for a later question by now.
                let by_person = tokio::select! { biased;
                    () = settled.cancelled() => return None,
                    by_person = questions::ask(&state, &question, &dismissed) => by_person,
                };
                let question = question.id().to_owned();
                Some(Answered { question, by_person })
            }
            .boxed()
        }
        FeedSignal::Settled(id) => {
            questions.0.remove(&id);
            return None;
        }
        FeedSignal::Canceled(session) => {
            questions.dismiss_left_open(&session);
            return None;
        }
        FeedSignal::Closing(session, _withdrawn) => {
            questions.0.retain(|_, question| question.session != session);
            return None;
        }
        FeedSignal::OptionsChanged(session) => async move {
            send_options(&state, &session).await;
            None
        }
        .boxed(),
    })
}

/// Sends a session's options, as they are when the update leaves: updates of several changes are made at the same time.
async fn send_options(state: &AcpContext, session: &SessionId) -> Option<()> {
    let mut snapshot = state.sessions.inspect_live(session).await?;
    loop {
        let list = options::describe_options(state, &snapshot).await;
        let now = state.sessions.inspect_live(session).await?;
        if now.choice == snapshot.choice {
            let update = json!({"sessionUpdate": "config_option_update", "configOptions": list});
            state.feeds.send(session, update);
            return Some(());
        }
        snapshot = now;
    }
}

/// Sends what a client may only learn after the session's id: notes, what is not active in its folder, and its commands.
async fn introduce(state: &AcpContext, introduction: Introduction) {
    let Introduction {
        session,
        notes,
        turns_wait,
    } = introduction;
    state.feeds.begin_notes(&session, &notes);
    for note in notes {
        state.feeds.add_note(&session, note);
    }
    let Some(snapshot) = state.sessions.inspect_live(&session).await else {
        return;
    };
    // The folder was explained at its first session, unless something is new.
    state.explain_folder(&session, &snapshot.info.folder).await;
    drop(turns_wait);
    send_commands(state, &session, true).await;
}

/// Sends the commands of sessions whose client knows others: prompts of MCP servers come and go (R-MCP).
async fn update_commands(state: &AcpContext) {
    for session in state.feeds.list_sessions_with_commands() {
        send_commands(state, &session, false).await;
    }
}

/// Sends a session's commands, unless the client has the same list since it opened the session, or it is not live.
async fn send_commands(state: &AcpContext, session: &SessionId, is_opened: bool) {
    let Some(snapshot) = state.sessions.inspect_live(session).await else {
        return;
    };
    let change = *state.configured.mcp().subscribe_changes().borrow();
    let commands = state.configured.list_commands(&snapshot.info).await;
    let update = updates::commands(commands.iter());
    state.feeds.show_commands(session, change, update, is_opened);
}
