//! Unix sockets of other programs: they must not stop a command, whatever their programs do with them.

use std::fs;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{World, is_available};

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
