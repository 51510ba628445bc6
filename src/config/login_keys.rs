//! The keys that `agentls login` stores: one file in the data folder, readable by its owner alone.
//!
//! The newest login comes first. Commands cannot read the data folder, and content passes the
//! [`Redactor`](super::Redactor), which knows these keys like all others.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use crate::base::private;

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 1024 * 1024;

/// The keys of all logins, the newest first.
#[derive(Clone, Debug, Default)]
pub struct LoginKeys {
    entries: Vec<(String, SecretString)>,
    /// The file, and why it cannot be used. Then the keys are unknown.
    pub(super) problem: Option<(PathBuf, String)>,
}

impl LoginKeys {
    /// Returns these keys as if logins had stored them.
    #[cfg(test)]
    pub(super) fn of(keys: &[(&str, &str)]) -> Self {
        let entries = keys.iter();
        Self {
            entries: entries
                .map(|(provider, key)| ((*provider).to_owned(), SecretString::from(*key)))
                .collect(),
            problem: None,
        }
    }

    /// Returns the key of a provider.
    pub fn find(&self, provider: &str) -> Option<&SecretString> {
        let mut entries = self.entries.iter();
        entries.find(|(name, _)| name == provider).map(|(_, key)| key)
    }

    /// Returns these keys with another one.
    pub(super) fn with_key(mut self, provider: &str, key: SecretString) -> Self {
        self.entries.insert(0, (provider.to_owned(), key));
        self
    }

    /// Returns the keys of all providers.
    pub(super) fn keys(&self) -> impl Iterator<Item = &SecretString> {
        self.entries.iter().map(|(_, key)| key)
    }

    /// Returns the names of the providers, the newest login first.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(name, _)| name.as_str())
    }
}

/// The file of the keys.
#[derive(Clone, Debug)]
pub struct KeyFile {
    path: PathBuf,
}

/// Differs if the file is another. `None` without a file.
pub type KeyFileStamp = Option<(u64, i64, i64)>;

#[derive(Serialize, Deserialize)]
struct StoredKey {
    provider: String,
    key: String,
}

impl KeyFile {
    /// Uses a file in the data folder. It is created by the first login.
    pub fn new(data_dir: &Path) -> Self {
        Self {
            path: data_dir.join("keys.json"),
        }
    }

    /// Returns where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what tells a changed file from this one. Blocks briefly.
    pub fn stamp(&self) -> KeyFileStamp {
        let meta = fs::symlink_metadata(&self.path).ok()?;
        Some((meta.ino(), meta.mtime(), meta.mtime_nsec()))
    }

    /// Reads the keys; none if the file cannot be used, which the configuration reports. Blocks briefly.
    pub fn load(&self) -> LoginKeys {
        match self.read() {
            Ok(entries) => LoginKeys {
                entries,
                problem: None,
            },
            Err(error) => LoginKeys {
                entries: Vec::new(),
                problem: Some((self.path.clone(), format!("cannot be used: {error}"))),
            },
        }
    }

    /// Reads the keys for somebody who has to know whether there are any. Blocks briefly.
    ///
    /// # Errors
    /// Fails if the file is there and cannot be used.
    pub fn try_load(&self) -> io::Result<LoginKeys> {
        let loaded = self.load();
        match &loaded.problem {
            Some((path, problem)) => Err(io::Error::other(format!("{} {problem}", path.display()))),
            None => Ok(loaded),
        }
    }

    /// Stores the key of a provider in place of an earlier one. Blocks.
    ///
    /// # Errors
    /// Fails if the file cannot be read or written.
    pub fn store(&self, provider: &str, key: &SecretString) -> io::Result<()> {
        self.change(
            |entries| entries.insert(0, (provider.to_owned(), key.clone())),
            provider,
        )
        .map(drop)
    }

    /// Removes the key of a provider. Returns whether there was one. Blocks.
    ///
    /// # Errors
    /// Fails if the file cannot be read or written.
    pub fn remove(&self, provider: &str) -> io::Result<bool> {
        // A logout must not create the folder.
        if self.stamp().is_none() {
            return Ok(false);
        }
        self.change(|_| (), provider)
    }

    /// Drops the entry of `provider`, then applies `then`. Returns whether there was an entry.
    fn change(
        &self,
        then: impl FnOnce(&mut Vec<(String, SecretString)>),
        provider: &str,
    ) -> io::Result<bool> {
        if let Some(folder) = self.path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            private::restrict_to_owner(folder)?;
        }
        // Another process may change the file too.
        let lock = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .custom_flags(private::NO_FOLLOW)
            .open(self.path.with_extension("lock"))?;
        lock.lock()?;
        let mut entries = self.read()?;
        let before = entries.len();
        entries.retain(|(name, _)| name != provider);
        let had_entry = entries.len() < before;
        then(&mut entries);
        let stored: Vec<StoredKey> = entries
            .into_iter()
            .map(|(provider, key)| StoredKey {
                provider,
                key: key.expose_secret().to_owned(),
            })
            .collect();
        let text = serde_json::to_vec(&stored).map_err(io::Error::other)?;
        private::replace_file(&self.path, &text)?;
        Ok(had_entry)
    }

    fn read(&self) -> io::Result<Vec<(String, SecretString)>> {
        let text = match private::read_file(&self.path, MAX_FILE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            text => text?,
        };
        // The error would quote the file.
        let stored: Vec<StoredKey> = serde_json::from_slice(&text)
            .map_err(|_| io::Error::other("it is damaged; move it away and log in again"))?;
        let entries = stored.into_iter();
        Ok(entries
            .map(|entry| (entry.provider, SecretString::from(entry.key)))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn keys_are_private_and_the_newest_login_comes_first() {
        let dir = tempfile::TempDir::new().unwrap();
        let file = KeyFile::new(&dir.path().join("agentls"));
        assert!(!file.remove("groq").unwrap() && file.stamp().is_none());
        for (provider, key) in [("groq", "old-key"), ("mistral", "m-key"), ("groq", "new-key")] {
            file.store(provider, &key.into()).unwrap();
        }
        assert_eq!(
            file.path().metadata().unwrap().permissions().mode() & 0o777,
            0o600
        );
        let folder = file.path().parent().unwrap().metadata().unwrap();
        assert_eq!(folder.permissions().mode() & 0o777, 0o700);
        let keys = file.load();
        assert_eq!(keys.providers().collect::<Vec<_>>(), ["groq", "mistral"]);
        assert_eq!(keys.find("groq").unwrap().expose_secret(), "new-key");
        assert!(!format!("{keys:?}").contains("-key"), "{keys:?}");
        let stamp = file.stamp();
        assert!(file.remove("mistral").unwrap() && !file.remove("mistral").unwrap());
        assert!(file.load().find("mistral").is_none() && file.stamp() != stamp);
        fs::set_permissions(file.path(), PermissionsExt::from_mode(0o644)).unwrap();
        let open = file.load();
        assert!(open.find("groq").is_none());
        assert!(open.problem.unwrap().1.contains("others can read it"));
        assert!(file.store("groq", &"k".into()).is_err());
        // A damaged file is kept, and is not taken for an empty one.
        fs::set_permissions(file.path(), PermissionsExt::from_mode(0o600)).unwrap();
        let whole = fs::read_to_string(file.path()).unwrap();
        let damaged = &whole[..whole.len() - 5];
        fs::write(file.path(), damaged).unwrap();
        let said = file.try_load().unwrap_err().to_string();
        assert!(
            said.ends_with("is damaged; move it away and log in again"),
            "{said}"
        );
        assert!(file.remove("groq").is_err() && file.store("groq", &"k".into()).is_err());
        assert_eq!(fs::read_to_string(file.path()).unwrap(), damaged);
    }
}
