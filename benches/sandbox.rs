//! `cargo bench --bench sandbox`: what each method of the sandbox costs a command that does nothing.
//!
//! The methods alternate command by command, so that a change in the machine's load hits all of them. It asserts
//! nothing. Methods that do not work here are left out.
//!
//! `AGENTLS_BENCH_BIN` names another binary to measure, `AGENTLS_BENCH_ROUNDS` another number of commands of each method.
//! `--smoke` runs few: it shows that the bench works, and its figures mean nothing.

#![expect(
    clippy::disallowed_methods,
    reason = "it measures real time and reads its own settings"
)]
#![expect(clippy::unwrap_used, reason = "a bench that cannot measure stops")]
#![expect(clippy::print_stdout, reason = "it prints a table")]

mod product;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use agentls::domain::{SandboxMethod, SandboxNetwork, SandboxPolicy};
use agentls::sandbox::{PrivateTemp, SandboxScope};
use agentls::workspace::process::{Command, Launcher};

const METHODS: [SandboxMethod; 4] = [
    SandboxMethod::None,
    SandboxMethod::Landlock,
    SandboxMethod::Namespaces,
    SandboxMethod::Bubblewrap,
];

fn main() {
    // `cargo test --all-targets` needs no figures.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let is_smoke = std::env::args().any(|arg| arg == "--smoke");
    let binary = product::find_program(is_smoke);
    let usual = if is_smoke { 3 } else { 400 };
    let rounds = std::env::var("AGENTLS_BENCH_ROUNDS").map_or(usual, |rounds| rounds.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(measure(Launcher::with_helper(binary, []), rounds));
}

async fn measure(launcher: Launcher, rounds: usize) {
    // Not in /tmp, which is another folder inside.
    let root = PrivateTemp::create_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    let temp = PrivateTemp::create_in(&std::env::temp_dir()).unwrap();
    fill(root.path());
    let mut methods = Vec::new();
    for method in METHODS {
        if time_command(&launcher, root.path(), temp.path(), method)
            .await
            .is_some()
        {
            methods.push((method, Vec::new()));
        }
    }
    for _ in 0..rounds {
        for (method, times) in &mut methods {
            times.extend(time_command(&launcher, root.path(), temp.path(), *method).await);
        }
    }
    println!("| method | p50 | p99 | added, p50 |\n|---|---|---|---|");
    let mut base = None;
    for (method, times) in &mut methods {
        times.sort();
        let [half, most] = [50, 99].map(|part| times[(times.len() - 1) * part / 100]);
        let added = half.saturating_sub(*base.get_or_insert(half));
        let [half, most, added] = [half, most, added].map(to_milliseconds);
        println!(
            "| {} | {half:.2} ms | {most:.2} ms | {added:.2} ms |",
            method.name()
        );
    }
}

fn to_milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Creates a workspace and a home folder as people have them.
fn fill(root: &Path) {
    for file in [
        "ws/.git/config",
        "ws/.git/hooks/pre-commit.sample",
        "ws/.vscode/tasks.json",
        "ws/.github/workflows/ci.yml",
        "ws/src/main.rs",
        "home/.bashrc",
        "home/.ssh/id_ed25519",
        "home/.config/gh/hosts.yml",
        "home/.mozilla/profile",
        "home/.gnupg/key",
        "home/.aws/credentials",
        "home/.docker/config.json",
        "home/.npmrc",
        "home/.bash_history",
        "home/.cargo/registry/x",
        "home/.cargo/git/x",
        "home/.npm/x",
        "home/.cache/pip/x",
        "home/go/pkg/mod/x",
        "home/.local/share/agentls/store.db",
        "home/.local/state/agentls/log",
        "home/.config/agentls/config.toml",
    ] {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
}

/// Returns how long a command takes from its start until nothing of it is left; `None` if it fails.
async fn time_command(
    launcher: &Launcher,
    root: &Path,
    temp: &Path,
    method: SandboxMethod,
) -> Option<Duration> {
    let scope = SandboxScope {
        policy: SandboxPolicy::Workspace,
        method,
        workspace: vec![root.join("ws")],
        home: Some(root.join("home")),
        temp: temp.to_owned(),
        network: SandboxNetwork::Offline,
        extra_hide: [
            "home/.local/share/agentls",
            "home/.local/state/agentls",
            "home/.config/agentls",
        ]
        .map(|name| root.join(name))
        .to_vec(),
        extra_write: Vec::new(),
        extra_read_only: Vec::new(),
        visible: Vec::new(),
        shown_home: None,
        cache_layers: Some(root.join("home/.local/share/agentls/build-caches/ws")),
    };
    let start = Instant::now();
    let mut command = Command::from_script(":").current_dir(root.join("ws"));
    if method != SandboxMethod::None {
        command = command.sandbox(scope.build_plan(|_| None));
    }
    let output = launcher.spawn(command).await.ok()?.collect_output(1 << 10).await;
    output.status.success().then(|| start.elapsed())
}
