//! Files that tell an agent how to work (R-LOOP-5): what was loaded of them.

/// What a file of instructions is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstructionKind {
    /// The `prompt_file` of a named agent: in the place of the built-in instructions.
    Prompt,
    /// `SOUL.md`: who the agent is.
    Soul,
    /// `AGENTS.md`: how to work here.
    Agents,
    /// `TOOLS.md`: how to use the tools.
    Tools,
    /// The `SKILL.md` of a skill: its name and description; the rest on demand.
    Skill,
}

impl InstructionKind {
    /// All of them, in the order of the system prompt.
    pub const ALL: [Self; 5] = [Self::Prompt, Self::Soul, Self::Agents, Self::Tools, Self::Skill];

    /// Its name on the wire and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Soul => "soul",
            Self::Agents => "agents",
            Self::Tools => "tools",
            Self::Skill => "skill",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A file of instructions, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstructionFile {
    /// Where it is.
    pub path: String,
    /// What it is for.
    pub kind: InstructionKind,
    /// The name of a skill.
    pub name: Option<String>,
    /// Bytes of it that the system prompt holds, or a skill's body has; 0 where it was left out.
    pub bytes: u64,
    /// Changes when its content does.
    pub fingerprint: String,
    /// It is the person's own, or lies in a folder that the person trusts.
    pub trusted: bool,
    /// Why it was cut or left out.
    pub problem: Option<String>,
}
