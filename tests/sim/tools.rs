//! Simulated tools behind the real trait. The checker's ledger has one line for each of their effects, so the checker
//! detects an effect before its decision (I9) or after its turn (I8).

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::files::{command_writes, tool_writes};
use super::mcp;
use super::rng::Rng;
use super::world::World;
use agentls::domain::{Effect, EffectKind, ToolCallId};
use agentls::tool::{
    CallPreview, DynTool, Registry, Tool, ToolContext, ToolError, ToolOutput, ToolProgress,
    delegate::Delegate, update_plan::UpdatePlan,
};

/// The message of every simulated panic; any other panic is a violation.
pub(super) const EXPECTED_PANIC: &str = "simulated panic";

// The doc comments are part of the schema that each request contains. Longer ones change when sessions compact.
/// What a call shall do.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PlannedAct {
    /// How it ends, or where it breaks.
    pub(super) how: String,
    /// How long it takes, in ms.
    pub(super) ms: u64,
    /// In how many parts.
    pub(super) parts: u32,
}

/// The ends without a failure; repeated ones are more likely.
const GOOD_ENDS: &[&str] = &["ok", "ok", "ok", "wide", "chatty", "empty", "is_error"];
/// The ends with a failure.
const BAD_ENDS: &[&str] = &[
    "reported",
    "internal",
    "cancelled",
    "cut_short",
    "panic",
    "panic_effect",
    "panic_preview",
    "panic_title",
    "fail_effect",
    "fail_preview",
    "stubborn",
];

/// The names of the simulated tools, for the model to choose from.
pub(super) const NAMES: &[&str] = &["look", "change", "make", "fetch", "think"];

/// Returns whether a tool of this name brings content from outside.
pub(super) fn brings_foreign_content(name: &str) -> bool {
    NAMES.contains(&name) || mcp::declared_effect(name).is_some()
}

/// Builds the tools of a world: the simulated ones and some real ones.
pub(super) fn build_registry(world: &Arc<World>) -> Registry {
    let tools: Vec<Arc<dyn DynTool>> = vec![
        Arc::new(Look(world.clone())),
        Arc::new(Change(world.clone())),
        Arc::new(Make(world.clone())),
        Arc::new(Fetch(world.clone())),
        Arc::new(Think(world.clone())),
        Arc::new(UpdatePlan),
        Arc::new(Delegate),
    ];
    Registry::new(tools)
}

/// Draws arguments as a model writes them. `bad` is the chance of a failure in thousandths, `ms` the longest pause.
pub(super) fn draw_arguments(rng: &Rng, bad: u32, ms: u64) -> Value {
    let ending = match (rng.chance(bad), rng.chance(5)) {
        (true, _) => rng.pick_one(BAD_ENDS),
        (false, true) => "long",
        (false, false) => rng.pick_one(GOOD_ENDS),
    };
    // Now and then exceed every time limit.
    let ms = if rng.chance(10) { 200_000 } else { ms };
    json!({"how": ending, "ms": rng.draw_pause(ms).as_millis() as u64, "parts": rng.next_below(4)})
}

/// The prompt of sub-agents; no user writes it.
pub(super) const TASK: &str = "a part of the work";

/// Draws arguments of `delegate` as a model writes them; now and then invalid ones.
pub(super) fn draw_delegation(rng: &Rng) -> Value {
    let task = |_| json!({"prompt": TASK});
    let tasks: Vec<Value> = (0..=rng.next_below(*rng.pick_one(&[1, 3, 3, 11])))
        .map(task)
        .collect();
    let join = match rng.next_below(6) {
        0 => "allow_failures".to_owned(),
        1 => "first_success".to_owned(),
        2 | 3 => format!("quorum({})", 1 + rng.next_below(tasks.len() as u64)),
        4 if rng.chance(100) => "most".to_owned(),
        _ => "all_required".to_owned(),
    };
    if rng.chance(300) {
        json!({"prompt": TASK})
    } else {
        json!({"prompt": TASK, "tasks": tasks, "join": join})
    }
}

/// Returns the effect that a tool declares; the checker uses it too.
pub(super) fn declared_effect(name: &str, cwd: &std::path::Path) -> Effect {
    if let Some(effect) = mcp::declared_effect(name) {
        return effect;
    }
    let kind = match name {
        "look" => EffectKind::Read,
        "change" => EffectKind::Write,
        "make" => EffectKind::Execute,
        "fetch" => EffectKind::Network,
        _ => EffectKind::None,
    };
    let subject = match kind {
        EffectKind::None => String::new(),
        EffectKind::Read | EffectKind::Write => "src/a.rs".to_owned(),
        EffectKind::Execute => "make all".to_owned(),
        EffectKind::Network => "https://example.org/a".to_owned(),
    };
    let paths = match kind {
        EffectKind::Read | EffectKind::Write => vec![cwd.join("src/a.rs")],
        EffectKind::None | EffectKind::Execute | EffectKind::Network => Vec::new(),
    };
    Effect {
        kind,
        paths,
        subject,
        ..Effect::none()
    }
}

macro_rules! tools {
    ($($type:ident $name:literal patient $patient:literal;)*) => {$(
        struct $type(Arc<World>);

        impl Tool for $type {
            type Input = PlannedAct;
            const NAME: &'static str = $name;
            const FINISHES_ON_CANCEL: bool = $patient;
            const DESCRIPTION: &'static str = "Simulated.";
            const TIMEOUT: Option<Duration> = Some(Duration::from_secs(30));

            fn call_title(&self, input: &PlannedAct) -> String {
                assert_ne!(input.how, "panic_title", "{EXPECTED_PANIC}");
                format!("{} {}", $name, input.how)
            }

            fn predict_effect(&self, input: &PlannedAct, cx: &ToolContext) -> Result<Effect, ToolError> {
                assert_ne!(input.how, "panic_effect", "{EXPECTED_PANIC}");
                if input.how == "fail_effect" {
                    return Err(ToolError::Reported("no such place".into()));
                }
                Ok(declared_effect($name, &cx.cwd))
            }

            async fn preview_change(&self, input: &PlannedAct, _cx: &ToolContext) -> Result<CallPreview, ToolError> {
                agentls::base::clock::sleep(self.0.rng.draw_pause(10)).await;
                assert_ne!(input.how, "panic_preview", "{EXPECTED_PANIC}");
                if input.how == "fail_preview" {
                    return Err(ToolError::Reported("cannot be done".into()));
                }
                Ok(CallPreview::default())
            }

            async fn run(&self, input: PlannedAct, cx: ToolContext) -> Result<ToolOutput, ToolError> {
                perform_act(&self.0, $name, $patient, input, cx).await
            }
        }
    )*};
}

tools! {
    Look "look" patient false;
    Change "change" patient true;
    Make "make" patient true;
    Fetch "fetch" patient false;
    Think "think" patient false;
}

/// A running effect; dropping it reports the end to the checker.
struct CallInProgress {
    world: Arc<World>,
    call: ToolCallId,
}

impl Drop for CallInProgress {
    fn drop(&mut self) {
        self.world.lock_checker().effect_ended(&self.call);
    }
}

async fn perform_act(
    world: &Arc<World>,
    name: &str,
    patient: bool,
    input: PlannedAct,
    cx: ToolContext,
) -> Result<ToolOutput, ToolError> {
    let call = cx.call.clone();
    world
        .lock_checker()
        .effect_begins(&cx.session, &call, name, &input.how, patient);
    let _running = CallInProgress {
        world: world.clone(),
        call: call.clone(),
    };
    for part in 0..=input.parts {
        agentls::base::clock::sleep(Duration::from_millis(input.ms / u64::from(input.parts + 1))).await;
        world.lock_checker().effect_goes_on(&cx.session, &call);
        if input.how == "chatty" {
            // The receiver may be gone, which is not an error.
            let _ = cx
                .send_progress(ToolProgress::Output(format!("part {part}\n")))
                .await;
        }
        if patient && cx.force_cancel.is_cancelled() && input.how != "stubborn" {
            return Err(ToolError::CutShort(Box::new(ToolOutput::text("half of it"))));
        }
    }
    if matches!(name, "change" | "make")
        && GOOD_ENDS.contains(&input.how.as_str())
        && world.rng.chance(world.settings.writes)
    {
        if world.rng.chance(500) {
            tool_writes(world, &cx).await;
        } else {
            command_writes(world, &cx).await;
        }
    }
    match input.how.as_str() {
        "wide" => Ok(ToolOutput::text("y".repeat(2_500))),
        "long" => Ok(ToolOutput::text("x".repeat(31_000))),
        "empty" => Ok(ToolOutput::default()),
        "is_error" => Ok(ToolOutput {
            is_error: true,
            ..ToolOutput::text("not found")
        }),
        "reported" => Err(ToolError::Reported("it went wrong".into())),
        "internal" => Err(ToolError::Internal("a bug of the tool".into())),
        "cancelled" => Err(ToolError::Cancelled),
        "cut_short" => Err(ToolError::CutShort(Box::new(ToolOutput::text("some")))),
        "panic" => panic!("{EXPECTED_PANIC}"),
        _ => Ok(ToolOutput::text("done")),
    }
}
