//! The turn's only connection to the session's actor: events out, requests and their answers.
//!
//! A turn or a sub-agent holds a [`SessionLink`]; the actor receives [`TurnMessage`]s. This module must not know what
//! the actor does with them. It keeps the back pressure: an event takes its size from the session's byte budget.
//!
//! Every wait ends with the turn's cancel, except where a method says otherwise.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use crate::approval::Verdict;
use crate::base::CancellationToken;
use crate::base::backpressure::{Permit, SessionBudget};
use crate::domain::{
    AgentQuestion, Answers, Approval, ApprovalId, Block, Decision, Delta, Effect, Event, Inquiry,
    InquiryReply, LimitReached, Mode, RequestSubject, SandboxPolicy, ToolCallId,
};
use crate::provider::HistoryItem;
use crate::tool::UserPrompt;

/// The turn was stopped, or the session's actor is gone. A function that gets it returns immediately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the turn was stopped")]
pub struct TurnStopped;

/// A message from a turn to its session's actor.
#[derive(Debug)]
pub struct TurnMessage {
    pub body: TurnRequest,
    /// The bytes that an event or a delta occupies in the pipe to the client, until it is sent.
    pub permit: Option<Permit>,
}

/// The answer to [`TurnRequest::Judge`].
#[derive(Clone, Debug)]
pub struct Judgement {
    pub verdict: Verdict,
    /// What a command may do when it runs, by the session's mode.
    pub sandbox: SandboxPolicy,
}

/// What a turn reports or requests.
#[derive(Debug)]
pub enum TurnRequest {
    Event(Event),
    /// Output while it appears.
    Delta(Delta),
    /// A step begins: waiting steers join the history, which the actor returns.
    BeginStep(oneshot::Sender<StepInput>),
    /// A sub-agent's step begins. It waits, as the turn's own steps do, while the user is asked for more time.
    MayStep(oneshot::Sender<()>),
    /// A sub-agent waits while another part of the turn asks the user, until the other end is dropped.
    PauseClock(oneshot::Receiver<()>),
    /// A sub-agent or a command no longer waits for its requests. Requests that have no waiter left are settled.
    WaiterGone,
    /// Fetches the messages that no model has seen.
    FetchPendingInputs {
        /// The turn is about to end. If no message waits, it may, and later steers are refused.
        closes: bool,
        reply: oneshot::Sender<Vec<PendingInput>>,
    },
    /// Hooks have judged a message.
    InputVerdict {
        /// The key of the [`PendingInput`].
        key: String,
        hooked_message: HookedMessage,
    },
    /// Judges an effect by rules and grants.
    Judge {
        tool: String,
        effect: Effect,
        /// An earlier turn's open approval for this call, which has to be settled.
        approval: Option<ApprovalId>,
        reply: oneshot::Sender<Judgement>,
    },
    /// Asks the user to approve a call.
    Approve {
        /// What the user sees. It has its old id when an interrupted turn is resumed.
        approval: Box<Approval>,
        /// What is judged again when rules change.
        effect: Effect,
        /// The user is asked although rules allow the call, so rules do not settle it.
        needs_person: bool,
        reply: oneshot::Sender<Decision>,
    },
    /// Asks the user about a limit, or a question of the agent.
    Inquire {
        inquiry: InquiryRequest,
        /// The answer; `None` if the client takes no questions.
        reply: oneshot::Sender<Option<InquiryReply>>,
    },
}

/// A request to the user.
#[derive(Clone, Debug)]
pub enum InquiryRequest {
    New(RequestSubject),
    /// A new request of a sub-agent.
    Nested {
        /// The call that delegated to it.
        parent: ToolCallId,
        subject: RequestSubject,
    },
    /// A request that an interrupted turn left open, under its old id.
    Again(Arc<Inquiry>),
}

/// What became of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitAnswer {
    /// The user raised it by this much: nano-dollars, steps or calls.
    Raised(u64),
    /// The user accepted that the price is unknown.
    Accepted,
    Stop,
    /// The client takes no questions, so the limit holds.
    Holds,
}

/// What became of a question of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuestionOutcome {
    Answers(Answers),
    /// The user declined to answer.
    Dismissed,
    /// The client takes no questions.
    Nobody,
}

impl QuestionOutcome {
    /// Returns the chosen option of a question with choices.
    pub fn chosen_answer(&self) -> Option<&str> {
        match self {
            Self::Answers(answers) => answers
                .get(crate::domain::user_request::CHOICE_FIELD)?
                .first()
                .map(String::as_str),
            Self::Dismissed | Self::Nobody => None,
        }
    }
}

/// A message that hooks have not judged, so that no model has seen it.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingInput {
    /// Identifies it in [`TurnRequest::InputVerdict`].
    pub key: String,
    pub content: Vec<Block>,
    /// It is the turn's prompt, not a steer.
    pub prompt: bool,
}

/// What hooks decided about a message.
#[derive(Clone, Debug, PartialEq)]
pub enum HookedMessage {
    /// It joins the history with this content.
    Joins(Vec<Block>),
    /// No model sees it; it is returned at the turn's end.
    GivenBack,
}

/// The input of the next request.
#[derive(Debug)]
pub struct StepInput {
    /// The history as it is sent.
    pub items: Vec<Arc<HistoryItem>>,
    /// Compactions of the session that failed in a row.
    pub failed_compactions: u32,
    /// The session's mode; `None` in a sub-agent, which keeps the mode of its turn's start.
    pub mode: Option<Mode>,
}

/// The turn's end of the channel to the session's actor.
#[derive(Clone, Debug)]
pub struct SessionLink {
    messages: mpsc::Sender<TurnMessage>,
    account: Arc<SessionBudget>,
    cancel: CancellationToken,
}

impl SessionLink {
    /// Creates a link that sends to `messages`, takes room from `account`, and stops at `cancel`.
    pub fn new(
        messages: mpsc::Sender<TurnMessage>,
        account: Arc<SessionBudget>,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            messages,
            account,
            cancel,
        }
    }

    /// Sends an event. Waits while the client is slow or the store is behind.
    ///
    /// # Errors
    /// [`TurnStopped`] if the turn is canceled or the actor is gone. The event is lost then.
    pub async fn emit_event(&self, event: Event) -> Result<(), TurnStopped> {
        let weight = event.estimate_size();
        self.send_with_room(TurnRequest::Event(event), weight).await
    }

    /// Sends a delta. Waits while the client is slow or the store is behind.
    ///
    /// # Errors
    /// [`TurnStopped`] if the turn is canceled or the actor is gone. The delta is lost then.
    pub async fn emit_delta(&self, delta: Delta) -> Result<(), TurnStopped> {
        let weight = delta.estimate_size();
        self.send_with_room(TurnRequest::Delta(delta), weight).await
    }

    async fn send_with_room(&self, body: TurnRequest, weight: usize) -> Result<(), TurnStopped> {
        let sent = async {
            let permit = Some(self.account.acquire_bytes(weight).await);
            self.messages.send(TurnMessage { body, permit }).await
        };
        // The cancel comes first, so that a slow client never delays it (R-CANCEL).
        tokio::select! { biased;
            () = self.cancel.cancelled() => Err(TurnStopped),
            sent = sent => sent.map_err(|_| TurnStopped),
        }
    }

    /// Sends an event even while the turn is being stopped, such as the result of a tool that was allowed to finish.
    /// Takes its bytes without waiting for room.
    ///
    /// # Errors
    /// [`TurnStopped`] if the actor is gone.
    pub async fn emit_late(&self, event: Event) -> Result<(), TurnStopped> {
        let permit = Some(self.account.take(event.estimate_size()));
        self.messages
            .send(TurnMessage {
                body: TurnRequest::Event(event),
                permit,
            })
            .await
            .map_err(|_| TurnStopped)
    }

    /// Returns the same link with another cancel token.
    pub fn with_cancel_token(&self, cancel: CancellationToken) -> Self {
        Self {
            cancel,
            ..self.clone()
        }
    }

    /// Forwards an event that an intermediary received. It is never lost, not even while the turn is being stopped.
    ///
    /// # Errors
    /// [`TurnStopped`] if the actor is gone.
    pub async fn forward_event(&self, event: Event) -> Result<(), TurnStopped> {
        let weight = event.estimate_size();
        // A cancel must not lose the event, so it then takes its room without waiting.
        let permit = tokio::select! { biased;
            () = self.cancel.cancelled() => self.account.take(weight),
            permit = self.account.acquire_bytes(weight) => permit,
        };
        let permit = Some(permit);
        let message = TurnMessage {
            body: TurnRequest::Event(event),
            permit,
        };
        self.messages.send(message).await.map_err(|_| TurnStopped)
    }

    /// Forwards a request whose answer goes directly to somebody else.
    ///
    /// # Errors
    /// [`TurnStopped`] if the actor is gone.
    pub async fn forward_request(&self, body: TurnRequest) -> Result<(), TurnStopped> {
        let message = TurnMessage { body, permit: None };
        self.messages.send(message).await.map_err(|_| TurnStopped)
    }

    /// Waits for `wait`, during which another part of the turn asks the user. The clock of the waiting sub-agent is
    /// paused.
    ///
    /// # Errors
    /// [`TurnStopped`] if the turn is canceled or the actor is gone.
    pub async fn pause_clock_during<T>(&self, wait: impl Future<Output = T>) -> Result<T, TurnStopped> {
        // Dropping `_waits`, on return or by a cancel, tells the other side that the wait is over.
        let (_waits, wait_end) = oneshot::channel();
        self.forward_request(TurnRequest::PauseClock(wait_end)).await?;
        tokio::select! { biased;
            () = self.cancel.cancelled() => Err(TurnStopped),
            waited = wait => Ok(waited),
        }
    }

    /// Lets waiting steers join, and returns the history for the next request.
    ///
    /// # Errors
    /// [`TurnStopped`] if the turn is canceled or the actor is gone.
    pub async fn begin_step(&self) -> Result<StepInput, TurnStopped> {
        self.ask_for(TurnRequest::BeginStep).await
    }

    /// Returns the messages that no model has seen. With `closes` the turn is about to end: if there is none, it may,
    /// and the actor refuses steers from then on.
    ///
    /// # Errors
    /// [`TurnStopped`] if the turn is canceled or the actor is gone.
    pub async fn fetch_pending_inputs(&self, closes: bool) -> Result<Vec<PendingInput>, TurnStopped> {
        self.ask_for(|reply| TurnRequest::FetchPendingInputs { closes, reply })
            .await
    }

    /// Reports what hooks decided about a message.
    ///
    /// # Errors
    /// [`TurnStopped`] if the turn is canceled or the actor is gone.
    pub async fn report_input_verdict(
        &self,
        key: String,
        hooked_message: HookedMessage,
    ) -> Result<(), TurnStopped> {
        let message = TurnMessage {
            body: TurnRequest::InputVerdict { key, hooked_message },
            permit: None,
        };
        tokio::select! { biased;
            () = self.cancel.cancelled() => Err(TurnStopped),
            sent = self.messages.send(message) => sent.map_err(|_| TurnStopped),
        }
    }

    /// Judges an effect by rules and grants. `approval` is an earlier turn's open question about it.
    ///
    /// # Errors
    /// [`TurnStopped`] if the turn is canceled or the actor is gone.
    pub async fn judge_effect(
        &self,
        tool: &str,
        effect: Effect,
        approval: Option<ApprovalId>,
    ) -> Result<Judgement, TurnStopped> {
        self.ask_for(|reply| TurnRequest::Judge {
            tool: tool.to_owned(),
            effect,
            approval,
            reply,
        })
        .await
    }

    /// Asks the user to approve a call, however long that takes.
    ///
    /// # Errors
    /// [`TurnStopped`] if the turn is canceled or the actor is gone.
    pub async fn request_approval(
        &self,
        approval: Approval,
        effect: Effect,
        needs_person: bool,
    ) -> Result<Decision, TurnStopped> {
        self.ask_for(|reply| TurnRequest::Approve {
            approval: Box::new(approval),
            effect,
            needs_person,
            reply,
        })
        .await
    }

    /// Asks the user about a limit, if the client takes questions.
    ///
    /// # Errors
    /// [`TurnStopped`] if the turn is canceled or the actor is gone.
    pub async fn ask_about_limit(&self, reached: LimitReached) -> Result<LimitAnswer, TurnStopped> {
        let reply = self
            .send_inquiry(InquiryRequest::New(RequestSubject::Limit(reached)))
            .await?;
        Ok(match reply {
            Some(InquiryReply::Raise(by)) => LimitAnswer::Raised(by),
            Some(InquiryReply::Accept) => LimitAnswer::Accepted,
            // Fail closed: only an explicit answer lets the turn spend more.
            Some(InquiryReply::Stop | InquiryReply::Answers(_) | InquiryReply::Dismissed) => {
                LimitAnswer::Stop
            }
            None => LimitAnswer::Holds,
        })
    }

    /// Asks the user a question of the agent, if the client takes questions.
    ///
    /// # Errors
    /// [`TurnStopped`] if the turn is canceled or the actor is gone.
    pub async fn ask_question(&self, question: AgentQuestion) -> Result<QuestionOutcome, TurnStopped> {
        let reply = self
            .send_inquiry(InquiryRequest::New(RequestSubject::Question(question)))
            .await?;
        Ok(match reply {
            Some(InquiryReply::Answers(answers)) => QuestionOutcome::Answers(answers),
            Some(
                InquiryReply::Raise(_) | InquiryReply::Accept | InquiryReply::Stop | InquiryReply::Dismissed,
            ) => QuestionOutcome::Dismissed,
            None => QuestionOutcome::Nobody,
        })
    }

    /// Asks the user, however long that takes. Returns `None` if the client takes no questions.
    ///
    /// # Errors
    /// [`TurnStopped`] if the turn is canceled or the actor is gone.
    pub async fn send_inquiry(&self, inquiry: InquiryRequest) -> Result<Option<InquiryReply>, TurnStopped> {
        self.ask_for(|reply| TurnRequest::Inquire { inquiry, reply })
            .await
    }

    async fn ask_for<T>(
        &self,
        body: impl FnOnce(oneshot::Sender<T>) -> TurnRequest,
    ) -> Result<T, TurnStopped> {
        let (reply, answer) = oneshot::channel();
        let message = TurnMessage {
            body: body(reply),
            permit: None,
        };
        let exchange = async {
            self.messages.send(message).await.map_err(|_| TurnStopped)?;
            // The actor drops a request that it cannot answer because the turn is over.
            answer.await.map_err(|_| TurnStopped)
        };
        tokio::select! { biased;
            () = self.cancel.cancelled() => Err(TurnStopped),
            answer = exchange => answer,
        }
    }
}

impl UserPrompt for SessionLink {
    fn request_reply(&self, question: AgentQuestion) -> BoxFuture<'static, Option<InquiryReply>> {
        let port = self.clone();
        Box::pin(async move {
            let reply = port
                .send_inquiry(InquiryRequest::New(RequestSubject::Question(question)))
                .await;
            reply.ok().flatten()
        })
    }

    fn withdraw_questions(&self) {
        let body = TurnRequest::WaiterGone;
        // Without room, or at the turn's end, the questions are settled together with the turn.
        let _ = self.messages.try_send(TurnMessage { body, permit: None });
    }
}
