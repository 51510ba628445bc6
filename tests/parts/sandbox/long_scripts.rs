//! Scripts that are too long for an argument run in each sandbox, and leave nothing behind.

use std::fs;

use agentls::domain::{SandboxMethod, SandboxNetwork};
use agentls::sandbox::{PathRule, PrivateTemp, SandboxPlan};
use agentls::workspace::process::{Command, Launcher};

use super::{World, is_available, program};

#[tokio::test]
async fn a_long_script_runs_in_each_sandbox() {
    let world = World::new(false);
    let folder = world.root.path().canonicalize().unwrap().join("long-scripts");
    fs::create_dir_all(&folder).unwrap();
    let temp = PrivateTemp::create_in(&std::env::temp_dir()).unwrap();
    let launcher = Launcher::with_helper(program(), []);
    let body = "0123456789abcdef\n".repeat(20_000);
    for (name, method) in [
        ("landlock", SandboxMethod::Landlock),
        ("namespaces", SandboxMethod::Namespaces),
        ("bubblewrap", SandboxMethod::Bubblewrap),
    ] {
        if !is_available(&world, name) {
            continue;
        }
        let plan = SandboxPlan {
            method,
            network: SandboxNetwork::Offline,
            temp: temp.path().to_owned(),
            cache_layers: None,
            rules: vec![(PathRule::Workspace, folder.clone())],
        };
        let script = format!("cat > {name} <<'END'\n{body}END\nls /proc/self/fd | wc -l");
        let command = Command::from_script(script)
            .current_dir(&folder)
            // Bash keeps a long heredoc in a temporary file, and `landlock` does not replace `/tmp`.
            .env(
                "TMPDIR",
                if name == "landlock" {
                    temp.path()
                } else {
                    "/tmp".as_ref()
                },
            )
            .merge_stderr();
        let child = launcher.spawn(command.sandbox(plan.clone())).await.unwrap();
        let long = child.collect_output(1 << 16).await;
        let short = Command::from_script("ls /proc/self/fd | wc -l").sandbox(plan);
        let child = launcher
            .spawn(short.current_dir(&folder).merge_stderr())
            .await
            .unwrap();
        let short = child.collect_output(1 << 16).await;
        let printed = |output: &[u8]| String::from_utf8_lossy(output).into_owned();
        assert_eq!(printed(&long.stdout), printed(&short.stdout), "{name}");
        assert_eq!(fs::read_to_string(folder.join(name)).unwrap(), body, "{name}");
    }
}
