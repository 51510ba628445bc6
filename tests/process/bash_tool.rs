//! `bash`, `bash_output` and `bash_kill` with real processes (R-TOOL-1, R-CANCEL, R-SEC, I8).

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentls::base::{CancellationToken, clock};
use agentls::domain::ContentRef;
use agentls::tool::bash::Bash;
use agentls::tool::bash_kill::BashKill;
use agentls::tool::bash_output::BashOutput;
use agentls::tool::{
    ContentSink, ContentWriter, DynTool, NoEditor, ToolContext, ToolError, ToolOutput, ToolProgress,
};
use agentls::workspace::command_sandbox::CallSandbox;
use agentls::workspace::process::Launcher;
use agentls::workspace::{MAX_BACKGROUND, OnCancel, Workspace, WorkspaceShared};
use futures::poll;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::frozen_clock::FrozenClock;
use crate::waiting::{self, within_limit};

const HELPER: &str = env!("CARGO_BIN_EXE_agentls");

/// Keeps content as files in a directory.
struct FolderSink(PathBuf);

struct FileWriter {
    name: String,
    file: File,
    bytes: u64,
}

impl ContentSink for FolderSink {
    fn create_writer(&self, name: &str) -> Result<Box<dyn ContentWriter>, String> {
        let file = File::create_new(self.0.join(name)).map_err(|error| error.to_string())?;
        Ok(Box::new(FileWriter {
            name: name.to_owned(),
            file,
            bytes: 0,
        }))
    }

    fn open_reader(&self, name: &str) -> Result<Box<dyn Read + Send>, String> {
        let file = File::open(self.0.join(name)).map_err(|error| error.to_string())?;
        Ok(Box::new(file))
    }
}

impl ContentWriter for FileWriter {
    fn append_text(&mut self, text: &str) -> Result<(), String> {
        self.bytes += text.len() as u64;
        self.file
            .write_all(text.as_bytes())
            .map_err(|error| error.to_string())
    }

    fn finish(self: Box<Self>) -> Result<ContentRef, String> {
        Ok(ContentRef {
            name: self.name,
            bytes: self.bytes,
        })
    }
}

/// A session with its own directory, and a client that decides when to read progress.
pub(crate) struct Session {
    pub(crate) cx: ToolContext,
    progress: mpsc::Receiver<ToolProgress>,
    content_folder: TempDir,
    cwd: TempDir,
}

impl Session {
    pub(crate) fn new() -> Self {
        let (content_folder, cwd) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let shared = WorkspaceShared::new(&[], None);
        shared.set_launcher(Launcher::with_helper(HELPER, []));
        let (sender, progress) = mpsc::channel(4);
        let cx = ToolContext {
            session: "ses_test".into(),
            call: "call_test".into(),
            cwd: cwd.path().canonicalize().unwrap(),
            workspace: Arc::new(Workspace::new(shared)),
            skills: Default::default(),
            asker: Arc::new(agentls::tool::NoUser),
            spawner: Arc::new(agentls::tool::NoSpawner),
            model: None,
            editor: Arc::new(NoEditor),
            cancel: CancellationToken::new(),
            force_cancel: CancellationToken::new(),
            time_limit: None,
            progress: sender,
            content_sink: Arc::new(FolderSink(content_folder.path().to_owned())),
            checkpoints: Arc::new(agentls::tool::NoCheckpoints),
            new_errors_wait: None,
            allows_uncheckpointed: false,
            is_carried: false,
            judged: None,
            narrowed: None,
            sandbox: CallSandbox::default(),
        };
        Self {
            cx,
            progress,
            content_folder,
            cwd,
        }
    }

    /// Calls `bash` while reading its progress, and returns the live output, too.
    pub(crate) async fn bash(&mut self, input: Value) -> (Result<ToolOutput, ToolError>, String) {
        let mut live = String::new();
        let mut call = Box::pin(call_tool(Bash, &self.cx, input));
        let result = loop {
            tokio::select! {
                biased;
                progress = self.progress.recv() => live.push_str(&text_of(progress.unwrap())),
                result = &mut call => break result,
            }
        };
        while let Ok(progress) = self.progress.try_recv() {
            live.push_str(&text_of(progress));
        }
        (result, live)
    }

    pub(crate) async fn text(&mut self, command: &str) -> String {
        self.bash(json!({ "command": command })).await.0.unwrap().text
    }

    /// Reads progress until the command prints `ready`.
    async fn wait_until_ready(&mut self) {
        let mut live = String::new();
        while !live.contains("ready\n") {
            live.push_str(&text_of(self.progress.recv().await.unwrap()));
        }
    }
}

fn text_of(progress: ToolProgress) -> String {
    match progress {
        ToolProgress::Output(text) => text,
        other => panic!("a command only has output: {other:?}"),
    }
}

async fn call_tool(tool: impl DynTool, cx: &ToolContext, input: Value) -> Result<ToolOutput, ToolError> {
    Arc::new(tool).prepare_call(&input).unwrap().run(cx.clone()).await
}

fn is_alive(pid_file: &Path) -> bool {
    let pid = std::fs::read_to_string(pid_file).unwrap();
    Path::new("/proc").join(pid.trim()).exists()
}

async fn wait_until(description: &str, condition: impl Fn() -> bool) {
    waiting::wait_until(condition, || description.to_owned()).await;
}

#[tokio::test]
async fn command_returns_its_output_and_exit_code() {
    let mut session = Session::new();
    let cwd = session.cx.cwd.display().to_string();
    for (command, want) in [
        ("echo one; echo two >&2; echo three", "one\ntwo\nthree"),
        ("true", "(no output)"),
        ("exit 3", "(no output)\nexit code: 3"),
        ("echo x; exit 1", "x\nexit code: 1"),
        ("kill -TERM $$", "(no output)\nkilled by signal 15"),
        ("pwd -P", &cwd),
        ("cat; echo end", "end"),
        ("printf '1%%\\r2%%\\r\\033[1m3%%\\033[0m\\n'", "3%"),
        (
            "echo $TERM $NO_COLOR $PAGER $GIT_PAGER $GIT_TERMINAL_PROMPT",
            "dumb 1 cat cat 0",
        ),
        ("no-such-command-here 2>/dev/null", "(no output)\nexit code: 127"),
    ] {
        let (result, _) = session.bash(json!({ "command": command })).await;
        let output = result.unwrap();
        assert_eq!(output.text, want, "{command}");
        assert_eq!((output.is_error, output.full), (false, None), "{command}");
    }
}

#[tokio::test]
async fn read_only_git_runs_no_program_of_the_repository() {
    let mut session = Session::new();
    let cwd = session.cx.cwd.clone();
    session.cx.workspace.shared().set_trusted(&cwd, true);
    let (trap, sprung) = (cwd.join("trap.sh"), cwd.join("sprung"));
    let script = format!("#!/bin/sh\necho \"$0\" >>{}\n", sprung.display());
    std::fs::write(&trap, script).unwrap();
    let trap_path = trap.display();
    let setup = format!(
        "chmod +x trap.sh && git init -q && git config user.name t && git config user.email t@example.invalid \
         && echo one >a && git add a && git commit -qm one && echo two >a && cp trap.sh .git/hooks/post-index-change \
         && git config core.fsmonitor {trap_path} && git config core.pager {trap_path} \
         && git config gpg.program {trap_path} && git config log.showSignature true && rm -f sprung"
    );
    let output = session.bash(json!({ "command": setup })).await.0.unwrap();
    assert_eq!(output.text, "(no output)");
    for look in [
        "git status",
        "git diff",
        "git log -p",
        "git show",
        "git status --porcelain | cat",
    ] {
        touch(&cwd.join("a"));
        let (result, _) = session.bash(json!({ "command": look })).await;
        assert!(!result.unwrap().text.contains("exit code"), "{look}");
        assert!(!sprung.exists(), "{look}");
    }
    // The user's own settings stay, settings of the command line win, and hooks run.
    for (command, runs) in [
        (format!("git -c core.fsmonitor={trap_path} status"), true),
        ("unset GIT_CONFIG_COUNT; git status".to_owned(), true),
        ("unset GIT_CONFIG_COUNT; git diff".to_owned(), true),
        ("unset GIT_CONFIG_COUNT; git log -p".to_owned(), false),
        ("git add a".to_owned(), true),
        ("git config user.name".to_owned(), false),
    ] {
        let _ = std::fs::remove_file(&sprung);
        let (result, _) = session.bash(json!({ "command": command })).await;
        result.unwrap();
        assert_eq!(sprung.exists(), runs, "{command}");
    }
}

/// Changes the modification time, so that git reads the file again.
fn touch(path: &std::path::Path) {
    let text = std::fs::read(path).unwrap();
    std::fs::write(path, text).unwrap();
}

#[tokio::test]
async fn untrusted_folder_allows_using_a_repository_the_command_created() {
    let mut session = Session::new();
    let command = "git init -q && git config user.name t && git config user.email t@example.invalid && echo one >a \
                   && git add a && git commit -qm one && git log --format=%s";
    let output = session.bash(json!({ "command": command })).await.0.unwrap();
    assert_eq!(output.text, "one");
    // Nobody has inspected a second repository below it.
    let command = "git init -q below && git -C below status";
    let output = session.bash(json!({ "command": command })).await.0.unwrap();
    assert!(output.text.contains("exit code: "), "{}", output.text);
}

#[tokio::test]
async fn a_command_that_fails_in_another_folder_is_not_explained_by_trust() {
    let mut session = Session::new();
    std::fs::create_dir(session.cx.cwd.join("sub")).unwrap();
    let input = json!({"command": "basename $PWD; exit 3", "workdir": "sub"});
    let output = session.bash(input).await.0.unwrap();
    assert_eq!(output.text, "sub\nexit code: 3");
}

#[tokio::test]
async fn a_git_that_is_ended_in_the_background_leaves_no_lock() {
    let mut session = Session::new();
    let cwd = session.cx.cwd.clone();
    session.cx.workspace.shared().set_trusted(&cwd, true);
    let setup = "git init -q && git config user.name t && git config user.email t@example.invalid && echo 1 > f \
                 && git add f && printf '#!/bin/sh\\ntouch waits; sleep 1000\\n' > .git/hooks/pre-commit \
                 && chmod +x .git/hooks/pre-commit";
    assert_eq!(session.text(setup).await, "(no output)");
    let (lock, waits) = (cwd.join(".git/index.lock"), cwd.join("waits"));
    let id = start_in_background(&session.cx, "git commit -qam one").await;
    wait_until("the hook runs", || waits.exists()).await;
    assert!(lock.exists(), "git holds the repository");
    // Git gets the time to remove it.
    call_tool(BashKill, &session.cx, json!({ "id": id }))
        .await
        .unwrap();
    assert!(!lock.exists());
}

#[tokio::test]
async fn missing_working_directory_is_reported() {
    let mut session = Session::new();
    std::fs::remove_dir(session.cwd.path()).unwrap();
    let (result, _) = session.bash(json!({ "command": "true" })).await;
    let error = result.unwrap_err();
    assert!(matches!(&error, ToolError::Reported(text) if text.starts_with("cannot use working directory")));
}

#[tokio::test]
async fn output_streams_live_complete_and_in_order() {
    let mut session = Session::new();
    let cx = session.cx.clone();
    let go = cx.cwd.join("go");
    let command = "printf 'ready\\n\\303'; while [ ! -e go ]; do sleep 0.01; done; printf '\\251'; seq 3 >&2";
    let client = async {
        session.wait_until_ready().await;
        File::create(&go).unwrap();
        let mut live = String::new();
        while let Some(progress) = session.progress.recv().await {
            live.push_str(&text_of(progress));
            if live.ends_with("3\n") {
                break;
            }
        }
        live
    };
    let (result, live) = tokio::join!(call_tool(Bash, &cx, json!({ "command": command })), client);
    assert_eq!(live, "é1\n2\n3\n");
    assert_eq!(result.unwrap().text, "ready\né1\n2\n3");
}

#[tokio::test]
async fn slow_client_applies_backpressure_to_the_command() {
    let session = Session::new();
    let counted = session.cx.cwd.join("counted");
    let command =
        "for n in $(seq 200); do head -c 65536 /dev/zero | tr '\\0' x; echo >>counted; done; echo done";
    let mut running = Box::pin(call_tool(Bash, &session.cx, json!({ "command": command })));
    let size = || std::fs::metadata(&counted).map_or(0, |file| file.len());
    let mut last = (0, clock::now());
    // Nothing shows that it makes no progress anymore. A pause that a busy machine makes would hide an error only.
    while last.0 == 0 || last.1.elapsed() < Duration::from_millis(300) {
        let _ = clock::timeout(Duration::from_millis(10), &mut running).await;
        if size() > last.0 {
            last = (size(), clock::now());
        }
    }
    assert!((1..20).contains(&last.0), "{last:?}");
    let mut progress = session.progress;
    let reader = async { while progress.recv().await.is_some() {} };
    let result = tokio::select! {
        result = running => result,
        () = reader => unreachable!("the context is alive"),
    };
    assert!(result.unwrap().text.ends_with("done"));
    assert_eq!(size(), 200);
}

#[tokio::test]
async fn long_output_is_cut_for_the_model_and_kept_in_full() {
    let mut session = Session::new();
    // Less and more than the part that is kept in memory; below, output that just fits.
    for (count, call) in [(8_000, "short"), (200_000, "long")] {
        session.cx.call = call.into();
        let (result, live) = session
            .bash(json!({ "command": format!("seq {count}; exit 4") }))
            .await;
        let output = result.unwrap();
        let text = &output.text;
        assert!(text.starts_with("1\n2\n") && text.ends_with(&format!("\n{count}\nexit code: 4")));
        assert!(text.contains(" lines …]"), "{call}");
        assert!((9_000..11_200).contains(&text.len()), "{}", text.len());
        let full = output.full.unwrap();
        assert_eq!(full.name, format!("{call}-output.txt"));
        let content = std::fs::read_to_string(session.content_folder.path().join(full.name)).unwrap();
        assert_eq!((content.len() as u64, content == live), (full.bytes, true));
        assert_eq!(content.lines().count(), count);
    }
    for (command, suffix) in [
        ("head -c 11000 /dev/zero | tr '\\0' x", ""),
        ("head -c 11000 /dev/zero | tr '\\0' x; echo", ""),
        ("head -c 11000 /dev/zero | tr '\\0' x; exit 4", "\nexit code: 4"),
    ] {
        session.cx.call = "fits".into();
        let output = session.bash(json!({ "command": command })).await.0.unwrap();
        assert_eq!(output.text, "x".repeat(11_000) + suffix);
        assert_eq!((output.full, output.paged), (None, true), "{command}");
    }
    session.cx.call = "one-more".into();
    let command = "head -c 11001 /dev/zero | tr '\\0' x";
    let output = session.bash(json!({ "command": command })).await.0.unwrap();
    assert!(
        output
            .text
            .contains("[… 1 bytes of 11001 left out here, 0 lines …]")
    );
    assert_eq!(output.full.unwrap().bytes, 11_001);
}

#[tokio::test]
async fn failure_to_keep_output_is_reported() {
    let mut session = Session::new();
    std::fs::write(
        session.content_folder.path().join("call_test-output.txt"),
        "taken",
    )
    .unwrap();
    for count in [8_000, 200_000] {
        let (result, _) = session.bash(json!({ "command": format!("seq {count}") })).await;
        let output = result.unwrap();
        assert_eq!(output.full, None);
        assert!(
            output
                .text
                .contains("[could not keep the whole output: File exists"),
            "{count}"
        );
    }
}

/// Runs in its own process, so that the memory of other tests does not count.
#[tokio::test]
async fn huge_output_does_not_grow_memory() {
    const ROLE: &str = "bash_tool::huge_output_in_bounded_memory";
    let exe = std::fs::read_link("/proc/self/exe").unwrap();
    let mut session = Session::new();
    let command = format!("AGENTLS_TEST_ROLE=1 {} --exact {ROLE} --nocapture", exe.display());
    let text = session.text(&command).await;
    assert!(text.contains("1 passed"), "{text}");
}

#[tokio::test]
async fn huge_output_in_bounded_memory() {
    // It measures its whole process, so only `huge_output_does_not_grow_memory` runs it.
    if !std::env::vars_os().any(|(name, _)| name == "AGENTLS_TEST_ROLE") {
        return;
    }
    const BYTES: u64 = 200_000_000;
    let memory = || -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let mut session = Session::new();
    session.text("true").await;
    let before = memory();
    let command = format!("yes 'a line of output, as programs write it' | head -c {BYTES}");
    let cx = session.cx.clone();
    let mut running = Box::pin(call_tool(Bash, &cx, json!({ "command": command })));
    let mut live = 0;
    let output = loop {
        tokio::select! {
            biased;
            progress = session.progress.recv() => live += text_of(progress.unwrap()).len() as u64,
            result = &mut running => break result.unwrap(),
        }
    };
    while let Ok(progress) = session.progress.try_recv() {
        live += text_of(progress).len() as u64;
    }
    let grown = memory() - before;
    assert!(grown < 20_000, "grew by {grown} KiB");
    assert_eq!((live, output.full.unwrap().bytes), (BYTES, BYTES));
}

/// Calls `bash` on a clock that stands still, and moves it to the call's time limit once the command has printed
/// `ready`. Returns the live output, too.
async fn run_past_limit(
    session: &mut Session,
    input: Value,
    limit: Duration,
) -> (Result<ToolOutput, ToolError>, String) {
    let clock = FrozenClock::new();
    let cx = session.cx.clone();
    let mut call = std::pin::pin!(call_tool(Bash, &cx, input));
    let mut live = String::new();
    while !live.contains("ready\n") {
        tokio::select! {
            progress = session.progress.recv() => live.push_str(&text_of(progress.unwrap())),
            result = &mut call => panic!("it ended before its limit: {result:?}"),
        }
    }
    for step in [limit - Duration::from_millis(1), Duration::from_millis(1)] {
        assert!(poll!(&mut call).is_pending());
        clock.advance(step).await;
    }
    let result = within_limit(call).await;
    while let Ok(progress) = session.progress.try_recv() {
        live.push_str(&text_of(progress));
    }
    (result, live)
}

const LIMIT: Duration = Duration::from_secs(300);

#[tokio::test]
async fn command_goes_on_in_the_background_at_its_time_limit() {
    let mut session = Session::new();
    let command = "echo ready; until [ -e go ]; do sleep 0.02; done; echo done; exit 9";
    let input = json!({ "command": command, "timeout_s": 300 });
    let (result, live) = run_past_limit(&mut session, input, LIMIT).await;
    let output = result.unwrap();
    let text = &output.text;
    assert!(
        text.starts_with(
            "ready\n[still running after 300 s, so it goes on in the background as bg1 (process "
        ),
        "{text}"
    );
    for word in ["bash_output", "bash_kill", "timeout_s (at most 600)"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert_eq!(
        (output.is_error, output.timed_out, output.exit_code, live.as_str()),
        (false, false, None, "ready\n")
    );
    std::fs::write(session.cwd.path().join("go"), "").unwrap();
    assert_eq!(
        read_background(&session.cx, "bg1", 60.0).await,
        "done\nbg1 has ended\nexit code: 9"
    );

    // The configured limit, and a command that has closed its output.
    session.cx.time_limit = Some(LIMIT);
    let input = json!({ "command": "echo ready; exec >&- 2>&-; exec sleep 1000" });
    let output = run_past_limit(&mut session, input, LIMIT).await.0.unwrap().text;
    assert!(
        output.starts_with("ready\n[still running after 300 s, so it goes on in the background as bg2 "),
        "{output}"
    );
    assert!(
        read_background(&session.cx, "bg2", 0.0)
            .await
            .ends_with("bg2 is running")
    );
}

#[tokio::test]
async fn canceled_turn_ends_what_went_on_in_the_background_by_itself() {
    let mut session = Session::new();
    let command = "trap 'echo interrupted; exit 3' INT; echo ready; while :; do sleep 0.02; done";
    let input = json!({ "command": command, "timeout_s": 300 });
    run_past_limit(&mut session, input, LIMIT).await.0.unwrap();
    let asked_for = start_in_background(&session.cx, "sleep 1000").await;
    // Its time does not pass, so only the interrupt ends it.
    let clock = FrozenClock::new();
    session.cx.cancel.cancel();
    session.cx.cancel = CancellationToken::new();
    assert_eq!(
        within_limit(read_background(&session.cx, "bg1", 60.0)).await,
        "interrupted\nbg1 has ended\nexit code: 3"
    );
    drop(clock);
    assert!(
        read_background(&session.cx, &asked_for, 0.0)
            .await
            .ends_with("is running")
    );
}

#[tokio::test]
async fn command_is_stopped_at_its_time_limit_if_the_background_is_full() {
    let mut session = Session::new();
    for _ in 0..MAX_BACKGROUND {
        start_in_background(&session.cx, "sleep 1000").await;
    }
    let command = "trap 'echo cleaned up; exit 9' INT; echo ready; while :; do sleep 0.02; done";
    let input = json!({ "command": command, "timeout_s": 300 });
    let (result, live) = run_past_limit(&mut session, input, LIMIT).await;
    let output = result.unwrap();
    assert_eq!(
        output.text,
        "ready\ncleaned up\ntimed out after 300 s and was stopped, because it could not go on in the background: \
         16 background processes are already running; end one first. For more time set timeout_s (at most 600)\n\
         exit code: 9"
    );
    assert!(output.is_error && output.timed_out && live.starts_with("ready\n"));
}

#[tokio::test]
async fn slow_client_does_not_delay_the_time_limit() {
    let session = Session::new();
    let clock = FrozenClock::new();
    let input = json!({ "command": "yes", "timeout_s": 300 });
    let mut call = std::pin::pin!(call_tool(Bash, &session.cx, input));
    // The call waits for the client once the queue is full.
    let is_full = wait_until("a full queue", || {
        session.progress.len() == session.progress.max_capacity()
    });
    tokio::select! {
        result = &mut call => panic!("it ended before its limit: {result:?}"),
        () = is_full => {}
    }
    assert!(poll!(&mut call).is_pending());
    clock.advance(LIMIT).await;
    let output = within_limit(call).await.unwrap();
    assert!(output.text.contains("still running after 300 s"));
}

/// How the user, or the end of the server, cancels a call.
#[derive(Clone, Copy, PartialEq)]
enum CancelKind {
    Once,
    Twice,
    ServerEnd,
}

/// Runs `command` until it prints `ready`, then cancels and creates the file `canceled`.
///
/// The clock stands still except for `steps`; before each of them, the command has not ended.
async fn run_and_cancel(
    session: &mut Session,
    command: &str,
    kind: CancelKind,
    steps: &[Duration],
) -> ToolOutput {
    let clock = FrozenClock::new();
    let cx = session.cx.clone();
    let mut call = std::pin::pin!(call_tool(Bash, &cx, json!({ "command": command })));
    tokio::select! {
        result = &mut call => panic!("it ended before the cancel: {result:?}"),
        () = session.wait_until_ready() => {}
    }
    if kind == CancelKind::ServerEnd {
        cx.force_cancel.cancel();
    }
    cx.cancel.cancel();
    if kind == CancelKind::Twice {
        assert!(poll!(&mut call).is_pending());
        cx.force_cancel.cancel();
    }
    for step in steps {
        assert!(poll!(&mut call).is_pending());
        clock.advance(*step).await;
    }
    assert!(poll!(&mut call).is_pending());
    std::fs::write(session.cwd.path().join("canceled"), "").unwrap();
    match within_limit(call).await {
        Err(ToolError::CutShort(output)) => *output,
        other => panic!("not cut short: {other:?}"),
    }
}

/// The time between two stages of a stop.
const STEP: Duration = Duration::from_secs(1);

#[tokio::test]
async fn cancel_interrupts_and_keeps_the_output() {
    let mut session = Session::new();
    let command = "trap 'echo cleaned up; exit 5' INT; echo ready; while :; do sleep 0.02; done";
    let output = run_and_cancel(&mut session, command, CancelKind::Once, &[]).await;
    assert_eq!(
        output.text,
        "ready\ncleaned up\ncanceled while it ran\nexit code: 5"
    );
    assert!(output.is_error);
}

#[tokio::test]
async fn flooding_command_that_ignores_signals_is_killed_in_time() {
    let mut session = Session::new();
    let command = "trap '' INT TERM; echo ready; (trap '' INT TERM; exec yes) & while :; do sleep 1000; done";
    let millisecond = Duration::from_millis(1);
    let steps = [STEP, STEP - millisecond, millisecond];
    let output = run_and_cancel(&mut session, command, CancelKind::Once, &steps).await;
    assert!(output.text.ends_with("canceled while it ran\nkilled by signal 9"));
}

#[tokio::test]
async fn on_cancel_finish_lets_a_command_complete() {
    let mut session = Session::new();
    session
        .cx
        .workspace
        .set_on_cancel(OnCancel::Finish(Duration::from_secs(5)));
    // More than a pipe holds, although nobody reads live output after the cancel.
    let command = "echo ready; until [ -e canceled ]; do sleep 0.01; done; \
                   head -c 1000000 /dev/zero | tr '\\0' x; echo finished";
    let output = run_and_cancel(&mut session, command, CancelKind::Once, &[]).await;
    assert!(output.text.ends_with("xfinished\ncanceled while it ran"));
    assert_eq!(output.full.unwrap().bytes, 1_000_000 + 6 + 9);
}

#[tokio::test]
async fn second_cancel_kills_immediately() {
    let mut session = Session::new();
    let command = "trap '' INT TERM; echo ready; while :; do sleep 1000; done";
    let output = run_and_cancel(&mut session, command, CancelKind::Twice, &[]).await;
    assert_eq!(output.text, "ready\ncanceled while it ran\nkilled by signal 9");
}

#[tokio::test]
async fn server_shutdown_terminates_and_then_kills() {
    for (traps, want, steps) in [
        ("trap 'exit 6' TERM", "exit code: 6", &[][..]),
        ("trap '' TERM", "killed by signal 9", &[STEP]),
    ] {
        let mut session = Session::new();
        let command = format!("{traps}; echo ready; while :; do sleep 0.02; done");
        let output = run_and_cancel(&mut session, &command, CancelKind::ServerEnd, steps).await;
        assert!(output.text.ends_with(want), "{}", output.text);
    }
}

#[tokio::test]
async fn cancel_before_the_start_starts_nothing() {
    let session = Session::new();
    session.cx.cancel.cancel();
    for background in [false, true] {
        let input = json!({ "command": "touch started", "background": background });
        let result = call_tool(Bash, &session.cx, input).await;
        assert!(matches!(result, Err(ToolError::Cancelled)));
    }
    assert!(!session.cx.cwd.join("started").exists());
}

#[tokio::test]
async fn no_process_of_a_command_outlives_its_result() {
    // The children do not hold the output open, so its end does not prove theirs.
    let command =
        "for n in $(seq 40); do setsid sh -c 'echo $$ >pid$0; exec sleep 1000' $n >/dev/null 2>&1 & done
        until [ $(cat pid* | wc -l) = 40 ]; do sleep 0.01; done; echo done";
    let mut session = Session::new();
    assert!(session.text(command).await.ends_with("done"));
    let pids: Vec<PathBuf> = (1..=40).map(|n| session.cx.cwd.join(format!("pid{n}"))).collect();
    assert!(!pids.iter().any(|pid| is_alive(pid)));
}

#[tokio::test]
async fn dropping_the_call_kills_the_command() {
    let mut session = Session::new();
    let cx = session.cx.clone();
    let input = json!({ "command": "echo $$ >pid; echo ready; exec sleep 1000" });
    tokio::select! {
        _ = call_tool(Bash, &cx, input) => panic!("the command ended"),
        () = session.wait_until_ready() => {}
    }
    let pid = cx.cwd.join("pid");
    wait_until("the command is gone", || !is_alive(&pid)).await;
}

#[tokio::test]
async fn stripped_variables_reach_no_command() {
    // Cargo sets this for every test.
    const NAME: &str = "CARGO_MANIFEST_DIR";
    let mut session = Session::new();
    let command = format!("echo \"[${NAME}]\"; tr '\\0' '\\n' </proc/$PPID/environ | grep -c ^{NAME}=");
    assert!(!session.text(&command).await.starts_with("[]"));
    let shared = session.cx.workspace.shared().clone();
    shared.set_stripped_env([NAME.to_owned()].into());
    assert_eq!(session.text(&command).await, "[]\n0\nexit code: 1");
    let started = call_tool(
        Bash,
        &session.cx,
        json!({ "command": command, "background": true }),
    )
    .await;
    started.unwrap();
    let read = call_tool(BashOutput, &session.cx, json!({ "id": "bg1", "wait_s": 60 })).await;
    assert_eq!(read.unwrap().text, "[]\n0\nbg1 has ended\nexit code: 1");
    shared.set_stripped_env([].into());
    assert!(!session.text(&command).await.starts_with("[]"));
}

/// Starts a background command and returns its id.
async fn start_in_background(cx: &ToolContext, command: &str) -> String {
    let output = call_tool(Bash, cx, json!({ "command": command, "background": true })).await;
    let text = output.unwrap().text;
    let id = text
        .strip_prefix("started in the background as ")
        .and_then(|rest| rest.split(' ').next());
    id.unwrap().to_owned()
}

async fn read_background(cx: &ToolContext, id: &str, wait_s: f64) -> String {
    let output = call_tool(BashOutput, cx, json!({ "id": id, "wait_s": wait_s })).await;
    output.unwrap().text
}

/// Reads until the command has written something, and returns that answer.
async fn read_some(cx: &ToolContext, id: &str) -> String {
    loop {
        let text = read_background(cx, id, 0.02).await;
        if !text.starts_with("(no output)") {
            return text;
        }
    }
}

#[tokio::test]
async fn background_process_can_be_read_and_killed() {
    let session = Session::new();
    let cx = &session.cx;
    assert!(cx.workspace.background().is_empty());
    let id = start_in_background(
        cx,
        "trap 'echo bye; exit 0' TERM; echo $$ >pid; echo one; while [ ! -e go ]; do sleep 0.01; done; \
         echo two; while :; do sleep 0.02; done",
    )
    .await;
    assert_eq!(id, "bg1");
    assert!(!cx.workspace.background().is_empty());
    assert_eq!(read_some(cx, &id).await, "one\nbg1 is running");
    assert_eq!(read_background(cx, &id, 0.0).await, "(no output)\nbg1 is running");
    File::create(cx.cwd.join("go")).unwrap();
    assert_eq!(read_some(cx, &id).await, "two\nbg1 is running");
    let killed = call_tool(BashKill, cx, json!({ "id": id })).await.unwrap();
    // bash may first report that its own child was terminated.
    assert!(killed.text.ends_with("bye\nbg1 has ended"), "{}", killed.text);
    assert!(!is_alive(&cx.cwd.join("pid")) && cx.workspace.background().list_jobs().is_empty());

    let unknown = call_tool(BashKill, cx, json!({ "id": id })).await.unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "no background process `bg1`: there is none; those that an earlier agentls started have ended with it"
    );
    start_in_background(cx, "true").await;
    let unknown = call_tool(BashOutput, cx, json!({ "id": "bg9" }))
        .await
        .unwrap_err();
    assert_eq!(unknown.to_string(), "no background process `bg9`: there are bg2");
}

#[tokio::test]
async fn cancelled_wait_for_a_background_process_loses_no_output() {
    let mut session = Session::new();
    let id = start_in_background(&session.cx, "echo one; exec sleep 1000").await;
    let cancel = session.cx.cancel.clone();
    let input = json!({ "id": id, "wait_s": 100 });
    let (result, ()) = tokio::join!(call_tool(BashOutput, &session.cx, input), async {
        tokio::task::yield_now().await;
        cancel.cancel();
    });
    assert!(matches!(result, Err(ToolError::Cancelled)));
    session.cx.cancel = CancellationToken::new();
    assert_eq!(read_some(&session.cx, &id).await, "one\nbg1 is running");
}

#[tokio::test]
async fn all_output_of_a_flooding_background_process_can_be_read() {
    let session = Session::new();
    let lines = 1_000_000;
    let id = start_in_background(&session.cx, &format!("seq {lines}")).await;
    // Nobody reads until it has ended.
    let output = call_tool(BashOutput, &session.cx, json!({ "id": id, "wait_s": 60 })).await;
    let output = output.unwrap();
    assert!(output.text.starts_with("1\n2\n3\n"), "{}", &output.text[..100]);
    assert!(output.text.ends_with(&format!("\n{lines}\nbg1 has ended")));
    assert!(output.text.chars().count() < 12_000);
    let all: usize = (1..=lines).map(|n: usize| n.to_string().len() + 1).sum();
    assert_eq!(output.full.unwrap().bytes, all as u64);
}

#[tokio::test]
async fn background_processes_are_limited_and_ended_ones_make_room() {
    let session = Session::new();
    let cx = &session.cx;
    for _ in 0..MAX_BACKGROUND {
        start_in_background(cx, "exec sleep 1000").await;
    }
    let input = json!({ "command": "exec sleep 1000", "background": true });
    let refused = call_tool(Bash, cx, input).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("16 background processes are already running"),
        "{refused}"
    );
    let ids: Vec<String> = cx
        .workspace
        .background()
        .list_jobs()
        .into_iter()
        .map(|job| job.id)
        .collect();
    call_tool(BashKill, cx, json!({ "id": ids[3] })).await.unwrap();
    let last = start_in_background(cx, "true").await;
    read_background(cx, &last, 60.0).await;
    // The ended process, which is still listed, makes room for this one.
    let next = start_in_background(cx, "exec sleep 1000").await;
    let list = cx.workspace.background().list_jobs();
    assert_eq!(list.len(), MAX_BACKGROUND);
    assert!(list.iter().all(|job| job.id != last) && list.iter().any(|job| job.id == next));
}

#[tokio::test]
async fn closing_a_session_ends_its_background_processes() {
    let session = Session::new();
    let cx = &session.cx;
    start_in_background(
        cx,
        "trap 'touch ended; exit 0' TERM; echo $$ >pid; while :; do sleep 0.02; done",
    )
    .await;
    start_in_background(cx, "trap '' TERM; echo $$ >pid2; while :; do sleep 0.02; done").await;
    let pids = [cx.cwd.join("pid"), cx.cwd.join("pid2")];
    for pid in &pids {
        wait_until("it runs", || pid.metadata().is_ok_and(|file| file.len() > 0)).await;
    }
    let clock = FrozenClock::new();
    {
        let mut end = std::pin::pin!(cx.workspace.background().end_all());
        // One of them ends by itself; after one step the other one is killed.
        tokio::select! {
            () = &mut end => panic!("a command that ignores the signal has ended"),
            () = wait_until("the end of one", || !is_alive(&pids[0])) => {}
        }
        clock.advance(STEP).await;
        within_limit(end).await;
    }
    drop(clock);
    assert!(cx.cwd.join("ended").exists() && !pids.iter().any(|pid| is_alive(pid)));
    let input = json!({ "command": "true", "background": true });
    let refused = call_tool(Bash, cx, input).await.unwrap_err();
    assert!(
        refused.to_string().contains("the session is closing"),
        "{refused}"
    );
}

#[tokio::test]
async fn dropping_a_session_kills_its_background_processes() {
    let session = Session::new();
    let cwd = session.cx.cwd.clone();
    let command =
        "(setsid sh -c 'trap \"\" TERM INT; echo $$ >pid; while :; do sleep 1; done' &); sleep 1000";
    start_in_background(&session.cx, command).await;
    let pid = cwd.join("pid");
    wait_until("it runs", || pid.metadata().is_ok_and(|file| file.len() > 0)).await;
    drop(session.cx);
    wait_until("it is gone", || !is_alive(&pid)).await;
}
