//! Contents of files from before a turn changed them (R-SESS-3).
//!
//! Each is a file under its name, in one folder per session, readable by the owner only. Deleting the session removes
//! them. Knows nothing of turns and of what the names mean.

use std::fs;
use std::io::{self, Write as _};

use super::error::StoreError;
use super::files::{self, DataDir};
use crate::base::random;
use crate::domain::SessionId;

/// Stores and reads contents of files. Its methods block.
#[derive(Clone, Debug)]
pub struct FileSnapshots {
    folder: DataDir,
}

impl FileSnapshots {
    pub(super) fn new(folder: DataDir) -> Self {
        Self { folder }
    }

    /// Stores `bytes` under `name`.
    ///
    /// # Errors
    /// [`StoreError::BadName`] for a name that cannot be a file name, or an I/O error.
    pub fn save_file(&self, session: &SessionId, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let folder = self.folder.content_dir(session)?.join("files");
        let path = folder.join(files::validate_name(name)?);
        // The name is a hash of the content (R-SESS-3), so a file of this length is complete; another one is torn.
        if path.metadata().is_ok_and(|meta| meta.len() == bytes.len() as u64) {
            return Ok(());
        }
        // Written aside and renamed: a crash in between leaves only a file that no caller asks for.
        let temporary = folder.join(format!("{name}.{}", random::random_token(8)));
        let open = || {
            files::private_file()
                .write(true)
                .create_new(true)
                .open(&temporary)
        };
        let opened = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                files::private_folder(&folder)
                    .map_err(|e| StoreError::from_io("making the folder", &folder, e))?;
                open()
            }
            opened => opened,
        };
        let written = opened
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| fs::rename(&temporary, &path));
        if let Err(error) = written {
            let _ = fs::remove_file(&temporary);
            return Err(StoreError::from_io("writing", path, error));
        }
        Ok(())
    }

    /// Whether a content is stored under `name`.
    pub fn has_file(&self, session: &SessionId, name: &str) -> bool {
        let path = || {
            Some(
                self.folder
                    .content_dir(session)
                    .ok()?
                    .join("files")
                    .join(files::validate_name(name).ok()?),
            )
        };
        path().is_some_and(|path| path.is_file())
    }

    /// Returns the content stored under `name`, or `None`. The caller checks that it is complete, by what the name
    /// means.
    ///
    /// # Errors
    /// [`StoreError::BadName`] for a name that cannot be a file name, or an I/O error.
    pub fn read(&self, session: &SessionId, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self
            .folder
            .content_dir(session)?
            .join("files")
            .join(files::validate_name(name)?);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::from_io("reading", path, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_stored_once_and_for_the_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let snapshots = FileSnapshots::new(DataDir::new(folder.path().to_owned()));
        let session = SessionId::from("ses_1");
        for bytes in [&b"torn"[..], b"a\0b", b"a\0b"] {
            snapshots.save_file(&session, "name", bytes).unwrap();
        }
        assert_eq!(
            snapshots.read(&session, "name").unwrap().as_deref(),
            Some(&b"a\0b"[..])
        );
        assert!(snapshots.save_file(&session, "../x", b"").is_err());
        assert_eq!(snapshots.read(&session, "0").unwrap(), None);
        assert!(snapshots.read(&session, "../x").is_err());
        let files = folder.path().join("content/ses_1/files");
        assert_eq!(fs::read_dir(&files).unwrap().count(), 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = files.join("name").metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
