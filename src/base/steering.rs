//! Files that make programs run, or that agents obey, in one table. Writing them always asks, unless a rule names them.
//!
//! Names are compared without regard to case: macOS and Windows open `.git/config` as `.GIT/config`. Pure; knows no
//! rules and no disk.
//!
//! Not in the table, on purpose: `Makefile`, `package.json`, `build.rs`, `conftest.py`, and the like. They run with the
//! next build or test, as all code of the project does, and editing them is ordinary work.

use std::path::Path;

use super::word_list::WordList;

/// What obeys files, and the consecutive components of their paths. A `*` in a component matches any text.
const TABLE: &[(&str, WordList)] = &[
    ("git", WordList(".git .gitmodules .gitattributes .gitconfig")),
    ("Mercurial", WordList(".hg .hgrc")),
    ("Jujutsu", WordList(".jj")),
    ("Subversion", WordList(".svn")),
    ("agentls", WordList(".agentls")),
    (
        "agents",
        WordList(
            "AGENTS.md AGENTS.override.md CLAUDE.md CLAUDE.local.md GEMINI.md SOUL.md TOOLS.md SKILL.md \
            copilot-instructions.md .mcp.json .claude .codex .cursor .cursorrules .gemini .opencode \
            opencode.json opencode.jsonc crush.json .crush.json .qwen .continue .kilocode .junie .amazonq \
            .agents/skills .github/hooks .windsurf* .clinerules .roo .kiro .aider*",
        ),
    ),
    ("VS Code", WordList(".vscode *.code-workspace")),
    ("Visual Studio", WordList(".vs/*.vs.json")),
    ("JetBrains editors", WordList(".idea")),
    ("Zed", WordList(".zed")),
    ("Fleet", WordList(".fleet")),
    ("Helix", WordList(".helix/languages.toml .helix/config.toml")),
    ("Neovim", WordList(".nvim.lua .nvimrc")),
    ("Vimspector", WordList(".vimspector.json")),
    ("the Lua language server", WordList(".luarc.json .luarc.jsonc")),
    ("Vim", WordList(".exrc .vimrc .gvimrc .lvimrc")),
    ("Emacs", WordList(".dir-locals* .emacs")),
    ("dev containers", WordList(".devcontainer .devcontainer.json")),
    ("Gitpod", WordList(".gitpod.yml")),
    (
        "continuous integration",
        WordList(
            ".github/workflows .github/actions .gitlab-ci* .gitlab .circleci .buildkite .woodpecker* \
            .forgejo .gitea .drone.yml .travis.yml .cirrus.yml azure-pipelines* bitbucket-pipelines.yml \
            appveyor.yml Jenkinsfile",
        ),
    ),
    (
        "git hooks",
        WordList(".husky .githooks .pre-commit-config.y* lefthook* .lefthook* .overcommit.yml"),
    ),
    ("cargo", WordList(".cargo/config*")),
    ("rustup", WordList("rust-toolchain*")),
    ("npm", WordList(".npmrc")),
    ("pnpm", WordList(".pnpmfile*")),
    ("Yarn", WordList(".yarnrc* .yarn")),
    ("Bazel", WordList(".bazelrc")),
    ("Maven", WordList(".mvn")),
    ("pip", WordList(".pypirc pip.conf")),
    ("Python", WordList("sitecustomize.py usercustomize.py")),
    (
        "version managers",
        WordList(".python-version .ruby-version .node-version .nvmrc .tool-versions"),
    ),
    ("mise", WordList("mise*.toml .mise* mise .rtx.toml")),
    ("direnv", WordList(".envrc .direnv")),
    ("devbox", WordList("devbox.json")),
    ("gdb", WordList(".gdbinit")),
    ("lldb", WordList(".lldbinit")),
    ("pdb", WordList(".pdbrc")),
    ("irb", WordList(".irbrc")),
    ("pry", WordList(".pryrc")),
    ("R", WordList(".Rprofile")),
    (
        "shells",
        WordList(".inputrc .bashrc .bash_* .profile .login .zshrc .zshenv .zprofile .zlogin .kshrc"),
    ),
    ("tmux", WordList(".tmux.conf")),
];

/// A file that steers a program or an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steering {
    /// The component of the path that a rule must spell out to allow writing it.
    pub name: String,
    /// What obeys the file, for users.
    pub obeyed_by: &'static str,
}

/// Returns what a file at this path would steer, if anything.
pub fn find_steering(path: &Path) -> Option<Steering> {
    let names: Vec<_> = path
        .components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect();
    let folded: Vec<String> = names.iter().map(|name| fold(name)).collect();
    // At any depth: a nested folder may be a repository or a project of its own.
    (0..names.len()).find_map(|at| {
        let (obeyed_by, _) = TABLE
            .iter()
            .find(|(_, patterns)| patterns.iter().any(|pattern| begins_with(&folded[at..], pattern)))?;
        Some(Steering {
            name: names[at].clone().into_owned(),
            obeyed_by,
        })
    })
}

/// Returns whether entries of a folder of this name may steer something, although the folder itself does not.
pub fn may_hold_steering(name: &str) -> bool {
    let names = [fold(name)];
    let mut patterns = TABLE.iter().flat_map(|(_, patterns)| patterns.iter());
    patterns.any(|pattern| {
        pattern
            .split_once('/')
            .is_some_and(|(folder, _)| begins_with(&names, folder))
    })
}

/// Returns a name as file systems compare it that ignore case, and perhaps a trailing dot or space.
fn fold(name: &str) -> String {
    name.trim_end_matches(['.', ' ']).to_lowercase()
}

/// Returns whether folded names begin with those of a pattern, which are in ASCII.
fn begins_with(names: &[String], pattern: &str) -> bool {
    let mut names = names.iter().map(String::as_bytes);
    pattern.split('/').all(|wanted| {
        names.next().is_some_and(|name| match wanted.split_once('*') {
            Some((head, tail)) => {
                name.len() >= head.len() + tail.len()
                    && name[..head.len()].eq_ignore_ascii_case(head.as_bytes())
                    && name[name.len() - tail.len()..].eq_ignore_ascii_case(tail.as_bytes())
            }
            None => name.eq_ignore_ascii_case(wanted.as_bytes()),
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
            ("app.code-workspace", "app.code-workspace"),
            (".vs/launch.vs.json", ".vs"),
            (".agents/skills/x/SKILL.txt", ".agents"),
            ("sub/opencode.jsonc", "opencode.jsonc"),
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
            ".vs/app/x.suo",
            ".agents/notes.md",
            "code-workspace",
            "git/config",
            ".gitignore",
            "docs/AGENTS.md.txt",
            "optimise.toml",
        ] {
            assert_eq!(find_steering(Path::new(path)), None, "{path}");
        }
    }
}
