//! Passes a shell the script that the system does not take as an argument.
//!
//! Linux takes at most 128 KiB (32 pages) in one argument, and models write whole files by heredoc. The shell reads a
//! longer script from an unnamed file, which the helper creates inside the sandbox. Standard input stays as it is,
//! nothing is left behind, and the programs that the script starts do not inherit the file.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use rustix::io::{FdFlags, fcntl_setfd};

use crate::workspace::process::unnamed_file::create_unnamed_file;

/// Longest script that is passed as an argument, in bytes. Far below the limit of every system.
const LONGEST_ARGUMENT: usize = 64 << 10;
/// Where a process finds its descriptors. Not every sandbox has a `/dev/fd` on Linux.
const DESCRIPTORS: &str = if cfg!(target_os = "linux") {
    "/proc/self/fd"
} else {
    "/dev/fd"
};

/// A script in a file that the shell inherits. Keep it until the shell has started.
#[derive(Debug)]
pub(super) struct LongScript(File);

impl LongScript {
    /// Takes the script of `SHELL -c SCRIPT`; `None` if it fits in an argument.
    ///
    /// Call it while few descriptors are open; see [`format_close`].
    ///
    /// # Errors
    /// The file cannot be created, or the script contains a NUL byte, at which a shell would stop reading.
    pub(super) fn take_from(argv: &[OsString]) -> io::Result<Option<Self>> {
        let Some(script) = find_long_script(argv) else {
            return Ok(None);
        };
        if script.as_bytes().contains(&0) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut file = create_unnamed_file("script")?;
        file.write_all(format_close(file.as_raw_fd()).as_bytes())?;
        file.write_all(script.as_bytes())?;
        file.rewind()?;
        fcntl_setfd(&file, FdFlags::empty())?;
        Ok(Some(Self(file)))
    }

    /// Returns the arguments with which this shell reads the script. As with `-c`, it stays `$0`, and what it runs has no
    /// source file.
    pub(super) fn arguments(&self, shell: &OsStr) -> [OsString; 2] {
        let path = format!("{DESCRIPTORS}/{}", self.0.as_raw_fd());
        let read = if shell == "bash" {
            // Without the file, `eval` would succeed.
            format!(": <{path} || exit; eval \"$(<{path})\"")
        } else {
            // Other shells have no `$(<file)`, and most have no `BASH_SOURCE`.
            format!(". {path}")
        };
        ["-c".into(), read.into()]
    }
}

fn find_long_script(argv: &[OsString]) -> Option<&OsStr> {
    match argv {
        [shell, option, script]
            if (shell == "bash" || shell == "sh") && option == "-c" && script.len() > LONGEST_ARGUMENT =>
        {
            Some(script)
        }
        _ => None,
    }
}

/// Returns what closes the inherited descriptor: the shell reads on from its own. It adds no line, so messages name the
/// right ones.
fn format_close(descriptor: RawFd) -> String {
    // `sh` may be dash, for which a longer number is a word.
    if descriptor <= 9 {
        format!("exec {descriptor}<&-; ")
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_scripts_of_a_shell_are_taken() {
        let long = "x".repeat(LONGEST_ARGUMENT + 1);
        for (argv, is_taken) in [
            (vec!["bash", "-c", &long], true),
            (vec!["sh", "-c", &long], true),
            (vec!["bash", "-c", &long[1..]], false),
            (vec!["bash", "-c", &long, "name"], false),
            (vec!["python3", "-c", &long], false),
            (vec!["bash", "-x", &long], false),
        ] {
            let argv: Vec<OsString> = argv.into_iter().map(OsString::from).collect();
            let script = LongScript::take_from(&argv).unwrap();
            assert_eq!(script.is_some(), is_taken, "{:?}", &argv[..2]);
        }
    }

    #[test]
    fn the_first_line_closes_the_descriptor_where_every_shell_can() {
        assert_eq!(format_close(6), "exec 6<&-; ");
        assert_eq!(format_close(10), "");
    }
}
