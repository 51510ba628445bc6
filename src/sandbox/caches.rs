//! Caches of build tools, which confined commands may write so that builds need no question (R-BOX).

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::process::geteuid;

use super::plan::{PathRule, SandboxPlan};
use crate::base::nofollow::{self, OpenFolder};

/// The caches of a program, relative to the home folder. Without a program they are never created.
const CACHES: &[(&[&str], &[&str])] = &[
    (&["cargo"], &[".cargo/registry", ".cargo/git"]),
    (&["npm"], &[".npm", ".cache/node-gyp"]),
    (&["pip", "pip3"], &[".cache/pip"]),
    (&["uv"], &[".cache/uv"]),
    (&["go"], &[".cache/go-build", "go/pkg/mod", "go/pkg/sumdb"]),
    (&["pnpm"], &[".cache/pnpm", ".local/share/pnpm/store"]),
    // Not the rest of `.yarn`, which has programs.
    (
        &["yarn"],
        &[
            ".cache/yarn",
            ".yarn/berry/cache",
            ".yarn/berry/index",
            ".yarn/berry/metadata",
        ],
    ),
    (&["corepack"], &[".cache/node"]),
    (&["pre-commit"], &[".cache/pre-commit"]),
    (&["ccache"], &[".cache/ccache"]),
    (&["sccache"], &[".cache/sccache"]),
    // Its existence would change which one ccache uses.
    (&[], &[".ccache"]),
    (
        &["gradle"],
        &[
            ".gradle/caches",
            ".gradle/wrapper",
            ".gradle/daemon",
            ".gradle/native",
        ],
    ),
    (&["mvn"], &[".m2/repository"]),
    (&["dotnet"], &[".nuget/packages"]),
    (&["bun"], &[".bun/install/cache"]),
    (&["poetry"], &[".cache/pypoetry"]),
    (&["deno"], &[".cache/deno"]),
    (&["composer"], &[".cache/composer"]),
    (&["bundle"], &[".bundle/cache"]),
    (&["bazel"], &[".cache/bazel"]),
];

/// Caches whose place a variable names: the program, the variable, and the part of its folder that is a cache.
const CACHE_VARIABLES: &[(&[&str], &str, &[&str])] = &[
    (&["cargo"], "CARGO_HOME", &["registry", "git"]),
    (&["npm"], "npm_config_cache", &[""]),
    (&["pip", "pip3"], "PIP_CACHE_DIR", &[""]),
    (&["uv"], "UV_CACHE_DIR", &[""]),
    (&["go"], "GOCACHE", &[""]),
    (&["go"], "GOMODCACHE", &[""]),
    (&["go"], "GOPATH", &["pkg/mod", "pkg/sumdb"]),
    (&["yarn"], "YARN_CACHE_FOLDER", &[""]),
    (&["yarn"], "YARN_GLOBAL_FOLDER", &["cache", "index", "metadata"]),
    (
        &["gradle"],
        "GRADLE_USER_HOME",
        &["caches", "wrapper", "daemon", "native"],
    ),
];

/// Variables that move a folder of the home folder, with its usual place.
pub(super) const FOLDER_VARIABLES: [(&str, &str); 4] = [
    ("XDG_CACHE_HOME", ".cache/"),
    ("XDG_CONFIG_HOME", ".config/"),
    ("XDG_DATA_HOME", ".local/share/"),
    ("XDG_STATE_HOME", ".local/state/"),
];

/// A cache, and the programs that use it.
pub(super) struct BuildCache {
    pub(super) path: PathBuf,
    programs: &'static [&'static str],
}

/// Lists the caches. `variable` returns the value of a variable of the commands' environment.
pub(super) fn list_caches(
    home: Option<&Path>,
    variable: impl Fn(&str) -> Option<PathBuf>,
) -> Vec<BuildCache> {
    let mut caches = Vec::new();
    let mut add = |programs, folder: &Path, parts: &[&str]| {
        caches.extend(parts.iter().map(|part| BuildCache {
            path: folder.join(part),
            programs,
        }));
    };
    if let Some(home) = home {
        for (programs, parts) in CACHES {
            add(programs, home, parts);
        }
    }
    let find_folder = |name| {
        // Of several folders, as in `GOPATH`, the first one has the cache.
        let first = std::env::split_paths(&variable(name)?).next()?;
        // A relative value means a folder of the workspace, and `/` would make everything writable.
        (first.is_absolute() && first.components().count() > 2).then_some(first)
    };
    for (programs, name, parts) in CACHE_VARIABLES {
        if let Some(folder) = find_folder(name) {
            add(programs, &folder, parts);
        }
    }
    for (name, usual) in FOLDER_VARIABLES {
        let Some(folder) = find_folder(name) else { continue };
        for (programs, parts) in CACHES {
            let moved = parts.iter().filter_map(|part| part.strip_prefix(usual));
            add(programs, &folder, &moved.collect::<Vec<_>>());
        }
    }
    caches
}

/// Creates the missing caches that the plan lets commands write, for programs that are on the PATH: a command could not
/// create them, since the folder around them is read-only. Blocks on the disk.
///
/// Creates nothing through a link, and nothing in a folder of another user, whose own programs could not write it then.
pub(super) fn create_missing_caches(plan: &SandboxPlan, caches: &[BuildCache], path: Option<&Path>) {
    let path = path.map(|path| path.as_os_str().to_owned()).unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .collect();
    let is_program = |path: PathBuf| access(path, Access::EXEC_OK).is_ok();
    let is_installed = |program: &&str| folders.iter().any(|folder| is_program(folder.join(program)));
    for cache in caches {
        if nofollow::kind(&cache.path).is_none()
            && plan.find_rule(&cache.path) == Some(PathRule::Write)
            && cache.programs.iter().any(is_installed)
            && is_in_own_folder(&cache.path)
        {
            // Without it, the program's error names the cache.
            let _ = OpenFolder::create_all(&cache.path);
        }
    }
}

/// Returns whether the innermost folder around a path that exists belongs to this user.
fn is_in_own_folder(path: &Path) -> bool {
    let mut around = path
        .ancestors()
        .skip(1)
        .filter_map(|folder| nofollow::status_of(folder).ok());
    around
        .next()
        .is_some_and(|found| found.st_uid == geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::domain::{SandboxMethod, SandboxNetwork};

    #[test]
    fn only_writable_caches_of_installed_programs_are_created_and_never_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (home, bin, elsewhere) = (root.join("home"), root.join("bin"), root.join("elsewhere"));
        for folder in [&home, &bin, &elsewhere] {
            fs::create_dir(folder).unwrap();
        }
        for program in ["npm", "go", "pip3", "uv"] {
            fs::write(bin.join(program), "").unwrap();
            fs::set_permissions(bin.join(program), fs::Permissions::from_mode(0o755)).unwrap();
        }
        symlink(&elsewhere, home.join("go")).unwrap();
        let caches = list_caches(Some(&home), |_| None);
        let mut rules: Vec<(PathRule, PathBuf)> = caches
            .iter()
            .map(|cache| (PathRule::Write, cache.path.clone()))
            .collect();
        rules.push((PathRule::Hide, home.join(".cache/uv")));
        let plan = SandboxPlan {
            method: SandboxMethod::Namespaces,
            network: SandboxNetwork::Offline,
            temp: "/tmp/private".into(),
            rules,
        };
        create_missing_caches(&plan, &caches, Some(&bin));
        for (path, exists) in [
            (".npm", true),
            (".cache/pip", true),
            (".cache/go-build", true),
            (".cache/uv", false),
            (".cargo", false),
            (".ccache", false),
        ] {
            assert_eq!(home.join(path).exists(), exists, "{path}");
        }
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "through the link");
    }
}
