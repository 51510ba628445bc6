//! Which files `grep` searches, by its `glob` and `type`. Must not read files.

use std::path::{Path, PathBuf};

use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};

use super::output::refuse_input;
use super::search_pattern::{escape_brackets, find_hidden_names, has_brackets, read_brackets_literally};
use super::{ToolContext, ToolError};
use crate::base::glob::{GlobPattern, check_limits};
use crate::base::nearest::nearest_few;
use crate::base::nofollow;
use crate::base::text::one_line;
use crate::workspace::ResolvedPath;

/// Most patterns in a list.
const MAX_PATTERNS: usize = 100;
/// Most characters of a pattern that an error repeats.
const MAX_REPEATED: usize = 150;

/// Selects files by name.
pub(super) struct FileFilter {
    names: NameFilter,
    types: Option<Types>,
}

#[derive(Default)]
struct NameFilter {
    patterns: Option<Override>,
    hidden_names: Vec<GlobPattern>,
    /// The folders with which all patterns begin; empty if one may match anywhere.
    folders: Vec<PathBuf>,
}

impl FileFilter {
    /// Creates the filter for a search that begins at `starts`.
    ///
    /// `globs` is read as ripgrep reads its `--glob`, and may be a list: `*.ts,!*.test.ts`.
    ///
    /// # Errors
    /// A pattern is invalid, or the type is unknown.
    pub(super) fn new(
        globs: Option<&str>,
        file_type: Option<&str>,
        cx: &ToolContext,
        starts: &[ResolvedPath],
    ) -> Result<Self, ToolError> {
        let names = globs.map(|globs| build_name_filter(globs, cx, starts));
        Ok(Self {
            names: names.transpose()?.unwrap_or_default(),
            types: file_type.map(build_type_filter).transpose()?,
        })
    }

    /// Returns the hidden names that the filter names.
    pub(super) fn hidden_names(&self) -> Vec<GlobPattern> {
        self.names.hidden_names.clone()
    }

    /// Returns the only folders that can contain selected files, relative to the start; empty for all.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        self.names.folders.clone()
    }

    /// Returns whether the filter selects the file `path`, which is `below` relative to the start of the walk.
    pub(super) fn is_match(&self, path: &Path, below: &Path) -> bool {
        let is_of_type = |types: &Types| types.matched(path, false).is_whitelist();
        let is_named = |names: &Override| !names.matched(below, false).is_ignore();
        self.types.as_ref().is_none_or(is_of_type) && self.names.patterns.as_ref().is_none_or(is_named)
    }
}

fn build_name_filter(
    globs: &str,
    cx: &ToolContext,
    starts: &[ResolvedPath],
) -> Result<NameFilter, ToolError> {
    let count = split_list(globs).count();
    if count > MAX_PATTERNS {
        return refuse_input(format!(
            "`glob` has {count} patterns; the limit is {MAX_PATTERNS}. Use fewer, broader patterns, or path"
        ));
    }
    let mut builder = OverrideBuilder::new("");
    let (mut filter, mut folders) = (NameFilter::default(), Some(Vec::new()));
    for stated in split_list(globs) {
        let (mark, glob) = match stated.strip_prefix('!') {
            Some(glob) => ("!", glob),
            None => ("", stated),
        };
        let below = Path::new(glob).strip_prefix(&cx.cwd).ok().and_then(Path::to_str);
        let glob = below.unwrap_or(glob);
        let glob = glob.strip_prefix("./").unwrap_or(glob);
        // The files in a folder, not the folder.
        let all = if glob.ends_with('/') { "**" } else { "" };
        let invalid = |error: String| {
            let stated = one_line(stated, MAX_REPEATED);
            ToolError::WrongInput(format!("`{stated}` is not a valid pattern: {error}"))
        };
        check_limits(glob).map_err(|error| invalid(error.to_string()))?;
        if mark.is_empty() {
            filter.hidden_names.extend(find_hidden_names(glob));
            let folder = find_literal_folder(glob);
            folders = folders
                .zip(folder)
                .map(|(folders, folder)| [folders, vec![folder]].concat());
        }
        for reading in choose_readings(glob, starts) {
            let added = builder.add(&format!("{mark}{reading}{all}"));
            added.map_err(|error| invalid(error.to_string()))?;
        }
    }
    let patterns = builder.build().map_err(|error| {
        let globs = one_line(globs, MAX_REPEATED);
        ToolError::WrongInput(format!("`{globs}` is not a valid pattern: {error}"))
    })?;
    Ok(NameFilter {
        patterns: Some(patterns),
        folders: folders.unwrap_or_default(),
        ..filter
    })
}

/// Returns the folder with which a pattern begins; `None` if it may match in any.
fn find_literal_folder(glob: &str) -> Option<PathBuf> {
    let glob = glob.trim_start_matches('/');
    let is_literal = |part: &&str| *part != ".." && !part.contains(['*', '?', '[', '{', '\\']);
    let (folders, _) = glob.rsplit_once('/')?;
    let folder: PathBuf = folders.split('/').take_while(is_literal).collect();
    (!folder.as_os_str().is_empty()).then_some(folder)
}

/// Returns the readings of the brackets in `glob`. A name that exists wins over a character class; behind a wildcard
/// both count, as only the walk would show what exists there.
fn choose_readings(glob: &str, starts: &[ResolvedPath]) -> Vec<String> {
    let (mut fixed, mut name) = (Vec::new(), String::new());
    let mut parts = glob.trim_start_matches('/').split('/').peekable();
    // Without `/`, the pattern matches at any depth.
    while glob.contains('/')
        && let Some(part) = parts.next_if(|part| *part != ".." && !part.contains(['*', '?', '{', '\\']))
    {
        let next = format!("{name}{part}");
        let exists = |start: &ResolvedPath| nofollow::kind(&start.absolute.join(&next)).is_some();
        let is_name = has_brackets(part) && starts.iter().any(exists);
        if has_brackets(part) && !is_name {
            fixed.push(part.to_owned());
            break;
        }
        fixed.push(if is_name {
            escape_brackets(part)
        } else {
            part.to_owned()
        });
        name = format!("{next}/");
    }
    let rest: Vec<&str> = parts.collect();
    let rest = rest.join("/");
    let anchor = if glob.starts_with('/') { "/" } else { "" };
    let head = format!("{anchor}{}", fixed.join("/"));
    let separator = if fixed.is_empty() || rest.is_empty() {
        ""
    } else {
        "/"
    };
    let mut readings = vec![rest.clone()];
    readings.extend(read_brackets_literally(&rest));
    readings
        .iter()
        .map(|rest| format!("{head}{separator}{rest}"))
        .collect()
}

/// Splits a list at its commas, except those in braces.
fn split_list(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    list.split(move |letter| {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|glob| !glob.is_empty())
}

fn build_type_filter(name: &str) -> Result<Types, ToolError> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    let known: Vec<String> = (builder.definitions().iter())
        .map(|definition| definition.name().to_owned())
        .collect();
    // `all` would select every type, which is not what it says.
    if name == "all" || !known.iter().any(|known| known == name) {
        let near = nearest_few(name, known.iter().map(String::as_str), 3);
        let hint = match near.as_slice() {
            [] => String::new(),
            near => format!(". Did you mean {}?", near.join(" or ")),
        };
        return refuse_input(format!(
            "type: `{name}` is not known{hint} (to choose files by name, use glob)"
        ));
    }
    let filter = builder.select(name).build();
    filter.map_err(|error| ToolError::WrongInput(format!("type: {error}")))
}

#[cfg(test)]
mod tests {
    use super::super::testing::ToolHarness;
    use super::*;

    #[test]
    fn only_the_folders_with_which_all_patterns_begin_are_searched() {
        let harness = ToolHarness::new();
        for (globs, folders) in [
            ("src/**/*.[ch]", &["src"][..]),
            ("./src/a/*.c, /lib/x.c,!src/a/b.c", &["src/a", "lib"]),
            ("src/", &["src"]),
            ("src/{a,b}/*.c", &["src"]),
            ("src/[id]/*.c", &["src"]),
            ("**/*.[ch]", &[]),
            ("*.c", &[]),
            ("src/*.c,*.h", &[]),
            ("!src/*.c", &[]),
            ("../x/*.c", &[]),
        ] {
            let filter = FileFilter::new(Some(globs), None, &harness.cx, &[]).unwrap();
            let folders: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
            assert_eq!(filter.folders(), folders, "{globs}");
        }
    }

    #[test]
    fn a_list_of_very_many_patterns_is_an_error() {
        let harness = ToolHarness::new();
        let build = |globs: String| FileFilter::new(Some(&globs), None, &harness.cx, &[]).err();
        assert!(build("*.c,".repeat(MAX_PATTERNS)).is_none());
        let error = build("*.c,".repeat(100_000)).unwrap().to_string();
        assert!(error.contains("100000 patterns; the limit is 100"), "{error}");
        let error = build(format!("{{{}}}", "*.c,".repeat(100_000)))
            .unwrap()
            .to_string();
        assert!(
            error.contains("bytes; the limit is 1024") && error.len() < 300,
            "{}",
            error.len()
        );
    }
}
