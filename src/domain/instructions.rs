//! Instruction files (R-LOOP-5): a record of which ones the system prompt contains, and why others are missing.
//!
//! Plain values; `workspace` finds and reads the files.

/// The role of an instruction file in the system prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstructionKind {
    /// The `prompt_file` of a named agent, which replaces the built-in instructions.
    Prompt,
    /// `SOUL.md`: who the agent is.
    Soul,
    /// `AGENTS.md`: how to work in this folder.
    Agents,
    /// `TOOLS.md`: how to use the tools.
    Tools,
    /// The `SKILL.md` of a skill: the prompt lists its name and description; the body loads on demand.
    Skill,
}

impl InstructionKind {
    /// All kinds, in the order of the system prompt.
    pub const ALL: [Self; 5] = [Self::Prompt, Self::Soul, Self::Agents, Self::Tools, Self::Skill];

    /// Returns the name used on the wire and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Soul => "soul",
            Self::Agents => "agents",
            Self::Tools => "tools",
            Self::Skill => "skill",
        }
    }

    /// Returns the kind called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// An instruction file as the server read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstructionFile {
    pub path: String,
    pub kind: InstructionKind,
    /// The skill's name; `None` for other kinds.
    pub name: Option<String>,
    /// How many bytes of it the system prompt contains, or the length of a skill's body; 0 if it was left out.
    pub bytes: u64,
    /// Changes whenever the content does.
    pub fingerprint: String,
    /// Whether it belongs to the user or lies in a folder that the user trusts.
    pub trusted: bool,
    /// Why it was cut or left out.
    pub problem: Option<String>,
}
