//! `cargo bench`: what the server costs, next to the least that any program in its place would cost.
//!
//! Starts the binary against the mock provider, then a bare pass-through (this program again) in the same way,
//! and prints a table. It asserts no times: a regression shows up in the table of `benches/RESULTS.md`.
//!
//! `cargo bench -- NAME…` runs only the measurements whose name contains one of the words; `--json FILE` also
//! writes the figures to a file. `--smoke` runs everything once or twice: it shows that the bench works, and its figures
//! mean nothing. `AGENTLS_BENCH_BIN` names another binary to measure.

#![expect(
    clippy::disallowed_methods,
    reason = "the bench plays the editor and the machine: real time, real processes"
)]
#![expect(clippy::expect_used, reason = "a bench that cannot measure stops")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it prints a table")]
#![expect(unreachable_pub, reason = "modules of one program")]

#[path = "agentls/client.rs"]
mod client;
#[path = "agentls/measure.rs"]
mod measure;
#[path = "../tests/support/mock_llm.rs"]
mod mock_llm;
#[path = "agentls/passthrough.rs"]
mod passthrough;
mod product;
#[path = "agentls/report.rs"]
mod report;
#[path = "agentls/world.rs"]
mod world;

use std::path::PathBuf;
use std::time::Instant;

use report::{Figures, Unit};
use world::Target;

fn main() {
    let mut args = std::env::args().skip(1).peekable();
    if args.next_if(|arg| arg == world::PASSTHROUGH).is_some() {
        return passthrough::run(&args.next().expect("the provider's address"));
    }
    let (mut wanted, mut file) = (Vec::new(), None);
    let (mut is_bench, mut is_smoke) = (false, false);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            // `cargo bench` passes it; `cargo test --all-targets` does not, and needs no figures.
            "--bench" => is_bench = true,
            "--json" => file = args.next(),
            "--smoke" => {
                is_smoke = true;
                measure::shorten();
            }
            _ => wanted.push(arg),
        }
    }
    if !is_bench {
        return;
    }
    let binary = product::find_program(is_smoke);
    let (agentls, bare) = run(&binary, &wanted);
    println!("{}", report::table(&agentls, &bare));
    if let Some(file) = file {
        let text = format!("{:#}\n", report::json(&agentls, &bare));
        std::fs::write(&file, text).expect("the file of --json can be written");
    }
}

/// Measures both programs, one right after the other, so that a change in the machine's load hits both.
fn run(binary: &PathBuf, wanted: &[String]) -> (Figures, Figures) {
    let (mut agentls, mut bare) = (Figures::default(), Figures::default());
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str()));
    for (name, measure) in measure::MEASURES.iter().filter(|(name, _)| is_wanted(name)) {
        let start = Instant::now();
        let mut values = Figures::default();
        measure(&Target::Agentls(binary.clone()), &mut values);
        let mut bare_values = Figures::with_requests_of(&values);
        measure(&Target::PassThrough, &mut bare_values);
        agentls.extend(values);
        bare.extend(bare_values);
        eprintln!("{name}: {:.1} s", start.elapsed().as_secs_f64());
    }
    if is_wanted("binary")
        && let Ok(data) = std::fs::metadata(binary)
    {
        agentls.set("binary", Unit::Megabytes, data.len() as f64 / f64::from(1 << 20));
    }
    (agentls, bare)
}
