//! The loop, on one screen.

use std::sync::Arc;

use super::again::ask_again;
use super::compact::{Summarised, collapse, drop_pictures, fit, floor, lacks_floor, no_room, summarise};
use super::conduct::Conduct;
use super::course::{Course, recovery_prompt, target_prompt};
use super::gate::Way;
use super::hear::{before_stop, hear, objected_too_often, steer_waits};
use super::limits::{at_step_limit, sum_up};
use super::port::Stopped;
use super::route::{Route, as_it_is_seen, before_step, goes_on, hop};
use super::step::{StepEnd, retract, step};
use super::tools::take_carried;
use super::transition::{Facts, Outcome, Progress, transition};
use super::{Finish, ResolvedModel, Task, TurnContext};
use crate::context::compact;
use crate::domain::{
    AgentError, CompactTrigger, ContinueReason, ErrorCode, Event, LimitName, Message, TerminalReason,
    Transition,
};
use crate::provider::Item;

/// The code of the warning that says why a model was chosen that nobody named. Each turn says it; a session that
/// has been told so lets it pass.
pub const MODEL_CHOSEN: &str = "model_chosen";

/// Runs a turn to its end. `Err` means that it was stopped from outside; the actor knows why.
pub async fn run_turn(cx: &TurnContext) -> Result<Finish, Stopped> {
    let mut conduct = Conduct::default();
    let again = ask_again(cx).await?;
    if let Some(what) = again.stop {
        let end = StepEnd {
            detail: Some(format!("the person chose to stop: {what}")),
            ..StepEnd::of(Outcome::StoppedByUser)
        };
        return end_early(cx, &conduct, end).await;
    }
    if let Some(end) = take_carried(cx, &mut conduct).await? {
        return end_early(cx, &conduct, end).await;
    }
    let mut course = match resolve(cx).await? {
        Ok(model) => Course::new(model, floor(cx), cx.context.auto_compact),
        Err(error) => return unresolved(cx, error).await,
    };
    course.count_as(cx.counting.clone());
    course.conduct = conduct;
    course.way = way(cx);
    course.route = Route::new(course.model.clone(), cx.answering.clone());
    for (limit, by) in again.raised {
        cx.purse.raise(limit, by);
        if limit == LimitName::Steps {
            course.raise_steps(by);
        }
    }
    if let Task::Compact { instructions } = &cx.task {
        return compact_by_hand(cx, &mut course, instructions.as_deref()).await;
    }
    loop {
        if let Some(end) = hear(cx, &mut course.conduct).await? {
            return end_early(cx, &course.conduct, end).await;
        }
        let (items, mut end) = take_step(cx, &mut course).await?;
        let joined = before_stop(cx, &mut course, &mut end).await?;
        let facts = look(cx, &course, &items, (&mut end, joined)).await?;
        let next = transition(&course.progress, &course.limits(&cx.limits), end.outcome, &facts);
        let next = at_step_limit(cx, &mut course, &mut end, &facts, next).await?;
        settle_held(cx, &mut end, next).await?;
        objected_too_often(cx, &end, next).await?;
        let summed_up = sum_up(cx, &mut course, next).await?;
        tell(cx, next, end.detail.clone()).await?;
        course.took(next, &facts);
        match next {
            Transition::Continue(reason) => go_on(cx, &mut course, &items, reason, end.error).await?,
            Transition::Terminal(reason) => {
                let error = end.error.filter(|_| !summed_up);
                return Ok(Finish {
                    summed_up,
                    ..finish(&course.conduct, reason, error)
                });
            }
        }
    }
}

/// What is known of the way to the providers.
pub(super) fn way(cx: &TurnContext) -> Way {
    let way = Way::new(cx.met.iter().cloned());
    match cx.depth {
        0 => way,
        _ => way.by_machine(),
    }
}

/// What ends the turn whatever the model would say.
async fn end_early(cx: &TurnContext, conduct: &Conduct, end: StepEnd) -> Result<Finish, Stopped> {
    let next = transition(&Progress::default(), &cx.limits, end.outcome, &Facts::default());
    tell(cx, next, end.detail).await?;
    match next {
        Transition::Terminal(reason) => Ok(finish(conduct, reason, end.error)),
        Transition::Continue(_) => Err(Stopped),
    }
}

/// A turn that does nothing but make the history smaller (`agent/compact`).
async fn compact_by_hand(
    cx: &TurnContext,
    course: &mut Course,
    instructions: Option<&str>,
) -> Result<Finish, Stopped> {
    let items = cx.port.begin_step().await?.items;
    course.used.context = course.estimate(&items);
    let (reason, detail, error) =
        match summarise(cx, course, &items, CompactTrigger::Manual, instructions).await? {
            Summarised::Smaller => (TerminalReason::Completed, None, None),
            Summarised::Same(why) => (TerminalReason::Completed, Some(why.to_owned()), None),
            Summarised::Failed(error) => (TerminalReason::ModelError, Some(error.to_string()), Some(error)),
            Summarised::Limited(end) => return end_early(cx, &course.conduct, *end).await,
        };
    tell(cx, Transition::Terminal(reason), detail).await?;
    Ok(finish(&course.conduct, reason, error))
}

/// One step, with the history as it fits the model that is asked.
async fn take_step(cx: &TurnContext, course: &mut Course) -> Result<(Vec<Arc<Item>>, StepEnd), Stopped> {
    if let Some(end) = before_step(cx, course).await? {
        return Ok((Vec::new(), end));
    }
    let items = fit(cx, course).await?;
    let items = as_it_is_seen(cx, course, items).await?;
    let end = match no_room(cx, course, &items) {
        Some(end) => end,
        None => step(cx, course, &items).await?,
    };
    Ok((items, end))
}

pub(super) async fn resolve(cx: &TurnContext) -> Result<Result<ResolvedModel, AgentError>, Stopped> {
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
                code: MODEL_CHOSEN.to_owned(),
                message: why.clone(),
            };
            cx.port.emit(chosen).await?;
        }
    }
    Ok(resolved)
}

/// There is no model to ask.
async fn unresolved(cx: &TurnContext, error: AgentError) -> Result<Finish, Stopped> {
    let reason = match error.code {
        ErrorCode::Config => TerminalReason::NotConfigured,
        _ => TerminalReason::ModelError,
    };
    // What was said while it was looked for is not lost: the actor gives it back with the turn's end.
    tell(cx, Transition::Terminal(reason), Some(error.to_string())).await?;
    Ok(finish(&Conduct::default(), reason, Some(error)))
}

/// What is possible now.
async fn look(
    cx: &TurnContext,
    course: &Course,
    items: &[Arc<Item>],
    (end, joined): (&mut StepEnd, bool),
) -> Result<Facts, Stopped> {
    let rests = matches!(end.outcome, Outcome::Answered | Outcome::StopBlocked);
    let steer_waits = joined || rests && steer_waits(cx, end).await?;
    let may_shrink = !lacks_floor(course, items);
    Ok(Facts {
        steer_waits,
        larger_output: course.larger_output(cx.limits.max_escalations).is_some(),
        collapsible: may_shrink
            && end.outcome == Outcome::PromptTooLong
            && !compact::large_results(items).is_empty(),
        compactable: may_shrink && course.may_compact() && compact::middle(items).is_some(),
        pictures: end.outcome == Outcome::ImageRefused && compact::has_pictures(items),
        under_target: course.target_used(cx.limits.token_target).is_some(),
        next_on_route: end.outcome == Outcome::ProviderFailed && goes_on(cx, course),
        output_tokens: end.output_tokens,
        reflects: course.conduct.reflects(cx),
    })
}

/// A message that waits for the decision is kept or taken back.
async fn settle_held(cx: &TurnContext, end: &mut StepEnd, next: Transition) -> Result<(), Stopped> {
    let Some(held) = end.held.take() else {
        return Ok(());
    };
    let again = matches!(
        next,
        Transition::Continue(ContinueReason::MaxOutputTokensEscalate | ContinueReason::EmptyResponseRetry)
    );
    match held.message {
        Some(message) if !again => cx.port.emit(Event::Message(Arc::new(message))).await,
        Some(_) | None => retract(cx, held.shown).await,
    }
}

pub(super) async fn tell(
    cx: &TurnContext,
    transition: Transition,
    detail: Option<String>,
) -> Result<(), Stopped> {
    cx.port.emit(Event::Transition { transition, detail }).await
}

/// What a continue asks for before the next call.
async fn go_on(
    cx: &TurnContext,
    course: &mut Course,
    items: &[Arc<Item>],
    reason: ContinueReason,
    error: Option<AgentError>,
) -> Result<(), Stopped> {
    match reason {
        ContinueReason::CollapseDrainRetry => collapse(cx, course, items).await.map(drop),
        ContinueReason::ReactiveCompactRetry => {
            let trigger = CompactTrigger::Overflow;
            summarise(cx, course, items, trigger, None).await.map(drop)
        }
        ContinueReason::ImageRetry => drop_pictures(cx, course, items).await,
        ContinueReason::MaxOutputTokensEscalate => {
            course.escalate(cx.limits.max_escalations);
            Ok(())
        }
        ContinueReason::MaxOutputTokensRecovery => say(cx, recovery_prompt()).await,
        ContinueReason::TokenBudgetContinuation => match course.target_used(cx.limits.token_target) {
            Some(percent) => say(cx, target_prompt(percent)).await,
            None => Ok(()),
        },
        ContinueReason::Reflection => say(cx, course.conduct.reflection()).await,
        ContinueReason::StopHookBlocking => match course.conduct.words.take() {
            Some(words) => say(cx, words).await,
            None => Ok(()),
        },
        ContinueReason::ModelFallback => hop(cx, course, error).await,
        ContinueReason::NextTurn
        | ContinueReason::Planning
        | ContinueReason::EmptyResponseRetry
        | ContinueReason::PauseTurn => Ok(()),
    }
}

/// Says something to the model that people are not shown.
pub(super) async fn say(cx: &TurnContext, text: String) -> Result<(), Stopped> {
    let message = Message {
        hidden: true,
        ..Message::user_text(text)
    };
    cx.port.emit(Event::Message(Arc::new(message))).await
}

fn finish(conduct: &Conduct, reason: TerminalReason, error: Option<AgentError>) -> Finish {
    Finish {
        reason,
        error,
        degraded: conduct.degraded,
        summed_up: false,
    }
}
