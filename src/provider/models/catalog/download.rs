//! A catalogue that the user has downloaded (`agentls models update`), next to the built-in one.
//!
//! Reads and writes its file and compares it with the catalogue in use. Makes no request: the caller does.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::data::{Catalog, DownloadState};
use super::index::{CatalogIndex, Overlay};
use super::reduce;
use crate::base::hash::sha256;
use crate::base::private::NO_FOLLOW;

/// The largest stored catalogue that is read, in bytes. The data of models.dev takes a twentieth of that.
const MAX_FILE: u64 = 4 << 20;

/// A downloaded catalogue as it is stored.
#[derive(Debug, Serialize, Deserialize)]
pub struct CatalogDownload {
    /// The day on which it was fetched.
    fetched: String,
    /// Where it came from.
    from: String,
    /// The hash of what was fetched.
    sha256: String,
    #[serde(flatten)]
    catalog: Catalog,
}

/// How a downloaded catalogue differs from the one in use.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CatalogDifference {
    /// Models that are new, as `provider/model`.
    pub added: Vec<String>,
    /// Models whose facts differ.
    pub changed: Vec<String>,
    /// Models that it no longer lists, but that stay known because they are built in.
    pub removed: Vec<String>,
    /// Models that only the data in use lists, so that nothing will be known about them.
    pub lost: Vec<String>,
}

/// Reads the downloaded catalogue, and merges it with the built-in one if it is not older.
pub(super) fn load(file: &Path, built_in: Catalog, overlay: Overlay) -> CatalogIndex {
    let (newer, state) = match read(file) {
        Ok(None) => (None, DownloadState::Absent),
        Ok(Some(found)) if found.catalog.date < built_in.date => {
            let date = found.catalog.date;
            (None, DownloadState::Older { date })
        }
        Ok(Some(found)) => {
            let (fetched, from) = (found.fetched, found.from);
            (Some(found.catalog), DownloadState::Used { fetched, from })
        }
        Err(problem) => {
            tracing::warn!(file = %file.display(), problem, "the downloaded model catalogue was not read");
            (None, DownloadState::Unreadable(problem))
        }
    };
    CatalogIndex::new(built_in, overlay, newer, state)
}

fn read(file: &Path) -> Result<Option<CatalogDownload>, String> {
    let mut options = fs::OpenOptions::new();
    let opened = options.read(true).custom_flags(NO_FOLLOW).open(file);
    let opened = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| error.to_string())?,
    };
    let mut text = Vec::new();
    let length = opened.take(MAX_FILE + 1).read_to_end(&mut text);
    if length.map_err(|error| error.to_string())? as u64 > MAX_FILE {
        return Err(format!("it is larger than {} MB", MAX_FILE >> 20));
    }
    let found: Result<CatalogDownload, _> = serde_json::from_slice(&text);
    found.map(Some).map_err(|error| error.to_string())
}

impl CatalogDownload {
    /// Reduces `text`, which came from `from` on the day `fetched`. It is models.dev's `api.json`, or a file that
    /// [`CatalogDownload::store`] has written, which says itself when it was fetched.
    ///
    /// # Errors
    /// It is neither; says why.
    pub fn parse(text: &[u8], from: &str, fetched: &str) -> Result<Self, String> {
        let stored: Option<Self> = serde_json::from_slice(text).ok();
        let (catalog, fetched) = match stored {
            Some(stored) => (stored.catalog, stored.fetched),
            None => (reduce::reduce(text)?, fetched.to_owned()),
        };
        Ok(Self {
            fetched,
            from: from.to_owned(),
            sha256: sha256(text),
            catalog,
        })
    }

    /// Returns the day of its newest entry.
    pub fn date(&self) -> &str {
        &self.catalog.date
    }

    /// Returns the hash of what was fetched.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Returns how many models it has.
    pub fn count_models(&self) -> usize {
        self.catalog.providers.values().map(|section| section.len()).sum()
    }

    /// Compares it with the catalogue in use. `built_in` is that without a download.
    pub(in crate::provider::models) fn compare(
        &self,
        in_use: &CatalogIndex,
        built_in: &CatalogIndex,
    ) -> CatalogDifference {
        let mut difference = CatalogDifference::default();
        for (provider, section) in &self.catalog.providers {
            let known = in_use.providers.get(provider);
            for (id, row) in section {
                let name = format!("{provider}/{id}");
                match known.and_then(|known| known.get(id)) {
                    None => difference.added.push(name),
                    Some(old) if old != row => difference.changed.push(name),
                    Some(_) => {}
                }
            }
        }
        for (provider, section) in &in_use.providers {
            let new = self.catalog.providers.get(provider);
            let kept = built_in.providers.get(provider);
            for id in section.keys() {
                let name = || format!("{provider}/{id}");
                match (new, kept.is_some_and(|kept| kept.contains_key(id))) {
                    (Some(new), _) if new.contains_key(id) => {}
                    (_, false) => difference.lost.push(name()),
                    (Some(_), true) => difference.removed.push(name()),
                    // The data says nothing about this provider.
                    (None, true) => {}
                }
            }
        }
        difference
    }

    /// Replaces the stored catalogue at once, or not at all.
    ///
    /// # Errors
    /// Fails if the folder or the file cannot be written.
    pub fn store(&self, file: &Path) -> io::Result<()> {
        let folder = file.parent().unwrap_or(Path::new("."));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut text = serde_json::to_string(self).map_err(io::Error::other)?;
        text.push('\n');
        let new = file.with_extension("json.new");
        let mut options = fs::OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let mut written = options.custom_flags(NO_FOLLOW).open(&new)?;
        let result = written
            .write_all(text.as_bytes())
            .and_then(|()| written.sync_all());
        let result = result.and_then(|()| fs::rename(&new, file));
        if result.is_err() {
            // Only clean-up; the first error is the one to report.
            let _ = fs::remove_file(&new);
        }
        result
    }
}
