//! What commands see of `/run`, which is replaced: the links and files that are reached, and nothing next to them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use agentls::domain::{SandboxMethod, SandboxNetwork};
use agentls::sandbox::{PathRule, PrivateTemp, SandboxPlan};
use agentls::workspace::process::{Command, Launcher};

use super::{World, is_available, program};

/// `R` is a folder in `/run`, and `ROOT` one elsewhere.
const SCRIPT: &str = "cat $ROOT/resolv.conf; $R/user/shell/bin/tool; \
    cat $R/stub/other $R/folder/file $R/sockets/file 2> /dev/null; { ls $R/sockets; ls $R/user; } 2> /dev/null; \
    echo in >> $R/ws/file && cat $R/ws/file; \
    { echo x > $R/new || echo x > $ROOT/resolv.conf || rm $R/user/shell; } 2> /dev/null || echo protected";

#[tokio::test]
async fn only_links_and_the_file_at_the_end_of_one_are_reached() {
    let world = World::new(false);
    let Ok(run) = tempfile::tempdir_in("/run") else {
        eprintln!("skipped: this user cannot write /run");
        return;
    };
    let (run, root) = (run.path(), world.root.path().canonicalize().unwrap());
    for folder in ["stub", "folder", "sockets", "user", "ws"] {
        fs::create_dir(run.join(folder)).unwrap();
        fs::write(run.join(folder).join("file"), "secret\n").unwrap();
    }
    fs::write(run.join("stub/resolv.conf"), "nameserver 127.0.0.53\n").unwrap();
    fs::write(run.join("stub/other"), "secret\n").unwrap();
    fs::write(run.join("ws/file"), "").unwrap();
    symlink(run.join("stub/resolv.conf"), root.join("resolv.conf")).unwrap();
    let _socket = UnixListener::bind(run.join("sockets/socket")).unwrap();
    symlink(run.join("sockets"), root.join("sockets")).unwrap();
    // As fnm arranges it: a link of each shell to the chosen version.
    fs::create_dir_all(root.join("node/bin")).unwrap();
    fs::create_dir_all(root.join("node/lib")).unwrap();
    fs::write(root.join("node/lib/tool"), "#!/bin/sh\necho tool\n").unwrap();
    fs::set_permissions(root.join("node/lib/tool"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("../lib/tool", root.join("node/bin/tool")).unwrap();
    symlink(root.join("node"), run.join("user/shell")).unwrap();
    let temp = PrivateTemp::create_in(&std::env::temp_dir()).unwrap();
    let launcher = Launcher::with_helper(program(), []);
    for (name, method) in [
        ("namespaces", SandboxMethod::Namespaces),
        ("bubblewrap", SandboxMethod::Bubblewrap),
    ] {
        if !is_available(&world, name) {
            continue;
        }
        let reached = [
            run.join("user/shell/bin"),
            root.join("resolv.conf"),
            run.join("folder"),
            root.join("sockets"),
            // Twice, as in a PATH that was extended twice.
            run.join("user/shell/bin"),
        ];
        let mut rules: Vec<_> = reached.map(|path| (PathRule::Reach, path)).to_vec();
        rules.push((PathRule::Write, run.join("ws")));
        // As `XDG_RUNTIME_DIR` names it.
        rules.push((PathRule::Hide, run.join("user")));
        let plan = SandboxPlan {
            method,
            network: SandboxNetwork::Open,
            temp: temp.path().to_owned(),
            cache_layers: None,
            rules,
        };
        let command = Command::from_script(SCRIPT).env("R", run).env("ROOT", &root);
        let child = launcher.spawn(command.sandbox(plan)).await.unwrap();
        let output = child.collect_output(1 << 16).await;
        let printed = String::from_utf8(output.stdout).unwrap();
        let expected = "nameserver 127.0.0.53\ntool\nshell\nin\nprotected\n";
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(printed, expected, "{name}: {errors}");
        fs::write(run.join("ws/file"), "").unwrap();
    }
}
