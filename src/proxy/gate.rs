//! Decides whether a command may connect to a host, and asks the user at most once per session for each.
//!
//! One question is open at a time in a session. A command gets at most [`MAX_QUESTIONS`]; further hosts are denied.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, watch};

use super::prompt::HostPrompt;
use super::report::{Denial, MAX_QUESTIONS, ProxyReport};
use crate::base::address::not_public;
use crate::domain::{HostRule, HostTarget};

/// What the user answered about hosts in a session, and the right to ask.
#[derive(Debug, Default)]
pub struct SessionHosts {
    answers: Mutex<HashMap<HostRule, bool>>,
    asking: tokio::sync::Mutex<()>,
}

impl SessionHosts {
    fn find_answer(&self, rule: &HostRule) -> Option<bool> {
        lock(&self.answers).get(rule).copied()
    }
}

type Verdict = Result<(), Denial>;
type Answer = watch::Receiver<Option<Verdict>>;

/// A host that the user is to be asked about.
struct HostQuestion {
    target: HostTarget,
    answer: watch::Sender<Option<Verdict>>,
}

/// Decides for one command.
pub(super) struct HostGate {
    rules: Vec<HostRule>,
    session: Arc<SessionHosts>,
    /// The hosts that this command asked for, with what came of it.
    asked: Mutex<HashMap<HostRule, Answer>>,
    questions: mpsc::Sender<HostQuestion>,
    prompt: Arc<dyn HostPrompt>,
    report: Arc<ProxyReport>,
}

impl HostGate {
    /// Creates the gate, and the work of asking: it must run for questions to be answered.
    pub(super) fn new(
        rules: Vec<HostRule>,
        session: Arc<SessionHosts>,
        prompt: Arc<dyn HostPrompt>,
        report: Arc<ProxyReport>,
    ) -> (Self, impl Future<Output = ()>) {
        let (questions, queue) = mpsc::channel(MAX_QUESTIONS);
        let asking = answer_questions(queue, session.clone(), prompt.clone(), report.clone());
        let gate = Self {
            rules,
            session,
            asked: Mutex::default(),
            questions,
            prompt,
            report,
        };
        (gate, asking)
    }

    /// Waits until it is decided whether the command may connect. Looks nothing up.
    ///
    /// # Errors
    /// It may not; the refusal is in the report.
    pub(super) async fn request_access(&self, target: &HostTarget) -> Result<(), Denial> {
        let verdict = self.judge_target(target).await;
        if let Err(denial) = verdict {
            self.record_refusal(target, denial);
        }
        verdict
    }

    /// Notes in the report that a target was refused.
    pub(super) fn record_refusal(&self, target: &HostTarget, denial: Denial) {
        self.report.add_refusal(target, denial);
    }

    /// Returns whether an entry spells the target out, which also allows it if it is not public.
    pub(super) fn is_named(&self, target: &HostTarget) -> bool {
        self.rules.iter().any(|rule| rule.names(target))
    }

    async fn judge_target(&self, target: &HostTarget) -> Verdict {
        if self.rules.iter().any(|rule| rule.covers(target)) {
            return Ok(());
        }
        // The answer to a question could not allow it.
        if let Some(kind) = target.address().and_then(not_public) {
            return Err(Denial::Private(kind));
        }
        let rule = target.to_rule();
        if let Some(is_allowed) = self.session.find_answer(&rule) {
            return to_verdict(Some(is_allowed));
        }
        let mut answer = self.enqueue_question(rule, target)?;
        match answer.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(verdict)) => *verdict,
            Ok(None) | Err(_) => Err(Denial::Unanswered),
        }
    }

    /// Returns what will be the answer about the target. The same host is asked about once.
    fn enqueue_question(&self, rule: HostRule, target: &HostTarget) -> Result<Answer, Denial> {
        let mut asked = lock(&self.asked);
        if self.prompt.asks_again() {
            // The session knows the answers.
            asked.retain(|_, answer| answer.borrow().is_none());
        }
        if let Some(known) = asked.get(&rule) {
            return Ok(known.clone());
        }
        if !self.prompt.can_ask() {
            return Err(Denial::Unanswered);
        }
        if asked.len() >= MAX_QUESTIONS {
            return Err(Denial::TooMany);
        }
        let (answer, receiver) = watch::channel(None);
        let question = HostQuestion {
            target: target.clone(),
            answer,
        };
        // The queue has room for as many as there can be.
        self.questions
            .try_send(question)
            .map_err(|_| Denial::Unanswered)?;
        asked.insert(rule, receiver.clone());
        Ok(receiver)
    }
}

/// Asks about one host after the other.
async fn answer_questions(
    mut queue: mpsc::Receiver<HostQuestion>,
    session: Arc<SessionHosts>,
    prompt: Arc<dyn HostPrompt>,
    report: Arc<ProxyReport>,
) {
    while let Some(HostQuestion { target, answer }) = queue.recv().await {
        let _asking = AskingFlag::set(&report);
        let _right = session.asking.lock().await;
        let rule = target.to_rule();
        // Another command of the session may have asked meanwhile.
        let is_allowed = match session.find_answer(&rule) {
            Some(known) => Some(known),
            None => {
                let given = prompt.ask(&target).await;
                if let Some(is_allowed) = given {
                    lock(&session.answers).insert(rule, is_allowed);
                }
                given
            }
        };
        answer.send_replace(Some(to_verdict(is_allowed)));
    }
}

fn to_verdict(is_allowed: Option<bool>) -> Verdict {
    match is_allowed {
        Some(true) => Ok(()),
        Some(false) => Err(Denial::ByUser),
        None => Err(Denial::Unanswered),
    }
}

/// Says in the report that a question is open, until it is dropped.
struct AskingFlag<'a>(&'a ProxyReport);

impl<'a> AskingFlag<'a> {
    fn set(report: &'a ProxyReport) -> Self {
        report.set_asking(true);
        Self(report)
    }
}

impl Drop for AskingFlag<'_> {
    fn drop(&mut self) {
        self.0.set_asking(false);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The maps are consistent after every statement.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
