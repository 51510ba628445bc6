//! Enforces a plan on Linux, for this process and everything that it starts.
//!
//! With [`SandboxMethod::Namespaces`], two processes work together. The first calls [`create_user_namespace`] and starts
//! the second, which is process 1 of the new PID namespace and calls [`enter`]: mounts (`mounts`), then Landlock
//! (`file_access`), then seccomp (`system_calls`). With [`SandboxMethod::Bubblewrap`], the program of that name does what
//! concerns namespaces and mounts (`bubblewrap`). Each of the three closes what the others cannot:
//! - mounts hide secrets and protect single files in writable folders; namespaces hide processes and the network;
//! - Landlock holds even if a mount is missed, and denies signals and abstract sockets to the outside;
//! - seccomp denies what could undo the rest, and kinds of sockets that no namespace separates.

mod bubblewrap;
mod file_access;
mod mount_table;
mod mounts;
mod overlay;
mod second_paths;
mod sockets;
mod system_calls;

use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::path::PathBuf;

use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socket_with};
use rustix::process::{DumpableBehavior, Signal, set_dumpable_behavior, set_parent_process_death_signal};
use rustix::process::{getgid, getuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

use nix::sched::{CloneFlags, unshare};

pub use bubblewrap::{BubblewrapCommand, check_inside};
pub use sockets::list_relative_sockets;

use second_paths::add_second_paths;

use super::SandboxError;
use super::expand::expand_rules;
use super::plan::SandboxPlan;
use crate::domain::{SandboxMethod, SandboxNetwork};

/// What process 1 of the sandbox needs to set it up: mounts, the loopback interface, and giving up the rest. The kernel
/// uses a folder for overlays that not even its owner may enter, with the capabilities of the process that mounts.
const SETUP_CAPABILITIES: [CapabilitySet; 4] = [
    CapabilitySet::SYS_ADMIN,
    CapabilitySet::DAC_OVERRIDE,
    CapabilitySet::NET_ADMIN,
    CapabilitySet::SETPCAP,
];

/// Closes the files that this process inherited, except its standard streams: each could be a way out of the sandbox.
///
/// For the start of a process, which has opened none itself.
///
/// # Errors
/// `/proc` does not list them.
pub fn close_inherited_files() -> Result<(), SandboxError> {
    let entries = fs::read_dir("/proc/self/fd").map_err(SandboxError::at("list the open files"))?;
    let numbers: Vec<RawFd> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in numbers {
        // One of them was the listing itself, which is closed by now.
        let _ = nix::unistd::close(number);
    }
    Ok(())
}

/// Moves this process into a user namespace of its own, and its future children into a PID namespace.
///
/// The process must have one thread. It keeps its user and group, so files keep their owners.
///
/// # Errors
/// The system does not let this user create namespaces.
pub fn create_user_namespace() -> Result<(), SandboxError> {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    // The files below belong to root while a process is not dumpable.
    set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(SandboxError::at("become dumpable"))?;
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID)
        .map_err(SandboxError::at("create a user namespace"))?;
    for (file, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{user} {user} 1")),
        ("gid_map", format!("{group} {group} 1")),
    ] {
        fs::write(format!("/proc/self/{file}"), text)
            .map_err(SandboxError::at(format!("write /proc/self/{file}")))?;
    }
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(SandboxError::at("become not dumpable"))?;
    keep_setup_capabilities().map_err(SandboxError::at("pass on capabilities"))
}

/// Keeps capabilities across the start of process 1, which a user other than root would lose.
fn keep_setup_capabilities() -> io::Result<()> {
    let all = capabilities(None)?;
    set_capabilities(
        None,
        CapabilitySets {
            inheritable: all.permitted,
            ..all
        },
    )?;
    for capability in SETUP_CAPABILITIES {
        configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// Confines this process and everything that it starts from now on, as the plan says.
///
/// `relative_sockets` are those of [`list_relative_sockets`], from before the user namespace was created.
///
/// # Errors
/// A part of the plan cannot be enforced. The process may be confined in part then, and must start nothing.
pub fn enter(plan: &SandboxPlan, relative_sockets: Vec<PathBuf>) -> Result<(), SandboxError> {
    let mut rules = expand_rules(plan)?;
    if plan.method == SandboxMethod::Namespaces {
        add_second_paths(&mut rules);
    }
    match plan.method {
        SandboxMethod::Namespaces => {
            end_with_parent()?;
            // Afterwards, the list is that of the new network namespace.
            let mut sockets = sockets::list_reachable_sockets(&rules);
            sockets.extend(relative_sockets);
            let temp = fs::canonicalize(&plan.temp).map_err(SandboxError::at("find the temporary folder"))?;
            mounts::create_temporary_links(plan, &temp);
            enter_namespaces(plan)?;
            mounts::set_up_mounts(plan, &rules, &temp, &sockets)?;
        }
        SandboxMethod::Bubblewrap => end_with_parent()?,
        SandboxMethod::Landlock => {}
        SandboxMethod::Seatbelt => {
            let elsewhere = io::Error::from(io::ErrorKind::Unsupported);
            return Err(SandboxError::at("use the sandbox of macOS")(elsewhere));
        }
        SandboxMethod::None => return Ok(()),
    }
    // With them, root could read other processes in spite of Landlock.
    drop_capabilities().map_err(SandboxError::at("give up capabilities"))?;
    set_no_new_privs(true).map_err(SandboxError::at("give up new privileges"))?;
    file_access::restrict_file_access(plan, &rules)?;
    system_calls::restrict_system_calls(plan)
}

/// The first process ends with the server or its connection; this one must not outlive it.
fn end_with_parent() -> Result<(), SandboxError> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(SandboxError::at("end with the parent process"))
}

fn enter_namespaces(plan: &SandboxPlan) -> Result<(), SandboxError> {
    let mut flags = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS;
    let has_own_network = plan.network != SandboxNetwork::Open;
    if has_own_network {
        flags |= CloneFlags::CLONE_NEWNET;
    }
    unshare(flags).map_err(SandboxError::at("create namespaces"))?;
    if has_own_network {
        start_loopback().map_err(SandboxError::at("start the loopback interface"))?;
    }
    Ok(())
}

/// Starts the loopback interface of a new network namespace, so that tests can talk to their own servers.
fn start_loopback() -> io::Result<()> {
    /// `RTM_NEWLINK`, `NLM_F_REQUEST`, and `IFF_UP` of `linux/rtnetlink.h` and its neighbors.
    const NEW_LINK: u16 = 16;
    const REQUEST: u16 = 1;
    const UP: u32 = 1;
    /// The first interface of every network namespace is the loopback interface.
    const LOOPBACK: u32 = 1;
    let flags = SocketFlags::CLOEXEC;
    // No protocol means the first one, which is about routes and interfaces.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    let mut message = Vec::with_capacity(32);
    // `nlmsghdr`: length, type, flags, sequence, port.
    message.extend(32_u32.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST.to_ne_bytes());
    message.extend([0; 8]);
    // `ifinfomsg`: family, padding, type, index, flags, which flags change.
    message.extend([0; 4]);
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    // The kernel handles the request before this returns.
    let sent = send(&socket, &message, SendFlags::empty())?;
    if sent == message.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}

/// Gives up every capability, also for programs that run as root of the namespace.
fn drop_capabilities() -> io::Result<()> {
    let now = capabilities(None)?;
    if now.permitted.is_empty() && now.inheritable.is_empty() {
        return Ok(());
    }
    for bit in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << bit);
        match remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // The kernel knows no capability of this number.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(
        None,
        CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        },
    )?;
    Ok(())
}
