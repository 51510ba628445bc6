//! Simulated hooks: after a random pause they pass, change, object, end turns or fail. They obey a cancel at once.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use serde_json::{Value, json};

use super::coverage::SimFault;
use super::tools;
use super::world::World;
use agentls::config::{HookMoment, HookSettings};
use agentls::turn::{HookContext, HookExit, HookRunner, Hooks, TurnStopped};

/// The moments at which hooks can run.
const MOMENTS: [HookMoment; 4] = [
    HookMoment::Prompt,
    HookMoment::PreTool,
    HookMoment::PostTool,
    HookMoment::Stop,
];

/// Builds the hooks of a world's sessions: at none, some or all moments.
pub(super) fn build_hooks(world: &Arc<World>) -> Hooks {
    let moments = MOMENTS.iter().zip(0..);
    let hooks = moments
        .filter(|(_, bit)| world.settings.hooks_at & (1 << bit) != 0)
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
        context: HookContext<'a>,
        hook: &'a HookSettings,
        input: Vec<u8>,
    ) -> BoxFuture<'a, Result<HookExit, TurnStopped>> {
        async move {
            let world = &self.0;
            world.lock_checker().note_hook_run(context.session, context.turn);
            let _running = RunningHook { world, context };
            tokio::select! { biased;
                () = context.cancel.cancelled() => return Err(TurnStopped),
                () = agentls::base::clock::sleep(world.rng.draw_pause(world.settings.tool_ms)) => {}
            }
            Ok(self.run_hook(context, hook.on, &input))
        }
        .boxed()
    }
}

/// A running hook; dropping it reports the end to the checker, also after a cancel.
struct RunningHook<'a> {
    world: &'a World,
    context: HookContext<'a>,
}

impl Drop for RunningHook<'_> {
    fn drop(&mut self) {
        self.world
            .lock_checker()
            .hook_ended(self.context.session, self.context.turn);
    }
}

impl SimHooks {
    fn run_hook(&self, context: HookContext<'_>, on: HookMoment, input: &[u8]) -> HookExit {
        let (rng, settings) = (&self.0.rng, &self.0.settings);
        if !rng.chance(settings.hook_change_rate) {
            return hook_exit(0, "");
        }
        let payload: Value = serde_json::from_slice(input).unwrap_or_default();
        let reaction = if settings.hooks_object {
            1
        } else {
            rng.next_below(6)
        };
        if reaction != 0 {
            self.0.lock_checker().note_fault(context.session, SimFault::Hook);
        }
        match (reaction, on) {
            (0, HookMoment::Prompt) => {
                let prompt = format!("{} and more", payload["prompt"].as_str().unwrap_or_default());
                hook_exit(0, &json!({ "prompt": prompt }).to_string())
            }
            (0, HookMoment::PreTool) if tools::NAMES.iter().any(|name| payload["tool"] == *name) => {
                let input = tools::draw_arguments(rng, settings.bad_tools, settings.tool_ms);
                let call = payload["toolCallId"].as_str().unwrap_or_default();
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
        refused: None,
    }
}
