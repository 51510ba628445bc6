//! The official JSON schema of the Agent Client Protocol. Every frame of a test is checked against it.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use jsonschema::Validator;
use serde_json::{Value, json};

/// Checks frames of both directions.
#[derive(Default)]
pub struct FrameChecker {
    /// By kind, for the kinds that have occurred.
    validators: HashMap<&'static str, Validator>,
    /// The kinds of updates that have occurred.
    updates: HashSet<String>,
    /// Methods of open requests, by id: ours to the agent.
    asked: HashMap<String, String>,
}

/// The kinds of frames, with their definitions in the schema: requests and notifications of the agent, its answers by
/// the method that they answer, and errors.
const KINDS: &[(&str, &str)] = &[
    ("> session/update", "SessionNotification"),
    ("> session/request_permission", "RequestPermissionRequest"),
    ("> fs/read_text_file", "ReadTextFileRequest"),
    ("> fs/write_text_file", "WriteTextFileRequest"),
    ("> elicitation/create", "CreateElicitationRequest"),
    ("> $/cancel_request", "CancelRequestNotification"),
    ("< initialize", "InitializeResponse"),
    ("< authenticate", "AuthenticateResponse"),
    ("< logout", "LogoutResponse"),
    ("< session/new", "NewSessionResponse"),
    ("< session/load", "LoadSessionResponse"),
    ("< session/resume", "ResumeSessionResponse"),
    ("< session/fork", "ForkSessionResponse"),
    ("< session/list", "ListSessionsResponse"),
    ("< session/close", "CloseSessionResponse"),
    ("< session/delete", "DeleteSessionResponse"),
    ("< session/prompt", "PromptResponse"),
    ("< session/set_mode", "SetSessionModeResponse"),
    ("< session/set_config_option", "SetSessionConfigOptionResponse"),
    ("error", "Error"),
];

/// The kinds of `session/update` that the agent sends.
const UPDATES: &[&str] = &[
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "session_info_update",
    "usage_update",
    "notice",
];

/// Reads a definition of the official schema. What is not stable is in a file of its own.
fn read_schema(definition: &str) -> Value {
    let folder = std::env::var("AGENTLS_ACP_SCHEMA").expect(
        "AGENTLS_ACP_SCHEMA names the folder `schema/v1` of the npm package @agentclientprotocol/sdk; tests/run.sh sets it",
    );
    let file = match definition {
        "ForkSessionResponse" => "schema.unstable.json",
        _ => "schema.json",
    };
    let text = std::fs::read_to_string(Path::new(&folder).join(file)).expect("the schema");
    let schema: Value = serde_json::from_str(&text).expect("the schema is JSON");
    assert!(schema["$defs"][definition].is_object(), "{definition} in {file}");
    json!({"$ref": format!("#/$defs/{definition}"), "$defs": schema["$defs"]})
}

impl FrameChecker {
    /// Notes a line to the agent.
    pub fn note_sent(&mut self, line: &str) {
        let message: Value = serde_json::from_str(line).expect("the client sends JSON");
        if let (Some(method), id) = (message["method"].as_str(), &message["id"])
            && !id.is_null()
        {
            self.asked.insert(id.to_string(), method.to_owned());
        }
    }

    /// Returns the kinds of frames and of updates that were never checked.
    pub fn list_unchecked(&self) -> Vec<&'static str> {
        let kinds = KINDS.iter().map(|(name, _)| *name);
        let missing = kinds.filter(|name| !self.validators.contains_key(name));
        let updates = UPDATES.iter().copied();
        missing
            .chain(updates.filter(|kind| !self.updates.contains(*kind)))
            .collect()
    }

    /// Another connection begins.
    pub fn forget_requests(&mut self) {
        self.asked.clear();
    }

    /// Checks a line of the agent; panics if it breaks the schema.
    pub fn check_received(&mut self, line: &str) {
        let message: Value = serde_json::from_str(line).expect("a line is JSON");
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        let (name, value) = match message["method"].as_str() {
            Some(method) => (format!("> {method}"), &message["params"]),
            None if message.get("error").is_some() => ("error".to_owned(), &message["error"]),
            None => {
                let method = self.asked.remove(&message["id"].to_string());
                (
                    format!("< {}", method.expect("an answer to a request")),
                    &message["result"],
                )
            }
        };
        let kind = KINDS.iter().find(|(known, _)| *known == name);
        let (name, definition) =
            *kind.unwrap_or_else(|| panic!("a frame that the protocol does not know: {line}"));
        let validator = self
            .validators
            .entry(name)
            .or_insert_with(|| jsonschema::validator_for(&read_schema(definition)).expect("a valid schema"));
        let problems: Vec<String> = validator
            .iter_errors(value)
            .map(|error| format!("{error} at {}", error.instance_path()))
            .collect();
        assert!(problems.is_empty(), "{name}: {problems:?}\n{line}");
        if let Some(kind) = value["update"]["sessionUpdate"].as_str() {
            assert!(UPDATES.contains(&kind), "an update that is not listed: {line}");
            self.updates.insert(kind.to_owned());
        }
    }
}
