//! A snapshot of the environment. No other code in the program reads environment variables.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The variables of the process at the time of the snapshot, or those that a test sets.
#[derive(Clone, Default)]
pub struct Env {
    vars: BTreeMap<OsString, OsString>,
    home: Option<PathBuf>,
}

impl Env {
    /// Takes a snapshot of the real environment. Without `HOME`, the system's user table supplies the home folder.
    pub fn from_process() -> Self {
        Self {
            vars: std::env::vars_os().collect(),
            home: etcetera::home_dir().ok(),
        }
    }

    /// Creates an environment from these variables; `HOME` is the home folder.
    pub fn from_vars<K: Into<OsString>, V: Into<OsString>>(vars: impl IntoIterator<Item = (K, V)>) -> Self {
        let vars: BTreeMap<OsString, OsString> = vars
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let home = vars.get(OsStr::new("HOME")).map(PathBuf::from);
        Self { vars, home }
    }

    /// Returns a variable's value; `None` if it is not set or not UTF-8.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.vars.get(OsStr::new(name))?.to_str()
    }

    /// Returns a variable's value unless it is empty: many tools write `X=` for "not set".
    pub fn non_empty(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// Returns a variable as an absolute path. A relative path counts as not set, as XDG requires.
    pub fn absolute_path(&self, name: &str) -> Option<PathBuf> {
        let path = PathBuf::from(self.vars.get(OsStr::new(name))?);
        path.is_absolute().then_some(path)
    }

    /// Returns the user's home folder.
    pub fn home_dir(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// Iterates over all variables by name. The environment of a child process starts from these.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.vars
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

/// Shows only names, because values may be secrets.
impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.vars.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_returns_its_variables_and_hides_values() {
        let env = Env::from_vars([
            ("HOME", "/home/u"),
            ("EMPTY", ""),
            ("REL", "a/b"),
            ("KEY", "sk-secret"),
        ]);
        assert_eq!(env.home_dir(), Some(Path::new("/home/u")));
        assert_eq!((env.get("EMPTY"), env.non_empty("EMPTY")), (Some(""), None));
        assert_eq!(env.absolute_path("REL"), None);
        assert_eq!(env.get("NONE"), None);
        assert!(!format!("{env:?}").contains("sk-secret"));
        assert_eq!(env.iter().count(), 4);
    }
}
