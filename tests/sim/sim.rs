//! The deterministic simulator: `cargo run --release --example sim -- --turns 100000 --seed 1`.
//!
//! It runs the real sessions, turns and store from a seed, with a simulated provider, tools, user, disk and crashes, and
//! checks every event. A seed that fails once fails again in exactly the same way, except perhaps with MCP servers:
//! their library, rmcp, makes random choices of its own. Worlds run with consecutive seeds until they reach the
//! requested number of turns; then it prints counts and coverage. Exit code: 1 after a violation or a world that does
//! not replay, 2 when the simulator itself fails.
//!
//! Start with `simulation`, which runs one world. `user`, `acp_client`, `model`, `tools`, `mcp`, `hooks`, `files` and `outlet` are simulated;
//! `check` holds the invariants. It uses the crate's public items only: `agentls::base::sim_schedule` controls the
//! scheduler, and the feature `sim` compiles it.
#![expect(clippy::print_stdout, reason = "a terminal program prints its results")]

mod acp_answers;
mod acp_client;
mod check;
mod coverage;
mod files;
mod hooks;
mod joins;
mod mcp;
mod model;
mod outlet;
mod replies;
mod rng;
mod server_run;
mod simulation;
mod tools;
mod user;
mod world;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;

use coverage::Coverage;
use joins::Joins;
use simulation::{WORLD_TURNS, WorldReport, run_simulation};

/// Runs the real sessions, turns and store from a seed, and checks their invariants.
#[derive(Parser)]
#[command(name = "sim")]
struct Args {
    /// How many turns to run in total.
    #[arg(long, default_value_t = 5_000)]
    turns: u64,
    /// The seed of the first world; each later world uses the next number.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many turns one world runs.
    #[arg(long, default_value_t = WORLD_TURNS)]
    world: u64,
    /// Run each world without MCP servers twice and compare the fingerprints of everything that happened.
    #[arg(long)]
    check_determinism: bool,
    /// Continue after a violation, and list all violations.
    #[arg(long)]
    all: bool,
    /// How many of the last log lines to show with a violation.
    #[arg(long, default_value_t = 60)]
    lines: usize,
    /// Show the log lines of every world in full.
    #[arg(long)]
    whole: bool,
    /// The folder for temporary stores; by default the system's temporary folder.
    #[arg(long)]
    data: Option<PathBuf>,
}

#[derive(Default)]
struct RunTotals {
    turns: u64,
    worlds: u64,
    crashes: u64,
    ends: u64,
    failures: u64,
    counts: BTreeMap<String, u64>,
    coverage: Coverage,
    joins: Joins,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let data = args
        .data
        .clone()
        .unwrap_or_else(std::env::temp_dir)
        .join(format!("agentls-sim-{}", std::process::id()));
    #[expect(clippy::disallowed_methods, reason = "measures the real speed")]
    let started = Instant::now();
    let mut sum = RunTotals::default();
    while sum.turns < args.turns {
        let seed = args.seed + sum.worlds;
        let report = match run_simulation(seed, args.world, &data, args.lines) {
            Ok(report) => report,
            Err(error) => {
                println!("seed {seed}: the simulator failed: {error}");
                return ExitCode::from(2);
            }
        };
        if args.whole {
            report.log.iter().for_each(|line| println!("{line}"));
        }
        sum.add_report(&report);
        if let Some(failure) = &report.failure {
            sum.failures += 1;
            print_failure(&args, seed, failure, &report);
            if !args.all {
                return ExitCode::FAILURE;
            }
        }
        if args.check_determinism && report.fingerprint.is_some() {
            match run_simulation(seed, args.world, &data, args.lines) {
                Ok(replay) if replay.fingerprint == report.fingerprint => {}
                Ok(replay) => {
                    println!("\nseed {seed} does not replay; the first difference in its last lines:");
                    let differs = |(first, second)| first != second;
                    let at = report.log.iter().zip(&replay.log).position(differs).unwrap_or(0);
                    for log in [&report.log, &replay.log] {
                        for line in &log[at.saturating_sub(5)..log.len().min(at + 3)] {
                            println!("{}", line.chars().take(260).collect::<String>());
                        }
                        println!();
                    }
                    return ExitCode::FAILURE;
                }
                Err(error) => {
                    println!("seed {seed}: the simulator failed: {error}");
                    return ExitCode::from(2);
                }
            }
        }
        if sum.worlds.is_multiple_of(10) {
            print!("\r{} turns in {} worlds", sum.turns, sum.worlds);
            // Progress output only: a failed flush loses nothing.
            let _ = std::io::stdout().flush();
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "\r{} turns in {} worlds, {} crashes, {} ends, {} violations; {:.1} s, {:.0} turns a second",
        sum.turns,
        sum.worlds,
        sum.crashes,
        sum.ends,
        sum.failures,
        seconds,
        sum.turns as f64 / seconds
    );
    for (label, count) in &sum.counts {
        println!("{count:>9} {label}");
    }
    println!("\n{}", sum.coverage);
    println!("\n{}", sum.joins);
    match sum.failures {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

impl RunTotals {
    fn add_report(&mut self, report: &WorldReport) {
        self.worlds += 1;
        // At least one, because worlds without a turn would make the loop in `main` endless.
        self.turns += report.turns.max(1);
        self.crashes += report.crashes;
        self.ends += report.ends;
        for (label, count) in &report.counts {
            *self.counts.entry(label.clone()).or_default() += count;
        }
        self.coverage.merge_run(&report.coverage);
        self.joins.merge_run(&report.joins);
    }
}

fn print_failure(args: &Args, seed: u64, failure: &str, report: &WorldReport) {
    let failure: String = failure.chars().take(1_500).collect();
    println!("\nseed {seed}: {failure}");
    if args.all {
        return;
    }
    println!("{}", report.settings_text);
    for line in &report.log {
        println!("{}", line.chars().take(260).collect::<String>());
    }
    println!("to reproduce: sim --seed {seed} --turns 1 --world {}", args.world);
}
