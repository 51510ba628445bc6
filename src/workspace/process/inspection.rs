//! Keeps child processes from looking into this process (R-SEC, I15). Must not know settings.
//!
//! Children run as the same user: without this, `/proc/PID/environ`, `/proc/PID/mem`, and ptrace would reveal every
//! key.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Keeps other processes of this user out of this process's memory and environment, and its memory out of core files.
///
/// An exec resets it. So each of our own processes calls this first, and the commands that we start are not affected.
pub fn deny_inspection() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // Fails only for invalid values.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
    // Only the soft limit: a command that wants its own core file can raise it again.
    let limit = Rlimit {
        current: Some(0),
        maximum: getrlimit(Resource::Core).maximum,
    };
    let _ = setrlimit(Resource::Core, limit);
}
