//! Files that make programs run, or that agents obey, in one table. Writing them always asks, unless a rule names them.
//!
//! Names are compared without regard to case: macOS and Windows open `.git/config` as `.GIT/config`. Pure; knows no
//! rules and no disk.
//!
//! Not in the table, on purpose:
//! - `Makefile`, `package.json`, `build.rs`, `conftest.py`, and the like. They run with the next build or test, as all
//!   code of the project does, and editing them is ordinary work.
//! - `.java-version`, `.go-version`, `.terraform-version`, and `.sdkmanrc`. They choose an installed version and name no
//!   program. `.tool-versions` and the like may name a path.

use std::path::Path;

use super::word_list::WordList;

/// What obeys files, which page of its documentation says so, and the consecutive components of their paths. A `*` in a
/// component matches any text. Where the page is the name of the program, no page was found that says it.
const TABLE: &[(&str, &str, WordList)] = &[
    (
        "git",
        "gitattributes, githooks, git-config",
        WordList(".git .gitmodules .gitattributes .gitconfig"),
    ),
    ("Mercurial", "hgrc", WordList(".hg .hgrc")),
    ("Jujutsu", "Settings", WordList(".jj")),
    ("Subversion", "Subversion", WordList(".svn")),
    ("agentls", "configuration", WordList(".agentls")),
    (
        "agents",
        "agents",
        WordList(
            "AGENTS.md AGENTS.override.md CLAUDE.md CLAUDE.local.md GEMINI.md SOUL.md TOOLS.md SKILL.md \
            copilot-instructions.md .mcp.json .claude .codex .cursor .cursorrules .gemini .opencode \
            opencode.json opencode.jsonc crush.json .crush.json .qwen .continue .kilocode .junie .amazonq \
            .agents/skills .github/hooks .windsurf* .clinerules .roo .kiro .aider*",
        ),
    ),
    (
        "GitHub Copilot",
        "Copilot customization cheat sheet",
        WordList(".github/instructions .github/prompts .github/chatmodes .github/agents .github/skills"),
    ),
    ("Zed and Amp", "Using Rules", WordList(".rules AGENT.md")),
    ("Goose", "Managing hints: .goosehints", WordList(".goosehints")),
    ("OpenHands", "Repository Customization", WordList(".openhands")),
    ("Warp", "Warp", WordList("WARP.md")),
    ("Trae", "Trae", WordList(".trae")),
    ("Augment", "Augment", WordList(".augment*")),
    ("Factory", "Factory", WordList(".factory")),
    ("Amp", "Amp", WordList(".amp")),
    ("Cline", "Cline", WordList(".cline")),
    ("Mistral Vibe", "Mistral Vibe", WordList(".vibe")),
    ("Rovo Dev", "Rovo Dev", WordList(".rovodev")),
    ("Roo Code", "Roo Code", WordList(".roomodes")),
    (
        "VS Code",
        "Integrate with External Tools via Tasks",
        WordList(".vscode *.code-workspace"),
    ),
    (
        "Visual Studio",
        "Customize build and debug tasks",
        WordList(".vs/*.vs.json"),
    ),
    ("JetBrains editors", "Run/debug configurations", WordList(".idea")),
    ("Zed", "Tasks", WordList(".zed")),
    ("Fleet", "Run configurations", WordList(".fleet")),
    (
        "Helix",
        "Configuration",
        WordList(".helix/languages.toml .helix/config.toml"),
    ),
    ("Neovim", "exrc", WordList(".nvim.lua .nvimrc")),
    (
        "Vimspector",
        "Vimspector Configuration",
        WordList(".vimspector.json"),
    ),
    (
        "the Lua language server",
        "Configuration",
        WordList(".luarc.json .luarc.jsonc"),
    ),
    ("Vim", "startup", WordList(".exrc .vimrc .gvimrc .lvimrc")),
    (
        "Emacs",
        "Per-Directory Local Variables",
        WordList(".dir-locals* .emacs"),
    ),
    ("Sublime Text", "Sublime Text", WordList("*.sublime-project")),
    ("Metals and IntelliJ", "BSP connection files", WordList(".bsp")),
    (
        "dev containers",
        "Dev Container metadata reference",
        WordList(".devcontainer .devcontainer.json"),
    ),
    (
        "devfile workspaces",
        "Devfile events",
        WordList("devfile.y* .devfile.y*"),
    ),
    (
        "Gitpod and Ona",
        "Gitpod and Ona",
        WordList(".gitpod .gitpod.yml .ona"),
    ),
    (
        "Project IDX",
        "Customize your IDX workspace",
        WordList(".idx/dev.nix"),
    ),
    ("Replit", "Replit", WordList(".replit")),
    ("CodeSandbox", "CodeSandbox", WordList(".codesandbox")),
    ("StackBlitz", "Project configuration", WordList(".stackblitzrc")),
    (
        "continuous integration",
        "each service's reference of its file",
        WordList(
            ".github/workflows .github/actions .gitlab-ci* .gitlab .circleci .buildkite .woodpecker* \
            .forgejo .gitea .drone.yml .travis.yml .cirrus.yml azure-pipelines* .azure-pipelines \
            bitbucket-pipelines.yml appveyor.yml Jenkinsfile",
        ),
    ),
    ("SourceHut", "builds.sr.ht", WordList(".build.yml .builds")),
    ("Tekton", "Pipelines-as-Code", WordList(".tekton")),
    ("Semaphore", "Semaphore", WordList(".semaphore")),
    ("TeamCity", "TeamCity", WordList(".teamcity")),
    ("AWS CodeBuild", "AWS CodeBuild", WordList("buildspec.y*")),
    (
        "Google Cloud Build",
        "Google Cloud Build",
        WordList("cloudbuild.y*"),
    ),
    ("Codemagic", "Codemagic", WordList("codemagic.yaml")),
    ("Bitrise", "Bitrise", WordList("bitrise.yml")),
    (
        "git hooks",
        "the hooks of husky, pre-commit, lefthook, and overcommit",
        WordList(".husky .githooks .pre-commit-config.y* lefthook* .lefthook* .overcommit.yml"),
    ),
    ("cargo", "Configuration", WordList(".cargo/config*")),
    ("rustup", "Overrides", WordList("rust-toolchain*")),
    ("npm", "npmrc", WordList(".npmrc")),
    ("pnpm", ".pnpmfile.cjs", WordList(".pnpmfile*")),
    ("Yarn", "Settings (.yarnrc.yml)", WordList(".yarnrc* .yarn")),
    ("Bazel", "Write bazelrc configuration files", WordList(".bazelrc")),
    ("Maven", "Configuring Apache Maven", WordList(".mvn")),
    ("pip", "Configuration", WordList(".pypirc pip.conf")),
    ("Python", "site", WordList("sitecustomize.py usercustomize.py")),
    (
        "version managers",
        "version managers",
        WordList(".python-version .ruby-version .node-version .nvmrc .tool-versions"),
    ),
    (
        "mise",
        "Configuration",
        WordList("mise*.toml .mise* mise .rtx.toml"),
    ),
    ("direnv", "direnv", WordList(".envrc .direnv")),
    ("Shadowenv", "Trust", WordList(".shadowenv.d")),
    ("autoenv", "autoenv", WordList(".autoenv*")),
    ("devbox", "devbox.json", WordList("devbox.json")),
    ("gdb", "Auto-loading", WordList(".gdbinit")),
    ("lldb", "lldb", WordList(".lldbinit")),
    ("pdb", "pdb", WordList(".pdbrc")),
    ("irb", "irb", WordList(".irbrc")),
    ("pry", "pry", WordList(".pryrc")),
    ("R", "Startup", WordList(".Rprofile")),
    ("IEx", "The .iex.exs file", WordList(".iex.exs")),
    ("GHCi", "The .ghci file", WordList(".ghci")),
    ("OCaml", "The toplevel system or REPL", WordList(".ocamlinit")),
    ("Erlang", "Erlang", WordList(".erlang")),
    ("Octave", "Startup Files", WordList(".octaverc")),
    ("prove", "prove", WordList(".proverc")),
    (
        "shells",
        "the startup files of each shell",
        WordList(".inputrc .bashrc .bash_* .profile .login .zshrc .zshenv .zprofile .zlogin .kshrc"),
    ),
    ("tmux", "tmux", WordList(".tmux.conf")),
];

/// Folders that a workspace may have at its top and whose names are reserved while a background process runs. Programs
/// that obey them look at the disk all the time, and none does anything about an empty one.
pub const RESERVED_FOLDERS: [&str; 5] = [".vscode", ".idea", ".zed", ".cursor", ".claude"];

/// Who obeys a file only on another machine, or as advice. All others may run what a file says as soon as a person works
/// in the folder.
#[rustfmt::skip]
const LESS_URGENT: &[&str] = &[
    "continuous integration", "SourceHut", "Tekton", "Semaphore", "TeamCity", "AWS CodeBuild",
    "Google Cloud Build", "Codemagic", "Bitrise", "version managers", "rustup", "agents", "GitHub Copilot",
];

/// Returns whether what obeys a file, as [`Steering::obeyed_by`] names it, may run something on this machine at any time.
pub fn may_run_soon(obeyed_by: &str) -> bool {
    !LESS_URGENT.contains(&obeyed_by)
}

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
        let (obeyed_by, _, _) = TABLE
            .iter()
            .find(|(_, _, patterns)| patterns.iter().any(|pattern| begins_with(&folded[at..], pattern)))?;
        Some(Steering {
            name: names[at].clone().into_owned(),
            obeyed_by,
        })
    })
}

/// Returns whether entries of a folder of this name may steer something, although the folder itself does not.
pub fn may_hold_steering(name: &str) -> bool {
    let names = [fold(name)];
    let mut patterns = TABLE.iter().flat_map(|(_, _, patterns)| patterns.iter());
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
    fn every_name_of_the_table_steers_its_program_at_any_depth() {
        for (program, source, names) in TABLE {
            assert!(!program.is_empty() && !source.is_empty(), "{program}: {source}");
            assert!(names.iter().next().is_some(), "{program} obeys nothing");
            for name in names.iter() {
                // With two wildcards, `begins_with` would take the second one for a character.
                assert!(name.is_ascii() && name.matches('*').count() <= 1, "{name}");
                for folder in ["", "sub/", "a/b/"] {
                    let path = format!("{folder}{}", name.replace('*', "x")).to_uppercase();
                    let found = find_steering(Path::new(&path)).map(|found| found.obeyed_by);
                    // A name in two rows would have the reader of the first.
                    assert_eq!(found, Some(*program), "{path}");
                }
            }
        }
    }

    #[test]
    fn files_that_start_programs_without_a_build_steer() {
        for path in [
            ".bsp/sbt.json",
            ".iex.exs",
            ".ghci",
            ".openhands/setup.sh",
            ".idx/dev.nix",
            "devfile.yaml",
            ".builds/test.yml",
            "buildspec.yml",
            ".azure-pipelines/ci.yml",
            "AGENT.md",
            ".github/prompts/x.prompt.md",
            ".shadowenv.d/500_env.lisp",
            "app.sublime-project",
        ] {
            assert!(find_steering(Path::new(path)).is_some(), "{path}");
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
            ".java-version",
            ".go-version",
            ".terraform-version",
            ".sdkmanrc",
            ".idx/mcp.txt",
            "builds",
            "rules",
            "agent.rs",
        ] {
            assert_eq!(find_steering(Path::new(path)), None, "{path}");
        }
    }
}
