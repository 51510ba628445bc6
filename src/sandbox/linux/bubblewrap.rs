//! Lets bubblewrap set up the namespaces and mounts of a plan, where the system allows that to bubblewrap only.
//!
//! The helper outside resolves the rules and writes bubblewrap's arguments. The helper inside, process 1, checks that
//! it is where it should be ([`check_inside`]) and adds Landlock and seccomp. The mounts are those of `mounts`.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, ResolveFlags, StatVfsMountFlags, openat2, statvfs};
use rustix::io::{FdFlags, fcntl_setfd};

use super::mounts::{KEPT_IN_RUN, create_temporary_links, list_home_links, list_run_links};
use super::second_paths::add_second_paths;
use super::sockets;
use crate::domain::SandboxNetwork;
use crate::sandbox::SandboxError;
use crate::sandbox::expand::expand_rules;
use crate::sandbox::plan::{PathRule, REPLACED, SandboxPlan, find_rule};

/// Where bubblewrap is looked for. A folder of a user's PATH could hold any program of that name.
const FOLDERS: [&str; 4] = ["/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin"];

/// Namespaces and privileges, whatever the plan says. Process 1 of the sandbox is our helper.
#[rustfmt::skip]
const FIXED: [&str; 10] = [
    "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--as-pid-1",
    "--cap-drop", "ALL", "--chdir", "/",
];

/// A file's number and the time of its last change: together, they tell it from another at the same path.
type Found = (u64, i64, i64);

/// How to start bubblewrap.
#[derive(Debug)]
pub struct BubblewrapCommand {
    pub program: PathBuf,
    /// The arguments up to the program that it runs, and that program. What follows are arguments of that one.
    pub args: Vec<OsString>,
    /// What [`check_inside`] expects, to be passed to it as it is.
    pub expected: Vec<OsString>,
    /// Where it mounts something, and what was there. A mount on what has gone fails.
    mount_points: Vec<(PathBuf, Option<Found>)>,
    /// Files that it inherits. They must stay open until it has started.
    files: Vec<OwnedFd>,
}

impl BubblewrapCommand {
    /// Finds bubblewrap and describes the plan to it. It runs this program again inside.
    ///
    /// # Errors
    /// It is not installed in a folder of the system, or a path of the plan cannot be used.
    pub fn prepare(plan: &SandboxPlan) -> Result<Self, SandboxError> {
        let missing = || io::Error::other("it is not installed in a system folder that only root can change");
        let program = FOLDERS
            .iter()
            .find_map(|folder| find_trusted_program(&Path::new(folder).join("bwrap")))
            .ok_or_else(missing)
            .map_err(SandboxError::at("find bubblewrap"))?;
        let mut rules = expand_rules(plan)?;
        add_second_paths(&mut rules);
        remove_covered_twice(&mut rules);
        let mut command = Self {
            program,
            args: Vec::new(),
            expected: Vec::new(),
            mount_points: Vec::new(),
            files: Vec::new(),
        };
        let words = command.list_arguments(plan, &rules)?;
        // The mount table has no place for the program itself, which may be in a folder that is hidden.
        let own = File::open("/proc/self/exe").map_err(SandboxError::at("open this program"))?;
        let own = command.keep(own)?;
        let list = write_list(&words).map_err(SandboxError::at("write the arguments of bubblewrap"))?;
        let list = command.keep(list)?;
        command.args = vec!["--args".into(), list, "--".into(), join("/proc/self/fd/", &own)];
        Ok(command)
    }

    /// Returns whether something has changed since this was prepared, such as the socket of a program that has ended.
    pub fn is_outdated(&self) -> bool {
        let mut mount_points = self.mount_points.iter();
        mount_points.any(|(path, before)| before.is_none() || look_at(path) != *before)
    }

    fn list_arguments(
        &mut self,
        plan: &SandboxPlan,
        rules: &[(PathRule, PathBuf)],
    ) -> Result<Vec<OsString>, SandboxError> {
        let mut words: Vec<OsString> = FIXED.map(OsString::from).to_vec();
        words.extend((plan.network != SandboxNetwork::Open).then(|| "--unshare-net".into()));
        add(&mut words, &["--ro-bind", "/", "/"]);
        let temp = fs::canonicalize(&plan.temp).map_err(SandboxError::at("find the temporary folder"))?;
        create_temporary_links(plan, &temp);
        for folder in ["/tmp", "/var/tmp"].map(Path::new) {
            // A link is one to the other.
            if fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir()) {
                words.extend(["--bind".into(), temp.clone().into(), folder.into()]);
            }
        }
        if Path::new("/run").is_dir() {
            add(&mut words, &["--tmpfs", "/run"]);
            for kept in KEPT_IN_RUN.map(Path::new) {
                match fs::read_link(kept) {
                    Ok(target) => words.extend(["--symlink".into(), target.into(), kept.into()]),
                    Err(_) => words.extend(["--ro-bind-try".into(), kept.into(), kept.into()]),
                }
            }
            for (link, target) in list_run_links(plan) {
                words.extend(["--symlink".into(), target.into(), link.into()]);
            }
        }
        add(&mut words, &["--proc", "/proc", "--remount-ro", "/proc"]);
        add(&mut words, &["--dev", "/dev", "--perms", "1777"]);
        add(&mut words, &["--tmpfs", "/dev/shm", "--remount-ro", "/dev"]);
        for at in 0..rules.len() {
            self.add_rule(rules, at, &mut words)?;
            if rules[at].0 == PathRule::Empty {
                for (link, target) in list_home_links(plan, &rules[at..=at]) {
                    words.extend(["--symlink".into(), target.into(), link.into()]);
                }
            }
        }
        for (_, folder) in rules.iter().filter(|(rule, _)| *rule == PathRule::Empty) {
            words.extend(["--remount-ro".into(), folder.into()]);
        }
        if Path::new("/run").is_dir() {
            add(&mut words, &["--remount-ro", "/run"]);
        }
        let mut covered: BTreeSet<PathBuf> = sockets::list_reachable_sockets(rules).into_iter().collect();
        covered.extend(sockets::list_relative_sockets());
        for socket in covered {
            if is_visible(rules, &socket) && !is_in_private_folder(&socket) {
                self.cover(&socket, "0000", &mut words)?;
                let found = look_at(&socket);
                self.mount_points.push((socket, found));
            }
        }
        Ok(words)
    }

    fn add_rule(
        &mut self,
        rules: &[(PathRule, PathBuf)],
        at: usize,
        words: &mut Vec<OsString>,
    ) -> Result<(), SandboxError> {
        let (before, from_here) = rules.split_at(at);
        let [(rule, path), ..] = from_here else {
            return Ok(());
        };
        self.mount_points.push((path.clone(), look_at(path)));
        let mut add_mount = |option: &str| words.extend([option.into(), path.into(), path.into()]);
        match rule {
            PathRule::Write | PathRule::Workspace | PathRule::HomeWorkspace => {
                add_mount("--bind");
                if find_rule(from_here, path) == Some(*rule) {
                    self.expect(path)?;
                }
            }
            // Unlike the others, it makes a path of a replaced folder visible, such as a workspace in `/tmp`.
            PathRule::ReadOnly | PathRule::Cache if find_rule(before, path) != Some(PathRule::Hide) => {
                add_mount("--ro-bind");
            }
            PathRule::Empty => {
                words.extend(["--perms", "0755", "--tmpfs"].map(OsString::from));
                words.push(path.into());
            }
            _ if !is_visible(before, path) => {}
            PathRule::ReadOnly | PathRule::Cache => {}
            PathRule::Hide if path.is_dir() => {
                words.extend(["--perms", "0000", "--tmpfs"].map(OsString::from));
                words.extend([path.into(), "--remount-ro".into(), path.into()]);
            }
            PathRule::Hide => self.cover(path, "0000", words)?,
            PathRule::Blank if path.is_file() => self.cover(path, "0444", words)?,
            PathRule::Blank | PathRule::Visible | PathRule::Reach => {}
        }
        Ok(())
    }

    /// Remembers which file a path is now. It is resolved already: a link there would lead elsewhere.
    fn expect(&mut self, path: &Path) -> Result<(), SandboxError> {
        let found = openat2(
            CWD,
            path,
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::NO_SYMLINKS,
        )
        .and_then(rustix::fs::fstat)
        .map_err(SandboxError::at(format!("open {}", path.display())))?;
        let identity = format_identity(found.st_dev, found.st_ino);
        self.expected.extend([identity.into(), path.into()]);
        Ok(())
    }

    /// Covers a file with an empty one.
    fn cover(&mut self, path: &Path, mode: &str, words: &mut Vec<OsString>) -> Result<(), SandboxError> {
        let empty = File::open("/dev/null").map_err(SandboxError::at("open /dev/null"))?;
        let number = self.keep(empty)?;
        add(words, &["--perms", mode, "--ro-bind-data"]);
        words.extend([number, path.into()]);
        Ok(())
    }

    /// Lets bubblewrap inherit a file, and returns its number.
    fn keep(&mut self, file: impl Into<OwnedFd>) -> Result<OsString, SandboxError> {
        let file = file.into();
        fcntl_setfd(file.as_fd(), FdFlags::empty()).map_err(SandboxError::at("pass on a file"))?;
        let number = file.as_raw_fd().to_string().into();
        self.files.push(file);
        Ok(number)
    }
}

/// Checks, as the helper inside, that bubblewrap has done its work, with [`BubblewrapCommand::expected`].
///
/// It opens the paths by itself. A link put in place of a writable folder meanwhile would make its target writable.
///
/// # Errors
/// Something is not as it should be, and no command may run.
pub fn check_inside(expected: &[OsString]) -> Result<(), SandboxError> {
    let check = |holds: bool, what: &str| {
        let failed = || SandboxError::at("use bubblewrap")(io::Error::other(what.to_owned()));
        if holds { Ok(()) } else { Err(failed()) }
    };
    check(rustix::process::getpid().is_init(), "this is not process 1")?;
    let root = statvfs("/").map_err(SandboxError::at("look at the root folder"))?;
    let is_read_only = root.f_flag.contains(StatVfsMountFlags::RDONLY);
    check(is_read_only, "the root folder is writable")?;
    let (expected, rest) = expected.as_chunks::<2>();
    check(rest.is_empty(), "the list of writable paths is incomplete")?;
    for [identity, path] in expected {
        let found = fs::symlink_metadata(path).map(|found| format_identity(found.dev(), found.ino()));
        let is_same = found.is_ok_and(|found| OsStr::new(&found) == identity);
        check(
            is_same,
            &format!("{} leads elsewhere now", Path::new(path).display()),
        )?;
    }
    Ok(())
}

fn look_at(path: &Path) -> Option<Found> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.ino(), found.ctime(), found.ctime_nsec()))
}

fn format_identity(device: u64, inode: u64) -> String {
    format!("{device}:{inode}")
}

/// Removes secrets that a later rule covers as well: bubblewrap cannot cover a cover.
fn remove_covered_twice(rules: &mut Vec<(PathRule, PathBuf)>) {
    let is_cover = |rule: PathRule| matches!(rule, PathRule::Hide | PathRule::Blank);
    let mut covered = BTreeSet::new();
    rules.reverse();
    rules.retain(|(rule, path)| !is_cover(*rule) || covered.insert(path.clone()));
    rules.reverse();
}

/// Returns whether a path exists inside, as far as the rules so far decide. Nothing can be mounted on what does not.
fn is_visible(rules: &[(PathRule, PathBuf)], path: &Path) -> bool {
    match find_rule(rules, path) {
        Some(PathRule::Empty) => rules.iter().any(|(rule, named)| match rule {
            PathRule::Hide | PathRule::Blank => false,
            _ => named.starts_with(path),
        }),
        Some(rule) => rule != PathRule::Hide,
        // In a folder that is replaced, it exists if something below it is mounted.
        None => {
            !REPLACED.iter().any(|folder| path.starts_with(folder))
                || rules.iter().any(|(_, named)| named.starts_with(path))
        }
    }
}

/// Returns whether a path is in a folder that only another user can search. Inside, even root cannot: bubblewrap could
/// mount nothing there, and the command reaches nothing.
fn is_in_private_folder(path: &Path) -> bool {
    const SEARCH_BY_OTHERS: u32 = 0o011;
    let own = rustix::process::geteuid().as_raw();
    let is_private = |folder: &Path| {
        fs::metadata(folder).is_ok_and(|found| found.uid() != own && found.mode() & SEARCH_BY_OTHERS == 0)
    };
    path.ancestors().skip(1).any(is_private)
}

/// Resolves a program, and returns its path if nobody but root could have put it there.
fn find_trusted_program(path: &Path) -> Option<PathBuf> {
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    let real = fs::canonicalize(path).ok()?;
    let is_trusted = |path: &Path| {
        fs::metadata(path).is_ok_and(|found| found.uid() == 0 && found.mode() & WRITABLE_BY_OTHERS == 0)
    };
    (real.is_file() && real.ancestors().all(is_trusted)).then_some(real)
}

/// Writes words for `--args`, which ends each with a zero byte.
fn write_list(words: &[OsString]) -> io::Result<File> {
    let mut list = File::from(rustix::fs::memfd_create("arguments", MemfdFlags::CLOEXEC)?);
    let mut bytes = Vec::new();
    for word in words {
        bytes.extend_from_slice(word.as_bytes());
        bytes.push(0);
    }
    list.write_all(&bytes)?;
    list.rewind()?;
    Ok(list)
}

fn add(words: &mut Vec<OsString>, more: &[&str]) {
    words.extend(more.iter().map(OsString::from));
}

fn join(first: &str, second: &OsStr) -> OsString {
    OsString::from_vec([first.as_bytes(), second.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_that_root_alone_can_replace_are_trusted() {
        let sh = find_trusted_program(Path::new("/bin/sh"));
        assert!(sh.is_some_and(|path| path.is_absolute()));
        // A folder that everybody can write, even if the program is root's.
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let copy = folder.path().join("bwrap");
        fs::copy("/bin/sh", &copy).unwrap();
        assert_eq!(find_trusted_program(&copy), None);
        assert_eq!(find_trusted_program(Path::new("/bin")), None);
        assert_eq!(find_trusted_program(Path::new("/missing/bwrap")), None);
    }

    #[test]
    fn nothing_is_mounted_on_what_does_not_exist_inside() {
        let rules = [
            (PathRule::Write, PathBuf::from("/tmp/ws")),
            (PathRule::Hide, PathBuf::from("/home/u/.ssh")),
        ];
        for (path, visible) in [
            ("/tmp/ws/file", true),
            ("/tmp/other", false),
            ("/tmp", true),
            ("/home/u/.ssh/key", false),
            ("/home/u/.npmrc", true),
            ("/run/user/1000/bus", false),
        ] {
            assert_eq!(is_visible(&rules, Path::new(path)), visible, "{path}");
        }
    }

    #[test]
    fn nothing_runs_outside_of_bubblewrap() {
        // This process is neither process 1 nor in a read-only system.
        assert!(check_inside(&[]).is_err());
    }
}
