//! Seccomp: denies system calls that could undo the sandbox, or that reach the kernel by rare ways.

use std::collections::BTreeMap;
use std::io;

use nix::libc;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, sock_filter,
};

use crate::domain::{SandboxMethod, SandboxNetwork};
use crate::sandbox::SandboxError;
use crate::sandbox::plan::SandboxPlan;

/// Denied whatever their arguments are.
const DENIED: &[libc::c_long] = &[
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    // The memory of others.
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Parts of the kernel that ordinary commands do not use, and that had the most holes.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_open_by_handle_at,
    // The machine.
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];

/// Answered as if the kernel did not have them, so that programs use the older calls, which are filtered or harmless.
const MISSING: &[libc::c_long] = &[
    // Their flags and modes are in memory, where no filter can read them.
    libc::SYS_clone3,
    libc::SYS_openat2,
    // It makes system calls that no filter sees.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Calls that give a file a mode, with the argument of the mode. A program with a set-user-id bit would run with the
/// user's rights, whoever starts it. For `mkdir`, the kernel ignores these bits.
const MODE_CALLS: &[(libc::c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
    (libc::SYS_mknodat, 2),
];

/// The same with flags in the argument before: only those in [`CREATES`] make the mode count.
const OPEN_CALLS: &[(libc::c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 2),
    (libc::SYS_openat, 3),
];
const CREATES: [libc::c_int; 2] = [libc::O_CREAT, libc::O_TMPFILE];
const SET_ID_BITS: [libc::mode_t; 2] = [libc::S_ISUID, libc::S_ISGID];

/// Flags of `clone` that create namespaces.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// The kinds of sockets that commands may create. Others, such as AF_VSOCK, leave the network namespace.
const FAMILIES: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// The newest system call that was looked at, `removexattrat`. From 424 on, all architectures have the same numbers.
const LAST_KNOWN: u32 = 466;

/// Answers newer calls as kernels without them do, so that programs use the older ones: the next call may undo the sandbox
/// too, as `open_tree_attr` would. That includes the calls of the x32 ABI, whose numbers are higher, so that no rule above
/// is about them. The instructions load the number, compare it, and return `ENOSYS` or let it pass.
const UNKNOWN_FILTER: [(u32, u8, u8, u32); 4] = [
    (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
    (libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, 0, 1, LAST_KNOWN),
    (RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
    (RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
];

const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

type Rules = BTreeMap<libc::c_long, Vec<SeccompRule>>;

pub(super) fn restrict_system_calls(plan: &SandboxPlan) -> Result<(), SandboxError> {
    let denied = build_denied_calls(plan).map_err(io::Error::other);
    let denied = denied.map_err(SandboxError::at("describe system calls"))?;
    let missing = MISSING.iter().map(|call| (*call, Vec::new())).collect();
    for (rules, errno) in [(denied, libc::EPERM), (missing, libc::ENOSYS)] {
        let program = compile_filter(rules, errno).map_err(io::Error::other);
        let program = program.map_err(SandboxError::at("compile a filter of system calls"))?;
        apply_program(&program)?;
    }
    let build = |(code, jt, jf, k)| sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    apply_program(&UNKNOWN_FILTER.map(build))
}

fn apply_program(program: &[sock_filter]) -> Result<(), SandboxError> {
    apply_filter(program)
        .map_err(io::Error::other)
        .map_err(SandboxError::at("filter system calls"))
}

fn build_denied_calls(plan: &SandboxPlan) -> Result<Rules, BackendError> {
    let mut rules: Rules = DENIED.iter().map(|call| (*call, Vec::new())).collect();
    for flag in NAMESPACES {
        deny_where(&mut rules, libc::SYS_clone, vec![has_flags(0, flag as u64)?])?;
    }
    for bits in SET_ID_BITS.map(u64::from) {
        for (call, mode) in MODE_CALLS {
            deny_where(&mut rules, *call, vec![has_flags(*mode, bits)?])?;
        }
        for (call, mode) in OPEN_CALLS {
            for flags in CREATES {
                let creates = has_flags(mode - 1, flags as u64)?;
                deny_where(&mut rules, *call, vec![creates, has_flags(*mode, bits)?])?;
            }
        }
    }
    // Typing into a terminal, or into a virtual console.
    for request in [libc::TIOCSTI, libc::TIOCLINUX] {
        let typing = compare(1, SeccompCmpOp::Eq, request)?;
        deny_where(&mut rules, libc::SYS_ioctl, vec![typing])?;
    }
    if plan.method == SandboxMethod::Landlock && plan.network != SandboxNetwork::Open {
        // No namespace separates the network here. Without sockets, there is also no way to a Unix socket.
        rules.insert(libc::SYS_socket, Vec::new());
        // A datagram socket of a pair can still send to any path.
        let datagrams = compare(1, SeccompCmpOp::MaskedEq(0xf), libc::SOCK_DGRAM as u64)?;
        deny_where(&mut rules, libc::SYS_socketpair, vec![datagrams])?;
    } else {
        let others = FAMILIES.map(|family| compare(0, SeccompCmpOp::Ne, family as u64));
        let others = others.into_iter().collect::<Result<_, _>>()?;
        deny_where(&mut rules, libc::SYS_socket, others)?;
    }
    if plan.method == SandboxMethod::Landlock {
        // No namespace hides other processes here.
        rules.insert(libc::SYS_ptrace, Vec::new());
        // It changes the limits of any process of the user, but is fine for the caller itself, which is 0.
        let of_another = compare(0, SeccompCmpOp::Ne, 0)?;
        deny_where(&mut rules, libc::SYS_prlimit64, vec![of_another])?;
    }
    Ok(rules)
}

/// Denies a call also where all these conditions hold.
fn deny_where(
    rules: &mut Rules,
    call: libc::c_long,
    conditions: Vec<SeccompCondition>,
) -> Result<(), BackendError> {
    let rule = SeccompRule::new(conditions)?;
    rules.entry(call).or_default().push(rule);
    Ok(())
}

fn has_flags(argument: u8, flags: u64) -> Result<SeccompCondition, BackendError> {
    let has_them = SeccompCmpOp::MaskedEq(flags);
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, has_them, flags)
}

/// Compares the lower half only: the kernel ignores the upper one here.
fn compare(argument: u8, how: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, value)
}

fn compile_filter(rules: Rules, errno: libc::c_int) -> Result<BpfProgram, BackendError> {
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(errno as u32),
        TargetArch::try_from(std::env::consts::ARCH)?,
    )?;
    filter.try_into()
}
