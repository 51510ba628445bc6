//! Skills: folders with a `SKILL.md`, in `skills/` of the user's folder and `.agentls/skills/` of workspace folders.
//!
//! The model sees names and descriptions; the rest is read when a skill is used. Must not run anything from a skill.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::PromptFolder;
use super::file::{self, compute_fingerprint};
use crate::base::front_matter;
use crate::base::text::one_line;
use crate::domain::{InstructionFile, InstructionKind};

/// The file that makes a folder a skill.
const FILE: &str = "SKILL.md";
/// Most skills loaded from one place.
const MAX_SKILLS: usize = 100;
/// Longest name, in characters.
const MAX_NAME: usize = 64;
/// Longest description, in characters; the rest is cut.
const MAX_DESCRIPTION: usize = 1_000;

/// The skills of a session by name.
#[derive(Clone, Debug, Default)]
pub struct Skills {
    all: BTreeMap<String, Skill>,
}

/// A skill that the model can read.
#[derive(Clone, Debug)]
pub struct Skill {
    pub name: String,
    /// Says when to use it.
    pub description: String,
    /// Whether the user trusts the folder that it comes from.
    pub trusted: bool,
    dir: PathBuf,
    source: PromptFolder,
}

/// The reason why a skill cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SkillError {
    #[error("unknown skill {name:?}; available: {known}")]
    Unknown {
        name: String,
        /// The names that exist.
        known: String,
    },
    /// The path leads out of the skill's folder.
    #[error("`{0}` is not in the skill's folder; give a relative path without `..`")]
    Outside(String),
    #[error("the skill has no file `{0}`")]
    Missing(String),
    #[error("cannot use `{file}` of the skill: {why}")]
    Unreadable { file: String, why: String },
}

impl Skills {
    /// Iterates over all skills, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Skill> {
        self.all.values()
    }

    /// Returns whether there are no skills.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Reads a skill's text, or another file in its folder. Blocks.
    ///
    /// # Errors
    /// The skill or the file does not exist, is outside the skill's folder, or cannot be used.
    pub fn read(&self, name: &str, file: Option<&str>) -> Result<String, SkillError> {
        let skill = self.all.get(name).ok_or_else(|| SkillError::Unknown {
            name: name.to_owned(),
            known: if self.all.is_empty() {
                "none".to_owned()
            } else {
                self.all.keys().cloned().collect::<Vec<_>>().join(", ")
            },
        })?;
        skill.read(file)
    }
}

impl Skill {
    fn read(&self, file: Option<&str>) -> Result<String, SkillError> {
        let requested = file.unwrap_or(FILE);
        // This checks the written path; `file::read` checks where links lead.
        let inside = Path::new(requested)
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !inside || requested.contains('\0') {
            return Err(SkillError::Outside(requested.to_owned()));
        }
        let unreadable = |reason: String| SkillError::Unreadable {
            file: requested.to_owned(),
            why: reason,
        };
        let prompt_file = file::read(&self.source, &self.dir.join(requested))
            .ok_or_else(|| SkillError::Missing(requested.to_owned()))?
            .map_err(unreadable)?;
        let mut text = match file {
            Some(_) => prompt_file.text,
            // The model knows name and description already.
            None => front_matter::split_front_matter(&prompt_file.text)
                .map_err(unreadable)?
                .body
                .trim()
                .to_owned(),
        };
        if let Some(problem) = prompt_file.problem {
            text.push_str(&format!("\n\n[{problem}]"));
        }
        if file.is_none() {
            text.push_str(&format!(
                "\n\n[The skill's folder: {}. Other files of it: read_skill with `file`.]",
                self.dir.display()
            ));
        }
        Ok(text)
    }
}

/// Finds all skills in `folders`; of two with the same name, the nearer one counts.
pub(super) fn find(folders: &[PromptFolder]) -> (Skills, Vec<InstructionFile>) {
    let mut skills = Skills::default();
    let mut files: Vec<InstructionFile> = Vec::new();
    for source in folders {
        let dir = match source.within {
            None => source.dir.join("skills"),
            Some(_) => source.dir.join(".agentls/skills"),
        };
        for dir in list_skill_folders(source, &dir) {
            let Some((instruction_file, skill)) = load_skill(source, &dir) else {
                continue;
            };
            if let Some(skill) = skill {
                // The nearer skill replaces the farther one in the report too.
                files.retain(|file| file.name.as_ref() != Some(&skill.name));
                skills.all.insert(skill.name.clone(), skill);
            }
            files.push(instruction_file);
        }
    }
    (skills, files)
}

/// Lists the entries of `dir`, sorted by name.
fn list_skill_folders(source: &PromptFolder, dir: &Path) -> Vec<PathBuf> {
    let mut found = file::list_entry_paths(source, dir);
    found.sort();
    found.truncate(MAX_SKILLS);
    found
}

fn load_skill(source: &PromptFolder, dir: &Path) -> Option<(InstructionFile, Option<Skill>)> {
    let path = dir.join(FILE);
    let prompt_file = file::read(source, &path)?;
    let mut instruction_file =
        InstructionFile::new(path.display().to_string(), InstructionKind::Skill, source.trusted);
    let head = prompt_file.and_then(|prompt_file| {
        instruction_file.fingerprint = compute_fingerprint(&prompt_file.text);
        instruction_file.problem = prompt_file.problem;
        instruction_file.bytes = prompt_file.text.len() as u64;
        let head = front_matter::split_front_matter(&prompt_file.text)?.head;
        parse_skill_head(head, dir)
    });
    match head {
        Ok((name, description)) => {
            instruction_file.name = Some(name.clone());
            let skill = Skill {
                name,
                description,
                trusted: source.trusted,
                dir: dir.to_path_buf(),
                source: source.clone(),
            };
            Some((instruction_file, Some(skill)))
        }
        Err(reason) => {
            // Nothing of it is used.
            instruction_file.bytes = 0;
            instruction_file.problem = Some(format!("{reason}; skipped the skill"));
            Some((instruction_file, None))
        }
    }
}

/// Returns name and description.
fn parse_skill_head(mut head: BTreeMap<String, String>, dir: &Path) -> Result<(String, String), String> {
    let folder = || dir.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = head
        .remove("name")
        .filter(|name| !name.is_empty())
        .or_else(folder);
    // A name of several words is usual elsewhere.
    let name = name
        .unwrap_or_default()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join("-");
    let usable = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.chars().count() > MAX_NAME || !name.chars().all(usable) {
        return Err(format!(
            "its name {:?} must be a short word of letters, digits, `-`, `_` and `.`",
            one_line(&name, MAX_NAME)
        ));
    }
    match head.remove("description").filter(|text| !text.trim().is_empty()) {
        Some(description) => Ok((name, one_line(&description, MAX_DESCRIPTION))),
        None => Err("its front matter needs a `description` that says when to use it".to_owned()),
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::super::{SourceFolder, Sources};

    #[test]
    fn the_nearer_skill_wins_and_broken_ones_are_reported() {
        let dir = TempDir::new().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let write = |path: &str, text: &str| {
            let path = base.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "user/skills/a/SKILL.md",
            "---\nname: both\ndescription: the user's\n---\nfar",
        );
        write(
            "user/skills/b/SKILL.md",
            "---\ndescription: named by its folder\n---\n\nBody.\n",
        );
        write("user/skills/b/more/notes.md", "notes");
        write(
            "w/.agentls/skills/x/SKILL.md",
            "---\nname: both\ndescription: here\n---\nnear",
        );
        write(
            "w/.agentls/skills/two/SKILL.md",
            "\n---\nname: two words\ndescription: x\n---\n",
        );
        write("w/.agentls/skills/none/SKILL.md", "no head at all");
        write("w/.agentls/skills/open/SKILL.md", "---\nname: x\n");
        write(
            "w/.agentls/skills/bad/SKILL.md",
            "---\nname: a/b\ndescription: x\n---\n",
        );
        write("w/.agentls/skills/empty/README.md", "");
        write("out/secret", "s");
        symlink(base.join("out/secret"), base.join("w/.agentls/skills/x/leak")).unwrap();
        fs::create_dir_all(base.join("w/.agentls/skills/link")).unwrap();
        symlink(
            base.join("out/secret"),
            base.join("w/.agentls/skills/link/SKILL.md"),
        )
        .unwrap();
        let sources = Sources {
            user: Some(base.join("user")),
            folders: vec![SourceFolder {
                path: base.join("w"),
                trusted: false,
            }],
            cwd: base.join("w"),
            ..Sources::default()
        };
        let found = sources.load_instructions();
        let names: Vec<_> = found
            .skills
            .iter()
            .map(|skill| (skill.name.as_str(), skill.description.as_str()))
            .collect();
        assert_eq!(
            names,
            [("b", "named by its folder"), ("both", "here"), ("two-words", "x")]
        );
        let problems: Vec<_> = found
            .files
            .iter()
            .filter_map(|file| file.problem.as_deref())
            .collect();
        assert_eq!(problems.len(), 4, "{problems:?}");
        for (problem, wanted) in problems.iter().zip([
            "a short word",
            "outside the workspace",
            "description",
            "does not end",
        ]) {
            assert!(
                problem.contains(wanted) && problem.contains("skipped the skill"),
                "{problem}"
            );
        }
        let skills = &found.skills;
        let body = skills.read("b", None).unwrap();
        assert!(body.starts_with("Body.\n\n[The skill's folder: "), "{body}");
        assert_eq!(skills.read("b", Some("more/notes.md")).unwrap(), "notes");
        assert!(skills.read("both", None).unwrap().starts_with("near"));
        for (name, file, expected) in [
            ("none", None, "available: b, both"),
            ("b", Some("../a/SKILL.md"), "without `..`"),
            ("b", Some("/etc/passwd"), "without `..`"),
            ("b", Some("x"), "has no file `x`"),
            ("both", Some("leak"), "outside the workspace"),
        ] {
            let error = skills.read(name, file).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(
            found
                .files
                .iter()
                .filter(|file| file.name.as_deref() == Some("both"))
                .count(),
            1
        );
    }
}
