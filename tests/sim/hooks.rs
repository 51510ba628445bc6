//! Simulated hooks: they pass, change, object, end turns and fail, at their leisure, and obey a cancel at once.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use serde_json::{Value, json};

use super::coverage::SimFault;
use super::tools;
use super::world::World;
use agentls::config::{HookMoment, HookSettings};
use agentls::turn::{HookContext, HookExit, HookRunner, Hooks, TurnStopped};

/// The moments at which hooks may run.
const MOMENTS: [HookMoment; 4] = [
    HookMoment::Prompt,
    HookMoment::PreTool,
    HookMoment::PostTool,
    HookMoment::Stop,
];

/// The hooks of a world's sessions: at none, some or all moments.
pub(super) fn build_hooks(world: &Arc<World>) -> Hooks {
    let moments = MOMENTS.iter().zip(0..);
    let hooks = moments
        .filter(|(_, at)| world.knobs.hooks_at & (1 << at) != 0)
        .map(|(on, _)| HookSettings {
            name: format!("sim-{on}"),
            on: *on,
            ..HookSettings::default()
        })
        .collect();
    Hooks::new(hooks, Arc::new(SimHooks(world.clone())))
}

struct SimHooks(Arc<World>);

impl HookRunner for SimHooks {
    fn run_hook<'a>(
        &'a self,
        place: HookContext<'a>,
        hook: &'a HookSettings,
        input: Vec<u8>,
    ) -> BoxFuture<'a, Result<HookExit, TurnStopped>> {
        async move {
            let world = &self.0;
            world.lock_checker().note_hook_run(place.session, place.turn);
            let _runs = HookRuns { world, place };
            tokio::select! { biased;
                () = place.cancel.cancelled() => return Err(TurnStopped),
                () = tokio::time::sleep(world.rng.draw_pause(world.knobs.tool_ms)) => {}
            }
            Ok(self.run_hook(place, hook.on, &input))
        }
        .boxed()
    }
}

/// A hook that runs, until it is dropped.
struct HookRuns<'a> {
    world: &'a World,
    place: HookContext<'a>,
}

impl Drop for HookRuns<'_> {
    fn drop(&mut self) {
        self.world
            .lock_checker()
            .hook_ended(self.place.session, self.place.turn);
    }
}

impl SimHooks {
    fn run_hook(&self, place: HookContext<'_>, on: HookMoment, input: &[u8]) -> HookExit {
        let (rng, knobs) = (&self.0.rng, &self.0.knobs);
        if !rng.chance(knobs.hooks_meddle) {
            return hook_exit(0, "");
        }
        let told: Value = serde_json::from_slice(input).unwrap_or_default();
        let meddling = if knobs.hooks_object { 1 } else { rng.next_below(6) };
        if meddling != 0 {
            self.0.lock_checker().note_fault(place.session, SimFault::Hook);
        }
        match (meddling, on) {
            (0, HookMoment::Prompt) => {
                let prompt = format!("{} and more", told["prompt"].as_str().unwrap_or_default());
                hook_exit(0, &json!({ "prompt": prompt }).to_string())
            }
            (0, HookMoment::PreTool) if tools::NAMES.iter().any(|name| told["tool"] == *name) => {
                let input = tools::draw_arguments(rng, knobs.bad_tools, knobs.tool_ms);
                let call = told["toolCallId"].as_str().unwrap_or_default();
                self.0.lock_checker().hook_changes(call, &input);
                hook_exit(0, &json!({ "input": input }).to_string())
            }
            (0, _) => hook_exit(0, "words that mean nothing"),
            (1 | 2, _) => hook_exit(2, ""),
            (3, _) => hook_exit(0, "{\"endTurn\": true}"),
            (4, _) => hook_exit(0, "{"),
            _ => HookExit::Failed("simulated".to_owned()),
        }
    }
}

fn hook_exit(code: i32, stdout: &str) -> HookExit {
    HookExit::Exited {
        code,
        stdout: stdout.to_owned(),
        stderr: "simulated".to_owned(),
    }
}
