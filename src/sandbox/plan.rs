//! The rules of one sandboxed command, and their encoding for the helper. Pure.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::domain::words::word_enum;
use crate::domain::{SandboxMethod, SandboxNetwork};

word_enum! {
    /// What a command may do with a path and everything below it. Later rules win over earlier ones.
    pub enum PathRule {
        /// Read and write. The path need not exist.
        Write = "w",
        /// A cache of build tools, with our own mounts. What the command changes there is kept apart, in a layer of its
        /// workspace. Without one, it is [`PathRule::ReadOnly`].
        Cache = "c",
        /// A workspace folder: like [`PathRule::Write`], but files that make programs run are read-only.
        Workspace = "s",
        /// The home folder as a workspace: only its visible files and folders can be written. What a home folder has
        /// hidden are the settings of every program of the user.
        HomeWorkspace = "o",
        /// Read, but not write.
        ReadOnly = "r",
        /// Neither read nor write: opening it fails.
        Hide = "h",
        /// A home folder of which only what later rules name is there.
        Empty = "e",
        /// A configuration with a token in it: it reads as empty, because programs fail if they cannot open theirs.
        Blank = "b",
        /// Like [`PathRule::ReadOnly`], for what the command's own temporary folder or [`PathRule::Empty`] would replace. Links
        /// on the way to it stay, too.
        Visible = "v",
        /// Reached although `/run` is replaced: the outermost link in `/run` on the path, and what is at its end if that
        /// is a file. Changes nothing else.
        Reach = "n",
    }
}

impl PathRule {
    /// Returns whether commands may write a path with this rule, after the rules of a plan were expanded. A
    /// [`PathRule::Cache`] may be read-only all the same.
    pub(super) fn is_writable(self) -> bool {
        matches!(self, Self::Write | Self::Cache)
    }
}

/// The word for no folder of layers. No path is like it, since they are absolute.
const NO_LAYERS: &str = "-";

/// Folders that a command with namespaces has of its own. Mounts below them need no treatment.
pub(super) const REPLACED: [&str; 5] = ["/proc", "/dev", "/run", "/tmp", "/var/tmp"];
/// Those of them that are its temporary folder. It can write nothing to the others, except devices and shared memory.
pub(super) const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// Returns whether a path is below one of [`TEMPORARY`].
pub(super) fn is_temporary(path: &Path) -> bool {
    TEMPORARY
        .iter()
        .any(|folder| path.starts_with(folder) && path != Path::new(folder))
}

/// What one command may do. Everything that no rule names can be read but not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxPlan {
    pub method: SandboxMethod,
    pub network: SandboxNetwork,
    /// The folder that it sees as `/tmp` and `/var/tmp`.
    pub temp: PathBuf,
    /// The folder for what commands of its workspace change in caches. `None` makes them read-only.
    pub cache_layers: Option<PathBuf>,
    pub rules: Vec<(PathRule, PathBuf)>,
}

impl SandboxPlan {
    /// Returns the path under which the command finds its temporary folder.
    pub fn visible_temp(&self) -> &Path {
        match self.method {
            SandboxMethod::Namespaces | SandboxMethod::Bubblewrap => Path::new("/tmp"),
            SandboxMethod::Landlock | SandboxMethod::Seatbelt | SandboxMethod::None => &self.temp,
        }
    }

    /// Lists where the command's own temporary folder shows paths of the machine, relative to it.
    pub fn list_mounted_temporary(&self) -> impl Iterator<Item = PathBuf> {
        let is_shown = |rule: &PathRule| match rule {
            PathRule::Write
            | PathRule::Cache
            | PathRule::Workspace
            | PathRule::HomeWorkspace
            | PathRule::ReadOnly
            | PathRule::Empty
            | PathRule::Visible => self.method.has_namespaces(),
            PathRule::Hide | PathRule::Blank | PathRule::Reach => false,
        };
        let shown = self.rules.iter().filter(move |(rule, _)| is_shown(rule));
        shown.filter_map(|(_, path)| {
            let below = TEMPORARY
                .iter()
                .find_map(|folder| path.strip_prefix(folder).ok())?;
            (below != Path::new("")).then(|| below.to_owned())
        })
    }

    /// Returns the plan as a list of words, for the helper.
    pub fn to_words(&self) -> Vec<OsString> {
        let mut words = vec![
            self.method.name().into(),
            self.network.name().into(),
            self.temp.clone().into(),
            self.cache_layers
                .clone()
                .unwrap_or_else(|| NO_LAYERS.into())
                .into(),
        ];
        for (rule, path) in &self.rules {
            words.extend([rule.name().into(), path.clone().into()]);
        }
        words
    }

    /// Reads a plan from [`SandboxPlan::to_words`]. Returns `None` if anything in it is not understood.
    pub fn from_words(words: &[OsString]) -> Option<Self> {
        let [method, network, temp, cache_layers, rules @ ..] = words else {
            return None;
        };
        let (rules, []) = rules.as_chunks::<2>() else {
            return None;
        };
        let rules = rules
            .iter()
            .map(|[rule, path]| Some((PathRule::from_name(rule.to_str()?)?, PathBuf::from(path))));
        Some(Self {
            method: SandboxMethod::from_name(method.to_str()?)?,
            network: SandboxNetwork::from_name(network.to_str()?)?,
            temp: temp.into(),
            cache_layers: (cache_layers != NO_LAYERS).then(|| cache_layers.into()),
            rules: rules.collect::<Option<_>>()?,
        })
    }

    /// Returns the rule that holds for a path: the last one that names it or a folder around it.
    pub fn find_rule(&self, path: &Path) -> Option<PathRule> {
        find_rule(&self.rules, path)
    }
}

/// Returns whether a path is in a folder that is empty but for what has rules of its own.
pub(super) fn is_in_empty(rules: &[(PathRule, PathBuf)], path: &Path) -> bool {
    let mut empty = rules.iter().filter(|(rule, _)| *rule == PathRule::Empty);
    empty.any(|(_, folder)| path.starts_with(folder) && path != folder)
}

/// Returns the rule that holds for a path; see [`SandboxPlan::find_rule`].
pub(super) fn find_rule(rules: &[(PathRule, PathBuf)], path: &Path) -> Option<PathRule> {
    let found = rules.iter().rev().find(|(_, named)| path.starts_with(named));
    found.map(|(rule, _)| *rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> SandboxPlan {
        SandboxPlan {
            method: SandboxMethod::Namespaces,
            network: SandboxNetwork::Proxy,
            temp: "/tmp/private".into(),
            cache_layers: Some("/home/u/layers".into()),
            rules: vec![
                (PathRule::Cache, "/home/u/.npm".into()),
                (PathRule::Workspace, "/ws".into()),
                (PathRule::Hide, "/ws/secret".into()),
                (PathRule::Write, "/ws/secret/public".into()),
                (PathRule::Blank, "/home/u/.npmrc".into()),
                (PathRule::ReadOnly, "/ws/lib".into()),
                (PathRule::Reach, "/run/user/1/bin".into()),
                (PathRule::Visible, "/tmp/tools".into()),
            ],
        }
    }

    #[test]
    fn plans_round_trip_and_nothing_else_is_understood() {
        let words = plan().to_words();
        assert_eq!(SandboxPlan::from_words(&words), Some(plan()));
        assert_eq!(SandboxPlan::from_words(&words[..words.len() - 1]), None);
        for at in [0, 1, 4] {
            let mut bent = words.clone();
            bent[at] = "unknown".into();
            assert_eq!(SandboxPlan::from_words(&bent), None, "word {at}");
        }
        assert_eq!(SandboxPlan::from_words(&[]), None);
    }

    #[test]
    fn the_last_rule_around_a_path_holds() {
        let plan = plan();
        for (path, rule) in [
            ("/ws/src/a.rs", Some(PathRule::Workspace)),
            ("/ws/secret/key", Some(PathRule::Hide)),
            ("/ws/secret/public/a", Some(PathRule::Write)),
            ("/ws/secretary", Some(PathRule::Workspace)),
            ("/ws/lib/x", Some(PathRule::ReadOnly)),
            ("/etc/passwd", None),
        ] {
            assert_eq!(plan.find_rule(Path::new(path)), rule, "{path}");
        }
    }
}
