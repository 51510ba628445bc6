//! Caches of build tools, which confined commands may write so that builds need no question.
//!
//! Where the sandbox can, no cache is written itself: what a command changes is in a layer of its workspace
//! (`cache_layers`). The tables say what other projects would take from a cache without checking it.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::process::geteuid;

use super::plan::{PathRule, SandboxPlan};
use crate::base::nofollow::{self, OpenFolder};
use crate::domain::SandboxMethod;

/// The caches of a program, relative to the home folder. Without a program they are never created.
const CACHES: &[(&[&str], &[&str])] = &[
    // Sources, of which Cargo checks only the archive, and only when it downloads it.
    (&["cargo"], &[".cargo/registry", ".cargo/git"]),
    // What a registry said about packages, compiled modules, and headers of Node.js.
    (&["npm"], &[".npm", ".cache/node-gyp"]),
    // Wheels that were built here, and answers of an index.
    (&["pip", "pip3"], &[".cache/pip"]),
    // Unpacked packages and the environments of `uvx`, which are linked or copied as they are.
    (&["uv"], &[".cache/uv"]),
    // Compiled packages by a hash of their sources, not of their own content; sources, which `go` checks only when it
    // downloads them; and the tree of their hashes.
    (&["go"], &[".cache/go-build", "go/pkg/mod", "go/pkg/sumdb"]),
    // Files of packages, which pnpm checks only if their time has changed, and the programs of `pnpm dlx`.
    (&["pnpm"], &[".cache/pnpm", ".local/share/pnpm/store"]),
    // Yarn 1 checks no unpacked package. Not the rest of `.yarn`, which has programs.
    (
        &["yarn"],
        &[
            ".cache/yarn",
            ".yarn/berry/cache",
            ".yarn/berry/index",
            ".yarn/berry/metadata",
        ],
    ),
    // Compiled files by a hash of their sources; so has `sccache`.
    (&["ccache"], &[".cache/ccache"]),
    (&["sccache"], &[".cache/sccache"]),
    // Its existence would change which one ccache uses.
    (&[], &[".ccache"]),
    // Plugins, native libraries, and results of builds by a hash of their sources.
    (
        &["gradle"],
        &[".gradle/caches", ".gradle/daemon", ".gradle/native"],
    ),
    // Libraries and plugins, which are checked only when they are downloaded; so are the next two.
    (&["mvn"], &[".m2/repository"]),
    (&["dotnet"], &[".nuget/packages"]),
    (&["bun"], &[".bun/install/cache"]),
    // Whole environments.
    (&["poetry"], &[".cache/pypoetry"]),
    // Compiled modules by a hash of their sources.
    (&["deno"], &[".cache/deno"]),
    // Archives of packages, most of them without a hash in the lock file; so has `bundle`.
    (&["composer"], &[".cache/composer"]),
    (&["bundle"], &[".bundle/cache"]),
    // What rules of other repositories have unpacked and built.
    (&["bazel"], &[".cache/bazel"]),
];

/// Caches, or parts of them, with programs that other projects run by their names.
const PROGRAM_CACHES: &[(&[&str], &[&str])] = &[
    (&["npm"], &[".npm/_npx"]),
    // The package managers themselves.
    (&["corepack"], &[".cache/node"]),
    // Programs that each `git commit` runs.
    (&["pre-commit"], &[".cache/pre-commit"]),
    // Gradle itself.
    (&["gradle"], &[".gradle/wrapper"]),
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
    (&["gradle"], "GRADLE_USER_HOME", &["caches", "daemon", "native"]),
];

/// Those with programs that other projects run.
const PROGRAM_CACHE_VARIABLES: &[(&[&str], &str, &[&str])] = &[
    (&["npm"], "npm_config_cache", &["_npx"]),
    (&["gradle"], "GRADLE_USER_HOME", &["wrapper"]),
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
    pub(super) rule: PathRule,
    pub(super) path: PathBuf,
    programs: &'static [&'static str],
}

/// Lists the caches. `variable` returns the value of a variable of the commands' environment.
///
/// Only our own mounts keep apart what a command changes. With another method it writes the caches themselves, but not the
/// programs in them.
pub(super) fn list_caches(
    home: Option<&Path>,
    method: SandboxMethod,
    variable: impl Fn(&str) -> Option<PathBuf>,
) -> Vec<BuildCache> {
    let mut caches = Vec::new();
    let mut add = |rule, programs, folder: &Path, parts: &[&str]| {
        caches.extend(parts.iter().map(|part| BuildCache {
            rule,
            path: folder.join(part),
            programs,
        }));
    };
    let find_folder = |name| {
        // Of several folders, as in `GOPATH`, the first one has the cache.
        let first = std::env::split_paths(&variable(name)?).next()?;
        // A relative value means a folder of the workspace, and `/` would make everything writable.
        (first.is_absolute() && first.components().count() > 2).then_some(first)
    };
    let [rule, program_rule] = match method {
        SandboxMethod::Namespaces => [PathRule::Cache; 2],
        _ => [PathRule::Write, PathRule::ReadOnly],
    };
    for (rule, usual, named) in [
        (rule, CACHES, CACHE_VARIABLES),
        (program_rule, PROGRAM_CACHES, PROGRAM_CACHE_VARIABLES),
    ] {
        for (programs, parts) in usual {
            if let Some(home) = home {
                add(rule, programs, home, parts);
            }
            for (name, prefix) in FOLDER_VARIABLES {
                let moved: Vec<&str> = parts
                    .iter()
                    .filter_map(|part| part.strip_prefix(prefix))
                    .collect();
                if let Some(folder) = find_folder(name) {
                    add(rule, programs, &folder, &moved);
                }
            }
        }
        for (programs, name, parts) in named {
            if let Some(folder) = find_folder(name) {
                add(rule, programs, &folder, parts);
            }
        }
    }
    if method == SandboxMethod::Namespaces {
        let all: Vec<PathBuf> = caches.iter().map(|cache| cache.path.clone()).collect();
        let is_in = |path: &Path, other: &PathBuf| path != other && path.starts_with(other);
        // The layer around it is enough.
        caches.retain(|cache| !all.iter().any(|other| is_in(&cache.path, other)));
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
            && plan.find_rule(&cache.path).is_some_and(PathRule::is_writable)
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
    use crate::domain::SandboxNetwork;

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
        let caches = list_caches(Some(&home), SandboxMethod::Namespaces, |_| None);
        let mut rules: Vec<(PathRule, PathBuf)> = caches
            .iter()
            .map(|cache| (cache.rule, cache.path.clone()))
            .collect();
        rules.push((PathRule::Hide, home.join(".cache/uv")));
        let plan = SandboxPlan {
            method: SandboxMethod::Namespaces,
            network: SandboxNetwork::Offline,
            temp: "/tmp/private".into(),
            cache_layers: None,
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
