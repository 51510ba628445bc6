//! Finds what commands need of a home folder of which they see nothing else (`[sandbox] read = "allowlist"`).
//!
//! That is what tool chains keep there, the settings of git, and what the environment and the user's settings name. What
//! a command or a workspace names decides nothing. Caches and workspaces are the business of `scope`, and secrets stay
//! hidden. Looks at names and links on the disk.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::caches::FOLDER_VARIABLES;
use super::links::follow_links;
use super::visible_paths::CommandNeeds;
use crate::base::lexical_path::normalize_path;
use crate::base::word_list::NameList;

/// What tool chains keep in the home folder: programs, libraries, and settings without which builds fail.
const TOOL_CHAINS: &[NameList] = &[
    // Rust, Go, Zig, Haskell, OCaml, Lean, Julia, Dart, Elixir.
    NameList(
        ".cabal, .cargo, .elan, .ghcup, .julia/artifacts, .julia/compiled, .julia/environments, \
        .julia/juliaup, .julia/packages, .juliaup, .mix, .opam, .pub-cache, .rustup, .stack, .config/go, \
        flutter, go",
    ),
    // Node.js and its relatives.
    NameList(
        ".bun, .deno, .fnm, .local/share/fnm, .local/share/pnpm, .node_modules, .npm, .npm-global, \
        .npm-packages, .npmrc, .nvm, .pnpm-store, .volta, .yarn, .yarnrc, .yarnrc.yml, .config/yarn",
    ),
    // Python, with conda.
    NameList(
        ".condarc, .config/pip, .config/uv, .local/bin, .local/lib, .local/pipx, .local/share/pipx, \
        .local/share/pypoetry, .local/share/uv, .local/share/virtualenv, .pyenv, .virtualenvs, anaconda3, \
        mambaforge, miniconda3, miniforge3",
    ),
    // Java and its relatives, .NET.
    NameList(".dotnet, .gradle, .ivy2, .jabba, .jdks, .jenv, .konan, .m2, .nuget, .sbt, .sdkman"),
    // Ruby, PHP, Perl, Lua, R.
    NameList(
        ".bundle, .composer, .config/composer, .gem, .local/share/gem, .luarocks, .rbenv, .rvm, R, perl5",
    ),
    // C and C++, mobile, embedded.
    NameList(".ccache, .conan, .conan2, .config/ccache, .vcpkg, Android/Sdk, Library/Android/sdk"),
    // Managers of versions and packages of all of them.
    NameList(
        ".asdf, .linuxbrew, .local/share/mise, .config/mise, .nix-defexpr, .nix-profile, .local/state/nix, \
        .tool-versions",
    ),
    // Browsers for tests.
    NameList(".cache/ms-playwright, .cache/puppeteer, .cache/Cypress"),
    // Skills with scripts that the agent runs.
    NameList(".agents/skills, .claude/skills, .config/agentls"),
    // Git, with what its settings name.
    NameList(".config/git, .git-template, .git-templates, .githooks"),
];

/// Starts of further names of files with settings of git.
const GIT_NAMES: &[&str] = &[".gitattributes", ".gitconfig", ".gitignore"];

/// Folders whose programs need what is in the folder around them.
const PROGRAM_FOLDERS: &[&str] = &["bin", "libexec", "sbin", "shims"];

/// Most links in the folders of `PATH` that are followed.
const MAX_LINKS: usize = 1_000;

fn list_tool_chains() -> impl Iterator<Item = &'static str> {
    TOOL_CHAINS.iter().flat_map(|names| names.iter())
}

impl CommandNeeds {
    /// Lists the paths in a home folder that the command sees. Some may be below others.
    pub fn list_home_paths(&self, home: &Path) -> Vec<PathBuf> {
        let mut paths: BTreeSet<PathBuf> = list_tool_chains().map(|name| home.join(name)).collect();
        for (variable, usual) in FOLDER_VARIABLES {
            let moved = self.base_folders.iter().filter(|(name, _)| *name == variable);
            for (_, folder) in moved {
                let names = list_tool_chains().filter_map(|name| name.strip_prefix(usual));
                paths.extend(names.map(|name| folder.join(name)));
            }
        }
        paths.extend(list_git_settings(home));
        paths.extend(self.folders.iter().cloned());
        for folder in std::env::split_paths(&self.path).filter(|folder| !self.is_in_workspace(folder)) {
            paths.extend(list_linked_programs(&folder, home));
            paths.insert(widen_program_folder(&folder, home));
        }
        paths.extend(
            self.list_programs()
                .iter()
                .map(|program| widen_program(program, home)),
        );
        paths.extend(self.list_named_in(home));
        paths.insert(self.cwd.clone());
        let paths = paths.into_iter().map(|path| normalize_path(&path));
        paths
            .filter(|path| path.starts_with(home) && path != home && self.is_trusted(path))
            .collect()
    }

    /// Returns whether a path exists, and no workspace decides where it leads: a command could have made a link there.
    fn is_trusted(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok()
            && !follow_links(path)
                .iter()
                .any(|link| self.is_in_workspace(&link.path))
    }
}

/// Lists the files of git's settings at the top of the home folder.
fn list_git_settings(home: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name());
    let is_of_git = |name: &OsStr| {
        GIT_NAMES
            .iter()
            .any(|start| name.to_string_lossy().starts_with(start))
    };
    names
        .filter(|name| is_of_git(name))
        .map(|name| home.join(name))
        .collect()
}

/// Lists where the links in a folder of programs lead, as far as that is in the home folder.
fn list_linked_programs(folder: &Path, home: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    let targets = links
        .take(MAX_LINKS)
        .flat_map(|link| follow_links(&link.path()))
        .map(|link| link.next);
    targets
        .filter(|target| target.starts_with(home))
        .map(|target| widen_program(&target, home))
        .collect()
}

/// Returns the folder that a program needs, or only the program if its folder may have everything in it.
fn widen_program(program: &Path, home: &Path) -> PathBuf {
    let folder = program.parent().unwrap_or(program);
    let widened = widen_program_folder(folder, home);
    if widened == folder {
        program.to_owned()
    } else {
        widened
    }
}

/// Returns the folder around one with programs, unless that has everything in it.
fn widen_program_folder(folder: &Path, home: &Path) -> PathBuf {
    let name = folder.file_name().unwrap_or_default();
    let around = folder.parent().unwrap_or(folder);
    let is_wide = home.starts_with(around) || around == home.join(".local");
    if PROGRAM_FOLDERS.iter().any(|known| name == *known) && !is_wide {
        around.to_owned()
    } else {
        folder.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn tool_chains_and_what_settings_name_are_shown_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(folder.path()).unwrap();
        for file in [
            ".gitconfig-work",
            ".local/bin/own",
            ".local/share/other/venvs/tool/bin/tool",
            "apps/node/bin/node",
            "apps/node/lib/a",
            "bin/script",
            "hooks/check.sh",
            "diary/today",
            "work/.bin/x",
            ".rustup/toolchains/x",
            "data/uv/tools",
            "named/x",
        ] {
            fs::create_dir_all(home.join(file).parent().unwrap()).unwrap();
            fs::write(home.join(file), "").unwrap();
        }
        symlink("../share/other/venvs/tool/bin/tool", home.join(".local/bin/tool")).unwrap();
        // A command may have made these.
        symlink("../../diary", home.join("work/.bin/link")).unwrap();
        symlink("work/.bin/link", home.join("named-too")).unwrap();
        let path = [".local/bin", "apps/node/bin", "bin", "work/.bin"].map(|name| home.join(name));
        let needs = CommandNeeds {
            program: "true".into(),
            cwd: home.clone(),
            path: std::env::join_paths(path).unwrap(),
            texts: vec![format!("{} --all", home.join("hooks/check.sh").display()).into()],
            folders: vec![home.clone(), home.join("named"), home.join("named-too")],
            base_folders: vec![
                ("XDG_DATA_HOME", home.join("data")),
                ("XDG_CONFIG_HOME", "/etc/u".into()),
            ],
            workspace: vec![home.join("work")],
            ..CommandNeeds::default()
        };
        let shown = needs.list_home_paths(&home);
        let is_shown = |name: &str| shown.iter().any(|path| home.join(name).starts_with(path));
        for name in [
            ".gitconfig-work",
            ".local/bin/own",
            ".local/share/other/venvs/tool/lib",
            ".rustup/toolchains/x",
            "apps/node/lib/a",
            "bin/script",
            "data/uv/tools",
            "hooks/check.sh",
            "named/x",
        ] {
            assert!(is_shown(name), "{name}");
        }
        for name in [
            ".local/share/other/x",
            "apps/x",
            "diary/today",
            "hooks/x",
            "named-too",
            "work/.bin/x",
        ] {
            assert!(!is_shown(name), "{name}");
        }
    }
}
