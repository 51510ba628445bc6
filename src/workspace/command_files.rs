//! Looks up the files that a command line names, as bash finds them: through links, patterns, and a leading `cd`.
//!
//! Must not know commands or rules: `approval` collects the words and judges the findings. Reads names, links, and
//! git's small files; blocks. Fails closed: what cannot be checked within the bounds is a finding of its own.

mod repository;

use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use super::git_folder::{find_common_folder, find_git_folder};
use super::read_deny::ReadDeny;
use super::resolve::real_path;
use super::roots::Roots;
use crate::base::clock;
use crate::base::glob::GlobPattern;
use crate::base::nofollow::{self, FileKind, OpenFolder};
use crate::base::secret_path::is_secret_like;
use crate::domain::{CommandFiles, FileFinding, FileUsage, FileWord, FindingKind};

/// Most names examined per command line.
const MAX_NAMES: usize = 100_000;
/// Time limit per command line.
const MAX_TIME: Duration = Duration::from_millis(500);
/// Most findings kept; one is enough to ask.
const MAX_FINDINGS: usize = 16;
/// Largest git file or ignore file that is read, in bytes.
const MAX_SMALL_FILE: u64 = 1 << 20;

/// Files with ignore patterns. A search reads them fully, so a link to a device would exhaust the memory.
const IGNORE_FILES: &[&str] = &[".gitignore", ".ignore", ".rgignore"];

/// Returns what is special about the files that a command line names.
///
/// No finding means: all files are inside the workspace folders, none looks like a secret, and no name is mistaken for
/// an option.
pub(super) fn look_up(
    roots: &Roots,
    home: Option<&Path>,
    denied: &ReadDeny,
    cwd: &Path,
    files: &CommandFiles,
) -> Vec<FileFinding> {
    let mut lookup = CommandFileLookup {
        roots,
        home,
        denied,
        findings: Vec::new(),
        names: MAX_NAMES,
        until: clock::now().into_std() + MAX_TIME,
    };
    // If `cd` fails, the line may go on in the old folder.
    let mut folders = vec![cwd.to_owned()];
    if let Some(folder) = &files.folder {
        match lookup.resolve_word_path(cwd, folder) {
            Some(folder) => folders.push(folder),
            None => lookup.record_finding(0, FindingKind::Unchecked, folder),
        }
    }
    for word in &files.words {
        for folder in &folders {
            lookup.check_word(folder, word);
        }
        let is_there = |folder: &PathBuf| {
            let path = lookup
                .resolve_word_path(folder, &word.text)
                .and_then(|path| real_path(&path).ok());
            path.is_some_and(|path| nofollow::kind(&path).is_some())
        };
        if word.usage == FileUsage::ReadOrTag && !folders.iter().any(is_there) {
            lookup.record_finding(word.part, FindingKind::Tag, &word.text);
        }
    }
    if lookup.findings.len() == MAX_FINDINGS {
        // Others may be missing, so leaving these out would not be enough.
        for finding in &mut lookup.findings {
            finding.tracked_as = None;
        }
    }
    lookup.findings
}

/// Returns the paths that bash makes of a word in `folder`, and the word's own; `None` if there are too many.
pub(super) fn expand_word(
    roots: &Roots,
    home: Option<&Path>,
    denied: &ReadDeny,
    folder: &Path,
    (text, glob): (&str, bool),
) -> Option<Vec<PathBuf>> {
    let mut lookup = CommandFileLookup {
        roots,
        home,
        denied,
        findings: Vec::new(),
        names: MAX_NAMES,
        until: clock::now().into_std() + MAX_TIME,
    };
    let path = lookup.resolve_word_path(folder, text)?;
    let mut paths = if glob {
        lookup.expand_glob(&path)?
    } else {
        Vec::new()
    };
    // Without a match, bash passes on the pattern itself.
    paths.push(path);
    Some(paths)
}

struct CommandFileLookup<'a> {
    roots: &'a Roots,
    home: Option<&'a Path>,
    denied: &'a ReadDeny,
    findings: Vec<FileFinding>,
    /// Names that may still be examined.
    names: usize,
    until: Instant,
}

impl CommandFileLookup<'_> {
    fn record_finding(&mut self, part: usize, kind: FindingKind, file: impl AsRef<Path>) {
        self.record(FileFinding {
            part,
            kind,
            file: file.as_ref().to_string_lossy().into_owned(),
            tracked_as: None,
        });
    }

    fn record(&mut self, finding: FileFinding) {
        if self.findings.len() < MAX_FINDINGS && !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    fn is_secret(&self, real: &Path) -> bool {
        is_secret_like(real) || self.denied.covers(real)
    }

    /// Counts one name and returns whether the limits allow more.
    fn has_time(&mut self) -> bool {
        self.names = self.names.saturating_sub(1);
        // Only every 64th name reads the clock, which keeps the check cheap.
        self.names > 0 && (!self.names.is_multiple_of(64) || clock::now().into_std() < self.until)
    }

    /// Returns the path of a word as bash reads it; `None` if the home folder is needed but unknown.
    fn resolve_word_path(&self, folder: &Path, text: &str) -> Option<PathBuf> {
        match text.strip_prefix('~') {
            Some("") => self.home.map(Path::to_owned),
            Some(rest) if rest.starts_with('/') => Some(self.home?.join(rest.trim_start_matches('/'))),
            Some(_) | None => Some(folder.join(text)),
        }
    }

    fn check_word(&mut self, folder: &Path, word: &FileWord) {
        let mention = word.usage == FileUsage::Mention;
        let Some(path) = self.resolve_word_path(folder, &word.text) else {
            if !mention {
                self.record_finding(word.part, FindingKind::Unchecked, &word.text);
            }
            return;
        };
        // Without a match, bash passes on the pattern itself.
        self.check_file(word, &path);
        if !word.glob {
            return;
        }
        match self.expand_glob(&path) {
            Some(found) => {
                // `*` may expand to a name like `-rf`, which the command would take for an option.
                let relative = !word.text.starts_with(['/', '~', '.']) && !word.text.contains('/');
                for path in found {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    if relative && name.starts_with('-') && !word.text.starts_with('-') {
                        self.record_finding(word.part, FindingKind::OptionName, name.as_ref());
                    }
                    self.check_file(word, &path);
                }
            }
            None => self.record_finding(word.part, FindingKind::Unchecked, &word.text),
        }
    }

    fn check_file(&mut self, word: &FileWord, path: &Path) {
        let Ok(real) = real_path(path) else {
            // Fail closed: a path that cannot be resolved may lead anywhere.
            if word.usage != FileUsage::Mention {
                self.record_finding(word.part, FindingKind::Unchecked, path);
            }
            return;
        };
        let outside = self.roots.find_containing(&real).is_none();
        let secret = is_secret_like(path) || self.is_secret(&real);
        if word.usage == FileUsage::Mention {
            // Text that looks like a path names a file only if one is there or could be created there.
            let exists = nofollow::kind(&real).is_some();
            let is_creatable = real
                .parent()
                .is_some_and(|parent| is_folder(parent) && parent.parent().is_some());
            let device = real.starts_with("/dev") || real.starts_with("/usr/bin") || real.starts_with("/bin");
            if secret && exists {
                self.record_finding(word.part, FindingKind::Secret, path);
            } else if outside && (exists || is_creatable) && !device && is_path(&word.text) {
                self.record_finding(word.part, FindingKind::Outside, path);
            }
            return;
        }
        if outside {
            self.record_finding(word.part, FindingKind::Outside, path);
        } else if secret {
            self.record_finding(word.part, FindingKind::Secret, path);
        }
        match word.usage {
            FileUsage::Search { hidden } if !outside && is_folder(&real) => {
                self.check_search_tree(word.part, &real, hidden)
            }
            FileUsage::Repository { urls, contents } => {
                self.check_repository(word.part, &real, (urls, contents));
            }
            FileUsage::Search { .. }
            | FileUsage::Mention
            | FileUsage::List
            | FileUsage::Read
            | FileUsage::ReadOrTag => {}
        }
    }

    // ---- patterns ----

    /// Returns the files that bash expands a pattern to, or more; `None` if there are too many.
    fn expand_glob(&mut self, pattern: &Path) -> Option<Vec<PathBuf>> {
        let mut found = vec![PathBuf::new()];
        for component in pattern.components() {
            let name = component.as_os_str().to_string_lossy();
            match component {
                Component::Normal(_) if name.contains(['*', '?', '[']) => {
                    let glob = build_loose_glob(&name)?;
                    let mut next = Vec::new();
                    for folder in &found {
                        // Bash follows links in the folders of a pattern.
                        let Ok(real) = real_path(folder) else {
                            return None;
                        };
                        let entries = OpenFolder::open(&real).and_then(|folder| folder.read_entries());
                        for entry in entries.into_iter().flatten().flatten() {
                            if !self.has_time() {
                                return None;
                            }
                            let hidden = entry.name.to_string_lossy().starts_with('.');
                            if glob.is_match(&entry.name) && (!hidden || name.starts_with('.')) {
                                next.push(folder.join(&entry.name));
                            }
                        }
                    }
                    found = next;
                }
                _ => found.iter_mut().for_each(|path| path.push(component)),
            }
        }
        Some(found)
    }

    // ---- folders ----

    /// Checks what a search below a folder would read.
    fn check_search_tree(&mut self, part: usize, top: &Path, hidden: bool) {
        // A search also reads the ignore files above the folder, even above the workspace, and those of git's settings.
        let mut includes = self.check_global_ignore_files(part);
        for folder in top.ancestors().skip(1) {
            includes |= self.check_ignore_files(part, folder);
        }
        let mut folders = vec![top.to_owned()];
        while let Some(folder) = folders.pop() {
            includes |= self.check_ignore_files(part, &folder);
            if includes && !hidden {
                // What it includes is not skipped, also where it is hidden.
                return self.check_search_tree(part, top, true);
            }
            let entries = OpenFolder::open(&folder).and_then(|folder| folder.read_entries());
            for entry in entries.into_iter().flatten().flatten() {
                if !self.has_time() {
                    self.record_finding(part, FindingKind::Unchecked, top);
                    return;
                }
                let path = folder.join(&entry.name);
                let is_hidden = entry.name.to_string_lossy().starts_with('.');
                if is_hidden && !hidden {
                    continue;
                }
                if self.is_secret(&path) && !is_harmless_git_config(&path) {
                    self.record_finding(part, FindingKind::Secret, &path);
                    // One secret is enough to ask.
                    return;
                }
                if entry.kind == FileKind::Link {
                    // Some commands follow links.
                    match real_path(&path) {
                        Ok(real) if self.is_secret(&real) => {
                            self.record_finding(part, FindingKind::Secret, &path)
                        }
                        Ok(real) if self.roots.find_containing(&real).is_none() => {
                            self.record_finding(part, FindingKind::Outside, &path);
                        }
                        Ok(_) | Err(_) => {}
                    }
                } else if entry.kind == FileKind::Folder {
                    folders.push(path);
                }
            }
        }
    }

    /// Checks the ignore files of a folder. Returns whether one of them includes files, which can be hidden ones.
    fn check_ignore_files(&mut self, part: usize, folder: &Path) -> bool {
        let has_git = nofollow::kind(&folder.join(".git")).is_some();
        let git = has_git
            .then(|| find_common_folder(&find_git_folder(folder)?))
            .flatten();
        let is_inside = self.roots.find_containing(folder).is_some();
        let mut includes = false;
        for path in IGNORE_FILES.iter().map(|name| folder.join(name)) {
            includes |= self.check_ignore_file(part, &path, is_inside);
        }
        if let Some(git) = git {
            includes |= self.check_ignore_file(part, &git.join("info/exclude"), is_inside);
        }
        includes
    }

    /// Checks the ignore files that are the user's own, for all repositories.
    fn check_global_ignore_files(&mut self, part: usize) -> bool {
        let Some(home) = self.home else {
            return false;
        };
        let named = [".gitconfig", ".config/git/config"].map(|name| small_text(&home.join(name)));
        let mut files = vec![home.join(".config/git/ignore")];
        for line in named.iter().flatten().flat_map(|text| text.lines()) {
            if let Some((key, value)) = line.split_once('=')
                && key.trim().eq_ignore_ascii_case("excludesfile")
            {
                files.extend(self.resolve_word_path(home, value.trim().trim_matches('"')));
            }
        }
        let mut includes = false;
        for path in files {
            includes |= self.check_ignore_file(part, &path, false);
        }
        includes
    }

    fn check_ignore_file(&mut self, part: usize, path: &Path, is_inside: bool) -> bool {
        if nofollow::kind(path).is_none() {
            return false;
        }
        // People keep their own files elsewhere, behind links.
        let real = (!is_inside).then(|| real_path(path).ok()).flatten();
        let Ok(text) = nofollow::read(real.as_deref().unwrap_or(path), MAX_SMALL_FILE) else {
            self.record_finding(part, FindingKind::Unchecked, path);
            return false;
        };
        // Searches skip a byte order mark.
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
        text.split(|byte| *byte == b'\n')
            .any(|line| line.starts_with(b"!"))
    }
}

/// Returns whether the text looks like a path.
fn is_path(text: &str) -> bool {
    text.starts_with(['/', '~']) || text == ".." || text.starts_with("../") || text.contains('/')
}

/// Builds a pattern that matches at least what the word's pattern matches, however its brackets were quoted.
fn build_loose_glob(name: &str) -> Option<GlobPattern> {
    let mut pattern = String::new();
    match (name.find('['), name.rfind(']')) {
        (Some(from), to) => {
            pattern.push_str(&escape_except_wildcards(&name[..from]));
            pattern.push('*');
            pattern.push_str(&escape_except_wildcards(
                to.filter(|to| *to > from).map_or("", |to| &name[to + 1..]),
            ));
        }
        (None, _) => pattern.push_str(&escape_except_wildcards(name)),
    }
    GlobPattern::for_names(&pattern).ok()
}

/// Escapes everything special but `*` and `?`.
fn escape_except_wildcards(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            matches!(c, '\\' | '{' | '}' | '[' | ']' | '!')
                .then_some('\\')
                .into_iter()
                .chain([c])
        })
        .collect()
}

fn is_folder(path: &Path) -> bool {
    nofollow::kind(path) == Some(FileKind::Folder)
}

fn small_text(path: &Path) -> Option<String> {
    let real = real_path(path).ok()?;
    String::from_utf8(nofollow::read(&real, MAX_SMALL_FILE).ok()?).ok()
}

/// Returns whether this is git's config without a password. Every search of a repository meets that file.
fn is_harmless_git_config(path: &Path) -> bool {
    path.ends_with(".git/config")
        && small_text(path).is_some_and(|text| !holds_password(&text.to_lowercase()))
}

/// Returns whether an address in git's settings contains a password or a token.
fn holds_password(config: &str) -> bool {
    config.split("://").skip(1).any(|rest| {
        let host = rest.split(['/', '\n', '"']).next().unwrap_or_default();
        // `git@` is the usual SSH user, not a credential.
        host.rsplit_once('@').is_some_and(|(user, _)| user != "git")
    })
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;

    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::super::roots::Folder;
    use super::*;
    use crate::domain::GitContents;

    const REPOSITORY: FileUsage = FileUsage::Repository {
        urls: false,
        contents: GitContents::None,
    };

    struct FilePlace {
        _dir: TempDir,
        base: PathBuf,
        roots: Roots,
    }

    impl FilePlace {
        /// Creates the workspace `ws` with the folder `out` next to it.
        fn new() -> Self {
            let dir = TempDir::new().unwrap();
            let base = dir.path().canonicalize().unwrap();
            fs::create_dir_all(base.join("ws/sub")).unwrap();
            fs::create_dir_all(base.join("out")).unwrap();
            fs::write(base.join("out/plain"), "x").unwrap();
            fs::write(base.join("ws/a.txt"), "x").unwrap();
            let folder = Folder {
                name: "ws".to_owned(),
                path: base.join("ws"),
            };
            Self {
                _dir: dir,
                base,
                roots: Roots::new(&[folder]),
            }
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.base.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn find_kinds(&self, text: &str, usage: FileUsage) -> Vec<FindingKind> {
            self.kinds_in(None, text, usage)
        }

        fn kinds_in(&self, folder: Option<&str>, text: &str, usage: FileUsage) -> Vec<FindingKind> {
            let files = CommandFiles {
                folder: folder.map(str::to_owned),
                words: vec![FileWord {
                    part: 0,
                    text: text.to_owned(),
                    glob: text.contains(['*', '?', '[']),
                    usage,
                }],
                programs: Vec::new(),
            };
            let home = self.base.join("home");
            let denied = ReadDeny::new([self.base.join("ws/denied")]);
            let found = look_up(&self.roots, Some(&home), &denied, &self.base.join("ws"), &files);
            found.into_iter().map(|finding| finding.kind).collect()
        }
    }

    #[test]
    fn files_are_found_where_bash_finds_them() {
        use FindingKind::{OptionName, Outside, Secret};
        let fixture = FilePlace::new();
        symlink("../out/plain", fixture.base.join("ws/link")).unwrap();
        symlink("../out", fixture.base.join("ws/folder")).unwrap();
        symlink(".env", fixture.base.join("ws/notes.txt")).unwrap();
        fixture.write("ws/.env", "x");
        fixture.write("ws/-oPWN", "x");
        fixture.write("out/shadow", "x");
        fixture.write("ws/denied/notes", "x");
        let read = |text| fixture.find_kinds(text, FileUsage::Read);
        for inside in [
            "a.txt",
            "sub/new",
            "./a.txt",
            "sub/../a.txt",
            "HEAD~1",
            "sub/*.rs",
            "a*",
        ] {
            assert_eq!(read(inside), [], "{inside}");
        }
        for outside in [
            "link",
            "folder/plain",
            "../out/plain",
            "/etc/hosts",
            "~",
            "~/x",
            "folder/pl*",
            "l*k",
            "sub/../../out",
        ] {
            assert!(read(outside).contains(&Outside), "{outside}");
        }
        for secret in [
            ".env",
            "notes.txt",
            ".e*",
            "n*",
            ".en[v]",
            "?otes.txt",
            "denied/notes",
            "denied/n*",
            "folder/sha*",
        ] {
            let found = read(secret);
            assert!(
                found.contains(&Secret) || secret.starts_with("folder") && found.contains(&Outside),
                "{secret}"
            );
        }
        for option in ["*", "?oPWN", "[-]o*"] {
            assert!(read(option).contains(&OptionName), "{option}");
        }
        assert!(!read("./*").contains(&OptionName));
        // After `cd` both folders count.
        assert!(
            fixture
                .kinds_in(Some("../out"), "plain", FileUsage::Read)
                .contains(&Outside)
        );
        assert_eq!(fixture.kinds_in(Some("sub"), "new", FileUsage::Read), []);
    }

    #[test]
    fn a_search_finds_secrets_and_links_below() {
        let fixture = FilePlace::new();
        let search = |hidden| fixture.find_kinds(".", FileUsage::Search { hidden });
        assert_eq!(search(true), []);
        fixture.write("ws/sub/.env", "x");
        assert_eq!(search(false), []);
        assert_eq!(search(true), [FindingKind::Secret]);
        fs::remove_file(fixture.base.join("ws/sub/.env")).unwrap();
        symlink("/etc/hosts", fixture.base.join("ws/sub/l")).unwrap();
        assert_eq!(search(false), [FindingKind::Outside]);
        fs::remove_file(fixture.base.join("ws/sub/l")).unwrap();
        symlink("/dev/zero", fixture.base.join("ws/sub/.gitignore")).unwrap();
        assert_eq!(search(false), [FindingKind::Unchecked]);
    }

    #[test]
    fn a_repository_must_be_inside_and_lead_nowhere_else() {
        let fixture = FilePlace::new();
        let look = |urls| {
            let usage = FileUsage::Repository {
                urls,
                contents: GitContents::None,
            };
            fixture.find_kinds(".", usage)
        };
        assert_eq!(look(true), [FindingKind::Unchecked]);
        // The repository of the folder above.
        fixture.write(".git/HEAD", "x");
        assert_eq!(look(false), [FindingKind::Outside]);
        fixture.write("ws/.git/HEAD", "x");
        fixture.write(
            "ws/.git/config",
            "[remote \"origin\"]\n url = ssh://git@example.org/a\n",
        );
        assert_eq!(look(true), []);
        for config in [
            "[core]\n WorkTree = /",
            "[Include]\n path = /x",
            "[extensions]\n worktreeConfig = true",
        ] {
            fixture.write("ws/.git/config", config);
            assert_eq!(look(false), [FindingKind::Unchecked], "{config}");
        }
        for address in ["https://token@example.org/a", "https://u:p@example.org/a"] {
            fixture.write("ws/.git/config", &format!("url = {address}\n"));
            assert_eq!(
                (look(false), look(true)),
                (vec![], vec![FindingKind::Secret]),
                "{address}"
            );
        }
        fixture.write("ws/.git/commondir", "/elsewhere");
        assert_eq!(look(false), [FindingKind::Unchecked]);
        // A bare repository among the files.
        for name in ["HEAD", "objects/x", "refs/x"] {
            fixture.write(&format!("ws/api/{name}"), "x");
        }
        assert_eq!(fixture.find_kinds("api", REPOSITORY), [FindingKind::Unchecked]);
    }

    #[test]
    fn an_ignore_file_that_includes_hidden_files_makes_a_search_read_them() {
        let fixture = FilePlace::new();
        let search = || fixture.find_kinds("sub", FileUsage::Search { hidden: false });
        fixture.write("ws/sub/deep/.env", "x");
        fixture.write("ws/sub/.gitignore", "*.log\n");
        assert_eq!(search(), []);
        fixture.write("home/.gitconfig", "[core]\n\texcludesFile = \"~/mine\"\n");
        for file in [
            "ws/.ignore",
            "ws/sub/.rgignore",
            "ws/sub/deep/.gitignore",
            "ws/.git/info/exclude",
            ".ignore",
            "home/mine",
            "home/.config/git/ignore",
        ] {
            fixture.write(file, "*.log\n!.env\n");
            assert_eq!(search(), [FindingKind::Secret], "{file}");
            fs::remove_file(fixture.base.join(file)).unwrap();
        }
        assert_eq!(search(), []);
    }

    #[expect(clippy::disallowed_methods, reason = "a repository to look at")]
    fn run_git(folder: &Path, args: &[&str]) {
        let done = std::process::Command::new("git")
            .current_dir(folder)
            .args(args)
            .output()
            .unwrap();
        assert!(done.status.success(), "{args:?}: {done:?}");
    }

    #[test]
    fn a_word_without_a_file_may_be_a_tag() {
        let fixture = FilePlace::new();
        fixture.write("ws/sub/new", "x");
        let find = |folder, word| fixture.kinds_in(folder, word, FileUsage::ReadOrTag);
        assert_eq!(find(None, "a.txt"), []);
        assert_eq!(find(None, "new"), [FindingKind::Tag]);
        assert_eq!(find(Some("sub"), "new"), []);
    }

    #[test]
    fn a_tracked_secret_is_found_where_git_shows_contents() {
        let fixture = FilePlace::new();
        let ws = fixture.base.join("ws");
        let look = |contents| {
            let usage = FileUsage::Repository {
                urls: false,
                contents,
            };
            fixture.find_kinds(".", usage)
        };
        run_git(&ws, &["init", "-q"]);
        fixture.write("ws/.env", "x");
        assert_eq!(look(GitContents::Named), []);
        assert_eq!(look(GitContents::Any), [FindingKind::History]);
        run_git(&ws, &["add", "a.txt"]);
        assert_eq!(look(GitContents::Named), [], "an untracked secret is not shown");
        run_git(&ws, &["add", ".env"]);
        assert_eq!(look(GitContents::Named), [FindingKind::Secret]);
        assert_eq!(
            look(GitContents::Any),
            [FindingKind::Secret, FindingKind::History]
        );
        assert_eq!(look(GitContents::None), []);
        run_git(&ws, &["rm", "-q", "--cached", ".env"]);
        for name in ["notes.txt~", "key.pem.png", "notes.bak", ".env.example"] {
            fixture.write(&format!("ws/{name}"), "x");
        }
        run_git(&ws, &["add", "."]);
        run_git(&ws, &["rm", "-q", "--cached", ".env"]);
        assert_eq!(look(GitContents::Named), [], "these are no secrets");
        assert_eq!(
            look(GitContents::Any),
            [FindingKind::LeftOut, FindingKind::History]
        );
        run_git(&ws, &["add", ".env"]);
        run_git(&ws, &["update-index", "--split-index"]);
        assert_eq!(look(GitContents::Named), [FindingKind::Unchecked]);
        fs::remove_file(ws.join(".git/index")).unwrap();
        assert_eq!(look(GitContents::Named), []);
        fixture.write("ws/.git/packed-refs", "");
        assert_eq!(
            look(GitContents::Named),
            [FindingKind::Unchecked],
            "what is committed is unknown"
        );
    }

    #[test]
    fn the_repository_around_a_root_counts_if_commands_may_write_it() {
        // Not in `/tmp`, where commands do not see the rest of the work tree.
        let program = std::env::current_exe().unwrap();
        let dir = TempDir::new_in("/var/lib").or_else(|_| TempDir::new_in(program.parent().unwrap()));
        let dir = dir.unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (home, repository, ws) = (
            base.join("home"),
            base.join("mono"),
            base.join("mono/services/api"),
        );
        for folder in [&home, &ws.join("src"), &repository.join(".git")] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(repository.join(".git/HEAD"), "").unwrap();
        let roots = Roots::of_cwd(&ws);
        let look = |home: Option<&Path>, folder: &str, config: &str| {
            fs::write(repository.join(".git/config"), config).unwrap();
            let word = FileWord {
                part: 0,
                text: folder.to_owned(),
                glob: false,
                usage: FileUsage::Repository {
                    urls: true,
                    contents: GitContents::None,
                },
            };
            let files = CommandFiles {
                words: vec![word],
                ..CommandFiles::default()
            };
            let found = look_up(&roots, home, &ReadDeny::new([]), &ws, &files).into_iter();
            found.map(|finding| finding.kind).collect::<Vec<_>>()
        };
        let plain = "[core]\n bare = false";
        assert_eq!(look(Some(&home), ".", plain), []);
        assert_eq!(look(Some(&home), "src", plain), []);
        assert_eq!(look(Some(&home), "..", plain)[0], FindingKind::Outside);
        for config in ["[core]\n worktree = /", "[include]\n path = /x"] {
            assert_ne!(look(Some(&home), ".", config), [], "{config}");
        }
        let with_password = "url = https://u:p@example.org/a";
        assert_eq!(look(Some(&home), ".", with_password), [FindingKind::Secret]);
        // It could be that of the home folder.
        for home in [Some(&*repository), Some(&*ws), None] {
            assert_eq!(look(home, ".", plain), [FindingKind::Outside], "{home:?}");
        }
    }

    #[test]
    fn a_git_file_counts_only_if_the_repository_knows_it() {
        let fixture = FilePlace::new();
        let look = || fixture.find_kinds(".", REPOSITORY);
        fixture.write("out/main/config", "");
        fixture.write("out/main/worktrees/ws/commondir", "../..\n");
        fixture.write("ws/.git", "gitdir: ../out/main/worktrees/ws\n");
        fixture.write("out/main/worktrees/ws/gitdir", "/another/.git\n");
        assert_eq!(look(), [FindingKind::Unchecked]);
        fixture.write(
            "out/main/worktrees/ws/gitdir",
            &format!("{}\n", fixture.base.join("ws/.git").display()),
        );
        assert_eq!(look(), []);
    }
}
