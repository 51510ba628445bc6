//! Resolves a path as someone wrote it, and decides whether the result is inside the workspace folders (I12).
//!
//! Every link on the way is followed before anything is decided. A path that does not exist yet is judged by its
//! nearest existing ancestor. Reads link targets; must not read contents or decide whether access is allowed.

use std::path::{Component, Path, PathBuf};

use super::roots::Roots;
use crate::base::secret_path::is_secret_like;
use crate::base::uri;

pub use super::real_path::{MAX_PATH, PathError, real_path};

/// A path with its links resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedPath {
    /// The real path. The file need not exist.
    pub absolute: PathBuf,
    /// For people and rules: relative to the session's root, `rootName/path` in another root, absolute outside.
    pub display: String,
    /// Whether it is in a workspace folder.
    pub inside: bool,
    /// Whether the file, or the name it was requested by, usually holds secrets.
    pub secret: bool,
}

/// Resolves `given`, which may be absolute, relative to `cwd`, `rootName/…`, `~/…`, or a file URI.
///
/// If the first part of a relative path does not exist in `cwd` but is the name of a root, it means that root.
///
/// # Errors
/// The path is empty, malformed, or too long; a part of it is not a folder; or the disk denies access.
pub fn resolve_path(
    roots: &Roots,
    home: Option<&Path>,
    cwd: &Path,
    given: &str,
) -> Result<ResolvedPath, PathError> {
    let cwd = real_path(cwd)?;
    let requested = locate_given_path(roots, home, &cwd, given)?;
    let absolute = real_path(&requested)?;
    Ok(ResolvedPath {
        display: display_path(roots, &cwd, &absolute),
        inside: roots.find_containing(&absolute).is_some(),
        // Either name may reveal a secret: `notes` may link to `.env`, and `key.pem` to an ordinary file.
        secret: is_secret_like(&requested) || is_secret_like(&absolute),
        absolute,
    })
}

/// Formats a resolved path for people and rules. See [`ResolvedPath::display`].
pub fn display_path(roots: &Roots, cwd: &Path, real: &Path) -> String {
    let home = roots.find_display_root(cwd).map(|root| root.path());
    if let Some(relative) = home.and_then(|home| to_relative_path(home, real)) {
        return relative;
    }
    in_other_root(roots, home.unwrap_or(cwd), real)
}

/// Formats a resolved path for the model: the shortest form that [`resolve_path`] resolves to it with the same `cwd`.
///
/// `cwd` must be resolved.
pub fn for_model(roots: &Roots, cwd: &Path, real: &Path) -> String {
    if let Some(relative) = to_relative_path(cwd, real) {
        return relative;
    }
    if roots
        .find_containing(cwd)
        .is_some_and(|home| real.starts_with(home.path()))
    {
        return real.to_string_lossy().into_owned();
    }
    in_other_root(roots, cwd, real)
}

fn locate_given_path(
    roots: &Roots,
    home: Option<&Path>,
    cwd: &Path,
    given: &str,
) -> Result<PathBuf, PathError> {
    if given.trim().is_empty() {
        return Err(PathError::Empty);
    }
    if given.contains('\0') {
        return Err(PathError::Nul);
    }
    if given.len() > MAX_PATH {
        return Err(PathError::TooLong(given.len()));
    }
    if given.starts_with("file:/") {
        return Ok(uri::path_of(given)?);
    }
    if let Some(rest) = given.strip_prefix('~') {
        // A file may be named `~x`, so only `~` and `~/…` mean the home folder.
        if rest.is_empty() || rest.starts_with('/') {
            let home = home.ok_or_else(|| PathError::NoHome(given.to_owned()))?;
            return Ok(home.join(rest.trim_start_matches('/')));
        }
    }
    let path = Path::new(given);
    if path.is_relative()
        && let Some(Component::Normal(first)) = path.components().next()
        && let Some(root) = first.to_str().and_then(|name| roots.find_by_name(name))
        // A file or folder in `cwd` wins over a root of the same name.
        && !path_exists(&cwd.join(first))
    {
        return Ok(root.path().join(path.components().skip(1).collect::<PathBuf>()));
    }
    Ok(cwd.join(path))
}

fn path_exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn to_relative_path(base: &Path, real: &Path) -> Option<String> {
    let relative = real.strip_prefix(base).ok()?;
    Some(if relative.as_os_str().is_empty() {
        ".".to_owned()
    } else {
        relative.to_string_lossy().into_owned()
    })
}

/// Formats as `rootName/path`, unless `cwd` contains an entry with the root's name: the path would resolve to it.
fn in_other_root(roots: &Roots, cwd: &Path, real: &Path) -> String {
    roots
        .find_containing(real)
        .filter(|root| !path_exists(&cwd.join(root.name())))
        .and_then(|root| {
            Some(match to_relative_path(root.path(), real)?.as_str() {
                "." => root.name().to_owned(),
                relative => format!("{}/{relative}", root.name()),
            })
        })
        .unwrap_or_else(|| real.to_string_lossy().into_owned())
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::super::roots::Folder;
    use super::*;

    struct ResolvedPlace {
        _dir: TempDir,
        base: PathBuf,
        roots: Roots,
    }

    /// Creates `base/one` (the session's root), `base/two`, and `base/out` outside both.
    fn create_test_folders() -> ResolvedPlace {
        let dir = TempDir::new().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for sub in ["one/src", "one/deep/er", "two/lib", "out/secret"] {
            fs::create_dir_all(base.join(sub)).unwrap();
        }
        fs::write(base.join("one/src/a.rs"), "a").unwrap();
        fs::write(base.join("out/file"), "o").unwrap();
        symlink(base.join("out"), base.join("one/leak")).unwrap();
        symlink("../../two", base.join("one/src/two")).unwrap();
        symlink("src/a.rs", base.join("one/link.rs")).unwrap();
        symlink("../out/new", base.join("one/dangling")).unwrap();
        symlink("loop", base.join("one/loop")).unwrap();
        let folder = |name: &str| Folder {
            name: name.to_owned(),
            path: base.join(name),
        };
        let roots = Roots::new(&[folder("one"), folder("two")]);
        ResolvedPlace {
            _dir: dir,
            base,
            roots,
        }
    }

    impl ResolvedPlace {
        fn resolve_given(&self, given: &str) -> Result<ResolvedPath, PathError> {
            resolve_path(
                &self.roots,
                Some(&self.base.join("out")),
                &self.base.join("one"),
                given,
            )
        }
    }

    #[test]
    fn paths_resolve_as_in_the_kernel() {
        let fixture = create_test_folders();
        for (given, real, display, inside) in [
            ("src/a.rs", "one/src/a.rs", "src/a.rs", true),
            (".", "one", ".", true),
            ("./src/../src/a.rs", "one/src/a.rs", "src/a.rs", true),
            ("link.rs", "one/src/a.rs", "src/a.rs", true),
            ("new/dir/file", "one/new/dir/file", "new/dir/file", true),
            ("two/lib", "two/lib", "two/lib", true),
            ("two", "two", "two", true),
            ("one/src/a.rs", "one/src/a.rs", "src/a.rs", true),
            ("src/two/lib/x", "two/lib/x", "two/lib/x", true),
            // `..` after a link leaves the link's target, not its name.
            ("src/two/../out/file", "out/file", "", false),
            ("leak/file", "out/file", "", false),
            ("leak/new", "out/new", "", false),
            ("dangling", "out/new", "", false),
            ("missing/../leak/file", "out/file", "", false),
            ("../out/file", "out/file", "", false),
            ("~/file", "out/file", "", false),
        ] {
            let resolved = fixture.resolve_given(given).unwrap();
            assert_eq!(resolved.absolute, fixture.base.join(real), "{given}");
            assert_eq!(resolved.inside, inside, "{given}");
            let expected = match display {
                "" => fixture.base.join(real).to_str().unwrap().to_owned(),
                expected => expected.to_owned(),
            };
            assert_eq!(resolved.display, expected, "{given}");
        }
        let absolute = fixture.base.join("one/src/a.rs");
        for given in [absolute.to_str().unwrap(), &uri::uri_of(&absolute)] {
            assert_eq!(fixture.resolve_given(given).unwrap().display, "src/a.rs");
        }
    }

    #[test]
    fn malformed_paths_are_rejected() {
        let fixture = create_test_folders();
        let error = |given: &str| fixture.resolve_given(given).unwrap_err().to_string();
        assert_eq!(error(""), "the path is empty");
        assert_eq!(error("a\0b"), "the path contains a NUL character");
        assert_eq!(error(&"x/".repeat(3000)), "the path is too long (6000 bytes)");
        assert!(
            error(&"x".repeat(300)).contains("too long"),
            "{}",
            error(&"x".repeat(300))
        );
        assert!(error("loop").contains("too many symbolic links"));
        assert!(error("src/a.rs/x").ends_with("is a file, not a folder"));
        assert!(error("file://elsewhere/x").contains("another host"));
        let nowhere = resolve_path(&fixture.roots, None, &fixture.base.join("one"), "~/x").unwrap_err();
        assert!(nowhere.to_string().contains("home folder"), "{nowhere}");
    }

    #[test]
    fn secrets_are_recognized_by_either_name() {
        let fixture = create_test_folders();
        fs::write(fixture.base.join("one/.env"), "").unwrap();
        symlink(".env", fixture.base.join("one/notes")).unwrap();
        symlink("src/a.rs", fixture.base.join("one/key.pem")).unwrap();
        for (given, secret) in [
            (".env", true),
            ("notes", true),
            ("key.pem", true),
            ("link.rs", false),
        ] {
            assert_eq!(fixture.resolve_given(given).unwrap().secret, secret, "{given}");
        }
    }

    #[test]
    fn an_existing_name_wins_over_a_root_of_that_name() {
        let fixture = create_test_folders();
        fs::create_dir(fixture.base.join("one/two")).unwrap();
        let other = fixture.base.join("two/lib");
        let resolved = fixture.resolve_given(other.to_str().unwrap()).unwrap();
        assert_eq!(resolved.display, other.to_str().unwrap());
        assert_eq!(
            fixture.resolve_given("two").unwrap().absolute,
            fixture.base.join("one/two")
        );
    }

    #[test]
    fn paths_formatted_for_the_model_resolve_back() {
        let fixture = create_test_folders();
        for cwd in ["one", "one/src", "two", "out"] {
            let cwd = fixture.base.join(cwd);
            for real in ["one", "one/src/a.rs", "one/deep", "two/lib", "out/file"] {
                let real = fixture.base.join(real);
                let formatted = for_model(&fixture.roots, &cwd, &real);
                let back = resolve_path(&fixture.roots, None, &cwd, &formatted).unwrap();
                assert_eq!(back.absolute, real, "{formatted} from {}", cwd.display());
            }
        }
    }

    fn generate_paths() -> impl Strategy<Value = String> {
        let name = prop::sample::select(vec![
            "..", ".", "src", "two", "one", "out", "leak", "lib", "a.rs", "link.rs", "dangling", "deep",
            "er", "new", "file", "s1", "s2",
        ]);
        prop::collection::vec(name, 1..8).prop_map(|names| names.join("/"))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

        /// I12: what counts as inside is inside for the kernel too, whatever links there are.
        #[test]
        fn inside_is_inside_for_the_kernel_too(targets in prop::array::uniform2(generate_paths()), given in prop::collection::vec(generate_paths(), 24)) {
            let place = create_test_folders();
            for (link, target) in ["one/s1", "one/src/s2"].into_iter().zip(&targets) {
                symlink(target, place.base.join(link)).unwrap();
            }
            for given in given {
                let Ok(resolved) = place.resolve_given(&given) else { continue };
                prop_assert!(!resolved.absolute.components().any(|c| c == Component::ParentDir));
                let inside = |real: &Path| place.roots.iter().any(|root| real.starts_with(root.path()));
                let nearest = resolved.absolute.ancestors().find_map(|a| a.canonicalize().ok().map(|c| (a, c)));
                let (ancestor, canonical) = nearest.unwrap();
                prop_assert_eq!(ancestor, &canonical, "a link is left in {:?}", resolved.absolute);
                if resolved.inside {
                    prop_assert!(inside(&resolved.absolute));
                    prop_assert!(inside(&canonical));
                }
                if let Ok(kernel) = place.base.join("one").join(&given).canonicalize() {
                    prop_assert_eq!(&kernel, &resolved.absolute, "{}", given);
                }
            }
        }
    }
}
