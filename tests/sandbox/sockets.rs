//! Unix sockets of other programs: they must not stop a command, whatever their programs do with them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{NOBODY, World, is_available};

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
