//! The folder that sandboxed commands see as `/tmp`: private to this process, removed with it.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::base::random::random_token;

/// A temporary folder that only its owner can enter. Dropping it removes it with everything inside.
#[derive(Debug)]
pub struct PrivateTemp {
    path: PathBuf,
}

impl PrivateTemp {
    /// Creates a folder of a new name in `parent`.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn create_in(parent: &Path) -> io::Result<Self> {
        let path = parent.join(format!("agentls-sandbox-{}", random_token(20)));
        // Fails if the path exists, so nobody else can have prepared it.
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateTemp {
    fn drop(&mut self) {
        // Whatever cannot be removed is left to the system, which tidies its temporary folder.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_the_owner_can_enter_it_and_it_goes_with_its_content() {
        let parent = tempfile::tempdir().unwrap();
        let temp = PrivateTemp::create_in(parent.path()).unwrap();
        let mode = temp.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        std::fs::create_dir(temp.path().join("a")).unwrap();
        let path = temp.path().to_owned();
        drop(temp);
        assert!(!path.exists());
    }
}
