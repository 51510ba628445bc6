//! The operating system that the program runs on.

use std::path::Path;
use std::sync::OnceLock;

use super::nofollow;

/// Longest file about the system that is read, in bytes.
const MAX_RELEASE: u64 = 64 << 10;

/// Returns the system with its version and the machine's architecture, such as `Ubuntu 24.04 LTS, Linux 6.8.0, x86_64`.
pub fn describe_system() -> &'static str {
    static SYSTEM: OnceLock<String> = OnceLock::new();
    SYSTEM.get_or_init(|| {
        let names = rustix::system::uname();
        let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
        let kernel = format!(
            "{} {}, {}",
            text(names.sysname()),
            text(names.release()),
            text(names.machine())
        );
        // The name in `/etc` is usually a link to the first of these.
        let paths = ["/usr/lib/os-release", "/etc/os-release"].map(Path::new);
        let mut files = paths
            .into_iter()
            .filter_map(|path| nofollow::read(path, MAX_RELEASE).ok());
        let release = String::from_utf8(files.next().unwrap_or_default()).unwrap_or_default();
        match find_pretty_name(&release) {
            Some(name) => format!("{name}, {kernel}"),
            None => kernel,
        }
    })
}

fn find_pretty_name(release: &str) -> Option<&str> {
    let line = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    line.map(|name| name.trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_own_name_is_found_if_it_has_one() {
        let release = "NAME=\"Ubuntu\"\nPRETTY_NAME=\"Ubuntu 24.04 LTS\"\nID=ubuntu\n";
        assert_eq!(find_pretty_name(release), Some("Ubuntu 24.04 LTS"));
        assert_eq!(find_pretty_name("ID=x\n"), None);
        assert!(!describe_system().is_empty());
    }
}
