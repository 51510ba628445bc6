//! Expands `${VAR}` and `${VAR:-default}` in texts. `$$` yields `$`, `\${` yields `${`, and a lone `$` stays.
//!
//! Neither values nor defaults are expanded again. Each text keeps its original in `raw`, because the expanded one may
//! be secret.

use std::collections::{BTreeMap, BTreeSet};

use secrecy::SecretString;

use super::Env;
use super::diagnostics::Diagnostic;
use super::tree::{Node, SpannedValue, join};
use crate::base::credential_env::is_credential;

/// What the expansion found in addition to the new texts.
#[derive(Default)]
pub(super) struct ExpandedVariables {
    pub(super) problems: Vec<Diagnostic>,
    /// Variables that were named, set or not.
    pub(super) named: BTreeSet<String>,
    pub(super) secrets: ExpandedSecrets,
    /// Settings that were removed because a variable is not set or the syntax is wrong.
    pub(super) failed: BTreeSet<String>,
}

/// What variables have put into settings that people and logs must not see.
#[derive(Clone, Debug, Default)]
pub(super) struct ExpandedSecrets {
    /// The values of credentials in settings of MCP servers.
    pub(super) mcp: Vec<SecretString>,
    /// The texts with variables in fields of request bodies.
    pub(super) bodies: Vec<SecretString>,
}

impl ExpandedSecrets {
    pub(super) fn append(&mut self, mut other: Self) {
        self.mcp.append(&mut other.mcp);
        self.bodies.append(&mut other.bodies);
    }
}

/// What happens to a text that names a variable that is not set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum UnsetVariables {
    /// It is removed and reported.
    Remove,
    /// It stays as written, for a description of what a file names.
    Keep,
}

/// A variable that stands for an input of VS Code.
pub(super) struct InputVariable {
    pub(super) name: String,
    /// The variable in our syntax.
    pub(super) text: String,
    /// What to do if it is not set.
    pub(super) hint: String,
    /// The value must not be shown.
    pub(super) is_password: bool,
    /// The default cannot be written in our syntax.
    pub(super) lacks_default: bool,
}

/// Where the values of variables come from.
struct VariableSource<'a> {
    env: &'a Env,
    unset: UnsetVariables,
    /// The variables that stand for inputs, by their names.
    inputs: &'a BTreeMap<String, InputVariable>,
}

impl VariableSource<'_> {
    /// Returns the value of a variable that looks like a credential, or stands for a password.
    fn find_credential(&self, name: &str) -> Option<SecretString> {
        let value = self.env.non_empty(name)?;
        let is_password = self.inputs.get(name).is_some_and(|input| input.is_password);
        (is_password || is_credential(name, value)).then(|| value.into())
    }
}

/// Expands the variables in every text below `tree`. A text that is removed because of an unset variable is reported
/// with the hint of the input that it stands for, if there is one.
pub(super) fn expand_variables(
    tree: &mut SpannedValue,
    env: &Env,
    inputs: &BTreeMap<String, InputVariable>,
    unset: UnsetVariables,
) -> ExpandedVariables {
    let mut expansion = ExpandedVariables::default();
    let source = VariableSource { env, unset, inputs };
    expand_value(tree, "", &source, &mut expansion);
    expansion
}

/// Expands one value. Returns false if it must be removed.
fn expand_value(
    tree: &mut SpannedValue,
    path: &str,
    source: &VariableSource<'_>,
    out: &mut ExpandedVariables,
) -> bool {
    match &mut tree.node {
        Node::Text(text) => match expand_text(text, source.env) {
            Ok(None) => true,
            Ok(Some((new, named))) => {
                let raw = std::mem::replace(text, new);
                tree.raw = (!named.is_empty()).then(|| raw.into());
                if path.starts_with("mcp.") {
                    let secrets = named.iter().filter_map(|name| source.find_credential(name));
                    out.secrets.mcp.extend(secrets);
                } else if !named.is_empty() && path.contains(".extra_body.") {
                    out.secrets.bodies.push(text.as_str().into());
                }
                out.named.extend(named);
                true
            }
            Err(ExpansionError::Unset(name)) if source.unset == UnsetVariables::Keep => {
                tree.raw = Some(text.as_str().into());
                out.named.insert(name);
                true
            }
            Err(ExpansionError::Unset(name)) => {
                let hint = source.inputs.get(&name).map(|input| input.hint.as_str());
                out.problems.push(
                    Diagnostic::new_warning(
                        &tree.at,
                        path,
                        format!("the environment variable {name} is not set"),
                    )
                    .with_hint(hint.unwrap_or("set it, or remove this setting")),
                );
                out.named.insert(name);
                out.failed.insert(path.to_owned());
                false
            }
            Err(ExpansionError::Malformed) => {
                out.problems.push(
                    Diagnostic::new_error(
                        &tree.at,
                        path,
                        "`${…}` must contain a variable's name, optionally with `:-` and a default without variables",
                    )
                    .with_hint("write `$$` for a plain `$`"),
                );
                out.failed.insert(path.to_owned());
                false
            }
        },
        Node::List(items) => {
            items.retain_mut(|item| expand_value(item, path, source, out));
            true
        }
        Node::Table(entries) => {
            entries.retain(|key, value| expand_value(value, &join(path, key), source, out));
            true
        }
        Node::Integer(_) | Node::Float(_) | Node::Bool(_) | Node::Date(_) => true,
    }
}

/// Returns whether a text names a variable.
pub(super) fn names_variable(text: &str) -> bool {
    match expand_text(text, &Env::default()) {
        // With a default, a variable may be unset.
        Ok(Some((_, named))) => !named.is_empty(),
        Ok(None) => false,
        // In an empty environment, every other name is unset and therefore an error.
        Err(_) => true,
    }
}

/// Splits the inside of `${…}` into a variable's name and its default; `None` if it is malformed.
pub(super) fn parse_variable(inside: &str) -> Option<(&str, Option<&str>)> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    // A variable in a default would end at the first `}`.
    let has_plain_default = default.is_none_or(|default| !default.contains("${"));
    (is_name && has_plain_default).then_some((name, default))
}

enum ExpansionError {
    Unset(String),
    Malformed,
}

/// Returns the expanded text and the names of its variables; `None` if there is nothing to expand.
fn expand_text(text: &str, env: &Env) -> Result<Option<(String, Vec<String>)>, ExpansionError> {
    if !text.contains('$') {
        return Ok(None);
    }
    let mut out = String::with_capacity(text.len());
    let mut named = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(tail) = after.strip_prefix('$') {
            out.push('$');
            rest = tail;
        } else if let Some(tail) = after.strip_prefix('{') {
            if out.ends_with('\\') {
                out.pop();
                out.push_str("${");
                rest = tail;
                continue;
            }
            let (inside, tail) = tail.split_once('}').ok_or(ExpansionError::Malformed)?;
            let (name, default) = parse_variable(inside).ok_or(ExpansionError::Malformed)?;
            let value = env
                .non_empty(name)
                .or(default)
                .ok_or_else(|| ExpansionError::Unset(name.to_owned()))?;
            out.push_str(value);
            named.push(name.to_owned());
            rest = tail;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    Ok(Some((out, named)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_expanded_and_escapes_respected() {
        let env = Env::from_vars([("A", "one"), ("B_2", "$A ${A}"), ("EMPTY", "")]);
        for (given, expected) in [
            ("plain", Some("plain")),
            ("${A}", Some("one")),
            ("x${A}y${A}", Some("xoney one".replace(' ', "").as_str())),
            ("${B_2}", Some("$A ${A}")),
            ("$$", Some("$")),
            ("$${A}", Some("${A}")),
            ("\\${A}", Some("${A}")),
            ("$A costs 5$", Some("$A costs 5$")),
            ("${NONE}", None),
            ("${A", None),
            ("${}", None),
            ("${A-x}", None),
            ("${A:-x}", Some("one")),
            ("${NONE:-http://h:80/$A$$}/p", Some("http://h:80/$A$$/p")),
            ("${EMPTY:-x}${NONE:-}", Some("x")),
            ("${NONE:-a:-b}", Some("a:-b")),
            ("${NONE:-${A}}", None),
            ("${:-x}", None),
            ("${NONE:-x", None),
        ] {
            let got = match expand_text(given, &env) {
                Ok(Some((text, _))) => Some(text),
                Ok(None) => Some(given.to_owned()),
                Err(_) => None,
            };
            assert_eq!(got.as_deref(), expected, "{given}");
        }
        for text in ["x${A}", "${A:-x}", "${A:-}"] {
            assert!(names_variable(text), "{text}");
        }
        assert!(!names_variable("$$ $x \\${A} $${A:-x}"));
    }
}
