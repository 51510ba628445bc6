//! Which files `grep` searches, by its `glob` and `type`. Must not read files.

use std::path::Path;

use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};

use super::output::refuse_input;
use super::search_pattern::{escape_brackets, find_hidden_names, has_brackets, read_brackets_literally};
use super::{ToolContext, ToolError};
use crate::base::glob::{GlobPattern, check_limits};
use crate::base::nearest::nearest_few;
use crate::base::nofollow;
use crate::workspace::ResolvedPath;

/// Selects files by name.
pub(super) struct FileFilter {
    names: Option<Override>,
    types: Option<Types>,
    hidden_names: Vec<GlobPattern>,
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
        let mut hidden_names = Vec::new();
        let names = globs.map(|globs| build_name_filter(globs, cx, starts, &mut hidden_names));
        Ok(Self {
            names: names.transpose()?,
            types: file_type.map(build_type_filter).transpose()?,
            hidden_names,
        })
    }

    /// Returns the hidden names that the filter names.
    pub(super) fn hidden_names(&self) -> Vec<GlobPattern> {
        self.hidden_names.clone()
    }

    /// Returns whether the filter selects the file `path`, which is `below` relative to the start of the walk.
    pub(super) fn is_match(&self, path: &Path, below: &Path) -> bool {
        let is_of_type = |types: &Types| types.matched(path, false).is_whitelist();
        let is_named = |names: &Override| !names.matched(below, false).is_ignore();
        self.types.as_ref().is_none_or(is_of_type) && self.names.as_ref().is_none_or(is_named)
    }
}

fn build_name_filter(
    globs: &str,
    cx: &ToolContext,
    starts: &[ResolvedPath],
    hidden_names: &mut Vec<GlobPattern>,
) -> Result<Override, ToolError> {
    let mut filter = OverrideBuilder::new("");
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
        let invalid =
            |error: String| ToolError::WrongInput(format!("`{stated}` is not a valid pattern: {error}"));
        check_limits(glob).map_err(|error| invalid(error.to_string()))?;
        if mark.is_empty() {
            hidden_names.extend(find_hidden_names(glob));
        }
        for reading in choose_readings(glob, starts) {
            let added = filter.add(&format!("{mark}{reading}{all}"));
            added.map_err(|error| invalid(error.to_string()))?;
        }
    }
    filter
        .build()
        .map_err(|error| ToolError::WrongInput(format!("`{globs}` is not a valid pattern: {error}")))
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
