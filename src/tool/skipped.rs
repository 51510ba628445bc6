//! What a search left out, and how its result says so.
//!
//! Each reason is counted during the search, with the first names. Must not walk or read files: [`super::walk`] and
//! [`super::grep`] report here.

use std::fmt::Write as _;

/// Most names given as examples of a reason.
const MAX_EXAMPLES: usize = 3;

/// Why a search left an entry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SkipReason {
    /// Its name begins with a dot.
    Hidden,
    /// An ignore file excludes it.
    Ignored,
    /// It is a folder of version control.
    VersionControl,
    /// It is a symbolic link, which no search follows.
    Link,
    /// It is a folder whose name matches, but only files are results.
    FolderName,
    /// It begins with binary content.
    Binary,
}

const REASONS: [SkipReason; 6] = [
    SkipReason::Hidden,
    SkipReason::Ignored,
    SkipReason::VersionControl,
    SkipReason::Link,
    SkipReason::FolderName,
    SkipReason::Binary,
];

/// Entries of one kind: their number and the first names.
#[derive(Debug, Default)]
struct EntryCount {
    files: usize,
    folders: usize,
    examples: Vec<String>,
}

/// What a search left out so far.
#[derive(Debug, Default)]
pub(super) struct SkippedEntries {
    /// By reason, in the order of [`REASONS`].
    counts: [EntryCount; REASONS.len()],
    /// Files that were searched, but contain NUL bytes.
    with_binary_content: EntryCount,
    /// Files whose name matches.
    pub(super) matched: usize,
    /// Files whose name does not match.
    pub(super) unmatched: usize,
    /// Only folders that the filter names were walked.
    pub(super) is_narrowed: bool,
    /// Files that look like secrets and were not searched.
    pub(super) secrets: usize,
    /// Hidden or ignored files that look like secrets; to include them does not help.
    pub(super) unvisited_secrets: usize,
    pub(super) unreadable_files: usize,
    pub(super) unreadable_folders: usize,
}

impl EntryCount {
    fn add(&mut self, is_folder: bool, name: impl FnOnce() -> String) {
        if is_folder {
            self.folders += 1;
        } else {
            self.files += 1;
        }
        if self.examples.len() < MAX_EXAMPLES {
            let slash = if is_folder { "/" } else { "" };
            self.examples.push(format!("`{}{slash}`", name()));
        }
    }

    fn absorb(&mut self, other: Self) {
        self.files += other.files;
        self.folders += other.folders;
        self.examples.extend(other.examples);
        self.examples.truncate(MAX_EXAMPLES);
    }

    fn total(&self) -> usize {
        self.files + self.folders
    }

    /// Describes the number, such as `1 file and 2 folders`.
    fn describe_number(&self) -> String {
        match (self.files, self.folders) {
            (files, 0) => count_noun(files, "file"),
            (0, folders) => count_noun(folders, "folder"),
            (files, folders) => format!(
                "{} and {}",
                count_noun(files, "file"),
                count_noun(folders, "folder")
            ),
        }
    }

    /// Describes the number with the first names.
    fn describe(&self) -> String {
        let more = if self.total() > self.examples.len() {
            ", …"
        } else {
            ""
        };
        format!("{} ({}{more})", self.describe_number(), self.examples.join(", "))
    }
}

fn count_noun(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

impl SkippedEntries {
    pub(super) fn add(&mut self, reason: SkipReason, is_folder: bool, name: impl FnOnce() -> String) {
        self.counts[reason as usize].add(is_folder, name);
    }

    /// Records a file that was searched, but contains NUL bytes.
    pub(super) fn add_binary_content(&mut self, name: impl FnOnce() -> String) {
        self.with_binary_content.add(false, name);
    }

    /// Adds what another part of the same search left out.
    pub(super) fn absorb(&mut self, other: Self) {
        for (own, other) in self.counts.iter_mut().zip(other.counts) {
            own.absorb(other);
        }
        self.with_binary_content.absorb(other.with_binary_content);
        self.matched += other.matched;
        self.unmatched += other.unmatched;
        self.is_narrowed |= other.is_narrowed;
        self.secrets += other.secrets;
        self.unvisited_secrets += other.unvisited_secrets;
        self.unreadable_files += other.unreadable_files;
        self.unreadable_folders += other.unreadable_folders;
    }

    /// Describes each reason why an empty result may lack something, one per line.
    ///
    /// `searches_text` selects advice for a search whose path may also be a file.
    pub(super) fn describe_empty(&self, searches_text: bool) -> String {
        let mut text = String::new();
        // Without a filter, every file matches.
        if searches_text && self.matched == 0 && (self.unmatched > 0 || self.is_narrowed) {
            // All folders may have been passed over.
            let looked_at = count_noun(self.unmatched, "file");
            let _ = writeln!(text, "[{looked_at} looked at, but none matches glob or type]");
        }
        for reason in REASONS {
            let count = &self.counts[reason as usize];
            if count.total() > 0 {
                let _ = writeln!(text, "[{}]", describe_reason(reason, count, searches_text));
            }
        }
        if self.unreadable_folders > 0 {
            let folders = count_noun(self.unreadable_folders, "folder");
            let _ = writeln!(text, "[could not be read: {folders}]");
        }
        text
    }

    /// Describes what a result must say even if something was found, one per line.
    pub(super) fn describe_always(&self, is_empty: bool) -> String {
        let mut text = String::new();
        let secrets = self.secrets + if is_empty { self.unvisited_secrets } else { 0 };
        if secrets > 0 {
            // Their names do not matter for the search.
            let files = count_noun(secrets, "file");
            let _ = writeln!(
                text,
                "[left out as they look like secrets: {files}; name one as path to search it]"
            );
        }
        if self.with_binary_content.total() > 0 {
            let files = self.with_binary_content.describe();
            let _ = writeln!(text, "[with binary content (NUL bytes): {files}]");
        }
        if self.unreadable_files > 0 {
            let files = count_noun(self.unreadable_files, "file");
            let _ = writeln!(text, "[could not be read to the end: {files}]");
        }
        text
    }
}

fn describe_reason(reason: SkipReason, count: &EntryCount, searches_text: bool) -> String {
    let entries = count.describe();
    match reason {
        SkipReason::Hidden => format!("left out as hidden: {entries}; set hidden to include them"),
        SkipReason::Ignored => {
            let advice = match (searches_text, count.folders) {
                (true, _) => "; name one as path to search it",
                (false, 0) => "",
                (false, _) => "; name a folder as path to search in it",
            };
            format!("left out by ignore files such as .gitignore: {entries}{advice}")
        }
        SkipReason::VersionControl => {
            format!("left out as part of version control: {entries}; name one as path to search it")
        }
        SkipReason::Link => {
            let names = count.examples.join(", ");
            let more = if count.total() > count.examples.len() {
                ", …"
            } else {
                ""
            };
            format!(
                "not followed: {} ({names}{more})",
                count_noun(count.total(), "symbolic link")
            )
        }
        SkipReason::FolderName => format!("a result is always a file, but the pattern matches {entries}"),
        SkipReason::Binary => {
            format!("left out as binary: {entries}; name one as path to search it as text")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::ToolHarness;

    async fn found(harness: &ToolHarness, tool: &str, args: &Value) -> String {
        let text = harness.call_tool(tool, args.clone()).await.unwrap().text;
        text.trim_end().to_owned()
    }

    async fn assert_results(harness: &ToolHarness, cases: &[(&str, Value, &str)]) {
        for (tool, args, expected) in cases {
            assert_eq!(found(harness, tool, args).await, *expected, "{tool} {args}");
        }
    }

    #[tokio::test]
    async fn an_empty_result_names_each_reason_for_leaving_something_out() {
        let harness = ToolHarness::new();
        for path in [
            ".git/HEAD",
            ".github/ci.yml",
            ".gitlab-ci.yml",
            ".env",
            "build/out.yml",
            "debug.log",
            "src/key.pem",
            "src/a.rs",
        ] {
            harness.write(path, "needle\n");
        }
        harness.write(".gitignore", "/build\n*.log\n");
        std::fs::write(harness.path("src/logo.png"), b"\x89PNG\0needle").unwrap();
        std::os::unix::fs::symlink("src/a.rs", harness.path("linked.rs")).unwrap();
        let link = "[not followed: 1 symbolic link (`linked.rs`)]";
        let build = "[left out by ignore files such as .gitignore: 1 folder (`build/`); name";
        let github = "[left out as hidden: 1 folder (`.github/`); set hidden to include them]";
        assert_results(
            &harness,
            &[
                (
                    "glob",
                    json!({"pattern": "**/*.yml"}),
                    &format!(
                        "no files found\n[left out as hidden: 1 file and 1 folder (`.github/`, `.gitlab-ci.yml`); \
                         set hidden to include them]\n{build} a folder as path to search in it]\n{link}"
                    ),
                ),
                (
                    "glob",
                    json!({"pattern": "*.log"}),
                    &format!(
                        "no files found\n{github}\n[left out by ignore files such as .gitignore: 1 file and 1 folder \
                         (`build/`, `debug.log`); name a folder as path to search in it]\n{link}"
                    ),
                ),
                (
                    "glob",
                    json!({"pattern": "src"}),
                    &format!(
                        "no files found\n{github}\n{build} a folder as path to search in it]\n{link}\n\
                         [a result is always a file, but the pattern matches 1 folder (`src/`)]"
                    ),
                ),
                ("glob", json!({"pattern": "src/*.ts"}), "no files found"),
                ("glob", json!({"pattern": "*.rs"}), "src/a.rs"),
                (
                    "grep",
                    json!({"pattern": "nothing"}),
                    &format!(
                        "no matches\n[left out as hidden: 2 files and 1 folder (`.github/`, `.gitignore`, `.gitlab-ci.yml`); \
                         set hidden to include them]\n[left out by ignore files such as .gitignore: 1 file and 1 folder \
                         (`build/`, `debug.log`); name one as path to search it]\n{link}\n\
                         [left out as binary: 1 file (`src/logo.png`); name one as path to search it as text]\n\
                         [left out as they look like secrets: 2 files; name one as path to search it]"
                    ),
                ),
                (
                    "grep",
                    json!({"pattern": "needle", "glob": "*.ts", "path": "src"}),
                    "no matches\n[3 files looked at, but none matches glob or type]",
                ),
                (
                    "grep",
                    json!({"pattern": "needle", "glob": ".git/**"}),
                    &format!(
                        "no matches\n[0 files looked at, but none matches glob or type]\n{github}\n{build} one as path to \
                         search it]\n[left out as part of version control: 1 folder (`.git/`); name one as path to \
                         search it]\n{link}"
                    ),
                ),
                (
                    "grep",
                    json!({"pattern": "needle"}),
                    "src/a.rs:1:needle\n[left out as they look like secrets: 1 file; name one as path to search it]",
                ),
            ],
        )
        .await;
        // A folder that the pattern cannot reach is not a reason.
        harness.write("src/.deep/b.ts", "");
        assert_eq!(
            found(&harness, "glob", &json!({"pattern": "src/*.ts"})).await,
            "no files found"
        );
    }

    #[tokio::test]
    async fn a_pattern_that_names_a_dot_name_includes_it() {
        let harness = ToolHarness::new();
        for path in [
            ".gitlab-ci.yml",
            ".github/workflows/ci.yml",
            ".github/.labels.yml",
            "app/.env.example",
            "app/.next/cache.yml",
            "app/b",
            "app/.a",
            "app/deep/c",
        ] {
            harness.write(path, "needle\n");
        }
        let grep =
            |glob: &str| json!({"pattern": "needle", "glob": glob, "output_mode": "files_with_matches"});
        assert_results(
            &harness,
            &[
                ("glob", json!({"pattern": ".gitlab-ci.yml"}), ".gitlab-ci.yml"),
                (
                    "glob",
                    json!({"pattern": ".github/**"}),
                    ".github/workflows/ci.yml",
                ),
                (
                    "glob",
                    json!({"pattern": ".g*/**/*.yml"}),
                    ".github/workflows/ci.yml",
                ),
                ("glob", json!({"pattern": ".github/.*"}), ".github/.labels.yml"),
                ("glob", json!({"pattern": "**/.env.example"}), "app/.env.example"),
                ("glob", json!({"pattern": r"\.env.example"}), "app/.env.example"),
                ("glob", json!({"pattern": "{.a,b}"}), "app/.a\napp/b"),
                (
                    "glob",
                    json!({"pattern": "{x,.next/}*.yml", "path": "app"}),
                    "app/.next/cache.yml",
                ),
                ("glob", json!({"pattern": "app/**"}), "app/b\napp/deep/c"),
                ("grep", grep(".gitlab-ci.yml"), ".gitlab-ci.yml"),
                ("grep", grep(".github/**"), ".github/workflows/ci.yml"),
                ("grep", grep("**/.env.example,b"), "app/.env.example\napp/b"),
                ("grep", grep("{.a,b}"), "app/.a\napp/b"),
                ("grep", grep("!.github/**"), "app/b\napp/deep/c"),
            ],
        )
        .await;
    }

    #[tokio::test]
    async fn a_literal_name_wins_over_a_character_class() {
        let harness = ToolHarness::new();
        for path in [
            "app/[id]/page.tsx",
            "app/i/page.tsx",
            "app/[...slug]/page.tsx",
            "app/[[...all]]/page.tsx",
            "app/[post-id]/page.tsx",
            "app/[id]/a.txt",
            "app/[id]/c.txt",
            "lib/a.txt",
            "lib/b.txt",
            "lib/[ab].md",
            "lib/a.md",
        ] {
            harness.write(path, "needle\n");
        }
        let grep =
            |glob: &str| json!({"pattern": "needle", "glob": glob, "output_mode": "files_with_matches"});
        let ids = "app/[id]/page.tsx";
        assert_results(
            &harness,
            &[
                ("glob", json!({"pattern": "app/[id]/*.tsx"}), ids),
                ("glob", json!({"pattern": "**/[id]/page.tsx"}), ids),
                ("glob", json!({"pattern": "app/[id]/page.tsx"}), ids),
                (
                    "glob",
                    json!({"pattern": "app/[...slug]/*"}),
                    "app/[...slug]/page.tsx",
                ),
                (
                    "glob",
                    json!({"pattern": "app/[[...all]]/*"}),
                    "app/[[...all]]/page.tsx",
                ),
                (
                    "glob",
                    json!({"pattern": "app/[post-id]/*"}),
                    "app/[post-id]/page.tsx",
                ),
                ("glob", json!({"pattern": "app/[id]/[ab].txt"}), "app/[id]/a.txt"),
                (
                    "glob",
                    json!({"pattern": "[ab].txt"}),
                    "app/[id]/a.txt\nlib/a.txt\nlib/b.txt",
                ),
                ("glob", json!({"pattern": "lib/[ab].txt"}), "lib/a.txt\nlib/b.txt"),
                ("glob", json!({"pattern": "[ab].md"}), "lib/[ab].md"),
                ("glob", json!({"pattern": r"lib/\[ab\].md"}), "lib/[ab].md"),
                ("grep", grep("app/[id]/*.tsx"), ids),
                ("grep", grep("app/[post-id]/*"), "app/[post-id]/page.tsx"),
                ("grep", grep("**/[...slug]/*"), "app/[...slug]/page.tsx"),
                ("grep", grep("lib/[ab].txt"), "lib/a.txt\nlib/b.txt"),
                ("grep", grep("lib/[ab].md"), "lib/[ab].md"),
                ("grep", grep("*.txt,!app/[id]/*"), "lib/a.txt\nlib/b.txt"),
            ],
        )
        .await;
        for (tool, args) in [
            ("glob", json!({"pattern": "[z-a].txt"})),
            ("grep", json!({"pattern": "needle", "glob": "[z-a].txt"})),
        ] {
            let error = harness.call_expecting_error(tool, args).await;
            assert!(error.contains("not a valid pattern"), "{error}");
        }
    }

    #[tokio::test]
    async fn binary_content_late_in_a_file_hides_nothing() {
        let harness = ToolHarness::new();
        let late = format!(
            "needle early\n{}const A = '\0needle';\nneedle after\n",
            "text\n".repeat(4_000)
        );
        harness.write("late.ts", &late);
        let blob = [
            b"needle \x01\x02\0\0\xff\xfe\n".as_slice(),
            b"needle in text\n",
            b"\x03\x04\x05needle\x06\x07\n",
            b"Gr\xf6\xdfe: needle\n",
        ]
        .concat();
        std::fs::write(harness.path("early.bin"), blob).unwrap();
        let wide: Vec<u8> = "needle wide\n"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        std::fs::write(harness.path("wide.txt"), [b"\xff\xfe".as_slice(), &wide].concat()).unwrap();
        let note = "[with binary content (NUL bytes): 1 file (`late.ts`)]";
        let search = |path: &str| json!({"pattern": "needle", "path": path});
        assert_results(
            &harness,
            &[
                (
                    "grep",
                    json!({"pattern": "needle"}),
                    &format!(
                        "late.ts:1:needle early\nlate.ts:4002:const A = '\u{fffd}needle';\nlate.ts:4003:needle after\n\
                         wide.txt:1:needle wide\n{note}"
                    ),
                ),
                (
                    "grep",
                    json!({"pattern": "early.*text", "multiline": true, "output_mode": "count"}),
                    &format!("late.ts:1\n[1 match in 1 file]\n{note}"),
                ),
                (
                    "grep",
                    json!({"pattern": "needle in"}),
                    "no matches\n[left out as binary: 1 file (`early.bin`); name one as path to search it as text]",
                ),
                (
                    "grep",
                    search("early.bin"),
                    "early.bin:1:[binary content]\nearly.bin:2:needle in text\n\
                     early.bin:3:[binary content]\nearly.bin:4:Gr\u{fffd}\u{fffd}e: needle\n\
                     [with binary content (NUL bytes): 1 file (`early.bin`)]",
                ),
                (
                    "grep",
                    json!({"pattern": "absent", "path": "late.ts"}),
                    &format!("no matches\n{note}"),
                ),
                ("grep", search("wide.txt"), "wide.txt:1:needle wide"),
            ],
        )
        .await;
    }
}
