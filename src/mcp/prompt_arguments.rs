//! The arguments of a server's prompt, as a user types them after the slash command.

use serde_json::{Map, Value};

use super::connection::{McpPrompt, McpPromptArgument};

/// Describes the arguments of a prompt, such as `<file> [style]`. Empty if it has none.
pub fn describe_arguments(prompt: &McpPrompt) -> String {
    let describe = |argument: &McpPromptArgument| {
        if argument.is_required {
            format!("<{}>", argument.name)
        } else {
            format!("[{}]", argument.name)
        }
    };
    prompt
        .arguments
        .iter()
        .map(describe)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Matches words with the arguments of a prompt, in order. The last argument takes the rest.
///
/// # Errors
/// What is missing or too much, for the user.
pub fn match_arguments(prompt: &McpPrompt, mut words: Vec<String>) -> Result<Map<String, Value>, String> {
    let wanted = prompt.arguments.len();
    if words.len() > wanted {
        if wanted == 0 {
            return Err("it takes no arguments".to_owned());
        }
        let rest = words.split_off(wanted - 1).join(" ");
        words.push(rest);
    }
    let mut missing = prompt.arguments.iter().skip(words.len());
    if let Some(missing) = missing.find(|argument| argument.is_required) {
        return Err(format!(
            "the argument {} is missing; it takes {}",
            missing.name,
            describe_arguments(prompt)
        ));
    }
    let pairs = prompt.arguments.iter().zip(words);
    Ok(pairs
        .map(|(argument, word)| (argument.name.clone(), Value::from(word)))
        .collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn prompt(arguments: &[(&str, bool)]) -> McpPrompt {
        let argument = |(name, is_required): &(&str, bool)| McpPromptArgument {
            name: (*name).to_owned(),
            description: None,
            is_required: *is_required,
        };
        McpPrompt {
            name: "review".to_owned(),
            description: None,
            arguments: arguments.iter().map(argument).collect(),
        }
    }

    fn matched(prompt: &McpPrompt, words: &[&str]) -> Result<Value, String> {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        match_arguments(prompt, words).map(Value::Object)
    }

    #[test]
    fn words_become_arguments_in_order() {
        let review = prompt(&[("file", true), ("style", false)]);
        assert_eq!(describe_arguments(&review), "<file> [style]");
        assert_eq!(matched(&review, &["a.rs"]).unwrap(), json!({"file": "a.rs"}));
        assert_eq!(
            matched(&review, &["a.rs", "be", "brief"]).unwrap(),
            json!({"file": "a.rs", "style": "be brief"})
        );
        assert_eq!(
            matched(&review, &[]).unwrap_err(),
            "the argument file is missing; it takes <file> [style]"
        );
        let plain = prompt(&[]);
        assert_eq!(matched(&plain, &[]).unwrap(), json!({}));
        assert_eq!(matched(&plain, &["x"]).unwrap_err(), "it takes no arguments");
    }
}
