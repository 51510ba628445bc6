//! The turn's one way to the session's actor: events out, questions and answers.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::base::CancellationToken;
use crate::base::backpressure::{Permit, SessionBudget};
use crate::domain::{
    AgentQuestion, Answers, ApprovalId, Block, Effect, Event, Inquiry, InquiryReply, LimitReached,
    RequestSubject, Risk, ToolCallId,
};
use crate::provider::HistoryItem;
use crate::tool::UserPrompt;

/// The turn shall stop, or nobody listens any more; it returns at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the turn was stopped")]
pub struct Stopped;

/// What a turn tells or asks.
#[derive(Debug)]
pub struct TurnMessage {
    /// What.
    pub body: TurnRequest,
    /// The room it takes in the pipe to the client.
    pub permit: Option<Permit>,
}

/// What a turn tells or asks.
#[derive(Debug)]
pub enum TurnRequest {
    /// Something happened.
    Event(Event),
    /// A step begins: waiting steers join the history, which is handed over.
    BeginStep(oneshot::Sender<StepInput>),
    /// A sub-agent's step begins: it waits, as the turn's own do, while a person is asked for more time.
    MayStep(oneshot::Sender<()>),
    /// A sub-agent waits for a person whom somebody beside it asks, until the other end is dropped.
    WaitsBeside(oneshot::Receiver<()>),
    /// Somebody of the turn does not wait for what it has asked any more: what nobody waits for is settled.
    Gone,
    /// What was said that hooks have not judged yet.
    Hear(oneshot::Sender<Vec<PendingInput>>),
    /// Hooks have judged something that was said.
    InputVerdict {
        /// Which.
        key: String,
        /// How.
        heard: HookedMessage,
    },
    /// Does a steer wait? If not, the turn may end: later steers are refused.
    MayEnd(oneshot::Sender<bool>),
    /// May this effect happen?
    Judge {
        /// The tool.
        tool: String,
        /// What it would do.
        effect: Effect,
        /// An earlier turn's question about it, which is open still and has to be settled.
        approval: Option<ApprovalId>,
        /// The answer.
        reply: oneshot::Sender<Judgement>,
    },
    /// A person shall decide.
    Ask {
        /// About what.
        question: Box<ApprovalQuestion>,
        /// The answer.
        reply: oneshot::Sender<ApprovalOutcome>,
    },
    /// A person shall say what to do about a limit, or answer a question of the agent.
    PersonRequest {
        /// What is asked.
        asked: Inquire,
        /// The answer; none where nobody can be asked.
        reply: oneshot::Sender<Option<InquiryReply>>,
    },
}

/// What a person shall be asked.
#[derive(Clone, Debug)]
pub enum Inquire {
    /// Something new.
    New(RequestSubject),
    /// Something new, asked by a sub-agent.
    Nested {
        /// The call that delegated to it.
        parent: ToolCallId,
        /// What is asked.
        subject: RequestSubject,
    },
    /// What an interrupted turn left open, under its id.
    Again(Arc<Inquiry>),
}

/// What became of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitOutcome {
    /// It was raised by this much: nano-dollars, steps, calls.
    Raised(u64),
    /// Go on without it: the price is not known.
    Accepted,
    /// The person said stop.
    Stop,
    /// Nobody can be asked: it holds.
    Holds,
}

/// What became of a question of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuestionOutcome {
    /// The answers to its fields.
    Answers(Answers),
    /// The person would not answer.
    Dismissed,
    /// Nobody can be asked.
    Nobody,
}

impl QuestionOutcome {
    /// The answer to a question that is a choice.
    pub fn chosen_answer(&self) -> Option<&str> {
        match self {
            Self::Answers(answers) => answers
                .get(crate::domain::user_request::CHOICE)?
                .first()
                .map(String::as_str),
            Self::Dismissed | Self::Nobody => None,
        }
    }
}

/// Something said that no model has seen.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingInput {
    /// Which.
    pub key: String,
    /// What it says.
    pub content: Vec<Block>,
    /// It is the turn's prompt, not a steer.
    pub prompt: bool,
}

/// What hooks decided about something said.
#[derive(Clone, Debug, PartialEq)]
pub enum HookedMessage {
    /// It joins the history, as it is now.
    Joins(Vec<Block>),
    /// No model sees it; it is given back at the turn's end.
    GivenBack,
}

/// What the next request is made of.
#[derive(Debug)]
pub struct StepInput {
    /// The history as it is sent.
    pub items: Vec<Arc<HistoryItem>>,
    /// So many compactions of the session failed in a row.
    pub failed_compactions: u32,
}

/// What rules and grants say.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// It may.
    Allow,
    /// A person must be asked.
    Ask {
        /// Why.
        why: String,
        /// How grave it is.
        risk: Risk,
        /// The rule that "always" would store.
        rule: Option<String>,
    },
    /// It may not; for the model.
    Deny(String),
}

/// A question for a person.
#[derive(Clone, Debug)]
pub struct ApprovalQuestion {
    /// An id from an earlier turn, when it is asked again.
    pub approval: Option<ApprovalId>,
    /// The call that waits.
    pub tool_call: ToolCallId,
    /// The tool.
    pub name: String,
    /// The arguments.
    pub input: Arc<Value>,
    /// A line for people.
    pub title: String,
    /// What it would do, to be judged again when rules change.
    pub effect: Effect,
    /// What it would change.
    pub diff: Option<Arc<str>>,
    /// How grave it is.
    pub risk: Risk,
    /// Why it is asked.
    pub why: String,
    /// The rule that "always" would store.
    pub rule: Option<String>,
    /// Asked although rules allow it: they do not settle it.
    pub insists: bool,
}

/// What a person decided.
#[derive(Clone, Debug, PartialEq)]
pub enum ApprovalOutcome {
    /// Go on, maybe with edited arguments.
    Allow {
        /// Edited arguments.
        input: Option<Arc<Value>>,
    },
    /// No.
    Deny {
        /// What the person said about it.
        feedback: Option<String>,
    },
}

/// The turn's end of the pipe.
#[derive(Clone, Debug)]
pub struct SessionLink {
    messages: mpsc::Sender<TurnMessage>,
    account: Arc<SessionBudget>,
    cancel: CancellationToken,
}

impl SessionLink {
    /// A port that sends to `messages`, takes room from `account`, and stops at `cancel`.
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

    /// Tells an event; waits while the client is slow or the store is behind.
    pub async fn emit_event(&self, event: Event) -> Result<(), Stopped> {
        let weight = event.estimate_size();
        let sent = async {
            let permit = self.account.acquire_bytes(weight).await;
            self.messages
                .send(TurnMessage {
                    body: TurnRequest::Event(event),
                    permit: Some(permit),
                })
                .await
        };
        tokio::select! { biased;
            () = self.cancel.cancelled() => Err(Stopped),
            sent = sent => sent.map_err(|_| Stopped),
        }
    }

    /// Tells an event even when the turn is being stopped: results of tools that were let finish, what was
    /// spent.
    pub async fn emit_late(&self, event: Event) -> Result<(), Stopped> {
        let permit = Some(self.account.take(event.estimate_size()));
        self.messages
            .send(TurnMessage {
                body: TurnRequest::Event(event),
                permit,
            })
            .await
            .map_err(|_| Stopped)
    }

    /// The same port for whom another token stops.
    pub fn with_cancel_token(&self, cancel: CancellationToken) -> Self {
        Self {
            cancel,
            ..self.clone()
        }
    }

    /// Tells what was told to somebody in between: never lost, not even when the turn is being stopped.
    pub async fn hand_on(&self, event: Event) -> Result<(), Stopped> {
        let weight = event.estimate_size();
        let permit = tokio::select! { biased;
            () = self.cancel.cancelled() => self.account.take(weight),
            permit = self.account.acquire_bytes(weight) => permit,
        };
        let permit = Some(permit);
        let message = TurnMessage {
            body: TurnRequest::Event(event),
            permit,
        };
        self.messages.send(message).await.map_err(|_| Stopped)
    }

    /// Asks for somebody who waits for the answer.
    pub async fn forward_request(&self, body: TurnRequest) -> Result<(), Stopped> {
        let message = TurnMessage { body, permit: None };
        self.messages.send(message).await.map_err(|_| Stopped)
    }

    /// Waits until somebody beside has asked a person: no time of whoever waits.
    pub async fn waits_beside<T>(&self, wait: impl Future<Output = T>) -> Result<T, Stopped> {
        let (_waits, over) = oneshot::channel();
        self.forward_request(TurnRequest::WaitsBeside(over)).await?;
        tokio::select! { biased;
            () = self.cancel.cancelled() => Err(Stopped),
            waited = wait => Ok(waited),
        }
    }

    /// Lets waiting steers join, and gives the history for the next request.
    pub async fn begin_step(&self) -> Result<StepInput, Stopped> {
        self.ask_for(TurnRequest::BeginStep).await
    }

    /// What was said that hooks have not judged yet.
    pub async fn fetch_pending_inputs(&self) -> Result<Vec<PendingInput>, Stopped> {
        self.ask_for(TurnRequest::Hear).await
    }

    /// Tells what hooks decided about something said.
    pub async fn report_input_verdict(&self, key: String, heard: HookedMessage) -> Result<(), Stopped> {
        let message = TurnMessage {
            body: TurnRequest::InputVerdict { key, heard },
            permit: None,
        };
        tokio::select! { biased;
            () = self.cancel.cancelled() => Err(Stopped),
            sent = self.messages.send(message) => sent.map_err(|_| Stopped),
        }
    }

    /// Whether the turn may end: no steer waits.
    pub async fn may_end(&self) -> Result<bool, Stopped> {
        self.ask_for(TurnRequest::MayEnd).await
    }

    /// Asks rules and grants.
    pub async fn judge_effect(
        &self,
        tool: &str,
        effect: Effect,
        approval: Option<ApprovalId>,
    ) -> Result<Judgement, Stopped> {
        self.ask_for(|reply| TurnRequest::Judge {
            tool: tool.to_owned(),
            effect,
            approval,
            reply,
        })
        .await
    }

    /// Asks a person, however long it takes.
    pub async fn request_approval(&self, question: ApprovalQuestion) -> Result<ApprovalOutcome, Stopped> {
        self.ask_for(|reply| TurnRequest::Ask {
            question: Box::new(question),
            reply,
        })
        .await
    }

    /// Asks a person about a limit, where the client takes questions.
    pub async fn ask_about_limit(&self, reached: LimitReached) -> Result<LimitOutcome, Stopped> {
        let said = self
            .send_inquiry(Inquire::New(RequestSubject::Limit(reached)))
            .await?;
        Ok(match said {
            Some(InquiryReply::Raise(by)) => LimitOutcome::Raised(by),
            Some(InquiryReply::Accept) => LimitOutcome::Accepted,
            Some(InquiryReply::Stop | InquiryReply::Answers(_) | InquiryReply::Dismissed) => {
                LimitOutcome::Stop
            }
            None => LimitOutcome::Holds,
        })
    }

    /// Asks a person a question of the agent, where the client takes questions.
    pub async fn ask_question(&self, question: AgentQuestion) -> Result<QuestionOutcome, Stopped> {
        let said = self
            .send_inquiry(Inquire::New(RequestSubject::Question(question)))
            .await?;
        Ok(match said {
            Some(InquiryReply::Answers(answers)) => QuestionOutcome::Answers(answers),
            Some(
                InquiryReply::Raise(_) | InquiryReply::Accept | InquiryReply::Stop | InquiryReply::Dismissed,
            ) => QuestionOutcome::Dismissed,
            None => QuestionOutcome::Nobody,
        })
    }

    /// Asks a person, however long it takes; none where nobody can be asked.
    pub async fn send_inquiry(&self, asked: Inquire) -> Result<Option<InquiryReply>, Stopped> {
        self.ask_for(|reply| TurnRequest::PersonRequest { asked, reply })
            .await
    }

    async fn ask_for<T>(&self, body: impl FnOnce(oneshot::Sender<T>) -> TurnRequest) -> Result<T, Stopped> {
        let (reply, answer) = oneshot::channel();
        let message = TurnMessage {
            body: body(reply),
            permit: None,
        };
        let asked = async {
            self.messages.send(message).await.map_err(|_| Stopped)?;
            answer.await.map_err(|_| Stopped)
        };
        tokio::select! { biased;
            () = self.cancel.cancelled() => Err(Stopped),
            answer = asked => answer,
        }
    }
}

impl UserPrompt for SessionLink {
    fn request_reply(&self, question: AgentQuestion) -> BoxFuture<'static, Option<InquiryReply>> {
        let port = self.clone();
        Box::pin(async move {
            let asked = port
                .send_inquiry(Inquire::New(RequestSubject::Question(question)))
                .await;
            asked.ok().flatten()
        })
    }
}
