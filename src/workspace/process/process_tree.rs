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
        find_descendants(&read_process_table(), self.root.as_raw_nonzero().get())
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
fn send(number: i32, signal: Signal, how: fn(Pid, Signal) -> rustix::io::Result<()>) {
    // 1 is never ours; 0 and negative numbers would address whole groups.
    if number > 1
        && let Some(pid) = Pid::from_raw(number)
    {
        let _ = how(pid, signal);
    }
}

/// Returns all processes that `/proc` shows. Empty if it shows none, or those of another namespace, where our pids
/// belong to other processes.
#[cfg(target_os = "linux")]
pub(super) fn read_process_table() -> Vec<ProcessRow> {
    let own = rustix::process::getpid().as_raw_nonzero().to_string();
    if std::fs::read_link("/proc/self").ok().as_deref() != Some(std::path::Path::new(&own)) {
        return Vec::new();
    }
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| {
            entry
                .file_name()
                .as_encoded_bytes()
                .first()
                .is_some_and(u8::is_ascii_digit)
        })
        .filter_map(|entry| parse_stat(&std::fs::read(entry.path().join("stat")).ok()?))
        .collect()
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
pub(super) fn find_descendants(table: &[ProcessRow], root: i32) -> Vec<ProcessRow> {
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
