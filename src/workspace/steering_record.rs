//! What a watch for files that make programs run knows, on the disk: if agentls is killed, the next one finds what the
//! background processes have created.
//!
//! One file for each watched folder, in the data folder. A lock says that its owner is alive. Must not know what is done
//! about changes: `steering_watch` does.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::steering_snapshot::SteeringSnapshot;
use crate::base::private::NO_FOLLOW;
use crate::base::random::random_token;

/// The end of the names of complete files.
const SUFFIX: &str = "json";

/// The content of a file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct WatchRecord {
    pub(super) folder: PathBuf,
    /// What was there before.
    pub(super) known: SteeringSnapshot,
    /// What was there after the last process, if it has ended.
    pub(super) ended: Option<SteeringSnapshot>,
    /// Further paths that make programs run here.
    pub(super) named: Vec<PathBuf>,
    /// Folders that were only created to reserve their names.
    pub(super) reserved: Vec<PathBuf>,
}

/// A file of this process, or one whose owner is gone. Dropping it leaves it to the next process.
#[derive(Debug)]
pub(super) struct RecordFile {
    path: PathBuf,
    /// Locked while the owner is alive.
    file: File,
    /// Whether it says what was there after the last process.
    pub(super) has_end: bool,
}

impl RecordFile {
    /// Creates a file in a folder, which is created if it is missing. Blocks.
    ///
    /// # Errors
    /// It cannot be written, or a path in it is not UTF-8.
    pub(super) fn begin(records: &Path, record: &WatchRecord) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(records)?;
        let name = random_token(20);
        let (draft, path) = (records.join(&name), records.join(format!("{name}.{SUFFIX}")));
        let options = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft);
        let mut created = Self {
            path,
            file: options?,
            has_end: false,
        };
        let stored = created
            .file
            .lock()
            .and_then(|()| created.write(record))
            // Only now others look at it: without the lock, it would seem abandoned.
            .and_then(|()| fs::rename(&draft, &created.path));
        if let Err(error) = stored {
            let _ = fs::remove_file(&draft);
            return Err(error);
        }
        Ok(created)
    }

    /// Replaces the content. Blocks.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub(super) fn write(&mut self, record: &WatchRecord) -> io::Result<()> {
        let text = serde_json::to_vec(record)?;
        self.file.rewind()?;
        self.file.set_len(0)?;
        self.file.write_all(&text)?;
        self.has_end = record.ended.is_some();
        Ok(())
    }

    /// Removes the file: there is nothing left to find. Blocks.
    pub(super) fn remove(self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "the record of a watch was not removed");
        }
    }

    /// Takes the files about a folder whose owners are gone. They stay locked, so that no other process takes them too.
    /// Blocks.
    pub(super) fn take_abandoned(records: &Path, folder: &Path) -> Vec<(Self, WatchRecord)> {
        let entries = fs::read_dir(records).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        let mut found = Vec::new();
        for path in paths.filter(|path| path.extension().is_some_and(|suffix| suffix == SUFFIX)) {
            let opened = File::options()
                .read(true)
                .write(true)
                .custom_flags(NO_FOLLOW)
                .open(&path);
            let Ok(mut file) = opened else { continue };
            let mut text = Vec::new();
            if file.try_lock().is_err() || file.read_to_end(&mut text).is_err() {
                continue;
            }
            match serde_json::from_slice::<WatchRecord>(&text) {
                Ok(record) if record.folder == folder => {
                    let has_end = record.ended.is_some();
                    found.push((Self { path, file, has_end }, record));
                }
                Ok(_) => {}
                Err(error) => {
                    // Its writer was killed meanwhile. It would never be readable.
                    tracing::warn!(path = %path.display(), %error, "the record of a watch cannot be read");
                    let _ = fs::remove_file(&path);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_no_owner_any_more_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let records = dir.path().join("data/watches");
        let (folder, other) = (Path::new("/ws"), Path::new("/other"));
        let record = |folder: &Path| WatchRecord {
            folder: folder.to_owned(),
            reserved: vec![folder.join(".vscode")],
            ..WatchRecord::default()
        };
        assert!(RecordFile::take_abandoned(&records, folder).is_empty());
        let alive = RecordFile::begin(&records, &record(folder)).unwrap();
        assert!(RecordFile::take_abandoned(&records, folder).is_empty());
        drop(RecordFile::begin(&records, &record(other)).unwrap());
        assert!(RecordFile::take_abandoned(&records, folder).is_empty());
        drop(alive);
        let taken = RecordFile::take_abandoned(&records, folder);
        assert_eq!(taken.len(), 1);
        assert_eq!(taken[0].1.reserved, [folder.join(".vscode")]);
        assert!(
            RecordFile::take_abandoned(&records, folder).is_empty(),
            "it has an owner"
        );
        taken.into_iter().for_each(|(file, _)| file.remove());
        assert_eq!(fs::read_dir(&records).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_was_cut_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x.json"), "{\"folder\":").unwrap();
        // Somebody is writing it.
        fs::write(dir.path().join("draft"), "").unwrap();
        assert!(RecordFile::take_abandoned(dir.path(), Path::new("/ws")).is_empty());
        assert!(!dir.path().join("x.json").exists() && dir.path().join("draft").exists());
    }
}
