//! Reads the text of a patch. Pure: knows no files.
//!
//! ```text
//! *** Begin Patch
//! *** Update File: src/a.rs
//! *** Move to: src/b.rs
//! @@ fn total
//!  a line that stays
//! -a line that goes
//! +a new line
//! *** End of File
//! *** Add File: src/c.rs
//! +its only line
//! *** Delete File: src/d.rs
//! *** End Patch
//! ```
//!
//! Accepts what can mean only one thing: missing first and last lines, a code fence or a heredoc around the patch,
//! numbers after `@@` as in unified diffs, and kept lines without the blank before them. Refuses everything else.

use crate::workspace::edit::{Hunk, HunkLine};
use crate::workspace::text_file::unix_lines;

/// A change of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FilePatch {
    pub(super) path: String,
    pub(super) action: FileAction,
}

/// What a patch does with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FileAction {
    /// A new file with this text.
    Add(String),
    Delete,
    Update {
        /// The new path, if the file moves.
        to: Option<String>,
        hunks: Vec<Hunk>,
    },
}

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";

/// Parses a patch. At least one file.
///
/// # Errors
/// What is wrong and in which line, for the model.
pub(super) fn parse_patch(text: &str) -> Result<Vec<FilePatch>, String> {
    let text = unix_lines(text);
    let lines: Vec<(usize, &str)> = (1..).zip(text.lines()).collect();
    let mut parser = Parser::default();
    for (number, line) in unwrap_patch(&lines) {
        parser
            .read_line(line)
            .map_err(|problem| format!("line {number} of the patch: {problem}"))?;
    }
    parser.finish_file()?;
    if parser.files.is_empty() {
        return Err(format!(
            "the patch names no file; write `{BEGIN}`, then `*** Update File: PATH`, `*** Add File: PATH`, or \
             `*** Delete File: PATH` with their lines, then `{END}`"
        ));
    }
    Ok(parser.files)
}

/// Returns the lines of the patch itself, without what is around it.
fn unwrap_patch<'l, 't>(lines: &'l [(usize, &'t str)]) -> &'l [(usize, &'t str)] {
    let is_marked = |(_, line): &(usize, &str)| read_mark(line).is_some();
    let first = lines.iter().position(is_marked).unwrap_or(0);
    let (around, lines) = lines.split_at(first);
    let ends = |(_, line): &(usize, &str)| line.trim_end() == END;
    let mut end = lines.len();
    match lines.iter().rposition(ends) {
        Some(last) if !lines[last..].iter().any(|(_, line)| names_file(line)) => end = last,
        // What opens before the patch closes behind it.
        Some(_) | None if around.iter().any(|(_, line)| opens_wrapper(line)) => {
            while end > 0 && matches!(lines[end - 1].1.trim(), "" | "```" | "EOF" | "PATCH") {
                end -= 1;
            }
        }
        Some(_) | None => {}
    }
    &lines[..end]
}

fn opens_wrapper(line: &str) -> bool {
    line.starts_with("```") || line.contains("<<")
}

fn names_file(line: &str) -> bool {
    matches!(
        read_mark(line),
        Some(Mark::Add(_) | Mark::Delete(_) | Mark::Update(_))
    )
}

/// A line that begins with `***`.
enum Mark<'l> {
    Begin,
    End,
    EndOfFile,
    Add(&'l str),
    Delete(&'l str),
    Update(&'l str),
    MoveTo(&'l str),
}

fn read_mark(line: &str) -> Option<Mark<'_>> {
    let words = line.strip_prefix("*** ")?.trim_end();
    match words {
        "Begin Patch" => return Some(Mark::Begin),
        "End Patch" => return Some(Mark::End),
        "End of File" => return Some(Mark::EndOfFile),
        _ => {}
    }
    let (name, path) = words.split_once(':')?;
    let path = unquote(path.trim());
    match name {
        "Add File" => Some(Mark::Add(path)),
        "Delete File" => Some(Mark::Delete(path)),
        "Update File" => Some(Mark::Update(path)),
        "Move to" => Some(Mark::MoveTo(path)),
        _ => None,
    }
}

fn unquote(path: &str) -> &str {
    let inner = |quote| path.strip_prefix(quote)?.strip_suffix(quote);
    ['"', '\'', '`'].into_iter().find_map(inner).unwrap_or(path)
}

/// The file that is being read.
enum OpenFile {
    Add {
        path: String,
        lines: Vec<String>,
    },
    Delete {
        path: String,
    },
    Update {
        path: String,
        to: Option<String>,
        hunks: Vec<Hunk>,
        /// More lines may follow in the last hunk.
        is_open: bool,
        /// Empty lines that belong to the last hunk if more of its lines follow.
        blanks: usize,
    },
}

#[derive(Default)]
struct Parser {
    files: Vec<FilePatch>,
    file: Option<OpenFile>,
}

impl Parser {
    fn read_line(&mut self, line: &str) -> Result<(), String> {
        match read_mark(line) {
            Some(Mark::Begin | Mark::End) => self.finish_file(),
            Some(Mark::Add(path)) => self.begin_file(OpenFile::Add {
                path: path.to_owned(),
                lines: Vec::new(),
            }),
            Some(Mark::Delete(path)) => self.begin_file(OpenFile::Delete {
                path: path.to_owned(),
            }),
            Some(Mark::Update(path)) => self.begin_file(OpenFile::Update {
                path: path.to_owned(),
                to: None,
                hunks: Vec::new(),
                is_open: false,
                blanks: 0,
            }),
            Some(Mark::MoveTo(path)) => self.read_move(path),
            Some(Mark::EndOfFile) => self.read_end_of_file(),
            None => self.read_body(line),
        }
    }

    fn begin_file(&mut self, file: OpenFile) -> Result<(), String> {
        self.finish_file()?;
        let (OpenFile::Add { path, .. } | OpenFile::Delete { path } | OpenFile::Update { path, .. }) = &file;
        if path.is_empty() {
            return Err("the path is missing".to_owned());
        }
        self.file = Some(file);
        Ok(())
    }

    fn read_move(&mut self, path: &str) -> Result<(), String> {
        match &mut self.file {
            Some(OpenFile::Update { to, hunks, .. })
                if to.is_none() && hunks.is_empty() && !path.is_empty() =>
            {
                *to = Some(path.to_owned());
                Ok(())
            }
            _ => Err("`*** Move to: PATH` must directly follow `*** Update File: PATH`".to_owned()),
        }
    }

    fn read_end_of_file(&mut self) -> Result<(), String> {
        match &mut self.file {
            Some(OpenFile::Update {
                hunks,
                is_open,
                blanks,
                ..
            }) if *is_open => {
                if let Some(hunk) = hunks.last_mut() {
                    if *blanks > 0 && hunk.has_no_text_of_the_file() {
                        return Err(
                            "whether the empty line before `*** End of File` is one of the file decides where the new \
                             lines go; write a blank in it if it is, or leave it out"
                                .to_owned(),
                        );
                    }
                    hunk.is_at_end = true;
                }
                (*is_open, *blanks) = (false, 0);
                Ok(())
            }
            // A new file ends anyway.
            Some(OpenFile::Add { .. }) => Ok(()),
            _ => Err("`*** End of File` must follow the lines of a hunk".to_owned()),
        }
    }

    fn read_body(&mut self, line: &str) -> Result<(), String> {
        match &mut self.file {
            None if line.trim().is_empty() => Ok(()),
            None => Err("it belongs to no file; name the file before it".to_owned()),
            Some(OpenFile::Add { lines, .. }) => {
                lines.push(line.to_owned());
                Ok(())
            }
            // Some models repeat what they delete.
            Some(OpenFile::Delete { .. }) if line.trim().is_empty() || line.starts_with('-') => Ok(()),
            Some(OpenFile::Delete { .. }) => Err("a deletion has no lines".to_owned()),
            Some(OpenFile::Update {
                hunks,
                is_open,
                blanks,
                ..
            }) => read_hunk_line(line, hunks, is_open, blanks),
        }
    }

    fn finish_file(&mut self) -> Result<(), String> {
        let (path, action) = match self.file.take() {
            None => return Ok(()),
            Some(OpenFile::Add { path, lines }) => {
                let text = build_new_text(&path, lines)?;
                (path, FileAction::Add(text))
            }
            Some(OpenFile::Delete { path }) => (path, FileAction::Delete),
            Some(OpenFile::Update { path, to, hunks, .. }) => {
                let hunks = finish_hunks(&path, hunks)?;
                if hunks.is_empty() && to.is_none() {
                    return Err(format!("the update of `{path}` has no hunks"));
                }
                (path, FileAction::Update { to, hunks })
            }
        };
        self.files.push(FilePatch { path, action });
        Ok(())
    }
}

/// Returns the text of a new file. All its lines begin with `+`, or none does.
fn build_new_text(path: &str, mut lines: Vec<String>) -> Result<String, String> {
    // Empty lines behind it separate it from what follows.
    while lines.last().is_some_and(|line| line.trim().is_empty()) {
        lines.pop();
    }
    let is_marked = |line: &String| line.starts_with('+');
    if lines.iter().any(is_marked) {
        if let Some(line) = lines.iter().find(|line| !line.is_empty() && !is_marked(line)) {
            return Err(format!(
                "each line of the new file `{path}` must begin with `+`; this one does not: {line}"
            ));
        }
        for line in &mut lines {
            if is_marked(line) {
                line.remove(0);
            }
        }
    }
    let mut text = lines.join("\n");
    if !lines.is_empty() {
        text.push('\n');
    }
    Ok(text)
}

fn read_hunk_line(
    line: &str,
    hunks: &mut Vec<Hunk>,
    is_open: &mut bool,
    blanks: &mut usize,
) -> Result<(), String> {
    if let Some(rest) = line.strip_prefix("@@") {
        let header = read_header(rest);
        let continues = hunks.last().is_some_and(|hunk| hunk.lines.is_empty());
        if !continues {
            hunks.push(Hunk::default());
        }
        if let Some(hunk) = hunks.last_mut() {
            hunk.headers.extend(header.map(str::to_owned));
        }
        (*is_open, *blanks) = (true, 0);
        return Ok(());
    }
    if line.starts_with("*** ") {
        return Err(format!(
            "`{line}` means nothing; a line of the file needs a blank, `+`, or `-` before it"
        ));
    }
    // As in unified diffs.
    if line.starts_with("\\ No newline at end of file") {
        return Ok(());
    }
    if line.is_empty() {
        // Between hunks it only separates them; within one it is an empty line of the file.
        let is_inside = *is_open && hunks.last().is_some_and(|hunk| !hunk.lines.is_empty());
        *blanks += usize::from(is_inside);
        return Ok(());
    }
    if !*is_open {
        hunks.push(Hunk::default());
        *is_open = true;
    }
    let Some(hunk) = hunks.last_mut() else {
        return Ok(());
    };
    let blanks = std::mem::take(blanks);
    hunk.lines
        .extend(std::iter::repeat_n(HunkLine::Keep(String::new()), blanks));
    hunk.lines.push(match line.as_bytes().first() {
        Some(b'+') => HunkLine::Add(line[1..].to_owned()),
        Some(b'-') => HunkLine::Remove(line[1..].to_owned()),
        Some(b' ') => HunkLine::Keep(line[1..].to_owned()),
        // A kept line without its blank. It must stand in the file like any other.
        _ => HunkLine::Keep(line.to_owned()),
    });
    Ok(())
}

/// Returns the text behind `@@`, without the line numbers of unified diffs.
fn read_header(rest: &str) -> Option<&str> {
    let rest = rest.trim();
    let rest = rest.strip_suffix("@@").map_or(rest, str::trim_end);
    let mut words = rest.splitn(3, ' ');
    let is_range = |word: Option<&str>, sign: char| {
        word.and_then(|word| word.strip_prefix(sign))
            .is_some_and(|range| range.split(',').all(|number| number.parse::<u64>().is_ok()))
    };
    let header = if is_range(words.next(), '-') && is_range(words.next(), '+') {
        let rest = words.next().unwrap_or_default().trim_start();
        rest.strip_prefix("@@").map_or(rest, str::trim_start)
    } else {
        rest
    };
    (!header.is_empty()).then_some(header)
}

/// Removes the names of the file in a unified diff, which look like a hunk.
fn finish_hunks(path: &str, mut hunks: Vec<Hunk>) -> Result<Vec<Hunk>, String> {
    let name = path.rsplit('/').next().unwrap_or(path);
    if let [first, _, ..] = hunks.as_slice()
        && let [HunkLine::Remove(old), HunkLine::Add(new)] = first.lines.as_slice()
        && first.headers.is_empty()
        && (old.starts_with("-- ") && old.ends_with(name))
        && (new.starts_with("++ ") && new.ends_with(name))
    {
        hunks.remove(0);
    }
    if hunks.iter().any(|hunk| hunk.lines.is_empty()) {
        return Err(format!("a hunk of `{path}` has no lines"));
    }
    Ok(hunks)
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
