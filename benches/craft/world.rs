//! A workspace, a mock provider that speaks one API, and one run of the agent in them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::Value;

use crate::mock_llm::{Api, MockLlm, RecordedRequest, Reply};

/// A model, and the API through which the agent calls it.
#[derive(Clone, Copy)]
pub struct Model {
    pub name: &'static str,
    pub api: Api,
}

/// A model of each family of prompts.
pub const MODELS: [Model; 5] = [
    Model {
        name: "claude-opus-5",
        api: Api::Anthropic,
    },
    Model {
        name: "claude-opus-4-8",
        api: Api::Anthropic,
    },
    Model {
        name: "gpt-6",
        api: Api::Responses,
    },
    Model {
        name: "gemini-3.1-pro",
        api: Api::OpenAi,
    },
    Model {
        name: "glm-5.3",
        api: Api::OpenAi,
    },
];

/// Folders of a user, and a mock provider.
pub struct World {
    mock: MockLlm,
    dir: tempfile::TempDir,
    api: Api,
}

impl World {
    pub fn new(model: Model) -> Self {
        let mock = MockLlm::start();
        mock.unchecked();
        let dir = tempfile::Builder::new()
            .prefix("agentls-craft-")
            .tempdir()
            .expect("a folder");
        for folder in ["work", "config/agentls"] {
            std::fs::create_dir_all(dir.path().join(folder)).expect("a folder");
        }
        let (kind, address) = match model.api {
            Api::Anthropic => ("anthropic", mock.anthropic_url()),
            Api::OpenAi => ("openai", mock.openai_url()),
            Api::Responses => ("openai-responses", mock.openai_url()),
            Api::Gemini => ("gemini", mock.gemini_url()),
            Api::Ollama => ("ollama", mock.anthropic_url()),
        };
        let config = format!(
            "[provider.mock]\nkind = \"{kind}\"\nbase_url = \"{address}\"\napi_key = \"sk-bench\"\nmodel = \"{}\"\n\
             [agent.default]\nprovider = \"mock\"\nmode = \"full\"\n",
            model.name
        );
        std::fs::write(dir.path().join("config/agentls/config.toml"), config).expect("a config file");
        Self {
            mock,
            dir,
            api: model.api,
        }
    }

    /// Writes a file of the workspace.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("a file");
    }

    /// Reads a file of the workspace.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("a file")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("work").join(name)
    }

    /// Runs one prompt with the scripted replies, and returns the requests that the provider got.
    pub fn run(&self, binary: &Path, replies: impl IntoIterator<Item = Reply>) -> Vec<Arc<RecordedRequest>> {
        replies.into_iter().for_each(|reply| self.mock.push(reply));
        let home = self.dir.path();
        let ended = Command::new(binary)
            .args(["run", "Do the task."])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", home)
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("XDG_DATA_HOME", home.join("data"))
            .env("XDG_STATE_HOME", home.join("state"))
            .env("AGENTLS_SANDBOX_METHOD", "none")
            .current_dir(home.join("work"))
            .stdin(Stdio::null())
            .output()
            .expect("the agent runs");
        let requests = self.mock.requests();
        let shown = String::from_utf8_lossy(&ended.stderr);
        assert!(!requests.is_empty(), "no request was sent: {shown}");
        requests
    }

    /// Returns the texts of the results of tools in the last request, in order.
    pub fn list_results(&self, requests: &[Arc<RecordedRequest>]) -> Vec<String> {
        let Some(last) = requests.last() else {
            return Vec::new();
        };
        let mut results = Vec::new();
        for message in last.messages() {
            match self.api {
                Api::Anthropic => {
                    let blocks = message["content"].as_array().into_iter().flatten();
                    results.extend(
                        blocks
                            .filter(|block| block["type"] == "tool_result")
                            .map(|block| join_texts(&block["content"])),
                    );
                }
                Api::OpenAi | Api::Ollama if message["role"] == "tool" => {
                    results.push(join_texts(&message["content"]))
                }
                Api::Gemini => {
                    let parts = message["parts"].as_array().into_iter().flatten();
                    let responses = parts.filter_map(|part| part["functionResponse"]["response"].as_object());
                    results.extend(responses.flat_map(|response| response.values().map(join_texts)));
                }
                Api::Responses
                    if matches!(
                        message["type"].as_str(),
                        Some("function_call_output" | "custom_tool_call_output")
                    ) =>
                {
                    results.push(join_texts(&message["output"]));
                }
                _ => {}
            }
        }
        results
    }
}

/// Returns a text, or the joined texts of a list of blocks.
pub fn join_texts(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// Formats a table in Markdown. The first column is text, the others are numbers.
pub fn format_table(title: &str, head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
            .max(head[column].len())
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::from("|");
        for (at, (cell, width)) in cells.zip(&widths).enumerate() {
            // Writing to a string cannot fail.
            let _ = match at {
                0 => write!(line, " {cell:<width$} |"),
                _ => write!(line, " {cell:>width$} |"),
            };
        }
        line.push('\n');
        line
    };
    let mut table = format!("{title}\n\n{}|", line(&mut head.iter().copied()));
    for (at, width) in widths.iter().enumerate() {
        let _ = match at {
            0 => write!(table, "{}|", "-".repeat(width + 2)),
            _ => write!(table, "{}:|", "-".repeat(width + 1)),
        };
    }
    table.push('\n');
    for row in rows {
        table.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    table
}
