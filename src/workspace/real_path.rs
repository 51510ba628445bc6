//! Resolves every link on a path, as the kernel does, and says why that fails. Must not know workspace folders.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::base::uri;

/// Longest path accepted, in bytes.
pub const MAX_PATH: usize = 4096;
/// Most links followed in one path, as on Linux.
const MAX_LINKS: usize = 40;

/// The reason why a path cannot be resolved.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    #[error("the path is empty")]
    Empty,
    #[error("the path contains a NUL character")]
    Nul,
    /// Longer than [`MAX_PATH`] or than the file system accepts.
    #[error("the path is too long ({0} bytes)")]
    TooLong(usize),
    /// `~` is used but the home folder is unknown.
    #[error("`{0}`: only ~ and ~/… are supported, and only if the home folder is known")]
    NoHome(String),
    /// A URI that does not name a local file.
    #[error(transparent)]
    Uri(#[from] uri::UriError),
    /// A file where a folder is needed.
    #[error("`{0}` is a file, not a folder")]
    NotAFolder(PathBuf),
    /// More links than allowed, for example in a cycle.
    #[error("`{0}`: too many symbolic links")]
    TooManyLinks(PathBuf),
    #[error("cannot access `{path}`: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// Resolves every link of an absolute path, and each `..` after the link before it, as the kernel does.
///
/// Parts that do not exist are kept as written.
///
/// # Errors
/// A part is a file where a folder is needed, there are too many links, or the disk denies access.
pub fn real_path(path: &Path) -> Result<PathBuf, PathError> {
    let mut pending = VecDeque::new();
    prepend_components(&mut pending, path);
    let mut real = PathBuf::new();
    let mut links = 0;
    while let Some(part) = pending.pop_front() {
        match part {
            PathPart::Root(root) => real.push(root),
            PathPart::Up => {
                real.pop();
            }
            PathPart::Name(name) => {
                real.push(name);
                match real.symlink_metadata() {
                    Ok(meta) if meta.is_symlink() => {
                        links += 1;
                        if links > MAX_LINKS {
                            return Err(PathError::TooManyLinks(path.to_owned()));
                        }
                        let target = real.read_link().map_err(|source| to_path_error(&real, source))?;
                        // The target is relative to the folder of the link, and may contain links itself.
                        real.pop();
                        prepend_components(&mut pending, &target);
                    }
                    Ok(meta) if !meta.is_dir() && !pending.is_empty() => {
                        return Err(PathError::NotAFolder(real));
                    }
                    Ok(_) => {}
                    // What does not exist cannot be a link.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(source) => return Err(to_path_error(&real, source)),
                }
            }
        }
    }
    Ok(real)
}

enum PathPart {
    Root(OsString),
    Up,
    Name(OsString),
}

fn prepend_components(pending: &mut VecDeque<PathPart>, path: &Path) {
    for component in path.components().rev() {
        pending.push_front(match component {
            Component::Prefix(_) | Component::RootDir => PathPart::Root(component.as_os_str().to_owned()),
            Component::CurDir => continue,
            Component::ParentDir => PathPart::Up,
            Component::Normal(name) => PathPart::Name(name.to_owned()),
        });
    }
}

fn to_path_error(path: &Path, source: io::Error) -> PathError {
    match source.kind() {
        io::ErrorKind::NotADirectory => PathError::NotAFolder(path.to_owned()),
        io::ErrorKind::InvalidFilename => PathError::TooLong(path.as_os_str().len()),
        _ => PathError::Io {
            path: path.to_owned(),
            source,
        },
    }
}
