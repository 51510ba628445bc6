//! A workspace folder that does not answer, as a dead network mount does: it must not hold up a running turn
//! (R-CANCEL).

use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::json;

use crate::harness::World;
use crate::mock_llm::{Gate, Reply};

/// A folder in which every access blocks: a FUSE file system that nobody serves.
struct HangingFolder {
    path: PathBuf,
    /// Closing it fails all accesses that hang.
    device: Option<OwnedFd>,
}

impl HangingFolder {
    /// Mounts it over `path`; `None` where mounting is not permitted.
    fn mount_over(path: &Path) -> Option<Self> {
        let opened = OpenOptions::new().read(true).write(true).open("/dev/fuse");
        let device = OwnedFd::from(opened.ok()?);
        let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
        let options = format!(
            "fd={},rootmode=40000,user_id={},group_id={},allow_other",
            device.as_raw_fd(),
            user.as_raw(),
            group.as_raw()
        );
        let options = std::ffi::CString::new(options).unwrap();
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("hanging", path, "fuse", flags, options.as_c_str()).ok()?;
        Some(Self {
            path: path.to_owned(),
            device: Some(device),
        })
    }
}

impl Drop for HangingFolder {
    fn drop(&mut self) {
        drop(self.device.take());
        unmount(self.path.as_path(), UnmountFlags::DETACH).unwrap();
    }
}

#[test]
fn hanging_folder_of_slash_commands_holds_up_neither_deltas_nor_a_cancel() {
    for (method, action) in [("agent/steer", None), ("agent/queue", Some("add"))] {
        if run_turn_in_hanging_folder(method, action).is_none() {
            eprintln!("skipped: /dev/fuse cannot be mounted here");
            return;
        }
    }
}

/// Sends a slash command that waits for a hanging folder while a turn runs. The turn's next delta and its end after a
/// cancel come although the clock stands still, so neither waits for the limit of the command. `None` where mounting is
/// not permitted.
fn run_turn_in_hanging_folder(method: &str, action: Option<&str>) -> Option<()> {
    let world = World::new();
    world.write(".agentls/commands/hurry.md", "Be quick.");
    let client = world.start();
    let session = client.session();
    let (started, rest) = (Gate::new(), Gate::new());
    let reply = Reply::text("some").gate(&started).with_text(" words").gate(&rest);
    world.mock().push(reply);
    let id = client.prompt(&session, "work");
    world.wait_at_gate(&started);
    let Some(hanging) = HangingFolder::mount_over(&world.workspace().join(".agentls/commands")) else {
        started.release();
        rest.release();
        client.prompt_result(&id);
        return None;
    };
    let request = client.send(
        method,
        json!({"sessionId": session, "action": action, "prompt": "/hurry"}),
    );
    client.ping();
    client.freeze();
    // The command waits for the folder; the turn's text goes on.
    started.release();
    world.wait_until(|| {
        // The answer to a request brings the deltas that a frame holds back.
        client.ping();
        client.streamed_text(&session).ends_with("words")
    });
    client.cancel(&session);
    client.next(&session, "agent/turnEnded");
    client.thaw();
    assert_eq!(json!(client.prompt_result(&id).state), "cancelled", "{method}");
    let refusal = client.refusal(&request);
    assert!(!refusal.message.is_empty(), "{method}: {refusal:?}");
    drop(hanging);
    assert_eq!(client.ask(&session, "go on").text, "ok", "{method}");
    Some(())
}
