//! The loop, on one screen.

use super::calls::{Call, run_calls};
use super::port::Stopped;
use super::step::{StepEnd, Used, step};
use super::transition::{Outcome, Progress, transition};
use super::{Finish, ResolvedModel, TurnContext};
use crate::domain::{AgentError, ErrorCode, Event, TerminalReason, Transition};

/// Runs a turn to its end. `Err` means that it was stopped from outside; the actor knows why.
pub async fn run_turn(cx: &TurnContext) -> Result<Finish, Stopped> {
    if !cx.carried.is_empty() {
        run_calls(cx, cx.carried.iter().cloned().map(Call::carried).collect()).await?;
    }
    let model = match resolve(cx).await? {
        Ok(model) => model,
        Err(error) => {
            let outcome = match error.code {
                ErrorCode::Config => Outcome::NotConfigured,
                _ => Outcome::ProviderFailed,
            };
            let end = StepEnd {
                outcome,
                detail: Some(error.to_string()),
                error: Some(error),
            };
            let next = decide(cx, &Progress::default(), &end).await?;
            return Ok(finish(cx, next, end));
        }
    };
    let mut progress = Progress::default();
    let mut used = Used::default();
    loop {
        let end = step(cx, &model, &mut used).await?;
        progress.steps += 1;
        match decide(cx, &progress, &end).await? {
            Transition::Continue(_) => {}
            terminal => return Ok(finish(cx, terminal, end)),
        }
    }
}

async fn resolve(cx: &TurnContext) -> Result<Result<ResolvedModel, AgentError>, Stopped> {
    let resolved = tokio::select! { biased;
        () = cx.cancel.cancelled() => return Err(Stopped),
        resolved = cx.models.resolve(&cx.choice) => resolved,
    };
    if let Ok(model) = &resolved {
        let model_changed = Event::SessionUpdated {
            title: None,
            mode: None,
            model: Some(model.label()),
            effort: None,
        };
        cx.port.emit(model_changed).await?;
        if let Some(why) = &model.why {
            let chosen = Event::Warning {
                code: "model_chosen".to_owned(),
                message: why.clone(),
            };
            cx.port.emit(chosen).await?;
        }
    }
    Ok(resolved)
}

/// Applies the pure core to what happened, and tells the decision.
async fn decide(cx: &TurnContext, progress: &Progress, end: &StepEnd) -> Result<Transition, Stopped> {
    let steer_waits = end.outcome == Outcome::Answered && !cx.port.may_end().await?;
    let next = transition(progress, &cx.limits, end.outcome, steer_waits);
    cx.port
        .emit(Event::Transition {
            transition: next,
            detail: end.detail.clone(),
        })
        .await?;
    Ok(next)
}

fn finish(cx: &TurnContext, transition: Transition, end: StepEnd) -> Finish {
    let reason = match transition {
        Transition::Terminal(reason) => reason,
        Transition::Continue(_) => TerminalReason::InternalError,
    };
    let error = match reason {
        TerminalReason::MaxTurns => Some(
            AgentError::new(
                ErrorCode::MaxIterations,
                format!("reached {} iterations without completion", cx.limits.max_steps),
            )
            .action("send a prompt to go on, or raise max_steps in the configuration"),
        ),
        _ => end.error,
    };
    Finish { reason, error }
}
