//! Losses: files and git data that a command deletes or overwrites and that no revert restores.
//!
//! Plain values: `approval` reads the command's text, and `tool` looks at the disk.

use serde::{Deserialize, Serialize};

use crate::base::text::one_line;

/// What a command line deletes or overwrites, judged by its text alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLosses {
    /// The folders of each `cd`, from the command's own. Words are relative to any of them, or to the command's own.
    pub folders: Vec<String>,
    pub targets: Vec<LossTarget>,
}

/// One thing that a command deletes or overwrites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LossTarget {
    /// Files that the line names.
    Files {
        /// The unquoted text. A leading `~` means the home folder.
        text: String,
        /// Whether Bash expands it to file names.
        glob: bool,
        reach: LossReach,
    },
    /// Files that are copied or moved to a place that the line names.
    Into {
        /// The names that they have if the place is a folder.
        names: Vec<String>,
        place: String,
        /// Whether folders are copied with everything below them.
        with_folders: bool,
    },
    /// Files of the workspace, whichever they are.
    Workspace {
        /// Whether this includes files that git ignores.
        ignored: bool,
    },
    /// Files with names that only the shell knows.
    AnyFile {
        /// The pattern of the names; `None` for all.
        named: Option<String>,
        /// Whether they are in the folder of the command or below it.
        is_inner: bool,
    },
    /// Files outside the workspace, in a folder into which an archive is unpacked.
    Unpacked { place: String },
    /// What a work tree outside the workspace has and its repository does not.
    WorkTree {
        folder: String,
        /// Whether this includes files that git does not have.
        with_untracked: bool,
    },
    /// Something that only git, or another machine, has; for people: "a stash entry".
    Other(&'static str),
    /// Whole folders whose names only the shell knows.
    Unknown,
}

/// How much of what a word names is deleted or overwritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LossReach {
    /// The content of a file, also through a link.
    Content,
    /// A file or a link itself.
    Entry,
    /// Files below a folder, but not the folder itself or what git has in it.
    Inside {
        /// The pattern of their names; `None` for all.
        named: Option<String>,
    },
    /// Everything below a folder.
    Tree {
        /// The pattern of the names that are concerned; `None` for all.
        named: Option<String>,
    },
}

/// Something that would be gone for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct Loss {
    /// A path as shown to people, or what it is in words.
    pub what: String,
    /// The size of the file in bytes; `None` if it is not a file, or if the size is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// How many losses a question names in its text.
const NAMED: usize = 3;

/// Most losses that are listed.
pub const MAX_LISTED_LOSSES: usize = 20;

/// Things that a command would make disappear for good.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct LossList {
    /// The first of them, largest first.
    #[cfg_attr(test, proptest(strategy = "super::arbitrary::arb_list()"))]
    pub listed: Vec<Loss>,
    /// How many there are.
    pub count: u64,
}

/// What a question says about losses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct NamedLosses {
    pub list: LossList,
    /// Whether there may be more: not everything was looked at.
    pub is_partial: bool,
}

/// All that a command would make disappear for good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// What a command in the sandbox can reach.
    pub inside: LossList,
    /// What only a command without the sandbox can reach: files outside the workspace.
    pub outside: LossList,
    /// Whether there may be more: not everything was looked at.
    pub is_partial: bool,
    /// Whether it deletes or overwrites something that a revert brings back.
    pub has_restorable: bool,
}

impl LossList {
    /// Returns whether everything in this list is also in `other`, as far as the lists show.
    fn is_within(&self, other: &Self) -> bool {
        let is_known = |loss: &Loss| other.listed.iter().any(|known| known.what == loss.what);
        self.count <= other.count && self.listed.iter().all(is_known)
    }
}

impl Losses {
    /// Returns what is lost in the sandbox or without it; `None` if it is nothing.
    pub fn in_reach(&self, is_confined: bool) -> Option<NamedLosses> {
        let mut list = self.inside.clone();
        if !is_confined {
            list.listed.extend(self.outside.listed.iter().cloned());
            list.count += self.outside.count;
        }
        list.listed.truncate(MAX_LISTED_LOSSES);
        (list.count > 0 || self.is_partial).then_some(NamedLosses {
            list,
            is_partial: self.is_partial,
        })
    }

    /// Returns whether nothing would be lost that is not also in `other`, as far as the lists show.
    pub fn is_within(&self, other: &Self) -> bool {
        self.is_partial <= other.is_partial
            && self.inside.is_within(&other.inside)
            && self.outside.is_within(&other.outside)
    }
}

impl NamedLosses {
    /// Says what would be lost, for people: the first few, and how many more.
    pub fn describe(&self) -> String {
        let named = self.list.listed.iter().take(NAMED).map(|loss| {
            let what = one_line(&loss.what, 60);
            match loss.bytes {
                Some(bytes) => format!("{what} ({})", format_bytes(bytes)),
                None => what,
            }
        });
        let named: Vec<String> = named.collect();
        let more = self.list.count.saturating_sub(named.len() as u64);
        let mut text = if named.is_empty() {
            "may delete or overwrite files for good that could not be checked".to_owned()
        } else {
            format!("deletes or overwrites for good: {}", named.join(", "))
        };
        match (more, self.is_partial) {
            (0, false) => {}
            (0, true) if named.is_empty() => {}
            (0, true) => text.push_str(", perhaps more"),
            (more, false) => text.push_str(&format!(", and {more} more")),
            (more, true) => text.push_str(&format!(", and at least {more} more")),
        }
        text
    }
}

fn format_bytes(bytes: u64) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} KB", bytes / 1_000),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}
