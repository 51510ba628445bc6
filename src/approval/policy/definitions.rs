//! Whether a rule or a grant still means the tool of an MCP server that is called, and how the tool has changed.
//!
//! A server decides what its tools say and take, so a permission is for one definition. A grant contains that of its
//! tool. For everything else that covers a tool, the first use counts.

use std::collections::BTreeMap;

use super::super::rule::Rule;
use super::{GrantedRule, JudgedCall};
use crate::base::text::one_line;
use crate::domain::ToolDefinition;

/// The longest text about one change, in characters.
const MAX_SHOWN: usize = 240;
/// How much of the same text is shown before the first difference, in characters.
const CONTEXT: usize = 30;
/// The most arguments or annotations that are described.
const MAX_CHANGES: usize = 8;

/// What a rule or a grant says about the definition of the called tool.
enum Recorded<'a> {
    /// The grant was given for no tool of an MCP server, or before grants contained definitions.
    Missing,
    /// The tool was not used yet.
    FirstUse,
    Definition(&'a ToolDefinition),
}

impl<'a> JudgedCall<'a> {
    /// Returns whether the grant was given for the tool as it is now. True for what is not a tool of an MCP server.
    pub(super) fn is_granted_definition(self, grant: &GrantedRule) -> bool {
        self.is_current(&self.find_recorded(Some(grant)))
    }

    /// Returns whether the tool is as at its first use. True for what is not a tool of an MCP server.
    pub(super) fn is_first_definition(self) -> bool {
        self.is_current(&self.find_recorded(None))
    }

    fn find_recorded<'r>(self, grant: Option<&'r GrantedRule>) -> Recorded<'r>
    where
        'a: 'r,
    {
        match grant.map(|grant| grant.tool.as_ref()) {
            Some(None) => Recorded::Missing,
            Some(Some(granted)) if granted.name == self.tool => Recorded::Definition(&granted.definition),
            Some(Some(_)) | None => match self.policy.first_uses.get(self.tool) {
                Some(definition) => Recorded::Definition(definition),
                None => Recorded::FirstUse,
            },
        }
    }

    fn is_current(self, recorded: &Recorded<'_>) -> bool {
        let Some(foreign) = &self.effect.foreign else {
            return true;
        };
        match recorded {
            Recorded::Missing => false,
            Recorded::FirstUse => true,
            Recorded::Definition(definition) => definition.hash == foreign.definition.hash,
        }
    }

    /// Says why rules and grants for the called tool do not count any more; `None` if there are none, or one counts.
    pub(super) fn explain_redefinition(self, forced: Option<&Rule>) -> Option<String> {
        let foreign = self.effect.foreign.as_ref()?;
        let covers = |rule: &Rule| rule.matches_tool(self.tool) && self.matches_all_targets(rule);
        if self.rules_that_count(forced).any(covers) {
            return None;
        }
        // The newest grant is what the user knows best.
        let grants = self
            .policy
            .grants
            .iter()
            .rev()
            .filter(|grant| covers(&grant.rule));
        let mut recorded: Vec<Recorded<'_>> = grants.map(|grant| self.find_recorded(Some(grant))).collect();
        if forced.is_none() && self.policy.allow.iter().any(covers) {
            recorded.push(self.find_recorded(None));
        }
        let known = recorded.iter().find_map(|recorded| match recorded {
            Recorded::Definition(definition) => Some(*definition),
            Recorded::Missing | Recorded::FirstUse => None,
        });
        match known {
            Some(known) => Some(describe_change(known, &foreign.definition)),
            None if recorded.is_empty() => None,
            None => Some("it is not known what it was when you allowed it".to_owned()),
        }
    }
}

/// Says how a tool has changed, as far as the earlier permission recorded it.
fn describe_change(old: &ToolDefinition, new: &ToolDefinition) -> String {
    const UNRECORDED: &str = "your earlier permission did not record its title and the format of its results, so these \
                              may have changed";
    let changes = describe_changes(old, new);
    match (changes.is_empty(), &old.title) {
        (true, None) => UNRECORDED.to_owned(),
        (true, Some(_)) => {
            "it has changed since you allowed it: in a part that is not shown here, such as the format of \
                            its results"
                .to_owned()
        }
        (false, title) => {
            let unrecorded = title.is_none().then(|| format!("; {UNRECORDED}"));
            let changes = changes.join("; ");
            format!(
                "it has changed since you allowed it: {changes}{}",
                unrecorded.unwrap_or_default()
            )
        }
    }
}

/// Describes in words how a tool has changed.
fn describe_changes(old: &ToolDefinition, new: &ToolDefinition) -> Vec<String> {
    let mut changes = Vec::new();
    let mut compare = |what: &str, old: &str, new: &str| {
        if old != new {
            let (old, new) = show_difference(old, new);
            changes.push(format!("{what} was {old}, and is {new}"));
        }
    };
    compare("its server", &old.server, &new.server);
    if let (Some(old), Some(new)) = (&old.title, &new.title) {
        compare("its title", old, new);
    }
    compare("its description", &old.description, &new.description);
    let arguments = describe_entries("argument", &old.arguments, &new.arguments, String::as_str);
    let annotations = describe_entries("annotation", &old.annotations, &new.annotations, show_flag);
    changes.extend(arguments.into_iter().chain(annotations));
    changes
}

fn show_flag(value: &bool) -> &str {
    if *value { "true" } else { "false" }
}

fn describe_entries<T: PartialEq>(
    what: &str,
    old: &BTreeMap<String, T>,
    new: &BTreeMap<String, T>,
    show: fn(&T) -> &str,
) -> Vec<String> {
    let show_name = |name: &str| one_line(name, 60);
    let mut changes = Vec::new();
    for (name, value) in new {
        match old.get(name) {
            Some(before) if before == value => {}
            Some(before) => {
                let (before, now) = show_difference(show(before), show(value));
                changes.push(format!("{what} {} was {before}, and is {now}", show_name(name)));
            }
            None => changes.push(format!(
                "new {what} {}: {}",
                show_name(name),
                one_line(show(value), MAX_SHOWN)
            )),
        }
    }
    let removed = old.keys().filter(|name| !new.contains_key(*name));
    changes.extend(removed.map(|name| format!("no {what} {} any more", show_name(name))));
    let more = changes.len().saturating_sub(MAX_CHANGES);
    if more > 0 {
        changes.truncate(MAX_CHANGES);
        changes.push(format!("{more} more changes of this kind"));
    }
    changes
}

/// Returns both texts in quotes, from shortly before the first difference on.
fn show_difference(old: &str, new: &str) -> (String, String) {
    let same = old.chars().zip(new.chars()).take_while(|(a, b)| a == b).count();
    let start = same.saturating_sub(CONTEXT);
    let show = |text: &str| {
        let mut shown = one_line(&text.chars().skip(start).collect::<String>(), MAX_SHOWN);
        if start > 0 {
            shown.insert(0, '…');
        }
        format!("\"{shown}\"")
    };
    (show(old), show(new))
}
