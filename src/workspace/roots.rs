//! Workspace folders: their names and where they really are. Replaceable at run time as a whole; a value
//! here never changes, so that one resolution sees one set.

use std::path::{Path, PathBuf};

use super::resolve::real_path;

/// A workspace folder as the client names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Its name for people.
    pub name: String,
    /// Its absolute path, links and all.
    pub path: PathBuf,
}

/// A workspace folder.
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
    /// Its name, unique among the roots and free of separators: the first part of `rootName/path`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it really is: absolute, links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Roots {
    /// Resolves the folders' links (a few `lstat`s each) and tells equal names apart (`name-2`, …).
    /// A folder that cannot be resolved stands under its path as given.
    pub fn new(folders: &[Folder]) -> Self {
        let mut list: Vec<Root> = Vec::with_capacity(folders.len());
        for folder in folders {
            let path = real_path(&folder.path).unwrap_or_else(|_| folder.path.clone());
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

    /// The single root of a session without workspace folders.
    pub fn of_cwd(cwd: &Path) -> Self {
        Self::new(&[Folder {
            name: String::new(),
            path: cwd.to_owned(),
        }])
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All, in the client's order.
    pub fn iter(&self) -> impl Iterator<Item = &Root> {
        self.list.iter()
    }

    /// The innermost root that holds the resolved path `real`.
    pub fn find_containing(&self, real: &Path) -> Option<&Root> {
        self.list
            .iter()
            .filter(|root| real.starts_with(&root.path))
            .max_by_key(|root| root.path.components().count())
    }

    /// The root of that name.
    pub fn find_by_name(&self, name: &str) -> Option<&Root> {
        self.list.iter().find(|root| root.name == name)
    }

    /// The root that paths are told relative to, for a session whose resolved cwd is `cwd`: the one
    /// that holds it, else the first.
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
    fn equal_names_are_told_apart_and_equal_folders_are_one() {
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
    fn the_innermost_root_holds_a_path() {
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
