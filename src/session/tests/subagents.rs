//! Sub-agents as the session reports them, with tools that no client can provide.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::Notify;

use super::turns::{FaultPlace, TurnFixture};
use crate::domain::*;
use crate::tool::delegate::Delegate;
use crate::tool::{Tool, ToolContext, ToolError, ToolOutput};

/// A tool that may finish after a cancel but never does. It notifies when it has begun.
struct Stubborn(Arc<Notify>);

impl Tool for Stubborn {
    type Input = FaultPlace;
    const NAME: &'static str = "stubborn";
    const FINISHES_ON_CANCEL: bool = true;
    const DESCRIPTION: &'static str = "Never ends, whoever asks.";

    fn call_title(&self, _: &FaultPlace) -> String {
        "stubborn".to_owned()
    }

    fn predict_effect(&self, _: &FaultPlace, _: &ToolContext) -> Result<Effect, ToolError> {
        Ok(Effect::none())
    }

    async fn run(&self, _: FaultPlace, _: ToolContext) -> Result<ToolOutput, ToolError> {
        self.0.notify_one();
        std::future::pending().await
    }
}

/// A tool that ends when it is notified.
struct Until(Arc<Notify>);

impl Tool for Until {
    type Input = FaultPlace;
    const NAME: &'static str = "until";
    const DESCRIPTION: &'static str = "Waits.";

    fn call_title(&self, _: &FaultPlace) -> String {
        "until".to_owned()
    }

    fn predict_effect(&self, _: &FaultPlace, _: &ToolContext) -> Result<Effect, ToolError> {
        Ok(Effect::none())
    }

    async fn run(&self, _: FaultPlace, _: ToolContext) -> Result<ToolOutput, ToolError> {
        self.0.notified().await;
        Ok(ToolOutput::text("it is time"))
    }
}

/// Cancels the middle of three levels, while it and the level below use up their time to finish.
#[tokio::test(start_paused = true)]
async fn nested_calls_of_a_cut_sub_agent_end_once_and_before_their_parent() {
    let started = Arc::new(Notify::new());
    let call = |name: &str| json!({"tool": {"name": name, "input": {"at": "x"}}});
    let delegate = |input| json!({"tool": {"name": "delegate", "input": input}});
    let two =
        json!({"prompt": "", "join": "first_success", "tasks": [{"prompt": "dig"}, {"prompt": "wait"}]});
    let fixture = TurnFixture::new(
        Mode::Full,
        json!([
            {"when": {"prompt": "go"}, "events": [delegate(two)]},
            {"when": {"prompt": "dig"}, "events": [delegate(json!({"prompt": "deeper"}))]},
            {"when": {"prompt": "wait", "step": 0}, "events": [call("until")]},
            {"when": {"prompt": "deeper"}, "events": [call("stubborn")]},
            {"events": [{"text": "done"}], "repeat": true},
        ]),
        vec![
            Arc::new(Delegate),
            Arc::new(Stubborn(started.clone())),
            Arc::new(Until(started)),
        ],
    );
    let session = fixture.session();
    let outcome = fixture.ask(&session, "go").await;
    assert_eq!(outcome.end.reason, TerminalReason::Completed);
    let ends: Vec<_> = fixture
        .events
        .all()
        .into_iter()
        .filter_map(|event| match event {
            Event::ToolCall(update) if update.status.is_final() => Some((update.name, update.status)),
            _ => None,
        })
        .collect();
    let reported_ends: Vec<_> = ends
        .iter()
        .map(|(name, status)| (name.as_str(), *status))
        .collect();
    let (well, cut) = (ToolCallStatus::Completed, ToolCallStatus::Cancelled);
    assert_eq!(
        reported_ends,
        [
            ("until", well),
            ("stubborn", cut),
            ("delegate", cut),
            ("delegate", well)
        ]
    );
    fixture.end().await;
}
