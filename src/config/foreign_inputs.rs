//! The values that VS Code would ask for: `${input:ID}`, described in `inputs` of `.vscode/mcp.json`.
//!
//! Nobody can be asked while the configuration is loaded, so each value comes from an environment variable, or else
//! from the default in the file. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use super::expand::{InputVariable, parse_variable};
use crate::base::text::{one_line, reveal_hidden_characters};

/// The longest description that is shown, in characters.
const MAX_DESCRIPTION: usize = 200;

/// An entry of `inputs`.
struct ForeignInput {
    /// What the value is for; safe to show.
    description: String,
    default: Option<String>,
    is_password: bool,
}

/// The entries of `inputs` by their id.
#[derive(Default)]
pub(super) struct ForeignInputs(BTreeMap<String, ForeignInput>);

impl ForeignInputs {
    /// Reads `inputs`. What is malformed counts as not described.
    pub(super) fn read(inputs: Option<&Value>) -> Self {
        let entries = inputs.and_then(Value::as_array).into_iter().flatten();
        let described = entries.filter_map(|entry| {
            let text = |key: &str| entry.get(key).and_then(Value::as_str);
            let description = reveal_hidden_characters(text("description").unwrap_or_default());
            let input = ForeignInput {
                description: one_line(&description, MAX_DESCRIPTION),
                default: text("default").map(str::to_owned),
                is_password: entry.get("password") == Some(&Value::Bool(true)),
            };
            Some((text("id")?.to_owned(), input))
        });
        Self(described.collect())
    }

    /// Returns the variable for an input, described or not.
    pub(super) fn convert_input(&self, id: &str) -> InputVariable {
        let input = self.0.get(id);
        let name = input_variable_name(id);
        let default = input.and_then(|input| input.default.as_deref());
        let with_default = default.map(|default| format!("{name}:-{default}"));
        let usable = with_default
            .as_deref()
            .filter(|inside| !inside.contains('}') && parse_variable(inside).is_some());
        let mut hint = format!(
            "set it to use the server: it is the value of `${{input:{}}}`",
            one_line(&reveal_hidden_characters(id), MAX_DESCRIPTION)
        );
        if let Some(input) = input.filter(|input| !input.description.is_empty()) {
            hint = format!("{hint}: {}", input.description);
        }
        // Several ids may stand for the same variable.
        let mut inputs = self.0.iter();
        InputVariable {
            is_password: inputs.any(|(id, input)| input.is_password && input_variable_name(id) == name),
            text: format!("${{{}}}", usable.unwrap_or(&name)),
            lacks_default: usable.is_none() && with_default.is_some(),
            hint,
            name,
        }
    }
}

/// Returns the name of the variable for an input.
fn input_variable_name(id: &str) -> String {
    let upper = id.chars().map(|c| c.to_ascii_uppercase());
    let usable = upper.map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    std::iter::once("AGENTLS_INPUT_".to_owned())
        .chain(usable.map(String::from))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn inputs_become_variables() {
        let inputs = ForeignInputs::read(Some(&json!([
            {"type": "promptString", "id": "api-key", "description": "The key\n\u{202e}of it", "password": true},
            {"type": "pickString", "id": "Mode", "options": ["a", "b"], "default": "a $b"},
            {"type": "promptString", "id": "empty", "default": ""},
            {"type": "promptString", "id": "brace", "default": "a}b"},
            {"type": "promptString", "id": "nested", "default": "${HOME"},
            {"description": "no id"},
            3,
        ])));
        assert!(inputs.convert_input("api.key").is_password);
        for (id, text, lacks_default) in [
            ("api-key", "${AGENTLS_INPUT_API_KEY}", false),
            ("Mode", "${AGENTLS_INPUT_MODE:-a $b}", false),
            ("empty", "${AGENTLS_INPUT_EMPTY:-}", false),
            ("brace", "${AGENTLS_INPUT_BRACE}", true),
            ("nested", "${AGENTLS_INPUT_NESTED}", true),
            ("other.é", "${AGENTLS_INPUT_OTHER__}", false),
        ] {
            let variable = inputs.convert_input(id);
            assert_eq!(variable.text, text);
            assert_eq!(variable.lacks_default, lacks_default, "{id}");
            assert_eq!(variable.is_password, id == "api-key", "{id}");
        }
        let hint = inputs.convert_input("api-key").hint;
        assert!(hint.contains("`${input:api-key}`: The key"), "{hint}");
        assert!(hint.contains("<U+202E>") && !hint.contains('\n'), "{hint}");
    }
}
