//! Loads the instructions of R-LOOP-5: `SOUL.md`, `AGENTS.md`, `TOOLS.md`, and the list of skills.
//!
//! Must not build the system prompt; it returns texts and a report about each file, skipped ones included.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::file::{self, compute_fingerprint};
use super::skills::{self, Skills};
use super::{PromptFolder, ReadDeny, Sources};
use crate::config::Redactor;
use crate::domain::{InstructionFile, InstructionKind};
use crate::workspace::resolve::real_path;

/// Limit for all texts together, in bytes; the nearest are taken first.
pub const MAX_ALL: usize = 256 << 10;
/// Most folders examined between a workspace folder and the working directory.
const MAX_DEPTH: usize = 16;

/// All instructions of a session.
#[derive(Clone, Debug, Default)]
pub struct LoadedInstructions {
    /// For the system prompt, in its order.
    pub texts: Vec<Instruction>,
    pub skills: Arc<Skills>,
    /// The text of the file that replaces the built-in instructions.
    pub prompt: Option<String>,
    /// The examined files in the same order, skipped ones included, for people.
    pub files: Vec<InstructionFile>,
}

/// The text of one instruction file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub kind: InstructionKind,
    pub path: PathBuf,
    pub text: String,
    /// Whether the user trusts the folder that it comes from.
    pub trusted: bool,
}

impl Sources {
    /// Reads all instructions as they are now. Blocks.
    pub fn load_instructions(&self) -> LoadedInstructions {
        let folders = self.list_folders();
        let inner = self.inner_folders(&folders);
        let mut found = LoadedInstructions::default();
        if let Some(path) = &self.prompt_file {
            found.take_prompt(&self.redactor, path);
        }
        let mut seen = BTreeSet::new();
        for (kind, name) in [
            (InstructionKind::Soul, "SOUL.md"),
            (InstructionKind::Agents, "AGENTS.md"),
            (InstructionKind::Tools, "TOOLS.md"),
        ] {
            for source in folders.iter().chain(&inner) {
                let path = source.dir.join(name);
                // Most files are missing, in every turn: one look instead of one for each folder above.
                if file::is_missing(&path) {
                    continue;
                }
                // A file with two names counts once.
                if seen.insert(real_path(&path).unwrap_or_else(|_| path.clone())) {
                    found.take(kind, source, &path);
                }
            }
        }
        found.enforce_size_limit();
        let (skills, files) = skills::find(&folders);
        found.skills = Arc::new(skills);
        found.files.extend(files);
        found
    }

    /// Lists the folders below the nearest workspace folder, down to the working directory.
    fn inner_folders(&self, folders: &[PromptFolder]) -> Vec<PromptFolder> {
        let Some(nearest) = folders.iter().rev().find(|source| source.within.is_some()) else {
            return Vec::new();
        };
        let inner = real_path(&self.cwd).ok().and_then(|cwd| {
            Some((
                cwd.clone(),
                cwd.strip_prefix(real_path(&nearest.dir).ok()?)
                    .ok()?
                    .to_path_buf(),
            ))
        });
        let Some((cwd, below)) = inner else {
            return Vec::new();
        };
        let depth = below.components().count().min(MAX_DEPTH);
        // If there are too many, those nearest to the working directory.
        let dirs: Vec<&Path> = cwd.ancestors().take(depth).collect();
        let to_source = |dir: &&Path| PromptFolder {
            dir: dir.to_path_buf(),
            ..nearest.clone()
        };
        dirs.iter().rev().map(to_source).collect()
    }
}

impl LoadedInstructions {
    /// Loads the file that the configuration names; unlike other files, it is reported if missing.
    fn take_prompt(&mut self, redactor: &Redactor, path: &Path) {
        let source = PromptFolder {
            dir: PathBuf::new(),
            trusted: true,
            within: None,
            redactor: redactor.clone(),
            denied: ReadDeny::default(),
        };
        self.take(InstructionKind::Prompt, &source, path);
        if let Some(instruction) = self.texts.pop() {
            self.prompt = Some(instruction.text);
        } else if self.files.is_empty() {
            self.files.push(InstructionFile {
                problem: Some("it is missing or empty; using the default instructions".to_owned()),
                ..InstructionFile::new(path.display().to_string(), InstructionKind::Prompt, true)
            });
        }
    }

    fn take(&mut self, kind: InstructionKind, source: &PromptFolder, path: &Path) {
        let Some(read) = file::read(source, path) else {
            return;
        };
        let mut instruction_file = InstructionFile::new(path.display().to_string(), kind, source.trusted);
        match read {
            // A blank file counts as missing.
            Ok(read) if read.text.trim().is_empty() => return,
            Ok(read) => {
                instruction_file.bytes = read.text.len() as u64;
                instruction_file.fingerprint = compute_fingerprint(&read.text);
                instruction_file.problem = read.problem;
                self.texts.push(Instruction {
                    kind,
                    path: path.to_path_buf(),
                    text: read.text,
                    trusted: source.trusted,
                });
            }
            Err(reason) => instruction_file.problem = Some(format!("{reason}; skipped")),
        }
        self.files.push(instruction_file);
    }

    /// Drops the farthest texts if all together exceed the limit.
    fn enforce_size_limit(&mut self) {
        let mut remaining = MAX_ALL;
        let mut retained: Vec<bool> = Vec::new();
        // The last text of each kind is the nearest. Kinds share the space, later kinds first.
        for text in self.texts.iter().rev() {
            let fits = text.text.len() <= remaining;
            remaining -= if fits { text.text.len() } else { 0 };
            retained.push(fits);
        }
        retained.reverse();
        for (text, _) in self
            .texts
            .iter()
            .zip(&retained)
            .filter(|(_, is_retained)| !**is_retained)
        {
            let path = text.path.display().to_string();
            for file in self.files.iter_mut().filter(|file| file.path == path) {
                file.bytes = 0;
                file.problem = Some(format!(
                    "all instruction files together exceed {MAX_ALL} bytes; skipped"
                ));
            }
        }
        let mut retained = retained.into_iter();
        self.texts.retain(|_| retained.next().unwrap_or(true));
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::super::SourceFolder;
    use super::super::file::MAX_FILE;
    use super::*;

    struct Disk {
        _dir: TempDir,
        base: PathBuf,
    }

    impl Disk {
        fn new() -> Self {
            let dir = TempDir::new().unwrap();
            let base = dir.path().canonicalize().unwrap();
            for name in ["user", "far", "near/src/deep", "out"] {
                fs::create_dir_all(base.join(name)).unwrap();
            }
            Self { _dir: dir, base }
        }

        fn write(&self, path: &str, text: impl AsRef<[u8]>) {
            let path = self.base.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn find(&self, cwd: &str) -> LoadedInstructions {
            let folder = |name: &str, trusted| SourceFolder {
                path: self.base.join(name),
                trusted,
            };
            let sources = Sources {
                user: Some(self.base.join("user")),
                folders: vec![folder("far", false), folder("near", true)],
                cwd: self.base.join(cwd),
                ..Sources::default()
            };
            sources.load_instructions()
        }

        /// Returns the paths relative to the test's folder, in order.
        fn list_text_paths(&self, found: &LoadedInstructions) -> Vec<String> {
            let relative = |text: &Instruction| {
                let path = text.path.strip_prefix(&self.base).unwrap();
                path.display().to_string()
            };
            found.texts.iter().map(relative).collect()
        }
    }

    #[test]
    fn kinds_are_in_order_with_the_nearest_last() {
        let disk = Disk::new();
        for path in [
            "near/src/deep/AGENTS.md",
            "near/src/AGENTS.md",
            "near/TOOLS.md",
            "near/AGENTS.md",
            "far/AGENTS.md",
            "far/SOUL.md",
            "user/SOUL.md",
            "user/AGENTS.md",
            "user/TOOLS.md",
        ] {
            disk.write(path, path);
        }
        disk.write("near/SOUL.md", " \n");
        let found = disk.find("near/src/deep");
        assert_eq!(
            disk.list_text_paths(&found),
            [
                "user/SOUL.md",
                "far/SOUL.md",
                "user/AGENTS.md",
                "far/AGENTS.md",
                "near/AGENTS.md",
                "near/src/AGENTS.md",
                "near/src/deep/AGENTS.md",
                "user/TOOLS.md",
                "near/TOOLS.md"
            ]
        );
        let trusted: Vec<bool> = found.texts.iter().map(|text| text.trusted).collect();
        assert_eq!(trusted, [true, false, true, false, true, true, true, true, true]);
        assert_eq!(disk.find("out").texts.len(), 7, "a cwd that lies elsewhere");
    }

    #[test]
    fn unusable_files_are_reported() {
        let disk = Disk::new();
        disk.write("out/id", "secret");
        disk.write("near/.env", "KEY=1");
        symlink(disk.base.join("out/id"), disk.base.join("near/AGENTS.md")).unwrap();
        symlink(".env", disk.base.join("near/TOOLS.md")).unwrap();
        disk.write("out/mine", "mine");
        symlink(disk.base.join("out/mine"), disk.base.join("user/AGENTS.md")).unwrap();
        symlink("nowhere", disk.base.join("far/TOOLS.md")).unwrap();
        fs::create_dir(disk.base.join("user/TOOLS.md")).unwrap();
        disk.write("far/AGENTS.md", b"a\xffb");
        disk.write("far/SOUL.md", b"a\0b");
        disk.write("user/SOUL.md", "line of it\r\n".repeat(1_000_000));
        disk.write("near/SOUL.md", "ä".repeat(MAX_FILE));
        let found = disk.find("near");
        let problem = |path: &str| {
            let path = disk.base.join(path).display().to_string();
            let file = found.files.iter().find(|file| file.path == path).unwrap();
            (file.bytes > 0, file.problem.clone().unwrap_or_default())
        };
        for (path, expected_taken, expected_problem) in [
            ("near/AGENTS.md", false, "outside the workspace; skipped"),
            ("near/TOOLS.md", false, "holds secrets; skipped"),
            ("user/AGENTS.md", true, ""),
            ("user/TOOLS.md", false, "it is a folder; skipped"),
            ("far/AGENTS.md", true, "not valid UTF-8"),
            ("far/SOUL.md", false, "it is not a text; skipped"),
            ("user/SOUL.md", true, "too long (12000000 bytes)"),
            (
                "near/SOUL.md",
                true,
                "too long (131072 bytes); used only its first 65536 bytes",
            ),
        ] {
            let (is_taken, problem) = problem(path);
            assert_eq!(is_taken, expected_taken, "{path}: {problem}");
            assert!(problem.contains(expected_problem), "{path}: {problem}");
        }
        assert!(
            !found.files.iter().any(|file| file.path.ends_with("far/TOOLS.md")),
            "nothing is there"
        );
        let long = &found.texts[0].text;
        assert!(long.len() <= MAX_FILE && long.ends_with("it\n") && !long.contains('\r'));
        assert!(
            !found
                .texts
                .iter()
                .any(|text| text.path.ends_with("near/AGENTS.md"))
        );
    }

    #[test]
    fn the_total_size_is_limited_and_the_nearest_files_stay() {
        let disk = Disk::new();
        let text = "x".repeat(60_000);
        let dirs = ["user", "far", "near", "near/src", "near/src/deep"];
        for dir in dirs {
            disk.write(&format!("{dir}/AGENTS.md"), &text);
        }
        let found = disk.find("near/src/deep");
        assert_eq!(found.texts.len(), 4);
        let left_out: Vec<&InstructionFile> = found.files.iter().filter(|file| file.bytes == 0).collect();
        assert_eq!(left_out.len(), 1);
        assert!(left_out[0].path.ends_with("user/AGENTS.md"));
        assert!(left_out[0].problem.as_ref().unwrap().contains("skipped"));
    }

    #[test]
    fn a_file_with_two_names_is_used_once() {
        let disk = Disk::new();
        disk.write("near/AGENTS.md", "once");
        symlink(disk.base.join("near/AGENTS.md"), disk.base.join("far/AGENTS.md")).unwrap();
        symlink("AGENTS.md", disk.base.join("near/TOOLS.md")).unwrap();
        assert_eq!(disk.find("near").texts.len(), 1);
    }
}
