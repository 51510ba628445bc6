//! Files that a message mentions, in the form of `base::mentions`.
//!
//! The only place that reads them, so that prompts, steers, and queued prompts of every client mean the same. Only the
//! first text of a message counts: it is the user's own. The words stay as they are; each file follows the message as a
//! reference.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::pictures::fit_pictures;
use super::references::{PendingReference, TextSpan, resolve_reference};
use crate::base::mentions::{find_mentions, unquote};
use crate::base::{nofollow, uri};
use crate::config::Redactor;
use crate::domain::{Block, ReferenceKind};
use crate::workspace::{Buffer, Workspace};

/// The most files that are read for a message.
const MAX_FILES: usize = 20;
/// The most names that are looked up for a message.
const MAX_NAMES: usize = 200;
/// The most sentences about what was not attached.
const MAX_PROBLEMS: usize = 10;
/// The longest extension of a name that is taken for a file, in bytes: `@plot.png`, but not `@app.controller`.
const MAX_EXTENSION: usize = 5;

/// What a message mentions.
#[derive(Debug, Default)]
pub(super) struct Mentioned {
    pub(super) references: Vec<Block>,
    /// What was not attached, and why, each as a sentence for the user.
    pub(super) problems: Vec<String>,
}

/// The folder that mentioned paths are relative to, and what they are read with.
pub(super) struct MentionReader<'a> {
    pub(super) cwd: &'a Path,
    pub(super) workspace: &'a Workspace,
    pub(super) redactor: &'a Redactor,
}

impl MentionReader<'_> {
    /// Reads the files that the user's own text mentions, except those that the message contains already. What cannot be
    /// attached is a problem and hinders nothing else. Blocks.
    pub(super) fn read_files(&self, content: &[Block]) -> Mentioned {
        let mut mentioned = Mentioned::default();
        let text = content.iter().find_map(|block| match block {
            Block::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let (mut seen, mut files) = (HashSet::new(), 0);
        let mut names = find_names(text.unwrap_or_default()).filter(|name| seen.insert(name.clone()));
        for word in names.by_ref().take(MAX_NAMES) {
            let Some((path, span)) = self.find_file(&word) else {
                mentioned.problems.extend(self.describe_missing(&word));
                continue;
            };
            files += 1;
            if files > MAX_FILES {
                let problem = format!("`@{word}` was not attached: a message can have {MAX_FILES} files");
                mentioned.problems.push(problem);
                continue;
            }
            match self.read_file(&path, span) {
                Ok(blocks) => {
                    let is_repeated = [content, &mentioned.references[..]]
                        .iter()
                        .any(|known| contains_reference(known, &blocks));
                    if !is_repeated {
                        mentioned.references.extend(blocks);
                    }
                }
                Err(problem) => mentioned
                    .problems
                    .push(format!("`@{word}` was not attached: {problem}")),
            }
        }
        let is_cut = names.next().is_some();
        mentioned.limit_problems(is_cut);
        mentioned
    }

    fn read_file(&self, path: &Path, span: Option<TextSpan>) -> Result<Vec<Block>, String> {
        let pending = PendingReference {
            kind: ReferenceKind::File,
            uri: uri::uri_of(path),
            span,
            text: None,
        };
        let roots = self.workspace.resolve_roots(self.cwd);
        let mut blocks = resolve_reference(self.workspace.shared(), &roots, self.redactor, pending)?;
        fit_pictures(&mut blocks)?;
        Ok(blocks)
    }

    /// Returns the file that a word names, and the lines. A file name may contain a colon, so the complete name goes
    /// first.
    fn find_file(&self, word: &str) -> Option<(PathBuf, Option<TextSpan>)> {
        if let Some(path) = self.existing_file(word) {
            return Some((path, None));
        }
        let (name, lines) = word.rsplit_once(':')?;
        Some((self.existing_file(name)?, Some(parse_lines(lines)?)))
    }

    fn existing_file(&self, name: &str) -> Option<PathBuf> {
        let resolved = self.workspace.resolve_path(self.cwd, name).ok()?;
        // The text may be somebody else's, pasted.
        if resolved.secret || !resolved.inside {
            return None;
        }
        let resolved = resolved.absolute;
        let is_file = nofollow::kind(&resolved) == Some(nofollow::FileKind::Regular)
            || matches!(
                self.workspace.overlay().lookup_buffer(&resolved),
                Buffer::Unsaved(_)
            );
        // The name as written, because a link may lead to something else.
        let written = self.cwd.join(name);
        let is_written = nofollow::kind(&written).is_some();
        is_file.then_some(if is_written { written } else { resolved })
    }

    /// Says that a word that looks like a path was not attached; `None` if it is a word like any other.
    fn describe_missing(&self, word: &str) -> Option<String> {
        let name = match word.rsplit_once(':') {
            Some((name, lines)) if parse_lines(lines).is_some() => name,
            Some(_) => return None,
            None => word,
        };
        let resolved = self.workspace.resolve_path(self.cwd, name).ok()?;
        let (is_open, resolved) = (resolved.inside && !resolved.secret, resolved.absolute);
        if !is_open && nofollow::kind(&resolved) == Some(nofollow::FileKind::Regular) {
            return Some(format!(
                "`@{word}` is outside of the workspace or may hold secrets: only its name was sent; the agent can ask to read it"
            ));
        }
        if nofollow::kind(&resolved) == Some(nofollow::FileKind::Folder) {
            return Some(format!("`@{word}` is a folder: only its name was sent"));
        }
        let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
        let has_extension = file.rsplit_once('.').is_some_and(|(stem, extension)| {
            let is_short = (1..=MAX_EXTENSION).contains(&extension.len());
            !stem.is_empty() && is_short && extension.chars().all(char::is_alphanumeric)
        });
        let is_in_folder = !folder.is_empty()
            && resolved
                .parent()
                .is_some_and(|parent| nofollow::kind(parent).is_some());
        let is_path = name.chars().all(|c| c.is_alphanumeric() || "._-/~ ".contains(c));
        (is_path && (has_extension || is_in_folder))
            .then(|| format!("no file `{name}` was found: only its name was sent"))
    }
}

impl Mentioned {
    /// Keeps the first problems, and counts the others.
    fn limit_problems(&mut self, is_cut: bool) {
        let others = self.problems.len().saturating_sub(MAX_PROBLEMS);
        if others > 0 {
            self.problems.truncate(MAX_PROBLEMS);
            let names = if others == 1 { "name was" } else { "names were" };
            self.problems.push(format!("{others} more {names} not attached"));
        }
        if is_cut {
            let problem = format!("only the first {MAX_NAMES} names after `@` were looked up");
            self.problems.push(problem);
        }
    }
}

/// Returns whether a message contains the reference that `added` begins with.
fn contains_reference(known: &[Block], added: &[Block]) -> bool {
    let Some(Block::Reference(new)) = added.first() else {
        return false;
    };
    known.iter().any(|block| match block {
        Block::Reference(old) => (&old.path, old.lines) == (&new.path, new.lines),
        _ => false,
    })
}

/// Returns whether a text may mention a file.
pub(super) fn may_mention(text: &str) -> bool {
    find_names(text).next().is_some()
}

/// Returns what each word names that begins with `@`.
fn find_names(text: &str) -> impl Iterator<Item = String> {
    let words = find_mentions(text).into_iter();
    words
        .map(|word| unquote(word.text))
        .filter(|name| !name.is_empty())
}

fn parse_lines(lines: &str) -> Option<TextSpan> {
    let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first >= 1 && last >= first).then_some(TextSpan { first, last })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(folder: &Path, content: &[Block]) -> Mentioned {
        let reader = MentionReader {
            cwd: folder,
            workspace: &Workspace::default(),
            redactor: &Redactor::default(),
        };
        reader.read_files(content)
    }

    /// Returns the references as `name:first-last`.
    fn names(mentioned: &Mentioned) -> Vec<String> {
        let references = mentioned.references.iter().filter_map(|block| match block {
            Block::Reference(reference) => Some(reference),
            _ => None,
        });
        let to_name = |reference: &crate::domain::Reference| {
            let name = Path::new(&reference.path).file_name().unwrap().to_string_lossy();
            match reference.lines {
                Some((first, last)) => format!("{name}:{first}-{last}"),
                None => name.into_owned(),
            }
        };
        references.map(to_name).collect()
    }

    #[test]
    fn mentioned_files_become_references() {
        let folder = tempfile::tempdir().unwrap();
        let names_of_files = [
            "a.rs",
            "b c.txt",
            "odd:name",
            "Makefile",
            "say \"hi\".txt",
            "back\\slash",
        ];
        for name in names_of_files {
            fs::write(folder.path().join(name), "one\ntwo\nthree\n").unwrap();
        }
        for (text, expected) in [
            ("see @a.rs, and (@a.rs:2-3)?", vec!["a.rs", "a.rs:2-3"]),
            ("@a.rs:2", vec!["a.rs:2-2"]),
            ("@a.rs @a.rs.", vec!["a.rs"]),
            ("@\"b c.txt\" and @odd:name", vec!["b c.txt", "odd:name"]),
            ("@Makefile: what is it?", vec!["Makefile"]),
            (
                r#"@b\ c.txt:2 @"b c.txt":3, @"b c.txt:1-2"."#,
                vec!["b c.txt:2-2", "b c.txt:3-3", "b c.txt:1-2"],
            ),
            (
                r#"@"say \"hi\".txt" and @back\slash"#,
                vec!["say \"hi\".txt", "back\\slash"],
            ),
            // Without quotes, a name ends at a blank. A quotation ends in its line.
            ("@b c.txt, @\"b\nc.txt\" and @a.rs", vec!["a.rs"]),
            ("mail me@a.rs or @ or @. or @a.rs:0 or @a.rs:3-2", vec![]),
        ] {
            assert_eq!(
                names(&read(folder.path(), &[Block::Text(text.to_owned())])),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn only_the_first_text_counts_and_what_is_attached_is_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.rs"), "x").unwrap();
        let text = |text: &str| Block::Text(text.to_owned());
        assert!(names(&read(folder.path(), &[text("explain"), text("@a.rs")])).is_empty());
        let mut content = vec![text("@a.rs")];
        let attached = read(folder.path(), &content);
        content.extend(attached.references);
        assert!(read(folder.path(), &content).references.is_empty());
    }

    #[test]
    fn one_file_that_cannot_be_attached_hinders_no_other() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..MAX_FILES {
            fs::write(folder.path().join(format!("{number}.rs")), "x").unwrap();
        }
        fs::write(folder.path().join("data.bin"), [0, 159, 146, 150]).unwrap();
        let all = |range: std::ops::Range<usize>| -> String {
            range.map(|number| format!("@{number}.rs ")).collect()
        };
        let text = format!("@data.bin {}", all(0..3));
        let mentioned = read(folder.path(), &[Block::Text(text)]);
        assert_eq!(names(&mentioned), ["0.rs", "1.rs", "2.rs"]);
        let [problem] = &mentioned.problems[..] else {
            panic!("{:?}", mentioned.problems)
        };
        assert!(problem.starts_with("`@data.bin` was not attached: "), "{problem}");

        let text = format!("{} @0.rs:1 @1.rs:1", all(0..MAX_FILES));
        let mentioned = read(folder.path(), &[Block::Text(text)]);
        assert_eq!(mentioned.references.len(), MAX_FILES);
        let problems = ["0.rs:1", "1.rs:1"]
            .map(|name| format!("`@{name}` was not attached: a message can have 20 files"));
        assert_eq!(mentioned.problems, problems);
    }

    #[test]
    fn reads_and_warnings_have_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.rs"), "x").unwrap();
        // The same file by many names is read for each of them.
        let same: String = (0..100)
            .map(|length| format!("@{}a.rs ", "./".repeat(length)))
            .collect();
        let mentioned = read(folder.path(), &[Block::Text(same)]);
        assert_eq!(mentioned.problems.len(), MAX_PROBLEMS + 1);
        assert_eq!(
            mentioned.problems.last().unwrap(),
            "70 more names were not attached"
        );
        let repeated = read(folder.path(), &[Block::Text("@gone.rs @a.rs ".repeat(1_000))]);
        assert_eq!((names(&repeated).len(), repeated.problems.len()), (1, 1));
        let missing: String = (0..1_000).map(|number| format!("@{number}.rs ")).collect();
        let problems = read(folder.path(), &[Block::Text(missing)]).problems;
        assert_eq!(problems.len(), MAX_PROBLEMS + 2);
        assert_eq!(
            problems[MAX_PROBLEMS..],
            [
                "190 more names were not attached",
                "only the first 200 names after `@` were looked up"
            ]
        );
    }

    #[test]
    fn only_a_path_that_leads_nowhere_is_a_problem() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("src")).unwrap();
        fs::write(folder.path().join(".env"), "KEY=1").unwrap();
        for (text, expected) in [
            ("see @plot.png", Some("no file `plot.png` was found")),
            ("see @src/main:3", Some("no file `src/main` was found")),
            ("see @src/", Some("`@src/` is a folder")),
            (
                "see @.env",
                Some("`@.env` is outside of the workspace or may hold secrets"),
            ),
            (
                "see @/etc/hosts",
                Some("`@/etc/hosts` is outside of the workspace"),
            ),
            (
                "ask @ann, @types/node, @Component.decorator, @app.get(\"/\"), @peer:note://one",
                None,
            ),
        ] {
            let problems = read(folder.path(), &[Block::Text(text.to_owned())]).problems;
            match expected {
                Some(expected) => assert!(
                    problems.len() == 1 && problems[0].starts_with(expected),
                    "{problems:?}"
                ),
                None => assert!(problems.is_empty(), "{problems:?}"),
            }
        }
    }
}
