//! Variables that a command gets must not act on the program that confines it.
//!
//! The dynamic loader obeys `LD_DEBUG_OUTPUT` in every program: it writes a file there before the program itself runs.

use std::fs;

use agentls::domain::{SandboxMethod, SandboxNetwork};
use agentls::sandbox::{PathRule, PrivateTemp, SandboxPlan};
use agentls::workspace::process::{Command, Launcher};

use super::{World, is_available, program};

#[tokio::test]
async fn the_loader_of_the_helper_does_not_obey_the_commands_variables() {
    let world = World::new(false);
    let folder = |name: &str| {
        let folder = world.root.path().canonicalize().unwrap().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    };
    let (inside, outside) = (folder("loader-in"), folder("loader-out"));
    let temp = PrivateTemp::create_in(&std::env::temp_dir()).unwrap();
    let launcher = Launcher::with_helper(program(), []);
    for (name, method) in [
        ("none", None),
        ("landlock", Some(SandboxMethod::Landlock)),
        ("namespaces", Some(SandboxMethod::Namespaces)),
        ("bubblewrap", Some(SandboxMethod::Bubblewrap)),
    ] {
        if method.is_some() && !is_available(&world, name) {
            continue;
        }
        let mut command = Command::from_script("echo \"$MARK\"")
            .current_dir(&inside)
            .env("MARK", "a value")
            .env("LD_DEBUG", "files")
            .env("LD_DEBUG_OUTPUT", outside.join(name));
        if let Some(method) = method {
            command = command.sandbox(SandboxPlan {
                method,
                network: SandboxNetwork::Offline,
                temp: temp.path().to_owned(),
                cache_layers: None,
                rules: vec![(PathRule::Workspace, inside.clone())],
            });
        }
        let child = launcher.spawn(command).await.unwrap();
        let output = child.collect_output(1 << 16).await;
        // What the loader cannot write to its file, it writes here.
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(printed.lines().any(|line| line == "a value"), "{name}: {printed}");
        let written = fs::read_dir(&outside)
            .unwrap()
            .flatten()
            .map(|file| file.file_name());
        let written = written
            .filter(|file| file.to_string_lossy().starts_with(name))
            .count();
        // Without a sandbox, the command's own loader writes its file.
        assert_eq!(written, usize::from(method.is_none()), "{name}");
    }
}
