//! Tests wait for events, or own the clock: none sleeps for a fixed time, and none fails because a machine is busy.
//!
//! Looks for both in the text of all tests. What cannot be otherwise is listed here with its reason.

use std::fs;
use std::path::{Path, PathBuf};

/// The shortest wall-clock limit that a test may have, in seconds.
const SHORTEST_LIMIT: f64 = 30.0;

/// Files that may sleep, how many times, and why.
const SLEEPS: &[(&str, usize, &str)] = &[
    ("tests/e2e/harness/mod.rs", 1, "the pause between two looks"),
    (
        "tests/e2e/hooks.rs",
        1,
        "a race that is repeated until it was seen",
    ),
    ("tests/process/waiting.rs", 1, "the pause between two looks"),
    (
        "tests/process/main.rs",
        1,
        "a race that is repeated until it was seen",
    ),
    (
        "tests/cli/chat.rs",
        1,
        "the line editor's own pause, in real time and without an event",
    ),
    ("tests/support/mock_llm.rs", 3, "the mock's scripted pauses"),
    (
        "tests/parts/provider_http.rs",
        2,
        "a connection that becomes free, and silence: neither has an event",
    ),
    ("tests/parts/mock_llm.rs", 1, "silence has no event"),
    ("tests/parts/oauth.rs", 1, "the pause between two looks"),
];

/// Files that may have short limits, how many, and why.
const SHORT_LIMITS: &[(&str, usize, &str)] = &[
    (
        "tests/e2e/kills/ledger.rs",
        1,
        "the loss by a kill at any moment is what it measures; crash.rs proves the bound on a frozen clock",
    ),
    (
        "tests/e2e/kills.rs",
        1,
        "moments of kills, which fail nothing when they pass",
    ),
    (
        "tests/e2e/faults/cases.rs",
        1,
        "a table of many faults that one server meets at the same time",
    ),
    (
        "tests/e2e/faults.rs",
        1,
        "the server's own limit for a wait that a provider asks for",
    ),
    (
        "tests/e2e/mcp_prompts.rs",
        2,
        "below the product's own limits; the clock is advanced",
    ),
    (
        "tests/e2e/hostile_repository/walk.rs",
        1,
        "a pause between two looks",
    ),
    (
        "tests/process/bash_tool.rs",
        2,
        "silence has no event; ending early hides an error only",
    ),
];

/// A line of a test.
struct TestLine {
    file: String,
    number: usize,
    text: String,
}

/// Returns the lines of all tests outside the simulator, whose clock is tokio's paused one.
fn read_tests() -> Vec<TestLine> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    find_files(&root.join("tests"), &mut files);
    let mut lines = Vec::new();
    for path in files {
        let file = path.strip_prefix(root).unwrap().display().to_string();
        if file.starts_with("tests/sim/") || file == "tests/repository/waiting.rs" {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        lines.extend(text.lines().enumerate().map(|(at, line)| TestLine {
            file: file.clone(),
            number: at + 1,
            text: line.trim().to_owned(),
        }));
    }
    lines
}

fn find_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Fails if a file has more such lines than it may.
fn compare(found: &[&TestLine], allowed: &[(&str, usize, &str)], rule: &str) {
    let mut wrong: Vec<String> = Vec::new();
    let mut files: Vec<&str> = found.iter().map(|line| line.file.as_str()).collect();
    files.extend(allowed.iter().map(|(file, ..)| *file));
    files.sort_unstable();
    files.dedup();
    for file in files {
        let lines: Vec<_> = found.iter().filter(|line| line.file == file).collect();
        let allowed = allowed.iter().find(|(name, ..)| *name == file);
        let (count, reason) = allowed.map_or((0, ""), |(_, count, reason)| (*count, *reason));
        if lines.len() > count {
            wrong.push(format!("{file} has {}, not {count}: {reason}", lines.len()));
            wrong.extend(
                lines
                    .iter()
                    .map(|line| format!("  {}: {}", line.number, line.text)),
            );
        }
    }
    assert!(wrong.is_empty(), "{rule}:\n{}", wrong.join("\n"));
}

/// Returns the seconds of the first `Duration::from_…(number)` in a text.
fn duration_in(text: &str) -> Option<f64> {
    let (_, rest) = text.split_once("Duration::from_")?;
    let (unit, rest) = rest.split_once('(')?;
    let number = rest.split(')').next()?.replace('_', "");
    let number: f64 = number.parse().ok()?;
    match unit {
        "secs" => Some(number),
        "millis" => Some(number / 1e3),
        "micros" => Some(number / 1e6),
        _ => None,
    }
}

/// Returns the number after `name = `, or after `name=`.
fn setting_in(text: &str, name: &str) -> Option<f64> {
    let (_, rest) = text.split_once(name)?;
    let number = rest.trim_start().strip_prefix('=')?.trim_start();
    let end = number
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(number.len());
    number[..end].parse().ok()
}

/// Returns whether a line sets a limit in wall-clock time that a busy machine could reach.
fn has_short_limit(text: &str) -> bool {
    const LIMITS: [&str; 9] = [
        "< Duration::from_",
        "<= Duration::from_",
        "> Duration::from_",
        ">= Duration::from_",
        "now() + Duration::from_",
        "timeout(Duration::from_",
        "timeout(std::time::Duration::from_",
        "LIMIT: Duration = Duration::from_",
        "SLACK: Duration = Duration::from_",
    ];
    const OTHERS: [&str; 2] = ["const LOSS: Duration = ", "const END: Duration = "];
    const SETTINGS: [&str; 4] = ["timeout_s", "cooldown_s", "max_wall_time_s", "max_retry_after_s"];
    let limit = LIMITS
        .iter()
        .chain(&OTHERS)
        .find_map(|pattern| duration_in(&text[text.find(pattern)?..]));
    let setting = SETTINGS.iter().find_map(|name| setting_in(text, name));
    limit.or(setting).is_some_and(|seconds| seconds < SHORTEST_LIMIT)
}

#[test]
fn no_test_sleeps_for_a_fixed_time() {
    let lines = read_tests();
    let sleeps: Vec<_> = lines
        .iter()
        .filter(|line| line.text.contains("sleep(") && !line.text.starts_with("//"))
        // A peer in another language.
        .filter(|line| !line.text.contains("time.sleep("))
        .collect();
    compare(&sleeps, SLEEPS, "wait for an event, or advance the clock");
}

#[test]
fn no_test_has_a_limit_that_a_busy_machine_reaches() {
    let lines = read_tests();
    let limits: Vec<_> = lines
        .iter()
        // What the configuration means, and the commands that change it, is tested without waiting.
        .filter(|line| !line.file.starts_with("tests/repository/") && !line.file.starts_with("tests/cli/"))
        .filter(|line| has_short_limit(&line.text))
        .collect();
    compare(&limits, SHORT_LIMITS, "advance the clock, or wait for up to 60 s");
}

#[test]
fn short_limits_are_recognized() {
    for text in [
        "assert!(start.elapsed() < Duration::from_secs(3));",
        "let deadline = now() + Duration::from_millis(2_500);",
        "const TURN_LIMIT: Duration = Duration::from_secs(15);",
        "\"startup_timeout_s = 1.5\"",
        "[tool.default]\\ncircuit_cooldown_s = 0.5\\n",
    ] {
        assert!(has_short_limit(text), "{text}");
    }
    for text in [
        "const WAIT_LIMIT: Duration = Duration::from_secs(60);",
        "\"timeout_s = 300\"",
        "client.advance(Duration::from_secs(2));",
    ] {
        assert!(!has_short_limit(text), "{text}");
    }
}
