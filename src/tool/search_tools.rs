//! `search_tools`: loads the definitions of tools that are deferred, because all of them would fill the window.
//!
//! The model sees the names of all of them in the description, which never changes when one is loaded: so the cached
//! prompt stays valid up to here.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::output::refuse_input;
use super::tool_source::LoadedTools;
use super::{DynTool, PreparedCall, ToolContext, ToolError, ToolOutput, schema};
use crate::base::text::one_line;
use crate::domain::{Effect, ToolSpec};

/// The name of the tool.
pub const SEARCH_TOOLS: &str = "search_tools";

/// The most tools that one call loads.
const MAX_LOADED: usize = 10;
/// The most bytes of names in the description.
const MAX_NAMES: usize = 16_000;

/// Loads deferred tools.
pub struct SearchTools {
    deferred: Arc<[ToolSpec]>,
    loaded: Arc<LoadedTools>,
}

/// The arguments of `search_tools`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchToolsInput {
    /// Words that describe what you need, or exact names of tools, separated by spaces or commas.
    query: String,
}

impl SearchTools {
    /// Creates the tool for these deferred tools.
    pub fn new(deferred: Arc<[ToolSpec]>, loaded: Arc<LoadedTools>) -> Self {
        Self { deferred, loaded }
    }

    /// Returns the tools that fit best: those that are named exactly, else those with the most words of the query.
    fn find_tools(&self, query: &str) -> Vec<&ToolSpec> {
        let words: Vec<String> = query
            .split(|c: char| c.is_whitespace() || c == ',')
            .map(|word| word.strip_prefix("select:").unwrap_or(word))
            .filter(|word| !word.is_empty())
            // Rules name a tool like this.
            .map(
                |word| match word.strip_prefix("mcp:").and_then(|name| name.split_once('/')) {
                    Some((server, tool)) => format!("mcp__{server}__{tool}").to_lowercase(),
                    None => word.to_lowercase(),
                },
            )
            .collect();
        let is_named = |spec: &&ToolSpec| words.contains(&spec.name.to_lowercase());
        let named: Vec<_> = self.deferred.iter().filter(is_named).take(MAX_LOADED).collect();
        if !named.is_empty() {
            return named;
        }
        let mut scored: Vec<(usize, &ToolSpec)> = (self.deferred.iter())
            .map(|spec| (score_tool(spec, &words), spec))
            .filter(|(score, _)| *score > 0)
            .collect();
        // Stable, so that equal ones stay in the order of their names.
        scored.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        scored
            .into_iter()
            .map(|(_, spec)| spec)
            .take(MAX_LOADED)
            .collect()
    }
}

/// Returns how well a tool fits. A word in the name counts more than one in the description.
fn score_tool(spec: &ToolSpec, words: &[String]) -> usize {
    let (name, description) = (spec.name.to_lowercase(), spec.description.to_lowercase());
    words
        .iter()
        .map(|word| match (name.contains(word), description.contains(word)) {
            (true, _) => 3,
            (false, true) => 1,
            (false, false) => 0,
        })
        .sum()
}

impl DynTool for SearchTools {
    fn name(&self) -> &str {
        SEARCH_TOOLS
    }

    fn spec(&self) -> ToolSpec {
        let mut names = String::new();
        let mut left_out = 0;
        for spec in self.deferred.iter() {
            if names.len() + spec.name.len() > MAX_NAMES {
                left_out += 1;
                continue;
            }
            names.push_str(&spec.name);
            names.push('\n');
        }
        if left_out > 0 {
            names.push_str(&format!("and {left_out} more, which a search finds\n"));
        }
        ToolSpec {
            freeform: None,
            name: SEARCH_TOOLS.to_owned(),
            description: format!(
                "Loads tools of MCP servers, so that you can call them from the next step on. Search before you say that \
                 something is not possible. These tools exist:\n{names}"
            ),
            schema: schema::input_schema::<SearchToolsInput>(),
        }
    }

    fn prepare_call(self: Arc<Self>, input: &Value) -> Result<Box<dyn PreparedCall>, String> {
        let input = SearchToolsInput::deserialize(input).map_err(|error| {
            let schema = schema::input_schema::<SearchToolsInput>();
            let problem = schema::explain_mismatch(&schema, input).unwrap_or_else(|| error.to_string());
            format!("invalid arguments for {SEARCH_TOOLS}: {problem}")
        })?;
        Ok(Box::new(SearchCall {
            tool: self,
            query: input.query,
        }))
    }
}

struct SearchCall {
    tool: Arc<SearchTools>,
    query: String,
}

impl PreparedCall for SearchCall {
    fn title(&self) -> String {
        one_line(&format!("search tools: {}", self.query), 160)
    }

    fn predict_effect(&self, _cx: &ToolContext) -> Result<Effect, ToolError> {
        Ok(Effect::none())
    }

    fn run(self: Box<Self>, _cx: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let found = self.tool.find_tools(&self.query);
        let result = if found.is_empty() {
            refuse_input(format!(
                "no tool fits {:?}; try other words",
                one_line(&self.query, 100)
            ))
        } else {
            let mut text = String::from("You can call these tools now:\n");
            for spec in found {
                self.tool.loaded.add(&spec.name);
                text.push_str(&format!(
                    "\n{}: {}\n",
                    spec.name,
                    one_line(&spec.description, 300)
                ));
            }
            Ok(ToolOutput::text(text))
        };
        futures::future::ready(result).boxed()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(name: &str, description: &str) -> ToolSpec {
        ToolSpec {
            freeform: None,
            name: name.to_owned(),
            description: description.to_owned(),
            schema: Arc::new(json!({"type": "object"})),
        }
    }

    #[test]
    fn names_and_words_find_tools() {
        let tool = SearchTools::new(
            [
                spec("mcp__git__commit", "Records changes."),
                spec("mcp__git__log", "Lists commits."),
                spec("mcp__mail__send", "Sends a message."),
            ]
            .into(),
            Arc::default(),
        );
        for (query, expected) in [
            ("mcp__mail__send", &["mcp__mail__send"][..]),
            ("commit", &["mcp__git__commit", "mcp__git__log"]),
            ("SEND message", &["mcp__mail__send"]),
            (
                "select:mcp__mail__send,mcp:git/log",
                &["mcp__git__log", "mcp__mail__send"],
            ),
            ("nothing", &[]),
            ("", &[]),
        ] {
            let found: Vec<&str> = tool
                .find_tools(query)
                .iter()
                .map(|spec| spec.name.as_str())
                .collect();
            assert_eq!(found, expected, "{query}");
        }
    }

    #[test]
    fn the_description_lists_names_within_a_bound() {
        let many: Vec<ToolSpec> = (0..5_000)
            .map(|number| spec(&format!("mcp__s__tool_{number:04}"), "x"))
            .collect();
        let description = SearchTools::new(many.into(), Arc::default()).spec().description;
        assert!(description.len() < MAX_NAMES + 500 && description.contains("more, which a search finds"));
    }
}
