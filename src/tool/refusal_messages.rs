//! Finds what may have been refused to a command, by the messages of common programs. Pure.
//!
//! Any program can print such a message, so what is found here is a guess. [`super::refusal`] checks what can be checked.

use std::borrow::Cow;
use std::net::IpAddr;

/// What a message says that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RefusedAction {
    /// Access to a file. The first of these paths that the sandbox protects is meant; without one it is unknown.
    File { paths: Vec<String>, error: FileError },
    /// A connection to a host, if it is known.
    Host(Option<String>),
    /// A connection to a server of this machine, or to a socket.
    Server,
    /// A signal to a process.
    Signal,
    /// A system call, whose program was ended for it.
    SystemCall,
    /// Something that needs privileges, as in "creating a namespace"; `None` if it is not known what.
    Privilege(Option<&'static str>),
}

/// An error of the system about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileError {
    /// `EROFS`, `EBUSY` for a file that is mounted read-only, `EXDEV` for a move out of a mount, or what SQLite says.
    ReadOnly,
    /// `EACCES`.
    Denied,
    /// `ENOENT` from programs that report it if they could not create a folder.
    NotCreated,
    /// `ENOENT` otherwise.
    Missing,
}

/// Longest path that is recognized, in bytes.
const MAX_PATH: usize = 1_000;

/// Texts before a host, in lowercase, and what ends it.
const HOSTS: &[(&str, char)] = &[
    ("could not resolve host: ", ' '),
    ("could not resolve hostname ", ':'),
    ("temporary failure resolving '", '\''),
    ("unable to resolve host address ‘", '’'),
    ("failed to lookup address information for ", ' '),
    ("getaddrinfo eai_again ", ' '),
    ("getaddrinfo enotfound ", ' '),
    ("dial tcp: lookup ", ' '),
    ("connect enetunreach ", ' '),
    ("failed to connect to ", ' '),
    ("connect to host ", ' '),
    ("connection to server at \"", '"'),
];

/// Texts of a failed connection that name no host.
#[rustfmt::skip]
const NO_NETWORK: &[&str] = &[
    "network is unreachable", "temporary failure in name resolution", "name or service not known",
    "could not resolve host", "enetunreach", "eai_again", "getaddrinfo", "dns error",
    "failed to lookup address",
];

/// Texts of programs that did not reach a socket of another program.
const SOCKETS: &[&str] = &[
    "cannot connect to the docker daemon at unix://",
    "failed to connect to bus",
    "failed to connect to socket",
    // GLib's, about the bus of the desktop.
    "could not connect: ",
    "connection to server on socket \"",
    "mysql server through socket '",
    "dial unix /",
    "couldn't get agent socket",
    "error connecting to agent",
    "connect enoent /",
    "connect eacces /",
    "connect econnrefused /",
];

const NO_PROCESS: &[&str] = &["no such process", "processlookuperror", "kill esrch"];

/// Programs whose errors about privileges name what they did.
const PRIVILEGED: &[(&[&str], &str)] = &[
    (&["unshare", "nsenter", "bwrap"], "creating a namespace"),
    (&["chroot"], "changing the root folder"),
    (&["mount", "umount"], "mounting"),
    (&["mknod"], "creating a device"),
    (&["su", "sudo", "doas", "pkexec"], "gaining privileges"),
    (&["chown", "chgrp"], "changing the owner of a file"),
    (&["dmesg"], "reading the kernel's log"),
    (&["date", "hwclock"], "setting the clock"),
    (&["hostname"], "setting the host's name"),
    (&["sysctl"], "changing the kernel's settings"),
    (&["renice", "nice", "ionice"], "raising a priority"),
    (&["strace", "gdb"], "tracing a process"),
    (&["insmod", "modprobe", "rmmod"], "loading a kernel module"),
    (&["rtnetlink answers", "iptables"], "changing network interfaces"),
    (&["ping"], "opening a raw socket"),
];

/// What programs say before the error that a mode with a set-id bit causes.
const MODE_CHANGES: &[&str] = &["chmod: ", "change mode", "change permissions", "set permissions"];

/// What git says if it cannot record which branch another one follows, or forget it. The rest of its work is done then.
const GIT_SETTINGS: &str = "could not write config file";

/// What such a program says if it lacks privileges.
#[rustfmt::skip]
const UNPRIVILEGED: &[&str] = &[
    "operation not permitted", "permission denied", "must be root", "must be superuser", "only root",
    "no new privileges", "effective uid is not 0", "owned by uid",
];

/// Returns what the messages in an output say that was refused, each once, in their order. After a success, only messages
/// that name what was refused count.
pub(super) fn find_refused_actions(output: &str, has_failed: bool) -> Vec<RefusedAction> {
    let lines: Vec<&str> = output.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let before = &lines[at.saturating_sub(6)..at];
        if let Some(action) = read_message(line, before)
            && (has_failed || (action.is_named() && !line.contains(GIT_SETTINGS)))
            && !found.contains(&action)
        {
            found.push(action);
        }
    }
    found
}

impl RefusedAction {
    fn is_named(&self) -> bool {
        match self {
            Self::File { paths, .. } => !paths.is_empty(),
            Self::Host(host) => host.is_some(),
            Self::Privilege(what) => what.is_some(),
            Self::SystemCall => true,
            Self::Server | Self::Signal => false,
        }
    }
}

/// Reads one line. `before` are the lines before it.
fn read_message(line: &str, before: &[&str]) -> Option<RefusedAction> {
    // The same bytes are at the same place in both.
    let lower = line.to_ascii_lowercase();
    let contains_any = |texts: &[&str]| texts.iter().any(|text| lower.contains(text));
    if contains_any(SOCKETS) {
        return Some(RefusedAction::Server);
    }
    // The shell says so of a program that it waited for.
    if lower.contains("bad system call") {
        return Some(RefusedAction::SystemCall);
    }
    if let Some(host) = find_host(line, &lower) {
        return Some(if is_this_machine(&host) {
            RefusedAction::Server
        } else {
            RefusedAction::Host(Some(host))
        });
    }
    if contains_any(NO_NETWORK) {
        return Some(RefusedAction::Host(None));
    }
    if contains_any(UNPRIVILEGED)
        && let Some(what) = find_privileged(&lower)
    {
        return Some(RefusedAction::Privilege(Some(what)));
    }
    if contains_any(MODE_CHANGES) && lower.contains("operation not permitted") {
        return Some(RefusedAction::Privilege(Some(
            "a set-user-id or set-group-id bit",
        )));
    }
    // In a user namespace, other users do not exist.
    if lower.contains("ownership") && lower.contains("invalid argument") {
        return Some(RefusedAction::Privilege(Some("changing the owner of a file")));
    }
    if contains_any(NO_PROCESS) || lower.contains("kill: (") && lower.contains("not permitted") {
        return Some(RefusedAction::Signal);
    }
    if let Some((at, error)) = find_file_error(&lower) {
        let mut paths = find_paths(line, at);
        if !paths.iter().any(|path| path.starts_with('/')) && lower.contains("(os error ") {
            // Rust programs print the causes on lines of their own.
            let named = before.iter().rev().flat_map(|line| list_absolute(line));
            paths = named.map(str::to_owned).collect();
        }
        return Some(RefusedAction::File { paths, error });
    }
    if contains_any(&["operation not permitted", "eperm"]) {
        return Some(RefusedAction::Privilege(None));
    }
    contains_any(&["connection refused", "econnrefused"]).then_some(RefusedAction::Server)
}

fn find_host(line: &str, lower: &str) -> Option<String> {
    let found = HOSTS.iter().find_map(|(text, end)| {
        let start = lower.find(text)? + text.len();
        let host = line[start..].split([*end, ' ', ',', ';']).next()?;
        Some(host.trim_end_matches([':', '.', ')']))
    });
    let is_host = |host: &&str| !host.is_empty() && host.len() <= 253 && host.chars().all(is_host_char);
    found.filter(is_host).map(str::to_owned)
}

fn is_host_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.:[]".contains(c)
}

/// Returns whether a host is this machine, with or without a port.
fn is_this_machine(host: &str) -> bool {
    let without_port = match host.rsplit_once(':') {
        Some((name, _)) if !name.contains(':') || name.ends_with(']') => name,
        _ => host,
    };
    let bare = without_port.trim_matches(['[', ']']);
    bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns what the program did that the line belongs to.
fn find_privileged(lower: &str) -> Option<&'static str> {
    // A shell puts its own name and the line's number before that of a built-in.
    let mut names = lower.split(": ").take(3);
    names.find_map(|name| {
        let found = PRIVILEGED.iter().find(|(names, _)| names.contains(&name));
        found.map(|(_, what)| *what)
    })
}

/// Returns where the error about a file is in a line, and which one it is.
fn find_file_error(lower: &str) -> Option<(usize, FileError)> {
    const ERRORS: &[(&str, FileError)] = &[
        ("read-only file system", FileError::ReadOnly),
        ("erofs", FileError::ReadOnly),
        ("device or resource busy", FileError::ReadOnly),
        ("ebusy", FileError::ReadOnly),
        ("cross-device link", FileError::ReadOnly),
        ("unable to open database", FileError::ReadOnly),
        ("attempt to write a readonly database", FileError::ReadOnly),
        ("permission denied", FileError::Denied),
        ("eacces", FileError::Denied),
        // Node's recursive `mkdir` reports this instead of `EROFS`.
        ("no such file or directory, mkdir", FileError::NotCreated),
        ("no such file or directory", FileError::Missing),
    ];
    /// Where Go keeps modules and their checksums.
    const GO_FOLDERS: [&str; 2] = ["/pkg/mod/", "/pkg/sumdb/"];
    let mut errors = ERRORS.iter();
    let (at, error) = errors.find_map(|(text, error)| Some((lower.find(text)?, *error)))?;
    let is_of_go =
        || lower[..at].contains("open /") && GO_FOLDERS.iter().any(|part| lower[..at].contains(part));
    let is_not_created = error == FileError::Missing && is_of_go();
    Some((
        at,
        if is_not_created {
            FileError::NotCreated
        } else {
            error
        },
    ))
}

/// Returns the paths that a line may name, the likeliest first. Its error starts at `at`.
fn find_paths(line: &str, at: usize) -> Vec<String> {
    let joined = join_escaped_parts(line);
    let mut paths: Vec<&str> = list_quoted(&joined);
    // As in "touch: cannot touch x: Read-only file system" and "x (Read-only file system)".
    let subject = line[..at].trim_end_matches([' ', ':', '(']);
    let last = subject.rsplit(": ").next().unwrap_or(subject);
    paths.extend(last.starts_with(['/', '.', '~']).then_some(last));
    let word = last.split_whitespace().next_back();
    paths.extend(word.filter(|word| !word.contains(['\'', '"', '`', '’'])));
    // Before the error, they may be names of programs.
    paths.extend(list_absolute(&line[at..]));
    let mut unique: Vec<String> = Vec::new();
    for path in paths {
        let is_path = !path.is_empty() && path.len() <= MAX_PATH && !path.starts_with('[');
        if is_path && !unique.iter().any(|known| known == path) {
            unique.push(path.to_owned());
        }
    }
    unique
}

/// Joins the parts of quoted names such as `'a'$'\303\274''b'`. GNU programs print what is not ASCII like that if no locale
/// is set, as in containers.
fn join_escaped_parts(line: &str) -> Cow<'_, str> {
    let mut joined = String::new();
    let mut rest = line;
    while let Some((before, escaped)) = rest.split_once("'$'")
        && let Some((escaped, after)) = escaped.split_once('\'')
    {
        joined.push_str(before);
        joined.push_str(&decode_escapes(escaped));
        // Otherwise the name ends here.
        rest = after.strip_prefix('\'').unwrap_or_else(|| {
            joined.push('\'');
            after
        });
    }
    if joined.is_empty() {
        return Cow::Borrowed(line);
    }
    joined.push_str(rest);
    Cow::Owned(joined)
}

/// Decodes octal numbers of bytes. Other characters stay as they are.
fn decode_escapes(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..3).filter(|_| *first == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(byte);
            rest = &tail[3..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the words of a text that are absolute paths.
fn list_absolute(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split([' ', '\'', '"', '`', '(', ')', ',', ':', '‘', '’']);
    words.filter(|word| word.starts_with('/'))
}

/// Returns the quoted texts of a line. An apostrophe in a word is not a quote.
fn list_quoted(line: &str) -> Vec<&str> {
    let mut quoted = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.find(['\'', '"', '`', '‘']) {
        let open = rest[start..].chars().next().unwrap_or('\'');
        let close = if open == '‘' { '’' } else { open };
        let is_apostrophe = rest[..start].ends_with(|c: char| c.is_alphanumeric());
        let inner = &rest[start + open.len_utf8()..];
        match inner.find(close) {
            Some(end) if !is_apostrophe => {
                quoted.push(&inner[..end]);
                rest = &inner[end + close.len_utf8()..];
            }
            _ => rest = inner,
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(output: &str) -> Vec<RefusedAction> {
        find_refused_actions(output, true)
    }

    /// These messages are from commands that ran in the sandbox.
    #[test]
    fn the_path_of_a_refused_file_is_found() {
        use FileError::{Denied, ReadOnly};
        for (output, path, error) in [
            (
                "bash: line 1: /etc/zz: Read-only file system",
                "/etc/zz",
                ReadOnly,
            ),
            (
                "touch: cannot touch '/etc/z z': Read-only file system",
                "/etc/z z",
                ReadOnly,
            ),
            (
                "touch: cannot touch '/etc/zz': Permission denied",
                "/etc/zz",
                Denied,
            ),
            (
                r"touch: cannot touch '/etc/z y/'$'\303\274''/a': Read-only file system",
                "/etc/z y/ü/a",
                ReadOnly,
            ),
            (
                r"touch: cannot touch '/etc/z'$'\303\274': Read-only file system",
                "/etc/zü",
                ReadOnly,
            ),
            (
                "mkdir: cannot create directory ‘/opt/zz’: Read-only file system",
                "/opt/zz",
                ReadOnly,
            ),
            (
                "cat: /home/ada/.ssh/id: Permission denied",
                "/home/ada/.ssh/id",
                Denied,
            ),
            (
                "rm: cannot remove '.git/config': Device or resource busy",
                ".git/config",
                ReadOnly,
            ),
            (
                "error: could not write config file .git/config: Device or resource busy",
                ".git/config",
                ReadOnly,
            ),
            (
                "/bin/sh: 1: cannot create /etc/zz: Read-only file system",
                "/etc/zz",
                ReadOnly,
            ),
            (
                "sed: couldn't open temporary file /etc/sedfHa8hA: Read-only file system",
                "/etc/sedfHa8hA",
                ReadOnly,
            ),
            (
                "OSError: [Errno 30] Read-only file system: '/etc/zz'",
                "/etc/zz",
                ReadOnly,
            ),
            (
                "PermissionError: [Errno 13] Permission denied: '/home/ada/.ssh/id'",
                "/home/ada/.ssh/id",
                Denied,
            ),
            (
                "Error: EROFS: read-only file system, open '/etc/zz'",
                "/etc/zz",
                ReadOnly,
            ),
            (
                "npm error rofs EROFS: read-only file system, mkdir '/home/ada/.npm'",
                "/home/ada/.npm",
                ReadOnly,
            ),
            (
                "/usr/bin/ld: cannot open output file /opt/x: Read-only file system",
                "/opt/x",
                ReadOnly,
            ),
            (
                "failed to initialize build cache at /home/ada/.cache/go: mkdir /home/ada/.cache: read-only file system",
                "/home/ada/.cache",
                ReadOnly,
            ),
            (
                "OSError: [Errno 18] Invalid cross-device link: '/opt/Makefile' -> 'x'",
                "/opt/Makefile",
                ReadOnly,
            ),
            (
                "Error: unable to open database \"/home/ada/x.db\": unable to open database file",
                "/home/ada/x.db",
                ReadOnly,
            ),
            (
                "java.io.FileNotFoundException: /etc/zz (Read-only file system)",
                "/etc/zz",
                ReadOnly,
            ),
            (
                "ruby: Read-only file system @ rb_sysopen - /etc/zz (Errno::EROFS)",
                "/etc/zz",
                ReadOnly,
            ),
            (
                "dpkg: error: unable to access the dpkg database directory /var/lib/dpkg: Read-only file system",
                "/var/lib/dpkg",
                ReadOnly,
            ),
            (
                "error: failed to create directory `/home/ada/.cargo/registry`\n\nCaused by:\n  Read-only file system (os error 30)",
                "/home/ada/.cargo/registry",
                ReadOnly,
            ),
        ] {
            let found = find(output);
            let [RefusedAction::File { paths, error: found }] = &*found else {
                panic!("{output}: {found:?}");
            };
            let first = paths.iter().find(|path| path.contains(['/', '.']));
            assert_eq!(
                (first.map(String::as_str), *found),
                (Some(path), error),
                "{output}"
            );
        }
        // Python names no path.
        let database = find("sqlite3.OperationalError: unable to open database file");
        assert!(matches!(
            &database[..],
            [RefusedAction::File { error: ReadOnly, .. }]
        ));
        let moved = find("mv: cannot move '.git' to 'g2': Device or resource busy");
        let RefusedAction::File { paths, .. } = &moved[0] else {
            panic!("{moved:?}");
        };
        assert_eq!(paths, &[".git", "g2"]);
        // The name of the shell is not the path.
        let created = find("/bin/sh: 1: cannot create out: Read-only file system");
        let RefusedAction::File { paths, .. } = &created[0] else {
            panic!("{created:?}");
        };
        assert_eq!(paths, &["out"]);
    }

    #[test]
    fn other_refusals_are_told_apart() {
        let host = |name: &str| RefusedAction::Host(Some(name.to_owned()));
        let privilege = |what| RefusedAction::Privilege(Some(what));
        for (output, want) in [
            (
                "curl: (6) Could not resolve host: example.com",
                host("example.com"),
            ),
            (
                "curl: (7) Failed to connect to 1.1.1.1 port 80 after 0 ms: Couldn't connect to server",
                host("1.1.1.1"),
            ),
            (
                "fatal: unable to access 'https://github.com/a/b/': Could not resolve host: github.com",
                host("github.com"),
            ),
            (
                "ssh: Could not resolve hostname github.com: Temporary failure in name resolution",
                host("github.com"),
            ),
            (
                "ssh: connect to host 1.1.1.1 port 22: Network is unreachable",
                host("1.1.1.1"),
            ),
            (
                "Error: connect ENETUNREACH 1.1.1.1:80 - Local (0.0.0.0:0)",
                host("1.1.1.1:80"),
            ),
            (
                "urllib.error.URLError: <urlopen error [Errno 101] Network is unreachable>",
                RefusedAction::Host(None),
            ),
            ("bash: connect: Network is unreachable", RefusedAction::Host(None)),
            (
                "curl: (7) Failed to connect to 127.0.0.1 port 18765 after 0 ms: Couldn't connect to server",
                RefusedAction::Server,
            ),
            (
                "ConnectionRefusedError: [Errno 111] Connection refused",
                RefusedAction::Server,
            ),
            (
                "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
                RefusedAction::Server,
            ),
            (
                "psql: error: connection to server on socket \"/run/postgresql/.s.PGSQL.5432\" failed: No such file",
                RefusedAction::Server,
            ),
            ("Error: connect EACCES /work/s.sock", RefusedAction::Server),
            (
                "Failed to open connection to \"session\" message bus: Failed to connect to socket /run/user/7/bus: No such file",
                RefusedAction::Server,
            ),
            (
                "Could not connect: No such file or directory",
                RefusedAction::Server,
            ),
            (
                "bash: line 1: kill: (4000) - No such process",
                RefusedAction::Signal,
            ),
            (
                "bash: line 1: kill: (1) - Operation not permitted",
                RefusedAction::Signal,
            ),
            ("/bin/kill: (4000): No such process", RefusedAction::Signal),
            (
                "unshare: unshare failed: Operation not permitted",
                privilege("creating a namespace"),
            ),
            (
                "chroot: cannot change root directory to '/': Operation not permitted",
                privilege("changing the root folder"),
            ),
            (
                "su: cannot set groups: Operation not permitted",
                privilege("gaining privileges"),
            ),
            (
                "mknod: /tmp/n: Operation not permitted",
                privilege("creating a device"),
            ),
            ("mount: /mnt: permission denied.", privilege("mounting")),
            (
                "nsenter: cannot open /proc/1/ns/net: Permission denied",
                privilege("creating a namespace"),
            ),
            (
                "chown: changing ownership of 'Makefile': Invalid argument",
                privilege("changing the owner of a file"),
            ),
            (
                "chmod: changing permissions of 'x': Operation not permitted",
                privilege("a set-user-id or set-group-id bit"),
            ),
            (
                "tar: x: Cannot change mode to rwsr-xr-x: Operation not permitted",
                privilege("a set-user-id or set-group-id bit"),
            ),
            (
                "PermissionError: [Errno 1] Operation not permitted: '/'",
                RefusedAction::Privilege(None),
            ),
        ] {
            assert_eq!(find(output), [want], "{output}");
        }
        assert!(find("error[E0308]: mismatched types\n0 tests failed").is_empty());
    }

    #[test]
    fn after_a_success_only_what_is_named_counts() {
        for (output, counts) in [
            ("curl: (6) Could not resolve host: example.com", true),
            ("touch: cannot touch '/etc/zz': Read-only file system", true),
            ("unshare: unshare failed: Operation not permitted", true),
            ("ConnectionRefusedError: [Errno 111] Connection refused", false),
            ("kill: (4000) - No such process", false),
            ("Network is unreachable", false),
            (
                "error: could not write config file .git/config: Device or resource busy",
                false,
            ),
        ] {
            assert_eq!(
                !find_refused_actions(output, false).is_empty(),
                counts,
                "{output}"
            );
        }
    }
}
