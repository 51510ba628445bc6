//! Follows symbolic links one by one, where the way to a file matters and not only its end.

use std::fs;
use std::path::{Path, PathBuf};

use crate::base::lexical_path::normalize_path;

/// The most links that are followed, which is what the kernel follows.
const MAX_LINKS: usize = 40;

/// A link on the way to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FollowedLink {
    /// Where it is. Nothing on the way there is a link.
    pub(super) path: PathBuf,
    /// The target as the link spells it.
    pub(super) target: PathBuf,
    /// Where the whole path leads behind the link. That may be another link.
    pub(super) next: PathBuf,
}

/// Lists the links on the way to what a path names, in the order in which the kernel follows them.
pub(super) fn follow_links(path: &Path) -> Vec<FollowedLink> {
    let mut links = Vec::new();
    let mut at = normalize_path(path);
    while links.len() < MAX_LINKS {
        let parts: Vec<&Path> = at.ancestors().collect();
        let outermost = parts
            .into_iter()
            .rev()
            .find_map(|part| Some((part.to_owned(), fs::read_link(part).ok()?)));
        let Some((path, target)) = outermost else { break };
        let rest = at.strip_prefix(&path).unwrap_or(Path::new(""));
        // Nothing on the way to the outermost link is a link, so `..` means the folder around it.
        let next = normalize_path(&path.parent().unwrap_or(&path).join(&target).join(rest));
        at.clone_from(&next);
        links.push(FollowedLink { path, target, next });
    }
    links
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn all_links_on_the_way_to_a_file_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/file"), "").unwrap();
        for (link, target) in [("one", "two/../two"), ("two", "a"), ("a/name", "./b/file")] {
            symlink(target, root.join(link)).unwrap();
        }
        let names = |path: &str| -> Vec<PathBuf> {
            let links = follow_links(&root.join(path)).into_iter();
            links
                .map(|link| link.path.strip_prefix(&root).unwrap().to_owned())
                .collect()
        };
        assert_eq!(names("one/name"), ["one", "two", "a/name"].map(PathBuf::from));
        assert_eq!(names("a/b/../name"), [PathBuf::from("a/name")]);
        assert!(names("a/b/file").is_empty() && names("none/file").is_empty());
    }
}
