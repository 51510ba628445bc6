//! Runs the `prompt` hooks before the model sees a message, and the `stop` hooks before a turn completes. Also asks for
//! the plan with which a session can begin (R-LOOP-2).
//!
//! It must not run hook commands itself (that is `hooks`) or decide transitions. A message that a hook blocks is
//! returned at the turn's end (I16).

use serde_json::{Map, Value, json};

use super::context::TurnContext;
use super::emit::{emit_transition, emit_warning, push_hidden_message};
use super::hook_runs::{HookVerdict, run_hooks};
use super::loop_state::LoopState;
use super::outcome::StepOutcome;
use super::policy::{PLANNING_PROMPT, PolicyState};
use super::session_link::{HookedMessage, PendingInput, TurnStopped};
use super::transition::{Outcome, TransitionFacts, next_transition};
use crate::config::HookMoment;
use crate::domain::{Block, ContinueReason, TerminalReason, Transition};

/// Lets hooks judge new messages, and asks for a plan at the start of a session. Returns the outcome if a hook ended
/// the turn.
pub(super) async fn review_prompts_and_plan(
    cx: &TurnContext,
    conduct: &mut PolicyState,
) -> Result<Option<StepOutcome>, TurnStopped> {
    if cx.settings.hooks.has_hooks_for(HookMoment::Prompt) {
        let waiting = cx.link.fetch_pending_inputs(false).await?;
        if let ReviewOutcome::Ended(end) = review_inputs(cx, waiting).await? {
            return Ok(Some(*end));
        }
    }
    if cx.resumption.is_first_turn && cx.settings.policy.planning && !conduct.planned {
        conduct.planned = true;
        let detail = "asking for a plan first".to_owned();
        emit_transition(cx, Transition::Continue(ContinueReason::Planning), Some(detail)).await?;
        let prompt = cx.settings.policy.planning_prompt.as_deref();
        push_hidden_message(cx, prompt.unwrap_or(PLANNING_PROMPT).to_owned()).await?;
    }
    Ok(None)
}

/// The result of reviewing new messages.
enum ReviewOutcome {
    /// There was no message, or all were blocked.
    Nothing,
    /// At least one message joined the history.
    Joined,
    Ended(Box<StepOutcome>),
}

/// Lets hooks judge these messages, which no model has seen.
async fn review_inputs(cx: &TurnContext, waiting: Vec<PendingInput>) -> Result<ReviewOutcome, TurnStopped> {
    let mut listened = ReviewOutcome::Nothing;
    for waiting in waiting {
        match review_pending_input(cx, waiting).await? {
            ReviewOutcome::Nothing => {}
            ReviewOutcome::Joined => listened = ReviewOutcome::Joined,
            ended @ ReviewOutcome::Ended(_) => return Ok(ended),
        }
    }
    Ok(listened)
}

async fn review_pending_input(cx: &TurnContext, waiting: PendingInput) -> Result<ReviewOutcome, TurnStopped> {
    let PendingInput { key, content, prompt } = waiting;
    let verdict = run_hooks(
        cx,
        HookMoment::Prompt,
        None,
        build_prompt_hook_input(&content, prompt),
        "prompt",
    )
    .await?;
    let (objection, ends) = match verdict {
        HookVerdict::Pass { changed, .. } => {
            let content = match changed {
                Some(Value::String(text)) => replace_text(content, text),
                Some(_) | None => content,
            };
            cx.link
                .report_input_verdict(key, HookedMessage::Joins(content))
                .await?;
            return Ok(ReviewOutcome::Joined);
        }
        // A turn whose prompt is blocked has nothing to do, so it ends; a blocked steer changes nothing.
        HookVerdict::Block(objection) => (objection, prompt),
        HookVerdict::End(objection) => (objection, true),
    };
    cx.link
        .report_input_verdict(key, HookedMessage::GivenBack)
        .await?;
    let message = format!(
        "the hook `{}` blocked your message: {}",
        objection.hook, objection.words
    );
    emit_warning(cx, "hook_blocked", message).await?;
    Ok(if ends {
        ReviewOutcome::Ended(Box::new(StepOutcome::with_detail(
            Outcome::HookStopped,
            objection.to_detail(),
        )))
    } else {
        ReviewOutcome::Nothing
    })
}

/// Returns whether a message needs an answer, so that the turn cannot complete. Blocked messages do not. With `closes`
/// the turn is about to end, and no message joins it after the answer `false`.
pub(super) async fn steer_waits(
    cx: &TurnContext,
    end: &mut StepOutcome,
    closes: bool,
) -> Result<bool, TurnStopped> {
    loop {
        let waiting = cx.link.fetch_pending_inputs(closes).await?;
        if waiting.is_empty() {
            return Ok(false);
        }
        if !cx.settings.hooks.has_hooks_for(HookMoment::Prompt) {
            return Ok(true);
        }
        match review_inputs(cx, waiting).await? {
            // All messages were blocked; new ones may have arrived meanwhile.
            ReviewOutcome::Nothing => {}
            ReviewOutcome::Joined => return Ok(true),
            ReviewOutcome::Ended(outcome) => {
                *end = *outcome;
                return Ok(false);
            }
        }
    }
}

/// Builds the input of a `prompt` hook.
fn build_prompt_hook_input(content: &[Block], prompt: bool) -> Map<String, Value> {
    let text: Vec<&str> = content
        .iter()
        .filter_map(|block| match block {
            Block::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let references: Vec<Value> = content
        .iter()
        .filter_map(|block| match block {
            Block::Reference(reference) => Some(json!({"path": reference.path, "text": reference.text})),
            _ => None,
        })
        .collect();
    let mut input = Map::new();
    input.insert("prompt".to_owned(), text.join("\n").into());
    input.insert("references".to_owned(), references.into());
    input.insert("steer".to_owned(), (!prompt).into());
    input
}

/// Replaces the text of a message; its references stay in place.
fn replace_text(content: Vec<Block>, text: String) -> Vec<Block> {
    let at = content
        .iter()
        .position(|block| matches!(block, Block::Text(_)))
        .unwrap_or(0);
    let mut rewritten: Vec<Block> = Vec::with_capacity(content.len() + 1);
    let mut text = Some(text);
    for (n, block) in content.into_iter().enumerate() {
        if n == at {
            rewritten.extend(text.take().map(Block::Text));
        }
        if !matches!(block, Block::Text(_)) {
            rewritten.push(block);
        }
    }
    rewritten.extend(text.map(Block::Text));
    rewritten
}

/// Runs the `stop` hooks if the turn would end with the model's answer. Returns `true` if a message joined that must be
/// answered first.
pub(super) async fn before_stop(
    cx: &TurnContext,
    state: &mut LoopState,
    end: &mut StepOutcome,
) -> Result<bool, TurnStopped> {
    if end.outcome != Outcome::Answered || !cx.settings.hooks.has_hooks_for(HookMoment::Stop) {
        return Ok(false);
    }
    // A dry run of the decision: with a token target the turn would continue, so the hooks are not asked yet.
    let facts = TransitionFacts {
        under_target: state.target_used(cx.settings.limits.token_target).is_some(),
        output_tokens: end.output_tokens,
        ..TransitionFacts::default()
    };
    let rests = next_transition(&state.progress, &cx.settings.limits, Outcome::Answered, &facts)
        == Transition::Terminal(TerminalReason::Completed);
    if !rests {
        return Ok(false);
    }
    if steer_waits(cx, end, false).await? {
        return Ok(true);
    }
    if end.outcome != Outcome::Answered {
        return Ok(false);
    }
    let mut about = Map::new();
    about.insert("answer".to_owned(), end.answer.clone().unwrap_or_default().into());
    about.insert("objections".to_owned(), state.progress.stop_blocks().into());
    match run_hooks(cx, HookMoment::Stop, None, about, "").await? {
        HookVerdict::Pass { .. } => {}
        HookVerdict::Block(objection) => {
            state.conduct.pending_nudge = Some(format!(
                "A hook of the user (`{}`) objects to ending here: {}",
                objection.hook, objection.words
            ));
            end.outcome = Outcome::StopBlocked;
            end.detail = Some(objection.to_detail());
        }
        HookVerdict::End(objection) => {
            *end = StepOutcome::with_detail(Outcome::StopPrevented, objection.to_detail())
        }
    }
    Ok(false)
}

/// Warns that a stop hook is overruled because it has objected too often (R-LOOP-1).
pub(super) async fn objected_too_often(
    cx: &TurnContext,
    end: &StepOutcome,
    next: Transition,
) -> Result<(), TurnStopped> {
    if end.outcome != Outcome::StopBlocked || next != Transition::Terminal(TerminalReason::Completed) {
        return Ok(());
    }
    let objection = end.detail.as_deref().unwrap_or_default();
    let message = format!("the turn ends although a stop hook still objects ({objection})");
    emit_warning(cx, "stop_hook_overruled", message).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Reference, ReferenceKind};

    #[test]
    fn a_rewritten_text_keeps_its_position() {
        let text = |text: &str| Block::Text(text.to_owned());
        let reference = || {
            Block::Reference(Reference {
                kind: ReferenceKind::File,
                path: "a".to_owned(),
                lines: None,
                text: "x".to_owned(),
            })
        };
        for (content, wanted) in [
            (vec![text("a")], vec![text("n")]),
            (
                vec![reference(), text("a"), reference(), text("b")],
                vec![reference(), text("n"), reference()],
            ),
            (vec![reference()], vec![text("n"), reference()]),
            (vec![], vec![text("n")]),
        ] {
            assert_eq!(replace_text(content, "n".to_owned()), wanted);
        }
        let input = build_prompt_hook_input(&[text("a"), reference(), text("b")], true);
        assert_eq!(
            Value::Object(input),
            json!({"prompt": "a\nb", "references": [{"path": "a", "text": "x"}], "steer": false})
        );
    }
}
