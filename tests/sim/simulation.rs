//! Runs one simulated world: a sequence of server runs over one store, ended by crashes or in order.
//!
//! Owns the world's folders, its report, and the moment at which each run ends. A world is drawn from its seed
//! (`world`); a run is in `server_run`; what is right is known to `check` alone.

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

/// Where the simulated sessions work; nothing is there.
pub(crate) const FOLDER: &str = "/simulated/project";

/// Between two lives.
pub(crate) const NIGHT_MS: i64 = 1_000;

/// Turns of one world.
pub(crate) const WORLD_TURNS: u64 = 60;

/// What became of a world.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorldReport {
    /// The violation, if there was one.
    pub(crate) failure: Option<String>,
    /// The last lines of its log.
    pub(crate) log: Vec<String>,
    /// The fingerprint of its whole log.
    pub(crate) fingerprint: (u64, u64),
    /// Turns that ended.
    pub(crate) turns: u64,
    /// Lives that ended with a crash, and in order.
    pub(crate) crashes: u64,
    /// Lives that ended in order.
    pub(crate) ends: u64,
    /// How often what happened.
    pub(crate) counts: BTreeMap<String, u64>,
    /// Why turns went on or ended, in which phase, after which fault.
    pub(crate) coverage: Coverage,
    /// How sub-agents ended, by join.
    pub(crate) joins: Joins,
    /// How bad it was, for people.
    pub(crate) temper: String,
}

/// Simulates the world of `seed` with its store in the folder `data`, which is made and removed, as is the one beside it with its files; keeps so
/// many `lines` of its log.
///
/// # Errors
/// The folder cannot be made or removed, or no runtime started.
pub(crate) fn run_simulation(seed: u64, turns: u64, data: &Path, lines: usize) -> io::Result<WorldReport> {
    let files = data.with_extension("files");
    for folder in [data, &files] {
        let _ = std::fs::remove_dir_all(folder);
    }
    std::fs::create_dir_all(&files)?;
    expect_panics();
    let world = World::new(seed, lines, files.canonicalize()?);
    let mut report = WorldReport {
        temper: format!("{:?}", world.knobs),
        ..WorldReport::default()
    };
    let mut wall_ms = 1_700_000_000_000;
    let mut lives = 0;
    // A world whose lives all end at once would never have its turns.
    while world.lock_checker().ended_turns() < turns
        && world.lock_checker().failure().is_none()
        && lives < 40 + turns
    {
        lives += 1;
        let fate = draw_run_end(&world, turns);
        let (ended, now) = run_server(&world, data, wall_ms, fate)?;
        wall_ms = now;
        if let Some(panic) = PANIC.take() {
            world.lock_checker().record_violation(panic);
        }
        if ended {
            report.ends += 1
        } else {
            report.crashes += 1
        }
    }
    let check = world.lock_checker();
    report.failure = check.failure().map(str::to_owned);
    report.log = check.log_lines().cloned().collect();
    report.fingerprint = check.fingerprint();
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
    let left = turns.saturating_sub(world.lock_checker().ended_turns());
    let crashes = rng.chance(world.knobs.crashes);
    let (mut crash, mut freeze_at) = (CrashPoints::default(), u64::MAX);
    if crashes {
        match rng.next_below(3) {
            0 => freeze_at = 1 + rng.next_below(*rng.pick_one(&[100, 3_000, 30_000])),
            1 => crash.commit = Some(1 + rng.next_below(*rng.pick_one(&[10, 100, 1_000]))),
            _ => crash.event = Some(1 + rng.next_below(*rng.pick_one(&[20, 200, 2_000]))),
        }
    }
    RunEnd {
        seed: rng.next_u64(),
        turns: 1 + rng.next_below(left.max(1)),
        freeze_at,
        crash,
        ends_after: rng
            .chance(300)
            .then(|| rng.draw_pause(60_000) + Duration::from_millis(1)),
    }
}

thread_local! {
    /// A panic that nobody simulated.
    static PANIC: std::cell::RefCell<Option<String>> = const { std::cell::RefCell::new(None) };
}

/// Simulated panics stay silent; all others are remembered as findings, and told as before.
fn expect_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let text = info.to_string();
            if !text.contains(tools::EXPECTED_PANIC) {
                PANIC.set(Some(format!("a panic: {text}")));
                agentls::base::sim_schedule::freeze_tasks();
                before(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A little of everything, and worlds that were violated once: a steer that outlived the lost end of its
    /// turn, a session whose making was lost, prompts to a session that is being deleted, a second end after
    /// a lost one, a rule that was kept and not acted upon.
    #[test]
    fn worlds_hold() {
        let folder = tempfile::tempdir().unwrap();
        for seed in [1, 5_006, 20_066, 20_071, 20_115, 900_127, 1_000_027] {
            let report = run_simulation(seed, WORLD_TURNS, &folder.path().join("data"), 20).unwrap();
            assert_eq!(report.failure, None, "seed {seed}: {:#?}", report.log);
        }
    }
}
