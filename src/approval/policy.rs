//! The verdict on an effect (R-APPR-1, R-SEC): modes, rules, and grants in their order of strength.
//!
//! Pure: takes values, asks no one, keeps nothing. Invariant I9 starts here: what is not `Allow` must not run.
//!
//! The order, strongest first:
//!
//! 1. A `deny` rule denies in every mode. Where one may match, the user is asked, also in `full`: for a word that only
//!    the shell knows (`$x -rf /`), or a program that could run another one (`known`). While the configuration has an
//!    invalid `deny` or `require_approval` rule, everything but plain reading asks ([`Policy::invalid_rules`]).
//! 2. An effect on nothing is allowed.
//! 3. `plan` denies writes, the network, and commands, except commands that only read.
//! 4. `require_approval` asks, also in `full`. Only a grant of the user overrides it; an `allow` rule does not.
//! 5. `full` allows.
//! 6. Secret-like files, files outside the workspace, and files that make programs run (`steering`) ask, unless a rule
//!    names them (`read_file(.env)`, `edit_file(/tmp/**)`, `edit_file(.git/**)`). After foreign content (R-TOOL-7), the
//!    network, tools of other MCP servers than its source, and writes outside the workspace ask whatever the rules say.
//! 7. What the mode leaves free is allowed: reads, commands that only read (`read_only`) inside the workspace, and in
//!    `autoEdit` writes.
//! 8. A grant or an `allow` rule allows. For a tool of an MCP server, it must mean the tool as it is now (`definitions`).
//! 9. Everything else asks.
//!
//! Whatever allows a command, it asks if it would make something disappear for good (`losses`).
//!
//! A command line is allowed only if each simple command in it is allowed, and no part of it is unparsed. A command
//! with a variable, a substitution, or a redirection that writes a file is allowed only by a rule without a pattern
//! (`bash`, `*`). See `commands` for command lines; this file judges everything else.

use std::path::{Path, PathBuf};

use super::rule::{OUTSIDE_SANDBOX, PATCH_TOOL, Rule, SANDBOXED, WEB_SEARCH};
use super::secret;
use crate::base::steering::{Steering, find_steering};
use crate::base::text::{one_line, reveal_hidden_characters};
use crate::domain::{
    Confinement, Effect, EffectKind, FirstUses, ForeignContent, GrantedTool, Losses, Mode, NamedLosses, Risk,
    SandboxPolicy,
};

mod commands;
mod definitions;

/// The longest text that "always" offers, in bytes. A user must be able to read all of it.
const MAX_OFFERED_TEXT: usize = 1024;

/// Everything that decides about approvals: the mode, the configured rules, and the user's grants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub mode: Mode,
    /// The configured `require_approval` rules.
    pub require_approval: Vec<Rule>,
    /// The configured `allow` rules.
    pub allow: Vec<Rule>,
    /// The configured `deny` rules.
    pub deny: Vec<Rule>,
    /// Why rules that deny or ask may be missing, each as a text for users: `the deny rule … is not valid`.
    ///
    /// While there is one, only plain reads inside the workspace happen without a question, whatever else allows them.
    pub invalid_rules: Vec<String>,
    /// The user's grants for the session or the workspace folder.
    pub grants: Vec<GrantedRule>,
    /// What tools of MCP servers were when a rule first allowed them.
    pub first_uses: FirstUses,
    /// Where foreign content that has reached the model came from. If there is any, the network and writes
    /// outside the workspace ask again, whatever was allowed, except in `full`.
    pub foreign_content: ForeignContent,
    /// Whether commands in a sandbox need approval; by the mode if `None` (R-BOX).
    pub sandboxed_needs_approval: Option<bool>,
}

/// A rule that the user has granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedRule {
    pub rule: Rule,
    /// The tool of an MCP server for whose call it was granted. Without one, it covers no such tool.
    pub tool: Option<GrantedTool>,
}

impl From<Rule> for GrantedRule {
    fn from(rule: Rule) -> Self {
        Self { rule, tool: None }
    }
}

/// What happens with an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may happen.
    Allow {
        /// The mode or rule that allows it, for logs.
        by: String,
    },
    /// The user must be asked first.
    Ask {
        /// Why, for users.
        reason: String,
        risk: Risk,
        /// The rules that "always" would store, in the syntax of `Rule::parse_list`; `None` if no rule could be
        /// stored, or if it would be too broad.
        rule: Option<String>,
        /// What would be lost, which `reason` does not repeat.
        losses: Option<NamedLosses>,
    },
    /// It must not happen.
    Deny {
        /// Why, for the model and users.
        reason: String,
    },
}

/// Returns what a command of this effect may do when it runs: what the mode allows, or less if its tool states less.
/// A tool that states `off` is never confined.
pub fn choose_sandbox_policy(mode: Mode, effect: &Effect) -> SandboxPolicy {
    let by_mode = match effect.confinement {
        Confinement::Declined => SandboxPolicy::Off,
        Confinement::None | Confinement::Sandboxed => mode.sandbox_policy(),
    };
    match effect.sandbox {
        Some(SandboxPolicy::Off) => SandboxPolicy::Off,
        Some(stated) => by_mode.min(stated),
        None => by_mode,
    }
}

/// Returns whether the command of this effect would run in a sandbox that holds.
pub fn is_confined(mode: Mode, effect: &Effect) -> bool {
    effect.confinement == Confinement::Sandboxed && choose_sandbox_policy(mode, effect) != SandboxPolicy::Off
}

/// Judges what a tool call would do.
///
/// `tool` is the name that rules use (`bash`, `edit_file`, `mcp:server/tool`). For [`EffectKind::Execute`],
/// `effect.subject` is the whole command line, except for MCP tools.
pub fn judge_tool_call(policy: &Policy, tool: &str, effect: &Effect) -> Verdict {
    let tool = effect.foreign.as_ref().map_or(tool, |foreign| &foreign.name);
    let call = JudgedCall { policy, tool, effect };
    let verdict = match effect.kind {
        EffectKind::Execute if !call.is_foreign() => call.judge_command(),
        EffectKind::None
        | EffectKind::Read
        | EffectKind::Write
        | EffectKind::Execute
        | EffectKind::Network => call.judge_plain(),
    };
    let verdict = match policy.invalid_rules.first() {
        Some(missing) if !call.is_plain_read() => call.ask_for_missing_rule(verdict, missing),
        Some(_) | None => verdict,
    };
    let Some(found) = &effect.losses else {
        return verdict;
    };
    // Who allowed exactly this line outside the sandbox knows which files it writes there.
    let spares_outside = is_confined(policy.mode, effect) || call.find_outside_rule(None).is_some();
    ask_for_losses(verdict, found, spares_outside)
}

/// Turns a verdict into a question if something would be lost, and says what; no mode and no rule answers it in advance.
/// Otherwise it says that a revert helps. With `spares_outside`, files outside the workspace do not count.
fn ask_for_losses(verdict: Verdict, found: &Losses, spares_outside: bool) -> Verdict {
    match (verdict, found.in_reach(spares_outside)) {
        (Verdict::Allow { .. }, losses @ Some(_)) => Verdict::Ask {
            reason: String::new(),
            risk: Risk::High,
            rule: None,
            losses,
        },
        (Verdict::Ask { reason, .. }, losses @ Some(_)) => Verdict::Ask {
            reason,
            risk: Risk::High,
            // The next one would ask again.
            rule: None,
            losses,
        },
        (
            Verdict::Ask {
                reason,
                risk,
                rule,
                losses,
            },
            None,
        ) if found.has_restorable => Verdict::Ask {
            reason: format!("{reason} · a revert brings back what it deletes or overwrites"),
            risk: risk.max(Risk::Medium),
            rule,
            losses,
        },
        (verdict, _) => verdict,
    }
}

#[derive(Clone, Copy)]
struct JudgedCall<'a> {
    policy: &'a Policy,
    tool: &'a str,
    effect: &'a Effect,
}

/// Whether a rule applies to a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RuleMatch {
    No,
    Maybe,
    Yes,
}

impl<'a> JudgedCall<'a> {
    /// Returns whether this is a tool of an MCP server.
    fn is_of_mcp(&self) -> bool {
        self.tool.starts_with("mcp:")
    }

    /// Returns whether this is a tool of an MCP server of which we do not know what it does.
    fn is_foreign(&self) -> bool {
        let only_reads = self
            .effect
            .foreign
            .as_ref()
            .is_some_and(|foreign| foreign.only_reads);
        self.is_of_mcp() && !only_reads
    }

    /// Returns the rules, of those that deny or demand a question, that apply to the tool.
    fn filter_restrictions<'r>(&self, rules: &'r [Rule]) -> impl Iterator<Item = &'r Rule> + use<'r, 'a> {
        let (tool, by_sandbox) = (self.tool, self.name_by_sandbox());
        let parts = &self.effect.stands_for;
        rules.iter().filter(move |rule| {
            rule.restricts_tool(tool)
                || parts.iter().any(|part| rule.restricts_tool(part))
                || by_sandbox.is_some_and(|name| rule.matches_tool(name))
        })
    }

    /// Returns the name that rules use for a command of `bash` by its sandbox, if it has one.
    fn name_by_sandbox(&self) -> Option<&'static str> {
        match self.effect.confinement {
            Confinement::None => None,
            Confinement::Sandboxed => Some(SANDBOXED),
            Confinement::Declined => Some(OUTSIDE_SANDBOX),
        }
    }

    fn deny_by_rule(rule: &Rule) -> Verdict {
        Verdict::Deny {
            reason: format!("denied by the rule `{rule}`; do not work around it"),
        }
    }

    /// Returns whether it reads inside the workspace, with nothing special about it.
    fn is_plain_read(&self) -> bool {
        !self.is_foreign()
            && match self.effect.kind {
                EffectKind::None => true,
                EffectKind::Read => !self.is_own_tool() && self.find_care_reason().is_none(),
                EffectKind::Write | EffectKind::Execute | EffectKind::Network => false,
            }
    }

    /// Turns an allowed effect into a question, each time: the missing rule could have denied it.
    fn ask_for_missing_rule(&self, verdict: Verdict, missing: &str) -> Verdict {
        match verdict {
            Verdict::Allow { .. } => Verdict::Ask {
                reason: missing.to_owned(),
                risk: match self.effect.kind {
                    EffectKind::Execute => Risk::High,
                    _ => self.assess_risk(),
                },
                rule: None,
                losses: None,
            },
            Verdict::Ask {
                reason, risk, losses, ..
            } => Verdict::Ask {
                reason: format!("{missing}; {reason}"),
                risk,
                rule: None,
                losses,
            },
            denied @ Verdict::Deny { .. } => denied,
        }
    }

    fn plan_denies(&self) -> bool {
        self.policy.mode == Mode::Plan
            && match self.effect.kind {
                EffectKind::Write | EffectKind::Execute | EffectKind::Network => true,
                EffectKind::None | EffectKind::Read => false,
            }
    }

    /// `special` says what about a command is not reading, if that is known.
    fn denied_by_plan(special: Option<&str>) -> Verdict {
        let special = special.map(|reason| format!(" (reason: {reason})"));
        Verdict::Deny {
            reason: format!(
                "plan mode is read only: no writes, no network, and only commands that read; put it into the \
                 plan instead{}",
                special.unwrap_or_default()
            ),
        }
    }

    fn judge_plain(&self) -> Verdict {
        for rule in self.filter_restrictions(&self.policy.deny) {
            if self.matches_any_target(rule) {
                return Self::deny_by_rule(rule);
            }
        }
        if self.effect.kind == EffectKind::None && !self.is_foreign() {
            return Verdict::Allow {
                by: "nothing to approve".to_owned(),
            };
        }
        if self.plan_denies() {
            return Self::denied_by_plan(None);
        }
        let forced = self
            .filter_restrictions(&self.policy.require_approval)
            .find(|rule| self.matches_any_target(rule));
        // A grant overrides `require_approval` even in `full`, so that case continues below.
        let mode = self.policy.mode;
        if mode == Mode::Full && forced.is_none() {
            return allowed_by_mode(mode);
        }
        let care = self.find_care_reason();
        if care.is_none() && forced.is_none() && self.is_free() {
            return allowed_by_mode(mode);
        }
        // In `full`, only `require_approval` leads here: what needs care, and R-TOOL-7, do not count.
        let full = mode == Mode::Full;
        if (full || !self.ignores_rules())
            && let Some(rule) = self
                .rules_that_count(forced)
                .find(|rule| self.matches_all_targets(rule) && (full || self.satisfies_care(rule)))
        {
            return Verdict::Allow {
                by: format!("rule `{rule}`"),
            };
        }
        let mut reason = match (care, forced) {
            (Some(care), _) => care,
            (None, Some(rule)) => format!("{}; `{rule}` always asks", self.describe_effect()),
            (None, None) => self.describe_effect(),
        };
        if self.reaches_other_server() {
            reason.push_str("; content from outside may have told the model to send data there");
        }
        if let Some(change) = self.explain_redefinition(forced) {
            reason.push_str(&format!("; {change}"));
        }
        Verdict::Ask {
            reason,
            risk: self.assess_risk(),
            rule: self.offer_rule(),
            losses: None,
        }
    }

    fn is_free(&self) -> bool {
        !self.is_foreign()
            && !self.reaches_other_server()
            && match self.effect.kind {
                EffectKind::None | EffectKind::Read => true,
                EffectKind::Write => self.policy.mode == Mode::AutoEdit,
                EffectKind::Execute | EffectKind::Network => false,
            }
    }

    /// Returns whether this is `web_search`, or a configured command tool that declares to read, write, or use the
    /// network.
    ///
    /// Its effect names no file and no URL.
    fn is_own_tool(&self) -> bool {
        let named = match self.effect.kind {
            EffectKind::Read | EffectKind::Write => !self.effect.paths.is_empty(),
            // A query names no address, even if it contains one.
            EffectKind::Network => self.tool != WEB_SEARCH && self.effect.subject.contains("://"),
            EffectKind::None | EffectKind::Execute => true,
        };
        !named && !self.is_foreign()
    }

    fn is_on_files(&self) -> bool {
        !self.is_foreign() && matches!(self.effect.kind, EffectKind::Read | EffectKind::Write)
    }

    /// Returns whether R-TOOL-7 applies, so that no rule and no grant counts.
    fn ignores_rules(&self) -> bool {
        if self.is_of_mcp() {
            return self.reaches_other_server();
        }
        self.policy.foreign_content.is_some()
            && match self.effect.kind {
                EffectKind::Network => true,
                EffectKind::Write => self.effect.outside,
                EffectKind::None | EffectKind::Read | EffectKind::Execute => false,
            }
    }

    /// Returns whether this sends to an MCP server what the model may have been told to by content of another source.
    fn reaches_other_server(&self) -> bool {
        let server = self.tool.strip_prefix("mcp:").map(|rest| rest.split_once('/'));
        let server = server.map(|parts| parts.map_or("", |(server, _)| server));
        server.is_some_and(|server| self.policy.foreign_content.has_other_source_than(server))
    }

    /// Returns the first file, as shown to users, and how many others there are.
    fn display_first_file(&self) -> String {
        let file = match self.effect.paths.first() {
            Some(path) if self.effect.outside => path.display().to_string(),
            Some(_) | None => self.effect.subject.clone(),
        };
        let file = one_line(&file, 120);
        match self.effect.paths.len().saturating_sub(1) {
            0 => file,
            1 => format!("{file} and 1 more file"),
            more => format!("{file} and {more} more files"),
        }
    }

    fn find_secret_file(&self) -> Option<String> {
        if !self.is_on_files() {
            return self.effect.secret.then(|| self.display_first_file());
        }
        let named = self.effect.paths.iter().find(|path| secret::is_secret_like(path));
        if named.is_some() || self.effect.secret || secret::is_secret_like(&self.effect.subject) {
            return Some(self.display_first_file());
        }
        None
    }

    /// Returns a written file that makes programs run, if there is one.
    fn find_steering_file(&self) -> Option<Steering> {
        self.steering_files().next()
    }

    /// Returns the written files that make programs run.
    fn steering_files(&self) -> impl Iterator<Item = Steering> {
        let is_write = self.effect.kind == EffectKind::Write && !self.is_foreign();
        let subject = find_steering(Path::new(&self.effect.subject));
        let paths = self.effect.paths.iter();
        let all = (subject.into_iter()).chain(paths.filter_map(|path| find_steering(self.below_root(path))));
        all.filter(move |_| is_write)
    }

    /// Returns the part of a path inside the workspace: the folders above it say nothing about what the agent writes.
    fn below_root<'p>(&self, path: &'p Path) -> &'p Path {
        match self.find_workspace_root() {
            Some(root) => path.strip_prefix(root).unwrap_or(path),
            None => path,
        }
    }

    /// Returns why this effect asks even if its kind is free.
    fn find_care_reason(&self) -> Option<String> {
        let verb = self.file_verb();
        if self.find_secret_file().is_some() {
            return Some(format!(
                "{verb} a file that looks like a secret: {}",
                self.display_first_file()
            ));
        }
        if self.effect.outside {
            return Some(format!(
                "{verb} outside the workspace: {}",
                self.display_first_file()
            ));
        }
        let Steering { obeyed_by, .. } = self.find_steering_file()?;
        Some(format!(
            "{verb} a file that steers {obeyed_by}: {}",
            self.display_first_file()
        ))
    }

    /// Returns whether a rule names what needs care.
    fn satisfies_care(&self, rule: &Rule) -> bool {
        (self.find_secret_file().is_none() || rule.names_secret())
            && (!self.effect.outside || !self.is_on_files() || rule.is_absolute())
            && self
                .steering_files()
                .all(|steering| rule.spells_folder(&steering.name))
    }

    fn describe_effect(&self) -> String {
        if self.is_of_mcp() {
            return format!("calls a tool of an MCP server: {}", self.tool);
        }
        if self.tool == WEB_SEARCH {
            return format!("sends to a web search: {}", one_line(&self.effect.subject, 400));
        }
        if self.is_own_tool() {
            let does = match self.effect.kind {
                EffectKind::Write => "changes files",
                EffectKind::Network => "talks to the network",
                EffectKind::None | EffectKind::Read | EffectKind::Execute => "reads",
            };
            return format!(
                "runs a command that {does}: {}",
                one_line(&self.effect.subject, 120)
            );
        }
        match self.effect.kind {
            EffectKind::None => "does nothing outside the session".to_owned(),
            EffectKind::Read | EffectKind::Write => {
                format!("{} {}", self.file_verb(), self.display_first_file())
            }
            EffectKind::Execute => self.describe_command().to_owned(),
            EffectKind::Network => format!("talks to the network: {}", one_line(&self.effect.subject, 120)),
        }
    }

    /// Returns what the call does with its files.
    fn file_verb(&self) -> &'static str {
        match self.effect.kind {
            // It may delete and move files too.
            EffectKind::Write if self.tool == PATCH_TOOL => "changes",
            EffectKind::Write => "writes",
            _ => "reads",
        }
    }

    fn describe_command(&self) -> &'static str {
        match self.effect.confinement {
            Confinement::None => "runs a command",
            Confinement::Sandboxed => "runs a command in the sandbox",
            Confinement::Declined => "runs a command outside the sandbox",
        }
    }

    fn assess_risk(&self) -> Risk {
        if self.find_secret_file().is_some() || self.effect.outside || self.find_steering_file().is_some() {
            return Risk::High;
        }
        match self.effect.kind {
            EffectKind::None | EffectKind::Read => Risk::Low,
            EffectKind::Write => Risk::Medium,
            EffectKind::Execute | EffectKind::Network => Risk::High,
        }
    }

    /// Returns whether a rule matches any touched file: for `deny` and `require_approval`.
    fn matches_any_target(&self, rule: &Rule) -> bool {
        let subject = self.effect.subject.as_str();
        if rule.is_bare() {
            return true;
        }
        if self.is_on_files() {
            // The subject is what the model wrote, and the paths are where it leads. A rule must catch either.
            return rule.matches_path(Path::new(strip_current_dir(subject)))
                || self.effect.paths.iter().any(|path| {
                    rule.matches_path(path)
                        || (!rule.is_absolute()
                            && self
                                .enumerate_relative_paths(path)
                                .any(|part| rule.matches_path(&part)))
                });
        }
        rule.matches_text(subject)
            || (self.effect.kind == EffectKind::Network && !self.is_foreign() && rule.denies_url(subject))
    }

    /// Returns whether a rule matches everything touched: for `allow` and grants.
    fn matches_all_targets(&self, rule: &Rule) -> bool {
        let subject = self.effect.subject.as_str();
        if rule.is_bare() {
            return true;
        }
        if !self.is_on_files() {
            return if self.effect.kind == EffectKind::Network && !self.is_foreign() {
                rule.matches_url(subject)
            } else {
                rule.matches_text(subject)
            };
        }
        let paths = &self.effect.paths;
        // A pattern cannot be trusted with `..`: `src/../x` would match `src/**`.
        let climbs = |path: &Path| {
            path.components()
                .any(|part| part == std::path::Component::ParentDir)
        };
        if climbs(Path::new(subject)) || paths.iter().any(|path| climbs(path)) {
            return false;
        }
        if rule.is_absolute() {
            // Without paths, nothing shows that the rule covers the file.
            return !paths.is_empty() && paths.iter().all(|path| rule.matches_path(path));
        }
        if self.effect.outside || !rule.matches_path(Path::new(strip_current_dir(subject))) {
            return false;
        }
        match self.find_workspace_root() {
            Some(root) => paths
                .iter()
                .all(|path| path.strip_prefix(root).is_ok_and(|path| rule.matches_path(path))),
            None => paths.is_empty(),
        }
    }

    /// Returns the workspace folder that the subject and the paths imply, if they agree.
    fn find_workspace_root(&self) -> Option<&'a Path> {
        let subject = Path::new(strip_current_dir(&self.effect.subject));
        let depth = subject.components().count();
        let path = self.effect.paths.iter().find(|path| path.ends_with(subject))?;
        path.ancestors().nth(depth)
    }

    /// Returns the paths that `path` may have relative to its folder: all its suffixes if the folder is unknown.
    fn enumerate_relative_paths(&self, path: &Path) -> impl Iterator<Item = PathBuf> + use<> {
        let known = self
            .find_workspace_root()
            .and_then(|root| path.strip_prefix(root).ok())
            .map(Path::to_path_buf);
        let parts: Vec<PathBuf> = match known {
            Some(relative) => vec![relative],
            // A denying rule rather matches too much than too little.
            None => {
                let names: Vec<_> = path.components().collect();
                (0..names.len())
                    .map(|from| names[from..].iter().collect())
                    .collect()
            }
        };
        parts.into_iter()
    }

    /// Returns the rule that "always" would store.
    fn offer_rule(&self) -> Option<String> {
        if self.ignores_rules() {
            return None;
        }
        let subject = strip_current_dir(&self.effect.subject);
        let rule = if self.is_foreign() {
            self.offer_for_tool()?
        } else {
            match self.effect.kind {
                // The user configured this tool and knows what it does, so offer the tool as a whole.
                EffectKind::Read | EffectKind::Write | EffectKind::Network if self.is_own_tool() => {
                    self.offer_for_tool()?
                }
                EffectKind::Read | EffectKind::Write => self.offer_for_file(subject)?,
                EffectKind::Network => {
                    let host_end = subject.find("://")? + 3;
                    let end = subject[host_end..]
                        .find(['/', '?', '#'])
                        .map(|at| host_end + at)?;
                    Rule::parse(&format!(
                        "{}({}/*)",
                        self.tool,
                        super::rule::escape_subject(&subject[..end])
                    ))
                    .ok()?
                }
                EffectKind::None | EffectKind::Execute => return None,
            }
        };
        let text = rule.to_string();
        // The user must be able to see everything that the rule will allow.
        let is_legible = text.len() <= MAX_OFFERED_TEXT && reveal_hidden_characters(&text) == text;
        // A rule that would not allow this very call must not be offered.
        (is_legible && self.matches_all_targets(&rule) && self.satisfies_care(&rule)).then_some(text)
    }

    /// Returns a rule for all calls of the tool, if one can be written: in a rule, a `*` in a name stands for any text.
    fn offer_for_tool(&self) -> Option<Rule> {
        let rule = Rule::parse(self.tool).ok()?;
        (!self.tool.contains('*') && rule.matches_tool(self.tool)).then_some(rule)
    }

    /// Returns a rule for the file's folder, or for the file itself if care is needed or it is at the top.
    fn offer_for_file(&self, subject: &str) -> Option<Rule> {
        let [path] = self.effect.paths.as_slice() else {
            return None;
        };
        // So that it also counts where another model makes the same change with the other tool.
        let tool = match self.effect.stands_for[..] {
            [tool] => tool,
            _ => self.tool,
        };
        if self.effect.outside {
            return Rule::with_exact_pattern(tool, path.to_str()?);
        }
        let folder = Path::new(subject)
            .parent()
            .and_then(Path::to_str)
            .filter(|folder| !folder.is_empty());
        match folder {
            Some(folder) if self.find_care_reason().is_none() => {
                Rule::parse(&format!("{}({}/**)", tool, super::rule::escape_subject(folder))).ok()
            }
            _ => Rule::with_exact_pattern(tool, subject),
        }
    }
}

fn allowed_by_mode(mode: Mode) -> Verdict {
    Verdict::Allow {
        by: format!("mode `{mode}`"),
    }
}

fn strip_current_dir(subject: &str) -> &str {
    subject.strip_prefix("./").unwrap_or(subject)
}

#[cfg(test)]
mod tests;
