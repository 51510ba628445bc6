//! Files that make programs run, or that agents obey, in one table. Writing them always asks, unless a rule names them.
//!
//! Names are compared without regard to case: macOS and Windows open `.git/config` as `.GIT/config`. Pure; knows no
//! rules and no disk.
//!
//! Not in the table, on purpose: `Makefile`, `package.json`, `build.rs`, `conftest.py`, and the like. They run with the
//! next build or test, as all code of the project does, and editing them is ordinary work.

use std::path::Path;

/// Consecutive components of a path that steers something, and what obeys it. A `*` in a component matches any text.
struct SteeringEntry(&'static str, &'static str);

const TABLE: &[SteeringEntry] = &[
    SteeringEntry(".git", "git"),
    SteeringEntry(".gitmodules", "git"),
    SteeringEntry(".gitattributes", "git"),
    SteeringEntry(".gitconfig", "git"),
    SteeringEntry(".hg", "Mercurial"),
    SteeringEntry(".hgrc", "Mercurial"),
    SteeringEntry(".jj", "Jujutsu"),
    SteeringEntry(".svn", "Subversion"),
    SteeringEntry(".agentls", "agentls"),
    SteeringEntry("AGENTS.md", "agents"),
    SteeringEntry("AGENTS.override.md", "agents"),
    SteeringEntry("CLAUDE.md", "agents"),
    SteeringEntry("CLAUDE.local.md", "agents"),
    SteeringEntry("GEMINI.md", "agents"),
    SteeringEntry("SOUL.md", "agents"),
    SteeringEntry("TOOLS.md", "agents"),
    SteeringEntry("SKILL.md", "agents"),
    SteeringEntry("copilot-instructions.md", "agents"),
    SteeringEntry(".mcp.json", "agents"),
    SteeringEntry(".claude", "agents"),
    SteeringEntry(".codex", "agents"),
    SteeringEntry(".cursor", "agents"),
    SteeringEntry(".cursorrules", "agents"),
    SteeringEntry(".gemini", "agents"),
    SteeringEntry(".opencode", "agents"),
    SteeringEntry(".windsurf*", "agents"),
    SteeringEntry(".clinerules", "agents"),
    SteeringEntry(".roo", "agents"),
    SteeringEntry(".kiro", "agents"),
    SteeringEntry(".aider*", "agents"),
    SteeringEntry(".vscode", "VS Code"),
    SteeringEntry(".idea", "JetBrains editors"),
    SteeringEntry(".zed", "Zed"),
    SteeringEntry(".fleet", "Fleet"),
    SteeringEntry(".nvim.lua", "Neovim"),
    SteeringEntry(".nvimrc", "Neovim"),
    SteeringEntry(".exrc", "Vim"),
    SteeringEntry(".vimrc", "Vim"),
    SteeringEntry(".gvimrc", "Vim"),
    SteeringEntry(".lvimrc", "Vim"),
    SteeringEntry(".dir-locals*", "Emacs"),
    SteeringEntry(".emacs", "Emacs"),
    SteeringEntry(".devcontainer", "dev containers"),
    SteeringEntry(".devcontainer.json", "dev containers"),
    SteeringEntry(".gitpod.yml", "Gitpod"),
    SteeringEntry(".github/workflows", "continuous integration"),
    SteeringEntry(".github/actions", "continuous integration"),
    SteeringEntry(".gitlab-ci*", "continuous integration"),
    SteeringEntry(".gitlab", "continuous integration"),
    SteeringEntry(".circleci", "continuous integration"),
    SteeringEntry(".buildkite", "continuous integration"),
    SteeringEntry(".woodpecker*", "continuous integration"),
    SteeringEntry(".forgejo", "continuous integration"),
    SteeringEntry(".gitea", "continuous integration"),
    SteeringEntry(".drone.yml", "continuous integration"),
    SteeringEntry(".travis.yml", "continuous integration"),
    SteeringEntry(".cirrus.yml", "continuous integration"),
    SteeringEntry("azure-pipelines*", "continuous integration"),
    SteeringEntry("bitbucket-pipelines.yml", "continuous integration"),
    SteeringEntry("appveyor.yml", "continuous integration"),
    SteeringEntry("Jenkinsfile", "continuous integration"),
    SteeringEntry(".husky", "git hooks"),
    SteeringEntry(".githooks", "git hooks"),
    SteeringEntry(".pre-commit-config.y*", "git hooks"),
    SteeringEntry("lefthook*", "git hooks"),
    SteeringEntry(".lefthook*", "git hooks"),
    SteeringEntry(".overcommit.yml", "git hooks"),
    SteeringEntry(".cargo/config*", "cargo"),
    SteeringEntry("rust-toolchain*", "rustup"),
    SteeringEntry(".npmrc", "npm"),
    SteeringEntry(".pnpmfile*", "pnpm"),
    SteeringEntry(".yarnrc*", "Yarn"),
    SteeringEntry(".yarn", "Yarn"),
    SteeringEntry(".bazelrc", "Bazel"),
    SteeringEntry(".mvn", "Maven"),
    SteeringEntry(".pypirc", "pip"),
    SteeringEntry("pip.conf", "pip"),
    SteeringEntry("sitecustomize.py", "Python"),
    SteeringEntry("usercustomize.py", "Python"),
    SteeringEntry(".python-version", "version managers"),
    SteeringEntry(".ruby-version", "version managers"),
    SteeringEntry(".node-version", "version managers"),
    SteeringEntry(".nvmrc", "version managers"),
    SteeringEntry(".tool-versions", "version managers"),
    SteeringEntry("mise*.toml", "mise"),
    SteeringEntry(".mise*", "mise"),
    SteeringEntry("mise", "mise"),
    SteeringEntry(".rtx.toml", "mise"),
    SteeringEntry(".envrc", "direnv"),
    SteeringEntry(".direnv", "direnv"),
    SteeringEntry("devbox.json", "devbox"),
    SteeringEntry(".gdbinit", "gdb"),
    SteeringEntry(".lldbinit", "lldb"),
    SteeringEntry(".irbrc", "irb"),
    SteeringEntry(".Rprofile", "R"),
    SteeringEntry(".inputrc", "shells"),
    SteeringEntry(".bashrc", "shells"),
    SteeringEntry(".bash_*", "shells"),
    SteeringEntry(".profile", "shells"),
    SteeringEntry(".login", "shells"),
    SteeringEntry(".zshrc", "shells"),
    SteeringEntry(".zshenv", "shells"),
    SteeringEntry(".zprofile", "shells"),
    SteeringEntry(".zlogin", "shells"),
    SteeringEntry(".kshrc", "shells"),
    SteeringEntry(".tmux.conf", "tmux"),
];

/// A file that steers a program or an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Steering {
    /// The component of the path that a rule must spell out to allow writing it.
    pub(super) name: String,
    /// What obeys the file, for users.
    pub(super) obeyed_by: &'static str,
}

/// Returns what a file at this path would steer, if anything.
pub(super) fn find_steering(path: &Path) -> Option<Steering> {
    let names: Vec<String> = path
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    // At any depth: a nested folder may be a repository or a project of its own.
    (0..names.len()).find_map(|at| {
        let entry = TABLE
            .iter()
            .find(|SteeringEntry(pattern, _)| begins_with(&names[at..], pattern))?;
        Some(Steering {
            name: names[at].clone(),
            obeyed_by: entry.1,
        })
    })
}

fn begins_with(names: &[String], pattern: &str) -> bool {
    let mut names = names.iter();
    pattern.split('/').all(|wanted| {
        names.next().is_some_and(|name| {
            // The file systems that ignore case may also ignore a trailing dot or space.
            let name = name.trim_end_matches(['.', ' ']).to_lowercase();
            let wanted = wanted.to_lowercase();
            match wanted.split_once('*') {
                Some((head, tail)) => {
                    name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail)
                }
                None => name == wanted,
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_without_regard_to_case() {
        for (path, name) in [
            (".git/config", ".git"),
            ("sub/.GIT/hooks/x", ".GIT"),
            (".Git./config", ".Git."),
            (".cargo/config.toml", ".cargo"),
            (".Cargo/Config", ".Cargo"),
            (".github/workflows/ci.yml", ".github"),
            ("docs/agents.md", "agents.md"),
            ("AGENTS.MD", "AGENTS.MD"),
            ("src/Claude.md", "Claude.md"),
            (".yarnrc.yml", ".yarnrc.yml"),
            (".pre-commit-config.yaml", ".pre-commit-config.yaml"),
            ("mise.local.toml", "mise.local.toml"),
            (".bash_profile", ".bash_profile"),
            ("/ws/.NVIM.lua", ".NVIM.lua"),
        ] {
            let found = find_steering(Path::new(path)).map(|found| found.name);
            assert_eq!(found.as_deref(), Some(name), "{path}");
        }
    }

    #[test]
    fn ordinary_files_steer_nothing() {
        for path in [
            "src/lib.rs",
            "Makefile",
            "package.json",
            "build.rs",
            "conftest.py",
            ".github/ISSUE_TEMPLATE.md",
            ".cargo/audit.toml",
            "git/config",
            ".gitignore",
            "docs/AGENTS.md.txt",
            "optimise.toml",
        ] {
            assert_eq!(find_steering(Path::new(path)), None, "{path}");
        }
    }
}
