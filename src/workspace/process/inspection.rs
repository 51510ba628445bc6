//! What this process does so that its own children cannot look into it (R-SEC, I15): they run as the same user, and
//! without this `/proc/PID/environ`, `/proc/PID/mem` and ptrace would hand them every key. Knows no settings.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Keeps other processes of this user out of this process's memory and environment, and its memory out of core files.
///
/// An exec resets it, so each of our own processes calls this first, and the commands that we start are not affected.
pub fn deny_inspection() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // It fails for invalid values only.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
    // Only the soft limit: a command that wants its own core file may raise it again.
    let limit = Rlimit {
        current: Some(0),
        maximum: getrlimit(Resource::Core).maximum,
    };
    let _ = setrlimit(Resource::Core, limit);
}
