//! Who descends from a process, and signals to all of them. On Linux from `/proc`; elsewhere the
//! command's own group is all we know.

use std::collections::BTreeSet;
#[cfg(any(target_os = "linux", test))]
use std::collections::{HashMap, HashSet};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// One row of the process table. Zombies are in it: a dead first thread may hide live ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessRow {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
}

/// The helper's descendants.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessTree {
    /// The helper itself: leader of its own session, so that every other group below it holds
    /// nothing but descendants.
    pub(super) root: Pid,
    /// The command: leader of its group.
    pub(super) main: Pid,
}

impl ProcessTree {
    /// Sends `signal` to all descendants; `main_alive`: the command was not reaped yet.
    ///
    /// Whole groups are signalled at once, which no fork can slip through. A number may in theory
    /// be given to a stranger between looking and sending; the kernel hands them out in a circle,
    /// so that would take a full round of them within milliseconds.
    pub(super) fn signal_members(&self, signal: Signal, main_alive: bool) {
        let root = self.root.as_raw_nonzero().get();
        let main = self.main.as_raw_nonzero().get();
        let known = main_alive || cfg!(not(target_os = "linux"));
        if known {
            // Before the look at the table, which takes a millisecond or two.
            send(main, signal, kill_process_group);
        }
        let mut groups = BTreeSet::new();
        for row in self.list_members() {
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

    /// How many descendants there are now.
    pub(super) fn count_members(&self) -> usize {
        self.list_members().len()
    }

    #[cfg(target_os = "linux")]
    fn list_members(&self) -> Vec<ProcessRow> {
        find_descendants(&read_process_table(), self.root.as_raw_nonzero().get())
    }

    #[cfg(not(target_os = "linux"))]
    fn members(&self) -> Vec<ProcessRow> {
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

/// Sends to a process and its whole group, which no fork can slip through. For a row in a session of its own.
#[cfg(target_os = "linux")]
pub(super) fn kill_row(row: &ProcessRow, signal: Signal) {
    send(row.group, signal, kill_process_group);
    send(row.pid, signal, kill_process);
}

/// Sends to a number that may be nobody any more: that is no error here.
fn send(number: i32, signal: Signal, how: fn(Pid, Signal) -> rustix::io::Result<()>) {
    // 1 is never ours; 0 and below would address whole groups.
    if number > 1
        && let Some(pid) = Pid::from_raw(number)
    {
        let _ = how(pid, signal);
    }
}

/// All processes that `/proc` shows; empty where it shows none, or those of another namespace: there our numbers are
/// other processes.
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

/// The row of a `/proc/<pid>/stat`: `pid (name) state ppid pgrp session …`. The name may hold anything.
#[cfg(any(target_os = "linux", test))]
fn parse_stat(stat: &[u8]) -> Option<ProcessRow> {
    let open = stat.iter().position(|&b| b == b'(')?;
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

/// All rows below `root`, without it.
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
            // The table is not one moment: a number used twice must not make a circle.
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
    fn reads_names_with_anything_in_them() {
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
    fn finds_grandchildren_and_no_strangers() {
        let table = [row(5, 4), row(4, 2), row(2, 1), row(3, 1), row(6, 3)];
        let mut found: Vec<_> = find_descendants(&table, 2).iter().map(|r| r.pid).collect();
        found.sort_unstable();
        assert_eq!(found, [4, 5]);
    }

    #[test]
    fn a_circle_in_a_torn_table_ends() {
        assert_eq!(find_descendants(&[row(2, 3), row(3, 2)], 2).len(), 1);
    }
}
