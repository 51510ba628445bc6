//! The built-in instructions: a core for every model, and an addition for its family.
//!
//! The texts are in `prompts/*.md`, so that people can read them and start their own from them. Pure: the model's name
//! alone selects the family.

use std::sync::Arc;

use crate::provider::models::{claude_version, major_version, plain_name};

const CORE: &str = include_str!("prompts/core.md");

/// The tools that the texts name.
pub(super) const NAMED_TOOLS: [&str; 6] = [
    "bash",
    "edit_file",
    "grep",
    "read_file",
    "update_plan",
    "write_file",
];

/// Models that need the same addition to the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PromptFamily {
    /// Claude 5 and later, which need the least.
    Claude5,
    /// Claude before 5.
    Claude4,
    /// GPT-5 and later.
    Gpt,
    /// Gemini 3 and later.
    Gemini,
    /// Open models, and all that are unknown: they need the most.
    Open,
}

impl PromptFamily {
    /// Returns the family of a model, by its name in a provider's API.
    fn from_model(model: &str) -> Self {
        let name = plain_name(model);
        if name.starts_with("claude") {
            return match claude_version(model) {
                Some((..5, _)) => Self::Claude4,
                // A name without a version means the newest.
                Some(_) | None => Self::Claude5,
            };
        }
        match (major_version(&name, "gpt-"), major_version(&name, "gemini-")) {
            (Some(5..), _) => Self::Gpt,
            (_, Some(3..)) => Self::Gemini,
            _ => Self::Open,
        }
    }

    fn addition(self) -> &'static str {
        match self {
            Self::Claude5 => include_str!("prompts/claude-5.md"),
            Self::Claude4 => include_str!("prompts/claude-4.md"),
            Self::Gpt => include_str!("prompts/gpt.md"),
            Self::Gemini => include_str!("prompts/gemini.md"),
            Self::Open => include_str!("prompts/open.md"),
        }
    }
}

/// Returns the built-in instructions for a model.
pub fn built_in_prompt(model: &str) -> Arc<str> {
    let addition = PromptFamily::from_model(model).addition();
    format!("{CORE}\n{addition}").into()
}

/// Returns the built-in instructions for a model, without the lines that name one of `denied`.
pub(super) fn built_in_prompt_without(model: &str, denied: &[&str]) -> Arc<str> {
    let prompt = built_in_prompt(model);
    if denied.is_empty() {
        return prompt;
    }
    let lines = prompt.split_inclusive('\n');
    let kept = lines.filter(|line| !denied.iter().any(|tool| line.contains(tool)));
    kept.collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_hears_nothing_of_tools_that_it_is_denied() {
        for model in ["claude-opus-5", "claude-opus-4", "gpt-6", "gemini-3", "glm-5"] {
            let whole = built_in_prompt(model);
            assert_eq!(built_in_prompt_without(model, &[]), whole);
            let rest = built_in_prompt_without(model, &NAMED_TOOLS);
            assert!(!NAMED_TOOLS.iter().any(|tool| rest.contains(tool)), "{rest}");
            assert!(rest.starts_with(CORE) && rest.ends_with('\n'), "{rest}");
        }
        let open = built_in_prompt_without("glm-5", &["bash", "update_plan"]);
        assert!(
            open.contains("  - grep: ") && !open.contains("cargo test"),
            "{open}"
        );
    }

    #[test]
    fn the_name_of_a_model_selects_its_family() {
        use PromptFamily::{Claude4, Claude5, Gemini, Gpt, Open};
        for (model, family) in [
            ("claude-sonnet-5-5", Claude5),
            ("anthropic/claude-opus-5.5", Claude5),
            ("claude-haiku-12", Claude5),
            ("claude-opus-latest", Claude5),
            ("claude-opus-4-8", Claude4),
            ("us.anthropic.claude-sonnet-4-20250514-v1:0", Claude4),
            ("claude-3-7-sonnet-latest", Claude4),
            ("gpt-5.3-codex", Gpt),
            ("openai/gpt-6.1-sol", Gpt),
            ("gpt-10", Gpt),
            ("gpt-4o", Open),
            ("gpt-oss:20b", Open),
            ("gemini-3.1-pro-preview", Gemini),
            ("google/gemini-4-argon", Gemini),
            ("gemini-2.5-pro", Open),
            ("z-ai/glm-5.3", Open),
            ("kimi-k3", Open),
            ("qwen3.8:30b", Open),
            ("deepseek-chat", Open),
            ("MiniMax-M3", Open),
            ("llama.cpp", Open),
            ("", Open),
        ] {
            assert_eq!(PromptFamily::from_model(model), family, "{model}");
        }
    }

    #[test]
    fn the_instructions_stay_lean() {
        assert!((2_000..2_800).contains(&CORE.len()), "{}", CORE.len());
        for (model, limit) in [
            ("claude-opus-5", 300),
            ("claude-opus-4", 900),
            ("gpt-6", 1_100),
            ("gemini-3", 1_100),
            ("glm-5", 1_200),
        ] {
            let prompt = built_in_prompt(model);
            let addition = prompt.strip_prefix(CORE).unwrap().trim();
            assert!(
                !addition.is_empty() && addition.len() < limit,
                "{model}: {}",
                addition.len()
            );
        }
    }
}
