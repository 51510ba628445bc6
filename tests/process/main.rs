//! Child processes die with us, whatever they do (I8, R-CANCEL, architecture §3a).
//!
//! The tests use real processes: those of one case carry a mark in their environment, by which the tests find
//! them in `/proc`.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests may fail them")]
#![expect(
    clippy::disallowed_methods,
    reason = "the tests play servers and strangers, and inherit cargo's variables"
)]

// Not among the tests of the sandbox: what tries the sandbox runs this program again, as if it were agentls, and would
// select them by their name.
mod bash_tool;
mod free_commands;
#[path = "../support/frozen_clock.rs"]
mod frozen_clock;
mod long_scripts;
mod unattended;
mod waiting;

use std::collections::BTreeMap;
use std::future::Future;
use std::io::{BufRead, BufReader, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agentls::base::CancellationToken;
use agentls::workspace::process::{
    Child, Command, CommandEnd, ExitStatus, Launcher, SpawnError, Stdin, StopMode, Stream, adopt_orphans,
    git_command,
};
use futures::poll;

use crate::frozen_clock::FrozenClock;
use crate::waiting::{wait_for_end, wait_until, within_limit};

const HELPER: &str = env!("CARGO_BIN_EXE_agentls");
const MARK: &str = "AGENTLS_TEST_MARK";
const SERVER_SCRIPT: &str = "AGENTLS_TEST_SERVER_SCRIPT";
const SERVER_COUNT: &str = "AGENTLS_TEST_SERVER_COUNT";
/// Makes the server of `server_role` adopt orphans, and names how it ends the command.
const SERVER_END: &str = "AGENTLS_TEST_SERVER_END";
const COMMAND_MARK: &str = "AGENTLS_TEST_COMMAND_MARK";

/// Commands that attack their helper, with children that try to escape.
const ATTACKS: [(&str, &str); 11] = [
    ("kill", "setsid sleep 1000 & echo ready; kill -KILL $PPID"),
    (
        "kill, then continue",
        "setsid sleep 1000 & echo ready; kill -KILL $PPID; sleep 1000",
    ),
    (
        "segfault",
        "setsid sleep 1000 & echo ready; kill -SEGV $PPID; sleep 1000",
    ),
    (
        "abort",
        "(setsid sleep 1000 &); echo ready; kill -ABRT $PPID; sleep 1000",
    ),
    (
        "stop",
        "setsid sleep 1000 & echo ready; kill -STOP $PPID; sleep 1000",
    ),
    (
        "stop, and end",
        "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo ready; kill -STOP $PPID",
    ),
    (
        "double fork",
        "h=$PPID; ( (setsid sh -c 'sleep 1000; :' &) & ); echo ready; kill -KILL $h; sleep 1000",
    ),
    (
        "killed by a daemon",
        "h=$PPID; (setsid sh -c \"sleep 0.05; kill -KILL $h; sleep 1000\" &); echo ready; sleep 1000",
    ),
    (
        "forks on",
        "h=$PPID; (setsid sh -c 'while :; do setsid sleep 1000 & sleep 0.01; done' &); echo ready; kill -KILL $h; sleep 1000",
    ),
    (
        "stubborn",
        "trap '' INT TERM HUP QUIT; h=$PPID; setsid sh -c 'trap \"\" TERM; sleep 1000; :' & echo ready; kill -KILL $h; sleep 1000",
    ),
    (
        "no descriptors",
        "h=$PPID; (setsid sleep 1000 &); prlimit --pid $h --nofile=1:1; echo ready; sleep 1000",
    ),
];

/// Ways in which children try to escape. Each command prints `ready` once all its processes run. The part after
/// `;;` keeps the command itself running.
const SHAPES: [(&str, &str); 9] = [
    ("plain", "echo ready ;; sleep 1000"),
    ("background", "sleep 1000 & echo ready ;; wait"),
    ("setsid", "setsid sleep 1000 & echo ready ;; wait"),
    (
        "setsid, parent gone",
        "(setsid sleep 1000 &); echo ready ;; sleep 1000",
    ),
    ("double fork", "( (sleep 1000 &) & ); echo ready ;; sleep 1000"),
    (
        "daemon",
        "setsid sh -c '(setsid sh -c \"trap : HUP; sleep 1000; :\" </dev/null >/dev/null 2>&1 &)'; echo ready ;; sleep 1000",
    ),
    (
        "stopped",
        "sleep 1000 & kill -STOP $!; setsid sleep 1000 & kill -STOP $!; echo ready ;; wait",
    ),
    (
        "stubborn",
        "trap '' INT TERM HUP QUIT; (setsid sleep 1000 &); sleep 1000 & echo ready ;; while :; do sleep 1000; done",
    ),
    (
        "bomb",
        "(i=0; while [ $i -lt 1000 ]; do setsid sleep 1000 & sleep 1000 & sleep 0.01; i=$((i+1)); done) & sleep 0.3; echo ready ;; wait",
    ),
];

fn endless_command(shape: &str) -> String {
    shape.replace(";;", ";")
}

fn exiting_command(shape: &str) -> String {
    shape.split(" ;;").next().unwrap().to_owned()
}

fn fresh_mark() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The helpers that were seen, by the mark of their command.
static HELPERS: Mutex<BTreeMap<String, i32>> = Mutex::new(BTreeMap::new());

/// Returns the command line of a process; empty if it is gone.
fn command_line(pid: i32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

/// Returns the parent of a process, if it is a helper.
fn parent_helper(pid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    let parent = parent.trim().parse().ok()?;
    is_helper(parent).then_some(parent)
}

fn is_helper(pid: i32) -> bool {
    command_line(pid).starts_with("agentls __exec")
}

/// Returns the pid and command line of every living process that carries `mark`, and of the helper that started them.
fn find_marked(mark: &str) -> Vec<(i32, String)> {
    let wanted = format!("{MARK}={mark}");
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environ
            .split(|&b| b == 0)
            .any(|variable| variable == wanted.as_bytes())
        {
            found.push((pid, command_line(pid)));
        }
    }
    // The helper does not get the variables of the command.
    let mut helpers = HELPERS.lock().unwrap();
    if let Some(helper) = found.iter().find_map(|(pid, _)| parent_helper(*pid)) {
        helpers.insert(mark.to_owned(), helper);
    }
    if let Some(helper) = helpers.get(mark).filter(|helper| is_helper(**helper)) {
        found.push((*helper, command_line(*helper)));
    }
    found
}

/// Waits until no process carries `mark`.
async fn wait_until_all_gone(mark: &str, case: &str) {
    loop {
        let living = find_marked(mark);
        if living.is_empty() {
            return;
        }
        for (process_id, _) in &living {
            wait_for_end(*process_id, || format!("{case}: the end of {living:?}")).await;
        }
    }
}

/// Waits until `count` processes carry `mark`: during `exec` a process has no environment for a moment.
async fn wait_for_marked(mark: &str, count: usize, case: &str) {
    wait_until(
        || find_marked(mark).len() >= count,
        || format!("{case}: {count} processes, not only {:?}", find_marked(mark)),
    )
    .await;
}

fn launcher() -> Launcher {
    Launcher::with_helper(HELPER, [])
}

async fn start(script: &str, mark: &str) -> Child {
    launcher()
        .spawn(Command::from_script(script).env(MARK, mark).merge_stderr())
        .await
        .inspect(|_| drop(find_marked(mark)))
        .unwrap()
}

/// Reads until the script reports that all its processes run.
async fn wait_until_ready(child: &mut Child, case: &str) {
    let mut output = Vec::new();
    while !output.ends_with(b"ready\n") {
        let chunk = child
            .output
            .next()
            .await
            .unwrap_or_else(|| panic!("{case}: ended before it was ready"));
        output.extend_from_slice(&chunk.bytes);
    }
}

/// The time between two stages of a stop.
const STEP: Duration = Duration::from_secs(1);

/// Stops a command while the clock stands still, except for `steps`: before each, the command has not ended.
///
/// What the stop waits for after the last step has no limit then, so a busy machine changes nothing.
async fn stop_in_steps(child: &Child, mode: StopMode, steps: &[Duration]) -> CommandEnd {
    let clock = FrozenClock::new();
    let force_cancel = CancellationToken::new();
    let mut stop = std::pin::pin!(child.process.stop(mode, &force_cancel));
    for step in steps {
        if let std::task::Poll::Ready(ending) = poll!(&mut stop) {
            return ending;
        }
        clock.advance(*step).await;
    }
    within_limit(stop).await
}

/// Starts every shape, runs `end` on it once it is ready, and asserts that no process survives.
async fn end_every_shape<F: Future<Output = ()>>(text: fn(&str) -> String, end: impl Fn(Child) -> F) {
    for (name, shape) in SHAPES {
        let mark = fresh_mark();
        let mut child = start(&text(shape), &mark).await;
        wait_until_ready(&mut child, name).await;
        end(child).await;
        wait_until_all_gone(&mark, name).await;
    }
}

#[tokio::test]
async fn shapes_run_several_processes_until_stopped() {
    // Otherwise the tests below would prove nothing.
    for (name, shape) in SHAPES {
        let mark = fresh_mark();
        let mut child = start(&endless_command(shape), &mark).await;
        wait_until_ready(&mut child, name).await;
        wait_for_marked(&mark, 2, name).await;
    }
}

#[tokio::test]
async fn kill_ends_every_process() {
    end_every_shape(endless_command, async |child| {
        child.process.kill();
        let ending = child.process.wait_until_gone().await;
        assert!(ending.is_gone);
        assert_eq!(ending.status, ExitStatus::Signal(9));
        assert_eq!(child.process.wait().await, ExitStatus::Signal(9));
    })
    .await;
}

#[tokio::test]
async fn no_process_remains_after_the_end_is_reported() {
    for (name, shape) in SHAPES {
        let mark = fresh_mark();
        let mut child = start(&endless_command(shape), &mark).await;
        wait_until_ready(&mut child, name).await;
        child.process.kill();
        assert!(child.process.wait_until_gone().await.is_gone, "{name}");
        assert_eq!(find_marked(&mark), [], "{name}");
    }
}

#[tokio::test]
async fn staged_interrupt_ends_every_process() {
    end_every_shape(endless_command, async |child| {
        let ending = stop_in_steps(&child, StopMode::Interrupt, &[STEP, STEP]).await;
        assert!(ending.is_gone);
    })
    .await;
}

#[tokio::test]
async fn staged_server_end_ends_every_process() {
    end_every_shape(endless_command, async |child| {
        let ending = stop_in_steps(&child, StopMode::ServerEnd, &[STEP]).await;
        assert!(ending.is_gone);
    })
    .await;
}

#[tokio::test]
async fn dropping_a_child_kills_every_process() {
    end_every_shape(endless_command, async |child| drop(child)).await;
}

#[tokio::test]
async fn survivors_of_a_normal_exit_are_killed() {
    end_every_shape(exiting_command, async |child| {
        assert_eq!(child.process.wait().await, ExitStatus::Code(0));
        assert!(child.process.wait_until_gone().await.is_gone);
    })
    .await;
}

/// Not a test: with its variable set, this is the server process of other tests. It launches a command, reports
/// when all processes run, and waits to be killed. With a count it runs the command that many times to its end.
#[tokio::test]
async fn server_role() {
    let Ok(script) = std::env::var(SERVER_SCRIPT) else {
        return;
    };
    if let Ok(count) = std::env::var(SERVER_COUNT) {
        let several = (0..count.parse().unwrap()).map(|_| run(Command::from_script(&*script)));
        futures::future::join_all(several).await;
        return;
    }
    if let Ok(end) = std::env::var(SERVER_END) {
        return run_adopting_server(&script, &end).await;
    }
    let mut child = launcher()
        .spawn(Command::from_script(script).merge_stderr())
        .await
        .unwrap();
    wait_until_ready(&mut child, "server").await;
    println!("\nserver ready");
    std::future::pending::<()>().await;
}

async fn run_adopting_server(script: &str, end: &str) {
    adopt_orphans();
    let content = || std::io::stdout().write_all(b"\nserver content\n").unwrap();
    if end == "start" {
        return content();
    }
    let mark = std::env::var(COMMAND_MARK).unwrap();
    let folder = tempfile::tempdir().unwrap();
    if end == "refuse" {
        let helper = folder.path().join("helper");
        write_program(&helper, script);
        let command = Command::from_script("").env(MARK, &mark);
        let refused = Launcher::with_helper(&helper, []).spawn(command).await;
        assert!(matches!(refused, Err(SpawnError::Helper { .. })), "{refused:?}");
        assert_eq!(find_marked(&mark), [], "no process remains after the error");
        return content();
    }
    // An unrelated command, which must be left alone.
    let mut other = start("setsid sleep 1000 & echo ready; wait", &fresh_mark()).await;
    wait_until_ready(&mut other, "other").await;
    // The attack waits until the start was reported; otherwise the start itself would fail.
    let go = folder.path().join("go");
    let script = format!("until [ -e '{}' ]; do sleep 0.01; done; {script}", go.display());
    let mut child = start(&script, &mark).await;
    std::fs::write(&go, "").unwrap();
    wait_until_ready(&mut child, end).await;
    match end {
        "stop" => {
            // After the last step, the server takes over from a helper that does not answer.
            let steps = [STEP, STEP, Duration::from_millis(250)];
            let ending = stop_in_steps(&child, StopMode::Interrupt, &steps).await;
            assert!(ending.is_gone);
            assert_eq!(
                find_marked(&mark),
                [],
                "no process remains after the end is reported"
            );
        }
        "drop" => drop(child),
        other => panic!("{other}"),
    }
    wait_until_all_gone(&mark, end).await;
    // The other command, its child and its helper remain; the killed processes leave not even zombies.
    let descendants = || count_descendants(std::process::id());
    wait_until(
        || descendants() == 3,
        || format!("three descendants, not {}", descendants()),
    )
    .await;
    content();
}

/// Returns the number of descendants of a process.
fn count_descendants(root: u32) -> usize {
    let stat = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let parents: Vec<(u32, u32)> = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| {
            let stat = stat(pid)?;
            Some((
                pid,
                stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?,
            ))
        })
        .collect();
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(
            parents
                .iter()
                .filter(|(_, of)| *of == parent)
                .map(|(pid, _)| *pid),
        );
        at += 1;
    }
    found.len() - 1
}

fn write_program(path: &std::path::Path, script: &str) {
    let text = path.with_extension("text");
    std::fs::write(&text, format!("#!/bin/sh\n{script}")).unwrap();
    // Another process writes it: one that a test starts meanwhile would keep our file open, and the kernel refuses to
    // run a program that is open for writing.
    let installed = std::process::Command::new("install")
        .args(["-m", "755"])
        .arg(&text)
        .arg(path)
        .status()
        .unwrap();
    assert!(installed.success());
}

/// Runs `server_role` in its own process and expects its final message.
fn expect_server_success(script: &str, end: &str, case: &str) {
    let mark = fresh_mark();
    let server = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "server_role", "--nocapture", "--test-threads=1"])
        .env(SERVER_SCRIPT, script)
        .env(SERVER_END, end)
        .env(COMMAND_MARK, &mark)
        .output()
        .unwrap();
    let output = text(&server.stdout);
    let errors = text(&server.stderr);
    assert!(
        output.contains("\nserver content\n"),
        "{case}, {end}: {output}{errors}"
    );
    assert_eq!(find_marked(&mark), [], "{case}");
}

/// A fast command can kill its helper before the helper has reported the start.
#[tokio::test]
async fn helper_that_dies_during_start_leaves_no_process() {
    // `setsid`: a real helper also leads its own session.
    let helper = "exec setsid sh -c 'setsid sleep 1000 & kill -KILL $$'\n";
    expect_server_success(helper, "refuse", "helper");
}

#[tokio::test]
async fn attacks_on_the_helper_free_no_process() {
    for (name, attack) in ATTACKS {
        for end in ["stop", "drop"] {
            expect_server_success(attack, end, name);
        }
    }
}

/// A fast command can stop its helper before the helper has reported the start.
#[tokio::test]
async fn helper_stopped_during_start_is_continued() {
    let folder = tempfile::tempdir().unwrap();
    let helper = folder.path().join("helper");
    write_program(&helper, &format!("kill -STOP $$\nexec {HELPER} \"$@\"\n"));
    let launcher = Launcher::with_helper(&helper, []);
    let started = launcher.spawn(Command::from_script("echo done"));
    let child = within_limit(started).await;
    let collected = child.unwrap().collect_output(100).await;
    assert_eq!(text(&collected.stdout), "done\n");
}

/// In a container, or in any other pid namespace, the session id of the server can be 0.
#[tokio::test]
async fn server_in_a_pid_namespace_without_its_session_works() {
    // Once with the namespace's `/proc`, once with the machine's, where the pids belong to other processes.
    for (option, end) in [("--mount-proc", "stop"), ("--kill-child", "start")] {
        let script = r#""$0" --exact server_role --nocapture --test-threads=1; exit $?"#;
        let namespace = ["--map-root-user", "--pid", "--fork", option, "sh", "-c", script];
        let server = std::process::Command::new("unshare")
            .args(namespace)
            .arg(std::env::current_exe().unwrap())
            .env(
                SERVER_SCRIPT,
                "setsid sleep 1000 & echo ready; kill -KILL $PPID; sleep 1000",
            )
            .env(SERVER_END, end)
            .env(COMMAND_MARK, fresh_mark())
            .output()
            .unwrap();
        let output = text(&server.stdout);
        let errors = text(&server.stderr);
        if errors.contains("unshare failed") {
            println!("NOT TESTED: no namespace may be made here: {errors}");
            return;
        }
        assert!(output.contains("\nserver content\n"), "{end}: {output}{errors}");
    }
}

#[tokio::test]
async fn killed_server_leaves_no_process() {
    for (name, shape) in SHAPES {
        let mark = fresh_mark();
        let mut server = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "server_role", "--nocapture", "--test-threads=1"])
            .env(SERVER_SCRIPT, endless_command(shape))
            .env(MARK, &mark)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "server ready"), "{name}");
        wait_for_marked(&mark, 3, name).await;
        server.kill().unwrap();
        server.wait().unwrap();
        wait_until_all_gone(&mark, name).await;
    }
}

#[tokio::test]
async fn signals_to_the_helper_free_no_process() {
    let mark = fresh_mark();
    let mut child = start(
        "trap '' TERM INT HUP QUIT; echo ready; while :; do sleep 1000; done",
        &mark,
    )
    .await;
    wait_until_ready(&mut child, "signals").await;
    let (helper, _) = find_marked(&mark)
        .into_iter()
        .find(|(_, line)| line.starts_with("agentls __exec"))
        .unwrap();
    for signal in [
        "INT", "HUP", "QUIT", "USR1", "USR2", "ALRM", "PIPE", "TSTP", "TTIN", "XCPU", "TERM",
    ] {
        let kill = Command::from_argv(["kill", &format!("-{signal}"), &helper.to_string()]);
        let kill = launcher().spawn(kill).await.unwrap();
        assert!(kill.process.wait().await.success());
    }
    assert!(
        find_marked(&mark).iter().any(|(pid, _)| *pid == helper),
        "the helper is still there"
    );
    child.process.kill();
    assert!(child.process.wait_until_gone().await.is_gone);
    wait_until_all_gone(&mark, "signals").await;
}

#[tokio::test]
async fn killed_helper_frees_no_process() {
    let mark = fresh_mark();
    let mut child = start("sleep 1000 & ( (sleep 1000 &) & ) ; echo ready; wait", &mark).await;
    wait_until_ready(&mut child, "helper").await;
    let (helper, _) = find_marked(&mark)
        .into_iter()
        .find(|(_, line)| line.starts_with("agentls __exec"))
        .unwrap();
    let kill = launcher()
        .spawn(Command::from_argv(["kill", "-KILL", &helper.to_string()]))
        .await
        .unwrap();
    assert!(kill.process.wait().await.success());
    assert_eq!(child.process.wait_until_gone().await.status, ExitStatus::Unknown);
    wait_until_all_gone(&mark, "helper").await;
}

#[tokio::test]
async fn second_cancel_kills_immediately() {
    let mark = fresh_mark();
    let mut child = start(
        "trap '' INT TERM; echo ready; while :; do sleep 1000; done",
        &mark,
    )
    .await;
    wait_until_ready(&mut child, "hurry").await;
    let force_cancel = CancellationToken::new();
    let clock = FrozenClock::new();
    let mode = StopMode::Finish(Duration::from_secs(5));
    let mut stop = std::pin::pin!(child.process.stop(mode, &force_cancel));
    assert!(poll!(&mut stop).is_pending());
    force_cancel.cancel();
    let ending = within_limit(stop).await;
    assert!(ending.is_gone);
    assert_eq!(ending.status, ExitStatus::Signal(9));
    drop(clock);
    wait_until_all_gone(&mark, "hurry").await;
}

#[tokio::test]
async fn finish_lets_a_command_finish_and_interrupt_lets_it_clean_up() {
    let mut child = start("echo ready; sleep 0.1; exit 7", "-").await;
    wait_until_ready(&mut child, "finish").await;
    let ending = stop_in_steps(&child, StopMode::Finish(Duration::from_secs(5)), &[]).await;
    assert_eq!(ending.status, ExitStatus::Code(7));

    let script = "trap 'echo cleaned; exit 3' INT; echo ready; while :; do sleep 0.05; done";
    let mut child = start(script, "-").await;
    wait_until_ready(&mut child, "cleanup").await;
    let ending = stop_in_steps(&child, StopMode::Interrupt, &[]).await;
    assert_eq!(ending.status, ExitStatus::Code(3));
    assert_eq!(&child.output.next().await.unwrap().bytes[..], b"cleaned\n");
}

#[tokio::test]
async fn finish_waits_no_longer_than_its_limit() {
    let script = "trap 'exit 3' INT; echo ready; while :; do sleep 0.05; done";
    let mut child = start(script, "-").await;
    wait_until_ready(&mut child, "finish").await;
    let clock = FrozenClock::new();
    let force_cancel = CancellationToken::new();
    let limit = Duration::from_secs(300);
    let mut stop = std::pin::pin!(child.process.stop(StopMode::Finish(limit), &force_cancel));
    for step in [limit - Duration::from_millis(1), Duration::from_millis(1)] {
        assert!(poll!(&mut stop).is_pending());
        clock.advance(step).await;
    }
    assert_eq!(within_limit(stop).await.status, ExitStatus::Code(3));
}

#[tokio::test]
async fn a_stopped_command_can_clean_up() {
    let mut child = start("trap 'exit 5' TERM; echo ready; kill -STOP $$; exit 6", "-").await;
    wait_until_ready(&mut child, "stopped").await;
    let pid = child.process.pid();
    wait_until(|| process_state(pid) == 'T', || "the stop".to_owned()).await;
    let ending = stop_in_steps(&child, StopMode::ServerEnd, &[]).await;
    assert_eq!(ending.status, ExitStatus::Code(5));
}

/// Returns the kernel's letter for the state of a process.
fn process_state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    fields.chars().next().unwrap()
}

async fn run(command: Command) -> agentls::workspace::process::Collected {
    launcher()
        .spawn(command)
        .await
        .unwrap()
        .collect_output(1 << 20)
        .await
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn exit_status_is_reported() {
    for (script, want) in [
        ("exit 0", ExitStatus::Code(0)),
        ("exit 42", ExitStatus::Code(42)),
        ("kill -TERM $$", ExitStatus::Signal(15)),
        ("kill -KILL $$", ExitStatus::Signal(9)),
        ("kill -SEGV $$", ExitStatus::Signal(11)),
    ] {
        assert_eq!(run(Command::from_script(script)).await.status, want, "{script}");
    }
}

#[tokio::test]
async fn spawn_errors_name_the_cause() {
    let missing = launcher()
        .spawn(Command::from_argv(["no-such-program-here", "x"]))
        .await
        .unwrap_err();
    assert!(matches!(&missing, SpawnError::NotFound { program, .. } if program == "no-such-program-here"));
    assert!(
        missing
            .to_string()
            .starts_with("cannot find program `no-such-program-here`"),
        "{missing}"
    );

    let nowhere = launcher()
        .spawn(Command::from_script("true").current_dir("/no/such/place"))
        .await
        .unwrap_err();
    assert_eq!(
        nowhere.to_string(),
        "cannot use working directory /no/such/place: No such file or directory (os error 2)"
    );
    let file = launcher()
        .spawn(Command::from_script("true").current_dir("/etc/passwd"))
        .await
        .unwrap_err();
    assert!(matches!(file, SpawnError::WorkingDirectory { .. }), "{file}");

    let denied = launcher()
        .spawn(Command::from_argv(["/etc/passwd"]))
        .await
        .unwrap_err();
    assert_eq!(
        denied.to_string(),
        "cannot start program `/etc/passwd`: Permission denied (os error 13)"
    );

    let long = launcher()
        .spawn(Command::from_argv(["true".to_owned(), "x".repeat(1 << 20)]))
        .await
        .unwrap_err();
    assert!(matches!(long, SpawnError::Arguments { .. }), "{long}");
    for comment in [0, 300_000] {
        let script = format!("echo \0 #{}", "x".repeat(comment));
        let nul = launcher().spawn(Command::from_script(script)).await.unwrap_err();
        assert!(matches!(nul, SpawnError::Arguments { .. }), "{comment}: {nul}");
    }
    let empty = launcher()
        .spawn(Command::from_argv(Vec::<String>::new()))
        .await
        .unwrap_err();
    assert!(matches!(empty, SpawnError::Refused { .. }), "{empty}");

    let helper = Launcher::with_helper("/no/such/helper", [])
        .spawn(Command::from_script("true"))
        .await
        .unwrap_err();
    assert!(
        helper
            .to_string()
            .starts_with("cannot start the process helper /no/such/helper: "),
        "{helper}"
    );
    let other = Launcher::with_helper("true", [])
        .spawn(Command::from_script("true"))
        .await
        .unwrap_err();
    assert!(matches!(other, SpawnError::Helper { .. }), "{other}");
}

#[tokio::test]
async fn helper_started_by_hand_explains_itself() {
    let collected = run(Command::from_argv([HELPER, "__exec"])).await;
    assert_eq!(collected.status, ExitStatus::Code(2));
    assert!(
        text(&collected.stderr).contains("started by agentls itself"),
        "{collected:?}"
    );
}

#[tokio::test]
async fn streams_are_separate_or_merged_in_order() {
    let script = "echo one; echo two >&2; echo three";
    let separate = run(Command::from_script(script)).await;
    assert_eq!(
        (text(&separate.stdout), text(&separate.stderr)),
        ("one\nthree\n", "two\n")
    );
    let merged = run(Command::from_script(script).merge_stderr()).await;
    assert_eq!(
        (text(&merged.stdout), text(&merged.stderr)),
        ("one\ntwo\nthree\n", "")
    );
}

#[tokio::test]
async fn command_gets_its_directory_and_environment() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap();
    let command = Command::from_script("pwd -P; echo \"$ONE\"; echo \"${PATH-none}\"")
        .current_dir(&path)
        .env("ONE", "1 \n x")
        .env_remove("PATH");
    let got = run(command).await;
    let lines: Vec<_> = text(&got.stdout).split('\n').collect();
    assert_eq!(lines[..3], [path.to_str().unwrap(), "1 ", " x"]);
}

#[tokio::test]
async fn stripped_variables_reach_neither_helper_nor_command() {
    // Cargo sets it for every test. The script checks the helper's environment in `/proc`, too.
    let name = "CARGO_MANIFEST_DIR";
    assert!(std::env::var_os(name).is_some());
    let script = format!("echo \"[${name}]\"; tr '\\0' '\\n' </proc/$PPID/environ | grep -c ^{name}=");
    let plain = run(Command::from_script(&*script)).await;
    assert!(
        text(&plain.stdout).ends_with("]\n1\n") && !plain.stdout.starts_with(b"[]"),
        "{plain:?}"
    );
    let strict = Launcher::with_helper(HELPER, [name.to_owned()]);
    let stripped = strict
        .spawn(Command::from_script(&*script))
        .await
        .unwrap()
        .collect_output(1 << 20)
        .await;
    assert_eq!(text(&stripped.stdout), "[]\n0\n");
    let added = strict
        .spawn(Command::from_script(&*script).env(name, "x"))
        .await
        .unwrap()
        .collect_output(1 << 20)
        .await;
    assert_eq!(text(&added.stdout), "[x]\n0\n", "only the command gets it");
}

#[tokio::test]
async fn stdin_is_empty_given_or_piped() {
    assert_eq!(run(Command::from_script("cat; echo end")).await.stdout, b"end\n");

    let large: Vec<u8> = (0..1_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let got = run(Command::from_argv(["cat"]).stdin(Stdin::Bytes(large.clone()))).await;
    assert_eq!((got.stdout == large, got.cut), (true, false));

    let mut child = launcher()
        .spawn(Command::from_argv(["cat"]).stdin(Stdin::Piped))
        .await
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for word in ["one", "two"] {
        tokio::io::AsyncWriteExt::write_all(&mut stdin, word.as_bytes())
            .await
            .unwrap();
        assert_eq!(&child.output.next().await.unwrap().bytes[..], word.as_bytes());
    }
    drop(stdin);
    assert_eq!(child.output.next().await, None);
    assert_eq!(child.process.wait().await, ExitStatus::Code(0));
}

#[tokio::test]
async fn command_inherits_only_three_descriptors() {
    // The server is a separate process without the descriptors that this one inherited. It starts many commands
    // at once: a descriptor that is inheritable for a moment would leak into another command's start.
    let directory = tempfile::tempdir().unwrap();
    let script = format!(
        "ls -l /proc/self/fd >{}/$$; echo ready",
        directory.path().display()
    );
    // `exec` does not close the descriptors that cargo or other tests left inheritable.
    let close =
        "for fd in /proc/$$/fd/*; do fd=${fd##*/}; [ $fd -gt 2 ] && eval \"exec $fd>&-\"; done; exec \"$@\"";
    let server = std::process::Command::new("bash")
        .args(["-c", close, "bash"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "server_role", "--nocapture", "--test-threads=1"])
        .env(SERVER_SCRIPT, script)
        .env(SERVER_COUNT, "20")
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(server.success());
    let listings: Vec<_> = std::fs::read_dir(directory.path()).unwrap().flatten().collect();
    assert_eq!(listings.len(), 20);
    for listing in listings {
        let listing = std::fs::read_to_string(listing.path()).unwrap();
        let fds = listing
            .lines()
            .filter_map(|line| line.split(" -> ").next()?.split(' ').next_back());
        // 3 is the directory that `ls` reads.
        assert_eq!(fds.skip(1).collect::<Vec<_>>(), ["0", "1", "2", "3"], "{listing}");
        assert!(listing.contains("3 -> /proc/"), "{listing}");
    }
}

#[tokio::test]
async fn command_has_its_own_group_no_terminal_and_default_signals() {
    let script =
        "cat /proc/self/stat | cut -d' ' -f5,7; echo $$; grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status";
    let got = run(Command::from_script(script)).await;
    let mut words = text(&got.stdout).split_whitespace();
    let (group, terminal, pid) = (
        words.next().unwrap(),
        words.next().unwrap(),
        words.next().unwrap(),
    );
    assert_eq!((group, terminal), (pid, "0"));
    let inherited = std::fs::read_to_string("/proc/self/status").unwrap();
    // Rust programs ignore SIGPIPE, and the helper handles the other signals. The command gets their default action,
    // even if our parent ignores them (nohup); otherwise nothing could interrupt it.
    let handled_signals = [1, 2, 3, 10, 12, 13, 14, 15, 17, 20, 21, 22, 24, 25, 26, 27, 29];
    let handled_mask: u64 = handled_signals.iter().map(|signal| 1 << (signal - 1)).sum();
    for (name, none) in [("SigBlk", 0), ("SigIgn", handled_mask)] {
        let mask = |text: &str| -> u64 {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap()
        };
        let mask = |text: &str| mask(text) & 0x7fff_ffff; // the C library keeps 32 and 33 for itself
        assert_eq!(mask(text(&got.stdout)), mask(&inherited) & !none, "{name}");
    }
}

/// How many bytes a process has written; nothing once it has ended.
fn written_bytes(pid: u32) -> Option<usize> {
    let counters = std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let written = counters.lines().find_map(|line| line.strip_prefix("wchar: "))?;
    written.parse().ok()
}

#[tokio::test]
async fn unread_output_blocks_the_command_without_growing_memory() {
    let mut child = start("exec head -c 100000000 /dev/zero", "-").await;
    // It sleeps once the pipe is full, and cannot end until its output is read.
    let pid = child.process.pid();
    let is_head = || command_line(i32::try_from(pid).unwrap()).starts_with("head ");
    wait_until(
        || is_head() && process_state(pid) == 'S',
        || "a full pipe".to_owned(),
    )
    .await;
    assert!(poll!(std::pin::pin!(child.process.wait())).is_pending());
    let (mut total, mut most_held) = (0, 0);
    while let Some(chunk) = child.output.next().await {
        assert!(!chunk.bytes.is_empty() && chunk.bytes.len() <= 64 << 10);
        total += chunk.bytes.len();
        let written = written_bytes(pid).unwrap_or(total);
        most_held = most_held.max(written.saturating_sub(total));
    }
    assert_eq!(total, 100_000_000);
    assert_eq!(child.process.wait().await, ExitStatus::Code(0));
    // The pipe, and one chunk on its way to us.
    assert!(most_held <= 1 << 20, "{most_held} bytes were held");
}

#[tokio::test]
async fn collected_output_is_cut_at_the_limit() {
    let got = launcher()
        .spawn(Command::from_script("head -c 300000 /dev/zero; echo e >&2"))
        .await
        .unwrap();
    let got = got.collect_output(1000).await;
    assert_eq!(
        (got.stdout.len(), got.cut, &got.stderr[..]),
        (1000, true, &b"e\n"[..])
    );
    assert_eq!(got.status, ExitStatus::Code(0));
}

#[tokio::test]
async fn output_ends_when_a_child_keeps_the_pipe_open() {
    for script in [
        "echo one; sleep 1000 & exit 0",
        "echo one; setsid sleep 1000 & exit 0",
    ] {
        let got = within_limit(run(Command::from_script(script))).await;
        assert_eq!((text(&got.stdout), got.status), ("one\n", ExitStatus::Code(0)));
    }
}

#[tokio::test]
async fn output_ends_when_an_unrelated_process_keeps_the_pipe_open() {
    // A process outside the tree holds the pipe open, and we must not kill it.
    let mut child = start("echo ready; sleep 1000", "-").await;
    wait_until_ready(&mut child, "stranger").await;
    let pid = child.process.pid();
    let pipe = std::fs::File::options()
        .write(true)
        .open(format!("/proc/{pid}/fd/1"))
        .unwrap();
    child.process.kill();
    assert_eq!(within_limit(child.output.next()).await, None);
    drop(pipe);
}

#[tokio::test]
async fn output_written_before_the_exit_can_be_read_later() {
    let mut child = start("echo ready", "-").await;
    child.process.wait_until_gone().await;
    let clock = FrozenClock::new();
    clock.advance(Duration::from_secs(60)).await;
    assert_eq!(&child.output.next().await.unwrap().bytes[..], b"ready\n");
    assert_eq!(child.output.next().await, None);
    assert_eq!(child.output.next().await, None);
}

#[tokio::test]
async fn flooding_stream_does_not_starve_the_other() {
    let mut child = launcher()
        .spawn(Command::from_script(
            "cat /dev/zero & while echo x >&2; do :; done",
        ))
        .await
        .unwrap();
    let mut chunk_counts = [0_usize; 2];
    while chunk_counts.iter().any(|&count| count < 5) {
        let chunk = child.output.next().await.unwrap();
        chunk_counts[usize::from(chunk.stream == Stream::Stderr)] += 1;
    }
    child.process.kill();
    assert!(child.process.wait_until_gone().await.is_gone);
}

#[tokio::test]
async fn git_command_runs_no_program_of_the_repository() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let git = async |args: &[&str]| {
        let got = run(git_command(args.iter().copied()).current_dir(path)).await;
        assert!(got.status.success(), "{args:?}: {}", text(&got.stderr));
        text(&got.stdout).to_owned()
    };
    git(&["init", "-q"]).await;
    let trap = path.join("trap.sh");
    let trap_log = path.join("sprung");
    std::fs::write(
        &trap,
        format!("#!/bin/sh\necho \"$0 $*\" >>{}\ncat\n", trap_log.display()),
    )
    .unwrap();
    std::fs::set_permissions(&trap, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::copy(&trap, path.join(".git/hooks/pre-commit")).unwrap();
    std::fs::copy(&trap, path.join(".git/hooks/post-index-change")).unwrap();
    std::fs::write(path.join(".gitattributes"), "*.txt diff=trap\n").unwrap();
    std::fs::write(path.join("a.txt"), "one\n").unwrap();
    let trap = trap.to_str().unwrap();
    for key in [
        "core.fsmonitor",
        "core.pager",
        "diff.external",
        "diff.trap.textconv",
        "diff.trap.command",
        "core.editor",
    ] {
        git(&["config", key, trap]).await;
    }
    git(&["config", "user.name", "t"]).await;
    git(&["config", "user.email", "t@example.invalid"]).await;
    git(&["add", "a.txt", ".gitattributes"]).await;
    git(&["commit", "-q", "-m", "one"]).await;
    std::fs::write(path.join("a.txt"), "two\n").unwrap();
    let diff = git(&["diff"]).await;
    assert!(diff.contains("-one\n+two\n"), "{diff}");
    assert!(git(&["status", "--porcelain"]).await.contains(" M a.txt"));
    assert!(git(&["log", "-p"]).await.contains("+one"));
    assert!(git(&["show"]).await.contains("+one"));
    assert!(
        !trap_log.exists(),
        "{}",
        std::fs::read_to_string(&trap_log).unwrap_or_default()
    );
}

/// A start may be canceled at any moment; no process is left when the error is reported (I8).
#[tokio::test(flavor = "multi_thread")]
async fn cancelled_start_leaves_no_process() {
    let limit = std::time::Instant::now() + waiting::WAIT_LIMIT;
    // The cancel comes at 25 moments of a start, and after it. A start takes longer on a busy machine.
    let mut whole = Duration::from_millis(5);
    let (mut canceled, mut started) = (0, 0);
    for round in 0.. {
        let start = std::time::Instant::now();
        let delay = whole * (round % 30) / 25;
        match cancel_a_start(&launcher(), tokio::time::sleep(delay)).await {
            Ok(()) => {
                started += 1;
                whole = start.elapsed();
            }
            Err(error) => {
                assert!(matches!(error, SpawnError::Cancelled), "{delay:?}: {error}");
                canceled += 1;
            }
        }
        if round >= 50 && canceled >= 20 && started >= 5 {
            return;
        }
        assert!(
            std::time::Instant::now() < limit,
            "no race in {round} rounds: {canceled} canceled"
        );
    }
}

#[tokio::test]
async fn start_cancelled_before_the_helper_runs_leaves_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let (helper, running, go) = (
        folder.path().join("helper"),
        folder.path().join("running"),
        folder.path().join("go"),
    );
    let script = format!(
        "touch {}; until [ -e {} ]; do sleep 0.01; done\nexec {HELPER} \"$@\"\n",
        running.display(),
        go.display()
    );
    write_program(&helper, &script);
    let launcher = Launcher::with_helper(&helper, []);
    let starts = wait_until(|| running.exists(), || "the helper's start".to_owned());
    let goes_on = async {
        starts.await;
        // The canceled start waits for the helper, so this thread lets it go on.
        std::thread::spawn(move || std::fs::write(go, "").unwrap());
    };
    let canceled = cancel_a_start(&launcher, goes_on).await;
    assert!(matches!(canceled, Err(SpawnError::Cancelled)), "{canceled:?}");
}

/// Starts a command, cancels once `when` is done, and asserts that no process is left.
async fn cancel_a_start(launcher: &Launcher, when: impl Future<Output = ()>) -> Result<(), SpawnError> {
    let mark = fresh_mark();
    let command = Command::from_script("setsid sleep 1000 & sleep 1000").env(MARK, &mark);
    let cancel = CancellationToken::new();
    let canceling = async {
        when.await;
        cancel.cancel();
        std::future::pending::<()>().await;
    };
    let started = tokio::select! {
        () = canceling => unreachable!(),
        started = launcher.spawn_until(&cancel, command) => started,
    };
    let result = match started {
        Ok(child) => {
            child.process.kill();
            child.process.wait_until_gone().await;
            Ok(())
        }
        Err(error) => Err(error),
    };
    assert_eq!(find_marked(&mark), []);
    result
}
