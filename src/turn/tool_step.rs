//! What a step's tool calls do to the turn: the doom-loop guard before them, failure policies and hooks after them.
//!
//! It must not run tools (that is `calls`) or decide transitions. It maps the ends of calls to one [`StepOutcome`].

use std::collections::BTreeSet;

use super::calls::run_calls;
use super::context::TurnContext;
use super::loop_guard::{self, LoopAction};
use super::outcome::StepOutcome;
use super::policy::PolicyState;
use super::session_link::{QuestionOutcome, TurnStopped};
use super::tool_limit::apply_tool_call_limit;
use super::tool_run::{ToolRun, ToolRunDisposition, ToolRunResult};
use super::transition::Outcome;
use crate::base::text;
use crate::config::FailurePolicy;
use crate::domain::user_request::STOP;
use crate::domain::{AgentError, AgentQuestion, ErrorCode};

/// What the model reads instead of a result when it repeats itself (R-LOOP-6).
const NUDGE: &str = "Not run: this is what you did in the steps before, with the same input, and it led nowhere. Look \
                     at what came of it and take another way. If you wait for something, wait with one command that \
                     ends when it is there; if you cannot get on, say what is missing.";
/// What the model reads about the calls with which a loop ends the turn.
const LOOPED: &str = "Not run: the same calls have led nowhere again and again, so the turn ends";
/// What the model reads about calls that the user stopped.
const STOPPED: &str = "Not run: stopped by the user";

/// Runs a step's calls, unless the turn keeps repeating them (R-LOOP-6).
pub(super) async fn run_tool_step(
    cx: &TurnContext,
    conduct: &mut PolicyState,
    calls: Vec<ToolRun>,
) -> Result<StepOutcome, TurnStopped> {
    // Polling with a wait tool repeats by design, so it does not count.
    let looked_at = calls.iter().filter(|call| !call.is_wait_call(cx));
    let polls = looked_at.clone().all(|call| call.is_of_mcp(cx));
    let fingerprint =
        loop_guard::fingerprint_calls(looked_at.map(|call| (call.name(), call.requested_arguments())));
    match conduct.repeats.next(fingerprint) {
        LoopAction::Run => {}
        LoopAction::Nudge => return run_calls_with_nudge(cx, calls).await,
        LoopAction::End => return end_loop(cx, calls).await,
        LoopAction::Ask => {
            let chosen = cx.link.ask_question(build_loop_question(&calls)).await?;
            match (chosen.chosen_answer(), &chosen) {
                (Some(STOP), _) => return stop(cx, calls).await,
                (_, QuestionOutcome::Answers(_)) => conduct.repeats.allow_continuation(),
                (_, QuestionOutcome::Dismissed | QuestionOutcome::Nobody) => {
                    return run_calls_with_nudge(cx, calls).await;
                }
            }
        }
    }
    let mut allowed = apply_tool_call_limit(cx, calls).await?;
    let ends = run_calls(cx, std::mem::take(&mut allowed.run), None).await?;
    // Refused calls get their results after the others: every call needs exactly one (I4).
    let limited = allowed.settle_denied_calls(cx).await?;
    conduct.repeats.record_results(
        loop_guard::fingerprint_results(ends.iter().map(|end| end.result)),
        polls,
    );
    let end = judge_results(cx, conduct, &ends);
    Ok(match limited {
        Some(limited) if end.outcome == Outcome::ToolsRan => limited,
        Some(_) | None => end,
    })
}

async fn run_calls_with_nudge(cx: &TurnContext, calls: Vec<ToolRun>) -> Result<StepOutcome, TurnStopped> {
    run_calls(cx, calls, Some(NUDGE)).await?;
    Ok(StepOutcome::from_outcome(Outcome::ToolsRan))
}

async fn end_loop(cx: &TurnContext, calls: Vec<ToolRun>) -> Result<StepOutcome, TurnStopped> {
    let message = format!(
        "the model kept repeating the same calls ({}), and they led nowhere",
        list_names(&calls)
    );
    run_calls(cx, calls, Some(LOOPED)).await?;
    let error = AgentError::new(ErrorCode::ProviderError, message)
        .with_user_action("say what to do differently, or choose another model");
    Ok(StepOutcome::from_failure(Outcome::Looping, error))
}

async fn stop(cx: &TurnContext, calls: Vec<ToolRun>) -> Result<StepOutcome, TurnStopped> {
    run_calls(cx, calls, Some(STOPPED)).await?;
    Ok(StepOutcome::with_detail(
        Outcome::StoppedByUser,
        "the user stopped repeated calls".to_owned(),
    ))
}

/// Builds the question whether the repetition should continue.
fn build_loop_question(calls: &[ToolRun]) -> AgentQuestion {
    let names = list_names(calls);
    let inputs: Vec<String> = calls
        .iter()
        .map(|call| {
            let input = call
                .requested_arguments()
                .map_or_else(str::to_owned, ToString::to_string);
            format!(
                "{} {}",
                call.name(),
                text::one_line(&text::strip_control_characters(&input), 300)
            )
        })
        .collect();
    AgentQuestion::with_choices(
        format!("The agent keeps repeating the same calls ({names}). Continue?"),
        Some(inputs.join("\n")),
        &[("go_on", "Go on"), (STOP, "Stop")],
    )
}

/// Returns the names of the tools that are called, each once.
fn list_names(calls: &[ToolRun]) -> String {
    let names: BTreeSet<&str> = calls.iter().map(ToolRun::name).collect();
    Vec::from_iter(names).join(", ")
}

/// Settles the calls that an earlier turn left open. Returns the outcome if it ends this turn.
pub(super) async fn settle_carried_calls(
    cx: &TurnContext,
    conduct: &mut PolicyState,
) -> Result<Option<StepOutcome>, TurnStopped> {
    if cx.resumption.carried.is_empty() {
        return Ok(None);
    }
    let calls = cx
        .resumption
        .carried
        .iter()
        .cloned()
        .map(ToolRun::from_carried)
        .collect();
    let ends = run_calls(cx, calls, None).await?;
    let end = judge_results(cx, conduct, &ends);
    Ok((end.outcome != Outcome::ToolsRan).then_some(end))
}

/// Derives the step's outcome from the ends of its calls.
fn judge_results(cx: &TurnContext, conduct: &mut PolicyState, ends: &[ToolRunResult]) -> StepOutcome {
    let mut failed = None;
    for end in ends {
        if end.disposition != ToolRunDisposition::Refused {
            // Only calls that ran count towards the next reflection (R-LOOP-3).
            conduct.calls = conduct.calls.saturating_add(1);
        }
        match end.disposition.failure_policy(&cx.settings.policy) {
            FailurePolicy::Continue => {}
            FailurePolicy::Degrade => conduct.degraded = true,
            // The first failure in call order names the error.
            FailurePolicy::Fail => failed = failed.or(Some(end)),
        }
    }
    if let Some(end) = failed {
        let outcome = match end.disposition {
            ToolRunDisposition::SubagentFailed => Outcome::SubagentFailed,
            ToolRunDisposition::JoinViolated => Outcome::JoinViolated,
            ToolRunDisposition::Ran
            | ToolRunDisposition::Refused
            | ToolRunDisposition::Failed
            | ToolRunDisposition::WrongInput
            | ToolRunDisposition::TimedOut => Outcome::ToolFailed,
        };
        return StepOutcome::from_failure(outcome, to_agent_error(end));
    }
    match ends.iter().find_map(|end| end.ended_by.as_ref()) {
        Some(objection) => StepOutcome::with_detail(Outcome::HookStopped, objection.to_detail()),
        None => StepOutcome::from_outcome(Outcome::ToolsRan),
    }
}

fn to_agent_error(end: &ToolRunResult) -> AgentError {
    let prepare_continuation = |setting: &str| {
        format!("send a prompt to continue, or set {setting} to \"continue\" in the configuration")
    };
    let (message, action) = match end.disposition {
        ToolRunDisposition::TimedOut => (
            format!("the tool {} timed out", end.tool),
            prepare_continuation("tool_timeout"),
        ),
        ToolRunDisposition::Ran
        | ToolRunDisposition::Refused
        | ToolRunDisposition::Failed
        | ToolRunDisposition::WrongInput => (
            format!("the tool {} failed", end.tool),
            prepare_continuation("tool_failure"),
        ),
        ToolRunDisposition::SubagentFailed => (
            "a sub-agent failed".to_owned(),
            prepare_continuation("subagent_failure"),
        ),
        ToolRunDisposition::JoinViolated => (
            "too few sub-agents succeeded".to_owned(),
            "send a prompt to continue".to_owned(),
        ),
    };
    AgentError::new(ErrorCode::ToolExecution, message)
        .with_cause(text::one_line(
            &text::strip_control_characters(&end.failure_text),
            500,
        ))
        .with_user_action(action)
}
