//! Unix sockets of other programs: they must not stop a command, whatever their programs do with them.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use super::{NOBODY, World, is_available};

#[test]
fn sockets_that_come_and_go_do_not_stop_a_command() {
    let world = World::new(false);
    let methods = ["namespaces", "bubblewrap"].map(|method| (method, is_available(&world, method)));
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let path = world.path("outside/short-lived");
            while !ended.load(Ordering::Relaxed) {
                drop(UnixListener::bind(&path).unwrap());
                fs::remove_file(&path).unwrap();
            }
        });
        let outputs = methods
            .iter()
            .filter(|(_, is_available)| *is_available)
            .flat_map(|(method, _)| (0..20).map(|_| world.run(method, "echo works")))
            .collect::<Vec<_>>();
        ended.store(true, Ordering::Relaxed);
        for output in outputs {
            assert_eq!(output.stdout, b"works\n", "{output:?}");
        }
    });
}

#[test]
fn sockets_in_folders_of_other_users_do_not_stop_a_command() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can give a folder to another user");
        return;
    }
    let world = World::new(false);
    // Before the socket exists, because a method that fails is not available.
    let methods = ["namespaces", "bubblewrap"].map(|method| (method, is_available(&world, method)));
    // Root can look into it, but not in a user namespace, where bubblewrap and the command run.
    let private = world.path("outside/private");
    fs::create_dir(&private).unwrap();
    let _service = UnixListener::bind(private.join("socket")).unwrap();
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700)).unwrap();
    chown(&private, Some(NOBODY), None).unwrap();
    for (method, _) in methods.into_iter().filter(|(_, is_available)| *is_available) {
        let output = world.run(method, "ls ../outside/private/socket || echo works");
        assert_eq!(output.stdout, b"works\n", "{method}: {output:?}");
    }
}

/// Connects to the socket of the variable `WHERE`.
const CONNECT: &str = "python3 -c 'import os, socket; \
                       socket.socket(socket.AF_UNIX).connect(os.environ[\"WHERE\"])' && echo open";

/// Listens until its input ends. What it did not accept would be in the table of sockets of the other side.
const LISTEN: &str = "
import socket, sys, threading
service = socket.socket(socket.AF_UNIX)
service.bind(sys.argv[1])
service.listen()
def accept():
    while True:
        service.accept()[0].close()
threading.Thread(target=accept, daemon=True).start()
print('ready', flush=True)
sys.stdin.read()
";

/// Starts a program in another network namespace that listens on a socket, and waits until it does.
fn listen_elsewhere(socket: &Path) -> Option<Child> {
    let mut child = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "python3", "-c", LISTEN])
        .arg(socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut ready = [0; 5];
    // The pipe stays open, since a line that cannot be written would end the program.
    let started = child.stdout.as_mut().unwrap().read_exact(&mut ready);
    if started.is_err() {
        eprintln!("skipped: no network namespace can be created here");
        child.wait().unwrap();
        return None;
    }
    Some(child)
}

#[test]
fn sockets_of_another_network_are_closed_if_a_variable_names_them_or_they_are_mounted() {
    let world = World::new(false);
    let socket = world.path("outside/service");
    let Some(mut service) = listen_elsewhere(&socket) else {
        return;
    };
    let at = |folder: &str| world.path(folder).join("service");
    // What a container does with the socket of a program outside.
    fs::write(at("home"), "").unwrap();
    let mount = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";
    for method in ["none", "namespaces", "bubblewrap"] {
        if method != "none" && !is_available(&world, method) {
            continue;
        }
        let is_confined = method != "none";
        for (name, value) in [
            ("DOCKER_HOST", format!("unix://{}", socket.display())),
            ("SSH_AUTH_SOCK", socket.display().to_string()),
            (
                "DBUS_SESSION_BUS_ADDRESS",
                format!("unix:path={},guid=1", socket.display()),
            ),
            ("XDG_RUNTIME_DIR", socket.parent().unwrap().display().to_string()),
        ] {
            let mut command = world.agentls(method, &["run", "--", "bash", "-c", CONNECT]);
            if !is_confined {
                command = Command::new("bash");
                command.args(["-c", CONNECT]);
            }
            let output = command.env("WHERE", &socket).env(name, value).output().unwrap();
            assert_eq!(
                output.stdout == b"open\n",
                !is_confined,
                "{method} {name}: {output:?}"
            );
        }
        let run = world.agentls(method, &["run", "--", "bash", "-c", CONNECT]);
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", mount, "sh"]);
        command.args([&socket, &at("home")]);
        if is_confined {
            command.arg(run.get_program()).args(run.get_args());
            command.current_dir(run.get_current_dir().unwrap()).env_clear();
            command.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
        } else {
            command.args(["bash", "-c", CONNECT]);
        }
        let output = command.env("WHERE", at("home")).output().unwrap();
        if !is_confined && output.stdout != b"open\n" {
            eprintln!("skipped: nothing can be mounted here: {output:?}");
            break;
        }
        assert_eq!(output.stdout == b"open\n", !is_confined, "{method}: {output:?}");
    }
    service.kill().unwrap();
    service.wait().unwrap();
}
