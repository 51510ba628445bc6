//! Finds the descendants of a process and signals them. Must not wait for them or reap them; the callers do.
//!
//! On Linux it reads `/proc`; on other systems only the command's own group is known.

use std::collections::BTreeSet;
#[cfg(any(target_os = "linux", test))]
use std::collections::{HashMap, HashSet};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// One row of the process table. Zombies are included: a dead first thread may hide live ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessRow {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
}

/// The descendants of a helper.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessTree {
    /// The helper itself: leader of its own session, so every other group below it contains only descendants.
    pub(super) root: Pid,
    /// The command: leader of its group.
    pub(super) main: Pid,
}

impl ProcessTree {
    /// Sends `signal` to all descendants; `main_alive` means that the command has not been reaped.
    ///
    /// Whole groups are signaled in one call, which no fork can slip through. In theory a pid can pass to a stranger
    /// between the snapshot and the signal. The kernel assigns pids in a circle, so that would take a full round within
    /// milliseconds.
    pub(super) fn signal_members(&self, signal: Signal, main_alive: bool) {
        let root = self.root.as_raw_nonzero().get();
        let main = self.main.as_raw_nonzero().get();
        // Once the command is reaped, another group may get its number.
        let known = main_alive || cfg!(not(target_os = "linux"));
        if known {
            // Before the snapshot of the table, which takes a millisecond or two.
            send(main, signal, kill_process_group);
        }
        let mut groups = BTreeSet::new();
        for row in self.list_members() {
            // The helper's own group also contains the helper, so signal its members one by one.
            if row.group == root || row.group == 0 {
                send(row.pid, signal, kill_process);
            } else if !known || row.group != main {
                groups.insert(row.group);
            }
        }
        for group in groups {
            send(group, signal, kill_process_group);
        }
    }

    /// Returns how many descendants there are now.
    pub(super) fn count_members(&self) -> usize {
        self.list_members().len()
    }

    #[cfg(target_os = "linux")]
    fn list_members(&self) -> Vec<ProcessRow> {
        read_descendants(self.root.as_raw_nonzero().get())
    }

    #[cfg(not(target_os = "linux"))]
    fn list_members(&self) -> Vec<ProcessRow> {
        Vec::new()
    }
}

/// Kills every process of a session whose leader (a helper) died without cleaning up.
#[cfg(target_os = "linux")]
pub(super) fn kill_session(session: i32) {
    for row in read_process_table() {
        if row.session == session {
            send(row.pid, Signal::KILL, kill_process);
        }
    }
}

/// Signals a process and its whole group, which no fork can slip through. Only for a row in a session of its own.
#[cfg(target_os = "linux")]
pub(super) fn kill_row(row: &ProcessRow, signal: Signal) {
    send(row.group, signal, kill_process_group);
    send(row.pid, signal, kill_process);
}

/// Signals a pid or group that may no longer exist, which is not an error here.
fn send(number: i32, signal: Signal, deliver: fn(Pid, Signal) -> rustix::io::Result<()>) {
    // 1 is never ours; 0 and negative numbers would address whole groups.
    if number > 1
        && let Some(pid) = Pid::from_raw(number)
    {
        let _ = deliver(pid, signal);
    }
}

/// Returns whether `/proc` shows this process under its own pid. It may be missing, or show another namespace, where our
/// pids belong to other processes.
#[cfg(target_os = "linux")]
fn proc_shows_this_process() -> bool {
    let own = rustix::process::getpid().as_raw_nonzero().to_string();
    std::fs::read_link("/proc/self").is_ok_and(|link| link == std::path::Path::new(&own))
}

/// Returns all processes below `root`, without `root` itself. Empty if `/proc` does not show this process.
///
/// Reads only the processes below `root`, where the kernel lists children (`CONFIG_PROC_CHILDREN`). The whole table takes
/// milliseconds on a busy machine.
#[cfg(target_os = "linux")]
pub(super) fn read_descendants(root: i32) -> Vec<ProcessRow> {
    if !proc_shows_this_process() {
        return Vec::new();
    }
    let Some(children) = list_children(root) else {
        return find_descendants(&read_process_table(), root);
    };
    let mut found = Vec::new();
    let mut seen = HashSet::from([root]);
    let mut open = children;
    while let Some(pid) = open.pop() {
        // A process that has just ended is skipped: its children are now those of a subreaper, for the next look.
        if seen.insert(pid)
            && let Some(row) = read_row(pid)
        {
            found.push(row);
            open.extend(list_children(pid).unwrap_or_default());
        }
    }
    found
}

/// Returns the children of `parent`. Empty if `/proc` does not show this process.
#[cfg(target_os = "linux")]
pub(super) fn read_children(parent: i32) -> Vec<ProcessRow> {
    if !proc_shows_this_process() {
        return Vec::new();
    }
    let rows = match list_children(parent) {
        Some(children) => children.into_iter().filter_map(read_row).collect(),
        None => read_process_table(),
    };
    rows.into_iter().filter(|row| row.parent == parent).collect()
}

/// Returns the pids of the children of all threads of a process; `None` if the kernel does not list them.
#[cfg(target_os = "linux")]
fn list_children(parent: i32) -> Option<Vec<i32>> {
    let mut children = Vec::new();
    for thread in std::fs::read_dir(format!("/proc/{parent}/task")).ok()?.flatten() {
        match std::fs::read_to_string(thread.path().join("children")) {
            Ok(pids) => children.extend(
                pids.split_ascii_whitespace()
                    .filter_map(|pid| pid.parse::<i32>().ok()),
            ),
            // The thread has just ended.
            Err(_) if !thread.path().exists() => {}
            Err(_) => return None,
        }
    }
    Some(children)
}

/// Returns the row of this process; `None` if `/proc` does not show it.
#[cfg(target_os = "linux")]
pub(super) fn read_own_row() -> Option<ProcessRow> {
    read_row(rustix::process::getpid().as_raw_nonzero().get()).filter(|_| proc_shows_this_process())
}

/// Returns the row of one process; `None` if it has ended.
#[cfg(target_os = "linux")]
fn read_row(pid: i32) -> Option<ProcessRow> {
    parse_stat(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Returns all processes that `/proc` shows. Empty if it does not show this process.
#[cfg(target_os = "linux")]
fn read_process_table() -> Vec<ProcessRow> {
    if !proc_shows_this_process() {
        return Vec::new();
    }
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(read_row).collect()
}

/// Parses a `/proc/<pid>/stat`: `pid (name) state ppid pgrp session …`. The name may contain anything.
#[cfg(any(target_os = "linux", test))]
fn parse_stat(stat: &[u8]) -> Option<ProcessRow> {
    let open = stat.iter().position(|&b| b == b'(')?;
    // The last parenthesis ends the name, which may contain others.
    let close = stat.iter().rposition(|&b| b == b')')?;
    let number = |text: &str| text.parse::<i32>().ok();
    let pid = number(std::str::from_utf8(stat.get(..open)?).ok()?.trim())?;
    let mut rest = std::str::from_utf8(stat.get(close + 1..)?)
        .ok()?
        .split_ascii_whitespace()
        .skip(1);
    Some(ProcessRow {
        pid,
        parent: number(rest.next()?)?,
        group: number(rest.next()?)?,
        session: number(rest.next()?)?,
    })
}

/// Returns all rows below `root`, without `root` itself.
#[cfg(any(target_os = "linux", test))]
fn find_descendants(table: &[ProcessRow], root: i32) -> Vec<ProcessRow> {
    let mut children: HashMap<i32, Vec<ProcessRow>> = HashMap::new();
    for row in table {
        children.entry(row.parent).or_default().push(*row);
    }
    let mut found = Vec::new();
    let mut seen = HashSet::from([root]);
    let mut open = vec![root];
    while let Some(parent) = open.pop() {
        for row in children.get(&parent).into_iter().flatten() {
            // The table is not one moment: a pid used twice must not form a cycle.
            if seen.insert(row.pid) {
                found.push(*row);
                open.push(row.pid);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn listed_children_agree_with_the_whole_table() {
        use std::io::{BufRead as _, BufReader};
        use std::os::unix::process::CommandExt as _;
        use std::process::{Command, Stdio};

        #[expect(clippy::disallowed_methods, reason = "a real tree of processes")]
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & sleep 60 & echo started; wait"])
            .stdout(Stdio::piped())
            // Killing the group must not hit the tests.
            .process_group(0)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let pid = i32::try_from(shell.id()).unwrap();
        let sorted = |mut rows: Vec<ProcessRow>| {
            rows.sort_by_key(|row| row.pid);
            rows
        };

        let listed = sorted(read_descendants(pid));
        assert_eq!(listed.len(), 2, "{listed:?}");
        assert_eq!(listed, sorted(find_descendants(&read_process_table(), pid)));
        assert_eq!(listed, sorted(read_children(pid)));

        kill_row(&listed[0], Signal::KILL);
        shell.wait().unwrap();
    }

    fn row(pid: i32, parent: i32) -> ProcessRow {
        ProcessRow {
            pid,
            parent,
            group: pid,
            session: 1,
        }
    }

    #[test]
    fn process_names_may_contain_anything() {
        for (stat, want) in [
            ("12 (sh) S 3 4 5 0 -1", Some((12, 3, 4, 5))),
            ("12 (a) S 9 9 9 (b) R 3 4 5 0", Some((12, 3, 4, 5))),
            ("12 () Z 3 4 5", Some((12, 3, 4, 5))),
            ("12 (sh) S 3 4", None),
            ("12 sh S 3 4 5", None),
            ("", None),
            (")(", None),
        ] {
            let got = parse_stat(stat.as_bytes()).map(|r| (r.pid, r.parent, r.group, r.session));
            assert_eq!(got, want, "{stat}");
        }
    }

    #[test]
    fn grandchildren_are_found_and_strangers_are_not() {
        let table = [row(5, 4), row(4, 2), row(2, 1), row(3, 1), row(6, 3)];
        let mut found: Vec<_> = find_descendants(&table, 2).iter().map(|r| r.pid).collect();
        found.sort_unstable();
        assert_eq!(found, [4, 5]);
    }

    #[test]
    fn a_cycle_in_an_inconsistent_table_ends() {
        assert_eq!(find_descendants(&[row(2, 3), row(3, 2)], 2).len(), 1);
    }
}
