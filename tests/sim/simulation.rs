//! Runs one simulated world: a sequence of server runs over one store. Each run ends with a crash or a shutdown.
//!
//! Owns the world's folders, its report, and the moment at which each run ends. `world` draws a world from its seed,
//! `server_run` runs one server, and only `check` knows what is right.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::coverage::Coverage;
use crate::joins::Joins;
use crate::outlet::CrashPoints;
use crate::rng::Rng;
use crate::server_run::{RunEnd, run_server};
use crate::tools;
use crate::world::World;

/// The folder of the simulated sessions; it does not exist.
pub(crate) const FOLDER: &str = "/simulated/project";

/// The virtual time between two server runs, in milliseconds.
pub(crate) const RESTART_PAUSE_MS: i64 = 1_000;

/// How many turns one world runs by default.
pub(crate) const WORLD_TURNS: u64 = 60;

/// The results of one world.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorldReport {
    /// The first violation, if any.
    pub(crate) failure: Option<String>,
    /// The last lines of the world's log.
    pub(crate) log: Vec<String>,
    /// The fingerprint of the entire log. None with MCP servers: such a world may not replay, since their library
    /// chooses at random which of several ready events it takes first.
    pub(crate) fingerprint: Option<(u64, u64)>,
    /// How many turns ended.
    pub(crate) turns: u64,
    /// How many server runs crashed.
    pub(crate) crashes: u64,
    /// How many server runs shut down in order.
    pub(crate) ends: u64,
    /// How often each case occurred.
    pub(crate) counts: BTreeMap<String, u64>,
    /// Why turns continued or ended, by phase and fault.
    pub(crate) coverage: Coverage,
    /// How sub-agents ended, by join.
    pub(crate) joins: Joins,
    /// The world's settings as text, for the reader of a failure.
    pub(crate) settings_text: String,
}

/// Simulates the world of `seed` and keeps the last `lines` of its log.
///
/// The store is in the folder `data`, and the workspace's files are in a folder next to it. Both are created first and
/// removed at the end.
///
/// # Errors
/// A folder cannot be created or removed, or the runtime cannot be started.
pub(crate) fn run_simulation(seed: u64, turns: u64, data: &Path, lines: usize) -> io::Result<WorldReport> {
    let files = data.with_extension("files");
    for folder in [data, &files] {
        let _ = std::fs::remove_dir_all(folder);
    }
    std::fs::create_dir_all(&files)?;
    handle_panics();
    let world = World::new(seed, lines, files.canonicalize()?);
    let mut report = WorldReport {
        settings_text: format!("{:?}", world.settings),
        ..WorldReport::default()
    };
    let mut wall_ms = 1_700_000_000_000;
    let mut runs = 0;
    // The limit stops a world whose server runs all end before they finish a turn.
    while world.lock_checker().ended_turns() < turns
        && world.lock_checker().failure().is_none()
        && runs < 40 + turns
    {
        runs += 1;
        let run_end = draw_run_end(&world, turns);
        let (shut_down, now) = run_server(&world, data, wall_ms, run_end)?;
        wall_ms = now;
        if let Some(panic) = PANIC.take() {
            world.lock_checker().record_violation(panic);
        }
        if shut_down {
            report.ends += 1
        } else {
            report.crashes += 1
        }
    }
    let check = world.lock_checker();
    report.failure = check.failure().map(str::to_owned);
    report.log = check.log_lines().cloned().collect();
    report.fingerprint = (!world.settings.mcp.has_servers()).then(|| check.fingerprint());
    report.turns = check.ended_turns();
    report.counts = check.counts().clone();
    report.coverage = check.coverage().clone();
    report.joins = check.joins().clone();
    std::fs::remove_dir_all(files)?;
    std::fs::remove_dir_all(data)?;
    Ok(report)
}

fn draw_run_end(world: &Arc<World>, turns: u64) -> RunEnd {
    let rng: &Rng = &world.rng;
    let remaining_turns = turns.saturating_sub(world.lock_checker().ended_turns());
    let is_crash = rng.chance(world.settings.crashes);
    let (mut crash, mut freeze_at) = (CrashPoints::default(), u64::MAX);
    if is_crash {
        match rng.next_below(3) {
            0 => freeze_at = 1 + rng.next_below(*rng.pick_one(&[100, 3_000, 30_000])),
            1 => crash.commit = Some(1 + rng.next_below(*rng.pick_one(&[10, 100, 1_000]))),
            _ => crash.event = Some(1 + rng.next_below(*rng.pick_one(&[20, 200, 2_000]))),
        }
    }
    RunEnd {
        seed: rng.next_u64(),
        turns: 1 + rng.next_below(remaining_turns.max(1)),
        freeze_at,
        crash,
        ends_after: rng
            .chance(300)
            .then(|| rng.draw_pause(60_000) + Duration::from_millis(1)),
    }
}

thread_local! {
    /// A panic that the simulation did not cause on purpose.
    static PANIC: std::cell::RefCell<Option<String>> = const { std::cell::RefCell::new(None) };
}

/// Silences simulated panics. Records every other panic as a violation, and still reports it through the previous hook.
fn handle_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let previous_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.to_string();
            if !text.contains(tools::EXPECTED_PANIC) {
                PANIC.set(Some(format!("unexpected panic: {text}")));
                agentls::base::sim_schedule::freeze_tasks();
                previous_hook(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers a little of everything, and worlds that once had violations:
    ///
    /// - a steer that outlived the lost end of its turn
    /// - a session whose creation was lost
    /// - prompts to a session during its deletion
    /// - a second end after a lost one
    /// - a stored rule without effect
    /// - a command that deletes what only a person wrote
    #[test]
    fn known_seeds_have_no_violations() {
        let folder = tempfile::tempdir().unwrap();
        for seed in [1, 5, 5_006, 20_066, 20_071, 20_115, 900_127, 1_000_027] {
            let report = run_simulation(seed, WORLD_TURNS, &folder.path().join("data"), 20).unwrap();
            assert_eq!(report.failure, None, "seed {seed}: {:#?}", report.log);
        }
    }
}
