//! Limits of the system that the program meets when it starts.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::CommandResult;

/// A user without other processes: root has no limit on them.
const NOBODY: u32 = 65_534;

#[test]
fn without_threads_the_program_ends_with_one_line() {
    for arguments in [&["run", "hello"][..], &["serve"], &["acp"]] {
        let mut command = Command::new("bash");
        command
            .args(["-c", "ulimit -u 1 && exec \"$0\" \"$@\""])
            .arg(env!("CARGO_BIN_EXE_agentls"))
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", "/nowhere")
            .current_dir("/");
        if fs::metadata("/proc/self").unwrap().uid() == 0 {
            command.uid(NOBODY).gid(NOBODY);
        }
        let ended = CommandResult::of(&command.output().unwrap());
        ended.assert_exit_code(1);
        let start = "agentls: the system starts no more threads (";
        assert!(ended.err.starts_with(start), "{arguments:?}: {}", ended.err);
        assert_eq!(ended.err.lines().count(), 1, "{arguments:?}: {}", ended.err);
    }
}
