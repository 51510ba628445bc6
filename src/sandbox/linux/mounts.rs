//! The mounts of a sandboxed command: everything read-only, except what the plan allows; secrets covered; `/tmp`,
//! `/dev`, `/run`, and `/proc` its own.
//!
//! Runs in a new mount namespace, so nothing here changes what others see. Paths must be resolved: a mount on a link
//! would be one on its target.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, StatVfsMountFlags, fstatvfs, openat2, statvfs};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_bind,
    mount_bind_recursive, mount_change, mount_remount, move_mount, open_tree,
};

use super::mount_table::list_mount_points;
use super::overlay::Overlays;
use crate::base::nofollow::OpenFolder;
use crate::sandbox::SandboxError;
use crate::sandbox::links::{FollowedLink, follow_links};
use crate::sandbox::plan::{PathRule, REPLACED, SandboxPlan, TEMPORARY, is_in_empty};

/// Device files of the machine that commands see.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Links in `/dev`, with their targets.
const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Entries of `/run` that hold no sockets and that programs need: where NixOS keeps its programs.
pub(super) const KEPT_IN_RUN: [&str; 3] = ["/run/current-system", "/run/booted-system", "/run/wrappers"];

/// What covers secrets: an empty folder and an empty file that cannot be opened, and an empty file that can.
const COVERS: &str = "/dev/.covers";

/// Lists the links in empty folders that stay, with their targets, by the rules before they are resolved.
pub(super) fn list_home_links(
    plan: &SandboxPlan,
    rules: &[(PathRule, PathBuf)],
) -> BTreeMap<PathBuf, PathBuf> {
    let has_empty = rules.iter().any(|(rule, _)| *rule == PathRule::Empty);
    let shown = plan.rules.iter().filter(|(rule, _)| match rule {
        PathRule::Write | PathRule::Cache | PathRule::Workspace | PathRule::ReadOnly | PathRule::Visible => {
            has_empty
        }
        PathRule::HomeWorkspace | PathRule::Hide | PathRule::Empty | PathRule::Blank | PathRule::Reach => {
            false
        }
    });
    let links = shown.flat_map(|(_, path)| follow_links(path));
    let replaced = links.filter(|link| is_in_empty(rules, &link.path));
    replaced.map(|link| (link.path, link.target)).collect()
}

/// Lists the links in `/run` that stay, with their targets, by the rules before they are resolved.
pub(super) fn list_run_links(plan: &SandboxPlan) -> BTreeMap<PathBuf, PathBuf> {
    let reached = plan.rules.iter().filter(|(rule, _)| *rule == PathRule::Reach);
    let links = reached.flat_map(|(_, path)| follow_links(path));
    let is_replaced = |link: &FollowedLink| {
        link.path.starts_with("/run") && !KEPT_IN_RUN.iter().any(|kept| link.path.starts_with(kept))
    };
    let replaced = links.filter(is_replaced);
    replaced.map(|link| (link.path, link.target)).collect()
}

/// Creates the links on the way to what stays visible, in the folder `temp` that replaces the machine's temporary ones.
///
/// Commands write that folder, so none of their own links is followed. Without a link, what it leads to is not found.
pub(super) fn create_temporary_links(plan: &SandboxPlan, temp: &Path) {
    let visible = plan.rules.iter().filter(|(rule, _)| *rule == PathRule::Visible);
    for link in visible.flat_map(|(_, path)| follow_links(path)) {
        let below = TEMPORARY
            .iter()
            .find_map(|folder| link.path.strip_prefix(folder).ok());
        if let Some(below) = below
            && let (Some(around), Some(name)) = (below.parent(), below.file_name())
        {
            let _ = OpenFolder::create_all(&temp.join(around))
                .and_then(|folder| folder.create_link(&link.target, name));
        }
    }
}

/// Sets up all mounts. Rules apply in order; the sockets are covered in the end.
pub(super) fn set_up_mounts(
    plan: &SandboxPlan,
    rules: &[(PathRule, PathBuf)],
    temp: &Path,
    sockets: &[PathBuf],
) -> Result<(), SandboxError> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(SandboxError::at("separate the mounts"))?;
    let copy = |path: &Path| copy_tree(path, OpenTreeFlags::AT_RECURSIVE);
    // Before the rules, which may make the folder around it read-only.
    let temporary = [copy(temp)?, copy(temp)?];
    let trees = copy_trees(plan, rules)?;
    let devices = DEVICES.map(|name| copy(&Path::new("/dev").join(name)).ok());
    let kept = KEPT_IN_RUN.map(|path| (path, KeptEntry::find(Path::new(path))));
    let mut links = list_run_links(plan);
    links.extend(list_home_links(plan, rules));

    make_read_only()?;
    for (tree, folder) in temporary.iter().zip(TEMPORARY) {
        if Path::new(folder).is_dir() {
            attach(tree, Path::new(folder))?;
        }
    }
    replace_run(&kept)?;
    replace_proc()?;
    replace_dev(&devices)?;
    for ((rule, path), tree) in rules.iter().zip(&trees) {
        apply_rule(*rule, path, tree.as_ref())?;
    }
    for socket in sockets {
        cover(socket, "file")?;
    }
    // After the rules: one may hide the folder around a link as far as it has something else in it.
    for (link, target) in links {
        // Without it, what it leads to is not found.
        let _ = fs::create_dir_all(link.parent().unwrap_or(&link)).and_then(|()| symlink(target, &link));
    }
    let empty = rules.iter().filter(|(rule, _)| *rule == PathRule::Empty);
    let empty = empty.map(|(_, folder)| folder.as_path());
    for folder in ["/dev", "/run"]
        .map(Path::new)
        .into_iter()
        .chain(empty)
        .filter(|folder| folder.is_dir())
    {
        set_read_only(folder).map_err(SandboxError::at(format!("make {} read-only", folder.display())))?;
    }
    Ok(())
}

/// Copies the trees that the rules attach, while they are not yet covered. The tree of a writable path stays writable.
fn copy_trees(
    plan: &SandboxPlan,
    rules: &[(PathRule, PathBuf)],
) -> Result<Vec<Option<OwnedFd>>, SandboxError> {
    let overlays = Overlays::prepare(plan, rules);
    let writable = rules.iter().map(|(rule, path)| match rule {
        PathRule::Write => copy_tree(path, OpenTreeFlags::AT_RECURSIVE).map(Some),
        PathRule::Cache => Ok(overlays.as_ref().and_then(|overlays| overlays.mount(path))),
        _ => Ok(None),
    });
    let mut trees: Vec<Option<OwnedFd>> = writable.collect::<Result<_, _>>()?;
    // Afterwards, as it makes the path itself read-only, with what is writable below it.
    for (at, (rule, path)) in rules.iter().enumerate() {
        // Its place is hidden by the command's own `/tmp`.
        if matches!(rule, PathRule::ReadOnly | PathRule::Cache)
            && trees[at].is_none()
            && (is_replaced(path) || is_in_empty(&rules[..at], path))
            && !is_in_writable(&rules[..at], path)
        {
            trees[at] = copy_read_only(path);
        }
    }
    // This process, which is the first of the PID namespace, uses them to its end.
    std::mem::forget(overlays);
    Ok(trees)
}

fn apply_rule(rule: PathRule, path: &Path, tree: Option<&OwnedFd>) -> Result<(), SandboxError> {
    match (rule, tree) {
        (PathRule::Empty, _) => {
            fs::create_dir_all(path).map_err(SandboxError::at(format!(
                "create the mount point {}",
                path.display()
            )))?;
            mount_memory(path, c"mode=0755")
        }
        (PathRule::Hide, _) if path.is_dir() => cover(path, "folder"),
        (PathRule::Hide, _) => cover(path, "file"),
        (PathRule::Blank, _) if path.is_file() => cover(path, "blank"),
        // A tree that must be read-only is so already.
        (PathRule::Write | PathRule::Cache | PathRule::ReadOnly, Some(tree)) => {
            make_mount_point(path, tree)?;
            attach(tree, path)
        }
        (PathRule::ReadOnly | PathRule::Cache, None) if fs::symlink_metadata(path).is_err() => Ok(()),
        (PathRule::ReadOnly | PathRule::Cache, None) => bind_read_only(path)
            .map(|_| ())
            .map_err(SandboxError::at(format!("make {} read-only", path.display()))),
        // The others are expanded, or there is nothing at their path.
        (
            PathRule::Write
            | PathRule::Workspace
            | PathRule::HomeWorkspace
            | PathRule::Blank
            | PathRule::Visible
            | PathRule::Reach,
            _,
        ) => Ok(()),
    }
}

/// Copies the mount at a path, detached from the tree; with `AT_RECURSIVE`, those below it too.
///
/// The path is resolved already. If it has become a link since, another command is trying to lead us elsewhere.
fn copy_tree(path: &Path, depth: OpenTreeFlags) -> Result<OwnedFd, SandboxError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | depth;
    openat2(
        CWD,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS,
    )
    .and_then(|opened| open_tree(opened, c"", flags))
    .map_err(SandboxError::at(format!("open {}", path.display())))
}

/// Mounts a path on itself, read-only, with the mounts below it. Returns how deep a copy of it must go.
fn bind_read_only(path: &Path) -> Result<OpenTreeFlags, Errno> {
    let depth = match mount_bind(path, path) {
        Ok(()) => OpenTreeFlags::empty(),
        // What another user namespace has mounted below it is not left out.
        Err(Errno::INVAL) => {
            mount_bind_recursive(path, path)?;
            for below in list_mount_points().map_err(|_| Errno::IO)? {
                if below.starts_with(path) && below != path {
                    make_mount_read_only(&below)?;
                }
            }
            OpenTreeFlags::AT_RECURSIVE
        }
        Err(error) => return Err(error),
    };
    set_read_only(path)?;
    Ok(depth)
}

/// Copies the mount at a path as a read-only one; `None` if that fails, and the command does not see it.
///
/// It is read-only before it is attached: another command of the session may exchange folders in their common `/tmp`
/// meanwhile, so that the path leads elsewhere afterwards.
fn copy_read_only(path: &Path) -> Option<OwnedFd> {
    let depth = bind_read_only(path).ok()?;
    let tree = copy_tree(path, depth).ok()?;
    let flags = fstatvfs(&tree).ok()?.f_flag;
    flags.contains(StatVfsMountFlags::RDONLY).then_some(tree)
}

fn attach(tree: &OwnedFd, target: &Path) -> Result<(), SandboxError> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(tree, c"", CWD, target, flags).map_err(SandboxError::at(format!("mount {}", target.display())))
}

/// Creates the mount point of a tree whose folder is covered by now, such as a workspace in `/tmp`.
fn make_mount_point(path: &Path, tree: &OwnedFd) -> Result<(), SandboxError> {
    if fs::symlink_metadata(path).is_ok() {
        return Ok(());
    }
    let failed = || SandboxError::at::<io::Error>(format!("create the mount point {}", path.display()));
    let found = rustix::fs::fstat(tree)
        .map_err(io::Error::from)
        .map_err(failed())?;
    if rustix::fs::FileType::from_raw_mode(found.st_mode).is_dir() {
        return fs::create_dir_all(path).map_err(failed());
    }
    let parent = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).map_err(failed())?;
    fs::write(path, "").map_err(failed())
}

/// Covers a path with one of [`COVERS`].
fn cover(path: &Path, with: &str) -> Result<(), SandboxError> {
    const MOST_ATTEMPTS: usize = 20;
    let cover = || {
        // What is gone, or cannot be reached, needs no cover.
        if fs::symlink_metadata(path).is_err() {
            return Ok(());
        }
        // The mount is as read-only as that of the covers.
        mount_bind(Path::new(COVERS).join(with), path)
    };
    // Another program may remove it meanwhile, and create it again.
    let mut attempts = (0..MOST_ATTEMPTS).map(|_| cover());
    let covered = attempts.find(|covered| *covered != Err(Errno::NOENT));
    let covered = covered.unwrap_or(Err(Errno::NOENT));
    covered.map_err(SandboxError::at(format!("cover {}", path.display())))
}

/// Returns whether a path is in a folder that is replaced, and so hidden.
fn is_replaced(path: &Path) -> bool {
    REPLACED.iter().any(|folder| path.starts_with(folder))
}

fn is_in_writable(rules: &[(PathRule, PathBuf)], path: &Path) -> bool {
    let mut writable = rules.iter().filter(|(rule, _)| rule.is_writable());
    writable.any(|(_, folder)| path.starts_with(folder))
}

/// Makes every mount read-only that is not replaced later.
fn make_read_only() -> Result<(), SandboxError> {
    let mount_points = list_mount_points().map_err(SandboxError::at("list the mounts"))?;
    for path in mount_points.into_iter().filter(|path| !is_replaced(path)) {
        make_mount_read_only(&path)
            .map_err(SandboxError::at(format!("make {} read-only", path.display())))?;
    }
    Ok(())
}

/// Makes a mount read-only that may be out of reach: covered by another mount, or in a folder that this user cannot enter.
fn make_mount_read_only(path: &Path) -> Result<(), Errno> {
    match set_read_only(path) {
        Err(Errno::INVAL | Errno::NOENT | Errno::ACCESS | Errno::NOTDIR) => Ok(()),
        done => done,
    }
}

/// Makes the mount at a path read-only and keeps its other flags, which a user namespace cannot remove.
fn set_read_only(path: &Path) -> Result<(), Errno> {
    let now = statvfs(path)?.f_flag;
    let mut flags = MountFlags::BIND | MountFlags::RDONLY;
    for (found, flag) in [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ] {
        if now.contains(found) {
            flags |= flag;
        }
    }
    mount_remount(path, flags, c"")
}

fn mount_memory(path: &Path, options: &std::ffi::CStr) -> Result<(), SandboxError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount(c"tmpfs", path, c"tmpfs", flags, options)
        .map_err(SandboxError::at(format!("mount {}", path.display())))
}

/// An entry of `/run` that is kept.
enum KeptEntry {
    Link(PathBuf),
    Tree(OwnedFd),
    Missing,
}

impl KeptEntry {
    fn find(path: &Path) -> Self {
        match fs::read_link(path) {
            Ok(target) => Self::Link(target),
            Err(_) => copy_tree(path, OpenTreeFlags::AT_RECURSIVE).map_or(Self::Missing, Self::Tree),
        }
    }
}

fn replace_run(kept: &[(&str, KeptEntry)]) -> Result<(), SandboxError> {
    let run = Path::new("/run");
    if !run.is_dir() {
        return Ok(());
    }
    mount_memory(run, c"mode=0755")?;
    for (path, entry) in kept {
        let path = Path::new(path);
        match entry {
            KeptEntry::Link(target) => symlink(target, path)
                .map_err(SandboxError::at(format!("create the link {}", path.display())))?,
            KeptEntry::Tree(tree) => {
                make_mount_point(path, tree)?;
                attach(tree, path)?;
            }
            KeptEntry::Missing => {}
        }
    }
    Ok(())
}

/// Mounts the processes of the new PID namespace. Read-only, so that root cannot change settings of the kernel.
fn replace_proc() -> Result<(), SandboxError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    mount(c"proc", c"/proc", c"proc", flags, None).map_err(SandboxError::at("mount /proc"))
}

fn replace_dev(devices: &[Option<OwnedFd>; DEVICES.len()]) -> Result<(), SandboxError> {
    let dev = Path::new("/dev");
    mount_memory(dev, c"mode=0755")?;
    for (device, name) in devices.iter().zip(DEVICES) {
        if let Some(tree) = device {
            let path = dev.join(name);
            fs::write(&path, "").map_err(SandboxError::at(format!("create {}", path.display())))?;
            attach(tree, &path)?;
        }
    }
    fill_dev(dev).map_err(SandboxError::at("fill /dev"))?;
    mount_memory(&dev.join("shm"), c"mode=1777")?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount(
        c"devpts",
        dev.join("pts"),
        c"devpts",
        flags,
        c"newinstance,ptmxmode=0666,mode=0620",
    )
    .map_err(SandboxError::at("mount /dev/pts"))
}

/// Creates the folders, links, and covers in `/dev`.
fn fill_dev(dev: &Path) -> io::Result<()> {
    for folder in ["shm", "pts"] {
        fs::create_dir(dev.join(folder))?;
    }
    for (name, target) in LINKS {
        symlink(target, dev.join(name))?;
    }
    let covers = Path::new(COVERS);
    fs::create_dir_all(covers.join("folder"))?;
    for (name, mode) in [("file", 0o000), ("blank", 0o444)] {
        fs::write(covers.join(name), "")?;
        fs::set_permissions(covers.join(name), fs::Permissions::from_mode(mode))?;
    }
    fs::set_permissions(covers.join("folder"), fs::Permissions::from_mode(0o000))?;
    mount_bind(covers, covers).and_then(|()| set_read_only(covers))?;
    Ok(())
}
