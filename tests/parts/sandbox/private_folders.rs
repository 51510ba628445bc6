//! The temporary folders of commands, in a folder that `TMPDIR` names.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{Method, World, is_available};

/// Lists the temporary folders of commands in a folder for temporary files.
fn list_private(folder: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    entries(folder)
        .iter()
        .flat_map(|shared| entries(shared))
        .collect()
}

fn command(world: &World, method: Method, script: &str) -> Command {
    let mut command = world.agentls(method, &["run", "--", "bash", "-c", script]);
    command.env("TMPDIR", world.path("temporary"));
    command.env("FOLDER", world.path("temporary"));
    command
}

/// Starts a command that writes a secret in its temporary folder, and waits for the file `go` in the workspace.
fn start_owner(world: &World, method: Method) -> Child {
    let _ = fs::remove_file(world.path("ws/go"));
    let script = "echo secret > $TMPDIR/secret; echo waits; until [ -e go ]; do sleep 0.02; done";
    let mut command = command(world, method, script);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    assert_eq!(&line, b"waits\n");
    child
}

#[test]
fn a_command_does_not_see_the_temporary_folders_of_others() {
    let world = World::new(false);
    fs::create_dir(world.path("temporary")).unwrap();
    let script = "cat $FOLDER/*/*/secret 2> /dev/null; echo x > /tmp/own && cat /tmp/own";
    for method in ["namespaces", "bubblewrap"] {
        if !is_available(&world, method) {
            continue;
        }
        let mut owner = start_owner(&world, method);
        let output = command(&world, method, script).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "x\n", "{method}");
        let mut plain = Command::new("bash");
        plain.args(["-c", "cat $FOLDER/*/*/secret"]);
        let output = plain.env("FOLDER", world.path("temporary")).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "secret\n", "{method}");
        fs::write(world.path("ws/go"), "").unwrap();
        owner.wait().unwrap();
        assert_eq!(list_private(&world.path("temporary")), Vec::<PathBuf>::new());
    }
}

#[test]
fn the_folder_of_a_killed_process_is_removed_by_the_next_one() {
    let world = World::new(false);
    fs::create_dir(world.path("temporary")).unwrap();
    if !is_available(&world, "namespaces") {
        return;
    }
    let mut killed = start_owner(&world, "namespaces");
    killed.kill().unwrap();
    killed.wait().unwrap();
    let left = list_private(&world.path("temporary"));
    assert_eq!(left.len(), 1, "{left:?}");
    let mut owner = start_owner(&world, "namespaces");
    let now = list_private(&world.path("temporary"));
    assert!(now.len() == 1 && now != left, "{now:?}");
    assert!(command(&world, "namespaces", "true").status().unwrap().success());
    assert_eq!(list_private(&world.path("temporary")), now, "its owner is alive");
    fs::write(world.path("ws/go"), "").unwrap();
    owner.wait().unwrap();
}
