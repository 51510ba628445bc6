//! Files that make programs run, or that agents obey: one table. Writing them always asks, unless a rule names them.
//!
//! The names are compared without regard to case: macOS and Windows open `.git/config` as `.GIT/config`.
//!
//! Not in the table, on purpose: `Makefile`, `package.json`, `build.rs`, `conftest.py` and the like. They run with the
//! next build or test, as all code of the project does, and edits of them are ordinary work.

use std::path::Path;

/// A path that steers something: components that follow each other, and what obeys the file. A component that ends in `*` is a prefix.
struct Entry(&'static str, &'static str);

const TABLE: &[Entry] = &[
    Entry(".git", "git"),
    Entry(".gitmodules", "git"),
    Entry(".gitattributes", "git"),
    Entry(".gitconfig", "git"),
    Entry(".hg", "Mercurial"),
    Entry(".hgrc", "Mercurial"),
    Entry(".jj", "Jujutsu"),
    Entry(".svn", "Subversion"),
    Entry(".agentls", "agentls"),
    Entry("AGENTS.md", "agents"),
    Entry("AGENTS.override.md", "agents"),
    Entry("CLAUDE.md", "agents"),
    Entry("CLAUDE.local.md", "agents"),
    Entry("GEMINI.md", "agents"),
    Entry("SOUL.md", "agents"),
    Entry("TOOLS.md", "agents"),
    Entry("SKILL.md", "agents"),
    Entry("copilot-instructions.md", "agents"),
    Entry(".mcp.json", "agents"),
    Entry(".claude", "agents"),
    Entry(".codex", "agents"),
    Entry(".cursor", "agents"),
    Entry(".cursorrules", "agents"),
    Entry(".gemini", "agents"),
    Entry(".opencode", "agents"),
    Entry(".windsurf*", "agents"),
    Entry(".clinerules", "agents"),
    Entry(".roo", "agents"),
    Entry(".kiro", "agents"),
    Entry(".aider*", "agents"),
    Entry(".vscode", "VS Code"),
    Entry(".idea", "JetBrains editors"),
    Entry(".zed", "Zed"),
    Entry(".fleet", "Fleet"),
    Entry(".nvim.lua", "Neovim"),
    Entry(".nvimrc", "Neovim"),
    Entry(".exrc", "Vim"),
    Entry(".vimrc", "Vim"),
    Entry(".gvimrc", "Vim"),
    Entry(".lvimrc", "Vim"),
    Entry(".dir-locals*", "Emacs"),
    Entry(".emacs", "Emacs"),
    Entry(".devcontainer", "dev containers"),
    Entry(".devcontainer.json", "dev containers"),
    Entry(".gitpod.yml", "Gitpod"),
    Entry(".github/workflows", "continuous integration"),
    Entry(".github/actions", "continuous integration"),
    Entry(".gitlab-ci*", "continuous integration"),
    Entry(".gitlab", "continuous integration"),
    Entry(".circleci", "continuous integration"),
    Entry(".buildkite", "continuous integration"),
    Entry(".woodpecker*", "continuous integration"),
    Entry(".forgejo", "continuous integration"),
    Entry(".gitea", "continuous integration"),
    Entry(".drone.yml", "continuous integration"),
    Entry(".travis.yml", "continuous integration"),
    Entry(".cirrus.yml", "continuous integration"),
    Entry("azure-pipelines*", "continuous integration"),
    Entry("bitbucket-pipelines.yml", "continuous integration"),
    Entry("appveyor.yml", "continuous integration"),
    Entry("Jenkinsfile", "continuous integration"),
    Entry(".husky", "git hooks"),
    Entry(".githooks", "git hooks"),
    Entry(".pre-commit-config.y*", "git hooks"),
    Entry("lefthook*", "git hooks"),
    Entry(".lefthook*", "git hooks"),
    Entry(".overcommit.yml", "git hooks"),
    Entry(".cargo/config*", "cargo"),
    Entry("rust-toolchain*", "rustup"),
    Entry(".npmrc", "npm"),
    Entry(".pnpmfile*", "pnpm"),
    Entry(".yarnrc*", "Yarn"),
    Entry(".yarn", "Yarn"),
    Entry(".bazelrc", "Bazel"),
    Entry(".mvn", "Maven"),
    Entry(".pypirc", "pip"),
    Entry("pip.conf", "pip"),
    Entry("sitecustomize.py", "Python"),
    Entry("usercustomize.py", "Python"),
    Entry(".python-version", "version managers"),
    Entry(".ruby-version", "version managers"),
    Entry(".node-version", "version managers"),
    Entry(".nvmrc", "version managers"),
    Entry(".tool-versions", "version managers"),
    Entry("mise*.toml", "mise"),
    Entry(".mise*", "mise"),
    Entry("mise", "mise"),
    Entry(".rtx.toml", "mise"),
    Entry(".envrc", "direnv"),
    Entry(".direnv", "direnv"),
    Entry("devbox.json", "devbox"),
    Entry(".gdbinit", "gdb"),
    Entry(".lldbinit", "lldb"),
    Entry(".irbrc", "irb"),
    Entry(".Rprofile", "R"),
    Entry(".inputrc", "shells"),
    Entry(".bashrc", "shells"),
    Entry(".bash_*", "shells"),
    Entry(".profile", "shells"),
    Entry(".login", "shells"),
    Entry(".zshrc", "shells"),
    Entry(".zshenv", "shells"),
    Entry(".zprofile", "shells"),
    Entry(".zlogin", "shells"),
    Entry(".kshrc", "shells"),
    Entry(".tmux.conf", "tmux"),
];

/// A file that steers something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Steering {
    /// The component of the path that a rule must spell to allow writing it.
    pub(super) name: String,
    /// What obeys the file.
    pub(super) obeyed_by: &'static str,
}

/// Whether a file that is written at this path steers something.
pub(super) fn steering(path: &Path) -> Option<Steering> {
    let names: Vec<String> = path
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    (0..names.len()).find_map(|at| {
        let entry = TABLE
            .iter()
            .find(|Entry(pattern, _)| begins_with(&names[at..], pattern))?;
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
            // Both file systems that ignore case also ignore these.
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
            let found = steering(Path::new(path)).map(|found| found.name);
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
            assert_eq!(steering(Path::new(path)), None, "{path}");
        }
    }
}
