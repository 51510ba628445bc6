//! Finds what a command needs of the machine's temporary folders, which its own `/tmp` replaces.
//!
//! Only what the user chose is shown, and only for reading: what the environment and settings name, never what a command
//! or a workspace names. The machine's `/tmp` holds sockets and files of other programs, which stay hidden. Looks at
//! names and links on the disk. `scope` makes rules of the result.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::links::follow_links;
use super::plan::{TEMPORARY, is_temporary};
use super::private_temp::is_shared_temp;
use crate::base::lexical_path::normalize_path;
use crate::base::nofollow::RegularFile;
use crate::base::secret_path::is_secret_like;
use crate::base::word_list::WordList;

/// Variables that list programs, libraries, and settings of tool chains. Each value is a list of paths.
///
/// Folders that programs write, such as `CARGO_TARGET_DIR`, are missing on purpose: what is shown is read-only.
const TOOL_VARIABLES: WordList = WordList(
    "ANDROID_HOME ANDROID_SDK_ROOT ASDF_DATA_DIR ASDF_DIR BUN_INSTALL CARGO_HOME CMAKE_PREFIX_PATH \
    CONDA_PREFIX CPATH CURL_CA_BUNDLE DOTNET_ROOT FNM_DIR GEM_HOME GEM_PATH GIT_CONFIG_GLOBAL \
    GIT_CONFIG_SYSTEM GIT_EXEC_PATH GOPATH GOROOT GRADLE_HOME JAVA_HOME LD_LIBRARY_PATH LIBRARY_PATH \
    MAVEN_HOME MISE_DATA_DIR NODE_EXTRA_CA_CERTS NODE_PATH NVM_DIR OPAMROOT PERL5LIB PKG_CONFIG_PATH \
    PNPM_HOME PYENV_ROOT PYTHONHOME PYTHONPATH RBENV_ROOT REQUESTS_CA_BUNDLE RUBYLIB RUSTUP_HOME \
    SDKMAN_DIR SSL_CERT_DIR SSL_CERT_FILE UV_PYTHON_INSTALL_DIR UV_TOOL_DIR VIRTUAL_ENV VOLTA_HOME",
);

/// Variables of folders with settings and data of all programs.
const BASE_VARIABLES: [&str; 2] = ["XDG_CONFIG_HOME", "XDG_DATA_HOME"];

/// Starts of the names that programs give their sockets and tickets in `/tmp`. Nothing with such a name is shown.
const PRIVATE_NAMES: WordList = WordList(
    ".ICE-unix .X .XIM-unix .font-unix dbus- gpg- keyring- krb5cc pulse- snap-private-tmp ssh- \
    systemd-private- tmux-",
);

/// Most paths that are looked for in the texts of one command.
const MAX_NAMED: usize = 200;
/// Most ends of a path that are tried in a text. A path may contain blanks, so its end is not plain.
const MAX_ENDS: usize = 16;
/// Most scripts that run one another by their first lines.
const MAX_INTERPRETERS: usize = 4;
/// Most bytes of the first line of a script that the kernel reads.
const MAX_FIRST_LINE: u64 = 256;

/// What a command needs, wherever that is.
#[derive(Clone, Debug, Default)]
pub struct CommandNeeds {
    /// The program, as its command names it.
    pub program: OsString,
    /// Where it starts.
    pub cwd: PathBuf,
    /// Its PATH.
    pub path: OsString,
    /// Texts of the user's settings that may name paths: the words of the command, and values of variables.
    pub texts: Vec<OsString>,
    /// Folders and files that are shown by themselves, such as the home folder.
    pub folders: Vec<PathBuf>,
    /// The folders with settings and data of all programs, with the variables that name them.
    pub base_folders: Vec<(&'static str, PathBuf)>,
    /// The workspace folders. A command can write there, so nothing in them decides what is shown.
    pub workspace: Vec<PathBuf>,
    /// The folder for temporary files of this program.
    pub temp_dir: PathBuf,
}

impl CommandNeeds {
    /// Adds the folders that variables of tool chains name.
    #[must_use]
    pub fn with_tool_variables(mut self, variable: impl Fn(&str) -> Option<PathBuf>) -> Self {
        let values = TOOL_VARIABLES.iter().filter_map(&variable);
        let folders = values.flat_map(|value| std::env::split_paths(&value).collect::<Vec<_>>());
        self.folders.extend(folders);
        let bases = BASE_VARIABLES
            .iter()
            .filter_map(|name| Some((*name, variable(name)?)));
        self.base_folders.extend(bases);
        self
    }

    /// Lists the paths below the machine's temporary folders that the command must see, without those below others.
    ///
    /// A program or a file comes with the folder directly below the temporary folder: most need what is next to them.
    pub fn list_visible_paths(&self) -> Vec<PathBuf> {
        let mut visible = BTreeSet::new();
        let bases = self.base_folders.iter().map(|(_, folder)| folder);
        for folder in self.folders.iter().chain(bases) {
            visible.extend(self.list_steps(folder));
        }
        let temporary = self.list_temporary_folders();
        for file in self.list_files() {
            let steps = self.list_steps(&file).into_iter();
            visible.extend(steps.filter_map(|step| find_top_entry(&step, &temporary)));
        }
        visible.retain(|path| !is_private(path) && !self.is_in_workspace(path));
        // In this order, a folder comes before what is in it.
        let mut outermost: Vec<PathBuf> = Vec::new();
        for path in visible {
            if !outermost.iter().any(|outer| path.starts_with(outer)) {
                outermost.push(path);
            }
        }
        outermost
    }

    /// Lists a path and where each link on the way leads, as far as that is below a temporary folder.
    fn list_steps(&self, path: &Path) -> Vec<PathBuf> {
        if !path.is_absolute() || !is_file_or_folder(path) {
            return Vec::new();
        }
        let path = normalize_path(path);
        let links = follow_links(&path).into_iter();
        // A command could have made the links in a workspace.
        let trusted = links.take_while(|link| !self.is_in_workspace(&link.path));
        let steps = std::iter::once(path).chain(trusted.map(|link| link.next));
        steps.filter(|step| is_temporary(step)).collect()
    }

    /// Lists the program, what runs it, the folders of PATH, the folder where it starts, and what the texts name.
    fn list_files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = std::env::split_paths(&self.path).collect();
        if !self.is_in_workspace(&self.cwd) {
            files.push(self.cwd.clone());
        }
        files.extend(self.list_programs());
        files.extend(
            TEMPORARY
                .iter()
                .flat_map(|folder| self.list_named_in(Path::new(folder))),
        );
        files
    }

    /// Lists the paths in a folder that the texts name and that exist.
    pub(super) fn list_named_in(&self, folder: &Path) -> Vec<PathBuf> {
        let Some(folder) = folder.to_str() else {
            return Vec::new();
        };
        let named = self.texts.iter().flat_map(|text| find_named_paths(text, folder));
        named.take(MAX_NAMED).collect()
    }

    /// Lists the program, the interpreter that its first line names, and so on.
    pub(super) fn list_programs(&self) -> Vec<PathBuf> {
        let mut programs = Vec::new();
        let mut next = self.find_program(&self.program);
        while let Some(program) = next.take() {
            let is_trusted = !fs::canonicalize(&program).is_ok_and(|real| self.is_in_workspace(&real))
                && !self.is_in_workspace(&program);
            if is_trusted && programs.len() < MAX_INTERPRETERS {
                next = read_interpreter(&program).and_then(|name| self.find_program(&name));
            }
            programs.push(program);
        }
        programs
    }

    fn find_program(&self, name: &OsStr) -> Option<PathBuf> {
        if name.as_bytes().contains(&b'/') {
            return Some(self.cwd.join(name));
        }
        let folders = std::env::split_paths(&self.path).filter(|folder| folder.is_absolute());
        let mut programs = folders.map(|folder| folder.join(name));
        programs.find(|program| access(program, Access::EXEC_OK).is_ok() && program.is_file())
    }

    pub(super) fn is_in_workspace(&self, path: &Path) -> bool {
        self.workspace.iter().any(|folder| path.starts_with(folder))
    }

    /// Lists the folders whose entries are unrelated to each other: the temporary folders, and those around the one of
    /// this user, such as `/tmp/user`.
    fn list_temporary_folders(&self) -> Vec<PathBuf> {
        let mut folders = TEMPORARY.map(PathBuf::from).to_vec();
        let real = fs::canonicalize(&self.temp_dir).unwrap_or_default();
        for folder in [&self.temp_dir, &real] {
            let around = folder.ancestors().filter(|around| is_temporary(around));
            folders.extend(around.map(Path::to_path_buf));
        }
        folders
    }
}

/// Returns the entry of the innermost temporary folder that contains a path, or that the path is.
fn find_top_entry(path: &Path, temporary: &[PathBuf]) -> Option<PathBuf> {
    let around = temporary.iter().filter(|folder| path.starts_with(folder));
    let innermost = around.max_by_key(|folder| folder.components().count())?;
    let name = path.strip_prefix(innermost).ok()?.components().next()?;
    Some(innermost.join(name))
}

/// Returns whether a path is a secret, or in a folder of other programs with their sockets, by its name.
fn is_private(path: &Path) -> bool {
    let below = TEMPORARY.iter().find_map(|folder| path.strip_prefix(folder).ok());
    let top = below.and_then(|below| below.iter().next()).unwrap_or_default();
    let top = top.to_string_lossy();
    is_secret_like(path)
        || is_shared_temp(Path::new(&*top))
        || PRIVATE_NAMES.iter().any(|start| top.starts_with(start))
}

fn is_file_or_folder(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() || found.is_dir())
}

/// Returns the program that the first line of a script names.
fn read_interpreter(script: &Path) -> Option<OsString> {
    let mut script = RegularFile::open(&fs::canonicalize(script).ok()?).ok()?;
    let start = script.read_start(MAX_FIRST_LINE).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let interpreter = OsStr::from_bytes(words.next()?);
    if Path::new(interpreter).file_name() != Some(OsStr::new("env")) {
        return Some(interpreter.to_owned());
    }
    // `env -S NAME=value program`
    let mut named = words.filter(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    named.next().map(|word| OsStr::from_bytes(word).to_owned())
}

/// Lists the paths in a folder that a text names and that exist.
///
/// The text may be a path, an option such as `--file=/tmp/a`, a list of paths, or a script.
fn find_named_paths(text: &OsStr, folder: &str) -> Vec<PathBuf> {
    let Some(text) = text.to_str() else {
        return Vec::new();
    };
    let starts = text.match_indices(folder).map(|(at, _)| at);
    // Within a longer name, as in `/home/tmp`, it is another folder.
    let starts = starts.filter(|at| {
        let before = text[..*at].chars().next_back();
        before.is_none_or(|before| !before.is_alphanumeric() && !"/._-~".contains(before))
    });
    starts
        .take(MAX_NAMED)
        .filter_map(|at| find_longest_path(&text[at..]))
        .collect()
}

/// Returns the longest path at the start of a text that exists.
fn find_longest_path(text: &str) -> Option<PathBuf> {
    let is_end = |c: char| c.is_whitespace() || "'\"`;:,()|&<>\\".contains(c);
    let ends: Vec<usize> = text
        .match_indices(is_end)
        .map(|(at, _)| at)
        .take(MAX_ENDS)
        .collect();
    let ends = ends.into_iter().rev();
    let candidates = std::iter::once(text.len())
        .chain(ends)
        .map(|end| Path::new(&text[..end]));
    let mut existing = candidates.filter(|path| fs::symlink_metadata(path).is_ok());
    existing.next().map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A folder in the machine's `/tmp`, with these files. Programs are in `bin`.
    struct Machine {
        folder: tempfile::TempDir,
    }

    impl Machine {
        fn new(files: &[(&str, &str)]) -> Self {
            let folder = tempfile::tempdir_in("/tmp").unwrap();
            for (file, text) in files {
                let path = folder.path().join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, text).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
            Self { folder }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        /// Returns what is shown to a command whose needs `change` describes, relative to the folder.
        ///
        /// Its folder counts as that of the user for temporary files, so that its entries are unrelated.
        fn list(&self, change: impl FnOnce(&mut CommandNeeds)) -> Vec<String> {
            let mut needs = CommandNeeds {
                program: "true".into(),
                cwd: "/".into(),
                path: "/usr/bin:/bin".into(),
                temp_dir: self.folder.path().to_owned(),
                ..CommandNeeds::default()
            };
            change(&mut needs);
            let visible = needs.list_visible_paths().into_iter();
            let below = visible.map(|path| path.strip_prefix(self.folder.path()).unwrap().to_owned());
            below.map(|path| path.display().to_string()).collect()
        }
    }

    #[test]
    fn nothing_is_shown_to_a_command_that_needs_nothing() {
        let machine = Machine::new(&[("file", ""), ("bin/tool", "")]);
        assert_eq!(machine.list(|_| {}), [""; 0]);
        // A home folder or a temporary folder that is `/tmp` itself shows nothing of it.
        for folder in ["/tmp", "/tmp/", "/tmp/.", "/var/tmp", "/"] {
            let visible = machine.list(|needs| {
                needs.folders.push(folder.into());
                needs.cwd = folder.into();
                needs.texts.push(folder.into());
            });
            assert_eq!(visible, [""; 0], "{folder}");
        }
    }

    #[test]
    fn a_program_is_shown_with_the_folder_around_it() {
        let machine = Machine::new(&[("venv/bin/tool", ""), ("venv/lib/a", ""), ("other/file", "")]);
        let program = machine.path("venv/bin/tool");
        assert_eq!(
            machine.list(|needs| needs.program = program.clone().into()),
            ["venv"]
        );
        let path = machine.path("venv/bin").into_os_string();
        assert_eq!(machine.list(|needs| needs.path = path.clone()), ["venv"]);
        let folder = machine.path("venv/lib");
        assert_eq!(machine.list(|needs| needs.cwd = folder), ["venv"]);
        let relative = machine.list(|needs| {
            needs.program = "bin/tool".into();
            needs.cwd = machine.path("venv");
        });
        assert_eq!(relative, ["venv"]);
    }

    #[test]
    fn links_and_first_lines_of_scripts_are_followed() {
        let machine = Machine::new(&[("python/bin/python3", ""), ("run/run.sh", ""), ("env/tool", "")]);
        let script = |interpreter: String| {
            fs::write(machine.path("run/run.sh"), format!("#!{interpreter}\n")).unwrap();
            let program = machine.path("run/run.sh").into();
            machine.list(|needs| {
                needs.program = program;
                needs.path.push(":");
                needs.path.push(machine.path("env"));
            })
        };
        symlink(machine.path("python/bin"), machine.path("link")).unwrap();
        let named = |name: &str| machine.path(name).display().to_string();
        assert_eq!(script(named("python/bin/python3")), ["env", "python", "run"]);
        assert_eq!(
            script(format!(" {} -u", named("link/python3"))),
            ["env", "link", "python", "run"]
        );
        assert_eq!(script("/usr/bin/env -S tool".to_owned()), ["env", "run"]);
        assert_eq!(script("/bin/sh".to_owned()), ["env", "run"]);
    }

    #[test]
    fn settings_name_paths_in_words_options_lists_and_scripts() {
        let machine = Machine::new(&[("a/file", ""), ("b c/file", ""), ("d/file", "")]);
        let named = |text: String| machine.list(|needs| needs.texts.push(text.into()));
        let (a, b) = (machine.path("a/file"), machine.path("b c/file"));
        let (a, b) = (a.display(), b.display());
        assert_eq!(named(a.to_string()), ["a"]);
        assert_eq!(named(format!("{b}")), ["b c"]);
        assert_eq!(named(format!("--config={a}")), ["a"]);
        assert_eq!(named(format!("x:{a}:{b}")), ["a", "b c"]);
        assert_eq!(named(format!("cat <{a}; exec python3 '{b}' | wc")), ["a", "b c"]);
        for elsewhere in [
            format!("/home{a}"),
            format!("{a}x"),
            format!("a{a}"),
            "/tmp".to_owned(),
        ] {
            assert_eq!(named(elsewhere.clone()), [""; 0], "{elsewhere}");
        }
    }

    #[test]
    fn variables_of_tool_chains_show_their_folders_alone() {
        let machine = Machine::new(&[("home/lib/a.py", ""), ("home/other", ""), ("target/debug/x", "")]);
        let folder = |name: &str| Some(machine.path(name));
        let needs = CommandNeeds::default().with_tool_variables(|name| match name {
            "PYTHONPATH" => Some(format!("/usr/lib:{}", machine.path("home/lib").display()).into()),
            "CARGO_TARGET_DIR" => folder("target"),
            _ => None,
        });
        assert_eq!(machine.list(|other| other.folders = needs.folders), ["home/lib"]);
    }

    #[test]
    fn sockets_and_secrets_are_not_shown() {
        let machine = Machine::new(&[("a/file", ""), ("id_rsa", "")]);
        let _socket = UnixListener::bind(machine.path("socket")).unwrap();
        let named = |path: &Path| machine.list(|needs| needs.texts.push(path.into()));
        assert_eq!(named(&machine.path("socket")), [""; 0]);
        assert_eq!(named(&machine.path("id_rsa")), [""; 0]);
        for name in ["ssh-", "tmux-", "krb5cc_", ".X11-"] {
            let folder = tempfile::Builder::new().prefix(name).tempdir_in("/tmp").unwrap();
            fs::write(folder.path().join("file"), "").unwrap();
            assert_eq!(named(&folder.path().join("file")), [""; 0], "{name}");
        }
    }

    #[test]
    fn a_workspace_decides_nothing() {
        let machine = Machine::new(&[
            ("ws/run.sh", "#!/bin/sh\n"),
            ("secrets/file", ""),
            ("secrets/sh", ""),
        ]);
        let interpreter = machine.path("secrets/sh");
        fs::write(
            machine.path("ws/run.sh"),
            format!("#!{}\n", interpreter.display()),
        )
        .unwrap();
        symlink(machine.path("secrets"), machine.path("ws/link")).unwrap();
        let workspace = vec![machine.path("ws")];
        for program in ["ws/run.sh", "ws/link/sh"] {
            let visible = machine.list(|needs| {
                needs.program = machine.path(program).into();
                needs.texts.push(needs.program.clone());
                needs.workspace.clone_from(&workspace);
            });
            assert_eq!(visible, [""; 0], "{program}");
        }
    }
}
