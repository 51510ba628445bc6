//! Approvals: the effect of a tool call, the question about it, and the decision (R-APPR).
//!
//! Plain values. What a mode or a rule allows is decided in `approval`; which files exist is found out in `workspace`.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ids::{ApprovalId, ToolCallId, TurnId};
use super::loss::{Losses, NamedLosses};
use super::optional::deserialize_present;
use super::sandbox::{Confinement, SandboxPolicy};
use super::tool_definition::{GrantedTool, ToolDefinition};
use super::words::word_enum;

word_enum! {
    /// How freely the agent may act (R-APPR-1). Rules and grants refine it; see `approval::policy` for the order.
    #[derive(Default)]
    pub enum Mode {
        /// Reads only: denies writes, network access, and commands that do more than read.
        Plan = "plan",
        /// Reads are free; commands, writes, and network access ask.
        #[default]
        Ask = "ask",
        /// Like `Ask`, and edits inside the workspace are free.
        AutoEdit = "autoEdit",
        /// Everything is free, except what a `deny` or `require_approval` rule catches.
        Full = "full",
    }
}

impl Mode {
    /// Returns what the commands of a session in this mode may do in the sandbox.
    pub fn sandbox_policy(self) -> SandboxPolicy {
        match self {
            Self::Plan => SandboxPolicy::ReadOnly,
            Self::Ask | Self::AutoEdit => SandboxPolicy::Workspace,
            Self::Full => SandboxPolicy::Off,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kind of change that a tool call would make outside the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EffectKind {
    /// Touches nothing outside the session, such as an update of the plan.
    #[default]
    None,
    Read,
    Write,
    Execute,
    Network,
}

/// What a tool call would do, as far as an approval needs to know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// The most serious kind, if the call has several effects.
    pub kind: EffectKind,
    /// The files it touches, with links resolved.
    pub paths: Vec<PathBuf>,
    /// What rules match against: a path relative to its root, a command line, or a URL.
    pub subject: String,
    /// Whether some path lies outside the workspace folders.
    pub outside: bool,
    /// Whether some path looks like it holds secrets (R-SEC).
    pub secret: bool,
    /// What the check found about the files that a command line names. `None` means that no check ran, so no file of
    /// the line is known to stay inside the workspace.
    pub findings: Option<Vec<FileFinding>>,
    /// The line that runs in place of its command, if that would show secrets that it does not name.
    pub narrowed: Option<Arc<NarrowedCommand>>,
    /// The losses that its command would cause; `None` if it deletes and overwrites nothing, as far as its text shows.
    pub losses: Option<Losses>,
    /// Whether a program of this machine does it: its command, or that of an MCP server.
    pub has_program: bool,
    /// How its command would run.
    pub confinement: Confinement,
    /// What its program may do in the sandbox, if the settings of the user's own tool or of the MCP server say so.
    pub sandbox: Option<SandboxPolicy>,
    /// The tool of an MCP server that is called, if it is one.
    pub foreign: Option<ForeignTool>,
    /// Other built-in tools that together do the same. Rules for them count too.
    pub stands_for: Vec<&'static str>,
}

/// A tool of an MCP server, as far as an approval needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignTool {
    /// The name that rules use: `mcp:server/tool`.
    pub name: String,
    /// The server says that it changes nothing, and the settings believe it.
    pub only_reads: bool,
    pub definition: Arc<ToolDefinition>,
}

impl Effect {
    /// Returns an effect that touches nothing outside the session.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns the effect of running a command line whose files have not been checked.
    pub fn from_command(command: impl Into<String>) -> Self {
        Self {
            kind: EffectKind::Execute,
            subject: command.into(),
            has_program: true,
            ..Self::none()
        }
    }

    /// Returns whether the settings of its tool demand that its command is confined.
    pub fn demands_sandbox(&self) -> bool {
        self.foreign.is_none() && self.sandbox.is_some_and(|policy| policy != SandboxPolicy::Off)
    }

    /// Returns whether nothing but the sandbox holds its command to reading, or to writing in the workspace.
    pub fn relies_on_sandbox(&self) -> bool {
        self.demands_sandbox() && matches!(self.kind, EffectKind::Read | EffectKind::Write)
    }

    /// Returns whether this effect touches nothing that `approved` did not.
    ///
    /// An effect is computed again after the user decides, because a link may change while the user reads.
    pub fn stays_within(&self, approved: &Self) -> bool {
        let known = approved.findings.as_deref().unwrap_or_default();
        // `Unchecked` shows no new file, so it cannot prove a change. Where the user approved an `Unchecked` command,
        // the approval already covers whatever its files turn out to be.
        let is_known = |finding: &FileFinding| {
            finding.kind == FindingKind::Unchecked
                || known.contains(finding)
                || (known.iter()).any(|of| of.part == finding.part && of.kind == FindingKind::Unchecked)
        };
        let findings = self.findings.as_deref().unwrap_or_default();
        let without = |effect: &Self| Self {
            findings: None,
            losses: None,
            ..effect.clone()
        };
        let loses_no_more = match (&self.losses, &approved.losses) {
            (None, _) => true,
            (Some(now), Some(then)) => now.is_within(then),
            (Some(now), None) => now.is_within(&Losses::default()),
        };
        without(self) == without(approved) && findings.iter().all(is_known) && loses_no_more
    }
}

/// The files that a command line may name, judged by its text alone, before a look at the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandFiles {
    /// The folder of a leading `cd`. Later words are relative to it, or to the old folder if the `cd` fails.
    pub folder: Option<String>,
    pub words: Vec<FileWord>,
    /// The programs that run without a question if they only read, each with its simple command.
    pub programs: Vec<(usize, String)>,
}

/// A word of a command line that may name one or several files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileWord {
    /// The simple command that contains the word: an index into the line's commands.
    pub part: usize,
    /// The unquoted text. A leading `~` means the home folder.
    pub text: String,
    /// Whether Bash expands it to file names.
    pub glob: bool,
    /// What the command does with the files.
    pub usage: FileUsage,
}

/// What a command does with a file that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileUsage {
    /// Unknown; the word may not even be a file.
    Mention,
    /// Prints names and sizes.
    List,
    /// Reads the content; a folder is an error.
    Read,
    /// As [`FileUsage::Read`]. Without such a file, git takes it for the name of a tag or a branch.
    ReadOrTag,
    /// Reads all files below a folder.
    Search {
        /// Whether this includes files whose names begin with a dot.
        hidden: bool,
    },
    /// Reads the git repository that contains this folder.
    Repository {
        /// Whether the command also prints the URLs of the remotes.
        urls: bool,
        /// What it prints of the content of files.
        contents: GitContents,
    },
}

/// Of which files a git command prints the content, besides those of the work tree that it names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GitContents {
    #[default]
    None,
    /// Of those that it names in a commit, such as `HEAD:a`.
    Named,
    /// Of any that git has, or ever had.
    Any,
}

/// Something about a file of a command line that the command's text does not show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFinding {
    /// The index of the simple command, as in [`FileWord::part`].
    pub part: usize,
    pub kind: FindingKind,
    /// The file, as shown to users.
    pub file: String,
    /// Its name in git, from the top of the work tree, if git shows it only because it is tracked. So git can leave it
    /// out.
    pub tracked_as: Option<String>,
}

/// A command line that shows less than the one that was given, and runs in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NarrowedCommand {
    pub line: String,
    /// What its git commands leave out, as git names it, as far as this is known.
    pub left_out: Vec<String>,
    /// Whether they show commits, so they may leave out more.
    pub shows_commits: bool,
    pub hidden_commits: HiddenCommits,
}

/// Which commits a narrowed command does not list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum HiddenCommits {
    #[default]
    None,
    /// Those that change only what is left out.
    OfSecrets,
    /// These, and merges, unless `--` says that no word before it is a file.
    WithMerges,
}

/// What is special about a file that a command names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// Lies outside the workspace folders.
    Outside,
    /// Looks like it holds secrets.
    Secret,
    /// Git may show it as it is in any commit, also if it is a secret.
    History,
    /// Git leaves it out together with secrets, because the pathspecs cover more names. Needs no question.
    LeftOut,
    /// No file has this name, so git takes it for a tag or a branch. A tag may point to the content of a file.
    Tag,
    /// Has a name that begins with `-`, so the command takes it for an option.
    OptionName,
    /// Could not be checked, so anything may be true of it.
    Unchecked,
    /// Is the program that runs, and comes from the workspace: its name does not say what it does.
    WorkspaceProgram,
}

word_enum! {
    /// How much harm an effect could do, judged by what it touches. Ordered from harmless to harmful.
    pub enum Risk {
        /// Only reads, and only inside the workspace.
        Low = "low",
        /// Changes files inside the workspace, or runs a program that shows no sign of doing more.
        Medium = "medium",
        /// Network, secrets, privileges, or recursive deletion; files outside the workspace, or files that make programs
        /// run; or a command that cannot be fully parsed.
        High = "high",
    }
}

/// A pending question about an effect, with everything a client needs to show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct Approval {
    /// Stays the same when the question is asked again after a restart.
    pub id: ApprovalId,
    pub tool_call: ToolCallId,
    pub name: String,
    /// The arguments of the call.
    #[cfg_attr(test, proptest(strategy = "super::arbitrary::arb_json()"))]
    pub input: Arc<Value>,
    /// A one-line summary for users.
    pub title: String,
    /// The folder in which the call would run.
    pub cwd: String,
    /// The change it would make, as a unified diff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<Arc<str>>,
    pub risk: Risk,
    /// Why the call needs approval, for users, without what `losses` says. Empty if these are the only reason.
    pub why: String,
    /// How its command would run, for users; `None` if it runs none or the sandbox is not enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// The rule that "always" would store; `None` if no rule can be stored for this effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What would be gone for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub losses: Option<NamedLosses>,
}

impl Approval {
    /// Returns all reasons for the question, as one text for users.
    pub fn describe_reasons(&self) -> String {
        let losses = self.losses.as_ref().map(NamedLosses::describe);
        match losses {
            Some(losses) if self.why.is_empty() => losses,
            Some(losses) => format!("{losses} · {}", self.why),
            None => self.why.clone(),
        }
    }
}

/// A pending approval with the event that asked for it most recently.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct OpenApproval {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The event's number in its session.
    #[serde(default)]
    pub seq: u64,
    /// When it was asked, in ms since the epoch.
    #[serde(default)]
    pub at_ms: i64,
    pub approval: Approval,
}

word_enum! {
    /// How an approval was decided, and how far the decision reaches.
    pub enum DecisionKind {
        /// Allowed this once.
        Allow = "allow",
        /// Allowed for the rest of the session.
        AllowSession = "allow_session",
        /// Allowed from now on in this workspace.
        AllowAlways = "allow_always",
        Deny = "deny",
    }
}

/// A decision with everything the user added to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct Decision {
    pub kind: DecisionKind,
    /// The text that the model receives with a denial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// The arguments as edited by the user; `None` if unchanged.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "deserialize_present"
    )]
    #[cfg_attr(test, proptest(strategy = "super::arbitrary::arb_optional_json()"))]
    pub input: Option<Arc<Value>>,
    /// The rule as edited by the user; `None` if unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

impl Decision {
    /// Returns a decision without feedback or edits.
    pub fn from_kind(kind: DecisionKind) -> Self {
        Self {
            kind,
            feedback: None,
            input: None,
            rule: None,
        }
    }

    /// Returns what the model reads about a denial.
    pub fn describe_denial(&self) -> String {
        match &self.feedback {
            Some(feedback) if !feedback.trim().is_empty() => format!("Denied by user: {feedback}"),
            _ => "Denied by user".to_owned(),
        }
    }
}

word_enum! {
    /// Who or what settled an approval or an inquiry.
    pub enum ResolvedBy {
        /// The user answered.
        Person = "person",
        /// A rule or grant that was added while the question was open.
        Rule = "rule",
        /// A cancel, which denies an open approval (R-APPR-4).
        Cancel = "cancel",
        /// The optional time limit expired.
        Timeout = "timeout",
        /// The user sent a new prompt instead of an answer.
        NewPrompt = "new_prompt",
    }
}

/// How far a grant reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GrantScope {
    Session,
    /// Every session in this workspace folder.
    Workspace,
}

/// A permission that the user gave for more than one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Identifies the grant when the user revokes it.
    pub id: String,
    /// The rule in the syntax of the configuration: `bash(git status *)`.
    pub rule: String,
    pub scope: GrantScope,
    /// The workspace folder for which it was given.
    pub folder: String,
    /// When it was given, in ms since the epoch.
    pub at_ms: i64,
    /// The tool of an MCP server for whose call it was given. `None` for other calls, and in grants of versions that did
    /// not record it.
    pub tool: Option<GrantedTool>,
}

impl Grant {
    /// Returns whether this is the same permission as an earlier one, for the tool of an MCP server as it is now.
    pub fn replaces(&self, earlier: &Self) -> bool {
        let Some(tool) = &self.tool else { return false };
        let is_for_tool = (earlier.tool.as_ref()).is_none_or(|earlier| earlier.name == tool.name);
        is_for_tool
            && earlier.rule == self.rule
            && earlier.scope == self.scope
            && earlier.folder == self.folder
    }
}
