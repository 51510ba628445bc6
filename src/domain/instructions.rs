//! Instruction files (R-LOOP-5): a record of which ones the system prompt contains, and why others are missing.
//!
//! Plain values; `workspace` finds and reads the files.

use serde::{Deserialize, Serialize};

use super::words::word_enum;

word_enum! {
    /// The role of an instruction file in the system prompt.
    pub enum InstructionKind {
        /// The `prompt_file` of a named agent, which replaces the built-in instructions.
        Prompt = "prompt",
        /// `SOUL.md`: who the agent is.
        Soul = "soul",
        /// `AGENTS.md`: how to work in this folder.
        Agents = "agents",
        /// `TOOLS.md`: how to use the tools.
        Tools = "tools",
        /// The `SKILL.md` of a skill: the prompt lists its name and description; the body loads on demand.
        Skill = "skill",
    }
}

/// An instruction file as the server read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct InstructionFile {
    pub path: String,
    pub kind: InstructionKind,
    /// The skill's name; `None` for other kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How many bytes of it the system prompt contains, or the length of a skill's body; 0 if it was left out.
    pub bytes: u64,
    /// Changes whenever the content does.
    pub fingerprint: String,
    /// Whether it belongs to the user or lies in a folder that the user trusts.
    pub trusted: bool,
    /// Why it was cut or left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl InstructionFile {
    /// Returns the record of a file of which nothing is used yet.
    pub fn new(path: String, kind: InstructionKind, trusted: bool) -> Self {
        Self {
            path,
            kind,
            name: None,
            bytes: 0,
            fingerprint: String::new(),
            trusted,
            problem: None,
        }
    }
}
