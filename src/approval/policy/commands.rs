//! The verdict on a command line: each simple command must be allowed, and no part may be unparsed.
//!
//! Knows modes and rules through the parent module; `command`, `known`, and `read_only` know the commands. Fails
//! closed: a line that cannot be parsed, or whose files were not checked, is never free.

use super::super::command::{self, VisitedCommand};
use super::super::rule::{OUTSIDE_SANDBOX, Rule, SANDBOXED};
use super::super::shell::{self, ParsedCommand, SimpleCommand};
use super::super::{known, read_only, risk};
use super::{GrantedRule, JudgedCall, MAX_OFFERED_TEXT, RuleMatch, Verdict, allowed_by_mode};
use crate::base::text::{one_line, reveal_hidden_characters};
use crate::domain::{Confinement, EffectKind, FileFinding, FindingKind, Mode, Risk};

/// What a question about a command outside the sandbox says about "always".
const FREES_CHANGED_FILES: &str =
    " · with \"always\", files that commands can change decide what it runs later";

/// The maximum number of rules that one "always" stores.
const MAX_OFFERED: usize = 5;

impl<'a> JudgedCall<'a> {
    pub(super) fn judge_command(&self) -> Verdict {
        let line = shell::parse(&self.effect.subject);
        let mut visited = command::look_through(&self.effect.subject, &line);
        let mut doubt = None;
        for rule in self.filter_restrictions(&self.policy.deny) {
            match self.check_restriction(rule, &visited) {
                RuleMatch::Yes => return Self::deny_by_rule(rule),
                // It cannot deny for certain, but it must not be ignored either: the user decides.
                RuleMatch::Maybe => doubt = doubt.or(Some(rule)),
                RuleMatch::No => {}
            }
        }
        let found = self.find_findings(FindingKind::Secret);
        (visited.secrets).extend(found.map(|finding| (Some(finding.part), finding.file.clone())));
        let forced = self
            .filter_restrictions(&self.policy.require_approval)
            .find(|rule| self.check_restriction(rule, &visited) != RuleMatch::No);
        let read_only_parts = read_only::reading_parts(&line, &self.effect.subject);
        let unsure = self.explain_line_uncertainty(&line);
        // Once a rule watches the line, no part of it is free on its own.
        let must_ask = doubt.or(forced).is_some() || unsure.is_some();
        let free = self.free_parts(&line, &read_only_parts, must_ask);
        // In `plan`, rules do not allow: only parts that read pass, and what they read elsewhere asks.
        if self.plan_denies() {
            return match self.cover_line(&line, &visited, &[], &free) {
                Ok(by) => Verdict::Allow { by },
                covered if self.only_reads(&line, &read_only_parts) => Verdict::Ask {
                    reason: self.explain_question(doubt, forced, unsure, covered),
                    risk: self.risk_of_command(&line, &visited, &read_only_parts),
                    rule: None,
                    losses: None,
                },
                Err(why) => {
                    // A part that does more than read is the better reason.
                    let covered = self.cover_line(&line, &visited, &[], &read_only_parts);
                    self.deny_in_plan(&covered.err().unwrap_or(why))
                }
            };
        }
        if self.policy.mode == Mode::Full && !must_ask {
            return allowed_by_mode(self.policy.mode);
        }
        // The sandbox hides no secrets of the workspace itself.
        if !must_ask && visited.secrets.is_empty() && self.is_free_in_sandbox() {
            return Verdict::Allow {
                by: "sandbox".to_owned(),
            };
        }
        if doubt.is_none()
            && unsure.is_none()
            && let Some(rule) = self.find_outside_rule(forced)
        {
            return Verdict::Allow {
                by: format!("rule `{rule}`"),
            };
        }
        let rules: Vec<&Rule> = self.rules_that_count(forced).collect();
        let covered = self.cover_line(&line, &visited, &rules, &free);
        if doubt.is_none()
            && unsure.is_none()
            && let Ok(by) = &covered
        {
            return Verdict::Allow { by: by.clone() };
        }
        // A stored rule could not settle the doubt: it would come back with the next call.
        let rule = match self.effect.confinement {
            _ if doubt.is_some() => None,
            Confinement::Declined => self.offer_outside_rule(unsure.is_some()),
            Confinement::Sandboxed | Confinement::None => self.offer_for_line(&line, &visited, &rules, &free),
        };
        let mut reason = self.explain_question(doubt, forced, unsure, covered);
        if self.effect.confinement == Confinement::Declined && rule.is_some() {
            reason.push_str(FREES_CHANGED_FILES);
        }
        Verdict::Ask {
            reason,
            risk: self.risk_of_command(&line, &visited, &read_only_parts),
            rule,
            losses: None,
        }
    }

    fn deny_in_plan(&self, why: &NotCovered) -> Verdict {
        Self::denied_by_plan(match why {
            _ if self.effect.confinement == Confinement::Declined => Some("it would run outside the sandbox"),
            NotCovered::Special(reason) => Some(reason),
            NotCovered::ByRule(_) => None,
        })
    }

    /// Returns whether the line does nothing but read, and the files that it reads are known: all it needs is an answer
    /// about those outside the workspace, and about secrets.
    fn only_reads(&self, line: &ParsedCommand, read_only_parts: &[bool]) -> bool {
        let is_known = |finding: &FileFinding| {
            matches!(
                finding.kind,
                FindingKind::Outside
                    | FindingKind::Secret
                    | FindingKind::History
                    | FindingKind::LeftOut
                    | FindingKind::Tag
            )
        };
        let mut parts = line.commands.iter().zip(read_only_parts);
        self.tool == "bash"
            && self.effect.confinement != Confinement::Declined
            && !self.effect.outside
            && (self.effect.findings.as_deref()).is_some_and(|findings| findings.iter().all(is_known))
            && line.unparsed_reason.is_none()
            && !line.defines_function
            && read_only_parts.len() == line.commands.len()
            && parts.all(|(part, is_read_only)| *is_read_only || is_empty(part))
    }

    /// Returns whether it needs no approval because it runs in a sandbox (R-BOX).
    fn is_free_in_sandbox(&self) -> bool {
        let by_mode = self.policy.mode != Mode::AutoEdit;
        let needs_approval = self.policy.sandboxed_needs_approval.unwrap_or(by_mode);
        let grants = self.policy.grants.iter().map(|grant| &grant.rule);
        let mut rules = grants.chain(&self.policy.allow);
        self.effect.confinement == Confinement::Sandboxed
            && (!needs_approval || rules.any(Rule::covers_sandboxed))
    }

    /// Returns whether a rule that denies or demands a question is about this call.
    fn check_restriction(&self, rule: &Rule, visited: &VisitedCommand) -> RuleMatch {
        if !rule.is_for_outside() {
            return hits_command(rule, visited);
        }
        if rule.matches_outside_line(&self.effect.subject) {
            RuleMatch::Yes
        } else {
            RuleMatch::No
        }
    }

    /// Returns the rule that allows exactly this line outside the sandbox.
    pub(super) fn find_outside_rule(&self, forced: Option<&Rule>) -> Option<&'a Rule> {
        if self.effect.confinement != Confinement::Declined {
            return None;
        }
        let allow = if forced.is_some() {
            &[]
        } else {
            &*self.policy.allow
        };
        let grants = self.policy.grants.iter().map(|grant| &grant.rule);
        let mut rules = grants.chain(allow);
        rules.find(|rule| rule.matches_outside_line(&self.effect.subject))
    }

    /// Returns the rule for exactly this line outside the sandbox. It could not settle an uncertainty about the line.
    fn offer_outside_rule(&self, is_unsure: bool) -> Option<String> {
        let line = &self.effect.subject;
        if is_unsure || line.len() > MAX_OFFERED_TEXT || reveal_hidden_characters(line) != *line {
            return None;
        }
        let rule = Rule::with_exact_pattern(OUTSIDE_SANDBOX, line)?;
        rule.matches_outside_line(line).then(|| rule.to_string())
    }

    fn explain_question(
        &self,
        doubt: Option<&Rule>,
        forced: Option<&Rule>,
        unsure: Option<String>,
        covered: Result<String, NotCovered>,
    ) -> String {
        let runs = self.describe_command();
        match (doubt, forced, covered) {
            (Some(rule), ..) => format!("{runs} · the rule `{rule}` may deny it"),
            (None, None, covered)
                if unsure.is_some() && (covered.is_ok() || self.policy.mode == Mode::Full) =>
            {
                unsure.unwrap_or_default()
            }
            (None, Some(rule), Err(NotCovered::ByRule(_)) | Ok(_)) => {
                format!("{runs} · `{rule}` always asks")
            }
            (None, _, Err(NotCovered::ByRule(reason) | NotCovered::Special(reason))) => {
                format!("{runs} · {reason}")
            }
            (None, None, Ok(_)) => runs.to_owned(),
        }
    }

    /// Returns why a `deny` or `require_approval` rule may apply although nothing in the line matches it.
    ///
    /// The reason is a part that may run other programs, unless a rule allows this very part.
    fn explain_line_uncertainty(&self, line: &ParsedCommand) -> Option<String> {
        let watching = self
            .filter_restrictions(&self.policy.deny)
            .chain(self.filter_restrictions(&self.policy.require_approval))
            .find(|rule| !rule.is_bare())?;
        let reason = match line.unparsed_reason {
            Some(unparsed_reason) => unparsed_reason.to_owned(),
            None => line
                .commands
                .iter()
                .find_map(|part| self.explain_part_uncertainty(part))?,
        };
        Some(format!(
            "runs a command that the rule `{watching}` may be about: {reason}"
        ))
    }

    /// Returns why a part may run something other than its text says.
    fn explain_part_uncertainty(&self, part: &SimpleCommand) -> Option<String> {
        let settled = self
            .rules_that_count(None)
            .any(|rule| !rule.is_bare() && covers_part(rule, part) && command::is_explicit_match(rule, part));
        let is_read_only = part.find_dynamic_reason().is_none()
            && read_only::review_command(part).is_some_and(|review| review.is_read_only);
        if settled || is_read_only {
            None
        } else {
            known::explain_uncertainty(part)
        }
    }

    /// Returns what the check of the command's files found, of one kind.
    fn find_findings(&self, kind: FindingKind) -> impl Iterator<Item = &'a FileFinding> + use<'a> {
        let findings = self.effect.findings.as_deref().unwrap_or_default();
        findings.iter().filter(move |finding| finding.kind == kind)
    }

    /// Returns for each part whether it needs no rule: it only reads, and nothing about its files speaks against it.
    ///
    /// Nothing is free if its files were not checked.
    fn free_parts(&self, line: &ParsedCommand, read_only_parts: &[bool], must_ask: bool) -> Vec<bool> {
        // A configured command receives the model's arguments in a way that the line does not show.
        let is_known = self.tool == "bash" && self.effect.confinement != Confinement::Declined;
        let Some(findings) = self.effect.findings.as_deref().filter(|_| is_known) else {
            return vec![false; line.commands.len()];
        };
        read_only_parts
            .iter()
            .enumerate()
            .map(|(index, is_read_only)| {
                *is_read_only && !must_ask && findings.iter().all(|finding| finding.part != index)
            })
            .collect()
    }

    fn risk_of_command(
        &self,
        line: &ParsedCommand,
        visited: &VisitedCommand,
        read_only_parts: &[bool],
    ) -> Risk {
        match self.effect.confinement {
            // The sandbox lets it read the secrets that it names.
            Confinement::Sandboxed
                if !visited.secrets.is_empty()
                    || self.find_findings(FindingKind::Secret).next().is_some() =>
            {
                Risk::High
            }
            Confinement::Sandboxed => Risk::Low,
            Confinement::None => self.risk_of_line(line, visited, read_only_parts),
            // What it runs may be in a file that nobody was asked about.
            Confinement::Declined => Risk::High,
        }
    }

    fn risk_of_line(&self, line: &ParsedCommand, visited: &VisitedCommand, read_only_parts: &[bool]) -> Risk {
        let findings = self.effect.findings.as_deref().unwrap_or_default();
        if self.effect.outside
            || visited.has_unseen_commands
            || !visited.secrets.is_empty()
            || !findings.is_empty()
        {
            return Risk::High;
        }
        risk::of_line(line, read_only_parts)
    }

    /// Returns the grants, and the configured `allow` rules unless `forced` demands a question.
    pub(super) fn rules_that_count(&self, forced: Option<&Rule>) -> impl Iterator<Item = &'a Rule> + use<'a> {
        let (mut allow, mut grants): (&[Rule], &[GrantedRule]) = (&self.policy.allow, &self.policy.grants);
        if forced.is_some() || !self.is_first_definition() {
            allow = &[];
        }
        // They were given for commands in the sandbox.
        if self.effect.confinement == Confinement::Declined {
            (allow, grants) = (&[], &[]);
        }
        let is_sandboxed = self.effect.confinement == Confinement::Sandboxed;
        let lacks_sandbox =
            self.effect.kind == EffectKind::Execute && self.effect.demands_sandbox() && !is_sandboxed;
        // "Always" stores a tool's bare name only where the tool is confined.
        let call = *self;
        let grants = grants
            .iter()
            .filter(move |grant| call.is_granted_definition(grant))
            .map(|grant| &grant.rule)
            .filter(move |rule| !(lacks_sandbox && rule.is_bare()));
        let (tool, parts) = (self.tool, &self.effect.stands_for);
        // A rule for one of several parts does not cover the others.
        let covers_parts =
            move |rule: &Rule| !parts.is_empty() && parts.iter().all(|part| rule.matches_tool(part));
        grants.chain(allow).filter(move |rule| {
            rule.matches_tool(tool) || covers_parts(rule) || is_sandboxed && rule.is_for_sandboxed_command()
        })
    }

    /// Returns what allows the whole line, or why it is not allowed.
    fn cover_line(
        &self,
        line: &ParsedCommand,
        visited: &VisitedCommand,
        rules: &[&Rule],
        free: &[bool],
    ) -> Result<String, NotCovered> {
        let special = |reason: String| Err(NotCovered::Special(reason));
        if self.effect.outside {
            return special("it runs outside the workspace".to_owned());
        }
        // Secrets come before rules without a pattern: even the grant `bash` does not cover them.
        for (index, secret) in &visited.secrets {
            let named = index
                .and_then(|index| line.commands.get(index))
                .is_some_and(|part| {
                    rules
                        .iter()
                        .any(|rule| rule.names_secret() && covers_part(rule, part))
                });
            if !named {
                return special(format!(
                    "names a file that looks like a secret: {}",
                    one_line(secret, 60)
                ));
            }
        }
        if let Some(rule) = rules.iter().find(|rule| rule.is_bare()) {
            return Ok(format!("rule `{rule}`"));
        }
        if let Some(reason) = line.unparsed_reason {
            return special(format!("cannot be judged by its parts: {reason}"));
        }
        // From the definition on, names may mean something else.
        if line.defines_function {
            return special("defines a function".to_owned());
        }
        // bash expands the name only when the line runs, so the text does not show the option.
        if let Some(finding) = self.find_findings(FindingKind::OptionName).next() {
            let file = one_line(&finding.file, 60);
            return special(format!("would treat a file name as an option: {file}"));
        }
        let mut by: Option<&Rule> = None;
        for (index, part) in line.commands.iter().enumerate() {
            let is_free = free.get(index).copied().unwrap_or_default();
            match rules.iter().find(|rule| covers_part(rule, part)) {
                Some(_) if runs_program_elsewhere(line, part) => {
                    return special("runs a program of the folder that the line changes to".to_owned());
                }
                Some(rule) => by = by.or(Some(rule)),
                None if is_free || is_empty(part) => {}
                None => return Err(self.explain_not_covered(part, index)),
            }
        }
        match by {
            Some(rule) => Ok(format!("rule `{rule}`")),
            None if free.contains(&true) => Ok("it only reads".to_owned()),
            None => Err(NotCovered::ByRule("not in your allow rules".to_owned())),
        }
    }

    /// Returns why no rule with a pattern allows this part.
    fn explain_not_covered(&self, part: &SimpleCommand, index: usize) -> NotCovered {
        if let Some(target) = part.find_written_file() {
            let target = target.to_rule_text().unwrap_or_else(|| "…".to_owned());
            return NotCovered::Special(format!("writes a file: {}", one_line(&target, 60)));
        }
        if let Some(reason) = part.find_dynamic_reason() {
            return NotCovered::Special(format!("has a part that is unknown in advance: {reason}"));
        }
        let is_read_only = read_only::review_command(part).is_some_and(|review| review.is_read_only);
        let findings = self.effect.findings.as_deref().unwrap_or_default();
        if let Some(finding) = findings
            .iter()
            .find(|finding| is_read_only && finding.part == index)
        {
            let file = one_line(&finding.file, 60);
            return NotCovered::Special(match finding.kind {
                FindingKind::Outside => format!("reads outside the workspace: {file}"),
                FindingKind::Secret => format!("reads a file that looks like a secret: {file}"),
                FindingKind::History | FindingKind::LeftOut | FindingKind::Tag => {
                    "can show secrets that git has in an earlier commit or another branch".to_owned()
                }
                FindingKind::OptionName => format!("would treat a file name as an option: {file}"),
                FindingKind::Unchecked => format!("cannot check what it reads: {file}"),
                FindingKind::WorkspaceProgram => format!("runs a program of the workspace: {file}"),
            });
        }
        let text = part.text().unwrap_or_default();
        NotCovered::ByRule(format!("not in your allow rules: `{}`", one_line(&text, 60)))
    }

    fn offer_for_line(
        &self,
        line: &ParsedCommand,
        visited: &VisitedCommand,
        rules: &[&Rule],
        free: &[bool],
    ) -> Option<String> {
        let option_name = self.find_findings(FindingKind::OptionName).next().is_some();
        if line.unparsed_reason.is_some() || line.defines_function || self.effect.outside || option_name {
            return None;
        }
        // An answer about a confined command says nothing about the same command without the sandbox.
        let tool = match self.effect.confinement {
            Confinement::Sandboxed => SANDBOXED,
            Confinement::None | Confinement::Declined => self.tool,
        };
        let watched = self.explain_line_uncertainty(line).is_some();
        let findings = self.effect.findings.as_deref().unwrap_or_default();
        let mut offered: Vec<String> = Vec::new();
        for (index, part) in line.commands.iter().enumerate() {
            let secret = visited.secrets.iter().any(|(at, _)| *at == Some(index));
            let covered = rules
                .iter()
                .any(|rule| covers_part(rule, part) && (!secret || rule.names_secret()));
            let free = free.get(index).copied().unwrap_or_default();
            if free
                || covered
                    && !runs_program_elsewhere(line, part)
                    && !(watched && self.explain_part_uncertainty(part).is_some())
                || is_empty(part)
            {
                continue;
            }
            let special = findings.iter().any(|finding| finding.part == index);
            let rule = command::offer_command_rule(tool, part, special)?;
            // A rule that would not allow this very part must not be offered.
            if !covers_part(&rule, part)
                || runs_program_elsewhere(line, part)
                || (secret && !rule.names_secret())
            {
                return None;
            }
            let rule = rule.to_string();
            if !offered.contains(&rule) {
                offered.push(rule);
            }
        }
        let text = offered.join(", ");
        (!offered.is_empty() && offered.len() <= MAX_OFFERED && text.len() <= MAX_OFFERED_TEXT)
            .then_some(text)
    }
}

/// Why a line is not allowed.
enum NotCovered {
    /// No rule matches it.
    ByRule(String),
    /// Something in it needs attention, whatever the rules say.
    Special(String),
}

/// Returns whether a rule applies to anything that a command line runs.
fn hits_command(rule: &Rule, visited: &VisitedCommand) -> RuleMatch {
    if rule.is_bare() {
        return RuleMatch::Yes;
    }
    let mut hit = if visited.has_unseen_commands {
        RuleMatch::Maybe
    } else {
        RuleMatch::No
    };
    for candidate in &visited.candidates {
        for text in &candidate.texts {
            if rule.matches_text(text) {
                if candidate.certain {
                    return RuleMatch::Yes;
                }
                hit = RuleMatch::Maybe;
            // The text is unknown from the NUL on, so what is known may still turn out to match.
            } else if let Some(end) = text.find('\0')
                && rule.may_match_text(&text[..end])
            {
                hit = RuleMatch::Maybe;
            }
        }
    }
    hit
}

/// Returns whether a rule on its own allows a part.
fn covers_part(rule: &Rule, part: &SimpleCommand) -> bool {
    if rule.is_bare() {
        return true;
    }
    if part.find_dynamic_reason().is_some() || part.find_written_file().is_some() {
        return false;
    }
    part.text().is_some_and(|text| {
        !text.is_empty()
            && rule.allows_command(&text)
            && command::collect_requirements(part)
                .iter()
                .all(|demand| demand.is_matched_by(rule))
    })
}

/// Returns whether a part names its program by a relative path, and the line changes the folder. A rule was given for the
/// program of that name in the session's folder, such as `./deploy.sh`.
fn runs_program_elsewhere(line: &ParsedCommand, part: &SimpleCommand) -> bool {
    let program = |part: &'_ SimpleCommand| {
        part.words
            .first()
            .and_then(|word| word.as_literal().map(str::to_owned))
    };
    let changes_folder = |part: &SimpleCommand| {
        program(part).is_some_and(|name| matches!(name.as_str(), "cd" | "pushd" | "popd"))
    };
    program(part).is_some_and(|name| name.contains('/') && !name.starts_with('/'))
        && line.commands.iter().any(changes_folder)
}

/// Returns whether a part only has redirections that read files. A path in `/dev` may be a network connection.
fn is_empty(part: &SimpleCommand) -> bool {
    let is_device = |path: &str| path.starts_with("/dev/");
    part.words.is_empty()
        && (part.redirects.iter()).all(|redirect| !redirect.target.as_literal().is_some_and(is_device))
        && part.assignments.is_empty()
        && part.find_dynamic_reason().is_none()
        && part.find_written_file().is_none()
}
