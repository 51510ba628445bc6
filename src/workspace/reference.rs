//! Resolves a path that a user points at in a prompt.
//!
//! The user means the file that the path names, so a path outside the workspace is theirs to name. A link inside a
//! workspace folder or repository may have another author. It must not lead to another file than the one they see.
//! Must not read contents.

use std::path::{Component, Path, PathBuf};

use super::read_deny::ReadDeny;
use super::resolve::{PathError, real_path};
use super::roots::Roots;
use crate::base::nofollow;
use crate::base::secret_path::is_secret_like;

/// The reason why a file that a user points at is not sent.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    /// The path cannot be resolved.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A link leads out of the workspace.
    #[error(
        "`{path}` was not sent: the link `{link}` leads out of the workspace, to `{target}`; point at that file itself"
    )]
    Outside {
        /// As the user wrote it.
        path: PathBuf,
        /// The link on the way.
        link: PathBuf,
        /// Where the link leads.
        target: PathBuf,
    },
    /// A link leads to a file that usually holds secrets.
    #[error(
        "`{path}` was not sent: it is a link to `{target}`, which usually holds secrets; point at that file itself"
    )]
    Secret {
        /// As the user wrote it.
        path: PathBuf,
        /// Where the link leads.
        target: PathBuf,
    },
}

/// Resolves the absolute `path` that a user points at. Blocks briefly.
///
/// # Errors
/// The path cannot be resolved, or a link inside a workspace folder or repository leads to something else.
pub fn follow_reference(roots: &Roots, denied: &ReadDeny, path: &Path) -> Result<PathBuf, ReferenceError> {
    let mut real = PathBuf::new();
    let mut passes_clone = false;
    // Part by part, so that a link on the way is found even if the path leaves the folder again.
    for part in path.components() {
        let Component::Normal(name) = part else {
            match part {
                // `real` is resolved, so this is the parent that the kernel would use.
                Component::ParentDir => _ = real.pop(),
                part => real.push(part),
            }
            continue;
        };
        let clone = clone_around(roots, &real).map(Path::to_owned);
        let link = real.join(name);
        real = real_path(&link)?;
        let Some(clone) = clone else { continue };
        passes_clone = true;
        if real != link && !real.starts_with(clone) && roots.find_containing(&real).is_none() {
            let (path, target) = (path.to_owned(), real);
            return Err(ReferenceError::Outside { path, link, target });
        }
    }
    // A secret file that the user names as such is their own choice.
    let is_secret = |path: &Path| is_secret_like(path) || denied.covers(path);
    let is_other = real.file_name() != path.file_name() || !is_secret(path);
    if passes_clone && is_secret(&real) && is_other {
        let (path, target) = (path.to_owned(), real);
        return Err(ReferenceError::Secret { path, target });
    }
    Ok(real)
}

/// Returns the workspace folder that contains the resolved `folder`, else the repository.
fn clone_around<'a>(roots: &'a Roots, folder: &'a Path) -> Option<&'a Path> {
    let has_git = |folder: &&Path| nofollow::kind(&folder.join(".git")).is_some();
    let root = roots.find_containing(folder).map(super::Root::path);
    root.or_else(|| folder.ancestors().find(has_git))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::Folder;
    use super::*;

    #[test]
    fn links_inside_a_clone_lead_to_what_the_person_sees_or_fail() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for folder in ["work/docs", "work/.ssh", "home/real", "repo/.git", "other"] {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        for file in [
            "work/a",
            "work/.env",
            "work/.ssh/config",
            "home/id_rsa",
            "home/real/x",
            "other/x",
        ] {
            fs::write(base.join(file), file).unwrap();
        }
        for (target, link) in [
            ("a", "work/docs/../same"),
            ("../home/id_rsa", "work/README.md"),
            ("../home", "work/out"),
            (".env", "work/notes"),
            (".ssh", "work/conf"),
            ("../other/x", "work/lib"),
            ("../home/id_rsa", "repo/README.md"),
            ("real", "home/mine"),
            ("../work", "home/w"),
        ] {
            symlink(target, base.join(link)).unwrap();
        }
        let folder = |name: &str| Folder {
            name: name.to_owned(),
            path: base.join(name),
        };
        let roots = Roots::new(&[folder("work"), folder("other")]);
        let led = |path: &str| match follow_reference(&roots, &ReadDeny::default(), &base.join(path)) {
            Ok(real) => real.strip_prefix(&base).unwrap().to_str().unwrap().to_owned(),
            Err(ReferenceError::Outside { .. }) => "outside".to_owned(),
            Err(ReferenceError::Secret { .. }) => "secret".to_owned(),
            Err(ReferenceError::Path(error)) => error.to_string(),
        };
        for (path, leads_to) in [
            ("work/a", "work/a"),
            ("work/same", "work/a"),
            ("work/.env", "work/.env"),
            ("work/README.md", "outside"),
            ("work/out/real/x", "outside"),
            ("home/w/README.md", "outside"),
            ("work/out/../a", "outside"),
            ("work/notes", "secret"),
            ("work/conf/config", "secret"),
            ("work/lib", "other/x"),
            ("repo/README.md", "outside"),
            // Named by the user, not by a clone.
            ("home/id_rsa", "home/id_rsa"),
            ("home/mine/x", "home/real/x"),
            ("work/../home/id_rsa", "home/id_rsa"),
            ("work/nothing", "work/nothing"),
        ] {
            assert_eq!(led(path), leads_to, "{path}");
        }
    }
}
