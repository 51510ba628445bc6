//! Workspace folders: their names and real paths.
//!
//! A [`Roots`] never changes; the whole value is replaced at run time, so that one resolution sees one set. Must not
//! know sessions.

use std::path::{Path, PathBuf};

use super::real_path::real_path;

/// A workspace folder as the client names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// For people.
    pub name: String,
    /// Absolute; may contain links.
    pub path: PathBuf,
}

/// A workspace folder with a unique name and a resolved path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    name: String,
    path: PathBuf,
}

/// All workspace folders, in the client's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roots {
    list: Vec<Root>,
}

impl Root {
    /// Returns the name, unique among the roots and free of separators: the first part of `rootName/path`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the real path: absolute, with links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Roots {
    /// Resolves the folders' links (a few `lstat` calls each) and makes equal names unique (`name-2`, …).
    ///
    /// A folder that cannot be resolved keeps its path as given.
    pub fn new(folders: &[Folder]) -> Self {
        let mut list: Vec<Root> = Vec::with_capacity(folders.len());
        for folder in folders {
            let path = real_path(&folder.path).unwrap_or_else(|_| folder.path.clone());
            // The same folder under two names is one root.
            if list.iter().any(|root| root.path == path) {
                continue;
            }
            let wanted = usable_name(&folder.name, &path);
            let name = (1..)
                .map(|n| match n {
                    1 => wanted.clone(),
                    n => format!("{wanted}-{n}"),
                })
                .find(|name| list.iter().all(|root| root.name != *name))
                .unwrap_or(wanted);
            list.push(Root { name, path });
        }
        Self { list }
    }

    /// Returns the single root of a session without workspace folders.
    pub fn of_cwd(cwd: &Path) -> Self {
        Self::new(&[Folder {
            name: String::new(),
            path: cwd.to_owned(),
        }])
    }

    /// Returns whether there are no workspace folders.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Iterates over all roots, in the client's order.
    pub fn iter(&self) -> impl Iterator<Item = &Root> {
        self.list.iter()
    }

    /// Returns the innermost root that contains the resolved path `real`.
    pub fn find_containing(&self, real: &Path) -> Option<&Root> {
        self.list
            .iter()
            .filter(|root| real.starts_with(&root.path))
            .max_by_key(|root| root.path.components().count())
    }

    /// Returns the root of that name.
    pub fn find_by_name(&self, name: &str) -> Option<&Root> {
        self.list.iter().find(|root| root.name == name)
    }

    /// Returns the root that paths are displayed relative to, for a session with the resolved `cwd`: the one that
    /// contains it, else the first.
    pub fn find_display_root(&self, cwd: &Path) -> Option<&Root> {
        self.find_containing(cwd).or_else(|| self.list.first())
    }
}

fn usable_name(name: &str, path: &Path) -> String {
    let usable = !matches!(name, "" | "." | ".." | "~") && !name.contains(['/', '\\', '\0']);
    if usable {
        return name.to_owned();
    }
    path.file_name()
        .map_or_else(|| "root".to_owned(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str, path: &str) -> Folder {
        Folder {
            name: name.to_owned(),
            path: path.into(),
        }
    }

    #[test]
    fn equal_names_become_unique_and_equal_folders_are_merged() {
        let roots = Roots::new(&[
            folder("app", "/nowhere/a/app"),
            folder("app", "/nowhere/b/app"),
            folder("app-2", "/nowhere/c"),
            folder("again", "/nowhere/a/app"),
            folder("with/slash", "/nowhere/d"),
        ]);
        let names: Vec<&str> = roots.iter().map(Root::name).collect();
        assert_eq!(names, ["app", "app-2", "app-2-2", "d"]);
    }

    #[test]
    fn the_innermost_root_contains_a_path() {
        let roots = Roots::new(&[folder("out", "/nowhere/o"), folder("in", "/nowhere/o/i")]);
        let name = |path: &str| roots.find_containing(Path::new(path)).map(Root::name);
        assert_eq!(name("/nowhere/o/i/x"), Some("in"));
        assert_eq!(name("/nowhere/o/x"), Some("out"));
        assert_eq!(name("/nowhere/other"), None);
        assert_eq!(
            roots.find_display_root(Path::new("/tmp")).map(Root::name),
            Some("out")
        );
    }
}
