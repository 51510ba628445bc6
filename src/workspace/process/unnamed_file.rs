//! Files without a name, which exist as long as a process has them open. Nothing is left behind.

use std::fs::File;
use std::io;

/// Creates an empty unnamed file, close-on-exec. `label` appears only in the system's lists of open files.
pub(super) fn create_unnamed_file(label: &str) -> io::Result<File> {
    #[cfg(target_os = "linux")]
    let file = rustix::fs::memfd_create(label, rustix::fs::MemfdFlags::CLOEXEC)?.into();
    #[cfg(not(target_os = "linux"))]
    let file = {
        use std::os::unix::fs::OpenOptionsExt;

        let token = crate::base::random::random_token(20);
        let path = std::env::temp_dir().join(format!("agentls-{label}-{token}"));
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        std::fs::remove_file(&path)?;
        file
    };
    Ok(file)
}
