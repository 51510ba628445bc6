//! Completes the names of files that a line mentions.

use std::fs;
use std::path::Path;

use crate::base::mentions::{find_closing_quote, find_mentions, unescape_blanks, unescape_quotes};

/// The most candidates of a completion.
const CANDIDATES: usize = 200;

/// Returns the completions of the mention at the end of `line`, and where they start; `None` if there is none.
pub(super) fn complete_mention(line: &str, folder: &Path) -> Option<(usize, Vec<String>)> {
    let word = find_mentions(line).pop()?;
    if word.start + word.text.len() != line.len() {
        return None;
    }
    let (typed, quotes) = match word.text.strip_prefix('"') {
        Some(typed) if find_closing_quote(typed).is_some() => return None,
        Some(typed) => (unescape_quotes(typed), true),
        None => (unescape_blanks(word.text), false),
    };
    let write = |path: String| {
        if !quotes {
            return path.replace(' ', "\\ ").replace('\t', "\\\t");
        }
        let end = if path.ends_with('/') { "" } else { "\"" };
        format!("\"{}{end}", escape_quotes(&path))
    };
    let paths = list_paths(&typed, folder).into_iter().map(write);
    Some((word.start, paths.collect()))
}

fn escape_quotes(path: &str) -> String {
    path.replace('\\', "\\\\").replace('"', "\\\"")
}

/// Returns the paths in `folder` that begin with `typed`.
fn list_paths(typed: &str, folder: &Path) -> Vec<String> {
    let (dir, name) = typed
        .rsplit_once('/')
        .map_or(("", typed), |(dir, name)| (dir, name));
    let prefix = &typed[..typed.len() - name.len()];
    let Ok(entries) = fs::read_dir(folder.join(dir)) else {
        return Vec::new();
    };
    let mut found: Vec<String> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let text = entry.file_name().into_string().ok()?;
            let hidden = text.starts_with('.') && !name.starts_with('.');
            // A line end cannot be written in a mention.
            if hidden || !text.starts_with(name) || text.contains('\n') {
                return None;
            }
            let end = if entry.path().is_dir() { "/" } else { "" };
            Some(format!("{prefix}{text}{end}"))
        })
        .collect();
    found.sort();
    found.truncate(CANDIDATES);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::mentions::unquote;

    fn folder_with(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("my dir")).unwrap();
        for name in names {
            fs::write(folder.path().join(name), "").unwrap();
        }
        folder
    }

    #[test]
    fn completions_are_mentions_of_what_they_name() {
        let names = ["my file.txt", "my dir/b c.md", "mine.txt", "say \"hi\".txt"];
        let folder = folder_with(&names);
        let complete = |line: &str| complete_mention(line, folder.path());
        for (line, start, expected) in [
            ("see @m", 5, &[r"mine.txt", r"my\ dir/", r"my\ file.txt"][..]),
            (r"@my\ f", 1, &[r"my\ file.txt"]),
            (r"@my\ dir/", 1, &[r"my\ dir/b\ c.md"]),
            ("@\"my ", 1, &["\"my dir/", "\"my file.txt\""]),
            ("@\"my dir/b", 1, &["\"my dir/b c.md\""]),
            ("@\"say", 1, &["\"say \\\"hi\\\".txt\""]),
            ("@nowhere/a", 1, &[]),
        ] {
            let expected: Vec<String> = expected.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(complete(line), Some((start, expected)), "{line}");
        }
        for line in ["", "word", "@\"my file.txt\"", "@mine.txt and"] {
            assert_eq!(complete(line), None, "{line}");
        }
        for name in names {
            let (start, found) = complete(&format!("@\"{}", escape_quotes(name))).unwrap();
            assert_eq!(start, 1);
            let line = format!("@{}", found[0]);
            let mentions = find_mentions(&line);
            assert_eq!(mentions.len(), 1, "{line}");
            assert_eq!(unquote(mentions[0].text), name);
        }
    }
}
