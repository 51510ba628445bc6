//! Approvals: an effect, a question about it, and its decision.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::ids::{ApprovalId, ToolCallId, TurnId};

/// How freely the agent may act (R-APPR-1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Read only.
    Plan,
    /// Reads are free; commands, writes and network ask.
    #[default]
    Ask,
    /// Edits inside the workspace are free too.
    AutoEdit,
    /// All is free.
    Full,
}

impl Mode {
    /// All modes, from the strictest.
    pub const ALL: [Self; 4] = [Self::Plan, Self::Ask, Self::AutoEdit, Self::Full];

    /// Its name in protocol, config and docs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Ask => "ask",
            Self::AutoEdit => "autoEdit",
            Self::Full => "full",
        }
    }

    /// The mode of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a tool call would do to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EffectKind {
    /// Nothing outside the session (the plan).
    None,
    /// Reads files.
    Read,
    /// Writes files.
    Write,
    /// Runs a command.
    Execute,
    /// Talks to the network.
    Network,
}

/// What a tool call would do, as far as approval needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The gravest kind.
    pub kind: EffectKind,
    /// Files it touches, resolved.
    pub paths: Vec<PathBuf>,
    /// What rules are matched against: a path relative to its root, a command line, a URL.
    pub subject: String,
    /// Some path lies outside the workspace folders.
    pub outside: bool,
    /// Some path looks like it holds secrets (R-SEC).
    pub secret: bool,
    /// What was noticed about the files that a command line names. `None`: nobody looked, so nothing in the line is
    /// known to stay inside the workspace.
    pub findings: Option<Vec<FileFinding>>,
}

impl Effect {
    /// An effect on nothing outside the session.
    pub fn none() -> Self {
        Self {
            kind: EffectKind::None,
            paths: Vec::new(),
            subject: String::new(),
            outside: false,
            secret: false,
            findings: None,
        }
    }

    /// A command to be run.
    pub fn from_command(command: impl Into<String>) -> Self {
        Self {
            kind: EffectKind::Execute,
            subject: command.into(),
            ..Self::none()
        }
    }
}

impl Effect {
    /// Whether this touches nothing that `approved` did not: a link may have changed while a person was reading.
    pub fn stays_within(&self, approved: &Self) -> bool {
        let known = approved.findings.as_deref().unwrap_or_default();
        let is_known = |finding: &FileFinding| {
            finding.kind == FindingKind::Unchecked
                || known.contains(finding)
                || (known.iter()).any(|of| of.part == finding.part && of.kind == FindingKind::Unchecked)
        };
        let findings = self.findings.as_deref().unwrap_or_default();
        let without = |effect: &Self| Self {
            findings: None,
            ..effect.clone()
        };
        without(self) == without(approved) && findings.iter().all(is_known)
    }
}

/// The files that a command line may name: its text alone, before anybody looks at the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandFiles {
    /// The folder of a `cd` that begins the line. Later words may be relative to it, or to the old folder if `cd`
    /// fails.
    pub folder: Option<String>,
    /// The words.
    pub words: Vec<FileWord>,
}

/// A word of a command line that may name files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileWord {
    /// The simple command that has it: an index into the line's commands.
    pub part: usize,
    /// Its text, unquoted. A leading `~` means the home folder.
    pub text: String,
    /// Bash expands it to the names of files.
    pub glob: bool,
    /// What the command does with the files.
    pub usage: FileUsage,
}

/// What a command does with a file that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileUsage {
    /// Unknown: the word may not even be a file.
    Mention,
    /// Tells names and sizes.
    List,
    /// Reads its content; a folder is an error.
    Read,
    /// Reads all files below.
    Search {
        /// Also files whose names begin with a dot.
        hidden: bool,
    },
    /// Reads the git repository that this folder belongs to.
    Repository {
        /// And shows the addresses of its remotes.
        urls: bool,
    },
}

/// Something about a file of a command line that the command's text does not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFinding {
    /// The simple command, as in [`FileWord::part`].
    pub part: usize,
    /// What it is.
    pub kind: FindingKind,
    /// The file, for people.
    pub file: String,
}

/// What is special about a file that a command names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// It lies outside the workspace folders.
    Outside,
    /// It looks like it holds secrets.
    Secret,
    /// The name begins with `-`, so the command takes it for an option.
    OptionName,
    /// It could not be checked.
    Unchecked,
}

/// How much harm an effect could do, by what it touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Risk {
    /// Only reads, inside the workspace.
    Low,
    /// Changes files inside the workspace, or runs a program that shows no sign of more.
    Medium,
    /// Network, secrets, files outside the workspace or that make programs run, recursive deletion, privileges, or a
    /// command that cannot be fully read.
    High,
}

/// An open question about an effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Approval {
    /// Its id; stays the same when it is asked again after a restart.
    pub id: ApprovalId,
    /// The call that waits.
    pub tool_call: ToolCallId,
    /// The tool's name.
    pub name: String,
    /// The call's arguments.
    pub input: Arc<Value>,
    /// A line for people.
    pub title: String,
    /// Where it would run.
    pub cwd: String,
    /// What it would change, as a unified diff.
    pub diff: Option<Arc<str>>,
    /// How much harm it could do.
    pub risk: Risk,
    /// Why it is asked.
    pub why: String,
    /// The rule that "always" would store, if one can be stored.
    pub rule: Option<String>,
}

/// An open question, and the event that asked it last.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenApproval {
    /// The question.
    pub approval: Approval,
    /// The event's number in its session.
    pub seq: u64,
    /// The turn that asks.
    pub turn: Option<TurnId>,
    /// When it was asked, in ms since the epoch.
    pub at_ms: i64,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DecisionKind {
    /// This once.
    Allow,
    /// For the rest of the session.
    AllowSession,
    /// From now on in this workspace.
    AllowAlways,
    /// No.
    Deny,
}

/// A decision with what the person added.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What was decided.
    pub kind: DecisionKind,
    /// What the model is told about a denial.
    pub feedback: Option<String>,
    /// Edited arguments.
    pub input: Option<Arc<Value>>,
    /// An edited rule.
    pub rule: Option<String>,
}

impl Decision {
    /// A plain decision.
    pub fn from_kind(kind: DecisionKind) -> Self {
        Self {
            kind,
            feedback: None,
            input: None,
            rule: None,
        }
    }
}

/// By what an approval was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResolvedBy {
    /// The person answered.
    Person,
    /// A rule or grant that came meanwhile.
    Rule,
    /// A cancel denied it.
    Cancel,
    /// Its time ran out.
    Timeout,
    /// A new prompt was sent instead.
    NewPrompt,
}

/// How far a grant reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GrantScope {
    /// This session.
    Session,
    /// Every session in this workspace folder.
    Workspace,
}

/// Something a person has allowed beyond one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its id, to revoke it.
    pub id: String,
    /// The rule, as in the config: `bash(git status *)`.
    pub rule: String,
    /// How far it reaches.
    pub scope: GrantScope,
    /// The workspace folder it was given for.
    pub folder: String,
    /// When, in ms since the epoch.
    pub at_ms: i64,
}
