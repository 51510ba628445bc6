//! Evaluates what `.ignore`, `.gitignore`, `.git/info/exclude`, and the user's own git settings exclude.
//!
//! Follows git's precedence: deeper files override those above. For a repository inside another one, only its own
//! `.gitignore` files count. A repository provides these files, so each is bounded (see the constants). A file that is
//! too large or not regular has no effect, and [`IgnoreRules::unusable_files`] reports it. Must not walk; `tool::walk`
//! does.

use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder, gitconfig_excludes_path};

use super::git_folder::{find_common_folder, find_git_folder};
use super::real_path::real_path;
use crate::base::glob::check_limits;
use crate::base::nofollow::{self, FileKind, OpenError};

/// Largest ignore file, in bytes.
const MAX_FILE: usize = 256 << 10;
/// Most lines in an ignore file.
const MAX_LINES: usize = 10_000;
/// Longest pattern, in bytes.
const MAX_LINE: usize = 4 << 10;
/// Largest total of the ignore files that apply to one folder, in bytes.
const MAX_ALL: usize = 1 << 20;
/// Most patterns with wildcards beyond `*.extension` that apply to one folder. Each is a regular expression, and
/// thousands take seconds to compile and to match.
const MAX_WILDCARDS: usize = 1_000;
/// Most unusable files reported.
const MAX_UNUSABLE: usize = 5;

/// Names of the ignore files in a folder.
pub const IGNORE_FILES: [&str; 2] = [".ignore", ".gitignore"];

/// The rules that apply to a folder: its own and those of the folders around it.
#[derive(Debug, Default)]
pub struct IgnoreRules {
    /// From the user's git settings.
    global: Option<Gitignore>,
    levels: Vec<FolderRules>,
    unusable: Vec<UnusableRules>,
}

/// The rules of one folder.
#[derive(Debug)]
struct FolderRules {
    folder: PathBuf,
    ignore: Option<Gitignore>,
    gitignore: Option<Gitignore>,
    exclude: Option<Gitignore>,
    is_repository: bool,
    size: RulesSize,
}

/// The cost of rules.
#[derive(Clone, Copy, Debug, Default)]
struct RulesSize {
    bytes: usize,
    wildcards: usize,
}

impl std::ops::AddAssign for RulesSize {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.wildcards += other.wildcards;
    }
}

/// An ignore file without effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableRules {
    pub path: PathBuf,
    pub reason: String,
}

impl IgnoreRules {
    /// Collects the rules above the resolved folder `start`, for a walk that starts there. Blocks.
    ///
    /// Goes up to the top of the repository, or up to `top` outside of one. [`Self::enter_folder`] adds those of
    /// `start`.
    pub fn from_ancestors(start: &Path, top: Option<&Path>) -> Self {
        let mut rules = Self::default();
        if let Some(path) = gitconfig_excludes_path()
            && let Ok(real) = real_path(&path)
        {
            rules.global = rules
                .read(start, &real, RulesSize::default())
                .map(|(global, _)| global);
        }
        let is_top = |folder: &Path| nofollow::kind(&folder.join(".git")).is_some();
        let repository = start.ancestors().find(|folder| is_top(folder));
        let Some(top) = repository.or(top.filter(|top| start.starts_with(top))) else {
            return rules;
        };
        let mut above: Vec<&Path> = start
            .ancestors()
            .skip(1)
            .take_while(|folder| folder.starts_with(top))
            .collect();
        above.reverse();
        for folder in above {
            // These folders were not listed, so any name may be there.
            rules.enter_folder(folder, |_| true);
        }
        rules
    }

    /// Adds the rules of `folder`, which is below those entered before.
    ///
    /// `holds` tells whether the folder may contain a name, so that fewer files are opened.
    pub fn enter_folder(&mut self, folder: &Path, holds: impl Fn(&str) -> bool) {
        let mut used = RulesSize::default();
        for level in &self.levels {
            used += level.size;
        }
        let mut level = FolderRules {
            folder: folder.to_owned(),
            ignore: None,
            gitignore: None,
            exclude: None,
            is_repository: holds(".git") && nofollow::kind(&folder.join(".git")).is_some(),
            size: RulesSize::default(),
        };
        let mut take = |rules: &mut Self, path: &Path| {
            let (matcher, size) = rules.read(folder, path, used)?;
            level.size += size;
            used += size;
            Some(matcher)
        };
        let [ignore, gitignore] =
            IGNORE_FILES.map(|name| holds(name).then(|| take(self, &folder.join(name))).flatten());
        let exclude = level
            .is_repository
            .then(|| exclude_file(folder))
            .flatten()
            .and_then(|path| take(self, &path));
        (level.ignore, level.gitignore, level.exclude) = (ignore, gitignore, exclude);
        // A repository without rules still ends the reach of the `.gitignore` files above it.
        if level.size.bytes > 0 || level.is_repository {
            self.levels.push(level);
        }
    }

    /// Removes the rules of folders that do not contain `folder`.
    pub fn leave_to(&mut self, folder: &Path) {
        while (self.levels.last()).is_some_and(|level| !folder.starts_with(&level.folder)) {
            self.levels.pop();
        }
    }

    /// Evaluates `path`, which is in the folder entered last.
    pub fn evaluate_path(&self, path: &Path, is_folder: bool) -> IgnoreVerdict {
        let (mut ignore, mut gitignore, mut exclude) = (Match::None, Match::None, Match::None);
        let mut is_outer = false;
        let ask = |found: &mut Match<()>, rules: &Option<Gitignore>| {
            if let Some(rules) = rules.as_ref().filter(|_| found.is_none()) {
                *found = rules.matched(path, is_folder).map(|_| ());
            }
        };
        for level in self.levels.iter().rev() {
            ask(&mut ignore, &level.ignore);
            // Above the repository that contains the path, only `.ignore` files count.
            if !is_outer {
                ask(&mut gitignore, &level.gitignore);
                ask(&mut exclude, &level.exclude);
            }
            is_outer |= level.is_repository;
        }
        let mut global = Match::None;
        ask(&mut global, &self.global);
        // `.ignore` wins over git's own files, whatever their level.
        match ignore.or(gitignore).or(exclude).or(global) {
            Match::None => IgnoreVerdict::Unnamed,
            Match::Ignore(()) => IgnoreVerdict::Excluded,
            Match::Whitelist(()) => IgnoreVerdict::Included,
        }
    }

    /// Returns the ignore files without effect, the first five at most.
    pub fn unusable_files(&self) -> &[UnusableRules] {
        &self.unusable
    }

    /// Reads an ignore file as a matcher relative to `folder`, with its size.
    fn read(&mut self, folder: &Path, path: &Path, used: RulesSize) -> Option<(Gitignore, RulesSize)> {
        match parse(folder, path, used) {
            Ok(parsed) => parsed,
            Err(reason) => {
                if self.unusable.len() < MAX_UNUSABLE {
                    let path = path.to_owned();
                    self.unusable.push(UnusableRules { path, reason });
                }
                None
            }
        }
    }
}

/// Lists the ignore files around the resolved folder `start` that may apply there, whether they exist or not.
pub(super) fn list_outer_rules(start: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = gitconfig_excludes_path().into_iter().collect();
    let is_top = |folder: &&Path| nofollow::kind(&folder.join(".git")).is_some();
    let Some(top) = start.ancestors().find(is_top) else {
        return files;
    };
    for folder in start
        .ancestors()
        .skip(1)
        .take_while(|folder| folder.starts_with(top))
    {
        files.extend(IGNORE_FILES.map(|name| folder.join(name)));
    }
    files
}

/// The verdict of the rules on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IgnoreVerdict {
    /// No pattern matches it.
    Unnamed,
    Excluded,
    /// A pattern with `!` includes it.
    Included,
}

fn parse(folder: &Path, path: &Path, used: RulesSize) -> Result<Option<(Gitignore, RulesSize)>, String> {
    let bytes = match nofollow::read(path, MAX_FILE as u64) {
        Ok(bytes) if bytes.is_empty() => return Ok(None),
        Ok(bytes) => bytes,
        // Git ignores a folder of that name too.
        Err(OpenError::Missing | OpenError::NotRegular(FileKind::Folder)) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let length = bytes.len();
    if used.bytes + length > MAX_ALL {
        return Err(format!(
            "the ignore files above it already have {} bytes; the limit is {MAX_ALL}",
            used.bytes
        ));
    }
    let text = String::from_utf8_lossy(&bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    if text.lines().nth(MAX_LINES).is_some() {
        return Err(format!("it has more than {MAX_LINES} lines"));
    }
    if text.lines().any(|line| line.len() > MAX_LINE) {
        return Err(format!("it has a line of more than {MAX_LINE} bytes"));
    }
    let wildcards = text.lines().filter(|line| has_wildcards(line)).count();
    if used.wildcards + wildcards > MAX_WILDCARDS {
        return Err(format!(
            "with the ignore files above it, it has more than {MAX_WILDCARDS} patterns with wildcards"
        ));
    }
    let mut builder = GitignoreBuilder::new(folder);
    for line in text.lines() {
        // A line that is not a pattern excludes nothing, as in git. One beyond the limits would spoil all others.
        if check_limits(line).is_err() {
            continue;
        }
        let _ = builder.add_line(None, line);
    }
    match builder.build() {
        Ok(matcher) => {
            let bytes = length;
            Ok(Some((matcher, RulesSize { bytes, wildcards })))
        }
        Err(_) => Err("its patterns are too complex".to_owned()),
    }
}

/// Returns whether a pattern needs a regular expression; names and extensions are looked up.
fn has_wildcards(line: &str) -> bool {
    let line = line.trim_start_matches('!');
    let line = line.strip_prefix("**/").unwrap_or(line);
    let line = line.strip_prefix("*.").unwrap_or(line);
    !line.starts_with('#') && line.contains(['*', '?', '[', '{', '\\'])
}

/// Returns the file where git keeps what only this clone of the repository excludes.
pub(super) fn exclude_file(repository: &Path) -> Option<PathBuf> {
    Some(find_common_folder(&find_git_folder(repository)?)?.join("info/exclude"))
}
