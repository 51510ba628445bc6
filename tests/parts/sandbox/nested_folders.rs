//! Workspace folders inside others, in the real sandbox.

use std::fs;

use agentls::domain::{SandboxMethod, SandboxNetwork, SandboxPolicy};
use agentls::sandbox::{PrivateTemp, SandboxScope};
use agentls::workspace::process::{Command, Launcher};

use super::{World, is_available, program};

#[test]
fn files_of_a_nested_workspace_folder_stay_protected_whatever_the_order() {
    let world = World::new(false);
    let outer = fs::canonicalize(world.path("ws")).unwrap();
    let inner = outer.join("nested");
    for file in [".git/config", ".vscode/tasks.json"] {
        let path = inner.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let temp = PrivateTemp::create_in(&std::env::temp_dir()).unwrap();
    let launcher = Launcher::with_helper(program(), []);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    for (name, method) in [
        ("namespaces", SandboxMethod::Namespaces),
        ("bubblewrap", SandboxMethod::Bubblewrap),
    ] {
        if !is_available(&world, name) {
            continue;
        }
        for workspace in [[&outer, &inner], [&inner, &outer]] {
            let scope = SandboxScope {
                policy: SandboxPolicy::Workspace,
                method,
                workspace: workspace.map(Clone::clone).to_vec(),
                home: None,
                temp: temp.path().to_owned(),
                network: SandboxNetwork::Offline,
                extra_write: Vec::new(),
                extra_hide: Vec::new(),
                extra_read_only: Vec::new(),
                visible: Vec::new(),
                shown_home: None,
                cache_layers: None,
            };
            let script = "for file in .git/config .vscode/tasks.json ../.git/config made ../made; do \
                          echo x 2>/dev/null >> $file && echo $file; done";
            let command = Command::from_script(script).current_dir(&inner);
            let command = command.sandbox(scope.build_plan(|_| None));
            let output = runtime.block_on(async {
                let child = launcher.spawn(command).await.unwrap();
                child.collect_output(1 << 16).await
            });
            let written = String::from_utf8(output.stdout).unwrap();
            assert_eq!(written, "made\n../made\n", "{name}: {workspace:?}");
        }
    }
}
