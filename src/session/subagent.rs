//! Sub-agents (R-SUB): what a child shares with its parent, and how it is run.
//!
//! A child is a turn within a turn. It shares the budget, pacing, circuits, checkpoints and the user with its parent.
//! It has its own history, model, tools and time limit. A [`SubagentBridge`] connects the two; the session's actor
//! knows only what that bridge forwards.
//!
//! Keeps I10: a child's cancel token derives from its call's, and its budget is the turn's.

mod bridge;

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::{self, Instant};
use futures::future::BoxFuture;
use tokio::sync::mpsc;

use self::bridge::SubagentBridge;
use super::command::SessionInfo;
use super::services::{Services, SessionSettings, SubagentModel};
use crate::base::CancellationToken;
use crate::base::backpressure::ByteBudget;
use crate::base::spawn::{TaskError, spawn};
use crate::config::StringList;
use crate::domain::{Message, TurnState};
use crate::tool::delegate::Delegate;
use crate::tool::present_plan::PresentPlan;
use crate::tool::{ChildState, Spawner, SubagentJob, SubagentReport, Tool, ToolRecords, TurnTools};
use crate::turn::{
    ModelChoice, Resumption, SessionLink, SystemPromptSource, TurnContext, TurnFinish, TurnLimits,
    TurnSettings, TurnStopped, TurnTask, load_system_prompt, run_turn, wrap_up,
};

/// The depth at which no further delegation is possible (R-SUB). The turn itself is at depth 0.
const DEEPEST: u32 = 3;
/// Messages of a child that may wait for its bridge; beyond it the child waits.
const QUEUE: usize = 64;
/// Bytes of a child's events that may wait for its bridge. They are not taken from the session's budget: its parent's
/// call streams the child's text, so the child would wait for room that its own text occupies.
const QUEUE_BYTES: usize = 64 << 10;
/// The time of a child's last step after its time limit.
const WRAP_UP: Duration = Duration::from_secs(30);

/// Follows a child's prompt.
const ABOUT: &str = "\n\n[You work for another agent that gave you this task. Nobody answers questions in between, and \
                     your last message is all that it gets: put everything in that it needs, with file names and lines, \
                     and say what you could not do.]";

/// Builds the sub-agents of a session's turns.
#[derive(Clone)]
pub(super) struct SubagentFactory {
    services: Arc<Services>,
    info: SessionInfo,
    /// Tools that no sub-agent may have, because an agent above it must not have them.
    denied: StringList,
    records: ToolRecords,
}

impl SubagentFactory {
    pub(super) fn new(
        services: &Arc<Services>,
        info: &SessionInfo,
        profile: &SessionSettings,
        records: ToolRecords,
    ) -> Self {
        Self {
            services: services.clone(),
            info: info.clone(),
            denied: profile.tools.never.clone(),
            records,
        }
    }

    /// Lets a turn delegate, once its system prompt is loaded.
    fn install_subagent_tools(self, cx: &mut TurnContext) {
        let parent = cx.clone();
        cx.spawner = Arc::new(SubagentSpawner {
            family: self,
            cx: parent,
        });
    }
}

/// Runs a session's own turn, which may delegate.
pub(super) async fn run_delegating_turn(
    mut cx: TurnContext,
    task: TurnTask,
    subagents: SubagentFactory,
) -> Result<TurnFinish, TurnStopped> {
    load_system_prompt(&mut cx).await?;
    subagents.install_subagent_tools(&mut cx);
    run_turn(&cx, &task).await
}

/// Starts the sub-agents of one turn.
struct SubagentSpawner {
    family: SubagentFactory,
    /// The parent's context when its turn began.
    cx: TurnContext,
}

impl Spawner for SubagentSpawner {
    fn agent_names(&self) -> Vec<String> {
        self.family.services.profiles.agent_names(&self.family.info)
    }

    fn run_job(&self, mut job: SubagentJob) -> BoxFuture<'static, SubagentReport> {
        // Counted for the whole turn, so that nesting cannot get around the limit.
        let most = self.cx.settings.limits.max_subagents;
        if self.cx.services.budget.count_subagent() > most {
            let reason = format!(
                "this turn has started {most} sub-agents, which is its limit: do the rest yourself \
                 (the user can raise `max_subagents` in [agent.NAME])"
            );
            return Box::pin(std::future::ready(SubagentReport::new_empty(
                ChildState::Failed,
                reason,
            )));
        }
        let (up, parent) = (self.cx.link.clone(), self.cx.clone());
        // Two levels: running out of time stops the work, but leaves the last step.
        let cut = job.cancel.child_token();
        let work = cut.child_token();
        let (messages, inbox) = mpsc::channel(QUEUE);
        let account = ByteBudget::new(QUEUE_BYTES).open_session(QUEUE_BYTES);
        let port = SessionLink::new(messages, account, work.clone());
        let child = self.start_child(&mut job, port, work.clone(), parent);
        let relay = SubagentBridge::new(&job, up, child.read_only);
        Box::pin(async move { run_child(child, relay, inbox, ChildCancel { work, cut }, job).await })
    }
}

/// A sub-agent that is ready to run.
struct RunningSubagent {
    cx: TurnContext,
    family: SubagentFactory,
    read_only: bool,
}

/// The tokens that stop a child.
struct ChildCancel {
    /// Stops its work, when its time is up.
    work: CancellationToken,
    /// Stops its work and its last step.
    cut: CancellationToken,
}

impl SubagentSpawner {
    fn start_child(
        &self,
        job: &mut SubagentJob,
        port: SessionLink,
        work: CancellationToken,
        parent: TurnContext,
    ) -> RunningSubagent {
        let mut family = self.family.clone();
        let settings = TurnSettings {
            prompt_source: SystemPromptSource::Fixed(parent.prompt.text.clone()),
            limits: TurnLimits {
                // The token target is the turn's own, not each sub-agent's.
                token_target: None,
                ..parent.settings.limits
            },
            hooks: parent.settings.hooks.of_subagent(),
            ..parent.settings
        };
        let mut cx = TurnContext {
            link: port,
            cancel: work,
            depth: parent.depth + 1,
            workspace: Arc::new(parent.workspace.of_subagent()),
            settings,
            resumption: Resumption {
                announced_instructions: parent.resumption.announced_instructions,
                open_circuits: parent.resumption.open_circuits,
                ..Resumption::default()
            },
            ..parent
        };
        let mut read_only = false;
        if let Some(name) = &job.agent {
            let info = SessionInfo {
                agent: Some(name.clone()),
                ..family.info.clone()
            };
            let profile = family.services.profiles.session_settings(&info);
            family.denied.extend(profile.tools.never.iter().cloned());
            read_only = profile.read_only;
            cx.tools = build_child_tools(&family, &profile);
            cx.resumption.announced_instructions = None;
            if let Some(limit) = profile.wall_time {
                job.limit = job.limit.min(limit);
            }
            let mut choice = ModelChoice {
                agent: info.agent,
                ..ModelChoice::default()
            };
            if profile.subagent_model != SubagentModel::Own {
                let caller = cx.settings.choice;
                choice.model_agent = Some(caller.model_agent().unwrap_or("default").to_owned());
                (choice.model, choice.effort) = (caller.model, caller.effort);
                choice.has_provider = caller.has_provider;
                choice.cheap = profile.subagent_model == SubagentModel::Cheapest;
            }
            cx.settings = TurnSettings {
                choice,
                limits: TurnLimits {
                    // These limits count for the whole turn, including its sub-agents.
                    max_tool_calls: cx.settings.limits.max_tool_calls,
                    max_subagents: cx.settings.limits.max_subagents,
                    ..family.services.adjust_limits(&profile)
                },
                hooks: profile.turn.hooks.of_subagent(),
                mode: cx.settings.mode,
                tool_timeouts: cx.settings.tool_timeouts,
                tool_cooldowns: cx.settings.tool_cooldowns,
                ..profile.turn
            };
        }
        // A sub-agent reports to its parent, and only the session's own plan can change the session's mode.
        cx.tools = cx.tools.filter_fixed(|tool| tool != PresentPlan::NAME);
        if cx.depth >= DEEPEST {
            // R-SUB: at the depth limit the tool is not even offered.
            cx.tools = cx.tools.filter_fixed(|tool| tool != Delegate::NAME);
        }
        RunningSubagent {
            cx,
            family,
            read_only,
        }
    }
}

/// Returns the tools of a named agent, without those that an agent above it must not have.
fn build_child_tools(family: &SubagentFactory, profile: &SessionSettings) -> TurnTools {
    let all = family.services.client_tools(&profile.own_tools);
    profile.build_turn_tools(&all, &family.denied, &family.records)
}

/// The result of a child's task.
type SubagentResult = Result<TurnFinish, TurnStopped>;

/// Runs a child to its end. When its time is up it gets a last step. It is cut when that takes too long, or when it is
/// canceled.
async fn run_child(
    child: RunningSubagent,
    mut relay: SubagentBridge,
    mut inbox: mpsc::Receiver<crate::turn::TurnMessage>,
    tokens: ChildCancel,
    job: SubagentJob,
) -> SubagentReport {
    relay.push_user_message(Message::user_text(job.prompt + ABOUT));
    let RunningSubagent { mut cx, family, .. } = child;
    let cut = tokens.cut.clone();
    let mut task = spawn(async move {
        load_system_prompt(&mut cx).await?;
        family.install_subagent_tools(&mut cx);
        let result = run_turn(&cx, &TurnTask::Answer).await;
        // Only a time limit leaves `cut` open; a cancel must not start another model call.
        if result.is_err() && !cut.is_cancelled() {
            let last = TurnContext {
                link: cx.link.with_cancel_token(cut.clone()),
                cancel: cut,
                ..cx
            };
            wrap_up(&last).await?;
        }
        result
    });
    let result = loop {
        let deadline = relay.deadline();
        tokio::select! { biased;
            () = sleep_until_deadline(deadline) => if !tokens.work.is_cancelled() {
                tokens.work.cancel();
                relay.wraps_up(WRAP_UP);
            } else {
                tokens.cut.cancel();
                relay.is_cut();
            },
            () = relay.wait_for_answer() => {}
            Some(message) = inbox.recv() => relay.take(message).await,
            ended = &mut task => break ended,
        }
    };
    // The task has ended, but its last messages may still be in the queue.
    while let Ok(message) = inbox.try_recv() {
        relay.take(message).await;
    }
    relay.settle_open_items().await;
    let (state, reason) = final_child_state(result, relay.timed_out(), job.cancel.is_cancelled());
    relay.into_report(state, reason)
}

async fn sleep_until_deadline(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => clock::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Returns the final state of a child, and why.
fn final_child_state(
    result: Result<SubagentResult, TaskError>,
    timed_out: bool,
    cancelled: bool,
) -> (ChildState, Option<String>) {
    let finish = match result {
        Ok(Ok(finish)) => finish,
        Ok(Err(TurnStopped)) if cancelled => return (ChildState::Cancelled, None),
        Ok(Err(TurnStopped)) if timed_out => return (ChildState::TimedOut, None),
        Ok(Err(TurnStopped)) => return (ChildState::Failed, Some("it stopped without a reason".to_owned())),
        Err(error) => {
            tracing::error!(%error, "a sub-agent ended with a bug");
            return (ChildState::Failed, Some(format!("internal error: {error}")));
        }
    };
    let mut state = finish.reason.to_turn_state(finish.summed_up);
    if finish.degraded {
        state = state.after_failure();
    }
    let state = match state {
        TurnState::Completed => ChildState::Completed,
        TurnState::Degraded => ChildState::Degraded,
        TurnState::Failed => ChildState::Failed,
        // Only the user's choice at a question ends a turn like this from within.
        TurnState::Interrupted => ChildState::Stopped,
        TurnState::Cancelled => ChildState::Cancelled,
    };
    let reason = match (&finish.error, state) {
        (Some(error), _) => Some(error.to_string()),
        (None, ChildState::Completed) => None,
        (None, _) => Some(finish.reason.name().to_owned()),
    };
    (state, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{AgentError, ErrorCode, TerminalReason};

    #[test]
    fn each_end_of_a_child_has_its_state() {
        let finish = |reason, degraded, error: Option<AgentError>| {
            Ok(Ok(TurnFinish {
                reason,
                error,
                summed_up: false,
                degraded,
            }))
        };
        let error = AgentError::new(ErrorCode::BudgetExceeded, "too dear");
        for (result, timed_out, cancelled, state, expected_reason) in [
            (
                finish(TerminalReason::Completed, false, None),
                false,
                false,
                ChildState::Completed,
                None,
            ),
            // It was done before it noticed the cancel.
            (
                finish(TerminalReason::Completed, false, None),
                true,
                true,
                ChildState::Completed,
                None,
            ),
            (
                finish(TerminalReason::Completed, true, None),
                false,
                false,
                ChildState::Degraded,
                Some("completed"),
            ),
            (
                finish(TerminalReason::MaxOutputTokens, false, None),
                false,
                false,
                ChildState::Degraded,
                Some("max_output_tokens"),
            ),
            (
                finish(TerminalReason::BudgetExceeded, false, Some(error)),
                false,
                false,
                ChildState::Failed,
                Some("[budget_exceeded] too dear"),
            ),
            (
                finish(TerminalReason::StoppedByUser, false, None),
                false,
                false,
                ChildState::Stopped,
                Some("stopped_by_user"),
            ),
            (Ok(Err(TurnStopped)), false, true, ChildState::Cancelled, None),
            (Ok(Err(TurnStopped)), true, true, ChildState::Cancelled, None),
            (Ok(Err(TurnStopped)), true, false, ChildState::TimedOut, None),
            (
                Ok(Err(TurnStopped)),
                false,
                false,
                ChildState::Failed,
                Some("it stopped without a reason"),
            ),
            (
                Err(TaskError::Panicked("oh".to_owned())),
                false,
                false,
                ChildState::Failed,
                Some("internal error: task panicked: oh"),
            ),
        ] {
            let actual = super::final_child_state(result, timed_out, cancelled);
            assert_eq!((actual.0, actual.1.as_deref()), (state, expected_reason));
        }
    }
}
